// SPDX-License-Identifier: Apache-2.0
#pragma once

// Primitives as messages: what modules need to ask and answer. Header only, no state.

#include <cstddef>
#include <utility>

#include "stack/core/message.h"
#include "stack/wire/tpi.h"

namespace sluice {

template <class Primitive>
[[nodiscard]] std::size_t encoded_size_of(const Primitive& primitive) {
  if constexpr (requires { primitive.encoded_size(); }) {
    return primitive.encoded_size();
  } else if constexpr (requires { Primitive::encoded_size_max; }) {
    return Primitive::encoded_size_max;
  } else {
    return Primitive::size;
  }
}

/// A message of one block that holds `primitive`; empty when the pool is exhausted.
template <class Primitive>
[[nodiscard]] Message primitive_message(BufferPool& pool, const Primitive& primitive, MessageType type) {
  const std::size_t size_max = encoded_size_of(primitive);
  Message message = Message::allocate(pool, size_max, 0, type);
  if (message) {
    Block& block = message.first();
    block.wptr = block.rptr + primitive.encode({block.rptr, size_max});
  }
  return message;
}

/// Puts `primitive` in the place of the message's first block: over it where it has the room and nobody else shows it,
/// so that a request costs no allocation on its way down. False when the pool is exhausted. REQUIRES: the primitive's
/// members do not view that block.
template <class Primitive>
[[nodiscard]] bool replace_primitive(Message& message, const Primitive& primitive) {
  Block& block = message.first();
  const std::size_t size = primitive.encoded_size();
  if (block.buffer->writable() && size <= static_cast<std::size_t>(block.buffer->limit() - block.rptr)) {
    block.wptr = block.rptr + size;
    primitive.encode(block.bytes());
    return true;
  }
  Message replacement = primitive_message(message.pool(), primitive, message.type());
  if (!replacement) {
    return false;
  }
  replacement.first().band = message.band();
  if (Message rest = message.unlink()) {
    replacement.link(std::move(rest));
  }
  message = std::move(replacement);
  return true;
}

/// The T_UDERROR_IND that answers a T_UNITDATA_REQ. TPI 2.0.0, T_UDERROR_IND: "This primitive indicates to the
/// transport user that a datagram with the specified destination address and options produced an error." Empty when
/// the pool is exhausted.
[[nodiscard]] inline Message unitdata_error(BufferPool& pool, const wire::tpi::UnitdataReq& request, int error) {
  return primitive_message(
      pool, wire::tpi::UderrorInd{.destination = request.address, .options = request.options, .error_type = error},
      MessageType::proto);
}

}  // namespace sluice
