// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/cli/progress.h"

#include <gtest/gtest.h>

#include <vector>

#include "apps/ftx/cli/console.h"
#include "apps/ftx/cli/screen_text.h"

namespace sluice::ftx {
namespace {

constexpr std::uint64_t mib = 1048576;

const ProgressState half{.label = "there:data",
                         .bytes = 420 * mib,
                         .total_bytes = 1000 * mib,
                         .files_done = 3,
                         .files = 7,
                         .adus = 48000,
                         .repaired = 12,
                         .rate = 117.3 * static_cast<double>(mib)};

ProgressState with(void (*change)(ProgressState&)) {
  ProgressState state = half;
  change(state);
  return state;
}

struct ProgressRow {
  std::string what;
  ProgressState state;
  std::size_t columns;
  std::string line;
};

const std::vector<ProgressRow> rows{
    {"wide", half, 200,
     "there:data  42% [================>                       ]   420.0/1000.0 MiB  117.3 MiB/s  0:05 left  3/7 files "
     " 12 repaired (0.0%)"},
    {"120 columns", half, 120,
     "there:data  42% [===========>               ]   420.0/1000.0 MiB  117.3 MiB/s  0:05 left  3/7 files  12 repaired "
     "(0.0%)"},
    {"80 columns", half, 80, " 42% [==>  ]   420.0/1000.0 MiB  117.3 MiB/s  0:05 left  3/7 files  12 repaired"},
    {"60 columns", half, 60, " 42% [===>     ]   420.0/1000.0 MiB  117.3 MiB/s  0:05 left"},
    {"40 columns", half, 40, " 42% [===>    ]  117.3 MiB/s  0:05 left"},
    {"20 columns", half, 20, " 42%  117.3 MiB/s"},
    {"5 columns", half, 5, " 42%"},
    {"4 columns", half, 4, ""},
    {"no columns", half, 0, ""},
    {"one file, nothing repaired", with([](auto& state) { state.files = 1, state.repaired = 0; }), 80,
     " 42% [============>                ]   420.0/1000.0 MiB  117.3 MiB/s  0:05 left"},
    {"no size known", with([](auto& state) { state.total_bytes = 0, state.files = 1, state.open_ended = true; }), 80,
     "there:data   420.0 MiB  117.3 MiB/s  12 repaired"},
    {"no size and little room", with([](auto& state) { state.total_bytes = 0, state.open_ended = true; }), 20,
     "  117.3 MiB/s"},
    {"nothing known", {}, 80, "100% [========================================]  0/0 B    0.0 KiB/s  -:-- left"},
    {"nothing moves", with([](auto& state) { state.rate = 0.0; }), 80,
     " 42% [==>  ]   420.0/1000.0 MiB    0.0 KiB/s  -:-- left  3/7 files  12 repaired"},
    {"all there", with([](auto& state) { state.bytes = state.total_bytes, state.files_done = 7; }), 80,
     "100% [=====]  1000.0/1000.0 MiB  117.3 MiB/s  0:00 left  7/7 files  12 repaired"},
    {"not all there", with([](auto& state) { state.bytes = state.total_bytes - 1; }), 40,
     " 99% [=======>]  117.3 MiB/s  0:01 left"},
    {"half of it was there", with([](auto& state) { state.skipped_bytes = 500 * mib; }), 80,
     " 92% [====>]   920.0/1000.0 MiB  117.3 MiB/s  0:01 left  3/7 files  12 repaired"},
    {"hours", with([](auto& state) { state.rate = 1e5; }), 80,
     " 42% [=====>        ]   420.0/1000.0 MiB   97.7 KiB/s 1:41:22 left  12 repaired"},
    {"a long label", with([](auto& state) { state.label = std::string(300, 'x') + ".tar"; }), 150,
     "...xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx.tar  42% [========>           ]   420.0/1000.0 MiB  117.3 MiB/s  "
     "0:05 left  3/7 files  12 repaired (0.0%)"},
    {"a label of wide characters", with([](auto& state) { state.label = "資料庫備份.tar"; }), 120,
     "資料庫備份.tar  42% [=========>             ]   420.0/1000.0 MiB  117.3 MiB/s  0:05 left  3/7 files  12 repaired "
     "(0.0%)"},
    {"a label with control characters", with([](auto& state) { state.label = "a\033[2Jb\nc\xff\u202e"; }), 150,
     "a?[2Jb?c??  42% [================>                       ]   420.0/1000.0 MiB  117.3 MiB/s  0:05 left  3/7 files "
     " 12 repaired (0.0%)"},
};

TEST(ProgressLine, IsAsTheTableSays) {
  for (const ProgressRow& row : rows) {
    EXPECT_EQ(progress_line(row.state, row.columns), row.line) << row.what;
  }
}

TEST(ProgressLine, NeverFillsItsRow) {
  for (const ProgressRow& row : rows) {
    for (std::size_t columns = 0; columns <= 300; ++columns) {
      const std::string line = progress_line(row.state, columns);
      ASSERT_LT(columns_of(line), std::max<std::size_t>(columns, 1)) << row.what << " in " << columns << ": " << line;
      ASSERT_EQ(line, terminal_text(line)) << row.what;
    }
  }
}

Event at(std::uint64_t bytes, double seconds, std::uint64_t connection = 0) {
  return {.kind = Event::Kind::progress,
          .connection = connection,
          .files = 2,
          .files_done = 1,
          .bytes = bytes,
          .total_bytes = 1000,
          .seconds = seconds,
          .path = "there"};
}

TEST(Progress, TheRateFollowsWhatMovesAndDoesNotJump) {
  Progress progress;
  TimePoint now{};
  const auto step = [&](std::uint64_t bytes) {
    now += std::chrono::seconds(1);
    progress.update(now, at(bytes, std::chrono::duration<double>(now.time_since_epoch()).count()));
    return *progress.state().rate;
  };
  EXPECT_DOUBLE_EQ(step(100), 100);
  EXPECT_DOUBLE_EQ(step(200), 100);
  const double slower = step(200);
  EXPECT_LT(slower, 100);
  EXPECT_GT(slower, 50) << "a pause of a second is no halt";
  double rate = slower;
  for (int i = 0; i < 30; ++i) {
    rate = step(200);
  }
  EXPECT_LT(rate, 0.1) << "a long one is";
}

TEST(Progress, TransfersOfAServerAreAddedUp) {
  Progress progress;
  progress.update(TimePoint{}, at(100, 1, 1));
  progress.update(TimePoint{}, at(300, 1, 2));
  EXPECT_EQ(progress.state().label, "2 transfers");
  EXPECT_EQ(progress.state().bytes, 400U);
  EXPECT_EQ(progress.state().total_bytes, 2000U);
  EXPECT_EQ(progress.state().files, 4U);
  progress.end(1);
  EXPECT_EQ(progress.state().label, "there");
  EXPECT_EQ(progress.state().bytes, 300U);
  progress.end(2);
  EXPECT_TRUE(progress.empty());
}

TEST(Progress, WhatWasThereIsNoSpeed) {
  Progress progress;
  Event event = at(0, 0.5);
  event.skipped_bytes = 900;
  progress.update(TimePoint{}, event);
  progress.update(TimePoint{} + std::chrono::seconds(1), event);
  EXPECT_EQ(progress.state().bytes_there(), 900U);
  EXPECT_EQ(progress.state().rate, 0);
}

TEST(Progress, ATransferThatBeginsAgainTakesNothingBack) {
  Progress progress;
  progress.update(TimePoint{}, at(900, 1));
  progress.update(TimePoint{} + std::chrono::seconds(1), at(10, 2));
  EXPECT_GE(*progress.state().rate, 0);
  EXPECT_EQ(progress.state().bytes, 10U);
}

TEST(ScreenText, OnlyWhatIsSafeIsShown) {
  EXPECT_EQ(terminal_text("plain Größe 資料"), "plain Größe 資料");
  EXPECT_EQ(terminal_text("\033[31m\r\n\t\x7f"), "?[31m????");
  EXPECT_EQ(terminal_text("C1 \u009b"), "C1 ?");
  EXPECT_EQ(terminal_text("turned \u202e around"), "turned ? around");
  EXPECT_EQ(terminal_text("\xff\xc3"), "??");
}

TEST(ScreenText, WideCharactersTakeTwoColumnsAndAreNotCut) {
  EXPECT_EQ(columns_of("資料"), 4U);
  EXPECT_EQ(columns_of("e\u0301"), 1U);
  EXPECT_EQ(fitted("資料庫", 6), "資料庫");
  EXPECT_EQ(fitted("資料庫", 5), "...庫");
  EXPECT_EQ(fitted("資料庫a", 5), "...a") << "half of a character would not do";
}

TEST(ScreenText, FiguresAreRounded) {
  EXPECT_EQ(bytes_text(0), "0 B");
  EXPECT_EQ(bytes_text(1023), "1023 B");
  EXPECT_EQ(bytes_text(1023.97 * 1024), "1.0 MiB");
  EXPECT_EQ(bytes_text(5, 20), " 5/20 B");
  EXPECT_EQ(rate_text(10), "   0.0 KiB/s");
  EXPECT_EQ(duration_text(0), "0:00");
  EXPECT_EQ(duration_text(59.2), "1:00");
  EXPECT_EQ(duration_text(3723), "1:02:03");
}

TEST(Summary, SaysWhatWasDone) {
  EXPECT_EQ(summary({.files = 1, .bytes = 8 * mib, .seconds = 0.5, .adus = 6000, .path = "there:"}),
            "there:  1 file, 8.0 MiB in 0.5 s, 16.0 MiB/s");
  EXPECT_EQ(summary({.files = 0, .bytes = 0, .seconds = 0, .path = "in"}), "in  0 files, 0 B in 0.0 s");
  EXPECT_EQ(summary({.files = 7, .bytes = 7200 * mib, .seconds = 90, .adus = 6000, .repaired = 12, .path = "a\033b"}),
            "a?b  7 files, 7.0 GiB in 1:30, 80.0 MiB/s, 12 of 6000 datagrams repaired");
  EXPECT_EQ(
      summary({.files = 7, .bytes = mib, .seconds = 1, .skipped_files = 6, .skipped_bytes = 8 * mib, .path = "in"}),
      "in  7 files, 1.0 MiB in 1.0 s, 1.0 MiB/s, 6 of the files unchanged");
  EXPECT_EQ(summary({.files = 1, .bytes = mib, .seconds = 1, .skipped_bytes = 8 * mib, .path = "in"}),
            "in  1 file, 1.0 MiB in 1.0 s, 1.0 MiB/s, 8.0 MiB were there");
  EXPECT_EQ(summary({.files = 1, .path = "in", .dry_run = true}), "in  1 file: a dry run, nothing was sent or changed");
}

/// Threat: a name of the other end that moves the cursor.
TEST(ChangeText, HasTheItemWhereThatIsAskedForAndNothingThatATerminalFollows) {
  const auto text = [](const char* item, const char* path, const char* target, bool itemize) {
    return change_text({.kind = Event::Kind::change, .path = path, .item = item, .target = target}, itemize);
  };
  EXPECT_EQ(text("<f+++++++++", "d/a\033[2J", "", true), "<f+++++++++ d/a?[2J");
  EXPECT_EQ(text("<f+++++++++", "d/a", "", false), "d/a");
  EXPECT_EQ(text("cL+++++++++", "l", "t\033", true), "cL+++++++++ l -> t?");
  EXPECT_EQ(text("hf         ", "b", "a", true), "hf          b => a");
  EXPECT_EQ(text("*deleting  ", "d/x\n", "", true), "*deleting   d/x?");
  EXPECT_EQ(text("*deleting  ", "d/", "", false), "deleting d/");
}

}  // namespace
}  // namespace sluice::ftx
