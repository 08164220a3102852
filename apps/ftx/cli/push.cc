// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <memory>

#include "apps/common/entropy.h"
#include "apps/ftx/cli/console.h"
#include "apps/ftx/cli/host.h"
#include "apps/ftx/cli/program.h"
#include "apps/ftx/cli/traffic.h"
#include "apps/ftx/cli/url.h"
#include "apps/ftx/files/source.h"
#include "apps/ftx/protocol/name.h"
#include "apps/ftx/recovery/delivery_rate.h"
#include "apps/ftx/session/sender.h"
#include "apps/ftx/transport/session_handlers.h"

namespace sluice::ftx {
namespace {

class Push {
 public:
  Push(Host& host, Transport& transport, Sender& sender, std::string destination, Console& console)
      : host_(host),
        transport_(transport),
        sender_(sender),
        traffic_(host, transport, sender),
        destination_(std::move(destination)),
        console_(console) {}

  ExitCode run() {
    bool told = false;
    while (!sender_.finished()) {
      const TimePoint now = host_.loop().now();
      if (host_.interrupted() && !told) {
        sender_.interrupt(now);
        told = true;
      }
      const TimePoint until = traffic_.send(now);
      show_events();
      if (!sender_.finished()) {
        host_.wait(until);
      }
    }
    show_events();
    traffic_.end();
    transport_.drain(std::chrono::seconds(1));
    return sender_.exit_code();
  }

 private:
  void show_events() {
    while (auto event = traffic_.next_event()) {
      event->path = destination_;
      console_.show(*event);
    }
  }

  Host& host_;
  Transport& transport_;
  Sender& sender_;
  Traffic<Sender, SenderHandler> traffic_;
  std::string destination_;
  Console& console_;
};

/// What a frame of 1500 bytes holds beside the IP and UDP headers.
std::size_t default_datagram_bytes(bool v6) { return v6 ? 1452 : 1472; }

}  // namespace

ExitCode push(const PushOptions& options) {
  Console console(options.json, Console::Side::sender);
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
  const std::size_t datagram_bytes = options.datagram_bytes.value_or(default_datagram_bytes(address->is_v6()));
  if (adu_bytes_for(datagram_bytes) == 0 || datagram_bytes > (*transport)->tsdu_bytes()) {
    return console.fail({ExitCode::usage, fmt::format("--datagram-bytes {}: expected {} .. {}", datagram_bytes,
                                                      control_bytes_max, (*transport)->tsdu_bytes())});
  }
  std::unique_ptr<CongestionControl> congestion;
  if (options.rate_mbit) {
    congestion = std::make_unique<FixedRate>(static_cast<std::uint64_t>(*options.rate_mbit * 1e6 / 8));
  } else {
    congestion = std::make_unique<DeliveryRate>(datagram_bytes);
  }
  const SenderOptions sender_options{.peer = peer_of({*address, url->port}),
                                     .path = url->path,
                                     .tsdu_bytes = datagram_bytes,
                                     .seed = entropy(),
                                     .idle_timeout = seconds(options.idle_timeout_s)};
  if (!is_relative_path(url->path)) {
    return console.fail(
        {ExitCode::usage, fmt::format("'{}': the path must stay inside what the server serves: no '..', no "
                                      "empty component, no control characters",
                                      options.destination)});
  }
  Sender sender((*host)->loop().now(), sender_options, **source, *congestion);
  return Push(**host, **transport, sender, options.destination, console).run();
}

}  // namespace sluice::ftx
