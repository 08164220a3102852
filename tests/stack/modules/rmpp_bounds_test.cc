// SPDX-License-Identifier: Apache-2.0
// What rmpp and utopia bound, time, remember, and let their user decide: one thing at a time, by a node whose peers are
// the test.
#include <gtest/gtest.h>

#include <bit>
#include <cerrno>
#include <string>
#include <vector>

#include "stack/core/primitive.h"
#include "tests/stack/modules/rmpp_bed.h"

namespace sluice::test::messages {
namespace {

using namespace std::chrono_literals;
using rmpp::Recovery;
using wire::message::Decision;
using PacketType = RmppHeader::Type;

struct SeenPacket {
  TimePoint at{};
  TransportAddress to;
  RmppHeader header;
};

class RmppBounds : public testing::TestWithParam<ProcessingMode> {
 protected:
  Bed& make(const rmpp::Options& options) {
    bed_ = std::make_unique<Bed>(1, options, GetParam(), 1);
    bed_->network.on_send = [this](const Packet& packet) {
      seen.push_back({bed_->now(), packet.to, *RmppHeader::parse(packet.bytes)});
    };
    return *bed_;
  }
  /// What has been granted since, as "node:packets ..."
  std::string grants() {
    std::string granted;
    for (const SeenPacket& one : std::exchange(seen, {})) {
      for (std::size_t node = 1; node < 8 && one.header.type == PacketType::clear; ++node) {
        granted += one.to == Bed::address(node)
                       ? std::to_string(node) + ":" + std::to_string(std::popcount(one.header.grant)) + " "
                       : "";
      }
    }
    return granted;
  }
  /// When requests left, in ms after the first one.
  [[nodiscard]] std::vector<long> request_times() const {
    std::vector<long> times;
    TimePoint first = never;
    for (const SeenPacket& one : seen) {
      if (one.header.type == PacketType::request) {
        first = std::min(first, one.at);
        times.push_back(static_cast<long>((one.at - first) / 1ms));
      }
    }
    return times;
  }
  /// Node 0's device takes nothing, and holds a message to node 2.
  void stick() {
    (*bed_)[0].provider().stuck = true;
    (*bed_)[0].provider().write_queue().set_marks({.high_bytes = 1, .low_bytes = 1});
    (*bed_)[0].send(Bed::address(2), 1, 50);
    bed_->step(false);
  }
  void unstick() {
    (*bed_)[0].provider().stuck = false;
    (*bed_)[0].provider().write_queue().enable();
    bed_->run(0ms);
  }
  /// Node 1 answers the last request.
  void answer(PacketType type, std::uint32_t index = 0, std::uint16_t grant = 0) {
    RmppHeader header = seen.back().header;
    header.destination_incarnation = header.source_incarnation;
    header.source_incarnation = 77;
    header.type = type;
    header.index = index;
    header.length = 0;
    header.grant = grant;
    inject(*bed_, header);
  }
  void decide(Decision decision) {
    (*bed_)[0].user().write_queue().put_next(primitive_message((*bed_)[0].set().pool(), decision, MessageType::ctl));
    bed_->step(false);
  }

  std::vector<SeenPacket> seen;

 private:
  std::unique_ptr<Bed> bed_;  // which may send as it ends
};

INSTANTIATE_TEST_SUITE_P(Modes, RmppBounds, testing::Values(ProcessingMode::layered, ProcessingMode::fused));

// docs/formats/rmpp.md: "not more than its buffers to all nodes together".
TEST_P(RmppBounds, WhatIsGrantedToAllNodesTogetherIsBoundedAndGivenBackInTurn) {
  Bed& bed = make({.packet_bytes = 100, .buffers = 20});
  for (std::size_t node = 1; node <= 4; ++node) {
    inject(bed, request_of(1, 3000), node);
  }
  EXPECT_EQ(grants(), "1:16 2:4 ");
  EXPECT_EQ(bed[0].module().granted_packets(), 20U);
  RmppHeader discard = request_of(1, 3000);
  discard.type = PacketType::discard;
  discard.length = 0;
  inject(bed, discard, 1);
  EXPECT_EQ(grants(), "3:16 ");
  inject(bed, discard, 2);
  EXPECT_EQ(grants(), "4:4 ");
  EXPECT_EQ(bed[0].module().granted_packets(), 20U);
}

// ---- Time ----

TEST_P(RmppBounds, TheTimeoutDoublesSixTimes) {
  Bed& bed = make({.timeout = 20ms, .attempts_max = 10});
  bed[0].send(Bed::address(1), 9, 50);
  bed.run(60s);
  EXPECT_EQ(request_times(), (std::vector<long>{0, 20, 60, 140, 300, 620, 1260, 2540, 3820, 5100}));
  EXPECT_EQ(bed.outcomes.failed[9], 1);
}

TEST_P(RmppBounds, ADeviceThatTakesNothingCostsNoAttempt) {
  for (const Recovery recovery : {Recovery::message, Recovery::selective}) {
    Bed& bed = make({.recovery = recovery, .packet_bytes = 100, .timeout = 20ms, .attempts_max = 2});
    bed[0].send(Bed::address(1), 9, 3000);
    const SeenPacket request = seen.back();
    stick();
    seen = {request};
    answer(PacketType::clear, 1, 0xffff);
    bed.run(60s);
    EXPECT_EQ(bed.outcomes.failed[9], 0);
    unstick();
    seen.clear();
    bed.run(19ms);
    EXPECT_TRUE(seen.empty()) << "the peer has its time";
    bed.run(2ms);
    EXPECT_EQ(request_times().size(), 1U);
    bed.run(1s);
    EXPECT_EQ(bed.outcomes.failed[9], 1);
  }
}

TEST_P(RmppBounds, NoTimerOutlivesItsMessage) {
  Bed& bed = make({.timeout = 20ms});
  bed[0].send(Bed::address(1), 9, 50);
  answer(PacketType::end);
  EXPECT_EQ(bed.outcomes.sent[9], 1);
  EXPECT_GT(bed[0].set().scheduler().next_deadline() - bed.now(), 1s);
}

// stack/modules/rmpp.h: "attempts: how often, before the message fails". Of a selective one, that is without progress.
TEST_P(RmppBounds, ProgressGivesASelectiveMessageAllItsAttemptsAgain) {
  for (const Recovery recovery : {Recovery::message, Recovery::selective}) {
    Bed& bed = make({.recovery = recovery, .packet_bytes = 100, .timeout = 20ms, .attempts_max = 3});
    seen.clear();
    bed[0].send(Bed::address(1), 9, 3000);
    bed.run(100ms);
    EXPECT_EQ(request_times(), (std::vector<long>{0, 20, 60}));
    answer(PacketType::clear, 1, 0xffff);
    seen.clear();
    bed.run(130ms);
    EXPECT_EQ(request_times().size(), recovery == Recovery::selective ? 2U : 0U);
    EXPECT_EQ(bed.outcomes.failed[9], recovery == Recovery::selective ? 0 : 1);
    bed.run(100ms);
    EXPECT_EQ(bed.outcomes.failed[9], 1);
  }
}

// ---- Memory of nodes ----

// docs/formats/rmpp.md: "A `source` that has been replaced by another is stale from then on (the last four are
// remembered)."
TEST_P(RmppBounds, TheLastFourProcessesOfANodeAreRemembered) {
  Bed& bed = make({.packet_bytes = 100});
  for (std::uint32_t process = 100; process < 105; ++process) {
    inject(bed, request_of(1, 50, process));
  }
  EXPECT_EQ(bed.outcomes.order.size(), 5U);
  for (std::uint32_t process = 100; process < 104; ++process) {
    inject(bed, request_of(2, 50, process));
  }
  EXPECT_EQ(count(bed[0].module(), "stale"), 4U);
  EXPECT_EQ(bed.outcomes.order.size(), 5U);
  inject(bed, request_of(1, 50, 105));
  inject(bed, request_of(2, 50, 100));
  EXPECT_EQ(bed.outcomes.order.size(), 7U);
}

TEST_P(RmppBounds, ANodeForWhichAMessageWaitsIsNotForgotten) {
  Bed& bed = make({.recovery = Recovery::none, .dead_time = 1s});
  stick();
  bed[0].send(Bed::address(1), 9, 50);
  bed.run(10s);
  EXPECT_EQ(bed[0].module().peers(), 1U);
  EXPECT_EQ(bed[0].module().messages_waiting(), 1U);
  unstick();
  EXPECT_EQ(bed.outcomes.sent[9], 1);
  bed.run(10s);
  EXPECT_EQ(bed[0].module().peers(), 0U);
}

TEST_P(RmppBounds, ANodeThatOnlyAnswersIsNotForgotten) {
  Bed& bed = make({.dead_time = 1s});
  for (std::uint64_t tag = 1; tag <= 10; ++tag) {
    bed[0].send(Bed::address(1), tag, 50);
    answer(PacketType::end);
    bed.run(400ms);
  }
  EXPECT_EQ(bed.outcomes.sent.size(), 10U);
  EXPECT_EQ(count(bed[0].module(), "collected"), 0U);
  bed.run(2s);
  EXPECT_EQ(count(bed[0].module(), "collected"), 1U);
}

// stack/modules/message_protocol.h: "When packets are asked for again, those of the round before no longer count, even
// if they prove good: a later copy may land, damaged, where they lie."
TEST(RmppRounds, WhatIsAskedForAgainCountsInItsLatestCopyAlone) {
  Bed bed(1, {.recovery = Recovery::selective, .packet_bytes = 100}, ProcessingMode::fused, 1);
  const auto comes = [&bed](std::uint32_t index, bool damaged) {
    RmppHeader header = request_of(1, 300);
    header.type = index == 0 ? PacketType::request : PacketType::data;
    header.flags = RmppHeader::selective;
    header.index = index;
    std::vector<std::byte> bytes = packet_of(header);
    const std::uint16_t sum = header_sum(bytes);
    bytes.back() ^= static_cast<std::byte>(damaged);
    bed[0].provider().deliver({.from = Bed::address(1), .to = Bed::address(0), .bytes = bytes, .sum = sum});
  };
  comes(0, false);
  bed.step(false);
  comes(1, false);  // both wait for the reader
  comes(2, false);
  comes(0, false);  // and are granted again
  comes(1, true);
  bed.settle(bed[0]);
  EXPECT_TRUE(bed.outcomes.order.empty());
  comes(1, false);
  comes(2, false);
  bed.settle(bed[0]);
  comes(0, false);
  bed.settle(bed[0]);
  comes(1, false);
  comes(2, false);
  bed.settle(bed[0]);
  EXPECT_EQ(bed.outcomes.order, std::vector<std::uint64_t>{1});
  EXPECT_EQ(bed.outcomes.wrong, "");
}

// ---- Decisions ----

TEST_P(RmppBounds, OnlyADecisionAboutTheMessageAtHandCountsAndEachMessageNeedsOne) {
  Bed& bed = make({.packet_bytes = 100});
  const Decision right{.kind = Decision::Kind::accepts, .peer = Bed::address(1), .incarnation = 77, .number = 5};
  decide({.kind = Decision::Kind::decides, .peer = {}, .incarnation = 0, .number = 0});
  inject(bed, request_of(5, 3000));
  for (const Decision::Kind kind : {Decision::Kind::accepts, Decision::Kind::refuses}) {
    for (int which = 0; which < 4; ++which) {
      Decision wrong = right;
      wrong.kind = kind;
      wrong.peer = which == 0 ? Bed::address(2) : wrong.peer;
      wrong.incarnation += which == 1 ? 1 : 0;
      wrong.number += which == 2 ? 1 : which == 3 ? ~std::uint32_t{0} : 0;
      decide(wrong);
      EXPECT_TRUE(seen.empty()) << which;
    }
  }
  decide(right);
  EXPECT_EQ(grants(), "1:16 ");
  inject(bed, request_of(6, 50));  // ends the one before
  EXPECT_TRUE(seen.empty()) << "not decided yet";
  Decision next = right;
  next.number = 6;
  decide(next);
  ASSERT_EQ(seen.size(), 1U);
  EXPECT_EQ(seen[0].header.type, PacketType::end);
  EXPECT_EQ(bed.outcomes.received[6], 1);
}

// stack/modules/utopia.h: "nobody says that it came", so nobody decides that it may.
TEST_P(RmppBounds, NobodyDecidesAboutTheEndOfAMessageOfUtopia) {
  Bed& bed = make({.recovery = Recovery::none, .packet_bytes = 100});
  decide({.kind = Decision::Kind::decides, .peer = {}, .incarnation = 0, .number = 0});
  for (const std::uint64_t total : {50U, 150U}) {
    RmppHeader request = request_of(static_cast<std::uint32_t>(total), total);
    request.flags = RmppHeader::unacknowledged;
    inject(bed, request);
  }
  EXPECT_EQ(bed.outcomes.order, std::vector<std::uint64_t>{50});
  EXPECT_EQ(grants(), "") << "of a grant its user decides";
}

}  // namespace
}  // namespace sluice::test::messages
