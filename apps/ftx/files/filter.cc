// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/files/filter.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>

#include "base/contract.h"

namespace sluice::ftx {
namespace {

constexpr std::string_view wildcards = "*?[";

struct CharacterClass {
  std::string_view name;
  int (*has)(int);
};
/// Those of POSIX, in the C locale.
constexpr std::array<CharacterClass, 12> character_classes{{{"alnum", std::isalnum},
                                                            {"alpha", std::isalpha},
                                                            {"blank", std::isblank},
                                                            {"cntrl", std::iscntrl},
                                                            {"digit", std::isdigit},
                                                            {"graph", std::isgraph},
                                                            {"lower", std::islower},
                                                            {"print", std::isprint},
                                                            {"punct", std::ispunct},
                                                            {"space", std::isspace},
                                                            {"upper", std::isupper},
                                                            {"xdigit", std::isxdigit}}};

using Set = std::bitset<256>;

/// The place behind the class "[:name:]" that begins at `at` of the pattern; 0: there is none.
std::size_t end_of_class(std::string_view pattern, std::size_t at) {
  if (!pattern.substr(at).starts_with("[:")) {
    return 0;
  }
  const std::size_t end = pattern.find(']', at + 2);
  return end != std::string_view::npos && end > at + 2 && pattern[end - 1] == ':' ? end + 1 : 0;
}

/// False: there is no class of that name.
bool add_class(Set& set, std::string_view name) {
  const auto* const found = std::ranges::find(character_classes, name, &CharacterClass::name);
  if (found == character_classes.end()) {
    return false;
  }
  for (int byte = 0; byte < 256; ++byte) {
    set[static_cast<std::size_t>(byte)] = set[static_cast<std::size_t>(byte)] || found->has(byte) != 0;
  }
  return true;
}

struct ParsedSet {
  Set set;
  std::size_t end = 0;  // behind the ']'
};

/// The bytes between the '[' before `at` and its ']'. Null: it has none, or a class that there is not.
std::optional<ParsedSet> parse_set(std::string_view pattern, std::size_t at) {
  ParsedSet parsed;
  const bool negated = at < pattern.size() && (pattern[at] == '!' || pattern[at] == '^');
  at += negated ? 1 : 0;
  /// One byte, perhaps behind a backslash.
  const auto take = [&]() -> std::optional<std::uint8_t> {
    at += at < pattern.size() && pattern[at] == '\\' ? 1 : 0;
    return at < pattern.size() ? std::optional(static_cast<std::uint8_t>(pattern[at++])) : std::nullopt;
  };
  for (bool first = true; first || (at < pattern.size() && pattern[at] != ']'); first = false) {
    if (const std::size_t end = end_of_class(pattern, at); end != 0) {
      if (!add_class(parsed.set, pattern.substr(at + 2, end - at - 4))) {
        return std::nullopt;
      }
      at = end;
      continue;
    }
    const auto from = take();
    if (!from) {
      return std::nullopt;
    }
    auto to = from;
    if (at + 1 < pattern.size() && pattern[at] == '-' && pattern[at + 1] != ']') {
      ++at;
      to = take();
    }
    for (std::size_t byte = *from; to && byte <= *to; ++byte) {
      parsed.set.set(byte);
    }
  }
  if (at >= pattern.size()) {
    return std::nullopt;
  }
  parsed.end = at + 1;
  if (negated) {
    parsed.set.flip();
  }
  parsed.set.reset('/');
  return parsed;
}

/// The last `count` components of a path, all of it for 0. Null: it has fewer.
std::optional<std::string_view> last_components(std::string_view path, std::size_t count) {
  std::size_t from = count == 0 ? 0 : path.size() + 1;
  for (; count > 0; --count) {
    if (from == 0) {
      return std::nullopt;
    }
    const std::size_t slash = from < 2 ? std::string_view::npos : path.find_last_of('/', from - 2);
    from = slash == std::string_view::npos ? 0 : slash + 1;
  }
  return path.substr(from);
}

}  // namespace

Glob::Glob(std::string_view pattern) {
  using StepKind = Step::Kind;
  for (std::size_t at = 0; at < pattern.size();) {
    const char byte = pattern[at++];
    if (byte == '?') {
      steps_.push_back({StepKind::any});
    } else if (byte == '[') {
      at = add_set(pattern, at);
    } else if (byte == '*') {
      const std::size_t end = std::min(pattern.find_first_not_of('*', at), pattern.size());
      steps_.push_back({end > at ? StepKind::star_star : StepKind::star});
      at = end;
    } else if (byte == '\\') {
      steps_.push_back(at < pattern.size() ? Step{StepKind::byte, static_cast<std::uint8_t>(pattern[at])}
                                           : Step{StepKind::never});
      ++at;
    } else {
      steps_.push_back({StepKind::byte, static_cast<std::uint8_t>(byte)});
    }
  }
  for (auto step = steps_.rbegin(); step != steps_.rend() && step->kind == StepKind::byte; ++step) {
    ending_.insert(ending_.begin(), static_cast<char>(step->byte));
  }
  reached_.resize(steps_.size() + 1);
}

/// The class behind the '[' before `at`; answers the place behind it. One without an end matches nothing.
std::size_t Glob::add_set(std::string_view pattern, std::size_t at) {
  const auto parsed = parse_set(pattern, at);
  if (!parsed) {
    steps_.push_back({Step::Kind::never});
    return pattern.size();
  }
  steps_.push_back({Step::Kind::one_of, 0, static_cast<std::uint16_t>(sets_.size())});
  sets_.push_back(parsed->set);
  return parsed->end;
}

/// A star may also take nothing.
void Glob::reach(std::vector<std::uint32_t>& states, std::uint32_t state) {
  for (; reached_[state] != turn_; ++state) {
    reached_[state] = turn_;
    states.push_back(state);
    if (state == steps_.size() ||
        (steps_[state].kind != Step::Kind::star && steps_[state].kind != Step::Kind::star_star)) {
      return;
    }
  }
}

bool Glob::takes(const Step& step, std::uint8_t byte) const {
  switch (step.kind) {
    case Step::Kind::byte:
      return byte == step.byte;
    case Step::Kind::any:
    case Step::Kind::star:
      return byte != '/';
    case Step::Kind::one_of:
      return sets_[step.set][byte];
    case Step::Kind::star_star:
      return true;
    case Step::Kind::never:
      return false;
  }
  return false;
}

bool Glob::matches(std::string_view subject) {
  if (!subject.ends_with(ending_)) {
    return false;
  }
  now_.clear();
  ++turn_;
  reach(now_, 0);
  for (const char byte : subject) {
    next_.clear();
    ++turn_;
    for (const std::uint32_t state : now_) {
      if (state == steps_.size() || !takes(steps_[state], static_cast<std::uint8_t>(byte))) {
        continue;
      }
      const bool stays = steps_[state].kind == Step::Kind::star || steps_[state].kind == Step::Kind::star_star;
      reach(next_, stays ? state : state + 1);
    }
    now_.swap(next_);
  }
  return std::ranges::find(now_, steps_.size()) != now_.end();
}

Filter::Filter(std::span<const FilterRule> rules, Side side) {
  for (const FilterRule& rule : rules) {
    SLUICE_REQUIRE(!rule.pattern.empty());
    if (side == Side::sender ? rule.sends : rule.receives) {
      rules_.push_back(compiled(rule));
    }
  }
}

/// Paths are matched with a '/' in front. A pattern that is not anchored has as many components as the end of a path
/// that it matches; one with "**" may begin behind any '/', as if "**/" stood before it.
Filter::Rule Filter::compiled(const FilterRule& rule) {
  std::string_view pattern = rule.pattern;
  const bool directories_only = pattern.size() > 1 && pattern.ends_with('/');
  pattern.remove_suffix(directories_only ? 1 : 0);
  const bool deep = pattern.find("**") != std::string_view::npos;
  const bool anchored = pattern.starts_with('/');
  const std::string rooted = (anchored ? "" : "/") + std::string(pattern);
  const bool literal = pattern.find_first_of(wildcards) == std::string_view::npos;
  std::string glob = rooted;
  if (!anchored && deep) {
    glob = pattern.starts_with("**") ? std::string(pattern) : "**" + rooted;
  }
  return {.include = rule.include,
          .negate = rule.negate,
          .directories_only = directories_only,
          .components = anchored || deep ? 0 : 1 + static_cast<std::size_t>(std::ranges::count(pattern, '/')),
          .everything_in = pattern.ends_with("***"),
          .anchored = anchored,
          .literal = literal ? rooted : std::string(),
          .glob = Glob(literal ? std::string_view() : glob)};
}

bool Filter::matches(Rule& rule, std::string_view path, bool directory) {
  if (rule.directories_only && !directory) {
    return rule.negate;
  }
  subject_ = '/';
  const auto end = last_components(path, rule.components);
  if (!end) {
    return rule.negate;
  }
  subject_ += *end;
  if (rule.everything_in && directory) {
    subject_ += '/';
  }
  const bool matched = rule.literal.empty() ? rule.glob.matches(subject_)
                       : rule.anchored      ? subject_ == rule.literal
                                            : subject_.ends_with(rule.literal);
  return matched != rule.negate;
}

bool Filter::excludes(std::string_view path, bool directory) {
  for (Rule& rule : rules_) {
    if (matches(rule, path, directory)) {
      return !rule.include;
    }
  }
  return false;
}

}  // namespace sluice::ftx
