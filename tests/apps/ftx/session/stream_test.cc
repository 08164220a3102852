// SPDX-License-Identifier: Apache-2.0
// Whole transfers of a file that is sent while it comes: nobody knows its size before it ends.
#include <gtest/gtest.h>

#include "apps/ftx/files/stream_ring.h"
#include "tests/apps/ftx/session/bench.h"
#include "tests/apps/ftx/session/simulation.h"

namespace sluice::ftx::test {
namespace {

/// Content that comes when the test says so, through a ring that holds what the receiver has not.
class Input final : public Source {
 public:
  explicit Input(Content content, std::size_t ring_bytes = std::size_t{4} << 20)
      : content_(std::move(content)), ring_(ring_bytes) {}

  const std::vector<FileEntry>& files() const override { return entries_; }
  Result<StreamState> stream_state() override {
    asked = true;
    if (error != 0) {
      return fail(error, std::strerror(error));
    }
    for (Bytes room = ring_.room(); !room.empty() && ring_.end() < come; room = ring_.room()) {
      const std::size_t size = std::min<std::size_t>(room.size(), come - ring_.end());
      std::copy_n(content_.begin() + static_cast<std::ptrdiff_t>(ring_.end()), size, room.begin());
      ring_.add(size);
    }
    return StreamState{ring_.end(), ends && ring_.end() == content_.size()};
  }
  void stream_delivered(std::uint64_t offset) override { ring_.forget(offset); }
  Status read(std::uint32_t, std::uint64_t offset, Bytes out) override {
    if (!ring_.holds(offset, out.size())) {
      ADD_FAILURE() << "asks for " << offset << " again";
      return fail(EIO, "gone");
    }
    ring_.read(offset, out);
    return {};
  }
  Status unchanged(std::uint32_t) override { return {}; }
  std::string path(std::uint32_t) const override { return "standard input"; }

  [[nodiscard]] const Content& content() const { return content_; }
  [[nodiscard]] const StreamRing& ring() const { return ring_; }
  /// All of it is there.
  Input& whole() {
    come = content_.size();
    ends = true;
    return *this;
  }

  std::uint64_t come = 0;
  bool ends = false;
  bool asked = false;
  int error = 0;

 private:
  std::vector<FileEntry> entries_{{.name = "-", .kind = EntryKind::stream}};
  Content content_;
  StreamRing ring_;
};

struct Streamed {
  explicit Streamed(WorldOptions options, Content content, std::size_t ring_bytes = std::size_t{4} << 20)
      : input(std::move(content), ring_bytes), world([&] {
          options.from = &input;
          return options;
        }()) {}

  /// `bytes` more each `interval`, once the first comes.
  void drip(std::uint64_t bytes, Duration interval) {
    world.input_at = [this] { return input.ends ? never : next_; };
    world.each_step = [this, bytes, interval] {
      next_ = next_ == TimePoint() ? world.now : next_;
      while (!input.ends && world.now >= next_) {
        input.come = std::min<std::uint64_t>(input.come + bytes, input.content().size());
        input.ends = input.come == input.content().size();
        next_ += interval;
      }
    };
  }

  void expect_arrived() {
    world.run();
    ASSERT_TRUE(world.sender->finished());
    ASSERT_EQ(world.sender->exit_code(), ExitCode::ok) << world.sender_event(Event::Kind::error)->text;
    ASSERT_EQ(world.destination.files.size(), 1U);
    EXPECT_TRUE(world.destination.files["-"] == input.content());
    EXPECT_TRUE(world.destination.temporaries.empty());
    EXPECT_EQ(world.server->memory_left(), world.options.server.memory_bytes_max);
    // A copy that does not fit its datagram any more, compressed anew, takes a turn.
    EXPECT_TRUE(world.spins == 0 || world.options.sender.compress != Compress::never);
    for (const Event* done : {world.sender_event(Event::Kind::done), world.server_event(Event::Kind::done)}) {
      ASSERT_NE(done, nullptr);
      EXPECT_EQ(done->bytes, input.content().size());
      EXPECT_EQ(done->total_bytes, input.content().size());
      EXPECT_EQ(done->files, 1U);
    }
  }

  void expect_failed(ExitCode sender, ExitCode server) {
    world.run();
    ASSERT_TRUE(world.sender->finished());
    EXPECT_EQ(world.sender->exit_code(), sender);
    const Event* const error = world.server_event(Event::Kind::error);
    ASSERT_NE(error, nullptr);
    EXPECT_EQ(error->code, server) << error->text;
    EXPECT_TRUE(world.destination.files.empty());
    EXPECT_TRUE(world.destination.temporaries.empty()) << "nothing is kept of what cannot go on";
  }

  Input input;
  World world;

 private:
  TimePoint next_{};
};

TEST(Stream, EverySizeArrives) {
  constexpr std::size_t block = digest_block_bytes;
  for (const bool sealed : {false, true}) {
    const std::size_t adu = adu_bytes_for(1472, sealed);
    for (const std::size_t size :
         {std::size_t{0}, std::size_t{1}, std::size_t{15}, std::size_t{16}, std::size_t{17}, adu - 1, adu, adu + 1,
          64 * adu, 65 * adu, block - 1, block, block + 1, 2 * block, 3 * block + 12345}) {
      for (const bool searches : {false, true}) {
        SCOPED_TRACE(testing::Message() << size << (sealed ? ", sealed" : "") << (searches ? ", small slots" : ""));
        WorldOptions options;
        options.sealed = sealed;
        if (searches) {
          options.sender.ip_header_bytes = 28;
        }
        Streamed all(options, random_content(size, size + 1));
        all.input.whole();
        all.expect_arrived();
        Streamed drops(options, random_content(size, size + 2));
        drops.drip(std::max<std::size_t>(size / 7, 1), 50ms);
        drops.expect_arrived();
      }
    }
  }
}

TEST(Stream, AnyLinkDeliversTheSameBytes) {
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    SCOPED_TRACE(seed);
    Prng prng(seed);
    WorldOptions options;
    options.seed = seed;
    options.sealed = prng.chance(0.5);
    options.sender.tsdu_bytes = options.server.tsdu_bytes = prng.chance(0.5) ? 1472 : 1200 + prng.below(8000);
    if (prng.chance(0.5)) {
      options.sender.ip_header_bytes = 28;
    }
    if (prng.chance(0.3)) {
      options.sender.compress = Compress::always;
      options.sender.clock = [now = TimePoint(1h)]() mutable { return now += 16us; };
    }
    for (LinkFaults* link : {&options.forward, &options.back}) {
      draw_faults(*link, prng, 0.2);
      link->corrupt = options.sealed ? prng.unit() * 0.1 : 0;
    }
    options.forward.rate = prng.chance(0.5) ? 200'000 + prng.below(10'000'000) : 0;
    options.forward.queue_bytes = 100'000;
    options.fixed_rate = prng.chance(0.2) ? 100'000 + prng.below(1'000'000) : 0;
    const std::size_t size = prng.below(2'000'000);
    Streamed run(options, prng.chance(0.5) ? text_content(size, seed) : random_content(size, seed),
                 (std::size_t{64} << 10) + prng.below(1'000'000));
    if (prng.chance(0.3)) {
      run.input.whole();
    } else {
      run.drip(1 + size / (1 + prng.below(50)), Duration(static_cast<Duration::rep>(prng.below(3'000'000'000))));
    }
    run.expect_arrived();
  }
}

// --- Input that is slow, and peers that are gone -------------------------------------------------------------------

TEST(Stream, SlowInputEndsNothing) {
  for (const bool sealed : {false, true}) {
    WorldOptions options;
    options.sealed = sealed;
    Streamed run(options, random_content(5'000, 1));
    run.drip(1'000, 110s);  // each pause is longer than the idle timeout
    run.expect_arrived();
    EXPECT_GT(run.world.sender_event(Event::Kind::done)->seconds, 400);
    // A probe a second at each end, and an answer: no more than that keeps it.
    EXPECT_LT(run.world.forward.sent, 1'000U);
    EXPECT_LT(run.world.back.sent, 3'000U);
  }
}

TEST(Stream, AReceiverThatVanishesWhileInputIsSlowIsNoticed) {
  WorldOptions options;
  options.sealed = true;
  Streamed run(options, random_content(50'000, 1));
  run.input.come = 20'000;
  run.world.each_step = [&] { run.world.server_alive = run.world.now < TimePoint(1h) + 60s; };
  run.world.run();
  ASSERT_TRUE(run.world.sender->finished());
  EXPECT_EQ(run.world.sender->exit_code(), ExitCode::timeout);
  EXPECT_LT(run.world.now, TimePoint(1h) + 60s + 35s);
}

/// Its host says that nothing listens there any more. While it speaks that is forged, and ends nothing.
TEST(Stream, ASenderWhoseHostRefusesEndsOnceItIsSilent) {
  WorldOptions options;
  options.sealed = true;
  Streamed run(options, random_content(50'000, 1));
  run.input.come = 20'000;
  const TimePoint killed = TimePoint(1h) + 60s;
  run.world.each_step = [&] {
    run.world.sender_alive = run.world.now < killed;
    run.world.server->unreachable(run.world.now, Peer(as_bytes("another")));
    run.world.server->unreachable(run.world.now, run.world.peer);
  };
  run.world.run([&] { return run.world.server_event(Event::Kind::error) != nullptr; });
  ASSERT_NE(run.world.server_event(Event::Kind::error), nullptr);
  EXPECT_EQ(run.world.server_event(Event::Kind::error)->code, ExitCode::timeout);
  EXPECT_GE(run.world.now, killed + Receiver::silence_max - 1s);
  EXPECT_LT(run.world.now, killed + 2 * Receiver::silence_max);
  EXPECT_TRUE(run.world.destination.temporaries.empty());
}

/// A file may go on later, so it keeps what it has.
TEST(Stream, OfWhatIsNoStreamARefusalEndsNothing) {
  WorldOptions options;
  options.forward.rate = 100'000;
  options.forward.queue_bytes = 100'000;
  World world(options);
  world.source.add("file", random_content(1'000'000, 1));
  const auto silent = [&] { return world.now > TimePoint(1h) + 5s && world.now < TimePoint(1h) + 15s; };
  world.each_step = [&] {
    world.sender_alive = !silent();
    world.server->unreachable(world.now, world.peer);
  };
  world.run();
  EXPECT_EQ(world.sender->exit_code(), ExitCode::ok);
}

TEST(Stream, ASenderThatVanishesWhileInputIsSlowIsNoticedAndLeavesNothing) {
  WorldOptions options;
  options.sealed = true;
  Streamed run(options, random_content(50'000, 1));
  run.input.come = 20'000;
  run.world.each_step = [&] { run.world.sender_alive = run.world.now < TimePoint(1h) + 60s; };
  run.world.run([&] { return run.world.server_event(Event::Kind::error) != nullptr; });
  ASSERT_NE(run.world.server_event(Event::Kind::error), nullptr);
  EXPECT_EQ(run.world.server_event(Event::Kind::error)->code, ExitCode::timeout);
  EXPECT_GT(run.world.now, TimePoint(1h) + 85s);
  EXPECT_LT(run.world.now, TimePoint(1h) + 95s);
  EXPECT_TRUE(run.world.destination.files.empty());
  EXPECT_TRUE(run.world.destination.temporaries.empty());
}

// A session that only says that it lives is no obstacle to others.
TEST(Stream, OneWithoutInputGivesWayWhereTheServerIsFull) {
  ServerOptions server;
  server.session_limits.sessions_max = 1;
  Bench bench(server);
  const std::vector<FileEntry> list{{.name = "-", .kind = EntryKind::stream}};
  bench.offer(bench.cookie(), "", list);
  bench.data({manifest_file, static_cast<std::uint32_t>(bench.manifest.size()), 0}, bench.manifest);
  bench.data({0, 1408, 0}, Content(1408));
  for (int i = 0; i < 100; ++i) {
    bench.now += 1s;
    bench.probe();
    bench.drain(Kind::report);
  }
  EXPECT_FALSE(bench.event(Event::Kind::error)) << "it lives";
  EXPECT_EQ(bench.server.sessions(), 1U);
  bench.envelope.connection = 43;
  bench.last_sequence = 0;
  bench.offer(bench.cookie());
  const auto error = bench.event(Event::Kind::error);
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code, ExitCode::refused);
}

// --- What does not fit ---------------------------------------------------------------------------------------------

TEST(Stream, WhatTheReceiverHasIsForgottenAndTheRingBoundsTheRest) {
  WorldOptions options;
  options.forward.delay = options.back.delay = 20ms;
  options.forward.loss = 0.02;
  options.reader = {.room_bytes = 200'000, .rate = 2'000'000};
  options.server.receive_room_bytes = 150'000;
  Streamed run(options, random_content(5'000'000, 1), 100'000);
  run.input.whole();
  run.expect_arrived();
  EXPECT_GT(run.input.ring().begin(), 4'900'000U);
}

TEST(Stream, NothingIsReadBeforeTheTransferIsTaken) {
  WorldOptions options;
  options.sender.path = "forbidden";
  Streamed run(options, random_content(100'000, 1));
  run.input.whole();
  run.expect_failed(ExitCode::refused, ExitCode::refused);
  EXPECT_FALSE(run.input.asked);
}

TEST(Stream, InputThatFailsIsAnError) {
  for (const std::uint64_t before : {0UL, 100'000UL}) {
    WorldOptions options;
    options.sealed = true;
    Streamed run(options, random_content(200'000, 1));
    run.input.come = before;
    run.input.error = before == 0 ? EIO : 0;
    run.world.each_step = [&] { run.input.error = run.world.now > TimePoint(1h) + 5s ? EIO : run.input.error; };
    run.expect_failed(ExitCode::source_unreadable, ExitCode::source_unreadable);
    EXPECT_NE(run.world.sender_event(Event::Kind::error)->text.find("standard input"), std::string::npos);
  }
}

TEST(Stream, InterruptedItLeavesNothing) {
  Streamed run(WorldOptions(), random_content(200'000, 1));
  run.input.come = 100'000;
  run.world.each_step = [&] {
    if (run.world.now > TimePoint(1h) + 2s) {
      run.world.sender->interrupt(run.world.now);
    }
  };
  run.expect_failed(ExitCode::interrupted, ExitCode::interrupted);
}

TEST(Stream, TheLimitsOfAServerCountWhatComes) {
  for (const std::uint64_t most : {0UL, 1UL, 499'999UL, 500'000UL}) {
    for (const bool quota : {false, true}) {
      SCOPED_TRACE(testing::Message() << most << (quota ? " in all" : " each"));
      WorldOptions options;
      (quota ? options.server.quota_bytes : options.server.transfer_bytes_max) = most;
      options.forward.loss = 0.05;
      Streamed run(options, random_content(500'000, 1));
      run.drip(100'000, 1s);
      if (most == 500'000) {
        run.expect_arrived();
      } else {
        run.expect_failed(ExitCode::refused, ExitCode::refused);
      }
    }
  }
}

TEST(Stream, AFullDiskKeepsNothing) {
  Streamed run(WorldOptions(), random_content(500'000, 1));
  run.world.destination.capacity_bytes = 300'000;
  run.input.whole();
  run.expect_failed(ExitCode::disk_full, ExitCode::disk_full);
}

TEST(Stream, WhatIsWrittenDamagedIsNotPutInPlace) {
  Streamed run(WorldOptions(), random_content(500'000, 1));
  run.world.destination.corrupt = true;
  run.input.whole();
  run.expect_failed(ExitCode::digest_mismatch, ExitCode::digest_mismatch);
}

// --- What is shown -------------------------------------------------------------------------------------------------

TEST(Stream, NobodyKnowsTheTotalBeforeTheEnd) {
  Streamed run(WorldOptions(), random_content(500'000, 1));
  run.drip(100'000, 1s);
  run.expect_arrived();
  for (const auto* events : {&run.world.sender_events, &run.world.server_events}) {
    int open_ended = 0;
    for (const Event& event : *events) {
      if (event.kind == Event::Kind::progress || event.kind == Event::Kind::offer) {
        EXPECT_EQ(event.total_bytes, event.open_ended ? 0U : 500'000U);
        open_ended += event.open_ended ? 1 : 0;
      } else {
        EXPECT_FALSE(event.kind == Event::Kind::done && event.open_ended);
      }
    }
    EXPECT_GE(open_ended, 4);
  }
  const auto sent = run.world.sender->next_sent();
  ASSERT_TRUE(sent);
  EXPECT_EQ(sent->bytes, 500'000U);
}

// --- Senders that lie ----------------------------------------------------------------------------------------------

struct Lie {
  const char* what;
  std::function<void(Bench&)> tell;
  std::optional<ExitCode> ends;  // null: it goes on, or arrives
  bool arrives = false;
};

const Content& truth() {
  static const Content content = random_content(3 * 1408 + 100, 7);
  return content;
}

void say(Bench& bench, std::uint64_t first, std::uint64_t last) {
  for (std::uint64_t i = first; i < last; ++i) {
    const std::uint64_t size = std::min<std::uint64_t>(1408, truth().size() - i * 1408);
    bench.data({0, static_cast<std::uint32_t>(size), i * 1408}, ConstBytes(truth()).subspan(i * 1408, size));
  }
}

void end(Bench& bench, std::uint64_t size, const Digest& digest = file_digest_of(truth())) {
  bench.data({digest_file, stream_end_bytes, 0}, encode_stream_end({digest, size}));
}

TEST(Stream, SendersThatLie) {
  const std::uint64_t size = truth().size();
  for (const Lie& lie : std::vector<Lie>{
           {"the truth", [&](Bench& b) { say(b, 0, 4), end(b, size); }, {}, true},
           {"the truth, backwards", [&](Bench& b) { end(b, size), say(b, 3, 4), say(b, 0, 3); }, {}, true},
           {"the same end twice", [&](Bench& b) { say(b, 0, 1), end(b, size), end(b, size), say(b, 1, 4); }, {}, true},
           {"a size before what has come", [&](Bench& b) { say(b, 0, 4), end(b, size - 1); }, ExitCode::protocol_error},
           {"a size behind the last ADU", [&](Bench& b) { say(b, 0, 4), end(b, size + 1); }, ExitCode::protocol_error},
           {"a size that shrinks", [&](Bench& b) { say(b, 0, 3), end(b, 1408); }, ExitCode::protocol_error},
           {"an end of nothing", [&](Bench& b) { say(b, 0, 1), end(b, 0); }, ExitCode::protocol_error},
           {"a size beyond all files", [&](Bench& b) { end(b, file_content_max); }, ExitCode::protocol_error},
           {"an end before what has come",
            [&](Bench& b) { say(b, 0, 3), b.data({0, 100, 1408}, Content(100)); },
            {}},  // the place is filled
           {"a short ADU before one that has come",
            [&](Bench& b) { say(b, 2, 3), b.data({0, 100, 1408}, Content(100)); }, ExitCode::protocol_error},
           {"bytes behind the end",
            [&](Bench& b) { say(b, 3, 4), b.data({0, 1408, 4 * 1408}, Content(1408)), say(b, 0, 3), end(b, size); },
            {},
            true},
           {"two short ADUs",
            [&](Bench& b) { say(b, 3, 4), b.data({0, 100, 4 * 1408}, Content(100)), say(b, 0, 3), end(b, size); },
            {},
            true},
           {"another digest", [&](Bench& b) { say(b, 0, 4), end(b, size, Digest{}); }, ExitCode::digest_mismatch},
           {"a second file",
            [&](Bench& b) { b.data({1, 1408, 0}, Content(1408)), say(b, 0, 4), end(b, size); },
            {},
            true},
           {"the last byte of all files",
            [&](Bench& b) { b.data({0, 1408, (file_content_max / 1408 - 1) * 1408}, Content(1408)), say(b, 0, 1); },
            {}}}) {
    SCOPED_TRACE(lie.what);
    Bench bench;
    if (std::string_view(lie.what) == "the last byte of all files") {
      bench.destination.capacity_bytes = 0;  // a file in memory is not sparse
    }
    bench.offer(bench.cookie(), "", {{.name = "-", .kind = EntryKind::stream}});
    bench.data({manifest_file, static_cast<std::uint32_t>(bench.manifest.size()), 0}, bench.manifest);
    lie.tell(bench);
    const auto error = bench.event(Event::Kind::error);
    if (lie.ends) {
      ASSERT_TRUE(error);
      EXPECT_EQ(error->code, *lie.ends) << error->text;
    }
    EXPECT_EQ(bench.destination.files.contains("-"), lie.arrives);
    EXPECT_TRUE(!lie.arrives || bench.destination.files["-"] == truth());
  }
}

TEST(Stream, OneThatIsToBeComparedIsRefused) {
  for (const Update& update : {Update{.existing = true}, Update{.ignore_existing = true}, Update{.newer = true},
                               Update{.told = true}, Update{.told = true, .dry_run = true}}) {
    Bench bench;
    Offer offer = bench.offer_of(bench.cookie(), "", {{.name = "-", .kind = EntryKind::stream}});
    offer.update = update;
    bench.offer(offer);
    bench.data({manifest_file, static_cast<std::uint32_t>(bench.manifest.size()), 0}, bench.manifest);
    const auto error = bench.event(Event::Kind::error);
    ASSERT_TRUE(error);
    EXPECT_TRUE(error->code == ExitCode::protocol_error || error->code == ExitCode::refused) << error->text;
  }
}

}  // namespace
}  // namespace sluice::ftx::test
