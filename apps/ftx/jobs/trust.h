// SPDX-License-Identifier: Apache-2.0
#pragma once

// Trust: whom a standing server and its clients know, in files of the user's configuration directory
// ($XDG_CONFIG_HOME/ftx, else ~/.config/ftx), and how the two prove it to each other before a session.
//
//     key            this user's own key, made when it is first needed (apps/ftx/security/identity.h)
//     known_hosts    a client's: the key of each server           host:port key
//     allowed_keys   a server's: who may come, by what name       [read-only|write-only] key name
//
// Threat: a secret on a command line, where everybody reads it. It is in a file that only its user can read.

#include <expected>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/ftx/jobs/confined.h"
#include "apps/ftx/jobs/host.h"
#include "apps/ftx/jobs/jobs.h"
#include "apps/ftx/jobs/url.h"
#include "apps/ftx/security/handshake.h"
#include "apps/ftx/session/client_handshake.h"
#include "apps/ftx/session/handshakes.h"

namespace sluice::ftx {

/// This user's own key: from the file that the options name, else from the default one, which is made where there is
/// none.
[[nodiscard]] std::expected<Identity, Failure> own_identity(const TrustOptions& options);

struct ServerTrust {
  HandshakeContext context;
  KeyPin key;
  /// What a client may do, as the options and its line of the list say, which is read each time.
  std::function<Access(const Client&)> access;
  std::string allowed_keys;  // the list that is read; empty: none
};
[[nodiscard]] std::expected<ServerTrust, Failure> server_trust(const TrustOptions& options, Access access);

/// A client's acquaintance with a server: HELLO, cookie, handshake. It goes on beside the session until that is
/// answered (apps/ftx/jobs/settling.h).
class Acquaintance {
 public:
  /// Meets the server at one of `at`, until the session may begin. A server that is not known yet is asked about on a
  /// terminal, or must have the key that --accept-key says; then it is known. `request`: what is to be fetched.
  /// Confines this process to `files` before it sends anything. REQUIRES: !at.empty(). Borrows host, transport, options
  /// and observer.
  [[nodiscard]] static std::expected<std::unique_ptr<Acquaintance>, Failure> meet(
      Host& host, Transport& transport, const PushOptions& options, const Url& url, std::vector<Peer> at,
      std::size_t tsdu_bytes, Observer& observer, FileRights files, std::optional<PullRequest> request = std::nullopt);

  [[nodiscard]] ClientHandshake& handshake() { return *handshake_; }
  /// Why there can be no session after all: the server has refused the client, or what it asked for.
  [[nodiscard]] std::optional<Failure> refused() const;
  /// The same where no session follows: waits for that long, since a server that takes a client says nothing.
  [[nodiscard]] std::optional<Failure> refused_within(Duration time);

 private:
  Acquaintance(Host& host, Transport& transport, const TrustOptions& options, std::size_t tsdu_bytes,
               Observer& observer)
      : host_(host), transport_(transport), options_(options), tsdu_bytes_(tsdu_bytes), observer_(observer) {}

  std::expected<void, Failure> prepare(const Url& url);
  std::expected<void, Failure> attempt();
  [[nodiscard]] Status check(const KeyPin& key);
  [[nodiscard]] Failure explain() const;
  /// The server's key is to be pinned when it has been shown.
  [[nodiscard]] bool is_new() const { return secret_.empty() && !known_; }
  void remember();

  Host& host_;
  Transport& transport_;
  const TrustOptions& options_;
  std::size_t tsdu_bytes_;
  Observer& observer_;
  std::vector<Peer> at_;
  std::optional<PullRequest> request_;
  std::unique_ptr<ClientHandshake> handshake_;

  std::string server_;  // as known hosts name it
  std::string known_hosts_;
  std::optional<Identity> identity_;
  Secret secret_;
  std::optional<KeyPin> known_;
  std::optional<KeyPin> accepted_;
  std::optional<KeyPin> shown_;  // by a server that was not good enough
};

}  // namespace sluice::ftx
