// SPDX-License-Identifier: Apache-2.0
#pragma once

// SentAdus: the sender's record of which ADU each sequence number carried, until a report acknowledges the sequence or
// declares it lost.
//
// A lost sequence puts its ADU into the retransmit queue, once. The retransmission gets a sequence of its own, so only
// a report that declares that new sequence lost causes another one. An old, repeated or duplicated report therefore
// never causes a second retransmission.
//
// At the end of the data an ADU may be sent again before anybody asks for it (copy). It is then lost when all of its
// sequences are.
//
// It counts in two units: payload bytes, and datagram bytes, which are payload, header and tag. Congestion control uses
// the latter, because tiny ADUs load the network mostly with headers. Both are what travels: of a compressed ADU that
// is less than the length in its name.
//
// Invariants: oldest() is unresolved or equals next().
// Not thread-safe. Amortised O(1) a sequence; no allocation in steady state. 48 bytes an open sequence, 8 an ADU that
// was copied.

#include <cstdint>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "apps/ftx/protocol/message.h"
#include "apps/ftx/recovery/retransmit_queue.h"
#include "apps/ftx/recovery/ring.h"
#include "base/time.h"

namespace sluice::ftx {

class SentAdus {
 public:
  /// `overhead_bytes` is what a datagram has beside its payload: the header, and the tag where it is sealed.
  explicit SentAdus(std::size_t overhead_bytes = data_header_bytes) : overhead_bytes_(overhead_bytes) {}

  /// Calls `arrived` for each ADU that a report says has arrived; perhaps several times for one.
  void follow(std::function<void(const AduName&)> arrived) { arrived_ = std::move(arrived); }

  /// The sequence of the next datagram.
  [[nodiscard]] std::uint64_t next() const { return oldest_ + entries_.size(); }
  /// The oldest sequence that no report has resolved.
  [[nodiscard]] std::uint64_t oldest() const { return oldest_; }
  /// Sequences from oldest() to next(): what the receiver must remember.
  [[nodiscard]] std::uint64_t span() const { return entries_.size(); }

  /// Payload bytes sent after the highest sequence that is known to have arrived: what the network may still hold.
  /// (Forward acknowledgement: Mathis and Mahdavi, "Forward Acknowledgement", SIGCOMM 1996.)
  /// What was sent before has left the network, arrived or lost, but for what is being overtaken; reports say which of
  /// the two only half a round trip later.
  [[nodiscard]] std::uint64_t in_flight_bytes() const { return sent_bytes_ - passed_bytes_; }
  [[nodiscard]] std::uint64_t sent_bytes() const { return sent_bytes_; }
  [[nodiscard]] std::uint64_t passed_bytes() const { return passed_bytes_; }
  /// When the highest sequence that is known to have arrived was sent.
  [[nodiscard]] TimePoint passed_sent_at() const { return passed_sent_at_; }

  // The same with headers, and what reports have resolved. Totals since the start.
  [[nodiscard]] std::uint64_t in_flight_datagram_bytes() const {
    return in_flight_bytes() + (next() - 1 - passed_) * overhead_bytes_;
  }
  [[nodiscard]] std::uint64_t passed_datagram_bytes() const { return passed_bytes_ + passed_ * overhead_bytes_; }
  [[nodiscard]] std::uint64_t lost_datagram_bytes() const { return lost_datagram_bytes_; }
  [[nodiscard]] std::uint64_t resolved_datagram_bytes() const { return resolved_datagram_bytes_; }
  /// Runs of lost sequences: how often the path began to lose.
  [[nodiscard]] std::uint64_t lost_runs() const { return lost_runs_; }

  // What black hole detection wants to know (apps/ftx/recovery/path_mtu.h).
  /// Payloads longer than this are large from now on; what was sent before counts no more.
  void set_large_above(std::uint64_t bytes) {
    large_above_ = bytes;
    large_from_ = next();
    large_lost_ = 0;
  }
  /// Large payloads lost since the last that arrived.
  [[nodiscard]] std::uint64_t large_lost() const { return large_lost_; }
  /// The newest datagram that is known to have arrived is not large.
  [[nodiscard]] bool small_arrived() const { return small_arrived_; }

  /// Records the datagram with sequence next(). `application_limited`: the sender has sent less than it was allowed to
  /// since the last datagram. `payload_bytes`: what travels of the ADU, if that is not its length.
  void on_sent(const AduName& adu, TimePoint now = {}, bool application_limited = false,
               std::optional<std::uint32_t> payload_bytes = {});
  /// Records another datagram with the ADU of `sequence`. REQUIRES: unproven(sequence).
  void on_copy_sent(std::uint64_t sequence, TimePoint now = {}, bool application_limited = false,
                    std::optional<std::uint32_t> payload_bytes = {});
  /// The ADU that `sequence` carries; null when it is known to have arrived, or that sequence is known to be lost.
  [[nodiscard]] std::optional<AduName> unproven(std::uint64_t sequence) const;
  /// A probe has a sequence but no ADU.
  void on_probe_sent(TimePoint now = {}) { on_sent(AduName{}, now, true); }

  /// What congestion control wants to know of one datagram.
  struct Datagram {
    std::uint64_t sequence = 0;
    TimePoint sent_at{};
    std::uint64_t sent_datagram_bytes = 0;  // of all datagrams up to and including this one
    bool application_limited = false;
  };

  /// What a report resolved.
  struct Resolved {
    std::uint64_t arrived = 0;
    std::uint64_t arrived_bytes = 0;      // payload; a probe has none
    std::uint64_t lost = 0;               // ADUs that went into the retransmit queue
    std::optional<Datagram> newest;       // the highest that arrived; null if a report resolved it before
    std::optional<Datagram> newest_lost;  // the last of those that this report declared lost
  };
  /// Null: the report names sequences that were never sent.
  [[nodiscard]] std::optional<Resolved> on_report(const Report& report);

  [[nodiscard]] RetransmitQueue& retransmit_queue() { return retransmit_queue_; }
  [[nodiscard]] const RetransmitQueue& retransmit_queue() const { return retransmit_queue_; }

 private:
  struct Entry {
    AduName adu;
    std::uint64_t sent_bytes = 0;  // of all datagrams up to and including this one
    TimePoint sent_at{};
    std::uint32_t payload_bytes = 0;
    std::uint32_t copies = 0;  // index in copies_, from 1; 0: the ADU has no other sequence
    bool resolved = false;
    bool application_limited = false;
  };
  /// An ADU with several sequences.
  struct Copies {
    std::uint32_t open = 0;  // sequences that no report has resolved
    bool arrived = false;
  };

  [[nodiscard]] Datagram datagram(std::uint64_t sequence) const;
  void resolve(std::uint64_t first, std::uint64_t last, bool arrived, Resolved& resolved);
  [[nodiscard]] bool all_lost(const Entry& entry) const;
  void forget_resolved();

  const std::size_t overhead_bytes_;
  std::function<void(const AduName&)> arrived_{};
  Ring<Entry> entries_;
  std::vector<Copies> copies_;
  RetransmitQueue retransmit_queue_;
  std::uint64_t oldest_ = 1;
  std::uint64_t sent_bytes_ = 0;
  std::uint64_t passed_bytes_ = 0;
  std::uint64_t passed_ = 0;  // the highest sequence that is known to have arrived
  TimePoint passed_sent_at_{};
  std::uint64_t lost_datagram_bytes_ = 0;
  std::uint64_t resolved_datagram_bytes_ = 0;
  std::uint64_t lost_runs_ = 0;
  std::uint64_t last_lost_ = 0;
  std::uint64_t large_above_ = UINT64_MAX;
  std::uint64_t large_from_ = 0;  // sequence
  std::uint64_t large_lost_ = 0;
  bool small_arrived_ = false;
  std::uint64_t limited_to_ = 0;  // the last datagram before the latest gap; 0: what is sent now follows no gap
};

}  // namespace sluice::ftx
