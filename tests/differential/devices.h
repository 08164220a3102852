// SPDX-License-Identifier: Apache-2.0
#pragma once

// What is at the bottom of a world's stacks: two ends of a wire that records every frame, copies or hands over its
// memory, damages some on their way, and can be full.

#include <algorithm>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/prng.h"
#include "dlpi/link.h"
#include "dlpi/link_stream.h"
#include "stack/core/ioctl.h"

namespace sluice::differential {

/// What a case compares: one entry for each thing that somebody outside a stack can see.
class Log {
 public:
  void add(std::string what, ConstBytes bytes = {}) {
    what += ' ';
    what += as_text(bytes);
    entries.push_back(std::move(what));
  }
  std::vector<std::string> entries;
};

inline std::vector<std::byte> flat(const Message& message) {
  std::vector<std::byte> bytes;
  for (const Block* block = &message.first(); block != nullptr; block = block->cont) {
    bytes.insert(bytes.end(), block->rptr, block->wptr);
  }
  return bytes;
}

/// How frames travel, the same in both worlds.
struct WireSettings {
  enum class Memory : std::uint8_t { by_reference, copied, in_blocks, read_only };
  Memory memory = Memory::copied;
  unsigned damaged_percent = 0;
  std::uint64_t seed = 0;
};

/// One direction of a wire: what entered it and has not arrived.
class Wire {
 public:
  static constexpr std::size_t frames_max = 512;

  Wire(BufferPool& pool, const WireSettings& settings, std::uint64_t direction)
      : pool_(pool), settings_(settings), prng_(settings.seed * 2 + direction) {}

  /// Sends `frame` on, whose bytes the log has seen. `control_size` bytes in front are left alone.
  void enter(Message frame, std::size_t spared) {
    std::vector<std::byte> bytes = flat(frame);
    const bool damaged =
        damage_next_ || (settings_.damaged_percent > 0 && prng_.below(100) < settings_.damaged_percent);
    damage_next_ = false;
    if (damaged) {
      damage(bytes, spared);
    }
    last_ = bytes;
    if (waiting_.size() >= frames_max) {
      return;
    }
    if (damaged || settings_.memory != WireSettings::Memory::by_reference) {
      frame = arrived(bytes);
    }
    waiting_.push(std::move(frame));
  }
  /// The last frame comes a second time, damaged.
  void repeat() {
    if (!last_.empty()) {
      std::vector<std::byte> bytes = last_;
      damage(bytes, 12);
      waiting_.push(arrived(bytes));
    }
  }
  void damage_next() { damage_next_ = true; }
  [[nodiscard]] Message leave() { return waiting_.pop(); }
  [[nodiscard]] bool empty() const { return waiting_.empty(); }

 private:
  void damage(std::vector<std::byte>& bytes, std::size_t spared) {
    if (bytes.size() <= spared) {
      return;
    }
    const std::size_t at = spared + prng_.below(bytes.size() - spared);
    switch (prng_.below(6)) {
      case 0:
        bytes.resize(at);
        return;
      case 1:
        bytes.insert(bytes.end(), 1 + prng_.below(20), static_cast<std::byte>(prng_()));
        return;
      case 2:
        bytes[at] = static_cast<std::byte>(prng_());
        return;
      default:
        bytes[at] ^= static_cast<std::byte>(1U << prng_.below(8));
    }
  }
  Message arrived(const std::vector<std::byte>& bytes) {
    if (settings_.memory == WireSettings::Memory::read_only) {
      auto* slot = new std::vector<std::byte>(bytes);
      return Message(pool_.allocate_external(
          *slot, /*read_only=*/true,
          [](void* argument, ConstBytes) { delete static_cast<std::vector<std::byte>*>(argument); }, slot));
    }
    const bool in_blocks = settings_.memory == WireSettings::Memory::in_blocks;
    return Message::copy_of(pool_, bytes, 0, MessageType::data, in_blocks ? 40 + prng_.below(300) : bytes.size() + 1);
  }

  BufferPool& pool_;
  WireSettings settings_;
  Prng prng_;
  Batch waiting_;
  std::vector<std::byte> last_;
  bool damage_next_ = false;
};

/// What both kinds of ends have in common.
class End {
 public:
  explicit End(std::string_view name) : name_(name) {}
  virtual ~End() = default;
  End(const End&) = delete;
  End& operator=(const End&) = delete;

  void connect(Log& log, Wire& out, Wire& in) {
    log_ = &log;
    out_ = &out;
    in_ = &in;
  }
  virtual void set_room(bool room) = 0;
  /// Takes a burst from the wire; false when there was none or the stream is full.
  virtual bool deliver() = 0;
  [[nodiscard]] Wire& out() { return *out_; }
  [[nodiscard]] Wire& in() { return *in_; }

 protected:
  void record(const Message& frame, std::string_view what = "frame ") {
    log_->add(std::string(what) + std::string(name_), flat(frame));
  }

  std::string_view name_;
  Log* log_ = nullptr;
  Wire* out_ = nullptr;
  Wire* in_ = nullptr;
  bool room_ = true;
};

/// A device under DLPI.
class RecordingLink final : public dlpi::Link, public End {
 public:
  RecordingLink(StreamSet& set, std::string_view name, std::size_t mtu)
      : Link(set, std::string(name), {{2, 0, 0, 0, 0, static_cast<std::uint8_t>(name[0])}}, mtu), End(name) {}

  void send(Batch& frames) override {
    while (room_ && !frames.empty()) {
      Message frame = frames.pop();
      record(frame);
      sent(1, frame.size());
      out_->enter(std::move(frame), 0);
    }
  }
  void set_room(bool room) override {
    room_ = room;
    if (room) {
      transmit_ready();
    }
  }
  bool deliver() override {
    if (in_->empty() || !may_receive()) {
      return false;
    }
    Batch burst;
    while (!in_->empty() && burst.size() < burst_frames_max) {
      burst.push(in_->leave());
    }
    receive(std::move(burst));
    return true;
  }
};

/// A driver for messages with data of any kind: they come out at the other end, control part and all.
class RecordingDriver final : public Module, public End {
 public:
  explicit RecordingDriver(std::string_view name) : Module("recording", Services::write), End(name) {}
  [[nodiscard]] bool handles_deferred() const override { return true; }

  void wput(Batch&& batch) override {
    while (Message message = batch.pop()) {
      if (message.type() == MessageType::flush) {
        turn_flush(std::move(message));
      } else if (message.type() == MessageType::ioctl) {
        read_queue().put_next(ioctl_refused(std::move(message), EINVAL));
      } else if (room_ && write_queue().empty()) {
        send(std::move(message));
      } else {
        write_queue().enqueue(std::move(message));
      }
    }
  }
  void wsrv() override {
    while (room_) {
      Message message = write_queue().dequeue();
      if (!message) {
        return;
      }
      send(std::move(message));
    }
  }
  void set_room(bool room) override {
    room_ = room;
    write_queue().enable();
  }
  bool deliver() override {
    if (in_->empty() || !read_queue().can_put_next()) {
      return false;
    }
    Message data = in_->leave();
    Heads& heads = *peer_heads_;
    Message control = std::move(heads.front());
    heads.pop_front();
    if (mode() == ProcessingMode::fused) {
      data.defer();
    }
    if (control && control.type() != MessageType::data) {
      control.link(std::move(data));
      data = std::move(control);
    } else if (control) {
      data.first().band = control.band();
    }
    read_queue().put_next(std::move(data));
    return true;
  }
  void meet(RecordingDriver& peer) { peer_heads_ = &peer.heads_; }

 private:
  using Heads = std::deque<Message>;

  /// The data goes over the wire; a copy of what was in front of it, or the band, goes beside it.
  void send(Message message) {
    Message head;
    if (message.type() == MessageType::data) {
      head = Message::allocate(set().pool(), 0);
      head.first().band = message.band();
    } else {
      Message data = message.unlink();
      head = std::move(message);
      message = std::move(data);
      record(head, "control ");
    }
    message = message ? std::move(message) : Message::allocate(set().pool(), 0);
    if (message.gather() == TransformResult::done) {
      record(message);
      const bool full = heads_.size() >= Wire::frames_max;
      out_->enter(std::move(message), 0);
      if (!full) {
        heads_.push_back(std::move(head));
      }
    }
  }

  Heads heads_;  // of what is on the wire
  Heads* peer_heads_ = nullptr;
};

}  // namespace sluice::differential
