// SPDX-License-Identifier: Apache-2.0

// The kernels of ilp/ against a read-only pass and memcpy of the same size.
//
// Method: one measurement is `rounds` rounds of reference, kernel, reference, on the same two buffers, each repeated to
// about 1 MiB of bytes (so that frequency changes and neighbours hit both alike). Each round gives one ratio: time of
// the reference, mean of before and after, over time of the kernel; 1 = as fast as the reference. Printed are the
// median ns a call and GB/s of the kernel, and the median ratio with its quartiles: a difference within them means
// nothing. `sum` refers to a pass that only reads; swap4_sum_copy, which converts, sums and copies in one pass, also to
// the same in three passes, each by vectors; everything else to memcpy onto the second buffer. Buffers start 64-byte
// aligned, or 14 bytes after that (`misaligned`), as a payload behind an Ethernet header does.

#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "ilp/cray.h"
#include "ilp/kernels.h"
#include "ilp/scalar.h"

#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "bench/ilp_bench.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace sluice::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

/// Loads every vector and does the least that keeps the loads: one bitwise or each.
std::uint64_t read_pass(const std::byte* from, std::size_t size) {
  const hn::ScalableTag<std::uint64_t> d;
  const std::size_t n = hn::Lanes(d) * sizeof(std::uint64_t);
  const auto load = [&](std::size_t at)
                        HWY_ATTR { return hn::LoadU(d, reinterpret_cast<const std::uint64_t*>(from + at)); };
  auto all = hn::Zero(d);
  std::size_t at = 0;
  for (; at + 8 * n <= size; at += 8 * n) {
    const auto first = hn::Or(hn::Or(load(at), load(at + n)), hn::Or(load(at + 2 * n), load(at + 3 * n)));
    const auto second = hn::Or(hn::Or(load(at + 4 * n), load(at + 5 * n)), hn::Or(load(at + 6 * n), load(at + 7 * n)));
    all = hn::Or(all, hn::Or(first, second));
  }
  for (; at + n <= size; at += n) {
    all = hn::Or(all, load(at));
  }
  std::uint64_t rest = 0;
  for (; at + sizeof rest <= size; at += sizeof rest) {
    std::uint64_t word;
    std::memcpy(&word, from + at, sizeof word);
    rest |= word;
  }
  return rest | hn::GetLane(hn::SumOfLanes(d, all));
}

}  // namespace
}  // namespace sluice::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace sluice {
namespace {

HWY_EXPORT(read_pass);

struct Buffers {
  std::vector<std::byte> memory;
  std::byte* source;
  std::byte* destination;
  std::size_t size;

  Buffers(std::size_t size_arg, std::size_t misalignment) : memory(2 * size_arg + 1024), size(size_arg) {
    const std::size_t to_line = (64 - reinterpret_cast<std::uintptr_t>(memory.data()) % 64) % 64;
    source = memory.data() + to_line + misalignment;
    // An odd number of lines apart, so that the two do not compete for the same sets of the cache.
    destination = source + ((size / 64 + 1) | 1) * 64;
    std::fill(memory.begin(), memory.end(), std::byte{0x5a});
  }

  [[nodiscard]] ConstBytes from() const { return {source, size}; }
  [[nodiscard]] Bytes to() const { return {destination, size}; }
};

void read_only(const Buffers& b) { benchmark::DoNotOptimize(HWY_DYNAMIC_DISPATCH(read_pass)(b.source, b.size)); }

void memory_copy(const Buffers& b) {
  std::memcpy(b.destination, b.source, b.size);
  benchmark::ClobberMemory();
}

/// The layered form of convert, sum and copy: three passes, each at the speed of the machine's vectors.
void three_passes(const Buffers& b) {
  ilp::copy(b.from(), b.to());
  ilp::swap(4, b.to());
  benchmark::DoNotOptimize(ilp::sum(b.to()));
}

void fused(const Buffers& b) { benchmark::DoNotOptimize(ilp::swap_sum_copy(4, b.from(), b.to())); }

using Arm = void (*)(const Buffers&);

struct Case {
  const char* name;
  Arm kernel;
  Arm reference;
};

constexpr Case cases[] = {
    {"sum/read", [](const Buffers& b) { benchmark::DoNotOptimize(ilp::sum(b.from())); }, read_only},
    {"scalar_sum/read", [](const Buffers& b) { benchmark::DoNotOptimize(ilp::scalar::sum(b.from())); }, read_only},
    {"sum_copy/memcpy", [](const Buffers& b) { benchmark::DoNotOptimize(ilp::sum_copy(b.from(), b.to())); },
     memory_copy},
    {"swap4_sum_copy/memcpy", fused, memory_copy},
    {"swap4_sum_copy/three_passes", fused, three_passes},
    {"cray_from_binary64/memcpy", [](const Buffers& b) { ilp::cray_from_binary64(b.from(), b.to()); }, memory_copy},
    {"binary64_from_cray/memcpy", [](const Buffers& b) { ilp::binary64_from_cray(b.from(), b.to()); }, memory_copy},
    {"swap4_copy/memcpy", [](const Buffers& b) { ilp::swap_copy(4, b.from(), b.to()); }, memory_copy},
    {"swap8_copy/memcpy", [](const Buffers& b) { ilp::swap_copy(8, b.from(), b.to()); }, memory_copy},
    {"swap4/memcpy", [](const Buffers& b) { ilp::swap(4, {b.source, b.size}); }, memory_copy},
    {"copy/memcpy", [](const Buffers& b) { ilp::copy(b.from(), b.to()); }, memory_copy},
};

/// Seconds a call, over `calls` calls.
double timed(Arm arm, const Buffers& buffers, std::size_t calls) {
  const auto start = std::chrono::steady_clock::now();
  for (std::size_t i = 0; i < calls; ++i) {
    arm(buffers);
  }
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() / static_cast<double>(calls);
}

double quantile(std::vector<double> values, double at) {
  const auto index = static_cast<std::ptrdiff_t>(at * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), values.begin() + index, values.end());
  return values[static_cast<std::size_t>(index)];
}

/// One iteration is one round: the reference, the kernel, and the reference again.
void against_reference(benchmark::State& state, Case test) {
  const auto size = static_cast<std::size_t>(state.range(0));
  const Buffers buffers(size, static_cast<std::size_t>(state.range(1)));
  const std::size_t calls = std::max<std::size_t>(1, (1U << 20) / (size + 256));
  std::vector<double> ratios;
  std::vector<double> seconds;
  timed(test.reference, buffers, calls);
  timed(test.kernel, buffers, calls);
  for (auto _ : state) {
    const double before = timed(test.reference, buffers, calls);
    const double kernel = timed(test.kernel, buffers, calls);
    const double after = timed(test.reference, buffers, calls);
    ratios.push_back((before + after) / 2 / kernel);
    seconds.push_back(kernel);
    state.SetIterationTime(kernel * static_cast<double>(calls));
  }
  state.counters["ns"] = quantile(seconds, 0.5) * 1e9;
  state.counters["GB/s"] = static_cast<double>(size) / quantile(seconds, 0.5) / 1e9;
  state.counters["ratio"] = quantile(ratios, 0.5);
  state.counters["ratio_q1"] = quantile(ratios, 0.25);
  state.counters["ratio_q3"] = quantile(ratios, 0.75);
}

constexpr int rounds = 31;
constexpr std::int64_t sizes[] = {20, 64, 128, 512, 1500, 9000, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 16 << 20};
/// Beyond every cache; for the comparison of one pass with three.
constexpr std::int64_t size_beyond_caches = 128 << 20;

void register_cases() {
  for (const Case& test : cases) {
    const std::string_view kernel(test.name);
    const bool in_units = kernel.find("swap") != kernel.npos || kernel.find("cray") != kernel.npos;
    for (const std::int64_t misalignment : {0, 14}) {
      const std::string name = std::string(test.name) + (misalignment == 0 ? "" : "/misaligned");
      auto* const registered = benchmark::RegisterBenchmark(name.c_str(), against_reference, test);
      for (const std::int64_t size : sizes) {
        const std::int64_t whole_units = size < 64 ? 24 : size - size % 8;
        registered->Args({in_units ? whole_units : size, misalignment});
      }
      if (kernel.starts_with("swap4_sum_copy") && misalignment == 0) {
        registered->Args({size_beyond_caches, misalignment});
      }
      registered->UseManualTime()->Iterations(rounds);
    }
  }
}

}  // namespace
}  // namespace sluice

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) {
    return 2;
  }
  sluice::register_cases();
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}

#endif  // HWY_ONCE
