// SPDX-License-Identifier: Apache-2.0

// The vector form of each stage, and the pipeline that runs stages over a message: loads, loop, tail, alignment and
// stores are here once; a stage is a callable on one vector.
//
//            from                                                              to
//   | 4 or 8 vectors a turn | ... | vectors | words |  -> stage -> stage ->  | the same pieces |
//
// A stage is any class, here or in a program of yours, with two members, which do the same to pieces of two kinds:
//
//   ByteVector vector(ByteVector v);   returns what the next stage sees, made with the operations of hn (Highway)
//   Word word(Word w);                 the same for the tail: a template for unsigned integers of 8, 4, 2 and 1 bytes,
//                                      as they lie in memory (ilp/words.h)
//
// A stage in which one vector waits for the one before, longer than the pass takes for one, has instead
//
//   ByteVector vector(ByteVector v, Place<place>);   `place`, from 0 to 7: which vector of its turn v is
//
// as a template, and does with each place apart what it does. One that keeps only so much at a time has
//
//   void fold();                       called when `vectors_before_fold` vectors have passed since the last call, as
//                                      many in even places as in odd ones; since the last one, up to
//                                      `vectors_without_fold` have passed at the end
//
// Stages see each piece once, in the order of memory: vectors and 8-byte words at a multiple of 8 from the start of the
// message, shorter words at a multiple of their size. A stage may require messages of whole units, as Swap does. It may
// keep what it finds out; ask it after the pass. Composing stages is one line, in the order in which pieces meet them:
//
//   pass<Store::normal>(from, to, size, mask, swap, sum);     // Store::none: to may be nullptr
//
// How to use it: examples/own_stage.cc is a whole program. This header is compiled once for each instruction set, so
// the file that includes it is, too, by Highway's means: it includes ilp/targets.h before anything of Highway, names
// itself in HWY_TARGET_INCLUDE before it includes <hwy/foreach_target.h>, puts stages and passes between
// HWY_BEFORE_NAMESPACE() and HWY_AFTER_NAMESPACE() into a namespace HWY_NAMESPACE, and calls the one for the CPU it
// runs on by HWY_EXPORT and HWY_DYNAMIC_DISPATCH under #if HWY_ONCE. Link with Highway (hwy::hwy). Everything on the
// way to a stage is inlined by force, and so should `vector` be (HWY_INLINE); not `word`, a template, which g++ 12
// refuses to inline by force across instruction sets.
//
// Ownership: stages and ranges are the caller's, for one pass. Thread safety: none; passes of different threads share
// nothing. REQUIRES: `to` and `from` are the same or do not overlap.

#if defined(SLUICE_ILP_PIPELINE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SLUICE_ILP_PIPELINE_INL_H_
#undef SLUICE_ILP_PIPELINE_INL_H_
#else
#define SLUICE_ILP_PIPELINE_INL_H_
#endif

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <utility>

#include "ilp/dot_product-inl.h"
#include "ilp/words.h"

#if HWY_TARGET & (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
#error "ilp/targets.h must be included before anything of Highway"
#endif

HWY_BEFORE_NAMESPACE();
namespace sluice::ilp::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using ByteTag = hn::ScalableTag<std::uint8_t>;
using IntTag = hn::ScalableTag<std::uint32_t>;
using LongTag = hn::ScalableTag<std::uint64_t>;
using ByteVector = hn::VFromD<ByteTag>;
using IntVector = hn::VFromD<IntTag>;
using LongVector = hn::VFromD<LongTag>;

/// How many vectors a pass loads before it stores them, how many a long one that stores nothing takes at once, and the
/// place of a vector in its turn. Eight keep twice as many sums apart, which makes ilp::sum up to 1.1 times as fast
/// from 8 KiB on; a pass that stores has no use for them, and a short one pays more for them than they save.
constexpr std::size_t vectors_a_turn = 4;
constexpr std::size_t vectors_a_long_turn = 8;
template <std::size_t place>
using Place = std::integral_constant<std::size_t, place>;

/// So many vectors fill what a stage may keep before it folds (256 in even places and 256 in odd ones, which
/// SumByDotProduct asks for), and so few leave room for those of all places together.
constexpr std::size_t vectors_before_fold = 512;
constexpr std::size_t vectors_without_fold = vectors_before_fold / 2 - 1;

#if HWY_TARGET == HWY_SCALAR  // no vectors: the words are all there is, and `vector` is not called

template <std::size_t unit>
using Swap = SwapWords<unit>;
using Sum = SumWords;

template <Store store, class... Stages>
void pass(const std::byte* from, std::byte* to, std::size_t size, Stages&... stages) {
  word_pass<store>(from, to, size, stages...);
}

#else

/// Reverses the bytes of each `unit` bytes.
template <std::size_t unit>
class Swap : public SwapWords<unit> {
 public:
  HWY_INLINE Swap() : order_(hn::LoadDup128(ByteTag(), order)) {}

  HWY_INLINE ByteVector vector(ByteVector v) const { return hn::TableLookupBytes(v, order_); }

 private:
  static constexpr std::uint8_t u = unit - 1;
  HWY_ALIGN static constexpr std::uint8_t order[16] = {0 ^ u, 1 ^ u, 2 ^ u,  3 ^ u,  4 ^ u,  5 ^ u,  6 ^ u,  7 ^ u,
                                                       8 ^ u, 9 ^ u, 10 ^ u, 11 ^ u, 12 ^ u, 13 ^ u, 14 ^ u, 15 ^ u};
  ByteVector order_;
};

/// How a sum adds up its lanes: congruent to each lane modulo 65535, and below 2^33, so that lanes can be added.
HWY_INLINE LongVector halves_added(LongVector v) {
  const LongVector lower = hn::And(v, hn::Set(LongTag(), 0xffffffffU));
  return hn::Add(lower, hn::ShiftRight<32>(v));
}

/// Sums what passes, unchanged, at three operations a vector.
///
/// Each 64-bit lane word is h * 2^32 + l. `all_` is the sum of the words modulo 2^64 and `high_` the exact sum of
/// their upper halves, so the sum of the lower halves is all_ - high_ * 2^32 modulo 2^64: also exact while it is below
/// 2^64, that is for fewer than 2^32 words a lane (64 GiB with the shortest vectors).
class SumByHalves : public SumWords {
 public:
  HWY_INLINE SumByHalves()
      : upper_half_(hn::LoadDup128(ByteTag(), upper_half)), all_(hn::Zero(LongTag())), high_(hn::Zero(LongTag())) {}

  HWY_INLINE ByteVector vector(ByteVector v) {
    const LongVector words = hn::BitCast(LongTag(), v);
    all_ = hn::Add(all_, words);
    high_ = hn::Add(high_, hn::BitCast(LongTag(), hn::TableLookupBytesOr0(v, upper_half_)));
    return v;
  }

  /// The sum of all that passed, vectors and words.
  [[nodiscard]] HWY_INLINE std::uint16_t result() const {
    const LongVector low = hn::Sub(all_, hn::ShiftLeft<32>(high_));
    SumWords whole = *this;
    whole.add(hn::GetLane(hn::SumOfLanes(LongTag(), hn::Add(halves_added(high_), halves_added(low)))));
    return whole.result();
  }

 private:
  // A shift by 32 would do, but g++ loads the vector from memory a second time to shift it, which halves the speed in
  // cache; a table lookup takes the vector from its register.
  static constexpr std::uint8_t none = 0x80;
  HWY_ALIGN static constexpr std::uint8_t upper_half[16] = {4,  5,  6,  7,  none, none, none, none,
                                                            12, 13, 14, 15, none, none, none, none};

  ByteVector upper_half_;
  LongVector all_;
  LongVector high_;
};

/// Sums what passes, unchanged, at two operations a vector, none of which is a shuffle.
///
/// Each 64-bit lane is t * 2^56 + l, where t is its top byte. `all_` is the sum of the lanes modulo 2^64 and `top_` the
/// exact sum of their top bytes, so the sum of the l is all_ - top_ * 2^56 modulo 2^64: also exact while it is below
/// 2^64, that is for up to 256 vectors. Modulo 65535, 2^56 is 2^8. Each place of a turn has a `top_`
/// of its own, since a dot product takes several cycles until the next one can add to it; an addition takes one.
template <class Dot>
class SumByDotProduct : public SumWords {
 public:
  HWY_INLINE SumByDotProduct()
      : top_byte_(hn::BitCast(ByteTag(), hn::Set(LongTag(), std::uint64_t{1} << 56))), folded_(hn::Zero(LongTag())) {
    clear();
  }

  template <std::size_t place>
  HWY_INLINE ByteVector vector(ByteVector v, Place<place> /*of the turn*/) {
    top_[place] = Dot::add(top_[place], v, top_byte_);
    all_[place % 2] = Dot::held(hn::Add(all_[place % 2], hn::BitCast(LongTag(), v)));
    return v;
  }

  HWY_INLINE void fold() {
    folded_ = hn::Add(folded_, hn::Add(folded(all_[0], top(0)), folded(all_[1], top(1))));
    clear();
  }

  /// The sum of all that passed, vectors and words.
  [[nodiscard]] HWY_INLINE std::uint16_t result() const {
    SumWords whole = *this;
    const LongVector rest = folded(hn::Add(all_[0], all_[1]), hn::Add(top(0), top(1)));
    whole.add(hn::GetLane(hn::SumOfLanes(LongTag(), hn::Add(folded_, rest))));
    return whole.result();
  }

 private:
  static_assert(std::endian::native == std::endian::little);

  /// Congruent modulo 65535 to what `all` and `top` stand for, and below 2^34, so that lanes can be added.
  static HWY_INLINE LongVector folded(LongVector all, IntVector top) {
    const LongVector tops = hn::BitCast(LongTag(), top);  // in the upper halves
    const LongVector low = hn::Sub(all, hn::ShiftLeft<24>(tops));
    return hn::Add(halves_added(low), hn::ShiftRight<24>(tops));
  }

  /// The top bytes of what `all_[parity]` is the sum of.
  [[nodiscard]] HWY_INLINE IntVector top(std::size_t parity) const {
    return hn::Add(hn::Add(top_[parity], top_[parity + 2]), hn::Add(top_[parity + 4], top_[parity + 6]));
  }

  HWY_INLINE void clear() {
    const LongVector zero = hn::Zero(LongTag());
    all_ = {zero, zero};
    const IntVector no_tops = hn::Zero(IntTag());
    top_ = {no_tops, no_tops, no_tops, no_tops, no_tops, no_tops, no_tops, no_tops};
  }

  ByteVector top_byte_;            // coefficients
  std::array<LongVector, 2> all_;  // even places, odd ones
  std::array<IntVector, vectors_a_long_turn> top_;
  LongVector folded_;
};

#if SLUICE_ILP_HAS_DOT_PRODUCT
using Sum = SumByDotProduct<DotProduct>;
#else
using Sum = SumByHalves;
#endif

template <std::size_t place, class Stage>
HWY_INLINE ByteVector through(Stage& stage, ByteVector v) {
  if constexpr (requires { stage.vector(v, Place<place>()); }) {
    return stage.vector(v, Place<place>());
  } else {
    return stage.vector(v);
  }
}

/// The next vector of the message, number `place` of its turn, through `stages` in order.
template <std::size_t place, class... Stages>
HWY_INLINE ByteVector take(const std::byte*& from, Stages&... stages) {
  ByteVector v = hn::LoadU(ByteTag(), reinterpret_cast<const std::uint8_t*>(from));
  from += hn::Lanes(ByteTag());
  ((v = through<place>(stages, v)), ...);
  return v;
}

template <class Stage>
constexpr bool folds = requires(Stage& stage) { stage.fold(); };

template <class Stage>
HWY_INLINE void fold(Stage& stage) {
  if constexpr (folds<Stage>) {
    stage.fold();
  }
}

/// How far `at` is from the next boundary of a vector.
HWY_INLINE std::size_t bytes_to_boundary(const std::byte* at) {
  const std::size_t n = hn::Lanes(ByteTag());
  return (n - reinterpret_cast<std::uintptr_t>(at) % n) % n;
}

/// Fetches `bytes` bytes from `at` on.
template <std::size_t bytes, std::size_t line = 0>
HWY_INLINE void fetch(const std::byte* at) {
  if constexpr (line < bytes) {
    hwy::Prefetch(at + line);
    fetch<bytes, line + cache_line_bytes>(at);
  }
}

template <Store store>
HWY_INLINE void put(std::byte*& to, ByteVector v) {
  if constexpr (store == Store::normal || store == Store::fetched) {
    hn::StoreU(v, ByteTag(), reinterpret_cast<std::uint8_t*>(to));
  } else if constexpr (store == Store::streaming) {
    hn::Stream(v, ByteTag(), reinterpret_cast<std::uint8_t*>(to));
  }
  if constexpr (store != Store::none) {
    to += hn::Lanes(ByteTag());
  }
}

/// One turn: the next vectors of the message, as many as there are places.
///
/// It loads everything before it stores anything: in the L2 cache that is 1.6 times as fast as taking turns. The fence
/// between the two costs no instruction. Without it g++ 12 holds the last vector to be the same as the place it is
/// stored to, reads it back from there for the stages, and stalls when that place crosses a cache line.
///
/// Fetching the lines of the next turn's stores gains up to a fifth at 256 KiB, depending on how source and destination
/// lie in their pages; what it gains and costs in short messages stands at `fetched_size`. Fetching the next page's
/// loads gains up to a tenth at 16 MiB. Both reach behind the end of a message, where a fetch has no effect that can be
/// observed but by its time.
template <Store store, std::size_t... place, class... Stages>
HWY_INLINE void turn(std::index_sequence<place...> /*places*/, const std::byte*& from, std::byte*& to,
                     Stages&... stages) {
  constexpr std::size_t bytes = sizeof...(place) * hn::MaxLanes(ByteTag());
  const std::array<ByteVector, sizeof...(place)> vectors = {take<place>(from, stages...)...};
  std::atomic_signal_fence(std::memory_order_acq_rel);
  if constexpr (store == Store::fetched) {
    fetch<bytes>(to + store_lead_bytes);
  } else if constexpr (store == Store::streaming) {
    fetch<bytes>(from + load_lead_bytes);
  }
  (put<store>(to, vectors[place]), ...);
}

/// `size` bytes by vectors, and by words what is left. REQUIRES: `to` is a vector's multiple when streaming.
///
/// Stages that fold do so after at most so many vectors, and before as few are left as a result may count on.
template <Store store, std::size_t vectors = vectors_a_turn, class... Stages>
HWY_INLINE void vector_pass(const std::byte* from, std::byte* to, std::size_t size, Stages&... stages) {
  constexpr std::size_t stretch_max =
      (folds<Stages> || ...) ? vectors_before_fold / vectors : std::numeric_limits<std::size_t>::max();
  const std::size_t n = hn::Lanes(ByteTag());
  std::size_t turns = size / (vectors * n);
  while (turns > 0) {
    const std::size_t stretch = std::min(turns, stretch_max);
    turns -= stretch;
    for (std::size_t left = stretch; left > 0; --left) {
      turn<store>(std::make_index_sequence<vectors>(), from, to, stages...);
    }
    if (stretch > vectors_without_fold / vectors) {
      (fold(stages), ...);
    }
  }
  for (std::size_t left = size / n % vectors; left > 0; --left) {
    turn<store>(std::make_index_sequence<1>(), from, to, stages...);
  }
  word_pass<store>(from, to, size % n, stages...);
}

/// `size` bytes from `from` through `stages`, in order, to `to`, which may be `from`; unused when nothing is stored.
///
/// In a long message words lead to the first boundary of a vector in what is stored (or, if nothing is, read) where
/// whole 8-byte words can, so that units stay whole and offsets even; from there on no vector crosses a cache line.
///
/// After streaming stores comes the fence that puts them before every later store, as normal ones would be.
template <Store store, class... Stages>
HWY_INLINE void pass(const std::byte* from, std::byte* to, std::size_t size, Stages&... stages) {
  if (HWY_LIKELY(store != Store::streaming && size < long_size)) {
    return vector_pass<store>(from, to, size, stages...);
  }
  const std::size_t lead = bytes_to_boundary(store == Store::none ? from : to);
  const bool aligned = lead % 8 == 0 && lead <= size;
  if (aligned) {
    word_pass<store>(from, to, lead, stages...);
    from += lead;
    to += store == Store::none ? 0 : lead;
    size -= lead;
  }
  if constexpr (store == Store::none) {
    vector_pass<store, vectors_a_long_turn>(from, to, size, stages...);
  } else if (aligned && from != to && (store == Store::streaming || size >= streaming_size)) {
    vector_pass<Store::streaming>(from, to, size, stages...);
    hwy::FlushStream();
  } else if (size >= fetched_size) {
    vector_pass<Store::fetched>(from, to, size, stages...);
  } else {
    vector_pass<Store::normal>(from, to, size, stages...);
  }
}

#endif  // HWY_TARGET == HWY_SCALAR

}  // namespace sluice::ilp::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // SLUICE_ILP_PIPELINE_INL_H_
