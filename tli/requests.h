// SPDX-License-Identifier: Apache-2.0
#pragma once

// What the calls ask of the provider: through timod, or with a primitive of their own.

#include <array>
#include <cerrno>
#include <utility>

#include "stack/core/primitive.h"
#include "tli/buffers.h"
#include "tli/endpoint.h"

namespace sluice::tli {

/// Whether so much user data may go with a connection or disconnection. "The amount of user data must not exceed the
/// limits supported by the transport provider, as returned in the discon field, of the info argument" (t_snddis(3NSL)).
[[nodiscard]] inline bool within(std::size_t size, std::int32_t size_max) {
  return size == 0 || size_max == wire::tpi::T_INFINITE ||
         (size_max >= 0 && size <= static_cast<std::size_t>(size_max));
}

/// As ask(); `too_large` where the primitive is that.
template <class Primitive>
Outcome<std::vector<std::byte>> Endpoint::request(std::int32_t command, const Primitive& primitive,
                                                  wire::tpi::TliError too_large) {
  std::array<std::byte, primitive_bytes_max> block{};
  if (primitive.encoded_size() > block.size()) {
    return failed(too_large);
  }
  return ask(command, std::span(block).first(primitive.encode(block)));
}

/// Sends `primitive`, with `data` behind it; `too_large` where the primitive is that.
template <class Primitive>
Outcome<> Endpoint::put(const Primitive& primitive, ConstBytes data, wire::tpi::TliError too_large) {
  if (primitive.encoded_size() > primitive_bytes_max) {
    return failed(too_large);
  }
  if (const int error = stream_->write_refusal(); error != 0) {
    return failed(wire::tpi::TSYSERR, error);
  }
  BufferPool& pool = stream_->set().pool();
  Message request = primitive_message(pool, primitive, MessageType::proto);
  Message behind = data.empty() ? Message() : Message::copy_of(pool, data);
  if (!request || (!data.empty() && !behind)) {
    return failed(wire::tpi::TSYSERR, ENOSR);
  }
  if (behind) {
    request.link(std::move(behind));
  }
  stream_->head().write_queue().put_next(std::move(request));
  return {};
}

}  // namespace sluice::tli
