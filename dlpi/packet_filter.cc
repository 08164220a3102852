// SPDX-License-Identifier: Apache-2.0
#include "dlpi/packet_filter.h"

#include <algorithm>
#include <initializer_list>
#include <utility>

#include "base/bytes.h"
#include "stack/wire/ipv4.h"
#include "stack/wire/ipv6.h"
#include "stack/wire/protocol.h"

namespace sluice::dlpi {
namespace {

using Program = std::vector<sock_filter>;

constexpr std::uint32_t type_offset = 12;
constexpr std::uint32_t network_offset = wire::EthernetHeader::size;
constexpr std::uint32_t everything = 0x40000;
constexpr std::uint32_t nothing = 0;

constexpr sock_filter load(std::uint16_t width, std::uint32_t offset) {
  return BPF_STMT(static_cast<std::uint16_t>(BPF_LD | BPF_ABS | width), offset);
}
constexpr sock_filter load_length() { return BPF_STMT(BPF_LD | BPF_W | BPF_LEN, 0); }
/// Goes on `yes` instructions further where `comparison` with `value` holds, else `no`.
constexpr sock_filter jump(std::uint16_t comparison, std::uint32_t value, std::size_t yes, std::size_t no) {
  return BPF_JUMP(static_cast<std::uint16_t>(BPF_JMP | BPF_K | comparison), value, static_cast<std::uint8_t>(yes),
                  static_cast<std::uint8_t>(no));
}
constexpr sock_filter skip(std::size_t instructions) {
  return BPF_JUMP(BPF_JMP | BPF_JA, static_cast<std::uint32_t>(instructions), 0, 0);
}
constexpr sock_filter give(std::uint32_t bytes) { return BPF_STMT(BPF_RET | BPF_K, bytes); }

void append(Program& program, std::initializer_list<sock_filter> instructions) {
  program.insert(program.end(), instructions);
}
void append(Program& program, const Program& instructions) {
  program.insert(program.end(), instructions.begin(), instructions.end());
}

/// The octets from `at` as a load of `Word` gives them.
template <class Word, class Octets>
Word word_at(const Octets& octets, std::size_t at) {
  return load_big_endian<Word>(std::as_bytes(std::span(octets)).data() + at);
}

/// Ends with other stations' frames.
void append_station(Program& program, const wire::MacAddress& station) {
  append(program, {load(BPF_B, 0), jump(BPF_JSET, 1, 5, 0),  // a group
                   load(BPF_W, 0), jump(BPF_JEQ, word_at<std::uint32_t>(station.octets, 0), 0, 2), load(BPF_H, 4),
                   jump(BPF_JEQ, word_at<std::uint16_t>(station.octets, 4), 1, 0), give(unwanted_bytes)});
}

/// Ends with other types.
void append_types(Program& program, const std::vector<std::uint16_t>& types) {
  program.push_back(load(BPF_H, type_offset));
  for (std::size_t at = 0; at < types.size(); ++at) {
    program.push_back(jump(BPF_JEQ, types[at], types.size() - at, 0));
  }
  program.push_back(give(unwanted_bytes));
}

Program hosts_v4(const std::vector<wire::IpAddress>& hosts) {
  constexpr std::uint32_t destination = network_offset + wire::Ipv4View::destination_offset;
  Program program{load_length(),
                  jump(BPF_JGE, destination + wire::Ipv4Address::size, 1, 0),
                  give(everything),
                  load(BPF_W, destination),
                  jump(BPF_JGE, 0xe000'0000, 0, 1),
                  give(everything)};
  for (const wire::IpAddress& host : hosts) {
    if (host.is_v4()) {
      append(program, {jump(BPF_JEQ, word_at<std::uint32_t>(host.v4().octets, 0), 0, 1), give(everything)});
    }
  }
  program.push_back(give(nothing));
  return program;
}

Program hosts_v6(const std::vector<wire::IpAddress>& hosts) {
  constexpr std::uint32_t destination = network_offset + wire::Ipv6View::destination_offset;
  constexpr std::size_t words = wire::Ipv6Address::size / 4;
  Program program{load_length(),
                  jump(BPF_JGE, destination + wire::Ipv6Address::size, 1, 0),
                  give(everything),
                  load(BPF_B, destination),
                  jump(BPF_JEQ, 0xff, 0, 1),
                  give(everything)};
  for (const wire::IpAddress& host : hosts) {
    for (std::size_t word = 0; host.is_v6() && word < words; ++word) {
      const std::size_t to_the_next_host = 2 * (words - word) - 1;
      append(program, {load(BPF_W, static_cast<std::uint32_t>(destination + 4 * word)),
                       jump(BPF_JEQ, word_at<std::uint32_t>(host.v6().octets, 4 * word), 0, to_the_next_host)});
    }
    if (host.is_v6()) {
      program.push_back(give(everything));
    }
  }
  program.push_back(give(nothing));
  return program;
}

/// Ends with IP packets to other hosts.
void append_hosts(Program& program, const std::vector<wire::IpAddress>& hosts) {
  append(program, {load(BPF_B, 0), jump(BPF_JSET, 1, 0, 1), give(everything)});  // a group of the link
  for (const auto& [type, block] :
       {std::pair(wire::ethertype_ipv4, hosts_v4(hosts)), std::pair(wire::ethertype_ipv6, hosts_v6(hosts))}) {
    append(program, {load(BPF_H, type_offset), jump(BPF_JEQ, type, 1, 0), skip(block.size())});
    append(program, block);
  }
}

}  // namespace

std::vector<sock_filter> packet_filter(const PacketFilterRules& rules) {
  Program program;
  if (rules.station) {
    append_station(program, *rules.station);
  }
  if (rules.types && rules.types->size() <= PacketFilterRules::types_max) {
    append_types(program, *rules.types);
  }
  if (rules.hosts && rules.hosts->size() <= PacketFilterRules::hosts_max) {
    append_hosts(program, *rules.hosts);
  }
  program.push_back(give(everything));
  return program;
}

}  // namespace sluice::dlpi
