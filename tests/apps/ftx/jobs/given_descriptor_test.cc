// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/jobs/given_descriptor.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <thread>

#include "tests/apps/ftx/jobs/ends.h"

namespace sluice::ftx::test {
namespace {

using Access = GivenDescriptor::Access;

TEST(GivenDescriptor, ReadsWhatIsThereAndTheEnd) {
  for (const bool socket : {false, true}) {
    Ends ends = socket ? a_socket() : a_pipe();
    const auto given = GivenDescriptor::open(ends.reader.get(), Access::read);
    ASSERT_TRUE(given);
    ASSERT_EQ(::write(ends.writer.get(), "abc", 3), 3);
    std::array<std::byte, 10> out{};
    EXPECT_EQ(given->read_some(out), 3);
    ends.writer = Descriptor();
    EXPECT_EQ(given->read_some(out), 0);
  }
}

/// Who waits for somebody that says nothing, or takes nothing, is woken, and whoever comes after.
TEST(GivenDescriptor, IsInterrupted) {
  for (const bool socket : {false, true}) {
    for (const Access access : {Access::read, Access::write}) {
      const Ends ends = socket ? a_socket() : a_pipe();
      const auto given = GivenDescriptor::open(access == Access::read ? ends.reader.get() : ends.writer.get(), access);
      ASSERT_TRUE(given);
      std::thread waker([&given] {
        ::usleep(20'000);
        given->interrupt();
      });
      std::array<std::byte, 4096> bytes{};
      errno = 0;
      ssize_t done = 0;
      for (int i = 0; i < 10'000 && done >= 0; ++i) {
        done = access == Access::read ? given->read_some(bytes) : given->write_some(bytes);
      }
      EXPECT_EQ(done, -1);
      EXPECT_EQ(errno, EAGAIN);
      waker.join();
      EXPECT_EQ(access == Access::read ? given->read_some(bytes) : given->write_some(bytes), -1) << "and for good";
      EXPECT_EQ(errno, EAGAIN);
    }
  }
}

/// Whoever else has the pipe would be surprised.
TEST(GivenDescriptor, LeavesTheFlagsOfOthersAlone) {
  const Ends ends = a_pipe();
  ASSERT_TRUE(GivenDescriptor::open(ends.reader.get(), Access::read));
  ASSERT_TRUE(GivenDescriptor::open(ends.writer.get(), Access::write));
  for (const Descriptor* const one : {&ends.reader, &ends.writer}) {
    EXPECT_EQ(::fcntl(one->get(), F_GETFL) & O_NONBLOCK, 0);
  }
}

TEST(GivenDescriptor, WhoWritesToNobodyHearsOfIt) {
  Ends ends = a_socket();
  const auto given = GivenDescriptor::open(ends.reader.get(), Access::write);
  ASSERT_TRUE(given);
  ends.writer = Descriptor();
  const std::array<std::byte, 1> byte{};
  EXPECT_EQ(given->write_some(byte), -1);
  EXPECT_EQ(errno, EPIPE);
}

/// poll(2) promises room for PIPE_BUF bytes alone; with more, a write to a terminal may wait, and nobody interrupts it.
TEST(GivenDescriptor, WritesNoMoreToADeviceThanThereIsRoomFor) {
  const Descriptor device(::open("/dev/null", O_WRONLY | O_CLOEXEC));
  const auto given = GivenDescriptor::open(device.get(), Access::write);
  ASSERT_TRUE(given);
  const std::array<std::byte, PIPE_BUF + 1> bytes{};
  EXPECT_EQ(given->write_some(bytes), PIPE_BUF);
}

TEST(GivenDescriptor, WhatIsNoneIsAnError) {
  const auto none = GivenDescriptor::open(-1, Access::read);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, EBADF);
  const Descriptor directory(::open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const auto refused = GivenDescriptor::open(directory.get(), Access::read);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, EISDIR);
}

}  // namespace
}  // namespace sluice::ftx::test
