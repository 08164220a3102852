// SPDX-License-Identifier: Apache-2.0
// Where files go that another host sends on request: neither its paths nor its other names count.
#include "apps/ftx/jobs/fixed_destination.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace sluice::ftx {
namespace {

class NoFile final : public SinkFile {
 public:
  Status write(std::uint64_t, ConstBytes) override { return {}; }
  Status read(std::uint64_t, Bytes) override { return {}; }
  Status finalize() override { return {}; }
  Status commit() override { return {}; }
  std::string keep() override { return {}; }
};

/// Records what it is asked for.
struct Recorder final : Destination {
  struct RecordingSink final : Sink {
    explicit RecordingSink(Recorder& all) : recorder(all) {}
    Result<std::unique_ptr<SinkFile>> create(const FileEntry&) override { return std::make_unique<NoFile>(); }
    Status finish() override {
      ++recorder.finished;
      return {};
    }
    std::string path(const FileEntry& entry) const override { return "shown/" + entry.name; }
    Recorder& recorder;
  };
  Result<std::unique_ptr<Sink>> open(std::string_view path, std::span<const FileEntry> entries) override {
    paths.push_back(std::string(path) + " " + std::to_string(entries.size()));
    return std::make_unique<RecordingSink>(*this);
  }
  bool nothing_there(std::string_view path, const FileEntry& first) override {
    paths.push_back(std::string(path) + "?" + first.name);
    return true;
  }
  std::vector<std::string> paths;
  int finished = 0;
};

bool accepts(const Wanted& wanted, std::vector<FileEntry> entries) {
  Recorder below;
  FixedDestination fixed(below, "", wanted);
  const bool accepted = fixed.open("", entries).has_value();
  EXPECT_EQ(below.paths.size(), accepted ? 1U : 0U) << entries.front().name.view();
  return accepted;
}

bool accepts(std::vector<std::string> wanted, const std::string& name) {
  return accepts(Wanted{std::move(wanted)}, {{name}});
}

TEST(FixedDestination, ThePathThatTheSenderOffersCountsForNothing) {
  Recorder below;
  FixedDestination fixed(below, "mine", {});
  ASSERT_TRUE(fixed.open("theirs/x", std::vector<FileEntry>{{"a"}, {"b"}, {"c"}}));
  EXPECT_THAT(below.paths, testing::ElementsAre("mine 3"));
}

/// Threat: a far side that looks for what lies here by lists of what nobody asked it for.
TEST(FixedDestination, WhetherATreeIsThereIsSaidOfWhatWasAskedForAlone) {
  FileEntry tree{"tree"};
  tree.kind = EntryKind::directory;
  FileEntry other{"other"};
  other.kind = EntryKind::directory;
  Recorder below;
  FixedDestination fixed(below, "mine", {{"tree"}, Wanted::Are::names, Trees::without_links});
  EXPECT_TRUE(fixed.nothing_there("theirs", tree));
  EXPECT_FALSE(fixed.nothing_there("theirs", other));
  FixedDestination flat(below, "mine", {{"tree"}, Wanted::Are::names});
  EXPECT_FALSE(flat.nothing_there("theirs", tree)) << "nobody asked for directories";
  FixedDestination any(below, "mine", {});
  EXPECT_TRUE(any.nothing_there("theirs", other));
  EXPECT_THAT(below.paths, testing::ElementsAre("mine?tree", "mine?other"));
}

/// CVE-2019-6111: "the scp client only performs cursory validation of the object name returned".
TEST(FixedDestination, ANameThatNobodyAskedForIsRefused) {
  EXPECT_TRUE(accepts({"a.log"}, "a.log"));
  EXPECT_FALSE(accepts({"a.log"}, "b.log"));
  EXPECT_FALSE(accepts({"a.log"}, ".bashrc"));
  EXPECT_TRUE(accepts({"a.log", "*.txt"}, "b.txt"));
  EXPECT_FALSE(accepts({"*"}, ".bashrc"));
  EXPECT_TRUE(accepts({".b*"}, ".bashrc"));
  EXPECT_TRUE(accepts({"[x].log"}, "[x].log"));
  EXPECT_TRUE(accepts({"[x].log"}, "x.log"));
  EXPECT_FALSE(accepts({""}, "x"));
}

TEST(FixedDestination, AllNamesAreGoodWhereNoneIsAskedFor) { EXPECT_TRUE(accepts({}, ".bashrc")); }

TEST(FixedDestination, TheRestIsTheSinksBelow) {
  Recorder below;
  FixedDestination fixed(below, "", {{"a"}});
  const std::vector<FileEntry> entries{{"a"}};
  const auto sink = fixed.open("", entries).value();
  EXPECT_EQ(sink->path({.name = "a"}), "shown/a");
  EXPECT_TRUE(sink->finish());
  EXPECT_EQ(below.finished, 1);
}

/// Threat: a server that sends other files than were asked for by name, or fewer, and calls that a success.
TEST(FixedDestination, NamesAreNoPatternsAndAllOfThemMustCome) {
  const Wanted wanted{{"a*", "b"}, Wanted::Are::names};
  EXPECT_FALSE(accepts(wanted, {{"b"}}));
  EXPECT_FALSE(accepts(wanted, {{"a*"}, {"b"}, {"c"}}));
  EXPECT_FALSE(accepts(wanted, {{"aX"}, {"b"}}));
  EXPECT_TRUE(accepts(wanted, {{"a*"}, {"b"}}));
}

/// Threat: a far side that answers the request for a file with a directory or a link of that name.
TEST(FixedDestination, DirectoriesAndLinksComeWhereTheyAreAskedFor) {
  const FileEntry directory{.name = "a", .kind = EntryKind::directory};
  const FileEntry inside{.name = ".bashrc", .parent = 1};
  const FileEntry link{.name = "l", .kind = EntryKind::link, .parent = 1, .form = "/"};
  const FileEntry beside{.name = "b"};
  const auto a = [](Trees trees) { return Wanted{{"a"}, Wanted::Are::patterns, trees}; };
  EXPECT_FALSE(accepts(a(Trees::none), {directory}));
  EXPECT_TRUE(accepts(a(Trees::without_links), {directory, inside}));
  EXPECT_FALSE(accepts(a(Trees::without_links), {directory, inside, link}));
  EXPECT_TRUE(accepts(a(Trees::with_links), {directory, inside, link}));
  EXPECT_FALSE(accepts(a(Trees::with_links), {directory, inside, beside}));
  EXPECT_FALSE(accepts(a(Trees::with_links), {{.name = "l", .kind = EntryKind::link, .form = "/"}}));
}

TEST(FixedDestination, TheContentOfADirectoryMayHaveAnyNames) {
  const FileEntry top{.name = "", .kind = EntryKind::directory};
  for (const char* const path : {"", "/", "d/", ".", "d/..", "~"}) {
    const Wanted wanted = wanted_of({path}, Wanted::Are::names, Trees::without_links);
    EXPECT_TRUE(accepts(wanted, {top, {.name = ".b"}, {.name = "c"}})) << path;
  }
  EXPECT_FALSE(accepts(wanted_of({"d/"}, Wanted::Are::patterns), {{.name = "c"}}));
}

/// Threat: a far side that was asked for files and has others removed.
TEST(FixedDestination, WhoAskedForFilesAloneSaysWhatIsRemoved) {
  Recorder below;
  Wanted wanted{{"a"}};
  const auto deletion = [&](const std::optional<Deletion>& asked) {
    return FixedDestination(below, "", wanted).deletion(asked);
  };
  EXPECT_FALSE(deletion(std::nullopt).value());
  EXPECT_FALSE(deletion(Deletion{}));
  wanted.deletion = Deletion{.files_max = 3};
  EXPECT_EQ(deletion(std::nullopt).value(), wanted.deletion);
  EXPECT_FALSE(deletion(Deletion{}));
  wanted = {};
  EXPECT_FALSE(deletion(Deletion{})) << "the destination below says";
  EXPECT_FALSE(LinklessDestination(below).deletion(Deletion{}));
}

/// Threat (CVE-2022-29154 of rsync): a far side that sends what the rules exclude, or more than the list names.
TEST(FixedDestination, WhatIsExcludedOrNotNamedIsRefused) {
  const FileEntry other{.name = "b", .kind = EntryKind::hard_link, .original = 1};
  EXPECT_FALSE(accepts(Wanted{{"a", "b"}}, {{"a"}, other})) << "a hard link";
  EXPECT_TRUE(accepts(wanted_of({"a", "b"}, Wanted::Are::names, Trees::none, {.hard_links = true}), {{"a"}, other}));
  const FileEntry directory{.name = "d", .kind = EntryKind::directory};
  const FileEntry in_d{.name = "f.o", .parent = 1};
  Wanted wanted = wanted_of({"d"}, Wanted::Are::patterns, Trees::with_links, {.rules = {{.pattern = "*.o"}}});
  EXPECT_TRUE(accepts(wanted, {directory, {.name = "f", .parent = 1}}));
  EXPECT_FALSE(accepts(wanted, {directory, in_d}));
  wanted = wanted_of({"a", "b"}, Wanted::Are::names, Trees::with_links, {.rules = {{.pattern = "a"}}});
  EXPECT_TRUE(accepts(wanted, {{"b"}})) << "what is excluded does not come";
  EXPECT_FALSE(accepts(wanted, {{"a"}, {"b"}}));

  const auto named = [](std::vector<std::string> names, bool recursive = false) {
    return wanted_of({"src"}, Wanted::Are::names, Trees::with_links,
                     {.names = std::move(names), .recursive = recursive});
  };
  const FileEntry top{.name = "", .kind = EntryKind::directory};
  const std::vector<FileEntry> list{top, directory, {.name = "f", .parent = 2}};
  for (const char* const name : {"d/f", "d/", "d/f/"}) {
    EXPECT_TRUE(accepts(named({"x", name}), list)) << name;
  }
  for (const char* const name : {"d", "f", "", "d/g"}) {
    EXPECT_FALSE(accepts(named({"x", name}), list)) << name;
  }
  EXPECT_TRUE(accepts(named({"d"}, true), list));
  EXPECT_TRUE(accepts(named({""}, true), list));
  EXPECT_TRUE(accepts(named({""}), {top, directory}));
  EXPECT_FALSE(accepts(named({"x"}), {top, {"y"}}));
}

TEST(LinklessDestination, ALinkIsRefused) {
  Recorder below;
  LinklessDestination linkless(below);
  EXPECT_TRUE(linkless.open("", std::vector<FileEntry>{{.name = "a", .kind = EntryKind::directory}, {.name = "b"}}));
  const auto refused = linkless.open("", std::vector<FileEntry>{{.name = "a", .kind = EntryKind::directory},
                                                                {.name = "l", .kind = EntryKind::link, .parent = 1}});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().text, "refused the symbolic link 'a/l': this server takes none");
  EXPECT_EQ(below.paths.size(), 1U);
}

TEST(FixedDestination, WantedAreTheLastComponents) {
  EXPECT_THAT(wanted_of({"a", "~/b*", "/c/d/[e]", "f/"}, Wanted::Are::patterns).names,
              testing::ElementsAre("a", "b*", "[e]", ""));
}

}  // namespace
}  // namespace sluice::ftx
