// SPDX-License-Identifier: Apache-2.0

// Document 004, Discussion: "In file transfers, for instance, the receiver can copy the data into the correct position
// [...] without waiting for everything". A file of 4 MiB over a link that loses, in simulated time:
//
//   ftx        each application data unit is of use where it lands, in whatever order (BBR); ftx_cubic: with CUBIC
//   in_order   the very arrivals of `ftx`, of use only when everything before them is there
//   tcp        our tcp: in order, by the transport (Reno, with selective acknowledgements)
//
//   order_throughput   the file's bytes over the time from the first packet to the last byte of use
//   order_ratio        the same, as a multiple of tcp's
//   order_stall        how long the application had nothing to do in that time: what its pauses of more than pause_min
//                      are, from the first byte of use on
//   order_first        from the first packet to the first byte of use
//   order_wait         how long a byte that has arrived waits to be of use, a mean over all

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "apps/ftx/recovery/bbr.h"
#include "apps/ftx/recovery/cubic.h"
#include "apps/ftx/session/sender.h"
#include "apps/ftx/session/server.h"
#include "apps/ftx/transport/session_handlers.h"
#include "apps/ftx/transport/transport.h"
#include "bench/experiment.h"
#include "bench/simulation.h"
#include "tests/apps/ftx/session/simulation.h"

namespace sluice::bench {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t order_file_bytes = std::size_t{4} << 20;
constexpr std::size_t order_datagram_bytes = 1472;
constexpr Duration pause_min = 5ms;  // a hundred megabits a second bring a datagram each 0.12 ms
constexpr Duration transfer_max = 300s;

/// Bytes that have come to be of use, or have arrived.
struct Arrival {
  TimePoint at;
  std::uint64_t offset;
  std::size_t size;
};
using Arrivals = std::vector<Arrival>;

/// What an application has of them that takes bytes in order only: the time at which everything before them is there.
Arrivals in_order(Arrivals arrivals) {
  Arrivals usable;
  std::map<std::uint64_t, Arrival> waiting;
  std::uint64_t next = 0;
  for (const Arrival& arrival : arrivals) {
    waiting.emplace(arrival.offset, arrival);
    for (auto first = waiting.begin(); first != waiting.end() && first->first <= next; first = waiting.erase(first)) {
      next = std::max(next, first->first + first->second.size);
      usable.push_back({arrival.at, first->first, first->second.size});
    }
  }
  return usable;
}

double milliseconds(Duration duration) { return seconds_of(duration) * 1e3; }

/// REQUIRES: there is an arrival.
struct Course {
  double megabits_per_second = 0;
  double stall_ms = 0;
  double first_ms = 0;
  double at_ms = 0;  // when a byte came to be of use, on average

  Course(const Arrivals& usable, TimePoint start) {
    Duration stall{};
    TimePoint last = usable.front().at;
    double weighted = 0;
    for (const Arrival& arrival : usable) {
      stall += arrival.at - last > pause_min ? arrival.at - last : Duration();
      last = arrival.at;
      weighted += milliseconds(arrival.at - start) * static_cast<double>(arrival.size);
    }
    megabits_per_second = static_cast<double>(order_file_bytes) * 8e-6 / seconds_of(last - start);
    stall_ms = milliseconds(stall);
    first_ms = milliseconds(usable.front().at - start);
    at_ms = weighted / static_cast<double>(order_file_bytes);
  }
};

/// A destination that keeps one file, and when its bytes were written.
class Witness final : public ftx::Destination {
 public:
  explicit Witness(Waiter& clock) : clock_(clock) {}

  Result<std::unique_ptr<ftx::Sink>> open(std::string_view, std::span<const ftx::FileEntry>) override {
    return std::make_unique<WitnessSink>(*this);
  }
  [[nodiscard]] const Arrivals& arrivals() const { return arrivals_; }
  [[nodiscard]] ConstBytes content() const { return content_; }

 private:
  class File final : public ftx::SinkFile {
   public:
    File(Witness& owner, std::size_t size) : owner_(owner) { owner_.content_.resize(size); }
    Status write(std::uint64_t offset, ConstBytes bytes) override {
      std::memcpy(owner_.content_.data() + offset, bytes.data(), bytes.size());
      owner_.arrivals_.push_back({owner_.clock_.now(), offset, bytes.size()});
      return {};
    }
    Status read(std::uint64_t offset, Bytes out) override {
      std::memcpy(out.data(), owner_.content_.data() + offset, out.size());
      return {};
    }
    Status finalize() override { return {}; }
    Status commit() override { return {}; }
    std::string keep() override { return ""; }

   private:
    Witness& owner_;
  };
  class WitnessSink final : public ftx::Sink {
   public:
    explicit WitnessSink(Witness& owner) : owner_(owner) {}
    Result<std::unique_ptr<ftx::SinkFile>> create(const ftx::FileEntry& entry) override {
      return std::make_unique<File>(owner_, entry.size_bytes);
    }
    Status finish() override { return {}; }
    std::string path(const ftx::FileEntry& entry) const override { return std::string(entry.name); }

   private:
    Witness& owner_;
  };

  Waiter& clock_;
  std::vector<std::byte> content_;
  Arrivals arrivals_;
};

/// 100 Mbit/s and 20 ms there and back, a queue of twice what that holds.
std::string order_link(const std::string& loss) {
  return "direction = 'down', rate_mbit = 100, delay_ms = 10, overhead_bytes = 38, queue_bytes = 524288, loss = " +
         loss;
}

constexpr std::uint16_t order_port = 7070;

/// A file of random bytes by ftx; its writes, in the order of time.
Arrivals by_ftx(std::uint64_t seed, const std::string& loss, bool cubic) {
  TwoHosts hosts(seed, order_link(loss), order_link(loss));
  const auto transport = [&](const Host& host, const wire::IpAddress& local, std::uint16_t port) {
    const std::string stack = Protocol{.name = "ftx", .transport = "udp"}.stack(host);
    const StackFile file = needed(StackFile::parse("[stack.end]\n" + stack, "experiment", registry()));
    auto made = ftx::Transport::open(hosts.set, hosts.clock, file.stacks().front(), {local, port});
    SLUICE_REQUIRE(made.has_value());
    return std::move(*made);
  };
  const auto client = transport(hosts.near, hosts.near.address, 0);
  const auto host = transport(hosts.far, hosts.far.address, order_port);

  ftx::test::MemorySource source;
  source.add("file", ftx::test::random_content(order_file_bytes, seed));
  source.reading_turns = 1;
  Witness witness(hosts.clock);
  std::unique_ptr<ftx::CongestionControl> congestion;
  if (cubic) {
    congestion = std::make_unique<ftx::Cubic>(order_datagram_bytes);
  } else {
    congestion = std::make_unique<ftx::Bbr>(order_datagram_bytes, seed);
  }
  ftx::SenderOptions sender_options;
  sender_options.peer = ftx::peer_of({hosts.far.address, order_port});
  sender_options.tsdu_bytes = order_datagram_bytes;
  ftx::Sender sender(hosts.clock.now(), sender_options, source, *congestion, std::nullopt);
  ftx::ServerOptions server_options;
  server_options.insecure = true;
  server_options.tsdu_bytes = host->tsdu_bytes();
  ftx::Server server(server_options, witness);

  ftx::Burst burst;
  ftx::Burst answers;
  ftx::SenderHandler to_sender(sender);
  ftx::ServerHandler to_server(server);
  while (!sender.finished() && hosts.clock.now() < TimePoint{} + transfer_max) {
    const TimePoint now = hosts.clock.now();
    to_sender.now = to_server.now = now;
    client->receive(to_sender);
    host->receive(to_server);
    if (client->send(burst) && client->can_send()) {
      sender.transmit(now, burst);
      static_cast<void>(client->send(burst));
    }
    server.transmit(now, answers);
    SLUICE_REQUIRE(host->send(answers));
    while (server.next_event()) {
    }
    static_cast<void>(hosts.clock.wait(
        std::max(now + std::chrono::microseconds(1), std::min(sender.next_deadline(), server.next_deadline()))));
  }
  EXPECT_EQ(sender.exit_code(), ftx::ExitCode::ok) << "seed " << seed << ", loss " << loss;
  EXPECT_TRUE(std::ranges::equal(witness.content(), source.content(0))) << "seed " << seed << ", loss " << loss;
  return witness.arrivals();
}

/// The same by our tcp: what the application has received, when it has.
Arrivals by_tcp(std::uint64_t seed, const std::string& loss) {
  TwoHosts hosts(seed, order_link(loss), order_link(loss));
  const Protocol tcp{.name = "tcp", .transport = "tcp"};
  const auto stream = [&](const Host& host) {
    auto made = opened(hosts.set, tcp.stack(host));
    made->set_waiter(&hosts.clock);
    return made;
  };
  const wire::TransportAddress address{hosts.far.address, order_port};
  const auto listener = bound(stream(hosts.far), address, 1);
  auto called = stream(hosts.far);
  const Connected both =
      connected_by_tcp(stream(hosts.near), {hosts.near.address, 0}, *listener, address, std::move(called));
  both.caller->stream().set_nonblocking(true);
  both.called->stream().set_nonblocking(true);

  const ftx::test::Content content = ftx::test::random_content(order_file_bytes, seed);
  std::vector<std::byte> got(order_file_bytes);
  Arrivals usable;
  std::size_t sent = 0;
  std::size_t received = 0;
  while (received < order_file_bytes && hosts.clock.now() < TimePoint{} + transfer_max) {
    bool moved = false;
    if (sent < order_file_bytes) {
      const std::size_t taken = both.caller->t_snd(ConstBytes(content).subspan(sent), 0).value_or(0);
      sent += taken;
      moved = taken > 0;
    }
    for (std::size_t bytes = 1; bytes > 0 && received < order_file_bytes;) {
      int flags = 0;
      bytes = both.called->t_rcv(Bytes(got).subspan(received), flags).value_or(0);
      if (bytes > 0) {
        usable.push_back({hosts.clock.now(), received, bytes});
        received += bytes;
        moved = true;
      }
    }
    const TimePoint now = hosts.clock.now();
    static_cast<void>(hosts.clock.wait(moved ? now : now + 100ms));
  }
  EXPECT_TRUE(std::ranges::equal(got, content)) << "seed " << seed << ", loss " << loss;
  return usable;
}

TEST(layering, order) {
  const Figure throughput("order_throughput", "Mbit/s");
  const Figure ratio("order_ratio", "ratio");
  const Figure stall("order_stall", "ms");
  const Figure first("order_first", "ms");
  const Figure waited("order_wait", "ms");
  const TimePoint start{};  // when the first packet leaves; finding the neighbour is part of it
  for (const char* const loss : full_or_tiny<const char*>({"0", "0.01", "0.1", "0.5", "1", "2", "5"}, {"0", "1"})) {
    const std::string at = std::string(" loss=") + loss;
    std::map<std::string, std::vector<Course>> courses;
    for (std::uint64_t seed = 1; seed <= seeds(); ++seed) {
      const Arrivals arrivals = by_ftx(seed, loss, false);
      const Arrivals cubic = by_ftx(seed, loss, true);
      const Arrivals tcp = by_tcp(seed, loss);
      ASSERT_FALSE(arrivals.empty() || cubic.empty() || tcp.empty());
      courses["ftx"].emplace_back(arrivals, start);
      courses["ftx_cubic"].emplace_back(cubic, start);
      courses["in_order"].emplace_back(in_order(arrivals), start);
      courses["tcp"].emplace_back(tcp, start);
      // Delivery changes when bytes are of use, and nothing else.
      ASSERT_DOUBLE_EQ(courses["in_order"].back().megabits_per_second, courses["ftx"].back().megabits_per_second);
      ASSERT_GE(courses["in_order"].back().at_ms, courses["ftx"].back().at_ms - 1e-6);
    }
    for (const auto& [arm, runs] : courses) {
      Samples rates;
      Samples ratios;
      Samples stalls;
      Samples firsts;
      Samples waits;
      for (std::size_t run = 0; run < runs.size(); ++run) {
        rates.add(runs[run].megabits_per_second);
        ratios.add(runs[run].megabits_per_second / courses["tcp"][run].megabits_per_second);
        stalls.add(runs[run].stall_ms);
        firsts.add(runs[run].first_ms);
        waits.add(runs[run].at_ms - courses["ftx"][run].at_ms);
      }
      throughput.add(arm + at, order_file_bytes, rates);
      stall.add(arm + at, order_file_bytes, stalls);
      first.add(arm + at, order_file_bytes, firsts);
      if (arm != "tcp") {
        ratio.add(arm + "/tcp" + at, order_file_bytes, ratios);
      }
      if (arm == "in_order") {
        waited.add(arm + at, order_file_bytes, waits);
      }
    }
  }
}

}  // namespace
}  // namespace sluice::bench
