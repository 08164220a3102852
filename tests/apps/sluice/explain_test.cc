// SPDX-License-Identifier: Apache-2.0
// What `sluice explain` prints, for every example; and that explaining a file does nothing else.

#include "apps/sluice/explain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <bit>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <ostream>
#include <sstream>
#include <string>

#include "apps/common/registry.h"
#include "tests/file_text.h"

namespace sluice::test {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

const std::filesystem::path source_directory = SLUICE_SOURCE_DIR;

class Explain : public testing::Test {
 protected:
  StackFile parsed(std::string_view text) {
    auto file = StackFile::parse(text, "test.toml", registry_);
    EXPECT_TRUE(file.has_value()) << file.error().text;
    return file ? std::move(*file) : StackFile();
  }
  /// REQUIRES: the stack can be explained.
  Explanation explained(const StackDeclaration& stack, ProcessingMode mode) {
    return explain(set_, stack, mode).value();
  }
  json printed(const StackDeclaration& stack, ProcessingMode mode) {
    return json::parse(explain_json(stack, explained(stack, mode)));
  }

  Registry registry_ = standard_registry();
  StreamSet set_;
};

TEST_F(Explain, EveryExampleReadsAsItsGoldenFile) {
  if constexpr (std::endian::native != std::endian::little) {
    GTEST_SKIP() << "xdr has nothing to do on this host";
  }
  std::size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(source_directory / "examples/stacks")) {
    const auto file = StackFile::load(entry.path(), registry_);
    ASSERT_TRUE(file.has_value()) << file.error().text;
    for (const StackDeclaration& stack : file->stacks()) {
      const std::string name = entry.path().stem().string() + "." + stack.name + ".txt";
      const std::filesystem::path golden = source_directory / "tests/apps/sluice/golden" / name;
      EXPECT_EQ(explain_text(stack, explained(stack, stack.mode)), file_text(golden)) << golden;
      ++count;
    }
  }
  const auto goldens = std::filesystem::directory_iterator(source_directory / "tests/apps/sluice/golden");
  EXPECT_EQ(count, static_cast<std::size_t>(std::distance(begin(goldens), end(goldens)))) << "golden files left over";
  EXPECT_GE(count, 12U);
}

TEST_F(Explain, TheTextOfEveryExampleFitsOnEitherPath) {
  for (const auto& entry : std::filesystem::directory_iterator(source_directory / "examples/stacks")) {
    const auto file = StackFile::load(entry.path(), registry_);
    ASSERT_TRUE(file.has_value()) << file.error().text;
    for (const StackDeclaration& stack : file->stacks()) {
      for (const ProcessingMode mode : {ProcessingMode::layered, ProcessingMode::fused}) {
        std::istringstream lines(explain_text(stack, explained(stack, mode)));
        for (std::string line; std::getline(lines, line);) {
          EXPECT_LE(line.size(), text_columns_max) << entry.path() << ": " << line;
        }
      }
    }
  }
}

TEST_F(Explain, TheReadmeShowsWhatIsPrinted) {
  const auto file = StackFile::load(source_directory / "examples/stacks/fused.toml", registry_);
  ASSERT_TRUE(file.has_value()) << file.error().text;
  const StackDeclaration& stack = file->stacks().front();
  std::istringstream lines(payload_text(explained(stack, stack.mode)));
  std::string shown;
  for (std::string line; std::getline(lines, line) && !line.empty();) {
    shown += "    " + line + "\n";
  }
  EXPECT_THAT(shown, HasSubstr("one pass"));
  EXPECT_THAT(file_text(source_directory / "README.md"), HasSubstr(shown));
}

constexpr std::string_view fused_numbers = R"([stack.numbers]
mode   = "fused"
driver = { kind = "wire", name = "lab", end = "a" }
push   = ["ip", "capture", "udp", "xdr", "timod"]
ip     = { address = "10.79.0.1/24" }
capture = { file = "/nonexistent/trace.pcapng" }
xdr    = { unit = 8 }
)";

TEST_F(Explain, JsonHasTheKeysOfTheManual) {
  const StackFile file = parsed(fused_numbers);
  const json all = printed(file.stacks().front(), ProcessingMode::fused);
  EXPECT_EQ(all["stack"], "numbers");
  EXPECT_EQ(all["mode"], "fused");
  EXPECT_EQ(all["declared_mode"], "fused");
  EXPECT_EQ(all["modules"].size(), 6U);
  const json& down = all["payload"]["down"];
  ASSERT_EQ(down["modules"].size(), 7U);
  EXPECT_EQ(down["modules"][0],
            json({{"instance", "head"}, {"shows_lent", true}, {"work", json::array()}, {"uncounted", nullptr}}));
  EXPECT_EQ(down["modules"][2]["work"][0],
            json({{"asks", "swap"}, {"unit", 8}, {"why", ""}, {"outcome", "deferred"}, {"pass", nullptr}}));
  EXPECT_EQ(down["modules"][4]["work"][0],
            json({{"asks", "materialize"},
                  {"why", "every byte goes to its file"},
                  {"outcome", "pass"},
                  {"pass", {{"kernel", "sum_swap_copy"}, {"in_place", false}, {"loads", 1}, {"stores", 1}}}}));
  EXPECT_EQ(down["modules"][6]["work"][0]["outcome"], "nothing");
  EXPECT_EQ(down["passes"], 1);
  EXPECT_EQ(down["cost"],
            json({{"layered", {{"loads", 3}, {"stores", 2}}},
                  {"cache_blocked", {{"loads", 3}, {"stores", 2}, {"memory_loads", 1}, {"memory_stores", 1}}},
                  {"fused", {{"loads", 1}, {"stores", 1}}}}));
  EXPECT_EQ(all["payload"]["up"]["modules"][0]["instance"], "wire");
  EXPECT_FALSE(all["payload"].contains("measured"));
}

TEST_F(Explain, AnotherPathThanTheDeclaredOne) {
  const StackFile file = parsed(fused_numbers);
  const StackDeclaration& stack = file.stacks().front();
  EXPECT_EQ(printed(stack, ProcessingMode::layered)["payload"]["down"]["passes"], 3);
  EXPECT_EQ(printed(stack, ProcessingMode::layered)["payload"]["down"]["cost"],
            printed(stack, ProcessingMode::fused)["payload"]["down"]["cost"]);
  EXPECT_THAT(explain_text(stack, explained(stack, ProcessingMode::layered)),
              HasSubstr("mode layered (declared: fused)"));
}

TEST_F(Explain, WhatAModuleRefusesIsToldWithItsName) {
  const StackFile file =
      parsed("[stack.s]\ndriver = { kind = \"kernel_udp\" }\npush = [\"xdr\"]\nxdr = { unit = 3 }\n");
  const auto explanation = explain(set_, file.stacks().front(), ProcessingMode::fused);
  ASSERT_FALSE(explanation.has_value());
  EXPECT_THAT(explanation.error().text, HasSubstr("stack 's': xdr: xdr: unit is 3"));
}

// A stack file may come from anybody, and to explain it must be safe: a file that it names for a capture is not
// touched, whether it is there or not, nor is a device looked for.
TEST_F(Explain, NothingThatAFileNamesIsOpened) {
  const std::filesystem::path directory =
      std::filesystem::temp_directory_path() / ("sluice_explain_" + std::to_string(::getpid()));
  std::filesystem::create_directory(directory);
  std::ofstream(directory / "precious") << "do not replace";
  for (const std::string driver : {"packet", "pcap", "tap", "xdp"}) {
    const StackFile file = parsed("[stack.s]\ndriver = { kind = \"" + driver + "\", device = \"no-such-device\" }\n" +
                                  "push = [\"capture:a\", \"capture:b\"]\n" + "\"capture:a\" = { file = \"" +
                                  (directory / "precious").string() + "\" }\n\"capture:b\" = { file = \"" +
                                  (directory / "new").string() + "\" }\n");
    EXPECT_TRUE(explain(set_, file.stacks().front(), ProcessingMode::fused).has_value());
  }
  EXPECT_EQ(file_text(directory / "precious"), "do not replace");
  EXPECT_FALSE(std::filesystem::exists(directory / "new"));
  EXPECT_TRUE(set_.sources().empty());
  std::filesystem::remove_all(directory);
}

// Names and values of a hostile file reach no terminal as they are, and do not stretch the table.
TEST_F(Explain, ControlCharactersOfAFileAreEscaped) {
  const StackFile file =
      parsed("[stack.\"s\\u001B[2J\"]\ndriver = { kind = \"kernel_udp\" }\npush = [\"capture:\\u001B]0;owned\\u0007" +
             std::string(40, 'x') + "\"]\n\"capture:\\u001B]0;owned\\u0007" + std::string(40, 'x') +
             "\" = { file = \"\\u009B31m\\u001B[2J\" }\n");
  ASSERT_EQ(file.stacks().size(), 1U);
  const StackDeclaration& stack = file.stacks().front();
  const std::string text = explain_text(stack, explained(stack, ProcessingMode::fused));
  for (const char character : text) {
    EXPECT_TRUE(character == '\n' || static_cast<unsigned char>(character) >= 0x20) << static_cast<int>(character);
  }
  EXPECT_THAT(text, Not(HasSubstr("\u009b")));
  EXPECT_THAT(text, HasSubstr("\\x1b"));
  std::istringstream lines(payload_text(explained(stack, ProcessingMode::fused)));
  for (std::string line; std::getline(lines, line);) {
    EXPECT_LE(line.size(), text_columns_max) << line;
  }
  EXPECT_EQ(printed(stack, ProcessingMode::fused)["stack"], "s\x1b[2J");
}

}  // namespace
}  // namespace sluice::test
