// SPDX-License-Identifier: Apache-2.0
#pragma once

// DirectorySink: where a list goes below an open directory. It makes directories when the first thing in them arrives,
// files as they arrive, links when all files are in place, removes then what is not to stay, and last, from the deepest
// up, sets modes, times, owners and extended attributes of directories: so a read-only one can be filled, and filling
// it does not change its time. Where the transfer fails, those that were there get their modes back, and those that it
// has made get theirs; not after a kill, but the next one mends that.
//
// What is there already is not written (apps/ftx/files/comparison.h). It is not opened unless its mode, time or owner
// differs, or the list has extended attributes.
// Links and directories that are as they should be are left alone, too. A file with several names is written once and
// gets the others as hard links in the end; the names that Update leaves alone keep what they have, and none is linked
// to that.
//
// Threats: the peer's symbolic links (nothing is written while there are any, and no walk follows one); what somebody
// swaps meanwhile (apps/ftx/files/open_directories.h); a partial file under its final name (until it is whole it has a
// temporary one, or none); two names that are one here (apps/ftx/files/case_folding.h: it ends the transfer, and what
// is there stays).
//
// Durability: the first fsync_files_max stored files one by one; with more, or with a tree, all of the file system at
// once in finish(), which costs less than thousands of calls. A file that replaces another is durable before it does:
// such files wait under their temporary names, waiting_max at most, until the file system has been synced.
//
// Where a list has many small files, Workers store those that replace nothing, beside the thread of the sink, in
// directories that tell upper from lower case: else two of them might give one name at the same time. What
// fails there fails the next call, or finish(). They make files without a name and name them when they are whole, where
// the system has that.
//
// Borrows the list. Not thread-safe. A small file in a new directory costs six system calls.

#include <sys/stat.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "apps/ftx/files/case_folding.h"
#include "apps/ftx/files/comparison.h"
#include "apps/ftx/files/directory.h"
#include "apps/ftx/files/directory_file.h"
#include "apps/ftx/files/open_directories.h"
#include "apps/ftx/files/ownership.h"
#include "apps/ftx/files/workers.h"
#include "base/prng.h"

namespace sluice::ftx {

class DirectorySink final : public Sink {
 public:
  static constexpr std::size_t fsync_files_max = 32;
  static constexpr std::size_t waiting_max = 1024;

  struct Place {
    Descriptor directory{};
    std::string shown;                  // its path, for people
    std::optional<EntryName> new_name;  // of the only entry that lies in it
    bool made = false;                  // the transfer has made it
  };

  /// What it borrows of its destination.
  struct Means {
    LandBy land_by = LandBy::faster;
    Partials& partials;
    const Ownership& ownership;
    Workers* workers = nullptr;
  };

  DirectorySink(Place place, std::span<const FileEntry> entries, std::uint64_t seed, const Means& means);
  ~DirectorySink() override;
  DirectorySink(const DirectorySink&) = delete;
  DirectorySink& operator=(const DirectorySink&) = delete;

  Result<std::unique_ptr<SinkFile>> create(const FileEntry& listed) override;
  void follow(const Update& update) override { comparison_.follow(update); }
  bool examine(const FileEntry& file, std::uint64_t& bytes) override { return comparison_.examine(file, bytes); }
  void believe(ComparedContents compared) override { comparison_.believe(std::move(compared)); }
  bool present(const FileEntry& file) override;
  std::unique_ptr<SinkFile> resume(const FileEntry& listed) override;
  std::unique_ptr<EarlierFile> earlier(const FileEntry& file) override;
  Status store(const FileEntry& listed, ConstBytes content) override;
  Status also_remove(const Deletion& deletion) override;
  Status finish() override;
  std::uint64_t entries_made() const override { return entries_made_; }
  std::string path(const FileEntry& entry) const override { return comparison_.path(entry); }

 private:
  /// Where a file is whose content does not go to its own name.
  struct Moved {
    std::unique_ptr<FileEntry> entry;  // with that name; null: all its names are left alone
    std::uint32_t name = 0;            // of the entry that has this name
  };

  [[nodiscard]] const EntryName& name_of(const FileEntry& entry) const { return comparison_.name_of(entry); }
  [[nodiscard]] Descriptor enter(int parent, std::uint32_t index);
  [[nodiscard]] Result<int> directory_of(const FileEntry& entry);
  [[nodiscard]] std::optional<TemporaryFile> open_partial(int directory, const FileEntry& entry, Partial::Find find);
  [[nodiscard]] bool is_new(std::uint32_t parent) const;
  [[nodiscard]] const FileEntry& placed(const FileEntry& listed) const;
  [[nodiscard]] bool as_listed(const FileEntry& entry, const struct stat& found);
  /// Whether something has that name that may be replaced.
  [[nodiscard]] Result<bool> replaces(int directory, const FileEntry& entry);
  [[nodiscard]] Status store_later(int directory, const FileEntry& entry, ConstBytes content);
  [[nodiscard]] bool store_elsewhere(int directory, const FileEntry& entry, ConstBytes content);
  [[nodiscard]] std::shared_ptr<const Descriptor> hold(int directory, std::uint32_t parent);
  [[nodiscard]] Status elsewhere() const;
  // These touch nothing that changes but unnamed_files_: any thread.
  [[nodiscard]] Status store_new(int directory, const FileEntry& entry, ConstBytes content, Prng& prng) const;
  [[nodiscard]] std::optional<Status> store_unnamed(int directory, const FileEntry& entry, ConstBytes content) const;
  [[nodiscard]] Status put(int directory, const FileEntry& entry, ConstBytes content, TemporaryFile made,
                           bool durable) const;
  [[nodiscard]] Status write(TemporaryFile& made, const FileEntry& entry, ConstBytes content, bool durable) const;
  [[nodiscard]] Status fill(int file, const FileEntry& entry, ConstBytes content, bool durable) const;
  /// What `status` says, or else why it could not be closed.
  [[nodiscard]] Status close(Descriptor& file, const FileEntry& entry, Status status) const;
  [[nodiscard]] Status give_name(int directory, const std::string& temporary, const FileEntry& entry) const;
  static void remove_temporary(int directory, const std::string& name);
  [[nodiscard]] Status replace_waiting();
  [[nodiscard]] Status sync(bool all);
  /// Calls `make` with temporary names until it succeeds. Empty, and errno: it does not.
  template <class Make>
  [[nodiscard]] std::string made_under_temporary(const FileEntry& entry, Make make);
  [[nodiscard]] Status make_hard_link(std::uint32_t name);
  [[nodiscard]] Status make_hard_link(int directory, const FileEntry& entry, int original_directory,
                                      const FileEntry& original);
  [[nodiscard]] Status make_link(const FileEntry& entry);
  [[nodiscard]] bool link_is_there(const FileEntry& entry);
  [[nodiscard]] Status remove_others();
  [[nodiscard]] Status finish_directory(std::uint32_t index);
  [[nodiscard]] Result<TemporaryFile> make_temporary_in(int directory, const FileEntry& entry);
  bool make_writable(int directory, std::uint32_t parent);
  void leave_directories();
  void leave_root();
  static void set_mode_of(int directory, std::uint32_t mode);
  [[nodiscard]] Status attributes_of(int directory, const FileEntry& entry);

  enum class Made : std::uint8_t { no, found, filled, made };  // filled: was there, and is written into
  struct Waiting {
    const FileEntry* entry = nullptr;
    std::string temporary;
  };

  std::span<const FileEntry> entries_;
  Comparison comparison_;
  Prng prng_;
  LandBy land_by_;
  Partials& partials_;
  const Ownership& ownership_;
  Workers* workers_;
  bool keeps_partials_;
  bool root_made_;
  std::vector<Made> made_;  // of each entry that is a directory
  CaseFolding folding_;
  Status clash_;  // of a directory that could not be entered for that
  OpenDirectories directories_;
  std::unordered_map<std::uint32_t, std::uint32_t> modes_before_;  // by FileEntry::parent: of those made writable
  bool finished_ = false;
  bool touched_ = false;                  // something that finish() has to make durable
  std::optional<OpenDirectories> found_;  // as they are, made or not; for resume()
  std::size_t stored_ = 0;
  std::uint64_t entries_made_ = 0;
  std::optional<Deletion> deletion_;
  std::unordered_map<std::uint32_t, Moved> moved_;  // by the file's place in the list
  std::vector<Waiting> waiting_;                    // stored files that will replace others
  std::shared_ptr<const Descriptor> held_;          // the directory of the last piece of work
  std::uint32_t held_parent_ = 0;
  mutable std::atomic<bool> unnamed_files_ = true;  // until one could not be made, or not be named
  mutable std::mutex mutex_;                        // over failed_elsewhere_
  Status failed_elsewhere_;                         // the first failure of the workers
};

}  // namespace sluice::ftx
