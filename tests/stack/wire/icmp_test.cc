// SPDX-License-Identifier: Apache-2.0
// ICMP for IPv4, ICMPv6 and neighbour discovery.
#include <gtest/gtest.h>

#include "stack/wire/icmp4.h"
#include "stack/wire/icmp6.h"
#include "stack/wire/ndp.h"
#include "tests/stack/wire/bytes.h"

namespace sluice::wire {
namespace {

using namespace test;  // bytes.h

const MacAddress mac{{0x02, 0x11, 0x22, 0x33, 0x44, 0x55}};
const Ipv6Address target = Ipv6Address::from_text("fe80::11:22ff:fe33:4455").value();

struct Example4 {
  const char* bytes;
  Icmp4Message message;
  bool error;
};

TEST(Icmp4, RoundTrips) {
  for (const auto& [bytes, message, error] : {
           Example4{"08 00 0000 1234 0007", IcmpEcho{false, 0x1234, 7}, false},
           Example4{"00 00 0000 1234 0007", IcmpEcho{true, 0x1234, 7}, false},
           Example4{"03 03 0000 0000 0000", Icmp4Unreachable{Icmp4UnreachableCode::port, 0}, true},
           // RFC 1191 section 4: the next-hop MTU is in "the low-order 16 bits" of the word unused in RFC 792.
           Example4{"03 04 0000 0000 05dc", Icmp4Unreachable{Icmp4UnreachableCode::fragmentation_needed, 1500}, true},
           Example4{"0b 01 0000 0000 0000", Icmp4TimeExceeded{1}, true},
           Example4{"0c 00 0000 1400 0000", Icmp4ParameterProblem{0, 20}, true},
       }) {
    Buffer header(icmp_header_size);
    emit_icmp4(message, header);
    EXPECT_EQ(header, hex(bytes));
    EXPECT_EQ(parse_icmp4(header), message) << bytes;
    EXPECT_EQ(is_error(message), error) << bytes;
  }
}

TEST(Icmp4, MalformedMessagesAreNamed) {
  EXPECT_EQ(parse_icmp4(hex("08 00 0000 1234 00")).error(), Icmp4Malformed::short_message);
  EXPECT_EQ(parse_icmp4(hex("08 01 0000 1234 0007")).error(), Icmp4Malformed::bad_code);
  EXPECT_EQ(parse_icmp4(hex("05 00 0000 0a4d0001")).error(), Icmp4Malformed::unknown_type);
}

TEST(Icmp4, UnusedFieldsAreIgnored) {
  EXPECT_EQ(parse_icmp4(hex("03 01 ffff ffff ffff")), (Icmp4Message{Icmp4Unreachable{Icmp4UnreachableCode::host, 0}}));
}

struct Example6 {
  const char* bytes;
  Icmp6Message message;
  bool error;
};

TEST(Icmp6, RoundTrips) {
  for (const auto& [bytes, message, error] : {
           Example6{"80 00 0000 1234 0007", IcmpEcho{false, 0x1234, 7}, false},
           Example6{"81 00 0000 1234 0007", IcmpEcho{true, 0x1234, 7}, false},
           Example6{"01 04 0000 00000000", Icmp6Unreachable{Icmp6UnreachableCode::port}, true},
           Example6{"02 00 0000 00000500", Icmp6PacketTooBig{1280}, true},
           Example6{"03 00 0000 00000000", Icmp6TimeExceeded{0}, true},
           Example6{"04 01 0000 00000028", Icmp6ParameterProblem{1, 40}, true},
       }) {
    Buffer header(icmp_header_size);
    emit_icmp6(message, header);
    EXPECT_EQ(header, hex(bytes));
    EXPECT_EQ(parse_icmp6(header), message) << bytes;
    EXPECT_EQ(is_error(message), error) << bytes;
  }
}

TEST(Icmp6, MalformedMessagesAreNamed) {
  EXPECT_EQ(parse_icmp6({}).error(), Icmp6Malformed::short_message);
  EXPECT_EQ(parse_icmp6(hex("80 00 0000 1234 00")).error(), Icmp6Malformed::short_message);
  EXPECT_EQ(parse_icmp6(hex("81 01 0000 1234 0007")).error(), Icmp6Malformed::bad_code);
  EXPECT_EQ(parse_icmp6(hex("87 00 0000 00000000")).error(), Icmp6Malformed::unknown_type);
}

// RFC 4443 section 3.2: the code of Packet Too Big is "ignored by the receiver".
TEST(Icmp6, TheCodeOfPacketTooBigIsIgnored) {
  EXPECT_EQ(parse_icmp6(hex("02 09 0000 00000500")), Icmp6Message{Icmp6PacketTooBig{1280}});
}

TEST(Icmp6, TheTypeTellsWhichDecoderToCall) {
  EXPECT_EQ(icmp6_type(hex("87")), Icmp6Type::neighbor_solicitation);
  EXPECT_FALSE(icmp6_type({}));
}

const Buffer solicitation = hex("87 00 0000 00000000 fe80 000000000000 0011 22ff fe33 4455 01 01 021122334455");
const Buffer advertisement = hex("88 00 0000 60000000 fe80 000000000000 0011 22ff fe33 4455 02 01 021122334455");

TEST(Ndp, SolicitationRoundTrips) {
  const NeighborSolicitation message{target, mac};
  Buffer bytes(NeighborSolicitation::size_max);
  bytes.resize(message.emit(bytes));
  EXPECT_EQ(bytes, solicitation);
  EXPECT_EQ(NeighborSolicitation::parse(bytes), message);

  const NeighborSolicitation probe{target, {}};
  bytes.resize(NeighborSolicitation::size_max);
  bytes.resize(probe.emit(bytes));
  EXPECT_EQ(bytes, first(solicitation, 24));
  EXPECT_EQ(NeighborSolicitation::parse(bytes), probe);
}

TEST(Ndp, AdvertisementRoundTrips) {
  const NeighborAdvertisement message{false, true, true, target, mac};
  Buffer bytes(NeighborAdvertisement::size_max);
  bytes.resize(message.emit(bytes));
  EXPECT_EQ(bytes, advertisement);
  EXPECT_EQ(NeighborAdvertisement::parse(bytes), message);

  const NeighborAdvertisement router{true, false, false, target, {}};
  bytes.resize(NeighborAdvertisement::size_max);
  bytes.resize(router.emit(bytes));
  EXPECT_EQ(bytes, with(first(advertisement, 24), 4, 0x80));
  EXPECT_EQ(NeighborAdvertisement::parse(bytes), router);
}

TEST(Ndp, OtherOptionsArePassedOver) {
  // A nonce option (14) before the link-layer address; RFC 4861 section 4.3: "Receivers MUST
  // silently ignore any options they do not recognize and continue processing the message."
  const Buffer message =
      first(solicitation, 24) + hex("0e 02 000102030405060708090a0b0c0d") + hex("01 01 021122334455");
  EXPECT_EQ(NeighborSolicitation::parse(message), (NeighborSolicitation{target, mac}));
  // A target link-layer address in a solicitation is another option too.
  EXPECT_EQ(NeighborSolicitation::parse(with(solicitation, 24, 2)), (NeighborSolicitation{target, {}}));
}

// RFC 4861 sections 7.1.1 and 7.1.2.
TEST(Ndp, MalformedMessagesAreNamed) {
  using enum NdpMalformed;
  EXPECT_EQ(NeighborSolicitation::parse(first(solicitation, 23)).error(), short_message);
  EXPECT_EQ(NeighborSolicitation::parse(advertisement).error(), wrong_type);
  EXPECT_EQ(NeighborAdvertisement::parse(solicitation).error(), wrong_type);
  EXPECT_EQ(NeighborSolicitation::parse(with(solicitation, 1, 1)).error(), bad_code);
  EXPECT_EQ(NeighborSolicitation::parse(with(solicitation, 8, 0xff)).error(), multicast_target);
  EXPECT_EQ(NeighborAdvertisement::parse(with(advertisement, 8, 0xff)).error(), multicast_target);
  EXPECT_EQ(NeighborSolicitation::parse(with(solicitation, 25, 0)).error(), bad_option);
  EXPECT_EQ(NeighborSolicitation::parse(with(solicitation, 25, 2)).error(), bad_option);
  EXPECT_EQ(NeighborSolicitation::parse(first(solicitation, 31)).error(), bad_option);
  EXPECT_EQ(NeighborAdvertisement::parse(with(advertisement, 25, 2) + Buffer(8)).error(), bad_option);
  // The options behind a good one are checked as well.
  EXPECT_EQ(NeighborSolicitation::parse(solicitation + Buffer(8)).error(), bad_option);
}

TEST(Ndp, MessageAndAddressesMustAgree) {
  const Ipv6Address host = Ipv6Address::from_text("fe80::1").value();
  const Ipv6Address all_nodes = Ipv6Address::from_text("ff02::1").value();
  EXPECT_TRUE(valid_solicitation({target, mac}, host, solicited_node(target)));
  EXPECT_TRUE(valid_solicitation({target, {}}, {}, solicited_node(target)));
  EXPECT_FALSE(valid_solicitation({target, mac}, {}, solicited_node(target)));
  EXPECT_FALSE(valid_solicitation({target, {}}, {}, target));
  EXPECT_TRUE(valid_advertisement({false, true, true, target, mac}, host));
  EXPECT_TRUE(valid_advertisement({false, false, true, target, mac}, all_nodes));
  EXPECT_FALSE(valid_advertisement({false, true, true, target, mac}, all_nodes));
}

// RFC 4291 section 2.7.1: "4037::01:800:200E:8C6C is FF02::1:FF0E:8C6C"; appendix A and RFC 2464 section 4:
// "34-56-78-9A-BC-DE" gives "36-56-78-FF-FE-9A-BC-DE".
TEST(Ndp, DerivesAddresses) {
  EXPECT_EQ(solicited_node(Ipv6Address::from_text("4037::01:800:200E:8C6C").value()).to_text(), "ff02::1:ff0e:8c6c");
  EXPECT_EQ(link_local_address(MacAddress::from_text("34-56-78-9A-BC-DE").value()).to_text(),
            "fe80::3656:78ff:fe9a:bcde");
}

}  // namespace
}  // namespace sluice::wire
