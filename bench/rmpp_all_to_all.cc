// SPDX-License-Identifier: Apache-2.0

// Document 001, Figure 3: every process sends a message to every other one, all at once, through a switch of finite
// queues; in simulated time.
//
// Each process is a host of its own on a link of 1 Gbit/s to the switch, 5 us long. The switch learns addresses and
// forwards frames to a port's queue of 128 KiB; what does not fit is lost. Links and queues are `fault` modules on the
// switch's ports. The processes begin within 100 us of each other, when a seed says.
//
//   all_to_all_bandwidth   Mbit/s of messages that one process receives, by how many there are
//   all_to_all_packets     packets that all hosts have sent, for each message
//   all_to_all_drops       packets that the switch has lost, percent
//
// An exchange that is not over after 20 seconds counts as if it were then.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/prng.h"
#include "bench/simulation.h"
#include "libdlpi/dlpi_handle.h"
#include "stack/wire/ethernet.h"

namespace sluice::bench {
namespace {

using namespace std::chrono_literals;

constexpr Duration time_max = 20s;
constexpr std::uint64_t begin_within_ns = 100'000;

/// Learns which host is where, and forwards. Port i is end b of the wire "host i".
class Switch {
 public:
  Switch(SimulatedClock& clock, StreamSet& set, std::size_t ports) {
    for (std::size_t port = 0; port < ports; ++port) {
      const dlpi::Links links{.open = [&](std::string_view name) { return open(set, std::string(name)); }, .names = {}};
      auto handle = dlpi::Handle::dlpi_open(links, "host" + std::to_string(port), dlpi::DLPI_RAW);
      SLUICE_REQUIRE(handle.has_value());
      SLUICE_REQUIRE((*handle)->dlpi_bind(dlpi::DLPI_ANY_SAP, nullptr).has_value());
      for (const std::uint32_t level : {wire::dlpi::DL_PROMISC_PHYS, wire::dlpi::DL_PROMISC_SAP}) {
        SLUICE_REQUIRE((*handle)->dlpi_promiscon(level).has_value());
      }
      ports_.push_back(std::move(*handle));
    }
    clock.devices.emplace_back([this] { return forward(); });
  }
  [[nodiscard]] std::uint64_t count(std::string_view counter) {
    std::uint64_t sum = 0;
    for (const auto& port : ports_) {
      sum += counted(port->stream(), "fault", counter);
    }
    return sum;
  }

 private:
  static Result<std::unique_ptr<Stream>> open(StreamSet& set, const std::string& name) {
    auto stream = opened(set, "driver = { kind = 'wire', name = '" + name + "', end = 'b' }\n");
    for (const char* const direction : {"up", "down"}) {
      Parameters parameters;
      parameters.set("direction", std::string(direction));
      parameters.set("rate_mbit", 1000.0);
      parameters.set("delay_ms", 0.005);
      parameters.set("overhead_bytes", std::int64_t{24});  // beyond the Ethernet header
      parameters.set("queue_bytes", std::int64_t{direction[0] == 'd' ? 131'072 : 8'388'608});
      needed(stream->push(needed(registry().find("fault")->make(set, parameters))));
    }
    stream->set_nonblocking(true);
    return stream;
  }
  bool forward() {
    bool moved = false;
    std::array<std::byte, 1600> frame;
    for (std::size_t from = 0; from < ports_.size(); ++from) {
      for (;;) {
        const auto received = ports_[from]->dlpi_recv(frame, 0);
        if (!received) {
          break;
        }
        moved = true;
        SLUICE_REQUIRE(received->bytes == received->total_bytes && received->bytes >= wire::EthernetHeader::size);
        const ConstBytes whole = ConstBytes(frame).first(received->bytes);
        const auto to = wire::MacAddress::load(whole.data());
        learned_[wire::MacAddress::load(whole.data() + wire::MacAddress::size).octets] = from;
        const auto known = learned_.find(to.octets);
        for (std::size_t port = 0; port < ports_.size(); ++port) {
          if (known == learned_.end() ? port != from : port == known->second) {
            SLUICE_REQUIRE(ports_[port]->dlpi_send(to, whole).has_value());
          }
        }
      }
    }
    return moved;
  }

  std::vector<std::unique_ptr<dlpi::Handle>> ports_;
  std::map<std::array<std::uint8_t, wire::MacAddress::size>, std::size_t> learned_;
};

/// So many hosts on one switch, with a port each of every other.
class Cluster {
 public:
  Cluster(std::uint64_t seed, const Protocol& protocol, std::size_t hosts)
      : set_(StreamSet::Options{.seed = seed}), clock_(set_), order_(seed), ports_(hosts) {
    std::vector<Host> made;
    for (std::size_t at = 0; at < hosts; ++at) {
      const std::string address = "10.80.0." + std::to_string(at + 1);
      made.push_back({.driver = "{ kind = 'wire', name = 'host" + std::to_string(at) + "', end = 'a' }",
                      .modules = "'ip'",
                      .settings = "ip = { address = '" + address + "/24' }\n",
                      .address = *wire::IpAddress::from_text(address)});
    }
    const auto stream = [&](std::size_t at) {
      auto one = opened(set_, protocol.stack(made[at]));
      one->set_waiter(&clock_);
      return one;
    };
    for (std::size_t at = 0; at < hosts; ++at) {
      ports_[at].resize(hosts);
      if (protocol.is_tcp()) {
        listeners_.push_back(bound(stream(at), address_of(made[at]), static_cast<std::uint32_t>(hosts)));
      } else {
        endpoints_.push_back(needed(msg::Endpoint::open(stream(at), {.local = address_of(made[at])})));
      }
    }
    switch_ = std::make_unique<Switch>(clock_, set_, hosts);
    for (std::size_t at = 0; at < hosts; ++at) {
      for (std::size_t other = 0; other < hosts; ++other) {
        if (!protocol.is_tcp() && other != at) {
          ports_[at][other] = std::make_unique<MsgPort>(*endpoints_[at], address_of(made[other]));
        } else if (protocol.is_tcp() && other > at) {
          Connected both = connected_by_tcp(stream(at), {made[at].address, 0}, *listeners_[other],
                                            address_of(made[other]), stream(other));
          ports_[at][other] = std::make_unique<TcpPort>(std::move(both.caller));
          ports_[other][at] = std::make_unique<TcpPort>(std::move(both.called));
        }
      }
    }
    for (const auto& row : ports_) {
      for (const auto& port : row) {
        if (port) {
          all_.push_back(port.get());
        }
      }
    }
  }

  /// Simulated seconds until every message of `size` bytes has come.
  double exchange(std::size_t size) {
    const std::size_t hosts = ports_.size();
    const std::vector<std::byte> data(size, std::byte{5});
    std::vector<std::vector<std::byte>> places(all_.size(), std::vector<std::byte>(size));
    for (std::size_t at = 0; at < all_.size(); ++at) {
      all_[at]->expect(places[at]);
    }
    std::vector<std::pair<Duration, std::size_t>> beginners;
    for (std::size_t at = 0; at < hosts; ++at) {
      beginners.emplace_back(std::chrono::nanoseconds(order_.below(begin_within_ns)), at);
    }
    std::ranges::sort(beginners);
    const TimePoint start = clock_.now();
    for (const auto& [after, at] : beginners) {
      static_cast<void>(run_ports(clock_, all_, [] { return false; }, start + after));
      for (std::size_t step = 1; step < hosts; ++step) {
        ports_[at][(at + step) % hosts]->send(data);
      }
    }
    const auto all_received = [&] {
      return std::ranges::all_of(all_, [](const Port* port) { return port->received(); });
    };
    const bool whole = run_ports(clock_, all_, all_received, start + time_max);
    const double seconds = seconds_of(clock_.now() - start);
    if (whole) {
      const auto all_sent = [&] { return std::ranges::all_of(all_, [](const Port* port) { return port->sent(); }); };
      whole_ = run_ports(clock_, all_, all_sent, start + 2 * time_max);
      for (const auto& place : places) {
        whole_ = whole_ && place == data;
      }
    } else {
      whole_ = false;
    }
    return seconds;
  }
  /// Whether everything came so far.
  [[nodiscard]] bool whole() const { return whole_; }
  [[nodiscard]] std::uint64_t packets() { return switch_->count("up_in"); }
  [[nodiscard]] std::uint64_t drops() { return switch_->count("down_queue_dropped"); }

 private:
  static wire::TransportAddress address_of(const Host& host) { return {host.address, Pairing::port}; }

  StreamSet set_;
  SimulatedClock clock_;
  Prng order_;
  std::unique_ptr<Switch> switch_;
  std::vector<std::unique_ptr<msg::Endpoint>> endpoints_;
  std::vector<std::unique_ptr<tli::Endpoint>> listeners_;
  std::vector<std::vector<std::unique_ptr<Port>>> ports_;
  std::vector<Port*> all_;
  bool whole_ = true;
};

TEST(rmpp, all_to_all) {
  const Figure bandwidth("all_to_all_bandwidth", "Mbit/s");
  const Figure packets("all_to_all_packets", "packets a message");
  const Figure drops("all_to_all_drops", "percent");
  const std::vector<Protocol> protocols{
      {.name = "rmpp", .transport = "udp", .module = "rmpp", .settings = "attempts = 1000"},
      {.name = "selective",
       .transport = "udp",
       .module = "rmpp",
       .settings = "recovery = 'selective', attempts = 1000"},
      {.name = "tcp", .transport = "tcp"}};
  for (const std::size_t size : full_or_tiny<std::size_t>({60'000, 240'000}, {60'000})) {
    for (const std::size_t hosts : full_or_tiny<std::size_t>({4, 8, 12, 16}, {4})) {
      for (const Protocol& protocol : protocols) {
        Samples rates;
        Samples sent;
        Samples lost;
        for (std::uint64_t seed = 1; seed <= seeds(); ++seed) {
          Cluster cluster(seed, protocol, hosts);
          cluster.exchange(8);  // all find their neighbours
          ASSERT_TRUE(cluster.whole());
          const std::uint64_t packets_before = cluster.packets();
          const std::uint64_t drops_before = cluster.drops();
          const double seconds = cluster.exchange(size);
          const auto count = static_cast<double>(cluster.packets() - packets_before);
          const auto others = static_cast<double>(hosts - 1);
          rates.add(others * static_cast<double>(size) * 8 / seconds / 1e6);
          sent.add(count / (static_cast<double>(hosts) * others));
          lost.add(static_cast<double>(cluster.drops() - drops_before) / count * 100);
        }
        const std::string arm = protocol.name + " processes=" + std::to_string(hosts);
        bandwidth.add(arm, size, rates);
        packets.add(arm, size, sent);
        drops.add(arm, size, lost);
      }
    }
  }
}

}  // namespace
}  // namespace sluice::bench
