// SPDX-License-Identifier: Apache-2.0
// Sums that are taken as a user's bytes are copied, and used for checksums later: they are those of the bytes, and what
// is not known is loaded.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/internet_checksum.h"
#include "base/prng.h"
#include "ilp/scalar.h"
#include "stack/core/known_sums.h"
#include "stack/core/message.h"
#include "stack/core/module_handle.h"

namespace sluice::testing {
namespace {

constexpr int known_sums_seeds = 300;

std::vector<std::byte> some_bytes(Prng& prng, std::size_t size) {
  std::vector<std::byte> bytes(size);
  prng.fill(bytes);
  return bytes;
}

/// A message whose bytes still lie in `lent`.
Message lent_message(BufferPool& pool, ConstBytes lent, DeferredCopy*& loan) {
  Message message = Message::of_size(pool, lent.size(), 64, 16);
  message.defer();
  message.defer_copy(lent, message.bytes().data(), loan);
  return message;
}

const KnownSums* sums_known_of(const Message& message) { return message.data_block()->buffer->known_sums(); }

/// What a stretch of `bytes` that begins with stretch `from` and is `count` of them long sums up to.
ConstBytes stretches_of(ConstBytes bytes, const Stretches& how, std::size_t from, std::size_t count) {
  const auto start = [&](std::size_t stretch) {
    return stretch == 0 ? 0 : std::min(bytes.size(), how.first + (stretch - 1) * how.each);
  };
  return bytes.subspan(start(from), start(from + count) - start(from));
}

TEST(KnownSums, AreThoseOfTheStretchesInOnePass) {
  for (std::uint64_t seed = 1; seed <= known_sums_seeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Prng prng(seed);
    BufferPool pool;
    DeferredCopy* loan = nullptr;
    const std::vector<std::byte> lent = some_bytes(prng, 1 + prng.below(5000));
    Message message = lent_message(pool, lent, loan);
    Stretches stretches;
    stretches.each = 1 + prng.below(prng.chance(0.2) ? 3 : 2000);
    stretches.first = 1 + prng.below(stretches.each);
    ASSERT_EQ(message.keep(stretches), TransformResult::done);
    ASSERT_EQ(loan, nullptr);
    ASSERT_TRUE(std::ranges::equal(message.bytes(), lent));
    ASSERT_EQ(pool.touches().loaded_bytes, lent.size());
    ASSERT_EQ(pool.touches().stored_bytes, lent.size());
    const KnownSums* const known = sums_known_of(message);
    ASSERT_NE(known, nullptr);
    const std::size_t behind = lent.size() - std::min(lent.size(), stretches.first);
    const std::size_t count = 1 + (behind + stretches.each - 1) / stretches.each;
    const ConstBytes bytes = std::as_const(message).bytes();
    for (int query = 0; query < 20; ++query) {
      const std::size_t from = prng.below(count);
      const ConstBytes part = stretches_of(bytes, stretches, from, 1 + prng.below(count - from));
      ASSERT_EQ(known->of(part), ilp::scalar::sum(part));
      const ConstBytes shorter = part.first(part.size() - 1);
      ASSERT_TRUE(!known->of(shorter) || *known->of(shorter) == ilp::scalar::sum(shorter));
    }
    ASSERT_EQ(message.data_sum(), ilp::scalar::sum(lent));
    ASSERT_EQ(pool.touches().loaded_bytes, lent.size()) << "nothing more";
  }
}

TEST(KnownSums, OfOtherBytesThereAreNone) {
  BufferPool pool;
  Message message = Message::copy_of(pool, std::vector<std::byte>(100, std::byte{1}), 32);
  ASSERT_FALSE(message.prepend(8).empty());
  std::ranges::fill(message.bytes().first(8), std::byte{2});
  message.trim_front(8);
  const Block& block = std::as_const(message).first();
  const KnownSums known(block.bytes(), {.first = 10, .each = 30}, {1, 2, 3, 4});
  EXPECT_EQ(known.of(block.bytes()), 10U);
  EXPECT_EQ(known.of(ConstBytes(block.rptr, 10)), 1U);
  EXPECT_EQ(known.of(ConstBytes(block.rptr + 10, 60)), 5U);
  EXPECT_EQ(known.of(ConstBytes(block.rptr + 70, 30)), 4U);
  EXPECT_EQ(known.of(ConstBytes(block.rptr + 40, 0)), 0U);
  EXPECT_EQ(known.of(ConstBytes(block.rptr, 9)), std::nullopt);
  EXPECT_EQ(known.of(ConstBytes(block.rptr + 1, 9)), std::nullopt);
  EXPECT_EQ(known.of(ConstBytes(block.rptr + 10, 31)), std::nullopt);
  EXPECT_EQ(known.of(ConstBytes(block.rptr - 8, 18)), std::nullopt) << "a header in front";
  EXPECT_EQ(known.of(ConstBytes(block.rptr + 70, 31)), std::nullopt) << "what was written behind";
}

/// A segment: a header of its own, and behind it what a duplicate shows of the data that is kept.
TEST(KnownSums, AChecksumOverThemLoadsTheHeaderAlone) {
  for (const bool fused : {false, true}) {
    SCOPED_TRACE(fused);
    Prng prng(1);
    BufferPool pool;
    DeferredCopy* loan = nullptr;
    const std::vector<std::byte> lent = some_bytes(prng, 3001);
    Message kept = lent_message(pool, lent, loan);
    const Stretches stretches{.first = 1, .each = 1000};
    ASSERT_EQ(kept.keep(stretches), TransformResult::done);
    const auto segment_of = [&](std::size_t from, std::size_t size) {
      Message data = kept.duplicate();
      data.trim_back(data.size() - from - size);
      data.trim_front(from);
      const std::vector<std::byte> zeros(20);
      Message segment = Message::copy_of(pool, zeros, 64);
      segment.link(std::move(data));
      if (fused) {
        segment.defer();
      }
      return segment;
    };
    const auto loads_for = [&](Message& segment, TransformResult expected) {
      const std::uint64_t before = pool.touches().loaded_bytes;
      std::byte* const field = segment.bytes().data() + 4;
      EXPECT_EQ(segment.transform(Sum{.initial = 7, .field = field, .zero_is_sent_as_ones = false, .from = 20}),
                expected);
      EXPECT_EQ(segment.materialize(), TransformResult::done);
      const std::vector<std::byte> bytes = [&] {
        std::vector<std::byte> all(segment.data_size());
        EXPECT_TRUE(segment.copy_data_to(0, all));
        return all;
      }();
      EXPECT_EQ(load_checksum(bytes.data() + 4),
                checksum_of(add_sums(7, ilp::scalar::sum(ConstBytes(bytes).subspan(20)))));
      return pool.touches().loaded_bytes - before;
    };
    Message whole = segment_of(1, 2000);
    EXPECT_EQ(loads_for(whole, TransformResult::done), 0U);
    Message odd = segment_of(0, 1001);
    EXPECT_EQ(loads_for(odd, TransformResult::done), 0U);
    Message cut = segment_of(2, 1000);
    EXPECT_EQ(loads_for(cut, fused ? TransformResult::deferred : TransformResult::done), 1000U);
  }
}

/// What is not all of it in the user's memory is kept as ever.
TEST(KnownSums, WhatLiesHereAlreadyHasNone) {
  Prng prng(1);
  BufferPool pool;
  const Stretches stretches{.first = 10, .each = 10};
  Message plain = Message::copy_of(pool, some_bytes(prng, 100));
  EXPECT_EQ(plain.keep(stretches), TransformResult::done);
  EXPECT_EQ(sums_known_of(plain), nullptr);

  DeferredCopy* loan = nullptr;
  const std::vector<std::byte> lent = some_bytes(prng, 100);
  Message partly = Message::of_size(pool, 110, 0, 0);
  std::ranges::fill(partly.bytes(), std::byte{5});
  partly.defer();
  partly.defer_copy(lent, partly.bytes().data() + 10, loan);
  EXPECT_EQ(partly.keep(stretches), TransformResult::done);
  EXPECT_EQ(sums_known_of(partly), nullptr);
  EXPECT_TRUE(std::ranges::equal(partly.bytes().subspan(10), lent));
  EXPECT_EQ(partly.bytes()[9], std::byte{5});
}

/// Whoever wants to write to the bytes gets others, of which nothing is known; and they are known as long as one
/// message shows them, whichever that is.
TEST(KnownSums, AreThoseOfBytesThatNobodyChanges) {
  Prng prng(1);
  BufferPool pool;
  DeferredCopy* loan = nullptr;
  const std::vector<std::byte> lent = some_bytes(prng, 3000);
  Message message = lent_message(pool, lent, loan);
  ASSERT_EQ(message.keep({.first = 1000, .each = 1000}), TransformResult::done);
  Message other = message.duplicate();
  message.reset();
  ASSERT_NE(sums_known_of(other), nullptr);
  EXPECT_FALSE(other.data_block()->buffer->writable());
  Message last = other.duplicate();
  ASSERT_EQ(other.transform(Swap{4}), TransformResult::done);
  EXPECT_EQ(sums_known_of(other), nullptr);
  EXPECT_EQ(other.data_sum(), ilp::scalar::sum(other.bytes()));
  other.reset();
  EXPECT_EQ(last.data_sum(), ilp::scalar::sum(lent));
  ASSERT_TRUE(last.make_writable());
  EXPECT_EQ(sums_known_of(last), nullptr);
  EXPECT_TRUE(std::ranges::equal(last.bytes(), lent));
  last.reset();
  EXPECT_EQ(pool.statistics().buffers_in_use, 0U);
  EXPECT_EQ(
      std::as_const(*std::make_unique<Message>(Message::of_size(pool, 3000, 64, 16))).first().buffer->known_sums(),
      nullptr)
      << "a buffer that is used again";
}

/// A conversion that is owed with the copy: the sums are those of what comes out.
TEST(KnownSums, AreThoseOfConvertedBytes) {
  Prng prng(1);
  BufferPool pool;
  DeferredCopy* loan = nullptr;
  const std::vector<std::byte> lent = some_bytes(prng, 4000);
  Message message = lent_message(pool, lent, loan);
  ASSERT_EQ(message.transform(Swap{4}), TransformResult::deferred);
  ASSERT_EQ(message.keep({.first = 400, .each = 1448}), TransformResult::done);
  EXPECT_EQ(pool.touches().loaded_bytes, lent.size());
  EXPECT_EQ(message.bytes()[0], lent[3]);
  ASSERT_NE(sums_known_of(message), nullptr);
  const ConstBytes part = std::as_const(message).bytes().subspan(400, 2 * 1448);
  EXPECT_EQ(sums_known_of(message)->of(part), ilp::scalar::sum(part));
}

}  // namespace
}  // namespace sluice::testing
