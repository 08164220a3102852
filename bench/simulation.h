// SPDX-License-Identifier: Apache-2.0
#pragma once

// Experiments in simulated time: hosts of our own stack, wires in memory, and the `fault` module as link rate, delay,
// queue and bit errors. The same seed gives the same curve on every machine.
//
// Threads: one.

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "bench/experiment.h"
#include "bench/ports.h"
#include "bench/samples.h"
#include "stack/core/stream_set.h"

namespace sluice::bench {

/// Time passes only while somebody waits. Devices of the experiment's own have turns whenever something has happened.
class SimulatedClock final : public Waiter {
 public:
  explicit SimulatedClock(StreamSet& set) : set_(set) { set_.scheduler().advance(now_); }

  bool wait(TimePoint deadline) override {
    bool moved = turn_devices();
    const TimePoint until = moved ? now_ : deadline;
    const TimePoint next = set_.scheduler().next_deadline();
    const bool in_time = next <= until && next != never;
    now_ = in_time ? std::max(now_, next) : (until == never ? now_ : std::max(now_, until));
    set_.scheduler().poll(now_);
    moved = turn_devices() || moved;
    return moved || in_time;
  }
  TimePoint now() override { return now_; }

  std::vector<std::function<bool()>> devices;  ///< each says whether it has moved anything

 private:
  bool turn_devices() {
    bool moved = false;
    for (const auto& turn : devices) {
      moved = turn() || moved;
    }
    return moved;
  }

  StreamSet& set_;
  TimePoint now_{};
};

/// Seconds of simulated time.
inline double seconds_of(Duration duration) { return std::chrono::duration<double>(duration).count(); }

/// Two hosts on a wire, with `fault` on each host as it is given.
struct TwoHosts {
  StreamSet set;
  SimulatedClock clock{set};
  Host near;
  Host far;

  TwoHosts(std::uint64_t seed, const std::string& near_fault, const std::string& far_fault)
      : set(StreamSet::Options{.seed = seed}), near(host('a', "1", near_fault)), far(host('b', "2", far_fault)) {}

  [[nodiscard]] static Host host(char end, const std::string& number, const std::string& fault) {
    return {.driver = std::string("{ kind = 'wire', name = 'hosts', end = '") + end + "' }",
            .modules = "'fault', 'ip'",
            .settings = "fault = { " + fault + " }\nip = { address = '10.80.0." + number + "/24' }\n",
            .address = *wire::IpAddress::from_text("10.80.0." + number)};
  }
};

/// One measurement a seed: as many as an experiment has rounds of.
inline constexpr std::size_t seeds_full = 7;
inline std::size_t seeds() { return tiny() ? 2 : seeds_full; }

}  // namespace sluice::bench
