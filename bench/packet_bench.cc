// SPDX-License-Identifier: Apache-2.0
// What the packet driver costs against the kernel's UDP on the same veth pair: CPU time (user and system, of this
// thread, with the softirq work done in it) per 1400-byte datagram, sent and received by one thread. No GSO, no GRO.
//
// Method. A veth pair between two network namespaces of the program's own (bench/veth_lab.h). Three arms, one
// after the other in each iteration, so that what disturbs the machine disturbs all:
//   kernel    UDP sockets: sendmmsg of 64, recvmmsg of 64
//   block     two DLPI streams on packet with ring = "block": DL_UNITDATA_REQ of 1428 bytes (room for the IP and UDP
//             headers) in batches of 64, each made and freed; DL_UNITDATA_IND received and freed
//   frame     likewise, with ring = "frame"
// Payload bytes are neither made nor looked at in any arm, but for the copies that kernel and driver make. The driver's
// sockets stay open in the kernel's turn and filter its frames away, at some per cent of its cost (stack_bench, which
// compares the whole, opens and closes them). A datagram that got lost counts as not done. Reported: each arm's median
// in ns per datagram, and the median of the ratios `messages per CPU second, driver over kernel` (block_over_kernel,
// frame_over_kernel). Precision: some per cent; run with --benchmark_min_time=10 for quotable numbers.
//
// small_datagrams: the same with 64-byte datagrams, and with xdp: what sending and receiving a message costs, whatever
// is in it. Arms: kernel, packet (ring = "block"), generic and native (xdp in these modes; veth has no zero copy).
// xdp's arms each have a veth pair of their own, since an XDP program takes every frame of its EtherType. It takes
// root, and reports no figures without. Reported: as above, messages per CPU second over the kernel's, and xdp's over
// packet's.
//
// receive_path/SIZE: what receiving costs on a layered and on a fused path, from the ring to the program's buffer:
// packet (ring = "block"), ip, udp, timod, t_rcvudata of SIZE bytes. UDP/IP datagrams made beforehand are sent in
// windows of 1024, then received; only receiving counts. Arms, one after the other in each iteration, each with sockets
// that live for its turn only, its first windows not counted:
//   layered   each frame copied from the ring, checked, copied to the buffer
//   copied    fused, each frame copied from the ring, then checked and copied in one pass
//   lent      fused, frames of all sizes shown in the ring
// Reported: medians of ns of CPU time per datagram, and the medians of the ratios layered over lent (datagrams per CPU
// second, fused relative to layered) and copied over lent (lending pays where it is above 1).

#include <arpa/inet.h>
#include <benchmark/benchmark.h>
#include <bpf/bpf.h>
#include <linux/bpf.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "apps/common/registry.h"
#include "base/contract.h"
#include "bench/samples.h"
#include "bench/veth_lab.h"
#include "dlpi/link_stream.h"
#include "dlpi/packet.h"
#include "dlpi/xdp.h"
#include "stack/core/chain.h"
#include "stack/wire/dlpi.h"
#include "stack/wire/ethernet.h"
#include "stack/wire/ipv4.h"
#include "stack/wire/tpi.h"
#include "stack/wire/udp.h"
#include "tli/endpoint.h"

namespace sluice::dlpi {
namespace {

using bench::must;
using bench::Samples;
using bench::thread_cpu_ns;
using bench::VethLab;

constexpr std::size_t datagram_bytes = 1400;
constexpr std::size_t small_bytes = 64;
constexpr std::size_t batch = 64;
constexpr std::size_t window = 16 * batch;  // datagrams under way at once, at most: the ring holds them
constexpr std::size_t windows_per_round = 8;
constexpr std::uint16_t sap = 0x9000;  // not IP, so that the kernel's stack leaves the frames alone
constexpr std::uint16_t port = 7000;

/// Sockets of the kernel, one in each namespace.
class KernelArm {
 public:
  explicit KernelArm(const VethLab& lab, std::size_t bytes = datagram_bytes) : memory_(batch * bytes) {
    lab.enter_far();
    receiver_ = Descriptor(::socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0));
    const sockaddr_in to = address("10.77.0.2");
    must(::bind(receiver_.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0, "bind");
    lab.enter_near();
    sender_ = Descriptor(::socket(AF_INET, SOCK_DGRAM, 0));
    must(::connect(sender_.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0, "connect");
    for (std::size_t at = 0; at < batch; ++at) {
      pieces_[at] = {memory_.data() + at * bytes, bytes};
      headers_[at].msg_hdr.msg_iov = &pieces_[at];
      headers_[at].msg_hdr.msg_iovlen = 1;
    }
  }

  void send() { must(::sendmmsg(sender_.get(), headers_.data(), batch, 0) == static_cast<int>(batch), "sendmmsg"); }
  std::size_t receive() {
    const int got = ::recvmmsg(receiver_.get(), headers_.data(), batch, 0, nullptr);
    return got < 0 ? 0 : static_cast<std::size_t>(got);
  }
  [[nodiscard]] int descriptor() const { return receiver_.get(); }

 private:
  static sockaddr_in address(const char* text) {
    sockaddr_in result{};
    result.sin_family = AF_INET;
    result.sin_port = htons(port);
    inet_pton(AF_INET, text, &result.sin_addr);
    return result;
  }

  Descriptor sender_;
  Descriptor receiver_;
  std::vector<std::byte> memory_;
  std::array<iovec, batch> pieces_{};
  std::array<mmsghdr, batch> headers_{};
};

/// Counts what comes up, and frees it.
class CountingHead final : public Module {
 public:
  CountingHead() : Module("head") {}
  void rput(Batch&& messages) override { received += messages.size(); }

  std::size_t received = 0;
};

using DeviceOpener = std::function<Result<std::shared_ptr<Link>>(StreamSet&, const char* device)>;

DeviceOpener on_packet(PacketRing::Kind ring) {
  return [ring](StreamSet& set, const char* device) {
    PacketLink::Options options;
    options.ring = ring;
    return PacketLink::open(set, device, options);
  };
}

DeviceOpener on_xdp(XdpLink::Mode mode) {
  return [mode](StreamSet& set, const char* device) {
    XdpLink::Options options;
    options.mode = mode;
    return XdpLink::open(set, device, options);
  };
}

/// A stream on a driver.
class DriverEnd {
 public:
  DriverEnd(StreamSet& set, const char* device, const DeviceOpener& open_device) : chain_(set, head_) {
    const std::size_t others = set.sources().size();
    const LinkOpener opener = [&](StreamSet& own, std::uint32_t) { return open_device(own, device); };
    const Status opened = chain_.open_driver(std::make_unique<LinkStream>("bench", LinkStream::Style::one, opener));
    must(opened.has_value(), opened ? "" : opened.error().text.c_str());
    SLUICE_REQUIRE(others < set.sources().size());
    device_ = set.sources()[others];  // drivers first add what they receive from
    Message request = Message::allocate(set.pool(), wire::dlpi::BindReq::encoded_size_max, 0, MessageType::proto);
    const wire::dlpi::BindReq bind{.sap = sap};
    static_cast<void>(bind.encode(request.append(wire::dlpi::BindReq::encoded_size_max)));
    head_.write_queue().put_next(std::move(request));
    head_.received = 0;
  }

  void put(Batch requests) { head_.write_queue().put_next(std::move(requests)); }
  /// What has come since this was last asked.
  std::size_t take_received() { return std::exchange(head_.received, 0); }
  Link& link() { return *static_cast<LinkStream&>(chain_.driver()).link(); }
  EventSource& device() { return *device_; }

 private:
  EventSource* device_ = nullptr;
  CountingHead head_;
  Chain chain_;
};

/// The driver at both ends.
class DriverArm {
 public:
  DriverArm(const VethLab& lab, const DeviceOpener& opener, std::size_t bytes = datagram_bytes)
      : packet_bytes_(bytes + 28) {
    lab.enter_far();
    receiver_ = std::make_unique<DriverEnd>(set_, "far", opener);
    lab.enter_near();
    sender_ = std::make_unique<DriverEnd>(set_, "near", opener);
    to_ = {receiver_->link().address(), sap};
  }

  void send() {
    Batch requests;
    for (std::size_t at = 0; at < batch; ++at) {
      requests.push(request());
    }
    sender_->put(std::move(requests));
  }
  std::size_t receive() {
    receiver_->device().on_readable();
    return receiver_->take_received();
  }
  [[nodiscard]] int descriptor() const { return receiver_->device().descriptor(); }

 private:
  Message request() {
    using wire::dlpi::UnitdataReq;
    Message message = Message::allocate(set_.pool(), UnitdataReq::encoded_size_max, 0, MessageType::proto);
    static_cast<void>(UnitdataReq{to_, {}}.encode(message.append(UnitdataReq::encoded_size_max)));
    Message data = Message::allocate(set_.pool(), packet_bytes_, wire::EthernetHeader::size);
    static_cast<void>(data.append(packet_bytes_));
    message.link(std::move(data));
    return message;
  }

  std::size_t packet_bytes_;
  StreamSet set_;
  wire::dlpi::LinkAddress to_;
  std::unique_ptr<DriverEnd> sender_;
  std::unique_ptr<DriverEnd> receiver_;
};

/// CPU nanoseconds per datagram that arrived.
template <class Arm>
double round_of(Arm& arm) {
  const double start = thread_cpu_ns();
  std::size_t received = 0;
  for (std::size_t turn = 0; turn < windows_per_round; ++turn) {
    std::size_t missing = window;
    const auto receive_all = [&] {
      for (std::size_t got = arm.receive(); got > 0; got = arm.receive()) {
        missing -= std::min(got, missing);
      }
    };
    for (std::size_t sent = 0; sent < window; sent += batch) {
      arm.send();
      receive_all();  // a kernel socket's buffer holds no more than a batch
    }
    pollfd wait{arm.descriptor(), POLLIN, 0};
    while (missing > 0 && ::poll(&wait, 1, 20) > 0) {  // what is not there after 20 ms is lost
      receive_all();
    }
    received += window - missing;
  }
  return (thread_cpu_ns() - start) / static_cast<double>(std::max<std::size_t>(1, received));
}

/// First of all: the others leave the namespaces in which programs can be loaded.
void small_datagrams(benchmark::State& state) {
  constexpr unsigned entry_bytes = sizeof(std::uint32_t);
  const Descriptor may_load(::bpf_map_create(BPF_MAP_TYPE_XSKMAP, "probe", entry_bytes, entry_bytes, 1, nullptr));
  if (!may_load) {
    state.SkipWithError("XDP takes CAP_BPF outside of all user namespaces: run as root");
    return;
  }
  static const VethLab plain_lab(VethLab::Rights::system);
  static const VethLab generic_lab(VethLab::Rights::system);
  static const VethLab native_lab(VethLab::Rights::system);
  static KernelArm kernel(plain_lab, small_bytes);
  static DriverArm packet(plain_lab, on_packet(PacketRing::Kind::by_block), small_bytes);
  static DriverArm generic(generic_lab, on_xdp(XdpLink::Mode::generic), small_bytes);
  static DriverArm native(native_lab, on_xdp(XdpLink::Mode::native), small_bytes);
  std::array<Samples, 4> costs;
  std::array<Samples, 5> ratios;
  for ([[maybe_unused]] auto step : state) {
    const std::array<double, 4> cost{round_of(kernel), round_of(packet), round_of(generic), round_of(native)};
    for (std::size_t arm = 0; arm < cost.size(); ++arm) {
      costs[arm].add(cost[arm]);
    }
    ratios[0].add(cost[0] / cost[1]);
    ratios[1].add(cost[0] / cost[2]);
    ratios[2].add(cost[0] / cost[3]);
    ratios[3].add(cost[1] / cost[2]);
    ratios[4].add(cost[1] / cost[3]);
  }
  state.counters["kernel_ns"] = costs[0].median();
  state.counters["packet_ns"] = costs[1].median();
  state.counters["generic_ns"] = costs[2].median();
  state.counters["native_ns"] = costs[3].median();
  state.counters["rounds"] = static_cast<double>(costs[0].size());
  state.counters["packet_over_kernel"] = ratios[0].median();
  state.counters["generic_over_kernel"] = ratios[1].median();
  state.counters["native_over_kernel"] = ratios[2].median();
  state.counters["generic_over_packet"] = ratios[3].median();
  state.counters["native_over_packet"] = ratios[4].median();
}
BENCHMARK(small_datagrams)->Unit(benchmark::kMillisecond)->MeasureProcessCPUTime();

void packet_against_kernel(benchmark::State& state) {
  static const VethLab lab;
  static KernelArm kernel(lab);
  static DriverArm block(lab, on_packet(PacketRing::Kind::by_block));
  static DriverArm frame(lab, on_packet(PacketRing::Kind::by_frame));
  Samples kernel_ns;
  Samples block_ns;
  Samples frame_ns;
  Samples block_ratios;
  Samples frame_ratios;
  for ([[maybe_unused]] auto step : state) {
    const double kernel_cost = round_of(kernel);
    const double block_cost = round_of(block);
    const double frame_cost = round_of(frame);
    kernel_ns.add(kernel_cost);
    block_ns.add(block_cost);
    frame_ns.add(frame_cost);
    block_ratios.add(kernel_cost / block_cost);
    frame_ratios.add(kernel_cost / frame_cost);
  }
  state.counters["kernel_ns"] = kernel_ns.median();
  state.counters["block_ns"] = block_ns.median();
  state.counters["frame_ns"] = frame_ns.median();
  state.counters["rounds"] = static_cast<double>(kernel_ns.size());
  state.counters["block_over_kernel"] = block_ratios.median();
  state.counters["frame_over_kernel"] = frame_ratios.median();
}
BENCHMARK(packet_against_kernel)->Unit(benchmark::kMillisecond)->MeasureProcessCPUTime();

// ---- Layered against fused ----

/// A stack at the far end, which receives what the near end's driver sends.
class PathArm {
 public:
  PathArm(const VethLab& lab, ProcessingMode mode, std::size_t lent_bytes_min, std::size_t size) : buffer_(size) {
    lab.enter_far();
    const LinkOpener opener = [&](StreamSet& own, std::uint32_t) {
      PacketLink::Options options;
      options.address = mac;
      options.lent_bytes_min = lent_bytes_min;
      return PacketLink::open(own, "far", options);
    };
    auto driver = std::make_unique<LinkStream>("packet", LinkStream::Style::one, opener);
    link_stream_ = driver.get();
    std::unique_ptr<Stream> stream = std::move(Stream::open(set_, std::move(driver)).value());
    stream->set_mode(mode);
    stream->set_nonblocking(true);
    Parameters ip;
    ip.set("address", std::vector<std::string>{"10.78.0.2/24"});
    push(*stream, "ip", ip);
    push(*stream, "udp", {});
    push(*stream, "timod", {});
    endpoint_ = std::move(tli::Endpoint::t_open(std::move(stream), nullptr).value());
    std::array<std::byte, 8> name{};
    wire::TransportAddress{local, port}.encode(name);
    const tli::t_bind bind{.addr = {name.size(), name.size(), name.data()}};
    SLUICE_REQUIRE(endpoint_->t_bind(&bind, nullptr).has_value());
    lab.enter_near();
    sender_ = std::make_unique<DriverEnd>(sending_set_, "near", on_packet(PacketRing::Kind::by_block));
    packet_.resize(size + wire::Ipv4Header::size + wire::UdpHeader::size);
    wire::Ipv4Header header;
    header.payload_length = static_cast<std::uint16_t>(wire::UdpHeader::size + size);
    header.protocol = wire::protocol_udp;
    header.source = remote;
    header.destination = local;
    header.emit(packet_);
    wire::UdpHeader udp{
        .source_port = port, .destination_port = port, .payload_length = static_cast<std::uint16_t>(size)};
    udp.checksum = wire::udp_checksum_of(wire::udp_sum(remote, local, udp));  // the payload is zeros
    udp.emit(Bytes(packet_).subspan(wire::Ipv4Header::size));
  }

  /// ns per datagram of receiving.
  double round() {
    static_cast<void>(window_cost());
    static_cast<void>(window_cost());
    double total = 0;
    for (std::size_t turn = 0; turn < windows_per_round; ++turn) {
      total += window_cost();
    }
    return total / (windows_per_round * window);
  }

 private:
  static constexpr wire::MacAddress mac{{0x02, 0, 0, 0, 0, 0x22}};
  static constexpr wire::Ipv4Address local{{10, 78, 0, 2}};
  static constexpr wire::Ipv4Address remote{{10, 78, 0, 1}};

  void push(Stream& stream, const char* name, const Parameters& parameters) {
    static const Registry registry = standard_registry();
    SLUICE_REQUIRE(stream.push(std::move(registry.find(name)->make(set_, parameters).value())).has_value());
  }

  double window_cost() {
    using wire::dlpi::UnitdataReq;
    for (std::size_t sent = 0; sent < window; sent += batch) {
      Batch requests;
      for (std::size_t at = 0; at < batch; ++at) {
        Message message = Message::allocate(sending_set_.pool(), UnitdataReq::encoded_size_max, 0, MessageType::proto);
        static_cast<void>(
            UnitdataReq{{mac, wire::ethertype_ipv4}, {}}.encode(message.append(UnitdataReq::encoded_size_max)));
        message.link(Message::copy_of(sending_set_.pool(), packet_, wire::EthernetHeader::size));
        requests.push(std::move(message));
      }
      sender_->put(std::move(requests));
    }
    const double start = thread_cpu_ns();
    auto& link = static_cast<PacketLink&>(*link_stream_->link());
    pollfd wait{link.descriptor(), POLLIN, 0};
    std::size_t received = 0;
    while (received < window) {
      must(::poll(&wait, 1, 500) > 0, "datagrams were lost; poll");
      link.on_readable();
      received += take_units();
    }
    return thread_cpu_ns() - start;
  }

  std::size_t take_units() {
    std::array<std::byte, 8> name{};
    for (std::size_t count = 0;; ++count) {
      tli::t_unitdata unit{
          .addr = {name.size(), 0, name.data()}, .opt = {}, .udata = {buffer_.size(), 0, buffer_.data()}};
      int flags = 0;
      if (!endpoint_->t_rcvudata(unit, flags)) {
        return count;
      }
      SLUICE_REQUIRE(unit.udata.len == buffer_.size());
    }
  }

  StreamSet set_;
  StreamSet sending_set_;
  std::vector<std::byte> buffer_;
  std::vector<std::byte> packet_;
  LinkStream* link_stream_ = nullptr;
  std::unique_ptr<tli::Endpoint> endpoint_;
  std::unique_ptr<DriverEnd> sender_;
};

void receive_path(benchmark::State& state) {
  static const VethLab lab;
  constexpr std::size_t never = std::numeric_limits<std::size_t>::max();
  const auto size = static_cast<std::size_t>(state.range(0));
  Samples layered_ns;
  Samples copied_ns;
  Samples lent_ns;
  Samples layered_over_lent;
  Samples copied_over_lent;
  for ([[maybe_unused]] auto step : state) {
    const double layered = PathArm(lab, ProcessingMode::layered, never, size).round();
    const double copied = PathArm(lab, ProcessingMode::fused, never, size).round();
    const double lent = PathArm(lab, ProcessingMode::fused, 0, size).round();
    layered_ns.add(layered);
    copied_ns.add(copied);
    lent_ns.add(lent);
    layered_over_lent.add(layered / lent);
    copied_over_lent.add(copied / lent);
  }
  state.counters["layered_ns"] = layered_ns.median();
  state.counters["copied_ns"] = copied_ns.median();
  state.counters["lent_ns"] = lent_ns.median();
  state.counters["rounds"] = static_cast<double>(lent_ns.size());
  state.counters["layered_over_lent"] = layered_over_lent.median();
  state.counters["layered_over_lent_25"] = layered_over_lent.quantile(0.25);
  state.counters["layered_over_lent_75"] = layered_over_lent.quantile(0.75);
  state.counters["copied_over_lent"] = copied_over_lent.median();
}
BENCHMARK(receive_path)
    ->Arg(64)
    ->Arg(200)
    ->Arg(400)
    ->Arg(700)
    ->Arg(1472)
    ->Unit(benchmark::kMillisecond)
    ->MeasureProcessCPUTime();

}  // namespace
}  // namespace sluice::dlpi

BENCHMARK_MAIN();
