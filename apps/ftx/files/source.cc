// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/files/source.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "apps/ftx/files/system.h"
#include "apps/ftx/files/walk.h"
#include "apps/ftx/protocol/message.h"
#include "apps/ftx/protocol/name.h"
#include "base/contract.h"

namespace sluice::ftx {
namespace {

int status_of(int descriptor, struct stat& status) {
  return retried([&] { return os().fstat(descriptor, &status); });
}

constexpr const char* shorter_text = "it became shorter while it was sent";
constexpr const char* changed_text = "it changed while it was sent";

}  // namespace

int FileSource::open_path(const std::string& path) {
  return retried([&] { return os().openat(AT_FDCWD, path.c_str(), open_flags, 0); });
}

std::unexpected<Failure> unreadable(const std::string& path, std::string_view why) {
  return std::unexpected(
      Failure{ExitCode::source_unreadable, "cannot read '" + printable(path) + "': " + std::string(why)});
}

Failure source_failure(const Source& source, std::uint32_t index, const Error& error) {
  const ExitCode code = error.code == ESTALE ? ExitCode::source_changed : ExitCode::source_unreadable;
  return {code, "source '" + source.path(index) + "': " + error.text};
}

std::expected<std::unique_ptr<FileSource>, Failure> FileSource::open(std::span<const std::string> paths,
                                                                     SourceOptions options) {
  return open(paths, Opener(), std::move(options));
}

std::expected<std::unique_ptr<FileSource>, Failure> FileSource::open(std::span<const std::string> paths, Opener opener,
                                                                     SourceOptions options) {
  std::unique_ptr<FileSource> source(new FileSource(std::move(opener), std::move(options)));
  if (source->options_.select.names && (paths.size() != 1 || source->options_.trees == Trees::none)) {
    return std::unexpected(Failure{ExitCode::usage, "the names of files are relative to one source, a directory"});
  }
  for (const std::string& path : paths) {
    if (auto added = source->add(path); !added) {
      return std::unexpected(added.error());
    }
  }
  if (source->entries_.empty()) {
    return std::unexpected(Failure{ExitCode::source_unreadable, source->filter_.empty()
                                                                    ? "there is nothing to send"
                                                                    : "the filter rules exclude all sources"});
  }
  FileSource* const self = source.get();
  source->directories_.emplace(self->entries_, Descriptor(), [self](int parent, std::uint32_t index) {
    const FileEntry& entry = self->entries_[index];
    return entry.parent == 0 ? Descriptor(self->open_entry(index)) : enter_directory(parent, entry.name.c_str());
  });
  source->names_ = {};
  source->listed_ = {};
  source->originals_ = {};
  return source;
}

/// What the user named: a file, a link to one, or a tree.
std::expected<void, Failure> FileSource::add(const std::string& path) {
  struct stat status{};
  if (opens_paths_ && !options_.select.names && options_.trees == Trees::with_links &&
      look_at(AT_FDCWD, path.c_str(), status) == 0 && S_ISLNK(status.st_mode)) {
    return filter_.excludes(last_component(path), false) ? std::expected<void, Failure>{}
                                                         : add_found(AT_FDCWD, path, status, 0, {path});
  }
  Descriptor descriptor(opener_(path));
  const bool looked = descriptor.valid() && status_of(descriptor.get(), status) == 0;
  if (options_.trees == Trees::none && (looked ? S_ISDIR(status.st_mode) : errno == EISDIR)) {
    return unreadable(path, "it is a directory; say -r to send it with what is in it");
  }
  if (!looked) {
    return unreadable(path, std::strerror(errno));
  }
  const std::string_view name = last_component(path);
  if (!means_content(name) && !options_.select.names && filter_.excludes(name, S_ISDIR(status.st_mode))) {
    return {};
  }
  if (S_ISDIR(status.st_mode)) {
    return add_tree(path, std::move(descriptor), status);
  }
  if (options_.select.names) {
    return unreadable(path, "the names of files are relative to it, and it is not a directory");
  }
  if (!S_ISREG(status.st_mode)) {
    return unreadable(path, "it is not a regular file");
  }
  return add_found(AT_FDCWD, path, status, 0, {path}, descriptor.get());
}

std::string FileSource::path(std::uint32_t index) const {
  std::string inside;
  for (; entries_[index].parent != 0; index = entries_[index].parent - 1) {
    inside = "/" + entries_[index].name + inside;
  }
  return printable(operands_.at(index).path + inside);
}

/// -1, and errno.
int FileSource::open_entry(std::uint32_t index) {
  const FileEntry& entry = entries_[index];
  int directory = -1;
  if (entry.parent != 0) {
    directory = directories_->at(entry.parent);
  } else if (const Operand& operand = operands_.at(index); operand.inside) {
    directory = operand.inside->get();
  } else {
    return opener_(operand.path);
  }
  return directory < 0
             ? -1
             : retried([&] { return os().openat(directory, entry.name.c_str(), open_flags | O_NOFOLLOW, 0); });
}

/// Why open_entry() has failed. A confined process may not open a file that has taken the place of a source.
Error FileSource::failure_of_open(std::uint32_t index) {
  const int code = errno;
  struct stat status{};
  const auto operand = operands_.find(index);
  const bool replaced = code == EACCES && opens_paths_ && operand != operands_.end() && !operand->second.inside &&
                        os().fstatat(AT_FDCWD, operand->second.path.c_str(), &status, 0) == 0 &&
                        identity_of(status) != identities_[index];
  return replaced ? Error{ESTALE, changed_text} : Error{code, std::strerror(code)};
}

Result<int> FileSource::descriptor(std::uint32_t index) {
  Open& open = open_[index % open_max];
  if (open.descriptor.valid() && open.index == index) {
    return open.descriptor.get();
  }
  Descriptor descriptor(open_entry(index));
  if (!descriptor.valid()) {
    return std::unexpected(failure_of_open(index));
  }
  // Kept only when it is the file that was offered: the next call asks no more.
  if (auto status = same(index, descriptor.get()); !status) {
    return std::unexpected(status.error());
  }
  open = {index, std::move(descriptor)};
  return open.descriptor.get();
}

FileSource::Identity FileSource::identity_of(const struct stat& status) {
  auto device = std::ranges::find(devices_, status.st_dev);
  if (device == devices_.end()) {
    device = devices_.insert(device, status.st_dev);
  }
  return {status.st_ino, status.st_ctim.tv_sec, static_cast<std::uint32_t>(status.st_ctim.tv_nsec),
          static_cast<std::uint32_t>(device - devices_.begin())};
}

Status FileSource::same(std::uint32_t index, int descriptor) {
  struct stat status{};
  if (status_of(descriptor, status) != 0) {
    return fail(errno, std::strerror(errno));
  }
  const FileEntry& entry = entries_[index];
  if (static_cast<std::uint64_t>(status.st_size) < entry.size_bytes) {
    return fail(ESTALE, shorter_text);
  }
  if (static_cast<std::uint64_t>(status.st_size) != entry.size_bytes || status.st_mtim.tv_sec != entry.mtime_s ||
      status.st_mtim.tv_nsec != entry.mtime_ns || identity_of(status) != identities_[index]) {
    return fail(ESTALE, changed_text);
  }
  return {};
}

Status FileSource::read(std::uint32_t index, std::uint64_t offset, Bytes out) {
  SLUICE_REQUIRE(index < entries_.size() && offset + out.size() <= entries_[index].content_bytes());
  const auto open = descriptor(index);
  if (!open) {
    return std::unexpected(open.error());
  }
  return entries_[index].each_run(offset, out,
                                  [&](std::uint64_t at, Bytes part) { return read_from(*open, at, part); });
}

/// Looks at the file once, behind the read: many small files cost no more calls than they must.
Status FileSource::read_whole(std::uint32_t index, Bytes out) {
  SLUICE_REQUIRE(index < entries_.size() && out.size() == entries_[index].size_bytes);
  const Descriptor descriptor(open_entry(index));
  if (!descriptor.valid()) {
    return std::unexpected(failure_of_open(index));
  }
  Status status = read_from(descriptor.get(), 0, out);
  return status ? same(index, descriptor.get()) : status;
}

Status FileSource::read_from(int descriptor, std::uint64_t offset, Bytes out) {
  while (!out.empty()) {
    const ssize_t got =
        retried([&] { return os().pread(descriptor, out.data(), out.size(), static_cast<off_t>(offset)); });
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

std::expected<bool, Failure> FileSource::digest_some(std::uint64_t bytes) {
  while (options_.select.digests && digesting_.index < entries_.size()) {
    if (!entries_[digesting_.index].regular()) {
      ++digesting_.index;
      continue;
    }
    if (bytes == 0) {
      return false;
    }
    const std::uint32_t index = digesting_.index;
    const auto cost = digest_piece(bytes);
    if (!cost) {
      return std::unexpected(source_failure(*this, index, cost.error()));
    }
    bytes -= std::min(bytes, *cost);
  }
  digesting_.buffer = {};
  return true;
}

/// Reads on in the file whose turn it is, and answers what that costs: to open a file costs as much as a few bytes.
Result<std::uint64_t> FileSource::digest_piece(std::uint64_t bytes_max) {
  auto& [index, offset, digester, buffer] = digesting_;
  FileEntry& entry = entries_[index];
  buffer.resize(digest_read_bytes);
  const std::uint64_t size = std::min({entry.size_bytes - offset, bytes_max, std::uint64_t{buffer.size()}});
  const Bytes piece = Bytes(buffer).first(static_cast<std::size_t>(size));
  const auto open = descriptor(index);
  if (!open) {
    return std::unexpected(open.error());
  }
  if (auto status = read_from(*open, offset, piece); !status) {
    return std::unexpected(status.error());
  }
  digester.update(piece);
  offset += size;
  if (offset < entry.size_bytes) {
    return size;
  }
  if (auto status = unchanged(index); !status) {
    return std::unexpected(status.error());
  }
  entry.digest = digester.finish();
  offset = 0;
  ++index;
  return std::max(size, digest_file_cost);
}

Result<ConstBytes> FileSource::view(std::uint32_t index, std::uint64_t offset, std::size_t size) {
  SLUICE_REQUIRE(index < entries_.size());
  const std::uint64_t file_bytes = entries_[index].size_bytes;
  // The pages of a window are there as a whole, those of holes as well.
  if (options_.read_by != ReadBy::map || file_bytes < map_file_bytes_min || entries_[index].extents() != nullptr) {
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
