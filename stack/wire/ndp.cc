// SPDX-License-Identifier: Apache-2.0
#include "stack/wire/ndp.h"

#include "base/contract.h"
#include "base/internet_checksum.h"

namespace sluice::wire {
namespace {

constexpr std::size_t body_size = 24;
constexpr std::size_t target_offset = 8;
constexpr std::size_t option_unit = 8;  // RFC 4861 section 4.6: "The length of the option [...] in units of 8 octets."
constexpr std::uint8_t option_source_link_layer = 1;
constexpr std::uint8_t option_target_link_layer = 2;
constexpr std::uint8_t option_prefix = 3;
constexpr std::uint8_t option_mtu = 5;

constexpr std::byte prefix_on_link{0x80};
constexpr std::byte prefix_autonomous{0x40};

constexpr std::uint32_t flag_router = 1U << 31;
constexpr std::uint32_t flag_solicited = 1U << 30;
constexpr std::uint32_t flag_override = 1U << 29;

/// What both messages share: checks the fixed part.
std::expected<void, NdpMalformed> check_body(ConstBytes message, Icmp6Type type) {
  if (message.size() < body_size) {
    return std::unexpected(NdpMalformed::short_message);
  }
  if (static_cast<Icmp6Type>(message[0]) != type) {
    return std::unexpected(NdpMalformed::wrong_type);
  }
  if (message[1] != std::byte{0}) {
    return std::unexpected(NdpMalformed::bad_code);
  }
  if (Ipv6Address::load(message.data() + target_offset).is_multicast()) {
    return std::unexpected(NdpMalformed::multicast_target);
  }
  return {};
}

/// The Ethernet address in the first option of type `wanted`. Every option is checked, as the RFC asks. The loop ends
/// because each option is at least 8 bytes of a message that is at most 64 KiB.
std::expected<std::optional<MacAddress>, NdpMalformed> find_link_layer(ConstBytes options, std::uint8_t wanted) {
  std::optional<MacAddress> found;
  while (!options.empty()) {
    const std::size_t length = ndp_option_size(options);
    if (length == 0) {
      return std::unexpected(NdpMalformed::bad_option);
    }
    if (static_cast<std::uint8_t>(options[0]) == wanted && !found) {
      if (length != option_unit) {
        return std::unexpected(NdpMalformed::bad_option);
      }
      found = MacAddress::load(options.data() + 2);
    }
    options = options.subspan(length);
  }
  return found;
}

std::size_t emit_message(Icmp6Type type, std::uint32_t flags, const Ipv6Address& target, std::uint8_t option,
                         const std::optional<MacAddress>& link_layer, Bytes out) {
  SLUICE_REQUIRE(out.size() >= body_size + option_unit);
  out[0] = static_cast<std::byte>(type);
  out[1] = std::byte{0};
  store_checksum(out.data() + icmp_checksum_offset, 0);
  store_big_endian(out.data() + 4, flags);
  target.store(out.data() + target_offset);
  if (!link_layer) {
    return body_size;
  }
  out[body_size] = static_cast<std::byte>(option);
  out[body_size + 1] = std::byte{1};
  link_layer->store(out.data() + body_size + 2);
  return body_size + option_unit;
}

}  // namespace

std::size_t ndp_option_size(ConstBytes options) {
  const std::size_t size = options.size() < option_unit ? 0 : option_unit * static_cast<std::size_t>(options[1]);
  return size > options.size() ? 0 : size;
}

std::expected<NeighborSolicitation, NdpMalformed> NeighborSolicitation::parse(ConstBytes message) {
  if (const auto body = check_body(message, Icmp6Type::neighbor_solicitation); !body) {
    return std::unexpected(body.error());
  }
  const auto link_layer = find_link_layer(message.subspan(body_size), option_source_link_layer);
  if (!link_layer) {
    return std::unexpected(link_layer.error());
  }
  return NeighborSolicitation{Ipv6Address::load(message.data() + target_offset), *link_layer};
}

std::size_t NeighborSolicitation::emit(Bytes out) const {
  return emit_message(Icmp6Type::neighbor_solicitation, 0, target, option_source_link_layer, source_link_layer, out);
}

std::expected<NeighborAdvertisement, NdpMalformed> NeighborAdvertisement::parse(ConstBytes message) {
  if (const auto body = check_body(message, Icmp6Type::neighbor_advertisement); !body) {
    return std::unexpected(body.error());
  }
  const auto link_layer = find_link_layer(message.subspan(body_size), option_target_link_layer);
  if (!link_layer) {
    return std::unexpected(link_layer.error());
  }
  const auto flags = load_big_endian<std::uint32_t>(message.data() + 4);
  return NeighborAdvertisement{(flags & flag_router) != 0, (flags & flag_solicited) != 0, (flags & flag_override) != 0,
                               Ipv6Address::load(message.data() + target_offset), *link_layer};
}

std::size_t NeighborAdvertisement::emit(Bytes out) const {
  const std::uint32_t flags =
      (router ? flag_router : 0) | (solicited ? flag_solicited : 0) | (override_entry ? flag_override : 0);
  return emit_message(Icmp6Type::neighbor_advertisement, flags, target, option_target_link_layer, target_link_layer,
                      out);
}

std::size_t RouterSolicitation::emit(Bytes out) const {
  SLUICE_REQUIRE(out.size() >= size_max);
  out[0] = static_cast<std::byte>(Icmp6Type::router_solicitation);
  out[1] = std::byte{0};
  store_checksum(out.data() + icmp_checksum_offset, 0);
  store_big_endian(out.data() + 4, std::uint32_t{0});
  if (!source_link_layer) {
    return size_min;
  }
  out[size_min] = static_cast<std::byte>(option_source_link_layer);
  out[size_min + 1] = std::byte{1};
  source_link_layer->store(out.data() + size_min + 2);
  return size_max;
}

std::expected<RouterAdvertisement, NdpMalformed> RouterAdvertisement::parse(ConstBytes message) {
  if (message.size() < size_min) {
    return std::unexpected(NdpMalformed::short_message);
  }
  if (static_cast<Icmp6Type>(message[0]) != Icmp6Type::router_advertisement) {
    return std::unexpected(NdpMalformed::wrong_type);
  }
  if (message[1] != std::byte{0}) {
    return std::unexpected(NdpMalformed::bad_code);
  }
  const ConstBytes options = message.subspan(size_min);
  const auto link_layer = find_link_layer(options, option_source_link_layer);
  if (!link_layer) {
    return std::unexpected(link_layer.error());
  }
  std::optional<std::uint32_t> mtu;
  for (ConstBytes rest = options; !rest.empty(); rest = rest.subspan(ndp_option_size(rest))) {
    if (static_cast<std::uint8_t>(rest[0]) == option_mtu && ndp_option_size(rest) == option_unit) {
      mtu = load_big_endian<std::uint32_t>(rest.data() + 4);
    }
  }
  return RouterAdvertisement{.hop_limit = std::to_integer<std::uint8_t>(message[4]),
                             .lifetime = load_big_endian<std::uint16_t>(message.data() + 6),
                             .reachable_time = load_big_endian<std::uint32_t>(message.data() + 8),
                             .retransmit_timer = load_big_endian<std::uint32_t>(message.data() + 12),
                             .source_link_layer = *link_layer,
                             .mtu = mtu,
                             .options = options};
}

std::optional<PrefixInformation> next_prefix(ConstBytes& options) {
  constexpr std::size_t prefix_size = 4 * option_unit;
  while (const std::size_t size = ndp_option_size(options)) {
    const ConstBytes option = options.first(size);
    options = options.subspan(size);
    if (static_cast<std::uint8_t>(option[0]) == option_prefix && size == prefix_size) {
      return PrefixInformation{.length = std::to_integer<std::uint8_t>(option[2]),
                               .on_link = (option[3] & prefix_on_link) != std::byte{0},
                               .autonomous = (option[3] & prefix_autonomous) != std::byte{0},
                               .valid_lifetime = load_big_endian<std::uint32_t>(option.data() + 4),
                               .preferred_lifetime = load_big_endian<std::uint32_t>(option.data() + 8),
                               .prefix = Ipv6Address::load(option.data() + 16)};
    }
  }
  options = {};
  return std::nullopt;
}

bool valid_solicitation(const NeighborSolicitation& message, const Ipv6Address& source,
                        const Ipv6Address& destination) {
  if (!source.is_unspecified()) {
    return true;
  }
  return destination == solicited_node(message.target) && !message.source_link_layer;
}

bool valid_advertisement(const NeighborAdvertisement& message, const Ipv6Address& destination) {
  return !(destination.is_multicast() && message.solicited);
}

Ipv6Address link_local_address(const MacAddress& mac) {
  const auto& octets = mac.octets;
  // "complementing the universal/local bit", and FFFE between the two halves.
  const auto first = static_cast<std::uint8_t>(octets[0] ^ 0x02U);
  return {{0xfe, 0x80, 0, 0, 0, 0, 0, 0, first, octets[1], octets[2], 0xff, 0xfe, octets[3], octets[4], octets[5]}};
}

}  // namespace sluice::wire
