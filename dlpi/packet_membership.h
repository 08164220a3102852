// SPDX-License-Identifier: Apache-2.0
#pragma once

// What an interface is asked to let through, on behalf of a packet socket: group addresses, all groups, other stations,
// or everything. The kernel forgets it when the socket closes.

#include <functional>

#include "base/result.h"
#include "dlpi/interface.h"
#include "dlpi/link.h"

namespace sluice::dlpi {

/// `socket` is a packet socket's descriptor. On an error some of the changes may have been made.
[[nodiscard]] Status change_memberships(int socket, const Interface& interface, const Link::Interests& before,
                                        const Link::Interests& wanted);

/// The interface lets frames to `wanted` through instead of those to `current`, of which `own` tells that it is not the
/// interface's address; from then on it tells that of `wanted`. `also` is what else must succeed: nothing has changed
/// where it does not.
[[nodiscard]] Status replace_station(int socket, const Interface& interface, const wire::MacAddress& current, bool& own,
                                     const wire::MacAddress& wanted, const std::function<Status()>& also);

}  // namespace sluice::dlpi
