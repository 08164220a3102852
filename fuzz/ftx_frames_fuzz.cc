// SPDX-License-Identifier: Apache-2.0
// The frames of a pipe: the first byte says how many bytes arrive at a time. Whatever comes, the reader stays within
// its buffer, answers the same however the bytes are cut, and what it answers is framed again as it was.
#include <algorithm>
#include <vector>

#include "apps/ftx/transport/frames.h"
#include "fuzz/round_trip.h"

namespace {

using namespace sluice;
using namespace sluice::ftx;

struct Outcome {
  std::vector<std::byte> framed;  // what was answered, framed again
  bool broken = false;
};

Outcome read(ConstBytes stream, std::size_t step) {
  FrameReader reader;
  Outcome outcome;
  while (!stream.empty() && !reader.broken()) {
    const Bytes room = reader.room();
    SLUICE_REQUIRE(!room.empty());
    const std::size_t count = std::min({step, stream.size(), room.size()});
    std::copy_n(stream.begin(), count, room.begin());
    reader.fed(count);
    stream = stream.subspan(count);
    while (const auto datagram = reader.next()) {
      append_frame(outcome.framed, datagram->first(datagram->size() / 2), datagram->subspan(datagram->size() / 2));
    }
  }
  outcome.broken = reader.broken();
  return outcome;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) {
    return 0;
  }
  const ConstBytes stream = fuzz::input(data + 1, size - 1);
  const Outcome whole = read(stream, size);
  const Outcome cut = read(stream, 1 + data[0]);
  SLUICE_REQUIRE(whole.framed == cut.framed && whole.broken == cut.broken);
  SLUICE_REQUIRE(whole.framed.size() <= stream.size() &&
                 std::equal(whole.framed.begin(), whole.framed.end(), stream.begin()));
  return 0;
}
