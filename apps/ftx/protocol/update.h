// SPDX-License-Identifier: Apache-2.0
#pragma once

// Update: what a transfer writes where something is there already. Who starts the transfer says so: a sender in
// its OFFER, and who fetches to his own receiver.

#include <cstdint>
#include <optional>

namespace sluice::ftx {

struct Update {
  /// When a file is there already, and its content need not be sent.
  enum class Compare : std::uint8_t {
    size_and_time = 0,
    size = 1,     // --size-only
    nothing = 2,  // --ignore-times: never
    digest = 3,   // --checksum: size, and digest of the content
  };
  Compare compare = Compare::size_and_time;
  bool existing = false;         // --existing: nothing new is made, directories and links included
  bool ignore_existing = false;  // --ignore-existing: nothing that is there is written
  bool newer = false;            // --update: nothing that is newer there is written
  bool told = false;             // --itemize-changes: the receiver says what it will change, before it does
  bool dry_run = false;          // --dry-run: it says so, and changes nothing. Only with `told`
  bool delta = false;            // --delta: blocks of files that differ are looked for in what is there

  bool operator==(const Update&) const = default;
  /// Some files are left alone whatever they hold.
  [[nodiscard]] bool leaves_alone() const { return existing || ignore_existing || newer; }
};

[[nodiscard]] constexpr std::uint8_t encode(const Update& update) {
  return static_cast<std::uint8_t>(static_cast<unsigned>(update.compare) | (update.existing ? 4U : 0U) |
                                   (update.ignore_existing ? 8U : 0U) | (update.newer ? 16U : 0U) |
                                   (update.told ? 32U : 0U) | (update.dry_run ? 64U : 0U) | (update.delta ? 128U : 0U));
}
/// Null: a dry run of which nothing is told.
[[nodiscard]] constexpr std::optional<Update> parse_update(std::uint8_t bits) {
  const Update update{static_cast<Update::Compare>(bits & 3U),
                      (bits & 4U) != 0,
                      (bits & 8U) != 0,
                      (bits & 16U) != 0,
                      (bits & 32U) != 0,
                      (bits & 64U) != 0,
                      (bits & 128U) != 0};
  return update.told || !update.dry_run ? std::optional(update) : std::nullopt;
}

}  // namespace sluice::ftx
