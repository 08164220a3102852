// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "apps/ftx/files/system.h"

namespace sluice::ftx {

/// For tests in which nobody cuts the power: nothing takes the time to become durable.
class Hasty final : public System {
 public:
  int fsync(int) override { return 0; }
  int fdatasync(int) override { return 0; }
  int syncfs(int) override { return 0; }
};

}  // namespace sluice::ftx
