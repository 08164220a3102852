// SPDX-License-Identifier: Apache-2.0
#pragma once

// What comes in small pieces, written by a user or sent by a peer, is copied together, so that a chain is not one of
// single bytes, each in a buffer of its own. Plain values and functions; thread-safe as such.

#include <cstddef>

#include "stack/core/message.h"

namespace sluice::byte_stream {

/// Pieces up to this size are gathered in blocks of so many bytes.
inline constexpr std::size_t gathered_bytes_max = 512;
inline constexpr std::size_t gathering_block_bytes = 2048;

/// Whether so many bytes fit behind those of `block`, whose buffer nobody else shows.
[[nodiscard]] inline bool has_tail_room(const Block& block, std::size_t size) {
  return block.buffer->writable() && static_cast<std::size_t>(block.buffer->limit() - block.wptr) >= size;
}

/// Data that fills less of its buffers than this is copied into one of its size.
inline constexpr std::size_t fill_divisor = 4;

/// Whether data that is kept would keep much more memory than it has bytes.
[[nodiscard]] inline bool wastes(const Message& data) {
  std::size_t capacity = 0;
  for (const Block* block = &data.first(); block != nullptr; block = block->cont) {
    capacity += block->buffer->capacity();
  }
  return data.data_size() < capacity / fill_divisor;
}

}  // namespace sluice::byte_stream
