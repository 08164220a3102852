// SPDX-License-Identifier: Apache-2.0
#pragma once

// The packet header of the message modules `rmpp` and `utopia` (docs/formats/rmpp.md). A message of `total_bytes` is
// cut into packets of `packet_bytes` of payload, the last perhaps shorter; a message without bytes is one packet
// without payload. The fields that decide where bytes go and what state changes (type, flags, attempt, number, index,
// length) are there twice, the second time complemented, and a checksum covers the header alone. So a header can be
// believed before the payload behind it has been read.
//
// Threat: a packet comes from anybody who can reach the port. parse() checks every field against the others and the
// size of the packet, so that what it returns cannot name bytes outside of its message; what it means in the state of a
// message is the module's to check.
//
// A plain value; thread-safe as such.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <expected>
#include <optional>
#include <string_view>

#include "base/bytes.h"
#include "stack/wire/address.h"

namespace sluice::wire {

enum class RmppMalformed : std::uint8_t {
  short_header,  ///< under 64 bytes
  bad_version,   ///< not version 1
  bad_checksum,  ///< the header's bytes have changed
  bad_copy,      ///< a key field and its complement differ
  bad_type,      ///< no type of packet there is
  bad_flags,     ///< unknown, or excluding each other
  bad_length,    ///< the payload is not as long as the field says, or as its index asks for
  bad_total,     ///< no size of packets, or more packets than can be numbered
  bad_index,     ///< outside the message, or not what its type asks for
  bad_grant,     ///< grants nothing, or beyond the message, or a grant where none belongs
  count_,
};

struct RmppHeader {
  static constexpr std::size_t size = 64;
  static constexpr std::uint8_t version = 1;
  static constexpr std::uint32_t granted_packets_max = 16;
  static constexpr std::uint16_t packet_bytes_min = 64;

  enum class Type : std::uint8_t {
    request = 1,  ///< request to send, with the message's first packet
    clear,        ///< clear to send: grants packets
    data,         ///< another packet of the message
    end,          ///< message end: the receiver has all of it
    discard,      ///< discard state: the sender knows that, and forgets
    refuse,  ///< the receiver will not take it: its user does not, or it is another process than the sender believes
  };
  enum Flag : std::uint8_t {
    selective = 1,       ///< only what lacks is sent again
    unacknowledged = 2,  ///< nothing is sent again, and nobody says that it came: utopia
  };

  Type type = Type::request;
  std::uint8_t flags = 0;
  std::uint32_t source_incarnation = 0;       ///< drawn by each process
  std::uint32_t destination_incarnation = 0;  ///< as the sender knows it; 0: not yet
  std::uint32_t number = 0;                   ///< of the message, between these two processes in this direction
  std::uint16_t attempt = 0;                  ///< how often the message was begun again
  std::uint16_t packet_bytes = 0;             ///< payload of every packet but the last
  std::uint32_t index = 0;                    ///< of the packet; clear: of the first that `grant` is about
  std::uint16_t grant = 0;                    ///< clear: bit i grants packet index + i
  std::uint16_t length = 0;                   ///< payload of this packet
  std::uint64_t total_bytes = 0;              ///< of the message
  std::uint64_t tag = 0;                      ///< matching bits; not looked at here

  /// How many packets such a message has.
  [[nodiscard]] static constexpr std::uint64_t packets_of(std::uint64_t total_bytes, std::uint16_t packet_bytes) {
    return total_bytes == 0 ? 1 : (total_bytes - 1) / packet_bytes + 1;
  }
  [[nodiscard]] std::uint64_t packets() const { return packets_of(total_bytes, packet_bytes); }
  [[nodiscard]] std::uint64_t offset() const { return std::uint64_t{index} * packet_bytes; }

  /// Checks the header in front of a packet of `packet_size` bytes, which may continue elsewhere.
  [[nodiscard]] static std::expected<RmppHeader, RmppMalformed> parse(ConstBytes bytes, std::size_t packet_size);
  [[nodiscard]] static std::expected<RmppHeader, RmppMalformed> parse(ConstBytes packet) {
    return parse(packet, packet.size());
  }
  /// Writes 64 bytes. REQUIRES: out holds them.
  void emit(Bytes out) const;

  friend constexpr auto operator<=>(const RmppHeader&, const RmppHeader&) = default;
};

[[nodiscard]] std::string_view name_of(RmppMalformed malformed);

/// What a user and a message module say to each other: it stands in front of the data of T_UNITDATA_REQ and
/// T_UNITDATA_IND, numbers in the machine's own byte order.
namespace message {

/// Down: send what follows.
struct Request {
  static constexpr std::size_t size = 16;

  std::uint64_t tag = 0;
  std::uint64_t handle = 0;  ///< comes back with `sent` or `failed`; means nothing here

  [[nodiscard]] static Request load(const std::byte* at);
  void store(std::byte* at) const;
  friend constexpr auto operator<=>(const Request&, const Request&) = default;
};

/// Up: a packet's payload, or what has become of a message.
struct Indication {
  static constexpr std::size_t size = 48;

  enum class Kind : std::uint32_t {
    payload,   ///< `length` bytes at `offset` of a message that is on its way in; it may come again
    received,  ///< all of it has come, once
    lost,      ///< the message that was on its way in will not be whole: `error`
    sent,      ///< rmpp: the receiver has it. utopia: it has left
    failed,    ///< it may not have arrived: `error`
  };
  Kind kind = Kind::payload;
  std::uint32_t incarnation = 0;  ///< of the peer
  std::uint32_t number = 0;
  std::int32_t error = 0;  ///< an errno
  std::uint64_t tag = 0;
  std::uint64_t total_bytes = 0;
  std::uint64_t offset = 0;
  std::uint64_t handle = 0;  ///< sent, failed: of the request

  /// Nothing when there is no such kind.
  [[nodiscard]] static std::expected<Indication, RmppMalformed> load(const std::byte* at);
  void store(std::byte* at) const;
  friend constexpr auto operator<=>(const Indication&, const Indication&) = default;
};

/// Down, in M_CTL: what the user makes of a message whose first payload it has been shown. Whoever has said `decides`
/// says one of the others of each message; until then the module grants no more of it, and does not tell the sender
/// that all has come.
struct Decision {
  static constexpr std::uint32_t primitive = 0x8000'0201;  ///< beside network::Primitive
  static constexpr std::size_t size = 20 + TransportAddress::encoded_size_max;

  enum class Kind : std::uint32_t {
    decides,  ///< from now on; the other fields mean nothing
    accepts,  ///< it has a place
    refuses,  ///< the rest is not wanted: the sender is told, where something is still on its way between the two
  };
  Kind kind = Kind::decides;
  TransportAddress peer = {};
  std::uint32_t incarnation = 0;
  std::uint32_t number = 0;

  /// Nothing when it is another primitive, too short, or of no kind or address there is.
  [[nodiscard]] static std::optional<Decision> decode(ConstBytes block);
  /// Returns `size`. REQUIRES: out holds it.
  std::size_t encode(Bytes out) const;
  friend constexpr auto operator<=>(const Decision&, const Decision&) = default;
};

}  // namespace message
}  // namespace sluice::wire
