// SPDX-License-Identifier: Apache-2.0
#pragma once

// EarlyAdus: what comes of files before they may land (docs/formats/ftx.md, "The first flight" and "Accepting early"),
// in the order in which it came. It waits in memory, since nobody knows yet what it is, or whether it is needed:
// nothing of it is made, and no name of the list counts.
//
// Threat: a sender that sends files and never its list, or the same again and again. It fills bytes_max, of its own
// budget, and what comes then is as if lost. Each ADU counts more than its bytes, so that small ones take no more.
//
// Borrows the quota, of which it takes only what nobody else may need (Quota::take_spare). Not thread-safe. O(1) each.

#include <algorithm>
#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

#include "apps/ftx/files/budget.h"
#include "apps/ftx/protocol/message.h"
#include "base/bytes.h"
#include "base/contract.h"

namespace sluice::ftx {

class EarlyAdus {
 public:
  /// What comes at 1 Gbit/s in about 70 ms: while a lost part of the list comes again.
  static constexpr std::uint64_t bytes_max = std::uint64_t{8} << 20;
  /// What one takes beside its bytes.
  static constexpr std::uint64_t overhead_bytes = 128;

  struct One {
    AduName name;
    std::vector<std::byte> bytes;
  };

  explicit EarlyAdus(Quota& memory) : memory_(memory) {}
  EarlyAdus(const EarlyAdus&) = delete;
  EarlyAdus& operator=(const EarlyAdus&) = delete;

  /// Where the payload of the next goes, until the next call. Empty: there is no room. REQUIRES: size > 0.
  [[nodiscard]] Bytes place(std::uint32_t size) {
    if (next_.size() != size) {
      close();
      if (used_bytes_ + cost(size) > bytes_max || !memory_.take_spare(cost(size))) {
        return {};
      }
      next_.resize(size);
    }
    return next_;
  }
  /// It is there. REQUIRES: place(name.length) has named memory, with no other call in between.
  void keep(const AduName& name) {
    SLUICE_REQUIRE(next_.size() == name.length);
    used_bytes_ += cost(next_.size());
    waiting_.push_back({name, std::move(next_)});
    next_ = {};
  }

  [[nodiscard]] bool empty() const { return waiting_.empty(); }
  /// REQUIRES of both: !empty().
  [[nodiscard]] const One& front() const { return waiting_.front(); }
  void pop() {
    used_bytes_ -= cost(waiting_.front().bytes.size());
    memory_.give_back(cost(waiting_.front().bytes.size()));
    waiting_.pop_front();
  }
  /// How many bytes more may come. What is small takes more than that says.
  [[nodiscard]] std::uint64_t room_bytes() const { return bytes_max - used_bytes_; }
  /// No more will come.
  void close() {
    memory_.give_back(cost(next_.size()));
    next_ = {};
  }

 private:
  [[nodiscard]] static std::uint64_t cost(std::size_t size) { return size == 0 ? 0 : size + overhead_bytes; }

  Quota& memory_;
  std::deque<One> waiting_;
  std::uint64_t used_bytes_ = 0;
  std::vector<std::byte> next_;
};

}  // namespace sluice::ftx
