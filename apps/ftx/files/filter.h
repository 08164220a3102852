// SPDX-License-Identifier: Apache-2.0
#pragma once

// Filter: which paths of a tree a list of rules excludes, as rsync(1) has it under "FILTER RULES" and "PATTERN MATCHING
// RULES". The first rule that matches decides; what no rule matches is included. Who walks a tree does not enter a
// directory that is excluded.
//
//   pattern begins with '/'          it matches at the root of the transfer, else at the end of the path
//   pattern ends with '/'            it matches directories only
//   pattern has a '/' or a "**"      it is matched against the whole path, else against the last component
//   * ? [a-z] [!a-z] [[:alpha:]]     anything but '/': any number of bytes, one, one of a class
//   **                               any number of any bytes
//   \                                makes the next byte an ordinary one, in a pattern with a wildcard
//   dir/***                          the directory and all that lies in it
//
// A byte is a character, as for rsync in the C locale: '?' matches one byte of a UTF-8 sequence.
//
// Threat: patterns with many stars against long paths, from a peer. A pattern is a list of states that a path walks
// through once: O(bytes of the pattern * bytes of the path), whatever they are.
//
// Pure: no file system. Not thread-safe (it keeps scratch memory).

#include <bitset>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "apps/ftx/protocol/filter_rule.h"

namespace sluice::ftx {

/// A wildcard pattern, ready to match.
class Glob {
 public:
  explicit Glob(std::string_view pattern);
  /// Whether the pattern is all of `subject`.
  [[nodiscard]] bool matches(std::string_view subject);

 private:
  struct Step {
    enum class Kind : std::uint8_t { byte, any, one_of, star, star_star, never } kind;
    std::uint8_t byte = 0;  // Kind::byte
    std::uint16_t set = 0;  // Kind::one_of: the place in sets_
  };
  using Set = std::bitset<256>;

  std::size_t add_set(std::string_view pattern, std::size_t at);
  void reach(std::vector<std::uint32_t>& states, std::uint32_t state);
  [[nodiscard]] bool takes(const Step& step, std::uint8_t byte) const;

  std::vector<Step> steps_;
  std::vector<Set> sets_;
  std::string ending_;  // the bytes behind the last wildcard, which most subjects do not have
  // Scratch: the states that the bytes so far lead to, and the turn in which each was reached last.
  std::vector<std::uint32_t> now_, next_;
  std::vector<std::uint64_t> reached_;
  std::uint64_t turn_ = 0;
};

class Filter {
 public:
  enum class Side : std::uint8_t { sender, receiver };

  /// Nothing is excluded.
  Filter() = default;
  /// The rules for one side. REQUIRES: fit(rules).
  Filter(std::span<const FilterRule> rules, Side side);

  /// `path` is relative to the root of the transfer, without a '/' at either end.
  [[nodiscard]] bool excludes(std::string_view path, bool directory);
  [[nodiscard]] bool empty() const { return rules_.empty(); }

 private:
  struct Rule {
    bool include;
    bool negate;
    bool directories_only;
    std::size_t components;  // how many of the path, the last ones; 0: all of it
    bool everything_in;      // "***" at the end: a directory is matched with a '/' behind it
    bool anchored;           // where there is no wildcard
    std::string literal;     // with a '/' in front; empty: a wildcard pattern
    Glob glob;
  };

  [[nodiscard]] static Rule compiled(const FilterRule& rule);
  [[nodiscard]] bool matches(Rule& rule, std::string_view path, bool directory);

  std::vector<Rule> rules_;
  std::string subject_;  // scratch
};

}  // namespace sluice::ftx
