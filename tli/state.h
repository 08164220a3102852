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

/// The state that follows when `call` succeeds in `state`; nothing when it is not valid there.
[[nodiscard]] std::optional<State> next_state(State state, Call call);

}  // namespace sluice::tli
