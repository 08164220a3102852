// SPDX-License-Identifier: Apache-2.0
#pragma once

// What every experiment suite is made of. A suite is one file, bench/SUITE_experiments.cc: GoogleTest tests of the test
// suite SUITE, one a figure (or one for two figures that come from the same rounds), and nothing else; `main` is in
// experiment.cc.
//
//   TEST(ilp, sum) {
//     Figure speed("sum", "GB/s");
//     for (const std::size_t size : full_or_tiny<std::size_t>({1448, 65536}, {1448})) {
//       const Rounds rounds({timed("read", ...), timed("sum", ...)});
//       for (const auto& arm : rounds.arms()) speed.add(arm, size, rounds.gigabytes_per_second(arm, size));
//     }
//   }
//
// Method. A round measures every arm once, each round starting with another arm, so that a change of frequency or a
// busy neighbour hits all alike. What is written is the median, the smallest and the largest value over the rounds; a
// ratio is taken within each round first. A difference within min..max of both means nothing.
//
// The program is called `SUITE_experiments --out FILE [--tiny]`, besides GoogleTest's options. It writes to FILE one
// JSON object a line, with exactly the keys suite, figure, arm, size_bytes, unit, median, min, max, repetitions,
// machine, cpu, commit. `cpu` is the kind of the CPU (bench/cpu_kind.h), `commit` the value of SLUICE_COMMIT. An arm
// may carry one parameter, which is then the figure's x axis instead of the size: "fused stages=3". A test fails only
// where its figures would mean nothing.
//
// Thread safety: none; one thread measures.

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bench/samples.h"

namespace sluice::bench {

/// Whether this run only shows that everything runs: few sizes, short slices, few rounds.
[[nodiscard]] bool tiny();

template <class T>
[[nodiscard]] std::vector<T> full_or_tiny(std::vector<T> full, std::vector<T> few) {
  return tiny() ? std::move(few) : std::move(full);
}

/// How many rounds an experiment runs: at least 7, but in a tiny run.
[[nodiscard]] std::size_t repetitions();

/// How long one measurement lasts at least.
[[nodiscard]] double slice_seconds();

/// Makes the compiler believe that `value` is used, and memory with it.
template <class T>
inline void keep(const T& value) {
  asm volatile("" : : "r,m"(value) : "memory");
}

/// `pointer`, of which the compiler knows nothing any more.
template <class T>
[[nodiscard]] inline T* opaque(T* pointer) {
  asm volatile("" : "+r"(pointer));
  return pointer;
}

/// One of the ways to do the work that an experiment compares. `seconds` measures once: seconds a message.
struct Arm {
  std::string name;
  std::function<double()> seconds;
};

/// The arm that calls `work` for each message, as often as a slice needs; once more before, untimed, so that the caches
/// hold what this arm leaves in them. What counts is the thread's CPU time, which others on the same core do not
/// lengthen by their turns; work that waits, or happens elsewhere, needs an Arm of its own kind.
template <class Work>
[[nodiscard]] Arm timed(std::string name, Work work) {
  return {std::move(name), [work, calls = std::size_t{0}]() mutable {
            const auto run = [&work](std::size_t left) {
              const double start_ns = thread_cpu_ns();
              for (; left > 0; --left) {
                work();
                keep(left);
              }
              return (thread_cpu_ns() - start_ns) * 1e-9;
            };
            constexpr std::size_t calls_max = std::size_t{1} << 24;
            if (calls == 0) {
              for (calls = 1; calls < calls_max && run(calls) < slice_seconds();) {
                calls *= 2;
              }
            }
            run(1);
            return run(calls) / static_cast<double>(calls);
          }};
}

/// The times of some arms over `repetitions()` rounds, measured by the constructor.
class Rounds {
 public:
  /// REQUIRES: names are unique.
  explicit Rounds(std::vector<Arm> arms);

  [[nodiscard]] const std::vector<std::string>& arms() const { return names_; }
  // REQUIRES, for all: `arm` and `reference` are among the arms.
  [[nodiscard]] Samples nanoseconds(std::string_view arm) const;
  [[nodiscard]] Samples gigabytes_per_second(std::string_view arm, std::size_t size_bytes) const;
  [[nodiscard]] Samples megabits_per_second(std::string_view arm, std::size_t size_bytes) const;
  /// How many times as fast as `reference`, taken in each round.
  [[nodiscard]] Samples ratio(std::string_view arm, std::string_view reference) const;
  /// The same for the slowest of `parts`, each round's own. What does the work of all parts in one pass cannot be
  /// faster than that: a bound for it. REQUIRES: there is a part.
  [[nodiscard]] Samples ratio_of_slowest(const std::vector<std::string>& parts, std::string_view reference) const;
  /// The same for all of `parts`, one after the other. What does the work of all parts, as fast as each, is no faster.
  /// REQUIRES: there is a part.
  [[nodiscard]] Samples ratio_of_sum(const std::vector<std::string>& parts, std::string_view reference) const;
  /// What share of its time `arm` needs beyond that of `part`, taken in each round; 0 where it needs no more.
  [[nodiscard]] Samples share_beyond(std::string_view arm, std::string_view part) const;

 private:
  [[nodiscard]] const std::vector<double>& seconds(std::string_view arm) const;
  template <class Join>
  [[nodiscard]] Samples ratio_of(const std::vector<std::string>& parts, std::string_view reference, Join join) const;

  std::vector<std::string> names_;
  std::vector<std::vector<double>> seconds_;  // of each arm, in each round
};

/// A figure of the suite whose test is running. All its values have one unit: "GB/s", "ns", "ratio", ...
class Figure {
 public:
  Figure(std::string name, std::string unit);
  /// Writes one line. REQUIRES: there is a sample.
  void add(std::string_view arm, std::size_t size_bytes, const Samples& samples) const;

 private:
  std::string name_;
  std::string unit_;
};

}  // namespace sluice::bench
