// SPDX-License-Identifier: Apache-2.0
// Preloaded into a program: the wall clock jumps each time that somebody looks at it, by years, forwards and backwards.
// The monotonic clock goes on as it does. tests/faults/ftx_clock_test.py uses it.
#include <dlfcn.h>
#include <sys/time.h>

#include <atomic>
#include <ctime>

namespace {

std::atomic<unsigned> looks = 0;

time_t jumped(time_t now) {
  constexpr time_t year = 365 * 24 * 3600;
  constexpr time_t jumps[] = {30 * year, -10 * year, 24 * 3600, 0, -year, 1};
  return now + jumps[looks.fetch_add(1, std::memory_order_relaxed) % (sizeof jumps / sizeof jumps[0])];
}

int real_clock(clockid_t clock, timespec* now) {
  using Function = int (*)(clockid_t, timespec*);
  static const auto next = reinterpret_cast<Function>(::dlsym(RTLD_NEXT, "clock_gettime"));
  return next(clock, now);
}

}  // namespace

extern "C" {

int clock_gettime(clockid_t clock, timespec* now) noexcept {
  const int result = real_clock(clock, now);
  if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
    now->tv_sec = jumped(now->tv_sec);
  }
  return result;
}

int gettimeofday(timeval* now, void*) noexcept {
  timespec real{};
  const int result = real_clock(CLOCK_REALTIME, &real);
  *now = {jumped(real.tv_sec), real.tv_nsec / 1000};
  return result;
}

time_t time(time_t* now) noexcept {
  timespec real{};
  real_clock(CLOCK_REALTIME, &real);
  const time_t seconds = jumped(real.tv_sec);
  if (now != nullptr) {
    *now = seconds;
  }
  return seconds;
}

}  // extern "C"
