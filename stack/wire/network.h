// SPDX-License-Identifier: Apache-2.0
#pragma once

// What the ip module and its user (udp, or another transport) say to each other beyond plain TPI: requests in M_CTL
// messages, and the options of T_UNITDATA_REQ, T_UNITDATA_IND and T_UDERROR_IND.
//
//     user of ip                                                  ip
//     T_BIND_REQ NetworkAddress            ─────►  which addresses and protocol to receive
//     M_CTL dlpi::FilterReq{local_port}    ─────►  completed, passed to the driver; its answer comes up in M_CTL
//         of a connection {local, local_port, remote, remote_port}
//     M_CTL RouteReq                       ─────►
//                                          ◄─────  M_CTL RouteAck, before put_next() of the request returns
//     M_CTL SettingsReq                    ─────►  asks how datagrams leave, or changes it
//                                          ◄─────  M_CTL SettingsAck, likewise before put_next() returns
//     M_CTL GroupReq                       ─────►  joins or leaves a group
//                                          ◄─────  M_CTL GroupAck, likewise
//     T_UNITDATA_REQ [Sending] + M_DATA    ─────►
//                                          ◄─────  T_UNITDATA_IND [Received] + M_DATA
//     M_CTL UnreachableReq + M_DATA        ─────►  answers a received datagram with ICMP "port unreachable"
//                                          ◄─────  T_UDERROR_IND [Failure] + M_DATA
//
// M_DATA begins at the transport header. Behind a T_UDERROR_IND it is what is known of the datagram that failed: all of
// it when this host could not send it, the first bytes (at least 8) when an ICMP error quoted it; so the user can tell
// by the ports whose it was.
//
// Every struct X here has
//   X::size                         bytes of its fixed encoding, which Sending and Received may extend
//   std::size_t encode(Bytes) const writes it, returns its size. REQUIRES: room for it.
//   static decode(ConstBytes)       -> X or what is malformed.
// Requests start with a word that names them, in the machine's byte order; longer blocks are accepted. An address is
// the family (4 or 6; 0: none) and 16 octets, of which IPv4 uses the first four and leaves the others zero.
//
// Plain values; thread-safe as such.

#include <cstddef>
#include <cstdint>
#include <expected>
#include <optional>

#include "base/bytes.h"
#include "stack/wire/address.h"

namespace sluice::wire::network {

/// The numbers of the M_CTL requests: in the same private range as dlpi::DL_FILTER_REQ, with which they share M_CTL.
enum Primitive : std::uint32_t {
  route_req = 0x8000'0101,
  route_ack = 0x8000'0102,
  unreachable_req = 0x8000'0103,
  settings_req = 0x8000'0104,
  settings_ack = 0x8000'0105,
  group_req = 0x8000'0106,
  group_ack = 0x8000'0107,
};

enum class Malformed : std::uint8_t {
  short_block,      ///< the block ends too early
  wrong_primitive,  ///< the first word names another request
  bad_address,      ///< the family is none there is, is missing where it is needed, or unused octets are not zero
  bad_value         ///< a flag that means nothing here
};

template <class T>
using Decoded = std::expected<T, Malformed>;

/// Down: "How would a datagram to `destination` leave?" Answered with RouteAck, at once.
struct RouteReq {
  static constexpr std::uint32_t primitive = route_req;
  static constexpr std::size_t size = 24;

  IpAddress destination{};

  [[nodiscard]] static Decoded<RouteReq> decode(ConstBytes block);
  std::size_t encode(Bytes out) const;
  friend constexpr auto operator<=>(const RouteReq&, const RouteReq&) = default;
};

/// Up: the answer, and sent again unasked when it changes. A destination that is unspecified says: every earlier answer
/// is void, ask again.
struct RouteAck {
  static constexpr std::uint32_t primitive = route_ack;
  static constexpr std::size_t size = 56;

  IpAddress destination{};
  IpAddress source{};       ///< of the same family; meaningless unless error is 0
  std::uint32_t mtu = 0;    ///< largest IP packet that leaves unfragmented, header included, in bytes
  std::uint32_t error = 0;  ///< 0, or the errno why there is no route: ENETUNREACH, EADDRNOTAVAIL
  bool segments = false;    ///< several datagrams may go in one message (Sending::segment_size)

  [[nodiscard]] static Decoded<RouteAck> decode(ConstBytes block);
  std::size_t encode(Bytes out) const;
  friend constexpr auto operator<=>(const RouteAck&, const RouteAck&) = default;
};

/// Down: "nobody here wants this datagram", with the datagram behind it as it was received, from the transport header
/// on. RFC 1122 section 3.2.2: the header of the datagram that an ICMP error quotes "MUST be unchanged", so ip looks
/// for it where it left it: `header_size` bytes before the first data byte (Received::header_size). Whether an answer
/// is sent at all is ip's business; there is none to this request.
struct UnreachableReq {
  static constexpr std::uint32_t primitive = unreachable_req;
  static constexpr std::size_t size = 48;

  IpAddress source;   ///< of the datagram
  IpAddress local{};  ///< its destination
  std::uint16_t header_size = 0;

  [[nodiscard]] static Decoded<UnreachableReq> decode(ConstBytes block);
  std::size_t encode(Bytes out) const;
  friend constexpr auto operator<=>(const UnreachableReq&, const UnreachableReq&) = default;
};

/// How the user's datagrams leave where their own options (Sending) do not say otherwise.
struct Settings {
  static constexpr std::size_t size = 12;

  std::uint8_t ttl = 64;  ///< IPv4, to a host or a broadcast address
  std::uint8_t type_of_service = 0;
  bool broadcast = false;          ///< whether broadcasts are sent; else EACCES
  std::uint8_t multicast_ttl = 1;  ///< 0: they stay in this host
  bool multicast_loop = true;      ///< members in this host get what it sends to their group
  std::uint8_t hops = 64;          ///< IPv6, likewise
  std::uint8_t multicast_hops = 1;
  bool multicast_loop_v6 = true;
  /// Every datagram leaves unfragmented and with "don't fragment", whatever was reported of its path: larger than the
  /// link's MTU is answered with EMSGSIZE. So the user can search for the path's MTU (RFC 8899).
  bool dont_fragment = false;     ///< IPv4
  bool dont_fragment_v6 = false;  ///< IPv6

  friend constexpr auto operator<=>(const Settings&, const Settings&) = default;
};

/// Down. Answered with SettingsAck, at once.
struct SettingsReq {
  static constexpr std::uint32_t primitive = settings_req;
  static constexpr std::size_t size = 8 + Settings::size;

  std::optional<Settings> wanted{};  ///< nothing: only asks

  [[nodiscard]] static Decoded<SettingsReq> decode(ConstBytes block);
  std::size_t encode(Bytes out) const;
  friend constexpr auto operator<=>(const SettingsReq&, const SettingsReq&) = default;
};

/// Up: what is in force from now on, and what is where nobody has changed it.
struct SettingsAck {
  static constexpr std::uint32_t primitive = settings_ack;
  static constexpr std::size_t size = 4 + 2 * Settings::size;

  Settings current{};
  Settings initial{};

  [[nodiscard]] static Decoded<SettingsAck> decode(ConstBytes block);
  std::size_t encode(Bytes out) const;
  friend constexpr auto operator<=>(const SettingsAck&, const SettingsAck&) = default;
};

/// Down: the user joins a group, leaves it, or leaves all that he has joined. Answered with GroupAck, at once. What a
/// user is in when the stream closes ip leaves.
struct GroupReq {
  static constexpr std::uint32_t primitive = group_req;
  static constexpr std::size_t size = 48;
  enum class Action : std::uint8_t { join = 1, leave = 2, leave_all = 3 };

  Action action = Action::leave_all;
  IpAddress group{};
  IpAddress interface{};  ///< one of this host's, or unspecified

  [[nodiscard]] static Decoded<GroupReq> decode(ConstBytes block);
  std::size_t encode(Bytes out) const;
  friend constexpr auto operator<=>(const GroupReq&, const GroupReq&) = default;
};

struct GroupAck {
  static constexpr std::uint32_t primitive = group_ack;
  static constexpr std::size_t size = 28;

  IpAddress group{};
  std::uint32_t error = 0;  ///< 0 or an errno: EADDRNOTAVAIL, ENOBUFS

  [[nodiscard]] static Decoded<GroupAck> decode(ConstBytes block);
  std::size_t encode(Bytes out) const;
  friend constexpr auto operator<=>(const GroupAck&, const GroupAck&) = default;
};

/// Datagrams in one message (Sending::segment_size) that any device takes: UDP_MAX_SEGMENTS of Linux before 6.10.
inline constexpr std::size_t segments_max = 64;
/// Fewer that would fit one packet cross the stack faster one by one. Measured with datagram_cost, 64 bytes each.
inline constexpr std::size_t joined_min = 4;
/// How many datagrams `size` bytes of data are whose datagrams have `segment_size` bytes each, the last perhaps fewer;
/// 0: it is one.
[[nodiscard]] constexpr std::size_t segments_in(std::size_t size, std::size_t segment_size) {
  return segment_size == 0 || size == 0 ? 1 : (size + segment_size - 1) / segment_size;
}

/// Options of T_UNITDATA_REQ. Absent options mean Sending{}. They are longer when they have a segment size.
struct Sending {
  static constexpr std::size_t size = 20;
  static constexpr std::size_t size_max = 24;

  std::optional<IpAddress> source{};  ///< nothing: ip chooses
  std::uint8_t hop_limit = 0;         ///< 0: as Settings say
  std::uint8_t traffic_class = 0;     ///< the whole octet, differentiated services and ECN; 0: likewise
  /// Neither this host nor a router may fragment: larger than the path's MTU, as it was reported, is answered with
  /// EMSGSIZE. Otherwise Settings say; if they say nothing, this host fragments to the path's MTU, and routers may
  /// (IPv4).
  bool dont_fragment = false;
  /// The data is that of several datagrams of so many bytes each, the last perhaps shorter; 0: of one.
  std::uint16_t segment_size = 0;

  [[nodiscard]] std::size_t encoded_size() const { return segment_size == 0 ? size : size_max; }
  [[nodiscard]] static Decoded<Sending> decode(ConstBytes options);
  /// REQUIRES: room for encoded_size().
  std::size_t encode(Bytes out) const;
  friend constexpr auto operator<=>(const Sending&, const Sending&) = default;
};

/// Options of T_UNITDATA_IND; its address is the packet's source. They are longer when they have a segment size.
struct Received {
  static constexpr std::size_t size = 24;
  static constexpr std::size_t size_max = 28;

  IpAddress local{};  ///< the packet's destination: an address of this host, or a group when `group` is set
  std::uint8_t hop_limit = 0;
  std::uint8_t traffic_class = 0;
  bool group = false;  ///< came to a multicast or broadcast address: never answered with an error
  /// The packet's network headers lie this many bytes before the first data byte, in the same buffer.
  std::uint16_t header_size = 0;
  std::uint16_t segment_size = 0;  ///< as Sending has it; to users only that have asked for segments

  [[nodiscard]] std::size_t encoded_size() const { return segment_size == 0 ? size : size_max; }
  [[nodiscard]] static Decoded<Received> decode(ConstBytes options);
  /// REQUIRES: room for encoded_size().
  std::size_t encode(Bytes out) const;
  friend constexpr auto operator<=>(const Received&, const Received&) = default;
};

/// Options of T_UDERROR_IND. Its destination is where the datagram went, with the protocol; its error type is an errno:
///
/// | errno          | from this host                    | from an ICMP or ICMPv6 error                             |
/// |----------------|-----------------------------------|----------------------------------------------------------|
/// | ENETUNREACH    | no route                          | network unreachable, no route                            |
/// | EHOSTUNREACH   | no neighbour answered             | host, address unreachable; prohibited; time exceeded     |
/// | ECONNREFUSED   |                                   | port unreachable                                         |
/// | ENOPROTOOPT    |                                   | protocol unreachable, unrecognised next header           |
/// | EMSGSIZE       | larger than `mtu`, the path's or, | fragmentation needed, packet too big; `mtu` is the       |
/// |                | by Settings, the link's, and not  | path's as known now                                      |
/// |                | to be fragmented; larger than IP  |                                                          |
/// |                | allows                            |                                                          |
/// | EPROTO         | malformed request                 | other parameter problems                                 |
/// | EADDRNOTAVAIL  | source is not an address of ours  |                                                          |
/// | EACCES         | a broadcast, and not allowed any  |                                                          |
/// | ENOBUFS        | no memory                         |                                                          |
struct Failure {
  static constexpr std::size_t size = 24;

  std::optional<IpAddress> source{};  ///< the local address it was sent from, if it got that far
  std::uint32_t mtu = 0;              ///< with EMSGSIZE: `mtu` above in bytes; otherwise 0

  [[nodiscard]] static Decoded<Failure> decode(ConstBytes options);
  std::size_t encode(Bytes out) const;
  friend constexpr auto operator<=>(const Failure&, const Failure&) = default;
};

/// The number of the request an M_CTL block holds, which may be none of those above.
[[nodiscard]] std::optional<std::uint32_t> primitive_of(ConstBytes block);

}  // namespace sluice::wire::network
