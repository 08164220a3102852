// SPDX-License-Identifier: Apache-2.0
// Several datagrams in one message, through a whole stack of link, ip and udp, three times: where everybody takes them
// whole, where the device splits them (on a fused path), and where the user takes single ones only. The input is a list
// of records: a kind, a length (two bytes, big-endian), and so many bytes, which are
//   0  an offload header, and a frame behind it        2  time that passes
//   1  a segment size, a hop limit, a class, flags, a size (two bytes), and data, of one send to a neighbour
// Whatever they are, what is sent is the same frames, what comes up is the same datagrams, what is counted of the link
// is the same, and every buffer is free in the end. Threat: a lying offload header, lengths in inner headers that lie,
// and requests that no library makes.

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "base/contract.h"
#include "dlpi/link_stream.h"
#include "dlpi/offload.h"
#include "dlpi/super_frame.h"
#include "fuzz/round_trip.h"
#include "stack/core/chain.h"
#include "stack/core/primitive.h"
#include "stack/modules/ip.h"
#include "stack/modules/udp.h"
#include "stack/wire/ethernet.h"
#include "stack/wire/network.h"

namespace sluice {
namespace {

using wire::DataUnit;
using Blob = std::vector<std::byte>;

constexpr wire::MacAddress own_mac{{2, 0, 0, 0, 0, 1}};
constexpr wire::MacAddress peer_mac{{2, 0, 0, 0, 0, 2}};
constexpr wire::Ipv4Address own_v4{{10, 77, 0, 1}};
constexpr wire::Ipv4Address peer_v4{{10, 77, 0, 2}};
constexpr std::uint16_t port = 7000;
constexpr std::size_t mtu_bytes = 1500;

Blob bytes_of(Message& message) {
  Blob bytes(message.data_size());
  SLUICE_REQUIRE(message.copy_data_to(0, bytes));
  return bytes;
}

/// Keeps the frames that are sent; what stands for several is split here, if it is taken at all.
class Device final : public dlpi::Link {
 public:
  Device(StreamSet& set, bool whole) : Link(set, "fuzz", own_mac, mtu_bytes), whole_(whole) {}
  [[nodiscard]] bool takes_super_frames(std::uint8_t) const override { return whole_; }
  void send(Batch& frames) override {
    while (Message frame = frames.pop()) {
      SLUICE_REQUIRE(whole_ || !dlpi::is_super_frame(frame));
      if (!dlpi::is_super_frame(frame)) {
        sent.push_back(bytes_of(frame));
        continue;
      }
      Batch segments;
      SLUICE_REQUIRE(dlpi::split_super_frame(std::move(frame), segments));
      while (Message segment = segments.pop()) {
        SLUICE_REQUIRE(segment.materialize() != TransformResult::failed);
        sent.push_back(bytes_of(segment));
      }
    }
  }
  void bring(const dlpi::OffloadHeader& offload, Message frame) {
    Batch burst;
    accept(std::move(frame), offload, burst);
    receive(std::move(burst));
  }

  std::vector<Blob> sent;

 private:
  bool whole_;
};

/// Takes datagrams, single or together, as the library does; each is kept by itself.
class User final : public Module {
 public:
  explicit User(bool segments) : Module("user"), takes_segments_(segments) {}
  [[nodiscard]] bool handles_deferred() const override { return true; }
  [[nodiscard]] bool handles_segments() const override { return takes_segments_; }
  void rput(Batch&& batch) override {
    while (Message message = batch.pop()) {
      const DataUnit* const unit = message.native<DataUnit>();
      if (unit == nullptr || unit->kind != DataUnit::Kind::transport_indication) {
        continue;
      }
      const std::size_t segment = unit->segment_size;
      SLUICE_REQUIRE(segment == 0 || takes_segments_);
      if (message.materialize() == TransformResult::failed) {
        continue;  // its checksum does not hold
      }
      const Blob whole = bytes_of(message);
      ConstBytes rest = whole;
      do {
        const std::size_t part = segment == 0 ? rest.size() : std::min(segment, rest.size());
        received.emplace_back(rest.begin(), rest.begin() + static_cast<std::ptrdiff_t>(part));
        rest = rest.subspan(part);
      } while (!rest.empty());
    }
  }

  std::vector<Blob> received;

 private:
  bool takes_segments_;
};

struct World {
  struct Kind {
    bool device_takes_them;
    bool user_takes_them;
    ProcessingMode mode;
  };

  explicit World(const Kind& kind)
      : set({.defer_bytes_min = 0, .seed = 1}),
        device(std::make_shared<Device>(set, kind.device_takes_them)),
        user(kind.user_takes_them) {
    chain.set_mode(kind.mode);
    const dlpi::LinkOpener opener = [this](StreamSet&, std::uint32_t) -> Result<std::shared_ptr<dlpi::Link>> {
      return device;
    };
    SLUICE_REQUIRE(chain.open_driver(std::make_unique<dlpi::LinkStream>("fuzz", dlpi::LinkStream::Style::one, opener)));
    Parameters parameters;
    parameters.set("address", std::vector<std::string>{"10.77.0.1/24", "fd00:77::1/64"});
    parameters.set("duplicate_address_detection", false);
    SLUICE_REQUIRE(chain.push(std::make_unique<Ip>(set, ip::Config::from(parameters).value())));
    SLUICE_REQUIRE(chain.push(std::make_unique<Udp>(true)));
    const Encoded address(wire::TransportAddress{wire::IpAddress(), port});
    user.write_queue().put_next(
        primitive_message(set.pool(), wire::tpi::BindReq{.address = address.bytes()}, MessageType::proto));
    learn_neighbour();
    device->sent.clear();
  }

  /// Asked for by a first datagram, as an ARP reply.
  void learn_neighbour() {
    send(to_peer, as_bytes("x"));
    Blob frame(wire::EthernetHeader::size + wire::ArpPacket::size);
    wire::EthernetHeader{own_mac, peer_mac, wire::ethertype_arp}.emit(frame);
    wire::ArpPacket{wire::ArpOperation::reply, peer_mac, peer_v4, own_mac, own_v4}.emit(
        Bytes(frame).subspan(wire::EthernetHeader::size));
    device->bring({}, Message::copy_of(set.pool(), frame));
  }

  void send(const DataUnit& unit, ConstBytes data) {
    Message request = Message::of_native(set.pool(), unit);
    Message payload = Message::copy_of(set.pool(), data, 64);
    if (chain.mode() == ProcessingMode::fused) {
      payload.defer();
    }
    request.link(std::move(payload));
    user.write_queue().put_next(std::move(request));
  }

  void play(unsigned kind, ConstBytes record) {
    if (kind == 0) {
      dlpi::OffloadHeader offload;
      if (record.size() >= sizeof offload) {
        std::memcpy(&offload, record.data(), sizeof offload);
        device->bring(offload, Message::copy_of(set.pool(), record.subspan(sizeof offload)));
      }
    } else if (kind == 1 && user.handles_segments()) {
      request(record);
    } else if (kind == 2) {
      now += std::chrono::milliseconds(record.size());
    }
    set.scheduler().poll(now);
  }

  /// What the library checks is right (tli/sending.cc): at least one byte, and a whole that fits an IP packet.
  void request(ConstBytes record) {
    constexpr std::size_t head = 7;
    constexpr std::size_t data_max = 65487;
    if (record.size() <= head) {
      return;
    }
    DataUnit unit = to_peer;
    unit.segment_size = load_big_endian<std::uint16_t>(record.data());
    unit.hop_limit = std::to_integer<std::uint8_t>(record[2]);
    unit.traffic_class = std::to_integer<std::uint8_t>(record[3]);
    unit.dont_fragment = (record[4] & std::byte{1}) != std::byte{};
    const std::size_t size = std::clamp<std::size_t>(load_big_endian<std::uint16_t>(record.data() + 5), 1, data_max);
    if (wire::network::segments_in(size, std::max<std::size_t>(unit.segment_size, 1)) > wire::network::segments_max) {
      unit.segment_size = 0;
    }
    Blob data(size);
    for (std::size_t at = 0; at < size; ++at) {
      data[at] = record[head + at % (record.size() - head)];
    }
    send(unit, data);
  }

  const DataUnit to_peer = [] {
    DataUnit unit;
    unit.kind = DataUnit::Kind::transport_request;
    unit.peer = peer_v4;
    unit.peer_port = 9;
    return unit;
  }();

  StreamSet set;
  std::shared_ptr<Device> device;
  User user;
  Chain chain{set, user};
  TimePoint now{};
};

}  // namespace
}  // namespace sluice

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace sluice;
  World whole({true, true, ProcessingMode::layered});
  World split({false, true, ProcessingMode::fused});
  World single({true, false, ProcessingMode::layered});
  ConstBytes input = fuzz::input(data, size);
  while (input.size() >= 3) {
    const auto kind = std::to_integer<unsigned>(input[0]) % 3;
    const std::size_t length =
        std::min<std::size_t>(load_big_endian<std::uint16_t>(input.data() + 1), input.size() - 3);
    for (World* world : {&whole, &split, &single}) {
      world->play(kind, input.subspan(3, length));
    }
    input = input.subspan(3 + length);
    SLUICE_REQUIRE(whole.device->sent == split.device->sent);
    SLUICE_REQUIRE(whole.user.received == split.user.received);
    SLUICE_REQUIRE(whole.user.received == single.user.received);
    const dlpi::LinkStatistics& counted = whole.device->statistics();
    SLUICE_REQUIRE(counted.frames_received == single.device->statistics().frames_received);
    SLUICE_REQUIRE(counted.bytes_received == single.device->statistics().bytes_received);
  }
  return 0;  // the pools require that every buffer is free
}
