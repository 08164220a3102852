// SPDX-License-Identifier: Apache-2.0
#include "sockets/server/endpoint_options.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <vector>

#include "sockets/server/quotas.h"
#include "tli/options.h"

namespace sluice::sockets {
namespace {

using namespace wire::xti;

struct Row {
  std::int32_t level;
  std::int32_t name;
  std::int32_t least;
  std::int32_t most;
  std::int32_t initial;
  std::uint32_t option_level;
  std::uint32_t option;
};

constexpr std::int32_t any = std::numeric_limits<std::int32_t>::max();
constexpr std::int32_t idle_seconds_initial = 7200;  // tcp(7)
constexpr auto buffer_bytes_max = static_cast<std::int32_t>(Quotas::buffer_bytes_max);
constexpr std::size_t keep_alive_row = 0;
constexpr std::size_t idle_row = 1;

constexpr auto rows = std::to_array<Row>({
    {SOL_SOCKET, SO_KEEPALIVE, 0, 1, 0, T_INET_TCP, T_TCP_KEEPALIVE},
    {IPPROTO_TCP, TCP_KEEPIDLE, 1, 32767, idle_seconds_initial, T_INET_TCP, T_TCP_KEEPIDLE},
    {IPPROTO_TCP, TCP_KEEPINTVL, 1, 32767, 75, T_INET_TCP, T_TCP_KEEPINTVL},
    {IPPROTO_TCP, TCP_KEEPCNT, 1, 127, 9, T_INET_TCP, T_TCP_KEEPCNT},
    {IPPROTO_TCP, TCP_NODELAY, 0, 1, 0, T_INET_TCP, T_TCP_NODELAY},
    {IPPROTO_TCP, TCP_MAXSEG, 88, 32767, 0, T_INET_TCP, T_TCP_MAXSEG_LIMIT},
    {SOL_SOCKET, SO_RCVBUF, 1, any, 0, XTI_GENERIC, XTI_RCVBUF},
    {SOL_SOCKET, SO_SNDBUF, 1, any, 0, XTI_GENERIC, XTI_SNDBUF},
    {IPPROTO_IPV6, IPV6_V6ONLY, 0, 1, 0, T_INET_IPV6, T_IPV6_V6ONLY},
});

std::size_t row_of(std::int32_t level, std::int32_t name) {
  return static_cast<std::size_t>(
      std::ranges::find_if(rows, [&](const Row& one) { return one.level == level && one.name == name; }) -
      rows.begin());
}

/// struct t_kpalive counts minutes; T_TCP_KEEPIDLE, which follows it, is exact.
void put_keep_alive(std::vector<std::byte>& wanted, bool on, std::int32_t idle_seconds) {
  std::array<std::byte, 2 * wire::word_size> value{};
  wire::store_word(value.data(), on ? T_YES : T_NO);
  wire::store_word(value.data() + wire::word_size, static_cast<std::uint32_t>((idle_seconds + 59) / 60));
  tli::put_option(wanted, T_INET_TCP, T_TCP_KEEPALIVE, value);
}

}  // namespace

int EndpointOptions::set(std::int32_t level, std::int32_t name, std::int32_t value) {
  static_assert(rows.size() == count);
  const std::size_t row = row_of(level, name);
  if (row == rows.size()) {
    return ENOPROTOOPT;
  }
  // What is a switch is on for every number that is not zero (socket(7)).
  const bool is_switch = rows[row].least == 0;
  const bool is_buffer = rows[row].option_level == XTI_GENERIC;
  const std::int32_t wanted = is_switch ? (value != 0 ? 1 : 0) : is_buffer ? std::min(value, buffer_bytes_max) : value;
  if (wanted < rows[row].least || wanted > rows[row].most) {
    return EINVAL;
  }
  values_[row] = wanted;
  return 0;
}

std::optional<std::int32_t> EndpointOptions::get(std::int32_t level, std::int32_t name) const {
  const std::size_t row = row_of(level, name);
  return row == rows.size() ? std::nullopt : std::optional(values_[row].value_or(rows[row].initial));
}

/// One by one: what a provider lacks does not keep it from what it has.
void EndpointOptions::apply(tli::Endpoint& endpoint) const {
  for (std::size_t row = 0; row < rows.size(); ++row) {
    if (!values_[row]) {
      continue;
    }
    std::vector<std::byte> wanted;
    if (row == keep_alive_row) {
      put_keep_alive(wanted, *values_[row] != 0, values_[idle_row].value_or(idle_seconds_initial));
    } else {
      tli::put_option(wanted, rows[row].option_level, rows[row].option, static_cast<std::uint32_t>(*values_[row]));
    }
    std::vector<std::byte> outcome(wanted.size());
    tli::t_optmgmt answer{.opt = tli::buffer_of(outcome)};
    static_cast<void>(endpoint.t_optmgmt({.opt = tli::buffer_of(wanted), .flags = wire::tpi::T_NEGOTIATE}, answer));
  }
}

}  // namespace sluice::sockets
