// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "base/contract.h"
#include "fuzz/round_trip.h"
#include "stack/wire/options.h"

/// What is read of a buffer lies in it, and written again reads the same.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace sluice::wire::xti;
  const sluice::ConstBytes buffer = sluice::fuzz::input(data, size);
  std::vector<std::byte> written;
  OptionReader reader(buffer);
  std::size_t count = 0;
  std::size_t value_bytes = 0;
  while (const auto option = reader.next()) {
    append(written, *option);
    ++count;
    value_bytes += option->value.size();
  }
  SLUICE_REQUIRE(count * Option::header_size + value_bytes <= size);
  SLUICE_REQUIRE(is_well_formed(buffer) != reader.malformed());
  OptionReader first(buffer);
  OptionReader second(written);
  for (; count > 0; --count) {
    const auto was = first.next();
    const auto is = second.next();
    SLUICE_REQUIRE(was && is && was->level == is->level && was->name == is->name && was->status == is->status &&
                   std::ranges::equal(was->value, is->value));
  }
  SLUICE_REQUIRE(!second.next() && !second.malformed());
  return 0;
}
