// SPDX-License-Identifier: Apache-2.0
#pragma once

// Where a receiver's bytes go. apps/ftx/directory.h is the one for disks; tests have others that fail on purpose.

#include <cerrno>
#include <memory>
#include <string>
#include <string_view>

#include "apps/ftx/manifest.h"

namespace sluice::ftx {

/// A file that is arriving. Until commit() it has only a temporary name; destroying it removes that, unless keep() was
/// called. Error codes are errno values; ENOSPC, EDQUOT and EFBIG mean that the destination is full.
class SinkFile {
 public:
  virtual ~SinkFile() = default;
  /// Writes at `offset`, in any order.
  [[nodiscard]] virtual Status write(std::uint64_t offset, ConstBytes bytes) = 0;
  /// Where the bytes [offset, offset + size) of the file lie, so that they can be put there without a copy in between;
  /// valid until the next call for this file but placed(). What lies there before is not said. ENOTSUP: nowhere,
  /// write() them. REQUIRES: size > 0; the range lies within the file as created.
  [[nodiscard]] virtual Result<Bytes> place(std::uint64_t /*offset*/, std::size_t /*size*/) { return fail(ENOTSUP); }
  /// `bytes` are what place(offset, ...) gave, and hold now what belongs there. Says what write() would have said;
  /// until then nothing is known to be in the file.
  [[nodiscard]] virtual Status placed(std::uint64_t /*offset*/, ConstBytes /*bytes*/) { return {}; }
  /// Fills `out` with what was written. REQUIRES: the range was written.
  [[nodiscard]] virtual Status read(std::uint64_t offset, Bytes out) = 0;
  /// Sets mode and times, makes the content durable and gives back the descriptor. No write or read follows.
  [[nodiscard]] virtual Status settle() = 0;
  /// Gives the file its final name, in one step. REQUIRES: settle() succeeded.
  [[nodiscard]] virtual Status commit() = 0;
  /// Keeps the temporary file and gives its name.
  virtual std::string keep() = 0;
};

/// One transfer's destination. Files it created must not outlive it.
class Sink {
 public:
  virtual ~Sink() = default;
  [[nodiscard]] virtual Result<std::unique_ptr<SinkFile>> create(const FileEntry& entry) = 0;
  /// Makes the renames durable.
  [[nodiscard]] virtual Status flush() = 0;
  /// The final path of `entry`, for people.
  [[nodiscard]] virtual std::string path(const FileEntry& entry) const = 0;
};

/// What a server serves.
class Destination {
 public:
  virtual ~Destination() = default;
  /// The sink for `files` files that are to go to `path`. REQUIRES: is_relative_path(path).
  [[nodiscard]] virtual Result<std::unique_ptr<Sink>> open(std::string_view path, std::size_t files) = 0;
};

}  // namespace sluice::ftx
