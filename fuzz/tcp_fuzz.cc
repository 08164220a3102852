// SPDX-License-Identifier: Apache-2.0
// A TCP connection and its peer meet an adversary, who has every segment in his hands, and users who do anything. The
// first byte chooses: a peer that is a connection too, or nobody but the adversary; who opens; options. Then each two
// bytes are a step: a segment is passed on, again, late, damaged or not at all, or one is forged near what is expected;
// a user sends, ends, aborts or takes; memory goes or comes back; time passes.
//
// Whoever made it, a segment has at each place the byte that belongs there. So what is taken must be those bytes, in
// order, and no more than has come; what is kept stays bounded; a connection that is closed stays so and waits for
// nothing. Where nothing was forged and nobody aborted, the network is good in the end, and then all arrives that was
// sent, and the end.
#include <algorithm>
#include <array>
#include <chrono>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "base/contract.h"
#include "base/internet_checksum.h"
#include "fuzz/round_trip.h"
#include "stack/core/buffer_pool.h"
#include "stack/modules/tcp_connection.h"
#include "stack/wire/checksum.h"
#include "stack/wire/protocol.h"

namespace {

using namespace sluice;
using namespace sluice::tcp;
using namespace std::chrono_literals;
using Octets = std::vector<std::byte>;

constexpr std::size_t buffer_bytes = 8192;
constexpr std::size_t flying_max = 64;
constexpr std::array<std::uint32_t, 2> first_numbers{0xffff'f000U, 77};  // one wraps soon

std::byte byte_at(std::uint64_t place) { return static_cast<std::byte>((place * 131 + (place >> 9)) & 0xff); }

Octets bytes_of(const Message& message) {
  Octets bytes(message.data_size());
  SLUICE_REQUIRE(message.copy_data_to(0, bytes));
  return bytes;
}

/// The bytes of a stream from `place` on.
Octets stretch(std::uint64_t place, std::size_t size) {
  Octets bytes(size);
  for (std::size_t at = 0; at < size; ++at) {
    bytes[at] = byte_at(place + at);
  }
  return bytes;
}

struct Side {
  std::optional<Connection> connection;
  std::deque<Octets> arriving;
  std::uint64_t sent = 0;   // by its user
  std::uint64_t taken = 0;  // by its user
  std::uint64_t come = 0;   // how far what has come to it reaches
  std::uint32_t acknowledged = 0;
  bool begun = false;
  bool ended = false;
  bool finished = false;
  std::optional<int> closed;
};

class Game {
 public:
  Game(const std::uint8_t* at, const std::uint8_t* end) : at_(at), end_(end) {
    const unsigned how = next();
    alone_ = (how & 1) != 0;
    for (unsigned i = 0; i < 2; ++i) {
      const Connection::Settings settings{.send_buffer_bytes = buffer_bytes,
                                          .receive_buffer_bytes = (how & 8) != 0 ? buffer_bytes : 70'000,
                                          .segment_bytes = static_cast<std::uint16_t>((how & 16) != 0 ? 100 : 1460),
                                          .no_delay = (how & 32) != 0};
      sides_[i].connection.emplace(
          pool_, ends(i), settings,
          Connection::Secrets{.first_sequence_number = first_numbers[i], .timestamp_offset = 0xffff'ff00U});
    }
    pool_.fail_when([this] { return drought_; });
    if ((how & 2) == 0 || alone_) {
      open(0);
    }
    if ((how & 4) != 0 && !alone_) {
      open(1);  // both, perhaps
    }
  }

  void play() {
    collect();
    while (at_ + 2 <= end_) {
      const unsigned what = next();
      const unsigned kind = (what >> 1) & 15;
      step(alone_ ? 0 : what & 1, kind, next() | ((what & 0xe0) << 3));
      if (kind != 1) {  // what comes so comes together with what follows
        settle();
      }
      collect();
      check();
    }
    if (!forged_ && !alone_) {
      calm();
    }
    for (Side& side : sides_) {
      side.connection.reset();
    }
    SLUICE_REQUIRE(pool_.statistics().buffers_in_use == 0);
  }

 private:
  unsigned next() { return at_ < end_ ? *at_++ : 0; }

  [[nodiscard]] static Ends ends(unsigned side) {
    const Ends one{{wire::Ipv4Address{{10, 0, 0, 1}}, 1000}, {wire::Ipv4Address{{10, 0, 0, 2}}, 2000}};
    return side == 0 ? one : Ends{one.remote, one.local};
  }
  void open(unsigned which) {
    sides_[which].begun = true;
    sides_[which].connection->connect(now_);
  }

  void settle() {
    for (Side& side : sides_) {
      side.connection->settle(now_);
    }
  }

  /// `argument` has 11 bits.
  void step(unsigned which, unsigned what, unsigned argument) {
    Side& side = sides_[which];
    Connection& connection = *side.connection;
    switch (what) {
      case 0:
      case 1:
        return deliver(which, argument, /*keeps=*/false, /*damages=*/false);
      case 2:
        return deliver(which, argument, /*keeps=*/true, /*damages=*/false);
      case 3:
        return deliver(which, argument, /*keeps=*/false, /*damages=*/true);
      case 4:
        if (!side.arriving.empty()) {
          side.arriving.erase(side.arriving.begin() + argument % static_cast<unsigned>(side.arriving.size()));
        }
        return;
      case 5:
      case 6:
        return forge(which, argument, static_cast<std::uint8_t>(what == 5 ? unsigned{wire::tcp_ack} : next() & 0x3f));
      case 7:
      case 8:
        return send(side, argument * 4);
      case 9:
        side.finished = side.begun;
        return side.begun ? connection.finish(now_) : void();
      case 10:
        if (argument % 8 == 0 && side.begun) {
          forged_ = true;
          connection.abort();
          SLUICE_REQUIRE(connection.state() == State::closed);
        }
        return;
      case 11:
        return take(side, argument);
      case 12:
        drought_ = argument % 2 != 0;
        return;
      case 13:
        if (argument % 4 == 0) {
          forged_ = true;
          return connection.network_failed(static_cast<int>(1 + argument / 4));
        }
        return connection.set_path(static_cast<std::uint16_t>(argument), now_);
      default:
        return pass(now_ + Duration(1ms) * (1U << argument % 18));
    }
  }

  void send(Side& side, std::size_t size) {
    if (size == 0 || !side.connection->may_send() || side.connection->send_room() == 0) {
      return;
    }
    const bool drought = std::exchange(drought_, false);
    Message data = Message::copy_of(pool_, stretch(side.sent, size));
    drought_ = drought;
    side.sent += size;
    side.connection->send(std::move(data), now_);
  }

  void take(Side& side, std::size_t bytes_max) {
    const std::size_t ready = side.connection->ready_bytes();
    const Message data = side.connection->take(now_, bytes_max + 1);
    SLUICE_REQUIRE(data ? data.data_size() <= ready : ready == 0 || drought_);
    if (data) {
      const bool drought = std::exchange(drought_, false);
      SLUICE_REQUIRE(bytes_of(data) == stretch(side.taken, data.data_size()));
      drought_ = drought;
      side.taken += data.data_size();
    }
    SLUICE_REQUIRE(side.taken <= side.come);
  }

  void deliver(unsigned which, unsigned argument, bool keeps, bool damages) {
    std::deque<Octets>& arriving = sides_[which].arriving;
    if (arriving.empty()) {
      return;
    }
    const auto chosen = arriving.begin() + argument % std::min<unsigned>(4, static_cast<unsigned>(arriving.size()));
    Octets bytes = *chosen;
    if (!keeps) {
      arriving.erase(chosen);
    }
    if (damages) {
      const std::size_t bit = argument % (bytes.size() * 8);
      bytes[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
    }
    arrive(which, bytes);
  }

  /// What comes to a connection that is over is answered with a reset, as its module does.
  void arrive(unsigned which, ConstBytes bytes) {
    Side& side = sides_[which];
    const Ends its = ends(which);
    const auto header = wire::TcpHeader::parse(bytes, bytes.size());
    const std::uint16_t pseudo_header = wire::pseudo_header_sum(
        its.remote.address, its.local.address, wire::protocol_tcp, static_cast<std::uint32_t>(bytes.size()));
    if (!header || !sum_holds(add_sums(header_sum(bytes), pseudo_header))) {
      return;
    }
    Segment segment{.header = *header,
                    .options = wire::TcpOptions::parse(
                        bytes.subspan(wire::TcpHeader::size_min, header->header_size - wire::TcpHeader::size_min)),
                    .data = {}};
    const bool drought = std::exchange(drought_, false);
    if (const ConstBytes data = bytes.subspan(header->header_size); !data.empty()) {
      segment.data = Message::copy_of(pool_, data);
      const std::uint32_t at = header->sequence + (header->has(wire::tcp_syn) ? 1 : 0);
      const auto place = static_cast<std::int32_t>(at - first_numbers[1 - which] - 1);
      side.come = static_cast<std::uint64_t>(
          std::max(static_cast<std::int64_t>(side.come), place + static_cast<std::int64_t>(data.size())));
    }
    drought_ = drought;
    if (side.begun && side.connection->state() != State::closed) {
      side.connection->arrive(std::move(segment), now_);
    } else if (!side.begun && (header->flags & ~(wire::tcp_psh | wire::tcp_urg)) == wire::tcp_syn) {
      side.begun = true;
      side.connection->answer(segment, now_);
    } else if (const Message reset = make_reset(pool_, its, segment)) {
      fly(1 - which, bytes_of(reset));
    }
  }

  /// A segment in the name of the peer of `which`: near the place that is expected, with whatever else.
  void forge(unsigned which, unsigned argument, std::uint8_t flags) {
    forged_ = true;
    Side& side = sides_[which];
    const std::uint32_t first = first_numbers[1 - which];
    wire::TcpHeader header{.source_port = ends(which).remote.port,
                           .destination_port = ends(which).local.port,
                           .sequence = side.acknowledged == 0 ? first + 1 : side.acknowledged,
                           .flags = flags,
                           .window = static_cast<std::uint16_t>(next() << (argument % 9))};
    // Near both numbers, on either side.
    const auto near = [&](unsigned choice) -> std::uint32_t {
      switch (choice & 7) {
        case 0:
        case 1:
        case 2:
          return 0;
        case 3:
          return 1 + next();
        case 4:
          return ~next();
        case 5:
          return next() << 6;
        case 6:
          return ~(next() << 6);
        default:
          return next() << 24;
      }
    };
    header.sequence += near(argument);
    header.acknowledgment = sent_until_[which] + near(argument >> 3);
    if (header.has(wire::tcp_syn) &&
        (!side.begun || side.connection->state() == State::syn_sent || side.connection->state() == State::closed)) {
      header.sequence = first;  // the places of bytes count from there
    }
    wire::TcpOptions options;
    const unsigned with = next();
    if ((with & 1) != 0) {
      options.segment_bytes_max = static_cast<std::uint16_t>(next() * 7);
    }
    if ((with & 2) != 0) {
      options.window_scale = static_cast<std::uint8_t>(next());
    }
    options.sack_permitted = (with & 4) != 0;
    if ((with & 8) != 0) {
      options.timestamps = {.value = next() << (with >> 3), .echo = stamp_[which]};
    }
    const std::size_t blocks_max = (wire::TcpOptions::size_max - options.encoded_size() - 4) / 8;
    for (; options.sack_count < std::min<std::size_t>((with >> 4) % 4, blocks_max); ++options.sack_count) {
      const std::uint32_t left = sent_until_[which] - next() * 16;
      options.sack[options.sack_count] = {left, left + next() * 8};
    }
    const std::size_t size = argument % 3 == 0 ? next() * 8 : 0;
    const std::uint32_t at = header.sequence + (header.has(wire::tcp_syn) ? 1 : 0);
    const std::int64_t place = static_cast<std::int32_t>(at - first - 1);
    const bool drought = std::exchange(drought_, false);
    Message data = size == 0 ? Message() : Message::copy_of(pool_, stretch(static_cast<std::uint64_t>(place), size), 0);
    const Ends its = ends(which);
    const Octets bytes = bytes_of(make_segment(pool_, {its.remote, its.local}, header, options, std::move(data)));
    drought_ = drought;
    arrive(which, bytes);
  }

  void fly(unsigned to, Octets bytes) {
    if (!alone_ && sides_[to].arriving.size() < flying_max) {
      sides_[to].arriving.push_back(std::move(bytes));
    }
  }

  /// What both want to be sent, and what their users are told.
  void collect() {
    for (unsigned which = 0; which < 2; ++which) {
      Side& side = sides_[which];
      Batch segments = side.connection->take_segments();
      SLUICE_REQUIRE(segments.size() <= 1000);
      while (const Message segment = segments.pop()) {
        const bool drought = std::exchange(drought_, false);
        Octets bytes = bytes_of(segment);
        drought_ = drought;
        const auto header = wire::TcpHeader::parse(bytes, bytes.size());
        SLUICE_REQUIRE(header.has_value());
        if (header->has(wire::tcp_ack)) {
          side.acknowledged = header->acknowledgment;
        }
        const wire::TcpOptions options = wire::TcpOptions::parse(
            ConstBytes(bytes).subspan(wire::TcpHeader::size_min, header->header_size - wire::TcpHeader::size_min));
        if (options.timestamps) {
          stamp_[which] = options.timestamps->value;
        }
        const std::uint32_t until = header->sequence + static_cast<std::uint32_t>(bytes.size() - header->header_size) +
                                    (header->has(wire::tcp_syn | wire::tcp_fin) ? 1 : 0);
        sent_until_[which] = static_cast<std::int32_t>(until - sent_until_[which]) > 0 ? until : sent_until_[which];
        fly(1 - which, std::move(bytes));
      }
      const Connection::News news = side.connection->take_news();
      SLUICE_REQUIRE(!side.closed || (!news.opened && !news.closed));
      SLUICE_REQUIRE(!side.ended || !news.ended);
      side.ended = side.ended || news.ended;
      side.closed = news.closed ? news.closed : side.closed;
    }
  }

  void check() {
    for (const Side& side : sides_) {
      const Connection& connection = *side.connection;
      SLUICE_REQUIRE(connection.ready_bytes() <= 70'000);
      SLUICE_REQUIRE(connection.send_room() <= buffer_bytes);
      if (side.closed || (side.begun && connection.state() == State::closed)) {
        SLUICE_REQUIRE(connection.state() == State::closed && connection.next_deadline() == never);
        SLUICE_REQUIRE(!connection.may_send());
      }
    }
    // Pieces of what came, and of what is to be sent, and segments: nothing else.
    SLUICE_REQUIRE(pool_.statistics().buffers_in_use < 10'000);
  }

  void pass(TimePoint until) {
    constexpr int timers_max = 10'000;
    settle();
    for (int timers = 0;; ++timers) {
      const TimePoint next_due = std::min(sides_[0].connection->next_deadline(), sides_[1].connection->next_deadline());
      if (next_due > until) {
        break;
      }
      SLUICE_REQUIRE(timers < timers_max);
      now_ = std::max(now_, next_due);
      for (Side& side : sides_) {
        if (side.connection->next_deadline() <= now_) {
          side.connection->on_timer(now_);
          SLUICE_REQUIRE(side.connection->next_deadline() > now_);
        }
      }
      collect();
    }
    now_ = until;
  }

  /// From now on everything arrives at once, and both users take what comes, and end.
  void calm() {
    drought_ = false;
    constexpr int rounds_max = 20'000;
    for (int round = 0; round < rounds_max; ++round) {
      for (unsigned which = 0; which < 2; ++which) {
        Side& side = sides_[which];
        if (side.begun && !side.finished) {
          side.finished = true;
          side.connection->finish(now_);
        }
        while (!side.arriving.empty()) {
          const Octets bytes = std::move(side.arriving.front());
          side.arriving.pop_front();
          arrive(which, bytes);
        }
        take(side, 1 << 20);
      }
      settle();
      collect();
      check();
      if (sides_[0].arriving.empty() && sides_[1].arriving.empty()) {
        const TimePoint due = std::min(sides_[0].connection->next_deadline(), sides_[1].connection->next_deadline());
        if (due == never) {
          break;
        }
        pass(std::max(now_, due));
      }
    }
    for (unsigned which = 0; which < 2; ++which) {
      const Side& side = sides_[which];
      const Side& other = sides_[1 - which];
      // Who has gone for want of an answer tells nobody, and is waited for, unless something is owed to him.
      const bool abandoned = other.closed.value_or(0) != 0;
      SLUICE_REQUIRE(!side.begun || abandoned || side.connection->state() == State::closed);
      const bool good = side.closed == 0 && other.closed == 0;
      SLUICE_REQUIRE(!good || (side.taken == other.sent && side.ended));
    }
  }

  const std::uint8_t* at_;
  const std::uint8_t* end_;
  BufferPool pool_;
  TimePoint now_{1s};
  std::array<Side, 2> sides_;
  std::array<std::uint32_t, 2> sent_until_ = first_numbers;
  std::array<std::uint32_t, 2> stamp_{};
  bool alone_ = false;
  bool forged_ = false;  // or aborted
  bool drought_ = false;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0 || size > 2048) {
    return 0;
  }
  Game(data, data + size).play();
  return 0;
}
