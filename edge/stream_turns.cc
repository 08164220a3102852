// SPDX-License-Identifier: Apache-2.0
#include "edge/stream_turns.h"

#include <algorithm>
#include <utility>

#include "base/contract.h"

namespace sluice {
namespace {

const Queue& waiting(Stream& stream) { return stream.head().read_queue(); }

}  // namespace

void StreamTurns::attend(Stream& stream, Turn turn) {
  SLUICE_REQUIRE(std::ranges::none_of(attendances_, [&](const auto& one) { return one->stream == &stream; }));
  attendances_.push_back(std::make_shared<Attendance>(&stream, std::move(turn)));
  due_ = true;
}

void StreamTurns::unattend(const Stream& stream) {
  std::erase_if(attendances_, [&](const auto& one) {
    const bool ends = one->stream == &stream;
    one->stream = ends ? nullptr : one->stream;
    return ends;
  });
  due_ = true;  // the list that is being served has moved
}

bool StreamTurns::give_turn(Attendance& attendance) {
  const std::size_t messages = waiting(*attendance.stream).messages();
  const Block* const first = waiting(*attendance.stream).peek();
  const bool more = attendance.turn();
  if (more || attendance.stream == nullptr) {
    return true;
  }
  // Not what the turn says alone: it may have left something, or something may have come of what it did.
  const Queue& left = waiting(*attendance.stream);
  if (left.messages() != messages || left.peek() != first) {
    return true;
  }
  declined_ = declined_ || !left.empty();
  return false;
}

bool StreamTurns::serve(bool happened) {
  if (serving_) {
    due_ = due_ || happened;
    return false;
  }
  const bool all = std::exchange(due_, false) || happened;
  bool worked = false;
  declined_ = false;
  serving_ = true;
  for (std::size_t at = 0; at < attendances_.size(); ++at) {
    const std::shared_ptr<Attendance> attendance = attendances_[at];
    if (all || !waiting(*attendance->stream).empty()) {
      worked |= give_turn(*attendance);
    }
  }
  serving_ = false;
  due_ = due_ || worked;
  return due_;
}

}  // namespace sluice
