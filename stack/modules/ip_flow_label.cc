// SPDX-License-Identifier: Apache-2.0
#include "stack/modules/ip_flow_label.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "stack/modules/siphash.h"

namespace sluice::ip {
std::uint32_t FlowLabels::of(const wire::Ipv6Address& source, const wire::Ipv6Address& destination,
                             std::uint8_t protocol, std::uint32_t ports) const {
  std::array<std::byte, 2 * wire::Ipv6Address::size + sizeof ports + 1> input{};
  source.store(input.data());
  destination.store(input.data() + wire::Ipv6Address::size);
  std::memcpy(input.data() + 2 * wire::Ipv6Address::size, &ports, sizeof ports);
  input.back() = static_cast<std::byte>(protocol);
  const auto label = static_cast<std::uint32_t>(siphash(key0_, key1_, input) & 0xf'ffffU);
  return std::max(label, 1U);
}

}  // namespace sluice::ip
