// SPDX-License-Identifier: Apache-2.0
// What is removed of a destination that a list does not have, what is kept, and what somebody swaps meanwhile.
#include "apps/ftx/files/removal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/stat.h>

#include <atomic>
#include <cerrno>
#include <thread>

#include "apps/ftx/files/directory.h"
#include "apps/ftx/files/directory_file.h"
#include "tests/apps/ftx/files/faulty_system.h"
#include "tests/apps/ftx/files/hasty_system.h"
#include "tests/apps/ftx/files/served_directory.h"
#include "tests/apps/ftx/files/trees.h"
#include "tests/file_text.h"

namespace sluice::ftx {
namespace {

namespace fs = std::filesystem;
using test::write_file;
using testing::HasSubstr;
using testing::UnorderedElementsAre;

FileEntry plain_directory(std::string name, std::uint32_t parent = 0) {
  return {.name = std::move(name), .mode = 0755, .kind = EntryKind::directory, .parent = parent};
}
FileEntry plain_file(std::string name, std::uint32_t parent = 0) {
  return {.name = std::move(name), .size_bytes = 1, .kind = EntryKind::packed, .parent = parent};
}

class RemovalTest : public ServedDirectory {
 protected:
  RemovalTest() {
    outside_ = base_ / "outside";
    fs::create_directory(outside_);
    write_file(outside_ / "precious", "p");
    destination_ = std::move(DirectoryDestination::serve(root_.string(), 1).value());
  }
  ~RemovalTest() override { test::remove_tree(root_); }

  void there(const std::vector<std::string>& paths) {
    for (const std::string& path : paths) {
      fs::create_directories((root_ / path).parent_path());
      path.ends_with('/') ? (void)fs::create_directories(root_ / path) : write_file(root_ / path, "old");
    }
  }
  /// Puts a list in place, and says how it ended.
  Error receive(std::vector<FileEntry> entries, Deletion deletion = {}) {
    entries_ = std::move(entries);
    auto sink = destination_->open("", entries_);
    Status status = sink ? (*sink)->also_remove(deletion) : std::unexpected(sink.error());
    for (const FileEntry& entry : entries_) {
      status = status && entry.regular() ? (*sink)->store(entry, as_bytes("x")) : status;
    }
    status = status ? (*sink)->finish() : status;
    return status ? Error{} : status.error();
  }
  [[nodiscard]] std::vector<std::string> left() const {
    std::vector<std::string> paths;
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(root_)) {
      paths.push_back(entry.path().lexically_relative(root_).string());
    }
    return paths;
  }
  void expect_nothing_outside_was_touched() const { EXPECT_EQ(file_text(outside_ / "precious"), "p"); }

  fs::path outside_;
  std::unique_ptr<DirectoryDestination> destination_;
  std::vector<FileEntry> entries_;
};

TEST_F(RemovalTest, WhatTheListDoesNotHaveGoesFromItsDirectories) {
  there({"d/old", "d/e/old", "d/gone/deep/er", "d/empty/", "beside", "other/x"});
  fs::create_symlink(outside_, root_ / "d/link");
  EXPECT_EQ(receive({plain_directory("d"), plain_file("new", 1), plain_directory("e", 1), plain_file("new", 3)}).code,
            0);
  EXPECT_THAT(left(), UnorderedElementsAre("d", "d/new", "d/e", "d/e/new", "beside", "other", "other/x"));
  expect_nothing_outside_was_touched();
}

TEST_F(RemovalTest, TheDestinationItselfIsOneOfThemWhereAContentGoesThere) {
  there({"old", "d/old"});
  EXPECT_EQ(receive({plain_directory(""), plain_file("new"), plain_directory("d"), plain_file("new", 3)}).code, 0);
  EXPECT_THAT(left(), UnorderedElementsAre("new", "d", "d/new"));
}

TEST_F(RemovalTest, WhatRulesExcludeIsKeptAndSoIsWhatItLiesIn) {
  there({"d/a.o", "d/b", "d/gone/deep/c.o", "d/gone/deep/d", "d/kept/x", "d/sent.o"});
  const Deletion deletion{.rules = {{.pattern = "*.o"}, {.pattern = "/d/kept/"}}};
  EXPECT_EQ(receive({plain_directory("d"), plain_file("new", 1)}, deletion).code, 0);
  EXPECT_THAT(left(), UnorderedElementsAre("d", "d/new", "d/a.o", "d/gone", "d/gone/deep", "d/gone/deep/c.o", "d/kept",
                                           "d/kept/x", "d/sent.o"));
}

/// As it is for everybody but root.
class ReadOnlyDirectories final : public System {
 public:
  int unlinkat(int plain_directory, const char* path, int flags) override {
    struct stat status{};
    if (::fstat(plain_directory, &status) == 0 && (status.st_mode & S_IWUSR) == 0) {
      errno = EACCES;
      return -1;
    }
    return System::unlinkat(plain_directory, path, flags);
  }
};

TEST_F(RemovalTest, DirectoriesThatMayNotBeWrittenAreForAsLongAsThatTakes) {
  there({"d/old", "d/gone/deep/x", "d/kept/a.o", "d/kept/y"});
  for (const char* path : {"d/gone/deep", "d/gone", "d/kept", "d"}) {
    fs::permissions(root_ / path, fs::perms(0555));
  }
  ReadOnlyDirectories system;
  const ReplaceSystem replaced(system);
  FileEntry read_only = plain_directory("d");
  read_only.mode = 0555;
  EXPECT_EQ(receive({read_only}, {.empty_sources = true, .rules = {{.pattern = "*.o"}}}).code, 0);
  EXPECT_THAT(left(), UnorderedElementsAre("d", "d/kept", "d/kept/a.o"));
  EXPECT_EQ(fs::status(root_ / "d").permissions(), fs::perms(0555));
  EXPECT_EQ(fs::status(root_ / "d/kept").permissions(), fs::perms(0555));
}

TEST_F(RemovalTest, WhatTheSourceLeavesOutIsKept) {
  there({"d/pipe", "d/old"});
  EXPECT_EQ(receive({plain_directory("d"), {.name = "pipe", .kind = EntryKind::left_out, .parent = 1}}).code, 0);
  EXPECT_THAT(left(), UnorderedElementsAre("d", "d/pipe"));
}

TEST_F(RemovalTest, FilesOfOtherTransfersAreKept) {
  there({"d/.x.ftx-01234567", "d/.x.ftx-part", "d/.x.ftx-journal", "d/.x.ftx-0123456", "d/x.ftx-01234567"});
  EXPECT_EQ(receive({plain_directory("d"), plain_file("new", 1)}).code, 0);
  EXPECT_THAT(left(), UnorderedElementsAre("d", "d/new", "d/.x.ftx-01234567", "d/.x.ftx-part", "d/.x.ftx-journal"));
  EXPECT_TRUE(is_temporary(temporary_name("a", 5)) && is_temporary(temporary_name(std::string(255, 'n'), ~0ULL)));
}

/// The classic accident: the source is a mount point of what is not mounted.
TEST_F(RemovalTest, AnEmptySourceRemovesNothingUnlessThatIsMeant) {
  there({"a", "d/b"});
  const Error refused = receive({plain_directory("")});
  EXPECT_EQ(refused.code, ECANCELED);
  EXPECT_THAT(refused.text, HasSubstr("--force-delete"));
  EXPECT_EQ(receive({plain_file("new"), plain_directory("d")}).code, ECANCELED) << "of two sources one is empty";
  EXPECT_THAT(left(), UnorderedElementsAre("a", "d", "d/b", "new"));
  EXPECT_EQ(receive({plain_directory("e")}).code, 0) << "there is nothing to remove";
  EXPECT_EQ(receive({plain_directory("d"), plain_directory("f", 1)}).code, 0) << "it is not empty";
  EXPECT_EQ(receive({plain_directory("")}, {.empty_sources = true}).code, 0);
  EXPECT_TRUE(fs::is_empty(root_));
}

TEST_F(RemovalTest, MoreThanIsAllowedRemovesNothing) {
  there({"d/a", "d/b/c"});
  const std::vector<FileEntry> list{plain_directory("d"), plain_file("new", 1)};
  const Error refused = receive(list, {.files_max = 2});
  EXPECT_EQ(refused.code, ECANCELED);
  EXPECT_THAT(refused.text, HasSubstr("3 files"));
  EXPECT_THAT(left(), UnorderedElementsAre("d", "d/a", "d/b", "d/b/c", "d/new"));
  EXPECT_EQ(receive(list, {.files_max = 3}).code, 0);
  EXPECT_THAT(left(), UnorderedElementsAre("d", "d/new"));
}

/// Another file system, as the device numbers tell.
class Mounted final : public System {
 public:
  int fstatat(int plain_directory, const char* path, struct stat* status, int flags) override {
    const int result = System::fstatat(plain_directory, path, status, flags);
    status->st_dev += std::string(path) == "mount" ? 1 : 0;
    return result;
  }
};

TEST_F(RemovalTest, OtherFileSystemsAreKept) {
  there({"d/mount/x", "d/gone/mount/", "d/gone/y"});
  Mounted system;
  const ReplaceSystem replaced(system);
  EXPECT_EQ(receive({plain_directory("d"), plain_file("new", 1)}).code, 0);
  EXPECT_THAT(left(), UnorderedElementsAre("d", "d/new", "d/mount", "d/mount/x", "d/gone", "d/gone/mount"));
}

/// One name cannot be removed.
class Stubborn final : public System {
 public:
  int unlinkat(int plain_directory, const char* path, int flags) override {
    if (std::string(path) == "stubborn") {
      errno = EACCES;
      return -1;
    }
    return System::unlinkat(plain_directory, path, flags);
  }
};

TEST_F(RemovalTest, WhatCannotBeRemovedIsSaidAndDoesNotKeepTheRest) {
  there({"d/a", "d/gone/stubborn", "d/z"});
  Stubborn system;
  const ReplaceSystem replaced(system);
  const Error error = receive({plain_directory("d"), plain_file("new", 1)});
  EXPECT_EQ(error.code, EACCES);
  EXPECT_THAT(error.text, HasSubstr("d/gone/stubborn"));
  EXPECT_THAT(left(), UnorderedElementsAre("d", "d/new", "d/gone", "d/gone/stubborn"));
}

TEST_F(RemovalTest, NobodyRemovesWhoMayNot) {
  const std::optional<Deletion> asked = Deletion{};
  EXPECT_FALSE(destination_->deletion(asked));
  EXPECT_TRUE(destination_->deletion(std::nullopt));
  destination_->allow_deletion();
  EXPECT_EQ(destination_->deletion(asked).value(), asked);
  EXPECT_FALSE(destination_->deletion(std::nullopt).value());
}

/// Somebody swaps a directory that is to be removed for a link out, all the time: nothing is removed there.
TEST_F(RemovalTest, ARaceOfSwapsRemovesNothingOutside) {
  fs::create_directories(root_ / "d/gone");
  std::atomic<bool> over = false;
  std::thread swapper([&] {
    while (!over) {
      std::error_code ignored;
      fs::create_directories(root_ / "d/gone/precious", ignored);
      fs::rename(root_ / "d/gone", base_ / "moved", ignored);
      fs::create_directory_symlink(outside_, root_ / "d/gone", ignored);
      fs::remove(root_ / "d/gone", ignored);
      fs::rename(base_ / "moved", root_ / "d/gone", ignored);
    }
  });
  Hasty system;
  const ReplaceSystem replaced(system);
  int removed = 0, failed = 0;
  // On a busy machine the other thread may stand still for long.
  Race race(2000);
  Race longer(500'000);
  while (race.next() || (removed == 0 && longer.next())) {
    ++(receive({plain_directory("d"), plain_file("new", 1)}).code == 0 ? removed : failed);
  }
  over = true;
  swapper.join();
  expect_nothing_outside_was_touched();
  EXPECT_GT(removed, 0) << failed << " failed";
}

}  // namespace
}  // namespace sluice::ftx
