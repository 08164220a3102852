// SPDX-License-Identifier: Apache-2.0
#pragma once

// One bound, non-blocking UDP socket of the kernel: its options, its addresses, and the ICMP errors that the kernel
// queues for it. Sending and receiving are in udp_sender.h and udp_receiver.h.
//
// A socket on the IPv6 address `::` serves IPv4, too (tpi/socket_address.h).
//
// Ownership: owns the descriptor; move-only. Threads: one.

#include <cstddef>
#include <optional>

#include "base/result.h"
#include "stack/wire/address.h"
#include "tpi/socket_address.h"

namespace sluice::tpi {

class UdpSocket {
 public:
  struct Options {
    bool gso = true;       // send several datagrams of one size in one call, where the kernel can
    bool gro = true;       // receive so
    bool fragment = true;  // let IP fragment; else refuse what is larger than the interface's MTU
    std::size_t receive_buffer_bytes = std::size_t{4} << 20;
    std::size_t send_buffer_bytes = std::size_t{4} << 20;
  };

  /// What an ICMP message said of a datagram sent earlier.
  struct QueuedError {
    wire::TransportAddress destination;
    int code = 0;  // errno
  };

  /// Opens and binds; port 0 asks the kernel for a free one. The error has the errno of the call that failed.
  [[nodiscard]] static Result<UdpSocket> bind(const wire::TransportAddress& local, const Options& options);

  UdpSocket(UdpSocket&& other) noexcept;
  UdpSocket& operator=(UdpSocket&& other) = delete;
  ~UdpSocket();

  [[nodiscard]] int descriptor() const { return descriptor_; }
  /// The value of IP_MTU_DISCOVER and IPV6_MTU_DISCOVER.
  [[nodiscard]] static int path_mtu_discovery(bool fragment);
  /// The address it is bound to, with the port that it really has.
  [[nodiscard]] const wire::TransportAddress& local() const { return local_; }
  [[nodiscard]] bool dual_stack() const { return local_.address.is_v6() && local_.address.is_unspecified(); }
  /// Whether the kernel segments (UDP_SEGMENT) and coalesces (UDP_GRO) for this socket.
  [[nodiscard]] bool segments() const { return segments_; }
  [[nodiscard]] bool coalesces() const { return coalesces_; }

  /// Bytes of user data that wait here at least before datagrams are lost.
  [[nodiscard]] std::size_t receive_room() const;

  /// `address` as this socket's family has it; nothing where the socket cannot send there.
  [[nodiscard]] std::optional<SocketAddress> socket_address(const wire::TransportAddress& address) const;

  /// The next error that an ICMP message has caused; nothing when there is none.
  [[nodiscard]] std::optional<QueuedError> take_error() const;

 private:
  explicit UdpSocket(int descriptor) : descriptor_(descriptor) {}
  [[nodiscard]] bool enable(int level, int option, int value = 1) const;
  void configure(bool v6, const Options& options);

  int descriptor_ = -1;
  wire::TransportAddress local_;
  bool segments_ = false;
  bool coalesces_ = false;
};

}  // namespace sluice::tpi
