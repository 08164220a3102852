// SPDX-License-Identifier: Apache-2.0
// The neighbour cache: its event table, its bounds, and ARP and neighbour discovery on the wire.
#include "stack/modules/ip_neighbours.h"

#include <gmock/gmock.h>

#include "stack/wire/ndp.h"
#include "tests/stack/modules/ip_bed.h"

namespace sluice::ip_test {
namespace {

using enum ip::NeighbourState;
using ip::NeighbourEvent;
using ip::Neighbours;
using ip::NeighbourState;

constexpr MacAddress mac_a{{2, 0, 0, 0, 0, 0xa}};
constexpr MacAddress mac_b{{2, 0, 0, 0, 0, 0xb}};

/// RFC 4861 appendix C, written out: every state, every event.
TEST(IpNeighbours, EventTable) {
  struct Row {
    NeighbourState state;
    NeighbourEvent event;
    NeighbourState next;
    int actions;
  };
  using enum NeighbourEvent;
  using namespace ip;
  const Row rows[] = {
      {none, send, incomplete, act_ask_all},
      {none, confirmed, none, 0},
      {none, announced, stale, act_record},
      {none, contradicted, none, 0},
      {none, repeated, none, 0},
      {none, timeout, none, 0},
      {none, exhausted, none, 0},
      {incomplete, send, incomplete, 0},
      {incomplete, confirmed, reachable, act_record | act_release},
      {incomplete, announced, stale, act_record | act_release},
      {incomplete, contradicted, incomplete, 0},
      {incomplete, repeated, incomplete, 0},
      {incomplete, timeout, incomplete, act_ask_all},
      {incomplete, exhausted, none, act_give_up},
      {reachable, send, reachable, act_release},
      {reachable, confirmed, reachable, act_record},
      {reachable, announced, stale, act_record},
      {reachable, contradicted, stale, 0},
      {reachable, repeated, reachable, 0},
      {reachable, timeout, stale, 0},
      {reachable, exhausted, stale, 0},
      {stale, send, delay, act_release},
      {stale, confirmed, reachable, act_record},
      {stale, announced, stale, act_record},
      {stale, contradicted, stale, 0},
      {stale, repeated, stale, 0},
      {stale, timeout, stale, 0},
      {stale, exhausted, stale, 0},
      {delay, send, delay, act_release},
      {delay, confirmed, reachable, act_record},
      {delay, announced, stale, act_record},
      {delay, contradicted, delay, 0},
      {delay, repeated, delay, 0},
      {delay, timeout, probe, act_ask_one},
      {delay, exhausted, probe, act_ask_one},
      {probe, send, probe, act_release},
      {probe, confirmed, reachable, act_record},
      {probe, announced, stale, act_record},
      {probe, contradicted, probe, 0},
      {probe, repeated, probe, 0},
      {probe, timeout, probe, act_ask_one},
      {probe, exhausted, none, act_give_up},
  };
  ASSERT_EQ(std::size(rows), neighbour_states * neighbour_events);
  for (const Row& row : rows) {
    const ip::NeighbourTransition transition = ip::neighbour_transition(row.state, row.event);
    EXPECT_EQ(transition.next, row.next) << static_cast<int>(row.state) << "/" << static_cast<int>(row.event);
    EXPECT_EQ(transition.actions, row.actions) << static_cast<int>(row.state) << "/" << static_cast<int>(row.event);
  }
}

struct NeighbourRecorder final : ip::NeighbourUser {
  void solicit(const IpAddress& target, const std::optional<MacAddress>& to) override {
    solicited.emplace_back(target, to);
  }
  void transmit(Message, const IpAddress&, const MacAddress& to) override { transmitted.push_back(to); }
  void undeliverable(Message, const IpAddress&, bool was_asked) override { (was_asked ? failed : refused) += 1; }
  void displaced(Message) override { ++lost; }

  std::vector<std::pair<IpAddress, std::optional<MacAddress>>> solicited;
  std::vector<MacAddress> transmitted;
  int failed = 0;
  int refused = 0;
  int lost = 0;
};

class IpNeighboursCache : public testing::Test {
 protected:
  Message message() { return Message::allocate(pool, 8); }
  IpAddress host(std::uint32_t number) { return Ipv4Address::from_value(0x0a4d0000 + number); }
  Neighbours& make(std::size_t entries_max) { return cache.emplace(entries_max, prng, user); }
  void make_reachable(std::uint32_t number) {
    cache->send(host(number), message(), now);
    cache->advertised(host(number), mac_a, true, true, now);
  }

  BufferPool pool;
  Prng prng{1};
  NeighbourRecorder user;
  std::optional<Neighbours> cache;
  TimePoint now{};
};

TEST_F(IpNeighboursCache, AsksThreeTimesASecondApartAndGivesUp) {
  Neighbours& neighbours = make(8);
  neighbours.send(host(1), message(), now);
  neighbours.send(host(1), message(), now);
  EXPECT_EQ(user.solicited.size(), 1) << "one question, however many wait";
  for (int second = 0; second < 2; ++second) {
    EXPECT_EQ(neighbours.next_deadline(), now + 1s);
    neighbours.expire(now + 999ms);
    EXPECT_EQ(user.solicited.size(), static_cast<std::size_t>(second) + 1);
    now += 1s;
    neighbours.expire(now);
    EXPECT_EQ(user.solicited.size(), static_cast<std::size_t>(second) + 2);
  }
  neighbours.expire(now + 1s);
  EXPECT_EQ(user.solicited.size(), 3);
  EXPECT_EQ(user.failed, 2);
  EXPECT_EQ(neighbours.size(), 0);
  EXPECT_EQ(neighbours.waiting(), 0);
  EXPECT_EQ(neighbours.next_deadline(), never);
}

TEST_F(IpNeighboursCache, GoesThroughItsWholeLife) {
  Neighbours& neighbours = make(8);
  make_reachable(1);
  EXPECT_EQ(user.transmitted, std::vector{mac_a});
  const auto handle = neighbours.send(host(1), message(), now);
  ASSERT_NE(neighbours.known(handle, now), nullptr);
  EXPECT_EQ(*neighbours.known(handle, now), mac_a);
  EXPECT_NE(neighbours.known(handle, now + 14s), nullptr) << "reachable for 15 to 45 seconds";
  now += 46s;
  EXPECT_EQ(neighbours.known(handle, now), nullptr);
  EXPECT_EQ(neighbours.state(host(1), now), stale);
  neighbours.send(host(1), message(), now);
  EXPECT_EQ(neighbours.state(host(1), now), delay);
  EXPECT_EQ(user.transmitted.size(), 3) << "a doubtful address is used meanwhile";
  now += 5s;
  neighbours.expire(now);
  EXPECT_EQ(neighbours.state(host(1), now), probe);
  EXPECT_EQ(user.solicited.back(), std::pair(host(1), std::optional(mac_a)));
  for (int second = 0; second < 2; ++second) {
    now += 1s;
    neighbours.expire(now);
    EXPECT_EQ(neighbours.state(host(1), now), probe);
  }
  now += 1s;
  neighbours.expire(now);
  EXPECT_EQ(neighbours.state(host(1), now), none);
  EXPECT_EQ(user.solicited.size(), 4) << "one broadcast, three probes";
  EXPECT_EQ(neighbours.known(handle, now), nullptr) << "the handle of a removed entry";
}

/// RFC 4861 section 7.2.5, for all states with an address: solicited or not, overriding or not, same address or
/// another.
TEST_F(IpNeighboursCache, Advertisements) {
  struct Row {
    bool solicited;
    bool overrides;
    MacAddress mac;
    NeighbourState then_reachable;  // what becomes of a reachable entry
    NeighbourState then_stale;      // and of a stale one
    MacAddress mac_then;
  };
  const Row rows[] = {
      {true, false, mac_a, reachable, reachable, mac_a}, {true, true, mac_a, reachable, reachable, mac_a},
      {false, false, mac_a, reachable, stale, mac_a},    {false, true, mac_a, reachable, stale, mac_a},
      {true, false, mac_b, stale, stale, mac_a},         {true, true, mac_b, reachable, reachable, mac_b},
      {false, false, mac_b, stale, stale, mac_a},        {false, true, mac_b, stale, stale, mac_b},
  };
  for (const Row& row : rows) {
    for (const bool was_reachable : {true, false}) {
      Neighbours& neighbours = make(8);
      if (was_reachable) {
        make_reachable(1);
      } else {
        neighbours.heard(host(1), mac_a, now);
      }
      neighbours.advertised(host(1), row.mac, row.solicited, row.overrides, now);
      EXPECT_EQ(neighbours.state(host(1), now), was_reachable ? row.then_reachable : row.then_stale);
      user.transmitted.clear();
      neighbours.send(host(1), message(), now);
      EXPECT_EQ(user.transmitted, std::vector{row.mac_then});
    }
  }
}

TEST_F(IpNeighboursCache, AnUnsolicitedAnnouncementCreatesNothing) {
  Neighbours& neighbours = make(8);
  for (const bool solicited : {false, true}) {
    neighbours.advertised(host(1), mac_a, solicited, true, now);
    EXPECT_EQ(neighbours.size(), 0);
  }
}

TEST_F(IpNeighboursCache, AQuestionForUsAnswersOurs) {
  Neighbours& neighbours = make(8);
  neighbours.send(host(1), message(), now);
  neighbours.heard(host(1), mac_b, now);
  EXPECT_EQ(neighbours.state(host(1), now), stale);
  EXPECT_EQ(user.transmitted, std::vector{mac_b});
}

TEST_F(IpNeighboursCache, ReplacesTheOldestOfTooManyThatWait) {
  Neighbours& neighbours = make(64);
  for (std::size_t sent = 0; sent < Neighbours::waiting_per_neighbour_max + 3; ++sent) {
    neighbours.send(host(1), message(), now);
  }
  EXPECT_EQ(user.lost, 3);
  EXPECT_EQ(neighbours.waiting(), Neighbours::waiting_per_neighbour_max);
  for (std::uint32_t other = 2; other < 40; ++other) {
    for (std::size_t sent = 0; sent < Neighbours::waiting_per_neighbour_max; ++sent) {
      neighbours.send(host(other), message(), now);
      EXPECT_LE(neighbours.waiting(), Neighbours::waiting_max);
    }
  }
  EXPECT_EQ(neighbours.waiting(), Neighbours::waiting_max);
}

TEST_F(IpNeighboursCache, AFloodPushesOutNothingInUse) {
  Neighbours& neighbours = make(16);
  for (std::uint32_t number = 0; number < 8; ++number) {
    make_reachable(number);
  }
  for (std::uint32_t number = 100; number < 20'000; ++number) {
    neighbours.heard(host(number), mac_b, now);
    ASSERT_LE(neighbours.size(), 16);
  }
  for (std::uint32_t number = 0; number < 8; ++number) {
    EXPECT_EQ(neighbours.state(host(number), now), reachable) << number;
  }
  make_reachable(50);
  EXPECT_EQ(neighbours.state(host(50), now), reachable) << "stale entries make room";
}

/// Whoever asks for us is answered, so its entry is in use though nobody may be there.
TEST_F(IpNeighboursCache, AFloodThatIsAnsweredKeepsNobodyOut) {
  Neighbours& neighbours = make(16);
  make_reachable(1);
  for (std::uint32_t number = 100; number < 1000; ++number) {
    neighbours.heard(host(number), mac_b, now);
    neighbours.send(host(number), message(), now);
    ASSERT_LE(neighbours.size(), 16);
  }
  neighbours.heard(host(2), mac_a, now);
  neighbours.send(host(2), message(), now);
  EXPECT_EQ(user.transmitted.back(), mac_a);
  EXPECT_EQ(user.refused, 0);
  EXPECT_EQ(neighbours.state(host(1), now), reachable);
}

TEST_F(IpNeighboursCache, RefusesWhatWouldNeedAnEntryInUse) {
  Neighbours& neighbours = make(2);
  make_reachable(1);
  neighbours.send(host(2), message(), now);
  neighbours.send(host(3), message(), now);
  EXPECT_EQ(user.refused, 1);
  EXPECT_EQ(neighbours.size(), 2);
}

TEST_F(IpNeighboursCache, GivesAUsedEntryASecondChance) {
  Neighbours& neighbours = make(2);
  neighbours.heard(host(1), mac_a, now);
  neighbours.heard(host(2), mac_b, now);
  neighbours.send(host(1), message(), now);
  neighbours.advertised(host(1), mac_b, false, true, now);  // stale again, but used
  neighbours.heard(host(3), mac_b, now);
  EXPECT_EQ(neighbours.state(host(1), now), stale);
  EXPECT_EQ(neighbours.state(host(2), now), none);
}

/// A handle that a flow has kept must not lead to who has the place now.
TEST_F(IpNeighboursCache, AHandleIsOfNobodyElseWhoTakesThePlace) {
  Neighbours& neighbours = make(1);
  make_reachable(1);
  const auto gone = neighbours.send(host(1), message(), now);
  ASSERT_NE(neighbours.known(gone, now), nullptr);
  neighbours.doubt_all();
  neighbours.heard(host(2), mac_b, now);
  neighbours.advertised(host(2), mac_b, true, true, now);
  ASSERT_EQ(neighbours.state(host(1), now), none);
  ASSERT_EQ(neighbours.state(host(2), now), reachable);
  EXPECT_EQ(neighbours.known(gone, now), nullptr);
  const auto here = neighbours.send(host(2), message(), now);
  ASSERT_NE(neighbours.known(here, now), nullptr);
  EXPECT_EQ(*neighbours.known(here, now), mac_b);
}

/// RFC 826: "Is the opcode ares_op$REQUEST? [...] Swap hardware and protocol fields, putting the local hardware and
/// protocol addresses in the sender fields. Set the ar$op field to ares_op$REPLY. Send the packet to the (new) target
/// hardware address on the same hardware on which the request was received."
TEST(IpArp, AnswersRequestsForOurAddress) {
  Bed bed;
  bed.arp(wire::ArpOperation::request, "10.77.0.2", "10.77.0.1");
  const Frame frame = bed.next_frame();
  EXPECT_EQ(frame.to, peer_mac);
  EXPECT_EQ(frame.sap, wire::ethertype_arp);
  EXPECT_EQ(wire::ArpPacket::parse(frame.octets),
            (wire::ArpPacket{wire::ArpOperation::reply, our_mac, v4("10.77.0.1"), peer_mac, v4("10.77.0.2")}));
  EXPECT_EQ(bed.ip->neighbours().state(address("10.77.0.2"), bed.now), stale);
}

/// RFC 5227 section 2.1.1: a probe must be answered, but has no sender to remember.
TEST(IpArp, AnswersProbesAndRemembersNothing) {
  Bed bed;
  bed.arp(wire::ArpOperation::request, "0.0.0.0", "10.77.0.1");
  EXPECT_EQ(wire::ArpPacket::parse(bed.next_frame().octets)->operation, wire::ArpOperation::reply);
  EXPECT_EQ(bed.ip->neighbours().size(), 0);
}

TEST(IpArp, IgnoresRequestsForOthers) {
  Bed bed;
  bed.arp(wire::ArpOperation::request, "10.77.0.2", "10.77.0.3");
  EXPECT_TRUE(bed.link.sent.empty());
  EXPECT_EQ(bed.ip->neighbours().size(), 0);
}

TEST(IpArp, CountsMalformedMessagesAndConflicts) {
  Bed bed;
  bed.link.inject(wire::ethertype_arp, pattern(27));
  bed.link.inject(wire::ethertype_arp, pattern(28));
  bed.arp(wire::ArpOperation::request, "10.77.0.2", "10.77.0.1", wire::mac_broadcast);
  bed.arp(wire::ArpOperation::request, "10.77.0.255", "10.77.0.1");
  bed.arp(wire::ArpOperation::request, "224.0.0.1", "10.77.0.1");
  EXPECT_EQ(bed.count("bad_arp"), 5);
  EXPECT_TRUE(bed.link.sent.empty());
  bed.arp(wire::ArpOperation::reply, "10.77.0.1", "10.77.0.1");
  EXPECT_EQ(bed.count("address_conflict"), 1);
  EXPECT_EQ(bed.next_frame().to, wire::mac_broadcast) << "defended: ip_addresses_test.cc";
  EXPECT_TRUE(bed.link.sent.empty());
  EXPECT_EQ(bed.ip->neighbours().size(), 0);
}

TEST(IpArp, ReadsMessagesInSeveralBlocks) {
  Bed bed;
  Octets octets(wire::ArpPacket::size);
  wire::ArpPacket{wire::ArpOperation::request, peer_mac, v4("10.77.0.2"), {}, v4("10.77.0.1")}.emit(octets);
  bed.link.inject(wire::ethertype_arp, octets, true, peer_mac, 5);
  EXPECT_EQ(bed.link.sent.size(), 1);
}

TEST(IpArp, ResolvesThenSendsWhatWaited) {
  Bed bed;
  bed.bind();
  bed.send("10.77.0.2", pattern(10));
  bed.send("10.77.0.2", pattern(20));
  const Frame question = bed.next_frame();
  EXPECT_TRUE(question.to.is_broadcast());
  EXPECT_EQ(wire::ArpPacket::parse(question.octets),
            (wire::ArpPacket{wire::ArpOperation::request, our_mac, v4("10.77.0.1"), {}, v4("10.77.0.2")}));
  EXPECT_TRUE(bed.link.sent.empty());
  EXPECT_TRUE(bed.ip->holds_data()) << "a stream that closes waits for it";
  bed.arp(wire::ArpOperation::reply, "10.77.0.2", "10.77.0.1");
  EXPECT_FALSE(bed.ip->holds_data());
  EXPECT_EQ(part(bed.next_frame().octets, 20), pattern(10));
  const Frame second = bed.next_frame();
  EXPECT_EQ(second.to, peer_mac);
  EXPECT_EQ(second.sap, wire::ethertype_ipv4);
  EXPECT_EQ(part(second.octets, 20), pattern(20));
}

/// RFC 4861 section 7.2.2: "If no Neighbor Advertisement is received after MAX_MULTICAST_SOLICIT solicitations, address
/// resolution has failed." RFC 1122 section 2.3.2.2 for ARP.
TEST(IpArp, ReportsANeighbourThatDoesNotAnswer) {
  for (const std::string_view host : {"10.77.0.2", "fd00:77::2"}) {
    Bed bed;
    bed.bind();
    bed.send(host, pattern(10));
    for (int second = 0; second < 4; ++second) {
      bed.advance(1s);
    }
    EXPECT_EQ(bed.link.sent.size(), 3);
    const Uderror error = uderror_of(bed.next_up());
    EXPECT_EQ(error.error, EHOSTUNREACH);
    EXPECT_EQ(error.destination, (wire::NetworkAddress{address(host), udp}));
    EXPECT_EQ(error.data, pattern(10)) << "the datagram, without our header";
    EXPECT_EQ(bed.count("neighbour_failed"), 1);
    EXPECT_FALSE(bed.ip->holds_data());
  }
}

/// Of a datagram in fragments, one error comes up, with its first bytes.
TEST(IpArp, ReportsAFragmentedDatagramOnce) {
  for (const std::string_view host : {"10.77.0.2", "fd00:77::2"}) {
    Bed bed;
    bed.bind();
    bed.send(host, pattern(4000));
    for (int second = 0; second < 4; ++second) {
      bed.advance(1s);
    }
    const Uderror error = uderror_of(bed.next_up());
    EXPECT_EQ(error.destination, (wire::NetworkAddress{address(host), udp}));
    EXPECT_EQ(error.data, part(pattern(4000), 0, error.data.size()));
    EXPECT_GE(error.data.size(), 1400U);
    EXPECT_TRUE(bed.user.received.empty());
    EXPECT_EQ(bed.count("neighbour_failed"), 3);
  }
}

const MacAddress solicited_mac{{0x33, 0x33, 0xff, 0, 0, 2}};

Octets solicitation(const V6& header, std::optional<MacAddress> from, std::string_view target = "fd00:77::1") {
  Octets octets(wire::NeighborSolicitation::size_max);
  octets.resize(wire::NeighborSolicitation{v6(target), from}.emit(octets));
  return packet(header, icmp_summed(octets, header));
}

Octets advertisement(const wire::NeighborAdvertisement& message, const V6& header) {
  Octets octets(wire::NeighborAdvertisement::size_max);
  octets.resize(message.emit(octets));
  return packet(header, icmp_summed(octets, header));
}

const V6 ndp_header{.destination = "ff02::1:ff00:1", .next_header = wire::protocol_icmp6, .hop_limit = 255};

TEST(IpNdp, ResolvesThenSendsWhatWaited) {
  Bed bed;
  bed.bind();
  bed.send("fd00:77::2", pattern(10));
  const Frame question = bed.next_frame();
  EXPECT_EQ(question.to, solicited_mac);
  const wire::Ipv6Header header = wire::Ipv6Header::parse(question.octets).value();
  EXPECT_EQ(header.hop_limit, 255);
  EXPECT_EQ(header.source, v6("fd00:77::1"));
  EXPECT_EQ(header.destination, v6("ff02::1:ff00:2"));
  const Octets message = part(question.octets, 40);
  EXPECT_EQ(wire::NeighborSolicitation::parse(message), (wire::NeighborSolicitation{v6("fd00:77::2"), our_mac}));
  EXPECT_TRUE(sum_holds(
      add_sums(wire::pseudo_header_sum(header.source, header.destination, 58, 32), ilp::scalar::sum(message))));
  bed.link.inject(
      wire::ethertype_ipv6,
      advertisement(
          {.solicited = true, .override_entry = true, .target = v6("fd00:77::2"), .target_link_layer = peer_mac},
          {.next_header = wire::protocol_icmp6, .hop_limit = 255}));
  const Frame datagram = bed.next_frame();
  EXPECT_EQ(datagram.to, peer_mac);
  EXPECT_EQ(part(datagram.octets, 40), pattern(10));
  EXPECT_EQ(bed.ip->neighbours().state(address("fd00:77::2"), bed.now), reachable);
}

TEST(IpNdp, AnswersSolicitations) {
  Bed bed;
  bed.link.inject(wire::ethertype_ipv6, solicitation(ndp_header, mac_a), true);
  const Frame frame = bed.next_frame();
  EXPECT_EQ(frame.to, mac_a);
  EXPECT_EQ(wire::Ipv6Header::parse(frame.octets)->hop_limit, 255);
  EXPECT_EQ(wire::NeighborAdvertisement::parse(part(frame.octets, 40)),
            (wire::NeighborAdvertisement{false, true, true, v6("fd00:77::1"), our_mac}));
  EXPECT_EQ(bed.ip->neighbours().state(address("fd00:77::2"), bed.now), stale);
}

/// RFC 4861 section 7.2.4: "If the source of the solicitation is the unspecified address, the node MUST set the
/// Solicited flag to zero and multicast the advertisement to the all-nodes address."
TEST(IpNdp, AnswersDuplicateAddressDetectionToAll) {
  Bed bed;
  V6 header = ndp_header;
  header.source = "::";
  bed.link.inject(wire::ethertype_ipv6, solicitation(header, std::nullopt), true);
  const Frame frame = bed.next_frame();
  EXPECT_EQ(wire::Ipv6Header::parse(frame.octets)->destination, v6("ff02::1"));
  EXPECT_FALSE(wire::NeighborAdvertisement::parse(part(frame.octets, 40))->solicited);
  EXPECT_EQ(bed.ip->neighbours().size(), 0);
}

/// RFC 4861 sections 7.1.1 and 7.1.2, the rules that bytes alone cannot break.
TEST(IpNdp, RefusesInvalidMessages) {
  Bed bed;
  V6 routed = ndp_header;
  routed.hop_limit = 254;
  bed.link.inject(wire::ethertype_ipv6, solicitation(routed, mac_a), true);
  V6 unspecified = ndp_header;
  unspecified.source = "::";
  bed.link.inject(wire::ethertype_ipv6, solicitation(unspecified, mac_a), true);
  bed.link.inject(wire::ethertype_ipv6,
                  advertisement({.solicited = true, .target = v6("fd00:77::2"), .target_link_layer = mac_a},
                                {.destination = "ff02::1", .next_header = 58, .hop_limit = 255}),
                  true);
  Octets cut = solicitation(ndp_header, mac_a);
  cut = packet(ndp_header, icmp_summed(part(cut, 40, 20), ndp_header));
  bed.link.inject(wire::ethertype_ipv6, cut, true);
  EXPECT_EQ(bed.count("bad_ndp"), 4);
  bed.link.inject(wire::ethertype_ipv6, solicitation(ndp_header, mac_a, "fd00:77::99"), true);
  EXPECT_EQ(bed.count("icmp_ignored"), 1) << "for another host";
  EXPECT_TRUE(bed.link.sent.empty());
  EXPECT_EQ(bed.ip->neighbours().size(), 0);
}

/// What a host on the link may send to take our traffic, or to have us send to everybody. None of it is answered, and
/// none changes where datagrams to 10.77.0.2 go or makes us ask for anybody. RFC 1122 section 3.2.1.3 lists what is no
/// host's address; RFC 5227 section 2.1.1 has the one exception, a probe.
TEST(IpArp, NothingHostileIsAnsweredOrBelieved) {
  constexpr MacAddress group{{0x01, 0, 0x5e, 0, 0, 1}};
  using enum wire::ArpOperation;
  struct Row {
    const char* what;
    wire::ArpOperation operation;
    MacAddress sender_mac;
    const char* sender;
    const char* target;
    const char* counter;
  };
  const Row rows[] = {
      {"loopback", request, mac_b, "127.0.0.1", "10.77.0.1", "bad_arp"},
      {"loopback", reply, mac_b, "127.0.0.1", "10.77.0.1", "bad_arp"},
      {"loopback network", request, mac_b, "127.255.3.4", "10.77.0.1", "bad_arp"},
      {"the subnet's zero address", request, mac_b, "10.77.0.0", "10.77.0.1", "bad_arp"},
      {"the subnet's zero address", reply, mac_b, "10.77.0.0", "10.77.0.1", "bad_arp"},
      {"the subnet's broadcast", request, mac_b, "10.77.0.255", "10.77.0.1", "bad_arp"},
      {"the subnet's broadcast", reply, mac_b, "10.77.0.255", "10.77.0.1", "bad_arp"},
      {"limited broadcast", request, mac_b, "255.255.255.255", "10.77.0.1", "bad_arp"},
      {"multicast", request, mac_b, "224.0.0.1", "10.77.0.1", "bad_arp"},
      {"multicast", reply, mac_b, "239.1.2.3", "10.77.0.1", "bad_arp"},
      {"this network", request, mac_b, "0.0.0.1", "10.77.0.1", "bad_arp"},
      {"reply of nobody", reply, mac_b, "0.0.0.0", "10.77.0.1", "bad_arp"},
      {"our own address", request, mac_b, "10.77.0.1", "10.77.0.1", "address_conflict"},
      {"our own address", reply, mac_b, "10.77.0.1", "10.77.0.2", "address_conflict"},
      {"broadcast station", request, wire::mac_broadcast, "10.77.0.2", "10.77.0.1", "bad_arp"},
      {"broadcast station", reply, wire::mac_broadcast, "10.77.0.2", "10.77.0.1", "bad_arp"},
      {"group of stations", request, group, "10.77.0.2", "10.77.0.1", "bad_arp"},
      {"group of stations", reply, group, "10.77.0.2", "10.77.0.1", "bad_arp"},
      {"no station", request, MacAddress{}, "10.77.0.2", "10.77.0.1", "bad_arp"},
      {"no station", reply, MacAddress{}, "10.77.0.2", "10.77.0.1", "bad_arp"},
      {"reply we did not ask for", reply, mac_b, "10.77.0.2", "10.77.0.1", "arp_noted"},
      {"reply to another", reply, mac_b, "10.77.0.2", "10.77.0.9", "arp_noted"},
      {"reply of one we never sent to", reply, mac_b, "10.77.0.7", "10.77.0.1", "arp_noted"},
  };
  for (const Row& row : rows) {
    for (const bool silent_for_long : {false, true}) {  // reachable, stale
      SCOPED_TRACE(testing::Message() << row.what << (row.operation == request ? ", request" : ", reply")
                                      << (silent_for_long ? ", entry is stale" : ""));
      Bed bed;
      bed.bind();
      bed.send("10.77.0.2", pattern(8));
      bed.arp(reply, "10.77.0.2", "10.77.0.1", mac_a);
      bed.advance(silent_for_long ? 50s : 1s);
      bed.link.sent.clear();
      const std::uint64_t before = bed.count(row.counter);
      const std::uint64_t in = bed.count("packets_in");
      bed.arp(row.operation, row.sender, row.target, row.sender_mac);
      EXPECT_EQ(bed.count(row.counter), before + 1);
      EXPECT_EQ(bed.count("packets_in"), in + 1);
      bed.advance(0s);
      if (row.counter == std::string_view("address_conflict")) {
        EXPECT_EQ(bed.next_frame().to, wire::mac_broadcast) << "our address is announced: ip_addresses_test.cc";
      }
      EXPECT_TRUE(bed.link.sent.empty()) << "neither answered nor asked for";
      EXPECT_EQ(bed.ip->neighbours().size(), 1);
      bed.send("10.77.0.2", pattern(8));
      EXPECT_EQ(bed.next_frame().to, mac_a);
    }
  }
}

/// A reply that nobody asked for makes us ask the neighbour we know: RFC 4861 section 7.2.5, "If the state of the entry
/// is REACHABLE, set it to STALE, but do not update the entry in any other way". So one that has really gone is found.
TEST(IpArp, AnUnaskedReplyIsCheckedWithTheNeighbourWeKnow) {
  Bed bed;
  bed.bind();
  bed.send("10.77.0.2", pattern(8));
  bed.arp(wire::ArpOperation::reply, "10.77.0.2", "10.77.0.1", mac_a);
  EXPECT_EQ(bed.ip->neighbours().state(address("10.77.0.2"), bed.now), ip::NeighbourState::reachable);
  bed.arp(wire::ArpOperation::reply, "10.77.0.2", "10.77.0.1", mac_b);
  EXPECT_EQ(bed.ip->neighbours().state(address("10.77.0.2"), bed.now), ip::NeighbourState::stale);
  bed.send("10.77.0.2", pattern(8));
  bed.link.sent.clear();
  bed.advance(ip::Neighbours::delay_first_probe_time);
  const Frame probe = bed.next_frame();
  EXPECT_EQ(probe.to, mac_a);
  bed.arp(wire::ArpOperation::reply, "10.77.0.2", "10.77.0.1", mac_b);
  bed.link.sent.clear();
  bed.send("10.77.0.2", pattern(8));
  EXPECT_EQ(bed.next_frame().to, mac_a) << "asked one, heard another";
  for (int second = 0; second < ip::Neighbours::solicitations_max; ++second) {
    bed.advance(ip::Neighbours::retransmit_time);
  }
  bed.link.sent.clear();
  bed.send("10.77.0.2", pattern(8));
  EXPECT_EQ(bed.next_frame().to, wire::mac_broadcast) << "it is gone: everybody is asked";
  bed.arp(wire::ArpOperation::reply, "10.77.0.2", "10.77.0.1", mac_b);
  EXPECT_EQ(bed.next_frame().to, mac_b);
}

/// A sender that is not on the link gets its answer; there is nothing to remember, since we send to it by the gateway.
TEST(IpArp, AnswersOneFromElsewhereAndRemembersNothing) {
  Bed bed;
  bed.arp(wire::ArpOperation::request, "192.168.3.4", "10.77.0.1", mac_a);
  EXPECT_EQ(bed.next_frame().to, mac_a);
  EXPECT_EQ(bed.count("arp_answered"), 1);
  EXPECT_EQ(bed.ip->neighbours().size(), 0);
}

/// RFC 1122 section 3.3.6: the zero form of a broadcast is one, too; so nobody is asked for it.
TEST(IpArp, AsksForNoBroadcastAddress) {
  Bed bed;
  bed.bind();
  for (const std::string_view to : {"10.77.0.0", "10.77.0.255", "255.255.255.255"}) {
    bed.send(to, pattern(8));
    EXPECT_EQ(uderror_of(bed.next_up()).error, EACCES) << to;
  }
  EXPECT_TRUE(bed.link.sent.empty());
}

/// As above, for neighbour discovery.
TEST(IpNdp, NothingHostileIsAnsweredOrBelieved) {
  constexpr MacAddress group{{0x33, 0x33, 0, 0, 0, 1}};
  const V6 to_us{.destination = "fd00:77::1", .next_header = 58, .hop_limit = 255};
  const auto from = [&](const char* source) {
    V6 header = ndp_header;
    header.source = source;
    return header;
  };
  const auto fragmented = [](const Octets& whole, bool in_two) {
    const Octets payload = part(whole, 40);
    V6 header{.destination = "fd00:77::1", .next_header = 44, .hop_limit = 255};
    std::vector<Octets> frames;
    if (in_two) {
      frames.push_back(packet(header, fragment_header(58, 0, true) + part(payload, 0, 16)));
      frames.push_back(packet(header, fragment_header(58, 16, false) + part(payload, 16)));
    } else {
      frames.push_back(packet(header, fragment_header(58, 0, false) + payload));
    }
    return frames;
  };
  const auto advertised = [&](const MacAddress& mac, bool solicited, bool overriding) {
    return advertisement(
        {.solicited = solicited, .override_entry = overriding, .target = v6("fd00:77::2"), .target_link_layer = mac},
        to_us);
  };
  const auto asked = [&](const std::optional<MacAddress>& mac) {
    V6 header = to_us;
    return solicitation(header, mac);
  };
  struct Row {
    const char* what;
    std::vector<Octets> frames;
    MacAddress link_source;
  };
  std::vector<Row> rows = {
      {"solicitation from the broadcast station", {asked(wire::mac_broadcast)}, mac_b},
      {"solicitation from a group", {asked(group)}, mac_b},
      {"solicitation from no station", {asked(MacAddress{})}, mac_b},
      {"solicitation without option, from a group", {asked(std::nullopt)}, group},
      {"solicitation without option, from no station", {asked(std::nullopt)}, MacAddress{}},
      {"advertisement of the broadcast station", {advertised(wire::mac_broadcast, true, true)}, mac_b},
      {"advertisement of a group", {advertised(group, false, true)}, mac_b},
      {"advertisement of no station", {advertised(MacAddress{}, true, true)}, mac_b},
      {"solicitation in an atomic fragment", fragmented(asked(mac_b), false), mac_b},
      {"solicitation in two fragments", fragmented(asked(mac_b), true), mac_b},
      {"advertisement in an atomic fragment", fragmented(advertised(mac_b, true, true), false), mac_b},
      {"advertisement in two fragments", fragmented(advertised(mac_b, true, true), true), mac_b},
  };
  // RFC 6980 section 5 names router discovery and redirects, too, which we ignore in any form.
  for (const std::uint8_t type : std::array<std::uint8_t, 3>{133, 134, 137}) {
    Octets other(40);
    other[0] = std::byte{type};
    const V6 header{.destination = "fd00:77::1", .next_header = 58};
    rows.push_back({"router discovery in an atomic fragment",
                    fragmented(packet(header, icmp_summed(other, header)), false), mac_b});
  }
  for (const Row& row : rows) {
    SCOPED_TRACE(row.what);
    Bed bed;
    bed.bind();
    bed.send("fd00:77::2", pattern(8));
    bed.link.inject(wire::ethertype_ipv6, advertised(mac_a, true, true), false, mac_a);
    EXPECT_EQ(bed.ip->neighbours().state(address("fd00:77::2"), bed.now), ip::NeighbourState::reachable);
    bed.link.sent.clear();
    for (const Octets& frame : row.frames) {
      bed.link.inject(wire::ethertype_ipv6, frame, false, row.link_source);
    }
    EXPECT_EQ(bed.count("bad_ndp"), 1);
    EXPECT_TRUE(bed.link.sent.empty()) << "not answered";
    EXPECT_EQ(bed.ip->neighbours().size(), 1);
    EXPECT_EQ(bed.ip->neighbours().state(address("fd00:77::2"), bed.now), ip::NeighbourState::reachable);
    bed.send("fd00:77::2", pattern(8));
    EXPECT_EQ(bed.next_frame().to, mac_a);
  }
  // One from elsewhere is answered, since it is there, but does not get into the cache (CVE-2008-2476).
  Bed bed;
  bed.link.inject(wire::ethertype_ipv6, solicitation(from("2001:db8::7"), mac_b), true);
  EXPECT_EQ(bed.count("ndp_answered"), 1);
  EXPECT_EQ(bed.ip->neighbours().size(), 0);
}

TEST(IpNdp, CountsAClaimToOurAddress) {
  Bed bed;
  bed.link.inject(wire::ethertype_ipv6,
                  advertisement({.target = v6("fd00:77::1"), .target_link_layer = mac_a},
                                {.destination = "ff02::1", .next_header = 58, .hop_limit = 255}),
                  true);
  EXPECT_EQ(bed.count("address_conflict"), 1);
}

}  // namespace
}  // namespace sluice::ip_test
