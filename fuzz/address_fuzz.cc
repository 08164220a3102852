// SPDX-License-Identifier: Apache-2.0
// Address text, and TPI address bytes: whatever is accepted is written in a form that is read as the same address.
#include "fuzz/round_trip.h"
#include "stack/wire/address.h"

namespace {

template <class Address>
void round_trip_text(std::string_view text) {
  const auto address = Address::from_text(text);
  if (!address) {
    SLUICE_REQUIRE(!address.error().text.empty());
    return;
  }
  const auto again = Address::from_text(address->to_text());
  SLUICE_REQUIRE(again && *again == *address);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace sluice;
  const ConstBytes bytes = fuzz::input(data, size);
  const std::string_view text = as_text(bytes);
  round_trip_text<wire::MacAddress>(text);
  round_trip_text<wire::Ipv4Address>(text);
  round_trip_text<wire::Ipv6Address>(text);
  round_trip_text<wire::IpAddress>(text);
  round_trip_text<wire::IpPrefix>(text);
  round_trip_text<wire::TransportAddress>(text);
  fuzz::round_trip_bounded<wire::TransportAddress>(bytes);
  fuzz::round_trip_bounded<wire::NetworkAddress>(bytes);
  return 0;
}
