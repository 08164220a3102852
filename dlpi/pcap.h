// SPDX-License-Identifier: Apache-2.0
#pragma once

// pcap: a network interface through libpcap (receive) and libnet (transmit).
//
// Manual
//   stack file  driver = { kind = "pcap", device = "veth0" }
//               driver = { kind = "pcap" }                  # style 2: DL_ATTACH_REQ, PPA = interface index
//   service     DLPI (dlpi/link_stream.h). Any number of streams may share a device.
//   parameters  device        interface; absent: style 2
//               buffer_bytes  libpcap's buffer, 65536..1073741824, absent 8 MiB
//   address     the interface's; DL_SET_PHYS_ADDR_REQ is not supported. As with packet, give the interface no IP
//               address
//   receives    immediate mode, incoming frames only, copied once. libpcap does not say which checksums a local sender
//               left to hardware, and shows super-frames as they are: on a veth pair let the peer do its own work,
//                 ethtool -K PEER tx off tso off gso off
//               else modules above drop bad checksums, and super-frames count as `oversize_frame`
//   sends       libnet_adv_write_link, one system call a frame, from contiguous memory (else copied)
//   link state  up while the interface is up and has a carrier; MTU as the interface's. Changes come by rtnetlink;
//               where the MTU grows after opening, longer frames are `oversize_frame`
//   flow        as packet; what libpcap's buffer cannot hold is `kernel_dropped`
//   tags        libpcap puts a VLAN tag that the kernel took off back; what is done with it: dlpi/link.h
//   counters    dlpi/link_counter.h
//   privileges  CAP_NET_RAW; else EPERM with what to do. No such interface: ENODEV with the names of those that exist
//
// Ownership: owns both libraries' handles. Threads: as its stream set.

#include <memory>
#include <string>
#include <vector>

#include "base/descriptor.h"
#include "dlpi/interface.h"
#include "dlpi/link.h"
#include "stack/core/registry.h"

struct pcap;
struct libnet_context;

namespace sluice::dlpi {

class PcapLink final : public Link, public EventSource {
 public:
  static constexpr std::size_t buffer_bytes_default = std::size_t{8} << 20;
  static constexpr std::size_t bursts_per_call_max = 4;

  [[nodiscard]] static Result<std::shared_ptr<Link>> open(StreamSet& set, const std::string& device,
                                                          std::size_t buffer_bytes);
  ~PcapLink() override;

  void send(Batch& frames) override;
  void on_room() override { on_readable(); }

  [[nodiscard]] int descriptor() const override { return capture_descriptor_; }
  bool on_readable() override;
  [[nodiscard]] bool wants_readable() const override { return may_receive(); }

 private:
  struct CaptureDeleter {
    void operator()(pcap* capture) const;
  };
  struct InjectorDeleter {
    void operator()(libnet_context* injector) const;
  };
  using Capture = std::unique_ptr<pcap, CaptureDeleter>;
  using Injector = std::unique_ptr<libnet_context, InjectorDeleter>;

  /// Waits for room on libnet's descriptor.
  class Room final : public EventSource {
   public:
    Room(PcapLink& link, int descriptor) : link_(link), descriptor_(descriptor) {}
    [[nodiscard]] int descriptor() const override { return descriptor_; }
    bool on_readable() override { return false; }
    [[nodiscard]] bool wants_readable() const override { return false; }
    [[nodiscard]] bool wants_writable() const override { return full; }
    void on_writable() override;

    bool full = false;

   private:
    PcapLink& link_;
    int descriptor_;
  };

  PcapLink(StreamSet& set, const Interface& interface, Capture capture, Injector injector, Descriptor membership);

  static Result<Capture> open_capture(const Interface& interface, std::size_t buffer_bytes);
  static Result<Injector> open_injector(const Interface& interface);
  Status set_interests(const Interests& wanted, const Interests& before) override;
  bool write(Message& frame);
  void accept(ConstBytes bytes, std::size_t whole_size);
  [[nodiscard]] std::uint64_t take_drops(bool late) override;

  Interface interface_;
  Capture capture_;
  int capture_descriptor_;
  Injector injector_;
  Descriptor membership_;  // a packet socket that receives nothing: libpcap has no groups
  std::unique_ptr<InterfaceMonitor> monitor_;
  Room room_;
  std::vector<std::byte> contiguous_;  // for frames of several blocks
  Batch burst_;                        // filled by libpcap's callback
  std::uint64_t drops_ = 0;            // that libpcap has told of
};

[[nodiscard]] Entry pcap_entry();

}  // namespace sluice::dlpi
