// SPDX-License-Identifier: Apache-2.0
#pragma once

// A bed for tests of the ip module: a user above it that keeps what it is told, a link below it that keeps what is sent
// and answers DLPI at once, later, or with a refusal. Time is simulated.

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ilp/scalar.h"
#include "stack/core/chain.h"
#include "stack/modules/ip.h"
#include "stack/wire/answering.h"
#include "stack/wire/checksum.h"
#include "stack/wire/dlpi.h"
#include "stack/wire/ethernet.h"
#include "stack/wire/ipv4.h"
#include "stack/wire/ipv6.h"
#include "stack/wire/network.h"
#include "stack/wire/tpi.h"

namespace sluice::ip_test {

using namespace std::chrono_literals;
namespace dlpi = wire::dlpi;
namespace network = wire::network;
namespace tpi = wire::tpi;
using wire::IpAddress;
using wire::Ipv4Address;
using wire::Ipv6Address;
using wire::MacAddress;

using Octets = std::vector<std::byte>;

inline IpAddress address(std::string_view text) { return IpAddress::from_text(text).value(); }
inline Ipv4Address v4(std::string_view text) { return Ipv4Address::from_text(text).value(); }
inline Ipv6Address v6(std::string_view text) { return Ipv6Address::from_text(text).value(); }

inline constexpr MacAddress our_mac{{2, 0, 0, 0, 0, 1}};
inline constexpr MacAddress peer_mac{{2, 0, 0, 0, 0, 2}};
inline constexpr MacAddress other_mac{{2, 0, 0, 0, 0, 9}};
inline constexpr MacAddress all_nodes_mac{{0x33, 0x33, 0, 0, 0, 1}};
inline const std::string our_link_local = "fe80::ff:fe00:1";  // of our_mac
inline constexpr std::uint8_t udp = wire::protocol_udp;

/// Octets that differ from place to place.
inline Octets pattern(std::size_t size) {
  Octets octets(size);
  for (std::size_t at = 0; at < size; ++at) {
    octets[at] = static_cast<std::byte>(at * 7 + at / 251);
  }
  return octets;
}

inline Octets operator+(Octets left, ConstBytes right) {
  left.insert(left.end(), right.begin(), right.end());
  return left;
}

inline Octets part(ConstBytes octets, std::size_t offset, std::size_t size = std::string::npos) {
  const ConstBytes bytes = octets.subspan(offset, std::min(size, octets.size() - offset));
  return {bytes.begin(), bytes.end()};
}

/// All data of a message.
inline Octets data_of(const Message& message) {
  Octets octets(message.data_size());
  EXPECT_TRUE(message.copy_data_to(0, octets));
  return octets;
}

struct V4 {
  std::string_view source = "10.77.0.2";
  std::string_view destination = "10.77.0.1";
  std::uint8_t protocol = udp;
  std::size_t offset = 0;
  bool more = false;
  std::uint16_t identification = 7;
  std::uint8_t ttl = 64;
};

inline Octets packet(const V4& header, ConstBytes payload) {
  Octets octets(wire::Ipv4Header::size);
  wire::Ipv4Header{.payload_length = static_cast<std::uint16_t>(payload.size()),
                   .identification = header.identification,
                   .more_fragments = header.more,
                   .fragment_offset = static_cast<std::uint16_t>(header.offset),
                   .time_to_live = header.ttl,
                   .protocol = header.protocol,
                   .source = v4(header.source),
                   .destination = v4(header.destination)}
      .emit(octets);
  return octets + payload;
}

/// Makes the header checksum of a changed IPv4 header right again.
inline Octets resummed(Octets octets) {
  const std::size_t length = (std::to_integer<std::size_t>(octets[0]) & 0xfU) * 4;
  store_checksum(octets.data() + 10, 0);
  store_checksum(octets.data() + 10, checksum_of(header_sum(ConstBytes(octets).first(length))));
  return octets;
}

struct V6 {
  std::string_view source = "fd00:77::2";
  std::string_view destination = "fd00:77::1";
  std::uint8_t next_header = udp;
  std::uint8_t hop_limit = 64;
};

inline Octets packet(const V6& header, ConstBytes payload) {
  Octets octets(wire::Ipv6Header::size);
  wire::Ipv6Header{.payload_length = static_cast<std::uint16_t>(payload.size()),
                   .next_header = header.next_header,
                   .hop_limit = header.hop_limit,
                   .source = v6(header.source),
                   .destination = v6(header.destination)}
      .emit(octets);
  return octets + payload;
}

inline Octets fragment_header(std::uint8_t next, std::size_t offset, bool more, std::uint32_t identification = 9) {
  Octets octets(wire::Ipv6FragmentHeader::size);
  wire::Ipv6FragmentHeader{next, static_cast<std::uint16_t>(offset), more, identification}.emit(octets);
  return octets;
}

/// An ICMP message: header, checksum included, and what follows it.
inline Octets icmp(const wire::Icmp4Message& message, ConstBytes rest) {
  Octets octets(wire::icmp_header_size);
  wire::emit_icmp4(message, octets);
  octets = octets + rest;
  store_checksum(octets.data() + 2, checksum_of(ilp::scalar::sum(octets)));
  return octets;
}

inline Octets icmp_summed(Octets octets, const V6& header) {
  store_checksum(octets.data() + 2, 0);
  const std::uint16_t pseudo = wire::pseudo_header_sum(address(header.source), address(header.destination),
                                                       wire::protocol_icmp6, static_cast<std::uint32_t>(octets.size()));
  store_checksum(octets.data() + 2, checksum_of(add_sums(pseudo, ilp::scalar::sum(octets))));
  return octets;
}

inline Octets icmp(const wire::Icmp6Message& message, ConstBytes rest, const V6& header) {
  Octets octets(wire::icmp_header_size);
  wire::emit_icmp6(message, octets);
  return icmp_summed(octets + rest, header);
}

/// The stream's user.
class User : public Module {
 public:
  User() : Module("user") {}
  void rput(Batch&& batch) override {
    while (Message message = batch.pop()) {
      received.push_back(std::move(message));
    }
  }
  std::deque<Message> received;
};

struct Frame {
  MacAddress to;
  std::uint16_t sap = 0;
  Octets octets;
};

/// The driver: no device, all frames are kept.
class Link : public Module {
 public:
  explicit Link(MacAddress own = our_mac) : Module("link"), mac(own) {}

  void wput(Batch&& batch) override {
    while (Message message = batch.pop()) {
      take(std::move(message));
    }
  }

  void inject(std::uint16_t sap, ConstBytes octets, bool group = false, MacAddress from = peer_mac,
              std::size_t block_max = BufferPool::capacity_max) {
    const dlpi::UnitdataInd indication{{group ? wire::mac_broadcast : mac, sap}, {from, sap}, group};
    Message message = Message::allocate(set().pool(), dlpi::UnitdataInd::encoded_size_max, 0, MessageType::proto);
    indication.encode(message.append(dlpi::UnitdataInd::encoded_size_max));
    message.link(Message::copy_of(set().pool(), octets, 14, MessageType::data, block_max));
    read_queue().put_next(std::move(message));
  }

  /// Gives the answers that were held back.
  void answer_all() {
    while (!held.empty()) {
      Message request = std::move(held.front());
      held.pop_front();
      answer(request);
    }
  }

  template <class Primitive>
  void tell(const Primitive& primitive, MessageType type = MessageType::pcproto) {
    Message message = Message::allocate(set().pool(), Primitive::encoded_size_max, 0, type);
    Block& block = message.first();
    block.wptr += Primitive::encoded_size_max;
    block.wptr = block.rptr + primitive.encode(block.bytes());
    read_queue().put_next(std::move(message));
  }

  MacAddress mac;
  std::uint32_t mtu = 1500;
  bool answers_late = false;
  std::optional<std::uint32_t> refuses;  // this primitive
  std::uint32_t refuses_with = dlpi::DL_NOTSUPPORTED;
  std::optional<std::uint16_t> refuses_sap;  // filters of it
  std::deque<Frame> sent;
  std::deque<Message> held;
  std::vector<std::uint32_t> requests;
  std::vector<MacAddress> groups;
  std::vector<std::uint16_t> saps;
  std::vector<IpAddress> ours;  // what ip says its addresses are
  std::vector<dlpi::FilterReq> filters;

 private:
  void take(Message message) {
    if (const auto request = dlpi::UnitdataReq::decode(message.bytes())) {
      sent.push_back({request->destination.mac, request->destination.sap, data_of(message)});
      return;
    }
    if (const auto told = dlpi::AddressReq::decode(message.bytes())) {
      told->ours ? ours.push_back(told->address) : static_cast<void>(std::erase(ours, told->address));
      return;
    }
    requests.push_back(dlpi::primitive_of(message.bytes()).value_or(0));
    if (answers_late) {
      held.push_back(std::move(message));
    } else {
      answer(message);
    }
  }

  void answer(const Message& message) {
    const ConstBytes block = message.bytes();
    const std::uint32_t primitive = dlpi::primitive_of(block).value_or(0);
    if (refuses == primitive) {
      return tell(dlpi::ErrorAck{primitive, refuses_with, 0});
    }
    switch (primitive) {
      case dlpi::DL_INFO_REQ:
        return tell(dlpi::InfoAck{.max_sdu = mtu, .address = {}, .broadcast = {}});
      case dlpi::DL_BIND_REQ:
        saps.push_back(static_cast<std::uint16_t>(dlpi::BindReq::decode(block)->sap));
        return tell(dlpi::BindAck{.sap = saps.back(), .address = {mac, saps.back()}});
      case dlpi::DL_SUBS_BIND_REQ:
        saps.push_back(dlpi::SubsBindReq::decode(block)->sap);
        return tell(dlpi::SubsBindAck{saps.back()});
      case dlpi::DL_PHYS_ADDR_REQ:
        return tell(dlpi::PhysAddrAck{mac});
      case dlpi::DL_ENABMULTI_REQ:
        groups.push_back(dlpi::EnabmultiReq::decode(block)->address);
        return tell(dlpi::OkAck{primitive});
      case dlpi::DL_DISABMULTI_REQ:
        std::erase(groups, dlpi::DisabmultiReq::decode(block)->address);
        return tell(dlpi::OkAck{primitive});
      case dlpi::DL_NOTIFY_REQ:
        return tell(dlpi::NotifyAck{dlpi::NotifyReq::decode(block)->notifications});
      case dlpi::DL_FILTER_REQ:
        if (refuses_sap == dlpi::FilterReq::decode(block)->sap) {
          return tell(dlpi::ErrorAck{primitive, refuses_with, 0});
        }
        filters.push_back(*dlpi::FilterReq::decode(block));
        return tell(dlpi::OkAck{primitive});
      default:
        return tell(dlpi::OkAck{primitive});
    }
  }
};

inline ip::Config config_of(std::vector<std::string> addresses, std::vector<std::string> gateways = {}) {
  Parameters parameters;
  parameters.set("address", std::move(addresses));
  parameters.set("gateway", std::move(gateways));
  return ip::Config::from(parameters).value();
}

inline ip::Config both_families() {
  return config_of({"10.77.0.1/24", "fd00:77::1/64"}, {"10.77.0.254", "fd00:77::fe"});
}

class Bed {
 public:
  explicit Bed(ip::Config config = both_families(), MacAddress mac = our_mac)
      : Bed(std::move(config), std::make_unique<Link>(mac)) {}
  Bed(ip::Config config, std::unique_ptr<Link> driver) : link(*driver) {
    const bool config_detects = config.duplicate_address_detection;
    EXPECT_TRUE(chain.open_driver(std::move(driver)));
    auto module = std::make_unique<Ip>(set, std::move(config));
    ip = module.get();
    opened = chain.push(std::move(module));
    // What a host announces in its first seconds is asked in ip_addresses_test.cc; here it would be in the way.
    if (!config_detects) {
      advance(0s);
      advance(ip::Addresses::announce_interval);
      said_at_start = std::exchange(link.sent, {});
    }
  }

  void advance(Duration duration) {
    now += duration;
    set.scheduler().poll(now);
  }

  [[nodiscard]] std::uint64_t count(std::string_view name) const {
    const auto found = std::ranges::find(ip->counters(), name, [](const Counter* counter) { return counter->name(); });
    EXPECT_NE(found, ip->counters().end()) << name;
    return found == ip->counters().end() ? ~std::uint64_t{0} : (*found)->value();
  }

  template <class Primitive>
  void ask(const Primitive& primitive, std::size_t size, MessageType type = MessageType::proto, ConstBytes data = {},
           std::size_t headroom = 64) {
    Message message = Message::allocate(set.pool(), size, 0, type);
    primitive.encode(message.append(size));
    if (data.data() != nullptr) {
      message.link(Message::copy_of(set.pool(), data, headroom));
    }
    user.write_queue().put_next(std::move(message));
  }

  void bind(std::uint8_t protocol = udp, const IpAddress& local = {}) {
    Octets bytes(wire::NetworkAddress{local, protocol}.encoded_size());
    wire::NetworkAddress{local, protocol}.encode(bytes);
    const tpi::BindReq request{.address = bytes};
    ask(request, request.encoded_size());
    ASSERT_FALSE(user.received.empty());
    ASSERT_TRUE(tpi::BindAck::decode(user.received.back().bytes()));
    user.received.pop_back();
  }

  void send(std::string_view to, ConstBytes data, const network::Sending& sending = {}, std::uint8_t protocol = udp) {
    const wire::NetworkAddress destination{address(to), protocol};
    Octets bytes(destination.encoded_size());
    destination.encode(bytes);
    Octets options(network::Sending::size);
    sending.encode(options);
    const tpi::UnitdataReq request{bytes, options};
    ask(request, request.encoded_size(), MessageType::proto, data);
  }

  /// The next message up, which is taken; fails when there is none.
  Message next_up() {
    if (user.received.empty()) {
      ADD_FAILURE() << "nothing came up";
      return {};
    }
    Message message = std::move(user.received.front());
    user.received.pop_front();
    return message;
  }
  Frame next_frame() {
    if (link.sent.empty()) {
      ADD_FAILURE() << "nothing was sent";
      return {};
    }
    Frame frame = std::move(link.sent.front());
    link.sent.pop_front();
    return frame;
  }

  /// Makes the neighbours known, so that what is sent to them leaves at once.
  void know_neighbours() {
    for (const std::string_view host : {"10.77.0.2", "10.77.0.254"}) {
      arp(wire::ArpOperation::request, host, "10.77.0.1");
    }
    link.sent.clear();
  }

  void arp(wire::ArpOperation operation, std::string_view sender, std::string_view target, MacAddress mac = peer_mac) {
    Octets octets(wire::ArpPacket::size);
    wire::ArpPacket{operation, mac, v4(sender), operation == wire::ArpOperation::reply ? our_mac : MacAddress{},
                    v4(target)}
        .emit(octets);
    link.inject(wire::ethertype_arp, octets, operation == wire::ArpOperation::request, mac);
  }

  StreamSet set{StreamSet::Options{.seed = 1}};
  User user;
  Chain chain{set, user};
  Link& link;
  Ip* ip = nullptr;
  Status opened;
  std::deque<Frame> said_at_start;
  TimePoint now{};
};

struct Uderror {
  wire::NetworkAddress destination;
  network::Failure failure;
  int error = 0;
  Octets data;
};

inline Uderror uderror_of(const Message& message) {
  const auto indication =
      message ? tpi::UderrorInd::decode(message.bytes()) : std::unexpected(tpi::Malformed::short_block);
  if (!indication) {
    ADD_FAILURE() << "no T_UDERROR_IND";
    return {};
  }
  return {wire::NetworkAddress::decode(indication->destination).value(),
          network::Failure::decode(indication->options).value(), indication->error_type, data_of(message)};
}

struct Unitdata {
  wire::NetworkAddress source;
  network::Received received;
  Octets data;
};

inline Unitdata unitdata_of(const Message& message) {
  const auto indication =
      message ? tpi::UnitdataInd::decode(message.bytes()) : std::unexpected(tpi::Malformed::short_block);
  if (!indication) {
    ADD_FAILURE() << "no T_UNITDATA_IND";
    return {};
  }
  return {wire::NetworkAddress::decode(indication->address).value(),
          network::Received::decode(indication->options).value(), data_of(message)};
}

}  // namespace sluice::ip_test
