// SPDX-License-Identifier: Apache-2.0
#include "stack/core/scheduler.h"

#include <algorithm>
#include <utility>

#include "base/contract.h"
#include "stack/core/buffer_pool.h"
#include "stack/core/module.h"
#include "stack/core/queue.h"

namespace sluice {

Timer::Timer(Scheduler& scheduler, std::function<void()> callback)
    : scheduler_(scheduler), callback_(std::move(callback)) {}

void Timer::arm(TimePoint at) {
  cancel();
  at_ = at;
  scheduler_.insert(*this);
}

void Timer::arm_after(Duration delay) { arm(scheduler_.now() + delay); }

void Timer::cancel() {
  if (armed()) {
    scheduler_.remove(*this);
  }
}

BufferCall::BufferCall(Scheduler& scheduler, const BufferPool& pool, std::function<void()> callback)
    : scheduler_(scheduler), pool_(pool), callback_(std::move(callback)) {}

bool BufferCall::await(std::size_t capacity) { return await(capacity, false, pool_.ever_available(capacity)); }

bool BufferCall::await_external() { return await(0, true, pool_.external_ever_available()); }

bool BufferCall::await(std::size_t capacity, bool external, bool possible) {
  cancel();
  capacity_ = capacity;
  external_ = external;
  waiting_ = possible;
  if (possible) {
    scheduler_.buffer_calls_.push_back(this);
  }
  return possible;
}

void BufferCall::cancel() {
  if (std::exchange(waiting_, false)) {
    std::erase(scheduler_.buffer_calls_, this);
  }
}

/// Who waits for what others have taken for good is called, too, and told by the next await().
bool BufferCall::ready() const {
  return external_ ? pool_.external_available() || !pool_.external_ever_available()
                   : pool_.available(capacity_) || !pool_.ever_available(capacity_);
}

bool Scheduler::before(const Timer& a, const Timer& b) { return a.at_ != b.at_ ? a.at_ < b.at_ : a.order_ < b.order_; }

void Scheduler::place(Timer* timer, std::size_t position) {
  heap_[position] = timer;
  timer->position_ = position;
}

void Scheduler::sift_up(std::size_t position) {
  Timer* timer = heap_[position];
  while (position > 0) {
    const std::size_t parent = (position - 1) / 2;
    if (before(*heap_[parent], *timer)) {
      break;
    }
    place(heap_[parent], position);
    position = parent;
  }
  place(timer, position);
}

void Scheduler::sift_down(std::size_t position) {
  Timer* timer = heap_[position];
  for (;;) {
    std::size_t child = 2 * position + 1;
    if (child >= heap_.size()) {
      break;
    }
    if (child + 1 < heap_.size() && before(*heap_[child + 1], *heap_[child])) {
      ++child;
    }
    if (before(*timer, *heap_[child])) {
      break;
    }
    place(heap_[child], position);
    position = child;
  }
  place(timer, position);
}

void Scheduler::insert(Timer& timer) {
  timer.order_ = armed_++;
  heap_.push_back(&timer);
  timer.position_ = heap_.size() - 1;
  sift_up(timer.position_);
}

void Scheduler::remove(Timer& timer) {
  const std::size_t position = std::exchange(timer.position_, Timer::unarmed);
  Timer* last = heap_.back();
  heap_.pop_back();
  if (last != &timer) {
    place(last, position);
    sift_up(position);
    sift_down(last->position_);
  }
}

bool Scheduler::run_timers() {
  std::size_t fired = 0;
  while (!heap_.empty() && heap_.front()->at_ <= now_ && fired < timers_per_poll_max) {
    Timer& timer = *heap_.front();
    remove(timer);
    timer.callback_();
    ++fired;
  }
  return fired > 0;
}

bool Scheduler::buffer_call_is_ready() const { return std::ranges::any_of(buffer_calls_, &BufferCall::ready); }

/// Each at most once: who waits again does so for the next poll. A callback may change the list, so the search for the
/// next one starts anew.
bool Scheduler::run_buffer_calls() {
  std::size_t left = buffer_calls_.size();
  bool called = false;
  for (; left > 0; --left) {
    const auto found = std::ranges::find_if(buffer_calls_, &BufferCall::ready);
    if (found == buffer_calls_.end()) {
      break;
    }
    BufferCall& call = **found;
    call.cancel();
    call.callback_();
    called = true;
  }
  return called;
}

bool Scheduler::run_services(std::size_t services_max) {
  std::size_t served = 0;
  while (first_ != nullptr && served < services_max) {
    Queue& queue = *first_;
    first_ = queue.next_scheduled_;
    queue.scheduled_ = false;
    if (queue.side() == Side::write) {
      queue.module().wsrv();
    } else {
      queue.module().rsrv();
    }
    ++served;
  }
  return served > 0;
}

void Scheduler::advance(TimePoint now) { now_ = std::max(now_, now); }

bool Scheduler::poll(TimePoint now, std::size_t services_max) {
  advance(now);
  const bool fired = !heap_.empty() && heap_.front()->at_ <= now_ && run_timers();
  const bool called = !buffer_calls_.empty() && run_buffer_calls();
  const bool served = run_services(services_max);
  return fired || called || served;
}

TimePoint Scheduler::next_deadline() const {
  if (first_ != nullptr || (!buffer_calls_.empty() && buffer_call_is_ready())) {
    return now_;
  }
  return heap_.empty() ? never : std::max(now_, heap_.front()->at_);
}

void Scheduler::schedule(Queue& queue) {
  SLUICE_REQUIRE(!queue.scheduled_);
  queue.scheduled_ = true;
  queue.next_scheduled_ = nullptr;
  (first_ == nullptr ? first_ : last_->next_scheduled_) = &queue;
  last_ = &queue;
}

void Scheduler::unschedule(Queue& queue) {
  if (!queue.scheduled_) {
    return;
  }
  Queue* before = nullptr;
  for (Queue* at = first_; at != &queue; at = at->next_scheduled_) {
    before = at;
  }
  (before == nullptr ? first_ : before->next_scheduled_) = queue.next_scheduled_;
  last_ = last_ == &queue ? before : last_;
  queue.scheduled_ = false;
}

}  // namespace sluice
