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
#include "apps/ftx/files/removal.h"
#include "apps/ftx/files/system.h"
#include "apps/ftx/files/walk.h"

namespace sluice::ftx {
namespace {

/// What fills a directory needs these of it.
constexpr mode_t fill_mode = 0700;

/// The time that `entry` has, or what a file system keeps of it that counts in 100 ns, microseconds or seconds.
bool same_time(const timespec& time, const FileEntry& entry) {
  if (time.tv_sec != entry.mtime_s) {
    return false;
  }
  const auto kept = static_cast<std::uint32_t>(time.tv_nsec);
  return std::ranges::any_of(std::array{1U, 100U, 1'000U, 1'000'000'000U},
                             [&](std::uint32_t unit) { return kept == entry.mtime_ns - entry.mtime_ns % unit; });
}

/// Not by what a file system cuts off.
bool is_newer(const timespec& time, const FileEntry& entry) {
  return !same_time(time, entry) && std::pair(std::int64_t{time.tv_sec}, std::int64_t{time.tv_nsec}) >
                                        std::pair(entry.mtime_s, std::int64_t{entry.mtime_ns});
}

/// Nobody has written into the file between the two looks, or put another in its place.
bool same_state(const struct stat& one, const struct stat& other) {
  return one.st_dev == other.st_dev && one.st_ino == other.st_ino && one.st_size == other.st_size &&
         one.st_mtim.tv_sec == other.st_mtim.tv_sec && one.st_mtim.tv_nsec == other.st_mtim.tv_nsec &&
         one.st_ctim.tv_sec == other.st_ctim.tv_sec && one.st_ctim.tv_nsec == other.st_ctim.tv_nsec;
}

/// For reading; invalid: it is no regular file, or cannot be read.
Descriptor open_regular(int directory, const std::string& name, struct stat& status) {
  constexpr int flags = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
  Descriptor file(retried([&] { return os().openat(directory, name.c_str(), flags, 0); }));
  const bool regular =
      file.valid() && retried([&] { return os().fstat(file.get(), &status); }) == 0 && S_ISREG(status.st_mode);
  return regular ? std::move(file) : Descriptor();
}

bool has_attributes(const struct stat& status, const FileEntry& entry) {
  return (status.st_mode & 0777U) == entry.mode && same_time(status.st_mtim, entry);
}

}  // namespace

DirectorySink::DirectorySink(Place place, std::span<const FileEntry> entries, std::uint64_t seed, LandBy land_by,
                             Partials& partials)
    : entries_(entries),
      shown_(std::move(place.shown)),
      new_name_(std::move(place.new_name)),
      prng_(seed),
      land_by_(land_by),
      partials_(partials),
      // A list that has partial files of its own must not meet ours.
      keeps_partials_(partials.options().keep &&
                      std::ranges::none_of(entries, &Partial::may_collide, &FileEntry::name)),
      root_made_(place.made),
      made_(entries.size()),
      directories_(entries, std::move(place.directory),
                   [this](int parent, std::uint32_t index) { return enter(parent, index); }) {}

const std::string& DirectorySink::name_of(const FileEntry& entry) const {
  return entry.parent == 0 && new_name_ ? *new_name_ : entry.name;
}

std::string DirectorySink::path(const FileEntry& entry) const {
  const std::string path = path_of(entries_, entry);
  return shown_ + (new_name_ ? *new_name_ + path.substr(std::min(path.find('/'), path.size())) : path);
}

/// Makes the directory when it is asked for for the first time. One that is there is taken.
Descriptor DirectorySink::enter(int parent, std::uint32_t index) {
  const std::string& name = name_of(entries_[index]);
  if (made_[index] == Made::no && !update_.existing) {
    const auto make = [&] { return retried([&] { return os().mkdirat(parent, name.c_str(), fill_mode); }) == 0; };
    if (make() || (errno == EACCES && make_writable(parent, entries_[index].parent) && make())) {
      made_[index] = Made::made;
      touched_ = true;
    } else if (errno != EEXIST) {
      return Descriptor();
    }
  }
  Descriptor directory = enter_directory(parent, name.c_str());
  if (directory.valid() && made_[index] == Made::no) {
    made_[index] = Made::found;
  }
  return directory;
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
    return system_error("cannot make or open the directory", path(entries_[entry.parent - 1]));
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
  if (is_new(entry.parent) || look_at(directory, name_of(entry), status) != 0) {
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
  const std::string& name = name_of(entry);
  if (auto partial = open_partial(*directory, entry, Partial::Find::fresh)) {
    return std::make_unique<DirectoryFile>(directories_, partials_, *std::move(partial), name, entry, land_by_);
  }
  auto made = make_temporary(*directory, name, prng_);
  if (!made) {
    return std::unexpected(made.error());
  }
  return std::make_unique<DirectoryFile>(directories_, partials_, *std::move(made), name, entry, land_by_);
}

std::unique_ptr<SinkFile> DirectorySink::resume(const FileEntry& listed) {
  const FileEntry& entry = placed(listed);
  if (!keeps_partials_ || entry.size_bytes <= digest_block_bytes) {
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
  return std::make_unique<DirectoryFile>(directories_, partials_, *std::move(partial), name_of(entry), entry, land_by_);
}

std::optional<TemporaryFile> DirectorySink::open_partial(int directory, const FileEntry& entry, Partial::Find find) {
  if (!keeps_partials_ || entry.size_bytes <= digest_block_bytes) {
    return std::nullopt;
  }
  auto opened = Partial::open(directory, name_of(entry), entry, prng_(), partials_, find);
  if (!opened) {
    return std::nullopt;
  }
  std::string name = opened->partial->name();
  return TemporaryFile{std::move(opened->file), std::move(name), std::move(opened->partial)};
}

/// What has that name. Nothing, and errno ENOENT: it can be made.
std::optional<struct stat> DirectorySink::find(const FileEntry& entry) {
  const int directory = directories_.at(entry.parent);
  struct stat status{};
  if (directory < 0) {
    return std::nullopt;
  }
  if (is_new(entry.parent)) {
    errno = ENOENT;
    return std::nullopt;
  }
  return look_at(directory, name_of(entry), status) == 0 ? std::optional(status) : std::nullopt;
}

/// `found` is what find() has just answered. What cannot be looked at is not left alone: writing it says why.
bool DirectorySink::leaves_alone(const FileEntry& entry, const std::optional<struct stat>& found) const {
  if (!found) {
    return update_.existing && errno == ENOENT;
  }
  return update_.ignore_existing || (update_.newer && S_ISREG(found->st_mode) && is_newer(found->st_mtim, entry));
}

/// Of a symbolic link: no time of it counts.
bool DirectorySink::leaves_link_alone(const FileEntry& entry) {
  if (!update_.existing && !update_.ignore_existing) {
    return false;
  }
  const auto found = find(entry);
  return found ? update_.ignore_existing : update_.existing && errno == ENOENT;
}

/// `entry` is `file` under the name that has its content.
bool DirectorySink::same(const FileEntry& file, const FileEntry& entry, const struct stat& found) {
  if (static_cast<std::uint64_t>(found.st_size) != entry.size_bytes) {
    return false;
  }
  switch (update_.compare) {
    case Update::Compare::size_and_time:
      return same_time(found.st_mtim, entry) && as_listed(entry, found);
    case Update::Compare::size:
      return as_listed(entry, found);
    case Update::Compare::nothing:
      return false;
    case Update::Compare::digest:
      return same_content(file, found) && as_listed(entry, found);
  }
  return false;
}

/// As far as examine() has read it, and it is still that file.
bool DirectorySink::same_content(const FileEntry& file, const struct stat& found) const {
  return file.digest && examined_ && examined_->file == index_of(file) && examined_->digest == file.digest &&
         same_state(examined_->status, found);
}

bool DirectorySink::examine(const FileEntry& file, std::uint64_t& bytes) {
  if (update_.compare != Update::Compare::digest || !file.digest) {
    return true;
  }
  if (!examined_ || examined_->file != index_of(file)) {
    begin_examination(file);
    bytes -= std::min(bytes, digest_file_cost);
  }
  auto& [index, status, descriptor, offset, digester, buffer, digest] = *examined_;
  while (descriptor.valid() && offset < file.size_bytes) {
    if (bytes == 0) {
      return false;
    }
    buffer.resize(digest_read_bytes);
    const std::uint64_t size = std::min({file.size_bytes - offset, bytes, std::uint64_t{buffer.size()}});
    const ssize_t got = retried([&] {
      return os().pread(descriptor.get(), buffer.data(), static_cast<std::size_t>(size), static_cast<off_t>(offset));
    });
    if (got <= 0) {
      descriptor = Descriptor();
      break;
    }
    digester.update(ConstBytes(buffer).first(static_cast<std::size_t>(got)));
    offset += static_cast<std::uint64_t>(got);
    bytes -= static_cast<std::uint64_t>(got);
  }
  end_examination();
  return true;
}

/// Threat: somebody puts a link or a pipe there meanwhile. What is read is the regular file that was looked at.
void DirectorySink::begin_examination(const FileEntry& file) {
  examined_ = std::make_unique<Examined>();
  examined_->file = index_of(file);
  const ContentPlace place = content_place(file);
  if (!place.regular || static_cast<std::uint64_t>(place.regular->st_size) != file.size_bytes) {
    return;
  }
  const FileEntry named = under(file, *place.name);
  Descriptor opened = open_regular(directories_.at(named.parent), name_of(named), examined_->status);
  if (opened.valid() && same_state(examined_->status, *place.regular)) {
    examined_->descriptor = std::move(opened);
  }
}

void DirectorySink::end_examination() {
  struct stat now{};
  Examined& examined = *examined_;
  if (examined.descriptor.valid() && retried([&] { return os().fstat(examined.descriptor.get(), &now); }) == 0 &&
      same_state(now, examined.status)) {
    examined.digest = examined.digester.finish();
  }
  examined.descriptor = Descriptor();
  examined.buffer = {};
}

FileEntry DirectorySink::under(const FileEntry& file, std::uint32_t name) const {
  FileEntry named = file;
  named.name = entries_[name].name;
  named.parent = entries_[name].parent;
  return named;
}

/// A symbolic link is not what it points to, so it is no file that is there.
DirectorySink::ContentPlace DirectorySink::content_place(const FileEntry& file) {
  const std::uint32_t own = index_of(file);
  std::vector<std::uint32_t> names{own};
  std::ranges::transform(hard_links_of(own), std::back_inserter(names), &HardLink::entry);
  ContentPlace place;
  for (const std::uint32_t name : names) {
    const FileEntry named = under(file, name);
    const auto found = find(named);
    if (leaves_alone(named, found)) {
      continue;
    }
    if (found && S_ISREG(found->st_mode)) {
      return {name, found};
    }
    place.name = place.name.value_or(name);
  }
  return place;
}

bool DirectorySink::present(const FileEntry& file) {
  const std::uint32_t own = index_of(file);
  const ContentPlace place = content_place(file);
  moved_.erase(own);
  if (place.name != own) {
    moved_[own] = place.name ? Moved{std::make_unique<FileEntry>(under(file, *place.name)), *place.name} : Moved{};
  }
  return !place.name || (place.regular && same(file, under(file, *place.name), *place.regular));
}

std::span<const DirectorySink::HardLink> DirectorySink::hard_links_of(std::uint32_t file) {
  if (!hard_links_) {
    hard_links_.emplace();
    for (std::uint32_t index = 0; index < entries_.size(); ++index) {
      if (entries_[index].kind == EntryKind::hard_link) {
        hard_links_->push_back({entries_[index].original - 1, index});
      }
    }
    std::ranges::sort(*hard_links_);
  }
  return std::ranges::equal_range(*hard_links_, file, {}, &HardLink::file);
}

/// Under the name that it gets.
const FileEntry& DirectorySink::placed(const FileEntry& listed) const {
  const auto moved = moved_.find(index_of(listed));
  return moved == moved_.end() || !moved->second.entry ? listed : *moved->second.entry;
}

/// Threat: somebody puts a link or a pipe there meanwhile. False: it is not there as it should be, and so comes anew.
bool DirectorySink::as_listed(const FileEntry& entry, const struct stat& found) {
  if (has_attributes(found, entry)) {
    return true;
  }
  struct stat status{};
  const Descriptor file = open_regular(directories_.at(entry.parent), name_of(entry), status);
  return file.valid() && set_attributes(file.get(), entry);
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
  auto made = make_temporary(*directory, name_of(entry), prng_);
  if (!made) {
    return std::unexpected(made.error());
  }
  const bool durable = ++stored_ <= fsync_files_max;
  Status status = write(*made, entry, content, durable);
  if (status && *replaced && !durable) {
    waiting_.push_back({&entry, std::move(made->name)});
    return waiting_.size() < waiting_max ? status : replace_waiting();
  }
  status = status ? give_name(*directory, made->name, entry) : status;
  if (!status) {
    retried([&] { return os().unlinkat(*directory, made->name.c_str(), 0); });
  }
  return status;
}

Status DirectorySink::write(TemporaryFile& made, const FileEntry& entry, ConstBytes content, bool durable) {
  const int file = made.file.get();
  Status status = write_all(file, content, name_of(entry));
  status = status ? set_attributes(file, entry) : status;
  if (status && durable && retried([&] { return os().fsync(file); }) != 0) {
    status = system_error("cannot write", path(entry));
  }
  // As DirectoryFile::finalize() has it.
  if (os().close(made.file.release()) != 0 && errno != EINTR && status) {
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
  for (const Waiting& waiting : waiting_) {
    retried([&] { return os().unlinkat(directories_.at(waiting.entry->parent), waiting.temporary.c_str(), 0); });
  }
  if (!finished_) {
    leave_directories();
    leave_root();
  }
}

Status DirectorySink::give_name(int directory, const std::string& temporary, const FileEntry& entry) {
  // Not again after EINTR: over a network the first try may have renamed it.
  if (os().renameat(directory, temporary.c_str(), directory, name_of(entry).c_str()) != 0) {
    return system_error("cannot give its name to", path(entry));
  }
  return {};
}

/// With its target and its time.
bool DirectorySink::link_is_there(const FileEntry& entry) {
  const int directory = directories_.at(entry.parent);
  struct stat status{};
  if (directory < 0 || is_new(entry.parent) || look_at(directory, name_of(entry), status) != 0 ||
      !S_ISLNK(status.st_mode) || !same_time(status.st_mtim, entry)) {
    return false;
  }
  std::string target(link_target_bytes_max + 1, '\0');
  const ssize_t size = os().readlinkat(directory, name_of(entry).c_str(), target.data(), target.size());
  return size >= 0 && std::string_view(target).substr(0, static_cast<std::size_t>(size)) == entry.target;
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
  const FileEntry named = under(entries_[file], name);
  const auto found = find(named);
  if (leaves_alone(named, found)) {
    return {};
  }
  const FileEntry& original = placed(entries_[file]);
  const auto is_there = found ? find(original) : std::nullopt;
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
  if (look_at(original_directory, name_of(original), file) != 0) {
    return system_error("cannot find", path(original));
  }
  touched_ = true;
  const std::string temporary = made_under_temporary(entry, [&](const char* name) {
    return os().linkat(original_directory, name_of(original).c_str(), directory, name, 0);
  });
  if (temporary.empty()) {
    return system_error("cannot make the hard link", path(entry));
  }
  Status named;
  if (look_at(directory, temporary, there) != 0 || !S_ISREG(there.st_mode) || there.st_ino != file.st_ino) {
    errno = ESTALE;
    named = system_error("somebody replaced the file of the hard link", path(entry));
  }
  named = named ? give_name(directory, temporary, entry) : named;
  if (!named) {
    retried([&] { return os().unlinkat(directory, temporary.c_str(), 0); });
  }
  return named;
}

/// Under a temporary name first, since it may replace another one.
Status DirectorySink::make_link(const FileEntry& entry) {
  if (leaves_link_alone(entry) || link_is_there(entry)) {
    return {};
  }
  const auto directory = directory_of(entry);
  if (!directory) {
    return std::unexpected(directory.error());
  }
  touched_ = true;
  const std::string temporary = made_under_temporary(
      entry, [&](const char* name) { return os().symlinkat(entry.target.c_str(), *directory, name); });
  if (temporary.empty()) {
    return system_error("cannot make the symbolic link", path(entry));
  }
  const timespec modified{entry.mtime_s, static_cast<long>(entry.mtime_ns)};
  const timespec times[2] = {modified, modified};
  // A file system without times of links keeps the link.
  [[maybe_unused]] const int timed =
      retried([&] { return os().utimensat(*directory, temporary.c_str(), times, AT_SYMLINK_NOFOLLOW); });
  Status named = give_name(*directory, temporary, entry);
  if (!named) {
    retried([&] { return os().unlinkat(*directory, temporary.c_str(), 0); });
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
  if (directory < 0 && update_.existing && errno == ENOENT) {
    return {};
  }
  if (directory < 0) {
    return system_error("cannot make or open the directory", path(entry));
  }
  return attributes_of(directory, entry);
}

/// Sets the mode and the time of a directory where they differ.
Status DirectorySink::attributes_of(int directory, const FileEntry& entry) {
  struct stat status{};
  if (retried([&] { return os().fstat(directory, &status); }) == 0 && has_attributes(status, entry)) {
    return {};
  }
  touched_ = true;
  return set_attributes(directory, entry);
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
    return system_error("cannot write the directory", shown_);
  }
  return {};
}

}  // namespace sluice::ftx
