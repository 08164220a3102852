// SPDX-License-Identifier: Apache-2.0
// Files that clients fetch from a standing server: who may, what, how many at once, and what lies lead to.
#include "apps/ftx/session/pulls.h"

#include <gtest/gtest.h>

#include "tests/apps/ftx/session/meeting.h"

namespace sluice::ftx::test {
namespace {

/// Files in memory, by path.
class MemoryProvider final : public Provider {
 public:
  std::map<std::string, Content> files;
  std::vector<PullRequest> asked;
  std::uint64_t rate = 10'000'000;

  std::expected<OpenedPull, Failure> open(const PullRequest& request, const Peer& to) override {
    asked.push_back(request);
    auto source = std::make_unique<MemorySource>();
    for (const std::string& path : request.paths) {
      if (!files.contains(path)) {
        return std::unexpected(Failure{ExitCode::source_unreadable, "cannot read '" + path + "'"});
      }
      source->add(path.substr(path.rfind('/') + 1), files[path]);
    }
    return OpenedPull{std::move(source), std::make_unique<FixedRate>(rate), {.peer = to, .path = {}}};
  }
};

/// A server that a client fetches from.
struct Fetch {
  explicit Fetch(LinkFaults faults = {}, std::uint64_t seed = 1, ServerOptions options = Meeting::standing())
      : meeting(faults, seed, with(std::move(options), provider)) {
    provider.files["a"] = random_content(300'000, seed);
    provider.files["sub/b"] = random_content(5, seed + 1);
    meeting.wanted.paths = {"a", "sub/b"};
  }
  static ServerOptions with(ServerOptions options, MemoryProvider& provider) {
    options.provider = &provider;
    return options;
  }
  void expect_arrived() {
    EXPECT_EQ(meeting.fetch_outcome(), ExitCode::ok);
    EXPECT_EQ(meeting.fetched.files.size(), meeting.wanted.paths.size());
    for (const std::string& path : meeting.wanted.paths) {
      EXPECT_TRUE(meeting.fetched.files[path.substr(path.rfind('/') + 1)] == provider.files[path]) << path;
    }
  }
  void expect_refused(ExitCode code, std::string_view text) {
    EXPECT_TRUE(meeting.run());
    ASSERT_EQ(meeting.client->state(), ClientHandshake::State::failed);
    EXPECT_EQ(meeting.client->failure().code, code);
    EXPECT_NE(meeting.client->failure().text.find(text), std::string::npos) << meeting.client->failure().text;
    EXPECT_TRUE(meeting.fetched.files.empty() && meeting.fetched.temporaries.empty());
    EXPECT_EQ(meeting.server.sessions(), 0U);
  }

  MemoryProvider provider;
  Meeting meeting;
};

TEST(Pulls, AClientFetchesAndTheServerKnowsWhoItIs) {
  for (const Cipher cipher : {Cipher::aes_128_gcm, Cipher::chacha20_poly1305}) {
    Fetch fetch;
    fetch.meeting.cipher = cipher;
    EXPECT_TRUE(fetch.meeting.run());
    fetch.expect_arrived();
    const Event* done = fetch.meeting.event(Event::Kind::done);
    ASSERT_NE(done, nullptr);
    EXPECT_EQ(done->client, key(good_key).pin().text());
    EXPECT_TRUE(done->sent);
    EXPECT_EQ(done->bytes, 300'005U);
    EXPECT_EQ(done->path, "a and 1 more");
    EXPECT_NE(to_json(*done).find("\"sent\":true"), std::string::npos);
    EXPECT_EQ(fetch.meeting.server.handshakes(), 0U);
    EXPECT_EQ(fetch.meeting.server.sessions(), 0U);
  }
}

TEST(Pulls, AnyLinkLetsThemThrough) {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(seed);
    Fetch fetch(drawn_link(seed), seed);
    EXPECT_TRUE(fetch.meeting.run());
    fetch.expect_arrived();
  }
}

// HELLO, COOKIE; ClientHello, ServerHello .. Finished; Finished with the request or the OFFER, and the answer.
TEST(Pulls, TheSessionBeginsWithTheClientsLastFlight) {
  Fetch fetch({.delay = 10ms});
  const TimePoint start = fetch.meeting.now;
  TimePoint begun{};
  EXPECT_TRUE(fetch.meeting.run(200s, [&] {
    if (begun == TimePoint{} && fetch.meeting.receiver && fetch.meeting.receiver->begun()) {
      begun = fetch.meeting.now;
    }
  }));
  fetch.expect_arrived();
  EXPECT_GE(begun - start, 60ms);
  EXPECT_LT(begun - start, 65ms) << "the OFFER comes after three round trips";

  Meeting push({.delay = 10ms});
  push.source.add("file", random_content(1000, 1));
  TimePoint answered{};
  EXPECT_TRUE(push.run(200s, [&] {
    if (answered == TimePoint{} && push.sender && push.sender->answered()) {
      answered = push.now;
    }
  }));
  push.expect_arrived();
  EXPECT_LT(answered - start, 65ms) << "and so does the first REPORT";
}

ServerOptions with_access(Access access) {
  ServerOptions options = Meeting::standing();
  options.access = [access](const Client& client) {
    EXPECT_EQ(client.key, key(good_key).pin());
    return access;
  };
  return options;
}

TEST(Pulls, WhoMayNotFetchIsToldSo) {
  for (const double loss : {0.0, 0.3}) {
    Fetch fetch({.loss = loss}, 5, with_access(Access::write));
    fetch.expect_refused(ExitCode::not_allowed, "not fetch");
    EXPECT_TRUE(fetch.provider.asked.empty()) << "nothing is even looked at";
    EXPECT_FALSE(fetch.meeting.client->refused()) << "that is no matter of the key";
  }
  Meeting nothing_to_send;
  nothing_to_send.wanted.paths = {"a"};
  EXPECT_TRUE(nothing_to_send.run());
  EXPECT_EQ(nothing_to_send.client->failure().code, ExitCode::not_allowed);
}

TEST(Pulls, WhoMayNotSendIsToldSoAndNothingIsWritten) {
  Meeting meeting({}, 1, with_access(Access::read));
  meeting.source.add("file", random_content(1000, 1));
  EXPECT_TRUE(meeting.run());
  ASSERT_NE(meeting.sender, nullptr);
  EXPECT_EQ(meeting.sender->exit_code(), ExitCode::not_allowed);
  EXPECT_EQ(meeting.server.sessions(), 0U);
  EXPECT_EQ(meeting.destination.writes, 0U);
  Fetch fetch({}, 1, with_access(Access::read));
  EXPECT_TRUE(fetch.meeting.run());
  fetch.expect_arrived();
}

TEST(Pulls, AFileThatIsNotThereEndsTheClientWithTheServersWords) {
  for (const double loss : {0.0, 0.3}) {
    Fetch fetch({.loss = loss}, 4);
    fetch.meeting.wanted.paths = {"a", "no such"};
    fetch.expect_refused(ExitCode::source_unreadable, "cannot read 'no such'");
    ASSERT_NE(fetch.meeting.event(Event::Kind::rejected), nullptr);
    EXPECT_NE(fetch.meeting.event(Event::Kind::rejected)->text.find(key(good_key).pin().text()), std::string::npos);
    EXPECT_EQ(fetch.provider.asked.size(), 1U) << "a request counts once, however often its record comes";
  }
}

TEST(Pulls, LimitsAndQuotaHoldBothWays) {
  ServerOptions options = Meeting::standing();
  options.transfer_bytes_max = 300'004;
  Fetch too_large({}, 1, options);
  too_large.expect_refused(ExitCode::refused, "larger than a transfer");
  EXPECT_EQ(too_large.meeting.server.quota_left(), Budget::unlimited);

  options.transfer_bytes_max = 300'005;
  options.quota_bytes = 300'004;
  Fetch beyond({}, 1, options);
  beyond.expect_refused(ExitCode::refused, "quota");
  EXPECT_EQ(beyond.meeting.server.quota_left(), 300'004U);

  options.quota_bytes = 400'000;
  Fetch fits({}, 1, options);
  EXPECT_TRUE(fits.meeting.run());
  fits.expect_arrived();
  EXPECT_EQ(fits.meeting.server.quota_left(), 400'000U - 300'005U);
}

TEST(Pulls, WhatWasNotSentIsGivenBackToTheQuota) {
  ServerOptions options = Meeting::standing();
  options.quota_bytes = 1'000'000;
  Fetch fetch({}, 1, options);
  fetch.provider.rate = 100'000;
  bool told = false;
  EXPECT_TRUE(fetch.meeting.run(200s, [&] {
    if (!told && fetch.meeting.fetched.writes > 20) {
      fetch.meeting.receiver->interrupt(fetch.meeting.now);
      told = true;
    }
  }));
  EXPECT_EQ(fetch.meeting.fetch_outcome(), ExitCode::interrupted);
  EXPECT_GT(fetch.meeting.server.quota_left(), 1'000'000U - 200'000U);
  EXPECT_LT(fetch.meeting.server.quota_left(), 1'000'000U - 20'000U);
}

TEST(Pulls, AnInterruptedServerTellsItsClients) {
  Fetch fetch;
  bool told = false;
  EXPECT_TRUE(fetch.meeting.run(200s, [&] {
    if (!told && fetch.meeting.fetched.writes > 20) {
      EXPECT_EQ(fetch.meeting.server.open_sessions(), 1U);
      fetch.meeting.server.interrupt(fetch.meeting.now);
      told = true;
    }
  }));
  EXPECT_EQ(fetch.meeting.fetch_outcome(), ExitCode::interrupted);
  EXPECT_TRUE(fetch.meeting.fetched.files.empty() && fetch.meeting.fetched.temporaries.empty());
}

/// A client's handshake up to its keys, at a server alone: no link, no time.
std::unique_ptr<ClientHandshake> shake(Server& server, TimePoint now, const Peer& from, std::vector<std::string> paths,
                                       std::uint64_t seed) {
  ClientHandshakeOptions options{.peer = peer_named("server"), .seed = seed};
  options.request = PullRequest{.paths = std::move(paths)};
  auto client = std::make_unique<ClientHandshake>(now, std::move(options), client_context().begin().value());
  for (int round = 0; round < 4; ++round) {
    transmit_all(*client, now, [&](ConstBytes datagram, const Peer&) { server.receive(now, datagram, from); });
    for (bool answered = true; answered;) {
      Burst burst;
      server.transmit(now, burst);
      answered = !burst.left().empty();
      for (const Outgoing& datagram : burst.left()) {
        if (datagram.to == from && datagram.rest.empty()) {
          client->receive(now, datagram.front, peer_named("server"));
        }
      }
    }
  }
  return client;
}

// Threat: clients that are allowed to fetch, and ask without end, so that nobody else is served.
TEST(Pulls, AHostAndAllOfThemHaveBoundsAndWhoTakesNothingGivesWay) {
  MemoryProvider provider;
  provider.files["a"] = random_content(100'000, 1);
  MemoryDestination destination;
  ServerOptions options = Fetch::with(Meeting::standing(), provider);
  options.pull_limits = {.sessions_max = 5, .per_host_max = 3, .stalled_after = 3s};
  options.host_of = [](ConstBytes address) { return address.first(1); };
  Server server(options, destination);
  TimePoint now{1h};
  const auto ask = [&](const std::string& from) {
    static std::uint64_t seed = 100;
    return shake(server, now, peer_named(from), {"a"}, ++seed);
  };
  for (const char* from : {"x1", "x2", "x3"}) {
    EXPECT_TRUE(ask(from)->has_keys());
  }
  EXPECT_EQ(server.open_sessions(), 3U);
  const auto fourth = ask("x4");
  EXPECT_EQ(fourth->failure().code, ExitCode::refused) << "of one host";
  EXPECT_EQ(server.open_sessions(), 3U);
  ask("y1");
  ask("z1");
  EXPECT_EQ(server.open_sessions(), 5U);
  EXPECT_TRUE(ask("w1")->has_keys()) << "one of the host that has three gave way";
  EXPECT_TRUE(ask("v1")->has_keys()) << "and one of two";
  EXPECT_EQ(server.open_sessions(), 5U);
  EXPECT_EQ(ask("u1")->failure().code, ExitCode::refused) << "in all";
  now += 2900ms;
  EXPECT_EQ(ask("u2")->failure().code, ExitCode::refused) << "not before they have had their time";
  now += 100ms;
  const auto late = ask("u3");
  EXPECT_NE(late->state(), ClientHandshake::State::failed);
  EXPECT_EQ(server.open_sessions(), 5U) << "one gave way";
  EXPECT_EQ(server.open_sessions(), 5U);
  now += 60s;
  Burst burst;
  for (int i = 0; i < 1000; ++i) {
    server.transmit(now, burst);
    now += 100ms;
  }
  EXPECT_EQ(server.sessions(), 0U) << "nobody took anything";
  EXPECT_EQ(server.handshakes(), 0U);
}

// Threat: a host at its own limit that drives out others.
TEST(Pulls, AHostAtItsLimitGetsOnlyTheRoomOfItsOwn) {
  MemoryProvider provider;
  provider.files["a"] = random_content(100'000, 1);
  MemoryDestination destination;
  ServerOptions options = Fetch::with(Meeting::standing(), provider);
  options.pull_limits = {.sessions_max = 10, .per_host_max = 1, .stalled_after = 3s};
  options.host_of = [](ConstBytes address) { return address.first(1); };
  Server server(options, destination);
  TimePoint now{1h};
  shake(server, now, peer_named("x1"), {"a"}, 1);
  now += 1s;
  const auto own = shake(server, now, peer_named("y1"), {"a"}, 2);
  ASSERT_TRUE(own->has_keys());
  now += 2s;
  EXPECT_EQ(shake(server, now, peer_named("y2"), {"a"}, 3)->failure().code, ExitCode::refused)
      << "another host's has stalled, its own has not";
  now += 1s;
  EXPECT_NE(shake(server, now, peer_named("y2"), {"a"}, 4)->state(), ClientHandshake::State::failed);
}

// One that can always send does not keep the others from it.
TEST(Pulls, SessionsTakeTurns) {
  MemoryProvider provider;
  provider.files["a"] = random_content(10'000'000, 1);
  provider.rate = 1'000'000'000;
  MemoryDestination destination;
  Server server(Fetch::with(Meeting::standing(), provider), destination);
  TimePoint now{1h};
  std::map<std::string, int> bursts;
  for (const char* name : {"x1", "y1", "z1"}) {
    shake(server, now, peer_named(name), {"a"}, static_cast<std::uint64_t>(name[0]));
  }
  Burst burst;
  for (int i = 0; i < 30; ++i) {
    now += 300ms;  // each repeats its OFFER
    for (server.transmit(now, burst); !burst.left().empty(); server.transmit(now, burst)) {
      ++bursts[std::string(as_text(burst.left().front().to.address()))];
      if (bursts.size() == 3) {
        return;
      }
      now += 300ms;  // the one before has something to send again
    }
  }
  FAIL() << bursts.size() << " of three were ever heard";
}

// Threat: what may be said behind the handshake is one request. Each row is what a client says instead.
TEST(Pulls, WhatIsNoRequestEndsTheHandshakeWithoutASession) {
  const Content good = *encode(PullRequest{.paths = {"a"}});
  const auto changed = [&](std::size_t at, int value) {
    Content bytes = good;
    bytes[at] = static_cast<std::byte>(value);
    return bytes;
  };
  Content twice = good;
  twice.insert(twice.end(), good.begin(), good.end());
  Content many(request_bytes_max + 1, std::byte{1});
  const std::pair<const char*, Content> rows[] = {
      {"an unknown kind", changed(0, 3)},
      {"a server's refusal", encode(PullRefusal{ExitCode::refused, "no"})},
      {"two requests", twice},
      {"longer than any", changed(1, 0xff)},
      {"no such congestion control", changed(3, 0)},
      {"a rate for what has none", changed(11, 1)},
      {"no such trees", changed(16, 3)},
      {"a selection of all below names that it has not", changed(17, 8)},
      {"a rule that is not there", changed(19, 1)},
      {"no path", changed(21, 0)},
      {"more paths than there are", changed(21, 2)},
      {"an empty path", changed(23, 0)},
      {"a path beyond the message", changed(23, 2)},
      {"too much", many},
  };
  for (const auto& [what, bytes] : rows) {
    SCOPED_TRACE(what);
    MemoryProvider provider;
    provider.files["a"] = random_content(1000, 1);
    MemoryDestination destination;
    Server server(Fetch::with(Meeting::standing(), provider), destination);
    const TimePoint now{1h};
    const Peer from = peer_named("client");
    const CookieJar jar(1000);
    Handshake client = client_context().begin().value();
    ControlStream stream;
    const auto exchange = [&] {
      EXPECT_TRUE(stream.send(client.take_output()));
      Content out(control_bytes_max);
      while (auto control = stream.next(now)) {
        control->cookie = jar.issue(now, from, 5);
        control->cipher = 1;
        server.receive(now, ConstBytes(out).first(emit_control({Kind::control, 0, 5}, *control, out)), from);
      }
      transmit_all(server, now, [&](ConstBytes datagram, const Peer&) {
        const auto control = parse_control(datagram);
        ASSERT_TRUE(control && parse_envelope(datagram)->kind == Kind::control) << "nothing else is sent";
        stream.receive(now, *control);
      });
      client.accept(stream.take_received());
    };
    exchange();
    ASSERT_EQ(client.state(), Handshake::State::complete);
    ASSERT_TRUE(client.write(bytes));
    exchange();
    exchange();
    EXPECT_TRUE(provider.asked.empty());
    EXPECT_EQ(server.sessions(), 0U);
    EXPECT_EQ(server.handshakes(), 0U) << "it has heard the refusal";
    const auto message = parse_pull_message(client.take_data());
    ASSERT_TRUE(message && *message);
    EXPECT_EQ(std::get<PullRefusal>(**message).code, ExitCode::protocol_error);
  }
}

}  // namespace
}  // namespace sluice::ftx::test
