// SPDX-License-Identifier: Apache-2.0
#pragma once

// The state table of the udp module as a connectionless-mode (T_CLTS) transport provider: what becomes of each
// primitive from above in each state. TPI 2.0.0, "Allowable Sequence of TPI Primitives". A constant table; any thread.

#include <algorithm>
#include <array>
#include <cstdint>

#include "stack/wire/tpi_constants.h"

namespace sluice::udp {

enum class State : std::uint8_t {
  unbound,  ///< TS_UNBND
  waiting,  ///< TS_WACK_BREQ or TS_WACK_UREQ: a request went on to the network below, the acknowledgement is owed
  idle,     ///< TS_IDLE
  failed,   ///< M_ERROR was sent: "it should also drop any further messages received on its write side of the stream"
};

enum class Action : std::uint8_t {
  info,
  capability,
  addresses,
  bind,
  unbind,
  options,
  send,
  out_of_state,  ///< T_ERROR_ACK with TOUTSTATE: "The primitive would place the transport interface out of state."
  unsupported,   ///< T_ERROR_ACK with TNOTSUPPORT
  fatal,         ///< M_ERROR with EPROTO
  drop,
};

struct Row {
  std::int32_t primitive;
  Action unbound;
  Action waiting;
  Action idle;
};

inline constexpr auto state_table = std::to_array<Row>({
    {wire::tpi::T_INFO_REQ, Action::info, Action::info, Action::info},
    {wire::tpi::T_CAPABILITY_REQ, Action::capability, Action::capability, Action::capability},
    {wire::tpi::T_ADDR_REQ, Action::addresses, Action::addresses, Action::addresses},
    {wire::tpi::T_BIND_REQ, Action::bind, Action::out_of_state, Action::out_of_state},
    {wire::tpi::O_T_BIND_REQ, Action::bind, Action::out_of_state, Action::out_of_state},
    {wire::tpi::T_UNBIND_REQ, Action::out_of_state, Action::out_of_state, Action::unbind},
    {wire::tpi::T_OPTMGMT_REQ, Action::options, Action::out_of_state, Action::options},
    {wire::tpi::T_SVR4_OPTMGMT_REQ, Action::options, Action::out_of_state, Action::options},
    {wire::tpi::T_UNITDATA_REQ, Action::fatal, Action::fatal, Action::send},
});

/// What to do with `primitive`, which may be any number, in `state`.
[[nodiscard]] constexpr Action action_for(std::int32_t primitive, State state) {
  if (state == State::failed) {
    return Action::drop;
  }
  const auto* row = std::find_if(state_table.begin(), state_table.end(),
                                 [primitive](const Row& candidate) { return candidate.primitive == primitive; });
  if (row == state_table.end()) {
    return Action::unsupported;
  }
  switch (state) {
    case State::unbound:
      return row->unbound;
    case State::waiting:
      return row->waiting;
    default:
      return row->idle;
  }
}

}  // namespace sluice::udp
