// SPDX-License-Identifier: Apache-2.0
#pragma once

// Hands a burst of datagrams to the kernel with few system calls and no copy: the iovecs show where the data lies, in
// the messages' blocks or still in the user's memory.
//
// All datagrams of a burst go in one sendmmsg. Where the kernel segments (GSO, UDP_SEGMENT), consecutive datagrams of
// one size to one destination become one entry of it, a run, which the kernel takes through its stack once:
//
//     messages   1400 1400 1400 600 | 1400 1400 | 0 | 9000      (| other destination, or other size)
//     entries    [ run, segment 1400 ] [ run ]  [0] [9000]       a shorter datagram may end a run
//
// A segmented message is a run from the start. What leaves otherwise than the socket says (wire::network::Sending)
// brings that as control messages, and is in no run with what does not.
//
// The kernel refuses a run whose segments do not fit the path MTU, and some devices cannot do it. The run is then sent
// as plain datagrams, and so are some more after it, twice as many each time that it happens again in a row. A
// segmented message is for the caller to take apart.
//
// Ownership: owns the messages until the kernel has them. Threads: one.

#include <sys/socket.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "stack/core/message.h"
#include "stack/wire/network.h"
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
    blocked,  // it takes no more now: the first that is left is in front
    failed,   // it refused the first, or told of an earlier datagram's error: see error()
    no_run,   // the first is a segmented message, which it does not take as one
  };

  explicit UdpSender(SendCall call = ::sendmmsg) : call_(call) {}

  void enable_segmentation(bool enabled) { segmentation_ = enabled; }

  [[nodiscard]] bool empty() const { return next_ == count_; }
  [[nodiscard]] bool has_room() const { return count_ < burst_datagrams_max; }
  /// Whether the kernel is asked to take what is added next as a run.
  [[nodiscard]] bool sends_runs() const { return segmentation_ && count_ - next_ >= plain_left_; }
  /// Adds the data of `message`, to which nothing is owed but the copy from the user's memory: a datagram or, where
  /// `segment` is not 0, several of that size, the last perhaps shorter. REQUIRES: had room before the message was
  /// taken apart; the data lies in iovecs_max pieces at most; sends_runs() and fits_run() for several. Of `how`,
  /// source, hop limit and traffic class count. REQUIRES: the source is of the destination's family.
  void add(Message message, const SocketAddress& destination, std::uint16_t segment = 0,
           const wire::network::Sending& how = {});
  [[nodiscard]] static bool fits_run(std::size_t bytes, std::size_t segment) {
    return bytes <= run_bytes_max && bytes <= run_datagrams_max * segment;
  }

  /// Sends until all is done or the caller must decide.
  [[nodiscard]] Progress send(int descriptor);
  /// errno of the last failure.
  [[nodiscard]] int error() const { return error_; }

  /// Takes the first, or the last, message that is left. REQUIRES: !empty().
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
  struct Datagram {  // or several, where segment is not 0
    Message message;
    SocketAddress destination;
    wire::network::Sending how;
    std::size_t bytes = 0;
    std::size_t pieces = 0;
    std::uint16_t segment = 0;
  };
  struct Entry {
    std::size_t messages = 0;
    std::size_t datagrams = 0;
    std::size_t bytes = 0;
  };
  /// A burst, and behind its last message what becomes of it when it is taken apart.
  static constexpr std::size_t messages_max = burst_datagrams_max + run_datagrams_max;
  struct alignas(cmsghdr) Control {
    std::array<std::byte,
               CMSG_SPACE(sizeof(std::uint16_t)) + 2 * CMSG_SPACE(sizeof(int)) + CMSG_SPACE(sizeof(in6_pktinfo))>
        bytes;
  };

  std::size_t describe(const Message& message, std::span<iovec> out);
  void build_entries();
  void begin_entry(Datagram& datagram);
  void append(const Datagram& datagram);
  [[nodiscard]] bool joins_last(const Datagram& datagram) const;
  template <class Value>
  void attach(std::size_t entry, int level, int type, const Value& value);
  void attach_options(std::size_t entry, const Datagram& datagram);
  [[nodiscard]] bool refused_run() const;
  void send_plainly();
  void retire(std::size_t entries);

  SendCall call_;
  bool segmentation_ = false;
  int error_ = 0;
  std::size_t next_ = 0;
  std::size_t count_ = 0;
  std::size_t plain_left_ = 0;  // messages that go without segmentation, from next_ on
  std::size_t plain_after_refusal_ = run_datagrams_max;
  std::size_t entry_count_ = 0;
  std::size_t iovec_count_ = 0;
  std::array<Datagram, messages_max> datagrams_;
  std::array<Entry, messages_max> entries_;
  std::array<mmsghdr, messages_max> headers_{};
  std::array<Control, messages_max> controls_{};
  std::array<iovec, iovecs_max> iovecs_;
  std::array<ConstBytes, iovecs_max> runs_;  // as Message::runs() tells them
  Statistics statistics_;
};

}  // namespace sluice::tpi
