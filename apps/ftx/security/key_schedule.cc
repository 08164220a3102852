// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/security/key_schedule.h"

#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/kdf.h>
#include <openssl/params.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <utility>

#include "base/contract.h"

namespace sluice::ftx {
namespace {

constexpr std::string_view label_prefix = "ftx2 ";
constexpr std::size_t label_bytes_max = 32;
constexpr std::size_t context_bytes_max = 32;

struct FreeKdf {
  void operator()(EVP_KDF* kdf) const { EVP_KDF_free(kdf); }
  void operator()(EVP_KDF_CTX* context) const { EVP_KDF_CTX_free(context); }  // wipes what it was given
};

OSSL_PARAM octets(const char* key, ConstBytes bytes) {
  return OSSL_PARAM_construct_octet_string(key, const_cast<std::byte*>(bytes.data()), bytes.size());
}

/// One step of HKDF-SHA256; `extra` is the salt or the info.
Status hkdf(int mode, ConstBytes key, const char* extra_name, ConstBytes extra, Bytes output) {
  const std::unique_ptr<EVP_KDF, FreeKdf> kdf(EVP_KDF_fetch(nullptr, OSSL_KDF_NAME_HKDF, nullptr));
  const std::unique_ptr<EVP_KDF_CTX, FreeKdf> context(kdf == nullptr ? nullptr : EVP_KDF_CTX_new(kdf.get()));
  char digest[] = "SHA256";
  std::array<OSSL_PARAM, 5> parameters{
      OSSL_PARAM_construct_int(OSSL_KDF_PARAM_MODE, &mode),
      OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, digest, 0),
      octets(OSSL_KDF_PARAM_KEY, key),
      extra.empty() ? OSSL_PARAM_construct_end() : octets(extra_name, extra),
      OSSL_PARAM_construct_end(),
  };
  if (context == nullptr || EVP_KDF_derive(context.get(), reinterpret_cast<unsigned char*>(output.data()),
                                           output.size(), parameters.data()) != 1) {
    return fail(ENOTSUP, "OpenSSL cannot derive keys: HKDF-SHA256 fails");
  }
  return {};
}

}  // namespace

Result<Secret> hkdf_extract(ConstBytes salt, ConstBytes input) {
  SLUICE_REQUIRE(!input.empty());
  Secret key = Secret::of_size(hash_bytes);
  const Status status = hkdf(EVP_KDF_HKDF_MODE_EXTRACT_ONLY, input, OSSL_KDF_PARAM_SALT, salt, key.bytes());
  if (!status) {
    return std::unexpected(status.error());
  }
  return key;
}

Status hkdf_expand(ConstBytes pseudorandom_key, ConstBytes info, Bytes output) {
  SLUICE_REQUIRE(!output.empty() && output.size() <= 255 * hash_bytes);
  return hkdf(EVP_KDF_HKDF_MODE_EXPAND_ONLY, pseudorandom_key, OSSL_KDF_PARAM_INFO, info, output);
}

Result<Secret> expand_label(const Secret& secret, std::string_view label, ConstBytes context, std::size_t size) {
  SLUICE_REQUIRE(label.size() >= 2 && label.size() <= label_bytes_max && context.size() <= context_bytes_max);
  std::array<std::byte, 2 + 1 + label_prefix.size() + label_bytes_max + 1 + context_bytes_max> info;
  store_big_endian(info.data(), static_cast<std::uint16_t>(size));
  auto at = info.begin() + 2;
  const auto put = [&at](ConstBytes bytes) { at = std::copy(bytes.begin(), bytes.end(), at); };
  *at++ = static_cast<std::byte>(label_prefix.size() + label.size());
  put(as_bytes(label_prefix));
  put(as_bytes(label));
  *at++ = static_cast<std::byte>(context.size());
  put(context);

  Secret output = Secret::of_size(size);
  const Status status = hkdf_expand(secret.bytes(), ConstBytes(info.begin(), at), output.bytes());
  if (!status) {
    return std::unexpected(status.error());
  }
  return output;
}

Result<DirectionKeys> DirectionKeys::derive(Cipher cipher, std::uint32_t generation, Secret traffic_secret) {
  const auto number = static_cast<std::byte>(cipher);
  Result<Secret> key = expand_label(traffic_secret, "key", {&number, 1}, key_bytes(cipher));
  Result<Secret> iv = expand_label(traffic_secret, "iv", {&number, 1}, aead_iv_bytes);
  if (!key || !iv) {
    return std::unexpected(key ? iv.error() : key.error());
  }
  return DirectionKeys{cipher, generation, std::move(traffic_secret), std::move(*key), std::move(*iv)};
}

Result<DirectionKeys> DirectionKeys::next() const {
  Result<Secret> secret = expand_label(traffic_secret, "ku", {}, hash_bytes);
  if (!secret) {
    return std::unexpected(secret.error());
  }
  return derive(cipher, generation + 1, std::move(*secret));
}

KeySchedule::KeySchedule(Secret session_secret) : session_secret_(std::move(session_secret)) {
  SLUICE_REQUIRE(session_secret_.size() == session_secret_bytes);
}

Result<DirectionKeys> KeySchedule::keys(Way way, Cipher cipher) const {
  Result<Secret> secret = expand_label(session_secret_, way == Way::to_responder ? "i2r" : "r2i", {}, hash_bytes);
  if (!secret) {
    return std::unexpected(secret.error());
  }
  return DirectionKeys::derive(cipher, 0, std::move(*secret));
}

Result<std::uint64_t> KeySchedule::identifier() const {
  const Result<Secret> bytes = expand_label(session_secret_, "id", {}, identifier_bytes);
  if (!bytes) {
    return std::unexpected(bytes.error());
  }
  return load_big_endian<std::uint64_t>(bytes->bytes().data());
}

Result<Secret> KeySchedule::confirmation(Way way, ConstBytes context) const {
  return expand_label(session_secret_, way == Way::to_responder ? "confirm i" : "confirm r", context,
                      confirmation_bytes);
}

}  // namespace sluice::ftx
