// SPDX-License-Identifier: Apache-2.0
#pragma once

// PathMtu: the largest datagram that the path carries, found as RFC 8899 (DPLPMTUD) says. All sizes are bytes of a
// whole datagram of ours, that is of a UDP payload; what IP and UDP put in front is `header_bytes`.
//
//   base             the PLPMTU is BASE_PLPMTU, or MIN_PLPMTU after an error; a probe asks whether more is possible
//   searching        probes, one a round trip, close in on the largest size that arrives
//   search_complete  nothing is probed until the raise timer ends; data confirms the size, since reports acknowledge it
//   error            not even BASE_PLPMTU arrives: data goes in datagrams of MIN_PLPMTU, and BASE_PLPMTU is probed
//
// Only reports decide: one that acknowledges a probe raises the size, one that declares it missing counts against the
// size probed. The third such in a row gives that size up. A probe of which no report says anything counts as lost
// after `probe_timer`. A report is sealed where the session is, so nobody else can raise the size.
//
// Otherwise than RFC 8899 section 5.2 ("On entry, the PROBED_SIZE is set to the BASE_PLPMTU size") the first probe of
// the base state has the likely size, that of a frame of 1500 bytes: where it arrives, so does the base, and the usual
// path costs one round trip, which the handshake takes anyway. If it is lost, the base is probed.
//
// Black hole: large datagrams are lost in a row while a smaller one that was sent later arrives. Section 4.3: "A PL can
// utilize an event that indicates the network path no longer sustains the sender's PLPMTU size. This could use a
// mechanism implemented within the PL to detect excessive loss of data sent with a specific packet size". Back to base.
//
// Threat: ICMP messages are easily forged. Section 4.6.2: "PTB messages that have been validated MAY be utilized by the
// DPLPMTUD algorithm but MUST NOT be used directly to set the PLPMTU." on_too_big() ends a probe early or makes black
// hole detection quicker; it never changes the size by itself. So a forger costs some payload a datagram at worst.
//
// Reads no clock. Not thread-safe. Every call is O(1), apart from the ranges of a report that mention a probe.

#include <cstddef>
#include <cstdint>
#include <optional>

#include "apps/ftx/protocol/message.h"
#include "base/time.h"

namespace sluice::ftx {

struct PathMtuOptions {
  /// What IP and UDP add: 28 with IPv4, 48 with IPv6.
  std::size_t header_bytes = 28;
  /// MAX_PLPMTU. REQUIRES: at least base_bytes.
  std::size_t max_bytes = 1472;
  /// MIN_PLPMTU: section 5.1.2 says of IPv4 that "receivers are required to be able to reassemble fragmented datagrams
  /// at least up to 576 bytes", and smaller paths are not known. REQUIRES: at most base_bytes.
  std::size_t min_bytes = 548;
};

class PathMtu {
 public:
  enum class State : std::uint8_t { base, searching, search_complete, error };

  /// "a default BASE_PLPMTU of 1200 bytes is RECOMMENDED" (5.1.2), and the size of our largest control datagram.
  static constexpr std::size_t base_bytes = control_bytes_max;
  /// "The default value of MAX_PROBES is 3." (5.1.2)
  static constexpr int probes_max = 3;
  /// "This value MUST NOT be smaller than 1 second and SHOULD be larger than 15 seconds." (PROBE_TIMER, 5.1.1)
  static constexpr Duration probe_timer = std::chrono::seconds(16);
  /// "This timer has a period of 600 seconds" (PMTU_RAISE_TIMER, 5.1.1)
  static constexpr Duration raise_timer = std::chrono::seconds(600);
  /// In the error state, and while nothing is known of the round trip.
  static constexpr Duration interval_max = std::chrono::seconds(1);
  /// Large datagrams lost in a row that make a black hole; RFC 8899 names no number.
  static constexpr std::uint64_t black_hole_losses = 4;
  /// Of the likely size.
  static constexpr std::size_t ethernet_mtu = 1500;

  /// REQUIRES: as PathMtuOptions says.
  PathMtu(TimePoint now, PathMtuOptions options);

  [[nodiscard]] State state() const { return state_; }
  /// The PLPMTU. Section 3: "A PL MUST NOT send a datagram (other than a probe packet) with a size at the PL that is
  /// larger than the current PLPMTU."
  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  /// Datagrams above this are large: when those are lost and smaller ones arrive, it is their size.
  [[nodiscard]] std::size_t small_bytes() const { return bytes_ > base_bytes ? base_bytes : options_.min_bytes; }

  /// The peer has answered a datagram of base_bytes: "A BASE_PLPMTU probe acked".
  void on_base_confirmed(TimePoint now);

  /// When the next probe is due; `never` while one is under way.
  [[nodiscard]] TimePoint probe_at() const { return awaited_ ? never : probe_at_; }
  /// When to call on_timer().
  [[nodiscard]] TimePoint next_deadline() const { return awaited_ ? awaited_->until : never; }
  void on_timer(TimePoint now);
  /// The size of the probe that is due. REQUIRES: now >= probe_at().
  [[nodiscard]] std::size_t next_probe(TimePoint now);
  /// Section 8: "the interval between individual probe packets MUST be at least one RTT".
  void on_probe_sent(TimePoint now, std::uint64_t sequence, Duration round_trip);

  void on_report(TimePoint now, const Report& report);
  /// `large_lost`: large datagrams lost since the last that arrived. `small_arrived`: the newest datagram that is known
  /// to have arrived is a small one.
  void on_losses(TimePoint now, std::uint64_t large_lost, bool small_arrived);
  /// The interface refused a datagram, or an ICMP message says that one was too big.
  void on_too_big(TimePoint now);

 private:
  struct Awaited {
    std::uint64_t sequence = 0;
    TimePoint until{};
  };

  void enter_base(TimePoint now);
  void enter_searching(TimePoint now);
  void complete(TimePoint now);
  void arrived(TimePoint now);
  void lost(TimePoint now);
  void give_up(TimePoint now);
  [[nodiscard]] std::size_t likely_bytes() const;
  [[nodiscard]] std::size_t next_size() const;

  PathMtuOptions options_;
  State state_ = State::base;
  std::size_t bytes_;
  std::size_t probed_ = 0;  // PROBED_SIZE
  int probe_count_ = 0;     // PROBE_COUNT
  std::size_t failed_ = 0;  // the smallest size that was given up, or more than the largest there may be
  bool suspected_ = false;  // something said "too big" since data last arrived
  TimePoint probe_at_{};
  Duration interval_ = interval_max;  // between probes
  std::optional<Awaited> awaited_;
};

}  // namespace sluice::ftx
