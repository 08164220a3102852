// SPDX-License-Identifier: Apache-2.0
// --delta: a receiver finds blocks of changed files in what lies in their places, and the sender sends the rest.
#include <gtest/gtest.h>

#include "apps/ftx/files/assembly.h"
#include "apps/ftx/files/block_signature.h"
#include "apps/ftx/session/adu_scheduler.h"
#include "tests/apps/ftx/session/meeting.h"
#include "tests/apps/ftx/session/simulation.h"

namespace sluice::ftx::test {
namespace {

/// A turn reads about 4 MiB, and these files have 5 MB.
constexpr std::uint64_t turns_max = 30;

WorldOptions delta_options(std::uint64_t seed) {
  WorldOptions options;
  options.seed = seed;
  options.sealed = true;
  options.sender.update.delta = options.sender.delta = true;
  return options;
}

/// `content` with a byte changed each `interval` bytes, and some bytes more at its beginning.
Content changed(Content content, std::size_t interval) {
  for (std::size_t at = interval / 2; at < content.size(); at += interval) {
    content[at] ^= std::byte{1};
  }
  const Content more = random_content(100, 99);
  content.insert(content.begin(), more.begin(), more.end());
  return content;
}

std::uint64_t sent_bytes(const World& world) {
  const Event* const done = world.sender_event(Event::Kind::done);
  return done != nullptr ? done->bytes : UINT64_MAX;
}

TEST(Delta, OnlyWhatHasChangedTravels) {
  for (const bool pull : {false, true}) {
    WorldOptions options = delta_options(1);
    options.pull = pull;
    if (pull) {
      options.server.receiver.update = Update{.delta = true};
      options.sender.update = {};
    }
    World world(options);
    const Content content = random_content(5'000'000, 1);
    world.source.add("file", content);
    world.source.add("new", random_content(200'000, 2));
    world.destination.earlier["file"] = changed(content, 500'000);
    world.run();
    ASSERT_TRUE(world.all_equal()) << pull;
    // Ten changes, a block of 2,048 bytes each, and what is left at the end; and all of the new file.
    EXPECT_GE(sent_bytes(world), 200'000U) << pull;
    EXPECT_LE(sent_bytes(world), 200'000U + 11 * 2048) << pull;
    EXPECT_LE(world.spins, turns_max) << "turns without a datagram: it reads";
    const Event* const done = world.sender_event(Event::Kind::done);
    EXPECT_EQ(done->skipped_bytes + done->bytes, done->total_bytes);
    const Event* const received = world.server_event(Event::Kind::done);
    EXPECT_EQ(received->skipped_bytes, done->skipped_bytes);
  }
}

TEST(Delta, IsNotAskedForWhereNobodyWantsItOrNothingIsThere) {
  for (const bool wanted : {false, true}) {
    WorldOptions options = delta_options(2);
    options.sender.update.delta = options.sender.delta = wanted;
    World world(options);
    const Content content = random_content(1'000'000, 1);
    world.source.add("file", content);
    if (!wanted) {
      world.destination.earlier["file"] = content;
    }
    world.back.set_filter([](TimePoint, ConstBytes datagram) {
      const auto envelope = parse_envelope(datagram);
      EXPECT_TRUE(!envelope || envelope->kind != Kind::sign);
      return true;
    });
    world.run();
    EXPECT_TRUE(world.all_equal());
    EXPECT_EQ(sent_bytes(world), content.size());
  }
}

/// Loss, reordering and duplicates, of SIGN and of signatures as well; slots of 16 bytes and longer ones than blocks.
TEST(Delta, EndsEqualOnAnyPath) {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Prng prng(seed);
    WorldOptions options = delta_options(seed);
    options.forward = options.back = {.loss = 0.05, .burst = 3, .reorder = 0.1, .duplicate = 0.05};
    options.sender.delta = true;
    if (prng.below(2) == 0) {
      options.sender.ip_header_bytes = 28;
      options.sender.tsdu_bytes = options.server.tsdu_bytes = 8972;
    }
    World world(options);
    for (int i = 0; i < 4; ++i) {
      const std::string name(1, static_cast<char>('a' + i));
      const Content content = random_content(prng.below(800'000), seed * 10 + static_cast<std::uint64_t>(i));
      world.source.add(name, content);
      if (prng.below(4) > 0) {
        Content had = changed(content, 10'000 + prng.below(400'000));
        had.resize(prng.below(had.size() + 1000));
        world.destination.earlier[name] = std::move(had);
      }
    }
    world.run();
    EXPECT_TRUE(world.all_equal());
    EXPECT_LE(world.spins, turns_max);
  }
}

/// The transport carries ADUs of 60,000 bytes, and a sender that does not know of --delta has slots of that length.
TEST(Delta, SlotsMayBeLongerThanBlocks) {
  WorldOptions options = delta_options(3);
  options.sender.update.delta = options.sender.delta = true;
  options.sender.tsdu_bytes = options.server.tsdu_bytes = 60'000;
  World world(options);
  const Content content = random_content(3'000'000, 1);
  world.source.add("file", content);
  world.destination.earlier["file"] = content;
  world.destination.earlier["file"][1'500'000] ^= std::byte{1};
  world.run();
  EXPECT_TRUE(world.all_equal());
  EXPECT_LE(sent_bytes(world), 3 * 2048U);
}

/// Where there is one, clients may fetch.
class NoFiles final : public Provider {
 public:
  std::expected<OpenedPull, Failure> open(const PullRequest&, const Peer&) override {
    return std::unexpected(Failure{ExitCode::not_allowed, "nothing to fetch"});
  }
};

/// Threat: a client that may send and not fetch: it would learn which of its blocks the server has.
TEST(Delta, IsNothingForWhoMayNotKnowWhatIsThere) {
  for (const Access access : {Access::both, Access::write}) {
    ServerOptions options = Meeting::standing();
    NoFiles provider;
    options.provider = &provider;
    options.access = [access](const Client&) { return access; };
    Meeting meeting({}, 1, options);
    const Content content = random_content(300'000, 1);
    meeting.source.add("file", content);
    meeting.destination.earlier["file"] = content;
    meeting.update = Update{.delta = true};
    EXPECT_TRUE(meeting.run());
    ASSERT_TRUE(meeting.sender && meeting.sender->finished());
    EXPECT_EQ(meeting.sender->exit_code(), ExitCode::ok);
    EXPECT_EQ(meeting.destination.files["file"], content);
    EXPECT_EQ(meeting.sender->sent_bytes() == content.size(), access == Access::write);
  }
}

/// What lies there is lost on the way into the new file: the digest of the whole notices.
TEST(Delta, AWriteThatGoesWrongIsNoticed) {
  World world(delta_options(5));
  const Content content = random_content(300'000, 1);
  world.source.add("file", content);
  world.destination.earlier["file"] = content;
  world.destination.corrupt = true;
  world.run();
  ASSERT_NE(world.server_event(Event::Kind::error), nullptr);
  EXPECT_EQ(world.server_event(Event::Kind::error)->code, ExitCode::digest_mismatch);
  EXPECT_TRUE(world.destination.files.empty());
}

TEST(Delta, AFullDestinationIsSaid) {
  World world(delta_options(6));
  const Content content = random_content(3'000'000, 1);
  world.source.add("file", content);
  world.destination.earlier["file"] = content;
  world.destination.capacity_bytes = 1'000'000;
  world.run();
  ASSERT_NE(world.sender_event(Event::Kind::error), nullptr);
  EXPECT_EQ(world.sender_event(Event::Kind::error)->code, ExitCode::disk_full);
}

TEST(Delta, ASourceThatVanishesWhileItIsSignedIsSaid) {
  World world(delta_options(7));
  const Content content = random_content(3'000'000, 1);
  world.source.add("file", content);
  world.destination.earlier["file"] = content;
  world.back.set_filter([&world](TimePoint, ConstBytes datagram) {
    const auto envelope = parse_envelope(datagram);
    world.source.vanished |= envelope && envelope->kind == Kind::sign;
    return true;
  });
  world.run();
  ASSERT_NE(world.server_event(Event::Kind::error), nullptr);
  EXPECT_EQ(world.server_event(Event::Kind::error)->code, ExitCode::source_unreadable);
}

/// A sender that never signs anything: the receiver asks again and again, and gives up in the end.
TEST(Delta, ASenderThatDoesNotSignIsGivenUp) {
  WorldOptions options = delta_options(8);
  options.sender.delta = false;
  options.server.receiver.idle_timeout = 10s;
  World world(options);
  const Content content = random_content(300'000, 1);
  world.source.add("file", content);
  world.destination.earlier["file"] = content;
  std::uint64_t asked = 0;
  world.back.set_filter([&asked](TimePoint, ConstBytes datagram) {
    const auto envelope = parse_envelope(datagram);
    asked += envelope && envelope->kind == Kind::sign ? 1 : 0;
    return true;
  });
  world.run();
  ASSERT_NE(world.server_event(Event::Kind::error), nullptr);
  EXPECT_EQ(world.server_event(Event::Kind::error)->code, ExitCode::timeout);
  EXPECT_GE(asked, 5U);
  EXPECT_LE(asked, 30U);
}

// --- Assembly ------------------------------------------------------------------------------------------------------

/// A receiver of one file that has asked for its signatures and has them.
struct Searching {
  static constexpr std::uint32_t slot = 16;
  MemoryDestination destination;
  Budget budget{Budget::unlimited};
  std::unique_ptr<Assembly> assembly;
  std::vector<ByteRange> present;

  Searching(const Content& content, Content earlier) {
    destination.earlier["file"] = std::move(earlier);
    const std::vector<FileEntry> files{{.name = "file", .size_bytes = content.size()}};
    const Content manifest = encode_manifest(files);
    const auto size = static_cast<std::uint32_t>(manifest.size());
    assembly = std::move(
        Assembly::start({"", content.size(), slot, 1, size, digest_of(manifest), {.delta = true}}, destination, budget)
            .value());
    land(manifest_file, 0, manifest);
    EXPECT_TRUE(assembly->looks_for_earlier());
    assembly->look_for_earlier(10);
    EXPECT_EQ(assembly->to_sign(), SignedNumbers{0});
    const std::uint64_t block = signature_block_bytes(content.size());
    Content signatures(signature_bytes(content.size()));
    for (std::size_t at = 0; at < signatures.size(); at += block_signature_bytes) {
      sign_block(ConstBytes(content).subspan(at / block_signature_bytes * block, block),
                 Bytes(signatures).subspan(at, block_signature_bytes));
    }
    EXPECT_TRUE(assembly->awaits_signatures());
    for (std::size_t at = 0; at < signatures.size(); at += 48'000) {
      land(signature_file, at,
           ConstBytes(signatures).subspan(at, std::min<std::size_t>(48'000, signatures.size() - at)));
    }
    EXPECT_FALSE(assembly->awaits_signatures());
  }
  void land(std::uint32_t file, std::uint64_t offset, ConstBytes bytes) {
    const AduName adu{file, static_cast<std::uint32_t>(bytes.size()), offset};
    const auto place = assembly->place(adu, Assembly::Prefer::file);
    ASSERT_TRUE(place);
    if (place->kind == Placement::Kind::memory) {
      std::ranges::copy(bytes, place->memory.begin());
    } else {
      ASSERT_EQ(place->kind, Placement::Kind::file);
      ASSERT_TRUE(place->file->write(place->offset, bytes));
    }
    ASSERT_TRUE(assembly->landed(adu));
  }
  /// A turn.
  void compare() { ASSERT_TRUE(assembly->compare(1000, present)); }
};

/// What arrives while the search goes on stays, whatever the search finds for its place: it may have been digested.
TEST(Assembly, WhatArrivesIsNotWrittenOverByWhatIsFound) {
  const Content content = random_content(12'000'000, 1);
  Searching searching(content, content);
  searching.compare();
  EXPECT_TRUE(searching.assembly->comparing()) << "it needs several turns";
  EXPECT_TRUE(searching.present.empty());
  // A block, parts of the two beside it, and the end, which no signature has.
  Content arrived = random_content(8192, 2);
  searching.land(0, 10'000'000 / 4096 * 4096 + 2048, arrived);
  const std::uint64_t tail = content.size() / 4096 * 4096;
  searching.land(0, tail, ConstBytes(content).subspan(tail));
  for (int turn = 0; turn < 100 && searching.assembly->comparing(); ++turn) {
    searching.compare();
  }
  EXPECT_FALSE(searching.assembly->comparing());
  Content expected = content;
  std::ranges::copy(arrived, expected.begin() + 10'000'000 / 4096 * 4096 + 2048);
  ASSERT_EQ(searching.destination.temporaries.size(), 1U);
  const Content& written = searching.destination.temporaries.begin()->second;
  const std::uint64_t from = 10'000'000 / 4096 * 4096, to = from + 3 * 4096;
  EXPECT_TRUE(std::ranges::equal(ConstBytes(written).first(from), ConstBytes(expected).first(from)));
  EXPECT_TRUE(std::ranges::equal(ConstBytes(written).subspan(from + 2048, 8192), arrived));
  EXPECT_TRUE(std::ranges::equal(ConstBytes(written).subspan(to), ConstBytes(expected).subspan(to)));
  const std::vector<ByteRange> told{{0, from}, {from + 4096, from + 8192}, {to, tail}};
  EXPECT_EQ(searching.present, told) << "of a block that is there in part the rest is to come";
}

// --- AduScheduler --------------------------------------------------------------------------------------------------

/// All that next() has before the receiver accepts.
Content signatures_from(AduScheduler& scheduler) {
  Content signatures;
  for (int i = 0; i < 10'000 && !scheduler.drained(); ++i) {
    const auto adu = scheduler.next();
    EXPECT_TRUE(adu);
    if (adu && *adu) {
      EXPECT_EQ((*adu)->name.file, signature_file);
      EXPECT_EQ((*adu)->name.offset, signatures.size());
      signatures.insert(signatures.end(), (*adu)->payload.begin(), (*adu)->payload.end());
    }
    scheduler.release();
  }
  return signatures;
}

TEST(AduScheduler, SignsWhatTheReceiverWants) {
  MemorySource source;
  source.add("a", random_content(10'000, 1));
  source.add("b", random_content(1'000, 2));
  source.add("c", random_content(9'000'000, 3));
  AduScheduler scheduler(source, 1408);
  const std::vector<std::uint32_t> wanted{0, 2}, others{0, 1, 2}, beyond{0, 3};
  EXPECT_FALSE(scheduler.sign(wanted)) << "it has no list yet";
  while (!scheduler.drained()) {
    ASSERT_TRUE(scheduler.next());
  }
  EXPECT_FALSE(scheduler.sign(beyond));
  EXPECT_TRUE(scheduler.sign(wanted));
  EXPECT_FALSE(scheduler.drained());
  const Content signatures = signatures_from(scheduler);
  ASSERT_EQ(signatures.size(), (4 + 9'000'000 / 4096) * block_signature_bytes);
  const auto expect = [&](std::size_t place, std::uint32_t file, std::uint64_t offset, std::uint64_t size) {
    std::array<std::byte, block_signature_bytes> signature{};
    sign_block(ConstBytes(source.content(file)).subspan(offset, size), signature);
    EXPECT_TRUE(std::ranges::equal(
        signature, ConstBytes(signatures).subspan(place * block_signature_bytes, block_signature_bytes)))
        << place;
  };
  expect(0, 0, 0, 2048);
  expect(3, 0, 3 * 2048, 2048);
  expect(4, 2, 0, 4096);
  expect(signatures.size() / block_signature_bytes - 1, 2, (9'000'000 / 4096 - 1) * 4096, 4096);

  EXPECT_TRUE(scheduler.sign(wanted)) << "once more";
  EXPECT_TRUE(scheduler.drained());
  EXPECT_FALSE(scheduler.sign(others));
  const AduName second{signature_file, 1408, 1408};
  EXPECT_FALSE(scheduler.present(second));
  const auto again = scheduler.retransmit(second);
  ASSERT_TRUE(again);
  EXPECT_TRUE(std::ranges::equal(again->payload, ConstBytes(signatures).subspan(1408, 1408)));
  scheduler.accept();
  EXPECT_TRUE(scheduler.present(second)) << "it needs them no more";
}

// --- What nobody sends who keeps to the protocol -------------------------------------------------------------------

/// Signatures of `signed_for`, and then the data of `content`; `earlier` is what is there.
std::unique_ptr<World> lie(const Content& signed_for, const Content& content, const Content& earlier) {
  auto world = std::make_unique<World>(delta_options(9));
  world->source.add("file", signed_for);
  world->destination.earlier["file"] = earlier;
  world->back.set_filter([&source = world->source, content](TimePoint, ConstBytes datagram) {
    // Sealed: only the kind can be seen. The receiver has all signatures when it says what it has.
    const auto envelope = parse_envelope(datagram);
    if (envelope && envelope->kind == Kind::have) {
      source.content(0) = content;
    }
    return true;
  });
  world->run();
  return world;
}

/// Threat: signatures of something else. What is found by them is put together, its digest is wrong, and nothing is in
/// place; where nothing is found, all is sent.
TEST(Delta, SignaturesThatLieChangeNothing) {
  const Content one = random_content(300'000, 1), other = random_content(300'000, 2);
  const auto fooled = lie(one, other, one);
  ASSERT_NE(fooled->server_event(Event::Kind::error), nullptr);
  EXPECT_EQ(fooled->server_event(Event::Kind::error)->code, ExitCode::digest_mismatch);
  EXPECT_TRUE(fooled->destination.files.empty());
  const auto equal = lie(one, one, other);
  EXPECT_TRUE(equal->all_equal());
  EXPECT_EQ(sent_bytes(*equal), one.size());
}

}  // namespace
}  // namespace sluice::ftx::test
