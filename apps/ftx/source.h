// SPDX-License-Identifier: Apache-2.0
#pragma once

// Where a sender's bytes come from. FileSource reads regular files with pread, never through a map: a file truncated
// by someone else is then a short read, not a SIGBUS.
//
// Not thread-safe.

#include <array>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "apps/ftx/manifest.h"

namespace sluice::ftx {

class Source {
 public:
  virtual ~Source() = default;
  [[nodiscard]] virtual const std::vector<FileEntry>& files() const = 0;
  /// Fills `out` from `offset` of file `index`. ESTALE: the file changed since it was offered; other codes: unreadable.
  /// REQUIRES: the range lies within the file as offered.
  [[nodiscard]] virtual Status read(std::uint32_t index, std::uint64_t offset, Bytes out) = 0;
  /// ESTALE when file `index` is not what was offered (size, modification or change time, or another file).
  [[nodiscard]] virtual Status unchanged(std::uint32_t index) = 0;
  /// The file's name as the user knows it, fit for a terminal.
  [[nodiscard]] virtual std::string path(std::uint32_t index) const = 0;
};

class FileSource final : public Source {
 public:
  /// Opens each path once to see that it can be read.
  [[nodiscard]] static std::expected<std::unique_ptr<FileSource>, Failure> open(std::span<const std::string> paths);
  ~FileSource() override;
  FileSource(const FileSource&) = delete;
  FileSource& operator=(const FileSource&) = delete;

  [[nodiscard]] const std::vector<FileEntry>& files() const override { return entries_; }
  [[nodiscard]] Status read(std::uint32_t index, std::uint64_t offset, Bytes out) override;
  [[nodiscard]] Status unchanged(std::uint32_t index) override;
  [[nodiscard]] std::string path(std::uint32_t index) const override;

 private:
  /// What makes two looks at a file the same look.
  struct Identity {
    std::uint64_t device = 0, inode = 0, size_bytes = 0;
    std::int64_t modified_s = 0, modified_ns = 0, changed_s = 0, changed_ns = 0;
    bool operator==(const Identity&) const = default;
  };
  struct Open {
    std::uint32_t index = 0;
    int descriptor = -1;
  };
  static constexpr std::size_t open_max = 32;

  FileSource() = default;
  [[nodiscard]] std::expected<void, Failure> add(const std::string& path);
  [[nodiscard]] Result<int> descriptor(std::uint32_t index);
  [[nodiscard]] Status same(std::uint32_t index, int descriptor) const;

  std::vector<std::string> paths_;
  std::vector<FileEntry> entries_;
  std::vector<Identity> identities_;
  // Descriptors are opened on demand and closed in turn, so that ten thousand sources need only a few.
  std::array<Open, open_max> open_{};
};

}  // namespace sluice::ftx
