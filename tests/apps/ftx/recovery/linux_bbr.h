// SPDX-License-Identifier: Apache-2.0
#pragma once

// LinuxBbr: what Linux calls "bbr", BBR version 1 (draft-cardwell-iccrg-bbr-congestion-control-00), as a flow to
// compete with in simulation. Unlike ftx's own it does not yield to loss: a quarter more every eighth round trip, two
// bandwidth-delay products in flight at most, four datagrams for 200 ms every 10 s.

#include <algorithm>
#include <array>
#include <deque>
#include <utility>

#include "apps/ftx/recovery/congestion.h"
#include "base/prng.h"

namespace sluice::ftx::test {

class LinuxBbr final : public CongestionControl {
 public:
  [[nodiscard]] std::string_view name() const override { return "test"; }
  LinuxBbr(std::size_t datagram_bytes, std::uint64_t seed)
      : datagram_(datagram_bytes), prng_(seed), window_(10 * datagram_bytes) {}

  void on_first_round_trip(Duration round_trip) override {
    const auto rate = static_cast<double>(window_) * 1e9 / static_cast<double>(round_trip.count());
    pacer_.set_rate(static_cast<std::uint64_t>(high_gain * rate));
  }
  void on_sent(TimePoint now, std::size_t bytes) override { pacer_.on_sent(now, bytes); }
  [[nodiscard]] std::uint64_t window_bytes() const override { return window_; }
  [[nodiscard]] TimePoint next_send() const override { return pacer_.next_send(); }
  [[nodiscard]] bool behind(TimePoint now) const override { return pacer_.behind(now); }

  void on_report(TimePoint now, const Delivery& delivery) override {
    const bool round_start = delivery.newest && delivery.newest->delivered_bytes >= next_round_delivered_;
    if (round_start) {
      next_round_delivered_ = delivery.delivered_bytes;
      ++round_;
    }
    const bool counts = delivery.rate && !delivery.newest->application_limited;
    if (counts || delivery.rate.value_or(0) > bandwidth()) {
      while (!rates_.empty() && rates_.back().second <= *delivery.rate) {
        rates_.pop_back();
      }
      rates_.emplace_back(round_, *delivery.rate);
    }
    while (!rates_.empty() && rates_.front().first + 10 < round_) {
      rates_.pop_front();
    }
    const bool expired = now > min_rtt_at_ + std::chrono::seconds(10);
    if (delivery.round_trip > Duration{} && (delivery.round_trip <= min_rtt_ || expired)) {
      min_rtt_ = delivery.round_trip;
      min_rtt_at_ = now;
    }
    if (state_ == State::startup && round_start && counts) {
      check_full_pipe();
    }
    advance(now, delivery);
    if (expired && state_ != State::probe_rtt) {
      prior_state_ = state_;
      prior_window_ = window_;
      state_ = State::probe_rtt;
      probe_rtt_done_at_ = never;
    }
    if (state_ == State::probe_rtt) {
      probe_rtt(now, delivery);
    }
    const auto rate = static_cast<std::uint64_t>(pacing_gain() * 0.99 * static_cast<double>(bandwidth()));
    if (bandwidth() > 0 && (state_ != State::startup || rate > pacer_.rate())) {
      pacer_.set_rate(rate);
    }
    set_window(delivery);
  }

 private:
  enum class State { startup, drain, probe_bw, probe_rtt };
  static constexpr double high_gain = 2.885;
  static constexpr std::array<double, 8> gains{1.25, 0.75, 1, 1, 1, 1, 1, 1};

  [[nodiscard]] std::uint64_t bandwidth() const { return rates_.empty() ? 0 : rates_.front().second; }
  [[nodiscard]] std::uint64_t bdp(double gain) const {
    return static_cast<std::uint64_t>(gain * static_cast<double>(bandwidth()) * static_cast<double>(min_rtt_.count()) /
                                      1e9);
  }
  [[nodiscard]] double pacing_gain() const {
    switch (state_) {
      case State::startup:
        return high_gain;
      case State::drain:
        return 1 / high_gain;
      case State::probe_bw:
        return gains[phase_];
      case State::probe_rtt:
        return 1;
    }
    return 1;
  }

  void check_full_pipe() {
    if (bandwidth() >= full_bandwidth_ + full_bandwidth_ / 4) {
      full_bandwidth_ = bandwidth();
      full_rounds_ = 0;
    } else if (++full_rounds_ == 3) {
      state_ = State::drain;
    }
  }

  void advance(TimePoint now, const Delivery& delivery) {
    if (state_ == State::drain && delivery.in_flight_bytes <= bdp(1)) {
      start_probe_bw(now);
    } else if (state_ == State::probe_bw) {
      const bool whole = now - phase_at_ > min_rtt_;
      const double gain = gains[phase_];
      const bool over = gain > 1   ? whole && (delivery.newly_lost_bytes > 0 || delivery.in_flight_bytes >= bdp(gain))
                        : gain < 1 ? whole || delivery.in_flight_bytes <= bdp(1)
                                   : whole;
      if (over) {
        phase_ = (phase_ + 1) % gains.size();
        phase_at_ = now;
      }
    }
  }

  void start_probe_bw(TimePoint now) {
    state_ = State::probe_bw;
    phase_ = 2 + prng_.below(6);
    phase_at_ = now;
  }

  void probe_rtt(TimePoint now, const Delivery& delivery) {
    if (probe_rtt_done_at_ == never && delivery.in_flight_bytes <= 5 * datagram_) {
      probe_rtt_done_at_ = now + std::chrono::milliseconds(200);
      probe_rtt_round_ = round_;
    } else if (probe_rtt_done_at_ != never && round_ > probe_rtt_round_ && now > probe_rtt_done_at_) {
      min_rtt_at_ = now;
      window_ = std::max(window_, prior_window_);
      state_ = prior_state_;
      if (state_ == State::probe_bw) {
        start_probe_bw(now);
      }
    }
  }

  /// With packet conservation in the first round trip of a recovery, which is all that loss does.
  void set_window(const Delivery& delivery) {
    const std::uint64_t least = 4 * datagram_;
    const bool early = state_ == State::startup || state_ == State::drain;
    const std::uint64_t target = bdp(early ? high_gain : 2) + 6 * datagram_;
    if (delivery.newly_lost_bytes > 0 && !recovery_) {
      recovery_ = true;
      recovery_round_ = round_;
      recovery_window_ = window_;
      window_ = delivery.in_flight_bytes + delivery.newly_delivered_bytes;
    } else if (recovery_ && round_ > recovery_round_ + 1) {
      recovery_ = false;
      window_ = std::max(window_, recovery_window_);
    }
    if (!recovery_ || round_ > recovery_round_) {
      if (state_ != State::startup) {
        window_ = std::min(window_ + delivery.newly_delivered_bytes, target);
      } else if (window_ < target) {
        window_ += delivery.newly_delivered_bytes;
      }
    }
    window_ = state_ == State::probe_rtt ? least : std::max(window_, least);
  }

  const std::uint64_t datagram_;
  Prng prng_;
  Pacer pacer_;
  std::uint64_t window_;
  State state_ = State::startup;
  std::uint64_t round_ = 0;
  std::uint64_t next_round_delivered_ = 0;
  std::deque<std::pair<std::uint64_t, std::uint64_t>> rates_;  // round and rate, falling: a maximum over 10 rounds
  Duration min_rtt_ = Duration::max();
  TimePoint min_rtt_at_ = never - std::chrono::seconds(10);
  std::uint64_t full_bandwidth_ = 0;
  int full_rounds_ = 0;
  std::size_t phase_ = 0;
  TimePoint phase_at_{};
  State prior_state_ = State::startup;
  std::uint64_t prior_window_ = 0;
  TimePoint probe_rtt_done_at_ = never;
  std::uint64_t probe_rtt_round_ = 0;
  bool recovery_ = false;
  std::uint64_t recovery_round_ = 0;
  std::uint64_t recovery_window_ = 0;
};

}  // namespace sluice::ftx::test
