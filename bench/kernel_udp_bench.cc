// SPDX-License-Identifier: Apache-2.0
// What kernel_udp costs over the bare system calls: CPU time (user and system, of this thread) per 1400-byte datagram
// over loopback, sent and received by one thread.
//
// Method. Four arms, one after the other in each iteration, so that what disturbs the machine disturbs all of them:
//   bare          sendmmsg of 64, recvmmsg of 64, nothing else
//   bare_gso      sendmmsg of runs of 46 (UDP_SEGMENT), recvmmsg with UDP_GRO
//   module        two kernel_udp streams in one set under a run loop, gso and gro off
//   module_gso    the same, on
// The module's arms make a T_UNITDATA_REQ for each datagram and free each T_UNITDATA_IND; payload bytes are neither
// made nor looked at in any arm. Reported: each arm's median in ns per datagram, its quartile distance, and the ratios
// of messages per CPU second, module over bare. Precision: a few per cent; run with --benchmark_min_time=10 for
// quotable numbers.

#include <benchmark/benchmark.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <ctime>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/contract.h"
#include "edge/run_loop.h"
#include "stack/core/chain.h"
#include "stack/wire/tpi.h"
#include "tpi/kernel_udp.h"

namespace sluice::tpi {
namespace {

constexpr std::size_t datagram_bytes = 1400;
constexpr std::size_t run_datagrams = UdpSender::run_bytes_max / datagram_bytes;
constexpr std::size_t window = 2 * run_datagrams;  // datagrams under way at once: what any receive buffer holds
constexpr std::size_t windows_per_round = 64;
constexpr std::size_t call_entries = 64;
constexpr std::size_t slot_bytes = 65536;

double thread_cpu_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
}

UdpSocket::Options offloads(bool on) {
  UdpSocket::Options options;
  options.gso = options.gro = on;
  return options;
}

UdpSocket bound_socket(bool offload) {
  Result<UdpSocket> socket = UdpSocket::bind({wire::Ipv4Address{{127, 0, 0, 1}}, 0}, offloads(offload));
  SLUICE_REQUIRE(socket.has_value());
  return std::move(*socket);
}

/// The bare system calls. `segments` datagrams go into one entry of sendmmsg.
class Bare {
 public:
  explicit Bare(bool offload)
      : segments_(offload ? run_datagrams : 1),
        sender_(bound_socket(offload)),
        receiver_(bound_socket(offload)),
        destination_(*sender_.socket_address(receiver_.local())) {
    prepare_sending();
    prepare_receiving();
  }

  void move_window() {
    for (std::size_t sent = 0; sent < window;) {
      const std::size_t entries = std::min(call_entries, (window - sent) / segments_);
      const int taken = ::sendmmsg(sender_.descriptor(), out_.data(), static_cast<unsigned>(entries), 0);
      SLUICE_REQUIRE(taken > 0);
      sent += static_cast<std::size_t>(taken) * segments_;
    }
    for (std::size_t bytes = 0; bytes < window * datagram_bytes;) {
      for (mmsghdr& entry : in_) {
        entry.msg_hdr.msg_controllen = sizeof controls_[0];
      }
      const int got = ::recvmmsg(receiver_.descriptor(), in_.data(), call_entries, 0, nullptr);
      SLUICE_REQUIRE(got > 0);
      for (std::size_t i = 0; i < static_cast<std::size_t>(got); ++i) {
        bytes += in_[i].msg_len;
      }
    }
  }

 private:
  struct alignas(cmsghdr) Control {
    std::array<std::byte, 64> bytes;
  };

  void prepare_sending() {
    payload_iovecs_.assign(segments_, {payload_.data(), datagram_bytes});
    for (mmsghdr& entry : out_) {
      entry.msg_hdr.msg_name = &destination_.generic;
      entry.msg_hdr.msg_namelen = destination_.size;
      entry.msg_hdr.msg_iov = payload_iovecs_.data();
      entry.msg_hdr.msg_iovlen = segments_;
    }
    const auto segment = static_cast<int>(segments_ > 1 ? datagram_bytes : 0);
    SLUICE_REQUIRE(segment == 0 ||
                   ::setsockopt(sender_.descriptor(), IPPROTO_UDP, UDP_SEGMENT, &segment, sizeof segment) == 0);
  }

  void prepare_receiving() {
    for (std::size_t i = 0; i < call_entries; ++i) {
      slot_iovecs_[i] = {&slots_[i * slot_bytes], slot_bytes};
      in_[i].msg_hdr.msg_iov = &slot_iovecs_[i];
      in_[i].msg_hdr.msg_iovlen = 1;
      in_[i].msg_hdr.msg_control = &controls_[i];
    }
  }

  std::size_t segments_;
  UdpSocket sender_;
  UdpSocket receiver_;
  SocketAddress destination_;
  std::array<std::byte, datagram_bytes> payload_{};
  std::vector<iovec> payload_iovecs_;
  std::vector<std::byte> slots_ = std::vector<std::byte>(call_entries * slot_bytes);
  std::array<iovec, call_entries> slot_iovecs_{};
  std::array<Control, call_entries> controls_{};
  std::array<mmsghdr, call_entries> out_{};
  std::array<mmsghdr, call_entries> in_{};
};

/// A stream head that only counts.
class CountingHead final : public Module {
 public:
  CountingHead() : Module("head") {}
  void rput(Batch&& batch) override { received += batch.size(); }
  std::size_t received = 0;
};

/// Two kernel_udp streams in one set.
class Streams {
 public:
  explicit Streams(bool offload) : loop_(std::move(RunLoop::open(set_)).value()) {
    for (Chain* chain : {&sender_, &receiver_}) {
      SLUICE_REQUIRE(chain->open_driver(std::make_unique<KernelUdp>(set_, offloads(offload))).has_value());
      wire::TransportAddress local{wire::Ipv4Address{{127, 0, 0, 1}}, 0};
      std::array<std::byte, 8> address{};
      local.encode(address);
      put_down(*chain, wire::tpi::BindReq{.address = address, .connect_indications = 0});
    }
    SLUICE_REQUIRE(set_.sources().size() == 2);
    SocketAddress bound;
    bound.size = sizeof bound.v6;
    SLUICE_REQUIRE(::getsockname(set_.sources()[1]->descriptor(), &bound.generic, &bound.size) == 0);
    transport_address(bound).encode(destination_);
    payload_ = Message::copy_of(set_.pool(), std::vector<std::byte>(datagram_bytes));
  }

  void move_window() {
    Batch batch;
    for (std::size_t i = 0; i < window; ++i) {
      batch.push(request());
    }
    sender_head_.write_queue().put_next(std::move(batch));
    const std::size_t all = receiver_head_.received + window;
    while (receiver_head_.received < all) {
      SLUICE_REQUIRE(loop_->wait(loop_->now() + std::chrono::seconds(5)));
    }
  }

 private:
  template <class Primitive>
  void put_down(Chain& chain, const Primitive& primitive) {
    Message message = Message::allocate(set_.pool(), primitive.encoded_size(), 0, MessageType::proto);
    primitive.encode(message.append(primitive.encoded_size()));
    chain.head().write_queue().put_next(std::move(message));
  }

  Message request() {
    const wire::tpi::UnitdataReq primitive{.address = destination_, .options = {}};
    Message message = Message::allocate(set_.pool(), primitive.encoded_size(), 0, MessageType::proto);
    primitive.encode(message.append(primitive.encoded_size()));
    message.link(payload_.duplicate());
    return message;
  }

  StreamSet set_;
  std::unique_ptr<RunLoop> loop_;
  Message payload_;
  CountingHead sender_head_;
  CountingHead receiver_head_;
  Chain sender_{set_, sender_head_};
  Chain receiver_{set_, receiver_head_};
  std::array<std::byte, 8> destination_{};
};

template <class Arm>
double ns_per_datagram(Arm& arm) {
  const double start = thread_cpu_ns();
  for (std::size_t i = 0; i < windows_per_round; ++i) {
    arm.move_window();
  }
  return (thread_cpu_ns() - start) / (window * windows_per_round);
}

struct Samples {
  std::vector<double> values;

  [[nodiscard]] double quantile(double fraction) {
    std::sort(values.begin(), values.end());
    return values[static_cast<std::size_t>(fraction * static_cast<double>(values.size() - 1))];
  }
};

void report(benchmark::State& state, const std::string& arm, Samples& samples) {
  state.counters[arm + "_ns"] = samples.quantile(0.5);
  state.counters[arm + "_iqr"] = samples.quantile(0.75) - samples.quantile(0.25);
}

void loopback_1400(benchmark::State& state) {
  Bare bare(false);
  Bare bare_gso(true);
  Streams module(false);
  Streams module_gso(true);
  std::array<Samples, 4> samples;
  for ([[maybe_unused]] auto _ : state) {
    samples[0].values.push_back(ns_per_datagram(bare));
    samples[1].values.push_back(ns_per_datagram(module));
    samples[2].values.push_back(ns_per_datagram(bare_gso));
    samples[3].values.push_back(ns_per_datagram(module_gso));
  }
  report(state, "bare", samples[0]);
  report(state, "module", samples[1]);
  report(state, "bare_gso", samples[2]);
  report(state, "module_gso", samples[3]);
  state.counters["ratio"] = samples[0].quantile(0.5) / samples[1].quantile(0.5);
  state.counters["ratio_gso"] = samples[2].quantile(0.5) / samples[3].quantile(0.5);
}
BENCHMARK(loopback_1400)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace sluice::tpi

BENCHMARK_MAIN();
