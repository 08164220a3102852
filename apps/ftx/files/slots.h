// SPDX-License-Identifier: Apache-2.0
#pragma once

// Slots: which ADUs of one file have landed, a bit each, and how far the file is complete from its start.
//
// Invariants: prefix() <= count; every slot below prefix() is marked and slot prefix() is not; received() counts marks.
// Not thread-safe. A file of up to 64 ADUs needs no allocation.

#include <bit>
#include <cstdint>
#include <vector>

#include "base/contract.h"

namespace sluice::ftx {

class Slots {
 public:
  explicit Slots(std::uint64_t count = 0) : count_(count) {
    if (count > 64) {
      words_.resize(memory_bytes(count) / sizeof(std::uint64_t));
    }
  }

  /// What Slots(count) allocates.
  [[nodiscard]] static std::uint64_t memory_bytes(std::uint64_t count) {
    return count > 64 ? (count + 63) / 64 * 8 : 0;
  }

  [[nodiscard]] std::uint64_t count() const { return count_; }
  [[nodiscard]] std::uint64_t received() const { return received_; }
  [[nodiscard]] bool whole() const { return received_ == count_; }
  [[nodiscard]] std::uint64_t prefix() const { return prefix_; }

  /// REQUIRES: slot < count().
  [[nodiscard]] bool marked(std::uint64_t slot) const {
    SLUICE_REQUIRE(slot < count_);
    return (word(slot / 64) >> (slot % 64) & 1) != 0;
  }

  /// REQUIRES: slot < count(). Marking twice changes nothing. Amortised O(1).
  void mark(std::uint64_t slot) {
    if (marked(slot)) {
      return;
    }
    word(slot / 64) |= std::uint64_t{1} << (slot % 64);
    ++received_;
    if (slot == prefix_) {
      advance();
    }
  }

 private:
  [[nodiscard]] const std::uint64_t& word(std::uint64_t index) const {
    return words_.empty() ? inline_ : words_[index];
  }
  [[nodiscard]] std::uint64_t& word(std::uint64_t index) { return words_.empty() ? inline_ : words_[index]; }

  void advance() {
    while (prefix_ < count_) {
      const auto run = static_cast<std::uint64_t>(std::countr_one(word(prefix_ / 64) >> (prefix_ % 64)));
      prefix_ += run;
      // A run that ends inside its word ends at an unmarked slot.
      if (run == 0 || prefix_ % 64 != 0) {
        return;
      }
    }
  }

  std::uint64_t count_;
  std::uint64_t received_ = 0;
  std::uint64_t prefix_ = 0;
  std::uint64_t inline_ = 0;
  std::vector<std::uint64_t> words_;
};

}  // namespace sluice::ftx
