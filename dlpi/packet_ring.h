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
// holds one frame of the interface's MTU. Of a super-frame it has the beginning, and the whole waits in the socket's
// queue (PACKET_COPY_THRESH), from where next() copies it: that costs a system call and a copy each, and what the
// socket's buffer has no room for comes truncated.
//
// A block, or a slot: a unit of the ring. Units are read in order and given back in order:
//
//     ... kernel's │ read, lent from ... │ being read │ handed over ... │ kernel's ...
//                  ▲ oldest_             ▲ reading_
//
// Lending. A frame is valid until the next one is asked for; lend() makes a message that shows it where it lies, for as
// long as that message lives. Its unit stays ours for so long, and with it those after it. That has a price: the socket
// stays readable while the unit filled last is ours, so that a run loop would spin, and the ring stalls where it wraps.
// Hence what is lent can be recalled at any time: recall() moves what the message shows to memory of its own
// (BufferPool::reclaim). Whoever finds the socket readable and nothing to read recalls everything. The ring itself
// recalls what has fallen too far behind, so that at least half of it is the kernel's or unread; and all when it ends.
//
// Threat: a lent frame is bytes from outside, in memory shared with the kernel. The kernel does not write to a unit
// that is ours, so that what was checked stays checked; what it says of places in a unit (tp_mac, tp_next_offset) is
// trusted.
//
// Ownership: owns socket and mapping. Lent messages may outlive it; the pool must not end before. Threads: as its
// stream set.

#include <array>
#include <memory>
#include <optional>
#include <vector>

#include "base/bytes.h"
#include "base/descriptor.h"
#include "base/result.h"
#include "dlpi/interface.h"
#include "dlpi/offload.h"
#include "dlpi/packet_filter.h"
#include "stack/core/message.h"

namespace sluice::dlpi {

class PacketRing {
 public:
  enum class Kind : std::uint8_t { by_block, by_frame };

  static constexpr std::size_t block_bytes = std::size_t{128} << 10;  // holds the largest super-frame
  static constexpr unsigned block_timeout_ms = 1;

  /// Frames that may be lent at once. Those beyond are the caller's to copy.
  static constexpr std::size_t loans_max = 256;

  struct Frame {
    Bytes bytes;  // in the ring, ours to write; valid until next() or readable() is called
    OffloadHeader offload;
    std::size_t size = 0;      // of all of it
    bool tagged = false;       // the kernel took off a VLAN tag that is not a priority tag
    bool tag_removed = false;  // the kernel took off a tag
    [[nodiscard]] bool truncated() const { return bytes.size() < size; }
    /// Only its first bytes came, since no stream wants it.
    [[nodiscard]] bool unwanted() const { return truncated() && bytes.size() == unwanted_bytes; }
  };

  [[nodiscard]] static Result<std::unique_ptr<PacketRing>> open(const Interface& interface, Kind kind,
                                                                std::size_t ring_bytes);
  virtual ~PacketRing();
  PacketRing(const PacketRing&) = delete;
  PacketRing& operator=(const PacketRing&) = delete;

  [[nodiscard]] int descriptor() const { return socket_.get(); }
  /// Whether the kernel has handed over more. The frame that next() gave ends here, unless it is lent.
  [[nodiscard]] virtual bool readable() = 0;
  [[nodiscard]] virtual std::optional<Frame> next() = 0;
  /// A message that shows `frame` where it lies. Empty when that is not the ring, as many are lent as may be, or the
  /// pool is exhausted. REQUIRES: next() gave `frame` last.
  [[nodiscard]] Message lend(BufferPool& pool, const Frame& frame);
  /// Ends all loans: the messages that are left have their bytes to themselves.
  void recall() { recall_before(reading_.number + 1); }
  [[nodiscard]] std::size_t lent() const { return lent_; }
  /// Frames that the kernel has dropped since this was last asked. All of them are known once the ring has been found
  /// empty: it is asked where it says so (TP_STATUS_LOSING), and where the ring may have been full since it was empty;
  /// and in any case if `always`.
  [[nodiscard]] std::uint64_t take_drops(bool always);
  /// Bytes of frames that wait here at least while nothing is read: half of the ring may be lent, and units are given
  /// back half full.
  [[nodiscard]] virtual std::size_t room() const { return memory_.size() / 4; }
  /// The error that the socket holds, or 0; the next call finds none. While it is there the socket counts as ready, to
  /// read and to write: "the interface went down" (ENETDOWN) stands until somebody has asked, and even when it is up
  /// again.
  [[nodiscard]] int take_error();

  /// What comes from now on. Threat: a flood of frames that only their headers come of takes room in the ring as any
  /// other does, if less, but no memory of the pool, and no stream's.
  Status accept_only(const PacketFilterRules& rules);

 protected:
  /// How the ring is divided, and where in a unit the word is through which it is handed over.
  struct Layout {
    std::size_t unit_bytes;
    std::size_t status_offset;
  };

  PacketRing(Descriptor socket, const Interface& interface, Bytes memory, const Layout& layout);

  /// The unit that is being read, or next to be.
  [[nodiscard]] std::byte* unit() const { return memory_.data() + reading_.place * layout_.unit_bytes; }
  [[nodiscard]] bool handed_over() const;
  /// That unit has been read.
  void finish_unit();
  void set_losing(bool losing) { losing_ = losing_ || losing; }

 private:
  /// Units are counted on and on, and lie one after the other in the ring.
  struct Unit {
    std::uint64_t number = 0;
    std::size_t place = 0;  // number % units()
  };
  struct Loan {
    PacketRing* ring = nullptr;
    Block* block = nullptr;  // nullptr: free
    Unit unit;
    Loan* next_free = nullptr;
  };

  [[nodiscard]] std::size_t units() const { return lent_from_.size(); }
  [[nodiscard]] std::uint32_t& status(const Unit& unit) const;
  void advance(Unit& unit) const;
  void give_back();
  void recall_before(std::uint64_t number);
  static void loan_ended(void* loan, ConstBytes memory);

  Descriptor socket_;
  Interface interface_;
  Bytes memory_;
  Layout layout_;
  bool losing_ = false;  // the kernel said so (TP_STATUS_LOSING)
  // The number of oldest_ when the ring was last found empty. Only a ring of which every unit is ours or unread makes
  // the kernel drop; what it has then handed over reaches that far.
  std::uint64_t oldest_when_empty_ = 0;
  Unit oldest_;  // not given back
  Unit reading_;
  std::vector<std::uint16_t> lent_from_;  // frames, by place
  std::array<Loan, loans_max> loans_;
  Loan* free_loans_ = nullptr;
  std::size_t lent_ = 0;
};

}  // namespace sluice::dlpi
