// SPDX-License-Identifier: Apache-2.0
#pragma once

// Options in a program's buffers: what XTI's struct t_opthdr and OPT_NEXTHDR() are for, without pointers into them.
//
//     std::vector<std::byte> asked;
//     put_option(asked, wire::xti::T_INET_IP, wire::xti::T_IP_BROADCAST, wire::xti::T_YES);
//     t_optmgmt req{.opt = buffer_of(asked), .flags = wire::tpi::T_NEGOTIATE};
//     endpoint.t_optmgmt(req, ret);
//     for (auto options = options_of(ret.opt); const auto option = options.next();) { ... option->status ... }
//
// Levels, names and types of value: stack/wire/options.h. What providers have: stack/provider/options.h.

#include <array>
#include <cstdint>
#include <vector>

#include "stack/wire/address.h"
#include "stack/wire/options.h"
#include "stack/wire/words.h"
#include "tli/xti.h"

namespace sluice::tli {

using wire::xti::Option;

/// Appends an option to a request.
inline void put_option(std::vector<std::byte>& buffer, std::uint32_t level, std::uint32_t name, ConstBytes value = {}) {
  wire::xti::append(buffer, {.level = level, .name = name, .status = 0, .value = value});
}

/// One whose value is a t_uscalar_t; every scalar may come so.
inline void put_option(std::vector<std::byte>& buffer, std::uint32_t level, std::uint32_t name, std::uint32_t value) {
  std::array<std::byte, wire::word_size> bytes{};
  wire::store_word(bytes.data(), value);
  put_option(buffer, level, name, bytes);
}

/// Joins `group`, of either family, or leaves it, on the endpoint's one interface.
inline void put_membership(std::vector<std::byte>& buffer, const wire::IpAddress& group, bool join = true) {
  using namespace wire::xti;
  std::array<std::byte, 20> mreq{};
  group.store(mreq.data());
  if (group.is_v4()) {
    put_option(buffer, T_INET_IP, join ? T_IP_ADD_MEMBERSHIP : T_IP_DROP_MEMBERSHIP, ConstBytes(mreq).first(8));
  } else {
    put_option(buffer, T_INET_IPV6, join ? T_IPV6_JOIN_GROUP : T_IPV6_LEAVE_GROUP, mreq);
  }
}

/// The buffer as a request. It must stay while that is used.
[[nodiscard]] inline netbuf buffer_of(std::vector<std::byte>& buffer) {
  return {.maxlen = buffer.size(), .len = buffer.size(), .buf = buffer.data()};
}

/// Walks what a call left in `opt`, which must stay meanwhile.
[[nodiscard]] inline wire::xti::OptionReader options_of(const netbuf& opt) {
  return wire::xti::OptionReader(ConstBytes(opt.buf, opt.len));
}

}  // namespace sluice::tli
