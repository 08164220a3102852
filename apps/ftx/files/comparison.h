// SPDX-License-Identifier: Apache-2.0
#pragma once

// Comparison: what of a list is there already, and what of it Update leaves alone. It looks, and changes nothing.
//
// A file is there when a regular file of its name has its size and its time, as rsync's quick check has it, or what
// Update compares instead. It is not opened but for its content.
//
// As rsync has it, of a file with several names those that Update leaves alone count for nothing. Of the others the
// first that is a file there is compared, and gets the content if it differs; where none is, the first.
//
// Threats: what somebody swaps meanwhile (nothing is followed; apps/ftx/files/open_directories.h has the directories);
// a file that is written or replaced while it is read (it must be the same in the same state before and behind).
//
// Borrows the list. Not thread-safe.

#include <sys/stat.h>

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "apps/ftx/files/descriptor.h"
#include "apps/ftx/files/digest.h"
#include "apps/ftx/files/ownership.h"
#include "apps/ftx/files/sink.h"
#include "apps/ftx/protocol/manifest.h"
#include "apps/ftx/protocol/update.h"

namespace sluice::ftx {

/// The time that `entry` has, or what a file system keeps of it that counts in 100 ns, microseconds or seconds.
[[nodiscard]] bool same_time(const timespec& time, const FileEntry& entry);
[[nodiscard]] inline bool same_mode(const struct stat& status, const FileEntry& entry) {
  return (status.st_mode & 0777U) == entry.mode;
}
/// Mode, time and owners, as far as they are set.
[[nodiscard]] inline bool has_attributes(const struct stat& status, const FileEntry& entry,
                                         const Ownership& ownership) {
  return same_mode(status, entry) && same_time(status.st_mtim, entry) && ownership.same(status, entry);
}
/// What is open has those of `entry`, where the list speaks of them. What cannot be read has not.
[[nodiscard]] bool has_extended_attributes(int descriptor, const FileEntry& entry);
/// For reading; invalid: it is no regular file, or cannot be read.
[[nodiscard]] Descriptor open_regular(int directory, const char* name, struct stat& status);

class Comparison {
 public:
  /// Where it looks.
  struct Place {
    std::string shown{};                  // the path of where the list goes, for people
    std::optional<EntryName> new_name{};  // of the only entry that lies there
    /// The directory that FileEntry::parent names, until the next call; -1, and errno: there is none.
    std::function<int(std::uint32_t parent)> directory{};
    /// Nobody but this transfer has put anything into it.
    std::function<bool(std::uint32_t parent)> is_new{};
  };
  Comparison(std::span<const FileEntry> entries, Place place) : entries_(entries), place_(std::move(place)) {}

  void follow(const Update& update) { update_ = update; }
  [[nodiscard]] const Update& update() const { return update_; }

  [[nodiscard]] std::uint32_t index_of(const FileEntry& listed) const {
    return static_cast<std::uint32_t>(&listed - entries_.data());
  }
  /// What it is called there.
  [[nodiscard]] const EntryName& name_of(const FileEntry& entry) const {
    return entry.parent == 0 && place_.new_name ? *place_.new_name : entry.name;
  }
  /// For people, as path() of what lies there.
  [[nodiscard]] const std::string& shown() const { return place_.shown; }
  [[nodiscard]] std::string path(const FileEntry& entry) const;

  /// What has the name of `entry`. Nothing, and errno ENOENT: it can be made.
  [[nodiscard]] std::optional<struct stat> find(const FileEntry& entry) const;
  /// `found` is what find() has just answered. What cannot be looked at is not left alone: writing it says why.
  [[nodiscard]] bool leaves_alone(const FileEntry& entry, const std::optional<struct stat>& found) const;
  /// Of a symbolic link: no time of it counts.
  [[nodiscard]] bool leaves_link_alone(const FileEntry& entry) const;
  /// A symbolic link of that name has the target of `entry`.
  [[nodiscard]] bool has_target(const FileEntry& entry) const;

  /// Another name of a file: both by their places in the list.
  struct HardLink {
    std::uint32_t file = 0;
    std::uint32_t entry = 0;
    auto operator<=>(const HardLink&) const = default;
  };
  [[nodiscard]] std::span<const HardLink> hard_links_of(std::uint32_t file);
  /// `file` under the name of the entry `name`.
  [[nodiscard]] FileEntry under(const FileEntry& file, std::uint32_t name) const;

  /// Which name of a file its content has, or gets.
  struct ContentPlace {
    std::optional<std::uint32_t> name{};   // by its place in the list; null: all are left alone
    std::optional<struct stat> regular{};  // the file that is there
  };
  [[nodiscard]] ContentPlace content_place(const FileEntry& file);
  /// Where contents are compared, reads on in the file that same() will be asked of next: `bytes` at most, from which
  /// it takes what that costs. True: same() has what it needs.
  [[nodiscard]] bool examine(const FileEntry& file, std::uint64_t& bytes);
  /// What examine() has read so far.
  [[nodiscard]] ComparedContents compared() { return std::exchange(compared_, {}); }
  /// What another Comparison of the same list has read; examine() believes it of what has not changed since.
  void believe(ComparedContents compared) { compared_ = std::move(compared); }
  /// The content of `file` need not travel: `found` has it, under the name of `named`.
  [[nodiscard]] bool same(const FileEntry& file, const FileEntry& named, const struct stat& found) const;

 private:
  /// The file that is, or was, read to be compared.
  struct Examined {
    std::uint32_t file = 0;  // by its place in the list
    struct stat status{};
    Descriptor descriptor{};  // while it is read
    std::uint64_t offset = 0;
    FileDigester digester{};
    std::vector<std::byte> buffer{};
    std::optional<Digest> digest{};  // null: it cannot be read, or changed meanwhile
  };

  [[nodiscard]] bool same_content(const FileEntry& file, const struct stat& found) const;
  void begin_examination(const FileEntry& file);
  void end_examination(const FileEntry& file);
  [[nodiscard]] bool take_believed(const FileEntry& file);

  std::span<const FileEntry> entries_;
  Place place_;
  Update update_;
  std::optional<std::vector<HardLink>> hard_links_;  // of the list, by file, once somebody asks
  std::unique_ptr<Examined> examined_;
  ComparedContents compared_;
};

}  // namespace sluice::ftx
