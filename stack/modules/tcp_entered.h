// SPDX-License-Identifier: Apache-2.0
#pragma once

// A part of tcp: while a procedure of the module runs, what it lets go of stays, since the calls that it makes to its
// neighbours may come back to it, and a timer that runs may not be destroyed.

#include "stack/modules/tcp.h"

namespace sluice {

class Tcp::Entered {
 public:
  enum class By : std::uint8_t { call, timer };

  Entered(Tcp& module, By by) : module_(module), by_(by) { ++module_.entered_; }
  ~Entered() {
    if (--module_.entered_ == 0 && by_ == By::call) {
      module_.dropped_connections_.clear();
    }
  }
  Entered(const Entered&) = delete;
  Entered& operator=(const Entered&) = delete;

 private:
  Tcp& module_;
  By by_;
};

}  // namespace sluice
