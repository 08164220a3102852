// SPDX-License-Identifier: Apache-2.0
#include "stack/core/chain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>

#include "tests/stack/core/support.h"

namespace sluice::testing {
namespace {

using ::testing::ElementsAre;
using Services = Module::Services;

std::string flush_bytes(std::initializer_list<unsigned> bytes) {
  std::string text;
  for (const unsigned byte : bytes) {
    text += static_cast<char>(byte);
  }
  return text;
}

TEST(ChainTest, WiresBothSidesFromHeadToDriver) {
  Stream stream;
  Scripted& low = stream.push();
  Scripted& high = stream.push();
  ASSERT_TRUE(stream.opened);
  EXPECT_EQ(stream.chain.modules().size(), 3U);
  EXPECT_EQ(stream.chain.modules().front().get(), &high);
  EXPECT_EQ(&stream.chain.driver(), stream.driver);
  EXPECT_EQ(stream.head.write_queue().next(), &high.write_queue());
  EXPECT_EQ(high.write_queue().next(), &low.write_queue());
  EXPECT_EQ(low.write_queue().next(), &stream.driver->write_queue());
  EXPECT_EQ(stream.driver->write_queue().next(), nullptr);
  EXPECT_EQ(stream.driver->read_queue().next(), &low.read_queue());
  EXPECT_EQ(low.read_queue().next(), &high.read_queue());
  EXPECT_EQ(high.read_queue().next(), &stream.head.read_queue());
  EXPECT_EQ(stream.head.read_queue().next(), nullptr);
  EXPECT_EQ(&low.set(), &stream.set);
}

/// Several datagrams in one message: everybody must be made for it, and the header must not become bytes.
TEST(ChainTest, SegmentsNeedEveryModuleAndDescriptors) {
  struct Whole : Module {
    Whole() : Module("whole") {}
    [[nodiscard]] bool handles_segments() const override { return true; }
  };
  struct Plain : Module {
    Plain() : Module("plain") {}
  };
  for (const bool encodes : {false, true}) {
    StreamSet set({.encode_primitives = encodes});
    Whole head;
    Chain chain(set, head);
    ASSERT_TRUE(chain.open_driver(std::make_unique<Whole>()));
    EXPECT_EQ(head.segments(), !encodes);
    ASSERT_TRUE(chain.push(std::make_unique<Plain>()));
    EXPECT_FALSE(head.segments());
    EXPECT_FALSE(chain.driver().segments());
    ASSERT_TRUE(chain.pop());
    EXPECT_EQ(head.segments(), !encodes);
    EXPECT_EQ(chain.driver().segments(), !encodes);
  }
}

/// Below one that makes a stream of bytes of them, whatever is above.
TEST(ChainTest, SegmentsMayEndInTheMiddle) {
  struct Plain : Module {
    Plain() : Module("plain") {}
  };
  struct Whole : Module {
    explicit Whole(bool ends = false) : Module("whole"), ends_(ends) {}
    [[nodiscard]] bool handles_segments() const override { return true; }
    [[nodiscard]] bool ends_segments() const override { return ends_; }
    bool ends_;
  };
  StreamSet set;
  Plain head;
  Chain chain(set, head);
  ASSERT_TRUE(chain.open_driver(std::make_unique<Whole>()));
  EXPECT_FALSE(chain.driver().segments());
  ASSERT_TRUE(chain.push(std::make_unique<Whole>()));
  ASSERT_TRUE(chain.push(std::make_unique<Whole>(true)));
  ASSERT_TRUE(chain.push(std::make_unique<Plain>()));
  const auto& modules = chain.modules();
  EXPECT_FALSE(head.segments());
  EXPECT_FALSE(modules[0]->segments()) << "nothing of theirs comes here";
  EXPECT_TRUE(modules[1]->segments() && modules[2]->segments() && modules[3]->segments());
}

TEST(ChainTest, SegmentsThatEndInTheMiddleNeedEveryModuleBelow) {
  struct Whole : Module {
    explicit Whole(bool handles, bool ends) : Module("whole"), handles_(handles), ends_(ends) {}
    [[nodiscard]] bool handles_segments() const override { return handles_; }
    [[nodiscard]] bool ends_segments() const override { return ends_; }
    bool handles_;
    bool ends_;
  };
  StreamSet set;
  Whole head(true, false);
  Chain chain(set, head);
  ASSERT_TRUE(chain.open_driver(std::make_unique<Whole>(true, false)));
  ASSERT_TRUE(chain.push(std::make_unique<Whole>(false, false)));
  ASSERT_TRUE(chain.push(std::make_unique<Whole>(true, true)));
  EXPECT_FALSE(chain.driver().segments());
  EXPECT_FALSE(chain.modules().front()->segments());
}

TEST(ChainTest, PopTakesTheModuleBelowTheHeadAndNeverTheDriver) {
  Stream stream;
  stream.push();
  Scripted& top = stream.push();
  bool closed = false;
  top.on_close = [&] {
    closed = true;
    top.write_queue().put_next(stream.message("last words"));  // the queues still work
  };
  ASSERT_TRUE(stream.chain.pop());
  EXPECT_TRUE(closed);
  EXPECT_THAT(texts_of(stream.arrived_down), ElementsAre("last words"));
  ASSERT_TRUE(stream.chain.pop());
  const Status refused = stream.chain.pop();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, EINVAL);
  EXPECT_EQ(stream.head.write_queue().next(), &stream.driver->write_queue());
}

TEST(ChainTest, OpenFindsTheModuleInItsPlace) {
  Stream stream;
  auto owned = std::make_unique<Scripted>();
  Scripted* module = owned.get();
  module->on_open = [&]() -> Status {
    module->write_queue().put_next(stream.message("down"));
    module->read_queue().put_next(stream.message("up"));
    return {};
  };
  ASSERT_TRUE(stream.chain.push(std::move(owned)));
  EXPECT_THAT(texts_of(stream.arrived_down), ElementsAre("down"));
  EXPECT_THAT(texts_of(stream.arrived_up), ElementsAre("up"));
}

TEST(ChainTest, AModuleThatDoesNotOpenIsNotPushed) {
  Stream stream;
  auto owned = std::make_unique<Scripted>(Services::both);
  Scripted* module = owned.get();
  bool closed = false;
  module->on_close = [&] { closed = true; };
  module->on_open = [&]() -> Status {
    module->write_queue().enqueue(stream.message("forgotten"));  // and scheduled
    return fail(EPROTO, "not here");
  };
  const Status status = stream.chain.push(std::move(owned));
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, EPROTO);
  EXPECT_FALSE(closed) << "what was not opened is not closed";
  EXPECT_EQ(stream.chain.modules().size(), 1U);
  EXPECT_TRUE(stream.idle());
  stream.send("through");
  EXPECT_THAT(texts_of(stream.arrived_down), ElementsAre("through"));
}

TEST(ChainTest, ADriverThatDoesNotOpenLeavesAnEmptyChain) {
  StreamSet set;
  Scripted head;
  Chain chain(set, head);
  auto owned = std::make_unique<Scripted>();
  owned->on_open = [] { return Status(fail(ENODEV)); };
  const Status status = chain.open_driver(std::move(owned));
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, ENODEV);
  EXPECT_TRUE(chain.modules().empty());
  EXPECT_TRUE(chain.open_driver(std::make_unique<Scripted>()));
  EXPECT_DEATH((void)chain.open_driver(std::make_unique<Scripted>()), "contract broken");
}

TEST(ChainTest, ACarriesMessagesThroughADeepChainAndRefusesADeeperOne) {
  Stream stream;
  for (std::size_t depth = 1; depth < Chain::modules_max; ++depth) {
    stream.push();
    ASSERT_TRUE(stream.opened);
    if (depth == 64) {
      stream.send("down");
      stream.driver->read_queue().put_next(stream.message("up"));
      EXPECT_THAT(texts_of(stream.arrived_down), ElementsAre("down"));
      EXPECT_THAT(texts_of(stream.arrived_up), ElementsAre("up"));
    }
  }
  stream.driver_queues({.high_bytes = 1, .low_bytes = 1});
  stream.send("x");
  EXPECT_FALSE(stream.head.write_queue().can_put_next()) << "flow control reaches through all of them";
  auto owned = std::make_unique<Scripted>();
  const Status status = stream.chain.push(std::move(owned));
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, EINVAL);
  EXPECT_EQ(stream.chain.modules().size(), Chain::modules_max);
}

// --- change under way ----------------------------------------------------------------------------------------------

TEST(ChainTest, APoppedModuleIsFlushedAndTakenOffTheRunList) {
  Stream stream;
  Scripted& module = stream.push_queueing({.high_bytes = 10, .low_bytes = 5});
  stream.send("waits");
  EXPECT_EQ(module.write_queue().messages(), 1U);
  ASSERT_TRUE(stream.chain.pop());
  EXPECT_EQ(stream.set.pool().statistics().buffers_in_use, 0U);
  EXPECT_TRUE(stream.idle());
  EXPECT_FALSE(stream.poll());
}

TEST(ChainTest, WhoeverWaitedForAPoppedModuleIsEnabled) {
  Stream stream;
  stream.push_queueing({.high_bytes = 1, .low_bytes = 1});
  stream.send("full");
  ASSERT_FALSE(stream.head.write_queue().can_put_next());
  ASSERT_TRUE(stream.chain.pop());
  stream.poll();
  EXPECT_EQ(stream.head.wsrv_calls, 1);
  EXPECT_TRUE(stream.head.write_queue().can_put_next());
}

// A full queue would back-enable the new module, not the sender that was refused before it came.
TEST(ChainTest, WhoeverWaitsWhenAModuleIsPushedInBetweenIsEnabled) {
  Stream stream;
  stream.driver_queues({.high_bytes = 1, .low_bytes = 1});
  stream.send("full");
  ASSERT_FALSE(stream.head.write_queue().can_put_next());
  stream.push_queueing({.high_bytes = 1, .low_bytes = 1});
  stream.poll();
  EXPECT_EQ(stream.head.wsrv_calls, 1);
  EXPECT_TRUE(stream.head.write_queue().can_put_next());
}

TEST(ChainTest, NobodyIsEnabledWithoutCause) {
  Stream stream;
  stream.push_queueing({.high_bytes = 1, .low_bytes = 1});
  ASSERT_TRUE(stream.chain.pop());
  EXPECT_TRUE(stream.idle());
}

TEST(ChainTest, DestructionClosesFromTheTopAndFreesAll) {
  std::vector<std::string> closed;
  StreamSet set;
  Scripted head(Services::both);
  {
    Chain chain(set, head);
    for (const char* name : {"driver", "low", "high"}) {
      auto module = std::make_unique<Scripted>(Services::both, name);
      module->on_close = [&closed, name] { closed.emplace_back(name); };
      module->read_queue().enqueue(text_message(set.pool(), "left behind"));
      ASSERT_TRUE(chain.modules().empty() ? chain.open_driver(std::move(module)) : chain.push(std::move(module)));
    }
    head.write_queue().enqueue(text_message(set.pool(), "left behind"));
  }
  EXPECT_THAT(closed, ElementsAre("high", "low", "driver"));
  head.write_queue().enable();  // the head has outlived its stream: nothing is left to schedule it
  EXPECT_EQ(set.pool().statistics().buffers_in_use, 0U);
  EXPECT_EQ(set.scheduler().next_deadline(), never);
}

// --- flushing by M_FLUSH --------------------------------------------------------------------------------------------

/// A driver with a data message, a control message and one of band 1 on each queue.
class FlushMessageTest : public ::testing::Test {
 protected:
  FlushMessageTest() {
    for (const Side side : {Side::write, Side::read}) {
      Queue& queue = stream.driver->queue(side);
      queue.enqueue(stream.message("d"));
      queue.enqueue(stream.message("c", MessageType::ctl));
      queue.enqueue(stream.message("b", MessageType::data, 1));
    }
  }
  std::vector<std::string> left(Side side) { return drain(stream.driver->queue(side)); }
  Message flush(std::initializer_list<unsigned> bytes) {
    return stream.message(flush_bytes(bytes), MessageType::flush);
  }
  Stream stream;
};

// Guide, "Flush Handling": FLUSHR, FLUSHW, FLUSHRW name the sides.
TEST_F(FlushMessageTest, FlushesTheSidesItNames) {
  stream.driver->flush_queues(flush({flush_write}));
  EXPECT_THAT(left(Side::write), ElementsAre("c"));
  EXPECT_THAT(left(Side::read), ElementsAre("b", "d", "c"));
}

TEST_F(FlushMessageTest, FlushesBothSides) {
  stream.driver->flush_queues(flush({flush_read | flush_write}));
  EXPECT_THAT(left(Side::write), ElementsAre("c"));
  EXPECT_THAT(left(Side::read), ElementsAre("c"));
}

// Guide, "Flushing Priority Band": with FLUSHBAND, the second byte is the band.
TEST_F(FlushMessageTest, FlushesTheBandItNames) {
  stream.driver->flush_queues(flush({flush_read | flush_band, 1}));
  EXPECT_THAT(left(Side::read), ElementsAre("d", "c"));
  EXPECT_THAT(left(Side::write), ElementsAre("b", "d", "c"));
}

TEST_F(FlushMessageTest, AnAbsentBandOrABrokenRequestFlushesNothing) {
  stream.driver->flush_queues(flush({flush_read | flush_write | flush_band, 8}));
  stream.driver->flush_queues(flush({flush_read | flush_write | flush_band, 255}));
  stream.driver->flush_queues(flush({flush_read | flush_write | flush_band}));
  stream.driver->flush_queues(flush({}));
  EXPECT_THAT(left(Side::read), ElementsAre("b", "d", "c"));
  EXPECT_THAT(left(Side::write), ElementsAre("b", "d", "c"));
}

// Guide, "Driver Flush Handling": the driver flushes what is named, clears FLUSHW and sends the message up if FLUSHR is
// set.
TEST_F(FlushMessageTest, ADriverTurnsTheReadSideRound) {
  stream.driver->turn_flush(flush({flush_read | flush_write}));
  EXPECT_THAT(texts_of(stream.arrived_up), ElementsAre(flush_bytes({flush_read})));
  stream.driver->turn_flush(flush({flush_write}));
  stream.driver->turn_flush(flush({}));
  EXPECT_TRUE(stream.arrived_up.empty());
  EXPECT_THAT(left(Side::read), ElementsAre("c"));
}

// --- counters and sources ------------------------------------------------------------------------------------------

TEST(ModuleTest, CountersMakeThemselvesKnown) {
  struct Counting : Scripted {
    Counter dropped{*this, "dropped", "messages without a use"};
    Counter refused{*this, "refused", "messages without room"};
  } module;
  ++module.dropped;
  module.dropped += 2;
  ASSERT_EQ(module.counters().size(), 2U);
  EXPECT_EQ(module.counters()[0]->name(), "dropped");
  EXPECT_EQ(module.counters()[0]->meaning(), "messages without a use");
  EXPECT_EQ(module.counters()[0]->value(), 3U);
  EXPECT_EQ(module.counters()[1]->value(), 0U);
}

TEST(StreamSetTest, SourcesAreListedAndVersioned) {
  struct Source : EventSource {
    int descriptor() const override { return 3; }
    bool on_readable() override { return false; }
  } a, b;
  StreamSet set;
  const std::uint64_t before = set.sources_version();
  set.add_source(a);
  set.add_source(b);
  set.remove_source(a);
  EXPECT_THAT(set.sources(), ElementsAre(&b));
  EXPECT_EQ(set.sources_version(), before + 3);
}

}  // namespace
}  // namespace sluice::testing
