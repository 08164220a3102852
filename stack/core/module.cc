// SPDX-License-Identifier: Apache-2.0
#include "stack/core/module.h"

#include <cstdint>

#include "stack/core/reader_place.h"
#include "stack/core/stream_set.h"

namespace sluice {

Counter::Counter(Module& owner, std::string_view name, std::string_view meaning) : name_(name), meaning_(meaning) {
  owner.counters_.push_back(this);
}

Module::Module(std::string_view name, Services services) : name_(name), services_(services) {}

Module::~Module() = default;

PayloadWork Module::payload_work(Side) const {
  return {.items = {}, .materializes = handles_deferred() ? std::string_view() : "does not know plans"};
}

void Module::defer_if_fused(Message& message) const {
  if (mode_ == ProcessingMode::fused && message.data_size() >= set_->defer_bytes_min()) {
    message.defer();
  }
}

ReaderPlace* Module::waiting_reader() const {
  if (mode_ == ProcessingMode::layered || reader_place_ == nullptr || reader_place_->room().empty()) {
    return nullptr;
  }
  if (reader_place_->filled() > 0) {
    return reader_place_;  // which says what has been passed up
  }
  const Queue* ahead = read_.next();
  while (ahead != nullptr && ahead->empty()) {
    ahead = ahead->next();
  }
  return ahead == nullptr ? reader_place_ : nullptr;
}

void Module::defer_unless_landed(Message& message) const {
  if (reader_place_ == nullptr || !reader_place_->pass(message)) {
    defer_if_fused(message);
  }
}

TransformResult Module::materialize(Message& message, Side side) { return queue(side).materialize(message); }

TransformResult Module::keep(Message& message, Side side) { return queue(side).keep(message); }

TransformResult Module::keep(Message& message, Side side, const Stretches& stretches) {
  return queue(side).keep(message, stretches);
}

void Module::flush_queues(const Message& message) {
  const ConstBytes bytes = message.bytes();
  if (bytes.empty()) {
    return;
  }
  const auto flags = std::to_integer<unsigned>(bytes[0]);
  for (const Side side : {Side::read, Side::write}) {
    if ((flags & (side == Side::read ? flush_read : flush_write)) == 0) {
      continue;
    }
    if ((flags & flush_band) == 0) {
      queue(side).flush(FlushKind::data);
    } else if (bytes.size() >= 2) {
      queue(side).flush_band(std::to_integer<std::uint8_t>(bytes[1]), FlushKind::data);
    }  // else: no band is named
  }
}

void Module::turn_flush(Message message) {
  flush_queues(message);
  if (message.bytes().empty()) {
    return;
  }
  const auto flags = std::to_integer<unsigned>(message.bytes()[0]);
  if ((flags & flush_read) != 0) {
    message.bytes()[0] = static_cast<std::byte>(flags & ~unsigned{flush_write});
    read_.put_next(std::move(message));
  }
}

void Module::forward_waiting(Queue& queue) {
  while (Message message = queue.dequeue()) {
    if (!is_high_priority(message.type()) && !queue.can_put_next(message.band())) {
      queue.put_back(std::move(message));
      return;
    }
    queue.put_next(std::move(message));
  }
}

}  // namespace sluice
