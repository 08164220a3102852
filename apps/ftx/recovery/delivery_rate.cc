// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/recovery/delivery_rate.h"

#include <algorithm>

#include "base/contract.h"

namespace sluice::ftx {
namespace {

constexpr double nanoseconds_per_second = 1e9;
constexpr double startup_gain = 2.77;  // 4 ln 2: doubles the delivery rate each round
constexpr std::array<double, 8> cruise_gains{1.25, 0.75, 1, 1, 1, 1, 1, 1};
constexpr std::uint64_t window_adus_min = 32;
// A report comes when both programs get a processor, so the window must cover that delay too. It is also the shortest
// round: the ten rounds of the filter must last longer than one pause of the operating system's scheduler.
constexpr Duration feedback_delay = std::chrono::milliseconds(10);
constexpr Duration round_trip_unmeasured = std::chrono::milliseconds(10);

std::uint64_t bytes_in(std::uint64_t rate, Duration span) {
  return static_cast<std::uint64_t>(static_cast<double>(rate) * static_cast<double>(span.count()) /
                                    nanoseconds_per_second);
}

}  // namespace

DeliveryRate::DeliveryRate(std::size_t datagram_bytes) : datagram_bytes_(datagram_bytes) {
  SLUICE_REQUIRE(datagram_bytes > 0);
  set_pace();
}

std::uint64_t DeliveryRate::bandwidth() const { return *std::ranges::max_element(rates_); }

std::uint64_t DeliveryRate::bandwidth_delay_bytes() const {
  return round_trip_min_ == Duration::max() ? 0 : bytes_in(bandwidth(), std::max(round_trip_min_, feedback_delay));
}

std::uint64_t DeliveryRate::window_bytes() const {
  const double window_gain = state_ == State::startup ? startup_gain : 2;
  return static_cast<std::uint64_t>(window_gain * static_cast<double>(bandwidth_delay_bytes())) +
         window_adus_min * datagram_bytes_;
}

void DeliveryRate::on_report(TimePoint now, const Delivery& delivery) {
  if (delivery.round_trip > Duration{}) {
    round_trip_min_ = std::min(round_trip_min_, delivery.round_trip);
  }
  note_rate(delivery);
  if (delivery.round_ended && now - round_since_ >= feedback_delay) {
    round_since_ = now;
    check_full_pipe();
    // A round without a measured rate does not advance the filter.
    if (round_has_rate_) {
      rates_[++round_ % filter_rounds] = 0;
    }
    round_has_rate_ = false;
    round_limited_ = false;
  }
  advance_state(now, delivery);
  set_pace();
}

void DeliveryRate::note_rate(const Delivery& delivery) {
  round_limited_ |= delivery.application_limited;
  if (!delivery.rate || (delivery.application_limited && *delivery.rate <= bandwidth())) {
    return;
  }
  round_has_rate_ = true;
  std::uint64_t& best = rates_[round_ % filter_rounds];
  best = std::max(best, *delivery.rate);
}

/// Startup ends when three rounds have not raised the rate by a quarter.
void DeliveryRate::check_full_pipe() {
  if (state_ != State::startup || round_limited_ || !round_has_rate_) {
    return;
  }
  if (bandwidth() >= full_bandwidth_ + full_bandwidth_ / 4) {
    full_bandwidth_ = bandwidth();
    rounds_without_growth_ = 0;
  } else if (++rounds_without_growth_ >= 3) {
    state_ = State::drain;
  }
}

void DeliveryRate::advance_state(TimePoint now, const Delivery& delivery) {
  if (state_ == State::drain && delivery.in_flight_bytes <= bandwidth_delay_bytes()) {
    state_ = State::cruise;
    cycle_ = 2;
    cycle_since_ = now;
  }
  if (state_ == State::cruise && now - cycle_since_ >= std::max(round_trip_min_, feedback_delay)) {
    cycle_ = (cycle_ + 1) % cruise_gains.size();
    cycle_since_ = now;
  }
}

double DeliveryRate::gain() const {
  switch (state_) {
    case State::startup:
      return startup_gain;
    case State::drain:
      return 1 / startup_gain;
    case State::cruise:
      return cruise_gains[cycle_];
  }
  return 1;
}

void DeliveryRate::set_pace() {
  const Duration round_trip = round_trip_min_ == Duration::max()
                                  ? round_trip_unmeasured
                                  : std::max<Duration>(round_trip_min_, std::chrono::microseconds(100));
  const auto least = static_cast<double>(window_adus_min * datagram_bytes_) * nanoseconds_per_second /
                     static_cast<double>(round_trip.count());
  const double rate = bandwidth() == 0 ? least : gain() * static_cast<double>(bandwidth());
  // At ten datagrams a second the rate can still be measured.
  pacer_.set_rate(static_cast<std::uint64_t>(std::max(rate, static_cast<double>(datagram_bytes_) * 10)));
}

}  // namespace sluice::ftx
