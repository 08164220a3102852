// SPDX-License-Identifier: Apache-2.0
#pragma once

// Blocks of a pcapng file (draft-ietf-opsawg-pcapng), as bytes: section header, interface description, enhanced packet.
// Written in the machine's byte order, which the section header's magic tells. Appends to a buffer of the caller's; no
// state, no files.

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "stack/core/message.h"

namespace sluice::pcapng {

/// LINKTYPE_ values (the registry at www.tcpdump.org/linktypes.html).
enum class LinkType : std::uint16_t {
  ethernet = 1,
  raw_ip = 101,  ///< "Raw IP; the packet begins with an IPv4 or IPv6 header", by its version
  user0 = 147,   ///< "Reserved for private use"
};

/// epb_flags bits 0-1.
enum class Direction : std::uint32_t { inbound = 1, outbound = 2 };

struct Packet {
  std::uint32_t interface_id = 0;
  std::uint64_t time_ns = 0;  ///< since 1970-01-01 00:00 UTC
  Direction direction = Direction::inbound;
  ConstBytes header;           ///< what comes before the data, such as a link header made for the file
  const Message* message;      ///< whose data it is
  std::size_t data_size = 0;   ///< bytes of it
  std::size_t snap_bytes = 0;  ///< the most that is written of header and data together
};

void append_section_header(std::vector<std::byte>& out, std::string_view application);
/// With timestamps in nanoseconds.
void append_interface(std::vector<std::byte>& out, LinkType link, std::string_view name, std::uint32_t snap_bytes);
void append_packet(std::vector<std::byte>& out, const Packet& packet);

}  // namespace sluice::pcapng
