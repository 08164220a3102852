// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/cli/program.h"

#include <fmt/format.h>

#include <csignal>
#include <optional>

#include "apps/common/addresses.h"
#include "apps/common/entropy.h"
#include "apps/common/host_stream.h"
#include "apps/common/registry.h"
#include "apps/ftx/cli/console.h"
#include "apps/ftx/cli/url.h"
#include "apps/ftx/files/directory.h"
#include "apps/ftx/files/source.h"
#include "apps/ftx/protocol/name.h"
#include "apps/ftx/recovery/bbr.h"
#include "apps/ftx/recovery/cubic.h"
#include "apps/ftx/recovery/fixed_rate.h"
#include "apps/ftx/recovery/ledbat.h"
#include "apps/ftx/session/sender.h"
#include "apps/ftx/session/server.h"
#include "apps/ftx/transport/session_handlers.h"
#include "apps/ftx/transport/transport.h"
#include "edge/run_loop.h"

namespace sluice::ftx {
namespace {

/// The stack without --stack; it needs no privilege.
constexpr std::string_view default_stack = R"(
[stack.kernel]
mode   = "fused"
driver = { kind = "kernel_udp" }
push   = ["timod"]
)";

/// How long to wait when the transport is full. The wait ends earlier when the transport has room again.
constexpr Duration full_wait_max = std::chrono::milliseconds(100);
/// How long `serve --once` stays to answer a sender that missed the last report.
constexpr Duration once_linger = std::chrono::seconds(3);
/// On a fused path payloads from here on have a plan: they come from files and go to files, so that each pass less
/// counts.
constexpr std::size_t fused_payload_bytes_min = 1024;
/// Datagrams sent before the program receives again.
constexpr std::size_t burst_max = 64;

Duration seconds(double value) { return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(value)); }

/// What both jobs need: stream set, run loop, signals and the declared stack.
class Host {
 public:
  static std::expected<std::unique_ptr<Host>, Failure> start(const CommonOptions& options) {
    // A file beyond the process's size limit is a write error (EFBIG), not the end of the process.
    std::signal(SIGXFSZ, SIG_IGN);
    std::unique_ptr<Host> host(new Host());
    auto loop = RunLoop::open(host->set_);
    if (!loop) {
      return std::unexpected(Failure{ExitCode::stack_unusable, loop.error().text});
    }
    host->loop_ = std::move(*loop);
    for (const int signal : {SIGINT, SIGTERM}) {
      const Status status = host->loop_->on_signal(signal, [raw = host.get()] { raw->interrupted_ = true; });
      if (!status) {
        return std::unexpected(Failure{ExitCode::stack_unusable, status.error().text});
      }
    }
    auto file = options.stack_file.empty() ? StackFile::parse(default_stack, "built-in", host->registry_)
                                           : StackFile::load(options.stack_file, host->registry_);
    if (!file) {
      return std::unexpected(Failure{ExitCode::bad_stack_file, file.error().text});
    }
    auto stack = file->find(options.stack_name);
    if (!stack) {
      return std::unexpected(Failure{ExitCode::bad_stack_file, stack.error().text});
    }
    host->stack_ = **stack;
    host->stack_.mode = options.mode.value_or(host->stack_.mode);
    return host;
  }

  std::expected<std::unique_ptr<Transport>, Failure> open(const wire::TransportAddress& local) {
    auto transport = Transport::open(set_, *loop_, stack_, local);
    if (transport) {
      auto host = HostStream::open(set_, *loop_, stack_);
      if (!host) {
        return std::unexpected(Failure{ExitCode::stack_unusable, host.error().text});
      }
      host_ = *std::move(host);
      addresses_.emplace((*transport)->stream(), "ftx");
      if (!addresses_->settle(*loop_, [this] { return interrupted_; })) {
        return std::unexpected(Failure{ExitCode::stack_unusable, "the stack has no address of its own"});
      }
    }
    return transport;
  }

  /// Waits as the loop does, then tells what is new of the stack's addresses.
  void wait(TimePoint deadline) {
    [[maybe_unused]] const bool happened = loop_->wait(deadline);
    addresses_->tell();
  }

  [[nodiscard]] RunLoop& loop() { return *loop_; }
  /// The passes over payload so far.
  [[nodiscard]] const Touches& touches() { return set_.pool().touches(); }
  [[nodiscard]] bool interrupted() const { return interrupted_; }

 private:
  Host() : set_(StreamSet::Options{.defer_bytes_min = fused_payload_bytes_min, .seed = entropy()}) {}

  StreamSet set_;
  Registry registry_ = standard_registry();
  StackDeclaration stack_;  // points into the registry
  std::unique_ptr<RunLoop> loop_;
  std::optional<AddressWatch> addresses_;
  std::unique_ptr<HostStream> host_;
  bool interrupted_ = false;
};

ExitCode report(Console& console, const Failure& failure) {
  console.fail(failure);
  return failure.code;
}

/// The wildcard address of IPv6 or IPv4. The IPv6 one serves both where the provider can.
wire::IpAddress any_address(bool v6) {
  return v6 ? wire::IpAddress(wire::Ipv6Address{}) : wire::IpAddress(wire::Ipv4Address{});
}

/// A session on a transport: what both jobs do alike. `Handler` is the session's datagram handler. What arrives is
/// received in the loop; the job sends.
template <class Session, class Handler>
class Traffic {
 public:
  Traffic(Host& host, Transport& transport, Session& session)
      : host_(host), transport_(transport), session_(session), handler_(session) {
    host_.loop().attend(transport_.stream(), [this] {
      handler_.now = host_.loop().now();
      return transport_.receive(handler_);
    });
  }

  ~Traffic() { end(); }
  Traffic(const Traffic&) = delete;
  Traffic& operator=(const Traffic&) = delete;

  /// The loop receives no more.
  void end() { host_.loop().unattend(transport_.stream()); }

  /// Sends as much as may go before the program receives again; answers when to send again.
  TimePoint send(TimePoint now) {
    for (std::size_t sent = 0; sent < burst_max; sent += burst_.left().size()) {
      if (!transport_.send(burst_) || !transport_.can_send()) {
        return now + full_wait_max;
      }
      session_.transmit(now, burst_);
      if (burst_.left().empty()) {
        return session_.next_deadline();
      }
    }
    return transport_.send(burst_) ? now : now + full_wait_max;
  }

  /// The session's next event.
  std::optional<Event> next_event() {
    auto event = session_.next_event();
    if (event) {
      event->loaded_bytes = host_.touches().loaded_bytes;
      event->stored_bytes = host_.touches().stored_bytes;
    }
    return event;
  }

 private:
  Host& host_;
  Transport& transport_;
  Session& session_;
  Handler handler_;
  Burst burst_;  // what a full transport has not taken is sent first
};

// ---- sending ----

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

// ---- receiving ----

class Serve {
 public:
  Serve(Host& host, Transport& transport, Server& server, Console& console, bool once)
      : host_(host),
        transport_(transport),
        server_(server),
        traffic_(host, transport, server),
        console_(console),
        once_(once) {}

  ExitCode run() {
    while (!ended()) {
      now_ = host_.loop().now();
      if (host_.interrupted()) {
        server_.interrupt(now_);
        traffic_.send(now_);  // tells the peers
        show_events();
        outcome_ = ExitCode::interrupted;
        break;
      }
      const TimePoint until = traffic_.send(now_);
      show_events();
      host_.wait(once_ ? std::min(until, ends_at_) : until);
    }
    show_events();
    traffic_.end();
    transport_.drain(std::chrono::seconds(1));
    return outcome_;
  }

 private:
  /// `serve --once` ends when the peers have closed or do not answer any more.
  [[nodiscard]] bool ended() const {
    return once_ && ends_at_ != never && server_.open_sessions() == 0 && (server_.sessions() == 0 || now_ >= ends_at_);
  }

  void show_events() {
    while (auto event = traffic_.next_event()) {
      console_.show(*event);
      if (event->kind == Event::Kind::done || event->kind == Event::Kind::error) {
        outcome_ = event->kind == Event::Kind::done ? ExitCode::ok : event->code;
        ends_at_ = now_ + once_linger;
      }
    }
  }

  Host& host_;
  Transport& transport_;
  Server& server_;
  Traffic<Server, ServerHandler> traffic_;
  Console& console_;
  bool once_;
  TimePoint ends_at_ = never;  // set by the first outcome
  ExitCode outcome_ = ExitCode::ok;
  TimePoint now_{};
};

/// What a frame of 1500 bytes holds beside the IP and UDP headers.
std::size_t default_datagram_bytes(bool v6) { return v6 ? 1452 : 1472; }

}  // namespace

ExitCode push(const PushOptions& options) {
  Console console(options.json, Console::Side::sender);
  const auto url = parse_url(options.destination);
  const auto address = url ? resolve(url->host) : std::unexpected(url.error());
  if (!address) {
    return report(console, {ExitCode::usage, address.error().text});
  }
  auto source = FileSource::open(options.sources);
  if (!source) {
    return report(console, source.error());
  }
  auto host = Host::start(options);
  if (!host) {
    return report(console, host.error());
  }
  auto transport = (*host)->open({any_address(address->is_v6()), 0});
  if (!transport) {
    return report(console, transport.error());
  }
  const std::size_t datagram_bytes = options.datagram_bytes.value_or(default_datagram_bytes(address->is_v6()));
  if (adu_bytes_for(datagram_bytes) == 0 || datagram_bytes > (*transport)->tsdu_bytes()) {
    return report(console, {ExitCode::usage, fmt::format("--datagram-bytes {}: expected {} .. {}", datagram_bytes,
                                                         control_bytes_max, (*transport)->tsdu_bytes())});
  }
  std::unique_ptr<CongestionControl> congestion;
  if (options.rate_mbit) {
    congestion = std::make_unique<FixedRate>(static_cast<std::uint64_t>(*options.rate_mbit * 1e6 / 8));
  } else if (options.background) {
    congestion = std::make_unique<Ledbat>(datagram_bytes);
  } else if (options.cubic) {
    congestion = std::make_unique<Cubic>(datagram_bytes);
  } else {
    congestion = std::make_unique<Bbr>(datagram_bytes, entropy());
  }
  const SenderOptions sender_options{.peer = peer_of({*address, url->port}),
                                     .path = url->path,
                                     .tsdu_bytes = datagram_bytes,
                                     .seed = entropy(),
                                     .idle_timeout = seconds(options.idle_timeout_s)};
  if (!is_relative_path(url->path)) {
    return report(console,
                  {ExitCode::usage, fmt::format("'{}': the path must stay inside what the server serves: no '..', no "
                                                "empty component, no control characters",
                                                options.destination)});
  }
  Sender sender((*host)->loop().now(), sender_options, **source, *congestion);
  return Push(**host, **transport, sender, options.destination, console).run();
}

ExitCode serve(const ServeOptions& options) {
  Console console(options.json, Console::Side::receiver);
  auto destination = DirectoryDestination::serve(options.directory, entropy());
  if (!destination) {
    return report(console, {ExitCode::write_failed, destination.error().text});
  }
  auto host = Host::start(options);
  if (!host) {
    return report(console, host.error());
  }
  Result<wire::IpAddress> local =
      options.listen.empty() ? Result<wire::IpAddress>(any_address(true)) : resolve(options.listen);
  if (!local) {
    return report(console, {ExitCode::usage, local.error().text});
  }
  auto transport = (*host)->open({*local, options.port});
  if (!transport && options.listen.empty()) {
    transport = (*host)->open({any_address(false), options.port});  // a stack without IPv6
  }
  if (!transport) {
    return report(console, transport.error());
  }
  ServerOptions server_options;
  server_options.seed = entropy();
  server_options.tsdu_bytes = (*transport)->tsdu_bytes();
  server_options.host_of = host_of;
  server_options.receiver.idle_timeout = seconds(options.idle_timeout_s);
  Server server(server_options, **destination);
  Event listening;
  listening.kind = Event::Kind::listening;
  listening.path = (*transport)->local().to_text();
  console.show(listening);
  return Serve(**host, **transport, server, console, options.once).run();
}

}  // namespace sluice::ftx
