// SPDX-License-Identifier: Apache-2.0

// Document 001 (Riesen and Maccabe, "Simple, Scalable Protocols for High-Performance Local Networks"): RMPP, Utopia,
// UDP and TCP on one packet module, under one library (bench/ports.h: pre-post a receive, send, wait).
//
// Arms: rmpp, the faithful form; selective, rmpp with selective retransmission, which is ours; utopia; udp, datagrams
// of 1400 bytes without recovery; tcp, one connection that stands beforehand; all of our own stack, on one ip. Where a
// real link is used, kernel_udp and kernel_tcp besides: the kernel's sockets under the same library.
//
// In simulated time (bench/simulation.h), where the protocol and not the processor is asked about; a value a seed:
//   bandwidth      Figure 2: half of a ping-pong over a link of 1 Gbit/s with a delay of 10 us, by message size
//   packets        packets that the two hosts send for one message of a ping-pong
//   all_to_all_*   Figure 3: bench/rmpp_all_to_all.cc
//   wait_*         Figures 5 and 6: how long a client waits for an answer of 60 kB over a link with bit errors
// With threads, over loopback:
//   overlap*       Figure 4: bench/rmpp_overlap.cc
// On this machine, over `packet` with its ring by frame and a veth pair a protocol:
//   bandwidth_cpu  Figure 2 again, as CPU time of both ends together, with what the kernel does for them; `packet` is
//                  dlpi_send and dlpi_recv of as many frames of the same size, one a call: the packet
//                  module's limit
//   latency*       Table 1: least, mean, largest and standard deviation of half the round trips of short messages;
//                  both ends in one thread, so what one does for the other's sake is in it

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/prng.h"
#include "bench/experiment.h"
#include "bench/simulation.h"
#include "bench/ways.h"

namespace sluice::bench {
namespace {

using namespace std::chrono_literals;

const std::vector<Protocol>& own_protocols() {
  static const std::vector<Protocol> all{
      {.name = "utopia", .transport = "udp", .module = "utopia"},
      {.name = "rmpp", .transport = "udp", .module = "rmpp"},
      {.name = "selective", .transport = "udp", .module = "rmpp", .settings = "recovery = 'selective'"},
      {.name = "udp", .transport = "udp"},
      {.name = "tcp", .transport = "tcp"},
  };
  return all;
}

/// A message there and one back, of `size` bytes.
class PingPong {
 public:
  PingPong(Waiter& waiter, const Pairing& pair, std::size_t size)
      : waiter_(waiter), pair_(pair), data_(size, std::byte{7}), there_(size), back_(size) {}

  /// False when a message did not come, or came otherwise than it was sent.
  [[nodiscard]] bool exchange() {
    std::ranges::fill(there_, std::byte{0});
    std::ranges::fill(back_, std::byte{0});
    return move() && back_ == data_;
  }
  /// The same without a look at what came, which would be in the time. False when a message did not come.
  [[nodiscard]] bool move() {
    pair_.far->expect(there_);
    pair_.near->expect(back_);
    pair_.near->send(data_);
    bool answered = false;
    const auto done = [&] {
      if (!answered && pair_.far->received() && pair_.far->sent()) {
        pair_.far->send(there_);
        answered = true;
      }
      return answered && pair_.near->received() && pair_.near->sent() && pair_.far->sent();
    };
    return run_ports(waiter_, pair_.ports(), done, waiter_.now() + 10s) && !pair_.near->failed() &&
           !pair_.far->failed();
  }

 private:
  Waiter& waiter_;
  const Pairing& pair_;
  std::vector<std::byte> data_;
  std::vector<std::byte> there_;
  std::vector<std::byte> back_;
};

// ---- In simulated time ----

const std::string fast_link =
    "direction = 'down', rate_mbit = 1000, delay_ms = 0.01, overhead_bytes = 38, queue_bytes = 8388608";

TEST(rmpp, bandwidth) {
  const Figure speed("bandwidth", "Mbit/s");
  const Figure ratio("bandwidth_ratio", "ratio");
  constexpr int exchanges = 10;
  for (const std::size_t size : full_or_tiny<std::size_t>(
           {100, 1000, 1400, 5000, 10'000, 20'000, 40'000, 60'000, 100'000, 200'000, 500'000, 1'000'000},
           {1000, 60'000})) {
    std::map<std::string, std::vector<double>> rates;
    for (const Protocol& protocol : own_protocols()) {
      for (std::uint64_t seed = 1; seed <= seeds(); ++seed) {
        TwoHosts hosts(seed, fast_link, fast_link);
        const Pairing pair(hosts.set, hosts.clock, protocol, hosts.near, hosts.far);
        PingPong ping_pong(hosts.clock, pair, size);
        ASSERT_TRUE(PingPong(hosts.clock, pair, smallest).exchange());  // finds the neighbour
        const TimePoint start = hosts.clock.now();
        for (int done = 0; done < exchanges; ++done) {
          ASSERT_TRUE(ping_pong.exchange()) << protocol.name << ' ' << size << " seed " << seed;
        }
        rates[protocol.name].push_back(static_cast<double>(2 * exchanges * size) * 8 /
                                       seconds_of(hosts.clock.now() - start) / 1e6);
      }
    }
    for (const auto& [name, values] : rates) {
      Samples samples;
      Samples ratios;
      for (std::size_t at = 0; at < values.size(); ++at) {
        samples.add(values[at]);
        ratios.add(values[at] / rates["utopia"][at]);
      }
      speed.add(name, size, samples);
      if (name != "utopia") {
        ratio.add(name + "/utopia", size, ratios);
      }
    }
  }
}

TEST(rmpp, packets) {
  const Figure packets("packets", "packets");
  const Figure ratio("packets_ratio", "ratio");
  constexpr int exchanges = 20;
  for (const std::size_t size :
       full_or_tiny<std::size_t>({8, 100, 1000, 1400, 2800, 5000, 10'000, 20'000, 60'000, 200'000}, {8, 20'000})) {
    std::map<std::string, std::vector<double>> sent;
    for (const Protocol& protocol : own_protocols()) {
      for (std::uint64_t seed = 1; seed <= seeds(); ++seed) {
        TwoHosts hosts(seed, fast_link, fast_link);
        const Pairing pair(hosts.set, hosts.clock, protocol, hosts.near, hosts.far);
        PingPong ping_pong(hosts.clock, pair, size);
        ASSERT_TRUE(PingPong(hosts.clock, pair, smallest).exchange());
        const auto settled = [&] {
          static_cast<void>(run_ports(hosts.clock, pair.ports(), [] { return false; }, hosts.clock.now() + 300ms));
          return pair.packets();
        };
        const std::uint64_t before = settled();
        for (int done = 0; done < exchanges; ++done) {
          ASSERT_TRUE(ping_pong.exchange());
        }
        sent[protocol.name].push_back(static_cast<double>(settled() - before) / (2 * exchanges));
      }
    }
    for (const auto& [name, values] : sent) {
      Samples samples;
      Samples ratios;
      for (std::size_t at = 0; at < values.size(); ++at) {
        samples.add(values[at]);
        ratios.add(values[at] / sent["tcp"][at]);
      }
      packets.add(name, size, samples);
      if (name == "rmpp" || name == "selective") {
        ratio.add(name + "/tcp", size, ratios);
      }
    }
  }
}

constexpr double wait_max = 20;

/// Means of some requests.
struct Waited {
  double seconds = 0;  // for an answer, at most wait_max
  double wrong = 0;    // the share of answers in which damage has passed the checksum
};

Waited client_wait(std::uint64_t seed, const Protocol& protocol, const std::string& bit_errors) {
  const std::string fault = fast_link + ", bit_errors = " + bit_errors;
  TwoHosts hosts(seed, fault, fault);
  const Pairing pair(hosts.set, hosts.clock, protocol, hosts.near, hosts.far);
  std::vector<std::byte> request(64, std::byte{1});
  std::vector<std::byte> asked(request.size());
  std::vector<std::byte> answer(60'000);
  Prng(seed).fill(answer);
  std::vector<std::byte> got(answer.size());
  constexpr int requests = 20;
  Waited waited;
  for (int done = 0; done < requests; ++done) {
    const TimePoint start = hosts.clock.now();
    pair.far->expect(asked);
    pair.near->expect(got);
    pair.near->send(request);
    bool answered = false;
    const auto received = [&] {
      if (!answered && pair.far->received() && pair.far->sent()) {
        pair.far->send(answer);
        answered = true;
      }
      return answered && pair.near->received();
    };
    const bool came = run_ports(hosts.clock, pair.ports(), received,
                                start + std::chrono::milliseconds(static_cast<int>(wait_max * 1000)));
    if (!came || pair.near->failed() || pair.far->failed()) {
      return {.seconds = wait_max, .wrong = waited.wrong};  // nobody waits longer
    }
    waited.wrong += got == answer ? 0 : 1.0 / requests;
    waited.seconds += seconds_of(hosts.clock.now() - start) / requests;
    const auto quiet = [&] { return pair.far->sent() && pair.near->sent(); };
    if (!run_ports(hosts.clock, pair.ports(), quiet, hosts.clock.now() + 20s) || pair.far->failed()) {
      return {.seconds = wait_max, .wrong = waited.wrong};
    }
  }
  return waited;
}

TEST(rmpp, wait) {
  const Figure wait("wait_bit_errors", "ms");
  const Figure ratio("wait_bit_errors_ratio", "ratio");
  const Figure wrong("wait_wrong_answers", "%");
  std::vector<Protocol> protocols;
  for (Protocol protocol : own_protocols()) {
    if (protocol.name == "rmpp" || protocol.name == "selective") {
      protocol.settings += std::string(protocol.settings.empty() ? "" : ", ") + "attempts = 1000";
      protocols.push_back(protocol);
    } else if (protocol.name == "tcp") {
      protocols.push_back(protocol);
    }
  }
  for (const char* const bit_errors : full_or_tiny<const char*>(
           {"1e-10", "1e-9", "1e-8", "3e-8", "1e-7", "3e-7", "1e-6", "2e-6", "5e-6", "1e-5", "2e-5", "5e-5", "1e-4"},
           {"1e-9", "1e-6"})) {
    const std::string at = std::string(" bit_errors=") + bit_errors;
    std::map<std::string, std::vector<double>> waits;
    for (const Protocol& protocol : protocols) {
      Samples samples;
      double wrong_sum = 0;
      for (std::uint64_t seed = 1; seed <= seeds(); ++seed) {
        const Waited waited = client_wait(seed, protocol, bit_errors);
        waits[protocol.name].push_back(waited.seconds);
        samples.add(waited.seconds * 1e3);
        wrong_sum += waited.wrong;
      }
      wait.add(protocol.name + at, 60'000, samples);
      if (std::stod(bit_errors) <= 1e-6) {
        EXPECT_EQ(wrong_sum, 0) << protocol.name << at << ": two errors in a packet are too rare here";
      }
      Samples wrong_of_all;
      wrong_of_all.add(wrong_sum / static_cast<double>(seeds()) * 100);
      wrong.add(protocol.name + at, 60'000, wrong_of_all);
    }
    for (const char* const name : {"rmpp", "selective"}) {
      Samples ratios;
      for (std::size_t seed = 0; seed < seeds(); ++seed) {
        ratios.add(waits[name][seed] / waits["tcp"][seed]);
      }
      ratio.add(std::string(name) + "/tcp" + at, 60'000, ratios);
    }
  }
}

// ---- On this machine ----

std::vector<Protocol> all_protocols() {
  std::vector<Protocol> all = own_protocols();
  all.push_back({.name = "kernel_udp", .transport = "kernel_udp"});
  all.push_back({.name = "kernel_tcp", .transport = "kernel_tcp"});
  return all;
}

/// What is short is not to wait for a block; and a ring by frame takes super-frames of tcp at a call and a copy each.
constexpr const char* by_frame = "ring = 'frame', offload = false";

/// The pairs of all protocols, each on a link of its own, with a set and a run loop of its own: the loop of one is not
/// to look after the others' devices.
struct Machine {
  struct Member {
    std::string name;
    StreamSet set;
    std::unique_ptr<RunLoop> loop = needed(RunLoop::open(set));
    std::unique_ptr<Pairing> pair;
  };
  std::vector<std::unique_ptr<Member>> members;

  /// REQUIRES: `names`, the links' first characters, are new to the lab.
  explicit Machine(const std::string& names) {
    for (const Protocol& protocol : all_protocols()) {
      const bool kernel = protocol.transport.starts_with("kernel_");
      const std::string device = names + std::to_string(members.size());
      if (!kernel) {
        veth_lab().add_link(device);
      }
      const auto host = [&](char end, const std::string& number) {
        return Host{.driver = veth_end(device, end, by_frame),
                    .modules = "'ip'",
                    .settings = "ip = { address = '10.78.0." + number + "/24' }\n",
                    .address = *wire::IpAddress::from_text((kernel ? "10.77.0." : "10.78.0.") + number),
                    .enter = [kernel, end] { kernel&& end == '1' ? veth_lab().enter_far() : veth_lab().enter_near(); }};
      };
      Member& member = *members.emplace_back(std::make_unique<Member>());
      member.name = protocol.name;
      member.pair = std::make_unique<Pairing>(member.set, *member.loop, protocol, host('0', "1"), host('1', "2"));
      veth_lab().enter_near();
      SLUICE_REQUIRE(PingPong(*member.loop, *member.pair, smallest).exchange());  // finds the neighbour
    }
  }
};

TEST(rmpp, bandwidth_cpu) {
  if (const std::string missing = VethLab::missing(); !missing.empty()) {
    GTEST_SKIP() << "this figure needs " << missing;
  }
  const Figure speed("bandwidth_cpu", "Mbit/s");
  const Figure ratio("bandwidth_cpu_ratio", "ratio");
  Machine machine("bw");
  veth_lab().add_link("bwframes");
  constexpr std::size_t frame = 64 + 28 + Pairing::datagram_bytes;
  DlpiWay frames(veth_end("bwframes", '0', by_frame), veth_end("bwframes", '1', by_frame), frame);
  for (const std::size_t size : full_or_tiny<std::size_t>(
           {100, 1400, 5000, 10'000, 20'000, 60'000, 100'000, 200'000, 500'000, 1'000'000}, {1000, 60'000})) {
    bool whole = true;
    std::vector<Arm> arms;
    std::vector<std::unique_ptr<PingPong>> ping_pongs;
    for (const auto& member : machine.members) {
      ping_pongs.push_back(std::make_unique<PingPong>(*member->loop, *member->pair, size));
      ASSERT_TRUE(ping_pongs.back()->exchange()) << member->name << ' ' << size;
      const Arm moves = timed(member->name, [&whole, one = ping_pongs.back().get()] { whole = whole && one->move(); });
      arms.push_back({member->name, [moves] { return moves.seconds() / 2; }});
    }
    const std::size_t count = (size + Pairing::datagram_bytes - 1) / Pairing::datagram_bytes;
    const std::size_t bytes = size / count + 64 + 28;
    arms.push_back({"packet", [&frames, bytes, count] {
                      return static_cast<double>(count) * (frames.seconds(true, bytes) + frames.seconds(false, bytes));
                    }});
    const Rounds rounds(std::move(arms));
    for (const auto& ping_pong : ping_pongs) {
      whole = whole && ping_pong->exchange();
    }
    ASSERT_TRUE(whole && frames.whole()) << "messages were lost";
    for (const std::string& arm : rounds.arms()) {
      speed.add(arm, size, rounds.megabits_per_second(arm, size));
      if (arm != "packet" && arm != "utopia") {
        ratio.add(arm + "/utopia", size, rounds.ratio(arm, "utopia"));
      }
    }
    ratio.add("utopia/packet", size, rounds.ratio("utopia", "packet"));
  }
}

TEST(rmpp, latency) {
  if (const std::string missing = VethLab::missing(); !missing.empty()) {
    GTEST_SKIP() << "this figure needs " << missing;
  }
  Machine machine("lt");
  const Figure mean("latency", "us");
  const Figure ratio("latency_ratio", "ratio");
  const Figure least("latency_min", "us");
  const Figure largest("latency_max", "us");
  const Figure deviation("latency_sd", "us");
  const std::size_t exchanges = tiny() ? 5 : 200;
  for (const std::size_t size : full_or_tiny<std::size_t>({8, 256, 1024}, {8})) {
    struct Table {
      Samples least, largest, deviation;
    };
    std::map<std::string, Table> tables;
    std::vector<Arm> arms;
    bool whole = true;
    std::vector<std::unique_ptr<PingPong>> ping_pongs;
    for (const auto& member : machine.members) {
      ping_pongs.push_back(std::make_unique<PingPong>(*member->loop, *member->pair, size));
      ASSERT_TRUE(ping_pongs.back()->exchange()) << member->name << ' ' << size;
      arms.push_back({member->name, [&, table = &tables[member->name], one = ping_pongs.back().get()] {
                        double sum = 0;
                        double squares = 0;
                        Samples each;
                        for (std::size_t done = 0; done < exchanges; ++done) {
                          const auto start = std::chrono::steady_clock::now();
                          whole = whole && one->move();
                          const double half = seconds_of(std::chrono::steady_clock::now() - start) / 2;
                          sum += half;
                          squares += half * half;
                          each.add(half * 1e6);
                        }
                        const auto count = static_cast<double>(exchanges);
                        table->least.add(each.quantile(0));
                        table->largest.add(each.quantile(1));
                        table->deviation.add(std::sqrt(std::max(0.0, squares / count - sum / count * sum / count)) *
                                             1e6);
                        return sum / count;
                      }});
    }
    const Rounds rounds(std::move(arms));
    ASSERT_TRUE(whole) << "messages were lost";
    for (const std::string& arm : rounds.arms()) {
      mean.add(arm, size, rounds.nanoseconds(arm).times(1e-3));
      least.add(arm, size, tables[arm].least);
      largest.add(arm, size, tables[arm].largest);
      deviation.add(arm, size, tables[arm].deviation);
      if (arm != "utopia") {
        ratio.add(arm + "/utopia", size, rounds.ratio("utopia", arm));
      }
    }
  }
}

}  // namespace
}  // namespace sluice::bench
