// SPDX-License-Identifier: Apache-2.0
// The framing header of messages over connections: what is accepted comes out again as it was.
#include "base/contract.h"
#include "stack/wire/msg_frame.h"

#include <algorithm>
#include <array>
#include <span>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using sluice::wire::MsgFrame;
  const auto bytes = std::as_bytes(std::span(data, size));
  if (const auto frame = MsgFrame::parse(bytes)) {
    std::array<std::byte, MsgFrame::size> again;
    frame->emit(again);
    SLUICE_REQUIRE(std::ranges::equal(again, bytes.first(MsgFrame::size)));
  }
  return 0;
}
