// SPDX-License-Identifier: Apache-2.0
#include "stack/modules/xtp_inbox.h"

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <string_view>

namespace sluice::xtp {
namespace {

class XtpInbox : public testing::Test {
 protected:
  bool insert(Position at, std::string_view text, bool ends_message = false) {
    return inbox.insert(at, Message::copy_of(pool, as_bytes(text)), ends_message);
  }
  /// The next piece; behind a message's end a full stop.
  std::string take() {
    const Inbox::Piece piece = inbox.take();
    std::string text(piece.data.data_size(), '\0');
    EXPECT_TRUE(piece.data.copy_data_to(0, std::as_writable_bytes(std::span(text))));
    return piece.ends_message ? text + "." : text;
  }
  BufferPool pool;
  Inbox inbox{100};
};

TEST_F(XtpInbox, WhatOverlapsStaysAsItCameFirstAndEndsWhereThatEnds) {
  EXPECT_TRUE(insert(105, "FGHIJ"));
  EXPECT_TRUE(insert(100, "abcdefgh", true));  // says that a message ends inside of what is there
  EXPECT_EQ(inbox.next(), 110U);
  EXPECT_TRUE(insert(108, "xxkl", true));
  EXPECT_EQ(take(), "abcdeFGHIJkl.");
  EXPECT_FALSE(inbox.has_ready());
}

TEST_F(XtpInbox, SpansNameTheRunsBehindGaps) {
  EXPECT_TRUE(insert(110, "a") && insert(111, "b", true) && insert(120, "c"));
  std::array<wire::XtpSpan, 4> spans;
  ASSERT_EQ(inbox.spans(spans), 2U);
  EXPECT_EQ(spans[0], (wire::XtpSpan{110, 112}));
  EXPECT_EQ(spans[1], (wire::XtpSpan{120, 121}));
  EXPECT_EQ(inbox.spans(std::span(spans).first(1)), 1U);
  EXPECT_EQ(inbox.end(), 121U);
}

TEST_F(XtpInbox, AMessageThatLacksItsEndEndsWhereItIsCut) {
  EXPECT_TRUE(insert(100, "begun"));
  inbox.skip_to(120);
  EXPECT_TRUE(insert(120, "next", true));
  EXPECT_EQ(take(), "begun.");
  EXPECT_EQ(take(), "next.");
}

}  // namespace
}  // namespace sluice::xtp
