// SPDX-License-Identifier: Apache-2.0
#pragma once

// What a connection-mode provider knows of a stream's connection: the argument and the answer of an ioctl (I_STR),
// which `tcp` answers, and `kernel_tcp` of its socket's TCP_INFO. ENOTCONN: there is no connection.
//
// Plain values of one host; thread-safe as such.

#include <cstdint>
#include <type_traits>

namespace sluice::wire {

inline constexpr std::int32_t SLIOCCONNECTION = ('S' << 8) | 202;

struct ConnectionInfo {
  std::uint32_t state = 0;               ///< as tcpi_state: TCP_ESTABLISHED is 1
  std::uint32_t segment_bytes = 0;       ///< what a segment carries at most, as it is sent
  std::uint32_t peer_segment_bytes = 0;  ///< and as the peer may send: what the SYN said
  std::uint32_t round_trip_us = 0;       ///< smoothed; 0: not measured
  std::uint32_t round_trip_variation_us = 0;
  std::uint32_t round_trip_least_us = 0;
  std::uint32_t timeout_us = 0;  ///< RTO
  std::uint32_t options = 0;     ///< as tcpi_options: 1 timestamps, 2 SACK, 4 window scale
  std::uint32_t send_scale = 0;
  std::uint32_t receive_scale = 0;
  std::uint64_t congestion_window = 0;  ///< bytes
  std::uint64_t peer_window = 0;        ///< bytes
  std::uint64_t unacknowledged = 0;     ///< bytes that were sent
  std::uint64_t unsent = 0;             ///< bytes that were not
  std::uint64_t received_waiting = 0;   ///< bytes that came in order and were not taken
  std::uint64_t segments_sent = 0;
  std::uint64_t segments_again = 0;  ///< of these, such as were sent before
  std::uint64_t timeouts = 0;
};
static_assert(std::is_trivially_copyable_v<ConnectionInfo>);

}  // namespace sluice::wire
