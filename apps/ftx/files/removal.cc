// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/files/removal.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <tuple>
#include <utility>

#include "apps/ftx/files/directory_file.h"
#include "apps/ftx/files/listing.h"
#include "apps/ftx/files/system.h"
#include "apps/ftx/files/walk.h"

namespace sluice::ftx {

Removal::Removal(std::span<const FileEntry> entries, OpenDirectories& directories, IsNew is_new,
                 const Deletion& deletion)
    : entries_(entries),
      directories_(directories),
      is_new_(std::move(is_new)),
      deletion_(deletion),
      filter_(deletion.rules, Filter::Side::receiver),
      sorted_(places_by_name(entries)) {}

Status Removal::run() {
  if (Status counted = count(); !counted) {
    return counted;
  }
  acts_ = true;
  pass();
  return outcome_;
}

Status Removal::look(Found found) {
  if (Status counted = count(); !counted) {
    return counted;
  }
  tells_ = std::move(found);
  pass();
  return outcome_;
}

/// Looks whether all that run() would remove may go.
Status Removal::count() {
  pass();
  const auto more_than = [](std::string_view what) {
    return fail(ECANCELED, "nothing was removed: " + std::string(what));
  };
  if (outcome_ && !emptied_.empty() && !deletion_.empty_sources) {
    return more_than("the source of '" + emptied_ +
                     "' is empty, and all that lies there would go; --force-delete removes it all the same");
  }
  if (outcome_ && deletion_.files_max && found_ > *deletion_.files_max) {
    return more_than(std::to_string(found_) + " files and directories would go, and --max-delete allows " +
                     std::to_string(*deletion_.files_max));
  }
  return outcome_;
}

/// All directories of the list.
void Removal::pass() {
  for (std::uint32_t index = 0; index < entries_.size(); ++index) {
    const FileEntry& entry = entries_[index];
    if (entry.kind != EntryKind::directory) {
      continue;
    }
    Level level;
    level.parent = entry.top() ? 0 : index + 1;
    level.directory = directories_.at(*level.parent);
    const std::string path = path_of(entries_, entry);
    if (level.directory < 0 && errno != ENOENT) {
      note_error(errno, path);
    }
    if (level.directory < 0 || is_new_(*level.parent)) {
      continue;
    }
    level.inside = entry.top() ? "" : path + "/";
    const std::uint64_t before = found_;
    // What is left in it is what the list has, or is kept.
    [[maybe_unused]] const bool cleared = clear(level);
    if (entry.parent == 0 && !has_entries(*level.parent) && found_ > before) {
      emptied_ = entry.top() ? "." : path;
    }
  }
}

/// Whether nothing is left in it.
bool Removal::clear(const Level& level) {
  Level inside = level;
  struct stat status{};
  Listing listing(enter_directory(level.directory, "."));
  std::vector<std::string> names;
  if (!listing.valid() || !listing.names(names) ||
      retried([&] { return os().fstat(listing.descriptor(), &status); }) != 0) {
    note_error(errno, level.inside);
    return false;
  }
  inside.directory = listing.descriptor();
  inside.device = status.st_dev;
  bool empty = true;
  for (const std::string& name : names) {
    empty = clear_one(inside, name) && empty;
  }
  if (inside.mode_before) {
    [[maybe_unused]] const int changed = retried([&] { return os().fchmod(inside.directory, *inside.mode_before); });
  }
  return empty;
}

/// Whether nothing of that name is left.
bool Removal::clear_one(Level& level, const std::string& name) {
  if ((level.parent && listed(*level.parent, name)) || is_temporary(name)) {
    return false;
  }
  struct stat status{};
  if (look_at(level.directory, name.c_str(), status) != 0) {
    if (errno == ENOENT) {
      return true;
    }
    note_error(errno, level.inside + name);
    return false;
  }
  const bool directory = S_ISDIR(status.st_mode);
  if (filter_.excludes(level.inside + name, directory)) {
    return false;
  }
  if (!directory) {
    return remove(level, name, 0);
  }
  return status.st_dev == level.device && clear_directory(level, name) && remove(level, name, AT_REMOVEDIR);
}

bool Removal::clear_directory(const Level& level, const std::string& name) {
  if (level.depth >= depth_max) {
    note_error(ENAMETOOLONG, level.inside + name);
    return false;
  }
  const Descriptor child = enter_directory(level.directory, name.c_str());
  struct stat status{};
  if (!child.valid() || retried([&] { return os().fstat(child.get(), &status); }) != 0) {
    note_error(errno, level.inside + name);
    return false;
  }
  // Something may have been mounted since the look.
  return status.st_dev == level.device &&
         clear({.directory = child.get(), .inside = level.inside + name + "/", .depth = level.depth + 1});
}

bool Removal::remove(Level& level, const std::string& name, int flags) {
  ++found_;
  if (tells_) {
    tells_(level.inside + name + (flags == AT_REMOVEDIR ? "/" : ""));
  }
  const auto unlink = [&] {
    return retried([&] { return os().unlinkat(level.directory, name.c_str(), flags); }) == 0 || errno == ENOENT;
  };
  if (!acts_ || unlink() || (errno == EACCES && make_writable(level) && unlink())) {
    return true;
  }
  note_error(errno, level.inside + name);
  return false;
}

/// False, and errno EACCES: it is, or is somebody else's.
bool Removal::make_writable(Level& level) {
  constexpr mode_t fill_mode = 0700;
  struct stat status{};
  if (retried([&] { return os().fstat(level.directory, &status); }) == 0 && status.st_uid == ::geteuid() &&
      (status.st_mode & fill_mode) != fill_mode &&
      retried([&] { return os().fchmod(level.directory, (status.st_mode & 07777U) | fill_mode); }) == 0) {
    level.mode_before = status.st_mode & 07777U;
    return true;
  }
  errno = EACCES;
  return false;
}

bool Removal::listed(std::uint32_t parent, std::string_view name) const {
  const auto key = [this](std::uint32_t index) {
    return std::tuple(entries_[index].parent, std::string_view(entries_[index].name));
  };
  return std::ranges::binary_search(sorted_, std::tuple(parent, name), {}, key);
}

/// The top lies in itself, as it were.
bool Removal::has_entries(std::uint32_t parent) const {
  const auto [from, to] =
      std::ranges::equal_range(sorted_, parent, {}, [this](std::uint32_t index) { return entries_[index].parent; });
  return std::any_of(from, to, [this](std::uint32_t index) { return !entries_[index].top(); });
}

void Removal::note_error(int code, const std::string& path) {
  if (outcome_) {
    errno = code;
    outcome_ = system_error("cannot remove", path);
  }
}

}  // namespace sluice::ftx
