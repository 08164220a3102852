// SPDX-License-Identifier: Apache-2.0
// Packets are lost, doubled and overtake each other: rmpp delivers every message, once and in order; of utopia's
// messages some are lost, what arrives is right, and nothing waits for ever.
#include <gtest/gtest.h>

#include <cerrno>

#include "tests/msg/bed.h"

namespace sluice::test::msgs {
namespace {

constexpr std::size_t messages = 40;

std::size_t size_of(std::uint64_t which) { return which % 4 == 0 ? which % 1400 : which * 7919 % 30'000; }

/// Forty messages from 0 to 1 through a receive each, posted in their order.
struct Transfers {
  Transfers(const std::string& module, const std::string& mode, const std::string& settings, std::uint64_t seed)
      : bed({.name = "loss",
             .module = module,
             .mode = mode,
             .settings = settings,
             .fault = "loss = 4, duplicate = 2, reorder = 2, reorder_ms = 3, delay_ms = 0.2",
             .seed = seed},
            2) {
    for (std::uint64_t which = 0; which < messages; ++which) {
      buffers.emplace_back(30'000);
      receives.push_back(*bed[1].post(buffers.back(), {.bits = 7}));
      contents.push_back(content(which, size_of(which)));
    }
    for (std::uint64_t which = 0; which < messages; ++which) {
      sends.push_back(*bed[0].send(bed.peer(1), 7, contents[which]));
    }
    bed.pass(std::chrono::minutes(10));
  }
  std::vector<std::vector<std::byte>> buffers;
  std::vector<std::vector<std::byte>> contents;
  std::vector<Handle> receives;
  std::vector<Handle> sends;
  Bed bed;
};

constexpr auto modes = {"layered", "fused"};

TEST(MsgLoss, RmppDeliversEveryMessageInOrder) {
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    for (const std::string mode : modes) {
      for (const std::string settings : {"", "recovery = \"selective\""}) {
        SCOPED_TRACE(mode + " " + settings + " seed " + std::to_string(seed));
        Transfers run("rmpp", mode, settings + (settings.empty() ? "" : ", ") + "attempts = 200", seed);
        EXPECT_GT(run.bed.count(0, "fault", "down_lost"), 0U);
        EXPECT_GT(run.bed.count(0, "rmpp", "repeated"), 0U);
        for (std::uint64_t which = 0; which < messages; ++which) {
          const auto received = run.bed[1].test(run.receives[which]);
          ASSERT_TRUE(received) << which;
          EXPECT_EQ(received->error, 0) << which;
          ASSERT_EQ(received->bytes, run.contents[which].size()) << which;
          EXPECT_TRUE(std::equal(run.contents[which].begin(), run.contents[which].end(), run.buffers[which].begin()))
              << which;
          const auto sent = run.bed[0].test(run.sends[which]);
          ASSERT_TRUE(sent) << which;
          EXPECT_EQ(sent->error, 0) << which;
        }
      }
    }
  }
}

TEST(MsgLoss, UtopiaLosesAndNothingHangs) {
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    for (const std::string mode : modes) {
      SCOPED_TRACE(mode + " seed " + std::to_string(seed));
      Transfers run("utopia", mode, "dead_ms = 2000", seed);
      std::size_t whole = 0;
      std::size_t lost = 0;
      std::size_t waiting = 0;
      std::uint64_t next = 0;  // the message that comes at the earliest
      for (std::size_t at = 0; at < messages; ++at) {
        const auto received = run.bed[1].test(run.receives[at]);
        if (!received) {
          EXPECT_EQ(received.error().code, EAGAIN);
          EXPECT_TRUE(run.bed[1].cancel(run.receives[at])) << "of a message that never came";
          ++waiting;
        } else if (received->error == 0) {
          ++whole;
          while (next < messages &&
                 (run.contents[next].size() != received->bytes ||
                  !std::equal(run.contents[next].begin(), run.contents[next].end(), run.buffers[at].begin()))) {
            ++next;
          }
          EXPECT_LT(next, messages) << "receive " << at << " has no message, or an earlier one";
          ++next;
        } else {
          EXPECT_EQ(received->error, ECONNABORTED);
          ++lost;
        }
      }
      EXPECT_GT(whole, 0U);
      EXPECT_GT(lost + waiting, 0U);
      EXPECT_EQ(run.bed[1].statistics().lost, lost);
      for (const Handle handle : run.sends) {
        const auto sent = run.bed[0].test(handle);
        ASSERT_TRUE(sent);
        EXPECT_TRUE(sent->error == 0 || sent->error == ETIMEDOUT) << sent->error;
      }
    }
  }
}

}  // namespace
}  // namespace sluice::test::msgs
