// SPDX-License-Identifier: Apache-2.0
// What happens to an interface costs a program some turns of its run loop and then nothing: every driver on real
// devices, and their descriptors in a real loop.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <string>

#include "tests/dlpi/idle_loop.h"
#include "tests/dlpi/namespace.h"
#include "tests/dlpi/test_stream.h"

namespace sluice::dlpi::test {
namespace {

using namespace std::chrono_literals;

class Idle : public VethTest, protected IdleLoop, public testing::WithParamInterface<const char*> {
 protected:
  Idle() { add_drivers(registry_); }
  void TearDown() override {
    static_cast<void>(std::system("ip link del near 2>/dev/null"));
    static_cast<void>(std::system("ip link del tap7 2>/dev/null"));
  }

  /// "packet/frame", "packet/block", "pcap" on near; "tap" on tap7.
  void open(Stream& stream) {
    const std::string kind = GetParam();
    Parameters parameters;
    parameters.set("device", kind == "tap" ? "tap7" : "near");
    if (kind.starts_with("packet/")) {
      parameters.set("ring", kind.substr(7));
    }
    const Status opened = stream.open(registry_, kind.substr(0, kind.find('/')), parameters);
    ASSERT_TRUE(opened) << opened.error().text;
    stream.bind(test_sap);
    if (kind == "tap") {
      run_command("ip link set tap7 up");
    }
  }
  /// The interface in shell commands.
  static std::string device() { return std::string(GetParam()) == "tap" ? "tap7" : "near"; }

  Registry registry_;
};

TEST_P(Idle, DownUpAndDownAgain) {
  Stream stream(set_);
  open(stream);
  expect_idle_after("ip link set " + device() + " down");
  expect_idle_after("ip link set " + device() + " up");
  expect_idle_after("ip link set " + device() + " down && ip link set " + device() + " up");
}

TEST_P(Idle, RemovedAndMadeAnew) {
  Stream stream(set_);
  open(stream);
  expect_idle_after("ip link del " + device());
  EXPECT_FALSE(stream.driver().link()->up());
  expect_idle_after("ip link add " + device() + " type veth peer name again && ip link set " + device() + " up");
}

TEST_P(Idle, MtuAndAddressChange) {
  Stream stream(set_);
  open(stream);
  expect_idle_after("ip link set " + device() + " mtu 1300");
  EXPECT_EQ(stream.driver().link()->mtu(), 1300U);
  expect_idle_after("ip link set " + device() + " down && ip link set " + device() +
                    " address 02:00:00:00:00:77 && ip link set " + device() + " up");
}

TEST_P(Idle, ThePeerGoesAndComes) {
  if (device() != "near") {
    return;  // there is none
  }
  Stream stream(set_);
  open(stream);
  expect_idle_after("ip link set far down");
  expect_idle_after("ip link set far up");
}

/// The interface came up again, and frames come as before.
TEST_P(Idle, ReceivesAfterItWasDown) {
  if (device() != "near") {
    return;
  }
  Stream stream(set_);
  open(stream);
  Stream far(set_);
  Parameters parameters;
  parameters.set("device", "far");
  ASSERT_TRUE(far.open(registry_, "packet", parameters));
  far.bind(test_sap);
  expect_idle_after("ip link set near down");
  expect_idle_after("ip link set near up");
  EXPECT_TRUE(loop_->run_until(
      [&] {
        if (far.driver().link()->up() && stream.waiting() == 0) {
          far.send({near_mac, test_sap}, bytes_of("hello"));
        }
        return stream.waiting() > 0;
      },
      loop_->now() + 10s))
      << stream.counts() << far.counts();
}

INSTANTIATE_TEST_SUITE_P(Drivers, Idle, testing::Values("packet/block", "packet/frame", "pcap", "tap"), name_of_driver);

}  // namespace
}  // namespace sluice::dlpi::test
