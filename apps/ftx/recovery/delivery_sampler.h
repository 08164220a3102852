// SPDX-License-Identifier: Apache-2.0
#pragma once

// DeliverySampler: makes a Delivery of each report, after draft-ietf-ccwg-bbr-06 section 4.1 ("Delivery Rate Samples").
//
// The draft stores per packet what had been delivered when it was sent. Here reports come a few times a round trip and
// nothing else changes those numbers, so all datagrams that are sent between two reports share one snapshot.
//
// How a sample is made from a cumulative report:
//   - The draft's "P", the newest datagram delivered, is the report's `highest`.
//   - C.delivered comes from the report's `received_bytes`, at once: reports tell which sequences arrived only half a
//     round trip later. Headers are added in proportion.
//   - The ACK interval is measured on the receiver's clock, between the arrivals of two highest sequences: "A
//     sender MAY use receive timestamps to refine its "ack_rate" calculation by substituting receiver-side timing
//     information for ACK arrival times." (section 4.1.3.3). So neither the time between reports nor the way back blurs
//     it.
//   - Losses come late. The loss rate of a datagram's time is what was lost of what was resolved since it was sent.
//   - Delivery::arrival_rate is measured from report to report. What comes first, and after a pause, began to arrive a
//     report_interval() before its first report: the receiver waits that long. If it reports sooner, the rate is too
//     low; if later, it is at most what was sent.
//
// Threat: a receiver that lies to be sent more. It cannot claim more bytes than were sent up to the sequence it names,
// nor a shorter interval than that between our own sending times; what it can do is to conceal loss.
//
// Reads no clock. Not thread-safe. At most one snapshot an open sequence.

#include <cstdint>
#include <optional>

#include "apps/ftx/recovery/congestion.h"
#include "apps/ftx/recovery/ring.h"
#include "apps/ftx/recovery/sent_adus.h"

namespace sluice::ftx {

class DeliverySampler {
 public:
  /// Before `sent` records a datagram.
  void on_sent(TimePoint now, const SentAdus& sent);
  /// After `sent` took the report. Leaves round_trip, smoothed_round_trip and window_limited to the caller.
  [[nodiscard]] Delivery on_report(TimePoint now, const Report& report, const SentAdus& sent,
                                   const SentAdus::Resolved& resolved);

 private:
  struct Snapshot {
    std::uint64_t first_sequence = 0;  // holds for this sequence and those up to the next snapshot's
    std::uint64_t delivered_bytes = 0;
    std::uint64_t passed_bytes = 0;
    std::uint64_t resolved_bytes = 0;
    std::uint64_t lost_bytes = 0;
    TimePoint first_sent_at{};     // when the newest datagram that had arrived was sent
    TimePoint delivered_at{};      // our clock
    std::uint64_t arrived_ns = 0;  // the receiver's clock when that datagram arrived; 0: not known
  };

  /// Where the span of the next arrival rate begins: a datagram that had arrived, or, with the clock at 0, the first
  /// one after nothing to speak of was in flight.
  struct Since {
    TimePoint sent_at{};
    std::uint64_t arrived_ns = 0;  // the receiver's clock
    std::uint64_t delivered_bytes = 0;
  };

  [[nodiscard]] const Snapshot& snapshot_of(std::uint64_t sequence) const;
  [[nodiscard]] Delivery::AtSend at_send(const SentAdus::Datagram& datagram) const;
  void sample(TimePoint now, const Report& report, const SentAdus::Datagram& newest, Delivery& delivery);
  [[nodiscard]] std::optional<std::uint64_t> arrival_rate(const SentAdus::Datagram& newest, Duration held);
  [[nodiscard]] std::optional<std::uint64_t> first_arrival_rate(const SentAdus::Datagram& newest);

  Ring<Snapshot> snapshots_;
  Snapshot current_;
  Since since_;
  TimePoint first_sent_at_{};
  bool first_sampled_ = false;
  bool paused_before_ = false;  // since the first report
  TimePoint sent_at_{};         // the last datagram
  Duration round_trip_{};       // of the newest
  bool changed_ = true;         // since the last snapshot
  std::uint64_t newest_ = 0;
  std::uint64_t lost_runs_ = 0;
};

}  // namespace sluice::ftx
