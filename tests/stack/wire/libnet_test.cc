// SPDX-License-Identifier: Apache-2.0
// Our frames against those that libnet builds for the same fields, byte for byte. LIBNET_NONE is libnet's mode for
// building without a device, so nothing here needs privileges and nothing is sent.
#include <gtest/gtest.h>
#include <libnet.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <string_view>

#include "stack/wire/arp.h"
#include "stack/wire/ethernet.h"
#include "stack/wire/icmp4.h"
#include "stack/wire/icmp6.h"
#include "stack/wire/ipv4.h"
#include "stack/wire/ipv6.h"
#include "stack/wire/ndp.h"
#include "stack/wire/udp.h"
#include "tests/stack/wire/bytes.h"

namespace sluice::wire {
namespace {

using namespace test;  // bytes.h

const Ipv4Address v4_a{{10, 77, 0, 1}};
const Ipv4Address v4_b{{10, 77, 0, 2}};
const Ipv6Address v6_a = Ipv6Address::from_text("fd00::1").value();
const Ipv6Address v6_b = Ipv6Address::from_text("fd00::2").value();

/// Its two low bytes are equal because libnet 1.1.6 writes the lowest byte in the place of both.
constexpr std::uint32_t flow_label = 0x54343;

/// An odd number of bytes, so that the checksum's padding is compared too.
const Buffer payload = [] {
  Buffer bytes(101);
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    bytes[at] = static_cast<std::byte>(at * 7 + 3);
  }
  return bytes;
}();

class Libnet : public testing::Test {
 protected:
  void SetUp() override {
    char error[LIBNET_ERRBUF_SIZE] = {};
    net_.reset(libnet_init(LIBNET_NONE, nullptr, error));
    ASSERT_TRUE(net_) << error;
  }

  libnet_t* net() { return net_.get(); }
  static const std::uint8_t* octets(const Buffer& bytes) { return reinterpret_cast<const std::uint8_t*>(bytes.data()); }
  static std::uint8_t* mutable_octets(Buffer& bytes) { return reinterpret_cast<std::uint8_t*>(bytes.data()); }
  static std::uint32_t number(const Ipv4Address& address) { return to_big_endian(address.value()); }
  static libnet_in6_addr number(const Ipv6Address& address) {
    libnet_in6_addr out;
    std::copy(address.octets.begin(), address.octets.end(), out.__u6_addr.__u6_addr8);
    return out;
  }

  void ethernet(std::uint16_t type) {
    ASSERT_NE(libnet_build_ethernet(mac_b.octets.data(), mac_a.octets.data(), type, nullptr, 0, net(), 0), -1)
        << libnet_geterror(net());
  }
  void ipv4(std::size_t transport_size, std::uint8_t protocol, std::uint16_t flags = 0) {
    ASSERT_NE(libnet_build_ipv4(static_cast<std::uint16_t>(20 + transport_size), 0x08, 0xbeef, flags, 61, protocol, 0,
                                number(v4_a), number(v4_b), nullptr, 0, net(), 0),
              -1)
        << libnet_geterror(net());
  }
  void ipv6(std::size_t transport_size, std::uint8_t protocol) {
    ASSERT_NE(libnet_build_ipv6(0x08, flow_label, static_cast<std::uint16_t>(transport_size), protocol, 255,
                                number(v6_a), number(v6_b), nullptr, 0, net(), 0),
              -1)
        << libnet_geterror(net());
  }
  void udp() {
    ASSERT_NE(libnet_build_udp(5000, 7000, static_cast<std::uint16_t>(8 + payload.size()), 0, octets(payload),
                               static_cast<std::uint32_t>(payload.size()), net(), 0),
              -1)
        << libnet_geterror(net());
  }

  /// The frame that the calls above built. libnet_adv_cull_packet would do the same, but refuses LIBNET_NONE.
  Buffer built() {
    std::uint8_t* packet = nullptr;
    std::uint32_t size = 0;
    EXPECT_NE(libnet_pblock_coalesce(net(), &packet, &size), -1) << libnet_geterror(net());
    const Buffer frame = packet == nullptr ? Buffer{} : test::copy(std::as_bytes(std::span(packet, size)));
    if (packet != nullptr) {
      libnet_adv_free_packet(net(), packet);
    }
    return frame;
  }

 private:
  struct Destroy {
    void operator()(libnet_t* net) const { libnet_destroy(net); }
  };
  std::unique_ptr<libnet_t, Destroy> net_;
};

template <class Header>
Buffer header_bytes(const Header& header) {
  Buffer bytes(Header::size);
  header.emit(bytes);
  return bytes;
}

Buffer our_ethernet(std::uint16_t type) { return header_bytes(EthernetHeader{mac_b, mac_a, type}); }

Ipv4Header our_ipv4(std::size_t transport_size, std::uint8_t protocol) {
  return {.type_of_service = 0x08,
          .payload_length = static_cast<std::uint16_t>(transport_size),
          .identification = 0xbeef,
          .time_to_live = 61,
          .protocol = protocol,
          .source = v4_a,
          .destination = v4_b};
}

Buffer our_ipv6(std::size_t transport_size, std::uint8_t protocol) {
  return header_bytes(Ipv6Header{.traffic_class = 0x08,
                                 .flow_label = flow_label,
                                 .payload_length = static_cast<std::uint16_t>(transport_size),
                                 .next_header = protocol,
                                 .hop_limit = 255,
                                 .source = v6_a,
                                 .destination = v6_b});
}

Buffer our_udp(const IpAddress& source, const IpAddress& destination) {
  UdpHeader header{
      .source_port = 5000, .destination_port = 7000, .payload_length = static_cast<std::uint16_t>(payload.size())};
  header.checksum = udp_checksum_of(add_sums(udp_sum(source, destination, header), header_sum(payload)));
  return header_bytes(header) + payload;
}

/// An ICMPv6 message with its checksum filled in.
Buffer summed6(Buffer message) {
  const auto length = static_cast<std::uint32_t>(message.size());
  const std::uint16_t sum = add_sums(pseudo_header_sum(v6_a, v6_b, protocol_icmp6, length), header_sum(message));
  store_checksum(message.data() + icmp_checksum_offset, checksum_of(sum));
  return message;
}

TEST_F(Libnet, EthernetAndArp) {
  const MacAddress unknown;
  ASSERT_NE(libnet_build_arp(1, 0x0800, 6, 4, 1, mac_a.octets.data(), v4_a.octets.data(), unknown.octets.data(),
                             v4_b.octets.data(), nullptr, 0, net(), 0),
            -1);
  ethernet(ethertype_arp);
  EXPECT_EQ(our_ethernet(ethertype_arp) + header_bytes(ArpPacket{ArpOperation::request, mac_a, v4_a, unknown, v4_b}),
            built());
}

TEST_F(Libnet, EthernetIpv4Udp) {
  udp();
  ipv4(8 + payload.size(), protocol_udp);
  ethernet(ethertype_ipv4);
  EXPECT_EQ(
      our_ethernet(ethertype_ipv4) + header_bytes(our_ipv4(8 + payload.size(), protocol_udp)) + our_udp(v4_a, v4_b),
      built());
}

TEST_F(Libnet, Ipv4Flags) {
  udp();
  ipv4(8 + payload.size(), protocol_udp, 0x4000 | 0x2000 | 185);
  Ipv4Header header = our_ipv4(8 + payload.size(), protocol_udp);
  header.dont_fragment = true;
  header.more_fragments = true;
  header.fragment_offset = 1480;
  const Buffer frame = built();
  ASSERT_EQ(frame.size(), Ipv4Header::size + header.payload_length);
  EXPECT_EQ(header_bytes(header), test::first(frame, Ipv4Header::size));
}

// We send no options, but those of others must be found where they are.
TEST_F(Libnet, Ipv4WithOptionsIsRead) {
  const Buffer router_alert = test::hex("94040000");
  udp();
  ASSERT_NE(libnet_build_ipv4_options(octets(router_alert), 4, net(), 0), -1);
  ipv4(4 + 8 + payload.size(), protocol_udp);
  const Buffer packet = built();
  const auto view = Ipv4View::check(packet);
  ASSERT_TRUE(view);
  EXPECT_EQ(view->header_length(), 24U);
  EXPECT_EQ(test::copy(view->options()), router_alert);
  EXPECT_EQ(Ipv4Header::of(*view), our_ipv4(8 + payload.size(), protocol_udp));
}

TEST_F(Libnet, EthernetIpv6Udp) {
  udp();
  ipv6(8 + payload.size(), protocol_udp);
  ethernet(ethertype_ipv6);
  EXPECT_EQ(our_ethernet(ethertype_ipv6) + our_ipv6(8 + payload.size(), protocol_udp) + our_udp(v6_a, v6_b), built());
}

TEST_F(Libnet, IcmpEcho) {
  ASSERT_NE(libnet_build_icmpv4_echo(8, 0, 0, 0x1234, 7, octets(payload), static_cast<std::uint32_t>(payload.size()),
                                     net(), 0),
            -1);
  ipv4(8 + payload.size(), protocol_icmp4);
  Buffer header(icmp_header_size);
  emit_icmp4(IcmpEcho{false, 0x1234, 7}, header);
  Buffer message = header + payload;
  store_checksum(message.data() + icmp_checksum_offset, checksum_of(header_sum(message)));
  EXPECT_EQ(header_bytes(our_ipv4(message.size(), protocol_icmp4)) + message, built());
}

TEST_F(Libnet, Icmp6Echo) {
  Buffer data = payload;
  ASSERT_NE(libnet_build_icmpv6_echo(129, 0, 0, 0x1234, 7, mutable_octets(data),
                                     static_cast<std::uint32_t>(data.size()), net(), 0),
            -1);
  ipv6(8 + payload.size(), protocol_icmp6);
  Buffer header(icmp_header_size);
  emit_icmp6(IcmpEcho{true, 0x1234, 7}, header);
  const Buffer message = summed6(header + payload);
  EXPECT_EQ(our_ipv6(message.size(), protocol_icmp6) + message, built());
}

TEST_F(Libnet, NeighborSolicitation) {
  Buffer mac = test::copy(std::as_bytes(std::span(mac_a.octets)));
  ASSERT_NE(libnet_build_icmpv6_ndp_opt(1, mutable_octets(mac), 6, net(), 0), -1);
  ASSERT_NE(libnet_build_icmpv6_ndp_nsol(135, 0, 0, number(v6_b), nullptr, 0, net(), 0), -1);
  ipv6(32, protocol_icmp6);
  Buffer message(NeighborSolicitation::size_max);
  message.resize(NeighborSolicitation{v6_b, mac_a}.emit(message));
  EXPECT_EQ(our_ipv6(32, protocol_icmp6) + summed6(message), built());
}

}  // namespace
}  // namespace sluice::wire
