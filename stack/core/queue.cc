// SPDX-License-Identifier: Apache-2.0
#include "stack/core/queue.h"

#include <algorithm>

#include "base/contract.h"
#include "stack/core/module.h"
#include "stack/core/scheduler.h"
#include "stack/core/stream_set.h"

namespace sluice {
namespace {

/// flushq(9F), FLUSHDATA: "Flush only data messages (types M_DATA M_DELAY M_PROTO and M_PCPROTO)."
bool is_flushed(const Block& message, FlushKind kind) {
  return kind == FlushKind::all || message.type == MessageType::data || is_protocol(message.type);
}

/// Where a message belongs among the others: the higher, the nearer to the front.
unsigned rank_of(const Block& message) {
  return is_high_priority(message.type) ? unsigned{bands_max} : unsigned{message.band};
}

/// Whether a band has messages; of banded_'s entries.
constexpr auto waits = [](const auto& entry) { return !entry.second.waiting.empty(); };

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

TransformResult Queue::keep(Message& message, const Stretches& stretches) {
  statistics_.materialized += message.materialized() ? 0U : 1U;
  return outcome(message, message.keep(stretches));
}

inline TransformResult Queue::outcome(const Message& message, TransformResult result) {
  statistics_.no_memory += result == TransformResult::failed && !message.failed() ? 1U : 0U;
  return result;
}

void Queue::reply(Message message) { other().put_next(std::move(message)); }

/// putctl1(9F): "putctl1() fails if type is M_DATA, M_PROTO, or M_PCPROTO, or if a message block cannot be allocated."
Message Queue::control_message(MessageType type, std::initializer_list<std::uint8_t> parameters) const {
  if (type == MessageType::data || is_protocol(type)) {
    return {};
  }
  return Message::copy_of(module_.set().pool(), std::as_bytes(std::span(parameters.begin(), parameters.size())), 0,
                          type);
}

bool Queue::put_control(MessageType type, std::initializer_list<std::uint8_t> parameters) {
  Message message = control_message(type, parameters);
  const bool made = static_cast<bool>(message);
  if (made) {
    put(Batch(std::move(message)));
  }
  return made;
}

bool Queue::put_next_control(MessageType type, std::initializer_list<std::uint8_t> parameters) {
  SLUICE_REQUIRE(next_ != nullptr);
  return next_->put_control(type, parameters);
}

bool Queue::can_put(std::uint8_t band) {
  Queue& queue = *next_with_service_;
  if (!queue.full(band)) {
    return true;
  }
  queue.make_band(band).wanted = true;
  ++queue.statistics_.refused;
  return false;
}

bool Queue::wanted() const {
  return ordinary_.wanted || std::ranges::any_of(banded_, [](const auto& entry) { return entry.second.wanted; });
}

bool Queue::can_put_next_in_some_band() {
  Queue& queue = *next_->next_with_service_;
  bool room = queue.banded_.empty();
  for (auto& [number, band] : queue.banded_) {
    room = room || !band.full;
    band.wanted = band.wanted || band.full;
  }
  return room;
}

bool Queue::next_has_band_with_room() const {
  return std::ranges::any_of(next_->next_with_service_->banded_, [](const auto& entry) { return !entry.second.full; });
}

const Queue::Band* Queue::find_banded(std::uint8_t band) const {
  const auto found = banded_.find(band);
  return found == banded_.end() ? nullptr : &found->second;
}

Queue::Band& Queue::make_banded(std::uint8_t band) {
  const auto [at, made] = banded_.try_emplace(band);
  if (made) {
    at->second.marks = ordinary_.marks;
  }
  return at->second;
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

void Queue::enqueue(Message message) {
  if (side_ == Side::write && message.fused() && outcome(message, message.keep()) == TransformResult::failed) {
    return;
  }
  const bool urgent = is_high_priority(message.type());
  if (urgent) {
    message.set_band(0);
  }
  const std::uint8_t number = message.band();
  Band& band = make_band(number);
  const std::size_t size = message.size();
  (urgent ? urgent_ : band.waiting).push(std::move(message));
  ++statistics_.enqueued;
  added(band, size);
  if (urgent || (may_schedule_ && (wants_service_ || number > 0))) {
    enable();
  }
}

/// Unlike enqueue(), a band alone does not schedule: a service procedure that was refused for a band and put the
/// message back would otherwise run again and again until there is room.
void Queue::put_back(Message message) {
  const bool urgent = is_high_priority(message.type());
  SLUICE_REQUIRE(!urgent || !module_.has_service(side_));
  Band& band = make_band(message.band());
  const std::size_t size = message.size();
  (urgent ? urgent_ : band.waiting).push_front(std::move(message));
  added(band, size);
  if (!urgent && may_schedule_ && wants_service_) {
    enable();
  }
}

/// The last one is all that the band has, so that its size need not be counted again.
inline Message Queue::take(Band& band, Batch& from) {
  Message message = from.pop();
  removed(band, band.messages == 1 ? band.bytes : message.size());
  return message;
}

Message Queue::dequeue() {
  wants_service_ = messages_ == 0;
  if (wants_service_) {
    return {};
  }
  if (!urgent_.empty()) {
    return take(ordinary_, urgent_);
  }
  if (ordinary_.messages == messages_) [[likely]] {  // no other band has any
    return take(ordinary_, ordinary_.waiting);
  }
  Band& band = std::ranges::find_if(banded_, waits)->second;
  return take(band, band.waiting);
}

const Block* Queue::peek() const {
  if (!urgent_.empty()) {
    return urgent_.front();
  }
  if (ordinary_.messages == messages_) [[likely]] {
    return ordinary_.waiting.front();
  }
  return std::ranges::find_if(banded_, waits)->second.waiting.front();
}

const Block* Queue::next_after(const Block& message) const {
  if (message.next != nullptr) {
    return message.next;
  }
  for (const auto& [number, band] : banded_) {
    if (number < rank_of(message) && !band.waiting.empty()) {
      return band.waiting.front();
    }
  }
  return rank_of(message) > 0 ? ordinary_.waiting.front() : nullptr;
}

/// insq(D3DK): "The message to be inserted, nmp, is placed in q immediately before the message emp. If emp is NULL, the
/// new message is placed at the end of the queue. [...] All flow control parameters are updated." AIX: "If an attempt
/// is made to insert a message out of order in a queue by using the insq utility, the message will not be inserted and
/// the routine is not successful."
bool Queue::insert(const Block* before, Message&& message) {
  const Block* previous = nullptr;
  for (const Block* at = peek(); at != before; at = next_after(*at)) {
    SLUICE_REQUIRE(at != nullptr);  // else `before` is not on this queue
    previous = at;
  }
  const unsigned rank = rank_of(std::as_const(message).first());
  const bool in_order = (before == nullptr || rank_of(*before) <= rank) &&  //
                        (previous == nullptr || rank <= rank_of(*previous));
  if (!in_order ||
      (side_ == Side::write && message.fused() && outcome(message, message.keep()) == TransformResult::failed)) {
    return false;
  }
  const bool urgent = is_high_priority(message.type());
  if (urgent) {
    message.set_band(0);
  }
  Band& band = make_band(message.band());
  const std::size_t size = message.size();
  const bool among_its_own = before != nullptr && rank_of(*before) == rank;
  (urgent ? urgent_ : band.waiting).insert(among_its_own ? before : nullptr, std::move(message));
  ++statistics_.enqueued;
  added(band, size);
  if (urgent || (may_schedule_ && wants_service_)) {
    enable();
  }
  return true;
}

/// rmvq(D3DK): "A message can be removed from anywhere in a queue."
Message Queue::remove(const Block& message) {
  Band& band = make_band(message.band);
  Message taken = (is_high_priority(message.type) ? urgent_ : band.waiting).remove(message);
  removed(band, taken.size());
  return taken;
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
  flush_class(ordinary_, urgent_, kind);
  flush_class(ordinary_, ordinary_.waiting, kind);
  for (auto& [number, band] : banded_) {
    flush_class(band, band.waiting, kind);
  }
}

/// flushband(9F): "If pri is 0, only normal and high priority messages are flushed."
void Queue::flush_band(std::uint8_t band, FlushKind kind) {
  if (band == 0) {
    flush_class(ordinary_, urgent_, kind);
    flush_class(ordinary_, ordinary_.waiting, kind);
  } else if (const auto found = banded_.find(band); found != banded_.end()) {
    flush_class(found->second, found->second.waiting, kind);
  }
}

void Queue::enable() {
  if (!scheduled_ && scheduler_ != nullptr && module_.has_service(side_)) {
    scheduler_->schedule(*this);
  }
}

void Queue::set_marks(WaterMarks marks, std::uint8_t band) {
  SLUICE_REQUIRE(marks.high_bytes > 0 && marks.low_bytes <= marks.high_bytes);
  Band& marked = make_band(band);
  marked.marks = marks;
  update_fullness(marked);
}

}  // namespace sluice
