// SPDX-License-Identifier: Apache-2.0
#pragma once

// The IPv6 header and its extension headers (RFC 8200). Ipv6View and Ipv6Header are used as their IPv4 namesakes;
// walk_extensions passes over hop-by-hop and destination options and stops at a fragment header or at the protocol.
//
// A view borrows the bytes it was made from. Everything else is a plain value.

#include <cstddef>
#include <cstdint>
#include <expected>
#include <optional>

#include "base/bytes.h"
#include "stack/wire/address.h"
#include "stack/wire/protocol.h"

namespace sluice::wire {

enum class Ipv6Malformed : std::uint8_t {
  short_header,       ///< fewer bytes than the header has
  bad_version,        ///< not 6
  bad_payload_length  ///< more than the packet has
};

class Ipv6View {
 public:
  static constexpr std::size_t header_size = 40;
  // Where its fields are (RFC 8200 section 3).
  static constexpr std::size_t payload_length_offset = 4;
  static constexpr std::size_t next_header_offset = 6;
  static constexpr std::size_t hop_limit_offset = 7;
  static constexpr std::size_t source_offset = 8;
  static constexpr std::size_t destination_offset = 24;

  /// Checks the header at the start of `bytes`. `packet_size` is the size of the whole packet, where it continues in
  /// other blocks; bytes after the payload are link padding and not an error.
  [[nodiscard]] static std::expected<Ipv6View, Ipv6Malformed> check(ConstBytes bytes, std::size_t packet_size);
  [[nodiscard]] static std::expected<Ipv6View, Ipv6Malformed> check(ConstBytes bytes) {
    return check(bytes, bytes.size());
  }
  /// For the header quoted in an ICMPv6 error: the payload length is not checked.
  [[nodiscard]] static std::expected<Ipv6View, Ipv6Malformed> check_quoted(ConstBytes bytes);

  [[nodiscard]] std::uint8_t traffic_class() const { return static_cast<std::uint8_t>(first_word() >> 20); }
  [[nodiscard]] std::uint32_t flow_label() const { return first_word() & 0xfffffU; }
  [[nodiscard]] std::uint16_t payload_length() const {
    return load_big_endian<std::uint16_t>(at_ + payload_length_offset);
  }
  [[nodiscard]] std::uint8_t next_header() const { return static_cast<std::uint8_t>(at_[next_header_offset]); }
  [[nodiscard]] std::uint8_t hop_limit() const { return static_cast<std::uint8_t>(at_[hop_limit_offset]); }
  [[nodiscard]] Ipv6Address source() const { return Ipv6Address::load(at_ + source_offset); }
  [[nodiscard]] Ipv6Address destination() const { return Ipv6Address::load(at_ + destination_offset); }

 private:
  explicit Ipv6View(const std::byte* at) : at_(at) {}
  [[nodiscard]] std::uint32_t first_word() const { return load_big_endian<std::uint32_t>(at_); }

  const std::byte* at_;
};

struct Ipv6Header {
  static constexpr std::size_t size = Ipv6View::header_size;
  static constexpr std::size_t payload_length_max = 65535;

  std::uint8_t traffic_class = 0;
  std::uint32_t flow_label = 0;  ///< 20 bits
  std::uint16_t payload_length = 0;
  std::uint8_t next_header = protocol_ipv6_no_next;
  std::uint8_t hop_limit = 64;
  Ipv6Address source;
  Ipv6Address destination;

  [[nodiscard]] static Ipv6Header of(const Ipv6View& view);
  /// Ipv6View::check, then of().
  [[nodiscard]] static std::expected<Ipv6Header, Ipv6Malformed> parse(ConstBytes packet);
  /// Writes 40 bytes. REQUIRES: out holds them; flow_label < 2^20.
  void emit(Bytes out) const;

  friend constexpr auto operator<=>(const Ipv6Header&, const Ipv6Header&) = default;
};

/// RFC 8200 section 4.5.
struct Ipv6FragmentHeader {
  static constexpr std::size_t size = 8;

  std::uint8_t next_header = protocol_ipv6_no_next;
  std::uint16_t offset = 0;  ///< in bytes, a multiple of 8
  bool more_fragments = false;
  std::uint32_t identification = 0;

  /// Reserved bits are "ignored on reception". Nothing if there are fewer than 8 bytes.
  [[nodiscard]] static std::optional<Ipv6FragmentHeader> parse(ConstBytes bytes);
  /// Writes 8 bytes. REQUIRES: out holds them; offset is a multiple of 8.
  void emit(Bytes out) const;

  friend constexpr auto operator<=>(const Ipv6FragmentHeader&, const Ipv6FragmentHeader&) = default;
};

/// Why a chain of extension headers is not followed to its end, and so which answer is due (RFC 8200 section 4).
enum class Ipv6ExtensionProblem : std::uint8_t {
  short_header,           ///< a header or option reaches beyond the payload: drop
  too_many,               ///< more than extension_headers_max: drop
  misplaced_hop_by_hop,   ///< not right after the IPv6 header: Parameter Problem code 1, unrecognised next header
  routing,                ///< a routing header with segments left, which we never follow: Parameter Problem code 0
  option_discard,         ///< an unknown option of kind 01: "discard the packet"
  option_report,          ///< of kind 10: discard, and Parameter Problem code 2 "regardless of whether or not the
                          ///< packet's Destination Address was a multicast address"
  option_report_unicast,  ///< of kind 11: discard, and the same "only if the packet's Destination Address
                          ///< was not a multicast address"
  bad_fragment            ///< a fragment that is not the last and not a multiple of 8 bytes long, or that ends beyond
                          ///< 65,535: Parameter Problem code 0
};

struct Ipv6ExtensionError {
  Ipv6ExtensionProblem problem;
  std::uint32_t pointer;  ///< offset of the offending byte from the start of the IPv6 header, for Parameter Problem

  friend constexpr auto operator<=>(const Ipv6ExtensionError&, const Ipv6ExtensionError&) = default;
};

/// How far a chain was followed.
struct Ipv6Extensions {
  std::uint8_t protocol = protocol_ipv6_no_next;  ///< what follows at `offset` (after `fragment`, if there is one)
  std::size_t offset = 0;                         ///< from the start of the payload; behind the fragment header
  std::uint32_t protocol_field =
      Ipv6View::next_header_offset;            ///< where `protocol` was read, from the start of the IPv6 header
  std::optional<Ipv6FragmentHeader> fragment;  ///< the walk stops here: reassemble, then walk what came of it

  friend constexpr auto operator<=>(const Ipv6Extensions&, const Ipv6Extensions&) = default;
};

/// Extension headers in one packet, at most; more is an attack, not a need.
inline constexpr int extension_headers_max = 8;

/// Follows the headers from `next_header` on. `payload` is what lies behind the IPv6 header, as far as it is in one
/// block; `payload_size` all of it. A walk of a reassembled packet's payload has `reassembled` set: hop-by-hop options
/// can then no longer be in place.
[[nodiscard]] std::expected<Ipv6Extensions, Ipv6ExtensionError> walk_extensions(std::uint8_t next_header,
                                                                                ConstBytes payload,
                                                                                std::size_t payload_size,
                                                                                bool reassembled = false);

}  // namespace sluice::wire
