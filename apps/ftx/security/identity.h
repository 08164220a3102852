// SPDX-License-Identifier: Apache-2.0
#pragma once

// Identity: an Ed25519 key pair by which a server or a client is known; KeyPin: what others know of it.
//
// No certificate authority has a say: the peer is the holder of the pinned key. TLS 1.3 carries keys in
// certificates, so each identity makes a minimal one for itself; nothing in it but the public key is ever looked at.
//
// Threats: a key file that others can read or replace (private_file.h); a pin that names another key by another
// spelling (there is one spelling of each); a certificate that time makes invalid (no time is looked at).
//
// Key pairs come from OpenSSL's random generator, and private keys lie in its secure heap (secret.h).

#include <array>
#include <compare>
#include <memory>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/result.h"

struct evp_pkey_st;  // EVP_PKEY
struct x509_st;      // X509

namespace sluice::ftx {

/// SHA-256 of a public key's SubjectPublicKeyInfo in DER, as RFC 7469 section 2.4 pins keys. Public.
class KeyPin {
 public:
  static constexpr std::size_t digest_bytes = 32;
  static constexpr std::string_view prefix = "ftx-key:";
  static constexpr std::size_t text_bytes = prefix.size() + 43;

  KeyPin() = default;
  explicit KeyPin(const std::array<std::byte, digest_bytes>& digest) : digest_(digest) {}

  /// `ftx-key:` and 43 characters of base64 (RFC 4648 section 4), without padding. Fails with EINVAL; the text repeats
  /// nothing of what was read.
  static Result<KeyPin> parse(std::string_view text);
  /// The key of a certificate.
  static Result<KeyPin> of(const x509_st* certificate);

  [[nodiscard]] std::string text() const;
  [[nodiscard]] ConstBytes digest() const { return digest_; }
  friend auto operator<=>(const KeyPin&, const KeyPin&) = default;

 private:
  std::array<std::byte, digest_bytes> digest_{};
};

/// Immutable and shared: copies are the same key.
class Identity {
 public:
  /// A new key pair.
  static Result<Identity> create();
  /// From a private key in PEM (PKCS #8), without a password. Fails with EINVAL when it is no Ed25519 key.
  static Result<Identity> parse(ConstBytes pem);
  /// From a file. Fails as parse() and read_private_file() do, the text names the file.
  static Result<Identity> load(const std::string& path);
  /// load(), or where there is none, create() and store().
  static Result<Identity> load_or_create(const std::string& path);

  /// Writes the private key to a new file of mode 0600. Fails with EEXIST rather than lose a key.
  [[nodiscard]] Status store(const std::string& path) const;

  [[nodiscard]] const KeyPin& pin() const { return pin_; }
  /// For TLS; they live as long as any copy of this identity.
  [[nodiscard]] evp_pkey_st* key() const { return key_.get(); }
  [[nodiscard]] x509_st* certificate() const { return certificate_.get(); }

 private:
  Identity() = default;
  static Result<Identity> of(std::shared_ptr<evp_pkey_st> key);

  std::shared_ptr<evp_pkey_st> key_;
  std::shared_ptr<x509_st> certificate_;
  KeyPin pin_;
};

}  // namespace sluice::ftx
