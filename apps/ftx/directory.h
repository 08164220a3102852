// SPDX-License-Identifier: Apache-2.0
#pragma once

// A directory tree as a destination. The served directory is opened once and held; every path a peer states is walked
// from there component by component with O_NOFOLLOW, so that neither `..` nor a symbolic link, put there before or
// during the walk, leads out. Temporaries are made with O_EXCL beside the final name and renamed over it.
//
// Payloads land by a write call or through a map of the file (LandBy). A mapped file is extended to its size at its
// first ADU, without taking room on the disk for what has not come; where that is refused (EFBIG), where the file
// system does not map or the process has no window left, payloads are written. A disk that fills up, or a file that
// somebody cuts short, is an error as it is with a write call, and never a crash (apps/ftx/mapped_window.h).
//
// Not thread-safe. The only file of the session library that writes to a file system.

#include <memory>
#include <string>

#include "apps/ftx/sink.h"
#include "base/prng.h"

namespace sluice::ftx {

/// A descriptor that closes itself.
class Descriptor {
 public:
  explicit Descriptor(int value = -1) : value_(value) {}
  ~Descriptor();
  Descriptor(Descriptor&& other) noexcept : value_(other.release()) {}
  Descriptor& operator=(Descriptor&& other) noexcept;

  [[nodiscard]] int get() const { return value_; }
  [[nodiscard]] bool valid() const { return value_ >= 0; }
  int release();

 private:
  int value_;
};

/// How payloads get into a file.
enum class LandBy : std::uint8_t {
  faster,  // through a map for small ADUs of large files that come more or less in order, else by a write call
  map,     // through a map wherever that can be: for trusted peers only (apps/ftx/window_set.h)
  write,   // by a write call, always
};

class DirectoryDestination final : public Destination {
 public:
  /// Opens `directory`, following links: the person who serves it chose it. `seed` makes temporary names.
  [[nodiscard]] static Result<std::unique_ptr<DirectoryDestination>> serve(const std::string& directory,
                                                                           std::uint64_t seed,
                                                                           LandBy land_by = LandBy::faster);

  /// `path` is a directory (it exists, or it is empty or ends in '/') or, for a single file, the file's new name.
  [[nodiscard]] Result<std::unique_ptr<Sink>> open(std::string_view path, std::size_t files) override;

 private:
  DirectoryDestination(Descriptor root, std::uint64_t seed, LandBy land_by)
      : root_(std::move(root)), prng_(seed), land_by_(land_by) {}

  Descriptor root_;
  Prng prng_;
  LandBy land_by_;
};

}  // namespace sluice::ftx
