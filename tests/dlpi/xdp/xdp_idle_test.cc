// SPDX-License-Identifier: Apache-2.0
// What happens to an interface, and frames that are held, cost a program some turns of its run loop and then nothing:
// its descriptors in a real loop.
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "dlpi/xdp.h"
#include "tests/dlpi/idle_loop.h"
#include "tests/dlpi/test_stream.h"
#include "tests/dlpi/xdp/xdp_namespace.h"

namespace sluice::dlpi::test {
namespace {

using namespace std::chrono_literals;

class XdpIdle : public XdpVethTest, protected IdleLoop, public testing::WithParamInterface<const char*> {
 protected:
  XdpIdle() { add_drivers(registry_); }

  void open(Stream& stream, const char* device, ProcessingMode mode = ProcessingMode::layered) {
    Parameters parameters;
    parameters.set("device", device);
    parameters.set("mode", GetParam());
    stream.set_mode(mode);
    const Status opened = stream.open(registry_, "xdp", parameters);
    ASSERT_TRUE(opened) << opened.error().text;
    stream.bind(test_sap);
  }

  Registry registry_;
};

TEST_P(XdpIdle, DownUpChangedAndRemoved) {
  Stream stream(set_);
  open(stream, "near");
  expect_idle_after("ip link set near down");
  stream.send({far_mac, test_sap}, bytes_of("into the void"));
  expect_idle_after("ip link set near up");
  expect_idle_after("ip link set near mtu 1300");
  EXPECT_EQ(stream.driver().link()->mtu(), 1300U);
  expect_idle_after("ip link set far down");
  expect_idle_after("ip link set far up");
  expect_idle_after("ip link del near");
  EXPECT_FALSE(stream.driver().link()->up());
  expect_idle_after("ip link add near type veth peer name far && ip link set near up");
}

TEST_P(XdpIdle, TheAddressChanges) {
  const wire::MacAddress new_mac{{0x02, 0, 0, 0, 0, 0x77}};
  Stream near(set_);
  open(near, "near");
  Stream far(set_);
  open(far, "far");
  expect_idle_after("ip link set near address 02:00:00:00:00:77");
  EXPECT_EQ(near.driver().link()->address(), new_mac);
  far.send({near_mac, test_sap}, bytes_of("nobody's"));
  far.send({new_mac, test_sap}, bytes_of("ours"));
  EXPECT_TRUE(loop_->run_until([&] { return near.waiting() == 1; }, loop_->now() + 10s));
  Message up = near.next();
  EXPECT_EQ(as_text(up.unlink().bytes()), "ours");
}

// Nobody reads: neither frames that are lent, nor those that wait in the slots, make the loop turn.
TEST_P(XdpIdle, AReaderThatNeverReads) {
  Stream near(set_);
  open(near, "near", ProcessingMode::fused);
  Stream far(set_);
  open(far, "far");
  for (int count : {20, 1500}) {
    for (int at = 0; at < count; ++at) {
      far.send({near_mac, test_sap}, std::vector<std::byte>(1400));
    }
    run(200ms);
    EXPECT_LT(turns_in(500ms), turns_when_idle_max) << near.waiting();
  }
  EXPECT_LT(near.waiting(), 1520U);
}

INSTANTIATE_TEST_SUITE_P(Modes, XdpIdle, testing::Values("generic", "native"), name_of_driver);

}  // namespace
}  // namespace sluice::dlpi::test
