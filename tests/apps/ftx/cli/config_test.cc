// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/cli/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace sluice::ftx {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const std::vector<std::string> keys{"congestion", "rate", "progress"};

Result<Config> parse(std::string_view text) { return Config::parse(text, "config.toml", keys); }

TEST(Config, AHostsSectionComesBeforeTheRest) {
  const auto config = parse(R"(
congestion = "cubic"
progress = false
[host.backup]
rate = 12.5
[host."192.0.2.1"]
rate = 200
)");
  ASSERT_TRUE(config) << config.error().text;
  const Setting congestion{"congestion", "cubic", false, "config.toml:2"};
  const Setting progress{"progress", "false", true, "config.toml:3"};
  const auto general = ElementsAre(congestion, progress);
  EXPECT_THAT(config->sections_for("elsewhere"), ElementsAre(general));
  EXPECT_THAT(config->sections_for(""), ElementsAre(general));
  EXPECT_THAT(config->sections_for("backup"),
              ElementsAre(ElementsAre(Setting{"rate", "12.5", false, "config.toml:5"}), general));
  EXPECT_EQ(config->sections_for("192.0.2.1").front().front().value, "200");
}

TEST(Config, AnEmptyFileSetsNothing) {
  EXPECT_THAT(parse("# nothing\n")->sections_for("x"), ElementsAre(ElementsAre()));
}

TEST(Config, AnErrorNamesFileLineAndKey) {
  struct Row {
    std::string_view text;
    std::string_view error;
  };
  const Row rows[] = {
      {"\ncheksum = 1", "config.toml:2: there is no key 'cheksum'; expected one of: congestion, rate, progress"},
      {"[host.a]\n\nrat = 1", "config.toml:3: there is no key 'rat'"},
      {"[other]\nrate = 1", "config.toml:1: there is no key 'other'"},
      {"rate = [1, 2]", "config.toml:1: rate: expected"},
      {"[host.a.rate]\nx = 1", "config.toml:1: rate: expected"},
      {"host = 1", "config.toml:1: host: expected sections"},
      {"[host]\na = 1", "config.toml:2: host.a: expected a section"},
      {"[host.\"\"]\nrate = 1", "config.toml:1: host.: expected a section"},
      {"rate = 1\nrate = 2", "config.toml:2:"},
      {"rate = ", "config.toml:1:"},
      {"rate = \"\xff\"", "config.toml:1:"},
  };
  for (const Row& row : rows) {
    const auto config = parse(row.text);
    ASSERT_FALSE(config) << row.text;
    EXPECT_THAT(config.error().text, HasSubstr(std::string(row.error))) << row.text;
  }
}

}  // namespace
}  // namespace sluice::ftx
