// SPDX-License-Identifier: Apache-2.0
#pragma once

// XDP programs take capabilities outside of all user namespaces. So these tests, other than those of the other drivers,
// run in a network namespace alone, and it takes root to make one. Who runs them without is told so: they count as
// skipped, each with its reason.

#include <bpf/bpf.h>
#include <gtest/gtest.h>
#include <linux/bpf.h>
#include <sched.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>

#include "base/descriptor.h"
#include "tests/dlpi/namespace.h"

namespace sluice::dlpi::test {

/// What these tests lack; empty where they lack nothing.
inline std::string missing_for_xdp() {
  constexpr unsigned entry = sizeof(std::uint32_t);
  const Descriptor map(::bpf_map_create(BPF_MAP_TYPE_XSKMAP, "probe", entry, entry, 1, nullptr));
  return map ? ""
             : std::string("XDP needs CAP_BPF and CAP_NET_ADMIN outside of all user namespaces (") +
                   std::strerror(errno) + "): run the tests as root";
}

/// Moves this process into a new network namespace; once, for all tests of the program.
inline bool enter_network_namespace() {
  static const bool entered = ::unshare(CLONE_NEWNET) == 0 && std::system("ip link set lo up") == 0;
  return entered;
}

/// Two veth ends, near and far, and the right to load programs.
class XdpVethTest : public VethTest {
 protected:
  void SetUp() override {
    if (const std::string missing = missing_for_xdp(); !missing.empty()) {
      GTEST_SKIP() << missing;
    }
    VethTest::SetUp();
    made_ = true;
  }
  void TearDown() override {
    if (made_) {
      static_cast<void>(std::system("ip link del near 2>/dev/null"));  // a test may have
    }
  }
  bool enter() override { return enter_network_namespace(); }

 private:
  bool made_ = false;
};

}  // namespace sluice::dlpi::test
