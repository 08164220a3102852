// SPDX-License-Identifier: Apache-2.0
// An end of xtp meets a peer that knows its key and says anything. The first byte chooses options, path, and who calls;
// then each eight bytes are a step: a packet whose checksum holds, with fields out of a small range around what has
// been sent, so that they meet; something that the user does; time that passes. Nothing may be left in the end.
#include "base/internet_checksum.h"
#include "fuzz/round_trip.h"
#include "tests/stack/modules/xtp_bed.h"

namespace {

using namespace sluice;
using namespace sluice::test::associations;
using wire::XtpControl;
using wire::XtpFirst;
using wire::XtpHeader;

/// What the peer has seen of the end.
struct Seen {
  std::uint64_t key = 0;       // by which it is called
  std::uint64_t sequence = 0;  // the last
  std::uint32_t sync = 0;
};

constexpr std::uint64_t peer_first = 1000;

void finish_packet(std::vector<std::byte>& bytes, XtpHeader header) {
  header.length = static_cast<std::uint32_t>(bytes.size() - XtpHeader::size);
  header.emit(bytes);
  const std::size_t summed = wire::xtp_summed_bytes(header.has(XtpHeader::no_check), bytes.size());
  store_checksum(bytes.data() + XtpHeader::checksum_offset, checksum_of(header_sum(ConstBytes(bytes).first(summed))));
}

std::vector<std::byte> packet_of(const std::uint8_t* at, const Seen& seen) {
  constexpr std::array types = {XtpHeader::Type::data,  XtpHeader::Type::data,  XtpHeader::Type::cntl,
                                XtpHeader::Type::ecntl, XtpHeader::Type::tcntl, XtpHeader::Type::first,
                                XtpHeader::Type::diag};
  XtpHeader header{.key = (at[1] & 128) != 0 ? 77 : seen.key | XtpHeader::return_key,
                   .options = static_cast<std::uint32_t>(at[2]) << 9,
                   .type = types[at[1] % types.size()],
                   .sync = at[3],
                   .sequence = peer_first + at[4]};
  header.options |= (at[1] & 64) != 0 ? XtpHeader::no_error : 0U;
  header.options &= ~XtpHeader::options_unknown;
  std::vector<std::byte> bytes(XtpHeader::size);
  if (header.type == XtpHeader::Type::data) {
    bytes.resize(XtpHeader::size + at[5] % 32U);
    for (std::size_t i = XtpHeader::size; i < bytes.size(); ++i) {
      bytes[i] = sluice::test::messages::byte_of(1, header.sequence + i - XtpHeader::size);
    }
  } else if (header.type == XtpHeader::Type::first) {
    const XtpFirst first{.to = {}, .from = {}, .traffic = {.data_bytes = 64U + at[5]}};
    header.key = 77;
    bytes.resize(XtpHeader::size + first.encoded_size());
    first.emit(Bytes(bytes).subspan(XtpHeader::size));
  } else if (header.type == XtpHeader::Type::diag) {
    bytes.resize(XtpHeader::size + wire::XtpDiagnosis::size);
    bytes[XtpHeader::size + 3] = std::byte{at[5]};
  } else {
    XtpControl control;
    control.received = seen.sequence + at[5] - 64;
    control.allocated = control.received + at[6] * 4U;
    control.echo = seen.sync - at[7] % 4U;
    control.exchanged_key = 77;
    for (std::uint64_t left = control.received + 1 + at[7]; control.span_count < at[7] % 4U; left += 40) {
      control.spans[control.span_count++] = {.left = left, .right = left + 1 + at[6] % 32U};
    }
    bytes.resize(XtpHeader::size + control.encoded_size(header.type));
    control.emit(Bytes(bytes).subspan(XtpHeader::size), header.type);
  }
  finish_packet(bytes, header);
  return bytes;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0 || size > 4096) {
    return 0;
  }
  xtp::Options options{.send_buffer_bytes = 4096, .receive_buffer_bytes = 4096, .packet_bytes = 64};
  options.selective = (data[0] & 1) != 0;
  options.error_control = (data[0] & 2) == 0;
  options.flow_control = (data[0] & 4) == 0;
  options.checksum = (data[0] & 8) == 0;
  const bool calls = (data[0] & 16) != 0;
  XtpBed bed({options, options}, (data[0] & 128) != 0 ? ProcessingMode::fused : ProcessingMode::layered, 1);
  Seen seen;
  bed.network.on_send = [&](const Packet& packet) {
    const auto header = XtpHeader::parse(packet.bytes, packet.bytes.size());
    SLUICE_REQUIRE(header.has_value());
    const std::size_t summed = wire::xtp_summed_bytes(header->has(XtpHeader::no_check), packet.bytes.size());
    SLUICE_REQUIRE(sum_holds(header_sum(ConstBytes(packet.bytes).first(summed))));
    seen.sequence = header->sequence + (header->is_control() ? 0 : header->length);
    seen.sync = header->sync;
    if (header->type == XtpHeader::Type::first) {
      seen.key = header->key;
    } else if (header->type == XtpHeader::Type::tcntl) {
      seen.key = XtpControl::parse(ConstBytes(packet.bytes).subspan(XtpHeader::size), header->type)->exchanged_key;
    }
  };
  XtpUser& user = bed[0].user();
  user.releases = false;
  user.bind(calls ? 0 : 2);
  if (calls) {
    user.call(XtpBed::address(1));
  }
  for (const std::uint8_t* at = data + 1; at + 8 <= data + size; at += 8) {
    bed.network.flying.clear();  // the peer is we
    switch (at[0] % 8) {
      case 0:
        if (user.connected && !user.released) {
          user.send(std::string(at[1] % 250U + 1, 'x'), (at[2] & 1) != 0);
        }
        break;
      case 1:
        bed.run(std::chrono::milliseconds(at[1] * 8));
        break;
      case 2:
        if (user.connected && !user.released && at[1] == 0) {
          user.released = true;
          user.down(tpi::OrdrelReq{});
        } else if (user.connected && at[1] == 1) {
          user.connected = false;
          user.down(tpi::DisconReq{});
        } else if (at[1] == 2 && calls && !user.connected) {
          user.call(XtpBed::address(1));
        }
        break;
      default:
        bed.deliver({.from = XtpBed::address(at[0] == 255 ? 2 : 1),
                     .to = XtpBed::address(0),
                     .bytes = packet_of(at, seen),
                     .sum = 0});
        break;
    }
    bed.step((at[0] & 64) != 0);
    if (user.peer_released && user.released) {
      user.connected = false;  // and idle
    }
    SLUICE_REQUIRE(user.wrong.empty() && !user.fatal);
    SLUICE_REQUIRE(bed[0].module().callers() <= 2);
  }
  bed.network.flying.clear();
  user.got.clear();
  bed[0].close();
  bed.network.flying.clear();
  bed.run(std::chrono::seconds(10));
  SLUICE_REQUIRE(bed[0].set().pool().statistics().buffers_in_use == 0);
  return 0;
}
