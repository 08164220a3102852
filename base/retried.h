// SPDX-License-Identifier: Apache-2.0
#pragma once

// retried: calls to the operating system that a signal may interrupt before they did anything.

#include <cerrno>

namespace sluice {

/// Calls `call` again for as long as it fails with EINTR. Answers what it answered last.
template <class Call>
auto retried(Call&& call) {
  auto result = call();
  while (result < 0 && errno == EINTR) {
    result = call();
  }
  return result;
}

}  // namespace sluice
