// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/security/secret.h"

#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include <algorithm>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "tests/apps/ftx/security/hex.h"

namespace sluice::ftx {
namespace {

using test::counting;
using test::to_hex;

TEST(Secret, HoldsACopy) {
  auto bytes = counting(32);
  const Secret secret(bytes);
  bytes.assign(32, std::byte{0});
  EXPECT_EQ(to_hex(secret.bytes()), to_hex(counting(32)));
  EXPECT_EQ(secret.size(), 32U);
  EXPECT_TRUE(Secret().empty());
  EXPECT_EQ(to_hex(Secret::of_size(3).bytes()), "000000");
}

TEST(Secret, EqualityLooksAtEveryByteAndTheSize) {
  const Secret secret(counting(64));
  EXPECT_TRUE(secret == secret.copy());
  for (std::size_t at = 0; at < 64; ++at) {
    auto other = counting(64);
    other[at] ^= std::byte{0x80};
    EXPECT_FALSE(secret == Secret(other)) << at;
  }
  EXPECT_FALSE(secret == Secret(counting(63)));
  EXPECT_TRUE(Secret() == Secret());
}

TEST(Secret, MovingLeavesNothingBehind) {
  Secret first(counting(32));
  Secret second(std::move(first));
  EXPECT_TRUE(first.empty());  // NOLINT(bugprone-use-after-move)
  EXPECT_EQ(to_hex(second.bytes()), to_hex(counting(32)));
  Secret third(counting(16, 100));
  third = std::move(second);
  EXPECT_TRUE(second.empty());  // NOLINT(bugprone-use-after-move)
  EXPECT_EQ(to_hex(third.bytes()), to_hex(counting(32)));
}

TEST(Secret, LiesInTheSecureHeapWhereThereIsRoom) {
  const Secret secret(counting(32));
  EXPECT_NE(secret.protection(), Secret::Protection::wiped_only);
}

/// Fills the secure heap, so that the next Secret holds its bytes itself.
class FullHeap {
 public:
  FullHeap() {
    for (int made = 0; made < 100'000; ++made) {
      if (secrets_.emplace_back(counting(8)).protection() == Secret::Protection::wiped_only) {
        return;
      }
    }
    ADD_FAILURE() << "the secure heap is never full";
  }

 private:
  std::vector<Secret> secrets_;
};

TEST(Secret, WipesItsOwnMemoryWhenDestroyed) {
  const FullHeap full;
  alignas(Secret) std::byte place[sizeof(Secret)];
  const auto pattern = std::vector<std::byte>(Secret::bytes_max, std::byte{0xa5});
  auto* const secret = new (place) Secret(pattern);
  EXPECT_EQ(secret->protection(), Secret::Protection::wiped_only);
  EXPECT_EQ(std::count(std::begin(place), std::end(place), std::byte{0xa5}), 64);
  secret->~Secret();
  std::byte* volatile seen = place;  // the object is gone; its memory is ours
  EXPECT_EQ(std::count(seen, seen + sizeof place, std::byte{0xa5}), 0);
  EXPECT_GE(std::count(seen, seen + sizeof place, std::byte{0}), 64);
}

TEST(Secret, WipesItsOwnMemoryWhenMovedFrom) {
  const FullHeap full;
  alignas(Secret) std::byte place[sizeof(Secret)];
  auto* const secret = new (place) Secret(std::vector<std::byte>(Secret::bytes_max, std::byte{0xa5}));
  const Secret other(std::move(*secret));
  EXPECT_EQ(std::count(std::begin(place), std::end(place), std::byte{0xa5}), 0);
  EXPECT_EQ(other.bytes()[63], std::byte{0xa5});
  secret->~Secret();
}

TEST(Secret, LeavesNothingInTheSecureHeap) {
  auto secret = std::make_unique<Secret>(std::vector<std::byte>(Secret::bytes_max, std::byte{0xa5}));
  ASSERT_NE(secret->protection(), Secret::Protection::wiped_only);
  const std::byte* const volatile at = secret->bytes().data();
  secret.reset();
  // The heap's pages stay mapped. In front of a freed place it keeps two pointers of its own list, any of whose bytes
  // may be 0xa5 where the system draws addresses at random; but no address of a process has it in all of them.
  constexpr std::size_t pointer = sizeof(void*);
  const auto is_left = [](const std::byte* from, const std::byte* to) {
    return static_cast<std::size_t>(std::count(from, to, std::byte{0xa5}));
  };
  EXPECT_LT(is_left(at, at + pointer), pointer);
  EXPECT_LT(is_left(at + pointer, at + 2 * pointer), pointer);
  EXPECT_EQ(is_left(at + 2 * pointer, at + Secret::bytes_max), 0U);
}

TEST(SecretDeathTest, NoMoreThanItsCapacity) { EXPECT_DEATH(Secret(counting(65)), "contract broken"); }

TEST(SecretDeathTest, CoreDumpsAreForbidden) {
  EXPECT_EXIT(
      {
        const bool forbidden = forbid_core_dumps().has_value();
        rlimit limit{};
        getrlimit(RLIMIT_CORE, &limit);
        std::_Exit(forbidden && prctl(PR_GET_DUMPABLE) == 0 && limit.rlim_cur == 0 && limit.rlim_max == 0 ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace sluice::ftx
