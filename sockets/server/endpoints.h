// SPDX-License-Identifier: Apache-2.0
#pragma once

// Between sockets and the transport library: addresses, errors, and the two things that every socket does with its
// endpoint.
//
// Plain functions; thread-safe.

#include <cstdint>
#include <expected>
#include <functional>
#include <optional>

#include "sockets/protocol/protocol.h"
#include "sockets/server/quotas.h"
#include "stack/wire/address.h"
#include "tli/endpoint.h"

namespace sluice::sockets {

/// What a program names, for a socket of `family`: an IPv4-mapped address is an IPv4 address. Nothing where its size or
/// family is none of that socket's.
[[nodiscard]] std::optional<wire::TransportAddress> transport_address_of(const Address& address, int family);

/// As a socket of `family` has it. REQUIRES: an IPv4 address for AF_INET.
[[nodiscard]] Address address_of(const wire::TransportAddress& address, int family);

/// Every address of `family`, port 0.
[[nodiscard]] wire::TransportAddress any_address(bool v6);

/// The errno that a socket call has for what TLI says.
[[nodiscard]] int errno_of(const tli::Failure& failure);

/// Binds, and answers where; or an errno.
[[nodiscard]] std::expected<wire::TransportAddress, int> bind_endpoint(tli::Endpoint& endpoint,
                                                                       const wire::TransportAddress& address,
                                                                       std::uint32_t qlen);

/// The buffers of a connection that the endpoint will make or accept, or has; zeros where the provider knows of none.
[[nodiscard]] Buffers buffers_of(tli::Endpoint& endpoint);
void set_buffers(tli::Endpoint& endpoint, const Buffers& buffers);

/// Has `wake` called for all that happens at the endpoint, and when there is room again.
void wake_on_events(tli::Endpoint& endpoint, std::function<void()> wake);

}  // namespace sluice::sockets
