// SPDX-License-Identifier: Apache-2.0

// The byte dot product: the one instruction that ilp/ uses beside Highway, whose version 1.0.3 has no name for it.
//
//   add(sum, bytes, coefficients)   adds to each 32-bit lane of `sum`, modulo 2^32, the four products of the lane's
//                                   `bytes` and `coefficients`
//
// Intel's manual on VPDPBUSD: "Multiplies the individual unsigned bytes of the first source operand by the
// corresponding signed bytes of the second source operand, producing intermediate signed word results. The word results
// are then summed and accumulated in the destination dword element size operand."
//
// Who has it: CPUs of Highway's target HWY_AVX3_DL, to which AVX512_VNNI belongs (Intel from Ice Lake, AMD from Zen 4
// on). Highway 1.0.3 has no target for AVX-VNNI or for NEON's dot product, so CPUs with those alone do without.
//
// Compiled once for each instruction set, as ilp/pipeline-inl.h is.

#if defined(SLUICE_ILP_DOT_PRODUCT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SLUICE_ILP_DOT_PRODUCT_INL_H_
#undef SLUICE_ILP_DOT_PRODUCT_INL_H_
#else
#define SLUICE_ILP_DOT_PRODUCT_INL_H_
#endif

#include <hwy/highway.h>

#include <cstdint>

#undef SLUICE_ILP_HAS_DOT_PRODUCT
#if HWY_TARGET == HWY_AVX3_DL
#define SLUICE_ILP_HAS_DOT_PRODUCT 1
#else
#define SLUICE_ILP_HAS_DOT_PRODUCT 0
#endif

#if HWY_TARGET != HWY_SCALAR

HWY_BEFORE_NAMESPACE();
namespace sluice::ilp::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using ByteVector = hn::VFromD<hn::ScalableTag<std::uint8_t>>;
using IntVector = hn::VFromD<hn::ScalableTag<std::uint32_t>>;

/// The same, by operations that every target has: too slow for use, good for tests of what is built on it.
struct EmulatedDotProduct {
  static HWY_INLINE IntVector add(IntVector sum, const ByteVector& bytes, ByteVector coefficients) {
    const hn::ScalableTag<std::uint16_t> unsigned_words;
    const hn::ScalableTag<std::int16_t> words;
    const hn::ScalableTag<std::int32_t> pairs;
    const auto v = hn::BitCast(unsigned_words, bytes);
    const auto first = hn::BitCast(words, hn::And(v, hn::Set(unsigned_words, 0xff)));
    const auto second = hn::BitCast(words, hn::ShiftRight<8>(v));
    const auto c = hn::BitCast(words, coefficients);
    const auto first_products = hn::BitCast(pairs, hn::Mul(first, hn::ShiftRight<8>(hn::ShiftLeft<8>(c))));
    const auto second_products = hn::BitCast(pairs, hn::Mul(second, hn::ShiftRight<8>(c)));
    const auto first_sum =
        hn::Add(hn::ShiftRight<16>(hn::ShiftLeft<16>(first_products)), hn::ShiftRight<16>(first_products));
    const auto second_sum =
        hn::Add(hn::ShiftRight<16>(hn::ShiftLeft<16>(second_products)), hn::ShiftRight<16>(second_products));
    return hn::Add(sum, hn::BitCast(hn::ScalableTag<std::uint32_t>(), hn::Add(first_sum, second_sum)));
  }
  template <class Vector>
  static HWY_INLINE Vector held(Vector v) {
    return v;
  }
};

#if SLUICE_ILP_HAS_DOT_PRODUCT

/// On x86 an instruction instead of an intrinsic: Highway chooses this target only where it has found AVX512_VNNI, but
/// does not let the compiler use it. That `bytes` and what goes through `held` come out of an instruction also keeps
/// g++ from loading a vector anew for every operation that takes it, and from moving sums to and fro between registers.
struct DotProduct {
  static HWY_INLINE IntVector add(IntVector sum, ByteVector& bytes, ByteVector coefficients) {
    asm("vpdpbusd %2, %1, %0" : "+v"(sum.raw), "+v"(bytes.raw) : "v"(coefficients.raw));
    return sum;
  }
  template <class Vector>
  static HWY_INLINE Vector held(Vector v) {
    asm("" : "+v"(v.raw));
    return v;
  }
};

#endif  // SLUICE_ILP_HAS_DOT_PRODUCT

}  // namespace sluice::ilp::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // HWY_TARGET != HWY_SCALAR

#endif  // SLUICE_ILP_DOT_PRODUCT_INL_H_
