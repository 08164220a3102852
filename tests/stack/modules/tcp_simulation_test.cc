// SPDX-License-Identifier: Apache-2.0
// Two TCP connections over random paths, from seeds: every byte comes once and in order, both ends close, nothing is
// left. SLUICE_TCP_SEEDS says how many, SLUICE_TCP_SEED which one alone.

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "base/sanitizers.h"
#include "tests/stack/modules/tcp_pair.h"

namespace sluice::test {
namespace {

using tcp::Connection;
using tcp::State;
using tcp_pair::Host;
using tcp_pair::Pair;
using tcp_pair::Path;
using namespace std::chrono_literals;

std::optional<std::uint64_t> wanted(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? std::nullopt : std::optional(std::strtoull(value, nullptr, 10));
}

Path random_path(Prng& prng) {
  Path path;
  path.loss = prng.chance(0.5) ? 0 : prng.unit() * 0.2;
  path.duplicate = prng.chance(0.5) ? 0 : prng.unit() * 0.1;
  path.damage = prng.chance(0.7) ? 0 : prng.unit() * 0.1;
  path.delay = Duration(static_cast<std::int64_t>(prng.below(100'000'000)));
  path.jitter = prng.chance(0.5) ? Duration{} : Duration(static_cast<std::int64_t>(prng.below(60'000'000)));
  path.bytes_per_second = prng.chance(0.5) ? 0 : 20'000 + prng.below(20'000'000);
  path.queue_bytes_max = 3'000 + prng.below(200'000);
  return path;
}

Connection::Settings random_settings(Prng& prng) {
  return {.send_buffer_bytes = 1 + prng.below(200'000),
          .receive_buffer_bytes = 1 + prng.below(200'000),
          .segment_bytes = static_cast<std::uint16_t>(64 + prng.below(2'000)),
          .no_delay = prng.chance(0.5)};
}

/// Ends what it sends at the end of it, if it is to.
void act(Host& host, Prng& prng, TimePoint now) {
  host.send_some(1 + prng.below(prng.chance(0.2) ? 20'000 : 200), now);
  if (prng.chance(0.8)) {
    host.read(now);
  }
  if (host.sent == host.to_send && host.opened && !host.finished) {
    host.finished = true;
    host.connection->finish(now);
  }
}

void run(std::uint64_t seed) {
  SCOPED_TRACE("SLUICE_TCP_SEED=" + std::to_string(seed));
  Prng prng(seed * 2 + 1);
  Pair pair(seed, random_settings(prng), random_settings(prng));
  pair.to_right = random_path(prng);
  pair.to_left = random_path(prng);
  pair.left.to_send = prng.below(100'000);
  const std::uint64_t back = prng.chance(0.3) ? 0 : prng.below(100'000);
  const TimePoint limit = pair.now + 24h;
  std::uint64_t steps = 0;
  while (pair.now < limit && ++steps < 2'000'000) {
    pair.wake_at = std::min(pair.wake_at, pair.now + 20ms);
    if (pair.left.closed && (!pair.right || pair.right->closed)) {
      break;
    }
    ASSERT_TRUE(pair.step());
    act(pair.left, prng, pair.now);
    if (pair.right) {
      pair.right->to_send = back;
      act(*pair.right, prng, pair.now);
    }
    pair.left.hear();
    if (pair.right) {
      pair.right->hear();
    }
    if (testing::Test::HasFatalFailure()) {
      return;
    }
  }
  ASSERT_TRUE(pair.right) << "no SYN arrived";
  EXPECT_EQ(pair.left.closed, 0) << "state " << static_cast<int>(pair.left.connection->state()) << " sent "
                                 << pair.left.sent << " received " << pair.left.received;
  EXPECT_EQ(pair.right->closed, 0) << "state " << static_cast<int>(pair.right->connection->state()) << " sent "
                                   << pair.right->sent << " received " << pair.right->received;
  EXPECT_TRUE(pair.left.ended);
  EXPECT_TRUE(pair.right->ended);
  EXPECT_EQ(pair.right->received, pair.left.to_send);
  EXPECT_EQ(pair.left.received, back);
}

TEST(TcpSimulation, EveryByteComesOnceAndInOrder) {
  if (const auto seed = wanted("SLUICE_TCP_SEED")) {
    return run(*seed);
  }
  const std::uint64_t seeds = wanted("SLUICE_TCP_SEEDS").value_or(sanitized ? 100 : 500);
  for (std::uint64_t seed = 1; seed <= seeds && !HasFailure(); ++seed) {
    run(seed);
  }
}

}  // namespace
}  // namespace sluice::test
