// SPDX-License-Identifier: Apache-2.0
// SYN cookies (RFC 4987 section 3.6): what is remembered in them, how long, and that nobody else makes one; and a
// listener that is flooded with SYNs while others call.
#include "stack/modules/tcp_cookie.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>

#include "base/prng.h"
#include "tests/stack/modules/tcp_stack.h"

namespace sluice::test::tcp_stack {
namespace {

using tcp::Cookies;
using tcp::Ends;
using tcp::Segment;

constexpr TimePoint cookie_time{1000s};
constexpr unsigned cookie_scale = 3;

class TcpCookie : public testing::Test {
 protected:
  const Ends ends{{here_v4, here_port}, {there_v4, there_port}};
  const Cookies cookies{{0x0123'4567'89ab'cdefU, 42}};

  static Segment syn(const wire::TcpOptions& options, std::uint32_t sequence = 4'000'000'000U) {
    return {.header = {.sequence = sequence, .flags = tcp_syn, .window = 1000}, .options = options, .data = {}};
  }
  /// The caller's acknowledgment of what he is answered.
  [[nodiscard]] Segment acknowledgment(const Segment& of, TimePoint now = cookie_time) const {
    Segment segment{.header = {.sequence = of.header.sequence + 1,
                               .acknowledgment = cookies.sequence(ends, of, cookie_scale, now) + 1,
                               .flags = tcp_ack,
                               .window = 77},
                    .options = {},
                    .data = {}};
    if (of.options.timestamps) {
      const wire::TcpOptions answer = Cookies::answer(of.options, cookie_scale, 123'456);
      segment.options.timestamps = {.value = of.options.timestamps->value + 5, .echo = answer.timestamps->value};
    }
    return segment;
  }
};

TEST_F(TcpCookie, WhatTheCallerHasComesBack) {
  const std::pair<std::optional<std::uint16_t>, std::uint16_t> sizes[] = {
      {std::nullopt, 536}, {1, 64},      {64, 64},     {535, 256},   {536, 536},   {1359, 1220},
      {1400, 1360},        {1440, 1440}, {1460, 1460}, {8939, 1460}, {9000, 8940}, {65'535, 8940}};
  for (const auto& [offered, remembered] : sizes) {
    for (const bool stamps : {false, true}) {
      for (const bool selective : {false, true}) {
        for (int scale = -1; scale <= 16; ++scale) {
          wire::TcpOptions options{.segment_bytes_max = offered, .sack_permitted = selective};
          if (scale >= 0) {
            options.window_scale = static_cast<std::uint8_t>(scale);
          }
          if (stamps) {
            options.timestamps = {.value = 5000, .echo = 0};
          }
          const auto read = cookies.syn_of(ends, acknowledgment(syn(options)), cookie_scale, cookie_time);
          ASSERT_TRUE(read.has_value());
          EXPECT_EQ(read->header.sequence, 4'000'000'000U);
          EXPECT_EQ(read->header.flags, tcp_syn);
          EXPECT_EQ(read->header.window, 77);
          EXPECT_EQ(read->options.segment_bytes_max, remembered);
          EXPECT_EQ(read->options.sack_permitted, stamps && selective);
          EXPECT_EQ(read->options.timestamps.has_value(), stamps);
          EXPECT_EQ(read->options.timestamps.value_or(wire::TcpOptions::Timestamps{.value = 5005, .echo = 0}).value,
                    5005U);
          // RFC 7323 section 2.3: a shift count above 14 is 14.
          EXPECT_EQ(read->options.window_scale, stamps && scale >= 0
                                                    ? std::optional(static_cast<std::uint8_t>(std::min(scale, 14)))
                                                    : std::nullopt);
        }
      }
    }
  }
}

/// RFC 9293 section 3.7.1: "536 [...] for IPv4 or 1220 [...] for IPv6".
TEST_F(TcpCookie, WithoutAnMssTheCallerHasTheDefault) {
  const Ends v6{{there_v6, here_port}, {there_v6, there_port}};
  const Segment call = syn({});
  Segment back = acknowledgment(call);
  back.header.acknowledgment = cookies.sequence(v6, call, cookie_scale, cookie_time) + 1;
  EXPECT_EQ(cookies.syn_of(v6, back, cookie_scale, cookie_time)->options.segment_bytes_max, 1220);
}

/// What cannot be remembered is not offered.
TEST_F(TcpCookie, WhoHasNoTimestampsIsOfferedNothing) {
  const wire::TcpOptions none =
      Cookies::answer({.window_scale = std::uint8_t{7}, .sack_permitted = true}, cookie_scale, 1);
  EXPECT_EQ(none.encoded_size(), 0U);
  const wire::TcpOptions stamps_only =
      Cookies::answer({.timestamps = wire::TcpOptions::Timestamps{.value = 9, .echo = 0}}, cookie_scale, 1);
  EXPECT_FALSE(stamps_only.window_scale.has_value());
  EXPECT_FALSE(stamps_only.sack_permitted);
  EXPECT_EQ(stamps_only.timestamps->echo, 9U);
}

/// The connection's clock goes on from the stamp: RFC 7323 section 5.3 drops what seems older than the last.
TEST_F(TcpCookie, TheStampIsNotAheadOfTheClockAndLittleBehind) {
  Prng prng(1);
  for (int i = 0; i < 10'000; ++i) {
    const auto clock = i < 200 ? static_cast<std::uint32_t>(i - 100) : static_cast<std::uint32_t>(prng());
    wire::TcpOptions options{.sack_permitted = prng.chance(0.5),
                             .timestamps = wire::TcpOptions::Timestamps{.value = 9, .echo = 0}};
    if (prng.chance(0.8)) {
      options.window_scale = static_cast<std::uint8_t>(prng.below(15));
    }
    const std::uint32_t behind = clock - Cookies::answer(options, cookie_scale, clock).timestamps->value;
    ASSERT_LT(behind, 64U) << clock;
  }
}

TEST_F(TcpCookie, ACookieIsGoodForAMinuteAtLeastAndForTwoAtMost) {
  Prng prng(2);
  for (int i = 0; i < 1000; ++i) {
    const TimePoint made = TimePoint(Duration(static_cast<std::int64_t>(prng.below(1ULL << 50))));
    const Segment back = acknowledgment(syn({}), made);
    EXPECT_TRUE(cookies.syn_of(ends, back, cookie_scale, made + 64s - 1ns).has_value());
    EXPECT_FALSE(cookies.syn_of(ends, back, cookie_scale, made + Cookies::life_max).has_value());
    EXPECT_FALSE(cookies.syn_of(ends, back, cookie_scale, made + 32 * Cookies::tick).has_value()) << "t mod 32";
  }
}

/// The threat: one who has a cookie, or sees another's, and makes more of it. Each bit counts.
TEST_F(TcpCookie, ACookieIsOfItsCallerAlone) {
  const wire::TcpOptions options{.segment_bytes_max = std::uint16_t{1460},
                                 .window_scale = std::uint8_t{7},
                                 .sack_permitted = true,
                                 .timestamps = wire::TcpOptions::Timestamps{.value = 5000, .echo = 0}};
  const auto read = [&](const Ends& at, const Segment& segment, unsigned scale = cookie_scale) {
    return cookies.syn_of(at, segment, scale, cookie_time).has_value();
  };
  const auto back = [&] { return acknowledgment(syn(options)); };
  ASSERT_TRUE(read(ends, back()));
  for (unsigned bit = 0; bit < 32; ++bit) {
    Segment other = back();
    other.header.acknowledgment ^= 1U << bit;
    EXPECT_FALSE(read(ends, other)) << bit;
    other = back();
    other.header.sequence ^= 1U << bit;
    EXPECT_FALSE(read(ends, other)) << bit;
    other = back();
    other.options.timestamps->echo ^= 1U << bit;
    EXPECT_EQ(read(ends, other), bit >= 6) << bit;
  }
  Segment without = back();
  without.options.timestamps.reset();
  EXPECT_FALSE(read(ends, without));
  EXPECT_FALSE(read({ends.remote, ends.local}, back()));
  EXPECT_FALSE(read({ends.local, {there_v4, there_port + 1}}, back()));
  EXPECT_FALSE(read({ends.local, {Ipv4Address{{10, 0, 0, 3}}, there_port}}, back()));
  EXPECT_FALSE(read({{here_v4, here_port + 1}, ends.remote}, back()));
  EXPECT_FALSE(read(ends, back(), cookie_scale + 1));
  const Cookies of_another({0x0123'4567'89ab'cdefU, 43});
  EXPECT_FALSE(of_another.syn_of(ends, back(), cookie_scale, cookie_time).has_value());
}

// ---- A listener ----

class TcpFlood : public testing::Test {
 protected:
  void SetUp() override { stack.bind(2); }
  /// SYNs in the names of others, none of whom ever answers.
  void flood(unsigned count) {
    for (unsigned i = 0; i < count; ++i) {
      const Ipv4Address from{{10, 1, static_cast<std::uint8_t>(flooded >> 8), static_cast<std::uint8_t>(flooded)}};
      Peer one(stack, {from, static_cast<std::uint16_t>(1024 + flooded++)});
      one.says(tcp_syn);
      ASSERT_EQ(one.heard(), "SYN+ACK") << flooded;
    }
  }
  /// `slow` calls while there are SYNs without end, and a round trip takes half a second. What he was answered.
  Sent calls_slowly(Peer& slow) {
    flood(100);
    slow.says(tcp_syn);
    std::vector<Sent> sent = stack.take_sent();
    for (int i = 0; i < 5; ++i) {
      flood(100);
      stack.advance(100ms);
      static_cast<void>(stack.take_sent());
    }
    EXPECT_EQ(sent.size(), 1U);
    slow.expected = sent.at(0).segment.header.sequence + 1;
    if (const auto& stamps = sent.at(0).segment.options.timestamps) {
      slow.options = {.timestamps = wire::TcpOptions::Timestamps{.value = 10, .echo = stamps->value}};
    } else {
      slow.options = {};
    }
    return std::move(sent.at(0));
  }

  TcpStack stack{Tcp::Options{.receive_buffer_bytes = 1 << 20}};
  Peer caller{stack};
  unsigned flooded = 0;
};

TEST_F(TcpFlood, WhoCallsSlowlyGetsThroughWithAllHisOptions) {
  caller.options = {.segment_bytes_max = std::uint16_t{1400},
                    .window_scale = std::uint8_t{2},
                    .sack_permitted = true,
                    .timestamps = wire::TcpOptions::Timestamps{.value = 1, .echo = 0}};
  const Sent answer = calls_slowly(caller);
  EXPECT_EQ(answer.segment.header.flags, tcp_syn | tcp_ack);
  EXPECT_EQ(answer.segment.header.acknowledgment, caller.next);
  EXPECT_EQ(answer.segment.header.window, Tcp::caller_receive_bytes_max);
  EXPECT_EQ(answer.segment.options.segment_bytes_max, 1460);
  EXPECT_EQ(answer.segment.options.window_scale, 5);
  EXPECT_TRUE(answer.segment.options.sack_permitted);
  EXPECT_EQ(answer.segment.options.timestamps->echo, 1U);
  EXPECT_EQ(stack.counted("cookies_sent"), flooded + 1 - Tcp::half_open_min);
  EXPECT_EQ(stack.told(), "");

  caller.window = 2 * 1348 / 4;  // of 4 bytes
  caller.says(tcp_ack, "question");
  EXPECT_EQ(stack.told(), "called 1");
  EXPECT_EQ(stack.counted("cookies_taken"), 1U);
  stack.accept(1);
  EXPECT_EQ(stack.told(), "ok accept, data question");
  stack.send(std::string(5000, 'x'));
  std::size_t sent_bytes = 0;
  for (const Sent& sent : stack.take_sent()) {
    sent_bytes += sent.text.size();
    EXPECT_LE(sent.text.size(), 1360U - 12U) << "his MSS, less the stamp";
    EXPECT_EQ(sent.segment.options.timestamps->echo, 10U);
    EXPECT_GE(
        static_cast<std::int32_t>(sent.segment.options.timestamps->value - answer.segment.options.timestamps->value),
        0);
    EXPECT_EQ(sent.segment.header.window, (1 << 20) / 32) << "scaled, and his question has been taken";
  }
  EXPECT_EQ(sent_bytes, 2 * 1348U) << "what his window has room for, scaled";
  caller.forged(tcp_ack, 100, 0, "behind a gap");
  const std::vector<Sent> gap = stack.take_sent();
  ASSERT_EQ(gap.size(), 1U);
  EXPECT_EQ(gap[0].segment.options.sack_count, 1U);
}

TEST_F(TcpFlood, WhoHasNoTimestampsGetsThroughWithoutOptions) {
  caller.options = {.segment_bytes_max = std::uint16_t{536}, .window_scale = std::uint8_t{2}, .sack_permitted = true};
  const Sent answer = calls_slowly(caller);
  EXPECT_FALSE(answer.segment.options.window_scale.has_value());
  EXPECT_FALSE(answer.segment.options.sack_permitted);
  caller.window = 500;
  caller.says(tcp_ack);
  EXPECT_EQ(stack.told(), "called 1");
  stack.accept(1);
  stack.send(std::string(3000, 'x'));
  EXPECT_EQ(caller.read().size(), 500U) << "what his window has room for, as it is";
  caller.says(tcp_ack, "answer");
  EXPECT_EQ(stack.told(), "ok accept, data answer");
}

/// What is kept does not grow with the flood, and nothing of it is repeated without bound.
TEST_F(TcpFlood, CostsNoMemory) {
  flood(1000);
  const std::uint64_t buffers = stack.pool().statistics().buffers_in_use;
  flood(4000);
  EXPECT_LE(stack.pool().statistics().buffers_in_use, buffers);
  EXPECT_EQ(stack.counted("cookies_sent"), 5000 - Tcp::half_open_min);
  stack.advance(1s);
  EXPECT_LE(stack.take_sent().size(), Tcp::half_open_min);
  EXPECT_EQ(stack.counted("callers_dropped"), 0U);
}

/// The threat: acknowledgments of cookies that nobody was sent.
TEST_F(TcpFlood, WhoWasSentNoCookieIsReset) {
  flood(100);
  Prng prng(3);
  for (unsigned i = 0; i < 5000; ++i) {
    Peer guess(stack, {there_v4, static_cast<std::uint16_t>(1024 + i)});
    guess.next = static_cast<std::uint32_t>(prng());
    guess.expected = static_cast<std::uint32_t>(prng());
    guess.says(tcp_ack, "guess");
    ASSERT_EQ(guess.heard(), "RST");
  }
  EXPECT_EQ(stack.counted("cookies_taken"), 0U);
  EXPECT_EQ(stack.told(), "");
}

TEST_F(TcpFlood, ACookieIsNoneAfterTwoMinutes) {
  static_cast<void>(calls_slowly(caller));
  stack.advance(Cookies::life_max);
  static_cast<void>(stack.take_sent());
  caller.says(tcp_ack, "late");
  EXPECT_EQ(caller.heard(), "RST");
  EXPECT_EQ(stack.told(), "");
}

/// A SYN, a reset, or a segment without ACK is no answer to a cookie.
TEST_F(TcpFlood, OnlyAnAcknowledgmentBringsACookieBack) {
  static_cast<void>(calls_slowly(caller));
  for (const std::uint8_t flags : {std::uint8_t{tcp_rst}, static_cast<std::uint8_t>(tcp_rst | tcp_ack),
                                   static_cast<std::uint8_t>(tcp_syn | tcp_ack), std::uint8_t{0}}) {
    caller.forged(flags, 0);
  }
  EXPECT_EQ(stack.counted("cookies_taken"), 0U);
  caller.says(tcp_ack);
  EXPECT_EQ(stack.told(), "called 1");
}

/// Where the user has not dealt with the callers that there are, one with a cookie has to wait, and comes again with
/// his data.
TEST_F(TcpFlood, WhoComesBackToAFullHouseGetsInLater) {
  static_cast<void>(calls_slowly(caller));
  for (std::uint16_t i = 0; i < 4; ++i) {
    Peer other(stack, {there_v4, static_cast<std::uint16_t>(2000 + i)});
    other.says(tcp_syn);
    ASSERT_EQ(other.heard(), "SYN+ACK");
    other.says(tcp_ack);
  }
  EXPECT_EQ(stack.told(), "called 1, called 2");
  caller.forged(tcp_ack, 0, 0, "patient");
  EXPECT_EQ(caller.heard(), "");
  EXPECT_EQ(stack.counted("callers_dropped"), 1U);
  stack.disconnect(1);
  EXPECT_EQ(stack.told(), "ok disconnect, called 3");
  caller.forged(tcp_ack, 0, 0, "patient");
  stack.disconnect(2);
  stack.disconnect(3);
  EXPECT_EQ(stack.told(), "ok disconnect, called 4, ok disconnect, called 5");
  stack.disconnect(4);
  EXPECT_EQ(stack.told(), "ok disconnect");
  stack.accept(5);
  EXPECT_EQ(stack.told(), "ok accept, data patient");
}

/// Once there is room again, callers are kept as ever.
TEST_F(TcpFlood, IsOverOneDay) {
  flood(100);
  stack.advance(200s);
  static_cast<void>(stack.take_sent());
  const std::uint64_t cookies = stack.counted("cookies_sent");
  caller.says(tcp_syn);
  EXPECT_EQ(caller.heard(), "SYN+ACK");
  EXPECT_EQ(stack.counted("cookies_sent"), cookies);
  caller.says(tcp_ack, "hello");
  EXPECT_EQ(stack.told(), "called 1");
}

}  // namespace
}  // namespace sluice::test::tcp_stack
