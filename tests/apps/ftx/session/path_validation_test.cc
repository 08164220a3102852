// SPDX-License-Identifier: Apache-2.0
// When a peer of a sealed session may be believed to have another address.
#include "apps/ftx/session/path_validation.h"

#include <gtest/gtest.h>

namespace sluice::ftx {
namespace {

using namespace std::chrono_literals;

constexpr TimePoint validation_start{1h};
const Peer asked_peer(as_bytes("one")), other_peer(as_bytes("two"));

TEST(PathValidation, TheAddressThatWasAskedAnswersWithItsNumberOnce) {
  PathValidation path(1);
  EXPECT_FALSE(path.on_response(asked_peer, 0)) << "nobody was asked";
  path.on_other_path(validation_start, asked_peer);
  ASSERT_TRUE(path.due());
  const auto challenge = path.take();
  ASSERT_TRUE(challenge);
  EXPECT_TRUE(challenge->to == asked_peer);
  EXPECT_FALSE(path.due());
  EXPECT_FALSE(path.take());
  EXPECT_FALSE(path.on_response(other_peer, challenge->nonce));
  EXPECT_FALSE(path.on_response(asked_peer, challenge->nonce ^ 1));
  EXPECT_FALSE(path.on_response(asked_peer, 0));
  EXPECT_TRUE(path.on_response(asked_peer, challenge->nonce));
  EXPECT_FALSE(path.on_response(asked_peer, challenge->nonce)) << "replayed, after the peer has moved on";
}

// An address repeats its number, so that a late RESPONSE counts; another gets another, which nobody can foretell.
TEST(PathValidation, NumbersAreOfAnAddressAndASeed) {
  PathValidation path(1), other_seed(2);
  path.on_other_path(validation_start, asked_peer);
  other_seed.on_other_path(validation_start, asked_peer);
  const std::uint64_t first = path.take()->nonce;
  EXPECT_NE(first, other_seed.take()->nonce);
  path.on_other_path(validation_start + 1s, asked_peer);
  EXPECT_EQ(path.take()->nonce, first);
  path.on_other_path(validation_start + 2s, other_peer);
  EXPECT_NE(path.take()->nonce, first);
}

// docs/formats/ftx.md: "four a second at most to all such addresses together", whatever addresses somebody on the path
// lets captured datagrams come from.
TEST(PathValidation, FourASecondAtMost) {
  PathValidation path(1);
  int challenges = 0;
  for (int ms = 0; ms < 10'000; ++ms) {
    path.on_other_path(validation_start + ms * 1ms, ms % 2 == 0 ? asked_peer : other_peer);
    challenges += path.take() ? 1 : 0;
  }
  EXPECT_EQ(challenges, 40);
}

}  // namespace
}  // namespace sluice::ftx
