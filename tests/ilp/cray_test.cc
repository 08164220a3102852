// SPDX-License-Identifier: Apache-2.0

// The conversions of ilp/cray.h against their scalar meaning, for each instruction set this CPU offers: random bits,
// every class of numbers and the edges between them; and what ilp/cray.h promises of known values and round trips.

#include "ilp/cray.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cfenv>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "base/prng.h"
#include "ilp/cray_scalar.h"
#include "tests/ilp/each_target.h"

namespace sluice::ilp {
namespace {

constexpr std::uint64_t one = 0x4001'8000'0000'0000U;  // exponent 040001, mantissa 0.5
constexpr std::uint64_t sign = std::uint64_t{1} << 63;

template <class Number>
ConstBytes bytes_of(const std::vector<Number>& numbers) {
  return std::as_bytes(std::span(numbers));
}

template <class Number>
Bytes bytes_of(std::vector<Number>& numbers) {
  return std::as_writable_bytes(std::span(numbers));
}

std::uint64_t cray(double value) {
  std::uint64_t word = 0;
  cray_from_binary64(std::as_bytes(std::span(&value, 1)), std::as_writable_bytes(std::span(&word, 1)));
  return word;
}

double binary64(std::uint64_t word) {
  double value = 0;
  binary64_from_cray(std::as_bytes(std::span(&word, 1)), std::as_writable_bytes(std::span(&value, 1)));
  return value;
}

float binary32(std::uint64_t word) {
  float value = 0;
  binary32_from_cray(std::as_bytes(std::span(&word, 1)), std::as_writable_bytes(std::span(&value, 1)));
  return value;
}

std::uint64_t cray_word(std::uint64_t exponent, std::uint64_t mantissa) { return exponent << 48 | mantissa; }

/// Bits of all kinds: uniform ones are hardly ever near an edge, so most have an exponent field from where the ranges
/// of the formats end, and a mantissa that is short, or just beside a tie.
template <class Bits, int exponent_bits>
std::vector<Bits> bits_of_all_kinds(const std::vector<int>& exponents, std::size_t random_count) {
  constexpr int mantissa_bits = std::numeric_limits<Bits>::digits - 1 - exponent_bits;
  constexpr Bits mantissa_mask = (Bits{1} << mantissa_bits) - 1;
  std::vector<Bits> mantissas = {0, 1, 2, 3, mantissa_mask, mantissa_mask - 1};
  for (int bit = 0; bit < mantissa_bits; ++bit) {
    const Bits single = Bits{1} << bit;
    for (const Bits around : {single, single - 1, single + 1, single | (single << 1), mantissa_mask - single}) {
      mantissas.push_back(around & mantissa_mask);
    }
  }
  std::vector<Bits> all;
  for (const int exponent : exponents) {
    for (const Bits mantissa : mantissas) {
      for (const Bits signs : {Bits{0}, Bits{1}}) {
        all.push_back(signs << (mantissa_bits + exponent_bits) | static_cast<Bits>(exponent) << mantissa_bits |
                      mantissa);
      }
    }
  }
  Prng prng(1976);
  for (std::size_t i = 0; i < random_count; ++i) {
    auto bits = static_cast<Bits>(prng());
    if (i % 4 != 0) {
      const auto exponent = static_cast<Bits>(exponents[prng.below(exponents.size())]);
      bits = (bits & ~(((Bits{1} << exponent_bits) - 1) << mantissa_bits)) | exponent << mantissa_bits;
    }
    if (i % 4 == 2) {
      bits &= ~Bits{0} << prng.below(mantissa_bits);
    }
    all.push_back(bits);
  }
  return all;
}

std::vector<int> range(int first, int last) {
  std::vector<int> values;
  for (int value = first; value <= last; ++value) {
    values.push_back(value);
  }
  return values;
}

template <class Value>
std::vector<Value> joined(std::vector<Value> a, const std::vector<Value>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

constexpr std::size_t random_count = 1'000'000;

std::vector<std::uint64_t> binary64_bits() {
  return bits_of_all_kinds<std::uint64_t, 11>(joined(joined(range(0, 3), range(1022, 1025)), range(2044, 2047)),
                                              random_count);
}

/// Around zero, binary64's and binary32's smallest and largest numbers, one, and the end of Cray's range.
std::vector<std::uint64_t> cray_words() {
  std::vector<int> exponents = range(0, 2);
  for (const int middle :
       {040000 - 1074, 040000 - 1022, 040000 - 149, 040000 - 126, 040000, 040000 + 128, 040000 + 1024}) {
    exponents = joined(exponents, range(middle - 3, middle + 3));
  }
  // An unnormalised mantissa puts them anywhere up to 48 below.
  exponents = joined(exponents, range(040000 - 1074, 040000 - 1074 + 50));
  exponents = joined(exponents, range(040000 - 149, 040000 - 149 + 50));
  exponents = joined(exponents, range(040000 + 1024, 040000 + 1024 + 50));
  return bits_of_all_kinds<std::uint64_t, 15>(joined(exponents, {057777, 060000, 060001, 077776, 077777}),
                                              random_count);
}

class Cray : public EachTarget {};

TEST_P(Cray, FromBinary64) {
  const std::vector<std::uint64_t> bits = binary64_bits();
  std::vector<std::uint64_t> words(bits.size());
  cray_from_binary64(bytes_of(bits), bytes_of(words));
  for (std::size_t i = 0; i < bits.size(); ++i) {
    ASSERT_EQ(words[i], scalar::cray_from_binary64(std::bit_cast<double>(bits[i]))) << std::hex << bits[i];
    ASSERT_EQ(cray(std::bit_cast<double>(bits[i])), words[i]) << "alone " << std::hex << bits[i];
  }
}

TEST_P(Cray, ToBinary64) {
  const std::vector<std::uint64_t> words = cray_words();
  std::vector<std::uint64_t> bits(words.size());
  binary64_from_cray(bytes_of(words), bytes_of(bits));
  for (std::size_t i = 0; i < words.size(); ++i) {
    ASSERT_EQ(bits[i], std::bit_cast<std::uint64_t>(scalar::binary64_from_cray(words[i]))) << std::hex << words[i];
    ASSERT_EQ(std::bit_cast<std::uint64_t>(binary64(words[i])), bits[i]) << "alone " << std::hex << words[i];
  }
}

TEST_P(Cray, FromBinary32AndBack) {
  const std::vector<std::uint32_t> bits =
      bits_of_all_kinds<std::uint32_t, 8>(joined(joined(range(0, 3), range(126, 129)), range(252, 255)), random_count);
  std::vector<std::uint64_t> words(bits.size());
  cray_from_binary32(bytes_of(bits), bytes_of(words));
  std::vector<std::uint32_t> back(bits.size());
  binary32_from_cray(bytes_of(words), bytes_of(back));
  for (std::size_t i = 0; i < bits.size(); ++i) {
    const auto value = std::bit_cast<float>(bits[i]);
    ASSERT_EQ(words[i], scalar::cray_from_binary32(value)) << std::hex << bits[i];
    if (std::isnan(value)) {
      ASSERT_EQ(back[i], (bits[i] & 0x80000000U) | 0x7fc00000U) << std::hex << bits[i];
    } else {
      ASSERT_EQ(back[i], value == 0 ? 0 : bits[i]) << std::hex << bits[i];
    }
  }
}

TEST_P(Cray, ToBinary32) {
  const std::vector<std::uint64_t> words = cray_words();
  std::vector<std::uint32_t> bits(words.size());
  binary32_from_cray(bytes_of(words), bytes_of(bits));
  for (std::size_t i = 0; i < words.size(); ++i) {
    ASSERT_EQ(bits[i], std::bit_cast<std::uint32_t>(scalar::binary32_from_cray(words[i]))) << std::hex << words[i];
    ASSERT_EQ(std::bit_cast<std::uint32_t>(binary32(words[i])), bits[i]) << "alone " << std::hex << words[i];
  }
}

TEST_P(Cray, NormalisedWordsComeBackThroughBinary64) {
  Prng prng(48);
  std::vector<std::uint64_t> words(random_count / 10);
  for (std::uint64_t& word : words) {
    const std::uint64_t exponent = 040000 - 1021 + prng.below(2 * 1021);
    word = (prng() & sign) | cray_word(exponent, prng() >> 16 | std::uint64_t{1} << 47);
  }
  std::vector<std::uint64_t> through(words.size());
  binary64_from_cray(bytes_of(words), bytes_of(through));
  cray_from_binary64(bytes_of(through), bytes_of(through));  // in place
  EXPECT_EQ(through, words);
}

/// Every count up to four turns of the longest vectors, at any alignment, in both orders, with sentinels behind.
TEST_P(Cray, AnyCountAlignmentAndOrder) {
  Prng prng(11);
  constexpr std::byte sentinel{0x33};
  for (std::size_t count = 0; count <= 36; ++count) {
    const std::size_t from = prng.below(64);
    const std::size_t to = prng.below(64);
    for (const std::endian order : {std::endian::little, std::endian::big}) {
      const auto ordered = [&](std::uint64_t word) { return order == std::endian::native ? word : byte_swapped(word); };
      std::vector<std::byte> binary(64 + 8 * count);
      std::vector<std::byte> words(64 + 8 * count + 16, sentinel);
      std::vector<std::byte> back(words.size(), sentinel);
      std::vector<float> values(count);
      for (std::size_t i = 0; i < count; ++i) {
        values[i] = static_cast<float>(prng.unit() - 0.5);
        const double value = double{values[i]};
        std::memcpy(binary.data() + from + 8 * i, &value, sizeof value);
      }

      cray_from_binary64(ConstBytes(binary).subspan(from, 8 * count), Bytes(words).subspan(to), order);
      for (std::size_t i = 0; i < count; ++i) {
        std::uint64_t word;
        std::memcpy(&word, words.data() + to + 8 * i, sizeof word);
        ASSERT_EQ(ordered(word), scalar::cray_from_binary32(values[i])) << i << " of " << count;
      }
      ASSERT_EQ(words[to + 8 * count], sentinel);
      binary64_from_cray(ConstBytes(words).subspan(to, 8 * count), Bytes(back).subspan(from), order);
      ASSERT_TRUE(std::equal(back.begin() + static_cast<std::ptrdiff_t>(from),
                             back.begin() + static_cast<std::ptrdiff_t>(from + 8 * count),
                             binary.begin() + static_cast<std::ptrdiff_t>(from)));
      ASSERT_EQ(back[from + 8 * count], sentinel);

      std::vector<std::byte> words_again(words.size(), sentinel);
      cray_from_binary32(bytes_of(std::as_const(values)), Bytes(words_again).subspan(to), order);
      ASSERT_EQ(words_again, words);
      std::vector<float> values_again(count + 1, 7.0F);
      binary32_from_cray(ConstBytes(words).subspan(to, 8 * count), bytes_of(values_again), order);
      ASSERT_EQ(values_again.back(), 7.0F);
      values_again.pop_back();
      ASSERT_EQ(values_again, values);
    }
  }
}

TEST_P(Cray, ResultsDoNotDependOnTheRoundingMode) {
  const std::vector<std::uint64_t> numbers = joined(cray_words(), binary64_bits());
  const auto results = [&] {
    std::vector<std::uint64_t> to_cray(numbers.size());
    std::vector<std::uint64_t> to_binary64(numbers.size());
    cray_from_binary64(bytes_of(numbers), bytes_of(to_cray));
    binary64_from_cray(bytes_of(numbers), bytes_of(to_binary64));
    return joined(to_cray, to_binary64);
  };
  const std::vector<std::uint64_t> expected = results();
  for (const int mode : {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO}) {
    ASSERT_EQ(std::fesetround(mode), 0);
    const std::vector<std::uint64_t> rounded = results();
    std::fesetround(FE_TONEAREST);
    EXPECT_TRUE(rounded == expected) << mode;
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, Cray, testing::ValuesIn(targets_of_this_cpu()),
                         [](const auto& instance) { return std::string(hwy::TargetName(instance.param)); });

TEST(CrayValues, Known) {
  EXPECT_EQ(cray(1.0), one);
  EXPECT_EQ(cray(-1.0), one | sign);
  EXPECT_EQ(cray(0.5), cray_word(040000, 0x8000'0000'0000));
  EXPECT_EQ(cray(2.0), cray_word(040002, 0x8000'0000'0000));
  EXPECT_EQ(cray(3.0), cray_word(040002, 0xc000'0000'0000));
  EXPECT_EQ(cray(10.0), cray_word(040004, 0xa000'0000'0000));
  EXPECT_EQ(cray(0.1), cray_word(037775, 0xcccc'cccc'cccd));
  EXPECT_EQ(binary64(one), 1.0);
  EXPECT_EQ(binary64(cray_word(040004, 0xa000'0000'0000) | sign), -10.0);
  EXPECT_EQ(binary32(cray_word(040004, 0xa000'0000'0000) | sign), -10.0F);
}

TEST(CrayValues, RoundToEven) {
  EXPECT_EQ(cray(1 + 0x1p-48), one);                // a tie, to the even one below
  EXPECT_EQ(cray(1 + 0x1p-48 + 0x1p-52), one + 1);  // above the tie
  EXPECT_EQ(cray(1 + 0x3p-48), one + 2);            // a tie, to the even one above
  EXPECT_EQ(cray(2 - 0x1p-52), cray_word(040002, 0x8000'0000'0000));
  EXPECT_EQ(binary32(cray(1 + 0x1p-24)), 1.0F);
  EXPECT_EQ(binary32(cray(1 + 0x3p-24)), 1 + 0x1p-22F);
}

TEST(CrayValues, Zeros) {
  EXPECT_EQ(cray(0.0), 0U);
  EXPECT_EQ(cray(-0.0), 0U);
  EXPECT_FALSE(std::signbit(binary64(0)));
  EXPECT_TRUE(std::signbit(binary64(sign)));
  EXPECT_EQ(binary64(cray_word(050000, 0)), 0.0);  // whatever the exponent says
}

TEST(CrayValues, OutOfBinary64sRange) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(binary64(cray_word(040000 + 1025, 0x8000'0000'0000)), infinity);
  EXPECT_EQ(binary64(cray_word(060000, 0x8000'0000'0000) | sign), -infinity);
  EXPECT_EQ(cray(-infinity), cray_word(060000, 0x8000'0000'0000) | sign);
  EXPECT_TRUE(std::isnan(binary64(cray(std::nan("")))));
  EXPECT_EQ(cray(std::numeric_limits<double>::denorm_min()), cray_word(040000 - 1073, 0x8000'0000'0000));
  EXPECT_EQ(binary64(cray_word(040000 - 1073, 0x8000'0000'0000)), std::numeric_limits<double>::denorm_min());
  EXPECT_EQ(binary64(cray_word(040000 - 1074, 0x8000'0000'0000)), 0.0);  // half of it: a tie, to even
  EXPECT_EQ(binary64(cray_word(040000 - 1074, 0x8000'0000'0001)), std::numeric_limits<double>::denorm_min());
}

TEST(CrayValues, UnnormalisedWordsHaveTheirValue) {
  EXPECT_EQ(binary64(cray_word(040000 + 48, 1)), 1.0);
  EXPECT_EQ(binary64(cray_word(040000 + 1024 + 47, 1)), 0x1p1023);
  EXPECT_EQ(binary32(cray_word(040000 + 48, 3)), 3.0F);
}

TEST(CrayContracts, WholeNumbersAndRoomForThem) {
  std::vector<std::byte> small(12);
  std::vector<std::byte> large(24);
  EXPECT_DEATH(cray_from_binary64(small, large), "contract broken");
  EXPECT_DEATH(binary64_from_cray(large, small), "contract broken");
  EXPECT_DEATH(cray_from_binary32(small, Bytes(large).first(23)), "contract broken");
  EXPECT_DEATH(binary32_from_cray(large, Bytes(small).first(11)), "contract broken");
}

}  // namespace
}  // namespace sluice::ilp
