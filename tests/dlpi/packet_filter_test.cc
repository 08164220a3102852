// SPDX-License-Identifier: Apache-2.0
// What the program of packet sockets lets through, carried out by the kernel on a pair of Unix sockets.
#include "dlpi/packet_filter.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/descriptor.h"
#include "stack/wire/protocol.h"

namespace sluice::dlpi {
namespace {

using Rules = PacketFilterRules;

constexpr wire::MacAddress ours{{0x02, 0, 0, 0, 0, 1}};
constexpr wire::MacAddress other{{0x02, 0, 0, 0, 0, 2}};
constexpr wire::MacAddress group{{0x33, 0x33, 0, 0, 0, 1}};
constexpr std::size_t all_of_it = 1000;

wire::IpAddress host(const std::string& text) { return *wire::IpAddress::from_text(text); }

std::vector<std::byte> frame(const wire::MacAddress& to, std::uint16_t type, std::size_t size = all_of_it) {
  std::vector<std::byte> bytes(std::max(size, wire::EthernetHeader::size));
  std::ranges::copy(std::as_bytes(std::span(to.octets)), bytes.begin());
  store_big_endian(bytes.data() + 12, type);
  bytes.resize(size);
  return bytes;
}

std::vector<std::byte> packet(const std::string& to, const wire::MacAddress& station = ours,
                              std::size_t size = all_of_it) {
  const wire::IpAddress destination = host(to);
  std::vector<std::byte> bytes =
      frame(station, destination.is_v4() ? wire::ethertype_ipv4 : wire::ethertype_ipv6, all_of_it);
  destination.store(bytes.data() + wire::EthernetHeader::size + (destination.is_v4() ? 16 : 24));
  bytes.resize(size);
  return bytes;
}

/// How many bytes of a frame come through; 0: none.
std::size_t through(const Rules& rules, const std::vector<std::byte>& bytes) {
  int pair[2];
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0, pair), 0);
  const Descriptor near(pair[0]);
  const Descriptor far(pair[1]);
  std::vector<sock_filter> program = packet_filter(rules);
  const sock_fprog filter{static_cast<unsigned short>(program.size()), program.data()};
  EXPECT_EQ(::setsockopt(far.get(), SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof filter), 0) << strerror(errno);
  static_cast<void>(::send(near.get(), bytes.data(), bytes.size(), 0));
  std::vector<std::byte> came(2 * all_of_it);
  return static_cast<std::size_t>(std::max<ssize_t>(0, ::recv(far.get(), came.data(), came.size(), 0)));
}

TEST(PacketFilter, WithoutRulesEverythingComes) {
  EXPECT_EQ(through({}, frame(other, 0x1234)), all_of_it);
  EXPECT_EQ(through({}, packet("192.0.2.7", other)), all_of_it);
}

TEST(PacketFilter, OfOtherStationsOnlyTheHeaderComes) {
  const Rules rules{.station = ours, .types = {}, .hosts = {}};
  EXPECT_EQ(through(rules, frame(ours, 0x1234)), all_of_it);
  EXPECT_EQ(through(rules, frame(group, 0x1234)), all_of_it);
  EXPECT_EQ(through(rules, frame(wire::mac_broadcast, 0x1234)), all_of_it);
  for (std::size_t octet = 0; octet < wire::MacAddress::size; ++octet) {
    wire::MacAddress near_miss = ours;
    near_miss.octets[octet] ^= 0x10;
    EXPECT_EQ(through(rules, frame(near_miss, 0x1234)), unwanted_bytes) << octet;
  }
  EXPECT_EQ(through(rules, frame(ours, 0x1234, 13)), 13U) << "who asks for its type alone finds it too short";
}

TEST(PacketFilter, OfOtherTypesOnlyTheHeaderComes) {
  for (const std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{3}, Rules::types_max}) {
    std::vector<std::uint16_t> types;
    for (std::size_t at = 0; at < count; ++at) {
      types.push_back(static_cast<std::uint16_t>(0x1000 + at));
    }
    const Rules rules{.station = {}, .types = types, .hosts = {}};
    for (const std::uint16_t type : types) {
      ASSERT_EQ(through(rules, frame(other, type)), all_of_it) << type << " of " << count;
    }
    EXPECT_EQ(through(rules, frame(other, 0x0fff)), unwanted_bytes) << count;
    EXPECT_EQ(through(rules, frame(other, static_cast<std::uint16_t>(0x1000 + count))), unwanted_bytes) << count;
    EXPECT_EQ(through(rules, frame(other, 0x1000, 13)), 0U);
  }
  const Rules many{.station = {}, .types = std::vector<std::uint16_t>(Rules::types_max + 1, 0x1000), .hosts = {}};
  EXPECT_EQ(through(many, frame(other, 0x2000)), all_of_it) << "so many that all come";
}

struct Case {
  const char* what;
  std::vector<std::byte> bytes;
  std::size_t comes;
};

TEST(PacketFilter, PacketsToOtherHostsAreTheKernels) {
  const Rules rules{
      .station = ours,
      .types = std::vector<std::uint16_t>{wire::ethertype_ipv4, wire::ethertype_arp, wire::ethertype_ipv6},
      .hosts = std::vector{host("192.0.2.1"), host("192.0.2.255"), host("fe80::1"), host("2001:db8::7")}};
  const Case cases[] = {
      {"the first of ours", packet("192.0.2.1"), all_of_it},
      {"the second", packet("192.0.2.255"), all_of_it},
      {"IPv6", packet("fe80::1"), all_of_it},
      {"its second", packet("2001:db8::7"), all_of_it},
      {"nobody's", packet("192.0.2.2"), 0},
      {"the first word is ours", packet("2001:db8::8"), 0},
      {"the last is", packet("2001:db9::7"), 0},
      {"the third is another's", packet("2001:db8:0:0:0:1::7"), 0},
      {"of both ours some", packet("fe80::7"), 0},
      {"ours, at another station", packet("192.0.2.1", other), unwanted_bytes},
      {"nobody's, to a group of the link", packet("192.0.2.2", group), all_of_it},
      {"nobody's, to all on the link", packet("2001:db8::8", wire::mac_broadcast), all_of_it},
      {"a group, sent to us alone", packet("224.0.0.251"), all_of_it},
      {"everybody, sent to us alone", packet("255.255.255.255"), all_of_it},
      {"an IPv6 group, sent to us alone", packet("ff02::fb"), all_of_it},
      {"the last address before the groups", packet("223.255.255.255"), 0},
      {"no IP", frame(ours, wire::ethertype_arp), all_of_it},
      {"a type of nobody's", frame(ours, 0x1234), unwanted_bytes},
      {"just long enough, IPv4", packet("192.0.2.2", ours, 34), 0},
      {"too short, IPv4", packet("192.0.2.2", ours, 33), 33},
      {"just long enough, IPv6", packet("2001:db8::8", ours, 54), 0},
      {"too short, IPv6", packet("2001:db8::8", ours, 53), 53},
  };
  for (const Case& one : cases) {
    EXPECT_EQ(through(rules, one.bytes), one.comes) << one.what;
  }
}

TEST(PacketFilter, HasRoomForManyHosts) {
  Rules rules{.station = {}, .types = {}, .hosts = std::vector<wire::IpAddress>()};
  EXPECT_EQ(through(rules, packet("192.0.2.1")), 0U) << "no host is ours";
  for (std::size_t at = 0; at < Rules::hosts_max; ++at) {
    rules.hosts->push_back(host("2001:db8::" + std::to_string(at)));
  }
  EXPECT_EQ(through(rules, packet("2001:db8::0")), all_of_it);
  EXPECT_EQ(through(rules, packet("2001:db8::63")), all_of_it);
  EXPECT_EQ(through(rules, packet("2001:db8::64")), 0U);
  EXPECT_EQ(through(rules, packet("192.0.2.1")), 0U);
  rules.hosts->push_back(host("192.0.2.9"));
  EXPECT_EQ(through(rules, packet("192.0.2.1")), all_of_it) << "so many that all come";
}

}  // namespace
}  // namespace sluice::dlpi
