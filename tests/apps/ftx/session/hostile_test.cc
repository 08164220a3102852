// SPDX-License-Identifier: Apache-2.0
// What strangers and hostile peers cannot do.
#include <gtest/gtest.h>

#include "tests/apps/ftx/session/simulation.h"

namespace sluice::ftx::test {
namespace {

constexpr TimePoint start{1h};
const Envelope envelope{Kind::hello, 0, 1, 42};

struct Bench {
  MemoryDestination destination;
  Server server;
  TimePoint now = start;
  Peer peer{as_bytes("client")};
  Content buffer = Content(2000);

  explicit Bench(ServerOptions options = {}) : server(options, destination) {}

  void send(std::size_t size) { server.receive(now, ConstBytes(buffer).first(size), peer); }
  std::size_t answer() {
    Peer to;
    return server.transmit(now, buffer, to);
  }

  Cookie cookie() {
    send(emit_hello(envelope, {1, 1408}, buffer));
    const auto reply = parse_cookie(ConstBytes(buffer).first(answer()));
    return reply ? reply->cookie : Cookie{};
  }

  void offer(const Cookie& with, std::string_view path = "",
             const std::vector<FileEntry>& files = {{"file", 100'000}}) {
    manifest = encode_manifest(files);
    Offer message{.cookie = with, .adu_bytes = 1408, .files = static_cast<std::uint32_t>(files.size()), .path = path};
    for (const FileEntry& file : files) {
      message.total_bytes += file.size_bytes;
    }
    message.manifest_bytes = static_cast<std::uint32_t>(manifest.size());
    message.manifest_digest = digest_of(manifest);
    send(emit_offer(envelope, message, buffer));
  }

  void data(const AduName& adu, ConstBytes payload, std::uint64_t sequence = 0) {
    if (sequence == 0) {
      sequence = ++last_sequence;
    }
    const std::size_t header = emit_data_header(envelope, {{sequence, 1, 1, 0}, adu, false}, buffer);
    std::copy(payload.begin(), payload.end(), buffer.begin() + static_cast<std::ptrdiff_t>(header));
    send(header + payload.size());
  }

  /// A session whose manifest has been accepted.
  void open() {
    offer(cookie());
    data({manifest_file, static_cast<std::uint32_t>(manifest.size()), 0}, manifest);
  }

  std::optional<Event> event(Event::Kind kind) {
    while (auto next = server.next_event()) {
      if (next->kind == kind) {
        return next;
      }
    }
    return std::nullopt;
  }

  std::vector<std::byte> manifest;
  std::uint64_t last_sequence = 0;
};

TEST(Hostile, AHelloCostsNoMemoryAndIsAnsweredWithLess) {
  Bench bench;
  for (int i = 0; i < 1000; ++i) {
    bench.send(emit_hello(envelope, {1, 1408}, bench.buffer));
  }
  EXPECT_EQ(bench.server.sessions(), 0U);
  EXPECT_EQ(bench.server.drops().unsent, 1000 - Server::answers_max);
  std::size_t answered = 0;
  while (const std::size_t size = bench.answer()) {
    answered += size;
  }
  EXPECT_LE(answered, Server::answers_max * control_bytes_max / 3);
}

TEST(Hostile, AnUnpaddedHelloIsIgnored) {
  Bench bench;
  const std::size_t size = emit_hello(envelope, {1, 1408}, bench.buffer);
  bench.send(size - 1);
  EXPECT_EQ(bench.answer(), 0U);
  EXPECT_EQ(bench.server.drops().malformed, 1U);
}

TEST(Hostile, StrangersNeverGetMoreThanTheySent) {
  for (const std::size_t size : {16UL, 39UL, 40UL, 56UL, 500UL}) {
    Bench bench;
    emit_data_header({Kind::data, 0, 1, 9}, {{1, 1, 1, 0}, {0, 1, 0}, false}, bench.buffer);
    bench.send(size);
    EXPECT_LE(bench.answer(), size);
    EXPECT_EQ(bench.server.drops().unknown_connection, 1U);
  }
}

TEST(Hostile, AnOfferNeedsACookieOfThisPeerThisConnectionAndThisMoment) {
  Bench bench;
  bench.offer(Cookie{});
  const Cookie good = bench.cookie();
  Cookie flipped = good;
  flipped[23] ^= std::byte{1};
  bench.offer(flipped);
  bench.peer = Peer(as_bytes("elsewhere"));
  bench.offer(good);
  bench.peer = Peer(as_bytes("client"));
  bench.now = start + CookieJar::lifetime + 1ns;
  bench.offer(good);
  bench.now = start - 1ns;
  bench.offer(good);
  EXPECT_EQ(bench.server.sessions(), 0U);
  EXPECT_EQ(bench.server.drops().bad_cookie, 5U);
  bench.now = start;
  bench.offer(good);
  EXPECT_EQ(bench.server.sessions(), 1U);
}

TEST(Hostile, PathsThatLeadOutAreRefused) {
  for (const std::string_view path : {"..", "../x", "a/../b", "/etc/passwd", "a//b", "./a", "a\nb", "a\x1b[2J"}) {
    SCOPED_TRACE(path);
    Bench bench;
    bench.offer(bench.cookie(), path);
    const auto error = bench.event(Event::Kind::error);
    ASSERT_TRUE(error);
    EXPECT_EQ(error->code, ExitCode::refused);
    const auto told = parse_error(ConstBytes(bench.buffer).first(bench.answer()));
    ASSERT_TRUE(told);
    EXPECT_EQ(told->code, static_cast<std::uint16_t>(ExitCode::refused));
  }
}

TEST(Hostile, NamesThatLeadOutAreRefused) {
  for (const std::string_view name : {"..", ".", "a/b", "/a", "a\nb", "\x1b[2J", "\xc2\x9b", "\x7f"}) {
    SCOPED_TRACE(name);
    Bench bench;
    bench.offer(bench.cookie(), "", {{std::string(name), 10}});
    bench.data({manifest_file, static_cast<std::uint32_t>(bench.manifest.size()), 0}, bench.manifest);
    const auto error = bench.event(Event::Kind::error);
    ASSERT_TRUE(error);
    EXPECT_EQ(error->code, ExitCode::refused);
    EXPECT_EQ(error->text.find_first_of("\n\x1b\x7f"), std::string::npos);
  }
}

TEST(Hostile, AListOfFilesThatDoesNotMatchItsOfferIsRefused) {
  Bench bench;
  bench.offer(bench.cookie());
  bench.manifest[7] ^= std::byte{1};  // the size of the file
  bench.data({manifest_file, static_cast<std::uint32_t>(bench.manifest.size()), 0}, bench.manifest);
  EXPECT_EQ(bench.event(Event::Kind::error)->code, ExitCode::digest_mismatch);
}

TEST(Hostile, DataThatLiesNowhereIsNotWritten) {
  Bench bench;
  bench.open();
  const Content payload(1408);
  const AduName wrong[] = {
      {1, 1408, 0},  // no such file
      {no_file, 1408, 0},
      {0, 1408, 1},              // between slots
      {0, 1408, 1408 * 71},      // beyond the end of 100,000 bytes
      {0, 1408, 1408ULL << 40},  // far beyond
      {0, 1407, 0},              // short and not the last
      {digest_file, 1408, 0},    // longer than the list
      {manifest_file, 1408, 0},
  };
  for (const AduName& adu : wrong) {
    bench.data(adu, ConstBytes(payload).first(adu.length));
  }
  EXPECT_EQ(bench.server.drops().misplaced, std::size(wrong));
  bench.data({0, 1408, file_bytes_max - 1408}, payload);
  bench.data({0, 1408, UINT64_MAX - 1407}, payload);  // offset + length overflows
  bench.data({0, 1407, 0}, payload);                  // the datagram is longer than its length says
  EXPECT_EQ(bench.server.drops().malformed, 2U);
  EXPECT_EQ(bench.destination.writes, 0U);
  bench.data({0, 1408, 0}, payload);
  EXPECT_EQ(bench.destination.writes, 1U);
}

TEST(Hostile, ASequenceThatLeapsCostsOnlyItsOwnSession) {
  Bench bench;
  bench.open();
  const Content payload(1408);
  bench.data({0, 1408, 0}, payload, 1ULL << 60);
  bench.data({0, 1408, 1408}, payload, 2);
  EXPECT_EQ(bench.server.drops().too_old, 1U);
  bench.now += 10s;
  std::size_t reports = 0;
  while (reports < 1000 && bench.answer() > 0) {
    ++reports;
  }
  EXPECT_LT(reports, 10U);
}

TEST(Hostile, AReplayedTransferIsNotRepeated) {
  World world({});
  world.source.add("file", random_content(100'000, 1));
  std::vector<Content> recorded;
  world.forward.set_filter([&](TimePoint, ConstBytes datagram) {
    recorded.emplace_back(datagram.begin(), datagram.end());
    return true;
  });
  world.run([&] { return world.sender->finished() && world.server->open_sessions() == 0; });
  ASSERT_TRUE(world.all_equal());
  const std::uint64_t writes = world.destination.writes;
  for (const Duration later : {Duration(1s), Duration(20s), Duration(20s)}) {
    world.now += later;
    for (const Content& datagram : recorded) {
      world.inject(datagram);
    }
    Peer to;
    Content buffer(2000);
    for (int i = 0; i < 1000 && world.server->transmit(world.now, buffer, to) > 0; ++i) {
    }
  }
  EXPECT_EQ(world.destination.writes, writes);
  EXPECT_EQ(world.server->open_sessions(), 0U);
}

TEST(Hostile, NoiseFromThePeersAddressDoesNotSpoilATransfer) {
  World world({});
  world.source.add("file", random_content(300'000, 1));
  Prng prng(5);
  std::vector<Content> seen;
  world.forward.set_filter([&](TimePoint, ConstBytes datagram) {
    if (seen.size() < 50) {
      seen.emplace_back(datagram.begin(), datagram.end());
    }
    return true;
  });
  world.each_step = [&] {
    if (seen.empty()) {
      return;
    }
    Content datagram = seen[prng.below(seen.size())];
    // Truncated or garbled within the envelope's version, kind or flags: never a valid datagram of this connection.
    if (prng.chance(0.5)) {
      datagram.resize(prng.below(datagram.size()));
    } else {
      datagram[0] ^= static_cast<std::byte>(1 + prng.below(255));
    }
    world.inject(datagram);
  };
  world.run();
  EXPECT_EQ(world.sender->exit_code(), ExitCode::ok);
  EXPECT_TRUE(world.all_equal());
  EXPECT_GT(world.server->drops().malformed, 100U);
}

TEST(Hostile, AReportAboutTheFutureIsIgnored) {
  World world({});
  world.source.add("file", random_content(300'000, 1));
  const Envelope ours{Kind::report, 0, 1, Prng(world.options.seed + 2000)()};
  world.each_step = [&] {
    Content buffer(2000);
    Report report;
    report.highest = report.to = 1ULL << 40;
    report.phase = Phase::finished;
    world.sender->receive(world.now, ConstBytes(buffer).first(emit_report(ours, report, buffer)));
  };
  world.run([&] { return world.sender->finished(); });
  EXPECT_EQ(world.sender->exit_code(), ExitCode::ok);
  EXPECT_GT(world.sender->dropped(), 0U);
  ASSERT_NE(world.server_event(Event::Kind::done), nullptr);
  EXPECT_TRUE(world.all_equal());
}

}  // namespace
}  // namespace sluice::ftx::test
