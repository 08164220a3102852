// SPDX-License-Identifier: Apache-2.0
// The pool fails in every place, one after the other, once and for a while, under endpoints that send each other short
// and long messages, expected and unexpected: each handle ends, with its bytes or with an error, what is told as done
// is right, and nothing is left in the pool.
#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <vector>

#include "tests/msg/bed.h"

namespace sluice::test::msgs {
namespace {

/// What one end sends, and the receives of the other for it.
struct Exchange {
  std::vector<std::vector<std::byte>> contents;
  std::vector<std::vector<std::byte>> buffers;
  std::vector<Result<Handle>> sends;
  std::vector<Result<Handle>> receives;
};

constexpr std::array<std::size_t, 4> drought_sizes{0, 700, 9000, 30'000};

/// Whether the pool was asked so often that the drought came.
bool drought_case(const Arrangement& arrangement, std::size_t first, std::size_t length) {
  const bool reliable = arrangement.module != "utopia";
  const bool connects = arrangement.module == "tcp";
  Bed bed(arrangement, 2);
  bed.settle();
  const std::size_t in_use = bed.set().pool().statistics().buffers_in_use;
  std::size_t asked = 0;
  bed.set().pool().fail_when([&] { return asked++ - first < length; });
  std::array<Exchange, 2> all;
  const auto post = [&](std::size_t from, std::size_t which) {
    Exchange& one = all[from];
    one.buffers.emplace_back(drought_sizes.back());
    one.receives.push_back(bed[1 - from].post(one.buffers.back(), {.bits = which}));
  };
  for (std::size_t from = 0; from < 2; ++from) {
    all[from].contents.reserve(drought_sizes.size());
    post(from, 0);
    post(from, 1);
    for (std::size_t which = 0; which < drought_sizes.size(); ++which) {
      Exchange& one = all[from];
      one.contents.push_back(content(which + from * 10, drought_sizes[which]));
      one.sends.push_back(bed[from].send(bed.peer(1 - from), which, one.contents.back()));
    }
  }
  bed.pass(std::chrono::seconds(5));
  post(0, 2);
  post(0, 3);
  post(1, 2);
  post(1, 3);
  bed.pass(std::chrono::minutes(10));
  for (std::size_t from = 0; from < 2; ++from) {
    const Exchange& one = all[from];
    for (std::size_t which = 0; which < drought_sizes.size(); ++which) {
      SCOPED_TRACE("message " + std::to_string(which) + " of " + std::to_string(from));
      if (!one.receives[which]) {
        ADD_FAILURE() << "a receive was refused: " << one.receives[which].error().text;
        continue;
      }
      bool sent = false;
      if (one.sends[which]) {
        const auto done = bed[from].test(*one.sends[which]);
        EXPECT_TRUE(done) << "a send does not end";
        sent = done && done->error == 0;
        // A module has taken a message, or nothing of it; connections try again.
        const bool refused = done && done->error == ENOBUFS && !connects;
        EXPECT_TRUE(!reliable || sent || refused) << "error " << (done ? done->error : -1);
      }
      const auto done = bed[1 - from].test(*one.receives[which]);
      if (done && done->error == 0) {
        EXPECT_EQ(done->bytes, drought_sizes[which]);
        EXPECT_TRUE(std::equal(one.contents[which].begin(), one.contents[which].end(), one.buffers[which].begin()));
      }
      EXPECT_TRUE(!reliable || !sent || (done && done->error == 0)) << "said to have come";
      EXPECT_TRUE(!reliable || connects || sent || !done || done->error != 0)
          << "said not to have been taken, and it came";
      if (!done) {
        EXPECT_TRUE(bed[1 - from].cancel(*one.receives[which]));
      }
    }
  }
  bed.pass(std::chrono::minutes(10));
  EXPECT_EQ(bed.set().pool().statistics().buffers_in_use, in_use);
  bed.set().pool().fail_when(nullptr);
  return asked > first;
}

class MsgDrought : public testing::TestWithParam<Arrangement> {};

TEST_P(MsgDrought, ThePoolMayFailInAnyPlace) {
  for (const std::size_t length : {std::size_t{1}, std::size_t{12}}) {
    std::size_t first = 0;
    for (bool came = true; came && first < 10'000; ++first) {
      SCOPED_TRACE("allocations " + std::to_string(first) + " + " + std::to_string(length));
      came = drought_case(GetParam(), first, length);
      ASSERT_FALSE(HasFailure());
    }
    EXPECT_GT(first, 50U) << "few places to fail in";
  }
}

INSTANTIATE_TEST_SUITE_P(Modules, MsgDrought,
                         testing::Values(Arrangement{.name = "rmpp_layered", .module = "rmpp", .mode = "layered"},
                                         Arrangement{.name = "rmpp_fused", .module = "rmpp", .mode = "fused"},
                                         Arrangement{.name = "utopia_fused", .module = "utopia", .mode = "fused"},
                                         Arrangement{.name = "tcp_fused", .module = "tcp", .mode = "fused"}),
                         [](const auto& one) { return one.param.name; });

}  // namespace
}  // namespace sluice::test::msgs
