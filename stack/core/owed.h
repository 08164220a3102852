// SPDX-License-Identifier: Apache-2.0
#pragma once

// Control messages that somebody waits for: acknowledgements, and what modules ask each other. A datagram may be lost
// and counted, these may not: what has no memory waits for it, in order. Tru64, bufcall(9r): "When a buffer allocation
// request fails, you can use bufcall to schedule the interface passed to the function argument".
//
//     owed_.send(OkAck{...}, MessageType::pcproto, &request);   // in the request's own block, where it fits
//
// What waits lies outside the pool, which has no room for it: at most waiting_max messages.
//
// Ownership: a member of its module, so that nothing is sent once that has been popped. Threads: as its module's.

#include <concepts>
#include <cstddef>
#include <deque>
#include <functional>
#include <optional>
#include <vector>

#include "stack/core/message.h"
#include "stack/core/primitive.h"
#include "stack/core/scheduler.h"

namespace sluice {

class Module;

class Owed {
 public:
  static constexpr std::size_t waiting_max = 1024;

  /// `put` gets each message, and an empty one for each that waited in vain: the pool can have no memory for it any
  /// more. `came_late` is called after what had waited was put, outside of every put procedure.
  Owed(
      Module& module, std::function<void(Message)> put, std::function<void()> came_late = [] {})
      : module_(module), put_(std::move(put)), came_late_(std::move(came_late)) {}

  /// Puts a message of `bytes`, now or when there is memory, in the block of `spent`, a message that is done with, or
  /// in new memory. False, and `spent` is left alone, where there will never be any (BufferPool::ever_available()) or
  /// too many wait already. REQUIRES: the module is part of a stream.
  bool send(ConstBytes bytes, MessageType type, Message* spent = nullptr);
  template <class Primitive>
    requires(!std::convertible_to<Primitive, ConstBytes>)
  bool send(const Primitive& primitive, MessageType type, Message* spent = nullptr) {
    return send(bytes_of(primitive), type, spent);
  }
  /// What waits is owed no longer.
  void clear();
  [[nodiscard]] bool waiting() const { return !waiting_.empty(); }

  /// A primitive's bytes.
  template <class Primitive>
  [[nodiscard]] static std::vector<std::byte> bytes_of(const Primitive& primitive) {
    std::vector<std::byte> bytes(encoded_size_of(primitive));
    bytes.resize(primitive.encode(bytes));
    return bytes;
  }

 private:
  struct Waiting {
    std::vector<std::byte> bytes;
    MessageType type;
    Message spent;
  };

  [[nodiscard]] Message made(ConstBytes bytes, MessageType type, Message* spent);
  void await();
  void send_waiting();

  Module& module_;
  std::function<void(Message)> put_;
  std::function<void()> came_late_;
  std::deque<Waiting> waiting_;
  std::optional<BufferCall> memory_;
};

}  // namespace sluice
