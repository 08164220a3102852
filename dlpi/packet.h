// SPDX-License-Identifier: Apache-2.0
#pragma once

// packet: a network interface through Linux packet sockets.
//
// Manual
//   stack file  driver = { kind = "packet", device = "veth0" }
//               driver = { kind = "packet" }                        # style 2: DL_ATTACH_REQ, PPA = interface index
//   service     DLPI (dlpi/link_stream.h). Any number of streams may share a device.
//   parameters  device        interface; absent: style 2
//               ring          "block" (absent) or "frame", the kind of receive ring, dlpi/packet_ring.h: "block" takes
//                             least CPU time but adds up to about a millisecond to the delay of sparse frames, "frame"
//                             adds none and pays a system call and a copy for a super-frame
//               ring_bytes    receive ring, 262144..1073741824, absent 16 MiB: room for bursts and for a reader that is
//                             late. A quarter of it is what a transfer by ftx lets its peer send unread: 1 GiB over
//                             veth took 0.43 s with 16 MiB, 0.53 with 8 and no less with more (insecure, super-frames).
//                             The kernel goes round all of it, so for small datagrams one that fits the second-level
//                             cache takes less CPU time: with 1 MiB, both ends of a 1,400-byte datagram over veth took
//                             0.84 of the time (stack_bench veth_1400, 2 MiB of that cache)
//               qdisc_bypass  boolean, absent false: send past traffic control, and unseen by captures on this host
//               offload       boolean, absent true: datagrams, and segments of TCP, that are sent together go to the
//                             kernel as one super-frame (dlpi/super_frame.h), and device or receiver sum and split
//                             them. With false this driver does both
//               mac           our address; absent: the interface's
//   address     the kernel's own stack stays on the interface. With the interface's address it looks at what we
//               receive, too, and answers: give the interface no IP address (ip addr flush dev DEVICE). With one of our
//               own (`mac`, DL_SET_PHYS_ADDR_REQ) we are a station beside it, and it leaves our frames alone; not where
//               the network allows one address a port (wireless, many virtual switches)
//   receives    from a TPACKET_V3 or _V2 ring, what dlpi/packet_filter.h lets through: frames to our station and to
//               groups, of the EtherTypes that are bound; where the station is the kernel's, too, and the streams are
//               those of `ip`, packets to its addresses alone; and of other frames the Ethernet header, to be counted.
//               A layered stream gets a copy. Where all streams on the device are fused, they are shown the frame where
//               it lies in the ring, and its bytes are read and written once, on their way to the application. A small
//               frame is copied all the same, and so is one that comes while PacketRing::loans_max are held, or that is
//               still held when the ring wants its memory back: nothing more has come, the stream is full, half of the
//               ring has passed by, or the link ends
//   sends       sendmmsg (dlpi/packet_sender.h)
//   offload     a sender on this host (veth, bridge) may leave checksums and segmentation to hardware that is not
//               there. A partial checksum is completed, `checksum_completed`; super-frames of UDP and TCP go up whole
//               to a stream that takes them, `super_frame_received`, and are split for others, `super_frame_split`;
//               others are dropped, `super_frame_dropped` (ethtool -K DEVICE gso off, at the sender), and so is what a
//               ring by the frame has no room for beside its slots. Kernels before 6.2 drop UDP super-frames
//               themselves, `kernel_dropped` (ethtool -K DEVICE tx-udp-segmentation off, there)
//   tags        the kernel takes a VLAN tag off before we see the frame, and says which it was: a priority tag is
//               ignored, others are `vlan_frame`
//   link state  up while the interface is up and has a carrier; MTU as the interface's. Changes come by rtnetlink
//   flow        down: what the socket does not take waits. A frame that the device refuses (ENOBUFS) is lost,
//               `transmit_error`. Up: frames wait in the ring while the only stream is full; what then does not fit
//               into the ring is `kernel_dropped`, at once
//   counters    dlpi/link_counter.h
//   privileges  CAP_NET_RAW in the interface's network namespace; else EPERM with what to do. No such interface:
//               ENODEV with the names of those that exist
//
// Ownership: owns its sockets. Threads: as its stream set.

#include <memory>
#include <string>

#include "dlpi/interface_link.h"
#include "dlpi/packet_ring.h"
#include "dlpi/packet_sender.h"
#include "stack/core/registry.h"

namespace sluice::dlpi {

class PacketLink final : public InterfaceLink, public EventSource {
 public:
  static constexpr std::size_t ring_bytes_default = std::size_t{16} << 20;
  static constexpr std::size_t bursts_per_call_max = 4;
  /// What a call takes of super-frames, which fill the ring fast: readers get their turn before it is wanted back.
  static constexpr std::size_t bytes_per_call_max = 384 * 1024;

  /// Where copying a frame out costs what lending it does. Measured with packet_bench (receive_path), CPU time of the
  /// copy over that of the loan: 0.99 at 64 and 200 bytes, 0.99 to 1.01 at 400, 1.02 at 700, 1.11 at 1472.
  static constexpr std::size_t lent_bytes_min_default = 512;

  struct Options {
    PacketRing::Kind ring = PacketRing::Kind::by_block;
    std::size_t ring_bytes = ring_bytes_default;
    bool bypass_qdisc = false;
    bool offload = true;
    wire::MacAddress address;                             // unspecified: the interface's
    std::size_t lent_bytes_min = lent_bytes_min_default;  // smaller frames are copied on a fused path, too
  };
  [[nodiscard]] static Result<std::shared_ptr<Link>> open(StreamSet& set, const std::string& device,
                                                          const Options& options);
  ~PacketLink() override;

  void send(Batch& frames) override;
  [[nodiscard]] bool takes_super_frames(std::uint8_t protocol) const override {
    return offload_ && sender_->takes_super_frames(protocol);
  }
  [[nodiscard]] bool reads_lent_memory() const override { return true; }
  [[nodiscard]] std::size_t receive_room() const override { return ring_->room(); }
  void on_room() override;
  [[nodiscard]] std::uint64_t take_drops(bool late) override { return ring_->take_drops(late); }

  [[nodiscard]] int descriptor() const override { return ring_->descriptor(); }
  bool on_readable() override;
  [[nodiscard]] bool keeps_readable() const override { return ring_->lent() > 0; }
  [[nodiscard]] bool wants_readable() const override;

 private:
  PacketLink(StreamSet& set, const Interface& interface, std::unique_ptr<PacketRing> ring);

  [[nodiscard]] Status filter_for(const Interests& wanted, const wire::MacAddress& station) override;
  [[nodiscard]] int membership_socket() const override { return ring_->descriptor(); }
  void accept(const PacketRing::Frame& frame, Batch& burst);
  [[nodiscard]] Message message_of(const PacketRing::Frame& frame);

  bool offload_ = true;
  std::size_t lent_bytes_min_ = 0;
  bool lends_ = false;  // in this call of on_readable()
  std::unique_ptr<PacketRing> ring_;
  std::unique_ptr<PacketSender> sender_;
};

[[nodiscard]] Entry packet_entry();

}  // namespace sluice::dlpi
