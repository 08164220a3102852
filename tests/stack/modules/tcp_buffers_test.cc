// SPDX-License-Identifier: Apache-2.0
// What a TCP connection keeps of its user's data and of its peer's, beside a plain model; and what it makes segments
// of.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/prng.h"
#include "stack/core/buffer_pool.h"
#include "stack/modules/stream_send_buffer.h"
#include "stack/modules/tcp_receive_buffer.h"
#include "stack/modules/tcp_segment.h"
#include "tests/stack/modules/tcp_pair.h"

namespace sluice::test {
namespace {

using tcp::Position;
using tcp::Range;
using tcp::ReceiveBuffer;
using tcp::SendBuffer;
using tcp_pair::bytes_of;

constexpr Position buffers_begin = (Position{1} << 32) - 300;  // sequence numbers wrap soon
constexpr std::uint64_t buffer_seeds = 30;

/// Random bytes, in blocks of up to `block` bytes.
Message random_message(BufferPool& pool, Prng& prng, std::size_t size, std::size_t block) {
  std::vector<std::byte> bytes(size);
  for (std::byte& byte : bytes) {
    byte = static_cast<std::byte>(prng.below(256));
  }
  Message message;
  for (std::size_t at = 0; at < size; at += block) {
    Message part = Message::copy_of(pool, std::span(bytes).subspan(at, std::min(block, size - at)));
    if (message) {
      message.link(std::move(part));
    } else {
      message = std::move(part);
    }
  }
  return message;
}

TEST(TcpSendBuffer, ShowsWhatWasGivenUntilItIsReleased) {
  for (std::uint64_t seed = 1; seed <= buffer_seeds && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Prng prng(seed);
    BufferPool pool;
    SendBuffer buffer(buffers_begin);
    std::vector<std::byte> model;  // all that was given
    std::vector<std::pair<Message, std::vector<std::byte>>> shown;
    Position begin = buffers_begin;
    for (int step = 0; step < 200; ++step) {
      const Position end = buffers_begin + model.size();
      if (prng.chance(0.4)) {
        Message data = random_message(pool, prng, 1 + prng.below(prng.chance(0.3) ? 3000 : 100), 1 + prng.below(700));
        const std::vector<std::byte> bytes = bytes_of(data);
        model.insert(model.end(), bytes.begin(), bytes.end());
        buffer.append(std::move(data));
      } else if (prng.chance(0.3)) {
        begin += prng.below(end - begin + 1);
        buffer.release_to(begin);
      } else if (end > begin) {
        const Position from = begin + prng.below(end - begin);
        const Position to = from + 1 + prng.below(end - from);
        Message part = buffer.show({from, to});
        ASSERT_TRUE(part);
        const auto first = model.begin() + static_cast<std::ptrdiff_t>(from - buffers_begin);
        shown.emplace_back(std::move(part), std::vector(first, first + static_cast<std::ptrdiff_t>(to - from)));
      }
      ASSERT_EQ(buffer.begin(), begin);
      ASSERT_EQ(buffer.end(), buffers_begin + model.size());
      ASSERT_EQ(buffer.size(), model.size() - (begin - buffers_begin));
    }
    for (const auto& [part, bytes] : shown) {  // whatever came behind it, or was released
      ASSERT_EQ(bytes_of(part), bytes);
    }
    buffer.clear();
    EXPECT_EQ(buffer.size(), 0U);
    shown.clear();
    EXPECT_EQ(pool.statistics().buffers_in_use, 0U);
  }
}

TEST(TcpSendBuffer, SmallWritesShareBlocks) {
  BufferPool pool;
  Prng prng(1);
  SendBuffer buffer(buffers_begin);
  for (int write = 0; write < 1000; ++write) {
    buffer.append(random_message(pool, prng, 2, 2));
  }
  EXPECT_EQ(buffer.show({buffers_begin, buffers_begin + 2000}).block_count(), 1U);
  EXPECT_EQ(pool.statistics().buffers_in_use, 1U);
}

TEST(TcpSendBuffer, LargeWritesAreNotCopied) {
  BufferPool pool;
  Prng prng(1);
  SendBuffer buffer(buffers_begin);
  Message data = random_message(pool, prng, 3000, 3000);
  const std::byte* const place = data.bytes().data();
  buffer.append(std::move(data));
  EXPECT_EQ(buffer.show({buffers_begin, buffers_begin + 10}).bytes().data(), place);
}

TEST(TcpSendBuffer, WhatIsReleasedIsGivenBack) {
  BufferPool pool;
  Prng prng(1);
  SendBuffer buffer(buffers_begin);
  buffer.append(random_message(pool, prng, 2000, 1000));
  buffer.release_to(buffers_begin + 1000);
  EXPECT_EQ(pool.statistics().buffers_in_use, 1U);
  buffer.release_to(buffers_begin + 2000);
  EXPECT_EQ(pool.statistics().buffers_in_use, 0U);
}

TEST(TcpSendBuffer, WhatIsShownIsNotWrittenBehind) {
  BufferPool pool;
  Prng prng(1);
  SendBuffer buffer(buffers_begin);
  buffer.append(random_message(pool, prng, 10, 10));
  const Message shown = buffer.show({buffers_begin, buffers_begin + 10});
  buffer.append(random_message(pool, prng, 10, 10));
  EXPECT_EQ(buffer.show({buffers_begin, buffers_begin + 20}).block_count(), 2U);
}

TEST(TcpSendBuffer, WithoutMemoryNothingIsShownAndNothingIsLost) {
  BufferPool pool;
  Prng prng(1);
  SendBuffer buffer(buffers_begin);
  Message data = random_message(pool, prng, 3000, 1000);
  const std::vector<std::byte> bytes = bytes_of(data);
  Message small = random_message(pool, prng, 10, 10);
  const std::vector<std::byte> small_bytes = bytes_of(small);
  bool fails = true;
  pool.fail_when([&] { return fails; });
  buffer.append(std::move(data));
  buffer.append(std::move(small));
  EXPECT_FALSE(buffer.show({buffers_begin, buffers_begin + 2500}));
  fails = false;
  EXPECT_EQ(bytes_of(buffer.show({buffers_begin, buffers_begin + 3000})), bytes);
  EXPECT_EQ(bytes_of(buffer.show({buffers_begin + 3000, buffers_begin + 3010})), small_bytes);
}

/// What has come, byte for byte.
struct ReceiveModel {
  std::map<Position, std::byte> held;
  Position next = buffers_begin;
  std::vector<std::byte> ready;

  void insert(Position at, std::span<const std::byte> bytes) {
    for (const std::byte byte : bytes) {
      if (at >= next) {
        held.emplace(at, byte);  // what came first stays
      }
      ++at;
    }
    for (auto first = held.begin(); first != held.end() && first->first == next; first = held.erase(first), ++next) {
      ready.push_back(first->second);
    }
  }
  /// The run of bytes around `at`.
  [[nodiscard]] std::optional<Range> run(Position at) const {
    if (!held.contains(at)) {
      return std::nullopt;
    }
    Range range{at, at + 1};
    for (; held.contains(range.begin - 1); --range.begin) {
    }
    for (; held.contains(range.end); ++range.end) {
    }
    return range;
  }
};

TEST(TcpReceiveBuffer, IsAsThePlainModelOfIt) {
  for (std::uint64_t seed = 1; seed <= buffer_seeds && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Prng prng(seed);
    BufferPool pool;
    ReceiveBuffer buffer(buffers_begin);
    ReceiveModel model;
    const std::uint64_t reach = 1 + prng.below(3000);
    for (int step = 0; step < 200; ++step) {
      const Position at = model.next + prng.below(reach) - std::min<std::uint64_t>(prng.below(reach), 200);
      Message data = random_message(pool, prng, 1 + prng.below(prng.chance(0.2) ? 1500 : 100), 1 + prng.below(700));
      model.insert(at, bytes_of(data));
      const Position end = at + data.size();
      ASSERT_TRUE(buffer.insert(at, std::move(data)));
      ASSERT_EQ(buffer.next(), model.next);
      ASSERT_EQ(buffer.ready_bytes(), model.ready.size());
      ASSERT_EQ(buffer.has_gap(), !model.held.empty());
      std::array<Range, 4> runs;
      const std::size_t count = buffer.runs(runs);
      ASSERT_EQ(count > 0, !model.held.empty());
      for (std::size_t run = 0; run < count; ++run) {
        ASSERT_EQ(model.run(runs[run].begin), runs[run]);
        ASSERT_EQ(std::ranges::count(std::span(runs).first(count), runs[run]), 1);
      }
      if (const auto newest = model.run(end - 1)) {
        ASSERT_EQ(runs[0], *newest) << "of what came last";
      }
      if (prng.chance(0.2)) {
        const Message taken = buffer.take();
        ASSERT_EQ(taken ? bytes_of(taken) : std::vector<std::byte>(), model.ready);
        model.ready.clear();
        ASSERT_EQ(buffer.ready_bytes(), 0U);
      }
    }
  }
}

/// What is kept is bounded by what came: a byte that came in a large buffer is not kept in that.
TEST(TcpReceiveBuffer, SmallPiecesTakeSmallBuffers) {
  BufferPool pool;
  ReceiveBuffer buffer(buffers_begin);
  for (Position at = 1; at <= 500; ++at) {
    ASSERT_TRUE(buffer.insert(buffers_begin + 2 * at, Message::of_size(pool, 1, 0, 4000)));
  }
  EXPECT_LT(pool.statistics().bytes_reserved, 1'000'000U);
}

TEST(TcpReceiveBuffer, PiecesAreBounded) {
  BufferPool pool;
  Prng prng(1);
  ReceiveBuffer buffer(buffers_begin);
  for (Position piece = 0; piece < ReceiveBuffer::pieces_max; ++piece) {
    ASSERT_TRUE(buffer.insert(buffers_begin + 1 + 2 * piece, random_message(pool, prng, 1, 1)));
  }
  EXPECT_FALSE(buffer.insert(buffers_begin + 5001, random_message(pool, prng, 1, 1)));
  EXPECT_TRUE(buffer.insert(buffers_begin, random_message(pool, prng, 1, 1))) << "what is next is always taken";
  EXPECT_EQ(buffer.ready_bytes(), 2U);
}

/// So that one that lies in memory which its owner wants back is not copied to be cut; one that comes first is cut.
TEST(TcpReceiveBuffer, LargePiecesGoUpWhole) {
  BufferPool pool;
  Prng prng(1);
  ReceiveBuffer buffer(buffers_begin);
  for (Position at = 0; at < 3000; at += 1000) {
    ASSERT_TRUE(buffer.insert(buffers_begin + at, random_message(pool, prng, 1000, 1000)));
  }
  EXPECT_EQ(buffer.take(2500).data_size(), 2000U);
  EXPECT_EQ(buffer.ready_bytes(), 1000U);
  EXPECT_EQ(buffer.take(300).data_size(), 300U);
  EXPECT_EQ(buffer.take(700).data_size(), 700U);
  EXPECT_EQ(buffer.ready_bytes(), 0U);
}

TEST(TcpReceiveBuffer, NothingIsBehindAFin) {
  BufferPool pool;
  Prng prng(1);
  ReceiveBuffer buffer(buffers_begin);
  ASSERT_TRUE(buffer.insert(buffers_begin + 10, random_message(pool, prng, 5, 5)));
  buffer.pass_fin();
  EXPECT_EQ(buffer.next(), buffers_begin + 1);
  EXPECT_FALSE(buffer.has_gap());
  EXPECT_EQ(pool.statistics().buffers_in_use, 0U);
}

/// Without memory some of it may be lost, and nothing is damaged: it comes again.
TEST(TcpReceiveBuffer, WithoutMemoryNothingIsDamaged) {
  for (std::uint64_t seed = 1; seed <= buffer_seeds && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Prng prng(seed);
    BufferPool pool;
    std::vector<std::byte> all(3000);
    for (std::byte& byte : all) {
      byte = static_cast<std::byte>(prng.below(256));
    }
    bool failing = false;
    pool.fail_when([&] { return failing && prng.chance(0.5); });
    ReceiveBuffer buffer(buffers_begin);
    std::vector<std::byte> taken;
    for (int step = 0; step < 100'000 && taken.size() < all.size(); ++step) {
      const std::size_t at = prng.below(all.size());
      const std::size_t size = std::min<std::size_t>(1 + prng.below(300), all.size() - at);
      Message data = Message::of_size(pool, size, 0, prng.below(4000));
      std::copy_n(all.begin() + static_cast<std::ptrdiff_t>(at), size, data.bytes().begin());
      failing = true;
      static_cast<void>(buffer.insert(buffers_begin + at, std::move(data)));
      failing = false;
      if (const Message part = buffer.take()) {
        const std::vector<std::byte> bytes = bytes_of(part);
        taken.insert(taken.end(), bytes.begin(), bytes.end());
      }
    }
    ASSERT_EQ(taken, all);
  }
}

constexpr tcp::Ends segment_ends_v4{{wire::Ipv4Address{{10, 0, 0, 1}}, 1000}, {wire::Ipv4Address{{10, 0, 0, 2}}, 2000}};
constexpr tcp::Ends segment_ends_v6{{wire::Ipv6Address{{1}}, 1000}, {wire::Ipv6Address{{2}}, 2000}};

/// What came of `message`, at the other end.
tcp::Segment arrived(BufferPool& pool, const tcp::Ends& ends, const Message& message) {
  auto segment = tcp_pair::segment_of(pool, {ends.remote, ends.local}, bytes_of(message));
  EXPECT_TRUE(segment);
  return segment ? std::move(*segment) : tcp::Segment{};
}

TEST(TcpSegment, IsReadAsItWasMade) {
  BufferPool pool;
  Prng prng(1);
  for (const tcp::Ends& ends : {segment_ends_v4, segment_ends_v6}) {
    for (const std::size_t size : {0U, 1U, 2U, 999U, 1460U}) {
      const wire::TcpOptions options{.timestamps = {{.value = 5, .echo = 6}}};
      const std::vector<std::byte> bytes =
          size == 0 ? std::vector<std::byte>() : bytes_of(random_message(pool, prng, size, 300));
      Message data = size == 0 ? Message() : Message::copy_of(pool, bytes);
      const Message made =
          tcp::make_segment(pool, ends, {.sequence = 7, .acknowledgment = 8, .flags = wire::tcp_ack, .window = 9},
                            options, std::move(data));
      const tcp::Segment read = arrived(pool, ends, made);
      EXPECT_EQ(read.header.source_port, 1000);
      EXPECT_EQ(read.header.destination_port, 2000);
      EXPECT_EQ(read.header.sequence, 7U);
      EXPECT_EQ(read.header.acknowledgment, 8U);
      EXPECT_EQ(read.header.flags, wire::tcp_ack);
      EXPECT_EQ(read.header.window, 9);
      EXPECT_EQ(read.options, options);
      EXPECT_EQ(read.data ? bytes_of(read.data) : std::vector<std::byte>(), bytes);
    }
  }
}

TEST(TcpSegment, LengthCountsSynAndFin) {
  tcp::Segment segment;
  EXPECT_EQ(segment.length(), 0U);
  segment.header.flags = wire::tcp_syn | wire::tcp_ack;
  EXPECT_EQ(segment.length(), 1U);
  segment.header.flags = wire::tcp_syn | wire::tcp_fin;
  EXPECT_EQ(segment.length(), 2U);
}

/// RFC 9293 section 3.10.7.1: "If the ACK bit is off, sequence number zero is used, <SEQ=0><ACK=SEG.SEQ+SEG.LEN>
/// <CTL=RST,ACK>. If the ACK bit is on, <SEQ=SEG.ACK><CTL=RST>".
TEST(TcpSegment, IsAnsweredWithAReset) {
  BufferPool pool;
  tcp::Segment segment;
  segment.header.sequence = 0xffff'ffff;
  segment.header.flags = wire::tcp_syn;
  const tcp::Segment of_syn = arrived(pool, segment_ends_v4, tcp::make_reset(pool, segment_ends_v4, segment));
  EXPECT_EQ(of_syn.header.flags, wire::tcp_rst | wire::tcp_ack);
  EXPECT_EQ(of_syn.header.sequence, 0U);
  EXPECT_EQ(of_syn.header.acknowledgment, 0U);
  segment.header.acknowledgment = 77;
  segment.header.flags = wire::tcp_ack | wire::tcp_fin;
  const tcp::Segment of_ack = arrived(pool, segment_ends_v4, tcp::make_reset(pool, segment_ends_v4, segment));
  EXPECT_EQ(of_ack.header.flags, wire::tcp_rst);
  EXPECT_EQ(of_ack.header.sequence, 77U);
  segment.header.flags = wire::tcp_rst;
  EXPECT_FALSE(tcp::make_reset(pool, segment_ends_v4, segment)) << "a reset is never answered";
}

TEST(TcpPosition, IsTheNearestWithThatNumber) {
  using tcp::position_near;
  constexpr Position turn = Position{1} << 32;
  EXPECT_EQ(position_near(turn + 5, 6), turn + 6);
  EXPECT_EQ(position_near(turn + 5, 0xffff'ffff), turn - 1);
  EXPECT_EQ(position_near(2 * turn - 1, 3), 2 * turn + 3);
  EXPECT_EQ(position_near(turn + 5, 0x8000'0004), turn + 0x8000'0004);
  EXPECT_EQ(position_near(turn + 5, 0x8000'0005), turn + 5 - 0x8000'0000);
  EXPECT_EQ(tcp::sequence_number(tcp::first_position(0xffff'ffff) + 2), 1U);
}

}  // namespace
}  // namespace sluice::test
