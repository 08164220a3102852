// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/files/directory_file.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "apps/ftx/files/attributes.h"
#include "apps/ftx/files/system.h"
#include "apps/ftx/protocol/name.h"
#include "base/contract.h"

namespace sluice::ftx {
namespace {

// For LandBy::faster. Measured on ext4 and tmpfs: the first access to a mapped page costs about as much as a write call
// for 4 KiB, and a large write costs less a byte than any page fault. A small file does not repay its map.
constexpr std::size_t map_adu_bytes_max = 2048;
constexpr std::uint64_t map_file_bytes_min = 1U << 20;
// Of one write call; a burst of datagrams has about as many.
constexpr std::size_t pieces_max = 128;

constexpr std::uint32_t writable_by_others = 0022;

}  // namespace

std::unexpected<Error> system_error(std::string_view what, std::string_view name) {
  const int code = errno;
  return fail(code, std::string(what) + " '" + printable(name) + "': " + std::strerror(code));
}

std::string temporary_name(std::string_view name, std::uint64_t random) {
  char suffix[16];
  std::snprintf(suffix, sizeof suffix, ".ftx-%08x", static_cast<unsigned>(random & 0xffff'ffffU));
  return "." + std::string(name.substr(0, component_bytes_max - std::strlen(suffix) - 1)) + suffix;
}

bool is_temporary(std::string_view name) {
  const std::size_t suffix = name.rfind(".ftx-");
  if (!name.starts_with('.') || suffix == std::string_view::npos || suffix == 0) {
    return false;
  }
  const std::string_view end = name.substr(suffix + 5);
  return end == "part" || end == "journal" ||
         (end.size() == 8 && end.find_first_not_of("0123456789abcdef") == std::string_view::npos);
}

Result<TemporaryFile> make_temporary(int directory, std::string_view name, Prng& prng) {
  constexpr int flags = O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
  for (int attempt = 0; attempt < temporary_attempts_max; ++attempt) {
    TemporaryFile made{.name = temporary_name(name, prng())};
    made.file = Descriptor(retried([&] { return os().openat(directory, made.name.c_str(), flags, 0600); }));
    if (made.file.valid()) {
      return made;
    }
    if (errno != EEXIST) {
      break;
    }
  }
  return system_error("cannot create a file for", name);
}

Status set_owners(int descriptor, const FileEntry& entry, const Ownership& ownership) {
  return ownership.set(descriptor, entry)
             ? Status()
             : Status(system_error("cannot set the owner (leave -o and -g away, or -a with --no-owner --no-group) of",
                                   entry.name));
}

Status set_attributes(int descriptor, const FileEntry& entry, const Ownership& ownership) {
  if (entry.attributes() != nullptr) {
    if (Status written = write_extended_attributes(descriptor, *entry.attributes()); !written) {
      return fail(written.error().code, "'" + printable(entry.name) + "': " + written.error().text);
    }
  }
  // Before the mode, which may let a group in.
  if (Status owned = set_owners(descriptor, entry, ownership); !owned) {
    return owned;
  }
  if (entry.stream()) {  // its time is that of the last write
    return retried([&] { return os().fchmod(descriptor, entry.mode); }) == 0
               ? Status()
               : Status(system_error("cannot set the attributes of", entry.name));
  }
  const timespec modified{entry.mtime_s, static_cast<long>(entry.mtime_ns)};
  const timespec times[2] = {modified, modified};
  if (retried([&] { return os().fchmod(descriptor, entry.mode); }) != 0 ||
      retried([&] { return os().futimens(descriptor, times); }) != 0) {
    return system_error("cannot set the attributes of", entry.name);
  }
  return {};
}

Status write_all(int descriptor, ConstBytes bytes, std::string_view name) {
  for (off_t offset = 0; !bytes.empty();) {
    const iovec piece{const_cast<std::byte*>(bytes.data()), bytes.size()};
    const ssize_t put = retried([&] { return os().pwritev(descriptor, &piece, 1, offset); });
    if (put <= 0) {
      errno = put == 0 ? EIO : errno;  // nothing written and no reason given: would be tried for ever
      return system_error("cannot write", name);
    }
    offset += put;
    bytes = bytes.subspan(static_cast<std::size_t>(put));
  }
  return {};
}

DirectoryFile::DirectoryFile(OpenDirectories& directories, Partials& partials, const Ownership& ownership,
                             const CaseFolding& folding, TemporaryFile file, std::string name, FileEntry entry,
                             LandBy land_by)
    : directories_(directories),
      partials_(partials),
      ownership_(ownership),
      folding_(folding),
      file_(std::move(file.file)),
      temporary_(std::move(file.name)),
      partial_(std::move(file.partial)),
      name_(std::move(name)),
      entry_(std::move(entry)),
      land_by_(land_by),
      windows_(windows_max, MappedWindow::Access::write,
               land_by == LandBy::map ? WindowSet::Far::map : WindowSet::Far::refuse) {
  if (partial_) {
    partials_.add(*partial_, *this);
    landed_end_ = partial_->known().empty()
                      ? 0
                      : std::min((partial_->known().back().index + 1) * digest_block_bytes, entry_.content_bytes());
  }
}

DirectoryFile::~DirectoryFile() {
  leave();
  if (!temporary_.empty()) {
    retried([&] { return os().unlinkat(directories_.at(entry_.parent), temporary_.c_str(), 0); });
  }
}

std::unexpected<Error> DirectoryFile::error(std::string_view what) const {
  return taken_over_ ? fail(ECANCELED, "another transfer of '" + printable(name_) + "' has taken over what is there")
                     : system_error(what, name_);
}

// --- What a later transfer goes on with ----------------------------------------------------------------------------

Result<std::vector<KnownBlock>> DirectoryFile::known_blocks() {
  if (!partial_) {
    return std::vector<KnownBlock>();
  }
  std::vector<KnownBlock> known = partial_->known();
  if (!partials_.options().verify) {
    return known;
  }
  std::vector<std::byte> block(digest_block_bytes);
  std::vector<std::uint64_t> rotten;
  std::erase_if(known, [&](const KnownBlock& one) {
    const std::uint64_t from = one.index * digest_block_bytes;
    const Bytes bytes = Bytes(block).first(std::min(digest_block_bytes, entry_.content_bytes() - from));
    const bool differs = !read(from, bytes) || digest_of(bytes) != one.digest;
    if (differs) {
      rotten.push_back(one.index);
    }
    return differs;
  });
  if (Status withdrawn = withdraw(rotten); !withdrawn) {
    return std::unexpected(withdrawn.error());
  }
  return known;
}

Status DirectoryFile::withdraw(std::span<const std::uint64_t> blocks) {
  return partial_ ? partial_->withdraw(blocks) : Status();
}

void DirectoryFile::note_block(std::uint64_t index, const Digest& digest) {
  if (partial_) {
    partial_->note(index, digest);
  }
}

/// Ends the use of the Partial: for a later transfer, as far as it is of use.
void DirectoryFile::leave() {
  if (!partial_) {
    return;
  }
  windows_.forget();
  partials_.remove(*partial_);
  [[maybe_unused]] const int failed = partial_->stop();
  partial_->commit();
  if (!partial_->of_use() && !kept_) {
    partial_->remove();
  }
  partial_.reset();
  temporary_.clear();
  file_ = Descriptor();
}

void DirectoryFile::surrender() {
  leave();
  taken_over_ = true;
}

void DirectoryFile::discard() {
  if (partial_) {
    partials_.remove(*partial_);
    [[maybe_unused]] const int failed = partial_->stop();
    partial_->remove_journal();
    partial_.reset();  // the destructor removes the file
  }
}

/// Under a name that nobody finds, since nothing keeps another transfer from it any more.
Status DirectoryFile::let_go() {
  if (!partial_) {
    return {};
  }
  if (Status good = synced(); !good) {
    return good;
  }
  const int directory = directories_.at(entry_.parent);
  const std::string other = temporary_name(name_, partial_->head().salt);
  if (directory < 0 || os().renameat(directory, temporary_.c_str(), directory, other.c_str()) != 0) {
    return error("cannot rename");
  }
  temporary_ = other;
  discard();
  return close_file();
}

/// Nobody syncs it any more, and each sync has succeeded.
Status DirectoryFile::synced() {
  errno = partial_->stop();
  return errno == 0 ? Status() : error("cannot write");
}

// --- What arrives --------------------------------------------------------------------------------------------------

Status DirectoryFile::write(std::uint64_t offset, ConstBytes bytes) { return write_run(offset, std::span(&bytes, 1)); }

Status DirectoryFile::write_run(std::uint64_t offset, std::span<const ConstBytes> pieces) {
  Status written = entry_.extents() != nullptr ? write_extents(offset, pieces) : write_pieces(offset, pieces);
  if (written) {
    landed_end_ = std::max(landed_end_, offset);
  }
  return written;
}

/// Each of `pieces` to where it lies, perhaps in several extents, and moves `offset` behind them.
Status DirectoryFile::write_extents(std::uint64_t& offset, std::span<const ConstBytes> pieces) {
  const auto write_part = [this](std::uint64_t at, ConstBytes part) { return write_pieces(at, std::span(&part, 1)); };
  for (const ConstBytes piece : pieces) {
    if (Status written = entry_.each_run(offset, piece, write_part); !written) {
      return written;
    }
    offset += piece.size();
  }
  return {};
}

/// One behind the other, from `at` of the file on, which it moves behind them.
Status DirectoryFile::write_pieces(std::uint64_t& at, std::span<const ConstBytes> pieces) {
  std::array<iovec, pieces_max> vectors;
  while (!pieces.empty()) {
    const std::size_t count = std::min(pieces.size(), vectors.size());
    std::transform(pieces.begin(), pieces.begin() + static_cast<std::ptrdiff_t>(count), vectors.begin(),
                   [](ConstBytes piece) { return iovec{const_cast<std::byte*>(piece.data()), piece.size()}; });
    if (Status written = write_vectors(at, std::span(vectors).first(count)); !written) {
      return written;
    }
    pieces = pieces.subspan(count);
  }
  return {};
}

/// Writes all of `vectors`, which it changes, and moves `at` behind them.
Status DirectoryFile::write_vectors(std::uint64_t& at, std::span<iovec> vectors) {
  for (std::size_t left = 0;;) {
    while (!vectors.empty() && left >= vectors.front().iov_len) {
      left -= vectors.front().iov_len;
      vectors = vectors.subspan(1);
    }
    if (vectors.empty()) {
      return {};
    }
    vectors.front().iov_base = static_cast<std::byte*>(vectors.front().iov_base) + left;
    vectors.front().iov_len -= left;
    const ssize_t put = retried([&] {
      return os().pwritev(file_.get(), vectors.data(), static_cast<int>(vectors.size()), static_cast<off_t>(at));
    });
    if (put <= 0) {
      errno = put == 0 ? EIO : errno;  // nothing written and no reason given: would be tried for ever
      return error("cannot write");
    }
    left = static_cast<std::size_t>(put);
    at += left;
  }
}

bool DirectoryFile::worth_a_map(std::size_t size) const {
  // The pages of a window are made as a whole, those of holes as well; and what has no size has no map.
  if (entry_.extents() != nullptr || entry_.stream()) {
    return false;
  }
  if (land_by_ == LandBy::faster) {
    return size <= map_adu_bytes_max && entry_.size_bytes >= map_file_bytes_min;
  }
  return land_by_ == LandBy::map && size <= WindowSet::range_bytes_max;
}

Result<Bytes> DirectoryFile::place(std::uint64_t offset, std::size_t size) {
  if (!worth_a_map(size)) {
    return fail(ENOTSUP);
  }
  if (extend()) {
    // A page of zeros that replaced a page of the file must not receive payload.
    if (windows_.failed()) {
      windows_.forget();
    }
    windows_.release();
    auto range = windows_.range({0, file_.get(), entry_.size_bytes}, offset, size);
    if (range) {
      return range;
    }
    if (range.error().code == EAGAIN) {
      return fail(ENOTSUP);
    }
  }
  // The cause may stop a write as well, but a write reports it.
  land_by_ = LandBy::write;
  return fail(ENOTSUP);
}

/// To its size. False, and errno.
bool DirectoryFile::extend() {
  extended_ =
      extended_ || retried([&] { return os().ftruncate(file_.get(), static_cast<off_t>(entry_.size_bytes)); }) == 0;
  return extended_;
}

Status DirectoryFile::placed(std::uint64_t offset, ConstBytes bytes) {
  if (windows_.failed()) {
    struct stat status{};
    if (retried([&] { return os().fstat(file_.get(), &status); }) != 0) {
      return error("cannot write");
    }
    if (static_cast<std::uint64_t>(status.st_size) < entry_.size_bytes) {
      return cut_short();
    }
    // The disk is full or broken, and the bytes are in memory that replaced a page of the file. A write succeeds or
    // reports the error.
    return write(offset, bytes);
  }
  landed_end_ = std::max(landed_end_, offset + bytes.size());
  return {};
}

Status DirectoryFile::read(std::uint64_t offset, Bytes out) {
  while (!out.empty()) {
    const FileRun run = entry_.run_at(offset);
    const std::size_t size = std::min<std::uint64_t>(run.bytes, out.size());
    const ssize_t got = retried([&] { return os().pread(file_.get(), out.data(), size, static_cast<off_t>(run.at)); });
    if (got < 0) {
      return error("cannot read back");
    }
    if (got == 0) {
      return cut_short();
    }
    out = out.subspan(static_cast<std::size_t>(got));
    offset += static_cast<std::uint64_t>(got);
  }
  return {};
}

/// Truncates the file to the end of its last payload: a map had extended it to its full size. With a journal, to the
/// beginning of the block where that is: where the disk is full, the journal needs room as well.
std::string DirectoryFile::keep() {
  windows_.forget();
  kept_ = true;
  const std::uint64_t last = landed_end_ - std::min<std::uint64_t>(landed_end_, 1);
  const std::uint64_t end = partial_ ? last - last % digest_block_bytes : landed_end_;
  // The file is kept even if it cannot be truncated.
  if ((extended_ || partial_) && file_.valid()) {
    [[maybe_unused]] const int cut =
        retried([&] { return os().ftruncate(file_.get(), static_cast<off_t>(entry_.end_of(end))); });
  }
  if (partial_) {
    return partial_->name();
  }
  return std::exchange(temporary_, {});
}

Status DirectoryFile::finalize() {
  windows_.forget();  // a page written to later would change the time
  // Until it has its name it is this user's, and nobody else may write to it: a later transfer would not believe it.
  FileEntry entry = entry_;
  static const Ownership nobody_else;
  entry.mode = partial_ ? static_cast<std::uint16_t>(entry_.mode & ~writable_by_others) : entry_.mode;
  if (taken_over_) {
    return error("");
  }
  // What arrived may end before a hole.
  if (entry_.extents() != nullptr && !extend()) {
    return error("cannot extend");
  }
  if (Status set = set_attributes(file_.get(), entry, partial_ ? nobody_else : ownership_); !set) {
    return set;
  }
  if (retried([&] { return os().fsync(file_.get()); }) != 0) {
    return error("cannot write");
  }
  return partial_ ? Status() : close_file();
}

Status DirectoryFile::close_file() {
  // An interrupted close() has closed all the same, and everything is durable by now (close(2): "Retrying the close()
  // after a failure return is the wrong thing to do").
  if (os().close(file_.release()) != 0 && errno != EINTR) {
    return error("cannot close");
  }
  return {};
}

Status DirectoryFile::commit() {
  SLUICE_REQUIRE(!file_.valid() || partial_);
  if (taken_over_) {
    return error("");
  }
  if (partial_) {
    if (Status good = synced(); !good) {
      return good;
    }
    if (Status owned = set_owners(file_.get(), entry_, ownership_); !owned) {
      return owned;
    }
    const bool others_write = (entry_.mode & writable_by_others) != 0;
    const bool changes = others_write || ownership_.ids_of(entry_) != Ownership::Ids{};
    if ((others_write && retried([&] { return os().fchmod(file_.get(), entry_.mode); }) != 0) ||
        (changes && retried([&] { return os().fsync(file_.get()); }) != 0)) {
      return error("cannot set the attributes of");
    }
  }
  const int directory = directories_.at(entry_.parent);
  if (Status clash = directory < 0 ? Status() : folding_.clash(directory, entry_, name_.c_str()); !clash) {
    return clash;
  }
  // Not again after EINTR: over a network the first try may have renamed it.
  if (directory < 0 || os().renameat(directory, temporary_.c_str(), directory, name_.c_str()) != 0) {
    return error("cannot give its name to");
  }
  temporary_.clear();
  if (!partial_) {
    return {};
  }
  discard();
  return close_file();
}

}  // namespace sluice::ftx
