// SPDX-License-Identifier: Apache-2.0
// Whole transfers whose ADUs travel compressed, over links that lose and reorder; and what counts as bytes of what.
#include <gtest/gtest.h>

#include "tests/apps/ftx/session/bench.h"
#include "tests/apps/ftx/session/simulation.h"

namespace sluice::ftx::test {
namespace {

/// Compressing takes 4 ns a byte of what a slow path takes a hundred of, as a rule.
WorldOptions compressing(Compress compress = Compress::always, std::uint64_t seed = 1) {
  WorldOptions options;
  options.seed = seed;
  options.sender.compress = compress;
  options.sender.clock = [now = TimePoint(1h)]() mutable { return now += 16us; };
  return options;
}

Content kind_of_content(std::uint64_t kind, std::size_t size, std::uint64_t seed) {
  return kind % 4 == 0   ? random_content(size, seed)
         : kind % 4 == 1 ? text_content(size, seed)
         : kind % 4 == 2 ? mixed_content(size, seed)
                         : Content(size);
}

void expect_arrived_compressed(World& world) {
  world.run();
  ASSERT_TRUE(world.sender->finished());
  ASSERT_EQ(world.sender->exit_code(), ExitCode::ok) << world.sender_event(Event::Kind::error)->text;
  EXPECT_TRUE(world.all_equal());
  ASSERT_NE(world.server_event(Event::Kind::done), nullptr);
  EXPECT_EQ(world.server->memory_left(), world.options.server.memory_bytes_max);
  EXPECT_EQ(world.server->drops().bad_frame, 0U);
}

const Event& done(World& world) { return *world.sender_event(Event::Kind::done); }

TEST(Compressed, FilesOfEverySizeArrive) {
  for (const bool sealed : {false, true}) {
    const std::uint32_t adu = adu_bytes_for(1472, sealed);
    for (const std::size_t size : {0UL, 1UL, adu - 1UL, adu + 0UL, adu + 1UL, 65536UL, 65537UL, 1000000UL}) {
      for (std::uint64_t kind = 0; kind < 4; ++kind) {
        SCOPED_TRACE(testing::Message() << size << " bytes of kind " << kind << (sealed ? ", sealed" : ""));
        WorldOptions options = compressing();
        options.sealed = sealed;
        World world(options);
        world.forward.set_filter([](TimePoint, ConstBytes datagram) {
          EXPECT_LE(datagram.size(), 1472U);
          return true;
        });
        world.source.add("file", kind_of_content(kind, size, size));
        expect_arrived_compressed(world);
        EXPECT_EQ(world.spins, 0U);
        EXPECT_EQ(done(world).bytes, size);
        EXPECT_EQ(done(world).repaired, 0U);
        EXPECT_LE(done(world).compressed_bytes, size);
        EXPECT_EQ(world.server_event(Event::Kind::done)->compressed_bytes, done(world).compressed_bytes);
        const std::uint64_t received = world.server_event(Event::Kind::done)->payload_bytes;
        EXPECT_LE(received, done(world).payload_bytes);
        EXPECT_GE(received + done(world).copied * adu, done(world).payload_bytes) << "nothing was lost";
      }
    }
  }
}

TEST(Compressed, AnyLinkDeliversTheSameBytes) {
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    SCOPED_TRACE(seed);
    Prng prng(seed);
    WorldOptions options = compressing(prng.chance(0.5) ? Compress::always : Compress::when_it_pays, seed);
    options.sealed = prng.chance(0.5);
    options.pull = options.sealed && prng.chance(0.5);
    options.sender.tsdu_bytes = options.server.tsdu_bytes = prng.chance(0.5) ? 1472 : 1200 + prng.below(8000);
    if (prng.chance(0.5)) {
      options.sender.ip_header_bytes = 28;
    }
    for (LinkFaults* link : {&options.forward, &options.back}) {
      draw_faults(*link, prng, 0.2);
      // Without a seal only a checksum notices what is damaged.
      link->corrupt = options.sealed ? prng.unit() * 0.1 : 0;
    }
    options.forward.rate = prng.chance(0.5) ? 200'000 + prng.below(10'000'000) : 0;
    options.forward.queue_bytes = 100'000;
    World world(options);
    const std::uint64_t files = 1 + prng.below(5);
    for (std::uint64_t i = 0; i < files; ++i) {
      world.source.add("f" + std::to_string(i), kind_of_content(prng.below(4), prng.below(400'000), seed + i));
    }
    expect_arrived_compressed(world);
  }
}

// Path MTU: what was compressed for long datagrams is compressed again for short ones.
TEST(Compressed, APathThatBecomesSmallerIsFollowed) {
  WorldOptions options = compressing();
  options.sender.tsdu_bytes = options.server.tsdu_bytes = 8972;
  options.sender.ip_header_bytes = 28;
  options.fixed_rate = 4'000'000;  // many round trips
  World world(options);
  std::size_t most = 8972;
  std::size_t largest = 0;
  world.forward.set_filter([&](TimePoint, ConstBytes datagram) {
    largest = std::max(largest, datagram.size() > most ? 0 : datagram.size());
    return datagram.size() <= most;
  });
  world.source.add("file", text_content(20'000'000, 1));
  world.each_step = [&] {
    if (largest > 8000 && world.sender->sent_bytes() > 4'000'000 && most == 8972) {
      most = 1300;
      largest = 0;
    }
  };
  expect_arrived_compressed(world);
  EXPECT_EQ(most, 1300U);
  EXPECT_GT(largest, 1000U);
}

// --- Bytes of the wire, bytes of files -----------------------------------------------------------------------------

TEST(Compressed, WhatTravelsIsCountedAndIsLess) {
  std::uint64_t plain = 0;
  for (const Compress compress : {Compress::never, Compress::always}) {
    World world(compressing(compress));
    world.source.add("file", text_content(2'000'000, 1));
    std::uint64_t payloads = 0;
    world.forward.set_filter([&](TimePoint, ConstBytes datagram) {
      payloads += parse_envelope(datagram)->kind == Kind::data ? datagram.size() - data_header_bytes : 0;
      return true;
    });
    expect_arrived_compressed(world);
    EXPECT_EQ(done(world).bytes, 2'000'000U);
    EXPECT_EQ(done(world).payload_bytes, payloads);
    EXPECT_EQ(world.server_event(Event::Kind::done)->bytes, 2'000'000U);
    if (compress == Compress::never) {
      plain = payloads;
      EXPECT_EQ(done(world).compressed_bytes, 0U);
    } else {
      EXPECT_LT(payloads, plain / 2);
      EXPECT_GT(done(world).compressed_bytes, 1'900'000U);
    }
  }
}

// Compressed, no more than the link carries is sent either: its queue does not overflow more.
TEST(Compressed, TheLinksRateIsKeptAndTheTransferIsFaster) {
  double plain = 0;
  std::uint64_t overflowed = 0;
  for (const Compress compress : {Compress::never, Compress::when_it_pays}) {
    WorldOptions options = compressing(compress);
    options.forward.rate = 1'000'000;
    options.forward.queue_bytes = 50'000;
    World world(options);
    world.source.add("file", text_content(10'000'000, 1));
    expect_arrived_compressed(world);
    if (compress == Compress::never) {
      plain = done(world).seconds;
      overflowed = world.forward.overflowed;
    } else {
      EXPECT_LT(done(world).seconds, plain / 2);
      EXPECT_LE(world.forward.overflowed, overflowed + overflowed / 4);
    }
  }
}

// Compressing that takes longer than sending: after a few ADUs it ends.
TEST(Compressed, WhereItDoesNotPayAFewAreTried) {
  WorldOptions options = compressing(Compress::when_it_pays);
  options.sender.clock = [now = TimePoint(1h)]() mutable { return now += 100ms; };
  options.forward.rate = 10'000'000;
  options.forward.queue_bytes = 500'000;
  World world(options);
  world.source.add("file", text_content(5'000'000, 1));
  expect_arrived_compressed(world);
  EXPECT_GT(done(world).compressed_bytes, 0U);
  EXPECT_LT(done(world).compressed_bytes, 50'000U);
}

TEST(Compressed, WhatCannotBeCompressedIsTriedNowAndThen) {
  WorldOptions options = compressing(Compress::when_it_pays);
  int asked = 0;
  options.sender.clock = [&asked, now = TimePoint(1h)]() mutable {
    ++asked;
    return now += 2us;
  };
  options.forward.rate = 10'000'000;
  options.forward.queue_bytes = 500'000;
  World world(options);
  world.source.add("file", random_content(10'000'000, 1));
  expect_arrived_compressed(world);
  EXPECT_EQ(done(world).compressed_bytes, 0U);
  EXPECT_GT(asked, 4);
  EXPECT_LT(asked, 100) << "of 7,100 ADUs";
}

// --- What is refused -----------------------------------------------------------------------------------------------

/// A session with a file of 100,000 bytes, and frames by hand.
struct FrameBench : Bench {
  Content text = text_content(100'000, 1);
  AduCompressor compressor{Compress::always, [] { return TimePoint(); }, 1408};

  FrameBench() {
    Offer message = offer_of(cookie());
    message.adu_bytes = adu_bytes_unit;
    offer(message);
    data({manifest_file, static_cast<std::uint32_t>(manifest.size()), 0}, manifest);
  }
  AduCompressor::Fitted fit(std::size_t at) {
    compressor.release();
    const std::size_t most = std::min(compressor.content_bytes_for(1408), text.size() - at);
    return compressor.fit(ConstBytes(text).subspan(at, most), 1408);
  }
  void frame(const AduName& adu, ConstBytes payload) {
    const std::size_t header = emit_data_header(envelope, {{++last_sequence, 0, 1}, adu, false, true}, buffer);
    std::copy(payload.begin(), payload.end(), buffer.begin() + static_cast<std::ptrdiff_t>(header));
    send(header + payload.size());
  }
};

TEST(Compressed, AFrameThatLiesIsDroppedAndCountedAndItsPlaceStaysOpen) {
  FrameBench bench;
  const auto good = bench.fit(0);
  ASSERT_TRUE(good.compressed);
  const auto length = static_cast<std::uint32_t>(good.content_bytes);
  bench.frame({0, length + 16, 0}, good.payload);
  bench.frame({0, length - 16, 0}, good.payload);
  bench.frame({0, length, 0}, good.payload.first(good.payload.size() - 1));
  bench.frame({0, length, 0}, random_content(good.payload.size(), 3));
  EXPECT_EQ(bench.server.drops().bad_frame, 4U);
  EXPECT_EQ(bench.destination.writes, 0U);
  bench.frame({0, length, 0}, good.payload);
  EXPECT_EQ(bench.destination.writes, 1U);
  EXPECT_EQ(bench.server.drops().bad_frame, 4U);
  const auto& file = bench.destination.temporaries.begin()->second;
  EXPECT_TRUE(std::ranges::equal(ConstBytes(file).first(length), ConstBytes(bench.text).first(length)));
  bench.frame({0, length, 0}, good.payload);
  EXPECT_EQ(bench.server.drops().duplicate, 1U);
}

TEST(Compressed, ANameThatNoFrameMayHaveIsMalformed) {
  FrameBench bench;
  const auto good = bench.fit(0);
  const std::uint64_t before = bench.server.drops().malformed;
  const auto size = static_cast<std::uint32_t>(good.payload.size());
  bench.frame({0, size, 0}, good.payload);
  bench.frame({0, size - 1, 0}, good.payload);
  bench.frame({manifest_file, static_cast<std::uint32_t>(good.content_bytes), 0}, good.payload);
  bench.frame({digest_file, static_cast<std::uint32_t>(good.content_bytes), 0}, good.payload);
  bench.frame({0, 100, 0}, {});
  EXPECT_EQ(bench.server.drops().malformed, before + 5);
  EXPECT_EQ(bench.server.drops().bad_frame, 0U);
  EXPECT_EQ(bench.destination.writes, 0U);
}

// A frame counts as received by what has travelled of it, so that it earns no more credit, and tells no higher rate.
TEST(Compressed, AReportCountsWhatHasTravelled) {
  FrameBench bench;
  const auto good = bench.fit(0);
  bench.frame({0, static_cast<std::uint32_t>(good.content_bytes), 0}, good.payload);
  bench.probe();
  const auto report = parse_report(bench.drain(Kind::report).value());
  ASSERT_TRUE(report);
  EXPECT_EQ(report->received_bytes, bench.manifest.size() + good.payload.size());
}

// docs/security.md, "Compression".
TEST(Compressed, ListsAreNotAndNothingIsUnlessAskedFor) {
  for (const Compress compress : {Compress::never, Compress::always}) {
    World world(compressing(compress));
    for (int i = 0; i < 1000; ++i) {
      world.source.add("a name that could be compressed well " + std::to_string(i), text_content(3000, 1));
    }
    std::uint64_t files = 0;
    world.forward.set_filter([&](TimePoint, ConstBytes datagram) {
      if (parse_envelope(datagram)->kind == Kind::data) {
        const auto data = parse_data(datagram, datagram.size());
        const bool list = data->adu.file == manifest_file || data->adu.file == digest_file;
        EXPECT_FALSE(data->compressed && (list || compress == Compress::never));
        files += data->compressed ? 1 : 0;
      }
      return true;
    });
    expect_arrived_compressed(world);
    EXPECT_EQ(files > 0, compress == Compress::always);
  }
}

// Threat: a stranger, or somebody on the path, who reaches the decompressor.
TEST(Compressed, WhatIsForgedIsNotDecompressed) {
  WorldOptions options = compressing();
  options.sealed = true;
  World world(options);
  world.source.add("file", text_content(5'000'000, 1));
  std::uint64_t forged = 0;
  world.forward.set_filter([&](TimePoint now, ConstBytes datagram) {
    if (parse_envelope(datagram)->kind == Kind::data && parse_data(datagram, datagram.size())->compressed) {
      Content changed(datagram.begin(), datagram.end());
      changed[data_header_bytes] ^= std::byte{1};
      world.server->receive(now, changed, world.peer);
      ++forged;
      // What was not compressed is not made to be.
      Content flagged(datagram.begin(), datagram.end());
      flagged[2] ^= std::byte{flag_compressed};
      world.server->receive(now, flagged, world.peer);
    }
    return true;
  });
  expect_arrived_compressed(world);
  EXPECT_GT(forged, 500U);
  EXPECT_GE(world.server->drops().forged, forged - 200) << "but for the first flight, which came before its session";
  EXPECT_EQ(world.server->drops().bad_frame, 0U);
}

// A peer writes no more than he may by sending less.
TEST(Compressed, AQuotaCountsBytesOfFiles) {
  WorldOptions options = compressing();
  options.server.transfer_bytes_max = 999'999;
  World world(options);
  world.source.add("file", Content(1'000'000));
  world.run();
  EXPECT_EQ(world.sender->exit_code(), ExitCode::refused);
  EXPECT_EQ(world.destination.writes, 0U);
}

// In a run payloads of a file are written together, those of frames beside.
TEST(Compressed, InARunToo) {
  FrameBench bench;
  std::vector<Content> datagrams;
  std::size_t at = 0;
  while (at < bench.text.size()) {
    auto fitted = bench.fit(at);
    if (datagrams.size() % 3 == 2) {
      fitted = {1408, ConstBytes(bench.text).subspan(at, std::min<std::size_t>(1408, bench.text.size() - at)), false};
      fitted.content_bytes = fitted.payload.size();
    }
    Content& datagram = datagrams.emplace_back(data_header_bytes);
    emit_data_header(bench.envelope,
                     {{++bench.last_sequence, 0, 1},
                      {0, static_cast<std::uint32_t>(fitted.content_bytes), at},
                      false,
                      fitted.compressed},
                     datagram);
    datagram.insert(datagram.end(), fitted.payload.begin(), fitted.payload.end());
    at += fitted.content_bytes;
  }
  ASSERT_EQ(at, bench.text.size());
  std::vector<Bytes> run(datagrams.begin(), datagrams.end());
  bench.server.receive_run(bench.now, run, bench.peer);
  ASSERT_EQ(bench.destination.temporaries.size(), 1U);
  EXPECT_EQ(bench.destination.temporaries.begin()->second, bench.text);
  const Digest digest = file_digest_of(bench.text);
  bench.data({digest_file, digest_bytes, 0}, digest);
  EXPECT_EQ(bench.destination.files["file"], bench.text);
}

// Callers that land payloads themselves leave frames to receive().
TEST(Compressed, NoMemoryIsNamedForAFrame) {
  FrameBench bench;
  const auto good = bench.fit(0);
  const AduName adu{0, static_cast<std::uint32_t>(good.content_bytes), 0};
  bench.data({0, 16, 99'984}, ConstBytes(bench.text).last(16));
  emit_data_header(bench.envelope, {{++bench.last_sequence, 0, 1}, adu, false, true}, bench.buffer);
  const std::size_t size = data_header_bytes + good.payload.size();
  EXPECT_TRUE(bench.server.memory_for(bench.buffer, size, bench.peer).memory.empty());
  EXPECT_EQ(bench.server.inspect(bench.now, bench.buffer, size, bench.peer).kind, Server::Inspection::Kind::other);
}

}  // namespace
}  // namespace sluice::ftx::test
