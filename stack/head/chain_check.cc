// SPDX-License-Identifier: Apache-2.0
#include "stack/head/chain_check.h"

#include <fmt/format.h>

#include <array>
#include <deque>
#include <optional>
#include <vector>

namespace sluice {
namespace {

constexpr std::array all_services{Service::link, Service::network, Service::transport, Service::user};

std::string names_of(ServiceSet accepted) {
  std::string names;
  for (const Service service : all_services) {
    if ((accepted & accepts(service)) != 0) {
      names += (names.empty() ? "the " : " or the ") + std::string(service_name(service));
    }
  }
  return names;
}

/// The shortest list of modules that leads from the service `from` to one that `accepted` holds.
std::optional<std::vector<std::string_view>> bridge(Service from, ServiceSet accepted, const Registry& registry) {
  struct Step {
    Service service;
    std::vector<std::string_view> pushed;
  };
  std::deque<Step> frontier{{from, {}}};
  ServiceSet seen = accepts(from);
  while (!frontier.empty()) {
    const Step step = std::move(frontier.front());
    frontier.pop_front();
    if ((accepted & accepts(step.service)) != 0) {
      return step.pushed;
    }
    for (const auto& [name, entry] : registry.entries()) {
      const bool fits =
          entry.kind == Entry::Kind::module && !entry.transparent && (entry.lower & accepts(step.service)) != 0;
      if (fits && (seen & accepts(entry.upper)) == 0) {
        seen |= accepts(entry.upper);
        Step next{entry.upper, step.pushed};
        next.pushed.push_back(name);
        frontier.push_back(std::move(next));
      }
    }
  }
  return std::nullopt;
}

std::string advice(Service found, const Entry& needing, const Registry& registry) {
  const auto modules = bridge(found, needing.lower, registry);
  if (!modules || modules->empty()) {
    return "nothing that can be pushed leads there";
  }
  std::string list;
  for (const std::string_view name : *modules) {
    list += fmt::format("{}\"{}\"", list.empty() ? "" : ", ", name);
  }
  return "push " + list + " between them";
}

}  // namespace

std::optional<ChainFault> chain_fault(std::span<const Entry* const> chain, const Registry& registry) {
  Service offered = chain.front()->upper;
  std::string_view below = chain.front()->name;
  for (std::size_t position = 1; position < chain.size(); ++position) {
    const Entry& entry = *chain[position];
    if ((entry.lower & accepts(offered)) == 0) {
      return ChainFault{
          position, fmt::format("'{}' needs {} below it, but '{}' offers the {}; {}", entry.name, names_of(entry.lower),
                                below, service_name(offered), advice(offered, entry, registry))};
    }
    offered = entry.transparent ? offered : entry.upper;
    below = entry.transparent ? below : entry.name;
  }
  return std::nullopt;
}

}  // namespace sluice
