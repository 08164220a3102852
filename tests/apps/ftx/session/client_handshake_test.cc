// SPDX-License-Identifier: Apache-2.0
// A client's way to a session: several addresses, what counts before there are keys and after, and how it ends.
#include "apps/ftx/session/client_handshake.h"

#include <gtest/gtest.h>

#include "tests/apps/ftx/session/meeting.h"

namespace sluice::ftx::test {
namespace {

using State = ClientHandshake::State;

/// A client with the addresses of a server's host, and which of them leads to a server.
struct Addresses {
  explicit Addresses(std::vector<std::string> names) {
    ClientHandshakeOptions options{.peer = peer_named(names.front()), .seed = 3};
    for (std::size_t i = 1; i < names.size(); ++i) {
      options.others.push_back(peer_named(names[i]));
    }
    client = std::make_unique<ClientHandshake>(now, std::move(options), client_context().begin().value());
  }

  /// Sends what is due, to the server where `alive` is the address; answers come from there.
  void step(const std::string& alive = {}) {
    transmit_all(*client, now, [&](ConstBytes datagram, const Peer& to) {
      sent.push_back({std::string(as_text(to.address())), now - start});
      if (to == peer_named(alive)) {
        server.receive(now, datagram, peer_named("client"));
      }
    });
    transmit_all(server, now, [&](ConstBytes datagram, const Peer&) { client->receive(now, datagram, from(alive)); });
  }
  /// In steps of a millisecond.
  void run(Duration time, const std::string& alive = {}) {
    for (const TimePoint end = now + time; now < end && !client->has_keys() && !client->over(); now += 1ms) {
      step(alive);
    }
  }
  [[nodiscard]] static Peer from(const std::string& name) { return peer_named(name); }
  [[nodiscard]] Duration first_to(const std::string& name) const {
    for (const auto& [to, at] : sent) {
      if (to == name) {
        return at;
      }
    }
    return -1ms;
  }

  TimePoint start{1h};
  TimePoint now = start;
  MemoryDestination destination;
  Server server{Meeting::standing(), destination};
  std::unique_ptr<ClientHandshake> client;
  std::vector<std::pair<std::string, Duration>> sent;
};

// RFC 8305 section 5: "One recommended value for a default delay is 250 milliseconds."
TEST(ClientHandshake, TheNextAddressIsTriedAfterADelay) {
  Addresses all({"one", "two", "three"});
  all.run(600ms);
  EXPECT_EQ(all.first_to("one"), 0ms);
  EXPECT_EQ(all.first_to("two"), 250ms);
  EXPECT_EQ(all.first_to("three"), 500ms);
  EXPECT_EQ(all.client->state(), State::greeting) << "and those before it are still tried";
  EXPECT_GE(std::ranges::count(all.sent, std::string("one"), &std::pair<std::string, Duration>::first), 2);
}

TEST(ClientHandshake, AnAddressThatAnswersInTimeIsTheOnlyOne) {
  Addresses all({"one", "two"});
  all.run(1s, "one");
  ASSERT_TRUE(all.client->has_keys());
  EXPECT_EQ(all.client->peer(), peer_named("one"));
  EXPECT_EQ(all.first_to("two"), -1ms);
}

TEST(ClientHandshake, WhereOneIsSilentTheOtherServes) {
  for (const char* alive : {"two", "three"}) {
    Addresses all({"one", "two", "three"});
    all.run(2s, alive);
    ASSERT_TRUE(all.client->has_keys()) << alive;
    EXPECT_EQ(all.client->peer(), peer_named(alive));
    const std::size_t before = all.sent.size();
    all.step(alive);
    for (std::size_t i = before; i < all.sent.size(); ++i) {
      EXPECT_EQ(all.sent[i].first, alive) << "nothing more goes to the others";
    }
  }
}

TEST(ClientHandshake, WhereOneRefusesTheNextNeedNotWait) {
  Addresses all({"one", "two", "three"});
  all.run(10ms);
  all.client->unreachable(all.now, peer_named("one"));
  all.client->unreachable(all.now, peer_named("nobody"));
  all.run(10ms);
  EXPECT_EQ(all.first_to("two"), 10ms);
  EXPECT_EQ(all.first_to("three"), -1ms);
  all.client->unreachable(all.now, peer_named("two"));
  EXPECT_FALSE(all.client->over());
  all.run(1ms);
  EXPECT_EQ(all.first_to("three"), 20ms);
  all.client->unreachable(all.now, peer_named("three"));
  ASSERT_EQ(all.client->state(), State::failed);
  EXPECT_EQ(all.client->failure().code, ExitCode::no_answer);
}

TEST(ClientHandshake, NoAddressAnswers) {
  Addresses all({"one", "two"});
  all.run(11s);
  ASSERT_EQ(all.client->state(), State::failed);
  EXPECT_EQ(all.client->failure().code, ExitCode::no_answer);
  EXPECT_LT(all.sent.size(), 50U);
}

// Threat: somebody who answers for a host that was not asked.
TEST(ClientHandshake, ACookieFromElsewhereCountsOnlyWhereThereIsOneAddress) {
  for (const bool several : {false, true}) {
    Addresses all(several ? std::vector<std::string>{"one", "two"} : std::vector<std::string>{"one"});
    transmit_all(*all.client, all.now, [&](ConstBytes datagram, const Peer&) {
      all.server.receive(all.now, datagram, peer_named("client"));
    });
    transmit_all(all.server, all.now, [&](ConstBytes datagram, const Peer&) {
      all.client->receive(all.now, datagram, peer_named("elsewhere"));
    });
    EXPECT_EQ(all.client->state(), several ? State::greeting : State::shaking);
    EXPECT_EQ(all.client->dropped(), several ? 1U : 0U);
    EXPECT_EQ(all.client->peer(), peer_named("one"));
  }
}

/// A client that has sent HELLOs at 0, 250 and 750 ms, and what becomes of it when this COOKIE comes.
struct AfterHellos {
  explicit AfterHellos(std::size_t tsdu_bytes = 1472)
      : client(start, {.peer = peer_named("one"), .tsdu_bytes = tsdu_bytes, .seed = 3},
               client_context().begin().value()) {
    for (const Duration at : {0ms, 250ms, 750ms}) {
      transmit_all(client, start + at, [&](ConstBytes datagram, const Peer&) { envelope = *parse_envelope(datagram); });
    }
  }
  State after(TimePoint now, std::uint64_t nonce, std::uint32_t adu_bytes = 1392) {
    Content out(control_bytes_max);
    client.receive(now, ConstBytes(out).first(emit_cookie(envelope, {nonce, adu_bytes, {}}, out)), peer_named("one"));
    return client.state();
  }
  [[nodiscard]] std::uint64_t time(Duration after_start) const { return nanoseconds(start + after_start); }
  TimePoint start{1h};
  Envelope envelope;
  ClientHandshake client;
};

// Threat: a COOKIE that is no answer to a HELLO of this client, or would make it send datagrams that nobody takes.
TEST(ClientHandshake, ACookieAnswersAHello) {
  AfterHellos hellos;
  const TimePoint now = hellos.start + 800ms;
  EXPECT_EQ(hellos.after(now, hellos.time(-1ns)), State::greeting);
  EXPECT_EQ(hellos.after(now, hellos.time(750ms + 1ns)), State::greeting);
  EXPECT_EQ(hellos.after(now, hellos.time(750ms), adu_bytes_for(control_bytes_max, true) - adu_bytes_unit),
            State::greeting);
  EXPECT_EQ(hellos.client.dropped(), 3U);
  EXPECT_EQ(hellos.after(now, hellos.time(750ms), adu_bytes_for(control_bytes_max, true)), State::shaking);
  EXPECT_EQ(hellos.client.tsdu_bytes(), control_bytes_max);
  AfterHellos first;
  EXPECT_EQ(first.after(now, first.time(0ms)), State::shaking);
  AfterHellos small(1300);
  EXPECT_EQ(small.after(now, small.time(0ms), 8000), State::shaking);
  EXPECT_LE(small.client.tsdu_bytes(), 1300U) << "the lesser of what both carry";
}

TEST(ClientHandshake, ASegmentIsRepeatedAfterTwiceTheRoundTrip) {
  const std::pair<Duration, Duration> rows[] = {{1ms, 50ms}, {100ms, 200ms}, {400ms, 500ms}};
  for (const auto& [round_trip, repeat] : rows) {
    AfterHellos hellos;
    const TimePoint now = hellos.start + 750ms + round_trip;
    ASSERT_EQ(hellos.after(now, hellos.time(750ms)), State::shaking);
    int flights = 0;
    const auto send = [&](TimePoint at) {
      transmit_all(hellos.client, at, [&](ConstBytes, const Peer&) { ++flights; });
    };
    send(now);
    EXPECT_EQ(flights, 1);
    EXPECT_EQ(hellos.client.next_deadline(), now + repeat);
    send(now + repeat - 1ms);
    EXPECT_EQ(flights, 1);
    send(now + repeat);
    EXPECT_EQ(flights, 2);
  }
}

TEST(ClientHandshake, HellosAreRepeatedTwiceASecond) {
  AfterHellos hellos;
  std::vector<Duration> at;
  for (TimePoint now = hellos.start + 751ms; now < hellos.start + 3s; now += 1ms) {
    transmit_all(hellos.client, now, [&](ConstBytes, const Peer&) { at.push_back(now - hellos.start); });
  }
  EXPECT_EQ(at, (std::vector<Duration>{1250ms, 1750ms, 2250ms, 2750ms}));
}

/// Up to the client's keys; what the server answers to its last flight is not delivered.
void run_to_keys(Addresses& all) {
  all.run(100ms, "one");
  ASSERT_TRUE(all.client->has_keys());
  ASSERT_EQ(all.client->state(), State::settling);
}

// Threat: an ERROR that is not sealed, when there are keys.
TEST(ClientHandshake, WithKeysAForgedErrorCountsForNothing) {
  for (const bool keys : {false, true}) {
    Addresses all({"one"});
    Envelope ours;
    transmit_all(*all.client, all.now, [&](ConstBytes datagram, const Peer&) {
      ours = *parse_envelope(datagram);
      all.server.receive(all.now, datagram, peer_named("client"));
    });
    if (keys) {
      run_to_keys(all);
    } else {
      transmit_all(all.server, all.now, [&](ConstBytes datagram, const Peer&) {
        all.client->receive(all.now, datagram, peer_named("one"));
      });
      ASSERT_EQ(all.client->state(), State::shaking);
    }
    ours.kind = Kind::error;
    Content out(control_bytes_max);
    const std::size_t size = emit_error(ours, {static_cast<std::uint16_t>(ExitCode::refused), "forged"}, out);
    all.client->receive(all.now, ConstBytes(out).first(size), peer_named("one"));
    EXPECT_EQ(all.client->state() == State::failed, !keys);
  }
}

TEST(ClientHandshake, TheLastFlightIsRepeatedUntilItIsAcknowledgedOrTheSessionIs) {
  for (const bool settle : {false, true}) {
    Addresses all({"one"});
    run_to_keys(all);
    int flights = 0;
    for (int i = 0; i < 1000; ++i, all.now += 1ms) {
      transmit_all(*all.client, all.now, [&](ConstBytes, const Peer&) { ++flights; });
      if (settle && flights == 1) {
        all.client->settle();
        EXPECT_TRUE(all.client->settled());
        EXPECT_EQ(all.client->next_deadline(), never);
      }
    }
    EXPECT_EQ(flights > 1, !settle) << flights;
    if (!settle) {
      all.step("one");
      all.now += 500ms;
      all.step("one");
      EXPECT_EQ(all.client->state(), State::complete);
      EXPECT_EQ(all.client->next_deadline(), never);
    }
  }
}

TEST(ClientHandshake, BeforeThereAreKeysNothingIsSettled) {
  Addresses all({"one"});
  all.client->settle();
  EXPECT_FALSE(all.client->settled());
  EXPECT_EQ(all.client->state(), State::greeting);
  all.run(1s, "one");
  EXPECT_TRUE(all.client->has_keys());
}

TEST(ClientHandshake, AnInterruptEndsItAtOnceOrWithTheLastFlight) {
  Addresses greeting({"one"});
  greeting.client->interrupt(greeting.now);
  EXPECT_EQ(greeting.client->state(), State::failed);
  EXPECT_EQ(greeting.client->failure().code, ExitCode::interrupted);
  Addresses settling({"one"});
  run_to_keys(settling);
  settling.client->interrupt(settling.now);
  settling.step();
  EXPECT_EQ(settling.client->state(), State::failed);
  EXPECT_EQ(settling.client->failure().code, ExitCode::interrupted);
  EXPECT_FALSE(settling.client->refused());
}

TEST(ClientHandshake, AServerThatFallsSilentIsATimeout) {
  Addresses shaking({"one"});
  transmit_all(*shaking.client, shaking.now, [&](ConstBytes datagram, const Peer&) {
    shaking.server.receive(shaking.now, datagram, peer_named("client"));
  });
  transmit_all(shaking.server, shaking.now, [&](ConstBytes datagram, const Peer&) {
    shaking.client->receive(shaking.now, datagram, peer_named("one"));
  });
  ASSERT_EQ(shaking.client->state(), State::shaking);
  EXPECT_LE(shaking.client->next_deadline(), shaking.start + 10s);
  shaking.now = shaking.start + 10s - 1ms;
  shaking.step();
  EXPECT_EQ(shaking.client->state(), State::shaking);
  shaking.now += 1ms;
  shaking.step();
  ASSERT_EQ(shaking.client->state(), State::failed);
  EXPECT_EQ(shaking.client->failure().code, ExitCode::timeout);
}

// Threat: a server that answers what nobody asked, or with what is no message.
TEST(ClientHandshake, WhatTheServerSaysBehindTheHandshakeIsARefusalOrNothing) {
  const std::pair<Content, ExitCode> rows[] = {
      {encode(PullRefusal{ExitCode::source_unreadable, "cannot read 'a'"}), ExitCode::source_unreadable},
      {encode(PullRefusal{ExitCode::refused, ""}), ExitCode::refused},
      {*encode(PullRequest{.paths = {"a"}}), ExitCode::protocol_error},
      {Content(3, std::byte{9}), ExitCode::protocol_error},
  };
  for (const auto& [data, code] : rows) {
    for (const bool asked : {true, false}) {
      SCOPED_TRACE(testing::Message() << static_cast<int>(code) << (asked ? " asked" : " not asked"));
      const TimePoint now{1h};
      const Peer there = peer_named("server");
      ClientHandshakeOptions options{.peer = there, .seed = 3};
      if (asked) {
        options.request = PullRequest{.paths = {"a"}};
      }
      ClientHandshake client(now, std::move(options), client_context().begin().value());
      Handshake server = server_context().begin().value();
      ControlStream stream;
      Envelope envelope;
      Content out(control_bytes_max);
      const auto exchange = [&] {
        transmit_all(client, now, [&](ConstBytes datagram, const Peer&) {
          envelope = *parse_envelope(datagram);
          if (const auto control = parse_control(datagram); control && envelope.kind == Kind::control) {
            stream.receive(now, *control);
          } else if (const auto hello = parse_hello(datagram); hello && envelope.kind == Kind::hello) {
            const std::size_t size = emit_cookie(envelope, {hello->nonce, 1392, {}}, out);
            client.receive(now, ConstBytes(out).first(size), there);
          }
        });
        server.accept(stream.take_received());
        EXPECT_TRUE(stream.send(server.take_output()));
        while (auto control = stream.next(now)) {
          control->cipher = 1;
          client.receive(now, ConstBytes(out).first(emit_control(envelope, *control, out)), there);
        }
      };
      for (int i = 0; i < 4; ++i) {
        exchange();
      }
      ASSERT_TRUE(client.has_keys());
      ASSERT_EQ(server.state(), Handshake::State::complete);
      ASSERT_TRUE(server.write(data));
      exchange();
      exchange();
      ASSERT_EQ(client.state(), State::failed);
      EXPECT_EQ(client.failure().code, asked ? code : ExitCode::protocol_error);
      EXPECT_FALSE(client.failure().text.empty());
      EXPECT_FALSE(client.refused());
    }
  }
}

}  // namespace
}  // namespace sluice::ftx::test
