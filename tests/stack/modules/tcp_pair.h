// SPDX-License-Identifier: Apache-2.0
#pragma once

// Two TCP connections and a path between them that loses, doubles, reorders and damages segments as a seed says, in
// simulated time; what comes to one that is over is answered with a reset, as its module does. What a segment is reads
// as bytes: each is taken apart, its checksum included, and made again.

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/internet_checksum.h"
#include "base/prng.h"
#include "stack/core/buffer_pool.h"
#include "stack/modules/tcp_connection.h"
#include "stack/wire/checksum.h"
#include "stack/wire/data_unit.h"
#include "stack/wire/protocol.h"
#include "stack/wire/tcp.h"

namespace sluice::test::tcp_pair {

using namespace std::chrono_literals;
using tcp::Connection;
using tcp::Ends;
using tcp::Segment;
using tcp::State;

struct Path {
  double loss = 0;
  double duplicate = 0;
  double damage = 0;
  Duration delay = 1ms;
  Duration jitter{};  // what is late by chance overtakes and is overtaken
  std::uint64_t bytes_per_second = 0;
  std::size_t queue_bytes_max = 1 << 20;
};

inline std::vector<std::byte> bytes_of(const Message& message) {
  std::vector<std::byte> bytes(message.data_size());
  EXPECT_TRUE(message.copy_data_to(0, bytes));
  return bytes;
}

/// What `message` has on the wire: itself, or the segments that it stands for, taken apart byte by byte.
inline std::vector<std::vector<std::byte>> wire_bytes_of(const Ends& ends, Message message) {
  const auto* const together = message.native<wire::DataUnit>();
  const std::vector<std::byte> whole = bytes_of(message);
  if (together == nullptr) {
    return {whole};
  }
  EXPECT_TRUE(together->checksum_offloaded);
  const std::size_t header = wire::TcpHeader::parse(whole, whole.size()).value().header_size;
  const std::size_t part_max = together->segment_size;
  EXPECT_GT(whole.size() - header, part_max) << "one segment needs no descriptor";
  std::vector<std::vector<std::byte>> segments;
  for (std::size_t at = header; at < whole.size(); at += part_max) {
    const auto begin = whole.begin() + static_cast<std::ptrdiff_t>(at);
    const std::size_t part = std::min(part_max, whole.size() - at);
    std::vector<std::byte> segment(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(header));
    segment.insert(segment.end(), begin, begin + static_cast<std::ptrdiff_t>(part));
    auto read = wire::TcpHeader::parse(segment, segment.size()).value();
    read.sequence += static_cast<std::uint32_t>(at - header);
    if (at + part < whole.size()) {
      read.flags &= static_cast<std::uint8_t>(~(wire::tcp_psh | wire::tcp_fin));
    }
    read.checksum = 0;
    read.emit(segment);
    const std::uint16_t pseudo = wire::pseudo_header_sum(ends.local.address, ends.remote.address, wire::protocol_tcp,
                                                         static_cast<std::uint32_t>(segment.size()));
    store_checksum(segment.data() + wire::TcpHeader::checksum_offset,
                   checksum_of(add_sums(pseudo, header_sum(segment))));
    segments.push_back(std::move(segment));
  }
  return segments;
}

/// The segment that `bytes` are, as it came to `ends`; nothing where its checksum does not hold.
inline std::optional<Segment> segment_of(BufferPool& pool, const Ends& ends, std::span<const std::byte> bytes) {
  const auto header = wire::TcpHeader::parse(bytes, bytes.size());
  if (!header || !sum_holds(add_sums(header_sum(bytes), wire::pseudo_header_sum(
                                                            ends.remote.address, ends.local.address, wire::protocol_tcp,
                                                            static_cast<std::uint32_t>(bytes.size()))))) {
    return std::nullopt;
  }
  Segment segment{.header = *header,
                  .options = wire::TcpOptions::parse(
                      bytes.subspan(wire::TcpHeader::size_min, header->header_size - wire::TcpHeader::size_min)),
                  .data = {}};
  if (bytes.size() > header->header_size) {
    segment.data = Message::copy_of(pool, bytes.subspan(header->header_size));
  }
  return segment;
}

/// One end, with a user that sends a stream whose bytes follow from their places, and checks the other's.
class Host {
 public:
  Host(BufferPool& pool, Prng& prng, const Ends& ends, const Connection::Settings& settings)
      : pool_(pool),
        settings_(settings),
        connection(std::make_unique<Connection>(
            pool, ends, settings,
            Connection::Secrets{.first_sequence_number = static_cast<std::uint32_t>(prng()),
                                .timestamp_offset = static_cast<std::uint32_t>(prng())})) {}

  static std::byte byte_at(std::uint64_t place) { return static_cast<std::byte>((place * 131 + (place >> 9)) & 0xff); }

  /// Sends up to `size` bytes more, of `total`.
  void send_some(std::size_t size, TimePoint now) {
    const auto more = std::min<std::uint64_t>({size, to_send - sent, connection->send_room()});
    if (more == 0 || !connection->may_send()) {
      return;
    }
    std::vector<std::byte> bytes(more);
    for (std::size_t at = 0; at < more; ++at) {
      bytes[at] = byte_at(sent + at);
    }
    sent += more;
    connection->send(Message::copy_of(pool_, bytes, 0, MessageType::data, 4096), now);
  }
  void read(TimePoint now) {
    if (Message data = connection->take(now)) {
      for (const std::byte byte : bytes_of(data)) {
        ASSERT_EQ(byte, byte_at(received)) << "at " << received;
        ++received;
      }
    }
  }
  void hear() {
    const Connection::News news = connection->take_news();
    opened = opened || news.opened;
    ended = ended || news.ended;
    closed = news.closed ? news.closed : closed;
  }

 private:
  BufferPool& pool_;
  Connection::Settings settings_;

 public:
  std::unique_ptr<Connection> connection;
  std::uint64_t to_send = 0;
  std::uint64_t sent = 0;
  std::uint64_t received = 0;
  bool opened = false;
  bool ended = false;
  bool finished = false;
  std::optional<int> closed;
};

class Pair {
 public:
  explicit Pair(std::uint64_t seed, const Connection::Settings& left_settings = {},
                const Connection::Settings& right_settings = {})
      : prng(seed),
        left_ends_{{wire::Ipv4Address{{10, 0, 0, 1}}, 1000}, {wire::Ipv4Address{{10, 0, 0, 2}}, 2000}},
        right_ends_{left_ends_.remote, left_ends_.local},
        right_settings_(right_settings),
        left(pool, prng, left_ends_, left_settings) {}

  /// Carries what both have to send, to the time of what happens next. False when nothing will.
  bool step() {
    if (!started_) {
      started_ = true;
      left.connection->connect(now);
    }
    collect();
    TimePoint next = left.connection->next_deadline();
    next = right ? std::min(next, right->connection->next_deadline()) : next;
    next = flying_.empty() ? next : std::min(next, flying_.begin()->first);
    next = std::min(next, wake_at);
    if (next == never) {
      return false;
    }
    now = std::max(now, next);
    wake_at = wake_at <= now ? never : wake_at;
    while (!flying_.empty() && flying_.begin()->first <= now) {
      const auto arriving = std::move(flying_.extract(flying_.begin()).mapped());
      deliver(arriving.first, arriving.second);
    }
    for (Host* const host : {&left, right.get()}) {
      if (host != nullptr) {
        host->connection->settle(now);
      }
    }
    for (Host* const host : {&left, right.get()}) {
      if (host != nullptr && host->connection->next_deadline() <= now) {
        host->connection->on_timer(now);
      }
    }
    collect();
    left.hear();
    if (right) {
      right->hear();
    }
    return true;
  }

  BufferPool pool;
  Prng prng;
  TimePoint now{1s};
  TimePoint wake_at = never;
  Path to_right;
  Path to_left;
  std::uint64_t delivered = 0;
  std::size_t together = 0;  // messages that stood for several segments
  /// Looks at each segment before the path does; false: it does not get there.
  std::function<bool(bool to_left, std::span<const std::byte>)> on_segment;

 private:
  Ends left_ends_;
  Ends right_ends_;
  Connection::Settings right_settings_;

 public:
  Host left;
  std::unique_ptr<Host> right;  // since a SYN came

 private:
  void collect() {
    for (const bool from_right : {false, true}) {
      Host* const host = from_right ? right.get() : &left;
      if (host == nullptr) {
        continue;
      }
      Batch batch = host->connection->take_segments();
      while (Message segment = batch.pop()) {
        together += segment.native<wire::DataUnit>() != nullptr ? 1U : 0U;
        for (std::vector<std::byte>& bytes : wire_bytes_of(host->connection->ends(), std::move(segment))) {
          fly(from_right, std::move(bytes));
        }
      }
    }
  }

  void fly(bool to_left_end, std::vector<std::byte> bytes) {
    if (on_segment && !on_segment(to_left_end, bytes)) {
      return;
    }
    const Path& path = to_left_end ? to_left : to_right;
    TimePoint& free_at = free_at_[to_left_end ? 1 : 0];
    if (prng.chance(path.loss)) {
      return;
    }
    TimePoint leaves = now;
    if (path.bytes_per_second > 0) {
      const auto backlog = std::max(Duration::zero(), free_at - now);
      if (static_cast<double>(backlog.count()) * 1e-9 * static_cast<double>(path.bytes_per_second) >
          static_cast<double>(path.queue_bytes_max)) {
        return;
      }
      free_at = std::max(free_at, now) + Duration(1'000'000'000LL * static_cast<std::int64_t>(bytes.size() + 40) /
                                                  static_cast<std::int64_t>(path.bytes_per_second));
      leaves = free_at;
    }
    for (int copies = prng.chance(path.duplicate) ? 2 : 1; copies > 0; --copies) {
      std::vector<std::byte> copy = bytes;
      if (prng.chance(path.damage)) {
        const std::uint64_t bit = prng.below(copy.size() * 8);
        copy[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
      }
      const auto late =
          path.jitter > Duration::zero() ? prng.below(static_cast<std::uint64_t>(path.jitter.count())) : 0;
      flying_.emplace(leaves + path.delay + Duration(late), std::pair(to_left_end, std::move(copy)));
    }
  }

  void deliver(bool to_left_end, std::span<const std::byte> bytes) {
    const Ends& ends = to_left_end ? left_ends_ : right_ends_;
    auto segment = segment_of(pool, ends, bytes);
    if (!segment) {
      return;
    }
    ++delivered;
    Host* const host = to_left_end ? &left : right.get();
    if (host != nullptr && host->connection->state() == State::closed) {
      if (const Message reset = tcp::make_reset(pool, ends, *segment)) {
        fly(!to_left_end, bytes_of(reset));
      }
    } else if (host != nullptr) {
      host->connection->arrive(std::move(*segment), now);
    } else if (segment->header.flags == wire::tcp_syn) {
      right = std::make_unique<Host>(pool, prng, right_ends_, right_settings_);
      right->connection->answer(*segment, now);
    }
  }

  bool started_ = false;
  std::array<TimePoint, 2> free_at_{};
  std::multimap<TimePoint, std::pair<bool, std::vector<std::byte>>> flying_;
};

}  // namespace sluice::test::tcp_pair
