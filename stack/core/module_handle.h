// SPDX-License-Identifier: Apache-2.0
#pragma once

// Handles to what may go away while somebody still remembers it: a message that waits, unverified, in the stream head
// names the module that will want to know how the check came out, and that module may be popped before.
//
// Ownership: a table belongs to a stream set. Threads: the set's.

#include <cstdint>
#include <vector>

namespace sluice {

class ModuleHandleTable;

/// Plain data; copies are equal handles. A default one is never alive.
class ModuleHandle {
 public:
  ModuleHandle() = default;
  [[nodiscard]] inline bool alive() const;

 private:
  friend class ModuleHandleTable;
  ModuleHandle(const ModuleHandleTable& table, std::uint32_t index, std::uint32_t generation)
      : table_(&table), index_(index), generation_(generation) {}

  const ModuleHandleTable* table_ = nullptr;
  std::uint32_t index_ = 0;
  std::uint32_t generation_ = 0;
};

class ModuleHandleTable {
 public:
  [[nodiscard]] ModuleHandle add() {
    if (free_.empty()) {
      free_.push_back(static_cast<std::uint32_t>(generations_.size()));
      generations_.push_back(0);
    }
    const std::uint32_t index = free_.back();
    free_.pop_back();
    return {*this, index, generations_[index]};
  }
  /// No copy of `owner` is alive afterwards.
  void remove(const ModuleHandle& owner) {
    ++generations_[owner.index_];
    free_.push_back(owner.index_);
  }

 private:
  friend class ModuleHandle;
  std::vector<std::uint32_t> generations_;
  std::vector<std::uint32_t> free_;
};

inline bool ModuleHandle::alive() const { return table_ != nullptr && table_->generations_[index_] == generation_; }

}  // namespace sluice
