// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/transport/frames.h"

#include <algorithm>

#include "base/contract.h"

namespace sluice::ftx {
namespace {

constexpr std::size_t frame_bytes_max = frame_header_bytes + frame_datagram_bytes_max;
/// Several frames a read.
constexpr std::size_t buffer_bytes = 4 * frame_bytes_max;

std::size_t length_in(ConstBytes frame) {
  return std::to_integer<std::size_t>(frame[0]) << 8 | std::to_integer<std::size_t>(frame[1]);
}

}  // namespace

void append_frame(std::vector<std::byte>& out, ConstBytes header, ConstBytes payload) {
  const std::size_t size = header.size() + payload.size();
  SLUICE_REQUIRE(size >= frame_datagram_bytes_min && size <= frame_datagram_bytes_max);
  out.push_back(static_cast<std::byte>(size >> 8));
  out.push_back(static_cast<std::byte>(size & 0xff));
  out.insert(out.end(), header.begin(), header.end());
  out.insert(out.end(), payload.begin(), payload.end());
}

FrameReader::FrameReader() : buffer_(buffer_bytes) {}

Bytes FrameReader::room() {
  if (buffer_.size() - begin_ < frame_bytes_max) {
    std::copy(buffer_.begin() + static_cast<std::ptrdiff_t>(begin_),
              buffer_.begin() + static_cast<std::ptrdiff_t>(end_), buffer_.begin());
    end_ -= begin_;
    begin_ = 0;
  }
  return Bytes(buffer_).subspan(end_);
}

void FrameReader::fed(std::size_t count) {
  SLUICE_REQUIRE(count <= buffer_.size() - end_);
  end_ += count;
}

std::optional<ConstBytes> FrameReader::next() {
  const ConstBytes waiting = ConstBytes(buffer_).subspan(begin_, end_ - begin_);
  if (broken_ || waiting.size() < frame_header_bytes) {
    return std::nullopt;
  }
  const std::size_t length = length_in(waiting);
  if (length < frame_datagram_bytes_min) {
    broken_ = true;
    return std::nullopt;
  }
  if (waiting.size() < frame_header_bytes + length) {
    return std::nullopt;
  }
  begin_ += frame_header_bytes + length;
  const ConstBytes datagram = waiting.subspan(frame_header_bytes, length);
  if (begin_ == end_) {
    begin_ = end_ = 0;  // the bytes stay where they are
  }
  return datagram;
}

}  // namespace sluice::ftx
