// SPDX-License-Identifier: Apache-2.0
#pragma once

// A packet socket that receives through a ring: memory shared with the kernel, in one of two kinds.
//
// By the block (TPACKET_V3): the kernel packs frames into blocks and hands over a block when it is full, or after
// block_timeout_ms. Least CPU time, and room for super-frames; but a sparse frame waits for the timeout: measured on a
// veth pair, 0.5 ms at the median, 1 ms at the 90th percentile.
//
//     block 0        block 1        block 2       ...
//     ┌────────────┐ ┌────────────┐ ┌───────────
//     │ f f f f f  │ │ f f f      │ │                  TP_STATUS_USER: ours; TP_STATUS_KERNEL: the kernel's
//     └────────────┘ └────────────┘ └───────────
//      read here ▲
//
// By the frame (TPACKET_V2): one slot a frame, handed over at once, 0.02 ms at the median by the same measure. A slot
// holds one frame of the interface's MTU, so a super-frame comes truncated.
//
// Frames are copied out. Showing ring slots as external buffers instead was considered and left: a block that the
// layers above still hold keeps the socket readable, so the run loop would spin, and stalls the ring where it wraps.
//
// Ownership: owns socket and mapping. Threads: as its stream set.

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
  enum class Kind : std::uint8_t { by_block, by_frame };

  static constexpr std::size_t block_bytes = std::size_t{128} << 10;  // holds the largest super-frame
  static constexpr unsigned block_timeout_ms = 1;

  struct Frame {
    ConstBytes bytes;  // valid until next() or readable() is called
    OffloadHeader offload;
    bool tagged = false;     // the kernel took off a VLAN tag
    bool truncated = false;  // bytes are not all of it
  };

  [[nodiscard]] static Result<std::unique_ptr<PacketRing>> open(const Interface& interface, Kind kind,
                                                                std::size_t ring_bytes);
  virtual ~PacketRing();
  PacketRing(const PacketRing&) = delete;
  PacketRing& operator=(const PacketRing&) = delete;

  [[nodiscard]] int descriptor() const { return socket_.get(); }
  /// Whether the kernel has handed over more. The frame that next() gave ends here.
  [[nodiscard]] virtual bool readable() = 0;
  [[nodiscard]] virtual std::optional<Frame> next() = 0;
  /// Frames that the kernel has dropped since this was last asked; known once a frame after them has been read.
  [[nodiscard]] std::uint64_t take_drops();

  /// From now on only frames of these EtherTypes come, or all.
  Status accept_only(const std::vector<std::uint16_t>& types, bool all);

 protected:
  PacketRing(Descriptor socket, const Interface& interface, Bytes memory);

  [[nodiscard]] std::byte* at(std::size_t offset) const { return memory_.data() + offset; }
  [[nodiscard]] std::size_t blocks() const { return memory_.size() / block_bytes; }
  void set_losing(bool losing) { losing_ = losing_ || losing; }

 private:
  Descriptor socket_;
  Interface interface_;
  Bytes memory_;
  bool losing_ = false;  // the kernel said so (TP_STATUS_LOSING)
};

}  // namespace sluice::dlpi
