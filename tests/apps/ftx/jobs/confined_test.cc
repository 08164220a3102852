// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/jobs/confined.h"

#include <gtest/gtest.h>
#include <linux/landlock.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>

#include "tests/apps/ftx/security/confined_process.h"
#include "tests/apps/ftx/security/scratch.h"

namespace sluice::ftx {
namespace {

using test::Attempt;
using test::opened;
using test::Scratch;

using Paths = std::vector<std::string>;

TEST(Confined, ASenderReadsItsSources) {
  EXPECT_EQ(rights_to_send(Paths{"a", "/b/c", "d/"}), (FileRights{.read = {"a", "/b/c", "d/"}, .write = {}}));
}

TEST(Confined, OfManySourcesTheDirectoriesAreNamed) {
  Paths sources{"here", "/root", "/", "/a/directory/"};
  for (std::size_t i = 0; sources.size() <= single_sources_max; ++i) {
    sources.push_back("many/" + std::to_string(i));
  }
  EXPECT_EQ(rights_to_send(sources), (FileRights{.read = {".", "/", "/a", "many"}, .write = {}}));
}

TEST(Confined, WhoReceivesWritesBelowOneDirectory) {
  EXPECT_EQ(rights_to_receive("there"), (FileRights{.read = {}, .write = {"there"}}));
}

TEST(Confined, AServerThatOnlySendsWritesNothing) {
  EXPECT_EQ(rights_to_serve("all", Access::read, ""), (FileRights{.read = {"all"}, .write = {}}));
  EXPECT_EQ(rights_to_serve("all", Access::both, ""), (FileRights{.read = {}, .write = {"all"}}));
  EXPECT_EQ(rights_to_serve("all", Access::write, ""), (FileRights{.read = {}, .write = {"all"}}));
}

TEST(Confined, AFileThatIsReplacedLiesInADirectory) {
  EXPECT_EQ(and_to_replace({.read = {"a"}, .write = {}}, "/home/me/known_hosts"),
            (FileRights{.read = {"a"}, .write = {"/home/me"}}));
}

TEST(Confined, AServerReadsItsListWhenAnEditorHasReplacedItAndBehindALink) {
  if (::syscall(__NR_landlock_create_ruleset, nullptr, 0, LANDLOCK_CREATE_RULESET_VERSION) < 2) {
    GTEST_SKIP() << "this kernel has no Landlock of Linux 5.19";
  }
  const Scratch scratch;
  for (const char* directory : {"served", "config", "dotfiles"}) {
    std::filesystem::create_directory(scratch / directory);
  }
  scratch.write("dotfiles/keys", "", 0600);
  scratch.write("served/file", "", 0600);
  scratch.write("secret", "", 0600);
  std::filesystem::create_symlink(scratch / "dotfiles/keys", scratch / "config/keys");
  const auto confine = [&] {
    return restrict_files(rights_to_serve(scratch / "served", Access::both, scratch / "config/keys"));
  };
  const auto replace = [&scratch](const char* by, const char* what) {
    // By another process: this one is confined.
    scratch.write(by, "", 0600);
    std::filesystem::rename(scratch / by, scratch / what);
  };
  const auto reads = [&scratch](const char* name, int expected) {
    return Attempt{name, [path = scratch / name] { return opened(path, O_RDONLY); }, expected};
  };
  int replaced[2];
  int asked[2];
  ASSERT_EQ(::pipe(replaced), 0);
  ASSERT_EQ(::pipe(asked), 0);
  const pid_t editor = ::fork();
  if (editor == 0) {
    char byte = 0;
    for (const auto& [by, what] :
         {std::pair("dotfiles/new", "dotfiles/keys"), std::pair("config/new", "config/keys")}) {
      if (::read(asked[0], &byte, 1) == 1) {
        replace(by, what);
        static_cast<void>(::write(replaced[1], "x", 1));
      }
    }
    ::_exit(0);
  }
  const Attempt edited{"edited",
                       [&] {
                         char byte = 0;
                         return ::write(asked[1], "x", 1) == 1 && ::read(replaced[0], &byte, 1) == 1 ? 0 : EPIPE;
                       },
                       0};
  const std::vector<Attempt> attempts{reads("config/keys", 0), edited,
                                      reads("config/keys", 0), edited,
                                      reads("config/keys", 0), reads("served/file", 0),
                                      reads("secret", EACCES)};
  const auto outcomes = test::outcomes(confine, attempts);
  for (const int descriptor : {replaced[0], replaced[1], asked[0], asked[1]}) {
    ::close(descriptor);
  }
  EXPECT_EQ(::waitpid(editor, nullptr, 0), editor);
  ASSERT_EQ(outcomes.size(), attempts.size());
  for (std::size_t i = 0; i < attempts.size(); ++i) {
    EXPECT_EQ(outcomes[i], attempts[i].expected) << attempts[i].what << ", " << i;
  }
}

}  // namespace
}  // namespace sluice::ftx
