// SPDX-License-Identifier: Apache-2.0

// The calls that are neither reading nor writing: I_STR, I_PUSH, I_POP, I_LOOK, I_FIND, I_LIST, open and close.
// Quotations are of streamio(7I).

#include "tests/stack/head/harness.h"

namespace sluice::test {
namespace {

using std::chrono::seconds;

// ---- I_STR ----

class Ioctl : public StreamTest {
 protected:
  /// Answers every ioctl at once.
  void acknowledge(std::int32_t return_value, std::vector<Part> answer = {}) {
    device->on_ioctl = [this, return_value, answer](Device& at, Message request) {
      Message acknowledged = ioctl_acknowledged(std::move(request), return_value);
      Message argument = acknowledged.unlink();
      arguments.push_back(text_of(argument, false));
      if (!answer.empty()) {
        acknowledged.link(message_of(set.pool(), answer));
      }
      at.up(std::move(acknowledged));
    };
  }
  /// Leaves them to the test.
  void keep() {
    device->on_ioctl = [this](Device&, Message request) { requests.push_back(std::move(request)); };
  }

  std::vector<std::string> arguments;
  std::vector<Message> requests;
};

// "It allows information to be sent with the ioctl, and will return to the user any information sent upstream by the
// downstream recipient."
TEST_F(Ioctl, CarriesInformationBothWays) {
  acknowledge(7, {data("ans"), data("wer")});
  const auto answer = stream->ioctl(1, as_bytes("argument"));
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->return_value, 7);
  EXPECT_EQ(as_text(answer->data), "answer");
  EXPECT_EQ(arguments, std::vector<std::string>{"argument"});
}

TEST_F(Ioctl, NeitherArgumentNorAnswer) {
  acknowledge(0);
  const auto answer = stream->ioctl(1);
  ASSERT_TRUE(answer);
  EXPECT_TRUE(answer->data.empty());
  EXPECT_EQ(arguments, std::vector<std::string>{""});
}

TEST_F(Ioctl, RequestNamesItsCommand) {
  keep();
  EXPECT_EQ(code_of(stream->ioctl(4711)), ETIME);
  ASSERT_EQ(requests.size(), 1U);
  EXPECT_EQ(requests[0].type(), MessageType::ioctl);
  EXPECT_EQ(ioctl_block(requests[0]).command, 4711);
}

// A driver that does not know a command answers EINVAL; others say what they have against it.
TEST_F(Ioctl, Refusals) {
  for (const auto& [error, expected] : {std::pair(EINVAL, EINVAL), std::pair(EACCES, EACCES), std::pair(0, EINVAL)}) {
    device->on_ioctl = [error](Device& at, Message request) { at.up(ioctl_refused(std::move(request), error)); };
    EXPECT_EQ(code_of(stream->ioctl(1, as_bytes("argument"))), expected);
  }
}

// "In addition, an error code can be returned in the positive or negative acknowledgement message, in the event the
// ioctl command sent downstream fails. For these cases, I_STR will fail with errno set to the value in the message."
TEST_F(Ioctl, ErrorInAPositiveAcknowledgement) {
  device->on_ioctl = [](Device& at, Message request) {
    Message acknowledged = ioctl_acknowledged(std::move(request));
    IoctlBlock block = ioctl_block(acknowledged);
    block.error = EBUSY;
    set_ioctl_block(acknowledged, block);
    at.up(std::move(acknowledged));
  };
  EXPECT_EQ(code_of(stream->ioctl(1)), EBUSY);
}

// "I_STR blocks until the system responds with either a positive or negative acknowledgement message". "The O_NDELAY
// and O_NONBLOCK [...] flags have no effect on this call."
TEST_F(Ioctl, WaitsForTheAnswerEvenWhenNonBlocking) {
  SimulatedWaiter waiter(set);
  stream->set_waiter(&waiter);
  stream->set_nonblocking(true);
  keep();
  waiter.after(seconds(3), [&] { device->up(ioctl_acknowledged(std::move(requests.at(0)), 5)); });
  const auto answer = stream->ioctl(1);
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->return_value, 5);
  EXPECT_EQ(waiter.now(), TimePoint{} + seconds(3));
}

// "or until the request times out after some period of time. If the request times out, it fails with errno set to
// ETIME." "the default timeout is fifteen seconds."
TEST_F(Ioctl, TimesOut) {
  SimulatedWaiter waiter(set);
  stream->set_waiter(&waiter);
  EXPECT_EQ(code_of(stream->ioctl(1, {}, seconds(2))), ETIME);
  EXPECT_EQ(waiter.now(), TimePoint{} + seconds(2));
  EXPECT_EQ(code_of(stream->ioctl(1)), ETIME);
  EXPECT_EQ(waiter.now(), TimePoint{} + seconds(17));
}

// "ic_timout is the number of seconds (-1 = infinite, 0 = use default, >0 = as specified) an I_STR request will wait
// for acknowledgment before timing out." (streamio(7I))
TEST_F(Ioctl, TimeoutsThatAreNoNumberOfSeconds) {
  SimulatedWaiter waiter(set);
  stream->set_waiter(&waiter);
  EXPECT_EQ(code_of(stream->ioctl(1, {}, seconds(0))), ETIME);
  EXPECT_EQ(waiter.now(), TimePoint{} + Stream::ioctl_timeout_default);
  EXPECT_EQ(code_of(stream->ioctl(1, {}, seconds(-2))), EINVAL);
  EXPECT_EQ(code_of(stream->ioctl(1, {}, std::chrono::milliseconds(-1))), EINVAL);
  waiter.after(std::chrono::hours(1000), [&] { signal(MessageType::hangup); });
  EXPECT_EQ(code_of(stream->ioctl(1, {}, Stream::ioctl_timeout_infinite)), ENXIO);
  EXPECT_GE(waiter.now(), TimePoint{} + std::chrono::hours(1000));
}

// An answer that comes in the last moment is an answer.
TEST_F(Ioctl, AnswerAtTheDeadline) {
  SimulatedWaiter waiter(set);
  stream->set_waiter(&waiter);
  keep();
  waiter.after(seconds(2), [&] { device->up(ioctl_acknowledged(std::move(requests.at(0)), 5)); });
  EXPECT_TRUE(stream->ioctl(1, {}, seconds(2)));
}

// Nobody waits without a Waiter: what has not been answered when the put procedures return is not answered in time.
TEST_F(Ioctl, WithoutAWaiter) {
  keep();
  EXPECT_EQ(code_of(stream->ioctl(1)), ETIME);
}

// The head matches answers by id: one that is late, was not asked for, or comes twice is discarded and counted.
TEST_F(Ioctl, AnswersThatNobodyWaitsFor) {
  keep();
  EXPECT_EQ(code_of(stream->ioctl(1)), ETIME);
  Message late = ioctl_acknowledged(std::move(requests.at(0)), 99);
  Message again = late.copy();
  device->up(late.copy());
  EXPECT_EQ(counter("late_ioctl_answer"), 1U);
  device->on_ioctl = [&](Device& at, Message request) {
    at.up(std::move(late));  // of the first request, while the second waits
    Message answer = ioctl_acknowledged(std::move(request), 5);
    Message twice = answer.copy();
    at.up(std::move(answer));
    at.up(std::move(twice));
  };
  const auto answer = stream->ioctl(1);
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->return_value, 5);
  EXPECT_EQ(counter("late_ioctl_answer"), 3U);
  signal(MessageType::iocack, {1, 2, 3});  // too short for its own header
  EXPECT_EQ(counter("late_ioctl_answer"), 4U);
}

// "At most one I_STR can be active on a stream."
TEST_F(Ioctl, OneAtATime) {
  SimulatedWaiter waiter(set);
  stream->set_waiter(&waiter);
  keep();
  int second = 0;
  waiter.after(seconds(1), [&] { second = code_of(stream->ioctl(2)); });
  waiter.after(seconds(2), [&] { device->up(ioctl_acknowledged(std::move(requests.at(0)))); });
  EXPECT_TRUE(stream->ioctl(1));
  EXPECT_EQ(second, EBUSY);
  EXPECT_EQ(requests.size(), 1U);
}

// "EINVAL ic_len is [...] larger than the maximum configured size of the data part of a message".
TEST_F(Ioctl, ArgumentTooLarge) {
  open({.packet_bytes_max = 8});
  acknowledge(0);
  EXPECT_TRUE(stream->ioctl(1, as_bytes("12345678")));
  EXPECT_EQ(code_of(stream->ioctl(1, as_bytes("123456789"))), EINVAL);
}

// An ioctl from below has nobody to answer it at the head; whoever sent it is told.
TEST_F(Ioctl, FromBelowIsRefused) {
  const IoctlBlock block{.command = 1, .id = 42};
  device->up(Message::copy_of(set.pool(), std::as_bytes(std::span(&block, 1)), 0, MessageType::ioctl));
  ASSERT_EQ(device->answers.size(), 1U);
  EXPECT_EQ(device->answers[0].type(), MessageType::iocnak);
  EXPECT_EQ(ioctl_block(device->answers[0]).id, 42U);
  EXPECT_EQ(ioctl_block(device->answers[0]).error, EINVAL);
}

// ---- Modules on the stream ----

/// A module that leaves traces.
class Traced : public Module {
 public:
  Traced(std::string_view name, std::string& trace, int open_error = 0)
      : Module(name), trace_(trace), open_error_(open_error) {}
  Status open() override {
    trace_ += "open " + std::string(name()) + ", ";
    return open_error_ == 0 ? Status{} : fail(open_error_);
  }
  void close() override { trace_ += "close " + std::string(name()) + ", "; }
  void wput(Batch&& batch) override {
    trace_ += "wput " + std::string(name()) + ", ";
    write_queue().put_next(std::move(batch));
  }

 private:
  std::string& trace_;
  int open_error_;
};

class Modules : public StreamTest {
 protected:
  ~Modules() override { stream.reset(); }  // before the trace that its modules write to
  Status push(std::string_view name, int open_error = 0) {
    return stream->push(std::make_unique<Traced>(name, trace, open_error));
  }
  std::string trace;
};

// I_PUSH: "Pushes the module [...] onto the top of the current stream, just below the STREAM head. [...] It then calls
// the open routine of the newly-pushed module." I_POP: "Removes the module just below the STREAM head".
TEST_F(Modules, PushAndPop) {
  ASSERT_TRUE(push("low"));
  ASSERT_TRUE(push("high"));
  ASSERT_TRUE(stream->write(as_bytes("x")));
  ASSERT_TRUE(stream->pop());
  ASSERT_TRUE(stream->write(as_bytes("x")));
  EXPECT_EQ(trace, "open low, open high, wput high, wput low, close high, wput low, ");
}

// I_PUSH: "ENXIO Open routine of new module failed." Here the module's own errno says why.
TEST_F(Modules, RefusedPushLeavesTheStreamAsItWas) {
  ASSERT_TRUE(push("low"));
  EXPECT_EQ(code_of(push("high", EPROTO)), EPROTO);
  EXPECT_EQ(stream->list(), (std::vector<std::string_view>{"low", "device"}));
  EXPECT_TRUE(stream->write(as_bytes("x")));
  EXPECT_EQ(device->sent.size(), 1U);
}

// I_POP: "EINVAL No module present in the stream." I_PUSH: "EINVAL Invalid module name."
TEST_F(Modules, TheDriverIsNotAModule) {
  EXPECT_EQ(code_of(stream->pop()), EINVAL);
  EXPECT_EQ(code_of(stream->push(std::make_unique<Device>())), EINVAL);
  EXPECT_TRUE(stream->find("device"));
}

TEST_F(Modules, TheirNumberIsBounded) {
  for (std::size_t count = 1; count < Chain::modules_max; ++count) {
    ASSERT_TRUE(push("one"));
  }
  EXPECT_EQ(code_of(push("one too many")), EINVAL);
  EXPECT_TRUE(stream->pop());
  EXPECT_TRUE(push("one"));
}

// I_LOOK: "Retrieves the name of the module just below the stream head". "EINVAL No module present in stream."
TEST_F(Modules, Look) {
  EXPECT_EQ(code_of(stream->look()), EINVAL);
  ASSERT_TRUE(push("low"));
  ASSERT_TRUE(push("high"));
  EXPECT_EQ(stream->look().value_or(""), "high");
}

// I_FIND: "Compares the names of all modules currently present in the stream to the name pointed to by arg".
TEST_F(Modules, Find) {
  ASSERT_TRUE(push("low"));
  ASSERT_TRUE(push("high"));
  EXPECT_TRUE(stream->find("low"));
  EXPECT_TRUE(stream->find("high"));
  EXPECT_FALSE(stream->find("hig"));
  ASSERT_TRUE(stream->pop());
  EXPECT_FALSE(stream->find("high"));
}

// I_LIST: "list all the module names on the stream, up to and including the topmost driver name. [...] The entries are
// filled in starting at the top of the stream and continuing downstream".
TEST_F(Modules, List) {
  EXPECT_EQ(stream->list(), std::vector<std::string_view>{"device"});
  ASSERT_TRUE(push("low"));
  ASSERT_TRUE(push("high"));
  EXPECT_EQ(stream->list(), (std::vector<std::string_view>{"high", "low", "device"}));
}

// A stream is dismantled from its head down (close(2) of a stream).
TEST_F(Modules, CloseFromTheTop) {
  ASSERT_TRUE(push("low"));
  ASSERT_TRUE(push("high"));
  trace.clear();
  stream.reset();
  EXPECT_EQ(trace, "close high, close low, ");
}

TEST_F(Modules, OpenFailsWithTheDriver) {
  auto broken = std::make_unique<Device>();
  broken->open_error = ENODEV;
  const auto opened = Stream::open(set, std::move(broken));
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, ENODEV);
  EXPECT_EQ(opened.error().text, "the device is not there");
}

// Everything that waited anywhere on a stream goes back to the pool.
TEST_F(Modules, CloseFreesWhatWaits) {
  device->stalled = true;
  arrives({urgent("ct"), data("da")});
  arrives({data("da")}, 2);
  ASSERT_TRUE(stream->write(as_bytes("waits")));
  device->on_ioctl = [](Device& at, Message request) { at.up(std::move(request)); };
  stream.reset();
  EXPECT_EQ(set.pool().statistics().buffers_in_use, 0U);
}

}  // namespace
}  // namespace sluice::test
