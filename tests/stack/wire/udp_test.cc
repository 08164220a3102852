// SPDX-License-Identifier: Apache-2.0
#include "stack/wire/udp.h"

#include <gtest/gtest.h>

#include "tests/stack/wire/bytes.h"

namespace sluice::wire {
namespace {

using namespace test;  // bytes.h

const IpAddress source = Ipv4Address{{10, 77, 0, 1}};
const IpAddress destination = Ipv4Address{{10, 77, 0, 2}};

TEST(Udp, RoundTrips) {
  const UdpHeader header{.source_port = 5000,
                         .destination_port = 7000,
                         .payload_length = 3,
                         .checksum = to_big_endian<std::uint16_t>(0xabcd)};
  Buffer datagram(11);
  header.emit(datagram);
  EXPECT_EQ(datagram, hex("1388 1b58 000b abcd 000000"));
  EXPECT_EQ(UdpHeader::parse(datagram), header);
}

TEST(Udp, MalformedHeadersAreNamed) {
  const Buffer datagram = hex("1388 1b58 0009 0000 61");
  EXPECT_EQ(UdpHeader::parse(first(datagram, 7)).error(), UdpMalformed::short_header);
  EXPECT_EQ(UdpHeader::parse(with(datagram, 5, 7)).error(), UdpMalformed::bad_length);
  EXPECT_EQ(UdpHeader::parse(with(datagram, 5, 0)).error(), UdpMalformed::bad_length);
  EXPECT_EQ(UdpHeader::parse(with(datagram, 5, 10)).error(), UdpMalformed::bad_length);
  EXPECT_EQ(UdpHeader::parse(first(datagram, 8)).error(), UdpMalformed::bad_length);
  EXPECT_TRUE(UdpHeader::parse(first(datagram, 8), 9));
  EXPECT_TRUE(UdpHeader::parse(with(datagram, 5, 8)));
}

// What a sender stores, a receiver accepts, for a payload of odd length summed apart.
TEST(Udp, SenderAndReceiverAgreeOnTheSum) {
  const Buffer payload = hex("68 65 6c 6c 6f");
  UdpHeader header{.source_port = 1, .destination_port = 2, .payload_length = 5};
  header.checksum = udp_checksum_of(add_sums(udp_sum(source, destination, header), header_sum(payload)));
  EXPECT_TRUE(sum_holds(add_sums(udp_sum(source, destination, header), header_sum(payload))));
  EXPECT_FALSE(sum_holds(add_sums(udp_sum(source, destination, header), header_sum(with(payload, 4, 'O')))));
}

// RFC 768: "If the computed checksum is zero, it is transmitted as all ones".
TEST(Udp, AChecksumOfZeroIsSentAsAllOnes) {
  EXPECT_EQ(udp_checksum_of(0xffff), 0xffff);
  EXPECT_EQ(udp_checksum_of(0x0001), 0xfffe);

  UdpHeader header{.source_port = 1, .destination_port = 2, .payload_length = 2};
  // The payload that makes the whole sum all ones, so that its complement is zero.
  const std::uint16_t rest = checksum_of(udp_sum(source, destination, header));
  header.checksum = udp_checksum_of(add_sums(udp_sum(source, destination, header), rest));
  EXPECT_EQ(header.checksum, 0xffff);
  EXPECT_TRUE(sum_holds(add_sums(udp_sum(source, destination, header), rest)));
}

}  // namespace
}  // namespace sluice::wire
