// SPDX-License-Identifier: Apache-2.0
// Messages that come to and leave a queue anywhere (insq, rmvq), and control messages that are made for a queue (the
// putctl family).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <set>

#include "base/prng.h"
#include "tests/stack/core/support.h"

// Quoted: the manual pages of SVR4's DDI/DKI (D3DK), those of section 9F, and AIX's.

namespace sluice::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Services = Module::Services;

/// A driver's write queue with a service procedure, behind a head that has one.
class InsertTest : public ::testing::Test {
 protected:
  InsertTest() { stream.driver_queues({.high_bytes = 100, .low_bytes = 50}); }
  Queue& queue() { return stream.driver->write_queue(); }
  void add(std::string_view text, std::uint8_t band = 0, MessageType type = MessageType::data) {
    queue().enqueue(stream.message(text, type, band));
  }
  /// The message on the queue that holds `text`; nullptr for "".
  const Block* found(std::string_view text) {
    const Block* at = text.empty() ? nullptr : queue().peek();
    while (at != nullptr && as_text(at->bytes()) != text) {
      at = queue().next_after(*at);
    }
    return at;
  }
  bool insert(std::string_view text, std::string_view before, std::uint8_t band = 0,
              MessageType type = MessageType::data) {
    Message message = stream.message(text, type, band);
    const bool inserted = queue().insert(found(before), std::move(message));
    EXPECT_EQ(static_cast<bool>(message), !inserted) << "a message that is refused stays the caller's";
    return inserted;
  }
  std::vector<std::string> walked() {
    std::vector<std::string> texts;
    for (const Block* at = queue().peek(); at != nullptr; at = queue().next_after(*at)) {
      texts.emplace_back(as_text(at->bytes()));
    }
    return texts;
  }
  int services() {
    const int before = stream.driver->wsrv_calls;
    stream.poll();
    return stream.driver->wsrv_calls - before;
  }

  Stream stream{Services::both, Services::write};
};

// insq(D3DK): "The message to be inserted, nmp, is placed in q immediately before the message emp. If emp is NULL, the
// new message is placed at the end of the queue."
TEST_F(InsertTest, PlacesImmediatelyBeforeOrAtTheEnd) {
  EXPECT_TRUE(insert("b", ""));
  EXPECT_TRUE(insert("d", ""));
  EXPECT_TRUE(insert("a", "b"));
  EXPECT_TRUE(insert("c", "d"));
  EXPECT_THAT(walked(), ElementsAre("a", "b", "c", "d"));
  EXPECT_THAT(drain(queue()), ElementsAre("a", "b", "c", "d"));
}

// AIX, insq: "If an attempt is made to insert a message out of order in a queue by using the insq utility, the message
// will not be inserted and the routine is not successful. [...] the priority band of the new message must adhere to the
// following format: emp->b_prev->b_band >= mp->b_band >= emp->b_band." High-priority messages come before all bands.
TEST_F(InsertTest, KeepsTheOrderOfClassesOrRefuses) {
  constexpr int urgent = 256;
  struct Case {
    int rank;
    std::string_view before;
    bool accepted;
  };
  static constexpr Case cases[] = {
      {urgent, "P", true},  {7, "P", false}, {0, "P", false},                           // before the high-priority one
      {urgent, "y", true},  {9, "y", true},  {7, "y", true},     {6, "y", false},       // before band 7
      {urgent, "x", false}, {8, "x", false}, {7, "x", true},     {3, "x", true},        // before band 1
      {1, "x", true},       {0, "x", false},                                            //
      {1, "a", true},       {0, "a", true},  {2, "a", false},    {urgent, "a", false},  // before the first ordinary one
      {0, "b", true},       {1, "b", false},                                            // between ordinary ones
      {0, "", true},        {1, "", false},  {urgent, "", false}};                      // at the end
  for (const auto& [rank, before, accepted] : cases) {
    queue().flush(FlushKind::all);
    add("P", 0, MessageType::pcproto);
    add("y", 7);
    add("x", 1);
    add("a");
    add("b");
    const auto band = static_cast<std::uint8_t>(rank == urgent ? 0 : rank);
    std::vector<std::string> expected = walked();
    if (accepted) {
      expected.insert(before.empty() ? expected.end() : std::ranges::find(expected, before), "new");
    }
    EXPECT_EQ(insert("new", before, band, rank == urgent ? MessageType::hangup : MessageType::data), accepted)
        << rank << " before " << before;
    EXPECT_EQ(walked(), expected) << rank << " before " << before;
    EXPECT_EQ(queue().messages(), expected.size());
    EXPECT_EQ(queue().bytes(), 5U + (accepted ? 3U : 0U));
    EXPECT_EQ(drain(queue()), expected);
    EXPECT_EQ(queue().bytes(), 0U);
  }
}

TEST_F(InsertTest, TheBandOfAHighPriorityMessageBecomesZero) {
  EXPECT_TRUE(insert("P", "", 5, MessageType::pcproto));
  EXPECT_EQ(queue().dequeue().band(), 0);
}

TEST_F(InsertTest, AStrangeMessageBreaksTheContract) {
  add("a");
  const Message stranger = stream.message("elsewhere");
  EXPECT_DEATH((void)queue().insert(&stranger.first(), stream.message("b")), "contract broken");
  EXPECT_DEATH((void)queue().remove(stranger.first()), "contract broken");
}

// insq(D3DK): "All flow control parameters are updated." Bands count apart.
TEST_F(InsertTest, CountsTowardsFullnessOfItsBand) {
  queue().set_marks({.high_bytes = 4, .low_bytes = 2});
  EXPECT_TRUE(insert("abc", ""));
  EXPECT_FALSE(queue().full());
  EXPECT_TRUE(insert("d", "abc"));
  EXPECT_TRUE(queue().full());
  EXPECT_FALSE(stream.head.write_queue().can_put_next());
  EXPECT_TRUE(insert("wxyz", "d", 3));
  EXPECT_TRUE(queue().full(3));
  EXPECT_FALSE(queue().full(2));
  EXPECT_EQ(queue().statistics().enqueued, 3U);
  EXPECT_EQ(queue().statistics().bytes_max, 8U);
}

// noenable(9F): "prevents the q from being scheduled for service by insq(9F), putq(9F) or putbq(9F) when enqueuing an
// ordinary priority message." As with put_back(), an ordinary one schedules only where the last dequeue found nothing.
TEST_F(InsertTest, SchedulesAsPutBackDoesAndForHighPriorityAlways) {
  EXPECT_TRUE(insert("a", ""));
  EXPECT_EQ(services(), 1) << "no dequeue has yet found anything";
  ASSERT_TRUE(queue().dequeue());
  EXPECT_TRUE(insert("b", ""));
  EXPECT_EQ(services(), 0) << "the last dequeue found a message";
  EXPECT_TRUE(insert("x", "b", 4));
  EXPECT_EQ(services(), 0);
  queue().set_enabled(false);
  drain(queue());
  EXPECT_TRUE(insert("c", ""));
  EXPECT_EQ(services(), 0);
  EXPECT_TRUE(insert("P", "c", 0, MessageType::pcproto));
  EXPECT_EQ(services(), 1);
}

// A service procedure that may not go on and puts what it holds back where it was must not run for ever.
TEST_F(InsertTest, ARefusedServiceProcedureThatInsertsDoesNotSpin) {
  stream.driver->on_wsrv = [this] {
    if (Message message = queue().dequeue()) {
      EXPECT_TRUE(queue().insert(queue().peek(), std::move(message)));
    }
  };
  add("a");
  add("b");
  EXPECT_EQ(services(), 1);
  EXPECT_TRUE(stream.idle());
  EXPECT_THAT(walked(), ElementsAre("a", "b"));
}

// rmvq(D3DK): "rmvq removes a message from a queue. A message can be removed from anywhere in a queue."
TEST_F(InsertTest, RemovesFromAnywhere) {
  const std::vector<std::string> all{"P", "Q", "y", "x", "z", "a", "b", "c"};
  for (const std::string& gone : all) {
    queue().flush(FlushKind::all);
    for (const char* urgent : {"P", "Q"}) {
      add(urgent, 0, MessageType::pcproto);
    }
    add("y", 7);
    add("x", 1);
    add("z", 1);
    for (const char* ordinary : {"a", "b", "c"}) {
      add(ordinary);
    }
    const Message removed = queue().remove(*found(gone));
    EXPECT_EQ(text_of(removed), gone);
    std::vector<std::string> left = all;
    std::erase(left, gone);
    EXPECT_EQ(walked(), left);
    EXPECT_EQ(queue().bytes(), 7U);
    EXPECT_TRUE(insert("end", ""));
    left.emplace_back("end");
    EXPECT_EQ(drain(queue()), left) << "the end of the queue is known, whatever " << gone << " was";
  }
}

// "Flushing one type of message from a queue" is rmvq(D3DK)'s own example. Fullness ends as with getq, and the sender
// that was refused is back-enabled, once.
TEST_F(InsertTest, RemovingBackEnables) {
  queue().set_marks({.high_bytes = 4, .low_bytes = 2});
  for (const char* text : {"a", "b", "c", "d"}) {
    add(text);
  }
  ASSERT_FALSE(stream.head.write_queue().can_put_next());
  stream.driver->on_wsrv = [] {};
  for (const char* text : {"b", "d"}) {
    ASSERT_TRUE(queue().remove(*found(text)));
    stream.poll();
    EXPECT_EQ(stream.head.wsrv_calls, 0) << "two bytes are not below the mark";
  }
  EXPECT_FALSE(queue().full());
  ASSERT_TRUE(queue().remove(*found("a")));
  stream.poll();
  EXPECT_EQ(stream.head.wsrv_calls, 1);
  ASSERT_TRUE(queue().remove(*found("c")));
  stream.poll();
  EXPECT_EQ(stream.head.wsrv_calls, 1);
  EXPECT_TRUE(queue().empty());
}

// Every insert and removal against a list that is kept in order by hand.
TEST_F(InsertTest, AtRandomAgainstAModel) {
  const std::uint64_t seed = 20261122;
  Prng prng(seed);
  std::vector<std::pair<unsigned, std::string>> model;  // rank, text
  for (int step = 0; step < 3000; ++step) {
    const std::size_t at = prng.below(model.size() + 1);
    if (prng.below(3) == 0 && at < model.size()) {
      ASSERT_EQ(text_of(queue().remove(*found(model[at].second))), model[at].second) << "seed " << seed;
      model.erase(model.begin() + static_cast<std::ptrdiff_t>(at));
    } else if (model.size() < 12) {
      const bool urgent = prng.below(4) == 0;
      const auto band = static_cast<std::uint8_t>(prng.below(4));
      const unsigned rank = urgent ? 256U : band;
      const std::string text = std::to_string(step);
      const bool fits = (at == model.size() || model[at].first <= rank) && (at == 0 || model[at - 1].first >= rank);
      ASSERT_EQ(insert(text, at == model.size() ? "" : model[at].second, band,
                       urgent ? MessageType::pcproto : MessageType::data),
                fits)
          << "seed " << seed << " step " << step;
      if (fits) {
        model.insert(model.begin() + static_cast<std::ptrdiff_t>(at), {rank, text});
      }
    }
    std::vector<std::string> texts;
    std::size_t bytes = 0;
    for (const auto& entry : model) {
      texts.push_back(entry.second);
      bytes += entry.second.size();
    }
    ASSERT_EQ(walked(), texts) << "seed " << seed << " step " << step;
    ASSERT_EQ(queue().messages(), model.size());
    ASSERT_EQ(queue().bytes(), bytes);
  }
}

// A message that borrows the user's memory is copied when it must wait on a write queue, as by enqueue().
TEST(InsertOnWriteQueue, CopiesWhatIsBorrowed) {
  Stream stream;
  std::vector<std::byte> lent = counted_bytes(64);
  Message message(stream.set.pool().borrow(lent, true, nullptr, nullptr));
  message.defer();
  ASSERT_TRUE(message.fused());
  Queue& queue = stream.driver->write_queue();
  ASSERT_TRUE(queue.insert(nullptr, std::move(message)));
  EXPECT_FALSE(queue.peek()->buffer->borrowed());
  std::ranges::fill(lent, std::byte{0});
  EXPECT_EQ(flat(queue.dequeue()), counted_bytes(64));
}

TEST(InsertOnWriteQueue, WithoutMemoryForTheCopyTheMessageStaysTheCallers) {
  StreamSet::Options options;
  options.pool_bytes_max = 96 * 1024;
  StreamSet set(options);
  Scripted head(Services::both, "head");
  Chain chain(set, head);
  ASSERT_TRUE(chain.open_driver(std::make_unique<Scripted>(Services::none, "driver")));
  Queue& queue = chain.driver().write_queue();
  std::vector<std::byte> lent = counted_bytes(60000);
  Message message(set.pool().borrow(lent, true, nullptr, nullptr));
  message.defer();
  ASSERT_TRUE(message.fused());
  EXPECT_FALSE(queue.insert(nullptr, std::move(message)));
  EXPECT_TRUE(message);
  EXPECT_TRUE(queue.empty());
  EXPECT_EQ(queue.statistics().no_memory, 1U);
}

// --- putctl --------------------------------------------------------------------------------------------------------

// putctl1(D3DK): "putctl1, like putctl(D3DK), tests the type argument to make sure a data type has not been specified,
// and attempts to allocate a message block. [...] If successful, putctl1 calls the put(D2DK) routine of the queue".
// SVR4's putctl refuses M_DELAY, too, which does not exist here.
TEST(PutControl, EveryTypeButData) {
  constexpr auto last = static_cast<int>(MessageType::hangup);
  const std::set<MessageType> data{MessageType::data, MessageType::proto, MessageType::pcproto};
  for (int number = 0; number <= last; ++number) {
    const auto type = static_cast<MessageType>(number);
    Stream stream;
    Scripted& module = stream.push();
    const bool sent = !data.contains(type);
    EXPECT_EQ(module.write_queue().put_control(type), sent) << number;
    EXPECT_EQ(module.write_queue().put_next_control(type, {7}), sent) << number;
    EXPECT_EQ(module.read_queue().put_next_control(type, {1, 2}), sent) << number;
    EXPECT_EQ(stream.arrived_down.size(), sent ? 2U : 0U);
    EXPECT_EQ(stream.arrived_up.size(), sent ? 1U : 0U);
    EXPECT_EQ(stream.set.pool().statistics().buffers_in_use, sent ? 3U : 0U) << "nothing is allocated in vain";
    while (Message message = stream.arrived_down.pop()) {
      EXPECT_EQ(message.type(), type);
      EXPECT_EQ(flat(message), std::vector<std::byte>(stream.arrived_down.empty() ? 1 : 0, std::byte{7}));
    }
    if (sent) {
      EXPECT_THAT(flat(stream.arrived_up.pop()), ElementsAre(std::byte{1}, std::byte{2}));
    }
  }
}

// put_control calls the put procedure of the queue itself, put_next_control that of the next.
TEST(PutControl, GoesToTheQueueOrToTheNext) {
  Stream stream;
  Scripted& module = stream.push();
  int here = 0;
  module.on_wput = [&here](const Batch& batch) { here += static_cast<int>(batch.size()); };
  EXPECT_TRUE(module.write_queue().put_control(MessageType::hangup));
  EXPECT_EQ(here, 1);
  EXPECT_TRUE(module.write_queue().put_next_control(MessageType::hangup));
  EXPECT_EQ(here, 1);
  EXPECT_EQ(stream.arrived_down.size(), 1U);
  EXPECT_DEATH((void)stream.driver->write_queue().put_next_control(MessageType::hangup), "contract broken");
}

// putctl1(D3DK): "0 is returned if type is a data type, or if a message block cannot be allocated."
TEST(PutControl, WithoutMemoryNothingIsSent) {
  StreamSet::Options options;
  options.pool_bytes_max = 64;
  StreamSet set(options);
  Scripted head(Services::both, "head");
  Chain chain(set, head);
  auto driver = std::make_unique<Scripted>(Services::none, "driver");
  int arrived = 0;
  driver->on_wput = [&arrived](const Batch&) { ++arrived; };
  ASSERT_TRUE(chain.open_driver(std::move(driver)));
  EXPECT_FALSE(head.write_queue().put_next_control(MessageType::flush, {flush_read}));
  EXPECT_FALSE(chain.driver().write_queue().put_control(MessageType::flush, {flush_read}));
  EXPECT_EQ(arrived, 0);
}

}  // namespace
}  // namespace sluice::testing
