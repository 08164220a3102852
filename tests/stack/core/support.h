// SPDX-License-Identifier: Apache-2.0
#pragma once

// What the tests of stack/core share: messages made of texts and of block lengths, and modules that do what a test
// says.

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "stack/core/chain.h"

namespace sluice::testing {

inline Message text_message(BufferPool& pool, std::string_view text, MessageType type = MessageType::data,
                            std::uint8_t band = 0) {
  Message message = Message::copy_of(pool, as_bytes(text), 0, type);
  message.first().band = band;
  return message;
}

/// A chain of blocks with these lengths (0 is a block, too), filled with `bytes` in order; `headroom` in each.
inline Message chain_message(BufferPool& pool, ConstBytes bytes, const std::vector<std::size_t>& lengths,
                             std::size_t headroom = 0) {
  Message message;
  for (const std::size_t length : lengths) {
    Message block = Message::copy_of(pool, bytes.first(length), headroom);
    bytes = bytes.subspan(length);
    if (message) {
      message.link(std::move(block));
    } else {
      message = std::move(block);
    }
  }
  return message;
}

inline std::vector<std::byte> flat(const Message& message) {
  std::vector<std::byte> bytes;
  for (const Block* block = message ? &message.first() : nullptr; block != nullptr; block = block->cont) {
    const Bytes part = block->bytes();
    bytes.insert(bytes.end(), part.begin(), part.end());
  }
  return bytes;
}

inline std::string text_of(const Message& message) { return std::string(as_text(flat(message))); }

/// All bytes 1, 2, 3, ...: every one tells its place.
inline std::vector<std::byte> counted_bytes(std::size_t size) {
  std::vector<std::byte> bytes(size);
  for (std::size_t i = 0; i < size; ++i) {
    bytes[i] = static_cast<std::byte>(i + 1);
  }
  return bytes;
}

/// Every list of `count` lengths that add up to `size` (zeros included).
inline std::vector<std::vector<std::size_t>> chainings(std::size_t size, std::size_t count) {
  if (count == 1) {
    return {{size}};
  }
  std::vector<std::vector<std::size_t>> all;
  for (std::size_t first = 0; first <= size; ++first) {
    for (auto& rest : chainings(size - first, count - 1)) {
      rest.insert(rest.begin(), first);
      all.push_back(std::move(rest));
    }
  }
  return all;
}

/// A module made of callbacks; what is not set passes on.
class Scripted : public Module {
 public:
  explicit Scripted(Services services = Services::none, std::string_view name = "scripted") : Module(name, services) {}

  Status open() override { return on_open ? on_open() : Status{}; }
  void close() override {
    if (on_close) {
      on_close();
    }
  }
  void wput(Batch&& batch) override {
    if (on_wput) {
      on_wput(std::move(batch));
    } else {
      Module::wput(std::move(batch));
    }
  }
  void rput(Batch&& batch) override {
    if (on_rput) {
      on_rput(std::move(batch));
    } else {
      Module::rput(std::move(batch));
    }
  }
  void wsrv() override {
    ++wsrv_calls;
    if (on_wsrv) {
      on_wsrv();
    }
  }
  void rsrv() override {
    ++rsrv_calls;
    if (on_rsrv) {
      on_rsrv();
    }
  }
  /// What derived classes get from Module.
  using Module::flush_queues;
  using Module::forward_waiting;
  using Module::turn_flush;

  std::function<Status()> on_open;
  std::function<void()> on_close, on_wsrv, on_rsrv;
  std::function<void(Batch)> on_wput, on_rput;
  int wsrv_calls = 0;
  int rsrv_calls = 0;
};

/// Puts every message of a batch on a queue: the put procedure of whoever has a service procedure.
inline void enqueue_all(Queue& queue, Batch batch) {
  while (Message message = batch.pop()) {
    queue.enqueue(std::move(message));
  }
}

/// A stream of a head, modules and a driver; the ends collect what reaches them.
class Stream {
 public:
  using Services = Module::Services;

  explicit Stream(Services head_services = Services::both, Services driver_services = Services::none)
      : head(head_services, "head"), chain(set, head) {
    head.on_rput = [this](Batch batch) { arrived_up.splice(std::move(batch)); };
    auto owned = std::make_unique<Scripted>(driver_services, "driver");
    driver = owned.get();
    driver->on_wput = [this](Batch batch) { arrived_down.splice(std::move(batch)); };
    opened = chain.open_driver(std::move(owned));
  }

  Scripted& push(Services services = Services::none) {
    auto owned = std::make_unique<Scripted>(services);
    Scripted& module = *owned;
    opened = chain.push(std::move(owned));
    return module;
  }
  /// A module that queues what comes down and forwards it from its service procedure.
  Scripted& push_queueing(WaterMarks marks) {
    Scripted& module = push(Services::write);
    module.write_queue().set_marks(marks);
    module.on_wput = [&module](Batch batch) { enqueue_all(module.write_queue(), std::move(batch)); };
    module.on_wsrv = [&module] { module.forward_waiting(module.write_queue()); };
    return module;
  }
  /// Makes the driver keep what comes down on its own queue.
  void driver_queues(WaterMarks marks) {
    driver->write_queue().set_marks(marks);
    driver->on_wput = [this](Batch batch) { enqueue_all(driver->write_queue(), std::move(batch)); };
  }
  Message message(std::string_view text, MessageType type = MessageType::data, std::uint8_t band = 0) {
    return text_message(set.pool(), text, type, band);
  }
  void send(std::string_view text, MessageType type = MessageType::data, std::uint8_t band = 0) {
    head.write_queue().put_next(message(text, type, band));
  }
  bool poll() { return set.scheduler().poll(set.now()); }
  [[nodiscard]] bool idle() { return set.scheduler().next_deadline() == never; }

  StreamSet set;
  Batch arrived_down, arrived_up;
  Scripted head;
  Chain chain;
  Scripted* driver = nullptr;
  Status opened;
};

/// A module that counts.
struct Watcher : Module {
  Watcher() : Module("watcher") {}
  Counter refused{*this, "refused", "checks that did not hold"};
};

/// The texts of all messages in order, taken out of `batch`.
inline std::vector<std::string> texts_of(Batch& batch) {
  std::vector<std::string> texts;
  while (const Message message = batch.pop()) {
    texts.push_back(text_of(message));
  }
  return texts;
}

/// The texts of all messages in the order in which a queue gives them.
inline std::vector<std::string> drain(Queue& queue) {
  std::vector<std::string> texts;
  while (const Message message = queue.dequeue()) {
    texts.push_back(text_of(message));
  }
  return texts;
}

}  // namespace sluice::testing
