// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/session/change_event.h"

#include <array>

namespace sluice::ftx {
namespace {

constexpr std::size_t item_size = 11;

char action_of(Change::Kind kind, bool sends) {
  switch (kind) {
    case Change::Kind::content:
      return sends ? '<' : '>';
    case Change::Kind::made:
      return 'c';
    case Change::Kind::linked:
      return 'h';
    case Change::Kind::attributes:
    case Change::Kind::removed:
      break;
  }
  return '.';
}

}  // namespace

std::string item_of(const Change& change, EntryKind kind, bool sends) {
  if (change.kind == Change::Kind::removed) {
    return "*deleting  ";
  }
  std::string item{action_of(change.kind, sends), 'f'};
  if (kind == EntryKind::directory || kind == EntryKind::link) {
    item[1] = kind == EntryKind::link ? 'L' : 'd';
  }
  if (change.differences == Change::is_new) {
    return item.append(item_size - item.size(), '+');
  }
  // As rsync has it, what differs in nothing has blanks, but for content that comes all the same.
  if (change.differences == 0 && change.kind != Change::Kind::content) {
    return item.append(item_size - item.size(), ' ');
  }
  // What rsync writes at 'u' and 'a', times of access and ACLs, does not travel.
  constexpr std::array<std::pair<unsigned, char>, 9> letters{{{Change::content, 'c'},
                                                              {Change::size, 's'},
                                                              {Change::time, 't'},
                                                              {Change::mode, 'p'},
                                                              {Change::user, 'o'},
                                                              {Change::group, 'g'},
                                                              {0, 'u'},
                                                              {0, 'a'},
                                                              {Change::extended, 'x'}}};
  for (const auto& [difference, letter] : letters) {
    item += (change.differences & difference) != 0 ? letter : '.';
  }
  return item;
}

Event change_event(const Change& change, std::span<const FileEntry> entries, bool sends) {
  Event event;
  event.kind = Event::Kind::change;
  if (change.kind == Change::Kind::removed) {
    event.path = change.path;
    event.item = item_of(change, EntryKind::file, sends);
    return event;
  }
  const FileEntry& entry = entries[change.entry - 1];
  event.item = item_of(change, entry.kind, sends);
  event.path = entry.top() ? "./" : path_of(entries, entry) + (entry.kind == EntryKind::directory ? "/" : "");
  event.target = change.other > 0 ? path_of(entries, entries[change.other - 1]) : entry.link_target();
  return event;
}

}  // namespace sluice::ftx
