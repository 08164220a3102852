// SPDX-License-Identifier: Apache-2.0
#pragma once

// OpenFile: owns a descriptor for as long as a function needs it.

#include <unistd.h>

namespace sluice::ftx {

class OpenFile {
 public:
  /// What open(2) and its like answer; less than 0: none.
  explicit OpenFile(int descriptor) : descriptor_(descriptor) {}
  ~OpenFile() {
    if (descriptor_ >= 0) {
      ::close(descriptor_);
    }
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  [[nodiscard]] int get() const { return descriptor_; }

 private:
  int descriptor_;
};

}  // namespace sluice::ftx
