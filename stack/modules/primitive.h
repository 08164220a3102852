// SPDX-License-Identifier: Apache-2.0
#pragma once

// Primitives as messages: what modules need to answer requests. Header only, no state.

#include <cstddef>
#include <utility>

#include "stack/core/message.h"
#include "stack/wire/tpi.h"

namespace sluice {

/// A message of one block that holds `primitive`; empty when the pool is exhausted.
template <class Primitive>
[[nodiscard]] Message primitive_message(BufferPool& pool, const Primitive& primitive, MessageType type) {
  const std::size_t size = primitive.encoded_size();
  Message message = Message::allocate(pool, size, 0, type);
  if (message) {
    message.first().wptr += size;
    primitive.encode(message.bytes());
  }
  return message;
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
