// SPDX-License-Identifier: Apache-2.0
#include "stack/wire/rmpp.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <optional>
#include <vector>

#include "base/internet_checksum.h"

namespace sluice::wire {
namespace {

using Type = RmppHeader::Type;

std::vector<std::byte> packet_of(const RmppHeader& header) {
  std::vector<std::byte> bytes(RmppHeader::size + header.length);
  header.emit(bytes);
  return bytes;
}

RmppHeader request() {
  return {.type = Type::request,
          .source_incarnation = 0x01020304,
          .destination_incarnation = 0,
          .number = 7,
          .packet_bytes = 1400,
          .length = 5,
          .total_bytes = 5,
          .tag = 0x1122334455667788};
}

std::optional<RmppMalformed> error_of(const RmppHeader& header) {
  const auto parsed = RmppHeader::parse(packet_of(header));
  return parsed ? std::nullopt : std::optional(parsed.error());
}

/// The worked example of docs/formats/rmpp.md, byte by byte.
TEST(RmppWire, TheDocumentsExample) {
  constexpr std::array<unsigned, 69> example = {
      0x01, 0x01, 0x00, 0x00, 0x01, 0x02, 0x03, 0x04, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x07,  //
      0x00, 0x00, 0x05, 0x78, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x05, 0x00, 0x00, 0x00, 0x00,  //
      0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x05, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88,  //
      0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xf8, 0xff, 0xff, 0xff, 0xff, 0xff, 0xfa, 0xe5, 0x26,  //
      'h',  'e',  'l',  'l',  'o'};
  std::vector<std::byte> bytes = packet_of(request());
  std::memcpy(bytes.data() + RmppHeader::size, "hello", 5);
  for (std::size_t at = 0; at < example.size(); ++at) {
    EXPECT_EQ(std::to_integer<unsigned>(bytes[at]), example[at]) << at;
  }
  ASSERT_EQ(bytes.size(), example.size());
  ASSERT_TRUE(RmppHeader::parse(bytes).has_value());
  EXPECT_EQ(*RmppHeader::parse(bytes), request());
}

TEST(RmppWire, EveryBitOfTheHeaderIsProtected) {
  const std::vector<std::byte> good = packet_of(request());
  for (std::size_t bit = 0; bit < RmppHeader::size * 8; ++bit) {
    std::vector<std::byte> bytes = good;
    bytes[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
    EXPECT_FALSE(RmppHeader::parse(bytes).has_value()) << bit;
  }
}

TEST(RmppWire, APacketThatIsCutShortIsNone) {
  const std::vector<std::byte> good = packet_of(request());
  for (std::size_t size = 0; size < good.size(); ++size) {
    const auto parsed = RmppHeader::parse(ConstBytes(good).first(size));
    ASSERT_FALSE(parsed.has_value());
    EXPECT_EQ(parsed.error(), size < RmppHeader::size ? RmppMalformed::short_header : RmppMalformed::bad_length);
  }
}

TEST(RmppWire, KeyFieldsAreThereTwice) {
  std::vector<std::byte> bytes = packet_of(request());
  bytes[15] = std::byte{8};  // the number, and a checksum that fits
  store_checksum(bytes.data() + 62, 0);
  store_checksum(bytes.data() + 62, checksum_of(header_sum(ConstBytes(bytes).first(RmppHeader::size))));
  EXPECT_EQ(RmppHeader::parse(bytes).error(), RmppMalformed::bad_copy);
}

TEST(RmppWire, EveryLieHasAName) {
  struct Row {
    void (*lie)(RmppHeader&);
    RmppMalformed name;
  };
  const Row rows[] = {
      {[](RmppHeader& h) { h.type = Type{0}; }, RmppMalformed::bad_type},
      {[](RmppHeader& h) { h.type = Type{7}; }, RmppMalformed::bad_type},
      {[](RmppHeader& h) { h.flags = 3; }, RmppMalformed::bad_flags},
      {[](RmppHeader& h) { h.length = 4; }, RmppMalformed::bad_length},
      {[](RmppHeader& h) { h.total_bytes = 4; }, RmppMalformed::bad_length},
      {[](RmppHeader& h) { h.total_bytes = 6; }, RmppMalformed::bad_length},
      {[](RmppHeader& h) { h.packet_bytes = 63; }, RmppMalformed::bad_total},
      {[](RmppHeader& h) { h.packet_bytes = 0; }, RmppMalformed::bad_total},
      {[](RmppHeader& h) { h.total_bytes = ~std::uint64_t{0}; }, RmppMalformed::bad_total},
      {[](RmppHeader& h) { h.index = 1; }, RmppMalformed::bad_index},
      {[](RmppHeader& h) { h.type = Type::data; }, RmppMalformed::bad_index},
      {[](RmppHeader& h) { h.grant = 1; }, RmppMalformed::bad_grant},
      {[](RmppHeader& h) { h.type = Type::end; }, RmppMalformed::bad_length},
      {[](RmppHeader& h) { h = {.type = Type::clear, .packet_bytes = 1400, .total_bytes = 2000}; },
       RmppMalformed::bad_grant},
      {[](RmppHeader& h) {
         h = {.type = Type::clear, .packet_bytes = 1400, .index = 1, .grant = 2, .total_bytes = 2000};
       },
       RmppMalformed::bad_grant},
      {[](RmppHeader& h) { h = {.type = Type::data, .packet_bytes = 1400, .index = 2, .total_bytes = 2000}; },
       RmppMalformed::bad_index},
  };
  for (const Row& row : rows) {
    RmppHeader header = request();
    row.lie(header);
    EXPECT_EQ(error_of(header), row.name) << &row - rows;
  }
}

TEST(RmppWire, IndicationsAndRequestsKeepTheirValues) {
  std::array<std::byte, message::Indication::size> bytes;
  const message::Indication indication{message::Indication::Kind::failed, 1, 2, 3, 4, 5, 6, 7};
  indication.store(bytes.data());
  EXPECT_EQ(message::Indication::load(bytes.data()).value(), indication);
  bytes[0] = bytes[3] = std::byte{9};
  EXPECT_FALSE(message::Indication::load(bytes.data()).has_value());
  message::Request{10, 11}.store(bytes.data());
  EXPECT_EQ(message::Request::load(bytes.data()), (message::Request{10, 11}));
}

TEST(RmppWire, DecisionsKeepTheirValuesAndOthersAreNone) {
  using message::Decision;
  std::array<std::byte, Decision::size> bytes;
  for (const char* const peer : {"10.0.0.1:7", "[fd00::1]:65535"}) {
    const Decision decision{Decision::Kind::refuses, *TransportAddress::from_text(peer), 0xffff'ffff, 3};
    EXPECT_EQ(decision.encode(bytes), Decision::size);
    EXPECT_EQ(Decision::decode(bytes), decision);
  }
  EXPECT_EQ(Decision::decode(ConstBytes(bytes).first(Decision::size - 1)), std::nullopt);
  for (const std::size_t at : {std::size_t{0}, std::size_t{4}, std::size_t{16}, std::size_t{17}}) {
    auto wrong = bytes;
    wrong[at] ^= std::byte{0x7f};
    EXPECT_EQ(Decision::decode(wrong), std::nullopt) << at;
  }
}

}  // namespace
}  // namespace sluice::wire
