// SPDX-License-Identifier: Apache-2.0
#include "ilp/cray.h"

#include "ilp/targets.h"

#include <cstring>

#include "base/contract.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ilp/cray.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ilp/cray-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sluice::ilp::HWY_NAMESPACE {
namespace {

/// Whether the Cray words are to be swapped is a constant, so that the other order costs nothing.
void cray_from_binary64_pass(bool swapped, const std::byte* from, std::byte* to, std::size_t size) {
  CrayFromBinary64 convert;
  Swap<8> swap;
  if (swapped) {
    pass<Store::normal>(from, to, size, convert, swap);
  } else {
    pass<Store::normal>(from, to, size, convert);
  }
}

void binary64_from_cray_pass(bool swapped, const std::byte* from, std::byte* to, std::size_t size) {
  Swap<8> swap;
  Binary64FromCray convert;
  if (swapped) {
    pass<Store::normal>(from, to, size, swap, convert);
  } else {
    pass<Store::normal>(from, to, size, convert);
  }
}

void cray_from_binary32_words(bool swapped, const std::byte* from, std::byte* to, std::size_t count) {
  for (; count > 0; --count) {
    std::uint32_t bits;
    std::memcpy(&bits, from, sizeof bits);
    const std::uint64_t word = cray::cray_of_binary64(cray::binary64_of_binary32(bits));
    const std::uint64_t stored = swapped ? byte_swapped(word) : word;
    std::memcpy(to, &stored, sizeof stored);
    from += sizeof bits;
    to += sizeof stored;
  }
}

void binary32_from_cray_words(bool swapped, const std::byte* from, std::byte* to, std::size_t count) {
  for (; count > 0; --count) {
    std::uint64_t loaded;
    std::memcpy(&loaded, from, sizeof loaded);
    const std::uint64_t word = swapped ? byte_swapped(loaded) : loaded;
    const std::uint32_t bits = cray::binary32_of_binary64(cray::binary64_of_cray(word));
    std::memcpy(to, &bits, sizeof bits);
    from += sizeof loaded;
    to += sizeof bits;
  }
}

#if HWY_TARGET == HWY_SCALAR

void cray_from_binary32_pass(bool swapped, const std::byte* from, std::byte* to, std::size_t count) {
  cray_from_binary32_words(swapped, from, to, count);
}

void binary32_from_cray_pass(bool swapped, const std::byte* from, std::byte* to, std::size_t count) {
  binary32_from_cray_words(swapped, from, to, count);
}

#else

/// These two change the size of what passes, so they have a loop of their own, at a vector of Cray words a turn.
using HalfTag = hn::Rebind<std::uint32_t, LongTag>;

void cray_from_binary32_pass(bool swapped, const std::byte* from, std::byte* to, std::size_t count) {
  const std::size_t n = hn::Lanes(LongTag());
  const CrayFromBinary64 convert;
  const Swap<8> swap;
  for (; count >= n; count -= n) {
    const auto bits = hn::LoadU(HalfTag(), reinterpret_cast<const std::uint32_t*>(from));
    const LongVector wide = cray_lanes::binary64_of_binary32(hn::PromoteTo(LongTag(), bits));
    ByteVector words = convert.vector(hn::BitCast(ByteTag(), wide));
    words = swapped ? swap.vector(words) : words;
    hn::StoreU(words, ByteTag(), reinterpret_cast<std::uint8_t*>(to));
    from += n * sizeof(std::uint32_t);
    to += n * sizeof(std::uint64_t);
  }
  cray_from_binary32_words(swapped, from, to, count);
}

void binary32_from_cray_pass(bool swapped, const std::byte* from, std::byte* to, std::size_t count) {
  const std::size_t n = hn::Lanes(LongTag());
  const Binary64FromCray convert;
  const Swap<8> swap;
  for (; count >= n; count -= n) {
    ByteVector words = hn::LoadU(ByteTag(), reinterpret_cast<const std::uint8_t*>(from));
    words = swapped ? swap.vector(words) : words;
    const LongVector wide = hn::BitCast(LongTag(), convert.vector(words));
    const auto bits = hn::TruncateTo(HalfTag(), cray_lanes::binary32_of_binary64(wide));
    hn::StoreU(bits, HalfTag(), reinterpret_cast<std::uint32_t*>(to));
    from += n * sizeof(std::uint64_t);
    to += n * sizeof(std::uint32_t);
  }
  binary32_from_cray_words(swapped, from, to, count);
}

#endif  // HWY_TARGET == HWY_SCALAR

}  // namespace
}  // namespace sluice::ilp::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace sluice::ilp {

HWY_EXPORT(cray_from_binary64_pass);
HWY_EXPORT(binary64_from_cray_pass);
HWY_EXPORT(cray_from_binary32_pass);
HWY_EXPORT(binary32_from_cray_pass);

namespace {

/// How many numbers of `from_size` bytes `source` has, which as `to_size` bytes each have room in `destination`.
std::size_t count_of(ConstBytes source, std::size_t from_size, Bytes destination, std::size_t to_size) {
  SLUICE_REQUIRE(source.size() % from_size == 0);
  const std::size_t count = source.size() / from_size;
  SLUICE_REQUIRE(destination.size() / to_size >= count);
  return count;
}

}  // namespace

void cray_from_binary64(ConstBytes binary64, Bytes cray, std::endian order) {
  const std::size_t count = count_of(binary64, 8, cray, 8);
  HWY_DYNAMIC_DISPATCH(cray_from_binary64_pass)
  (order != std::endian::native, binary64.data(), cray.data(), count * 8);
}

void binary64_from_cray(ConstBytes cray, Bytes binary64, std::endian order) {
  const std::size_t count = count_of(cray, 8, binary64, 8);
  HWY_DYNAMIC_DISPATCH(binary64_from_cray_pass)
  (order != std::endian::native, cray.data(), binary64.data(), count * 8);
}

void cray_from_binary32(ConstBytes binary32, Bytes cray, std::endian order) {
  const std::size_t count = count_of(binary32, 4, cray, 8);
  HWY_DYNAMIC_DISPATCH(cray_from_binary32_pass)
  (order != std::endian::native, binary32.data(), cray.data(), count);
}

void binary32_from_cray(ConstBytes cray, Bytes binary32, std::endian order) {
  const std::size_t count = count_of(cray, 8, binary32, 4);
  HWY_DYNAMIC_DISPATCH(binary32_from_cray_pass)
  (order != std::endian::native, cray.data(), binary32.data(), count);
}

}  // namespace sluice::ilp

#endif  // HWY_ONCE
