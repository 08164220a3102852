// SPDX-License-Identifier: Apache-2.0
#include "stack/modules/tcp_receive_buffer.h"

#include <algorithm>
#include <utility>

#include "stack/modules/stream_gathering.h"

namespace sluice::tcp {

bool ReceiveBuffer::insert(Position at, Message data) {
  const Position end = at + data.size();
  if (end <= next_) {
    return true;
  }
  if (at <= next_ && held_.empty()) {
    data.trim_front(static_cast<std::size_t>(next_ - at));
    add_ready(std::move(data));
    return true;
  }
  const Position begun = std::max(at, next_);
  const bool held = hold(at, std::move(data));
  advance();
  if (held && begun >= next_) {
    remember(begun);
  }
  return held;
}

/// Puts what is new of the data into the gaps that it covers.
bool ReceiveBuffer::hold(Position at, Message data) {
  while (data) {
    Position free = std::max(at, next_);
    const auto behind = held_.upper_bound(free);
    if (behind != held_.begin()) {
      const auto& [before_at, before] = *std::prev(behind);
      free = std::max(free, before_at + before.size());
    }
    const std::size_t known = static_cast<std::size_t>(free - at);
    if (known >= data.size()) {
      return true;
    }
    data.trim_front(known);
    at = free;
    Message rest;
    if (behind != held_.end() && at + data.size() > behind->first) {
      if (at == behind->first) {
        continue;  // the piece there begins where the one before ends
      }
      rest = data.split(static_cast<std::size_t>(behind->first - at));
      if (!rest) {
        return false;
      }
    }
    if (held_.size() >= pieces_max && at != next_) {
      return false;
    }
    if (wastes(data)) {
      Message small = data.pulled_up(std::nullopt);
      if (!small) {
        return false;
      }
      data = std::move(small);
    }
    const std::size_t size = data.size();
    held_.emplace(at, std::move(data));
    at += size;
    data = std::move(rest);
  }
  return true;
}

/// What begins where everything before has come is in order.
void ReceiveBuffer::advance() {
  while (!held_.empty() && held_.begin()->first == next_) {
    Message data = std::move(held_.begin()->second);
    held_.erase(held_.begin());
    add_ready(std::move(data));
  }
}

void ReceiveBuffer::add_ready(Message data) {
  next_ += data.size();
  ready_bytes_ += data.size();
  if (ready_.empty() || data.size() > gathered_bytes_max || !gather(data)) {
    ready_.push_back(std::move(data));
  }
}

/// Copies small data behind what waits already. False: it is to be kept as it is.
bool ReceiveBuffer::gather(const Message& data) {
  const Block* last = &std::as_const(ready_.back()).first();
  while (last->cont != nullptr) {
    last = last->cont;
  }
  if (!has_tail_room(*last, data.size())) {
    Message begun = Message::allocate(data.pool(), gathering_block_bytes);
    if (!begun) {
      return false;
    }
    ready_.push_back(std::move(begun));
  }
  return data.copy_data_to(0, ready_.back().append(data.size()));
}

Message ReceiveBuffer::take(std::size_t bytes_max) {
  std::size_t count = 0;
  std::size_t bytes = 0;
  while (count < ready_.size() && bytes < bytes_max) {
    bytes += ready_[count++].data_size();
  }
  if (bytes > bytes_max && count > 1 && ready_[count - 1].data_size() > gathered_bytes_max) {
    bytes -= ready_[--count].data_size();  // a large piece goes up whole, the next time
  } else if (bytes > bytes_max) {
    Message& last = ready_[count - 1];
    if (Message rest = last.split(last.data_size() - (bytes - bytes_max))) {
      ready_.insert(ready_.begin() + static_cast<std::ptrdiff_t>(count), std::move(rest));
      bytes = bytes_max;
    }
  }
  Message taken;
  for (std::size_t piece = count; piece-- > 0;) {  // from behind: link() walks to the end of what it links to
    if (taken) {
      ready_[piece].link(std::move(taken));
    }
    taken = std::move(ready_[piece]);
  }
  ready_.erase(ready_.begin(), ready_.begin() + static_cast<std::ptrdiff_t>(count));
  ready_bytes_ -= bytes;
  return taken;
}

/// The run of pieces without a gap that has `at` in it; empty where nothing is held there.
Range ReceiveBuffer::run_around(Position at) const {
  auto piece = held_.upper_bound(at);
  if (piece == held_.begin() || std::prev(piece)->first + std::prev(piece)->second.size() <= at) {
    return {};
  }
  --piece;
  Range run{piece->first, piece->first + piece->second.size()};
  for (auto later = std::next(piece); later != held_.end() && later->first == run.end; ++later) {
    run.end += later->second.size();
  }
  while (piece != held_.begin() && std::prev(piece)->first + std::prev(piece)->second.size() == run.begin) {
    --piece;
    run.begin = piece->first;
  }
  return run;
}

void ReceiveBuffer::remember(Position at) {
  const Range run = run_around(at);
  const auto others = std::ranges::remove_if(
      recent_, [&](Position place) { return place == 0 || (place >= run.begin && place < run.end); });
  std::ranges::fill(others, Position{0});
  std::ranges::rotate(recent_, recent_.end() - 1);
  recent_.front() = at;
}

std::size_t ReceiveBuffer::runs(std::span<Range> out) const {
  std::size_t count = 0;
  for (const Position place : recent_) {
    const Range run = count < out.size() ? run_around(place) : Range{};
    if (run.size() > 0 && std::ranges::find(out.first(count), run) == out.first(count).end()) {
      out[count++] = run;
    }
  }
  if (count == 0 && !held_.empty() && !out.empty()) {  // those that are remembered are in order by now
    out[count++] = run_around(held_.begin()->first);
  }
  return count;
}

}  // namespace sluice::tcp
