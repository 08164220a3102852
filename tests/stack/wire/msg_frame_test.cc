// SPDX-License-Identifier: Apache-2.0
#include "stack/wire/msg_frame.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

namespace sluice::wire {
namespace {

using FrameType = MsgFrame::Type;

TEST(MsgFrame, TheExampleOfTheFormat) {
  const MsgFrame message{.type = FrameType::message, .number = 1, .tag = 0x1122334455667788, .length = 5};
  const std::array<unsigned char, MsgFrame::size> expected = {0x53, 0x4d, 1, 2, 0, 0,    0,    0,    0,    0,    0,
                                                              0,    0,    0, 0, 1, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66,
                                                              0x77, 0x88, 0, 0, 0, 0,    0,    0,    0,    5};
  std::array<std::byte, MsgFrame::size> bytes;
  message.emit(bytes);
  EXPECT_TRUE(std::ranges::equal(bytes, std::as_bytes(std::span(expected))));
  EXPECT_EQ(MsgFrame::parse(bytes), message);
}

TEST(MsgFrame, EachTypeKeepsItsValues) {
  for (const MsgFrame& frame :
       {MsgFrame{.type = FrameType::hello, .port = 65535}, MsgFrame{.type = FrameType::done, .number = ~0ULL},
        MsgFrame{.type = FrameType::refused, .number = 2},
        MsgFrame{.type = FrameType::message, .number = 3, .tag = ~0ULL, .length = ~0ULL}}) {
    std::array<std::byte, MsgFrame::size> bytes;
    frame.emit(bytes);
    EXPECT_EQ(MsgFrame::parse(bytes), frame);
  }
}

TEST(MsgFrame, WhatTheFormatDoesNotAllowIsNamed) {
  struct Row {
    FrameType type;
    std::size_t at;
    int value;
    MsgMalformed name;
  };
  const std::vector<Row> rows = {
      {FrameType::message, 0, 0x54, MsgMalformed::bad_magic}, {FrameType::message, 1, 0, MsgMalformed::bad_magic},
      {FrameType::message, 2, 2, MsgMalformed::bad_version},  {FrameType::message, 3, 0, MsgMalformed::bad_type},
      {FrameType::message, 3, 5, MsgMalformed::bad_type},     {FrameType::message, 5, 1, MsgMalformed::bad_field},
      {FrameType::message, 7, 1, MsgMalformed::bad_field},    {FrameType::message, 15, 0, MsgMalformed::bad_field},
      {FrameType::hello, 5, 0, MsgMalformed::bad_field},      {FrameType::hello, 15, 1, MsgMalformed::bad_field},
      {FrameType::hello, 23, 1, MsgMalformed::bad_field},     {FrameType::hello, 31, 1, MsgMalformed::bad_field},
      {FrameType::done, 5, 1, MsgMalformed::bad_field},       {FrameType::done, 15, 0, MsgMalformed::bad_field},
      {FrameType::done, 16, 1, MsgMalformed::bad_field},      {FrameType::refused, 24, 1, MsgMalformed::bad_field},
  };
  for (const Row& row : rows) {
    const bool is_hello = row.type == FrameType::hello;
    std::array<std::byte, MsgFrame::size> bytes;
    MsgFrame{.type = row.type, .port = static_cast<std::uint16_t>(is_hello ? 7 : 0), .number = is_hello ? 0ULL : 1ULL}
        .emit(bytes);
    ASSERT_TRUE(MsgFrame::parse(bytes));
    bytes[row.at] = static_cast<std::byte>(row.value);
    const auto parsed = MsgFrame::parse(bytes);
    ASSERT_FALSE(parsed) << &row - rows.data();
    EXPECT_EQ(parsed.error(), row.name) << &row - rows.data();
    EXPECT_EQ(MsgFrame::parse(ConstBytes(bytes).first(31)).error(), MsgMalformed::short_header);
  }
}

}  // namespace
}  // namespace sluice::wire
