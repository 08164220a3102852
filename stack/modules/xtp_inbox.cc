// SPDX-License-Identifier: Apache-2.0
#include "stack/modules/xtp_inbox.h"

#include <algorithm>
#include <utility>

#include "base/contract.h"
#include "stack/modules/stream_gathering.h"

namespace sluice::xtp {
namespace {

/// False without memory.
[[nodiscard]] bool fit(Message& data) {
  if (!byte_stream::wastes(data)) {
    return true;
  }
  Message small = data.pulled_up(std::nullopt);
  if (!small) {
    return false;
  }
  data = std::move(small);
  return true;
}

/// Copies small data behind what `before` ends with, where that has room.
[[nodiscard]] bool gather(Message& before, const Message& data) {
  if (data.data_size() > byte_stream::gathered_bytes_max) {
    return false;
  }
  const Block* last = &std::as_const(before).first();
  while (last->cont != nullptr) {
    last = last->cont;
  }
  if (!byte_stream::has_tail_room(*last, data.data_size())) {
    Message begun = Message::allocate(data.pool(), byte_stream::gathering_block_bytes);
    if (!begun) {
      return false;
    }
    before.link(std::move(begun));
  }
  return data.copy_data_to(0, before.append(data.data_size()));
}

}  // namespace

bool Inbox::insert(Position at, Message data, bool ends_message) {
  Position begin = std::max(at, next_);
  const Position end = at + data.data_size();
  const auto behind = held_.upper_bound(begin);
  if (behind != held_.begin()) {
    const auto& [before_at, before] = *std::prev(behind);
    begin = std::max(begin, before_at + before.data.data_size());
  }
  if (begin >= end) {
    return true;
  }
  data.trim_front(static_cast<std::size_t>(begin - at));
  if (behind != held_.end() && behind->first < end) {
    data.trim_back(static_cast<std::size_t>(end - behind->first));
    ends_message = false;  // what is held there says where its message ends
    if (data.data_size() == 0) {
      return true;
    }
  }
  if (begin == next_) {
    const bool added = add_ready({std::move(data), ends_message});
    advance();
    return added;
  }
  if (held_.size() >= held_pieces_max || !fit(data)) {
    return false;
  }
  held_.emplace(begin, Piece{std::move(data), ends_message});
  return true;
}

/// What begins where everything before has come is in order.
void Inbox::advance() {
  while (!held_.empty() && held_.begin()->first == next_) {
    Piece piece = std::move(held_.begin()->second);
    held_.erase(held_.begin());
    if (!add_ready(std::move(piece))) {
      return;  // lost: it comes again
    }
  }
}

bool Inbox::add_ready(Piece piece) {
  const std::size_t size = piece.data.data_size();
  if (!ready_.empty() && !ready_.back().ends_message && ready_.back().data.data_size() + size <= piece_bytes_max) {
    Piece& last = ready_.back();
    if (!gather(last.data, piece.data)) {
      if (!fit(piece.data)) {
        return false;
      }
      last.data.link(std::move(piece.data));
    }
    last.ends_message = piece.ends_message;
  } else {
    if (is_full() || !fit(piece.data)) {
      return false;
    }
    ready_.push_back(std::move(piece));
  }
  next_ += size;
  ready_bytes_ += size;
  return true;
}

/// A message of which something lacks does not go on with what follows, unless its user has its beginning already.
void Inbox::skip_to(Position position) {
  SLUICE_REQUIRE(held_.empty() && position >= next_);
  if (position > next_ && !ready_.empty()) {
    ready_.back().ends_message = true;
  }
  next_ = position;
}

Inbox::Piece Inbox::take() {
  SLUICE_REQUIRE(has_ready());
  Piece piece = std::move(ready_.front());
  ready_.pop_front();
  ready_bytes_ -= piece.data.data_size();
  return piece;
}

std::size_t Inbox::spans(std::span<wire::XtpSpan> out) const {
  std::size_t count = 0;
  for (const auto& [at, piece] : held_) {
    const Position end = at + piece.data.data_size();
    if (count > 0 && out[count - 1].right == at) {
      out[count - 1].right = end;
    } else if (count < out.size()) {
      out[count++] = {.left = at, .right = end};
    } else {
      break;
    }
  }
  return count;
}

}  // namespace sluice::xtp
