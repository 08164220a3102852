// SPDX-License-Identifier: Apache-2.0
#pragma once

// DirectoryFile: a file that arrives below a served directory, under a temporary name until it is whole; and what
// everything has in common that is made there. Offsets are those of the content (apps/ftx/protocol/extents.h): the
// holes of a sparse file are never written, so they are holes here as well. With a Partial the next transfer finds it
// again; it stays locked, and therefore open, until it has its final name.
//
// Not thread-safe.

#include <string>
#include <string_view>

#include "apps/ftx/files/case_folding.h"
#include "apps/ftx/files/descriptor.h"
#include "apps/ftx/files/directory.h"
#include "apps/ftx/files/open_directories.h"
#include "apps/ftx/files/ownership.h"
#include "apps/ftx/files/partial.h"
#include "apps/ftx/files/window_set.h"
#include "base/prng.h"

namespace sluice::ftx {

/// Of errno.
[[nodiscard]] std::unexpected<Error> system_error(std::string_view what, std::string_view name);

/// A new file of a temporary name beside `name`, that nobody else may read.
struct TemporaryFile {
  Descriptor file{};
  std::string name;
  std::unique_ptr<Partial> partial{};  // null: of a name that nobody finds again
};
[[nodiscard]] Result<TemporaryFile> make_temporary(int directory, std::string_view name, Prng& prng);
/// `.NAME.ftx-XXXXXXXX`, with NAME shortened so that the result is a legal component.
[[nodiscard]] std::string temporary_name(std::string_view name, std::uint64_t random);
/// Whether a name is one of those, or of a file that waits for the rest of it.
[[nodiscard]] bool is_temporary(std::string_view name);
/// How many temporary names are tried where each is taken.
inline constexpr int temporary_attempts_max = 100;

/// The extended attributes, the owners as far as `ownership` has it, the mode and the time of `entry`.
[[nodiscard]] Status set_attributes(int descriptor, const FileEntry& entry, const Ownership& ownership);
[[nodiscard]] Status set_owners(int descriptor, const FileEntry& entry, const Ownership& ownership);
/// Writes all of `bytes` at the beginning.
[[nodiscard]] Status write_all(int descriptor, ConstBytes bytes, std::string_view name);

class DirectoryFile final : public SinkFile, private Partials::Owner {
 public:
  DirectoryFile(OpenDirectories& directories, Partials& partials, const Ownership& ownership,
                const CaseFolding& folding, TemporaryFile file, std::string name, FileEntry entry, LandBy land_by);
  ~DirectoryFile() override;
  DirectoryFile(const DirectoryFile&) = delete;
  DirectoryFile& operator=(const DirectoryFile&) = delete;

  Status write(std::uint64_t offset, ConstBytes bytes) override;
  Status write_run(std::uint64_t offset, std::span<const ConstBytes> pieces) override;
  Result<Bytes> place(std::uint64_t offset, std::size_t size) override;
  Status placed(std::uint64_t offset, ConstBytes bytes) override;
  Status read(std::uint64_t offset, Bytes out) override;
  Status finalize() override;
  Status commit() override;
  std::string keep() override;
  [[nodiscard]] Result<std::vector<KnownBlock>> known_blocks() override;
  Status withdraw(std::span<const std::uint64_t> blocks) override;
  void note_block(std::uint64_t index, const Digest& digest) override;
  [[nodiscard]] bool open_until_commit() const override { return partial_ != nullptr; }
  Status let_go() override;
  void discard() override;

 private:
  // One for what arrives in order, one for what arrives late.
  static constexpr std::size_t windows_max = 2;

  [[nodiscard]] std::unexpected<Error> cut_short() const {
    return fail(EIO, "'" + name_ + "' was cut short by someone else");
  }
  /// Of errno.
  [[nodiscard]] std::unexpected<Error> error(std::string_view what) const;
  [[nodiscard]] Status close_file();
  [[nodiscard]] Status synced();
  void surrender() override;
  void leave();
  [[nodiscard]] Status write_extents(std::uint64_t& offset, std::span<const ConstBytes> pieces);
  [[nodiscard]] Status write_pieces(std::uint64_t& at, std::span<const ConstBytes> pieces);
  [[nodiscard]] Status write_vectors(std::uint64_t& at, std::span<iovec> vectors);
  [[nodiscard]] bool extend();
  [[nodiscard]] bool worth_a_map(std::size_t size) const;

  OpenDirectories& directories_;  // a directory may be another descriptor each time
  Partials& partials_;
  const Ownership& ownership_;
  const CaseFolding& folding_;
  Descriptor file_;
  std::string temporary_;
  std::unique_ptr<Partial> partial_;  // after file_, which it borrows
  bool kept_ = false;
  bool taken_over_ = false;
  std::string name_;
  FileEntry entry_;
  LandBy land_by_;
  bool extended_ = false;         // to its size, for the map or a hole at its end
  std::uint64_t landed_end_ = 0;  // of the content that landed furthest back
  WindowSet windows_;
};

}  // namespace sluice::ftx
