// SPDX-License-Identifier: Apache-2.0
// `ftx remote`, the far side of a start. It shows nothing: what fails is told through the pipe before the transfer and
// by the session in it. It ends when the transfer is over or the pipe is, and leaves nothing behind.
#include <fmt/format.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>

#include "apps/common/entropy.h"
#include "apps/ftx/files/directory.h"
#include "apps/ftx/files/source.h"
#include "apps/ftx/jobs/confined.h"
#include "apps/ftx/jobs/fixed_destination.h"
#include "apps/ftx/jobs/jobs.h"
#include "apps/ftx/jobs/journal_thread.h"
#include "apps/ftx/jobs/receiving.h"
#include "apps/ftx/jobs/sealing.h"
#include "apps/ftx/jobs/sending.h"
#include "apps/ftx/jobs/worker_threads.h"
#include "apps/ftx/remote/paths.h"
#include "apps/ftx/remote/ssh_command.h"
#include "apps/ftx/remote/start_pipe.h"
#include "apps/ftx/transport/pipe_transport.h"

namespace sluice::ftx {
namespace {

/// Of a range; a system call or two each.
constexpr int ports_tried_max = 1024;

/// The near side may look through a large tree, or read all of it for its digests, before it asks. It is gone when the
/// pipe is.
constexpr Duration request_time_max = std::chrono::hours(24);
/// The near side gives up first, and says why.
constexpr Duration knock_time_max = std::chrono::seconds(60);
/// Who got the last report closes the pipe. Until then it may have been lost, however long the network is down.
constexpr Duration linger = std::chrono::seconds(30);

class Remote {
 public:
  Remote(Host& host, StartPipe& pipe, Observer& observer, std::string_view version)
      : host_(host), pipe_(pipe), observer_(observer), version_(version), home_(home_directory()) {
    const char* connection = std::getenv("SSH_CONNECTION");
    ssh_ = parse_ssh_connection(connection != nullptr ? connection : "");
  }

  std::expected<ExitCode, Failure> run();

 private:
  // no_answer: the near side goes on through the pipe.
  std::expected<ExitCode, Failure> receive();
  std::expected<ExitCode, Failure> receive_by_udp(Destination& destination);
  std::expected<ExitCode, Failure> receive_by_pipe(Destination& destination);
  std::expected<ExitCode, Failure> send();
  std::expected<ExitCode, Failure> send_by_udp(Source& source);
  std::expected<ExitCode, Failure> send_by_pipe(Source& source);
  std::expected<std::unique_ptr<Transport>, Failure> open_transport();
  [[nodiscard]] std::expected<std::unique_ptr<FileSource>, Failure> open_source() const;
  std::expected<Protection, Failure> go_over();
  void answer(const Transport& transport);
  [[nodiscard]] std::optional<Failure> lost() const;
  [[nodiscard]] std::optional<Failure> lost(PipeCarrier& pipe) const;
  [[nodiscard]] std::size_t datagram_bytes_max(const Transport& transport) const;
  [[nodiscard]] Duration idle_timeout() const { return std::chrono::milliseconds(request_.idle_timeout_ms); }
  [[nodiscard]] std::unique_ptr<PipeCarrier> pipe() const {
    return std::make_unique<PipeCarrier>(host_, pipe_.in(), pipe_.out());
  }
  [[nodiscard]] ServerOptions server_options(std::size_t tsdu_bytes, std::uint64_t receive_room_bytes) const;

  Host& host_;
  StartPipe& pipe_;
  Observer& observer_;
  std::string version_;
  std::string home_;
  SshConnection ssh_;
  StartRequest request_;
  std::vector<std::string> sources_;  // of a pull
  FileRights files_;
};

/// At the first port that is free of those that the near side names.
std::expected<std::unique_ptr<Transport>, Failure> Remote::open_transport() {
  const PortRange ports = request_.ports;
  const int last = std::min<int>(ports.last, ports.first + ports_tried_max - 1);
  std::expected<std::unique_ptr<Transport>, Failure> transport;
  for (int port = ports.first; port <= last; ++port) {
    transport = host_.open({any_address(true), static_cast<std::uint16_t>(port)});
    if (!transport) {
      transport = host_.open({any_address(false), static_cast<std::uint16_t>(port)});  // a host without IPv6
    }
    if (transport) {
      break;
    }
  }
  if (!transport && ports.first != 0) {
    transport.error().text =
        fmt::format("no UDP port of {}-{} is free there: {}", ports.first, ports.last, transport.error().text);
  }
  return transport;
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
  // The near side sends when it has the answer.
  [[maybe_unused]] const Status confined = restrict_files(files_);
  pipe_.answer(ready);
}

std::optional<Failure> Remote::lost() const {
  return pipe_.ended() ? std::optional(Failure{ExitCode::interrupted, "the near side is gone"}) : std::nullopt;
}

std::expected<ExitCode, Failure> Remote::run() {
  // What a push keeps is said by its list alone.
  [[maybe_unused]] const Status confined = restrict_calls({.owners = true, .attributes = true});
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
  if (request_.direction == StartDirection::push) {
    return receive();
  }
  [[maybe_unused]] const Status without = restrict_calls({});
  return send();
}

/// Answers the near side, and keys the session in the pipe.
std::expected<Protection, Failure> Remote::go_over() {
  host_.close();
  return protection_of(pipe_.switch_over(), request_.cipher, Side::responder);
}

std::optional<Failure> Remote::lost(PipeCarrier& pipe) const {
  if (auto trouble = pipe.trouble(idle_timeout())) {
    return trouble;
  }
  return pipe.ended() ? std::optional(Failure{ExitCode::interrupted, "the near side is gone"}) : std::nullopt;
}

ServerOptions Remote::server_options(std::size_t tsdu_bytes, std::uint64_t receive_room_bytes) const {
  ServerOptions options;
  options.seed = entropy();
  options.tsdu_bytes = tsdu_bytes;
  options.host_of = host_of;
  options.receive_room_bytes = receive_room_bytes;
  options.receiver.idle_timeout = idle_timeout();
  return options;
}

// ---- push: this side receives ----

std::expected<ExitCode, Failure> Remote::receive() {
  const auto path = from_home(request_.paths.front(), home_);
  const auto place = path ? place_of(*path) : std::unexpected(path.error());
  if (!place) {
    return std::unexpected(place.error());
  }
  JournalThread journals;
  WorkerThreads workers;
  auto destination =
      DirectoryDestination::serve(place->directory, entropy(), LandBy::faster,
                                  {.keep = request_.keep_partial, .verify = request_.verify, .keeper = &journals});
  if (!destination) {
    return std::unexpected(Failure{ExitCode::write_failed, destination.error().text});
  }
  (*destination)->employ(workers);
  (*destination)->allow_deletion();
  (*destination)->keep({.user = true, .group = true, .attributes = true, .accounts = Accounts::of_this_host()});
  files_ = rights_to_receive(place->directory);
  FixedDestination fixed(**destination, place->name, {});
  const auto code = receive_by_udp(fixed);
  return code && *code == ExitCode::no_answer ? receive_by_pipe(fixed) : code;
}

std::expected<ExitCode, Failure> Remote::receive_by_udp(Destination& destination) {
  auto transport = open_transport();
  if (!transport) {
    return std::unexpected(transport.error());
  }
  auto protection = protection_of(std::move(request_.secret), request_.cipher, Side::responder);
  if (!protection) {
    return std::unexpected(protection.error());
  }
  Server server(server_options(datagram_bytes_max(**transport), (*transport)->receive_room()), destination);
  server.expect(*std::move(protection));
  answer(**transport);
  Receiving receiving(host_, **transport, server, observer_, true);
  receiving.lost = [this] { return lost(); };
  receiving.left = [this] { return pipe_.switch_asked(); };
  receiving.linger = linger;
  const ExitCode code = receiving.run();
  host_.close();
  return code;
}

std::expected<ExitCode, Failure> Remote::receive_by_pipe(Destination& destination) {
  auto protection = go_over();
  if (!protection) {
    return protection.error().code;
  }
  Server server(server_options(PipeTransport::tsdu_bytes, PipeTransport::receive_room_bytes), destination);
  server.expect(*std::move(protection));
  auto carrier = pipe();
  PipeCarrier& pipe = *carrier;
  Receiving receiving(host_, std::move(carrier), server, observer_, true);
  receiving.lost = [this, &pipe] { return lost(pipe); };
  receiving.linger = linger;
  return receiving.run();
}

// ---- pull: this side sends ----

std::expected<std::unique_ptr<FileSource>, Failure> Remote::open_source() const {
  // Names, too, where a pull is by number: who receives passes over them.
  const bool owners = request_.select.user || request_.select.group;
  return FileSource::open(sources_, {.trees = request_.trees,
                                     .pack = true,
                                     .select = request_.select,
                                     .accounts = owners ? Accounts::of_this_host() : nullptr});
}

std::expected<ExitCode, Failure> Remote::send() {
  auto paths = expand(request_.paths, home_);
  if (!paths) {
    return std::unexpected(paths.error());
  }
  sources_ = *std::move(paths);
  files_ = rights_to_send(sources_);
  auto source = open_source();
  if (!source) {
    return std::unexpected(source.error());
  }
  const auto code = send_by_udp(**source);
  if (!code || *code != ExitCode::no_answer) {
    return code;
  }
  // Anew, as the session is.
  source = open_source();
  return source ? send_by_pipe(**source) : std::unexpected(source.error());
}

std::expected<ExitCode, Failure> Remote::send_by_udp(Source& source) {
  auto transport = open_transport();
  if (!transport) {
    return std::unexpected(transport.error());
  }
  const auto client = wire::IpAddress::from_text(ssh_.client);
  const auto datagram = datagram_size_for({}, !client || client->is_v6(), **transport, datagram_bytes_max(**transport));
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
                              .delta = request_.delta,
                              .tsdu_bytes = datagram->bytes_max,
                              .ip_header_bytes = datagram->ip_header_bytes,
                              .compress = request_.compress,
                              .clock = cost_clock,
                              .seed = entropy(),
                              .connect_timeout = knock_time_max,
                              .idle_timeout = idle_timeout()};
  answer(**transport);
  const auto congestion = congestion_for(asked_of(request_.congestion, request_.rate), datagram->usual_bytes);
  Sender sender(host_.loop().now(), options, source, *congestion, *std::move(protection));
  Sending sending(host_, **transport, sender, {}, observer_);
  sending.lost = [this] { return lost(); };
  sending.left = [this] { return pipe_.switch_asked(); };
  const ExitCode code = sending.run();
  host_.close();
  return code == ExitCode::no_answer && !pipe_.switch_asked() ? ExitCode::timeout : code;
}

std::expected<ExitCode, Failure> Remote::send_by_pipe(Source& source) {
  auto protection = go_over();
  if (!protection) {
    return protection.error().code;
  }
  const SenderOptions options{.peer = pipe_peer(),
                              .waits_for_knock = true,
                              .path = {},
                              .delta = request_.delta,
                              .tsdu_bytes = PipeTransport::tsdu_bytes,
                              .compress = request_.compress,
                              .clock = cost_clock,
                              .seed = entropy(),
                              .connect_timeout = knock_time_max,
                              .idle_timeout = idle_timeout()};
  const auto congestion = pipe_congestion_for(asked_of(request_.congestion, request_.rate));
  Sender sender(host_.loop().now(), options, source, *congestion, *std::move(protection));
  auto carrier = pipe();
  PipeCarrier& pipe = *carrier;
  Sending sending(host_, std::move(carrier), sender, {}, observer_);
  sending.lost = [this, &pipe] { return lost(pipe); };
  return sending.run();
}

}  // namespace

ExitCode remote(std::string_view version) {
  Unobserved nobody;
  if (::isatty(STDIN_FILENO) != 0) {
    fmt::print(stderr, "ftx: 'ftx remote' is for ftx itself, which runs it through ssh: ftx SRC... HOST:PATH\n");
    return ExitCode::usage;
  }
  // A near side that is gone is an error of write(), not the end of the process.
  std::signal(SIGPIPE, SIG_IGN);
  forbid_core_dumps(CommonOptions());
  auto host = Host::start({});
  if (!host) {
    fmt::print(stderr, "ftx: {}\n", host.error().text);
    return host.error().code;
  }
  // A hangup means that the pipe ends: what is half written is removed first.
  [[maybe_unused]] const Status hangup = (*host)->also_interrupted_by(SIGHUP);
  StartPipe pipe((*host)->loop(), STDIN_FILENO, STDOUT_FILENO);
  const auto code = Remote(**host, pipe, nobody, version).run();
  if (!code) {
    pipe.answer(code.error());
    return code.error().code;
  }
  return *code;
}

}  // namespace sluice::ftx
