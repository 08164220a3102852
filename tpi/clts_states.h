// SPDX-License-Identifier: Apache-2.0
#pragma once

// The state table of a connectionless-mode (T_CLTS) transport provider: what it does with each primitive that a
// transport user may send, in each state.
//
// TPI version 2, "TPI States": "The transitional states only exist during the processing of a request and will not
// normally be visible outside the transport provider." A provider that answers at once has two states that last,
// TS_UNBND and TS_IDLE; a third is the end of the interface after a fatal error: "If the transport provider sends a
// M_ERROR upstream, it should also drop any further messages received on its write side of the stream."
//
// A constant table: no ownership, any thread.

#include <algorithm>
#include <array>
#include <cstdint>

#include "stack/wire/tpi_constants.h"

namespace sluice::tpi {

enum class State : std::uint8_t { unbound, idle, failed };

enum class Action : std::uint8_t {
  info,          ///< T_INFO_ACK
  capability,    ///< T_CAPABILITY_ACK
  addresses,     ///< T_ADDR_ACK
  bind,          ///< T_BIND_ACK and TS_IDLE, or T_ERROR_ACK
  unbind,        ///< T_OK_ACK and TS_UNBND
  options,       ///< T_OPTMGMT_ACK or T_ERROR_ACK
  send,          ///< the datagram leaves, or T_UDERROR_IND
  out_of_state,  ///< T_ERROR_ACK with TOUTSTATE: "The primitive would place the transport interface out of state."
  unsupported,   ///< T_ERROR_ACK with TNOTSUPPORT: "This primitive is not supported by the transport provider."
  fatal,         ///< M_ERROR with EPROTO, and State::failed
  drop,          ///< nothing
};

/// Requests of connection mode that no T_ERROR_ACK may answer, since it "may only be initiated as an acknowledgment for
/// those primitives that require one".
enum ConnectionModeRequest : std::int32_t { T_DATA_REQ = 3, T_EXDATA_REQ = 4, T_ORDREL_REQ = 10 };

struct Row {
  std::int32_t primitive;
  Action unbound;
  Action idle;
};

inline constexpr auto clts_table = std::to_array<Row>({
    {wire::tpi::T_INFO_REQ, Action::info, Action::info},
    {wire::tpi::T_CAPABILITY_REQ, Action::capability, Action::capability},
    {wire::tpi::T_ADDR_REQ, Action::addresses, Action::addresses},
    {wire::tpi::T_BIND_REQ, Action::bind, Action::out_of_state},
    {wire::tpi::O_T_BIND_REQ, Action::bind, Action::out_of_state},
    {wire::tpi::T_UNBIND_REQ, Action::out_of_state, Action::unbind},
    {wire::tpi::T_OPTMGMT_REQ, Action::options, Action::options},
    {wire::tpi::T_SVR4_OPTMGMT_REQ, Action::options, Action::options},
    {wire::tpi::T_UNITDATA_REQ, Action::fatal, Action::send},
    {T_DATA_REQ, Action::fatal, Action::fatal},
    {T_EXDATA_REQ, Action::fatal, Action::fatal},
    {T_ORDREL_REQ, Action::fatal, Action::fatal},
});

/// What to do with `primitive`, any number, in `state`.
[[nodiscard]] constexpr Action action_for(std::int32_t primitive, State state) {
  if (state == State::failed) {
    return Action::drop;
  }
  const auto* row = std::find_if(clts_table.begin(), clts_table.end(),
                                 [primitive](const Row& candidate) { return candidate.primitive == primitive; });
  if (row == clts_table.end()) {
    return Action::unsupported;
  }
  return state == State::unbound ? row->unbound : row->idle;
}

}  // namespace sluice::tpi
