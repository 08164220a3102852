// SPDX-License-Identifier: Apache-2.0
#include "stack/core/queue.h"

#include <algorithm>

#include "base/contract.h"
#include "stack/core/module.h"
#include "stack/core/scheduler.h"

namespace sluice {
namespace {

/// flushq(9F), FLUSHDATA: "Flush only data messages (types M_DATA M_DELAY M_PROTO and M_PCPROTO)."
bool is_flushed(const Block& message, FlushKind kind) {
  return kind == FlushKind::all || message.type == MessageType::data || is_protocol(message.type);
}

}  // namespace

Queue& Queue::other() const { return module_.queue(side_ == Side::write ? Side::read : Side::write); }

/// Makes the primitives' bytes and, for a module that does not know plans, those that are owed. What fails a check is
/// dropped, and counted by the check's owner.
void Queue::make_plain(Batch& batch) {
  batch.retain([this](Message& message) {
    message.encode();
    return !materializes_ || materialize(message) == TransformResult::done;
  });
}

TransformResult Queue::materialize(Message& message) {
  statistics_.materialized += message.materialized() ? 0U : 1U;
  return outcome(message, message.materialize());
}

TransformResult Queue::keep(Message& message) {
  statistics_.materialized += message.materialized() ? 0U : 1U;
  return outcome(message, message.keep());
}

inline TransformResult Queue::outcome(const Message& message, TransformResult result) {
  statistics_.no_memory += result == TransformResult::failed && !message.failed() ? 1U : 0U;
  return result;
}

void Queue::reply(Message message) { other().put_next(std::move(message)); }

bool Queue::can_put(std::uint8_t band) {
  SLUICE_REQUIRE(band < bands_max);
  Queue& queue = *next_with_service_;
  Band& wanted = queue.bands_[band];
  if (!wanted.full) {
    return true;
  }
  wanted.wanted = true;
  ++queue.statistics_.refused;
  return false;
}

bool Queue::wanted() const {
  return std::any_of(bands_.begin(), bands_.end(), [](const Band& band) { return band.wanted; });
}

inline void Queue::added(Band& band, std::size_t size) {
  band.bytes += size;
  ++band.messages;
  bytes_ += size;
  ++messages_;
  statistics_.bytes_max = std::max(statistics_.bytes_max, bytes_);
  update_fullness(band);
}

inline void Queue::removed(Band& band, std::size_t size) {
  band.bytes -= size;
  --band.messages;
  bytes_ -= size;
  --messages_;
  update_fullness(band);
}

/// Full at the high-water mark, whether bytes or messages reach it; a want is answered below the low-water mark.
inline void Queue::update_fullness(Band& band) {
  const WaterMarks& marks = band.marks;
  band.full = band.bytes >= marks.high_bytes || band.messages >= marks.high_bytes;
  if (!band.wanted) [[likely]] {
    return;
  }
  const bool low = (band.bytes < marks.low_bytes && band.messages < marks.low_bytes) || band.messages == 0;
  if (low && !band.full) {
    band.wanted = false;
    if (back_with_service_ != nullptr) {
      back_with_service_->enable();
    }
  }
}

inline Queue::Band& Queue::band_of(const Message& message) {
  SLUICE_REQUIRE(message.band() < bands_max);
  return bands_[message.band()];
}

void Queue::enqueue(Message message) {
  if (side_ == Side::write && message.fused() && outcome(message, message.keep()) == TransformResult::failed) {
    return;
  }
  const bool urgent = is_high_priority(message.type());
  message.set_band(urgent ? std::uint8_t{0} : message.band());
  Band& band = band_of(message);
  const std::size_t size = message.size();
  const bool schedules = urgent || (may_schedule_ && (wants_service_ || message.band() > 0));
  (urgent ? urgent_ : band.waiting).push(std::move(message));
  ++statistics_.enqueued;
  added(band, size);
  if (schedules) {
    enable();
  }
}

/// Unlike enqueue(), a band alone does not schedule: a service procedure that was refused for a band and put the
/// message back would otherwise run again and again until there is room.
void Queue::put_back(Message message) {
  const bool urgent = is_high_priority(message.type());
  SLUICE_REQUIRE(!urgent || !module_.has_service(side_));
  Band& band = band_of(message);
  const std::size_t size = message.size();
  (urgent ? urgent_ : band.waiting).push_front(std::move(message));
  added(band, size);
  if (!urgent && may_schedule_ && wants_service_) {
    enable();
  }
}

inline Message Queue::take(Band& band, Batch& from) {
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
  if (bands_[0].messages == messages_) [[likely]] {  // no other band has any
    return take(bands_[0], bands_[0].waiting);
  }
  const auto band = std::find_if(bands_.rbegin(), bands_.rend(), [](const Band& b) { return !b.waiting.empty(); });
  return take(*band, band->waiting);
}

const Block* Queue::peek() const {
  if (!urgent_.empty()) {
    return urgent_.front();
  }
  if (bands_[0].messages == messages_) [[likely]] {
    return bands_[0].waiting.front();
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

/// flushband(9F): "If pri is 0, only normal and high priority messages are flushed."
void Queue::flush_band(std::uint8_t band, FlushKind kind) {
  SLUICE_REQUIRE(band < bands_max);
  if (band == 0) {
    flush_class(bands_[0], urgent_, kind);
  }
  flush_class(bands_[band], bands_[band].waiting, kind);
}

void Queue::enable() {
  if (!scheduled_ && scheduler_ != nullptr && module_.has_service(side_)) {
    scheduler_->schedule(*this);
  }
}

void Queue::set_marks(WaterMarks marks, std::uint8_t band) {
  SLUICE_REQUIRE(band < bands_max && marks.high_bytes > 0 && marks.low_bytes <= marks.high_bytes);
  bands_[band].marks = marks;
  update_fullness(bands_[band]);
}

}  // namespace sluice
