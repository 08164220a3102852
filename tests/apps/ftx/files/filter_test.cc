// SPDX-License-Identifier: Apache-2.0
// Which paths filter rules exclude: as rsync's manual says, and as rsync itself does with random trees and rules.
#include "apps/ftx/files/filter.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <set>

#include "apps/ftx/files/filter_syntax.h"
#include "apps/ftx/files/source.h"
#include "base/prng.h"
#include "tests/apps/ftx/files/served_directory.h"
#include "tests/apps/ftx/files/trees.h"
#include "tests/seeds.h"

namespace sluice::ftx {
namespace {

namespace fs = std::filesystem;

std::expected<std::string, std::string> no_file(const std::string&) { return std::unexpected("there is none"); }

FilterRules rules_of(const std::vector<std::string>& lines, bool delete_excluded = false) {
  FilterSyntax syntax(no_file);
  for (const std::string& line : lines) {
    const auto added = syntax.add_rule(line);
    EXPECT_TRUE(added) << added.error();
  }
  return syntax.rules(delete_excluded);
}

/// A directory ends in '/'.
bool excludes(const std::vector<std::string>& lines, std::string path, Filter::Side side = Filter::Side::sender) {
  const bool directory = path.ends_with('/');
  path.resize(path.size() - (directory ? 1 : 0));
  return Filter(rules_of(lines), side).excludes(path, directory);
}

struct FilterRow {
  const char* pattern;
  std::vector<std::string> matched;
  std::vector<std::string> others;
};

// "PATTERN MATCHING RULES"
const FilterRow rows[] = {
    // "If a pattern starts with a slash it is anchored to a particular spot in the hierarchy of files"
    {"/foo", {"foo", "foo/"}, {"bar/foo", "foo/bar"}},
    // "otherwise it is matched against the end of the pathname"
    {"foo", {"foo", "foo/", "bar/foo"}, {"barfoo", "foo/bar"}},
    {"foo/bar", {"foo/bar", "a/foo/bar", "a/b/foo/bar/"}, {"afoo/bar", "foo/a/bar"}},
    // "If a pattern ends with a slash, it only matches a directory"
    {"foo/", {"foo/", "a/foo/"}, {"foo", "a/foo"}},
    {"/foo/", {"foo/"}, {"foo", "a/foo/"}},
    // "a '*' matches any pathname component, but it stops at slashes"
    {"*.o", {"a.o", ".o", "a/b.o"}, {"a.oo", "a.o/b"}},
    {"/foo/*", {"foo/a", "foo/.a"}, {"foo", "foo/a/b", "a/foo/b"}},
    {"foo/*/bar", {"foo/a/bar", "x/foo/a/bar"}, {"foo/bar", "foo/a/b/bar"}},
    // "use '**' to match anything, including slashes"
    {"/foo/**", {"foo/a", "foo/a/b"}, {"foo", "foo/", "afoo/a"}},
    {"foo/**/bar", {"foo/a/bar", "foo/a/b/bar", "x/foo/a/bar"}, {"foo/bar"}},
    {"a**z", {"a/b/z", "az", "x/az"}, {"ba/z", "a/z/y"}},
    {"**/foo", {"foo", "a/foo", "a/b/foo/"}, {"afoo"}},
    {"**foo", {"foo", "a/foo", "afoo"}, {"foo/a"}},
    {"**", {"a", "a/b/"}, {}},
    // As rsync has it: as many components as the pattern has slashes, wherever those are.
    {"[^/]", {}, {"a", "b/a"}},
    {"a[/]***", {}, {"a/", "a/b"}},
    // "a '?' matches any character except a slash (/)"
    {"a?c", {"abc", "x/abc"}, {"a/c", "ac", "abbc"}},
    {"/a?c", {"abc"}, {"a/c"}},
    // "a '[' introduces a character class, such as [a-z] or [[:alpha:]]"
    {"[a-c]x", {"ax", "cx"}, {"dx", "-x", "x"}},
    {"[!a-c]x", {"dx"}, {"ax"}},
    {"[^a-c]x", {"dx"}, {"ax"}},
    {"/a[!b]c", {"axc"}, {"a/c", "abc"}},
    {"[]a]", {"]", "a"}, {"b"}},
    {"[a-]", {"a", "-"}, {"b"}},
    {"[\\]a]", {"]", "a"}, {"\\"}},
    {"[[:digit:]_]*", {"1", "_a"}, {"a1", ":"}},
    {"[[:nothing:]", {}, {"a", "["}},
    {"[a", {}, {"a", "[a"}},
    // "in a wildcard pattern, a backslash can be used to escape a wildcard character, but it is matched literally when
    // no
    // wildcards are present"
    {"\\*?", {"*a"}, {"ab", "\\*a"}},
    {"a\\b", {"a\\b"}, {"ab"}},
    {"*\\", {}, {"a", "a\\"}},
    // "a trailing 'dir_name/***' will match both the directory and everything in it"
    {"foo/***", {"foo/", "foo/a", "a/foo/b/c"}, {"foo", "afoo/"}},
    {"/foo/***", {"foo/", "foo/a/b"}, {"a/foo/"}},
};

TEST(Filter, MatchesAsTheManualSays) {
  for (const FilterRow& row : rows) {
    for (const std::string& path : row.matched) {
      EXPECT_TRUE(excludes({"- " + std::string(row.pattern)}, path)) << row.pattern << " and " << path;
      EXPECT_FALSE(excludes({"-! " + std::string(row.pattern)}, path)) << "not " << row.pattern << " and " << path;
    }
    for (const std::string& path : row.others) {
      EXPECT_FALSE(excludes({"- " + std::string(row.pattern)}, path)) << row.pattern << " and " << path;
      EXPECT_TRUE(excludes({"-! " + std::string(row.pattern)}, path)) << "not " << row.pattern << " and " << path;
    }
  }
}

TEST(Filter, TheFirstRuleThatMatchesDecides) {
  EXPECT_FALSE(excludes({"+ a", "- *"}, "x/a"));
  EXPECT_TRUE(excludes({"- *", "+ a"}, "x/a"));
  EXPECT_FALSE(excludes({"- *", "!", "- b"}, "a")) << "cleared";
  EXPECT_FALSE(excludes({}, "a"));
}

TEST(Filter, ARuleCountsOnItsSides) {
  const auto sender = [](const char* rule) { return excludes({rule}, "a"); };
  const auto receiver = [](const char* rule) { return excludes({rule}, "a", Filter::Side::receiver); };
  EXPECT_TRUE(sender("- a") && receiver("- a"));
  EXPECT_TRUE(sender("H a") && !receiver("H a"));
  EXPECT_TRUE(sender("-s a") && !receiver("-s a"));
  EXPECT_TRUE(!sender("P a") && receiver("P a"));
  EXPECT_TRUE(!sender("-r a") && receiver("-r a"));
  EXPECT_FALSE(excludes({"S a", "- a"}, "a"));
  EXPECT_FALSE(excludes({"R a", "- a"}, "a", Filter::Side::receiver));
  const FilterRules deleted = rules_of({"- a", "P b", "-r c", "+ d"}, true);
  EXPECT_EQ((std::vector{deleted[0].receives, deleted[1].receives, deleted[2].receives, deleted[3].receives}),
            (std::vector{false, true, true, false}));
}

TEST(Filter, ManyStarsTakeNoTime) {
  std::string stars;
  for (int i = 0; i < 150; ++i) {
    stars += "**a*";
  }
  // Of the paths that a backtracking match would take longer for than anybody waits.
  std::string path(4000, 'a');
  for (std::size_t i = 100; i < path.size(); i += 100) {
    path[i] = '/';
  }
  EXPECT_FALSE(excludes({"- /" + stars + "b[c]"}, path + "c"));
  EXPECT_TRUE(excludes({"- /" + stars + "b[c]"}, path + "bc"));
}

// "FILTER RULES"
TEST(FilterSyntax, WordsAndModifiers) {
  const FilterRule exclude{.pattern = "a b"};
  const FilterRule hide{.receives = false, .pattern = "a b"};
  for (const char* text : {"- a b", "-_a b", "-, a b", "exclude a b", "exclude, a b", "exclude_a b"}) {
    EXPECT_EQ(rules_of({text}), FilterRules{exclude}) << text;
  }
  for (const char* text : {"H a b", "-s a b", "-,s a b", "exclude,s a b", "hide a b"}) {
    EXPECT_EQ(rules_of({text}), FilterRules{hide}) << text;
  }
  EXPECT_EQ(rules_of({"include,!r x"}), FilterRules{(FilterRule{true, true, false, true, "x"})});
  EXPECT_EQ(rules_of({"- x", "clear"}), FilterRules{});
  for (const char* text : {"", "-", "- ", "-x", "a", "excluded x", "! x", "!x", ": .rules", "dir-merge .rules",
                           "-/ /etc", "-C", "-p x", "-x user.*", "Hs x", ".e FILE", "merge"}) {
    FilterSyntax syntax(no_file);
    EXPECT_FALSE(syntax.add_rule(text)) << text;
  }
}

TEST(FilterSyntax, FilesAndTheirLines) {
  const auto files = [](const std::string& path) -> std::expected<std::string, std::string> {
    if (path == "rules") {
      return "# comment\n\n- a\n. more\n";
    }
    if (path == "more") {
      return "+ b\r\n;no\nP c";
    }
    if (path == "patterns") {
      return "a\n+ b\n#\n- c\n";
    }
    if (path == "wrong") {
      return "- a\n\nb\n";
    }
    if (path == "itself") {
      return ". itself\n";
    }
    return std::unexpected("there is none");
  };
  const auto lines = [&](const std::string& rule) {
    FilterSyntax syntax(files);
    const auto added = syntax.add_rule(rule);
    return added ? syntax.rules(false) : FilterRules{{.pattern = added.error()}};
  };
  EXPECT_EQ(lines(". rules"), rules_of({"- a", "+ b", "P c"}));
  EXPECT_EQ(lines(".- patterns"), rules_of({"- a", "- + b", "- - c"}));
  EXPECT_TRUE(lines(". wrong")[0].pattern.starts_with("wrong:3: ")) << lines(". wrong")[0].pattern;
  EXPECT_NE(lines(". itself")[0].pattern.find("deep"), std::string::npos);
  EXPECT_NE(lines(". nothing")[0].pattern.find("there is none"), std::string::npos);
  FilterSyntax syntax(files);
  EXPECT_TRUE(syntax.add_patterns_of("patterns", false));
  EXPECT_EQ(syntax.rules(false), rules_of({"- a", "+ b", "- c"})) << "with prefixes";
  EXPECT_TRUE(syntax.add_pattern("!", false));
  EXPECT_TRUE(syntax.add_pattern("!x", true));
  EXPECT_EQ(syntax.rules(false), rules_of({"+ !x"}));
}

TEST(FilterSyntax, Bounds) {
  FilterSyntax syntax(no_file);
  EXPECT_FALSE(syntax.add_pattern(std::string(filter_pattern_bytes_max + 1, 'x'), false));
  EXPECT_FALSE(syntax.add_pattern(std::string("a\0b", 3), false));
  EXPECT_FALSE(syntax.add_pattern("", false));
  for (std::size_t i = 0; i < filter_rules_max; ++i) {
    ASSERT_TRUE(syntax.add_pattern("x", false));
  }
  EXPECT_FALSE(syntax.add_pattern("x", false));
  EXPECT_TRUE(fit(syntax.rules(false)));
}

// ---- rsync as the oracle ----

class Oracle : public ServedDirectory {
 protected:
  /// Names that patterns nearly match.
  static std::string random_name(Prng& prng) {
    static constexpr std::string_view pieces[] = {"a", "b", "ab", ".o", "*", "?", "[", "]", "\\", "-", "\xc3\xa9", " "};
    std::string name;
    for (auto left = 1 + prng() % 3; left > 0; --left) {
      name += pieces[prng() % (prng() % 2 == 0 ? 4 : std::size(pieces))];
    }
    return name;
  }
  static std::string random_pattern(Prng& prng) {
    static constexpr std::string_view pieces[] = {"a",   "b", "ab",   ".o",      "*",  "**",          "?",   "/",
                                                  "/",   "*", "[a-]", "[!b]",    "\\", "[[:alpha:]]", "***", "[^/]",
                                                  "\\*", "]", "[]a]", "[\\]-a]", "-",  "\xc3\xa9"};
    std::string pattern = prng() % 3 == 0 ? "/" : "";
    for (auto left = 1 + prng() % 5; left > 0; --left) {
      pattern += pieces[prng() % (prng() % 2 == 0 ? 9 : std::size(pieces))];
    }
    return pattern + (prng() % 5 == 0 ? "/" : prng() % 7 == 0 ? "/***" : "");
  }
  static std::string random_rule(Prng& prng) {
    static constexpr std::string_view rules[] = {"- ", "- ", "+ ", "+ ", "-! ", "+! ", "H ", "S ", "-s ", "P ", "-r "};
    return std::string(rules[prng() % std::size(rules)]) + random_pattern(prng);
  }
  void make_tree(Prng& prng) {
    std::vector<fs::path> directories{root_};
    for (int i = 0; i < 25; ++i) {
      const fs::path path = directories[prng() % directories.size()] / random_name(prng);
      std::error_code taken;
      if (prng() % 3 == 0 ? fs::create_directory(path, taken) : false) {
        directories.push_back(path);
      } else if (!fs::exists(path)) {
        write_file(path);
      }
    }
  }
  static void write_file(const fs::path& path) { test::write_file(path, "x"); }

  /// What rsync makes of the tree.
  [[nodiscard]] std::set<std::string> by_rsync(const std::string& source) const {
    const fs::path to = base_ / "copy";
    fs::remove_all(to);
    const std::string rules = "--filter=. " + (base_ / "rules").string();
    const pid_t child = ::fork();
    if (child == 0) {
      ::execlp("rsync", "rsync", "-a", rules.c_str(), source.c_str(), (to.string() + "/").c_str(), nullptr);
      ::_exit(127);
    }
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0) << "rsync (a Debian package; scripts/packages test installs it)";
    std::set<std::string> paths;
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(to)) {
      paths.insert(entry.path().lexically_relative(to).string() + (entry.is_directory() ? "/" : ""));
    }
    return paths;
  }
  static std::set<std::string> by_ftx(const std::string& source, const FilterRules& rules) {
    SourceOptions options{.trees = Trees::with_links};
    options.select.rules = rules;
    const std::string paths[] = {source};
    const auto opened = FileSource::open(paths, options);
    std::set<std::string> found;
    for (std::size_t i = 0; opened && i < (*opened)->files().size(); ++i) {
      const FileEntry& entry = (*opened)->files()[i];
      if (!entry.top()) {
        found.insert(path_of((*opened)->files(), entry) + (entry.kind == EntryKind::directory ? "/" : ""));
      }
    }
    return found;
  }
};

/// SLUICE_FILTER_CASES sets how many, SLUICE_FILTER_SEED the first; one alone: SLUICE_FILTER_CASES=1 and its seed.
TEST_F(Oracle, RandomTreesAndRules) {
  const std::uint64_t first = number_from("SLUICE_FILTER_SEED", 1);
  const std::uint64_t cases = number_from("SLUICE_FILTER_CASES", 60);
  for (std::uint64_t seed = first; seed < first + cases && !HasFailure(); ++seed) {
    Prng prng(seed);
    fs::remove_all(root_);
    fs::create_directory(root_);
    make_tree(prng);
    std::string file;
    for (auto left = 1 + prng() % 6; left > 0; --left) {
      file += random_rule(prng) + "\n";
    }
    test::write_file(base_ / "rules", file);
    FilterSyntax syntax([&](const std::string&) { return file; });
    ASSERT_TRUE(syntax.add_rule(". rules"));
    const std::string source = root_.string() + (prng() % 2 == 0 ? "/" : "");
    EXPECT_EQ(by_ftx(source, syntax.rules(false)), by_rsync(source)) << "seed " << seed << ", rules:\n" << file;
  }
}

}  // namespace
}  // namespace sluice::ftx
