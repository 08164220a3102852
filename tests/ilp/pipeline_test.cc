// SPDX-License-Identifier: Apache-2.0

// The pipeline as others use it: a stage of their own, in any order with those of ilp/, each way to store, for each
// instruction set this CPU offers. Expectations are computed a byte at a time.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/prng.h"
#include "ilp/scalar.h"
#include "tests/ilp/each_target.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tests/ilp/pipeline_test.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ilp/pipeline-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sluice::ilp::HWY_NAMESPACE {
namespace {

/// Adds 1 to each byte: unlike a swap, it changes sums, so the order of stages shows.
class Increment {
 public:
  HWY_INLINE ByteVector vector(ByteVector v) const { return hn::Add(v, hn::Set(ByteTag(), 1)); }

  template <class Word>
  Word word(Word value) const {
    Word result = 0;
    for (std::size_t shift = 0; shift < 8 * sizeof value; shift += 8) {
      result = static_cast<Word>(result | (((value >> shift) + Word{1}) & Word{0xff}) << shift);
    }
    return result;
  }
};

std::uint16_t increment_then_sum(const std::byte* from, std::byte* to, std::size_t size) {
  Increment increment;
  Swap<4> swap;
  Sum sum;
  pass<Store::normal>(from, to, size, increment, sum, swap);
  return sum.result();
}

std::uint16_t sum_then_increment_around_caches(const std::byte* from, std::byte* to, std::size_t size) {
  Increment increment;
  Swap<4> swap;
  Sum sum;
  pass<Store::streaming>(from, to, size, sum, swap, increment);
  return sum.result();
}

std::uint16_t sum_of_increment(const std::byte* from, std::size_t size) {
  Increment increment;
  Sum sum;
  pass<Store::none>(from, nullptr, size, increment, sum);
  return sum.result();
}

}  // namespace
}  // namespace sluice::ilp::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace sluice::ilp {

HWY_EXPORT(increment_then_sum);
HWY_EXPORT(sum_then_increment_around_caches);
HWY_EXPORT(sum_of_increment);

namespace {

constexpr std::size_t vector_bytes_max = 64;

class Pipeline : public EachTarget {};

TEST_P(Pipeline, StagesOfOthersComposeInAnyOrderAndStore) {
  constexpr std::byte sentinel{0x5a};
  Prng prng(17);
  for (std::size_t size = 0; size <= 5 * vector_bytes_max; size += 4) {
    for (std::size_t misalignment = 0; misalignment < vector_bytes_max; ++misalignment) {
      std::vector<std::byte> source(size);
      prng.fill(source);
      std::vector<std::byte> incremented = source;
      for (std::byte& byte : incremented) {
        byte = static_cast<std::byte>(std::to_integer<unsigned>(byte) + 1U);
      }
      std::vector<std::byte> expected(size + 3 * vector_bytes_max, sentinel);
      scalar::swap_copy(4, incremented, Bytes(expected).subspan(misalignment, size));

      std::vector<std::byte> written(expected.size(), sentinel);
      ASSERT_EQ(HWY_DYNAMIC_DISPATCH(increment_then_sum)(source.data(), written.data() + misalignment, size),
                scalar::sum(incremented));
      ASSERT_EQ(written, expected) << size << " at " << misalignment;

      std::ranges::fill(written, sentinel);
      ASSERT_EQ(
          HWY_DYNAMIC_DISPATCH(sum_then_increment_around_caches)(source.data(), written.data() + misalignment, size),
          scalar::sum(source));
      ASSERT_EQ(written, expected) << size << " at " << misalignment;

      ASSERT_EQ(HWY_DYNAMIC_DISPATCH(sum_of_increment)(source.data(), size), scalar::sum(incremented));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, Pipeline, testing::ValuesIn(targets_of_this_cpu()),
                         [](const auto& instance) { return std::string(hwy::TargetName(instance.param)); });

}  // namespace
}  // namespace sluice::ilp

#endif  // HWY_ONCE
