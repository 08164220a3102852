// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/security/known_hosts.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "tests/apps/ftx/security/scratch.h"
#include "tests/file_text.h"

namespace sluice::ftx {
namespace {

using test::Scratch;
using Answer = KnownHosts::Answer;

KeyPin pin(unsigned char fill) {
  std::array<std::byte, KeyPin::digest_bytes> digest;
  digest.fill(std::byte{fill});
  return KeyPin(digest);
}

const std::string one = pin(1).text();
const std::string two = pin(2).text();

bool is_fit_for_a_terminal(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c >= ' ' && c <= '~'; });
}

TEST(HostAndPort, HasOneSpelling) {
  EXPECT_EQ(host_and_port("Host.Example", 7070).value(), "host.example:7070");
  EXPECT_EQ(host_and_port("192.0.2.7", 1).value(), "192.0.2.7:1");
  EXPECT_EQ(host_and_port("2001:DB8::7", 65535).value(), "[2001:db8::7]:65535");
  EXPECT_EQ(host_and_port("fe80::1%eth0", 7).value(), "[fe80::1%eth0]:7");
  for (const std::string_view bad : {"", "a b", "a#", "a\n", "a\x1b[2J", "a/b", "[::1]", "\xc3\xa4"}) {
    EXPECT_FALSE(host_and_port(bad, 1).has_value()) << bad;
  }
  EXPECT_FALSE(host_and_port("host", 0).has_value());
  EXPECT_FALSE(host_and_port(std::string(256, 'a'), 1).has_value());
}

TEST(KnownHosts, KnowsTheKeyOfEachHostAndPort) {
  const auto hosts = KnownHosts::parse(
      "# ours\n\n  host.example:7070   " + one + "  \nHOST.example:7071\t" + two + "\r\n[2001:db8::7]:7070 " + two,
      "file");
  ASSERT_TRUE(hosts.has_value()) << hosts.error().text;
  EXPECT_EQ(hosts->size(), 3U);
  EXPECT_EQ(hosts->look_up("host.example:7070", pin(1)), Answer::match);
  EXPECT_EQ(hosts->look_up("host.example:7070", pin(2)), Answer::mismatch);
  EXPECT_EQ(hosts->look_up("host.example:7071", pin(2)), Answer::match);
  EXPECT_EQ(hosts->look_up("[2001:db8::7]:7070", pin(2)), Answer::match);
  EXPECT_EQ(hosts->look_up("host.example:7072", pin(1)), Answer::unknown);
  EXPECT_EQ(hosts->look_up("host.example", pin(1)), Answer::unknown);
  EXPECT_EQ(hosts->find("host.example:7070"), pin(1));
  EXPECT_EQ(hosts->find("other:1"), std::nullopt);
}

/// A line that is not exactly as it must be makes the file fail: better no trust than trust by a guess.
TEST(KnownHosts, SaysFileAndLineOfWhatIsWrong) {
  const std::vector<std::pair<std::string, std::string>> table{
      {"host " + one, "hosts:1: expected host:port"},
      {"host: " + one, "hosts:1: expected host:port"},
      {":7070 " + one, "hosts:1: expected a host name"},
      {"host:0 " + one, "hosts:1: expected a host name"},
      {"host:65536 " + one, "hosts:1: expected host:port"},
      {"host:99999999999999999999 " + one, "hosts:1: expected host:port"},
      {"host:-1 " + one, "hosts:1: expected host:port"},
      {"host:7o " + one, "hosts:1: expected host:port"},
      {"::1:7070 " + one, "hosts:1: expected host:port"},
      {"[::1] " + one, "hosts:1: expected host:port"},
      {"[host]:1 " + one, "hosts:1: expected host:port"},
      {"[]:1 " + one, "hosts:1: expected a host name"},
      {"h*st:1 " + one, "hosts:1: expected a host name"},
      {"host:1", "hosts:1: a key is written"},
      {"host:1 nonsense", "hosts:1: a key is written"},
      {"host:1 " + one + " more", "hosts:1: a key is written"},
      {one + " host:1", "hosts:1: expected "},
      {"\n# c\nhost:1 " + one + "\nhost:1 " + one, "hosts:4: a second line"},
      {"host:1 " + one + "\nHOST:01 " + two, "hosts:2: a second line"},
      {"a:1 " + one + "\n#" + std::string(trust_line_bytes_max, ' '), "hosts:2: the line is longer"},
      {std::string("a\0b:1 ", 6) + one, "hosts:1: expected a host name"},
      {"\x1b[2J:1 " + one, "hosts:1: expected "},
  };
  for (const auto& [text, error] : table) {
    const auto hosts = KnownHosts::parse(text, "hosts");
    ASSERT_FALSE(hosts.has_value()) << text;
    EXPECT_EQ(hosts.error().text.substr(0, error.size()), error) << text;
    EXPECT_TRUE(is_fit_for_a_terminal(hosts.error().text));
  }
}

TEST(KnownHosts, NoFileKnowsNobody) {
  const Scratch scratch;
  EXPECT_EQ(KnownHosts::load(scratch / "hosts")->size(), 0U);
}

TEST(KnownHosts, AddsALineAndKeepsTheRest) {
  const Scratch scratch;
  const std::string path = scratch / "hosts";
  ASSERT_TRUE(KnownHosts::add(path, "host:1", pin(1)).has_value());
  EXPECT_EQ(file_text(path), "host:1 " + one + "\n");
  const std::string before = "# mine\nhost:1 " + one + "  ";
  scratch.write("hosts", before, 0644);
  ASSERT_TRUE(KnownHosts::add(path, "[::1]:2", pin(2)).has_value());
  EXPECT_EQ(file_text(path), before + "\n[::1]:2 " + two + "\n");
  EXPECT_EQ(KnownHosts::load(path)->look_up("[::1]:2", pin(2)), Answer::match);
  EXPECT_EQ(scratch.files(), 1);

  const Status again = KnownHosts::add(path, "host:1", pin(2));  // a known key is never replaced
  ASSERT_FALSE(again.has_value());
  EXPECT_EQ(again.error().code, EEXIST);
  EXPECT_FALSE(KnownHosts::add(path, "host", pin(2)).has_value());
  EXPECT_FALSE(KnownHosts::add(path, "HOST:3", pin(2)).has_value());
  EXPECT_FALSE(KnownHosts::add(path, "a:1 " + two + "\nb:2", pin(2)).has_value());
  EXPECT_EQ(file_text(path), before + "\n[::1]:2 " + two + "\n");
}

TEST(KnownHosts, AddsNothingToAFileThatItCannotRead) {
  const Scratch scratch;
  const std::string path = scratch.write("hosts", "nonsense\n", 0644);
  EXPECT_FALSE(KnownHosts::add(path, "host:1", pin(1)).has_value());
  EXPECT_EQ(file_text(path), "nonsense\n");
}

/// A full disk, for which a limit on files stands here: the list stays as it was, and nothing is left beside it.
TEST(KnownHostsDeathTest, StaysAsItWasWhenTheDiskIsFull) {
  const Scratch scratch;
  const std::string path = scratch / "hosts";
  ASSERT_TRUE(KnownHosts::add(path, "host:1", pin(1)).has_value());
  const std::string before = file_text(path);
  EXPECT_EXIT(
      {
        rlimit limit{};
        limit.rlim_cur = limit.rlim_max = before.size();
        std::signal(SIGXFSZ, SIG_IGN);
        setrlimit(RLIMIT_FSIZE, &limit);
        const Status added = KnownHosts::add(path, "host:2", pin(2));
        std::_Exit(!added && added.error().code == EFBIG ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
  EXPECT_EQ(file_text(path), before);
  EXPECT_EQ(scratch.files(), 1);
}

/// The hosts that somebody uses are nobody else's business.
TEST(KnownHosts, IsReadByItsOwnerOnly) {
  const Scratch scratch;
  const std::string path = scratch / "hosts";
  ASSERT_TRUE(KnownHosts::add(path, "host:1", pin(1)).has_value());
  struct stat status{};
  ASSERT_EQ(::stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0600U);
}

/// A reader beside a writer sees whole lines only.
TEST(KnownHosts, IsWholeAtEveryMoment) {
  const Scratch scratch;
  const std::string path = scratch / "hosts";
  std::thread writer([&path] {
    for (int i = 1; i <= 50; ++i) {
      EXPECT_TRUE(KnownHosts::add(path, "host:" + std::to_string(i), pin(1)).has_value());
    }
  });
  std::size_t size = 0;
  for (int i = 0; i < 5000 && size < 50; ++i) {
    const auto hosts = KnownHosts::load(path);
    EXPECT_TRUE(hosts.has_value());
    EXPECT_GE(hosts->size(), size);
    size = hosts->size();
  }
  writer.join();
  EXPECT_EQ(KnownHosts::load(path)->size(), 50U);
}

/// Who may write the list decides who is trusted.
TEST(KnownHosts, RefusesAListThatOthersCanWrite) {
  const Scratch scratch;
  for (const mode_t mode : {0664U, 0646U, 0622U, 0666U}) {
    const std::string path = scratch.write("list", "host:1 " + one + "\n", mode);
    const auto hosts = KnownHosts::load(path);
    ASSERT_FALSE(hosts.has_value()) << std::oct << mode;
    EXPECT_EQ(hosts.error().code, EPERM);
    EXPECT_FALSE(KnownHosts::add(path, "other:1", pin(2)).has_value());
    EXPECT_EQ(AllowedKeys::load(path).error().code, EPERM);
  }
  EXPECT_TRUE(KnownHosts::load(scratch.write("list", "host:1 " + one + "\n", 0644)).has_value());
}

TEST(AllowedKeys, NamesEachKey) {
  const auto allowed = AllowedKeys::parse("# who\n" + one + " backup of host seven\n" + two + "\tb\n", "file");
  ASSERT_TRUE(allowed.has_value()) << allowed.error().text;
  EXPECT_EQ(allowed->size(), 2U);
  EXPECT_EQ(allowed->find(pin(1))->name, "backup of host seven");
  EXPECT_EQ(allowed->find(pin(2))->name, "b");
  EXPECT_EQ(allowed->find(pin(2))->access, Access::both);
  EXPECT_EQ(allowed->find(pin(3)), nullptr);
}

TEST(AllowedKeys, SaysWhatEachMayDo) {
  const auto allowed = AllowedKeys::parse("read-only " + one + " a b\n\twrite-only \t" + two + " c\n", "file");
  ASSERT_TRUE(allowed.has_value()) << allowed.error().text;
  EXPECT_EQ(allowed->find(pin(1))->name, "a b");
  EXPECT_EQ(allowed->find(pin(1))->access, Access::read);
  EXPECT_EQ(allowed->find(pin(2))->name, "c");
  EXPECT_EQ(allowed->find(pin(2))->access, Access::write);
  for (const std::string& text :
       {"read-onlyx " + one + " a", std::string("read-only"), "read-only write-only " + one + " a",
        "Read-only " + one + " a", "read-only " + one, one + "read-only a"}) {
    EXPECT_FALSE(AllowedKeys::parse(text, "file").has_value()) << text;
  }
  EXPECT_TRUE(allows(Access::both, Access::read) && allows(Access::both, Access::write));
  EXPECT_FALSE(allows(Access::read, Access::write) || allows(Access::write, Access::read) ||
               allows(Access::none, Access::read) || allows(Access::read & Access::write, Access::write));
}

TEST(AllowedKeys, SaysFileAndLineOfWhatIsWrong) {
  const std::vector<std::pair<std::string, std::string>> table{
      {"nonsense name", "allowed:1: a key is written"},
      {one, "allowed:1: expected a name"},
      {one + "  ", "allowed:1: expected a name"},
      {one + " a\x1b[2Jb", "allowed:1: expected a name"},
      {one + " a\rb", "allowed:1: expected a name"},
      {one + " \xc2\x9b", "allowed:1: expected a name"},
      {one + " a\n\n" + one + " b", "allowed:3: a second line"},
  };
  for (const auto& [text, error] : table) {
    const auto allowed = AllowedKeys::parse(text, "allowed");
    ASSERT_FALSE(allowed.has_value()) << text;
    EXPECT_EQ(allowed.error().text.substr(0, error.size()), error) << text;
    EXPECT_TRUE(is_fit_for_a_terminal(allowed.error().text));
  }
}

TEST(AllowedKeys, NeedsItsFile) {
  const Scratch scratch;
  EXPECT_EQ(AllowedKeys::load(scratch / "allowed").error().code, ENOENT);
}

}  // namespace
}  // namespace sluice::ftx
