// SPDX-License-Identifier: Apache-2.0
// Manipulations of chained messages against the same on flat bytes (ilp/scalar.h).

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "base/prng.h"
#include "ilp/kernels.h"
#include "ilp/scalar.h"
#include "stack/core/message.h"
#include "stack/core/module.h"
#include "tests/stack/core/support.h"

namespace sluice::testing {
namespace {

using Model = std::vector<std::byte>;

TransformResult check(Message& message, std::uint16_t initial) {
  Watcher watcher;
  const TransformResult result = message.transform(Check{initial}, ModuleHandle(), watcher.refused);
  EXPECT_EQ(watcher.refused.value(), 0U) << "at once, the caller counts";
  return result;
}

Model swapped(Model bytes, std::size_t unit) {
  ilp::scalar::swap(unit, bytes);
  return bytes;
}

/// Calls `test` with each chaining of messages of 0..9 bytes into one to four blocks, and of 16 bytes into three: units
/// straddle two, three and four blocks, blocks are odd and empty.
template <class Test>
void for_every_chaining(Test test) {
  BufferPool pool;
  const auto try_all = [&](std::size_t size, std::size_t count) {
    const Model bytes = counted_bytes(size);
    for (const auto& lengths : chainings(size, count)) {
      test(bytes, chain_message(pool, bytes, lengths));
      ASSERT_FALSE(::testing::Test::HasFatalFailure()) << ::testing::PrintToString(lengths);
    }
  };
  for (std::size_t size = 0; size <= 9; ++size) {
    for (std::size_t count = 1; count <= 4; ++count) {
      try_all(size, count);
    }
  }
  try_all(16, 3);
}

TEST(Transform, SwapReversesUnitsAcrossBlocks) {
  for (const std::size_t unit : {2U, 4U, 8U}) {
    for_every_chaining([unit](const Model& bytes, Message message) {
      const bool whole = bytes.size() % unit == 0;
      ASSERT_EQ(message.transform(Swap{unit}), whole ? TransformResult::done : TransformResult::failed);
      ASSERT_EQ(flat(message), whole ? swapped(bytes, unit) : bytes) << "unit " << unit;
    });
  }
}

TEST(Transform, SwapAcrossManyTinyBlocks) {
  BufferPool pool;
  const Model bytes = counted_bytes(16);
  Message message = chain_message(pool, bytes, std::vector<std::size_t>(16, 1));
  EXPECT_EQ(message.transform(Swap{8}), TransformResult::done);
  EXPECT_EQ(flat(message), swapped(bytes, 8));
}

// RFC 1071 section 2(B): blocks that start at an odd place are added byte-swapped.
TEST(Transform, SumIsThatOfTheFlatBytes) {
  for_every_chaining([](const Model& bytes, Message message) {
    ASSERT_EQ(message.data_sum(), ilp::scalar::sum(bytes));
    for (const std::uint16_t initial : {std::uint16_t{0}, std::uint16_t{0xfffe}}) {
      std::uint16_t field = 0;
      auto* at = reinterpret_cast<std::byte*>(&field);
      ASSERT_EQ(message.transform(Sum{.initial = initial, .field = at, .zero_is_sent_as_ones = false}),
                TransformResult::done);
      ASSERT_EQ(field, checksum_of(add_sums(initial, ilp::scalar::sum(bytes))));
    }
  });
}

// At once and deferred alike: what is in front is not read.
TEST(Transform, ASumLeavesOutTheBytesInFrontOfIt) {
  for_every_chaining([](const Model& bytes, Message message) {
    for (const bool deferred : {false, true}) {
      for (std::size_t from = 0; from <= bytes.size(); from += 2) {
        Message one = message.copy();
        if (deferred) {
          one.defer();
        }
        std::uint16_t field = 0;
        auto* at = reinterpret_cast<std::byte*>(&field);
        ASSERT_EQ(one.transform(Sum{.initial = 0x1234, .field = at, .zero_is_sent_as_ones = false, .from = from}),
                  deferred ? TransformResult::deferred : TransformResult::done);
        ASSERT_EQ(one.materialize(), TransformResult::done);
        ASSERT_EQ(field, checksum_of(add_sums(0x1234, ilp::scalar::sum(ConstBytes(bytes).subspan(from))))) << from;
      }
    }
  });
}

// RFC 768: "If the computed checksum is zero, it is transmitted as all ones".
TEST(Transform, AZeroChecksumIsSentAsOnesWhereAsked) {
  BufferPool pool;
  const Model ones(4, std::byte{0xff});
  Message message = chain_message(pool, ones, {3, 1});
  std::uint16_t field = 1;
  auto* at = reinterpret_cast<std::byte*>(&field);
  EXPECT_EQ(message.transform(Sum{.initial = 0, .field = at, .zero_is_sent_as_ones = false}), TransformResult::done);
  EXPECT_EQ(field, 0);
  EXPECT_EQ(message.transform(Sum{.initial = 0, .field = at, .zero_is_sent_as_ones = true}), TransformResult::done);
  EXPECT_EQ(field, 0xffff);
}

// RFC 1071 section 1: "If the result is all 1 bits ..., the check succeeds." What Sum has stored, Check accepts; one
// bit changed anywhere, it does not.
TEST(Transform, CheckAcceptsWhatSumStored) {
  const std::uint16_t initial = 0x1234;
  for_every_chaining([](const Model& /*bytes*/, Message message) {
    const Bytes header = message.prepend(2);
    std::memset(header.data(), 0, 2);
    ASSERT_EQ(message.transform(Sum{.initial = initial, .field = header.data(), .zero_is_sent_as_ones = true}),
              TransformResult::done);
    ASSERT_EQ(check(message, initial), TransformResult::done);
    ASSERT_EQ(check(message, initial + 1), TransformResult::failed);
    for (Block* block = &message.first(); block != nullptr; block = block->cont) {
      for (std::byte& byte : block->bytes()) {
        byte ^= std::byte{0x10};
        ASSERT_EQ(check(message, initial), TransformResult::failed);
        byte ^= std::byte{0x10};
      }
    }
  });
}

TEST(Transform, ProtocolBlocksInFrontAreLeftAlone) {
  BufferPool pool;
  Message message = text_message(pool, "odd", MessageType::proto);
  message.link(text_message(pool, "abcd"));
  EXPECT_EQ(message.data_sum(), ilp::scalar::sum(as_bytes("abcd")));
  EXPECT_EQ(message.transform(Swap{4}), TransformResult::done);
  EXPECT_EQ(text_of(message), "odddcba");
}

// "Shared" and "read-only": whoever must write copies first.
TEST(Transform, SwapCopiesSharedAndReadOnlyBytesBeforeItWrites) {
  BufferPool pool;
  std::array<std::byte, 4> memory{};
  std::ranges::copy(as_bytes("6789"), memory.begin());
  Message message = text_message(pool, "012345");
  message.link(Message(pool.allocate_external(memory, true, nullptr, nullptr)));
  message.link(text_message(pool, "abcdef"));
  const Message shared = message.duplicate();
  EXPECT_EQ(message.transform(Swap{8}), TransformResult::done);
  EXPECT_EQ(text_of(message), "76543210fedcba98");
  EXPECT_EQ(text_of(shared), "0123456789abcdef");
  EXPECT_EQ(as_text(memory), "6789");
}

TEST(Transform, SwapWritesInPlaceWhatIsItsOwn) {
  BufferPool pool;
  std::array<std::byte, 4> memory{};
  std::ranges::copy(as_bytes("abcd"), memory.begin());
  Message message(pool.allocate_external(memory, false, nullptr, nullptr));
  EXPECT_EQ(message.transform(Swap{2}), TransformResult::done);
  EXPECT_EQ(as_text(memory), "badc");
}

TEST(Transform, FailsWithoutMemoryForAPrivateCopy) {
  BufferPool pool(2048);
  std::array<std::byte, 2000> memory{};
  Message message(pool.allocate_external(memory, true, nullptr, nullptr));
  EXPECT_EQ(message.transform(Swap{2}), TransformResult::failed);
  EXPECT_EQ(check(message, 0xffff), TransformResult::done) << "reading needs no copy";
}

TEST(Transform, OnALayeredPathNothingIsOwed) {
  BufferPool pool;
  Message message = text_message(pool, "ab");
  EXPECT_EQ(message.materialize(), TransformResult::done);
  bool ran = false;
  message.when_verified(ModuleHandle(), [&ran] { ran = true; });
  EXPECT_TRUE(ran);
}

TEST(Transform, LongRandomMessagesMatchToo) {
  const std::uint64_t seed = 11;
  Prng prng(seed);
  BufferPool pool;
  for (int round = 0; round < 200; ++round) {
    Model bytes(8 * (1 + prng.below(700)));
    prng.fill(bytes);
    Message message = Message::copy_of(pool, bytes, 0, MessageType::data, 1 + prng.below(1500));
    ASSERT_EQ(message.data_sum(), ilp::scalar::sum(bytes)) << "seed " << seed << " round " << round;
    const std::size_t unit = std::size_t{2} << prng.below(3);
    ASSERT_EQ(message.transform(Swap{unit}), TransformResult::done);
    ASSERT_EQ(flat(message), swapped(bytes, unit)) << "seed " << seed << " round " << round;
  }
}

}  // namespace
}  // namespace sluice::testing
