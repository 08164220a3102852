// SPDX-License-Identifier: Apache-2.0
#pragma once

// A run of DATA datagrams: of one size, each with the sequence and the ADU behind those of the one before, and all else
// in their headers the same. A sender makes such runs of a burst, and they mostly arrive together; so a receiver parses
// one header of a run and compares the others.

#include <cstddef>
#include <span>

#include "base/bytes.h"

namespace sluice::ftx {

/// The longest run, so that the bytes of one can be counted in 32 bits. A burst of datagrams has fewer.
inline constexpr std::size_t data_run_max = 64;

/// How many of `datagrams`, from the first on, are a run. 1: the first alone, whatever it is. Of a longer run
/// parse_envelope() and parse_data() accept each datagram, none is compressed, and the envelopes are equal.
/// REQUIRES: not empty.
[[nodiscard]] std::size_t data_run(std::span<const Bytes> datagrams);

}  // namespace sluice::ftx
