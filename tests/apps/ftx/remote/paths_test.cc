// SPDX-License-Identifier: Apache-2.0
// Paths of a start: what the far side makes of them.
#include "apps/ftx/remote/paths.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace sluice::ftx {
namespace {

/// A home directory with some files.
class Paths : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "ftx_paths_XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    home_ = name;
    std::filesystem::create_directories(home_ + "/dir");
    std::filesystem::create_directory_symlink("dir", home_ + "/link");
    for (const char* file : {"a.log", "b.log", "[x].log", "dir/c", ".hidden.log"}) {
      std::ofstream(home_ + "/" + file) << file;
    }
  }
  void TearDown() override { std::filesystem::remove_all(home_); }

  std::expected<std::vector<std::string>, Failure> expand_one(const std::string& pattern) {
    return expand(std::vector{pattern}, home_);
  }
  std::string home_;
};

TEST_F(Paths, AreRelativeToHome) {
  EXPECT_EQ(from_home("x/y", "/home/me").value(), "/home/me/x/y");
  EXPECT_EQ(from_home("~/x", "/home/me").value(), "/home/me/x");
  EXPECT_EQ(from_home("", "/home/me").value(), "/home/me");
  EXPECT_EQ(from_home("~", "/home/me").value(), "/home/me");
  EXPECT_EQ(from_home("~/", "/home/me").value(), "/home/me");
  EXPECT_EQ(from_home("/x", "/home/me").value(), "/x");
  EXPECT_EQ(from_home("./~x", "/home/me").value(), "/home/me/./~x");
  EXPECT_EQ(from_home("~other/x", "/home/me").error().code, ExitCode::usage);
}

TEST_F(Paths, AnExistingDirectoryIsEntered) {
  EXPECT_EQ(place_of(home_ + "/dir").value(), (Place{home_ + "/dir", ""}));
  EXPECT_EQ(place_of(home_ + "/dir/").value(), (Place{home_ + "/dir/", ""}));
  EXPECT_EQ(place_of(home_ + "/link").value(), (Place{home_ + "/link", ""}));
  EXPECT_EQ(place_of("/").value(), (Place{"/", ""}));
}

TEST_F(Paths, WhatIsNoDirectoryIsANewName) {
  EXPECT_EQ(place_of(home_ + "/new name").value(), (Place{home_, "new name"}));
  EXPECT_EQ(place_of(home_ + "/a.log").value(), (Place{home_, "a.log"}));
  EXPECT_EQ(place_of("/ftx-nothing").value(), (Place{"/", "ftx-nothing"}));
  EXPECT_EQ(place_of("ftx-nothing").value(), (Place{".", "ftx-nothing"}));
}

TEST_F(Paths, ADirectoryThatIsMissingIsSaid) {
  EXPECT_EQ(place_of(home_ + "/new/").error().code, ExitCode::no_such_path);
  EXPECT_EQ(place_of(home_ + "/new/x").error().code, ExitCode::no_such_path);
  EXPECT_EQ(place_of(home_ + "/a.log/x").error().code, ExitCode::no_such_path);
  EXPECT_EQ(place_of("").error().code, ExitCode::no_such_path);
  EXPECT_EQ(place_of(home_ + "/a\nb").error().code, ExitCode::usage);
}

TEST_F(Paths, PatternsNameFilesAsGlobDoes) {
  const std::vector<std::string> both{home_ + "/[x].log", home_ + "/a.log", home_ + "/b.log"};
  EXPECT_EQ(expand_one("*.log").value(), both);
  EXPECT_EQ(expand_one("~/[ab].log").value(), std::vector(both.begin() + 1, both.end()));
  EXPECT_EQ(expand_one("dir/?").value(), std::vector{home_ + "/dir/c"});
}

TEST_F(Paths, AFileOfJustThisNameIsNoPattern) {
  EXPECT_EQ(expand_one("[x].log").value(), std::vector{home_ + "/[x].log"});
}

TEST_F(Paths, APatternWithoutAFileIsSaid) {
  for (const char* pattern : {"nothing", "*.txt", "nothing/*", "a.log/x"}) {
    const auto files = expand_one(pattern);
    ASSERT_FALSE(files) << pattern;
    EXPECT_EQ(files.error().code, ExitCode::no_such_path);
    EXPECT_NE(files.error().text.find(pattern), std::string::npos);
  }
  const std::vector<std::string> second{"a.log", "nothing"};
  EXPECT_FALSE(expand(second, home_));
}

TEST_F(Paths, TextThatIsShownHasNoControlCharacters) {
  const auto files = expand_one("a\x1b[31m");
  ASSERT_FALSE(files);
  EXPECT_EQ(files.error().text.find('\x1b'), std::string::npos);
}

}  // namespace
}  // namespace sluice::ftx
