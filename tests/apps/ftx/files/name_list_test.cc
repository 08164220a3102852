// SPDX-License-Identifier: Apache-2.0
// Lists of names, as rsync --files-from reads them.
#include "apps/ftx/files/name_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "apps/ftx/protocol/name.h"

namespace sluice::ftx {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using namespace std::string_view_literals;

std::string error_of(std::string_view list, NameEnd end = NameEnd::line) {
  const auto names = parse_name_list(list, end);
  return names ? "" : names.error();
}

TEST(NameList, LinesAreNames) {
  EXPECT_THAT(*parse_name_list("a\n\n b c \r\n#no\n;no\na/b", NameEnd::line), ElementsAre("a", " b c ", "a/b"));
  EXPECT_THAT(*parse_name_list("", NameEnd::line), ElementsAre());
}

TEST(NameList, OrTheyEndInNul) {
  EXPECT_THAT(*parse_name_list("a\0#b\0\0;c"sv, NameEnd::nul), ElementsAre("a", "#b", ";c"));
}

TEST(NameList, EachIsOneWayToWriteAPath) {
  const auto names = parse_name_list("./a//b/./c\na/\na/.\n.\n./\n./a/", NameEnd::line);
  ASSERT_TRUE(names);
  EXPECT_THAT(*names, ElementsAre("a/b/c", "a/", "a/", "", "", "a/"));
  for (const std::string& name : *names) {
    EXPECT_TRUE(is_relative_path(name)) << name;
  }
}

TEST(NameList, ErrorsSayWhereAndWhat) {
  EXPECT_THAT(error_of("a\n\n../b\n"), HasSubstr("line 3: '../b': names may not hold '..'"));
  EXPECT_THAT(error_of("a/.."), HasSubstr("line 1"));
  EXPECT_THAT(error_of("a\n/etc/passwd"), HasSubstr("line 2"));
  EXPECT_THAT(error_of("a\tb"), HasSubstr("'a?b'"));
  EXPECT_THAT(error_of("a\nb\0"sv, NameEnd::nul), HasSubstr("name 1"));
  EXPECT_THAT(error_of(std::string(256, 'x')), HasSubstr("255"));
  std::string longest;
  for (int i = 0; i < 600; ++i) {
    longest += "a/";
  }
  EXPECT_THAT(error_of(longest), HasSubstr("1024"));
}

}  // namespace
}  // namespace sluice::ftx
