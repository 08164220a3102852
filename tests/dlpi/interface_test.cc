// SPDX-License-Identifier: Apache-2.0
// What the drivers know of the kernel's interfaces, against interfaces in a namespace of the test's own.
#include "dlpi/interface.h"

#include <optional>

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

TEST_F(InterfaceTest, OneThatHasGoneIsDown) {
  run_command("ip link add gone type veth peer name other && ip link set gone up");
  watch(*find_interface("gone"));
  run_command("ip link del gone");
  EXPECT_TRUE(run_until(set_, [&] { return !told_->enabled; }));
  EXPECT_FALSE(told_->up);
}

}  // namespace
}  // namespace sluice::dlpi::test
