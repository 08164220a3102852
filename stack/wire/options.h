// SPDX-License-Identifier: Apache-2.0
#pragma once

// Options as XTI has them in the opt buffers of its calls and in T_OPTMGMT_REQ and T_OPTMGMT_ACK: struct t_opthdr (len,
// level, name, status: 32-bit words in the machine's byte order; len counts the header), its value behind it, and then
// bytes up to the next multiple of 4, where the next one begins. X/Open XNS 5.2, "The Use of Options in XTI".
//
//     OptionReader reader(buffer);
//     while (const auto option = reader.next()) { ... }
//     if (reader.malformed()) { ... }              // TBADOPT
//
// Threat: the buffer is a program's, or came through putmsg() from one. Lengths that lie are found before anything is
// read through them; nothing of a malformed buffer must be acted on, so is_well_formed() goes first.
//
// Numbers of levels and names are illumos': XTI leaves them to the implementation, and there they do not collide with
// those of the multicast options. Those that XTI does not name have the sockets' names behind T_.
//
// Plain values and views; thread-safe as such.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/bytes.h"

namespace sluice::wire::xti {

enum Level : std::uint32_t {
  T_INET_IP = 0,  ///< IPPROTO_IP
  T_INET_TCP = 6,
  T_INET_UDP = 17,
  T_INET_IPV6 = 41,  ///< IPPROTO_IPV6
  XTI_GENERIC = 0xffff,
};

/// Every level: stands for all options of it.
inline constexpr std::uint32_t T_ALLOPT = 0;

/// Of T_INET_IP. Values of TTL, TOS and loop are an unsigned char; any scalar may come as t_uscalar_t, too.
enum IpName : std::uint32_t {
  T_IP_TTL = 0x4,
  T_IP_MULTICAST_TTL = 0x11,
  T_IP_MULTICAST_LOOP = 0x12,
  T_IP_ADD_MEMBERSHIP = 0x13,   ///< ip_mreq: the group, an address of ours or 0.0.0.0
  T_IP_DROP_MEMBERSHIP = 0x14,  ///< likewise
  T_IP_DONTFRAG = 0x1b,         ///< T_YES or T_NO
  T_IP_BROADCAST = 0x106,       ///< T_YES or T_NO
  T_IP_TOS = 0x108,
};

enum UdpName : std::uint32_t {
  T_UDP_CHECKSUM = 0x600,     ///< T_YES or T_NO
  T_UDP_RECEIVED = 0x1'0001,  ///< T_YES or T_NO: whether T_UNITDATA_IND has options. Ours: others have one a member
};

enum TcpName : std::uint32_t {
  T_TCP_NODELAY = 0x1,    ///< T_YES or T_NO
  T_TCP_MAXSEG = 0x2,     ///< bytes; read-only
  T_TCP_KEEPALIVE = 0x8,  ///< t_kpalive: T_YES or T_NO, and minutes
  // Ours: a uint32 each.
  T_TCP_KEEPIDLE = 0x1'0001,      ///< seconds without a segment before the peer is asked
  T_TCP_KEEPINTVL = 0x1'0002,     ///< seconds between questions
  T_TCP_KEEPCNT = 0x1'0003,       ///< questions
  T_TCP_MAXSEG_LIMIT = 0x1'0004,  ///< bytes that a segment of the next connection has at most
};

/// Of XTI_GENERIC. Those of XTI that are absent here are T_NOTSUPPORT (docs/streams.md).
enum GenericName : std::uint32_t {
  XTI_SNDBUF = 0x1001,    ///< bytes
  XTI_RCVBUF = 0x1002,    ///< likewise
  XTI_SNDLOWAT = 0x1003,  ///< likewise
  XTI_RCVLOWAT = 0x1004,  ///< likewise
};

/// Of T_INET_IPV6 (RFC 3493): an int each; -1 is the default of hops.
enum Ipv6Name : std::uint32_t {
  T_IPV6_UNICAST_HOPS = 0x5,
  T_IPV6_MULTICAST_HOPS = 0x7,
  T_IPV6_MULTICAST_LOOP = 0x8,
  T_IPV6_JOIN_GROUP = 0x9,   ///< ipv6_mreq: the group, an interface's index or 0
  T_IPV6_LEAVE_GROUP = 0xa,  ///< likewise
  T_IPV6_DONTFRAG = 0x21,    ///< RFC 3542: 0 or 1
  T_IPV6_V6ONLY = 0x27,      ///< likewise
};

inline constexpr std::uint32_t T_NO = 0;
inline constexpr std::uint32_t T_YES = 1;

struct Option {
  static constexpr std::size_t header_size = 16;

  std::uint32_t level = 0;
  std::uint32_t name = 0;
  std::uint32_t status = 0;
  ConstBytes value{};  ///< in the buffer that it was read from

  [[nodiscard]] std::size_t size() const { return header_size + value.size(); }
};

/// Where an option of `size` bytes makes the next one begin.
[[nodiscard]] constexpr std::size_t aligned(std::size_t size) { return (size + 3) / 4 * 4; }

/// Walks the options of a buffer. The bytes behind the last one, to the next multiple of 4, may be missing.
class OptionReader {
 public:
  explicit OptionReader(ConstBytes buffer) : rest_(buffer) {}

  /// The next option; nothing at the end, and where the rest of the buffer is none.
  [[nodiscard]] std::optional<Option> next();
  [[nodiscard]] bool malformed() const { return malformed_; }

 private:
  ConstBytes rest_;
  bool malformed_ = false;
};

/// Whether `buffer` is options and nothing else.
[[nodiscard]] bool is_well_formed(ConstBytes buffer);

/// Appends an option, and zeros to the next multiple of 4.
void append(std::vector<std::byte>& buffer, const Option& option);

}  // namespace sluice::wire::xti
