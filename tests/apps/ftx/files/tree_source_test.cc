// SPDX-License-Identifier: Apache-2.0
// Trees that are sent: what is listed, what is left out, and what somebody swaps meanwhile.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <atomic>
#include <cerrno>
#include <thread>

#include "apps/ftx/files/served_files.h"
#include "apps/ftx/files/source.h"
#include "tests/apps/ftx/files/faulty_system.h"
#include "tests/apps/ftx/files/served_directory.h"
#include "tests/apps/ftx/files/trees.h"
#include "tests/file_text.h"

namespace sluice::ftx {
namespace {

namespace fs = std::filesystem;
using test::write_file;
using testing::ElementsAre;

class TreeSource : public ServedDirectory {
 protected:
  TreeSource() {
    fs::create_directories(root_ / "b/e");
    fs::create_directories(root_ / "a");
    write_file(root_ / "z", "zz");
    write_file(root_ / "b/f", std::string(packed_bytes_max, 'f'));
    write_file(root_ / "b/g", std::string(packed_bytes_max + 1, 'g'));
    fs::create_symlink("nowhere", root_ / "b/l");
  }

  using Opened = std::expected<std::unique_ptr<FileSource>, Failure>;
  static Opened open(const std::vector<std::string>& paths, Trees trees = Trees::with_links) {
    return FileSource::open(paths, {.trees = trees, .pack = true});
  }
  Opened below(const std::vector<std::string>& paths, Trees trees = Trees::with_links) {
    return ServedFiles::serve(root_).value().open(paths, {.trees = trees, .pack = true});
  }
  /// The paths of a list, with a mark for each kind.
  static std::vector<std::string> list(const Opened& source) {
    std::vector<std::string> paths;
    if (!source) {
      ADD_FAILURE() << source.error().text;
      return paths;
    }
    for (const FileEntry& entry : (*source)->files()) {
      const std::string marks = " /+.@=-";
      paths.push_back(path_of((*source)->files(), entry) + marks[static_cast<std::size_t>(entry.kind)]);
    }
    return paths;
  }
  static ExitCode code(const Opened& source) { return source ? ExitCode::ok : source.error().code; }
};

TEST_F(TreeSource, ADirectoryIsSentUnderItsName) {
  const auto source = open({root_.string()});
  EXPECT_THAT(list(source), ElementsAre("served/", "served/z.", "served/a/", "served/b/", "served/b/f.", "served/b/g+",
                                        "served/b/l@", "served/b/e/"));
  EXPECT_EQ((*source)->files()[6].link_target(), "nowhere");
  EXPECT_EQ((*source)->path(4), (root_ / "b/f").string());
  // What is sent is what a receiver accepts.
  const auto& entries = (*source)->files();
  EXPECT_TRUE(decode_manifest(encode_manifest(entries), entries.size(), 2 + 2 * packed_bytes_max + 1));
}

TEST_F(TreeSource, WithASlashOnlyItsContentIsSent) {
  const auto source = open({root_.string() + "/"});
  EXPECT_THAT(list(source), ElementsAre("/", "z.", "a/", "b/", "b/f.", "b/g+", "b/l@", "b/e/"));
  EXPECT_EQ((*source)->path(4), (root_ / "b/f").string());
  std::vector<std::byte> content(2);
  EXPECT_TRUE((*source)->read_whole(1, content));
  EXPECT_EQ(as_text(content), "zz");
  content.resize(packed_bytes_max);
  EXPECT_TRUE((*source)->read_whole(4, content));
  EXPECT_THAT(list(open({(root_ / "a").string(), (root_ / "b/").string()})), ElementsAre("a/", "f.", "g+", "l@", "e/"))
      << "the destination has the attributes of nothing";
  EXPECT_EQ(code(open({(root_ / "z").string(), root_.string() + "/"})), ExitCode::usage) << "z twice";
  EXPECT_THAT(list(open({(root_ / "a/.").string()})), ElementsAre("/"));
}

/// As rsync --files-from has it: with the directories around what is named, each once.
TEST_F(TreeSource, NamesOfASource) {
  const auto named = [&](std::vector<std::string> names, bool recursive = false, FilterRules rules = {}) {
    SourceOptions options{.trees = Trees::with_links, .pack = true};
    options.select = {.rules = std::move(rules), .names = std::move(names), .recursive = recursive};
    const std::vector<std::string> paths{root_.string()};
    return FileSource::open(paths, options);
  };
  write_file(root_ / "b/e/deep", "d");
  const auto source = named({"b/e/deep", "b/f", "z", "b/e/deep", "z"});
  EXPECT_THAT(list(source), ElementsAre("/", "b/", "b/e/", "b/e/deep.", "b/f.", "z."));
  std::vector<std::byte> content(1);
  EXPECT_TRUE((*source)->read_whole(3, content));
  EXPECT_EQ(as_text(content), "d");
  EXPECT_THAT(list(named({"b"})), ElementsAre("/", "b/"));
  EXPECT_THAT(list(named({"b/"})), ElementsAre("/", "b/", "b/f.", "b/g+", "b/l@", "b/e/"));
  EXPECT_THAT(list(named({""})), ElementsAre("/", "z.", "a/", "b/"));
  EXPECT_THAT(list(named({"b/f", "b/", "b"})), ElementsAre("/", "b/", "b/f.", "b/g+", "b/l@", "b/e/"));
  EXPECT_THAT(list(named({"b/e/", "b", "b/e"}, true)),
              ElementsAre("/", "b/", "b/e/", "b/e/deep.", "b/f.", "b/g+", "b/l@"));
  EXPECT_THAT(list(named({})), ElementsAre("/"));
  // Rules count for what is named, and not for the directories around it.
  EXPECT_THAT(list(named({"b/f", "z"}, false, {{.pattern = "b/"}, {.pattern = "z"}})), ElementsAre("/", "b/", "b/f."));
  EXPECT_THAT(list(named({"b/f"}, false, {{.pattern = "f"}})), ElementsAre("/"));
  // Nothing leads out, and no link is followed.
  fs::create_directory_symlink(base_, root_ / "out");
  for (const char* const name : {"absent", "out/served", "out/", "z/", "z/x"}) {
    EXPECT_EQ(code(named({name})), ExitCode::source_unreadable) << name;
  }
  EXPECT_THAT(list(named({"out"})), ElementsAre("/", "out@"));
  const std::vector<std::string> two{root_.string(), root_.string()};
  EXPECT_EQ(code(FileSource::open(two, {.trees = Trees::with_links, .select = {.names = {{"z"}}}})), ExitCode::usage);
}

TEST_F(TreeSource, HardLinksAndWhatIsLeftOutAreListedWhereThatIsAskedFor) {
  const auto selecting = [&](Selection select) {
    const std::vector<std::string> paths{(root_ / "b").string(), (root_ / "z").string()};
    return FileSource::open(paths, {.trees = Trees::without_links, .pack = true, .select = std::move(select)});
  };
  fs::create_hard_link(root_ / "b/f", root_ / "b/e/same");
  fs::create_hard_link(root_ / "z", root_ / "b/also");
  EXPECT_THAT(list(selecting({})), ElementsAre("b/", "b/also.", "b/f.", "b/g+", "b/e/", "b/e/same.", "z."));
  const auto source = selecting({.hard_links = true, .left_out = true});
  EXPECT_THAT(list(source), ElementsAre("b/", "b/also.", "b/f.", "b/g+", "b/l-", "b/e/", "b/e/same=", "z="));
  const auto& entries = (*source)->files();
  EXPECT_EQ(entries[6].original, 3U);
  EXPECT_EQ(entries[7].original, 2U);
  EXPECT_TRUE(decode_manifest(encode_manifest(entries), entries.size(), 2 + 2 * packed_bytes_max + 1));
}

TEST_F(TreeSource, WhatRulesExcludeIsNotLookedAt) {
  const auto excluding = [&](std::vector<std::string> paths, FilterRules rules) {
    return FileSource::open(paths, {.trees = Trees::with_links, .pack = true, .select = {.rules = std::move(rules)}});
  };
  write_file(root_ / "a/bad\nname", "x");
  EXPECT_EQ(code(excluding({root_.string()}, {})), ExitCode::source_unreadable);
  EXPECT_THAT(list(excluding({root_.string()}, {{.pattern = "/served/a/"}, {.pattern = "g"}})),
              ElementsAre("served/", "served/z.", "served/b/", "served/b/f.", "served/b/l@", "served/b/e/"));
  EXPECT_THAT(list(excluding({root_.string() + "/"}, {{.pattern = "/a"}, {.pattern = "b"}})), ElementsAre("/", "z."));
  // Operands are excluded, too.
  const auto nothing = excluding({root_.string(), (root_ / "z").string()}, {{.pattern = "/served"}, {.pattern = "z"}});
  ASSERT_FALSE(nothing);
  EXPECT_THAT(nothing.error().text, testing::HasSubstr("exclude"));
}

TEST_F(TreeSource, DirectoriesNeedToBeAskedFor) {
  const auto source = open({root_.string()}, Trees::none);
  ASSERT_FALSE(source);
  EXPECT_EQ(source.error().code, ExitCode::source_unreadable);
  EXPECT_THAT(source.error().text, testing::HasSubstr("-r"));
  EXPECT_EQ(code(below({"b"}, Trees::none)), ExitCode::source_unreadable);
  EXPECT_EQ(code(below({"/"}, Trees::none)), ExitCode::refused);
}

TEST_F(TreeSource, LinksAndWhatIsNoFileAreLeftOutAndCounted) {
  ::mkfifo((root_ / "b/fifo").c_str(), 0600);
  const auto source = open({(root_ / "b").string()}, Trees::without_links);
  EXPECT_THAT(list(source), ElementsAre("b/", "b/f.", "b/g+", "b/e/"));
  EXPECT_EQ((*source)->left_out().links, 1U);
  EXPECT_EQ((*source)->left_out().others, 1U);
  // One that is named is followed, but sent as a link where links are.
  fs::create_symlink(root_ / "z", root_ / "to_z");
  EXPECT_THAT(list(open({(root_ / "to_z").string()}, Trees::without_links)), ElementsAre("to_z."));
  EXPECT_THAT(list(open({(root_ / "to_z").string()})), ElementsAre("to_z@"));
}

TEST_F(TreeSource, TreesOfAServedDirectory) {
  EXPECT_THAT(list(below({"/"})), ElementsAre("/", "z.", "a/", "b/", "b/f.", "b/g+", "b/l@", "b/e/"));
  EXPECT_THAT(list(below({"b/"})), ElementsAre("/", "f.", "g+", "l@", "e/"));
  const auto source = below({"b", "z"}, Trees::without_links);
  EXPECT_THAT(list(source), ElementsAre("b/", "b/f.", "b/g+", "b/e/", "z."));
  std::vector<std::byte> content(packed_bytes_max);
  EXPECT_TRUE((*source)->read_whole(1, content));
  fs::create_directory_symlink(base_, root_ / "out");
  for (const char* const path : {"out", "out/", "out/outside", "..", "b/..", "//", ""}) {
    EXPECT_NE(code(below({path})), ExitCode::ok) << path;
  }
}

TEST_F(TreeSource, AFileOfATreeThatChangesIsNoticed) {
  const auto source = open({(root_ / "b").string()});
  std::vector<std::byte> content(packed_bytes_max);
  EXPECT_TRUE((*source)->read_whole(1, content));
  fs::resize_file(root_ / "b/f", 5);
  EXPECT_EQ((*source)->read_whole(1, content).error().code, ESTALE);
  fs::remove(root_ / "b/f");
  EXPECT_EQ((*source)->read_whole(1, content).error().code, ENOENT);
  EXPECT_EQ(code(open({(root_ / "absent").string()})), ExitCode::source_unreadable);
}

TEST_F(TreeSource, DigestsOfAllFilesAreReadInTurnsWhereTheyAreAskedFor) {
  const auto with = [&](bool digests) {
    return FileSource::open(std::vector{(root_ / "b").string()},
                            {.trees = Trees::with_links, .pack = true, .select = {.digests = digests}});
  };
  EXPECT_TRUE((*with(false))->digest_some(0).value());
  const auto source = with(true);
  int turns = 1;
  while (!(*source)->digest_some(10'000).value()) {
    ASSERT_LT(++turns, 1000);
  }
  EXPECT_GE(turns, 14) << "of 131073 bytes";
  for (std::uint32_t i = 0; i < (*source)->files().size(); ++i) {
    const FileEntry& entry = (*source)->files()[i];
    ASSERT_EQ(entry.digest.has_value(), entry.regular()) << entry.name.view();
    if (entry.regular()) {
      EXPECT_EQ(*entry.digest, file_digest_of(as_bytes(file_text(root_ / "b" / entry.name.view()))))
          << entry.name.view();
    }
  }
  const auto& entries = (*source)->files();
  EXPECT_TRUE(decode_manifest(encode_manifest(entries), entries.size(), 2 * packed_bytes_max + 1));
  const auto changed = with(true);
  EXPECT_FALSE((*changed)->digest_some(1).value());
  write_file(root_ / "b/f", std::string(packed_bytes_max, 'F'));
  const auto failed = (*changed)->digest_some(1 << 20);
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code, ExitCode::source_changed);
  EXPECT_NE(failed.error().text.find("b/f"), std::string::npos) << failed.error().text;
  const auto gone = with(true);
  fs::remove(root_ / "b/g");
  EXPECT_EQ((*gone)->digest_some(1 << 20).error().code, ExitCode::source_unreadable);
}

TEST_F(TreeSource, DeepTreesAndNamesThatCannotBeSentAreSaid) {
  fs::path deep = base_ / "deep";
  for (std::size_t i = 0; i < tree_depth_max; ++i) {
    deep /= "d";
  }
  fs::create_directories(deep);
  const auto source = open({(base_ / "deep").string()});
  ASSERT_TRUE(source) << source.error().text;
  EXPECT_TRUE(decode_manifest(encode_manifest((*source)->files()), tree_depth_max + 1, 0));
  fs::create_directory(deep / "d");
  EXPECT_EQ(code(open({(base_ / "deep").string()})), ExitCode::source_unreadable);
  write_file(root_ / "a/bad\nname", "x");
  EXPECT_EQ(code(open({root_.string()})), ExitCode::source_unreadable);
}

/// Threat: somebody who may write in the tree swaps a directory of it for a link to one that only the sender may read.
TEST_F(TreeSource, ADirectorySwappedForALinkLeadsNowhere) {
  fs::create_directory(base_ / "secret");
  write_file(base_ / "secret/f", std::string(packed_bytes_max, 's'));
  const auto source = open({root_.string()});
  fs::rename(root_ / "b", root_ / "moved");
  fs::create_directory_symlink(base_ / "secret", root_ / "b");
  std::vector<std::byte> content(packed_bytes_max);
  EXPECT_FALSE((*source)->read_whole(4, content));
  // And a file swapped for a link.
  fs::remove(root_ / "b");
  fs::rename(root_ / "moved", root_ / "b");
  fs::remove(root_ / "b/f");
  fs::create_symlink(base_ / "secret/f", root_ / "b/f");
  EXPECT_EQ((*source)->read_whole(4, content).error().code, ELOOP);
}

TEST_F(TreeSource, ARaceOfSwapsListsNothingOutside) {
  fs::create_directory(base_ / "secret");
  write_file(base_ / "secret/s", "secret");
  std::atomic<bool> over = false;
  std::thread swapper([&] {
    while (!over) {
      std::error_code ignored;
      fs::rename(root_ / "b", base_ / "moved", ignored);
      fs::create_directory_symlink(base_ / "secret", root_ / "b", ignored);
      fs::remove(root_ / "b", ignored);
      fs::rename(base_ / "moved", root_ / "b", ignored);
    }
  });
  Race race(2000);
  while (race.next()) {
    const auto source = open({root_.string()});
    if (source) {
      EXPECT_THAT(list(source), testing::Not(testing::Contains("served/b/s.")));
    }
  }
  over = true;
  swapper.join();
}

TEST_F(TreeSource, ACallThatFailsIsSaid) {
  std::size_t failing = 1;
  for (bool failed = true; failed; ++failing) {
    FaultySystem system;
    failed = false;
    std::string call_name;
    system.fault = [&](std::size_t number, const FaultySystem::Call& call) {
      if (number != failing) {
        return FaultySystem::Fault{};
      }
      failed = true;
      call_name = call.name;
      return FaultySystem::Fault{.error = EIO};
    };
    const ReplaceSystem replaced(system);
    const auto source = open({root_.string()});
    if (failed && call_name != "close" && !(call_name == "fstatat" && failing == 1)) {  // the look at the operand
      EXPECT_EQ(code(source), ExitCode::source_unreadable) << failing << " " << call_name;
    }
  }
  EXPECT_GT(failing, 20U);
}

}  // namespace
}  // namespace sluice::ftx
