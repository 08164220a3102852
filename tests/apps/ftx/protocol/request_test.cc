// SPDX-License-Identifier: Apache-2.0
// What a client asks a standing server for, byte by byte (docs/formats/ftx.md, "Fetching").
#include "apps/ftx/protocol/request.h"

#include <gtest/gtest.h>

#include "apps/ftx/protocol/message.h"

namespace sluice::ftx {
namespace {

using Bytes8 = std::vector<std::uint8_t>;

std::vector<std::byte> bytes_of(const Bytes8& numbers) {
  const auto view = std::as_bytes(std::span(numbers));
  return {view.begin(), view.end()};
}

TEST(PullMessage, BytesAreThoseOfTheDocument) {
  const auto request =
      encode(PullRequest{.congestion = AskedCongestion::bbr, .datagram_bytes = 1472, .paths = {"a", "sub/b"}});
  const Bytes8 wire{1, 0, 0x1d, 1, 0, 0, 0, 0, 0,   0, 0, 0,   0,   0,   5,   0xc0,
                    0, 0, 0,    0, 0, 2, 0, 1, 'a', 0, 5, 's', 'u', 'b', '/', 'b'};
  EXPECT_EQ(request, bytes_of(wire));
  EXPECT_EQ(encode(PullRefusal{ExitCode::refused, "no"}), bytes_of({2, 0, 6, 0, 8, 0, 2, 'n', 'o'}));
}

TEST(PullMessage, EveryOneComesBackAndNoPartOfItIsOne) {
  const PullRequest requests[] = {
      {.paths = {"a"}},
      {.congestion = AskedCongestion::cubic, .datagram_bytes = 9000, .trees = Trees::with_links, .paths = {"a", "b/c"}},
      {.select = {.rules = {{.pattern = "*.o"}, {true, true, false, true, "x"}},
                  .hard_links = true,
                  .digests = true,
                  .left_out = true},
       .paths = {"a"}},
      {.trees = Trees::with_links, .select = {.names = {{"a/b", "", "c/"}}, .recursive = true}, .paths = {"a"}},
      {.select = {.names = std::vector<std::string>{}}, .paths = {"a"}},
      {.congestion = AskedCongestion::background, .paths = {std::string(path_bytes_max, 'x')}},
      {.congestion = AskedCongestion::fixed_rate,
       .rate = UINT64_MAX,
       .compress = Compress::always,
       .delta = true,
       .paths = {"..", "/etc", std::string("\0", 1)}},
  };
  for (const PullRequest& request : requests) {
    const auto bytes = encode(request);
    ASSERT_TRUE(bytes.has_value());
    for (std::size_t size = 0; size < bytes->size(); ++size) {
      const auto part = parse_pull_message(ConstBytes(*bytes).first(size));
      ASSERT_TRUE(part && !*part) << size;
    }
    const auto whole = parse_pull_message(*bytes);
    ASSERT_TRUE(whole && *whole);
    EXPECT_EQ(std::get<PullRequest>(**whole), request);
    auto more = *bytes;
    more.push_back(std::byte{0});
    EXPECT_FALSE(parse_pull_message(more));
  }
  const PullRefusal refusal{ExitCode::source_unreadable, "cannot read 'a'"};
  EXPECT_EQ(std::get<PullRefusal>(**parse_pull_message(encode(refusal))), refusal);
}

TEST(PullMessage, WhatDoesNotFitIsNotEncoded) {
  const auto fits = [](PullRequest request) { return encode(request).has_value(); };
  EXPECT_FALSE(fits({}));
  EXPECT_FALSE(fits({.paths = {""}}));
  EXPECT_FALSE(fits({.paths = {std::string(path_bytes_max + 1, 'x')}}));
  EXPECT_TRUE(fits({.paths = std::vector<std::string>(request_paths_max, "a")}));
  EXPECT_FALSE(fits({.paths = std::vector<std::string>(request_paths_max + 1, "a")}));
  const auto selects = [&](Selection select) { return fits({.select = std::move(select), .paths = {"a"}}); };
  EXPECT_TRUE(selects({.rules = FilterRules(filter_rules_max, {.pattern = "x"})}));
  EXPECT_FALSE(selects({.rules = FilterRules(filter_rules_max + 1, {.pattern = "x"})}));
  EXPECT_FALSE(selects({.rules = {{.pattern = ""}}}));
  EXPECT_FALSE(selects({.rules = {{.sends = false, .receives = false, .pattern = "x"}}}));
  EXPECT_FALSE(selects({.names = {{"../x"}}}));
  EXPECT_FALSE(selects({.recursive = true})) << "of no names";
  EXPECT_FALSE(selects({.names = std::vector<std::string>(selected_names_max, "names")})) << "too many bytes";
  EXPECT_TRUE(fits({.paths = std::vector<std::string>(11, std::string(path_bytes_max, 'x'))}));
  EXPECT_FALSE(fits({.paths = std::vector<std::string>(12, std::string(path_bytes_max, 'x'))}));
  EXPECT_FALSE(fits({.rate = 1, .paths = {"a"}}));
  EXPECT_FALSE(fits({.congestion = AskedCongestion::fixed_rate, .paths = {"a"}}));
}

// What each field may be, at its edges; 23 is where the first path's length ends and the path begins.
TEST(PullMessage, FieldsOutOfRangeAreRefused) {
  const auto good = *encode(PullRequest{.paths = {"ab"}});
  const auto with = [&](std::size_t at, int value) {
    auto bytes = good;
    bytes[at] = static_cast<std::byte>(value);
    return parse_pull_message(bytes);
  };
  EXPECT_TRUE(with(0, 1) && *with(0, 1));
  EXPECT_FALSE(with(0, 0));
  EXPECT_FALSE(with(0, 2)) << "as a refusal it is malformed";
  EXPECT_FALSE(with(0, 3));
  for (const int congestion : {0, 4, 5, 255}) {
    EXPECT_FALSE(with(3, congestion)) << congestion;
  }
  EXPECT_TRUE(with(3, 2) && with(3, 3));
  for (const int compress : {0, 1, 2}) {
    const auto parsed = with(3, 16 * compress + 2);
    ASSERT_TRUE(parsed && *parsed);
    EXPECT_EQ(std::get<PullRequest>(**parsed).compress, Compress{static_cast<std::uint8_t>(compress)});
    EXPECT_EQ(std::get<PullRequest>(**parsed).congestion, AskedCongestion::cubic);
  }
  EXPECT_FALSE(with(3, 16 * 3 + 2)) << "no such compression";
  const auto delta = with(3, 128 + 16 + 2);
  ASSERT_TRUE(delta && *delta);
  EXPECT_TRUE(std::get<PullRequest>(**delta).delta);
  EXPECT_EQ(std::get<PullRequest>(**delta).compress, Compress::when_it_pays);
  EXPECT_FALSE(with(3, 16)) << "no congestion control";
  EXPECT_FALSE(with(11, 1)) << "a rate";
  EXPECT_TRUE(with(15, 7)) << "any size of datagrams";
  EXPECT_TRUE(with(16, 1) && with(16, 2)) << "trees";
  EXPECT_FALSE(with(16, 3));
  EXPECT_FALSE(with(21, 0)) << "no path";
  EXPECT_FALSE(with(21, 2)) << "a path that is not there";
  EXPECT_FALSE(with(20, 2)) << "513 paths";
  EXPECT_FALSE(with(23, 0));
  EXPECT_FALSE(with(23, 1));
  EXPECT_FALSE(with(23, 3));
}

/// The same of a selection; it begins at 17, its one rule at 20, its one name at 26.
TEST(PullMessage, SelectionsOutOfRangeAreRefused) {
  const auto good = *encode(PullRequest{.select = {.rules = {{.pattern = "ab"}}, .names = {{"cd"}}}, .paths = {"e"}});
  const auto with = [&](std::size_t at, int value) {
    auto bytes = good;
    bytes[at] = static_cast<std::byte>(value);
    const auto parsed = parse_pull_message(bytes);
    return parsed && *parsed;
  };
  EXPECT_TRUE(with(17, 4) && with(17, 12) && with(17, 7));
  EXPECT_TRUE(with(17, 16 + 4));
  EXPECT_TRUE(with(17, 32 + 64 + 128 + 4)) << "attributes and owners";
  EXPECT_FALSE(with(17, 0)) << "no names";
  EXPECT_FALSE(with(18, 4)) << "1025 rules";
  EXPECT_FALSE(with(19, 2)) << "a rule that is not there";
  EXPECT_TRUE(with(20, 4) && with(20, 8 + 3));
  EXPECT_FALSE(with(20, 3)) << "a rule of no side";
  EXPECT_FALSE(with(20, 16));
  EXPECT_FALSE(with(22, 0)) << "an empty pattern";
  EXPECT_FALSE(with(22, 3));
  EXPECT_FALSE(with(23, 0)) << "a NUL in a pattern";
  EXPECT_FALSE(with(26, 2)) << "a name that is not there";
  EXPECT_FALSE(with(29, '/')) << "a name that is absolute";
  EXPECT_TRUE(with(30, '/')) << "what lies in a directory";
  EXPECT_FALSE(with(30, 7));
}

TEST(PullMessage, NoMessageIsLongerThanItsBound) {
  std::vector<std::byte> head(request_header_bytes);
  head[0] = std::byte{1};
  store_big_endian(head.data() + 1, static_cast<std::uint16_t>(request_bytes_max - request_header_bytes));
  EXPECT_TRUE(parse_pull_message(head) && !*parse_pull_message(head)) << "more is to come";
  store_big_endian(head.data() + 1, static_cast<std::uint16_t>(request_bytes_max - request_header_bytes + 1));
  EXPECT_FALSE(parse_pull_message(head)) << "said at once";
}

TEST(PullMessage, ARefusalIsNeverASuccessAndItsTextIsForATerminal) {
  auto bytes = encode(PullRefusal{ExitCode::refused, "no"});
  for (const auto& [code, meaning] : {std::pair(0, ExitCode::protocol_error), std::pair(99, ExitCode::protocol_error),
                                      std::pair(130, ExitCode::interrupted)}) {
    bytes[4] = static_cast<std::byte>(code);
    EXPECT_EQ(std::get<PullRefusal>(**parse_pull_message(bytes)).code, meaning);
  }
  bytes[7] = std::byte{0x1b};
  EXPECT_FALSE(parse_pull_message(bytes));
  const PullRefusal long_one{ExitCode::refused, "\x1b[2J" + std::string(2 * request_text_bytes_max, 'x')};
  const auto shown = std::get<PullRefusal>(**parse_pull_message(encode(long_one)));
  EXPECT_EQ(shown.text.size(), request_text_bytes_max);
  EXPECT_TRUE(shown.text.starts_with("?[2J"));
}

}  // namespace
}  // namespace sluice::ftx
