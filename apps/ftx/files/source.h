// SPDX-License-Identifier: Apache-2.0
#pragma once

// Source: where a sender's bytes come from. FileSource maps large regular files in guarded windows
// (apps/ftx/files/mapped_window.h says what happens when a file is truncated meanwhile). It reads small files, and
// files that cannot be mapped, with pread. Either way a file that became shorter is an error and never a crash.
//
// Trees: a FileSource lists a directory in a walk from descriptor to descriptor, and opens the files of it again as it
// walked. Threat: somebody who may write in a part of the tree swaps a directory for a symbolic link, so that files of
// others are sent. No step below an operand follows a link, and a file is only read when it is the one that was listed
// (device, inode, size, times).
//
// Not thread-safe.

#include <fcntl.h>
#include <sys/stat.h>

#include <array>
#include <cerrno>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "apps/ftx/files/accounts.h"
#include "apps/ftx/files/descriptor.h"
#include "apps/ftx/files/digest.h"
#include "apps/ftx/files/filter.h"
#include "apps/ftx/files/open_directories.h"
#include "apps/ftx/files/window_set.h"
#include "apps/ftx/protocol/manifest.h"
#include "apps/ftx/protocol/selection.h"

namespace sluice::ftx {

class Source {
 public:
  virtual ~Source() = default;
  /// All entries, directories before what lies in them.
  [[nodiscard]] virtual const std::vector<FileEntry>& files() const = 0;
  /// Fills `out` from `offset` of the content of file `index` (FileEntry::content_bytes(): without holes). ESTALE: the
  /// file changed since it was offered; other codes: unreadable. REQUIRES: the range lies within the file as offered.
  [[nodiscard]] virtual Status read(std::uint32_t index, std::uint64_t offset, Bytes out) = 0;
  /// Fills `out` with all of file `index`, and finds it unchanged behind that. Errors as read(). REQUIRES: `out` is as
  /// large as the file as offered.
  [[nodiscard]] virtual Status read_whole(std::uint32_t index, Bytes out) {
    Status status = read(index, 0, out);
    return status ? unchanged(index) : status;
  }
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
  /// What the receiver is to remove. Null: nothing.
  [[nodiscard]] virtual const Deletion* deletion() const { return nullptr; }
  /// Reads about `bytes` more of what files() needs for the digests that it is to have (FileEntry::digest). True: they
  /// are all there. Before that nobody sends the list.
  [[nodiscard]] virtual std::expected<bool, Failure> digest_some(std::uint64_t /*bytes*/) { return true; }
  /// How much of a stream (EntryKind::stream) can be read, from its beginning, and whether that is all of it. Asked for
  /// the first time it begins to read; before that nobody has taken anything from where it comes. An error is that of
  /// where it comes from: it ends there.
  struct StreamState {
    std::uint64_t bytes = 0;
    bool ended = false;
  };
  [[nodiscard]] virtual Result<StreamState> stream_state() { return fail(ENOTSUP); }
  /// Nobody reads what lies before `offset` in the stream any more.
  virtual void stream_delivered(std::uint64_t /*offset*/) {}
  /// The file's name as the user wrote it, safe for a terminal.
  [[nodiscard]] virtual std::string path(std::uint32_t index) const = 0;
};

/// What read() and its like have answered of file `index`, as the outcome of a transfer.
[[nodiscard]] Failure source_failure(const Source& source, std::uint32_t index, const Error& error);

[[nodiscard]] std::unexpected<Failure> unreadable(const std::string& path, std::string_view why);

/// How a FileSource reads its bytes.
enum class ReadBy : std::uint8_t {
  map,   // view() where it can
  read,  // never view()
};

struct SourceOptions {
  ReadBy read_by = ReadBy::map;
  /// With a '/' behind it, only what lies in a directory is sent. Where links are not sent, those in a tree are left
  /// out, and one that is named is followed.
  Trees trees = Trees::none;
  bool pack = false;  // small files travel in the pack
  /// Its rules exclude operands, too; what lies in an excluded directory is not looked at. Names: of the one path.
  Selection select{};
  std::optional<Deletion> deletion{};
  std::shared_ptr<const Accounts> accounts{};  // names of owners; null: their numbers alone are sent
};

class FileSource final : public Source {
 public:
  /// Smaller files are read: measured, a read with its copy costs less than mapping them.
  static constexpr std::uint64_t map_file_bytes_min = 4U << 20;

  /// Opens a path for reading, each time that its file is opened; answers -1 and errno.
  using Opener = std::function<int(const std::string& path)>;

  /// Opens each path once to check that it can be read. Of a tree it reads the directories, and opens no file.
  [[nodiscard]] static std::expected<std::unique_ptr<FileSource>, Failure> open(std::span<const std::string> paths,
                                                                                SourceOptions options = {});
  [[nodiscard]] static std::expected<std::unique_ptr<FileSource>, Failure> open(std::span<const std::string> paths,
                                                                                Opener opener,
                                                                                SourceOptions options = {});
  FileSource(const FileSource&) = delete;
  FileSource& operator=(const FileSource&) = delete;

  [[nodiscard]] const std::vector<FileEntry>& files() const override { return entries_; }
  [[nodiscard]] Status read(std::uint32_t index, std::uint64_t offset, Bytes out) override;
  [[nodiscard]] Result<ConstBytes> view(std::uint32_t index, std::uint64_t offset, std::size_t size) override;
  void release() override { windows_.release(); }
  [[nodiscard]] std::optional<Damage> damaged() override;
  [[nodiscard]] Status unchanged(std::uint32_t index) override;
  [[nodiscard]] Status read_whole(std::uint32_t index, Bytes out) override;
  [[nodiscard]] std::string path(std::uint32_t index) const override;
  [[nodiscard]] std::expected<bool, Failure> digest_some(std::uint64_t bytes) override;
  [[nodiscard]] const Deletion* deletion() const override { return options_.deletion ? &*options_.deletion : nullptr; }

  /// What trees had that is not sent.
  struct LeftOut {
    std::uint64_t links = 0;
    std::uint64_t others = 0;  // devices, sockets, FIFOs
  };
  [[nodiscard]] LeftOut left_out() const { return left_out_; }

 private:
  /// Identifies one state of one file, together with the size and the time of its entry.
  struct Identity {
    std::uint64_t inode = 0;
    std::int64_t changed_s = 0;
    std::uint32_t changed_ns = 0;
    std::uint32_t device = 0;  // its place in devices_: a transfer has millions of files, on few devices
    bool operator==(const Identity&) const = default;
  };
  struct Open {
    std::uint32_t index = 0;
    Descriptor descriptor{};
  };
  /// How far digest_some() has come.
  struct Digesting {
    std::uint32_t index = 0;
    std::uint64_t offset = 0;
    FileDigester digester{};
    std::vector<std::byte> buffer{};
  };
  // Opening a FIFO must not block, and opening a terminal must not make it the controlling one.
  static constexpr int open_flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
  static constexpr std::size_t open_max = 32;
  // One for first transmissions, the others for retransmissions from before it.
  static constexpr std::size_t windows = 4;

  /// Where an entry comes from that lies in no directory of the list.
  struct Operand {
    std::string path;                            // as the user wrote it
    std::shared_ptr<const Descriptor> inside{};  // set: it lies in this directory
  };

  /// How much of a directory's content is listed.
  enum class Levels : std::uint8_t { none, one, all };
  /// What has been listed already, where names may name it twice.
  struct Listed {
    std::uint32_t index = 0;  // of a directory: FileEntry::parent of what lies in it
    Levels levels = Levels::none;
  };

  /// Without an opener the paths are those of this process.
  FileSource(Opener opener, SourceOptions options)
      : opens_paths_(!opener),
        opener_(opener ? std::move(opener) : Opener(open_path)),
        options_(std::move(options)),
        filter_(options_.select.rules, Filter::Side::sender) {}
  static int open_path(const std::string& path);
  [[nodiscard]] std::expected<void, Failure> add(const std::string& path);
  // source_tree.cc
  [[nodiscard]] std::expected<void, Failure> add_tree(const std::string& path, Descriptor directory,
                                                      const struct stat& status);
  [[nodiscard]] std::expected<Operand, Failure> add_top(const std::string& path, int directory,
                                                        const struct stat& status);
  [[nodiscard]] std::expected<void, Failure> add_names(const Operand& operand);
  [[nodiscard]] std::expected<void, Failure> add_name(const std::string& name, const Operand& operand);
  [[nodiscard]] bool first_time(const std::string& inside);
  [[nodiscard]] std::expected<std::uint32_t, Failure> add_directory(const std::string& inside, int descriptor,
                                                                    const struct stat& status, std::uint32_t parent,
                                                                    const Operand& operand);
  [[nodiscard]] std::expected<void, Failure> add_content(Descriptor directory, std::uint32_t parent,
                                                         const Operand& operand, std::size_t depth, Levels levels);
  [[nodiscard]] std::expected<void, Failure> add_below(int directory, const std::string& inside,
                                                       const struct stat& status, std::uint32_t parent,
                                                       const Operand& operand, std::size_t depth, Levels levels);
  [[nodiscard]] std::expected<void, Failure> add_found(int directory, const std::string& name,
                                                       const struct stat& status, std::uint32_t parent,
                                                       const Operand& operand, int descriptor = -1);
  [[nodiscard]] std::expected<void, Failure> add_entry(FileEntry entry, const struct stat& status, Operand operand);
  [[nodiscard]] std::expected<void, Failure> add_link(int directory, const std::string& name, FileEntry entry,
                                                      const struct stat& status, Operand operand);

  [[nodiscard]] Descriptor open_found(int directory, const std::string& name, const struct stat& status);
  [[nodiscard]] std::string shown_path(const std::string& name, std::uint32_t parent, const Operand& from) const;
  [[nodiscard]] Status add_metadata(FileEntry& entry, const struct stat& status, int descriptor) const;
  [[nodiscard]] std::uint32_t original_of(const struct stat& status);

  [[nodiscard]] int open_entry(std::uint32_t index);
  [[nodiscard]] Error failure_of_open(std::uint32_t index);
  [[nodiscard]] Result<int> descriptor(std::uint32_t index);
  [[nodiscard]] Result<std::uint64_t> digest_piece(std::uint64_t bytes_max);
  [[nodiscard]] static Status read_from(int descriptor, std::uint64_t offset, Bytes out);
  [[nodiscard]] Identity identity_of(const struct stat& status);
  [[nodiscard]] Status same(std::uint32_t index, int descriptor);

  bool opens_paths_;
  Opener opener_;
  SourceOptions options_;
  Filter filter_;
  WindowSet windows_{windows, MappedWindow::Access::read, WindowSet::Far::map};
  std::unordered_map<std::uint32_t, Operand> operands_;  // of the entries that lie in no directory of the list
  EntryNames entry_names_;
  std::vector<FileEntry> entries_;
  std::vector<Identity> identities_;
  std::vector<std::uint64_t> devices_;
  std::unordered_set<std::string> names_;           // of those entries
  std::unordered_map<std::string, Listed> listed_;  // by path below where the transfer goes; only with names
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::uint32_t> originals_;  // by device and inode
  std::uint64_t total_bytes_ = 0;
  std::uint64_t manifest_bytes_ = 0;
  LeftOut left_out_;
  Digesting digesting_;
  std::optional<OpenDirectories> directories_;
  // Opens descriptors on demand and closes the older ones, so that ten thousand sources need only a few.
  std::array<Open, open_max> open_{};
};

}  // namespace sluice::ftx
