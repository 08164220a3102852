// SPDX-License-Identifier: Apache-2.0
#pragma once

// What can be set at a stream head: by its user when the stream is opened, and by the modules below with M_SETOPTS.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>

#include "base/bytes.h"
#include "stack/core/buffer_pool.h"
#include "stack/core/module.h"

namespace sluice {

/// How read() treats message boundaries (I_SRDOPT).
enum class ReadMode : std::uint8_t {
  byte_stream,         // RNORM: boundaries do not matter
  message_discard,     // RMSGD: one message a call, what does not fit is lost
  message_nondiscard,  // RMSGN: one message a call, what does not fit stays
};

/// What read() does with a message that has a control part (I_SRDOPT).
enum class ProtocolMode : std::uint8_t {
  refuse,   // RPROTNORM: EBADMSG
  as_data,  // RPROTDAT: the control part is data, too
  discard,  // RPROTDIS: the control part is dropped, its data read
};

struct ReadOptions {
  ReadMode mode = ReadMode::byte_stream;
  ProtocolMode protocol = ProtocolMode::refuse;
};

/// The most that write offset and tail may be.
inline constexpr std::size_t head_room_bytes_max = BufferPool::capacity_max / 4;

/// The head's parameters (M_SETOPTS). Sizes in bytes. REQUIRES: block_bytes_max and packet_bytes_max are not 0, and
/// write_offset and write_tail are at most head_room_bytes_max each.
struct HeadOptions {
  /// Headroom beyond what the modules ask for. (SO_WROFF)
  std::size_t write_offset = 0;
  /// Spare bytes behind the data. (SO_TAIL)
  std::size_t write_tail = 0;
  /// A larger user message becomes a chain of blocks of at most this size. (SO_MAXBLK)
  std::size_t block_bytes_max = 65536;
  /// The largest data part that write() and putmsg() send in one message. (SO_MAXPSZ)
  std::size_t packet_bytes_max = BufferPool::capacity_max;
  ReadOptions read = {};
  /// The user takes segmented messages: the data of several datagrams behind one T_UNITDATA_IND.
  bool segments = false;
  WaterMarks read_marks{.high_bytes = std::size_t{4} << 20, .low_bytes = std::size_t{1} << 20};
};

/// The content of M_SETOPTS (struct stroptions, <sys/stream.h>): "so_flags" says which of the others count. Sizes in
/// bytes.
struct StreamOptions {
  enum Flag : std::uint32_t {
    SO_READOPT = 0x0001,
    SO_WROFF = 0x0002,
    SO_MAXPSZ = 0x0008,
    SO_HIWAT = 0x0010,
    SO_LOWAT = 0x0020,
    SO_MAXBLK = 0x0100,
    SO_TAIL = 0x2000,
  };

  std::uint32_t so_flags = 0;
  ReadOptions so_readopt;
  std::uint32_t so_wroff = 0;
  std::uint32_t so_maxpsz = 0;
  std::uint32_t so_hiwat = 0;
  std::uint32_t so_lowat = 0;
  std::uint32_t so_maxblk = 0;
  std::uint32_t so_tail = 0;

  /// Nothing when the message is too short to hold one.
  [[nodiscard]] static std::optional<StreamOptions> decode(ConstBytes bytes) {
    StreamOptions options;
    if (bytes.size() < sizeof options) {
      return std::nullopt;
    }
    std::memcpy(static_cast<void*>(&options), bytes.data(), sizeof options);
    return options;
  }

  /// `options` with what this message sets; nothing when a value makes no sense (a mark or block size of zero, a low
  /// mark above the high one, an unknown read option, more room than head_room_bytes_max).
  [[nodiscard]] std::optional<HeadOptions> applied_to(HeadOptions options) const;
};

}  // namespace sluice
