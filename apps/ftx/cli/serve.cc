// SPDX-License-Identifier: Apache-2.0
#include "apps/common/entropy.h"
#include "apps/ftx/cli/console.h"
#include "apps/ftx/cli/host.h"
#include "apps/ftx/cli/program.h"
#include "apps/ftx/cli/traffic.h"
#include "apps/ftx/cli/url.h"
#include "apps/ftx/files/directory.h"
#include "apps/ftx/session/server.h"
#include "apps/ftx/transport/session_handlers.h"

namespace sluice::ftx {
namespace {

/// How long `serve --once` stays to answer a sender that missed the last report.
constexpr Duration once_linger = std::chrono::seconds(3);

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

}  // namespace

ExitCode serve(const ServeOptions& options) {
  Console console(options.json, Console::Side::receiver);
  auto destination = DirectoryDestination::serve(options.directory, entropy());
  if (!destination) {
    return console.fail({ExitCode::write_failed, destination.error().text});
  }
  auto host = Host::start(options);
  if (!host) {
    return console.fail(host.error());
  }
  Result<wire::IpAddress> local =
      options.listen.empty() ? Result<wire::IpAddress>(any_address(true)) : resolve(options.listen);
  if (!local) {
    return console.fail({ExitCode::usage, local.error().text});
  }
  auto transport = (*host)->open({*local, options.port});
  if (!transport && options.listen.empty()) {
    transport = (*host)->open({any_address(false), options.port});  // a stack without IPv6
  }
  if (!transport) {
    return console.fail(transport.error());
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
