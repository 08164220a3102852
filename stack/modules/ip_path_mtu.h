// SPDX-License-Identifier: Apache-2.0
#pragma once

// What routers have told about the MTU of paths (RFC 1191, RFC 8201): a bounded table of destinations whose path takes
// less than the link does. Estimates only go down; they are forgotten after ten minutes, so that the path is tried
// anew.
//
// Not thread-safe. Memory: entries_max entries; the one that would be forgotten first makes room.

#include <cstddef>
#include <cstdint>
#include <unordered_map>

#include "base/time.h"
#include "stack/wire/address.h"

namespace sluice::ip {

class PathMtu {
 public:
  static constexpr std::size_t entries_max = 256;
  /// RFC 8201 section 5.3: "The recommended setting for this timer is twice its minimum value (10 minutes)."
  static constexpr Duration lifetime = std::chrono::minutes(10);
  /// RFC 1191 section 3: "A host MUST never reduce its estimate of the Path MTU below 68 octets." We stay further up,
  /// so that a forged report costs little: real links have had at least this for decades.
  static constexpr std::uint32_t floor_v4 = 552;

  struct Estimate {
    std::uint32_t mtu = 0;      // bytes
    TimePoint expires = never;  // when to ask again
  };

  /// What the path to `destination` takes, as far as known; `link_mtu` at most.
  [[nodiscard]] Estimate lookup(const wire::IpAddress& destination, std::uint32_t link_mtu, TimePoint now) const;

  enum class Report : std::uint8_t {
    implausible,  ///< less than any link has, no less than the packet it is about, or about one larger than our link
    known,        ///< no less than the estimate: about a packet that left before
    lowered,      ///< the estimate is lower now
  };
  /// A router reported that a packet of `packet_size` bytes was too big for `reported` (0: an old router that does not
  /// tell).
  Report report(const wire::IpAddress& destination, std::uint32_t reported, std::uint32_t packet_size,
                std::uint32_t link_mtu, TimePoint now);

  [[nodiscard]] std::size_t size() const { return entries_.size(); }

 private:
  void make_room();

  std::unordered_map<wire::IpAddress, Estimate> entries_;
};

}  // namespace sluice::ip
