// SPDX-License-Identifier: Apache-2.0
// What lies in the place of a file that is to arrive: what counts as an earlier version, and what is read of it.
#include "apps/ftx/files/earlier_version.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "apps/ftx/files/directory.h"
#include "tests/apps/ftx/content.h"
#include "tests/apps/ftx/files/faulty_system.h"
#include "tests/apps/ftx/files/served_directory.h"
#include "tests/apps/ftx/files/trees.h"

namespace sluice::ftx {
namespace {

namespace fs = std::filesystem;
using test::Content;
using test::random_content;
using test::write_file;

class EarlierVersions : public ServedDirectory {
 protected:
  EarlierVersions() { destination_ = std::move(DirectoryDestination::serve(root_.string(), 1).value()); }

  /// Of a file of 100 bytes that a list has.
  std::unique_ptr<EarlierFile> earlier(Update update = {}) {
    sink_ = std::move(destination_->open("", entries_).value());
    sink_->follow(update);
    return sink_->earlier(entries_.back());
  }
  static Content read_all(EarlierFile& file, std::size_t piece = 1000) {
    Content all;
    Content part(piece);
    for (;;) {
      const auto read = file.read_on(part);
      EXPECT_TRUE(read);
      if (!read || *read == 0) {
        return all;
      }
      all.insert(all.end(), part.begin(), part.begin() + static_cast<std::ptrdiff_t>(*read));
    }
  }

  std::vector<FileEntry> entries_{{.name = "d", .mode = 0755, .kind = EntryKind::directory},
                                  {.name = "f", .size_bytes = 100, .mtime_s = 1000, .parent = 1}};
  std::unique_ptr<DirectoryDestination> destination_;
  std::unique_ptr<Sink> sink_;
};

TEST_F(EarlierVersions, AFileThatDiffersIsOne) {
  EXPECT_FALSE(earlier()) << "nothing is there";
  fs::create_directory(root_ / "d");
  write_file(root_ / "d/f", std::string(100, 'x'));
  const auto file = earlier();
  ASSERT_TRUE(file);
  EXPECT_EQ(read_all(*file, 7), Content(100, std::byte{'x'}));
  write_file(root_ / "d/f", "");
  EXPECT_FALSE(earlier()) << "nothing to find in it";
}

TEST_F(EarlierVersions, WhatStaysOrIsNoFileIsNone) {
  fs::create_directory(root_ / "d");
  write_file(root_ / "d/f", std::string(100, 'x'));
  EXPECT_FALSE(earlier({.compare = Update::Compare::size})) << "it is the same";
  EXPECT_FALSE(earlier({.ignore_existing = true}));
  EXPECT_FALSE(earlier({.newer = true})) << "it is from now";
  EXPECT_TRUE(earlier({.existing = true}));
  fs::remove(root_ / "d/f");
  ASSERT_EQ(::mkfifo((root_ / "d/f").c_str(), 0600), 0);
  EXPECT_FALSE(earlier()) << "and nobody waits for who writes to it";
}

/// Threat: a link to what only the receiver may read, whose content the sender would learn of.
TEST_F(EarlierVersions, ALinkIsNoneAndNeitherIsAnythingBehindOne) {
  write_file(base_ / "secret", std::string(50, 'x'));
  fs::create_directory(root_ / "d");
  fs::create_symlink(base_ / "secret", root_ / "d/f");
  EXPECT_FALSE(earlier());
  fs::remove_all(root_ / "d");
  fs::create_directory(base_ / "other");
  write_file(base_ / "other/f", std::string(50, 'x'));
  fs::create_directory_symlink(base_ / "other", root_ / "d");
  EXPECT_FALSE(earlier());
}

/// The same, of a link that is swapped in between the look and the open.
TEST_F(EarlierVersions, ALinkThatIsSwappedInIsNone) {
  write_file(base_ / "secret", std::string(50, 'x'));
  fs::create_directory(root_ / "d");
  write_file(root_ / "d/f", std::string(50, 'y'));
  FaultySystem system;
  std::size_t swaps = 0;
  system.fault = [&](std::size_t, const FaultySystem::Call& call) -> FaultySystem::Fault {
    if (call.name == "openat" && call.file == "f") {
      fs::remove(root_ / "d/f");
      fs::create_symlink(base_ / "secret", root_ / "d/f");
      ++swaps;
    }
    return {};
  };
  const ReplaceSystem replaced(system);
  EXPECT_FALSE(earlier());
  EXPECT_EQ(swaps, 1U);
}

/// Threat: petabytes of holes.
TEST_F(EarlierVersions, HolesAreNotRead) {
  fs::create_directory(root_ / "d");
  const Descriptor file(::open((root_ / "d/f").c_str(), O_RDWR | O_CREAT, 0644));
  const Content one = random_content(1U << 20, 1), other = random_content(1U << 20, 2);
  const auto at = [](int power) { return static_cast<off_t>(std::int64_t{1} << power); };
  ASSERT_EQ(::pwrite(file.get(), one.data(), one.size(), at(30)), static_cast<ssize_t>(one.size()));
  ASSERT_EQ(::pwrite(file.get(), other.data(), other.size(), at(40)), static_cast<ssize_t>(other.size()));
  ASSERT_EQ(::ftruncate(file.get(), at(42)), 0);
  struct stat status{};
  ASSERT_EQ(::fstat(file.get(), &status), 0);
  if (status.st_blocks * 512 > at(30)) {
    GTEST_SKIP() << "the file system has no holes";
  }
  const auto found = earlier();
  ASSERT_TRUE(found);
  Content expected = one;
  expected.insert(expected.end(), other.begin(), other.end());
  EXPECT_EQ(read_all(*found, 100'000), expected);
}

TEST_F(EarlierVersions, WhatCannotBeReadIsAnErrorAndWhatWasCutEnds) {
  fs::create_directory(root_ / "d");
  write_file(root_ / "d/f", std::string(5000, 'x'));
  const auto file = earlier();
  ASSERT_TRUE(file);
  Content part(1000);
  EXPECT_EQ(file->read_on(part).value(), 1000U);
  fs::resize_file(root_ / "d/f", 1500);
  EXPECT_EQ(file->read_on(part).value(), 500U);
  EXPECT_EQ(file->read_on(part).value(), 0U);
  FaultySystem system;
  system.fault = [](std::size_t, const FaultySystem::Call& call) -> FaultySystem::Fault {
    return {.error = call.name == "pread" ? EIO : 0};
  };
  const auto again = earlier();
  ASSERT_TRUE(again);
  const ReplaceSystem replaced(system);
  EXPECT_FALSE(again->read_on(part));
}

}  // namespace
}  // namespace sluice::ftx
