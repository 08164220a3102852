// SPDX-License-Identifier: Apache-2.0
#pragma once

// Descriptor: owns a file descriptor. Not thread-safe.

#include <utility>

#include "apps/ftx/files/system.h"

namespace sluice::ftx {

/// A descriptor that closes itself.
class Descriptor {
 public:
  explicit Descriptor(int value = -1) : value_(value) {}
  ~Descriptor() {
    if (value_ >= 0) {
      os().close(value_);
    }
  }
  Descriptor(Descriptor&& other) noexcept : value_(other.release()) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    Descriptor moved(std::move(other));
    std::swap(value_, moved.value_);
    return *this;
  }

  [[nodiscard]] int get() const { return value_; }
  [[nodiscard]] bool valid() const { return value_ >= 0; }
  int release() { return std::exchange(value_, -1); }

 private:
  int value_;
};

}  // namespace sluice::ftx
