// SPDX-License-Identifier: Apache-2.0
#include "tpi/socket_options.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <functional>

#ifndef IPV6_MULTICAST_ALL
#define IPV6_MULTICAST_ALL 29  // <linux/in6.h>
#endif

namespace sluice::tpi {
namespace {

using provider::Membership;
using provider::Setting;

struct SocketOption {
  int level;
  int name;
  bool inverted = false;
};

SocketOption option_of(Setting setting) {
  switch (setting) {
    case Setting::ttl:
      return {IPPROTO_IP, IP_TTL};
    case Setting::type_of_service:
      return {IPPROTO_IP, IP_TOS};
    case Setting::broadcast:
      return {SOL_SOCKET, SO_BROADCAST};
    case Setting::multicast_ttl:
      return {IPPROTO_IP, IP_MULTICAST_TTL};
    case Setting::multicast_loop:
      return {IPPROTO_IP, IP_MULTICAST_LOOP};
    case Setting::hops:
      return {IPPROTO_IPV6, IPV6_UNICAST_HOPS};
    case Setting::multicast_hops:
      return {IPPROTO_IPV6, IPV6_MULTICAST_HOPS};
    case Setting::multicast_loop_v6:
      return {IPPROTO_IPV6, IPV6_MULTICAST_LOOP};
    case Setting::dont_fragment:
      return {IPPROTO_IP, IP_MTU_DISCOVER};
    case Setting::dont_fragment_v6:
      return {IPPROTO_IPV6, IPV6_MTU_DISCOVER};
    case Setting::receive_buffer:
      return {SOL_SOCKET, SO_RCVBUF};
    case Setting::send_buffer:
      return {SOL_SOCKET, SO_SNDBUF};
    default:
      return {SOL_SOCKET, SO_NO_CHECK, true};
  }
}

bool is_dont_fragment(Setting setting) {
  return setting == Setting::dont_fragment || setting == Setting::dont_fragment_v6;
}

bool is_of_tcp(Setting setting) {
  using enum Setting;
  return setting == no_delay || setting == segment_bytes || setting == keep_alive || setting == keep_idle ||
         setting == keep_interval || setting == keep_count || setting == segment_limit;
}

std::size_t index(Setting setting) { return static_cast<std::size_t>(setting); }

bool set_option(int descriptor, int level, int name, int value) {
  return ::setsockopt(descriptor, level, name, &value, sizeof value) == 0;
}

/// What a new socket has, after `prepare` if there is one.
std::optional<int> value_in_a_new_socket(const SocketOption& option, const std::function<void(int)>& prepare = {}) {
  const int descriptor =
      ::socket(option.level == IPPROTO_IPV6 ? AF_INET6 : AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, IPPROTO_UDP);
  if (descriptor < 0) {
    return std::nullopt;
  }
  if (prepare) {
    prepare(descriptor);
  }
  int value = 0;
  socklen_t size = sizeof value;
  const bool known = ::getsockopt(descriptor, option.level, option.name, &value, &size) == 0;
  ::close(descriptor);
  return known ? std::optional(value) : std::nullopt;
}

}  // namespace

/// Of a buffer it is what the system allows.
std::optional<std::uint32_t> SocketOptions::current(Setting setting) {
  if (is_of_tcp(setting)) {
    return std::nullopt;
  }
  const std::optional<std::uint32_t> wanted = set_[index(setting)];
  return !wanted ? initial(setting) : is_buffer(setting) ? buffer(setting, *wanted) : wanted;
}

/// What a socket has whose buffer is to have `bytes`. socket(7): "The kernel doubles this value (to allow space for
/// bookkeeping overhead) [...], and this doubled value is returned by getsockopt(2)."
std::optional<std::uint32_t> SocketOptions::buffer(Setting setting, std::size_t bytes) const {
  const SocketOption option = option_of(setting);
  const auto value = value_in_a_new_socket(option, [&](int descriptor) { set_buffer(descriptor, option.name, bytes); });
  return value ? std::optional(static_cast<std::uint32_t>(*value) / 2) : std::nullopt;
}

/// What a socket has that nobody has changed.
std::optional<std::uint32_t> SocketOptions::initial(Setting setting) {
  if (setting == Setting::received) {
    return 0;
  }
  if (is_dont_fragment(setting)) {
    return declared_.fragment ? 0 : 1;
  }
  if (is_buffer(setting)) {
    return buffer(setting,
                  setting == Setting::receive_buffer ? declared_.receive_buffer_bytes : declared_.send_buffer_bytes);
  }
  const SocketOption option = option_of(setting);
  const auto value = value_in_a_new_socket(option);
  if (!value) {
    return std::nullopt;
  }
  return static_cast<std::uint32_t>(option.inverted ? (*value == 0 ? 1 : 0) : *value);
}

bool SocketOptions::set(Setting setting, std::uint32_t value) {
  const bool done = apply(setting, value);
  if (done) {
    set_[index(setting)] = value;
  }
  return done;
}

/// True where there is nothing to set it on yet.
bool SocketOptions::apply(Setting setting, std::uint32_t value) const {
  if (setting == Setting::received) {
    return descriptor_ < 0 || apply_received(value != 0);
  }
  const SocketOption option = option_of(setting);
  if (descriptor_ >= 0 && is_buffer(setting)) {
    set_buffer(descriptor_, option.name, value);
    return true;
  }
  if (descriptor_ < 0 || (option.level == IPPROTO_IPV6 && !v6_)) {
    return true;
  }
  if (is_dont_fragment(setting)) {
    return set_option(descriptor_, option.level, option.name, UdpSocket::path_mtu_discovery(value == 0));
  }
  const int wanted = option.inverted ? (value == 0 ? 1 : 0) : static_cast<int>(value);
  return set_option(descriptor_, option.level, option.name, wanted);
}

/// A socket of IPv6 gets IPv4 datagrams, too, and tells of each as its family has it.
bool SocketOptions::apply_received(bool wanted) const {
  const int value = wanted ? 1 : 0;
  bool done = set_option(descriptor_, IPPROTO_IP, IP_PKTINFO, value) &&
              set_option(descriptor_, IPPROTO_IP, IP_RECVTTL, value) &&
              set_option(descriptor_, IPPROTO_IP, IP_RECVTOS, value);
  if (v6_) {
    done = done && set_option(descriptor_, IPPROTO_IPV6, IPV6_RECVPKTINFO, value) &&
           set_option(descriptor_, IPPROTO_IPV6, IPV6_RECVHOPLIMIT, value) &&
           set_option(descriptor_, IPPROTO_IPV6, IPV6_RECVTCLASS, value);
  }
  return done;
}

bool SocketOptions::join(const Membership& membership, bool check) {
  const bool joined = joined_.may_join(membership.group) && (check || apply(membership, true));
  if (joined && !check) {
    joined_.add(membership);
  }
  return joined;
}

bool SocketOptions::leave(const Membership& membership, bool check) {
  const bool left = joined_.has(membership.group) && (check || apply(membership, false));
  if (left && !check) {
    joined_.remove(membership.group);
  }
  return left;
}

bool SocketOptions::apply(const Membership& membership, bool join) const {
  if (descriptor_ < 0) {
    return true;
  }
  if (membership.group.is_v4()) {
    ip_mreq request{};
    std::memcpy(&request.imr_multiaddr, membership.group.bytes().data(), membership.group.size());
    std::memcpy(&request.imr_interface, membership.interface.bytes().data(), membership.interface.size());
    return ::setsockopt(descriptor_, IPPROTO_IP, join ? IP_ADD_MEMBERSHIP : IP_DROP_MEMBERSHIP, &request,
                        sizeof request) == 0;
  }
  ipv6_mreq request{};
  std::memcpy(&request.ipv6mr_multiaddr, membership.group.bytes().data(), membership.group.size());
  request.ipv6mr_interface = membership.interface_index;
  return ::setsockopt(descriptor_, IPPROTO_IPV6, join ? IPV6_JOIN_GROUP : IPV6_LEAVE_GROUP, &request, sizeof request) ==
         0;
}

/// What the kernel refuses now it could not refuse when it was asked for: that group is not joined.
void SocketOptions::attach(int descriptor, bool v6) {
  descriptor_ = descriptor;
  v6_ = v6;
  static_cast<void>(set_option(descriptor, IPPROTO_IP, IP_MULTICAST_ALL, 0));
  if (v6) {
    static_cast<void>(set_option(descriptor, IPPROTO_IPV6, IPV6_MULTICAST_ALL, 0));
  }
  for (std::size_t at = 0; at < set_.size(); ++at) {
    if (set_[at]) {
      static_cast<void>(apply(static_cast<Setting>(at), *set_[at]));
    }
  }
  const std::vector<Membership> wanted = joined_.all();
  for (const Membership& membership : wanted) {
    if (!apply(membership, true)) {
      joined_.remove(membership.group);
    }
  }
}

void SocketOptions::detach() {
  descriptor_ = -1;
  joined_.clear();
}

}  // namespace sluice::tpi
