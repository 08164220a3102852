// SPDX-License-Identifier: Apache-2.0
#include "stack/core/owed.h"

#include <utility>

#include "stack/core/module.h"
#include "stack/core/stream_set.h"

namespace sluice {

Message Owed::made(ConstBytes bytes, MessageType type, Message* spent) {
  if (spent != nullptr && *spent && spent->become(bytes, type)) {
    return std::move(*spent);
  }
  return Message::copy_of(module_.set().pool(), bytes, 0, type);
}

bool Owed::send(ConstBytes bytes, MessageType type, Message* spent) {
  if (waiting_.empty()) {
    if (Message message = made(bytes, type, spent)) {
      put_(std::move(message));
      return true;
    }
  }
  if (waiting_.size() == waiting_max || !module_.set().pool().ever_available(bytes.size())) {
    return false;
  }
  waiting_.push_back({{bytes.begin(), bytes.end()}, type, spent == nullptr ? Message() : std::move(*spent)});
  await();
  return true;
}

void Owed::clear() {
  waiting_.clear();
  if (memory_) {
    memory_->cancel();
  }
}

/// Until there is memory for the first. Those for which there will never be any are lost.
void Owed::await() {
  if (!memory_) {
    memory_.emplace(module_.set().scheduler(), module_.set().pool(), [this] { send_waiting(); });
  }
  while (!waiting_.empty() && !memory_->waiting() && !memory_->await(waiting_.front().bytes.size())) {
    waiting_.pop_front();
    put_({});
  }
}

void Owed::send_waiting() {
  while (!waiting_.empty()) {
    Waiting& first = waiting_.front();
    Message message = made(first.bytes, first.type, &first.spent);
    if (!message) {
      break;
    }
    waiting_.pop_front();
    put_(std::move(message));
  }
  await();
  came_late_();
}

}  // namespace sluice
