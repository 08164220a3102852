// SPDX-License-Identifier: Apache-2.0
// What the drivers know of the kernel's interfaces, against interfaces in a namespace of the test's own.
#include "dlpi/interface.h"

#include <sys/socket.h>

#include <optional>
#include <string>

#include "tests/dlpi/namespace.h"

namespace sluice::dlpi::test {
namespace {

class InterfaceTest : public VethTest {
 protected:
  /// Watches `interface`, as somebody saw it earlier.
  void watch(const Interface& interface) {
    auto opened = InterfaceMonitor::open(set_, interface, [this](const Interface& now) { told_ = now; });
    ASSERT_TRUE(opened) << opened.error().text;
    monitor_ = std::move(*opened);
  }

  StreamSet set_;
  std::optional<Interface> told_;
  std::unique_ptr<InterfaceMonitor> monitor_;
};

TEST_F(InterfaceTest, AChangeIsTold) {
  watch(*find_interface("near"));
  run_command("ip link set near down");
  EXPECT_TRUE(run_until(set_, [&] { return told_ && !told_->enabled && !told_->up; }));
  run_command("ip link set near mtu 4000 up");
  EXPECT_TRUE(run_until(set_, [&] { return told_->up && told_->mtu == 4000; }));
}

TEST_F(InterfaceTest, AChangeBetweenTheFirstLookAndTheWatchIsNotMissed) {
  const Interface before = *find_interface("near");
  ASSERT_TRUE(before.up);
  run_command("ip link set near down");
  watch(before);
  ASSERT_TRUE(told_);
  EXPECT_FALSE(told_->up);
}

TEST_F(InterfaceTest, WithoutACarrierItIsEnabledAndNotUp) {
  run_command("ip link set far down");
  watch(*find_interface("near"));
  EXPECT_TRUE(run_until(set_, [&] { return !told_->up; }));
  EXPECT_TRUE(told_->enabled);
}

// "ENOBUFS [...] the kernel [...] dropped a message. [...] user space can [...] resync" (netlink(7)): what was told of
// others filled the socket before our interface changed.
TEST_F(InterfaceTest, AChangeThatTheKernelCouldNotTellIsFoundAllTheSame) {
  watch(*find_interface("near"));
  const int bytes = 1;  // as few as the kernel allows
  ASSERT_EQ(::setsockopt(monitor_->descriptor(), SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes), 0);
  for (int at = 0; at < 20; ++at) {
    run_command("ip link set lo mtu " + std::to_string(2000 + at));
  }
  run_command("ip link set near mtu 1400");
  EXPECT_EQ(told_->mtu, 1500U);
  EXPECT_TRUE(run_until(set_, [&] { return told_->mtu == 1400; }));
}

// The operational state says more than whether frames can go, and follows when the kernel finds time: "dormant" is one
// in which it lets every frame pass.
TEST_F(InterfaceTest, TheCarrierCountsAndNotTheOperationalState) {
  run_command("ip link set near state dormant");
  run_command("ip -o link show near | grep -q 'LOWER_UP.*state DORMANT'");
  EXPECT_TRUE(find_interface("near")->up);
}

TEST_F(InterfaceTest, OneThatHasGoneIsDown) {
  run_command("ip link add gone type veth peer name other && ip link set gone up");
  watch(*find_interface("gone"));
  run_command("ip link del gone");
  EXPECT_TRUE(run_until(set_, [&] { return !told_->enabled; }));
  EXPECT_FALSE(told_->up);
}

}  // namespace
}  // namespace sluice::dlpi::test
