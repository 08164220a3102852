// SPDX-License-Identifier: Apache-2.0
#include "stack/wire/ipv4.h"

namespace sluice::wire {
namespace {

constexpr std::size_t total_length_max = 65535;

/// Whether a fragment can be part of a datagram at all. RFC 791 section 3.1: "The fragment offset is measured in
/// units of 8 octets", so all but the last must be a multiple of 8 long, and a datagram ends at 65,535.
bool fragment_fits(const Ipv4View& view) {
  const bool whole_units = !view.more_fragments() || (view.payload_length() % 8 == 0 && view.payload_length() != 0);
  return whole_units && view.header_length() + view.fragment_offset() + view.payload_length() <= total_length_max;
}

}  // namespace

std::expected<Ipv4View, Ipv4Malformed> Ipv4View::check_shape(ConstBytes bytes) {
  if (bytes.size() < header_size_min) {
    return std::unexpected(Ipv4Malformed::short_header);
  }
  const Ipv4View view(bytes.data());
  if (static_cast<unsigned>(bytes[0]) >> 4 != 4) {
    return std::unexpected(Ipv4Malformed::bad_version);
  }
  // RFC 791 section 3.1: "the minimum value for a correct header is 5."
  if (view.header_length() < header_size_min) {
    return std::unexpected(Ipv4Malformed::bad_header_length);
  }
  if (view.header_length() > bytes.size()) {
    return std::unexpected(Ipv4Malformed::short_header);
  }
  return view;
}

std::expected<Ipv4View, Ipv4Malformed> Ipv4View::check(ConstBytes bytes, std::size_t packet_size) {
  const auto view = check_shape(bytes);
  if (!view) {
    return view;
  }
  if (view->total_length() < view->header_length() || view->total_length() > packet_size) {
    return std::unexpected(Ipv4Malformed::bad_total_length);
  }
  // RFC 1122 section 3.2.1.2: "A host MUST verify the IP header checksum on every received datagram and silently
  // discard every datagram that has a bad checksum."
  if (!sum_holds(header_sum(bytes.first(view->header_length())))) {
    return std::unexpected(Ipv4Malformed::bad_checksum);
  }
  if (view->is_fragment() && !fragment_fits(*view)) {
    return std::unexpected(Ipv4Malformed::bad_fragment);
  }
  return view;
}

std::expected<Ipv4View, Ipv4Malformed> Ipv4View::check_quoted(ConstBytes bytes) { return check_shape(bytes); }

Ipv4Header Ipv4Header::of(const Ipv4View& view) {
  return {view.type_of_service(), view.payload_length(),  view.identification(), view.dont_fragment(),
          view.more_fragments(),  view.fragment_offset(), view.time_to_live(),   view.protocol(),
          view.source(),          view.destination()};
}

std::expected<Ipv4Header, Ipv4Malformed> Ipv4Header::parse(ConstBytes packet) {
  const auto view = Ipv4View::check(packet);
  if (!view) {
    return std::unexpected(view.error());
  }
  return of(*view);
}

void Ipv4Header::emit(Bytes out) const {
  SLUICE_REQUIRE(out.size() >= size && payload_length <= payload_length_max && fragment_offset % 8 == 0);
  const unsigned flags = (dont_fragment ? 0x4000U : 0U) | (more_fragments ? 0x2000U : 0U);
  std::byte* at = out.data();
  at[0] = std::byte{0x45};
  at[Ipv4View::type_of_service_offset] = std::byte{type_of_service};
  store_big_endian(at + Ipv4View::total_length_offset, static_cast<std::uint16_t>(size + payload_length));
  store_big_endian(at + Ipv4View::identification_offset, identification);
  store_big_endian(at + Ipv4View::fragment_word_offset, static_cast<std::uint16_t>(flags | (fragment_offset / 8U)));
  at[Ipv4View::time_to_live_offset] = std::byte{time_to_live};
  at[Ipv4View::protocol_offset] = std::byte{protocol};
  store_checksum(at + Ipv4View::checksum_offset, 0);
  source.store(at + Ipv4View::source_offset);
  destination.store(at + Ipv4View::destination_offset);
  store_checksum(at + Ipv4View::checksum_offset, checksum_of(header_sum(out.first(size))));
}

}  // namespace sluice::wire
