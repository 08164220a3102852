// SPDX-License-Identifier: Apache-2.0
#pragma once

// The state table of a connectionless-mode (T_CLTS) transport provider: what becomes of each primitive that a transport
// user may send, in each state. TPI 2.0.0, "Allowable Sequence of TPI Primitives". A constant table; any thread.

#include <algorithm>
#include <array>
#include <cstdint>

#include "stack/wire/tpi_constants.h"

namespace sluice::provider {

enum class State : std::uint8_t {
  unbound,    ///< TS_UNBND
  binding,    ///< TS_WACK_BREQ: the acknowledgement is owed
  unbinding,  ///< TS_WACK_UREQ: likewise
  idle,       ///< TS_IDLE
  failed,     ///< M_ERROR was sent: "it should also drop any further messages received on its write side of the stream"
};

enum class Action : std::uint8_t {
  info,          ///< T_INFO_ACK
  capability,    ///< T_CAPABILITY_ACK or T_ERROR_ACK
  addresses,     ///< T_ADDR_ACK
  bind,          ///< T_BIND_ACK or T_ERROR_ACK, perhaps later
  unbind,        ///< T_OK_ACK or T_ERROR_ACK, perhaps later
  options,       ///< T_OPTMGMT_ACK or T_ERROR_ACK
  send,          ///< the datagram leaves, or T_UDERROR_IND
  out_of_state,  ///< T_ERROR_ACK with TOUTSTATE: "The primitive would place the transport interface out of state."
  unsupported,   ///< T_ERROR_ACK with TNOTSUPPORT: "This primitive is not supported by the transport provider."
  fatal,         ///< M_ERROR with EPROTO, and State::failed
  drop,          ///< nothing
};

struct Row {
  std::int32_t primitive;
  Action unbound;
  Action waiting;  // binding and unbinding
  Action idle;
};

/// The last four belong to connection mode. T_DATA_REQ: "This primitive does not require any acknowledgments, although
/// it may generate a fatal error. This is indicated via a M_ERROR message type"; the others likewise. So T_ERROR_ACK,
/// which answers every other primitive that is not in the table, must not answer these.
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
    {wire::tpi::T_DATA_REQ, Action::fatal, Action::fatal, Action::fatal},
    {wire::tpi::T_EXDATA_REQ, Action::fatal, Action::fatal, Action::fatal},
    {wire::tpi::T_OPTDATA_REQ, Action::fatal, Action::fatal, Action::fatal},
    {wire::tpi::T_ORDREL_REQ, Action::fatal, Action::fatal, Action::fatal},
});

/// What to do with `primitive`, which may be any number, in `state`.
[[nodiscard]] constexpr Action action_for(std::int32_t primitive, State state) {
  if (state == State::failed) {
    return Action::drop;
  }
  const auto* row = std::ranges::find(state_table, primitive, &Row::primitive);
  if (row == state_table.end()) {
    return Action::unsupported;
  }
  return state == State::unbound ? row->unbound : state == State::idle ? row->idle : row->waiting;
}

}  // namespace sluice::provider
