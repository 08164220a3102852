// SPDX-License-Identifier: Apache-2.0
#pragma once

// Congestion control: how fast to send, and how many bytes may be in flight. CongestionControl is the interface:
//
//   Bbr         (bbr.h) models the path from delivery rates and round trips. The default.
//   Cubic       (cubic.h) is driven by loss, as most TCP is.
//   Ledbat      (ledbat.h) yields to all others; for --background.
//   FixedRate   (fixed_rate.h) sends at the rate that --rate asks for.
//   Unpaced     (unpaced.h) for a pipe, which controls itself.
//
// The sender feeds a control a few reports a round trip; DeliverySampler makes a Delivery of each. All bytes are those
// of datagrams, header and payload. A control reads no clock. Not thread-safe.

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string_view>

#include "apps/ftx/recovery/pacing.h"
#include "base/time.h"

namespace sluice::ftx {

/// What one report says about the network path. The names in brackets are those of draft-ietf-ccwg-bbr-06
/// section 4.1.2. "P" is the newest datagram that is known to have arrived.
struct Delivery {
  Duration round_trip{};           // of P, without the time that the receiver held it; zero: not measured (RS.rtt)
  Duration smoothed_round_trip{};  // (C.srtt)

  // Totals since the start, and what this report added.
  std::uint64_t delivered_bytes = 0;  // (C.delivered)
  std::uint64_t newly_delivered_bytes = 0;
  // Reports resolve a datagram, as arrived or as lost, once the receiver's reorder threshold has passed.
  std::uint64_t newly_resolved_bytes = 0;
  std::uint64_t newly_lost_bytes = 0;
  std::uint64_t newly_lost_runs = 0;  // runs of lost sequences that began

  std::uint64_t in_flight_bytes = 0;  // (C.inflight)
  bool window_limited = false;        // since the last report the window held back a datagram (C.is_cwnd_limited)

  /// The state when a datagram was sent, and what became of what was sent around it.
  struct AtSend {
    std::uint64_t delivered_bytes = 0;  // (P.delivered)
    std::uint64_t in_flight_bytes = 0;  // with the datagram itself (P.tx_in_flight)
    bool application_limited = false;   // the sender had sent less than it was allowed to (P.is_app_limited)
    // What reports have resolved since, and how much of that as lost: a loss rate over at least one round trip.
    // (RS.lost)
    std::uint64_t resolved_since_bytes = 0;
    std::uint64_t lost_since_bytes = 0;
  };
  std::optional<AtSend> newest;       // of P; null: nothing new arrived
  std::optional<AtSend> newest_lost;  // of the newest datagram that this report declared lost

  std::optional<std::uint64_t> rate;  // bytes a second that arrived while P was under way (RS.delivery_rate)
  bool as_sent = false;               // with `rate`: that arrived as fast as it was sent, so the path may do more
  // Bytes a second that arrived in the last half report_interval() or more, at most at what they were sent; not with
  // every report; and, at the first, of the first flight. Newer than `rate`, which covers a round trip, but of a burst,
  // and blurred where the receiver gets its processor late.
  std::optional<std::uint64_t> arrival_rate;
};

/// How long the receiver waits between two reports while data arrives (docs/formats/ftx.md).
inline Duration report_interval(Duration round_trip) {
  return std::clamp<Duration>(round_trip / 4, std::chrono::microseconds(200), std::chrono::milliseconds(20));
}

class CongestionControl {
 public:
  virtual ~CongestionControl() = default;
  /// As users name it.
  [[nodiscard]] virtual std::string_view name() const = 0;
  /// Datagrams are of this size from now on: the path MTU was found, or has changed.
  virtual void on_datagram_bytes(std::size_t) {}
  /// The handshake measured a round trip, before anything else is sent.
  virtual void on_first_round_trip(Duration) {}
  virtual void on_sent(TimePoint now, std::size_t bytes) = 0;
  virtual void on_report(TimePoint now, const Delivery& delivery) = 0;
  /// Bytes that may be in flight.
  [[nodiscard]] virtual std::uint64_t window_bytes() const = 0;
  /// When the pacer allows the next datagram.
  [[nodiscard]] virtual TimePoint next_send() const = 0;
  /// True when the program sent less than the pacer allowed: it got no processor in time, or had nothing to send. The
  /// delivery rate then measures the program and not the network.
  [[nodiscard]] virtual bool behind(TimePoint now) const = 0;
  /// Why the sender must give up, if it must; else null.
  [[nodiscard]] virtual const char* tripped() const { return nullptr; }
};

}  // namespace sluice::ftx
