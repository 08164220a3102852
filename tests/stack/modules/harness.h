// SPDX-License-Identifier: Apache-2.0
#pragma once

// Modules under test between a head and a driver that record what reaches them, in simulated time.
//
//     Stack stack;
//     Xdr& xdr = stack.push<Xdr>(4);
//     stack.down(unitdata_req(stack, to, {}, "data"));
//     EXPECT_EQ(data_text(stack.driver().take()), "atad");
//
// A recorder can be told to hold: then what arrives waits on its queue, which is full after one message, as a driver's
// or a head's that cannot get rid of its messages.

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <deque>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/contract.h"
#include "stack/core/chain.h"
#include "stack/core/ioctl.h"
#include "stack/core/primitive.h"
#include "stack/core/registry.h"
#include "stack/wire/address.h"
#include "stack/wire/dlpi.h"
#include "stack/wire/options.h"
#include "stack/wire/tpi.h"

namespace sluice::test {

/// A stream's end: keeps what arrives on `side`.
class Recorder : public Module {
 public:
  Recorder(std::string_view name, Side side) : Module(name), side_(side) {}

  void wput(Batch&& batch) override { arrived(std::move(batch)); }
  void rput(Batch&& batch) override { arrived(std::move(batch)); }

  /// The oldest message that arrived. REQUIRES: there is one.
  Message take() {
    SLUICE_REQUIRE(!received_.empty());
    Message message = std::move(received_.front());
    received_.pop_front();
    return message;
  }
  [[nodiscard]] std::size_t count() const { return received_.size(); }
  [[nodiscard]] const std::vector<std::size_t>& batch_sizes() const { return batch_sizes_; }

  void hold() {
    holding_ = true;
    queue(side_).set_marks({.high_bytes = 1, .low_bytes = 1});
  }
  void release() {
    holding_ = false;
    while (Message message = queue(side_).dequeue()) {
      received_.push_back(std::move(message));
    }
  }
  [[nodiscard]] std::size_t held() { return queue(side_).messages(); }

 private:
  void arrived(Batch batch) {
    batch_sizes_.push_back(batch.size());
    while (Message message = batch.pop()) {
      if (holding_) {
        queue(side_).enqueue(std::move(message));
      } else {
        received_.push_back(std::move(message));
      }
    }
  }

  Side side_;
  bool holding_ = false;
  std::deque<Message> received_;
  std::vector<std::size_t> batch_sizes_;
};

class Stack {
 public:
  explicit Stack(std::uint64_t seed = 1, std::size_t pool_bytes_max = BufferPool::bytes_max_default)
      : Stack(std::make_unique<StreamSet>(StreamSet::Options{.pool_bytes_max = pool_bytes_max, .seed = seed})) {}
  /// Beside others of the same stream set, which outlives it.
  explicit Stack(StreamSet& shared) : set_(shared) { open_driver(); }

  template <class M, class... Arguments>
  M& push(Arguments&&... arguments) {
    auto module = std::make_unique<M>(std::forward<Arguments>(arguments)...);
    M& pushed = *module;
    SLUICE_REQUIRE(try_push(std::move(module)).has_value());
    return pushed;
  }
  Module& push(std::unique_ptr<Module> module) {
    Module& pushed = *module;
    SLUICE_REQUIRE(try_push(std::move(module)).has_value());
    return pushed;
  }
  Status try_push(std::unique_ptr<Module> module) { return chain_.push(std::move(module)); }
  Status pop() { return chain_.pop(); }

  StreamSet& set() { return set_; }
  BufferPool& pool() { return set_.pool(); }
  Recorder& head() { return head_; }
  Recorder& driver() { return *driver_; }

  void down(Batch batch) { head_.write_queue().put_next(std::move(batch)); }
  void down(Message message) { down(Batch(std::move(message))); }
  void up(Batch batch) { driver_->read_queue().put_next(std::move(batch)); }
  void up(Message message) { up(Batch(std::move(message))); }

  /// Whether a writer at the head, or the driver, may go on.
  bool can_write() { return head_.write_queue().can_put_next(); }
  bool can_deliver() { return driver_->read_queue().can_put_next(); }

  /// Lets the simulated clock run to now + `time`, deadline by deadline.
  void advance(Duration time) {
    const TimePoint end = set_.now() + time;
    for (TimePoint next = set_.now(); next <= end; next = set_.scheduler().next_deadline()) {
      set_.scheduler().poll(next);
    }
    set_.scheduler().poll(end);
  }
  /// Runs what is due now.
  void run() { set_.scheduler().poll(set_.now()); }

 private:
  explicit Stack(std::unique_ptr<StreamSet> own) : own_(std::move(own)), set_(*own_) { open_driver(); }
  void open_driver() {
    auto driver = std::make_unique<Recorder>("driver", Side::write);
    driver_ = driver.get();
    SLUICE_REQUIRE(chain_.open_driver(std::move(driver)).has_value());
  }

  std::unique_ptr<StreamSet> own_;
  StreamSet& set_;
  Recorder head_{"head", Side::read};
  Chain chain_{set_, head_};
  Recorder* driver_ = nullptr;
};

/// The value of a module's counter. REQUIRES: it has one of that name.
inline std::uint64_t count(const Module& module, std::string_view name) {
  for (const Counter* counter : module.counters()) {
    if (counter->name() == name) {
      return counter->value();
    }
  }
  SLUICE_REQUIRE(false && "there is a counter of this name");
  return 0;
}

inline Message data(Stack& stack, std::string_view text) { return Message::copy_of(stack.pool(), as_bytes(text)); }

/// Data in one block a text.
inline Message data_chain(Stack& stack, std::initializer_list<std::string_view> texts) {
  Message message;
  for (const std::string_view text : texts) {
    Message block = data(stack, text);
    if (message) {
      message.link(std::move(block));
    } else {
      message = std::move(block);
    }
  }
  return message;
}

/// A message of one M_PROTO (or M_PCPROTO) block.
template <class Primitive>
Message proto(Stack& stack, const Primitive& primitive, MessageType type = MessageType::proto) {
  std::vector<std::byte> bytes(encoded_size_of(primitive));
  bytes.resize(primitive.encode(bytes));
  return Message::copy_of(stack.pool(), bytes, 0, type);
}

/// A message of one M_PROTO block of any bytes, such as a user's program may make.
inline Message raw_proto(Stack& stack, std::initializer_list<std::uint32_t> words) {
  std::vector<std::byte> bytes(words.size() * sizeof(std::uint32_t));
  std::memcpy(bytes.data(), std::data(words), bytes.size());
  return Message::copy_of(stack.pool(), bytes, 0, MessageType::proto);
}

inline Message with_data(Message message, Message data) {
  message.link(std::move(data));
  return message;
}

template <class Address>
std::vector<std::byte> encoded(const Address& address) {
  std::vector<std::byte> bytes(Address::encoded_size_max);
  bytes.resize(address.encode(bytes));
  return bytes;
}

inline Message unitdata_req(Stack& stack, ConstBytes address, ConstBytes options, std::string_view text) {
  return with_data(proto(stack, wire::tpi::UnitdataReq{.address = address, .options = options}), data(stack, text));
}
inline Message unitdata_ind(Stack& stack, ConstBytes address, ConstBytes options, std::string_view text) {
  return with_data(proto(stack, wire::tpi::UnitdataInd{.address = address, .options = options}), data(stack, text));
}

inline Message flush(Stack& stack, std::uint8_t flags, std::uint8_t band = 0) {
  const std::byte bytes[2] = {std::byte{flags}, std::byte{band}};
  return Message::copy_of(stack.pool(), bytes, 0, MessageType::flush);
}

inline Message bare(Stack& stack, MessageType type) {
  const std::byte bytes[2] = {};
  return Message::copy_of(stack.pool(), bytes, 0, type);
}

/// An I_STR request with `argument` as its data.
inline Message ioctl(Stack& stack, std::int32_t command, std::uint32_t id, Message argument = {}) {
  const IoctlBlock block{.command = command, .id = id};
  Message message = Message::copy_of(stack.pool(), std::as_bytes(std::span(&block, 1)), 0, MessageType::ioctl);
  if (argument) {
    message.link(std::move(argument));
  }
  return message;
}

/// The data of a message, as text.
inline std::string data_text(const Message& message) {
  std::string text(message.data_size(), '\0');
  SLUICE_REQUIRE(message.copy_data_to(0, std::as_writable_bytes(std::span(text))));
  return text;
}

/// What a recorder got, as texts, oldest first.
inline std::vector<std::string> take_texts(Recorder& recorder) {
  std::vector<std::string> texts;
  while (recorder.count() > 0) {
    texts.push_back(data_text(recorder.take()));
  }
  return texts;
}

/// Of a module that changes nothing: a batch goes down whole and as it was, and so does data that comes up.
inline void expect_everything_passes(Stack& stack) {
  Batch batch(data(stack, "a"));
  batch.push(flush(stack, flush_read | flush_write));
  batch.push(data(stack, "b"));
  stack.down(std::move(batch));
  EXPECT_EQ(stack.driver().batch_sizes(), std::vector<std::size_t>{3});
  EXPECT_EQ(data_text(stack.driver().take()), "a");
  EXPECT_EQ(stack.driver().take().type(), MessageType::flush);
  EXPECT_EQ(data_text(stack.driver().take()), "b");
  stack.up(data(stack, "up"));
  EXPECT_EQ(data_text(stack.head().take()), "up");
}

/// T_IPV6_V6ONLY, as a transport provider's user sets it.
inline void set_v6_only(Stack& stack, bool v6_only) {
  using namespace wire;
  std::vector<std::byte> wanted;
  const std::uint32_t value = v6_only ? 1 : 0;
  xti::append(wanted,
              {.level = xti::T_INET_IPV6, .name = xti::T_IPV6_V6ONLY, .value = std::as_bytes(std::span(&value, 1))});
  stack.down(proto(stack, tpi::OptmgmtReq{.options = wanted, .flags = tpi::T_NEGOTIATE}));
  EXPECT_EQ(tpi::OptmgmtAck::decode(stack.head().take().bytes())->flags, tpi::T_SUCCESS);
}

/// What the factory of an entry makes of these parameters.
inline Result<std::unique_ptr<Module>> make(const Entry& entry, Stack& stack,
                                            std::vector<std::pair<std::string, ParameterValue>> values = {}) {
  Parameters parameters;
  for (auto& [name, value] : values) {
    parameters.set(name, std::move(value));
  }
  return entry.make(stack.set(), parameters);
}

}  // namespace sluice::test
