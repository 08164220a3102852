// SPDX-License-Identifier: Apache-2.0
#pragma once

// Which stream of a link answers for a host: several streams of one link are one host, each with an ip of its own, and
// to ARP, neighbour discovery, ping and errors one of them is to answer, while all learn. In M_CTL, as DL_FILTER_REQ:
//
//   down  DL_ADDRESS_REQ  "`address` is ours", or no longer. Never answered.
//   up    DL_ANSWER_IND   whether this stream answers for `address` from now on, and whether streams with a filter have
//                         it, too. A stream that is told nothing answers, and is alone.
//
// A group is an address that every member has: one of them tells routers of it, and all know whether others are left.
//
// Layout in words, both: number, flags, IP version (4 or 6), address in 16 bytes.

#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/bytes.h"
#include "base/contract.h"
#include "stack/wire/address.h"
#include "stack/wire/words.h"

namespace sluice::wire::dlpi {

/// In the private range of DL_FILTER_REQ and DL_LOOPBACK.
inline constexpr std::uint32_t DL_ADDRESS_REQ = 0x8000'0082;
inline constexpr std::uint32_t DL_ANSWER_IND = 0x8000'0083;

inline constexpr std::size_t answering_size = 3 * word_size + IpAddress::size_max;

/// What both have in common: an address and some flags.
struct AddressFlags {
  IpAddress address;
  std::uint32_t flags = 0;

  [[nodiscard]] static std::optional<AddressFlags> decode(std::uint32_t primitive, ConstBytes block) {
    if (block.size() < answering_size || load_word(block.data()) != primitive) {
      return std::nullopt;
    }
    const std::uint32_t version = load_word(block.data() + 2 * word_size);
    if (version != 4 && version != 6) {
      return std::nullopt;
    }
    return AddressFlags{IpAddress::load(static_cast<Family>(version), block.data() + 3 * word_size),
                        load_word(block.data() + word_size)};
  }
  std::size_t encode(std::uint32_t primitive, Bytes out) const {
    SLUICE_REQUIRE(out.size() >= answering_size);
    store_words(out, {primitive, flags, static_cast<std::uint32_t>(address.family())});
    address.store(out.data() + 3 * word_size);
    return answering_size;
  }
};

struct AddressReq {
  static constexpr std::uint32_t primitive = DL_ADDRESS_REQ;
  static constexpr std::size_t size = answering_size;

  IpAddress address;
  bool ours = false;

  [[nodiscard]] static std::optional<AddressReq> decode(ConstBytes block) {
    const auto read = AddressFlags::decode(primitive, block);
    return read ? std::optional(AddressReq{read->address, (read->flags & 1U) != 0}) : std::nullopt;
  }
  std::size_t encode(Bytes out) const { return AddressFlags{address, ours ? 1U : 0U}.encode(primitive, out); }

  friend constexpr auto operator<=>(const AddressReq&, const AddressReq&) = default;
};

struct AnswerInd {
  static constexpr std::uint32_t primitive = DL_ANSWER_IND;
  static constexpr std::size_t size = answering_size;

  IpAddress address;
  bool answers = true;
  bool shared = false;  ///< another stream has the address, and a filter; another is in the group

  [[nodiscard]] static std::optional<AnswerInd> decode(ConstBytes block) {
    const auto read = AddressFlags::decode(primitive, block);
    return read ? std::optional(AnswerInd{read->address, (read->flags & 1U) != 0, (read->flags & 2U) != 0})
                : std::nullopt;
  }
  std::size_t encode(Bytes out) const {
    return AddressFlags{address, (answers ? 1U : 0U) | (shared ? 2U : 0U)}.encode(primitive, out);
  }

  friend constexpr auto operator<=>(const AnswerInd&, const AnswerInd&) = default;
};

}  // namespace sluice::wire::dlpi
