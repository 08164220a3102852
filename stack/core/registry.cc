// SPDX-License-Identifier: Apache-2.0
#include "stack/core/registry.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/contract.h"

namespace sluice {
namespace {

/// Optimal string alignment: insertions, deletions, substitutions and swaps of neighbours, one each.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before(b.size() + 1);
  std::vector<std::size_t> row(b.size() + 1);
  std::vector<std::size_t> next(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    next[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t substitution = row[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      next[j] = std::min({row[j] + 1, next[j - 1] + 1, substitution});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        next[j] = std::min(next[j], before[j - 2] + 1);
      }
    }
    before.swap(row);
    row.swap(next);
  }
  return row[b.size()];
}

template <class T>
const T* value_of(const std::map<std::string, ParameterValue, std::less<>>& values, std::string_view name) {
  const auto found = values.find(name);
  if (found == values.end()) {
    return nullptr;
  }
  const T* value = std::get_if<T>(&found->second);
  SLUICE_REQUIRE(value != nullptr);
  return value;
}

}  // namespace

std::string_view service_name(Service service) {
  switch (service) {
    case Service::link:
      return "DLPI link service";
    case Service::network:
      return "TPI network service";
    case Service::transport:
      return "TPI transport service";
    case Service::user:
      return "user service";
  }
  return "";
}

bool Parameters::boolean(std::string_view name, bool otherwise) const {
  const bool* value = value_of<bool>(values_, name);
  return value == nullptr ? otherwise : *value;
}

std::int64_t Parameters::integer(std::string_view name, std::int64_t otherwise) const {
  const auto* value = value_of<std::int64_t>(values_, name);
  return value == nullptr ? otherwise : *value;
}

double Parameters::real(std::string_view name, double otherwise) const {
  const double* value = value_of<double>(values_, name);
  return value == nullptr ? otherwise : *value;
}

std::string Parameters::text(std::string_view name, std::string_view otherwise) const {
  const auto* value = value_of<std::string>(values_, name);
  return value == nullptr ? std::string(otherwise) : *value;
}

std::vector<std::string> Parameters::texts(std::string_view name) const {
  const auto found = values_.find(name);
  if (found != values_.end() && std::holds_alternative<std::string>(found->second)) {
    return {std::get<std::string>(found->second)};
  }
  const auto* value = value_of<std::vector<std::string>>(values_, name);
  return value == nullptr ? std::vector<std::string>{} : *value;
}

void Registry::add(Entry entry) {
  const std::string_view name = entry.name;
  const bool added = entries_.emplace(name, std::move(entry)).second;
  SLUICE_REQUIRE(added);
}

const Entry* Registry::find(std::string_view name) const {
  const auto found = entries_.find(name);
  return found == entries_.end() ? nullptr : &found->second;
}

std::string_view Registry::nearest(std::string_view name, Entry::Kind kind) const {
  std::vector<std::string_view> candidates;
  for (const auto& [candidate, entry] : entries_) {
    if (entry.kind == kind) {
      candidates.push_back(candidate);
    }
  }
  return nearest_spelling(name, candidates);
}

std::string_view nearest_spelling(std::string_view word, std::span<const std::string_view> candidates) {
  std::string_view best;
  std::size_t best_distance = std::max<std::size_t>(1, word.size() / 3) + 1;
  for (const std::string_view candidate : candidates) {
    const std::size_t distance = edit_distance(word, candidate);
    if (distance < best_distance) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

}  // namespace sluice
