// SPDX-License-Identifier: Apache-2.0
#pragma once

// Compress: whether a sender compresses what it reads of files. Who starts a transfer says so: its own sender, or the
// one at the other end in PULL and REQUEST.

#include <cstdint>

namespace sluice::ftx {

enum class Compress : std::uint8_t { never = 0, when_it_pays = 1, always = 2 };

[[nodiscard]] constexpr bool is_compress(Compress compress) { return compress <= Compress::always; }

}  // namespace sluice::ftx
