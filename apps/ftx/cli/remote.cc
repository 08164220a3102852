// SPDX-License-Identifier: Apache-2.0
// `ftx remote`, the far side of a start. It shows nothing: what fails is told through the pipe before the transfer and
// by the session in it. It ends when the transfer is over or the pipe is, and leaves nothing behind.
#include <fmt/format.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>

#include "apps/common/entropy.h"
#include "apps/ftx/cli/fixed_destination.h"
#include "apps/ftx/cli/program.h"
#include "apps/ftx/cli/receiving.h"
#include "apps/ftx/cli/sealing.h"
#include "apps/ftx/cli/sending.h"
#include "apps/ftx/files/directory.h"
#include "apps/ftx/files/source.h"
#include "apps/ftx/remote/paths.h"
#include "apps/ftx/remote/ssh_command.h"
#include "apps/ftx/remote/start_pipe.h"

namespace sluice::ftx {
namespace {

/// The request is on its way when ssh starts us.
constexpr Duration request_time_max = std::chrono::seconds(60);
/// The near side gives up first, and says why.
constexpr Duration knock_time_max = std::chrono::seconds(60);
/// Who got the last report closes the pipe. Until then it may have been lost, however long the network is down.
constexpr Duration linger = std::chrono::seconds(30);

class Remote {
 public:
  Remote(Host& host, StartPipe& pipe, Console& console, std::string_view version)
      : host_(host), pipe_(pipe), console_(console), version_(version) {
    const char* connection = std::getenv("SSH_CONNECTION");
    ssh_ = parse_ssh_connection(connection != nullptr ? connection : "");
  }

  std::expected<ExitCode, Failure> run();

 private:
  std::expected<ExitCode, Failure> receive();
  std::expected<ExitCode, Failure> send();
  std::expected<std::unique_ptr<Transport>, Failure> open_transport();
  void answer(const Transport& transport);
  [[nodiscard]] std::optional<Failure> lost() const;
  [[nodiscard]] std::size_t datagram_bytes_max(const Transport& transport) const;
  [[nodiscard]] Duration idle_timeout() const { return std::chrono::milliseconds(request_.idle_timeout_ms); }

  Host& host_;
  StartPipe& pipe_;
  Console& console_;
  std::string version_;
  SshConnection ssh_;
  StartRequest request_;
};

std::expected<std::unique_ptr<Transport>, Failure> Remote::open_transport() {
  auto transport = host_.open({any_address(true), 0});
  return transport ? std::move(transport) : host_.open({any_address(false), 0});  // a host without IPv6
}

std::size_t Remote::datagram_bytes_max(const Transport& transport) const {
  const std::size_t wish = request_.datagram_bytes;
  return wish == 0 ? transport.tsdu_bytes() : std::min(wish, transport.tsdu_bytes());
}

void Remote::answer(const Transport& transport) {
  StartReady ready{.session_version = protocol_version,
                   .udp_port = transport.local().port,
                   .datagram_bytes = static_cast<std::uint32_t>(datagram_bytes_max(transport)),
                   .program = version_};
  if (const auto address = wire::IpAddress::from_text(ssh_.server)) {
    ready.address = *address;
  }
  pipe_.answer(ready);
}

std::optional<Failure> Remote::lost() const {
  return pipe_.ended() ? std::optional(Failure{ExitCode::interrupted, "the near side is gone"}) : std::nullopt;
}

std::expected<ExitCode, Failure> Remote::run() {
  auto request = pipe_.request(host_.loop().now() + request_time_max, [this] { return host_.interrupted(); });
  if (!request) {
    return std::unexpected(request.error());
  }
  request_ = *std::move(request);
  if (request_.session_version != protocol_version) {
    return std::unexpected(Failure{
        ExitCode::remote_version,
        fmt::format(
            "ftx {} here speaks version {} of the protocol, ftx {} there version {}: install the same version on "
            "both hosts",
            version_, protocol_version, request_.program, request_.session_version)});
  }
  if (adu_bytes_for(request_.datagram_bytes) == 0 && request_.datagram_bytes != 0) {
    return std::unexpected(Failure{
        ExitCode::usage, fmt::format("datagrams of {} bytes are too small or too large", request_.datagram_bytes)});
  }
  return request_.direction == StartDirection::push ? receive() : send();
}

std::expected<ExitCode, Failure> Remote::receive() {
  const auto path = from_home(request_.paths.front(), home_directory());
  const auto place = path ? place_of(*path) : std::unexpected(path.error());
  if (!place) {
    return std::unexpected(place.error());
  }
  auto destination = DirectoryDestination::serve(place->directory, entropy());
  if (!destination) {
    return std::unexpected(Failure{ExitCode::write_failed, destination.error().text});
  }
  auto transport = open_transport();
  if (!transport) {
    return std::unexpected(transport.error());
  }
  ServerOptions options;
  options.seed = entropy();
  options.tsdu_bytes = datagram_bytes_max(**transport);
  options.host_of = host_of;
  options.receive_room_bytes = (*transport)->receive_room();
  options.receiver.idle_timeout = idle_timeout();
  auto protection = protection_of(std::move(request_.secret), request_.cipher, Side::responder);
  if (!protection) {
    return std::unexpected(protection.error());
  }
  FixedDestination fixed(**destination, place->name, {});
  Server server(options, fixed);
  server.expect(*std::move(protection));
  answer(**transport);
  Receiving receiving(host_, **transport, server, console_, true);
  receiving.lost = [this] { return lost(); };
  receiving.linger = linger;
  return receiving.run();
}

std::expected<ExitCode, Failure> Remote::send() {
  const auto paths = expand(request_.paths, home_directory());
  if (!paths) {
    return std::unexpected(paths.error());
  }
  auto source = FileSource::open(*paths);
  if (!source) {
    return std::unexpected(source.error());
  }
  auto transport = open_transport();
  if (!transport) {
    return std::unexpected(transport.error());
  }
  const auto client = wire::IpAddress::from_text(ssh_.client);
  const auto datagram =
      datagram_size_for({}, !client || client->is_v6(), host_, **transport, datagram_bytes_max(**transport));
  if (!datagram) {
    return std::unexpected(datagram.error());
  }
  auto protection = protection_of(std::move(request_.secret), request_.cipher, Side::responder);
  if (!protection) {
    return std::unexpected(protection.error());
  }
  const SenderOptions options{.peer = {},
                              .waits_for_knock = true,
                              .path = {},
                              .tsdu_bytes = datagram->bytes_max,
                              .ip_header_bytes = datagram->ip_header_bytes,
                              .seed = entropy(),
                              .connect_timeout = knock_time_max,
                              .idle_timeout = idle_timeout()};
  answer(**transport);
  const auto congestion = congestion_for({}, datagram->usual_bytes);
  Sender sender(host_.loop().now(), options, **source, *congestion, *std::move(protection));
  Sending sending(host_, **transport, sender, {}, console_);
  sending.lost = [this] { return lost(); };
  return sending.run();
}

}  // namespace

ExitCode remote(std::string_view version) {
  Console console(Console::Form::nothing, Console::Side::receiver);
  if (::isatty(STDIN_FILENO) != 0) {
    fmt::print(stderr, "ftx: 'ftx remote' is for ftx itself, which runs it through ssh: ftx SRC... HOST:PATH\n");
    return ExitCode::usage;
  }
  // A near side that is gone is an error of write(), not the end of the process.
  std::signal(SIGPIPE, SIG_IGN);
  // Keys lie in ordinary memory, too, while a cipher works with them.
  [[maybe_unused]] const Status undumpable = forbid_core_dumps();
  auto host = Host::start({});
  if (!host) {
    fmt::print(stderr, "ftx: {}\n", host.error().text);
    return host.error().code;
  }
  // A hangup means that the pipe ends: what is half written is removed first.
  [[maybe_unused]] const Status hangup = (*host)->also_interrupted_by(SIGHUP);
  StartPipe pipe((*host)->loop(), STDIN_FILENO, STDOUT_FILENO);
  const auto code = Remote(**host, pipe, console, version).run();
  if (!code) {
    pipe.answer(code.error());
    return code.error().code;
  }
  return *code;
}

}  // namespace sluice::ftx
