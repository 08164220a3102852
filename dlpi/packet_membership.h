// SPDX-License-Identifier: Apache-2.0
#pragma once

// What an interface is asked to let through, on behalf of a packet socket: group addresses, all groups, other stations,
// or everything. The kernel forgets it when the socket closes.

#include "base/result.h"
#include "dlpi/interface.h"
#include "dlpi/link.h"

namespace sluice::dlpi {

/// `socket` is a packet socket's descriptor. On an error some of the changes may have been made.
[[nodiscard]] Status change_memberships(int socket, const Interface& interface, const Link::Interests& before,
                                        const Link::Interests& wanted);

/// The interface lets frames to one more station through, or no longer.
[[nodiscard]] Status change_station(int socket, const Interface& interface, const wire::MacAddress& station, bool add);

}  // namespace sluice::dlpi
