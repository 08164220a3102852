// SPDX-License-Identifier: Apache-2.0
#pragma once

// DL_LOOPBACK: a datagram for this host itself, or for the members in this host of a group that it is sent to. ip sends
// it down to the driver in M_CTL, M_DATA behind it, and the driver gives it to the streams of its link that a frame of
// that SAP to this station, or to the group's address, would go to, in M_CTL again (dlpi/link.h). No device sees it.
//
// Threat: a host trusts what comes from itself, so no frame from outside may look like it. Hence M_CTL, which no driver
// makes of a frame, and not a DL_UNITDATA_IND whose source address anybody can forge.
//
// Layout in words: number, SAP; then a MAC address and two zeros.

#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/bytes.h"
#include "base/contract.h"
#include "stack/wire/address.h"
#include "stack/wire/words.h"

namespace sluice::wire::dlpi {

/// In the private range of DL_FILTER_REQ, with which it shares M_CTL.
inline constexpr std::uint32_t DL_LOOPBACK = 0x8000'0081;

struct Loopback {
  static constexpr std::uint32_t primitive = DL_LOOPBACK;
  static constexpr std::size_t size = 4 * word_size;

  std::uint16_t sap = 0;
  MacAddress group{};  ///< a group or broadcast address; unspecified: this station

  [[nodiscard]] static std::optional<Loopback> decode(ConstBytes block) {
    if (block.size() < size || load_word(block.data()) != primitive || load_word(block.data() + word_size) > 0xffff) {
      return std::nullopt;
    }
    return Loopback{static_cast<std::uint16_t>(load_word(block.data() + word_size)),
                    MacAddress::load(block.data() + 2 * word_size)};
  }
  std::size_t encode(Bytes out) const {
    SLUICE_REQUIRE(out.size() >= size);
    store_words(out, {primitive, std::uint32_t{sap}, 0, 0});
    group.store(out.data() + 2 * word_size);
    return size;
  }

  friend constexpr auto operator<=>(const Loopback&, const Loopback&) = default;
};

}  // namespace sluice::wire::dlpi
