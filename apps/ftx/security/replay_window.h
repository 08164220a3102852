// SPDX-License-Identifier: Apache-2.0
#pragma once

// ReplayWindow: which numbers have come. Threat: a datagram recorded on the path and sent again.
//
// A ring of words, of which the newest part is the window (RFC 6479): no bit is ever shifted. Asking and marking are
// separate, since a number counts only after its datagram's tag holds:
//     RFC 4303 section 3.4.3: "The receive window is updated only if the ICV verification succeeds."
// A forged high number would otherwise close the window to every datagram that follows.
//
// Not thread-safe.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace sluice::ftx {

class ReplayWindow {
 public:
  /// So far behind the highest number may a datagram be. What is older cannot be told from a replay and is refused.
  static constexpr std::uint64_t width = 1024;

  /// `number` was not marked and lies within the window or above it.
  [[nodiscard]] bool fresh(std::uint64_t number) const {
    if (empty_ || number > highest_) {
      return true;
    }
    return highest_ - number < width && (words_[word(number)] & bit(number)) == 0;
  }

  /// REQUIRES: fresh(number), and the datagram's tag holds.
  void mark(std::uint64_t number) {
    if (empty_ || number > highest_) {
      advance(number);
    }
    words_[word(number)] |= bit(number);
  }

 private:
  static constexpr std::size_t words = 32;
  static_assert(width <= (words - 1) * 64);  // the newest word may hold numbers still to come

  static std::size_t word(std::uint64_t number) { return static_cast<std::size_t>(number / 64 % words); }
  static std::uint64_t bit(std::uint64_t number) { return std::uint64_t{1} << (number % 64); }

  void advance(std::uint64_t number) {
    const std::uint64_t steps = empty_ ? 0 : std::min<std::uint64_t>(number / 64 - highest_ / 64, words);
    for (std::uint64_t step = 0; step < steps; ++step) {
      words_[static_cast<std::size_t>((number / 64 - step) % words)] = 0;
    }
    highest_ = number;
    empty_ = false;
  }

  std::array<std::uint64_t, words> words_{};
  std::uint64_t highest_ = 0;
  bool empty_ = true;
};

}  // namespace sluice::ftx
