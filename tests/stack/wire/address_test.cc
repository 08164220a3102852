// SPDX-License-Identifier: Apache-2.0
#include "stack/wire/address.h"

#include <gtest/gtest.h>

#include <string>
#include <unordered_set>

#include "tests/stack/wire/bytes.h"

namespace sluice::wire {
namespace {

using test::Buffer;
using test::hex;

IpAddress ip(std::string_view text) { return IpAddress::from_text(text).value(); }
IpPrefix prefix(std::string_view text) { return IpPrefix::from_text(text).value(); }

TEST(MacAddress, TextRoundTrips) {
  const auto mac = MacAddress::from_text("02:0A:ff-00:10:9f");
  ASSERT_TRUE(mac);
  EXPECT_EQ(mac->to_text(), "02:0a:ff:00:10:9f");
  EXPECT_EQ(MacAddress::from_text(mac->to_text()).value(), *mac);
}

TEST(MacAddress, BadTextIsNamed) {
  for (const char* text :
       {"", "02:00:00:00:00", "02:00:00:00:00:01:", "02:00:00:00:00:0g", "02.00.00.00.00.01", "02:00:00:00:000:1"}) {
    const auto mac = MacAddress::from_text(text);
    ASSERT_FALSE(mac) << text;
    EXPECT_EQ(mac.error().code, EINVAL);
    EXPECT_NE(mac.error().text.find("a MAC address such as"), std::string::npos) << mac.error().text;
  }
}

TEST(MacAddress, Kinds) {
  EXPECT_TRUE(mac_broadcast.is_broadcast());
  EXPECT_TRUE(mac_broadcast.is_multicast());
  EXPECT_TRUE((MacAddress{{0x01, 0, 0x5e, 0, 0, 1}}.is_multicast()));
  EXPECT_FALSE((MacAddress{{0x02, 0, 0, 0, 0, 1}}.is_multicast()));
  EXPECT_TRUE(MacAddress{}.is_unspecified());
}

TEST(Ipv4Address, TextRoundTrips) {
  const auto address = Ipv4Address::from_text("10.77.0.255");
  ASSERT_TRUE(address);
  EXPECT_EQ(address->value(), 0x0a4d'00ffU);
  EXPECT_EQ(Ipv4Address::from_value(0x0a4d'00ffU), *address);
  EXPECT_EQ(address->to_text(), "10.77.0.255");
}

TEST(IpAddress, BadTextIsNamed) {
  const std::string nul("10.0.0.1\0", 9);
  for (const std::string& text :
       {std::string("10.0.0"), std::string("10.0.0.256"), std::string("10.0.0.01"), std::string("10.0.0.1 "),
        std::string(""), std::string("fd00:::1"), std::string("fd00::1%eth0"), std::string("1:2:3:4:5:6:7:8:9"), nul,
        std::string(200, '1')}) {
    const auto address = IpAddress::from_text(text);
    ASSERT_FALSE(address) << text;
    EXPECT_NE(address.error().text.find("such as 10.77.0.1 or fd00::1"), std::string::npos) << address.error().text;
  }
  EXPECT_FALSE(Ipv4Address::from_text("fd00::1"));
  EXPECT_FALSE(Ipv6Address::from_text("10.0.0.1"));
}

struct Form {
  const char* given;
  const char* canonical;
};

// RFC 5952: the examples of its sections 1, 2, 4 and 5.
TEST(Ipv6Address, IsWrittenAsRfc5952Says) {
  for (const auto& [given, canonical] : {
           // 4.1 "Leading zeros MUST be suppressed. For example, 2001:0db8::0001 is not acceptable"
           Form{"2001:0db8::0001", "2001:db8::1"},
           // 4.2.1 "2001:db8:0:0:0:0:2:1 must be shortened to 2001:db8::2:1"
           Form{"2001:db8:0:0:0:0:2:1", "2001:db8::2:1"},
           Form{"2001:db8::0:1", "2001:db8::1"},
           // 4.2.2 "The symbol "::" MUST NOT be used to shorten just one 16-bit 0 field."
           Form{"2001:db8::1:1:1:1:1", "2001:db8:0:1:1:1:1:1"},
           // 4.2.3 "the longest run of consecutive 16-bit 0 fields MUST be shortened"
           Form{"2001:0:0:1:0:0:0:1", "2001:0:0:1::1"},
           // 4.2.3 "the first sequence of zero bits MUST be shortened"
           Form{"2001:db8:0:0:1:0:0:1", "2001:db8::1:0:0:1"},
           // 4.3 "a", "b", "c", "d", "e", and "f" [...] MUST be represented in lowercase"
           Form{"2001:DB8::ABCD:EF12", "2001:db8::abcd:ef12"},
           // 5 "::ffff:192.0.2.1"
           Form{"::ffff:c000:0201", "::ffff:192.0.2.1"},
           Form{"::", "::"},
           Form{"0:0:0:0:0:0:0:1", "::1"},
           Form{"fe80:0:0:0:0:0:0:0", "fe80::"},
       }) {
    EXPECT_EQ(Ipv6Address::from_text(given).value().to_text(), canonical) << given;
    EXPECT_EQ(Ipv6Address::from_text(canonical).value(), Ipv6Address::from_text(given).value());
  }
}

struct AddressKind {
  const char* text;
  bool unspecified, loopback, link_local, multicast, broadcast;
};

TEST(IpAddress, Kinds) {
  for (const auto& kind : {
           AddressKind{"0.0.0.0", true, false, false, false, false},
           AddressKind{"127.255.0.1", false, true, false, false, false},
           AddressKind{"128.0.0.1", false, false, false, false, false},
           AddressKind{"169.254.1.1", false, false, true, false, false},
           AddressKind{"169.255.1.1", false, false, false, false, false},
           AddressKind{"224.0.0.1", false, false, false, true, false},
           AddressKind{"239.255.255.255", false, false, false, true, false},
           AddressKind{"240.0.0.1", false, false, false, false, false},
           AddressKind{"255.255.255.255", false, false, false, false, true},
           AddressKind{"::", true, false, false, false, false},
           AddressKind{"::1", false, true, false, false, false},
           AddressKind{"fe80::1", false, false, true, false, false},
           AddressKind{"febf::1", false, false, true, false, false},
           AddressKind{"fec0::1", false, false, false, false, false},
           AddressKind{"ff02::1", false, false, false, true, false},
           AddressKind{"fd00::1", false, false, false, false, false},
       }) {
    const IpAddress address = ip(kind.text);
    EXPECT_EQ(address.is_unspecified(), kind.unspecified) << kind.text;
    EXPECT_EQ(address.is_loopback(), kind.loopback) << kind.text;
    EXPECT_EQ(address.is_link_local(), kind.link_local) << kind.text;
    EXPECT_EQ(address.is_multicast(), kind.multicast) << kind.text;
    EXPECT_EQ(address.is_broadcast(), kind.broadcast) << kind.text;
    EXPECT_EQ(address.to_text(), kind.text);
  }
}

TEST(IpAddress, FamiliesNeverCompareEqual) {
  EXPECT_NE(ip("0.0.0.0"), ip("::"));
  EXPECT_NE(ip("192.0.2.1"), ip("::ffff:192.0.2.1"));
  EXPECT_TRUE(ip("::ffff:192.0.2.1").v6().is_ipv4_mapped());
  EXPECT_FALSE(ip("::fffe:192.0.2.1").v6().is_ipv4_mapped());
}

TEST(IpAddress, HashTellsNeighboursApart) {
  std::unordered_set<std::size_t> hashes;
  for (std::uint32_t host = 0; host < 1000; ++host) {
    hashes.insert(std::hash<IpAddress>{}(Ipv4Address::from_value(0x0a4d'0000U + host)));
    hashes.insert(std::hash<TransportAddress>{}({ip("fd00::1"), static_cast<std::uint16_t>(host)}));
    hashes.insert(std::hash<MacAddress>{}(
        {{2, 0, 0, 0, static_cast<std::uint8_t>(host / 256), static_cast<std::uint8_t>(host)}}));
  }
  EXPECT_EQ(hashes.size(), 3000U);
}

TEST(IpPrefix, TextRoundTrips) {
  for (const char* text : {"10.77.0.1/24", "0.0.0.0/0", "10.0.0.1/32", "fd00::1/64", "::/0", "::1/128"}) {
    EXPECT_EQ(prefix(text).to_text(), text);
  }
}

TEST(IpPrefix, BadTextIsNamed) {
  for (const char* text : {"10.77.0.1", "10.77.0.1/", "10.77.0.1/33", "10.77.0.1/-1", "10.77.0.1/024", "fd00::1/129",
                           "10.77.0/24", "/24", "10.77.0.1/24/1", "10.77.0.1/99999"}) {
    const auto parsed = IpPrefix::from_text(text);
    ASSERT_FALSE(parsed) << text;
    EXPECT_EQ(parsed.error().text,
              "expected an IPv4 or IPv6 address with a prefix length such as 10.77.0.1/24, got \"" + std::string(text) +
                  "\"");
  }
}

TEST(IpPrefix, Contains) {
  EXPECT_TRUE(prefix("10.77.0.1/24").contains(ip("10.77.0.255")));
  EXPECT_FALSE(prefix("10.77.0.1/24").contains(ip("10.77.1.0")));
  EXPECT_TRUE(prefix("10.77.0.1/23").contains(ip("10.77.1.0")));
  EXPECT_TRUE(prefix("0.0.0.0/0").contains(ip("255.1.2.3")));
  EXPECT_FALSE(prefix("0.0.0.0/0").contains(ip("::")));
  EXPECT_TRUE(prefix("fd00::1/127").contains(ip("fd00::")));
  EXPECT_FALSE(prefix("fd00::1/128").contains(ip("fd00::")));
  EXPECT_TRUE(prefix("fd00:0:0:8000::/49").contains(ip("fd00:0:0:ffff::")));
  EXPECT_EQ(prefix("10.77.255.129/25").network(), ip("10.77.255.128"));
}

TEST(IpPrefix, DirectedBroadcast) {
  EXPECT_TRUE(prefix("10.77.0.1/24").is_broadcast(ip("10.77.0.255")));
  EXPECT_FALSE(prefix("10.77.0.1/24").is_broadcast(ip("10.77.0.254")));
  EXPECT_TRUE(prefix("10.77.0.1/30").is_broadcast(ip("10.77.0.3")));
  // RFC 3021 section 2.1: a 31-bit prefix leaves no directed broadcast.
  EXPECT_FALSE(prefix("10.77.0.0/31").is_broadcast(ip("10.77.0.1")));
  EXPECT_FALSE(prefix("10.77.0.1/32").is_broadcast(ip("10.77.0.1")));
  EXPECT_FALSE(prefix("fd00::/64").is_broadcast(ip("fd00::ffff:ffff:ffff:ffff")));
}

TEST(TransportAddress, TextRoundTrips) {
  for (const char* text : {"10.0.0.1:7000", "[fd00::1]:7000", "0.0.0.0:0", "[::]:65535"}) {
    EXPECT_EQ(TransportAddress::from_text(text).value().to_text(), text);
  }
}

TEST(TransportAddress, BadTextIsNamed) {
  for (const char* text : {"10.0.0.1", "10.0.0.1:", "10.0.0.1:65536", "10.0.0.1:07", "fd00::1:7000", "[10.0.0.1]:7000",
                           "[fd00::1]7000", "[]:1", "[fd00::1:7000", ":7000", "10.0.0.1:+7"}) {
    const auto parsed = TransportAddress::from_text(text);
    ASSERT_FALSE(parsed) << text;
    EXPECT_NE(parsed.error().text.find("such as 10.0.0.1:7000 or [fd00::1]:7000"), std::string::npos);
  }
}

TEST(TransportAddress, HasExactTpiBytes) {
  Buffer bytes(TransportAddress::encoded_size_max);
  const TransportAddress v4{ip("10.77.0.1"), 7000};
  bytes.resize(v4.encode(bytes));
  EXPECT_EQ(bytes, hex("04 00 1b58 0a4d0001"));
  EXPECT_EQ(TransportAddress::decode(bytes), v4);

  bytes.resize(TransportAddress::encoded_size_max);
  const TransportAddress v6{ip("fd00::1"), 443};
  bytes.resize(v6.encode(bytes));
  EXPECT_EQ(bytes, hex("06 00 01bb fd000000000000000000000000000001"));
  EXPECT_EQ(TransportAddress::decode(bytes), v6);
}

TEST(NetworkAddress, HasExactTpiBytes) {
  Buffer bytes(NetworkAddress::encoded_size_max);
  const NetworkAddress address{ip("10.77.0.1"), 17};
  bytes.resize(address.encode(bytes));
  EXPECT_EQ(bytes, hex("04 11 0000 0a4d0001"));
  EXPECT_EQ(NetworkAddress::decode(bytes), address);
}

struct MalformedBytes {
  const char* bytes;
  AddressMalformed transport, network;
};

TEST(TpiAddress, MalformedBytesAreNamed) {
  using enum AddressMalformed;
  for (const auto& [bytes, transport, network] : {
           MalformedBytes{"", bad_family, bad_family},
           MalformedBytes{"05 00 0000 0a4d0001", bad_family, bad_family},
           MalformedBytes{"04", bad_length, bad_length},
           MalformedBytes{"04 00 0000 0a4d00", bad_length, bad_length},
           MalformedBytes{"04 00 0000 0a4d000100", bad_length, bad_length},
           MalformedBytes{"06 00 0000 0a4d0001", bad_length, bad_length},
           MalformedBytes{"04 11 0001 0a4d0001", bad_reserved, bad_reserved},
       }) {
    EXPECT_EQ(TransportAddress::decode(hex(bytes)).error(), transport) << bytes;
    EXPECT_EQ(NetworkAddress::decode(hex(bytes)).error(), network) << bytes;
  }
}

}  // namespace
}  // namespace sluice::wire
