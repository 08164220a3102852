// SPDX-License-Identifier: Apache-2.0
// The ip module on the way up.
#include <gmock/gmock.h>

#include <functional>

#include "tests/stack/modules/ip_bed.h"

namespace sluice::ip_test {
namespace {

void inject_v4(Bed& bed, ConstBytes octets) { bed.link.inject(wire::ethertype_ipv4, octets); }
void inject_v6(Bed& bed, ConstBytes octets) { bed.link.inject(wire::ethertype_ipv6, octets); }

/// What goes up, with its source, its destination, its hop limit.
TEST(IpReceive, DeliversDatagrams) {
  Bed bed;
  bed.bind();
  inject_v4(bed, packet(V4{.ttl = 33}, pattern(100)));
  Unitdata datagram = unitdata_of(bed.next_up());
  EXPECT_EQ(datagram.source, (wire::NetworkAddress{address("10.77.0.2"), udp}));
  EXPECT_EQ(datagram.received, (network::Received{.local = address("10.77.0.1"), .hop_limit = 33, .header_size = 20}));
  EXPECT_EQ(datagram.data, pattern(100));
  inject_v6(bed, packet(V6{.hop_limit = 44}, pattern(101)));
  datagram = unitdata_of(bed.next_up());
  EXPECT_EQ(datagram.source, (wire::NetworkAddress{address("fd00:77::2"), udp}));
  EXPECT_EQ(datagram.received, (network::Received{.local = address("fd00:77::1"), .hop_limit = 44, .header_size = 40}));
  EXPECT_EQ(datagram.data, pattern(101));
  EXPECT_EQ(bed.count("delivered"), 2);
}

TEST(IpReceive, DataIsAWindowOnTheDriversBuffer) {
  Bed bed;
  bed.bind();
  inject_v4(bed, packet(V4{}, pattern(100)));
  Message message = bed.next_up();
  const Block& block = *message.data_block();
  EXPECT_EQ(wire::Ipv4View::check_quoted({block.rptr - 20, 20})->source(), v4("10.77.0.2")) << "its header is in front";
}

TEST(IpReceive, TrimsWhatTheLinkPadded) {
  Bed bed;
  bed.bind();
  inject_v4(bed, packet(V4{}, pattern(5)) + Octets(21));
  EXPECT_EQ(unitdata_of(bed.next_up()).data, pattern(5));
  inject_v6(bed, packet(V6{}, pattern(5)) + Octets(1));
  EXPECT_EQ(unitdata_of(bed.next_up()).data, pattern(5));
}

/// RFC 1122 section 3.2.1.8: a host that does not implement an option "MUST silently ignore" it.
TEST(IpReceive, SkipsOptions) {
  Bed bed;
  bed.bind();
  const Octets plain = packet(V4{}, pattern(30));
  Octets octets = part(plain, 0, 20) + Octets(40, std::byte{1}) + pattern(30);
  octets[0] = std::byte{0x4f};
  store_big_endian(octets.data() + 2, static_cast<std::uint16_t>(90));
  inject_v4(bed, resummed(octets));
  const Unitdata datagram = unitdata_of(bed.next_up());
  EXPECT_EQ(datagram.data, pattern(30));
  EXPECT_EQ(datagram.received.header_size, 60);
  EXPECT_EQ(bed.count("options_skipped"), 1);
}

TEST(IpReceive, ReadsHeadersInManyBlocks) {
  for (const std::size_t block : {1U, 3U, 7U, 19U, 21U, 41U}) {
    Bed bed;
    bed.bind();
    bed.link.inject(wire::ethertype_ipv4, packet(V4{}, pattern(100)), false, peer_mac, block);
    EXPECT_EQ(unitdata_of(bed.next_up()).data, pattern(100)) << block;
    bed.link.inject(wire::ethertype_ipv6, packet(V6{}, pattern(100)), false, peer_mac, block);
    EXPECT_EQ(unitdata_of(bed.next_up()).data, pattern(100)) << block;
  }
}

struct Malformation {
  std::string_view counter;
  std::uint16_t sap;
  Octets octets;
  bool group = false;
};

Octets changed(Octets octets, const std::function<void(Octets&)>& change) {
  change(octets);
  return octets;
}

std::vector<Malformation> malformations() {
  using namespace wire;
  const Octets good4 = packet(V4{}, pattern(40));
  const Octets good6 = packet(V6{}, pattern(40));
  const auto octet = [](std::size_t at, int value) {
    return [=](Octets& octets) { octets[at] = static_cast<std::byte>(value); };
  };
  const auto with_extension = [](std::uint8_t kind, const Octets& extension) {
    return packet(V6{.next_header = kind}, extension + pattern(40));
  };
  const auto bytes = [](std::initializer_list<int> values) {
    Octets octets;
    for (const int value : values) {
      octets.push_back(static_cast<std::byte>(value));
    }
    return octets;
  };
  return {
      {"short_packet", ethertype_ipv4, part(good4, 0, 19)},
      {"short_packet", ethertype_ipv4, changed(part(good4, 0, 24), octet(0, 0x47))},
      {"bad_version", ethertype_ipv4, changed(good4, octet(0, 0x65))},
      {"bad_version", ethertype_ipv4, good6},
      {"bad_header_length", ethertype_ipv4, changed(good4, octet(0, 0x44))},
      {"bad_total_length", ethertype_ipv4, part(good4, 0, 59)},
      {"bad_total_length", ethertype_ipv4, resummed(changed(good4, octet(3, 19)))},
      {"bad_checksum", ethertype_ipv4, changed(good4, octet(8, 65))},
      {"bad_source", ethertype_ipv4, packet(V4{.source = "224.0.0.1"}, pattern(8))},
      {"bad_source", ethertype_ipv4, packet(V4{.source = "255.255.255.255"}, pattern(8))},
      {"bad_source", ethertype_ipv4, packet(V4{.source = "10.77.0.255"}, pattern(8))},
      {"bad_source", ethertype_ipv4, packet(V4{.source = "127.0.0.1"}, pattern(8))},
      {"bad_source", ethertype_ipv4, packet(V4{.source = "0.0.0.0"}, pattern(8))},
      {"bad_source", ethertype_ipv4, packet(V4{.source = "10.77.0.1"}, pattern(8))},
      {"not_ours", ethertype_ipv4, packet(V4{.destination = "10.77.0.3"}, pattern(8))},
      {"not_ours", ethertype_ipv4, packet(V4{.destination = "224.0.0.9"}, pattern(8))},
      {"link_broadcast", ethertype_ipv4, good4, true},
      {"unknown_protocol", ethertype_ipv4, packet(V4{.protocol = 99}, pattern(8))},
      {"bad_fragment", ethertype_ipv4, packet(V4{.more = true}, pattern(65))},
      {"bad_fragment", ethertype_ipv4, packet(V4{.offset = 65'528}, pattern(64))},
      {"fragment_tiny", ethertype_ipv4, packet(V4{.offset = 64}, {})},
      {"short_packet", ethertype_ipv6, part(good6, 0, 39)},
      {"bad_version", ethertype_ipv6, good4},
      {"bad_total_length", ethertype_ipv6, part(good6, 0, 79)},
      {"bad_source", ethertype_ipv6, packet(V6{.source = "ff02::1"}, pattern(8))},
      {"bad_source", ethertype_ipv6, packet(V6{.source = "::1"}, pattern(8))},
      {"bad_source", ethertype_ipv6, packet(V6{.source = "::"}, pattern(8))},
      {"bad_source", ethertype_ipv6, packet(V6{.source = "fd00:77::1"}, pattern(8))},
      {"not_ours", ethertype_ipv6, packet(V6{.destination = "fd00:77::3"}, pattern(8))},
      {"link_broadcast", ethertype_ipv6, good6, true},
      {"unknown_protocol", ethertype_ipv6, packet(V6{.next_header = 99}, pattern(8))},
      {"unknown_protocol", ethertype_ipv6, packet(V6{.next_header = 59}, pattern(8))},
      {"bad_extension", ethertype_ipv6, with_extension(60, bytes({udp, 200, 0, 0, 0, 0, 0, 0}))},
      {"bad_extension", ethertype_ipv6, with_extension(60, bytes({udp, 0, 0x45, 4, 0, 0, 0, 0}))},
      {"bad_extension", ethertype_ipv6, with_extension(60, bytes({0, 0, 1, 4, 0, 0, 0, 0, udp, 0, 1, 4, 0, 0, 0, 0}))},
      {"bad_extension", ethertype_ipv6, with_extension(43, bytes({udp, 0, 0, 1, 0, 0, 0, 0}))},
      {"bad_fragment", ethertype_ipv6, with_extension(44, fragment_header(udp, 0, true) + pattern(1))},
      {"bad_fragment", ethertype_ipv6, with_extension(44, fragment_header(udp, 65'528, false))},
      {"fragment_tiny", ethertype_ipv6, packet(V6{.next_header = 44}, fragment_header(udp, 64, false))},
      {"fragment_tiny", ethertype_ipv6,
       packet(V6{.next_header = 44}, fragment_header(60, 0, true) + bytes({udp, 0, 1, 4, 0, 0, 0, 0}))},
      {"fragment_tiny", ethertype_ipv6,
       packet(V6{.next_header = 44}, fragment_header(60, 0, true) + bytes({udp, 1, 1, 4, 0, 0, 0, 0}))},
      {"unknown_sap", 0x1234, good4},
  };
}

/// Each malformed packet is dropped under its own counter, and nothing else happens.
TEST(IpReceive, CountsEachMalformation) {
  std::size_t row = 0;
  for (const Malformation& bad : malformations()) {
    SCOPED_TRACE(testing::Message() << "row " << row++ << ", " << bad.counter);
    Bed bed;
    bed.bind();
    bed.link.inject(bad.sap, bad.octets, bad.group);
    EXPECT_EQ(bed.count(bad.counter), 1);
    EXPECT_EQ(bed.count("packets_in"), 1);
    EXPECT_EQ(bed.count("delivered"), 0);
    EXPECT_TRUE(bed.user.received.empty());
    EXPECT_EQ(bed.set.pool().statistics().buffers_in_use != 0, bed.count("icmp_errors_out") == 1)
        << "nothing is kept but an answer that waits for its neighbour";
  }
}

TEST(IpReceive, TakesBroadcastsAndItsGroups) {
  Bed bed;
  bed.bind();
  for (const std::string_view to : {"255.255.255.255", "10.77.0.255", "224.0.0.1"}) {
    bed.link.inject(wire::ethertype_ipv4, packet(V4{.destination = to}, pattern(8)), true);
    EXPECT_TRUE(unitdata_of(bed.next_up()).received.group) << to;
  }
  bed.link.inject(wire::ethertype_ipv6, packet(V6{.destination = "ff02::1"}, pattern(8)), true);
  EXPECT_TRUE(unitdata_of(bed.next_up()).received.group);
}

TEST(IpReceive, DeliversToTheBoundAddressOnly) {
  Bed bed(config_of({"10.77.0.1/24", "10.77.0.9/24"}));
  bed.bind(udp, address("10.77.0.9"));
  inject_v4(bed, packet(V4{}, pattern(8)));
  EXPECT_EQ(bed.count("unknown_protocol"), 1);
  inject_v4(bed, packet(V4{.destination = "10.77.0.9"}, pattern(8)));
  EXPECT_EQ(unitdata_of(bed.next_up()).received.local, address("10.77.0.9"));
}

TEST(IpReceive, ReassemblesIpv4) {
  Bed bed;
  bed.bind();
  const Octets whole = pattern(3000);
  inject_v4(bed, packet(V4{.offset = 2960}, part(whole, 2960)));
  inject_v4(bed, packet(V4{.more = true, .ttl = 5}, part(whole, 0, 1480)));
  EXPECT_TRUE(bed.user.received.empty());
  inject_v4(bed, packet(V4{.offset = 1480, .more = true}, part(whole, 1480, 1480)));
  const Unitdata datagram = unitdata_of(bed.next_up());
  EXPECT_EQ(datagram.data, whole);
  EXPECT_EQ(datagram.received.header_size, 20);
  EXPECT_EQ(bed.count("reassembled"), 1);
  EXPECT_EQ(bed.count("fragments_in"), 3);
}

TEST(IpReceive, ReassemblesIpv6WithOptionsBehindTheFragmentHeader) {
  Bed bed;
  bed.bind();
  Octets options(8);
  options[0] = std::byte{udp};
  options[2] = std::byte{1};
  options[3] = std::byte{4};
  const Octets whole = options + pattern(2000);
  inject_v6(bed, packet(V6{.next_header = 44}, fragment_header(60, 1232, false) + part(whole, 1232)));
  inject_v6(bed, packet(V6{.next_header = 44}, fragment_header(60, 0, true) + part(whole, 0, 1232)));
  const Unitdata datagram = unitdata_of(bed.next_up());
  EXPECT_EQ(datagram.data, pattern(2000));
  EXPECT_EQ(datagram.source.protocol, udp);
  EXPECT_EQ(datagram.received.header_size, 40 + 8 + 8) << "whether or not the first fragment lies in one piece";
}

/// RFC 6946 section 4: "A host that receives an IPv6 packet that includes a Fragment Header with the "Fragment Offset"
/// equal to 0 and the "M" flag equal to 0 MUST process that packet in isolation from any other packets/fragments, even
/// if such packets/fragments contain the same set {IPv6 Source Address, IPv6 Destination Address, Fragment
/// Identification}."
TEST(IpReceive, ProcessesAtomicFragmentsInIsolation) {
  Bed bed;
  bed.bind();
  const Octets whole = pattern(2000);
  inject_v6(bed, packet(V6{.next_header = 44}, fragment_header(udp, 1232, false) + part(whole, 1232)));
  inject_v6(bed, packet(V6{.next_header = 44}, fragment_header(udp, 0, false) + pattern(50)));
  EXPECT_EQ(unitdata_of(bed.next_up()).data, pattern(50));
  inject_v6(bed, packet(V6{.next_header = 44}, fragment_header(udp, 0, true) + part(whole, 0, 1232)));
  EXPECT_EQ(unitdata_of(bed.next_up()).data, whole);
}

TEST(IpReceive, CountsWhatBecomesOfFragments) {
  Bed bed;
  bed.bind();
  const Octets whole = pattern(3000);
  const auto fragment = [&](std::size_t offset, std::size_t size, std::uint16_t identification = 7) {
    return packet(V4{.offset = offset, .more = offset + size < whole.size(), .identification = identification},
                  part(whole, offset, size));
  };
  inject_v4(bed, fragment(0, 800));
  inject_v4(bed, fragment(0, 800));
  EXPECT_EQ(bed.count("fragment_duplicate"), 1);
  inject_v4(bed, fragment(792, 800));
  EXPECT_EQ(bed.count("fragment_overlap"), 1);
  inject_v4(bed, fragment(1600, 800));
  EXPECT_EQ(bed.count("fragment_refused"), 1);
  for (std::uint16_t identification = 100; identification < 1100; ++identification) {
    inject_v4(bed, fragment(0, 800, identification));
  }
  EXPECT_EQ(bed.count("reassembly_evicted"), 1001 - ip::Reassembly::datagrams_max);
  EXPECT_EQ(bed.count("fragments_held"), 1001);
  bed.advance(ip::Reassembly::timeout - 1s);
  EXPECT_EQ(bed.ip->reassembly().datagrams(), ip::Reassembly::datagrams_max);
  bed.advance(1s);
  EXPECT_EQ(bed.ip->reassembly().datagrams(), 0);
  EXPECT_EQ(bed.count("reassembly_timeout"), ip::Reassembly::datagrams_max);
}

/// RFC 791 section 3.2: "Every internet module must be able to forward a datagram of 68 octets without further
/// fragmentation. This is because an internet header may be up to 60 octets, and the minimum fragment is 8 octets."
TEST(IpReceive, ReassemblesTheSmallestFragments) {
  for (const std::size_t size : {8U, 24U, 40U}) {
    SCOPED_TRACE(testing::Message() << "fragments of " << size);
    Bed bed;
    bed.bind();
    const Octets whole = pattern(3000);
    for (std::size_t offset = 0; offset < whole.size(); offset += size) {
      const bool more = offset + size < whole.size();
      inject_v4(bed, packet(V4{.offset = offset, .more = more}, part(whole, offset, size)));
      inject_v6(bed, packet(V6{.next_header = 44}, fragment_header(udp, offset, more) + part(whole, offset, size)));
    }
    EXPECT_EQ(unitdata_of(bed.next_up()).data, whole);
    EXPECT_EQ(unitdata_of(bed.next_up()).data, whole);
    EXPECT_EQ(bed.count("fragments_held"), bed.count("fragments_in"));
    EXPECT_EQ(bed.ip->reassembly().bytes(), 0);
  }
}

TEST(IpReceive, FragmentsOfDifferentProtocolsAreDifferentDatagrams) {
  Bed bed;
  bed.bind();
  const Octets whole = pattern(128);
  inject_v4(bed, packet(V4{.more = true}, part(whole, 0, 64)));
  inject_v4(bed, packet(V4{.protocol = 99, .offset = 64}, part(whole, 64)));
  EXPECT_TRUE(bed.user.received.empty());
  inject_v4(bed, packet(V4{.offset = 64}, part(whole, 64)));
  EXPECT_EQ(unitdata_of(bed.next_up()).data, whole);
}

TEST(IpReceive, SurvivesAnExhaustedPool) {
  auto driver = std::make_unique<Link>();
  Bed bed(both_families(), std::move(driver));
  bed.bind();
  Message frame = Message::allocate(bed.set.pool(), dlpi::UnitdataInd::encoded_size_max, 0, MessageType::proto);
  dlpi::UnitdataInd{{our_mac, 0x0800}, {peer_mac, 0x0800}, false}.encode(
      frame.append(dlpi::UnitdataInd::encoded_size_max));
  frame.link(Message::copy_of(bed.set.pool(), packet(V4{}, pattern(100)), 0, MessageType::data, 10));
  std::vector<Message> hoard;
  for (std::size_t size = BufferPool::capacity_max; size >= 64; size /= 2) {
    for (const std::size_t capacity : {size, size / 4 * 3}) {  // every size class
      while (Message message = Message::allocate(bed.set.pool(), capacity)) {
        hoard.push_back(std::move(message));
      }
    }
  }
  bed.link.read_queue().put_next(std::move(frame));
  EXPECT_EQ(bed.count("no_memory"), 1);
}

}  // namespace
}  // namespace sluice::ip_test
