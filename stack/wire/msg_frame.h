// SPDX-License-Identifier: Apache-2.0
#pragma once

// The framing header of messages over a connection (docs/formats/msg.md): what the caller of a connection says (hello,
// then messages) and what the called answers (done, refused). 32 bytes, big-endian; a message's payload follows its
// header.
//
// Threat: a connection comes from anybody who can reach the port. parse() returns only what the format allows; whether
// a length is one that the receiver takes, and whether a number is the one that is due, is the reader's to check,
// before anything is done on the strength of it.
//
// A plain value; thread-safe as such.

#include <cstddef>
#include <cstdint>
#include <expected>
#include <string_view>

#include "base/bytes.h"

namespace sluice::wire {

enum class MsgMalformed : std::uint8_t {
  short_header,  ///< under 32 bytes
  bad_magic,     ///< no frame of this format
  bad_version,   ///< not version 1
  bad_type,      ///< no type of frame there is
  bad_field,     ///< a field that its type does not have is not 0, or one that it has is 0
};

struct MsgFrame {
  static constexpr std::size_t size = 32;
  static constexpr std::uint16_t magic = 0x534d;  ///< "SM"
  static constexpr std::uint8_t version = 1;

  enum class Type : std::uint8_t {
    hello = 1,  ///< first of all, from the caller: `port`
    message,    ///< from the caller: `number`, `tag`, `length`; `length` bytes follow
    done,       ///< to the caller: the message `number` has been received whole
    refused,    ///< to the caller: the message `number` is not taken; what has come and comes of it is thrown away
  };

  Type type = Type::hello;
  std::uint16_t port = 0;    ///< hello: where the caller itself can be called
  std::uint64_t number = 0;  ///< all others: of the message, on this connection, from 1
  std::uint64_t tag = 0;     ///< message: matching bits
  std::uint64_t length = 0;  ///< message: bytes of payload

  /// Checks the 32 bytes in front of `bytes`.
  [[nodiscard]] static std::expected<MsgFrame, MsgMalformed> parse(ConstBytes bytes);
  /// Writes 32 bytes. REQUIRES: out holds them.
  void emit(Bytes out) const;

  friend constexpr auto operator<=>(const MsgFrame&, const MsgFrame&) = default;
};

}  // namespace sluice::wire
