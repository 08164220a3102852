// SPDX-License-Identifier: Apache-2.0
#pragma once

// Destination, Sink, SinkFile and Survey: where a receiver's bytes go. apps/ftx/files/directory.h implements them for
// disks; tests have others that fail on purpose.

#include <cerrno>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "apps/ftx/files/journal.h"
#include "apps/ftx/protocol/change.h"
#include "apps/ftx/protocol/manifest.h"
#include "apps/ftx/protocol/message.h"
#include "apps/ftx/protocol/update.h"

namespace sluice::ftx {

/// A file that is arriving. Until commit() it has a temporary name; the destructor removes it unless keep() was called,
/// or a later transfer can go on with it. Offsets and sizes are those of its content (FileEntry::content_bytes()).
/// Error codes are errno values; ENOSPC, EDQUOT and EFBIG mean that the destination is full.
class SinkFile {
 public:
  virtual ~SinkFile() = default;
  /// Whether there is room for these bytes now; where there is none they have to come again later.
  [[nodiscard]] virtual bool takes(std::uint64_t /*offset*/, std::size_t /*size*/) { return true; }
  /// Writes at `offset`, in any order. REQUIRES: takes().
  [[nodiscard]] virtual Status write(std::uint64_t offset, ConstBytes bytes) = 0;
  /// As write(), of `pieces`, one behind the other.
  [[nodiscard]] virtual Status write_run(std::uint64_t offset, std::span<const ConstBytes> pieces) {
    Status status;
    for (const ConstBytes piece : pieces) {
      status = status ? write(offset, piece) : status;
      offset += piece.size();
    }
    return status;
  }
  /// The memory of the bytes [offset, offset + size) of the file, so that a payload lands there without another copy;
  /// valid until the next call for this file other than placed(). Its content is unspecified. ENOTSUP: no such memory,
  /// use write(). REQUIRES: size > 0; the range lies within the file as created.
  [[nodiscard]] virtual Result<Bytes> place(std::uint64_t /*offset*/, std::size_t /*size*/) { return fail(ENOTSUP); }
  /// The payload is in `bytes`, which place(offset, ...) named. Answers what write() would have answered; only then is
  /// the payload in the file.
  [[nodiscard]] virtual Status placed(std::uint64_t /*offset*/, ConstBytes /*bytes*/) { return {}; }
  /// Fills `out` from `offset`. REQUIRES: the range was written.
  [[nodiscard]] virtual Status read(std::uint64_t offset, Bytes out) = 0;
  /// Block `index` of a file of several is written as a whole, and has this digest (apps/ftx/files/digest.h).
  virtual void note_block(std::uint64_t /*index*/, const Digest& /*digest*/) {}
  /// Blocks that are there, durably, from an earlier transfer, by index; they are not read again.
  [[nodiscard]] virtual Result<std::vector<KnownBlock>> known_blocks() { return std::vector<KnownBlock>(); }
  /// Of these the caller wants nothing: they will be written over. After an error nothing may be written.
  [[nodiscard]] virtual Status withdraw(std::span<const std::uint64_t> /*blocks*/) { return {}; }
  /// Sets mode and times and makes the content durable. Closes the descriptor, unless open_until_commit(). No write or
  /// read follows.
  [[nodiscard]] virtual Status finalize() = 0;
  /// Renames the file to its final name, atomically. REQUIRES: finalize() succeeded.
  [[nodiscard]] virtual Status commit() = 0;
  /// True for a file that has a descriptor between finalize() and commit(), too, or until let_go().
  [[nodiscard]] virtual bool open_until_commit() const { return false; }
  /// Closes it: no later transfer can go on with the file. REQUIRES: finalize() succeeded.
  [[nodiscard]] virtual Status let_go() { return {}; }
  /// Keeps the temporary file and answers its name.
  virtual std::string keep() = 0;
  /// What is there is not what was wanted: no later transfer goes on with it.
  virtual void discard() {}
};

/// What lies in the place of a file that is to arrive: an earlier version of it, perhaps.
class EarlierFile {
 public:
  virtual ~EarlierFile() = default;
  /// Reads what follows what it has read before, without holes. How much; 0: that was all.
  [[nodiscard]] virtual Result<std::size_t> read_on(Bytes out) = 0;
};

/// What comparing contents has found, by a file's place in the list: which state of the file that is there was read,
/// and whether that had the digest that the list asks for. Empty: nothing has been read.
using ComparedContents = std::vector<std::uint64_t>;

/// The destination of one transfer. It must outlive the files it created.
class Sink {
 public:
  virtual ~Sink() = default;
  [[nodiscard]] virtual Result<std::unique_ptr<SinkFile>> create(const FileEntry& entry) = 0;
  /// What is left alone; called before anything else. Who leaves files alone asks present() before create() and
  /// store().
  virtual void follow(const Update& /*update*/) {}
  /// The content of `entry`, a regular file, need not travel: it is there already, or what is there or would be made is
  /// left alone. Of a file that is there already mode and time are as `entry` says when this has answered true.
  [[nodiscard]] virtual bool present(const FileEntry& /*entry*/) { return false; }
  /// Where contents are compared: reads on in the file that present() will be asked of next, `bytes` at most, and takes
  /// from them what that costs. True: present() has what it needs.
  [[nodiscard]] virtual bool examine(const FileEntry& /*entry*/, std::uint64_t& /*bytes*/) { return true; }
  /// What a survey has read need not be read again, as long as it is as it was.
  virtual void believe(ComparedContents /*compared*/) {}
  /// The file of which an earlier transfer of the same source has left blocks. Makes nothing. Null: there is none.
  [[nodiscard]] virtual std::unique_ptr<SinkFile> resume(const FileEntry& /*entry*/) { return nullptr; }
  /// What `entry` will replace, a regular file that differs. Makes nothing of it. Null: there is none.
  [[nodiscard]] virtual std::unique_ptr<EarlierFile> earlier(const FileEntry& /*entry*/) { return nullptr; }
  /// How many bytes more there is room for now.
  [[nodiscard]] virtual std::uint64_t room_bytes() { return UINT64_MAX; }
  /// Puts a file in place that is there as a whole. It may be durable only after finish().
  [[nodiscard]] virtual Status store(const FileEntry& entry, ConstBytes content) {
    auto file = create(entry);
    if (!file) {
      return std::unexpected(file.error());
    }
    Status status = content.empty() ? Status() : (*file)->write(0, content);
    status = status ? (*file)->finalize() : status;
    return status ? (*file)->commit() : status;
  }
  /// finish() is to remove what the list does not have, of its directories, before it makes them durable. ECANCELED of
  /// finish(): it has removed nothing because that is more than `deletion` allows.
  [[nodiscard]] virtual Status also_remove(const Deletion& /*deletion*/) { return fail(ENOTSUP); }
  /// All files are in place: makes what else the list has, and makes everything durable.
  [[nodiscard]] virtual Status finish() = 0;
  /// How many entries it has made, or tried to, in whatever place: not those that were there and stayed.
  [[nodiscard]] virtual std::uint64_t entries_made() const { return 0; }
  /// The final path of `entry`, for people.
  [[nodiscard]] virtual std::string path(const FileEntry& entry) const = 0;
};

/// What a sink would change.
class Survey {
 public:
  virtual ~Survey() = default;
  /// Looks on, for a while, and adds what it finds to `changes`, `count_max` at most: entries in the order of the list,
  /// then what would be removed. True: that was all. Errors are those of the sink that would do it.
  [[nodiscard]] virtual Result<bool> look(std::size_t count_max, std::vector<Change>& changes) = 0;
  /// What it has read; for the sink. REQUIRES: look() has answered true.
  [[nodiscard]] virtual ComparedContents compared() { return {}; }
};

/// What a server serves.
class Destination {
 public:
  virtual ~Destination() = default;
  /// What to remove, where the sender's list asks for `asked`: nothing, unless that is allowed.
  [[nodiscard]] virtual Result<std::optional<Deletion>> deletion(const std::optional<Deletion>& asked) {
    if (asked) {
      return fail(EPERM, "what the list of files does not have may not be removed here");
    }
    return std::nullopt;
  }
  /// Nothing of a list that begins with `first`, a directory, is there: where it lies below `path` there is nothing, or
  /// an empty directory if it stands for that itself. Asked before the rest of the list has come, so it is a guess, and
  /// only what it saves depends on it. Makes nothing. REQUIRES: is_relative_path(path); first_entry() named `first`.
  [[nodiscard]] virtual bool nothing_there(std::string_view /*path*/, const FileEntry& /*first*/) { return false; }
  /// The sink for `entries` below `path`; it borrows them. REQUIRES: is_relative_path(path); decode_manifest() accepted
  /// the entries.
  [[nodiscard]] virtual Result<std::unique_ptr<Sink>> open(std::string_view path,
                                                           std::span<const FileEntry> entries) = 0;
  /// What the sink of open() would change when it follows `update` and removes what `deletion` says. Makes nothing.
  [[nodiscard]] virtual Result<std::unique_ptr<Survey>> survey(std::string_view /*path*/,
                                                               std::span<const FileEntry> /*entries*/,
                                                               const Update& /*update*/,
                                                               const std::optional<Deletion>& /*deletion*/) {
    return fail(ENOTSUP, "what would change cannot be said here");
  }
};

}  // namespace sluice::ftx
