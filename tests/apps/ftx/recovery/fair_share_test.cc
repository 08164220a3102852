// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/recovery/fair_share.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <span>

namespace sluice::ftx {
namespace {

constexpr std::uint64_t rate = 1'000'000;
constexpr std::uint64_t datagram_rate = 10'000;

FairShare::Round round_at(std::uint64_t rate_sent, bool queue) {
  return {.queue = queue, .rate = rate_sent, .datagram_rate = datagram_rate};
}

/// `share` cruises for so many rounds at its own rate.
void cruise(FairShare& share, unsigned rounds, bool queue) {
  for (unsigned i = 0; i < rounds; ++i) {
    share.on_round(round_at(share.rate().value_or(rate), queue));
  }
}

TEST(FairShare, WithoutAQueueThereIsNobodyToShareWith) {
  FairShare share;
  cruise(share, 100, false);
  EXPECT_EQ(share.rate(), std::nullopt);
  EXPECT_TRUE(share.may_probe());
}

TEST(FairShare, TheQueueOfOneRoundMayBeThatOfItsOwnProbe) {
  FairShare share;
  cruise(share, 1, true);
  EXPECT_EQ(share.rate(), std::nullopt);
  cruise(share, 1, true);
  EXPECT_EQ(share.rate(), 970'000U);
  cruise(share, 1, true);
  EXPECT_EQ(share.rate(), 940'900U);
}

TEST(FairShare, YieldsNoMoreOnceTheQueueShrinks) {
  FairShare share;
  cruise(share, 2, true);
  for (int i = 0; i < 30; ++i) {
    FairShare::Round round = round_at(970'000, true);
    round.shrinks = true;
    share.on_round(round);
    EXPECT_EQ(share.rate(), 970'000U);
    EXPECT_FALSE(share.may_probe()) << "there is one";
  }
  EXPECT_FALSE(share.pressed());
  cruise(share, 1, true);
  EXPECT_EQ(share.rate(), 940'900U);
}

TEST(FairShare, GrowthDoesNotDependOnTheRate) {
  for (const std::uint64_t first : {rate / 10, rate, 2 * rate}) {
    FairShare share;
    share.on_round(round_at(first, true));
    share.on_round(round_at(first, true));
    std::uint64_t before = share.rate().value();
    for (unsigned quiet = 1; quiet <= 40; ++quiet) {
      cruise(share, 1, false);
      const std::uint64_t added = share.rate().value() - before;
      EXPECT_EQ(added, quiet <= 8 ? 2 * datagram_rate : quiet * datagram_rate / 4) << first << ' ' << quiet;
      before = share.rate().value();
    }
  }
}

TEST(FairShare, AFastFlowGrowsByAPartOfItsRate) {
  FairShare share;
  share.on_round(round_at(100 * rate, true));
  share.on_round(round_at(100 * rate, true));
  cruise(share, 1, false);
  EXPECT_EQ(share.rate(), 97 * rate + 97 * rate / 128);
}

/// What Bbr's short-term model has taken from the rate is gone: it grows from there.
TEST(FairShare, GrowsFromTheRateThatWasSent) {
  FairShare share;
  cruise(share, 2, true);
  share.on_round(round_at(rate / 2, false));
  EXPECT_EQ(share.rate(), rate / 2 + 2 * datagram_rate);
}

TEST(FairShare, ARateThatIsNotUsedDoesNotGrow) {
  FairShare share;
  cruise(share, 2, true);
  for (int i = 0; i < 20; ++i) {
    EXPECT_FALSE(share.may_probe());
    FairShare::Round round = round_at(970'000, false);
    round.used = false;
    share.on_round(round);
    EXPECT_EQ(share.rate(), 970'000U);
  }
  EXPECT_TRUE(share.may_probe());
}

TEST(FairShare, ThoseOfOneQueueComeToEqualShares) {
  for (const std::size_t flows : {2U, 3U, 8U}) {
    std::array<FairShare, 8> shares;
    std::array<std::uint64_t, 8> rates{};
    for (std::size_t i = 0; i < flows; ++i) {
      rates[i] = rate * (i + 1);
    }
    const std::uint64_t link = rate * flows * (flows + 1) / 2;
    for (int i = 0; i < 1000; ++i) {
      std::uint64_t sum = 0;
      for (std::size_t flow = 0; flow < flows; ++flow) {
        sum += rates[flow];
      }
      EXPECT_GE(sum * 10, link * 9) << "most of the link is used";
      for (std::size_t flow = 0; flow < flows; ++flow) {
        FairShare::Round round = round_at(rates[flow], sum >= link);
        round.datagram_rate = datagram_rate * flows;
        shares[flow].on_round(round);
        rates[flow] = shares[flow].rate().value_or(rates[flow]);
      }
    }
    const auto [least, most] = std::ranges::minmax(std::span(rates).first(flows));
    EXPECT_LT(static_cast<double>(most), 1.1 * static_cast<double>(least)) << flows;
  }
}

TEST(FairShare, AQueueThatStandsWhileItYieldsIsSomebodyElses) {
  FairShare share;
  for (const unsigned patience : {16U, 8U, 8U}) {
    cruise(share, patience, true);
    EXPECT_TRUE(share.rate());
    EXPECT_FALSE(share.pressed());
    cruise(share, 1, true);
    EXPECT_EQ(share.rate(), std::nullopt) << patience;
    EXPECT_TRUE(share.pressed());
    EXPECT_TRUE(share.may_probe());
    cruise(share, 100, true);
    EXPECT_EQ(share.rate(), std::nullopt) << "it yields no more";
    cruise(share, 1, false);
    EXPECT_FALSE(share.pressed());
    EXPECT_EQ(share.rate(), std::nullopt);
  }
}

TEST(FairShare, IsAsPatientAgainWhereYieldingHelps) {
  FairShare share;
  cruise(share, 17, true);
  ASSERT_TRUE(share.pressed());
  cruise(share, 1, false);
  cruise(share, 2, true);
  cruise(share, 1, false);  // 8 becomes 16
  cruise(share, 16, true);
  EXPECT_FALSE(share.pressed());
  cruise(share, 1, true);
  EXPECT_TRUE(share.pressed());
}

TEST(FairShare, ProbesOnlyWhereNobodyElseHasBeenFoundForAWhile) {
  FairShare share;
  cruise(share, 2, true);
  cruise(share, 19, false);
  EXPECT_FALSE(share.may_probe());
  cruise(share, 1, true);
  cruise(share, 19, false);
  EXPECT_FALSE(share.may_probe()) << "in succession";
  cruise(share, 1, false);
  EXPECT_TRUE(share.may_probe());
}

TEST(FairShare, ForgetsItsRateForAProbe) {
  FairShare share;
  cruise(share, 2, true);
  EXPECT_EQ(share.end(), 970'000U);
  EXPECT_EQ(share.rate(), std::nullopt);
  EXPECT_EQ(share.end(), std::nullopt);
  cruise(share, 1, true);
  EXPECT_EQ(share.rate(), std::nullopt) << "the first round of the next cruise";
}

}  // namespace
}  // namespace sluice::ftx
