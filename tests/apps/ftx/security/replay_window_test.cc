// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/security/replay_window.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <set>
#include <vector>

#include "base/prng.h"

namespace sluice::ftx {
namespace {

constexpr std::uint64_t width = ReplayWindow::width;
constexpr std::uint64_t greatest = std::numeric_limits<std::uint64_t>::max();

TEST(ReplayWindow, Steps) {
  struct Step {
    std::uint64_t number;
    bool fresh;
  };
  const std::vector<Step> steps{
      {0, true},
      {0, false},
      {1, true},
      {1, false},
      {9, true},
      {8, true},
      {7, true},
      {7, false},
      {width, true},  // 1 is the lowest of the window now
      {0, false},
      {1, false},
      {2, true},
      {width - 1, true},
      {width + 1, true},
      {width + 1, false},
      {2, false},
      {3, true},
      {2 * width + 63, true},
      {width + 63, false},  // behind the window, never marked
      {width + 64, true},
      {100 * width, true},  // further than the ring is long
      {99 * width + 1, true},
      {99 * width, false},
      {greatest, true},
      {greatest, false},
      {greatest - 1, true},
      {greatest - width + 1, true},
      {greatest - width, false},
      {0, false},
  };
  ReplayWindow window;
  for (const auto& [number, fresh] : steps) {
    EXPECT_EQ(window.fresh(number), fresh) << number;
    if (fresh) {
      window.mark(number);
    }
  }
}

/// RFC 4303 section 3.4.3: "The receive window is updated only if the ICV verification succeeds."
TEST(ReplayWindow, AskingChangesNothing) {
  ReplayWindow window;
  window.mark(5);
  EXPECT_TRUE(window.fresh(greatest));  // a forgery, which nobody marks
  EXPECT_TRUE(window.fresh(6));
  EXPECT_TRUE(window.fresh(4));
  EXPECT_TRUE(window.fresh(4));
}

TEST(ReplayWindow, BeginsAnywhere) {
  ReplayWindow window;
  EXPECT_TRUE(window.fresh(1'000'000));
  window.mark(1'000'000);
  EXPECT_TRUE(window.fresh(1'000'000 - width + 1));
  EXPECT_FALSE(window.fresh(1'000'000 - width));
}

/// What it is meant to be: every number that ever came, and how far behind the highest they end to count.
class Model {
 public:
  bool fresh(std::uint64_t number) const {
    return seen_.empty() || number > *seen_.rbegin() || (*seen_.rbegin() - number < width && !seen_.contains(number));
  }
  void mark(std::uint64_t number) { seen_.insert(number); }
  std::uint64_t highest() const { return seen_.empty() ? 0 : *seen_.rbegin(); }

 private:
  std::set<std::uint64_t> seen_;
};

TEST(ReplayWindow, AgreesWithASetOfAllNumbers) {
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Prng prng(seed);
    const std::uint64_t spread = std::uint64_t{1}
                                 << (1 + prng.below(13));  // from nearly in order to leaps over the ring
    Model model;
    ReplayWindow window;
    for (int i = 0; i < 20'000; ++i) {
      const std::uint64_t high = model.highest() + prng.below(prng.chance(0.1) ? spread : 3);
      const std::uint64_t number = high - std::min(high, prng.below(spread));
      ASSERT_EQ(window.fresh(number), model.fresh(number)) << number << " at " << i;
      if (model.fresh(number) && prng.chance(0.9)) {  // the tag of one in ten does not hold
        model.mark(number);
        window.mark(number);
      }
    }
  }
}

}  // namespace
}  // namespace sluice::ftx
