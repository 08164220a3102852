// SPDX-License-Identifier: Apache-2.0
#include "stack/wire/checksum.h"

#include <gtest/gtest.h>

#include "base/prng.h"
#include "tests/stack/wire/bytes.h"

namespace sluice::wire {
namespace {

using test::Buffer;
using test::hex;

/// A sum as the number it is in network byte order, as the RFCs print it.
std::uint16_t printed(std::uint16_t sum) { return to_big_endian(sum); }

// RFC 1071 section 3: "00 01 f2 03 f4 f5 f6 f7" sums to "2ddf0", folded "ddf2".
TEST(Checksum, TheExampleOfRfc1071) {
  const Buffer data = hex("00 01 f2 03 f4 f5 f6 f7");
  EXPECT_EQ(printed(header_sum(data)), 0xddf2);
  EXPECT_EQ(printed(checksum_of(header_sum(data))), 0x220d);
}

TEST(Checksum, IsAConstantExpression) {
  static constexpr std::array data{std::byte{0x00}, std::byte{0x01}, std::byte{0xf2}, std::byte{0x03}};
  static_assert(to_big_endian(header_sum(data)) == 0xf204);
}

TEST(Checksum, AnOddLastByteIsPaddedWithZero) {
  EXPECT_EQ(header_sum(hex("0102 03")), header_sum(hex("0102 0300")));
  EXPECT_EQ(header_sum({}), 0);
}

// The parts of a block may be summed apart and joined at any offset (RFC 1071 section 2 (A) and (B)).
TEST(Checksum, PartsJoinAtEveryOffset) {
  Prng random(1071);
  Buffer data(61);
  for (auto& byte : data) {
    byte = static_cast<std::byte>(random());
  }
  const ConstBytes all = data;
  for (std::size_t cut = 0; cut <= data.size(); ++cut) {
    EXPECT_EQ(add_sums(header_sum(all.first(cut)), header_sum(all.subspan(cut)), cut), header_sum(all)) << cut;
  }
}

TEST(Checksum, FoldsTheLargestSums) {
  EXPECT_EQ(fold_sum(0), 0);
  EXPECT_EQ(fold_sum(0x1'0000), 1);
  EXPECT_EQ(fold_sum(0xffff), 0xffff);
  EXPECT_EQ(fold_sum(~std::uint64_t{0}), 0xffff);
  EXPECT_EQ(fold_sum(0xffff'ffff'0000'0001U), 1);
}

TEST(Checksum, HoldsOnlyForAllOnes) {
  EXPECT_TRUE(sum_holds(0xffff));
  EXPECT_FALSE(sum_holds(0));
  EXPECT_FALSE(sum_holds(0xfffe));
}

// RFC 1624 section 4: a checksum of 0xDD2F, a word that changes from 0x5555 to 0x3285; by equation 3 the new one is
// 0x0000.
TEST(Checksum, TheIncrementalExampleOfRfc1624) {
  EXPECT_EQ(updated_checksum(to_big_endian<std::uint16_t>(0xdd2f), to_big_endian<std::uint16_t>(0x5555),
                             to_big_endian<std::uint16_t>(0x3285)),
            0x0000);
}

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
