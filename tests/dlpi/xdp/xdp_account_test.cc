// SPDX-License-Identifier: Apache-2.0
// Every frame on the interface is ours or the kernel's, never both: a table of frames. What is ours is delivered or
// ends under exactly one counter.
#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <map>
#include <string>
#include <vector>

#include "base/descriptor.h"
#include "dlpi/xdp.h"
#include "tests/dlpi/frame_account.h"
#include "tests/dlpi/test_stream.h"
#include "tests/dlpi/xdp/xdp_namespace.h"

namespace sluice::dlpi::test {
namespace {

using Octets = std::vector<std::byte>;

constexpr const char* delivered = "delivered";
constexpr const char* the_kernels = "the kernel's";

struct Case {
  const char* name;
  wire::MacAddress to;
  std::vector<std::uint16_t> words;  // tags and type
  std::size_t payload;
  const char* fate;  // or the counter's name
};

// IEEE 802.1Q section 3: "priority-tagged frame: A tagged frame whose tag header carries priority information but no
// VLAN identification information". IEEE 802.3 section 3.2.6: below 1536 the field is a length.
const std::vector<Case> cases{
    {"bound type to us", near_mac, {test_sap}, 100, delivered},
    {"bound type to all", wire::mac_broadcast, {test_sap}, 100, delivered},
    {"bound type to our group", joined_group, {test_sap}, 100, delivered},
    {"bound type to a group of others", bridges_mac, {test_sap}, 100, the_kernels},
    {"bound type to another station", other_mac, {test_sap}, 100, the_kernels},
    {"as large as may be", near_mac, {test_sap}, account_mtu, delivered},
    {"no more than a header", near_mac, {test_sap}, 0, delivered},
    {"unbound type to us", near_mac, {unbound}, 100, the_kernels},
    {"unbound type to all", wire::mac_broadcast, {unbound}, 100, the_kernels},
    {"the bound type's octets the other way round", near_mac, {0x0090}, 100, the_kernels},
    {"LLC to us", near_mac, {100}, 100, the_kernels},
    {"priority tag", near_mac, {0x8100, 0, test_sap}, 100, delivered},
    {"priority tag with a priority", near_mac, {0x8100, 0xa000, test_sap}, 100, delivered},
    {"priority tag with drop eligibility", wire::mac_broadcast, {0x8100, 0x1000, test_sap}, 100, delivered},
    {"priority tag, as large as may be", near_mac, {0x8100, 0xe000, test_sap}, account_mtu, delivered},
    {"priority tag, unbound type", near_mac, {0x8100, 0x2000, unbound}, 100, the_kernels},
    {"priority tag to another station", other_mac, {0x8100, 0x2000, test_sap}, 100, the_kernels},
    {"VLAN 5", near_mac, {0x8100, 5, test_sap}, 100, the_kernels},
    {"VLAN 4095", near_mac, {0x8100, 4095, test_sap}, 100, the_kernels},
    {"VLAN 256, of which one octet is 0", near_mac, {0x8100, 256, test_sap}, 100, the_kernels},
    {"service VLAN 5", near_mac, {0x88a8, 5, test_sap}, 100, the_kernels},
    {"service tag without a VLAN", near_mac, {0x88a8, 0, test_sap}, 100, the_kernels},
    {"VLAN 7 behind a priority tag", near_mac, {0x8100, 0, 0x8100, 7, test_sap}, 100, the_kernels},
    {"two priority tags", near_mac, {0x8100, 0, 0x8100, 0, test_sap}, 100, the_kernels},
    {"too large", near_mac, {test_sap}, account_mtu + 1, "oversize_frame"},
    {"too large, unbound type", near_mac, {unbound}, account_mtu + 1, the_kernels},
};

class XdpAccount : public XdpVethTest, protected FrameAccount, public testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override {
    XdpVethTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) {
      return;
    }
    run_command("ip link set far mtu 3000");
    Parameters parameters;
    parameters.set("device", "near");
    parameters.set("mode", GetParam());
    parameters.set("frames", std::int64_t{64});
    ASSERT_NO_FATAL_FAILURE(open_stream("xdp", parameters));
    bind_and_join();
    kernel_ = Descriptor(::socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, htons(ETH_P_ALL)));
    sockaddr_ll address = on("near");
    ASSERT_EQ(::bind(kernel_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    constexpr int ignore = 1;
    ASSERT_EQ(::setsockopt(kernel_.get(), SOL_PACKET, PACKET_IGNORE_OUTGOING, &ignore, sizeof ignore), 0);
    far_ = Descriptor(::socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0));
  }
  static sockaddr_ll on(const char* device) {
    sockaddr_ll address{};
    address.sll_family = AF_PACKET;
    address.sll_protocol = htons(ETH_P_ALL);
    address.sll_ifindex = static_cast<int>(if_nametoindex(device));
    return address;
  }
  static Octets frame_of(const Case& wanted) {
    Octets frame(2 * wire::MacAddress::size + 2 * wanted.words.size());
    wanted.to.store(frame.data());
    sender_mac.store(frame.data() + wire::MacAddress::size);
    for (std::size_t at = 0; at < wanted.words.size(); ++at) {
      store_big_endian(frame.data() + 12 + 2 * at, wanted.words[at]);
    }
    frame.resize(frame.size() + wanted.payload, std::byte{'x'});
    return frame;
  }
  void bring(ConstBytes frame) {
    const sockaddr_ll to = on("far");
    ASSERT_EQ(::sendto(far_.get(), frame.data(), frame.size(), 0, reinterpret_cast<const sockaddr*>(&to), sizeof to),
              static_cast<ssize_t>(frame.size()))
        << strerror(errno);
  }
  std::uint64_t kernel_got() {
    std::array<std::byte, 4096> buffer;
    while (::recv(kernel_.get(), buffer.data(), buffer.size(), 0) >= 0) {
      ++kernel_got_;
    }
    return kernel_got_;
  }

  Descriptor kernel_;
  Descriptor far_;
  std::uint64_t kernel_got_ = 0;
};

TEST_P(XdpAccount, EveryFrameIsOursOrTheKernels) {
  for (const Case& wanted : cases) {
    SCOPED_TRACE(wanted.name);
    auto expected = ends();
    const std::uint64_t before = came();
    const std::uint64_t kernels_before = kernel_got();
    const bool ours = wanted.fate != the_kernels;
    bring(frame_of(wanted));
    EXPECT_TRUE(run_until(set_, [&] { return came() + kernel_got() > before + kernels_before; })) << "did not come";
    EXPECT_EQ(came(), before + (ours ? 1 : 0));
    EXPECT_EQ(kernel_got(), kernels_before + (ours ? 0 : 1));
    EXPECT_EQ(stream_.waiting(), wanted.fate == delivered ? 1U : 0U) << stream_.counts();
    if (wanted.fate == delivered) {
      expect_delivered(wanted.payload);
    } else if (ours) {
      ++expected[wanted.fate];
    }
    EXPECT_EQ(ends(), expected);
    stream_.forget();
  }
  EXPECT_EQ(stream_.counted("kernel_dropped"), 0U);
}

TEST_P(XdpAccount, APromiscuousStreamLeavesTheKernelNothing) {
  stream_.request(PromisconReq{DL_PROMISC_PHYS});
  ASSERT_EQ(stream_.acknowledged(), DL_PROMISCON_REQ);
  for (const Case& wanted : cases) {
    SCOPED_TRACE(wanted.name);
    const std::uint64_t before = came();
    bring(frame_of(wanted));
    EXPECT_TRUE(run_until(set_, [&] { return came() == before + 1; }));
    stream_.forget();
  }
  EXPECT_EQ(kernel_got(), 0U);
}

// Nobody reads the stream, so that the driver does not read its device: what the kernel drops is counted all the same,
// and in the end every frame was received or dropped.
TEST_P(XdpAccount, WhatTheKernelDropsIsCountedWhileNothingIsRead) {
  const Octets frame = frame_of({"bulk", near_mac, {test_sap}, 1400, delivered});
  constexpr std::uint64_t frames = 2000;
  for (std::uint64_t at = 0; at < frames; ++at) {
    bring(frame);
    if (at % 50 == 0) {
      run_for(set_, std::chrono::milliseconds(1));
    }
  }
  EXPECT_TRUE(run_until(set_, [&] { return stream_.counted("kernel_dropped") > 0; }))
      << came() << " came, " << stream_.waiting() << " wait; " << stream_.counts();
  expect_received_or_dropped(frames);
}

// The interface's MTU has grown beyond what a slot holds. Native mode does not let it.
TEST_P(XdpAccount, WhatNoSlotHoldsIsCounted) {
  if (GetParam() == std::string("native")) {
    EXPECT_NE(std::system("ip link set far mtu 9000 2>/dev/null"), 0);
    return;
  }
  run_command("ip link set near mtu 9000 && ip link set far mtu 9000");
  ASSERT_TRUE(run_until(set_, [&] { return stream_.driver().link()->mtu() == XdpLink::mtu_max; }));
  bring(frame_of({"larger than a slot", near_mac, {test_sap}, XdpLink::mtu_max + 5, ""}));
  bring(frame_of({"as large as a slot", near_mac, {test_sap}, XdpLink::mtu_max, ""}));
  ASSERT_TRUE(run_until(set_, [&] { return stream_.waiting() == 1; }));
  Message up = stream_.next();
  EXPECT_EQ(up.unlink().size(), XdpLink::mtu_max);
  EXPECT_TRUE(run_until(set_, [&] { return stream_.counted("kernel_dropped") == 1; })) << stream_.counts();
  EXPECT_EQ(came(), 1U);
}

INSTANTIATE_TEST_SUITE_P(Modes, XdpAccount, testing::Values("generic", "native"), name_of_driver);

}  // namespace
}  // namespace sluice::dlpi::test
