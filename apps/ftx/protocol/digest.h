// SPDX-License-Identifier: Apache-2.0
#pragma once

// Digest: the value; apps/ftx/files/digest.h makes it.

#include <array>
#include <cstddef>

namespace sluice::ftx {

inline constexpr std::size_t digest_bytes = 16;
using Digest = std::array<std::byte, digest_bytes>;

}  // namespace sluice::ftx
