// SPDX-License-Identifier: Apache-2.0
#include "stack/wire/network.h"

#include <array>
#include <cstring>

#include "base/contract.h"
#include "stack/wire/words.h"

namespace sluice::wire::network {
namespace {

constexpr std::size_t octets_size = IpAddress::size_max;

std::byte family_byte(const std::optional<IpAddress>& address) {
  return address ? static_cast<std::byte>(address->family()) : std::byte{0};
}

void store_octets(const std::optional<IpAddress>& address, std::byte* at) {
  std::memset(at, 0, octets_size);
  if (address) {
    address->store(at);
  }
}

constexpr std::array<std::byte, octets_size> zeros{};

/// The address of a family byte and 16 octets; an inner nothing when the family is 0.
Decoded<std::optional<IpAddress>> load_optional(std::byte family, const std::byte* octets) {
  const bool is_v6 = family == static_cast<std::byte>(Family::ipv6);
  const bool is_v4 = family == static_cast<std::byte>(Family::ipv4);
  const bool is_none = family == std::byte{0};
  // Compared in two parts of constant sizes, which compilers turn into a few instructions.
  const bool first_clear = std::memcmp(octets, zeros.data(), Ipv4Address::size) == 0;
  const bool rest_clear = std::memcmp(octets + Ipv4Address::size, zeros.data(), octets_size - Ipv4Address::size) == 0;
  if (!is_v6 && !(is_v4 && rest_clear) && !(is_none && first_clear && rest_clear)) {
    return std::unexpected(Malformed::bad_address);
  }
  return is_v4 || is_v6 ? std::optional(IpAddress::load(static_cast<Family>(family), octets)) : std::nullopt;
}

Decoded<IpAddress> load_address(std::byte family, const std::byte* octets) {
  const auto address = load_optional(family, octets);
  if (!address) {
    return std::unexpected(address.error());
  }
  if (!*address) {
    return std::unexpected(Malformed::bad_address);
  }
  return **address;
}

/// Requests hold the family in a word.
std::byte family_of_word(const std::byte* at) {
  const std::uint32_t word = load_word(at);
  return word <= 0xff ? static_cast<std::byte>(word) : std::byte{0xff};
}

void store_address(const IpAddress& address, std::byte* at) {
  store_word(at, static_cast<std::uint32_t>(address.family()));
  store_octets(address, at + word_size);
}

Decoded<IpAddress> load_address(const std::byte* at) { return load_address(family_of_word(at), at + word_size); }

/// Whether `block` holds the request X.
template <class X>
Decoded<void> expect(ConstBytes block) {
  const auto number = first_word(block);
  if (!number) {
    return std::unexpected(Malformed::short_block);
  }
  if (*number != X::primitive) {
    return std::unexpected(Malformed::wrong_primitive);
  }
  if (block.size() < X::size) {
    return std::unexpected(Malformed::short_block);
  }
  return {};
}

constexpr auto flag = std::byte{1};

}  // namespace

std::optional<std::uint32_t> primitive_of(ConstBytes block) { return first_word(block); }

Decoded<RouteReq> RouteReq::decode(ConstBytes block) {
  if (const auto held = expect<RouteReq>(block); !held) {
    return std::unexpected(held.error());
  }
  const auto destination = load_address(block.data() + 4);
  if (!destination) {
    return std::unexpected(destination.error());
  }
  return RouteReq{*destination};
}

std::size_t RouteReq::encode(Bytes out) const {
  SLUICE_REQUIRE(out.size() >= size);
  store_word(out.data(), primitive);
  store_address(destination, out.data() + 4);
  return size;
}

Decoded<RouteAck> RouteAck::decode(ConstBytes block) {
  if (const auto held = expect<RouteAck>(block); !held) {
    return std::unexpected(held.error());
  }
  const auto destination = load_address(block.data() + 4);
  const auto source = load_address(block.data() + 24);
  if (!destination || !source) {
    return std::unexpected(Malformed::bad_address);
  }
  const std::uint32_t segments = load_word(block.data() + 52);
  if (segments > 1) {
    return std::unexpected(Malformed::bad_value);
  }
  return RouteAck{*destination, *source, load_word(block.data() + 44), load_word(block.data() + 48), segments == 1};
}

std::size_t RouteAck::encode(Bytes out) const {
  SLUICE_REQUIRE(out.size() >= size);
  store_word(out.data(), primitive);
  store_address(destination, out.data() + 4);
  store_address(source, out.data() + 24);
  store_word(out.data() + 44, mtu);
  store_word(out.data() + 48, error);
  store_word(out.data() + 52, segments ? 1 : 0);
  return size;
}

Decoded<UnreachableReq> UnreachableReq::decode(ConstBytes block) {
  if (const auto held = expect<UnreachableReq>(block); !held) {
    return std::unexpected(held.error());
  }
  const auto source = load_address(block.data() + 4);
  const auto local = load_address(block.data() + 24);
  if (!source || !local) {
    return std::unexpected(Malformed::bad_address);
  }
  const std::uint32_t header_size = load_word(block.data() + 44);
  if (header_size > 0xffff) {
    return std::unexpected(Malformed::bad_value);
  }
  return UnreachableReq{*source, *local, static_cast<std::uint16_t>(header_size)};
}

std::size_t UnreachableReq::encode(Bytes out) const {
  SLUICE_REQUIRE(out.size() >= size);
  store_word(out.data(), primitive);
  store_address(source, out.data() + 4);
  store_address(local, out.data() + 24);
  store_word(out.data() + 44, header_size);
  return size;
}

namespace {

void store_settings(const Settings& settings, std::byte* at) {
  std::memset(at, 0, Settings::size);
  at[0] = std::byte{settings.ttl};
  at[1] = std::byte{settings.type_of_service};
  at[2] = settings.broadcast ? flag : std::byte{0};
  at[3] = std::byte{settings.multicast_ttl};
  at[4] = settings.multicast_loop ? flag : std::byte{0};
  at[5] = std::byte{settings.hops};
  at[6] = std::byte{settings.multicast_hops};
  at[7] = settings.multicast_loop_v6 ? flag : std::byte{0};
  at[8] = settings.dont_fragment ? flag : std::byte{0};
  at[9] = settings.dont_fragment_v6 ? flag : std::byte{0};
}

Decoded<Settings> load_settings(const std::byte* at) {
  const bool flags_hold = ((at[2] | at[4] | at[7] | at[8] | at[9]) & ~flag) == std::byte{0};
  if (!flags_hold || at[0] == std::byte{0} || at[5] == std::byte{0}) {
    return std::unexpected(Malformed::bad_value);
  }
  return Settings{.ttl = static_cast<std::uint8_t>(at[0]),
                  .type_of_service = static_cast<std::uint8_t>(at[1]),
                  .broadcast = at[2] == flag,
                  .multicast_ttl = static_cast<std::uint8_t>(at[3]),
                  .multicast_loop = at[4] == flag,
                  .hops = static_cast<std::uint8_t>(at[5]),
                  .multicast_hops = static_cast<std::uint8_t>(at[6]),
                  .multicast_loop_v6 = at[7] == flag,
                  .dont_fragment = at[8] == flag,
                  .dont_fragment_v6 = at[9] == flag};
}

}  // namespace

Decoded<SettingsReq> SettingsReq::decode(ConstBytes block) {
  if (const auto held = expect<SettingsReq>(block); !held) {
    return std::unexpected(held.error());
  }
  const std::uint32_t changes = load_word(block.data() + 4);
  if (changes == 0) {
    return SettingsReq{};
  }
  const auto wanted = load_settings(block.data() + 8);
  if (changes != 1 || !wanted) {
    return std::unexpected(Malformed::bad_value);
  }
  return SettingsReq{*wanted};
}

std::size_t SettingsReq::encode(Bytes out) const {
  SLUICE_REQUIRE(out.size() >= size);
  store_word(out.data(), primitive);
  store_word(out.data() + 4, wanted ? 1 : 0);
  store_settings(wanted.value_or(Settings{}), out.data() + 8);
  return size;
}

Decoded<SettingsAck> SettingsAck::decode(ConstBytes block) {
  if (const auto held = expect<SettingsAck>(block); !held) {
    return std::unexpected(held.error());
  }
  const auto current = load_settings(block.data() + 4);
  const auto initial = load_settings(block.data() + 4 + Settings::size);
  if (!current || !initial) {
    return std::unexpected(Malformed::bad_value);
  }
  return SettingsAck{*current, *initial};
}

std::size_t SettingsAck::encode(Bytes out) const {
  SLUICE_REQUIRE(out.size() >= size);
  store_word(out.data(), primitive);
  store_settings(current, out.data() + 4);
  store_settings(initial, out.data() + 4 + Settings::size);
  return size;
}

Decoded<GroupReq> GroupReq::decode(ConstBytes block) {
  if (const auto held = expect<GroupReq>(block); !held) {
    return std::unexpected(held.error());
  }
  const std::uint32_t action = load_word(block.data() + 4);
  const auto group = load_address(block.data() + 8);
  const auto interface = load_address(block.data() + 28);
  if (!group || !interface) {
    return std::unexpected(Malformed::bad_address);
  }
  if (action < 1 || action > 3) {
    return std::unexpected(Malformed::bad_value);
  }
  return GroupReq{static_cast<Action>(action), *group, *interface};
}

std::size_t GroupReq::encode(Bytes out) const {
  SLUICE_REQUIRE(out.size() >= size);
  store_word(out.data(), primitive);
  store_word(out.data() + 4, static_cast<std::uint32_t>(action));
  store_address(group, out.data() + 8);
  store_address(interface, out.data() + 28);
  return size;
}

Decoded<GroupAck> GroupAck::decode(ConstBytes block) {
  if (const auto held = expect<GroupAck>(block); !held) {
    return std::unexpected(held.error());
  }
  const auto group = load_address(block.data() + 4);
  if (!group) {
    return std::unexpected(group.error());
  }
  return GroupAck{*group, load_word(block.data() + 24)};
}

std::size_t GroupAck::encode(Bytes out) const {
  SLUICE_REQUIRE(out.size() >= size);
  store_word(out.data(), primitive);
  store_address(group, out.data() + 4);
  store_word(out.data() + 24, error);
  return size;
}

Decoded<Sending> Sending::decode(ConstBytes options) {
  if (options.size() < size) {
    return std::unexpected(Malformed::short_block);
  }
  const auto source = load_optional(options[0], options.data() + 4);
  if (!source) {
    return std::unexpected(source.error());
  }
  const std::uint32_t segment_size = options.size() < size_max ? 0 : load_word(options.data() + size);
  if ((options[3] & ~flag) != std::byte{0} || segment_size > 0xffff) {
    return std::unexpected(Malformed::bad_value);
  }
  return Sending{*source, static_cast<std::uint8_t>(options[1]), static_cast<std::uint8_t>(options[2]),
                 options[3] == flag, static_cast<std::uint16_t>(segment_size)};
}

std::size_t Sending::encode(Bytes out) const {
  SLUICE_REQUIRE(out.size() >= encoded_size());
  out[0] = family_byte(source);
  out[1] = std::byte{hop_limit};
  out[2] = std::byte{traffic_class};
  out[3] = dont_fragment ? flag : std::byte{0};
  store_octets(source, out.data() + 4);
  if (segment_size != 0) {
    store_word(out.data() + size, segment_size);
  }
  return encoded_size();
}

Decoded<Received> Received::decode(ConstBytes options) {
  if (options.size() < size) {
    return std::unexpected(Malformed::short_block);
  }
  const auto local = load_address(options[0], options.data() + 4);
  if (!local) {
    return std::unexpected(local.error());
  }
  const std::uint32_t header_size = load_word(options.data() + 20);
  const std::uint32_t segment_size = options.size() < size_max ? 0 : load_word(options.data() + size);
  if ((options[3] & ~flag) != std::byte{0} || header_size > 0xffff || segment_size > 0xffff) {
    return std::unexpected(Malformed::bad_value);
  }
  return Received{*local,
                  static_cast<std::uint8_t>(options[1]),
                  static_cast<std::uint8_t>(options[2]),
                  options[3] == flag,
                  static_cast<std::uint16_t>(header_size),
                  static_cast<std::uint16_t>(segment_size)};
}

std::size_t Received::encode(Bytes out) const {
  SLUICE_REQUIRE(out.size() >= encoded_size());
  out[0] = family_byte(local);
  out[1] = std::byte{hop_limit};
  out[2] = std::byte{traffic_class};
  out[3] = group ? flag : std::byte{0};
  store_octets(local, out.data() + 4);
  store_word(out.data() + 20, header_size);
  if (segment_size != 0) {
    store_word(out.data() + size, segment_size);
  }
  return encoded_size();
}

Decoded<Failure> Failure::decode(ConstBytes options) {
  if (options.size() < size) {
    return std::unexpected(Malformed::short_block);
  }
  const auto source = load_optional(options[0], options.data() + 4);
  if (!source) {
    return std::unexpected(source.error());
  }
  if ((options[1] | options[2] | options[3]) != std::byte{0}) {
    return std::unexpected(Malformed::bad_value);
  }
  return Failure{*source, load_word(options.data() + 20)};
}

std::size_t Failure::encode(Bytes out) const {
  SLUICE_REQUIRE(out.size() >= size);
  store_word(out.data(), 0);
  out[0] = family_byte(source);
  store_octets(source, out.data() + 4);
  store_word(out.data() + 20, mtu);
  return size;
}

}  // namespace sluice::wire::network
