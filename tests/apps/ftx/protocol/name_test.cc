// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/protocol/name.h"

#include <gtest/gtest.h>

namespace sluice::ftx {
namespace {

TEST(Name, ComponentsAndPaths) {
  struct Row {
    const char* text;
    bool component, path;
  };
  const Row rows[] = {
      {"a", true, true},        {"...", true, true},        {".hidden", true, true}, {"na\xc3\xafve", true, true},
      {"", false, true},        {".", false, false},        {"..", false, false},    {"a/b", false, true},
      {"a/b/", false, true},    {"/", false, false},        {"/a", false, false},    {"a//b", false, false},
      {"a/../b", false, false}, {"a/", false, true},        {"a//", false, false},   {"a\tb", false, false},
      {"a\x7f", false, false},  {"\xc2\x85", false, false}, {"\x85", true, true},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.text);
    EXPECT_EQ(is_component(row.text), row.component);
    EXPECT_EQ(is_relative_path(row.text), row.path);
  }
  EXPECT_TRUE(is_component(std::string(255, 'x')));
  EXPECT_FALSE(is_component(std::string(256, 'x')));
  EXPECT_FALSE(is_component(std::string_view("a\0b", 3)));
}

TEST(Name, PrintableReplacesWhatATerminalWouldObey) {
  EXPECT_EQ(printable("a\x1b[2Jb\n\xc2\x9b"), "a?[2Jb?\xc2?");
  EXPECT_TRUE(is_printable(printable("\x01\x7f\xc2\x80")));
}

TEST(Name, ComponentsOfAPath) {
  EXPECT_EQ(components("a/b/c"), (std::vector<std::string_view>{"a", "b", "c"}));
  EXPECT_EQ(components("a/"), (std::vector<std::string_view>{"a"}));
  EXPECT_TRUE(components("").empty());
}

}  // namespace
}  // namespace sluice::ftx
