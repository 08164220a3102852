// SPDX-License-Identifier: Apache-2.0
#include "dlpi/interests.h"

namespace sluice::dlpi {
namespace {

template <class Key>
void change_count(std::map<Key, std::ptrdiff_t>& counts, const Key& key, std::ptrdiff_t by) {
  const auto at = counts.try_emplace(key).first;
  at->second += by;
  if (at->second == 0) {
    counts.erase(at);
  }
}

}  // namespace

void InterestCounts::change(const Subscription& wanted, std::ptrdiff_t by) {
  for (const std::uint16_t sap : wanted.saps) {
    change_count(saps_, sap, by);
  }
  for (const wire::MacAddress& group : wanted.groups) {
    change_count(groups_, group, by);
  }
  watching_ += wanted.watches() ? by : 0;
  watching_groups_ += wanted.promiscuous_multi ? by : 0;
  watching_all_ += wanted.promiscuous_phys ? by : 0;
  not_plain_ += wanted.is_plain() ? 0 : by;
}

Interests InterestCounts::together() const {
  Interests all;
  for (const auto& [sap, count] : saps_) {
    all.saps.push_back(sap);
  }
  for (const auto& [group, count] : groups_) {
    all.groups.push_back(group);
  }
  all.any_sap = watching_ > 0;
  all.all_groups = watching_groups_ > 0;
  all.promiscuous = watching_all_ > 0;
  return all;
}

}  // namespace sluice::dlpi
