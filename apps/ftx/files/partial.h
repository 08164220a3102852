// SPDX-License-Identifier: Apache-2.0
#pragma once

// Partial: a file that arrives under a name that the next transfer of the same file finds again, `.NAME.ftx-part`, and
// beside it `.NAME.ftx-journal`, which says what of it is durable (docs/formats/ftx-journal.md). After whatever ends
// this process, the next one goes on with what the journal names.
//
// Threats: what somebody else has put at one of the names (a link, a FIFO, a file that he may write to or that has
// another name elsewhere): it is opened without following links or blocking, and used only when it is a regular file of
// this user that nobody else may write to, with one name. Two transfers that write to one file: it is locked; Partials
// says which of two in one process has it. A journal that says more than what is on disk: see commit(), and the
// order of calls in open().
//
// note() and commit() may be called by different threads; nothing else. Borrows the descriptor of the file.

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "apps/ftx/files/descriptor.h"
#include "apps/ftx/files/journal.h"

namespace sluice::ftx {

class Partial;

/// Decides when journals are written. Outlives what it is given.
class JournalKeeper {
 public:
  virtual ~JournalKeeper() = default;
  /// `partial` has something to write: some thread calls its commit(), once, later.
  virtual void due(Partial& partial) = 0;
  /// After this nobody calls its commit() any more.
  virtual void forget(Partial& partial) = 0;
};

/// What a destination does about partial files.
struct PartialOptions {
  bool keep = false;                // files of more than one block have a Partial
  bool verify = false;              // what a journal names is read and compared before it is believed
  JournalKeeper* keeper = nullptr;  // null: each block is journaled at once
};

/// The partial files that are open in this process. A second transfer of the same file takes the first one's over: its
/// sender was started again, and the first has not noticed yet that it is alone.
class Partials {
 public:
  /// Has a Partial, and lets it go: keeps what there is, unlocks it and fails from then on.
  class Owner {
   public:
    virtual ~Owner() = default;
    virtual void surrender() = 0;
  };

  explicit Partials(PartialOptions options = {}) : options_(options) {}
  [[nodiscard]] const PartialOptions& options() const { return options_; }

  void add(Partial& partial, Owner& owner);
  void remove(const Partial& partial);
  /// True when the partial file with this head was open here and is free now.
  [[nodiscard]] bool take_over(const JournalHead& head);

 private:
  PartialOptions options_;
  std::map<const Partial*, Owner*> owners_;
};

class Partial {
 public:
  struct Opened {
    Descriptor file{};
    std::unique_ptr<Partial> partial;
  };
  enum class Find : std::uint8_t {
    known,  // only one of which something is known
    fresh,  // a new one, or what is there, emptied: who asks for nothing that is known will write over it
  };
  /// `name` is the final name in `directory`. Null: there is none, or its names are taken: use another name.
  [[nodiscard]] static std::optional<Opened> open(int directory, const std::string& name, const FileEntry& entry,
                                                  std::uint64_t salt, Partials& partials, Find find);
  ~Partial();
  Partial(const Partial&) = delete;
  Partial& operator=(const Partial&) = delete;

  /// True when a file in a list could have the name of a partial file or a journal.
  [[nodiscard]] static bool may_collide(std::string_view name);

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] const JournalHead& head() const { return head_; }
  /// Durable, by the journal, when it was opened.
  [[nodiscard]] const std::vector<KnownBlock>& known() const { return known_; }
  /// These will be written over. After an error nothing may be written.
  [[nodiscard]] Status withdraw(std::span<const std::uint64_t> blocks);

  /// A block is written, and has this digest.
  void note(std::uint64_t block, const Digest& digest);
  /// Makes durable what was noted, and then says so in the journal. Any thread. A failure ends the journal.
  void commit();
  /// Nobody commits any more. The errno value of a failed sync of the file; 0: none failed. The operating system says
  /// that once only, so whoever syncs the file later does not hear of it.
  [[nodiscard]] int stop();
  /// True when a later transfer finds something in it.
  [[nodiscard]] bool of_use() const { return recorded_; }
  void remove_journal();
  /// Removes both.
  void remove();

 private:
  Partial(Descriptor directory, int file, std::string name, std::string journal_name, JournalHead head,
          JournalKeeper* keeper)
      : directory_(std::move(directory)),
        file_(file),
        name_(std::move(name)),
        journal_name_(std::move(journal_name)),
        head_(head),
        keeper_(keeper) {}

  [[nodiscard]] bool read_journal(const FileEntry& entry, std::uint64_t file_bytes);
  [[nodiscard]] bool begin_anew(bool emptied);
  [[nodiscard]] bool make_journal();
  [[nodiscard]] bool append(ConstBytes records);

  Descriptor directory_;
  int file_;
  std::string name_;
  std::string journal_name_;
  JournalHead head_;
  JournalKeeper* keeper_;
  std::vector<KnownBlock> known_;

  std::mutex committing_;  // over commit(), and what follows
  Descriptor journal_;     // from the first record on
  std::uint64_t journal_end_ = 0;
  bool broken_ = false;
  std::atomic<bool> recorded_ = false;
  std::atomic<int> sync_error_ = 0;

  std::mutex noting_;  // over what follows
  std::vector<KnownBlock> noted_;
};

}  // namespace sluice::ftx
