// SPDX-License-Identifier: Apache-2.0
#pragma once

// Removal: removes what lies in the directories of a list and is not in the list, when all files are in place.
//
// What the filter rules exclude is kept, with the directories around it, and so are other file systems, temporary files
// of ftx, and what the list says is left out. A directory that may not be written is, for as long as that takes. It
// looks first and removes then: where more is found than allowed, or anything at all in a directory whose source is
// empty (not mounted, perhaps), nothing is removed. What cannot be removed does not keep it from the rest; the first
// error is its outcome.
//
// Threats: a symbolic link in the place of a directory, also one that somebody swaps in meanwhile, so that files
// elsewhere are removed (each step goes from an open directory to one name in it and follows no link; a directory is
// removed by its name alone, when it is empty); a sender that removes what is not its own (its list names directories
// below the destination by components alone, and only those are looked into).
//
// Borrows everything. Not thread-safe. O(entries log entries) and the names in those directories; a descriptor a level.

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "apps/ftx/files/filter.h"
#include "apps/ftx/files/open_directories.h"
#include "apps/ftx/protocol/deletion.h"
#include "apps/ftx/protocol/manifest.h"

namespace sluice::ftx {

class Removal {
 public:
  /// How deep a tree may be that is removed.
  static constexpr std::size_t depth_max = 512;
  /// Whether the transfer has made the directory that FileEntry::parent names: there is nothing else in it.
  using IsNew = std::function<bool(std::uint32_t parent)>;

  Removal(std::span<const FileEntry> entries, OpenDirectories& directories, IsNew is_new, const Deletion& deletion);

  /// ECANCELED: nothing was removed, and why.
  [[nodiscard]] Status run();
  /// A file that run() would remove, or a directory, with a '/' behind: its path below where the transfer goes.
  using Found = std::function<void(std::string_view path)>;
  /// Removes nothing. Calls `found` for what run() would remove, or answers why that would remove nothing.
  [[nodiscard]] Status look(Found found);
  /// It has changed something.
  [[nodiscard]] bool acted() const { return acts_ && found_ > 0; }

 private:
  /// A directory that is looked into.
  struct Level {
    int directory = -1;
    std::string inside;                     // its path below where the transfer goes, with a '/' behind; "" is the top
    std::optional<std::uint32_t> parent{};  // FileEntry::parent of what lies in it; none of it is in the list
    std::size_t depth = 0;
    std::uint64_t device = 0;
    std::optional<std::uint32_t> mode_before{};  // of one that had to be made writable
  };

  [[nodiscard]] Status count();
  void pass();
  [[nodiscard]] bool clear(const Level& level);
  [[nodiscard]] bool clear_one(Level& level, const std::string& name);
  [[nodiscard]] bool clear_directory(const Level& level, const std::string& name);
  [[nodiscard]] bool remove(Level& level, const std::string& name, int flags);
  [[nodiscard]] static bool make_writable(Level& level);
  [[nodiscard]] bool listed(std::uint32_t parent, std::string_view name) const;
  [[nodiscard]] bool has_entries(std::uint32_t parent) const;
  void note_error(int code, const std::string& path);

  std::span<const FileEntry> entries_;
  OpenDirectories& directories_;
  IsNew is_new_;
  const Deletion& deletion_;
  Filter filter_;
  std::vector<std::uint32_t> sorted_;  // places in the list, by parent and name
  bool acts_ = false;
  Found tells_{};
  std::uint64_t found_ = 0;
  std::string emptied_;  // a source without anything in it, at whose place something lies
  Status outcome_;
};

}  // namespace sluice::ftx
