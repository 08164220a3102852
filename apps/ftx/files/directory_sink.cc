// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/files/directory_sink.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "apps/ftx/files/directory_file.h"
#include "apps/ftx/files/earlier_version.h"
#include "apps/ftx/files/removal.h"
#include "apps/ftx/files/system.h"
#include "apps/ftx/files/walk.h"

namespace sluice::ftx {
namespace {

/// What fills a directory needs these of it.
constexpr mode_t fill_mode = 0700;

}  // namespace

DirectorySink::DirectorySink(Place place, std::span<const FileEntry> entries, std::uint64_t seed, const Means& means)
    : entries_(entries),
      comparison_(entries, {.shown = std::move(place.shown),
                            .new_name = std::move(place.new_name),
                            .directory = [this](std::uint32_t parent) { return directories_.at(parent); },
                            .is_new = [this](std::uint32_t parent) { return is_new(parent); }}),
      prng_(seed),
      land_by_(means.land_by),
      partials_(means.partials),
      ownership_(means.ownership),
      workers_(means.workers),
      // A list that has partial files of its own must not meet ours.
      keeps_partials_(partials_.options().keep &&
                      std::ranges::none_of(entries, &Partial::may_collide, &FileEntry::name)),
      root_made_(place.made),
      made_(entries.size()),
      folding_(entries),
      directories_(entries, std::move(place.directory),
                   [this](int parent, std::uint32_t index) { return enter(parent, index); }) {}

/// Makes the directory when it is asked for for the first time. One that is there is taken.
Descriptor DirectorySink::enter(int parent, std::uint32_t index) {
  const EntryName& name = name_of(entries_[index]);
  clash_ = {};
  if (made_[index] == Made::no && !comparison_.update().existing) {
    const auto make = [&] { return retried([&] { return os().mkdirat(parent, name.c_str(), fill_mode); }) == 0; };
    if (make() || (errno == EACCES && make_writable(parent, entries_[index].parent) && make())) {
      made_[index] = Made::made;
      touched_ = true;
      ++entries_made_;
    } else if (errno != EEXIST) {
      return Descriptor();
    }
  }
  Descriptor directory = enter_directory(parent, name.c_str());
  if (!directory.valid()) {
    return directory;
  }
  if (made_[index] == Made::no) {
    made_[index] = Made::found;
  }
  folding_.learn(entries_[index].parent, parent, name.c_str());
  if (made_[index] == Made::made) {
    folding_.inherit(index + 1, entries_[index].parent);
  }
  clash_ = folding_.clash(parent, entries_[index], name.c_str());
  if (!clash_) {
    errno = EEXIST;
  }
  return clash_ ? std::move(directory) : Descriptor();
}

/// True when it was not, and is now. Where that is not allowed, what follows says so.
bool DirectorySink::make_writable(int directory, std::uint32_t parent) {
  struct stat status{};
  if (retried([&] { return os().fstat(directory, &status); }) != 0 || (status.st_mode & fill_mode) == fill_mode ||
      status.st_uid != ::geteuid() ||
      retried([&] { return os().fchmod(directory, (status.st_mode & 0777U) | fill_mode); }) != 0) {
    return false;
  }
  modes_before_.try_emplace(parent, status.st_mode & 0777U);
  return true;
}

/// The directory of something that is written: one that was there is made writable for as long as it is filled.
Result<int> DirectorySink::directory_of(const FileEntry& entry) {
  const int directory = directories_.at(entry.parent);
  if (directory < 0) {
    return clash_ ? system_error("cannot make or open the directory", path(entries_[entry.parent - 1]))
                  : std::unexpected(clash_.error());
  }
  if (entry.parent != 0 && made_[entry.parent - 1] == Made::found) {
    made_[entry.parent - 1] = Made::filled;
    make_writable(directory, entry.parent);
  }
  return directory;
}

/// Nobody but this transfer has put anything into it, as long as nobody else writes there.
bool DirectorySink::is_new(std::uint32_t parent) const {
  return parent == 0 ? root_made_ : made_[parent - 1] == Made::made;
}

Result<bool> DirectorySink::replaces(int directory, const FileEntry& entry) {
  struct stat status{};
  if (is_new(entry.parent) || look_at(directory, name_of(entry).c_str(), status) != 0) {
    return false;
  }
  if (S_ISDIR(status.st_mode)) {
    errno = EISDIR;
    return system_error("cannot replace", path(entry));
  }
  return true;
}

Result<std::unique_ptr<SinkFile>> DirectorySink::create(const FileEntry& listed) {
  const FileEntry& entry = placed(listed);
  touched_ = true;
  const auto directory = directory_of(entry);
  if (!directory) {
    return std::unexpected(directory.error());
  }
  if (const auto replaced = replaces(*directory, entry); !replaced) {
    return std::unexpected(replaced.error());
  }
  ++entries_made_;
  const EntryName& name = name_of(entry);
  if (auto partial = open_partial(*directory, entry, Partial::Find::fresh)) {
    folding_.learn(entry.parent, *directory, partial->name.c_str());
    return std::make_unique<DirectoryFile>(directories_, partials_, ownership_, folding_, *std::move(partial),
                                           std::string(name), entry, land_by_);
  }
  auto made = make_temporary_in(*directory, entry);
  if (!made) {
    return std::unexpected(made.error());
  }
  return std::make_unique<DirectoryFile>(directories_, partials_, ownership_, folding_, *std::move(made),
                                         std::string(name), entry, land_by_);
}

std::unique_ptr<SinkFile> DirectorySink::resume(const FileEntry& listed) {
  const FileEntry& entry = placed(listed);
  if (!keeps_partials_ || entry.content_bytes() <= digest_block_bytes) {
    return nullptr;
  }
  if (!found_) {
    found_.emplace(entries_, enter_directory(directories_.root(), "."), [this](int parent, std::uint32_t index) {
      return enter_directory(parent, name_of(entries_[index]).c_str());
    });
  }
  const int directory = found_->at(entry.parent);
  // What cannot be replaced is refused when it is created.
  if (directory < 0 || !replaces(directory, entry)) {
    return nullptr;
  }
  auto partial = open_partial(directory, entry, Partial::Find::known);
  // Where the directory cannot be made writable, create() says so.
  if (!partial || !directory_of(entry)) {
    return nullptr;
  }
  touched_ = true;
  folding_.learn(entry.parent, directory, partial->name.c_str());
  return std::make_unique<DirectoryFile>(directories_, partials_, ownership_, folding_, *std::move(partial),
                                         std::string(name_of(entry)), entry, land_by_);
}

std::optional<TemporaryFile> DirectorySink::open_partial(int directory, const FileEntry& entry, Partial::Find find) {
  if (!keeps_partials_ || entry.content_bytes() <= digest_block_bytes) {
    return std::nullopt;
  }
  auto opened = Partial::open(directory, std::string(name_of(entry)), entry, prng_(), partials_, find);
  if (!opened) {
    return std::nullopt;
  }
  std::string name = opened->partial->name();
  return TemporaryFile{std::move(opened->file), std::move(name), std::move(opened->partial)};
}

bool DirectorySink::present(const FileEntry& file) {
  const std::uint32_t own = comparison_.index_of(file);
  const Comparison::ContentPlace place = comparison_.content_place(file);
  moved_.erase(own);
  if (!place.name) {
    moved_[own] = Moved{};
    return true;
  }
  const FileEntry named = comparison_.under(file, *place.name);
  if (place.name != own) {
    moved_[own] = Moved{std::make_unique<FileEntry>(named), *place.name};
  }
  return place.regular && comparison_.same(file, named, *place.regular) && as_listed(named, *place.regular);
}

/// Threat: as as_listed().
std::unique_ptr<EarlierFile> DirectorySink::earlier(const FileEntry& file) {
  const Comparison::ContentPlace place = comparison_.content_place(file);
  if (!place.regular || place.regular->st_size == 0) {
    return nullptr;
  }
  const FileEntry named = comparison_.under(file, *place.name);
  if (comparison_.same(file, named, *place.regular)) {
    return nullptr;
  }
  struct stat status{};
  Descriptor opened = open_regular(directories_.at(named.parent), name_of(named).c_str(), status);
  return opened.valid() ? std::make_unique<EarlierVersion>(std::move(opened), status) : nullptr;
}

/// Under the name that it gets.
const FileEntry& DirectorySink::placed(const FileEntry& listed) const {
  const auto moved = moved_.find(comparison_.index_of(listed));
  return moved == moved_.end() || !moved->second.entry ? listed : *moved->second.entry;
}

/// Threat: somebody puts a link or a pipe there meanwhile. False: it is not there as it should be, and so comes anew.
bool DirectorySink::as_listed(const FileEntry& entry, const struct stat& found) {
  if (has_attributes(found, entry, ownership_) && entry.attributes() == nullptr) {
    return true;
  }
  struct stat status{};
  const Descriptor file = open_regular(directories_.at(entry.parent), name_of(entry).c_str(), status);
  if (!file.valid()) {
    return false;
  }
  return (has_attributes(found, entry, ownership_) && has_extended_attributes(file.get(), entry)) ||
         set_attributes(file.get(), entry, ownership_);
}

Status DirectorySink::store(const FileEntry& listed, ConstBytes content) {
  const FileEntry& entry = placed(listed);
  touched_ = true;
  const auto directory = directory_of(entry);
  if (!directory) {
    return std::unexpected(directory.error());
  }
  const auto replaced = replaces(*directory, entry);
  if (!replaced) {
    return std::unexpected(replaced.error());
  }
  ++entries_made_;
  const bool durable = ++stored_ <= fsync_files_max;
  if (!durable && *replaced) {
    return store_later(*directory, entry, content);
  }
  if (!durable && store_elsewhere(*directory, entry, content)) {
    return elsewhere();
  }
  auto made = make_temporary_in(*directory, entry);
  return made ? put(*directory, entry, content, *std::move(made), durable) : std::unexpected(made.error());
}

/// The first in a directory that was there says whether that tells upper from lower case.
Result<TemporaryFile> DirectorySink::make_temporary_in(int directory, const FileEntry& entry) {
  auto made = make_temporary(directory, name_of(entry), prng_);
  if (made) {
    folding_.learn(entry.parent, directory, made->name.c_str());
  }
  return made;
}

Status DirectorySink::store_later(int directory, const FileEntry& entry, ConstBytes content) {
  auto made = make_temporary_in(directory, entry);
  if (!made) {
    return std::unexpected(made.error());
  }
  Status status = write(*made, entry, content, false);
  if (!status) {
    remove_temporary(directory, made->name);
    return status;
  }
  waiting_.push_back({&entry, std::move(made->name)});
  return waiting_.size() < waiting_max ? status : replace_waiting();
}

Status DirectorySink::put(int directory, const FileEntry& entry, ConstBytes content, TemporaryFile made,
                          bool durable) const {
  Status status = write(made, entry, content, durable);
  status = status ? give_name(directory, made.name, entry) : status;
  if (!status) {
    remove_temporary(directory, made.name);
  }
  return status;
}

Status DirectorySink::store_new(int directory, const FileEntry& entry, ConstBytes content, Prng& prng) const {
  if (auto stored = unnamed_files_ ? store_unnamed(directory, entry, content) : std::nullopt) {
    return *std::move(stored);
  }
  auto made = make_temporary(directory, name_of(entry), prng);
  return made ? put(directory, entry, content, *std::move(made), false) : std::unexpected(made.error());
}

/// A file that has no name before it is whole (open(2), O_TMPFILE): nothing is renamed, and a kill leaves nothing. To
/// name it by its descriptor (linkat(2), AT_EMPTY_PATH) wants Linux 6.10 or CAP_DAC_READ_SEARCH, and nothing may have
/// that name. Null: it cannot be done so.
std::optional<Status> DirectorySink::store_unnamed(int directory, const FileEntry& entry, ConstBytes content) const {
  constexpr int flags = O_TMPFILE | O_WRONLY | O_CLOEXEC;
  Descriptor file(retried([&] { return os().openat(directory, ".", flags, 0600); }));
  if (!file.valid()) {
    unnamed_files_ = false;
    return std::nullopt;
  }
  const char* const name = name_of(entry).c_str();
  Status status = fill(file.get(), entry, content, false);
  status = status ? folding_.clash(directory, entry, name) : status;
  if (!status) {
    return status;
  }
  if (retried([&] { return os().linkat(file.get(), "", directory, name, AT_EMPTY_PATH); }) != 0) {
    if (errno != EEXIST) {
      unnamed_files_ = false;
    }
    return std::nullopt;
  }
  status = close(file, entry, {});
  if (!status) {
    remove_temporary(directory, name);
  }
  return status;
}

/// False: the caller does it.
bool DirectorySink::store_elsewhere(int directory, const FileEntry& entry, ConstBytes content) {
  if (workers_ == nullptr || !folding_.tells_apart(entry.parent)) {
    return false;
  }
  auto held = hold(directory, entry.parent);
  if (held == nullptr) {
    return false;
  }
  std::function<void()> work = [this, held = std::move(held), &entry, seed = prng_(),
                                content = std::vector<std::byte>(content.begin(), content.end())] {
    Prng prng(seed);
    Status stored = store_new(held->get(), entry, content, prng);
    if (!stored) {
      const std::lock_guard lock(mutex_);
      failed_elsewhere_ = failed_elsewhere_ ? std::move(stored) : failed_elsewhere_;
    }
  };
  return workers_->take(content.size(), work);
}

/// The directory of one piece of work is mostly that of the one before.
std::shared_ptr<const Descriptor> DirectorySink::hold(int directory, std::uint32_t parent) {
  if (held_ == nullptr || held_parent_ != parent) {
    Descriptor held = enter_directory(directory, ".");
    held_ = held.valid() ? std::make_shared<const Descriptor>(std::move(held)) : nullptr;
    held_parent_ = parent;
  }
  return held_;
}

Status DirectorySink::elsewhere() const {
  const std::lock_guard lock(mutex_);
  return failed_elsewhere_;
}

/// A temporary file that is in the way of nothing may stay where it cannot be removed.
void DirectorySink::remove_temporary(int directory, const std::string& name) {
  retried([&] { return os().unlinkat(directory, name.c_str(), 0); });
}

Status DirectorySink::write(TemporaryFile& made, const FileEntry& entry, ConstBytes content, bool durable) const {
  return close(made.file, entry, fill(made.file.get(), entry, content, durable));
}

Status DirectorySink::fill(int file, const FileEntry& entry, ConstBytes content, bool durable) const {
  Status status = write_all(file, content, name_of(entry));
  status = status ? set_attributes(file, entry, ownership_) : status;
  if (status && durable && retried([&] { return os().fsync(file); }) != 0) {
    status = system_error("cannot write", path(entry));
  }
  return status;
}

/// As DirectoryFile::finalize() has it.
Status DirectorySink::close(Descriptor& file, const FileEntry& entry, Status status) const {
  if (os().close(file.release()) != 0 && errno != EINTR && status) {
    status = system_error("cannot close", path(entry));
  }
  return status;
}

Status DirectorySink::replace_waiting() {
  if (waiting_.empty()) {
    return {};
  }
  Status status = sync(true);
  while (status && !waiting_.empty()) {
    const Waiting& last = waiting_.back();
    const auto directory = directory_of(*last.entry);
    status = directory ? give_name(*directory, last.temporary, *last.entry) : std::unexpected(directory.error());
    if (status) {
      waiting_.pop_back();
    }
  }
  return status;
}

/// After a failure directories that were there have the modes that they had, and those that the transfer has made the
/// modes that they were to get. From the deepest up, since a mode may close the way to what lies in it.
void DirectorySink::leave_directories() {
  for (std::size_t index = entries_.size(); index-- > 0;) {
    const FileEntry& entry = entries_[index];
    if (entry.kind != EntryKind::directory || entry.top()) {
      continue;
    }
    const auto parent = static_cast<std::uint32_t>(index + 1);
    const auto before = modes_before_.find(parent);
    if (made_[index] == Made::made || before != modes_before_.end()) {
      set_mode_of(directories_.at(parent), made_[index] == Made::made ? entry.mode : before->second);
    }
  }
  if (root_made_ && !entries_.empty() && entries_.front().top()) {
    set_mode_of(directories_.root(), entries_.front().mode);
  }
}

/// What fails leaves it as it is: the transfer has failed for a reason that says more.
void DirectorySink::set_mode_of(int directory, std::uint32_t mode) {
  if (directory >= 0) {
    [[maybe_unused]] const int changed = retried([&] { return os().fchmod(directory, mode); });
  }
}

void DirectorySink::leave_root() {
  if (const auto before = modes_before_.find(0); before != modes_before_.end() && !root_made_) {
    set_mode_of(directories_.root(), before->second);
  }
}

DirectorySink::~DirectorySink() {
  if (workers_ != nullptr) {
    workers_->finish();
  }
  for (const Waiting& waiting : waiting_) {
    remove_temporary(directories_.at(waiting.entry->parent), waiting.temporary);
  }
  if (!finished_) {
    leave_directories();
    leave_root();
  }
}

Status DirectorySink::give_name(int directory, const std::string& temporary, const FileEntry& entry) const {
  if (Status clash = folding_.clash(directory, entry, name_of(entry).c_str()); !clash) {
    return clash;
  }
  // Not again after EINTR: over a network the first try may have renamed it.
  if (os().renameat(directory, temporary.c_str(), directory, name_of(entry).c_str()) != 0) {
    return system_error("cannot give its name to", path(entry));
  }
  return {};
}

/// With its target, its time and its owners.
bool DirectorySink::link_is_there(const FileEntry& entry) {
  const auto found = comparison_.find(entry);
  return found && S_ISLNK(found->st_mode) && same_time(found->st_mtim, entry) && ownership_.same(*found, entry) &&
         comparison_.has_target(entry);
}

template <class Make>
std::string DirectorySink::made_under_temporary(const FileEntry& entry, Make make) {
  for (int attempt = 0; attempt < temporary_attempts_max; ++attempt) {
    std::string temporary = temporary_name(name_of(entry), prng_());
    if (retried([&] { return make(temporary.c_str()); }) == 0) {
      return temporary;
    }
    if (errno != EEXIST) {
      break;
    }
  }
  return {};
}

/// Of a name of a file that has several.
Status DirectorySink::make_hard_link(std::uint32_t name) {
  const FileEntry& entry = entries_[name];
  const std::uint32_t file = entry.kind == EntryKind::hard_link ? entry.original - 1 : name;
  const auto moved = moved_.find(file);
  if (moved != moved_.end() && (!moved->second.entry || moved->second.name == name)) {
    return {};
  }
  const FileEntry named = comparison_.under(entries_[file], name);
  const auto found = comparison_.find(named);
  if (comparison_.leaves_alone(named, found)) {
    return {};
  }
  const FileEntry& original = placed(entries_[file]);
  const auto is_there = found ? comparison_.find(original) : std::nullopt;
  if (is_there && is_there->st_dev == found->st_dev && is_there->st_ino == found->st_ino) {
    return {};
  }
  const auto from = directory_of(original);
  if (!from) {
    return std::unexpected(from.error());
  }
  const Descriptor held = enter_directory(*from, ".");  // the next one may close it
  const auto directory =
      held.valid() ? directory_of(entry) : system_error("cannot open the directory of", path(original));
  return directory ? make_hard_link(*directory, entry, held.get(), original) : std::unexpected(directory.error());
}

/// Threat: somebody has put a symbolic link in the place of the file. It is not followed, and what is made is looked
/// at.
Status DirectorySink::make_hard_link(int directory, const FileEntry& entry, int original_directory,
                                     const FileEntry& original) {
  if (const auto replaced = replaces(directory, entry); !replaced) {
    return std::unexpected(replaced.error());
  }
  struct stat file{};
  struct stat there{};
  if (look_at(original_directory, name_of(original).c_str(), file) != 0) {
    return system_error("cannot find", path(original));
  }
  touched_ = true;
  ++entries_made_;
  const std::string temporary = made_under_temporary(entry, [&](const char* name) {
    return os().linkat(original_directory, name_of(original).c_str(), directory, name, 0);
  });
  if (temporary.empty()) {
    return system_error("cannot make the hard link", path(entry));
  }
  Status named;
  if (look_at(directory, temporary.c_str(), there) != 0 || !S_ISREG(there.st_mode) || there.st_ino != file.st_ino) {
    errno = ESTALE;
    named = system_error("somebody replaced the file of the hard link", path(entry));
  }
  named = named ? give_name(directory, temporary, entry) : named;
  if (!named) {
    remove_temporary(directory, temporary);
  }
  return named;
}

/// Under a temporary name first, since it may replace another one.
Status DirectorySink::make_link(const FileEntry& entry) {
  if (comparison_.leaves_link_alone(entry) || link_is_there(entry)) {
    return {};
  }
  const auto directory = directory_of(entry);
  if (!directory) {
    return std::unexpected(directory.error());
  }
  touched_ = true;
  ++entries_made_;
  const std::string temporary = made_under_temporary(
      entry, [&](const char* name) { return os().symlinkat(entry.target()->c_str(), *directory, name); });
  if (temporary.empty()) {
    return system_error("cannot make the symbolic link", path(entry));
  }
  const timespec modified{entry.mtime_s, static_cast<long>(entry.mtime_ns)};
  const timespec times[2] = {modified, modified};
  // A file system without times of links keeps the link.
  [[maybe_unused]] const int timed =
      retried([&] { return os().utimensat(*directory, temporary.c_str(), times, AT_SYMLINK_NOFOLLOW); });
  Status named = ownership_.set_of_link(*directory, temporary, entry)
                     ? Status()
                     : Status(system_error("cannot set the owner of the symbolic link", path(entry)));
  named = named ? give_name(*directory, temporary, entry) : named;
  if (!named) {
    remove_temporary(*directory, temporary);
  }
  return named;
}

Status DirectorySink::finish_directory(std::uint32_t index) {
  const FileEntry& entry = entries_[index];
  if (entry.top()) {
    // The mode of a directory that was there, a home directory even, is not the peer's to change.
    return root_made_ ? attributes_of(directories_.root(), entry) : Status();
  }
  const int directory = directories_.at(index + 1);
  if (directory < 0 && comparison_.update().existing && errno == ENOENT) {
    return {};
  }
  if (directory < 0) {
    return clash_ ? system_error("cannot make or open the directory", path(entry)) : clash_;
  }
  return attributes_of(directory, entry);
}

/// Sets what differs of a directory.
Status DirectorySink::attributes_of(int directory, const FileEntry& entry) {
  struct stat status{};
  if (retried([&] { return os().fstat(directory, &status); }) == 0 && has_attributes(status, entry, ownership_) &&
      has_extended_attributes(directory, entry)) {
    return {};
  }
  touched_ = true;
  return set_attributes(directory, entry, ownership_);
}

Status DirectorySink::also_remove(const Deletion& deletion) {
  deletion_ = deletion;
  return {};
}

/// What lies in directories that were there before.
Status DirectorySink::remove_others() {
  if (!deletion_) {
    return {};
  }
  Removal removal(entries_, directories_, [this](std::uint32_t parent) { return is_new(parent); }, *deletion_);
  Status removed = removal.run();
  touched_ |= removal.acted();
  return removed;
}

Status DirectorySink::finish() {
  if (workers_ != nullptr) {
    workers_->finish();
  }
  if (Status stored = elsewhere(); !stored) {
    return stored;
  }
  if (Status replaced = replace_waiting(); !replaced) {
    return replaced;
  }
  for (std::uint32_t index = 0; index < entries_.size(); ++index) {
    if (entries_[index].kind == EntryKind::hard_link || moved_.contains(index)) {
      if (Status made = make_hard_link(index); !made) {
        return made;
      }
    }
  }
  for (const FileEntry& entry : entries_) {
    if (entry.kind == EntryKind::link) {
      if (Status made = make_link(entry); !made) {
        return made;
      }
    }
  }
  const Status removed = remove_others();
  bool tree = false;
  // What lies in a directory comes after it in the list.
  for (std::size_t index = entries_.size(); index-- > 0;) {
    if (entries_[index].kind == EntryKind::directory) {
      tree = true;
      if (Status finished = finish_directory(static_cast<std::uint32_t>(index)); !finished) {
        return finished;
      }
    }
  }
  finished_ = true;
  leave_root();
  const Status synced = touched_ ? sync(tree || stored_ > fsync_files_max) : Status();
  return synced ? removed : synced;
}

/// Of the whole file system, or of the names in one directory.
Status DirectorySink::sync(bool all) {
  const int root = directories_.root();
  const int synced = retried([&] { return all ? os().syncfs(root) : os().fsync(root); });
  // Some file systems cannot sync a directory and answer EINVAL; the files are durable already.
  if (synced != 0 && (all || errno != EINVAL)) {
    return system_error("cannot write the directory", comparison_.shown());
  }
  return {};
}

}  // namespace sluice::ftx
