// SPDX-License-Identifier: Apache-2.0
#include "tpi/udp_socket.h"

#include <linux/errqueue.h>
#include <netinet/udp.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

namespace sluice::tpi {
namespace {

/// The error of the datagram that `message` of the error queue is about, if an ICMP message caused it. Errors that this
/// host found itself were already told to whoever sent.
std::optional<int> icmp_error(msghdr& message) {
  for (cmsghdr* part = CMSG_FIRSTHDR(&message); part != nullptr; part = CMSG_NXTHDR(&message, part)) {
    const bool v4 = part->cmsg_level == IPPROTO_IP && part->cmsg_type == IP_RECVERR;
    const bool v6 = part->cmsg_level == IPPROTO_IPV6 && part->cmsg_type == IPV6_RECVERR;
    if (!v4 && !v6) {
      continue;
    }
    sock_extended_err error;
    std::memcpy(&error, CMSG_DATA(part), sizeof error);
    if (error.ee_origin == SO_EE_ORIGIN_ICMP || error.ee_origin == SO_EE_ORIGIN_ICMP6) {
      return static_cast<int>(error.ee_errno);
    }
  }
  return std::nullopt;
}

}  // namespace

UdpSocket::UdpSocket(UdpSocket&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)),
      local_(other.local_),
      segments_(other.segments_),
      coalesces_(other.coalesces_) {}

UdpSocket::~UdpSocket() {
  if (descriptor_ >= 0) {
    ::close(descriptor_);
  }
}

bool UdpSocket::enable(int level, int option, int value) const {
  return ::setsockopt(descriptor_, level, option, &value, sizeof value) == 0;
}

/// The kernel charges a datagram what its buffers take: 2,304 bytes for one of 1,472, and 4,352 where a device receives
/// each into a page of its own.
std::size_t UdpSocket::receive_room() const {
  int bytes = 0;
  socklen_t size = sizeof bytes;
  const bool known = ::getsockopt(descriptor_, SOL_SOCKET, SO_RCVBUF, &bytes, &size) == 0 && bytes > 0;
  return known ? static_cast<std::size_t>(bytes) / 4 : 0;
}

/// WANT, not the system's default: datagrams carry "don't fragment" while the path MTU is being found, and larger ones
/// are fragmented here. PROBE: all carry it, whatever ICMP messages have said of the path, so that who searches for the
/// path MTU can (RFC 8899); EMSGSIZE refuses those larger than the interface's MTU.
int UdpSocket::path_mtu_discovery(bool fragment) {
  static_assert(int{IP_PMTUDISC_WANT} == int{IPV6_PMTUDISC_WANT} && int{IP_PMTUDISC_PROBE} == int{IPV6_PMTUDISC_PROBE});
  return fragment ? int{IP_PMTUDISC_WANT} : int{IP_PMTUDISC_PROBE};
}

void UdpSocket::configure(bool v6, const Options& options) {
  set_buffer(descriptor_, SO_RCVBUF, options.receive_buffer_bytes);
  set_buffer(descriptor_, SO_SNDBUF, options.send_buffer_bytes);
  // Kernels since 2.6.33 know all of these; where one is missing, only the report that it brings is.
  static_cast<void>(enable(SOL_SOCKET, SO_RXQ_OVFL));
  static_cast<void>(enable(IPPROTO_IP, IP_RECVERR));
  static_cast<void>(enable(IPPROTO_IP, IP_MTU_DISCOVER, path_mtu_discovery(options.fragment)));
  if (v6) {
    static_cast<void>(enable(IPPROTO_IPV6, IPV6_RECVERR));
    static_cast<void>(enable(IPPROTO_IPV6, IPV6_MTU_DISCOVER, path_mtu_discovery(options.fragment)));
  }
  // A segment size of zero is no segmentation: setting it only asks whether the kernel knows the option.
  segments_ = options.gso && enable(IPPROTO_UDP, UDP_SEGMENT, 0);
  coalesces_ = options.gro && enable(IPPROTO_UDP, UDP_GRO);
}

Result<UdpSocket> UdpSocket::bind(const wire::TransportAddress& local, const Options& options) {
  const bool v6 = local.address.is_v6();
  UdpSocket socket(::socket(v6 ? AF_INET6 : AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_UDP));
  if (socket.descriptor_ < 0) {
    return fail(errno);
  }
  if (v6 && !socket.enable(IPPROTO_IPV6, IPV6_V6ONLY, local.address.is_unspecified() ? 0 : 1)) {
    return fail(errno);
  }
  socket.configure(v6, options);
  SocketAddress address = socket_address_of(local, v6);
  if (::bind(socket.descriptor_, &address.generic, address.size) != 0 ||
      ::getsockname(socket.descriptor_, &address.generic, &address.size) != 0) {
    return fail(errno);
  }
  socket.local_ = transport_address(address);
  return socket;
}

std::optional<SocketAddress> UdpSocket::socket_address(const wire::TransportAddress& address) const {
  if (local_.address.is_v4()) {
    return address.address.is_v4() ? std::optional(socket_address_of(address, false)) : std::nullopt;
  }
  if (address.address.is_v4() && !dual_stack()) {
    return std::nullopt;
  }
  return socket_address_of(address, true);
}

std::optional<UdpSocket::QueuedError> UdpSocket::take_error() const {
  constexpr int skipped_max = 64;
  for (int skipped = 0; skipped < skipped_max; ++skipped) {
    SocketAddress destination;
    alignas(cmsghdr) std::array<std::byte, 256> control;
    msghdr message{};
    message.msg_name = &destination.generic;
    message.msg_namelen = sizeof destination.v6;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    if (::recvmsg(descriptor_, &message, MSG_ERRQUEUE | MSG_DONTWAIT) < 0) {
      return std::nullopt;
    }
    destination.size = message.msg_namelen;
    if (const std::optional<int> code = icmp_error(message)) {
      return QueuedError{transport_address(destination), *code};
    }
  }
  return std::nullopt;
}

}  // namespace sluice::tpi
