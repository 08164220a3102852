// SPDX-License-Identifier: Apache-2.0
// Where files go that another host sends on request: neither its paths nor its other names count.
#include "apps/ftx/cli/fixed_destination.h"

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
    Result<std::unique_ptr<SinkFile>> create(const FileEntry& entry) override {
      recorder.created.push_back(entry.name);
      return std::make_unique<NoFile>();
    }
    Status flush() override {
      ++recorder.flushed;
      return {};
    }
    std::string path(const FileEntry& entry) const override { return "shown/" + entry.name; }
    Recorder& recorder;
  };
  Result<std::unique_ptr<Sink>> open(std::string_view path, std::size_t files) override {
    paths.push_back(std::string(path) + " " + std::to_string(files));
    return std::make_unique<RecordingSink>(*this);
  }
  std::vector<std::string> paths;
  std::vector<std::string> created;
  int flushed = 0;
};

bool accepts(std::vector<std::string> wanted, const std::string& name) {
  Recorder below;
  FixedDestination fixed(below, "", {std::move(wanted)});
  const auto sink = fixed.open("", 1).value();
  const bool accepted = sink->create({.name = name}).has_value();
  EXPECT_EQ(below.created.size(), accepted ? 1U : 0U) << name;
  return accepted;
}

TEST(FixedDestination, ThePathThatTheSenderOffersCountsForNothing) {
  Recorder below;
  FixedDestination fixed(below, "mine", {});
  ASSERT_TRUE(fixed.open("theirs/x", 3));
  EXPECT_THAT(below.paths, testing::ElementsAre("mine 3"));
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
  const auto sink = fixed.open("", 1).value();
  EXPECT_EQ(sink->path({.name = "a"}), "shown/a");
  EXPECT_TRUE(sink->flush());
  EXPECT_EQ(below.flushed, 1);
}

/// Threat: a server that sends other files than were asked for by name, or fewer, and calls that a success.
TEST(FixedDestination, NamesAreNoPatternsAndAllOfThemMustCome) {
  Recorder below;
  FixedDestination fixed(below, "", {{"a*", "b"}, Wanted::Are::names});
  EXPECT_FALSE(fixed.open("", 1));
  EXPECT_FALSE(fixed.open("", 3));
  EXPECT_TRUE(below.paths.empty());
  const auto sink = fixed.open("", 2).value();
  EXPECT_TRUE(sink->create({.name = "a*"}).has_value());
  EXPECT_TRUE(sink->create({.name = "b"}).has_value());
  EXPECT_FALSE(sink->create({.name = "aX"}).has_value());
  EXPECT_THAT(below.created, testing::ElementsAre("a*", "b"));
}

TEST(FixedDestination, WantedAreTheLastComponents) {
  EXPECT_THAT(wanted_of({"a", "~/b*", "/c/d/[e]", "f/"}, Wanted::Are::patterns).names,
              testing::ElementsAre("a", "b*", "[e]", ""));
}

}  // namespace
}  // namespace sluice::ftx
