// SPDX-License-Identifier: Apache-2.0
// A fuzzer does not find checksums, so each input is read as it is, as a quoted header, and with its checksum made
// right.
#include "fuzz/round_trip.h"
#include "stack/wire/ipv4.h"

namespace {

using sluice::ConstBytes;
using sluice::wire::Ipv4Header;
using sluice::wire::Ipv4View;

void check(ConstBytes packet) {
  const auto view = Ipv4View::check(packet);
  if (!view) {
    return;
  }
  SLUICE_REQUIRE(view->header_length() + view->payload_length() <= packet.size());
  SLUICE_REQUIRE(view->options().size() + Ipv4View::header_size_min == view->header_length());
  const Ipv4Header header = Ipv4Header::of(*view);
  // Without its options a fragment may end lower; everything else stays as it was.
  sluice::fuzz::round_trip_header(header, header.payload_length);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const ConstBytes packet = sluice::fuzz::input(data, size);
  check(packet);
  const auto quoted = Ipv4View::check_quoted(packet);
  if (!quoted) {
    return 0;
  }
  std::vector<std::byte> summed(packet.begin(), packet.end());
  sluice::store_checksum(summed.data() + 10, 0);
  const auto sum = sluice::header_sum(ConstBytes(summed).first(quoted->header_length()));
  sluice::store_checksum(summed.data() + 10, sluice::checksum_of(sum));
  check(summed);
  return 0;
}
