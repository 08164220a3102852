// SPDX-License-Identifier: Apache-2.0
#pragma once

// SipHash-2-4 (Aumasson, Bernstein: "SipHash: a fast short-input PRF", INDOCRYPT 2012): what flow labels and first
// sequence numbers come from, so that nobody guesses them. A function; thread-safe.

#include <cstdint>

#include "base/bytes.h"

namespace sluice {

[[nodiscard]] std::uint64_t siphash(std::uint64_t key0, std::uint64_t key1, ConstBytes bytes);

}  // namespace sluice
