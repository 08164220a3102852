// SPDX-License-Identifier: Apache-2.0
#pragma once

// DirectorySurvey: what a DirectorySink would change of what lies below an open directory, entry by entry and then what
// it would remove. It opens directories, and what is compared by content, for reading; it makes and changes nothing.
//
// Where what it would do cannot be done (a directory in the place of a file), it fails as the sink would.
//
// What would be removed is found anew for each removed_bytes_max of names, so that it takes no more memory, however
// much that is.
//
// Borrows the list. Not thread-safe.

#include <unordered_map>

#include "apps/ftx/files/comparison.h"
#include "apps/ftx/files/directory_sink.h"
#include "apps/ftx/files/open_directories.h"
#include "apps/ftx/files/sink.h"

namespace sluice::ftx {

class DirectorySurvey final : public Survey {
 public:
  static constexpr std::size_t entries_a_turn = 1024;
  static constexpr std::size_t removed_bytes_max = 1U << 20;

  /// `place`: as of the sink; its directory is invalid where that would be made.
  DirectorySurvey(DirectorySink::Place place, std::span<const FileEntry> entries, const Update& update,
                  std::optional<Deletion> deletion, const Ownership& ownership);
  Result<bool> look(std::size_t count_max, std::vector<Change>& changes) override;
  ComparedContents compared() override { return comparison_.compared(); }

 private:
  /// Where the content of a file with several names is, or goes.
  struct Content {
    std::optional<std::uint32_t> name{};  // null: all names are left alone
    bool travels = false;
    dev_t device{};  // of what is there
    ino_t inode{};
  };
  using Found = Result<std::optional<Change>>;

  [[nodiscard]] std::uint8_t differences(const FileEntry& entry, const struct stat& found) const;
  [[nodiscard]] std::uint8_t all_differences(const FileEntry& entry, const struct stat& found);

  [[nodiscard]] Found look_at_entry(std::uint32_t index);
  [[nodiscard]] Found look_at_directory(std::uint32_t index);
  [[nodiscard]] Found look_at_link(std::uint32_t index);
  [[nodiscard]] Found look_at_file(std::uint32_t index);
  [[nodiscard]] Found look_at_name(std::uint32_t file, std::uint32_t name, const Content& content);
  [[nodiscard]] Found content_of(std::uint32_t file, std::uint32_t name, const Content& content);
  [[nodiscard]] Found link_to(const Content& content, std::uint32_t file, std::uint32_t name);
  [[nodiscard]] Status may_replace(const FileEntry& entry, const std::optional<struct stat>& found) const;
  [[nodiscard]] Result<bool> look_at_removals(std::size_t count_max, std::vector<Change>& changes);
  [[nodiscard]] Status find_removals();

  std::span<const FileEntry> entries_;
  const Ownership& ownership_;
  bool root_missing_;
  OpenDirectories directories_;
  Comparison comparison_;
  std::optional<Deletion> deletion_;
  std::uint32_t next_ = 0;
  std::unordered_map<std::uint32_t, Content> contents_;  // of files with several names, by their places in the list
  std::vector<std::string> removals_;                    // found and not said, the next one last
  std::uint64_t removals_said_ = 0;
  bool removals_left_ = true;  // beside those
};

}  // namespace sluice::ftx
