// SPDX-License-Identifier: Apache-2.0
// Nodes that send each other messages over bad networks, from seeds: whatever comes is right, comes once and in order,
// and nothing is left over. The user of the bed checks bytes and order as they come.
//
// SLUICE_RMPP_CASES: how many are tried (2000); SLUICE_RMPP_SEED: that one alone.
#include <gtest/gtest.h>

#include <string>

#include "tests/seeds.h"
#include "tests/stack/modules/rmpp_bed.h"

namespace sluice::test::messages {
namespace {

using namespace std::chrono_literals;
using rmpp::Recovery;

struct SimulationCase {
  explicit SimulationCase(std::uint64_t seed) : prng(seed) {
    options.recovery = static_cast<Recovery>(prng.below(3));
    options.packet_bytes = static_cast<std::uint16_t>(64 + prng.below(200));
    options.grant_packets_max = static_cast<std::uint32_t>(1 + prng.below(16));
    options.buffers = prng.below(3) == 0 ? 1 + static_cast<std::uint32_t>(prng.below(20)) : 1024;
    mode = prng.below(2) == 0 ? ProcessingMode::layered : ProcessingMode::fused;
    nodes = 2 + prng.below(3);
    restarts = prng.below(4) == 0;
    weather = random_weather(prng);
  }
  Prng prng;
  rmpp::Options options;
  ProcessingMode mode = ProcessingMode::layered;
  std::size_t nodes = 2;
  bool restarts = false;
  Weather weather;
};

void run_case(std::uint64_t seed) {
  SimulationCase made(seed);
  Prng& prng = made.prng;
  Bed bed(made.nodes, made.options, made.mode, seed, made.weather);
  std::uint64_t tag = 0;
  std::map<std::uint64_t, std::size_t> size_of;
  bool restarted = false;
  for (std::size_t turn = 0; turn < 8; ++turn) {
    const std::size_t from = prng.below(made.nodes);
    const std::size_t to = (from + 1 + prng.below(made.nodes - 1)) % made.nodes;
    for (std::uint64_t count = 1 + prng.below(3); count > 0; --count) {
      const std::size_t size = prng.below(3) == 0 ? prng.below(20'000) : prng.below(400);
      size_of[++tag] = size;
      bed[from].send(Bed::address(to), tag, size);
    }
    bed.run(std::chrono::microseconds(prng.below(20'000)), prng.below(2) == 0);
    if (made.restarts && prng.below(6) == 0) {
      bed.restart(prng.below(made.nodes));
      restarted = true;
    }
  }
  bed.network.weather = {};
  bed.run(100s, true);
  EXPECT_EQ(bed.outcomes.wrong, "");
  const bool reliable = made.options.recovery != Recovery::none;
  for (const auto& [sent, size] : size_of) {
    const int said = bed.outcomes.sent[sent] + bed.outcomes.failed[sent];
    if (!restarted) {
      EXPECT_EQ(said, reliable ? 1 : said) << "of message " << sent;
      EXPECT_LE(bed.outcomes.received[sent], 1) << "message " << sent;
      EXPECT_TRUE(!reliable || bed.outcomes.failed[sent] == 0) << "message " << sent;
    }
    EXPECT_LE(said, 1) << "of message " << sent;
    if (reliable && bed.outcomes.sent[sent] == 1) {
      EXPECT_GE(bed.outcomes.received[sent], 1) << "message " << sent << " was said to have come";
    }
  }
  // To a process that has gone each message of utopia waits for the dead time, one after the other; then its state
  // does.
  bed.run(made.options.dead_time * static_cast<int>(size_of.size() + 2));
  for (std::size_t at = 0; at < bed.size(); ++at) {
    EXPECT_EQ(bed[at].module().peers(), 0U);
    EXPECT_EQ(bed[at].module().granted_packets(), 0U);
    EXPECT_EQ(bed[at].module().messages_waiting(), 0U);
    EXPECT_EQ(bed[at].set().pool().statistics().buffers_in_use, 0U);
  }
  if (::testing::Test::HasFailure()) {
    std::printf("recovery %d mode %d packet %u grant %u buffers %u nodes %zu loss %g x%g dup %g damage %g\n",
                static_cast<int>(made.options.recovery), static_cast<int>(made.mode), made.options.packet_bytes,
                made.options.grant_packets_max, made.options.buffers, made.nodes, made.weather.loss, made.weather.burst,
                made.weather.duplicate, made.weather.damage);
    for (std::size_t at = 0; at < bed.size(); ++at) {
      for (const Counter* counter : bed[at].module().counters()) {
        if (counter->value() > 0) {
          std::printf("  node %zu %s %llu\n", at, std::string(counter->name()).c_str(),
                      static_cast<unsigned long long>(counter->value()));
        }
      }
    }
  }
}

TEST(RmppSimulation, WhatComesIsRightOnceAndInOrderAndNothingIsLeft) { over_seeds("SLUICE_RMPP", 2000, run_case); }

}  // namespace
}  // namespace sluice::test::messages
