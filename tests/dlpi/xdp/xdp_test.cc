// SPDX-License-Identifier: Apache-2.0
// The xdp driver on a veth pair in a namespace of the test's own.
#include "dlpi/xdp.h"

#include <linux/capability.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <functional>
#include <string>
#include <string_view>

#include "tests/dlpi/datagram.h"
#include "tests/dlpi/interface_driver.h"
#include "tests/dlpi/test_stream.h"
#include "tests/dlpi/traffic.h"
#include "tests/dlpi/xdp/xdp_namespace.h"

namespace sluice::dlpi::test {
namespace {

bool is_xdp(int descriptor) {
  int family = 0;
  socklen_t size = sizeof family;
  return ::getsockopt(descriptor, SOL_SOCKET, SO_DOMAIN, &family, &size) == 0 && family == AF_XDP;
}

XdpLink::Options in_mode(XdpLink::Mode mode) {
  XdpLink::Options options;
  options.mode = mode;
  return options;
}

/// In both modes that veth has.
class Xdp : public InterfaceDriver<XdpVethTest> {
 protected:
  Xdp() : InterfaceDriver({.driver = "xdp", .kind = "mode", .room = "frames"}) {}

  Status open_in(StreamSet& set, const Parameters& parameters) {
    Stream stream(set);
    return try_open(stream, parameters);
  }
};

TEST_P(Xdp, CarriesFramesBothWays) {
  Stream near(set_);
  Stream far(set_);
  open(near, "near", test_sap);
  open(far, "far", test_sap);
  expect_frames_both_ways(set_, {near, near_mac}, {far, far_mac}, test_sap, 1400, 1000);
  EXPECT_EQ(near.counted("transmit_error") + far.counted("kernel_dropped"), 0U);
}

TEST_P(Xdp, FramesOfManyBlocks) { carries_frames_of_many_blocks(); }

// All of a burst waits in slots: nobody has read yet. More than one batch of the sender's slots, and more than the
// kernel sends in a call.
TEST_P(Xdp, ABurstOfFiveThousandArrives) {
  Stream near(set_);
  open(near, "near", test_sap, 8192);
  StreamSet others;
  Stream far(others);
  open_layered(far, "far", test_sap);
  constexpr std::uint32_t count = 5000;
  std::vector<std::byte> data(600);
  for (std::uint32_t at = 0; at < count; ++at) {
    store_big_endian(data.data(), at);
    far.send({near_mac, test_sap}, data);
  }
  ASSERT_TRUE(run_until(others, [&] { return far.driver().link()->statistics().frames_sent == count; }))
      << far.counts() << far.driver().link()->statistics().frames_sent;
  Station station{near, near_mac};
  EXPECT_TRUE(run_until(set_,
                        [&] {
                          take_numbered(station, data.size());
                          return station.received == count;
                        }))
      << station.received << " " << near.counts();
  EXPECT_EQ(far.counted("transmit_error") + far.counted("transmit_overrun") + near.counted("kernel_dropped"), 0U);
}

// The kernel beside us on the interface keeps what is not ours: other EtherTypes, and with an address of our own what
// is sent to the interface's.
TEST_P(Xdp, TheKernelKeepsWhatIsNotOurs) {
  run_command("ip addr add 10.77.0.1/24 dev near && ip neigh add 10.77.0.9 lladdr 02:00:00:00:00:02 dev near");
  const int kernel = ::socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0);
  const sockaddr_in local = socket_address(our_ip);
  ASSERT_EQ(::bind(kernel, reinterpret_cast<const sockaddr*>(&local), sizeof local), 0);
  Stream near(set_);
  open(near, "near", test_sap);
  Stream far(set_);
  open(far, "far", wire::ethertype_ipv4);
  far.bind_also(test_sap);
  const wire::Ipv4Address stranger{{10, 77, 0, 9}};
  const auto send_to_kernel = [&](std::string_view payload) {
    far.send({near_mac, wire::ethertype_ipv4}, datagram(stranger, our_ip, payload));
  };
  send_to_kernel("not our type");
  far.send({near_mac, test_sap}, bytes_of("ours"));
  EXPECT_TRUE(run_until(set_, [&] { return received_by(kernel) == "not our type"; }));
  ASSERT_TRUE(run_until(set_, [&] { return near.waiting() == 1; }));
  Message up = near.next();
  EXPECT_EQ(as_text(up.unlink().bytes()), "ours");
  EXPECT_EQ(near.driver().link()->statistics().frames_received, 1U);
  // Now IPv4 is ours, too.
  near.bind_also(wire::ethertype_ipv4);
  send_to_kernel("our type");
  ASSERT_TRUE(run_until(set_, [&] { return near.waiting() == 1; }));
  near.forget();
  EXPECT_EQ(received_by(kernel), "");
  // A station beside the kernel's.
  const wire::MacAddress own{{0x02, 0xaa, 0, 0, 0, 1}};
  near.request(SetPhysAddrReq{own});
  ASSERT_EQ(near.acknowledged(), DL_SET_PHYS_ADDR_REQ);
  send_to_kernel("the kernel's station");
  EXPECT_TRUE(run_until(set_, [&] { return received_by(kernel) == "the kernel's station"; }));
  EXPECT_EQ(near.waiting(), 0U);
  far.send({own, wire::ethertype_ipv4}, datagram(stranger, our_ip, "our station"));
  EXPECT_TRUE(run_until(set_, [&] { return near.waiting() == 1; }));
  EXPECT_EQ(received_by(kernel), "");
  ::close(kernel);
}

TEST_P(Xdp, WhenTheLinkEndsTheKernelHasItsFramesBack) {
  run_command("ip addr add 10.77.0.1/24 dev near && ip neigh add 10.77.0.9 lladdr 02:00:00:00:00:02 dev near");
  const int kernel = ::socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0);
  const sockaddr_in local = socket_address(our_ip);
  ASSERT_EQ(::bind(kernel, reinterpret_cast<const sockaddr*>(&local), sizeof local), 0);
  Stream far(set_);
  open(far, "far", wire::ethertype_ipv4);
  const auto send = [&](std::string_view payload) {
    far.send({near_mac, wire::ethertype_ipv4}, datagram({{10, 77, 0, 9}}, our_ip, payload));
  };
  for (int round = 0; round < 3; ++round) {  // and the interface can be opened again at once
    {
      Stream near(set_);
      open(near, "near", wire::ethertype_ipv4);
      send("ours");
      ASSERT_TRUE(run_until(set_, [&] { return near.waiting() == 1; }));
    }
    send("the kernel's");
    EXPECT_TRUE(run_until(set_, [&] { return received_by(kernel) == "the kernel's"; }));
  }
  ::close(kernel);
}

TEST_P(Xdp, SpeaksWithTheKernel) {
  give_kernel_the_far_end();
  run_command("ethtool -K far tx off > /dev/null");
  Stream near(set_);
  open(near, "near", wire::ethertype_ipv4);
  const int socket = kernel_socket();
  ASSERT_EQ(::send(socket, "ping", 4, 0), 4);
  ASSERT_TRUE(run_until(set_, [&] { return near.waiting() == 1; }));
  Message up = near.next();
  EXPECT_EQ(verified_payload(up), "ping");
  near.send({far_mac, wire::ethertype_ipv4}, datagram_to_kernel("pong"));
  EXPECT_TRUE(run_until(set_, [&] { return received_by(socket) == "pong"; }));
  ::close(socket);
}

TEST_P(Xdp, BroadcastsAndGroupsOfOursCome) {
  Stream near(set_);
  Stream far(set_);
  open(near, "near", test_sap);
  open(far, "far", test_sap);
  const auto expect_one = [&](std::string_view text) {
    ASSERT_TRUE(run_until(set_, [&] { return near.waiting() == 1; })) << text;
    Message up = near.next();
    EXPECT_EQ(as_text(up.unlink().bytes()), text);
  };
  far.send({listed_group, test_sap}, bytes_of("nobody's"));
  far.send({wire::mac_broadcast, test_sap}, bytes_of("to all"));
  expect_one("to all");
  near.request(EnabmultiReq{listed_group});
  EXPECT_EQ(near.acknowledged(), DL_ENABMULTI_REQ);
  EXPECT_TRUE(group_is_listed());
  far.send({listed_group, test_sap}, bytes_of("to the group"));
  expect_one("to the group");
  near.request(DisabmultiReq{listed_group});
  EXPECT_EQ(near.acknowledged(), DL_DISABMULTI_REQ);
  EXPECT_FALSE(group_is_listed());
  far.send({listed_group, test_sap}, bytes_of("nobody's again"));
  far.send({near_mac, test_sap}, bytes_of("to us"));
  expect_one("to us");
  EXPECT_EQ(near.counted("not_ours") + near.counted("unclaimed"), 0U) << "the program leaves them to the kernel";
}

TEST_P(Xdp, APromiscuousStreamTakesEverything) {
  Stream near(set_);
  Stream far(set_);
  open(near, "near", test_sap);
  open(far, "far", 0x9001);
  const wire::MacAddress other{{0x02, 0, 0, 0, 0, 0x77}};
  near.request(PromisconReq{DL_PROMISC_SAP});
  EXPECT_EQ(near.acknowledged(), DL_PROMISCON_REQ);
  far.send({other, 0x9001}, bytes_of("another station"));
  far.send({near_mac, 0x9001}, bytes_of("another type"));
  ASSERT_TRUE(run_until(set_, [&] { return near.waiting() == 1; }));
  Message up = near.next();
  EXPECT_EQ(as_text(up.unlink().bytes()), "another type");
  near.request(PromisconReq{DL_PROMISC_PHYS});
  EXPECT_EQ(near.acknowledged(), DL_PROMISCON_REQ);
  far.send({other, 0x9001}, bytes_of("another station"));
  EXPECT_TRUE(run_until(set_, [&] { return near.waiting() == 1; }));
}

TEST_P(Xdp, OwnFramesDoNotComeBack) {
  Stream near(set_);
  open(near, "near", test_sap);
  near.send({wire::mac_broadcast, test_sap}, bytes_of("to all"));
  run_for(set_, std::chrono::milliseconds(50));
  EXPECT_EQ(near.driver().link()->statistics().frames_received, 0U);
}

TEST_P(Xdp, LinkStateAndMtuAreNotified) {
  Stream near(set_);
  open(near, "near", test_sap);
  Stream far(set_);
  notifies_link_state_and_mtu(near);
  run_command("ip link set near mtu 2500 && ip link set far mtu 2500");
  ASSERT_TRUE(run_until(set_, [&] { return near.waiting() == 1; }));
  EXPECT_EQ(near.expect<NotifyInd>().data, 2500U);
  open(far, "far", test_sap);
  far.send({near_mac, test_sap}, std::vector<std::byte>(2500));
  ASSERT_TRUE(run_until(set_, [&] { return near.waiting() == 1; }));
  Message up = near.next();
  EXPECT_EQ(up.unlink().size(), 2500U);
  far.send({near_mac, test_sap}, bytes_of("and small ones"));
  EXPECT_TRUE(run_until(set_, [&] { return near.waiting() == 1; }));
}

TEST_P(Xdp, AFrameShowsThatTheLinkIsUp) { learns_of_the_link_from_a_frame(); }

TEST_P(Xdp, FramesComeAndGoAgainAfterTheInterfaceWasDown) {
  Stream near(set_);
  Stream far(set_);
  open(near, "near", test_sap);
  open(far, "far", test_sap);
  for (int round = 0; round < 2; ++round) {
    run_command("ip link set near down");
    ASSERT_TRUE(run_until(set_, [&] { return !near.driver().link()->up() && !far.driver().link()->up(); }));
    near.send({far_mac, test_sap}, bytes_of("into the void"));
    run_for(set_, std::chrono::milliseconds(20));
    run_command("ip link set near up");
    ASSERT_TRUE(run_until(set_, [&] { return near.driver().link()->up() && far.driver().link()->up(); }));
    near.forget();
    far.forget();
    expect_frames_both_ways(set_, {near, near_mac}, {far, far_mac}, test_sap, 1000, 300);
  }
}

TEST_P(Xdp, ARemovedInterfaceIsDown) {
  Stream near(set_);
  open(near, "near", test_sap);
  run_command("ip link del near");
  EXPECT_TRUE(run_until(set_, [&] { return !near.driver().link()->up(); }));
  near.send({far_mac, test_sap}, bytes_of("into the void"));
  run_for(set_, std::chrono::milliseconds(20));
  StreamSet others;
  const Status again = open_in(others, parameters("near"));
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code, ENODEV);
}

TEST_P(Xdp, AFullStreamLeavesFramesInTheSlots) { leaves_frames_with_the_kernel(400); }

// Frames that no slot holds are told of with the others.
TEST_P(Xdp, WhatFindsNoSlotIsCounted) { counts_what_it_has_no_room_for(64); }

// IEEE 802.1Q table 9-2, VID 0: "The null VLAN ID. Indicates that the tag header contains only priority information; no
// VLAN identifier is present in the frame."
TEST_P(Xdp, APriorityTagIsIgnoredAndOtherTagsAreTheKernels) {
  Stream near(set_);
  Stream far(set_);
  open(near, "near", test_sap);
  open(far, "far", test_sap);
  std::vector<std::byte> tagged(64, std::byte{'x'});
  const auto send_tagged = [&](std::uint16_t control, std::uint16_t type) {
    store_big_endian(tagged.data(), control);
    store_big_endian(tagged.data() + 2, type);
    far.send({near_mac, 0x8100}, tagged);
  };
  send_tagged(5, test_sap);
  send_tagged(0, 0x9001);
  send_tagged(0xa000, test_sap);
  ASSERT_TRUE(run_until(set_, [&] { return near.waiting() == 1; })) << near.counts();
  Message up = near.next();
  EXPECT_EQ(up.unlink().size(), 60U);
  run_for(set_, std::chrono::milliseconds(20));
  EXPECT_EQ(near.driver().link()->statistics().frames_received, 1U);
}

TEST_P(Xdp, FramesTheDeviceCannotTakeAreCounted) {
  Stream near(set_);
  open(near, "near", test_sap);
  Batch frames;
  frames.push(Message::copy_of(set_.pool(), std::vector<std::byte>(XdpQueue::slot_bytes + 1)));
  frames.push(Message::copy_of(set_.pool(), std::vector<std::byte>(13)));
  near.driver().link()->send(frames);
  EXPECT_TRUE(frames.empty());
  EXPECT_EQ(near.counted("transmit_error"), 2U);
  EXPECT_EQ(near.driver().link()->statistics().frames_sent, 0U);
}

TEST_P(Xdp, AllQueuesAreServedOrOne) {
  run_command("ethtool -L near rx 2 tx 2 && ethtool -L far rx 2 tx 2");
  Stream near(set_);
  open(near, "near", test_sap);
  Stream far(set_);
  open(far, "far", test_sap);
  EXPECT_EQ(std::ranges::count_if(set_.sources(), [](EventSource* source) { return is_xdp(source->descriptor()); }), 4);
  expect_frames_both_ways(set_, {near, near_mac}, {far, far_mac}, test_sap, 200, 100);
  Parameters third = parameters("near");
  third.set("queue", std::int64_t{2});
  const Status refused = open_in(set_, third);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, EINVAL);
}

/// So many datagrams of the kernel's, each of a flow of its own.
void send_flows(int count) {
  const sockaddr_in to = socket_address(our_ip);
  for (int at = 0; at < count; ++at) {
    const int socket = ::socket(AF_INET, SOCK_DGRAM, 0);
    EXPECT_EQ(::sendto(socket, "flow", 4, 0, reinterpret_cast<const sockaddr*>(&to), sizeof to), 4);
    ::close(socket);
  }
}

// In generic mode veth does not say which queue it was: all are of the first.
TEST_P(Xdp, FramesOfOtherQueuesAreTheKernels) {
  give_kernel_the_far_end();
  run_command("ethtool -L near rx 2 tx 2 && ethtool -L far rx 2 tx 2");
  constexpr std::size_t flows = 64;
  StreamSet others;
  {
    Stream all(others);
    open(all, "near", wire::ethertype_ipv4);
    send_flows(flows);
    EXPECT_TRUE(run_until(others, [&] { return all.waiting() == flows; })) << all.waiting();
  }
  std::size_t got = 0;
  for (const std::int64_t queue : {0, 1}) {
    StreamSet own;
    Stream one(own);
    Parameters of_queue = parameters("near");
    of_queue.set("queue", queue);
    ASSERT_TRUE(try_open(one, of_queue));
    one.bind(wire::ethertype_ipv4);
    for (int times = 0; times < 4; ++times) {
      send_flows(flows);
    }
    run_for(own, std::chrono::milliseconds(50));
    if (kind() == std::string_view("generic")) {
      EXPECT_EQ(one.waiting(), queue == 0 ? 4 * flows : 0);
    } else {
      EXPECT_LT(one.waiting(), 4 * flows);
    }
    got += one.waiting();
  }
  EXPECT_GT(got, 0U);
}

TEST_P(Xdp, ASecondProgramOnTheInterfaceIsRefused) {
  Stream near(set_);
  open(near, "near", test_sap);
  StreamSet others;
  const auto refused = XdpLink::open(others, "near", in_mode(XdpLink::Mode::generic));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, EBUSY) << refused.error().text;
  EXPECT_NE(refused.error().text.find("xdp off"), std::string::npos) << refused.error().text;
  EXPECT_TRUE(others.sources().empty());
}

TEST_P(Xdp, AnMtuThatNoSlotHoldsIsRefused) {
  run_command("ip link set near mtu 3823");
  const Status refused = open_in(set_, parameters("near"));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, EMSGSIZE);
  EXPECT_NE(refused.error().text.find("mtu 3822"), std::string::npos) << refused.error().text;
}

TEST_P(Xdp, FramesMustBeAPowerOfTwo) {
  const Status refused = open_in(set_, parameters("near", 1000));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, EINVAL);
  EXPECT_NE(refused.error().text.find("1024"), std::string::npos) << refused.error().text;
}

TEST_P(Xdp, AMissingDeviceIsNamedAndOthersAreListed) { names_a_missing_device_and_lists_others(); }

TEST_P(Xdp, StyleTwoAttachesByInterfaceIndex) { attaches_by_interface_index(); }

class XdpModes : public XdpVethTest {
 protected:
  StreamSet set_;
};

TEST_F(XdpModes, AutomaticIsNativeWhereTheDeviceHasIt) {
  const auto link = XdpLink::open(set_, "near", {});
  ASSERT_TRUE(link) << link.error().text;
  EXPECT_EQ(static_cast<XdpLink&>(**link).mode(), XdpFilter::Mode::native);
}

TEST_F(XdpModes, AutomaticIsGenericWhereItHasNot) {
  run_command("ip link set lo mtu 1500");
  {
    const auto link = XdpLink::open(set_, "lo", {});
    ASSERT_TRUE(link) << link.error().text;
    EXPECT_EQ(static_cast<XdpLink&>(**link).mode(), XdpFilter::Mode::generic);
  }
  const auto native = XdpLink::open(set_, "lo", in_mode(XdpLink::Mode::native));
  ASSERT_FALSE(native);
  EXPECT_EQ(native.error().code, EOPNOTSUPP) << native.error().text;
}

TEST_F(XdpModes, ZeroCopyThatTheDeviceHasNotIsRefused) {
  const auto refused = XdpLink::open(set_, "near", in_mode(XdpLink::Mode::zero_copy));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, EOPNOTSUPP) << refused.error().text;
  EXPECT_NE(refused.error().text.find("generic"), std::string::npos) << refused.error().text;
}

/// What opening says to a process that `lose` has taken rights from.
std::string refusal_without(const std::function<void()>& lose) {
  std::array<int, 2> ends{};
  EXPECT_EQ(::pipe(ends.data()), 0);
  const pid_t child = fork();
  if (child == 0) {
    lose();
    StreamSet set;
    const auto refused = XdpLink::open(set, "near", {});
    const std::string text = refused ? "opened" : std::to_string(refused.error().code) + " " + refused.error().text;
    _exit(::write(ends[1], text.data(), text.size()) < 0 ? 1 : 0);
  }
  ::close(ends[1]);
  std::string text(4096, '\0');
  const ssize_t size = ::read(ends[0], text.data(), text.size());
  text.resize(size < 0 ? 0 : static_cast<std::size_t>(size));
  ::close(ends[0]);
  EXPECT_EQ(waitpid(child, nullptr, 0), child);
  return text;
}

void keep_capabilities(std::uint64_t kept) {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[2]{};
  for (unsigned half = 0; half < 2; ++half) {
    data[half].effective = data[half].permitted = static_cast<std::uint32_t>(kept >> 32 * half);
  }
  syscall(SYS_capset, &header, data);
}

TEST_F(XdpModes, MissingPrivilegesAreNamed) {
  constexpr std::uint64_t one = 1;
  const std::string none = refusal_without([] { keep_capabilities(0); });
  EXPECT_TRUE(none.starts_with("1 ")) << none;  // EPERM
  EXPECT_NE(none.find("lacks CAP_NET_RAW, CAP_NET_ADMIN, CAP_BPF"), std::string::npos) << none;
  EXPECT_NE(none.find("near"), std::string::npos) << none;
  const std::string no_bpf = refusal_without([] { keep_capabilities(one << CAP_NET_RAW | one << CAP_NET_ADMIN); });
  EXPECT_NE(no_bpf.find("lacks CAP_BPF."), std::string::npos) << no_bpf;
  const std::string enough =
      refusal_without([] { keep_capabilities(one << CAP_NET_RAW | one << CAP_NET_ADMIN | one << CAP_BPF); });
  EXPECT_TRUE(enough == "opened" || enough.find("ulimit -l") != std::string::npos) << enough;
}

// All capabilities, but of a user namespace: the network namespace is that one's.
TEST_F(XdpModes, AUserNamespaceIsNotEnough) {
  const std::string text = refusal_without([] {
    if (!sluice::test::enter_user_namespace(CLONE_NEWNET) ||
        std::system("ip link add near type veth peer name far") != 0) {
      _exit(1);
    }
  });
  EXPECT_TRUE(text.starts_with("1 ")) << text;
  EXPECT_NE(text.find("user namespace of its own"), std::string::npos) << text;
}

INSTANTIATE_TEST_SUITE_P(Modes, Xdp, kinds_and_paths("generic", "native"), kind_and_path);

}  // namespace
}  // namespace sluice::dlpi::test
