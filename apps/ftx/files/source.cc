// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/files/source.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <unordered_set>

#include "apps/ftx/files/system.h"
#include "apps/ftx/protocol/message.h"
#include "apps/ftx/protocol/name.h"
#include "base/contract.h"

namespace sluice::ftx {
namespace {

// Opening a FIFO must not block, and opening a terminal must not make it the controlling one.
constexpr int open_flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;

int open_file(const std::string& path) {
  return retried([&] { return os().openat(AT_FDCWD, path.c_str(), open_flags, 0); });
}

int status_of(int descriptor, struct stat& status) {
  return retried([&] { return os().fstat(descriptor, &status); });
}

std::unexpected<Failure> unreadable(const std::string& path, std::string_view why) {
  return std::unexpected(
      Failure{ExitCode::source_unreadable, "cannot read '" + printable(path) + "': " + std::string(why)});
}

constexpr const char* shorter_text = "it became shorter while it was sent";

std::string last_component(const std::string& path) { return path.substr(path.find_last_of('/') + 1); }

}  // namespace

std::expected<std::unique_ptr<FileSource>, Failure> FileSource::open(std::span<const std::string> paths,
                                                                     ReadBy read_by) {
  return open(paths, open_file, read_by);
}

std::expected<std::unique_ptr<FileSource>, Failure> FileSource::open(std::span<const std::string> paths, Opener opener,
                                                                     ReadBy read_by) {
  std::unique_ptr<FileSource> source(new FileSource(std::move(opener), read_by));
  if (paths.size() > files_max) {
    return std::unexpected(Failure{ExitCode::usage, "too many files for one transfer"});
  }
  std::unordered_set<std::string> names;
  std::uint64_t total_bytes = 0;
  for (const std::string& path : paths) {
    if (!names.insert(last_component(path)).second) {
      return std::unexpected(
          Failure{ExitCode::usage, "two sources are named '" + printable(last_component(path)) + "'"});
    }
    if (auto added = source->add(path); !added) {
      return std::unexpected(added.error());
    }
    total_bytes += source->entries_.back().size_bytes;
    if (source->entries_.back().size_bytes >= file_bytes_max || total_bytes >= file_bytes_max) {
      return std::unexpected(Failure{ExitCode::usage, "more than one transfer can carry: " + printable(path)});
    }
  }
  return source;
}

std::expected<void, Failure> FileSource::add(const std::string& path) {
  const Descriptor descriptor(opener_(path));
  struct stat status{};
  if (!descriptor.valid() || status_of(descriptor.get(), status) != 0) {
    return unreadable(path, std::strerror(errno));
  }
  if (!S_ISREG(status.st_mode)) {
    return unreadable(path, S_ISDIR(status.st_mode) ? "it is a directory" : "it is not a regular file");
  }
  FileEntry entry;
  entry.name = last_component(path);
  if (!is_component(entry.name)) {
    return unreadable(path, "its name holds control characters");
  }
  entry.size_bytes = static_cast<std::uint64_t>(status.st_size);
  entry.mode = status.st_mode & 0777U;
  entry.mtime_s = status.st_mtim.tv_sec;
  entry.mtime_ns = static_cast<std::uint32_t>(status.st_mtim.tv_nsec);
  entries_.push_back(std::move(entry));
  paths_.push_back(path);
  identities_.push_back({status.st_dev, status.st_ino, static_cast<std::uint64_t>(status.st_size),
                         status.st_mtim.tv_sec, status.st_mtim.tv_nsec, status.st_ctim.tv_sec, status.st_ctim.tv_nsec});
  return {};
}

std::string FileSource::path(std::uint32_t index) const { return printable(paths_[index]); }

Result<int> FileSource::descriptor(std::uint32_t index) {
  Open& open = open_[index % open_max];
  if (open.descriptor.valid() && open.index == index) {
    return open.descriptor.get();
  }
  Descriptor descriptor(opener_(paths_[index]));
  if (!descriptor.valid()) {
    return fail(errno, std::strerror(errno));
  }
  // Kept only when it is the file that was offered: the next call asks no more.
  if (auto status = same(index, descriptor.get()); !status) {
    return std::unexpected(status.error());
  }
  open = {index, std::move(descriptor)};
  return open.descriptor.get();
}

Status FileSource::same(std::uint32_t index, int descriptor) const {
  struct stat status{};
  if (status_of(descriptor, status) != 0) {
    return fail(errno, std::strerror(errno));
  }
  const Identity now{status.st_dev,         status.st_ino,          static_cast<std::uint64_t>(status.st_size),
                     status.st_mtim.tv_sec, status.st_mtim.tv_nsec, status.st_ctim.tv_sec,
                     status.st_ctim.tv_nsec};
  if (now.size_bytes < identities_[index].size_bytes) {
    return fail(ESTALE, shorter_text);
  }
  if (now != identities_[index]) {
    return fail(ESTALE, "it changed while it was sent");
  }
  return {};
}

Status FileSource::read(std::uint32_t index, std::uint64_t offset, Bytes out) {
  SLUICE_REQUIRE(index < entries_.size() && offset + out.size() <= entries_[index].size_bytes);
  const auto open = descriptor(index);
  if (!open) {
    return std::unexpected(open.error());
  }
  while (!out.empty()) {
    const ssize_t got = retried([&] { return os().pread(*open, out.data(), out.size(), static_cast<off_t>(offset)); });
    if (got < 0) {
      return fail(errno, std::strerror(errno));
    }
    if (got == 0) {
      return fail(ESTALE, shorter_text);
    }
    out = out.subspan(static_cast<std::size_t>(got));
    offset += static_cast<std::uint64_t>(got);
  }
  return {};
}

Result<ConstBytes> FileSource::view(std::uint32_t index, std::uint64_t offset, std::size_t size) {
  SLUICE_REQUIRE(index < entries_.size());
  const std::uint64_t file_bytes = entries_[index].size_bytes;
  if (read_by_ != ReadBy::map || file_bytes < map_file_bytes_min) {
    return fail(ENOTSUP);
  }
  int opened = -1;
  if (!windows_.holds(index, offset)) {
    const auto open = descriptor(index);
    if (!open) {
      return std::unexpected(open.error());
    }
    opened = *open;
  }
  const auto range = windows_.range({index, opened, file_bytes}, offset, size);
  // No window left, no memory, or a file system that does not map: the caller reads instead.
  if (!range) {
    return fail(ENOTSUP);
  }
  return *range;
}

std::optional<Source::Damage> FileSource::damaged() {
  const auto index = windows_.failed();
  if (!index) {
    return std::nullopt;
  }
  const Status status = unchanged(*index);
  return Damage{*index, status ? Error{EIO, std::strerror(EIO)} : status.error()};
}

Status FileSource::unchanged(std::uint32_t index) {
  const auto open = descriptor(index);
  if (!open) {
    return std::unexpected(open.error());
  }
  return same(index, *open);
}

}  // namespace sluice::ftx
