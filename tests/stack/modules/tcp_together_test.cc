// SPDX-License-Identifier: Apache-2.0
// Segments that go down together change nothing on the wire: a seeded connection over a bad path is run twice, once
// with each segment for itself, once with several as one message that is taken apart below, and both have sent the same
// segments at the same times. And what a segment that stands for several does to who receives it.

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "base/sanitizers.h"
#include "stack/wire/data_unit.h"
#include "tests/stack/modules/tcp_pair.h"

namespace sluice::test {
namespace {

using namespace tcp_pair;

constexpr std::size_t together_max = 65'435;

/// Everything that was on the wire, and when; and what both ends have counted.
struct Trace {
  std::vector<std::pair<TimePoint, std::vector<std::byte>>> segments;
  std::vector<std::uint64_t> counts;
  std::size_t together = 0;  // messages that stood for several
};

/// One connection as `seed` says.
Trace trace_of(std::uint64_t seed, bool together) {
  Prng prng(seed);
  Connection::Settings settings;
  settings.segment_bytes = static_cast<std::uint16_t>(prng.below(2) == 0 ? 1460 : 100 + prng.below(9000));
  settings.no_delay = prng.below(2) == 0;
  settings.send_buffer_bytes = 2000 + prng.below(300'000);
  settings.receive_buffer_bytes = 2000 + prng.below(600'000);
  const std::size_t together_bytes = 1 + prng.below(together_max);
  settings.together_bytes = together ? together_bytes : 0;
  const bool bad = prng.below(3) == 0;
  Pair pair(prng(), settings, settings);
  for (Path* const path : {&pair.to_right, &pair.to_left}) {
    *path = {.loss = bad ? 0.02 : 0, .delay = 1ms + Duration(prng.below(20'000'000)), .jitter = Duration(0)};
  }
  Trace trace;
  pair.on_segment = [&](bool, std::span<const std::byte> bytes) {
    trace.segments.emplace_back(pair.now, std::vector(bytes.begin(), bytes.end()));
    return true;
  };
  pair.left.to_send = prng.below(1'000'000);
  const std::uint64_t back = prng.below(100'000);
  const std::size_t piece = 1 + prng.below(100'000);
  const std::uint64_t shrinks_at = prng.below(2) == 0 ? prng.below(pair.left.to_send + 1) : UINT64_MAX;
  for (int step = 0; step < 200'000; ++step) {
    for (Host* const host : {&pair.left, pair.right.get()}) {
      if (host == nullptr) {
        continue;
      }
      host->to_send = host == &pair.left ? host->to_send : back;
      host->send_some(piece, pair.now);
      host->read(pair.now);
      if (host->opened && !host->finished && host->sent == host->to_send) {
        host->finished = true;
        host->connection->finish(pair.now);
      }
    }
    if (pair.left.sent >= shrinks_at) {
      pair.left.connection->set_path(static_cast<std::uint16_t>(settings.segment_bytes / 2), pair.now);
    }
    if (!pair.step()) {
      break;
    }
  }
  EXPECT_TRUE(pair.right && pair.right->received == pair.left.to_send && pair.left.received == back) << "seed " << seed;
  trace.together = pair.together;
  for (Host* const host : {&pair.left, pair.right.get()}) {
    if (host != nullptr) {
      const auto& counted = host->connection->statistics();
      trace.counts.insert(trace.counts.end(), {counted.segments_sent, counted.segments_again, counted.timeouts,
                                               counted.challenges, counted.unacceptable, counted.no_memory});
    }
  }
  return trace;
}

TEST(TcpTogether, TheWireSeesTheSameSegments) {
  std::size_t together = 0;
  for (std::uint64_t seed = 1; seed <= (sanitized ? 60 : 300); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const Trace alone = trace_of(seed, false);
    const Trace whole = trace_of(seed, true);
    ASSERT_EQ(alone.together, 0U);
    ASSERT_TRUE(alone.segments == whole.segments);
    ASSERT_EQ(alone.counts, whole.counts);
    together += whole.together;
  }
  EXPECT_GT(together, 100U) << "nothing has been tried";
}

/// RFC 5681 section 4.2: "an ACK SHOULD be generated for at least every second full-sized segment": what a device has
/// put together is as many as it was on the wire.
TEST(TcpTogether, ASegmentThatStandsForManyIsAcknowledgedAtOnce) {
  for (const std::size_t count : {std::size_t{1}, std::size_t{8}}) {
    Pair pair(7);
    while (!(pair.right && pair.right->opened)) {
      ASSERT_TRUE(pair.step());
    }
    pair.left.to_send = 1000;
    pair.left.send_some(1000, pair.now);
    const Ends ends{{wire::Ipv4Address{{10, 0, 0, 2}}, 2000}, {wire::Ipv4Address{{10, 0, 0, 1}}, 1000}};
    Batch out = pair.left.connection->take_segments();
    ASSERT_EQ(out.size(), 1U);
    auto segment = segment_of(pair.pool, ends, bytes_of(out.pop()));
    ASSERT_TRUE(segment);
    segment->count = count;
    pair.right->connection->arrive(std::move(*segment), pair.now);
    EXPECT_EQ(pair.right->connection->take_segments().size(), count == 1 ? 0U : 1U);
  }
}

}  // namespace
}  // namespace sluice::test
