// SPDX-License-Identifier: Apache-2.0
#pragma once

// Modules that a differential case draws, beside those of the project: they do with messages what modules may do.

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/prng.h"
#include "stack/core/module.h"
#include "stack/core/stream_set.h"
#include "stack/modules/capture.h"
#include "stack/modules/fault.h"
#include "stack/modules/null.h"
#include "stack/modules/xdr.h"
#include "tests/capture_into.h"
#include "tests/own_stages.h"

namespace sluice::differential {

inline bool carries_data(Message& message) {
  return message.type() == MessageType::data || (is_protocol(message.type()) && message.data_block() != nullptr);
}

/// A message taken apart: what is in front of the data (or nothing), and the data.
class Parts {
 public:
  explicit Parts(Message message) {
    data = is_protocol(message.type()) ? message.unlink() : std::move(message);
    control = std::move(message);
  }
  Message joined() {
    if (!control) {
      return std::move(data);
    }
    if (data) {
      control.link(std::move(data));
    }
    return std::move(control);
  }

  Message control;
  Message data;
};

/// Knows nothing of plans.
class Plain : public Module {
 public:
  Plain() : Module("plain") {}
};

/// Makes the bytes real for no reason, or has them copied, shared, cut and put together again. What it draws may differ
/// between two worlds: it changes nothing that anybody can see.
class Settler : public Module {
 public:
  explicit Settler(std::uint64_t seed) : Module("settler"), segments_(seed % 4 != 0), prng_(seed) {}
  [[nodiscard]] bool handles_deferred() const override { return true; }
  [[nodiscard]] bool handles_segments() const override { return segments_; }
  void wput(Batch&& batch) override { write_queue().put_next(handled(std::move(batch), Side::write)); }
  void rput(Batch&& batch) override { read_queue().put_next(handled(std::move(batch), Side::read)); }

 private:
  Batch handled(Batch batch, Side side) {
    Batch out;
    shared_.clear();
    while (Message message = batch.pop()) {
      if (carries_data(message)) {
        message = handled(std::move(message), side);
      }
      if (message) {
        out.push(std::move(message));
      }
    }
    return out;
  }
  Message handled(Message message, Side side) {
    switch (prng_.below(9)) {
      case 0:
        return materialize(message, side) == TransformResult::done ? std::move(message) : Message();
      case 1:
        return keep(message, side) == TransformResult::done ? std::move(message) : Message();
      case 2:
        return message.copy();
      case 3:
        shared_.push_back(message.duplicate());
        return shared_.back() ? std::move(message) : Message();
      case 4:
        return cut(std::move(message));
      case 5:
        return pulled_up(std::move(message));
      case 6:
        return message.make_writable() ? std::move(message) : Message();
      default:
        return message;
    }
  }
  Message cut(Message message) {
    Parts parts(std::move(message));
    const std::size_t size = prng_.below(parts.data.size() + 1);
    Message rest = parts.data.split(size);
    if (!rest) {
      return {};
    }
    parts.data.link(std::move(rest));
    return parts.joined();
  }
  Message pulled_up(Message message) {
    Parts parts(std::move(message));
    const std::size_t size = parts.data.size();
    if (!parts.data.pull_up(std::min<std::size_t>(size, prng_.below(size + 1)))) {
      return {};
    }
    return parts.joined();
  }

  bool segments_;
  Prng prng_;
  std::vector<Message> shared_;  // until the next batch, so that buffers have a second holder
};

/// Acts on what it may believe: counts what is verified.
class Counting : public Module {
 public:
  Counting() : Module("counting") {}
  [[nodiscard]] bool handles_deferred() const override { return true; }
  void wput(Batch&& batch) override { write_queue().put_next(counted(std::move(batch))); }
  void rput(Batch&& batch) override { read_queue().put_next(counted(std::move(batch))); }

 private:
  Batch counted(Batch batch) {
    Batch out;
    while (Message message = batch.pop()) {
      if (carries_data(message)) {
        const std::size_t size = message.data_size();
        message.when_verified(handle(), [this, size] {
          ++messages_;
          bytes_ += size;
        });
        if (message.failed()) {
          continue;
        }
      }
      out.push(std::move(message));
    }
    return out;
  }

  Counter messages_{*this, "messages", "messages with data"};
  Counter bytes_{*this, "bytes", "their bytes"};
};

/// A protocol of its own: a header of odd or even size with a checksum over all that follows it and the header.
class Framed : public Module {
 public:
  Framed(std::size_t header_size, std::size_t field) : Module("framed"), size_(header_size), field_(field) {}
  [[nodiscard]] bool handles_deferred() const override { return true; }
  [[nodiscard]] std::size_t headroom() const override { return size_; }

  void wput(Batch&& batch) override {
    Batch out;
    while (Message message = batch.pop()) {
      if (carries_data(message)) {
        message = framed(std::move(message));
      }
      if (message) {
        out.push(std::move(message));
      }
    }
    write_queue().put_next(std::move(out));
  }
  void rput(Batch&& batch) override {
    Batch out;
    while (Message message = batch.pop()) {
      if (carries_data(message)) {
        message = opened(std::move(message));
      }
      if (message) {
        out.push(std::move(message));
      }
    }
    read_queue().put_next(std::move(out));
  }

 private:
  Message framed(Message message) {
    Parts parts(std::move(message));
    const Bytes header = parts.data.prepend(size_);
    std::ranges::fill(header, std::byte{0x5a});
    header[field_] = header[field_ + 1] = std::byte{0};
    const Sum sum{.initial = 0x1234, .field = header.data() + field_, .zero_is_sent_as_ones = field_ % 2 == 0};
    return parts.data.transform(sum) == TransformResult::failed ? Message() : parts.joined();
  }
  Message opened(Message message) {
    if (message.data_size() < size_) {
      if (materialize(message, Side::read) == TransformResult::done) {
        ++short_;
      }
      return {};
    }
    Parts parts(std::move(message));
    if (parts.data.transform(Check{.initial = 0x1234}, handle(), refused_) == TransformResult::failed) {
      refused_ += parts.data.failed() ? 0U : 1U;
      return {};
    }
    parts.data.trim_front(size_);
    parts.data.when_verified(handle(), [this] { ++good_; });
    return parts.data.failed() ? Message() : parts.joined();
  }

  std::size_t size_;
  std::size_t field_;
  Counter good_{*this, "good", "messages whose checksum holds"};
  Counter refused_{*this, "refused", "messages whose checksum does not hold"};
  Counter short_{*this, "short", "messages without room for a header"};
};

/// A protocol of its own around a stage: a header of `size` bytes with eight that the stage needs, and behind it what
/// the stage goes over.
class Staged : public Module {
 public:
  [[nodiscard]] bool handles_deferred() const override { return true; }
  [[nodiscard]] std::size_t headroom() const override { return header_.size(); }
  void wput(Batch&& batch) override { pass_on(std::move(batch), Side::write); }
  void rput(Batch&& batch) override { pass_on(std::move(batch), Side::read); }

 protected:
  using Word = std::array<std::byte, 8>;

  Staged(std::string_view name, std::size_t header_size) : Module(name), header_(header_size) {}

  /// The data behind its header, and where the word lies in that.
  virtual TransformResult sent(Message& data, Bytes word) = 0;
  virtual TransformResult received(Message& data, const Word& word) = 0;
  [[nodiscard]] std::size_t header_size() const { return header_.size(); }

  Counter refused_{*this, "refused", "messages that the stage refused"};

 private:
  void pass_on(Batch batch, Side side) {
    Batch out;
    while (Message message = batch.pop()) {
      if (carries_data(message)) {
        message = side == Side::write ? framed(std::move(message)) : opened(std::move(message));
      }
      if (message) {
        out.push(std::move(message));
      }
    }
    queue(side).put_next(std::move(out));
  }
  Message framed(Message message) {
    Parts parts(std::move(message));
    const Bytes header = parts.data.prepend(header_.size());
    std::ranges::fill(header, std::byte{0});
    return sent(parts.data, header.last(sizeof(Word))) == TransformResult::failed ? Message() : parts.joined();
  }
  Message opened(Message message) {
    if (message.data_size() < header_.size()) {
      if (materialize(message, Side::read) == TransformResult::done) {
        ++short_;
      }
      return {};
    }
    Parts parts(std::move(message));
    static_cast<void>(parts.data.copy_data_to(0, header_));
    Word word;
    std::ranges::copy(Bytes(header_).last(sizeof word), word.begin());
    if (received(parts.data, word) == TransformResult::failed) {
      refused_ += parts.data.failed() ? 0U : 1U;
      return {};
    }
    parts.data.trim_front(header_.size());
    parts.data.when_verified(handle(), [this] { ++good_; });
    return parts.data.failed() ? Message() : parts.joined();
  }

  std::vector<std::byte> header_;  // of the message at hand
  Counter good_{*this, "good", "messages that were opened"};
  Counter short_{*this, "short", "messages without room for a header"};
};

/// Enciphers what goes down with a key that the header names, deciphers what comes up.
class Ciphered final : public Staged {
 public:
  explicit Ciphered(std::size_t header_size) : Staged("ciphered", header_size) {}

 private:
  TransformResult sent(Message& data, Bytes word) override {
    const std::uint64_t key = data.data_size() * 0x9e3779b97f4a7c15U;
    std::memcpy(word.data(), &key, sizeof key);
    return through(encipher_, data, key);
  }
  TransformResult received(Message& data, const Word& word) override {
    std::uint64_t key = 0;
    std::memcpy(&key, word.data(), sizeof key);
    return through(decipher_, data, key);
  }
  TransformResult through(const std::shared_ptr<Stage>& stage, Message& data, std::uint64_t key) {
    const auto argument = own_stages::WatchedStage::argument(key);
    return data.transform(OwnStage{.stage = stage, .from = header_size(), .argument = argument}, handle(), refused_);
  }

  std::shared_ptr<Stage> encipher_ = std::make_shared<own_stages::ChainedCipher>();
  std::shared_ptr<Stage> decipher_ = std::make_shared<own_stages::ChainedCipher>(/*deciphers=*/true);
};

/// Puts a digest of what goes down into the header, and has what comes up verified against it.
class Tagged final : public Staged {
 public:
  explicit Tagged(std::size_t header_size) : Staged("tagged", header_size) {}

 private:
  static constexpr std::uint64_t key = 0x5a5a1234;

  TransformResult sent(Message& data, Bytes word) override {
    const auto argument = own_stages::WatchedStage::argument(key);
    const OwnStage own{.stage = digest_, .from = header_size(), .argument = argument, .field = word};
    return data.transform(own, handle(), refused_);
  }
  TransformResult received(Message& data, const Word& word) override {
    std::uint64_t expected = 0;
    std::memcpy(&expected, word.data(), sizeof expected);
    const auto argument = own_stages::WatchedStage::argument(key, expected);
    return data.transform(OwnStage{.stage = verify_, .from = header_size(), .argument = argument}, handle(), refused_);
  }

  std::shared_ptr<Stage> digest_ = std::make_shared<own_stages::Digest>(false);
  std::shared_ptr<Stage> verify_ = std::make_shared<own_stages::Digest>(true);
};

/// Everything waits on its queues.
class Queueing : public Module {
 public:
  Queueing() : Module("queueing", Services::both) {
    read_queue().set_marks({.high_bytes = std::size_t{1} << 27, .low_bytes = std::size_t{1} << 25});
  }
  [[nodiscard]] bool handles_deferred() const override { return true; }
  [[nodiscard]] bool handles_segments() const override { return true; }
  void wput(Batch&& batch) override { wait(write_queue(), std::move(batch)); }
  void rput(Batch&& batch) override { wait(read_queue(), std::move(batch)); }
  void wsrv() override { forward_waiting(write_queue()); }
  void rsrv() override { forward_waiting(read_queue()); }

 private:
  void wait(Queue& queue, Batch batch) {
    while (Message message = batch.pop()) {
      if (message.type() == MessageType::flush) {
        flush_queues(message);
      }
      if (carries_data(message) && !is_high_priority(message.type())) {
        queue.enqueue(std::move(message));
      } else {
        queue.put_next(std::move(message));
      }
    }
  }
};

/// Keeps what goes down to itself for a millisecond, on no queue and without a word to anybody.
class Holding : public Module {
 public:
  Holding() : Module("holding") {}
  [[nodiscard]] bool handles_deferred() const override { return true; }
  [[nodiscard]] bool handles_segments() const override { return true; }
  Status open() override {
    timer_ =
        std::make_unique<Timer>(set().scheduler(), [this] { write_queue().put_next(std::exchange(held_, Batch())); });
    return {};
  }
  void close() override {
    timer_.reset();
    held_.clear();
  }
  void wput(Batch&& batch) override {
    while (Message message = batch.pop()) {
      if (!carries_data(message)) {
        write_queue().put_next(std::move(message));
        continue;
      }
      held_.push(std::move(message));
      if (!timer_->armed()) {
        timer_->arm_after(std::chrono::milliseconds(1));
      }
    }
  }

 private:
  std::unique_ptr<Timer> timer_;
  Batch held_;
};

enum class Kind : std::uint8_t {
  null,
  plain,
  settler,
  counting,
  queueing,
  holding,
  fault,
  capture,
  // What follows changes data: above udp only.
  xdr,
  framed,
  ciphered,
  tagged,
};
inline constexpr std::uint64_t kinds_anywhere = 8;
inline constexpr std::uint64_t kinds = 12;

/// A module as drawn.
struct Drawn {
  Kind kind = Kind::null;
  std::uint64_t seed = 0;
};

[[nodiscard]] inline std::string_view name_of(Kind kind) {
  constexpr std::array<std::string_view, kinds> names{"null",  "plain",   "settler", "counting", "queueing", "holding",
                                                      "fault", "capture", "xdr",     "framed",   "ciphered", "tagged"};
  return names[static_cast<std::size_t>(kind)];
}

[[nodiscard]] inline std::unique_ptr<Module> make_fault(std::uint64_t seed) {
  Prng prng(seed);
  FaultSettings settings;
  settings.loss = prng.chance(0.3) ? 0.2 : 0;
  settings.duplicate = prng.chance(0.3) ? 0.2 : 0;
  settings.bit_errors = prng.chance(0.5) ? 1e-4 : 0;
  settings.error_messages = prng.chance(0.3) ? 3 : 1;
  settings.reorder = prng.chance(0.3) ? 0.3 : 0;
  settings.delay = prng.chance(0.5) ? Duration(std::chrono::milliseconds(2)) : Duration::zero();
  settings.jitter = prng.chance(0.3) ? Duration(std::chrono::milliseconds(3)) : Duration::zero();
  settings.rate_bits_per_second = prng.chance(0.2) ? 10'000'000 : 0;
  settings.queue_bytes = std::size_t{1} << 20;
  settings.in_flight_bytes_max = std::size_t{1} << 30;  // bounds memory, which is what paths differ in
  const std::uint64_t sides = prng.below(3);
  return std::make_unique<Fault>(
      Fault::Options{.settings = settings, .up = sides != 0, .down = sides != 1, .seed = prng()});
}

/// `captured` gets what a capture writes.
[[nodiscard]] inline std::unique_ptr<Module> make_module(const Drawn& drawn, std::vector<std::byte>& captured) {
  switch (drawn.kind) {
    case Kind::null:
      return std::make_unique<Null>();
    case Kind::plain:
      return std::make_unique<Plain>();
    case Kind::settler:
      return std::make_unique<Settler>(drawn.seed);
    case Kind::counting:
      return std::make_unique<Counting>();
    case Kind::queueing:
      return std::make_unique<Queueing>();
    case Kind::holding:
      return std::make_unique<Holding>();
    case Kind::fault:
      return make_fault(drawn.seed);
    case Kind::capture:
      return std::make_unique<Capture>(test::capture_into([&captured](ConstBytes bytes) {
        captured.insert(captured.end(), bytes.begin(), bytes.end());
        return true;
      }));
    case Kind::xdr:
      return std::make_unique<Xdr>(std::size_t{2} << drawn.seed % 3);
    case Kind::ciphered:
      return std::make_unique<Ciphered>(8 + drawn.seed % 5 * 2);
    case Kind::tagged:
      return std::make_unique<Tagged>(8 + drawn.seed % 5);
    case Kind::framed:
      break;
  }
  const std::size_t size = drawn.seed % 2 == 0 ? 8 : 2 + drawn.seed / 2 % 9;  // whole units for xdr below, often
  return std::make_unique<Framed>(size, drawn.seed / 16 % (size - 1));
}

}  // namespace sluice::differential
