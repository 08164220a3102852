// SPDX-License-Identifier: Apache-2.0
#include "stack/modules/stream_send_buffer.h"

#include <algorithm>
#include <utility>

#include "base/contract.h"
#include "stack/modules/stream_gathering.h"

namespace sluice::byte_stream {

void SendBuffer::append(Message data) {
  while (data) {
    Message rest = data.unlink();
    const std::size_t size = data.size();
    if (size > 0 && !gather(data)) {
      pieces_.push_back({end_, std::move(data)});
    }
    end_ += size;
    data = std::move(rest);
  }
}

/// Copies a small block behind the last one, where that has room and no segment shows it, or begins a block for those
/// to come. False: the block is to be kept as it is.
bool SendBuffer::gather(const Message& data) {
  const std::size_t size = data.size();
  if (size > gathered_bytes_max) {
    return false;
  }
  if (pieces_.empty() || !has_tail_room(std::as_const(pieces_).back().data.first(), size)) {
    Message begun = Message::allocate(data.pool(), gathering_block_bytes);
    if (!begun) {
      return false;
    }
    pieces_.push_back({end_, std::move(begun)});
  }
  std::ranges::copy(data.bytes(), pieces_.back().data.append(size).begin());
  return true;
}

void SendBuffer::release_to(Position position) {
  SLUICE_REQUIRE(begin_ <= position && position <= end_);
  begin_ = position;
  while (!pieces_.empty() && pieces_.front().end() <= position) {
    pieces_.pop_front();
  }
}

Message SendBuffer::show(Range range) {
  SLUICE_REQUIRE(begin_ <= range.begin && range.begin < range.end && range.end <= end_);
  const auto behind = std::ranges::upper_bound(pieces_, range.begin, {}, &Piece::at);
  Message shown;
  for (auto piece = std::prev(behind); piece != pieces_.end() && piece->at < range.end; ++piece) {
    Message part = piece->data.duplicate();
    if (!part) {
      return {};
    }
    if (piece->end() > range.end) {
      part.trim_back(static_cast<std::size_t>(piece->end() - range.end));
    }
    if (piece->at < range.begin) {
      part.trim_front(static_cast<std::size_t>(range.begin - piece->at));
    }
    if (shown) {
      shown.link(std::move(part));
    } else {
      shown = std::move(part);
    }
  }
  return shown;
}

void SendBuffer::clear() {
  pieces_.clear();
  begin_ = end_;
}

}  // namespace sluice::byte_stream
