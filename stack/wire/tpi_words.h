// SPDX-License-Identifier: Apache-2.0
#pragma once

// What the decoders of TPI primitives share; stack/wire/words.h has what DLPI's share with them.

#include <cstddef>
#include <cstdint>
#include <expected>
#include <optional>

#include "stack/wire/tpi.h"
#include "stack/wire/words.h"

namespace sluice::wire::tpi {

[[nodiscard]] inline std::uint32_t word(std::int32_t value) { return static_cast<std::uint32_t>(value); }

[[nodiscard]] inline std::int32_t number_at(ConstBytes block, std::size_t index) {
  return static_cast<std::int32_t>(load_word(block.data() + index * word_size));
}

/// The bytes behind the length/offset pair at words `index` and `index + 1`.
[[nodiscard]] inline std::optional<ConstBytes> slice_at(ConstBytes block, std::size_t fixed_size, std::size_t index) {
  return slice(block, fixed_size, load_word(block.data() + index * word_size),
               load_word(block.data() + (index + 1) * word_size));
}

/// Whether the fixed part is there and is that of X.
template <class X>
[[nodiscard]] std::expected<void, Malformed> check_fixed(ConstBytes block) {
  if (block.size() < X::fixed_size) {
    return std::unexpected(Malformed::short_block);
  }
  if (number_at(block, 0) != X::primitive) {
    return std::unexpected(Malformed::wrong_primitive);
  }
  return {};
}

}  // namespace sluice::wire::tpi
