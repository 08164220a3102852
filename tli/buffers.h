// SPDX-License-Identifier: Apache-2.0
#pragma once

// What the calls do with a program's buffers.

#include <algorithm>
#include <climits>
#include <span>

#include "base/bytes.h"
#include "tli/xti.h"

namespace sluice::tli {

/// The address block of a request: bounded, so that it can be built on the stack.
inline constexpr std::size_t primitive_bytes_max = 1024;

[[nodiscard]] inline ConstBytes content(const netbuf& buffer) { return {buffer.buf, buffer.len}; }

/// Stores `bytes` where they are asked for; a buffer without room asks for nothing. False when they do not fit, and
/// then nothing is stored: the caller answers TBUFOVFLW.
[[nodiscard]] inline bool store(ConstBytes bytes, netbuf& buffer) {
  const bool fit = buffer.maxlen == 0 || bytes.size() <= buffer.maxlen;
  buffer.len = fit && buffer.maxlen > 0 ? bytes.size() : 0;
  std::copy_n(bytes.begin(), buffer.len, buffer.buf);
  return fit;
}

/// Both or neither.
[[nodiscard]] inline bool store_both(ConstBytes address, netbuf& addr, ConstBytes options, netbuf& opt) {
  const bool fit = store(address, addr) && store(options, opt);
  addr.len = fit ? addr.len : 0;
  opt.len = fit ? opt.len : 0;
  return fit;
}

/// The bytes of all parts. TBADDATA where their number or sum is out of bounds: "If the limit on iovcount is exceeded,
/// the function fails with TBADDATA"; "If no other constraint applies, it will be limited by INT_MAX."
/// (t_sndvudata(3NSL))
[[nodiscard]] inline Outcome<std::size_t> size_of(std::span<const t_iovec> parts) {
  std::size_t size = 0;
  for (const t_iovec& part : parts) {
    if (part.iov_len > INT_MAX - size) {
      return failed(wire::tpi::TBADDATA);
    }
    size += part.iov_len;
  }
  return parts.size() <= T_IOV_MAX ? Outcome<std::size_t>(size) : failed(wire::tpi::TBADDATA);
}

}  // namespace sluice::tli
