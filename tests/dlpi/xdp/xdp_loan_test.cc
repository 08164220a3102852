// SPDX-License-Identifier: Apache-2.0
// Frames that the xdp driver shows where they lie in its slots, to fused streams: what they cost, and what happens when
// they are held.
#include <algorithm>
#include <string>
#include <vector>

#include "dlpi/xdp.h"
#include "tests/dlpi/interface_loan.h"
#include "tests/dlpi/test_stream.h"
#include "tests/dlpi/xdp/xdp_namespace.h"

namespace sluice::dlpi::test {
namespace {

class XdpLoan : public InterfaceLoan<XdpVethTest> {
 protected:
  XdpLoan() : InterfaceLoan({.driver = "xdp", .kind = "mode", .room = "frames"}) {}
};

TEST_P(XdpLoan, BytesOfAllSizesComeAsTheyWereSent) { bytes_of_all_sizes_come_as_they_were_sent(); }

TEST_P(XdpLoan, AFrameIsShownWhereItLies) {
  Stream near(set_);
  Message up = shown_frame(near);
  ASSERT_TRUE(up);
  // A slot that is held keeps nobody waiting: it stays where it is, and headers that were passed can be gone back to.
  run_for(set_, std::chrono::milliseconds(10));
  EXPECT_TRUE(is_lent(up));
  EXPECT_EQ(data_of(up), payload_of(1));
  expect_header_in_front(std::move(up));
}

TEST_P(XdpLoan, SmallFramesAreCopied) { copies_frames_below(XdpLink::lent_bytes_min); }

TEST_P(XdpLoan, WhereOneStreamIsLayeredFramesAreCopied) { copies_frames_where_one_stream_is_layered(); }

// A full stream's frames do not take slots: all of them are there for what comes.
TEST_P(XdpLoan, AFullStreamLeavesAllSlotsToTheKernel) {
  Stream near(set_);
  constexpr std::uint32_t slots = 128;
  open(near, "near", ProcessingMode::fused, slots);
  constexpr std::uint32_t to_head = 60;
  near.head().read_queue().set_marks({.high_bytes = to_head * 1400, .low_bytes = 1400});
  open_far();
  for (std::uint32_t at = 0; at < to_head; ++at) {
    send(at);
  }
  ASSERT_TRUE(run_until_waiting(near, to_head));
  for (std::uint32_t at = to_head; at < to_head + slots; ++at) {
    send(at);
  }
  std::uint32_t got = 0;
  EXPECT_TRUE(run_until(set_,
                        [&] {
                          while (Message up = near.next()) {
                            EXPECT_EQ(data_of(up), payload_of(got));
                            ++got;
                          }
                          return got == to_head + slots;
                        }))
      << got << " " << near.counts();
}

// More than may be lent is held for good, and more comes all the same. What was lent first is recalled first.
TEST_P(XdpLoan, HeldFramesDoNotStallTheQueue) {
  Stream near(set_);
  constexpr std::uint32_t slots = 64;
  open(near, "near", ProcessingMode::fused, slots);
  open_far();
  std::vector<Message> held;
  constexpr std::uint32_t count = 40 * slots;
  for (std::uint32_t sent = 0; sent < count;) {
    for (std::uint32_t at = 0; at < slots / 4; ++at) {
      send(sent++);
    }
    ASSERT_TRUE(run_until(set_,
                          [&] {
                            while (Message up = near.next()) {
                              EXPECT_TRUE(is_lent(up));
                              EXPECT_EQ(number_of(up), held.size());
                              held.push_back(std::move(up));
                            }
                            return held.size() == sent;
                          }))
        << held.size() << " " << near.counts();
    const auto first_lent = std::ranges::find_if(held, [](const Message& up) { return is_lent(up); });
    EXPECT_TRUE(std::all_of(first_lent, held.end(), [](const Message& up) { return is_lent(up); }));
    EXPECT_LE(held.end() - first_lent, slots / 2);
  }
  EXPECT_EQ(near.counted("kernel_dropped"), 0U);
  for (Message& up : held) {
    EXPECT_EQ(data_of(up), payload_of(number_of(up)));
  }
}

TEST_P(XdpLoan, NoMoreIsLentThanMayBe) { lends_between(1, XdpQueue::loans_max); }

TEST_P(XdpLoan, HeldFramesOutliveTheLink) { held_frames_outlive_the_link(); }

INSTANTIATE_TEST_SUITE_P(Modes, XdpLoan, testing::Values("generic", "native"), name_of_driver);

}  // namespace
}  // namespace sluice::dlpi::test
