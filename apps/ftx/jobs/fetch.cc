// SPDX-License-Identifier: Apache-2.0
// Files from a standing server.
#include <fmt/format.h>

#include <algorithm>

#include "apps/common/entropy.h"
#include "apps/ftx/jobs/confined.h"
#include "apps/ftx/jobs/fetch_destination.h"
#include "apps/ftx/jobs/fixed_destination.h"
#include "apps/ftx/jobs/host.h"
#include "apps/ftx/jobs/jobs.h"
#include "apps/ftx/jobs/observer.h"
#include "apps/ftx/jobs/reach.h"
#include "apps/ftx/jobs/receiving.h"
#include "apps/ftx/jobs/sending.h"
#include "apps/ftx/jobs/settling.h"
#include "apps/ftx/jobs/shown_destination.h"
#include "apps/ftx/jobs/trust.h"
#include "apps/ftx/jobs/url.h"
#include "apps/ftx/protocol/name.h"

namespace sluice::ftx {
namespace {

/// How long a server that has the request may take to offer: it opens the files meanwhile.
constexpr Duration offer_time_max = std::chrono::seconds(10);

std::unexpected<Failure> wrong(std::string text) { return std::unexpected(Failure{ExitCode::usage, std::move(text)}); }

/// Where the files are; their paths go into `paths`.
std::expected<Url, Failure> parse_sources(const PushOptions& options, std::vector<std::string>& paths) {
  std::optional<Url> server;
  for (const std::string& source : options.sources) {
    auto url = parse_url(source);
    if (!url) {
      return wrong(url.error().text);
    }
    if (server && (url->host != server->host || url->port != server->port)) {
      return wrong("all sources must be of one server");
    }
    const bool directory = url->path.empty() || url->path.ends_with('/');
    if ((directory && options.trees == Trees::none) || !is_relative_path(url->path)) {
      return wrong(
          fmt::format("'{}': name a file inside what the server serves: no '..', no empty component, no "
                      "control characters, no '/' at the end without -r",
                      printable(source)));
    }
    paths.push_back(url->path.empty() ? "/" : url->path);
    server = *std::move(url);
  }
  return *server;
}

}  // namespace

ExitCode fetch(const PushOptions& options, Observer& observer) {
  if (options.insecure) {
    return observer.fail({ExitCode::usage, "--insecure: files are fetched by encrypted sessions only"});
  }
  PullRequest request;
  const auto url = parse_sources(options, request.paths);
  if (!url) {
    return observer.fail(url.error());
  }
  Wanted wanted = wanted_of(request.paths, Wanted::Are::names, options.trees, options.select);
  wanted.deletion = options.deletion;
  request.trees = options.trees;
  request.select = options.select;
  ask_congestion(options, request.congestion, request.rate);
  request.compress = options.compress;
  request.delta = options.update.delta;
  if (!encode(request)) {
    return observer.fail({ExitCode::usage, fmt::format("the sources are too many for one transfer: {} of them, or with "
                                                       "filter rules and names {} bytes together, at most",
                                                       request_paths_max, request_bytes_max)});
  }
  const auto addresses = resolve_all(url->host);
  if (!addresses) {
    return observer.fail({ExitCode::usage, addresses.error().text});
  }
  const auto place = FetchDestination::open(options);
  if (!place) {
    return observer.fail(place.error());
  }
  if (wanted.names.size() > 1 && !(*place)->name().empty()) {
    return observer.fail({ExitCode::usage, fmt::format("'{}' is no directory, and several files need one",
                                                       printable(options.destination))});
  }
  auto host = Host::start(options);
  if (!host) {
    return observer.fail(host.error());
  }
  auto reach = Reach::to(**host, *addresses, url->port);
  if (!reach) {
    return observer.fail(reach.error());
  }
  Transport& transport = *reach->transport;
  const std::size_t tsdu_bytes = std::min(options.datagram_bytes.value_or(SIZE_MAX), transport.tsdu_bytes());
  if (adu_bytes_for(tsdu_bytes, true) == 0) {
    return observer.fail({ExitCode::usage, fmt::format("--datagram-bytes {}: expected {} .. {}", tsdu_bytes,
                                                       control_bytes_max, transport.tsdu_bytes())});
  }
  request.datagram_bytes = static_cast<std::uint32_t>(tsdu_bytes);
  forbid_core_dumps(options);
  const auto met = Acquaintance::meet(**host, transport, options, *url, reach->peers, tsdu_bytes, observer,
                                      (*place)->rights(), std::move(request));
  if (!met) {
    return observer.fail(met.error());
  }
  ClientHandshake& handshake = (*met)->handshake();
  ServerOptions server_options;
  server_options.seed = entropy();
  server_options.tsdu_bytes = tsdu_bytes;
  server_options.host_of = host_of;
  server_options.receive_room_bytes = transport.receive_room();
  server_options.receiver.idle_timeout = seconds(options.idle_timeout_s);
  server_options.receiver.update = options.update;
  ShownDestination shown((*place)->destination(), observer);
  FixedDestination fixed(shown, (*place)->name(), wanted);
  Server server(server_options, fixed);
  server.invite((*host)->loop().now(), handshake.take_protection(), {}, offer_time_max);
  auto carrier = std::make_unique<SettlingCarrier>(**host, transport, handshake, [&server] { return server.begun(); });
  Receiving receiving(**host, std::move(carrier), server, observer, true);
  receiving.shown_path = options.destination;
  receiving.lost = [&met] { return (*met)->refused(); };
  return (*place)->complete(receiving.run(), **host, observer);
}

}  // namespace sluice::ftx
