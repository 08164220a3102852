// SPDX-License-Identifier: Apache-2.0
// A ring in shared memory whose other side writes what it likes, when it likes. Each nine bytes are a step: what is
// done, and a value. Nothing outside of the ring is touched, and no frame is larger than it may be.
#include <array>
#include <cstring>
#include <vector>

#include "base/contract.h"
#include "dlpi/shared_ring.h"
#include "fuzz/round_trip.h"
#include "stack/core/stream_set.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace sluice;
  using namespace sluice::dlpi;
  constexpr std::size_t step_bytes = 9;
  constexpr std::size_t steps_max = 4096;
  constexpr std::size_t frame_max = 100;
  SharedRingWords words{};
  std::vector<std::byte> memory(256);
  const SharedRing ring{&words, memory};
  SharedRingWriter writer(ring);
  SharedRingReader reader(ring, frame_max);
  StreamSet set;
  bool reads = true;
  bool writes = true;
  for (std::size_t step = 0; step < steps_max && (step + 1) * step_bytes <= size; ++step) {
    const ConstBytes bytes = fuzz::input(data, size).subspan(step * step_bytes, step_bytes);
    std::uint64_t value = 0;
    std::memcpy(&value, bytes.data() + 1, sizeof value);
    switch (std::to_integer<unsigned>(bytes[0]) % 8) {
      case 0:
        words.written = value;
        break;
      case 1:
        words.taken = value;
        break;
      case 2:
        words.written += value % 512;
        break;
      case 3:
        words.taken += value % 512;
        break;
      case 4: {  // eight bytes of the ring
        std::memcpy(memory.data() + (value >> 32) % (memory.size() - 7), &value, sizeof value);
        break;
      }
      case 5:
        words.writer_waits = static_cast<std::uint32_t>(value);
        break;
      case 6:
        if (writes) {
          const std::vector<std::byte> frame(value % (frame_max + 1));
          const Message message = Message::copy_of(set.pool(), frame, 0, MessageType::data, 17);
          writes = writer.write(message) != SharedRingWriter::Result::broken;
          static_cast<void>(writer.publish());
        }
        break;
      default:
        if (reads) {
          const SharedRingReader::Next next = reader.next();
          reads = next != SharedRingReader::Next::broken;
          if (next == SharedRingReader::Next::frame) {
            SLUICE_REQUIRE(reader.frame_bytes() <= frame_max);
            std::vector<std::byte> frame(reader.frame_bytes());
            reader.copy(frame);
            reader.skip();
            static_cast<void>(reader.publish());
          }
        }
    }
  }
  return 0;
}
