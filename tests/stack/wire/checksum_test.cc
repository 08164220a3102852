// SPDX-License-Identifier: Apache-2.0
#include "stack/wire/checksum.h"

#include <gtest/gtest.h>

#include "tests/stack/wire/bytes.h"

namespace sluice::wire {
namespace {

using test::hex;

// RFC 768: the pseudo-header is source, destination, zero, protocol and UDP length.
TEST(Checksum, Ipv4PseudoHeaderIsAsRfc768DrawsIt) {
  const auto source = IpAddress::from_text("192.168.10.1").value();
  const auto destination = IpAddress::from_text("10.77.0.255").value();
  EXPECT_EQ(pseudo_header_sum(source, destination, 17, 1480), header_sum(hex("c0a80a01 0a4d00ff 00 11 05c8")));
}

// RFC 8200 section 8.1: source, destination, 32-bit upper-layer packet length, zero, next header.
TEST(Checksum, Ipv6PseudoHeaderIsAsRfc8200DrawsIt) {
  const auto source = IpAddress::from_text("fd00::1").value();
  const auto destination = IpAddress::from_text("2001:db8::ffff").value();
  EXPECT_EQ(pseudo_header_sum(source, destination, 58, 0x12345),
            header_sum(hex("fd000000000000000000000000000001 20010db800000000000000000000ffff 00012345 000000 3a")));
}

}  // namespace
}  // namespace sluice::wire
