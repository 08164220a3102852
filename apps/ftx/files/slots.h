// SPDX-License-Identifier: Apache-2.0
#pragma once

// Slots: which parts of one file have landed, a bit each, and how far the file is complete from its start. A slot is as
// long as the OFFER says; an ADU fills a run of them.
//
// Threat: a peer that announces a huge file. The bits lie in pages that exist only where ADUs have landed beyond the
// prefix, so memory follows what arrived out of order and never the size of the file. What arrives in order needs none.
//
// Of a file whose size is not known yet the count is as large as can be, until end_at() says how many there are.
//
// Invariants: prefix() <= count; every slot below prefix() is marked and slot prefix() is not; received() counts marks.
// Not thread-safe. A file of up to 64 slots needs no allocation. Runs near each other are O(1) for each 64 slots.

#include <algorithm>
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
    if (count_ <= 64 || continues_prefix(first)) {
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
    if (count_ <= 64 || continues_prefix(first)) {
      return;
    }
    for (std::uint64_t page = first / page_slots; page <= last / page_slots; ++page) {
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
  /// How many of first..last are marked. REQUIRES: first <= last < count().
  [[nodiscard]] std::uint64_t marked(std::uint64_t first, std::uint64_t last) const {
    SLUICE_REQUIRE(first <= last && last < count_);
    std::uint64_t marked = first < prefix_ ? std::min(prefix_, last + 1) - first : 0;
    if (count_ > 64 && pages_.empty()) {
      return marked;  // all that has landed is the prefix
    }
    for (std::uint64_t at = first + marked; at <= last; at = (at / 64 + 1) * 64) {
      marked += static_cast<std::uint64_t>(std::popcount(word(at / 64) & mask(at, last)));
    }
    return marked;
  }

  /// There are no more than `count`. REQUIRES: no slot from there on is marked.
  void end_at(std::uint64_t count) {
    SLUICE_REQUIRE(prefix_ <= count && count <= count_);
    if (count <= 64 && count_ > 64) {
      inline_ = word(0);
      pages_.clear();
    }
    std::erase_if(pages_, [&](const auto& page) { return prefix_ == count || page.first * page_slots >= count; });
    last_ = nullptr;
    count_ = count;
  }

  void mark(std::uint64_t slot) { mark(slot, slot); }
  /// REQUIRES: first <= last < count(). Marking twice changes nothing. Frees pages that the prefix has passed.
  void mark(std::uint64_t first, std::uint64_t last) {
    SLUICE_REQUIRE(first <= last && last < count_);
    if (count_ > 64 && continues_prefix(first)) {
      received_ += last + 1 - first;
      prefix_ = last + 1;
      return;
    }
    for (std::uint64_t at = std::max(first, prefix_); at <= last; at = (at / 64 + 1) * 64) {
      std::uint64_t& word = count_ <= 64 ? inline_ : make(at / page_slots)[at % page_slots / 64];
      const std::uint64_t added = mask(at, last) & ~word;
      word |= added;
      received_ += static_cast<std::uint64_t>(std::popcount(added));
    }
    if (first <= prefix_) {
      advance();
    }
  }

 private:
  using Page = std::array<std::uint64_t, page_slots / 64>;

  /// All that has landed is the prefix, and a run from `first` on makes it longer.
  [[nodiscard]] bool continues_prefix(std::uint64_t first) const { return first == prefix_ && pages_.empty(); }
  /// The bits of at..last in the word of `at`.
  [[nodiscard]] static std::uint64_t mask(std::uint64_t at, std::uint64_t last) {
    const std::uint64_t from = ~std::uint64_t{0} << (at % 64);
    return last / 64 > at / 64 ? from : from & ~std::uint64_t{0} >> (63 - last % 64);
  }

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
