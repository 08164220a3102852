// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/files/filter_syntax.h"

#include <algorithm>
#include <array>
#include <optional>

#include "apps/ftx/protocol/name.h"

namespace sluice::ftx {
namespace {

struct Word {
  std::string_view word;
  char letter;
};
constexpr std::array<Word, 10> words{{{"exclude", '-'},
                                      {"include", '+'},
                                      {"merge", '.'},
                                      {"dir-merge", ':'},
                                      {"hide", 'H'},
                                      {"show", 'S'},
                                      {"protect", 'P'},
                                      {"risk", 'R'},
                                      {"clear", '!'},
                                      {"", '\0'}}};

std::unexpected<std::string> wrong(std::string_view rule, std::string_view why) {
  return std::unexpected("filter rule '" + printable(rule) + "': " + std::string(why));
}

/// Which rule `text` begins with; the letter is 0 where it is none. A word ends where its name does.
Word word_of(std::string_view text) {
  const auto named = std::ranges::find_if(words, [&](const Word& one) {
    const std::string_view behind = text.substr(std::min(one.word.size(), text.size()));
    return text.starts_with(one.word) && (behind.empty() || behind.find_first_of(" _,") == 0);
  });
  if (named != words.end() && named->letter != '\0') {
    return *named;
  }
  const auto letter = std::ranges::find_if(words, [&](const Word& one) { return text.starts_with(one.letter); });
  return letter == words.end() || text.empty() ? Word{{}, '\0'} : Word{text.substr(0, 1), letter->letter};
}

}  // namespace

struct FilterSyntax::Head {
  char letter = 0;
  std::string_view modifiers;
  std::string_view rest;  // the pattern or the file
};

std::expected<FilterSyntax::Head, std::string> FilterSyntax::parse_head(std::string_view text) {
  const Word word = word_of(text);
  if (word.letter == '\0') {
    return wrong(text,
                 "expected '- PATTERN', '+ PATTERN', '. FILE', 'P PATTERN', 'R PATTERN', 'H PATTERN', 'S "
                 "PATTERN' or '!'");
  }
  Head head{word.letter, {}, text.substr(word.word.size())};
  const bool comma = head.rest.starts_with(',');
  head.rest.remove_prefix(comma ? 1 : 0);
  if (comma || word.word.size() == 1) {
    const std::size_t end = std::min(head.rest.find_first_of(" _"), head.rest.size());
    head.modifiers = head.rest.substr(0, end);
    head.rest.remove_prefix(end);
  }
  head.rest.remove_prefix(head.rest.empty() ? 0 : 1);
  const bool either_side = head.letter == '-' || head.letter == '+';
  const std::string_view allowed = head.letter == '.' ? "-+" : head.letter == '!' ? "" : either_side ? "!sr" : "!";
  if (head.letter == ':') {
    return wrong(text, "ftx has no rules of single directories (':', dir-merge)");
  }
  if (const std::size_t bad = head.modifiers.find_first_not_of(allowed); bad != std::string_view::npos) {
    return wrong(text, "ftx has no modifier '" + printable(head.modifiers.substr(bad, 1)) + "' there");
  }
  if (head.rest.empty() != (head.letter == '!')) {
    return wrong(text, head.rest.empty() ? "a pattern is missing" : "nothing may follow");
  }
  return head;
}

FilterSyntax::Added FilterSyntax::add(FilterRule rule, bool names_side) {
  if (rule.pattern.empty()) {
    return std::unexpected("an empty pattern matches nothing");
  }
  if (entries_.size() >= filter_rules_max) {
    return std::unexpected("more than " + std::to_string(filter_rules_max) + " filter rules");
  }
  if (rule.pattern.size() > filter_pattern_bytes_max) {
    return wrong(rule.pattern.substr(0, 40) + "...",
                 "the pattern is longer than " + std::to_string(filter_pattern_bytes_max) + " bytes");
  }
  if (rule.pattern.find('\0') != std::string::npos) {
    return wrong(rule.pattern, "no name holds a NUL");
  }
  entries_.push_back({std::move(rule), names_side});
  return {};
}

FilterSyntax::Added FilterSyntax::add_pattern(std::string_view text, bool include) {
  if (text == "!") {
    entries_.clear();
    return {};
  }
  if (text.starts_with("- ") || text.starts_with("+ ")) {
    include = text.front() == '+';
    text.remove_prefix(2);
  }
  return add({.include = include, .pattern = std::string(text)}, false);
}

FilterSyntax::Added FilterSyntax::add_rule(std::string_view text, int merges) {
  const auto head = parse_head(text);
  if (!head) {
    return std::unexpected(head.error());
  }
  const auto has = [&](char modifier) { return head->modifiers.find(modifier) != std::string_view::npos; };
  if (head->letter == '!') {
    entries_.clear();
    return {};
  }
  if (head->letter == '.') {
    const std::string path(head->rest);
    if (has('-') || has('+')) {
      return add_lines(
          path, [&](std::string_view line) { return add({.include = has('+'), .pattern = std::string(line)}, false); });
    }
    if (merges >= merges_max) {
      return wrong(text, "files merge each other more than " + std::to_string(merges_max) + " deep");
    }
    return add_lines(path, [&](std::string_view line) { return add_rule(line, merges + 1); });
  }
  const char letter = head->letter;
  const bool receiver_rule = letter == 'P' || letter == 'R';
  const bool sender_rule = letter == 'H' || letter == 'S';
  const bool s = sender_rule || has('s');
  const bool r = receiver_rule || has('r');
  return add({.include = letter == '+' || letter == 'S' || letter == 'R',
              .negate = has('!'),
              .sends = s || !r,
              .receives = r || !s,
              .pattern = std::string(head->rest)},
             s || r);
}

template <class AddLine>
FilterSyntax::Added FilterSyntax::add_lines(const std::string& path, AddLine add_line) {
  const auto content = read_file_(path);
  if (!content) {
    return std::unexpected("cannot read '" + printable(path) + "': " + content.error());
  }
  std::string_view rest = *content;
  for (std::size_t number = 1; !rest.empty(); ++number) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (line.ends_with('\r')) {
      line.remove_suffix(1);
    }
    if (line.empty() || line.front() == '#' || line.front() == ';') {
      continue;
    }
    if (auto added = add_line(line); !added) {
      return std::unexpected(printable(path) + ":" + std::to_string(number) + ": " + added.error());
    }
  }
  return {};
}

FilterSyntax::Added FilterSyntax::add_patterns_of(const std::string& path, bool include) {
  return add_lines(path, [&](std::string_view line) { return add_pattern(line, include); });
}

FilterRules FilterSyntax::rules(bool delete_excluded) const {
  FilterRules rules;
  for (const Entry& entry : entries_) {
    rules.push_back(entry.rule);
    rules.back().receives = entry.rule.receives && (entry.names_side || !delete_excluded);
  }
  return rules;
}

}  // namespace sluice::ftx
