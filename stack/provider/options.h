// SPDX-License-Identifier: Apache-2.0
#pragma once

// Option management as XTI has it (XNS 5.2, t_optmgmt()): what T_OPTMGMT_REQ asks for option by option, against what a
// provider has. The provider says which values there are and sets them (OptionStore); what a request means, and its
// outcome, is the same for all.
//
//     | level       | options                                    | value               |
//     |-------------|--------------------------------------------|---------------------|
//     | T_INET_IP   | T_IP_TTL, T_IP_TOS                         | 1..255; 0..255      |
//     |             | T_IP_BROADCAST, T_IP_DONTFRAG              | T_YES, T_NO         |
//     |             | T_IP_MULTICAST_TTL, T_IP_MULTICAST_LOOP    | 0..255; 0, 1        |
//     |             | T_IP_ADD_MEMBERSHIP, T_IP_DROP_MEMBERSHIP  | ip_mreq, 8 bytes    |
//     | T_INET_IPV6 | T_IPV6_UNICAST_HOPS, T_IPV6_MULTICAST_HOPS | 0..255, -1: default |
//     |             | T_IPV6_MULTICAST_LOOP, T_IPV6_DONTFRAG     | 0, 1                |
//     |             | T_IPV6_JOIN_GROUP, T_IPV6_LEAVE_GROUP      | ipv6_mreq, 20 bytes |
//     |             | T_IPV6_V6ONLY, of `udp` and `tcp`          | 0, 1                |
//     | T_INET_UDP  | T_UDP_CHECKSUM, of datagrams over IPv4     | T_YES, T_NO         |
//     |             | T_UDP_RECEIVED                             | T_YES, T_NO         |
//     | T_INET_TCP  | T_TCP_NODELAY                              | T_YES, T_NO         |
//     |             | T_TCP_MAXSEG, which can only be read       | bytes               |
//     |             | T_TCP_KEEPALIVE: on or off, minutes        | t_kpalive, 8 bytes  |
//     |             | T_TCP_KEEPIDLE, T_TCP_KEEPINTVL            | 1..32767 seconds    |
//     |             | T_TCP_KEEPCNT                              | 1..127              |
//     |             | T_TCP_MAXSEG_LIMIT                         | 88..32767 bytes     |
//     | XTI_GENERIC | XTI_RCVBUF, XTI_SNDBUF                     | 4096..2^30          |
//     |             | XTI_RCVLOWAT, XTI_SNDLOWAT                 | 1                   |
//
// A scalar may come in one byte or four, whichever its option has.
//
// T_UDP_RECEIVED: whether T_UNITDATA_IND has network::Received as its options, which says where a datagram went, its
// hop limit and traffic class. By default `udp` tells, and `kernel_udp`, for which it costs the kernel some time a
// datagram, does not.
//
// T_IP_DONTFRAG, T_IPV6_DONTFRAG: no datagram of that family is fragmented, here or by a router, and what was reported
// of a path's MTU stops none: one that is larger than the link takes is refused (T_UDERROR_IND with EMSGSIZE), and of
// one that a router refused a T_UDERROR_IND tells. So a program can search for the path's MTU. By default `fragment` of
// `ip` and of `kernel_udp` says.
//
// T_IPV6_V6ONLY: what [::] stands for at the next bind. RFC 3493 section 5.3: "This socket option restricts AF_INET6
// sockets to IPv6 communications only. [...] By default this option is turned off." Off, [::] is every address of both
// families; 0.0.0.0 is every address of IPv4, and no address at all every one of both.
//
// Those of XTI_GENERIC are no absolute requirements. XTI of each of the four: "The implementation may place upper and
// lower limits on the option value. Requests that fall short of the lower limit are negotiated to the lower limit.
// Legal values are all positive numbers." What is set then is the answer, with T_PARTSUCCESS. XTI_RCVBUF is what may
// wait for the reader: at the stream head (`udp`), in the connection (`tcp`), in the socket (`kernel_udp`,
// `kernel_tcp`). XTI_SNDBUF is the socket's, or what the connection keeps until it is acknowledged; `udp` has none,
// since its datagrams wait in the link's queue. The low-water marks, "the minimal number of bytes that must have
// accumulated [...] before they become visible to the transport user" or "before they are sent", can only be 1: each
// datagram is seen, and sent, when it comes.
//
// Plain values and functions; thread-safe as such.

#include <cstdint>
#include <expected>
#include <optional>
#include <vector>

#include "base/bytes.h"
#include "stack/wire/address.h"
#include "stack/wire/options.h"
#include "stack/wire/tpi_constants.h"

namespace sluice::provider {

/// The options that have a value.
enum class Setting : std::uint8_t {
  ttl,
  type_of_service,
  broadcast,
  multicast_ttl,
  multicast_loop,
  hops,
  multicast_hops,
  multicast_loop_v6,
  dont_fragment,
  dont_fragment_v6,
  v6_only,
  checksum,
  received,
  no_delay,
  segment_bytes,  // never set
  keep_alive,     // minutes; 0: off
  keep_idle,      // seconds; does not switch it on
  keep_interval,  // seconds
  keep_count,
  segment_limit,
  receive_buffer,
  send_buffer,
  receive_low_water,
  send_low_water,
};
inline constexpr std::size_t setting_count = 24;

/// The size of a buffer, of which the system may allow less than what was asked for.
[[nodiscard]] constexpr bool is_buffer(Setting setting) {
  return setting == Setting::receive_buffer || setting == Setting::send_buffer;
}

/// What ip_mreq and ipv6_mreq say.
struct Membership {
  wire::IpAddress group;
  wire::IpAddress interface;          ///< IPv4: an address of the interface, or 0.0.0.0. IPv6: ::
  std::uint32_t interface_index = 0;  ///< IPv6: 0 is any
};

class OptionStore {
 public:
  /// Values in force, and without anybody's doing. Nothing: there is no such option here.
  [[nodiscard]] virtual std::optional<std::uint32_t> current(Setting setting) = 0;
  [[nodiscard]] virtual std::optional<std::uint32_t> initial(Setting setting) = 0;
  /// False when the value is refused. It is one that the table above allows. Of a buffer's size current() tells what
  /// came of it.
  [[nodiscard]] virtual bool set(Setting setting, std::uint32_t value) = 0;
  /// Joins or leaves; with `check` only says whether it would.
  [[nodiscard]] virtual bool join(const Membership& membership, bool check) = 0;
  [[nodiscard]] virtual bool leave(const Membership& membership, bool check) = 0;

 protected:
  ~OptionStore() = default;
};

/// Groups that an endpoint is in, each once. BSD's IP_MAX_MEMBERSHIPS was 20.
class JoinedGroups {
 public:
  static constexpr std::size_t groups_max = 20;

  [[nodiscard]] bool has(const wire::IpAddress& group) const;
  [[nodiscard]] bool may_join(const wire::IpAddress& group) const {
    return group.is_multicast() && !has(group) && all_.size() < groups_max;
  }
  void add(const Membership& membership) { all_.push_back(membership); }
  void remove(const wire::IpAddress& group);
  void clear() { all_.clear(); }
  [[nodiscard]] const std::vector<Membership>& all() const { return all_; }

 private:
  std::vector<Membership> all_;
};

/// What T_OPTMGMT_ACK says.
struct Managed {
  std::vector<std::byte> options;
  std::int32_t flags = wire::tpi::T_SUCCESS;  ///< "the worst single result"
};

/// The largest buffer of options that is looked at. Each T_ALLOPT in it is answered with all options of its level.
inline constexpr std::size_t request_bytes_max = 1024;
/// The size of the options of all levels, for T_INFO_ACK: "ret->opt.maxlen must be given at least the value
/// info->options before the call" (T_ALLOPT).
[[nodiscard]] std::size_t all_options_size();

/// Carries out `action` (T_NEGOTIATE, T_CHECK, T_DEFAULT or T_CURRENT) on `options`. TBADOPT, and nothing was done, for
/// what is no list of options, or is of a level that is not known. Without a store no option is supported.
[[nodiscard]] std::expected<Managed, wire::tpi::TliError> manage(std::int32_t action, ConstBytes options,
                                                                 OptionStore* store);

}  // namespace sluice::provider
