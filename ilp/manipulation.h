// SPDX-License-Identifier: Apache-2.0
#pragma once

// What a module can ask to be done to the bytes of a message, as values. A module names the manipulation to
// `message.transform(...)`; the stack's path decides whether it happens at once or joins the message's plan. Plain
// data: nothing here touches a byte.

#include <cstddef>
#include <cstdint>

namespace sluice::ilp {

/// Reverse the bytes of each `unit` (2, 4 or 8) bytes of the message from rptr on: the XDR conversion of 16-, 32- and
/// 64-bit quantities on a little-endian host (RFC 4506 section 4.1, of an integer: "The most and least significant
/// bytes are 0 and 3, respectively."). Whether this host needs one is the caller's business. REQUIRES: the message's
/// size is a multiple of `unit`.
struct Swap {
  std::size_t unit;
};

/// On the way out: store the internet checksum of the message from rptr on. RFC 1071 section 1: "To generate a
/// checksum, the checksum field itself is cleared, the 16-bit 1's complement sum is computed over the octets
/// concerned, and the 1's complement of this sum is placed in the checksum field."
/// Ownership: `field` must stay valid until the manipulation has run. REQUIRES: the field holds zero before that when
/// it is part of the message.
struct Sum {
  /// The sum of what the checksum covers beyond the message (a pseudo header), as `ilp::sum` gives it; 0 if none.
  std::uint16_t initial;
  /// Where the two bytes of the complement go, as the sum lies in memory (no conversion to network order is due).
  std::byte* field;
  /// RFC 768: "If the computed checksum is zero, it is transmitted as all ones (the equivalent in one's complement
  /// arithmetic)."
  bool zero_is_sent_as_ones;
  /// So many bytes in front are left out of the sum, since `initial` has them: a header that has just been made, whose
  /// checksum field lies there. Even, and at most as many as there are.
  std::size_t from = 0;
};

/// On the way in: the message from rptr on must sum with `initial` to 0xffff, otherwise it is bad. RFC 1071 section 1:
/// "To check a checksum, the 1's complement sum is computed over the same set of octets, including the checksum field.
/// If the result is all 1 bits (-0 in 1's complement arithmetic), the check succeeds."
struct Check {
  /// As in `Sum`.
  std::uint16_t initial;
};

}  // namespace sluice::ilp
