// SPDX-License-Identifier: Apache-2.0
#pragma once

// A network namespace of the test's own, in which it may do as it likes, and a run loop over real descriptors. Where
// the system does not allow such namespaces the tests fail: drivers that nobody could try are not known to work.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "dlpi/interface.h"
#include "stack/core/stream_set.h"
#include "tests/user_namespace.h"

namespace sluice::dlpi::test {

inline void run_command(const std::string& command) {
  ASSERT_EQ(std::system(command.c_str()), 0) << command;  // NOLINT: literals of this file's users
}

/// Keeps this thread on the processor that it is on. veth queues frames at the processor that sends them, so the frames
/// of a thread that moves to another may overtake each other.
inline bool stay_on_processor() {
  cpu_set_t only;
  CPU_ZERO(&only);
  CPU_SET(static_cast<std::size_t>(::sched_getcpu()), &only);
  return ::sched_setaffinity(0, sizeof only, &only) == 0;
}

/// Moves this process into new user and network namespaces; once, for all tests of the program.
inline bool enter_namespace() {
  static const bool entered = [] {
    return sluice::test::enter_user_namespace(CLONE_NEWNET) && std::system("ip link set lo up") == 0;
  }();
  return entered;
}

inline constexpr wire::MacAddress near_mac{{0x02, 0, 0, 0, 0, 1}};
inline constexpr wire::MacAddress far_mac{{0x02, 0, 0, 0, 0, 2}};

/// Two veth ends, near and far. IPv6 is off, so that the kernel sends nothing of its own accord.
class VethTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(enter()) << "namespaces are needed: " << strerror(errno);
    ASSERT_TRUE(stay_on_processor()) << strerror(errno);
    run_command("ip link add near address 02:00:00:00:00:01 type veth peer name far address 02:00:00:00:00:02");
    run_command(
        "echo 1 | tee /proc/sys/net/ipv6/conf/near/disable_ipv6 /proc/sys/net/ipv6/conf/far/disable_ipv6 >/dev/null");
    run_command("ip link set near up && ip link set far up");
    const auto up = [](const char* name) { return find_interface(name)->up; };
    for (int tries = 0; tries < 500 && !(up("near") && up("far")); ++tries) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));  // the kernel finds the carrier in its own time
    }
    ASSERT_TRUE(up("near") && up("far"));
  }
  void TearDown() override { run_command("ip link del near"); }
  virtual bool enter() { return enter_namespace(); }

  /// The kernel's own stack speaks at the far end as 10.77.0.2, and knows 10.77.0.1 at the near one.
  static void give_kernel_the_far_end() {
    run_command("ip addr add 10.77.0.2/24 dev far");
    run_command("ip neigh add 10.77.0.1 lladdr 02:00:00:00:00:01 dev far nud permanent");
  }
};

/// The name of a test of a driver and its kind, "packet/block".
inline std::string name_of_driver(const testing::TestParamInfo<const char*>& driver) {
  std::string name = driver.param;
  std::ranges::replace(name, '/', '_');
  return name;
}

/// Lets the set run on real time until `done`, for thirty seconds at most: what never comes fails, what is slow does
/// not.
inline bool run_until(StreamSet& set, const std::function<bool()>& done) {
  const auto start = std::chrono::steady_clock::now();
  const auto deadline = start + std::chrono::seconds(30);
  while (!done()) {
    const auto now = std::chrono::steady_clock::now();
    if (now > deadline) {
      return false;
    }
    set.scheduler().poll(TimePoint{} + (now - start));
    std::vector<pollfd> waits;
    std::vector<EventSource*> sources = set.sources();
    for (const EventSource* source : sources) {
      const int events = (source->wants_readable() ? POLLIN : 0) | (source->wants_writable() ? POLLOUT : 0);
      waits.push_back({events == 0 ? -1 : source->descriptor(), static_cast<short>(events), 0});
    }
    ::poll(waits.data(), waits.size(), 1);
    for (std::size_t at = 0; at < waits.size(); ++at) {
      if ((waits[at].revents & (POLLIN | POLLERR)) != 0) {
        sources[at]->on_readable();
      }
      if ((waits[at].revents & POLLOUT) != 0) {
        sources[at]->on_writable();
      }
    }
  }
  return true;
}

/// Lets the set run for a while, to see that nothing happens.
inline void run_for(StreamSet& set, std::chrono::milliseconds time) {
  const auto end = std::chrono::steady_clock::now() + time;
  run_until(set, [&] { return std::chrono::steady_clock::now() >= end; });
}

}  // namespace sluice::dlpi::test
