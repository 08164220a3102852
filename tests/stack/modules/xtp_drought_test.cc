// SPDX-License-Identifier: Apache-2.0
// The pool fails in every place, one after the other, once and for a while: a whole association is played with its n-th
// allocation failing, for n = 0 and so on until none is left to fail. What was sent comes all the same, once and in
// order, both ends are released, and nothing is left.
#include <gtest/gtest.h>

#include <string>

#include "tests/stack/modules/xtp_bed.h"

namespace sluice::test::associations {
namespace {

using namespace std::chrono_literals;

/// Allocations that fail: so many from `first` on, counted over both ends.
struct XtpDrought {
  std::size_t first = 0;
  std::size_t length = 0;
};

class XtpDroughts : public testing::TestWithParam<ProcessingMode> {
 protected:
  /// Whether the association asked the pool so often that the drought came.
  static bool survives(const xtp::Options& options, const XtpDrought& drought) {
    XtpBed bed({options, options}, GetParam(), 1);
    const std::array plans{Plan{.pattern = 1, .ends = {50, 3000, 3001}}, Plan{.pattern = 2, .ends = {2500, 2600}}};
    for (std::size_t at = 0; at < 2; ++at) {
      bed[at].user().sends = plans[at];
      bed[at].user().expects = plans[1 - at];
    }
    // A gap on each side, so that spans are told and data goes again.
    bed.loses = [seen = 0](const Packet&) mutable { return ++seen == 9 || seen == 14; };
    std::size_t asked = 0;
    const auto fails = [&asked, drought] { return asked++ - drought.first < drought.length; };
    bed[0].set().pool().fail_when(fails);
    bed[1].set().pool().fail_when(fails);
    bind(bed, 0);
    bind(bed, 1);
    bed[1].user().call(XtpBed::address(0));
    for (int turn = 0; turn < 40 && !(is_done(bed, 0) && is_done(bed, 1)); ++turn) {
      bed.run(10s);
    }
    bed.run(200s);
    for (std::size_t at = 0; at < 2; ++at) {
      const XtpUser& user = bed[at].user();
      EXPECT_EQ(user.wrong, "") << at;
      EXPECT_FALSE(user.fatal) << at;
      EXPECT_EQ(user.connections, 1) << at;
      EXPECT_TRUE(user.disconnections.empty()) << at << ": " << user.disconnections.front();
      EXPECT_TRUE(std::ranges::all_of(user.errors, [](std::int32_t one) { return one == tpi::TSYSERR; })) << at;
      EXPECT_TRUE(is_done(bed, at)) << at << ": " << user.sent << " sent, " << user.received << " received, "
                                    << user.released << user.peer_released;
      EXPECT_EQ(user.received, plans[1 - at].size()) << at;
      EXPECT_EQ(bed[at].module().lingering(), 0U) << at;
      EXPECT_EQ(bed[at].set().scheduler().next_deadline(), never) << at;
      EXPECT_EQ(bed[at].set().pool().statistics().buffers_in_use, 0U) << at;
    }
    return asked > drought.first;
  }

 private:
  /// What is refused for want of memory is asked for again.
  static void bind(XtpBed& bed, std::size_t at) {
    for (int attempt = 0; attempt < 20 && !bed[at].user().bound; ++attempt) {
      bed[at].user().bind(at == 0 ? 4 : 0);
      bed.run(1s);
    }
    EXPECT_TRUE(bed[at].user().bound) << at;
  }
  static bool is_done(XtpBed& bed, std::size_t at) { return bed[at].user().released && bed[at].user().peer_released; }
};

TEST_P(XtpDroughts, ThePoolMayFailInAnyPlace) {
  for (const bool selective : {true, false}) {
    xtp::Options options{.packet_bytes = 300};
    options.selective = selective;
    options.receive_buffer_bytes = options.send_buffer_bytes = 2048;
    for (const std::size_t length : {std::size_t{1}, std::size_t{3}, std::size_t{12}}) {
      std::size_t first = 0;
      for (bool came = true; came && first < 10'000; ++first) {
        SCOPED_TRACE("selective " + std::to_string(selective) + ", allocations " + std::to_string(first) + " + " +
                     std::to_string(length));
        came = survives(options, {.first = first, .length = length});
        ASSERT_FALSE(HasFailure());
      }
      EXPECT_GT(first, 50U) << "few places to fail in";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Modes, XtpDroughts, testing::Values(ProcessingMode::layered, ProcessingMode::fused));

}  // namespace
}  // namespace sluice::test::associations
