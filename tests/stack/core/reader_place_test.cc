// SPDX-License-Identifier: Apache-2.0
// The place where a reader waits: it is filled from the front, messages show what has been filled, and he has it back
// when he stops waiting, wherever they are.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/prng.h"
#include "stack/core/reader_place.h"
#include "tests/stack/core/support.h"

namespace sluice::testing {
namespace {

/// A reader who waits, with room for 100 bytes.
struct WaitingReader {
  BufferPool pool;
  ReaderPlace place{pool};
  std::array<std::byte, 100> memory{};

  WaitingReader() { place.open(memory); }
};

/// A primitive, and behind it data at the reader's place.
Message landed_at(WaitingReader& reader, std::size_t size) {
  Message landed = text_message(reader.pool, "a primitive", MessageType::proto);
  landed.link(reader.place.take_room(size));
  return landed;
}

TEST(ReaderPlace, NobodyWaitsAtFirst) {
  BufferPool pool;
  ReaderPlace place(pool);
  EXPECT_TRUE(place.room().empty());
  EXPECT_EQ(place.filled(), 0U);
  place.close();
  EXPECT_TRUE(place.room().empty());
}

TEST(ReaderPlace, IsFilledFromTheFront) {
  WaitingReader reader;
  auto& [pool, place, memory] = reader;
  const Message first = place.take_room(30);
  const Message second = place.take_room(20);
  EXPECT_EQ(first.bytes().data(), memory.data());
  EXPECT_EQ(first.size(), 30U);
  EXPECT_EQ(second.bytes().data(), memory.data() + 30);
  EXPECT_EQ(place.filled(), 50U);
  EXPECT_EQ(place.room().data(), memory.data() + 50);
  EXPECT_EQ(place.room().size(), 50U);
}

/// Small data is not worth a message of its own, but a few times behind other data.
TEST(ReaderPlace, TakesWhatIsWorthIt) {
  BufferPool pool;
  ReaderPlace place(pool);
  std::vector<std::byte> memory(10'000);
  EXPECT_FALSE(place.take_room_for(600)) << "nobody waits";
  place.open(memory);
  EXPECT_FALSE(place.take_room_for(0));
  EXPECT_FALSE(place.take_room_for(ReaderPlace::small_bytes_max));
  EXPECT_FALSE(place.take_room_for(memory.size() + 1));
  EXPECT_EQ(place.filled(), 0U);
  std::vector<Message> shown;
  shown.push_back(place.take_room_for(ReaderPlace::small_bytes_max + 1));
  EXPECT_EQ(shown.back().size(), ReaderPlace::small_bytes_max + 1);
  EXPECT_FALSE(place.take_room_for(0));
  while (Message one = place.take_room_for(1)) {
    shown.push_back(std::move(one));
  }
  EXPECT_EQ(shown.size(), ReaderPlace::small_shown_max);
  EXPECT_FALSE(place.take_room_for(ReaderPlace::small_bytes_max));
  EXPECT_TRUE(place.take_room_for(ReaderPlace::small_bytes_max + 1));
}

TEST(ReaderPlace, ItsRoomMayEndBeforeIt) {
  WaitingReader reader;
  auto& [pool, place, memory] = reader;
  Message landed = landed_at(reader, 30);
  const Message late = place.take_room(20);
  place.end_room();
  EXPECT_TRUE(place.room().empty());
  EXPECT_TRUE(place.pass(landed)) << "what was there goes up";
  EXPECT_EQ(place.waiting(), 20U);
}

TEST(ReaderPlace, WhatGoesUpInItsOrderIsFollowedByMore) {
  WaitingReader reader;
  auto& [pool, place, memory] = reader;
  Message landed = landed_at(reader, 30);
  landed.link(place.take_room(10));
  const Message late = place.take_room(20);
  const Message later = place.take_room(5);
  EXPECT_EQ(place.waiting(), 65U);
  EXPECT_TRUE(place.pass(landed));
  EXPECT_EQ(place.waiting(), 25U);
  EXPECT_EQ(place.room().size(), 35U);
  EXPECT_FALSE(place.pass(later)) << "what lies before it did not go up";
  EXPECT_TRUE(place.room().empty());
}

TEST(ReaderPlace, WhatGoesUpElsewhereIsFollowedByNothing) {
  WaitingReader reader;
  auto& [pool, place, memory] = reader;
  Message landed = landed_at(reader, 30);
  landed.link(text_message(pool, "and other data"));
  EXPECT_TRUE(place.pass(landed));
  EXPECT_TRUE(place.room().empty());
  EXPECT_EQ(place.filled(), 30U);
  EXPECT_FALSE(place.pass(text_message(pool, "other data")));
  EXPECT_FALSE(place.pass(text_message(pool, "none", MessageType::proto)));
  place.open(memory);
  EXPECT_EQ(place.room().size(), 100U);
  EXPECT_FALSE(place.pass(text_message(pool, "other data"))) << "before anything was filled";
  EXPECT_TRUE(place.room().empty());
}

TEST(ReaderPlace, AMessageOutlivesTheReadersPatience) {
  WaitingReader reader;
  auto& [pool, place, memory] = reader;
  Message first = place.take_room(30);
  std::ranges::fill(first.bytes(), std::byte{1});
  Message second = place.take_room(20);
  std::ranges::fill(second.bytes(), std::byte{2});
  second.trim_front(5);
  second.trim_back(3);
  {
    const Message freed = place.take_room(10);
  }
  place.close();
  std::ranges::fill(memory, std::byte{9});
  EXPECT_EQ(flat(first), std::vector(30, std::byte{1}));
  EXPECT_EQ(flat(second), std::vector(12, std::byte{2}));
  EXPECT_EQ(pool.statistics().reclaimed, 2U);
  first.reset();
  second.reset();
  EXPECT_EQ(pool.statistics().buffers_in_use, 0U);
  EXPECT_TRUE(place.room().empty());
}

/// What waits for long is copied by who keeps it; then nothing is left to move.
TEST(ReaderPlace, WhatIsKeptIsGivenBack) {
  WaitingReader reader;
  auto& [pool, place, memory] = reader;
  Message kept = place.take_room(30);
  ASSERT_EQ(kept.keep(), TransformResult::done);
  place.close();
  EXPECT_EQ(pool.statistics().reclaimed, 0U);
}

TEST(ReaderPlace, WithoutMemoryNothingIsShown) {
  WaitingReader reader;
  auto& [pool, place, memory] = reader;
  pool.fail_when([] { return true; });
  EXPECT_FALSE(place.take_room(30));
  EXPECT_EQ(place.filled(), 0U);
}

/// Whoever has the messages, and in whatever order they are let go of: they show what was filled, and the reader's
/// memory is his again.
TEST(ReaderPlace, RandomLives) {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Prng prng(seed);
    BufferPool pool;
    ReaderPlace place(pool);
    std::vector<std::pair<Message, std::vector<std::byte>>> under_way;
    for (int round = 0; round < 5; ++round) {
      std::vector<std::byte> memory(prng.below(500));
      place.open(memory);
      while (!place.room().empty() && prng.chance(0.9)) {
        Message one = place.take_room(1 + prng.below(place.room().size()));
        ASSERT_TRUE(one);
        prng.fill(one.bytes());
        std::vector<std::byte> bytes = flat(one);
        under_way.emplace_back(std::move(one), std::move(bytes));
        if (prng.chance(0.3)) {
          under_way.erase(under_way.begin() + static_cast<std::ptrdiff_t>(prng.below(under_way.size())));
        }
      }
      if (prng.chance(0.5)) {
        place.close();
      } else {
        place.open({});
      }
      prng.fill(memory);
      for (const auto& [message, bytes] : under_way) {
        ASSERT_EQ(flat(message), bytes);
      }
    }
    under_way.clear();
    ASSERT_EQ(pool.statistics().buffers_in_use, 0U);
  }
}

}  // namespace
}  // namespace sluice::testing
