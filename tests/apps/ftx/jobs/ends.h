// SPDX-License-Identifier: Apache-2.0
#pragma once

// What has two ends, for tests of what reads or writes one of them.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>

#include "apps/ftx/files/descriptor.h"

namespace sluice::ftx::test {

struct Ends {
  Descriptor reader;
  Descriptor writer;
};

inline Ends a_pipe() {
  std::array<int, 2> ends{};
  EXPECT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
  return {Descriptor(ends[0]), Descriptor(ends[1])};
}

inline Ends a_socket() {
  std::array<int, 2> ends{};
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
  return {Descriptor(ends[0]), Descriptor(ends[1])};
}

}  // namespace sluice::ftx::test
