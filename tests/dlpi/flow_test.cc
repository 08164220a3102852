// SPDX-License-Identifier: Apache-2.0
// Flow control between a stream and its link.

#include "tests/dlpi/datagram.h"
#include "tests/dlpi/test_stream.h"

namespace sluice::dlpi::test {
namespace {

constexpr LinkAddress peer_address{{{0x02, 0, 0, 0, 0, 2}}, test_sap};

class Flow : public testing::Test {
 protected:
  std::unique_ptr<Stream> stream() {
    auto made = std::make_unique<Stream>(set_);
    EXPECT_TRUE(made->open(driver_on(link_)));
    made->bind(test_sap);
    return made;
  }
  void bring(std::size_t count) {
    Batch frames;
    for (std::size_t at = 0; at < count; ++at) {
      frames.push(Message::copy_of(set_.pool(), frame(TestLink::mac, test_sap, std::vector<std::byte>(1000))));
    }
    link_->bring(std::move(frames));
  }
  void poll() { set_.scheduler().poll(TimePoint{}); }

  StreamSet set_;
  std::shared_ptr<TestLink> link_ = std::make_shared<TestLink>(set_);
};

TEST_F(Flow, ABurstIsOnePut) {
  const auto one = stream();
  const int bursts = one->head().bursts;
  bring(32);
  EXPECT_EQ(one->head().bursts, bursts + 1);
  EXPECT_EQ(one->waiting(), 32U);
}

TEST_F(Flow, ASoleStreamThatIsFullStopsTheDevice) {
  const auto one = stream();
  poll();
  const int rooms = link_->rooms;
  EXPECT_TRUE(link_->may_receive());
  bring(70);  // above the head's high-water mark of 64 KiB
  EXPECT_FALSE(link_->may_receive());
  EXPECT_EQ(one->waiting(), 70U) << "what was read is delivered";
  poll();
  EXPECT_EQ(link_->rooms, rooms);
  one->forget();
  poll();
  EXPECT_EQ(link_->rooms, rooms + 1) << "back-enabled";
  EXPECT_TRUE(link_->may_receive());
  EXPECT_EQ(one->counted("flow_dropped"), 0U);
}

TEST_F(Flow, WithSeveralStreamsTheFullOneLoses) {
  const auto full = stream();
  const auto eager = stream();
  bring(70);
  eager->forget();
  EXPECT_TRUE(link_->may_receive());
  bring(5);
  EXPECT_EQ(full->counted("flow_dropped"), 5U);
  EXPECT_EQ(eager->counted("flow_dropped"), 0U);
  EXPECT_EQ(eager->waiting(), 5U);
}

/// Beside a program's stream stands the host's, without a filter: the device waits for the program as if it were alone.
TEST_F(Flow, BesideStreamsWithoutAFilterTheOneThatHasOneStopsTheDevice) {
  const auto host = stream();
  auto program = stream();
  const auto bring_to_program = [&](std::size_t count) {
    Batch frames;
    for (std::size_t at = 0; at < count; ++at) {
      frames.push(Message::copy_of(set_.pool(), frame(TestLink::mac, wire::ethertype_ipv4,
                                                      datagram(kernel_ip, our_ip, std::string(1000, 'x')))));
    }
    link_->bring(std::move(frames));
  };
  for (Stream* one : {host.get(), program.get()}) {
    one->bind_also(wire::ethertype_ipv4);
  }
  program->filter({wire::ethertype_ipv4, std::nullopt, wire::protocol_udp, test_port});
  poll();
  const int rooms = link_->rooms;
  bring_to_program(70);
  EXPECT_FALSE(link_->may_receive());
  EXPECT_EQ(program->waiting(), 70U) << "what was read is delivered";
  bring_to_program(5);
  EXPECT_EQ(program->waiting(), 75U) << "this, too, though there are two streams";
  EXPECT_EQ(program->counted("flow_dropped"), 0U);
  program->forget();
  poll();
  EXPECT_GT(link_->rooms, rooms) << "back-enabled";
  EXPECT_TRUE(link_->may_receive());

  // The device does not wait for the other: what it has no room for is lost to it alone.
  bring(70);
  program->forget();
  EXPECT_TRUE(link_->may_receive());
  bring(5);
  EXPECT_EQ(host->counted("flow_dropped"), 5U);
  EXPECT_EQ(program->waiting(), 5U);
  program->forget();

  // One that is bound to something else has a user of its own.
  {
    const auto other = stream();
    bring_to_program(70);
    EXPECT_FALSE(link_->may_receive());
    other->bind_also(0x9001);
    EXPECT_TRUE(link_->may_receive());
    bring_to_program(5);
    EXPECT_EQ(program->counted("flow_dropped"), 5U);
    program->forget();
  }
  // So has one that watches the others.
  {
    const auto other = stream();
    other->request(PromisconReq{DL_PROMISC_SAP});
    bring_to_program(75);
    EXPECT_TRUE(link_->may_receive());
    program->forget();
  }

  // A full stream that goes keeps nobody waiting, and neither does one of two with filters.
  bring_to_program(70);
  EXPECT_FALSE(link_->may_receive());
  {
    const auto second = stream();
    second->bind_also(wire::ethertype_ipv4);
    EXPECT_FALSE(link_->may_receive()) << "it has no filter";
    second->filter({wire::ethertype_ipv4, std::nullopt, wire::protocol_udp, std::uint16_t{7001}});
    EXPECT_TRUE(link_->may_receive());
    bring_to_program(5);
    EXPECT_EQ(program->counted("flow_dropped"), 10U);
  }
  EXPECT_FALSE(link_->may_receive());
  const int before = link_->rooms;
  program.reset();
  host->forget();
  poll();
  EXPECT_TRUE(link_->may_receive());
  EXPECT_GT(link_->rooms, before) << "the device is told";
}

TEST_F(Flow, FramesWaitForTheDeviceInOrder) {
  const auto one = stream();
  link_->room = 2;
  for (char name = 'a'; name < 'g'; ++name) {
    one->send(peer_address, bytes_of(std::string(1, name)));
  }
  poll();
  EXPECT_EQ(link_->out.size(), 2U);
  EXPECT_EQ(one->driver().write_queue().messages(), 4U);
  link_->room = 3;
  link_->transmit_ready();
  poll();
  EXPECT_EQ(link_->out.size(), 5U);
  link_->room = 10;
  one->send(peer_address, bytes_of("g"));
  poll();
  EXPECT_EQ(link_->out.size(), 5U) << "a later frame does not overtake";
  link_->transmit_ready();
  poll();
  std::string order;
  while (const Message sent = link_->out.pop()) {
    order += as_text(sent.bytes().subspan(14, 1));
  }
  EXPECT_EQ(order, "abcdefg");
}

TEST_F(Flow, AFullDeviceDoesNotSpinTheScheduler) {
  const auto one = stream();
  link_->room = 0;
  one->send(peer_address, bytes_of("a"));
  one->send(peer_address, bytes_of("b"));
  poll();
  EXPECT_EQ(set_.scheduler().next_deadline(), never);
}

TEST_F(Flow, AWriterThatIgnoresFlowControlIsBounded) {
  const auto one = stream();
  link_->room = 0;
  const std::vector<std::byte> data(1500);
  for (int at = 0; at < 5000; ++at) {
    one->send(peer_address, data);
  }
  EXPECT_FALSE(one->head().write_queue().can_put_next());
  EXPECT_GT(one->counted("transmit_overrun"), 0U);
  EXPECT_LE(one->driver().write_queue().bytes(), LinkStream::overrun_factor * LinkStream::high_water_bytes_min + 1514);
}

TEST_F(Flow, AWriterIsBackEnabled) {
  const auto one = stream();
  link_->room = 0;
  while (one->head().write_queue().can_put_next()) {
    one->send(peer_address, std::vector<std::byte>(1500));
  }
  poll();
  const int services = one->head().write_services;
  link_->room = 1'000'000;
  link_->transmit_ready();
  poll();
  EXPECT_TRUE(one->driver().write_queue().empty());
  EXPECT_EQ(one->head().write_services, services + 1);
}

TEST_F(Flow, AnExhaustedPoolLosesFramesButNothingElse) {
  StreamSet small(StreamSet::Options{.pool_bytes_max = 2 << 20});
  const auto link = std::make_shared<TestLink>(small);
  Stream one(small);
  ASSERT_TRUE(one.open(driver_on(link)));
  one.bind(test_sap);
  std::vector<Message> hoard;
  // What a frame and its primitive come from, in turn, so that the pool has both again afterwards.
  for (bool left = true; left;) {
    left = false;
    for (const std::size_t capacity : {std::size_t{128}, std::size_t{96}, std::size_t{64}}) {
      if (Message message = Message::allocate(small.pool(), capacity)) {
        hoard.push_back(std::move(message));
        left = true;
      }
    }
  }
  Batch frames(std::move(hoard.back()));
  hoard.pop_back();
  Block& block = *frames.front();
  const auto small_frame = frame(TestLink::mac, test_sap, bytes_of("x"));
  std::memcpy(block.rptr, small_frame.data(), small_frame.size());
  block.wptr = block.rptr + small_frame.size();
  link->bring(std::move(frames));
  EXPECT_EQ(one.counted("no_memory"), 1U);
  EXPECT_EQ(one.waiting(), 0U);
  hoard.clear();
  one.forget();
  link->bring(small_frame);
  EXPECT_EQ(one.waiting(), 1U);
}

}  // namespace
}  // namespace sluice::dlpi::test
