// SPDX-License-Identifier: Apache-2.0
// The pool fails for a while, at each allocation in turn, through a whole conversation of two streams of tcp: from the
// bind to the unbind. Nothing is lost but time, and nobody is told of anything that has not happened.
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <functional>
#include <string>
#include <string_view>

#include "tests/stack/modules/tcp_stack.h"

namespace sluice::test::tcp_stack {
namespace {

/// Allocations that fail: from the first on so many, or, with `until_later`, all until a time-out of TCP may have run.
struct Drought {
  std::uint64_t first = 0;
  std::uint64_t length = 0;
  static constexpr std::uint64_t until_later = 0;
  static constexpr Duration duration = 300ms;
};

/// One of the two, and what he was told.
struct Speaker {
  explicit Speaker(StreamSet& set) : stack(set) {}
  TcpStack stack;
  std::string events;
  std::string data;
};

class Conversation {
 public:
  explicit Conversation(const Drought& drought) : drought_(drought) {
    called_.stack.ip().source_v4 = there_v4;
    set_.pool().fail_when([this] { return fails(); });
  }
  Conversation(const Conversation&) = delete;
  Conversation& operator=(const Conversation&) = delete;

  void play() {
    ask(called_, BindReq{.address = encoded(TransportAddress{{}, there_port}), .connect_indications = 1});
    until([&] { return called_.events == "bound "; });
    ask(caller_, BindReq{.address = encoded(TransportAddress{{}, here_port})});
    until([&] { return caller_.events == "bound "; });
    connect();
    until([&] { return called_.events == "bound called 1 "; });
    accept();
    until([&] { return called_.events == "bound called 1 ok accept " && caller_.events.ends_with("confirmed "); });
    for (int i = 0; i < 4; ++i) {
      say(caller_, question.substr(static_cast<std::size_t>(i) * question.size() / 4, question.size() / 4));
      say(called_, answer.substr(static_cast<std::size_t>(i) * answer.size() / 4, answer.size() / 4));
    }
    until([&] { return called_.data == question && caller_.data == answer; });
    ask(caller_, OrdrelReq{});
    until([&] { return called_.events == "bound called 1 ok accept end "; });
    say(called_, "more");
    ask(called_, OrdrelReq{});
    until([&] { return caller_.events.ends_with("confirmed end "); });
    ask(called_, UnbindReq{});
    until([&] { return called_.events == "bound called 1 ok accept end flush ok unbind "; });
    ask(caller_, UnbindReq{});
    until([&] { return caller_.events == "bound ok connect confirmed end flush ok unbind "; });
    EXPECT_TRUE(caller_.data == answer + "more");
    EXPECT_TRUE(called_.data == question);
  }

  /// Whether the drought has come.
  [[nodiscard]] bool came() const { return asked_ >= drought_.first; }
  StreamSet& set() { return set_; }

 private:
  const std::string question = std::string(6000, 'q') + std::string(6000, 'r');
  const std::string answer = std::string(200, 'a') + std::string(200, 'b');

  bool fails() {
    if (spared_ || caller_.stack.ip().answering || called_.stack.ip().answering) {
      return false;
    }
    if (++asked_ == drought_.first) {
      begun_ = set_.now();
    }
    return came() && (drought_.length == Drought::until_later ? set_.now() < begun_ + Drought::duration
                                                              : asked_ < drought_.first + drought_.length);
  }
  /// What the test itself does is no part of it.
  template <class Make>
  auto spared(Make make) {
    spared_ = true;
    auto made = make();
    spared_ = false;
    return made;
  }

  template <class Primitive>
  void ask(Speaker& speaker, const Primitive& primitive) {
    speaker.stack.down(spared([&] { return proto(speaker.stack, primitive); }));
  }
  void say(Speaker& speaker, std::string_view text) {
    speaker.stack.down(
        spared([&] { return with_data(proto(speaker.stack, DataReq{}), test::data(speaker.stack, text)); }));
  }
  /// For want of memory it may be refused, for as long as that lasts.
  void connect() {
    const std::string refused = "bound refused connect 8/" + std::to_string(ENOBUFS) + " ";
    do {
      caller_.events = "bound ";
      wait(Drought::duration);
      ask(caller_, ConnReq{.address = encoded(TransportAddress{there_v4, there_port}), .options = {}});
      until([&] { return caller_.events != "bound "; });
    } while (caller_.events == refused && !testing::Test::HasFailure());
  }
  void accept() {
    const std::uint32_t number = spared([&] { return called_.stack.number(); });
    ask(called_, ConnRes{.acceptor_id = number, .options = {}, .sequence = 1});
  }

  /// Carries what waits, and moves the clock to what is due next, until `done`.
  void until(const std::function<bool()>& done) {
    constexpr Duration time_max = 60s;
    constexpr Duration tick = 1ms;
    for (const TimePoint end = set_.now() + time_max; !testing::Test::HasFailure();) {
      while (carry(caller_, called_) || carry(called_, caller_)) {
      }
      hear(caller_);
      hear(called_);
      if (done()) {
        return;
      }
      const TimePoint next = set_.scheduler().next_deadline();
      ASSERT_LT(next, end) << "told: " << caller_.events << "/ " << called_.events << ", allocation " << asked_;
      set_.scheduler().poll(std::max(next, set_.now() + tick));  // the pool says that there is memory, all the time
    }
  }
  void wait(Duration time) {
    const TimePoint end = set_.now() + time;
    until([&] {
      if (set_.scheduler().next_deadline() > end) {
        set_.scheduler().poll(end);
      }
      return set_.now() >= end;
    });
  }
  bool carry(Speaker& from, Speaker& to) {
    const auto sent = spared([&] { return from.stack.take_messages(); });
    for (const auto& [request, bytes] : sent) {
      to.stack.up(spared([&] { return to.stack.indication(request.local, request.peer, bytes); }));
    }
    return !sent.empty();
  }
  void hear(Speaker& speaker) {
    spared([&] {
      while (speaker.stack.head().count() > 0) {
        const auto [words, text] = speaker.stack.told_next();
        speaker.events += words.empty() ? "" : words + " ";
        speaker.data += text;
      }
      return 0;
    });
  }

  Drought drought_;
  StreamSet set_{{.seed = 1}};
  bool spared_ = false;
  std::uint64_t asked_ = 0;
  TimePoint begun_{};
  Speaker caller_{set_};
  Speaker called_{set_};
};

class TcpDrought : public testing::TestWithParam<std::uint64_t> {};

TEST_P(TcpDrought, CostsNothingButTime) {
  constexpr std::uint64_t allocations_min = 50;
  bool came = true;
  std::uint64_t first = 0;
  while (came && !HasFailure()) {
    SCOPED_TRACE("from allocation " + std::to_string(++first));
    Conversation conversation({.first = first, .length = GetParam()});
    conversation.play();
    came = conversation.came();
  }
  EXPECT_GT(first, allocations_min);
}

INSTANTIATE_TEST_SUITE_P(Lengths, TcpDrought, testing::Values(1, 3, Drought::until_later));

}  // namespace
}  // namespace sluice::test::tcp_stack
