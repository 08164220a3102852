// SPDX-License-Identifier: Apache-2.0
#pragma once

// Metadata: what a list says of an entry beside type, mode and time, where the sender was asked for it: the user and
// the group that own it, and its extended attributes. docs/formats/ftx.md, "Owners and extended attributes".
//
// Entries that follow each other have the same as a rule, and then share one.
//
// Threat: an id that chown(2) takes for "leave it", names that a terminal obeys, and what extended_attributes.h names.
// What a peer says here counts only where somebody on this side has asked for it (apps/ftx/files/ownership.h).

#include <cstdint>
#include <optional>
#include <string>

#include "apps/ftx/protocol/cursor.h"
#include "apps/ftx/protocol/extended_attributes.h"

namespace sluice::ftx {

/// A user or a group.
struct Principal {
  static constexpr std::uint32_t id_max = UINT32_MAX - 1;  // what lies above means "none" to chown(2)
  static constexpr std::size_t name_bytes_max = 255;

  std::uint32_t id = 0;
  std::string name{};  // at the sender; empty: its number alone counts

  bool operator==(const Principal&) const = default;
};

struct Metadata {
  std::optional<Principal> user{};
  std::optional<Principal> group{};
  std::optional<ExtendedAttributes> attributes{};  // all that the entry is to have; null: they are not spoken of

  bool operator==(const Metadata&) const = default;
  [[nodiscard]] bool empty() const { return !user && !group && !attributes; }
};

/// What one takes at most, as it travels.
inline constexpr std::size_t metadata_bytes_max =
    1 + 2 * (4 + 1 + Principal::name_bytes_max) + 2 + ExtendedAttributes::bytes_max;

[[nodiscard]] std::size_t encoded_bytes(const Metadata& metadata);
/// REQUIRES: ids and names of principals within their bounds, names without control characters.
void put(Writer& writer, const Metadata& metadata);
/// Null: malformed.
[[nodiscard]] std::optional<Metadata> take_metadata(Reader& reader);

}  // namespace sluice::ftx
