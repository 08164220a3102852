// SPDX-License-Identifier: Apache-2.0
#pragma once

// FilterSyntax: the filter rules of a command line and of the files that it names, as rsync(1) writes them.
//
//   - PATTERN   exclude          + PATTERN   include         . FILE   merge: the rules in FILE, here
//   H PATTERN   hide: not sent   S PATTERN   show            !        clear: forget the rules so far
//   P PATTERN   protect: not removed         R PATTERN risk
//
// or the words, with ' ' or '_' behind them. Modifiers follow a letter, or a ',' behind it or the word: '!' (the rule
// counts for what does not match), 's' and 'r' (it counts on the side that sends, that receives); of a merge '-' and
// '+' (each line as a whole is a pattern to exclude, to include). Refused with an error that says so: per-directory
// merge (':'), the modifiers '/', 'C', 'p', 'x', 'e', 'n', 'w'.
//
// In a file, empty lines and lines that begin with '#' or ';' are skipped.
//
// Reads no file itself. Not thread-safe.

#include <expected>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "apps/ftx/protocol/filter_rule.h"

namespace sluice::ftx {

class FilterSyntax {
 public:
  /// The content of a file, or why it cannot be read.
  using ReadFile = std::function<std::expected<std::string, std::string>(const std::string& path)>;
  using Added = std::expected<void, std::string>;
  /// How many files may merge each other.
  static constexpr int merges_max = 16;

  explicit FilterSyntax(ReadFile read_file) : read_file_(std::move(read_file)) {}

  /// As --filter has it.
  [[nodiscard]] Added add_rule(std::string_view text) { return add_rule(text, 0); }
  /// As --exclude and --include have it: a pattern, which "- " or "+ " in front makes one of the other kind, or "!".
  [[nodiscard]] Added add_pattern(std::string_view text, bool include);
  /// As --exclude-from and --include-from have it: a pattern a line. The error names the line.
  [[nodiscard]] Added add_patterns_of(const std::string& path, bool include);

  /// The rules in their order. `delete_excluded`: those that name no side do not keep anything from being removed.
  [[nodiscard]] FilterRules rules(bool delete_excluded) const;

 private:
  struct Entry {
    FilterRule rule;
    bool names_side = false;
  };
  struct Head;  // what stands before a pattern

  [[nodiscard]] static std::expected<Head, std::string> parse_head(std::string_view text);
  [[nodiscard]] Added add_rule(std::string_view text, int merges);
  [[nodiscard]] Added add(FilterRule rule, bool names_side);
  template <class AddLine>
  [[nodiscard]] Added add_lines(const std::string& path, AddLine add_line);

  ReadFile read_file_;
  std::vector<Entry> entries_;
};

}  // namespace sluice::ftx
