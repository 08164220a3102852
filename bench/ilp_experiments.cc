// SPDX-License-Identifier: Apache-2.0

// What touching the data once is worth: the layered, the cache-blocked and the fused way of doing the same work.
//
// The work, unless a figure says otherwise: a message is converted (each 32-bit unit byte-swapped), summed (RFC 1071,
// what was written) and copied, from a source to a destination. Arms:
//   memcpy       moves the bytes and does nothing else: the limit
//   scalar       layered, each pass a loop over one 32-bit word at a time, kept from being vectorised
//   layered      three passes over the whole message with the kernels of ilp/: copy, swap in place, sum
//   blocked      the same three kernels over tiles of 2 KiB, so that later passes hit the first-level cache
//   fused        one pass, ilp::swap_sum_copy
//   xdr_library  layered with libtirpc's conversion, an element a call (xdr_vector of xdr_int onto xdrmem); ilp::sum
//   sum          ilp::sum alone
//   swap_copy    ilp::swap_copy alone; one pass that does both cannot be faster than the slower of the two
// All arms of a figure work on the same two buffers and are called through a function pointer; where they are to give
// the same bytes and the same sum, that is checked before anything is timed.
//
// GB/s are message bytes a second, 10^9. The buffers lie in huge pages where the system gives them, since where small
// pages happen to lie in memory moves results by more than what is compared here; the destination starts half a page
// (2 KiB modulo 4 KiB) from the source, which the figure `aliasing` shows to be harmless.
//
// Precision: bench/experiment.h says what is written. Ratios in cache are good to some per cent on a calm machine, past
// the last cache to ten; a neighbour who uses memory bandwidth shows in min and max.

#include "ilp/targets.h"

#include <gtest/gtest.h>
#include <rpc/xdr.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/contract.h"
#include "bench/arena.h"
#include "bench/chain.h"
#include "bench/experiment.h"
#include "ilp/kernels.h"
#include "ilp/words.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "bench/ilp_experiments.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "bench/read_pass-inl.h"
#include "ilp/pipeline-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sluice::ilp::HWY_NAMESPACE {
namespace {

#if HWY_TARGET == HWY_SCALAR  // no vectors, as in ilp/pipeline-inl.h

using Add = bench::AddWords;
using Xor = bench::XorWords;

#else

using IntTag = hn::ScalableTag<std::uint32_t>;
using IntVector = hn::VFromD<IntTag>;

class Add : public bench::AddWords {
 public:
  HWY_INLINE explicit Add(std::uint32_t each) : AddWords{each}, vector_(hn::Set(IntTag(), each)) {}

  HWY_INLINE ByteVector vector(ByteVector v) const {
    return hn::BitCast(ByteTag(), hn::Add(hn::BitCast(IntTag(), v), vector_));
  }

 private:
  IntVector vector_;
};

class Xor : public bench::XorWords {
 public:
  HWY_INLINE explicit Xor(std::uint32_t each) : XorWords{each}, vector_(hn::Set(IntTag(), each)) {}

  HWY_INLINE ByteVector vector(ByteVector v) const {
    return hn::BitCast(ByteTag(), hn::Xor(hn::BitCast(IntTag(), v), vector_));
  }

 private:
  IntVector vector_;
};

#endif

// A chain is the first `n` of: swap, sum, add, xor, swap, sum, ... Constants come in as arguments, each stage its own,
// so that no compiler can merge two stages into one.
template <std::size_t at>
HWY_INLINE auto stage(std::uint32_t constant) {
  const auto own = static_cast<std::uint32_t>(constant * (2 * at + 1));
  if constexpr (at % 4 == 0) {
    return Swap<4>();
  } else if constexpr (at % 4 == 1) {
    return Sum();
  } else if constexpr (at % 4 == 2) {
    return Add{own};
  } else {
    return Xor{own};
  }
}

template <class Stage>
HWY_INLINE std::uint32_t result_of(const Stage& stage) {
  if constexpr (requires { stage.result(); }) {
    return stage.result();
  } else {
    return 0;
  }
}

/// The stages are parameters, so that each is a variable of its own that can live in registers.
template <class... Stages>
HWY_INLINE std::uint32_t one_pass(const std::byte* from, std::byte* to, std::size_t size, Stages... stages) {
  pass<Store::normal>(from, to, size, stages...);
  return (result_of(stages) + ...);
}

/// One stage of a layered chain: a pass of its own, in place; a sum stores nothing.
template <std::size_t at>
std::uint32_t stage_pass(std::byte* bytes, std::size_t size, std::uint32_t constant) {
  auto own = stage<at>(constant);
  if constexpr (at % 4 == 1) {
    pass<Store::none>(bytes, nullptr, size, own);
  } else {
    pass<Store::normal>(bytes, bytes, size, own);
  }
  return result_of(own);
}

template <std::size_t... at>
std::uint32_t fused_chain(std::index_sequence<at...>, const std::byte* from, std::byte* to, std::size_t size,
                          std::uint32_t constant) {
  return one_pass(from, to, size, stage<at>(constant)...);
}

template <std::size_t... at>
std::uint32_t layered_chain(std::index_sequence<at...>, const std::byte* from, std::byte* to, std::size_t size,
                            std::uint32_t constant) {
  std::memcpy(to, from, size);
  return (stage_pass<at>(to, size, constant) + ...);
}

template <std::size_t n>
std::uint32_t fused_stages(const std::byte* from, std::byte* to, std::size_t size, std::uint32_t constant) {
  return fused_chain(std::make_index_sequence<n>(), from, to, size, constant);
}

template <std::size_t n>
std::uint32_t layered_stages(const std::byte* from, std::byte* to, std::size_t size, std::uint32_t constant) {
  return layered_chain(std::make_index_sequence<n>(), from, to, size, constant);
}

template <std::size_t n>
bench::Chains chains_of() {
  return {n, fused_stages<n>, layered_stages<n>};
}

std::vector<bench::Chains> chains() {
  return {chains_of<1>(), chains_of<2>(), chains_of<3>(),  chains_of<4>(),  chains_of<5>(),
          chains_of<6>(), chains_of<8>(), chains_of<12>(), chains_of<16>(), chains_of<24>()};
}

/// Convert, sum and copy with one kind of stores from end to end, whatever the kernel would choose.
template <Store store>
std::uint16_t stored(const std::byte* from, std::byte* to, std::size_t size) {
  Sum sum;
  Swap<4> swap;
#if HWY_TARGET == HWY_SCALAR
  word_pass<store>(from, to, size, sum, swap);
#else
  vector_pass<store>(from, to, size, sum, swap);
  if constexpr (store == Store::streaming) {
    hwy::FlushStream();
  }
#endif
  return sum.result();
}

std::uint16_t store_normal(const std::byte* from, std::byte* to, std::size_t size) {
  return stored<Store::normal>(from, to, size);
}

std::uint16_t store_fetched(const std::byte* from, std::byte* to, std::size_t size) {
  return stored<Store::fetched>(from, to, size);
}

std::uint16_t store_streaming(const std::byte* from, std::byte* to, std::size_t size) {
  return stored<Store::streaming>(from, to, size);
}

}  // namespace
}  // namespace sluice::ilp::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace sluice::ilp {

HWY_EXPORT(chains);
HWY_EXPORT(read_pass);
HWY_EXPORT(store_normal);
HWY_EXPORT(store_fetched);
HWY_EXPORT(store_streaming);

namespace {}  // namespace
}  // namespace sluice::ilp

namespace sluice::bench {
namespace {

constexpr std::size_t page = 4096;
constexpr std::size_t KiB = std::size_t{1} << 10;
constexpr std::size_t MiB = std::size_t{1} << 20;
/// The payload of a TCP segment or a datagram over Ethernet, as the limits count it.
constexpr std::size_t segment = 1448;
constexpr std::size_t tile_usual = 2 * KiB;

/// A source and a destination of `size` bytes. The source starts `source_offset` behind a page's boundary, the
/// destination `destination_offset`.
class Buffers {
 public:
  explicit Buffers(std::size_t size, std::size_t source_offset = 0, std::size_t destination_offset = page / 2)
      : arena_(2 * (size + 2 * page)), size_(size) {
    SLUICE_REQUIRE(source_offset < page && destination_offset < page);
    source_ = arena_.start() + source_offset;
    destination_ = arena_.start() + (size / page + 2) * page + destination_offset;
  }

  [[nodiscard]] ConstBytes from() const { return {source_, size_}; }
  [[nodiscard]] Bytes to() const { return {destination_, size_}; }

 private:
  Arena arena_;
  std::size_t size_;
  std::byte* source_;
  std::byte* destination_;
};

// The ways to do the work. Each returns the sum of what it wrote, but memcpy, which has none.

std::uint16_t moved(ConstBytes from, Bytes to) {
  std::memcpy(to.data(), from.data(), from.size());
  return 0;
}

std::uint16_t layered(ConstBytes from, Bytes to) {
  ilp::copy(from, to);
  ilp::swap(4, to);
  return ilp::sum(to);
}

template <std::size_t tile>
std::uint16_t blocked(ConstBytes from, Bytes to) {
  std::uint16_t sum = 0;
  for (std::size_t at = 0; at < from.size(); at += tile) {
    const std::size_t size = std::min(tile, from.size() - at);
    sum = add_sums(sum, layered(from.subspan(at, size), to.subspan(at, size)));
  }
  return sum;
}

std::uint16_t fused(ConstBytes from, Bytes to) { return ilp::swap_sum_copy(4, from, to); }

// Parts of the work. One pass that does all of it cannot be faster than the slowest of them.

std::uint16_t sum_alone(ConstBytes from, Bytes) { return ilp::sum(from); }

std::uint16_t swap_copy_alone(ConstBytes from, Bytes to) {
  ilp::swap_copy(4, from, to);
  return 0;
}

/// The 32-bit word at `at`. The empty instruction keeps the loop around it a loop over words: no compiler sees through
/// it.
std::uint32_t scalar_load(const std::byte* at) {
  std::uint32_t word;
  std::memcpy(&word, at, sizeof word);
  asm("" : "+r"(word));
  return word;
}

void scalar_copy(ConstBytes from, Bytes to) {
  for (std::size_t at = 0; at < from.size(); at += sizeof(std::uint32_t)) {
    const std::uint32_t word = scalar_load(from.data() + at);
    std::memcpy(to.data() + at, &word, sizeof word);
  }
}

void scalar_swap(Bytes bytes) {
  for (std::size_t at = 0; at < bytes.size(); at += sizeof(std::uint32_t)) {
    const std::uint32_t word = byte_swapped(scalar_load(bytes.data() + at));
    std::memcpy(bytes.data() + at, &word, sizeof word);
  }
}

/// RFC 1071 section 2(C), deferred carries: 2^32 words and more fit into 64 bits.
std::uint16_t scalar_sum(ConstBytes bytes) {
  std::uint64_t total = 0;
  for (std::size_t at = 0; at < bytes.size(); at += sizeof(std::uint32_t)) {
    total += scalar_load(bytes.data() + at);
  }
  ilp::SumWords sum;
  sum.add(total);
  return sum.result();
}

std::uint16_t scalar(ConstBytes from, Bytes to) {
  scalar_copy(from, to);
  scalar_swap(to);
  return scalar_sum(to);
}

/// xdrproc_t takes any number of arguments, a converter two: the library means it to be called like that.
template <class Element>
xdrproc_t as_xdrproc(bool_t (*convert)(XDR*, Element*)) {
  return reinterpret_cast<xdrproc_t>(reinterpret_cast<void (*)()>(convert));
}

/// RFC 4506's form of the elements of `from`, an element a call, as a program does that uses the library.
template <class Element>
void xdr_encode(bool_t (*convert)(XDR*, Element*), ConstBytes from, Bytes to) {
  XDR stream;
  ::xdrmem_create(&stream, reinterpret_cast<char*>(to.data()), static_cast<u_int>(to.size()), XDR_ENCODE);
  // The library takes elements as char* and, in this direction, only reads them.
  auto* const elements = reinterpret_cast<char*>(const_cast<std::byte*>(from.data()));
  const auto count = static_cast<u_int>(from.size() / sizeof(Element));
  SLUICE_REQUIRE(::xdr_vector(&stream, elements, count, sizeof(Element), as_xdrproc(convert)) != 0);
}

std::uint16_t xdr_library(ConstBytes from, Bytes to) {
  xdr_encode<int>(::xdr_int, from, to);
  return ilp::sum(to);
}

using Way = std::uint16_t (*)(ConstBytes, Bytes);

struct NamedWay {
  const char* name;
  Way way;
};

Arm arm(const NamedWay& named, const Buffers& buffers, const std::string& parameter = "") {
  return timed(named.name + parameter,
               [way = opaque(named.way), from = buffers.from(), to = buffers.to()] { keep(way(from, to)); });
}

std::vector<Arm> arms_of(const std::vector<NamedWay>& ways, const Buffers& buffers, const std::string& parameter = "") {
  std::vector<Arm> arms;
  for (const NamedWay& way : ways) {
    arms.push_back(arm(way, buffers, parameter));
  }
  return arms;
}

/// All but `memcpy` write the same bytes and give the same sum; otherwise comparing their speed means nothing.
void expect_same_work(const std::vector<NamedWay>& ways, const Buffers& buffers) {
  std::vector<std::byte> expected(buffers.from().size());
  const std::uint16_t sum = scalar(buffers.from(), expected);
  for (const NamedWay& named : ways) {
    std::ranges::fill(buffers.to(), std::byte{0});
    const std::uint16_t own = named.way(buffers.from(), buffers.to());
    if (named.way != moved) {
      EXPECT_EQ(own, sum) << named.name;
      EXPECT_TRUE(std::ranges::equal(buffers.to(), expected)) << named.name;
    }
  }
}

void add_throughput(const Figure& figure, const Rounds& rounds, std::size_t size) {
  for (const std::string& name : rounds.arms()) {
    figure.add(name, size, rounds.gigabytes_per_second(name, size));
  }
}

/// Bytes of a message, from `smallest` to `largest`, doubling.
std::vector<std::size_t> doubling(std::size_t smallest, std::size_t largest) {
  std::vector<std::size_t> sizes;
  for (std::size_t size = smallest; size <= largest; size *= 2) {
    sizes.push_back(size);
  }
  return sizes;
}

const std::vector<NamedWay> usual_ways = {
    {"memcpy", moved}, {"layered", layered}, {"blocked", blocked<tile_usual>}, {"fused", fused}};

// ---- the figures ----

TEST(ilp, throughput) {
  const std::vector<NamedWay> ways = {{"memcpy", moved},    {"scalar", scalar},
                                      {"layered", layered}, {"blocked", blocked<tile_usual>},
                                      {"fused", fused},     {"xdr_library", xdr_library}};
  const std::vector<NamedWay> parts = {{"sum", sum_alone}, {"swap_copy", swap_copy_alone}};
  const Figure speed("throughput", "GB/s");
  const Figure ratio("throughput_ratio", "ratio");
  std::vector<std::size_t> sizes = doubling(64, 128 * MiB);
  sizes.push_back(segment);
  std::ranges::sort(sizes);
  for (const std::size_t size : full_or_tiny<std::size_t>(sizes, {64, segment, 64 * KiB})) {
    const Buffers buffers(size);
    expect_same_work(ways, buffers);
    std::vector<Arm> arms = arms_of(ways, buffers);
    std::ranges::move(arms_of(parts, buffers), std::back_inserter(arms));
    const Rounds rounds(std::move(arms));
    add_throughput(speed, rounds, size);
    for (const char* reference : {"memcpy", "layered", "blocked"}) {
      ratio.add(std::string("fused/") + reference, size, rounds.ratio("fused", reference));
    }
    // Bounds: what fused would gain if conversion and sum cost nothing, and if it cost no more than its slowest part.
    ratio.add("memcpy/layered", size, rounds.ratio("memcpy", "layered"));
    for (const std::string reference : {"memcpy", "layered"}) {
      ratio.add("slowest_part/" + reference, size, rounds.ratio_of_slowest({"sum", "swap_copy"}, reference));
    }
  }
}

TEST(ilp, tile) {
  const std::vector<std::pair<std::size_t, Way>> tiles = {{512, blocked<512>},         {1 * KiB, blocked<1 * KiB>},
                                                          {2 * KiB, blocked<2 * KiB>}, {4 * KiB, blocked<4 * KiB>},
                                                          {8 * KiB, blocked<8 * KiB>}, {16 * KiB, blocked<16 * KiB>}};
  const Figure speed("tile", "GB/s");
  for (const std::size_t size : full_or_tiny<std::size_t>({64 * KiB, 1 * MiB, 16 * MiB}, {64 * KiB})) {
    const Buffers buffers(size);
    std::vector<NamedWay> ways;
    std::vector<Arm> arms;
    for (const auto& [tile, way] : tiles) {
      ways.push_back({"blocked", way});
      arms.push_back(arm({"blocked", way}, buffers, " tile=" + std::to_string(tile)));
      arms.push_back(arm({"fused", fused}, buffers, " tile=" + std::to_string(tile)));
    }
    expect_same_work(ways, buffers);
    add_throughput(speed, Rounds(std::move(arms)), size);
  }
}

TEST(ilp, stages) {
  constexpr std::uint32_t constant = 0x9e3779b1;
  const Figure speed("stages", "GB/s");
  const Figure ratio("stages_ratio", "ratio");
  for (const std::size_t size : full_or_tiny<std::size_t>({segment, 64 * KiB, 1 * MiB}, {segment})) {
    const Buffers buffers(size);
    const ConstBytes from = buffers.from();
    const Bytes to = buffers.to();
    for (const auto& chain : HWY_DYNAMIC_DISPATCH(ilp::chains)()) {
      const auto once = [from, to](auto run) { keep(run(from.data(), to.data(), from.size(), constant)); };
      const auto tiles = [from, to](auto run) {
        std::uint32_t results = 0;
        for (std::size_t at = 0; at < from.size(); at += tile_usual) {
          const std::size_t part = std::min(tile_usual, from.size() - at);
          results += run(from.data() + at, to.data() + at, part, constant);
        }
        keep(results);
      };
      std::vector<std::byte> expected(size);
      const std::uint32_t results = chain.layered(from.data(), expected.data(), size, constant);
      EXPECT_EQ(chain.fused(from.data(), to.data(), size, constant), results) << chain.stages;
      EXPECT_TRUE(std::ranges::equal(to, expected)) << chain.stages;

      const std::string parameter = " stages=" + std::to_string(chain.stages);
      const Rounds rounds({timed("layered" + parameter, [=] { once(chain.layered); }),
                           timed("blocked" + parameter, [=] { tiles(chain.layered); }),
                           timed("fused" + parameter, [=] { once(chain.fused); })});
      add_throughput(speed, rounds, size);
      for (const std::string reference : {"layered", "blocked"}) {
        ratio.add("fused/" + reference + parameter, size, rounds.ratio("fused" + parameter, reference + parameter));
      }
    }
  }
}

/// Every offset of one of the buffers within a cache line; the other stays at a line's start.
void misaligned(const char* figure, bool of_source) {
  const Figure speed(figure, "GB/s");
  for (const std::size_t size : full_or_tiny<std::size_t>({segment, 64 * KiB}, {segment})) {
    for (std::size_t offset = 0; offset < 64; offset += tiny() ? 21 : 1) {
      const Buffers buffers(size, of_source ? offset : 0, page / 2 + (of_source ? 0 : offset));
      const std::vector<NamedWay> ways = {{"memcpy", moved}, {"layered", layered}, {"fused", fused}};
      expect_same_work(ways, buffers);
      add_throughput(speed, Rounds(arms_of(ways, buffers, " offset=" + std::to_string(offset))), size);
    }
  }
}

TEST(ilp, misaligned_source) { misaligned("misaligned_source", true); }

TEST(ilp, misaligned_destination) { misaligned("misaligned_destination", false); }

/// The distance of the destination from the source modulo 4 KiB. A CPU compares the low 12 bits of a load's address
/// with those of the stores before it, and waits where they agree: at 0, and where the destination runs just ahead.
TEST(ilp, aliasing) {
  const Figure speed("aliasing", "GB/s");
  for (const std::size_t size : full_or_tiny<std::size_t>({segment, 8 * KiB, 64 * KiB}, {segment})) {
    for (const std::size_t distance : full_or_tiny<std::size_t>(
             {0, 64, 128, 192, 256, 320, 512, 1024, 2048, 3072, 3584, 3840, 3968, 4032}, {0, 2048})) {
      const Buffers buffers(size, 0, distance);
      const std::vector<NamedWay> ways = {{"memcpy", moved}, {"layered", layered}, {"fused", fused}};
      expect_same_work(ways, buffers);
      add_throughput(speed, Rounds(arms_of(ways, buffers, " distance=" + std::to_string(distance))), size);
    }
  }
}

/// Makes HWY_DYNAMIC_DISPATCH give what this CPU runs. Before its first call it gives a function that asks for the CPU
/// in every call: who keeps that one measures CPUID, which takes a virtual machine 30 us.
void choose_target() { hwy::GetChosenTarget().Update(hwy::SupportedTargets()); }

/// Into the caches or around them. `fused` is the kernel, which chooses by the size.
TEST(ilp, stores) {
  choose_target();
  using Pass = std::uint16_t (*)(const std::byte*, std::byte*, std::size_t);
  const std::array<std::pair<const char*, Pass>, 3> passes = {{
      {"normal", HWY_DYNAMIC_DISPATCH(ilp::store_normal)},
      {"fetched", HWY_DYNAMIC_DISPATCH(ilp::store_fetched)},
      {"streaming", HWY_DYNAMIC_DISPATCH(ilp::store_streaming)},
  }};
  const Figure speed("stores", "GB/s");
  const Figure ratio("stores_ratio", "ratio");
  std::vector<std::size_t> sizes = doubling(4 * KiB, 128 * MiB);
  sizes.insert(sizes.end(), {6 * MiB, 12 * MiB, 24 * MiB});
  std::ranges::sort(sizes);
  for (const std::size_t size : full_or_tiny<std::size_t>(sizes, {4 * KiB, 64 * KiB})) {
    const Buffers buffers(size);
    const ConstBytes from = buffers.from();
    const Bytes to = buffers.to();
    std::vector<std::byte> expected(size);
    // scalar() sums what it wrote; the passes sum what they read.
    const std::uint16_t sum = byte_swapped(scalar(from, expected));
    std::vector<Arm> arms = arms_of({{"memcpy", moved}, {"fused", fused}}, buffers);
    for (const auto& [name, pass] : passes) {
      std::ranges::fill(to, std::byte{0});
      EXPECT_EQ(pass(from.data(), to.data(), size), sum) << name;
      EXPECT_TRUE(std::ranges::equal(to, expected)) << name;
      arms.push_back(timed(name, [from, to, run = pass] { keep(run(from.data(), to.data(), from.size())); }));
    }
    const Rounds rounds(std::move(arms));
    add_throughput(speed, rounds, size);
    for (const char* name : {"fetched", "streaming", "fused"}) {
      ratio.add(std::string(name) + "/normal", size, rounds.ratio(name, "normal"));
    }
  }
}

/// Messages in turn out of many: how much memory the messages of a program lie in, rather than how long each is. The
/// size is that of all sources and destinations together.
void working_set(const char* figure, std::size_t message, std::size_t largest) {
  constexpr std::size_t room = 64;  // messages start on cache lines of their own
  const std::size_t stride = (message + room - 1) / room * room;
  const Figure speed(figure, "GB/s");
  for (const std::size_t size : full_or_tiny<std::size_t>(doubling(std::bit_ceil(2 * stride), largest),
                                                          {std::bit_ceil(2 * stride), 256 * KiB})) {
    const std::size_t messages = size / 2 / stride;
    const Buffers buffers(messages * stride);
    const auto next = std::make_shared<std::size_t>(0);  // of all arms, so that none finds what another has just used
    std::vector<Arm> arms;
    for (const NamedWay& named : usual_ways) {
      arms.push_back(timed(named.name, [=, way = opaque(named.way), from = buffers.from(), to = buffers.to()] {
        const std::size_t at = *next * stride;
        *next = *next + 1 == messages ? 0 : *next + 1;
        keep(way(from.subspan(at, message), to.subspan(at, message)));
      }));
    }
    const Rounds rounds(std::move(arms));
    for (const std::string& name : rounds.arms()) {
      speed.add(name, size, rounds.gigabytes_per_second(name, message));
    }
  }
}

TEST(ilp, working_set_of_segments) { working_set("working_set_of_segments", segment, 256 * MiB); }

TEST(ilp, working_set_of_64k) { working_set("working_set_of_64k", 64 * KiB, 256 * MiB); }

// How the code that does the work is found. All arms of `dispatch` run the same word stages, swap and sum.

using WordStage = std::uint64_t (*)(void*, std::uint64_t);

class VirtualStage {
 public:
  VirtualStage() = default;
  virtual ~VirtualStage() = default;
  VirtualStage(const VirtualStage&) = delete;
  VirtualStage& operator=(const VirtualStage&) = delete;
  virtual std::uint64_t word(std::uint64_t value) = 0;
};

template <class Words>
class VirtualWords : public VirtualStage {
 public:
  explicit VirtualWords(Words& words) : words_(words) {}
  std::uint64_t word(std::uint64_t value) override { return words_.word(value); }

 private:
  Words& words_;
};

class VirtualWay {
 public:
  VirtualWay() = default;
  virtual ~VirtualWay() = default;
  VirtualWay(const VirtualWay&) = delete;
  VirtualWay& operator=(const VirtualWay&) = delete;
  virtual std::uint16_t run(ConstBytes from, Bytes to) = 0;
};

/// Both stages inlined into one loop.
HWY_INLINE std::uint16_t inlined(ConstBytes from, Bytes to) {
  ilp::SwapWords<4> swap;
  ilp::SumWords sum;
  ilp::word_pass<ilp::Store::normal>(from.data(), to.data(), from.size(), swap, sum);
  return sum.result();
}

std::uint16_t called(ConstBytes from, Bytes to) { return inlined(from, to); }

class CalledWay : public VirtualWay {
 public:
  std::uint16_t run(ConstBytes from, Bytes to) override { return inlined(from, to); }
};

/// Each word through `stages(word)`. REQUIRES: whole words.
template <class Stages>
HWY_INLINE void for_each_word(ConstBytes from, Bytes to, Stages stages) {
  for (std::size_t at = 0; at < from.size(); at += sizeof(std::uint64_t)) {
    std::uint64_t word;
    std::memcpy(&word, from.data() + at, sizeof word);
    word = stages(word);
    std::memcpy(to.data() + at, &word, sizeof word);
  }
}

std::uint16_t virtual_a_word(ConstBytes from, Bytes to) {
  ilp::SwapWords<4> swap;
  ilp::SumWords sum;
  VirtualWords first(swap);
  VirtualWords second(sum);
  const std::array<VirtualStage*, 2> stages = {opaque<VirtualStage>(&first), opaque<VirtualStage>(&second)};
  for_each_word(from, to, [&](std::uint64_t word) {
    for (VirtualStage* stage : stages) {
      word = stage->word(word);
    }
    return word;
  });
  return sum.result();
}

template <class Words>
std::uint64_t word_of(void* words, std::uint64_t value) {
  return static_cast<Words*>(words)->word(value);
}

std::uint16_t table_a_word(ConstBytes from, Bytes to) {
  ilp::SwapWords<4> swap;
  ilp::SumWords sum;
  const std::array<std::pair<WordStage, void*>, 2> stages = {
      {{opaque(word_of<ilp::SwapWords<4>>), &swap}, {opaque(word_of<ilp::SumWords>), &sum}}};
  for_each_word(from, to, [&](std::uint64_t word) {
    for (const auto& [run, words] : stages) {
      word = run(words, word);
    }
    return word;
  });
  return sum.result();
}

TEST(ilp, dispatch) {
  const Figure time("dispatch", "ns");
  const Figure ratio("dispatch_ratio", "ratio");
  CalledWay called_way;
  for (const std::size_t size : full_or_tiny<std::size_t>({64, 128, 256, 512, 1024, segment, 4096}, {64, segment})) {
    const Buffers buffers(size);
    expect_same_work({{"template", called}, {"virtual_a_word", virtual_a_word}, {"table_a_word", table_a_word}},
                     buffers);
    const ConstBytes from = buffers.from();
    const Bytes to = buffers.to();
    const std::array<Way, 2> table = {moved, called};
    const Rounds rounds({
        timed("template", [=] { keep(inlined(from, to)); }),
        timed("virtual", [=, way = opaque<VirtualWay>(&called_way)] { keep(way->run(from, to)); }),
        timed("table", [=, ways = opaque(table.data())] { keep(ways[1](from, to)); }),
        timed("virtual_a_word", [=] { keep(virtual_a_word(from, to)); }),
        timed("table_a_word", [=] { keep(table_a_word(from, to)); }),
        timed("kernel", [=] { keep(ilp::swap_sum_copy(4, from, to)); }),
    });
    for (const std::string& name : rounds.arms()) {
      time.add(name, size, rounds.nanoseconds(name));
      if (name != "template") {
        ratio.add(name + "/template", size, rounds.ratio(name, "template"));
      }
    }
  }
}

/// Conversion alone: the library's, an element a call, against the kernel.
template <class Element>
void xdr(const char* figure, bool_t (*convert)(XDR*, Element*)) {
  const Figure speed(figure, "GB/s");
  const Figure ratio(std::string(figure) + "_ratio", "ratio");
  for (const std::size_t size : full_or_tiny<std::size_t>(
           {256, 512, segment, 4 * KiB, 8 * KiB, 16 * KiB, 64 * KiB, 256 * KiB}, {segment, 4 * KiB})) {
    const Buffers buffers(size);
    const ConstBytes from = buffers.from();
    const Bytes to = buffers.to();
    std::vector<std::byte> expected(size);
    xdr_encode(convert, from, expected);
    ilp::swap_copy(sizeof(Element), from, to);
    EXPECT_TRUE(std::ranges::equal(to, expected));
    const Rounds rounds({timed("xdr_library", [=] { xdr_encode(convert, from, to); }),
                         timed("swap", [=] { ilp::swap_copy(sizeof(Element), from, to); }),
                         timed("memcpy", [=] { keep(moved(from, to)); })});
    add_throughput(speed, rounds, size);
    ratio.add("swap/xdr_library", size, rounds.ratio("swap", "xdr_library"));
  }
}

TEST(ilp, xdr_int) { xdr<int>("xdr_int", ::xdr_int); }

TEST(ilp, xdr_double) { xdr<double>("xdr_double", ::xdr_double); }

TEST(ilp, sum) {
  const Figure speed("sum", "GB/s");
  const Figure ratio("sum_ratio", "ratio");
  choose_target();
  const auto read_pass = HWY_DYNAMIC_DISPATCH(ilp::read_pass);
  for (const std::size_t size : full_or_tiny<std::size_t>(
           {64, 256, segment, 4 * KiB, 16 * KiB, 64 * KiB, 256 * KiB, 1 * MiB, 4 * MiB, 16 * MiB, 128 * MiB},
           {segment, 64 * KiB})) {
    const Buffers buffers(size);
    const ConstBytes from = buffers.from();
    const Rounds rounds({timed("read", [=] { keep(read_pass(from.data(), from.size())); }),
                         timed("sum", [=] { keep(ilp::sum(from)); }),
                         timed("scalar", [=] { keep(scalar_sum(from)); })});
    add_throughput(speed, rounds, size);
    ratio.add("sum/read", size, rounds.ratio("sum", "read"));
  }
}

}  // namespace
}  // namespace sluice::bench

#endif  // HWY_ONCE
