// SPDX-License-Identifier: Apache-2.0
#pragma once

// Whether a message is a data primitive, which may be in native form or bytes: what modules ask of each that comes.
// Stateless; any thread.

#include <cstdint>

#include "stack/core/message.h"
#include "stack/wire/data_unit.h"
#include "stack/wire/tpi.h"

namespace sluice {

/// `primitive` is the number that the bytes of one of that kind begin with.
[[nodiscard]] inline bool is_data_unit(const Message& message, wire::DataUnit::Kind kind, std::int32_t primitive) {
  if (const wire::DataUnit* const unitdata = message.native<wire::DataUnit>()) {
    return unitdata->kind == kind;
  }
  return is_protocol(message.type()) && wire::tpi::primitive_of(message.bytes()) == primitive;
}

}  // namespace sluice
