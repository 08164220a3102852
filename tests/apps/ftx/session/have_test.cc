// SPDX-License-Identifier: Apache-2.0
// What the receiver has already: said until it is taken, and then neither read nor sent.
#include <gtest/gtest.h>

#include <set>

#include "apps/ftx/session/adu_scheduler.h"
#include "apps/ftx/session/have_announcer.h"
#include "apps/ftx/session/receiver.h"
#include "tests/apps/ftx/session/simulation.h"

namespace sluice::ftx::test {
namespace {

constexpr TimePoint have_start{1h};
constexpr Duration round_trip = 100ms;

// --- HaveAnnouncer -------------------------------------------------------------------------------------------------

TEST(HaveAnnouncer, SaysNothingWhereNothingIsThere) {
  HaveAnnouncer announcer;
  EXPECT_FALSE(announcer.next(have_start, round_trip));
  EXPECT_EQ(announcer.next_deadline(), never);
  EXPECT_TRUE(announcer.all_taken());
}

TEST(HaveAnnouncer, RepeatsWhatIsNotTakenAfterDoublingIntervals) {
  HaveAnnouncer announcer;
  announcer.add({10, 20});
  announcer.add({20, 30});
  announcer.add({40, 50});
  EXPECT_EQ(announcer.next_deadline(), TimePoint::min());
  TimePoint now = have_start;
  Duration interval = 2 * round_trip;
  for (int round = 0; round < 6; ++round) {
    const auto have = announcer.next(now, round_trip);
    ASSERT_TRUE(have) << round;
    EXPECT_EQ(have->from, 0U);
    EXPECT_EQ(have->to, 50U);
    ASSERT_EQ(have->range_count, 2U) << "what follows each other is one range";
    EXPECT_EQ(have->ranges[0], (ByteRange{10, 30}));
    EXPECT_FALSE(announcer.next(now, round_trip));
    EXPECT_EQ(announcer.next_deadline(), now + interval);
    now += interval;
    interval = std::min(interval * 2, RepeatTimer::interval_max);
  }
  EXPECT_FALSE(announcer.on_taken(51)) << "never said";
  EXPECT_TRUE(announcer.on_taken(30));
  EXPECT_FALSE(announcer.all_taken());
  const auto rest = announcer.next(now, round_trip);
  ASSERT_TRUE(rest);
  EXPECT_EQ(rest->from, 30U);
  EXPECT_EQ(rest->range_count, 1U);
  EXPECT_TRUE(announcer.on_taken(50));
  EXPECT_TRUE(announcer.on_taken(30)) << "an old one";
  EXPECT_TRUE(announcer.all_taken());
  EXPECT_EQ(announcer.next_deadline(), never);
  EXPECT_FALSE(announcer.next(now + 1h, round_trip));
}

/// Threat: a peer that takes what is in the middle of a range.
TEST(HaveAnnouncer, GoesOnInsideARangeWhereThePeerSaysSo) {
  HaveAnnouncer announcer;
  announcer.add({10, 20});
  ASSERT_TRUE(announcer.next(have_start, round_trip));
  EXPECT_TRUE(announcer.on_taken(15));
  const auto rest = announcer.next(have_start + 1h, round_trip);
  ASSERT_TRUE(rest);
  EXPECT_EQ(rest->from, 15U);
  EXPECT_EQ(rest->ranges[0], (ByteRange{15, 20}));
}

TEST(HaveAnnouncer, HoldsSoManyRangesUntilTheyAreTaken) {
  HaveAnnouncer announcer;
  for (std::uint64_t i = 0; announcer.room() > 0; ++i) {
    announcer.add({2 * i, 2 * i + 1});
  }
  std::uint64_t to = 0;
  std::size_t ranges = 0;
  while (const auto have = announcer.next(have_start, round_trip)) {
    EXPECT_EQ(have->from, to);
    to = have->to;
    ranges += have->range_count;
  }
  EXPECT_EQ(ranges, HaveAnnouncer::waiting_max);
  EXPECT_TRUE(announcer.on_taken(to));
  EXPECT_EQ(announcer.room(), HaveAnnouncer::waiting_max);
}

// --- Receiver ------------------------------------------------------------------------------------------------------

/// A sender cannot believe that all has arrived before it has taken what was there; then it is told so again at once.
TEST(Have, WhatIsTakenBehindTheEndIsFollowedByAReport) {
  MemoryDestination destination;
  destination.equal = true;
  FileEntry file{"file", 100'000};
  file.digest = digest_of({});
  const Content manifest = encode_manifest({{file}});
  const auto size = static_cast<std::uint32_t>(manifest.size());
  Offer offer{.total_bytes = file.size_bytes, .adu_bytes = 1408, .files = 1, .manifest_bytes = size};
  offer.manifest_digest = digest_of(manifest);
  offer.update.compare = Update::Compare::digest;
  Envelope envelope{Kind::data, 0, 42};
  Budget host(1U << 30);
  AduDecompressor decompressor;
  EventQueue events;
  DropCounters drops;
  TimePoint now = have_start;
  Receiver receiver(now, envelope, offer, {}, destination, host, decompressor, events, drops);
  Content buffer(2000);
  const std::size_t header =
      emit_data_header(envelope, {{1, 0, 100'000}, {manifest_file, size, 0}, false, false}, buffer);
  std::ranges::copy(manifest, buffer.begin() + static_cast<std::ptrdiff_t>(header));
  receiver.receive(now, {Kind::data, 0, 42}, ConstBytes(buffer).first(header + size));

  std::uint64_t said = 0;
  const auto reports = [&] {
    int count = 0;
    for (std::size_t sent = receiver.transmit(now, buffer, 1U << 20); sent > 0;
         sent = receiver.transmit(now, buffer, 1U << 20)) {
      const ConstBytes datagram = ConstBytes(buffer).first(sent);
      const auto have = parse_envelope(datagram)->kind == Kind::have ? parse_have(datagram) : std::nullopt;
      const auto report = parse_envelope(datagram)->kind == Kind::report ? parse_report(datagram) : std::nullopt;
      said = have ? have->to : said;
      count += report && report->phase == Phase::finished ? 1 : 0;
    }
    return count;
  };
  reports();
  ASSERT_TRUE(receiver.over());
  ASSERT_GT(said, 0U);
  now += 1ms;
  ASSERT_EQ(reports(), 0) << "there is no news";
  const std::size_t taken = emit_taken(envelope, said, buffer);
  receiver.receive(now, {Kind::taken, 0, 42}, ConstBytes(buffer).first(taken));
  EXPECT_EQ(reports(), 1);
}

// --- PresentRanges -------------------------------------------------------------------------------------------------

Have have_of(std::uint64_t from, std::uint64_t to, std::vector<ByteRange> ranges) {
  Have have{.from = from, .to = to, .range_count = ranges.size()};
  std::ranges::copy(ranges, have.ranges.begin());
  return have;
}

TEST(PresentRanges, AreTakenInOrderAndOnce) {
  PresentRanges present(100, 10);
  std::uint64_t bytes = 0;
  const auto take = [&](const Have& have) {
    return present.take(have, [&](const ByteRange& range) { bytes += range.to - range.from; });
  };
  EXPECT_FALSE(take(have_of(10, 20, {{10, 20}}))) << "leaves a gap";
  EXPECT_TRUE(take(have_of(0, 20, {{10, 20}})));
  EXPECT_TRUE(take(have_of(0, 20, {{10, 20}}))) << "again";
  EXPECT_TRUE(take(have_of(0, 30, {{10, 25}, {28, 30}}))) << "overlaps what was taken";
  EXPECT_FALSE(take(have_of(30, 101, {{40, 101}}))) << "behind the contents";
  EXPECT_EQ(bytes, 17U);
  EXPECT_EQ(present.taken(), 30U);
  EXPECT_EQ(present.end_at(9), 9U);
  EXPECT_EQ(present.end_at(10), 25U);
  EXPECT_EQ(present.end_at(24), 25U);
  EXPECT_EQ(present.end_at(25), 25U);
  EXPECT_EQ(present.next_behind(5), 10U);
  EXPECT_EQ(present.next_behind(10), 28U);
  EXPECT_EQ(present.next_behind(28), UINT64_MAX);
  EXPECT_TRUE(present.covers({12, 25}));
  EXPECT_FALSE(present.covers({12, 26}));
}

TEST(PresentRanges, AreKeptUpToABoundAndTakenBeyondIt) {
  PresentRanges present(1000, 3);
  std::size_t kept = 0;
  for (std::uint64_t i = 0; i < 10; ++i) {
    EXPECT_TRUE(present.take(have_of(i * 10, i * 10 + 10, {{i * 10, i * 10 + 5}}), [&](const ByteRange&) { ++kept; }));
  }
  EXPECT_EQ(kept, 3U);
  EXPECT_EQ(present.taken(), 100U);
}

// --- AduScheduler --------------------------------------------------------------------------------------------------

/// Counts what is read of each file.
class CountingSource final : public Source {
 public:
  explicit CountingSource(std::vector<FileEntry> entries) : entries_(std::move(entries)) {
    read_bytes.resize(entries_.size());
  }
  const std::vector<FileEntry>& files() const override { return entries_; }
  Status read(std::uint32_t index, std::uint64_t offset, Bytes out) override {
    read_bytes[index] += out.size();
    for (std::size_t i = 0; i < out.size(); ++i) {
      out[i] = byte(index, offset + i);
    }
    return {};
  }
  Status unchanged(std::uint32_t) override { return {}; }
  std::string path(std::uint32_t index) const override { return std::string(entries_[index].name); }
  static std::byte byte(std::uint32_t index, std::uint64_t offset) {
    return static_cast<std::byte>(index + offset * 7);
  }
  [[nodiscard]] Content content(std::uint32_t index) const {
    Content content(entries_[index].size_bytes);
    for (std::size_t i = 0; i < content.size(); ++i) {
      content[i] = byte(index, i);
    }
    return content;
  }

  std::vector<std::uint64_t> read_bytes;

 private:
  std::vector<FileEntry> entries_;
};

std::vector<FileEntry> some_files(Prng& prng) {
  std::vector<FileEntry> entries;
  for (std::uint64_t count = 1 + prng.below(40); entries.size() < count;) {
    FileEntry entry{.name = "f" + std::to_string(entries.size())};
    entry.size_bytes = prng.chance(0.2) ? prng.below(40'000) : prng.below(600);
    entry.kind = prng.chance(0.6) ? EntryKind::packed : EntryKind::file;
    entries.push_back(entry);
  }
  return entries;
}

/// A sender's scheduler, what it has sent in places of the contents, and what the receiver has.
class Sending {
 public:
  explicit Sending(std::uint64_t seed)
      : prng(seed),
        source(some_files(prng)),
        pack(source.files()),
        contents(source.files(), pack),
        adu_bytes(16 * static_cast<std::uint32_t>(16 + prng.below(300))),
        scheduler(source, adu_bytes),
        sent(contents.size_bytes()) {
    for (std::uint32_t i = 0; i < source.files().size(); ++i) {
      if (source.files()[i].kind == EntryKind::file) {
        numbered.push_back(i);
      }
    }
    if (prng.chance(0.5)) {
      scheduler.set_slot_bytes(16);
    }
  }

  /// What a receiver might have: runs of whole files, some parts of others.
  void draw_present() {
    for (std::size_t i = 0; i < contents.files(); ++i) {
      const ByteRange file = contents.file(i);
      const std::uint64_t size = file.to - file.from - digest_bytes;
      if (prng.chance(0.5)) {
        present.push_back(file);
      } else if (i >= pack.files() && size > 0 && prng.chance(0.3)) {
        const std::uint64_t from = prng.below(size);
        present.push_back({file.from + from, file.from + from + 1 + prng.below(size - from)});
      }
    }
  }
  /// Says the next of it. False: all is said.
  bool announce() {
    if (announced == present.size()) {
      return false;
    }
    Have have{.from = announced == 0 ? 0 : present[announced - 1].to};
    for (std::uint64_t count = 1 + prng.below(5); count > 0 && announced < present.size(); --count) {
      have.ranges[have.range_count++] = present[announced++];
    }
    have.to = have.ranges[have.range_count - 1].to;
    scheduler.release();
    EXPECT_TRUE(scheduler.take(have));
    return true;
  }
  /// Sends one burst. False: there was nothing to send.
  bool burst() {
    scheduler.release();
    std::vector<AduScheduler::Adu> adus;
    while (adus.size() < 5 && !scheduler.full()) {
      const auto adu = scheduler.next();
      if (!adu || !*adu) {
        EXPECT_TRUE(adu);
        break;
      }
      adus.push_back(**adu);
    }
    for (const AduScheduler::Adu& adu : adus) {  // payloads are valid together
      note(adu);
    }
    return !adus.empty();
  }

  Prng prng;
  CountingSource source;
  Pack pack;
  Contents contents;
  std::uint32_t adu_bytes;
  AduScheduler scheduler;
  std::vector<std::uint32_t> numbered;
  std::vector<bool> sent;
  std::vector<ByteRange> present;
  std::size_t announced = 0;

 private:
  void note(const AduScheduler::Adu& adu) {
    const AduName& name = adu.name;
    if (name.file == manifest_file) {
      return;
    }
    if (name.file == digest_file) {
      for (std::uint64_t at = name.offset; at < name.offset + name.length; at += digest_bytes) {
        const auto number = static_cast<std::uint32_t>(at / digest_bytes);
        const ByteRange file = contents.numbered(number);
        const Digest digest = digest_of(source.content(numbered[number]));
        if (std::ranges::equal(adu.payload.subspan(at - name.offset, digest_bytes), digest)) {
          std::fill(sent.begin() + static_cast<std::ptrdiff_t>(file.to - digest_bytes),
                    sent.begin() + static_cast<std::ptrdiff_t>(file.to), true);
        }
      }
      return;
    }
    const std::uint64_t base = name.file == pack_file ? 0 : contents.numbered(name.file).from;
    for (std::uint64_t i = 0; i < name.length; ++i) {
      if (name.file != pack_file) {
        ASSERT_EQ(adu.payload[i], CountingSource::byte(numbered[name.file], name.offset + i));
      }
      ASSERT_FALSE(sent[base + name.offset + i]) << "nothing is sent twice";
      sent[base + name.offset + i] = true;
    }
  }
};

TEST(AduScheduler, SendsWhatIsNotThereAndLittleElse) {
  for (std::uint64_t seed = 1; seed <= 2000; ++seed) {
    SCOPED_TRACE(seed);
    Sending sending(seed);
    const bool known = seed % 2 == 0;  // before anything is sent
    sending.draw_present();
    while (known && sending.announce()) {
    }
    while (sending.burst()) {
    }
    sending.scheduler.accept();
    bool announces = !known;
    for (int turns = 0; !sending.scheduler.all_sent() && turns < 100'000; ++turns) {
      sending.burst();
      announces = announces && (!sending.prng.chance(0.2) || sending.announce());
    }
    ASSERT_TRUE(sending.scheduler.all_sent());
    while (!known && sending.announce()) {  // too late
    }
    std::vector<bool> there = sending.sent;
    std::uint64_t whole_bytes = 0;
    for (const ByteRange& range : sending.present) {
      std::fill(there.begin() + static_cast<std::ptrdiff_t>(range.from),
                there.begin() + static_cast<std::ptrdiff_t>(range.to), true);
    }
    const auto missing = std::ranges::find(there, false);
    ASSERT_EQ(missing, there.end()) << "place " << missing - there.begin() << " of " << there.size();
    std::vector<const FileEntry*> told;
    while (const FileEntry* entry = sending.scheduler.next_sent()) {
      told.push_back(entry);
    }
    const Contents::Amount& skipped = sending.scheduler.skipped();
    EXPECT_EQ(sending.scheduler.sent_bytes() + skipped.bytes - sending.scheduler.wasted_bytes(),
              sending.scheduler.total_bytes());
    for (std::size_t i = 0; known && i < sending.contents.files(); ++i) {
      const ByteRange file = sending.contents.file(i);
      const std::uint32_t entry =
          i < sending.pack.files() ? sending.pack[i].entry : sending.numbered[i - sending.pack.files()];
      const bool had = std::ranges::find(sending.present, file) != sending.present.end();
      EXPECT_EQ(std::ranges::count(told, &sending.source.files()[entry]), had ? 0 : 1) << i;
      if (!had) {
        continue;
      }
      whole_bytes += file.to - file.from - digest_bytes;
      if (sending.source.files()[entry].kind == EntryKind::file) {
        EXPECT_EQ(sending.source.read_bytes[entry], 0U) << "what is there is not read";
      }
    }
    EXPECT_GE(skipped.bytes, whole_bytes);
  }
}

}  // namespace
}  // namespace sluice::ftx::test
