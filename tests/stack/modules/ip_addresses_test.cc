// SPDX-License-Identifier: Apache-2.0
// A host's own addresses: duplicates detected, announced, defended.
#include "stack/modules/ip_addresses.h"

#include <gmock/gmock.h>

#include <random>

#include "stack/wire/arp.h"
#include "stack/wire/ndp.h"
#include "tests/stack/modules/ip_bed.h"

namespace sluice::ip_test {
namespace {

using ip::Addresses;
using wire::ArpOperation;
using wire::ArpPacket;
using wire::NeighborAdvertisement;
using wire::NeighborSolicitation;

ip::Config detecting() {
  ip::Config config = both_families();
  config.duplicate_address_detection = true;
  return config;
}

struct Ndp {
  std::string_view source = "fd00:77::1";
  std::string_view destination = "ff02::1";
  MacAddress from = other_mac;
  std::uint8_t hop_limit = 255;
};

template <class NdpMessage>
void tell(Bed& bed, const NdpMessage& message, const Ndp& ndp) {
  Octets octets(NdpMessage::size_max);
  octets.resize(message.emit(octets));
  const V6 header{.source = ndp.source, .destination = ndp.destination, .next_header = 58, .hop_limit = ndp.hop_limit};
  bed.link.inject(wire::ethertype_ipv6, packet(header, icmp_summed(octets, header)), true, ndp.from);
}

/// "That address is mine", as the host that has it answers one that asks whether it is free.
void claim_v6(Bed& bed, std::string_view target = "fd00:77::1", MacAddress from = other_mac) {
  tell(bed, NeighborAdvertisement{false, false, true, v6(target), from}, {.source = target, .from = from});
}

/// "Is that address free?"
void ask_v6(Bed& bed, std::string_view target, MacAddress from = other_mac) {
  const std::string group = wire::solicited_node(v6(target)).to_text();
  tell(bed, NeighborSolicitation{v6(target), std::nullopt}, {.source = "::", .destination = group, .from = from});
}

std::optional<ArpPacket> arp_of(const Frame& frame) {
  const auto arp = ArpPacket::parse(frame.octets);
  return frame.sap == wire::ethertype_arp && arp ? std::optional(*arp) : std::nullopt;
}

/// Reports of groups begin with hop-by-hop options: ip_groups_test.cc.
bool is_group_report(const Frame& frame) {
  return frame.sap == wire::ethertype_ipv6 && frame.octets[6] == std::byte{wire::protocol_hop_by_hop};
}

/// What was asked and told: "probe", "announcement", "ns TARGET", "na TARGET", else "?".
std::vector<std::string> claims_said(Bed& bed) {
  std::vector<std::string> words;
  for (; !bed.link.sent.empty(); bed.link.sent.pop_front()) {
    const Frame& frame = bed.link.sent.front();
    if (is_group_report(frame)) {
      continue;
    }
    if (const auto arp = arp_of(frame)) {
      words.emplace_back(arp->sender_address.is_unspecified()         ? "probe"
                         : arp->sender_address == arp->target_address ? "announcement"
                                                                      : "arp");
      continue;
    }
    const ConstBytes message = ConstBytes(frame.octets).subspan(40);
    if (const auto ns = NeighborSolicitation::parse(message)) {
      words.push_back("ns " + ns->target.to_text());
    } else if (const auto na = NeighborAdvertisement::parse(message)) {
      words.push_back("na " + na->target.to_text());
    } else {
      words.emplace_back("?");
    }
  }
  return words;
}

/// Seconds pass, a tenth at a time.
void pass(Bed& bed, Duration time) {
  for (const TimePoint end = bed.now + time; bed.now < end;) {
    bed.advance(100ms);
  }
}

/// Long enough for all that RFC 5227 and RFC 4862 ask to have been asked.
constexpr Duration detection_time_max =
    Addresses::probe_wait + 2 * Addresses::probe_max + Addresses::announce_wait + Duration(200ms);

/// Each is asked for once, too, since hosts exist that answer a question for their address and ignore an announcement.
/// RFC 5227 section 2.3: "by broadcasting ANNOUNCE_NUM ARP Announcements, spaced ANNOUNCE_INTERVAL seconds apart. An
/// ARP Announcement is identical to the ARP Probe described above, except that now the sender and target IP addresses
/// are both set to the host's newly selected IPv4 address."
TEST(IpAddresses, AreAnnouncedAtStartAndUsedAtOnce) {
  Bed bed;
  bed.link.sent = std::exchange(bed.said_at_start, {});
  std::erase_if(bed.link.sent, is_group_report);
  ASSERT_EQ(bed.link.sent.size(), 9U);
  EXPECT_EQ(bed.link.sent[1].to, wire::mac_broadcast);
  EXPECT_EQ(arp_of(bed.link.sent[1]),
            (ArpPacket{ArpOperation::request, our_mac, v4("10.77.0.1"), {}, v4("10.77.0.1")}));
  // RFC 4861 section 7.2.6: "The Target Address field in the unsolicited advertisement is set to an IP address of the
  // interface [...] The Solicited flag MUST be set to zero".
  const Frame& advertisement = bed.link.sent[3];
  EXPECT_EQ(advertisement.to, all_nodes_mac);
  const auto header = wire::Ipv6Header::parse(advertisement.octets);
  ASSERT_TRUE(header);
  EXPECT_EQ(header->source, v6("fd00:77::1"));
  EXPECT_EQ(header->destination, v6("ff02::1"));
  EXPECT_EQ(header->hop_limit, 255);
  EXPECT_EQ(NeighborAdvertisement::parse(ConstBytes(advertisement.octets).subspan(40)),
            (NeighborAdvertisement{false, false, true, v6("fd00:77::1"), our_mac}));
  EXPECT_THAT(claims_said(bed),
              testing::ElementsAre("probe", "announcement", "ns fd00:77::1", "na fd00:77::1", "ns " + our_link_local,
                                   "na " + our_link_local, "announcement", "na fd00:77::1", "na " + our_link_local));
  pass(bed, 60s);
  EXPECT_TRUE(bed.link.sent.empty()) << "announced twice, then quiet";
  EXPECT_FALSE(bed.ip->addresses().settling());
  Bed quick;
  quick.bind();
  quick.send("10.77.0.2", pattern(8));
  EXPECT_TRUE(arp_of(quick.next_frame())) << "nothing waits";
}

TEST(IpAddresses, AreAnnouncedAgainWhenTheLinkComesBackOrHasAnotherMacAddress) {
  Bed bed;
  bed.link.tell(dlpi::NotifyInd{.notification = dlpi::DL_NOTE_LINK_UP, .address = {}}, MessageType::proto);
  bed.advance(0s);
  EXPECT_THAT(claims_said(bed), testing::ElementsAre("probe", "announcement", "ns fd00:77::1", "na fd00:77::1",
                                                     "ns " + our_link_local, "na " + our_link_local));
  pass(bed, 5s);
  claims_said(bed);
  const MacAddress fresh{{2, 0, 0, 0, 9, 9}};
  bed.link.tell(dlpi::NotifyInd{.notification = dlpi::DL_NOTE_PHYS_ADDR, .address = dlpi::LinkAddress{fresh, 0x0800}},
                MessageType::proto);
  bed.advance(0s);
  std::erase_if(bed.link.sent, is_group_report);
  EXPECT_EQ(arp_of(bed.next_frame())->sender_mac, fresh);
  EXPECT_THAT(claims_said(bed), testing::ElementsAre("announcement", "ns fd00:77::1", "na fd00:77::1",
                                                     "ns fe80::ff:fe00:909", "na fe80::ff:fe00:909"));
}

/// RFC 5227 section 2.1.1: "should then send PROBE_NUM probe packets, each of these probe packets spaced randomly and
/// uniformly, PROBE_MIN to PROBE_MAX seconds apart." RFC 4862 section 5.4.2: "a node SHOULD send
/// DupAddrDetectTransmits Neighbor Solicitations, each separated by RetransTimer milliseconds. The solicitation's
/// Target Address is set to the address being checked, the IP source is set to the unspecified address, and the IP
/// destination is set to the solicited-node multicast address of the target address."
TEST(IpAddresses, AreAskedForFirstWhereTheStackFileWantsIt) {
  Bed bed(detecting());
  EXPECT_TRUE(bed.ip->addresses().settling());
  std::vector<TimePoint> probes;
  int solicitations = 0;
  while (bed.ip->addresses().settling() && bed.now < TimePoint(10s)) {
    bed.advance(10ms);
    for (; !bed.link.sent.empty(); bed.link.sent.pop_front()) {
      const Frame& frame = bed.link.sent.front();
      if (is_group_report(frame)) {
        continue;
      }
      if (const auto arp = arp_of(frame)) {
        EXPECT_EQ(frame.to, wire::mac_broadcast);
        if (probes.size() < 3) {
          EXPECT_EQ(*arp, (ArpPacket{ArpOperation::request, our_mac, v4("0.0.0.0"), {}, v4("10.77.0.1")}));
          probes.push_back(bed.now);
        } else {
          EXPECT_EQ(arp->sender_address, v4("10.77.0.1")) << "the announcement";
        }
        continue;
      }
      ++solicitations;
      const auto header = wire::Ipv6Header::parse(frame.octets);
      const auto asked = NeighborSolicitation::parse(ConstBytes(frame.octets).subspan(40));
      ASSERT_TRUE(header && asked);
      EXPECT_EQ(header->source, v6("::"));
      EXPECT_EQ(header->destination, wire::solicited_node(asked->target));
      EXPECT_EQ(asked->source_link_layer, std::nullopt);
      EXPECT_EQ(frame.to, wire::multicast_mac(header->destination));
    }
  }
  ASSERT_EQ(probes.size(), 3U);
  EXPECT_LE(probes[0], TimePoint(1s + 10ms));
  for (const std::size_t at : {1U, 2U}) {
    EXPECT_GE(probes[at] - probes[at - 1], 1s - 10ms);
    EXPECT_LE(probes[at] - probes[at - 1], 2s + 10ms);
  }
  EXPECT_GE(bed.now - probes[2], 2s - 10ms) << "ANNOUNCE_WAIT";
  EXPECT_EQ(solicitations, 2) << "one an address";
  EXPECT_FALSE(bed.ip->addresses().settling());
  EXPECT_TRUE(bed.ip->addresses().conflicts().empty());
}

/// RFC 4862 section 5.4: "an interface discards received packets addressed to a tentative address, but accepts Neighbor
/// Discovery packets related to Duplicate Address Detection for the tentative address." Section 5.4.3: "the
/// solicitation's sender is performing address resolution on the target; the solicitation should be silently ignored."
/// RFC 5227 section 2.1: "Before beginning to use an IPv4 address".
TEST(IpAddresses, AreNotUsedWhileTheyAreTentative) {
  Bed bed(detecting());
  bed.bind();
  bed.send("10.77.0.2", pattern(8));
  EXPECT_EQ(uderror_of(bed.next_up()).error, EADDRNOTAVAIL);
  bed.send("fd00:77::2", pattern(8));
  EXPECT_EQ(uderror_of(bed.next_up()).error, EADDRNOTAVAIL);
  bed.arp(ArpOperation::request, "10.77.0.2", "10.77.0.1");
  tell(bed, NeighborSolicitation{v6("fd00:77::1"), other_mac},
       {.source = "fd00:77::2", .destination = "ff02::1:ff00:1"});
  EXPECT_EQ(bed.count("icmp_ignored"), 1U);
  bed.link.inject(wire::ethertype_ipv4, packet(V4{}, pattern(8)));
  bed.link.inject(wire::ethertype_ipv6, packet(V6{}, pattern(8)));
  EXPECT_EQ(bed.count("not_ours"), 2U);
  EXPECT_TRUE(bed.link.sent.empty());
  EXPECT_TRUE(bed.user.received.empty());
  pass(bed, detection_time_max);
  bed.user.received.clear();  // routes are void
  bed.link.sent.clear();
  bed.link.inject(wire::ethertype_ipv4, packet(V4{}, pattern(8)));
  EXPECT_EQ(unitdata_of(bed.next_up()).data, pattern(8));
  bed.send("fd00:77::2", pattern(8));
  EXPECT_THAT(claims_said(bed), testing::ElementsAre("ns fd00:77::2"));
}

TEST(IpAddresses, TellTheUserWhenTheyBecomeOurs) {
  Bed bed(detecting());
  bed.bind();
  pass(bed, detection_time_max);
  ASSERT_EQ(bed.user.received.size(), 3U) << "of each of three addresses";
  EXPECT_TRUE(network::RouteAck::decode(bed.next_up().bytes())->destination.is_unspecified()) << "ask again";
}

/// RFC 4862 section 5.4.3: "If the solicitation is from another node, the tentative address is a duplicate and should
/// not be used (by either node)." Section 5.4.4: "If the target address is tentative, the tentative address is not
/// unique." RFC 5227 section 2.1.1: "If during this period [...] the host receives any ARP packet (Request *or* Reply)
/// on the interface where the probe is being performed, where the packet's 'sender IP address' is the address being
/// probed for, then the host MUST treat this address as being in use by some other host, and should indicate to the
/// configuring agent (human operator, DHCP server, etc.) that the proposed address is not acceptable." And of probes of
/// others for it, "SHOULD similarly treat this as an address conflict".
TEST(IpAddresses, AreNotUsedWhenTheyAreDuplicates) {
  struct Row {
    std::string_view what;
    std::string address;
    std::function<void(Bed&)> claim;
  };
  const Row rows[] = {
      {"advertisement", "fd00:77::1", [](Bed& bed) { claim_v6(bed); }},
      {"solicitation", "fd00:77::1", [](Bed& bed) { ask_v6(bed, "fd00:77::1"); }},
      {"link-local", our_link_local, [](Bed& bed) { claim_v6(bed, our_link_local); }},
      {"reply", "10.77.0.1", [](Bed& bed) { bed.arp(ArpOperation::reply, "10.77.0.1", "0.0.0.0", other_mac); }},
      {"request", "10.77.0.1", [](Bed& bed) { bed.arp(ArpOperation::request, "10.77.0.1", "10.77.0.9", other_mac); }},
      {"probe", "10.77.0.1", [](Bed& bed) { bed.arp(ArpOperation::request, "0.0.0.0", "10.77.0.1", other_mac); }},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.what);
    Bed bed(detecting());
    bed.bind();
    pass(bed, 500ms);
    row.claim(bed);
    EXPECT_EQ(bed.count("address_conflict"), 1U);
    EXPECT_EQ(bed.count("address_duplicate"), 1U);
    EXPECT_THAT(bed.ip->addresses().conflicts(),
                testing::ElementsAre(ip::AddressConflict{address(row.address), other_mac, true}));
    pass(bed, detection_time_max);
    EXPECT_FALSE(bed.ip->addresses().settling());
    bed.link.sent.clear();
    bed.user.received.clear();
    const bool v4_lost = address(row.address).is_v4();
    bed.arp(ArpOperation::request, "10.77.0.2", "10.77.0.1");
    EXPECT_EQ(bed.link.sent.size(), v4_lost ? 0U : 1U) << "no answer for an address that is another's";
    const std::string group = wire::solicited_node(v6("fd00:77::1")).to_text();
    tell(bed, NeighborSolicitation{v6(v4_lost ? "fd00:77::1" : row.address), other_mac},
         {.source = "fe80::9", .destination = group});
    EXPECT_EQ(bed.link.sent.size(), 1U);
    bed.send(v4_lost ? "10.77.0.2" : row.address == our_link_local ? "fe80::5" : "fd00:77::2", pattern(8));
    EXPECT_EQ(uderror_of(bed.next_up()).error, EADDRNOTAVAIL);
    // The link comes back: perhaps another one, or without the other host.
    bed.link.tell(dlpi::NotifyInd{.notification = dlpi::DL_NOTE_LINK_UP, .address = {}}, MessageType::proto);
    EXPECT_TRUE(bed.ip->addresses().settling());
    pass(bed, detection_time_max);
    bed.user.received.clear();
    bed.send(v4_lost ? "10.77.0.2" : row.address == our_link_local ? "fe80::5" : "fd00:77::2", pattern(8));
    EXPECT_TRUE(bed.user.received.empty()) << "and it is ours";
  }
}

/// RFC 4862 section 5.4.3: "If the solicitation is from the node itself (because the node loops back multicast
/// packets), the solicitation does not indicate the presence of a duplicate address." Other streams on our link share
/// our MAC address, and ask the same.
TEST(IpAddresses, OurOwnFramesAreNoConflict) {
  for (const bool detects : {true, false}) {
    Bed bed(detects ? detecting() : both_families());
    ask_v6(bed, "fd00:77::1", our_mac);
    claim_v6(bed, "fd00:77::1", our_mac);
    bed.arp(ArpOperation::request, "0.0.0.0", "10.77.0.1", our_mac);
    bed.arp(ArpOperation::request, "10.77.0.1", "10.77.0.1", our_mac);
    EXPECT_EQ(bed.count("address_conflict"), 0U);
    EXPECT_TRUE(bed.ip->addresses().conflicts().empty());
    pass(bed, detection_time_max);
    EXPECT_EQ(bed.count("address_duplicate"), 0U);
  }
}

/// RFC 5227 section 2.4 (c): such a host "should take appropriate steps to log useful information such as source
/// Ethernet address from the ARP packet, and inform an administrator of the problem [...] if this is not the first
/// conflicting ARP packet the host has seen, and the time recorded for the previous conflicting ARP packet is within
/// DEFEND_INTERVAL seconds, then the host MUST NOT send another defensive ARP Announcement."
///
/// The attack: a host that claims our addresses takes nothing from us, and gets one announcement, however often it
/// claims.
TEST(IpAddresses, AreDefendedAndKept) {
  for (const bool v4_claimed : {true, false}) {
    Bed bed;
    const auto claim = [&] {
      v4_claimed ? bed.arp(ArpOperation::reply, "10.77.0.1", "10.77.0.1", other_mac) : claim_v6(bed);
    };
    const std::string defence = v4_claimed ? "announcement" : "na fd00:77::1";
    claim();
    EXPECT_THAT(claims_said(bed), testing::ElementsAre(defence));
    for (int second = 0; second < 100; ++second) {
      bed.advance(1s);
      claim();
    }
    EXPECT_TRUE(bed.link.sent.empty());
    bed.advance(Addresses::defend_interval);
    claim();
    EXPECT_THAT(claims_said(bed), testing::ElementsAre(defence));
    EXPECT_EQ(bed.count("address_conflict"), 102U);
    EXPECT_EQ(bed.count("address_defended"), 2U);
    EXPECT_EQ(bed.count("address_duplicate"), 0U);
    EXPECT_THAT(
        bed.ip->addresses().conflicts(),
        testing::ElementsAre(ip::AddressConflict{address(v4_claimed ? "10.77.0.1" : "fd00:77::1"), other_mac, false}))
        << "told once";
    bed.bind();
    bed.link.inject(wire::ethertype_ipv4, packet(V4{}, pattern(8)));
    bed.link.inject(wire::ethertype_ipv6, packet(V6{}, pattern(8)));
    EXPECT_EQ(bed.user.received.size(), 2U) << "still ours";
  }
}

/// RFC 4861 section 7.1.2: "The IP Hop Limit field has a value of 255, i.e., the packet could not possibly have been
/// forwarded by a router", and "If the IP Destination Address is a multicast address the Solicited flag is zero."
TEST(IpAddresses, WhatIsNoNeighbourDiscoveryTakesNothing) {
  Bed bed(detecting());
  NeighborAdvertisement claim{false, false, true, v6("fd00:77::1"), other_mac};
  tell(bed, claim, {.hop_limit = 254});
  claim.solicited = true;
  tell(bed, claim, {});
  EXPECT_EQ(bed.count("bad_ndp"), 2U);
  EXPECT_EQ(bed.count("address_conflict"), 0U);
  claim.solicited = false;
  tell(bed, claim, {});
  EXPECT_EQ(bed.count("address_conflict"), 1U) << "the plain one";
}

}  // namespace
}  // namespace sluice::ip_test
