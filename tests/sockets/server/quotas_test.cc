// SPDX-License-Identifier: Apache-2.0

#include "sockets/server/quotas.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace sluice::sockets {
namespace {

constexpr std::size_t kib = 1024;
constexpr std::size_t mib = 1024 * kib;
constexpr uid_t some_user = 1000;
constexpr uid_t other_user = 1001;

TEST(Quotas, AreOfEachUserAndOfEachKind) {
  Quotas quotas({.sockets = 2, .listening = 1, .connecting = 3, .memory = mib});
  std::vector<Quotas::Share> shares;
  for (const auto& [what, most] : {std::pair{Quotas::What::sockets, 2},
                                   {Quotas::What::listening, 1},
                                   {Quotas::What::connecting, 3},
                                   {Quotas::What::memory, static_cast<int>(mib)}}) {
    shares.push_back(quotas.take(some_user, what, static_cast<std::size_t>(most)));
    EXPECT_TRUE(shares.back());
    EXPECT_FALSE(quotas.take(some_user, what, 1));
    EXPECT_TRUE(quotas.take(other_user, what, 1)) << "and gives it back at once";
    EXPECT_EQ(quotas.taken(other_user, what), 0U);
    EXPECT_EQ(quotas.taken(some_user, what), static_cast<std::size_t>(most));
  }
  shares.clear();
  EXPECT_EQ(quotas.taken(some_user, Quotas::What::memory), 0U);
}

TEST(Quotas, AShareEndsOnce) {
  Quotas quotas({.sockets = 4});
  Quotas::Share first = quotas.take(some_user, Quotas::What::sockets, 2);
  Quotas::Share second = std::move(first);
  EXPECT_EQ(quotas.taken(some_user, Quotas::What::sockets), 2U);
  second = quotas.take(some_user, Quotas::What::sockets, 1);
  EXPECT_EQ(quotas.taken(some_user, Quotas::What::sockets), 1U);
  second = {};
  EXPECT_EQ(quotas.taken(some_user, Quotas::What::sockets), 0U);
  EXPECT_FALSE(quotas.take(some_user, Quotas::What::sockets, 5));
  EXPECT_EQ(quotas.taken(some_user, Quotas::What::sockets), 0U) << "nothing is kept of what was refused";
}

/// What two buffers and two pieces may hold.
TEST(Quotas, AConnectionIsPromisedAllThatItMayHold) {
  Quotas quotas({.memory = 100 * mib});
  const auto usual = quotas.take_connection(some_user, {.receive = 512 * kib, .send = 100 * kib});
  ASSERT_TRUE(usual);
  EXPECT_EQ(usual->buffers, (Buffers{.receive = 512 * kib, .send = 100 * kib}));
  EXPECT_EQ(quotas.taken(some_user, Quotas::What::memory), (512 + 256 + 100 + 100) * kib);
  const auto greedy = quotas.take_connection(other_user, {.receive = 1024 * mib, .send = 1024 * mib});
  ASSERT_TRUE(greedy);
  EXPECT_EQ(greedy->buffers, (Buffers{.receive = 4 * mib, .send = 4 * mib}));
}

TEST(Quotas, BeyondHalfOfTheMemoryBuffersAreSmallAndThenThereAreNone) {
  constexpr std::size_t most = 12 * mib;
  Quotas quotas({.memory = most});
  const Buffers wanted{.receive = 512 * kib, .send = 512 * kib};  // 1.5 MiB each
  std::vector<Quotas::Connection> connections;
  std::size_t large = 0;
  while (auto granted = quotas.take_connection(some_user, wanted)) {
    if (granted->buffers == wanted) {
      ++large;
      EXPECT_EQ(connections.size() + 1, large) << "the large ones come first";
    } else {
      EXPECT_EQ(granted->buffers, (Buffers{.receive = 16 * kib, .send = 16 * kib}));
    }
    ASSERT_LE(quotas.taken(some_user, Quotas::What::memory), most);
    connections.push_back(std::move(*granted));
  }
  EXPECT_EQ(large, 4U);
  EXPECT_EQ(connections.size(), large + 6 * mib / (64 * kib));
  EXPECT_TRUE(quotas.take_connection(other_user, wanted)) << "nobody else is concerned";
  connections.erase(connections.begin());
  const auto again = quotas.take_connection(some_user, {.receive = 4 * kib, .send = mib});
  ASSERT_TRUE(again);
  EXPECT_EQ(again->buffers, (Buffers{.receive = 4 * kib, .send = 16 * kib})) << "no more than was wanted";
}

}  // namespace
}  // namespace sluice::sockets
