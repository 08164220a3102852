// SPDX-License-Identifier: Apache-2.0
// Reassembly by itself: orders, overlaps, bounds, time.
#include "stack/modules/ip_reassembly.h"

#include <algorithm>
#include <numeric>
#include <random>

#include "base/prng.h"
#include "tests/stack/modules/ip_bed.h"

namespace sluice::ip_test {
namespace {

using ip::Fragment;
using ip::FragmentKey;
using ip::Reassembly;
using Outcome = Reassembly::Outcome;

struct Range {
  std::size_t begin;
  std::size_t end;
};

class IpReassembly : public testing::Test {
 protected:
  static FragmentKey key(std::uint32_t identification = 1) {
    return {v4("10.77.0.2"), v4("10.77.0.1"), identification, udp};
  }
  Fragment fragment(std::size_t begin, std::size_t end, std::size_t whole, std::uint32_t identification = 1) {
    const Octets octets = part(pattern(whole), begin, end - begin);
    return {key(identification), begin, end < whole, udp, 20, Message::copy_of(pool, octets, 20)};
  }
  Reassembly::Added add(std::size_t begin, std::size_t end, std::size_t whole, std::uint32_t identification = 1) {
    return reassembly.add(fragment(begin, end, whole, identification), now);
  }

  BufferPool pool;
  Reassembly reassembly{1 << 20};
  TimePoint now{};
};

/// Splits [0, whole) at the multiples of 8 in `cuts`.
std::vector<Range> split(std::vector<std::size_t> cuts, std::size_t whole) {
  std::ranges::sort(cuts);
  cuts.erase(std::ranges::unique(cuts).begin(), cuts.end());
  std::vector<Range> ranges;
  std::size_t begin = 0;
  for (const std::size_t cut : cuts) {
    ranges.push_back({begin, cut});
    begin = cut;
  }
  ranges.push_back({begin, whole});
  return ranges;
}

TEST_F(IpReassembly, EveryOrderOfUpToFiveFragments) {
  const std::size_t whole = 45;
  for (std::size_t count = 2; count <= 5; ++count) {
    std::vector<std::size_t> cuts;
    for (std::size_t at = 1; at < count; ++at) {
      cuts.push_back(8 * at);
    }
    std::vector<Range> ranges = split(cuts, whole);
    std::vector<std::size_t> order(count);
    std::iota(order.begin(), order.end(), std::size_t{0});
    do {
      Reassembly::Added added;
      for (const std::size_t at : order) {
        EXPECT_EQ(added.outcome, Outcome::held);
        added = add(ranges[at].begin, ranges[at].end, whole);
      }
      ASSERT_EQ(added.outcome, Outcome::complete);
      EXPECT_EQ(data_of(added.datagram), pattern(whole));
      EXPECT_EQ(added.protocol, udp);
      EXPECT_EQ(added.header_size, 20);
      EXPECT_EQ(reassembly.bytes(), 0);
      EXPECT_EQ(reassembly.datagrams(), 0);
    } while (std::ranges::next_permutation(order).found);
  }
}

TEST_F(IpReassembly, RandomSplitsInRandomOrderWithDuplicates) {
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  Prng prng(seed);
  for (std::uint32_t round = 0; round < 300; ++round) {
    const std::size_t whole = 16 + prng.below(round % 10 == 0 ? 65'500 : 3000);
    std::vector<std::size_t> cuts(1 + prng.below(60));
    std::ranges::generate(cuts, [&] { return 8 + 8 * prng.below((whole - 1) / 8); });
    const std::vector<Range> ranges = split(cuts, whole);
    std::vector<std::size_t> order(ranges.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::shuffle(order, prng);
    for (std::size_t at = 0; at < order.size(); ++at) {
      const Range range = ranges[order[at]];
      if (at > 0 && prng.chance(0.3)) {
        const Range again = ranges[order[prng.below(at)]];
        ASSERT_EQ(add(again.begin, again.end, whole, round).outcome, Outcome::duplicate);
      }
      const Reassembly::Added added = add(range.begin, range.end, whole, round);
      ASSERT_EQ(added.outcome, at + 1 == order.size() ? Outcome::complete : Outcome::held);
      if (added.outcome == Outcome::complete) {
        ASSERT_EQ(data_of(added.datagram), pattern(whole));
      }
    }
    ASSERT_EQ(reassembly.bytes(), 0);
  }
}

/// RFC 5722 section 4: the datagram and "any constituent fragments, including those not yet received".
TEST_F(IpReassembly, OverlapsDropTheDatagramAndWhatStillComes) {
  const Range overlaps[] = {{0, 16}, {16, 32}, {0, 40}, {8, 16}, {16, 24}};
  std::uint32_t identification = 1;
  for (const Range& range : overlaps) {
    ++identification;
    ASSERT_EQ(add(8, 24, 64, identification).outcome, Outcome::held);
    EXPECT_EQ(add(range.begin, range.end, 64, identification).outcome, Outcome::overlap);
    EXPECT_EQ(reassembly.bytes(), 0);
    EXPECT_EQ(add(0, 8, 64, identification).outcome, Outcome::refused);
    EXPECT_EQ(add(24, 64, 64, identification).outcome, Outcome::refused);
  }
}

TEST_F(IpReassembly, TwoEndsContradict) {
  ASSERT_EQ(add(24, 40, 40).outcome, Outcome::held);
  EXPECT_EQ(add(16, 24, 24).outcome, Outcome::overlap) << "an earlier end";
  ASSERT_EQ(add(24, 40, 40, 2).outcome, Outcome::held);
  EXPECT_EQ(add(40, 48, 64, 2).outcome, Outcome::overlap) << "beyond the end";
  ASSERT_EQ(add(40, 48, 64, 3).outcome, Outcome::held);
  EXPECT_EQ(add(24, 32, 32, 3).outcome, Outcome::overlap) << "an end before what is there";
  ASSERT_EQ(add(8, 16, 64, 4).outcome, Outcome::held);
  EXPECT_EQ(add(8, 16, 16, 4).outcome, Outcome::duplicate)
      << "the same range, now the last: the end is not taken from a duplicate";
}

/// The "ping of death".
TEST_F(IpReassembly, RefusesWhatEndsBeyondTheLargestDatagram) {
  EXPECT_EQ(add(65'528, 65'536, 65'536).outcome, Outcome::out_of_range);
  EXPECT_EQ(add(65'528, 65'535, 65'535).outcome, Outcome::held);
}

TEST_F(IpReassembly, BoundsFragments) {
  for (std::size_t at = 0; at < Reassembly::fragments_max; ++at) {
    ASSERT_EQ(add(16 * at, 16 * at + 8, 65'000).outcome, Outcome::held);
  }
  EXPECT_EQ(add(16 * Reassembly::fragments_max, 16 * Reassembly::fragments_max + 8, 65'000).outcome, Outcome::too_many);
  EXPECT_EQ(reassembly.bytes(), 0);
}

TEST_F(IpReassembly, AFloodOfFirstFragmentsDropsTheOldest) {
  std::size_t evicted = 0;
  for (std::uint32_t identification = 0; identification < 10'000; ++identification) {
    evicted += add(0, 1480, 3000, identification).evicted;
    ASSERT_LE(reassembly.datagrams(), Reassembly::datagrams_max);
    ASSERT_LE(reassembly.bytes(), std::size_t{1} << 20);
  }
  EXPECT_EQ(evicted, 10'000 - reassembly.datagrams());
  EXPECT_EQ(add(1480, 3000, 3000, 9'999).outcome, Outcome::complete) << "the newest are still there";
  EXPECT_EQ(add(1480, 3000, 3000, 1).outcome, Outcome::held) << "the oldest are not";
}

TEST_F(IpReassembly, CountsTheBuffersNotTheBytes) {
  Reassembly small(64 * 1024);
  Message message = Message::allocate(pool, 60 * 1024);
  (void)message.append(8);
  EXPECT_EQ(small.add({key(1), 0, true, udp, 20, std::move(message)}, now).outcome, Outcome::held);
  EXPECT_GE(small.bytes(), std::size_t{60} * 1024);
  Message other = Message::allocate(pool, 60 * 1024);
  (void)other.append(8);
  EXPECT_EQ(small.add({key(2), 0, true, udp, 20, std::move(other)}, now).evicted, 1);
  Message larger = Message::allocate(pool, 100 * 1024);
  (void)larger.append(8);
  EXPECT_EQ(small.add({key(3), 0, true, udp, 20, std::move(larger)}, now).outcome, Outcome::no_room);
}

/// RFC 8200 section 4.5: 60 seconds "of the reception of the first-arriving fragment of that packet".
TEST_F(IpReassembly, GivesUpInTimeAndReturnsTheFirstFragment) {
  struct Expired {
    std::size_t first_size;
    std::uint32_t identification;
  };
  std::vector<Expired> expired;
  const auto record = [&](Message first, std::size_t, const FragmentKey& of) {
    expired.push_back({first ? first.size() : 0, of.identification});
  };
  ASSERT_EQ(add(0, 16, 64, 1).outcome, Outcome::held);
  ASSERT_EQ(add(16, 32, 64, 2).outcome, Outcome::held);
  Fragment of_v6 = fragment(0, 24, 64, 3);
  of_v6.key.source = v6("fd00:77::2");
  of_v6.key.destination = v6("fd00:77::1");
  ASSERT_EQ(reassembly.add(std::move(of_v6), now).outcome, Outcome::held);
  now += 29s;
  ASSERT_EQ(add(16, 32, 64, 1).outcome, Outcome::held) << "another fragment does not prolong it";
  EXPECT_EQ(reassembly.next_deadline(), TimePoint{} + 30s);
  reassembly.expire(TimePoint{} + 30s - 1ns, record);
  EXPECT_TRUE(expired.empty());
  reassembly.expire(TimePoint{} + 30s, record);
  ASSERT_EQ(expired.size(), 2);
  EXPECT_EQ(expired[0].first_size, 16);
  EXPECT_EQ(expired[1].first_size, 0);
  reassembly.expire(TimePoint{} + 60s, record);
  ASSERT_EQ(expired.size(), 3);
  EXPECT_EQ(expired[2].first_size, 24);
  EXPECT_EQ(reassembly.bytes(), 0);
  EXPECT_EQ(reassembly.next_deadline(), never);
}

}  // namespace
}  // namespace sluice::ip_test
