// SPDX-License-Identifier: Apache-2.0
#pragma once

// Scripts for one TCP connection: what its peer, its user and the time do to it, and each segment that comes of it.
//
//     connect                                  the user opens; a script that begins with "< SYN ..." answers that
//     > SYN 0 mss 1460 win 65535               what it must send now, nothing else and nothing more
//     < SYN,ACK 0 ack 1 win 4000 mss 1000      what arrives
//     > ACK 1 ack 1
//     state established                        news opened
//     send 1500                                as its user
//     > ACK 1:1001 ack 1
//     +1s > ACK 1:1001                         nothing happens for a second, and at its end this
//     x3 +1s > ACK 1:1001                      three times
//     x3 +1s doubled > ACK 1:1001              after 1 s, after 2 s more, and after 4 s more
//     x3 < ACK 1 ack 1                         three in a row; what is sent is asked afterwards
//     x2 +1s > ACK 1:2 then < ACK 1 ack 1      several steps, twice
//     do three-lost                            a part that several scripts have in common: Part
//     << ACK 1:101                             arrives together with the next
//
// Sequence numbers, acknowledgments and SACK blocks count from each end's initial number, timestamps from the
// connection's at the beginning and from what the peer's first says. SEQ:END is a segment with data, whose bytes follow
// from their places. Instead of a number stand: `snd`, behind the last that the connection sent; `rcv`, what it
// acknowledged last; `una`, what it was acknowledged last; each with +N or -N. PSH is neither written nor asked.
//
// A segment that arrives has the window, the acknowledgment and the timestamp of the one before where it says nothing
// else. Of one that is sent flags, place, data and SACK blocks are compared, and of the rest what is written.
//
//     segments   FLAGS SEQ[:END] [ack N] [win N] [mss N] [scale N] [sackok] [ts N] [ecr N] [sack N-N,N-N]
//                that arrive: no-ts; other (other bytes than those of the place)
//                that are sent: no-ts, no-scale, no-sackok, ecr-zero, psh, no-psh; > N segments (whatever they are)
//     set        mss N, sendbuf N, recvbuf N, nodelay, v6: before anything else
//     user       connect, send N, finish, abort, take N, nodelay, keepalive TIME, buffers SEND RECEIVE; open OPTIONS:
//                connect, and the peer's SYN,ACK 100 ms later
//     network    path N, error N, memory off|on
//     expected   state NAME, news WORDS, room N, done yes|no, deadline none, count NAME N

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "stack/core/buffer_pool.h"
#include "stack/modules/tcp_connection.h"
#include "tests/stack/modules/tcp_pair.h"

namespace sluice::test::tcp_script {

using tcp::Connection;
using tcp::Segment;
using tcp::State;
using namespace std::chrono_literals;

/// What scripts of one table do alike: `do NAME`.
struct Part {
  std::string_view name;
  const char* script;
};
using Parts = std::span<const Part>;

struct Case {
  const char* name;
  const char* shows;  ///< the sentence, or what it means, and where it stands
  const char* script;

  friend void PrintTo(const Case& one, std::ostream* out) { *out << one.shows; }
};

/// Where the numbers of a run begin: a script must come out the same wherever they wrap.
struct Numbers {
  std::uint32_t ours = 1000;
  std::uint32_t peers = 500'000;
  std::uint32_t our_stamps = 0;
  std::uint32_t peer_stamps = 77;
};

inline const std::map<std::string_view, std::uint8_t>& flag_names() {
  static const std::map<std::string_view, std::uint8_t> names{
      {"FIN", wire::tcp_fin}, {"SYN", wire::tcp_syn}, {"RST", wire::tcp_rst}, {"ACK", wire::tcp_ack}, {"NONE", 0}};
  return names;
}

inline const char* name_of(State state) {
  constexpr const char* names[] = {"closed",     "syn_sent",   "syn_received", "established", "fin_wait_1",
                                   "fin_wait_2", "close_wait", "closing",      "last_ack",    "time_wait"};
  return names[static_cast<std::size_t>(state)];
}

class Script {
 public:
  explicit Script(const Numbers& numbers, Parts parts = {}) : parts_(parts), numbers_(numbers) {
    pool_.fail_when([this] { return fails_; });
  }

  void run(std::string_view script) {
    play(script);
    if (!testing::Test::HasFailure()) {
      SCOPED_TRACE("at the end");
      expect_silence();
    }
  }

 private:
  static constexpr TimePoint start{1s};
  static constexpr std::int64_t doublings_max = 32;

  void play(std::string_view script) {
    std::istringstream lines{std::string(script)};
    int number = 0;
    for (std::string line; std::getline(lines, line) && !testing::Test::HasFailure();) {
      line = line.substr(0, line.find('#'));
      std::istringstream words(line);
      words_.assign(std::istream_iterator<std::string>(words), {});
      ++number;
      if (!words_.empty()) {
        SCOPED_TRACE("line " + std::to_string(number) + ": " + line);
        play_line();
      }
    }
  }

  void play_line() {
    const std::int64_t times = words_.front().front() == 'x' ? value(word().substr(1)) : 1;
    const std::deque<std::string> all = std::exchange(words_, {});
    for (std::int64_t time = 0; time < times; ++time) {
      for (auto begin = all.begin(); begin != all.end();) {
        repetition_ = time;
        const auto end = std::find(begin, all.end(), "then");
        words_.assign(begin, end);
        begin = end == all.end() ? end : end + 1;
        ASSERT_FALSE(words_.empty()) << "a step is missing";
        words_.front() == "do" ? play_part() : step();
      }
    }
  }

  void play_part() {
    static_cast<void>(word());
    const auto part = std::ranges::find(parts_, word(), &Part::name);
    ASSERT_TRUE(part != parts_.end() && words_.empty()) << "no such part";
    ASSERT_FALSE(std::exchange(in_part_, true)) << "a part in a part";
    play(part->script);
    in_part_ = false;
  }

  // ---- Words ----

  [[nodiscard]] bool has_word() const { return !words_.empty(); }
  std::string word() {
    if (words_.empty()) {
      ADD_FAILURE() << "a word is missing";
      return {};
    }
    std::string first = std::move(words_.front());
    words_.pop_front();
    return first;
  }
  [[nodiscard]] bool take_word(std::string_view wanted) {
    if (words_.empty() || words_.front() != wanted) {
      return false;
    }
    words_.pop_front();
    return true;
  }
  [[nodiscard]] std::int64_t value(std::string_view text) const {
    std::int64_t base = 0;
    for (const auto& [name, number] :
         {std::pair<std::string_view, std::int64_t>{"snd", snd_}, {"rcv", rcv_}, {"una", una_}}) {
      if (text.starts_with(name)) {
        base = number;
        text.remove_prefix(name.size());
        break;
      }
    }
    if (text.empty()) {
      return base;
    }
    const std::string digits(text.substr(text.front() == '+' ? 1 : 0));
    char* end = nullptr;
    const std::int64_t number = std::strtoll(digits.c_str(), &end, 10);
    EXPECT_TRUE(end != digits.c_str() && *end == '\0') << "no number: " << text;
    return base + number;
  }
  std::int64_t number() { return value(word()); }
  static Duration duration(std::string text) {
    char* unit = nullptr;
    const double count = std::strtod(text.c_str(), &unit);
    const std::string_view name(unit);
    const double factor = name == "s"     ? 1e9
                          : name == "ms"  ? 1e6
                          : name == "us"  ? 1e3
                          : name == "min" ? 60e9
                          : name == "d"   ? 86400e9
                                          : 0;
    EXPECT_GT(factor, 0) << "no time: " << text;
    return Duration(static_cast<std::int64_t>(count * factor + 0.5));
  }

  // ---- Steps ----

  void step() {
    if (words_.front().front() == '+' && words_.front().size() > 1) {
      Duration pause = duration(word().substr(1));
      if (take_word("doubled")) {
        ASSERT_LT(repetition_, doublings_max);
        pause *= std::int64_t{1} << repetition_;
      }
      expect_silence();
      pass(now_ + pause - 1ns);
      expect_silence();
      pass(now_ + 1ns);
      if (!has_word()) {
        return;
      }
    }
    const std::string verb = word();
    if (verb == ">") {
      expect_segment();
    } else if (verb == "set") {
      set();
    } else if (is_expectation(verb)) {
      expect(verb);
    } else {
      if (repetition_ == 0) {
        expect_silence();
      }
      act(verb);
    }
    EXPECT_TRUE(words_.empty()) << "what is '" << (words_.empty() ? "" : words_.front()) << "'?";
  }

  void set() {
    const std::string name = word();
    if (name == "nodelay") {
      settings_.no_delay = true;
    } else if (name == "v6") {
      ends_ = {{wire::Ipv6Address{{1}}, 1000}, {wire::Ipv6Address{{2}}, 2000}};
    } else if (name == "mss") {
      settings_.segment_bytes = static_cast<std::uint16_t>(number());
    } else if (name == "sendbuf") {
      settings_.send_buffer_bytes = static_cast<std::size_t>(number());
    } else if (name == "recvbuf") {
      settings_.receive_buffer_bytes = static_cast<std::size_t>(number());
    } else {
      ADD_FAILURE() << "no such setting";
    }
  }

  Connection& connection() {
    if (!connection_) {
      connection_ = std::make_unique<Connection>(
          pool_, ends_, settings_,
          Connection::Secrets{.first_sequence_number = numbers_.ours, .timestamp_offset = numbers_.our_stamps - 1000});
    }
    return *connection_;
  }

  void act(const std::string& verb) {
    if (verb == "<" || verb == "<<") {
      arrive();
      if (verb == "<") {
        connection().settle(now_);
      }
    } else if (verb == "connect") {
      connection().connect(now_);
    } else if (verb == "open") {
      open();
    } else if (verb == "send") {
      const auto size = static_cast<std::size_t>(number());
      std::vector<std::byte> bytes(size);
      for (std::byte& byte : bytes) {
        byte = tcp_pair::Host::byte_at(sent_++);
      }
      ASSERT_TRUE(connection().may_send());
      connection().send(message_of(bytes), now_);
    } else if (verb == "finish") {
      connection().finish(now_);
    } else if (verb == "abort") {
      connection().abort();
    } else if (verb == "take") {
      take();
    } else if (verb == "nodelay") {
      connection().set_no_delay(true);
    } else if (verb == "keepalive") {
      connection().set_keep_alive({.after = duration(word())}, now_);
    } else if (verb == "keepalive-of") {
      const Duration after = duration(word());
      const Duration pause = duration(word());
      connection().set_keep_alive({.after = after, .pause = pause, .probes_max = static_cast<unsigned>(number())},
                                  now_);
    } else if (verb == "buffers") {
      const auto send_bytes = static_cast<std::size_t>(number());
      connection().set_buffers(send_bytes, static_cast<std::size_t>(number()), now_);
    } else if (verb == "path") {
      connection().set_path(static_cast<std::uint16_t>(number()), now_);
    } else if (verb == "error") {
      connection().network_failed(static_cast<int>(number()));
    } else if (verb == "memory") {
      fails_ = word() == "off";
    } else {
      FAIL() << "no such step";
    }
    collect();
  }

  /// The words behind `open` are what the peer's SYN,ACK says.
  void open() {
    connection().connect(now_);
    collect();
    segments_.clear();
    pass(now_ + 100ms);
    std::deque<std::string> options = std::exchange(words_, {"SYN,ACK", "0", "ack", "1"});
    words_.insert(words_.end(), options.begin(), options.end());
    arrive();
    connection().settle(now_);
    collect();
    ASSERT_EQ(segments_.size(), 1U);
    segments_.clear();
    EXPECT_EQ(connection().state(), State::established);
    static_cast<void>(hear());
  }

  void take() {
    const auto size = static_cast<std::size_t>(number());
    Message data = connection().take(now_);
    const std::vector<std::byte> bytes = data ? tcp_pair::bytes_of(data) : std::vector<std::byte>();
    EXPECT_EQ(bytes.size(), size);
    for (const std::byte byte : bytes) {
      ASSERT_EQ(byte, tcp_pair::Host::byte_at(taken_)) << "at " << taken_;
      ++taken_;
    }
  }

  void pass(TimePoint until) {
    while (connection().next_deadline() <= until) {
      now_ = std::max(now_, connection().next_deadline());
      connection().on_timer(now_);
      collect();
      ASSERT_GT(connection().next_deadline(), now_) << "a timer that does not advance";
    }
    now_ = until;
  }

  // ---- Segments that arrive ----

  std::uint32_t peers(std::int64_t place) const { return numbers_.peers + static_cast<std::uint32_t>(place); }
  std::uint32_t ours(std::int64_t place) const { return numbers_.ours + static_cast<std::uint32_t>(place); }

  static std::uint8_t flags(std::string names) {
    std::uint8_t all = 0;
    std::ranges::replace(names, ',', ' ');
    std::istringstream each(names);
    for (std::string name; each >> name;) {
      const auto flag = flag_names().find(name);
      EXPECT_NE(flag, flag_names().end()) << name;
      all = static_cast<std::uint8_t>(all | (flag == flag_names().end() ? 0 : flag->second));
    }
    return all;
  }
  std::pair<std::int64_t, std::int64_t> place() {
    const std::string text = word();
    const std::size_t colon = text.find(':');
    const std::int64_t begin = value(std::string_view(text).substr(0, colon));
    return {begin, colon == std::string::npos ? begin : value(std::string_view(text).substr(colon + 1))};
  }
  std::vector<std::pair<std::int64_t, std::int64_t>> blocks() {
    std::vector<std::pair<std::int64_t, std::int64_t>> all;
    std::istringstream each(word());
    for (std::string block; std::getline(each, block, ',');) {
      const std::size_t dash = block.find('-');
      all.emplace_back(value(std::string_view(block).substr(0, dash)), value(std::string_view(block).substr(dash + 1)));
    }
    return all;
  }

  void arrive() {
    Segment segment;
    segment.header.flags = flags(word());
    const auto [begin, end] = place();
    segment.header.sequence = peers(begin);
    const bool syn = segment.header.has(wire::tcp_syn);
    bool other = false;
    bool stamped = stamps_ && !segment.header.has(wire::tcp_rst);
    while (has_word()) {
      const std::string name = word();
      if (name == "ack") {
        const std::int64_t acknowledged = number();
        acknowledgment_ = acknowledged;
        una_ = std::clamp(acknowledged, una_, snd_);
      } else if (name == "win") {
        window_ = static_cast<std::uint16_t>(number());
      } else if (name == "mss") {
        segment.options.segment_bytes_max = static_cast<std::uint16_t>(number());
      } else if (name == "scale") {
        segment.options.window_scale = static_cast<std::uint8_t>(number());
      } else if (name == "sackok") {
        segment.options.sack_permitted = true;
      } else if (name == "ts") {
        stamp_ = static_cast<std::uint32_t>(number());
        stamped = true;
        stamps_ = stamps_ || syn;
      } else if (name == "ecr") {
        echo_ = static_cast<std::uint32_t>(number());
      } else if (name == "no-ts") {
        stamped = false;
      } else if (name == "other") {
        other = true;
      } else if (name == "sack") {
        for (const auto& [left, right] : blocks()) {
          segment.options.sack[segment.options.sack_count++] = {ours(left), ours(right)};
        }
      } else {
        FAIL() << "what is '" << name << "'?";
      }
    }
    segment.header.acknowledgment = segment.header.has(wire::tcp_ack) ? ours(acknowledgment_) : 0;
    segment.header.window = window_;
    if (stamped) {
      segment.options.timestamps = {.value = numbers_.peer_stamps + stamp_,
                                    .echo = segment.header.has(wire::tcp_ack) ? numbers_.our_stamps + echo_ : 0};
    }
    if (end > begin) {
      std::vector<std::byte> bytes;
      for (std::int64_t at = begin + (syn ? 1 : 0); at < end; ++at) {
        const std::byte byte = tcp_pair::Host::byte_at(static_cast<std::uint64_t>(at - 1));
        bytes.push_back(other ? ~byte : byte);
      }
      segment.data = message_of(bytes);
    }
    if (!connection_ && segment.header.flags == wire::tcp_syn) {
      connection().answer(segment, now_);
    } else {
      connection().arrive(std::move(segment), now_);
    }
  }

  /// There is always memory for what comes from outside.
  Message message_of(std::span<const std::byte> bytes) {
    const bool fails = std::exchange(fails_, false);
    Message message = Message::copy_of(pool_, bytes, 0, MessageType::data, 4096);
    fails_ = fails;
    return message;
  }

  // ---- Segments that are sent ----

  void collect() {
    const bool fails = std::exchange(fails_, false);
    Batch batch = connection().take_segments();
    while (Message message = batch.pop()) {
      auto segment = tcp_pair::segment_of(pool_, {ends_.remote, ends_.local}, tcp_pair::bytes_of(message));
      ASSERT_TRUE(segment) << "the checksum";
      note(*segment);
      segments_.push_back(std::move(*segment));
    }
    fails_ = fails;
  }

  void note(const Segment& segment) {
    const wire::TcpHeader& header = segment.header;
    if (header.has(wire::tcp_rst)) {
      return;
    }
    const std::int64_t end = our_place(header.sequence) + static_cast<std::int64_t>(segment.length());
    snd_ = std::max(snd_, end);
    if (header.has(wire::tcp_ack)) {
      rcv_ = peer_place(header.acknowledgment);
    }
    if (segment.options.timestamps) {
      echo_ = segment.options.timestamps->value - numbers_.our_stamps;
    }
  }

  std::int64_t our_place(std::uint32_t number) const { return static_cast<std::int32_t>(number - numbers_.ours); }
  std::int64_t peer_place(std::uint32_t number) const { return static_cast<std::int32_t>(number - numbers_.peers); }

  std::string text_of(const Segment& segment) const {
    const wire::TcpHeader& header = segment.header;
    std::ostringstream text;
    const char* comma = "";
    for (const auto flag : {wire::tcp_syn, wire::tcp_fin, wire::tcp_rst, wire::tcp_ack}) {
      if (header.has(flag)) {
        text << std::exchange(comma, ",")
             << std::ranges::find(flag_names(), flag, [](const auto& one) { return one.second; })->first;
      }
    }
    const std::int64_t begin = our_place(header.sequence);
    text << " " << begin;
    if (segment.data) {
      text << ":" << begin + static_cast<std::int64_t>(segment.data_size());
    }
    if (header.has(wire::tcp_ack)) {
      text << " ack " << peer_place(header.acknowledgment);
    }
    text << " win " << header.window;
    const wire::TcpOptions& options = segment.options;
    if (options.segment_bytes_max) {
      text << " mss " << *options.segment_bytes_max;
    }
    if (options.window_scale) {
      text << " scale " << int{*options.window_scale};
    }
    text << (options.sack_permitted ? " sackok" : "");
    if (options.timestamps) {
      text << " ts " << options.timestamps->value - numbers_.our_stamps << " ecr "
           << (options.timestamps->echo == 0 ? 0 : options.timestamps->echo - numbers_.peer_stamps);
    }
    for (std::size_t block = 0; block < options.sack_count; ++block) {
      text << (block == 0 ? " sack " : ",") << peer_place(options.sack[block].left) << "-"
           << peer_place(options.sack[block].right);
    }
    return text.str();
  }

  void expect_silence() {
    for (const Segment& segment : segments_) {
      ADD_FAILURE() << "sent without being asked: " << text_of(segment);
    }
    segments_.clear();
  }

  void expect_segment() {
    if (words_.size() == 2 && words_.back() == "segments") {
      EXPECT_EQ(segments_.size(), static_cast<std::size_t>(number()));
      words_.clear();
      return segments_.clear();
    }
    ASSERT_FALSE(segments_.empty()) << "nothing is sent";
    const Segment segment = std::move(segments_.front());
    segments_.pop_front();
    SCOPED_TRACE("sent: " + text_of(segment));
    const wire::TcpHeader& header = segment.header;
    const wire::TcpOptions& options = segment.options;
    EXPECT_EQ(header.flags & ~wire::tcp_psh, flags(word()));
    const auto [begin, end] = place();
    EXPECT_EQ(our_place(header.sequence), begin);
    EXPECT_EQ(segment.data_size(), static_cast<std::uint64_t>(end - begin));
    if (segment.data) {
      auto at = static_cast<std::uint64_t>(our_place(header.sequence) - 1);
      for (const std::byte byte : tcp_pair::bytes_of(segment.data)) {
        ASSERT_EQ(byte, tcp_pair::Host::byte_at(at++)) << "at " << at;
      }
    }
    std::vector<std::pair<std::int64_t, std::int64_t>> sack;
    while (has_word()) {
      const std::string name = word();
      if (name == "ack") {
        EXPECT_EQ(peer_place(header.acknowledgment), number());
      } else if (name == "win") {
        EXPECT_EQ(header.window, number());
      } else if (name == "mss") {
        EXPECT_EQ(options.segment_bytes_max.value_or(0), number());
      } else if (name == "scale") {
        EXPECT_EQ(options.window_scale, std::optional(static_cast<std::uint8_t>(number())));
      } else if (name == "no-scale") {
        EXPECT_FALSE(options.window_scale);
      } else if (name == "sackok") {
        EXPECT_TRUE(options.sack_permitted);
      } else if (name == "no-sackok") {
        EXPECT_FALSE(options.sack_permitted);
      } else if (name == "ts") {
        ASSERT_TRUE(options.timestamps);
        EXPECT_EQ(options.timestamps->value - numbers_.our_stamps, number());
      } else if (name == "ecr") {
        ASSERT_TRUE(options.timestamps);
        EXPECT_EQ(options.timestamps->echo - numbers_.peer_stamps, number());
      } else if (name == "ecr-zero") {
        ASSERT_TRUE(options.timestamps);
        EXPECT_EQ(options.timestamps->echo, 0U);
      } else if (name == "no-ts") {
        EXPECT_FALSE(options.timestamps);
      } else if (name == "psh") {
        EXPECT_TRUE(header.has(wire::tcp_psh));
      } else if (name == "no-psh") {
        EXPECT_FALSE(header.has(wire::tcp_psh));
      } else if (name == "sack") {
        sack = blocks();
      } else {
        FAIL() << "what is '" << name << "'?";
      }
    }
    ASSERT_EQ(options.sack_count, sack.size());
    for (std::size_t block = 0; block < sack.size(); ++block) {
      EXPECT_EQ(peer_place(options.sack[block].left), sack[block].first);
      EXPECT_EQ(peer_place(options.sack[block].right), sack[block].second);
    }
  }

  // ---- What else is expected ----

  static bool is_expectation(std::string_view verb) {
    constexpr std::string_view all[] = {"state", "news", "room", "deadline", "count", "done"};
    return std::ranges::find(all, verb) != std::end(all);
  }

  void expect(const std::string& verb) {
    if (verb == "state") {
      EXPECT_EQ(name_of(connection().state()), word());
    } else if (verb == "news") {
      std::string wanted;
      for (const std::string& one : std::exchange(words_, {})) {
        wanted += (wanted.empty() ? "" : " ") + one;
      }
      EXPECT_EQ(hear(), wanted);
    } else if (verb == "room") {
      EXPECT_EQ(connection().send_room(), static_cast<std::size_t>(number()));
    } else if (verb == "deadline") {
      EXPECT_EQ(word(), "none");
      EXPECT_EQ(connection().next_deadline(), never);
    } else if (verb == "done") {
      EXPECT_EQ(connection().all_acknowledged(), word() == "yes");
    } else {
      const Connection::Statistics& counts = connection().statistics();
      const std::map<std::string_view, std::uint64_t> all{
          {"sent", counts.segments_sent},    {"again", counts.segments_again},      {"timeouts", counts.timeouts},
          {"challenges", counts.challenges}, {"unacceptable", counts.unacceptable}, {"no_memory", counts.no_memory}};
      const std::string name = word();
      ASSERT_TRUE(all.contains(name)) << name;
      EXPECT_EQ(all.at(name), static_cast<std::uint64_t>(number()));
    }
  }

  /// In the order opened, acknowledged, ended, and how it closed; "none" when there is nothing.
  std::string hear() {
    const Connection::News news = connection().take_news();
    std::string told;
    const auto tell = [&](bool holds, const char* name) {
      told += holds ? (told.empty() ? "" : " ") + std::string(name) : "";
    };
    tell(news.opened, "opened");
    tell(news.acknowledged, "acknowledged");
    tell(news.ended, "ended");
    tell(news.closed == 0, "closed");
    tell(news.closed == ECONNREFUSED, "refused");
    tell(news.closed == ECONNRESET, "reset");
    tell(news.closed == ETIMEDOUT, "timed-out");
    tell(news.closed == EHOSTUNREACH, "unreachable");
    tell(news.closed == ECONNABORTED, "aborted");
    return told.empty() ? "none" : told;
  }

  Parts parts_;
  Numbers numbers_;
  bool fails_ = false;
  BufferPool pool_;
  tcp::Ends ends_{{wire::Ipv4Address{{10, 0, 0, 1}}, 1000}, {wire::Ipv4Address{{10, 0, 0, 2}}, 2000}};
  Connection::Settings settings_;
  std::unique_ptr<Connection> connection_;
  TimePoint now_ = start;
  std::deque<std::string> words_;
  bool in_part_ = false;
  std::int64_t repetition_ = 0;
  std::deque<Segment> segments_;  // sent, not asked for yet
  std::uint64_t sent_ = 0;        // by the user
  std::uint64_t taken_ = 0;
  // Places, as a script counts them.
  std::int64_t snd_ = 0;
  std::int64_t rcv_ = 0;
  std::int64_t una_ = 0;
  // What a segment that arrives says where the script does not.
  std::int64_t acknowledgment_ = 0;
  std::uint16_t window_ = 65535;
  bool stamps_ = false;
  std::uint32_t stamp_ = 0;
  std::uint32_t echo_ = 0;
};

/// Runs a script three times: with numbers that do not wrap, with sequence numbers that do in the midst of the first
/// segments, and with timestamps that do.
inline void run(std::string_view script, Parts parts = {}) {
  constexpr Numbers all[] = {
      {},
      {.ours = 0xffff'ff00, .peers = 0xffff'fe00, .our_stamps = 0x7fff'ffc0, .peer_stamps = 0x7fff'ffd0},
      {.ours = 0x7fff'ff00, .peers = 0x7fff'fe00, .our_stamps = 0xffff'ff9c, .peer_stamps = 0xffff'ffa0}};
  for (const Numbers& numbers : all) {
    SCOPED_TRACE("from " + std::to_string(numbers.ours));
    if (!testing::Test::HasFailure()) {
      Script(numbers, parts).run(script);
    }
  }
}

inline std::string name_of_case(const testing::TestParamInfo<Case>& info) { return info.param.name; }

/// Each case names the sentence that it shows: an RFC, and its section.
inline void expect_sentence(const std::string& shows) {
  EXPECT_THAT(shows, testing::ContainsRegex("RFC [0-9]+ [0-9]"));
}

/// A table of cases makes one test each: TCP_SCRIPTS(TcpOpening, opening_cases). Behind it, their parts, if they have
/// some.
#define TCP_SCRIPTS(suite, cases, ...)                              \
  class suite : public testing::TestWithParam<tcp_script::Case> {}; \
  TEST_P(suite, Script) {                                           \
    tcp_script::expect_sentence(GetParam().shows);                  \
    tcp_script::run(GetParam().script __VA_OPT__(, ) __VA_ARGS__);  \
  }                                                                 \
  INSTANTIATE_TEST_SUITE_P(Cases, suite, testing::ValuesIn(cases), tcp_script::name_of_case)

}  // namespace sluice::test::tcp_script
