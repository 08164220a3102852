// SPDX-License-Identifier: Apache-2.0
#include "tpi/tcp_options.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "stack/wire/connection_info.h"
#include "tpi/socket_address.h"

namespace sluice::tpi {
namespace {

using provider::Setting;

constexpr int seconds_per_minute = 60;

struct TcpOption {
  int level;
  int name;
};

/// Nothing: there is no such option of a TCP socket. Of keep-alive it is the time; SO_KEEPALIVE switches it.
std::optional<TcpOption> tcp_option_of(Setting setting) {
  switch (setting) {
    case Setting::ttl:
      return TcpOption{IPPROTO_IP, IP_TTL};
    case Setting::type_of_service:
      return TcpOption{IPPROTO_IP, IP_TOS};
    case Setting::hops:
      return TcpOption{IPPROTO_IPV6, IPV6_UNICAST_HOPS};
    case Setting::no_delay:
      return TcpOption{IPPROTO_TCP, TCP_NODELAY};
    case Setting::segment_bytes:
      return TcpOption{IPPROTO_TCP, TCP_MAXSEG};
    case Setting::keep_alive:
      return TcpOption{IPPROTO_TCP, TCP_KEEPIDLE};
    case Setting::keep_idle:
      return TcpOption{IPPROTO_TCP, TCP_KEEPIDLE};
    case Setting::keep_interval:
      return TcpOption{IPPROTO_TCP, TCP_KEEPINTVL};
    case Setting::keep_count:
      return TcpOption{IPPROTO_TCP, TCP_KEEPCNT};
    case Setting::segment_limit:
      return TcpOption{IPPROTO_TCP, TCP_MAXSEG};
    case Setting::receive_buffer:
      return TcpOption{SOL_SOCKET, SO_RCVBUF};
    case Setting::send_buffer:
      return TcpOption{SOL_SOCKET, SO_SNDBUF};
    default:
      return std::nullopt;
  }
}

std::optional<int> read(int descriptor, int level, int name) {
  int value = 0;
  socklen_t size = sizeof value;
  return ::getsockopt(descriptor, level, name, &value, &size) == 0 ? std::optional(value) : std::nullopt;
}

bool write(int descriptor, int level, int name, int value) {
  return ::setsockopt(descriptor, level, name, &value, sizeof value) == 0;
}

/// What a socket has. socket(7), SO_RCVBUF: "The kernel doubles this value (to allow space for bookkeeping overhead)
/// [...], and this doubled value is returned by getsockopt(2)."
std::optional<std::uint32_t> value_in(int descriptor, Setting setting) {
  const auto option = tcp_option_of(setting);
  const auto value = option ? read(descriptor, option->level, option->name) : std::nullopt;
  if (!value) {
    return std::nullopt;
  }
  if (setting == Setting::keep_alive) {
    const bool on = read(descriptor, SOL_SOCKET, SO_KEEPALIVE).value_or(0) != 0;
    return on ? static_cast<std::uint32_t>(*value / seconds_per_minute) : 0;
  }
  return static_cast<std::uint32_t>(is_buffer(setting) ? *value / 2 : *value);
}

bool apply(int descriptor, Setting setting, std::uint32_t value) {
  const auto option = tcp_option_of(setting);
  if (!option) {
    return false;
  }
  if (is_buffer(setting)) {
    set_buffer(descriptor, option->name, value);
    return true;
  }
  if (setting != Setting::keep_alive) {
    return write(descriptor, option->level, option->name, static_cast<int>(value));
  }
  const int seconds = static_cast<int>(value) * seconds_per_minute;
  return write(descriptor, SOL_SOCKET, SO_KEEPALIVE, value != 0 ? 1 : 0) &&
         (value == 0 || write(descriptor, option->level, option->name, seconds));
}

/// What a socket has that nobody has changed, or with `value`.
std::optional<std::uint32_t> value_in_a_new_socket(Setting setting, std::optional<std::uint32_t> value) {
  const int family = setting == Setting::hops ? AF_INET6 : AF_INET;
  const int descriptor = ::socket(family, SOCK_STREAM | SOCK_CLOEXEC, IPPROTO_TCP);
  if (descriptor < 0) {
    return std::nullopt;
  }
  if (value) {
    static_cast<void>(apply(descriptor, setting, *value));
  }
  const auto found = value_in(descriptor, setting);
  ::close(descriptor);
  return found;
}

}  // namespace

std::optional<std::uint32_t> TcpOptions::current(Setting setting) {
  const auto wanted = set_[static_cast<std::size_t>(setting)];
  const bool here = descriptor_ >= 0 && (setting != Setting::hops || v6_);
  return here ? value_in(descriptor_, setting) : value_in_a_new_socket(setting, wanted);
}

std::optional<std::uint32_t> TcpOptions::initial(Setting setting) {
  return value_in_a_new_socket(setting, std::nullopt);
}

bool TcpOptions::set(Setting setting, std::uint32_t value) {
  const bool here = descriptor_ >= 0 && (setting != Setting::hops || v6_);
  const bool done = !here || apply(descriptor_, setting, value);
  if (done) {
    set_[static_cast<std::size_t>(setting)] = value;
  }
  return done;
}

int TcpOptions::tell_connection(Bytes place) const {
  wire::ConnectionInfo info;
  if (place.size() != sizeof info) {
    return EINVAL;
  }
  tcp_info kernel{};
  socklen_t size = sizeof kernel;
  if (descriptor_ < 0 || ::getsockopt(descriptor_, IPPROTO_TCP, TCP_INFO, &kernel, &size) != 0) {
    return ENOTCONN;
  }
  info.state = kernel.tcpi_state;
  info.segment_bytes = kernel.tcpi_snd_mss;
  info.peer_segment_bytes = kernel.tcpi_rcv_mss;
  info.round_trip_us = kernel.tcpi_rtt;
  info.round_trip_variation_us = kernel.tcpi_rttvar;
  info.timeout_us = kernel.tcpi_rto;
  info.options = kernel.tcpi_options;
  info.send_scale = kernel.tcpi_snd_wscale;
  info.receive_scale = kernel.tcpi_rcv_wscale;
  info.congestion_window = std::uint64_t{kernel.tcpi_snd_cwnd} * kernel.tcpi_snd_mss;
  info.unacknowledged = std::uint64_t{kernel.tcpi_unacked} * kernel.tcpi_snd_mss;
  info.segments_again = kernel.tcpi_total_retrans;
  std::memcpy(place.data(), &info, sizeof info);
  return 0;
}

void TcpOptions::attach(int descriptor, bool v6) {
  descriptor_ = descriptor;
  v6_ = v6;
  for (std::size_t at = 0; at < set_.size(); ++at) {
    if (set_[at] && (static_cast<Setting>(at) != Setting::hops || v6)) {
      static_cast<void>(apply(descriptor, static_cast<Setting>(at), *set_[at]));
    }
  }
}

}  // namespace sluice::tpi
