// SPDX-License-Identifier: Apache-2.0

// Flow control as a user meets it: refused writers, back-enabling, blocking, bands, a slow reader, close time.
// Quotations are of write(2), putmsg(2), streamio(7I) and the STREAMS Programming Guide.

#include "tests/stack/head/harness.h"

namespace sluice::test {
namespace {

using std::nullopt;
using std::chrono::seconds;

class Flow : public StreamTest {
 protected:
  Flow() { device->stalled = true; }
  /// As much as the device's write queue takes (in one band): it is full at 8 bytes, low below 4.
  void fill(std::uint8_t band = 0) {
    ASSERT_TRUE(stream->putpmsg(nullopt, as_bytes("12345678"), false, band));
    set.scheduler().poll({});  // the device's service procedure finds that it is stalled
  }
  /// The stalled device sends one message all the same.
  void send_one() { device->sent.push_back(device->write_queue().dequeue()); }
};

// "If O_NDELAY or O_NONBLOCK is set and the stream cannot accept data, write() returns -1 and sets errno to EAGAIN."
TEST_F(Flow, RefusedWriter) {
  fill();
  EXPECT_EQ(code_of(stream->write(as_bytes("x"))), EAGAIN);
  EXPECT_EQ(code_of(stream->putmsg(as_bytes("x"), nullopt)), EAGAIN);
  EXPECT_FALSE(stream->can_put());
  EXPECT_EQ(device->write_queue().messages(), 1U);
}

// "For high-priority messages, putmsg() does not block on this condition."
TEST_F(Flow, HighPriorityIsNotRefused) {
  fill();
  EXPECT_TRUE(stream->putmsg(as_bytes("high"), nullopt, true));
  EXPECT_EQ(text_of(device->sent.at(0), true), "high");
}

// Every band has its own fullness. I_CANPUT: "Check if a certain band is writable."
TEST_F(Flow, BandsAreRefusedEachByItself) {
  fill(0);
  EXPECT_FALSE(stream->can_put(0));
  EXPECT_TRUE(stream->can_put(2));
  fill(2);
  EXPECT_FALSE(stream->can_put(2));
  EXPECT_TRUE(stream->can_put(1));
  EXPECT_EQ(code_of(stream->putpmsg(nullopt, as_bytes("x"), false, 2)), EAGAIN);
  EXPECT_TRUE(stream->putpmsg(nullopt, as_bytes("x"), false, 1));
}

// "If O_NDELAY or O_NONBLOCK is set and part of the buffer has already been written when a condition occurs in which
// the stream cannot accept additional data, write() terminates and returns the number of bytes written."
TEST_F(Flow, PartOfAWrite) {
  open({.packet_bytes_max = 3});
  device->stalled = true;
  EXPECT_EQ(stream->write(as_bytes("0123456789ab")).value_or(0), 9U);
  EXPECT_EQ(code_of(stream->write(as_bytes("9ab"))), EAGAIN);
}

TEST_F(Flow, PartOfAWriteMayBeItsFirst) {
  open({.packet_bytes_max = 4});
  device->stalled = true;
  EXPECT_EQ(stream->write(as_bytes("0123")).value_or(0), 4U);
  EXPECT_EQ(stream->write(as_bytes("456789ab")).value_or(0), 4U);
}

// What was written before the stream failed counts; the next call tells why there was no more.
TEST_F(Flow, PartOfAWriteBeforeAHangup) {
  open({.packet_bytes_max = 4});
  device->stalled = true;
  SimulatedWaiter waiter(set);
  stream->set_waiter(&waiter);
  waiter.after(seconds(1), [&] { signal(MessageType::hangup); });
  EXPECT_EQ(stream->write(as_bytes("0123456789ab")).value_or(0), 8U);
  EXPECT_EQ(code_of(stream->write(as_bytes("89ab"))), ENXIO);
}

// "If O_NDELAY and O_NONBLOCK are not set, and the stream cannot accept data [...], write() blocks until data can be
// accepted."
TEST_F(Flow, WriterWaits) {
  SimulatedWaiter waiter(set);
  stream->set_waiter(&waiter);
  fill();
  waiter.after(seconds(5), [&] { device->resume(); });
  EXPECT_EQ(stream->write(as_bytes("after")).value_or(0), 5U);
  EXPECT_EQ(waiter.now(), TimePoint{} + seconds(5));
  ASSERT_EQ(device->sent.size(), 2U);
  EXPECT_EQ(text_of(device->sent[1], false), "after");
}

// "on normal completion it returns nbyte" however often it had to wait.
TEST_F(Flow, LongWriteWaitsAgainAndAgain) {
  open({.packet_bytes_max = 4});
  device->stalled = true;
  SimulatedWaiter waiter(set);
  stream->set_waiter(&waiter);
  for (int second = 1; second <= 5; ++second) {
    waiter.after(seconds(second), [&] {
      send_one();
      send_one();
    });
  }
  const std::string text = "0123456789abcdefghijklmnopqr";
  EXPECT_EQ(stream->write(as_bytes(text)).value_or(0), text.size());
  EXPECT_GT(waiter.now(), TimePoint{});
}

// A wait that nothing can end, as in a program that forgot to watch its device, does not hang.
TEST_F(Flow, HopelessWaitEnds) {
  SimulatedWaiter waiter(set);
  stream->set_waiter(&waiter);
  fill();
  EXPECT_EQ(code_of(stream->write(as_bytes("x"))), EAGAIN);
  EXPECT_EQ(waiter.waits, 1);
}

// "back-enable": when the queue that refused has drained below its low-water mark, whoever was refused is woken, and
// not before.
TEST_F(Flow, RefusedWriterIsBackEnabled) {
  ASSERT_TRUE(stream->write(as_bytes("1234")));
  ASSERT_TRUE(stream->write(as_bytes("5678")));
  set.scheduler().poll({});
  EXPECT_FALSE(stream->poll().writable);
  EXPECT_EQ(set.scheduler().next_deadline(), never);
  send_one();  // 4 bytes are left: not full, not low
  EXPECT_EQ(set.scheduler().next_deadline(), never);
  send_one();
  EXPECT_NE(set.scheduler().next_deadline(), never) << "the head was not enabled";
  EXPECT_TRUE(stream->poll().writable);
}

// Nobody is woken who was not refused.
TEST_F(Flow, NobodyIsWokenInVain) {
  fill();
  send_one();
  EXPECT_EQ(set.scheduler().next_deadline(), never);
}

// A slow reader stops the sender below: the head's read queue has marks, too, and reading back-enables.
class Sender : public Module {
 public:
  Sender() : Module("sender", Services::read) {}
  void rsrv() override { forward_waiting(read_queue()); }
};

TEST_F(Flow, SlowReader) {
  HeadOptions options;
  options.read_marks = {.high_bytes = 8, .low_bytes = 4};
  auto made = std::make_unique<Sender>();
  Sender* sender = made.get();
  stream = std::move(*Stream::open(set, std::move(made), options));
  for (const char* text : {"aaaa", "bbbb", "cccc"}) {
    sender->read_queue().enqueue(message_of(set.pool(), {data(text)}));
  }
  set.scheduler().poll({});
  EXPECT_EQ(stream->nread().messages, 2U);
  EXPECT_EQ(sender->read_queue().messages(), 1U);
  EXPECT_EQ(read(4), "aaaa");
  set.scheduler().poll({});
  EXPECT_EQ(sender->read_queue().messages(), 1U);
  EXPECT_EQ(read(4), "bbbb");
  set.scheduler().poll({});
  EXPECT_EQ(read(4), "cccc");
}

// I_CANPUT: "Checks if a certain band is writable. [...] The return value is 0 if the priority band arg is flow
// controlled, 1 if the band is writable". A band is a number of 0..255; one that nobody has used is writable.
TEST_F(Flow, CanputOfEveryBand) {
  fill();
  for (int band = 0; band < 256; ++band) {
    const auto writable = stream->canput(band);
    ASSERT_TRUE(writable) << band;
    EXPECT_EQ(*writable, band != 0) << band;
  }
  for (const int band : {-1, 256, 1 << 16}) {
    EXPECT_EQ(code_of(stream->canput(band)), EINVAL) << band;
  }
}

// ---- Close time (I_SETCLTIME) ----

// "the stream head will delay for the specified amount of time to allow the data to drain."
TEST_F(Flow, DrainWaitsForData) {
  SimulatedWaiter waiter(set);
  stream->set_waiter(&waiter);
  EXPECT_TRUE(stream->drain());
  EXPECT_EQ(waiter.waits, 0);
  fill();
  waiter.after(seconds(3), [&] { device->resume(); });
  EXPECT_TRUE(stream->drain());
  EXPECT_EQ(waiter.now(), TimePoint{} + seconds(3));
}

// "If, after the delay, data are still present, data will be flushed." "The default is fifteen seconds."
TEST_F(Flow, DrainGivesUp) {
  SimulatedWaiter waiter(set);
  stream->set_waiter(&waiter);
  fill();
  EXPECT_EQ(code_of(stream->drain(std::chrono::milliseconds(1500))), ETIME);
  EXPECT_EQ(waiter.now(), TimePoint{} + std::chrono::milliseconds(1500));
  EXPECT_EQ(code_of(stream->drain()), ETIME);
  EXPECT_EQ(waiter.now(), TimePoint{} + std::chrono::milliseconds(16500));
}

// The last byte may leave in the last moment.
TEST_F(Flow, DrainedAtTheDeadline) {
  SimulatedWaiter waiter(set);
  stream->set_waiter(&waiter);
  fill();
  waiter.after(seconds(2), [&] { device->resume(); });
  EXPECT_TRUE(stream->drain(seconds(2)));
}

// "If O_NDELAY and O_NONBLOCK are not set and there have been no signals posted for the stream, and if there is data on
// the module's write queue, close() waits" (close(2)): a non-blocking stream does not wait.
TEST_F(Flow, NonBlockingDrainOnlyTells) {
  SimulatedWaiter waiter(set);
  stream->set_waiter(&waiter);
  stream->set_nonblocking(true);
  EXPECT_TRUE(stream->drain());
  fill();
  EXPECT_EQ(code_of(stream->drain()), ETIME);
  EXPECT_EQ(waiter.waits, 0);
}

// Nothing leaves a stream that has hung up.
TEST_F(Flow, DrainDoesNotWaitAfterHangup) {
  SimulatedWaiter waiter(set);
  stream->set_waiter(&waiter);
  fill();
  waiter.after(seconds(1), [&] { signal(MessageType::hangup); });
  EXPECT_EQ(code_of(stream->drain()), ETIME);
  EXPECT_EQ(waiter.now(), TimePoint{} + seconds(1));
}

}  // namespace
}  // namespace sluice::test
