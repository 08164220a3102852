// SPDX-License-Identifier: Apache-2.0
// Messengers with and without a progress thread, over the kernel's UDP and TCP on loopback: the calls mean the same,
// and only with the thread messages move while the program does something else.
#include "progress/messenger.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <memory>
#include <ostream>
#include <string>
#include <thread>
#include <vector>

#include "apps/common/registry.h"
#include "base/prng.h"
#include "stack/head/stack_file.h"

namespace sluice::test::messengers {
namespace {

using msg::Completion;
using msg::Handle;
using msg::Match;
using msg::Messenger;
using msg::Peer;
using namespace std::chrono_literals;

struct Tested {
  std::string name;
  bool thread;
  std::string stack;
};

void PrintTo(const Tested& tested, std::ostream* out) { *out << tested.name; }

std::vector<std::byte> content(std::uint64_t which, std::size_t size) {
  std::vector<std::byte> bytes(size);
  for (std::size_t at = 0; at < size; ++at) {
    bytes[at] = static_cast<std::byte>((which * 7 + at * 131 + (at >> 8) * 3) & 0xff);
  }
  return bytes;
}

TimePoint soon() { return Messenger::now() + 30s; }

Result<std::unique_ptr<Messenger>> open_messenger(const std::string& stack, Messenger::Options options) {
  static std::uint64_t seed = 0;
  static const Registry registry = standard_registry();  // outlives what is opened later
  const auto file = StackFile::parse("[stack.one]\n" + stack, "test", registry);
  if (!file) {
    return std::unexpected(file.error());
  }
  options.set.seed = ++seed;
  if (!options.endpoint.local) {
    options.endpoint.local = *Peer::from_text("127.0.0.1:0");
  }
  return Messenger::open([declaration = **file->find("one")](StreamSet& set) { return open_stack(set, declaration); },
                         options);
}

class OverLoopback : public testing::TestWithParam<Tested> {
 protected:
  std::unique_ptr<Messenger> open(Messenger::Options options = {}) {
    options.progress_thread = GetParam().thread;
    auto opened = open_messenger(GetParam().stack, options);
    EXPECT_TRUE(opened) << opened.error().text;
    return opened ? std::move(*opened) : nullptr;
  }
  /// Without a thread the peer's messages move only in its own calls.
  static void nudge(Messenger& messenger) { static_cast<void>(messenger.probe({.bits = ~std::uint64_t{0}})); }
  static Completion wait(Messenger& messenger, Handle handle, Messenger& other) {
    for (const TimePoint end = soon(); Messenger::now() < end;) {
      const auto done = messenger.wait(handle, Messenger::now() + 1ms);
      if (done) {
        return *done;
      }
      if (done.error().code != ETIME) {
        ADD_FAILURE() << done.error().code << " " << done.error().text;
        break;
      }
      nudge(other);
    }
    return {.error = -1};
  }
};

/// utopia has no recovery: what a full socket drops stays lost.
class OverRecovery : public OverLoopback {};

std::string name_of(const testing::TestParamInfo<Tested>& each) { return each.param.name; }

std::vector<Tested> tested() {
  std::vector<Tested> all;
  for (const std::string module : {"rmpp", "utopia"}) {
    const std::string stack = "driver = { kind = \"kernel_udp\" }\npush = [\"" + module + "\", \"timod\"]\n";
    all.push_back({module + "_thread", true, stack});
    all.push_back({module + "_calls", false, stack});
  }
  const std::string connections = "driver = { kind = \"kernel_tcp\" }\npush = [\"timod\"]\n";
  all.push_back({"tcp_thread", true, connections});
  all.push_back({"tcp_calls", false, connections});
  return all;
}

std::vector<Tested> tested_with_recovery() {
  std::vector<Tested> all = tested();
  std::erase_if(all, [](const Tested& each) { return each.stack.contains("utopia"); });
  return all;
}

INSTANTIATE_TEST_SUITE_P(Progress, OverLoopback, testing::ValuesIn(tested()), name_of);
INSTANTIATE_TEST_SUITE_P(Progress, OverRecovery, testing::ValuesIn(tested_with_recovery()), name_of);

TEST_P(OverLoopback, MessagesOfAnySizeArriveBothWaysWhetherOrNotTheyAreExpected) {
  const auto a = open();
  const auto b = open();
  std::uint64_t bits = 1;
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{1400}, std::size_t{100'000}}) {
    for (const bool expected : {true, false}) {
      const auto bytes = content(++bits, size);
      std::vector<std::byte> buffer(size);
      Result<Handle> receive = fail(0);
      if (expected) {
        receive = b->post(buffer, {.bits = bits});
      }
      const auto sending = a->send(b->address(), bits, bytes);
      ASSERT_TRUE(sending);
      if (!expected) {
        const TimePoint end = soon();
        auto found = b->probe({.bits = bits}, Messenger::now() + 1ms);
        while (!found && Messenger::now() < end) {
          nudge(*a);
          found = b->probe({.bits = bits}, Messenger::now() + 1ms);
        }
        ASSERT_TRUE(found);
        EXPECT_EQ(found->total_bytes, size);
        EXPECT_EQ(found->peer, a->address());
        receive = b->post(buffer, {.bits = bits});
      }
      ASSERT_TRUE(receive);
      const Completion came = wait(*b, *receive, *a);
      EXPECT_EQ(came, (Completion{.error = 0, .peer = a->address(), .bits = bits, .bytes = size, .total_bytes = size}));
      EXPECT_TRUE(buffer == bytes);
      EXPECT_EQ(wait(*a, *sending, *b).error, 0);
      EXPECT_EQ(b->test(*receive).error().code, EINVAL) << "told once";
    }
  }
}

TEST_P(OverLoopback, ReceivesAndSendsAreBounded) {
  const auto a = open({.endpoint = {.receives_max = 2, .sends_max = 2}});
  std::vector<std::byte> buffer(8);
  const auto first = a->post(buffer, {.bits = 1});
  ASSERT_TRUE(first);
  ASSERT_TRUE(a->post(buffer, {.bits = 2}));
  EXPECT_EQ(a->post(buffer, {.bits = 3}).error().code, ENOBUFS);
  EXPECT_TRUE(a->cancel(*first));
  EXPECT_FALSE(a->cancel(*first));
  EXPECT_EQ(a->test(*first).error().code, EINVAL);
  EXPECT_TRUE(a->post(buffer, {.bits = 3}));
  const std::vector<std::byte> long_one(1);
  EXPECT_EQ(a->send(a->address(), 1, ConstBytes(long_one.data(), a->message_bytes_max() + 1)).error().code, EMSGSIZE);
}

TEST_P(OverLoopback, NothingInTimeIsToldByTheDeadline) {
  const auto a = open();
  std::vector<std::byte> buffer(8);
  const auto handle = a->post(buffer, {.bits = 1});
  ASSERT_TRUE(handle);
  const TimePoint deadline = Messenger::now() + 20ms;
  EXPECT_EQ(a->wait(*handle, deadline).error().code, ETIME);
  EXPECT_GE(Messenger::now(), deadline);
  EXPECT_EQ(a->probe({.bits = 1}, Messenger::now() + 5ms).error().code, ETIME);
  EXPECT_EQ(a->probe({.bits = 1}).error().code, EAGAIN);
  EXPECT_EQ(a->wait_any({}, never).error().code, EINVAL);
  EXPECT_EQ(a->test(Handle{999}).error().code, EINVAL);
}

// What the thread is for: nobody waits, and the message lands. Without it nothing moves however long the program
// computes.
TEST_P(OverLoopback, AMessageMovesWhileTheProgramComputesOnlyWithTheThread) {
  const auto a = open();
  const auto b = open();
  const auto bytes = content(3, 300'000);
  std::vector<std::byte> buffer(bytes.size());
  const auto receive = b->post(buffer, {.bits = 3});
  const auto sending = a->send(b->address(), 3, bytes);
  ASSERT_TRUE(receive && sending);
  const TimePoint end = Messenger::now() + (GetParam().thread ? Duration(30s) : Duration(100ms));
  Result<Completion> done = b->test(*receive);
  while (!done && Messenger::now() < end) {
    ::usleep(1000);
    done = b->test(*receive);
  }
  EXPECT_EQ(done.has_value(), GetParam().thread);
  if (!done) {
    EXPECT_EQ(done.error().code, EAGAIN);
    EXPECT_EQ(wait(*b, *receive, *a).error, 0);
  }
  EXPECT_TRUE(buffer == bytes);
  EXPECT_EQ(wait(*a, *sending, *b).error, 0);
}

TEST_P(OverLoopback, AMessengerEndsWithWhatIsOutstanding) {
  const auto b = open();
  std::vector<std::byte> buffer(1'000'000);
  const auto bytes = content(1, buffer.size());
  {
    const auto a = open();
    for (std::uint64_t bits = 0; bits < 5; ++bits) {
      ASSERT_TRUE(a->post(buffer, {.bits = bits}));
      ASSERT_TRUE(a->send(b->address(), bits, bytes));
    }
  }
  EXPECT_EQ(b->statistics().truncated, 0U);
}

// More requests than the queue holds, of messages of random sizes, in both directions at once.
TEST_P(OverRecovery, ThousandsOfMessagesCrossWithTheirContents) {
  constexpr std::size_t count = 1500;  // each way: more than the queue of requests holds
  constexpr std::uint64_t seed = 7;
  SCOPED_TRACE("seed " + std::to_string(seed));
  Prng prng(seed);
  const std::array<std::unique_ptr<Messenger>, 2> both = {open(), open()};
  std::array<std::vector<std::vector<std::byte>>, 2> sent;
  std::array<std::vector<std::vector<std::byte>>, 2> buffers;
  std::array<std::vector<Handle>, 2> receives;
  std::array<std::vector<Handle>, 2> sends;
  for (std::size_t at = 0; at < 2; ++at) {
    for (std::size_t i = 0; i < count; ++i) {
      sent[at].push_back(content(i + at, prng.below(3000)));
      buffers[at].emplace_back(3000);
      receives[at].push_back(*both[at]->post(buffers[at].back(), {.bits = i}));
    }
  }
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t at = 0; at < 2; ++at) {
      sends[at].push_back(*both[at]->send(both[1 - at]->address(), i, sent[at][i]));
    }
  }
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t at = 0; at < 2; ++at) {
      const Completion came = wait(*both[at], receives[at][i], *both[1 - at]);
      const auto& bytes = sent[1 - at][i];
      ASSERT_EQ(came.error, 0);
      ASSERT_EQ(came.bytes, bytes.size());
      ASSERT_TRUE(std::equal(bytes.begin(), bytes.end(), buffers[at][i].begin()));
      ASSERT_EQ(wait(*both[at], sends[at][i], *both[1 - at]).error, 0);
    }
  }
}

std::atomic<int> signals_in_program{0};
std::atomic<int> signals_elsewhere{0};
pthread_t program_thread;

TEST(MessengerThread, TakesNoSignals) {
  program_thread = pthread_self();
  struct sigaction counted{};
  struct sigaction before{};
  counted.sa_handler = [](int) {
    ++(pthread_equal(pthread_self(), program_thread) != 0 ? signals_in_program : signals_elsewhere);
  };
  ASSERT_EQ(::sigaction(SIGUSR1, &counted, &before), 0);
  const auto a = open_messenger(tested().front().stack, {});
  ASSERT_TRUE(a) << a.error().text;
  sigset_t user;
  sigemptyset(&user);
  sigaddset(&user, SIGUSR1);
  // Blocked here, a signal would go to the other thread, if that took any.
  ASSERT_EQ(pthread_sigmask(SIG_BLOCK, &user, nullptr), 0);
  ASSERT_EQ(::kill(::getpid(), SIGUSR1), 0);
  ::usleep(50'000);
  EXPECT_EQ(signals_elsewhere, 0);
  EXPECT_EQ(signals_in_program, 0);
  ASSERT_EQ(pthread_sigmask(SIG_UNBLOCK, &user, nullptr), 0);
  EXPECT_EQ(signals_in_program, 1);
  ASSERT_EQ(::sigaction(SIGUSR1, &before, nullptr), 0);
}

TEST(MessengerOpen, TellsWhatIsWrong) {
  const auto neither = open_messenger("driver = { kind = \"kernel_udp\" }\npush = [\"timod\"]\n", {});
  ASSERT_FALSE(neither);
  EXPECT_EQ(neither.error().code, EINVAL);
  const auto refused = Messenger::open([](StreamSet&) { return fail(EPERM, "no"); });
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, EPERM);
}

}  // namespace
}  // namespace sluice::test::messengers
