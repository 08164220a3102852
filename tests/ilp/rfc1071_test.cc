// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "base/bytes.h"
#include "base/internet_checksum.h"
#include "base/prng.h"
#include "ilp/kernels.h"
#include "ilp/scalar.h"

namespace sluice::ilp {
namespace {

/// The two bytes that a sum puts into memory, read in network order.
std::uint16_t in_network_order(std::uint16_t sum_as_it_lies) { return to_big_endian(sum_as_it_lies); }

std::vector<std::byte> random_bytes(std::uint64_t seed, std::size_t size) {
  Prng prng(seed);
  std::vector<std::byte> bytes(size);
  for (std::byte& byte : bytes) {
    byte = static_cast<std::byte>(prng());
  }
  return bytes;
}

// RFC 1071 section 3, "Numerical Examples": bytes 00 01 f2 03 f4 f5 f6 f7, in normal order "Sum1: 2ddf0" and with its
// carries "Sum2: ddf2"; in swapped order f2dd, which swapped back is ddf2.
constexpr std::array example = {std::byte{0x00}, std::byte{0x01}, std::byte{0xf2}, std::byte{0x03},
                                std::byte{0xf4}, std::byte{0xf5}, std::byte{0xf6}, std::byte{0xf7}};

TEST(Rfc1071, NumericalExample) {
  EXPECT_EQ(in_network_order(sum(example)), 0xddf2);
  EXPECT_EQ(in_network_order(scalar::sum(example)), 0xddf2);
}

// RFC 1071 section 3, the same bytes in two groups "with the second group starting on a odd boundary": 00 01 f2 gives
// f201; 03 f4 f5 f6 f7 gives f0eb, swapped ebf0; together ddf2.
TEST(Rfc1071, NumericalExampleBrokenAtAnOddPlace) {
  const ConstBytes whole(example);
  const std::uint16_t first = sum(whole.first(3));
  const std::uint16_t second = sum(whole.subspan(3));
  EXPECT_EQ(in_network_order(first), 0xf201);
  EXPECT_EQ(in_network_order(second), 0xf0eb);
  EXPECT_EQ(in_network_order(add_sums(first, second, 3)), 0xddf2);
}

// RFC 1071 section 2(A): "As long as the even/odd assignment of bytes is respected, the sum can be done in any order,
// and it can be arbitrarily split into groups."
TEST(Rfc1071, AnySplitAddsUpToTheWhole) {
  const std::uint64_t seed = 1071;
  Prng prng(seed);
  for (int round = 0; round < 400; ++round) {
    const auto bytes = random_bytes(prng(), prng.below(5000));
    std::uint16_t total = 0;
    std::size_t at = 0;
    while (at < bytes.size()) {
      const std::size_t size = std::min<std::size_t>(bytes.size() - at, 1 + prng.below(700));
      const ConstBytes part = ConstBytes(bytes).subspan(at, size);
      total = add_sums(total, sum(part), at);
      at += size;
    }
    ASSERT_EQ(total, scalar::sum(bytes)) << "seed " << seed << " round " << round;
  }
}

TEST(Rfc1071, ZeroOnlyForZeros) {
  std::vector<std::byte> bytes(4096);
  EXPECT_EQ(sum({}), 0);
  EXPECT_EQ(sum(bytes), 0);
  std::memset(bytes.data(), 0xff, bytes.size());
  for (const std::size_t size : {2U, 20U, 1500U, 4096U}) {
    EXPECT_EQ(sum(ConstBytes(bytes).first(size)), 0xffff);
  }
}

}  // namespace
}  // namespace sluice::ilp
