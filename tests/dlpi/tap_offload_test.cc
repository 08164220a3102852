// SPDX-License-Identifier: Apache-2.0
// Super-frames and partial checksums between the tap driver and the kernel, in a namespace of the test's own.
#include <linux/if_packet.h>
#include <net/if.h>
#include <netinet/udp.h>

#include "dlpi/super_frame.h"
#include "dlpi/tap.h"
#include "tests/dlpi/datagram.h"
#include "tests/dlpi/namespace.h"
#include "tests/dlpi/test_stream.h"

namespace sluice::dlpi::test {
namespace {

/// The parameter: whether paths are fused.
class TapOffload : public testing::TestWithParam<bool> {
 protected:
  TapOffload() { add_drivers(registry_); }
  void SetUp() override { ASSERT_TRUE(enter_namespace()) << "user and network namespaces are needed"; }
  void TearDown() override {
    ::close(socket_);
    ::close(liar_);
  }

  void open(bool segments = false, bool offload = true) {
    stream_.head().segments = segments;
    Parameters parameters;
    parameters.set("device", "tap0");
    parameters.set("mac", "02:00:00:00:00:01");
    parameters.set("offload", offload);
    const Status opened = stream_.open(registry_, "tap", parameters);
    ASSERT_TRUE(opened) << opened.error().text;
    stream_.set_mode(GetParam() ? ProcessingMode::fused : ProcessingMode::layered);
    stream_.bind(wire::ethertype_ipv4);
    run_command("echo 1 > /proc/sys/net/ipv6/conf/tap0/disable_ipv6");
    run_command("ip addr add 10.77.0.2/24 dev tap0 && ip link set tap0 up");
    run_command("ip neigh add 10.77.0.1 lladdr 02:00:00:00:00:01 dev tap0 nud permanent");
    ASSERT_TRUE(run_until(set_, [&] { return stream_.driver().link()->up(); }));
    socket_ = kernel_socket();
  }
  [[nodiscard]] LinkAddress kernel() const { return {find_interface("tap0")->address, wire::ethertype_ipv4}; }

  static std::string data_of(std::size_t size) {
    std::string data;
    for (std::size_t at = 0; at < size; ++at) {
      data += static_cast<char>('a' + at % 23);
    }
    return data;
  }
  /// The kernel's socket sends `data` as datagrams of `segment` bytes; 0: as one.
  void kernel_sends(const std::string& data, int segment) {
    ASSERT_EQ(::setsockopt(socket_, IPPROTO_UDP, UDP_SEGMENT, &segment, sizeof segment), 0);
    ASSERT_EQ(::send(socket_, data.data(), data.size(), 0), static_cast<ssize_t>(data.size()));
  }
  /// The data of what comes up, `count` messages, sums verified; a whole one's are nobody's.
  std::string came(std::size_t count) {
    EXPECT_TRUE(run_until(set_, [&] { return stream_.waiting() >= count; })) << stream_.waiting() << stream_.counts();
    std::string all;
    while (Message up = stream_.next()) {
      if (is_super_frame(up)) {
        const std::size_t headers = up.native<wire::DataUnit>()->header_size;
        Message data = up.unlink();
        EXPECT_TRUE(data.materialize() == TransformResult::done && data.pull_up(data.size()));
        all += as_text(data.bytes().subspan(headers));
      } else {
        all += verified_payload(up);
      }
    }
    return all;
  }
  /// A request for several datagrams to the kernel, `segment` bytes of `data` each, as ip makes it.
  Message request(const std::string& data, std::size_t segment) {
    std::vector<std::byte> packet = datagram_to_kernel(data);
    const auto length = static_cast<std::uint32_t>(8 + data.size());
    store_checksum(packet.data() + 26, wire::pseudo_header_sum(our_ip, kernel_ip, wire::protocol_udp, length));
    Message message =
        Message::of_native(set_.pool(), wire::DataUnit{.kind = wire::DataUnit::Kind::link_request,
                                                       .header_size = 28,
                                                       .segment_size = static_cast<std::uint16_t>(segment),
                                                       .checksum_offloaded = true,
                                                       .destination = kernel()});
    message.link(Message::copy_of(set_.pool(), packet, 64));
    return message;
  }
  std::string kernel_gets(std::size_t size) {
    std::string all;
    EXPECT_TRUE(run_until(set_, [&] {
      for (std::string text = received_by(socket_); !text.empty(); text = received_by(socket_)) {
        all += text;
      }
      return all.size() >= size;
    }));
    return all;
  }

  StreamSet set_;
  Registry registry_;
  Stream stream_{set_};
  int socket_ = -1;
  int liar_ = -1;
};

TEST_P(TapOffload, SuperFramesOfTheKernelAreSplitForAStreamThatTakesNone) {
  open();
  for (int round = 0; round < 3; ++round) {  // the first of a run lies otherwise than the others
    kernel_sends(data_of(9500), 1000);
    kernel_sends(data_of(333), 0);
    EXPECT_EQ(came(11), data_of(9500) + data_of(333));
  }
  EXPECT_EQ(stream_.counted("super_frame_split"), 3U);
  EXPECT_EQ(stream_.counted("checksum_completed"), 3U);
  EXPECT_EQ(stream_.driver().link()->statistics().frames_received, 33U);
}

TEST_P(TapOffload, SuperFramesOfTheKernelComeWholeToAStreamThatTakesThem) {
  open(/*segments=*/true);
  EXPECT_NE(stream_.accept_segments().segments->flags & SegmentsCapability::by_device, 0U);
  std::string all;
  for (int round = 0; round < 3; ++round) {
    kernel_sends(data_of(60001), 1400);
    all += data_of(60001);
  }
  EXPECT_EQ(came(3), all);
  EXPECT_EQ(stream_.counted("super_frame_received"), 3U);
  EXPECT_EQ(stream_.driver().link()->statistics().frames_received, 129U) << "43 datagrams each";
}

/// A raw stream, as of a bridge, has each datagram for itself, so that `fault` above it loses and delays datagrams.
TEST_P(TapOffload, ARawStreamHasEachDatagramForItself) {
  open(/*segments=*/true);
  static_cast<void>(stream_.accept_segments());
  Message raw = Message::allocate(set_.pool(), sizeof(IoctlBlock), 0, MessageType::ioctl);
  static_cast<void>(raw.append(sizeof(IoctlBlock)));
  set_ioctl_block(raw, {.command = DLIOCRAW, .id = 5});
  stream_.put(std::move(raw));
  ASSERT_EQ(stream_.next().type(), MessageType::iocack);
  kernel_sends(data_of(9500), 1000);
  EXPECT_TRUE(run_until(set_, [&] { return stream_.waiting() == 10; })) << stream_.waiting();
  for (int at = 0; at < 10; ++at) {
    EXPECT_EQ(stream_.next().size(), 14 + 28 + (at < 9 ? 1000U : 500U));
  }
}

TEST_P(TapOffload, TheKernelTakesSuperFrames) {
  open();
  const std::string data = data_of(30001);
  stream_.send(kernel(), datagram_to_kernel("before"));
  stream_.put(request(data, 1400));
  stream_.send(kernel(), datagram_to_kernel("behind"));
  EXPECT_EQ(kernel_gets(data.size() + 12), "before" + data + "behind");
  EXPECT_EQ(stream_.counted("super_frame_sent"), 1U);
  EXPECT_EQ(stream_.driver().link()->statistics().frames_sent, 24U);
}

TEST_P(TapOffload, WithoutItTheDriverSplitsAndTheKernelDoes) {
  open(/*segments=*/true, /*offload=*/false);
  EXPECT_EQ(stream_.accept_segments().segments->flags & SegmentsCapability::by_device, 0U);
  const std::string data = data_of(30001);
  stream_.put(request(data, 1400));
  EXPECT_EQ(kernel_gets(data.size()), data);
  EXPECT_EQ(stream_.counted("super_frame_sent"), 0U);
  EXPECT_EQ(stream_.driver().link()->statistics().frames_sent, 22U);
  kernel_sends(data_of(9500), 1000);
  EXPECT_EQ(came(10), data_of(9500));
  EXPECT_EQ(stream_.counted("super_frame_split"), 1U) << "ours";
  for (const char* counter : {"super_frame_received", "checksum_completed"}) {
    EXPECT_EQ(stream_.counted(counter), 0U) << counter;
  }
}

/// "What an existing interface takes is [...] back to nothing when it is closed" (the manual): who opens it next
/// without knowing of offloads gets frames that are finished.
TEST_P(TapOffload, AnInterfaceThatStaysIsLeftWithoutOffloads) {
  run_command("ip tuntap add dev tap7 mode tap");
  const auto offloads = [] { return std::system("ethtool -k tap7 | grep -q 'tx-udp-segmentation: on'") == 0; };
  {
    Stream stream(set_);
    Parameters parameters;
    parameters.set("device", "tap7");
    ASSERT_TRUE(stream.open(registry_, "tap", parameters));
    EXPECT_TRUE(offloads());
  }
  EXPECT_FALSE(offloads());
  run_command("ip tuntap del dev tap7 mode tap");
}

/// Threat: a super-frame that lies (tests/hostile has the table). Behind it all is as before.
TEST_P(TapOffload, ASuperFrameThatLiesIsCounted) {
  open(/*segments=*/true);
  static_cast<void>(stream_.accept_segments());
  liar_ = ::socket(AF_PACKET, SOCK_RAW, 0);
  sockaddr_ll where{};
  where.sll_family = AF_PACKET;
  where.sll_ifindex = static_cast<int>(if_nametoindex("tap0"));
  const int on = 1;
  ASSERT_EQ(::bind(liar_, reinterpret_cast<const sockaddr*>(&where), sizeof where), 0);
  ASSERT_EQ(::setsockopt(liar_, SOL_PACKET, PACKET_VNET_HDR, &on, sizeof on), 0);
  std::vector<std::byte> packet = datagram(kernel_ip, our_ip, data_of(3000));
  store_big_endian<std::uint16_t>(packet.data() + 24, 3007);  // UDP length, of 3008
  const OffloadHeader said{.flags = OffloadHeader::needs_checksum,
                           .segment_type = OffloadHeader::segment_udp,
                           .header_length = 42,
                           .segment_size = 1000,
                           .checksum_start = 34,
                           .checksum_offset = 6};
  std::vector<std::byte> bytes(sizeof said);
  std::memcpy(bytes.data(), &said, sizeof said);
  std::ranges::copy(frame({{2, 0, 0, 0, 0, 1}}, wire::ethertype_ipv4, packet), std::back_inserter(bytes));
  for (int round = 0; round < 3; ++round) {
    ASSERT_EQ(::send(liar_, bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
  }
  kernel_sends(data_of(5000), 1000);
  EXPECT_EQ(came(1), data_of(5000));
  EXPECT_EQ(stream_.counted("super_frame_malformed"), 3U) << stream_.counts();
}

INSTANTIATE_TEST_SUITE_P(Paths, TapOffload, testing::Bool(),
                         [](const auto& fused) { return std::string(fused.param ? "Fused" : "Layered"); });

}  // namespace
}  // namespace sluice::dlpi::test
