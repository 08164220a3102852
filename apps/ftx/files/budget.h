// SPDX-License-Identifier: Apache-2.0
#pragma once

// Budget: how much memory and how many open files a session may hold, and how many bytes and entries it may
// write. Budgets form a chain, session - host - server; what a session takes counts in each of them.
//
// Threat: a peer that makes a server hold much for little traffic, so that nobody else is served. So a session takes
// what has arrived and never what is announced (apps/ftx/files/assembly.h); a host may hold a part of what the server
// has (ServerOptions); and a session has a little of its own, which no other can take from it.
//
// Not thread-safe. Every call is O(1).

#include <algorithm>
#include <cstdint>
#include <limits>

namespace sluice::ftx {

/// One kind of thing. Borrows its parent.
class Quota {
 public:
  /// What is taken beyond the first `own` also counts in `parent`.
  explicit Quota(std::uint64_t most, Quota* parent = nullptr, std::uint64_t own = 0)
      : most_(most), parent_(parent), own_(own) {}

  /// False, and nothing taken, when this or a parent has not so much left.
  [[nodiscard]] bool take(std::uint64_t count) {
    if (count > left()) {
      return false;
    }
    if (parent_ != nullptr && !parent_->take(shared(used_ + count) - shared(used_))) {
      return false;
    }
    used_ += count;
    return true;
  }
  /// True when so much could be taken if nothing else were.
  [[nodiscard]] bool could_take(std::uint64_t count) const {
    return count <= most_ && (parent_ == nullptr || parent_->could_take(shared(count)));
  }
  /// As take(), where half of what there is stays free, here and above: for what nobody waits for.
  [[nodiscard]] bool take_spare(std::uint64_t count) { return has_spare(count) && take(count); }
  /// REQUIRES: so much was taken.
  void give_back(std::uint64_t count) {
    if (parent_ != nullptr) {
      parent_->give_back(shared(used_) - shared(used_ - count));
    }
    used_ -= count;
  }
  [[nodiscard]] std::uint64_t used() const { return used_; }
  [[nodiscard]] std::uint64_t left() const { return most_ - used_; }
  [[nodiscard]] std::uint64_t most() const { return most_; }

 private:
  [[nodiscard]] bool has_spare(std::uint64_t count) const {
    return left() >= most_ / 2 && left() - most_ / 2 >= count &&
           (parent_ == nullptr || parent_->has_spare(shared(used_ + count) - shared(used_)));
  }
  [[nodiscard]] std::uint64_t shared(std::uint64_t used) const { return used - std::min(used, own_); }

  std::uint64_t most_;
  Quota* parent_;
  std::uint64_t own_;
  std::uint64_t used_ = 0;
};

struct Budget {
  static constexpr std::uint64_t unlimited = std::numeric_limits<std::uint64_t>::max();
  /// The most files that a session has open at once.
  static constexpr std::uint64_t files_max = 256;

  /// The whole of a server, or a host's part of it.
  explicit Budget(std::uint64_t bytes, std::uint64_t open_files = files_max, Budget* parent = nullptr,
                  std::uint64_t storage_bytes = unlimited, std::uint64_t entries_made = unlimited)
      : memory(bytes, parent == nullptr ? nullptr : &parent->memory),
        files(open_files, parent == nullptr ? nullptr : &parent->files),
        storage(storage_bytes, parent == nullptr ? nullptr : &parent->storage),
        entries(entries_made, parent == nullptr ? nullptr : &parent->entries) {}
  /// A session's: `own_bytes` and one open file are its own.
  Budget(Budget& host, std::uint64_t own_bytes, std::uint64_t storage_bytes = unlimited,
         std::uint64_t entries_made = unlimited)
      : memory(unlimited, &host.memory, own_bytes),
        files(files_max, &host.files, 1),
        storage(storage_bytes, &host.storage),
        entries(entries_made, &host.entries) {}
  Budget(const Budget&) = delete;
  Budget& operator=(const Budget&) = delete;

  Quota memory;
  Quota files;
  Quota storage;  // bytes of files; what has been written is not given back
  Quota entries;  // files, directories and links; likewise
};

}  // namespace sluice::ftx
