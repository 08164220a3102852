// SPDX-License-Identifier: Apache-2.0
#pragma once

// Addresses of every layer: values, their text, and their form as opaque TPI address bytes.
//
// All types are plain values: copy them freely, share them between threads, compare and hash them. Octets are held in
// network byte order, as they appear in a header. Text comes from people (stack files, command lines), so from_text
// answers with a sentence; bytes come from messages, so decode answers with a named malformation.

#include <array>
#include <bit>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <expected>
#include <functional>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/contract.h"
#include "base/result.h"

namespace sluice::wire {

/// An IEEE 802 MAC address.
struct MacAddress {
  static constexpr std::size_t size = 6;

  std::array<std::uint8_t, size> octets{};

  /// The address at `at`. REQUIRES: 6 readable bytes.
  [[nodiscard]] static MacAddress load(const std::byte* at) {
    MacAddress address;
    std::memcpy(address.octets.data(), at, size);
    return address;
  }
  /// REQUIRES: 6 writable bytes at `at`.
  void store(std::byte* at) const { std::memcpy(at, octets.data(), size); }

  /// Accepts "02:00:00:00:00:01", upper or lower case, ':' or '-' between octets.
  [[nodiscard]] static Result<MacAddress> from_text(std::string_view text);
  [[nodiscard]] std::string to_text() const;

  /// The group bit; true for the broadcast address too.
  [[nodiscard]] constexpr bool is_multicast() const { return (octets[0] & 1U) != 0; }
  [[nodiscard]] constexpr bool is_broadcast() const;
  [[nodiscard]] constexpr bool is_unspecified() const { return *this == MacAddress{}; }

  friend constexpr auto operator<=>(const MacAddress&, const MacAddress&) = default;
};

inline constexpr MacAddress mac_broadcast{{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}};

constexpr bool MacAddress::is_broadcast() const { return *this == mac_broadcast; }

struct Ipv4Address {
  static constexpr std::size_t size = 4;

  std::array<std::uint8_t, size> octets{};

  [[nodiscard]] static Ipv4Address load(const std::byte* at) {
    Ipv4Address address;
    std::memcpy(address.octets.data(), at, size);
    return address;
  }
  void store(std::byte* at) const { std::memcpy(at, octets.data(), size); }

  /// Four decimal numbers without leading zeros (RFC 6943 section 3.1.1 on why nothing looser is accepted).
  [[nodiscard]] static Result<Ipv4Address> from_text(std::string_view text);
  [[nodiscard]] std::string to_text() const;

  /// The address as a number, the first octet most significant.
  [[nodiscard]] constexpr std::uint32_t value() const {
    return (static_cast<std::uint32_t>(octets[0]) << 24) | (static_cast<std::uint32_t>(octets[1]) << 16) |
           (static_cast<std::uint32_t>(octets[2]) << 8) | octets[3];
  }
  [[nodiscard]] static constexpr Ipv4Address from_value(std::uint32_t value) {
    return {{static_cast<std::uint8_t>(value >> 24), static_cast<std::uint8_t>(value >> 16),
             static_cast<std::uint8_t>(value >> 8), static_cast<std::uint8_t>(value)}};
  }

  [[nodiscard]] constexpr bool is_unspecified() const { return value() == 0; }
  /// The limited broadcast 255.255.255.255; a subnet's own broadcast is IpPrefix::broadcast().
  [[nodiscard]] constexpr bool is_broadcast() const { return value() == 0xffff'ffffU; }
  [[nodiscard]] constexpr bool is_multicast() const { return octets[0] >> 4 == 0xe; }      // 224.0.0.0/4
  [[nodiscard]] constexpr bool is_loopback() const { return octets[0] == 127; }            // 127.0.0.0/8
  [[nodiscard]] constexpr bool is_link_local() const { return value() >> 16 == 0xa9feU; }  // 169.254.0.0/16

  friend constexpr auto operator<=>(const Ipv4Address&, const Ipv4Address&) = default;
};

struct Ipv6Address {
  static constexpr std::size_t size = 16;

  std::array<std::uint8_t, size> octets{};

  [[nodiscard]] static Ipv6Address load(const std::byte* at) {
    Ipv6Address address;
    std::memcpy(address.octets.data(), at, size);
    return address;
  }
  void store(std::byte* at) const { std::memcpy(at, octets.data(), size); }

  /// Any form of RFC 4291 section 2.2, without zone.
  [[nodiscard]] static Result<Ipv6Address> from_text(std::string_view text);
  /// The canonical form of RFC 5952.
  [[nodiscard]] std::string to_text() const;

  /// The 16-bit group `index` (0..7), as written between the colons.
  [[nodiscard]] constexpr std::uint16_t group(std::size_t index) const {
    return static_cast<std::uint16_t>((octets[2 * index] << 8) | octets[2 * index + 1]);
  }

  [[nodiscard]] constexpr bool is_unspecified() const { return *this == Ipv6Address{}; }
  [[nodiscard]] constexpr bool is_multicast() const { return octets[0] == 0xff; }  // ff00::/8
  [[nodiscard]] constexpr bool is_loopback() const {
    return *this == Ipv6Address{{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}};
  }
  [[nodiscard]] constexpr bool is_link_local() const {
    return octets[0] == 0xfe && (octets[1] & 0xc0U) == 0x80;
  }  // fe80::/10
  /// ::ffff:0:0/96, an IPv4 address written as IPv6 (RFC 4291 section 2.5.5.2).
  [[nodiscard]] constexpr bool is_ipv4_mapped() const;

  friend constexpr auto operator<=>(const Ipv6Address&, const Ipv6Address&) = default;
};

constexpr bool Ipv6Address::is_ipv4_mapped() const {
  for (std::size_t at = 0; at < 10; ++at) {
    if (octets[at] != 0) {
      return false;
    }
  }
  return octets[10] == 0xff && octets[11] == 0xff;
}

/// The address families, with the numbers used in TPI address bytes (they are the IP version numbers).
enum class Family : std::uint8_t { ipv4 = 4, ipv6 = 6 };

/// An IPv4 or an IPv6 address. The unused octets of an IPv4 address are zero, so that comparing and hashing need not
/// look at the family first. An IPv4 address and its IPv4-mapped IPv6 form are different addresses.
class IpAddress {
 public:
  static constexpr std::size_t size_max = Ipv6Address::size;

  /// 0.0.0.0
  constexpr IpAddress() = default;
  constexpr IpAddress(const Ipv4Address& address) {  // NOLINT: an Ipv4Address is an IpAddress
    for (std::size_t at = 0; at < Ipv4Address::size; ++at) {
      octets_[at] = address.octets[at];
    }
  }
  constexpr IpAddress(const Ipv6Address& address)  // NOLINT: an Ipv6Address is an IpAddress
      : octets_(address.octets), family_(Family::ipv6) {}

  /// REQUIRES: 4 or 16 readable bytes at `at`, by family.
  [[nodiscard]] static IpAddress load(Family family, const std::byte* at) {
    IpAddress address;
    address.family_ = family;
    std::memcpy(address.octets_.data(), at, address.size());
    return address;
  }
  void store(std::byte* at) const { std::memcpy(at, octets_.data(), size()); }

  [[nodiscard]] static Result<IpAddress> from_text(std::string_view text);
  [[nodiscard]] std::string to_text() const;

  [[nodiscard]] constexpr Family family() const { return family_; }
  [[nodiscard]] constexpr bool is_v4() const { return family_ == Family::ipv4; }
  [[nodiscard]] constexpr bool is_v6() const { return family_ == Family::ipv6; }
  /// 4 or 16.
  [[nodiscard]] constexpr std::size_t size() const { return is_v4() ? Ipv4Address::size : Ipv6Address::size; }
  /// The size() octets; valid as long as this object.
  [[nodiscard]] ConstBytes bytes() const { return std::as_bytes(std::span(octets_.data(), size())); }

  /// REQUIRES: is_v4().
  [[nodiscard]] constexpr Ipv4Address v4() const {
    SLUICE_REQUIRE(is_v4());
    return {{octets_[0], octets_[1], octets_[2], octets_[3]}};
  }
  /// REQUIRES: is_v6().
  [[nodiscard]] constexpr Ipv6Address v6() const {
    SLUICE_REQUIRE(is_v6());
    return {octets_};
  }

  [[nodiscard]] constexpr bool is_unspecified() const {
    return is_v4() ? v4().is_unspecified() : v6().is_unspecified();
  }
  [[nodiscard]] constexpr bool is_multicast() const { return is_v4() ? v4().is_multicast() : v6().is_multicast(); }
  /// IPv4's limited broadcast; IPv6 has none.
  [[nodiscard]] constexpr bool is_broadcast() const { return is_v4() && v4().is_broadcast(); }
  [[nodiscard]] constexpr bool is_loopback() const { return is_v4() ? v4().is_loopback() : v6().is_loopback(); }
  [[nodiscard]] constexpr bool is_link_local() const { return is_v4() ? v4().is_link_local() : v6().is_link_local(); }

  friend constexpr auto operator<=>(const IpAddress&, const IpAddress&) = default;
  /// As two words: every packet's addresses are compared several times, and a call of memcmp costs more than all of it.
  friend constexpr bool operator==(const IpAddress& a, const IpAddress& b) {
    const auto difference = [&](std::size_t word) { return a.words()[word] ^ b.words()[word]; };
    return a.family_ == b.family_ && (difference(0) | difference(1)) == 0;
  }

 private:
  friend struct std::hash<IpAddress>;

  [[nodiscard]] constexpr std::array<std::uint64_t, 2> words() const {
    return std::bit_cast<std::array<std::uint64_t, 2>>(octets_);
  }

  std::array<std::uint8_t, size_max> octets_{};
  Family family_ = Family::ipv4;
};

/// An interface address with its prefix length, such as 10.77.0.1/24: the address is kept whole, network() is its
/// first `length` bits. Invariant: length <= 32 or 128, by family.
struct IpPrefix {
  IpAddress address;
  std::uint8_t length = 0;

  /// "10.77.0.1/24" or "fd00::1/64". A missing length is an error: guessing a class or a host prefix misleads.
  [[nodiscard]] static Result<IpPrefix> from_text(std::string_view text);
  [[nodiscard]] std::string to_text() const;

  /// Whether `candidate` has the same family and the same first `length` bits.
  [[nodiscard]] bool contains(const IpAddress& candidate) const;
  /// The address with every bit after the prefix cleared.
  [[nodiscard]] IpAddress network() const;
  /// Whether `candidate` is this IPv4 subnet's directed broadcast (all host bits set). /31 and /32 have none
  /// (RFC 3021 section 2.1); nor has IPv6.
  [[nodiscard]] bool is_broadcast(const IpAddress& candidate) const;

  friend constexpr auto operator<=>(const IpPrefix&, const IpPrefix&) = default;
};

/// What can be wrong with TPI address bytes.
enum class AddressMalformed : std::uint8_t {
  bad_family,   ///< the first byte is neither 4 nor 6, or there is none
  bad_length,   ///< not exactly 8 (IPv4) or 20 (IPv6) bytes
  bad_reserved  ///< a field that this kind of address does not use is not zero
};

inline constexpr std::size_t tpi_header_size = 4;

/// Family, protocol and port in front of the address; both kinds of TPI address differ only in which of them is used.
inline std::size_t encode_tpi(const IpAddress& address, std::uint8_t protocol, std::uint16_t port, Bytes out) {
  const std::size_t size = tpi_header_size + address.size();
  SLUICE_REQUIRE(out.size() >= size);
  out[0] = static_cast<std::byte>(address.family());
  out[1] = static_cast<std::byte>(protocol);
  store_big_endian(out.data() + 2, port);
  address.store(out.data() + tpi_header_size);
  return size;
}

/// The address of a udp (or other transport) endpoint: an IP address and a port.
///
/// As TPI address bytes, 8 or 20 of them:
///
///     0        1        2        3        4
///     +--------+--------+--------+--------+-------------------+
///     | family |   0    |       port      | 4 or 16 octets    |     port in network byte order
///     +--------+--------+--------+--------+-------------------+
struct TransportAddress {
  static constexpr std::size_t encoded_size_max = 4 + IpAddress::size_max;

  IpAddress address;
  std::uint16_t port = 0;

  /// "10.0.0.1:7000" or "[fd00::1]:7000".
  [[nodiscard]] static Result<TransportAddress> from_text(std::string_view text);
  [[nodiscard]] std::string to_text() const;

  [[nodiscard]] static std::expected<TransportAddress, AddressMalformed> decode(ConstBytes bytes);
  [[nodiscard]] std::size_t encoded_size() const { return tpi_header_size + address.size(); }
  /// Writes encoded_size() bytes and returns how many. REQUIRES: out holds as many.
  std::size_t encode(Bytes out) const { return encode_tpi(address, 0, port, out); }

  friend constexpr auto operator<=>(const TransportAddress&, const TransportAddress&) = default;
};

/// The address of a user of the ip module: an IP address and the protocol number carried in the IP header. As TPI
/// address bytes it has the shape of TransportAddress with the protocol in the second byte and a port of zero.
struct NetworkAddress {
  static constexpr std::size_t encoded_size_max = TransportAddress::encoded_size_max;

  IpAddress address;
  std::uint8_t protocol = 0;

  [[nodiscard]] static std::expected<NetworkAddress, AddressMalformed> decode(ConstBytes bytes);
  [[nodiscard]] std::size_t encoded_size() const { return tpi_header_size + address.size(); }
  /// Writes encoded_size() bytes and returns how many. REQUIRES: out holds as many.
  std::size_t encode(Bytes out) const { return encode_tpi(address, protocol, 0, out); }

  friend constexpr auto operator<=>(const NetworkAddress&, const NetworkAddress&) = default;
};

}  // namespace sluice::wire

namespace sluice::wire::detail {

/// Spreads 64 bits over the whole word (the finaliser of SplitMix64), since addresses differ in few bits.
[[nodiscard]] constexpr std::size_t mixed(std::uint64_t word) {
  word = (word ^ (word >> 30)) * 0xbf58'476d'1ce4'e5b9U;
  word = (word ^ (word >> 27)) * 0x94d0'49bb'1331'11ebU;
  return static_cast<std::size_t>(word ^ (word >> 31));
}

}  // namespace sluice::wire::detail

template <>
struct std::hash<sluice::wire::MacAddress> {
  std::size_t operator()(const sluice::wire::MacAddress& address) const noexcept {
    std::uint64_t word = 0;
    std::memcpy(&word, address.octets.data(), address.octets.size());
    return sluice::wire::detail::mixed(word);
  }
};

template <>
struct std::hash<sluice::wire::IpAddress> {
  std::size_t operator()(const sluice::wire::IpAddress& address) const noexcept {
    std::uint64_t halves[2];
    std::memcpy(halves, address.octets_.data(), sizeof halves);
    return sluice::wire::detail::mixed(halves[0] ^ sluice::wire::detail::mixed(halves[1]) ^
                                       static_cast<std::uint64_t>(address.family_));
  }
};

template <>
struct std::hash<sluice::wire::TransportAddress> {
  std::size_t operator()(const sluice::wire::TransportAddress& endpoint) const noexcept {
    return sluice::wire::detail::mixed(std::hash<sluice::wire::IpAddress>{}(endpoint.address) + endpoint.port);
  }
};
