// SPDX-License-Identifier: Apache-2.0
// What the whole stack costs: 1400-byte datagrams from user memory to user memory.
//
// veth_1400: our UDP/IP over `packet` against the kernel's, over one veth pair between two network namespaces that the
// program makes for itself (bench/veth_lab.h); no GSO, no GRO but where an arm says so.
//
// Method. Each arm sends datagrams at one end and receives them at the other, in one thread. The datagrams of a window
// are sent, then received, so that the CPU time of both is known apart. CPU time is the thread's, user and system; the
// kernel carries a frame across a veth pair in the sender's system call, as far as the receiving socket's buffer or
// ring, so that part of a receiver's work is in the sender's time: the ratios are of the sum. One round runs every arm
// once, in turn; an arm lives only for its turn, so that no arm's sockets see another's frames. The payload is copied
// from a buffer, as sendmmsg does, and to a buffer, as recvmmsg does; every datagram's number is checked, and a lost
// one fails the benchmark. The rings have ring_bytes: the kernel goes round the whole of a ring, and one that the
// second-level cache does not hold is written and read outside of it. Arms:
//   kernel         a connected UDP socket, sendmmsg of 32; recvmmsg of 32
//   kernel_single  likewise, send and recv of one
//   stack          packet, ip, udp, timod under a run loop; T_UNITDATA_REQ in batches of 32; ring = "block"
//   stack_frame    likewise, with ring = "frame"
//   stack_nosum    as stack, with udp = { checksum = false }
//   stack_shared   as stack, without an Ethernet address of its own: the kernel's IP, which remains on the device, then
//                  looks at each of our frames, too, before it drops it
//   tli            as stack, t_sndudata and t_rcvudata of one
//   batch          as stack, on a fused path, by t_sndmudata and t_rcvmudata of 32. They cross the stack as one, which
//                  is split above the device (offload = false): every frame is alone on the wire
//   batch_shared   as batch, with the device's own Ethernet address
//   whole          as batch, with the driver's default (offload = true): what crosses the stack as one crosses the
//                  device as one, too, and is split where a device on its way asks for it; a veth does not
//   whole_shared   likewise, with the device's own Ethernet address
//   frames         no stack: what any stack over packet sockets pays. Headers are made once; sendmmsg of 32 takes the
//                  payload from the user's memory, and it is copied to the user's memory out of a PacketRing. Nothing
//                  is parsed or summed: no stack's ratio can exceed this arm's
//   frames_shared  likewise, with the device's own Ethernet address, as stack_shared
// Where the arms are not alike, the kernel has it easier: its veth never computes the UDP checksum (it stays
// CHECKSUM_PARTIAL), ours does at both ends; and its sender is connected.
//
// Reported: for each arm the medians of ns per datagram for sending and receiving; for each of ours `ratio`, the median
// over the rounds of messages per CPU second relative to its kernel counterpart (tli: kernel_single; others: kernel),
// with its quartiles; for stack and stack_shared `of_bound`, the median of the same relative to the arm of frames; and
// how many rounds there were, an iteration being one. Precision: some per cent over 9 rounds or
// more, so run with --benchmark_min_time=10 for quotable numbers; ratios hold on a busy machine, nanoseconds do not.
//
// wire_1400: the same stack at both ends of a wire in memory; all of it is ours. The argument is how many null modules
// are pushed on top at each end. Google Benchmark's own repetitions give the spread.

#include <arpa/inet.h>
#include <benchmark/benchmark.h>
#include <linux/if_packet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "apps/common/registry.h"
#include "base/contract.h"
#include "bench/samples.h"
#include "bench/veth_lab.h"
#include "dlpi/packet.h"
#include "dlpi/packet_ring.h"
#include "edge/run_loop.h"
#include "stack/head/stack_file.h"
#include "stack/wire/address.h"
#include "stack/wire/ethernet.h"
#include "stack/wire/ipv4.h"
#include "stack/wire/protocol.h"
#include "stack/wire/tpi.h"
#include "stack/wire/udp.h"
#include "tli/endpoint.h"

namespace sluice::bench {
namespace {

constexpr std::size_t datagram_bytes = 1400;
constexpr std::size_t batch = 32;
constexpr std::size_t ring_bytes = std::size_t{1} << 20;
/// Of a ring by the block: the last block of a window comes late, so the window is long. It takes three blocks
/// of eight; others are for those that a pause of the sender ends early.
constexpr std::size_t long_window = 8 * batch;
constexpr std::size_t datagrams_per_round = 4096;
constexpr std::uint16_t port = 7000;
constexpr Duration silence_max = std::chrono::milliseconds(500);  // what is not there by then is lost

bool readable_in_time(int descriptor) {
  pollfd readable{descriptor, POLLIN, 0};
  return ::poll(&readable, 1, static_cast<int>(silence_max / std::chrono::milliseconds(1))) > 0;
}

/// One way to move datagrams. They are numbered, and come in order.
class Arm {
 public:
  explicit Arm(std::size_t window) : window_(window) {}
  virtual ~Arm() = default;
  Arm(const Arm&) = delete;
  Arm& operator=(const Arm&) = delete;

  /// Datagrams under way at once: what the receiver's buffer or ring holds.
  [[nodiscard]] std::size_t window() const { return window_; }
  /// Sends a batch.
  virtual void send() = 0;
  /// Ends a window's sending.
  virtual void sent() {}
  /// Receives some, waiting if there are none; 0 when none came in time.
  [[nodiscard]] virtual std::size_t receive() = 0;

 protected:
  using Datagram = std::array<std::byte, datagram_bytes>;

  /// The user's memory for the next datagram to send.
  Datagram& fill(std::size_t at) {
    std::memcpy(out_[at].data(), &numbered_, sizeof numbered_);
    ++numbered_;
    return out_[at];
  }
  /// The user's memory for received datagrams.
  Datagram& room(std::size_t at) { return in_[at]; }
  void check(std::size_t at, std::size_t size) {
    std::uint64_t number = 0;
    std::memcpy(&number, in_[at].data(), sizeof number);
    SLUICE_REQUIRE(size == datagram_bytes && number == expected_);
    ++expected_;
  }

 private:
  std::size_t window_;
  std::uint64_t numbered_ = 0;
  std::uint64_t expected_ = 0;
  std::vector<Datagram> out_ = std::vector<Datagram>(batch);
  std::vector<Datagram> in_ = std::vector<Datagram>(batch);
};

// ---- The kernel's UDP ----

class KernelArm : public Arm {
 public:
  explicit KernelArm(const VethLab& lab) : Arm(2 * batch) {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(port);
    ::inet_pton(AF_INET, "10.77.0.2", &to.sin_addr);
    lab.enter_far();
    receiver_ = Descriptor(::socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    must(::bind(receiver_.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0, "bind");
    lab.enter_near();
    sender_ = Descriptor(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    must(::connect(sender_.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0, "connect");
    for (std::size_t at = 0; at < batch; ++at) {
      in_headers_[at].msg_hdr.msg_iov = &in_pieces_[at];
      out_headers_[at].msg_hdr.msg_iov = &out_pieces_[at];
      in_headers_[at].msg_hdr.msg_iovlen = out_headers_[at].msg_hdr.msg_iovlen = 1;
      in_pieces_[at] = {room(at).data(), datagram_bytes};
    }
  }

  void send() override {
    for (std::size_t at = 0; at < batch; ++at) {
      out_pieces_[at] = {fill(at).data(), datagram_bytes};
    }
    must(::sendmmsg(sender_.get(), out_headers_.data(), batch, 0) == static_cast<int>(batch), "sendmmsg");
  }

  std::size_t receive() override {
    const int got = ::recvmmsg(receiver_.get(), in_headers_.data(), batch, 0, nullptr);
    if (got < 0) {
      return readable_in_time(receiver_.get()) ? receive() : 0;
    }
    for (std::size_t at = 0; at < static_cast<std::size_t>(got); ++at) {
      check(at, in_headers_[at].msg_len);
    }
    return static_cast<std::size_t>(got);
  }

 protected:
  Descriptor sender_;
  Descriptor receiver_;

 private:
  std::array<iovec, batch> out_pieces_{};
  std::array<iovec, batch> in_pieces_{};
  std::array<mmsghdr, batch> out_headers_{};
  std::array<mmsghdr, batch> in_headers_{};
};

class KernelSingleArm final : public KernelArm {
 public:
  using KernelArm::KernelArm;

  void send() override {
    for (std::size_t at = 0; at < batch; ++at) {
      must(::send(sender_.get(), fill(at).data(), datagram_bytes, 0) == ssize_t{datagram_bytes}, "send");
    }
  }
  std::size_t receive() override {
    const ssize_t got = ::recv(receiver_.get(), room(0).data(), datagram_bytes, 0);
    if (got < 0) {
      return readable_in_time(receiver_.get()) ? receive() : 0;
    }
    check(0, static_cast<std::size_t>(got));
    return 1;
  }
};

// ---- Ours ----

/// One end of ours: a transport endpoint at 10.78.0.`number`, which sends to the other one; `number` is 1 or 2.
class End {
 public:
  End(StreamSet& set, unsigned number, const std::string& driver, const std::string& checksum, const std::string& mode,
      std::size_t nulls) {
    std::unique_ptr<Stream> stream = open(set, stack_of(number, driver, checksum, mode, nulls));
    stream->set_nonblocking(true);
    endpoint_ = std::move(tli::Endpoint::t_open(std::move(stream), nullptr).value());
    encode_address(number, local_);
    encode_address(3 - number, peer_);
    const tli::t_bind bind{.addr = {local_.size(), local_.size(), local_.data()}};
    SLUICE_REQUIRE(endpoint_->t_bind(&bind, nullptr).has_value());
  }

  [[nodiscard]] tli::Endpoint& endpoint() { return *endpoint_; }
  [[nodiscard]] Stream& stream() { return endpoint_->stream(); }

  /// A T_UNITDATA_REQ with a copy of `payload`.
  [[nodiscard]] Message request(ConstBytes payload) {
    const wire::tpi::UnitdataReq primitive{.address = peer_, .options = {}};
    Message message = Message::allocate(stream().set().pool(), primitive_bytes, 0, MessageType::proto);
    Message data = stream().allocate(payload.size());
    SLUICE_REQUIRE(message && data);
    message.first().wptr += primitive.encode({message.first().wptr, primitive_bytes});
    std::memcpy(data.append(payload.size()).data(), payload.data(), payload.size());
    message.link(std::move(data));
    return message;
  }
  /// For t_sndudata().
  [[nodiscard]] tli::t_unitdata unit(Bytes payload) {
    return {.addr = {peer_.size(), peer_.size(), peer_.data()},
            .opt = {},
            .udata = {payload.size(), payload.size(), payload.data()}};
  }

 private:
  using AddressBytes = std::array<std::byte, 8>;
  static constexpr std::size_t primitive_bytes = 64;  // of a request; the modules below write theirs over it

  static std::string stack_of(unsigned number, const std::string& driver, const std::string& checksum,
                              const std::string& mode, std::size_t nulls) {
    std::string text = "[stack.end]\nmode = '" + mode + "'\ndriver = { " + driver + " }\nip = { address = '10.78.0." +
                       std::to_string(number) + "/24' }\nudp = { checksum = " + checksum + " }\npush = ['ip', 'udp'";
    for (std::size_t at = 0; at < nulls; ++at) {
      text += ", 'null:" + std::to_string(at) + "'";
    }
    return text + ", 'timod']\n";
  }

  static std::unique_ptr<Stream> open(StreamSet& set, const std::string& text) {
    static const Registry registry = standard_registry();
    const Result<StackFile> file = StackFile::parse(text, "stack_bench", registry);
    SLUICE_REQUIRE(file.has_value());
    Result<std::unique_ptr<Stream>> stream = open_stack(set, file->stacks().front());
    if (!stream) {
      std::fprintf(stderr, "%s\n", stream.error().text.c_str());
      std::exit(1);
    }
    return std::move(*stream);
  }

  static void encode_address(unsigned number, AddressBytes& out) {
    const auto host = static_cast<std::uint8_t>(number);
    wire::TransportAddress{wire::Ipv4Address{{10, 78, 0, host}}, port}.encode(out);
  }

  std::unique_ptr<tli::Endpoint> endpoint_;
  AddressBytes local_{};
  AddressBytes peer_{};
};

/// One end with its own stream set and run loop, as a program has it.
class Host {
 public:
  Host(unsigned number, const std::string& driver, const std::string& checksum, const std::string& mode)
      : loop_(std::move(RunLoop::open(set_)).value()), end_(set_, number, driver, checksum, mode, 0) {}

  [[nodiscard]] End& end() { return end_; }
  /// Lets the run loop work, waiting at most so long; false when nothing happened.
  bool run(Duration time_max) { return loop_->wait(loop_->now() + time_max); }

 private:
  StreamSet set_;
  std::unique_ptr<RunLoop> loop_;
  End end_;
};

/// Over packet, in batches.
class StackArm : public Arm {
 public:
  struct Options {
    const char* ring = "block";
    const char* checksum = "true";
    bool own_address = true;
    const char* mode = "layered";
    const char* offload = "true";
  };

  StackArm(const VethLab& lab, const Options& options) : Arm(window_of(options.ring)) {
    lab.enter_far();
    far_ = std::make_unique<Host>(2, driver("far", options, "02:00:00:00:00:02"), options.checksum, options.mode);
    lab.enter_near();
    near_ = std::make_unique<Host>(1, driver("near", options, "02:00:00:00:00:01"), options.checksum, options.mode);
    introduce();
  }

  void send() override {
    Batch requests;
    for (std::size_t at = 0; at < batch; ++at) {
      requests.push(near_->end().request(fill(at)));
    }
    SLUICE_REQUIRE(near_->end().stream().can_put() && near_->end().stream().send(std::move(requests)).has_value());
  }
  /// A program that sends also has timers and may be sent something.
  void sent() override { static_cast<void>(near_->run(Duration::zero())); }

  std::size_t receive() override {
    std::size_t count = take();
    while (count == 0 && far_->run(silence_max)) {
      count = take();
    }
    return count;
  }

 protected:
  std::unique_ptr<Host> far_;
  std::unique_ptr<Host> near_;

 private:
  /// What has arrived, without waiting.
  [[nodiscard]] virtual std::size_t take() { return take_waiting(); }

  static std::size_t window_of(std::string_view ring) { return ring == "block" ? long_window : 2 * batch; }

  static std::string driver(const std::string& device, const Options& options, const std::string& mac) {
    return "kind = 'packet', device = '" + device + "', ring = '" + options.ring +
           "', ring_bytes = " + std::to_string(ring_bytes) + ", offload = " + options.offload +
           (options.own_address ? ", mac = '" + mac + "'" : "");
  }

  /// The first datagram finds the neighbour. Both ends must run for that.
  void introduce() {
    SLUICE_REQUIRE(near_->end().stream().send(Batch(near_->end().request(fill(0)))).has_value());
    for (int tries = 0; take_waiting() == 0; ++tries) {
      SLUICE_REQUIRE(tries < 1000);
      static_cast<void>(far_->run(std::chrono::milliseconds(1)));
      static_cast<void>(near_->run(std::chrono::milliseconds(1)));
    }
  }

  std::size_t take_waiting() {
    std::size_t count = 0;
    while (const Message message = far_->end().stream().receive()) {
      SLUICE_REQUIRE(message.copy_data_to(0, room(0)));
      check(0, message.data_size());
      ++count;
    }
    return count;
  }
};

/// Over packet, by the calls of TLI.
class TliArm final : public StackArm {
 public:
  using StackArm::StackArm;

  void send() override {
    for (std::size_t at = 0; at < batch; ++at) {
      SLUICE_REQUIRE(near_->end().endpoint().t_sndudata(near_->end().unit(fill(at))).has_value());
    }
  }

 private:
  std::size_t take() override {
    for (std::size_t count = 0;; ++count) {
      tli::t_unitdata unit{
          .addr = {sender_.size(), 0, sender_.data()}, .opt = {}, .udata = {datagram_bytes, 0, room(0).data()}};
      int flags = 0;
      if (const auto received = far_->end().endpoint().t_rcvudata(unit, flags); !received) {
        SLUICE_REQUIRE(received.error().t_errno == wire::tpi::TNODATA);
        return count;
      }
      check(0, unit.udata.len);
    }
  }

  std::array<std::byte, wire::TransportAddress::encoded_size_max> sender_{};
};

/// Over packet, by the calls of TLI for many.
class BatchArm final : public StackArm {
 public:
  using StackArm::StackArm;

  void send() override {
    for (std::size_t at = 0; at < batch; ++at) {
      units_[at] = near_->end().unit(fill(at));
    }
    SLUICE_REQUIRE(near_->end().endpoint().t_sndmudata(units_).value() == batch);
  }

 private:
  std::size_t take() override {
    for (std::size_t at = 0; at < batch; ++at) {
      units_[at] = {.addr = {senders_[at].size(), 0, senders_[at].data()},
                    .opt = {},
                    .udata = {datagram_bytes, 0, room(at).data()}};
    }
    int flags = 0;
    const auto received = far_->end().endpoint().t_rcvmudata(units_, flags);
    SLUICE_REQUIRE(received || received.error().t_errno == wire::tpi::TNODATA);
    for (std::size_t at = 0; at < received.value_or(0); ++at) {
      check(at, units_[at].udata.len);
    }
    return received.value_or(0);
  }

  std::array<tli::t_unitdata, batch> units_{};
  std::array<std::array<std::byte, wire::TransportAddress::encoded_size_max>, batch> senders_{};
};

// ---- Frames alone ----

/// What packet sockets cost under a stack that costs nothing.
class FramesArm final : public Arm {
 public:
  FramesArm(const VethLab& lab, bool own_address) : Arm(long_window) {
    lab.enter_far();
    const dlpi::Interface far = dlpi::find_interface("far").value();
    const wire::MacAddress station = own_address ? wire::MacAddress{{2, 0, 0, 0, 0, 2}} : far.address;
    ring_ = std::move(dlpi::PacketRing::open(far, dlpi::PacketRing::Kind::by_block, ring_bytes).value());
    dlpi::PacketFilterRules rules;
    rules.station = station;
    rules.types = {wire::ethertype_ipv4};
    must(ring_->accept_only(rules).has_value(), "filter");

    lab.enter_near();
    const dlpi::Interface near = dlpi::find_interface("near").value();
    sender_ = Descriptor(::socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0));
    sockaddr_ll from{};
    from.sll_family = AF_PACKET;
    from.sll_ifindex = near.index;
    must(::bind(sender_.get(), reinterpret_cast<const sockaddr*>(&from), sizeof from) == 0, "bind");
    make_headers(station, near.address);
    for (std::size_t at = 0; at < batch; ++at) {
      pieces_[at][0] = {headers_.data(), headers_.size()};
      messages_[at].msg_hdr.msg_iov = pieces_[at].data();
      messages_[at].msg_hdr.msg_iovlen = pieces_[at].size();
    }
  }

  void send() override {
    for (std::size_t at = 0; at < batch; ++at) {
      pieces_[at][1] = {fill(at).data(), datagram_bytes};
    }
    must(::sendmmsg(sender_.get(), messages_.data(), batch, 0) == static_cast<int>(batch), "sendmmsg");
  }

  std::size_t receive() override {
    while (!ring_->readable()) {
      if (!readable_in_time(ring_->descriptor())) {
        return 0;
      }
    }
    std::size_t count = 0;
    for (; count < batch; ++count) {
      const std::optional<dlpi::PacketRing::Frame> frame = ring_->next();
      if (!frame) {
        break;
      }
      const Bytes payload = frame->bytes.subspan(headers_.size());
      std::memcpy(room(0).data(), payload.data(), payload.size());
      check(0, payload.size());
    }
    return count;
  }

 private:
  void make_headers(const wire::MacAddress& to, const wire::MacAddress& from) {
    const Bytes all(headers_);
    wire::EthernetHeader{.destination = to, .source = from, .type = wire::ethertype_ipv4}.emit(all);
    wire::Ipv4Header packet;
    packet.payload_length = static_cast<std::uint16_t>(wire::UdpHeader::size + datagram_bytes);
    packet.protocol = wire::protocol_udp;
    packet.source = {{10, 78, 0, 1}};
    packet.destination = {{10, 78, 0, 2}};
    packet.emit(all.subspan(wire::EthernetHeader::size));
    wire::UdpHeader{.source_port = port, .destination_port = port, .payload_length = std::uint16_t{datagram_bytes}}
        .emit(all.subspan(wire::EthernetHeader::size + wire::Ipv4Header::size));
  }

  static constexpr std::size_t header_bytes =
      wire::EthernetHeader::size + wire::Ipv4Header::size + wire::UdpHeader::size;
  std::unique_ptr<dlpi::PacketRing> ring_;
  Descriptor sender_;
  std::array<std::byte, header_bytes> headers_{};
  std::array<std::array<iovec, 2>, batch> pieces_{};
  std::array<mmsghdr, batch> messages_{};
};

// ---- Rounds ----

/// ns of CPU time per datagram.
struct Cost {
  double sending = 0;
  double receiving = 0;
  [[nodiscard]] double sum() const { return sending + receiving; }
};

/// Adds the cost of one window; false when datagrams were lost.
bool move_window(Arm& arm, Cost& cost) {
  const double start = thread_cpu_ns();
  for (std::size_t sent = 0; sent < arm.window(); sent += batch) {
    arm.send();
  }
  arm.sent();
  const double middle = thread_cpu_ns();
  std::size_t received = 0;
  for (std::size_t got = 1; got > 0 && received < arm.window(); received += got) {
    got = arm.receive();
  }
  cost.sending += (middle - start) / datagrams_per_round;
  cost.receiving += (thread_cpu_ns() - middle) / datagrams_per_round;
  return received == arm.window();
}

/// One arm's turn. The first windows, which warm caches and pools, do not count.
Cost take_turn(Arm& arm) {
  Cost warming;
  Cost cost;
  bool all = true;
  for (std::size_t moved = 0; moved < 2 * datagrams_per_round; moved += arm.window()) {
    all = all && move_window(arm, moved < datagrams_per_round ? warming : cost);
  }
  if (!all) {
    std::fputs("stack_bench: datagrams were lost; the figures would mean nothing\n", stderr);
    std::exit(1);
  }
  return cost;
}

struct Contestant {
  std::string name;
  std::function<std::unique_ptr<Arm>(const VethLab&)> make;
  std::size_t rival = 0;  // which contestant its ratio is to
  std::size_t bound = 0;  // which one it cannot exceed; 0: none
  Samples sending = {};
  Samples receiving = {};
  Samples ratio = {};
  Samples of_bound = {};
  double last = 0;  // of this round, both ways
};

template <class MadeArm, class... Arguments>
auto maker(Arguments... arguments) {
  return [=](const VethLab& lab) { return std::make_unique<MadeArm>(lab, arguments...); };
}

std::vector<Contestant> contestants() {
  using Options = StackArm::Options;
  return {{"kernel", maker<KernelArm>()},
          {"kernel_single", maker<KernelSingleArm>()},
          {"frames", maker<FramesArm>(true)},
          {"stack", maker<StackArm>(Options{}), 0, 2},
          {"stack_frame", maker<StackArm>(Options{.ring = "frame"})},
          {"stack_nosum", maker<StackArm>(Options{.checksum = "false"})},
          {"frames_shared", maker<FramesArm>(false)},
          {"stack_shared", maker<StackArm>(Options{.own_address = false}), 0, 6},
          {"tli", maker<TliArm>(Options{}), 1},
          {"batch", maker<BatchArm>(Options{.mode = "fused", .offload = "false"}), 0, 2},
          {"batch_shared", maker<BatchArm>(Options{.own_address = false, .mode = "fused", .offload = "false"}), 0, 6},
          {"whole", maker<BatchArm>(Options{.mode = "fused"})},
          {"whole_shared", maker<BatchArm>(Options{.own_address = false, .mode = "fused"})}};
}

void run_round(const VethLab& lab, std::vector<Contestant>& all) {
  for (Contestant& one : all) {
    const Cost cost = take_turn(*one.make(lab));
    one.last = cost.sum();
    one.sending.add(cost.sending);
    one.receiving.add(cost.receiving);
    one.ratio.add(all[one.rival].last / cost.sum());
    if (one.bound != 0) {
      one.of_bound.add(all[one.bound].last / cost.sum());
    }
  }
}

void veth_1400(benchmark::State& state) {
  static const VethLab lab;
  std::vector<Contestant> all = contestants();
  for ([[maybe_unused]] auto step : state) {
    run_round(lab, all);
  }
  state.counters["rounds"] = static_cast<double>(all[0].ratio.size());
  for (const Contestant& one : all) {
    state.counters[one.name + "_send_ns"] = one.sending.median();
    state.counters[one.name + "_receive_ns"] = one.receiving.median();
    state.counters[one.name + "_ratio"] = one.ratio.median();
    state.counters[one.name + "_ratio_q1"] = one.ratio.quantile(0.25);
    state.counters[one.name + "_ratio_q3"] = one.ratio.quantile(0.75);
    if (one.bound != 0) {
      state.counters[one.name + "_of_bound"] = one.of_bound.median();
    }
  }
}
BENCHMARK(veth_1400)->Unit(benchmark::kMillisecond)->MeasureProcessCPUTime();

// ---- In memory ----

void wire_1400(benchmark::State& state) {
  const auto nulls = static_cast<std::size_t>(state.range(0));
  StreamSet set;
  End far(set, 2, "kind = 'wire', name = 'lab', end = 'b'", "true", "layered", nulls);
  End near(set, 1, "kind = 'wire', name = 'lab', end = 'a'", "true", "layered", nulls);
  std::array<std::byte, datagram_bytes> payload{};
  const auto move = [&](std::size_t count) {
    Batch requests;
    for (std::size_t at = 0; at < count; ++at) {
      requests.push(near.request(payload));
    }
    SLUICE_REQUIRE(near.stream().send(std::move(requests)).has_value());
    set.scheduler().poll(set.now());
    std::size_t received = 0;
    while (const Message message = far.stream().receive()) {
      received += message.copy_data_to(0, payload) ? 1U : 0U;
    }
    SLUICE_REQUIRE(received == count);
  };
  move(1);  // finds the neighbour
  for ([[maybe_unused]] auto step : state) {
    move(batch);
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(batch));
}
BENCHMARK(wire_1400)->Arg(0)->Arg(8)->Arg(32);

}  // namespace
}  // namespace sluice::bench

BENCHMARK_MAIN();
