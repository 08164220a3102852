// SPDX-License-Identifier: Apache-2.0
#include "stack/wire/tcp.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

#include "base/prng.h"
#include "stack/wire/checksum.h"
#include "stack/wire/protocol.h"
#include "tests/stack/wire/bytes.h"

namespace sluice::wire {
namespace {

using namespace test;  // bytes.h

const IpAddress client = Ipv4Address{{10, 77, 0, 1}};
const IpAddress server = Ipv4Address{{10, 77, 0, 2}};

// Two segments of a Linux kernel to itself, with the checksum that it leaves to the device.
const Buffer syn =
    hex("1388 1b58 0520dff8 00000000 a002 ffd7 dcff 0000") + hex("0204ffd7 0402080a d0ca77a1 00000000 01 03030a");
const Buffer selective_ack = hex("1b58 1388 34f6d2a5 0520dff9 d010 0042 81a5 0000") +
                             hex("0101080a 39f8542c d0ca77a1 01010512 0520e125 0520e157 0520e05d 0520e08f");

Buffer written(const TcpOptions& options) {
  Buffer bytes(TcpOptions::size_max);
  bytes.resize(options.encode(bytes));
  EXPECT_EQ(bytes.size(), options.encoded_size());
  return bytes;
}

Buffer written(const TcpHeader& header) {
  Buffer bytes(TcpHeader::size_min);
  header.emit(bytes);
  return bytes;
}

std::uint16_t total_sum(const IpAddress& source, const IpAddress& destination, const Buffer& segment) {
  const auto size = static_cast<std::uint32_t>(segment.size());
  return add_sums(pseudo_header_sum(source, destination, protocol_tcp, size), header_sum(segment));
}

ConstBytes options_of(const Buffer& segment) { return ConstBytes(segment).subspan(TcpHeader::size_min); }

TEST(Tcp, ReadsTheSynOfAnotherStack) {
  const auto header = TcpHeader::parse(syn, syn.size());
  ASSERT_TRUE(header);
  EXPECT_EQ(*header, (TcpHeader{.source_port = 5000,
                                .destination_port = 7000,
                                .sequence = 0x0520dff8,
                                .header_size = 40,
                                .flags = tcp_syn,
                                .window = 0xffd7,
                                .checksum = load_checksum(syn.data() + TcpHeader::checksum_offset)}));
  EXPECT_TRUE(sum_holds(total_sum(client, server, syn)));
  EXPECT_EQ(TcpOptions::parse(options_of(syn)), (TcpOptions{.segment_bytes_max = 0xffd7,
                                                            .window_scale = 10,
                                                            .sack_permitted = true,
                                                            .timestamps = TcpOptions::Timestamps{0xd0ca77a1, 0}}));
}

TEST(Tcp, ReadsTheSackBlocksOfAnotherStackAndWritesThemAlike) {
  const auto header = TcpHeader::parse(selective_ack, selective_ack.size());
  ASSERT_TRUE(header);
  EXPECT_EQ(header->header_size, selective_ack.size());
  EXPECT_EQ(header->acknowledgment, 0x0520dff9U);
  EXPECT_EQ(header->flags, tcp_ack);
  EXPECT_TRUE(sum_holds(total_sum(server, client, selective_ack)));
  const TcpOptions options = TcpOptions::parse(options_of(selective_ack));
  // RFC 2018 section 4: "The first SACK block (i.e., the one immediately following the kind and length fields in the
  // option) MUST specify the contiguous block of data containing the segment which triggered this ACK".
  EXPECT_EQ(options, (TcpOptions{.timestamps = TcpOptions::Timestamps{0x39f8542c, 0xd0ca77a1},
                                 .sack = {{{0x0520e125, 0x0520e157}, {0x0520e05d, 0x0520e08f}}},
                                 .sack_count = 2}));
  EXPECT_EQ(written(*header) + written(options), selective_ack);
}

TEST(Tcp, MalformedHeadersAreNamed) {
  EXPECT_EQ(TcpHeader::parse({}, 0).error(), TcpMalformed::short_header);
  EXPECT_EQ(TcpHeader::parse(first(syn, 19), syn.size()).error(), TcpMalformed::short_header);
  EXPECT_EQ(TcpHeader::parse(with(syn, 12, 0x00), syn.size()).error(), TcpMalformed::bad_data_offset);
  EXPECT_EQ(TcpHeader::parse(with(syn, 12, 0x40), syn.size()).error(), TcpMalformed::bad_data_offset);
  EXPECT_EQ(TcpHeader::parse(with(syn, 12, 0xb0), syn.size()).error(), TcpMalformed::bad_data_offset);
  EXPECT_EQ(TcpHeader::parse(with(syn, 12, 0xf0), syn.size()).error(), TcpMalformed::bad_data_offset);
  EXPECT_EQ(TcpHeader::parse(first(syn, 39), 39).error(), TcpMalformed::bad_data_offset);
  EXPECT_TRUE(TcpHeader::parse(first(syn, 20), 40)) << "the options lie elsewhere";
  EXPECT_EQ(TcpHeader::parse(with(syn, 12, 0x50), 20)->header_size, TcpHeader::size_min);
  EXPECT_EQ(TcpHeader::parse(with(syn, 12, 0xf0), 60)->header_size, TcpHeader::size_max);
}

// RFC 9293 section 3.1: "Must be zero in generated segments and must be ignored in received segments".
TEST(Tcp, ReservedBitsAreIgnoredAndNotSent) {
  const auto header = TcpHeader::parse(with(syn, 12, 0xaf), syn.size());
  EXPECT_EQ(header, TcpHeader::parse(syn, syn.size()));
  EXPECT_EQ(written(*header), first(syn, TcpHeader::size_min));
}

TEST(Tcp, HasAnyOfTheFlags) {
  const TcpHeader header{.flags = tcp_syn | tcp_ack};
  EXPECT_TRUE(header.has(tcp_syn));
  EXPECT_TRUE(header.has(tcp_ack));
  EXPECT_TRUE(header.has(tcp_ack | tcp_rst));
  EXPECT_FALSE(header.has(tcp_rst | tcp_fin));
}

TEST(Tcp, HeadersRoundTrip) {
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  Prng prng(seed);
  for (int round = 0; round < 10'000; ++round) {
    const TcpHeader header{.source_port = static_cast<std::uint16_t>(prng()),
                           .destination_port = static_cast<std::uint16_t>(prng()),
                           .sequence = static_cast<std::uint32_t>(prng()),
                           .acknowledgment = static_cast<std::uint32_t>(prng()),
                           .header_size = static_cast<std::uint8_t>(20 + 4 * prng.below(11)),
                           .flags = static_cast<std::uint8_t>(prng()),
                           .window = static_cast<std::uint16_t>(prng()),
                           .checksum = static_cast<std::uint16_t>(prng()),
                           .urgent_pointer = static_cast<std::uint16_t>(prng())};
    ASSERT_EQ(TcpHeader::parse(written(header), header.header_size), header);
  }
}

// RFC 2018 section 3: SACK "will often be used in conjunction with the Timestamp option [...] which takes an additional
// 10 bytes (plus two bytes of padding); thus a maximum of 3 SACK blocks will be allowed in this case."
TEST(TcpOptions, RoundTrip) {
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  Prng prng(seed);
  for (int round = 0; round < 10'000; ++round) {
    TcpOptions options;
    if (prng.chance(0.5)) {
      options.segment_bytes_max = static_cast<std::uint16_t>(prng());
    }
    if (prng.chance(0.5)) {
      options.window_scale = static_cast<std::uint8_t>(prng());
    }
    options.sack_permitted = prng.chance(0.5);
    if (prng.chance(0.5)) {
      options.timestamps = {static_cast<std::uint32_t>(prng()), static_cast<std::uint32_t>(prng())};
    }
    const std::size_t room = TcpOptions::size_max - options.encoded_size();
    options.sack_count = prng.below((room - 4) / 8 + 1);
    for (std::size_t block = 0; block < options.sack_count; ++block) {
      options.sack[block] = {static_cast<std::uint32_t>(prng()), static_cast<std::uint32_t>(prng())};
    }
    const Buffer bytes = written(options);
    ASSERT_EQ(bytes.size() % 4, 0U);
    ASSERT_LE(bytes.size(), TcpOptions::size_max);
    ASSERT_EQ(TcpOptions::parse(bytes), options);
  }
}

TEST(TcpOptions, LieAligned) {
  TcpOptions options{.timestamps = TcpOptions::Timestamps{1, 2}};
  // RFC 7323 appendix A: NOP, NOP, TSopt, 10.
  EXPECT_EQ(written(options), hex("0101080a 00000001 00000002"));
  options.sack_count = 3;
  EXPECT_EQ(options.encoded_size(), 40U);
  options = {.segment_bytes_max = 1460, .window_scale = 7, .sack_permitted = true};
  EXPECT_EQ(written(options), hex("020405b4 01030307 01010402"));
  EXPECT_EQ(written(TcpOptions{}), Buffer{});
}

// RFC 9293 section 3.1: "A TCP implementation MUST (MUST-6) ignore without error any TCP Option it does not implement,
// assuming that the option has a length field." And: "receivers MUST be prepared to process options even if they do not
// begin on a word boundary (MUST-64)."
TEST(TcpOptions, UnknownOnesArePassedOver) {
  const TcpOptions wanted{.segment_bytes_max = 1460};
  EXPECT_EQ(TcpOptions::parse(hex("2202 020405b4")), wanted);
  EXPECT_EQ(TcpOptions::parse(hex("fd 05 020413 020405b4")), wanted) << "what lies in an option is none";
  EXPECT_EQ(TcpOptions::parse(hex("01 020405b4 01 01 ff03ff")), wanted);
  EXPECT_EQ(TcpOptions::parse({}), TcpOptions{});
}

// RFC 9293 section 3.2: "This option code indicates the end of the option list."
TEST(TcpOptions, EndWithTheirEnd) {
  EXPECT_EQ(TcpOptions::parse(hex("00 020405b4")), TcpOptions{});
  EXPECT_EQ(TcpOptions::parse(hex("020405b4 00 030307")), (TcpOptions{.segment_bytes_max = 1460}));
}

// RFC 9293 section 3.1: "TCP implementations MUST be prepared to handle an illegal option length (e.g., zero)".
TEST(TcpOptions, AnImpossibleLengthEndsTheList) {
  const TcpOptions before{.segment_bytes_max = 1460};
  for (const char* bad : {"0300", "0301", "0600", "fe01", "0304ff", "fe06ffffff", "03", "08", "fe"}) {
    EXPECT_EQ(TcpOptions::parse(hex("020405b4") + hex(bad)), before) << bad;
  }
  EXPECT_EQ(TcpOptions::parse(hex("020405b4 0300 0402")), before);
  EXPECT_EQ(TcpOptions::parse(hex("020405b4 fe01 0402")), before);
}

TEST(TcpOptions, KnownOnesOfAWrongLengthArePassedOver) {
  const std::map<unsigned, std::set<unsigned>> lengths{{2, {4}}, {3, {3}}, {4, {2}}, {5, {10, 18, 26, 34}}, {8, {10}}};
  const Buffer behind = hex("020405b4 030307 0402");
  const TcpOptions wanted{.segment_bytes_max = 1460, .window_scale = 7, .sack_permitted = true};
  for (const auto& [kind, right] : lengths) {
    for (unsigned length = 2; length <= 50; ++length) {
      const Buffer option = with(with(Buffer(length, std::byte{0xee}), 0, kind), 1, length);
      EXPECT_EQ(TcpOptions::parse(option) == TcpOptions{}, !right.contains(length)) << kind << ' ' << length;
      if (!right.contains(length)) {
        EXPECT_EQ(TcpOptions::parse(option + behind), wanted) << kind << ' ' << length;
      }
    }
  }
}

TEST(TcpOptions, TheLastOfAKindCounts) {
  EXPECT_EQ(TcpOptions::parse(hex("020405b4 02040218")), (TcpOptions{.segment_bytes_max = 536}));
  EXPECT_EQ(TcpOptions::parse(hex("0512 00000001000000020000000300000004") + hex("050a 0000000500000006")),
            (TcpOptions{.sack = {{{5, 6}}}, .sack_count = 1}));
}

// The most that fits: four blocks, and a shift count that the reader limits.
TEST(TcpOptions, AreKeptAsTheyCame) {
  EXPECT_EQ(TcpOptions::parse(hex("0303ff")).window_scale, 255);
  const TcpOptions most = TcpOptions::parse(hex("0522") + Buffer(24) + hex("0000000900000001"));
  EXPECT_EQ(most.sack_count, TcpOptions::sack_blocks_max);
  EXPECT_EQ(most.sack[3], (SackBlock{9, 1}));
}

}  // namespace
}  // namespace sluice::wire
