// SPDX-License-Identifier: Apache-2.0
// A program beside ours: what it gets, how it ends, and that it never stays.
#include "apps/ftx/remote/child.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>

namespace sluice::ftx {
namespace {

/// All that `child` says until it closes its end.
std::string said(Child& child) {
  std::string text;
  std::array<std::byte, 100> bytes;
  for (int waits = 0; waits < 1000;) {
    const auto got = child.read(bytes);
    if (got && *got == 0) {
      return text;
    }
    if (got) {
      text += as_text(ConstBytes(bytes).first(*got));
    } else if (got.error().code == EAGAIN) {
      pollfd asked{child.socket(), POLLIN, 0};
      ::poll(&asked, 1, 100);
      ++waits;
    } else {
      break;
    }
  }
  ADD_FAILURE() << "it does not end: " << text;
  return text;
}

/// Its status, once it has ended.
int status_of(Child& child) {
  for (int i = 0; i < 1000; ++i) {
    if (const auto status = child.status()) {
      return *status;
    }
    ::usleep(10'000);
  }
  ADD_FAILURE() << "it does not end";
  return -1;
}

std::unique_ptr<Child> shell(const std::string& script) { return Child::start({"sh", "-c", script}).value(); }

TEST(Child, InputAndOutputAreOneSocket) {
  const auto child = Child::start({"cat"}).value();
  ASSERT_TRUE(child->write(as_bytes("hello")));
  child->close_input();
  EXPECT_EQ(said(*child), "hello");
  EXPECT_EQ(status_of(*child), 0);
}

TEST(Child, AProgramThatIsMissingIsSaid) {
  const auto child = Child::start({"/nothing/of/this name"});
  ASSERT_FALSE(child);
  EXPECT_EQ(child.error().code, ENOENT);
  EXPECT_NE(child.error().text.find("/nothing/of/this name"), std::string::npos);
}

TEST(Child, ItsStatusIsItsOwn) {
  const auto status = status_of(*shell("exit 7"));
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 7) << status;
  const auto killed = status_of(*shell("kill -9 $$"));
  EXPECT_TRUE(WIFSIGNALED(killed) && WTERMSIG(killed) == SIGKILL) << killed;
}

TEST(Child, ItsEndCanBeWaitedFor) {
  const auto child = shell("exit 0");
  if (child->process() < 0) {
    GTEST_SKIP() << "the system has no descriptors of processes";
  }
  pollfd asked{child->process(), POLLIN, 0};
  EXPECT_EQ(::poll(&asked, 1, 10'000), 1);
  EXPECT_TRUE(child->status());
}

/// What we hold open by accident would keep, in the program, a connection alive that we have closed.
TEST(Child, NoOtherDescriptorIsInherited) {
  int ours[2];
  ASSERT_EQ(::pipe(ours), 0);  // without O_CLOEXEC
  const auto child = shell("ls /proc/self/fd | tr '\\n' ' '");
  const std::string open_there = said(*child);
  EXPECT_EQ(open_there.find(" " + std::to_string(ours[1]) + " "), std::string::npos) << open_there;
  ::close(ours[0]);
  ::close(ours[1]);
}

TEST(Child, SignalsThatWeIgnoreItDoesNot) {
  const auto before = std::signal(SIGPIPE, SIG_IGN);
  const auto child = shell("kill -PIPE $$; echo alive");
  EXPECT_EQ(said(*child), "");
  EXPECT_EQ(WTERMSIG(status_of(*child)), SIGPIPE);
  std::signal(SIGPIPE, before);
}

TEST(Child, WritingToOneThatIsGoneIsAnError) {
  const auto child = shell("exit 0");
  said(*child);
  status_of(*child);
  Status written = child->write(as_bytes("x"));
  EXPECT_FALSE(written);
  EXPECT_EQ(written.error().code, EPIPE);
}

TEST(Child, WhatItDidNotReadIsNoError) {
  const auto child = shell("sleep 0.1; exec <&- >&-");
  ASSERT_TRUE(child->write(as_bytes("nobody reads this")));
  EXPECT_EQ(said(*child), "");
}

void expect_gone(pid_t pid) {
  EXPECT_EQ(::kill(pid, 0), -1);
  EXPECT_EQ(errno, ESRCH);
  EXPECT_EQ(::waitpid(pid, nullptr, WNOHANG), -1);
}

TEST(Child, EndsWithItsInput) {
  auto child = shell("echo $$; exec cat");
  std::array<std::byte, 100> bytes;
  std::string text;
  while (text.find('\n') == std::string::npos) {
    const auto got = child->read(bytes);
    text += got ? as_text(ConstBytes(bytes).first(*got)) : std::string_view();
  }
  child.reset();
  expect_gone(static_cast<pid_t>(std::stol(text)));
}

TEST(Child, IsKilledWhereItDoesNotWantToEnd) {
  auto child = shell("trap '' HUP INT TERM; echo $$; exec <&- >&-; while :; do sleep 0.05; done");
  const std::string text = said(*child);
  child.reset();
  expect_gone(static_cast<pid_t>(std::stol(text)));
}

// It reads the end of its input, goes on, and nobody waits; the start of another one reaps it.
TEST(Child, OneThatIsLeftEndsByItselfAndIsReaped) {
  auto child = shell("read line; exec sleep 100");
  const pid_t pid = child->pid();
  child->leave();
  child->leave();
  child.reset();
  EXPECT_EQ(::kill(pid, 0), 0) << "it runs, or has not been reaped";
  ::kill(pid, SIGTERM);
  for (int i = 0; i < 1000 && ::kill(pid, 0) == 0; ++i) {
    ::usleep(10'000);
    EXPECT_EQ(status_of(*shell("exit 0")), 0);
  }
  expect_gone(pid);
}

TEST(Child, OneThatHasEndedIsLeftReaped) {
  auto child = shell("exit 0");
  const pid_t pid = child->pid();
  status_of(*child);
  child->leave();
  child.reset();
  expect_gone(pid);
}

TEST(Child, WhereChildrenAreReapedByTheSystemItsEndIsStillSeen) {
  const auto before = std::signal(SIGCHLD, SIG_IGN);
  const auto child = shell("exit 3");
  said(*child);
  status_of(*child);
  std::signal(SIGCHLD, before);
}

}  // namespace
}  // namespace sluice::ftx
