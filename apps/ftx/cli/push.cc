// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "apps/common/entropy.h"
#include "apps/ftx/cli/console.h"
#include "apps/ftx/cli/host.h"
#include "apps/ftx/cli/program.h"
#include "apps/ftx/cli/sending.h"
#include "apps/ftx/cli/trust.h"
#include "apps/ftx/cli/url.h"
#include "apps/ftx/files/source.h"
#include "apps/ftx/protocol/name.h"

namespace sluice::ftx {

ExitCode push(const PushOptions& options) {
  Console console(options.form(), Console::Side::sender);
  const auto url = parse_url(options.destination);
  const auto address = url ? resolve(url->host) : std::unexpected(url.error());
  if (!address) {
    return console.fail({ExitCode::usage, address.error().text});
  }
  auto source = FileSource::open(options.sources);
  if (!source) {
    return console.fail(source.error());
  }
  auto host = Host::start(options);
  if (!host) {
    return console.fail(host.error());
  }
  auto transport = (*host)->open({any_address(address->is_v6()), 0});
  if (!transport) {
    return console.fail(transport.error());
  }
  const auto datagram = datagram_size_for(options, address->is_v6(), **host, **transport);
  if (!datagram) {
    return console.fail(datagram.error());
  }
  SenderOptions sender_options{.peer = peer_of({*address, url->port}),
                               .path = url->path,
                               .tsdu_bytes = datagram->bytes_max,
                               .ip_header_bytes = datagram->ip_header_bytes,
                               .seed = entropy(),
                               .idle_timeout = seconds(options.idle_timeout_s)};
  if (!is_relative_path(url->path)) {
    return console.fail(
        {ExitCode::usage, fmt::format("'{}': the path must stay inside what the server serves: no '..', no "
                                      "empty component, no control characters",
                                      options.destination)});
  }
  std::optional<Protection> protection;
  if (!options.insecure) {
    // Keys lie in ordinary memory, too, while a cipher works with them.
    [[maybe_unused]] const Status undumpable = forbid_core_dumps();
    auto acquainted = meet(**host, **transport, options.trust, *url, sender_options.peer, datagram->bytes_max);
    if (!acquainted) {
      return console.fail(acquainted.error());
    }
    protection = std::move(acquainted->protection);
    sender_options.tsdu_bytes = acquainted->tsdu_bytes;
  }
  const auto congestion = congestion_for(options, std::min(datagram->usual_bytes, sender_options.tsdu_bytes));
  Sender sender((*host)->loop().now(), sender_options, **source, *congestion, std::move(protection));
  return Sending(**host, **transport, sender, options.destination, console).run();
}

}  // namespace sluice::ftx
