// SPDX-License-Identifier: Apache-2.0
#pragma once

// A stream to test its head with: a device whose every message the test sees, and time that only passes when asked.

#include <gtest/gtest.h>

#include <cerrno>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "stack/core/ioctl.h"
#include "stack/head/stream.h"
#include "tests/keeping_driver.h"
#include "tests/stack/head/simulated_waiter.h"

namespace sluice::test {

/// One block of a message to be.
struct Part {
  MessageType type;
  std::string_view text;
};

inline Part data(std::string_view text) { return {MessageType::data, text}; }
inline Part control(std::string_view text) { return {MessageType::proto, text}; }
inline Part urgent(std::string_view text) { return {MessageType::pcproto, text}; }

inline Message message_of(BufferPool& pool, const std::vector<Part>& parts, std::uint8_t band = 0) {
  Message message;
  for (const Part& part : parts) {
    Message next = Message::copy_of(pool, as_bytes(part.text), 0, part.type);
    if (message) {
      message.link(std::move(next));
    } else {
      message = std::move(next);
    }
  }
  message.first().band = band;
  return message;
}

/// The bytes of all blocks of the control part, or of the data part.
inline std::string text_of(const Message& message, bool protocol) {
  std::string text;
  for (const Block* block = &message.first(); block != nullptr; block = block->cont) {
    if (is_protocol(block->type) == protocol) {
      text += as_text(block->bytes());
    }
  }
  return text;
}

/// Of what it is given it keeps answers and flushes apart. While it is stalled, urgent messages do not wait.
class Device : public KeepingDriver {
 public:
  Device() : KeepingDriver("device", {.high_bytes = 8, .low_bytes = 4}) {}

  [[nodiscard]] bool is_driver() const override { return true; }

  Status open() override { return open_error == 0 ? Status{} : fail(open_error, "the device is not there"); }

  int open_error = 0;
  bool turns_flush = true;
  std::vector<Message> answers;                    // M_IOCACK and M_IOCNAK that the head sent down
  std::vector<std::string> flushes;                // the bytes of each M_FLUSH
  std::function<void(Device&, Message)> on_ioctl;  // without one, ioctls are left unanswered

 private:
  void take(Message message) override {
    switch (message.type()) {
      case MessageType::flush:
        flushes.emplace_back(as_text(message.bytes()));
        if (turns_flush) {
          turn_flush(std::move(message));
        }
        return;
      case MessageType::ioctl:
        if (on_ioctl) {
          on_ioctl(*this, std::move(message));
        }
        return;
      case MessageType::iocack:
      case MessageType::iocnak:
        answers.push_back(std::move(message));
        return;
      default:
        if (stalled && !is_high_priority(message.type())) {
          write_queue().enqueue(std::move(message));
        } else {
          sent.push_back(std::move(message));
        }
    }
  }
};

class StreamTest : public testing::Test {
 protected:
  StreamTest() { open({}); }

  void open(const HeadOptions& options) {
    stream.reset();
    auto made = std::make_unique<Device>();
    device = made.get();
    stream = std::move(*Stream::open(set, std::move(made), options));
  }
  void arrives(const std::vector<Part>& parts, std::uint8_t band = 0) {
    device->up(message_of(set.pool(), parts, band));
  }
  /// Something of this type, with these bytes.
  void signal(MessageType type, std::initializer_list<unsigned> bytes = {}) {
    Message message = Message::allocate(set.pool(), bytes.size(), 0, type);
    for (const unsigned byte : bytes) {
      *message.first().wptr++ = static_cast<std::byte>(byte);
    }
    device->up(std::move(message));
  }
  std::uint64_t counter(std::string_view name) {
    for (const Counter* counter : stream->head().counters()) {
      if (counter->name() == name) {
        return counter->value();
      }
    }
    ADD_FAILURE() << "no counter " << name;
    return 0;
  }
  /// What read() of so many bytes brings: the text, or the name of the error.
  std::string read(std::size_t size) {
    std::string text(size, '\0');
    const auto got = stream->read(std::as_writable_bytes(std::span(text)));
    return got ? text.substr(0, *got) : error_name(got.error().code);
  }
  static std::string error_name(int code) {
    return code == EAGAIN ? "EAGAIN" : code == EBADMSG ? "EBADMSG" : std::to_string(code);
  }
  /// The errno value of what failed, 0 for what did not.
  template <class T>
  static int code_of(const std::expected<T, Error>& result) {
    return result ? 0 : result.error().code;
  }

  StreamSet set;
  Device* device = nullptr;
  std::unique_ptr<Stream> stream;
};

}  // namespace sluice::test
