// SPDX-License-Identifier: Apache-2.0
#include "stack/head/head_options.h"

#include <algorithm>

namespace sluice {

std::optional<HeadOptions> StreamOptions::applied_to(HeadOptions options) const {
  const auto set = [this](Flag flag, std::size_t& option, std::uint32_t value) {
    option = (so_flags & flag) != 0 ? value : option;
  };
  set(SO_WROFF, options.write_offset, so_wroff);
  set(SO_TAIL, options.write_tail, so_tail);
  set(SO_MAXBLK, options.block_bytes_max, so_maxblk);
  set(SO_MAXPSZ, options.packet_bytes_max, so_maxpsz);
  set(SO_HIWAT, options.read_marks.high_bytes, so_hiwat);
  set(SO_LOWAT, options.read_marks.low_bytes, so_lowat);
  if ((so_flags & SO_READOPT) != 0) {
    options.read = so_readopt;
  }
  const bool sensible =
      options.write_offset <= head_room_bytes_max && options.write_tail <= head_room_bytes_max &&
      options.block_bytes_max > 0 && options.packet_bytes_max > 0 && options.read_marks.high_bytes > 0 &&
      options.read_marks.low_bytes <= options.read_marks.high_bytes &&
      options.read.mode <= ReadMode::message_nondiscard && options.read.protocol <= ProtocolMode::discard;
  return sensible ? std::optional(options) : std::nullopt;
}

}  // namespace sluice
