// SPDX-License-Identifier: Apache-2.0
#pragma once

// tap: a host of our own at the far end of a TAP interface. The kernel is the other host on that link.
//
// Manual
//   stack file  driver = { kind = "tap", device = "tap0" }
//               driver = { kind = "tap", device = "tap0", mac = "02:00:00:00:00:01", mtu = 9000 }
//               driver = { kind = "tap" }                   # style 2: PPA = interface index of an existing TAP
//   service     DLPI (dlpi/link_stream.h). Any number of streams may share a device.
//   parameters  device  the TAP interface: attached to if it exists (ip tuntap add), else created and gone when closed
//               mac     our address; absent: random, locally administered, from the stream set's seed. It is never the
//                       interface's own: that one is the kernel's
//               mtu     sets the interface's MTU, 68..65521; absent: as the interface has it
//   kernel side not touched but for the MTU: give it an address and bring it up by script,
//                 ip addr add 10.77.0.2/24 dev tap0; ip link set tap0 up
//               before that the link is down and DL_UNITDATA_REQ is answered DL_UNDELIVERABLE
//   data        one system call a frame, gathered from its blocks on the way out, into a pool buffer on the way in. The
//               kernel completes checksums and segments before it hands a frame over
//   link state  up while the interface is (IFF_UP); changes, and of the MTU, come by rtnetlink. One that is moved into
//               another network namespace goes on working and counts as up
//   flow        down: what the device does not take waits. Up: frames wait in the device's queue (txqueuelen) while the
//               only stream is full; then the kernel drops, `kernel_dropped` (of what it counts at the interface since
//               the device was opened: ip -s link, TX dropped)
//   counters    dlpi/link_counter.h
//   privileges  CAP_NET_ADMIN in the network namespace (or an existing interface of the user's own: ip tuntap add user
//               USER); else EPERM with what to do. EBUSY: another program has it. Needs /dev/net/tun
//
// Ownership: owns the descriptor. Threads: as its stream set.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "dlpi/descriptor.h"
#include "dlpi/interface.h"
#include "dlpi/link.h"
#include "dlpi/link_table.h"
#include "stack/core/registry.h"

namespace sluice::dlpi {

class TapLink final : public Link, public EventSource {
 public:
  static constexpr std::size_t mtu_min = 68;
  static constexpr std::size_t mtu_max = 65521;  // the kernel's bound for TAP
  static constexpr std::size_t bursts_per_call_max = 4;
  static constexpr std::size_t blocks_per_frame_max = 16;

  struct Options {
    wire::MacAddress address;  // unspecified: random
    std::size_t mtu = 0;       // 0: as it is
  };
  [[nodiscard]] static Result<std::shared_ptr<Link>> open(StreamSet& set, const std::string& device,
                                                          const Options& options);
  ~TapLink() override;

  void send(Batch& frames) override;
  void on_room() override { on_readable(); }
  Status set_address(const wire::MacAddress& address) override;

  [[nodiscard]] int descriptor() const override { return tap_.get(); }
  bool on_readable() override;
  [[nodiscard]] bool wants_readable() const override { return !gone_ && may_receive(); }
  [[nodiscard]] bool wants_writable() const override { return full_; }
  void on_writable() override;
  [[nodiscard]] std::uint64_t take_drops(bool late) override;

 private:
  TapLink(StreamSet& set, const Interface& interface, const wire::MacAddress& address, Descriptor tap);
  void interface_changed(const Interface& now);
  /// Reads frames until there are none or the burst is whole; whether there may be more.
  bool read_burst(Batch& burst);
  /// False when the device has no room now.
  bool write(Message& frame);

  Descriptor tap_;
  std::unique_ptr<InterfaceMonitor> monitor_;
  int index_;
  std::optional<std::uint64_t> drops_;  // that the kernel has counted; nothing: not known
  bool full_ = false;
  bool gone_ = false;  // the interface was removed: the descriptor stays in error for good
};

[[nodiscard]] Entry tap_entry(std::shared_ptr<LinkTable> table);

}  // namespace sluice::dlpi
