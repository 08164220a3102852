// SPDX-License-Identifier: Apache-2.0
#pragma once

// Handshake: TLS 1.3 (RFC 8446, by OpenSSL) between bytes in and bytes out, until both ends share a secret that nobody
// else knows. ftx seals its datagrams with keys from export_secret(). Behind the handshake go a few bytes of data at
// most: what a client wants to fetch, and why it does not get that (apps/ftx/protocol/request.h).
//
//     client ── ClientHello ──►                                            ──► server
//            ◄── ServerHello, {its certificate, or the shared secret's proof} ◄──
//     complete ── {client's certificate, Finished} ──►                     ──► complete
//
// Who the peer is, is shown in one of two ways:
//   - its key: each side sends a certificate it made itself (identity.h), and Options::check_peer of the other
//     side decides by the key's pin. No certificate authority, no name and no time is looked at;
//   - a shared secret of 32 random bytes that came another way: an external pre-shared key with (EC)DHE. It proves both
//     sides to each other, and then no certificate is sent: RFC 8446 section 4.3.2: "Servers which are authenticating
//     with a PSK MUST NOT send the CertificateRequest message in the main handshake"
// When both sides have the same shared secret, it is used; else the keys are.
//
// Threats:
//   - a server that plays another: the pin;
//   - a client that nobody allowed: a key is required, and its pin decides;
//   - an older protocol: only TLS 1.3 is spoken, with suites of SHA-256;
//   - input without end: input_bytes_max;
//   - early data and tickets that are replayed: there are none;
//   - a peer of another protocol made to answer this one: ALPN "ftx/2";
//   - a guessed secret: it is of 32 random bytes; one of few bits could be found from a recorded handshake;
//   - a client's messages led back to its own server (RFC 9257 calls it Selfie): a shared secret belongs to one client
//     and one server, never to a program that is both;
//   - work for nothing: a server spends a signature on a ClientHello, so ask for a cookie first.
//
// A client is complete before the server has judged it: a refusal comes as an alert, which accept() turns into
// `failed`. What proves that the server took it is the first datagram that opens with the exported keys.
//
// No clock and no socket; random numbers are OpenSSL's. A context may be shared by threads, a Handshake may not.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "apps/ftx/security/identity.h"
#include "apps/ftx/security/secret.h"
#include "base/bytes.h"
#include "base/result.h"

namespace sluice::ftx {

class Handshake;

/// What the handshakes of one side have in common. Made once, since it costs about as much as a handshake.
class HandshakeContext {
 public:
  static constexpr std::size_t shared_secret_bytes = 32;

  enum class Role : std::uint8_t { client, server };

  struct Options {
    /// This side's key. A server needs it unless it has a shared secret, a client when the server asks for it.
    std::optional<Identity> identity{};
    /// Decides by the peer's key; its error's text becomes the handshake's. Absent: no key is good enough.
    std::function<Status(const KeyPin&)> check_peer{};
    /// Of a server: clients need not show a key.
    bool anonymous_clients = false;
    /// Empty or of shared_secret_bytes.
    Secret shared_secret{};
  };

  /// Fails with EINVAL when `options` could never come to a handshake, ENOTSUP when OpenSSL lacks something.
  static Result<HandshakeContext> create(Role role, Options options);

  [[nodiscard]] Result<Handshake> begin() const;

  struct Shared;  // internal

 private:
  std::shared_ptr<const Shared> shared_;
};

/// A check_peer that wants exactly this key.
[[nodiscard]] std::function<Status(const KeyPin&)> expect_key(const KeyPin& key);

class Handshake {
 public:
  enum class State : std::uint8_t { in_progress, complete, failed };

  /// Of all input together; a handshake of ours takes about 1 KiB.
  static constexpr std::size_t input_bytes_max = std::size_t{64} << 10;
  static constexpr std::size_t exported_bytes = 32;

  Handshake(Handshake&&) noexcept;
  Handshake& operator=(Handshake&&) noexcept;
  ~Handshake();

  /// Takes what came from the peer, in any portions, also after `complete` (alerts). Ignored after `failed`.
  void accept(ConstBytes input);
  /// The peer sends no more: a handshake in progress fails.
  void end_input();
  /// Sends `data` behind the handshake, in records that only the peer can open. A client may do so as soon as it is
  /// complete, together with its last flight. False: not complete, or OpenSSL refuses. REQUIRES: 0 < data.size().
  [[nodiscard]] bool write(ConstBytes data);
  /// The peer's data since the last call, in order. Bounded by input_bytes_max, as all input is.
  [[nodiscard]] std::vector<std::byte> take_data();
  /// What is to be sent now, an alert after a failure included.
  [[nodiscard]] std::vector<std::byte> take_output();

  [[nodiscard]] State state() const;
  /// Why it failed: a sentence without control characters. Empty unless state() is failed.
  [[nodiscard]] const std::string& error() const;

  /// RFC 8446 section 7.5. Both ends get the same for the same label and context, each session another.
  ///     RFC 5705 section 4: "Label values beginning with "EXPERIMENTAL" MAY be used for private use without
  ///     registration."
  /// Fails with EINVAL unless complete.
  [[nodiscard]] Result<Secret> export_secret(std::string_view label, ConstBytes context = {}) const;

  /// The key the peer showed, once complete; nothing when a shared secret proved it, or the client is anonymous.
  [[nodiscard]] std::optional<KeyPin> peer() const;
  [[nodiscard]] bool used_shared_secret() const;

  struct Engine;  // internal

 private:
  friend class HandshakeContext;
  explicit Handshake(std::unique_ptr<Engine> engine);

  std::unique_ptr<Engine> engine_;
};

}  // namespace sluice::ftx
