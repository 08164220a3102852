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
  const Bytes8 wire{1,    0, 0x1a, 1, 0, 0, 0,   0, 0, 0,   0,   0,   0,   0,  5,
                    0xc0, 0, 0,    2, 0, 1, 'a', 0, 5, 's', 'u', 'b', '/', 'b'};
  EXPECT_EQ(request, bytes_of(wire));
  EXPECT_EQ(encode(PullRefusal{ExitCode::refused, "no"}), bytes_of({2, 0, 6, 0, 8, 0, 2, 'n', 'o'}));
}

TEST(PullMessage, EveryOneComesBackAndNoPartOfItIsOne) {
  const PullRequest requests[] = {
      {.paths = {"a"}},
      {.congestion = AskedCongestion::cubic, .datagram_bytes = 9000, .trees = Trees::with_links, .paths = {"a", "b/c"}},
      {.congestion = AskedCongestion::background, .paths = {std::string(path_bytes_max, 'x')}},
      {.congestion = AskedCongestion::fixed_rate, .rate = UINT64_MAX, .paths = {"..", "/etc", std::string("\0", 1)}},
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
  EXPECT_TRUE(fits({.paths = std::vector<std::string>(11, std::string(path_bytes_max, 'x'))}));
  EXPECT_FALSE(fits({.paths = std::vector<std::string>(12, std::string(path_bytes_max, 'x'))}));
  EXPECT_FALSE(fits({.rate = 1, .paths = {"a"}}));
  EXPECT_FALSE(fits({.congestion = AskedCongestion::fixed_rate, .paths = {"a"}}));
}

// What each field may be, at its edges; 20 is where the first path's length ends and the path begins.
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
  EXPECT_FALSE(with(11, 1)) << "a rate";
  EXPECT_TRUE(with(15, 7)) << "any size of datagrams";
  EXPECT_TRUE(with(16, 1) && with(16, 2)) << "trees";
  EXPECT_FALSE(with(16, 3));
  EXPECT_FALSE(with(18, 0)) << "no path";
  EXPECT_FALSE(with(18, 2)) << "a path that is not there";
  EXPECT_FALSE(with(17, 2)) << "513 paths";
  EXPECT_FALSE(with(20, 0));
  EXPECT_FALSE(with(20, 1));
  EXPECT_FALSE(with(20, 3));
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
