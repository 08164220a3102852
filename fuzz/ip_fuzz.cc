// SPDX-License-Identifier: Apache-2.0
// Arbitrary frames to a live ip module with a user bound to UDP. The input is a sequence of events, each
//
//     kind (1 byte)   length (2 bytes, big-endian)   `length` bytes
//
// kind % 8: 0..2 a frame's payload (IPv4, ARP, IPv6); 3 the same by link broadcast; 4 the payload in small blocks; 5
// the user sends that many bytes to a neighbour; 6 time passes; 7 the user reports the last datagram as "port
// unreachable". Whatever comes, the module keeps its bounds, gives back all memory, and counts each packet once.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/contract.h"
#include "stack/core/chain.h"
#include "stack/modules/ip.h"
#include "stack/wire/protocol.h"

namespace {

using namespace sluice;
namespace dlpi = wire::dlpi;

constexpr wire::MacAddress own_mac{{2, 0, 0, 0, 0, 1}};
constexpr wire::MacAddress peer_mac{{2, 0, 0, 0, 0, 2}};

template <class Primitive>
Message message_of(BufferPool& pool, const Primitive& primitive, std::size_t size, MessageType type) {
  Message message = Message::allocate(pool, size, 0, type);
  primitive.encode(message.append(size));
  return message;
}

class Driver : public Module {
 public:
  Driver() : Module("driver") {}
  void wput(Batch&& batch) override {
    while (Message message = batch.pop()) {
      answer(message);
    }
  }
  void frame(std::uint16_t sap, ConstBytes bytes, bool group, std::size_t block_max) {
    const dlpi::UnitdataInd indication{{own_mac, sap}, {peer_mac, sap}, group};
    Message message = message_of(set().pool(), indication, dlpi::UnitdataInd::encoded_size_max, MessageType::proto);
    message.link(Message::copy_of(set().pool(), bytes, 14, MessageType::data, block_max));
    read_queue().put_next(std::move(message));
  }

 private:
  template <class Primitive>
  void tell(const Primitive& primitive) {
    read_queue().put_next(message_of(set().pool(), primitive, Primitive::encoded_size_max, MessageType::pcproto));
  }
  void answer(const Message& message) {
    switch (const auto primitive = dlpi::primitive_of(message.bytes()).value_or(0); primitive) {
      case dlpi::DL_UNITDATA_REQ:
        return;
      case dlpi::DL_INFO_REQ:
        return tell(dlpi::InfoAck{.max_sdu = 1500, .address = {}, .broadcast = {}});
      case dlpi::DL_BIND_REQ:
        return tell(dlpi::BindAck{.sap = wire::ethertype_ipv4, .address = {}});
      case dlpi::DL_SUBS_BIND_REQ:
        return tell(dlpi::SubsBindAck{});
      case dlpi::DL_PHYS_ADDR_REQ:
        return tell(dlpi::PhysAddrAck{own_mac});
      case dlpi::DL_NOTIFY_REQ:
        return tell(dlpi::NotifyAck{});
      default:
        return tell(dlpi::OkAck{primitive});
    }
  }
};

class User : public Module {
 public:
  User() : Module("user") {}
  void rput(Batch&& batch) override {
    while (Message message = batch.pop()) {
      if (const auto indication = wire::tpi::UnitdataInd::decode(message.bytes())) {
        source = wire::NetworkAddress::decode(indication->address).value();
        received = wire::network::Received::decode(indication->options).value();
        datagram = message.unlink();
      }
    }
  }
  void send(std::size_t size) {
    std::byte address[wire::NetworkAddress::encoded_size_max];
    const wire::NetworkAddress to{wire::Ipv4Address{{10, 77, 0, 2}}, wire::protocol_udp};
    const wire::tpi::UnitdataReq request{ConstBytes(address, to.encode(address)), {}};
    Message message = message_of(set().pool(), request, request.encoded_size(), MessageType::proto);
    Message data = Message::allocate(set().pool(), size, 64);
    data.first().wptr += size;
    std::ranges::fill(data.first().bytes(), std::byte{0});  // so that an input can quote it
    message.link(std::move(data));
    write_queue().put_next(std::move(message));
  }
  void refuse_last() {
    if (datagram) {
      const wire::network::UnreachableReq request{source.address, received.local, received.header_size};
      Message message = message_of(set().pool(), request, wire::network::UnreachableReq::size, MessageType::ctl);
      message.link(std::move(datagram));
      write_queue().put_next(std::move(message));
    }
  }
  Message datagram;

 private:
  wire::NetworkAddress source;
  wire::network::Received received;
};

struct Bed {
  Bed() {
    auto bottom = std::make_unique<Driver>();
    driver = bottom.get();
    Parameters parameters;
    parameters.set("address", std::vector<std::string>{"10.77.0.1/24", "fd00:77::1/64"});
    parameters.set("neighbours_max", std::int64_t{8});
    parameters.set("reassembly_bytes_max", std::int64_t{65536});
    auto module = std::make_unique<Ip>(set, ip::Config::from(parameters).value());
    ip = module.get();
    SLUICE_REQUIRE(chain.open_driver(std::move(bottom)).has_value());
    SLUICE_REQUIRE(chain.push(std::move(module)).has_value());
    std::byte address[wire::NetworkAddress::encoded_size_max];
    const wire::NetworkAddress any{wire::Ipv4Address{}, wire::protocol_udp};
    const wire::tpi::BindReq request{.address = ConstBytes(address, any.encode(address))};
    user.write_queue().put_next(message_of(set.pool(), request, request.encoded_size(), MessageType::proto));
  }

  void event(unsigned kind, ConstBytes bytes) {
    static constexpr std::uint16_t saps[] = {wire::ethertype_ipv4, wire::ethertype_arp, wire::ethertype_ipv6};
    const std::uint16_t by_version = !bytes.empty() && (bytes[0] >> 4) == std::byte{6} ? saps[2] : saps[0];
    switch (kind % 8) {
      case 0:
      case 1:
      case 2:
        return driver->frame(saps[kind % 8], bytes, false, BufferPool::capacity_max);
      case 3:
        return driver->frame(by_version, bytes, true, BufferPool::capacity_max);
      case 4:
        return driver->frame(by_version, bytes, false, 7);
      case 5:
        return user.send(bytes.size() * 16);
      case 6:
        now += std::chrono::milliseconds(bytes.size() * 100);
        set.scheduler().poll(now);
        return;
      default:
        return user.refuse_last();
    }
  }

  StreamSet set;
  User user;
  Chain chain{set, user};
  Driver* driver = nullptr;
  Ip* ip = nullptr;
  TimePoint now{};
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Bed bed;
  ConstBytes rest = std::as_bytes(std::span(data, size));
  while (rest.size() >= 3) {
    const auto kind = std::to_integer<unsigned>(rest[0]);
    const std::size_t length = std::min<std::size_t>(load_big_endian<std::uint16_t>(rest.data() + 1), rest.size() - 3);
    bed.event(kind, rest.subspan(3, length));
    rest = rest.subspan(3 + length);
    SLUICE_REQUIRE(bed.ip->neighbours().size() <= 8);
    SLUICE_REQUIRE(bed.ip->reassembly().bytes() <= 65536);
  }
  bed.user.datagram.reset();
  bed.now += std::chrono::hours(1);
  for (int second = 0; second < 8; ++second) {
    bed.set.scheduler().poll(bed.now += std::chrono::seconds(1));
  }
  SLUICE_REQUIRE(bed.set.pool().statistics().buffers_in_use == 0);
  std::uint64_t ended = 0;
  for (const Counter* counter : bed.ip->counts().ends()) {
    ended += counter->value();
  }
  SLUICE_REQUIRE(bed.ip->counts().packets_in.value() + bed.ip->counts().reassembled.value() == ended);
  return 0;
}
