// SPDX-License-Identifier: Apache-2.0
#pragma once

// A packet socket that receives through a TPACKET_V3 ring: memory shared with the kernel, in blocks that it fills with
// frames and hands over whole.
//
//     block 0        block 1        block 2       ...
//     ┌────────────┐ ┌────────────┐ ┌───────────
//     │ f f f f f  │ │ f f f      │ │                  TP_STATUS_USER: ours; TP_STATUS_KERNEL: the kernel's
//     └────────────┘ └────────────┘ └───────────
//      read here ▲
//
// A block that is full comes at once, one that is not after block_timeout_ms; so the ring adds up to that (and the
// kernel's timer tick) to the delay of a sparse frame. A block goes back to the kernel when its last frame has been
// read.
//
// Frames are copied out. Showing ring slots as external buffers instead was considered and left: a block that the
// layers above still hold keeps the socket readable, so the run loop would spin, and stalls the ring where it wraps.
//
// Ownership: owns socket and mapping. Threads: as its stream set.

#include <linux/if_packet.h>

#include <memory>
#include <optional>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "dlpi/descriptor.h"
#include "dlpi/interface.h"
#include "dlpi/offload.h"

namespace sluice::dlpi {

class PacketRing {
 public:
  static constexpr std::size_t block_bytes = std::size_t{128} << 10;  // holds the largest super-frame
  static constexpr unsigned block_timeout_ms = 1;

  struct Frame {
    ConstBytes bytes;  // valid until next() or readable() is called
    OffloadHeader offload;
    bool tagged = false;     // the kernel took off a VLAN tag
    bool truncated = false;  // bytes are not all of it
  };

  [[nodiscard]] static Result<std::unique_ptr<PacketRing>> open(const Interface& interface, std::size_t ring_bytes);
  ~PacketRing();
  PacketRing(const PacketRing&) = delete;
  PacketRing& operator=(const PacketRing&) = delete;

  [[nodiscard]] int descriptor() const { return socket_.get(); }
  /// Whether the kernel has handed over more. Gives a block back whose last frame has been read: that frame ends here.
  [[nodiscard]] bool readable();
  [[nodiscard]] std::optional<Frame> next();
  /// Frames that the kernel has dropped since this was last asked; known once a block after them has been read.
  [[nodiscard]] std::uint64_t take_drops();

  /// From now on only frames of these EtherTypes come, or all.
  Status accept_only(const std::vector<std::uint16_t>& types, bool all);

 private:
  PacketRing(Descriptor socket, const Interface& interface, std::byte* memory, std::size_t blocks);
  [[nodiscard]] tpacket_hdr_v1& header(std::size_t block) const;
  [[nodiscard]] bool ours(std::size_t block) const;
  void finish_block();

  Descriptor socket_;
  Interface interface_;
  std::byte* memory_;
  std::size_t blocks_;
  std::size_t block_ = 0;          // being read, or next to be
  std::byte* frame_ = nullptr;     // next to be read; nullptr: block_ has not been begun
  std::uint32_t frames_left_ = 0;  // in block_
  bool losing_ = false;            // the kernel said so (TP_STATUS_LOSING)
};

}  // namespace sluice::dlpi
