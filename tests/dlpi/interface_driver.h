// SPDX-License-Identifier: Apache-2.0
#pragma once

// A driver of interfaces on a veth pair, in each of its kinds and on either path, and the cases that hold for every
// such driver. The fixture of a driver derives from this, and names them in tests of its own.

#include <net/if.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "dlpi/interface.h"
#include "tests/dlpi/namespace.h"
#include "tests/dlpi/test_stream.h"
#include "tests/dlpi/traffic.h"

namespace sluice::dlpi::test {

/// A driver's name in the registry, its parameter that chooses a kind, and the one that sizes its receive memory.
struct DriverNames {
  const char* driver;
  const char* kind;
  const char* room;
};

inline Parameters parameters_of(const DriverNames& names, const char* kind, const char* device,
                                std::optional<std::int64_t> room) {
  Parameters result;
  result.set("device", device);
  result.set(names.kind, kind);
  if (room) {
    result.set(names.room, *room);
  }
  return result;
}

/// `Veth`: VethTest, or what derives from it.
template <class Veth>
class InterfaceDriver : public Veth, public testing::WithParamInterface<std::tuple<const char*, ProcessingMode>> {
 protected:
  explicit InterfaceDriver(const DriverNames& names) : names_(names) { add_drivers(registry_); }

  static const char* kind() { return std::get<0>(GetParam()); }
  Parameters parameters(const char* device, std::optional<std::int64_t> room = {}) const {
    return parameters_of(names_, kind(), device, room);
  }
  Status try_open(Stream& stream, const Parameters& parameters) {
    return stream.open(registry_, names_.driver, parameters);
  }
  void open(Stream& stream, const char* device, std::uint16_t bound, std::optional<std::int64_t> room = {}) {
    stream.set_mode(std::get<1>(GetParam()));
    open_layered(stream, device, bound, room);
  }
  void open_layered(Stream& stream, const char* device, std::uint16_t bound, std::optional<std::int64_t> room = {}) {
    const Status opened = try_open(stream, parameters(device, room));
    ASSERT_TRUE(opened) << opened.error().text;
    stream.bind(bound);
  }
  /// Whether the kernel has 01:00:5e:0a:0b:0c among the groups of an interface.
  static bool group_is_listed() {
    std::ifstream file("/proc/self/net/dev_mcast");
    const std::string all{std::istreambuf_iterator<char>(file), {}};
    return all.find("01005e0a0b0c") != std::string::npos;
  }
  static constexpr wire::MacAddress listed_group{{0x01, 0, 0x5e, 0x0a, 0x0b, 0x0c}};

  void carries_frames_of_many_blocks() {
    Stream near(set_);
    Stream far(set_);
    open(near, "near", test_sap);
    open(far, "far", test_sap);
    Message request = near.encoded(UnitdataReq{{far_mac, test_sap}, {}});
    std::string expected;
    for (char letter = 'a'; letter <= 'z'; ++letter) {
      expected += letter;
      request.link(Message::copy_of(set_.pool(), bytes_of(std::string(1, letter)), 32));
    }
    near.put(std::move(request));
    ASSERT_TRUE(run_until(set_, [&] { return far.waiting() == 1; }));
    Message up = far.next();
    EXPECT_EQ(as_text(up.unlink().bytes()), expected);
  }

  /// `near` is bound, and nothing has come.
  void notifies_link_state_and_mtu(Stream& near) {
    near.request(NotifyReq{.notifications = DL_NOTE_LINK_UP | DL_NOTE_LINK_DOWN | DL_NOTE_SDU_SIZE});
    near.expect<NotifyAck>();
    ASSERT_TRUE(run_until(set_, [&] { return near.waiting() >= 2; }));
    EXPECT_EQ(near.expect<NotifyInd>().notification, DL_NOTE_LINK_UP);
    EXPECT_EQ(near.expect<NotifyInd>().data, 1500U);
    const auto told_after = [&](const char* command) {
      run_command(command);
      EXPECT_TRUE(run_until(set_, [&] { return near.waiting() == 1; })) << command;
      return near.expect<NotifyInd>();
    };
    EXPECT_EQ(told_after("ip link set far down").notification, DL_NOTE_LINK_DOWN);
    EXPECT_EQ(told_after("ip link set far up").notification, DL_NOTE_LINK_UP);
    EXPECT_EQ(told_after("ip link set near mtu 1280").data, 1280U);
  }

  /// The kernel tells of a carrier in its own time. A frame tells of it at once: who hears can answer.
  void learns_of_the_link_from_a_frame() {
    Stream near(set_);
    open(near, "near", test_sap);
    run_command("ip link set far down");
    ASSERT_TRUE(run_until(set_, [&] { return !near.driver().link()->up(); }));
    // From here on nobody listens to what the kernel tells.
    std::vector<EventSource*> monitors;
    for (EventSource* source : set_.sources()) {
      if (dynamic_cast<InterfaceMonitor*>(source) != nullptr) {
        monitors.push_back(source);
      }
    }
    for (EventSource* monitor : monitors) {
      set_.remove_source(*monitor);
    }
    run_command("ip link set far up");
    StreamSet others;
    Stream sender(others);
    open_layered(sender, "far", 0x9002);
    EXPECT_FALSE(near.driver().link()->up());
    sender.send({near_mac, test_sap}, bytes_of("are you there?"));
    EXPECT_TRUE(run_until(set_, [&] { return near.waiting() == 1; }));
    EXPECT_TRUE(near.driver().link()->up());
    for (EventSource* monitor : monitors) {
      set_.add_source(*monitor);
    }
  }

  /// A full stream, which has fewer than `waiting_max` of a thousand frames, leaves the others with the kernel.
  void leaves_frames_with_the_kernel(std::size_t waiting_max) {
    Stream near(set_);
    Stream far(set_);
    open(near, "near", test_sap);
    open(far, "far", test_sap);
    constexpr std::size_t count = 1000;
    for (std::size_t at = 0; at < count; ++at) {
      far.send({near_mac, test_sap}, std::vector<std::byte>(1400));
    }
    run_for(set_, std::chrono::milliseconds(50));
    EXPECT_LT(near.waiting(), waiting_max);
    std::size_t got = 0;
    EXPECT_TRUE(run_until(set_, [&] {
      while (near.next()) {
        ++got;
      }
      return got == count;
    })) << got;
  }

  /// What `room` has no room for is counted, and at once: no later frame has to come for it.
  void counts_what_it_has_no_room_for(std::int64_t room) {
    Stream near(set_);
    open(near, "near", test_sap, room);
    near.head().read_queue().set_marks({.high_bytes = 4 << 20, .low_bytes = 1 << 20});
    StreamSet others;
    Stream far(others);
    open_layered(far, "far", test_sap);
    constexpr std::size_t count = 1000;
    std::size_t got = 0;
    for (std::size_t burst = 1; burst <= 3; ++burst) {
      for (std::size_t at = 0; at < count; ++at) {
        far.send({near_mac, test_sap}, std::vector<std::byte>(1400));
      }
      ASSERT_TRUE(run_until(others, [&] { return far.driver().write_queue().empty(); }));
      EXPECT_TRUE(run_until(set_,
                            [&] {
                              while (near.next()) {
                                ++got;
                              }
                              return got + near.counted("kernel_dropped") == burst * count;
                            }))
          << got << " " << near.counts();
      EXPECT_LT(got, burst * count);
    }
  }

  void attaches_by_interface_index() {
    Stream near(set_);
    Parameters without_device;
    without_device.set(names_.kind, kind());
    ASSERT_TRUE(try_open(near, without_device));
    EXPECT_EQ(near.driver().state(), DL_UNATTACHED);
    near.request(AttachReq{if_nametoindex("near")});
    EXPECT_EQ(near.acknowledged(), DL_ATTACH_REQ);
    near.request(PhysAddrReq{DL_CURR_PHYS_ADDR});
    EXPECT_EQ(near.expect<PhysAddrAck>().address, near_mac);
    near.request(DetachReq{});
    EXPECT_EQ(near.acknowledged(), DL_DETACH_REQ);
    near.request(AttachReq{99999});
    EXPECT_EQ(near.error(), DL_BADPPA);
  }

  void names_a_missing_device_and_lists_others() {
    Stream stream(set_);
    const Status refused = try_open(stream, parameters("nowhere"));
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ENODEV);
    for (const char* name : {"nowhere", "near", "far"}) {
      EXPECT_NE(refused.error().text.find(name), std::string::npos) << refused.error().text;
    }
  }

  DriverNames names_;
  StreamSet set_;
  Registry registry_;
};

/// All of a driver's kinds on either path.
inline auto kinds_and_paths(const char* one, const char* other) {
  return testing::Combine(testing::Values(one, other), testing::Values(ProcessingMode::layered, ProcessingMode::fused));
}
inline std::string kind_and_path(const testing::TestParamInfo<std::tuple<const char*, ProcessingMode>>& parameter) {
  return std::string(std::get<0>(parameter.param)) + "_" + std::string(name_of(std::get<1>(parameter.param)));
}

}  // namespace sluice::dlpi::test
