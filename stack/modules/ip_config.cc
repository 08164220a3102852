// SPDX-License-Identifier: Apache-2.0
#include "stack/modules/ip_config.h"

#include <algorithm>
#include <cerrno>
#include <string>

namespace sluice::ip {
namespace {

using wire::Family;
using wire::IpAddress;
using wire::IpPrefix;

/// Why `prefix` cannot be the address of an interface; empty when it can.
std::string objection(const IpPrefix& prefix) {
  const IpAddress& address = prefix.address;
  if (address.is_unspecified() || address.is_multicast() || address.is_loopback() || address.is_broadcast()) {
    return "is not a unicast address of a network";
  }
  if (prefix.is_broadcast(address)) {
    return "is the broadcast address of its own network";
  }
  if (address.is_v4() && prefix.length < 31 && address == prefix.network()) {
    return "names a network, not a host in it";
  }
  return {};
}

Status add_address(Config& config, const std::string& text) {
  const Result<IpPrefix> prefix = IpPrefix::from_text(text);
  if (!prefix) {
    return fail(EINVAL, "address: " + prefix.error().text);
  }
  if (const std::string wrong = objection(*prefix); !wrong.empty()) {
    return fail(EINVAL, "address: '" + text + "' " + wrong);
  }
  if (std::ranges::find(config.addresses, prefix->address, &IpPrefix::address) != config.addresses.end()) {
    return fail(EINVAL, "address: '" + text + "' is given twice");
  }
  if (config.addresses.size() == Config::addresses_max) {
    return fail(EINVAL, "address: more than " + std::to_string(Config::addresses_max) + " addresses");
  }
  config.addresses.push_back(*prefix);
  return {};
}

/// A gateway must be a neighbour: only then can it be the next hop.
bool is_neighbour(const Config& config, const IpAddress& gateway) {
  return (gateway.is_v6() && gateway.is_link_local() && config.has(Family::ipv6)) ||
         std::ranges::any_of(config.addresses, [&](const IpPrefix& prefix) {
           return prefix.contains(gateway) && prefix.address != gateway && !prefix.is_broadcast(gateway);
         });
}

Status add_gateway(Config& config, const std::string& text) {
  const Result<IpAddress> gateway = IpAddress::from_text(text);
  if (!gateway) {
    return fail(EINVAL, "gateway: " + gateway.error().text);
  }
  if (!is_neighbour(config, *gateway)) {
    return fail(EINVAL, "gateway: '" + text + "' is not another host on a network of `address`");
  }
  if (gateway->is_v4() ? config.gateway_v4.has_value() : config.gateway_v6.has_value()) {
    return fail(EINVAL, "gateway: '" + text + "' is a second gateway of its family; there can be one each");
  }
  if (gateway->is_v4()) {
    config.gateway_v4 = gateway->v4();
  } else {
    config.gateway_v6 = gateway->v6();
  }
  return {};
}

Status check_mtu(const Config& config) {
  if (config.has(Family::ipv6) && config.mtu_max < mtu_min_v6) {
    return fail(EINVAL, "mtu: IPv6 requires at least 1280, here it is " + std::to_string(config.mtu_max));
  }
  return {};
}

}  // namespace

bool Config::has(Family family) const {
  return (autoconfigure && family == Family::ipv6) ||
         std::ranges::any_of(addresses, [&](const IpPrefix& prefix) { return prefix.address.family() == family; });
}

Result<Config> Config::from(const Parameters& parameters) {
  Config config;
  config.autoconfigure = parameters.boolean("autoconfigure", config.autoconfigure);
  Status status;
  for (const std::string& text : parameters.texts("address")) {
    if (status = add_address(config, text); !status) {
      return std::unexpected(status.error());
    }
  }
  if (config.addresses.empty() && !config.autoconfigure) {
    return fail(EINVAL, "address: expected at least one, such as \"10.77.0.1/24\", or autoconfigure = true");
  }
  for (const std::string& text : parameters.texts("gateway")) {
    if (status = add_gateway(config, text); !status) {
      return std::unexpected(status.error());
    }
  }
  config.mtu_max = static_cast<std::uint32_t>(parameters.integer("mtu", config.mtu_max));
  config.ttl = static_cast<std::uint8_t>(parameters.integer("ttl", config.ttl));
  config.ttl_is_given = parameters.has("ttl");
  const auto size = [&](std::string_view name, std::size_t otherwise) {
    return static_cast<std::size_t>(parameters.integer(name, static_cast<std::int64_t>(otherwise)));
  };
  config.reassembly_bytes_max = size("reassembly_bytes_max", config.reassembly_bytes_max);
  config.neighbours_max = size("neighbours_max", config.neighbours_max);
  config.answer_echo = parameters.boolean("answer_echo", config.answer_echo);
  config.redirects = parameters.boolean("redirects", config.redirects);
  config.fragment = parameters.boolean("fragment", config.fragment);
  config.duplicate_address_detection =
      parameters.boolean("duplicate_address_detection", config.duplicate_address_detection);
  if (status = check_mtu(config); !status) {
    return std::unexpected(status.error());
  }
  return config;
}

std::vector<ParameterSpec> parameter_specs() {
  using Type = ParameterSpec::Type;
  return {
      {.name = "address",
       .type = Type::texts,
       .meaning = "Addresses with prefix lengths, IPv4 or IPv6, such as \"10.77.0.1/24\""},
      {.name = "gateway", .type = Type::texts, .meaning = "Default router, one a family; none if absent"},
      {.name = "mtu",
       .type = Type::integer,
       .meaning = "Largest IP packet in bytes; the link's own if absent",
       .minimum = mtu_min_v4,
       .maximum = 0x7fff'ffff},
      {.name = "ttl",
       .type = Type::integer,
       .meaning = "Hop limit of what is sent; 64 if absent",
       .minimum = 1,
       .maximum = 255},
      {.name = "reassembly_bytes_max",
       .type = Type::integer,
       .meaning = "Bytes of buffers that fragments may hold; 4194304 if absent",
       .minimum = 65536,
       .maximum = 1 << 30},
      {.name = "neighbours_max",
       .type = Type::integer,
       .meaning = "Entries of the neighbour cache; 1024 if absent",
       .minimum = 1,
       .maximum = 1 << 20},
      {.name = "autoconfigure",
       .type = Type::boolean,
       .meaning = "Whether to take IPv6 addresses and routers from router advertisements; false if absent"},
      {.name = "answer_echo", .type = Type::boolean, .meaning = "Whether to answer ICMP echo; true if absent"},
      {.name = "duplicate_address_detection",
       .type = Type::boolean,
       .meaning = "Whether to ask whether an address is free before it is used; false if absent"},
      {.name = "fragment",
       .type = Type::boolean,
       .meaning = "Whether to fragment what is larger than the path's MTU; false: nor may routers, and what is larger "
                  "than the link's is refused; true if absent"},
      {.name = "redirects", .type = Type::boolean, .meaning = "Whether to heed ICMP redirects; false if absent"},
  };
}

}  // namespace sluice::ip
