// SPDX-License-Identifier: Apache-2.0
#pragma once

// The XTI state table (XNS 5.2, "Transport Interface States", tables of valid states and next states), for both service
// modes. A call that has no entry for the current state fails with TOUTSTATE and changes nothing.
//
// In connection mode what follows depends on how many connection indications are outstanding (ocnt), so such a call is
// several of the table's events: accept1 to accept3, snddis1 and snddis2, rcvdis1 to rcvdis3. XTI's connect1 is
// connect2 and, when that has waited, rcvconnect.

#include <array>
#include <cstdint>
#include <optional>

#include "tli/xti.h"

namespace sluice::tli {

enum class Call : std::uint8_t {
  open,
  close,
  bind,
  unbind,
  optmgmt,
  sndudata,
  rcvudata,
  rcvuderr,
  getinfo,
  getstate,
  sync,
  look,
  getprotaddr,
  // Connection mode.
  connect2,    ///< the request has left
  rcvconnect,  ///< and is confirmed
  listen,
  accept1,    ///< ocnt is 1, on the same endpoint
  accept2,    ///< ocnt is 1, on another endpoint
  accept3,    ///< ocnt is above 1, on another endpoint
  pass_conn,  ///< a connection that another endpoint has accepted comes here
  snd,        ///< t_sndv(), too
  rcv,        ///< t_rcvv(), too
  sndrel,
  rcvrel,
  snddis1,  ///< ocnt is at most 1
  snddis2,  ///< ocnt is above 1
  rcvdis1,  ///< ocnt is 0
  rcvdis2,  ///< ocnt is 1
  rcvdis3,  ///< ocnt is above 1
};
inline constexpr std::size_t call_count = 29;
inline constexpr std::size_t state_count = 8;

inline constexpr std::uint8_t no_state = 0xff;  // not valid in this state

// A row a call in the order of Call, a column a state in the order of State.
inline constexpr auto state_table = [] {
  constexpr std::uint8_t none = no_state;
  return std::array<std::array<std::uint8_t, state_count>, call_count>{{
      /* t_open        */ {T_UNBND, none, none, none, none, none, none, none},
      /* t_close       */ {none, T_UNINIT, T_UNINIT, T_UNINIT, T_UNINIT, T_UNINIT, T_UNINIT, T_UNINIT},
      /* t_bind        */ {none, T_IDLE, none, none, none, none, none, none},
      /* t_unbind      */ {none, none, T_UNBND, none, none, none, none, none},
      /* t_optmgmt     */ {none, T_UNBND, T_IDLE, T_OUTCON, T_INCON, T_DATAXFER, T_OUTREL, T_INREL},
      /* t_sndudata    */ {none, none, T_IDLE, none, none, none, none, none},
      /* t_rcvudata    */ {none, none, T_IDLE, none, none, none, none, none},
      /* t_rcvuderr    */ {none, none, T_IDLE, none, none, none, none, none},
      /* t_getinfo     */ {none, T_UNBND, T_IDLE, T_OUTCON, T_INCON, T_DATAXFER, T_OUTREL, T_INREL},
      /* t_getstate    */ {none, T_UNBND, T_IDLE, T_OUTCON, T_INCON, T_DATAXFER, T_OUTREL, T_INREL},
      /* t_sync        */ {none, T_UNBND, T_IDLE, T_OUTCON, T_INCON, T_DATAXFER, T_OUTREL, T_INREL},
      /* t_look        */ {none, T_UNBND, T_IDLE, T_OUTCON, T_INCON, T_DATAXFER, T_OUTREL, T_INREL},
      /* t_getprotaddr */ {none, T_UNBND, T_IDLE, T_OUTCON, T_INCON, T_DATAXFER, T_OUTREL, T_INREL},
      /* connect2      */ {none, none, T_OUTCON, none, none, none, none, none},
      /* rcvconnect    */ {none, none, none, T_DATAXFER, none, none, none, none},
      /* listen        */ {none, none, T_INCON, none, T_INCON, none, none, none},
      /* accept1       */ {none, none, none, none, T_DATAXFER, none, none, none},
      /* accept2       */ {none, none, none, none, T_IDLE, none, none, none},
      /* accept3       */ {none, none, none, none, T_INCON, none, none, none},
      /* pass_conn     */ {none, T_DATAXFER, T_DATAXFER, none, none, none, none, none},
      /* snd           */ {none, none, none, none, none, T_DATAXFER, none, T_INREL},
      /* rcv           */ {none, none, none, none, none, T_DATAXFER, T_OUTREL, none},
      /* sndrel        */ {none, none, none, none, none, T_OUTREL, none, T_IDLE},
      /* rcvrel        */ {none, none, none, none, none, T_INREL, T_IDLE, none},
      /* snddis1       */ {none, none, none, T_IDLE, T_IDLE, T_IDLE, T_IDLE, T_IDLE},
      /* snddis2       */ {none, none, none, none, T_INCON, none, none, none},
      /* rcvdis1       */ {none, none, none, T_IDLE, none, T_IDLE, T_IDLE, T_IDLE},
      /* rcvdis2       */ {none, none, none, none, T_IDLE, none, none, none},
      /* rcvdis3       */ {none, none, none, none, T_INCON, none, none, none},
  }};
}();

/// The state that follows when `call` succeeds in `state`; nothing when it is not valid there.
[[nodiscard]] constexpr std::optional<State> next_state(State state, Call call) {
  const std::uint8_t next = state_table[static_cast<std::size_t>(call)][state];
  return next == no_state ? std::nullopt : std::optional(static_cast<State>(next));
}

}  // namespace sluice::tli
