// SPDX-License-Identifier: Apache-2.0
#pragma once

// OneTimeSecret: the 32 bytes that a start hands to both ends of one transfer. They come from the kernel's random
// source, travel only through the pipe, and are wiped when their owner goes.
//
// Threat: who sees the 32 bytes can take part in the transfer. So they are never in an argument, in the environment or
// in a text, they are not copied, and memory that held them is wiped (OPENSSL_cleanse, which no compiler removes).
//
// Not thread-safe.

#include <array>

#include "base/bytes.h"
#include "base/result.h"

namespace sluice::ftx {

/// Overwrites `bytes`.
void wipe(Bytes bytes);

class OneTimeSecret {
 public:
  static constexpr std::size_t size = 32;

  /// Zeros.
  OneTimeSecret() = default;
  explicit OneTimeSecret(std::span<const std::byte, size> bytes);
  /// Random ones. Fails where the system has no random source.
  [[nodiscard]] static Result<OneTimeSecret> draw();
  ~OneTimeSecret() { wipe(bytes_); }
  OneTimeSecret(OneTimeSecret&& other) noexcept;
  OneTimeSecret& operator=(OneTimeSecret&& other) noexcept;

  [[nodiscard]] std::span<const std::byte, size> bytes() const { return bytes_; }

 private:
  std::array<std::byte, size> bytes_{};
};

}  // namespace sluice::ftx
