// SPDX-License-Identifier: Apache-2.0
#include "fuzz/round_trip.h"
#include "stack/wire/icmp4.h"
#include "stack/wire/ipv4.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace sluice;
  const ConstBytes bytes = fuzz::input(data, size);
  const auto message = wire::parse_icmp4(bytes);
  if (!message) {
    return 0;
  }
  std::vector<std::byte> header(wire::icmp_header_size);
  wire::emit_icmp4(*message, header);
  const auto again = wire::parse_icmp4(header);
  SLUICE_REQUIRE(again && *again == *message);
  if (!wire::is_error(*message)) {
    return 0;
  }
  const ConstBytes quoted = bytes.subspan(wire::icmp_header_size);
  const auto view = wire::Ipv4View::check_quoted(quoted);
  SLUICE_REQUIRE(!view || view->header_length() <= quoted.size());
  return 0;
}
