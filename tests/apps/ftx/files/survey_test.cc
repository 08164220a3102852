// SPDX-License-Identifier: Apache-2.0
// What a transfer would change of a directory, which stays as it is.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <functional>

#include "apps/ftx/files/digest.h"
#include "apps/ftx/files/directory.h"
#include "apps/ftx/files/directory_survey.h"
#include "apps/ftx/files/system.h"
#include "tests/apps/ftx/files/served_directory.h"
#include "tests/apps/ftx/files/trees.h"

namespace sluice::ftx {
namespace {

namespace fs = std::filesystem;
using test::write_file;
using Kind = Change::Kind;

constexpr std::int64_t when = 1'600'000'000;

FileEntry entry(std::string name, EntryKind kind, std::uint32_t parent = 0) {
  return {.name = std::move(name), .mtime_s = when, .mode = 0640, .kind = kind, .parent = parent};
}
FileEntry surveyed_file(std::string name, std::uint32_t parent = 0) {
  FileEntry made = entry(std::move(name), EntryKind::packed, parent);
  made.size_bytes = 1;
  made.digest = file_digest_of(as_bytes("x"));
  return made;
}

/// All of a tree that could be changed, also of what no Tree has.
std::map<std::string, std::array<std::int64_t, 5>> inodes_of(const fs::path& top) {
  std::map<std::string, std::array<std::int64_t, 5>> found;
  for (const fs::directory_entry& one : fs::recursive_directory_iterator(top)) {
    struct stat status{};
    EXPECT_EQ(::lstat(one.path().c_str(), &status), 0);
    found[one.path()] = {static_cast<std::int64_t>(status.st_ino), static_cast<std::int64_t>(status.st_nlink),
                         status.st_ctim.tv_sec, status.st_ctim.tv_nsec, status.st_size};
  }
  return found;
}

class SurveyOf : public ServedDirectory {
 protected:
  SurveyOf() { destination_ = std::move(DirectoryDestination::serve(root_.string(), 1).value()); }
  ~SurveyOf() override { test::remove_tree(root_); }

  /// As `wanted` says, but for what `but` changes of that.
  void put(const FileEntry& wanted, std::string_view content = "x", const std::function<void(FileEntry&)>& but = {}) {
    FileEntry there = wanted;
    if (but) {
      but(there);
    }
    const fs::path path = root_ / there.name.view();
    if (there.kind == EntryKind::directory) {
      fs::create_directory(path);
    } else if (there.kind == EntryKind::link) {
      fs::create_symlink(there.link_target(), path);
    } else {
      write_file(path, std::string(content));
    }
    if (there.kind != EntryKind::link) {
      ASSERT_EQ(::chmod(path.c_str(), there.mode), 0);
    }
    const timespec time{there.mtime_s, static_cast<long>(there.mtime_ns)};
    const timespec times[2] = {time, time};
    ASSERT_EQ(::utimensat(AT_FDCWD, path.c_str(), times, AT_SYMLINK_NOFOLLOW), 0);
  }

  Result<std::vector<Change>> survey(const std::vector<FileEntry>& entries, const Update& update = {},
                                     const std::optional<Deletion>& deletion = {}, std::string_view path = "",
                                     std::size_t at_once = 1000) {
    const auto tree = test::tree_of(root_);
    const auto inodes = inodes_of(root_);
    std::vector<Change> all;
    auto made = destination_->survey(path, entries, update, deletion);
    if (!made) {
      return std::unexpected(made.error());
    }
    for (;;) {
      std::vector<Change> some;
      const auto done = (*made)->look(at_once, some);
      if (!done) {
        return std::unexpected(done.error());
      }
      EXPECT_LE(some.size(), at_once);
      all.insert(all.end(), some.begin(), some.end());
      if (*done) {
        break;
      }
    }
    EXPECT_EQ(test::difference(tree, test::tree_of(root_)), "");
    EXPECT_EQ(inodes, inodes_of(root_));
    return all;
  }
  /// Of one entry; null: it stays as it is.
  std::optional<Change> one(const FileEntry& wanted, const Update& update = {}) {
    const auto changes = survey({wanted}, update);
    EXPECT_TRUE(changes && changes->size() < 2) << (changes ? "" : changes.error().text);
    return changes && !changes->empty() ? std::optional(changes->front()) : std::nullopt;
  }

  std::unique_ptr<DirectoryDestination> destination_;
};

Change change(Kind kind, unsigned differences, std::uint32_t of = 1) {
  return {.kind = kind, .differences = static_cast<std::uint8_t>(differences), .entry = of};
}

class CountsReads final : public System {
 public:
  int reads = 0;
  ssize_t pread(int descriptor, void* out, std::size_t size, off_t offset) override {
    ++reads;
    return System::pread(descriptor, out, size, offset);
  }
};

/// --itemize-changes and --checksum: each file is read once, and again where somebody has written to it since.
TEST_F(SurveyOf, WhatItHasReadTheSinkBelievesUntilItChanges) {
  const Update by_digest{.compare = Update::Compare::digest, .told = true};
  const std::vector<FileEntry> entries{surveyed_file("same"), surveyed_file("differs"), surveyed_file("spoilt"),
                                       surveyed_file("mended"), surveyed_file("absent")};
  for (const char* const content : {"x", "y", "x", "y"}) {
    put(entries[static_cast<std::size_t>(std::ranges::distance(fs::directory_iterator(root_)))], content);
  }
  CountsReads counts;
  const ReplaceSystem replaced(counts);
  const auto survey = destination_->survey("", entries, by_digest, {}).value();
  std::vector<Change> changes;
  ASSERT_TRUE(survey->look(100, changes).value());
  EXPECT_EQ(changes.size(), 3U);
  EXPECT_EQ(std::exchange(counts.reads, 0), 4);
  const ComparedContents compared = survey->compared();
  write_file(root_ / "spoilt", "y");
  write_file(root_ / "mended", "x");
  const auto present = [&](ComparedContents believed) {
    const auto sink = destination_->open("", entries).value();
    sink->follow(by_digest);
    sink->believe(std::move(believed));
    std::vector<bool> all;
    for (const FileEntry& one : entries) {
      std::uint64_t bytes = digest_turn_bytes;
      EXPECT_TRUE(sink->examine(one, bytes));
      all.push_back(sink->present(one));
    }
    return all;
  };
  const std::vector<bool> as_it_is{true, false, false, true, false};
  EXPECT_EQ(present(compared), as_it_is);
  EXPECT_EQ(std::exchange(counts.reads, 0), 2) << "the two that changed";
  EXPECT_EQ(present({}), as_it_is);
  EXPECT_EQ(counts.reads, 4);
}

TEST_F(SurveyOf, EachKindOfEntryThatIsNotThere) {
  FileEntry link = entry("l", EntryKind::link);
  link.form = "t";
  EXPECT_EQ(one(surveyed_file("f")), change(Kind::content, Change::is_new));
  EXPECT_EQ(one(entry("d", EntryKind::directory)), change(Kind::made, Change::is_new));
  EXPECT_EQ(one(link), change(Kind::made, Change::is_new));
  EXPECT_EQ(one(entry("x", EntryKind::left_out)), std::nullopt);
  for (const FileEntry& wanted : {surveyed_file("f"), entry("d", EntryKind::directory), link}) {
    EXPECT_EQ(one(wanted, {.existing = true}), std::nullopt);
  }
}

TEST_F(SurveyOf, EachWayInWhichAFileDiffers) {
  const auto later = [](FileEntry& there) { there.mtime_s += 5; };
  const auto other_mode = [](FileEntry& there) { there.mode = 0600; };
  const Update by_digest{.compare = Update::Compare::digest};
  const struct {
    std::string_view content;
    std::function<void(FileEntry&)> but;
    Update update;
    std::optional<Change> said;
  } rows[] = {
      {"x", {}, {}, std::nullopt},
      {"x", {}, {.compare = Update::Compare::nothing}, change(Kind::content, 0)},
      {"xx", {}, {}, change(Kind::content, Change::size)},
      {"x", later, {}, change(Kind::content, Change::time)},
      {"x", later, {.newer = true}, std::nullopt},
      {"x", later, {.ignore_existing = true}, std::nullopt},
      {"x", later, {.compare = Update::Compare::size}, change(Kind::attributes, Change::time)},
      {"x", later, by_digest, change(Kind::attributes, Change::time)},
      {"x", other_mode, {}, change(Kind::attributes, Change::mode)},
      {"y", {}, by_digest, change(Kind::content, Change::content)},
      {"yy", other_mode, by_digest, change(Kind::content, Change::content | Change::size | Change::mode)},
  };
  for (const auto& row : rows) {
    put(surveyed_file("f"), row.content, row.but);
    EXPECT_EQ(one(surveyed_file("f"), row.update), row.said) << row.content;
    fs::remove(root_ / "f");
  }
}

TEST_F(SurveyOf, EachWayInWhichALinkOrADirectoryDiffers) {
  FileEntry link = entry("l", EntryKind::link);
  link.form = "t";
  put(link);
  EXPECT_EQ(one(link), std::nullopt);
  link.mtime_s += 1;
  EXPECT_EQ(one(link), change(Kind::attributes, Change::time));
  link.form = "u";
  EXPECT_EQ(one(link), change(Kind::made, Change::content | Change::time));
  link.mtime_s -= 1;
  EXPECT_EQ(one(link), change(Kind::made, Change::content));
  EXPECT_EQ(one(link, {.ignore_existing = true}), std::nullopt);
  EXPECT_EQ(one(surveyed_file("l")), change(Kind::content, Change::is_new)) << "it is no file";
  FileEntry directory = entry("d", EntryKind::directory);
  directory.mode = 0750;
  put(directory);
  EXPECT_EQ(one(directory), std::nullopt);
  directory.mode = 0700;
  directory.mtime_s += 1;
  EXPECT_EQ(one(directory), change(Kind::attributes, Change::time | Change::mode));
}

TEST_F(SurveyOf, OneFileUnderSeveralNames) {
  FileEntry other = entry("g", EntryKind::hard_link);
  other.original = 1;
  const std::vector<FileEntry> both{surveyed_file("f"), other};
  const auto linked = [](unsigned differences, std::uint32_t entry, std::uint32_t to) {
    Change made = change(Kind::linked, differences, entry);
    made.other = to;
    return made;
  };
  using All = std::vector<Change>;
  EXPECT_EQ(survey(both).value(), (All{change(Kind::content, Change::is_new), linked(Change::is_new, 2, 1)}));
  put(surveyed_file("g"));
  EXPECT_EQ(survey(both).value(), (All{linked(Change::is_new, 1, 2)})) << "the name that is there has the content";
  put(surveyed_file("f"));
  EXPECT_EQ(survey(both).value(), (All{linked(0, 2, 1)})) << "they are not one file";
  fs::remove(root_ / "g");
  fs::create_hard_link(root_ / "f", root_ / "g");
  EXPECT_EQ(survey(both).value(), All{});
  EXPECT_EQ(survey(both, {.compare = Update::Compare::nothing}).value(),
            (All{change(Kind::content, 0), linked(0, 2, 1)}));
  EXPECT_EQ(survey(both, {.ignore_existing = true}).value(), All{});
  fs::remove(root_ / "f");
  put(surveyed_file("f"), "x", [](FileEntry& there) { there.mtime_s -= 1; });
  fs::remove(root_ / "g");
  fs::create_hard_link(root_ / "f", root_ / "g");
  EXPECT_EQ(survey(both, {.compare = Update::Compare::size}).value(),
            (All{change(Kind::attributes, Change::time), change(Kind::attributes, Change::time, 2)}));
}

TEST_F(SurveyOf, WhatCannotBeDoneFails) {
  fs::create_directory(root_ / "d");
  write_file(root_ / "f", "x");
  FileEntry link = entry("d", EntryKind::link);
  link.form = "t";
  EXPECT_EQ(survey({surveyed_file("d")}).error().code, EISDIR);
  EXPECT_EQ(survey({link}).error().code, EISDIR);
  EXPECT_EQ(survey({entry("f", EntryKind::directory)}).error().code, ENOTDIR);
  fs::create_symlink("/", root_ / "l");
  EXPECT_EQ(survey({entry("l", EntryKind::directory)}).error().code, ENOTDIR);
  EXPECT_FALSE(survey({surveyed_file("x")}, {}, {}, "l/"));
}

TEST_F(SurveyOf, ADirectoryThatWouldBeMadeForTheContentOfOneIsNot) {
  const std::vector<FileEntry> content{entry("", EntryKind::directory), surveyed_file("f")};
  const auto said = survey(content, {}, Deletion{}, "new");
  ASSERT_TRUE(said) << said.error().text;
  EXPECT_EQ(*said, (std::vector<Change>{change(Kind::made, Change::is_new), change(Kind::content, Change::is_new, 2)}));
  EXPECT_FALSE(fs::exists(root_ / "new"));
}

/// However few are asked for at once, and however little of them is kept.
TEST_F(SurveyOf, WhatWouldBeRemovedIsSaidOnceEach) {
  fs::create_directories(root_ / "d/gone/deep");
  const std::string long_name(200, 'n');
  constexpr int files = 6000;
  static_assert(files * 200 > DirectorySurvey::removed_bytes_max);
  for (int i = 0; i < files; ++i) {
    write_file(root_ / "d/gone" / (long_name + std::to_string(i)), "");
  }
  write_file(root_ / "d/kept", "x");
  FileEntry directory = entry("d", EntryKind::directory);
  const std::vector<FileEntry> list{directory, surveyed_file("kept", 1)};
  std::map<std::string, int> removed;
  const auto said = survey(list, {}, Deletion{}, "", 700);
  ASSERT_TRUE(said) << said.error().text;
  for (const Change& one : *said) {
    removed[one.path] += one.kind == Kind::removed ? 1 : 0;
  }
  removed.erase("");
  EXPECT_EQ(removed.size(), files + 2U);
  EXPECT_TRUE(removed.contains("d/gone/") && removed.contains("d/gone/deep/") && !removed.contains("d/kept"));
  EXPECT_TRUE(std::ranges::all_of(removed, [](const auto& one) { return one.second == 1; }));
  EXPECT_EQ(survey(list, {}, Deletion{.files_max = 10}).error().code, ECANCELED);
  EXPECT_EQ(survey({directory}, {}, Deletion{}).error().code, ECANCELED) << "its source is empty";
}

}  // namespace
}  // namespace sluice::ftx
