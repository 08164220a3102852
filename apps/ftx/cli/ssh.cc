// SPDX-License-Identifier: Apache-2.0
// Transfers that start through ssh, the near side.
#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "apps/common/entropy.h"
#include "apps/ftx/cli/fixed_destination.h"
#include "apps/ftx/cli/program.h"
#include "apps/ftx/cli/receiving.h"
#include "apps/ftx/cli/sealing.h"
#include "apps/ftx/cli/sending.h"
#include "apps/ftx/cli/url.h"
#include "apps/ftx/files/directory.h"
#include "apps/ftx/files/source.h"
#include "apps/ftx/remote/operand.h"
#include "apps/ftx/remote/paths.h"
#include "apps/ftx/remote/remote_start.h"

namespace sluice::ftx {
namespace {

/// How long UDP is tried.
constexpr Duration knock_time_max = std::chrono::seconds(10);

/// What pushing and pulling do alike.
class Near {
 public:
  Near(const PushOptions& options, Operand there, Console& console)
      : options_(options), there_(std::move(there)), console_(console) {}

 protected:
  /// Starts ssh and the far side.
  std::expected<StartReady, Failure> start(StartRequest& request);
  /// Where the far side may be: the addresses of the host that ssh goes to, then the one where it has arrived.
  [[nodiscard]] std::vector<wire::IpAddress> candidates(const StartReady& ready) const;
  /// What it means when ssh comes through and UDP does not.
  [[nodiscard]] Failure blocked(const StartReady& ready) const;
  [[nodiscard]] bool interrupted() const { return host_->interrupted(); }

  const PushOptions& options_;
  Operand there_;
  Console& console_;
  SshCommand command_;
  Secret secret_;
  Cipher cipher_ = Cipher::aes_128_gcm;
  std::string host_name_;       // that ssh goes to
  std::unique_ptr<Host> host_;  // before what uses its loop
  std::unique_ptr<RemoteStart> remote_;
};

std::expected<StartReady, Failure> Near::start(StartRequest& request) {
  auto words = split_words(options_.ssh.command);
  if (!words) {
    return std::unexpected(
        Failure{ExitCode::usage, fmt::format("--ssh '{}': {}", options_.ssh.command, words.error().text)});
  }
  command_ = {*std::move(words), options_.ssh.port, there_.login(), options_.ssh.remote_ftx};
  // Keys lie in ordinary memory, too, while a cipher works with them.
  [[maybe_unused]] const Status undumpable = forbid_core_dumps();
  auto secret = Secret::random(session_secret_bytes);
  if (!secret) {
    return std::unexpected(Failure{ExitCode::internal, secret.error().text});
  }
  request.secret = *std::move(secret);
  request.cipher = cipher_ = choose_cipher([this] { return host_->loop().now(); });
  request.session_version = protocol_version;
  request.datagram_bytes = static_cast<std::uint32_t>(options_.datagram_bytes.value_or(0));
  request.idle_timeout_ms = static_cast<std::uint32_t>(std::clamp(options_.idle_timeout_s * 1000, 1.0, 4e9));
  request.program = options_.version;
  auto remote = RemoteStart::begin(host_->loop(), command_, request);
  secret_ = std::move(request.secret);
  if (!remote) {
    return std::unexpected(remote.error());
  }
  remote_ = *std::move(remote);
  // While ssh connects.
  host_name_ = RemoteStart::host_name(host_->loop(), command_, there_.host, [this] { return interrupted(); });
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
  auto addresses = resolve_all(host_name_).value_or(std::vector<wire::IpAddress>{});
  if (ready.address && std::find(addresses.begin(), addresses.end(), *ready.address) == addresses.end()) {
    addresses.push_back(*ready.address);
  }
  return addresses;
}

Failure Near::blocked(const StartReady& ready) const {
  std::string tried;
  for (const wire::IpAddress& address : candidates(ready)) {
    tried += (tried.empty() ? "" : ", ") + address.to_text();
  }
  return {ExitCode::udp_blocked,
          fmt::format("ssh comes through to {}, UDP does not, to port {} of {}: let it through in the "
                      "firewalls between",
                      there_.login(), ready.udp_port, tried.empty() ? "no known address" : tried)};
}

// ---- push ----

class Push : Near {
 public:
  using Near::Near;
  ExitCode run();

 private:
  std::expected<ExitCode, Failure> push(const StartReady& ready);

  std::unique_ptr<FileSource> source_;
};

std::expected<ExitCode, Failure> Push::push(const StartReady& ready) {
  const std::vector<wire::IpAddress> addresses = candidates(ready);
  if (addresses.empty()) {
    return std::unexpected(blocked(ready));
  }
  const bool v6 = std::ranges::any_of(addresses, [](const wire::IpAddress& one) { return one.is_v6(); });
  auto transport = host_->open({any_address(v6), 0});
  transport = transport || !v6 ? std::move(transport) : host_->open({any_address(false), 0});  // a host without IPv6
  if (!transport) {
    return std::unexpected(transport.error());
  }
  const auto datagram = datagram_size_for(options_, v6, *host_, **transport, ready.datagram_bytes);
  if (!datagram) {
    return std::unexpected(datagram.error());
  }
  auto protection = protection_of(std::move(secret_), cipher_, Side::initiator);
  if (!protection) {
    return std::unexpected(protection.error());
  }
  SenderOptions options{.peer = peer_of({addresses.front(), ready.udp_port}),
                        .path = {},
                        .tsdu_bytes = datagram->bytes_max,
                        .ip_header_bytes = datagram->ip_header_bytes,
                        .seed = entropy(),
                        .idle_timeout = seconds(options_.idle_timeout_s)};
  for (auto other = addresses.begin() + 1; other != addresses.end(); ++other) {
    options.others.push_back(peer_of({*other, ready.udp_port}));
  }
  const auto congestion = congestion_for(options_, datagram->usual_bytes);
  Sender sender(host_->loop().now(), options, *source_, *congestion, *std::move(protection));
  Sending sending(*host_, **transport, sender, options_.destination, console_);
  sending.lost = [this] { return remote_->lost(); };
  sending.unanswered = blocked(ready);
  return sending.run();
}

ExitCode Push::run() {
  auto source = FileSource::open(options_.sources);
  if (!source) {
    return console_.fail(source.error());
  }
  source_ = *std::move(source);
  auto host = Host::start(options_);
  if (!host) {
    return console_.fail(host.error());
  }
  host_ = *std::move(host);
  StartRequest request;
  request.direction = StartDirection::push;
  request.paths = {there_.path};
  const auto ready = start(request);
  const auto code = ready ? push(*ready) : std::unexpected(ready.error());
  return code ? *code : console_.fail(code.error());
}

// ---- pull ----

class Pull : Near {
 public:
  using Near::Near;
  ExitCode run(const std::vector<std::string>& paths);
};

ExitCode Pull::run(const std::vector<std::string>& paths) {
  const auto place = place_of(options_.destination.empty() ? "." : options_.destination);
  if (!place) {
    return console_.fail({ExitCode::write_failed, place.error().text});
  }
  auto destination = DirectoryDestination::serve(place->directory, entropy());
  if (!destination) {
    return console_.fail({ExitCode::write_failed, destination.error().text});
  }
  auto host = Host::start(options_);
  if (!host) {
    return console_.fail(host.error());
  }
  host_ = *std::move(host);
  auto transport = host_->open({any_address(true), 0});
  transport = transport ? std::move(transport) : host_->open({any_address(false), 0});
  if (!transport) {
    return console_.fail(transport.error());
  }
  StartRequest request;
  request.direction = StartDirection::pull;
  request.paths = paths;
  const auto ready = start(request);
  if (!ready) {
    return console_.fail(ready.error());
  }
  ServerOptions options;
  options.seed = entropy();
  options.tsdu_bytes = (*transport)->tsdu_bytes();
  options.host_of = host_of;
  options.receive_room_bytes = (*transport)->receive_room();
  options.receiver.idle_timeout = seconds(options_.idle_timeout_s);
  FixedDestination fixed(**destination, place->name, wanted_names(paths));
  Server server(options, fixed);
  std::vector<Peer> peers;
  for (const wire::IpAddress& address : candidates(*ready)) {
    peers.push_back(peer_of({address, ready->udp_port}));
  }
  auto protection = protection_of(std::move(secret_), cipher_, Side::initiator);
  if (!protection || peers.empty()) {
    return console_.fail(protection ? blocked(*ready) : protection.error());
  }
  server.invite(host_->loop().now(), *std::move(protection), std::move(peers), knock_time_max);
  Receiving receiving(*host_, **transport, server, console_, true);
  receiving.shown_path = options_.destination;
  receiving.unanswered = blocked(*ready);
  receiving.lost = [this] { return remote_->lost(); };
  return receiving.run();
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
    if (source.kind == Operand::Kind::url || (pulls && source.login() != operands.front().login())) {
      return wrong("sources are local files, or files of one host: [user@]host:path");
    }
  }
  if (pulls == (destination->kind != Operand::Kind::local)) {
    return wrong(pulls ? "one end must be this host"
                       : fmt::format("'{}' is on this host, and so are the sources: write "
                                     "[user@]host:path or ftx://HOST:PORT/PATH",
                                     options.destination));
  }
  operands.push_back(*destination);
  return operands;
}

}  // namespace

ExitCode transfer(const PushOptions& options) {
  Console console(options.form(), Console::Side::sender);
  const auto operands = parse_operands(options);
  if (!operands) {
    return console.fail(operands.error());
  }
  const Operand& destination = operands->back();
  if (destination.kind == Operand::Kind::url) {
    return push(options);
  }
  if (destination.kind == Operand::Kind::remote) {
    return Push(options, destination, console).run();
  }
  std::vector<std::string> paths;
  for (auto source = operands->begin(); source + 1 != operands->end(); ++source) {
    paths.push_back(source->path);
  }
  Console receiving(options.form(), Console::Side::receiver);
  return Pull(options, operands->front(), receiving).run(paths);
}

}  // namespace sluice::ftx
