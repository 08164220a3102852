// SPDX-License-Identifier: Apache-2.0
#include "bench/experiment.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <iterator>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/contract.h"
#include "bench/cpu_kind.h"

namespace sluice::bench {
namespace {

/// What the command line and the environment say; set once, before the tests run.
struct Run {
  bool tiny = false;
  std::string commit = "unknown";
  std::string machine;
  std::string cpu;
  std::ofstream lines;
};

Run& this_run() {
  static Run run;
  return run;
}

std::string cpuinfo() {
  std::ifstream file("/proc/cpuinfo");
  return {std::istreambuf_iterator<char>(file), {}};
}

/// Model of the CPU, number of cores, compiler: what makes two files comparable or not.
std::string machine(const std::string& cpuinfo) {
  constexpr std::string_view key = "model name";
  std::string model = "unknown CPU";
  if (const std::size_t at = cpuinfo.find(key); at != std::string::npos) {
    const std::string line = cpuinfo.substr(at, cpuinfo.find('\n', at) - at);
    model = line.substr(std::min(line.size(), line.find(':') + 2));
  }
#ifdef __clang__
  const std::string compiler = "clang " __clang_version__;
#else
  const std::string compiler = "g++ " __VERSION__;
#endif
  return model + ", " + std::to_string(std::thread::hardware_concurrency()) + " cores, " + compiler;
}

int usage(const char* program, const std::string& problem) {
  std::fprintf(stderr, "%s: %s\nusage: %s --out FILE [--tiny] [GoogleTest's options]\n", program, problem.c_str(),
               program);
  return 2;
}

int run_suite(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  std::string out;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument == "--tiny") {
      this_run().tiny = true;
    } else if (argument == "--out" && i + 1 < argc) {
      out = argv[++i];
    } else {
      return usage(argv[0], "cannot use '" + std::string(argument) + "'");
    }
  }
  if (out.empty() && !testing::GTEST_FLAG(list_tests)) {
    return usage(argv[0], "--out FILE is missing");
  }
  if (!out.empty()) {
    this_run().lines.open(out, std::ios::trunc);
    if (!this_run().lines) {
      return usage(argv[0], "cannot write " + out);
    }
  }
  if (const char* commit = std::getenv("SLUICE_COMMIT"); commit != nullptr && *commit != '\0') {
    this_run().commit = commit;
  }
  const std::string info = cpuinfo();
  this_run().machine = machine(info);
  this_run().cpu = cpu_kind(info);
  const int failed = RUN_ALL_TESTS();
  this_run().lines.flush();
  if (!out.empty() && !this_run().lines) {
    return usage(argv[0], "could not write all of " + out);
  }
  return failed;
}

}  // namespace

bool tiny() { return this_run().tiny; }

std::size_t repetitions() { return tiny() ? 2 : 31; }

double slice_seconds() { return tiny() ? 20e-6 : 2e-3; }

Rounds::Rounds(std::vector<Arm> arms) : seconds_(arms.size()) {
  for (const Arm& arm : arms) {
    names_.push_back(arm.name);
  }
  for (std::size_t round = 0; round < repetitions(); ++round) {
    for (std::size_t turn = 0; turn < arms.size(); ++turn) {
      const std::size_t arm = (round + turn) % arms.size();
      seconds_[arm].push_back(arms[arm].seconds());
    }
  }
}

const std::vector<double>& Rounds::seconds(std::string_view arm) const {
  const auto at = std::ranges::find(names_, arm);
  SLUICE_REQUIRE(at != names_.end());
  return seconds_[static_cast<std::size_t>(at - names_.begin())];
}

Samples Rounds::nanoseconds(std::string_view arm) const {
  Samples samples;
  for (const double each : seconds(arm)) {
    samples.add(each * 1e9);
  }
  return samples;
}

Samples Rounds::gigabytes_per_second(std::string_view arm, std::size_t size_bytes) const {
  Samples samples;
  for (const double each : seconds(arm)) {
    samples.add(static_cast<double>(size_bytes) / each / 1e9);
  }
  return samples;
}

Samples Rounds::megabits_per_second(std::string_view arm, std::size_t size_bytes) const {
  Samples samples;
  for (const double each : seconds(arm)) {
    samples.add(static_cast<double>(size_bytes) * 8 / each / 1e6);
  }
  return samples;
}

Samples Rounds::ratio(std::string_view arm, std::string_view reference) const {
  const std::vector<double>& own = seconds(arm);
  const std::vector<double>& other = seconds(reference);
  Samples samples;
  for (std::size_t round = 0; round < own.size(); ++round) {
    samples.add(other[round] / own[round]);
  }
  return samples;
}

template <class Join>
Samples Rounds::ratio_of(const std::vector<std::string>& parts, std::string_view reference, Join join) const {
  const std::vector<double>& other = seconds(reference);
  Samples samples;
  for (std::size_t round = 0; round < other.size(); ++round) {
    double joined = 0;
    for (const std::string& part : parts) {
      joined = join(joined, seconds(part)[round]);
    }
    samples.add(other[round] / joined);
  }
  return samples;
}

Samples Rounds::ratio_of_slowest(const std::vector<std::string>& parts, std::string_view reference) const {
  return ratio_of(parts, reference, [](double left, double right) { return std::max(left, right); });
}

Samples Rounds::ratio_of_sum(const std::vector<std::string>& parts, std::string_view reference) const {
  return ratio_of(parts, reference, std::plus<>());
}

Samples Rounds::share_beyond(std::string_view arm, std::string_view part) const {
  const std::vector<double>& own = seconds(arm);
  const std::vector<double>& less = seconds(part);
  Samples samples;
  for (std::size_t round = 0; round < own.size(); ++round) {
    samples.add(std::max(0.0, 1 - less[round] / own[round]));
  }
  return samples;
}

Figure::Figure(std::string name, std::string unit) : name_(std::move(name)), unit_(std::move(unit)) {}

void Figure::add(std::string_view arm, std::size_t size_bytes, const Samples& samples) const {
  SLUICE_REQUIRE(samples.size() > 0);
  const nlohmann::ordered_json line = {
      {"suite", testing::UnitTest::GetInstance()->current_test_info()->test_suite_name()},
      {"figure", name_},
      {"arm", arm},
      {"size_bytes", size_bytes},
      {"unit", unit_},
      {"median", samples.median()},
      {"min", samples.quantile(0)},
      {"max", samples.quantile(1)},
      {"repetitions", samples.size()},
      {"machine", this_run().machine},
      {"cpu", this_run().cpu},
      {"commit", this_run().commit},
  };
  this_run().lines << line.dump() << '\n';
}

}  // namespace sluice::bench

int main(int argc, char** argv) { return sluice::bench::run_suite(argc, argv); }
