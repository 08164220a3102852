// SPDX-License-Identifier: Apache-2.0
#include "fuzz/round_trip.h"
#include "stack/wire/arp.h"
#include "stack/wire/ethernet.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace sluice;
  const ConstBytes frame = fuzz::input(data, size);
  const auto header = wire::EthernetHeader::parse(frame);
  if (!header) {
    return 0;
  }
  fuzz::round_trip_header(*header, 0);
  if (header->type != wire::ethertype_arp) {
    return 0;
  }
  const auto packet = wire::ArpPacket::parse(frame.subspan(wire::EthernetHeader::size));
  if (packet) {
    fuzz::round_trip_header(*packet, 0);
  }
  return 0;
}
