// SPDX-License-Identifier: Apache-2.0
#pragma once

// Meeting: a standing server and a client of it on a simulated link, from the first HELLO on: the client's handshake,
// and beside its end the session that it sends or receives in.

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "apps/ftx/session/client_handshake.h"
#include "base/prng.h"
#include "tests/apps/ftx/session/simulation.h"
#include "tests/apps/ftx/transmit.h"

namespace sluice::ftx::test {

using Role = HandshakeContext::Role;

inline Identity key(int which) {
  static std::map<int, Identity> keys;
  return keys.try_emplace(which, Identity::create().value()).first->second;
}
inline constexpr int server_key = 0, good_key = 1, bad_key = 2;

inline HandshakeContext server_context(const Secret* secret = nullptr, bool anyone = false) {
  HandshakeContext::Options options;
  options.identity = key(server_key);
  options.check_peer = [](const KeyPin& shown) -> Status {
    return shown == key(good_key).pin() ? Status() : fail(EPERM, "the key " + shown.text() + " is not allowed");
  };
  options.anonymous_clients = anyone;
  if (secret != nullptr) {
    options.shared_secret = secret->copy();
  }
  return HandshakeContext::create(Role::server, std::move(options)).value();
}

inline HandshakeContext client_context(int own = good_key, int expected = server_key, const Secret* secret = nullptr) {
  HandshakeContext::Options options;
  options.identity = key(own);
  options.check_peer = expect_key(key(expected).pin());
  if (secret != nullptr) {
    options.shared_secret = secret->copy();
  }
  return HandshakeContext::create(Role::client, std::move(options)).value();
}

inline Peer peer_named(const std::string& name) { return Peer(as_bytes(name)); }

/// A bad link, drawn by `seed`: up to a quarter lost, half reordered, 50 ms of delay.
inline LinkFaults drawn_link(std::uint64_t seed) {
  Prng prng(seed);
  LinkFaults faults;
  faults.loss = prng.unit() * 0.25;
  faults.reorder = prng.unit() * 0.5;
  faults.duplicate = prng.unit() * 0.3;
  faults.delay = Duration(static_cast<Duration::rep>(prng.below(50'000'000)));
  return faults;
}

/// A standing server, the link to it, and one client: its handshake, then its sender.
class Meeting {
 public:
  explicit Meeting(LinkFaults faults = {}, std::uint64_t seed = 1) : Meeting(faults, seed, standing()) {}
  Meeting(LinkFaults faults, std::uint64_t seed, ServerOptions options)
      : seed_(seed), server(std::move(options), destination), forward(faults, 2 * seed), back(faults, 2 * seed + 1) {}

  static ServerOptions standing() { return standing(server_context()); }
  static ServerOptions standing(HandshakeContext context) {
    ServerOptions options;
    options.seed = 1000;
    options.handshake = std::move(context);
    return options;
  }

  void begin(const HandshakeContext& context = client_context()) {
    ClientHandshakeOptions options{.peer = server_peer, .seed = seed_ + 7, .cipher = cipher};
    if (!wanted.paths.empty()) {
      options.request = wanted;
    }
    client = std::make_unique<ClientHandshake>(now, std::move(options), context.begin().value());
  }

  /// The whole of it; false: not within `most`.
  bool run(Duration most = 200s, const std::function<void()>& each_step = {}) {
    if (!client) {
      begin();
    }
    const TimePoint end = now + most;
    while (now < end) {
      step();
      if (each_step) {
        each_step();
      }
      if (client->has_keys()) {
        begin_session();
        continue;
      }
      if (over()) {
        return true;
      }
      TimePoint next =
          std::min({client->next_deadline(), server.next_deadline(), forward.next_arrival(), back.next_arrival()});
      next = std::min(next, sender ? sender->next_deadline() : receiver ? receiver->next_deadline() : never);
      now = std::max(now + 1us, next);
    }
    return false;
  }

  void begin_session() {
    if (!wanted.paths.empty()) {
      ServerOptions options;
      options.seed = seed_;
      options.receiver.update = update;
      receiver = std::make_unique<Server>(options, fetched);
      receiver->invite(now, client->take_protection(), {}, 10s);
      return;
    }
    SenderOptions options;
    options.peer = client->peer();
    options.seed = seed_;
    options.tsdu_bytes = client->tsdu_bytes();
    options.update = update;
    options.delta = update.delta;
    sender = std::make_unique<Sender>(now, options, source, congestion, client->take_protection());
  }

  /// There is an outcome at the client's end.
  [[nodiscard]] bool over() const {
    return client->state() == ClientHandshake::State::failed || (sender && sender->finished()) ||
           (receiver && receiver->begun() && receiver->open_sessions() == 0 && receiver->next_deadline() > now &&
            server.sessions() == 0);
  }

  void step() {
    while (const auto datagram = forward.arrive(now)) {
      server.receive(now, datagram->bytes, peer);
    }
    while (const auto datagram = back.arrive(now)) {
      const auto envelope = parse_envelope(datagram->bytes);
      if (!envelope || client->owns(*envelope)) {
        client->receive(now, datagram->bytes, server_peer);
      } else if (sender) {
        sender->receive(now, datagram->bytes, server_peer);
      } else if (receiver) {
        receiver->receive(now, datagram->bytes, server_peer);
      }
    }
    if ((sender && sender->answered()) || (receiver && receiver->begun())) {
      client->settle();
    }
    const auto out = [&](ConstBytes datagram, const Peer&) { forward.send(now, datagram, Peer()); };
    transmit_all(*client, now, out);
    if (sender) {
      transmit_all(*sender, now, out);
    } else if (receiver) {
      transmit_all(*receiver, now, out);
    }
    transmit_all(server, now, [&](ConstBytes datagram, const Peer& to) {
      sent_to[std::string(as_text(to.address()))] += datagram.size();
      if (to == peer) {
        back.send(now, datagram, Peer());
      }
    });
    while (auto event = server.next_event()) {
      events.push_back(*event);
    }
    while (auto event = sender ? sender->next_change() : std::nullopt) {
      told.push_back(*event);
    }
    while (auto event = receiver ? receiver->next_event() : std::nullopt) {
      fetch_events.push_back(*event);
    }
  }

  [[nodiscard]] const Event* event(Event::Kind kind) const {
    for (const Event& event : events) {
      if (event.kind == kind) {
        return &event;
      }
    }
    return nullptr;
  }
  /// What the receiver of a fetch says of its end; null: nothing yet.
  [[nodiscard]] std::optional<ExitCode> fetch_outcome() const {
    for (const Event& event : fetch_events) {
      if (event.kind == Event::Kind::done || event.kind == Event::Kind::error) {
        return event.code;
      }
    }
    return std::nullopt;
  }
  void expect_arrived() {
    ASSERT_TRUE(sender && sender->finished()) << (client->over() && !sender ? client->failure().text : "no session");
    EXPECT_EQ(sender->exit_code(), ExitCode::ok);
    for (std::uint32_t i = 0; i < source.files().size(); ++i) {
      EXPECT_TRUE(destination.files[std::string(source.files()[i].name)] == source.content(i));
    }
  }

  std::uint64_t seed_;
  TimePoint now{1h};
  MemorySource source;
  Update update{};
  MemoryDestination destination;
  FixedRate congestion{10'000'000};
  Cipher cipher = Cipher::aes_128_gcm;
  Server server;
  std::unique_ptr<ClientHandshake> client;
  std::unique_ptr<Sender> sender;
  PullRequest wanted{};              // with paths: the client fetches
  std::unique_ptr<Server> receiver;  // then
  MemoryDestination fetched;
  std::vector<Event> fetch_events;
  std::vector<Event> told;  // to the sender, of what changes
  Link forward, back;
  Peer peer = peer_named("client");
  Peer server_peer = peer_named("server");
  std::map<std::string, std::size_t> sent_to;
  std::vector<Event> events;
};

}  // namespace sluice::ftx::test
