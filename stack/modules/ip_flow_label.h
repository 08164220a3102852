// SPDX-License-Identifier: Apache-2.0
#pragma once

// The flow labels of what this host sends (RFC 6437). Section 2: "Flow label values should be chosen such that their
// bits exhibit a high degree of variability, making them suitable for use as part of the input to a hash function used
// in a load distribution scheme. At the same time, third parties should be unlikely to be able to guess the next value
// that a source of flow labels will choose." So a label is a keyed hash (SipHash-2-4) of addresses, protocol and ports:
// stable for a flow without anything to remember, and not zero.
//
// What arrives may have any label; it changes nothing.
//
// A plain value. Threads: as any.

#include <cstdint>

#include "stack/wire/address.h"

namespace sluice::ip {

class FlowLabels {
 public:
  FlowLabels(std::uint64_t key0, std::uint64_t key1) : key0_(key0), key1_(key1) {}

  /// 1 to 2^20 - 1. `ports`: as they lie in the transport header; 0 where the protocol has none.
  [[nodiscard]] std::uint32_t of(const wire::Ipv6Address& source, const wire::Ipv6Address& destination,
                                 std::uint8_t protocol, std::uint32_t ports) const;

 private:
  std::uint64_t key0_;
  std::uint64_t key1_;
};

}  // namespace sluice::ip
