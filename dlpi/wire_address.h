// SPDX-License-Identifier: Apache-2.0
#pragma once

// The addresses of the two ends of a link that has a name and no device: a name gives the same ones in every run.

#include <cstdint>
#include <string_view>

#include "stack/wire/address.h"

namespace sluice::dlpi {

/// 02:HH:HH:HH:HH:0a for end a and ..:0b for end b, where HH is a hash (FNV-1a) of the name.
[[nodiscard]] inline wire::MacAddress wire_address(std::string_view name, bool is_a) {
  std::uint32_t hash = 0x811c9dc5U;
  for (const char character : name) {
    hash = (hash ^ static_cast<std::uint8_t>(character)) * 0x01000193U;
  }
  const auto octet = [&](unsigned shift) { return static_cast<std::uint8_t>(hash >> shift); };
  constexpr std::uint8_t locally_administered = 0x02;
  return {
      {locally_administered, octet(24), octet(16), octet(8), octet(0), static_cast<std::uint8_t>(is_a ? 0x0a : 0x0b)}};
}

}  // namespace sluice::dlpi
