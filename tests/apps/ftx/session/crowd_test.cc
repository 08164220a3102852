// SPDX-License-Identifier: Apache-2.0
// Many hosts at one server: what one may hold, and that the last of ten is served whatever the other nine do.
#include <gtest/gtest.h>

#include "tests/apps/ftx/session/bench.h"
#include "tests/apps/ftx/transmit.h"

namespace sluice::ftx::test {
namespace {

/// Addresses of these tests are HOST:PORT.
ConstBytes host_part(ConstBytes address) { return address.first(as_text(address).find(':')); }

Peer address(int host, int port) {
  const std::string text = "host" + std::to_string(host) + ":" + std::to_string(port);
  return Peer(as_bytes(text));
}

ServerOptions small_server() {
  ServerOptions options;
  options.session_limits.sessions_max = 8;
  options.session_limits.per_host_max = 4;
  options.host_of = host_part;
  return options;
}

/// Opens a session from there; true when it is open then.
bool open_from(Bench& bench, int host, int port) {
  bench.peer = address(host, port);
  bench.offer(bench.cookie());
  const auto told = bench.drain(Kind::error);
  return !told;
}

TEST(Crowd, AHostMayHaveAPartOfTheSessions) {
  Bench bench(small_server());
  for (int port = 0; port < 20; ++port) {
    EXPECT_EQ(open_from(bench, 1, port), port < 4);
  }
  EXPECT_EQ(bench.server.open_sessions(), 4U);
  EXPECT_EQ(bench.server.drops().no_session, 16U);
  EXPECT_TRUE(open_from(bench, 2, 0));
  // Its own session without progress makes room for the host's next one, and no other host's.
  bench.now += 3s;
  EXPECT_TRUE(open_from(bench, 1, 99));
  EXPECT_EQ(bench.server.open_sessions(), 5U);
  EXPECT_EQ(bench.server.drops().displaced, 1U);
  EXPECT_EQ(bench.event(Event::Kind::error)->code, ExitCode::refused);
}

TEST(Crowd, AFullServerTakesRoomFromTheSessionWithoutProgress) {
  Bench bench(small_server());
  for (int i = 0; i < 8; ++i) {
    EXPECT_TRUE(open_from(bench, i / 4, i % 4));
  }
  // All of them have the same manifest; all but one go on.
  const Content payload(1408);
  bench.now += 2900ms;
  for (int i = 0; i < 8; ++i) {
    if (i != 5) {
      bench.peer = address(i / 4, i % 4);
      bench.data({manifest_file, static_cast<std::uint32_t>(bench.manifest.size()), 0}, bench.manifest);
    }
  }
  bench.now += 100ms;
  EXPECT_TRUE(open_from(bench, 2, 0));
  EXPECT_EQ(bench.server.sessions(), 8U);
  EXPECT_EQ(bench.server.drops().displaced, 1U);
  // The one without progress is gone, and is told so.
  bench.peer = address(1, 1);
  bench.probe();
  const auto told = bench.drain(Kind::error);
  ASSERT_TRUE(told);
  EXPECT_EQ(parse_error(*told)->code, static_cast<std::uint16_t>(ExitCode::connection_lost));
}

TEST(Crowd, AFullServerOfHostsThatGoOnTakesRoomFromTheGreediest) {
  ServerOptions options = small_server();
  options.session_limits.sessions_max = 5;
  Bench bench(options);
  for (int port = 0; port < 3; ++port) {
    EXPECT_TRUE(open_from(bench, 1, port));
    bench.now += 1ms;
  }
  EXPECT_TRUE(open_from(bench, 2, 0));
  EXPECT_TRUE(open_from(bench, 2, 1));
  EXPECT_TRUE(open_from(bench, 3, 0));  // of host 1, which had three, the oldest
  bench.peer = address(1, 0);
  bench.probe();
  EXPECT_TRUE(bench.drain(Kind::error));
  EXPECT_TRUE(open_from(bench, 4, 0));  // one of host 1 or 2: two of five
  EXPECT_FALSE(open_from(bench, 4, 1)) << "it would have as many as the greediest then";
  EXPECT_EQ(bench.server.drops().displaced, 2U);
}

/// What a flood has stalled does not make room for the flood.
TEST(Crowd, AHostWithManySessionsYieldsBeforeOneThatHasStalled) {
  ServerOptions options = small_server();
  options.session_limits.sessions_max = 5;
  Bench bench(options);
  EXPECT_TRUE(open_from(bench, 1, 0));
  bench.now += options.session_limits.stalled_after;
  for (int port = 0; port < 4; ++port) {
    EXPECT_TRUE(open_from(bench, 2, port));
  }
  EXPECT_TRUE(open_from(bench, 3, 0));
  EXPECT_TRUE(open_from(bench, 4, 0));
  EXPECT_EQ(bench.server.drops().displaced, 2U);
  bench.peer = address(1, 0);
  bench.probe();
  EXPECT_FALSE(bench.drain(Kind::error)) << "it is still there";
}

TEST(Crowd, WhatIsOverMakesRoomFirst) {
  Bench bench(small_server());
  for (int i = 0; i < 8; ++i) {
    EXPECT_TRUE(open_from(bench, i / 4, i % 4));
  }
  bench.peer = address(0, 2);
  bench.error(5);
  bench.now += 10s;
  EXPECT_TRUE(open_from(bench, 2, 0));
  EXPECT_EQ(bench.server.drops().displaced, 0U);
  EXPECT_EQ(bench.server.open_sessions(), 8U);
}

TEST(Crowd, ATransferThatIsWholeKeepsItsRoomUntilItsSenderHasHeardSo) {
  ServerOptions options = small_server();
  options.session_limits.sessions_max = 2;
  options.session_limits.per_host_max = 1;
  Bench bench(options);
  const Content content = random_content(1000, 3);
  bench.peer = address(0, 0);
  bench.offer(bench.cookie(), "", {{"f", content.size()}});
  bench.data({manifest_file, static_cast<std::uint32_t>(bench.manifest.size()), 0}, bench.manifest);
  bench.data({0, 1000, 0}, content);
  const Digest digest = file_digest_of(content);
  bench.data({digest_file, digest_bytes, 0}, digest);
  ASSERT_TRUE(bench.event(Event::Kind::done));
  EXPECT_TRUE(open_from(bench, 1, 0));
  // The server is full. A newcomer does not get the room of the one whose sender may not have heard yet ...
  EXPECT_FALSE(open_from(bench, 2, 0));
  bench.peer = address(0, 0);
  bench.probe();
  EXPECT_TRUE(bench.drain(Kind::report));
  // ... and gets it once it has.
  bench.send(emit_close(bench.envelope, bench.buffer));
  EXPECT_TRUE(open_from(bench, 2, 0));
  EXPECT_EQ(bench.server.drops().displaced, 0U);
}

TEST(Crowd, AHostMayHaveAPartOfTheOpenFilesAndEverySessionHasOne) {
  ServerOptions options = small_server();
  options.open_files_max = 20;
  options.open_files_per_host_max = 10;
  Bench bench(options);
  std::vector<FileEntry> files;
  for (int i = 0; i < 30; ++i) {
    files.push_back({"f" + std::to_string(i), 100'000});
  }
  const Content payload(1408);
  for (int host = 0; host < 4; ++host) {
    bench.peer = address(host, 0);
    bench.offer(bench.cookie(), "", files);
    bench.data({manifest_file, static_cast<std::uint32_t>(bench.manifest.size()), 0}, bench.manifest);
    const std::uint64_t before = bench.server.drops().no_room;
    for (std::uint32_t file = 0; file < 30; ++file) {
      bench.data({file, 1408, 0}, payload);
    }
    const std::uint64_t opened = 30 - (bench.server.drops().no_room - before);
    EXPECT_EQ(opened, host < 2 ? 11U : 1U) << host;
  }
  EXPECT_EQ(bench.server.open_files(), 20U);
  bench.now += 31s;
  (void)bench.drain(Kind::error);
  EXPECT_EQ(bench.server.open_files(), 0U);
  EXPECT_TRUE(bench.destination.temporaries.empty());
}

TEST(Crowd, AHostMayHaveAPartOfTheMemory) {
  ServerOptions options = small_server();
  options.session_limits.sessions_max = 16;
  options.session_limits.per_host_max = 8;
  options.memory_bytes_max = 16U << 20;
  options.memory_per_host_bytes_max = 4U << 20;
  options.receiver.own_memory_bytes = 64U << 10;
  Bench bench(options);
  const Content payload(1408);
  for (int host = 0; host < 2; ++host) {
    for (int port = 0; port < 8; ++port) {
      bench.peer = address(host, port);
      Offer offer = bench.offer_of(bench.cookie());
      offer.files = 2800;
      offer.manifest_bytes = 2800 * 270;
      bench.offer(offer);
      for (std::uint64_t at = 0; at < 700'000; at += 1408) {
        bench.data({manifest_file, 1408, at}, payload);
      }
    }
    const auto hosts = static_cast<std::uint64_t>(host) + 1;
    EXPECT_LE(options.memory_bytes_max - bench.server.memory_left(), hosts * options.memory_per_host_bytes_max);
    EXPECT_GE(options.memory_bytes_max - bench.server.memory_left(), hosts * 3'500'000);
  }
}

// --- Ten clients, nine of them hostile -----------------------------------------------------------------------------

constexpr std::uint64_t crowd_seed = 7;

/// Nine hosts that want nobody else to be served. Each knows its cookies, as if it had asked for them.
class Hostile {
 public:
  /// `sent_out` gets what the server sends meanwhile: some of it is not for the nine.
  Hostile(Server& server, std::function<void(ConstBytes, const Peer&)> sent_out)
      : server_(server), sent_out_(std::move(sent_out)), jar_(crowd_seed), prng_(crowd_seed) {
    entries_.resize(256);
    for (std::size_t i = 0; i < entries_.size(); ++i) {
      entries_[i] = {"junk" + std::to_string(i), 1'000'000};
    }
    manifest_ = encode_manifest(entries_);
  }

  /// Called every millisecond.
  void act(TimePoint now, int millisecond) {
    now_ = now;
    // Two hosts hold sessions with PROBEs: opened again and again, 64 each.
    for (const int host : {1, 2}) {
      const int port = millisecond % 64;
      offer(host, port, 1, 30);
      probe(host, (millisecond * 7) % 64);
    }
    // Two hosts announce the largest list there is and send it, as fast as they can.
    for (const int host : {3, 4}) {
      const int port = millisecond / 500 % 32;
      offer(host, port, 100'000, 100'000 * 270);
      for (int i = 0; i < 8; ++i) {
        data(host, port, {manifest_file, 1408, static_cast<std::uint64_t>(millisecond % 500 * 8 + i) * 1408});
      }
    }
    // Two hosts make a thousand connections each, over and over.
    for (const int host : {5, 6}) {
      for (int i = 0; i < 2; ++i) {
        offer(host, 1000 + (millisecond * 2 + i) % 1000, 1, 30);
      }
    }
    // Two hosts send garbage: noise, cut and altered datagrams, HELLOs by the dozen.
    for (const int host : {7, 8}) {
      for (int i = 0; i < 5; ++i) {
        garbage(host);
      }
    }
    // One host opens every file it may, and lets them lie.
    const int port = millisecond / 300 % 4;
    if (millisecond % 300 == 0) {
      offer(9, port, static_cast<std::uint32_t>(entries_.size()), static_cast<std::uint32_t>(manifest_.size()));
      for (std::size_t at = 0; at < manifest_.size(); at += 1408) {
        const auto length = static_cast<std::uint32_t>(std::min<std::size_t>(1408, manifest_.size() - at));
        data(9, port, {manifest_file, length, at});
      }
    }
    data(9, port, {static_cast<std::uint32_t>(millisecond % 300), 1408, 0});
  }

  std::uint64_t sent = 0;

 private:
  Envelope envelope(int port) const { return {Kind::hello, 0, static_cast<std::uint64_t>(port)}; }
  void deliver(int host, int port, std::size_t size) {
    ++sent;
    server_.receive(now_, ConstBytes(buffer_).first(size), address(host, port));
    // A transport answers before it reads on.
    if (sent % 32 == 0) {
      transmit_all(server_, now_, sent_out_);
    }
  }
  void offer(int host, int port, std::uint32_t files, std::uint32_t list_bytes) {
    Offer offer{.cookie = jar_.issue(now_, address(host, port), static_cast<std::uint64_t>(port)),
                .total_bytes = files * 1'000'000ULL,
                .adu_bytes = 1408,
                .files = files,
                .manifest_bytes = list_bytes};
    offer.manifest_digest = digest_of(manifest_);
    deliver(host, port, emit_offer(envelope(port), offer, buffer_));
  }
  void probe(int host, int port) { deliver(host, port, emit_probe(envelope(port), {++sequence_, 0, 1}, buffer_)); }
  void data(int host, int port, const AduName& adu) {
    const std::size_t header = emit_data_header(envelope(port), {{++sequence_, 0, 1}, adu, false}, buffer_);
    if (adu.file == manifest_file && host == 9) {
      const ConstBytes part = ConstBytes(manifest_).subspan(adu.offset, adu.length);
      std::copy(part.begin(), part.end(), buffer_.begin() + static_cast<std::ptrdiff_t>(header));
    }
    deliver(host, port, header + adu.length);
  }
  void garbage(int host) {
    std::size_t size = prng_.below(1500);
    switch (prng_.below(3)) {
      case 0:
        for (std::size_t i = 0; i < size; ++i) {
          buffer_[i] = static_cast<std::byte>(prng_());
        }
        break;
      case 1:
        size = emit_hello(envelope(1), {1, 1408}, buffer_);
        break;
      default:
        emit_data_header(envelope(static_cast<int>(prng_.below(64))), {{1, 0, 1}, {0, 1408, 0}, false}, buffer_);
        buffer_[prng_.below(56)] = static_cast<std::byte>(prng_());
        break;
    }
    deliver(host, static_cast<int>(prng_.below(64)), size);
  }

  Server& server_;
  std::function<void(ConstBytes, const Peer&)> sent_out_;
  CookieJar jar_;
  Prng prng_;
  std::vector<FileEntry> entries_;
  std::vector<std::byte> manifest_;
  Content buffer_ = Content(2000);
  TimePoint now_{};
  std::uint64_t sequence_ = 0;
};

/// How long a client is served beside nine hostile ones, which must come to nothing; or alone.
void serve_one(bool crowded, Duration& took) {
  ServerOptions options;
  options.seed = crowd_seed;
  options.insecure = true;
  options.host_of = host_part;
  MemoryDestination destination;
  Server server(options, destination);
  MemorySource source;
  source.add("good", random_content(4'000'000, crowd_seed));
  FixedRate rate(1'000'000);
  std::unique_ptr<Sender> tenth;
  const Peer good = address(10, 7070);
  TimePoint now = Bench::start;
  const auto deliver = [&](ConstBytes datagram, const Peer& to) {
    if (tenth && to == good) {
      tenth->receive(now, datagram);
    }
  };
  Hostile hostile(server, deliver);
  std::uint64_t least_memory = server.memory_left(), most_files = 0;
  std::size_t most_sessions = 0;
  int millisecond = 0;
  for (; millisecond < 60'000 && !(tenth && tenth->finished()); ++millisecond, now += 1ms) {
    if (crowded) {
      hostile.act(now, millisecond);
    }
    if (millisecond == 5000) {  // they are all there already
      EXPECT_EQ(server.open_sessions(), crowded ? options.session_limits.sessions_max : 0);
      SenderOptions sender_options;
      sender_options.seed = 99;
      tenth = std::make_unique<Sender>(now, sender_options, source, rate);
    }
    if (tenth) {
      transmit_all(*tenth, now, [&](ConstBytes datagram, const Peer&) { server.receive(now, datagram, good); });
    }
    transmit_all(server, now, deliver);
    while (server.next_event()) {
    }
    least_memory = std::min(least_memory, server.memory_left());
    most_files = std::max(most_files, server.open_files());
    most_sessions = std::max(most_sessions, server.sessions());
  }
  ASSERT_TRUE(tenth->finished());
  EXPECT_EQ(tenth->exit_code(), ExitCode::ok);
  ASSERT_TRUE(destination.files.contains("good"));
  EXPECT_EQ(destination.files.at("good"), source.content(0));
  EXPECT_EQ(destination.files.size(), 1U);
  took = std::chrono::milliseconds(millisecond - 5000);
  if (!crowded) {
    return;
  }
  // The nine were at it all the time, and got no further than they may.
  EXPECT_GT(hostile.sent, 200'000U);
  EXPECT_LE(most_sessions, options.session_limits.sessions_max);
  EXPECT_LE(most_files, options.open_files_max);
  EXPECT_GE(most_files, 200U);
  EXPECT_LT(least_memory, options.memory_bytes_max);
  EXPECT_GT(server.drops().displaced, 100U);
  EXPECT_GT(server.drops().malformed, 1000U);
  EXPECT_GT(server.drops().no_room, 0U);
}

/// In simulated time, so that what is measured is what the server refuses or lets wait.
TEST(Crowd, TheTenthOfTenClientsFinishesWhateverTheOtherNineDo) {
  Duration alone{};
  Duration crowded{};
  ASSERT_NO_FATAL_FAILURE(serve_one(false, alone));
  ASSERT_NO_FATAL_FAILURE(serve_one(true, crowded));
  EXPECT_GT(alone, 1s);
  EXPECT_LE(crowded, alone * 3 / 2);
}

}  // namespace
}  // namespace sluice::ftx::test
