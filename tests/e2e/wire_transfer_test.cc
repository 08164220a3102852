// SPDX-License-Identifier: Apache-2.0
// Files through two whole stacks in simulated time: over IPv4 and IPv6, over a bad link, and while
// modules come and go.
#include "tests/e2e/wire_transfer.h"
#include "tests/capture_into.h"

#include "stack/modules/capture.h"
#include "tests/file_text.h"

namespace sluice::ftx {
namespace {

TEST_F(WireTransfer, OverIpv4) {
  write_source(3'000'001);
  const Event done = transfer(two_hosts(1500, "", ""), *wire::IpAddress::from_text("10.79.0.2"), 1472);
  EXPECT_EQ(done.kind, Event::Kind::done);
  EXPECT_EQ(done.out_of_order, 0U);
  EXPECT_EQ(file_text(directory_ / "big.bin"), file_text(directory_ / "in" / "big.bin"));
}

TEST_F(WireTransfer, OverIpv6) {
  write_source(1'000'000);
  transfer(two_hosts(1500, "", ""), *wire::IpAddress::from_text("fd00:79::2"), 1452);
  EXPECT_EQ(file_text(directory_ / "big.bin"), file_text(directory_ / "in" / "big.bin"));
}

TEST_F(WireTransfer, OverABadLink) {
  write_source(2'000'000);
  const std::string fault =
      "fault = { loss = 5, reorder = 5, duplicate = 1, bit_errors = 1e-7, delay_ms = 2, reorder_ms = 3, seed = 11 }";
  const Event done = transfer(two_hosts(1500, "\"fault\", ", fault), *wire::IpAddress::from_text("10.79.0.2"), 1472);
  EXPECT_EQ(done.kind, Event::Kind::done);
  EXPECT_GT(done.out_of_order, 0U);
  EXPECT_GT(done.repaired, 0U);
  EXPECT_EQ(file_text(directory_ / "big.bin"), file_text(directory_ / "in" / "big.bin"));
}

TEST_F(WireTransfer, OnTheFusedPathTheRunIsTheSame) {
  write_source(2'000'000);
  const std::string fault =
      "fault = { loss = 5, reorder = 5, duplicate = 1, bit_errors = 1e-7, delay_ms = 2, reorder_ms = 3, seed = 11 }";
  std::vector<Event> done;
  for (const std::string_view path : {"layered", "fused"}) {
    done.push_back(
        transfer(two_hosts(1500, "\"fault\", ", fault, path), *wire::IpAddress::from_text("10.79.0.2"), 1472));
    EXPECT_EQ(file_text(directory_ / "big.bin"), file_text(directory_ / "in" / "big.bin"));
    fs::remove(directory_ / "in" / "big.bin");
  }
  EXPECT_EQ(done[0].kind, Event::Kind::done);
  EXPECT_EQ(done[0].adus, done[1].adus);
  EXPECT_EQ(done[0].repaired, done[1].repaired);
  EXPECT_EQ(done[0].out_of_order, done[1].out_of_order);
  EXPECT_EQ(done[0].seconds, done[1].seconds);
}

// A capture de-fuses both streams and lets go of them again, tens of thousands of times, between two turns of a
// transfer that never pauses: nothing is lost, nothing comes out of order, no byte is wrong, and what the capture saw
// was real.
TEST_F(WireTransfer, ACaptureComesAndGoesWhileDataFlows) {
  write_source(100'000'000);
  int pushed = 0;
  int popped = 0;
  std::uint64_t materialized = 0;
  std::uint64_t written_bytes = 0;
  const auto capture = [&] {
    return std::make_unique<Capture>(sluice::test::capture_into([&](ConstBytes bytes) {
      written_bytes += bytes.size();
      return true;
    }));
  };
  const Event done = transfer(two_hosts(1500, "", "", "fused"), *wire::IpAddress::from_text("10.79.0.2"), 1472,
                              [&](Stream& sender, Stream& receiver) {
                                for (Stream* stream : {&sender, &receiver}) {
                                  if (stream->find("capture")) {
                                    materialized +=
                                        stream->chain().modules().front()->read_queue().statistics().materialized;
                                    ASSERT_TRUE(stream->pop());
                                    ++popped;
                                  } else {
                                    ASSERT_TRUE(stream->push(capture()));
                                    ++pushed;
                                  }
                                }
                              });
  EXPECT_GE(pushed, 1500) << "each side, hundreds of times";
  EXPECT_GE(popped, pushed - 2);
  EXPECT_GT(materialized, 1000U) << "checks were still owed when messages reached the capture";
  EXPECT_GT(written_bytes, 1'000'000U);
  EXPECT_EQ(done.kind, Event::Kind::done);
  EXPECT_EQ(done.repaired, 0U) << "the link loses nothing";
  EXPECT_EQ(done.out_of_order, 0U);
  EXPECT_TRUE(file_text(directory_ / "big.bin") == file_text(directory_ / "in" / "big.bin"));
}

}  // namespace
}  // namespace sluice::ftx
