// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/security/identity.h"

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/sha.h>
#include <openssl/x509.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "apps/ftx/security/private_file.h"
#include "apps/ftx/security/secret.h"

namespace sluice::ftx {
namespace {

struct FreeBio {
  void operator()(BIO* bio) const { BIO_free(bio); }
  void operator()(unsigned char* bytes) const { OPENSSL_free(bytes); }
};

/// A key with a password cannot be used by a program that nobody sits at; OpenSSL would ask on the terminal.
int no_password(char* /*buffer*/, int /*size*/, int /*writing*/, void* /*argument*/) { return -1; }

void make_secure_heap() { static_cast<void>(Secret::of_size(1)); }

/// RFC 5280 section 4.1.2.5: "To indicate that a certificate has no well-defined expiration date, the notAfter SHOULD
/// be assigned the GeneralizedTime value of 99991231235959Z."
std::shared_ptr<x509_st> self_signed(EVP_PKEY* key) {
  std::shared_ptr<x509_st> certificate(X509_new(), X509_free);
  const auto* const name = reinterpret_cast<const unsigned char*>("ftx");
  X509* const x509 = certificate.get();
  const bool good = x509 != nullptr && X509_set_version(x509, X509_VERSION_3) == 1 &&
                    ASN1_INTEGER_set(X509_get_serialNumber(x509), 1) == 1 &&
                    ASN1_TIME_set_string(X509_getm_notBefore(x509), "19700101000000Z") == 1 &&
                    ASN1_TIME_set_string(X509_getm_notAfter(x509), "99991231235959Z") == 1 &&
                    X509_NAME_add_entry_by_txt(X509_get_subject_name(x509), "CN", MBSTRING_ASC, name, -1, -1, 0) == 1 &&
                    X509_set_issuer_name(x509, X509_get_subject_name(x509)) == 1 && X509_set_pubkey(x509, key) == 1 &&
                    X509_sign(x509, key, nullptr) > 0;  // Ed25519 hashes by itself
  return good ? certificate : nullptr;
}

}  // namespace

Result<KeyPin> KeyPin::parse(std::string_view text) {
  constexpr const char* expected = "a key is written `ftx-key:` and 43 characters of base64";
  if (text.size() != text_bytes || !text.starts_with(prefix)) {
    return fail(EINVAL, expected);
  }
  std::string padded(text.substr(prefix.size()));
  padded += '=';
  std::array<unsigned char, digest_bytes + 1> decoded;  // 44 characters are 33 bytes, the last one padding
  if (EVP_DecodeBlock(decoded.data(), reinterpret_cast<const unsigned char*>(padded.data()),
                      static_cast<int>(padded.size())) != static_cast<int>(decoded.size())) {
    return fail(EINVAL, expected);
  }
  KeyPin pin;
  std::transform(decoded.begin(), decoded.end() - 1, pin.digest_.begin(), [](unsigned char c) { return std::byte{c}; });
  // RFC 4648 section 3.5: "The padding step in base 64 and base 32 encoding can, if improperly implemented, lead to
  // non-significant alterations of the encoded data." Only one spelling is accepted.
  if (pin.text() != text) {
    return fail(EINVAL, expected);
  }
  return pin;
}

Result<KeyPin> KeyPin::of(const x509_st* certificate) {
  unsigned char* encoded = nullptr;
  const int size = i2d_X509_PUBKEY(X509_get_X509_PUBKEY(certificate), &encoded);
  const std::unique_ptr<unsigned char, FreeBio> owner(encoded);
  if (size <= 0) {
    return fail(EINVAL, "a certificate without a public key");
  }
  KeyPin pin;
  SHA256(encoded, static_cast<std::size_t>(size), reinterpret_cast<unsigned char*>(pin.digest_.data()));
  return pin;
}

std::string KeyPin::text() const {
  std::array<unsigned char, 45> encoded;  // 44 characters and a zero
  EVP_EncodeBlock(encoded.data(), reinterpret_cast<const unsigned char*>(digest_.data()),
                  static_cast<int>(digest_.size()));
  return std::string(prefix) + std::string(encoded.begin(), encoded.begin() + 43);
}

Result<Identity> Identity::of(std::shared_ptr<evp_pkey_st> key) {
  Identity identity;
  identity.certificate_ = key == nullptr ? nullptr : self_signed(key.get());
  if (identity.certificate_ == nullptr) {
    return fail(ENOTSUP, "OpenSSL cannot make a certificate of an Ed25519 key");
  }
  const Result<KeyPin> pin = KeyPin::of(identity.certificate_.get());
  if (!pin) {
    return std::unexpected(pin.error());
  }
  identity.key_ = std::move(key);
  identity.pin_ = *pin;
  return identity;
}

Result<Identity> Identity::create() {
  make_secure_heap();
  return of({EVP_PKEY_Q_keygen(nullptr, nullptr, "ED25519"), EVP_PKEY_free});
}

Result<Identity> Identity::parse(ConstBytes pem) {
  make_secure_heap();
  const std::unique_ptr<BIO, FreeBio> bio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  std::shared_ptr<evp_pkey_st> key(
      bio == nullptr ? nullptr : PEM_read_bio_PrivateKey(bio.get(), nullptr, no_password, nullptr), EVP_PKEY_free);
  if (key == nullptr || EVP_PKEY_is_a(key.get(), "ED25519") != 1) {
    return fail(EINVAL, "no Ed25519 private key in PEM without a password");
  }
  return of(std::move(key));
}

Result<Identity> Identity::load(const std::string& path) {
  Result<std::vector<std::byte>> pem = read_private_file(path, Readers::owner_only);
  if (!pem) {
    return std::unexpected(pem.error());
  }
  Result<Identity> identity = parse(*pem);
  wipe(*pem);
  if (!identity) {
    return fail(identity.error().code, path + ": " + identity.error().text);
  }
  return identity;
}

Result<Identity> Identity::load_or_create(const std::string& path) {
  Result<Identity> loaded = load(path);
  if (loaded || loaded.error().code != ENOENT) {
    return loaded;
  }
  Result<Identity> created = create();
  if (!created) {
    return created;
  }
  const Status stored = created->store(path);
  if (stored) {
    return created;
  }
  if (stored.error().code == EEXIST) {  // another process was first
    return load(path);
  }
  return std::unexpected(stored.error());
}

Status Identity::store(const std::string& path) const {
  const std::unique_ptr<BIO, FreeBio> bio(BIO_new(BIO_s_secmem()));
  if (bio == nullptr || PEM_write_bio_PrivateKey(bio.get(), key_.get(), nullptr, nullptr, 0, nullptr, nullptr) != 1) {
    return fail(ENOMEM, "cannot write the private key of " + path + " as PEM");
  }
  char* pem = nullptr;
  const long size = BIO_get_mem_data(bio.get(), &pem);
  return write_private_file(path, as_bytes({pem, static_cast<std::size_t>(size)}), IfPresent::refuse);
}

}  // namespace sluice::ftx
