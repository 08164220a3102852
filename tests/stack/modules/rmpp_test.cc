// SPDX-License-Identifier: Apache-2.0
#include "stack/modules/rmpp.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <functional>
#include <limits>
#include <string_view>
#include <utility>
#include <vector>

#include "stack/modules/utopia.h"
#include "stack/wire/tpi.h"
#include "tests/stack/modules/rmpp_bed.h"

namespace sluice::test::messages {
namespace {

using namespace std::chrono_literals;
using rmpp::Recovery;
using Type = RmppHeader::Type;
constexpr auto modes = {ProcessingMode::layered, ProcessingMode::fused};

std::vector<Type> types_of(Bed& bed, std::size_t from, std::size_t to, std::size_t size) {
  std::vector<Type> types;
  bed.network.on_send = [&](const Packet& packet) { types.push_back(RmppHeader::parse(packet.bytes).value().type); };
  bed[from].send(Bed::address(to), 1, size);
  bed.run(5s);
  return types;
}

TEST(Rmpp, AShortMessageTakesThreePackets) {
  for (const ProcessingMode mode : modes) {
    Bed bed(2, {}, mode, 1);
    EXPECT_EQ(types_of(bed, 0, 1, 1400), (std::vector{Type::request, Type::end, Type::discard}));
    EXPECT_EQ(bed.outcomes.received[1], 1);
    EXPECT_EQ(bed.outcomes.sent[1], 1);
  }
}

TEST(Rmpp, AMessageWithoutBytesIsAMessage) {
  Bed bed(2, {}, ProcessingMode::fused, 1);
  EXPECT_EQ(types_of(bed, 0, 1, 0), (std::vector{Type::request, Type::end, Type::discard}));
  EXPECT_EQ(bed.outcomes.received[1], 1);
}

TEST(Rmpp, ALongMessageIsGrantedSixteenPacketsAtATime) {
  Bed bed(2, {.packet_bytes = 100}, ProcessingMode::layered, 1);
  std::vector<std::uint16_t> grants;
  bed.network.on_send = [&](const Packet& packet) {
    if (const auto header = RmppHeader::parse(packet.bytes); header->type == Type::clear) {
      grants.push_back(header->grant);
    }
  };
  bed[0].send(Bed::address(1), 5, 100 * 34);
  bed.run(5s);
  EXPECT_EQ(grants, (std::vector<std::uint16_t>{0xffff, 0xffff, 1}));
  EXPECT_EQ(bed.outcomes.received[5], 1);
  EXPECT_EQ(bed.network.sent, 1U + 3 + 33 + 2);
}

// What a device is asked for each time, it is asked once a grant: 16 packets in one batch.
TEST(Rmpp, AGrantsPacketsGoDownTogether) {
  for (const Recovery recovery : {Recovery::none, Recovery::message, Recovery::selective}) {
    Bed bed(2, {.recovery = recovery, .packet_bytes = 100}, ProcessingMode::fused, 1);
    bed[0].send(Bed::address(1), 5, 100 * 34);
    bed.run(5s);
    EXPECT_EQ(bed.outcomes.received[5], 1);
    const std::size_t ends = recovery == Recovery::none ? 0 : 1;
    EXPECT_EQ(bed[0].provider().puts, 1U + 3 + ends) << "the request, three grants' packets, the discard";
    EXPECT_EQ(bed[1].provider().puts, 3U + ends) << "three grants, the message end";
    EXPECT_EQ(bed.network.sent, 1U + 3 + 33 + 2 * ends);
  }
}

// The TSDU_size of T_INFO_ACK is, above this module, about messages; T_INVALID where no packet fits the provider.
TEST(Rmpp, TellsTheLongestMessageAsTheSizeOfADataUnit) {
  using namespace wire::tpi;
  struct Row {
    std::int32_t below;
    std::uint64_t message_bytes_max;
    std::int32_t told;
  };
  constexpr std::int32_t int_max = std::numeric_limits<std::int32_t>::max();
  for (const Row& row :
       {Row{65507, 1 << 20, (1 << 20) + 16}, Row{1464, 0, 16}, Row{1463, 1 << 20, T_INVALID}, Row{T_INFINITE, 5, 21},
        Row{T_INVALID, 5, T_INVALID}, Row{0, 5, T_INVALID}, Row{65507, std::uint64_t{1} << 40, int_max}}) {
    Bed bed(1, {.message_bytes_max = row.message_bytes_max}, ProcessingMode::layered, 1);
    const auto told = [&](const auto& primitive) {
      std::vector<std::byte> bytes(primitive.encoded_size());
      primitive.encode(bytes);
      bed[0].provider().read_queue().put_next(Message::copy_of(bed[0].set().pool(), bytes, 0, MessageType::pcproto));
      const Message up = bed[0].user().read_queue().dequeue();
      return std::vector<std::byte>(up.bytes().begin(), up.bytes().end());
    };
    const InfoAck info{.tsdu_size = row.below, .addr_size = 20, .tidu_size = 7, .current_state = TS_IDLE};
    InfoAck changed = info;
    changed.tsdu_size = row.told;
    EXPECT_EQ(InfoAck::decode(told(info)), changed);
    EXPECT_EQ(CapabilityAck::decode(told(CapabilityAck{.capabilities = TC1_INFO, .info = info})),
              (CapabilityAck{.capabilities = TC1_INFO, .info = changed}));
    EXPECT_EQ(CapabilityAck::decode(told(CapabilityAck{.capabilities = 0, .info = info}))->info, info);
  }
}

TEST(Utopia, AShortMessageIsOnePacket) {
  Bed bed(2, {.recovery = Recovery::none}, ProcessingMode::layered, 1);
  EXPECT_EQ(types_of(bed, 0, 1, 1400), std::vector{Type::request});
  EXPECT_EQ(bed.outcomes.received[1], 1);
  EXPECT_EQ(bed.outcomes.sent[1], 1);
}

// ---- What strangers, liars and the dead can do: each is counted under a name, and none makes anything grow ----

std::uint64_t counted(Bed& bed, std::size_t node, std::string_view name) { return count(bed[node].module(), name); }

RmppHeader data_of(std::uint32_t number, std::uint64_t total, std::uint32_t index) {
  RmppHeader header = request_of(number, total);
  header.type = Type::data;
  header.index = index;
  header.length = static_cast<std::uint16_t>(std::min<std::uint64_t>(total - 100 * index, 100));
  return header;
}

class RmppHostile : public ::testing::TestWithParam<ProcessingMode> {
 protected:
  RmppHostile() {
    bed.network.on_send = [this](const Packet& packet) { last = *RmppHeader::parse(packet.bytes); };
  }
  Bed bed{1, {.packet_bytes = 100, .peers_max = 3, .messages_max = 4, .message_bytes_max = 10'000}, GetParam(), 1};
  RmppHeader last;

  /// Node 0 sends node 1, which is us, a message; its request.
  RmppHeader sends(std::size_t size) {
    bed[0].send(Bed::address(1), 9, size);
    return last;
  }
  [[nodiscard]] static RmppHeader answer_to(RmppHeader header, Type type) {
    header.type = type;
    header.destination_incarnation = header.source_incarnation;
    header.source_incarnation = 77;
    header.index = 0;
    header.length = 0;
    return header;
  }
};

TEST_P(RmppHostile, StrangersGetNoState) {
  inject(bed, {.type = Type::end, .source_incarnation = 5, .packet_bytes = 100, .total_bytes = 1});
  inject(bed, data_of(1, 500, 2));
  EXPECT_EQ(counted(bed, 0, "strangers"), 2U);
  EXPECT_EQ(bed[0].module().peers(), 0U);
  for (std::size_t from = 1; from <= 10; ++from) {
    inject(bed, request_of(1, 500), from);
  }
  EXPECT_EQ(counted(bed, 0, "peers_refused"), 7U);
  EXPECT_EQ(bed[0].module().peers(), 3U);
  bed.run(400s);
  EXPECT_EQ(bed[0].module().peers(), 0U);
  EXPECT_EQ(counted(bed, 0, "collected"), 3U);
  EXPECT_EQ(bed.outcomes.lost, 3);
  EXPECT_EQ(bed[0].module().granted_packets(), 0U);
}

TEST_P(RmppHostile, AGarbledPacketIsCountedUnderItsName) {
  bed[0].provider().deliver({.from = Bed::address(1), .to = Bed::address(0), .bytes = {}, .sum = 0});
  bed[0].provider().deliver(
      {.from = Bed::address(1), .to = Bed::address(0), .bytes = std::vector<std::byte>(63), .sum = 0});
  EXPECT_EQ(counted(bed, 0, "short_header") + counted(bed, 0, "no_memory"), 2U);
  bed[0].provider().deliver(
      {.from = Bed::address(1), .to = Bed::address(0), .bytes = std::vector<std::byte>(64), .sum = 0});
  EXPECT_EQ(counted(bed, 0, "bad_version"), 1U);
}

TEST_P(RmppHostile, AReplayedMessageIsNotDeliveredAgain) {
  inject(bed, request_of(1, 50));
  inject(bed, request_of(2, 50));
  EXPECT_EQ(bed.outcomes.order, (std::vector<std::uint64_t>{1, 2}));
  inject(bed, request_of(2, 50));
  EXPECT_EQ(last.type, Type::end) << "the sender may not have heard it";
  inject(bed, request_of(1, 50));
  EXPECT_EQ(counted(bed, 0, "stale"), 1U);
  EXPECT_EQ(bed.outcomes.order.size(), 2U);
}

TEST_P(RmppHostile, APeersFormerProcessesStayGone) {
  inject(bed, request_of(1, 50, 100));
  inject(bed, request_of(1, 50, 101));
  inject(bed, request_of(2, 50, 100));
  EXPECT_EQ(counted(bed, 0, "stale"), 1U);
  EXPECT_EQ(bed.outcomes.order.size(), 2U);
}

TEST_P(RmppHostile, WhatIsMeantForAFormerProcessOfOursIsRefused) {
  RmppHeader header = request_of(1, 50);
  header.destination_incarnation = bed[0].module().incarnation() + 1;
  inject(bed, header);
  EXPECT_EQ(last.type, Type::refuse);
  EXPECT_EQ(bed.outcomes.order.size(), 0U);
}

TEST_P(RmppHostile, WhatFollowsAGapOrWasNotGrantedIsIgnored) {
  inject(bed, request_of(1, 3000));
  EXPECT_EQ(last.type, Type::clear);
  inject(bed, data_of(1, 3000, 2));   // a gap
  inject(bed, data_of(1, 3000, 20));  // beyond the grant
  EXPECT_EQ(counted(bed, 0, "out_of_order"), 2U);
  inject(bed, data_of(1, 3000, 1));
  inject(bed, data_of(1, 3000, 1));  // again
  EXPECT_EQ(counted(bed, 0, "out_of_order"), 3U);
  EXPECT_EQ(bed[0].user().payload_bytes, 200U);
}

TEST_P(RmppHostile, AMessageDoesNotChangeUnderWay) {
  inject(bed, request_of(1, 3000));
  RmppHeader longer = data_of(1, 3000, 1);
  longer.total_bytes = 4000;
  inject(bed, longer);
  RmppHeader other = request_of(1, 2000);
  other.attempt = 1;
  inject(bed, other);
  EXPECT_EQ(counted(bed, 0, "contradictions"), 2U);
}

TEST_P(RmppHostile, AMessageThatIsTooLongIsNotBegun) {
  inject(bed, request_of(1, 10'001));
  EXPECT_EQ(counted(bed, 0, "too_long"), 1U);
  EXPECT_EQ(bed[0].user().payload_bytes, 0U);
}

TEST_P(RmppHostile, GrantsThatDoNotFitSendNothing) {
  RmppHeader grant = answer_to(sends(3000), Type::clear);
  const std::uint64_t before = bed.network.sent;
  for (const auto& [index, bits] : {std::pair{2U, 1}, std::pair{1U, 5}, std::pair{0U, 1}}) {
    grant.index = index;
    grant.grant = static_cast<std::uint16_t>(bits);
    inject(bed, grant);
  }
  EXPECT_EQ(counted(bed, 0, "bad_grants"), 3U);
  grant.index = 28;
  grant.grant = 0xffff;
  inject(bed, grant);
  EXPECT_EQ(counted(bed, 0, "bad_grant"), 1U);
  EXPECT_EQ(bed.network.sent, before);
  grant.index = 1;
  grant.grant = 3;
  inject(bed, grant);
  EXPECT_EQ(bed.network.sent, before + 2);
  inject(bed, grant);
  EXPECT_EQ(bed.network.sent, before + 2) << "a duplicate";
}

TEST_P(RmppHostile, AMessageEndBeforeAllHasLeftIsALie) {
  const RmppHeader request = sends(3000);
  inject(bed, answer_to(request, Type::end));
  EXPECT_EQ(counted(bed, 0, "stray"), 1U);
  EXPECT_EQ(bed.outcomes.sent[9], 0);
}

TEST_P(RmppHostile, APeerThatGrantsNothingOrDiesLetsTheMessageFailInTheEnd) {
  for (const std::size_t size : {std::size_t{50}, std::size_t{3000}}) {
    Bed alone(1, {.packet_bytes = 100}, GetParam(), 2);
    alone[0].send(Bed::address(1), 9, size);
    alone[0].send(Bed::address(1), 10, size);
    alone.run(60s);
    EXPECT_EQ(alone.outcomes.failed[9], 1);
    EXPECT_EQ(alone.outcomes.failed[10], 1) << "the next one has its turn";
    EXPECT_EQ(count(alone[0].module(), "repeated"), 30U);
    alone.run(300s);
    EXPECT_EQ(alone[0].module().peers(), 0U);
    EXPECT_EQ(alone[0].set().pool().statistics().buffers_in_use, 0U);
  }
}

TEST_P(RmppHostile, APeerThatDiesAfterAGrantLetsTheMessageFailToo) {
  RmppHeader grant = answer_to(sends(3000), Type::clear);
  grant.index = 1;
  grant.grant = 0xffff;
  inject(bed, grant);
  bed.run(60s);
  EXPECT_EQ(bed.outcomes.failed[9], 1);
  EXPECT_EQ(last.type, Type::discard);
}

// The pool fails in every place, one after the other, once and for a while: rmpp delivers all the same, and everything
// is said once.
TEST_P(RmppHostile, ThePoolMayFailInAnyPlace) {
  for (const std::size_t length : {std::size_t{1}, std::size_t{12}}) {
    for (std::size_t first = 0, asked = first + 1; asked > first; ++first) {
      SCOPED_TRACE("allocations " + std::to_string(first) + " + " + std::to_string(length));
      Bed both(2, {.packet_bytes = 100}, GetParam(), 2);
      for (const std::size_t at : {std::size_t{0}, std::size_t{1}}) {
        both[at].send(Bed::address(1 - at), at + 1, 50);
        both[at].send(Bed::address(1 - at), at + 3, 2000);
      }
      both[0].send(Bed::address(2), 5, 50);  // to nobody
      asked = 0;
      const auto fails = [&asked, first, length] { return asked++ - first < length; };
      both[0].set().pool().fail_when(fails);
      both[1].set().pool().fail_when(fails);
      both.run(60s);
      EXPECT_EQ(both.outcomes.wrong, "");
      for (std::uint64_t tag = 1; tag <= 4; ++tag) {
        EXPECT_EQ(both.outcomes.sent[tag], 1) << tag;
        EXPECT_EQ(both.outcomes.received[tag], 1) << tag;
      }
      EXPECT_EQ(both.outcomes.failed[5], 1);
      ASSERT_FALSE(HasFailure());
    }
  }
}

TEST_P(RmppHostile, TheUserCannotMakeItKeepMoreEither) {
  for (int count = 0; count < 6; ++count) {
    bed[0].send(Bed::address(1), 1, 500);
  }
  bed[0].send(Bed::address(1), 1, 10'001);
  bed[0].send_bytes(Bed::address(1), std::vector<std::byte>(15));
  bed.step(false);
  EXPECT_EQ(counted(bed, 0, "requests_refused"), 4U);
  EXPECT_EQ(bed[0].user().errors, 4U);
  EXPECT_EQ(bed[0].module().messages_waiting(), 4U);
}

INSTANTIATE_TEST_SUITE_P(Modes, RmppHostile, ::testing::Values(ProcessingMode::layered, ProcessingMode::fused));

// ---- Packets that come together, and long silence ----

/// Keeps what is sent to node 1, and delivers all of it together.
std::vector<Packet> sent_by(Bed& bed, const std::function<void()>& act) {
  std::vector<Packet> packets;
  bed.network.on_send = [&](const Packet& packet) { packets.push_back(packet); };
  act();
  bed.network.on_send = nullptr;
  bed.network.flying.clear();
  return packets;
}

// A packet that is too short for a plan is verified when it comes, those in front of it when they are read.
TEST(Rmpp, AShortLastPacketMayComeTogetherWithLongOnesThatAreUnread) {
  for (const bool damaged : {false, true}) {
    Bed bed(2, {.packet_bytes = 8192}, ProcessingMode::fused, 1, {}, 4096);
    const auto answers_of = [&bed](std::size_t node, const std::vector<Packet>& packets) {
      return sent_by(bed, [&] {
        bed[node].provider().deliver_together(packets);
        bed.settle(bed[node]);
      });
    };
    const auto request = sent_by(bed, [&] { bed[0].send(Bed::address(1), 1, 3 * 8192 + 100); });
    auto data = answers_of(0, answers_of(1, request));
    ASSERT_EQ(data.size(), 3U);
    data[1].bytes.back() ^= static_cast<std::byte>(damaged);
    answers_of(1, data);
    EXPECT_EQ(bed.outcomes.received[1], damaged ? 0 : 1);
    EXPECT_EQ(counted(bed, 1, "out_of_order"), 0U);
    bed.run(5s);
    EXPECT_EQ(bed.outcomes.received[1], 1);
    EXPECT_EQ(bed.outcomes.wrong, "");
  }
}

TEST(Utopia, ShortMessagesThatComeTogetherComeAllAndInOrder) {
  for (const ProcessingMode mode : modes) {
    Bed bed(2, {.recovery = Recovery::none}, mode, 1);
    const std::vector<Packet> packets = sent_by(bed, [&] {
      for (std::uint64_t tag = 1; tag <= 5; ++tag) {
        bed[0].send(Bed::address(1), tag, tag * 100);
      }
    });
    ASSERT_EQ(packets.size(), 5U);
    bed[1].provider().deliver_together(packets);
    bed.run(1s);
    EXPECT_EQ(bed.outcomes.order, (std::vector<std::uint64_t>{1, 2, 3, 4, 5}));
    EXPECT_EQ(bed.outcomes.lost, 0);
    EXPECT_EQ(bed.outcomes.wrong, "");
  }
}

TEST(Utopia, AMessageIsLostBehindItsPayloadAndBeforeTheNext) {
  for (const ProcessingMode mode : modes) {
    Bed bed(2, {.recovery = Recovery::none, .dead_time = 1s}, mode, 1);
    std::vector<Packet> packets = sent_by(bed, [&] { bed[0].send(Bed::address(1), 1, 2000); });
    bed.run(5s);  // nobody grants it more: it fails
    EXPECT_EQ(bed.outcomes.failed[1], 1);
    const std::vector<Packet> next = sent_by(bed, [&] { bed[0].send(Bed::address(1), 2, 7); });
    packets.insert(packets.end(), next.begin(), next.end());
    bed[1].provider().deliver_together(packets);
    std::vector<Indication::Kind> kinds;
    while (const Message message = bed[1].user().read_queue().dequeue()) {
      std::array<std::byte, Indication::size> front;
      ASSERT_TRUE(message.copy_data_to(0, front));
      kinds.push_back(Indication::load(front.data())->kind);
    }
    EXPECT_EQ(kinds, (std::vector{Indication::Kind::payload, Indication::Kind::lost, Indication::Kind::payload,
                                  Indication::Kind::received}));
  }
}

// Without memory for what is to be said of a message, nothing of the next goes up before it.
TEST(Utopia, NoMessageOvertakesTheEndOfOneThatWaitsForMemory) {
  for (const ProcessingMode mode : modes) {
    for (std::size_t first = 0, asked = first + 1; asked > first; ++first) {
      Bed bed(2, {.recovery = Recovery::none}, mode, 1);
      const std::vector<Packet> packets = sent_by(bed, [&] {
        for (std::uint64_t tag = 1; tag <= 4; ++tag) {
          bed[0].send(Bed::address(1), tag, tag * 100);
        }
      });
      asked = 0;
      bed[1].set().pool().fail_when([&asked, first] { return asked++ == first; });
      bed[1].provider().deliver_together(packets);
      bed[1].set().scheduler().poll(bed.now());
      std::vector<std::uint64_t> open;
      std::size_t ended = 0;
      while (const Message message = bed[1].user().read_queue().dequeue()) {
        std::array<std::byte, Indication::size> front;
        ASSERT_TRUE(message.copy_data_to(0, front));
        const Indication said = *Indication::load(front.data());
        if (said.kind == Indication::Kind::payload) {
          EXPECT_TRUE(open.empty()) << "allocation " << first << ": " << said.tag << " before the end of " << open[0];
          open.push_back(said.tag);
        } else {
          EXPECT_EQ(open, std::vector{said.tag}) << "allocation " << first;
          open.clear();
          ++ended;
        }
      }
      EXPECT_GE(ended, 1U);
      ASSERT_FALSE(HasFailure());
    }
  }
}

// Of a node that never answers, as utopia's, the state goes while its own of us stays: what we send then is new to it.
TEST(Utopia, ASenderThatHasForgottenItsReceiverGoesOnWithLaterNumbers) {
  for (const Recovery recovery : {Recovery::none, Recovery::message}) {
    Bed bed(2, {.recovery = recovery, .dead_time = 8s}, ProcessingMode::layered, 1);
    for (std::uint64_t tag = 1; tag <= 30; ++tag) {
      bed[0].send(Bed::address(1), tag, 10);
      bed.run(1s);
    }
    bed.run(8500ms);
    bed[0].send(Bed::address(1), 31, 10);
    bed.run(5s);
    EXPECT_EQ(bed.outcomes.order.size(), 31U);
    EXPECT_EQ(bed.outcomes.lost, 0);
  }
}

// ---- Memory that is lent until it is released ----

TEST(Rmpp, ExternalMemoryIsShownByReferenceAndReleasedWhenTheReceiverHasIt) {
  Bed bed(2, {.packet_bytes = 100}, ProcessingMode::layered, 1);
  std::vector<std::byte> bytes(1000);
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    bytes[at] = byte_of(3, at);
  }
  static int released;
  released = 0;
  const auto release = [](void*, ConstBytes) { ++released; };
  Node& node = bed[0];
  std::array<std::byte, Request::size> front;
  Request{.tag = 3, .handle = 3}.store(front.data());
  Message message = Message::of_native(node.set().pool(), DataUnit{.kind = DataUnit::Kind::transport_request,
                                                                   .peer = Bed::address(1).address,
                                                                   .peer_port = Bed::address(1).port});
  message.link(Message::copy_of(node.set().pool(), front));
  message.link(Message(node.set().pool().allocate_external(bytes, true, release, nullptr)));
  SLUICE_REQUIRE(message.data_size() >= Request::size);
  node.user().write_queue().put_next(std::move(message));
  EXPECT_EQ(released, 0);
  bed.run(5s);
  EXPECT_EQ(released, 1);
  EXPECT_EQ(bed.outcomes.received[3], 1);
}

// ---- Both paths do the same ----
// But for damaged packets: a duplicate of one is taken on a layered path, where the first was dropped before this
// module; on a fused path the first has gone up by then, so the duplicate is none (message_protocol.h).

TEST(Rmpp, LayeredAndFusedSendTheSamePacketsAndCountTheSame) {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    std::array<std::vector<std::vector<std::byte>>, 2> packets;
    std::array<std::vector<std::uint64_t>, 2> counters;
    std::size_t world = 0;
    for (const ProcessingMode mode : modes) {
      Bed bed(2, {.recovery = static_cast<Recovery>(seed % 3), .packet_bytes = 200}, mode, seed,
              {.loss = 0.05, .duplicate = 0.05});
      bed.network.on_send = [&](const Packet& packet) { packets[world].push_back(packet.bytes); };
      for (std::uint64_t tag = 1; tag <= 8; ++tag) {
        bed[tag % 2].send(Bed::address(1 - tag % 2), tag, seed * tag * 37 % 6000);
      }
      bed.run(20s);
      for (std::size_t node = 0; node < 2; ++node) {
        for (const Counter* counter : bed[node].module().counters()) {
          counters[world].push_back(counter->value());
        }
      }
      ++world;
    }
    EXPECT_TRUE(packets[0] == packets[1]) << "packets differ, seed " << seed;
    EXPECT_EQ(counters[0], counters[1]) << "seed " << seed;
  }
}

}  // namespace
}  // namespace sluice::test::messages
