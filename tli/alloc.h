// SPDX-License-Identifier: Apache-2.0
#pragma once

// Structures for the calls, with buffers of the sizes that a provider asks for (t_alloc); freed with their owner
// (t_free).

#include <algorithm>
#include <cerrno>
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

/// A t_bind, t_unitdata, t_uderr or t_optmgmt. "If the size value associated with any specified field is T_INVALID,
/// t_alloc() will be unable to determine the size of the buffer to allocate and will fail, setting t_errno to TSYSERR
/// and errno to EINVAL. [...] If the size value associated with any specified field is T_INFINITE, then the behavior of
/// t_alloc() is implementation-defined" (t_alloc(3NSL)): here it fails likewise. T_ALL: "All relevant fields of the
/// given structure", which leaves out what the provider does not have.
template <class T>
[[nodiscard]] Outcome<std::unique_ptr<Allocated<T>>> t_alloc(const t_info& info, unsigned fields) {
  auto made = std::make_unique<Allocated<T>>();
  bool finite = true;
  const auto provide = [&](unsigned field, std::int32_t size, netbuf& buffer) {
    if ((fields & field) != 0 && (fields != T_ALL || size != wire::tpi::T_INVALID)) {
      finite = finite && size >= 0;
      auto& memory = made->storage.emplace_back(static_cast<std::size_t>(std::max(0, size)));
      buffer = {.maxlen = memory.size(), .len = 0, .buf = memory.data()};
    }
  };
  if constexpr (requires { made->value.addr; }) {
    provide(T_ADDR, info.addr, made->value.addr);
  }
  if constexpr (requires { made->value.opt; }) {
    provide(T_OPT, info.options, made->value.opt);
  }
  if constexpr (requires { made->value.udata; }) {
    provide(T_UDATA, info.tsdu, made->value.udata);
  }
  if (!finite) {
    return failed(wire::tpi::TSYSERR, EINVAL);
  }
  return made;
}

}  // namespace sluice::tli
