// SPDX-License-Identifier: Apache-2.0

// What a kernel that only reads is measured against. Compiled once for each instruction set, as ilp/pipeline-inl.h is.

#if defined(SLUICE_BENCH_READ_PASS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SLUICE_BENCH_READ_PASS_INL_H_
#undef SLUICE_BENCH_READ_PASS_INL_H_
#else
#define SLUICE_BENCH_READ_PASS_INL_H_
#endif

#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

HWY_BEFORE_NAMESPACE();
namespace sluice::ilp::HWY_NAMESPACE {

#if HWY_TARGET != HWY_SCALAR
namespace hn = hwy::HWY_NAMESPACE;
#endif

/// Loads every vector and does the least that keeps the loads. Eight vectors are joined before they meet what is
/// carried from turn to turn, so that no chain of operations is longer than the loads take.
inline std::uint64_t read_pass(const std::byte* from, std::size_t size) {
  std::uint64_t all = 0;
  std::size_t at = 0;
#if HWY_TARGET != HWY_SCALAR
  const hn::ScalableTag<std::uint64_t> d;
  const std::size_t n = hn::Lanes(d) * sizeof(std::uint64_t);
  const auto load = [&](std::size_t offset)
                        HWY_ATTR { return hn::LoadU(d, reinterpret_cast<const std::uint64_t*>(from + offset)); };
  auto joined = hn::Zero(d);
  for (; at + 8 * n <= size; at += 8 * n) {
    const auto first = hn::Or(hn::Or(load(at), load(at + n)), hn::Or(load(at + 2 * n), load(at + 3 * n)));
    const auto second = hn::Or(hn::Or(load(at + 4 * n), load(at + 5 * n)), hn::Or(load(at + 6 * n), load(at + 7 * n)));
    joined = hn::Or(joined, hn::Or(first, second));
  }
  for (; at + n <= size; at += n) {
    joined = hn::Or(joined, load(at));
  }
  all = hn::GetLane(hn::SumOfLanes(d, joined));
#endif
  for (; at + sizeof all <= size; at += sizeof all) {
    std::uint64_t word;
    std::memcpy(&word, from + at, sizeof word);
    all |= word;
  }
  return all;
}

}  // namespace sluice::ilp::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // SLUICE_BENCH_READ_PASS_INL_H_
