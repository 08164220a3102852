// SPDX-License-Identifier: Apache-2.0

// Transparent ioctls: any other command than those of streamio(7), whose argument is the caller's own memory. Where a
// kernel copies in and out (M_COPYIN, M_COPYOUT), the module reads and writes here in place.

#include <algorithm>
#include <array>
#include <cstring>

#include "tests/stack/head/harness.h"

namespace sluice::test {
namespace {

using std::chrono::seconds;

struct Speed {
  std::int32_t asked = 0;
  std::int32_t given = 0;
};

constexpr std::int32_t set_speed = 0x5301;

class Transparent : public StreamTest {
 protected:
  static Bytes bytes_of(Speed& speed) { return std::as_writable_bytes(std::span(&speed, 1)); }
  /// A device that knows the command and answers in place.
  void know() {
    device->on_ioctl = [](Device& at, Message request) {
      const IoctlBlock block = ioctl_block(request);
      const Bytes argument = ioctl_argument(request);
      if (block.command != set_speed || !block.transparent() || argument.size() != sizeof(Speed)) {
        return at.up(ioctl_refused(std::move(request), EINVAL));
      }
      Speed speed;
      std::memcpy(&speed, argument.data(), sizeof speed);
      speed.given = speed.asked / 2;
      std::memcpy(argument.data(), &speed, sizeof speed);
      at.up(ioctl_acknowledged(std::move(request), 3));
    };
  }
  void keep() {
    device->on_ioctl = [this](Device&, Message request) { requests.push_back(std::move(request)); };
  }

  std::vector<Message> requests;
};

TEST_F(Transparent, TheModuleReadsAndWritesTheCallersMemory) {
  know();
  Speed speed{.asked = 9600};
  const auto answer = stream->transparent_ioctl(set_speed, bytes_of(speed));
  ASSERT_TRUE(answer);
  EXPECT_EQ(*answer, 3);
  EXPECT_EQ(speed.given, 4800);
  EXPECT_EQ(set.pool().touches().stored_bytes, 0U) << "nobody has copied anything";
  EXPECT_EQ(set.pool().statistics().buffers_in_use, 0U);
}

// STREAMS Programming Guide: a module that knows only I_STR answers EINVAL to a transparent one, and the other way
// round: what tells them apart is ioc_count.
TEST_F(Transparent, IStrIsNone) {
  know();
  Speed speed{.asked = 9600};
  EXPECT_EQ(code_of(stream->ioctl(set_speed, bytes_of(speed))), EINVAL);
  keep();
  EXPECT_EQ(code_of(stream->ioctl(1, as_bytes("12345"))), ETIME);
  EXPECT_EQ(code_of(stream->transparent_ioctl(2, bytes_of(speed))), ETIME);
  EXPECT_EQ(code_of(stream->transparent_ioctl(3)), ETIME);
  ASSERT_EQ(requests.size(), 3U);
  EXPECT_EQ(ioctl_block(requests[0]).count, 5U);
  EXPECT_FALSE(ioctl_block(requests[0]).transparent());
  EXPECT_EQ(as_text(ioctl_argument(requests[0])), "12345");
  EXPECT_TRUE(ioctl_block(requests[1]).transparent());
  EXPECT_TRUE(ioctl_block(requests[2]).transparent());
  EXPECT_TRUE(ioctl_argument(requests[2]).empty());
}

// A driver that does not know the command refuses it with EINVAL; so does the project's own.
TEST_F(Transparent, Refusals) {
  Speed speed;
  for (const auto& [error, expected] : {std::pair(EINVAL, EINVAL), std::pair(EPERM, EPERM), std::pair(0, EINVAL)}) {
    device->on_ioctl = [error](Device& at, Message request) { at.up(ioctl_refused(std::move(request), error)); };
    EXPECT_EQ(code_of(stream->transparent_ioctl(set_speed, bytes_of(speed))), expected);
  }
  EXPECT_EQ(set.pool().statistics().buffers_in_use, 0U);
}

// As I_STR: checked before anything is sent.
TEST_F(Transparent, RefusedAtOnce) {
  keep();
  Speed speed;
  EXPECT_EQ(code_of(stream->transparent_ioctl(1, bytes_of(speed), seconds(-2))), EINVAL);
  HeadOptions options;
  options.packet_bytes_max = sizeof(Speed) - 1;
  open(options);
  keep();
  EXPECT_EQ(code_of(stream->transparent_ioctl(1, bytes_of(speed))), EINVAL);
  EXPECT_EQ(code_of(stream->transparent_ioctl(1, bytes_of(speed).first(sizeof(Speed) - 1))), ETIME);
  signal(MessageType::hangup);
  EXPECT_EQ(code_of(stream->transparent_ioctl(1)), ENXIO);
  open({});
  keep();
  signal(MessageType::error, {EPROTO});
  EXPECT_EQ(code_of(stream->transparent_ioctl(1)), EPROTO);
  EXPECT_EQ(requests.size(), 1U);
}

TEST_F(Transparent, OneInFlight) {
  SimulatedWaiter waiter(set);
  stream->set_waiter(&waiter);
  keep();
  Speed speed;
  int busy = 0;
  waiter.after(seconds(1), [&] {
    busy += code_of(stream->transparent_ioctl(2, bytes_of(speed))) == EBUSY ? 1 : 0;
    busy += code_of(stream->ioctl(3)) == EBUSY ? 1 : 0;
    device->up(ioctl_acknowledged(std::move(requests.at(0)), 5));
  });
  EXPECT_EQ(stream->transparent_ioctl(1, bytes_of(speed)).value_or(0), 5);
  EXPECT_EQ(busy, 2);
  EXPECT_EQ(requests.size(), 1U);
}

TEST_F(Transparent, TimesOutAsIStr) {
  SimulatedWaiter waiter(set);
  stream->set_waiter(&waiter);
  Speed speed;
  EXPECT_EQ(code_of(stream->transparent_ioctl(1, bytes_of(speed), seconds(2))), ETIME);
  EXPECT_EQ(waiter.now(), TimePoint{} + seconds(2));
  EXPECT_EQ(code_of(stream->transparent_ioctl(1, bytes_of(speed))), ETIME);
  EXPECT_EQ(waiter.now(), TimePoint{} + seconds(17));
}

// The threat: a module that answers too late, or never, writes to memory that its owner has left.
TEST_F(Transparent, ALateModuleWritesToMemoryOfItsOwn) {
  keep();
  std::array<std::byte, 8> memory;
  memory.fill(std::byte{7});
  EXPECT_EQ(code_of(stream->transparent_ioctl(1, memory)), ETIME);
  ASSERT_EQ(requests.size(), 1U);
  const Bytes argument = ioctl_argument(requests[0]);
  ASSERT_EQ(argument.size(), 8U);
  EXPECT_NE(argument.data(), memory.data());
  EXPECT_EQ(argument[0], std::byte{7}) << "it still reads what was asked";
  std::ranges::fill(argument, std::byte{9});
  EXPECT_TRUE(std::ranges::all_of(memory, [](std::byte byte) { return byte == std::byte{7}; }));
  device->up(ioctl_acknowledged(std::move(requests[0])));
  EXPECT_EQ(counter("late_ioctl_answer"), 1U);
}

// A module that answers as it would an I_STR, with data of its own: that is copied to the front, as far as it fits.
TEST_F(Transparent, DataThatLiesElsewhereIsCopied) {
  const auto answer_with = [this](std::vector<Part> parts) {
    device->on_ioctl = [this, parts](Device& at, Message request) {
      Message acknowledged = ioctl_acknowledged(std::move(request));
      Message argument = acknowledged.unlink();
      if (!parts.empty()) {
        acknowledged.link(message_of(set.pool(), parts));
      }
      at.up(std::move(acknowledged));
    };
  };
  std::string memory = "--------";
  const auto ask = [&] {
    EXPECT_TRUE(stream->transparent_ioctl(1, std::as_writable_bytes(std::span(memory))));
    return std::exchange(memory, "--------");
  };
  answer_with({data("ab"), data("cd")});
  EXPECT_EQ(ask(), "abcd----");
  answer_with({data("longer than it")});
  EXPECT_EQ(ask(), "longer t");
  answer_with({});
  EXPECT_EQ(ask(), "--------");
}

TEST_F(Transparent, WithoutMemoryNothingIsSent) {
  keep();
  std::vector<Message> hogs;
  for (std::size_t capacity = BufferPool::capacity_max; capacity > 0; capacity /= 2) {
    while (Block* const block = set.pool().allocate(capacity)) {
      hogs.emplace_back(block);
    }
  }
  Speed speed;
  while (Block* const block = set.pool().allocate_external(bytes_of(speed), true, nullptr, nullptr)) {
    hogs.emplace_back(block);
  }
  EXPECT_EQ(code_of(stream->transparent_ioctl(1, bytes_of(speed))), ENOSR);
  EXPECT_EQ(code_of(stream->transparent_ioctl(1)), ENOSR);
  hogs.pop_back();  // of the caller's memory, but none for the request
  EXPECT_EQ(code_of(stream->transparent_ioctl(1, bytes_of(speed))), ENOSR);
  EXPECT_TRUE(requests.empty());
}

}  // namespace
}  // namespace sluice::test
