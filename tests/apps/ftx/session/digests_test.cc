// SPDX-License-Identifier: Apache-2.0
// Contents that are compared: the sender reads before it offers, the receiver before it accepts, each as long as that
// takes, and nobody learns what he may not.
#include <gtest/gtest.h>

#include "tests/apps/ftx/session/meeting.h"

namespace sluice::ftx::test {
namespace {

constexpr Update by_digest{.compare = Update::Compare::digest};

/// Serves one file that takes long to read.
class SlowProvider final : public Provider {
 public:
  int turns = 1;
  bool vanished = false;
  Content content = random_content(50'000, 3);
  Duration idle_timeout = 30s;

  std::expected<OpenedPull, Failure> open(const PullRequest&, const Peer& to) override {
    auto source = std::make_unique<MemorySource>();
    source->add("a", content);
    source->reading_turns = turns;
    source->vanished = vanished;
    return OpenedPull{std::move(source),
                      std::make_unique<FixedRate>(10'000'000),
                      {.peer = to, .path = {}, .idle_timeout = idle_timeout}};
  }
};

ServerOptions serving(Provider& provider, Access access = Access::both) {
  ServerOptions options = Meeting::standing();
  options.provider = &provider;
  options.access = [access](const Client&) { return access; };
  return options;
}

/// Reading lasts longer than the client waits for a server that says nothing. A turn is a step of 100 ms.
TEST(Digests, AClientWaitsForAServerThatStillReads) {
  for (const double loss : {0.0, 0.2}) {
    SlowProvider provider;
    provider.turns = 600;
    Meeting meeting({.loss = loss, .delay = 5ms}, 7, serving(provider));
    meeting.wanted.paths = {"a"};
    EXPECT_TRUE(meeting.run(200s, [&] {
      if (meeting.receiver && meeting.receiver->open_sessions() == 0 && meeting.server.sessions() > 0) {
        meeting.now += 100ms;
      }
    }));
    EXPECT_EQ(meeting.fetch_outcome(), ExitCode::ok);
    EXPECT_TRUE(meeting.fetched.files["a"] == provider.content);
  }
}

TEST(Digests, AFileThatCannotBeReadEndsTheClientWithTheServersWords) {
  SlowProvider provider;
  provider.vanished = true;
  Meeting meeting({.delay = 5ms}, 1, serving(provider));
  meeting.wanted.paths = {"a"};
  EXPECT_TRUE(meeting.run());
  EXPECT_EQ(meeting.fetch_outcome(), ExitCode::source_unreadable);
  ASSERT_FALSE(meeting.fetch_events.empty());
  EXPECT_NE(meeting.fetch_events.back().text.find("vanished"), std::string::npos) << meeting.fetch_events.back().text;
  EXPECT_EQ(meeting.server.sessions(), 0U);
}

/// Threat: a client that asks for what takes long to read, and goes.
TEST(Digests, AServerReadsForNobodyWhoHasGone) {
  SlowProvider provider;
  provider.turns = 1'000'000'000;
  provider.idle_timeout = 5s;
  Meeting meeting({}, 1, serving(provider));
  meeting.wanted.paths = {"a"};
  meeting.begin();
  while (meeting.server.sessions() == 0) {
    ASSERT_FALSE(meeting.run(1ms));
  }
  const TimePoint since = meeting.now;
  while (meeting.server.sessions() > 0 && meeting.now < since + 60s) {
    transmit_all(meeting.server, meeting.now, [](ConstBytes, const Peer&) {});
    meeting.now += 100ms;
  }
  EXPECT_EQ(meeting.server.sessions(), 0U);
  EXPECT_LT(meeting.now - since, 7s);
}

/// Comparing lasts longer than the sender waits for a receiver that takes nothing.
TEST(Digests, ASenderWaitsForAReceiverThatStillCompares) {
  for (const bool equal : {false, true}) {
    SlowProvider provider;
    Meeting meeting({.delay = 5ms}, 3, serving(provider));
    meeting.source.add("file", random_content(100'000, 1));
    meeting.source.reading_turns = 1;
    meeting.update = by_digest;
    meeting.destination.equal = equal;
    bool compared = false;
    meeting.destination.examine = [&] { return compared; };
    const TimePoint since = meeting.now;
    EXPECT_TRUE(meeting.run(200s, [&] {
      meeting.now += meeting.destination.examined > 0 && !compared ? 10ms : 0ms;
      compared |= meeting.now - since > 90s;
    }));
    ASSERT_TRUE(meeting.sender && meeting.sender->finished());
    EXPECT_EQ(meeting.sender->exit_code(), ExitCode::ok);
    EXPECT_GT(meeting.now - since, 90s);
    EXPECT_EQ(meeting.destination.writes == 0, equal);
    EXPECT_EQ(meeting.sender->sent_bytes() == 0, equal) << "nothing is sent before it is known what is there";
  }
}

/// A report of a session that has failed would tell its sender that it goes on.
TEST(Digests, AReceiverThatFailsWhileItComparesSaysNothingElse) {
  SlowProvider provider;
  Meeting meeting({}, 1, serving(provider));
  meeting.source.add("file", random_content(1000, 1));
  meeting.source.reading_turns = 1;
  meeting.update = by_digest;
  meeting.destination.examine = [] { return false; };
  meeting.run(200s, [&] {
    if (meeting.destination.examined > 0 && meeting.sender->answered()) {
      meeting.sender->interrupt(meeting.now);
    }
  });
  const auto go_on = [&](auto each) {
    for (int i = 0; i < 100; ++i) {
      meeting.now += 100ms;
      each();
    }
  };
  go_on([&] { meeting.step(); });
  ASSERT_TRUE(meeting.event(Event::Kind::error));
  int reports = 0;
  go_on([&] { transmit_all(meeting.server, meeting.now, [&](ConstBytes, const Peer&) { ++reports; }); });
  EXPECT_EQ(reports, 0);
}

/// Threat: a sender that may not read guesses a content, and would learn from what need not be sent that it is right.
TEST(Digests, WhoMayNotReadDoesNotLearnWhatIsThere) {
  for (const Access access : {Access::both, Access::write}) {
    SlowProvider provider;
    Meeting meeting({}, 1, serving(provider, access));
    meeting.source.add("guess", random_content(1000, 1));
    meeting.source.reading_turns = 1;
    meeting.update = by_digest;
    meeting.destination.equal = true;
    EXPECT_TRUE(meeting.run());
    ASSERT_TRUE(meeting.sender && meeting.sender->finished());
    EXPECT_EQ(meeting.sender->exit_code(), ExitCode::ok);
    EXPECT_EQ(meeting.destination.examined > 0, access == Access::both);
    EXPECT_EQ(meeting.destination.writes == 0, access == Access::both);
  }
}

}  // namespace
}  // namespace sluice::ftx::test
