// SPDX-License-Identifier: Apache-2.0
#pragma once

// One queue of an interface, served by an AF_XDP socket. Frames lie in slots of memory shared with the kernel (umem);
// four rings of slot numbers say whose a slot is:
//
//                  fill                       receive
//       ours  ───────────────►  kernel  ───────────────────►  ours: read; copied from, or lent
//         ▲                                                     │
//         └────────────── freed, or recalled ◄──────────────────┘
//                 transmit                   completion
//       ours  ───────────────►  kernel  ───────────────────►  ours
//
// Receiving and sending have slots of their own, so that neither can starve the other.
//
// Lending. A frame is valid until the next one is asked for; lend() makes a message that shows it where it lies, for as
// long as that message lives. Unlike a packet socket's ring (dlpi/packet_ring.h) slots come back in any order, and a
// slot that is held keeps nothing else from being read; it is only one less for the kernel. Half of the slots, at most
// loans_max, may be lent; a frame beyond that recalls the quarter of those that was lent first (BufferPool::reclaim).
//
// Threat: a lent frame is bytes from outside, in memory shared with the kernel. The kernel writes only to slots that
// the fill ring gave it, so that what was checked stays checked. What comes out of its rings is checked all the same
// before it is used: a place outside the receiving slots, or a slot that is not the kernel's, is no frame, but counts
// as dropped; what was not sent is not completed.
//
// Sending. A frame is copied into a slot. Where the device has no zero copy, the kernel sends in our system call,
// and copies once more. It wants to be woken only when it says so (XDP_USE_NEED_WAKEUP).
//
// Ownership: owns socket and memory. Lent messages may outlive it; the pool must not end before. Threads: as its
// stream set.

#include <xdp/xsk.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "dlpi/interface.h"
#include "stack/core/message.h"

namespace sluice::dlpi {

class XdpQueue {
 public:
  static constexpr std::size_t slot_bytes = 4096;  // a page: the kernel takes no larger ones without huge pages
  /// What a slot holds: in front of the frame the kernel keeps XDP_PACKET_HEADROOM for programs.
  static constexpr std::size_t frame_bytes_max = slot_bytes - 256;
  static constexpr std::size_t loans_max = 256;
  static constexpr std::size_t batch_frames_max = 64;
  static constexpr std::size_t send_slots_min = 8;  // the kernel wants the rings in any case

  enum class Copies : std::uint8_t { as_the_kernel_chooses, always, never };

  struct Options {
    unsigned queue = 0;
    std::size_t receive_slots = 2048;  // a power of two
    std::size_t send_slots = 512;      // likewise
    Copies copies = Copies::as_the_kernel_chooses;
  };

  [[nodiscard]] static Result<std::unique_ptr<XdpQueue>> open(const Interface& interface, const Options& options);
  ~XdpQueue();
  XdpQueue(const XdpQueue&) = delete;
  XdpQueue& operator=(const XdpQueue&) = delete;

  [[nodiscard]] int descriptor() const { return xsk_socket__fd(socket_); }
  /// Whether the device reads and writes the slots itself.
  [[nodiscard]] bool zero_copy() const;

  // ---- Receiving ----

  /// Whether there is a frame. The frame that next() gave ends here, unless it is lent.
  [[nodiscard]] bool readable();
  /// The next frame: ours to write, valid until next() or readable() is called.
  [[nodiscard]] std::optional<Bytes> next();
  /// A message that shows `frame` where it lies; empty when the pool is exhausted. REQUIRES: next() gave `frame` last.
  [[nodiscard]] Message lend(BufferPool& pool, Bytes frame);
  /// Ends all loans: the messages that are left have their bytes to themselves.
  void recall() { recall_all_but(0); }
  [[nodiscard]] std::size_t lent() const { return lent_; }
  /// Frames that the kernel has dropped since this was last asked, and invalid ones. Asked only where it may have: when
  /// it has been found without slots, or if `always`.
  [[nodiscard]] std::uint64_t take_drops(bool always);
  /// The error that the socket holds, or 0; the next call finds none.
  [[nodiscard]] int take_error();

  // ---- Sending ----

  struct Sent {
    std::size_t frames = 0;
    std::size_t bytes = 0;
    std::size_t refused = 0;  // for good: freed
  };
  /// Takes frames from the front until no slot is free.
  [[nodiscard]] Sent send(Batch& frames);
  /// Whether the kernel still has frames to send, or to say that it has: continue_sending() is to be called soon.
  [[nodiscard]] bool sending() const { return free_send_slots_.size() < options_.send_slots; }
  /// Wakes the kernel and takes back the slots of what has gone. Answers how many frames the device refused.
  std::size_t continue_sending();
  [[nodiscard]] bool has_send_slot() const { return !free_send_slots_.empty(); }

 private:
  enum class Owner : std::uint8_t { kernel, reader, reader_lent };

  struct Slot {
    XdpQueue* queue = nullptr;
    Block* block = nullptr;  // of the message that shows it
    Owner owner = Owner::kernel;
    Slot* older = nullptr;  // among those that are lent
    Slot* newer = nullptr;
  };

  XdpQueue(const Interface& interface, const Options& options);
  [[nodiscard]] static Result<std::unique_ptr<XdpQueue>> open_once(const Interface& interface, const Options& options);
  [[nodiscard]] Status bind();
  [[nodiscard]] std::size_t number_of(const Slot& slot) const {
    return static_cast<std::size_t>(&slot - slots_.data());
  }
  [[nodiscard]] std::size_t lent_max() const;
  void finish_frame();
  void finish_batch();
  void give_to_kernel(Slot& slot);
  void wake_receiver();
  void recall_all_but(std::size_t newest);
  static void loan_ended(void* slot, ConstBytes memory);
  void take_completions();

  Interface interface_;
  Options options_;
  Bytes memory_;
  xsk_umem* umem_ = nullptr;
  xsk_socket* socket_ = nullptr;
  xsk_ring_prod fill_{};
  xsk_ring_cons completion_{};
  xsk_ring_cons receive_{};
  xsk_ring_prod transmit_{};

  std::vector<Slot> slots_;       // for receiving: the first ones
  std::uint32_t batch_at_ = 0;    // in the receive ring
  std::uint32_t batch_size_ = 0;  // of which we have been told,
  std::uint32_t batch_read_ = 0;  // and have read
  Slot* reading_ = nullptr;       // whose frame next() gave
  Slot* oldest_ = nullptr;
  Slot* newest_ = nullptr;
  std::size_t lent_ = 0;
  bool starved_ = false;  // the kernel has been without slots
  std::uint64_t drops_ = 0;
  std::uint64_t invalid_ = 0;

  std::vector<std::uint64_t> free_send_slots_;  // places in the memory
  std::vector<bool> under_way_;                 // by number, behind the receiving slots
};

}  // namespace sluice::dlpi
