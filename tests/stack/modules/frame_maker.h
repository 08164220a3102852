// SPDX-License-Identifier: Apache-2.0
#pragma once

// Packets of every kind that a host may get, right and damaged, for tests that account for each.

#include <algorithm>
#include <array>
#include <string_view>

#include "base/prng.h"
#include "stack/wire/udp.h"
#include "tests/stack/modules/ip_bed.h"

namespace sluice::ip_test {

using wire::Icmp4Message;
using wire::Icmp6Message;
using wire::IcmpEcho;

inline constexpr std::uint16_t account_port = 7000;

/// A transport header, right or wrong, and data. The checksum holds for `source` and `destination`.
inline Octets udp_datagram(const IpAddress& source, const IpAddress& destination, std::uint16_t from, std::uint16_t to,
                           std::size_t size) {
  wire::UdpHeader header{
      .source_port = from, .destination_port = to, .payload_length = static_cast<std::uint16_t>(size)};
  const Octets payload = pattern(size);
  header.checksum = wire::udp_checksum_of(add_sums(wire::udp_sum(source, destination, header), header_sum(payload)));
  Octets octets(wire::UdpHeader::size);
  header.emit(octets);
  return octets + payload;
}

struct Made {
  std::uint16_t sap;
  Octets octets;
  bool group = false;
};

/// One frame of every kind that a host may get; the random numbers choose among their sizes, places and addresses.
class Maker {
 public:
  explicit Maker(Prng& prng) : prng_(prng) {}

  Made next() {
    static constexpr std::array makers{&Maker::datagram4, &Maker::datagram6, &Maker::fragment4, &Maker::fragment6,
                                       &Maker::icmp4,     &Maker::icmp6,     &Maker::arp,       &Maker::ndp,
                                       &Maker::error4,    &Maker::error6,    &Maker::optioned4, &Maker::extended6,
                                       &Maker::mld,       &Maker::igmp,      &Maker::redirect4, &Maker::router,
                                       &Maker::noise};
    return (this->*makers[prng_.below(makers.size())])();
  }

 private:
  template <class T, std::size_t Count>
  T one_of(const std::array<T, Count>& values) {
    return values[prng_.below(Count)];
  }
  std::string_view host4() {
    return one_of(
        std::array<std::string_view, 6>{"10.77.0.2", "10.77.0.3", "8.8.8.8", "10.77.0.255", "127.0.0.1", "10.77.0.1"});
  }
  std::string_view host6() {
    return one_of(
        std::array<std::string_view, 6>{"fd00:77::2", "fd00:77::3", "2001:db8::1", "ff02::1", "::", "fd00:77::1"});
  }
  std::string_view ours4() {
    return one_of(std::array<std::string_view, 5>{"10.77.0.1", "10.77.0.1", "10.77.0.1", "10.77.0.255", "10.77.0.9"});
  }
  std::string_view ours6() {
    return one_of(std::array<std::string_view, 5>{"fd00:77::1", "fd00:77::1", "fd00:77::1", "ff02::1", "fd00:77::9"});
  }
  std::uint16_t some_port() { return one_of(std::array<std::uint16_t, 3>{account_port, 53, 9}); }
  std::size_t size(std::size_t bound) { return prng_.below(bound); }

  Made datagram4() {
    const V4 header{
        .source = host4(), .destination = ours4(), .protocol = one_of(std::array<std::uint8_t, 4>{17, 17, 17, 99})};
    return {wire::ethertype_ipv4,
            packet(header, udp_datagram(address(header.source), address(header.destination), some_port(), some_port(),
                                        size(200))),
            prng_.chance(0.2)};
  }
  Made datagram6() {
    const V6 header{
        .source = host6(), .destination = ours6(), .next_header = one_of(std::array<std::uint8_t, 4>{17, 17, 59, 99})};
    return {wire::ethertype_ipv6,
            packet(header, udp_datagram(address(header.source), address(header.destination), some_port(), some_port(),
                                        size(200))),
            prng_.chance(0.2)};
  }
  /// Of datagrams of 64 bytes in eights, which now and then become whole.
  Made fragment4() {
    const Octets whole = udp_datagram(address("10.77.0.2"), address("10.77.0.1"), 53, account_port, 56);
    const std::size_t begin = 8 * prng_.below(8);
    const std::size_t end = std::min(whole.size(), begin + 8 * (1 + prng_.below(4)));
    return {wire::ethertype_ipv4, packet(V4{.offset = begin,
                                            .more = end < whole.size(),
                                            .identification = static_cast<std::uint16_t>(prng_.below(20))},
                                         part(whole, begin, end - begin))};
  }
  Made fragment6() {
    const Octets whole = udp_datagram(address("fd00:77::2"), address("fd00:77::1"), 53, account_port, 56);
    const std::size_t begin = 16 * prng_.below(4);
    const std::uint8_t next = one_of(std::array<std::uint8_t, 4>{17, 17, 58, 60});
    return {wire::ethertype_ipv6,
            packet(V6{.next_header = 44}, fragment_header(next, begin, begin + 16 < whole.size() || prng_.chance(0.1),
                                                          static_cast<std::uint32_t>(prng_.below(20))) +
                                              part(whole, begin, 16))};
  }
  Made icmp4() {
    const Icmp4Message message = one_of(std::array<Icmp4Message, 2>{IcmpEcho{false, 1, 1}, IcmpEcho{true, 1, 1}});
    return {wire::ethertype_ipv4,
            packet(V4{.source = host4(), .destination = ours4(), .protocol = 1}, icmp(message, pattern(size(64))))};
  }
  Made icmp6() {
    const V6 header{.source = host6(), .destination = ours6(), .next_header = 58};
    const Icmp6Message message = one_of(std::array<Icmp6Message, 2>{IcmpEcho{false, 1, 1}, IcmpEcho{true, 1, 1}});
    return {wire::ethertype_ipv6, packet(header, icmp(message, pattern(size(64)), header))};
  }
  Made arp() {
    Octets octets(wire::ArpPacket::size);
    wire::ArpPacket{.operation = one_of(std::array{wire::ArpOperation::request, wire::ArpOperation::reply}),
                    .sender_mac = one_of(std::array{peer_mac, peer_mac, wire::mac_broadcast}),
                    .sender_address = v4(host4()),
                    .target_mac = our_mac,
                    .target_address = v4(ours4())}
        .emit(octets);
    return {wire::ethertype_arp, octets};
  }
  Made ndp() {
    const V6 header{.source = host6(), .destination = ours6(), .next_header = 58, .hop_limit = 255};
    Octets octets(wire::NeighborSolicitation::size_max);
    if (prng_.chance(0.5)) {
      wire::NeighborSolicitation{v6(ours6()), peer_mac}.emit(octets);
    } else {
      wire::NeighborAdvertisement{.solicited = prng_.chance(0.5), .target = v6(host6()), .target_link_layer = peer_mac}
          .emit(octets);
    }
    return {wire::ethertype_ipv6, packet(header, icmp_summed(octets, header))};
  }
  /// With a prefix as like as not; its values are anything.
  Made router() {
    const V6 header{.source = prng_.chance(0.9) ? "fe80::fe" : host6(),
                    .destination = "ff02::1",
                    .next_header = 58,
                    .hop_limit = 255};
    Octets octets(16 + (prng_.chance(0.5) ? 32 : 0));
    octets[0] = std::byte{134};
    store_big_endian(octets.data() + 4, static_cast<std::uint32_t>(prng_()));
    store_big_endian(octets.data() + 8, prng_.chance(0.5) ? std::uint32_t{0} : static_cast<std::uint32_t>(prng_()));
    if (octets.size() > 16) {
      octets[16] = std::byte{3};
      octets[17] = std::byte{4};
      octets[18] = prng_.chance(0.8) ? std::byte{64} : std::byte{0};
      octets[19] = static_cast<std::byte>(prng_.below(4) << 6);
      store_big_endian(octets.data() + 20, static_cast<std::uint32_t>(1 + prng_.below(60)));
      v6("fd00:5::").store(octets.data() + 32);
      store_big_endian(octets.data() + 36, static_cast<std::uint32_t>(prng_.below(64)));
    }
    return {wire::ethertype_ipv6, packet(header, icmp_summed(octets, header)), true};
  }
  /// About what the test has sent, and about what it has not.
  Made error4() {
    const bool sent = prng_.chance(0.5);
    const Octets quoted =
        packet(V4{.source = sent ? "10.77.0.1" : ours4(), .destination = sent ? "8.8.8.8" : host4()},
               udp_datagram(address("10.77.0.1"), address("8.8.8.8"), sent ? account_port : some_port(),
                            sent ? std::uint16_t{53} : some_port(), 1400));
    const Icmp4Message message = one_of(
        std::array<Icmp4Message, 4>{wire::Icmp4Unreachable{}, wire::Icmp4TimeExceeded{},
                                    wire::Icmp4Unreachable{wire::Icmp4UnreachableCode::fragmentation_needed, 1300},
                                    wire::Icmp4Unreachable{wire::Icmp4UnreachableCode::fragmentation_needed, 60}});
    return {wire::ethertype_ipv4,
            packet(V4{.source = host4(), .destination = ours4(), .protocol = 1}, icmp(message, part(quoted, 0, 28)))};
  }
  Made error6() {
    const bool sent = prng_.chance(0.5);
    const Octets quoted =
        packet(V6{.source = sent ? "fd00:77::1" : ours6(), .destination = sent ? "2001:db8::1" : host6()},
               udp_datagram(address("fd00:77::1"), address("2001:db8::1"), sent ? account_port : some_port(),
                            sent ? std::uint16_t{53} : some_port(), 1400));
    const V6 header{.source = host6(), .destination = ours6(), .next_header = 58};
    const Icmp6Message message =
        one_of(std::array<Icmp6Message, 4>{wire::Icmp6Unreachable{}, wire::Icmp6PacketTooBig{1300},
                                           wire::Icmp6PacketTooBig{1200}, wire::Icmp6ParameterProblem{1, 6}});
    return {wire::ethertype_ipv6, packet(header, icmp(message, part(quoted, 0, 48), header))};
  }
  Made optioned4() {
    const V4 header{.protocol = one_of(std::array<std::uint8_t, 2>{1, 17})};
    Octets octets = packet(header, icmp(Icmp4Message(IcmpEcho{false, 1, 1}), pattern(8)));
    Octets options(8);
    options[0] = std::byte{one_of(std::array<std::uint8_t, 5>{1, 7, 68, 131, 137})};
    options[1] = std::byte{one_of(std::array<std::uint8_t, 4>{3, 7, 8, 9})};
    options[2] = std::byte{one_of(std::array<std::uint8_t, 4>{4, 5, 8, 9})};
    options[6] = static_cast<std::byte>(prng_.below(4));
    octets.insert(octets.begin() + 20, options.begin(), options.end());
    octets[0] = std::byte{0x47};
    store_big_endian(octets.data() + 2, static_cast<std::uint16_t>(octets.size()));
    return {wire::ethertype_ipv4, resummed(std::move(octets))};
  }
  Made extended6() {
    Octets chain;
    for (std::size_t count = prng_.below(4); count-- > 0;) {
      Octets header(8);
      header[0] = std::byte{one_of(std::array<std::uint8_t, 4>{0, 43, 44, 60})};
      header[2] = std::byte{one_of(std::array<std::uint8_t, 4>{1, 1, 0x45, 0x85})};
      header[3] = std::byte{4};
      chain = chain + header;
    }
    Octets last(8);
    last[0] = std::byte{17};
    last[2] = std::byte{1};
    last[3] = std::byte{4};
    return {wire::ethertype_ipv6,
            packet(V6{.next_header = one_of(std::array<std::uint8_t, 3>{0, 43, 60})},
                   chain + last + udp_datagram(address("fd00:77::2"), address("fd00:77::1"), 53, account_port, 20))};
  }
  Made mld() {
    const V6 header{.source = one_of(std::array<std::string_view, 3>{"fe80::9", "fe80::9", "fd00:77::2"}),
                    .destination = ours6(),
                    .next_header = 58,
                    .hop_limit = one_of(std::array<std::uint8_t, 3>{1, 1, 255})};
    Octets octets(one_of(std::array<std::size_t, 3>{24, 26, 28}));
    octets[0] = std::byte{one_of(std::array<std::uint8_t, 4>{130, 130, 131, 132})};
    Octets alert(8);
    alert[0] = std::byte{58};
    alert[2] = std::byte{one_of(std::array<std::uint8_t, 3>{5, 5, 1})};
    alert[3] = std::byte{2};
    V6 outer = header;
    outer.next_header = 0;
    alert[6] = std::byte{1};
    return {wire::ethertype_ipv6, packet(outer, alert + icmp_summed(octets, header))};
  }
  Made igmp() {
    Octets octets(one_of(std::array<std::size_t, 3>{8, 10, 12}));
    octets[0] = std::byte{one_of(std::array<std::uint8_t, 4>{0x11, 0x11, 0x16, 0x17})};
    store_checksum(octets.data() + 2, checksum_of(ilp::scalar::sum(octets)));
    return {wire::ethertype_ipv4, packet(V4{.source = host4(),
                                            .destination = "224.0.0.1",
                                            .protocol = 2,
                                            .ttl = one_of(std::array<std::uint8_t, 3>{1, 1, 64})},
                                         octets)};
  }
  Made redirect4() {
    const bool sent = prng_.chance(0.5);
    const Octets quoted = packet(V4{.source = "10.77.0.1", .destination = sent ? "8.8.8.8" : "8.8.4.4"},
                                 udp_datagram(address("10.77.0.1"), address("8.8.8.8"), account_port, 53, 8));
    Octets octets(8);
    octets[0] = std::byte{5};
    v4(one_of(std::array<std::string_view, 2>{"10.77.0.253", "10.77.0.252"})).store(octets.data() + 4);
    octets = octets + part(quoted, 0, 28);
    store_checksum(octets.data() + 2, checksum_of(ilp::scalar::sum(octets)));
    return {wire::ethertype_ipv4, packet(V4{.source = one_of(std::array<std::string_view, 4>{
                                                "10.77.0.254", "10.77.0.253", "10.77.0.252", "10.77.0.2"}),
                                            .protocol = 1},
                                         octets)};
  }
  Made noise() {
    Octets octets(1 + prng_.below(100));
    for (std::byte& octet : octets) {
      octet = static_cast<std::byte>(prng_.below(256));
    }
    return {one_of(std::array<std::uint16_t, 4>{0x0800, 0x0806, 0x86dd, 0x88b5}), octets, prng_.chance(0.2)};
  }

  Prng& prng_;
};

/// Damages some: a few bytes, the end, or both; makes the IPv4 header's sum right again for some of those.
inline void mutate(Made& made, Prng& prng) {
  for (std::size_t flips = prng.chance(0.5) ? prng.below(3) : 0; flips > 0; --flips) {
    made.octets[prng.below(made.octets.size())] ^= static_cast<std::byte>(1 + prng.below(255));
  }
  if (prng.chance(0.1)) {
    made.octets.resize(1 + prng.below(made.octets.size() + 20));
  }
  const std::size_t header_size = (std::to_integer<std::size_t>(made.octets[0]) & 0xfU) * 4;
  if (made.sap == wire::ethertype_ipv4 && prng.chance(0.8) && header_size >= 20 && header_size <= made.octets.size()) {
    made.octets = resummed(std::move(made.octets));
  }
}

}  // namespace sluice::ip_test
