// SPDX-License-Identifier: Apache-2.0

// A receiver that is slower than its sender, in simulated time: document 002, Figure 3.9 and what it says of packet
// loss.
//
// The sender offers 270 Mbit/s of user data, as the document's did for every message size, with t_sndudata over udp, ip
// and a link of 1 Gbit/s and 1500 bytes; the times between its messages vary by a tenth, at random. What the receiver's
// interface and driver take a second is a rate, behind a ring of 64 KiB (`fault`): what comes while that is full is
// lost, and with a fragment its message. The receiver's rate is half of what is offered (`half`), or nine tenths
// (`nine_tenths`).
//
//   loss           percent of messages that do not come
//   loss_received  Mbit/s of user data that come
//   loss_control   the same behind that receiver of half the rate with flow control: `credit` is rmpp, whose receiver
//                  grants packets; `window` is tcp; `none` is udp

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/prng.h"
#include "bench/simulation.h"

namespace sluice::bench {
namespace {

constexpr double offered_bits = 270e6;
constexpr std::size_t largest_unit = 65507;

std::string slow(double share) {
  const auto bits = static_cast<int>(offered_bits * share / 1e6);
  return "direction = 'up', rate_mbit = " + std::to_string(bits) + ", queue_bytes = 65536";
}
const std::string link = "direction = 'down', rate_mbit = 1000, overhead_bytes = 38, queue_bytes = 4194304";

std::size_t bytes_in_all() { return tiny() ? 400'000 : 8'000'000; }
std::vector<std::size_t> sizes() {
  return full_or_tiny<std::size_t>({1000, 1472, 3000, 6000, 10000, 20000, 30000, 40000, 50000, 60000, largest_unit},
                                   {1000, 3000, 60000});
}

struct Arrived {
  double lost_percent;
  double megabits;
};

Arrived offer(std::uint64_t seed, double share, std::size_t size) {
  TwoHosts hosts(seed, link, slow(share));
  const Protocol udp{.name = "udp", .transport = "udp"};
  const auto endpoint = [&](const Host& host) {
    auto stream = opened(hosts.set, udp.stack(host));
    stream->set_nonblocking(true);
    return bound(std::move(stream), {host.address, Pairing::port});
  };
  const auto receiver = endpoint(hosts.far);
  const auto sender = endpoint(hosts.near);
  Name to({hosts.far.address, Pairing::port});
  std::vector<std::byte> data(size);
  std::vector<std::byte> place(largest_unit);
  std::size_t received = 0;
  const auto take = [&] {
    for (;;) {
      Name from;
      tli::t_unitdata unit = unit_of(from, place);
      int flags = 0;
      if (!receiver->t_rcvudata(unit, flags)) {
        return;
      }
      received += unit.udata.len == size ? 1 : 0;
    }
  };
  const auto pass_until = [&](TimePoint time) {
    while (hosts.clock.now() < time) {
      static_cast<void>(hosts.clock.wait(time));
      take();
    }
  };
  std::array<std::byte, 8> first{};
  SLUICE_REQUIRE(sender->t_sndudata(unit_of(to, first)).has_value());  // finds the neighbour
  pass_until(hosts.clock.now() + std::chrono::milliseconds(100));
  received = 0;
  Prng prng(seed);
  const std::size_t count = bytes_in_all() / size;
  const TimePoint start = hosts.clock.now();
  const double interval_ns = static_cast<double>(size) * 8 / offered_bits * 1e9;
  double at_ns = 0;
  for (std::size_t sent = 0; sent < count; ++sent) {
    EXPECT_TRUE(sender->t_sndudata(unit_of(to, data)).has_value());
    at_ns += interval_ns * (0.9 + 0.2 * static_cast<double>(prng.below(1000)) / 999);
    pass_until(start + Duration(static_cast<std::int64_t>(at_ns)));
  }
  pass_until(hosts.clock.now() + std::chrono::milliseconds(100));  // what the ring still holds
  return {100.0 * static_cast<double>(count - received) / static_cast<double>(count),
          static_cast<double>(received * size) * 8 / (at_ns * 1e-9) / 1e6};
}

TEST(dlpi_tli, loss) {
  const Figure lost("loss", "percent");
  const Figure came("loss_received", "Mbit/s");
  for (const std::size_t size : sizes()) {
    for (const auto& [name, share] : {std::pair{"half", 0.5}, std::pair{"nine_tenths", 0.9}}) {
      Samples percent;
      Samples megabits;
      for (std::uint64_t seed = 1; seed <= seeds(); ++seed) {
        const Arrived arrived = offer(seed, share, size);
        percent.add(arrived.lost_percent);
        megabits.add(arrived.megabits);
      }
      lost.add(name, size, percent);
      came.add(name, size, megabits);
    }
  }
}

/// Mbit/s of messages of which one follows the other.
double controlled(std::uint64_t seed, const Protocol& protocol, std::size_t size) {
  TwoHosts hosts(seed, link, slow(0.5));
  const Pairing pair(hosts.set, hosts.clock, protocol, hosts.near, hosts.far);
  std::vector<std::byte> data(size);
  std::vector<std::byte> place(size);
  const std::size_t count = std::max<std::size_t>(bytes_in_all() / size / 4, 2);
  const TimePoint start = hosts.clock.now();
  for (std::size_t sent = 0; sent < count; ++sent) {
    pair.far->expect(place);
    pair.near->send(data);
    const bool done = run_ports(
        hosts.clock, pair.ports(), [&] { return pair.far->received() && pair.near->sent(); },
        hosts.clock.now() + std::chrono::seconds(10));
    EXPECT_TRUE(done && !pair.far->failed()) << protocol.name << ' ' << size;
  }
  return static_cast<double>(count * size) * 8 / seconds_of(hosts.clock.now() - start) / 1e6;
}

TEST(dlpi_tli, loss_control) {
  const Figure came("loss_control", "Mbit/s");
  const std::vector<Protocol> protocols{{.name = "credit", .transport = "udp", .module = "rmpp"},
                                        {.name = "window", .transport = "tcp"}};
  for (const std::size_t size : sizes()) {
    Samples none;
    for (std::uint64_t seed = 1; seed <= seeds(); ++seed) {
      none.add(offer(seed, 0.5, size).megabits);
    }
    came.add("none", size, none);
    for (const Protocol& protocol : protocols) {
      Samples samples;
      for (std::uint64_t seed = 1; seed <= seeds(); ++seed) {
        samples.add(controlled(seed, protocol, size));
      }
      came.add(protocol.name, size, samples);
    }
  }
}

}  // namespace
}  // namespace sluice::bench
