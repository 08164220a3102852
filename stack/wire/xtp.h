// SPDX-License-Identifier: Apache-2.0
#pragma once

// Packets of the Xpress Transport Protocol, version 4.0 (docs/formats/xtp.md): a header of 32 bytes, and behind it the
// segment that its type asks for. Numbers are big-endian.
//
//     | type  | behind the header                                                                     |
//     |-------|---------------------------------------------------------------------------------------|
//     | DATA  | data                                                                                  |
//     | CNTL  | rseq, alloc, echo                                                                     |
//     | ECNTL | the same, then a count of spans, and the spans                                        |
//     | TCNTL | the same, then a reserved word, a key for the peer to use, and a traffic specification |
//     | FIRST | an address segment, and a traffic specification                                       |
//     | DIAG  | a code, a value, and text                                                             |
//
// Threat: a packet comes from anybody who can reach the port. parse() checks every length, count, span and number
// against the others and the size of the packet, so that what it returns names nothing outside of it, and sums of its
// numbers do not overflow. Whether it fits an association is the module's to check.
//
// Plain values; thread-safe as such.

#include <array>
#include <cstddef>
#include <cstdint>
#include <expected>
#include <span>
#include <string_view>

#include "base/bytes.h"
#include "stack/wire/address.h"

namespace sluice::wire {

enum class XtpMalformed : std::uint8_t {
  short_header,  ///< under 32 bytes
  bad_version,   ///< not version 4
  bad_type,      ///< no type of packet that is known here
  bad_options,   ///< option bits that change what follows, and are not known here
  bad_length,    ///< dlen is not what follows the header
  bad_checksum,  ///< the bytes have changed
  bad_key,       ///< no key
  bad_sequence,  ///< numbers beyond 2^62, or an allocation before what has come
  bad_segment,   ///< a segment that is shorter or longer than its type asks for
  bad_spans,     ///< their count lies, or they are empty, out of order, or before what has come
  bad_address,   ///< an address segment of another form
  bad_traffic,   ///< a traffic specification of another form
  count_,
};

struct XtpHeader {
  static constexpr std::size_t size = 32;
  static constexpr std::size_t checksum_offset = 16;
  static constexpr std::uint8_t version = 1;  ///< what the field holds for XTP 4.0
  /// In a key: it is the receiver's. Without it, it is the sender's.
  static constexpr std::uint64_t return_key = std::uint64_t{1} << 63;
  /// Sequence numbers here are below it, so that what is added to them does not wrap around.
  static constexpr std::uint64_t sequence_max = std::uint64_t{1} << 62;

  enum class Type : std::uint8_t { data = 0, cntl = 1, first = 2, ecntl = 3, tcntl = 5, diag = 8 };
  enum Option : std::uint32_t {
    no_check = 0x400000,  ///< the checksum covers the header alone
    edge = 0x200000,
    no_error = 0x100000,  ///< nothing is sent again
    multicast = 0x080000,
    reservation = 0x040000,
    sorted = 0x020000,
    no_flow = 0x010000,         ///< the sender heeds no allocation
    fast_nak = 0x008000,        ///< tell at once that something lacks
    status_now = 0x004000,      ///< SREQ
    status_on_read = 0x002000,  ///< DREQ
    read_closed = 0x001000,     ///< RCLOSE
    write_closed = 0x000800,    ///< WCLOSE
    end_of_message = 0x000400,  ///< EOM
    end = 0x000200,             ///< END
    tagged = 0x000100,          ///< BTAG
  };
  static constexpr std::uint32_t options_unknown = ~std::uint32_t{0x7fff00} | edge | multicast | reservation | tagged;

  std::uint64_t key = 0;
  std::uint32_t options = 0;  ///< Option bits
  Type type = Type::data;
  std::uint32_t length = 0;  ///< dlen: of what follows
  std::uint16_t sort = 0;    ///< a priority, with `sorted`; not looked at here
  std::uint32_t sync = 0;
  std::uint64_t sequence = 0;  ///< of the first byte of data, or of the next that will be sent

  [[nodiscard]] bool has(std::uint32_t option) const { return (options & option) != 0; }
  [[nodiscard]] bool is_control() const { return type == Type::cntl || type == Type::ecntl || type == Type::tcntl; }

  /// The header in front of a packet of `packet_size` bytes, which may continue elsewhere. Its checksum is not looked
  /// at.
  [[nodiscard]] static std::expected<XtpHeader, XtpMalformed> parse(ConstBytes bytes, std::size_t packet_size);
  /// Writes 32 bytes with a checksum of zero. REQUIRES: out holds them.
  void emit(Bytes out) const;

  friend constexpr auto operator<=>(const XtpHeader&, const XtpHeader&) = default;
};

/// What of a packet its checksum covers.
[[nodiscard]] constexpr std::size_t xtp_summed_bytes(bool no_check, std::size_t packet_size) {
  return no_check ? XtpHeader::size : packet_size;
}

/// A traffic specification of format 1. 0: no limit. Rates in bytes a second, bursts in bytes.
struct XtpTraffic {
  static constexpr std::size_t size = 24;
  static constexpr std::uint32_t data_bytes_min = 64;

  std::uint8_t service = 4;      ///< a reliable unicast stream
  std::uint32_t data_bytes = 0;  ///< maxdata: the most data in a packet that its sender takes
  std::uint32_t in_rate = 0;     ///< what its sender takes
  std::uint32_t in_burst = 0;
  std::uint32_t out_rate = 0;  ///< what its sender will send
  std::uint32_t out_burst = 0;

  [[nodiscard]] static std::expected<XtpTraffic, XtpMalformed> parse(ConstBytes bytes);
  void emit(Bytes out) const;
  friend constexpr auto operator<=>(const XtpTraffic&, const XtpTraffic&) = default;
};

/// Bytes [left, right) that have come.
struct XtpSpan {
  std::uint64_t left = 0;
  std::uint64_t right = 0;
  friend constexpr auto operator<=>(const XtpSpan&, const XtpSpan&) = default;
};

/// What CNTL, ECNTL and TCNTL say.
struct XtpControl {
  static constexpr std::size_t size = 20;  ///< of CNTL's
  static constexpr std::size_t spans_max = 64;
  static constexpr std::size_t size_max = size + 4 + spans_max * 16;

  std::uint64_t received = 0;   ///< rseq: everything before it has come
  std::uint64_t allocated = 0;  ///< alloc: where the peer has to stop
  std::uint32_t echo = 0;       ///< sync of the last packet that came
  std::array<XtpSpan, spans_max> spans{};
  std::size_t span_count = 0;
  std::uint64_t exchanged_key = 0;  ///< TCNTL: what the peer is to put in `key`, without the return bit
  XtpTraffic traffic;               ///< TCNTL

  [[nodiscard]] std::span<const XtpSpan> listed() const { return std::span(spans).first(span_count); }

  /// The segment behind a header of that type. REQUIRES: a control packet.
  [[nodiscard]] static std::expected<XtpControl, XtpMalformed> parse(ConstBytes bytes, XtpHeader::Type type);
  [[nodiscard]] std::size_t encoded_size(XtpHeader::Type type) const;
  /// Writes encoded_size() bytes. REQUIRES: a control packet's type, and room for them.
  void emit(Bytes out, XtpHeader::Type type) const;
  friend constexpr bool operator==(const XtpControl&, const XtpControl&) = default;
};

/// What FIRST says: who is called by whom, as far as the network below does not say that, and how they will send.
struct XtpFirst {
  static constexpr std::size_t size_max = 16 + XtpTraffic::size;

  TransportAddress to;  ///< IPv4 only; of others nothing is said
  TransportAddress from;
  XtpTraffic traffic;

  [[nodiscard]] static std::expected<XtpFirst, XtpMalformed> parse(ConstBytes bytes);
  [[nodiscard]] std::size_t encoded_size() const;
  void emit(Bytes out) const;
};

/// What DIAG says; text behind it is not looked at.
struct XtpDiagnosis {
  static constexpr std::size_t size = 8;

  enum class Code : std::uint32_t {
    refused = 1,    ///< "Context Refused" in Wireshark's words, as those below
    abandoned = 2,  ///< "Context Abandoned"
    invalid = 3,    ///< "Invalid Context"
  };
  enum class Value : std::uint32_t { unspecified = 0, no_listener = 1, traffic_refused = 6 };

  Code code = Code::refused;
  Value value = Value::unspecified;

  [[nodiscard]] static std::expected<XtpDiagnosis, XtpMalformed> parse(ConstBytes bytes);
  void emit(Bytes out) const;
  friend constexpr auto operator<=>(const XtpDiagnosis&, const XtpDiagnosis&) = default;
};

[[nodiscard]] std::string_view name_of(XtpMalformed malformed);

}  // namespace sluice::wire
