// SPDX-License-Identifier: Apache-2.0

// What a stream's condition does to its calls: M_ERROR, M_HANGUP, M_FLUSH, poll(2). Quotations are of the STREAMS
// Programming Guide, poll(2) and streamio(7I).

#include "tests/stack/head/harness.h"

namespace sluice::test {
namespace {

using std::nullopt;

class NullModule : public Module {
 public:
  NullModule() : Module("null") {}
};

class Condition : public StreamTest {
 protected:
  int read_code() {
    std::array<std::byte, 10> out{};
    return code_of(stream->read(out));
  }
  int getmsg_code() { return code_of(stream->getmsg(nullopt, nullopt)); }
  int write_code() { return code_of(stream->write(as_bytes("x"))); }
  int putmsg_code() { return code_of(stream->putmsg(as_bytes("x"), nullopt, true)); }
  int send_code() { return code_of(stream->send(Batch(stream->allocate(1)))); }
  int push_code() { return code_of(stream->push(std::make_unique<NullModule>())); }
  int pop_code() { return code_of(stream->pop()); }
  int flush_code() { return code_of(stream->flush(flush_read)); }
  int ioctl_code() { return code_of(stream->ioctl(1)); }

  void expect_read_side(int code) {
    EXPECT_EQ(read_code(), code);
    EXPECT_EQ(getmsg_code(), code);
    // An empty queue does not make these two wait.
    EXPECT_EQ(code_of(stream->peek(nullopt, nullopt)), code == EAGAIN ? 0 : code);
    EXPECT_EQ(code_of(stream->set_read_options({})), code == EAGAIN ? 0 : code);
  }
  void expect_write_side(int code) {
    EXPECT_EQ(write_code(), code);
    EXPECT_EQ(code_of(stream->canput(0)), code);
    EXPECT_EQ(putmsg_code(), code);
    EXPECT_EQ(send_code(), code);
  }
  void expect_control(int code) {
    EXPECT_EQ(push_code(), code);
    EXPECT_EQ(pop_code(), code);
    EXPECT_EQ(flush_code(), code);
    EXPECT_EQ(ioctl_code(), code);
  }
};

// ---- M_ERROR ----

// "The one-byte format M_ERROR message sets both of these fields to the error specified by the first byte in the
// message." "the stream is marked so that all subsequent system calls issued to the stream, excluding close(2) and
// poll(2), fail with errno set to the first data byte of the message."
TEST_F(Condition, ErrorOfOneByteIsForBothSides) {
  signal(MessageType::error, {EPROTO});
  expect_read_side(EPROTO);
  expect_write_side(EPROTO);
  expect_control(EPROTO);
  EXPECT_TRUE(device->sent.empty());
}

// "The first byte is the read error and the second byte is the write error."
TEST_F(Condition, ErrorOfTwoBytes) {
  signal(MessageType::error, {EIO, EPROTO});
  expect_read_side(EIO);
  expect_write_side(EPROTO);
  expect_control(EIO);
}

// "if the stream head was not in an error state and a module sent an M_ERROR message upstream with the first byte set
// to EPROTO and the second byte set to NOERROR, all subsequent read-like system calls [...] fail with EPROTO, but all
// write-like system calls [...] still succeed."
TEST_F(Condition, NoErrorLeavesAnotherSideAlone) {
  signal(MessageType::error, {EPROTO, no_error});
  expect_read_side(EPROTO);
  expect_write_side(0);
  open({});
  signal(MessageType::error, {no_error, EPROTO});
  expect_read_side(EAGAIN);
  expect_write_side(EPROTO);
  expect_control(EPROTO);
  // "If one of the bytes is set to NOERROR, then the field for the corresponding side of the stream is unchanged."
  signal(MessageType::error, {EIO, no_error});
  expect_read_side(EIO);
  expect_write_side(EPROTO);
}

// "If a byte is set to 0, the error state is cleared for the corresponding side of the stream."
TEST_F(Condition, ZeroClearsAnError) {
  signal(MessageType::error, {EIO, EPROTO});
  signal(MessageType::error, {0, no_error});
  expect_read_side(EAGAIN);
  expect_write_side(EPROTO);
  signal(MessageType::error, {no_error, 0});
  expect_write_side(0);
  EXPECT_EQ(push_code(), 0);
  EXPECT_EQ(pop_code(), 0);
}

// An M_ERROR without a byte says nothing.
TEST_F(Condition, ErrorOfNoByteIsCounted) {
  signal(MessageType::error);
  expect_read_side(EAGAIN);
  expect_write_side(0);
  EXPECT_EQ(counter("unexpected"), 1U);
}

// "An M_FLUSH message with FLUSHRW is sent downstream."
TEST_F(Condition, ErrorFlushesTheStream) {
  arrives({data("lost")});
  arrives({urgent("lost")});
  signal(MessageType::error, {EPROTO});
  ASSERT_EQ(device->flushes.size(), 1U);
  EXPECT_EQ(device->flushes[0][0], flush_read | flush_write);
  EXPECT_EQ(stream->nread().messages, 0U);
  EXPECT_FALSE(stream->poll().urgent);
}

// As SVR4's successors have it, only the side in error is flushed.
TEST_F(Condition, ErrorOfOneSideFlushesThatSide) {
  arrives({data("kept")});
  signal(MessageType::error, {no_error, EPROTO});
  ASSERT_EQ(device->flushes.size(), 1U);
  EXPECT_EQ(device->flushes[0][0], flush_write);
  EXPECT_EQ(read(10), "kept");
  signal(MessageType::error, {EPROTO, no_error});
  ASSERT_EQ(device->flushes.size(), 2U);
  EXPECT_EQ(device->flushes[1][0], flush_read);
  signal(MessageType::error, {0, 0});
  EXPECT_EQ(device->flushes.size(), 2U);
}

// "All processes sleeping on a system call to the stream are awakened."
TEST_F(Condition, ErrorEndsEveryWait) {
  SimulatedWaiter waiter(set);
  stream->set_waiter(&waiter);
  waiter.after(std::chrono::seconds(1), [&] { signal(MessageType::error, {EIO, no_error}); });
  EXPECT_EQ(read_code(), EIO);
  open({});
  stream->set_waiter(&waiter);
  device->stalled = true;
  ASSERT_TRUE(stream->write(as_bytes("12345678")));
  waiter.after(std::chrono::seconds(1), [&] { signal(MessageType::error, {no_error, EPROTO}); });
  EXPECT_EQ(write_code(), EPROTO);
  open({});
  stream->set_waiter(&waiter);
  waiter.after(std::chrono::seconds(1), [&] { signal(MessageType::error, {EPROTO}); });
  EXPECT_EQ(ioctl_code(), EPROTO);
}

// "putmsg() [...] will fail if the stream head had processed an asynchronous error before the call. In this case, the
// value of errno does not reflect the result of putmsg() [...] but reflects the prior error." (putmsg(2))
TEST_F(Condition, PriorErrorComesBeforeRange) {
  open({.packet_bytes_max = 4});
  signal(MessageType::error, {EPROTO});
  EXPECT_EQ(code_of(stream->putmsg(nullopt, as_bytes("too long"))), EPROTO);
}

// ---- M_HANGUP ----

// "all subsequent write(2) and putmsg(2) calls issued to the stream fail and return an ENXIO error" (M_HANGUP); I_PUSH,
// I_POP, I_FLUSH, I_STR: "ENXIO Hangup received on fildes." (streamio(7I))
TEST_F(Condition, HangupRefusesWritesAndControl) {
  signal(MessageType::hangup);
  expect_write_side(ENXIO);
  expect_control(ENXIO);
}

// "subsequent read(2) or getmsg(2) calls to the stream do not generate an error. These calls return any messages [...]
// that were in the stream head read queue before the M_HANGUP message was received. When all such messages have been
// read, read(2) returns 0 and getmsg(2) sets each of its two length fields to 0." (M_HANGUP)
TEST_F(Condition, HangupLetsReadersFinish) {
  SimulatedWaiter waiter(set);
  stream->set_waiter(&waiter);
  arrives({data("first")});
  signal(MessageType::hangup);
  EXPECT_EQ(read(10), "first");
  EXPECT_EQ(read(10), "");
  std::array<std::byte, 10> buffer{};
  const auto got = stream->getmsg(buffer, buffer);
  ASSERT_TRUE(got);
  EXPECT_EQ(got->control, 0U);
  EXPECT_EQ(got->data, 0U);
  EXPECT_FALSE(got->more_control || got->more_data);
  EXPECT_EQ(waiter.waits, 0);
}

TEST_F(Condition, HangupEndsEveryWait) {
  SimulatedWaiter waiter(set);
  stream->set_waiter(&waiter);
  waiter.after(std::chrono::seconds(1), [&] { signal(MessageType::hangup); });
  EXPECT_EQ(read(10), "");
  open({});
  stream->set_waiter(&waiter);
  waiter.after(std::chrono::seconds(1), [&] { signal(MessageType::hangup); });
  EXPECT_EQ(ioctl_code(), ENXIO);
  EXPECT_LT(waiter.now(), TimePoint{} + Stream::ioctl_timeout_default);
}

// ---- poll ----

class Poll : public Condition {
 protected:
  std::string events() {
    const Events now = stream->poll();
    std::string names;
    names += now.readable ? "IN " : "";
    names += now.readable_ordinary ? "RDNORM " : "";
    names += now.readable_band ? "RDBAND " : "";
    names += now.urgent ? "PRI " : "";
    names += now.writable ? "OUT " : "";
    names += now.writable_band ? "WRBAND " : "";
    names += now.error ? "ERR " : "";
    names += now.hangup ? "HUP " : "";
    return names;
  }
};

// POLLIN: "Data other than high priority data may be read without blocking. For streams, this flag is set in revents
// even if the message is of zero length."
TEST_F(Poll, Readable) {
  EXPECT_EQ(events(), "OUT WRBAND ");
  arrives({data("")});
  EXPECT_EQ(events(), "IN RDNORM OUT WRBAND ");
  EXPECT_EQ(read(10), "");
  arrives({control("ct")}, 200);
  EXPECT_EQ(events(), "IN RDBAND OUT WRBAND ");
}

// POLLPRI: "High priority data may be received without blocking."
TEST_F(Poll, Urgent) {
  arrives({data("ordinary")});
  arrives({urgent("")});
  EXPECT_EQ(events(), "PRI OUT WRBAND ");
  EXPECT_TRUE(stream->getmsg(Bytes{}, nullopt));
  EXPECT_EQ(events(), "IN RDNORM OUT WRBAND ");
}

// POLLOUT: "Normal data (priority band equals 0) may be written without blocking."
TEST_F(Poll, Writable) {
  device->stalled = true;
  ASSERT_TRUE(stream->putpmsg(nullopt, as_bytes("12345678"), false, 1));
  EXPECT_EQ(events(), "OUT ");
  ASSERT_TRUE(stream->putpmsg(nullopt, as_bytes("1"), false, 2));
  EXPECT_EQ(events(), "OUT WRBAND ");
  ASSERT_TRUE(stream->write(as_bytes("12345678")));
  EXPECT_EQ(events(), "WRBAND ");
  device->resume();
  set.scheduler().poll({});
  EXPECT_EQ(events(), "OUT WRBAND ");
}

// POLLHUP: "This event and POLLOUT are mutually exclusive; a stream can never be writable if a hangup has occurred.
// However, this event and POLLIN, POLLRDNORM, POLLRDBAND, or POLLPRI are not mutually exclusive."
TEST_F(Poll, Hangup) {
  arrives({data("left")});
  signal(MessageType::hangup);
  EXPECT_EQ(events(), "IN RDNORM HUP ");
}

// POLLERR: "An error has occurred on the device or stream." One of the read side leaves the write side usable.
TEST_F(Poll, Error) {
  signal(MessageType::error, {EIO, no_error});
  EXPECT_EQ(events(), "OUT WRBAND ERR ");
  open({});
  signal(MessageType::error, {no_error, EIO});
  EXPECT_EQ(events(), "ERR ");
}

// ---- M_FLUSH, I_FLUSH ----

class Flush : public Condition {
 protected:
  void SetUp() override { fill(); }
  /// A message each on the head's read queue, the device's write queue, and in band 1 on both.
  void fill() {
    device->stalled = true;
    arrives({data("read")});
    arrives({data("band")}, 1);
    ASSERT_TRUE(stream->write(as_bytes("write")));
    ASSERT_TRUE(stream->putpmsg(nullopt, as_bytes("band"), false, 1));
  }
  [[nodiscard]] std::pair<std::size_t, std::size_t> waiting() {
    return {stream->nread().messages, device->write_queue().messages()};
  }
  using Pair = std::pair<std::size_t, std::size_t>;
};

// I_FLUSH: "FLUSHR Flush read queues. FLUSHW Flush write queues. FLUSHRW Flush read and write queues."
TEST_F(Flush, EachSide) {
  EXPECT_TRUE(stream->flush(flush_read));
  EXPECT_EQ(waiting(), Pair(0, 2));
  EXPECT_TRUE(stream->flush(flush_write));
  EXPECT_EQ(waiting(), Pair(0, 0));
  fill();
  EXPECT_TRUE(stream->flush(flush_read | flush_write));
  EXPECT_EQ(waiting(), Pair(0, 0));
}

// I_FLUSHBAND: "Flushes a particular band of messages."
TEST_F(Flush, OneBand) {
  EXPECT_TRUE(stream->flush(flush_read, 1));
  EXPECT_EQ(waiting(), Pair(1, 2));
  EXPECT_EQ(read(10), "read");
  EXPECT_TRUE(stream->flush(flush_write, 1));
  EXPECT_EQ(waiting(), Pair(0, 1));
  EXPECT_EQ(device->flushes.size(), 2U);
  EXPECT_EQ(device->flushes[1], (std::string{flush_write | flush_band, 1}));
}

// "EINVAL Invalid arg value."
TEST_F(Flush, InvalidArguments) {
  EXPECT_EQ(code_of(stream->flush(0)), EINVAL);
  EXPECT_EQ(code_of(stream->flush(flush_band | flush_read)), EINVAL);
  EXPECT_EQ(code_of(stream->flush(flush_read, 256)), EINVAL);
  EXPECT_EQ(code_of(stream->flush(flush_read, -1)), EINVAL);
  EXPECT_EQ(waiting(), Pair(2, 2));
  EXPECT_TRUE(device->flushes.empty());
}

// A device that does not turn M_FLUSH round leaves nothing old at the head, either.
TEST_F(Flush, DoesNotDependOnTheDevice) {
  device->turns_flush = false;
  EXPECT_TRUE(stream->flush(flush_read));
  EXPECT_EQ(stream->nread().messages, 0U);
}

// "If only FLUSHR is set, it flushes the read-queue and frees the message. If FLUSHW or FLUSHRW is set, it [...] turns
// the M_FLUSH message around, and sends it downstream" (STREAMS Programmer's Guide, M_FLUSH), with FLUSHR cleared, so
// that it does not go round for ever.
TEST_F(Flush, FromBelow) {
  signal(MessageType::flush, {flush_read});
  EXPECT_EQ(waiting(), Pair(0, 2));
  EXPECT_TRUE(device->flushes.empty());
  arrives({data("kept")});
  signal(MessageType::flush, {flush_write});
  EXPECT_EQ(waiting(), Pair(1, 0));
  ASSERT_EQ(device->flushes.size(), 1U);
  EXPECT_EQ(device->flushes[0], std::string{flush_write});
  signal(MessageType::flush, {flush_read | flush_write});
  EXPECT_EQ(stream->nread().messages, 0U);
  ASSERT_EQ(device->flushes.size(), 2U);
  EXPECT_EQ(device->flushes[1], std::string{flush_write});
}

TEST_F(Flush, OneBandFromBelow) {
  signal(MessageType::flush, {flush_read | flush_write | flush_band, 1});
  EXPECT_EQ(waiting(), Pair(1, 1));
  EXPECT_EQ(read(10), "read");
}

// An M_FLUSH without a byte names no queue.
TEST_F(Flush, EmptyMessage) {
  signal(MessageType::flush);
  EXPECT_EQ(waiting(), Pair(2, 2));
  EXPECT_TRUE(device->flushes.empty());
}

// The place of the one high-priority message is free again.
TEST_F(Flush, MakesRoomForHighPriority) {
  arrives({urgent("old")});
  EXPECT_TRUE(stream->flush(flush_read));
  EXPECT_FALSE(stream->poll().urgent);
  arrives({urgent("new")});
  EXPECT_TRUE(stream->poll().urgent);
  EXPECT_EQ(counter("second_high_priority"), 0U);
}

// ---- What has no meaning at the head ----

// "An M_CTL message cannot be generated by a user-level process and is always discarded if passed to the stream head."
TEST_F(Condition, MeaninglessMessagesAreCounted) {
  signal(MessageType::ctl, {1});
  signal(MessageType::setopts, {1});
  signal(MessageType::ioctl, {1});  // too short for its own header
  EXPECT_EQ(counter("unexpected"), 3U);
  EXPECT_EQ(stream->nread().messages, 0U);
}

}  // namespace
}  // namespace sluice::test
