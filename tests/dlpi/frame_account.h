// SPDX-License-Identifier: Apache-2.0
#pragma once

// A stream whose every frame is accounted for: it was delivered, or ended under exactly one counter.

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <string>

#include "tests/dlpi/namespace.h"
#include "tests/dlpi/test_stream.h"

namespace sluice::dlpi::test {

inline constexpr std::uint16_t unbound = 0x9001;
inline constexpr std::size_t account_mtu = 1500;
inline constexpr wire::MacAddress sender_mac{{0x02, 0, 0, 0, 0, 0x99}};
inline constexpr wire::MacAddress joined_group{{0x01, 0, 0x5e, 0x0a, 0x0b, 0x0c}};
inline constexpr wire::MacAddress bridges_mac{{0x01, 0x80, 0xc2, 0, 0, 0}};

class FrameAccount {
 protected:
  FrameAccount() { add_drivers(registry_); }

  void open_stream(std::string_view driver, const Parameters& parameters) {
    const Status opened = stream_.open(registry_, driver, parameters);
    ASSERT_TRUE(opened) << opened.error().text;
  }
  void bind_and_join() {
    stream_.bind(test_sap);
    stream_.request(EnabmultiReq{joined_group});
    ASSERT_EQ(stream_.acknowledged(), DL_ENABMULTI_REQ);
  }
  [[nodiscard]] std::uint64_t came() { return stream_.driver().link()->statistics().frames_received; }
  /// All counters of ends, by name; dlpi/link_counter.h.
  std::map<std::string, std::uint64_t> ends() {
    std::map<std::string, std::uint64_t> all;
    for (const char* name : {"super_frame_dropped", "no_memory", "checksum_unknown", "short_frame", "vlan_frame",
                             "oversize_frame", "llc_frame", "not_ours", "unclaimed", "flow_dropped"}) {
      all[name] = stream_.counted(name);
    }
    return all;
  }
  /// The next that came is from the sender, with so many bytes of payload.
  void expect_delivered(std::size_t payload) {
    Message up = stream_.next();
    ASSERT_TRUE(up) << "nothing came up the stream";
    up.encode();
    const auto indication = UnitdataInd::decode(up.bytes());
    ASSERT_TRUE(indication);
    EXPECT_EQ(indication->source, (LinkAddress{sender_mac, test_sap})) << "without the tag";
    const Message data = up.unlink();
    EXPECT_EQ(data ? data.size() : 0, payload);
  }
  /// Each of so many frames is received, now that the stream is read, or was dropped by the kernel.
  void expect_received_or_dropped(std::uint64_t frames) {
    EXPECT_TRUE(run_until(set_,
                          [&] {
                            stream_.forget();
                            return came() + stream_.counted("kernel_dropped") >= frames;
                          }))
        << came() << " came; " << stream_.counts();
    EXPECT_EQ(came() + stream_.counted("kernel_dropped"), frames);
  }

  StreamSet set_;
  Registry registry_;
  Stream stream_{set_};
};

}  // namespace sluice::dlpi::test
