// SPDX-License-Identifier: Apache-2.0
#include "dlpi/offload.h"

#include "ilp/kernels.h"
#include "stack/wire/ipv6.h"
#include "tests/dlpi/test_stream.h"

namespace sluice::dlpi::test {
namespace {

constexpr wire::MacAddress mac{{0x02, 0, 0, 0, 0, 1}};

/// A UDP frame as a local sender leaves it: one UDP header for all of `data`, the checksum field with the
/// pseudo-header's sum.
std::vector<std::byte> unfinished(bool v6, ConstBytes data) {
  const std::size_t ip_size = v6 ? 40 : 20;
  std::vector<std::byte> packet(ip_size + 8 + data.size());
  wire::IpAddress source = wire::Ipv4Address{{10, 0, 0, 2}};
  wire::IpAddress destination = wire::Ipv4Address{{10, 0, 0, 1}};
  const auto length = static_cast<std::uint16_t>(8 + data.size());
  if (v6) {
    source = *wire::Ipv6Address::from_text("fd00::2");
    destination = *wire::Ipv6Address::from_text("fd00::1");
    wire::Ipv6Header header;
    header.payload_length = length;
    header.next_header = wire::protocol_udp;
    header.source = source.v6();
    header.destination = destination.v6();
    header.emit(packet);
  } else {
    wire::Ipv4Header header;
    header.payload_length = length;
    header.protocol = wire::protocol_udp;
    header.identification = 0xfffe;
    header.source = source.v4();
    header.destination = destination.v4();
    header.emit(packet);
  }
  wire::UdpHeader{.source_port = 1,
                  .destination_port = 2,
                  .payload_length = static_cast<std::uint16_t>(data.size()),
                  .checksum = wire::pseudo_header_sum(source, destination, wire::protocol_udp, length)}
      .emit(Bytes(packet).subspan(ip_size));
  std::ranges::copy(data, packet.begin() + static_cast<std::ptrdiff_t>(ip_size + 8));
  return frame(mac, v6 ? wire::ethertype_ipv6 : wire::ethertype_ipv4, packet);
}

/// The data of a finished frame whose lengths and checksums all hold.
std::string verified(ConstBytes finished, bool v6) {
  const ConstBytes packet = finished.subspan(14);
  wire::IpAddress source;
  wire::IpAddress destination;
  std::size_t ip_size = 40;
  if (v6) {
    const auto ip = wire::Ipv6View::check(packet);
    EXPECT_TRUE(ip && ip->payload_length() == packet.size() - 40);
    source = ip->source();
    destination = ip->destination();
  } else {
    const auto ip = wire::Ipv4View::check(packet);  // its header checksum, too
    EXPECT_TRUE(ip && ip->total_length() == packet.size());
    source = ip->source();
    destination = ip->destination();
    ip_size = 20;
  }
  const ConstBytes datagram = packet.subspan(ip_size);
  const auto udp = wire::UdpHeader::parse(datagram);
  EXPECT_TRUE(udp && udp->payload_length == datagram.size() - 8U);
  const auto length = static_cast<std::uint32_t>(datagram.size());
  const auto pseudo = wire::pseudo_header_sum(source, destination, wire::protocol_udp, length);
  EXPECT_TRUE(sum_holds(add_sums(pseudo, ilp::sum(datagram))));
  return std::string(as_text(datagram.subspan(8)));
}

class Offload : public testing::TestWithParam<bool> {
 protected:
  StreamSet set_;
};

TEST_P(Offload, AChecksumIsCompleted) {
  for (const std::string text : {"even", "odd", "a longer one of odd length"}) {
    std::vector<std::byte> bytes = unfinished(GetParam(), as_bytes(text));
    OffloadHeader offload;
    offload.checksum_start = static_cast<std::uint16_t>(14 + (GetParam() ? 40 : 20));
    offload.checksum_offset = 6;
    ASSERT_TRUE(complete_checksum(bytes, offload));
    EXPECT_EQ(verified(bytes, GetParam()), text);
  }
}

TEST_P(Offload, ASuperFrameIsSplit) {
  std::string text;
  for (int at = 0; at < 2500; ++at) {
    text += static_cast<char>('a' + at % 26);
  }
  for (const std::size_t segment : {1U, 999U, 1000U, 1250U, 2499U, 2500U, 9000U}) {
    Batch segments;
    ASSERT_TRUE(split_udp(unfinished(GetParam(), as_bytes(text)), segment, set_.pool(), segments));
    EXPECT_EQ(segments.size(), (text.size() + segment - 1) / segment);
    std::string joined;
    std::uint16_t identification = 0xfffe;
    while (const Message one = segments.pop()) {
      if (!GetParam()) {
        EXPECT_EQ(wire::Ipv4View::check(one.bytes().subspan(14))->identification(), identification++);
      }
      joined += verified(one.bytes(), GetParam());
    }
    EXPECT_EQ(joined, text);
  }
}

TEST_P(Offload, WhatContradictsItselfIsRefused) {
  std::vector<std::byte> whole = unfinished(GetParam(), bytes_of("data"));
  OffloadHeader offload;
  offload.checksum_start = static_cast<std::uint16_t>(whole.size() - 1);
  EXPECT_FALSE(complete_checksum(whole, offload));
  offload.checksum_start = 0xffff;
  offload.checksum_offset = 0xffff;
  EXPECT_FALSE(complete_checksum(whole, offload));
  Batch segments;
  EXPECT_FALSE(split_udp(whole, 0, set_.pool(), segments)) << "no segment size";
  for (std::size_t size = 0; size <= whole.size() - 4; ++size) {
    EXPECT_FALSE(split_udp(ConstBytes(whole).first(size), 2, set_.pool(), segments)) << "cut to " << size;
  }
  whole[GetParam() ? 14 + 6 : 14 + 9] = std::byte{wire::protocol_tcp};
  EXPECT_FALSE(split_udp(whole, 2, set_.pool(), segments)) << "not UDP";
  EXPECT_TRUE(segments.empty());
}

INSTANTIATE_TEST_SUITE_P(Families, Offload, testing::Bool(),
                         [](const auto& parameter) { return parameter.param ? "Ipv6" : "Ipv4"; });

}  // namespace
}  // namespace sluice::dlpi::test
