// SPDX-License-Identifier: Apache-2.0
#include "stack/wire/options.h"

#include <gtest/gtest.h>

#include "tests/stack/wire/bytes.h"

namespace sluice::wire::xti {
namespace {

using namespace test;  // bytes.h

std::vector<Option> all_of(const Buffer& buffer) {
  std::vector<Option> all;
  OptionReader reader(buffer);
  while (const auto option = reader.next()) {
    all.push_back(*option);
  }
  return all;
}

// struct t_opthdr of <xti.h>: len, level, name, status; the next one at a multiple of t_uscalar_t.
TEST(Options, HaveTheLayoutOfTheSpecification) {
  const Buffer value = hex("20");
  Buffer buffer;
  append(buffer, {.level = T_INET_IP, .name = T_IP_TTL, .status = 0x20, .value = value});
  append(buffer, {.level = T_INET_UDP, .name = T_UDP_CHECKSUM});
  EXPECT_EQ(buffer, words({17, 0, 4, 0x20}) + hex("20000000") + words({16, 17, 0x600, 0}));
  const std::vector<Option> all = all_of(buffer);
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0].level, T_INET_IP);
  EXPECT_EQ(all[0].name, T_IP_TTL);
  EXPECT_EQ(all[0].status, 0x20U);
  EXPECT_EQ(Buffer(all[0].value.begin(), all[0].value.end()), value);
  EXPECT_EQ(all[1].level, T_INET_UDP);
  EXPECT_TRUE(all[1].value.empty());
}

TEST(Options, MayEndWithoutPadding) {
  EXPECT_TRUE(is_well_formed({}));
  EXPECT_TRUE(is_well_formed(words({17, 0, 4, 0}) + hex("20")));
  EXPECT_EQ(all_of(words({17, 0, 4, 0}) + hex("2000")).size(), 1U);
}

// A program's lengths are not believed.
TEST(Options, MalformedBuffersAreRefused) {
  const Buffer good = words({20, 0, 0x106, 0, 1});
  for (std::size_t size = 1; size < good.size(); ++size) {
    EXPECT_FALSE(is_well_formed(first(good, size))) << size << " bytes";
  }
  for (const std::uint32_t length : {0U, 1U, 15U, 21U, 24U, 0x7fff'ffffU, 0x8000'0000U, 0xffff'fffdU, 0xffff'ffffU}) {
    EXPECT_FALSE(is_well_formed(words({length, 0, 0x106, 0, 1}))) << "a length of " << length;
    EXPECT_FALSE(is_well_formed(good + words({length, 0, 0x106, 0, 1}))) << "a second one of " << length;
  }
  // The second overlaps the end, or is not there.
  EXPECT_FALSE(is_well_formed(good + words({20, 0, 0x106, 0})));
  EXPECT_FALSE(is_well_formed(good + words({16})));
  // Unaligned: what follows 17 bytes is looked for behind 20.
  EXPECT_FALSE(is_well_formed(words({17, 0, 4, 0}) + hex("20") + words({16, 0, 4, 0})));
}

TEST(Options, TheReaderStaysAtTheEnd) {
  const Buffer bad = words({15, 0, 4, 0});
  OptionReader reader(bad);
  EXPECT_FALSE(reader.next());
  EXPECT_FALSE(reader.next());
  EXPECT_TRUE(reader.malformed());
}

}  // namespace
}  // namespace sluice::wire::xti
