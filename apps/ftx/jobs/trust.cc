// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/jobs/trust.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "apps/common/entropy.h"
#include "apps/ftx/jobs/carrier.h"
#include "apps/ftx/jobs/traffic.h"
#include "apps/ftx/remote/paths.h"
#include "apps/ftx/security/known_hosts.h"
#include "apps/ftx/security/private_file.h"

namespace sluice::ftx {
namespace {

std::unexpected<Failure> failed(ExitCode code, std::string text) {
  return std::unexpected(Failure{code, std::move(text)});
}

std::string file_or(const std::string& named, const char* name) {
  return named.empty() ? config_directory() + "/" + name : named;
}

/// Specification as above: "If, when attempting to write a file, the destination directory is non-existent an attempt
/// should be made to create it with permission 0700."
void make_config_directory() {
  const std::string directory = config_directory();
  for (std::size_t slash = directory.find('/', 1); slash != std::string::npos; slash = directory.find('/', slash + 1)) {
    ::mkdir(directory.substr(0, slash).c_str(), 0700);
  }
  ::mkdir(directory.c_str(), 0700);  // what fails here, the file's own error tells
}

int digit_of(std::byte character) {
  const char c = static_cast<char>(character);
  return c >= '0' && c <= '9'   ? c - '0'
         : c >= 'a' && c <= 'f' ? c - 'a' + 10
         : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                : -1;
}

/// 64 hexadecimal digits, so that nobody takes a password for it.
std::expected<Secret, Failure> read_secret(const std::string& path) {
  auto text = read_private_file(path, Readers::owner_only);
  if (!text) {
    return failed(ExitCode::usage, text.error().text);
  }
  std::size_t size = text->size();
  while (size > 0 && ((*text)[size - 1] == std::byte{'\n'} || (*text)[size - 1] == std::byte{'\r'})) {
    --size;
  }
  Secret secret = Secret::of_size(HandshakeContext::shared_secret_bytes);
  bool good = size == 2 * secret.size();
  for (std::size_t at = 0; good && at < secret.size(); ++at) {
    const int high = digit_of((*text)[2 * at]), low = digit_of((*text)[2 * at + 1]);
    good = high >= 0 && low >= 0;
    secret.bytes()[at] = static_cast<std::byte>(good ? high * 16 + low : 0);
  }
  wipe(*text);
  if (!good) {
    return failed(ExitCode::usage, path + ": expected 64 hexadecimal digits, as `openssl rand -hex 32` prints them");
  }
  return secret;
}

// ---- a client's side ----

/// Gives one handshake what arrives.
class ClientHandshakeHandler final : public DatagramHandler {
 public:
  explicit ClientHandshakeHandler(ClientHandshake& handshake) : handshake_(handshake) {}
  void on_datagram(ConstBytes datagram, const Peer& from) override { handshake_.receive(now, datagram, from); }
  void on_refused(const Peer& peer) override { handshake_.unreachable(now, peer); }
  TimePoint now{};

 private:
  ClientHandshake& handshake_;
};

/// Runs a handshake in the job's loop until it is over, `enough()` holds or `end` has come.
void run(Host& host, Transport& transport, ClientHandshake& handshake, TimePoint end,
         const std::function<bool()>& enough) {
  UdpCarrier carrier(host, transport);
  Traffic<ClientHandshake, ClientHandshakeHandler> traffic(host, carrier, handshake);
  for (TimePoint now = host.loop().now(); !handshake.over() && !enough() && now < end; now = host.loop().now()) {
    if (host.interrupted()) {
      handshake.interrupt(now);
    }
    const TimePoint until = traffic.send(now);
    if (!handshake.over()) {
      host.wait(std::min(until, end));
    }
  }
}

/// Lets the loop work for a moment; false: interrupted.
bool turn(Host& host) {
  host.wait(host.loop().now() + std::chrono::milliseconds(100));
  return !host.interrupted();
}

}  // namespace

std::expected<void, Failure> Acquaintance::prepare(const Url& url) {
  const auto server = host_and_port(url.host, url.port);
  if (!server) {
    return failed(ExitCode::usage, server.error().text);
  }
  server_ = *server;
  if (!options_.secret_file.empty()) {
    auto secret = read_secret(options_.secret_file);
    if (!secret) {
      return std::unexpected(secret.error());
    }
    secret_ = *std::move(secret);
    return {};
  }
  auto identity = own_identity(options_);
  if (!identity) {
    return std::unexpected(identity.error());
  }
  identity_ = *std::move(identity);
  known_hosts_ = file_or(options_.known_hosts_file, "known_hosts");
  const auto hosts = KnownHosts::load(known_hosts_);
  if (!hosts) {
    return failed(ExitCode::usage, hosts.error().text);
  }
  known_ = hosts->find(server_);
  if (is_new() && options_.known_hosts_file.empty()) {
    make_config_directory();
  }
  if (!options_.accept_key.empty()) {
    const auto accepted = KeyPin::parse(options_.accept_key);
    if (!accepted) {
      return failed(ExitCode::usage, "--accept-key: " + accepted.error().text);
    }
    accepted_ = *accepted;
  }
  return {};
}

/// Threat: a server that takes another's place. What is known counts more than what the command line says.
Status Acquaintance::check(const KeyPin& key) {
  const std::optional<KeyPin>& expected = known_ ? known_ : accepted_;
  if (secret_.empty() && expected && *expected == key) {
    return {};
  }
  shown_ = key;
  return fail(EPERM, "the server's key is not good enough");
}

Failure Acquaintance::explain() const {
  Failure failure = handshake_->failure();
  if (handshake_->refused()) {
    failure.text = identity_ ? fmt::format(
                                   "{} does not allow this client: the line that `ftx key` prints here, {}, must "
                                   "stand in the list of allowed keys there",
                                   server_, identity_->pin().text())
                             : fmt::format("{} does not allow this client", server_);
    return failure;
  }
  if (!shown_) {
    return failure;
  }
  if (!secret_.empty()) {
    return {ExitCode::wrong_host_key, fmt::format("{} does not know the secret of {}", server_, options_.secret_file)};
  }
  if (known_) {
    return {ExitCode::wrong_host_key,
            fmt::format("{} shows the key {}, but {} says {}: somebody may be in its place. If its key was changed, "
                        "remove its line from that file, and go on as with a new server",
                        server_, shown_->text(), known_hosts_, known_->text())};
  }
  if (accepted_) {
    return {ExitCode::wrong_host_key, fmt::format("{} shows the key {}, not {} as --accept-key says", server_,
                                                  shown_->text(), accepted_->text())};
  }
  return {ExitCode::unknown_host_key,
          fmt::format("{} is not known yet: compare its key with what `ftx key` prints there, and say --accept-key {}",
                      server_, shown_->text())};
}

void Acquaintance::remember() {
  if (!is_new()) {
    return;
  }
  if (const Status added = KnownHosts::add(known_hosts_, server_, *accepted_); !added) {
    observer_.warn(fmt::format("{} will be asked about again: {}", server_, added.error().text));
  }
}

std::expected<void, Failure> Acquaintance::attempt() {
  shown_.reset();
  HandshakeContext::Options options;
  options.identity = identity_;
  options.check_peer = [this](const KeyPin& key) { return check(key); };
  options.shared_secret = secret_.copy();
  const auto context = HandshakeContext::create(HandshakeContext::Role::client, std::move(options));
  auto handshake = context ? context->begin() : std::unexpected(context.error());
  if (!handshake) {
    return failed(ExitCode::internal, handshake.error().text);
  }
  ClientHandshakeOptions client{.peer = at_.front(),
                                .others = {at_.begin() + 1, at_.end()},
                                .request = request_,
                                .tsdu_bytes = tsdu_bytes_,
                                .seed = entropy(),
                                .cipher = choose_cipher([this] { return host_.loop().now(); })};
  handshake_ = std::make_unique<ClientHandshake>(host_.loop().now(), std::move(client), *std::move(handshake));
  run(host_, transport_, *handshake_, never, [this] { return handshake_->has_keys(); });
  if (!handshake_->has_keys()) {
    return std::unexpected(explain());
  }
  remember();
  return {};
}

std::optional<Failure> Acquaintance::refused() const {
  return handshake_->state() == ClientHandshake::State::failed ? std::optional(explain()) : std::nullopt;
}

std::optional<Failure> Acquaintance::refused_within(Duration time) {
  run(host_, transport_, *handshake_, host_.loop().now() + time, [this] { return host_.interrupted(); });
  return refused();
}

std::expected<std::unique_ptr<Acquaintance>, Failure> Acquaintance::meet(Host& host, Transport& transport,
                                                                         const PushOptions& options, const Url& url,
                                                                         std::vector<Peer> at, std::size_t tsdu_bytes,
                                                                         Observer& observer, FileRights files,
                                                                         std::optional<PullRequest> request) {
  std::unique_ptr<Acquaintance> one(new Acquaintance(host, transport, options.trust, tsdu_bytes, observer));
  one->at_ = std::move(at);
  one->request_ = std::move(request);
  if (const auto prepared = one->prepare(url); !prepared) {
    return std::unexpected(prepared.error());
  }
  const bool is_new = one->is_new();
  confine(options, is_new ? and_to_replace(files, one->known_hosts_) : files, observer,
          one->request_ ? options.kept() : Kept{});
  auto met = one->attempt();
  // The question is asked between two handshakes: no server waits for a person.
  if (!met && met.error().code == ExitCode::unknown_host_key &&
      observer.confirms(one->server_, one->shown_->text(), [&host] { return turn(host); })) {
    one->accepted_ = one->shown_;
    met = one->attempt();
  } else if (host.interrupted()) {
    return failed(ExitCode::interrupted, "interrupted");
  }
  if (!met) {
    return std::unexpected(met.error());
  }
  if (is_new) {
    restrict_files(options, files);  // without where known_hosts lies
  }
  return one;
}

std::expected<Identity, Failure> own_identity(const TrustOptions& options) {
  if (options.key_file.empty()) {
    make_config_directory();
  }
  auto identity = Identity::load_or_create(file_or(options.key_file, "key"));
  if (!identity) {
    return failed(ExitCode::usage, identity.error().text);
  }
  return *std::move(identity);
}

std::expected<ServerTrust, Failure> server_trust(const TrustOptions& options, Access access) {
  auto identity = own_identity(options);
  if (!identity) {
    return std::unexpected(identity.error());
  }
  HandshakeContext::Options handshake;
  handshake.identity = *identity;
  handshake.anonymous_clients = options.anyone;
  if (!options.secret_file.empty()) {
    auto secret = read_secret(options.secret_file);
    if (!secret) {
      return std::unexpected(secret.error());
    }
    handshake.shared_secret = *std::move(secret);
  }
  const std::string path = file_or(options.allow_file, "allowed_keys");
  const auto allowed = AllowedKeys::load(path);
  if (!allowed && !options.anyone) {
    const bool missing = allowed.error().code == ENOENT && options.allow_file.empty();
    if (missing && options.secret_file.empty()) {
      return failed(
          ExitCode::usage,
          fmt::format("nobody may come yet: write the line that `ftx key` prints on a client into {}, or give "
                      "both ends a --secret-file",
                      path));
    }
    if (!missing) {
      return failed(ExitCode::usage, allowed.error().text);
    }
  }
  if (allowed && !options.anyone) {
    // Read again for each client, so that who is added may come at once, and who is removed may not.
    handshake.check_peer = [path](const KeyPin& key) -> Status {
      const auto list = AllowedKeys::load(path);
      if (!list) {
        return std::unexpected(list.error());
      }
      return list->find(key) != nullptr ? Status() : fail(EPERM, "the key " + key.text() + " is not in " + path);
    };
  }
  // A client without a key has shown the shared secret, or anyone may come.
  const bool listed = allowed && !options.anyone;
  auto access_of = [path, listed, access](const Client& client) -> Access {
    if (!client.key || !listed) {
      return access;
    }
    const auto list = AllowedKeys::load(path);
    const AllowedKeys::Client* known = list ? list->find(*client.key) : nullptr;
    return known != nullptr ? known->access & access : Access::none;
  };
  const KeyPin key = identity->pin();
  auto context = HandshakeContext::create(HandshakeContext::Role::server, std::move(handshake));
  if (!context) {
    return failed(ExitCode::internal, context.error().text);
  }
  return ServerTrust{*std::move(context), key, std::move(access_of), listed ? path : std::string()};
}

}  // namespace sluice::ftx
