// SPDX-License-Identifier: Apache-2.0
#include "stack/wire/address.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <optional>

namespace sluice::wire {
namespace {

constexpr char hex_digits[] = "0123456789abcdef";

std::unexpected<Error> expected_but_got(std::string_view what, std::string_view text) {
  return fail(EINVAL, "expected " + std::string(what) + ", got \"" + std::string(text) + "\"");
}

std::optional<std::uint8_t> hex_value(char digit) {
  const char lower = digit >= 'A' && digit <= 'F' ? static_cast<char>(digit - 'A' + 'a') : digit;
  const auto* const end = hex_digits + 16;
  const auto* const found = std::find(hex_digits, end, lower);
  return found == end ? std::nullopt : std::optional(static_cast<std::uint8_t>(found - hex_digits));
}

/// The library's parser, which wants a terminated string. Longer text than any address is not copied.
bool parse_octets(int family, std::string_view text, std::uint8_t* octets) {
  std::array<char, INET6_ADDRSTRLEN> terminated{};
  if (text.size() >= terminated.size() || text.find('\0') != std::string_view::npos) {
    return false;
  }
  std::copy(text.begin(), text.end(), terminated.begin());
  return inet_pton(family, terminated.data(), octets) == 1;
}

std::optional<Ipv4Address> parse_v4(std::string_view text) {
  Ipv4Address address;
  if (!parse_octets(AF_INET, text, address.octets.data())) {
    return std::nullopt;
  }
  return address;
}

std::optional<Ipv6Address> parse_v6(std::string_view text) {
  Ipv6Address address;
  if (!parse_octets(AF_INET6, text, address.octets.data())) {
    return std::nullopt;
  }
  return address;
}

std::optional<IpAddress> parse_ip(std::string_view text) {
  if (const auto v4 = parse_v4(text)) {
    return IpAddress(*v4);
  }
  if (const auto v6 = parse_v6(text)) {
    return IpAddress(*v6);
  }
  return std::nullopt;
}

/// A decimal number of digits only, no sign and no leading zero, up to `max`.
std::optional<std::uint16_t> parse_number(std::string_view text, std::uint16_t max) {
  std::uint16_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool leading_zero = text.size() > 1 && text.front() == '0';
  if (error != std::errc{} || end != text.data() + text.size() || leading_zero || value > max) {
    return std::nullopt;
  }
  return value;
}

std::string format(int family, const std::uint8_t* octets) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  inet_ntop(family, octets, text.data(), text.size());
  return text.data();
}

/// The bits of octet `index` that a prefix of `length` bits covers.
std::uint8_t mask_octet(std::size_t index, std::uint8_t length) {
  const std::size_t first_bit = index * 8;
  if (length >= first_bit + 8) {
    return 0xff;
  }
  if (length <= first_bit) {
    return 0;
  }
  return static_cast<std::uint8_t>(0xff00U >> (length - first_bit));
}

/// What is wrong with family and length, if anything.
std::optional<AddressMalformed> malformation(ConstBytes bytes) {
  if (bytes.empty()) {
    return AddressMalformed::bad_family;
  }
  const auto family = static_cast<Family>(bytes[0]);
  if (family != Family::ipv4 && family != Family::ipv6) {
    return AddressMalformed::bad_family;
  }
  const std::size_t address_size = family == Family::ipv4 ? Ipv4Address::size : Ipv6Address::size;
  if (bytes.size() != tpi_header_size + address_size) {
    return AddressMalformed::bad_length;
  }
  return std::nullopt;
}

/// REQUIRES: no malformation().
IpAddress tpi_address(ConstBytes bytes) {
  return IpAddress::load(static_cast<Family>(bytes[0]), bytes.data() + tpi_header_size);
}

}  // namespace

Result<MacAddress> MacAddress::from_text(std::string_view text) {
  constexpr std::string_view wanted = "a MAC address such as 02:00:00:00:00:01";
  if (text.size() != size * 3 - 1) {
    return expected_but_got(wanted, text);
  }
  MacAddress address;
  for (std::size_t index = 0; index < size; ++index) {
    const auto high = hex_value(text[3 * index]);
    const auto low = hex_value(text[3 * index + 1]);
    const bool separated = index + 1 == size || text[3 * index + 2] == ':' || text[3 * index + 2] == '-';
    if (!high || !low || !separated) {
      return expected_but_got(wanted, text);
    }
    address.octets[index] = static_cast<std::uint8_t>(*high << 4 | *low);
  }
  return address;
}

std::string MacAddress::to_text() const {
  std::string text;
  for (const std::uint8_t octet : octets) {
    if (!text.empty()) {
      text += ':';
    }
    text += hex_digits[octet >> 4];
    text += hex_digits[octet & 0xf];
  }
  return text;
}

Result<Ipv4Address> Ipv4Address::from_text(std::string_view text) {
  if (const auto address = parse_v4(text)) {
    return *address;
  }
  return expected_but_got("an IPv4 address such as 10.77.0.1", text);
}

std::string Ipv4Address::to_text() const { return format(AF_INET, octets.data()); }

Result<Ipv6Address> Ipv6Address::from_text(std::string_view text) {
  if (const auto address = parse_v6(text)) {
    return *address;
  }
  return expected_but_got("an IPv6 address such as fd00::1", text);
}

std::string Ipv6Address::to_text() const { return format(AF_INET6, octets.data()); }

Result<IpAddress> IpAddress::from_text(std::string_view text) {
  if (const auto address = parse_ip(text)) {
    return *address;
  }
  return expected_but_got("an IPv4 or IPv6 address such as 10.77.0.1 or fd00::1", text);
}

std::string IpAddress::to_text() const { return is_v4() ? v4().to_text() : v6().to_text(); }

Result<IpPrefix> IpPrefix::from_text(std::string_view text) {
  constexpr std::string_view wanted = "an IPv4 or IPv6 address with a prefix length such as 10.77.0.1/24";
  const std::size_t slash = text.find('/');
  if (slash == std::string_view::npos) {
    return expected_but_got(wanted, text);
  }
  const auto address = parse_ip(text.substr(0, slash));
  if (!address) {
    return expected_but_got(wanted, text);
  }
  const auto length = parse_number(text.substr(slash + 1), static_cast<std::uint16_t>(address->size() * 8));
  if (!length) {
    return expected_but_got(wanted, text);
  }
  return IpPrefix{*address, static_cast<std::uint8_t>(*length)};
}

std::string IpPrefix::to_text() const { return address.to_text() + "/" + std::to_string(length); }

bool IpPrefix::contains(const IpAddress& candidate) const {
  if (candidate.family() != address.family()) {
    return false;
  }
  return IpPrefix{candidate, length}.network() == network();
}

IpAddress IpPrefix::network() const {
  std::array<std::byte, IpAddress::size_max> octets;
  address.store(octets.data());
  for (std::size_t index = 0; index < address.size(); ++index) {
    octets[index] &= std::byte{mask_octet(index, length)};
  }
  return IpAddress::load(address.family(), octets.data());
}

bool IpPrefix::is_broadcast(const IpAddress& candidate) const {
  if (!address.is_v4() || !candidate.is_v4() || length > 30) {
    return false;
  }
  const std::uint32_t host_bits = 0xffff'ffffU >> length;
  return candidate.v4().value() == (address.v4().value() | host_bits);
}

Result<TransportAddress> TransportAddress::from_text(std::string_view text) {
  constexpr std::string_view wanted = "an address and port such as 10.0.0.1:7000 or [fd00::1]:7000";
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) {
    return expected_but_got(wanted, text);
  }
  const std::string_view host = text.substr(0, colon);
  const bool bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
  // Without brackets, fd00::1:7000 would be an address of its own, so an IPv6 address must have them.
  const auto v6 = bracketed ? parse_v6(host.substr(1, host.size() - 2)) : std::nullopt;
  const auto v4 = bracketed ? std::nullopt : parse_v4(host);
  const auto port = parse_number(text.substr(colon + 1), 0xffff);
  if (!port || (!v4 && !v6)) {
    return expected_but_got(wanted, text);
  }
  return TransportAddress{v4 ? IpAddress(*v4) : IpAddress(*v6), *port};
}

std::string TransportAddress::to_text() const {
  const std::string host = address.to_text();
  return (address.is_v4() ? host : "[" + host + "]") + ":" + std::to_string(port);
}

std::expected<TransportAddress, AddressMalformed> TransportAddress::decode(ConstBytes bytes) {
  if (const auto wrong = malformation(bytes)) {
    return std::unexpected(*wrong);
  }
  if (bytes[1] != std::byte{0}) {
    return std::unexpected(AddressMalformed::bad_reserved);
  }
  return std::expected<TransportAddress, AddressMalformed>(std::in_place, tpi_address(bytes),
                                                           load_big_endian<std::uint16_t>(bytes.data() + 2));
}

std::expected<NetworkAddress, AddressMalformed> NetworkAddress::decode(ConstBytes bytes) {
  if (const auto wrong = malformation(bytes)) {
    return std::unexpected(*wrong);
  }
  if (load_big_endian<std::uint16_t>(bytes.data() + 2) != 0) {
    return std::unexpected(AddressMalformed::bad_reserved);
  }
  return std::expected<NetworkAddress, AddressMalformed>(std::in_place, tpi_address(bytes),
                                                         static_cast<std::uint8_t>(bytes[1]));
}

}  // namespace sluice::wire
