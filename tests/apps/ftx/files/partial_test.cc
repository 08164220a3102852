// SPDX-License-Identifier: Apache-2.0
// What a transfer leaves for the next one, and what the next one believes: kills, power cuts, other sources, other
// transfers, and what somebody else has put in the way.
#include "apps/ftx/files/partial.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <map>
#include <set>

#include "apps/ftx/files/assembly.h"
#include "apps/ftx/files/directory.h"
#include "base/prng.h"
#include "tests/apps/ftx/content.h"
#include "tests/apps/ftx/files/faulty_system.h"
#include "tests/apps/ftx/files/served_directory.h"

namespace sluice::ftx {
namespace {

namespace fs = std::filesystem;
using test::Content;
using test::content_of;
using test::random_content;

constexpr std::uint32_t partial_slot_bytes = 64 * 1024;

void write_bytes(const fs::path& path, ConstBytes content) {
  std::ofstream(path, std::ios::binary) << as_text(content);
}

/// One transfer of one file, as far as a receiver's files go.
class Reception {
 public:
  Reception(Destination& destination, const Content& content, std::int64_t mtime = 1000,
            std::uint32_t slot_bytes = partial_slot_bytes)
      : content_(content), slot_(slot_bytes) {
    const std::vector<FileEntry> files{{.name = "name", .size_bytes = content.size(), .mtime_s = mtime}};
    const Content manifest = encode_manifest(files);
    const auto size = static_cast<std::uint32_t>(manifest.size());
    assembly_ = std::move(
        Assembly::start({"", content.size(), slot_bytes, 1, size, digest_of(manifest)}, destination, budget_).value());
    for (std::uint32_t at = 0; at < size; at += slot_bytes) {
      const std::uint32_t part = std::min(slot_bytes, size - at);
      good_ = good_ && land({manifest_file, part, at}, ConstBytes(manifest).subspan(at, part)).has_value();
    }
    std::vector<ByteRange> present;
    while (good_ && assembly_->comparing()) {
      good_ = assembly_->compare(1, present).has_value();
    }
    EXPECT_TRUE(good_);
  }

  [[nodiscard]] std::uint64_t slots() const { return (content_.size() + slot_ - 1) / slot_; }
  /// The slots that are missing.
  [[nodiscard]] std::vector<std::uint64_t> missing() {
    std::vector<std::uint64_t> missing;
    for (std::uint64_t i = 0; i < slots(); ++i) {
      const auto place = assembly_->place(adu(i));
      if (place && place->kind != Placement::Kind::duplicate) {
        missing.push_back(i);
      }
    }
    return missing;
  }
  [[nodiscard]] std::uint64_t known_bytes() const { return assembly_->skipped().bytes; }
  std::expected<void, Failure> land(std::uint64_t index) {
    const AduName name = adu(index);
    return land(name, ConstBytes(content_).subspan(name.offset, name.length));
  }
  /// The rest, and the digest.
  std::expected<void, Failure> complete() {
    for (const std::uint64_t index : missing()) {
      if (auto landed = land(index); !landed) {
        return landed;
      }
    }
    const Digest digest = file_digest_of(content_);
    return land({digest_file, digest_bytes, 0}, digest);
  }
  [[nodiscard]] Phase phase() const { return assembly_->phase(); }

 private:
  [[nodiscard]] AduName adu(std::uint64_t index) const {
    const std::uint64_t offset = index * slot_;
    return {0, static_cast<std::uint32_t>(std::min<std::uint64_t>(slot_, content_.size() - offset)), offset};
  }
  std::expected<void, Failure> land(const AduName& name, ConstBytes payload) {
    const auto place = assembly_->place(name, Assembly::Prefer::file);
    if (!place) {
      return std::unexpected(place.error());
    }
    if (place->kind == Placement::Kind::file) {
      if (const Status written = place->file->write(place->offset, payload); !written) {
        return std::unexpected(assembly_->landing_failed(name, written.error()));
      }
    } else if (place->kind == Placement::Kind::memory) {
      std::ranges::copy(payload, place->memory.begin());
    } else {
      return {};
    }
    return assembly_->landed(name);
  }

  const Content& content_;
  std::uint32_t slot_;
  Budget budget_{1U << 30};
  std::unique_ptr<Assembly> assembly_;
  bool good_ = true;
};

class PartialFile : public ServedDirectory {
 protected:
  std::unique_ptr<DirectoryDestination> serve(PartialOptions options = {.keep = true}) {
    return std::move(DirectoryDestination::serve(root_.string(), ++seed_, LandBy::write, options).value());
  }
  [[nodiscard]] std::set<std::string> names() const {
    std::set<std::string> names;
    for (const auto& entry : fs::directory_iterator(root_)) {
      names.insert(entry.path().filename().string());
    }
    return names;
  }
  /// A transfer that fails when so many slots have landed.
  void leave(const Content& content, std::uint64_t slots, std::int64_t mtime = 1000) {
    const auto destination = serve();
    Reception reception(*destination, content, mtime);
    for (std::uint64_t i = 0; i < slots; ++i) {
      ASSERT_TRUE(reception.land(i));
    }
  }

  const fs::path part() const { return root_ / ".name.ftx-part"; }
  const fs::path journal() const { return root_ / ".name.ftx-journal"; }
  std::uint64_t seed_ = 0;
};

using Names = std::set<std::string>;

TEST_F(PartialFile, ATransferThatFailsIsContinuedAndNothingIsLeft) {
  const Content content = random_content(5 * digest_block_bytes + 1000, 1);
  leave(content, 2 * 16 + 5);
  EXPECT_EQ(names(), (Names{".name.ftx-part", ".name.ftx-journal"}));
  const auto destination = serve();
  Reception reception(*destination, content);
  EXPECT_EQ(reception.known_bytes(), 2 * digest_block_bytes);
  EXPECT_EQ(reception.missing().front(), 2 * 16U);
  ASSERT_TRUE(reception.complete());
  EXPECT_EQ(reception.phase(), Phase::finished);
  EXPECT_EQ(names(), Names{"name"});
  EXPECT_EQ(content_of(root_ / "name"), content);
}

TEST_F(PartialFile, OneThatIsWholeWaitsForItsDigestOnly) {
  const Content content = random_content(3 * digest_block_bytes, 2);
  leave(content, 3 * 16);
  const auto destination = serve();
  Reception reception(*destination, content);
  EXPECT_TRUE(reception.missing().empty());
  ASSERT_TRUE(reception.complete());
  EXPECT_EQ(content_of(root_ / "name"), content);
}

TEST_F(PartialFile, WhatIsOfNoUseIsRemoved) {
  const Content content = random_content(3 * digest_block_bytes, 3);
  leave(content, 15);
  EXPECT_EQ(names(), Names());
}

TEST_F(PartialFile, WithoutTheOptionNothingIsLeft) {
  const Content content = random_content(3 * digest_block_bytes, 4);
  {
    const auto destination = serve({.keep = false});
    Reception reception(*destination, content);
    for (std::uint64_t i = 0; i < 32; ++i) {
      ASSERT_TRUE(reception.land(i));
    }
  }
  EXPECT_EQ(names(), Names());
}

TEST_F(PartialFile, SlotsThatLieAcrossBlocksComeAgainWhereTheyMust) {
  const Content content = random_content(5 * digest_block_bytes + 7, 5);
  constexpr std::uint32_t odd = 1408 * 16;
  for (int round = 0; round < 3; ++round) {
    const auto destination = serve();
    Reception reception(*destination, content, 1000, odd);
    std::uint64_t count = 0;
    for (const std::uint64_t index : reception.missing()) {
      // Not in order: there are gaps in front of what is there.
      if (index % 100 >= 5 && ++count < 90) {
        ASSERT_TRUE(reception.land(index));
      }
    }
  }
  const auto destination = serve();
  Reception reception(*destination, content, 1000, odd);
  EXPECT_GT(reception.known_bytes(), 0U);
  ASSERT_TRUE(reception.complete());
  EXPECT_EQ(content_of(root_ / "name"), content);
}

/// An ADU that overtakes the search finds no file, and begins one: nothing in it is what a journal says.
TEST_F(PartialFile, AFileThatArrivesBeforeItIsLookedForBeginsAnew) {
  const Content content = random_content(4 * digest_block_bytes, 23);
  leave(content, 40);
  const auto destination = serve();
  const std::vector<FileEntry> list{{.name = "name", .size_bytes = content.size(), .mtime_s = 1000}};
  const auto sink = destination->open("", list).value();
  const auto file = sink->create(list[0]).value();
  EXPECT_TRUE(file->known_blocks()->empty());
  EXPECT_FALSE(fs::exists(journal()));
  EXPECT_EQ(fs::file_size(part()), 0U);
}

// --- Other sources -------------------------------------------------------------------------------------------------

TEST_F(PartialFile, ASourceThatChangedBeginsAnew) {
  const Content old = random_content(4 * digest_block_bytes, 6);
  leave(old, 40);
  const Content now = random_content(4 * digest_block_bytes, 7);
  const auto destination = serve();
  Reception reception(*destination, now, 1001);
  EXPECT_EQ(reception.known_bytes(), 0U);
  ASSERT_TRUE(reception.complete());
  EXPECT_EQ(content_of(root_ / "name"), now);
  EXPECT_EQ(names(), Names{"name"});
}

TEST_F(PartialFile, ASourceThatChangedAndLooksTheSameIsNoticedAndTheNextTransferBeginsAnew) {
  const Content old = random_content(4 * digest_block_bytes, 8);
  leave(old, 40);
  const Content now = random_content(4 * digest_block_bytes, 9);
  {
    const auto destination = serve();
    Reception reception(*destination, now);
    EXPECT_EQ(reception.known_bytes(), 2 * digest_block_bytes);
    const auto done = reception.complete();
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().code, ExitCode::digest_mismatch);
  }
  EXPECT_EQ(names(), Names());
  const auto destination = serve();
  Reception reception(*destination, now);
  ASSERT_TRUE(reception.complete());
  EXPECT_EQ(content_of(root_ / "name"), now);
}

// --- What is not believed ------------------------------------------------------------------------------------------

TEST_F(PartialFile, OfADamagedJournalOnlyWhatIsBeforeTheDamageIsBelieved) {
  const Content content = random_content(4 * digest_block_bytes, 10);
  leave(content, 50);
  Content bytes = content_of(journal());
  bytes[journal_header_bytes + 48 + 20] ^= std::byte{1};  // in the second record
  write_bytes(journal(), bytes);
  const auto destination = serve();
  Reception reception(*destination, content);
  EXPECT_EQ(reception.known_bytes(), digest_block_bytes);
  ASSERT_TRUE(reception.complete());
  EXPECT_EQ(content_of(root_ / "name"), content);
}

/// What follows the damage is of the length of a record, so that a new one would join what is behind it.
TEST_F(PartialFile, WhatIsBehindTheDamageOfAJournalNeverCountsAgain) {
  const Content content = random_content(4 * digest_block_bytes, 24);
  leave(content, 50);
  Content bytes = content_of(journal());
  bytes[journal_header_bytes + 48 + 20] ^= std::byte{1};  // in the second of three records
  write_bytes(journal(), bytes);
  {
    const auto destination = serve();
    Reception reception(*destination, content);
    ASSERT_EQ(reception.known_bytes(), digest_block_bytes);
    for (std::uint64_t i = 16; i < 32; ++i) {
      ASSERT_TRUE(reception.land(i));
    }
  }
  const auto destination = serve();
  Reception reception(*destination, content);
  EXPECT_EQ(reception.known_bytes(), 2 * digest_block_bytes) << "the third was not believed, and has not come again";
}

TEST_F(PartialFile, AJournalWithoutItsFileCountsForNothing) {
  const Content content = random_content(4 * digest_block_bytes, 11);
  leave(content, 50);
  fs::remove(part());
  {
    const auto destination = serve();
    Reception reception(*destination, content);
    EXPECT_EQ(reception.known_bytes(), 0U);
    ASSERT_TRUE(reception.land(0));
    // Even where the new file has the inode of the old one.
    EXPECT_FALSE(fs::exists(journal()));
  }
  EXPECT_EQ(names(), Names());
}

TEST_F(PartialFile, BlocksBehindTheEndOfACutFileAreSentAgain) {
  const Content content = random_content(4 * digest_block_bytes, 12);
  leave(content, 64);
  fs::resize_file(part(), 2 * digest_block_bytes + 5);
  const auto destination = serve();
  Reception reception(*destination, content);
  EXPECT_EQ(reception.known_bytes(), 2 * digest_block_bytes);
  ASSERT_TRUE(reception.complete());
  EXPECT_EQ(content_of(root_ / "name"), content);
}

// --- What somebody else has put in the way -------------------------------------------------------------------------

/// Each leaves the name to who has it, and the transfer takes another.
TEST_F(PartialFile, WhatIsNotOursUnderItsNameIsLeftAlone) {
  const Content content = random_content(2 * digest_block_bytes, 13);
  const Content victim = random_content(100, 14);
  struct Row {
    const char* what;
    std::function<void()> plant;
  };
  const std::vector<Row> rows = {{"a link", [&] { fs::create_symlink(base_ / "victim", part()); }},
                                 {"a dangling link", [&] { fs::create_symlink(base_ / "nowhere", part()); }},
                                 {"a FIFO", [&] { ASSERT_EQ(::mkfifo(part().c_str(), 0600), 0); }},
                                 {"a directory", [&] { fs::create_directory(part()); }},
                                 {"a file with another name", [&] { fs::create_hard_link(base_ / "victim", part()); }},
                                 {"a file that others may write", [&] {
                                    write_bytes(part(), victim);
                                    ASSERT_EQ(::chmod(part().c_str(), 0666), 0);
                                  }}};
  for (const Row& row : rows) {
    write_bytes(base_ / "victim", victim);
    row.plant();
    const auto destination = serve();
    Reception reception(*destination, content);
    ASSERT_TRUE(reception.complete()) << row.what;
    EXPECT_EQ(content_of(root_ / "name"), content) << row.what;
    EXPECT_EQ(content_of(base_ / "victim"), victim) << row.what;
    EXPECT_FALSE(fs::exists(base_ / "nowhere")) << row.what;
    EXPECT_EQ(names(), (Names{"name", ".name.ftx-part"})) << row.what;
    fs::remove_all(part());
    fs::remove(root_ / "name");
  }
}

TEST_F(PartialFile, AJournalThatIsNotOursIsNotBelieved) {
  const Content content = random_content(4 * digest_block_bytes, 15);
  const std::vector<std::function<void()>> plants = {[&] {
                                                       fs::rename(journal(), base_ / "journal");
                                                       fs::create_symlink(base_ / "journal", journal());
                                                     },
                                                     [&] {
                                                       fs::remove(journal());
                                                       ASSERT_EQ(::mkfifo(journal().c_str(), 0600), 0);
                                                     },
                                                     [&] { ASSERT_EQ(::chmod(journal().c_str(), 0666), 0); },
                                                     [&] { fs::create_hard_link(journal(), base_ / "other"); },
                                                     [&] { write_bytes(journal(), random_content(1000, 16)); },
                                                     [&] { write_bytes(journal(), {}); },
                                                     [&] { fs::resize_file(journal(), journal_bytes_max + 1); }};
  for (std::size_t i = 0; i < plants.size(); ++i) {
    leave(content, 40);
    plants[i]();
    const auto destination = serve();
    Reception reception(*destination, content);
    EXPECT_EQ(reception.known_bytes(), 0U) << i;
    ASSERT_TRUE(reception.complete()) << i;
    EXPECT_EQ(content_of(root_ / "name"), content) << i;
    EXPECT_EQ(names(), Names{"name"}) << i;
    fs::remove(root_ / "name");
    fs::remove(base_ / "journal");
    fs::remove(base_ / "other");
  }
}

TEST_F(PartialFile, AListThatHasPartialFilesItselfMeetsNone) {
  const auto destination = serve();
  const std::vector<FileEntry> list{{"name", 2 * digest_block_bytes}, {".name.ftx-part", 2 * digest_block_bytes}};
  const auto sink = destination->open("", list).value();
  const auto first = sink->create(list[0]).value();
  const auto second = sink->create(list[1]).value();
  EXPECT_FALSE(fs::exists(part()));
  ASSERT_TRUE(second->write(0, random_content(2 * digest_block_bytes, 17)));
  ASSERT_TRUE(second->finalize());
  ASSERT_TRUE(second->commit());
  EXPECT_EQ(names().size(), 2U);
}

// --- Two transfers at once -----------------------------------------------------------------------------------------

TEST_F(PartialFile, AnotherProcessTakesAnotherName) {
  const Content content = random_content(4 * digest_block_bytes, 18);
  const auto one = serve();
  const auto other = serve();  // has Partials of its own, as another process has
  Reception first(*one, content);
  ASSERT_TRUE(first.land(0));
  Reception second(*other, content);
  for (std::uint64_t i = 0; i < 40; ++i) {
    ASSERT_TRUE(first.land(i));
    ASSERT_TRUE(second.land(i));
  }
  EXPECT_EQ(names().size(), 3U);
  ASSERT_TRUE(second.complete());
  EXPECT_EQ(content_of(root_ / "name"), content);
  ASSERT_TRUE(first.complete());
  EXPECT_EQ(content_of(root_ / "name"), content);
  EXPECT_EQ(names(), Names{"name"});
}

/// Another transfer may complete between the open and the lock. Its file is not ours any more, however well it is
/// locked: it must be neither emptied nor written to.
TEST_F(PartialFile, AFileThatGetsItsNameBeforeItIsLockedIsLeftAlone) {
  const Content content = random_content(2 * digest_block_bytes, 25);
  leave(content, 20);
  const Content before = content_of(part());
  FaultySystem system;
  const ReplaceSystem replace(system);
  bool done = false;
  system.fault = [&](std::size_t, const FaultySystem::Call& call) {
    if (call.name == "flock" && !std::exchange(done, true)) {
      fs::rename(part(), root_ / "name");
      fs::remove(journal());
    }
    return FaultySystem::Fault{};
  };
  const auto destination = serve();
  const std::vector<FileEntry> list{{.name = "name", .size_bytes = content.size(), .mtime_s = 1000}};
  const auto sink = destination->open("", list).value();
  const auto file = sink->create(list[0]).value();
  ASSERT_TRUE(done);
  EXPECT_TRUE(file->write(0, random_content(100, 26)));
  EXPECT_EQ(content_of(root_ / "name"), before);
  EXPECT_EQ(fs::file_size(part()), 100U);
}

TEST_F(PartialFile, ATransferOfTheSameFileTakesOverFromOneThatIsLeftAlone) {
  const Content content = random_content(4 * digest_block_bytes, 19);
  const auto destination = serve();
  Reception first(*destination, content);
  for (std::uint64_t i = 0; i < 40; ++i) {
    ASSERT_TRUE(first.land(i));
  }
  Reception second(*destination, content);
  EXPECT_EQ(second.known_bytes(), 2 * digest_block_bytes);
  const auto late = first.land(50);
  ASSERT_FALSE(late);
  EXPECT_NE(late.error().text.find("another transfer of 'name' has taken over"), std::string::npos)
      << late.error().text;
  ASSERT_TRUE(second.complete());
  EXPECT_EQ(content_of(root_ / "name"), content);
  EXPECT_EQ(names(), Names{"name"});
}

TEST_F(PartialFile, ATransferOfAnotherStateOfTheFileDoesNot) {
  const Content content = random_content(4 * digest_block_bytes, 20);
  const Content other = random_content(4 * digest_block_bytes, 21);
  const auto destination = serve();
  Reception first(*destination, content);
  ASSERT_TRUE(first.land(0));
  Reception second(*destination, other, 2000);
  ASSERT_TRUE(second.land(0));
  ASSERT_TRUE(first.complete());
  EXPECT_EQ(content_of(root_ / "name"), content);
  ASSERT_TRUE(second.complete());
  EXPECT_EQ(content_of(root_ / "name"), other);
}

// --- Kills and power cuts ------------------------------------------------------------------------------------------

/// A disk that loses what was not synced, for one directory. Of a file's bytes since its last sync any pages may be on
/// disk or not, as of its size; of names since the last sync of the directory any may be there or not.
class LossyDisk final : public System {
 public:
  explicit LossyDisk(fs::path root, fs::path lost) : root_(std::move(root)), lost_(std::move(lost)) {}

  int fdatasync(int descriptor) override { return fsync(descriptor); }
  int fsync(int descriptor) override {
    struct stat status{};
    EXPECT_EQ(::fstat(descriptor, &status), 0);
    if (S_ISDIR(status.st_mode)) {
      made_.clear();
      for (const auto& [name, at] : removed_) {
        fs::remove(at);
      }
      removed_.clear();
    } else {
      durable_[status.st_ino] = content_of("/proc/self/fd/" + std::to_string(descriptor));
    }
    return 0;
  }
  int openat(int directory, const char* path, int flags, mode_t mode) override {
    const int descriptor = System::openat(directory, path, flags, mode);
    if (descriptor >= 0 && (flags & O_CREAT) != 0) {
      made_.insert(path);
      struct stat status{};
      ::fstat(descriptor, &status);
      durable_.erase(status.st_ino);
    }
    return descriptor;
  }
  int unlinkat(int directory, const char* path, int flags) override {
    const fs::path at = lost_ / std::to_string(++count_);
    const bool kept =
        !made_.contains(path) && !removed_.contains(path) && ::linkat(directory, path, AT_FDCWD, at.c_str(), 0) == 0;
    const int result = System::unlinkat(directory, path, flags);
    if (kept) {
      removed_.emplace(path, at);
    }
    return result;
  }

  void cut_power(Prng& prng) {
    for (const auto& name : made_) {
      if (prng.chance(0.3)) {
        fs::remove(root_ / name);
      }
    }
    for (const auto& [name, at] : removed_) {
      if (!fs::exists(root_ / name) && prng.chance(0.7)) {
        fs::rename(at, root_ / name);
      }
    }
    for (const auto& entry : fs::directory_iterator(root_)) {
      struct stat status{};
      ASSERT_EQ(::stat(entry.path().c_str(), &status), 0);
      Content now = content_of(entry.path());
      const Content& then = durable_[status.st_ino];
      const std::size_t size = prng.chance(0.5) ? now.size() : then.size();
      now.resize(std::max({now.size(), then.size(), size}));
      for (std::size_t at = 0; at < now.size(); at += 4096) {
        if (prng.chance(0.5)) {
          for (std::size_t i = at; i < std::min(at + 4096, now.size()); ++i) {
            now[i] = i < then.size() ? then[i] : std::byte{0};
          }
        }
      }
      now.resize(size);
      std::fstream(entry.path(), std::ios::in | std::ios::out | std::ios::binary) << as_text(now);
      fs::resize_file(entry.path(), size);
    }
    restart();
  }
  /// What is there is on disk.
  void restart() {
    made_.clear();
    for (const auto& [name, at] : removed_) {
      fs::remove(at);
    }
    removed_.clear();
    durable_.clear();
    for (const auto& entry : fs::directory_iterator(root_)) {
      struct stat status{};
      ASSERT_EQ(::stat(entry.path().c_str(), &status), 0);
      durable_[status.st_ino] = content_of(entry.path());
    }
  }

 private:
  fs::path root_, lost_;
  std::map<ino_t, Content> durable_;
  std::set<std::string> made_;
  std::map<std::string, fs::path> removed_;
  std::uint64_t count_ = 0;
};

/// Commits when the test says so.
class LazyKeeper final : public JournalKeeper {
 public:
  std::set<Partial*> waiting;
  void due(Partial& partial) override { waiting.insert(&partial); }
  void forget(Partial& partial) override { waiting.erase(&partial); }
  void commit() {
    for (Partial* const partial : std::exchange(waiting, {})) {
      partial->commit();
    }
  }
};

TEST_F(PartialFile, AfterAPowerCutNothingIsBelievedThatIsNotOnDisk) {
  fs::create_directory(base_ / "lost");
  std::uint64_t believed = 0;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    Prng prng(seed);
    const Content content = random_content((2 + prng.below(4)) * digest_block_bytes + prng.below(2) * 777, seed);
    LossyDisk disk(root_, base_ / "lost");
    const ReplaceSystem replace(disk);
    const std::uint32_t slot_bytes = prng.chance(0.5) ? partial_slot_bytes : 50'000U * 16 / 10;
    for (std::uint64_t round = 0; round < 4; ++round) {
      LazyKeeper keeper;
      auto destination = serve({.keep = true, .keeper = &keeper});
      // The cut comes between any two calls, so what follows it must leave no trace.
      auto reception = std::make_unique<Reception>(*destination, content, 1000, slot_bytes);
      const Content on_disk = content_of(part());
      believed += reception->known_bytes();
      std::vector<std::uint64_t> missing = reception->missing();
      std::set<std::uint64_t> lacks(missing.begin(), missing.end());
      for (std::uint64_t i = 0; i < reception->slots(); ++i) {
        const std::uint64_t from = i * slot_bytes;
        const std::uint64_t size = std::min<std::uint64_t>(slot_bytes, content.size() - from);
        ASSERT_TRUE(lacks.contains(i) || (on_disk.size() >= from + size &&
                                          std::equal(content.begin() + static_cast<std::ptrdiff_t>(from),
                                                     content.begin() + static_cast<std::ptrdiff_t>(from + size),
                                                     on_disk.begin() + static_cast<std::ptrdiff_t>(from))))
            << "seed " << seed << ", round " << round << ", slot " << i;
      }
      if (round == 3) {
        ASSERT_TRUE(reception->complete()) << "seed " << seed;
        EXPECT_EQ(content_of(root_ / "name"), content) << "seed " << seed;
        reception.reset();
        break;
      }
      for (std::size_t i = 0; i + 1 < missing.size(); ++i) {
        std::swap(missing[i], missing[std::min(missing.size() - 1, i + prng.below(12))]);
      }
      const std::uint64_t until = prng.below(missing.size() + 1);
      for (std::uint64_t i = 0; i < until; ++i) {
        ASSERT_TRUE(reception->land(missing[i])) << "seed " << seed;
        if (prng.chance(0.1)) {
          keeper.commit();
        }
      }
      disk.cut_power(prng);
      // The end of these objects must leave no trace: the files are put back as the cut has left them.
      const fs::path aside = base_ / "aside";
      fs::create_directory(aside);
      std::map<std::string, Content> after;
      for (const std::string& name : names()) {
        fs::create_hard_link(root_ / name, aside / name);
        after[name] = content_of(root_ / name);
      }
      reception.reset();
      destination.reset();
      for (const std::string& name : names()) {
        fs::remove(root_ / name);
      }
      for (const auto& [name, bytes] : after) {
        fs::rename(aside / name, root_ / name);
        write_bytes(root_ / name, bytes);
      }
      disk.restart();
      fs::remove(aside);
    }
    ASSERT_EQ(names(), Names{"name"}) << "seed " << seed;
    fs::remove(root_ / "name");
  }
  EXPECT_GT(believed, 40 * digest_block_bytes) << "there is something to believe";
}

/// A journal is written behind what it says: the order of the calls, and what follows each that fails.
TEST_F(PartialFile, TheJournalFollowsTheData) {
  const Content content = random_content(3 * digest_block_bytes, 30);
  FaultySystem system;
  const ReplaceSystem replace(system);
  leave(content, 16);
  const auto data = system.all("fdatasync", ".name.ftx-part");
  const auto records = system.all("pwritev", ".name.ftx-journal");
  const auto journal_syncs = system.all("fdatasync", ".name.ftx-journal");
  const auto names = system.all("fsync", ".");
  ASSERT_EQ(data.size(), 1U);
  ASSERT_EQ(records.size(), 2U) << "the header and a record";
  ASSERT_EQ(names.size(), 1U);
  EXPECT_LT(system.all("pwritev", ".name.ftx-part").back(), data[0]);
  EXPECT_LT(data[0], records[1]);
  EXPECT_LT(names[0], records[1]);
  EXPECT_LT(records[1], journal_syncs.back());
}

TEST_F(PartialFile, AFailedSyncOfTheFileFailsTheTransferEvenIfALaterOneSucceeds) {
  const Content content = random_content(3 * digest_block_bytes, 31);
  FaultySystem system;
  const ReplaceSystem replace(system);
  bool failed = false;
  system.fault = [&](std::size_t, const FaultySystem::Call& call) {
    const bool now = !failed && call.name == "fdatasync" && call.file == ".name.ftx-part";
    failed = failed || now;
    return FaultySystem::Fault{.error = now ? EIO : 0};
  };
  const auto destination = serve();
  Reception reception(*destination, content);
  const auto done = reception.complete();
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, ExitCode::write_failed);
  EXPECT_FALSE(fs::exists(root_ / "name"));
}

TEST_F(PartialFile, AFileIsNotLetGoAfterAFailedSync) {
  const Content content = random_content(2 * digest_block_bytes, 33);
  for (const bool fails : {false, true}) {
    FaultySystem system;
    const ReplaceSystem replace(system);
    system.fault = [&](std::size_t, const FaultySystem::Call& call) {
      const bool hit = fails && call.name == "fdatasync" && call.file == ".name.ftx-part";
      return FaultySystem::Fault{.error = hit ? EIO : 0};
    };
    const auto destination = serve();
    const std::vector<FileEntry> list{{.name = "name", .size_bytes = content.size(), .mtime_s = 1000}};
    const auto sink = destination->open("", list).value();
    const auto file = sink->create(list[0]).value();
    ASSERT_TRUE(file->write(0, content));
    file->note_block(0, digest_of(ConstBytes(content).first(digest_block_bytes)));
    const Status gone = file->let_go();
    EXPECT_EQ(gone.has_value(), !fails);
    EXPECT_TRUE(gone || gone.error().code == EIO);
  }
}

/// Without a journal the transfer goes on.
TEST_F(PartialFile, WhateverFailsOfTheJournalTheFileArrives) {
  const Content content = random_content(3 * digest_block_bytes, 32);
  for (const char* call : {"openat", "pwritev", "fdatasync", "unlinkat"}) {
    FaultySystem system;
    const ReplaceSystem replace(system);
    std::size_t faults = 0;
    system.fault = [&](std::size_t, const FaultySystem::Call& now) {
      const bool hit = now.name == call && now.file == ".name.ftx-journal";
      faults += hit ? 1 : 0;
      return FaultySystem::Fault{.error = hit ? EIO : 0};
    };
    const auto destination = serve();
    Reception reception(*destination, content);
    ASSERT_TRUE(reception.complete()) << call;
    EXPECT_EQ(content_of(root_ / "name"), content) << call;
    EXPECT_GT(faults, 0U) << call;
    fs::remove(root_ / "name");
    fs::remove(journal());
  }
}

}  // namespace
}  // namespace sluice::ftx
