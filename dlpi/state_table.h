// SPDX-License-Identifier: Apache-2.0
#pragma once

// DLPI 2.0.0, appendix "Allowable Sequence of DLPI Primitives", for a connectionless provider, as a table: in which
// states a request is valid, and in which state the stream is once it is acknowledged.
//
// This provider answers every request before its put procedure returns, so the pending states (DL_ATTACH_PENDING,
// DL_BIND_PENDING, DL_UNBIND_PENDING, DL_DETACH_PENDING, DL_SUBS_BIND_PND, DL_SUBS_UNBIND_PND) are passed through and
// never seen. A request in a state where it is not valid is refused: "DL_OUTSTATE: The primitive was issued from an
// invalid state", "and the resulting state is unchanged".

#include <array>
#include <cstdint>
#include <optional>

#include "stack/wire/dlpi_constants.h"

namespace sluice::dlpi {

/// Sets of the states a stream can be seen in.
using StateSet = std::uint8_t;
inline constexpr StateSet in_unattached = 1;
inline constexpr StateSet in_unbound = 2;
inline constexpr StateSet in_idle = 4;
inline constexpr StateSet in_attached = in_unbound | in_idle;
inline constexpr StateSet in_any = in_unattached | in_attached;

struct Rule {
  std::uint32_t primitive;
  StateSet valid;
  /// The state after success; empty: "The resulting state is unchanged."
  std::optional<wire::dlpi::State> next;

  [[nodiscard]] constexpr bool valid_in(wire::dlpi::State state) const {
    const StateSet bit = state == wire::dlpi::DL_UNATTACHED ? in_unattached
                         : state == wire::dlpi::DL_UNBOUND  ? in_unbound
                                                            : in_idle;
    return (valid & bit) != 0;
  }
};

inline constexpr std::array state_table{
    // "The message is valid in any state in which a local acknowledgement is not pending."
    Rule{wire::dlpi::DL_INFO_REQ, in_any, {}},
    Rule{wire::dlpi::DL_ATTACH_REQ, in_unattached, wire::dlpi::DL_UNBOUND},
    Rule{wire::dlpi::DL_DETACH_REQ, in_unbound, wire::dlpi::DL_UNATTACHED},
    Rule{wire::dlpi::DL_BIND_REQ, in_unbound, wire::dlpi::DL_IDLE},
    Rule{wire::dlpi::DL_UNBIND_REQ, in_idle, wire::dlpi::DL_UNBOUND},
    Rule{wire::dlpi::DL_SUBS_BIND_REQ, in_idle, wire::dlpi::DL_IDLE},
    Rule{wire::dlpi::DL_SUBS_UNBIND_REQ, in_idle, wire::dlpi::DL_IDLE},
    Rule{wire::dlpi::DL_UNITDATA_REQ, in_idle, {}},
    // "valid in any state in which a local acknowledgement is not pending with the exception of DL_UNATTACH"
    Rule{wire::dlpi::DL_ENABMULTI_REQ, in_attached, {}},
    Rule{wire::dlpi::DL_DISABMULTI_REQ, in_attached, {}},
    Rule{wire::dlpi::DL_PROMISCON_REQ, in_attached, {}},
    Rule{wire::dlpi::DL_PROMISCOFF_REQ, in_attached, {}},
    // "The message is valid in any attached state in which a local acknowledgement is not pending."
    Rule{wire::dlpi::DL_PHYS_ADDR_REQ, in_attached, {}},
    Rule{wire::dlpi::DL_SET_PHYS_ADDR_REQ, in_attached, {}},
    Rule{wire::dlpi::DL_GET_STATISTICS_REQ, in_attached, {}},
    // Later than 2.0.0: illumos refuses it on an unattached stream.
    Rule{wire::dlpi::DL_NOTIFY_REQ, in_attached, {}},
    Rule{wire::dlpi::DL_CAPABILITY_REQ, in_attached, {}},
    // Ours: narrows a bound SAP.
    Rule{wire::dlpi::DL_FILTER_REQ, in_idle, {}},
};

/// The rule for a primitive; nullptr when this provider has none.
[[nodiscard]] constexpr const Rule* find_rule(std::uint32_t primitive) {
  for (const Rule& rule : state_table) {
    if (rule.primitive == primitive) {
      return &rule;
    }
  }
  return nullptr;
}

/// DLPI 2.0.0 numbers its primitives from 0 to this one (DL_GET_STATISTICS_ACK).
inline constexpr std::uint32_t last_standard_primitive = wire::dlpi::DL_GET_STATISTICS_ACK;

}  // namespace sluice::dlpi
