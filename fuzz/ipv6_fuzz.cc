// SPDX-License-Identifier: Apache-2.0
#include "fuzz/round_trip.h"
#include "stack/wire/ipv6.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace sluice;
  const ConstBytes packet = fuzz::input(data, size);
  const auto header = wire::Ipv6Header::parse(packet);
  if (!header) {
    return 0;
  }
  fuzz::round_trip_header(*header, header->payload_length);

  const ConstBytes payload = packet.subspan(wire::Ipv6Header::size, header->payload_length);
  const auto found = wire::walk_extensions(header->next_header, payload, payload.size());
  if (!found) {
    SLUICE_REQUIRE(found.error().pointer <= packet.size());
    return 0;
  }
  SLUICE_REQUIRE(found->offset <= payload.size());
  SLUICE_REQUIRE(static_cast<std::uint8_t>(packet[found->protocol_field]) == found->protocol);
  if (!found->fragment) {
    return 0;
  }
  std::vector<std::byte> bytes(wire::Ipv6FragmentHeader::size);
  found->fragment->emit(bytes);
  SLUICE_REQUIRE(wire::Ipv6FragmentHeader::parse(bytes) == found->fragment);
  return 0;
}
