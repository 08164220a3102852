// SPDX-License-Identifier: Apache-2.0
#include "dlpi/offload.h"

#include <optional>

#include "dlpi/super_frame.h"

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
  [[nodiscard]] static std::size_t headers() { return GetParam() ? 14 + 40 + 8 : 14 + 20 + 8; }
  [[nodiscard]] static OffloadHeader offload(unsigned segment) {
    return {.flags = OffloadHeader::needs_checksum,
            .segment_type = OffloadHeader::segment_udp,
            .segment_size = static_cast<std::uint16_t>(segment),
            .checksum_start = static_cast<std::uint16_t>(headers() - 8),
            .checksum_offset = 6};
  }
  /// The message that a driver makes of such a frame.
  Message super_frame(ConstBytes data, unsigned segment, bool fused) {
    const std::vector<std::byte> bytes = unfinished(GetParam(), data);
    const auto unitdata = read_super_frame(bytes, offload(segment));
    EXPECT_TRUE(unitdata);
    Message message = Message::of_native(set_.pool(), unitdata.value_or(wire::DataUnit{}));
    message.link(Message::copy_of(set_.pool(), bytes));
    if (fused) {
      message.defer();
    }
    return message;
  }

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
  for (const bool fused : {false, true}) {
    for (const unsigned segment : {20U, 999U, 1000U, 1250U, 2499U, 2500U, 9000U}) {
      Message frame = super_frame(as_bytes(text), segment, fused);
      ASSERT_EQ(segments_in(frame), (text.size() + segment - 1) / segment);
      const Touches before = set_.pool().touches();
      Batch segments;
      ASSERT_TRUE(split_super_frame(std::move(frame), segments));
      EXPECT_EQ(segments.size(), (text.size() + segment - 1) / segment);
      // Each byte is loaded once: to be summed, on a fused path on its way to the frame.
      EXPECT_EQ(set_.pool().touches().loaded_bytes - before.loaded_bytes, text.size() + (fused ? headers() : 0));
      EXPECT_EQ(set_.pool().touches().stored_bytes - before.stored_bytes, fused ? text.size() + headers() : 0);
      std::string joined;
      std::uint16_t identification = 0xfffe;
      while (Message one = segments.pop()) {
        ASSERT_TRUE(one.pull_up(one.size()));
        if (!GetParam()) {
          EXPECT_EQ(wire::Ipv4View::check(one.bytes().subspan(14))->identification(), identification++);
        }
        joined += verified(one.bytes(), GetParam());
      }
      EXPECT_EQ(joined, text);
    }
  }
}

TEST_P(Offload, ASuperFrameTravelsAsItCame) {
  const Message frame = super_frame(bytes_of("one two three"), 4, false);
  const OffloadHeader again = offload_of(frame);
  EXPECT_EQ(again.flags, OffloadHeader::needs_checksum);
  EXPECT_EQ(again.segment_type, OffloadHeader::segment_udp);
  EXPECT_EQ(again.segment_size, 4);
  EXPECT_EQ(again.checksum_start, headers() - 8);
  EXPECT_EQ(again.checksum_offset, 6);
  EXPECT_EQ(again.header_length, headers());
}

/// What a device says of a super-frame is compared with its headers, each field with each lie.
TEST_P(Offload, ASuperFrameThatLiesIsMalformed) {
  const std::vector<std::byte> whole = unfinished(GetParam(), bytes_of("some data"));
  const OffloadHeader right = offload(3);
  ASSERT_TRUE(read_super_frame(whole, right));
  const auto error_of = [](ConstBytes bytes, const OffloadHeader& said) {
    const auto read = read_super_frame(bytes, said);
    return read ? std::nullopt : std::optional(read.error());
  };
  for (std::size_t size = 0; size < whole.size(); ++size) {
    EXPECT_EQ(error_of(ConstBytes(whole).first(size), right), SuperFrameError::malformed) << "cut to " << size;
  }
  std::vector<std::byte> longer = whole;
  longer.push_back(std::byte{0});
  EXPECT_EQ(error_of(longer, right), SuperFrameError::malformed) << "padded";
  for (const unsigned type : {1U, 3U, 4U, 6U, 0x20U, 0x40U, 0x7fU}) {
    OffloadHeader lie = right;
    lie.segment_type = static_cast<std::uint8_t>(type);
    EXPECT_EQ(error_of(whole, lie), SuperFrameError::unsupported) << "type " << type;
  }
  OffloadHeader lie = right;
  lie.segment_size = 0;
  EXPECT_EQ(error_of(whole, lie), SuperFrameError::malformed) << "no segment size";
  for (const int by : {-1, 1, -14, 1000, 0x7fff}) {
    lie = right;
    lie.checksum_start = static_cast<std::uint16_t>(lie.checksum_start + by);
    EXPECT_EQ(error_of(whole, lie), SuperFrameError::malformed) << "start " << by;
    lie = right;
    lie.checksum_offset = static_cast<std::uint16_t>(lie.checksum_offset + by);
    EXPECT_EQ(error_of(whole, lie), SuperFrameError::malformed) << "offset " << by;
  }
  lie = right;
  lie.flags = 0;
  EXPECT_EQ(error_of(whole, lie), SuperFrameError::unsupported) << "nobody says that the sums hold";
  const auto changed = [&](std::size_t at, unsigned value) {
    std::vector<std::byte> bytes = whole;
    bytes[at] = static_cast<std::byte>(value);
    return bytes;
  };
  const std::size_t ip = 14;
  const std::size_t udp = headers() - 8;
  EXPECT_EQ(error_of(changed(13, 0x01), right), SuperFrameError::malformed) << "another EtherType";
  EXPECT_EQ(error_of(changed(ip + (GetParam() ? 6 : 9), wire::protocol_tcp), right), SuperFrameError::malformed);
  EXPECT_EQ(error_of(changed(ip + (GetParam() ? 5 : 3), 0xff), right), SuperFrameError::malformed) << "IP length";
  EXPECT_EQ(error_of(changed(udp + 5, 16), right), SuperFrameError::malformed) << "UDP length";
  EXPECT_EQ(error_of(changed(udp + 5, 18), right), SuperFrameError::malformed) << "UDP length";
  EXPECT_EQ(error_of(changed(ip, GetParam() ? 0x50 : 0x46), right), SuperFrameError::malformed) << "version, options";
  if (!GetParam()) {
    EXPECT_EQ(error_of(changed(ip + 6, 0x20), right), SuperFrameError::malformed) << "a fragment";
  }
  EXPECT_EQ(error_of(unfinished(GetParam(), {}), right), SuperFrameError::malformed) << "no data";
  const std::vector<std::byte> many(super_frame_segments_max + 1);
  EXPECT_EQ(error_of(unfinished(GetParam(), many), offload(1)), SuperFrameError::malformed) << "too many";
  EXPECT_TRUE(read_super_frame(unfinished(GetParam(), std::span(many).first(super_frame_segments_max)), offload(1)));
}

TEST_P(Offload, WhatContradictsItselfIsRefused) {
  std::vector<std::byte> whole = unfinished(GetParam(), bytes_of("data"));
  OffloadHeader offload;
  offload.checksum_start = static_cast<std::uint16_t>(whole.size() - 1);
  EXPECT_FALSE(complete_checksum(whole, offload));
  offload.checksum_start = 0xffff;
  offload.checksum_offset = 0xffff;
  EXPECT_FALSE(complete_checksum(whole, offload));
}

INSTANTIATE_TEST_SUITE_P(Families, Offload, testing::Bool(),
                         [](const auto& parameter) { return parameter.param ? "Ipv6" : "Ipv4"; });

}  // namespace
}  // namespace sluice::dlpi::test
