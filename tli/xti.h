// SPDX-License-Identifier: Apache-2.0
#pragma once

// Types and numbers of XTI (X/Open XNS 5.2, <xti.h>), under the names the standard gives them.

#include <cstddef>
#include <cstdint>
#include <expected>
#include <string_view>

#include "stack/wire/tpi_constants.h"

namespace sluice::tli {

/// A buffer that a call reads from (`len` bytes) or writes to (up to `maxlen` bytes, then `len` says how many). A
/// `maxlen` of 0 asks for nothing. The memory stays the caller's.
struct netbuf {
  std::size_t maxlen = 0;
  std::size_t len = 0;
  std::byte* buf = nullptr;
};

struct t_bind {
  netbuf addr;
  std::uint32_t qlen = 0;
};

struct t_unitdata {
  netbuf addr;
  netbuf opt;
  netbuf udata;
};

struct t_uderr {
  netbuf addr;
  netbuf opt;
  std::int32_t error = 0;
};

/// A connection that is asked for, indicated, answered or confirmed.
struct t_call {
  netbuf addr;
  netbuf opt;
  netbuf udata;
  std::int32_t sequence = 0;  // of the connection indication: t_listen() tells it, t_accept() and t_snddis() name it
};

/// The end of a connection. `reason` is protocol-dependent; our providers put an errno value here.
struct t_discon {
  netbuf udata;
  std::int32_t reason = 0;
  std::int32_t sequence = 0;  // of the connection indication that is taken back; -1: of none
};

struct t_optmgmt {
  netbuf opt;
  std::int32_t flags = 0;
};

/// What a provider says of itself. Sizes in bytes; T_INFINITE, T_INVALID.
struct t_info {
  std::int32_t addr = 0;
  std::int32_t options = 0;
  std::int32_t tsdu = 0;
  std::int32_t etsdu = 0;
  std::int32_t connect = 0;
  std::int32_t discon = 0;
  std::int32_t servtype = 0;
  std::int32_t flags = 0;  // T_SENDZERO
};

/// One part of a data unit that is gathered or scattered (t_sndvudata, t_rcvvudata).
struct t_iovec {
  std::byte* iov_base = nullptr;
  std::size_t iov_len = 0;
};
inline constexpr std::size_t T_IOV_MAX = 16;

/// States as t_getstate() tells them.
enum State : std::uint8_t {
  T_UNINIT = 0,  // not open
  T_UNBND = 1,
  T_IDLE = 2,
  T_OUTCON = 3,    // connecting
  T_INCON = 4,     // connection indications are outstanding
  T_DATAXFER = 5,  // connected
  T_OUTREL = 6,    // released by this side
  T_INREL = 7,     // released by the peer
};

/// Events as t_look() tells them.
enum Event : std::uint16_t {
  T_LISTEN = 0x0001,
  T_CONNECT = 0x0002,
  T_DATA = 0x0004,
  T_EXDATA = 0x0008,
  T_DISCONNECT = 0x0010,
  T_UDERR = 0x0040,
  T_ORDREL = 0x0080,
  T_GODATA = 0x0100,
  T_GOEXDATA = 0x0200,
};

/// Flags of t_snd() and t_rcv(), T_MORE of t_rcvudata(), too: the rest of the data unit is still to come.
inline constexpr int T_MORE = 0x001;
inline constexpr int T_EXPEDITED = 0x002;
inline constexpr int T_PUSH = 0x004;
inline constexpr std::int32_t T_SENDZERO = wire::tpi::SENDZERO;

/// What a failed call leaves: t_errno and, with TSYSERR, errno.
struct Failure {
  wire::tpi::TliError t_errno = wire::tpi::TPROTO;
  int system_errno = 0;

  friend bool operator==(const Failure&, const Failure&) = default;
};

template <class T = void>
using Outcome = std::expected<T, Failure>;

[[nodiscard]] inline std::unexpected<Failure> failed(wire::tpi::TliError t_errno, int system_errno = 0) {
  return std::unexpected(Failure{t_errno, system_errno});
}

/// The value of an XTI variable: T_IOV_MAX for _SC_T_IOV_MAX (<unistd.h>). TBADFLAG: there is none of that name.
[[nodiscard]] Outcome<long> t_sysconf(int name);

/// The text of a t_errno value; "<number>: error unknown" for others, as the standard asks.
[[nodiscard]] std::string_view t_strerror(int t_errno);

}  // namespace sluice::tli
