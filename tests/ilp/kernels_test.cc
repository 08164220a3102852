// SPDX-License-Identifier: Apache-2.0

// Every kernel against its scalar meaning: each instruction set this CPU offers x each length from 0 to past four of
// the longest vectors, and some where the pass starts to align its stores x each misalignment of source and destination
// within a vector, with sentinels around what is written. Beyond that one message that goes around the caches.

#include "ilp/kernels.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <functional>
#include <string>
#include <vector>

#include "base/prng.h"
#include "ilp/scalar.h"
#include "ilp/words.h"
#include "tests/ilp/each_target.h"

namespace sluice::ilp {
namespace {

constexpr std::size_t vector_bytes_max = 64;
constexpr std::size_t turn_bytes = 4 * vector_bytes_max;
/// Past one turn of the longest vectors, with a tail of every length behind it.
constexpr std::size_t every_length_max = turn_bytes + vector_bytes_max + 8;
constexpr std::size_t length_max = long_size + every_length_max;
constexpr std::size_t arena_bytes = 2 * vector_bytes_max + length_max + vector_bytes_max;

/// Memory with a known start, so that two arenas of the same seed agree at every misalignment.
struct Arena {
  explicit Arena(std::uint64_t seed) {
    Prng prng(seed);
    prng.fill(bytes);
  }

  /// The range that starts `misalignment` bytes behind a vector boundary, with a vector's room on both sides.
  Bytes place(std::size_t misalignment, std::size_t size) {
    return Bytes(bytes).subspan(vector_bytes_max + misalignment, size);
  }

  alignas(vector_bytes_max) std::array<std::byte, arena_bytes> bytes;
};

/// Runs both into arenas of the same random bytes: whatever the kernel writes outside its range shows as a difference.
void expect_same_writes(Bytes source, std::size_t misalignment, const std::function<void(ConstBytes, Bytes)>& kernel,
                        const std::function<void(ConstBytes, Bytes)>& reference) {
  static const Arena before(7);
  Arena written = before;
  Arena expected = before;
  // A destination larger than the source stays as it was behind the source's size.
  kernel(source, written.place(misalignment, source.size() + 8));
  reference(source, expected.place(misalignment, source.size() + 8));
  ASSERT_EQ(written.bytes, expected.bytes) << "size " << source.size() << " destination misaligned by " << misalignment;
}

class Kernels : public EachTarget {
 protected:
  /// Calls `check(size, source, destination misalignment)` for every length and misalignment of the file comment.
  static void for_all_placements(std::size_t unit, const std::function<void(Bytes, std::size_t)>& check) {
    Arena arena(1071);
    for (std::size_t size = 0; size <= every_length_max; size += unit) {
      for (std::size_t misalignment = 0; misalignment < vector_bytes_max; ++misalignment) {
        check(arena.place(misalignment, size), (misalignment * 11 + size) % vector_bytes_max);
      }
    }
    for (std::size_t to = 0; to < vector_bytes_max * vector_bytes_max; ++to) {
      check(arena.place(to % vector_bytes_max, turn_bytes + vector_bytes_max - unit), to / vector_bytes_max);
    }
    for (std::size_t size = long_size - unit; size <= length_max; size += 5 * unit) {
      check(arena.place(size % vector_bytes_max, size), size / unit % vector_bytes_max);
    }
    for (std::size_t to = 0; to < vector_bytes_max; ++to) {
      check(arena.place(0, long_size + 2 * vector_bytes_max - unit), to);
      check(arena.place(to, long_size + 2 * vector_bytes_max - unit), 0);
    }
  }
  /// With every unit: ours(unit, from, to) writes what reference(unit, from, to) writes, wherever both lie.
  template <class Ours, class Reference>
  static void expect_same_writes_of_units(Ours ours, Reference reference) {
    for (const std::size_t unit : {2U, 4U, 8U}) {
      for_all_placements(unit, [&](Bytes source, std::size_t misalignment) {
        expect_same_writes(
            source, misalignment, [&](ConstBytes from, Bytes to) { ours(unit, from, to); },
            [&](ConstBytes from, Bytes to) { reference(unit, from, to); });
      });
    }
  }
};

TEST_P(Kernels, Sum) {
  for_all_placements(1,
                     [](Bytes source, std::size_t) { ASSERT_EQ(sum(source), scalar::sum(source)) << source.size(); });
}

TEST_P(Kernels, SumOfAllOnesKeepsEveryCarry) {
  const std::vector<std::byte> ones(std::size_t{1} << 20, std::byte{0xff});
  EXPECT_EQ(sum(ones), 0xffff);
  EXPECT_EQ(sum(ConstBytes(ones).first(65537)), scalar::sum(ConstBytes(ones).first(65537)));
}

TEST_P(Kernels, SumOfLargeRandomMessages) {
  std::vector<std::byte> bytes(300'001);
  Prng(3).fill(bytes);
  for (const std::size_t from : {0U, 1U, 14U, 63U}) {
    EXPECT_EQ(sum(ConstBytes(bytes).subspan(from)), scalar::sum(ConstBytes(bytes).subspan(from))) << from;
  }
}

TEST_P(Kernels, SumCopy) {
  for_all_placements(1, [](Bytes source, std::size_t misalignment) {
    expect_same_writes(
        source, misalignment,
        [](ConstBytes from, Bytes to) { ASSERT_EQ(sum_copy(from, to), scalar::sum(from)) << from.size(); },
        scalar::copy);
  });
}

TEST_P(Kernels, Copy) {
  for_all_placements(
      1, [](Bytes source, std::size_t misalignment) { expect_same_writes(source, misalignment, copy, scalar::copy); });
}

void swap_in_place(std::size_t unit, ConstBytes from, Bytes to) { scalar::swap(unit, to.first(from.size())); }

TEST_P(Kernels, SwapCopy) { expect_same_writes_of_units(swap_copy, scalar::swap_copy); }

TEST_P(Kernels, SwapInPlace) {
  expect_same_writes_of_units([](std::size_t unit, ConstBytes from, Bytes to) { swap(unit, to.first(from.size())); },
                              swap_in_place);
}

TEST_P(Kernels, SumSwapCopy) {
  expect_same_writes_of_units(
      [](std::size_t unit, ConstBytes from, Bytes to) { ASSERT_EQ(sum_swap_copy(unit, from, to), scalar::sum(from)); },
      scalar::swap_copy);
}

TEST_P(Kernels, SumSwapInPlace) {
  expect_same_writes_of_units(
      [](std::size_t unit, ConstBytes from, Bytes to) {
        const Bytes bytes = to.first(from.size());
        const std::uint16_t expected = scalar::sum(bytes);
        ASSERT_EQ(sum_swap_copy(unit, bytes, bytes), expected);
      },
      swap_in_place);
}

TEST_P(Kernels, SwapSumCopy) {
  expect_same_writes_of_units(
      [](std::size_t unit, ConstBytes from, Bytes to) {
        const std::uint16_t result = swap_sum_copy(unit, from, to);
        ASSERT_EQ(result, scalar::sum(to.first(from.size())));
      },
      scalar::swap_copy);
}

TEST_P(Kernels, SwapSumInPlace) {
  expect_same_writes_of_units(
      [](std::size_t unit, ConstBytes from, Bytes to) {
        const Bytes bytes = to.first(from.size());
        const std::uint16_t result = swap_sum_copy(unit, bytes, bytes);
        ASSERT_EQ(result, scalar::sum(bytes));
      },
      swap_in_place);
}

TEST_P(Kernels, MessagesThatGoAroundTheCaches) {
  constexpr std::size_t size = streaming_size + turn_bytes + 2 * vector_bytes_max + 24;
  std::vector<std::byte> source(size + 1);
  Prng(4).fill(source);
  for (const std::size_t misalignment : {0U, 8U, 1U}) {
    constexpr std::byte sentinel{0x77};
    std::vector<std::byte> written(size + 2 * vector_bytes_max, sentinel);
    std::vector<std::byte> expected = written;
    const Bytes to = Bytes(written).subspan(misalignment, size + 1);
    const Bytes expected_to = Bytes(expected).subspan(misalignment, size + 1);

    EXPECT_EQ(sum_copy(source, to), scalar::sum_copy(source, expected_to));
    ASSERT_TRUE(written == expected) << misalignment;
    const ConstBytes units = ConstBytes(source).first(size);
    EXPECT_EQ(swap_sum_copy(4, units, to), scalar::swap_sum_copy(4, units, expected_to));
    ASSERT_TRUE(written == expected) << misalignment;
    EXPECT_EQ(swap_sum_copy(8, to.first(size), to.first(size)), [&] {
      scalar::swap(8, expected_to.first(size));
      return scalar::sum(expected_to.first(size));
    }());
    ASSERT_TRUE(written == expected) << misalignment;
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, Kernels, testing::ValuesIn(targets_of_this_cpu()),
                         [](const auto& instance) { return std::string(hwy::TargetName(instance.param)); });

TEST(KernelContracts, UnitIsTwoFourOrEight) {
  std::vector<std::byte> bytes(12);
  EXPECT_DEATH(swap(3, bytes), "contract broken: unit == 2");
  EXPECT_DEATH(swap(8, bytes), "contract broken: .size & .unit - 1.. == 0");
  EXPECT_DEATH(sum_swap_copy(3, bytes, bytes), "contract broken: unit == 2");
  EXPECT_DEATH(swap_sum_copy(8, bytes, bytes), "contract broken: .size & .unit - 1.. == 0");
}

TEST(KernelContracts, DestinationHoldsTheSource) {
  const std::vector<std::byte> source(12);
  std::vector<std::byte> destination(11);
  EXPECT_DEATH(copy(source, destination), "contract broken");
  EXPECT_DEATH(sum_copy(source, destination), "contract broken");
  EXPECT_DEATH(swap_copy(4, source, destination), "contract broken");
  EXPECT_DEATH(sum_swap_copy(4, source, destination), "contract broken");
  EXPECT_DEATH(swap_sum_copy(4, source, destination), "contract broken");
}

}  // namespace
}  // namespace sluice::ilp
