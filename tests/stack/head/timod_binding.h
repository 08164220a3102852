// SPDX-License-Identifier: Apache-2.0
#pragma once

// Streams with timod on top, bound as programs do that speak TPI themselves.

#include <cstdint>
#include <vector>

#include "stack/core/primitive.h"
#include "stack/head/stream.h"
#include "stack/wire/address.h"
#include "stack/wire/timod.h"
#include "stack/wire/tpi.h"

namespace sluice {

/// Binds `stream` to `address`. The TLI error; -1 where the ioctl itself fails.
[[nodiscard]] inline std::int32_t bind_by_timod(Stream& stream, const wire::TransportAddress& address) {
  std::vector<std::byte> block(64);
  block.resize(wire::tpi::BindReq{.address = Encoded(address).bytes()}.encode(block));
  const auto answer = stream.ioctl(wire::timod::TI_BIND, block);
  return answer ? answer->return_value : -1;
}

}  // namespace sluice
