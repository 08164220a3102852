// SPDX-License-Identifier: Apache-2.0
#pragma once

// Trust: whom a standing server and its clients know, in files of the user's configuration directory
// ($XDG_CONFIG_HOME/ftx, else ~/.config/ftx), and how the two prove it to each other before a session.
//
//     key            this user's own key, made when it is first needed (apps/ftx/security/identity.h)
//     known_hosts    a client's: the key of each server           host:port key
//     allowed_keys   a server's: who may come, by what name       key name
//
// Threat: a secret on a command line, where everybody reads it. It is in a file that only its user can read.

#include <expected>
#include <optional>
#include <string>

#include "apps/ftx/cli/host.h"
#include "apps/ftx/cli/program.h"
#include "apps/ftx/cli/url.h"
#include "apps/ftx/security/handshake.h"
#include "apps/ftx/session/protection.h"

namespace sluice::ftx {

/// This user's own key: from the file that the options name, else from the default one, which is made where there is
/// none.
[[nodiscard]] std::expected<Identity, Failure> own_identity(const TrustOptions& options);

struct ServerTrust {
  HandshakeContext context;
  KeyPin key;
};
[[nodiscard]] std::expected<ServerTrust, Failure> server_trust(const TrustOptions& options);

struct Acquainted {
  Protection protection;
  std::size_t tsdu_bytes = 0;  // what both transports carry
};
/// Meets the server at `peer`: HELLO, cookie, handshake. A server that is not known yet is asked about on a terminal,
/// or must have the key that --accept-key says; then it is known.
[[nodiscard]] std::expected<Acquainted, Failure> meet(Host& host, Transport& transport, const TrustOptions& options,
                                                      const Url& url, const Peer& peer, std::size_t tsdu_bytes);

}  // namespace sluice::ftx
