// SPDX-License-Identifier: Apache-2.0
// A node of rmpp or utopia meets a peer that says anything. The first byte chooses the module and the path; then each
// eight bytes are a step: a packet with a good header of fields out of a small range, so that they meet; a message of
// the user's; time that passes. Nothing may be left in the end.
#include "base/internet_checksum.h"
#include "fuzz/round_trip.h"
#include "tests/stack/modules/rmpp_bed.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace sluice;
  using namespace sluice::test::messages;
  if (size == 0 || size > 4096) {
    return 0;
  }
  const rmpp::Options options{.recovery = static_cast<rmpp::Recovery>(data[0] % 3),
                              .packet_bytes = 64,
                              .buffers = 20,
                              .peers_max = 4,
                              .messages_max = 8,
                              .message_bytes_max = 4096};
  Bed bed(1, options, (data[0] & 128) != 0 ? ProcessingMode::fused : ProcessingMode::layered, 1);
  for (const std::uint8_t* at = data + 1; at + 8 <= data + size; at += 8) {
    const TransportAddress peer = Bed::address(1 + at[0] % 5);
    if (at[1] == 0) {
      bed[0].send(peer, at[2], at[3] * std::size_t{16});
    } else if (at[1] == 1) {
      bed.run(std::chrono::milliseconds(at[2] * 10));
    } else {
      RmppHeader header{.type = static_cast<RmppHeader::Type>(1 + at[1] % 6),
                        .flags = static_cast<std::uint8_t>(at[2] % 3),
                        .source_incarnation = 1U + (at[2] >> 6),
                        .destination_incarnation = (at[2] & 32) != 0 ? bed[0].module().incarnation() : at[2] & 16U,
                        .number = 1 + at[3] % 4U,
                        .attempt = static_cast<std::uint16_t>(at[3] >> 6),
                        .packet_bytes = 64,
                        .index = at[4] % 64U,
                        .grant = static_cast<std::uint16_t>(at[6] * 257U),
                        .total_bytes = at[5] * std::uint64_t{16},
                        .tag = 1};
      const bool carries = header.type == RmppHeader::Type::request || header.type == RmppHeader::Type::data;
      header.index = header.type == RmppHeader::Type::request ? 0 : header.index;
      header.grant = header.type == RmppHeader::Type::clear ? header.grant : std::uint16_t{0};
      if (carries && header.offset() <= header.total_bytes) {
        header.length = static_cast<std::uint16_t>(std::min<std::uint64_t>(64, header.total_bytes - header.offset()));
      }
      std::vector<std::byte> bytes(RmppHeader::size + header.length);
      header.emit(bytes);
      for (std::size_t byte = 0; byte < header.length; ++byte) {
        bytes[RmppHeader::size + byte] = byte_of(1, header.offset() + byte);
      }
      const auto sum = static_cast<std::uint16_t>(header_sum(bytes) ^ (at[7] == 255 ? 1 : 0));
      bed[0].provider().deliver({.from = peer, .to = Bed::address(0), .bytes = bytes, .sum = sum});
      bed.step(false);
    }
    SLUICE_REQUIRE(bed.outcomes.wrong.empty());
    SLUICE_REQUIRE(bed[0].module().peers() <= options.peers_max);
    SLUICE_REQUIRE(bed[0].module().granted_packets() <= options.buffers);
    SLUICE_REQUIRE(bed[0].module().messages_waiting() <= options.messages_max);
  }
  bed.run(std::chrono::seconds(1000));
  SLUICE_REQUIRE(bed[0].module().messages_waiting() == 0 && bed[0].module().granted_packets() == 0);
  SLUICE_REQUIRE(bed[0].set().pool().statistics().buffers_in_use == 0);
  return 0;
}
