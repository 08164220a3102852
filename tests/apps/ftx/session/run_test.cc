// SPDX-License-Identifier: Apache-2.0
// Datagrams that came together (Server::receive_run) do what they do one by one (receive), whatever is among them.
#include <gtest/gtest.h>

#include <iterator>
#include <tuple>
#include <utility>

#include "tests/apps/ftx/session/bench.h"
#include "tests/apps/ftx/session/simulation.h"

namespace sluice::ftx::test {
namespace {

constexpr TimePoint begin{1h + 5s};  // a cookie that the recorded server gave counts

/// What a sender sent until it had finished, over a link that loses some.
std::vector<Content> recorded(const WorldOptions& options) {
  std::vector<Content> datagrams;
  World world(options);
  Prng prng(options.seed);
  world.source.add("small", random_content(prng.below(3000), options.seed));
  world.source.add("large", random_content(100'000 + prng.below(900'000), options.seed + 1));
  world.source.add("empty", {});
  world.source.add("other", random_content(prng.below(300'000), options.seed + 2));
  world.forward.set_filter([&](TimePoint, ConstBytes datagram) {
    datagrams.emplace_back(datagram.begin(), datagram.end());
    return true;
  });
  world.run();
  EXPECT_TRUE(world.all_equal());
  return datagrams;
}

/// A server that gets `datagrams`, and what has become of them.
struct Replay {
  explicit Replay(const WorldOptions& options) : server(Bench::insecure(options.server), destination) {
    if (options.sealed) {
      server.expect(protection_of(options.seed, Side::responder));
    }
  }

  /// Whatever the server answers, until it has nothing more to say.
  void listen() {
    Content out(2000);
    Peer to;
    for (std::size_t size = 1; size > 0;) {
      size = server.transmit(now, out, to);
      answers.emplace_back(out.begin(), out.begin() + static_cast<std::ptrdiff_t>(size));
    }
    while (auto event = server.next_event()) {
      events.emplace_back(event->kind, event->adus, event->repaired, event->out_of_order, event->payload_bytes,
                          event->bytes);
    }
    now += 1ms;
  }
  void one_by_one(std::span<const Content> datagrams, const Peer& from) {
    for (const Content& datagram : datagrams) {
      server.receive(now, datagram, from);
    }
    listen();
  }
  /// In runs of up to 60, as a transport receives some before the server speaks.
  void together(std::span<const Content> datagrams, const Peer& from, Prng& prng) {
    while (!datagrams.empty()) {
      const auto some = datagrams.first(std::min<std::size_t>(1 + prng.below(60), datagrams.size()));
      datagrams = datagrams.subspan(some.size());
      std::vector<Content> own(some.begin(), some.end());
      std::vector<Bytes> run(own.begin(), own.end());
      server.receive_run(now, run, from);
      for (Content& datagram : own) {  // the memory is used for something else
        std::ranges::fill(datagram, std::byte{0xee});
      }
    }
    listen();
  }

  MemoryDestination destination;
  Server server;
  TimePoint now = begin;
  std::vector<Content> answers;
  // Kind, ADUs, repaired, out of order, payload and file bytes.
  using Told = std::tuple<Event::Kind, std::uint64_t, std::uint64_t, std::uint64_t, std::uint64_t, std::uint64_t>;
  std::vector<Told> events;
};

void expect_same(Replay& one, Replay& run) {
  EXPECT_EQ(one.destination.files, run.destination.files);
  EXPECT_EQ(one.events, run.events);
  EXPECT_EQ(one.answers, run.answers);
  const DropCounters& a = one.server.drops();
  const DropCounters& b = run.server.drops();
  EXPECT_EQ(a.malformed, b.malformed);
  EXPECT_EQ(a.unknown_connection, b.unknown_connection);
  EXPECT_EQ(a.forged, b.forged);
  EXPECT_EQ(a.duplicate, b.duplicate);
  EXPECT_EQ(a.too_old, b.too_old);
  EXPECT_EQ(a.no_room, b.no_room);
  EXPECT_EQ(a.misplaced, b.misplaced);
  EXPECT_EQ(a.unexpected, b.unexpected);
  EXPECT_EQ(one.server.memory_left(), run.server.memory_left());
}

/// Some of `datagrams` repeated, cut, late and, where `change`, with a bit error.
std::vector<Content> disturbed(std::vector<Content> datagrams, Prng& prng, bool change) {
  std::vector<Content> result;
  std::vector<Content> owed;
  for (Content& datagram : datagrams) {
    const std::uint64_t what = prng.below(100);
    const bool is_data = parse_envelope(datagram)->kind == Kind::data;
    if (!is_data || prng.chance(0.1)) {
      std::ranges::move(std::exchange(owed, {}), std::back_inserter(result));
    }
    if (what < 4 && change) {
      Content changed = datagram;
      changed[prng.below(changed.size())] ^= std::byte{1};
      result.push_back(std::move(changed));  // in front of the good one
      if (what < 2 && is_data) {             // or in its place, and that one comes later
        owed.push_back(std::move(datagram));
        continue;
      }
    } else if (what < 4) {
      result.push_back(datagram);
    } else if (what < 6) {
      result.emplace_back(datagram.begin(),
                          datagram.begin() + static_cast<std::ptrdiff_t>(prng.below(datagram.size())));
    } else if (what < 10 && result.size() > 8) {
      std::swap(datagram, result[result.size() - 1 - prng.below(5)]);
    }
    result.push_back(std::move(datagram));
  }
  return result;
}

class Runs : public testing::TestWithParam<bool> {};

TEST_P(Runs, DoWhatTheirDatagramsDoOneByOne) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    WorldOptions options;
    options.seed = seed;
    options.sealed = GetParam();
    options.server.seed = seed + 1000;  // as in the world: the cookie counts here, too
    options.forward.loss = 0.05;
    Prng prng(seed);
    const std::vector<Content> datagrams = disturbed(recorded(options), prng, options.sealed);
    Replay one(options);
    Replay run(options);
    for (std::size_t at = 0; at < datagrams.size();) {
      const std::size_t count = std::min<std::size_t>(1 + prng.below(200), datagrams.size() - at);
      // A sealed session goes on wherever its peer is, and asks whether he is there.
      const Peer from(as_bytes(options.sealed && 2 * at > datagrams.size() ? "elsewhere" : "client"));
      one.one_by_one(std::span(datagrams).subspan(at, count), from);
      run.together(std::span(datagrams).subspan(at, count), from, prng);
      ASSERT_EQ(one.destination.temporaries, run.destination.temporaries) << "written before the server spoke";
      at += count;
    }
    expect_same(one, run);
    EXPECT_EQ(one.destination.files.size(), 4U) << "the whole transfer was replayed";
  }
}

INSTANTIATE_TEST_SUITE_P(Sessions, Runs, testing::Bool(),
                         [](const auto& instance) { return std::string(instance.param ? "Sealed" : "Insecure"); });

// What sealed runs leave to be written later does not fit the disk: the session ends, and what it held is free again.
TEST(RunsThatFail, AFullDiskEndsASealedSession) {
  WorldOptions options;
  options.seed = 5;
  options.sealed = true;
  options.server.seed = 1005;
  const std::vector<Content> datagrams = recorded(options);
  for (const std::uint64_t capacity : {0U, 100'000U, 400'000U}) {
    Replay run(options);
    run.destination.capacity_bytes = capacity;
    Prng prng(capacity);
    const auto told_of_error = [&run] {
      return std::ranges::any_of(run.events, [](const auto& told) { return std::get<0>(told) == Event::Kind::error; });
    };
    for (std::size_t at = 0; at < datagrams.size() && !told_of_error(); at += 50) {
      const std::size_t count = std::min<std::size_t>(50, datagrams.size() - at);
      run.together(std::span(datagrams).subspan(at, count), Peer(as_bytes("client")), prng);
    }
    EXPECT_TRUE(told_of_error()) << capacity;
    EXPECT_EQ(run.server.open_sessions(), 0U);
    EXPECT_EQ(run.server.memory_left(), ServerOptions{}.memory_bytes_max);
  }
}

// The disk fills up within a run: the session fails as if each had been written by itself, and nothing of it stays
// in use.
TEST(RunsThatFail, AFullDiskEndsTheSession) {
  for (const std::uint64_t capacity : {0U, 1407U, 1408U, 5000U}) {
    Bench bench;
    bench.open();
    bench.destination.capacity_bytes = capacity;
    std::vector<Content> datagrams;
    for (const std::uint64_t adu : {0U, 1U, 2U, 9U, 10U}) {
      Content& datagram = datagrams.emplace_back(data_header_bytes + 1408);
      emit_data_header(bench.envelope, {{++bench.last_sequence, 0, 1}, {0, 1408, adu * 1408}, false}, datagram);
    }
    std::vector<Bytes> run(datagrams.begin(), datagrams.end());
    bench.server.receive_run(bench.now, run, bench.peer);
    const auto error = bench.event(Event::Kind::error);
    ASSERT_TRUE(error) << capacity;
    EXPECT_EQ(error->code, ExitCode::disk_full);
    EXPECT_TRUE(bench.drain(Kind::error)) << "the sender is told";
    EXPECT_EQ(bench.server.memory_left(), ServerOptions{}.memory_bytes_max);
    EXPECT_EQ(bench.server.open_sessions(), 0U);
    bench.server.receive_run(bench.now, run, bench.peer);  // and what comes later is answered as ever
    EXPECT_TRUE(bench.drain(Kind::error));
  }
}

/// What comes in the middle of a run may end the session whose run it is, or make room of it for another: what came
/// before it has been written by then. Here the disk is full, which is known only when it is.
TEST(RunsThatFail, WhatComesBeforeTheEndOfASessionIsWrittenBeforeIt) {
  for (const bool together : {false, true}) {
    Bench bench;
    bench.open();
    bench.destination.capacity_bytes = 0;
    std::vector<Content> datagrams(3, Content(data_header_bytes + 1408));
    emit_data_header(bench.envelope, {{++bench.last_sequence, 0, 1}, {0, 1408, 0}, false}, datagrams[0]);
    datagrams[1].resize(
        emit_error(bench.envelope, {static_cast<std::uint16_t>(ExitCode::interrupted), "stopped"}, datagrams[1]));
    emit_data_header(bench.envelope, {{++bench.last_sequence, 0, 1}, {0, 1408, 1408}, false}, datagrams[2]);
    if (together) {
      std::vector<Bytes> run(datagrams.begin(), datagrams.end());
      bench.server.receive_run(bench.now, run, bench.peer);
    } else {
      for (const Content& datagram : datagrams) {
        bench.server.receive(bench.now, datagram, bench.peer);
      }
    }
    const auto error = bench.event(Event::Kind::error);
    ASSERT_TRUE(error);
    EXPECT_EQ(error->code, ExitCode::disk_full) << together;
    EXPECT_EQ(bench.server.memory_left(), ServerOptions{}.memory_bytes_max);
  }
}

/// A run whose datagrams belong to two sessions of one peer, and to nobody.
TEST(RunsOfTwo, EachSessionGetsItsOwn) {
  Bench bench;
  std::array<Envelope, 2> envelopes{bench.envelope, bench.envelope};
  envelopes[1].connection = 43;
  for (const Envelope& envelope : envelopes) {
    bench.envelope = envelope;
    bench.open();
  }
  std::vector<Content> datagrams;
  const Content content = random_content(100'000, 1);
  for (std::uint32_t at = 0; at < content.size(); at += 1408) {
    const auto length = std::min<std::uint32_t>(1408, static_cast<std::uint32_t>(content.size()) - at);
    for (std::uint64_t connection : {42U, 43U, 44U}) {
      Envelope envelope = bench.envelope;
      envelope.connection = connection;
      Content& datagram = datagrams.emplace_back(data_header_bytes + length);
      emit_data_header(envelope, {{++bench.last_sequence, 0, 1}, {0, length, at}, false}, datagram);
      std::copy_n(content.begin() + at, length, datagram.begin() + data_header_bytes);
    }
  }
  std::vector<Bytes> run(datagrams.begin(), datagrams.end());
  bench.server.receive_run(bench.now, run, bench.peer);
  ASSERT_EQ(bench.destination.temporaries.size(), 2U);
  for (const auto& [name, written] : bench.destination.temporaries) {
    EXPECT_EQ(written, content);
  }
  EXPECT_EQ(bench.server.drops().unknown_connection, content.size() / 1408 + 1);
}

}  // namespace
}  // namespace sluice::ftx::test
