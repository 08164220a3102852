// SPDX-License-Identifier: Apache-2.0
#pragma once

// The XTI state table, connectionless part (XNS 5.2, "Transport Interface States", tables of valid states and next
// states). A call that has no entry for the current state fails with TOUTSTATE and changes nothing.

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
};
inline constexpr std::size_t call_count = 13;
inline constexpr std::size_t state_count = 3;

inline constexpr std::uint8_t no_state = 0xff;  // not valid in this state

// A row a call in the order of Call; columns T_UNINIT, T_UNBND, T_IDLE.
inline constexpr std::array<std::array<std::uint8_t, state_count>, call_count> state_table{{
    /* t_open        */ {T_UNBND, no_state, no_state},
    /* t_close       */ {no_state, T_UNINIT, T_UNINIT},
    /* t_bind        */ {no_state, T_IDLE, no_state},
    /* t_unbind      */ {no_state, no_state, T_UNBND},
    /* t_optmgmt     */ {no_state, T_UNBND, T_IDLE},
    /* t_sndudata    */ {no_state, no_state, T_IDLE},
    /* t_rcvudata    */ {no_state, no_state, T_IDLE},
    /* t_rcvuderr    */ {no_state, no_state, T_IDLE},
    /* t_getinfo     */ {no_state, T_UNBND, T_IDLE},
    /* t_getstate    */ {no_state, T_UNBND, T_IDLE},
    /* t_sync        */ {no_state, T_UNBND, T_IDLE},
    /* t_look        */ {no_state, T_UNBND, T_IDLE},
    /* t_getprotaddr */ {no_state, T_UNBND, T_IDLE},
}};

/// The state that follows when `call` succeeds in `state`; nothing when it is not valid there.
[[nodiscard]] constexpr std::optional<State> next_state(State state, Call call) {
  const std::uint8_t next = state_table[static_cast<std::size_t>(call)][state];
  return next == no_state ? std::nullopt : std::optional(static_cast<State>(next));
}

}  // namespace sluice::tli
