// SPDX-License-Identifier: Apache-2.0
// What a FileSource sends: entries, and the walk through trees.
#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "apps/ftx/files/source.h"
#include "apps/ftx/files/system.h"
#include "apps/ftx/files/walk.h"
#include "apps/ftx/protocol/message.h"
#include "apps/ftx/protocol/name.h"

namespace sluice::ftx {
namespace {

/// A directory that is read; closes itself.
class Listing {
 public:
  /// Takes the descriptor.
  explicit Listing(Descriptor directory) : stream_(os().fdopendir(directory.get())) {
    if (stream_ != nullptr) {
      descriptor_ = directory.release();
    }
  }
  ~Listing() {
    if (stream_ != nullptr) {
      os().closedir(stream_);
    }
  }
  Listing(const Listing&) = delete;
  Listing& operator=(const Listing&) = delete;

  [[nodiscard]] bool valid() const { return stream_ != nullptr; }
  [[nodiscard]] int descriptor() const { return descriptor_; }
  /// In the order of their bytes. False, and errno: it cannot be read.
  [[nodiscard]] bool names(std::vector<std::string>& names) {
    for (;;) {
      errno = 0;
      const dirent* const entry = os().readdir(stream_);
      if (entry == nullptr) {
        std::ranges::sort(names);
        return errno == 0;
      }
      const std::string_view name = entry->d_name;
      if (name != "." && name != "..") {
        names.emplace_back(name);
      }
    }
  }

 private:
  DIR* stream_;
  int descriptor_ = -1;
};

std::string_view last_component(std::string_view path) { return path.substr(path.find_last_of('/') + 1); }

std::string joined(const std::string& path, const std::string& name) {
  return path.ends_with('/') ? path + name : path + "/" + name;
}

FileEntry attributes(const struct stat& status) {
  FileEntry entry;
  entry.mode = status.st_mode & 0777U;
  entry.mtime_s = status.st_mtim.tv_sec;
  entry.mtime_ns = static_cast<std::uint32_t>(status.st_mtim.tv_nsec);
  return entry;
}

}  // namespace

/// The tree below an operand: under its name, or, where that says so, only what lies in it, as rsync has it.
std::expected<void, Failure> FileSource::add_tree(const std::string& path, Descriptor directory,
                                                  const struct stat& status) {
  const std::string_view name = last_component(path);
  FileEntry entry = attributes(status);
  entry.kind = EntryKind::directory;
  if (!means_content(name)) {
    entry.name = name;
    if (auto added = add_entry(std::move(entry), status, {path}); !added) {
      return added;
    }
    return add_content(std::move(directory), static_cast<std::uint32_t>(entries_.size()), {path}, 1);
  }
  if (entries_.empty()) {  // what stands for the destination itself comes first
    entries_.push_back(std::move(entry));
    identities_.emplace_back();
    operands_.emplace(0, Operand{path});
    manifest_bytes_ += entry_bytes_min;
  }
  Descriptor inside = enter_directory(directory.get(), ".");
  if (!inside.valid()) {
    return unreadable(path, std::strerror(errno));
  }
  return add_content(std::move(directory), 0, {path, std::make_shared<const Descriptor>(std::move(inside))}, 0);
}

/// Files first, then directories with what lies in them, so that the files of a directory follow each other.
std::expected<void, Failure> FileSource::add_content(Descriptor directory, std::uint32_t parent, const Operand& operand,
                                                     std::size_t depth) {
  const std::string shown = parent == 0 ? operand.path : path(parent - 1);
  Listing listing(std::move(directory));
  std::vector<std::string> names;
  if (!listing.valid() || !listing.names(names)) {
    return unreadable(shown, std::strerror(errno));
  }
  if (depth > tree_depth_max && !names.empty()) {
    return unreadable(joined(shown, names.front()),
                      "it lies deeper than " + std::to_string(tree_depth_max) + " directories");
  }
  std::vector<std::pair<std::string, struct stat>> directories;
  for (std::string& name : names) {
    struct stat status{};
    if (look_at(listing.descriptor(), name, status) != 0) {
      if (errno == ENOENT) {  // it has vanished since the directory was read, as if it had done so before
        continue;
      }
      return unreadable(joined(shown, name), std::strerror(errno));
    }
    if (S_ISDIR(status.st_mode)) {
      directories.emplace_back(std::move(name), status);
    } else if (auto added = add_found(listing.descriptor(), name, status, parent, operand); !added) {
      return added;
    }
  }
  for (const auto& [name, status] : directories) {
    FileEntry entry = attributes(status);
    entry.kind = EntryKind::directory;
    entry.name = name;
    entry.parent = parent;
    Descriptor child = enter_directory(listing.descriptor(), name.c_str());
    if (!child.valid()) {
      return unreadable(joined(shown, name), std::strerror(errno));
    }
    if (auto added = add_entry(std::move(entry), status, {joined(shown, name), operand.inside}); !added) {
      return added;
    }
    const auto index = static_cast<std::uint32_t>(entries_.size());
    if (auto added = add_content(std::move(child), index, operand, depth + 1); !added) {
      return added;
    }
  }
  return {};
}

/// What is no directory. `name` is relative to `directory`, and of an operand its path.
std::expected<void, Failure> FileSource::add_found(int directory, const std::string& name, const struct stat& status,
                                                   std::uint32_t parent, const Operand& operand) {
  FileEntry entry = attributes(status);
  entry.name = last_component(name);
  entry.parent = parent;
  Operand from;
  if (parent == 0) {
    from = {operand.inside ? joined(operand.path, name) : operand.path, operand.inside};
  }
  if (S_ISREG(status.st_mode)) {
    entry.size_bytes = static_cast<std::uint64_t>(status.st_size);
    entry.kind = options_.pack && entry.size_bytes <= packed_bytes_max ? EntryKind::packed : EntryKind::file;
    return add_entry(std::move(entry), status, std::move(from));
  }
  if (S_ISLNK(status.st_mode) && options_.trees == Trees::with_links) {
    return add_link(directory, name, std::move(entry), status, std::move(from));
  }
  ++(S_ISLNK(status.st_mode) ? left_out_.links : left_out_.others);
  return {};
}

std::expected<void, Failure> FileSource::add_link(int directory, const std::string& name, FileEntry entry,
                                                  const struct stat& status, Operand operand) {
  std::array<char, link_target_bytes_max + 1> target;
  const ssize_t size = retried([&] { return os().readlinkat(directory, name.c_str(), target.data(), target.size()); });
  if (size <= 0 || static_cast<std::size_t>(size) > link_target_bytes_max) {
    return unreadable(name, size < 0 ? std::strerror(errno) : "it leads nowhere that can be named");
  }
  entry.kind = EntryKind::link;
  entry.target.assign(target.data(), static_cast<std::size_t>(size));
  return add_entry(std::move(entry), status, std::move(operand));
}

std::expected<void, Failure> FileSource::add_entry(FileEntry entry, const struct stat& status, Operand operand) {
  const auto index = static_cast<std::uint32_t>(entries_.size());
  if (!is_component(entry.name)) {
    return unreadable(entry.parent == 0 ? operand.path : joined(path(entry.parent - 1), entry.name),
                      "its name holds control characters");
  }
  if (entry.parent == 0 && !names_.insert(entry.name).second) {
    return std::unexpected(Failure{ExitCode::usage, "two sources are named '" + printable(entry.name) + "'"});
  }
  total_bytes_ += entry.size_bytes;
  manifest_bytes_ += entry_bytes(entry);
  if (entry.size_bytes >= file_bytes_max || total_bytes_ >= file_bytes_max || index >= files_max ||
      manifest_bytes_ > UINT32_MAX) {
    return std::unexpected(Failure{ExitCode::usage, "more than one transfer can carry: " + printable(operand.path)});
  }
  if (entry.parent == 0) {
    operands_.emplace(index, std::move(operand));
  }
  entries_.push_back(std::move(entry));
  identities_.push_back({status.st_dev, status.st_ino, static_cast<std::uint64_t>(status.st_size),
                         status.st_mtim.tv_sec, status.st_mtim.tv_nsec, status.st_ctim.tv_sec, status.st_ctim.tv_nsec});
  return {};
}

}  // namespace sluice::ftx
