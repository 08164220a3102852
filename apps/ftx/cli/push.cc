// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "apps/common/entropy.h"
#include "apps/ftx/cli/confined.h"
#include "apps/ftx/cli/console.h"
#include "apps/ftx/cli/host.h"
#include "apps/ftx/cli/program.h"
#include "apps/ftx/cli/reach.h"
#include "apps/ftx/cli/sending.h"
#include "apps/ftx/cli/settling.h"
#include "apps/ftx/cli/trust.h"
#include "apps/ftx/cli/url.h"
#include "apps/ftx/files/source.h"
#include "apps/ftx/protocol/name.h"

namespace sluice::ftx {

ExitCode push(const PushOptions& options) {
  Console console(options.console);
  const auto url = parse_url(options.destination);
  const auto addresses = url ? resolve_all(url->host) : std::unexpected(url.error());
  if (!addresses) {
    return console.fail({ExitCode::usage, addresses.error().text});
  }
  if (options.insecure && options.select.digests) {
    return console.fail({ExitCode::usage, "--checksum: contents are compared by encrypted sessions only"});
  }
  if (options.insecure && options.update.told) {
    return console.fail(
        {ExitCode::usage, "--dry-run and --itemize-changes: what would change is told by encrypted sessions only"});
  }
  auto source = FileSource::open(options.sources, options.source_options());
  if (!source) {
    return console.fail(source.error());
  }
  show_left_out(**source, console);
  auto host = Host::start(options);
  if (!host) {
    return console.fail(host.error());
  }
  if (!is_relative_path(url->path)) {
    return console.fail(
        {ExitCode::usage, fmt::format("'{}': the path must stay inside what the server serves: no '..', no "
                                      "empty component, no control characters",
                                      options.destination)});
  }
  if (const auto read = read_digests(**source, **host); !read) {
    return console.fail(read.error());
  }
  auto reach = Reach::to(**host, *addresses, url->port);
  if (!reach) {
    return console.fail(reach.error());
  }
  auto datagram = datagram_size_for(options, reach->v6, **host, *reach->transport);
  if (!datagram) {
    return console.fail(datagram.error());
  }
  SenderOptions sender_options{.peer = reach->peers.front(),
                               .path = url->path,
                               .update = options.update,
                               .tsdu_bytes = datagram->bytes_max,
                               .ip_header_bytes = datagram->ip_header_bytes,
                               .seed = entropy(),
                               .idle_timeout = seconds(options.idle_timeout_s)};
  const FileRights files = rights_to_send(options.sources);
  if (options.insecure) {
    confine(console, files, call_rights_of(options));
    const auto congestion = congestion_for(options, datagram->usual_bytes);
    Sender sender((*host)->loop().now(), sender_options, **source, *congestion);
    return Sending(**host, *reach->transport, sender, options.destination, console).run();
  }
  // Keys lie in ordinary memory, too, while a cipher works with them.
  [[maybe_unused]] const Status undumpable = forbid_core_dumps();
  const auto met =
      Acquaintance::meet(**host, *reach->transport, options, *url, reach->peers, datagram->bytes_max, console, files);
  if (!met) {
    return console.fail(met.error());
  }
  ClientHandshake& handshake = (*met)->handshake();
  datagram = datagram_size_for(options, is_v6(handshake.peer()), **host, *reach->transport, handshake.tsdu_bytes());
  if (!datagram) {
    return console.fail(datagram.error());
  }
  sender_options.peer = handshake.peer();
  sender_options.tsdu_bytes = datagram->bytes_max;
  sender_options.ip_header_bytes = datagram->ip_header_bytes;
  const auto congestion = congestion_for(options, datagram->usual_bytes);
  Sender sender((*host)->loop().now(), sender_options, **source, *congestion, handshake.take_protection());
  auto carrier =
      std::make_unique<SettlingCarrier>(**host, *reach->transport, handshake, [&sender] { return sender.answered(); });
  Sending sending(**host, std::move(carrier), sender, options.destination, console);
  sending.lost = [&met] { return (*met)->refused(); };
  return sending.run();
}

}  // namespace sluice::ftx
