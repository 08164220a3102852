// SPDX-License-Identifier: Apache-2.0
#include "stack/wire/msg_frame.h"

#include <cstring>

#include "base/contract.h"

namespace sluice::wire {

std::expected<MsgFrame, MsgMalformed> MsgFrame::parse(ConstBytes bytes) {
  if (bytes.size() < size) {
    return std::unexpected(MsgMalformed::short_header);
  }
  const std::byte* const at = bytes.data();
  if (load_big_endian<std::uint16_t>(at) != magic) {
    return std::unexpected(MsgMalformed::bad_magic);
  }
  if (at[2] != std::byte{version}) {
    return std::unexpected(MsgMalformed::bad_version);
  }
  if (at[3] < std::byte{1} || at[3] > std::byte{4}) {
    return std::unexpected(MsgMalformed::bad_type);
  }
  const MsgFrame frame{.type = static_cast<Type>(at[3]),
                       .port = load_big_endian<std::uint16_t>(at + 4),
                       .number = load_big_endian<std::uint64_t>(at + 8),
                       .tag = load_big_endian<std::uint64_t>(at + 16),
                       .length = load_big_endian<std::uint64_t>(at + 24)};
  const bool is_hello = frame.type == Type::hello;
  const bool has_tail = frame.type == Type::message;
  if (load_big_endian<std::uint16_t>(at + 6) != 0 || (frame.port != 0) != is_hello || (frame.number == 0) != is_hello ||
      (!has_tail && (frame.tag != 0 || frame.length != 0))) {
    return std::unexpected(MsgMalformed::bad_field);
  }
  return frame;
}

void MsgFrame::emit(Bytes out) const {
  SLUICE_REQUIRE(out.size() >= size);
  std::byte* const at = out.data();
  std::memset(at, 0, size);
  store_big_endian(at, magic);
  at[2] = std::byte{version};
  at[3] = static_cast<std::byte>(type);
  store_big_endian(at + 4, port);
  store_big_endian(at + 8, number);
  store_big_endian(at + 16, tag);
  store_big_endian(at + 24, length);
}

}  // namespace sluice::wire
