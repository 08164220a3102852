// SPDX-License-Identifier: Apache-2.0
#pragma once

// KeySchedule: every key of a session from its one secret, by HKDF-SHA256 (RFC 5869) with labels.
//
//     session secret (32 random bytes: from ssh's pipe, or what TLS exports)
//       "i2r", "r2i"   traffic secret of a direction ── "ku" ──► traffic secret of the next generation ── "ku" ──► ...
//                        "key", "iv"   of that generation's Aead; the context is the cipher's number (one byte)
//       "id"           the session's identifier on the wire
//       "confirm i", "confirm r"   what proves to the peer that this side knows the session secret
//
// A label is shaped as in TLS 1.3, with "ftx2 " where TLS has "tls13 ":
//     RFC 8446 section 7.1: "HKDF-Expand-Label(Secret, Label, Context, Length) = HKDF-Expand(Secret, HkdfLabel, Length)
//     Where HkdfLabel is specified as:
//     struct {
//         uint16 length = Length;
//         opaque label<7..255> = "tls13 " + Label;
//         opaque context<0..255> = Context;
//     } HkdfLabel;"
// The session secret needs no HKDF-Extract:
//     RFC 5869 section 3.3: "In some applications, the input key material IKM may already be present as a
//     cryptographically strong key [...]. In this case, one can skip the extract part and use IKM directly to key HMAC
//     in the expand step."
//
// Threats: a datagram reflected to its sender (each direction has a key of its own); a peer made to take one cipher's
// keys for another's (the context); a traffic secret that leaks gives away its generation and later ones, never earlier
// ones.
//
// Works with secrets only while keys are made; nothing of it is on a datagram's way. Not thread-safe.

#include <array>
#include <cstdint>
#include <string_view>

#include "apps/ftx/security/aead.h"
#include "apps/ftx/security/secret.h"
#include "base/bytes.h"
#include "base/result.h"

namespace sluice::ftx {

inline constexpr std::size_t session_secret_bytes = 32;
inline constexpr std::size_t hash_bytes = 32;  // SHA-256

/// RFC 5869 section 2.2: "PRK = HMAC-Hash(salt, IKM)". Fails with ENOTSUP where OpenSSL lacks HKDF. REQUIRES: `input`
/// is not empty.
[[nodiscard]] Result<Secret> hkdf_extract(ConstBytes salt, ConstBytes input);
/// RFC 5869 section 2.3. REQUIRES: 0 < output.size() <= 255 * hash_bytes.
[[nodiscard]] Status hkdf_expand(ConstBytes pseudorandom_key, ConstBytes info, Bytes output);
/// HKDF-Expand-Label with our prefix. REQUIRES: label of 2 to 32 characters, context of at most 32 bytes.
[[nodiscard]] Result<Secret> expand_label(const Secret& secret, std::string_view label, ConstBytes context,
                                          std::size_t size);

/// The client, which begins the session, is the initiator.
enum class Way : std::uint8_t { to_responder, to_initiator };

/// One direction's keys of one generation.
struct DirectionKeys {
  Cipher cipher = Cipher::aes_128_gcm;
  std::uint32_t generation = 0;
  Secret traffic_secret;
  Secret key;
  Secret iv;

  static Result<DirectionKeys> derive(Cipher cipher, std::uint32_t generation, Secret traffic_secret);

  /// RFC 9001 section 6.1: "secret_<n+1> = HKDF-Expand-Label(secret_<n>, "quic ku", "", Hash.length)", with our label.
  [[nodiscard]] Result<DirectionKeys> next() const;
  [[nodiscard]] Result<Aead> aead(Direction direction) const {
    return Aead::create(cipher, key.bytes(), iv.bytes(), direction);
  }
};

class KeySchedule {
 public:
  static constexpr std::size_t identifier_bytes = 8;
  static constexpr std::size_t confirmation_bytes = 32;

  /// REQUIRES: session_secret.size() == session_secret_bytes, and it is of full entropy.
  explicit KeySchedule(Secret session_secret);

  /// Generation 0 of that direction.
  [[nodiscard]] Result<DirectionKeys> keys(Way way, Cipher cipher) const;

  /// For the wire: says nothing about the secret, and both ends know it.
  [[nodiscard]] Result<std::uint64_t> identifier() const;

  /// What the side that sends `way` sends to prove that it knows the session secret, bound to `context` (a digest of
  /// what was agreed, say). Compare with Secret::equal. REQUIRES: context of at most 32 bytes.
  [[nodiscard]] Result<Secret> confirmation(Way way, ConstBytes context) const;

 private:
  Secret session_secret_;
};

}  // namespace sluice::ftx
