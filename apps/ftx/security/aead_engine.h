// SPDX-License-Identifier: Apache-2.0
#pragma once

// AeadEngine: one keyed cipher of a library, without the rules of its use, which are Aead's (aead.h).
//
// There are two libraries. OpenSSL has every cipher on every processor. Intel's ipsec-mb (x86-64 only; taken where it
// is there when this is built) has AES-128-GCM written for short messages: on a processor with vector AES it seals a
// datagram of 1,408 bytes in a quarter of the time of OpenSSL 3.0, half of which goes into setting up. Both compute the
// same bytes; tests/apps/ftx/security/aead_test.cc holds them to each other and to the published vectors.
//
// Threat: two implementations are twice as much code that sees keys. Each wipes its key schedule when it goes; no
// engine looks at a plaintext or compares a tag in a time that depends on it.
//
// Not thread-safe.

#include <array>
#include <memory>
#include <span>

#include "apps/ftx/security/aead.h"
#include "base/bytes.h"

namespace sluice::ftx {

class AeadEngine {
 public:
  using Nonce = std::array<unsigned char, aead_iv_bytes>;

  AeadEngine() = default;
  AeadEngine(const AeadEngine&) = delete;
  AeadEngine& operator=(const AeadEngine&) = delete;
  virtual ~AeadEngine() = default;

  /// As Aead::seal. REQUIRES: the runs of `plain` and a tag fill `sealed`.
  [[nodiscard]] virtual bool seal(const Nonce& nonce, ConstBytes associated, std::span<const ConstBytes> plain,
                                  Bytes sealed) = 0;
  /// As Aead::open. REQUIRES: plain.size() + aead_tag_bytes == sealed.size().
  [[nodiscard]] virtual bool open(const Nonce& nonce, ConstBytes associated, ConstBytes sealed, Bytes plain) = 0;

  // As Aead::begin_open, open_part and end_open. What was begun and not ended is forgotten.
  [[nodiscard]] virtual bool begin_open(const Nonce& nonce, ConstBytes associated) = 0;
  [[nodiscard]] virtual bool open_part(ConstBytes sealed, Bytes plain) = 0;
  [[nodiscard]] virtual bool end_open(ConstBytes tag) = 0;
};

/// Null where OpenSSL lacks the cipher. REQUIRES: key.size() == key_bytes(cipher).
[[nodiscard]] std::unique_ptr<AeadEngine> openssl_engine(Cipher cipher, ConstBytes key, Direction direction);

/// Null where ipsec-mb lacks the cipher, was not there when this was built, or has no instructions of this processor
/// for AES and carry-less multiplication: what it does without them takes a time that depends on the key. REQUIRES:
/// key.size() == key_bytes(cipher).
[[nodiscard]] std::unique_ptr<AeadEngine> ipsec_mb_engine(Cipher cipher, ConstBytes key);

}  // namespace sluice::ftx
