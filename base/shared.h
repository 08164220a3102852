// SPDX-License-Identifier: Apache-2.0
#pragma once

// Shared: a value that many hold and nobody changes. It takes a pointer's room in each of them, and lies on the heap
// once. Empty it holds none.
//
// Not thread-safe: those who hold one value belong to one thread.

#include <cstdint>
#include <utility>

namespace sluice {

template <class T>
class Shared {
 public:
  Shared() = default;
  explicit Shared(T value) : held_(new Held{std::move(value)}) {}
  Shared(const Shared& other) noexcept : held_(other.held_) {
    if (held_ != nullptr) {
      ++held_->holders;
    }
  }
  Shared(Shared&& other) noexcept : held_(std::exchange(other.held_, nullptr)) {}
  Shared& operator=(Shared other) noexcept {
    std::swap(held_, other.held_);
    return *this;
  }
  ~Shared() {
    if (held_ != nullptr && --held_->holders == 0) {
      delete held_;
    }
  }

  explicit operator bool() const { return held_ != nullptr; }
  /// REQUIRES of these: there is a value.
  [[nodiscard]] const T& operator*() const { return held_->value; }
  [[nodiscard]] const T* operator->() const { return &held_->value; }
  /// Null when empty.
  [[nodiscard]] const T* get() const { return held_ != nullptr ? &held_->value : nullptr; }

  /// Equal values are equal; two empty ones are.
  bool operator==(const Shared& other) const {
    return held_ == other.held_ || (held_ != nullptr && other.held_ != nullptr && held_->value == other.held_->value);
  }

 private:
  struct Held {
    T value;
    std::uint32_t holders = 1;
  };
  Held* held_ = nullptr;
};

}  // namespace sluice
