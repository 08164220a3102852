// SPDX-License-Identifier: Apache-2.0
// When a peer of a sealed session may be believed to have another address.
#include "apps/ftx/session/path_validation.h"

#include <gtest/gtest.h>

namespace sluice::ftx {
namespace {

using namespace std::chrono_literals;

constexpr TimePoint start{1h};
const Peer one(as_bytes("one")), two(as_bytes("two"));

TEST(PathValidation, TheAddressThatWasAskedAnswersWithItsNumberOnce) {
  PathValidation path(1);
  EXPECT_FALSE(path.on_response(one, 0)) << "nobody was asked";
  path.on_other_path(start, one);
  ASSERT_TRUE(path.due());
  const auto challenge = path.take();
  ASSERT_TRUE(challenge);
  EXPECT_TRUE(challenge->to == one);
  EXPECT_FALSE(path.due());
  EXPECT_FALSE(path.take());
  EXPECT_FALSE(path.on_response(two, challenge->nonce));
  EXPECT_FALSE(path.on_response(one, challenge->nonce ^ 1));
  EXPECT_FALSE(path.on_response(one, 0));
  EXPECT_TRUE(path.on_response(one, challenge->nonce));
  EXPECT_FALSE(path.on_response(one, challenge->nonce)) << "replayed, after the peer has moved on";
}

// An address repeats its number, so that a late RESPONSE counts; another gets another, which nobody can foretell.
TEST(PathValidation, NumbersAreOfAnAddressAndASeed) {
  PathValidation path(1), other_seed(2);
  path.on_other_path(start, one);
  other_seed.on_other_path(start, one);
  const std::uint64_t first = path.take()->nonce;
  EXPECT_NE(first, other_seed.take()->nonce);
  path.on_other_path(start + 1s, one);
  EXPECT_EQ(path.take()->nonce, first);
  path.on_other_path(start + 2s, two);
  EXPECT_NE(path.take()->nonce, first);
}

// docs/formats/ftx.md: "four a second at most to all such addresses together", whatever addresses somebody on the path
// lets captured datagrams come from.
TEST(PathValidation, FourASecondAtMost) {
  PathValidation path(1);
  int challenges = 0;
  for (int ms = 0; ms < 10'000; ++ms) {
    path.on_other_path(start + ms * 1ms, ms % 2 == 0 ? one : two);
    challenges += path.take() ? 1 : 0;
  }
  EXPECT_EQ(challenges, 40);
}

}  // namespace
}  // namespace sluice::ftx
