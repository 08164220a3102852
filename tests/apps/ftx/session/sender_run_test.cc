// SPDX-License-Identifier: Apache-2.0
// ADUs that follow each other in a file leave as one piece of work: what leaves, and where it stops, is what it would
// be one ADU after the other.
#include <gtest/gtest.h>

#include "apps/ftx/session/sender.h"
#include "tests/apps/ftx/session/simulation.h"

namespace sluice::ftx::test {
namespace {

constexpr std::uint32_t run_adu_bytes = 1408;

// One scheduler is asked for each ADU, the other for runs now and then.
TEST(SchedulerRuns, AreWhatTheSchedulerReturnsOneByOne) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    Prng prng(seed);
    MemorySource source;
    const std::uint64_t files = 1 + prng.below(200);
    for (std::uint64_t i = 0; i < files; ++i) {
      const std::uint64_t size = prng.below(4) == 0 ? prng.below(3'000'000 / files) : prng.below(5000);
      source.add("f" + std::to_string(i), random_content(size, seed * 1000 + i));
    }
    AduScheduler single(source, run_adu_bytes);
    AduScheduler runs(source, run_adu_bytes);
    std::uint64_t in_runs = 0;
    const auto expect_next = [&](const AduName& name, ConstBytes payload) {
      if (single.full()) {
        single.release();
      }
      const auto adu = single.next();
      ASSERT_TRUE(adu && *adu);
      ASSERT_EQ((*adu)->name, name);
      ASSERT_TRUE(std::ranges::equal((*adu)->payload, payload));
    };
    for (bool more = true; more && !testing::Test::HasFatalFailure();) {
      if (runs.full()) {
        runs.release();
      }
      if (prng.below(3) == 0) {
        const std::uint64_t count_max = prng.below(60);
        const AduScheduler::Run run = runs.run(count_max);
        ASSERT_LE(run.payloads.size(), count_max * run_adu_bytes);
        ASSERT_EQ(run.payloads.size() % run_adu_bytes, 0U);
        const std::uint64_t used = prng.below(run.payloads.size() / run_adu_bytes + 1);
        for (std::uint64_t i = 0; i < used; ++i) {
          const std::uint64_t at = i * run_adu_bytes;
          expect_next({run.first.file, run_adu_bytes, run.first.offset + at}, run.payloads.subspan(at, run_adu_bytes));
        }
        runs.sent_of_run(used);
        in_runs += used;
        if (runs.full()) {
          runs.release();
        }
      }
      const auto adu = runs.next();
      ASSERT_TRUE(adu);
      if (*adu) {
        expect_next((*adu)->name, (*adu)->payload);
      } else if (!runs.accepted()) {
        single.accept();
        runs.accept();
      } else {
        more = false;
      }
      ASSERT_EQ(single.sent_bytes(), runs.sent_bytes());
      ASSERT_EQ(single.sent_adu_count(), runs.sent_adu_count());
      ASSERT_EQ(single.files_sent(), runs.files_sent());
    }
    EXPECT_TRUE(single.all_sent() && runs.all_sent());
    EXPECT_TRUE(in_runs > 0 || runs.sent_bytes() < 100'000);
  }
}

/// Allows what a test says, and checks that each datagram was allowed.
class Strict final : public CongestionControl {
 public:
  [[nodiscard]] std::string_view name() const override { return "strict"; }
  void on_sent(TimePoint now, std::size_t bytes) override {
    EXPECT_GE(now, next_send_);
    EXPECT_LT(in_flight, window);
    next_send_ = std::max(next_send_, now - slack) + interval;
    in_flight += bytes;
  }
  void on_report(TimePoint, const Delivery& delivery) override { in_flight = delivery.in_flight_bytes; }
  [[nodiscard]] std::uint64_t window_bytes() const override { return window; }
  [[nodiscard]] TimePoint next_send() const override { return next_send_; }
  [[nodiscard]] bool behind(TimePoint) const override { return false; }

  std::uint64_t window = UINT64_MAX;
  Duration interval{};
  Duration slack{};
  std::uint64_t in_flight = 0;

 private:
  TimePoint next_send_{};
};

/// A sender of one file whose receiver is the test.
struct RunSender {
  explicit RunSender(std::size_t file_bytes) : content(random_content(file_bytes, 1)) {
    source.add("file", content);
    SenderOptions options;
    options.tsdu_bytes = data_header_bytes + run_adu_bytes;
    sender.emplace(now, options, source, congestion);
    drain();
    const auto hello = parse_envelope(sent.front());
    const auto nonce = parse_hello(sent.front())->nonce;
    Content out(control_bytes_max);
    envelope = {Kind::report, 0, hello->connection};
    out.resize(emit_cookie(envelope, {nonce, run_adu_bytes, {}}, out));
    sender->receive(now, out);
    ahead = drain() - 1;  // OFFER, manifest, and the first flight
  }

  void report(std::uint64_t credit_bytes, std::uint32_t window_adus) {
    Report report{.phase = Phase::data, .window_adus = window_adus, .credit_bytes = credit_bytes, .highest = sequence};
    report.to = sequence;
    report.clock_ns = ++clock;
    Content out(control_bytes_max);
    out.resize(emit_report(envelope, report, out));
    sender->receive(now, out);
  }

  /// All that it sends now, checked against the file.
  std::size_t drain() {
    sent.clear();
    std::size_t data = 0;
    for (;;) {
      sender->transmit(now, burst);
      if (burst.left().empty()) {
        return data;
      }
      for (const Outgoing& out : burst.left()) {
        Content& datagram = sent.emplace_back(out.front.begin(), out.front.end());
        datagram.insert(datagram.end(), out.rest.begin(), out.rest.end());
        const auto is = parse_envelope(datagram);
        if (is->kind != Kind::data) {
          continue;
        }
        ++data;
        const auto parsed = parse_data(datagram, datagram.size());
        EXPECT_TRUE(parsed);
        EXPECT_EQ(parsed->stamp.sequence, ++sequence);
        EXPECT_EQ(parsed->stamp.sequence - parsed->stamp.behind, oldest);
        EXPECT_FALSE(parsed->repair);
        if (parsed->adu.file == 0) {
          EXPECT_EQ(parsed->adu.offset, offset);
          EXPECT_TRUE(
              std::equal(out.rest.begin(), out.rest.end(), content.begin() + static_cast<std::ptrdiff_t>(offset)));
          offset += parsed->adu.length;
        }
      }
    }
  }

  TimePoint now{1h};
  Content content;
  MemorySource source;
  Strict congestion;
  std::optional<Sender> sender;
  Envelope envelope;
  Burst burst;
  std::vector<Content> sent;
  std::size_t ahead = 0;  // ADUs of the file that went before the first report
  std::uint64_t sequence = 0;
  std::uint64_t oldest = 1;
  std::uint64_t offset = 0;
  std::uint64_t clock = 0;
};

TEST(SenderRuns, StopWhereAWindowIsFull) {
  constexpr std::uint64_t datagram_bytes = data_header_bytes + run_adu_bytes;
  for (const std::uint64_t datagrams : {1U, 2U, 7U, 43U, 44U, 45U, 100U, 300U}) {
    for (const int what : {0, 1, 2}) {
      for (const std::uint64_t more : {0U, 1U}) {  // a byte more lets one more go
        SCOPED_TRACE(testing::Message() << datagrams << " " << what << " " << more);
        RunSender run(1'000'000);
        run.congestion.window = what == 0 ? datagrams * datagram_bytes + more : UINT64_MAX;
        run.oldest = run.sequence + 1;
        run.report(what == 1 ? datagrams * run_adu_bytes + more : 100'000'000,
                   what == 2 ? static_cast<std::uint32_t>(datagrams + more) : 100'000U);
        EXPECT_EQ(run.drain(), datagrams + more);
        run.now += 1ms;
        EXPECT_EQ(run.drain(), 0U);
      }
    }
  }
}

TEST(SenderRuns, KeepToThePacer) {
  RunSender run(10'000'000);
  run.congestion.interval = 10us;
  run.congestion.slack = 200us;
  run.oldest = run.sequence + 1;
  run.report(100'000'000, 100'000);
  run.now += 1s;
  EXPECT_EQ(run.drain(), 21U);
  run.now += 50us;
  EXPECT_EQ(run.drain(), 5U);
  run.now += 1ms;
  EXPECT_EQ(run.drain(), 21U);
}

TEST(SenderRuns, EndWithTheFile) {
  RunSender run(3'000'001);
  run.oldest = run.sequence + 1;
  run.report(100'000'000, 100'000);
  EXPECT_EQ(run.ahead + run.drain(), 3'000'001 / run_adu_bytes + 2)
      << "the last of the file is short, and the digest follows";
  EXPECT_EQ(run.offset, run.content.size());
  EXPECT_EQ(run.sender->sent_bytes(), run.content.size());
  EXPECT_EQ(run.sender->remembered(), run.sequence + 1 - run.oldest);
}

}  // namespace
}  // namespace sluice::ftx::test
