// SPDX-License-Identifier: Apache-2.0

// The method of bench/experiment.h: turns, ratios within a round, and what a measurement is. Built as a suite of its
// own (bench/CMakeLists.txt), since experiment.cc brings its `main`.

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "bench/cpu_kind.h"
#include "bench/experiment.h"

namespace sluice::bench {
namespace {

/// An arm that takes 1, 2, 3, ... times `first` seconds, and notes that it was its turn.
Arm slower_each_time(std::string name, double first, const std::shared_ptr<std::string>& turns) {
  return {name, [name, first, turns, times = 0]() mutable {
            *turns += name;
            return first * ++times;
          }};
}

TEST(Rounds, MeasureEveryArmOnceARoundAndStartWithAnotherEachTime) {
  const auto turns = std::make_shared<std::string>();
  const Rounds rounds(
      {slower_each_time("a", 1, turns), slower_each_time("b", 1, turns), slower_each_time("c", 1, turns)});
  ASSERT_EQ(turns->size(), 3 * repetitions());
  EXPECT_EQ(turns->substr(0, 6), "abcbca");
  for (std::size_t round = 0; round < repetitions(); ++round) {
    std::string one = turns->substr(3 * round, 3);
    std::ranges::sort(one);
    EXPECT_EQ(one, "abc") << round;
  }
}

TEST(Rounds, HaveEnoughRepetitionsButInATinyRun) { EXPECT_GE(repetitions(), tiny() ? 1U : 7U); }

/// Both arms get slower from round to round; that one is thrice as fast as the other is the same in each.
TEST(Rounds, RatioIsTakenWithinARound) {
  const auto turns = std::make_shared<std::string>();
  const Rounds rounds({slower_each_time("slow", 3, turns), slower_each_time("fast", 1, turns)});
  const Samples ratio = rounds.ratio("fast", "slow");
  EXPECT_EQ(ratio.size(), repetitions());
  EXPECT_DOUBLE_EQ(ratio.quantile(0), 3);
  EXPECT_DOUBLE_EQ(ratio.quantile(1), 3);
}

/// "a" is slower in the first round, "b" in the second.
TEST(Rounds, TheSlowestPartIsEachRoundsOwn) {
  const Rounds rounds({{"reference", [] { return 6.0; }},
                       {"a", [times = 0]() mutable { return times++ % 2 == 0 ? 3.0 : 1.0; }},
                       {"b", [] { return 2.0; }}});
  const Samples ratio = rounds.ratio_of_slowest({"a", "b"}, "reference");
  EXPECT_DOUBLE_EQ(ratio.quantile(0), 2);
  EXPECT_DOUBLE_EQ(ratio.quantile(1), 3);
}

TEST(Rounds, SumOfPartsIsEachRoundsOwn) {
  const Rounds rounds({{"reference", [] { return 6.0; }},
                       {"a", [times = 0]() mutable { return times++ % 2 == 0 ? 2.0 : 1.0; }},
                       {"b", [] { return 1.0; }}});
  const Samples ratio = rounds.ratio_of_sum({"a", "b"}, "reference");
  EXPECT_DOUBLE_EQ(ratio.quantile(0), 2);
  EXPECT_DOUBLE_EQ(ratio.quantile(1), 3);
}

TEST(Rounds, ShareBeyondIsTakenWithinARoundAndNeverNegative) {
  const auto turns = std::make_shared<std::string>();
  const Rounds rounds({slower_each_time("whole", 4, turns), slower_each_time("part", 1, turns)});
  EXPECT_DOUBLE_EQ(rounds.share_beyond("whole", "part").quantile(0), 0.75);
  EXPECT_DOUBLE_EQ(rounds.share_beyond("whole", "part").quantile(1), 0.75);
  EXPECT_DOUBLE_EQ(rounds.share_beyond("part", "whole").median(), 0);
}

TEST(Rounds, UnitsAreNanosecondsAndDecimalGigabytes) {
  const Rounds rounds({{"a", [] { return 1e-6; }}});
  EXPECT_DOUBLE_EQ(rounds.nanoseconds("a").median(), 1000);
  EXPECT_DOUBLE_EQ(rounds.gigabytes_per_second("a", 2000).median(), 2);
}

/// The last slice has at least a third of all calls, since the slices before it doubled; so one call cannot have taken
/// more than three times its share of the whole.
TEST(Timed, TellsTheTimeOfOneCall) {
  const auto calls = std::make_shared<std::size_t>(0);
  const Arm arm = timed("a", [calls] { ++*calls; });
  const double before_ns = thread_cpu_ns();
  const double seconds = arm.seconds();
  const double all = (thread_cpu_ns() - before_ns) * 1e-9;
  EXPECT_GT(*calls, 2U);
  EXPECT_GT(seconds, 0);
  EXPECT_LE(seconds * static_cast<double>(*calls), 3 * all);
}

TEST(CpuKind, NamesMicroarchitectureAndWidestVectors) {
  const auto cpuinfo = [](std::string vendor, int family, int model, std::string name, std::string flags) {
    return "processor\t: 0\nvendor_id\t: " + vendor + "\ncpu family\t: " + std::to_string(family) +
           "\nmodel\t\t: " + std::to_string(model) + "\nmodel name\t: " + name + "\nflags\t\t: " + flags + "\n";
  };
  EXPECT_EQ(cpu_kind(cpuinfo("AuthenticAMD", 25, 1, "AMD EPYC", "fpu avx avx2 sse4_1")), "AMD EPYC (Zen 3), avx2");
  EXPECT_EQ(cpu_kind(cpuinfo("AuthenticAMD", 25, 17, "AMD EPYC 9R14", "avx2 avx512bw avx512_vnni")),
            "AMD EPYC (Zen 4), avx512_vnni");
  EXPECT_EQ(cpu_kind(cpuinfo("GenuineIntel", 6, 143, "Intel(R) Xeon(R) Platinum 8481C", "avx_vnni avx512_vnni")),
            "Intel Xeon (Sapphire Rapids), avx512_vnni");
  EXPECT_EQ(cpu_kind(cpuinfo("AuthenticAMD", 25, 200, "AMD EPYC", "avx2_not")),
            "AMD EPYC (family 25, model 200), no vectors known");
  EXPECT_EQ(cpu_kind("processor : 0\nFeatures : fp asimd asimddp\nCPU implementer : 0x41\nCPU part : 0xd40\n"),
            "Arm (implementer 0x41, part 0xd40), asimddp");
  EXPECT_EQ(cpu_kind(""), "unknown CPU, no vectors known");
  EXPECT_EQ(cpu_kind(":\n: \nmodel"), "unknown CPU, no vectors known");
}

}  // namespace
}  // namespace sluice::bench
