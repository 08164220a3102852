// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/session/control_stream.h"

#include <gtest/gtest.h>

#include "tests/apps/ftx/session/simulation.h"

namespace sluice::ftx::test {
namespace {

constexpr TimePoint stream_start{1h};
const Envelope control_envelope{Kind::control, 0, 42};

/// Two ends joined by faulty links, in simulated time.
struct Pair {
  explicit Pair(LinkFaults faults, std::uint64_t seed) : there(faults, 2 * seed), back(faults, 2 * seed + 1) {}

  /// Until nothing is under way; false: not within `most`.
  bool run(Duration most) {
    const TimePoint end = now + most;
    while (now < end) {
      move(left, there);
      move(right, back);
      take(there, right, arrived_right);
      take(back, left, arrived_left);
      const TimePoint next =
          std::min({left.next_deadline(), right.next_deadline(), there.next_arrival(), back.next_arrival()});
      if (next == never) {
        return true;
      }
      now = std::max(now + 1us, next);
    }
    return false;
  }
  void move(ControlStream& from, Link& link) {
    std::array<std::byte, control_bytes_max> out{};
    while (const auto segment = from.next(now)) {
      link.send(now, ConstBytes(out).first(emit_control(control_envelope, *segment, out)), Peer());
    }
  }
  void take(Link& link, ControlStream& to, Content& arrived) {
    while (const auto datagram = link.arrive(now)) {
      const auto segment = parse_control(datagram->bytes);
      ASSERT_TRUE(segment);
      to.receive(now, *segment);
      const Content fresh = to.take_received();
      arrived.insert(arrived.end(), fresh.begin(), fresh.end());
    }
  }

  TimePoint now = stream_start;
  ControlStream left, right;
  Content arrived_left, arrived_right;
  Link there, back;
};

TEST(ControlStream, AnyLinkDeliversTheSameBytesInOrder) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(seed);
    Prng prng(seed);
    LinkFaults faults;
    faults.loss = prng.unit() * 0.4;
    faults.reorder = prng.unit() * 0.5;
    faults.duplicate = prng.unit() * 0.5;
    Pair pair(faults, seed);
    const Content one = random_content(prng.below(6000), seed), other = random_content(prng.below(6000), seed + 1);
    ASSERT_TRUE(pair.left.send(one) && pair.right.send(other));
    EXPECT_TRUE(pair.run(600s));
    EXPECT_EQ(pair.arrived_right, one);
    EXPECT_EQ(pair.arrived_left, other);
    EXPECT_TRUE(pair.left.all_acknowledged() && pair.right.all_acknowledged());
  }
}

TEST(ControlStream, AnIntervalDoublesUntilSomethingIsAcknowledged) {
  ControlStream stream(100ms);
  ASSERT_TRUE(stream.send(Content(10)));
  EXPECT_EQ(stream.next_deadline(), TimePoint::min());
  TimePoint now = stream_start;
  for (const Duration interval : {100ms, 200ms, 400ms, 500ms, 500ms}) {
    ASSERT_TRUE(stream.next(now));
    EXPECT_FALSE(stream.next(now));
    EXPECT_EQ(stream.next_deadline(), now + interval);
    now += interval;
  }
  EXPECT_TRUE(stream.receive(now, {.acknowledged = 4}));
  EXPECT_EQ(stream.next_deadline(), now + 100ms);
  const auto rest = stream.next(now + 100ms);
  ASSERT_TRUE(rest);
  EXPECT_EQ(rest->offset, 4U);
  EXPECT_EQ(rest->bytes.size(), 6U);
  EXPECT_TRUE(stream.receive(now, {.acknowledged = 10}));
  EXPECT_EQ(stream.next_deadline(), never);
}

TEST(ControlStream, BytesAreAcknowledgedAndAcknowledgementsAreNot) {
  ControlStream stream;
  const Content bytes(10);
  for (int again = 0; again < 3; ++again) {
    EXPECT_EQ(stream.receive(stream_start, {.bytes = bytes}), again == 0);
    const auto answer = stream.next(stream_start);
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->acknowledged, 10U);
    EXPECT_TRUE(answer->bytes.empty());
  }
  EXPECT_FALSE(stream.receive(stream_start, {.acknowledged = 0}));
  EXPECT_FALSE(stream.next(stream_start));
  EXPECT_EQ(stream.take_received(), bytes);
  EXPECT_TRUE(stream.take_received().empty());
}

TEST(ControlStream, WhatWasNeverSentCannotBeAcknowledged) {
  ControlStream stream;
  ASSERT_TRUE(stream.send(Content(10)));
  EXPECT_FALSE(stream.receive(stream_start, {.acknowledged = 11}));
  EXPECT_FALSE(stream.all_acknowledged());
}

TEST(ControlStream, BytesBothWaysAndDatagramsHaveABound) {
  ControlStream stream;
  EXPECT_FALSE(stream.send(Content(ControlStream::bytes_max + 1)));
  EXPECT_TRUE(stream.send(Content(ControlStream::bytes_max)));
  EXPECT_FALSE(stream.send(Content(1)));

  std::size_t arrived = 0;
  const Content piece(1000);
  for (std::uint32_t offset = 0; offset < 100'000; offset += 1000) {
    stream.receive(stream_start, {.offset = offset, .bytes = piece});
    arrived += stream.take_received().size();
  }
  EXPECT_LE(arrived, ControlStream::bytes_max);

  std::size_t datagrams = 0;
  for (TimePoint now = stream_start; now < stream_start + 1h; now += 5s) {
    stream.receive(now, {.bytes = piece});
    while (stream.next(now)) {
      ++datagrams;
    }
  }
  EXPECT_EQ(datagrams, ControlStream::datagrams_max);
  EXPECT_EQ(stream.next_deadline(), never);
}

// What is acknowledged while it is being sent again is not sent once more.
TEST(ControlStream, WhatArrivedAfterAllIsNotSentAgain) {
  ControlStream stream(250ms);
  TimePoint now{1h};
  ASSERT_TRUE(stream.send(std::vector<std::byte>(3 * ControlStream::segment_bytes_max)));
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(stream.next(now));
  }
  now += 250ms;
  ASSERT_TRUE(stream.next(now)) << "the first again";
  stream.receive(now, {.acknowledged = 2 * ControlStream::segment_bytes_max});
  const auto next = stream.next(now);
  ASSERT_TRUE(next);
  EXPECT_EQ(next->offset, 2 * ControlStream::segment_bytes_max);
  EXPECT_FALSE(stream.next(now));
}

}  // namespace
}  // namespace sluice::ftx::test
