// SPDX-License-Identifier: Apache-2.0
// Ethernet and ARP.
#include <gtest/gtest.h>

#include "stack/wire/arp.h"
#include "stack/wire/ethernet.h"
#include "tests/stack/wire/bytes.h"

namespace sluice::wire {
namespace {

using namespace test;  // bytes.h

TEST(Ethernet, RoundTrips) {
  const EthernetHeader header{mac_a, mac_b, ethertype_ipv6};
  Buffer frame(EthernetHeader::size);
  header.emit(frame);
  EXPECT_EQ(frame, hex("02000000000a 02000000000b 86dd"));
  EXPECT_EQ(EthernetHeader::parse(frame), header);
}

TEST(Ethernet, MalformedFramesAreNamed) {
  const Buffer frame = hex("02000000000a 02000000000b 0800");
  EXPECT_EQ(EthernetHeader::parse({}).error(), EthernetMalformed::short_frame);
  EXPECT_EQ(EthernetHeader::parse(first(frame, 13)).error(), EthernetMalformed::short_frame);
  EXPECT_EQ(EthernetHeader::parse(with(frame, 12, 0x05)).error(), EthernetMalformed::not_ethertype);
  EXPECT_TRUE(EthernetHeader::parse(with(frame, 12, 0x06)));
}

// RFC 1112 section 6.4 and RFC 2464 section 7.
TEST(Ethernet, MapsGroups) {
  const auto group = [](std::string_view text) { return multicast_mac(IpAddress::from_text(text).value()).to_text(); };
  EXPECT_EQ(group("224.0.0.1"), "01:00:5e:00:00:01");
  EXPECT_EQ(group("239.255.1.2"), "01:00:5e:7f:01:02");
  EXPECT_EQ(group("ff02::1:ff00:abcd"), "33:33:ff:00:ab:cd");
}

const Buffer arp_request = hex("0001 0800 06 04 0001 02000000000a 0a4d0001 000000000000 0a4d0002");

TEST(Arp, RoundTrips) {
  const ArpPacket request{ArpOperation::request, mac_a, {{10, 77, 0, 1}}, {}, {{10, 77, 0, 2}}};
  Buffer bytes(ArpPacket::size);
  request.emit(bytes);
  EXPECT_EQ(bytes, arp_request);
  EXPECT_EQ(ArpPacket::parse(bytes), request);

  const ArpPacket reply{ArpOperation::reply, mac_b, {{10, 77, 0, 2}}, mac_a, {{10, 77, 0, 1}}};
  reply.emit(bytes);
  bytes.resize(46);  // as padded to the shortest Ethernet frame
  EXPECT_EQ(ArpPacket::parse(bytes), reply);
}

TEST(Arp, MalformedPacketsAreNamed) {
  using enum ArpMalformed;
  EXPECT_EQ(ArpPacket::parse(first(arp_request, 27)).error(), short_packet);
  EXPECT_EQ(ArpPacket::parse(with(arp_request, 1, 6)).error(), bad_hardware);
  EXPECT_EQ(ArpPacket::parse(with(arp_request, 4, 8)).error(), bad_hardware);
  EXPECT_EQ(ArpPacket::parse(with(arp_request, 2, 0x86)).error(), bad_protocol);
  EXPECT_EQ(ArpPacket::parse(with(arp_request, 5, 16)).error(), bad_protocol);
  EXPECT_EQ(ArpPacket::parse(with(arp_request, 7, 0)).error(), bad_operation);
  EXPECT_EQ(ArpPacket::parse(with(arp_request, 7, 3)).error(), bad_operation);
}

}  // namespace
}  // namespace sluice::wire
