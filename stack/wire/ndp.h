// SPDX-License-Identifier: Apache-2.0
#pragma once

// Neighbour discovery (RFC 4861): neighbour solicitation and advertisement, router solicitation (sent only) and
// advertisement (received only), with the link-layer address option of Ethernet. The messages are whole ICMPv6
// messages; the checksum is handled as in icmp6.h.
//
// Before it calls parse, the module must check what the IPv6 header says. RFC 4861 sections 6.1.2, 7.1.1 and 7.1.2:
// "The IP Hop Limit field has a value of 255, i.e., the packet could not possibly have been forwarded by a router"; of
// a router advertisement also that the "IP Source Address is a link-local address"; and with valid_solicitation or
// valid_advertisement, once parsed, what the message and the addresses say together.

#include <cstddef>
#include <cstdint>
#include <expected>
#include <optional>

#include "base/bytes.h"
#include "stack/wire/address.h"
#include "stack/wire/icmp6.h"

namespace sluice::wire {

inline constexpr std::uint8_t ndp_hop_limit = 255;

/// RFC 4291 section 2.7.1: every IPv6 host of a link.
inline constexpr Ipv6Address ipv6_all_nodes{{0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}};
/// And every router.
inline constexpr Ipv6Address ipv6_all_routers{{0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2}};

enum class NdpMalformed : std::uint8_t {
  short_message,     ///< "ICMP length (derived from the IP length) is 24 or more octets"
  wrong_type,        ///< another ICMPv6 type
  bad_code,          ///< "ICMP Code is 0"
  multicast_target,  ///< "Target Address is not a multicast address"
  bad_option         ///< "All included options have a length that is greater than zero", and none reaches beyond the
                     ///< message; or a link-layer address option that does not hold an Ethernet address
};

/// "Who has `target`?"
struct NeighborSolicitation {
  static constexpr std::size_t size_min = 24;
  static constexpr std::size_t size_max = size_min + 8;

  Ipv6Address target;
  std::optional<MacAddress> source_link_layer;  ///< absent when the sender has no address yet

  /// `message` is the whole ICMPv6 message. Options other than the link-layer address are passed over.
  [[nodiscard]] static std::expected<NeighborSolicitation, NdpMalformed> parse(ConstBytes message);
  /// Writes the message, checksum zero, and returns its size. REQUIRES: out holds size_max.
  std::size_t emit(Bytes out) const;

  friend constexpr auto operator<=>(const NeighborSolicitation&, const NeighborSolicitation&) = default;
};

/// "`target` is at `target_link_layer`."
struct NeighborAdvertisement {
  static constexpr std::size_t size_min = 24;
  static constexpr std::size_t size_max = size_min + 8;

  bool router = false;
  bool solicited = false;
  bool override_entry = false;  ///< the O flag: replace what is cached
  Ipv6Address target;
  std::optional<MacAddress> target_link_layer;

  [[nodiscard]] static std::expected<NeighborAdvertisement, NdpMalformed> parse(ConstBytes message);
  std::size_t emit(Bytes out) const;

  friend constexpr auto operator<=>(const NeighborAdvertisement&, const NeighborAdvertisement&) = default;
};

/// "Routers, advertise yourselves."
struct RouterSolicitation {
  static constexpr std::size_t size_min = 8;
  static constexpr std::size_t size_max = size_min + 8;

  /// RFC 4861 section 4.1: "MUST NOT be included if the Source Address is the unspecified address."
  std::optional<MacAddress> source_link_layer;

  std::size_t emit(Bytes out) const;
};

/// RFC 4861 section 4.6.2. Lifetimes are in seconds; all one bits: infinity.
struct PrefixInformation {
  static constexpr std::uint32_t infinity = 0xffff'ffff;

  std::uint8_t length = 0;  ///< as it came: it may be more than 128
  bool on_link = false;
  bool autonomous = false;
  std::uint32_t valid_lifetime = 0;
  std::uint32_t preferred_lifetime = 0;
  Ipv6Address prefix;

  friend constexpr auto operator<=>(const PrefixInformation&, const PrefixInformation&) = default;
};

/// "I am a router; this is the link." What is zero, but for the lifetime, is unspecified.
struct RouterAdvertisement {
  static constexpr std::size_t size_min = 16;

  std::uint8_t hop_limit = 0;
  std::uint16_t lifetime = 0;          ///< seconds as a default router
  std::uint32_t reachable_time = 0;    ///< milliseconds
  std::uint32_t retransmit_timer = 0;  ///< milliseconds
  std::optional<MacAddress> source_link_layer;
  std::optional<std::uint32_t> mtu;
  ConstBytes options;  ///< a window on the message, each option whole

  /// RFC 4861 section 6.1.2 as for the others. `options` lives as long as `message`.
  [[nodiscard]] static std::expected<RouterAdvertisement, NdpMalformed> parse(ConstBytes message);
};

/// The next prefix information of `options`, which then begin behind it; nothing, and they are empty, when there is
/// none. One whose length is not its own (RFC 4861 section 4.6.2: 4 units of 8 octets) is passed over.
[[nodiscard]] std::optional<PrefixInformation> next_prefix(ConstBytes& options);

/// The size in bytes of the first of some options; 0 where it is malformed: of no length, or reaching beyond them.
[[nodiscard]] std::size_t ndp_option_size(ConstBytes options);

/// RFC 4291 section 2.7.1: the group ff02::1:ffXX:XXXX that a holder of `address` joins, and solicitations go to.
[[nodiscard]] constexpr Ipv6Address solicited_node(const Ipv6Address& address) {
  return {{0xff, 0x02, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, address.octets[13], address.octets[14], address.octets[15]}};
}

/// RFC 4861 section 7.1.1: "If the IP source address is the unspecified address, the IP destination address is a
/// solicited-node multicast address", and "there is no source link-layer address option in the message."
[[nodiscard]] bool valid_solicitation(const NeighborSolicitation& message, const Ipv6Address& source,
                                      const Ipv6Address& destination);

/// RFC 4861 section 7.1.2: "If the IP Destination Address is a multicast address the Solicited flag is zero."
[[nodiscard]] bool valid_advertisement(const NeighborAdvertisement& message, const Ipv6Address& destination);

/// The link-local address with the modified EUI-64 interface identifier of `mac` (RFC 4291 appendix A, RFC 2464
/// section 4).
[[nodiscard]] Ipv6Address link_local_address(const MacAddress& mac);

}  // namespace sluice::wire
