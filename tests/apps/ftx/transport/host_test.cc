// SPDX-License-Identifier: Apache-2.0
// Which addresses belong to one host: a server bounds what a host may hold.
#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

#include "apps/ftx/transport/transport.h"

namespace sluice::ftx {
namespace {

/// What the address's host has in common with its other addresses.
std::vector<std::byte> host(const std::string& ip, std::uint16_t port) {
  const Peer peer = peer_of({wire::IpAddress::from_text(ip).value(), port});
  const ConstBytes part = host_of(peer.address());
  return {part.begin(), part.end()};
}

TEST(HostOf, ThePortIsNotPartOfIt) {
  EXPECT_EQ(host("192.0.2.1", 1), host("192.0.2.1", 2));
  EXPECT_NE(host("192.0.2.1", 1), host("192.0.2.2", 1));
  EXPECT_EQ(host("2001:db8::1", 1), host("2001:db8::1", 2));
}

TEST(HostOf, AnIpv6HostChoosesItsLast64Bits) {
  EXPECT_EQ(host("2001:db8::1", 1), host("2001:db8::ffff:2:3:4", 1));
  EXPECT_NE(host("2001:db8::1", 1), host("2001:db8:0:1::1", 1));
}

TEST(HostOf, OfALinkEachAddressIsAHost) {
  EXPECT_NE(host("fe80::1", 1), host("fe80::2", 1));
  EXPECT_EQ(host("fe80::1", 1), host("fe80::1", 2));
}

TEST(HostOf, AMappedAddressIsTheIpv4Host) {
  EXPECT_EQ(host("::ffff:192.0.2.1", 1), host("192.0.2.1", 2));
  EXPECT_NE(host("::ffff:192.0.2.1", 1), host("::ffff:192.0.2.2", 1));
}

TEST(HostOf, AnAddressOfAnotherKindIsItsOwnHost) {
  const std::array<std::byte, 3> odd{std::byte{9}, std::byte{8}, std::byte{7}};
  EXPECT_EQ(host_of(odd).size(), odd.size());
}

}  // namespace
}  // namespace sluice::ftx
