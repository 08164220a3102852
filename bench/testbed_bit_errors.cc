// SPDX-License-Identifier: Apache-2.0

// Document 003, Protocol performance: XTP, which sends again what is lost and nothing else, against TCP over a link
// with bit errors, in packets of 64 KiB; single errors, and errors that damage three packets in a row.
//
// Arms: xtp and tcp are our own, on our ip (udp sums what xtp sends); kernel_sack and kernel_no_sack are the kernel's
// TCP, with selective acknowledgements and without, as the document's was; its congestion control is Reno in both.
// Every arm has a link of its own: two TAP devices, joined through `fault`, which also is the link's rate. All of them
// run at once, in real time, each with a window of 512 KiB, which neither overflows the link's queue nor leaves the
// link idle.
//
//   bit_errors, bit_errors_ratio   Mbit/s that arrive, by the bit error rate, and xtp's as a multiple of TCP's; a value
//                                  for each piece of the time
//   bit_errors_burst, ..._ratio    the same with three packets an error
//
// Beside other work on the machine xtp and tcp, whose ends are in this program, too, fall behind the kernel's by some
// per cent where nothing is lost: compare with 1e-10 of the same run.
//
// The sums of both are of 16 bits: past 1e-7, where a packet has several errors, one in some thousand is damaged and
// passes. So what arrives is counted here and not compared.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/descriptor.h"
#include "bench/experiment.h"
#include "bench/ports.h"
#include "bench/stack_pair.h"
#include "edge/bridge.h"
#include "libdlpi/dlpi_handle.h"

namespace sluice::bench {
namespace {

using namespace std::chrono_literals;

constexpr unsigned packet_mtu = 65'521;
constexpr unsigned window_bytes = 524'288;
constexpr std::size_t rate_mbit = 250;
constexpr double rate_mbit_min = 0.1;  // of a piece of the time in which next to nothing has arrived

/// A link between two TAP devices, "NUMBERn" in the near namespace and "NUMBERf" in the far one. What goes to the far
/// one meets `fault`.
class Link {
 public:
  Link(StreamSet& set, RunLoop& loop, int number, const std::string& fault) {
    veth_lab().enter_near();
    near_ = open(set, number, 'n', "push = ['fault']\nfault = { " + fault + " }\n");
    veth_lab().enter_far();
    far_ = open(set, number, 'f', "");
    bridge_.emplace(loop, near_->stream(), far_->stream());
  }

  static std::string device(int number, char end) { return std::to_string(number) + end; }
  static std::uint32_t address(int number, char end) {
    return 0x0a4f0000U + static_cast<std::uint32_t>(number) * 256 + (end == 'n' ? 1 : 2);
  }
  [[nodiscard]] std::uint64_t damaged() { return counted(near_->stream(), "fault", "up_corrupted"); }

 private:
  static std::unique_ptr<dlpi::Handle> open(StreamSet& set, int number, char end, const std::string& above) {
    const std::string name = device(number, end);
    const dlpi::Links links{.open = [&](std::string_view) -> Result<std::unique_ptr<Stream>> {
                              auto stream = opened(set, "driver = { kind = 'tap', device = '" + name +
                                                            "', mtu = " + std::to_string(packet_mtu) +
                                                            ", offload = false }\n" + above);
                              stream->set_nonblocking(true);
                              return stream;
                            },
                            .names = {}};
    auto handle = dlpi::Handle::dlpi_open(links, "tap", dlpi::DLPI_RAW);
    SLUICE_REQUIRE(handle.has_value() && (*handle)->dlpi_bind(dlpi::DLPI_ANY_SAP, nullptr).has_value());
    for (const std::uint32_t level : {wire::dlpi::DL_PROMISC_PHYS, wire::dlpi::DL_PROMISC_SAP}) {
      SLUICE_REQUIRE((*handle)->dlpi_promiscon(level).has_value());
    }
    VethLab::run("ip link set " + name + " addrgenmode none up");
    return std::move(*handle);
  }

  std::unique_ptr<dlpi::Handle> near_;
  std::unique_ptr<dlpi::Handle> far_;
  std::optional<Bridge> bridge_;
};

/// Bytes without end, from one end of a link to the other.
class Flow {
 public:
  virtual ~Flow() = default;
  /// Sends and receives what can be; whether that was anything.
  bool turn() {
    const std::size_t sent = as_long_as_it_goes([this] { return send(buffer()); });
    const std::size_t got = as_long_as_it_goes([this] { return receive(buffer()); });
    received_ += got;
    return sent + got > 0;
  }
  [[nodiscard]] std::uint64_t received() const { return received_; }

 private:
  static constexpr std::size_t turn_bytes_max = std::size_t{1} << 20;

  /// How many bytes of `from` have gone, and how many have come in `to`; 0: none now.
  virtual std::size_t send(ConstBytes from) = 0;
  virtual std::size_t receive(Bytes to) = 0;
  template <class Move>
  static std::size_t as_long_as_it_goes(Move move) {
    std::size_t done = 0;
    for (std::size_t moved = 1; moved > 0 && done < turn_bytes_max; done += moved) {
      moved = move();
    }
    return done;
  }
  static Bytes buffer() {
    static std::vector<std::byte> one(256 * 1024);
    return one;
  }

  std::uint64_t received_ = 0;
};

class KernelFlow final : public Flow {
 public:
  KernelFlow(RunLoop& loop, int number, bool sack) {
    for (const char end : {'n', 'f'}) {
      end == 'n' ? veth_lab().enter_near() : veth_lab().enter_far();
      std::ofstream("/proc/sys/net/ipv4/tcp_sack") << (sack ? 1 : 0);
      int set = -1;
      std::ifstream("/proc/sys/net/ipv4/tcp_sack") >> set;
      must(set == (sack ? 1 : 0), "net.ipv4.tcp_sack");
      const std::string address = "10.79." + std::to_string(number) + (end == 'n' ? ".1/24" : ".2/24");
      VethLab::run("ip address add " + address + " dev " + Link::device(number, end));
    }
    sockaddr_in at{
        .sin_family = AF_INET, .sin_port = 0, .sin_addr = {htonl(Link::address(number, 'f'))}, .sin_zero = {}};
    sockaddr* const name = reinterpret_cast<sockaddr*>(&at);
    socklen_t name_bytes = sizeof at;
    const Descriptor listener = made();
    must(::bind(listener.get(), name, sizeof at) == 0 && ::listen(listener.get(), 1) == 0, "listen");
    must(::getsockname(listener.get(), name, &name_bytes) == 0, "getsockname");
    veth_lab().enter_near();
    near_ = made();
    must(::connect(near_.get(), name, sizeof at) == 0 || errno == EINPROGRESS, "connect");
    const auto accepted = [&] {
      far_ = Descriptor(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      return static_cast<bool>(far_);
    };
    for (const TimePoint deadline = loop.now() + 10s; !accepted();) {
      must(loop.now() < deadline, "accept");
      static_cast<void>(loop.wait(loop.now() + 1ms));
    }
    tcp_info info{};
    socklen_t size = sizeof info;
    must(::getsockopt(near_.get(), IPPROTO_TCP, TCP_INFO, &info, &size) == 0 &&
             ((info.tcpi_options & TCPI_OPT_SACK) != 0) == sack,
         "selective acknowledgements are as net.ipv4.tcp_sack says");
  }

 private:
  std::size_t send(ConstBytes from) override {
    return static_cast<std::size_t>(
        std::max<ssize_t>(0, ::send(near_.get(), from.data(), from.size(), MSG_DONTWAIT | MSG_NOSIGNAL)));
  }
  std::size_t receive(Bytes to) override {
    return static_cast<std::size_t>(std::max<ssize_t>(0, ::recv(far_.get(), to.data(), to.size(), MSG_DONTWAIT)));
  }
  static Descriptor made() {
    Descriptor one(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    must(static_cast<bool>(one), "socket");
    constexpr unsigned clamp = window_bytes;
    must(::setsockopt(one.get(), IPPROTO_TCP, TCP_CONGESTION, "reno", 4) == 0, "TCP_CONGESTION");
    must(::setsockopt(one.get(), IPPROTO_TCP, TCP_WINDOW_CLAMP, &clamp, sizeof clamp) == 0, "TCP_WINDOW_CLAMP");
    return one;
  }

  Descriptor near_;
  Descriptor far_;
};

/// On our own ip, with the kernel's TAP devices below; `protocol` makes connections.
class StackFlow final : public Flow {
 public:
  StackFlow(StreamSet& set, RunLoop& loop, int number, const Protocol& protocol) {
    const auto stream = [&](char end) {
      end == 'n' ? veth_lab().enter_near() : veth_lab().enter_far();
      const std::string host = "10.79." + std::to_string(number) + (end == 'n' ? ".1" : ".2");
      auto one = opened(set, protocol.stack({.driver = "{ kind = 'packet', device = '" + Link::device(number, end) +
                                                       "', mac = '02:00:00:00:00:" + (end == 'n' ? "01" : "02") + "' }",
                                             .modules = "'ip'",
                                             .settings = "ip = { address = '" + host + "/24' }\n",
                                             .address = {}}));
      one->set_waiter(&loop);
      return one;
    };
    const auto at = [&](char end) { return wire::Ipv4Address::from_value(Link::address(number, end)); };
    const wire::TransportAddress address{at('f'), 7000};
    listener_ = bound(stream('f'), address, 1);
    auto called = bound(stream('f'), {at('f'), 0});
    both_ = connected(stream('n'), {at('n'), 0}, *listener_, address, std::move(called));
    both_.caller->stream().set_nonblocking(true);
    both_.called->stream().set_nonblocking(true);
  }

 private:
  std::size_t send(ConstBytes from) override { return both_.caller->t_snd(from, 0).value_or(0); }
  std::size_t receive(Bytes to) override {
    int flags = 0;
    return both_.called->t_rcv(to, flags).value_or(0);
  }

  std::unique_ptr<tli::Endpoint> listener_;
  Connected both_;
};

/// A protocol's, over a link whose errors damage so many packets each.
struct Course {
  std::string name;
  unsigned packets_an_error = 1;

  auto operator<=>(const Course&) const = default;
};

const std::vector<std::string>& names() {
  static const std::vector<std::string> all{"xtp", "tcp", "kernel_sack", "kernel_no_sack"};
  return all;
}

std::unique_ptr<Flow> flow_of(const std::string& name, StreamSet& set, RunLoop& loop, int number) {
  if (name == "xtp") {
    return std::make_unique<StackFlow>(
        set, loop, number,
        Protocol{
            .name = name, .transport = "udp", .module = "xtp", .settings = "packet_bytes = 65000, checksum = false"});
  }
  if (name == "tcp") {
    return std::make_unique<StackFlow>(set, loop, number, Protocol{.name = name, .transport = "tcp"});
  }
  return std::make_unique<KernelFlow>(loop, number, name == "kernel_sack");
}

/// Mbit/s of each arm, one value for each piece of the time.
using Rates = std::map<Course, std::vector<double>>;

Rates rates_with(const std::string& bit_errors, std::size_t pieces, Duration piece) {
  StreamSet set;
  const auto loop = needed(RunLoop::open(set));
  std::vector<Course> arms;
  std::vector<std::unique_ptr<Link>> links;
  std::vector<std::unique_ptr<Flow>> flows;
  for (const unsigned packets : {1U, 3U}) {
    for (const std::string& name : names()) {
      arms.push_back({name, packets});
      const int number = static_cast<int>(arms.size());
      links.push_back(std::make_unique<Link>(
          set, *loop, number,
          "direction = 'up', delay_ms = 0.5, overhead_bytes = 24, rate_mbit = " + std::to_string(rate_mbit) +
              ", queue_bytes = 4194304, bit_errors = " + bit_errors + ", error_messages = " + std::to_string(packets)));
      flows.push_back(flow_of(name, set, *loop, number));
    }
  }
  const auto run_until = [&](TimePoint end) {
    for (TimePoint now = loop->now(); now < end; now = loop->now()) {
      bool moved = false;
      for (const auto& flow : flows) {
        moved = flow->turn() || moved;
      }
      static_cast<void>(loop->wait(moved ? now : std::min(end, now + 1ms)));
    }
  };
  Rates rates;
  run_until(loop->now() + piece / 2);
  for (std::size_t done = 0; done < pieces; ++done) {
    std::vector<std::uint64_t> before;
    for (const auto& flow : flows) {
      before.push_back(flow->received());
    }
    const TimePoint start = loop->now();
    run_until(start + piece);
    const double seconds = std::chrono::duration<double>(loop->now() - start).count();
    for (std::size_t at = 0; at < flows.size(); ++at) {
      rates[arms[at]].push_back(
          std::max(rate_mbit_min, static_cast<double>(flows[at]->received() - before[at]) * 8e-6 / seconds));
    }
  }
  flows.clear();  // before the links that they use
  return rates;
}

/// One figure and its ratios.
struct Figures {
  Figure speed;
  Figure ratio;

  explicit Figures(const std::string& name) : speed(name, "Mbit/s"), ratio(name + "_ratio", "ratio") {}
  void add(const Rates& rates, unsigned packets, const std::string& at) const {
    const std::vector<double>& xtp = rates.at({"xtp", packets});
    for (const std::string& name : names()) {
      const std::vector<double>& own = rates.at({name, packets});
      Samples values;
      Samples ratios;
      for (std::size_t piece = 0; piece < own.size(); ++piece) {
        values.add(own[piece]);
        ratios.add(xtp[piece] / own[piece]);
      }
      speed.add(name + at, packet_mtu, values);
      if (name != "xtp") {
        ratio.add("xtp/" + name + at, packet_mtu, ratios);
      }
    }
  }
};

std::string missing() {
  if (const std::string lab = VethLab::missing(); !lab.empty()) {
    return lab;
  }
  return Descriptor(::open("/dev/net/tun", O_RDWR | O_CLOEXEC)) ? "" : "TAP devices (/dev/net/tun)";
}

TEST(testbed, bit_errors) {
  if (const std::string what = missing(); !what.empty()) {
    GTEST_SKIP() << "this figure needs " << what;
  }
  const Figures single("bit_errors");
  const Figures burst("bit_errors_burst");
  for (const char* const rate :
       full_or_tiny<const char*>({"1e-10", "2e-9", "6e-9", "2e-8", "6e-8", "2e-7"}, {"6e-9"})) {
    const Rates rates = rates_with(rate, tiny() ? 2 : 7, tiny() ? Duration(200ms) : Duration(2s));
    single.add(rates, 1, std::string(" bit_errors=") + rate);
    burst.add(rates, 3, std::string(" bit_errors=") + rate);
  }
}

}  // namespace
}  // namespace sluice::bench
