// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/protocol/change.h"

#include "apps/ftx/protocol/message.h"
#include "apps/ftx/protocol/name.h"

namespace sluice::ftx {
namespace {

constexpr std::string_view cut_mark = ".../";

bool differences_hold(const Change& change) {
  const unsigned bits = change.differences;
  const bool known = (bits & Change::is_new) == 0 || bits == Change::is_new;
  switch (change.kind) {
    case Change::Kind::content:
    case Change::Kind::linked:
      return known;
    case Change::Kind::made:
      return known && (bits & (Change::is_new | Change::content)) != 0;
    case Change::Kind::attributes:
      return bits != 0 && (bits & (Change::is_new | Change::content | Change::size)) == 0;
    case Change::Kind::removed:
      return bits == 0;
  }
  return false;
}

}  // namespace

std::string change_path(std::string_view path) {
  if (path.size() <= path_bytes_max) {
    return printable(path);
  }
  // A component is shorter than what is kept.
  path.remove_prefix(path.size() - (path_bytes_max - cut_mark.size()));
  path.remove_prefix(path.find('/') + 1);
  return std::string(cut_mark) + printable(path);
}

void put(Writer& writer, const Change& change) {
  writer.number(static_cast<std::uint8_t>(change.kind)).number(change.differences);
  if (change.kind == Change::Kind::removed) {
    writer.number(static_cast<std::uint16_t>(change.path.size())).bytes(as_bytes(change.path));
    return;
  }
  writer.number(change.entry);
  if (change.kind == Change::Kind::linked) {
    writer.number(change.other);
  }
}

/// Threat: a receiver whose words lead the terminal of who reads them astray. A path has no control characters, and
/// whatever else it holds counts for nothing but being shown.
std::optional<Change> take_change(Reader& reader) {
  Change change;
  change.kind = Change::Kind{reader.number<std::uint8_t>()};
  change.differences = reader.number<std::uint8_t>();
  if (change.kind == Change::Kind::removed) {
    const auto path_bytes = reader.number<std::uint16_t>();
    change.path = as_text(reader.take(path_bytes));
    const bool good = !change.path.empty() && change.path.size() <= path_bytes_max && is_relative_path(change.path);
    return reader.ok() && good && differences_hold(change) ? std::optional(std::move(change)) : std::nullopt;
  }
  change.entry = reader.number<std::uint32_t>();
  if (change.kind == Change::Kind::linked) {
    change.other = reader.number<std::uint32_t>();
  }
  return reader.ok() && change.entry > 0 && differences_hold(change) ? std::optional(std::move(change)) : std::nullopt;
}

/// Threat: a receiver that speaks without end. Of each entry it speaks once, in order, and then of what it removes.
bool fits(const Change& change, const std::vector<FileEntry>& entries, std::uint32_t before) {
  if (change.kind == Change::Kind::removed) {
    return true;
  }
  const auto names_a_file = [&](std::uint32_t place) {
    return place > 0 && place <= entries.size() &&
           (entries[place - 1].regular() || entries[place - 1].kind == EntryKind::hard_link);
  };
  if (change.entry <= before || change.entry > entries.size()) {
    return false;
  }
  const EntryKind kind = entries[change.entry - 1].kind;
  switch (change.kind) {
    case Change::Kind::content:
      return names_a_file(change.entry);
    case Change::Kind::linked:
      return names_a_file(change.entry) && names_a_file(change.other);
    case Change::Kind::made:
      return kind == EntryKind::link || (kind == EntryKind::directory && change.differences == Change::is_new);
    case Change::Kind::attributes:
      return kind != EntryKind::left_out;
    case Change::Kind::removed:
      break;
  }
  return false;
}

}  // namespace sluice::ftx
