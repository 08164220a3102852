// SPDX-License-Identifier: Apache-2.0
#include "base/internet_checksum.h"

#include <gtest/gtest.h>

#include "base/prng.h"
#include "tests/stack/wire/bytes.h"

namespace sluice {
namespace {

using wire::test::Buffer;
using wire::test::hex;

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
  EXPECT_EQ(fold_sum(0xffff'ffff'ffff'0000U), 0xffff);
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

// RFC 1624 section 3, at every word of a header: what the update gives is what summing anew gives. Here the second case
// changes two words at once, whose sums stand for them.
TEST(Checksum, AnUpdateGivesWhatSummingAnewGives) {
  Prng random(1624);
  for (int round = 0; round < 2000; ++round) {
    Buffer header(20);
    for (auto& byte : header) {
      byte = static_cast<std::byte>(random());
    }
    header[0] = std::byte{0x45};
    const std::uint16_t before = checksum_of(header_sum(header));
    const std::size_t size = round % 2 == 0 ? 2 : 4;
    const Bytes part = Bytes(header).subspan(2 + 2 * random.below(8), size);
    const std::uint16_t old_sum = header_sum(part);
    for (auto& byte : part) {
      byte = round % 5 == 0 ? std::byte{0} : static_cast<std::byte>(random());
    }
    ASSERT_EQ(updated_checksum(before, old_sum, header_sum(part)), checksum_of(header_sum(header))) << round;
  }
}

// RFC 768: "If the computed checksum is zero, it is transmitted as all ones (the equivalent in one's complement
// arithmetic)."
TEST(Checksum, ZeroIsSentAsOnesWhereTheProtocolSaysSo) {
  EXPECT_EQ(checksum_of(0xffff), 0);
  EXPECT_EQ(checksum_of(0xffff, true), 0xffff);
  EXPECT_EQ(checksum_of(0x0001, true), 0xfffe);
}

// RFC 1071 section 1: "any overflows from the most significant bits are added into the least significant bits".
TEST(Checksum, AdditionCarriesAround) {
  EXPECT_EQ(add_sums(0xffff, 0), 0xffff);
  EXPECT_EQ(add_sums(0xffff, 0xffff), 0xffff);
  EXPECT_EQ(add_sums(0xfffe, 2), 1);
  EXPECT_EQ(add_sums(0x1234, 0x4321), 0x5555);
}

}  // namespace
}  // namespace sluice
