// SPDX-License-Identifier: Apache-2.0

// What each user may have of the server of sockets, and what becomes of those who want more.

#include <sys/resource.h>

#include <algorithm>
#include <vector>

#include "tests/sockets/server/server_fixture.h"

namespace sluice::sockets {
namespace {

class SocketLimits : public SocketServer {
 protected:
  /// A server whose users may have so much.
  void restart(const Quotas::Limits& per_user) {
    server.reset();
    start({.path = path(), .per_user = per_user});
  }
  void ask_for_buffers(const Descriptor& socket, std::int32_t bytes) {
    for (const int name : {SO_RCVBUF, SO_SNDBUF}) {
      const Request wanted{.operation = Operation::set_option, .level = SOL_SOCKET, .name = name, .value = bytes};
      EXPECT_EQ(ask_error(wanted, socket.get()), 0);
    }
  }
  /// A socket of the kernel's that calls `at`.
  static Descriptor caller_of(const Address& at) {
    Descriptor caller(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    ::connect(caller.get(), reinterpret_cast<const sockaddr*>(at.bytes), at.size);
    return caller;
  }
  static bool was_turned_away(const Descriptor& caller) { return (events_of(caller) & POLLRDHUP) != 0; }
};

TEST_F(SocketLimits, AUserHasSoManySocketsAndNoMore) {
  std::vector<Descriptor> mine;
  for (int at = 0; at < 8; ++at) {
    mine.push_back(open(at % 2 == 0 ? SocketKind::stream : SocketKind::datagram));
  }
  EXPECT_EQ(ask_error({.operation = Operation::open, .family = AF_INET}), EMFILE);
  mine.pop_back();
  ASSERT_TRUE(run_until([&] { return server->statistics().sockets == 7; }));
  EXPECT_TRUE(open(SocketKind::stream));
}

/// listen(2) of POSIX: "[ENOBUFS] Insufficient resources are available in the system to complete the call."
TEST_F(SocketLimits, AUserListensWithSoManySocketsAndNoMore) {
  restart({.listening = 3});
  const auto listener = [this](int error) {
    const Descriptor ours = open(SocketKind::stream);
    Answered answered = ask({.operation = Operation::listen, .value = 5}, ours.get());
    EXPECT_EQ(answered.answer.error, error);
    return std::pair{std::move(answered.passed), ours.get()};
  };
  std::vector<Descriptor> listeners;
  for (int at = 0; at < 3; ++at) {
    listeners.push_back(listener(0).first);
  }
  // One that was refused is as it was before.
  const Descriptor refused = open(SocketKind::stream);
  ASSERT_EQ(ask_error({.operation = Operation::bind, .address = loopback(0)}, refused.get()), 0);
  const Address at = ask({.operation = Operation::names}, refused.get()).answer.local;
  EXPECT_EQ(ask_error({.operation = Operation::listen, .value = 5}, refused.get()), ENOBUFS);
  EXPECT_EQ(port_of(ask({.operation = Operation::names}, refused.get()).answer.local), port_of(at));
  listeners.pop_back();
  ASSERT_TRUE(run_until([&] { return server->statistics().sockets == 3; }));
  EXPECT_EQ(ask_error({.operation = Operation::listen, .value = 5}, refused.get()), 0);
}

/// connect(2) of POSIX: "[ENOBUFS] No buffer space is available."
TEST_F(SocketLimits, AUserHasSoManyConnectionsUnderWayAndNoMore) {
  restart({.connecting = 2});
  // One whose backlog is full answers no SYN.
  const auto [deaf, at] = kernel_socket(SOCK_STREAM);
  ASSERT_EQ(::listen(deaf.get(), 0), 0);
  std::vector<Descriptor> crowd;
  for (int count = 0; count < 3; ++count) {
    crowd.push_back(caller_of(at));
  }
  const Request call{.operation = Operation::connect, .background = 1, .address = at};
  std::vector<Descriptor> waiting;
  for (int count = 0; count < 2; ++count) {
    waiting.push_back(open(SocketKind::stream));
    EXPECT_EQ(ask_error(call, waiting.back().get()), EINPROGRESS);
  }
  auto [listener, there] = kernel_listener();
  const Descriptor more = open(SocketKind::stream);
  EXPECT_EQ(ask_error({.operation = Operation::connect, .address = there}, more.get()), ENOBUFS);
  waiting.pop_back();
  ASSERT_TRUE(run_until([&] { return server->statistics().sockets == 2; }));
  EXPECT_EQ(ask_error({.operation = Operation::connect, .address = there}, more.get()), 0);
  const Descriptor another = open(SocketKind::stream);
  EXPECT_EQ(ask_error({.operation = Operation::connect, .address = there}, another.get()), 0)
      << "one that is there is under way no more";
  const Descriptor failing = open(SocketKind::stream);
  for (int count = 0; count < 3; ++count) {
    EXPECT_EQ(ask_error({.operation = Operation::connect, .address = loopback(1)}, failing.get()), ECONNREFUSED);
  }
}

/// Threat: a program that fills all it can get, whatever it asks for, in sockets of every kind.
TEST_F(SocketLimits, AUsersConnectionsHaveSoMuchMemoryAndNoMore) {
  constexpr std::size_t memory = std::size_t{2} << 20;
  restart({.memory = memory});
  auto [listener, at] = kernel_listener();
  std::vector<std::pair<Descriptor, Descriptor>> connections;
  int error = 0;
  for (int count = 0; count < 200 && error == 0; ++count) {
    Descriptor ours = open(SocketKind::stream);
    ask_for_buffers(ours, 1 << 30);
    error = ask_error({.operation = Operation::connect, .address = at}, ours.get());
    if (error == 0) {
      connections.emplace_back(std::move(ours), Descriptor(::accept(listener.get(), nullptr, nullptr)));
    }
  }
  EXPECT_EQ(error, ENOBUFS);
  EXPECT_GE(connections.size(), memory / (64 * 1024)) << "small ones, of 64 KiB in all";
  EXPECT_LE(connections.size(), memory / (64 * 1024));
  const Descriptor datagrams = open(SocketKind::datagram);
  EXPECT_EQ(ask_error({.operation = Operation::bind, .address = loopback(0)}, datagrams.get()), ENOBUFS);
  // What is there goes on, in both directions.
  auto& [ours, theirs] = connections.back();
  ASSERT_TRUE(write_all(ours, "still"));
  ASSERT_TRUE(write_all(theirs, "here"));
  ASSERT_TRUE(run_until(
      [&, &near = ours, &far = theirs] { return (events_of(near) & POLLIN) != 0 && (events_of(far) & POLLIN) != 0; }));
  EXPECT_EQ(read_some(ours), "here");
  EXPECT_EQ(read_some(theirs), "still");
  // Memory comes back with the end of a connection.
  const std::size_t before = server->statistics().sockets;
  for (int count = 0; count < 3; ++count) {
    connections.pop_back();
  }
  ASSERT_TRUE(run_until([&] { return server->statistics().sockets == before - 3; }));
  EXPECT_EQ(ask_error({.operation = Operation::bind, .address = loopback(0)}, datagrams.get()), 0);
}

/// Beyond half of the memory; and what is refused for another reason takes none.
TEST_F(SocketLimits, AConnectionThatIsShortOfMemoryHasSmallBuffersAndLosesNothing) {
  restart({.memory = 100 * 1024});
  auto [listener, at] = kernel_listener();
  const Descriptor failing = open(SocketKind::stream);
  const Descriptor ours = open(SocketKind::stream);
  for (const Descriptor* const socket : {&failing, &ours}) {
    ask_for_buffers(*socket, 1 << 20);
  }
  EXPECT_EQ(ask_error({.operation = Operation::connect, .address = loopback(1)}, failing.get()), ECONNREFUSED);
  ASSERT_EQ(ask_error({.operation = Operation::connect, .address = at}, ours.get()), 0);
  const Descriptor theirs(::accept(listener.get(), nullptr, nullptr));
  for (const int name : {SO_RCVBUF, SO_SNDBUF}) {
    const Request asked{.operation = Operation::get_option, .level = SOL_SOCKET, .name = name};
    EXPECT_LE(ask(asked, ours.get()).answer.value, 32 * 1024);
  }
  // More than a turn takes, at once.
  const std::string much(100'000, 'm');
  ASSERT_TRUE(write_all(ours, much));
  std::string got;
  ASSERT_TRUE(run_until([&, &end = theirs] {
    const std::string some = read_some(end);
    got += some.starts_with("errno") ? "" : some;
    return got.size() >= much.size();
  }));
  EXPECT_EQ(got, much);
}

TEST_F(SocketLimits, ADatagramSocketThatCannotBeBoundTakesNoMemory) {
  restart({.memory = 150 * 1024});
  const auto [kernel, at] = kernel_socket(SOCK_DGRAM);
  const Descriptor refused = open(SocketKind::datagram);
  EXPECT_EQ(ask_error({.operation = Operation::bind, .address = at}, refused.get()), EADDRINUSE);
  const Descriptor other = open(SocketKind::datagram);
  EXPECT_EQ(ask_error({.operation = Operation::bind, .address = loopback(0)}, other.get()), 0);
}

/// The peer cannot make the server hold more either, and is turned away.
TEST_F(SocketLimits, ACallerWithoutMemoryIsTurnedAway) {
  restart({.memory = 3 * 64 * 1024 + 4 * Quotas::caller_bytes});
  const Descriptor ours = open(SocketKind::stream);
  ask_for_buffers(ours, 1 << 20);
  const Answered listening = ask({.operation = Operation::listen, .value = 4}, ours.get());
  const Address at = ask({.operation = Operation::names}, listening.passed.get()).answer.local;
  std::vector<Descriptor> callers;
  for (int count = 0; count < 6; ++count) {
    callers.push_back(caller_of(at));
    run_for(std::chrono::milliseconds(2));
  }
  run_for(std::chrono::milliseconds(50));
  EXPECT_EQ(std::ranges::count_if(callers, was_turned_away), 3);
}

/// Who has memory for fewer callers has a shorter backlog; without any he does not listen.
TEST_F(SocketLimits, CallersTakeMemoryBeforeTheyCome) {
  restart({.memory = 100 * Quotas::caller_bytes});
  std::vector<Descriptor> listeners;
  const auto listens = [&] {
    const Descriptor ours = open(SocketKind::stream);
    Answered answered = ask({.operation = Operation::listen, .value = 1000}, ours.get());
    listeners.push_back(std::move(answered.passed));
    return answered.answer.error;
  };
  for (int count = 0; count < 3; ++count) {
    EXPECT_EQ(listens(), 0) << "64 callers, then 32, then 4";
  }
  EXPECT_EQ(listens(), ENOBUFS);
  listeners.clear();
  ASSERT_TRUE(run_until([&] { return server->statistics().sockets == 0; }));
  EXPECT_EQ(listens(), 0);
}

/// Threat: without a descriptor to spare the server would try to take the next client for ever.
TEST_F(SocketLimits, WithoutADescriptorForAClientTheServerWaits) {
  const Descriptor first = client();
  run_for(std::chrono::milliseconds(10));  // UBSan needs descriptors where it meets a type for the first time
  const Descriptor waiting = client();
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const Descriptor last(::dup(waiting.get()));
  const rlimit none{.rlim_cur = static_cast<rlim_t>(last.get()), .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  int turns = 0;
  const TimePoint end = loop->now() + std::chrono::milliseconds(250);
  while (loop->now() < end) {
    static_cast<void>(loop->wait(server->busy() ? TimePoint::min() : end));
    server->turn();
    ++turns;
  }
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_LT(turns, 20);
  const Request request{.operation = Operation::open, .family = AF_INET};
  ASSERT_EQ(send_message(waiting.get(), std::as_bytes(std::span(&request, 1)), -1), 0);
  Answered answered;
  ASSERT_TRUE(hear(waiting, answered));
  EXPECT_EQ(answered.answer.error, 0);
}

/// What does not fit is rejected, and the program's other sockets go on.
TEST_F(SocketLimits, ACallerTooManyIsTurnedAway) {
  const Descriptor ours = open(SocketKind::stream);
  ASSERT_EQ(ask_error({.operation = Operation::bind, .address = loopback(0)}, ours.get()), 0);
  const Answered listening = ask({.operation = Operation::listen, .value = 64}, ours.get());
  const Address at = ask({.operation = Operation::names}, listening.passed.get()).answer.local;
  std::vector<Descriptor> callers;
  for (int count = 0; count < 12; ++count) {
    callers.push_back(caller_of(at));
    run_for(std::chrono::milliseconds(2));
  }
  run_for(std::chrono::milliseconds(50));
  EXPECT_EQ(std::ranges::count_if(callers, was_turned_away), 12 - 6) << "eight sockets, two of which listen or have";
  EXPECT_EQ(server->statistics().sockets, 8U);
}

}  // namespace
}  // namespace sluice::sockets
