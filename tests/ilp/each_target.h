// SPDX-License-Identifier: Apache-2.0
#pragma once

// Tests that run on each instruction set this CPU offers: a fixture whose parameter is the one that ilp/ shall choose.

#include "ilp/targets.h"

#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <cstdint>
#include <vector>

namespace sluice::ilp {

inline std::vector<std::int64_t> targets_of_this_cpu() {
  std::vector<std::int64_t> targets;
  for (std::int64_t left = hwy::SupportedTargets() & HWY_TARGETS; left != 0; left &= left - 1) {
    targets.push_back(left & -left);
  }
  return targets;
}

class EachTarget : public testing::TestWithParam<std::int64_t> {
 protected:
  EachTarget() { choose(GetParam()); }
  ~EachTarget() override { choose(0); }

 private:
  static void choose(std::int64_t targets) {
    hwy::SetSupportedTargetsForTest(targets);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  }
};

}  // namespace sluice::ilp
