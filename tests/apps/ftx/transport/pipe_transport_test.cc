// SPDX-License-Identifier: Apache-2.0
// Datagrams through a pipe that takes and gives a little at a time, is full both ways, or ends; and whole transfers
// through it, in simulated time.
#include "apps/ftx/transport/pipe_transport.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "apps/ftx/recovery/unpaced.h"
#include "apps/ftx/transport/session_handlers.h"
#include "tests/apps/ftx/session/simulation.h"

namespace sluice::ftx {
namespace {

using test::Content;

/// Two sockets of a pair, or four ends of two pipes.
struct Ends {
  explicit Ends(bool sockets) {
    if (sockets) {
      int pair[2];
      EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
      near_in = near_out = pair[0];
      far_in = far_out = pair[1];
    } else {
      int there[2];
      int back[2];
      EXPECT_EQ(::pipe2(there, O_CLOEXEC), 0);
      EXPECT_EQ(::pipe2(back, O_CLOEXEC), 0);
      near_in = back[0], near_out = there[1];
      far_in = there[0], far_out = back[1];
    }
  }
  ~Ends() { close_near(), close_far(); }
  Ends(const Ends&) = delete;
  Ends& operator=(const Ends&) = delete;
  void close_near() { close_both(near_in, near_out); }
  void close_far() { close_both(far_in, far_out); }
  static void close_both(int& in, int& out) {
    if (in >= 0) {
      ::close(in);
    }
    if (out >= 0 && out != in) {
      ::close(out);
    }
    in = out = -1;
  }
  int near_in = -1, near_out = -1, far_in = -1, far_out = -1;
};

/// Keeps what arrives.
class Kept final : public DatagramHandler {
 public:
  void on_datagram(ConstBytes datagram, const Peer& from) override {
    EXPECT_EQ(from, pipe_peer());
    datagrams.emplace_back(datagram.begin(), datagram.end());
  }
  void on_refused(const Peer&) override { ADD_FAILURE() << "a pipe refuses nobody"; }
  std::vector<Content> datagrams;
};

/// A burst of one datagram, whose payload outlives it.
void fill(Burst& burst, const Content& content) {
  burst.clear();
  const Bytes header = burst.room().first(data_header_bytes);
  std::copy_n(content.begin(), header.size(), header.begin());
  burst.add({pipe_peer(), header, ConstBytes(content).subspan(header.size())});
}

Content numbered(std::size_t size, std::uint64_t number) { return test::random_content(size, number); }

class PipeOf : public testing::TestWithParam<bool> {
 protected:
  static void SetUpTestSuite() { std::signal(SIGPIPE, SIG_IGN); }
  Ends ends{GetParam()};
};

INSTANTIATE_TEST_SUITE_P(SocketsAndPipes, PipeOf, testing::Bool(),
                         [](const auto& one) { return one.param ? "Sockets" : "Pipes"; });

TEST_P(PipeOf, DatagramsOfEverySizeArriveWholeAndInOrder) {
  PipeTransport near(ends.near_in, ends.near_out);
  PipeTransport far(ends.far_in, ends.far_out);
  Kept kept;
  std::vector<Content> sent;
  Burst burst;
  for (std::uint64_t number = 0; number < 200; ++number) {
    const std::size_t size = number % 7 == 0 ? frame_datagram_bytes_max : data_header_bytes + number * 37;
    sent.push_back(numbered(size, number));
    fill(burst, sent.back());
    while (!near.send(burst)) {
      while (far.receive(kept)) {
      }
    }
  }
  while (kept.datagrams.size() < sent.size()) {
    near.flush();
    far.receive(kept);
    ASSERT_FALSE(far.ended());
  }
  EXPECT_EQ(kept.datagrams, sent);
  EXPECT_EQ(near.waiting(), 0U);
}

/// Both directions are full and nobody has read: no call blocks, what waits is bounded, and whoever reads first frees
/// the other.
TEST_P(PipeOf, BothDirectionsFullBlockNobody) {
  PipeTransport near(ends.near_in, ends.near_out);
  PipeTransport far(ends.far_in, ends.far_out);
  const Content content = numbered(60'000, 1);
  std::size_t from_near = 0;
  std::size_t from_far = 0;
  const auto stuff = [&](PipeTransport& end) {
    std::size_t count = 0;
    for (Burst burst; end.can_send(); ++count) {
      fill(burst, content);
      EXPECT_TRUE(end.send(burst));
    }
    EXPECT_LE(end.waiting(), PipeTransport::waiting_bytes_max + frame_header_bytes + frame_datagram_bytes_max);
    return count;
  };
  from_near = stuff(near);
  from_far = stuff(far);
  Burst refused;
  fill(refused, content);
  EXPECT_FALSE(near.send(refused));
  EXPECT_EQ(refused.left().size(), 1U);
  Kept at_near;
  Kept at_far;
  for (int turn = 0; turn < 10'000 && (at_near.datagrams.size() < from_far || at_far.datagrams.size() < from_near);
       ++turn) {
    near.receive(at_near);
    near.flush();
    far.receive(at_far);
    far.flush();
  }
  EXPECT_EQ(at_near.datagrams.size(), from_far);
  EXPECT_EQ(at_far.datagrams.size(), from_near);
}

TEST_P(PipeOf, TheEndInTheMiddleOfAFrameIsAnEnd) {
  PipeTransport far(ends.far_in, ends.far_out);
  const std::array<std::byte, 10> part{std::byte{0}, std::byte{100}};
  ASSERT_EQ(::write(ends.near_out, part.data(), part.size()), 10);
  Kept kept;
  EXPECT_TRUE(far.receive(kept));
  EXPECT_FALSE(far.receive(kept));
  EXPECT_FALSE(far.ended());
  ends.close_near();
  EXPECT_FALSE(far.receive(kept));
  EXPECT_TRUE(far.ended());
  EXPECT_FALSE(far.broken());
  EXPECT_TRUE(kept.datagrams.empty());
}

/// What it said before it went is read all the same.
TEST_P(PipeOf, WhoIsGoneTakesNothingAndHasSaidWhatItHasSaid) {
  PipeTransport near(ends.near_in, ends.near_out);
  {
    PipeTransport far(ends.far_in, ends.far_out);
    Burst last;
    const Content content = numbered(2000, 1);
    fill(last, content);
    ASSERT_TRUE(far.send(last));
  }
  ends.close_far();
  Burst burst;
  const Content content = numbered(2000, 2);
  for (int times = 0; times < 200; ++times) {
    fill(burst, content);
    EXPECT_TRUE(near.send(burst));  // is dropped, and nothing grows
  }
  EXPECT_EQ(near.waiting(), 0U);
  Kept kept;
  while (near.receive(kept)) {
  }
  EXPECT_EQ(kept.datagrams.size(), 1U);
  EXPECT_TRUE(near.ended());
}

TEST_P(PipeOf, ABrokenFramingEndsIt) {
  PipeTransport far(ends.far_in, ends.far_out);
  const std::array<std::byte, 20> nonsense{};
  ASSERT_EQ(::write(ends.near_out, nonsense.data(), nonsense.size()), 20);
  Kept kept;
  EXPECT_FALSE(far.receive(kept));
  EXPECT_TRUE(far.ended());
  EXPECT_TRUE(far.broken());
}

TEST_P(PipeOf, WhatIsNoSocketBlocksAgainAfterwardsAndASocketStaysAsItIs) {
  ASSERT_EQ(::fcntl(ends.near_in, F_GETFL) & O_NONBLOCK, 0);
  {
    PipeTransport near(ends.near_in, ends.near_out);
    // A socket may be another process's standard input, too: tee(1) in front of this one ends at EAGAIN.
    EXPECT_EQ((::fcntl(ends.near_in, F_GETFL) & O_NONBLOCK) == 0, GetParam());
    EXPECT_EQ((::fcntl(ends.near_out, F_GETFL) & O_NONBLOCK) == 0, GetParam());
  }
  EXPECT_EQ(::fcntl(ends.near_in, F_GETFL) & O_NONBLOCK, 0);
  EXPECT_EQ(::fcntl(ends.near_out, F_GETFL) & O_NONBLOCK, 0);
}

TEST(Pipe, ADescriptorThatIsNoneIsAnEnd) {
  PipeTransport none(-1, -1);
  EXPECT_TRUE(none.ended());
  Burst burst;
  const Content content = numbered(2000, 1);
  fill(burst, content);
  EXPECT_TRUE(none.send(burst));
  EXPECT_EQ(none.waiting(), 0U);
}

// ---- whole transfers ----

/// A sealed sender and server, each on a real PipeTransport. Between them a middle that forwards at most `rate` bytes a
/// second of simulated time each way, and holds `buffer` bytes.
class PipeWorld {
 public:
  PipeWorld(bool pull, std::uint64_t rate, std::size_t buffer) : rate_(rate), buffer_(buffer), pull_(pull) {
    server_ = std::make_unique<Server>(ServerOptions{.seed = 1,
                                                     .tsdu_bytes = PipeTransport::tsdu_bytes,
                                                     .receive_room_bytes = PipeTransport::receive_room_bytes},
                                       destination);
    const SenderOptions options{
        .peer = pipe_peer(), .waits_for_knock = pull, .path = {}, .tsdu_bytes = PipeTransport::tsdu_bytes, .seed = 2};
    options_ = options;
  }

  /// Until both have an outcome, or `run_max` has passed.
  void run() {
    const TimePoint started = now_;
    Sender sender(now_, options_, source, congestion_,
                  test::protection_of(7, pull_ ? Side::responder : Side::initiator));
    auto server_side = test::protection_of(7, pull_ ? Side::initiator : Side::responder);
    if (pull_) {
      server_->invite(now_, std::move(server_side), {pipe_peer()}, std::chrono::seconds(30));
    } else {
      server_->expect(std::move(server_side));
    }
    SenderHandler sender_handler(sender);
    ServerHandler server_handler(*server_);
    Burst sender_burst;
    Burst server_burst;
    while (!sender.finished() && now_ - started < run_max) {
      sender_handler.now = server_handler.now = now_;
      while (sender_pipe_.receive(sender_handler)) {
      }
      while (server_pipe_.receive(server_handler)) {
      }
      turn(sender, sender_pipe_, sender_burst);
      turn(*server_, server_pipe_, server_burst);
      forward();
      now_ += step;
      while (auto event = sender.next_event()) {
        repaired = std::max(repaired, event->repaired);
        done |= event->kind == Event::Kind::done;
      }
    }
    took = now_ - started;
  }

  static constexpr Duration step = std::chrono::milliseconds(1);
  static constexpr Duration run_max = std::chrono::hours(1);
  test::MemorySource source;
  test::MemoryDestination destination;
  bool done = false;
  std::uint64_t repaired = 0;
  Duration took{};

 private:
  template <class Session>
  void turn(Session& session, PipeTransport& pipe, Burst& burst) {
    while (pipe.send(burst) && pipe.can_send()) {
      session.transmit(now_, burst);
      if (burst.left().empty()) {
        return;
      }
    }
  }

  void forward() {
    credit_ = std::min<double>(credit_ + static_cast<double>(rate_) * std::chrono::duration<double>(step).count(), 1e6);
    move(a_.far_in, b_.near_out, there_);
    move(b_.near_in, a_.far_out, back_);
  }

  /// One direction: from a descriptor into the buffer, and as much of that as the rate allows into the other.
  void move(int from, int to, std::deque<std::byte>& held) {
    std::array<std::byte, 4096> bytes;
    while (held.size() < buffer_) {
      const ssize_t got = ::recv(from, bytes.data(), std::min(bytes.size(), buffer_ - held.size()), MSG_DONTWAIT);
      if (got <= 0) {
        break;
      }
      held.insert(held.end(), bytes.begin(), bytes.begin() + got);
    }
    double& credit = from == a_.far_in ? credit_ : back_credit_;
    if (&credit == &back_credit_) {
      credit = std::min<double>(credit + static_cast<double>(rate_) * std::chrono::duration<double>(step).count(), 1e6);
    }
    while (!held.empty() && credit >= 1) {
      const std::size_t size = std::min({bytes.size(), held.size(), static_cast<std::size_t>(credit)});
      std::copy_n(held.begin(), size, bytes.begin());
      const ssize_t put = ::send(to, bytes.data(), size, MSG_DONTWAIT | MSG_NOSIGNAL);
      if (put <= 0) {
        break;
      }
      held.erase(held.begin(), held.begin() + put);
      credit -= static_cast<double>(put);
    }
  }

  std::uint64_t rate_;
  std::size_t buffer_;
  bool pull_;
  double credit_ = 0;
  double back_credit_ = 0;
  std::deque<std::byte> there_;
  std::deque<std::byte> back_;
  Ends a_{true};
  Ends b_{true};
  PipeTransport sender_pipe_{a_.near_in, a_.near_out};
  PipeTransport server_pipe_{b_.far_in, b_.far_out};
  TimePoint now_{std::chrono::hours(1)};
  SenderOptions options_;
  Unpaced congestion_;
  std::unique_ptr<Server> server_;
};

class PipeTransfer : public testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(PushAndPull, PipeTransfer, testing::Bool(),
                         [](const auto& one) { return one.param ? "Pull" : "Push"; });

/// The pipe holds far more than it carries in a second: delays are long, and nothing is sent twice for it.
TEST_P(PipeTransfer, ASlowPipeWithALongQueueRepeatsNothing) {
  PipeWorld world(GetParam(), 200'000, 1'000'000);
  world.source.add("big", test::random_content(5'000'000, 1));
  world.source.add("empty", {});
  world.source.add("small", test::random_content(5, 2));
  world.run();
  EXPECT_TRUE(world.done);
  EXPECT_EQ(world.repaired, 0U);
  for (std::uint32_t index = 0; index < world.source.files().size(); ++index) {
    EXPECT_EQ(world.destination.files[std::string(world.source.files()[index].name)], world.source.content(index))
        << index;
  }
}

TEST_P(PipeTransfer, APipeThatTakesALittleAtATimeCarriesManyFiles) {
  PipeWorld world(GetParam(), 3'000'000, 700);
  for (int index = 0; index < 300; ++index) {
    world.source.add("file" + std::to_string(index), test::random_content(static_cast<std::size_t>(index), 3));
  }
  world.run();
  EXPECT_TRUE(world.done);
  EXPECT_EQ(world.repaired, 0U);
  EXPECT_EQ(world.destination.files.size(), 300U);
}

}  // namespace
}  // namespace sluice::ftx
