// SPDX-License-Identifier: Apache-2.0
#include "stack/wire/xtp.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/internet_checksum.h"

namespace sluice::wire {
namespace {

using PacketType = XtpHeader::Type;

std::vector<std::byte> xtp_bytes(std::initializer_list<int> values) {
  std::vector<std::byte> result;
  for (const int value : values) {
    result.push_back(static_cast<std::byte>(value));
  }
  return result;
}

std::vector<std::byte> emitted(const XtpHeader& header) {
  std::vector<std::byte> bytes(XtpHeader::size);
  header.emit(bytes);
  return bytes;
}

std::vector<std::byte> emitted(const XtpControl& control, PacketType type) {
  std::vector<std::byte> bytes(control.encoded_size(type));
  control.emit(bytes, type);
  return bytes;
}

XtpControl control_with_spans(std::initializer_list<XtpSpan> spans) {
  XtpControl control;
  control.received = 100;
  control.allocated = 5000;
  control.echo = 7;
  for (const XtpSpan& span : spans) {
    control.spans[control.span_count++] = span;
  }
  return control;
}

template <class T>
XtpMalformed error_of(const std::expected<T, XtpMalformed>& parsed) {
  return parsed ? XtpMalformed::count_ : parsed.error();
}

constexpr XtpHeader sample{.key = 0x8123'4567'89ab'cdef,
                           .options = XtpHeader::fast_nak | XtpHeader::status_now | XtpHeader::end_of_message,
                           .type = PacketType::data,
                           .length = 5,
                           .sort = 0,
                           .sync = 0x0102'0304,
                           .sequence = 0x1'0000'0000};

/// The bytes that docs/formats/xtp.md shows.
TEST(XtpHeader, LiesWhereTheFormatSays) {
  std::vector<std::byte> packet = emitted(sample);
  EXPECT_EQ(packet, xtp_bytes({0x81, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef, 0x00, 0xc4, 0x00,
                               0x20, 0x00, 0x00, 0x00, 0x05, 0x00, 0x00, 0x00, 0x00, 0x01, 0x02,
                               0x03, 0x04, 0x00, 0x00, 0x00, 0x01, 0x00, 0x00, 0x00, 0x00}));
  for (const char letter : std::string_view("hello")) {
    packet.push_back(static_cast<std::byte>(letter));
  }
  store_checksum(packet.data() + XtpHeader::checksum_offset, checksum_of(header_sum(packet)));
  EXPECT_EQ(packet[16], std::byte{0x99});
  EXPECT_EQ(packet[17], std::byte{0x17});
  EXPECT_EQ(XtpHeader::parse(packet, packet.size()), sample);
}

TEST(XtpHeader, WhatIsWrongHasAName) {
  const auto parsed_with = [](std::size_t at, int value, std::size_t packet_size = 37) {
    std::vector<std::byte> bytes = emitted(sample);
    bytes[at] = static_cast<std::byte>(value);
    return error_of(XtpHeader::parse(bytes, packet_size));
  };
  EXPECT_EQ(parsed_with(0, 0x81), XtpMalformed::count_);
  EXPECT_EQ(error_of(XtpHeader::parse(emitted(sample), 31)), XtpMalformed::short_header);
  EXPECT_EQ(error_of(XtpHeader::parse(ConstBytes(emitted(sample)).first(31), 37)), XtpMalformed::short_header);
  EXPECT_EQ(parsed_with(11, 0x40), XtpMalformed::bad_version);
  for (const int type : {4, 6, 7, 9, 31}) {
    EXPECT_EQ(parsed_with(11, 0x20 | type), XtpMalformed::bad_type) << type;
  }
  for (const std::uint32_t option : {0x800000U, 0x200000U, 0x080000U, 0x040000U, 0x000100U, 0x000080U, 0x000001U}) {
    XtpHeader header = sample;
    header.options |= option;
    EXPECT_EQ(error_of(XtpHeader::parse(emitted(header), 37)), XtpMalformed::bad_options) << option;
  }
  EXPECT_EQ(parsed_with(15, 4), XtpMalformed::bad_length);
  EXPECT_EQ(parsed_with(12, 1), XtpMalformed::bad_length);
  EXPECT_EQ(parsed_with(15, 5, 38), XtpMalformed::bad_length);
  XtpHeader header = sample;
  header.key = XtpHeader::return_key;
  EXPECT_EQ(error_of(XtpHeader::parse(emitted(header), 37)), XtpMalformed::bad_key);
  header = sample;
  header.sequence = XtpHeader::sequence_max - 5;
  EXPECT_EQ(error_of(XtpHeader::parse(emitted(header), 37)), XtpMalformed::count_);
  header.sequence += 1;
  EXPECT_EQ(error_of(XtpHeader::parse(emitted(header), 37)), XtpMalformed::bad_sequence);
  header.sequence = UINT64_MAX;
  EXPECT_EQ(error_of(XtpHeader::parse(emitted(header), 37)), XtpMalformed::bad_sequence);
}

TEST(XtpControl, EveryTypeComesBackAsItWas) {
  XtpControl control = control_with_spans({});
  EXPECT_EQ(XtpControl::parse(emitted(control, PacketType::cntl), PacketType::cntl), control);
  EXPECT_EQ(emitted(control, PacketType::cntl).size(), 20U);
  control = control_with_spans({{200, 300}, {301, 302}});
  EXPECT_EQ(XtpControl::parse(emitted(control, PacketType::ecntl), PacketType::ecntl), control);
  EXPECT_EQ(emitted(control, PacketType::ecntl).size(), 56U);
  control = control_with_spans({});
  control.exchanged_key = 0x1122'3344'5566'7788;
  control.traffic = {.data_bytes = 1400, .in_rate = 1, .in_burst = 2, .out_rate = 3, .out_burst = 4};
  EXPECT_EQ(XtpControl::parse(emitted(control, PacketType::tcntl), PacketType::tcntl), control);
  EXPECT_EQ(emitted(control, PacketType::tcntl).size(), 56U);
}

TEST(XtpControl, LengthsThatLie) {
  for (const PacketType type : {PacketType::cntl, PacketType::ecntl, PacketType::tcntl}) {
    XtpControl control = control_with_spans({});
    if (type == PacketType::ecntl) {
      control = control_with_spans({{200, 300}, {400, 500}});
    }
    control.exchanged_key = 1;
    std::vector<std::byte> bytes = emitted(control, type);
    for (std::size_t size = 0; size < bytes.size(); ++size) {
      EXPECT_FALSE(XtpControl::parse(ConstBytes(bytes).first(size), type)) << size;
    }
    bytes.push_back(std::byte{0});
    EXPECT_FALSE(XtpControl::parse(bytes, type));
  }
}

TEST(XtpControl, SpansThatLie) {
  const auto parsed = [](std::initializer_list<XtpSpan> spans) {
    return error_of(XtpControl::parse(emitted(control_with_spans(spans), PacketType::ecntl), PacketType::ecntl));
  };
  EXPECT_EQ(parsed({{101, 102}}), XtpMalformed::count_);
  EXPECT_EQ(parsed({{100, 102}}), XtpMalformed::bad_spans);              // not behind a gap
  EXPECT_EQ(parsed({{50, 60}}), XtpMalformed::bad_spans);                // before rseq
  EXPECT_EQ(parsed({{200, 200}}), XtpMalformed::bad_spans);              // empty
  EXPECT_EQ(parsed({{300, 200}}), XtpMalformed::bad_spans);              // the wrong way around
  EXPECT_EQ(parsed({{200, 300}, {300, 400}}), XtpMalformed::bad_spans);  // one span
  EXPECT_EQ(parsed({{200, 300}, {250, 400}}), XtpMalformed::bad_spans);  // overlapping
  EXPECT_EQ(parsed({{400, 500}, {200, 300}}), XtpMalformed::bad_spans);  // out of order
  EXPECT_EQ(parsed({{200, UINT64_MAX}}), XtpMalformed::bad_spans);
  // The count, alone.
  std::vector<std::byte> bytes = emitted(control_with_spans({{200, 300}}), PacketType::ecntl);
  for (const std::uint32_t count : {0U, 2U, 65U, 0x1000'0001U, UINT32_MAX}) {
    store_big_endian(bytes.data() + 20, count);
    EXPECT_EQ(error_of(XtpControl::parse(bytes, PacketType::ecntl)), XtpMalformed::bad_spans) << count;
  }
}

TEST(XtpControl, NumbersThatLie) {
  XtpControl control = control_with_spans({});
  control.allocated = 99;
  EXPECT_EQ(error_of(XtpControl::parse(emitted(control, PacketType::cntl), PacketType::cntl)),
            XtpMalformed::bad_sequence);
  control.allocated = XtpHeader::sequence_max + 1;
  EXPECT_EQ(error_of(XtpControl::parse(emitted(control, PacketType::cntl), PacketType::cntl)),
            XtpMalformed::bad_sequence);
  control.received = control.allocated;
  EXPECT_EQ(error_of(XtpControl::parse(emitted(control, PacketType::cntl), PacketType::cntl)),
            XtpMalformed::bad_sequence);
  control = control_with_spans({});
  EXPECT_EQ(error_of(XtpControl::parse(emitted(control, PacketType::tcntl), PacketType::tcntl)), XtpMalformed::bad_key);
  control.exchanged_key = XtpHeader::return_key | 1;
  EXPECT_EQ(error_of(XtpControl::parse(emitted(control, PacketType::tcntl), PacketType::tcntl)), XtpMalformed::bad_key);
}

TEST(XtpFirst, BothFormsOfAddress) {
  XtpFirst first{.to = {Ipv4Address{{10, 0, 0, 1}}, 7000},
                 .from = {Ipv4Address{{10, 0, 0, 2}}, 7001},
                 .traffic = {.data_bytes = 1400, .out_rate = 1'000'000, .out_burst = 4096}};
  std::vector<std::byte> bytes(first.encoded_size());
  EXPECT_EQ(bytes.size(), 40U);
  first.emit(bytes);
  auto parsed = XtpFirst::parse(bytes);
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->to, first.to);
  EXPECT_EQ(parsed->from, first.from);
  EXPECT_EQ(parsed->traffic, first.traffic);
  first.to = {Ipv6Address{}, 7000};
  bytes.resize(first.encoded_size());
  EXPECT_EQ(bytes.size(), 32U);
  first.emit(bytes);
  parsed = XtpFirst::parse(bytes);
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->traffic, first.traffic);
}

TEST(XtpFirst, SegmentsThatLie) {
  const XtpFirst first{.to = {Ipv4Address{{10, 0, 0, 1}}, 7000}, .from = {}, .traffic = {}};
  std::vector<std::byte> whole(first.encoded_size());
  first.emit(whole);
  for (std::size_t size = 0; size < whole.size(); ++size) {
    EXPECT_FALSE(XtpFirst::parse(ConstBytes(whole).first(size))) << size;
  }
  const auto parsed_with = [&](std::size_t at, int value) {
    std::vector<std::byte> bytes = whole;
    bytes[at] = static_cast<std::byte>(value);
    return error_of(XtpFirst::parse(bytes));
  };
  EXPECT_EQ(parsed_with(1, 8), XtpMalformed::bad_address);
  EXPECT_EQ(parsed_with(0, 1), XtpMalformed::bad_address);
  EXPECT_EQ(parsed_with(3, 6), XtpMalformed::bad_address);
  EXPECT_EQ(parsed_with(17, 8), XtpMalformed::bad_traffic);
  EXPECT_EQ(parsed_with(19, 0), XtpMalformed::bad_traffic);
  EXPECT_EQ(parsed_with(23, 63), XtpMalformed::bad_traffic);  // packets that are all header
  EXPECT_EQ(parsed_with(23, 64), XtpMalformed::count_);
}

TEST(XtpDiagnosis, ComesBackAsItWas) {
  const XtpDiagnosis diagnosis{.code = XtpDiagnosis::Code::refused, .value = XtpDiagnosis::Value::no_listener};
  std::vector<std::byte> bytes(XtpDiagnosis::size);
  diagnosis.emit(bytes);
  EXPECT_EQ(bytes, xtp_bytes({0, 0, 0, 1, 0, 0, 0, 1}));
  EXPECT_EQ(XtpDiagnosis::parse(bytes), diagnosis);
  EXPECT_EQ(error_of(XtpDiagnosis::parse(ConstBytes(bytes).first(7))), XtpMalformed::bad_segment);
}

TEST(XtpMalformedNames, AreDifferent) {
  for (std::size_t a = 0; a < static_cast<std::size_t>(XtpMalformed::count_); ++a) {
    for (std::size_t b = 0; b < a; ++b) {
      EXPECT_NE(name_of(static_cast<XtpMalformed>(a)), name_of(static_cast<XtpMalformed>(b)));
    }
  }
}

}  // namespace
}  // namespace sluice::wire
