// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/files/partial.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "apps/ftx/files/directory_file.h"
#include "apps/ftx/files/system.h"
#include "apps/ftx/files/walk.h"
#include "apps/ftx/protocol/name.h"

namespace sluice::ftx {
namespace {

constexpr std::string_view part_suffix = ".ftx-part";
constexpr std::string_view journal_suffix = ".ftx-journal";
// What is there may vanish or appear between two calls.
constexpr int attempts_max = 4;
// A FIFO must not block, a terminal not become the controlling one.
constexpr int open_flags = O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
/// Blocks that wait for a disk that does not answer: those of 64 GiB. What comes then is not journaled.
constexpr std::size_t noted_max = 1U << 16;

std::string beside(const std::string& name, std::string_view suffix) {
  return "." + name.substr(0, component_bytes_max - std::max(part_suffix.size(), journal_suffix.size()) - 1) +
         std::string(suffix);
}

/// Nobody else can have put anything into it, or put it there as a name for a file elsewhere.
bool is_ours(int file, struct stat& status) {
  return retried([&] { return os().fstat(file, &status); }) == 0 && S_ISREG(status.st_mode) &&
         status.st_uid == ::geteuid() && status.st_nlink == 1 && (status.st_mode & 0022U) == 0;
}

/// The file that has the name, and no other that has it no more.
bool has_name(int directory, const std::string& name, const struct stat& file) {
  struct stat named{};
  return look_at(directory, name.c_str(), named) == 0 && named.st_dev == file.st_dev && named.st_ino == file.st_ino;
}

bool lock(int file) {
  return retried([&] { return os().flock(file, LOCK_EX | LOCK_NB); }) == 0;
}

/// Some file systems cannot sync a directory and answer EINVAL.
bool sync_names(int directory) {
  return retried([&] { return os().fsync(directory); }) == 0 || errno == EINVAL;
}

bool remove_name(int directory, const std::string& name) {
  return retried([&] { return os().unlinkat(directory, name.c_str(), 0); }) == 0;
}

}  // namespace

// --- Who has which -------------------------------------------------------------------------------------------------

void Partials::add(Partial& partial, Owner& owner) { owners_[&partial] = &owner; }

void Partials::remove(const Partial& partial) { owners_.erase(&partial); }

bool Partials::take_over(const JournalHead& head) {
  const auto found = std::ranges::find_if(owners_, [&](const auto& one) { return one.first->head().same_file(head); });
  if (found == owners_.end()) {
    return false;
  }
  found->second->surrender();
  return true;
}

// --- How one is found ----------------------------------------------------------------------------------------------

bool Partial::may_collide(std::string_view name) {
  return name.starts_with('.') && (name.ends_with(part_suffix) || name.ends_with(journal_suffix));
}

std::optional<Partial::Opened> Partial::open(int directory, const std::string& name, const FileEntry& entry,
                                             std::uint64_t salt, Partials& partials, Find find) {
  const std::string part = beside(name, part_suffix);
  for (int attempt = 0; attempt < attempts_max; ++attempt) {
    Descriptor file(retried([&] { return os().openat(directory, part.c_str(), open_flags, 0); }));
    const bool found = file.valid();
    if (!found && (errno != ENOENT || find == Find::known)) {
      return std::nullopt;
    }
    if (!found) {
      // A journal of one that is gone would be believed of a new one with the same inode.
      if (remove_name(directory, beside(name, journal_suffix)) && !sync_names(directory)) {
        return std::nullopt;
      }
      file = Descriptor(
          retried([&] { return os().openat(directory, part.c_str(), open_flags | O_CREAT | O_EXCL, 0600); }));
      if (!file.valid()) {
        if (errno == EEXIST) {
          continue;
        }
        return std::nullopt;
      }
    }
    struct stat status{};
    if (!is_ours(file.get(), status)) {
      return std::nullopt;
    }
    const JournalHead head{.size_bytes = entry.content_bytes(),
                           .mtime_s = entry.mtime_s,
                           .mtime_ns = entry.mtime_ns,
                           .name = journal_name_hash(name, entry.extents(), entry.size_bytes),
                           .inode = status.st_ino,
                           .salt = salt};
    if (!lock(file.get())) {
      if (errno == EWOULDBLOCK && partials.take_over(head)) {
        continue;
      }
      return std::nullopt;
    }
    // Who had the lock before may have renamed or removed it.
    if (!has_name(directory, part, status)) {
      continue;
    }
    Descriptor at = enter_directory(directory, ".");
    if (!at.valid()) {
      return std::nullopt;
    }
    Opened opened{std::move(file), nullptr};
    opened.partial.reset(new Partial(std::move(at), opened.file.get(), part, beside(name, journal_suffix), head,
                                     partials.options().keeper));
    const bool good = find == Find::known
                          ? opened.partial->read_journal(entry, static_cast<std::uint64_t>(status.st_size))
                          : !found || opened.partial->begin_anew(status.st_size > 0);
    return good ? std::optional(std::move(opened)) : std::nullopt;
  }
  return std::nullopt;
}

/// True when there is a journal of this file that knows something.
bool Partial::read_journal(const FileEntry& entry, std::uint64_t file_bytes) {
  Descriptor journal(retried([&] { return os().openat(directory_.get(), journal_name_.c_str(), open_flags, 0); }));
  struct stat status{};
  if (!journal.valid() || !is_ours(journal.get(), status) || status.st_size <= 0 ||
      static_cast<std::uint64_t>(status.st_size) > journal_bytes_max) {
    return false;
  }
  std::vector<std::byte> bytes(static_cast<std::size_t>(status.st_size));
  for (std::size_t at = 0; at < bytes.size();) {
    const ssize_t got =
        retried([&] { return os().pread(journal.get(), &bytes[at], bytes.size() - at, static_cast<off_t>(at)); });
    if (got <= 0) {
      return false;
    }
    at += static_cast<std::size_t>(got);
  }
  auto parsed = parse_journal(bytes);
  if (!parsed || !parsed->head.same_file(head_)) {
    return false;
  }
  head_.salt = parsed->head.salt;
  journal_ = std::move(journal);
  journal_end_ = parsed->valid_bytes;
  std::vector<std::uint64_t> cut_off;
  for (const KnownBlock& block : parsed->blocks) {
    if (entry.end_of(std::min((block.index + 1) * digest_block_bytes, head_.size_bytes)) <= file_bytes) {
      known_.push_back(block);
    } else {
      cut_off.push_back(block.index);
    }
  }
  recorded_ = !known_.empty();
  // What is no record must not become one again behind the next.
  const bool clean = journal_end_ == bytes.size() ||
                     retried([&] { return os().ftruncate(journal_.get(), static_cast<off_t>(journal_end_)); }) == 0;
  return recorded_ && clean && withdraw(cut_off).has_value();
}

/// What an old journal says must be gone, durably, before the file is something else than it says.
bool Partial::begin_anew(bool emptied) {
  journal_ = Descriptor();
  known_.clear();
  recorded_ = false;
  if (remove_name(directory_.get(), journal_name_)) {
    if (!sync_names(directory_.get())) {
      return false;
    }
  } else if (errno != ENOENT) {
    return false;
  }
  return !emptied || retried([&] { return os().ftruncate(file_, 0); }) == 0;
}

Partial::~Partial() { [[maybe_unused]] const int error = stop(); }

// --- The journal ---------------------------------------------------------------------------------------------------

Status Partial::withdraw(std::span<const std::uint64_t> blocks) {
  const std::lock_guard lock(committing_);
  if (!blocks.empty() && !append(encode_withdrawn(head_, blocks))) {
    broken_ = true;
    return fail(EIO, "cannot write the journal of '" + printable(name_) + "'");
  }
  return {};
}

void Partial::note(std::uint64_t block, const Digest& digest) {
  {
    const std::lock_guard lock(noting_);
    if (noted_.size() >= noted_max) {
      return;
    }
    noted_.push_back({block, digest});
  }
  if (keeper_ != nullptr) {
    keeper_->due(*this);
  } else {
    commit();
  }
}

void Partial::commit() {
  const std::lock_guard lock(committing_);
  std::vector<KnownBlock> blocks;
  {
    const std::lock_guard noting(noting_);
    blocks.swap(noted_);
  }
  if (broken_ || blocks.empty()) {
    return;
  }
  // The order is the point: what is not durable is not in the journal.
  if (retried([&] { return os().fdatasync(file_); }) != 0) {
    sync_error_ = errno;
    broken_ = true;
    return;
  }
  broken_ = (!journal_.valid() && !make_journal()) || !append(encode_known(head_, std::move(blocks)));
  recorded_ = recorded_ || !broken_;
}

bool Partial::make_journal() {
  journal_ = Descriptor(retried(
      [&] { return os().openat(directory_.get(), journal_name_.c_str(), open_flags | O_CREAT | O_EXCL, 0600); }));
  journal_end_ = 0;
  // The names of both are durable before a record says anything.
  return journal_.valid() && append(encode_journal_head(head_)) && sync_names(directory_.get());
}

bool Partial::append(ConstBytes records) {
  while (!records.empty()) {
    const iovec piece{const_cast<std::byte*>(records.data()), records.size()};
    const ssize_t put =
        retried([&] { return os().pwritev(journal_.get(), &piece, 1, static_cast<off_t>(journal_end_)); });
    if (put <= 0) {
      return false;
    }
    journal_end_ += static_cast<std::uint64_t>(put);
    records = records.subspan(static_cast<std::size_t>(put));
  }
  return retried([&] { return os().fdatasync(journal_.get()); }) == 0;
}

int Partial::stop() {
  if (keeper_ != nullptr) {
    keeper_->forget(*this);
  }
  return sync_error_;
}

void Partial::remove_journal() {
  if (journal_.valid()) {
    remove_name(directory_.get(), journal_name_);
  }
}

void Partial::remove() {
  remove_journal();
  remove_name(directory_.get(), name_);
}

}  // namespace sluice::ftx
