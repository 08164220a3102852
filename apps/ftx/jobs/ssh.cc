// SPDX-License-Identifier: Apache-2.0
// Transfers that start through ssh, the near side.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <vector>

#include "apps/common/entropy.h"
#include "apps/ftx/jobs/confined.h"
#include "apps/ftx/jobs/fetch_destination.h"
#include "apps/ftx/jobs/fixed_destination.h"
#include "apps/ftx/jobs/jobs.h"
#include "apps/ftx/jobs/memory_destination.h"
#include "apps/ftx/jobs/probe.h"
#include "apps/ftx/jobs/push_source.h"
#include "apps/ftx/jobs/receiving.h"
#include "apps/ftx/jobs/sealing.h"
#include "apps/ftx/jobs/sending.h"
#include "apps/ftx/jobs/shown_destination.h"
#include "apps/ftx/jobs/url.h"
#include "apps/ftx/remote/operand.h"
#include "apps/ftx/remote/remote_start.h"
#include "apps/ftx/transport/pipe_transport.h"
#include "stack/wire/zone.h"

namespace sluice::ftx {
namespace {

/// How long UDP is tried, where it is the only way.
constexpr Duration knock_time_max = std::chrono::seconds(10);
/// How long it is tried before the transfer goes on over the pipe: this, and some round trips of the pipe.
constexpr Duration udp_time = std::chrono::seconds(3);
constexpr int udp_time_round_trips = 3;
/// How long the far side may take to go over to the pipe.
constexpr Duration switch_time_max = std::chrono::seconds(20);

/// What pushing and pulling do alike.
class Near {
 public:
  Near(const PushOptions& options, Operand there, Observer& observer)
      : options_(options), there_(std::move(there)), observer_(observer) {}

 protected:
  /// Starts ssh, which starts the far side.
  std::expected<void, Failure> start_ssh();
  /// start_ssh(), unless that is done; asks the far side, and resolves the host's name meanwhile.
  std::expected<void, Failure> start(StartRequest& request);
  /// From here on what the far side says is read.
  std::expected<StartReady, Failure> ready();
  void confine(const FileRights& files, const Kept& kept = {});
  /// Where the far side may be: the addresses of the host that ssh goes to, then the one where it has arrived.
  [[nodiscard]] std::vector<wire::IpAddress> candidates(const StartReady& ready) const;
  /// What it means when ssh comes through and UDP does not.
  [[nodiscard]] Failure blocked(const StartReady& ready) const;
  [[nodiscard]] bool interrupted() const { return host_->interrupted(); }
  [[nodiscard]] bool by_udp() const { return options_.ssh.via != SshOptions::Via::pipe; }
  [[nodiscard]] bool may_go_over() const { return options_.ssh.via == SshOptions::Via::automatic; }
  /// Whether UDP, tried since `since`, has had its time.
  [[nodiscard]] bool udp_is_over(TimePoint since) const;
  /// Lets go of UDP, asks the far side to go over to the pipe, and says so. Afterwards secret_ is that of the session
  /// there.
  std::expected<void, Failure> go_over(const StartReady& ready);
  /// The pipe, once the far side has gone over.
  [[nodiscard]] std::unique_ptr<PipeCarrier> pipe() const {
    return std::make_unique<PipeCarrier>(*host_, remote_->socket(), remote_->socket());
  }
  /// For the addresses that are known. Where none is: with IPv6 and IPv4, where this host has both.
  std::expected<void, Failure> open_transport();
  /// Of a session that receives.
  [[nodiscard]] ServerOptions server_options(std::size_t tsdu_bytes, std::uint64_t receive_room_bytes) const;
  /// After a transfer by UDP: where it is over well, ssh ends by itself.
  void leave_ssh(const std::expected<ExitCode, Failure>& code) const {
    if (code && *code == ExitCode::ok) {
      remote_->leave();
    }
  }
  /// Why a session on the pipe cannot go on.
  [[nodiscard]] std::optional<Failure> lost(PipeCarrier& pipe) const;

  const PushOptions& options_;
  Operand there_;
  Observer& observer_;
  SshCommand command_;
  Secret secret_;
  Cipher cipher_ = Cipher::aes_128_gcm;
  std::vector<wire::IpAddress> addresses_;  // of the host that ssh goes to; empty: not known, or not asked for
  std::unique_ptr<Host> host_;              // before what uses its loop
  std::unique_ptr<Child> ssh_;              // until remote_ has it
  std::unique_ptr<RemoteStart> remote_;
  std::unique_ptr<Transport> transport_;
};

std::expected<void, Failure> Near::start_ssh() {
  auto words = split_words(options_.ssh.command);
  if (!words) {
    return std::unexpected(
        Failure{ExitCode::usage, fmt::format("--ssh '{}': {}", options_.ssh.command, words.error().text)});
  }
  command_ = {*std::move(words), options_.ssh.port, there_.login(), options_.ssh.remote_ftx};
  auto ssh = RemoteStart::start_ssh(command_);
  if (!ssh) {
    return std::unexpected(ssh.error());
  }
  ssh_ = *std::move(ssh);
  return {};
}

std::expected<void, Failure> Near::start(StartRequest& request) {
  if (ssh_ == nullptr) {
    if (const auto started = start_ssh(); !started) {
      return started;
    }
  }
  forbid_core_dumps(options_);
  auto secret = Secret::random(session_secret_bytes);
  if (!secret) {
    return std::unexpected(Failure{ExitCode::internal, secret.error().text});
  }
  request.secret = *std::move(secret);
  request.cipher = cipher_ = choose_cipher([this] { return host_->loop().now(); });
  request.session_version = protocol_version;
  request.datagram_bytes = static_cast<std::uint32_t>(options_.datagram_bytes.value_or(0));
  request.idle_timeout_ms = static_cast<std::uint32_t>(std::clamp(options_.idle_timeout_s * 1000, 1.0, 4e9));
  request.ports = options_.ssh.udp_ports;
  request.program = options_.version;
  auto remote = RemoteStart::begin(host_->loop(), command_, std::move(ssh_), request);
  secret_ = std::move(request.secret);
  if (!remote) {
    return std::unexpected(remote.error());
  }
  remote_ = *std::move(remote);
  // While ssh connects.
  if (by_udp()) {
    addresses_ = resolve_all(RemoteStart::host_name(host_->loop(), command_, there_.host, [this] {
                   return interrupted();
                 })).value_or(std::vector<wire::IpAddress>{});
  }
  return {};
}

void Near::confine(const FileRights& files, const Kept& kept) {
  ftx::confine(options_, files, observer_, kept, remote_->process());
}

std::expected<StartReady, Failure> Near::ready() {
  auto ready =
      remote_->ready(host_->loop().now() + seconds(options_.ssh.connect_timeout_s), [this] { return interrupted(); });
  if (ready && ready->session_version != protocol_version) {
    return std::unexpected(Failure{
        ExitCode::remote_version,
        fmt::format("{}: ftx {} there speaks version {} of the protocol, ftx {} here version "
                    "{}: install the same version on both hosts",
                    there_.login(), ready->program, ready->session_version, options_.version, protocol_version)});
  }
  return ready;
}

std::vector<wire::IpAddress> Near::candidates(const StartReady& ready) const {
  auto addresses = addresses_;
  if (ready.address && std::find(addresses.begin(), addresses.end(), *ready.address) == addresses.end()) {
    addresses.push_back(*ready.address);
  }
  // A stack of ours has one link, and no zones.
  if (!options_.stack_file.empty()) {
    for (wire::IpAddress& address : addresses) {
      address = address.is_v6() ? wire::with_zone(address.v6(), 0) : address;
    }
  }
  return addresses;
}

bool Near::udp_is_over(TimePoint since) const {
  const Duration tried = host_->loop().now() - since;
  const auto round_trip = remote_->round_trip();
  // A pipe that has not answered itself says nothing about UDP.
  return round_trip ? tried >= std::min<Duration>(udp_time + udp_time_round_trips * *round_trip, knock_time_max)
                    : tried >= knock_time_max;
}

std::expected<void, Failure> Near::go_over(const StartReady& ready) {
  host_->close();
  transport_.reset();
  if (may_go_over()) {
    Event event;
    event.kind = Event::Kind::fallback;
    event.path = "pipe";
    event.code = ExitCode::udp_blocked;
    event.text = fmt::format("UDP to {} port {} does not come through; going on over ssh, which is slower", there_.host,
                             ready.udp_port);
    observer_.show(event);
  }
  // Another session, another secret: what has been sealed by UDP must not be sealed again with the same keys.
  auto secret = Secret::random(session_secret_bytes);
  if (!secret) {
    return std::unexpected(Failure{ExitCode::internal, secret.error().text});
  }
  StartSwitch change{*std::move(secret)};
  const auto switched =
      remote_->switch_over(change, host_->loop().now() + switch_time_max, [this] { return interrupted(); });
  secret_ = std::move(change.secret);
  return switched;
}

std::optional<Failure> Near::lost(PipeCarrier& pipe) const {
  if (auto trouble = pipe.trouble(seconds(options_.idle_timeout_s))) {
    return trouble;
  }
  if (pipe.ended()) {
    remote_->pipe_ended();
  }
  return remote_->lost();
}

Failure Near::blocked(const StartReady& ready) const {
  std::string tried;
  for (const wire::IpAddress& address : candidates(ready)) {
    tried += (tried.empty() ? "" : ", ") + text_of(address);
  }
  return {ExitCode::udp_blocked,
          fmt::format("ssh comes through to {}, UDP does not, to port {} of {}: let it through in the "
                      "firewalls between",
                      there_.login(), ready.udp_port, tried.empty() ? "no known address" : tried)};
}

std::expected<void, Failure> Near::open_transport() {
  const bool v6 = addresses_.empty() || std::ranges::any_of(addresses_, &wire::IpAddress::is_v6);
  auto transport = host_->open({any_address(v6), 0});
  transport = transport || !v6 ? std::move(transport) : host_->open({any_address(false), 0});  // a host without IPv6
  if (!transport) {
    return std::unexpected(transport.error());
  }
  transport_ = *std::move(transport);
  return {};
}

ServerOptions Near::server_options(std::size_t tsdu_bytes, std::uint64_t receive_room_bytes) const {
  ServerOptions options;
  options.seed = entropy();
  options.tsdu_bytes = tsdu_bytes;
  options.host_of = host_of;
  options.receive_room_bytes = receive_room_bytes;
  options.receiver.idle_timeout = seconds(options_.idle_timeout_s);
  options.receiver.update = options_.update;
  return options;
}

// ---- push ----

class Push : Near {
 public:
  using Near::Near;
  ExitCode run();

 private:
  std::expected<ExitCode, Failure> push();
  /// no_answer: UDP does not come through, and there is another way.
  std::expected<ExitCode, Failure> push_by_udp(const StartReady& ready);
  std::expected<ExitCode, Failure> push_by_pipe();

  std::optional<PushSource> source_;
};

std::expected<ExitCode, Failure> Push::push_by_udp(const StartReady& ready) {
  const std::vector<wire::IpAddress> addresses = candidates(ready);
  if (addresses.empty()) {
    return may_go_over() ? std::expected<ExitCode, Failure>(ExitCode::no_answer) : std::unexpected(blocked(ready));
  }
  const bool v6 = std::ranges::any_of(addresses, [](const wire::IpAddress& one) { return one.is_v6(); });
  const auto datagram = datagram_size_for(options_, v6, *transport_, ready.datagram_bytes);
  if (!datagram) {
    return std::unexpected(datagram.error());
  }
  auto protection = protection_of(std::move(secret_), cipher_, Side::initiator);
  if (!protection) {
    return std::unexpected(protection.error());
  }
  SenderOptions options{.peer = peer_of({addresses.front(), ready.udp_port}),
                        .path = {},
                        .update = options_.update,
                        .delta = options_.update.delta,
                        .tsdu_bytes = datagram->bytes_max,
                        .ip_header_bytes = datagram->ip_header_bytes,
                        .compress = options_.compress,
                        .clock = cost_clock,
                        .seed = entropy(),
                        .connect_timeout = knock_time_max,
                        .idle_timeout = seconds(options_.idle_timeout_s)};
  for (auto other = addresses.begin() + 1; other != addresses.end(); ++other) {
    options.others.push_back(peer_of({*other, ready.udp_port}));
  }
  const auto congestion = congestion_for(options_, datagram->usual_bytes);
  const TimePoint since = host_->loop().now();
  Sender sender(since, options, **source_, *congestion, *std::move(protection));
  Sending sending(*host_, *transport_, sender, options_.destination, observer_);
  sending.lost = [this] { return remote_->lost(); };
  sending.unanswered = blocked(ready);
  if (may_go_over()) {
    sending.left = [&] { return !sender.answered() && udp_is_over(since); };
  }
  return sending.run();
}

std::expected<ExitCode, Failure> Push::push_by_pipe() {
  // Anew, as the session is.
  if (const auto opened = source_->open_again(); !opened) {
    return std::unexpected(opened.error());
  }
  auto protection = protection_of(std::move(secret_), cipher_, Side::initiator);
  if (!protection) {
    return std::unexpected(protection.error());
  }
  const SenderOptions options{.peer = pipe_peer(),
                              .path = {},
                              .update = options_.update,
                              .delta = options_.update.delta,
                              .tsdu_bytes = PipeTransport::tsdu_bytes,
                              .compress = options_.compress,
                              .clock = cost_clock,
                              .seed = entropy(),
                              .connect_timeout = seconds(options_.idle_timeout_s),
                              .idle_timeout = seconds(options_.idle_timeout_s)};
  const auto congestion = pipe_congestion_for(options_);
  Sender sender(host_->loop().now(), options, **source_, *congestion, *std::move(protection));
  auto carrier = pipe();
  PipeCarrier& pipe = *carrier;
  Sending sending(*host_, std::move(carrier), sender, options_.destination, observer_);
  sending.lost = [this, &pipe] { return lost(pipe); };
  return sending.run();
}

std::expected<ExitCode, Failure> Push::push() {
  // A large tree is looked through while ssh logs in.
  if (PushSource::takes_time(options_)) {
    if (const auto started = start_ssh(); !started) {
      return std::unexpected(started.error());
    }
  }
  auto source = PushSource::open(options_);
  if (!source) {
    return std::unexpected(source.error());
  }
  source_ = *std::move(source);
  auto host = Host::start(options_);
  if (!host) {
    return std::unexpected(host.error());
  }
  host_ = *std::move(host);
  if (const auto read = read_digests(**source_, *host_); !read) {
    return std::unexpected(read.error());
  }
  StartRequest request;
  request.direction = StartDirection::push;
  request.keep_partial = options_.keep_partial;
  request.verify = options_.verify;
  request.paths = {there_.path};
  if (const auto started = start(request); !started) {
    return std::unexpected(started.error());
  }
  if (by_udp()) {
    if (const auto opened = open_transport(); !opened) {
      return std::unexpected(opened.error());
    }
  }
  confine(source_->rights());
  const InputNews news(*host_, *source_);
  const auto ready = this->ready();
  if (!ready) {
    return std::unexpected(ready.error());
  }
  source_->show_left_out(observer_);  // not while ssh may ask for a password
  if (by_udp()) {
    const auto code = push_by_udp(*ready);
    if (!may_go_over() || !code || *code != ExitCode::no_answer) {
      leave_ssh(code);
      return code;
    }
  }
  if (const auto gone_over = go_over(*ready); !gone_over) {
    return std::unexpected(gone_over.error());
  }
  return push_by_pipe();
}

ExitCode Push::run() {
  const auto code = push();
  return code ? *code : observer_.fail(code.error());
}

// ---- pull ----

class Pull : Near {
 public:
  using Near::Near;
  ExitCode run(const std::vector<std::string>& paths);

 private:
  std::expected<ExitCode, Failure> pull(const std::vector<std::string>& paths);
  /// no_answer: UDP does not come through, and there is another way.
  std::expected<ExitCode, Failure> pull_by_udp(const StartReady& ready, Destination& destination);
  std::expected<ExitCode, Failure> pull_by_pipe(Destination& destination);
};

std::expected<ExitCode, Failure> Pull::pull_by_udp(const StartReady& ready, Destination& destination) {
  std::vector<Peer> peers;
  for (const wire::IpAddress& address : candidates(ready)) {
    peers.push_back(peer_of({address, ready.udp_port}));
  }
  if (peers.empty()) {
    return may_go_over() ? std::expected<ExitCode, Failure>(ExitCode::no_answer) : std::unexpected(blocked(ready));
  }
  auto protection = protection_of(std::move(secret_), cipher_, Side::initiator);
  if (!protection) {
    return std::unexpected(protection.error());
  }
  Server server(server_options(transport_->tsdu_bytes(), transport_->receive_room()), destination);
  const TimePoint since = host_->loop().now();
  server.invite(since, *std::move(protection), std::move(peers), knock_time_max);
  Receiving receiving(*host_, *transport_, server, observer_, true);
  receiving.shown_path = options_.destination;
  receiving.unanswered = blocked(ready);
  receiving.lost = [this] { return remote_->lost(); };
  if (may_go_over()) {
    receiving.left = [&] { return !server.begun() && udp_is_over(since); };
  }
  return receiving.run();
}

std::expected<ExitCode, Failure> Pull::pull_by_pipe(Destination& destination) {
  auto protection = protection_of(std::move(secret_), cipher_, Side::initiator);
  if (!protection) {
    return std::unexpected(protection.error());
  }
  Server server(server_options(PipeTransport::tsdu_bytes, PipeTransport::receive_room_bytes), destination);
  server.invite(host_->loop().now(), *std::move(protection), {pipe_peer()}, seconds(options_.idle_timeout_s));
  auto carrier = pipe();
  PipeCarrier& pipe = *carrier;
  Receiving receiving(*host_, std::move(carrier), server, observer_, true);
  receiving.shown_path = options_.destination;
  receiving.lost = [this, &pipe] { return lost(pipe); };
  return receiving.run();
}

std::expected<ExitCode, Failure> Pull::pull(const std::vector<std::string>& paths) {
  const auto place = FetchDestination::open(options_);
  if (!place) {
    return std::unexpected(place.error());
  }
  auto host = Host::start(options_);
  if (!host) {
    return std::unexpected(host.error());
  }
  host_ = *std::move(host);
  if (by_udp()) {
    if (const auto opened = open_transport(); !opened) {
      return std::unexpected(opened.error());
    }
  }
  StartRequest request;
  request.direction = StartDirection::pull;
  request.paths = paths;
  request.trees = options_.trees;
  request.select = options_.select;
  ask_congestion(options_, request.congestion, request.rate);
  request.compress = options_.compress;
  request.delta = options_.update.delta;
  if (const auto started = start(request); !started) {
    return std::unexpected(started.error());
  }
  confine((*place)->rights(), options_.kept());
  const auto ready = this->ready();
  if (!ready) {
    return std::unexpected(ready.error());
  }
  Wanted wanted = wanted_of(paths, Wanted::Are::patterns, options_.trees, options_.select);
  wanted.deletion = options_.deletion;
  ShownDestination shown((*place)->destination(), observer_);
  FixedDestination fixed(shown, (*place)->name(), std::move(wanted));
  if (by_udp()) {
    const auto code = pull_by_udp(*ready, fixed);
    if (!code) {
      return code;
    }
    if (!may_go_over() || *code != ExitCode::no_answer) {
      leave_ssh(code);
      return (*place)->complete(*code, *host_, observer_);
    }
  }
  if (const auto gone_over = go_over(*ready); !gone_over) {
    return std::unexpected(gone_over.error());
  }
  const auto code = pull_by_pipe(fixed);
  return code ? (*place)->complete(*code, *host_, observer_) : code;
}

ExitCode Pull::run(const std::vector<std::string>& paths) {
  const auto code = pull(paths);
  return code ? *code : observer_.fail(code.error());
}

// ---- probe ----

/// Enough to see the path MTU found, and soon enough for a person.
constexpr Duration probe_time = std::chrono::seconds(3);
constexpr std::uint64_t probe_bytes_max = 256U << 20;
/// What the far side's program is called where Linux shows it.
constexpr std::string_view probe_path = "/proc/self/exe";

double seconds_since_1970() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

class Probe : Near {
 public:
  using Near::Near;
  SshProbe run();

 private:
  std::optional<Failure> begin(SshProbe& probe);
  std::expected<Event, Failure> fetch();
  std::expected<Event, Failure> follow(Traffic<Server, ServerHandler>& traffic);

  StartReady ready_;
};

std::optional<Failure> Probe::begin(SshProbe& probe) {
  auto host = Host::start(options_);
  if (!host) {
    return host.error();
  }
  host_ = *std::move(host);
  if (const auto opened = open_transport(); !opened) {
    return opened.error();
  }
  StartRequest request;
  request.direction = StartDirection::pull;
  request.paths = {std::string(probe_path)};
  const TimePoint since = host_->loop().now();
  if (const auto started = start(request); !started) {
    return started.error();
  }
  const auto ready = this->ready();
  if (!ready) {
    return ready.error();
  }
  ready_ = *ready;
  probe.version = ready->program;
  probe.start_seconds = std::chrono::duration<double>(host_->loop().now() - since).count();
  // The far side waits meanwhile. Afterwards this end starts no program any more.
  probe.asked_at_s = seconds_since_1970();
  probe.printed =
      RemoteStart::printed_by(host_->loop(), job_arguments(command_, "doctor --json"), probe_printed_bytes_max,
                              seconds(options_.ssh.connect_timeout_s), [this] { return interrupted(); });
  probe.answered_at_s = seconds_since_1970();
  confine({});
  return std::nullopt;
}

std::expected<Event, Failure> Probe::fetch() {
  std::vector<Peer> peers;
  for (const wire::IpAddress& address : candidates(ready_)) {
    peers.push_back(peer_of({address, ready_.udp_port}));
  }
  if (peers.empty()) {
    return std::unexpected(blocked(ready_));
  }
  auto protection = protection_of(std::move(secret_), cipher_, Side::initiator);
  if (!protection) {
    return std::unexpected(protection.error());
  }
  MemoryDestination memory;
  FixedDestination fixed(memory, "", wanted_of({std::string(probe_path)}, Wanted::Are::names));
  ServerOptions options = server_options(transport_->tsdu_bytes(), transport_->receive_room());
  options.transfer_bytes_max = probe_bytes_max;
  Server server(options, fixed);
  server.invite(host_->loop().now(), *std::move(protection), std::move(peers), knock_time_max);
  UdpCarrier carrier(*host_, *transport_);
  Traffic<Server, ServerHandler> traffic(*host_, carrier, server);
  return follow(traffic);
}

/// Until the file is there, or what has come of it in a while is enough.
std::expected<Event, Failure> Probe::follow(Traffic<Server, ServerHandler>& traffic) {
  TimePoint end = never;
  Event last;
  while (true) {
    const TimePoint now = host_->loop().now();
    const TimePoint until = traffic.send(now);
    while (auto event = traffic.next_event()) {
      if (event->kind == Event::Kind::error) {
        return std::unexpected(event->code == ExitCode::no_answer ? blocked(ready_)
                                                                  : Failure{event->code, event->text});
      }
      end = event->kind == Event::Kind::offer ? now + probe_time : end;
      last = *std::move(event);
      if (last.kind == Event::Kind::done) {
        return last;
      }
    }
    if (interrupted()) {
      return std::unexpected(Failure{ExitCode::interrupted, "interrupted"});
    }
    if (const auto failure = remote_->lost()) {
      return std::unexpected(*failure);
    }
    if (now >= end) {
      return last.bytes > 0 ? std::expected<Event, Failure>(last) : std::unexpected(blocked(ready_));
    }
    host_->wait(std::min(until, end));
  }
}

SshProbe Probe::run() {
  SshProbe probe;
  probe.start = begin(probe);
  if (probe.start) {
    return probe;
  }
  auto done = fetch();
  if (done) {
    probe.done = *std::move(done);
  } else {
    probe.udp = done.error();
  }
  return probe;
}

std::unexpected<Failure> wrong(std::string text) { return std::unexpected(Failure{ExitCode::usage, std::move(text)}); }

std::expected<std::vector<Operand>, Failure> parse_operands(const PushOptions& options) {
  std::vector<Operand> operands;
  for (const std::string& text : options.sources) {
    auto operand = parse_operand(text);
    if (!operand) {
      return wrong(operand.error().text);
    }
    operands.push_back(*std::move(operand));
  }
  const auto destination = parse_operand(options.destination);
  if (!destination) {
    return wrong(destination.error().text);
  }
  const bool pulls = std::any_of(operands.begin(), operands.end(),
                                 [](const Operand& one) { return one.kind != Operand::Kind::local; });
  for (const Operand& source : operands) {
    if (pulls && (source.kind != operands.front().kind || source.login() != operands.front().login())) {
      return wrong("sources are local files, or files of one host: [user@]host:path or ftx://HOST:PORT/PATH");
    }
  }
  if (pulls == (destination->kind != Operand::Kind::local)) {
    return wrong(pulls ? "one end must be this host"
                       : fmt::format("'{}' is on this host, and so are the sources: write "
                                     "[user@]host:path or ftx://HOST:PORT/PATH",
                                     options.destination));
  }
  if (sends_input(options) && destination->kind == Operand::Kind::remote) {
    if (const auto good = check_input(options, destination->path); !good) {
      return std::unexpected(good.error());
    }
  }
  operands.push_back(*destination);
  return operands;
}

}  // namespace

SshProbe probe_through_ssh(const PushOptions& options, const Operand& there) {
  Unobserved nobody;
  return Probe(options, there, nobody).run();
}

ExitCode transfer(const PushOptions& options, Observer& observer) {
  const auto operands = parse_operands(options);
  if (!operands) {
    return observer.fail(operands.error());
  }
  const Operand& destination = operands->back();
  if (destination.kind == Operand::Kind::url) {
    return push(options, observer);
  }
  if (operands->front().kind == Operand::Kind::url) {
    return fetch(options, observer);
  }
  if (destination.kind == Operand::Kind::remote) {
    return Push(options, destination, observer).run();
  }
  std::vector<std::string> paths;
  for (auto source = operands->begin(); source + 1 != operands->end(); ++source) {
    paths.push_back(source->path);
  }
  return Pull(options, operands->front(), observer).run(paths);
}

}  // namespace sluice::ftx
