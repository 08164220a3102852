// SPDX-License-Identifier: Apache-2.0

// The vector form of the conversions of ilp/cray.h: two stages for the pipeline, and what takes binary32 to binary64
// and back. Each lane takes every way through the word form (ilp/cray_words.h, where the constants are explained) at
// once and keeps the result of its own. Included once for each instruction set, as ilp/pipeline-inl.h.

#if defined(SLUICE_ILP_CRAY_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SLUICE_ILP_CRAY_INL_H_
#undef SLUICE_ILP_CRAY_INL_H_
#else
#define SLUICE_ILP_CRAY_INL_H_
#endif

#include <hwy/highway.h>

#include <cstdint>

#include "ilp/cray_words.h"
#include "ilp/pipeline-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sluice::ilp::HWY_NAMESPACE {

#if HWY_TARGET == HWY_SCALAR

using CrayFromBinary64 = CrayFromBinary64Words;
using Binary64FromCray = Binary64FromCrayWords;

#else

namespace cray_lanes {

using IntTag = hn::ScalableTag<std::int64_t>;
using Mask = decltype(hn::Eq(LongVector(), LongVector()));

HWY_INLINE LongVector all(std::uint64_t value) { return hn::Set(LongTag(), value); }

/// As signed numbers, which every instruction set compares quickly.
HWY_INLINE Mask less(LongVector a, LongVector b) {
  return hn::RebindMask(LongTag(), hn::Lt(hn::BitCast(IntTag(), a), hn::BitCast(IntTag(), b)));
}

HWY_INLINE LongVector rounded_shift(LongVector value, LongVector shift) {
  const LongVector below_half = hn::Sub(hn::Shl(all(1), hn::Sub(shift, all(1))), all(1));
  const LongVector odd = hn::And(hn::Shr(value, shift), all(1));
  return hn::Shr(hn::Add(hn::Add(value, below_half), odd), shift);
}

template <int shift>
HWY_INLINE LongVector rounded_shift(LongVector value) {
  const LongVector odd = hn::And(hn::ShiftRight<shift>(value), all(1));
  return hn::ShiftRight<shift>(hn::Add(hn::Add(value, all((std::uint64_t{1} << (shift - 1)) - 1)), odd));
}

/// rounded_shift by `shift`, or by as many places as make any significand vanish, or by one.
HWY_INLINE LongVector rounded_shift_within_limits(LongVector value, LongVector shift) {
  const auto at_least_one = hn::Max(hn::BitCast(IntTag(), shift), hn::Set(IntTag(), 1));
  return rounded_shift(value, hn::BitCast(LongTag(), hn::Min(at_least_one, hn::Set(IntTag(), cray::shift_max))));
}

/// The bits of a binary64 with the value of an integer below 2^52: put below the 1 of 2^52, which is then subtracted.
HWY_INLINE LongVector bits_of_integer(LongVector value) {
  const hn::ScalableTag<double> d;
  const auto above = hn::BitCast(d, hn::Or(value, all(0x433 * cray::hidden)));
  return hn::BitCast(LongTag(), hn::Sub(above, hn::Set(d, 0x1p52)));
}

HWY_INLINE LongVector binary64_of_binary32(LongVector bits) {
  const LongVector signs = hn::And(hn::ShiftLeft<32>(bits), all(cray::sign));
  const LongVector magnitude = hn::And(bits, all(0x7fffffff));
  const LongVector wide = hn::ShiftLeft<cray::fraction_32_shift>(magnitude);
  const LongVector normal = hn::Add(wide, all(cray::bias_32 * cray::hidden));
  const LongVector subnormal = hn::Sub(bits_of_integer(magnitude), all(cray::subnormal_scale_32 * cray::hidden));
  LongVector result = hn::IfThenElse(less(magnitude, all(cray::hidden_32)), subnormal, normal);
  result = hn::IfThenZeroElse(hn::Eq(magnitude, all(0)), result);
  result = hn::IfThenElse(less(magnitude, all(cray::infinity_32)), result, hn::Or(wide, all(cray::infinity)));
  return hn::Or(result, signs);
}

HWY_INLINE LongVector binary32_of_binary64(LongVector bits) {
  const LongVector signs = hn::ShiftRight<32>(hn::And(bits, all(cray::sign)));
  const LongVector magnitude = hn::AndNot(all(cray::sign), bits);
  const LongVector normal =
      rounded_shift<cray::fraction_32_shift>(hn::Sub(magnitude, all(cray::bias_32 * cray::hidden)));
  const LongVector significand = hn::Or(hn::And(magnitude, all(cray::hidden - 1)), all(cray::hidden));
  const LongVector shift = hn::Sub(all(cray::fraction_32_shift + 1 + cray::bias_32), hn::ShiftRight<52>(magnitude));
  const LongVector subnormal = rounded_shift_within_limits(significand, shift);
  LongVector result = hn::IfThenElse(less(magnitude, all((cray::bias_32 + 1) * cray::hidden)), subnormal, normal);
  const Mask finite = less(magnitude, all((cray::bias_32 + 0xff) * cray::hidden));
  result = hn::IfThenElse(finite, result, all(cray::infinity_32));
  result = hn::IfThenElse(less(all(cray::infinity), magnitude), all(cray::not_a_number_32), result);
  return hn::Or(result, signs);
}

}  // namespace cray_lanes

/// Binary64 to Cray.
class CrayFromBinary64 : public CrayFromBinary64Words {
 public:
  HWY_INLINE ByteVector vector(ByteVector v) const {
    using namespace cray_lanes;
    const LongVector bits = hn::BitCast(LongTag(), v);
    const LongVector signs = hn::And(bits, all(cray::sign));
    const LongVector magnitude = hn::AndNot(all(cray::sign), bits);
    const Mask subnormal = less(magnitude, all(cray::hidden));
    const LongVector rounded = rounded_shift<52 - 47>(hn::IfThenElse(subnormal, bits_of_integer(magnitude), magnitude));
    const LongVector exponent = hn::AndNot(all(cray::top_bit - 1), rounded);
    const LongVector difference = hn::IfThenElse(
        subnormal, all((cray::exponent_difference - cray::subnormal_scale) * cray::exponent_one | cray::top_bit),
        all(cray::exponent_difference * cray::exponent_one | cray::top_bit));
    LongVector result = hn::Or(hn::Add(hn::Add(rounded, exponent), difference), signs);
    result = hn::IfThenZeroElse(hn::Eq(magnitude, all(0)), result);
    const Mask finite = less(magnitude, all(cray::infinity));
    const LongVector special =
        hn::IfThenElse(less(all(cray::infinity), magnitude), all(cray::cray_not_a_number), all(cray::cray_infinity));
    return hn::BitCast(ByteTag(), hn::IfThenElse(finite, result, hn::Or(special, signs)));
  }
};

/// Cray to binary64.
class Binary64FromCray : public Binary64FromCrayWords {
 public:
  HWY_INLINE ByteVector vector(ByteVector v) const {
    using namespace cray_lanes;
    const LongVector word = hn::BitCast(LongTag(), v);
    const LongVector signs = hn::And(word, all(cray::sign));
    const LongVector exponent = hn::ShiftRight<48>(hn::AndNot(all(cray::sign), word));
    const LongVector mantissa = hn::And(word, all(cray::mantissa));
    const LongVector bits = bits_of_integer(mantissa);
    const LongVector scale = hn::Sub(exponent, all(cray::mantissa_scale));
    const LongVector field = hn::Add(hn::ShiftRight<52>(bits), scale);
    const LongVector normal = hn::Add(bits, hn::ShiftLeft<52>(scale));
    const LongVector significand = hn::Or(hn::And(bits, all(cray::hidden - 1)), all(cray::hidden));
    const LongVector subnormal = rounded_shift_within_limits(significand, hn::Sub(all(1), field));
    LongVector result = hn::IfThenElse(less(field, all(1)), subnormal, normal);
    result = hn::IfThenElse(less(field, all(0x7ff)), result, all(cray::infinity));
    result = hn::IfThenZeroElse(hn::Eq(mantissa, all(0)), result);
    result = hn::IfThenElse(less(exponent, all(cray::out_of_range)), result, all(cray::infinity));
    result = hn::IfThenElse(hn::Eq(exponent, all(cray::exponent_max)), all(cray::not_a_number), result);
    return hn::BitCast(ByteTag(), hn::Or(result, signs));
  }
};

#endif  // HWY_TARGET == HWY_SCALAR

}  // namespace sluice::ilp::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // SLUICE_ILP_CRAY_INL_H_
