// SPDX-License-Identifier: Apache-2.0
#include "stack/core/queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/stack/core/support.h"

// Quoted: the STREAMS manual pages of section 9F, and the STREAMS Programming Guide ("Guide").

namespace sluice::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Services = Module::Services;

/// A driver's write queue, reached through a stream whose head has a service procedure.
class QueueTest : public ::testing::Test {
 protected:
  QueueTest() { stream.driver_queues({.high_bytes = 4, .low_bytes = 2}); }
  Queue& queue() { return stream.driver->write_queue(); }
  Queue& head() { return stream.head.write_queue(); }
  void add(std::string_view text, std::uint8_t band = 0, MessageType type = MessageType::data) {
    queue().enqueue(stream.message(text, type, band));
  }

  Stream stream;
};

/// As QueueTest, but the driver has a service procedure, which does nothing unless a test says so.
class ServedQueueTest : public ::testing::Test {
 protected:
  ServedQueueTest() { stream.driver_queues({.high_bytes = 4, .low_bytes = 2}); }
  Queue& queue() { return stream.driver->write_queue(); }
  void add(std::string_view text, std::uint8_t band = 0, MessageType type = MessageType::data) {
    queue().enqueue(stream.message(text, type, band));
  }
  /// How often the service procedure ran in one poll.
  int services() {
    const int before = stream.driver->wsrv_calls;
    stream.poll();
    return stream.driver->wsrv_calls - before;
  }

  Stream stream{Services::both, Services::write};
};

// --- put procedures ------------------------------------------------------------------------------------------------

TEST_F(QueueTest, PassOnPutsRunsAndWhatEndsThemInOrder) {
  std::vector<std::size_t> batches;
  stream.driver->on_wput = [&](Batch batch) {
    batches.push_back(batch.size());
    stream.arrived_down.splice(std::move(batch));
  };
  Batch batch;
  for (const std::string_view text : {"a", "drop", "b", "X", "Y", "gone", "c"}) {
    batch.push(stream.message(text));
  }
  std::string others;
  head().pass_on(
      std::move(batch),
      [](const Message& message) {
        const std::string text = text_of(message);
        const bool stops = text == "X" || text == "Y" || text == "gone";
        return stops ? Batch::Step::stop : text == "drop" ? Batch::Step::drop : Batch::Step::keep;
      },
      [&](const Message& message) {
        others += text_of(message) + std::to_string(stream.arrived_down.size());  // those before it are gone
        return text_of(message) != "gone";
      });
  EXPECT_THAT(texts_of(stream.arrived_down), ElementsAre("a", "b", "X", "Y", "c"));
  EXPECT_THAT(batches, ElementsAre(2U, 1U, 1U, 1U));
  EXPECT_EQ(others, "X2Y3gone4");
}

TEST_F(QueueTest, PassOnOfNothingPutsNothing) {
  stream.driver->on_wput = [](const Batch&) { ADD_FAILURE() << "an empty batch"; };
  Batch batch(stream.message("x"));
  head().pass_on(std::move(batch), [](const Message&) { return false; });
  head().pass_on(Batch(), [](const Message&) { return true; });
  head().pass_on(Batch(), [](const Message&) { return Batch::Step::keep; }, [](const Message&) { return true; });
}

// --- order -------------------------------------------------------------------------------------------------------

// putq(9F): "The message is placed after any other messages of the same priority".
// Guide, "Message Queues and Message Priority": "putq(9F) places high-priority messages at the head of the message
// queue, followed by priority band messages (expedited data) and ordinary messages."
TEST_F(QueueTest, HighPriorityThenBandsThenOrdinaryEachFirstInFirstOut) {
  add("a");
  add("x", 1);
  add("P", 0, MessageType::pcproto);
  add("b");
  add("y", 7);
  add("z", 1);
  add("Q", 0, MessageType::hangup);
  EXPECT_THAT(drain(queue()), ElementsAre("P", "Q", "y", "x", "z", "a", "b"));
  EXPECT_TRUE(queue().empty());
  EXPECT_EQ(queue().bytes(), 0U);
}

// Guide: "The priority band of high-priority messages is ignored since they are high priority".
TEST_F(QueueTest, TheBandOfAHighPriorityMessageBecomesZero) {
  add("P", 5, MessageType::pcproto);
  EXPECT_EQ(queue().peek()->band, 0);
  EXPECT_EQ(queue().dequeue().band(), 0);
}

// putbq(9F): "places a message at the beginning of the appropriate section of the message queue. There are always
// sections for high priority and ordinary messages. If other priority bands are used, each will have its own section of
// the queue, in priority band order, after high priority messages and before ordinary messages."
TEST_F(QueueTest, PutBackGoesToTheBeginningOfItsSection) {
  add("b");
  add("y", 1);
  add("P", 0, MessageType::pcproto);
  queue().put_back(stream.message("a"));
  queue().put_back(stream.message("x", MessageType::data, 1));
  EXPECT_THAT(drain(queue()), ElementsAre("P", "x", "y", "a", "b"));
}

// putbq(9F): "using putbq() with a high priority message is likely to lead to an infinite loop of putting the message
// back on the queue, being rescheduled, pulling it off, and putting it back on." Here it is a breach of contract where
// there is a service procedure; a stream head, which has none on its read side, may put back what a reader has left.
TEST_F(ServedQueueTest, PutBackOfHighPriorityBreaksTheContractOfAServiceProcedure) {
  EXPECT_DEATH(queue().put_back(stream.message("P", MessageType::pcproto)), "contract broken");
}

TEST_F(QueueTest, PutBackOfHighPriorityGoesBeforeAllWhereNoServiceProcedureIs) {
  add("Q", 0, MessageType::pcproto);
  queue().put_back(stream.message("P", MessageType::pcproto));
  EXPECT_TRUE(stream.idle());
  EXPECT_THAT(drain(queue()), ElementsAre("P", "Q"));
}

// bcanput(D3DK): "A 1 is returned if a message of priority pri can be placed on the queue, or if the band does not yet
// exist on the queue." A new band has the marks that its queue has.
TEST_F(QueueTest, EveryBandIsMadeWhenItIsFirstUsed) {
  for (std::size_t band = 1; band < bands_max; ++band) {
    const auto number = static_cast<std::uint8_t>(band);
    ASSERT_TRUE(head().can_put_next(number)) << band;
    add("four", number);
    ASSERT_TRUE(queue().full(number)) << band;
    ASSERT_FALSE(head().can_put_next(number)) << band;
    ASSERT_EQ(queue().marks(number).high_bytes, 4U);
  }
  EXPECT_TRUE(head().can_put_next(0));
  for (std::size_t band = bands_max; --band > 0;) {
    ASSERT_EQ(queue().dequeue().band(), band);
  }
  EXPECT_TRUE(queue().empty());
}

TEST_F(QueueTest, MarksOfABandAreItsOwn) {
  queue().set_marks({.high_bytes = 1, .low_bytes = 1}, 200);
  EXPECT_EQ(queue().marks(200).high_bytes, 1U);
  EXPECT_EQ(queue().marks(199).high_bytes, 4U);
  add("x", 200);
  EXPECT_FALSE(head().can_put_next(200));
  EXPECT_TRUE(head().can_put_next(199));
  queue().flush_band(199, FlushKind::all);
  EXPECT_EQ(queue().messages(), 1U);
  queue().flush_band(200, FlushKind::all);
  EXPECT_TRUE(head().can_put_next(200));
}

// poll(2), POLLWRBAND: "Priority data (priority band > 0) may be written." One band with room is enough; a full one
// tells its sender later.
TEST_F(QueueTest, SomeBandHasRoomUntilAllAreFull) {
  EXPECT_TRUE(head().can_put_next_in_some_band());
  add("four", 3);
  EXPECT_FALSE(head().can_put_next_in_some_band());
  add("x", 9);
  EXPECT_TRUE(head().can_put_next_in_some_band());
  stream.poll();
  stream.head.wsrv_calls = 0;
  while (queue().dequeue().band() != 3) {
  }
  stream.poll();
  EXPECT_EQ(stream.head.wsrv_calls, 1);
}

// getq(9F): "obtains the next available message from the top of the queue" and "If no message is queued, getq() returns
// a NULL pointer."
TEST_F(QueueTest, DequeueTakesWhatPeekShows) {
  EXPECT_EQ(queue().peek(), nullptr);
  EXPECT_FALSE(queue().dequeue());
  add("a");
  add("x", 3);
  const Block* shown = queue().peek();
  EXPECT_EQ(queue().messages(), 2U);
  const Message taken = queue().dequeue();
  EXPECT_EQ(&taken.first(), shown);
  EXPECT_EQ(text_of(taken), "x");
}

// --- fullness ------------------------------------------------------------------------------------------------------

// Guide, "Driver Flow Control": "putq(9F) increments the value of q_count by the size of the message and compares the
// result to the driver's write high-watermark (q_hiwat) value. If the count reaches q_hiwat, putq(9F) sets the internal
// FULL indicator".
TEST_F(QueueTest, FullWhenTheBytesReachTheHighWaterMark) {
  add("abc");
  EXPECT_FALSE(queue().full());
  EXPECT_TRUE(head().can_put_next());
  add("d");
  EXPECT_TRUE(queue().full());
  EXPECT_FALSE(head().can_put_next());
  EXPECT_EQ(queue().statistics().refused, 1U);
}

// A queue is full when bytes or the number of messages reach the high-water mark: messages without bytes fill it, too.
TEST_F(QueueTest, FullWhenTheMessagesReachTheHighWaterMark) {
  for (int i = 0; i < 3; ++i) {
    add("");
    EXPECT_TRUE(head().can_put_next());
  }
  add("");
  EXPECT_EQ(queue().bytes(), 0U);
  EXPECT_FALSE(head().can_put_next());
}

// Guide, "Flow Control in Service Procedures": "STREAMS calculates the total size of all message blocks (bp->b_wptr -
// bp->b_rptr) on the message queue."
TEST_F(QueueTest, AllBlocksOfAMessageCount) {
  queue().enqueue(chain_message(stream.set.pool(), as_bytes("abcd"), {1, 0, 3}));
  EXPECT_EQ(queue().bytes(), 4U);
  EXPECT_TRUE(queue().full());
}

// High-priority messages are counted with band 0 (q_count), and enqueueing them is never refused.
TEST_F(QueueTest, HighPriorityMessagesCountButAreNotRefused) {
  add("abcd", 0, MessageType::pcproto);
  EXPECT_TRUE(queue().full(0));
  add("e", 0, MessageType::pcproto);
  EXPECT_THAT(drain(queue()), ElementsAre("abcd", "e"));
  EXPECT_FALSE(queue().full(0));
}

// bcanput(9F): 1 "if a message of priority pri can be placed on the queue", 0 "if the priority band is full".
TEST_F(QueueTest, EachBandHasItsOwnMarksAndFullness) {
  queue().set_marks({.high_bytes = 2, .low_bytes = 1}, 1);
  add("ab", 1);
  EXPECT_FALSE(head().can_put_next(1));
  EXPECT_TRUE(head().can_put_next(0));
  EXPECT_TRUE(head().can_put_next(2)) << "an absent band is never full";
  add("abcd", 0);
  EXPECT_FALSE(head().can_put_next(0));
  EXPECT_TRUE(head().can_put_next(2));
  EXPECT_EQ(queue().marks(1).high_bytes, 2U);
  EXPECT_EQ(queue().marks(0).high_bytes, 4U);
}

TEST_F(QueueTest, NewMarksTakeEffectAtOnce) {
  add("abc");
  queue().set_marks({.high_bytes = 3, .low_bytes = 1});
  EXPECT_FALSE(head().can_put_next());
  queue().set_marks({.high_bytes = 100, .low_bytes = 50});
  EXPECT_TRUE(head().can_put_next());
  stream.poll();
  EXPECT_EQ(stream.head.wsrv_calls, 1) << "whoever was refused is told that there is room";
  EXPECT_DEATH(queue().set_marks({.high_bytes = 1, .low_bytes = 2}), "contract broken");
  EXPECT_DEATH(queue().set_marks({.high_bytes = 0, .low_bytes = 0}), "contract broken");
}

// canput(9F): "searches through the stream (starting at q) until it finds a queue containing a service routine where
// the message can be enqueued, or until it reaches the end of the stream."
TEST_F(QueueTest, CanPutLooksAtTheNearestForwardQueueWithAServiceProcedure) {
  stream.push(Services::none);
  add("abcd");
  EXPECT_FALSE(head().can_put_next()) << "the driver ends the stream, so its queue counts without a service procedure";
  Scripted& between = stream.push_queueing({.high_bytes = 2, .low_bytes = 1});
  stream.push(Services::read);  // no service procedure on the write side
  EXPECT_TRUE(head().can_put_next()) << "the nearest one has room, whatever is behind it";
  between.write_queue().enqueue(stream.message("ab"));
  EXPECT_FALSE(head().can_put_next());
  EXPECT_FALSE(between.write_queue().can_put()) << "canput starts with the queue itself";
}

// --- back-enabling -------------------------------------------------------------------------------------------------

// getq(9F): "If an attempt was made to write to the queue while it was blocked by flow control, getq() back-enables
// (restarts) the service routine once it falls below the low water mark."
TEST_F(QueueTest, BackEnablesBelowTheLowWaterMarkWhoeverWasRefused) {
  for (const char* text : {"a", "b", "c", "d"}) {
    add(text);
  }
  ASSERT_FALSE(head().can_put_next());
  for (const int left : {3, 2}) {
    ASSERT_TRUE(queue().dequeue());
    stream.poll();
    EXPECT_EQ(stream.head.wsrv_calls, 0) << left << " bytes are not below the mark";
  }
  ASSERT_TRUE(queue().dequeue());
  stream.poll();
  EXPECT_EQ(stream.head.wsrv_calls, 1);
  ASSERT_TRUE(queue().dequeue());
  stream.poll();
  EXPECT_EQ(stream.head.wsrv_calls, 1) << "one refusal, one wake-up";
}

// Guide, "Flow Control": below the mark, in bytes and in messages: reaching it from above is not enough.
TEST_F(QueueTest, AtTheLowWaterMarkItDoesNotBackEnableYet) {
  struct Case {
    const char* what;
    std::vector<const char*> texts;
    std::size_t taken;  // until the mark is reached
  };
  const Case cases[] = {{"bytes, one message", {"a", "b", "cd"}, 2},
                        {"messages, no byte", {"", "", "", ""}, 2},
                        {"messages, one byte", {"aaa", "b", ""}, 1}};
  for (const auto& [what, texts, taken] : cases) {
    for (const char* text : texts) {
      add(text);
    }
    ASSERT_FALSE(head().can_put_next()) << what;
    stream.head.wsrv_calls = 0;
    for (std::size_t i = 0; i < taken; ++i) {
      ASSERT_TRUE(queue().dequeue());
    }
    stream.poll();
    EXPECT_EQ(stream.head.wsrv_calls, 0) << what;
    drain(queue());
    stream.poll();
    EXPECT_EQ(stream.head.wsrv_calls, 1) << what;
  }
}

// A queue back-enables below the low-water mark, and only if it has refused a sender.
TEST_F(QueueTest, DoesNotBackEnableWhomNobodyRefused) {
  add("abcd");
  drain(queue());
  EXPECT_TRUE(stream.idle());
  add("abc");
  EXPECT_TRUE(head().can_put_next());
  drain(queue());
  EXPECT_TRUE(stream.idle());
}

// A low-water mark of 0 can only mean "when it is empty": nothing is below 0 bytes.
TEST_F(QueueTest, ALowWaterMarkOfZeroBackEnablesWhenEmpty) {
  queue().set_marks({.high_bytes = 2, .low_bytes = 0});
  add("a");
  add("b");
  ASSERT_FALSE(head().can_put_next());
  ASSERT_TRUE(queue().dequeue());
  EXPECT_TRUE(stream.idle());
  ASSERT_TRUE(queue().dequeue());
  EXPECT_FALSE(stream.idle());
}

// Guide, "Driver Flow Control": "For priority band data, qb_count, qb_hiwat, and qb_lowat are used."
TEST_F(QueueTest, ABandBackEnablesByItself) {
  queue().set_marks({.high_bytes = 2, .low_bytes = 1}, 1);
  add("abcd", 0);
  add("xy", 1);
  ASSERT_FALSE(head().can_put_next(1));
  EXPECT_EQ(text_of(queue().dequeue()), "xy");
  stream.poll();
  EXPECT_EQ(stream.head.wsrv_calls, 1) << "though band 0 is still full";
}

// The nearest queue behind that has a service procedure, past those that have none.
TEST_F(QueueTest, BackEnablesPastModulesWithoutServiceProcedures) {
  Scripted& far = stream.push_queueing({.high_bytes = 4, .low_bytes = 2});
  stream.push(Services::none);
  add("abcd");
  ASSERT_FALSE(far.write_queue().can_put_next());
  drain(queue());
  stream.poll();
  EXPECT_EQ(far.wsrv_calls, 1);
  EXPECT_EQ(stream.head.wsrv_calls, 0);
}

// Putting back what was just taken off must not wake the sender twice, nor forget a refusal in between.
TEST_F(QueueTest, PutBackRestoresFullness) {
  add("abcd");
  ASSERT_FALSE(head().can_put_next());
  Message taken = queue().dequeue();
  EXPECT_FALSE(queue().full());
  queue().put_back(std::move(taken));
  EXPECT_TRUE(queue().full());
  EXPECT_FALSE(head().can_put_next());
  stream.poll();
  drain(queue());
  stream.poll();
  EXPECT_EQ(stream.head.wsrv_calls, 2);
}

// --- scheduling ----------------------------------------------------------------------------------------------------

// Guide, "Queue service Procedure": it "is scheduled to run if: The queue is not disabled (noenable(9F)) and the
// message being queued is either the first message on the queue, or a priority band message".
TEST_F(ServedQueueTest, TheFirstMessageSchedulesAndLaterOnesDoNot) {
  add("a");
  EXPECT_EQ(services(), 1);
  add("b");
  EXPECT_EQ(services(), 1) << "no dequeue has yet found the queue empty, as at the start";
  ASSERT_TRUE(queue().dequeue());
  add("c");
  EXPECT_EQ(services(), 0) << "messages are pending, so flow control holds the service procedure";
  add("x", 1);
  EXPECT_EQ(services(), 1);
  drain(queue());
  add("d");
  EXPECT_EQ(services(), 1);
}

// Guide, same list: "The message being queued (putq(9F) or putbq(9F)) is a high-priority message". noenable(9F):
// "prevents the q from being scheduled for service by insq(9F), putq(9F) or putbq(9F) when enqueuing an ordinary
// priority message."
TEST_F(ServedQueueTest, ADisabledQueueIsScheduledByHighPriorityOnly) {
  queue().set_enabled(false);
  add("a");
  add("x", 1);
  queue().put_back(stream.message("b"));
  EXPECT_EQ(services(), 0);
  add("P", 0, MessageType::pcproto);
  EXPECT_EQ(services(), 1);
}

// enableok(9F): "The enableok() function turns off the QNOENB flag, allowing the qenable(9F) to schedule the queue": by
// itself it schedules nothing. qenable(9F): "adds the queue pointed to by q to the list of queues whose service
// routines are ready to be called by the STREAMS scheduler."
TEST_F(ServedQueueTest, EnablingAgainSchedulesFromTheNextMessageOnOrByEnable) {
  queue().set_enabled(false);
  add("a");
  queue().set_enabled(true);
  EXPECT_EQ(services(), 0);
  queue().enable();
  queue().enable();
  EXPECT_EQ(services(), 1) << "once, however often it was enabled";
  add("b");
  EXPECT_EQ(services(), 1);
}

TEST_F(QueueTest, AQueueWithoutServiceProcedureIsNeverScheduled) {
  add("a");
  add("P", 0, MessageType::pcproto);
  queue().enable();
  EXPECT_TRUE(stream.idle());
}

// A service procedure that is refused puts the message back and waits for the back-enable: neither ordinary nor banded
// messages may make it run for ever meanwhile.
TEST_F(QueueTest, ARefusedServiceProcedureDoesNotRunUntilThereIsRoom) {
  Scripted& module = stream.push_queueing({.high_bytes = 4, .low_bytes = 2});
  for (const std::uint8_t band : {std::uint8_t{0}, std::uint8_t{1}}) {
    queue().set_marks({.high_bytes = 1, .low_bytes = 1}, band);
    add("full", band);
    stream.send("waits", MessageType::data, band);
    const int before = module.wsrv_calls;
    stream.poll();
    EXPECT_EQ(module.wsrv_calls - before, 1) << "band " << int{band};
    EXPECT_TRUE(stream.idle()) << "band " << int{band};
    drain(queue());
    stream.poll();
    EXPECT_THAT(drain(queue()), ElementsAre("waits"));
  }
}

// What is behind a band that is held up overtakes where it may: a new higher band schedules, high priority passes.
TEST_F(QueueTest, HigherClassesPassARefusedServiceProcedure) {
  stream.push_queueing({.high_bytes = 4, .low_bytes = 2});
  add("full");
  stream.send("waits");
  stream.poll();
  stream.send("band", MessageType::data, 2);
  stream.send("P", MessageType::pcproto);
  stream.poll();
  EXPECT_THAT(drain(queue()), ElementsAre("P", "band", "full"));
  stream.poll();
  EXPECT_THAT(drain(queue()), ElementsAre("waits"));
}

// --- flushing ------------------------------------------------------------------------------------------------------

class FlushTest : public QueueTest {
 protected:
  FlushTest() {
    add("data");
    add("proto", 0, MessageType::proto);
    add("ctl", 0, MessageType::ctl);
    add("ioctl", 1, MessageType::ioctl);
    add("banded", 1);
    add("pcproto", 0, MessageType::pcproto);
    add("iocack", 0, MessageType::iocack);
  }
};

// flushq(9F): "FLUSHDATA: Flush only data messages (types M_DATA M_DELAY M_PROTO and M_PCPROTO)."
TEST_F(FlushTest, FlushDataKeepsControlMessagesInOrder) {
  queue().flush(FlushKind::data);
  EXPECT_EQ(queue().messages(), 3U);
  EXPECT_EQ(queue().bytes(), 14U);
  EXPECT_THAT(drain(queue()), ElementsAre("iocack", "ioctl", "ctl"));
}

// flushq(9F): "FLUSHALL: Flush all messages."
TEST_F(FlushTest, FlushAllKeepsNothing) {
  queue().flush(FlushKind::all);
  EXPECT_TRUE(queue().empty());
  EXPECT_EQ(queue().bytes(), 0U);
  EXPECT_EQ(queue().peek(), nullptr);
}

// flushband(9F): "If pri is 0, only normal and high priority messages are flushed."
TEST_F(FlushTest, FlushBandZeroTakesOrdinaryAndHighPriority) {
  queue().flush_band(0, FlushKind::data);
  EXPECT_THAT(drain(queue()), ElementsAre("iocack", "ioctl", "banded", "ctl"));
}

TEST_F(FlushTest, FlushAllOfBandZero) {
  queue().flush_band(0, FlushKind::all);
  EXPECT_THAT(drain(queue()), ElementsAre("ioctl", "banded"));
}

// flushband(9F): "Otherwise, messages are flushed from the band pri according to the value of flag."
TEST_F(FlushTest, FlushOfAnotherBandTakesThatBandOnly) {
  queue().flush_band(1, FlushKind::data);
  EXPECT_EQ(queue().messages(), 6U);
  queue().flush_band(1, FlushKind::all);
  EXPECT_EQ(queue().messages(), 5U);
  queue().flush_band(2, FlushKind::all);
  EXPECT_THAT(drain(queue()), ElementsAre("pcproto", "iocack", "data", "proto", "ctl"));
}

// flushq(9F): "If the queue's count falls below the low water mark and the queue was blocking an upstream service
// procedure, the nearest upstream service procedure is enabled."
TEST_F(FlushTest, FlushingBackEnables) {
  queue().set_marks({.high_bytes = 8, .low_bytes = 4});
  ASSERT_FALSE(head().can_put_next());
  queue().flush(FlushKind::all);
  stream.poll();
  EXPECT_EQ(stream.head.wsrv_calls, 1);
  EXPECT_TRUE(head().can_put_next());
}

// --- passing on ----------------------------------------------------------------------------------------------------

TEST(QueuePut, PutNextFollowsTheSideAndReplyTurnsRound) {
  Stream stream;
  Scripted& module = stream.push();
  module.write_queue().put_next(stream.message("down"));
  module.read_queue().put_next(stream.message("up"));
  module.write_queue().reply(stream.message("answer"));
  module.read_queue().reply(stream.message("asked"));
  EXPECT_THAT(texts_of(stream.arrived_down), ElementsAre("down", "asked"));
  EXPECT_THAT(texts_of(stream.arrived_up), ElementsAre("up", "answer"));
  EXPECT_EQ(stream.driver->write_queue().next(), nullptr);
  EXPECT_EQ(stream.head.read_queue().next(), nullptr);
  EXPECT_EQ(&module.write_queue().other(), &module.read_queue());
}

TEST(QueuePut, StatisticsCountBatchesAndMessages) {
  Stream stream;
  Batch batch(stream.message("a"));
  batch.push(stream.message("b"));
  stream.head.write_queue().put_next(std::move(batch));
  stream.send("c");
  const Queue::Statistics& seen = stream.driver->write_queue().statistics();
  EXPECT_EQ(seen.batches, 2U);
  EXPECT_EQ(seen.messages, 3U);
  EXPECT_EQ(seen.enqueued, 0U);
  stream.driver_queues({.high_bytes = 10, .low_bytes = 5});
  stream.send("four");
  stream.send("x");
  drain(stream.driver->write_queue());
  stream.driver->write_queue().put_back(stream.message("y"));
  EXPECT_EQ(seen.enqueued, 2U) << "putting back is not a second wait";
  EXPECT_EQ(seen.bytes_max, 5U);
}

/// A module that materializes and keeps what the test gives it.
struct Keeper : Scripted {
  using Module::keep;
  using Module::materialize;
};

// "materialized": messages of a fused path whose bytes were made real here. What owed nothing is none of them.
TEST(QueuePut, StatisticsCountWhatAModuleMaterializesAndKeeps) {
  Stream stream;
  auto owned = std::make_unique<Keeper>();
  Keeper& keeper = *owned;
  ASSERT_TRUE(stream.chain.push(std::move(owned)));
  const auto message = [&stream](bool owes) {
    Message made = stream.message("abcd");
    made.defer();
    EXPECT_TRUE(!owes || made.transform(Swap{4}) == TransformResult::deferred);
    return made;
  };
  for (const bool owes : {false, true}) {
    for (const Side side : {Side::write, Side::read}) {
      const Queue::Statistics& seen = keeper.queue(side).statistics();
      const std::uint64_t before = seen.materialized;
      Message kept = message(owes);
      EXPECT_EQ(keeper.keep(kept, side), TransformResult::done);
      EXPECT_EQ(seen.materialized - before, owes ? 1U : 0U);
      Message made = message(owes);
      EXPECT_EQ(keeper.materialize(made, side), TransformResult::done);
      EXPECT_EQ(seen.materialized - before, owes ? 2U : 0U);
      EXPECT_EQ(seen.no_memory, 0U);
    }
  }
}

// --- batches -------------------------------------------------------------------------------------------------------

TEST(BatchTest, IsFirstInFirstOutAndSplices) {
  BufferPool pool;
  Batch batch;
  EXPECT_FALSE(batch.pop());
  batch.push(text_message(pool, "b"));
  batch.push_front(text_message(pool, "a"));
  Batch more(text_message(pool, "c"));
  batch.splice(std::move(more));
  batch.splice(Batch{});
  EXPECT_EQ(batch.size(), 3U);
  Batch moved = std::move(batch);
  EXPECT_THAT(texts_of(moved), ElementsAre("a", "b", "c"));
  EXPECT_TRUE(moved.empty());
  moved.push(text_message(pool, "again"));
  EXPECT_THAT(texts_of(moved), ElementsAre("again"));
}

TEST(BatchTest, FreesWhatItHolds) {
  BufferPool pool;
  {
    Batch batch(text_message(pool, "a"));
    batch.push(text_message(pool, "b"));
    Batch other(text_message(pool, "c"));
    other = std::move(batch);
    EXPECT_EQ(pool.statistics().buffers_in_use, 2U);
    EXPECT_EQ(other.size(), 2U);
  }
  EXPECT_EQ(pool.statistics().buffers_in_use, 0U);
}

}  // namespace
}  // namespace sluice::testing
