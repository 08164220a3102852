// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/files/directory_survey.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "apps/ftx/files/removal.h"
#include "apps/ftx/files/system.h"
#include "apps/ftx/files/walk.h"
#include "apps/ftx/protocol/message.h"

namespace sluice::ftx {
namespace {

std::uint8_t with(unsigned bits, bool also, Change::Difference difference) {
  return static_cast<std::uint8_t>(also ? bits | difference : bits);
}

Change change_of(Change::Kind kind, unsigned bits, std::uint32_t index) {
  return {.kind = kind, .differences = static_cast<std::uint8_t>(bits), .entry = index + 1};
}

/// Nothing but attributes is set, if anything is.
std::optional<Change> attributes_of(unsigned bits, std::uint32_t index) {
  return bits != 0 ? std::optional(change_of(Change::Kind::attributes, bits, index)) : std::nullopt;
}

}  // namespace

DirectorySurvey::DirectorySurvey(DirectorySink::Place place, std::span<const FileEntry> entries, const Update& update,
                                 std::optional<Deletion> deletion, const Ownership& ownership)
    : entries_(entries),
      ownership_(ownership),
      root_missing_(!place.directory.valid()),
      directories_(entries, std::move(place.directory),
                   [this](int parent, std::uint32_t index) {
                     return enter_directory(parent, comparison_.name_of(entries_[index]).c_str());
                   }),
      comparison_(entries, {.shown = std::move(place.shown),
                            .new_name = std::move(place.new_name),
                            .directory =
                                [this](std::uint32_t parent) {
                                  const int directory = root_missing_ ? -1 : directories_.at(parent);
                                  errno = root_missing_ ? ENOENT : errno;
                                  return directory;
                                },
                            .is_new = [](std::uint32_t) { return false; }}),
      deletion_(std::move(deletion)) {
  comparison_.follow(update);
}

Result<bool> DirectorySurvey::look(std::size_t count_max, std::vector<Change>& changes) {
  std::uint64_t bytes = digest_turn_bytes;
  for (std::size_t left = entries_a_turn; next_ < entries_.size(); ++next_, --left) {
    const FileEntry& entry = entries_[next_];
    if (left == 0 || changes.size() >= count_max || (entry.regular() && !comparison_.examine(entry, bytes))) {
      return false;
    }
    auto change = look_at_entry(next_);
    if (!change) {
      return std::unexpected(change.error());
    }
    if (*change) {
      changes.push_back(**std::move(change));
    }
  }
  return look_at_removals(count_max, changes);
}

/// Of a file or a directory of the same kind as `entry`, or of a link to the same target.
std::uint8_t DirectorySurvey::differences(const FileEntry& entry, const struct stat& found) const {
  const bool size = S_ISREG(found.st_mode) && static_cast<std::uint64_t>(found.st_size) != entry.size_bytes;
  std::uint8_t bits = with(0, size, Change::size);
  bits = with(bits, !same_time(found.st_mtim, entry), Change::time);
  bits = with(bits, !S_ISLNK(found.st_mode) && !same_mode(found, entry), Change::mode);
  bits = with(bits, !ownership_.same_user_of(found, entry), Change::user);
  return with(bits, !ownership_.same_group_of(found, entry), Change::group);
}

/// As differences(), of what has the name of `entry`, with its extended attributes.
std::uint8_t DirectorySurvey::all_differences(const FileEntry& entry, const struct stat& found) {
  struct stat status{};
  const Descriptor file = entry.attributes() == nullptr ? Descriptor()
                          : S_ISDIR(found.st_mode)
                              ? enter_directory(directories_.at(entry.parent), comparison_.name_of(entry).c_str())
                              : open_regular(directories_.at(entry.parent), comparison_.name_of(entry).c_str(), status);
  const bool extended = entry.attributes() != nullptr && !has_extended_attributes(file.get(), entry);
  return with(differences(entry, found), extended, Change::extended);
}

DirectorySurvey::Found DirectorySurvey::look_at_entry(std::uint32_t index) {
  const FileEntry& entry = entries_[index];
  switch (entry.kind) {
    case EntryKind::directory:
      return look_at_directory(index);
    case EntryKind::file:
    case EntryKind::packed:
      return look_at_file(index);
    case EntryKind::link:
      return look_at_link(index);
    case EntryKind::hard_link:
      return look_at_name(entry.original - 1, index, contents_.at(entry.original - 1));
    case EntryKind::left_out:
    case EntryKind::stream:
      break;
  }
  return std::nullopt;
}

/// The directory that a transfer goes to keeps its mode and time.
DirectorySurvey::Found DirectorySurvey::look_at_directory(std::uint32_t index) {
  const FileEntry& entry = entries_[index];
  const int directory = root_missing_ ? -1 : directories_.at(entry.top() ? 0 : index + 1);
  if (directory >= 0 && entry.top()) {
    return std::nullopt;
  }
  struct stat status{};
  if (directory >= 0 && retried([&] { return os().fstat(directory, &status); }) == 0) {
    return attributes_of(all_differences(entry, status), index);
  }
  if (!root_missing_ && errno != ENOENT) {
    return system_error("cannot make or open the directory", comparison_.path(entry));
  }
  return comparison_.update().existing ? std::nullopt
                                       : std::optional(change_of(Change::Kind::made, Change::is_new, index));
}

DirectorySurvey::Found DirectorySurvey::look_at_link(std::uint32_t index) {
  const FileEntry& entry = entries_[index];
  if (comparison_.leaves_link_alone(entry)) {
    return std::nullopt;
  }
  const auto found = comparison_.find(entry);
  if (Status may = may_replace(entry, found); !may) {
    return std::unexpected(may.error());
  }
  if (!found || !S_ISLNK(found->st_mode)) {
    return change_of(Change::Kind::made, Change::is_new, index);
  }
  const unsigned differs = differences(entry, *found);
  return comparison_.has_target(entry) ? attributes_of(differs, index)
                                       : change_of(Change::Kind::made, differs | Change::content, index);
}

DirectorySurvey::Found DirectorySurvey::look_at_file(std::uint32_t index) {
  const FileEntry& entry = entries_[index];
  const Comparison::ContentPlace place = comparison_.content_place(entry);
  Content content{.name = place.name};
  if (place.regular) {
    content.travels = !comparison_.same(entry, comparison_.under(entry, *place.name), *place.regular);
    content.device = place.regular->st_dev;
    content.inode = place.regular->st_ino;
  } else {
    content.travels = true;
  }
  if (!comparison_.hard_links_of(index).empty()) {
    contents_[index] = content;
  }
  return look_at_name(index, index, content);
}

/// Of one of the names of a file.
DirectorySurvey::Found DirectorySurvey::look_at_name(std::uint32_t file, std::uint32_t name, const Content& content) {
  if (!content.name) {
    return std::nullopt;
  }
  return content.name == name ? content_of(file, name, content) : link_to(content, file, name);
}

DirectorySurvey::Found DirectorySurvey::content_of(std::uint32_t file, std::uint32_t name, const Content& content) {
  const FileEntry named = comparison_.under(entries_[file], name);
  const auto found = comparison_.find(named);
  if (Status may = may_replace(named, found); !may) {
    return std::unexpected(may.error());
  }
  if (!found || !S_ISREG(found->st_mode)) {
    return change_of(Change::Kind::content, Change::is_new, name);
  }
  const std::uint8_t differs = all_differences(named, *found);
  if (!content.travels) {
    return attributes_of(differs, name);
  }
  const bool compared = comparison_.update().compare == Update::Compare::digest;
  return change_of(Change::Kind::content, with(differs, compared, Change::content), name);
}

DirectorySurvey::Found DirectorySurvey::link_to(const Content& content, std::uint32_t file, std::uint32_t name) {
  const FileEntry named = comparison_.under(entries_[file], name);
  const auto found = comparison_.find(named);
  if (comparison_.leaves_alone(named, found)) {
    return std::nullopt;
  }
  if (Status may = may_replace(named, found); !may) {
    return std::unexpected(may.error());
  }
  if (found && !content.travels && found->st_dev == content.device && found->st_ino == content.inode) {
    return attributes_of(all_differences(named, *found), name);  // which it gets under its other name
  }
  const bool regular = found && S_ISREG(found->st_mode);
  Change change =
      change_of(Change::Kind::linked, regular ? all_differences(named, *found) : std::uint8_t{Change::is_new}, name);
  change.other = *content.name + 1;
  return change;
}

/// `found` is what Comparison::find() has just answered.
Status DirectorySurvey::may_replace(const FileEntry& entry, const std::optional<struct stat>& found) const {
  if (!found && errno != ENOENT) {
    return system_error("cannot look at", comparison_.path(entry));
  }
  if (found && S_ISDIR(found->st_mode)) {
    errno = EISDIR;
    return system_error("cannot replace", comparison_.path(entry));
  }
  return {};
}

Result<bool> DirectorySurvey::look_at_removals(std::size_t count_max, std::vector<Change>& changes) {
  if (!deletion_ || root_missing_) {
    return true;
  }
  if (removals_.empty() && removals_left_) {
    if (Status found = find_removals(); !found) {
      return std::unexpected(found.error());
    }
  }
  while (!removals_.empty() && changes.size() < count_max) {
    changes.push_back({.kind = Change::Kind::removed, .path = std::move(removals_.back())});
    removals_.pop_back();
    ++removals_said_;
  }
  return removals_.empty() && !removals_left_;
}

Status DirectorySurvey::find_removals() {
  if (removals_said_ >= files_max) {
    return fail(ECANCELED, "more would be removed than can be said: " + std::to_string(removals_said_) +
                               " files and directories, and others");
  }
  std::uint64_t passed = 0;
  std::size_t bytes = 0;
  removals_left_ = false;
  Removal removal(entries_, directories_, [](std::uint32_t) { return false; }, *deletion_);
  Status found = removal.look([&](std::string_view path) {
    if (passed++ < removals_said_) {
      return;
    }
    if (bytes >= removed_bytes_max) {
      removals_left_ = true;
      return;
    }
    removals_.push_back(change_path(path));
    bytes += removals_.back().size() + sizeof(std::string);
  });
  std::ranges::reverse(removals_);
  return found;
}

}  // namespace sluice::ftx
