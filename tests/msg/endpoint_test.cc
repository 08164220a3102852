// SPDX-License-Identifier: Apache-2.0
// What an endpoint does, over each arrangement: our udp on a wire, layered and fused, and the kernel's; rmpp and
// utopia.
#include "msg/endpoint.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <initializer_list>
#include <vector>

#include "stack/modules/rmpp.h"
#include "stack/modules/timod.h"
#include "tests/msg/bed.h"
#include "tests/tli/harness.h"

namespace sluice::test::msgs {
namespace {

std::vector<Arrangement> arrangements() {
  std::vector<Arrangement> all;
  for (const std::string module : {"rmpp", "utopia", "tcp"}) {
    for (const std::string mode : {"layered", "fused"}) {
      all.push_back({.name = "wire_" + module + "_" + mode, .module = module, .mode = mode});
      all.push_back({.name = "kernel_" + module + "_" + mode, .kernel = true, .module = module, .mode = mode});
    }
  }
  return all;
}

std::vector<std::size_t> sizes(std::initializer_list<std::size_t> list) { return list; }

class Msg : public testing::TestWithParam<Arrangement> {
 protected:
  Handle post(std::size_t at, std::vector<std::byte>& buffer, const Match& match) {
    const auto handle = bed[at].post(buffer, match);
    EXPECT_TRUE(handle) << handle.error().text;
    return handle.value_or(Handle{});
  }
  Handle send(std::size_t from, std::size_t to, std::uint64_t bits, const std::vector<std::byte>& bytes) {
    const auto handle = bed[from].send(bed.peer(to), bits, bytes);
    EXPECT_TRUE(handle) << handle.error().text;
    return handle.value_or(Handle{});
  }
  Completion wait(std::size_t at, Handle handle) {
    const auto done = bed[at].wait(handle, bed.soon());
    EXPECT_TRUE(done) << done.error().code;
    return done.value_or(Completion{.error = -1});
  }
  int error_of_test(std::size_t at, Handle handle) {
    const auto done = bed[at].test(handle);
    return done ? 0 : done.error().code;
  }
  Completion good(std::size_t peer, std::uint64_t bits, std::size_t bytes) {
    return {.error = 0, .peer = bed.peer(peer), .bits = bits, .bytes = bytes, .total_bytes = bytes};
  }

  Bed bed{GetParam(), 2};
};

INSTANTIATE_TEST_SUITE_P(Over, Msg, testing::ValuesIn(arrangements()),
                         [](const auto& tested) { return tested.param.name; });

// The packets of both modules carry 1400 bytes.
TEST_P(Msg, MessagesOfAnySizeComeWholeWhetherOrNotTheyAreExpected) {
  std::uint64_t bits = 100;
  for (const std::size_t size : sizes({0, 1, 2, 1399, 1400, 1401, 2799, 2800, 2801, 16 * 1400, 23'801, 100'000})) {
    for (const bool expected : {true, false}) {
      const std::vector<std::byte> sent = content(++bits, size);
      std::vector<std::byte> buffer(size + 1, std::byte{0xee});
      Handle receive;
      if (expected) {
        receive = post(1, buffer, {.bits = bits});
      }
      const Handle sending = send(0, 1, bits, sent);
      if (!expected) {
        EXPECT_EQ(wait(0, sending), good(1, bits, size));
        receive = post(1, buffer, {.bits = bits});
      }
      EXPECT_EQ(wait(1, receive), good(0, bits, size)) << size << " expected " << expected;
      if (expected) {
        EXPECT_EQ(wait(0, sending), good(1, bits, size));
      }
      EXPECT_TRUE(std::equal(sent.begin(), sent.end(), buffer.begin())) << size << " expected " << expected;
      EXPECT_EQ(buffer.back(), std::byte{0xee}) << "beyond the message";
    }
  }
  EXPECT_EQ(bed[1].statistics().stray, 0U);
  EXPECT_EQ(bed[0].statistics().stray, 0U);
  EXPECT_EQ(bed[1].statistics().unexpected_bytes, 0U);
  EXPECT_EQ(bed[1].statistics().unexpected_messages, 0U);
}

TEST_P(Msg, SixteenMebibytesLandInThePostedBuffer) {
  constexpr std::size_t size = std::size_t{16} << 20;
  const std::vector<std::byte> sent = content(5, size);
  std::vector<std::byte> buffer(size);
  const Handle receive = post(1, buffer, {.bits = 5});
  const Handle sending = send(0, 1, 5, sent);
  EXPECT_EQ(wait(1, receive), good(0, 5, size));
  EXPECT_EQ(wait(0, sending), good(1, 5, size));
  EXPECT_TRUE(sent == buffer);
}

TEST_P(Msg, AMessageLongerThanItsBufferIsTruncatedAndToldOf) {
  for (const std::size_t room : sizes({0, 1, 1400, 1401, 4999})) {
    for (const bool expected : {true, false}) {
      const std::vector<std::byte> sent = content(3, 5000);
      std::vector<std::byte> buffer(room + 8, std::byte{0xee});
      const Bytes place = Bytes(buffer).first(room);
      Handle receive;
      if (expected) {
        receive = *bed[1].post(place, {.bits = 3});
      }
      const Handle sending = send(0, 1, 3, sent);
      EXPECT_EQ(wait(0, sending).error, 0);
      if (!expected) {
        bed.settle();
        receive = *bed[1].post(place, {.bits = 3});
      }
      EXPECT_EQ(wait(1, receive),
                (Completion{.error = EMSGSIZE, .peer = bed.peer(0), .bits = 3, .bytes = room, .total_bytes = 5000}));
      EXPECT_TRUE(std::equal(place.begin(), place.end(), sent.begin()));
      EXPECT_TRUE(
          std::ranges::all_of(std::span(buffer).subspan(room), [](std::byte b) { return b == std::byte{0xee}; }));
    }
  }
  EXPECT_EQ(bed[1].statistics().truncated, 10U);
}

TEST_P(Msg, BothSidesSendAtOnce) {
  std::vector<std::vector<std::byte>> buffers(2, std::vector<std::byte>(70'000));
  const std::array<Handle, 2> receives = {post(0, buffers[0], {.bits = 1}), post(1, buffers[1], {.bits = 1})};
  const std::vector<std::byte> from0 = content(1, 70'000);
  const std::vector<std::byte> from1 = content(2, 70'000);
  const std::array<Handle, 2> sends = {send(0, 1, 1, from0), send(1, 0, 1, from1)};
  for (std::size_t at = 0; at < 2; ++at) {
    EXPECT_EQ(wait(at, receives[at]).error, 0);
    EXPECT_EQ(wait(at, sends[at]).error, 0);
  }
  EXPECT_TRUE(buffers[0] == from1);
  EXPECT_TRUE(buffers[1] == from0);
}

TEST_P(Msg, ReceivesAreMatchedInTheirOrderByBitsMaskAndSender) {
  std::vector<std::vector<std::byte>> buffers(4, std::vector<std::byte>(8));
  const Handle other_sender = post(1, buffers[0], {.bits = 0x12, .from = bed.peer(1)});
  const Handle other_bits = post(1, buffers[1], {.bits = 0x22, .ignore = 0x0f});
  const Handle masked = post(1, buffers[2], {.bits = 0x10, .ignore = 0x0f, .from = bed.peer(0)});
  const Handle exact = post(1, buffers[3], {.bits = 0x12});
  const std::vector<std::byte> one = content(1, 8);
  const std::vector<std::byte> two = content(2, 8);
  const Handle first = send(0, 1, 0x12, one);
  const Handle second = send(0, 1, 0x12, two);
  EXPECT_EQ(wait(1, masked), good(0, 0x12, 8));
  EXPECT_EQ(wait(1, exact), good(0, 0x12, 8));
  EXPECT_TRUE(buffers[2] == one);
  EXPECT_TRUE(buffers[3] == two);
  EXPECT_EQ(error_of_test(1, other_sender), EAGAIN);
  EXPECT_EQ(error_of_test(1, other_bits), EAGAIN);
  EXPECT_EQ(wait(0, first).error + wait(0, second).error, 0);
}

TEST_P(Msg, ProbeTellsOfTheFirstUnexpectedMessageAndLeavesIt) {
  EXPECT_FALSE(bed[1].probe({.ignore = ~std::uint64_t{0}}));
  const std::vector<std::byte> one = content(1, 10);
  const std::vector<std::byte> two = content(2, 20);
  const Handle first = send(0, 1, 1, one);
  const Handle second = send(0, 1, 2, two);
  EXPECT_EQ(wait(0, first).error + wait(0, second).error, 0);
  bed.settle();
  const auto any = bed[1].probe({.ignore = ~std::uint64_t{0}});
  ASSERT_TRUE(any);
  EXPECT_EQ(any->bits, 1U);
  EXPECT_EQ(any->total_bytes, 10U);
  EXPECT_EQ(any->peer, bed.peer(0));
  EXPECT_TRUE(any->whole);
  const auto later = bed[1].probe({.bits = 2});
  ASSERT_TRUE(later);
  EXPECT_EQ(later->total_bytes, 20U);
  EXPECT_FALSE(bed[1].probe({.bits = 2, .from = bed.peer(1)}));
  EXPECT_EQ(bed[1].statistics().unexpected_messages, 2U);
  EXPECT_EQ(bed[1].statistics().unexpected_bytes, 30U);
}

TEST_P(Msg, AReceiveThatNothingHasMatchedCanBeCancelled) {
  std::vector<std::byte> buffer(8, std::byte{0xee});
  std::vector<std::byte> other(8);
  const Handle cancelled = post(1, buffer, {.bits = 1});
  const Handle kept = post(1, other, {.bits = 1});
  EXPECT_TRUE(bed[1].cancel(cancelled));
  EXPECT_FALSE(bed[1].cancel(cancelled));
  EXPECT_EQ(error_of_test(1, cancelled), EINVAL);
  const std::vector<std::byte> sent = content(1, 8);
  const Handle sending = send(0, 1, 1, sent);
  EXPECT_EQ(wait(1, kept), good(0, 1, 8));
  EXPECT_FALSE(bed[1].cancel(kept)) << "done, and told";
  EXPECT_TRUE(std::ranges::all_of(buffer, [](std::byte b) { return b == std::byte{0xee}; }));
  EXPECT_EQ(wait(0, sending).error, 0);
}

TEST_P(Msg, WaitAnyTellsWhicheverIsDoneFirst) {
  std::vector<std::vector<std::byte>> buffers(3, std::vector<std::byte>(8));
  std::vector<Handle> receives;
  for (std::size_t at = 0; at < 3; ++at) {
    receives.push_back(post(1, buffers[at], {.bits = at}));
  }
  const std::vector<std::byte> sent = content(1, 8);
  for (const std::uint64_t bits : sizes({2, 0, 1})) {
    const Handle sending = send(0, 1, bits, sent);
    const auto done = bed[1].wait_any(receives, bed.soon());
    ASSERT_TRUE(done);
    EXPECT_EQ(done->second, good(0, bits, 8));
    EXPECT_EQ(done->second.bits, bits);
    receives.erase(receives.begin() + static_cast<std::ptrdiff_t>(done->first));
    EXPECT_EQ(wait(0, sending).error, 0);
  }
  EXPECT_EQ(bed[1].wait_any({}).error().code, EINVAL);
}

TEST_P(Msg, AWaitEndsAtItsDeadlineAndTheHandleStays) {
  std::vector<std::byte> buffer(8);
  const Handle receive = post(1, buffer, {.bits = 1});
  EXPECT_EQ(bed[1].wait(receive, bed.waiter().now() + 5ms).error().code, ETIME);
  EXPECT_EQ(error_of_test(1, receive), EAGAIN);
  EXPECT_EQ(error_of_test(1, Handle{999}), EINVAL);
  const std::vector<std::byte> sent = content(1, 8);
  const Handle sending = send(0, 1, 1, sent);
  EXPECT_EQ(wait(1, receive), good(0, 1, 8));
  EXPECT_EQ(error_of_test(1, receive), EINVAL) << "told once";
  EXPECT_EQ(wait(0, sending).error, 0);
}

TEST_P(Msg, WhatWaitsForAnotherMessageToThePeerCanBeCancelled) {
  std::vector<std::byte> buffer(70'000);
  const Handle receive = post(1, buffer, {.ignore = ~std::uint64_t{0}});
  const std::vector<std::byte> sent = content(1, 70'000);
  const Handle first = send(0, 1, 1, sent);
  const Handle second = send(0, 1, 2, sent);
  if (GetParam().module != "tcp") {  // nothing has left before there is a connection
    EXPECT_FALSE(bed[0].cancel(first));
  }
  EXPECT_TRUE(bed[0].cancel(second));
  EXPECT_EQ(error_of_test(0, second), EINVAL);
  EXPECT_EQ(wait(1, receive), good(0, 1, 70'000));
  EXPECT_EQ(wait(0, first).error, 0);
  bed.settle();
  EXPECT_FALSE(bed[1].probe({.ignore = ~std::uint64_t{0}}));
}

// Eight processes, each sends each other three messages.
TEST_P(Msg, ManyPeersSendEachOther) {
  constexpr std::size_t count = 8;
  constexpr std::size_t rounds = 3;
  Bed many(GetParam(), count);
  struct Expected {
    std::size_t at;
    std::uint64_t which;
    Handle handle;
    std::vector<std::byte> buffer;
  };
  std::vector<Expected> receives;
  std::vector<std::pair<std::size_t, Handle>> sends;
  std::vector<std::vector<std::byte>> lent;
  const auto size_of = [](std::uint64_t which) { return static_cast<std::size_t>(which * 997 % 9000); };
  receives.reserve(count * count * rounds);
  for (std::uint64_t which = 0; which < count * count * rounds; ++which) {
    const std::size_t from = which / count % count;
    const std::size_t to = which % count;
    if (from == to) {
      continue;
    }
    Expected& made = receives.emplace_back(to, which, Handle{}, std::vector<std::byte>(size_of(which)));
    made.handle = *many[to].post(made.buffer, {.bits = which, .from = many.peer(from)});
    lent.push_back(content(which, size_of(which)));
    sends.emplace_back(from, *many[from].send(many.peer(to), which, lent.back()));
  }
  for (const Expected& each : receives) {
    const auto done = many[each.at].wait(each.handle, many.soon());
    ASSERT_TRUE(done) << each.which;
    EXPECT_EQ(done->error, 0);
    EXPECT_TRUE(each.buffer == content(each.which, size_of(each.which))) << each.which;
  }
  for (const auto& [at, handle] : sends) {
    EXPECT_TRUE(many[at].wait(handle, many.soon()));
  }
}

// ---- Bounds and refusals ----

TEST_P(Msg, AMessageBeyondTheBoundIsRefusedWithTheBound) {
  Arrangement small = GetParam();
  small.settings = small.module == "tcp" ? "" : "message_bytes = 5000";
  Bed bounded(small, 2, {.connection_message_bytes_max = 5000});
  EXPECT_EQ(bounded[0].message_bytes_max(), 5000U);
  const std::vector<std::byte> bytes = content(1, 5001);
  const auto refused = bounded[0].send(bounded.peer(1), 1, bytes);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, EMSGSIZE);
  EXPECT_NE(refused.error().text.find("5001 bytes is longer than the 5000"), std::string::npos) << refused.error().text;
  std::vector<std::byte> buffer(5000);
  const Handle receive = *bounded[1].post(buffer, {.bits = 1});
  const Handle longest = *bounded[0].send(bounded.peer(1), 1, ConstBytes(bytes).first(5000));
  EXPECT_EQ(bounded[1].wait(receive, bounded.soon())->total_bytes, 5000U);
  EXPECT_EQ(bounded[0].wait(longest, bounded.soon())->error, 0);
  EXPECT_EQ(bed[0].message_bytes_max(), std::uint64_t{1} << 30) << "if nothing else is said";
}

TEST_P(Msg, ReceivesAndSendsAreBounded) {
  Bed bounded(GetParam(), 2, {.receives_max = 2, .sends_max = 2});
  std::vector<std::byte> buffer(8);
  const Handle first = *bounded[1].post(buffer, {.bits = 1});
  ASSERT_TRUE(bounded[1].post(buffer, {.bits = 2}));
  EXPECT_EQ(bounded[1].post(buffer, {.bits = 3}).error().code, ENOBUFS);
  EXPECT_TRUE(bounded[1].cancel(first));
  EXPECT_TRUE(bounded[1].post(buffer, {.bits = 3}));
  const Handle sent = *bounded[0].send(bounded.peer(1), 2, buffer);
  ASSERT_TRUE(bounded[0].send(bounded.peer(1), 3, buffer));
  EXPECT_EQ(bounded[0].send(bounded.peer(1), 4, buffer).error().code, ENOBUFS);
  EXPECT_EQ(bounded[0].wait(sent, bounded.soon())->error, 0);
  EXPECT_TRUE(bounded[0].send(bounded.peer(1), 4, buffer));
  bounded.settle();
}

// The module knows no more peers than it is told to: T_UDERROR_IND, which names the peer.
TEST_P(Msg, WhatTheModuleDoesNotTakeEndsWithItsError) {
  Arrangement small = GetParam();
  small.settings = small.module == "tcp" ? "" : "peers = 1";
  Bed bounded(small, 3, {.connections_max = 1});
  const std::vector<std::byte> bytes = content(1, 8);
  std::vector<std::byte> buffer(8);
  const Handle receive = *bounded[1].post(buffer, {.bits = 1});
  const Handle known = *bounded[0].send(bounded.peer(1), 1, bytes);
  const Handle refused = *bounded[0].send(bounded.peer(2), 1, bytes);
  const Handle again = *bounded[0].send(bounded.peer(2), 1, bytes);
  EXPECT_EQ(bounded[0].wait(refused, bounded.soon())->error, ENOBUFS);
  EXPECT_EQ(bounded[0].wait(again, bounded.soon())->error, ENOBUFS);
  EXPECT_EQ(bounded[0].wait(known, bounded.soon())->error, 0);
  EXPECT_EQ(bounded[1].wait(receive, bounded.soon())->error, 0);
  EXPECT_EQ(bounded[0].statistics().stray, 0U);
}

TEST_P(Msg, AnEndpointThatClosesGivesBackWhatIsLent) {
  std::vector<std::byte> bytes = content(1, 100'000);
  const Handle sending = send(0, 1, 1, bytes);
  EXPECT_EQ(error_of_test(0, sending), EAGAIN);
  bed.close(0);
  bed.settle();
  bed.close(1);
  EXPECT_EQ(bed.set().pool().statistics().buffers_in_use, 0U);
}

TEST(MsgOpen, NeedsAMessageModuleAndRoomForItsPackets) {
  Arrangement without{.name = "none", .kernel = true, .module = "fault"};
  Bed bed(without, 0);
  EXPECT_EQ(bed.open(0, {}).error().text,
            "the stream makes no connections, and has neither rmpp nor utopia: push one of them below timod");
  StreamSet set;
  auto provider = std::make_unique<Provider>();
  provider->info.tsdu_size = 1400 + 63;
  auto stream = std::move(*Stream::open(set, std::move(provider)));
  ASSERT_TRUE(stream->push(std::move(*rmpp_entry().make(set, {}))));
  ASSERT_TRUE(stream->push(std::make_unique<Timod>()));
  const auto refused = Endpoint::open(std::move(stream));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, EMSGSIZE) << refused.error().text;
  EXPECT_NE(refused.error().text.find("packet_bytes"), std::string::npos) << refused.error().text;
  Arrangement good{.name = "good", .kernel = true};
  Bed taken(good, 1);
  EXPECT_EQ(taken.open(1, {.local = taken.peer(0)}).error().code, EADDRINUSE);
}

}  // namespace
}  // namespace sluice::test::msgs
