// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/files/directory.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "apps/ftx/files/system.h"
#include "apps/ftx/files/walk.h"
#include "apps/ftx/files/window_set.h"
#include "apps/ftx/protocol/name.h"
#include "base/contract.h"

namespace sluice::ftx {
namespace {

constexpr int temporary_attempts_max = 100;
// For LandBy::faster. Measured on ext4 and tmpfs: the first access to a mapped page costs about as much as a write call
// for 4 KiB, and a large write costs less a byte than any page fault. A small file does not repay its map.
constexpr std::size_t map_adu_bytes_max = 2048;
constexpr std::uint64_t map_file_bytes_min = 1U << 20;
// Of one write call; a burst of datagrams has about as many.
constexpr std::size_t pieces_max = 64;
// One for what arrives in order, one for what arrives late.
constexpr std::size_t windows = 2;

std::unexpected<Error> system_error(std::string_view what, std::string_view name) {
  const int code = errno;
  return fail(code, std::string(what) + " '" + printable(name) + "': " + std::strerror(code));
}

/// A file made here is nobody else's business until it has its final mode.
int open_at(int directory, const char* path, int flags) {
  return retried([&] { return os().openat(directory, path, flags, 0600); });
}

/// `.NAME.ftx-XXXXXXXX`, with NAME shortened so that the result is a legal component.
std::string temporary_name(const std::string& name, std::uint64_t random) {
  char suffix[16];
  std::snprintf(suffix, sizeof suffix, ".ftx-%08x", static_cast<unsigned>(random & 0xffff'ffffU));
  return "." + name.substr(0, component_bytes_max - std::strlen(suffix) - 1) + suffix;
}

class DirectoryFile final : public SinkFile {
 public:
  DirectoryFile(int directory, Descriptor file, std::string temporary, std::string name, FileEntry entry,
                LandBy land_by)
      : directory_(directory),
        file_(std::move(file)),
        temporary_(std::move(temporary)),
        name_(std::move(name)),
        entry_(std::move(entry)),
        land_by_(land_by),
        windows_(windows, MappedWindow::Access::write,
                 land_by == LandBy::map ? WindowSet::Far::map : WindowSet::Far::refuse) {}

  ~DirectoryFile() override {
    if (!temporary_.empty()) {
      retried([&] { return os().unlinkat(directory_, temporary_.c_str(), 0); });
    }
  }

  Status write(std::uint64_t offset, ConstBytes bytes) override;
  Status write_run(std::uint64_t offset, std::span<const ConstBytes> pieces) override;
  Result<Bytes> place(std::uint64_t offset, std::size_t size) override;
  Status placed(std::uint64_t offset, ConstBytes bytes) override;
  Status read(std::uint64_t offset, Bytes out) override;
  Status finalize() override;
  Status commit() override;
  std::string keep() override;

 private:
  [[nodiscard]] std::unexpected<Error> cut_short() const {
    return fail(EIO, "'" + name_ + "' was cut short by someone else");
  }
  [[nodiscard]] Status write_vectors(std::uint64_t& offset, std::span<iovec> vectors);
  [[nodiscard]] bool worth_a_map(std::size_t size) const;

  int directory_;
  Descriptor file_;
  std::string temporary_;
  std::string name_;
  FileEntry entry_;
  LandBy land_by_;
  bool extended_ = false;         // to its size, for the map
  std::uint64_t landed_end_ = 0;  // of what landed furthest back
  WindowSet windows_;
};

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
  const timespec modified{entry_.mtime_s, static_cast<long>(entry_.mtime_ns)};
  const timespec times[2] = {modified, modified};
  if (retried([&] { return os().fchmod(file_.get(), entry_.mode); }) != 0 ||
      retried([&] { return os().futimens(file_.get(), times); }) != 0) {
    return system_error("cannot set the attributes of", name_);
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
  // Not again after EINTR: over a network the first try may have renamed it.
  if (os().renameat(directory_, temporary_.c_str(), directory_, name_.c_str()) != 0) {
    return system_error("cannot give its name to", name_);
  }
  temporary_.clear();
  return {};
}

class DirectorySink final : public Sink {
 public:
  DirectorySink(Descriptor directory, std::string shown, std::optional<std::string> new_name, std::uint64_t seed,
                LandBy land_by)
      : directory_(std::move(directory)),
        shown_(std::move(shown)),
        new_name_(std::move(new_name)),
        prng_(seed),
        land_by_(land_by) {}

  Result<std::unique_ptr<SinkFile>> create(const FileEntry& entry) override;
  Status flush() override;
  std::string path(const FileEntry& entry) const override { return shown_ + new_name_.value_or(entry.name); }

 private:
  Descriptor directory_;
  std::string shown_;
  std::optional<std::string> new_name_;
  Prng prng_;
  LandBy land_by_;
};

Result<std::unique_ptr<SinkFile>> DirectorySink::create(const FileEntry& entry) {
  const std::string name = new_name_.value_or(entry.name);
  struct stat status{};
  if (look_at(directory_.get(), name, status) == 0 && S_ISDIR(status.st_mode)) {
    errno = EISDIR;
    return system_error("cannot replace", name);
  }
  for (int attempt = 0; attempt < temporary_attempts_max; ++attempt) {
    std::string temporary = temporary_name(name, prng_());
    Descriptor file(open_at(directory_.get(), temporary.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC));
    if (file.valid()) {
      return std::make_unique<DirectoryFile>(directory_.get(), std::move(file), std::move(temporary), name, entry,
                                             land_by_);
    }
    if (errno != EEXIST) {
      break;
    }
  }
  return system_error("cannot create a file for", name);
}

Status DirectorySink::flush() {
  // Some file systems cannot sync a directory and answer EINVAL; the files are durable already.
  if (retried([&] { return os().fsync(directory_.get()); }) != 0 && errno != EINVAL) {
    return system_error("cannot write the directory", shown_);
  }
  return {};
}

/// True when `name` is a directory, false when it is another file or missing.
Result<bool> is_directory(int parent, const std::string& name) {
  struct stat status{};
  if (look_at(parent, name, status) != 0) {
    if (errno == ENOENT) {
      return false;
    }
    return system_error("cannot look at", name);
  }
  if (S_ISLNK(status.st_mode)) {
    errno = ELOOP;
    return system_error("refused the symbolic link", name);
  }
  return S_ISDIR(status.st_mode);
}

}  // namespace

Result<std::unique_ptr<DirectoryDestination>> DirectoryDestination::serve(const std::string& directory,
                                                                          std::uint64_t seed, LandBy land_by) {
  Descriptor root(open_at(AT_FDCWD, directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!root.valid()) {
    return system_error("cannot open the directory", directory);
  }
  return std::unique_ptr<DirectoryDestination>(new DirectoryDestination(std::move(root), seed, land_by));
}

Result<std::unique_ptr<Sink>> DirectoryDestination::open(std::string_view path, std::size_t files) {
  std::vector<std::string_view> walk = components(path);
  std::optional<std::string> last;
  if (!walk.empty() && !path.ends_with('/')) {
    last = std::string(walk.back());
    walk.pop_back();
  }
  // Opening "." gives a second descriptor of the served directory.
  Descriptor at = enter_directory(root_.get(), ".");
  if (!at.valid()) {
    return system_error("cannot open", "the served directory");
  }
  std::string shown;
  const auto enter = [&](const std::string& name) {
    at = enter_directory(at.get(), name.c_str());
    shown += name + "/";
    return at.valid();
  };
  for (const std::string_view name : walk) {
    if (!enter(std::string(name))) {
      return system_error("cannot open the directory", shown);
    }
  }
  if (last) {
    const auto directory = is_directory(at.get(), *last);
    if (!directory) {
      return std::unexpected(directory.error());
    }
    if (!*directory && files != 1) {
      return fail(ENOTDIR, "several files need a directory, and '" + *last + "' is none");
    }
    if (*directory && !enter(*std::exchange(last, std::nullopt))) {
      return system_error("cannot open the directory", shown);
    }
  }
  return std::make_unique<DirectorySink>(std::move(at), shown, last, prng_(), land_by_);
}

}  // namespace sluice::ftx
