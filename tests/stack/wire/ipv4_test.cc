// SPDX-License-Identifier: Apache-2.0
#include "stack/wire/ipv4.h"

#include <gtest/gtest.h>

#include "tests/stack/wire/bytes.h"

namespace sluice::wire {
namespace {

using namespace test;  // bytes.h

/// The packet with the checksum of its header made right again.
Buffer resummed(Buffer packet) {
  const std::size_t length = (static_cast<std::size_t>(packet[0]) & 0xfU) * 4;
  store_checksum(packet.data() + 10, 0);
  store_checksum(packet.data() + 10, checksum_of(header_sum(ConstBytes(packet).first(length))));
  return packet;
}

const Ipv4Header plain_v4{.type_of_service = 0x10,
                          .payload_length = 8,
                          .identification = 0xbeef,
                          .dont_fragment = true,
                          .time_to_live = 63,
                          .protocol = protocol_udp,
                          .source = {{10, 77, 0, 1}},
                          .destination = {{10, 77, 0, 2}}};

Buffer emitted(const Ipv4Header& header) {
  Buffer packet(Ipv4Header::size + header.payload_length);
  header.emit(packet);
  return packet;
}

TEST(Ipv4, RoundTrips) {
  EXPECT_EQ(Ipv4Header::parse(emitted(plain_v4)), plain_v4);

  Ipv4Header fragment = plain_v4;
  fragment.dont_fragment = false;
  fragment.more_fragments = true;
  fragment.fragment_offset = 1480;
  EXPECT_EQ(Ipv4Header::parse(emitted(fragment)), fragment);

  Ipv4Header largest = plain_v4;
  largest.payload_length = Ipv4Header::payload_length_max;
  EXPECT_EQ(Ipv4Header::parse(emitted(largest)), largest);
}

TEST(Ipv4, EveryFieldIsAtItsPlace) {
  Ipv4Header header = plain_v4;
  header.more_fragments = true;
  header.fragment_offset = 0x1fff * 8;
  Buffer packet = first(emitted(header), Ipv4Header::size);
  store_checksum(packet.data() + 10, 0);
  EXPECT_EQ(packet, hex("45 10 001c beef 7fff 3f 11 0000 0a4d0001 0a4d0002"));
}

TEST(Ipv4, OptionsArePassedOver) {
  const Buffer packet = resummed(hex("47 00 001e 0001 0000 40 11 0000 0a4d0001 0a4d0002 94040000 01010100 aabb"));
  const auto view = Ipv4View::check(packet);
  ASSERT_TRUE(view);
  EXPECT_EQ(view->header_length(), 28U);
  EXPECT_EQ(view->payload_length(), 2U);
  EXPECT_EQ(test::copy(view->options()), hex("94040000 01010100"));
}

TEST(Ipv4, LinkPaddingIsNotAnError) {
  Buffer packet = emitted(plain_v4);
  packet.resize(46);
  EXPECT_EQ(Ipv4Header::parse(packet), plain_v4);
}

TEST(Ipv4, AHeaderMayStandAloneWhenThePacketContinuesElsewhere) {
  const Buffer header = first(emitted(plain_v4), Ipv4Header::size);
  EXPECT_EQ(Ipv4View::check(header).error(), Ipv4Malformed::bad_total_length);
  EXPECT_TRUE(Ipv4View::check(header, 28));
  EXPECT_EQ(Ipv4View::check(header, 27).error(), Ipv4Malformed::bad_total_length);
}

struct MalformedPacket {
  const char* why;
  Buffer packet;
  Ipv4Malformed error;
};

TEST(Ipv4, MalformedHeadersAreNamed) {
  using enum Ipv4Malformed;
  const Buffer good = emitted(plain_v4);
  Buffer last_fragment_too_far = with(with(good, 6, 0x1f), 7, 0xff);
  for (const auto& [why, packet, error] : {
           MalformedPacket{"empty", {}, short_header},
           MalformedPacket{"19 bytes", first(good, 19), short_header},
           MalformedPacket{"options beyond the bytes", with(first(good, 20), 0, 0x46), short_header},
           MalformedPacket{"version 6", with(good, 0, 0x65), bad_version},
           MalformedPacket{"IHL 4", with(good, 0, 0x44), bad_header_length},
           MalformedPacket{"total length under the header", with(good, 3, 19), bad_total_length},
           MalformedPacket{"total length over the packet", with(good, 3, 29), bad_total_length},
           MalformedPacket{"one bit wrong", with(good, 8, 62), bad_checksum},
           MalformedPacket{"checksum zero", with(with(good, 10, 0), 11, 0), bad_checksum},
           MalformedPacket{"ends beyond 65,535", resummed(last_fragment_too_far), bad_fragment},
           MalformedPacket{"not whole units", resummed(with(with(first(good, 27), 3, 27), 6, 0x20)), bad_fragment},
           MalformedPacket{"more to come after nothing", resummed(with(with(first(good, 20), 3, 20), 6, 0x20)),
                           bad_fragment},
       }) {
    const auto header = Ipv4Header::parse(packet);
    ASSERT_FALSE(header) << why;
    EXPECT_EQ(header.error(), error) << why;
  }
}

// RFC 1122 section 3.2.1.2: "A host MUST verify the IP header checksum": every single-bit error is seen.
TEST(Ipv4, EveryBitErrorIsCaught) {
  const Buffer good = emitted(plain_v4);
  for (std::size_t bit = 0; bit < Ipv4Header::size * 8; ++bit) {
    Buffer bad = good;
    bad[bit / 8] ^= static_cast<std::byte>(1U << bit % 8);
    EXPECT_FALSE(Ipv4Header::parse(bad)) << "bit " << bit;
  }
}

TEST(Ipv4, AQuotedHeaderIsReadDespiteItsEnd) {
  const Buffer quoted = with(first(emitted(plain_v4), 28), 3, 200);
  const auto view = Ipv4View::check_quoted(quoted);
  ASSERT_TRUE(view);
  EXPECT_EQ(view->payload_length(), 180U);
  EXPECT_EQ(view->destination(), plain_v4.destination);
  EXPECT_EQ(Ipv4View::check_quoted(with(quoted, 0, 0x55)).error(), Ipv4Malformed::bad_version);
  EXPECT_EQ(Ipv4View::check_quoted(with(quoted, 3, 3)).value().payload_length(), 0U);
}

}  // namespace
}  // namespace sluice::wire
