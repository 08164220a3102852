// SPDX-License-Identifier: Apache-2.0
#pragma once

// ICMP and ICMPv6 apart from the packets that carry them: what an error means to the user, how many errors may be sent.
// Plain functions and values; not thread-safe.

#include <algorithm>
#include <cstdint>

#include "base/bytes.h"
#include "base/time.h"
#include "stack/wire/address.h"
#include "stack/wire/icmp4.h"
#include "stack/wire/icmp6.h"

namespace sluice::ip {

/// The errno of an error message (the table in stack/wire/network.h), or 0 where the user is not to be bothered.
/// REQUIRES: is_error(message).
[[nodiscard]] int errno_of(const wire::Icmp4Message& message);
[[nodiscard]] int errno_of(const wire::Icmp6Message& message);

/// Whether an ICMP error may answer the ICMP message that starts with `type`. RFC 1122 section 3.2.2: "An ICMP error
/// message MUST NOT be sent as the result of receiving [...] an ICMP error message"; RFC 4443 section 2.4 (e) likewise.
/// Types of which we do not know what they are count as errors.
[[nodiscard]] bool may_be_answered_by_error(wire::Family family, std::byte type);

/// A token bucket. RFC 4443 section 2.4 (f): "an IPv6 node MUST limit the rate of ICMPv6 error messages it originates";
/// RFC 1812 section 4.3.2.8 recommends it for IPv4.
class ErrorBudget {
 public:
  static constexpr int burst = 20;
  static constexpr Duration interval = std::chrono::milliseconds(10);  // a token each

  /// Takes a token if there is one.
  bool take(TimePoint now) {
    // `full_at_` is when the bucket would be full again; it is as many intervals ahead as tokens are missing.
    full_at_ = std::max(full_at_, now);
    if (full_at_ - now > (burst - 1) * interval) {
      return false;
    }
    full_at_ += interval;
    return true;
  }

 private:
  TimePoint full_at_{};
};

}  // namespace sluice::ip
