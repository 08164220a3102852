// SPDX-License-Identifier: Apache-2.0
// What will change is told before it does, both ways, whatever the network loses; and a dry run ends with that.
#include <gtest/gtest.h>

#include "apps/ftx/session/change_announcer.h"
#include "apps/ftx/session/change_event.h"
#include "tests/apps/ftx/session/meeting.h"

namespace sluice::ftx::test {
namespace {

constexpr Update told{.told = true};
constexpr Update dry{.told = true, .dry_run = true};

/// Serves some files: who may fetch them is told what changes.
class FilesProvider final : public Provider {
 public:
  int files = 3;

  std::expected<OpenedPull, Failure> open(const PullRequest&, const Peer& to) override {
    auto source = std::make_unique<MemorySource>();
    for (int i = 0; i < files; ++i) {
      source->add("f" + std::to_string(i), random_content(500, static_cast<std::uint64_t>(i)));
    }
    return OpenedPull{std::move(source), std::make_unique<FixedRate>(10'000'000), {.peer = to, .path = {}}};
  }
};

ServerOptions serving_files(FilesProvider& provider) {
  ServerOptions options = Meeting::standing();
  options.provider = &provider;
  return options;
}

std::vector<Change> changes_of(std::uint32_t files, int removed) {
  std::vector<Change> changes;
  for (std::uint32_t i = 1; i <= files; ++i) {
    changes.push_back({.kind = Change::Kind::content, .differences = Change::is_new, .entry = i});
  }
  for (int i = 0; i < removed; ++i) {
    changes.push_back({.kind = Change::Kind::removed, .path = "old" + std::to_string(i)});
  }
  return changes;
}

void expect_told(const std::vector<Event>& events, std::uint32_t files, int removed, const char* item) {
  std::vector<std::string> names;
  for (const Event& event : events) {
    if (event.kind == Event::Kind::change) {
      names.push_back(event.item + " " + event.path);
    }
  }
  ASSERT_EQ(names.size(), files + static_cast<std::size_t>(removed));
  for (std::size_t i = 0; i < names.size(); ++i) {
    EXPECT_EQ(names[i], i < files ? item + (" f" + std::to_string(i)) : "*deleting   old" + std::to_string(i - files));
  }
}

/// More than fit a datagram, a turn, or what waits at either end.
constexpr std::uint32_t many = 3000;
constexpr int many_removed = 6000;

TEST(ChangesTold, ADryRunTellsTheSenderAndSendsAndMakesNothing) {
  for (const double loss : {0.0, 0.3}) {
    FilesProvider provider;
    Meeting meeting({.loss = loss, .reorder = loss, .duplicate = loss, .delay = 5ms}, 5, serving_files(provider));
    for (std::uint32_t i = 0; i < many; ++i) {
      meeting.source.add("f" + std::to_string(i), random_content(10, i));
    }
    meeting.update = dry;
    meeting.destination.changes = changes_of(many, many_removed);
    ASSERT_TRUE(meeting.run());
    ASSERT_TRUE(meeting.sender && meeting.sender->finished());
    EXPECT_EQ(meeting.sender->exit_code(), ExitCode::ok);
    expect_told(meeting.told, many, many_removed, "<f+++++++++");
    EXPECT_EQ(meeting.sender->sent_bytes(), 0U);
    EXPECT_EQ(meeting.destination.opened, 0U) << "nothing that could write";
    EXPECT_TRUE(meeting.event(Event::Kind::done) && meeting.event(Event::Kind::done)->dry_run);
  }
}

TEST(ChangesTold, ADryRunOfWhoFetchesTellsHim) {
  for (const double loss : {0.0, 0.3}) {
    FilesProvider provider;
    Meeting meeting({.loss = loss, .delay = 5ms}, 6, serving_files(provider));
    meeting.wanted.paths = {"x"};
    meeting.update = dry;
    meeting.fetched.changes = changes_of(3, many_removed);
    ASSERT_TRUE(meeting.run());
    EXPECT_EQ(meeting.fetch_outcome(), ExitCode::ok);
    expect_told(meeting.fetch_events, 3, many_removed, ">f+++++++++");
    EXPECT_EQ(meeting.fetched.opened, 0U);
    const Event* const done = meeting.event(Event::Kind::done);
    ASSERT_TRUE(done) << "the server's";
    EXPECT_EQ(done->bytes, 0U) << "it has sent nothing";
  }
}

TEST(ChangesTold, WhatWillChangeIsToldBeforeItDoes) {
  for (const double loss : {0.0, 0.2}) {
    FilesProvider provider;
    Meeting meeting({.loss = loss, .delay = 5ms}, 7, serving_files(provider));
    for (std::uint32_t i = 0; i < 20; ++i) {
      meeting.source.add("f" + std::to_string(i), random_content(3000, i));
    }
    meeting.update = told;
    meeting.destination.changes = changes_of(20, 500);
    bool early = false;
    ASSERT_TRUE(meeting.run(200s, [&] { early |= meeting.destination.writes > 0 && meeting.told.size() < 520; }));
    EXPECT_FALSE(early);
    meeting.expect_arrived();
    expect_told(meeting.told, 20, 500, "<f+++++++++");
  }
}

TEST(ChangesTold, WhatCouldNotBeDoneFailsADryRunToo) {
  FilesProvider provider;
  Meeting meeting({}, 1, serving_files(provider));
  meeting.source.add("f0", random_content(10, 1));
  meeting.update = dry;
  meeting.destination.changes = changes_of(1, 0);
  meeting.destination.survey_error = EISDIR;
  ASSERT_TRUE(meeting.run());
  ASSERT_TRUE(meeting.sender && meeting.sender->finished());
  EXPECT_EQ(meeting.sender->exit_code(), ExitCode::write_failed);
}

/// Threat: a client that may send and not fetch, and asks by a dry run what is there.
TEST(ChangesTold, WhoMayNotReadIsToldNothing) {
  FilesProvider provider;
  for (const Update& update : {told, dry}) {
    ServerOptions options = serving_files(provider);
    options.access = [](const Client&) { return Access::write; };
    Meeting meeting({}, 1, options);
    meeting.source.add("f0", random_content(10, 1));
    meeting.update = update;
    meeting.destination.changes = changes_of(1, 1);
    ASSERT_TRUE(meeting.run());
    ASSERT_TRUE(meeting.sender && meeting.sender->finished());
    EXPECT_EQ(meeting.sender->exit_code(), ExitCode::refused);
    EXPECT_TRUE(meeting.told.empty());
    EXPECT_EQ(meeting.destination.opened, 0U);
  }
}

/// Threat: a receiver that accepts all the same, to get the files.
TEST(DryRun, AReceiverThatAcceptsGetsNothing) {
  ServerOptions options = Meeting::standing();
  options.receiver.update = Update{};  // whatever the OFFER says
  Meeting meeting({}, 1, options);
  meeting.source.add("f0", random_content(10'000, 1));
  meeting.update = dry;
  EXPECT_TRUE(meeting.run());
  ASSERT_TRUE(meeting.sender && meeting.sender->finished());
  EXPECT_NE(meeting.sender->exit_code(), ExitCode::ok);
  EXPECT_EQ(meeting.sender->sent_bytes(), 0U);
  EXPECT_EQ(meeting.destination.opened, 1U) << "it has accepted";
  EXPECT_EQ(meeting.destination.writes, 0U);
}

/// Threat: a receiver that speaks of what is not in the list, or twice of the same.
TEST(ChangesTold, AReceiverIsNotBelievedWhatCannotBe) {
  for (const bool twice : {false, true}) {
    FilesProvider provider;
    Meeting meeting({}, 1, serving_files(provider));
    meeting.source.add("f0", random_content(10, 1));
    meeting.update = dry;
    meeting.destination.changes = changes_of(twice ? 1 : 2, 0);
    if (twice) {
      meeting.destination.changes.push_back(meeting.destination.changes[0]);
    }
    EXPECT_TRUE(meeting.run());
    ASSERT_TRUE(meeting.sender && meeting.sender->finished());
    EXPECT_NE(meeting.sender->exit_code(), ExitCode::ok);
    EXPECT_EQ(meeting.told.size(), 1U);
  }
}

/// Threat: a sender that notes what it was not told, or nothing at all.
TEST(ChangesTold, WhatIsNotNotedComesAgainAndNoMoreWaitsThanFits) {
  ChangeAnnouncer announcer;
  const Envelope envelope{.kind = Kind::changes, .connection = 1};
  std::vector<std::byte> out(control_bytes_max);
  TimePoint now{1h};
  const auto next = [&] { return announcer.next(now, 1ms, envelope, out); };
  EXPECT_EQ(next(), 0U);
  while (announcer.room() > 0) {
    announcer.add({.kind = Change::Kind::content, .entry = 1});
  }
  EXPECT_FALSE(announcer.on_noted(1)) << "nothing was said yet";
  std::size_t said = 0;
  while (const std::size_t size = next()) {
    const auto changes = parse_changes(ConstBytes(out).first(size));
    ASSERT_TRUE(changes);
    EXPECT_EQ(changes->from, said);
    said += changes->changes.size();
  }
  EXPECT_EQ(said, ChangeAnnouncer::waiting_max);
  EXPECT_FALSE(announcer.on_noted(said + 1));
  EXPECT_TRUE(announcer.on_noted(100));
  EXPECT_TRUE(announcer.on_noted(50)) << "an older one";
  EXPECT_EQ(announcer.room(), 100U);
  now += 1s;
  const auto again = parse_changes(ConstBytes(out).first(next()));
  ASSERT_TRUE(again);
  EXPECT_EQ(again->from, 100U);
  EXPECT_TRUE(announcer.on_noted(said));
  EXPECT_TRUE(announcer.all_noted());
  EXPECT_EQ(announcer.next_deadline(), never);
}

TEST(ChangeItem, EachLetterIsThatOfRsync) {
  using Kind = Change::Kind;
  const struct {
    Kind kind;
    unsigned differences;
    EntryKind entry;
    bool sends;
    const char* item;
  } rows[] = {
      {Kind::content, Change::is_new, EntryKind::file, true, "<f+++++++++"},
      {Kind::content, Change::is_new, EntryKind::packed, false, ">f+++++++++"},
      {Kind::content, 0, EntryKind::file, false, ">f........."},
      {Kind::content, Change::content, EntryKind::file, false, ">fc........"},
      {Kind::content, Change::size, EntryKind::file, false, ">f.s......."},
      {Kind::content, Change::time, EntryKind::file, false, ">f..t......"},
      {Kind::content, Change::mode, EntryKind::file, false, ">f...p....."},
      {Kind::content, Change::content | Change::size | Change::time | Change::mode, EntryKind::file, true,
       "<fcstp....."},
      {Kind::made, Change::is_new, EntryKind::directory, true, "cd+++++++++"},
      {Kind::made, Change::is_new, EntryKind::link, false, "cL+++++++++"},
      {Kind::made, Change::content, EntryKind::link, false, "cLc........"},
      {Kind::made, Change::content | Change::time, EntryKind::link, false, "cLc.t......"},
      {Kind::linked, Change::is_new, EntryKind::hard_link, false, "hf+++++++++"},
      {Kind::linked, Change::time, EntryKind::hard_link, false, "hf..t......"},
      {Kind::linked, 0, EntryKind::file, false, "hf         "},
      {Kind::attributes, Change::time, EntryKind::directory, true, ".d..t......"},
      {Kind::attributes, Change::mode, EntryKind::file, true, ".f...p....."},
      {Kind::attributes, Change::time, EntryKind::link, true, ".L..t......"},
      {Kind::removed, 0, EntryKind::file, true, "*deleting  "},
  };
  for (const auto& row : rows) {
    const Change change{.kind = row.kind, .differences = static_cast<std::uint8_t>(row.differences), .entry = 1};
    EXPECT_EQ(item_of(change, row.entry, row.sends), row.item);
  }
}

}  // namespace
}  // namespace sluice::ftx::test
