// SPDX-License-Identifier: Apache-2.0
#include "fuzz/round_trip.h"
#include "stack/wire/icmp6.h"
#include "stack/wire/ndp.h"

namespace {

template <class Message>
void round_trip_ndp(sluice::ConstBytes bytes) {
  const auto message = Message::parse(bytes);
  if (!message) {
    return;
  }
  std::vector<std::byte> emitted(Message::size_max);
  emitted.resize(message->emit(emitted));
  const auto again = Message::parse(emitted);
  SLUICE_REQUIRE(again && *again == *message);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace sluice;
  const ConstBytes bytes = fuzz::input(data, size);
  round_trip_ndp<wire::NeighborSolicitation>(bytes);
  round_trip_ndp<wire::NeighborAdvertisement>(bytes);
  if (const auto advertisement = wire::RouterAdvertisement::parse(bytes)) {
    ConstBytes options = advertisement->options;
    while (wire::next_prefix(options)) {
      SLUICE_REQUIRE(options.size() < advertisement->options.size());
    }
    SLUICE_REQUIRE(options.empty());
  }
  const auto message = wire::parse_icmp6(bytes);
  if (!message) {
    return 0;
  }
  std::vector<std::byte> header(wire::icmp_header_size);
  wire::emit_icmp6(*message, header);
  const auto again = wire::parse_icmp6(header);
  SLUICE_REQUIRE(again && *again == *message);
  return 0;
}
