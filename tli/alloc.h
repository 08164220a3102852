// SPDX-License-Identifier: Apache-2.0
#pragma once

// Structures for the calls, with buffers of the sizes that a provider asks for (t_alloc); freed with their owner
// (t_free).

#include <algorithm>
#include <cerrno>
#include <concepts>
#include <memory>
#include <vector>

#include "tli/xti.h"

namespace sluice::tli {

template <class T>
struct Allocated {
  T value;
  std::vector<std::vector<std::byte>> storage;
};

/// Which buffers t_alloc() provides.
inline constexpr unsigned T_ADDR = 0x01;
inline constexpr unsigned T_OPT = 0x02;
inline constexpr unsigned T_UDATA = 0x04;
inline constexpr unsigned T_ALL = 0xffff;

/// What a structure is for: connections, or data units.
template <class T>
inline constexpr bool of_connections = std::same_as<T, t_call> || std::same_as<T, t_discon>;
template <class T>
inline constexpr bool of_data_units = std::same_as<T, t_unitdata> || std::same_as<T, t_uderr>;

/// How much user data a structure may have to hold: of a call, what comes with its connection or its end.
template <class T>
[[nodiscard]] constexpr std::int32_t user_data_size(const t_info& info) {
  return std::same_as<T, t_call>     ? std::max(info.connect, info.discon)
         : std::same_as<T, t_discon> ? info.discon
                                     : info.tsdu;
}

/// A t_bind, t_call, t_discon, t_unitdata, t_uderr, t_optmgmt or t_info. "[TNOSTRUCTYPE] Unsupported struct_type
/// requested. This can include a request for a structure type which is inconsistent with the transport provider type
/// specified, that is, connection-mode or connectionless-mode." "If the size value associated with any specified field
/// is T_INVALID, t_alloc() will be unable to determine the size of the buffer to allocate and will fail, setting
/// t_errno to TSYSERR and errno to EINVAL. [...] If the size value associated with any specified field is T_INFINITE,
/// then the behavior of t_alloc() is implementation-defined" (t_alloc(3NSL)): here it fails likewise. T_ALL: "All
/// relevant fields of the given structure", which leaves out what the provider does not have.
template <class T>
[[nodiscard]] Outcome<std::unique_ptr<Allocated<T>>> t_alloc(const t_info& info, unsigned fields) {
  const bool connections = info.servtype == wire::tpi::T_COTS || info.servtype == wire::tpi::T_COTS_ORD;
  if ((of_connections<T> && info.servtype == wire::tpi::T_CLTS) || (of_data_units<T> && connections)) {
    return failed(wire::tpi::TNOSTRUCTYPE);
  }
  auto made = std::make_unique<Allocated<T>>();
  bool finite = true;
  const auto provide = [&](unsigned field, std::int32_t size, netbuf& buffer) {
    if ((fields & field) != 0 && (fields != T_ALL || size != wire::tpi::T_INVALID)) {
      finite = finite && size >= 0;
      auto& memory = made->storage.emplace_back(static_cast<std::size_t>(std::max(0, size)));
      buffer = {.maxlen = memory.size(), .len = 0, .buf = memory.data()};
    }
  };
  if constexpr (requires { made->value.addr.buf; }) {
    provide(T_ADDR, info.addr, made->value.addr);
  }
  if constexpr (requires { made->value.opt.buf; }) {
    provide(T_OPT, info.options, made->value.opt);
  }
  if constexpr (requires { made->value.udata.buf; }) {
    provide(T_UDATA, user_data_size<T>(info), made->value.udata);
  }
  if (!finite) {
    return failed(wire::tpi::TSYSERR, EINVAL);
  }
  return made;
}

}  // namespace sluice::tli
