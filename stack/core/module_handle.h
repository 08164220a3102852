// SPDX-License-Identifier: Apache-2.0
#pragma once

// Handles to what may go away while somebody still remembers it: a message that waits, unverified, in the stream head
// names the module that will want to know how the check came out, and that module may be popped before. Modules of a
// set that are no neighbours know each other by number (number(), find()): a connection is accepted on another stream
// so.
//
// Ownership: a table belongs to a stream set. Threads: the set's.

#include <cstdint>
#include <vector>

namespace sluice {

class Module;
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
  /// `module` is who find() answers.
  [[nodiscard]] ModuleHandle add(Module* module = nullptr) {
    if (free_.empty()) {
      free_.push_back(static_cast<std::uint32_t>(places_.size()));
      places_.push_back({});
    }
    const std::uint32_t index = free_.back();
    free_.pop_back();
    places_[index].module = module;
    return {*this, index, places_[index].generation};
  }
  /// No copy of `owner` is alive afterwards.
  void remove(const ModuleHandle& owner) {
    ++places_[owner.index_].generation;
    places_[owner.index_].module = nullptr;
    free_.push_back(owner.index_);
  }
  /// A number that names the owner to others, never 0; a place in the table gives the same number again only after
  /// 4096 owners. 0: the handle is not alive, or there are more modules than numbers.
  [[nodiscard]] std::uint32_t number(const ModuleHandle& owner) const {
    const bool numbered = owner.alive() && owner.index_ < index_mask;
    return numbered ? (owner.generation_ << index_bits | (owner.index_ + 1)) : 0;
  }
  /// Who has that number, which may be any: nullptr when nobody does.
  [[nodiscard]] Module* find(std::uint32_t number) const {
    const std::uint32_t index = (number & index_mask) - 1;
    const bool known = (number & index_mask) != 0 && index < places_.size() &&
                       (places_[index].generation << index_bits) == (number & ~index_mask);
    return known ? places_[index].module : nullptr;
  }

 private:
  friend class ModuleHandle;
  struct Place {
    std::uint32_t generation = 0;
    Module* module = nullptr;
  };
  static constexpr unsigned index_bits = 20;
  static constexpr std::uint32_t index_mask = (1U << index_bits) - 1;
  std::vector<Place> places_;
  std::vector<std::uint32_t> free_;
};

inline bool ModuleHandle::alive() const {
  return table_ != nullptr && table_->places_[index_].generation == generation_;
}

}  // namespace sluice
