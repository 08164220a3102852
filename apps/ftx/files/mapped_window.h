// SPDX-License-Identifier: Apache-2.0
#pragma once

// MappedWindow: a part of a file, mapped. A pass over its bytes reads or writes the page cache without a copy.
//
// Threat: an access ends in SIGBUS when somebody truncates the mapped file, when the disk under a sparse file is full,
// or when the disk cannot read a page. Without a handler the process dies. So MappedWindow keeps all windows in a table
// of fixed size. One process-wide handler, installed with the first window, looks up the address of a fault:
//   - in a window: it maps a page of zeros over the unavailable page and marks the window. The pass goes on, over zeros
//     or into memory of nobody. The caller asks failed() after each pass, before it acts on what passed.
//   - anywhere else, or sent by kill(): it calls the handler that was there before, so a crash stays a crash.
// The handler reads atomics and makes one system call. It neither locks nor allocates, and it preserves errno. A system
// call that gets a part of a window as its buffer raises no signal; it fails with EFAULT.
//
// Limit: bytes behind the new end of a truncated file, within its last page, read as zeros without a fault. A caller
// that needs to know compares the file's size as well.
//
// Threads may use different windows at the same time, but not the same window.

#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/bytes.h"
#include "base/result.h"

namespace sluice::ftx {

class MappedWindow {
 public:
  enum class Access : std::uint8_t { read, write };
  /// The most windows in the whole process.
  static constexpr std::size_t windows_max = 1024;

  /// A window begins at a multiple of this.
  [[nodiscard]] static std::size_t page_bytes();

  /// Maps nothing.
  MappedWindow() = default;
  /// Maps `size` bytes from `offset`, shared. An access beyond the end of the file fails. The caller may close the
  /// descriptor afterwards. ENFILE: windows_max exist; other codes are those of mmap (ENODEV: the file system does not
  /// map). REQUIRES: size > 0; offset is a multiple of page_bytes().
  [[nodiscard]] static Result<MappedWindow> map(int descriptor, std::uint64_t offset, std::size_t size, Access access);
  ~MappedWindow();
  MappedWindow(MappedWindow&& other) noexcept
      : bytes_(std::exchange(other.bytes_, {})), entry_(std::exchange(other.entry_, 0)) {}
  MappedWindow& operator=(MappedWindow&& other) noexcept;

  /// The caller must not write to them when the access is `read`.
  [[nodiscard]] Bytes bytes() const { return bytes_; }
  /// True when a page was unavailable since the window was mapped and zeros have replaced it.
  [[nodiscard]] bool failed() const;
  /// True when that has happened to any window of this process: to ask this first costs next to nothing.
  [[nodiscard]] static bool any_failed();

 private:
  MappedWindow(Bytes bytes, std::size_t entry) : bytes_(bytes), entry_(entry) {}

  Bytes bytes_;
  std::size_t entry_ = 0;  // of the handler's table, when bytes_ is not empty
};

}  // namespace sluice::ftx
