// SPDX-License-Identifier: Apache-2.0
#pragma once

// A thread that no signal interrupts: they are for the run loop, and a write to somebody who has gone is an error
// there, and not the end of the process.

#include <pthread.h>

#include <csignal>
#include <thread>
#include <utility>

namespace sluice::ftx {

template <class Run>
[[nodiscard]] std::thread quiet_thread(Run run) {
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread thread(std::move(run));
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return thread;
}

}  // namespace sluice::ftx
