// SPDX-License-Identifier: Apache-2.0
#include "dlpi/shared_ring.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace sluice::dlpi {
namespace {

/// Copies `size` bytes from position `at` of the ring on.
void copy_out(ConstBytes ring, std::uint64_t at, std::byte* out, std::size_t size) {
  const auto begin = static_cast<std::size_t>(at % ring.size());
  const std::size_t front = std::min(size, ring.size() - begin);
  std::memcpy(out, ring.data() + begin, front);
  std::memcpy(out + front, ring.data(), size - front);
}

/// Takes back what the other side has asked for, as a rule nothing.
bool take_wish(std::atomic<std::uint32_t>& wish) {
  return wish.load(std::memory_order_seq_cst) != 0 && wish.exchange(0, std::memory_order_seq_cst) != 0;
}

}  // namespace

bool SharedRingWriter::publish() {
  ring_.words->written.store(written_, std::memory_order_seq_cst);
  return take_wish(ring_.words->reader_waits);
}

void SharedRingWriter::put(ConstBytes bytes) {
  const auto begin = static_cast<std::size_t>(written_ % ring_.bytes.size());
  const std::size_t front = std::min(bytes.size(), ring_.bytes.size() - begin);
  std::memcpy(ring_.bytes.data() + begin, bytes.data(), front);
  std::memcpy(ring_.bytes.data(), bytes.data() + front, bytes.size() - front);
  written_ += bytes.size();
}

SharedRingWriter::Result SharedRingWriter::write(const Message& frame) {
  const std::uint64_t taken = ring_.words->taken.load(std::memory_order_seq_cst);
  if (taken < taken_ || taken > written_) {
    return Result::broken;  // else written_ - taken_, which is at most the ring's size, could not have become less
  }
  taken_ = taken;
  const std::size_t size = frame.data_size();
  const std::size_t record = SharedRing::record_bytes(size);
  if (record > ring_.bytes.size() - (written_ - taken_)) {
    return Result::no_room;
  }
  const std::uint64_t end = written_ + record;
  std::array<std::byte, SharedRing::header_bytes> header{};
  const auto told = static_cast<std::uint32_t>(size);
  std::memcpy(header.data(), &told, sizeof told);
  put(header);
  for (const Block* block = frame.data_block(); block != nullptr; block = block->cont) {
    put(block->bytes());
  }
  written_ = end;
  return Result::written;
}

SharedRingReader::Next SharedRingReader::next() {
  const std::uint64_t written = ring_.words->written.load(std::memory_order_seq_cst);
  if (written < written_ || written - taken_ > ring_.bytes.size()) {
    return Next::broken;
  }
  written_ = written;
  const std::uint64_t waiting = written - taken_;
  if (waiting == 0) {
    return Next::nothing;
  }
  if (waiting < SharedRing::header_bytes) {
    return Next::broken;
  }
  // Once: from here on it is the copy that counts, whatever becomes of the ring.
  std::uint32_t size = 0;
  copy_out(ring_.bytes, taken_, reinterpret_cast<std::byte*>(&size), sizeof size);
  asm volatile("" : "+r"(size));
  if (size > frame_bytes_max_ || SharedRing::record_bytes(size) > waiting) {
    return Next::broken;
  }
  frame_bytes_ = size;
  return Next::frame;
}

void SharedRingReader::copy(Bytes out) const {
  if (out.empty()) {
    return;  // nothing has no address, which memcpy may not be given
  }
  copy_out(ring_.bytes, taken_ + SharedRing::header_bytes, out.data(), out.size());
}

bool SharedRingReader::publish() {
  ring_.words->taken.store(taken_, std::memory_order_seq_cst);
  return take_wish(ring_.words->writer_waits);
}

}  // namespace sluice::dlpi
