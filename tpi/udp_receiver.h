// SPDX-License-Identifier: Apache-2.0
#pragma once

// Takes bursts of datagrams from the kernel and makes T_UNITDATA_IND messages of them.
//
// Each slot of a burst is two pooled buffers, so that both a single datagram and all that the kernel has coalesced
// (GRO, UDP_GRO) can stay where the kernel put them:
//
//     iovecs    [ small: 2048 ] [ large: 2048 spare | 63488 ........................ ]
//
//     one datagram of 512 to 2048 bytes: the message shows the small buffer
//     more than 16 KiB: the first 2048 bytes move into the spare room of the large buffer, and each message shows its
//     part:
//
//     large     ┌ 1400 ┬ 1400 ┬ 1400 ┬ ... ┬ 600 ┐      one source, segment size 1400 in a control message
//                 │      │                   │
//     messages  [ind]─ [ind]─             [ind]─
//
// Where the stream takes segmented messages, it is one message instead, with the segment size in its T_UNITDATA_IND.
//
// Where the socket was asked to tell how a datagram came (SocketOptions), the T_UNITDATA_IND says so.
//
// Anything else fills less than a quarter of its buffer and is copied into one of the right size, so that a waiting
// datagram holds at most about four times its size of the pool.
//
// Ownership: owns its slots. Threads: one. REQUIRES: clear() before the pool ends.

#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <cstddef>
#include <cstdint>

#include "stack/core/message.h"
#include "stack/wire/data_unit.h"
#include "tpi/udp_socket.h"

namespace sluice::tpi {

class UdpReceiver {
 public:
  static constexpr std::size_t slots_max = 16;
  static constexpr std::size_t small_bytes = 2048;
  static constexpr std::size_t slot_bytes = 65536;
  /// A burst is to take so many bytes at most: they are still in the processor's second-level cache when somebody looks
  /// at them, and what he makes of them has room beside them. So as many slots are offered as hold that if they come as
  /// full as those of the burst before.
  static constexpr std::size_t burst_bytes = std::size_t{256} << 10;
  static constexpr std::size_t slots_min = burst_bytes / slot_bytes;
  /// A buffer that is filled to less than a quarter is not given away.
  static constexpr std::size_t sharing_divisor = 4;

  struct Outcome {
    bool more = false;  // the burst was full: more may be waiting
    int error = 0;      // errno where the kernel gave nothing; ENOBUFS when the pool is exhausted
  };

  struct Statistics {
    std::uint64_t datagrams = 0;
    std::uint64_t calls = 0;
    std::uint64_t coalesced = 0;     // datagrams that shared a slot
    std::uint64_t truncated = 0;     // larger than a slot: dropped
    std::uint64_t no_buffer = 0;     // dropped: the pool was exhausted
    std::uint64_t kernel_drops = 0;  // the socket's receive buffer was full
  };

  UdpReceiver() = default;
  UdpReceiver(const UdpReceiver&) = delete;
  UdpReceiver& operator=(const UdpReceiver&) = delete;

  /// Appends one burst to `batch`; `segmented`: what the kernel has coalesced stays one message.
  [[nodiscard]] Outcome receive(int descriptor, BufferPool& pool, bool segmented, Batch& batch);
  /// Frees the slots, for another socket.
  void clear();
  [[nodiscard]] const Statistics& statistics() const { return statistics_; }

 private:
  /// Room for UDP_GRO and SO_RXQ_OVFL, and for what T_UDP_RECEIVED asks of a socket that serves both families.
  struct alignas(cmsghdr) Control {
    std::array<std::byte,
               6 * CMSG_SPACE(sizeof(int)) + CMSG_SPACE(sizeof(in_pktinfo)) + CMSG_SPACE(sizeof(in6_pktinfo))>
        bytes;
  };

  struct Slot {
    Message small;
    Message large;
  };

  std::size_t prepare_slots(BufferPool& pool);
  [[nodiscard]] static bool fill_slot(Slot& slot, BufferPool& pool);
  void prepare_header(std::size_t slot);
  void deliver(std::size_t slot, BufferPool& pool, Batch& batch);
  void deliver_small(Message& small, std::size_t bytes, std::size_t segment, BufferPool& pool, Batch& batch);
  void deliver_large(Slot& slot, std::size_t bytes, std::size_t segment, BufferPool& pool, Batch& batch);
  std::size_t read_control(msghdr& header, std::size_t bytes);
  void read_arrival(const cmsghdr& part);
  void note_kernel_drops(std::uint32_t total);
  void deliver_copied(ConstBytes bytes, std::size_t segment, BufferPool& pool, Batch& batch);
  void deliver_shared(Message data, std::size_t segment, Batch& batch);
  void push(Message data, std::size_t size, std::size_t segment, Batch& batch);

  std::array<Slot, slots_max> slots_;
  std::array<SocketAddress, slots_max> sources_;
  std::array<Control, slots_max> controls_;
  std::array<std::array<iovec, 2>, slots_max> iovecs_;
  std::array<mmsghdr, slots_max> headers_{};
  wire::DataUnit arrival_;  // what is said of the datagrams that are being delivered
  bool segmented_ = false;
  std::size_t slots_offered_ = slots_max;  // to the next burst, as far as the pool has them
  std::uint32_t kernel_drops_seen_ = 0;
  Statistics statistics_;
};

}  // namespace sluice::tpi
