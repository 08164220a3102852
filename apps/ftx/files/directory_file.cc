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
constexpr std::size_t pieces_max = 64;

}  // namespace

std::unexpected<Error> system_error(std::string_view what, std::string_view name) {
  const int code = errno;
  return fail(code, std::string(what) + " '" + printable(name) + "': " + std::strerror(code));
}

std::string temporary_name(const std::string& name, std::uint64_t random) {
  char suffix[16];
  std::snprintf(suffix, sizeof suffix, ".ftx-%08x", static_cast<unsigned>(random & 0xffff'ffffU));
  return "." + name.substr(0, component_bytes_max - std::strlen(suffix) - 1) + suffix;
}

Result<TemporaryFile> make_temporary(int directory, const std::string& name, Prng& prng) {
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

Status set_attributes(int descriptor, const FileEntry& entry) {
  const timespec modified{entry.mtime_s, static_cast<long>(entry.mtime_ns)};
  const timespec times[2] = {modified, modified};
  if (retried([&] { return os().fchmod(descriptor, entry.mode); }) != 0 ||
      retried([&] { return os().futimens(descriptor, times); }) != 0) {
    return system_error("cannot set the attributes of", entry.name);
  }
  return {};
}

Status write_all(int descriptor, ConstBytes bytes, const std::string& name) {
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

DirectoryFile::~DirectoryFile() {
  if (!temporary_.empty()) {
    retried([&] { return os().unlinkat(directories_.at(entry_.parent), temporary_.c_str(), 0); });
  }
}

Status DirectoryFile::write(std::uint64_t offset, ConstBytes bytes) { return write_run(offset, std::span(&bytes, 1)); }

Status DirectoryFile::write_run(std::uint64_t offset, std::span<const ConstBytes> pieces) {
  std::array<iovec, pieces_max> vectors;
  while (!pieces.empty()) {
    const std::size_t count = std::min(pieces.size(), vectors.size());
    std::transform(pieces.begin(), pieces.begin() + static_cast<std::ptrdiff_t>(count), vectors.begin(),
                   [](ConstBytes piece) { return iovec{const_cast<std::byte*>(piece.data()), piece.size()}; });
    if (Status written = write_vectors(offset, std::span(vectors).first(count)); !written) {
      return written;
    }
    pieces = pieces.subspan(count);
  }
  landed_end_ = std::max(landed_end_, offset);
  return {};
}

/// Writes all of `vectors`, which it changes, and moves `offset` behind them.
Status DirectoryFile::write_vectors(std::uint64_t& offset, std::span<iovec> vectors) {
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
      return os().pwritev(file_.get(), vectors.data(), static_cast<int>(vectors.size()), static_cast<off_t>(offset));
    });
    if (put <= 0) {
      errno = put == 0 ? EIO : errno;  // nothing written and no reason given: would be tried for ever
      return system_error("cannot write", name_);
    }
    left = static_cast<std::size_t>(put);
    offset += left;
  }
}

bool DirectoryFile::worth_a_map(std::size_t size) const {
  if (land_by_ == LandBy::faster) {
    return size <= map_adu_bytes_max && entry_.size_bytes >= map_file_bytes_min;
  }
  return land_by_ == LandBy::map && size <= WindowSet::range_bytes_max;
}

Result<Bytes> DirectoryFile::place(std::uint64_t offset, std::size_t size) {
  if (!worth_a_map(size)) {
    return fail(ENOTSUP);
  }
  extended_ =
      extended_ || retried([&] { return os().ftruncate(file_.get(), static_cast<off_t>(entry_.size_bytes)); }) == 0;
  if (extended_) {
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

Status DirectoryFile::placed(std::uint64_t offset, ConstBytes bytes) {
  if (windows_.failed()) {
    struct stat status{};
    if (retried([&] { return os().fstat(file_.get(), &status); }) != 0) {
      return system_error("cannot write", name_);
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
    const ssize_t got =
        retried([&] { return os().pread(file_.get(), out.data(), out.size(), static_cast<off_t>(offset)); });
    if (got < 0) {
      return system_error("cannot read back", name_);
    }
    if (got == 0) {
      return cut_short();
    }
    out = out.subspan(static_cast<std::size_t>(got));
    offset += static_cast<std::uint64_t>(got);
  }
  return {};
}

/// Truncates the file to the end of its last payload: a map had extended it to its full size.
std::string DirectoryFile::keep() {
  windows_.forget();
  // The file is kept even if it cannot be truncated.
  if (extended_ && file_.valid()) {
    [[maybe_unused]] const int cut =
        retried([&] { return os().ftruncate(file_.get(), static_cast<off_t>(landed_end_)); });
  }
  return std::exchange(temporary_, {});
}

Status DirectoryFile::finalize() {
  windows_.forget();  // a page written to later would change the time
  if (Status set = set_attributes(file_.get(), entry_); !set) {
    return set;
  }
  if (retried([&] { return os().fsync(file_.get()); }) != 0) {
    return system_error("cannot write", name_);
  }
  // An interrupted close() has closed all the same, and everything is durable by now (close(2): "Retrying the close()
  // after a failure return is the wrong thing to do").
  if (os().close(file_.release()) != 0 && errno != EINTR) {
    return system_error("cannot close", name_);
  }
  return {};
}

Status DirectoryFile::commit() {
  SLUICE_REQUIRE(!file_.valid());
  const int directory = directories_.at(entry_.parent);
  // Not again after EINTR: over a network the first try may have renamed it.
  if (directory < 0 || os().renameat(directory, temporary_.c_str(), directory, name_.c_str()) != 0) {
    return system_error("cannot give its name to", name_);
  }
  temporary_.clear();
  return {};
}

}  // namespace sluice::ftx
