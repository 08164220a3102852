// SPDX-License-Identifier: Apache-2.0
// The command lines of ssh, and what it answers.
#include "apps/ftx/remote/ssh_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace sluice::ftx {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::Not;
using Words = std::vector<std::string>;

TEST(SplitWords, AsAShellForSimpleWords) {
  EXPECT_EQ(split_words("ssh").value(), Words{"ssh"});
  EXPECT_EQ(split_words("  ssh\t-F  file ").value(), (Words{"ssh", "-F", "file"}));
  EXPECT_EQ(split_words("ssh -F 'my file'").value(), (Words{"ssh", "-F", "my file"}));
  EXPECT_EQ(split_words(R"(ssh "a \"b" c\ d '\')").value(), (Words{"ssh", "a \"b", "c d", "\\"}));
  EXPECT_EQ(split_words("a'b'\"c\"").value(), Words{"abc"});
  EXPECT_EQ(split_words("ssh ''").value(), (Words{"ssh", ""}));
  EXPECT_EQ(split_words("$HOME ~ *").value(), (Words{"$HOME", "~", "*"}));
}

TEST(SplitWords, WhatHasNoEndIsRefused) {
  for (const char* text : {"", "  ", "ssh 'a", "ssh \"a", "ssh a\\"}) {
    EXPECT_FALSE(split_words(text)) << text;
  }
}

TEST(SshCommand, TheHostStandsBehindTheOptions) {
  SshCommand command{{"ssh", "-F", "file"}, 2222, "user@::1", "/opt/ftx"};
  const Words start = start_arguments(command);
  ASSERT_GE(start.size(), 3U);
  EXPECT_EQ(Words(start.end() - 3, start.end()), (Words{"--", "user@::1", "/opt/ftx remote"}));
  EXPECT_EQ(Words(start.begin(), start.begin() + 5), (Words{"ssh", "-F", "file", "-p", "2222"}));
  EXPECT_THAT(query_arguments(command), ElementsAre("ssh", "-F", "file", "-p", "2222", "-G", "--", "user@::1"));
  command.port.reset();
  EXPECT_THAT(start_arguments(command), Not(Contains("-p")));
}

TEST(SshCommand, TheHostNameOfTheConfiguration) {
  EXPECT_EQ(hostname_in("user me\nhostname 192.0.2.1\nport 22\n"), "192.0.2.1");
  EXPECT_EQ(hostname_in("canonicalizehostname false\nhostname a.example"), "a.example");
  EXPECT_EQ(hostname_in("user me\n"), "");
  EXPECT_EQ(hostname_in(""), "");
}

TEST(SshCommand, TheAddressesOfSshConnection) {
  const auto both = parse_ssh_connection("192.0.2.1 50000 2001:db8::2 22");
  EXPECT_EQ(both.client, "192.0.2.1");
  EXPECT_EQ(both.server, "2001:db8::2");
  for (const char* text : {"", "192.0.2.1", "192.0.2.1 50000", "UNKNOWN 65535 "}) {
    EXPECT_EQ(parse_ssh_connection(text).client, "") << text;
  }
}

}  // namespace
}  // namespace sluice::ftx
