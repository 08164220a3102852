// SPDX-License-Identifier: Apache-2.0
#pragma once

// Source: where a sender's bytes come from. FileSource maps large regular files in guarded windows
// (apps/ftx/files/mapped_window.h says what happens when a file is truncated meanwhile). It reads small files, and
// files that cannot be mapped, with pread. Either way a file that became shorter is an error and never a crash.
//
// Not thread-safe.

#include <array>
#include <cerrno>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "apps/ftx/files/descriptor.h"
#include "apps/ftx/files/window_set.h"
#include "apps/ftx/protocol/manifest.h"

namespace sluice::ftx {

class Source {
 public:
  virtual ~Source() = default;
  [[nodiscard]] virtual const std::vector<FileEntry>& files() const = 0;
  /// Fills `out` from `offset` of file `index`. ESTALE: the file changed since it was offered; other codes: unreadable.
  /// REQUIRES: the range lies within the file as offered.
  [[nodiscard]] virtual Status read(std::uint32_t index, std::uint64_t offset, Bytes out) = 0;
  /// The same bytes in the page cache, without a copy; valid until the next call of release(). ENOTSUP: use read(). A
  /// missing page shows only on access and then reads as zeros: the caller asks damaged() afterwards. REQUIRES: 0 <
  /// size <= adu_bytes_max; the range lies within the file as offered.
  [[nodiscard]] virtual Result<ConstBytes> view(std::uint32_t /*index*/, std::uint64_t /*offset*/,
                                                std::size_t /*size*/) {
    return fail(ENOTSUP);
  }
  /// The caller needs nothing any more that view() gave.
  virtual void release() {}
  /// The files of what view() gave and the caller accessed: one whose bytes were missing, and what read() would have
  /// answered. Null: none.
  struct Damage {
    std::uint32_t index = 0;
    Error error;
  };
  [[nodiscard]] virtual std::optional<Damage> damaged() { return std::nullopt; }
  /// ESTALE when file `index` differs from the one that was offered (size, modification or change time, or another
  /// inode).
  [[nodiscard]] virtual Status unchanged(std::uint32_t index) = 0;
  /// The file's name as the user wrote it, safe for a terminal.
  [[nodiscard]] virtual std::string path(std::uint32_t index) const = 0;
};

/// How a FileSource reads its bytes.
enum class ReadBy : std::uint8_t {
  map,   // view() where it can
  read,  // never view()
};

class FileSource final : public Source {
 public:
  /// Smaller files are read: measured, a read with its copy costs less than mapping them.
  static constexpr std::uint64_t map_file_bytes_min = 4U << 20;

  /// Opens a path for reading, each time that its file is opened; answers -1 and errno.
  using Opener = std::function<int(const std::string& path)>;

  /// Opens each path once to check that it can be read.
  [[nodiscard]] static std::expected<std::unique_ptr<FileSource>, Failure> open(std::span<const std::string> paths,
                                                                                ReadBy read_by = ReadBy::map);
  [[nodiscard]] static std::expected<std::unique_ptr<FileSource>, Failure> open(std::span<const std::string> paths,
                                                                                Opener opener,
                                                                                ReadBy read_by = ReadBy::map);
  FileSource(const FileSource&) = delete;
  FileSource& operator=(const FileSource&) = delete;

  [[nodiscard]] const std::vector<FileEntry>& files() const override { return entries_; }
  [[nodiscard]] Status read(std::uint32_t index, std::uint64_t offset, Bytes out) override;
  [[nodiscard]] Result<ConstBytes> view(std::uint32_t index, std::uint64_t offset, std::size_t size) override;
  void release() override { windows_.release(); }
  [[nodiscard]] std::optional<Damage> damaged() override;
  [[nodiscard]] Status unchanged(std::uint32_t index) override;
  [[nodiscard]] std::string path(std::uint32_t index) const override;

 private:
  /// Identifies one state of one file.
  struct Identity {
    std::uint64_t device = 0, inode = 0, size_bytes = 0;
    std::int64_t modified_s = 0, modified_ns = 0, changed_s = 0, changed_ns = 0;
    bool operator==(const Identity&) const = default;
  };
  struct Open {
    std::uint32_t index = 0;
    Descriptor descriptor{};
  };
  static constexpr std::size_t open_max = 32;
  // One for first transmissions, the others for retransmissions from before it.
  static constexpr std::size_t windows = 4;

  FileSource(Opener opener, ReadBy read_by) : opener_(std::move(opener)), read_by_(read_by) {}
  [[nodiscard]] std::expected<void, Failure> add(const std::string& path);
  [[nodiscard]] Result<int> descriptor(std::uint32_t index);
  [[nodiscard]] Status same(std::uint32_t index, int descriptor) const;

  Opener opener_;
  ReadBy read_by_;
  WindowSet windows_{windows, MappedWindow::Access::read, WindowSet::Far::map};
  std::vector<std::string> paths_;
  std::vector<FileEntry> entries_;
  std::vector<Identity> identities_;
  // Opens descriptors on demand and closes the older ones, so that ten thousand sources need only a few.
  std::array<Open, open_max> open_{};
};

}  // namespace sluice::ftx
