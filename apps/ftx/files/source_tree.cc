// SPDX-License-Identifier: Apache-2.0
// What a FileSource sends: entries, and the walk through trees.
#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "apps/ftx/files/attributes.h"
#include "apps/ftx/files/listing.h"
#include "apps/ftx/files/source.h"
#include "apps/ftx/files/sparse.h"
#include "apps/ftx/files/system.h"
#include "apps/ftx/files/walk.h"
#include "apps/ftx/protocol/message.h"
#include "apps/ftx/protocol/name.h"

namespace sluice::ftx {
namespace {

std::string joined(const std::string& path, const std::string& name) {
  return path.ends_with('/') ? path + name : path + "/" + name;
}

FileEntry attributes(const struct stat& status) {
  FileEntry entry;
  entry.mode = static_cast<std::uint16_t>(status.st_mode & 0777U);
  entry.mtime_s = status.st_mtim.tv_sec;
  entry.mtime_ns = static_cast<std::uint32_t>(status.st_mtim.tv_nsec);
  return entry;
}

/// Names that cannot be sent count for nothing.
Principal principal(std::uint32_t id, std::string name) {
  const bool good = name.size() <= Principal::name_bytes_max && is_printable(name);
  return {id, good ? std::move(name) : std::string()};
}

}  // namespace

/// For people: `name` in the directory `parent`, or the operand `from`.
std::string FileSource::shown_path(const std::string& name, std::uint32_t parent, const Operand& from) const {
  return parent == 0 ? from.path : joined(path(parent - 1), name);
}

/// The tree below an operand: under its name, or, where that says so, only what lies in it, as rsync has it.
std::expected<void, Failure> FileSource::add_tree(const std::string& path, Descriptor directory,
                                                  const struct stat& status) {
  const std::string_view name = last_component(path);
  if (options_.select.names || means_content(name)) {
    const auto operand = add_top(path, directory.get(), status);
    if (!operand) {
      return std::unexpected(operand.error());
    }
    return options_.select.names ? add_names(*operand) : add_content(std::move(directory), 0, *operand, 0, Levels::all);
  }
  const auto index = add_directory(std::string(name), directory.get(), status, 0, {path});
  return index ? add_content(std::move(directory), *index, {path}, 1, Levels::all) : std::unexpected(index.error());
}

/// What stands for the destination itself comes first.
std::expected<FileSource::Operand, Failure> FileSource::add_top(const std::string& path, int directory,
                                                                const struct stat& status) {
  if (entries_.empty()) {
    FileEntry entry = attributes(status);
    entry.kind = EntryKind::directory;
    if (Status added = add_metadata(entry, status, directory); !added) {
      return unreadable(path, added.error().text);
    }
    manifest_bytes_ += entry_bytes(entry);
    entries_.push_back(std::move(entry));
    identities_.emplace_back();
    operands_.emplace(0, Operand{path});
  }
  Descriptor inside = enter_directory(directory, ".");
  if (!inside.valid()) {
    return unreadable(path, std::strerror(errno));
  }
  return Operand{path, std::make_shared<const Descriptor>(std::move(inside))};
}

std::expected<void, Failure> FileSource::add_names(const Operand& operand) {
  for (const std::string& name : *options_.select.names) {
    if (auto added = add_name(name, operand); !added) {
      return added;
    }
  }
  return {};
}

/// The directories around what is named come with it, whatever the filter rules say of them, as rsync has it.
std::expected<void, Failure> FileSource::add_name(const std::string& name, const Operand& operand) {
  const Levels levels = options_.select.recursive             ? Levels::all
                        : name.empty() || name.ends_with('/') ? Levels::one
                                                              : Levels::none;
  const auto walk = components(name);
  std::vector<struct stat> found(walk.size());
  Descriptor at = enter_directory(operand.inside->get(), ".");
  bool good = at.valid();
  if (good && walk.size() > tree_depth_max) {
    errno = ENAMETOOLONG;
    good = false;
  }
  for (std::size_t i = 0; good && i < walk.size(); ++i) {
    good = look_at(at.get(), std::string(walk[i]).c_str(), found[i]) == 0;
    if (good && i + 1 < walk.size()) {
      at = enter_directory(at.get(), std::string(walk[i]).c_str());
      good = at.valid();
    }
  }
  if (good && name.ends_with('/') && !S_ISDIR(found.back().st_mode)) {
    errno = ENOTDIR;
    good = false;
  }
  if (!good) {
    return unreadable(joined(operand.path, name), std::strerror(errno));
  }
  if (walk.empty()) {
    return add_content(std::move(at), 0, operand, 0, levels);
  }
  const bool directory = S_ISDIR(found.back().st_mode);
  if (filter_.excludes(name.substr(0, name.size() - (name.ends_with('/') ? 1 : 0)), directory)) {
    return {};
  }
  std::uint32_t parent = 0;
  std::string inside;
  Descriptor here = enter_directory(operand.inside->get(), ".");
  for (std::size_t i = 0; i + (directory ? 0 : 1) < walk.size(); ++i) {
    inside += (i == 0 ? "" : "/") + std::string(walk[i]);
    here = options_.select.attributes ? enter_directory(here.get(), std::string(walk[i]).c_str()) : Descriptor();
    const auto index = add_directory(inside, here.get(), found[i], parent, operand);
    if (!index) {
      return std::unexpected(index.error());
    }
    parent = *index;
  }
  if (!directory) {
    return first_time(name) ? add_found(at.get(), std::string(walk.back()), found.back(), parent, operand)
                            : std::expected<void, Failure>{};
  }
  if (levels == Levels::none) {
    return {};
  }
  Descriptor child = enter_directory(at.get(), std::string(walk.back()).c_str());
  return child.valid() ? add_content(std::move(child), parent, operand, walk.size(), levels)
                       : unreadable(joined(operand.path, name), std::strerror(errno));
}

/// Whether the list does not have it yet. Only names can name something twice.
bool FileSource::first_time(const std::string& inside) {
  return !options_.select.names || listed_.try_emplace(inside).second;
}

/// Answers FileEntry::parent of what lies in it. `inside` is its path below where the transfer goes, `descriptor` that
/// of the directory, where extended attributes are asked for.
std::expected<std::uint32_t, Failure> FileSource::add_directory(const std::string& inside, int descriptor,
                                                                const struct stat& status, std::uint32_t parent,
                                                                const Operand& operand) {
  if (!first_time(inside)) {
    return listed_[inside].index;
  }
  FileEntry entry = attributes(status);
  entry.kind = EntryKind::directory;
  entry.name = entry_names_.add(last_component(inside));
  entry.parent = parent;
  Operand from{operand.inside ? joined(operand.path, inside) : operand.path, operand.inside};
  if (Status added = add_metadata(entry, status, descriptor); !added) {
    return unreadable(shown_path(std::string(entry.name), parent, from), added.error().text);
  }
  if (auto added = add_entry(std::move(entry), status, std::move(from)); !added) {
    return std::unexpected(added.error());
  }
  const auto index = static_cast<std::uint32_t>(entries_.size());
  if (options_.select.names) {
    listed_[inside].index = index;
  }
  return index;
}

/// Files first, then directories with what lies in them, so that the files of a directory follow each other.
std::expected<void, Failure> FileSource::add_content(Descriptor directory, std::uint32_t parent, const Operand& operand,
                                                     std::size_t depth, Levels levels) {
  const std::string shown = parent == 0 ? operand.path : path(parent - 1);
  // As filter rules see it.
  const std::string above = parent == 0 ? std::string() : path_of(entries_, entries_[parent - 1]);
  if (options_.select.names && std::exchange(listed_[above].levels, levels) >= levels) {
    return {};
  }
  Listing listing(std::move(directory));
  std::vector<std::string> names;
  if (!listing.valid() || !listing.names(names)) {
    return unreadable(shown, std::strerror(errno));
  }
  if (depth > tree_depth_max && !names.empty()) {
    return unreadable(joined(shown, names.front()),
                      "it lies deeper than " + std::to_string(tree_depth_max) + " directories");
  }
  const std::string inside = above.empty() ? above : above + "/";
  std::vector<std::pair<std::string, struct stat>> directories;
  for (std::string& name : names) {
    struct stat status{};
    if (look_at(listing.descriptor(), name.c_str(), status) != 0) {
      if (errno == ENOENT) {  // it has vanished since the directory was read, as if it had done so before
        continue;
      }
      return unreadable(joined(shown, name), std::strerror(errno));
    }
    if (filter_.excludes(inside + name, S_ISDIR(status.st_mode))) {
      continue;
    }
    if (S_ISDIR(status.st_mode)) {
      directories.emplace_back(std::move(name), status);
    } else if (!first_time(inside + name)) {
      continue;
    } else if (auto added = add_found(listing.descriptor(), name, status, parent, operand); !added) {
      return added;
    }
  }
  for (const auto& [name, status] : directories) {
    if (auto added = add_below(listing.descriptor(), inside + name, status, parent, operand, depth, levels); !added) {
      return added;
    }
  }
  return {};
}

/// A directory that has been found in `parent`, and what lies in it.
std::expected<void, Failure> FileSource::add_below(int directory, const std::string& inside, const struct stat& status,
                                                   std::uint32_t parent, const Operand& operand, std::size_t depth,
                                                   Levels levels) {
  const std::string name(last_component(inside));
  Descriptor child = enter_directory(directory, name.c_str());
  if (!child.valid()) {
    return unreadable(joined(parent == 0 ? operand.path : path(parent - 1), name), std::strerror(errno));
  }
  const auto index = add_directory(inside, child.get(), status, parent, operand);
  if (!index || levels != Levels::all) {
    return index ? std::expected<void, Failure>{} : std::unexpected(index.error());
  }
  return add_content(std::move(child), *index, operand, depth + 1, levels);
}

/// What is no directory. `name` is relative to `directory`, and of an operand its path. `descriptor`: of the file,
/// where it is open.
std::expected<void, Failure> FileSource::add_found(int directory, const std::string& name, const struct stat& status,
                                                   std::uint32_t parent, const Operand& operand, int descriptor) {
  FileEntry entry = attributes(status);
  entry.name = entry_names_.add(last_component(name));
  entry.parent = parent;
  Operand from;
  if (parent == 0) {
    from = {operand.inside ? joined(operand.path, name) : operand.path, operand.inside};
  }
  if (S_ISREG(status.st_mode)) {
    if (const std::uint32_t original = original_of(status); original != 0) {
      entry.kind = EntryKind::hard_link;
      entry.original = original;
      return add_entry(std::move(entry), status, std::move(from));
    }
    entry.size_bytes = static_cast<std::uint64_t>(status.st_size);
    entry.kind = options_.pack && entry.size_bytes <= packed_bytes_max ? EntryKind::packed : EntryKind::file;
    const bool sparse = entry.kind == EntryKind::file && looks_sparse(status);
    Descriptor opened;
    if (descriptor < 0 && (sparse || options_.select.attributes)) {
      opened = open_found(directory, name, status);
      descriptor = opened.get();
    }
    if (auto extents = sparse && descriptor >= 0 ? extents_of(descriptor, entry.size_bytes) : std::nullopt) {
      entry.form = *std::move(extents);
    }
    if (Status added = add_metadata(entry, status, descriptor); !added) {
      return unreadable(shown_path(name, parent, from), added.error().text);
    }
    return add_entry(std::move(entry), status, std::move(from));
  }
  if (S_ISLNK(status.st_mode) && options_.trees == Trees::with_links) {
    return add_link(directory, name, std::move(entry), status, std::move(from));
  }
  ++(S_ISLNK(status.st_mode) ? left_out_.links : left_out_.others);
  if (!options_.select.left_out) {
    return {};
  }
  entry.kind = EntryKind::left_out;
  return add_entry(std::move(entry), status, std::move(from));
}

/// Invalid: it cannot be opened, which whoever reads it will say, or is not the file that was looked at any more.
Descriptor FileSource::open_found(int directory, const std::string& name, const struct stat& status) {
  Descriptor opened(retried([&] { return os().openat(directory, name.c_str(), open_flags | O_NOFOLLOW, 0); }));
  struct stat now{};
  const bool same = opened.valid() && os().fstat(opened.get(), &now) == 0 && identity_of(now) == identity_of(status);
  return same ? std::move(opened) : Descriptor();
}

/// What was asked for of owners and extended attributes. `descriptor`: of what may have attributes; else -1.
Status FileSource::add_metadata(FileEntry& entry, const struct stat& status, int descriptor) const {
  const Selection& select = options_.select;
  const Accounts* const accounts = options_.accounts.get();
  Metadata metadata;
  if (select.user) {
    metadata.user = principal(status.st_uid, accounts != nullptr ? accounts->user_name(status.st_uid) : "");
  }
  if (select.group) {
    metadata.group = principal(status.st_gid, accounts != nullptr ? accounts->group_name(status.st_gid) : "");
  }
  if (select.attributes) {
    auto attributes = descriptor >= 0 ? read_extended_attributes(descriptor)
                                      : Result<std::optional<ExtendedAttributes>>(ExtendedAttributes());
    if (!attributes || !*attributes) {
      return attributes ? fail(E2BIG, "it has more extended attributes than can be sent")
                        : Status(std::unexpected(attributes.error()));
    }
    metadata.attributes = **std::move(attributes);
  }
  // As a rule that of the entry before it, which they then share.
  const Shared<Metadata> before = entries_.empty() ? Shared<Metadata>() : entries_.back().metadata;
  if (!metadata.empty()) {
    entry.metadata = before && *before == metadata ? before : Shared<Metadata>(std::move(metadata));
  }
  return {};
}

/// FileEntry::original of a file that the list has under another name. 0: it has none, and this becomes the one.
std::uint32_t FileSource::original_of(const struct stat& status) {
  if (!options_.select.hard_links || status.st_nlink < 2) {
    return 0;
  }
  const auto [original, is_new] =
      originals_.try_emplace({status.st_dev, status.st_ino}, static_cast<std::uint32_t>(entries_.size() + 1));
  return is_new ? 0 : original->second;
}

std::expected<void, Failure> FileSource::add_link(int directory, const std::string& name, FileEntry entry,
                                                  const struct stat& status, Operand operand) {
  std::array<char, link_target_bytes_max + 1> target;
  const ssize_t size = retried([&] { return os().readlinkat(directory, name.c_str(), target.data(), target.size()); });
  if (size <= 0 || static_cast<std::size_t>(size) > link_target_bytes_max) {
    return unreadable(name, size < 0 ? std::strerror(errno) : "it leads nowhere that can be named");
  }
  entry.kind = EntryKind::link;
  entry.form = std::string(target.data(), static_cast<std::size_t>(size));
  if (Status added = add_metadata(entry, status, -1); !added) {
    return unreadable(name, added.error().text);
  }
  return add_entry(std::move(entry), status, std::move(operand));
}

std::expected<void, Failure> FileSource::add_entry(FileEntry entry, const struct stat& status, Operand operand) {
  const auto index = static_cast<std::uint32_t>(entries_.size());
  if (!is_component(entry.name)) {
    return unreadable(entry.parent == 0 ? operand.path : joined(path(entry.parent - 1), std::string(entry.name)),
                      "its name holds control characters");
  }
  if (entry.parent == 0 && !names_.emplace(entry.name).second) {
    return std::unexpected(Failure{ExitCode::usage, "two sources are named '" + printable(entry.name) + "'"});
  }
  total_bytes_ += entry.content_bytes();
  // What has no metadata of its own counts as if it had that of the one before it.
  if (!entry.metadata && index > 0) {
    entry.metadata = entries_.back().metadata;
  }
  manifest_bytes_ += entry_bytes(entry, index > 0 ? entries_.back().metadata : Shared<Metadata>()) +
                     (options_.select.digests ? digest_bytes : 0);
  if (entry.size_bytes >= file_bytes_max || entry.content_bytes() >= file_content_max ||
      total_bytes_ >= file_bytes_max || index >= files_max || manifest_bytes_ > UINT32_MAX) {
    return std::unexpected(Failure{ExitCode::usage, "more than one transfer can carry: " + printable(operand.path)});
  }
  if (entry.parent == 0) {
    operands_.emplace(index, std::move(operand));
  }
  entries_.push_back(std::move(entry));
  identities_.push_back(identity_of(status));
  return {};
}

}  // namespace sluice::ftx
