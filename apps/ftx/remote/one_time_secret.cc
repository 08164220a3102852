// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/remote/one_time_secret.h"

#include <openssl/crypto.h>
#include <openssl/rand.h>

#include <algorithm>
#include <cerrno>

namespace sluice::ftx {

void wipe(Bytes bytes) { OPENSSL_cleanse(bytes.data(), bytes.size()); }

OneTimeSecret::OneTimeSecret(std::span<const std::byte, size> bytes) {
  std::copy(bytes.begin(), bytes.end(), bytes_.begin());
}

Result<OneTimeSecret> OneTimeSecret::draw() {
  OneTimeSecret secret;
  if (RAND_bytes(reinterpret_cast<unsigned char*>(secret.bytes_.data()), static_cast<int>(size)) != 1) {
    return fail(EIO, "the system gives no random bytes");
  }
  return secret;
}

OneTimeSecret::OneTimeSecret(OneTimeSecret&& other) noexcept : bytes_(other.bytes_) { wipe(other.bytes_); }

OneTimeSecret& OneTimeSecret::operator=(OneTimeSecret&& other) noexcept {
  if (this != &other) {
    bytes_ = other.bytes_;
    wipe(other.bytes_);
  }
  return *this;
}

}  // namespace sluice::ftx
