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
//               offload boolean, absent true: datagrams, and segments of TCP, that are sent together cross to the
//               kernel
//                       as one super-frame (dlpi/super_frame.h) and back, and nobody sums them on the way. With false
//                       this driver splits and sums what goes down, the kernel what comes up
//   kernel side not touched but for the MTU: give it an address and bring it up by script,
//                 ip addr add 10.77.0.2/24 dev tap0; ip link set tap0 up
//               before that the link is down and DL_UNITDATA_REQ is answered DL_UNDELIVERABLE
//   data        one system call a frame, gathered from its blocks on the way out, into a pool buffer on the way in
//   offload     a virtio header in front of each frame (IFF_VNET_HDR) says what is left to do; TUNSETOFFLOAD tells the
//               kernel that we take super-frames and partial checksums (TUN_F_TSO4, _TSO6, _USO4, _USO6, _CSUM). One
//               goes up whole to a stream that takes it, `super_frame_received`, and is split for others,
//               `super_frame_split`: a raw stream, as of `sluice bridge`, has each datagram for itself, and modules
//               such as `fault` then treat each for itself. A partial checksum is completed, `checksum_completed`.
//               A kernel without those of UDP (before 6.2) is told by its refusal: then it is as with false for UDP,
//               and `ip` learns from DL_CAPABILITY_ACK that the device does not split them. What an existing interface
//               takes is set anew when it is opened, and back to nothing when it is closed
//   link state  up while the interface is (IFF_UP); changes, and of the MTU, come by rtnetlink. One that is moved into
//               another network namespace goes on working and counts as up
//   flow        down: what the device does not take waits. Up: frames wait in the device's queue (txqueuelen) while the
//               only stream is full; then the kernel drops, `kernel_dropped` (of what it counts at the interface since
//               the device was opened: ip -s link, TX dropped)
//   counters    dlpi/link_counter.h
//   threat      a super-frame that lies about its sizes: read_super_frame() checks it, `super_frame_malformed`
//   privileges  CAP_NET_ADMIN in the network namespace (or an existing interface of the user's own: ip tuntap add user
//               USER); else EPERM with what to do. EBUSY: another program has it. Needs /dev/net/tun
//
// Ownership: owns the descriptor. Threads: as its stream set.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/descriptor.h"
#include "dlpi/interface.h"
#include "dlpi/link.h"
#include "dlpi/offload.h"
#include "dlpi/super_frame_pieces.h"
#include "stack/core/registry.h"

namespace sluice::dlpi {

class TapLink final : public Link, public EventSource {
 public:
  static constexpr std::size_t mtu_min = 68;
  static constexpr std::size_t mtu_max = 65521;  // the kernel's bound for TAP
  static constexpr std::size_t bursts_per_call_max = 4;
  static constexpr std::size_t burst_bytes_max = 128 * 1024;  // super-frames fill a stream's queue fast
  static constexpr std::size_t blocks_per_frame_max = 16;

  struct Options {
    wire::MacAddress address;  // unspecified: random
    std::size_t mtu = 0;       // 0: as it is
    bool offload = true;
  };
  [[nodiscard]] static Result<std::shared_ptr<Link>> open(StreamSet& set, const std::string& device,
                                                          const Options& options);
  ~TapLink() override;

  void send(Batch& frames) override;
  [[nodiscard]] bool takes_super_frames(std::uint8_t protocol) const override {
    return protocol == wire::protocol_tcp ? offloads_ != Offloads::none : offloads_ == Offloads::all;
  }
  [[nodiscard]] bool reads_lent_memory() const override { return true; }
  void on_room() override { on_readable(); }
  Status set_address(const wire::MacAddress& address) override;

  [[nodiscard]] int descriptor() const override { return tap_.get(); }
  bool on_readable() override;
  [[nodiscard]] bool wants_readable() const override { return !gone_ && may_receive(); }
  [[nodiscard]] bool wants_writable() const override { return full_; }
  void on_writable() override;
  [[nodiscard]] std::uint64_t take_drops(bool late) override;

 private:
  /// Super-frames that pass, either way.
  enum class Offloads : std::uint8_t { none, tcp, all };
  TapLink(StreamSet& set, const Interface& interface, const wire::MacAddress& address, Descriptor tap,
          Offloads offloads);
  static bool set_offloads(const Descriptor& tap, Offloads offloads);
  void interface_changed(const Interface& now);
  /// Reads frames until there are none or the burst is whole; whether there may be more.
  bool read_burst(Batch& burst);
  enum class Read : std::uint8_t { frame, nothing, no_memory };
  Read read_frame(Batch& burst, std::size_t& bytes);
  enum class Written : std::uint8_t { yes, no_room, no_memory };
  Written write(Message& frame);

  Descriptor tap_;
  Offloads offloads_;
  SuperFramePieces pieces_;
  Message large_;                // memory for what does not fit the MTU, kept until it is used
  bool last_was_large_ = false;  // then the next may be, too, and is to lie in one piece
  std::unique_ptr<InterfaceMonitor> monitor_;
  int index_;
  std::optional<std::uint64_t> drops_;  // that the kernel has counted; nothing: not known
  bool full_ = false;
  bool gone_ = false;  // the interface was removed: the descriptor stays in error for good
};

[[nodiscard]] Entry tap_entry();

}  // namespace sluice::dlpi
