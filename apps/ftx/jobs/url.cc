// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/jobs/url.h"

#include <fmt/format.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <memory>

#include "stack/wire/zone.h"

namespace sluice::ftx {
namespace {

constexpr std::string_view scheme = "ftx://";

std::unexpected<Error> malformed(std::string_view text) {
  return fail(EINVAL, fmt::format("'{}': expected ftx://HOST:PORT/PATH, such as ftx://192.0.2.1:{}/incoming/ or "
                                  "ftx://[2001:db8::1]:{}/",
                                  text, default_port, default_port));
}

wire::IpAddress address_of(const addrinfo& found) {
  if (found.ai_family == AF_INET) {
    const auto* address = reinterpret_cast<const sockaddr_in*>(found.ai_addr);
    return wire::IpAddress(wire::Ipv4Address::load(reinterpret_cast<const std::byte*>(&address->sin_addr)));
  }
  const auto* address = reinterpret_cast<const sockaddr_in6*>(found.ai_addr);
  const auto v6 = wire::Ipv6Address::load(reinterpret_cast<const std::byte*>(&address->sin6_addr));
  return wire::with_zone(v6, address->sin6_scope_id);
}

}  // namespace

Result<Url> parse_url(std::string_view text) {
  if (!text.starts_with(scheme)) {
    return malformed(text);
  }
  const std::string_view rest = text.substr(scheme.size());
  const std::size_t slash = rest.find('/');
  std::string_view authority = rest.substr(0, slash);
  Url url;
  url.path = slash == std::string_view::npos ? "" : rest.substr(slash + 1);
  std::size_t host_end = authority.find(':');
  if (authority.starts_with('[')) {
    host_end = authority.find(']');
    if (host_end == std::string_view::npos) {
      return malformed(text);
    }
    url.host = authority.substr(1, host_end - 1);
    ++host_end;
  } else {
    url.host = authority.substr(0, host_end);
  }
  const std::string_view port = host_end < authority.size() ? authority.substr(host_end) : std::string_view();
  if (!port.empty()) {
    const auto [end, error] = std::from_chars(port.data() + 1, port.data() + port.size(), url.port);
    if (port.front() != ':' || error != std::errc() || end != port.data() + port.size() || url.port == 0) {
      return malformed(text);
    }
  }
  return url.host.empty() ? Result<Url>(malformed(text)) : Result<Url>(std::move(url));
}

Result<wire::IpAddress> resolve(const std::string& host) {
  const auto addresses = resolve_all(host);
  return addresses ? Result<wire::IpAddress>(addresses->front()) : std::unexpected(addresses.error());
}

Result<std::vector<wire::IpAddress>> resolve_all(const std::string& host) {
  if (auto address = wire::IpAddress::from_text(host)) {
    return std::vector{*address};
  }
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  if (const int code = ::getaddrinfo(host.c_str(), nullptr, &hints, &found); code != 0) {
    return fail(EHOSTUNREACH, fmt::format("cannot find the host '{}': {}; check its name", host, ::gai_strerror(code)));
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(found, ::freeaddrinfo);
  std::vector<wire::IpAddress> addresses;
  for (const addrinfo* one = found; one != nullptr && addresses.size() < addresses_max; one = one->ai_next) {
    const bool known = one->ai_family == AF_INET || one->ai_family == AF_INET6;
    if (known && std::find(addresses.begin(), addresses.end(), address_of(*one)) == addresses.end()) {
      addresses.push_back(address_of(*one));
    }
  }
  return addresses.empty() ? fail(EHOSTUNREACH, fmt::format("the host '{}' has no IP address; check its name", host))
                           : Result<std::vector<wire::IpAddress>>(std::move(addresses));
}

std::string text_of(const wire::IpAddress& address) {
  const std::uint32_t zone = address.is_v6() ? wire::zone_of(address.v6()) : 0;
  if (zone == 0) {
    return address.to_text();
  }
  std::array<char, IF_NAMESIZE> name{};
  const bool named = ::if_indextoname(zone, name.data()) != nullptr;
  return wire::with_zone(address.v6(), 0).to_text() + "%" + (named ? name.data() : std::to_string(zone));
}

}  // namespace sluice::ftx
