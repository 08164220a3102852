// SPDX-License-Identifier: Apache-2.0
// What an operand of the command line names: scp's rules.
#include "apps/ftx/remote/operand.h"

#include <gtest/gtest.h>

#include <vector>

namespace sluice::ftx {
namespace {

using Kind = Operand::Kind;

struct Row {
  std::string text;
  Operand operand;
};

TEST(Operand, IsReadAsScpDoes) {
  const std::vector<Row> rows{
      {"host:path", {Kind::remote, "path", "", "host"}},
      {"host:", {Kind::remote, "", "", "host"}},
      {"user@host:/a b/c", {Kind::remote, "/a b/c", "user", "host"}},
      {"host:~/x", {Kind::remote, "~/x", "", "host"}},
      {"host:a:b", {Kind::remote, "a:b", "", "host"}},
      {"host:a@b", {Kind::remote, "a@b", "", "host"}},
      {"me@example.org@host:x", {Kind::remote, "x", "me@example.org", "host"}},
      {"[2001:db8::1]:x", {Kind::remote, "x", "", "2001:db8::1"}},
      {"user@[2001:db8::1]:", {Kind::remote, "", "user", "2001:db8::1"}},
      {"[2001:db8::1]:[a]:b", {Kind::remote, "[a]:b", "", "2001:db8::1"}},
      {"[host]:x", {Kind::remote, "x", "", "host"}},
      {"host:a[1]:b", {Kind::remote, "a[1]:b", "", "host"}},
      {"plain", {Kind::local, "plain", "", ""}},
      {"", {Kind::local, "", "", ""}},
      {"./a:b", {Kind::local, "./a:b", "", ""}},
      {"/a:b", {Kind::local, "/a:b", "", ""}},
      {"dir/user@host:x", {Kind::local, "dir/user@host:x", "", ""}},
      {":x", {Kind::local, ":x", "", ""}},
      {"[2001:db8::1]", {Kind::local, "[2001:db8::1]", "", ""}},
      {"C", {Kind::local, "C", "", ""}},
      {"C:", {Kind::remote, "", "", "C"}},
      {"ftx://host/x", {Kind::url, "ftx://host/x", "", ""}},
      {"ftx://[::1]:7070/", {Kind::url, "ftx://[::1]:7070/", "", ""}},
  };
  for (const Row& row : rows) {
    const auto operand = parse_operand(row.text);
    ASSERT_TRUE(operand) << row.text;
    EXPECT_EQ(operand->kind, row.operand.kind) << row.text;
    EXPECT_EQ(operand->path, row.operand.path) << row.text;
    EXPECT_EQ(operand->user, row.operand.user) << row.text;
    EXPECT_EQ(operand->host, row.operand.host) << row.text;
  }
}

TEST(Operand, WhatSshWouldTakeForAnOptionIsRefused) {
  for (const char* text : {"-oProxyCommand=x:y", "-l@host:x", "[-oProxyCommand=id]:x", "user@-host:x", "@host:x",
                           "user@:x", "[]:x", "ho\nst:x", "ho st:x", "us er@host:x"}) {
    const auto operand = parse_operand(text);
    ASSERT_FALSE(operand) << text;
    EXPECT_NE(operand.error().text.find("./"), std::string::npos) << text;
  }
}

TEST(Operand, AnotherSchemeIsRefused) {
  for (const char* text : {"ftp://x/", "http://host", "sftp://user@host/x", "user@ftp://x/"}) {
    const auto operand = parse_operand(text);
    ASSERT_FALSE(operand) << text;
    EXPECT_NE(operand.error().text.find("expected ftx://HOST:PORT/PATH"), std::string::npos) << operand.error().text;
  }
}

TEST(Operand, TheLoginIsWhatSshTakes) {
  EXPECT_EQ(parse_operand("a@[::1]:x")->login(), "a@::1");
  EXPECT_EQ(parse_operand("h:x")->login(), "h");
}

}  // namespace
}  // namespace sluice::ftx
