// SPDX-License-Identifier: Apache-2.0
#pragma once

// The XDP program of a link: it gives AF_XDP sockets the frames that are ours and leaves the kernel all others.
//
// The program is assembled here, so that neither a compiler nor an object file is needed at run time, and made anew
// when what we want changes; the kernel replaces one by the other between two frames. It is attached through a BPF
// link, which goes with the process, however that ends. Of a frame it asks, in this order:
//
//     shorter than an Ethernet header?                                               the kernel's
//     destination: our station, broadcast, a group of ours; any if promiscuous       else the kernel's
//     EtherType, behind a priority tag (IEEE 802.1Q, VLAN 0) if there is one: bound   else the kernel's
//     the queue it came on has a socket                                              else the kernel's
//
// XDP cannot copy a frame: a broadcast that is ours is not the kernel's, too.
//
// Threat: every frame on the interface runs through the program. The kernel's verifier proves that it ends and reads
// nothing but the frame; it has no loop, and its length is bounded (groups_max, types_max).
//
// Ownership: owns map, program and attachment. Threads: as its stream set.

#include <cstdint>
#include <string>
#include <vector>

#include "base/descriptor.h"
#include "base/result.h"
#include "dlpi/interface.h"
#include "stack/wire/address.h"

namespace sluice::dlpi {

/// "WHAT DEVICE: why", with what to do about it. `code` is an errno value.
[[nodiscard]] std::unexpected<Error> xdp_failure(int code, const std::string& what, const Interface& interface);

class XdpFilter {
 public:
  enum class Mode : std::uint8_t { native, generic };

  /// With more groups than this all are ours.
  static constexpr std::size_t groups_max = 1024;
  static constexpr std::size_t types_max = 1024;

  struct Rules {
    wire::MacAddress station;
    std::vector<wire::MacAddress> groups;
    std::vector<std::uint16_t> types;
    bool any_station = false;
    bool any_group = false;
    bool any_type = false;
  };

  /// Attaches a program that leaves the kernel every frame. `queues`: sockets are on queues below.
  [[nodiscard]] static Result<XdpFilter> attach(const Interface& interface, Mode mode, unsigned queues);
  XdpFilter(XdpFilter&&) noexcept = default;
  XdpFilter& operator=(XdpFilter&&) = delete;
  ~XdpFilter();

  [[nodiscard]] Mode mode() const { return mode_; }
  /// Frames on `queue` go to this AF_XDP socket.
  Status serve(unsigned queue, int socket);
  Status accept_only(const Rules& rules);

 private:
  XdpFilter(Interface interface, Mode mode, Descriptor map)
      : interface_(std::move(interface)), mode_(mode), map_(std::move(map)) {}
  [[nodiscard]] Result<Descriptor> load(const Rules& rules) const;

  Interface interface_;
  Mode mode_;
  Descriptor map_;   // queue to socket
  Descriptor link_;  // the attachment
};

}  // namespace sluice::dlpi
