// SPDX-License-Identifier: Apache-2.0
// Sealed sessions, and what somebody on the path, or off it, does to them.
#include <gtest/gtest.h>

#include "tests/apps/ftx/session/bench.h"
#include "tests/apps/ftx/session/simulation.h"

namespace sluice::ftx::test {
namespace {

WorldOptions sealed_options(std::uint64_t seed = 1) {
  WorldOptions options;
  options.seed = seed;
  options.sealed = true;
  return options;
}

void expect_arrived_sealed(World& world, bool undisturbed = true) {
  world.run();
  ASSERT_TRUE(world.sender->finished());
  EXPECT_EQ(world.sender->exit_code(), ExitCode::ok);
  EXPECT_TRUE(world.all_equal());
  ASSERT_NE(world.server_event(Event::Kind::done), nullptr);
  EXPECT_EQ(world.server->memory_left(), world.options.server.memory_bytes_max);
  EXPECT_TRUE(world.spins == 0U || !undisturbed);
}

TEST(Sealed, FilesOfEverySizeArriveWithoutAGreeting) {
  const std::uint32_t adu = adu_bytes_for(1472, true);
  for (const Cipher cipher : {Cipher::aes_128_gcm, Cipher::chacha20_poly1305}) {
    for (const std::size_t size : {0UL, 1UL, adu - 1UL, adu + 0UL, adu + 1UL, 64UL * adu, 65UL * adu + 7, 1000000UL}) {
      SCOPED_TRACE(size);
      WorldOptions options = sealed_options();
      options.cipher = cipher;
      World world(options);
      Kind first{};
      world.forward.set_filter([&](TimePoint, ConstBytes datagram) {
        EXPECT_LE(datagram.size(), 1472U);
        const auto envelope = parse_envelope(datagram);
        EXPECT_TRUE(envelope && envelope->sealed());
        first = first == Kind{} ? envelope->kind : first;
        return true;
      });
      world.back.set_filter([](TimePoint, ConstBytes datagram) {
        const auto envelope = parse_envelope(datagram);
        EXPECT_TRUE(envelope && envelope->sealed());
        return true;
      });
      world.source.add("file", random_content(size, size));
      expect_arrived_sealed(world);
      EXPECT_EQ(first, Kind::offer);
      EXPECT_EQ(world.sender_event(Event::Kind::done)->adus, (size + adu - 1) / adu);
      EXPECT_EQ(world.sender_event(Event::Kind::done)->repaired, 0U);
    }
  }
}

// Bit errors that no checksum caught are losses here: nothing that does not open counts.
TEST(Sealed, AnyLinkDeliversTheSameBytes) {
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    SCOPED_TRACE(seed);
    Prng prng(seed);
    WorldOptions options = sealed_options(seed);
    for (LinkFaults* link : {&options.forward, &options.back}) {
      link->loss = prng.unit() * 0.2;
      link->burst = 1 + prng.unit() * 5;
      link->reorder = prng.unit() * 0.5;
      link->duplicate = prng.unit() * 0.1;
      link->corrupt = prng.unit() * 0.2;
      link->delay = Duration(static_cast<Duration::rep>(prng.below(100'000'000)));
    }
    options.cipher = prng.chance(0.5) ? Cipher::aes_128_gcm : Cipher::chacha20_poly1305;
    if (prng.chance(0.5)) {
      options.limits = AeadLimits{.sealed_max = 50 + prng.below(200), .forged_max = UINT64_MAX};
    }
    World world(options);
    const std::uint64_t files = 1 + prng.below(5);
    for (std::uint64_t i = 0; i < files; ++i) {
      world.source.add("f" + std::to_string(i), random_content(prng.below(300'000), seed + i));
    }
    expect_arrived_sealed(world);
  }
}

TEST(Sealed, KeysChangeOnTheWay) {
  WorldOptions options = sealed_options();
  options.limits = AeadLimits{.sealed_max = 100, .forged_max = UINT64_MAX};
  World world(options);
  bool odd = false, even = false;
  world.forward.set_filter([&](TimePoint, ConstBytes datagram) {
    ((parse_envelope(datagram)->flags & flag_key_phase) != 0 ? odd : even) = true;
    return true;
  });
  world.source.add("file", random_content(2'000'000, 1));
  expect_arrived_sealed(world);
  EXPECT_TRUE(odd && even);
  EXPECT_EQ(world.server->drops().forged, 0U);
}

TEST(Sealed, WithoutTheSecretThereIsNoSession) {
  World world(sealed_options());
  world.server = std::make_unique<Server>(world.options.server, world.destination);
  world.server->expect(protection_of(2, Side::responder));
  world.source.add("file", random_content(1000, 1));
  world.run();
  ASSERT_TRUE(world.sender->finished());
  EXPECT_EQ(world.sender->exit_code(), ExitCode::no_answer);
  EXPECT_EQ(world.server->sessions(), 0U);
  EXPECT_EQ(world.back.sent, 0U) << "strangers get no answer";
}

// Threat: a client or an attacker who leaves the seal away, and a server who takes it.
TEST(Sealed, NothingUnsealedIsTakenOrAnswered) {
  World world(sealed_options());
  world.source.add("file", random_content(500'000, 1));
  world.run([&] { return world.server->sessions() == 1 && world.forward.sent > 100; });
  ASSERT_EQ(world.server->sessions(), 1U);
  const Envelope plain{Kind::hello, 0, protection_of(1, Side::initiator).connection()};
  Content out(2000);
  const auto inject = [&](std::size_t size) { world.inject(ConstBytes(out).first(size)); };
  const auto answer = [&](std::size_t size) { world.sender->receive(world.now, ConstBytes(out).first(size)); };
  const std::uint64_t before = world.sender->dropped();
  inject(emit_hello(plain, {1, 1408}, out));
  inject(emit_offer(plain, {.adu_bytes = 1408, .files = 1, .manifest_bytes = 31}, out));
  inject(emit_error(plain, {5, "forged"}, out));
  inject(emit_close(plain, out));
  inject(emit_probe(plain, {1'000'000, 0, 1}, out));
  inject(emit_data_header(plain, {{1'000'001, 0, 1}, {0, 100, 0}, false}, out) + 100);
  answer(emit_error(plain, {5, "forged"}, out));
  answer(emit_close(plain, out));
  answer(emit_cookie(plain, {1, 1408, {}}, out));
  Report finished;
  finished.phase = Phase::finished;
  answer(emit_report(plain, finished, out));
  EXPECT_EQ(world.server->drops().unexpected, 6U);
  EXPECT_EQ(world.sender->dropped(), before + 4);
  expect_arrived_sealed(world);
}

// Threat: somebody on the path who sees everything, and sends what he likes: changed, cut, replayed, sent back,
// of another connection, with another key phase. The transfer ends as if he were not there.
TEST(Sealed, WhoIsOnThePathChangesNothing) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    World world(sealed_options(seed));
    world.source.add("file", random_content(400'000, seed));
    Prng prng(seed);
    Protection stranger = protection_of(seed + 1000, Side::initiator);
    std::uint64_t attacks = 0;
    const auto attack = [&](ConstBytes datagram, const auto& send) {
      Content copy(datagram.begin(), datagram.end());
      switch (prng.below(7)) {
        case 0:
          copy[prng.below(copy.size())] ^= static_cast<std::byte>(1U << prng.below(8));
          break;
        case 1:
          copy.resize(prng.below(copy.size()));
          break;
        case 2:
          break;  // as it is, before the real one: that one is the replay then
        case 3:
          copy.push_back(std::byte{0});
          break;
        case 4:
          copy[3] ^= std::byte{flag_key_phase};
          break;
        case 5:
          store_big_endian(copy.data() + 8, stranger.connection());
          break;
        default:
          std::ranges::fill(Bytes(copy).last(copy.size() / 2), std::byte{0xaa});
      }
      ++attacks;
      send(copy);
    };
    const auto to_server = [&](ConstBytes bytes) { world.inject(bytes); };
    const auto to_sender = [&](ConstBytes bytes) { world.sender->receive(world.now, bytes, world.server_peer); };
    std::vector<Content> seen;
    world.forward.set_filter([&](TimePoint, ConstBytes datagram) {
      if (prng.chance(0.3)) {
        attack(datagram, to_server);
      }
      if (prng.chance(0.1)) {
        attack(datagram, to_sender);
      }
      seen.emplace_back(datagram.begin(), datagram.end());
      world.inject(seen[prng.below(seen.size())]);  // replayed
      return true;
    });
    world.back.set_filter([&](TimePoint, ConstBytes datagram) {
      if (prng.chance(0.3)) {
        attack(datagram, to_sender);
        attack(datagram, to_server);
      }
      return true;
    });
    expect_arrived_sealed(world, false);  // what comes between two steps is answered in the next
    EXPECT_GT(attacks, 100U);
    EXPECT_GT(world.server->drops().forged, 10U);
    EXPECT_EQ(world.server->sessions(), 0U);
  }
}

// Threat: the expected OFFER captured, and sent before or after the client's, from elsewhere.
TEST(Sealed, AnExpectedSessionBeginsOnce) {
  World world(sealed_options());
  world.source.add("file", random_content(1000, 1));
  Content first;
  world.forward.set_filter([&](TimePoint, ConstBytes datagram) {
    if (first.empty()) {
      first.assign(datagram.begin(), datagram.end());
    }
    return true;
  });
  expect_arrived_sealed(world);
  const std::uint64_t unknown = world.server->drops().unknown_connection;
  for (int i = 0; i < 10; ++i) {
    world.inject(first);
  }
  EXPECT_EQ(world.server->sessions(), 0U);
  EXPECT_EQ(world.server->drops().unknown_connection, unknown + 10);
}

// --- Who begins, and from where ------------------------------------------------------------------------------------

WorldOptions pull_options(std::uint64_t seed = 1) {
  WorldOptions options = sealed_options(seed);
  options.pull = true;
  return options;
}

TEST(SealedPull, TheReceiverKnocksAndTheSenderOffers) {
  World world(pull_options());
  std::vector<Kind> first;
  for (Link* link : {&world.forward, &world.back}) {
    link->set_filter([&](TimePoint, ConstBytes datagram) {
      if (first.size() < 2) {
        first.push_back(parse_envelope(datagram)->kind);
      }
      EXPECT_LE(datagram.size(), 1472U);
      return true;
    });
  }
  world.source.add("file", random_content(1'000'000, 1));
  expect_arrived_sealed(world);
  EXPECT_EQ(first, (std::vector{Kind::knock, Kind::offer}));
  EXPECT_EQ(world.misdirected, 0U);
}

TEST(SealedPull, AnyLinkDeliversTheSameBytes) {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    SCOPED_TRACE(seed);
    Prng prng(seed);
    WorldOptions options = pull_options(seed);
    for (LinkFaults* link : {&options.forward, &options.back}) {
      link->loss = prng.unit() * 0.3;
      link->reorder = prng.unit() * 0.5;
      link->duplicate = prng.unit() * 0.1;
      link->corrupt = prng.unit() * 0.1;
    }
    World world(options);
    world.source.add("file", random_content(prng.below(300'000), seed));
    expect_arrived_sealed(world);
  }
}

TEST(SealedPull, NobodyOffersAndTheReceiverSaysSo) {
  MemoryDestination destination;
  Server server({.seed = 1}, destination);
  const TimePoint start{1h};
  TimePoint now = start;
  const std::vector<Peer> addresses{Peer(as_bytes("one")), Peer(as_bytes("two"))};
  server.invite(now, protection_of(1, Side::initiator), addresses, 10s);
  std::map<std::string, int> knocks;
  std::optional<Event> event;
  Content out(2000);
  while (!event && now < start + 1min) {
    Peer to;
    for (std::size_t size = server.transmit(now, out, to); size > 0; size = server.transmit(now, out, to)) {
      EXPECT_EQ(parse_envelope(ConstBytes(out).first(size))->kind, Kind::knock);
      ++knocks[std::string(as_text(to.address()))];
    }
    event = server.next_event();
    ASSERT_GT(server.next_deadline(), now) << "it would spin";
    now = std::min(server.next_deadline(), start + 1min);
  }
  ASSERT_TRUE(event);
  EXPECT_EQ(event->kind, Event::Kind::error);
  EXPECT_EQ(event->code, ExitCode::no_answer);
  EXPECT_EQ(knocks["one"], knocks["two"]);
  EXPECT_GE(knocks["one"], 20);
  EXPECT_LE(knocks["one"], 22);
}

TEST(SealedPull, NobodyKnocksAndTheSenderSaysSo) {
  World world(pull_options());
  world.source.add("file", random_content(1000, 1));
  world.server_alive = false;
  world.run();
  ASSERT_TRUE(world.sender->finished());
  EXPECT_EQ(world.sender->exit_code(), ExitCode::no_answer);
  EXPECT_EQ(world.forward.sent + world.misdirected, 0U);
}

// Threat: an ICMP error that somebody forges for a sender that was asked, and has had no REPORT yet.
TEST(SealedPull, AnIcmpErrorDoesNotEndASenderThatWasAsked) {
  World world(pull_options());
  world.source.add("file", random_content(100'000, 1));
  int before_the_answer = 0;
  world.each_step = [&] {
    if (world.sender && !world.sender->answered() && world.forward.sent > 0) {
      ++before_the_answer;
      world.sender->unreachable(world.now, world.server_peer);
    }
  };
  expect_arrived_sealed(world);
  EXPECT_GT(before_the_answer, 0);
}

// Threat: a KNOCK captured and sent from a victim's address, before the receiver's own comes or after it.
TEST(SealedPull, AVictimGetsThreeTimesWhatCameFromItsAddressAtMost) {
  World world(pull_options());
  for (int i = 0; i < 1000; ++i) {
    world.source.add("a file with a rather long name, so that the list of files is long, too " + std::to_string(i),
                     random_content(100, 1));
  }
  Content knock(2000);
  Peer to;
  knock.resize(world.server->transmit(world.now, knock, to));
  ASSERT_EQ(knock.size(), control_bytes_max);
  world.run([] { return true; });  // makes the sender
  const Peer victim(as_bytes("victim"));
  std::size_t sent = 0;
  for (int i = 0; i < 1000; ++i) {
    world.sender->receive(world.now, knock, victim);
    Burst burst;
    for (world.sender->transmit(world.now, burst); !burst.left().empty(); world.sender->transmit(world.now, burst)) {
      for (const Outgoing& datagram : burst.left()) {
        EXPECT_TRUE(datagram.to == victim);
        sent += datagram.size();
      }
    }
    world.now += 10ms;
  }
  EXPECT_GT(sent, 1000U);
  EXPECT_LE(sent, 3 * control_bytes_max) << "one KNOCK opens, all others are replays";
}

// What came from one address pays for nothing that goes to another.
TEST(SealedPull, AVictimPaysOnlyForItself) {
  World world(pull_options());
  for (int i = 0; i < 1000; ++i) {
    world.source.add("a file with a rather long name, so that the list of files is long, too " + std::to_string(i),
                     random_content(100, 1));
  }
  std::array<Content, 2> knocks;
  Peer to;
  for (Content& knock : knocks) {
    knock.resize(2000);
    for (std::size_t size = 0; size == 0; world.now += 100ms) {
      size = world.server->transmit(world.now, knock, to);
      knock.resize(size == 0 ? 2000 : size);
    }
  }
  world.run([] { return true; });  // makes the sender
  world.sender->receive(world.now, knocks[0], Peer(as_bytes("first")));
  const Peer victim(as_bytes("victim"));
  world.sender->receive(world.now, knocks[1], victim);
  std::size_t sent = 0;
  for (int i = 0; i < 1000; ++i, world.now += 10ms) {
    Burst burst;
    for (world.sender->transmit(world.now, burst); !burst.left().empty(); world.sender->transmit(world.now, burst)) {
      for (const Outgoing& datagram : burst.left()) {
        sent += datagram.to == victim ? datagram.size() : 0;
      }
    }
  }
  EXPECT_GT(sent, 1000U);
  EXPECT_LE(sent, 3 * knocks[1].size());
}

TEST(Sealed, TheFirstAddressThatAnswersCounts) {
  for (const bool nobody_at_first : {false, true}) {
    SCOPED_TRACE(nobody_at_first);
    WorldOptions options = sealed_options();
    const Peer other(as_bytes("other"));
    options.sender.peer = nobody_at_first ? other : Peer(as_bytes("server"));
    options.sender.others = {nobody_at_first ? Peer(as_bytes("server")) : other};
    World world(options);
    world.source.add("file", random_content(300'000, 1));
    expect_arrived_sealed(world);
    if (nobody_at_first) {
      EXPECT_LE(world.misdirected, ReceiveCredit::initial_bytes / 1000) << "the first flight";
    } else {
      EXPECT_EQ(world.misdirected, 1U) << "one OFFER";
    }
    EXPECT_LT(world.sender_event(Event::Kind::done)->seconds, 1);
  }
}

// What ICMP says counts until somebody answers, and for the address that it is about.
TEST(Sealed, AnAddressThatRefusesIsTriedNoMore) {
  MemorySource source;
  source.add("file", random_content(1000, 1));
  FixedRate rate(1'000'000);
  const Peer one(as_bytes("one")), two(as_bytes("two")), three(as_bytes("three"));
  SenderOptions options;
  options.peer = one;
  options.others = {three, two};
  TimePoint now{1h};
  Sender sender(now, options, source, rate, protection_of(1, Side::initiator));
  sender.unreachable(now, Peer(as_bytes("elsewhere")));
  sender.unreachable(now, three);  // before its turn has come
  sender.unreachable(now, one);
  ASSERT_FALSE(sender.finished());
  Burst burst;
  sender.transmit(now, burst);
  ASSERT_FALSE(burst.left().empty());
  EXPECT_TRUE(burst.left().front().to == two);
  sender.unreachable(now, two);
  ASSERT_TRUE(sender.finished());
  EXPECT_EQ(sender.exit_code(), ExitCode::no_answer);
}

// A NAT forgets the sender, or the receiver, and gives it another address in the middle of a transfer.
TEST(Sealed, ATransferSurvivesItsPeersNewAddress) {
  for (const bool pull : {false, true}) {
    for (std::uint64_t seed = 1; seed <= 10; ++seed) {
      SCOPED_TRACE(testing::Message() << pull << " " << seed);
      WorldOptions options = pull ? pull_options(seed) : sealed_options(seed);
      options.forward.loss = options.back.loss = 0.05;
      options.forward.rate = 10'000'000;
      World world(options);
      world.source.add("file", random_content(3'000'000, seed));
      int moves = 0;
      world.each_step = [&] {
        if (world.now - TimePoint(1h) > (moves + 1) * 100ms && moves < 3) {
          ++moves;
          (pull ? world.server_peer : world.peer) = Peer(as_bytes("moved " + std::to_string(moves)));
        }
      };
      expect_arrived_sealed(world);
      EXPECT_EQ(moves, 3);
      EXPECT_LT(world.sender_event(Event::Kind::done)->seconds, 10);
    }
  }
}

// Its last report is lost, and nobody knows where it is: it has to speak again by itself.
TEST(Sealed, AReceiverThatMovesWhenItHasFinishedIsHeard) {
  World world(sealed_options());
  world.source.add("file", random_content(300'000, 1));
  TimePoint moved = never;
  world.back.set_filter([&](TimePoint now, ConstBytes) {
    if (moved == never && !world.destination.files.empty()) {
      moved = now;
      world.server_peer = Peer(as_bytes("moved"));
    }
    return moved == never || now > moved + 100ms;
  });
  expect_arrived_sealed(world);
  EXPECT_LT(world.sender_event(Event::Kind::done)->seconds, 2);
}

// Threat: datagrams captured and sent from a victim's address before the real ones come.
TEST(Sealed, AVictimIsOnlyAskedWhetherItIsThePeer) {
  World world(sealed_options());
  world.source.add("file", random_content(2'000'000, 1));
  const Peer victim(as_bytes("victim"));
  std::size_t stolen = 0;
  bool on = false;
  world.forward.set_filter([&](TimePoint, ConstBytes datagram) {
    if (on) {
      world.server->receive(world.now, datagram, victim);
      stolen += datagram.size();
      return false;
    }
    return true;
  });
  world.each_step = [&] { on = world.forward.sent > 200 && world.forward.sent < 1000; };
  expect_arrived_sealed(world);
  EXPECT_GT(stolen, 500'000U);
  EXPECT_GT(world.misdirected, 0U) << "challenges";
  EXPECT_LT(world.misdirected, 20U);
}

}  // namespace
}  // namespace sluice::ftx::test
