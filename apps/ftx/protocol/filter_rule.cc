// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/protocol/filter_rule.h"

#include <algorithm>

namespace sluice::ftx {
namespace {

enum RuleFlag : std::uint8_t { includes = 1, negated = 2, for_sender = 4, for_receiver = 8, all_rule_flags = 15 };

std::uint8_t flags_of(const FilterRule& rule) {
  return static_cast<std::uint8_t>((rule.include ? includes : 0) | (rule.negate ? negated : 0) |
                                   (rule.sends ? for_sender : 0) | (rule.receives ? for_receiver : 0));
}

bool is_rule(const FilterRule& rule) {
  return !rule.pattern.empty() && rule.pattern.size() <= filter_pattern_bytes_max &&
         rule.pattern.find('\0') == std::string::npos && (rule.sends || rule.receives);
}

}  // namespace

bool fit(const FilterRules& rules) { return rules.size() <= filter_rules_max && std::ranges::all_of(rules, is_rule); }

std::size_t encoded_bytes(const FilterRules& rules) {
  std::size_t size = 2;
  for (const FilterRule& rule : rules) {
    size += 1 + 2 + rule.pattern.size();
  }
  return size;
}

void put(Writer& writer, const FilterRules& rules) {
  writer.number(static_cast<std::uint16_t>(rules.size()));
  for (const FilterRule& rule : rules) {
    writer.number(flags_of(rule)).number(static_cast<std::uint16_t>(rule.pattern.size()));
    writer.bytes(as_bytes(rule.pattern));
  }
}

std::optional<FilterRules> take_filter_rules(Reader& reader) {
  const std::size_t count = reader.number<std::uint16_t>();
  if (count > filter_rules_max) {
    return std::nullopt;
  }
  FilterRules rules;
  for (std::size_t i = 0; i < count; ++i) {
    const auto flags = reader.number<std::uint8_t>();
    FilterRule rule{.include = (flags & includes) != 0,
                    .negate = (flags & negated) != 0,
                    .sends = (flags & for_sender) != 0,
                    .receives = (flags & for_receiver) != 0,
                    .pattern = std::string(as_text(reader.take(reader.number<std::uint16_t>())))};
    if (!reader.ok() || flags > all_rule_flags || !is_rule(rule)) {
      return std::nullopt;
    }
    rules.push_back(std::move(rule));
  }
  return reader.ok() ? std::optional(std::move(rules)) : std::nullopt;
}

}  // namespace sluice::ftx
