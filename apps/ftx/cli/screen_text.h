// SPDX-License-Identifier: Apache-2.0
#pragma once

// Text for a terminal: how many columns it takes, and figures as people read them. Independent of the locale.
//
// Threat: a name or a message of a peer that moves the cursor, hides what follows or turns it around. Only what
// terminal_text() has made of it is printed.

#include <cstdint>
#include <string>
#include <string_view>

namespace sluice::ftx {

/// `text` with '?' in place of control and format characters, line separators and bytes that are not UTF-8.
[[nodiscard]] std::string terminal_text(std::string_view text);

/// How many columns a terminal needs; wide characters take two, combining ones none. REQUIRES: terminal_text() made it.
[[nodiscard]] std::size_t columns_of(std::string_view text);

/// The last characters of `text` behind "...", in at most `columns`; all of it where it fits. REQUIRES: as above, and
/// columns >= 3.
[[nodiscard]] std::string fitted(std::string_view text, std::size_t columns);

/// Such as "1.5 MiB".
[[nodiscard]] std::string bytes_text(double bytes);
/// Such as "1.5/20.0 MiB", `done` as wide as `total`.
[[nodiscard]] std::string bytes_text(std::uint64_t done, std::uint64_t total);
/// Such as " 117.3 MiB/s", always as wide, up to 9999.9 TiB/s.
[[nodiscard]] std::string rate_text(double bytes_per_second);
/// Such as "0:05", "1:02:03".
[[nodiscard]] std::string duration_text(double seconds);

}  // namespace sluice::ftx
