// SPDX-License-Identifier: Apache-2.0
#include "edge/run_loop.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace sluice {
namespace {

using namespace std::chrono_literals;

/// Two connected stream sockets, non-blocking.
class SocketPair {
 public:
  SocketPair() { open(); }
  ~SocketPair() {
    close_end(0);
    close_end(1);
  }
  SocketPair(const SocketPair&) = delete;
  SocketPair& operator=(const SocketPair&) = delete;

  void open() { ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends_.data()), 0); }
  [[nodiscard]] int end(std::size_t which) const { return ends_[which]; }
  void close_end(std::size_t which) {
    if (const int descriptor = std::exchange(ends_[which], -1); descriptor >= 0) {
      ::close(descriptor);
    }
  }
  void send(std::size_t from, std::string_view text) const {
    ASSERT_EQ(::write(ends_[from], text.data(), text.size()), static_cast<ssize_t>(text.size()));
  }

 private:
  std::array<int, 2> ends_{-1, -1};
};

/// Takes one byte a call.
class ByteSource final : public EventSource {
 public:
  explicit ByteSource(int descriptor) : descriptor_(descriptor) {}

  [[nodiscard]] int descriptor() const override { return descriptor_; }
  [[nodiscard]] bool wants_readable() const override { return wants_readable_; }
  [[nodiscard]] bool wants_writable() const override { return wants_writable_; }
  bool on_readable() override {
    ++calls;
    char byte = 0;
    const ssize_t got = ::read(descriptor_, &byte, 1);
    if (got == 1) {
      text += byte;
    }
    if (then) {
      then();
    }
    return got == 1;
  }
  void on_writable() override {
    ++writable_calls;
    wants_writable_ = false;
  }

  void want_readable(bool wants) { wants_readable_ = wants; }
  void want_writable(bool wants) { wants_writable_ = wants; }
  void set_descriptor(int descriptor) { descriptor_ = descriptor; }

  std::string text;
  int calls = 0;
  int writable_calls = 0;
  std::function<void()> then;

 private:
  int descriptor_;
  bool wants_readable_ = true;
  bool wants_writable_ = false;
};

class RunLoopTest : public testing::Test {
 protected:
  [[nodiscard]] TimePoint in(Duration delay) const { return loop->now() + delay; }
  /// Lets the loop do what there is to do within `time`.
  void run_for(Duration time) const {
    loop->run_until([] { return false; }, in(time));
  }

  StreamSet set;
  std::unique_ptr<RunLoop> loop = std::move(RunLoop::open(set)).value();
};

TEST_F(RunLoopTest, WaitIsFalseWhenTheDeadlineComesFirst) {
  const TimePoint deadline = in(5ms);
  EXPECT_FALSE(loop->wait(deadline));
  EXPECT_GE(loop->now(), deadline);
}

TEST_F(RunLoopTest, TimersFireInOrderAndNotEarly) {
  std::string fired;
  std::vector<TimePoint> at;
  const auto note = [&](char name) {
    fired += name;
    at.push_back(loop->now());
  };
  Timer late(set.scheduler(), [&] { note('l'); });
  Timer soon(set.scheduler(), [&] { note('s'); });
  const TimePoint start = loop->now();
  late.arm(start + 6ms);
  soon.arm(start + 2ms);
  EXPECT_TRUE(loop->run_until([&] { return fired.size() == 2; }, in(5s)));
  EXPECT_EQ(fired, "sl");
  EXPECT_GE(at[0], start + 2ms);
  EXPECT_GE(at[1], start + 6ms);
}

TEST_F(RunLoopTest, ATimerArmedForAnEarlierTimeEndsTheSleep) {
  SocketPair pair;
  ByteSource source(pair.end(0));
  set.add_source(source);
  Timer far(set.scheduler(), [] {});
  far.arm(in(1h));
  run_for(1ms);
  bool fired = false;
  Timer near(set.scheduler(), [&] { fired = true; });
  near.arm(in(2ms));
  EXPECT_TRUE(loop->run_until([&] { return fired; }, in(5s)));
  set.remove_source(source);
}

TEST_F(RunLoopTest, ServesASourceUntilItIsEmptyAndThenSleeps) {
  SocketPair pair;
  ByteSource source(pair.end(0));
  set.add_source(source);
  pair.send(1, "hello");
  EXPECT_TRUE(loop->run_until([&] { return source.text == "hello"; }, in(5s)));
  run_for(20ms);
  // Five bytes, and one call that found nothing more.
  EXPECT_EQ(source.calls, 6);
  pair.send(1, "!");
  EXPECT_TRUE(loop->run_until([&] { return source.text == "hello!"; }, in(5s)));
  set.remove_source(source);
}

// What a module delays, it delays from the time of arrival: a clock that still showed when the loop went to sleep would
// make the delay shorter by the sleep.
TEST_F(RunLoopTest, ASourceSeesTheTimeOfArrival) {
  SocketPair pair;
  ByteSource source(pair.end(0));
  TimePoint seen{};
  source.then = [&] { seen = set.now(); };
  set.add_source(source);
  run_for(20ms);
  const TimePoint arrived = loop->now();
  pair.send(1, "x");
  run_for(1ms);
  EXPECT_GE(seen, arrived);
  set.remove_source(source);
}

TEST_F(RunLoopTest, ASourceThatWantsNothingIsLeftAloneAndResumesWithWhatWaited) {
  SocketPair pair;
  ByteSource source(pair.end(0));
  source.want_readable(false);
  set.add_source(source);
  pair.send(1, "abc");
  run_for(10ms);
  EXPECT_EQ(source.calls, 0);
  source.want_readable(true);
  EXPECT_TRUE(loop->run_until([&] { return source.text.size() == 2; }, in(5s)));
  source.want_readable(false);
  run_for(10ms);
  EXPECT_EQ(source.text, "ab");
  source.want_readable(true);
  EXPECT_TRUE(loop->run_until([&] { return source.text == "abc"; }, in(5s)));
  set.remove_source(source);
}

TEST_F(RunLoopTest, WritabilityIsReportedOnlyWhenWantedAndThere) {
  SocketPair pair;
  ByteSource source(pair.end(0));
  set.add_source(source);
  const std::string junk(64 * 1024, 'x');
  while (::write(pair.end(0), junk.data(), junk.size()) > 0) {
  }
  run_for(5ms);
  EXPECT_EQ(source.writable_calls, 0);
  source.want_writable(true);
  run_for(5ms);
  EXPECT_EQ(source.writable_calls, 0);
  std::string sink(junk.size(), 0);
  while (::read(pair.end(1), sink.data(), sink.size()) > 0) {
  }
  EXPECT_TRUE(loop->run_until([&] { return source.writable_calls == 1; }, in(5s)));
  run_for(5ms);
  EXPECT_EQ(source.writable_calls, 1);
  set.remove_source(source);
}

TEST_F(RunLoopTest, ASourceMayLeaveInItsOwnHookAndItsDescriptorNumberMayBeUsedAgain) {
  SocketPair first;
  ByteSource leaving(first.end(0));
  set.add_source(leaving);
  SocketPair second;
  ByteSource coming(-1);
  leaving.then = [&] {
    set.remove_source(leaving);
    const int old = first.end(0);
    first.close_end(0);
    // The lowest free number is the one just closed.
    const int again = ::fcntl(second.end(0), F_DUPFD_CLOEXEC, 0);
    EXPECT_EQ(again, old);
    coming.set_descriptor(again);
    set.add_source(coming);
  };
  first.send(1, "xy");
  second.send(1, "new");
  EXPECT_TRUE(loop->run_until([&] { return coming.text == "new"; }, in(5s)));
  EXPECT_EQ(leaving.calls, 1);
  set.remove_source(coming);
  ::close(coming.descriptor());
}

TEST_F(RunLoopTest, ASourceMayComeBackWithAnotherDescriptor) {
  SocketPair first;
  SocketPair second;
  ByteSource source(first.end(0));
  set.add_source(source);
  run_for(2ms);
  set.remove_source(source);
  source.set_descriptor(second.end(0));
  set.add_source(source);
  second.send(1, "2");
  EXPECT_TRUE(loop->run_until([&] { return source.text == "2"; }, in(5s)));
  set.remove_source(source);
}

TEST_F(RunLoopTest, ABusySourceStarvesNeitherTimersNorOthers) {
  SocketPair pair;
  ByteSource quiet(pair.end(0));
  SocketPair endless;
  ByteSource busy(endless.end(0));
  busy.then = [&] { endless.send(1, "."); };
  endless.send(1, ".");
  set.add_source(busy);
  set.add_source(quiet);
  bool fired = false;
  Timer timer(set.scheduler(), [&] {
    fired = true;
    pair.send(1, "q");
  });
  timer.arm(in(2ms));
  EXPECT_TRUE(loop->run_until([&] { return fired && quiet.text == "q"; }, in(5s)));
  EXPECT_GT(busy.calls, 1);
  set.remove_source(busy);
  set.remove_source(quiet);
}

TEST_F(RunLoopTest, TwoSourcesThatRemoveEachOtherLeaveOne) {
  SocketPair pair;
  ByteSource a(pair.end(0));
  ByteSource b(pair.end(1));
  set.add_source(a);
  set.add_source(b);
  a.then = [&] { set.remove_source(b); };
  b.then = [&] { set.remove_source(a); };
  pair.send(0, "1");
  pair.send(1, "2");
  run_for(10ms);
  EXPECT_EQ(set.sources().size(), 1U);
  EXPECT_EQ(a.text.size() + b.text.size(), 1U);
}

TEST_F(RunLoopTest, WatchesADescriptorOfTheProgramUntilItEnds) {
  SocketPair pair;
  std::string text;
  bool ended = false;
  loop->watch(pair.end(0), [&] {
    char byte = 0;
    const ssize_t got = ::read(pair.end(0), &byte, 1);
    if (got == 0) {
      ended = true;
      loop->unwatch(pair.end(0));
    }
    text.append(got == 1 ? 1U : 0U, byte);
    return got == 1;
  });
  pair.send(1, "line\n");
  EXPECT_TRUE(loop->run_until([&] { return text == "line\n"; }, in(5s)));
  pair.close_end(1);
  EXPECT_TRUE(loop->run_until([&] { return ended; }, in(5s)));
  // Nobody is called for it any more, though the end of file stays readable.
  ended = false;
  run_for(10ms);
  EXPECT_FALSE(ended);
}

TEST_F(RunLoopTest, APlainFileIsAlwaysReadable) {
  std::string name = testing::TempDir() + "run_loop_XXXXXX";
  const int file = ::mkstemp(name.data());
  ASSERT_GE(file, 0);
  ASSERT_EQ(::write(file, "data", 4), 4);
  ASSERT_EQ(::lseek(file, 0, SEEK_SET), 0);
  std::string text;
  bool ended = false;
  loop->watch(file, [&] {
    char byte = 0;
    ended = ::read(file, &byte, 1) != 1;
    text.append(ended ? 0U : 1U, byte);
    return !ended;
  });
  EXPECT_TRUE(loop->run_until([&] { return ended; }, in(5s)));
  EXPECT_EQ(text, "data");
  loop->unwatch(file);
  ::close(file);
  ::unlink(name.c_str());
}

TEST_F(RunLoopTest, SignalsArriveAsCallbacksEachTime) {
  int usr1 = 0;
  int term = 0;
  ASSERT_TRUE(loop->on_signal(SIGUSR1, [&] { ++usr1; }));
  ASSERT_TRUE(loop->on_signal(SIGTERM, [&] { ++term; }));
  ::raise(SIGUSR1);
  EXPECT_TRUE(loop->run_until([&] { return usr1 == 1; }, in(5s)));
  ::raise(SIGUSR1);
  ::raise(SIGTERM);
  EXPECT_TRUE(loop->run_until([&] { return usr1 == 2 && term == 1; }, in(5s)));
}

TEST_F(RunLoopTest, ASignalEndsAWait) {
  ASSERT_TRUE(loop->on_signal(SIGUSR1, [] {}));
  ::raise(SIGUSR1);
  EXPECT_TRUE(loop->wait(in(5s)));
}

TEST_F(RunLoopTest, AnImpossibleSignalIsAnError) {
  const Status refused = loop->on_signal(SIGKILL, [] {});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, EINVAL);
}

TEST_F(RunLoopTest, StopFromAnotherThreadEndsTheRun) {
  std::thread other([&] {
    std::this_thread::sleep_for(2ms);
    loop->stop();
  });
  EXPECT_FALSE(loop->run_until([] { return false; }, in(30s)));
  other.join();
  // It ended that run only.
  EXPECT_FALSE(loop->wait(in(1ms)));
}

TEST_F(RunLoopTest, AnIdleLoopSleeps) {
  SocketPair pair;
  ByteSource source(pair.end(0));
  set.add_source(source);
  int rounds = 0;
  const TimePoint deadline = in(20ms);
  while (loop->wait(deadline)) {
    ++rounds;
  }
  EXPECT_EQ(rounds, 0);
  set.remove_source(source);
}

/// Takes nothing until it is told to.
class IdleSource final : public EventSource {
 public:
  explicit IdleSource(int descriptor) : descriptor_(descriptor) {}
  [[nodiscard]] int descriptor() const override { return descriptor_; }
  bool on_readable() override {
    ++calls;
    std::array<char, 64> bytes{};
    const ssize_t got = takes ? ::read(descriptor_, bytes.data(), bytes.size()) : 0;
    taken += got > 0 ? static_cast<std::size_t>(got) : 0;
    return got > 0;
  }
  [[nodiscard]] bool wants_writable() const override { return wants_writable_; }
  void on_writable() override { ++calls; }
  void want_writable() { wants_writable_ = true; }

  bool takes = false;
  std::size_t calls = 0;
  std::size_t taken = 0;

 private:
  int descriptor_;
  bool wants_writable_ = false;
};

/// In half a second a loop that spins makes some thousand calls.
constexpr std::size_t calls_without_spinning = 200;

TEST_F(RunLoopTest, AnErrorThatTheSourceDoesNotReadIsTakenByTheLoop) {
  const int socket = ::socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0);
  sockaddr_in nobody{};
  nobody.sin_family = AF_INET;
  nobody.sin_port = htons(9);
  nobody.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(::connect(socket, reinterpret_cast<const sockaddr*>(&nobody), sizeof nobody), 0);
  ASSERT_EQ(::send(socket, "x", 1, 0), 1);  // the answer is an error that the socket holds: ECONNREFUSED
  IdleSource source(socket);
  set.add_source(source);
  run_for(500ms);
  EXPECT_GE(source.calls, 1U);
  EXPECT_LT(source.calls, calls_without_spinning);
  int error = 0;
  socklen_t size = sizeof error;
  ASSERT_EQ(::getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &size), 0);
  EXPECT_EQ(error, 0);
  set.remove_source(source);
  ::close(socket);
}

TEST_F(RunLoopTest, AHangupThatNothingClearsDoesNotSpin) {
  std::array<int, 2> pipe{};
  ASSERT_EQ(::pipe(pipe.data()), 0);
  ::close(pipe[1]);
  IdleSource source(pipe[0]);
  set.add_source(source);
  run_for(500ms);
  EXPECT_GE(source.calls, 1U);
  EXPECT_LT(source.calls, calls_without_spinning);
  set.remove_source(source);
  ::close(pipe[0]);
}

// A source may be unable to take what is there, as a driver is when the buffer pool is exhausted; it is asked again.
TEST_F(RunLoopTest, DataThatTheSourceDoesNotTakeDoesNotSpinAndIsTakenLater) {
  SocketPair pair;
  IdleSource source(pair.end(0));
  set.add_source(source);
  pair.send(1, "data");
  run_for(500ms);
  EXPECT_GE(source.calls, 1U);
  EXPECT_LT(source.calls, calls_without_spinning);
  source.takes = true;
  EXPECT_TRUE(loop->run_until([&] { return source.taken == 4; }, in(5s)));
  set.remove_source(source);
}

TEST_F(RunLoopTest, RoomThatTheSourceDoesNotUseDoesNotSpin) {
  SocketPair pair;
  IdleSource source(pair.end(0));
  source.want_writable();
  set.add_source(source);
  run_for(500ms);
  EXPECT_GE(source.calls, 1U);
  EXPECT_LT(source.calls, calls_without_spinning);
  set.remove_source(source);
}

// Each byte ends a sleep and is taken whole: however often that happens, the source is never left alone for a while.
// The bytes come one after the other, each when the one before was taken, so that a pause would show as a wait.
TEST_F(RunLoopTest, ASourceThatTakesWhatWakesItIsNeverPaused) {
  SocketPair pair;
  ByteSource source(pair.end(0));
  set.add_source(source);
  for (std::size_t at = 1; at <= 500; ++at) {
    pair.send(1, "x");
    // What there is to do is done in rounds that do not sleep.
    for (int rounds = 0; source.text.size() < at && rounds < 4; ++rounds) {
      static_cast<void>(loop->wait(loop->now()));
    }
    ASSERT_EQ(source.text.size(), at);
  }
  set.remove_source(source);
}

/// Leaves what it was woken for in the descriptor until it is called again, as a driver does that lends a ring's
/// frames.
class LendingSource final : public EventSource {
 public:
  explicit LendingSource(int descriptor) : descriptor_(descriptor) {}
  [[nodiscard]] int descriptor() const override { return descriptor_; }
  bool on_readable() override {
    std::array<char, 64> bytes{};
    for (; lent > 0; --lent) {
      EXPECT_EQ(::read(descriptor_, bytes.data(), 1), 1);
    }
    const ssize_t there = ::recv(descriptor_, bytes.data(), bytes.size(), MSG_PEEK);
    lent = there > 0 ? static_cast<std::size_t>(there) : 0;
    seen += lent;
    return false;
  }
  [[nodiscard]] bool keeps_readable() const override { return lent > 0; }

  std::size_t lent = 0;
  std::size_t seen = 0;

 private:
  int descriptor_;
};

// What keeps the descriptor readable is not left alone for a while: what comes next would wait with it.
TEST_F(RunLoopTest, ASourceThatKeepsItsDescriptorReadableIsNeverPaused) {
  SocketPair pair;
  LendingSource source(pair.end(0));
  set.add_source(source);
  for (std::size_t at = 1; at <= 500; ++at) {
    pair.send(1, "x");
    for (int rounds = 0; source.seen < at && rounds < 4; ++rounds) {
      static_cast<void>(loop->wait(loop->now()));
    }
    ASSERT_EQ(source.seen, at);
  }
  set.remove_source(source);
}

// A descriptor that is readable all the time is writable, too: who always has something to read writes all the same.
TEST_F(RunLoopTest, ASourceThatAlwaysReadsIsToldThatItMayWrite) {
  SocketPair pair;
  ByteSource source(pair.end(0));
  set.add_source(source);
  std::size_t sent = 0;
  source.then = [&] { pair.send(1, std::string(1 + (++sent == 1 ? 1U : 0U), 'x')); };
  pair.send(1, "x");
  for (int asked = 1; asked <= 3; ++asked) {
    source.want_writable(true);
    const int calls = source.calls;
    while (source.writable_calls < asked && source.calls < calls + 1000) {
      static_cast<void>(loop->wait(loop->now()));
    }
    EXPECT_EQ(source.writable_calls, asked);
  }
  set.remove_source(source);
}

/// Sends each byte that it gets back, until it has seen `count`.
class Echo final : public EventSource {
 public:
  Echo(int descriptor, int count) : descriptor_(descriptor), left_(count) {}
  [[nodiscard]] int descriptor() const override { return descriptor_; }
  bool on_readable() override {
    char byte = 0;
    if (::read(descriptor_, &byte, 1) != 1) {
      return false;
    }
    --left_;
    EXPECT_EQ(::write(descriptor_, &byte, 1), 1);
    return true;
  }
  [[nodiscard]] bool finished() const { return left_ <= 0; }

 private:
  int descriptor_;
  int left_;
};

TEST(RunLoops, TwoInTwoThreadsShareNothing) {
  constexpr int exchanges = 2000;
  SocketPair pair;
  pair.send(0, "p");
  std::atomic<int> finished = 0;
  const auto run = [&](std::size_t end) {
    StreamSet set;
    const auto loop = std::move(RunLoop::open(set)).value();
    Echo echo(pair.end(end), exchanges);
    set.add_source(echo);
    EXPECT_TRUE(loop->run_until([&] { return echo.finished(); }, loop->now() + 60s));
    set.remove_source(echo);
    ++finished;
  };
  std::thread one(run, 0);
  std::thread two(run, 1);
  one.join();
  two.join();
  EXPECT_EQ(finished, 2);
}

}  // namespace
}  // namespace sluice
