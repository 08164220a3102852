// SPDX-License-Identifier: Apache-2.0
#pragma once

// Ring: a queue in one block of memory. It doubles when it is full and never shrinks, so it stops allocating once it
// has reached its size.
//
// Invariants: the capacity is a power of two; size() <= capacity.
// Not thread-safe.

#include <cstddef>
#include <vector>

#include "base/contract.h"

namespace sluice::ftx {

template <class T>
class Ring {
 public:
  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] bool empty() const { return size_ == 0; }

  /// REQUIRES: index < size().
  [[nodiscard]] T& operator[](std::size_t index) { return slots_[(head_ + index) & (slots_.size() - 1)]; }
  [[nodiscard]] const T& operator[](std::size_t index) const { return slots_[(head_ + index) & (slots_.size() - 1)]; }
  [[nodiscard]] T& front() { return (*this)[0]; }
  [[nodiscard]] T& back() { return (*this)[size_ - 1]; }

  void push(const T& value) { push() = value; }
  /// Adds one whose value is the caller's to set: what it holds is of an earlier one, or of none. A value that is made
  /// elsewhere would be read before its stores are done.
  [[nodiscard]] T& push() {
    if (size_ == slots_.size()) {
      grow();
    }
    return slots_[(head_ + size_++) & (slots_.size() - 1)];
  }

  /// REQUIRES: not empty.
  void pop() {
    SLUICE_REQUIRE(size_ > 0);
    head_ = (head_ + 1) & (slots_.size() - 1);
    --size_;
  }

 private:
  void grow() {
    std::vector<T> larger(slots_.empty() ? 64 : slots_.size() * 2);
    for (std::size_t i = 0; i < size_; ++i) {
      larger[i] = (*this)[i];
    }
    slots_.swap(larger);
    head_ = 0;
  }

  std::vector<T> slots_;
  std::size_t head_ = 0;
  std::size_t size_ = 0;
};

}  // namespace sluice::ftx
