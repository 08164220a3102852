// SPDX-License-Identifier: Apache-2.0
// Trees that arrive on a real file system, and what somebody puts in their way. What workers store is in
// tree_workers_test.cc.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <thread>

#include "apps/ftx/files/directory.h"
#include "apps/ftx/files/directory_sink.h"
#include "tests/apps/ftx/files/faulty_system.h"
#include "tests/apps/ftx/files/folds_case.h"
#include "tests/apps/ftx/files/hasty_system.h"
#include "tests/apps/ftx/files/tree_sink.h"
#include "tests/apps/ftx/files/trees.h"
#include "tests/file_text.h"

namespace sluice::ftx {
namespace {

namespace fs = std::filesystem;
using test::FoldsCase;
using test::write_file;

FileEntry link(std::string name, std::string target, std::uint32_t parent = 0) {
  return {.name = std::move(name),
          .mtime_s = 1'400'000'000,
          .kind = EntryKind::link,
          .parent = parent,
          .form = std::move(target)};
}

/// As an earlier transfer has left it.
void put(const fs::path& path, const FileEntry& entry) {
  write_file(path, std::string(entry.size_bytes, 'x'));
  const timespec time{entry.mtime_s, static_cast<long>(entry.mtime_ns)};
  const timespec times[2] = {time, time};
  ASSERT_EQ(::utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
  ASSERT_EQ(::chmod(path.c_str(), entry.mode), 0);
}

// Threat: entries without bytes, which no quota of bytes counts.
TEST_F(TreeSink, WhatItMakesIsCountedAndWhatIsThereIsNot) {
  open({dated_directory("d"), dated_file("f", 1), link("l", "f", 1), dated_directory("e")});
  ASSERT_EQ(store(1), 0);
  EXPECT_EQ(sink_->entries_made(), 2U) << "the directory and the file";
  ASSERT_EQ(finish(), 0);
  EXPECT_EQ(sink_->entries_made(), 4U);
  open(entries_);
  EXPECT_TRUE(sink_->present(entries_[1]));
  ASSERT_EQ(finish(), 0);
  EXPECT_EQ(sink_->entries_made(), 0U) << "all of it was there";
}

TEST_F(TreeSink, OnlyARegularFileOfTheSameSizeAndTimeIsThereAlready) {
  FileEntry wanted = dated_file("f");
  wanted.size_bytes = 3;
  wanted.mtime_ns = 123'456'789;
  const fs::path path = root_ / "f";
  const auto present = [&](const FileEntry& entry) {
    open({entry});
    return sink_->present(entries_[0]);
  };
  EXPECT_FALSE(present(wanted)) << "nothing is there";
  put(path, wanted);
  EXPECT_TRUE(present(wanted));
  FileEntry other = wanted;
  other.size_bytes = 4;
  EXPECT_FALSE(present(other));
  for (const std::int64_t seconds : {-1, 1}) {
    other = wanted;
    other.mtime_s += seconds;
    EXPECT_FALSE(present(other));
  }
  for (const std::uint32_t nanoseconds : {123'456'788U, 123'456'790U, 0U}) {
    other = wanted;
    other.mtime_ns = nanoseconds;
    EXPECT_FALSE(present(other)) << nanoseconds;
  }
  // What file systems keep that do not count nanoseconds.
  for (const std::uint32_t kept : {123'456'700U, 123'456'000U, 0U}) {
    FileEntry coarse = wanted;
    coarse.mtime_ns = kept;
    put(path, coarse);
    EXPECT_TRUE(present(wanted)) << kept;
  }
  // What is no regular file is not there, whatever its size and time; nothing is followed.
  put(outside_ / "f", wanted);
  fs::remove(path);
  fs::create_symlink(outside_ / "f", path);
  EXPECT_FALSE(present(wanted));
  fs::remove(path);
  fs::create_directory(path);
  EXPECT_FALSE(present(wanted));
  fs::remove(path);
  ASSERT_EQ(::mkfifo(path.c_str(), 0644), 0);
  FileEntry empty = wanted;
  empty.size_bytes = 0;
  struct stat status{};
  ASSERT_EQ(::lstat(path.c_str(), &status), 0);
  empty.mtime_s = status.st_mtim.tv_sec;
  empty.mtime_ns = static_cast<std::uint32_t>(status.st_mtim.tv_nsec);
  EXPECT_FALSE(present(empty));
}

TEST_F(TreeSink, WhatIsLeftAloneIsAsked) {
  FileEntry wanted = dated_file("f");
  const auto present = [&](const Update& update) {
    open({wanted});
    sink_->follow(update);
    return sink_->present(entries_[0]);
  };
  using Compare = Update::Compare;
  EXPECT_FALSE(present({}));
  EXPECT_FALSE(present({.ignore_existing = true}));
  EXPECT_FALSE(present({.newer = true}));
  EXPECT_TRUE(present({.existing = true})) << "nothing new is made";
  put(root_ / "f", wanted);
  EXPECT_TRUE(present({}));
  EXPECT_TRUE(present({.compare = Compare::size}));
  EXPECT_FALSE(present({.compare = Compare::nothing}));
  EXPECT_TRUE(present({.compare = Compare::nothing, .ignore_existing = true}));
  EXPECT_FALSE(present({.compare = Compare::nothing, .newer = true})) << "it is as old";
  wanted.mtime_s -= 1;
  EXPECT_FALSE(present({}));
  EXPECT_TRUE(present({.newer = true}));
  EXPECT_TRUE(present({.compare = Compare::size}));
  wanted.size_bytes = 2;
  EXPECT_FALSE(present({.compare = Compare::size}));
  EXPECT_FALSE(present({.existing = true}));
  wanted.mtime_s += 2;
  EXPECT_FALSE(present({.newer = true}));
  // Whatever it is that is there.
  fs::remove(root_ / "f");
  fs::create_symlink("nowhere", root_ / "f");
  EXPECT_TRUE(present({.ignore_existing = true}));
  EXPECT_FALSE(present({.existing = true}));
  EXPECT_FALSE(present({.newer = true})) << "a link's time is not the file's";
}

TEST_F(TreeSink, AFileOfTheSameSizeGetsTheTimeWhereThatIsEnough) {
  FileEntry other = dated_file("f");
  other.mtime_s -= 10;
  put(root_ / "f", other);
  open({dated_file("f")});
  sink_->follow({.compare = Update::Compare::size});
  EXPECT_TRUE(sink_->present(entries_[0]));
  struct stat after{};
  ASSERT_EQ(::lstat((root_ / "f").c_str(), &after), 0);
  EXPECT_EQ(after.st_mtim.tv_sec, entries_[0].mtime_s);
}

/// The content alone counts; mode and time are set.
TEST_F(TreeSink, WhereContentsAreComparedAFileOfTheSameIsThereWhateverItsTime) {
  FileEntry wanted = dated_file("f");
  wanted.size_bytes = 200'000;
  wanted.kind = EntryKind::file;
  wanted.digest = file_digest_of(as_bytes(std::string(200'000, 'x')));
  int turns = 0;
  const auto look = [&](
                        const FileEntry& entry, const std::function<void()>& meanwhile = [] {}) {
    open({entry});
    sink_->follow({.compare = Update::Compare::digest});
    for (turns = 1;; ++turns) {
      std::uint64_t bytes = 50'000;
      if (sink_->examine(entries_[0], bytes)) {
        break;
      }
      EXPECT_EQ(bytes, 0U);
      meanwhile();
    }
    return sink_->present(entries_[0]);
  };
  const fs::path path = root_ / "f";
  EXPECT_FALSE(look(wanted)) << "nothing is there";
  FileEntry there = wanted;
  there.mtime_s -= 1000;
  there.mode = 0600;
  put(path, there);
  EXPECT_TRUE(look(wanted));
  EXPECT_GE(turns, 4) << "some of it a turn";
  struct stat status{};
  ASSERT_EQ(::lstat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mtim.tv_sec, wanted.mtime_s);
  EXPECT_EQ(status.st_mode & 0777U, wanted.mode);
  // The same size and time are not enough, nor is the word of a list that has no digest.
  FileEntry other = wanted;
  other.digest = file_digest_of(as_bytes(std::string(200'000, 'y')));
  EXPECT_FALSE(look(other));
  other.digest = {};
  EXPECT_FALSE(look(other));
  other = wanted;
  other.size_bytes -= 1;
  EXPECT_FALSE(look(other));
  EXPECT_EQ(turns, 1) << "of another size it is not read";
  // Somebody writes into it, or puts another in its place, while it is read.
  EXPECT_FALSE(look(wanted, [&] { std::ofstream(path, std::ios::in) << "z"; }));
  put(path, wanted);
  EXPECT_FALSE(look(wanted, [&] {
    fs::remove(path);
    put(path, wanted);
  }));
  // What is no regular file is neither read nor waited for.
  for (const bool fifo : {false, true}) {
    fs::remove(path);
    put(outside_ / "same", wanted);
    if (fifo) {
      ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
    } else {
      fs::create_symlink(outside_ / "same", path);
    }
    EXPECT_FALSE(look(wanted));
  }
  wanted.size_bytes = 0;
  wanted.digest = file_digest_of({});
  fs::remove(path);
  put(path, wanted);
  EXPECT_TRUE(look(wanted));
}

/// Nothing is written, and nothing waits for the disk, where all is as it should be.
TEST_F(TreeSink, LinksAndDirectoriesThatAreThereAreLeftAlone) {
  const std::vector<FileEntry> entries{dated_directory("d", 0, 0750), link("l", "../a", 1),
                                       dated_directory("e", 1, 0700)};
  open(entries);
  ASSERT_EQ(finish(), 0);
  const auto inodes_and_changes = [&] {
    std::vector<std::pair<ino_t, std::int64_t>> list;
    for (const char* name : {"d", "d/l", "d/e"}) {
      struct stat status{};
      EXPECT_EQ(::lstat((root_ / name).c_str(), &status), 0);
      list.emplace_back(status.st_ino, status.st_ctim.tv_sec * 1'000'000'000 + status.st_ctim.tv_nsec);
    }
    return list;
  };
  const auto before = inodes_and_changes();
  open(entries);
  ASSERT_EQ(finish(), 0);
  EXPECT_EQ(inodes_and_changes(), before);
  std::vector<FileEntry> other = entries;
  other[1].form = "../b";
  open(other);
  ASSERT_EQ(finish(), 0);
  EXPECT_EQ(fs::read_symlink(root_ / "d/l"), "../b");
  EXPECT_EQ(inodes_and_changes()[2], before[2]);
}

TEST_F(TreeSink, OfAFileThatIsThereTheModeIsSet) {
  const FileEntry wanted = dated_file("f");
  FileEntry other = wanted;
  other.mode = 0600;
  put(root_ / "f", other);
  struct stat before{};
  struct stat after{};
  ASSERT_EQ(::lstat((root_ / "f").c_str(), &before), 0);
  open({wanted});
  EXPECT_TRUE(sink_->present(entries_[0]));
  ASSERT_EQ(::lstat((root_ / "f").c_str(), &after), 0);
  EXPECT_EQ(after.st_mode & 07777U, wanted.mode);
  EXPECT_EQ(after.st_ino, before.st_ino);
  EXPECT_EQ(after.st_mtim.tv_sec, before.st_mtim.tv_sec);
  EXPECT_TRUE(sink_->present(entries_[0]));
  struct stat again{};
  ASSERT_EQ(::lstat((root_ / "f").c_str(), &again), 0);
  EXPECT_EQ(again.st_ctim.tv_nsec, after.st_ctim.tv_nsec) << "nothing is left to set";
}

TEST_F(TreeSink, DirectoriesHaveTheirModesAndTimesWhenTheyAreFilled) {
  open({dated_directory("d", 0, 0555), dated_file("a", 1), dated_directory("e", 1, 0500), dated_file("b", 3),
        link("l", "../a", 3), dated_directory("empty", 1, 0700)});
  ASSERT_EQ(store(1), 0);
  EXPECT_EQ(fs::status(root_ / "d").permissions(), fs::perms(0700)) << "nobody else's while it is filled";
  ASSERT_EQ(store(3), 0);
  EXPECT_FALSE(fs::exists(root_ / "d/empty"));
  ASSERT_EQ(finish(), 0);
  const test::Tree tree = test::tree_of(root_ / "d");
  EXPECT_EQ(tree.at(""), (test::Node{S_IFDIR | 0555, 1'500'000'000, 7, ""}));
  EXPECT_EQ(tree.at("a"), (test::Node{S_IFREG | 0644, 1'600'000'000, 0, "x"}));
  EXPECT_EQ(tree.at("e"), (test::Node{S_IFDIR | 0500, 1'500'000'000, 7, ""}));
  EXPECT_EQ(tree.at("e/l"), (test::Node{S_IFLNK, 1'400'000'000, 0, "../a"}));
  EXPECT_EQ(tree.at("empty"), (test::Node{S_IFDIR | 0700, 1'500'000'000, 7, ""}));
  EXPECT_EQ(tree.size(), 6U);
}

TEST_F(TreeSink, ATransferThatFailsLeavesDirectoriesWithTheirModes) {
  fs::create_directories(root_ / "found/inner");
  ASSERT_EQ(::chmod((root_ / "found/inner").c_str(), 0555), 0);
  ASSERT_EQ(::chmod((root_ / "found").c_str(), 0550), 0);
  open({dated_directory("found"), dated_directory("inner", 1), dated_directory("made", 2, 0511), dated_file("a", 3),
        dated_file("b", 2), dated_directory("never", 1)});
  EXPECT_EQ(store(3), 0);
  EXPECT_EQ(store(4), 0);
  sink_.reset();
  const auto mode = [&](const char* path) {
    struct stat status{};
    EXPECT_EQ(::stat((root_ / path).c_str(), &status), 0) << path;
    return status.st_mode & 0777U;
  };
  EXPECT_EQ(mode("found"), 0550U);
  EXPECT_EQ(mode("found/inner"), 0555U);
  EXPECT_EQ(mode("found/inner/made"), 0511U);
  EXPECT_FALSE(fs::exists(root_ / "found/never"));
}

TEST_F(TreeSink, WhatIsThereIsFilledAndReplaced) {
  fs::create_directories(root_ / "d/e");
  write_file(root_ / "d/a", "old");
  write_file(root_ / "d/mine", "mine");
  fs::create_symlink("/nowhere", root_ / "d/l");
  fs::permissions(root_ / "d/e", fs::perms(0500));
  open(
      {dated_directory("d"), dated_file("a", 1), link("l", "a", 1), dated_directory("e", 1, 0511), dated_file("b", 4)});
  ASSERT_EQ(store(1), 0);
  ASSERT_EQ(store(4), 0) << "one that may not be written is made writable";
  ASSERT_EQ(finish(), 0);
  EXPECT_EQ(file_text(root_ / "d/a"), "x");
  EXPECT_EQ(file_text(root_ / "d/mine"), "mine");
  EXPECT_EQ(fs::read_symlink(root_ / "d/l"), "a");
  EXPECT_EQ(fs::status(root_ / "d/e").permissions(), fs::perms(0511));
}

TEST_F(TreeSink, TheOneTreeMayHaveANewName) {
  open({dated_directory("d"), dated_file("a", 1)}, "new");
  ASSERT_EQ(store(1), 0);
  ASSERT_EQ(finish(), 0);
  EXPECT_EQ(file_text(root_ / "new/a"), "x");
  EXPECT_EQ(sink_->path(entries_[0]), "new");
  EXPECT_EQ(sink_->path(entries_[1]), "new/a");
  EXPECT_EQ(open_error({dated_directory("d"), dated_file("a")}, "other"), ENOTDIR);
}

TEST_F(TreeSink, AContentMakesItsDirectoryAndLeavesTheModeOfOneThatIsThere) {
  open({dated_directory("", 0, 0711), dated_file("a")}, "new");
  ASSERT_EQ(store(1), 0);
  ASSERT_EQ(finish(), 0);
  EXPECT_EQ(file_text(root_ / "new/a"), "x");
  EXPECT_EQ(fs::status(root_ / "new").permissions(), fs::perms(0711));
  open({dated_directory("", 0, 0777), dated_file("b")}, "new");
  ASSERT_EQ(store(1), 0);
  ASSERT_EQ(finish(), 0);
  EXPECT_EQ(fs::status(root_ / "new").permissions(), fs::perms(0711)) << "a home directory, say";
  EXPECT_EQ(file_text(root_ / "new/b"), "x");
}

TEST_F(TreeSink, MoreDirectoriesThanStayOpen) {
  std::vector<FileEntry> entries;
  for (std::uint32_t i = 0; i < 3 * OpenDirectories::open_max; ++i) {
    entries.push_back(dated_directory("d" + std::to_string(i), i % 7 == 0 ? 0 : i));
  }
  const std::size_t directories = entries.size();
  for (std::uint32_t i = 0; i < directories; ++i) {
    entries.push_back(dated_file("f", i + 1));
  }
  open(entries);
  // Forwards, and then not as a walk would have it.
  for (std::size_t i = 0; i < directories; ++i) {
    ASSERT_EQ(store(directories + i * 5 % directories), 0);
  }
  ASSERT_EQ(finish(), 0);
  for (std::size_t i = 0; i < directories; ++i) {
    EXPECT_EQ(file_text(root_ / path_of(entries_, entries_[directories + i])), "x");
  }
}

TEST_F(TreeSink, ManyFilesThatReplaceOthersWaitUntilTheyAreDurable) {
  std::vector<FileEntry> entries;
  for (int i = 0; i < 40; ++i) {
    entries.push_back(dated_file("f" + std::to_string(i)));
    write_file(root_ / entries.back().name.view(), "old");
  }
  FaultySystem system;
  const ReplaceSystem replaced(system);
  open(entries);
  for (std::size_t i = 0; i < entries.size(); ++i) {
    ASSERT_EQ(store(i), 0);
  }
  EXPECT_EQ(file_text(root_ / "f31"), "x");
  EXPECT_EQ(file_text(root_ / "f32"), "old");
  EXPECT_EQ(system.all("fsync").size(), DirectorySink::fsync_files_max);
  ASSERT_EQ(finish(), 0);
  EXPECT_EQ(file_text(root_ / "f39"), "x");
  EXPECT_FALSE(leftovers());
  // One that is given up leaves what was there, and nothing else.
  open(entries);
  for (std::size_t i = 0; i < entries.size(); ++i) {
    ASSERT_EQ(store(i, "y"), 0);
  }
  sink_.reset();
  EXPECT_EQ(file_text(root_ / "f39"), "x");
  EXPECT_FALSE(leftovers());
}

/// Every call of a transfer fails once: nothing partial is left, and it is said.
TEST_F(TreeSink, EveryCallMayFail) {
  std::size_t failing = 1;
  for (bool failed = true; failed; ++failing) {
    FaultySystem system;
    failed = false;
    system.fault = [&](std::size_t number, const FaultySystem::Call& call) {
      const bool now = number == failing && call.name != "unlinkat";
      failed |= now || number == failing;
      return FaultySystem::Fault{.error = now ? EIO : 0};
    };
    const ReplaceSystem replaced(system);
    entries_ = {dated_directory("d"), dated_file("a", 1), dated_directory("e", 1), dated_file("b", 3),
                link("l", "x", 3)};
    auto sink = destination_->open("", entries_);
    if (sink) {
      sink_ = std::move(*sink);
      [[maybe_unused]] const bool done = store(1) == 0 && store(3) == 0 && finish() == 0;
      sink_.reset();
    }
    EXPECT_FALSE(leftovers()) << failing;
    for (const char* const name : {"d/a", "d/e/b"}) {
      EXPECT_TRUE(!fs::exists(root_ / name) || file_text(root_ / name) == "x") << failing;
    }
    test::remove_tree(root_ / "d");
  }
  EXPECT_GT(failing, 30U);
}

// --- Attacks -------------------------------------------------------------------------------------------------------

TEST_F(TreeSink, ALinkInTheWayOfADirectoryLeadsNowhere) {
  fs::create_directory_symlink(outside_, root_ / "d");
  open({dated_directory("d"), dated_file("a", 1), dated_directory("e", 1)});
  EXPECT_NE(store(1), 0);
  EXPECT_NE(finish(), 0);
  EXPECT_TRUE(fs::is_empty(outside_));
  EXPECT_NE(open_error({dated_directory(""), dated_file("a")}, "d"), 0);
}

TEST_F(TreeSink, AFileInTheWayOfADirectoryIsSaid) {
  write_file(root_ / "d", "mine");
  open({dated_directory("d"), dated_file("a", 1)});
  EXPECT_EQ(store(1), ENOTDIR);
  EXPECT_EQ(file_text(root_ / "d"), "mine");
}

TEST_F(TreeSink, ADirectoryInTheWayOfAFileOrALinkIsSaid) {
  fs::create_directory(root_ / "a");
  open({dated_file("a"), link("a", "x")});
  EXPECT_EQ(store(0), EISDIR);
  EXPECT_NE(finish(), 0);
  EXPECT_TRUE(fs::is_directory(root_ / "a"));
  EXPECT_FALSE(leftovers());
}

TEST_F(TreeSink, ALinkInTheWayOfAFileIsReplaced) {
  write_file(outside_ / "victim", "untouched");
  fs::create_directory(root_ / "d");
  fs::create_symlink(outside_ / "victim", root_ / "d/a");
  open({dated_directory("d"), dated_file("a", 1)});
  ASSERT_EQ(store(1), 0);
  ASSERT_EQ(finish(), 0);
  EXPECT_EQ(file_text(outside_ / "victim"), "untouched");
  EXPECT_TRUE(fs::is_regular_file(fs::symlink_status(root_ / "d/a")));
}

/// Threat: the peer's link, and behind it a file that is written through it.
TEST_F(TreeSink, ThePeersLinksAppearWhenAllFilesAreThere) {
  open({dated_directory("d"), link("l", outside_.string(), 1), dated_file("a", 1)});
  ASSERT_EQ(store(2), 0);
  EXPECT_FALSE(fs::exists(fs::symlink_status(root_ / "d/l")));
  ASSERT_EQ(finish(), 0);
  EXPECT_TRUE(fs::is_symlink(root_ / "d/l"));
  // The next transfer does not go through it either.
  open({dated_directory("d"), dated_directory("l", 1), dated_file("a", 2)});
  EXPECT_NE(store(2), 0);
  EXPECT_TRUE(fs::is_empty(outside_));
}

// Threat: a link and a directory whose names are two to the list and one to the destination, so that what goes into the
// directory goes where the link leads.
TEST_F(TreeSink, NamesThatAreOneWhereCaseDoesNotCountLeadNowhere) {
  FoldsCase folds;
  const ReplaceSystem replaced(folds);
  for (const bool link_first : {true, false}) {
    SCOPED_TRACE(link_first);
    const std::string to_link = link_first ? "D" : "d";
    const std::string to_directory = link_first ? "d" : "D";
    if (link_first) {
      open({link(to_link, outside_.string()), dated_directory(to_directory), dated_file("f", 2), dated_file("g", 2)});
    } else {
      open({dated_directory(to_directory), dated_file("f", 1), dated_file("g", 1), link(to_link, outside_.string())});
    }
    EXPECT_EQ(store(link_first ? 2 : 1), EEXIST);
    EXPECT_EQ(store(link_first ? 3 : 2), EEXIST);
    EXPECT_EQ(finish(), EEXIST) << "a link in the place of a directory is an error";
    EXPECT_TRUE(fs::is_empty(outside_));
    // One that is there from the transfer before does not lead out either.
    sink_.reset();
    fs::remove_all(root_ / "d");
    open({link("D", outside_.string())});
    ASSERT_EQ(finish(), 0);
    ASSERT_TRUE(fs::is_symlink(root_ / "d"));
    open({dated_directory("D"), dated_file("f", 1)});
    EXPECT_NE(store(1), 0);
    EXPECT_TRUE(fs::is_empty(outside_));
    sink_.reset();
    fs::remove(root_ / "d");
  }
}

/// Two names of a list that are one here: it is said, and what had the name keeps its content.
TEST_F(TreeSink, OfTwoFilesWhoseNamesAreOneWhereCaseDoesNotCountNoneIsLost) {
  FoldsCase folds;
  const ReplaceSystem replaced(folds);
  for (const bool was_there : {false, true}) {
    for (const bool as_a_whole : {true, false}) {
      SCOPED_TRACE(testing::Message() << was_there << as_a_whole);
      if (was_there) {
        fs::create_directory(root_ / "d");
        write_file(root_ / "d/readme", "mine");
      }
      open({dated_directory("d"), dated_file("README", 1), dated_file("other", 1), dated_file("Readme", 1)});
      const auto arrive = [&](std::size_t index, std::string_view content) -> Status {
        if (as_a_whole) {
          return sink_->store(entries_[index], as_bytes(content));
        }
        const auto file = sink_->create(entries_[index]).value();
        Status status = file->write(0, as_bytes(content));
        status = status ? file->finalize() : status;
        return status ? file->commit() : status;
      };
      EXPECT_EQ(arrive(1, "1").has_value(), !was_there);
      EXPECT_TRUE(arrive(2, "2"));
      const Status status = arrive(3, "3");
      ASSERT_FALSE(status);
      EXPECT_EQ(status.error().code, EEXIST);
      EXPECT_THAT(status.error().text, testing::AllOf(testing::HasSubstr("'d/Readme' and 'd/README' are one name"),
                                                      testing::HasSubstr("upper from lower case")));
      sink_.reset();
      EXPECT_EQ(file_text(root_ / "d/readme"), was_there ? "mine" : "1");
      EXPECT_EQ(file_text(root_ / "d/other"), "2");
      EXPECT_FALSE(leftovers());
      test::remove_tree(root_ / "d");
    }
  }
}

/// Files that replace others wait for each other. No threads store the others there: two of them could give one name at
/// the same time.
TEST_F(TreeSink, NamesThatAreOneAreToldWhereFilesWaitAndNoThreadStoresThem) {
  LateWorkers workers(1000);
  destination_->employ(workers);
  FoldsCase folds;
  const ReplaceSystem replaced(folds);
  for (const bool was_there : {false, true}) {
    SCOPED_TRACE(was_there);
    std::vector<FileEntry> entries{dated_directory("d")};
    for (std::size_t i = 0; i <= DirectorySink::fsync_files_max; ++i) {
      entries.push_back(dated_file("f" + std::to_string(i), 1));
    }
    entries.push_back(dated_file("Same", 1));
    entries.push_back(dated_file("SAME", 1));
    if (was_there) {
      fs::create_directory(root_ / "d");
      write_file(root_ / "d/same", "mine");
    }
    open(entries);
    for (std::size_t i = 1; i + 1 < entries_.size(); ++i) {
      ASSERT_EQ(store(i, "1"), 0);
    }
    EXPECT_EQ(workers.pieces(), 0U);
    EXPECT_EQ(store(entries_.size() - 1, "2"), was_there ? 0 : EEXIST) << "what replaces another waits";
    EXPECT_EQ(finish(), was_there ? EEXIST : 0);
    sink_.reset();
    EXPECT_EQ(file_text(root_ / "d/same"), was_there ? "mine" : "1");
    EXPECT_FALSE(leftovers());
    test::remove_tree(root_ / "d");
  }
}

TEST_F(TreeSink, DirectoriesAndLinksWhoseNamesAreOneAreTold) {
  FoldsCase folds;
  const ReplaceSystem replaced(folds);
  open({dated_directory("d"), dated_directory("Sub", 1), dated_file("a", 2), dated_directory("sub", 1),
        dated_file("b", 4)});
  EXPECT_EQ(store(2), EEXIST);
  EXPECT_EQ(store(4), EEXIST);
  EXPECT_EQ(finish(), EEXIST);
  sink_.reset();
  EXPECT_TRUE(fs::is_empty(root_ / "d/sub"));
  test::remove_tree(root_ / "d");
  open({dated_directory("d"), dated_file("File", 1), link("file", "x", 1)});
  EXPECT_EQ(store(1), 0);
  EXPECT_EQ(finish(), EEXIST);
  EXPECT_EQ(file_text(root_ / "d/file"), "x");
}

/// Names that no list has two of are replaced as anywhere.
TEST_F(TreeSink, WhereCaseDoesNotCountAnEarlierVersionIsReplacedUnderAnyCase) {
  FoldsCase folds;
  const ReplaceSystem replaced(folds);
  fs::create_directory(root_ / "d");
  write_file(root_ / "d/readme", "old");
  open({dated_directory("d"), dated_file("README", 1), dated_file("README2", 1)});
  EXPECT_EQ(store(1, "n"), 0);
  EXPECT_EQ(store(2, "n"), 0);
  EXPECT_EQ(finish(), 0);
  EXPECT_EQ(file_text(root_ / "d/readme"), "n");
}

TEST(CaseFolding, WhichNamesMayBeOne) {
  EXPECT_EQ(in_other_case("aB1\xc3\xa9."), "Ab1\xc3\xa9.");
  for (const auto& [one, other] :
       std::vector<std::pair<std::string, std::string>>{{"a", "A"},
                                                        {"readme.TXT", "README.txt"},
                                                        {"\xe2\x84\xaa"
                                                         "elvin",
                                                         "kelvin"},  // the sign of kelvin
                                                        {"stra\xc3\x9f"
                                                         "e",
                                                         "STRASSE"},
                                                        {"caf\xc3\xa9", "CAFE\xcc\x81"},  // composed or not
                                                        {"\xc3\xa9", "\xc3\x89"}}) {
    EXPECT_TRUE(may_be_one(one, other) && may_be_one(other, one)) << one << " " << other;
  }
  for (const auto& [one, other] : std::vector<std::pair<std::string, std::string>>{{"a", "b"},
                                                                                   {"a", "aa"},
                                                                                   {"aa", "A"},
                                                                                   {"[", "{"},
                                                                                   {"@", "`"},
                                                                                   {"", "a"},
                                                                                   {"\xc3\xa9"
                                                                                    "1",
                                                                                    "\xc3\xa9"
                                                                                    "2"},
                                                                                   {"x\xc3\xa9", "y\xc3\xa9"}}) {
    EXPECT_FALSE(may_be_one(one, other) || may_be_one(other, one)) << one << " " << other;
  }
}

TEST_F(TreeSink, ADirectorySwappedForALinkDuringTheTransferLeadsNowhere) {
  open({dated_directory("d"), dated_file("a", 1), dated_file("b", 1), dated_directory("e", 1), dated_file("c", 4)});
  ASSERT_EQ(store(1), 0);
  fs::rename(root_ / "d", root_ / "moved");
  fs::create_directory_symlink(outside_, root_ / "d");
  // Where it is still open it is the one that was moved; else it is not found again.
  EXPECT_EQ(store(2), 0);
  EXPECT_EQ(store(4), 0);
  EXPECT_EQ(file_text(root_ / "moved/b"), "x");
  sink_.reset();
  open({dated_directory("d"), dated_file("a", 1)});
  EXPECT_NE(store(1), 0);
  EXPECT_TRUE(fs::is_empty(outside_));
}

FileEntry hard_link(std::string name, std::uint32_t original, std::uint32_t parent = 0) {
  return {.name = std::move(name), .kind = EntryKind::hard_link, .parent = parent, .original = original};
}

class CountsLinks final : public System {
 public:
  int made = 0;
  int linkat(int directory, const char* path, int to_directory, const char* to, int flags) override {
    ++made;
    return System::linkat(directory, path, to_directory, to, flags);
  }
};

TEST_F(TreeSink, HardLinksAreOneFileAndReplaceWhatHasTheirName) {
  for (int round = 0; round < 2; ++round) {
    open({dated_directory("d"), dated_file("a", 1), dated_directory("e"), hard_link("b", 2, 3), hard_link("c", 2),
          link("s", "c")});
    EXPECT_EQ(store(1, round == 0 ? "1" : "2"), 0);
    EXPECT_FALSE(fs::exists(root_ / "c") && round == 0) << "made at the end";
    EXPECT_EQ(finish(), 0);
    EXPECT_EQ(file_text(root_ / "e/b"), round == 0 ? "1" : "2");
    EXPECT_TRUE(fs::equivalent(root_ / "d/a", root_ / "e/b") && fs::equivalent(root_ / "d/a", root_ / "c"));
    EXPECT_EQ(fs::hard_link_count(root_ / "d/a"), 3U);
    EXPECT_FALSE(leftovers());
  }
  CountsLinks system;
  {
    const ReplaceSystem replaced(system);
    EXPECT_EQ(finish(), 0);
  }
  EXPECT_EQ(system.made, 0) << "they are the same file already";
  EXPECT_FALSE(leftovers());
  fs::create_directory(root_ / "in_the_way");
  open({dated_file("a"), hard_link("in_the_way", 1)});
  EXPECT_EQ(store(0), 0);
  EXPECT_EQ(finish(), EISDIR);
}

/// The first name that is not left alone gets the content, and the others are linked to that.
TEST_F(TreeSink, OfAFileWithSeveralNamesThoseThatAreLeftAloneKeepWhatTheyHave) {
  const std::vector<FileEntry> entries{dated_file("a"), hard_link("b", 1), hard_link("c", 1), hard_link("d", 1)};
  struct Case {
    const char* what;
    Update update;
    std::vector<std::string> there;  // "old" each, and as new as the moment
    bool sent;
    std::vector<std::string> new_names;
  };
  const std::vector<Case> cases{
      {"nothing is there", {.ignore_existing = true}, {}, true, {"a", "b", "c", "d"}},
      {"the first", {.ignore_existing = true}, {"a"}, true, {"b", "c", "d"}},
      {"the first and the last", {.ignore_existing = true}, {"a", "d"}, true, {"b", "c"}},
      {"all", {.ignore_existing = true}, {"a", "b", "c", "d"}, false, {}},
      {"none to be made", {.existing = true}, {}, false, {}},
      {"one in the middle", {.existing = true}, {"b"}, true, {"b"}},
      {"the last two", {.existing = true}, {"c", "d"}, true, {"c", "d"}},
      {"a newer one", {.newer = true}, {"a"}, true, {"b", "c", "d"}},
      {"a newer one behind the first", {.newer = true}, {"b"}, true, {"a", "c", "d"}},
      {"all newer", {.newer = true}, {"a", "b", "c", "d"}, false, {}},
  };
  for (const Case& step : cases) {
    SCOPED_TRACE(step.what);
    for (const std::string& name : step.there) {
      write_file(root_ / name, "old");
    }
    open(entries);
    sink_->follow(step.update);
    EXPECT_EQ(sink_->present(entries_[0]), !step.sent);
    if (step.sent) {
      EXPECT_EQ(store(0, "n"), 0);
    }
    EXPECT_EQ(finish(), 0);
    for (const FileEntry& entry : entries) {
      const fs::path path = root_ / entry.name.view();
      const bool is_new = std::ranges::count(step.new_names, entry.name) == 1;
      const bool was_there = std::ranges::count(step.there, entry.name) == 1;
      EXPECT_EQ(fs::exists(path), is_new || was_there) << entry.name.view();
      if (is_new) {
        EXPECT_EQ(file_text(path), "n") << entry.name.view();
        EXPECT_EQ(fs::hard_link_count(path), step.new_names.size()) << entry.name.view();
      } else if (was_there) {
        EXPECT_EQ(file_text(path), "old") << entry.name.view();
      }
    }
    for (const FileEntry& entry : entries) {
      fs::remove(root_ / entry.name.view());
    }
  }
}

TEST_F(TreeSink, AHardLinkOfAFileThatIsThereAlreadyIsMadeOfThat) {
  open({dated_file("a"), hard_link("b", 1)});
  put(root_ / "a", entries_[0]);
  write_file(root_ / "b", "other");
  EXPECT_TRUE(sink_->present(entries_[0]));
  EXPECT_EQ(finish(), 0);
  EXPECT_TRUE(fs::equivalent(root_ / "a", root_ / "b"));
  EXPECT_EQ(file_text(root_ / "b"), "x");
}

/// A new name in front of the others does not make the file travel again.
TEST_F(TreeSink, AFileThatIsThereUnderAnotherNameGetsItsOwn) {
  open({dated_file("a"), hard_link("b", 1), hard_link("c", 1)});
  put(root_ / "c", entries_[0]);
  EXPECT_TRUE(sink_->present(entries_[0]));
  EXPECT_EQ(finish(), 0);
  EXPECT_EQ(fs::hard_link_count(root_ / "a"), 3U);
  EXPECT_EQ(file_text(root_ / "b"), "x");
  // The first that is there is the one that is compared.
  fs::remove(root_ / "a");
  FileEntry older = entries_[0];
  older.mtime_s -= 1;
  fs::remove(root_ / "b");
  put(root_ / "b", older);
  EXPECT_FALSE(sink_->present(entries_[0]));
  EXPECT_EQ(store(0, "n"), 0);
  EXPECT_EQ(finish(), 0);
  EXPECT_EQ(fs::hard_link_count(root_ / "c"), 3U);
  EXPECT_EQ(file_text(root_ / "c"), "n");
}

TEST_F(TreeSink, WithExistingAloneNothingNewIsMade) {
  const std::vector<FileEntry> entries{dated_directory("d"), dated_file("a", 1), link("s", "a"), link("t", "new"),
                                       dated_directory("there", 0, 0711)};
  fs::create_directory(root_ / "there");
  fs::create_symlink("old", root_ / "t");
  open(entries);
  sink_->follow({.existing = true});
  EXPECT_TRUE(sink_->present(entries_[1]));
  EXPECT_EQ(finish(), 0);
  EXPECT_FALSE(fs::exists(root_ / "d"));
  EXPECT_FALSE(fs::is_symlink(root_ / "s"));
  EXPECT_EQ(fs::read_symlink(root_ / "t"), "new");
  EXPECT_EQ(fs::status(root_ / "there").permissions(), fs::perms(0711));
}

TEST_F(TreeSink, WhatIsThereIsIgnoredALinkAsWell) {
  fs::create_symlink("old", root_ / "t");
  open({link("s", "a"), link("t", "new")});
  sink_->follow({.ignore_existing = true});
  EXPECT_EQ(finish(), 0);
  EXPECT_EQ(fs::read_symlink(root_ / "s"), "a");
  EXPECT_EQ(fs::read_symlink(root_ / "t"), "old");
}

/// Somebody replaces the file by a link out before its other name is made.
TEST_F(TreeSink, AHardLinkOfWhatWasReplacedByALinkIsRefused) {
  write_file(outside_ / "secret", "s");
  open({dated_file("a"), hard_link("b", 1)});
  EXPECT_EQ(store(0), 0);
  fs::remove(root_ / "a");
  fs::create_symlink(outside_ / "secret", root_ / "a");
  EXPECT_EQ(finish(), ESTALE);
  EXPECT_FALSE(fs::exists(fs::symlink_status(root_ / "b")));
  EXPECT_EQ(fs::hard_link_count(outside_ / "secret"), 1U);
  EXPECT_FALSE(leftovers());
}

/// Somebody swaps a directory and a link all the time: whatever succeeds and fails, nothing is written outside.
TEST_F(TreeSink, ARaceOfSwapsWritesNothingOutside) {
  std::atomic<bool> over = false;
  std::thread swapper([&] {
    while (!over) {
      std::error_code ignored;
      fs::rename(root_ / "d/e", root_ / "moved", ignored);
      fs::create_directory_symlink(outside_, root_ / "d/e", ignored);
      fs::remove(root_ / "d/e", ignored);
      fs::rename(root_ / "moved", root_ / "d/e", ignored);
    }
  });
  Hasty system;
  const ReplaceSystem replaced(system);
  int stored = 0, refused = 0;
  const auto store_once = [&] {
    open({dated_directory("d"), dated_directory("e", 1), dated_directory("f", 2), dated_file("a", 3)});
    ++(store(3) == 0 && finish() == 0 ? stored : refused);
    sink_.reset();
  };
  Race race(2000);
  while (race.next()) {
    store_once();
  }
  over = true;
  swapper.join();
  EXPECT_TRUE(fs::is_empty(outside_)) << stored << " stored, " << refused << " refused";
  // On a busy machine the other thread may have stood still all the time while its link was there. It is gone now.
  const int before = stored;
  store_once();
  EXPECT_EQ(stored, before + 1);
}

}  // namespace
}  // namespace sluice::ftx
