// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/files/case_folding.h"

#include <algorithm>
#include <cerrno>

#include "apps/ftx/files/walk.h"
#include "apps/ftx/protocol/name.h"

namespace sluice::ftx {
namespace {

bool is_upper(char letter) { return letter >= 'A' && letter <= 'Z'; }
bool is_lower(char letter) { return letter >= 'a' && letter <= 'z'; }
bool is_ascii(char letter) { return static_cast<unsigned char>(letter) < 0x80; }
char lowered(char letter) { return is_upper(letter) ? static_cast<char>(letter - 'A' + 'a') : letter; }

bool same_file(const struct stat& one, const struct stat& other) {
  return one.st_dev == other.st_dev && one.st_ino == other.st_ino;
}

/// From there on: as long as both are ASCII, they are equal but for case, and they end together or where one is not.
template <class Iterator>
bool begin_alike(Iterator one, Iterator one_end, Iterator other, Iterator other_end) {
  for (; one != one_end && other != other_end; ++one, ++other) {
    if (!is_ascii(*one) || !is_ascii(*other)) {
      return true;
    }
    if (lowered(*one) != lowered(*other)) {
      return false;
    }
  }
  return (one == one_end || !is_ascii(*one)) && (other == other_end || !is_ascii(*other));
}

}  // namespace

std::string in_other_case(std::string_view name) {
  std::string other(name);
  for (char& letter : other) {
    letter = is_lower(letter) ? static_cast<char>(letter - 'a' + 'A') : lowered(letter);
  }
  return other;
}

bool may_be_one(std::string_view one, std::string_view other) {
  return begin_alike(one.begin(), one.end(), other.begin(), other.end()) &&
         begin_alike(one.rbegin(), one.rend(), other.rbegin(), other.rend());
}

void CaseFolding::learn(std::uint32_t parent, int directory, const char* name) {
  const std::string other = in_other_case(name);
  struct stat status{};
  struct stat folded{};
  if (states_[parent] != State::unknown || other == name || look_at(directory, name, status) != 0) {
    return;
  }
  const bool folds = look_at(directory, other.c_str(), folded) == 0 && same_file(status, folded);
  states_[parent] = folds ? State::folds : State::tells_apart;
  if (folds && by_directory_.empty()) {
    by_directory_ = places_by_name(entries_);
  }
}

Status CaseFolding::clash(int directory, const FileEntry& entry, const char* name) const {
  struct stat there{};
  if (states_[entry.parent] != State::folds || look_at(directory, name, there) != 0) {
    return {};
  }
  const auto parent_of = [this](std::uint32_t index) { return entries_[index].parent; };
  for (const std::uint32_t index : std::ranges::equal_range(by_directory_, entry.parent, {}, parent_of)) {
    const EntryName& other = entries_[index].name;
    struct stat status{};
    if (other != entry.name && may_be_one(other, entry.name) && look_at(directory, other.c_str(), status) == 0 &&
        same_file(status, there)) {
      return fail(EEXIST, "'" + path_of(entries_, entry) + "' and '" + path_of(entries_, entries_[index]) +
                              "' are one name at the destination, which does not tell upper from lower case");
    }
  }
  return {};
}

}  // namespace sluice::ftx
