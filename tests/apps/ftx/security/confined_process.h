// SPDX-License-Identifier: Apache-2.0
#pragma once

// A process of the test's own that is confined and then attempts things, since what is given up does not come back.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"

namespace sluice::ftx::test {

struct Attempt {
  std::string what;
  std::function<int()> make;  // answers an errno value, 0: it worked
  int expected = 0;
};

[[nodiscard]] inline int errno_of(long result) { return result < 0 ? errno : 0; }

[[nodiscard]] inline int closed(int descriptor) {
  const int code = errno_of(descriptor);
  ::close(descriptor);
  return code;
}

[[nodiscard]] inline int opened(const std::string& path, int flags) {
  return closed(::open(path.c_str(), flags | O_CLOEXEC, 0600));
}

/// What each attempt answers, one after the other in a process that `confine` has confined; fewer where that fails.
[[nodiscard]] inline std::vector<int> outcomes(const std::function<Status()>& confine,
                                               const std::vector<Attempt>& attempts) {
  int ends[2];
  EXPECT_EQ(::pipe(ends), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const bool confined = confine().has_value();
    for (std::size_t i = 0; i < attempts.size() && confined; ++i) {
      const int outcome = attempts[i].make();
      if (::write(ends[1], &outcome, sizeof outcome) != sizeof outcome) {
        break;
      }
    }
    ::_exit(0);
  }
  ::close(ends[1]);
  std::vector<int> all;
  for (int outcome = 0; ::read(ends[0], &outcome, sizeof outcome) == sizeof outcome;) {
    all.push_back(outcome);
  }
  ::close(ends[0]);
  EXPECT_EQ(::waitpid(child, nullptr, 0), child);
  return all;
}

}  // namespace sluice::ftx::test
