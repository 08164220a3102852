// SPDX-License-Identifier: Apache-2.0
#pragma once

// Files of any size seen through a few windows of bounded size, kept in turn. Windows begin at multiples of
// window_bytes and are longer than that by range_bytes_max, so that every range lies within one.
//
// Where ranges follow each other more or less (a run), pages are made ready ahead of them, many in one system call
// instead of a fault each; in a run never more than twice the bytes that were asked for.
//
// Threat: a fault in a hole of a file may make a file system allocate far more than a page (ext4 with large folios:
// half a mebibyte), so a peer that names places far apart fills a disk with little traffic. Far::refuse keeps to runs,
// and what lies elsewhere is written by a call that allocates what it writes.
//
// Not thread-safe. range() is O(windows); it maps once every window_bytes.

#include <cstdint>
#include <vector>

#include "apps/ftx/mapped_window.h"
#include "apps/ftx/message.h"

namespace sluice::ftx {

class WindowSet {
 public:
  static constexpr std::uint64_t window_bytes = 16U << 20;
  static constexpr std::uint64_t range_bytes_max = adu_bytes_max;

  /// A file of the caller's numbering, open now.
  struct File {
    std::uint32_t index = 0;
    int descriptor = -1;  // used only to map
    std::uint64_t size_bytes = 0;
  };

  /// What becomes of a range that is in no run.
  enum class Far : std::uint8_t { map, refuse };

  WindowSet(std::size_t windows, MappedWindow::Access access, Far far) : kept_(windows), access_(access), far_(far) {}

  /// The bytes [offset, offset + size) of `file`, valid until the next call of range() or forget(). Errors: those of
  /// MappedWindow::map; EFAULT: pages cannot be made ready (the disk is full, or the file was cut short); EAGAIN:
  /// refused, far. REQUIRES: 0 < size <= range_bytes_max; the range lies within file.size_bytes, and the file was that
  /// large.
  [[nodiscard]] Result<Bytes> range(const File& file, std::uint64_t offset, std::size_t size);
  /// True when zeros stand in a window of file `index` for a page that could not be had.
  [[nodiscard]] bool failed(std::uint32_t index) const;
  /// True when range() would find the file's part without the descriptor.
  [[nodiscard]] bool holds(std::uint32_t index, std::uint64_t offset) const;
  void forget();

 private:
  struct Kept {
    std::uint32_t index = 0;
    std::uint64_t from = 0;
    std::uint64_t used = 0;  // when: larger is later
    MappedWindow window;
  };
  /// Ranges near each other: from where to where, how many bytes, and up to where pages are ready.
  struct Run {
    std::uint32_t index = 0;
    std::uint64_t from = 0;
    std::uint64_t reached = 0;
    std::uint64_t bytes = 0;
    std::uint64_t ready = 0;
  };

  [[nodiscard]] Result<Kept*> keep(const File& file, std::uint64_t from);
  [[nodiscard]] bool in_run(std::uint32_t index, std::uint64_t offset, std::uint64_t end);
  [[nodiscard]] Status make_ready(const Kept& kept, std::uint64_t end);
  [[nodiscard]] std::uint64_t ready_limit() const { return run_.from + 2 * run_.bytes; }

  std::vector<Kept> kept_;
  MappedWindow::Access access_;
  Far far_;
  std::uint64_t uses_ = 0;
  Run run_;
};

}  // namespace sluice::ftx
