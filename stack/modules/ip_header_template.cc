// SPDX-License-Identifier: Apache-2.0
#include "stack/modules/ip_header_template.h"

#include <algorithm>
#include <cstring>

#include "base/contract.h"
#include "base/internet_checksum.h"
#include "stack/wire/ipv4.h"
#include "stack/wire/ipv6.h"
#include "stack/wire/protocol.h"

namespace sluice::ip {
namespace {

using wire::Ipv4View;
using wire::Ipv6View;

constexpr std::byte version4_without_options{0x45};

/// As header_sum(), of 20 bytes: 2^32 is 1 modulo 65535, so words of 32 bits sum alike.
std::uint16_t v4_header_sum(const std::byte* header) {
  std::array<std::uint32_t, wire::Ipv4Header::size / 4> words;
  std::memcpy(words.data(), header, sizeof words);
  return fold_sum(std::uint64_t{words[0]} + words[1] + words[2] + words[3] + words[4]);
}

}  // namespace

void HeaderTemplate::take(ConstBytes header, std::uint8_t hop_limit, std::uint8_t traffic_class, bool dont_fragment,
                          std::size_t payload_max) {
  SLUICE_REQUIRE(header.size() == wire::Ipv4Header::size || header.size() == wire::Ipv6Header::size);
  std::ranges::copy(header, bytes_.begin());
  size_ = header.size();
  payload_max_ = payload_max;
  identifications_ = size_ == wire::Ipv4Header::size ? 1 : 0;
  sap_ = size_ == wire::Ipv4Header::size ? wire::ethertype_ipv4 : wire::ethertype_ipv6;
  hop_limit_ = hop_limit;
  traffic_class_ = traffic_class;
  dont_fragment_ = dont_fragment;
  if (size_ == wire::Ipv4Header::size) {
    for (const std::size_t field :
         {Ipv4View::total_length_offset, Ipv4View::identification_offset, Ipv4View::checksum_offset}) {
      bytes_[field] = bytes_[field + 1] = std::byte{0};
    }
    sum_ = v4_header_sum(bytes_.data());
    protocol_ = std::to_integer<std::uint8_t>(bytes_[Ipv4View::protocol_offset]);
  } else {
    protocol_ = std::to_integer<std::uint8_t>(bytes_[Ipv6View::next_header_offset]);
  }
}

void HeaderTemplate::set_flow_label(std::uint32_t label) {
  SLUICE_REQUIRE(label < (1U << 20));
  if (size_ == wire::Ipv6Header::size) {
    const auto word = load_big_endian<std::uint32_t>(bytes_.data());
    store_big_endian(bytes_.data(), (word & 0xfff0'0000U) | label);
  }
}

void HeaderTemplate::emit(std::byte* out, std::size_t payload, std::uint16_t identification) const {
  if (size_ == wire::Ipv4Header::size) {
    const std::uint16_t length = to_big_endian(static_cast<std::uint16_t>(payload + wire::Ipv4Header::size));
    const std::uint16_t id = to_big_endian(identification);
    std::memcpy(out, bytes_.data(), wire::Ipv4Header::size);
    std::memcpy(out + Ipv4View::total_length_offset, &length, sizeof length);
    std::memcpy(out + Ipv4View::identification_offset, &id, sizeof id);
    store_checksum(out + Ipv4View::checksum_offset, checksum_of(fold_sum(std::uint64_t{sum_} + length + id)));
  } else {
    std::memcpy(out, bytes_.data(), wire::Ipv6Header::size);
    store_big_endian(out + Ipv6View::payload_length_offset, static_cast<std::uint16_t>(payload));
  }
}

void ArrivalTemplate::take(const wire::IpAddress& source, const wire::IpAddress& local, std::uint8_t protocol) {
  SLUICE_REQUIRE(source.family() == local.family());
  source_ = source;
  local_ = local;
  source.store(addresses_.data());
  local.store(addresses_.data() + local.size());
  protocol_ = protocol;
  size_ = source.is_v4() ? wire::Ipv4Header::size : wire::Ipv6Header::size;
}

bool ArrivalTemplate::matches(ConstBytes front, std::size_t packet_size, wire::DataUnit& unitdata) const {
  if (size_ == 0 || packet_size < size_ || front.size() < std::min(size_ + transport_peek, packet_size)) {
    return false;
  }
  const std::byte* const at = front.data();
  if (size_ == wire::Ipv4Header::size) {
    if (at[0] != version4_without_options ||
        std::to_integer<std::uint8_t>(at[Ipv4View::protocol_offset]) != protocol_ ||
        (load_big_endian<std::uint16_t>(at + Ipv4View::fragment_word_offset) & Ipv4View::fragment_mask) != 0 ||
        load_big_endian<std::uint16_t>(at + Ipv4View::total_length_offset) != packet_size ||
        std::memcmp(at + Ipv4View::source_offset, addresses_.data(), 8) != 0 || !sum_holds(v4_header_sum(at))) {
      return false;
    }
    unitdata.hop_limit = std::to_integer<std::uint8_t>(at[Ipv4View::time_to_live_offset]);
    unitdata.traffic_class = std::to_integer<std::uint8_t>(at[Ipv4View::type_of_service_offset]);
  } else {
    if ((at[0] & std::byte{0xf0}) != std::byte{0x60} ||
        std::to_integer<std::uint8_t>(at[Ipv6View::next_header_offset]) != protocol_ ||
        load_big_endian<std::uint16_t>(at + Ipv6View::payload_length_offset) + size_ != packet_size ||
        std::memcmp(at + Ipv6View::source_offset, addresses_.data(), 32) != 0) {
      return false;
    }
    unitdata.hop_limit = std::to_integer<std::uint8_t>(at[Ipv6View::hop_limit_offset]);
    unitdata.traffic_class = static_cast<std::uint8_t>(load_big_endian<std::uint16_t>(at) >> 4);
  }
  unitdata.kind = wire::DataUnit::Kind::network_indication;
  unitdata.options = wire::DataUnit::Options::received;
  unitdata.protocol = protocol_;
  unitdata.group = false;
  unitdata.peer = source_;
  unitdata.local = local_;
  unitdata.header_size = static_cast<std::uint16_t>(size_);
  return true;
}

}  // namespace sluice::ip
