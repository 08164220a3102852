// SPDX-License-Identifier: Apache-2.0
#pragma once

// xdp: a network interface through AF_XDP sockets.
//
// Manual
//   stack file  driver = { kind = "xdp", device = "eth1" }
//               driver = { kind = "xdp" }                   # style 2: DL_ATTACH_REQ, PPA = interface index
//   service     DLPI (dlpi/link_stream.h). Any number of streams of one stream set may share a device, but no other
//               program
//   parameters  device  interface; absent: style 2
//               mode    "native": the device's driver runs our program before it makes a packet of the frame, and reads
//                       and writes our slots itself if it can (zero copy); "zerocopy": it must; "generic": the kernel
//                       runs the program later and copies, on any device; "auto" (absent): native where the device has
//                       it, else generic
//               queue   serve this receive queue of the device alone, 0..; absent: all, of which there may be 16.
//                       Frames that come on a queue without a socket are the kernel's
//               frames  slots of 4 KiB to receive into, a power of two, 64..65536, absent 2048; on each queue. 512 more
//                       to send from
//               mac     our address; absent: the interface's
//   takes       an XDP program (dlpi/xdp_filter.h) takes frames of the EtherTypes that are bound, to our address, to
//               broadcast, and to groups that a stream has enabled, out of the kernel's hands; all others are the
//               kernel's as if we were not there, and no counter's (`unclaimed` and `not_ours` do not see them). What
//               we take the kernel does not get, so that with a `mac` of our own it keeps its traffic but misses
//               broadcasts of our types: where it is to speak IPv4 on the interface, too, its peers need permanent
//               neighbours. Captures on this host (tcpdump) do not see what we take. A promiscuous stream takes
//               everything
//   receives    into slots of memory shared with the kernel (dlpi/xdp_queue.h). A layered stream gets a copy. Where all
//               streams on the device are fused, they are shown the frame where it lies, but for small ones; a slot
//               that is held comes back when its message is freed, or is recalled when half of the slots are held, the
//               stream is full, or the link ends
//   sends       from a slot, on the first queue; the frame is copied into it. Past traffic control, and unseen by
//               captures on this host
//   MTU         a frame fills one slot: the MTU may be 3822; more is refused when opening (EMSGSIZE), and an interface
//               that grows beyond later counts as 3822, its longer frames as `kernel_dropped`. Frames in several slots
//               (XDP_USE_SG) take Linux 6.6; Debian 12 has 6.1, and libraries that do not know of them
//   offload     XDP does not say what a local sender left to hardware. On a veth pair let the peer do its own work,
//                 ethtool -K PEER tx off tso off gso off
//               else modules above drop bad checksums, and super-frames are `kernel_dropped` or `oversize_frame`.
//               Native mode on veth turns the peer's TSO off by itself. What we send needs nothing of the peer, neither
//               a program nor GRO
//   tags        a VLAN tag that the device or a local sender keeps beside the frame is not seen: VLAN frames then look
//               as if they had no tag. Let it stay in the frame,
//                 ethtool -K DEVICE rxvlan off       (on veth: ethtool -K PEER txvlan off)
//               Frames of VLANs are the kernel's; a priority tag is ignored
//   link state  up while the interface is up and has a carrier; MTU as the interface's. Changes come by rtnetlink.
//               An interface that was removed does not come back: open a new stream
//   flow        down: what finds no free slot waits. A frame that the device refuses is lost, `transmit_error`; so is
//               one above 4096 bytes. What a device had taken when it went down goes when it comes up. Up: frames wait
//               in the slots while the only stream is full; what then finds no slot is `kernel_dropped`, but with zero
//               copy the device's own to count (ethtool -S DEVICE)
//   counters    dlpi/link_counter.h
//   privileges  CAP_NET_RAW in the interface's network namespace, CAP_NET_ADMIN and CAP_BPF outside of all user
//               namespaces; else EPERM with what is lacking. EBUSY: another XDP program is on the interface, or another
//               socket on the queue. No such interface: ENODEV with the names of those that exist
//
// Ownership: owns sockets, slots and program; the kernel takes the program off when the process ends. Threads: as its
// stream set.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/descriptor.h"
#include "dlpi/interface_link.h"
#include "dlpi/xdp_filter.h"
#include "dlpi/xdp_queue.h"
#include "stack/core/registry.h"
#include "stack/wire/ethernet.h"

namespace sluice::dlpi {

class XdpLink final : public InterfaceLink {
 public:
  static constexpr std::size_t bursts_per_call_max = 4;
  static constexpr unsigned queues_max = 16;
  static constexpr std::size_t frames_default = 2048;
  /// A frame with a priority tag fills a slot.
  static constexpr std::size_t mtu_max = XdpQueue::frame_bytes_max - wire::EthernetHeader::size - 4;
  /// As PacketLink::lent_bytes_min_default: below, copying a frame out costs what lending it does.
  static constexpr std::size_t lent_bytes_min = 512;
  /// How long after a frame found no slot to send from it is tried again.
  static constexpr Duration sending_pause = std::chrono::milliseconds(1);

  enum class Mode : std::uint8_t { automatic, native, zero_copy, generic };

  struct Options {
    Mode mode = Mode::automatic;
    std::optional<unsigned> queue;  // absent: all
    std::size_t frames = frames_default;
    wire::MacAddress address;  // unspecified: the interface's
  };
  [[nodiscard]] static Result<std::shared_ptr<Link>> open(StreamSet& set, const std::string& device,
                                                          const Options& options);
  ~XdpLink() override;

  void send(Batch& frames) override;
  void on_room() override;
  [[nodiscard]] std::uint64_t take_drops(bool late) override;
  /// A frame takes a slot of the queue that it arrives in. Not all are waiting: some are lent, some half full.
  [[nodiscard]] std::size_t receive_room() const override { return receive_slots_ / 4 * mtu(); }
  [[nodiscard]] XdpFilter::Mode mode() const { return filter_.mode(); }

 private:
  /// A queue as the run loop sees it.
  class Source final : public EventSource {
   public:
    Source(XdpLink& link, std::unique_ptr<XdpQueue> owned);
    ~Source() override;
    [[nodiscard]] int descriptor() const override { return queue->descriptor(); }
    bool on_readable() override { return link_.receive_from(*queue); }
    [[nodiscard]] bool wants_readable() const override { return link_.may_receive(); }

    std::unique_ptr<XdpQueue> queue;

   private:
    XdpLink& link_;
  };

  XdpLink(StreamSet& set, const Interface& interface, XdpFilter filter, Descriptor membership);
  static Result<XdpFilter> attach(const Interface& interface, Mode mode, unsigned queues);
  Status open_queues(const Options& options, unsigned first, unsigned end);
  [[nodiscard]] Status filter_for(const Interests& wanted, const wire::MacAddress& station) override;
  [[nodiscard]] int membership_socket() const override { return membership_.get(); }
  void changed(const Interface& interface) override;
  bool receive_from(XdpQueue& queue);
  void accept(XdpQueue& queue, Bytes frame, bool lends, Batch& burst);
  void go_on_sending();
  [[nodiscard]] XdpQueue& sender() { return *sources_.front()->queue; }

  std::size_t receive_slots_ = 0;
  XdpFilter filter_;
  Descriptor membership_;  // a packet socket that receives nothing: XDP has no groups
  std::vector<std::unique_ptr<Source>> sources_;
  Timer sending_timer_;
};

[[nodiscard]] Entry xdp_entry();

}  // namespace sluice::dlpi
