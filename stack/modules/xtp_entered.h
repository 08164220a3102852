// SPDX-License-Identifier: Apache-2.0
#pragma once

// A part of xtp: while a procedure of the module runs, packets wait and what it lets go of stays, since the calls that
// it makes to its neighbours may come back to it. The outermost one sends them and arms the timer.

#include "stack/modules/xtp.h"

namespace sluice {

class Xtp::Entered {
 public:
  explicit Entered(Xtp& module) : module_(module) { ++module_.entered_; }
  ~Entered() {
    if (module_.entered_ == 1) {
      module_.flush_packets();
    }
    if (--module_.entered_ == 0) {
      module_.arm();
      module_.dropped_.clear();
    }
  }
  Entered(const Entered&) = delete;
  Entered& operator=(const Entered&) = delete;

 private:
  Xtp& module_;
};

}  // namespace sluice
