// SPDX-License-Identifier: Apache-2.0
// How transfers end when they do not succeed: each with its own exit code on both sides, and never a file under its
// final name that is not whole.
#include <gtest/gtest.h>

#include "tests/apps/ftx/session/simulation.h"
#include "tests/apps/ftx/transmit.h"

namespace sluice::ftx::test {
namespace {

constexpr std::size_t ended_file_bytes = 1'000'000;

std::unique_ptr<World> world_with_file(WorldOptions options = {}) {
  options.forward.rate = 2'000'000;  // half a second for the file
  auto world = std::make_unique<World>(options);
  world->source.add("file", random_content(ended_file_bytes, 1));
  return world;
}

/// Calls `fault` once, as soon as part of the file has been written.
void halfway(World& world, std::function<void()> fault) {
  world.each_step = [&world, fault, done = false]() mutable {
    if (done || world.destination.writes < 200) {
      return;
    }
    done = true;
    fault();
  };
}

void expect_failed(World& world, ExitCode sender, ExitCode receiver) {
  EXPECT_EQ(world.spins, 0U);
  ASSERT_TRUE(world.sender->finished());
  EXPECT_EQ(world.sender->exit_code(), sender);
  ASSERT_NE(world.sender_event(Event::Kind::error), nullptr);
  EXPECT_EQ(world.sender_event(Event::Kind::error)->code, sender);
  ASSERT_NE(world.server_event(Event::Kind::error), nullptr);
  EXPECT_EQ(world.server_event(Event::Kind::error)->code, receiver);
  EXPECT_TRUE(world.destination.files.empty());
  EXPECT_EQ(world.server->memory_left(), world.options.server.memory_bytes_max);
}

TEST(Ends, AKilledReceiverTimesTheSenderOut) {
  const auto world = world_with_file();
  TimePoint killed{};
  halfway(*world, [&] {
    world->server_alive = false;
    killed = world->now;
  });
  world->run();
  EXPECT_EQ(world->sender->exit_code(), ExitCode::timeout);
  EXPECT_GE(world->now - killed, 29s);
  EXPECT_LE(world->now - killed, 32s);
}

TEST(Ends, AKilledSenderTimesTheReceiverOut) {
  const auto world = world_with_file();
  halfway(*world, [&] { world->sender_alive = false; });
  world->run();
  ASSERT_NE(world->server_event(Event::Kind::error), nullptr);
  EXPECT_EQ(world->server_event(Event::Kind::error)->code, ExitCode::timeout);
  EXPECT_TRUE(world->destination.files.empty());
  EXPECT_TRUE(world->destination.temporaries.empty());
  EXPECT_EQ(world->server->sessions(), 0U);
  EXPECT_EQ(world->server->memory_left(), world->options.server.memory_bytes_max);
}

TEST(Ends, ARestartedServerIsNoticedAtOnce) {
  const auto world = world_with_file();
  TimePoint restarted{};
  halfway(*world, [&] {
    world->server = std::make_unique<Server>(world->options.server, world->destination);
    restarted = world->now;
  });
  world->run([&] { return world->sender->finished(); });
  EXPECT_EQ(world->sender->exit_code(), ExitCode::connection_lost);
  EXPECT_LE(world->now - restarted, 3s);
  EXPECT_FALSE(world->sender_event(Event::Kind::error)->text.empty());
}

TEST(Ends, NoAnswerAtAll) {
  const auto world = world_with_file();
  world->server_alive = false;
  world->run();
  EXPECT_EQ(world->sender->exit_code(), ExitCode::no_answer);
}

TEST(Ends, PortUnreachableCountsOnlyBeforeTheFirstAnswer) {
  const auto refused = world_with_file();
  refused->server_alive = false;
  refused->each_step = [&] { refused->sender->unreachable(refused->now, refused->server_peer); };
  refused->run();
  EXPECT_EQ(refused->sender->exit_code(), ExitCode::no_answer);
  EXPECT_LE(refused->now.time_since_epoch(), 1h + 1s);

  const auto forged = world_with_file();
  halfway(*forged, [&] { forged->sender->unreachable(forged->now, forged->server_peer); });
  forged->run();
  EXPECT_EQ(forged->sender->exit_code(), ExitCode::ok);
}

TEST(Ends, AFullDiskKeepsThePartialFileUnderItsTemporaryName) {
  const auto world = world_with_file();
  world->destination.capacity_bytes = 500'000;
  world->run();
  expect_failed(*world, ExitCode::disk_full, ExitCode::disk_full);
  ASSERT_EQ(world->destination.temporaries.size(), 1U);
  const std::string& kept = world->destination.temporaries.begin()->first;
  EXPECT_NE(world->sender_event(Event::Kind::error)->text.find(kept), std::string::npos);
}

TEST(Ends, AnUnwritableDestination) {
  const auto world = world_with_file();
  world->destination.create_error = ENOENT;  // the directory vanished
  world->run();
  expect_failed(*world, ExitCode::write_failed, ExitCode::write_failed);
}

TEST(Ends, WhatWasWrittenDiffers) {
  const auto world = world_with_file();
  halfway(*world, [&] { world->destination.corrupt = true; });
  world->run();
  expect_failed(*world, ExitCode::digest_mismatch, ExitCode::digest_mismatch);
  EXPECT_TRUE(world->destination.temporaries.empty());
}

TEST(Ends, ASourceThatChangesIsSaidOnBothSides) {
  const auto world = world_with_file();
  halfway(*world, [&] { world->source.changed = true; });
  world->run();
  expect_failed(*world, ExitCode::source_changed, ExitCode::source_changed);
  EXPECT_TRUE(world->destination.temporaries.empty());
}

TEST(Ends, ASourceThatVanishes) {
  WorldOptions options;
  const auto world = world_with_file(options);
  world->source.vanished = true;
  world->run();
  expect_failed(*world, ExitCode::source_unreadable, ExitCode::source_unreadable);
}

TEST(Ends, ASourceThatVanishesBeforeARepair) {
  WorldOptions options;
  options.forward.loss = 0.1;
  const auto world = world_with_file(options);
  halfway(*world, [&] { world->source.vanished = true; });
  world->run();
  expect_failed(*world, ExitCode::source_unreadable, ExitCode::source_unreadable);
}

TEST(Ends, AnInterruptIsSaidOnBothSidesEvenWhenTheErrorIsLostTwice) {
  const auto world = world_with_file();
  int errors = 0;
  world->forward.set_filter([&](TimePoint, ConstBytes datagram) {
    const auto envelope = parse_envelope(datagram);
    return !(envelope && envelope->kind == Kind::error && ++errors <= 2);
  });
  halfway(*world, [&] { world->sender->interrupt(world->now); });
  world->run();
  expect_failed(*world, ExitCode::interrupted, ExitCode::interrupted);
}

// Each keeps the reason that it had first.
TEST(Ends, WhenBothFailEachSaysItsOwnReason) {
  const auto world = world_with_file();
  halfway(*world, [&] {
    world->sender->interrupt(world->now);
    world->destination.capacity_bytes = 0;
  });
  world->run();
  expect_failed(*world, ExitCode::interrupted, ExitCode::disk_full);
}

TEST(Ends, AnInterruptedServerTellsItsPeers) {
  const auto world = world_with_file();
  halfway(*world, [&] { world->server->interrupt(world->now); });
  world->run();
  expect_failed(*world, ExitCode::interrupted, ExitCode::interrupted);
  EXPECT_TRUE(world->destination.temporaries.empty());
}

TEST(Ends, AFullDiskUnderACallerThatLandsPayloads) {
  WorldOptions options;
  options.land_by_hand = true;
  const auto world = world_with_file(options);
  world->destination.capacity_bytes = 500'000;
  world->run();
  expect_failed(*world, ExitCode::disk_full, ExitCode::disk_full);
}

TEST(Ends, ARefusedPath) {
  WorldOptions options;
  options.sender.path = "forbidden";
  const auto world = world_with_file(options);
  world->run();
  expect_failed(*world, ExitCode::refused, ExitCode::refused);
}

TEST(Ends, AListOfFilesBeyondTheServersMemory) {
  WorldOptions options;
  options.server.memory_bytes_max = 300'000;
  options.server.receiver.own_memory_bytes = 0;
  const auto world = world_with_file(options);
  for (int i = 0; i < 100; ++i) {
    world->source.add("f" + std::to_string(i), {});
  }
  world->run();
  expect_failed(*world, ExitCode::refused, ExitCode::refused);
}

TEST(Ends, SlotsBeyondTheServersMemory) {
  WorldOptions options;
  options.server.memory_bytes_max = 263'300;  // the lists fit, a page of slots of the file does not
  options.server.receiver.own_memory_bytes = 0;
  options.forward.loss = 0.05;  // what arrives in order needs none
  const auto world = world_with_file(options);
  world->run();
  expect_failed(*world, ExitCode::refused, ExitCode::refused);
}

/// Carries datagrams between a server and one sender without loss or delay.
void pump(TimePoint& now, Server& server, std::vector<std::pair<Sender*, Peer>> senders, int rounds) {
  for (int round = 0; round < rounds; ++round, now += 1ms) {
    for (auto& [sender, peer] : senders) {
      transmit_all(*sender, now, [&](ConstBytes datagram, const Peer&) { server.receive(now, datagram, peer); });
    }
    transmit_all(server, now, [&](ConstBytes datagram, const Peer& to) {
      for (auto& [sender, peer] : senders) {
        if (peer == to) {
          sender->receive(now, datagram);
        }
      }
    });
  }
}

TEST(Ends, SessionsRunSideBySideUpToTheLimit) {
  TimePoint now{1h};
  MemoryDestination destination;
  Server server({.seed = 1, .insecure = true, .session_limits = {.sessions_max = 2, .per_host_max = 2}}, destination);
  std::vector<std::unique_ptr<MemorySource>> sources;
  std::vector<std::unique_ptr<FixedRate>> rates;
  std::vector<std::unique_ptr<Sender>> senders;
  std::vector<std::pair<Sender*, Peer>> pairs;
  for (int i = 0; i < 3; ++i) {
    sources.push_back(std::make_unique<MemorySource>());
    sources.back()->add("file" + std::to_string(i), random_content(200'000, static_cast<std::uint64_t>(i)));
    rates.push_back(std::make_unique<FixedRate>(1'000'000));
    SenderOptions options;
    options.seed = 7;  // the same connection identifier from different peers
    senders.push_back(std::make_unique<Sender>(now, options, *sources.back(), *rates.back()));
    const std::string address = "peer" + std::to_string(i);
    pairs.emplace_back(senders.back().get(), Peer(as_bytes(address)));
  }
  pump(now, server, pairs, 50);
  EXPECT_EQ(server.open_sessions(), 2U);
  pump(now, server, pairs, 950);
  int arrived = 0, refused = 0;
  for (int i = 0; i < 3; ++i) {
    const auto index = static_cast<std::size_t>(i);
    ASSERT_TRUE(senders[index]->finished());
    const bool ok = senders[index]->exit_code() == ExitCode::ok;
    refused += senders[index]->exit_code() == ExitCode::refused ? 1 : 0;
    arrived += ok && destination.files.at("file" + std::to_string(i)) == sources[index]->content(0) ? 1 : 0;
  }
  EXPECT_EQ(arrived, 2);
  EXPECT_EQ(refused, 1);
  EXPECT_GE(server.drops().no_session, 1U);
  EXPECT_LE(server.drops().no_session, 5U) << "for each OFFER of a first flight";

  // What lingers gives way to a new session.
  SenderOptions options;
  options.seed = 8;
  Sender late(now, options, *sources[0], *rates[0]);
  pump(now, server, {{&late, Peer(as_bytes("late"))}}, 1000);
  EXPECT_EQ(late.exit_code(), ExitCode::ok);
}

}  // namespace
}  // namespace sluice::ftx::test
