// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/protocol/entry_name.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/prng.h"

namespace sluice::ftx {
namespace {

TEST(EntryName, IsATextWithANulBehindIt) {
  const EntryName none;
  EXPECT_TRUE(none.empty());
  EXPECT_EQ(none.size(), 0U);
  EXPECT_STREQ(none.c_str(), "");
  const EntryName empty("");
  EXPECT_TRUE(empty.empty());
  EXPECT_EQ(empty, none);
  const EntryName name(std::string_view("name and more").substr(0, 4));
  EXPECT_FALSE(name.empty());
  EXPECT_EQ(name.size(), 4U);
  EXPECT_STREQ(name.c_str(), "name");
  EXPECT_EQ(name, "name");
  EXPECT_NE(name, std::string("named"));
  EXPECT_EQ("in " + name + "/x", "in name/x");
}

TEST(EntryName, NamesAreComparedAsTheirTexts) {
  EntryNames names;
  EXPECT_EQ(names.add("a"), EntryName("a"));
  EXPECT_LT(names.add("a"), names.add("ab"));
  EXPECT_LT(names.add("Z"), names.add("a"));
  EXPECT_LT(EntryName(), names.add("a"));
}

/// Names of all lengths, over many pages, in the order in which they go: none is lost with another one.
TEST(EntryName, NamesOutliveEachOtherAndWhoMadeThem) {
  constexpr std::uint64_t seed = 20261125;
  SCOPED_TRACE(seed);
  Prng prng(seed);
  std::vector<std::pair<EntryName, std::string>> held;
  {
    EntryNames names;
    for (int i = 0; i < 5'000; ++i) {
      const std::size_t size = prng.below(20) == 0 ? prng.below(3'000) : prng.below(256);
      const std::string text(size, static_cast<char>('a' + prng.below(26)));
      held.emplace_back(names.add(text), text);
      if (prng.below(3) == 0) {
        held.erase(held.begin() + static_cast<std::ptrdiff_t>(prng.below(held.size())));
      }
    }
  }
  const auto all_are_right = [&held] {
    for (const auto& [name, text] : held) {
      ASSERT_EQ(name, text);
      ASSERT_EQ(std::string(name.c_str()), text);
    }
  };
  all_are_right();
  const auto copies = held;
  while (!held.empty()) {
    held.resize(held.size() / 2);
    all_are_right();
  }
  held = copies;
  all_are_right();
}

TEST(EntryName, IsCopiedMovedAndAssigned) {
  EntryNames names;
  EntryName one = names.add("one");
  EntryName copy = one;
  EXPECT_EQ(copy.c_str(), one.c_str()) << "its bytes are there once";
  EntryName moved = std::move(one);
  EXPECT_EQ(moved, "one");
  moved = copy;
  copy = "another";
  EXPECT_EQ(moved, "one");
  EXPECT_EQ(copy, "another");
  EntryName& same = copy;
  copy = same;
  EXPECT_EQ(copy, "another");
  copy = EntryName();
  EXPECT_TRUE(copy.empty());
}

TEST(EntryName, ThreadsMayHoldTheSame) {
  std::optional<EntryNames> names(std::in_place);
  std::vector<EntryName> held;
  for (int i = 0; i < 100; ++i) {
    held.push_back(names->add(std::to_string(i)));
  }
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([own = held] {
      for (int round = 0; round < 200; ++round) {
        const std::vector<EntryName> copies = own;
        EXPECT_EQ(copies[static_cast<std::size_t>(round) % copies.size()], std::to_string(round % 100));
      }
    });
  }
  names.reset();
  held.clear();
  for (std::thread& thread : threads) {
    thread.join();
  }
}

}  // namespace
}  // namespace sluice::ftx
