// SPDX-License-Identifier: Apache-2.0
// What a standing server keeps of clients before their sessions: who gets room, who gives way, and for how long.
#include "apps/ftx/session/handshakes.h"

#include <gtest/gtest.h>

#include "tests/apps/ftx/session/meeting.h"

namespace sluice::ftx::test {
namespace {

struct Room {
  explicit Room(HandshakeLimits limits) : handshakes(server_context(), limits) {}

  bool begin(const std::string& peer, std::uint64_t connection) {
    const Peer from = peer_named(peer);
    return handshakes.begin(now, from, Peer(from.address().first(1)), connection, Cipher::aes_128_gcm);
  }
  [[nodiscard]] bool knows(const std::string& peer, std::uint64_t connection) {
    return handshakes.knows(peer_named(peer), connection);
  }
  /// Carries bytes both ways until the client is complete and the server has its last flight.
  void shake(Handshake& client, ControlStream& stream, const std::string& peer, std::uint64_t connection,
             std::uint8_t cipher = 1) {
    Content out(control_bytes_max);
    for (int round = 0; round < 6; ++round) {
      ASSERT_TRUE(stream.send(client.take_output()));
      while (auto control = stream.next(now)) {
        control->cipher = cipher;
        useful += handshakes.receive(now, peer_named(peer), connection, *control) ? 1 : 0;
      }
      Peer to;
      while (const std::size_t size = handshakes.transmit(now, out, to)) {
        stream.receive(now, *parse_control(ConstBytes(out).first(size)));
        client.accept(stream.take_received());
      }
    }
  }

  TimePoint now{1h};
  Handshakes handshakes;
  int useful = 0;
};

TEST(Handshakes, TheOldestOfAHostGivesWayNotBeforeItsTime) {
  Room room({.handshakes_max = 8, .per_host_max = 2});
  EXPECT_TRUE(room.begin("a1", 1));
  room.now += 10ms;
  EXPECT_TRUE(room.begin("a2", 2));
  room.now += 239ms;
  EXPECT_FALSE(room.begin("a3", 3)) << "the oldest has had 249 ms";
  room.now += 1ms;
  EXPECT_TRUE(room.begin("a3", 3));
  EXPECT_FALSE(room.knows("a1", 1));
  EXPECT_TRUE(room.knows("a2", 2) && room.knows("a3", 3));
  EXPECT_EQ(room.handshakes.displaced(), 1U);
  EXPECT_TRUE(room.begin("b1", 1)) << "another host has its own part";
}

TEST(Handshakes, InACrowdOneGivesWayAtATime) {
  Room room({.handshakes_max = 5, .per_host_max = 2});
  for (const char* peer : {"a1", "b1", "c1", "d1", "e1"}) {
    EXPECT_TRUE(room.begin(peer, 1));
  }
  room.now += 249ms;
  EXPECT_FALSE(room.begin("f1", 1));
  room.now += 1ms;
  EXPECT_TRUE(room.begin("f1", 1));
  EXPECT_FALSE(room.knows("a1", 1)) << "the oldest";
  EXPECT_FALSE(room.begin("g1", 1));
  room.now += 49ms;
  EXPECT_FALSE(room.begin("g1", 1)) << "one each 50 ms, of five in 250 ms";
  room.now += 1ms;
  EXPECT_TRUE(room.begin("g1", 1));
  EXPECT_EQ(room.handshakes.size(), 5U);
}

TEST(Handshakes, WhoHasProvedHimselfGivesWayLastAndHasTimeToOffer) {
  Room room({.handshakes_max = 2, .per_host_max = 2});
  Handshake client = client_context().begin().value();
  ControlStream stream;
  ASSERT_TRUE(room.begin("a1", 1));
  room.now += 9s;
  room.shake(client, stream, "a1", 1);
  ASSERT_EQ(client.state(), Handshake::State::complete);
  EXPECT_TRUE(room.begin("b1", 1));
  room.now += 9s;
  EXPECT_TRUE(room.begin("c1", 1));
  EXPECT_TRUE(room.knows("a1", 1)) << "though it is the oldest";
  EXPECT_FALSE(room.knows("b1", 1));
  Content out(control_bytes_max);
  Peer to;
  EXPECT_EQ(room.handshakes.transmit(room.now, out, to), 0U);
  EXPECT_TRUE(room.knows("a1", 1)) << "18 s after it began, 9 s after it was complete";
  room.now += 1s;
  EXPECT_EQ(room.handshakes.transmit(room.now, out, to), 0U);
  EXPECT_FALSE(room.knows("a1", 1));
}

TEST(Handshakes, TheCipherIsTheSameInAll) {
  Room room({});
  Handshake client = client_context().begin().value();
  ControlStream stream;
  ASSERT_TRUE(room.begin("a1", 1));
  room.shake(client, stream, "a1", 1, 2);
  EXPECT_EQ(room.useful, 0);
  EXPECT_EQ(client.state(), Handshake::State::in_progress);
}

TEST(Handshakes, TheSessionsKeysDependOnTheCipher) {
  Room room({});
  Handshake client = client_context().begin().value();
  ControlStream stream;
  ASSERT_TRUE(room.begin("a1", 1));
  room.shake(client, stream, "a1", 1);
  const std::uint64_t one = ftx::protection_of(client, Cipher::aes_128_gcm, Side::initiator)->connection();
  const std::uint64_t two = ftx::protection_of(client, Cipher::chacha20_poly1305, Side::initiator)->connection();
  EXPECT_NE(one, two);
  EXPECT_NE(room.handshakes.find(one), nullptr);
  EXPECT_EQ(room.handshakes.find(two), nullptr);
}

// Threat: a client that is refused, and begins its session all the same.
TEST(Handshakes, WhoseRequestIsRefusedHasNoKeysAnyMore) {
  Room room({});
  Handshake client = client_context().begin().value();
  ControlStream stream;
  ASSERT_TRUE(room.begin("a1", 1));
  room.shake(client, stream, "a1", 1);
  const std::uint64_t session = ftx::protection_of(client, Cipher::aes_128_gcm, Side::initiator)->connection();
  ASSERT_TRUE(client.write(*encode(PullRequest{.paths = {"a"}})));
  room.shake(client, stream, "a1", 1);
  const auto request = room.handshakes.next_request();
  ASSERT_TRUE(request);
  EXPECT_EQ(request->session, session);
  EXPECT_EQ(request->peer, peer_named("a1"));
  EXPECT_EQ(request->host, peer_named("a"));
  EXPECT_EQ(request->pull.paths, std::vector<std::string>{"a"});
  EXPECT_FALSE(room.handshakes.next_request()) << "once";
  ASSERT_NE(room.handshakes.find(session), nullptr);
  EXPECT_EQ(room.handshakes.client_of(session).key, key(good_key).pin());
  room.handshakes.refuse_request(session, {ExitCode::refused, "no"});
  EXPECT_EQ(room.handshakes.find(session), nullptr);
  EXPECT_EQ(room.handshakes.size(), 1U) << "until it has heard so";
  room.shake(client, stream, "a1", 1);
  EXPECT_EQ(room.handshakes.size(), 0U);
  EXPECT_EQ(std::get<PullRefusal>(**parse_pull_message(client.take_data())), (PullRefusal{ExitCode::refused, "no"}));
}

// Threat: refusals that nobody reads, without end.
TEST(Handshakes, RefusalsThatWaitHaveABound) {
  Room room({.handshakes_max = 64, .per_host_max = 64});
  for (std::uint64_t i = 0; i < 2 * Handshakes::refusals_max; ++i) {
    ASSERT_TRUE(room.begin("a1", i));
    EXPECT_TRUE(
        room.handshakes.receive(room.now, peer_named("a1"), i, {.cipher = 1, .bytes = as_bytes("GET / HTTP/1.1\r\n")}));
  }
  std::size_t told = 0;
  while (room.handshakes.next_refusal()) {
    ++told;
  }
  EXPECT_EQ(told, Handshakes::refusals_max);
}

}  // namespace
}  // namespace sluice::ftx::test
