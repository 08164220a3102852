// SPDX-License-Identifier: Apache-2.0
// Reassembly by itself: orders, overlaps, bounds, time.
#include "stack/modules/ip_reassembly.h"

#include <algorithm>
#include <array>
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
  FragmentKey key(std::uint32_t identification = 1) const {
    return is_v6 ? FragmentKey{v6("fd00:77::2"), v6("fd00:77::1"), identification, 0}
                 : FragmentKey{v4("10.77.0.2"), v4("10.77.0.1"), identification, udp};
  }
  Fragment fragment(std::size_t begin, std::size_t end, std::size_t whole, std::uint32_t identification = 1) {
    const Octets octets = part(pattern(whole), begin, end - begin);
    return {key(identification), begin, end < whole, udp, 20, Message::copy_of(pool, octets, 20)};
  }
  Reassembly::Added add(std::size_t begin, std::size_t end, std::size_t whole, std::uint32_t identification = 1) {
    return reassembly.add(fragment(begin, end, whole, identification), now);
  }

  bool is_v6 = false;
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
  const Range overlaps[] = {{0, 16}, {16, 32}, {0, 40}, {8, 32}, {0, 24}, {8, 16}, {16, 24}};
  std::uint32_t identification = 1;
  for (const bool of_v6 : {false, true}) {
    is_v6 = of_v6;
    for (const Range& range : overlaps) {
      if (!is_v6 && range.begin >= 8 && range.end <= 24) {
        continue;  // see below
      }
      ++identification;
      ASSERT_EQ(add(8, 24, 64, identification).outcome, Outcome::held);
      EXPECT_EQ(add(range.begin, range.end, 64, identification).outcome, Outcome::overlap);
      EXPECT_EQ(reassembly.bytes(), 0);
      EXPECT_EQ(reassembly.fragments(), 0);
      EXPECT_EQ(add(0, 8, 64, identification).outcome, Outcome::refused);
      EXPECT_EQ(add(24, 64, 64, identification).outcome, Outcome::refused);
    }
  }
}

/// RFC 8200 section 4.5: "an implementation may choose to detect this case and drop exact duplicate fragments while
/// keeping the other fragments belonging to the same packet". RFC 791 section 3.2 has no objection to any overlap; of a
/// part of what is there nothing is taken.
TEST_F(IpReassembly, WhatIsThereAlreadyIsIgnored) {
  const Octets whole = pattern(64);
  for (const bool of_v6 : {false, true}) {
    is_v6 = of_v6;
    ASSERT_EQ(add(8, 32, 64).outcome, Outcome::held);
    ASSERT_EQ(add(32, 64, 64).outcome, Outcome::held);
    EXPECT_EQ(add(8, 32, 64).outcome, Outcome::duplicate);
    EXPECT_EQ(add(32, 64, 64).outcome, Outcome::duplicate);
    if (!is_v6) {
      for (const Range part :
           {Range{8, 16}, Range{16, 24}, Range{24, 32}, Range{8, 24}, Range{40, 48}, Range{56, 64}}) {
        Fragment other = fragment(part.begin, part.end, 64);
        other.data = Message::copy_of(pool, Octets(part.end - part.begin));  // with other bytes
        EXPECT_EQ(reassembly.add(std::move(other), now).outcome, Outcome::duplicate);
      }
    }
    EXPECT_EQ(reassembly.fragments(), 2);
    const Reassembly::Added added = add(0, 8, 64);
    ASSERT_EQ(added.outcome, Outcome::complete);
    EXPECT_EQ(data_of(added.datagram), whole) << "the first copy counts";
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

/// The largest datagram in the smallest fragments, in the order that would cost most if each had to be moved.
TEST_F(IpReassembly, TheLargestDatagramMayComeInTheSmallestFragments) {
  Reassembly large(std::size_t{64} << 20);
  const std::size_t whole = 65'528;
  for (std::size_t begin = whole - 8; begin > 0; begin -= 8) {
    ASSERT_EQ(large.add(fragment(begin, begin + 8, whole), now).outcome, Outcome::held);
  }
  const Reassembly::Added added = large.add(fragment(0, 8, whole), now);
  ASSERT_EQ(added.outcome, Outcome::complete);
  EXPECT_EQ(data_of(added.datagram), pattern(whole));
  EXPECT_EQ(large.bytes(), 0);
  EXPECT_EQ(large.fragments(), 0);
}

TEST_F(IpReassembly, BoundsTheFragmentsOfAll) {
  Reassembly large(std::size_t{1} << 30);
  std::size_t evicted = 0;
  for (std::uint32_t identification = 0; identification < 10; ++identification) {
    for (std::size_t at = 0; at < 4000; ++at) {
      Fragment small{key(identification), 16 * at, true, udp, 20, Message::copy_of(pool, Octets(8))};
      const Reassembly::Added added = large.add(std::move(small), now);
      ASSERT_EQ(added.outcome, Outcome::held);
      evicted += added.evicted;
      ASSERT_LE(large.fragments(), Reassembly::fragments_max);
    }
  }
  EXPECT_EQ(evicted, 6U) << "those begun first made room";
  EXPECT_EQ(large.datagrams(), 4U);
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

/// `size` bytes in a buffer that is large enough for a whole datagram, of which duplicates show parts.
Message cut(Message& whole, std::size_t begin, std::size_t end) {
  Message part = whole.duplicate();
  part.trim_front(begin);
  part.trim_back(part.size() - (end - begin));
  return part;
}

/// A sender in this program cuts fragments from its datagram's one buffer: held once, and charged once.
TEST_F(IpReassembly, ABufferThatManyFragmentsShowIsChargedOnce) {
  constexpr std::size_t whole = 65'000;
  constexpr std::size_t step = 1480;
  const std::size_t buffer = BufferPool::class_capacity(whole + 20);
  Reassembly small(buffer);
  {
    Message message = Message::copy_of(pool, pattern(whole), 20);
    for (std::size_t begin = 0; begin < whole; begin += step) {
      const std::size_t end = std::min(whole, begin + step);
      const Reassembly::Added added = small.add({key(), begin, end < whole, udp, 20, cut(message, begin, end)}, now);
      ASSERT_EQ(added.outcome, end < whole ? Outcome::held : Outcome::complete) << begin;
      EXPECT_EQ(small.bytes(), end < whole ? buffer : 0U);
      if (end == whole) {
        EXPECT_EQ(data_of(added.datagram), pattern(whole));
      }
    }
  }
  EXPECT_EQ(pool.statistics().buffers_in_use, 0U);
}

/// The threat: a few bytes hold on to a buffer that others show as well, and let go of.
TEST_F(IpReassembly, ASharedBufferIsChargedWholeAsLongAsAnyFragmentHoldsIt) {
  const std::size_t buffer = BufferPool::class_capacity(60'000);
  Reassembly small(2 * buffer);
  const auto shared = [&](std::uint32_t identification) {
    Message message = Message::copy_of(pool, Octets(60'000));
    for (std::size_t offset = 0; offset < 64; offset += 16) {
      EXPECT_EQ(small.add({key(identification), offset, true, udp, 20, cut(message, offset, offset + 8)}, now).outcome,
                Outcome::held);
    }
    EXPECT_EQ(small.add({key(identification + 1), 0, true, udp, 20, cut(message, 8, 16)}, now).outcome, Outcome::held);
    EXPECT_EQ(small.add({key(identification + 1), 0, true, udp, 20, cut(message, 8, 16)}, now).outcome,
              Outcome::duplicate);
  };
  shared(10);
  EXPECT_EQ(small.bytes(), buffer);
  shared(20);
  EXPECT_EQ(small.bytes(), 2 * buffer);
  EXPECT_EQ(small.datagrams(), 4U);
  Message third = Message::copy_of(pool, Octets(60'000));
  // The older of the two that show the first buffer goes, which frees nothing, and so the other.
  EXPECT_EQ(small.add({key(30), 0, true, udp, 20, cut(third, 0, 8)}, now).evicted, 2U);
  EXPECT_EQ(small.bytes(), 2 * buffer);
  EXPECT_EQ(pool.statistics().buffers_in_use, 2U);
  EXPECT_EQ(small.add({key(20), 0, true, udp, 20, cut(third, 0, 16)}, now).outcome, Outcome::overlap);
  EXPECT_EQ(small.bytes(), 2 * buffer) << "another datagram still shows it";
  EXPECT_EQ(small.add({key(21), 0, true, udp, 20, cut(third, 0, 16)}, now).outcome, Outcome::overlap);
  EXPECT_EQ(small.bytes(), buffer);
  small.expire(now + 60s, [](const Reassembly::Expired&) {});
  EXPECT_EQ(small.bytes(), 0U);
}

/// Whatever comes, what is charged is what the buffers that are held take, and never more than the bound.
TEST_F(IpReassembly, WhatIsChargedIsWhatIsHeld) {
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  Prng prng(seed);
  constexpr std::size_t capacity = 6144;
  constexpr std::size_t buffers_max = 5;
  ASSERT_EQ(BufferPool::class_capacity(capacity), capacity);
  Reassembly small(buffers_max * capacity);
  std::array<Message, 4> sources;
  std::ranges::generate(sources, [&] { return Message::copy_of(pool, Octets(capacity)); });
  for (int round = 0; round < 20'000; ++round) {
    if (prng.chance(0.05)) {
      sources[prng.below(sources.size())] = Message::copy_of(pool, Octets(capacity));
    }
    const std::size_t begin = 8 * prng.below(64);
    const std::size_t end = begin + 8 * (1 + prng.below(4));
    Message data =
        prng.chance(0.3) ? Message::copy_of(pool, Octets(capacity)) : sources[prng.below(sources.size())].duplicate();
    data.trim_back(data.size() - (end - begin));
    const bool more = !prng.chance(0.1);
    static_cast<void>(
        small.add({key(static_cast<std::uint32_t>(prng.below(12))), begin, more, udp, 20, std::move(data)}, now));
    if (prng.chance(0.01)) {
      now += 20s;
      small.expire(now, [](const Reassembly::Expired&) {});
    }
    ASSERT_LE(small.bytes(), buffers_max * capacity);
    // What is not held by `sources` alone.
    std::size_t held = pool.statistics().buffers_in_use;
    held -= static_cast<std::size_t>(
        std::ranges::count_if(sources, [](const Message& source) { return source.first().buffer->references() == 1; }));
    ASSERT_EQ(small.bytes(), held * capacity) << "round " << round;
  }
}

/// Room is made of others only: a datagram that needs all there is, and more, is given up, and stays so.
TEST_F(IpReassembly, ADatagramMakesNoRoomForItself) {
  Reassembly small(64 * 1024);
  const auto large = [&](std::size_t offset) {
    Message message = Message::allocate(pool, 60 * 1024);
    (void)message.append(8);
    return small.add({key(1), offset, true, udp, 20, std::move(message)}, now);
  };
  EXPECT_EQ(large(0).outcome, Outcome::held);
  const Reassembly::Added second = large(8);
  EXPECT_EQ(second.outcome, Outcome::no_room);
  EXPECT_EQ(second.evicted, 0U);
  EXPECT_EQ(small.bytes(), 0U);
  EXPECT_EQ(small.datagrams(), 1U);
  EXPECT_EQ(large(16).outcome, Outcome::refused);
}

/// What was given up takes no room, so room is not made by forgetting that it was.
TEST_F(IpReassembly, WhatWasGivenUpStaysGivenUpWhereRoomIsShort) {
  Reassembly small(64 * 1024);
  EXPECT_EQ(small.add(fragment(8, 24, 64, 1), now).outcome, Outcome::held);
  EXPECT_EQ(small.add(fragment(16, 32, 64, 1), now).outcome, Outcome::overlap);
  for (const std::uint32_t identification : {2U, 3U}) {
    Message large = Message::allocate(pool, 60 * 1024);
    (void)large.append(8);
    EXPECT_EQ(small.add({key(identification), 0, true, udp, 20, std::move(large)}, now).evicted, identification - 2);
  }
  EXPECT_EQ(small.add(fragment(0, 8, 64, 1), now).outcome, Outcome::refused);
}

/// RFC 8200 section 4.5: 60 seconds "of the reception of the first-arriving fragment of that packet".
TEST_F(IpReassembly, GivesUpInTimeAndReturnsTheFirstFragment) {
  std::vector<std::size_t> expired;  // sizes of first fragments
  const auto record = [&](Reassembly::Expired one) {
    expired.push_back(one.first_fragment ? one.first_fragment.size() : 0);
    EXPECT_EQ(one.protocol, expired.back() == 0 ? 0 : udp);
    EXPECT_EQ(one.header_size, expired.back() == 0 ? 0 : 20);
  };
  ASSERT_EQ(add(0, 16, 64, 1).outcome, Outcome::held);
  ASSERT_EQ(add(16, 32, 64, 2).outcome, Outcome::held);
  Fragment of_v6 = fragment(0, 24, 64, 3);
  of_v6.key.source = v6("fd00:77::2");
  of_v6.key.destination = v6("fd00:77::1");
  ASSERT_EQ(reassembly.add(std::move(of_v6), now).outcome, Outcome::held);
  now += 59s;
  ASSERT_EQ(add(16, 32, 64, 1).outcome, Outcome::held) << "another fragment does not prolong it";
  // RFC 1122 section 3.3.2: "It is recommended that this value lie between 60 seconds and 120 seconds."
  EXPECT_EQ(reassembly.next_deadline(), TimePoint{} + 60s);
  reassembly.expire(TimePoint{} + 60s - 1ns, record);
  EXPECT_TRUE(expired.empty());
  reassembly.expire(TimePoint{} + 60s, record);
  ASSERT_EQ(expired.size(), 3);
  EXPECT_EQ(expired[0], 16);
  EXPECT_EQ(expired[1], 0);
  EXPECT_EQ(expired[2], 24);
  EXPECT_EQ(reassembly.bytes(), 0);
  EXPECT_EQ(reassembly.next_deadline(), never);
}

}  // namespace
}  // namespace sluice::ip_test
