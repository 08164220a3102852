// SPDX-License-Identifier: Apache-2.0
#include "tli/state.h"

namespace sluice::tli {
namespace {

constexpr std::uint8_t none = 0xff;  // not valid in this state

// A row a call in the order of Call; columns T_UNINIT, T_UNBND, T_IDLE.
constexpr std::array<std::array<std::uint8_t, state_count>, call_count> table{{
    /* t_open        */ {T_UNBND, none, none},
    /* t_close       */ {none, T_UNINIT, T_UNINIT},
    /* t_bind        */ {none, T_IDLE, none},
    /* t_unbind      */ {none, none, T_UNBND},
    /* t_optmgmt     */ {none, T_UNBND, T_IDLE},
    /* t_sndudata    */ {none, none, T_IDLE},
    /* t_rcvudata    */ {none, none, T_IDLE},
    /* t_rcvuderr    */ {none, none, T_IDLE},
    /* t_getinfo     */ {none, T_UNBND, T_IDLE},
    /* t_getstate    */ {none, T_UNBND, T_IDLE},
    /* t_sync        */ {none, T_UNBND, T_IDLE},
    /* t_look        */ {none, T_UNBND, T_IDLE},
    /* t_getprotaddr */ {none, T_UNBND, T_IDLE},
}};

}  // namespace

std::optional<State> next_state(State state, Call call) {
  const std::uint8_t next = table[static_cast<std::size_t>(call)][state];
  return next == none ? std::nullopt : std::optional(static_cast<State>(next));
}

}  // namespace sluice::tli
