// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/files/comparison.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "apps/ftx/files/attributes.h"
#include "apps/ftx/files/system.h"
#include "apps/ftx/files/walk.h"

namespace sluice::ftx {
namespace {

/// Not by what a file system cuts off.
bool is_newer(const timespec& time, const FileEntry& entry) {
  return !same_time(time, entry) && std::pair(std::int64_t{time.tv_sec}, std::int64_t{time.tv_nsec}) >
                                        std::pair(entry.mtime_s, std::int64_t{entry.mtime_ns});
}

/// Nobody has written into the file between the two looks, or put another in its place.
bool same_state(const struct stat& one, const struct stat& other) {
  return one.st_dev == other.st_dev && one.st_ino == other.st_ino && one.st_size == other.st_size &&
         one.st_mtim.tv_sec == other.st_mtim.tv_sec && one.st_mtim.tv_nsec == other.st_mtim.tv_nsec &&
         one.st_ctim.tv_sec == other.st_ctim.tv_sec && one.st_ctim.tv_nsec == other.st_ctim.tv_nsec;
}

/// Of a file that has been read: never 0. Like same_state() it tells two states apart, in the room of a number.
std::uint64_t state_of(const struct stat& status, bool equal) {
  const std::array<std::uint64_t, 7> fields{status.st_dev,
                                            status.st_ino,
                                            static_cast<std::uint64_t>(status.st_size),
                                            static_cast<std::uint64_t>(status.st_mtim.tv_sec),
                                            static_cast<std::uint64_t>(status.st_mtim.tv_nsec),
                                            static_cast<std::uint64_t>(status.st_ctim.tv_sec),
                                            static_cast<std::uint64_t>(status.st_ctim.tv_nsec)};
  const auto hash = load_big_endian<std::uint64_t>(digest_of(std::as_bytes(std::span(fields))).data());
  return (hash & ~std::uint64_t{1}) | 2U | (equal ? 1U : 0U);
}

}  // namespace

bool same_time(const timespec& time, const FileEntry& entry) {
  if (time.tv_sec != entry.mtime_s) {
    return false;
  }
  const auto kept = static_cast<std::uint32_t>(time.tv_nsec);
  return std::ranges::any_of(std::array{1U, 100U, 1'000U, 1'000'000'000U},
                             [&](std::uint32_t unit) { return kept == entry.mtime_ns - entry.mtime_ns % unit; });
}

bool has_extended_attributes(int descriptor, const FileEntry& entry) {
  if (entry.attributes() == nullptr) {
    return true;
  }
  const auto there = read_extended_attributes(descriptor);
  return there && *there == *entry.attributes();
}

Descriptor open_regular(int directory, const char* name, struct stat& status) {
  constexpr int flags = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
  Descriptor file(retried([&] { return os().openat(directory, name, flags, 0); }));
  const bool regular =
      file.valid() && retried([&] { return os().fstat(file.get(), &status); }) == 0 && S_ISREG(status.st_mode);
  return regular ? std::move(file) : Descriptor();
}

std::string Comparison::path(const FileEntry& entry) const {
  const std::string path = path_of(entries_, entry);
  return place_.shown +
         (place_.new_name ? *place_.new_name + path.substr(std::min(path.find('/'), path.size())) : path);
}

std::optional<struct stat> Comparison::find(const FileEntry& entry) const {
  const int directory = place_.directory(entry.parent);
  struct stat status{};
  if (directory < 0) {
    return std::nullopt;
  }
  if (place_.is_new(entry.parent)) {
    errno = ENOENT;
    return std::nullopt;
  }
  return look_at(directory, name_of(entry).c_str(), status) == 0 ? std::optional(status) : std::nullopt;
}

bool Comparison::leaves_alone(const FileEntry& entry, const std::optional<struct stat>& found) const {
  if (!found) {
    return update_.existing && errno == ENOENT;
  }
  return update_.ignore_existing || (update_.newer && S_ISREG(found->st_mode) && is_newer(found->st_mtim, entry));
}

bool Comparison::leaves_link_alone(const FileEntry& entry) const {
  if (!update_.existing && !update_.ignore_existing) {
    return false;
  }
  const auto found = find(entry);
  return found ? update_.ignore_existing : update_.existing && errno == ENOENT;
}

bool Comparison::same(const FileEntry& file, const FileEntry& named, const struct stat& found) const {
  if (static_cast<std::uint64_t>(found.st_size) != named.size_bytes) {
    return false;
  }
  switch (update_.compare) {
    case Update::Compare::size_and_time:
      return same_time(found.st_mtim, named);
    case Update::Compare::size:
      return true;
    case Update::Compare::nothing:
      return false;
    case Update::Compare::digest:
      return same_content(file, found);
  }
  return false;
}

/// As far as examine() has read it, and it is still that file.
bool Comparison::same_content(const FileEntry& file, const struct stat& found) const {
  return file.digest && examined_ && examined_->file == index_of(file) && examined_->digest == *file.digest &&
         same_state(examined_->status, found);
}

bool Comparison::examine(const FileEntry& file, std::uint64_t& bytes) {
  if (update_.compare != Update::Compare::digest || !file.digest) {
    return true;
  }
  if (!examined_ || examined_->file != index_of(file)) {
    if (take_believed(file)) {
      return true;
    }
    begin_examination(file);
    bytes -= std::min(bytes, digest_file_cost);
  }
  auto& [index, status, descriptor, offset, digester, buffer, digest] = *examined_;
  while (descriptor.valid() && offset < file.size_bytes) {
    if (bytes == 0) {
      return false;
    }
    buffer.resize(digest_read_bytes);
    const std::uint64_t size = std::min({file.size_bytes - offset, bytes, std::uint64_t{buffer.size()}});
    const ssize_t got = retried([&] {
      return os().pread(descriptor.get(), buffer.data(), static_cast<std::size_t>(size), static_cast<off_t>(offset));
    });
    if (got <= 0) {
      descriptor = Descriptor();
      break;
    }
    digester.update(ConstBytes(buffer).first(static_cast<std::size_t>(got)));
    offset += static_cast<std::uint64_t>(got);
    bytes -= static_cast<std::uint64_t>(got);
  }
  end_examination(file);
  return true;
}

/// True: the file is as it was when it was read.
bool Comparison::take_believed(const FileEntry& file) {
  const std::uint32_t index = index_of(file);
  if (index >= compared_.size() || compared_[index] == 0) {
    return false;
  }
  const ContentPlace place = content_place(file);
  const bool equal = place.regular && compared_[index] == state_of(*place.regular, true);
  if (!equal && (!place.regular || compared_[index] != state_of(*place.regular, false))) {
    return false;
  }
  examined_ = std::make_unique<Examined>();
  examined_->file = index;
  examined_->status = *place.regular;
  examined_->digest = equal ? std::optional(*file.digest) : std::nullopt;
  return true;
}

/// Threat: somebody puts a link or a pipe there meanwhile. What is read is the regular file that was looked at.
void Comparison::begin_examination(const FileEntry& file) {
  examined_ = std::make_unique<Examined>();
  examined_->file = index_of(file);
  const ContentPlace place = content_place(file);
  if (!place.regular || static_cast<std::uint64_t>(place.regular->st_size) != file.size_bytes) {
    return;
  }
  const FileEntry named = under(file, *place.name);
  Descriptor opened = open_regular(place_.directory(named.parent), name_of(named).c_str(), examined_->status);
  if (opened.valid() && same_state(examined_->status, *place.regular)) {
    examined_->descriptor = std::move(opened);
  }
}

void Comparison::end_examination(const FileEntry& file) {
  struct stat now{};
  Examined& examined = *examined_;
  if (examined.descriptor.valid() && retried([&] { return os().fstat(examined.descriptor.get(), &now); }) == 0 &&
      same_state(now, examined.status)) {
    examined.digest = examined.digester.finish();
    compared_.resize(entries_.size());
    compared_[examined.file] = state_of(now, examined.digest == *file.digest);
  }
  examined.descriptor = Descriptor();
  examined.buffer = {};
}

bool Comparison::has_target(const FileEntry& entry) const {
  const int directory = place_.directory(entry.parent);
  std::string target(link_target_bytes_max + 1, '\0');
  const ssize_t size = os().readlinkat(directory, name_of(entry).c_str(), target.data(), target.size());
  return size >= 0 && std::string_view(target).substr(0, static_cast<std::size_t>(size)) == *entry.target();
}

FileEntry Comparison::under(const FileEntry& file, std::uint32_t name) const {
  FileEntry named = file;
  named.name = entries_[name].name;
  named.parent = entries_[name].parent;
  return named;
}

/// A symbolic link is not what it points to, so it is no file that is there.
Comparison::ContentPlace Comparison::content_place(const FileEntry& file) {
  const std::uint32_t own = index_of(file);
  std::vector<std::uint32_t> names{own};
  std::ranges::transform(hard_links_of(own), std::back_inserter(names), &HardLink::entry);
  ContentPlace place;
  for (const std::uint32_t name : names) {
    const FileEntry named = under(file, name);
    const auto found = find(named);
    if (leaves_alone(named, found)) {
      continue;
    }
    if (found && S_ISREG(found->st_mode)) {
      return {name, found};
    }
    place.name = place.name.value_or(name);
  }
  return place;
}

std::span<const Comparison::HardLink> Comparison::hard_links_of(std::uint32_t file) {
  if (!hard_links_) {
    hard_links_.emplace();
    for (std::uint32_t index = 0; index < entries_.size(); ++index) {
      if (entries_[index].kind == EntryKind::hard_link) {
        hard_links_->push_back({entries_[index].original - 1, index});
      }
    }
    std::ranges::sort(*hard_links_);
  }
  return std::ranges::equal_range(*hard_links_, file, {}, &HardLink::file);
}

}  // namespace sluice::ftx
