// SPDX-License-Identifier: Apache-2.0
// Which address is tried when, and that a sender without a handshake does so (of one with a handshake:
// client_handshake_test.cc).
#include "apps/ftx/session/attempts.h"

#include <gtest/gtest.h>

#include "tests/apps/ftx/session/simulation.h"
#include "tests/apps/ftx/transmit.h"

namespace sluice::ftx::test {
namespace {

const Peer peer_one(as_bytes("one")), peer_two(as_bytes("two")), peer_three(as_bytes("three")),
    peer_elsewhere(as_bytes("elsewhere"));

// RFC 8305 section 5: "One recommended value for a default delay is 250 milliseconds."
TEST(Attempts, EachBeginsADelayAfterTheOneBeforeAndIsRepeated) {
  const TimePoint start{1h};
  const std::array others{peer_two, peer_three};
  Attempts attempts(start, peer_one, others);
  std::vector<std::pair<Duration, std::string>> tried;
  for (TimePoint now = start; now < start + 1100ms; now = attempts.next_deadline()) {
    while (const auto to = attempts.next(now)) {
      tried.emplace_back(now - start, as_text(to->address()));
    }
  }
  const std::vector<std::pair<Duration, std::string>> expected{{0ms, "one"},     {250ms, "one"},   {250ms, "two"},
                                                               {500ms, "two"},   {500ms, "three"}, {750ms, "one"},
                                                               {750ms, "three"}, {1000ms, "two"}};
  EXPECT_EQ(tried, expected);
}

TEST(Attempts, WhereOneRefusesTheNextBeginsAtOnce) {
  TimePoint now{1h};
  const std::array others{peer_two, peer_three};
  Attempts attempts(now, peer_one, others);
  EXPECT_EQ(attempts.next(now), peer_one);
  EXPECT_EQ(attempts.next(now), std::nullopt);
  EXPECT_TRUE(attempts.refused(now, peer_elsewhere));
  EXPECT_EQ(attempts.next(now), std::nullopt) << "that said nothing";
  EXPECT_TRUE(attempts.refused(now, peer_one));
  EXPECT_EQ(attempts.next(now), peer_two);
  EXPECT_EQ(attempts.next(now), std::nullopt);
  EXPECT_TRUE(attempts.refused(now, peer_two));
  EXPECT_EQ(attempts.answered(peer_two), std::nullopt) << "it is none any more";
  EXPECT_FALSE(attempts.refused(now, peer_three));
  EXPECT_EQ(attempts.answered(peer_three), std::nullopt);
}

/// A sender whose receiver is at `at`, one of its addresses.
struct Plain {
  explicit Plain(const Peer& at) {
    WorldOptions options;
    options.sender.peer = peer_one;
    options.sender.others = {peer_two, peer_three};
    world = std::make_unique<World>(options);
    world->server_peer = at;
    world->source.add("file", random_content(300'000, 1));
  }
  std::unique_ptr<World> world;
};

TEST(PlainSender, TheFirstAddressThatSendsACookieCounts) {
  for (const auto& [at, hellos_elsewhere] :
       std::vector<std::pair<Peer, std::uint64_t>>{{peer_one, 0}, {peer_two, 2}, {peer_three, 4}}) {
    SCOPED_TRACE(as_text(at.address()));
    Plain plain(at);
    World& world = *plain.world;
    world.run();
    ASSERT_TRUE(world.sender->finished());
    EXPECT_EQ(world.sender->exit_code(), ExitCode::ok);
    EXPECT_TRUE(world.all_equal());
    EXPECT_EQ(world.spins, 0U);
    EXPECT_EQ(world.misdirected, hellos_elsewhere) << "and nothing more";
    EXPECT_TRUE(world.sender_event(Event::Kind::done)->peer == at);
  }
}

TEST(PlainSender, AnAddressThatRefusesIsTriedNoMore) {
  MemorySource source;
  source.add("file", random_content(1000, 1));
  FixedRate rate(1'000'000);
  SenderOptions options;
  options.peer = peer_one;
  options.others = {peer_two};
  TimePoint now{1h};
  Sender sender(now, options, source, rate);
  std::vector<Peer> sent;
  const auto transmit = [&] { transmit_all(sender, now, [&](ConstBytes, const Peer& to) { sent.push_back(to); }); };
  transmit();
  sender.unreachable(now, peer_elsewhere);
  transmit();
  sender.unreachable(now, peer_one);
  EXPECT_LE(sender.next_deadline(), now);
  transmit();
  EXPECT_EQ(sent, (std::vector<Peer>{peer_one, peer_two}));
  ASSERT_FALSE(sender.finished());
  sender.unreachable(now, peer_two);
  ASSERT_TRUE(sender.finished());
  EXPECT_EQ(sender.exit_code(), ExitCode::no_answer);
}

// Threat: somebody who answers for a host that was not asked.
TEST(PlainSender, ACookieFromElsewhereCountsOnlyWhereThereIsOneAddress) {
  for (const bool several : {false, true}) {
    MemorySource source;
    source.add("file", random_content(1000, 1));
    FixedRate rate(1'000'000);
    SenderOptions options;
    options.peer = peer_one;
    options.others = several ? std::vector<Peer>{peer_two} : std::vector<Peer>{};
    const TimePoint now{1h};
    Sender sender(now, options, source, rate);
    MemoryDestination destination;
    ServerOptions server_options;
    server_options.insecure = true;
    Server server(server_options, destination);
    const Peer client(as_bytes("client"));
    transmit_all(sender, now, [&](ConstBytes datagram, const Peer&) { server.receive(now, datagram, client); });
    transmit_all(server, now, [&](ConstBytes datagram, const Peer&) { sender.receive(now, datagram, peer_elsewhere); });
    EXPECT_EQ(sender.answered(), !several);
    EXPECT_EQ(sender.dropped(), several ? 1U : 0U);
  }
}

}  // namespace
}  // namespace sluice::ftx::test
