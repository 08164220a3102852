// SPDX-License-Identifier: Apache-2.0
// A fuzzer finds neither checksums nor complements, so each input is read as it is, and with both made right.
#include <algorithm>

#include "base/internet_checksum.h"
#include "fuzz/round_trip.h"
#include "stack/wire/rmpp.h"

namespace {

using sluice::Bytes;
using sluice::ConstBytes;
using sluice::wire::RmppHeader;

void check(ConstBytes packet) {
  const auto header = RmppHeader::parse(packet);
  if (!header) {
    return;
  }
  SLUICE_REQUIRE(header->offset() + header->length <= header->total_bytes);
  SLUICE_REQUIRE(header->index < header->packets());
  sluice::fuzz::round_trip_header(*header, header->length);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const ConstBytes packet = sluice::fuzz::input(data, size);
  check(packet);
  if (size < RmppHeader::size) {
    return 0;
  }
  std::vector<std::byte> right(packet.begin(), packet.end());
  const auto complement = [&right](std::size_t from, std::size_t count, std::size_t to) {
    for (std::size_t at = 0; at < count; ++at) {
      right[to + at] = ~right[from + at];
    }
  };
  complement(1, 2, 48);   // type, flags
  complement(16, 2, 50);  // attempt
  complement(12, 4, 52);  // number
  complement(20, 4, 56);  // index
  complement(26, 2, 60);  // length
  sluice::store_checksum(right.data() + 62, 0);
  sluice::store_checksum(right.data() + 62,
                         sluice::checksum_of(sluice::header_sum(ConstBytes(right).first(RmppHeader::size))));
  check(right);
  return 0;
}
