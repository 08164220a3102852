// SPDX-License-Identifier: Apache-2.0

// The sum by byte dot product, on every instruction set this CPU offers: by the emulated dot product everywhere, by the
// CPU's own where it has one. So what is built on the instruction (coefficients, bounds, tails) is tested on machines
// without it.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/prng.h"
#include "ilp/scalar.h"
#include "tests/ilp/each_target.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tests/ilp/dot_product_test.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ilp/pipeline-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sluice::ilp::HWY_NAMESPACE {
namespace {

#if HWY_TARGET == HWY_SCALAR  // no vectors, and no dot product of them

using DotSum = Sum;

std::size_t vector_bytes() { return 0; }
void dot_product(bool, std::uint32_t*, const std::uint8_t*, const std::uint8_t*) {}

#else

using DotSum = SumByDotProduct<EmulatedDotProduct>;

std::size_t vector_bytes() { return hn::Lanes(ByteTag()); }

template <class Dot>
void dot_product_of(std::uint32_t* sums, const std::uint8_t* bytes, const std::uint8_t* coefficients) {
  ByteVector v = hn::LoadU(ByteTag(), bytes);
  hn::StoreU(Dot::add(hn::LoadU(IntTag(), sums), v, hn::LoadU(ByteTag(), coefficients)), IntTag(), sums);
}

/// One vector's, by the CPU's own instruction where there is one and `own`.
void dot_product(bool own, std::uint32_t* sums, const std::uint8_t* bytes, const std::uint8_t* coefficients) {
#if SLUICE_ILP_HAS_DOT_PRODUCT
  if (own) {
    return dot_product_of<DotProduct>(sums, bytes, coefficients);
  }
#endif
  dot_product_of<EmulatedDotProduct>(sums, bytes, coefficients);
}

#endif

std::uint16_t sum_only(const std::byte* from, std::size_t size) {
  DotSum dot;
  pass<Store::none>(from, nullptr, size, dot);
  return dot.result();
}

std::uint16_t sum_then_swap(const std::byte* from, std::byte* to, std::size_t size) {
  DotSum dot;
  Swap<4> swap;
  pass<Store::normal>(from, to, size, dot, swap);
  return dot.result();
}

}  // namespace
}  // namespace sluice::ilp::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace sluice::ilp {

HWY_EXPORT(vector_bytes);
HWY_EXPORT(dot_product);
HWY_EXPORT(sum_only);
HWY_EXPORT(sum_then_swap);

namespace {

constexpr std::size_t vector_bytes_max = 64;

class DotProducts : public EachTarget {};

// Intel's manual on VPDPBUSD: "Multiplies the individual unsigned bytes of the first source operand by the
// corresponding signed bytes of the second source operand, producing intermediate signed word results. The word results
// are then summed and accumulated in the destination dword element size operand."
TEST_P(DotProducts, AddFourProductsToEachLane) {
  const std::size_t lanes = HWY_DYNAMIC_DISPATCH(vector_bytes)();
  Prng prng(8);
  for (int round = 0; round < 1000; ++round) {
    std::array<std::uint8_t, vector_bytes_max> bytes{};
    std::array<std::uint8_t, vector_bytes_max> coefficients{};
    std::array<std::uint32_t, vector_bytes_max / 4> before{};
    for (std::size_t i = 0; i < lanes; ++i) {
      bytes[i] = round == 0 ? 255 : static_cast<std::uint8_t>(prng());
      // NEON's takes coefficients as unsigned; those of the sum are 0 and 1.
      coefficients[i] = static_cast<std::uint8_t>(round == 0 ? 127 : prng() & 127);
      before[i / 4] = static_cast<std::uint32_t>(prng());
    }
    auto expected = before;
    for (std::size_t i = 0; i < lanes; ++i) {
      expected[i / 4] += std::uint32_t{bytes[i]} * coefficients[i];
    }
    for (const bool own : {false, true}) {
      auto sums = before;
      HWY_DYNAMIC_DISPATCH(dot_product)(own, sums.data(), bytes.data(), coefficients.data());
      ASSERT_EQ(sums, expected) << round << (own ? " the CPU's" : " emulated");
    }
  }
}

TEST_P(DotProducts, SumEveryLengthAtEveryMisalignment) {
  constexpr std::byte sentinel{0x5a};
  Prng prng(1071);
  std::vector<std::byte> bytes(6 * vector_bytes_max);
  prng.fill(bytes);
  for (std::size_t size = 0; size <= 5 * vector_bytes_max; ++size) {
    for (std::size_t misalignment = 0; misalignment < vector_bytes_max; ++misalignment) {
      const ConstBytes source = ConstBytes(bytes).subspan(misalignment, size);
      ASSERT_EQ(HWY_DYNAMIC_DISPATCH(sum_only)(source.data(), size), scalar::sum(source)) << size;
      if (size % 4 != 0) {
        continue;
      }
      std::vector<std::byte> expected(size + 2 * vector_bytes_max, sentinel);
      std::vector<std::byte> written = expected;
      const std::size_t at = vector_bytes_max - misalignment;
      scalar::swap_copy(4, source, Bytes(expected).subspan(at, size));
      ASSERT_EQ(HWY_DYNAMIC_DISPATCH(sum_then_swap)(source.data(), written.data() + at, size), scalar::sum(source));
      ASSERT_EQ(written, expected) << size << " at " << misalignment;
    }
  }
}

// All ones fill what is kept between two folds as fast as anything can: one vector too many would be lost modulo 2^64.
// 256 may come together without a fold, and 512 between two.
TEST_P(DotProducts, FoldBeforeAnythingIsLost) {
  const std::size_t vector = std::max<std::size_t>(HWY_DYNAMIC_DISPATCH(vector_bytes)(), 16);
  constexpr std::size_t vectors_max = 1024 + 270;
  const std::size_t size_max = vectors_max * vector;
  Prng prng(9);
  std::vector<std::byte> random(size_max + 8);
  prng.fill(random);
  const std::vector<std::byte> ones(size_max + 8, std::byte{0xff});
  std::vector<std::byte> written(size_max);
  std::vector<std::byte> expected(size_max);
  for (const std::size_t vectors : {247U, 248U, 251U, 252U, 255U, 256U, 257U, 260U, 264U, 511U, 512U, 513U, 512U + 248U,
                                    512U + 255U, 512U + 256U, 512U + 264U, 1024U, 1024U + 255U, 1024U + 264U}) {
    for (const std::size_t rest : {std::size_t{0}, vector - 1, vector - 4}) {
      const std::size_t size = vectors * vector + rest;
      for (const std::size_t misalignment : {0U, 1U, 8U}) {
        for (const std::vector<std::byte>* bytes : {&ones, &std::as_const(random)}) {
          const ConstBytes source = ConstBytes(*bytes).subspan(misalignment, size);
          const std::uint16_t sum = scalar::sum(source);
          ASSERT_EQ(HWY_DYNAMIC_DISPATCH(sum_only)(source.data(), size), sum) << vectors << " vectors and " << rest;
          if (size % 4 == 0) {
            ASSERT_EQ(HWY_DYNAMIC_DISPATCH(sum_then_swap)(source.data(), written.data(), size), sum)
                << vectors << " vectors and " << rest;
            scalar::swap_copy(4, source, expected);
            ASSERT_EQ(std::memcmp(written.data(), expected.data(), size), 0);
          }
        }
      }
    }
  }
}

TEST_P(DotProducts, SumToZeroOnlyForZeros) {
  std::vector<std::byte> bytes(70'000);
  EXPECT_EQ(HWY_DYNAMIC_DISPATCH(sum_only)(bytes.data(), bytes.size()), 0);
  for (const std::size_t at : {0U, 7U, 4096U, 65536U, 69'999U}) {
    bytes[at] = std::byte{0xff};
    bytes[at ^ 1] = std::byte{0xff};
    EXPECT_EQ(HWY_DYNAMIC_DISPATCH(sum_only)(bytes.data(), bytes.size()), 0xffff) << at;
    bytes[at] = bytes[at ^ 1] = std::byte{0};
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, DotProducts, testing::ValuesIn(targets_of_this_cpu()),
                         [](const auto& instance) { return std::string(hwy::TargetName(instance.param)); });

}  // namespace
}  // namespace sluice::ilp

#endif  // HWY_ONCE
