// SPDX-License-Identifier: Apache-2.0
// The packet driver on a veth pair in a namespace of the test's own.
#include "dlpi/packet.h"

#include <linux/capability.h>
#include <netinet/udp.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <cctype>
#include <string_view>

#include "base/descriptor.h"
#include "dlpi/super_frame.h"
#include "tests/dlpi/datagram.h"
#include "tests/dlpi/interface_driver.h"
#include "tests/dlpi/namespace.h"
#include "tests/dlpi/test_stream.h"
#include "tests/dlpi/traffic.h"

namespace sluice::dlpi::test {
namespace {

/// With either kind of ring.
class Packet : public InterfaceDriver<VethTest> {
 protected:
  Packet() : InterfaceDriver({.driver = "packet", .kind = "ring", .room = "ring_bytes"}) {}
};

TEST_P(Packet, CarriesFramesBothWays) {
  Stream near(set_);
  Stream far(set_);
  open(near, "near", test_sap);
  open(far, "far", test_sap);
  expect_frames_both_ways(set_, {near, near_mac}, {far, far_mac}, test_sap, 1400, 2000);
  EXPECT_EQ(near.counted("unclaimed") + near.counted("transmit_error") + far.counted("kernel_dropped"), 0U);
}

TEST_P(Packet, FramesOfManyBlocks) { carries_frames_of_many_blocks(); }

TEST_P(Packet, APartialChecksumIsCompleted) {
  give_kernel_the_far_end();
  Stream near(set_);
  open(near, "near", wire::ethertype_ipv4);
  const int socket = kernel_socket();
  const std::string odd(333, 'q');
  ASSERT_EQ(::send(socket, odd.data(), odd.size(), 0), static_cast<ssize_t>(odd.size()));
  ASSERT_TRUE(run_until(set_, [&] { return near.waiting() == 1; }));
  Message up = near.next();
  EXPECT_EQ(verified_payload(up), odd);
  EXPECT_EQ(near.counted("checksum_completed"), 1U) << "the kernel left nothing to do: is checksum offload off?";
  // And the other way: the kernel accepts what we send.
  near.send({far_mac, wire::ethertype_ipv4}, datagram_to_kernel("hello"));
  EXPECT_TRUE(run_until(set_, [&] { return received_by(socket) == "hello"; }));
  ::close(socket);
}

TEST_P(Packet, AUdpSuperFrameIsSplit) {
  give_kernel_the_far_end();
  Stream near(set_);
  open(near, "near", wire::ethertype_ipv4);
  const int socket = kernel_socket();
  const int segment = 1000;
  ASSERT_EQ(::setsockopt(socket, IPPROTO_UDP, UDP_SEGMENT, &segment, sizeof segment), 0);
  std::string data;
  for (int at = 0; at < 9500; ++at) {
    data += static_cast<char>('a' + at % 23);
  }
  ASSERT_EQ(::send(socket, data.data(), data.size(), 0), static_cast<ssize_t>(data.size()));
  ASSERT_TRUE(run_until(set_, [&] { return near.waiting() == 10; })) << near.waiting();
  std::string received;
  while (Message up = near.next()) {
    received += verified_payload(up);
  }
  EXPECT_EQ(received, data);
  EXPECT_EQ(near.counted("super_frame_split"), 1U);
  ::close(socket);
}

/// A ring by the frame has the beginning of a long frame in its slot, and the whole in the socket's queue: each comes
/// with its own, and what the queue has no room for is dropped, and nothing else.
TEST_P(Packet, LongFramesAndShortOnesKeepTheirOrder) {
  give_kernel_the_far_end();
  Stream near(set_);
  const bool by_frame = kind() == std::string_view("frame");
  open(near, "near", wire::ethertype_ipv4, by_frame ? 512 << 10 : 8 << 20);
  const Descriptor owned(kernel_socket());
  const int socket = owned.get();
  const int segment = 1000;
  const auto send_with = [&](int size, char letter) {
    ASSERT_EQ(::setsockopt(socket, IPPROTO_UDP, UDP_SEGMENT, &segment, sizeof segment), 0);
    const std::string data(static_cast<std::size_t>(size), letter);
    ASSERT_EQ(::send(socket, data.data(), data.size(), 0), size);
  };
  constexpr int rounds = 26;
  for (int round = 0; round < rounds; ++round) {
    send_with(50'000, static_cast<char>('a' + round));
    send_with(500, static_cast<char>('A' + round));
  }
  std::string runs;  // of equal data units: their letter, once
  std::size_t units = 0;
  const auto take = [&] {
    while (Message up = near.next()) {
      const std::string data = verified_payload(up);
      ASSERT_FALSE(data.empty());
      EXPECT_EQ(data, std::string(data.size(), data.front()));
      EXPECT_EQ(data.size(), std::islower(data.front()) != 0 ? 1000U : 500U);
      ++units;
      if (runs.empty() || runs.back() != data.front()) {
        runs += data.front();
      }
    }
  };
  ASSERT_TRUE(run_until(set_, [&] {
    take();
    return !runs.empty() && runs.back() == 'Z';
  })) << runs;
  const std::size_t dropped = near.counted("super_frame_dropped");
  if (by_frame) {
    EXPECT_GT(dropped, 0U) << "the queue has had room for all: it is to be filled";
    EXPECT_LT(dropped, static_cast<std::size_t>(rounds)) << "and for none";
  }
  EXPECT_EQ(units, (rounds - dropped) * 50 + rounds) << near.counts();
  std::string expected;
  for (int round = 0; round < rounds; ++round) {
    for (const char letter : {static_cast<char>('a' + round), static_cast<char>('A' + round)}) {
      if (std::isupper(letter) != 0 || runs.find(letter) != std::string::npos) {
        expected += letter;
      }
    }
  }
  EXPECT_EQ(runs, expected);
}

/// What a receiver may promise its peer (SLIOCRECEIVEROOM).
TEST_F(VethTest, ARingHasRoomForAPartOfWhatItHolds) {
  constexpr std::size_t bytes = std::size_t{1} << 20;
  const auto by_block = PacketRing::open(*find_interface("near"), PacketRing::Kind::by_block, bytes);
  const auto by_frame = PacketRing::open(*find_interface("near"), PacketRing::Kind::by_frame, bytes);
  ASSERT_TRUE(by_block && by_frame);
  EXPECT_EQ((*by_block)->room(), bytes / 4);
  int buffer = 0;
  socklen_t size = sizeof buffer;
  ASSERT_EQ(::getsockopt((*by_frame)->descriptor(), SOL_SOCKET, SO_RCVBUF, &buffer, &size), 0);
  EXPECT_EQ((*by_frame)->room(), std::min(bytes, static_cast<std::size_t>(buffer)) / 4);
}

/// Super-frames on their way out, and a kernel that refuses them.
class SuperFramesOut : public VethTest {
 protected:
  /// Three datagrams for the kernel at the far end behind one header.
  Message super_frame() {
    std::vector<std::byte> packet = datagram_to_kernel("one  two  three");
    store_checksum(packet.data() + 26, wire::pseudo_header_sum(our_ip, kernel_ip, wire::protocol_udp, 23));
    Message message = Message::of_native(set_.pool(), wire::DataUnit{.kind = wire::DataUnit::Kind::link_request,
                                                                     .header_size = 28,
                                                                     .segment_size = 5,
                                                                     .checksum_offloaded = true});
    message.link(Message::copy_of(set_.pool(), frame(far_mac, wire::ethertype_ipv4, packet)));
    return message;
  }
  Message single(std::string_view text) {
    return Message::copy_of(set_.pool(), frame(far_mac, wire::ethertype_ipv4, datagram_to_kernel(text)));
  }
  std::unique_ptr<PacketSender> open(PacketSender::SendCall call) {
    auto sender = PacketSender::open(set_, *find_interface("near"), false, [] {}, call);
    EXPECT_TRUE(sender);
    return std::move(*sender);
  }
  /// What the kernel gets, in order.
  std::vector<std::string> arrived(int socket, std::size_t count) {
    std::vector<std::string> texts;
    EXPECT_TRUE(run_until(set_, [&] {
      for (std::string text = received_by(socket); !text.empty(); text = received_by(socket)) {
        texts.push_back(text);
      }
      return texts.size() >= count;
    }));
    return texts;
  }

  StreamSet set_;
};

TEST_F(SuperFramesOut, KeepTheirPlaceAmongFrames) {
  give_kernel_the_far_end();
  const int socket = kernel_socket();
  const auto sender = open(::sendmsg);
  Batch frames;
  frames.push(single("before"));
  frames.push(super_frame());
  frames.push(single("after"));
  const PacketSender::Sent done = sender->send(frames);
  EXPECT_EQ(done.frames, 5U);
  EXPECT_EQ(done.super_frames, 1U);
  EXPECT_EQ(done.bytes, 3 * 42U + 15 + 42 + 6 + 42 + 5);
  EXPECT_TRUE(frames.empty() && done.to_split.empty());
  EXPECT_EQ(arrived(socket, 5), (std::vector<std::string>{"before", "one  ", "two  ", "three", "after"}));
  ::close(socket);
}

/// Linux before 6.2 knows no VIRTIO_NET_HDR_GSO_UDP_L4.
TEST_F(SuperFramesOut, AreGivenBackByAKernelThatKnowsNone) {
  give_kernel_the_far_end();
  const int socket = kernel_socket();
  const auto sender = open([](int, const msghdr*, int) -> ssize_t {
    errno = EINVAL;
    return -1;
  });
  Batch frames;
  frames.push(single("before"));
  frames.push(super_frame());
  frames.push(single("after"));
  PacketSender::Sent done = sender->send(frames);
  EXPECT_EQ(done.frames, 1U);
  EXPECT_EQ(done.to_split.size(), 1U);
  EXPECT_EQ(frames.size(), 1U) << "what came behind it waits";
  EXPECT_FALSE(sender->takes_super_frames(wire::protocol_udp));
  EXPECT_TRUE(sender->takes_super_frames(wire::protocol_tcp)) << "which kernels have taken for long";
  Batch split;
  ASSERT_TRUE(split_super_frame(done.to_split.pop(), split));
  split.splice(std::move(frames));
  EXPECT_EQ(sender->send(split).frames, 4U) << "with the offload header that the socket now wants";
  EXPECT_EQ(arrived(socket, 5), (std::vector<std::string>{"before", "one  ", "two  ", "three", "after"}));
  ::close(socket);
}

TEST_F(SuperFramesOut, WaitWhereTheSocketIsFull) {
  const auto sender = open([](int, const msghdr*, int) -> ssize_t {
    errno = EAGAIN;
    return -1;
  });
  Batch frames;
  frames.push(super_frame());
  frames.push(single("after"));
  const PacketSender::Sent done = sender->send(frames);
  EXPECT_EQ(done.frames, 0U);
  EXPECT_EQ(frames.size(), 2U);
  EXPECT_TRUE(sender->takes_super_frames(wire::protocol_udp) && sender->wants_writable());
}

TEST_P(Packet, LinkStateAndMtuAreNotified) {
  Stream near(set_);
  open(near, "near", test_sap);
  notifies_link_state_and_mtu(near);
}

TEST_P(Packet, AFrameShowsThatTheLinkIsUp) { learns_of_the_link_from_a_frame(); }

TEST_P(Packet, GroupsAreJoinedAtTheDevice) {
  Stream near(set_);
  open(near, "near", test_sap);
  near.request(EnabmultiReq{listed_group});
  EXPECT_EQ(near.acknowledged(), DL_ENABMULTI_REQ);
  EXPECT_TRUE(group_is_listed());
  near.request(DisabmultiReq{listed_group});
  EXPECT_EQ(near.acknowledged(), DL_DISABMULTI_REQ);
  EXPECT_FALSE(group_is_listed());
}

// packet_mreq, PACKET_MR_UNICAST: what is sent to the station reaches us, and what is sent to the interface is the
// kernel's.
TEST_P(Packet, AnAddressOfOurOwnMakesAStationBesideTheKernel) {
  const wire::MacAddress own{{0x02, 0xaa, 0, 0, 0, 1}};
  Parameters with_own = parameters("near");
  with_own.set("mac", own.to_text());
  Stream near(set_);
  ASSERT_TRUE(try_open(near, with_own));
  near.bind(test_sap);
  Stream far(set_);
  open(far, "far", test_sap);
  EXPECT_EQ(near.driver().link()->address(), own);
  far.send({near_mac, test_sap}, bytes_of("the kernel's"));
  far.send({own, test_sap}, bytes_of("ours"));
  ASSERT_TRUE(run_until(set_, [&] { return near.waiting() == 1; }));
  Message up = near.next();
  EXPECT_EQ(as_text(up.unlink().bytes()), "ours");
  EXPECT_EQ(near.counted("not_ours"), 1U);
  near.send({far_mac, test_sap}, bytes_of("from us"));
  ASSERT_TRUE(run_until(set_, [&] { return far.waiting() == 1; }));
  EXPECT_EQ(far.expect<UnitdataInd>().source, (LinkAddress{own, test_sap}));
  near.request(SetPhysAddrReq{near_mac});
  EXPECT_EQ(near.acknowledged(), DL_SET_PHYS_ADDR_REQ);
  far.send({own, test_sap}, bytes_of("nobody's"));
  far.send({near_mac, test_sap}, bytes_of("ours now"));
  ASSERT_TRUE(run_until(set_, [&] { return near.waiting() == 1; }));
  Message after = near.next();
  EXPECT_EQ(as_text(after.unlink().bytes()), "ours now");
}

TEST_P(Packet, AGroupIsNoAddressForAStation) {
  Parameters with_group = parameters("near");
  with_group.set("mac", "01:00:5e:00:00:01");
  Stream near(set_);
  const Status opened = try_open(near, with_group);
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, EINVAL);
}

TEST_P(Packet, OnlyBoundTypesComeUpAndOthersAreCounted) {
  Stream near(set_);
  Stream far(set_);
  open(near, "near", test_sap);
  open(far, "far", 0x9001);
  far.send({near_mac, 0x9001}, bytes_of("another type"));
  far.send({near_mac, test_sap}, bytes_of("ours"));
  ASSERT_TRUE(run_until(set_, [&] { return near.waiting() == 1; }));
  EXPECT_EQ(near.counted("unclaimed"), 1U);
  near.forget();
  near.request(PromisconReq{DL_PROMISC_SAP});
  EXPECT_EQ(near.acknowledged(), DL_PROMISCON_REQ);
  far.send({near_mac, 0x9001}, bytes_of("another type"));
  EXPECT_TRUE(run_until(set_, [&] { return near.waiting() == 1; }));
}

// The kernel takes the tag off before a packet socket sees the frame.
TEST_P(Packet, VlanTagsAreNotMistakenForUntaggedFrames) {
  Stream near(set_);
  Stream far(set_);
  open(near, "near", test_sap);
  open(far, "far", test_sap);
  std::vector<std::byte> tagged(64);
  store_big_endian(tagged.data(), std::uint16_t{5});
  store_big_endian(tagged.data() + 2, test_sap);
  far.send({near_mac, 0x8100}, tagged);
  EXPECT_TRUE(run_until(set_, [&] { return near.counted("vlan_frame") == 1; }));
  EXPECT_EQ(near.waiting(), 0U);
}

TEST_P(Packet, AFullStreamLeavesFramesInTheRing) { leaves_frames_with_the_kernel(200); }

TEST_P(Packet, WhatTheRingCannotHoldIsCounted) { counts_what_it_has_no_room_for(256 << 10); }

// EAGAIN: what the socket has no room for waits, and goes when there is room.
TEST_P(Packet, WhatASmallSendBufferDoesNotTakeWaits) {
  Stream near(set_);
  open(near, "near", test_sap);
  StreamSet others;
  Stream far(others);
  open_layered(far, "far", test_sap);
  for (EventSource* source : set_.sources()) {
    if (dynamic_cast<PacketSender*>(source) != nullptr) {
      const int bytes = 8192;
      ASSERT_EQ(::setsockopt(source->descriptor(), SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes), 0);
    }
  }
  run_command("tc qdisc add dev near root tbf rate 4mbit burst 2k limit 1m");  // frames stay in the send buffer
  constexpr std::uint32_t count = 60;
  std::vector<std::byte> data(1400);
  for (std::uint32_t at = 0; at < count; ++at) {
    store_big_endian(data.data(), at);
    near.send({far_mac, test_sap}, data);
  }
  EXPECT_GT(near.driver().write_queue().messages(), count / 2) << "the buffer is not small";
  EXPECT_TRUE(run_until(set_, [&] { return near.driver().link()->statistics().frames_sent == count; }))
      << near.counts();
  Station station{far, far_mac};
  EXPECT_TRUE(run_until(others, [&] {
    take_numbered(station, data.size());
    return station.received == count;
  })) << station.received;
  EXPECT_EQ(near.counted("transmit_error") + near.counted("transmit_overrun"), 0U);
}

// Where the station is the kernel's, too, packets to one host of neither of our streams are the kernel's.
TEST_P(Packet, WhatIsToOthersTakesNoRoomOfOurs) {
  constexpr wire::Ipv4Address second_ip{{10, 77, 0, 7}};
  constexpr wire::Ipv4Address others_ip{{10, 77, 0, 9}};
  constexpr wire::MacAddress own_mac{{0x02, 0, 0, 0, 0, 7}};
  Stream near(set_);
  Stream second(set_);
  Stream far(set_);
  open(near, "near", wire::ethertype_ipv4);
  open(far, "far", wire::ethertype_ipv4);
  const auto says = [&](Stream& stream, const wire::IpAddress& address, bool ours) {
    stream.put(primitive_message(set_.pool(), AddressReq{address, ours}, MessageType::ctl));
  };
  /// What near gets of a datagram to each, in this order.
  const auto come = [&](const wire::MacAddress& station) {
    for (const auto& [to, what] :
         {std::pair(others_ip, "others "), std::pair(second_ip, "second "), std::pair(our_ip, "ours")}) {
      far.send({station, wire::ethertype_ipv4}, datagram(kernel_ip, to, what));
    }
    std::string all;
    EXPECT_TRUE(run_until(set_, [&] {
      while (Message up = near.next()) {
        all += up.type() == MessageType::proto ? verified_payload(up) : "";
      }
      return all.ends_with("ours");
    })) << all;
    return all;
  };
  EXPECT_EQ(come(near_mac), "others second ours") << "nobody has told an address";
  says(near, our_ip, true);
  EXPECT_EQ(come(near_mac), "ours");
  open(second, "near", wire::ethertype_ipv4);
  EXPECT_EQ(come(near_mac), "others second ours") << "the second has not";
  says(second, second_ip, true);
  EXPECT_EQ(come(near_mac), "second ours");
  says(second, second_ip, false);
  EXPECT_EQ(come(near_mac), "others second ours") << "it has no more";
  second.request(UnbindReq{});
  EXPECT_EQ(come(near_mac), "ours");
  near.request(SetPhysAddrReq{own_mac});
  EXPECT_EQ(near.acknowledged(), DL_SET_PHYS_ADDR_REQ);
  EXPECT_EQ(come(own_mac), "others second ours") << "at a station of our own it is ours to count";
  EXPECT_EQ(near.counted("not_ours"), 0U);
  far.send({near_mac, wire::ethertype_ipv4}, datagram(kernel_ip, our_ip, "the kernel's"));
  EXPECT_EQ(come(own_mac), "others second ours");
  EXPECT_EQ(near.counted("not_ours"), 1U);
}

TEST_P(Packet, StyleTwoAttachesByInterfaceIndex) { attaches_by_interface_index(); }

TEST_P(Packet, AMissingDeviceIsNamedAndOthersAreListed) { names_a_missing_device_and_lists_others(); }

TEST_P(Packet, AMissingPrivilegeSaysWhatToDo) {
  const pid_t child = fork();
  if (child == 0) {
    __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
    __user_cap_data_struct none[2]{};
    syscall(SYS_capset, &header, none);
    const auto refused = PacketLink::open(set_, "near", {});
    const bool right = !refused && refused.error().code == EPERM &&
                       refused.error().text.find("setcap") != std::string::npos &&
                       refused.error().text.find("near") != std::string::npos;
    _exit(right ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

INSTANTIATE_TEST_SUITE_P(Rings, Packet, kinds_and_paths("block", "frame"), kind_and_path);

}  // namespace
}  // namespace sluice::dlpi::test
