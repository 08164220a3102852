// SPDX-License-Identifier: Apache-2.0
#include "fuzz/round_trip.h"
#include "stack/wire/udp.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace sluice;
  const ConstBytes datagram = fuzz::input(data, size);
  const auto header = wire::UdpHeader::parse(datagram);
  if (!header) {
    return 0;
  }
  SLUICE_REQUIRE(wire::UdpHeader::size + header->payload_length <= datagram.size());
  fuzz::round_trip_header(*header, header->payload_length);

  // Header and pseudo-header summed field by field are what they are summed as bytes.
  const wire::IpAddress address = wire::Ipv4Address{{10, 77, 0, 1}};
  const auto length = static_cast<std::uint32_t>(wire::UdpHeader::size + header->payload_length);
  const auto by_bytes = add_sums(wire::pseudo_header_sum(address, address, wire::protocol_udp, length),
                                 header_sum(datagram.first(wire::UdpHeader::size)));
  SLUICE_REQUIRE(wire::udp_sum(address, address, *header) == by_bytes);
  return 0;
}
