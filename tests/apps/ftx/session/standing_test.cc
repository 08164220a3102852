// SPDX-License-Identifier: Apache-2.0
// A standing server: clients that it knows, clients that it does not, and what strangers and crowds do to it.
#include <gtest/gtest.h>

#include <set>

#include "tests/apps/ftx/session/meeting.h"

namespace sluice::ftx::test {
namespace {

TEST(Standing, AKnownClientSendsAndTheServerKnowsWhoItIs) {
  for (const Cipher cipher : {Cipher::aes_128_gcm, Cipher::chacha20_poly1305}) {
    Meeting meeting;
    meeting.cipher = cipher;
    meeting.source.add("file", random_content(300'000, 1));
    meeting.forward.set_filter([&](TimePoint, ConstBytes datagram) {
      const auto envelope = parse_envelope(datagram);
      const bool of_handshake = envelope && (envelope->kind == Kind::hello || envelope->kind == Kind::control);
      EXPECT_TRUE(envelope && (envelope->sealed() || of_handshake)) << "nothing of the session goes unsealed";
      EXPECT_LE(datagram.size(), 1472U);
      return true;
    });
    EXPECT_TRUE(meeting.run());
    meeting.expect_arrived();
    meeting.step();
    const Event* done = meeting.event(Event::Kind::done);
    ASSERT_NE(done, nullptr);
    EXPECT_EQ(done->client, key(good_key).pin().text());
    EXPECT_EQ(meeting.server.handshakes(), 0U) << "nothing of the handshake stays";
  }
}

TEST(Standing, AnyLinkLetsTheHandshakeThrough) {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(seed);
    Meeting meeting(drawn_link(seed), seed);
    meeting.source.add("file", random_content(50'000, seed));
    EXPECT_TRUE(meeting.run());
    meeting.expect_arrived();
  }
}

void expect_refused(Meeting& meeting, ExitCode code) {
  meeting.source.add("file", random_content(1000, 1));
  EXPECT_TRUE(meeting.run());
  ASSERT_EQ(meeting.client->state(), ClientHandshake::State::failed);
  EXPECT_EQ(meeting.client->failure().code, code) << meeting.client->failure().text;
  EXPECT_TRUE(!meeting.sender || !meeting.sender->answered());
  EXPECT_EQ(meeting.server.sessions(), 0U);
  EXPECT_TRUE(meeting.destination.files.empty() && meeting.destination.temporaries.empty());
}

TEST(Standing, AClientThatIsNotAllowedIsToldSoAndTheServersProgramWhichKeyItHas) {
  for (const double loss : {0.0, 0.3}) {
    Meeting meeting({.loss = loss}, 3);
    meeting.begin(client_context(bad_key));
    expect_refused(meeting, ExitCode::not_allowed);
    EXPECT_TRUE(meeting.client->refused());
    const Event* rejected = meeting.event(Event::Kind::rejected);
    ASSERT_NE(rejected, nullptr);
    EXPECT_NE(rejected->text.find(key(bad_key).pin().text()), std::string::npos);
  }
}

TEST(Standing, AServerWithAnotherKeyGetsNothing) {
  Meeting meeting;
  meeting.begin(client_context(good_key, bad_key));
  expect_refused(meeting, ExitCode::protocol_error);
  EXPECT_NE(meeting.client->failure().text.find(key(server_key).pin().text()), std::string::npos);
}

TEST(Standing, ASharedSecretIsEnoughAndAnotherIsNot) {
  const Secret secret = Secret::random(32).value(), other = Secret::random(32).value();
  Meeting meeting({}, 1, Meeting::standing(server_context(&secret)));
  meeting.begin(client_context(bad_key, bad_key, &secret));
  meeting.source.add("file", random_content(1000, 1));
  EXPECT_TRUE(meeting.run());
  meeting.expect_arrived();
  meeting.step();
  ASSERT_NE(meeting.event(Event::Kind::done), nullptr);
  EXPECT_EQ(meeting.event(Event::Kind::done)->client, "shared secret");

  Meeting wrong({}, 1, Meeting::standing(server_context(&secret)));
  wrong.begin(client_context(bad_key, bad_key, &other));
  expect_refused(wrong, ExitCode::protocol_error);
}

TEST(Standing, AnyoneMayComeWhereThatIsAllowed) {
  Meeting meeting({}, 1, Meeting::standing(server_context(nullptr, true)));
  meeting.begin(client_context(bad_key));
  meeting.source.add("file", random_content(1000, 1));
  EXPECT_TRUE(meeting.run());
  meeting.expect_arrived();
}

// Threat: somebody on the path who changes the cipher that the client has chosen, or the handshake itself.
TEST(Standing, AChangedHandshakeLeadsToNoSession) {
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    SCOPED_TRACE(seed);
    Prng prng(seed);
    Meeting meeting({}, seed);
    meeting.begin();
    bool changed = false;
    // Behind the envelope and the cookie: cipher, offset, acknowledgement, bytes of TLS.
    for (Link* link : {&meeting.forward, &meeting.back}) {
      link->set_filter([&, link](TimePoint now, ConstBytes datagram) {
        const auto envelope = parse_envelope(datagram);
        if (!envelope || envelope->kind != Kind::control || changed || prng.chance(0.5)) {
          return true;
        }
        changed = true;
        Content bytes(datagram.begin(), datagram.end());
        const std::size_t from = envelope_bytes + cookie_bytes;
        bytes[from + prng.below(bytes.size() - from)] ^= static_cast<std::byte>(1U << prng.below(8));
        link == &meeting.forward ? meeting.server.receive(now, bytes, meeting.peer)
                                 : meeting.client->receive(now, bytes, meeting.server_peer);
        return false;
      });
    }
    meeting.source.add("file", random_content(1000, seed));
    EXPECT_TRUE(meeting.run());
    // Either the changed bytes counted, and the ends disagree, or they did not, and everything is as it should be.
    if (meeting.sender && meeting.sender->exit_code() == ExitCode::ok) {
      meeting.expect_arrived();
    } else {
      EXPECT_TRUE(meeting.destination.files.empty());
    }
  }
}

TEST(Standing, NothingBeginsWithoutACookieOfThisPeerThisConnectionAndThisMoment) {
  Meeting meeting;
  meeting.begin();
  Content hello;  // the CONTROL with the ClientHello
  meeting.forward.set_filter([&](TimePoint, ConstBytes datagram) {
    if (parse_envelope(datagram)->kind == Kind::control) {
      hello.assign(datagram.begin(), datagram.end());
      return false;
    }
    return true;
  });
  meeting.run(1s);
  ASSERT_FALSE(hello.empty());
  const auto before = meeting.sent_to;
  const auto expect_ignored = [&](TimePoint now, ConstBytes datagram, const Peer& from) {
    meeting.server.receive(now, datagram, from);
    EXPECT_EQ(meeting.server.handshakes(), 0U);
  };
  Content forged = hello;
  forged[envelope_bytes + 23] ^= std::byte{1};
  expect_ignored(meeting.now, forged, meeting.peer);
  forged = hello;
  forged[envelope_bytes - 1] ^= std::byte{1};  // another connection
  expect_ignored(meeting.now, forged, meeting.peer);
  expect_ignored(meeting.now, hello, peer_named("victim"));
  expect_ignored(meeting.now + CookieJar::lifetime + 2s, hello, meeting.peer);
  meeting.step();
  EXPECT_EQ(meeting.sent_to, before) << "and nothing is answered";
  EXPECT_EQ(meeting.server.drops().bad_cookie, 4U);
  meeting.server.receive(meeting.now, hello, meeting.peer);
  EXPECT_EQ(meeting.server.handshakes(), 1U);
}

// What a stranger's address gets before its cookie came back, and what an address gets that sent one ClientHello.
TEST(Standing, AStrangersAddressNeverGetsMoreThanCameFromIt) {
  Meeting meeting;
  Content out(2000);
  const Peer victim = peer_named("victim");
  std::size_t received = 0;
  const auto send = [&](std::size_t size) {
    received += size;
    meeting.server.receive(meeting.now, ConstBytes(out).first(size), victim);
  };
  const Envelope envelope{Kind::hello, 0, 42};
  const Content bytes(300);
  for (int i = 0; i < 100; ++i) {
    send(emit_hello(envelope, {1, 1392}, out));
    send(emit_control(envelope, {.cipher = 1, .bytes = bytes}, out));
    send(emit_offer(envelope, {.adu_bytes = 1392, .files = 1, .manifest_bytes = 31}, out));
    send(emit_probe(envelope, {1, 0, 1}, out));
    meeting.begin();
    meeting.step();
    meeting.now += 100ms;
    EXPECT_LE(meeting.sent_to["victim"], received);
  }
  EXPECT_GT(meeting.sent_to["victim"], 0U);
  EXPECT_EQ(meeting.server.handshakes(), 0U);
}

TEST(Standing, AClientWithoutAHandshakeIsToldWhatIsWrong) {
  WorldOptions options;
  World world(options);
  ServerOptions standing = Meeting::standing();
  world.server = std::make_unique<Server>(standing, world.destination);
  world.source.add("file", random_content(1000, 1));
  world.run();
  ASSERT_TRUE(world.sender->finished());
  EXPECT_EQ(world.sender->exit_code(), ExitCode::not_allowed);
  EXPECT_TRUE(world.destination.files.empty());
}

TEST(Standing, AServerWithoutHandshakesSaysSo) {
  ServerOptions options;
  options.insecure = true;
  Meeting meeting({}, 1, options);
  expect_refused(meeting, ExitCode::not_allowed);
  EXPECT_NE(meeting.client->failure().text.find("--insecure"), std::string::npos);
  EXPECT_FALSE(meeting.client->refused());
}

TEST(Standing, AFullServerSaysSoSealed) {
  ServerOptions options = Meeting::standing();
  options.session_limits.sessions_max = 1;
  options.session_limits.per_host_max = 1;
  Meeting meeting({}, 1, options);
  meeting.source.add("file", random_content(1000, 1));
  meeting.server.expect(protection_of(5, Side::responder));
  // Somebody else's session takes the only room and makes progress.
  MemorySource other;
  other.add("other", random_content(10'000'000, 2));
  FixedRate slow(100'000);
  SenderOptions first_options;
  first_options.peer = meeting.server_peer;
  Sender first(meeting.now, first_options, other, slow, protection_of(5, Side::initiator));
  EXPECT_TRUE(meeting.run(60s, [&] {
    transmit_all(first, meeting.now, [&](ConstBytes datagram, const Peer&) {
      meeting.server.receive(meeting.now, datagram, peer_named("other"));
    });
  }));
  ASSERT_NE(meeting.sender, nullptr);
  EXPECT_EQ(meeting.sender->exit_code(), ExitCode::refused);
}

TEST(Standing, AQuotaRefusesAtTheOfferAndCountsWhatWasWritten) {
  ServerOptions options = Meeting::standing();
  options.quota_bytes = 100'000;
  Meeting meeting({}, 1, options);
  meeting.source.add("large", random_content(100'001, 1));
  EXPECT_TRUE(meeting.run());
  ASSERT_NE(meeting.sender, nullptr);
  EXPECT_EQ(meeting.sender->exit_code(), ExitCode::refused);
  EXPECT_EQ(meeting.destination.writes, 0U) << "before anything was written";
  EXPECT_EQ(meeting.server.quota_left(), 100'000U);
  const Event* error = meeting.event(Event::Kind::error);
  ASSERT_NE(error, nullptr);
  EXPECT_NE(error->text.find("100001 bytes"), std::string::npos) << error->text;

  Meeting fits({}, 1, options);
  fits.source.add("fits", random_content(99'999, 1));
  EXPECT_TRUE(fits.run());
  fits.expect_arrived();
  EXPECT_EQ(fits.server.quota_left(), 1U);
}

TEST(Standing, ATransferThatFailsGivesBackWhatItDidNotWrite) {
  ServerOptions options = Meeting::standing();
  options.quota_bytes = 1'000'000;
  options.transfer_bytes_max = 900'000;
  Meeting meeting({}, 1, options);
  meeting.source.add("file", random_content(800'000, 1));
  EXPECT_TRUE(meeting.run(200s, [&] {
    if (meeting.sender && meeting.destination.writes > 100) {
      meeting.sender->interrupt(meeting.now);
    }
  }));
  for (int i = 0; i < 100; ++i) {
    meeting.now += 1s;
    meeting.step();
  }
  EXPECT_LT(meeting.server.quota_left(), 1'000'000U - 100 * 1000);
  EXPECT_GT(meeting.server.quota_left(), 200'000U);

  Meeting larger({}, 1, options);
  larger.source.add("file", random_content(900'001, 1));
  EXPECT_TRUE(larger.run());
  ASSERT_NE(larger.sender, nullptr);
  EXPECT_EQ(larger.sender->exit_code(), ExitCode::refused);
}

// Threat: empty files without end, which take no byte of a quota.
TEST(Standing, AQuotaOfEntriesRefusesAtTheOfferAndCountsWhatWasMade) {
  ServerOptions options = Meeting::standing();
  options.quota_entries = 10;
  options.transfer_entries_max = 8;
  const auto send = [&](int files, auto&& look) {
    Meeting meeting({}, 1, options);
    for (int i = 0; i < files; ++i) {
      meeting.source.add("empty-" + std::to_string(i), {});
    }
    EXPECT_TRUE(meeting.run());
    ASSERT_NE(meeting.sender, nullptr);
    look(meeting);
  };
  send(9, [](Meeting& meeting) {
    EXPECT_EQ(meeting.sender->exit_code(), ExitCode::refused);
    EXPECT_EQ(meeting.server.quota_entries_left(), 10U);
    const Event* error = meeting.event(Event::Kind::error);
    ASSERT_NE(error, nullptr);
    EXPECT_NE(error->text.find("9 entries of 8"), std::string::npos) << error->text;
  });
  send(8, [](Meeting& meeting) {
    EXPECT_EQ(meeting.sender->exit_code(), ExitCode::ok);
    EXPECT_EQ(meeting.server.quota_entries_left(), 2U);
  });
  // What the bytes refuse takes no entries either.
  options.quota_bytes = 10;
  Meeting large({}, 1, options);
  large.source.add("large", random_content(11, 1));
  EXPECT_TRUE(large.run());
  EXPECT_EQ(large.server.quota_entries_left(), 10U);
}

// Threat: so many half-open handshakes that nobody else gets in, from so many hosts as you like, each with a cookie.
TEST(Standing, TenThousandHalfOpenHandshakesAreBoundedWhileAGoodClientTransfers) {
  ServerOptions options = Meeting::standing();
  options.host_of = [](ConstBytes address) { return address.first(std::min<std::size_t>(address.size(), 5)); };
  Meeting meeting({.delay = 20ms}, 1, options);
  meeting.source.add("file", random_content(20'000'000, 1));
  const Handshake attacker = client_context(bad_key).begin().value();
  const std::vector<std::byte> client_hello = const_cast<Handshake&>(attacker).take_output();
  const CookieJar jar(options.seed);  // stands for a HELLO and a COOKIE of each
  int begun = 0;
  std::size_t most = 0;
  const TimePoint started = meeting.now;
  meeting.begin();
  EXPECT_TRUE(meeting.run(200s, [&] {
    // A thousand hosts, in turn, five a millisecond: before, during and after the good client's handshake.
    for (; begun < 10'000 && begun * 200us <= meeting.now - started; ++begun) {
      const Peer from = peer_named(std::to_string(10'000 + begun % 1000) + "/" + std::to_string(begun));
      const Envelope envelope{Kind::control, 0, 1'000'000 + static_cast<std::uint64_t>(begun)};
      Content out(2000);
      const Control control{
          .cookie = jar.issue(meeting.now, from, envelope.connection), .cipher = 1, .bytes = client_hello};
      meeting.server.receive(meeting.now, ConstBytes(out).first(emit_control(envelope, control, out)), from);
    }
    most = std::max(most, meeting.server.handshakes());
  }));
  meeting.expect_arrived();
  EXPECT_EQ(begun, 10'000);
  EXPECT_LE(most, options.handshake_limits.handshakes_max);
  EXPECT_GT(most, options.handshake_limits.handshakes_max / 2);
  EXPECT_GT(meeting.server.drops().no_handshake, 0U);
  meeting.now += 11s;
  meeting.step();
  EXPECT_EQ(meeting.server.handshakes(), 0U) << "all were given up";
}

// Threat: one host that takes all the room there is.
TEST(Standing, AHostHasAPartOfTheHandshakes) {
  ServerOptions options = Meeting::standing();
  options.host_of = [](ConstBytes address) { return address.first(std::min<std::size_t>(address.size(), 4)); };
  Meeting meeting({}, 1, options);
  Handshake attacker = client_context(bad_key).begin().value();
  const std::vector<std::byte> client_hello = attacker.take_output();
  const CookieJar jar(options.seed);
  Content out(2000);
  for (std::uint64_t i = 0; i < 100; ++i) {
    const Peer from = peer_named("evil" + std::to_string(i));
    const Control control{.cookie = jar.issue(meeting.now, from, i), .cipher = 1, .bytes = client_hello};
    meeting.server.receive(meeting.now, ConstBytes(out).first(emit_control({Kind::control, 0, i}, control, out)), from);
  }
  EXPECT_EQ(meeting.server.handshakes(), options.handshake_limits.per_host_max);
  meeting.source.add("file", random_content(1000, 1));
  EXPECT_TRUE(meeting.run());
  meeting.expect_arrived();
}

}  // namespace
}  // namespace sluice::ftx::test
