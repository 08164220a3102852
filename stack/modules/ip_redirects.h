// SPDX-License-Identifier: Apache-2.0
#pragma once

// Which next hops routers have told us are better for single destinations: ICMP redirects (RFC 1122 sections 3.2.2.2
// and 3.3.1.2, RFC 4861 section 8). Ip checks them; this is the table. RFC 1122 section 3.3.1.2: "a Network Redirect
// message SHOULD be treated identically to a Host Redirect message; i.e., the cache entry for the destination host
// (only) would be updated".
//
// Bounded: entries_max, the one that is forgotten first makes room; each is forgotten after ten minutes, or when its
// next hop does not answer, so that what a router has told once, or another host in its name, does not last.
//
// Not thread-safe.

#include <chrono>
#include <cstddef>
#include <optional>
#include <unordered_map>

#include "base/time.h"
#include "stack/wire/address.h"

namespace sluice::ip {

class Redirects {
 public:
  static constexpr std::size_t entries_max = 64;
  static constexpr Duration lifetime = std::chrono::minutes(10);

  struct Entry {
    wire::IpAddress next_hop;
    TimePoint expires = never;
  };

  void note(const wire::IpAddress& destination, const wire::IpAddress& next_hop, TimePoint now);
  [[nodiscard]] std::optional<Entry> lookup(const wire::IpAddress& destination, TimePoint now) const;
  /// `next_hop` does not answer.
  void forget(const wire::IpAddress& next_hop);
  [[nodiscard]] std::size_t size() const { return entries_.size(); }

 private:
  std::unordered_map<wire::IpAddress, Entry> entries_;
};

}  // namespace sluice::ip
