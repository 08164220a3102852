// SPDX-License-Identifier: Apache-2.0
#include "stack/wire/ipv6.h"

#include <gtest/gtest.h>

#include "tests/stack/wire/bytes.h"

namespace sluice::wire {
namespace {

using namespace test;  // bytes.h

const Ipv6Header plain_v6{.traffic_class = 0xa5,
                          .flow_label = 0x12345,
                          .payload_length = 4,
                          .next_header = protocol_udp,
                          .hop_limit = 63,
                          .source = Ipv6Address::from_text("fd00::1").value(),
                          .destination = Ipv6Address::from_text("fd00::2").value()};

Buffer emitted(const Ipv6Header& header) {
  Buffer packet(Ipv6Header::size + header.payload_length);
  header.emit(packet);
  return packet;
}

TEST(Ipv6, RoundTrips) {
  const Buffer packet = emitted(plain_v6);
  EXPECT_EQ(first(packet, Ipv6Header::size),
            hex("6a512345 0004 11 3f fd000000000000000000000000000001 fd000000000000000000000000000002"));
  EXPECT_EQ(Ipv6Header::parse(packet), plain_v6);
}

TEST(Ipv6, MalformedHeadersAreNamed) {
  const Buffer good = emitted(plain_v6);
  EXPECT_EQ(Ipv6Header::parse(first(good, 39)).error(), Ipv6Malformed::short_header);
  EXPECT_EQ(Ipv6Header::parse(with(good, 0, 0x4a)).error(), Ipv6Malformed::bad_version);
  EXPECT_EQ(Ipv6Header::parse(with(good, 5, 5)).error(), Ipv6Malformed::bad_payload_length);
  EXPECT_EQ(Ipv6View::check(first(good, 40)).error(), Ipv6Malformed::bad_payload_length);
  EXPECT_TRUE(Ipv6View::check(first(good, 40), 44));
  EXPECT_TRUE(Ipv6View::check_quoted(first(good, 40)));
  EXPECT_TRUE(Ipv6Header::parse(good + hex("0000")));
}

TEST(Ipv6Fragment, RoundTrips) {
  const Ipv6FragmentHeader header{protocol_udp, 1448, true, 0xdeadbeef};
  Buffer bytes(Ipv6FragmentHeader::size);
  header.emit(bytes);
  EXPECT_EQ(bytes, hex("11 00 05a9 deadbeef"));
  EXPECT_EQ(Ipv6FragmentHeader::parse(bytes), header);
  // RFC 8200 section 4.5: reserved bits are "ignored on reception".
  EXPECT_EQ(Ipv6FragmentHeader::parse(with(with(bytes, 1, 0xff), 3, 0xaf)), header);
  EXPECT_FALSE(Ipv6FragmentHeader::parse(first(bytes, 7)));
}

std::expected<Ipv6Extensions, Ipv6ExtensionError> walk(std::uint8_t next_header, const Buffer& payload) {
  return walk_extensions(next_header, payload, payload.size());
}

TEST(Ipv6Extensions, NoneIsTheUsualCase) {
  EXPECT_EQ(walk(protocol_udp, hex("0001")), (Ipv6Extensions{protocol_udp, 0, 6, {}}));
  EXPECT_EQ(walk(protocol_ipv6_no_next, {}), (Ipv6Extensions{protocol_ipv6_no_next, 0, 6, {}}));
}

TEST(Ipv6Extensions, OptionsArePassedOver) {
  // Hop-by-hop (PadN 4), destination options of 16 bytes (Pad1, an unknown option of kind 00, PadN), routing with no
  // segments left, then UDP.
  const Buffer payload = hex("3c 00 01 04 00000000") + hex("2b 01 00 1e 02 aabb 01 07 00000000000000") +
                         hex("11 00 04 00 00000000") + hex("cafe");
  const auto found = walk(protocol_hop_by_hop, payload);
  ASSERT_TRUE(found);
  EXPECT_EQ(*found, (Ipv6Extensions{protocol_udp, 32, 40 + 24, {}}));
}

TEST(Ipv6Extensions, TheWalkStopsAtAFragmentHeader) {
  const Buffer payload = hex("2c 00 01 04 00000000") + hex("11 00 0009 00000007") + Buffer(16);
  const auto found = walk(protocol_ipv6_destination, payload);
  ASSERT_TRUE(found);
  EXPECT_EQ(*found, (Ipv6Extensions{protocol_udp, 16, 48, Ipv6FragmentHeader{protocol_udp, 8, true, 7}}));
}

struct Problem {
  const char* why;
  std::uint8_t next_header;
  Buffer payload;
  Ipv6ExtensionError error;
};

TEST(Ipv6Extensions, ProblemsAreNamedWithTheirPlace) {
  using enum Ipv6ExtensionProblem;
  const Buffer padding = hex("3c 00 01 04 00000000");
  Buffer many;
  for (int header = 0; header < extension_headers_max + 1; ++header) {
    many = many + padding;
  }
  for (const auto& [why, next_header, payload, error] : {
           Problem{"no header there", protocol_hop_by_hop, {}, {short_header, 40}},
           Problem{"7 bytes", protocol_hop_by_hop, first(padding, 7), {short_header, 40}},
           Problem{"length beyond the payload", protocol_ipv6_destination, with(padding, 1, 1), {short_header, 40}},
           Problem{"option beyond its header", protocol_ipv6_destination, with(padding, 3, 5), {short_header, 40}},
           Problem{
               "option without length", protocol_ipv6_destination, hex("11 00 01 03 000000 01"), {short_header, 47}},
           Problem{"hop-by-hop second",
                   protocol_ipv6_destination,
                   hex("00 00 01 04 00000000") + padding,
                   {misplaced_hop_by_hop, 40}},
           Problem{"kind 01", protocol_ipv6_destination, with(padding, 2, 0x7e), {option_discard, 42}},
           Problem{"kind 10", protocol_ipv6_destination, with(padding, 2, 0xbe), {option_report, 42}},
           Problem{"kind 11", protocol_hop_by_hop, with(padding, 2, 0xfe), {option_report_unicast, 42}},
           Problem{"segments left", protocol_ipv6_route, hex("11 00 04 01 00000000"), {routing, 42}},
           Problem{"short fragment header", protocol_ipv6_fragment, first(padding, 7), {short_header, 40}},
           Problem{
               "not whole units", protocol_ipv6_fragment, hex("11 00 0001 00000007") + Buffer(9), {bad_fragment, 4}},
           Problem{"nothing, more to come", protocol_ipv6_fragment, hex("11 00 0001 00000007"), {bad_fragment, 4}},
           Problem{"beyond 65,535", protocol_ipv6_fragment, hex("11 00 fff8 00000007") + Buffer(8), {bad_fragment, 42}},
           // "the Payload Length of the packet reassembled from that fragment" counts the options in front too.
           Problem{"beyond 65,535 with what is in front",
                   protocol_ipv6_destination,
                   hex("2c 00 01 04 00000000") + hex("11 00 fff0 00000007") + Buffer(8),
                   {bad_fragment, 50}},
           Problem{"too many", protocol_ipv6_destination, many, {too_many, 40 + 64}},
       }) {
    const auto found = walk(next_header, payload);
    ASSERT_FALSE(found) << why;
    EXPECT_EQ(found.error(), error) << why << ": problem " << static_cast<int>(found.error().problem) << " at "
                                    << found.error().pointer;
  }
}

TEST(Ipv6Extensions, AsManyAsAllowedAreFollowed) {
  Buffer payload;
  for (int header = 0; header < extension_headers_max; ++header) {
    payload = payload + hex("3c 00 01 04 00000000");
  }
  payload[payload.size() - 8] = std::byte{protocol_udp};
  EXPECT_EQ(walk(protocol_ipv6_destination, payload).value().protocol, protocol_udp);
}

// RFC 8200 section 4: hop-by-hop options "must immediately follow the IPv6 header", so never follow reassembly.
TEST(Ipv6Extensions, HopByHopCannotFollowReassembly) {
  const Buffer payload = hex("11 00 01 04 00000000");
  EXPECT_TRUE(walk_extensions(protocol_hop_by_hop, payload, payload.size(), false));
  EXPECT_EQ(walk_extensions(protocol_hop_by_hop, payload, payload.size(), true).error(),
            (Ipv6ExtensionError{Ipv6ExtensionProblem::misplaced_hop_by_hop, 6}));
}

}  // namespace
}  // namespace sluice::wire
