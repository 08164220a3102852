// SPDX-License-Identifier: Apache-2.0
#pragma once

// A part of a file, mapped: a pass over the bytes reads or writes the page cache itself, without a copy in between.
//
// Threat: whoever may truncate the file while it is mapped, a disk that fills up under a sparse file, and a disk that
// cannot read a page all end the next access in SIGBUS, and a process that does not expect it. So every window
// is entered into a table of fixed size, and one process-wide handler, installed with the first window, looks the
// address of a fault up there:
//   - in a window: a page of zeros is mapped over the page that cannot be had, the window is marked, and the pass goes
//     on, over zeros or into memory that belongs to nobody. Who uses the window asks failed() after each
//     pass, before anything is said about what passed.
//   - anywhere else, or sent by kill(): whatever was there before the handler gets it, so that a crash stays a crash.
// The handler reads atomics and makes one system call; it neither locks nor allocates, and gives errno back as it was.
// A system call that is given a part of a window meets no signal: it fails with EFAULT.
//
// What the guard cannot see: bytes beyond a new end within its last page read as zeros without a fault. Who
// needs to know compares the file's size as well.
//
// Different windows may be used by different threads; one window by one at a time.

#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/bytes.h"
#include "base/result.h"

namespace sluice::ftx {

class MappedWindow {
 public:
  enum class Access : std::uint8_t { read, write };
  /// Windows that exist at once, in the whole process.
  static constexpr std::size_t windows_max = 1024;

  /// A multiple of this is where a window may begin.
  [[nodiscard]] static std::size_t page_bytes();

  /// Maps nothing.
  MappedWindow() = default;
  /// Maps `size` bytes from `offset`, shared; what lies beyond the end of the file fails when it is touched. The
  /// descriptor may be closed afterwards. ENFILE: windows_max exist; else what mmap says (ENODEV: a file system that
  /// does not map). REQUIRES: size > 0; offset is a multiple of page_bytes().
  [[nodiscard]] static Result<MappedWindow> map(int descriptor, std::uint64_t offset, std::size_t size, Access access);
  ~MappedWindow();
  MappedWindow(MappedWindow&& other) noexcept
      : bytes_(std::exchange(other.bytes_, {})), entry_(std::exchange(other.entry_, 0)) {}
  MappedWindow& operator=(MappedWindow&& other) noexcept;

  /// Never to be written to when the access is `read`.
  [[nodiscard]] Bytes bytes() const { return bytes_; }
  /// True when a page could not be had since it was mapped, and zeros stand in its place.
  [[nodiscard]] bool failed() const;

 private:
  MappedWindow(Bytes bytes, std::size_t entry) : bytes_(bytes), entry_(entry) {}

  Bytes bytes_;
  std::size_t entry_ = 0;  // of the handler's table, when bytes_ is not empty
};

}  // namespace sluice::ftx
