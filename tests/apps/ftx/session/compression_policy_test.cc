// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/session/compression_policy.h"

#include <gtest/gtest.h>

namespace sluice::ftx::test {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t slow = 10'000'000;  // bytes a second
constexpr std::uint64_t fast = 1'000'000'000;
constexpr std::size_t policy_content_bytes = 4000;
constexpr std::size_t third = 1333;
constexpr Duration four_ns_a_byte = 16us;

CompressionPolicy measured(std::uint64_t rate) {
  CompressionPolicy policy(Compress::when_it_pays);
  policy.on_delivery(rate, false);
  return policy;
}

/// Compresses what gets smaller, as often as it is to be tried; answers how often.
int try_on(CompressionPolicy& policy, Duration cost = four_ns_a_byte) {
  int adus = 0;
  while (policy.compresses() && adus < 100) {
    policy.on_compressed(policy_content_bytes, third, cost);
    ++adus;
  }
  return adus;
}

/// Bytes that go by without compression until one is tried.
std::uint64_t until_tried(CompressionPolicy& policy) {
  std::uint64_t bytes = 0;
  while (!policy.compresses() && bytes < (1U << 30)) {
    policy.on_plain(1000);
    bytes += 1000;
  }
  return bytes;
}

TEST(CompressionPolicy, NothingIsCompressedBeforeTheRateIsKnown) {
  CompressionPolicy policy(Compress::when_it_pays);
  EXPECT_FALSE(policy.compresses());
  policy.on_delivery(0, false);
  EXPECT_FALSE(policy.compresses());
  policy.on_delivery(slow, false);
  EXPECT_TRUE(policy.compresses());
}

// The first reports of a transfer are of a list of a few bytes.
TEST(CompressionPolicy, RatesThatTheSenderLimitedCountWhenThereAreMany) {
  CompressionPolicy policy(Compress::when_it_pays);
  int reports = 0;
  while (!policy.compresses() && reports < 1000) {
    policy.on_delivery(10'000, true);
    ++reports;
  }
  EXPECT_GT(reports, 8);
  EXPECT_LT(reports, 50);
}

TEST(CompressionPolicy, NeverAndAlwaysAskNothing) {
  CompressionPolicy never(Compress::never);
  never.on_delivery(slow, false);
  EXPECT_FALSE(never.compresses());
  CompressionPolicy always(Compress::always);
  always.set_hurried(true);
  always.on_compressed(policy_content_bytes, policy_content_bytes, 1s);
  EXPECT_TRUE(always.compresses());
}

// cost < (1 - kept) / rate: of a byte, 4 ns to compress and two thirds saved, that is up to 1 / 6 ns.
TEST(CompressionPolicy, ItGoesOnWhileWhatIsSavedTakesLongerThanCompressing) {
  for (const auto& [rate, goes_on] : std::vector<std::pair<std::uint64_t, bool>>{
           {1'000, true}, {slow, true}, {165'000'000, true}, {168'000'000, false}, {fast, false}}) {
    CompressionPolicy policy = measured(rate);
    EXPECT_EQ(try_on(policy), goes_on ? 100 : CompressionPolicy::try_adus) << rate;
  }
}

// At 10 MB/s compressing what fills a datagram takes an eighth of the datagram's time; at 1 MB/s an eightieth.
TEST(CompressionPolicy, WhoIsHurriedByCompressingDoesNot) {
  for (const auto& [rate, goes_on] :
       std::vector<std::pair<std::uint64_t, bool>>{{150'000'000, false}, {slow, false}, {slow / 10, true}}) {
    CompressionPolicy policy = measured(rate);
    policy.on_compressed(policy_content_bytes, third, four_ns_a_byte);
    EXPECT_TRUE(policy.compresses());
    policy.set_hurried(true);
    EXPECT_EQ(policy.compresses(), goes_on) << rate;
    policy.set_hurried(false);
    EXPECT_TRUE(policy.compresses());
  }
}

// A sender whose own speed is all that is measured finds out what the path carries, and then that it does not pay.
TEST(CompressionPolicy, ItsOwnSlownessIsNotTakenForThePaths) {
  CompressionPolicy policy = measured(slow);
  double path = 1e9;
  int compressed = 0;
  for (int report = 0; report < 200; ++report) {
    // Twenty ADUs between two reports; a sender that has compressed them all is hurried.
    const int before = compressed;
    for (int adu = 0; adu < 20; ++adu) {
      policy.set_hurried(true);
      if (policy.compresses()) {
        policy.on_compressed(policy_content_bytes, third, four_ns_a_byte);
        ++compressed;
      } else {
        policy.on_plain(1400);
      }
    }
    const double share = (compressed - before) / 20.0;
    const double ns_a_byte = 1e9 / path + share * 4.0 * policy_content_bytes / third;
    policy.on_delivery(static_cast<std::uint64_t>(1e9 / ns_a_byte), true);
  }
  EXPECT_LT(compressed, 100);
  EXPECT_FALSE(policy.compresses());
}

TEST(CompressionPolicy, DataThatDoesNotGetSmallerIsTriedLessAndLess) {
  CompressionPolicy policy = measured(slow);
  std::uint64_t expected = CompressionPolicy::try_bytes_min;
  for (int i = 0; i < 8; ++i) {
    ASSERT_TRUE(policy.compresses());
    policy.on_compressed(1400, 1400, 2us);
    const std::uint64_t passed = until_tried(policy);
    EXPECT_GE(passed, expected);
    EXPECT_LT(passed, expected + 1000);
    expected = std::min(expected * 2, CompressionPolicy::try_bytes_max);
  }
  policy.on_plain(1000);
  policy.on_compressed(1400, 1400, 2us);
  EXPECT_FALSE(policy.compresses());
  policy.on_new_file();
  EXPECT_TRUE(policy.compresses()) << "another file may be of another kind";
}

TEST(CompressionPolicy, DataThatBeginsToGetSmallerIsFound) {
  CompressionPolicy policy = measured(slow);
  for (int i = 0; i < 20; ++i) {
    policy.on_compressed(1400, 1400, 2us);
  }
  EXPECT_GT(until_tried(policy), 0U);
  policy.on_compressed(policy_content_bytes, third, four_ns_a_byte);
  EXPECT_TRUE(policy.compresses());
}

TEST(CompressionPolicy, DataThatCeasesToGetSmallerEndsIt) {
  CompressionPolicy policy = measured(slow);
  policy.on_compressed(policy_content_bytes, third, four_ns_a_byte);
  int in_vain = 0;
  while (policy.compresses() && in_vain < 1000) {
    policy.on_compressed(1400, 1400, 2us);
    ++in_vain;
  }
  EXPECT_GT(in_vain, 1);
  EXPECT_LT(in_vain, 40);
}

// A path where not even compressing to nothing pays.
TEST(CompressionPolicy, OnAFastPathNearlyNothingIsTried) {
  CompressionPolicy policy = measured(fast);
  EXPECT_EQ(try_on(policy), CompressionPolicy::try_adus);
  policy.on_new_file();
  EXPECT_FALSE(policy.compresses()) << "nor for each file";
  EXPECT_GE(until_tried(policy), CompressionPolicy::try_bytes_hopeless);
  EXPECT_EQ(try_on(policy), CompressionPolicy::try_adus);
}

// The first has its tables and code to fetch, and somebody else may have had the processor.
TEST(CompressionPolicy, AnAduThatWasDearSaysLittle) {
  CompressionPolicy policy = measured(slow);
  policy.on_compressed(policy_content_bytes, third, 1s);
  EXPECT_TRUE(policy.compresses());
  policy.on_compressed(policy_content_bytes, third, four_ns_a_byte);
  EXPECT_EQ(try_on(policy), 100);
  policy.on_compressed(policy_content_bytes, third, 1s);
  EXPECT_EQ(try_on(policy), 100);
}

TEST(CompressionPolicy, ThatItCostsTooMuchDoesNotCountForEver) {
  CompressionPolicy policy = measured(slow);
  EXPECT_EQ(try_on(policy, 1s), CompressionPolicy::try_adus);
  EXPECT_GE(until_tried(policy), CompressionPolicy::try_bytes_hopeless);
  EXPECT_EQ(try_on(policy), 100);
}

TEST(CompressionPolicy, ARateThatRisesIsBelievedAtOnceAndOneThatFallsSlowly) {
  CompressionPolicy policy = measured(slow);
  policy.on_compressed(policy_content_bytes, third, four_ns_a_byte);
  policy.on_delivery(fast, true);
  EXPECT_EQ(try_on(policy), CompressionPolicy::try_adus) << "to see what it costs";
  EXPECT_FALSE(policy.compresses()) << "so much may arrive even of a sender that sends less than it might";
  for (int i = 0; i < 100; ++i) {
    policy.on_delivery(slow, true);
  }
  EXPECT_FALSE(policy.compresses()) << "it measures the sender";
  int reports = 0;
  while (!policy.compresses() && reports < 1000) {
    policy.on_delivery(slow, false);
    ++reports;
  }
  EXPECT_GE(reports, 1);
  EXPECT_LT(reports, 50);
}

}  // namespace
}  // namespace sluice::ftx::test
