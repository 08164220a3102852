// SPDX-License-Identifier: Apache-2.0
// Messages lent in many runs (Message::defer_copies), where their bytes lie (runs()), and landing in many places with a
// sum of each (land_summed()).
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <string>
#include <vector>

#include "base/internet_checksum.h"
#include "base/prng.h"
#include "stack/core/counter.h"
#include "stack/core/message.h"
#include "stack/core/module.h"

namespace sluice {
namespace {

using Vector = std::vector<std::byte>;

Vector random_bytes(Prng& prng, std::size_t size) {
  Vector bytes(size);
  prng.fill(bytes);
  return bytes;
}

/// A message of a header and lent runs; `all` is what it comes to.
struct Lent {
  Lent(BufferPool& pool, Prng& prng, std::size_t headers, std::size_t run_count) {
    for (std::size_t at = 0; at < run_count; ++at) {
      memory.push_back(random_bytes(prng, prng() % 5 == 0 ? 0 : prng() % 300));
    }
    memory.push_back(random_bytes(prng, 8));
    std::size_t size = 0;
    for (const Vector& run : memory) {
      runs.emplace_back(run);
      size += run.size();
    }
    message = Message::of_size(pool, size, 64, 0);
    message.defer();
    message.defer_copies(runs, message.bytes().data(), list);
    const Vector header = random_bytes(prng, headers);
    std::ranges::copy(header, message.prepend_data(headers).begin());
    all = header;
    for (const Vector& run : memory) {
      all.insert(all.end(), run.begin(), run.end());
    }
  }
  std::vector<Vector> memory;
  std::vector<ConstBytes> runs;
  DeferredCopy* list = nullptr;
  Message message;
  Vector all;
};

Vector bytes_of(Message& message) {
  Vector bytes(message.data_size());
  EXPECT_TRUE(message.copy_data_to(0, bytes));
  return bytes;
}

TEST(LentRuns, AreSeenAndCopiedInOrder) {
  BufferPool pool;
  Prng prng(1);
  for (int round = 0; round < 200; ++round) {
    SCOPED_TRACE(round);
    Lent lent(pool, prng, prng() % 50, prng() % 6);
    EXPECT_EQ(bytes_of(lent.message), lent.all) << "before";
    std::array<ConstBytes, 16> where;
    const auto count = lent.message.runs(where);
    ASSERT_TRUE(count);
    Vector seen;
    for (const ConstBytes run : std::span(where).first(*count)) {
      seen.insert(seen.end(), run.begin(), run.end());
    }
    EXPECT_EQ(seen, lent.all);
    EXPECT_TRUE(lent.message.owes_copy_only());
    if (round % 3 == 0) {
      EXPECT_EQ(lent.message.materialize(), TransformResult::done);
    } else if (round % 3 == 1) {
      pool.complete(*lent.list);  // as the loan does when it ends
    } else {
      EXPECT_EQ(lent.message.gather(), TransformResult::done);
    }
    EXPECT_EQ(lent.list, nullptr);
    EXPECT_TRUE(lent.message.materialized());
    for (Vector& run : lent.memory) {
      std::ranges::fill(run, std::byte{0xee});
    }
    EXPECT_EQ(bytes_of(lent.message), lent.all) << "after";
  }
}

TEST(LentRuns, CannotBeShownWhenMoreIsOwedOrThereIsNoRoom) {
  BufferPool pool;
  Prng prng(2);
  Lent lent(pool, prng, 4, 3);
  std::array<ConstBytes, 1> one;
  EXPECT_FALSE(lent.message.runs(one));
  std::array<std::byte, 2> sum{};
  ASSERT_EQ(lent.message.transform(Sum{.initial = 0, .field = sum.data(), .zero_is_sent_as_ones = false}),
            TransformResult::deferred);
  std::array<ConstBytes, 16> where;
  EXPECT_FALSE(lent.message.runs(where));
  EXPECT_FALSE(lent.message.owes_copy_only());
}

/// Every place gets its bytes and their sum, whatever is owed, however runs and places are cut.
TEST(LandSummed, EachPlaceHasItsSum) {
  Prng prng(3);
  for (int round = 0; round < 2000; ++round) {
    SCOPED_TRACE(round);
    BufferPool pool;
    const std::size_t unit = std::array<std::size_t, 4>{1, 2, 4, 8}[prng() % 4];
    const std::size_t headers = prng() % 64;
    Lent lent(pool, prng, 0, 1 + prng() % 6);
    if (unit != 1) {
      if (lent.all.size() % unit != 0) {
        continue;
      }
      ASSERT_EQ(lent.message.transform(Swap{unit}), TransformResult::deferred);
      for (std::size_t at = 0; at < lent.all.size(); at += unit) {
        std::reverse(lent.all.begin() + static_cast<std::ptrdiff_t>(at),
                     lent.all.begin() + static_cast<std::ptrdiff_t>(at + unit));
      }
    }
    const Vector header = random_bytes(prng, headers);
    std::ranges::copy(header, lent.message.prepend_data(headers).begin());
    lent.all.insert(lent.all.begin(), header.begin(), header.end());
    const bool sums_too = prng() % 8 == 0;  // then it takes two passes
    std::array<std::byte, 2> field{};
    if (sums_too) {
      ASSERT_EQ(lent.message.transform(Sum{.initial = 0, .field = field.data(), .zero_is_sent_as_ones = false}),
                TransformResult::deferred);
    }
    Vector out(lent.all.size());
    std::vector<Bytes> places{Bytes(out).first(headers)};
    for (std::size_t at = headers; at < out.size();) {
      const std::size_t part = std::min(out.size() - at, 1 + prng() % 200);
      places.push_back(Bytes(out).subspan(at, part));
      at += part;
    }
    std::vector<std::uint16_t> sums(places.size());
    ASSERT_EQ(lent.message.land_summed(places, sums), TransformResult::done);
    EXPECT_EQ(out, lent.all);
    for (std::size_t at = 0; at < places.size(); ++at) {
      EXPECT_EQ(checksum_of(sums[at]), checksum_of(header_sum(places[at]))) << "place " << at;
    }
    if (sums_too && out.size() % 2 == 0) {
      EXPECT_TRUE(sum_holds(add_sums(header_sum(out), header_sum(field))));
    }
  }
}

TEST(LandSummed, TouchesEachByteOnce) {
  BufferPool pool;
  Prng prng(4);
  Lent lent(pool, prng, 28, 5);
  const Touches before = pool.touches();
  Vector out(lent.all.size());
  const std::array<Bytes, 2> places{Bytes(out).first(28), Bytes(out).subspan(28)};
  std::array<std::uint16_t, 2> sums{};
  ASSERT_EQ(lent.message.land_summed(places, sums), TransformResult::done);
  EXPECT_EQ(pool.touches().loaded_bytes - before.loaded_bytes, out.size());
  EXPECT_EQ(pool.touches().stored_bytes - before.stored_bytes, out.size());
}

TEST(LandSummed, AFailedCheckIsSaid) {
  BufferPool pool;
  Prng prng(5);
  Message message = Message::copy_of(pool, random_bytes(prng, 100));
  message.defer();
  struct Owner : Module {
    Owner() : Module("owner") {}
    Counter refused{*this, "refused", "refused"};
  } owner;
  ASSERT_EQ(message.transform(Check{.initial = 1}, {}, owner.refused), TransformResult::deferred);
  Vector out(100);
  const std::array<Bytes, 1> places{Bytes(out)};
  std::array<std::uint16_t, 1> sums{};
  EXPECT_EQ(message.land_summed(places, sums), TransformResult::failed);
  EXPECT_TRUE(message.failed());
}

}  // namespace
}  // namespace sluice
