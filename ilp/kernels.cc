// SPDX-License-Identifier: Apache-2.0
#include "ilp/kernels.h"

#include "ilp/targets.h"

#include <cstring>

#include "base/contract.h"
#include "base/internet_checksum.h"
#include "ilp/words.h"

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

HWY_EXPORT(sum_pass);
HWY_EXPORT(sum_copy_pass);
HWY_EXPORT(swap_pass);
HWY_EXPORT(sum_swap_pass);

namespace {

/// Below this, the way to the vectors costs more than they save: an IP header is done in a few words.
constexpr std::size_t short_size = 64;

/// Calls `call` with the stage that swaps `unit` bytes.
template <class Call>
void for_unit(std::size_t unit, const Call& call) {
  switch (unit) {
    case 2:
      return call(SwapWords<2>());
    case 4:
      return call(SwapWords<4>());
    default:
      return call(SwapWords<8>());
  }
}

void require_units(std::size_t unit, std::size_t size) {
  SLUICE_REQUIRE(unit == 2 || unit == 4 || unit == 8);
  SLUICE_REQUIRE((size & (unit - 1)) == 0);
}

void swap_to(std::size_t unit, ConstBytes source, std::byte* to) {
  require_units(unit, source.size());
  if (source.size() < short_size) {
    return for_unit(unit, [&](auto swap) { word_pass<Store::normal>(source.data(), to, source.size(), swap); });
  }
  HWY_DYNAMIC_DISPATCH(swap_pass)(unit, source.data(), to, source.size());
}

/// Apart, so that the way to the vectors saves no registers.
[[gnu::noinline]] std::uint16_t short_sum_swap_copy(std::size_t unit, ConstBytes source, std::byte* to) {
  SumWords sum;
  for_unit(unit, [&](auto swap) { word_pass<Store::normal>(source.data(), to, source.size(), sum, swap); });
  return sum.result();
}

}  // namespace

std::uint16_t sum(ConstBytes bytes) {
  if (bytes.size() < short_size) {
    return header_sum(bytes);
  }
  return HWY_DYNAMIC_DISPATCH(sum_pass)(bytes.data(), bytes.size());
}

void swap(std::size_t unit, Bytes bytes) { swap_to(unit, bytes, bytes.data()); }

void swap_copy(std::size_t unit, ConstBytes source, Bytes destination) {
  SLUICE_REQUIRE(destination.size() >= source.size());
  swap_to(unit, source, destination.data());
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
    SumWords sum;
    word_pass<Store::normal>(source.data(), destination.data(), source.size(), sum);
    return sum.result();
  }
  return HWY_DYNAMIC_DISPATCH(sum_copy_pass)(source.data(), destination.data(), source.size());
}

std::uint16_t sum_swap_copy(std::size_t unit, ConstBytes source, Bytes destination) {
  SLUICE_REQUIRE(destination.size() >= source.size());
  require_units(unit, source.size());
  if (source.size() < short_size) [[unlikely]] {
    return short_sum_swap_copy(unit, source, destination.data());
  }
  return HWY_DYNAMIC_DISPATCH(sum_swap_pass)(unit, source.data(), destination.data(), source.size());
}

/// Both orders are one loop: reversing the bytes of 2, 4 or 8 exchanges the bytes of each 16-bit word, and words as
/// wholes. To the sum only the first matters, and RFC 1071 section 2(B) says how.
std::uint16_t swap_sum_copy(std::size_t unit, ConstBytes source, Bytes destination) {
  return byte_swapped(sum_swap_copy(unit, source, destination));
}

}  // namespace sluice::ilp

#endif  // HWY_ONCE
