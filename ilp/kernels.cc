// SPDX-License-Identifier: Apache-2.0
#include "ilp/kernels.h"

#include <cstring>

#include "base/contract.h"
#include "ilp/words.h"

// A scalable vector has no size at compile time and cannot be a stage's member; CPUs with SVE run the NEON kernels.
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ilp/kernels.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ilp/pipeline-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sluice::ilp::HWY_NAMESPACE {
namespace {

std::uint16_t sum_pass(const std::byte* from, std::size_t size) {
  Sum sum;
  pass<Store::none>(from, nullptr, size, sum);
  return sum.result();
}

std::uint16_t sum_copy_pass(const std::byte* from, std::byte* to, std::size_t size) {
  Sum sum;
  pass<Store::normal>(from, to, size, sum);
  return sum.result();
}

template <std::size_t unit>
void swap_units(const std::byte* from, std::byte* to, std::size_t size) {
  Swap<unit> swap;
  pass<Store::normal>(from, to, size, swap);
}

template <std::size_t unit>
std::uint16_t sum_swap_units(const std::byte* from, std::byte* to, std::size_t size) {
  Sum sum;
  Swap<unit> swap;
  pass<Store::normal>(from, to, size, sum, swap);
  return sum.result();
}

std::uint16_t sum_swap_pass(std::size_t unit, const std::byte* from, std::byte* to, std::size_t size) {
  switch (unit) {
    case 2:
      return sum_swap_units<2>(from, to, size);
    case 4:
      return sum_swap_units<4>(from, to, size);
    default:
      return sum_swap_units<8>(from, to, size);
  }
}

void swap_pass(std::size_t unit, const std::byte* from, std::byte* to, std::size_t size) {
  switch (unit) {
    case 2:
      return swap_units<2>(from, to, size);
    case 4:
      return swap_units<4>(from, to, size);
    default:
      return swap_units<8>(from, to, size);
  }
}

}  // namespace
}  // namespace sluice::ilp::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace sluice::ilp {
namespace {

HWY_EXPORT(sum_pass);
HWY_EXPORT(sum_copy_pass);
HWY_EXPORT(swap_pass);
HWY_EXPORT(sum_swap_pass);

/// Below this, the way to the vectors costs more than they save: an IP header is done in a few words.
constexpr std::size_t short_size = 64;

template <Store store>
std::uint16_t short_sum(const std::byte* from, std::byte* to, std::size_t size) {
  SumWords sum;
  word_pass<store>(from, to, size, sum);
  return sum.result();
}

void swap_to(std::size_t unit, const std::byte* from, std::byte* to, std::size_t size) {
  SLUICE_REQUIRE(unit == 2 || unit == 4 || unit == 8);
  SLUICE_REQUIRE(size % unit == 0);
  HWY_DYNAMIC_DISPATCH(swap_pass)(unit, from, to, size);
}

}  // namespace

std::uint16_t sum(ConstBytes bytes) {
  if (bytes.size() < short_size) {
    return short_sum<Store::none>(bytes.data(), nullptr, bytes.size());
  }
  return HWY_DYNAMIC_DISPATCH(sum_pass)(bytes.data(), bytes.size());
}

std::uint16_t sum_at_odd_offset(ConstBytes bytes) { return byte_swapped(sum(bytes)); }

void swap(std::size_t unit, Bytes bytes) { swap_to(unit, bytes.data(), bytes.data(), bytes.size()); }

void swap_copy(std::size_t unit, ConstBytes source, Bytes destination) {
  SLUICE_REQUIRE(destination.size() >= source.size());
  swap_to(unit, source.data(), destination.data(), source.size());
}

void copy(ConstBytes source, Bytes destination) {
  SLUICE_REQUIRE(destination.size() >= source.size());
  if (!source.empty()) {  // memcpy allows no null pointer, which an empty range may have
    std::memcpy(destination.data(), source.data(), source.size());
  }
}

std::uint16_t sum_copy(ConstBytes source, Bytes destination) {
  SLUICE_REQUIRE(destination.size() >= source.size());
  if (source.size() < short_size) {
    return short_sum<Store::normal>(source.data(), destination.data(), source.size());
  }
  return HWY_DYNAMIC_DISPATCH(sum_copy_pass)(source.data(), destination.data(), source.size());
}

std::uint16_t sum_swap_copy(std::size_t unit, ConstBytes source, Bytes destination) {
  SLUICE_REQUIRE(unit == 2 || unit == 4 || unit == 8);
  SLUICE_REQUIRE(source.size() % unit == 0 && destination.size() >= source.size());
  return HWY_DYNAMIC_DISPATCH(sum_swap_pass)(unit, source.data(), destination.data(), source.size());
}

/// Reversing the bytes of 2, 4 or 8 exchanges the bytes of each 16-bit word, and words as wholes: to the sum only the
/// first matters, and RFC 1071 section 2(B) says how.
std::uint16_t swap_sum_copy(std::size_t unit, ConstBytes source, Bytes destination) {
  return byte_swapped(sum_swap_copy(unit, source, destination));
}

}  // namespace sluice::ilp

#endif  // HWY_ONCE
