// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "apps/common/entropy.h"
#include "apps/ftx/jobs/confined.h"
#include "apps/ftx/jobs/host.h"
#include "apps/ftx/jobs/jobs.h"
#include "apps/ftx/jobs/observer.h"
#include "apps/ftx/jobs/push_source.h"
#include "apps/ftx/jobs/reach.h"
#include "apps/ftx/jobs/sending.h"
#include "apps/ftx/jobs/settling.h"
#include "apps/ftx/jobs/trust.h"
#include "apps/ftx/jobs/url.h"
#include "apps/ftx/protocol/name.h"

namespace sluice::ftx {

ExitCode push(const PushOptions& options, Observer& observer) {
  const auto url = parse_url(options.destination);
  const auto addresses = url ? resolve_all(url->host) : std::unexpected(url.error());
  if (!addresses) {
    return observer.fail({ExitCode::usage, addresses.error().text});
  }
  if (options.insecure && options.select.digests) {
    return observer.fail({ExitCode::usage, "--checksum: contents are compared by encrypted sessions only"});
  }
  if (options.insecure && options.update.delta) {
    return observer.fail({ExitCode::usage, "--delta: what is there already is told by encrypted sessions only"});
  }
  if (options.insecure && options.update.told) {
    return observer.fail(
        {ExitCode::usage, "--dry-run and --itemize-changes: what would change is told by encrypted sessions only"});
  }
  if (sends_input(options)) {
    if (const auto good = check_input(options, url->path); !good) {
      return observer.fail(good.error());
    }
  }
  auto source = PushSource::open(options);
  if (!source) {
    return observer.fail(source.error());
  }
  source->show_left_out(observer);
  auto host = Host::start(options);
  if (!host) {
    return observer.fail(host.error());
  }
  if (!is_relative_path(url->path)) {
    return observer.fail(
        {ExitCode::usage, fmt::format("'{}': the path must stay inside what the server serves: no '..', no "
                                      "empty component, no control characters",
                                      options.destination)});
  }
  if (const auto read = read_digests(**source, **host); !read) {
    return observer.fail(read.error());
  }
  auto reach = Reach::to(**host, *addresses, url->port);
  if (!reach) {
    return observer.fail(reach.error());
  }
  auto datagram = datagram_size_for(options, reach->v6, *reach->transport);
  if (!datagram) {
    return observer.fail(datagram.error());
  }
  SenderOptions sender_options{.peer = reach->peers.front(),
                               .others = {reach->peers.begin() + 1, reach->peers.end()},
                               .path = url->path,
                               .update = options.update,
                               .delta = options.update.delta,
                               .tsdu_bytes = datagram->bytes_max,
                               .ip_header_bytes = datagram->ip_header_bytes,
                               .compress = options.compress,
                               .clock = cost_clock,
                               .seed = entropy(),
                               .idle_timeout = seconds(options.idle_timeout_s)};
  const FileRights files = source->rights();
  const InputNews news(**host, *source);
  if (options.insecure) {
    confine(options, files, observer);
    const auto congestion = congestion_for(options, datagram->usual_bytes);
    Sender sender((*host)->loop().now(), sender_options, **source, *congestion);
    return Sending(**host, *reach->transport, sender, options.destination, observer).run();
  }
  forbid_core_dumps(options);
  const auto met =
      Acquaintance::meet(**host, *reach->transport, options, *url, reach->peers, datagram->bytes_max, observer, files);
  if (!met) {
    return observer.fail(met.error());
  }
  ClientHandshake& handshake = (*met)->handshake();
  datagram = datagram_size_for(options, is_v6(handshake.peer()), *reach->transport, handshake.tsdu_bytes());
  if (!datagram) {
    return observer.fail(datagram.error());
  }
  sender_options.peer = handshake.peer();
  sender_options.others.clear();
  sender_options.tsdu_bytes = datagram->bytes_max;
  sender_options.ip_header_bytes = datagram->ip_header_bytes;
  const auto congestion = congestion_for(options, datagram->usual_bytes);
  Sender sender((*host)->loop().now(), sender_options, **source, *congestion, handshake.take_protection());
  auto carrier =
      std::make_unique<SettlingCarrier>(**host, *reach->transport, handshake, [&sender] { return sender.answered(); });
  Sending sending(**host, std::move(carrier), sender, options.destination, observer);
  sending.lost = [&met] { return (*met)->refused(); };
  return sending.run();
}

}  // namespace sluice::ftx
