// SPDX-License-Identifier: Apache-2.0
#pragma once

// Secret: key material. Threat: a key that outlives its use in freed memory, in a core dump or in swap space, and a
// comparison whose duration tells how much of a guess was right.
//
// The bytes lie in OpenSSL's secure heap, which the first Secret sets up: pages of their own between guard pages,
// locked into memory (mlock) and left out of core dumps (MADV_DONTDUMP). Two things can be missing, and protection()
// says so: where RLIMIT_MEMLOCK forbids locking, the pages may be swapped out; where the secure heap is full or could
// not be made, the bytes lie in the Secret itself, in ordinary memory. They are wiped in every case.
//
// OpenSSL's cipher contexts hold expanded keys in ordinary memory. forbid_core_dumps() keeps those out of core dumps
// too.
//
// Any thread may make and destroy Secrets; one Secret belongs to one thread at a time.

#include <array>
#include <cstdint>

#include "base/bytes.h"
#include "base/result.h"

namespace sluice::ftx {

class Secret {
 public:
  static constexpr std::size_t bytes_max = 64;

  /// What is done beside wiping.
  enum class Protection : std::uint8_t { wiped_only, not_dumped, not_dumped_not_swapped };

  Secret() = default;
  /// A copy of `bytes`. REQUIRES: bytes.size() <= bytes_max.
  explicit Secret(ConstBytes bytes);
  /// `size` bytes of zero, to be filled. REQUIRES: size <= bytes_max.
  static Secret of_size(std::size_t size);
  /// `size` bytes of the system's random source; fails where it has none. REQUIRES: size <= bytes_max.
  static Result<Secret> random(std::size_t size);

  Secret(Secret&& other) noexcept;
  Secret& operator=(Secret&& other) noexcept;
  Secret(const Secret&) = delete;
  Secret& operator=(const Secret&) = delete;
  ~Secret();

  [[nodiscard]] Secret copy() const { return Secret(bytes()); }
  [[nodiscard]] Bytes bytes() { return {data(), size_}; }
  [[nodiscard]] ConstBytes bytes() const { return {const_cast<Secret*>(this)->data(), size_}; }
  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] bool empty() const { return size_ == 0; }
  [[nodiscard]] Protection protection() const;

  /// In a time that depends on the sizes alone.
  [[nodiscard]] friend bool operator==(const Secret& a, const Secret& b) { return equal(a.bytes(), b.bytes()); }
  [[nodiscard]] static bool equal(ConstBytes a, ConstBytes b);

 private:
  std::byte* data() { return heap_ != nullptr ? heap_ : own_.data(); }
  void allocate(std::size_t size);
  void take(Secret& other);
  void wipe();

  std::byte* heap_ = nullptr;  // in the secure heap; null: the bytes are in own_
  std::size_t size_ = 0;
  std::array<std::byte, bytes_max> own_{};
};

/// Overwrites `bytes` with zero, even where they are not read again.
void wipe(Bytes bytes);

/// No core dump of this process and no debugger of another process of this user from now on (PR_SET_DUMPABLE,
/// RLIMIT_CORE). For programs, once at the start.
[[nodiscard]] Status forbid_core_dumps();

}  // namespace sluice::ftx
