// SPDX-License-Identifier: Apache-2.0
// The tap driver with the kernel as the other host, in a namespace of the test's own.
#include "dlpi/tap.h"

#include <net/if.h>

#include "tests/dlpi/datagram.h"
#include "tests/dlpi/namespace.h"
#include "tests/dlpi/test_stream.h"

namespace sluice::dlpi::test {
namespace {

class Tap : public testing::Test {
 protected:
  Tap() { add_drivers(registry_); }
  void SetUp() override { ASSERT_TRUE(enter_namespace()) << "user and network namespaces are needed"; }

  static Parameters tap0() {
    Parameters parameters;
    parameters.set("device", "tap0");
    return parameters;
  }
  void open(Stream& stream, const Parameters& parameters) {
    const Status opened = stream.open(registry_, "tap", parameters);
    ASSERT_TRUE(opened) << opened.error().text;
    stream.bind(wire::ethertype_ipv4);
  }
  /// The kernel's side, as a script would set it up.
  void bring_up(Stream& stream) {
    run_command("echo 1 > /proc/sys/net/ipv6/conf/tap0/disable_ipv6");
    run_command("ip addr add 10.77.0.2/24 dev tap0 && ip link set tap0 up");
    run_command("ip neigh add 10.77.0.1 lladdr " + stream.driver().link()->address().to_text() +
                " dev tap0 nud permanent");
    ASSERT_TRUE(run_until(set_, [&] { return stream.driver().link()->up(); }));
  }

  StreamSet set_;
  Registry registry_;
};

TEST_F(Tap, SpeaksWithTheKernel) {
  Stream stream(set_);
  open(stream, tap0());
  bring_up(stream);
  const int socket = kernel_socket();
  ASSERT_EQ(::send(socket, "ping", 4, 0), 4);
  ASSERT_TRUE(run_until(set_, [&] { return stream.waiting() == 1; }));
  Message up = stream.next();
  const auto indication = UnitdataInd::decode(up.bytes());
  EXPECT_EQ(verified_payload(up), "ping");
  const LinkAddress kernel = indication->source;
  EXPECT_EQ(kernel.mac, find_interface("tap0")->address);
  stream.send(kernel, datagram_to_kernel("pong"));
  EXPECT_TRUE(run_until(set_, [&] { return received_by(socket) == "pong"; }));
  Message many = stream.encoded(UnitdataReq{kernel, {}});
  for (const std::byte byte : datagram_to_kernel("in many blocks")) {
    many.link(Message::copy_of(set_.pool(), ConstBytes(&byte, 1), 14));
  }
  stream.put(std::move(many));
  EXPECT_TRUE(run_until(set_, [&] { return received_by(socket) == "in many blocks"; }));
  ::close(socket);
}

TEST_F(Tap, TheLinkIsDownUntilTheInterfaceIsUp) {
  Stream stream(set_);
  open(stream, tap0());
  stream.send({wire::mac_broadcast, wire::ethertype_ipv4}, bytes_of("too early"));
  EXPECT_EQ(stream.expect<UderrorInd>().error, DL_UNDELIVERABLE);
  bring_up(stream);
  stream.send({wire::mac_broadcast, wire::ethertype_ipv4}, bytes_of("in time"));
  EXPECT_EQ(stream.waiting(), 0U);
  EXPECT_EQ(stream.driver().link()->statistics().frames_sent, 1U);
}

/// The kernel notices the carrier, which is our having attached, some time later; frames need not wait for that.
TEST_F(Tap, AnInterfaceThatIsUpTakesFramesAsSoonAsWeAreAttached) {
  run_command("ip tuntap add dev tap0 mode tap && ip link set tap0 up");
  {
    Stream stream(set_);
    open(stream, tap0());
    stream.send({wire::mac_broadcast, wire::ethertype_ipv4}, bytes_of("at once"));
    EXPECT_EQ(stream.waiting(), 0U) << "no DL_UDERROR_IND";
    EXPECT_EQ(stream.driver().link()->statistics().frames_sent, 1U);
  }
  run_command("ip tuntap del dev tap0 mode tap");
}

TEST_F(Tap, TheAddressIsOursAndNotTheKernels) {
  Stream stream(set_);
  open(stream, tap0());
  const wire::MacAddress random = stream.driver().link()->address();
  EXPECT_NE(random, find_interface("tap0")->address);
  EXPECT_EQ(random.octets[0] & 3U, 2U) << "one station, locally administered";
  const wire::MacAddress changed{{0x02, 1, 2, 3, 4, 5}};
  stream.request(SetPhysAddrReq{changed});
  EXPECT_EQ(stream.acknowledged(), DL_SET_PHYS_ADDR_REQ);
  EXPECT_EQ(stream.driver().link()->address(), changed);
}

TEST_F(Tap, ParametersSetAddressAndMtu) {
  Parameters parameters = tap0();
  parameters.set("mac", "02:aa:bb:cc:dd:ee");
  parameters.set("mtu", std::int64_t{4000});
  Stream stream(set_);
  open(stream, parameters);
  EXPECT_EQ(stream.driver().link()->address().to_text(), "02:aa:bb:cc:dd:ee");
  EXPECT_EQ(find_interface("tap0")->mtu, 4000U);
  stream.request(NotifyReq{.notifications = DL_NOTE_SDU_SIZE});
  stream.expect<NotifyAck>();
  EXPECT_EQ(stream.expect<NotifyInd>().data, 4000U);
  run_command("ip link set tap0 mtu 2000");
  ASSERT_TRUE(run_until(set_, [&] { return stream.waiting() == 1; }));
  EXPECT_EQ(stream.expect<NotifyInd>().data, 2000U);
}

TEST_F(Tap, BadParametersAreRefused) {
  for (const char* mac : {"02:aa", "ff:ff:ff:ff:ff:ff", "00:00:00:00:00:00"}) {
    Parameters parameters = tap0();
    parameters.set("mac", mac);
    Stream stream(set_);
    const Status refused = stream.open(registry_, "tap", parameters);
    ASSERT_FALSE(refused) << mac;
    EXPECT_FALSE(refused.error().text.empty());
  }
}

TEST_F(Tap, OneProgramHasADevice) {
  Stream stream(set_);
  open(stream, tap0());
  StreamSet another;
  Stream second(another);
  const Status refused = second.open(registry_, "tap", tap0());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, EBUSY) << refused.error().text;
}

TEST_F(Tap, StyleTwoAttachesToAnExistingInterface) {
  run_command("ip tuntap add dev tap7 mode tap");
  {
    Stream stream(set_);
    ASSERT_TRUE(stream.open(registry_, "tap", Parameters{}));
    stream.request(AttachReq{if_nametoindex("tap7")});
    EXPECT_EQ(stream.acknowledged(), DL_ATTACH_REQ);
    EXPECT_EQ(stream.driver().link()->name(), "tap7");
  }
  run_command("ip tuntap del dev tap7 mode tap");
}

TEST_F(Tap, AFullStreamLeavesFramesInTheDevice) {
  Stream stream(set_);
  open(stream, tap0());
  bring_up(stream);
  const int socket = kernel_socket();
  constexpr int count = 300;  // the device's queue holds 1000 (txqueuelen)
  const std::string data(1400, 'd');
  for (int at = 0; at < count; ++at) {
    ASSERT_EQ(::send(socket, data.data(), data.size(), 0), 1400);
  }
  run_for(set_, std::chrono::milliseconds(30));
  EXPECT_LT(stream.waiting(), 200U);
  int got = 0;
  EXPECT_TRUE(run_until(set_, [&] {
    while (stream.next()) {
      ++got;
    }
    return got == count;
  })) << got;
  ::close(socket);
}

}  // namespace
}  // namespace sluice::dlpi::test
