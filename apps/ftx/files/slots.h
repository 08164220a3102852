// SPDX-License-Identifier: Apache-2.0
#pragma once

// Slots: which ADUs of one file have landed, a bit each, and how far the file is complete from its start.
//
// Threat: a peer that announces a huge file. The bits lie in pages that exist only where ADUs have landed beyond the
// prefix, so memory follows what arrived out of order and never the size of the file.
//
// Invariants: prefix() <= count; every slot below prefix() is marked and slot prefix() is not; received() counts marks.
// Not thread-safe. A file of up to 64 ADUs needs no allocation. Calls for slots near each other are O(1).

#include <array>
#include <bit>
#include <cstdint>
#include <memory>
#include <unordered_map>

#include "base/contract.h"

namespace sluice::ftx {

class Slots {
 public:
  static constexpr std::uint64_t page_slots = 4096;
  /// What a page takes: its bits and its entry in the table.
  static constexpr std::uint64_t page_bytes = page_slots / 8 + 64;

  explicit Slots(std::uint64_t count = 0) : count_(count) {}

  [[nodiscard]] std::uint64_t count() const { return count_; }
  [[nodiscard]] std::uint64_t received() const { return received_; }
  [[nodiscard]] bool whole() const { return received_ == count_; }
  [[nodiscard]] std::uint64_t prefix() const { return prefix_; }
  /// What it has allocated.
  [[nodiscard]] std::uint64_t memory_bytes() const { return pages_.size() * page_bytes; }

  /// What mark() of the slots first..last would allocate. REQUIRES: first <= last < count().
  [[nodiscard]] std::uint64_t wanted_bytes(std::uint64_t first, std::uint64_t last) const {
    SLUICE_REQUIRE(first <= last && last < count_);
    if (count_ <= 64) {
      return 0;
    }
    std::uint64_t wanted = 0;
    for (std::uint64_t page = first / page_slots; page <= last / page_slots; ++page) {
      const bool complete = (page + 1) * page_slots <= prefix_;
      wanted += complete || find(page) != nullptr ? 0 : page_bytes;
    }
    return wanted;
  }
  /// Allocates the pages of first..last now. REQUIRES: as wanted_bytes().
  void prepare(std::uint64_t first, std::uint64_t last) {
    SLUICE_REQUIRE(first <= last && last < count_);
    for (std::uint64_t page = first / page_slots; count_ > 64 && page <= last / page_slots; ++page) {
      if ((page + 1) * page_slots > prefix_) {
        make(page);
      }
    }
  }

  /// REQUIRES: slot < count().
  [[nodiscard]] bool marked(std::uint64_t slot) const {
    SLUICE_REQUIRE(slot < count_);
    return slot < prefix_ || (word(slot / 64) >> (slot % 64) & 1) != 0;
  }

  /// REQUIRES: slot < count(). Marking twice changes nothing. Amortised O(1). Frees pages that the prefix has passed.
  void mark(std::uint64_t slot) {
    if (marked(slot)) {
      return;
    }
    std::uint64_t& word = count_ <= 64 ? inline_ : make(slot / page_slots)[slot % page_slots / 64];
    word |= std::uint64_t{1} << (slot % 64);
    ++received_;
    if (slot == prefix_) {
      advance();
    }
  }

 private:
  using Page = std::array<std::uint64_t, page_slots / 64>;

  [[nodiscard]] Page* find(std::uint64_t page) const {
    if (last_ == nullptr || last_page_ != page) {
      const auto found = pages_.find(page);
      if (found == pages_.end()) {
        return nullptr;
      }
      last_page_ = page;
      last_ = found->second.get();
    }
    return last_;
  }
  Page& make(std::uint64_t page) {
    if (Page* const found = find(page)) {
      return *found;
    }
    last_page_ = page;
    last_ = pages_.emplace(page, std::make_unique<Page>()).first->second.get();
    return *last_;
  }
  [[nodiscard]] std::uint64_t word(std::uint64_t index) const {
    if (count_ <= 64) {
      return inline_;
    }
    const Page* const page = find(index * 64 / page_slots);
    return page == nullptr ? 0 : (*page)[index % (page_slots / 64)];
  }

  void advance() {
    while (prefix_ < count_) {
      const auto run = static_cast<std::uint64_t>(std::countr_one(word(prefix_ / 64) >> (prefix_ % 64)));
      prefix_ += run;
      if (run > 0 && (prefix_ % page_slots == 0 || prefix_ == count_)) {
        pages_.erase((prefix_ - 1) / page_slots);
        last_ = nullptr;
      }
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
  std::unordered_map<std::uint64_t, std::unique_ptr<Page>> pages_;
  // The page that was asked for last.
  mutable std::uint64_t last_page_ = 0;
  mutable Page* last_ = nullptr;
};

}  // namespace sluice::ftx
