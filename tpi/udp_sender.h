// SPDX-License-Identifier: Apache-2.0
#pragma once

// Hands a burst of datagrams to the kernel with few system calls and no copy: the messages' data blocks are the iovecs.
//
// All datagrams of a burst go in one sendmmsg. Where the kernel segments (GSO, UDP_SEGMENT), consecutive datagrams of
// one size to one destination become one entry of it, a run, which the kernel takes through its stack once:
//
//     messages   1400 1400 1400 600 | 1400 1400 | 0 | 9000      (| other destination, or other size)
//     entries    [ run, segment 1400 ] [ run ]  [0] [9000]       a shorter datagram may end a run
//
// The kernel refuses a run whose segments do not fit the path MTU, and some devices cannot do it. The run is then sent
// as plain datagrams, and so are some more after it, twice as many each time that it happens again in a row.
//
// Ownership: owns the messages until the kernel has them. Threads: one.

#include <sys/socket.h>

#include <array>
#include <cstddef>
#include <cstdint>

#include "stack/core/message.h"
#include "tpi/udp_socket.h"

namespace sluice::tpi {

class UdpSender {
 public:
  static constexpr std::size_t burst_datagrams_max = 128;
  static constexpr std::size_t iovecs_max = 1024;       // UIO_MAXIOV, of one entry; and here of one call
  static constexpr std::size_t run_datagrams_max = 64;  // UDP_MAX_SEGMENTS of the kernels since 4.18
  static constexpr std::size_t run_bytes_max = 65487;   // fits an IPv4 and an IPv6 packet
  static constexpr std::size_t plain_after_refusal_max = 65536;

  /// sendmmsg, or what a test puts in its place.
  using SendCall = int (*)(int descriptor, mmsghdr* entries, unsigned count, int flags);

  enum class Progress : std::uint8_t {
    done,     // the kernel has all of them
    blocked,  // it takes no more now: front() is the first that is left
    failed,   // it refused front(), or told of an earlier datagram's error: see error()
  };

  explicit UdpSender(SendCall call = ::sendmmsg) : call_(call) {}

  void enable_segmentation(bool enabled) { segmentation_ = enabled; }

  [[nodiscard]] bool empty() const { return next_ == count_; }
  [[nodiscard]] bool has_room() const { return count_ < burst_datagrams_max; }
  /// Adds a datagram: the data blocks of `message`. REQUIRES: has_room(); at most iovecs_max of its blocks hold data.
  void add(Message message, const SocketAddress& destination);

  /// Sends until all is done or the caller must decide.
  [[nodiscard]] Progress send(int descriptor);
  /// errno of the last failure.
  [[nodiscard]] int error() const { return error_; }

  /// The first datagram that is left. REQUIRES: !empty().
  [[nodiscard]] const Message& front() const { return datagrams_[next_].message; }
  /// Takes the first, or the last, datagram that is left. REQUIRES: !empty().
  [[nodiscard]] Message take_front();
  [[nodiscard]] Message take_back();
  void clear();

  struct Statistics {
    std::uint64_t datagrams = 0;  // the kernel has taken
    std::uint64_t calls = 0;
    std::uint64_t runs = 0;  // entries of two datagrams or more
    std::uint64_t refused_runs = 0;
  };
  [[nodiscard]] const Statistics& statistics() const { return statistics_; }

 private:
  struct Datagram {
    Message message;
    SocketAddress destination;
    std::size_t bytes = 0;
    std::size_t blocks = 0;  // that hold data
  };
  struct Entry {
    std::size_t datagrams = 0;
    std::size_t bytes = 0;
  };
  struct alignas(cmsghdr) Control {
    std::array<std::byte, CMSG_SPACE(sizeof(std::uint16_t))> bytes;
  };

  void build_entries();
  void begin_entry(Datagram& datagram);
  void append(const Datagram& datagram);
  [[nodiscard]] bool joins_last(const Datagram& datagram) const;
  void set_segment(std::size_t entry, std::uint16_t segment);
  [[nodiscard]] bool refused_run() const;
  void send_plainly();
  void retire(std::size_t entries);

  SendCall call_;
  bool segmentation_ = false;
  int error_ = 0;
  std::size_t next_ = 0;
  std::size_t count_ = 0;
  std::size_t plain_left_ = 0;  // datagrams that go without segmentation, from next_ on
  std::size_t plain_after_refusal_ = run_datagrams_max;
  std::size_t entry_count_ = 0;
  std::size_t iovec_count_ = 0;
  std::array<Datagram, burst_datagrams_max> datagrams_;
  std::array<Entry, burst_datagrams_max> entries_;
  std::array<mmsghdr, burst_datagrams_max> headers_{};
  std::array<Control, burst_datagrams_max> controls_{};  // the kernel reads the padding of a control message, too
  std::array<iovec, iovecs_max> iovecs_;
  Statistics statistics_;
};

}  // namespace sluice::tpi
