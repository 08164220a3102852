// SPDX-License-Identifier: Apache-2.0
#pragma once

// WindowSet: files of any size, seen through a few windows of bounded size. The least recently used window gives way;
// it stays mapped until release(), so ranges remain valid for as long as the caller needs them together.
// Windows begin at multiples of window_bytes and are longer than that by range_bytes_max, so every range lies within
// one window.
//
// Ranges that roughly follow each other form a run. WindowSet populates the pages ahead of a run, many in one system
// call instead of a fault each, and never more than twice the bytes that the run asked for.
//
// Threat: a fault in a hole of a file may make the file system allocate far more than a page (ext4 with large folios:
// half a mebibyte). A peer that names places far apart could fill a disk with little traffic. Far::refuse therefore
// maps runs only; the caller writes the rest by a call that allocates what it writes.
//
// Not thread-safe. range() is O(windows); it maps once every window_bytes.

#include <cstdint>
#include <optional>
#include <vector>

#include "apps/ftx/files/mapped_window.h"
#include "apps/ftx/protocol/message.h"

namespace sluice::ftx {

class WindowSet {
 public:
  static constexpr std::uint64_t window_bytes = 16U << 20;
  static constexpr std::uint64_t range_bytes_max = adu_bytes_max;

  /// An open file; the caller chooses its index.
  struct File {
    std::uint32_t index = 0;
    int descriptor = -1;  // used only to map
    std::uint64_t size_bytes = 0;
  };

  /// What happens to a range outside a run.
  enum class Far : std::uint8_t { map, refuse };

  WindowSet(std::size_t windows, MappedWindow::Access access, Far far) : kept_(windows), access_(access), far_(far) {}

  /// The bytes [offset, offset + size) of `file`, valid until the next call of release() or forget(). Errors: those of
  /// MappedWindow::map; EFAULT: pages cannot be made ready (the disk is full, or the file was cut short); EAGAIN:
  /// refused, far. REQUIRES: 0 < size <= range_bytes_max; the range lies within file.size_bytes, and the file was that
  /// large.
  [[nodiscard]] Result<Bytes> range(const File& file, std::uint64_t offset, std::size_t size);
  /// The caller needs no range any more: unmaps the windows that gave way, but for those that failed.
  void release();
  /// A file in a window of which zeros replaced an unavailable page; null: none.
  [[nodiscard]] std::optional<std::uint32_t> failed() const;
  /// True when range() needs no descriptor for this offset.
  [[nodiscard]] bool holds(std::uint32_t index, std::uint64_t offset) const;
  void forget();

 private:
  struct Kept {
    std::uint32_t index = 0;
    std::uint64_t from = 0;
    std::uint64_t used = 0;  // larger: more recently
    MappedWindow window;
  };
  /// Ranges near each other: first and last byte, bytes asked for, and the end of the populated pages.
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
  std::vector<Kept> retired_;  // gave way since release()
  MappedWindow::Access access_;
  Far far_;
  std::uint64_t uses_ = 0;
  Run run_;
};

}  // namespace sluice::ftx
