// SPDX-License-Identifier: Apache-2.0
#include "stack/core/known_sums.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "base/contract.h"
#include "base/internet_checksum.h"

namespace sluice {

KnownSums::KnownSums(ConstBytes bytes, const Stretches& stretches, std::vector<std::uint16_t> sums)
    : bytes_(bytes), stretches_(stretches), sums_(std::move(sums)) {
  SLUICE_REQUIRE(0 < stretches_.first && stretches_.first <= stretches_.each);
  SLUICE_REQUIRE(stretches_to(bytes_.size()) == sums_.size());
}

std::optional<std::size_t> KnownSums::stretches_to(std::size_t offset) const {
  if (offset == bytes_.size()) {
    const std::size_t behind = offset - std::min(offset, stretches_.first);
    return (offset == 0 ? 0 : 1) + (behind + stretches_.each - 1) / stretches_.each;
  }
  if (offset == 0) {
    return 0;
  }
  const bool ends = offset >= stretches_.first && (offset - stretches_.first) % stretches_.each == 0;
  return ends ? std::optional(1 + (offset - stretches_.first) / stretches_.each) : std::nullopt;
}

std::optional<std::uint16_t> KnownSums::of(ConstBytes bytes) const {
  const std::byte* const end = bytes_.data() + bytes_.size();
  if (std::less<>{}(bytes.data(), bytes_.data()) || std::less<>{}(end, bytes.data() + bytes.size())) {
    return std::nullopt;
  }
  const auto offset = static_cast<std::size_t>(bytes.data() - bytes_.data());
  const auto first = stretches_to(offset);
  const auto last = stretches_to(offset + bytes.size());
  if (!first || !last) {
    return std::nullopt;
  }
  std::uint16_t sum = 0;
  std::size_t summed = 0;
  for (std::size_t at = *first; at < *last; ++at) {
    sum = add_sums(sum, sums_[at], summed);
    summed += at == 0 ? stretches_.first : stretches_.each;
  }
  return sum;
}

}  // namespace sluice
