// SPDX-License-Identifier: Apache-2.0
// Every frame that came is delivered or ends under exactly one counter: one table of frames over all drivers.
#include <arpa/inet.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "base/descriptor.h"
#include "dlpi/memory_link.h"
#include "tests/dlpi/frame_account.h"
#include "tests/dlpi/namespace.h"
#include "tests/dlpi/test_stream.h"

namespace sluice::dlpi::test {
namespace {

using Octets = std::vector<std::byte>;

struct Tag {
  std::uint16_t type;
  std::uint16_t control;
};
constexpr Tag c_tag(unsigned vlan, unsigned priority = 0) {
  return {0x8100, static_cast<std::uint16_t>(priority << 13 | vlan)};
}
constexpr Tag s_tag(unsigned vlan) { return {0x88a8, static_cast<std::uint16_t>(vlan)}; }

enum class To : std::uint8_t { us, other, all, group, bridges };

struct Case {
  const char* name;
  To to;
  std::vector<Tag> tags;
  std::uint16_t type;
  std::size_t payload;   // bytes
  const char* counter;   // nullptr: delivered
  std::size_t cut = 0;   // only so many bytes of it; 0: all
  bool anywhere = true;  // false: no kernel sends such a frame, so that only the wire brings it
};

// IEEE 802.1Q section 3: "priority-tagged frame: A tagged frame whose tag header carries priority information but no
// VLAN identification information". IEEE 802.3 section 3.2.6: below 1536 the field is a length.
const std::vector<Case> cases{
    {"bound type to us", To::us, {}, test_sap, 100, nullptr},
    {"bound type to all", To::all, {}, test_sap, 100, nullptr},
    {"bound type to our group", To::group, {}, test_sap, 100, nullptr},
    {"bound type to a group of others", To::bridges, {}, test_sap, 100, "not_ours"},
    {"bound type to another station", To::other, {}, test_sap, 100, "not_ours"},
    {"as large as may be", To::us, {}, test_sap, account_mtu, nullptr},
    {"unbound type to us", To::us, {}, unbound, 100, "unclaimed"},
    {"unbound type to all", To::all, {}, unbound, 100, "unclaimed"},
    {"unbound type to a group of others", To::bridges, {}, unbound, 100, "not_ours"},
    {"unbound type to another station", To::other, {}, unbound, 100, "not_ours"},
    {"LLC to us", To::us, {}, 100, 100, "llc_frame"},
    {"LLC to the bridges", To::bridges, {}, 38, 46, "llc_frame"},
    {"LLC to another station", To::other, {}, 0x5ff, 100, "llc_frame"},
    {"priority tag", To::us, {c_tag(0)}, test_sap, 100, nullptr},
    {"priority tag with a priority", To::us, {c_tag(0, 5)}, test_sap, 100, nullptr},
    {"priority tag with drop eligibility", To::all, {c_tag(0x1000)}, test_sap, 100, nullptr},
    {"priority tag, as large as may be", To::us, {c_tag(0, 7)}, test_sap, account_mtu, nullptr},
    {"priority tag, unbound type", To::us, {c_tag(0, 1)}, unbound, 100, "unclaimed"},
    {"priority tag, LLC", To::us, {c_tag(0, 1)}, 100, 100, "llc_frame"},
    {"priority tag to another station", To::other, {c_tag(0, 1)}, test_sap, 100, "not_ours"},
    {"VLAN 5", To::us, {c_tag(5)}, test_sap, 100, "vlan_frame"},
    {"VLAN 5, unbound type", To::us, {c_tag(5, 3)}, unbound, 100, "vlan_frame"},
    {"VLAN 5 to another station", To::other, {c_tag(5)}, test_sap, 100, "vlan_frame"},
    {"VLAN 4095", To::us, {c_tag(4095)}, test_sap, 100, "vlan_frame"},
    {"service VLAN 5", To::us, {s_tag(5)}, test_sap, 100, "vlan_frame"},
    {"service tag without a VLAN", To::us, {s_tag(0)}, test_sap, 100, "vlan_frame"},
    {"VLAN 7 in service VLAN 5", To::us, {s_tag(5), c_tag(7)}, test_sap, 100, "vlan_frame"},
    {"VLAN 7 behind a priority tag", To::us, {c_tag(0), c_tag(7)}, test_sap, 100, "vlan_frame"},
    {"two priority tags", To::us, {c_tag(0), c_tag(0)}, test_sap, 100, "vlan_frame"},
    {"too large", To::us, {}, test_sap, account_mtu + 1, "oversize_frame"},
    {"too large, unbound type", To::us, {}, unbound, account_mtu + 1, "oversize_frame"},
    {"too large behind a priority tag", To::us, {c_tag(0)}, test_sap, account_mtu + 1, "oversize_frame", 0, false},
    {"nothing", To::us, {}, test_sap, 0, "short_frame", 1, false},
    {"too short", To::us, {}, test_sap, 0, "short_frame", 13, false},
    {"no more than a header", To::us, {}, test_sap, 0, nullptr, 14, false},
    {"the header of a tagged frame", To::us, {c_tag(0)}, test_sap, 0, "vlan_frame", 16, false},
    {"no more than a tagged header", To::us, {c_tag(0)}, test_sap, 0, nullptr, 18, false},
};

/// What a driver is tried on, and how frames get to it.
class Account : public testing::Test, protected FrameAccount, public testing::WithParamInterface<const char*> {
 protected:
  Account() : kind_(GetParam()) {}

  void SetUp() override {
    if (kind_ == "wire") {
      ASSERT_TRUE(far_.open(registry_, "wire", wire_end("b")));
    } else {
      ASSERT_TRUE(enter_namespace()) << "user and network namespaces are needed";
    }
    if (kind_.starts_with("p")) {
      run_command("ip link add near address 02:00:00:00:00:01 type veth peer name far address 02:00:00:00:00:02");
      run_command("ip link set far mtu 9000");
      bring_up("near");
      bring_up("far");
    }
    Parameters parameters = kind_ == "wire" ? wire_end("a") : Parameters{};
    if (kind_ != "wire") {
      parameters.set("device", kind_ == "tap" ? "tap0" : "near");
    }
    if (kind_.starts_with("packet")) {
      parameters.set("ring", kind_.substr(7));
      parameters.set("ring_bytes", std::int64_t{256 << 10});
    } else if (kind_ == "pcap") {
      parameters.set("buffer_bytes", std::int64_t{256 << 10});
    }
    ASSERT_NO_FATAL_FAILURE(open_stream(kind_.substr(0, kind_.find('/')), parameters));
    if (kind_ == "tap") {
      run_command("ip link set tap0 txqueuelen 100");
      bring_up("tap0");
    }
    ASSERT_TRUE(run_until(set_, [&] { return stream_.driver().link()->up(); }));
    bind_and_join();
  }
  void TearDown() override {
    if (kind_.starts_with("p")) {
      run_command("ip link del near");
    }
  }
  /// IPv6 is off, so that the kernel sends nothing of its own accord.
  static void bring_up(const std::string& device) {
    run_command("echo 1 > /proc/sys/net/ipv6/conf/" + device + "/disable_ipv6 && ip link set " + device + " up");
  }
  static Parameters wire_end(const char* which) {
    Parameters parameters;
    parameters.set("name", "lab");
    parameters.set("end", which);
    return parameters;
  }

  [[nodiscard]] Octets frame_of(const Case& wanted) {
    const std::map<To, wire::MacAddress> addresses{{To::us, stream_.driver().link()->address()},
                                                   {To::other, other_mac},
                                                   {To::all, wire::mac_broadcast},
                                                   {To::group, joined_group},
                                                   {To::bridges, bridges_mac}};
    Octets frame(2 * wire::MacAddress::size);
    addresses.at(wanted.to).store(frame.data());
    sender_mac.store(frame.data() + wire::MacAddress::size);
    const auto add = [&frame](std::uint16_t word) {
      frame.resize(frame.size() + sizeof word);
      store_big_endian(frame.data() + frame.size() - sizeof word, word);
    };
    for (const Tag& tag : wanted.tags) {
      add(tag.type);
      add(tag.control);
    }
    add(wanted.type);
    frame.resize(frame.size() + wanted.payload, std::byte{'x'});
    if (wanted.cut != 0) {
      frame.resize(wanted.cut);
    }
    return frame;
  }
  /// Sends a frame to the driver as its peer. False when the kernel does not send such a frame.
  bool bring(ConstBytes frame) {
    if (kind_ == "wire") {
      Batch batch(Message::copy_of(set_.pool(), frame));
      far_.driver().link()->send(batch);
      return batch.empty();
    }
    if (!socket_) {
      socket_ = Descriptor(::socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0));
    }
    sockaddr_ll to{};
    to.sll_family = AF_PACKET;
    to.sll_ifindex = static_cast<int>(if_nametoindex(kind_ == "tap" ? "tap0" : "far"));
    const ssize_t sent =
        ::sendto(socket_.get(), frame.data(), frame.size(), 0, reinterpret_cast<const sockaddr*>(&to), sizeof to);
    EXPECT_TRUE(sent == static_cast<ssize_t>(frame.size()) || errno == EMSGSIZE) << strerror(errno);
    return sent >= 0;
  }

  std::string kind_;
  Stream far_{set_};
  Descriptor socket_;  // one for all: the kernel is slow to close a packet socket
};

TEST_P(Account, EveryFrameIsDeliveredOrEndsUnderOneCounter) {
  std::uint64_t brought = 0;
  for (const Case& wanted : cases) {
    SCOPED_TRACE(wanted.name);
    if (!wanted.anywhere && kind_ != "wire") {
      continue;
    }
    auto expected = ends();
    const std::uint64_t before = came();
    if (!bring(frame_of(wanted))) {
      EXPECT_EQ(kind_, "tap") << "the kernel refuses to send it";
      EXPECT_STREQ(wanted.counter, "oversize_frame");
      continue;
    }
    ++brought;
    EXPECT_TRUE(run_until(set_, [&] { return came() > before; })) << "did not come";
    EXPECT_EQ(came(), before + 1);
    EXPECT_EQ(stream_.waiting(), wanted.counter == nullptr ? 1U : 0U) << stream_.counts();
    if (wanted.counter != nullptr) {
      ++expected[wanted.counter];
    } else {
      expect_delivered(wanted.payload);
    }
    EXPECT_EQ(ends(), expected);
    stream_.forget();
  }
  EXPECT_EQ(came(), brought);
  EXPECT_EQ(stream_.counted("kernel_dropped"), 0U);
}

// A promiscuous stream takes what else nobody wants: it is delivered, and so does not end under a counter.
TEST_P(Account, WhatAPromiscuousStreamTakesIsNotCountedAsWell) {
  stream_.request(PromisconReq{DL_PROMISC_PHYS});
  ASSERT_EQ(stream_.acknowledged(), DL_PROMISCON_REQ);
  const auto before = ends();
  for (const Case& wanted : cases) {
    const std::string counter = wanted.counter == nullptr ? "" : wanted.counter;
    if (counter == "llc_frame" || counter == "not_ours" || counter == "unclaimed") {
      SCOPED_TRACE(wanted.name);
      ASSERT_TRUE(bring(frame_of(wanted)));
      EXPECT_TRUE(run_until(set_, [&] { return stream_.waiting() == 1; }));
      stream_.forget();
    }
  }
  EXPECT_EQ(ends(), before);
}

// Nobody reads the stream, so that the driver does not read its device: what the kernel drops is counted all the same,
// and in the end every frame was received or dropped.
TEST_P(Account, WhatTheKernelDropsIsCountedWhileNothingIsRead) {
  if (kind_ == "wire") {
    return;  // its sender waits
  }
  const Octets frame = frame_of({"bulk", To::us, {}, test_sap, 1400, nullptr});
  constexpr std::uint64_t frames = 2000;
  for (std::uint64_t at = 0; at < frames; ++at) {
    ASSERT_TRUE(bring(frame));
    if (at % 50 == 0) {
      run_for(set_, std::chrono::milliseconds(1));
    }
  }
  const bool stalled = run_until(set_, [&] { return stream_.counted("kernel_dropped") > 0; });
  EXPECT_TRUE(stalled) << came() << " came, " << stream_.waiting() << " wait; " << stream_.counts();
  // And so is what it drops later, for as long as nothing is read.
  constexpr std::uint64_t more = 200;
  const std::uint64_t before = stream_.counted("kernel_dropped");
  for (std::uint64_t at = 0; at < more; ++at) {
    ASSERT_TRUE(bring(frame));
  }
  EXPECT_TRUE(run_until(set_, [&] { return stream_.counted("kernel_dropped") >= before + more; })) << stream_.counts();
  expect_received_or_dropped(frames + more);
}

INSTANTIATE_TEST_SUITE_P(Drivers, Account, testing::Values("wire", "packet/block", "packet/frame", "pcap", "tap"),
                         name_of_driver);

}  // namespace
}  // namespace sluice::dlpi::test
