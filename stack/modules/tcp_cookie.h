// SPDX-License-Identifier: Apache-2.0
#pragma once

// SYN cookies (RFC 4987 section 3.6): what a listener answers to a SYN that it has no place for. Everything that it
// must know of the caller later lies in the answer's sequence number and timestamp, and comes back with the caller's
// acknowledgment, so that SYNs in the names of others cost it no memory.
//
//     sequence number - the caller's = | t mod 32 | MSS's index | sum |    t: of 64 seconds
//                                          5 bits      3 bits     24 bits
//     timestamp = our clock's, without its last 6 bits | selective acknowledgment | the caller's window scale, 15: none
//     |
//                                                              1 bit                          4 bits
//
// A caller without timestamps is remembered without window scale and selective acknowledgment, which therefore are not
// offered to him. The sum (SipHash, of what nobody else knows) covers both ends, the caller's first sequence number, t
// and all that is remembered.
//
// Threat: acknowledgments in the names of others, of cookies that nobody was sent. One in 2^23 is believed, and sets up
// a connection of nobody, as a caller who goes away does; a cookie is good for two minutes at most.
//
// Plain values; thread-safe as such.

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>

#include "base/time.h"
#include "stack/modules/tcp_segment.h"

namespace sluice::tcp {

class Cookies {
 public:
  static constexpr Duration tick = std::chrono::seconds(64);
  /// A cookie is good until this long after it was made, at most.
  static constexpr Duration life_max = 2 * tick;

  Cookies() = default;
  explicit Cookies(const std::array<std::uint64_t, 2>& secret) : secret_(secret) {}

  /// The first sequence number of the answer to `syn`. `own_scale`: the answer's window scale; one that is another when
  /// the acknowledgment comes makes it none.
  [[nodiscard]] std::uint32_t sequence(const Ends& ends, const Segment& syn, unsigned own_scale, TimePoint now) const;
  /// What is answered to `syn`, but for its MSS: without what cannot be remembered. `timestamp`: our clock's.
  [[nodiscard]] static wire::TcpOptions answer(const wire::TcpOptions& syn, unsigned own_scale,
                                               std::uint32_t timestamp);
  /// The SYN of the caller who acknowledges an answer of ours, as far as it is remembered; nothing where
  /// `acknowledgment` is of no cookie, or of one that is too old.
  [[nodiscard]] std::optional<Segment> syn_of(const Ends& ends, const Segment& acknowledgment, unsigned own_scale,
                                              TimePoint now) const;

 private:
  [[nodiscard]] std::uint32_t sum(const Ends& ends, std::uint32_t callers_first, std::uint64_t ticks,
                                  unsigned segment_bytes_index, unsigned remembered, unsigned own_scale) const;

  std::array<std::uint64_t, 2> secret_{};
};

}  // namespace sluice::tcp
