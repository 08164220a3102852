// SPDX-License-Identifier: Apache-2.0
// Associations over bad networks, from seeds: what comes is right, comes once and in order, messages end where they
// ended, and nothing is left over. The users of the bed check that as it comes.
//
// SLUICE_XTP_CASES: how many are tried (400); SLUICE_XTP_SEED: that one alone.
#include <gtest/gtest.h>

#include <string>

#include "tests/seeds.h"
#include "tests/stack/modules/xtp_bed.h"

namespace sluice::test::associations {
namespace {

using namespace std::chrono_literals;

struct XtpCase {
  explicit XtpCase(std::uint64_t seed) : prng(seed) {
    reliable = prng.below(5) != 0;
    for (xtp::Options& one : options) {
      one.packet_bytes = static_cast<std::uint32_t>(64 + prng.below(400));
      one.selective = prng.below(3) != 0;
      one.fast_nak = prng.below(3) != 0;
      one.flow_control = prng.below(4) != 0;
      one.error_control = reliable;
      one.status_packets = static_cast<std::uint32_t>(1 + prng.below(20));
      one.receive_buffer_bytes = prng.below(2) == 0 ? 4096 : 65536;
      one.send_buffer_bytes = prng.below(2) == 0 ? 4096 : 65536;
      if (prng.below(4) == 0) {
        one.rate = static_cast<std::uint32_t>(50'000 + prng.below(1'000'000));
        one.burst = static_cast<std::uint32_t>(prng.below(3000));
      }
      if (prng.below(6) == 0) {
        one.in_rate = 100'000;
        one.in_burst = 2000;
      }
      one.attempts = 100;
    }
    const bool covered = prng.below(3) != 0;  // the checksum covers data
    options[0].checksum = options[1].checksum = covered;
    checked_below = !covered || prng.below(2) == 0;
    mode = prng.below(2) == 0 ? ProcessingMode::layered : ProcessingMode::fused;
    restarts = prng.below(5) == 0;
    weather = messages::random_weather(prng);
    for (std::size_t at = 0; at < plans.size(); ++at) {
      plans[at].pattern = seed * 2 + at;
      std::uint64_t end = 0;
      for (std::uint64_t count = prng.below(12); count > 0; --count) {
        const bool large = reliable && prng.below(4) == 0;
        // Without error control each message is one packet, and large enough to be known from others.
        end += large ? 1 + prng.below(20'000) : reliable ? 1 + prng.below(400) : 24 + prng.below(40);
        plans[at].ends.push_back(end);
      }
    }
  }
  Prng prng;
  std::array<xtp::Options, 2> options;
  std::array<Plan, 2> plans;
  bool reliable = true;
  bool checked_below = true;
  ProcessingMode mode = ProcessingMode::layered;
  bool restarts = false;
  Weather weather;
};

void print(const XtpCase& made, XtpBed& bed) {
  for (std::size_t at = 0; at < 2; ++at) {
    const xtp::Options& one = made.options[at];
    std::printf(
        "node %zu: packet %u selective %d fast_nak %d flow %d error %d rate %u in %u; sent %llu of %llu, "
        "received %llu, released %d %d\n",
        at, one.packet_bytes, one.selective, one.fast_nak, one.flow_control, one.error_control, one.rate, one.in_rate,
        static_cast<unsigned long long>(bed[at].user().sent), static_cast<unsigned long long>(made.plans[at].size()),
        static_cast<unsigned long long>(bed[at].user().received), bed[at].user().released,
        bed[at].user().peer_released);
    if (bed[at].is_open()) {
      for (const Counter* counter : bed[at].module().counters()) {
        if (counter->value() > 0) {
          std::printf("  %s %llu\n", std::string(counter->name()).c_str(),
                      static_cast<unsigned long long>(counter->value()));
        }
      }
    }
  }
  std::printf("mode %d loss %g x%g dup %g damage %g\n", static_cast<int>(made.mode), made.weather.loss,
              made.weather.burst, made.weather.duplicate, made.weather.damage);
}

void give_plans(const XtpCase& made, XtpBed& bed) {
  for (std::size_t at = 0; at < 2; ++at) {
    XtpUser& user = bed[at].user();
    user.sends = made.plans[at];
    user.expects = made.plans[1 - at];
    user.whole_messages = made.reliable;
  }
}

void run_xtp_case(std::uint64_t seed) {
  XtpCase made(seed);
  XtpBed bed(made.options, made.mode, seed, made.weather, made.checked_below);
  give_plans(made, bed);
  bed.connect();
  for (std::size_t turn = 0; turn < 6; ++turn) {
    bed.run(std::chrono::microseconds(made.prng.below(40'000)), made.prng.below(2) == 0);
  }
  bool restarted = false;
  if (made.restarts) {
    // One end is another process now: the other must learn that, and a new association is like the first.
    restarted = true;
    const std::size_t gone = made.prng.below(2);
    bed.restart(gone);
    for (Plan& plan : made.plans) {
      plan.pattern += 1'000'000;
    }
    bed.run(std::chrono::microseconds(made.prng.below(100'000)));
    bed.network.weather = {};
    bed.run(400s);
    EXPECT_EQ(bed[1 - gone].user().wrong, "");
    EXPECT_TRUE(!bed[1 - gone].user().connected ||
                (bed[1 - gone].user().released && bed[1 - gone].user().peer_released))
        << "it does not know that the peer is gone";
    give_plans(made, bed);
    bed[gone].user().bind(gone == 0 ? 4 : 0);
    bed[1].user().call(XtpBed::address(0));
  }
  bed.network.weather = {};
  bed.run(200s, true);
  bed.run(200s);
  for (std::size_t at = 0; at < 2; ++at) {
    const XtpUser& user = bed[at].user();
    EXPECT_EQ(user.wrong, "") << "node " << at;
    EXPECT_FALSE(user.fatal);
    if (!restarted) {
      EXPECT_TRUE(user.disconnections.empty())
          << "node " << at << ": " << (user.disconnections.empty() ? 0 : user.disconnections.front());
    }
    EXPECT_TRUE(user.released && user.peer_released) << "node " << at;
    EXPECT_EQ(user.sent, made.plans[at].size()) << "node " << at;
    EXPECT_TRUE(!made.reliable || user.received == made.plans[1 - at].size()) << "node " << at;
    EXPECT_EQ(bed[at].module().lingering(), 0U) << "node " << at;
    EXPECT_EQ(bed[at].set().scheduler().next_deadline(), never) << "node " << at;
    EXPECT_EQ(bed[at].set().pool().statistics().buffers_in_use, 0U) << "node " << at;
  }
  if (::testing::Test::HasFailure()) {
    print(made, bed);
  }
}

/// What leaves is the same, bit for bit, whether manipulations are carried out together or one by one.
TEST(XtpSimulation, FusedAndLayeredSendTheSamePackets) {
  for (std::uint64_t seed = 1; seed <= number_from("SLUICE_DIFFERENTIAL_CASES", 60); ++seed) {
    std::array<std::vector<std::vector<std::byte>>, 2> sent;
    for (const ProcessingMode mode : {ProcessingMode::layered, ProcessingMode::fused}) {
      const XtpCase made(seed);
      XtpBed bed(made.options, mode, seed, made.weather, made.checked_below);
      bed.network.on_send = [&](const Packet& packet) { sent[static_cast<std::size_t>(mode)].push_back(packet.bytes); };
      give_plans(made, bed);
      bed.connect();
      bed.run(200s);
      EXPECT_EQ(bed[0].user().wrong + bed[1].user().wrong, "");
    }
    ASSERT_FALSE(sent[0].empty());
    ASSERT_EQ(sent[0], sent[1]) << "seed " << seed;
  }
}

TEST(XtpSimulation, WhatComesIsRightOnceAndInOrderAndNothingIsLeft) { over_seeds("SLUICE_XTP", 400, run_xtp_case); }

}  // namespace
}  // namespace sluice::test::associations
