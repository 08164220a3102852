// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/security/secret.h"

#include <openssl/crypto.h>
#include <openssl/rand.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>

#include "base/contract.h"

namespace sluice::ftx {
namespace {

// A session of ftx keeps 9 blocks of 64 bytes there, a handshake 7 (apps/ftx/session/handshakes.h, server.h).
constexpr std::size_t heap_bytes = std::size_t{256} << 10;

/// Sets the secure heap up once for the process: 0 not at all, 1 locked, 2 not locked (CRYPTO_secure_malloc_init(3)).
int heap_state() {
  static const int state = CRYPTO_secure_malloc_initialized() != 0
                               ? 2  // made by somebody else: whether it is locked is not known
                               : CRYPTO_secure_malloc_init(heap_bytes, Secret::bytes_max);
  return state;
}

}  // namespace

Secret::Secret(ConstBytes bytes) {
  allocate(bytes.size());
  std::copy(bytes.begin(), bytes.end(), data());
}

Secret Secret::of_size(std::size_t size) {
  Secret secret;
  secret.allocate(size);
  return secret;
}

Result<Secret> Secret::random(std::size_t size) {
  Secret secret = of_size(size);
  if (RAND_priv_bytes(reinterpret_cast<unsigned char*>(secret.bytes().data()), static_cast<int>(size)) != 1) {
    return fail(EIO, "the system gives no random bytes");
  }
  return secret;
}

Secret::Secret(Secret&& other) noexcept { take(other); }

Secret& Secret::operator=(Secret&& other) noexcept {
  if (this != &other) {
    wipe();
    take(other);
  }
  return *this;
}

Secret::~Secret() { wipe(); }

Secret::Protection Secret::protection() const {
  if (heap_ == nullptr) {
    return Protection::wiped_only;
  }
  return heap_state() == 1 ? Protection::not_dumped_not_swapped : Protection::not_dumped;
}

bool Secret::equal(ConstBytes a, ConstBytes b) {
  return a.size() == b.size() && (a.empty() || CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0);
}

void Secret::allocate(std::size_t size) {
  SLUICE_REQUIRE(size <= bytes_max);
  size_ = size;
  if (size != 0 && heap_state() != 0) {
    heap_ = static_cast<std::byte*>(OPENSSL_secure_zalloc(bytes_max));
  }
}

void Secret::take(Secret& other) {
  heap_ = std::exchange(other.heap_, nullptr);
  size_ = other.size_;
  own_ = other.own_;
  other.wipe();
}

void Secret::wipe() {
  if (heap_ != nullptr) {
    OPENSSL_secure_clear_free(heap_, bytes_max);
    heap_ = nullptr;
  }
  OPENSSL_cleanse(own_.data(), own_.size());
  size_ = 0;
}

void wipe(Bytes bytes) {
  if (!bytes.empty()) {
    OPENSSL_cleanse(bytes.data(), bytes.size());
  }
}

Status forbid_core_dumps() {
  const rlimit none{0, 0};
  if (prctl(PR_SET_DUMPABLE, 0) != 0 || setrlimit(RLIMIT_CORE, &none) != 0) {
    return fail(errno, "cannot keep keys out of core dumps: prctl and setrlimit refuse");
  }
  return {};
}

}  // namespace sluice::ftx
