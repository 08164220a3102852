// SPDX-License-Identifier: Apache-2.0
#pragma once

// What the streams of a link want together, for devices that filter: how many want each SAP and group is counted, so
// that a change costs what the stream at hand wants, however many others there are.

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "dlpi/demultiplexer.h"
#include "stack/wire/address.h"

namespace sluice::dlpi {

struct Interests {
  std::vector<std::uint16_t> saps;       // sorted, no duplicates
  std::vector<wire::MacAddress> groups;  // likewise
  /// Whose IP packets to one host; sorted, no duplicates. Absent: everybody's.
  std::optional<std::vector<wire::IpAddress>> hosts;
  bool any_sap = false;
  bool all_groups = false;
  bool promiscuous = false;

  friend bool operator==(const Interests&, const Interests&) = default;
};

class InterestCounts {
 public:
  /// A stream wants that from now on.
  void add(const Subscription& wanted) { change(wanted, 1); }
  /// It wants that no longer. REQUIRES: it was added.
  void remove(const Subscription& wanted) { change(wanted, -1); }
  /// All but the hosts.
  [[nodiscard]] Interests together() const;
  /// How many want more than to be bound to SAPs.
  [[nodiscard]] std::ptrdiff_t not_plain() const { return not_plain_; }

 private:
  void change(const Subscription& wanted, std::ptrdiff_t by);

  std::map<std::uint16_t, std::ptrdiff_t> saps_;
  std::map<wire::MacAddress, std::ptrdiff_t> groups_;
  std::ptrdiff_t watching_ = 0;
  std::ptrdiff_t watching_groups_ = 0;
  std::ptrdiff_t watching_all_ = 0;
  std::ptrdiff_t not_plain_ = 0;
};

}  // namespace sluice::dlpi
