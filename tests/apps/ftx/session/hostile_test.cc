// SPDX-License-Identifier: Apache-2.0
// What strangers and hostile peers cannot do.
#include <gtest/gtest.h>

#include "tests/apps/ftx/session/bench.h"
#include "tests/apps/ftx/transmit.h"

namespace sluice::ftx::test {
namespace {

const Envelope hello_envelope{Kind::hello, 0, 42};

TEST(Hostile, AHelloCostsNoMemoryAndIsAnsweredWithLess) {
  Bench bench;
  for (std::size_t i = 0; i < 1000; ++i) {
    EXPECT_EQ(bench.server.answers_wait(), i >= Server::answers_max / 2) << "who heeds it loses none";
    bench.send(emit_hello(hello_envelope, {1, 1408}, bench.buffer));
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
  const std::size_t size = emit_hello(hello_envelope, {1, 1408}, bench.buffer);
  bench.send(size - 1);
  EXPECT_EQ(bench.answer(), 0U);
  EXPECT_EQ(bench.server.drops().malformed, 1U);
}

TEST(Hostile, StrangersNeverGetMoreThanTheySent) {
  for (const std::uint32_t length : {1U, 444U, 1408U}) {
    Bench bench;
    bench.data({0, length, 0}, Content(length));
    const std::size_t answered = bench.answer();
    EXPECT_GT(answered, 0U);
    EXPECT_LE(answered, data_header_bytes + length);
    EXPECT_EQ(bench.server.drops().unknown_connection, 1U);
  }
  Bench bench;
  bench.probe();
  EXPECT_LE(bench.answer(), probe_bytes);
  EXPECT_EQ(bench.server.drops().unknown_connection, 1U);
}

TEST(Hostile, WhatIsMalformedIsNotAnswered) {
  for (const std::size_t size : {11UL, 20UL, 21UL, 31UL, 32UL}) {
    Bench bench;
    emit_data_header({Kind::data, 0, 9}, {{1, 0, 1}, {0, 1, 0}, false}, bench.buffer);
    bench.send(size);
    EXPECT_EQ(bench.answer(), 0U) << size;
    EXPECT_EQ(bench.server.drops().malformed, 1U) << size;
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
  bench.envelope.connection = 43;
  bench.offer(good);
  bench.envelope.connection = 42;
  bench.now = Bench::start + CookieJar::lifetime + 1ns;
  bench.offer(good);
  bench.now = Bench::start - 1ns;
  bench.offer(good);
  EXPECT_EQ(bench.server.sessions(), 0U);
  EXPECT_EQ(bench.server.drops().bad_cookie, 6U);
  bench.now = Bench::start + CookieJar::lifetime;
  bench.offer(good);
  EXPECT_EQ(bench.server.sessions(), 1U);
}

TEST(Hostile, AnOfferAboveTheTransportsDatagramsIsMalformed) {
  ServerOptions options;
  options.tsdu_bytes = 1472;
  Bench bench(options);
  const Cookie cookie = bench.cookie();
  Offer offer = bench.offer_of(cookie);
  offer.adu_bytes = adu_bytes_for(options.tsdu_bytes) + adu_bytes_unit;
  bench.offer(offer);
  EXPECT_EQ(bench.server.drops().malformed, 1U);
  EXPECT_EQ(bench.server.sessions(), 0U);
  offer.adu_bytes -= adu_bytes_unit;
  bench.offer(offer);
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
      {0, 1408, 16},             // between slots
      {0, 1408, 1408 * 71},      // beyond the end of 100,000 bytes
      {0, 1408, 1408ULL << 40},  // far beyond
      {0, 1408, file_content_max - 1408},
      {0, 1407, 0},            // short and not the last
      {digest_file, 1408, 0},  // longer than the list
      {manifest_file, 1408, 0},
  };
  for (const AduName& adu : wrong) {
    bench.data(adu, ConstBytes(payload).first(adu.length));
  }
  EXPECT_EQ(bench.server.drops().misplaced, std::size(wrong));
  EXPECT_EQ(bench.destination.writes, 0U);
  bench.data({0, 1408, 0}, payload);
  EXPECT_EQ(bench.destination.writes, 1U);
}

TEST(Hostile, ASequenceThatLeapsCostsOnlyItsOwnSession) {
  Bench bench;
  bench.open();
  const Content payload(1408);
  bench.data({0, 1408, 0}, payload, sequence_max - 1);
  bench.data({0, 1408, 1408}, payload, 2);
  EXPECT_EQ(bench.server.drops().too_old, 1U);
  bench.now += 10s;
  std::size_t reports = 0;
  while (reports < 1000 && bench.answer() > 0) {
    ++reports;
  }
  EXPECT_LT(reports, 10U);
}

/// The sender's datagrams of a whole transfer.
std::vector<Content> recorded_transfer(World& world) {
  std::vector<Content> recorded;
  world.forward.set_filter([&](TimePoint, ConstBytes datagram) {
    recorded.emplace_back(datagram.begin(), datagram.end());
    return true;
  });
  world.run([&] { return world.sender->finished() && world.server->open_sessions() == 0; });
  world.forward.set_filter({});
  return recorded;
}

TEST(Hostile, AReplayedTransferIsNotRepeated) {
  World world({});
  world.source.add("file", random_content(100'000, 1));
  const std::vector<Content> recorded = recorded_transfer(world);
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

// For as long as the cookie of its OFFER is good, while the server goes about its work.
TEST(Hostile, AReplayOfAClosedTransferFindsTheSessionForAsLongAsItsCookieIsGood) {
  World world({});
  world.source.add("file", random_content(10'000, 1));
  const std::vector<Content> recorded = recorded_transfer(world);
  const TimePoint over = world.now;
  const std::uint64_t writes = world.destination.writes;
  const auto act = [&] {
    Peer to;
    Content buffer(2000);
    for (int i = 0; i < 100 && world.server->transmit(world.now, buffer, to) > 0; ++i) {
    }
  };
  for (; world.now < over + 40s; world.now += 50ms) {
    act();
    if ((world.now - over) % 1s < 50ms) {
      for (const Content& datagram : recorded) {
        world.inject(datagram);
        act();
      }
    }
    ASSERT_EQ(world.server->open_sessions(), 0U) << (world.now - over).count();
  }
  EXPECT_EQ(world.destination.writes, writes);
  EXPECT_EQ(world.server->sessions(), 0U);
}

TEST(Hostile, NoiseFromThePeersAddressDoesNotSpoilATransfer) {
  World world({});
  world.source.add("file", random_content(900'000, 1));
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
    for (int i = 0; i < 8; ++i) {
      Content datagram = seen[prng.below(seen.size())];
      // Truncated or garbled within the envelope's version, kind or flags: never a valid datagram of this connection.
      if (prng.chance(0.5)) {
        datagram.resize(prng.below(datagram.size()));
      } else {
        datagram[0] ^= static_cast<std::byte>(1 + prng.below(255));
      }
      world.inject(datagram);
    }
  };
  world.run();
  EXPECT_EQ(world.sender->exit_code(), ExitCode::ok);
  EXPECT_TRUE(world.all_equal());
  EXPECT_GT(world.server->drops().malformed, 100U);
}

TEST(Hostile, AReportAboutTheFutureIsIgnored) {
  World world({});
  world.source.add("file", random_content(300'000, 1));
  const Envelope ours{Kind::report, 0, Prng(world.options.seed + 2000)()};
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

// --- An ERROR is never a success -----------------------------------------------------------------------------------

// exit_code.h: a code of 16 bits in the message, of 8 in the process. 256 must not become 0.
constexpr std::array<std::uint16_t, 5> codes_of_no_failure{0, 256, 99, 0x8000, 0xff00};

TEST(Hostile, AnErrorOfWhateverCodeEndsAReceiverAsAFailure) {
  for (const std::uint16_t code : codes_of_no_failure) {
    SCOPED_TRACE(code);
    Bench bench;
    bench.open();
    bench.error(code, "all is well");
    const auto event = bench.event(Event::Kind::error);
    ASSERT_TRUE(event);
    EXPECT_EQ(event->code, ExitCode::protocol_error);
    EXPECT_EQ(bench.server.open_sessions(), 0U);
    EXPECT_TRUE(bench.destination.files.empty());
  }
  Bench bench;
  bench.open();
  bench.error(130);
  EXPECT_EQ(bench.event(Event::Kind::error)->code, ExitCode::interrupted);
}

/// A sender, and by hand the receiver it talks to.
struct Client {
  MemorySource source;
  FixedRate rate{1'000'000'000};
  std::unique_ptr<Sender> sender;
  TimePoint now = Bench::start;
  Envelope envelope{Kind::report, 0, Prng(5)()};
  Content buffer = Content(2000);
  std::uint64_t highest = 0;
  std::uint64_t adus = 0;

  explicit Client(std::size_t bytes, Source* other = nullptr, CongestionControl* control = nullptr,
                  SenderOptions options = {}) {
    source.add("file", random_content(bytes, 1));
    options.seed = 5;
    options.peer = Peer(as_bytes("server"));
    sender = std::make_unique<Sender>(now, options, other == nullptr ? source : *other,
                                      control == nullptr ? rate : *control);
  }
  /// Takes what it sends; answers how many datagrams.
  std::size_t take() {
    std::size_t count = 0;
    Burst burst;
    for (sender->transmit(now, burst); !burst.left().empty(); sender->transmit(now, burst)) {
      for (const Outgoing& datagram : burst.left()) {
        ++count;
        Content whole(datagram.front.begin(), datagram.front.end());
        const auto kind = parse_envelope(whole)->kind;
        const auto data = kind == Kind::data ? parse_data(whole, datagram.size()) : std::nullopt;
        const auto probe = kind == Kind::probe ? parse_probe(whole) : std::nullopt;
        adus += data ? 1 : 0;
        highest = std::max(highest, data ? data->stamp.sequence : probe ? probe->sequence : 0);
      }
    }
    return count;
  }
  void give(std::size_t size) { sender->receive(now, ConstBytes(buffer).first(size)); }
  void cookie(std::uint64_t nonce) { give(emit_cookie(envelope, {nonce, 1408, {}}, buffer)); }
  void cookie() { cookie(nanoseconds(now)); }
  void report(const Report& report) { give(emit_report(envelope, report, buffer)); }
  void have(const Have& have) { give(emit_have(envelope, have, buffer)); }
  /// Everything so far arrived.
  Report all(Phase phase) const {
    Report report;
    report.phase = phase;
    report.window_adus = 1U << 17;
    report.credit_bytes = 1U << 30;
    report.highest = report.to = highest;
    report.clock_ns = static_cast<std::uint64_t>((now - Bench::start).count());
    return report;
  }
  /// Past the manifest.
  void accepted() {
    take();
    cookie();
    take();
    report(all(Phase::data));
  }
};

/// docs/formats/ftx.md: "an ERROR ends it otherwise; the end that gets either answers CLOSE."
TEST(Hostile, AnErrorIsAnsweredWithClose) {
  Bench bench;
  bench.open();
  bench.drain(Kind::report);
  for (int times = 0; times < 2; ++times) {
    bench.error(static_cast<std::uint16_t>(ExitCode::interrupted));
    EXPECT_TRUE(bench.drain(Kind::close)) << times;
  }
}

/// A place that is filled already was received all the same: the sender counts the credit that it has by that.
TEST(Hostile, WhatComesTwiceIsReportedAsReceived) {
  Bench bench;
  bench.open();
  const auto received = [&] {
    bench.probe();
    const auto datagram = bench.drain(Kind::report);
    const auto report = datagram ? parse_report(*datagram) : std::nullopt;
    return report ? report->received_bytes : 0;
  };
  const std::uint64_t before = received();
  const Content payload(1408);
  for (std::uint64_t times = 1; times <= 3; ++times) {
    bench.data({0, 1408, 0}, payload);
    EXPECT_EQ(received(), before + times * 1408);
  }
}

/// More gaps than one REPORT has room for: those that follow go on where it ended.
TEST(Hostile, ReportsInPartsLeaveNoSequenceOut) {
  Bench bench;
  bench.open();
  bench.drain(Kind::report);
  constexpr std::uint32_t gaps = 3 * Report::ranges_max + 1;
  for (std::uint32_t i = 1; i <= gaps; ++i) {
    bench.send(emit_probe(bench.envelope, {1 + 2 * i, 2 * i, 1}, bench.buffer));  // all before it count still
  }
  bench.now += 1s;
  std::uint64_t parts = 0, missing = 0, next = 0;
  for (std::size_t size = bench.answer(); size > 0; size = bench.answer()) {
    const auto report = parse_report(ConstBytes(bench.buffer).first(size));
    ASSERT_TRUE(report);
    EXPECT_TRUE(parts == 0 || report->from == next) << report->from << " behind " << next;
    next = report->to + 1;
    missing += report->range_count;
    ++parts;
  }
  EXPECT_EQ(parts, 4U);
  EXPECT_EQ(missing, gaps);
}

/// Digests that come again in a larger ADU finish no file twice: the transfer ends with its last file.
TEST(Hostile, DigestsThatComeTwiceFinishNothingTwice) {
  Bench bench;
  std::vector<FileEntry> files;
  for (int number = 0; number < 3; ++number) {
    files.push_back({"empty" + std::to_string(number), 0});
  }
  Offer offer = bench.offer_of(bench.cookie(), "", files);
  offer.adu_bytes = 16;  // one digest
  bench.offer(offer);
  const std::size_t size = bench.manifest.size();
  for (std::size_t at = 0; at < size; at += 16) {
    const std::size_t length = std::min<std::size_t>(16, size - at);
    bench.data({manifest_file, static_cast<std::uint32_t>(length), at}, ConstBytes(bench.manifest).subspan(at, length));
  }
  Content digests;
  for (std::size_t number = 0; number < files.size(); ++number) {
    const Digest digest = digest_of({});
    digests.insert(digests.end(), digest.begin(), digest.end());
  }
  bench.data({digest_file, 16, 0}, ConstBytes(digests).first(16));
  EXPECT_EQ(bench.destination.files.size(), 1U);
  bench.data({digest_file, 32, 0}, ConstBytes(digests).first(32));
  EXPECT_EQ(bench.destination.files.size(), 2U);
  EXPECT_FALSE(bench.event(Event::Kind::done));
  bench.data({digest_file, 16, 32}, ConstBytes(digests).subspan(32));
  EXPECT_EQ(bench.destination.files.size(), 3U);
  EXPECT_TRUE(bench.event(Event::Kind::done));
}

/// Of two sessions that always have something to say neither is heard alone.
TEST(Hostile, SessionsTakeTurns) {
  Bench bench;
  const std::array peers{Peer(as_bytes("client")), Peer(as_bytes("another"))};
  for (const Peer& peer : peers) {
    bench.peer = peer;
    bench.open();
  }
  Content out(2000);
  Peer to;
  while (bench.server.transmit(bench.now, out, to) > 0) {
  }
  std::array<int, 2> heard{};
  for (int turn = 0; turn < 20; ++turn) {
    for (const Peer& peer : peers) {
      bench.peer = peer;
      bench.probe();
    }
    ASSERT_GT(bench.server.transmit(bench.now, out, to), 0U);
    ++heard.at(to == peers[0] ? 0 : 1);
  }
  EXPECT_EQ(heard[0], 10);
  EXPECT_EQ(heard[1], 10);
}

TEST(Hostile, AnErrorOfWhateverCodeEndsASenderAsAFailure) {
  for (const std::uint16_t code : codes_of_no_failure) {
    SCOPED_TRACE(code);
    Client client(100'000);
    client.accepted();
    client.take();
    client.give(emit_error(client.envelope, {code, ""}, client.buffer));
    client.take();
    ASSERT_TRUE(client.sender->finished());
    EXPECT_EQ(client.sender->exit_code(), ExitCode::protocol_error);
    while (const auto event = client.sender->next_event()) {
      EXPECT_NE(event->kind, Event::Kind::done);
    }
  }
}

// --- A receiver that lies ------------------------------------------------------------------------------------------

TEST(Hostile, FinishedIsNotBelievedBeforeEverythingWasSent) {
  Client client(10'000'000);
  client.take();
  client.cookie();
  client.take();
  client.report(client.all(Phase::finished));  // not even the list of files was accepted
  EXPECT_FALSE(client.sender->finished());
  EXPECT_EQ(client.sender->dropped(), 1U);
  client.report(client.all(Phase::data));
  client.now += 1ms;
  ASSERT_GT(client.take(), 100U);
  client.report(client.all(Phase::finished));
  EXPECT_FALSE(client.sender->finished());
  EXPECT_EQ(client.sender->dropped(), 2U);
  for (int i = 0; i < 100 && !client.sender->finished(); ++i) {
    client.now += 1ms;
    client.take();
    client.report(client.all(client.adus < 7000 ? Phase::data : Phase::finished));
  }
  client.now += 100ms;
  client.take();
  client.report(client.all(Phase::finished));
  client.take();
  ASSERT_TRUE(client.sender->finished());
  EXPECT_EQ(client.sender->exit_code(), ExitCode::ok);
}

/// The file and its digest are 100,016 bytes of contents.
TEST(Hostile, AHaveOfWhatIsNotThereIsDropped) {
  Client client(100'000);
  const Have all{.from = 0, .to = 100'016, .range_count = 1, .ranges = {{{0, 100'016}}}};
  client.have(all);
  EXPECT_EQ(client.sender->dropped(), 1U) << "nothing was offered yet";
  client.take();
  client.cookie();
  client.take();
  client.have({.from = 0, .to = 100'017, .range_count = 1, .ranges = {{{0, 100'017}}}});
  client.have({.from = 0, .to = place_max, .range_count = 1, .ranges = {{{place_max - 1, place_max}}}});
  client.have({.from = 5, .to = 100, .range_count = 1, .ranges = {{{5, 100}}}});
  client.have({.from = 100, .to = 5});
  EXPECT_EQ(client.sender->dropped(), 5U);
  client.report(client.all(Phase::data));
  client.now += 1ms;
  client.take();
  EXPECT_EQ(client.adus, 1U + 72U + 1U) << "the list, the file and its digest";
  client.have(all);
  client.report(client.all(Phase::finished));
  EXPECT_TRUE(client.sender->finished() || client.take() > 0);
  client.take();
  ASSERT_TRUE(client.sender->finished());
  client.have(all);
  EXPECT_EQ(client.sender->dropped(), 6U) << "it is over";
}

/// It harms only the file of whoever says so, and takes what is there in one word: TAKEN.
TEST(Hostile, AReceiverThatSaysItHasEverythingGetsNothing) {
  Client client(10'000'000);
  client.take();
  client.cookie();
  client.take();
  const std::uint64_t list = client.adus;
  for (int times = 0; times < 100; ++times) {
    client.have({.from = 0, .to = 10'000'016, .range_count = 1, .ranges = {{{0, 10'000'016}}}});
  }
  EXPECT_EQ(client.take(), 2U) << "one TAKEN, however often it is said, and a PROBE";
  EXPECT_EQ(client.adus, list);
  client.report(client.all(Phase::finished));
  client.take();
  ASSERT_TRUE(client.sender->finished());
  EXPECT_EQ(client.sender->exit_code(), ExitCode::ok);
}

TEST(Hostile, RepairsOfWhatTheReceiverTurnsOutToHaveAreDropped) {
  Client client(1'000'000);
  client.accepted();
  client.now += 1ms;
  client.take();
  const std::uint64_t sent = client.adus;
  Report lost = client.all(Phase::data);
  lost.range_count = 1;
  lost.missing[0] = {2, static_cast<std::uint32_t>(client.highest - 2)};
  client.report(lost);
  client.have({.from = 0, .to = 1'000'016, .range_count = 1, .ranges = {{{0, 1'000'016}}}});
  client.now += 1ms;
  client.take();
  EXPECT_EQ(client.adus, sent);
}

/// How long an accepted sender goes on whose receiver does no more than `act`, ten times a second.
Duration time_to_give_up(Client& client, const std::function<void()>& act) {
  client.accepted();
  client.now += 1ms;
  client.take();
  const TimePoint start = client.now;
  while (!client.sender->finished() && client.now < start + 100s) {
    client.now += 100ms;
    act();
    while (client.sender->next_event()) {
    }
  }
  EXPECT_TRUE(client.sender->finished());
  EXPECT_EQ(client.sender->exit_code(), ExitCode::timeout);
  return client.now - start;
}

/// What a HAVE says twice is no progress.
TEST(Hostile, AHaveThatBringsNothingDoesNotKeepASender) {
  Client client(10'000'000);
  const Duration kept = time_to_give_up(client, [&] {
    client.have({.from = 0, .to = 100, .range_count = 1, .ranges = {{{10, 100}}}});
    client.take();
  });
  EXPECT_LE(kept, 31s);
}

TEST(Hostile, ATakenOfWhatWasNeverSaidIsMalformed) {
  Bench bench;
  bench.open();
  for (const std::uint64_t to : {std::uint64_t{1}, place_max, UINT64_MAX}) {
    const std::uint64_t before = bench.server.drops().malformed;
    bench.send(emit_taken(bench.envelope, to, bench.buffer));
    EXPECT_EQ(bench.server.drops().malformed, before + 1) << to;
  }
  bench.send(emit_have(bench.envelope, {.from = 0, .to = 1}, bench.buffer));
  EXPECT_EQ(bench.server.drops().unexpected, 1U) << "that is what the receiver says";
}

TEST(Hostile, ReportsThatBringNothingDoNotKeepASender) {
  Client client(10'000'000);
  // The window is shut, and every PROBE is answered as received.
  const Duration kept = time_to_give_up(client, [&] {
    const std::uint64_t before = client.highest;
    client.take();
    Report report = client.all(Phase::data);
    report.window_adus = 0;
    report.from = client.highest > before ? client.highest : client.highest + 1;
    client.report(report);
  });
  EXPECT_GE(kept, 29s);
  EXPECT_LE(kept, 31s);
}

TEST(Hostile, ACookieAnswersOneOfOurHellos) {
  Client client(100'000);
  client.take();
  const auto asked = nanoseconds(client.now);
  client.now += 10ms;
  client.cookie(asked + 1);  // of the future: the round trip would be negative
  client.cookie(asked - 1);  // of somebody else's HELLO, before ours
  client.cookie(0);
  client.cookie(UINT64_MAX);
  EXPECT_EQ(client.sender->dropped(), 4U);
  EXPECT_EQ(client.take(), 0U);
  client.cookie(asked);
  EXPECT_EQ(client.sender->dropped(), 4U);
  EXPECT_GT(client.take(), 0U);
  client.cookie(asked);  // again: the cookie is there
  EXPECT_EQ(client.sender->dropped(), 5U);
}

/// Keeps what the sender tells it.
class Recorder final : public CongestionControl {
 public:
  [[nodiscard]] std::string_view name() const override { return "test"; }
  void on_sent(TimePoint, std::size_t bytes) override { sent += bytes; }
  void on_report(TimePoint, const Delivery& delivery) override { deliveries.push_back(delivery); }
  std::uint64_t window_bytes() const override { return window; }
  TimePoint next_send() const override { return {}; }
  bool behind(TimePoint) const override { return false; }

  std::vector<Delivery> deliveries;
  std::uint64_t window = 100'000, sent = 0;
};

TEST(Hostile, AReportThatAnotherOvertookMeasuresNothing) {
  MemorySource source;
  source.add("file", random_content(1'000'000, 1));
  Recorder control;
  Client client(0, &source, &control);
  client.accepted();
  client.now += 10ms;
  ASSERT_GT(client.take(), 10U);
  Report early = client.all(Phase::data);
  early.to = early.highest = 8;
  early.window_adus = 1;
  early.out_of_order = 99;
  client.now += 10ms;
  Report late = client.all(Phase::data);
  client.report(late);
  const std::size_t measured = control.deliveries.size();
  client.report(early);
  EXPECT_EQ(control.deliveries.size(), measured);
  client.now += 1ms;
  EXPECT_GT(client.take(), 10U) << "the window is the later report's";
  // A newer one measures again.
  client.now += 10ms;
  client.report(client.all(Phase::data));
  EXPECT_EQ(control.deliveries.size(), measured + 1);
}

TEST(Hostile, ImpossibleTimesMeasureNoRoundTrip) {
  MemorySource source;
  source.add("file", random_content(1'000'000, 1));
  Recorder control;
  Client client(0, &source, &control);
  client.accepted();
  const auto measured = [&](Duration later, std::uint64_t held_ns) {
    client.now += 10ms;
    client.take();
    client.now += later;
    Report report = client.all(Phase::data);
    report.held_ns = held_ns;
    client.report(report);
    return control.deliveries.back().round_trip;
  };
  EXPECT_EQ(measured(10ms, 4'000'000), 6ms);
  EXPECT_EQ(measured(10ms, 20'000'000), 0ms) << "held for longer than it took";
  EXPECT_EQ(measured(10ms, UINT64_MAX), 0ms);
  EXPECT_EQ(measured(10ms, 10'000'000), 0ms) << "held all the time";
}

/// Probes that go unanswered come ever later, and as early as the first again when something has arrived.
TEST(Hostile, ProbesComeEarlyAgainAfterProgress) {
  Client client(200 * 1408);
  client.accepted();
  client.take();
  const auto until_probe = [&] {
    const TimePoint from = client.now;
    for (int looks = 0; looks < 1000; ++looks) {
      client.now = std::max(client.sender->next_deadline(), client.now + 1us);
      const std::uint64_t adus = client.adus;
      if (client.take() > 0 && client.adus == adus) {
        break;
      }
    }
    return client.now - from;
  };
  const Duration first = until_probe();
  Duration last = first;
  for (int i = 0; i < 6; ++i) {
    last = until_probe();
  }
  ASSERT_GT(last, 5 * first);
  Report report = client.all(Phase::data);
  report.range_count = 1;
  report.missing[0] = {client.highest - 20, 1};  // not of the first flight, which has arrived
  client.report(report);
  const std::uint64_t before = client.adus;
  client.take();
  EXPECT_EQ(client.adus, before + 1) << "the repair";
  EXPECT_LE(until_probe(), first + 1us);
}

/// A copy has the sequence of what it copies, so it must be the whole: what arrives of a part would count as all.
TEST(Hostile, WhatFitsNoDatagramAnyMoreHasNoCopy) {
  for (const bool shrinks : {false, true}) {
    SCOPED_TRACE(shrinks);
    SenderOptions options;
    options.ip_header_bytes = 28;
    options.update.existing = true;  // so that it sends nothing ahead, before it knows the path
    Client client(5 * 1408, nullptr, nullptr, options);
    client.take();
    const auto asked = nanoseconds(client.now);
    client.now += 320ms;
    client.cookie(asked);
    client.take();
    client.report(client.all(Phase::data));
    ASSERT_GE(client.sender->datagram_bytes(), 1408 + data_header_bytes);
    client.take();
    ASSERT_EQ(client.adus, 1 + 5 + 1) << "the list, the file, its digest";
    const std::uint64_t digest = client.highest;
    Report report = client.all(Phase::data);
    report.range_count = 1;
    report.missing[0] = {digest - 1, 1};
    client.now += 1ms;
    client.report(report);
    client.take();
    ASSERT_EQ(client.adus, 8U) << "the repair, whole";
    if (shrinks) {
      client.sender->too_big(client.now);
      report.clock_ns += 1'000'000;
      client.report(report);
      ASSERT_LT(client.sender->datagram_bytes(), 1408U);
    }
    client.now += 11ms;
    client.take();
    EXPECT_EQ(client.adus, shrinks ? 8U : 9U);
  }
}

/// A file of `size` zeros that takes no memory.
class Zeros final : public Source {
 public:
  explicit Zeros(std::uint64_t size) : entries_{{"zeros", size}} {}
  const std::vector<FileEntry>& files() const override { return entries_; }
  Status read(std::uint32_t, std::uint64_t, Bytes out) override {
    std::ranges::fill(out, std::byte{0});
    return {};
  }
  Status unchanged(std::uint32_t) override { return {}; }
  std::string path(std::uint32_t) const override { return "zeros"; }

 private:
  std::vector<FileEntry> entries_;
};

TEST(Hostile, AnAnnouncedWindowDoesNotMakeASenderRememberEverything) {
  Zeros zeros(1408ULL * 200'000);
  Client client(0, &zeros);
  client.accepted();
  const std::uint64_t before = client.highest;
  // Everything arrives, it says, and resolves nothing.
  for (int i = 0; i < 1000; ++i) {
    client.now += 1ms;
    client.take();
    Report report = client.all(Phase::data);
    report.window_adus = UINT32_MAX;
    report.from = 1;
    report.to = 0;
    client.report(report);
  }
  EXPECT_GE(client.highest - before, 1U << 17);
  EXPECT_LE(client.highest - before, (1U << 17) + 1000);  // and probes
}

// --- What is announced is not believed -----------------------------------------------------------------------------

TEST(Hostile, AnAnnouncedListTakesMemoryOnlyAsItArrives) {
  constexpr std::uint32_t files = 100'000;
  constexpr std::uint32_t list_bytes = files * 270;
  ServerOptions options;
  options.receiver.own_memory_bytes = 0;
  Bench bench(options);
  const std::uint64_t all = bench.server.memory_left();
  Offer offer = bench.offer_of(bench.cookie());
  offer.files = files;
  offer.manifest_bytes = list_bytes;
  bench.offer(offer);
  ASSERT_EQ(bench.server.open_sessions(), 1U);
  EXPECT_EQ(bench.server.memory_left(), all);
  const Content payload(1408);
  // Far beyond what has arrived: as if lost.
  bench.data({manifest_file, 1408, list_bytes / 1408 / 2 * 1408}, payload);
  EXPECT_EQ(bench.server.drops().no_room, 1U);
  EXPECT_EQ(bench.server.memory_left(), all);
  std::uint64_t arrived = 0;
  for (; arrived < 4'000'000; arrived += 1408) {
    bench.data({manifest_file, 1408, arrived}, payload);
    ASSERT_LE(all - bench.server.memory_left(), 2 * (arrived + 1408) + Slots::page_bytes) << arrived;
  }
  EXPECT_GE(all - bench.server.memory_left(), arrived);
  // Somewhat ahead is taken: datagrams overtake each other.
  bench.data({manifest_file, 1408, arrived + 100 * 1408}, payload);
  EXPECT_EQ(bench.server.drops().no_room, 1U);
  bench.now += 31s;
  (void)bench.drain(Kind::error);
  EXPECT_EQ(bench.server.memory_left(), all);
}

TEST(Hostile, AListThatCanNeverFitIsRefusedAtOnce) {
  Bench bench;
  Offer offer = bench.offer_of(bench.cookie());
  offer.files = files_max;
  offer.manifest_bytes = files_max * entry_bytes_min;
  bench.offer(offer);
  EXPECT_EQ(bench.event(Event::Kind::error)->code, ExitCode::refused);
  EXPECT_EQ(bench.server.memory_left(), ServerOptions{}.memory_bytes_max);
}

TEST(Hostile, ProbesAreNoProgress) {
  Bench bench;
  bench.open();
  const Content payload(1408);
  bench.now += 20s;
  bench.data({0, 1408, 0}, payload);
  const TimePoint last_progress = bench.now;
  while (bench.server.open_sessions() > 0 && bench.now < last_progress + 100s) {
    bench.now += 1s;
    bench.probe();
    bench.data({0, 1408, 0}, payload);    // there already
    bench.data({0, 1408, 1408 * 9}, {});  // malformed
    bench.offer(bench.offer_of(Cookie{}));
    (void)bench.drain(Kind::report);
  }
  EXPECT_EQ(bench.now - last_progress, 30s);
  EXPECT_EQ(bench.event(Event::Kind::error)->code, ExitCode::timeout);
}

}  // namespace
}  // namespace sluice::ftx::test
