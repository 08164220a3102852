// SPDX-License-Identifier: Apache-2.0
// The pcap driver on a veth pair in a namespace of the test's own.
#include "dlpi/pcap.h"

#include "tests/dlpi/datagram.h"
#include "tests/dlpi/namespace.h"
#include "tests/dlpi/test_stream.h"
#include "tests/dlpi/traffic.h"

namespace sluice::dlpi::test {
namespace {

class Pcap : public VethTest {
 protected:
  Pcap() { add_drivers(registry_); }

  void open(Stream& stream, const char* kind, const char* device, std::uint16_t bound) {
    Parameters parameters;
    parameters.set("device", device);
    const Status opened = stream.open(registry_, kind, parameters);
    ASSERT_TRUE(opened) << opened.error().text;
    stream.bind(bound);
  }

  StreamSet set_;
  Registry registry_;
};

TEST_F(Pcap, CarriesFramesBothWays) {
  Stream near(set_);
  Stream far(set_);
  open(near, "pcap", "near", test_sap);
  open(far, "packet", "far", test_sap);
  expect_frames_both_ways(set_, {near, near_mac}, {far, far_mac}, test_sap, 1500, 1000);
}

TEST_F(Pcap, OwnFramesDoNotComeBack) {
  Stream near(set_);
  open(near, "pcap", "near", test_sap);
  near.send({wire::mac_broadcast, test_sap}, bytes_of("to all"));
  run_for(set_, std::chrono::milliseconds(50));
  EXPECT_EQ(near.waiting(), 0U);
  EXPECT_EQ(near.driver().link()->statistics().frames_received, 0U);
}

TEST_F(Pcap, SpeaksWithTheKernel) {
  give_kernel_the_far_end();
  run_command("ethtool -K far tx off > /dev/null");
  Stream near(set_);
  open(near, "pcap", "near", wire::ethertype_ipv4);
  const int socket = kernel_socket();
  ASSERT_EQ(::send(socket, "ping", 4, 0), 4);
  ASSERT_TRUE(run_until(set_, [&] { return near.waiting() == 1; }));
  Message up = near.next();
  EXPECT_EQ(verified_payload(up), "ping");
  Message several = near.encoded(UnitdataReq{{far_mac, wire::ethertype_ipv4}, {}});
  const auto packet = datagram_to_kernel("in two blocks");
  several.link(Message::copy_of(set_.pool(), ConstBytes(packet).first(30), 14));
  several.link(Message::copy_of(set_.pool(), ConstBytes(packet).subspan(30)));
  near.put(std::move(several));
  EXPECT_TRUE(run_until(set_, [&] { return received_by(socket) == "in two blocks"; }));
  ::close(socket);
}

TEST_F(Pcap, LinkStateIsNotified) {
  Stream near(set_);
  open(near, "pcap", "near", test_sap);
  near.request(NotifyReq{.notifications = DL_NOTE_LINK_UP | DL_NOTE_LINK_DOWN});
  near.expect<NotifyAck>();
  EXPECT_EQ(near.expect<NotifyInd>().notification, DL_NOTE_LINK_UP);
  run_command("ip link set near down");
  ASSERT_TRUE(run_until(set_, [&] { return near.waiting() == 1; }));
  EXPECT_EQ(near.expect<NotifyInd>().notification, DL_NOTE_LINK_DOWN);
  run_command("ip link set near up");
  ASSERT_TRUE(run_until(set_, [&] { return near.waiting() == 1; }));
  EXPECT_EQ(near.expect<NotifyInd>().notification, DL_NOTE_LINK_UP);
  Stream far(set_);
  open(far, "packet", "far", test_sap);
  run_until(set_, [&] { return far.driver().link()->up(); });
  far.send({near_mac, test_sap}, bytes_of("again"));
  EXPECT_TRUE(run_until(set_, [&] { return near.waiting() == 1; })) << "capturing goes on after the link was down";
}

TEST_F(Pcap, AMissingDeviceIsNamedAndOthersAreListed) {
  const auto refused = PcapLink::open(set_, "nowhere", PcapLink::buffer_bytes_default);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ENODEV);
  EXPECT_NE(refused.error().text.find("near"), std::string::npos) << refused.error().text;
}

}  // namespace
}  // namespace sluice::dlpi::test
