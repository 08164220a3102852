// SPDX-License-Identifier: Apache-2.0
#include "base/bytes.h"

#include <gtest/gtest.h>

#include <array>

namespace sluice {
namespace {

TEST(Bytes, IntegersAreStoredInNetworkOrderAtAnyAlignment) {
  std::array<std::byte, 16> memory{};
  for (std::size_t offset = 0; offset < 8; ++offset) {
    store_big_endian<std::uint32_t>(memory.data() + offset, 0x01020304U);
    EXPECT_EQ(memory[offset], std::byte{1});
    EXPECT_EQ(memory[offset + 3], std::byte{4});
    EXPECT_EQ(load_big_endian<std::uint32_t>(memory.data() + offset), 0x01020304U);
    EXPECT_EQ(load_big_endian<std::uint16_t>(memory.data() + offset), 0x0102U);
  }
  store_big_endian<std::uint64_t>(memory.data() + 1, 0x0102030405060708U);
  EXPECT_EQ(load_big_endian<std::uint64_t>(memory.data() + 1), 0x0102030405060708U);
}

}  // namespace
}  // namespace sluice
