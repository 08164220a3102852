// SPDX-License-Identifier: Apache-2.0
#include "stack/core/queue.h"

#include <algorithm>

#include "base/contract.h"
#include "stack/core/module.h"
#include "stack/core/scheduler.h"

namespace sluice {
namespace {

/// FLUSHDATA keeps everything but data: "M_DATA, M_DELAY, M_PROTO, and M_PCPROTO" are what it discards
/// (flushq(9F)).
bool is_flushed(const Block& message, FlushKind kind) {
  return kind == FlushKind::all || message.type == MessageType::data || is_protocol(message.type);
}

}  // namespace

Queue& Queue::other() const { return module_.queue(side_ == Side::write ? Side::read : Side::write); }

void Queue::put(Batch batch) {
  ++statistics_.batches;
  statistics_.messages += batch.size();
  if (side_ == Side::write) {
    module_.wput(std::move(batch));
  } else {
    module_.rput(std::move(batch));
  }
}

void Queue::reply(Message message) { other().put_next(std::move(message)); }

bool Queue::can_put(std::uint8_t band) {
  Queue& queue = *next_with_service_;
  Band& wanted = queue.bands_[band];
  if (!wanted.full) {
    return true;
  }
  wanted.wanted = true;
  ++queue.statistics_.refused;
  return false;
}

void Queue::added(Band& band, std::size_t size) {
  band.bytes += size;
  ++band.messages;
  bytes_ += size;
  ++messages_;
  statistics_.bytes_max = std::max(statistics_.bytes_max, bytes_);
  update_fullness(band);
}

void Queue::removed(Band& band, std::size_t size) {
  band.bytes -= size;
  --band.messages;
  bytes_ -= size;
  --messages_;
  update_fullness(band);
}

/// Full at the high-water mark, whether bytes or messages reach it; a want is answered below the low-water mark.
void Queue::update_fullness(Band& band) {
  const WaterMarks& marks = band.marks;
  band.full = band.bytes >= marks.high_bytes || band.messages >= marks.high_bytes;
  const bool low = (band.bytes < marks.low_bytes && band.messages < marks.low_bytes) || band.messages == 0;
  if (band.wanted && low && !band.full) {
    band.wanted = false;
    if (back_with_service_ != nullptr) {
      back_with_service_->enable();
    }
  }
}

void Queue::insert(Message message, bool at_front) {
  const bool urgent = is_high_priority(message.type());
  Block& first = message.first();
  first.band = urgent ? std::uint8_t{0} : first.band;
  SLUICE_REQUIRE(first.band < bands_max);
  Band& band = bands_[first.band];
  const std::size_t size = message.size();
  const bool schedules = urgent || (may_schedule_ && (wants_service_ || first.band > 0));
  Batch& waiting = urgent ? urgent_ : band.waiting;
  if (at_front) {
    waiting.push_front(std::move(message));
  } else {
    waiting.push(std::move(message));
    ++statistics_.enqueued;
  }
  added(band, size);
  if (schedules) {
    enable();
  }
}

void Queue::enqueue(Message message) { insert(std::move(message), false); }

void Queue::put_back(Message message) {
  SLUICE_REQUIRE(!is_high_priority(message.type()) || !module_.has_service(side_));
  insert(std::move(message), true);
}

Message Queue::take(Band& band, Batch& from) {
  Message message = from.pop();
  removed(band, message.size());
  return message;
}

Message Queue::dequeue() {
  wants_service_ = messages_ == 0;
  if (wants_service_) {
    return {};
  }
  if (!urgent_.empty()) {
    return take(bands_[0], urgent_);
  }
  const auto band = std::find_if(bands_.rbegin(), bands_.rend(), [](const Band& b) { return !b.waiting.empty(); });
  return take(*band, band->waiting);
}

const Block* Queue::peek() const {
  if (!urgent_.empty()) {
    return urgent_.front();
  }
  const auto band = std::find_if(bands_.rbegin(), bands_.rend(), [](const Band& b) { return !b.waiting.empty(); });
  return band == bands_.rend() ? nullptr : band->waiting.front();
}

void Queue::flush_class(Band& band, Batch& waiting, FlushKind kind) {
  Batch all = std::move(waiting);
  while (Message message = all.pop()) {
    if (is_flushed(message.first(), kind)) {
      removed(band, message.size());
    } else {
      waiting.push(std::move(message));
    }
  }
}

void Queue::flush(FlushKind kind) {
  flush_class(bands_[0], urgent_, kind);
  for (Band& band : bands_) {
    flush_class(band, band.waiting, kind);
  }
}

void Queue::flush_band(std::uint8_t band, FlushKind kind) { flush_class(bands_[band], bands_[band].waiting, kind); }

void Queue::enable() {
  if (!scheduled_ && scheduler_ != nullptr && module_.has_service(side_)) {
    scheduler_->schedule(*this);
  }
}

void Queue::set_marks(WaterMarks marks, std::uint8_t band) {
  SLUICE_REQUIRE(marks.high_bytes > 0 && marks.low_bytes <= marks.high_bytes);
  bands_[band].marks = marks;
  update_fullness(bands_[band]);
}

}  // namespace sluice
