// SPDX-License-Identifier: Apache-2.0
#include "dlpi/offload.h"

#include <optional>

#include "dlpi/super_frame.h"

#include "ilp/kernels.h"
#include "stack/wire/ipv6.h"
#include "stack/wire/tcp.h"
#include "tests/dlpi/test_stream.h"

namespace sluice::dlpi::test {
namespace {

constexpr wire::MacAddress mac{{0x02, 0, 0, 0, 0, 1}};

struct Kind {
  bool v6 = false;
  bool tcp = false;

  [[nodiscard]] std::uint8_t protocol() const { return tcp ? wire::protocol_tcp : wire::protocol_udp; }
  [[nodiscard]] std::size_t transport() const { return 14U + (v6 ? 40 : 20); }
  /// TCP's with timestamps.
  [[nodiscard]] std::size_t headers() const { return transport() + (tcp ? 32 : 8); }
  [[nodiscard]] std::size_t checksum_offset() const { return tcp ? 16 : 6; }
  [[nodiscard]] std::uint8_t segment_type() const { return !tcp ? 5 : v6 ? 4 : 1; }
};

constexpr std::uint32_t sequence_begin = 0xffff'fff0U;  // it wraps
constexpr std::uint8_t flags_of_whole = wire::tcp_cwr | wire::tcp_ack | wire::tcp_psh | wire::tcp_fin;

/// The transport's header for all of `data`, the checksum field with the pseudo-header's sum.
void put_transport(const Kind& kind, const wire::IpAddress& source, const wire::IpAddress& destination,
                   std::size_t data, Bytes out) {
  const std::size_t header = kind.headers() - kind.transport();
  const auto length = static_cast<std::uint16_t>(header + data);
  const std::uint16_t pseudo = wire::pseudo_header_sum(source, destination, kind.protocol(), length);
  if (!kind.tcp) {
    return wire::UdpHeader{
        .source_port = 1, .destination_port = 2, .payload_length = static_cast<std::uint16_t>(data), .checksum = pseudo}
        .emit(out);
  }
  wire::TcpHeader{.source_port = 1,
                  .destination_port = 2,
                  .sequence = sequence_begin,
                  .acknowledgment = 77,
                  .header_size = static_cast<std::uint8_t>(header),
                  .flags = flags_of_whole,
                  .window = 500,
                  .checksum = pseudo}
      .emit(out);
  const wire::TcpOptions options{.timestamps = wire::TcpOptions::Timestamps{123, 456}};
  ASSERT_EQ(options.encode(out.subspan(wire::TcpHeader::size_min)), header - wire::TcpHeader::size_min);
}

/// A frame as a local sender leaves it: one header for all of `data`.
std::vector<std::byte> unfinished(const Kind& kind, ConstBytes data) {
  const std::size_t ip_size = kind.transport() - 14;
  const std::size_t header = kind.headers() - kind.transport();
  std::vector<std::byte> packet(ip_size + header + data.size());
  wire::IpAddress source = wire::Ipv4Address{{10, 0, 0, 2}};
  wire::IpAddress destination = wire::Ipv4Address{{10, 0, 0, 1}};
  const auto length = static_cast<std::uint16_t>(header + data.size());
  if (kind.v6) {
    source = *wire::Ipv6Address::from_text("fd00::2");
    destination = *wire::Ipv6Address::from_text("fd00::1");
    wire::Ipv6Header ip;
    ip.payload_length = length;
    ip.next_header = kind.protocol();
    ip.source = source.v6();
    ip.destination = destination.v6();
    ip.emit(packet);
  } else {
    wire::Ipv4Header ip;
    ip.payload_length = length;
    ip.protocol = kind.protocol();
    ip.identification = 0xfffe;
    ip.source = source.v4();
    ip.destination = destination.v4();
    ip.emit(packet);
  }
  put_transport(kind, source, destination, data.size(), Bytes(packet).subspan(ip_size));
  std::ranges::copy(data, packet.begin() + static_cast<std::ptrdiff_t>(ip_size + header));
  return frame(mac, kind.v6 ? wire::ethertype_ipv6 : wire::ethertype_ipv4, packet);
}

/// The data of a finished frame whose lengths and checksums all hold.
std::string verified(ConstBytes finished, const Kind& kind) {
  const ConstBytes packet = finished.subspan(14);
  wire::IpAddress source;
  wire::IpAddress destination;
  if (kind.v6) {
    const auto ip = wire::Ipv6View::check(packet);
    EXPECT_TRUE(ip && ip->payload_length() == packet.size() - 40);
    source = ip->source();
    destination = ip->destination();
  } else {
    const auto ip = wire::Ipv4View::check(packet);  // its header checksum, too
    EXPECT_TRUE(ip && ip->total_length() == packet.size());
    source = ip->source();
    destination = ip->destination();
  }
  const ConstBytes datagram = finished.subspan(kind.transport());
  if (!kind.tcp) {
    const auto udp = wire::UdpHeader::parse(datagram);
    EXPECT_TRUE(udp && udp->payload_length == datagram.size() - 8U);
  }
  const auto length = static_cast<std::uint32_t>(datagram.size());
  const auto pseudo = wire::pseudo_header_sum(source, destination, kind.protocol(), length);
  EXPECT_TRUE(sum_holds(add_sums(pseudo, ilp::sum(datagram))));
  return std::string(as_text(finished.subspan(kind.headers())));
}

/// What the headers of TCP of the frames of a super-frame say, one after the other.
void expect_tcp_header(ConstBytes finished, const Kind& kind, std::size_t offset, bool last) {
  const ConstBytes segment = finished.subspan(kind.transport());
  const auto header = wire::TcpHeader::parse(segment, segment.size()).value();
  EXPECT_EQ(header.sequence, sequence_begin + static_cast<std::uint32_t>(offset));
  EXPECT_EQ(header.acknowledgment, 77U);
  EXPECT_EQ(header.window, 500U);
  EXPECT_EQ(header.flags, wire::tcp_ack | (last ? wire::tcp_psh | wire::tcp_fin : 0) |
                              (offset == 0 ? static_cast<int>(wire::tcp_cwr) : 0));
  const auto options = wire::TcpOptions::parse(segment.subspan(20, 12));
  EXPECT_EQ(options.timestamps, (wire::TcpOptions::Timestamps{123, 456}));
}

class Offload : public testing::TestWithParam<Kind> {
 protected:
  [[nodiscard]] static std::size_t headers() { return GetParam().headers(); }
  [[nodiscard]] static OffloadHeader offload(unsigned segment) {
    return {.flags = OffloadHeader::needs_checksum,
            .segment_type = GetParam().segment_type(),
            .segment_size = static_cast<std::uint16_t>(segment),
            .checksum_start = static_cast<std::uint16_t>(GetParam().transport()),
            .checksum_offset = static_cast<std::uint16_t>(GetParam().checksum_offset())};
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
    offload.checksum_start = static_cast<std::uint16_t>(GetParam().transport());
    offload.checksum_offset = static_cast<std::uint16_t>(GetParam().checksum_offset());
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
        if (!GetParam().v6) {
          EXPECT_EQ(wire::Ipv4View::check(one.bytes().subspan(14))->identification(), identification++);
        }
        if (GetParam().tcp) {
          expect_tcp_header(one.bytes(), GetParam(), joined.size(), segments.empty());
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
  EXPECT_EQ(again.segment_type, GetParam().segment_type());
  EXPECT_EQ(again.segment_size, 4);
  EXPECT_EQ(again.checksum_start, GetParam().transport());
  EXPECT_EQ(again.checksum_offset, GetParam().checksum_offset());
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
  for (const unsigned type : {3U, 6U, 0x20U, 0x40U, 0x7fU}) {
    OffloadHeader lie = right;
    lie.segment_type = static_cast<std::uint8_t>(type);
    EXPECT_EQ(error_of(whole, lie), SuperFrameError::unsupported) << "type " << type;
  }
  for (const unsigned type : {1U, 4U, 5U}) {
    OffloadHeader lie = right;
    lie.segment_type = static_cast<std::uint8_t>(type);
    const bool truth = type == right.segment_type;
    EXPECT_EQ(error_of(whole, lie), truth ? std::nullopt : std::optional(SuperFrameError::malformed)) << type;
    lie.segment_type |= OffloadHeader::segment_ecn_flag;
    EXPECT_EQ(error_of(whole, lie), truth ? std::nullopt : std::optional(SuperFrameError::malformed)) << type;
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
  const std::size_t transport = GetParam().transport();
  EXPECT_EQ(error_of(changed(13, 0x01), right), SuperFrameError::malformed) << "another EtherType";
  EXPECT_EQ(error_of(changed(ip + (GetParam().v6 ? 6 : 9), GetParam().tcp ? 17 : 6), right),
            SuperFrameError::malformed);
  EXPECT_EQ(error_of(changed(ip + (GetParam().v6 ? 5 : 3), 0xff), right), SuperFrameError::malformed) << "IP length";
  if (GetParam().tcp) {
    for (const unsigned words : {0U, 4U, 15U}) {  // of the header: none, too few, and more than there is
      EXPECT_EQ(error_of(changed(transport + 12, words << 4), right), SuperFrameError::malformed) << words;
    }
    for (const unsigned flag : {wire::tcp_syn, wire::tcp_rst}) {
      EXPECT_EQ(error_of(changed(transport + 13, wire::tcp_ack | flag), right), SuperFrameError::malformed) << flag;
    }
  } else {
    EXPECT_EQ(error_of(changed(transport + 5, 16), right), SuperFrameError::malformed) << "UDP length";
    EXPECT_EQ(error_of(changed(transport + 5, 18), right), SuperFrameError::malformed) << "UDP length";
  }
  EXPECT_EQ(error_of(changed(ip, GetParam().v6 ? 0x50 : 0x46), right), SuperFrameError::malformed) << "version";
  if (!GetParam().v6) {
    EXPECT_EQ(error_of(changed(ip + 6, 0x20), right), SuperFrameError::malformed) << "a fragment";
  }
  EXPECT_EQ(error_of(unfinished(GetParam(), {}), right), SuperFrameError::malformed) << "no data";
  const std::size_t most = super_frame_segments_max(GetParam().protocol());
  const std::vector<std::byte> many(most + 1);
  EXPECT_EQ(error_of(unfinished(GetParam(), many), offload(1)), SuperFrameError::malformed) << "too many";
  EXPECT_TRUE(read_super_frame(unfinished(GetParam(), std::span(many).first(most)), offload(1)));
}

/// More than fit one pass: what is owed is carried out first.
TEST_P(Offload, ManySmallSegmentsAreSplitAsWell) {
  if (!GetParam().tcp) {
    return;
  }
  const std::string text(3 * super_frame_datagrams_max, 'x');
  Batch segments;
  ASSERT_TRUE(split_super_frame(super_frame(as_bytes(text), 1, true), segments));
  EXPECT_EQ(segments.size(), text.size());
  for (std::size_t offset = 0; Message one = segments.pop(); ++offset) {
    ASSERT_TRUE(one.pull_up(one.size()));
    EXPECT_EQ(verified(one.bytes(), GetParam()), "x");
    expect_tcp_header(one.bytes(), GetParam(), offset, segments.empty());
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
}

INSTANTIATE_TEST_SUITE_P(Families, Offload,
                         testing::Values(Kind{false, false}, Kind{true, false}, Kind{false, true}, Kind{true, true}),
                         [](const auto& parameter) {
                           return std::string(parameter.param.v6 ? "Ipv6" : "Ipv4") +
                                  (parameter.param.tcp ? "Tcp" : "Udp");
                         });

}  // namespace
}  // namespace sluice::dlpi::test
