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
#include "dlpi/super_frame.h"
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
  bool segments = false;      // some messages are several datagrams
  bool super_frames = false;  // the devices take them whole,
  bool lent_memory = false;   // from the user's memory
};

/// One direction of a wire: what entered it and has not arrived.
class Wire {
 public:
  static constexpr std::size_t frames_max = 512;

  Wire(BufferPool& pool, const WireSettings& settings, std::uint64_t direction)
      : pool_(pool),
        settings_(settings),
        damages_(!settings.segments),
        prng_(settings.seed * 2 + direction),
        shapes_(settings.seed * 2 + direction + 1'000'000) {}

  /// Sends `frame` on, whose bytes the log has seen. `control_size` bytes in front are left alone.
  void enter(Message frame, std::size_t spared) {
    Travelled travelled = travel(flat(frame), spared);
    if (!travelled.lost) {
      const bool same = !travelled.damaged && settings_.memory == WireSettings::Memory::by_reference;
      push(same ? std::move(frame) : arrived(travelled.bytes), 1);
    }
  }
  /// A super-frame, and the frames that it stands for. What happens to frames happens to these; it arrives whole only
  /// where they all arrive as they were.
  void enter_whole(Message frame, Batch parts) {
    const std::size_t count = parts.size();
    std::vector<Travelled> travelled;
    bool whole = true;
    while (const Message part = parts.pop()) {
      travelled.push_back(travel(flat(part), 0, travelled.size()));
      whole = whole && !travelled.back().damaged && !travelled.back().lost;
    }
    if (whole) {
      return push(settings_.memory == WireSettings::Memory::by_reference ? std::move(frame) : arrived_whole(frame),
                  count);
    }
    for (const Travelled& one : travelled) {
      if (!one.lost) {
        push(arrived(one.bytes), 1);
      }
    }
  }
  /// The last frame comes a second time, damaged.
  void repeat() {
    if (!last_.empty()) {
      std::vector<std::byte> bytes = last_;
      damage(bytes, 12);
      push(arrived(bytes), 1);
    }
  }
  void damage_next() { damage_next_ = true; }
  /// From now on as the settings say.
  void begin_damage() { damages_ = true; }
  [[nodiscard]] Message leave() {
    Message frame = waiting_.pop();
    frames_ -= frame && dlpi::is_super_frame(frame) ? dlpi::segments_in(frame) : 1;
    return frame;
  }
  [[nodiscard]] bool empty() const { return waiting_.empty(); }

 private:
  /// What became of a frame on its way.
  struct Travelled {
    std::vector<std::byte> bytes;
    bool damaged = false;
    bool lost = false;
  };

  /// `before`: frames of the same super-frame that are on their way already.
  Travelled travel(std::vector<std::byte> bytes, std::size_t spared, std::size_t before = 0) {
    Travelled travelled{.bytes = std::move(bytes)};
    travelled.damaged =
        damage_next_ || (damages_ && settings_.damaged_percent > 0 && prng_.below(100) < settings_.damaged_percent);
    damage_next_ = false;
    if (travelled.damaged) {
      damage(travelled.bytes, spared);
    }
    last_ = travelled.bytes;
    travelled.lost = frames_ + before >= frames_max;
    return travelled;
  }
  void push(Message frame, std::size_t count) {
    frames_ += count;
    waiting_.push(std::move(frame));
  }
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
    return Message::copy_of(pool_, bytes, 0, MessageType::data, in_blocks ? 40 + shapes_.below(300) : bytes.size() + 1);
  }
  Message arrived_whole(Message& frame) {
    Message whole = Message::of_native(pool_, *frame.native<wire::DataUnit>());
    frame.pop_block();
    whole.link(arrived(flat(frame)));
    return whole;
  }

  BufferPool& pool_;
  WireSettings settings_;
  bool damages_;
  Prng prng_;
  Prng shapes_;  // of memory, in which worlds may differ
  Batch waiting_;
  std::size_t frames_ = 0;  // that wait
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
  RecordingLink(StreamSet& set, std::string_view name, std::size_t mtu, const WireSettings& settings)
      : Link(set, std::string(name), {{2, 0, 0, 0, 0, static_cast<std::uint8_t>(name[0])}}, mtu),
        End(name),
        takes_super_frames_(settings.super_frames),
        reads_lent_memory_(settings.lent_memory) {}

  void send(Batch& frames) override {
    while (room_ && !frames.empty()) {
      Message frame = frames.pop();
      if (dlpi::is_super_frame(frame)) {
        send_whole(std::move(frame));
        continue;
      }
      record(frame);
      sent(1, frame.size());
      out_->enter(std::move(frame), 0);
    }
  }
  [[nodiscard]] bool takes_super_frames(std::uint8_t) const override { return takes_super_frames_; }
  [[nodiscard]] bool reads_lent_memory() const override { return reads_lent_memory_; }
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
    Batch burst;  // all: where a burst ends would depend on how many frames are in one message
    while (!in_->empty()) {
      burst.push(in_->leave());
    }
    receive(std::move(burst));
    return true;
  }

 private:
  /// What others see of it are the frames that it stands for.
  void send_whole(Message frame) {
    if (frame.gather() != TransformResult::done) {
      return;
    }
    Message copy = frame.copy();
    Batch parts;
    if (!copy || !dlpi::split_super_frame(std::move(copy), parts)) {
      return;
    }
    Batch entering;
    while (Message part = parts.pop()) {
      record(part);
      sent(1, part.size());
      entering.push(std::move(part));
    }
    out_->enter_whole(std::move(frame), std::move(entering));
  }

  bool takes_super_frames_;
  bool reads_lent_memory_;
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
