// SPDX-License-Identifier: Apache-2.0
#pragma once

// CaseFolding: which directories take two names of a list for one. A list tells names apart byte by byte; a file system
// may not (vfat, exfat, CIFS, a directory of ext4 with the attribute +F), and then one file would silently replace
// another of the same transfer.
//
// A directory is asked, once, by looking for something that lies in it under its name with all letters in the other
// case. Only where that is found does anything else cost anything: then who gives a name asks clash() first.
//
// Threat: a peer that makes a file here replace another one that the list also has, in whatever order they arrive.
//
// Borrows the list. Belongs to one thread, but that any may call tells_apart() and clash() for a directory of which
// tells_apart() has been true. Between clash() and the rename nobody else may give names in a directory that folds.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "apps/ftx/protocol/manifest.h"
#include "base/result.h"

namespace sluice::ftx {

class CaseFolding {
 public:
  explicit CaseFolding(std::span<const FileEntry> entries) : entries_(entries), states_(entries.size() + 1) {}

  /// It has been asked, and takes no two names for one. By FileEntry::parent of what lies in it.
  [[nodiscard]] bool tells_apart(std::uint32_t parent) const { return states_[parent] == State::tells_apart; }
  /// Asks the open `directory`, in which `name` lies. One without letters says nothing.
  void learn(std::uint32_t parent, int directory, const char* name);
  /// `made` has just been made in `parent`, and is as that is (of ext4: mkdir(2) passes +F on). Both by
  /// FileEntry::parent of what lies in them.
  void inherit(std::uint32_t made, std::uint32_t parent) { states_[made] = states_[parent]; }
  /// EEXIST where the open `directory` of `entry`, which would get `name` there, has that under the name of another
  /// entry.
  [[nodiscard]] Status clash(int directory, const FileEntry& entry, const char* name) const;

 private:
  enum class State : std::uint8_t { unknown, tells_apart, folds };

  std::span<const FileEntry> entries_;
  std::vector<State> states_;
  std::vector<std::uint32_t> by_directory_;  // places in the list, once a directory folds
};

/// `name` with its ASCII letters in the other case.
[[nodiscard]] std::string in_other_case(std::string_view name);

/// Whether some file system may take the names for one: no where they differ, ASCII case aside, before the first or
/// behind the last byte beyond ASCII of either.
[[nodiscard]] bool may_be_one(std::string_view one, std::string_view other);

}  // namespace sluice::ftx
