// SPDX-License-Identifier: Apache-2.0
#pragma once

// How a value in native form, a struct that a program works with, becomes the bytes that a specification prescribes.
// A holder that does not know its type, as the stack's core does not, encodes it through its codec.
//
//     struct Greeting {
//       static const Codec codec;                         // its address names the type
//       static constexpr std::size_t encoded_size_max = 40;
//       ...
//     };
//
// Values are trivially copyable: they are copied and forgotten without being asked. A codec is a constant and lives as
// long as the program.

#include <cstddef>

#include "base/bytes.h"

namespace sluice {

struct Codec {
  std::size_t native_size;  ///< bytes of the struct
  /// Bytes that encode() will write.
  std::size_t (*encoded_size)(const std::byte* native);
  /// Writes the encoded form and returns its size. REQUIRES: `out` has room for it and does not overlap the value.
  std::size_t (*encode)(const std::byte* native, Bytes out);
};

}  // namespace sluice
