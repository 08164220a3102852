// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/cli/screen_text.h"

#include <fmt/format.h>
#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace sluice::ftx {
namespace {

struct Character {
  std::string_view bytes;      // at least one
  utf8proc_int32_t code = -1;  // negative: not UTF-8
};

/// REQUIRES: !text.empty().
Character first_of(std::string_view text) {
  Character first;
  const auto size = utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                                     static_cast<utf8proc_ssize_t>(text.size()), &first.code);
  first.bytes = text.substr(0, size > 0 ? static_cast<std::size_t>(size) : 1);
  return first;
}

bool is_shown(utf8proc_int32_t code) {
  if (code < 0) {
    return false;
  }
  switch (utf8proc_category(code)) {
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
      return false;
    default:
      return true;
  }
}

struct Unit {
  std::string_view name;
  double bytes;
};
constexpr std::array<Unit, 5> units{
    {{"B", 1}, {"KiB", 1024.0}, {"MiB", 1048576.0}, {"GiB", 1073741824.0}, {"TiB", 1099511627776.0}}};

/// The largest unit of which `bytes` are one or more, as rounded to a tenth.
const Unit& unit_for(double bytes, std::size_t smallest = 0) {
  std::size_t unit = smallest;
  while (unit + 1 < units.size() && bytes / units[unit].bytes >= 1023.95) {
    ++unit;
  }
  return units[unit];
}

int decimals(const Unit& unit) { return unit.bytes > 1 ? 1 : 0; }

}  // namespace

std::string terminal_text(std::string_view text) {
  std::string shown;
  for (Character next; !text.empty(); text.remove_prefix(next.bytes.size())) {
    next = first_of(text);
    shown += is_shown(next.code) ? next.bytes : std::string_view("?");
  }
  return shown;
}

std::size_t columns_of(std::string_view text) {
  std::size_t columns = 0;
  for (Character next; !text.empty(); text.remove_prefix(next.bytes.size())) {
    next = first_of(text);
    columns += static_cast<std::size_t>(std::max(utf8proc_charwidth(next.code), 0));
  }
  return columns;
}

std::string fitted(std::string_view text, std::size_t columns) {
  constexpr std::string_view gap = "...";
  std::size_t taken = columns_of(text);
  if (taken <= columns) {
    return std::string(text);
  }
  while (taken > columns - gap.size()) {
    const Character first = first_of(text);
    taken -= columns_of(first.bytes);
    text.remove_prefix(first.bytes.size());
  }
  return std::string(gap) + std::string(text);
}

std::string bytes_text(double bytes) {
  const Unit& unit = unit_for(bytes);
  return fmt::format("{:.{}f} {}", bytes / unit.bytes, decimals(unit), unit.name);
}

std::string bytes_text(std::uint64_t done, std::uint64_t total) {
  const Unit& unit = unit_for(static_cast<double>(total));
  const std::string whole = fmt::format("{:.{}f}", static_cast<double>(total) / unit.bytes, decimals(unit));
  return fmt::format("{:>{}.{}f}/{} {}", static_cast<double>(done) / unit.bytes, whole.size(), decimals(unit), whole,
                     unit.name);
}

std::string rate_text(double bytes_per_second) {
  const Unit& unit = unit_for(bytes_per_second, 1);
  return fmt::format("{:6.1f} {}/s", bytes_per_second / unit.bytes, unit.name);
}

std::string duration_text(double seconds) {
  const auto whole = static_cast<std::uint64_t>(std::ceil(std::max(seconds, 0.0)));
  const std::uint64_t hours = whole / 3600, minutes = whole / 60 % 60;
  return hours > 0 ? fmt::format("{}:{:02}:{:02}", hours, minutes, whole % 60)
                   : fmt::format("{}:{:02}", minutes, whole % 60);
}

}  // namespace sluice::ftx
