// SPDX-License-Identifier: Apache-2.0
#pragma once

// Two streams of whole frames as one link: what comes up either goes down the other, as much as that accepts.
//
// Borrows the loop, which attends both, and the streams. Not thread-safe.

#include "edge/run_loop.h"
#include "stack/head/stream.h"

namespace sluice {

class Bridge {
 public:
  Bridge(RunLoop& loop, Stream& one, Stream& other);
  ~Bridge();
  Bridge(const Bridge&) = delete;
  Bridge& operator=(const Bridge&) = delete;

 private:
  RunLoop& loop_;
  Stream& one_;
  Stream& other_;
};

}  // namespace sluice
