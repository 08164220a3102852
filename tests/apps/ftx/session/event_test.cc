// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/session/event.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

namespace sluice::ftx {
namespace {

TEST(Event, DoneCarriesWhatScriptsReadInOneLine) {
  Event event{.kind = Event::Kind::done,
              .bytes = 1,
              .seconds = 0.5,
              .adus = 2,
              .repaired = 3,
              .copied = 5,
              .out_of_order = 4,
              .path = "a\"\n\xff"};
  const std::string line = to_json(event);
  EXPECT_EQ(line.find('\n'), std::string::npos);
  const auto object = nlohmann::json::parse(line);
  EXPECT_EQ(object["event"], "done");
  EXPECT_EQ(object["bytes"], 1);
  EXPECT_EQ(object["seconds"], 0.5);
  EXPECT_EQ(object["adus"], 2);
  EXPECT_EQ(object["repaired"], 3);
  EXPECT_EQ(object["copied"], 5);
  EXPECT_EQ(object["out_of_order"], 4);
  EXPECT_EQ(object["path"], "a\"\n\xef\xbf\xbd");
}

TEST(Event, AnErrorNamesItsExitCode) {
  const auto object =
      nlohmann::json::parse(to_json({.kind = Event::Kind::error, .code = ExitCode::disk_full, .text = "full"}));
  EXPECT_EQ(object["code"], 9);
  EXPECT_EQ(object["name"], "disk_full");
  EXPECT_EQ(object["text"], "full");
}

TEST(Event, AServerSaysWhoItIsAndWhoSends) {
  const auto listening = nlohmann::json::parse(to_json({.kind = Event::Kind::listening, .path = "a", .text = "key"}));
  EXPECT_EQ(listening["key"], "key");
  EXPECT_EQ(nlohmann::json::parse(to_json({.kind = Event::Kind::done, .client = "me"}))["client"], "me");
  EXPECT_FALSE(nlohmann::json::parse(to_json({.kind = Event::Kind::done})).contains("client"));
}

TEST(Event, AFallbackSaysHowItGoesOnAndWhy) {
  const auto object = nlohmann::json::parse(to_json({.kind = Event::Kind::fallback,
                                                     .code = ExitCode::udp_blocked,
                                                     .path = "pipe",
                                                     .text = "UDP does not come through"}));
  EXPECT_EQ(object["event"], "fallback");
  EXPECT_EQ(object["via"], "pipe");
  EXPECT_EQ(object["reason"], "udp_blocked");
  EXPECT_EQ(object["text"], "UDP does not come through");
}

TEST(Event, AFullQueueGivesUpProgressFirst) {
  EventQueue queue;
  queue.push({.kind = Event::Kind::offer});
  for (std::size_t i = 0; i < EventQueue::events_max * 2; ++i) {
    queue.push({.kind = Event::Kind::progress});
  }
  queue.push({.kind = Event::Kind::done});
  std::size_t count = 0;
  Event::Kind last{};
  const auto first = queue.pop();
  ASSERT_TRUE(first);
  EXPECT_EQ(first->kind, Event::Kind::offer);
  while (const auto event = queue.pop()) {
    ++count, last = event->kind;
  }
  EXPECT_EQ(count, EventQueue::events_max - 1);
  EXPECT_EQ(last, Event::Kind::done);
}

TEST(ExitCode, EveryRowHasItsOwnCodeAndName) {
  std::set<int> codes;
  std::set<std::string_view> names;
  for (const ExitCodeRow& row : exit_codes) {
    codes.insert(static_cast<int>(row.code));
    names.insert(row.name);
    EXPECT_EQ(exit_code_row(row.code).name, row.name);
  }
  EXPECT_EQ(codes.size(), exit_codes.size());
  EXPECT_EQ(names.size(), exit_codes.size());
  EXPECT_EQ(exit_code_row(static_cast<ExitCode>(99)).code, ExitCode::protocol_error);
}

}  // namespace
}  // namespace sluice::ftx
