// SPDX-License-Identifier: Apache-2.0
// What a byte of a message costs, by the touch counts of the pool: on its way from the sender's memory, where it stays
// until its frame is summed, to the receiver's stream head; and from there to the posted buffer. The wire in memory
// shows frames; a device that copies them adds a load and a store.
#include <gtest/gtest.h>

#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "tests/msg/bed.h"

namespace sluice::test::msgs {
namespace {

/// Of a payload byte.
struct ByteTouches {
  double loads = 0;
  double stores = 0;
};

struct TouchCase {
  std::string module;
  std::string mode;
  std::size_t size;
  ByteTouches carried;  // to the stream head
  ByteTouches read;     // from there
  friend std::ostream& operator<<(std::ostream& out, const TouchCase& one) {
    return out << one.module << "_" << one.mode << "_" << one.size;
  }
};

class MsgTouches : public testing::TestWithParam<TouchCase> {
 protected:
  void exchange(std::size_t size) {
    const std::vector<std::byte> bytes = content(1, size);
    std::vector<std::byte> buffer(size);
    const Handle receive = *bed_[1].post(buffer, {.bits = 1});
    carried_ = read_ = {};
    bed_.set().pool().touches() = {};
    const Handle sending = *bed_[0].send(bed_.peer(1), 1, bytes);
    bool received = false;
    // In turns: what can move without the receiving endpoint, and what that reads.
    for (int round = 0; round < 10'000 && !received; ++round) {
      for (int turn = 0; turn < 1000 && bed_.waiter().wait(bed_.waiter().now() + 10us); ++turn) {
      }
      add(carried_);
      bed_[1].progress();
      add(read_);
      const auto done = bed_[1].test(receive);
      received = done.has_value();
      EXPECT_TRUE(!done || done->error == 0);
    }
    EXPECT_TRUE(received);
    EXPECT_TRUE(buffer == bytes);
    bed_.settle();
    EXPECT_EQ(bed_[0].wait(sending, bed_.soon())->error, 0);
  }
  static void expect(const Touches& real, const ByteTouches& meant, std::size_t size, double headers) {
    const auto bytes = static_cast<double>(size);
    EXPECT_NEAR(static_cast<double>(real.loaded_bytes) / bytes, meant.loads, headers);
    EXPECT_NEAR(static_cast<double>(real.stored_bytes) / bytes, meant.stores, headers);
  }

  Bed bed_{{.name = "touches", .module = GetParam().module, .mode = GetParam().mode}, 2};
  Touches carried_;
  Touches read_;

 private:
  void add(Touches& to) {
    const Touches now = std::exchange(bed_.set().pool().touches(), Touches{});
    to.loaded_bytes += now.loaded_bytes;
    to.stored_bytes += now.stored_bytes;
  }
};

TEST_P(MsgTouches, OfEachByteAreThese) {
  bed_.hold_back(1);
  exchange(1);  // who is new is believed only when all of his first packet has been verified
  const TouchCase& meant = GetParam();
  exchange(meant.size);
  // Headers of 64 bytes and below are touched, too, once more for each answer.
  const double headers = meant.size > 1400 ? 0.15 : 0.45;
  {
    SCOPED_TRACE("from the sender's memory to the stream head");
    expect(carried_, meant.carried, meant.size, headers);
  }
  SCOPED_TRACE("from the stream head to the posted buffer");
  expect(read_, meant.read, meant.size, headers);
}

// Fused: one load, for the sum, on the way down, and one load and one store, which check and copy, on the way up.
// Layered, the check is a load more. utopia verifies the packets of a message's last grant before they go up
// (stack/modules/utopia.h), on a fused path, too: that is all of a message of one packet.
constexpr std::size_t long_size = 1 << 20;
constexpr std::size_t packet_size = 1400;
INSTANTIATE_TEST_SUITE_P(Of, MsgTouches,
                         testing::Values(TouchCase{"rmpp", "fused", long_size, {1, 0}, {1, 1}},
                                         TouchCase{"rmpp", "layered", long_size, {2, 0}, {1, 1}},
                                         TouchCase{"utopia", "fused", long_size, {1, 0}, {1, 1}},
                                         TouchCase{"utopia", "layered", long_size, {2, 0}, {1, 1}},
                                         TouchCase{"rmpp", "fused", packet_size, {1, 0}, {1, 1}},
                                         TouchCase{"rmpp", "layered", packet_size, {2, 0}, {1, 1}},
                                         TouchCase{"utopia", "fused", packet_size, {2, 0}, {1, 1}},
                                         TouchCase{"utopia", "layered", packet_size, {2, 0}, {1, 1}}),
                         testing::PrintToStringParamName());

/// Over connections, whose sender keeps what is not acknowledged: his bytes are copied once. What comes before the
/// first turn of the reader, who does not know of the message yet, is copied once more.
class ConnectionTouches : public testing::TestWithParam<TouchCase> {};

TEST_P(ConnectionTouches, OfEachByteAreThese) {
  const TouchCase& meant = GetParam();
  Bed bed({.name = "touches",
           .module = meant.module,
           .mode = meant.mode,
           .settings = "send_buffer_bytes = 65536, receive_buffer_bytes = 65536",
           .fault = "delay_ms = 0.1",  // what comes does not come while the reader reads
           .offload = false,
           .fault_below_ip = true},
          2);
  const std::vector<std::byte> bytes = content(1, meant.size);
  std::vector<std::byte> buffer(meant.size);
  const auto exchange = [&](std::size_t size) {
    const Handle receive = *bed[1].post(Bytes(buffer).first(size), {.bits = 1});
    const Handle sending = *bed[0].send(bed.peer(1), 1, ConstBytes(bytes).first(size));
    const auto done = bed[1].wait(receive, bed.soon());
    EXPECT_TRUE(done && done->error == 0 && done->bytes == size);
    EXPECT_EQ(bed[0].wait(sending, bed.soon())->error, 0);
  };
  exchange(1);  // they know each other then
  bed.settle();
  bed.set().pool().touches() = {};
  exchange(meant.size);
  EXPECT_TRUE(buffer == bytes);
  const Touches real = bed.set().pool().touches();
  const auto size = static_cast<double>(meant.size);
  const double more = 0.5;  // headers, and what comes first
  EXPECT_NEAR(static_cast<double>(real.loaded_bytes) / size, meant.carried.loads + meant.read.loads, more);
  EXPECT_NEAR(static_cast<double>(real.stored_bytes) / size, meant.carried.stores + meant.read.stores, more);
}

// Fused: a load and a store from the sender's memory to what is kept, and one of each from the frame to the posted
// buffer; udp below xtp sums each packet, too, but from what the copy has made known, and the pass that ends at the
// buffer makes both checks. Layered, each sum and each check is a load more; and what xtp keeps for the reader is
// copied, since on this wire it lies in the sender's large buffers.
INSTANTIATE_TEST_SUITE_P(Of, ConnectionTouches,
                         testing::Values(TouchCase{"tcp", "fused", long_size, {1, 1}, {1, 1}},
                                         TouchCase{"tcp", "layered", long_size, {2, 1}, {2, 1}},
                                         TouchCase{"xtp", "fused", long_size, {1, 1}, {1, 1}},
                                         TouchCase{"xtp", "layered", long_size, {3, 1}, {4, 2}}),
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace sluice::test::msgs
