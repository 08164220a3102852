// SPDX-License-Identifier: Apache-2.0
// What the module xtp does, one thing at a time, over a network that loses what a test chooses.
#include "stack/modules/xtp.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <set>

#include "tests/stack/modules/xtp_bed.h"

namespace sluice::test::associations {
namespace {

using namespace std::chrono_literals;
using wire::XtpControl;
using wire::XtpDiagnosis;
using wire::XtpFirst;
using wire::XtpHeader;

struct SentPacket {
  std::size_t node = 0;
  TimePoint at{};
  XtpHeader header;
  XtpControl control;
};

class XtpTest : public testing::Test {
 protected:
  static xtp::Options small() { return {.packet_bytes = 100}; }

  XtpBed& make(const xtp::Options& listener, const xtp::Options& caller, ProcessingMode mode = ProcessingMode::fused,
               std::size_t pool_bytes_max = BufferPool::bytes_max_default) {
    bed_ = std::make_unique<XtpBed>(std::array{listener, caller}, mode, 1, Weather{}, false, pool_bytes_max);
    bed_->network.on_send = [this](const Packet& packet) {
      const auto header = XtpHeader::parse(packet.bytes, packet.bytes.size());
      ASSERT_TRUE(header);
      SentPacket sent{
          .node = packet.from == XtpBed::address(0) ? 0U : 1U, .at = bed_->now(), .header = *header, .control = {}};
      if (header->is_control()) {
        sent.control = XtpControl::parse(ConstBytes(packet.bytes).subspan(XtpHeader::size), header->type).value();
      }
      packets.push_back(sent);
    };
    for (std::size_t at = 0; at < 2; ++at) {
      (*bed_)[at].user().releases = false;
    }
    return *bed_;
  }
  XtpBed& connected(const xtp::Options& listener, const xtp::Options& caller,
                    ProcessingMode mode = ProcessingMode::fused) {
    XtpBed& bed = make(listener, caller, mode);
    bed.connect();
    bed.run(10ms);
    EXPECT_TRUE(bed[0].user().connected && bed[1].user().connected);
    packets.clear();
    return bed;
  }
  /// Node 1 sends so many bytes as one message, which node 0 is to get.
  static void transfer(XtpBed& bed, std::uint64_t bytes) {
    const Plan plan{.pattern = 5, .ends = {bytes}};
    bed[0].user().expects = plan;
    bed[1].user().sends = plan;
    bed[1].user().run(0);
  }
  /// The first data packet of each of these numbers, from 0, is lost once.
  static void lose(XtpBed& bed, const std::set<std::uint64_t>& numbers) {
    bed.loses = [numbers, seen = std::uint64_t{0}](const Packet& packet) mutable {
      const auto header = XtpHeader::parse(packet.bytes, packet.bytes.size());
      return header && header->type == XtpHeader::Type::data && numbers.contains(seen++);
    };
  }
  [[nodiscard]] std::size_t count_sent(std::size_t node, XtpHeader::Type type, std::uint32_t option = 0) const {
    return static_cast<std::size_t>(std::ranges::count_if(packets, [&](const SentPacket& one) {
      return one.node == node && one.header.type == type && (option == 0 || one.header.has(option));
    }));
  }
  static std::uint64_t counted(XtpBed& bed, std::size_t node, std::string_view name) {
    return count(bed[node].module(), name);
  }
  /// A packet of anybody's, with a checksum that holds.
  static Packet packet(const XtpHeader& header, ConstBytes segment, std::size_t from = 1) {
    return packet(packet_of(header, segment), from);
  }
  static Packet packet(std::vector<std::byte> bytes, std::size_t from = 1) {
    return {.from = XtpBed::address(from), .to = XtpBed::address(0), .bytes = std::move(bytes), .sum = 0};
  }
  static Packet first_packet(std::uint64_t key, std::size_t from = 1) { return packet(first_of(key), from); }
  static Packet control_packet(const XtpHeader& header, const XtpControl& control, std::size_t from = 1) {
    return packet(packet_of(header, control), from);
  }
  /// The key by which node 0 is called, and the last sequence number and sync that it has sent.
  [[nodiscard]] SentPacket last_of(std::size_t node) const {
    SentPacket last;
    for (const SentPacket& one : packets) {
      last = one.node == node ? one : last;
    }
    return last;
  }

  std::vector<SentPacket> packets;

 private:
  std::unique_ptr<XtpBed> bed_;
};

// ---- Packets ----

/// Wherever the user's pieces or the peer's allocation end: so the sums that were made of whole packets hold.
TEST_F(XtpTest, PacketsOfAMessageEndWhereWholeOnesWould) {
  xtp::Options receiving = small();
  receiving.receive_buffer_bytes = 4250;
  XtpBed& bed = connected(receiving, small());
  bed[0].user().read_queue().set_marks({.high_bytes = 1000, .low_bytes = 1});
  std::string sent;
  const auto send = [&](std::size_t size, bool more) {
    bed[1].user().send(std::string(size, static_cast<char>('a' + sent.size() % 26)), more);
    sent += std::string(size, static_cast<char>('a' + sent.size() % 26));
  };
  for (const std::size_t message_size : {12'345U, 7U, 200U, 20'600U}) {
    packets.clear();
    sent.clear();
    for (std::size_t left = message_size; left > 0;) {
      const std::size_t size = std::min<std::size_t>(left, 1030);
      left -= size;
      send(size, left > 0);
    }
    bed.run(1s);
    ASSERT_FALSE(bed[0].user().got.empty());
    EXPECT_EQ(bed[0].user().got.back(), sent);
    std::optional<std::uint64_t> begin;
    std::size_t cut = 0;
    for (const SentPacket& one : packets) {
      if (one.node == 1 && one.header.type == XtpHeader::Type::data) {
        begin = begin.value_or(one.header.sequence);
        const std::uint64_t from = one.header.sequence - *begin;
        EXPECT_EQ(from / 100, (from + one.header.length - 1) / 100) << "at " << from;
        cut += one.header.length < 100 ? 1 : 0;
      }
    }
    EXPECT_TRUE(message_size < 1030 || cut > 1) << "no piece ended within a packet";
  }
}

// ---- Status and recovery ----

TEST_F(XtpTest, OneMessageIsOnePacketAndOneStatus) {
  XtpBed& bed = connected(small(), small());
  bed[1].user().send("hello");
  bed.run(10ms);
  EXPECT_EQ(bed[0].user().got, std::vector<std::string>{"hello"});
  ASSERT_EQ(packets.size(), 2U);
  EXPECT_EQ(packets[0].header.type, XtpHeader::Type::data);
  EXPECT_TRUE(packets[0].header.has(XtpHeader::status_now));
  EXPECT_TRUE(packets[0].header.has(XtpHeader::end_of_message));
  EXPECT_EQ(packets[1].header.type, XtpHeader::Type::cntl);
  EXPECT_EQ(packets[1].control.echo, packets[0].header.sync);
  EXPECT_EQ(packets[1].control.received, packets[0].header.sequence + 5);
  EXPECT_FALSE(bed[1].module().holds_data());
}

TEST_F(XtpTest, AStatusIsAskedForAfterSoManyPackets) {
  xtp::Options options = small();
  options.status_packets = 5;
  XtpBed& bed = connected(small(), options);
  transfer(bed, 1900);
  bed.run(100ms);
  EXPECT_EQ(bed[0].user().received, 1900U);
  EXPECT_LE(count_sent(1, XtpHeader::Type::data, XtpHeader::status_now), 10U);
  EXPECT_GE(count_sent(1, XtpHeader::Type::data, XtpHeader::status_now), 4U);
}

TEST_F(XtpTest, OnlyWhatLacksIsSentAgain) {
  XtpBed& bed = connected(small(), small());
  lose(bed, {3, 4, 9});
  transfer(bed, 3000);
  bed.run(15ms);
  EXPECT_EQ(bed[0].user().received, 3000U);
  EXPECT_EQ(bed[0].user().wrong, "");
  EXPECT_EQ(counted(bed, 1, "data_again"), 3U);
  EXPECT_EQ(counted(bed, 1, "timeouts"), 0U);
  EXPECT_EQ(counted(bed, 0, "duplicates"), 0U);
  EXPECT_GE(count_sent(0, XtpHeader::Type::ecntl), 2U);
}

TEST_F(XtpTest, GoBackNSendsWhatFollowsAgain) {
  xtp::Options options = small();
  options.selective = false;
  XtpBed& bed = connected(options, small());
  lose(bed, {3});
  transfer(bed, 3000);
  bed.run(100ms);
  EXPECT_EQ(bed[0].user().received, 3000U);
  EXPECT_EQ(bed[0].user().wrong, "");
  EXPECT_GT(counted(bed, 0, "behind_gaps"), 3U);
  EXPECT_GT(counted(bed, 1, "data_again"), 3U);
  EXPECT_EQ(count_sent(0, XtpHeader::Type::ecntl), 0U);
}

/// FASTNAK tells of a gap when it opens, beside what a status tells.
TEST_F(XtpTest, FastNakTellsAtOnce) {
  std::array<std::size_t, 2> told{};
  for (const bool fast : {false, true}) {
    xtp::Options options = small();
    options.fast_nak = fast;
    options.status_packets = 1000;
    XtpBed& bed = connected(small(), options);
    lose(bed, {3});
    transfer(bed, 3000);
    bed.run(100ms);
    EXPECT_EQ(bed[0].user().received, 3000U);
    EXPECT_EQ(counted(bed, 1, "data_again"), 1U);
    told[fast ? 1 : 0] = count_sent(0, XtpHeader::Type::ecntl);
  }
  EXPECT_EQ(told[1], told[0] + 1);
}

/// WTIMER asks, and does not send again what may have come.
TEST_F(XtpTest, WhenTheLastPacketIsLostTheTimerAsksFirst) {
  XtpBed& bed = connected(small(), small());
  bed[1].user().send("first");
  bed.run(10ms);
  lose(bed, {0});
  packets.clear();
  bed[1].user().send("lost");
  bed.run(19ms);
  EXPECT_EQ(packets.size(), 1U);
  bed.run(5ms);
  ASSERT_GE(packets.size(), 4U);
  EXPECT_EQ(packets[1].header.type, XtpHeader::Type::cntl);
  EXPECT_TRUE(packets[1].header.has(XtpHeader::status_now));
  EXPECT_EQ(packets[2].node, 0U);
  EXPECT_EQ(packets[3].header.type, XtpHeader::Type::data);
  EXPECT_EQ(bed[0].user().got.back(), "lost");
  EXPECT_EQ(counted(bed, 1, "timeouts"), 1U);
}

TEST_F(XtpTest, WithoutErrorControlNothingIsSentAgain) {
  xtp::Options options = small();
  options.error_control = false;
  XtpBed& bed = connected(options, options);
  lose(bed, {1, 2});
  for (const char* text : {"one", "two", "three", "four"}) {
    bed[1].user().send(text);
  }
  bed.run(100ms);
  EXPECT_EQ(bed[0].user().got, (std::vector<std::string>{"one", "four"}));
  EXPECT_EQ(counted(bed, 1, "data_again"), 0U);
  EXPECT_EQ(counted(bed, 0, "skipped_bytes"), 8U);
  EXPECT_FALSE(bed[1].module().holds_data());
  // The end comes whether or not the data has.
  lose(bed, {0});
  bed[1].user().send("five");
  bed[1].user().released = true;
  bed[1].user().down(tpi::OrdrelReq{});
  bed.run(100ms);
  EXPECT_TRUE(bed[0].user().peer_released);
}

// ---- Flow and rate ----

/// The sender stops where the allocation ends, and goes on when the user reads (DREQ), without a timer.
TEST_F(XtpTest, TheAllocationIsHeededAndFollowsTheReader) {
  xtp::Options options = small();
  options.receive_buffer_bytes = 4096;
  for (const bool heeded : {true, false}) {
    xtp::Options caller = small();
    caller.flow_control = heeded;
    XtpBed& bed = connected(options, caller);
    const Plan plan{.pattern = 5, .ends = {30'000}};
    bed[0].user().expects = plan;
    bed[0].user().read_queue().set_marks({.high_bytes = 500, .low_bytes = 100});
    std::uint64_t allocated = UINT64_MAX;
    bed[1].user().sends = plan;
    bed[1].user().run(0);
    // Nobody reads at node 0.
    for (int i = 0; i < 500 && !bed.network.flying.empty(); ++i) {
      bed.deliver(bed.network.flying.extract(bed.network.flying.begin()).mapped());
      bed[0].set().scheduler().poll(bed.now());
      bed[1].set().scheduler().poll(bed.now());
    }
    std::uint64_t sent_to = 0;
    for (const SentPacket& one : packets) {
      if (one.node == 0) {
        allocated = one.control.allocated;
      } else if (one.header.type == XtpHeader::Type::data) {
        sent_to = std::max(sent_to, one.header.sequence + one.header.length);
      }
    }
    ASSERT_NE(allocated, UINT64_MAX);
    EXPECT_EQ(sent_to <= allocated, heeded);
    EXPECT_EQ(counted(bed, 0, "beyond") == 0, heeded);
    if (heeded) {
      EXPECT_GE(count_sent(1, XtpHeader::Type::data, XtpHeader::status_on_read), 1U);
    }
    bed.run(heeded ? 15ms : 10s);
    EXPECT_EQ(bed[0].user().received, 30'000U);
    EXPECT_EQ(bed[0].user().wrong, "");
    EXPECT_TRUE(!heeded || counted(bed, 1, "timeouts") == 0);
  }
}

TEST_F(XtpTest, ARateAndABurstAreKept) {
  for (const bool asked_by_peer : {false, true}) {
    xtp::Options mine = small();
    xtp::Options peers = small();
    (asked_by_peer ? peers.in_rate : mine.rate) = 100'000;
    (asked_by_peer ? peers.in_burst : mine.burst) = 1000;
    XtpBed& bed = connected(peers, mine);
    transfer(bed, 20'000);
    bed.run(1s);
    EXPECT_EQ(bed[0].user().received, 20'000U);
    std::uint64_t sent_before = 0;
    TimePoint begun{};
    for (const SentPacket& one : packets) {
      if (one.node == 1 && one.header.type == XtpHeader::Type::data) {
        begun = sent_before == 0 ? one.at : begun;
        sent_before += one.header.length;
        const auto bursts = static_cast<std::uint64_t>((one.at - begun) / 10ms) + 1;
        EXPECT_LE(sent_before, bursts * 1000);
        EXPECT_GE(sent_before + 1000, bursts * 1000) << "slower than the rate";
      }
    }
  }
}

TEST_F(XtpTest, ThePeerSaysHowLargePacketsMayBe) {
  xtp::Options large = small();
  large.packet_bytes = 1000;
  XtpBed& bed = connected(small(), large);
  transfer(bed, 3000);
  bed.run(100ms);
  EXPECT_EQ(bed[0].user().received, 3000U);
  for (const SentPacket& one : packets) {
    EXPECT_TRUE(one.header.type != XtpHeader::Type::data || one.header.length <= 100);
  }
}

// ---- Calls ----

TEST_F(XtpTest, ACallIsIndicatedOnceAndMayBeConsideredForLong) {
  XtpBed& bed = make(small(), small());
  bed[0].user().accepts = false;
  bed.connect();
  bed.run(300s);
  ASSERT_EQ(bed[0].user().outstanding.size(), 1U);
  EXPECT_EQ(counted(bed, 0, "indicated"), 1U);
  EXPECT_TRUE(bed[1].user().disconnections.empty());
  bed[0].user().accept(bed[0].user().outstanding.front());
  bed.run(10ms);
  EXPECT_TRUE(bed[1].user().connected);
  EXPECT_EQ(bed[1].user().responder, XtpBed::address(0));
  // A FIRST that comes late opens nothing.
  bed.run(10s);
  EXPECT_EQ(counted(bed, 0, "indicated"), 1U);
}

TEST_F(XtpTest, NobodyAnswers) {
  XtpBed& bed = make(small(), small());
  bed.loses = [](const Packet&) { return true; };
  bed.connect();
  bed.run(200s);
  EXPECT_EQ(bed[1].user().disconnections, std::vector<std::int32_t>{ETIMEDOUT});
  EXPECT_EQ(count_sent(1, XtpHeader::Type::first), 11U);
  EXPECT_EQ(bed[1].set().scheduler().next_deadline(), never);
}

TEST_F(XtpTest, RefusedRejectedAndWithdrawn) {
  XtpBed& bed = make(small(), small());
  bed[0].user().accepts = false;
  bed[0].user().bind(0);
  bed[1].user().bind(0);
  bed[1].user().call(XtpBed::address(0));
  bed.run(10ms);
  EXPECT_EQ(bed[1].user().disconnections, std::vector<std::int32_t>{ECONNREFUSED});
  bed[0].user().down(tpi::UnbindReq{});
  bed[0].user().bind(1);
  bed[1].user().call(XtpBed::address(0));
  bed.run(10ms);
  ASSERT_EQ(bed[0].user().outstanding.size(), 1U);
  bed[0].user().down(tpi::DisconReq{.sequence = std::exchange(bed[0].user().outstanding, {}).front()});
  bed.run(10ms);
  EXPECT_EQ(bed[1].user().disconnections.size(), 2U);
  EXPECT_EQ(counted(bed, 0, "rejected"), 1U);
  bed[1].user().call(XtpBed::address(0));
  bed.run(10ms);
  ASSERT_EQ(bed[0].user().outstanding.size(), 1U);
  bed[1].user().down(tpi::DisconReq{});
  bed.run(10ms);
  EXPECT_EQ(bed[0].user().withdrawals.size(), 1U);
  EXPECT_EQ(bed[0].module().callers(), 0U);
  EXPECT_EQ(counted(bed, 0, "withdrawn"), 1U);
}

TEST_F(XtpTest, CallersAreBounded) {
  XtpBed& bed = make(small(), small());
  bed[0].user().accepts = false;
  bed[0].user().bind(4);
  for (std::uint64_t key = 1; key <= 100; ++key) {
    bed.deliver(first_packet(key));
    bed.deliver(first_packet(key));
    bed.step(false);
  }
  EXPECT_EQ(bed[0].user().outstanding.size(), 4U);
  EXPECT_EQ(bed[0].module().callers(), 4U);
  EXPECT_EQ(counted(bed, 0, "callers_dropped"), 192U);
}

/// A FIRST that comes again after its answer; of so many answers, the last ones are remembered.
TEST_F(XtpTest, ARejectedCallThatComesAgainIsRefusedAgainAndTheOldestAreForgotten) {
  XtpBed& bed = make(small(), small());
  bed.loses = [](const Packet&) { return true; };  // the peer is we
  bed[0].user().accepts = false;
  bed[0].user().bind(1);
  const auto calls = [&bed](std::uint64_t key) {
    bed.deliver(first_packet(key));
    bed.step(false);
  };
  constexpr std::uint64_t all = Xtp::answered_calls_max + 1;
  for (std::uint64_t key = 1; key <= all; ++key) {
    calls(key);
    ASSERT_EQ(bed[0].user().outstanding.size(), 1U);
    bed[0].user().down(tpi::DisconReq{.sequence = std::exchange(bed[0].user().outstanding, {}).front()});
    bed.step(false);
  }
  EXPECT_EQ(counted(bed, 0, "diagnoses_sent"), all);
  for (std::uint64_t key = 2; key <= all; ++key) {
    calls(key);
  }
  EXPECT_EQ(counted(bed, 0, "diagnoses_sent"), 2 * all - 1);
  EXPECT_EQ(counted(bed, 0, "indicated"), all);
  calls(1);
  EXPECT_EQ(counted(bed, 0, "indicated"), all + 1);
}

TEST_F(XtpTest, WhatTheProviderBelowRefusesIsRefused) {
  XtpBed& bed = make(small(), small());
  bed[0].provider().refusal = tpi::TADDRBUSY;
  bed[0].user().bind(0);
  bed.run(1ms);
  EXPECT_EQ(bed[0].user().errors, std::vector<std::int32_t>{tpi::TADDRBUSY});
  bed[0].provider().refusal = 0;
  bed[0].user().bind(0);
  bed[0].user().call(XtpBed::address(0));
  bed.run(1ms);
  EXPECT_EQ(bed[0].user().errors.size(), 1U);
}

// ---- The end ----

TEST_F(XtpTest, BothReleasesLeaveNothing) {
  XtpBed& bed = connected(small(), small());
  for (const std::size_t at : {1U, 0U}) {
    bed[at].user().released = true;
    bed[at].user().down(tpi::OrdrelReq{});
    bed.run(10ms);
    EXPECT_TRUE(bed[1 - at].user().peer_released);
  }
  bed.run(10ms);
  EXPECT_EQ(bed[0].module().lingering() + bed[1].module().lingering(), 0U);
  bed[0].user().down(tpi::UnbindReq{});
  bed.run(1ms);
  EXPECT_TRUE(bed[0].user().errors.empty());
}

/// The last packets of both are lost: who is over answers, and is gone after a while.
TEST_F(XtpTest, AnAssociationThatIsOverStillAnswers) {
  XtpBed& bed = connected(small(), small());
  bed[1].user().released = bed[0].user().released = true;
  bed[1].user().down(tpi::OrdrelReq{});
  bed.run(10ms);
  bed.loses = [](const Packet& lost) {
    const auto header = XtpHeader::parse(lost.bytes, lost.bytes.size());
    return header && header->has(XtpHeader::end);
  };
  bed[0].user().down(tpi::OrdrelReq{});
  bed.run(1s);
  EXPECT_EQ(bed[1].module().lingering(), 1U);
  EXPECT_EQ(bed[0].module().lingering(), 1U);
  bed.loses = nullptr;
  bed.run(60s);
  EXPECT_EQ(bed[0].module().lingering() + bed[1].module().lingering(), 0U);
  EXPECT_TRUE(bed[0].user().disconnections.empty() && bed[1].user().disconnections.empty());
}

TEST_F(XtpTest, ADisconnectionIsAReset) {
  XtpBed& bed = connected(small(), small());
  bed[1].user().send("what is this");
  bed[1].user().down(tpi::DisconReq{});
  bed.run(10ms);
  EXPECT_EQ(bed[0].user().disconnections, std::vector<std::int32_t>{ECONNRESET});
  EXPECT_EQ(counted(bed, 0, "resets"), 1U);
  EXPECT_EQ(counted(bed, 1, "aborted"), 1U);
}

TEST_F(XtpTest, WhatHasFoundNoRoomBeforeTheEndIsUnsent) {
  xtp::Options options = small();
  options.send_buffer_bytes = 4096;
  XtpBed& bed = connected(small(), options);
  bed.loses = [](const Packet&) { return true; };
  transfer(bed, 30'000);
  const std::size_t waiting = bed[1].module().write_queue().messages();
  EXPECT_GT(waiting, 0U);
  bed[1].user().down(tpi::DisconReq{});
  EXPECT_EQ(counted(bed, 1, "unsent"), waiting);
  EXPECT_EQ(bed[1].module().write_queue().messages(), 0U);
}

TEST_F(XtpTest, AStreamThatClosesTellsThePeer) {
  XtpBed& bed = connected(small(), small());
  bed[1].close();
  bed.run(10ms);
  EXPECT_EQ(bed[0].user().disconnections, std::vector<std::int32_t>{ECONNRESET});
}

/// CTIMER: a peer that is idle is asked, and lives; one that has gone is found out.
TEST_F(XtpTest, AnIdlePeerIsAskedNowAndThen) {
  xtp::Options options = small();
  options.ctimer = 1s;
  XtpBed& bed = connected(small(), options);
  bed.run(10s);
  EXPECT_TRUE(bed[1].user().connected);
  EXPECT_GE(count_sent(1, XtpHeader::Type::cntl, XtpHeader::status_now), 5U);
  EXPECT_LE(packets.size(), 30U);
  bed.loses = [](const Packet&) { return true; };
  bed.run(60s);
  EXPECT_EQ(bed[1].user().disconnections, std::vector<std::int32_t>{ETIMEDOUT});
}

TEST_F(XtpTest, ErrorsOfTheProviderBelow) {
  XtpBed& bed = connected(small(), small());
  const auto report = [&](std::int32_t error) {
    bed[1].provider().read_queue().put_next(
        Message::of_native(bed[1].set().pool(), wire::DataUnit{.kind = wire::DataUnit::Kind::transport_error,
                                                               .peer = XtpBed::address(0).address,
                                                               .peer_port = XtpBed::address(0).port,
                                                               .error = error}));
    bed.run(1ms);
  };
  report(ECONNREFUSED);
  report(ENOBUFS);
  EXPECT_TRUE(bed[1].user().connected);
  EXPECT_EQ(counted(bed, 1, "errors"), 2U);
  report(EMSGSIZE);
  EXPECT_EQ(bed[1].user().disconnections, std::vector<std::int32_t>{EMSGSIZE});
  bed.loses = [](const Packet&) { return true; };
  bed[1].user().call(XtpBed::address(0));
  bed.run(1ms);
  report(ECONNREFUSED);
  EXPECT_EQ(bed[1].user().disconnections.back(), ECONNREFUSED);
}

// ---- Bad packets ----

TEST_F(XtpTest, EveryMalformedPacketIsCountedUnderItsName) {
  XtpBed& bed = make(small(), small());
  bed[0].user().bind(1);
  const auto counted_now = [&](std::string_view name) { return counted(bed, 0, name); };
  const auto deliver = [&](Packet bad, std::string_view name) {
    store_checksum(bad.bytes.data() + XtpHeader::checksum_offset, 0);
    store_checksum(bad.bytes.data() + XtpHeader::checksum_offset, checksum_of(header_sum(bad.bytes)));
    bed.deliver(bad);
    bed.step(false);
    EXPECT_EQ(counted_now(name), 1U) << name;
  };
  const XtpHeader cntl{.key = 5 | XtpHeader::return_key, .type = XtpHeader::Type::cntl};
  const XtpHeader ecntl{.key = 5 | XtpHeader::return_key, .type = XtpHeader::Type::ecntl};
  XtpControl control;
  control.received = 10;
  control.allocated = 20;
  Packet bad = first_packet(5);
  bad.bytes.resize(31);
  bad.sum = header_sum(bad.bytes);
  bed.deliver(bad);
  EXPECT_EQ(counted_now("short_header"), 1U);
  bad = first_packet(5);
  bad.bytes[40] ^= std::byte{4};
  bed.deliver(bad);
  EXPECT_EQ(counted_now("bad_checksum"), 1U);
  bad = first_packet(5);
  bad.bytes[11] = std::byte{0x42};
  deliver(bad, "bad_version");
  bad = first_packet(5);
  bad.bytes[11] = std::byte{0x26};
  deliver(bad, "bad_type");
  bad = first_packet(5);
  bad.bytes[10] = std::byte{1};
  deliver(bad, "bad_options");
  bad = first_packet(5);
  bad.bytes[15] ^= std::byte{1};
  deliver(bad, "bad_length");
  deliver(first_packet(0), "bad_key");
  bad = control_packet(cntl, control);
  std::ranges::swap_ranges(std::span(bad.bytes).subspan(32, 8), std::span(bad.bytes).subspan(40, 8));
  deliver(bad, "bad_sequence");
  deliver(packet(cntl, std::vector<std::byte>(21)), "bad_segment");
  deliver(packet(ecntl, std::vector<std::byte>(24 + 65 * 16)), "bad_spans");
  bad = first_packet(5);
  bad.bytes[35] = std::byte{9};
  deliver(bad, "bad_address");
  bad = first_packet(5);
  bad.bytes[51] = std::byte{9};
  bad.bytes[bad.bytes.size() - XtpFirst::size_max / 40 * 21] = std::byte{9};
  deliver(bad, "bad_traffic");
  EXPECT_TRUE(bed[0].user().outstanding.empty());
  EXPECT_TRUE(packets.empty());
}

/// NOCHECK leaves the data to whoever is below.
TEST_F(XtpTest, TheChecksumCoversDataUnlessItIsNotWanted) {
  for (const bool covered : {true, false}) {
    xtp::Options options = small();
    options.checksum = covered;
    XtpBed& bed = connected(small(), options);
    bool damaged = false;
    bed.loses = [&](const Packet& passing) {
      if (damaged || passing.bytes.size() != XtpHeader::size + 5) {
        return false;
      }
      damaged = true;
      Packet copy = passing;
      copy.bytes.back() ^= std::byte{1};
      bed.deliver(copy);
      return true;
    };
    bed[1].user().send("hello");
    bed.run(1s);
    ASSERT_TRUE(damaged);
    EXPECT_EQ(bed[0].user().got, std::vector<std::string>{covered ? "hello" : "helln"});
    EXPECT_EQ(counted(bed, 0, "bad_checksum"), covered ? 1U : 0U);
  }
}

TEST_F(XtpTest, WhoDoesNotKnowTheKeyChangesNothing) {
  XtpBed& bed = connected(small(), small());
  bed[1].user().send("hello");
  bed.run(10ms);
  const std::uint64_t key = last_of(1).header.key;  // of node 0
  const XtpHeader end{.key = key, .options = XtpHeader::end, .type = XtpHeader::Type::cntl};
  XtpControl nothing;
  packets.clear();
  // From elsewhere, with the key.
  bed.deliver(control_packet(end, nothing, 3));
  EXPECT_EQ(counted(bed, 0, "strangers"), 1U);
  // From there, without it. It is told that there is no such association, in less than it sent.
  XtpHeader other = end;
  other.key ^= 2;
  other.options = XtpHeader::status_now;
  const Packet guess = control_packet(other, nothing);
  bed.deliver(guess);
  bed.run(1ms);
  EXPECT_EQ(counted(bed, 0, "no_association"), 1U);
  EXPECT_EQ(counted(bed, 0, "diagnoses_sent"), 1U);
  EXPECT_LT(XtpHeader::size + XtpDiagnosis::size, guess.bytes.size());
  // What ends an association is not answered, nor is a diagnosis.
  other.options = XtpHeader::end;
  bed.deliver(control_packet(other, nothing));
  bed.deliver(packet({.key = other.key, .type = XtpHeader::Type::diag}, std::vector<std::byte>(8)));
  bed.run(1ms);
  EXPECT_EQ(counted(bed, 0, "diagnoses_sent"), 1U);
  bed.run(10ms);
  EXPECT_TRUE(bed[0].user().connected && bed[1].user().connected);
}

TEST_F(XtpTest, WhatContradictsChangesNothing) {
  XtpBed& bed = connected(small(), small());
  bed[1].user().send("hello");
  bed[0].user().send("answer");
  bed.run(10ms);
  const SentPacket mine = last_of(1);
  SentPacket theirs = last_of(0);
  for (const SentPacket& one : packets) {
    if (one.node == 0 && one.header.type == XtpHeader::Type::data) {
      theirs.header.sequence = one.header.sequence + one.header.length;
      theirs.header.sync = std::max(theirs.header.sync, one.header.sync);
    }
  }
  XtpHeader header{.key = mine.header.key, .type = XtpHeader::Type::cntl, .sync = mine.header.sync};
  header.sequence = mine.header.sequence;
  XtpControl control;
  const auto refused = [&](const XtpHeader& sent_header, const XtpControl& said) {
    const std::uint64_t before = counted(bed, 0, "contradictions");
    bed.deliver(control_packet(sent_header, said));
    bed.step(false);
    return counted(bed, 0, "contradictions") == before + 1;
  };
  control.received = control.allocated = theirs.header.sequence + 1;  // never sent
  EXPECT_TRUE(refused(header, control));
  control.received = theirs.header.sequence;
  control.echo = theirs.header.sync + 1;
  EXPECT_TRUE(refused(header, control));
  control.echo = 0;
  XtpHeader spans = header;
  spans.type = XtpHeader::Type::ecntl;
  control.received -= 5;
  control.spans[0] = {.left = theirs.header.sequence, .right = theirs.header.sequence + 1};
  control.span_count = 1;
  EXPECT_TRUE(refused(spans, control));
  control.span_count = 0;
  XtpHeader early_end = header;  // before what has come
  early_end.options = XtpHeader::write_closed;
  early_end.sequence -= 6;
  EXPECT_TRUE(refused(early_end, control));
  EXPECT_FALSE(refused(header, control));
  bed.run(1s);
  EXPECT_TRUE(bed[0].user().connected && bed[1].user().connected);
  EXPECT_FALSE(bed[0].user().peer_released);
}

/// Single bytes with gaps between them, and single bytes that are messages each: both are bounded.
TEST_F(XtpTest, PiecesAreBounded) {
  xtp::Options options = small();
  options.receive_buffer_bytes = 1 << 20;
  XtpBed& bed = make(options, small());
  bed.loses = [](const Packet&) { return true; };  // the peer is we
  bed[0].user().bind(1);
  bed.deliver(first_packet(7));
  bed.run(1ms);
  ASSERT_TRUE(bed[0].user().connected);
  const auto tcntl =
      std::ranges::find(packets, XtpHeader::Type::tcntl, [](const SentPacket& one) { return one.header.type; });
  ASSERT_NE(tcntl, packets.end());
  const XtpHeader header{.key = tcntl->control.exchanged_key | XtpHeader::return_key,
                         .options = XtpHeader::end_of_message};
  const std::vector<std::byte> byte(1);
  bed[0].user().read_queue().set_marks({.high_bytes = 1, .low_bytes = 1});
  const auto deliver = [&](std::uint64_t at) {
    XtpHeader one = header;
    one.sequence = 1000 + at;
    bed.deliver(packet(one, byte));
  };
  for (std::uint64_t at = 0; at < 3000; ++at) {
    deliver(1 + 2 * at);
  }
  EXPECT_EQ(counted(bed, 0, "beyond"), 3000 - xtp::Inbox::held_pieces_max);
  const std::size_t held_buffers = bed[0].set().pool().statistics().buffers_in_use;
  EXPECT_LE(held_buffers, xtp::Inbox::held_pieces_max + 16);
  // In order, and nobody reads.
  for (std::uint64_t at = 0; at < 20'000; ++at) {
    deliver(at);
  }
  EXPECT_LE(bed[0].set().pool().statistics().buffers_in_use,
            xtp::Inbox::ready_pieces_max + xtp::Inbox::held_pieces_max + 16);
  EXPECT_GT(counted(bed, 0, "beyond"), 10'000U);
}

TEST_F(XtpTest, DataBeyondTheAllocationIsDropped) {
  xtp::Options options = small();
  options.receive_buffer_bytes = 4096;
  XtpBed& bed = make(options, small());
  bed.loses = [](const Packet&) { return true; };  // the peer is we
  bed[0].user().bind(1);
  bed.deliver(first_packet(7));
  bed.run(1ms);
  const std::uint64_t key = bed[0].user().connected ? last_of(0).control.exchanged_key : 0;
  ASSERT_NE(key, 0U);
  XtpHeader header{.key = key | XtpHeader::return_key, .sequence = 1000 + 4096 - 4};
  bed.deliver(packet(header, std::vector<std::byte>(5)));
  EXPECT_EQ(counted(bed, 0, "beyond"), 1U);
  bed.deliver(packet(header, std::vector<std::byte>(4)));
  EXPECT_EQ(counted(bed, 0, "beyond"), 1U);
}

// ---- Memory ----

TEST_F(XtpTest, WithoutMemoryItTakesLonger) {
  xtp::Options options = small();
  options.receive_buffer_bytes = 4 << 20;  // more than there is
  options.send_buffer_bytes = 65536;
  XtpBed& bed = make(options, options, ProcessingMode::layered, 1 << 20);
  bed.connect();
  bed.run(1s);
  ASSERT_TRUE(bed[0].user().connected && bed[1].user().connected);
  transfer(bed, 2'000'000);
  for (int turn = 0; turn < 300 && bed[0].user().received < 2'000'000; ++turn) {
    bed.run(1s, true);
  }
  EXPECT_EQ(bed[0].user().wrong, "");
  EXPECT_EQ(bed[0].user().received, 2'000'000U);
  EXPECT_TRUE(bed[0].user().disconnections.empty() && bed[1].user().disconnections.empty());
  EXPECT_GT(bed[0].set().pool().statistics().allocations_failed + bed[1].set().pool().statistics().allocations_failed,
            0U);
}

/// Where nothing is lost. Of each count one load and one store are the bed's own: the user makes a block, and the
/// provider a packet. Down, what waits to be acknowledged is the user's block, which packets show: its bytes are loaded
/// once, for the sum. Up, a byte is loaded to be verified and moved to the reader's place later, since nothing is
/// acknowledged that is not verified; a fused path verifies the provider's sum and this one's together.
TEST_F(XtpTest, WhatIsKeptCostsNoCopy) {
  constexpr std::uint64_t size = 1'000'000;
  struct Row {
    ProcessingMode mode;
    std::size_t node;
    double loads;
    double stores;
  };
  for (const Row& row : {Row{ProcessingMode::layered, 1, 1, 0}, Row{ProcessingMode::layered, 0, 3, 1},
                         Row{ProcessingMode::fused, 1, 1, 0}, Row{ProcessingMode::fused, 0, 2, 1}}) {
    SCOPED_TRACE(std::string(name_of(row.mode)) + " node " + std::to_string(row.node));
    const xtp::Options options{.packet_bytes = 1400};
    XtpBed& bed = connected(options, options, row.mode);
    Touches& touches = bed[row.node].set().pool().touches();
    touches = {};
    transfer(bed, size);
    bed.run(10s);
    ASSERT_EQ(bed[0].user().received, size);
    EXPECT_NEAR(static_cast<double>(touches.loaded_bytes) / size, 1 + row.loads, 0.1);
    EXPECT_NEAR(static_cast<double>(touches.stored_bytes) / size, 1 + row.stores, 0.1);
  }
}

}  // namespace
}  // namespace sluice::test::associations
