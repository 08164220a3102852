// SPDX-License-Identifier: Apache-2.0
// An association of `xtp` alone, whose peer is the test: what it keeps under way, how often it asks, and what it takes
// for lost.
#include "stack/modules/xtp_association.h"

#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <memory>
#include <utility>
#include <vector>

#include "stack/core/stream_set.h"

namespace sluice::test::associations {
namespace {

using namespace std::chrono_literals;
using wire::XtpControl;
using wire::XtpHeader;
using xtp::Association;

class XtpAssociation : public testing::Test {
 protected:
  static constexpr std::uint64_t first = 1000;  // sequence number of what it sends
  static constexpr std::uint32_t packet_bytes = 64;
  static constexpr std::uint64_t much = 1'000'000'000;

  /// Accepts a call, and hears of its caller again.
  Association& open(xtp::Options options = {}) {
    options.packet_bytes = packet_bytes;
    const wire::TransportAddress caller{wire::Ipv4Address{{10, 0, 0, 2}}, 7};
    association_ = std::make_unique<Association>(set_.pool(), wire::TransportAddress{}, caller, options,
                                                 Association::Secrets{.key = 9, .first = first});
    association_->accept({.from = caller, .key = 7, .first = 500, .sync = 1, .traffic = {}}, now);
    hears(status(first));
    EXPECT_EQ(association_->state(), xtp::State::open);
    static_cast<void>(sent());
    return *association_;
  }
  /// So much has come, and much more may.
  [[nodiscard]] static XtpControl status(std::uint64_t received) {
    XtpControl said;
    said.received = received;
    said.allocated = first + much;
    return said;
  }
  /// A control packet of its peer's.
  void hears(const XtpControl& said, std::uint32_t options = 0) {
    const auto type = said.span_count > 0 ? XtpHeader::Type::ecntl : XtpHeader::Type::cntl;
    association_->arrive(
        {.from = association_->remote(),
         .header = {.key = 9 | XtpHeader::return_key, .options = options, .type = type, .sync = 1, .sequence = 500},
         .control = said,
         .data = {}},
        now);
  }
  /// A message of one byte, the `number`th of its peer's.
  void hears_byte(std::uint64_t number, std::uint32_t options = 0) {
    const XtpHeader header{.key = 9 | XtpHeader::return_key,
                           .options = options | XtpHeader::end_of_message,
                           .type = XtpHeader::Type::data,
                           .length = 1,
                           .sync = 1,
                           .sequence = 500 + number};
    association_->arrive({.from = association_->remote(),
                          .header = header,
                          .control = {},
                          .data = Message::copy_of(set_.pool(), std::vector<std::byte>(1))},
                         now);
  }
  void sends(std::size_t packets) {
    association_->send(Message::copy_of(set_.pool(), std::vector<std::byte>(packets * packet_bytes)), true, now);
  }
  /// The headers of what has left since.
  std::vector<XtpHeader> sent() {
    std::vector<XtpHeader> headers;
    Batch packets = association_->take_packets();
    while (const Message packet = packets.pop()) {
      if (packet.data_size() == XtpHeader::size + XtpControl::size) {
        told = XtpControl::parse(packet.bytes().subspan(XtpHeader::size), XtpHeader::Type::cntl).value_or(told);
      }
      std::array<std::byte, XtpHeader::size> scratch;
      headers.push_back(
          *XtpHeader::parse({packet.front(scratch.size(), scratch.data()), scratch.size()}, packet.data_size()));
    }
    return headers;
  }
  static std::uint64_t begin_of(std::uint64_t packet) { return first + packet * packet_bytes; }

  TimePoint now{};
  XtpControl told;  // by the last CNTL that has left

 private:
  StreamSet set_;
  std::unique_ptr<Association> association_;
};

// stack/modules/xtp_association.h: "What is kept is bounded by [...] packets_under_way_max".
TEST_F(XtpAssociation, PacketsUnderWayAreBounded) {
  open();
  sends(Association::packets_under_way_max + 200);
  EXPECT_EQ(sent().size(), Association::packets_under_way_max);
  hears(status(begin_of(150)));
  EXPECT_EQ(sent().size(), 150U);
  hears(status(begin_of(Association::packets_under_way_max)));
  EXPECT_EQ(sent().size(), 50U);
}

// docs/formats/xtp.md: "spans [...]; 64 at most": behind the last of so many more may have come.
TEST_F(XtpAssociation, BehindAFullListOfSpansNothingIsTakenForLost) {
  for (const std::size_t spans : {XtpControl::spans_max, XtpControl::spans_max - 1}) {
    open();
    sends(200);
    const std::uint32_t last = sent().back().sync;
    XtpControl said = status(first);
    said.echo = last;
    for (std::size_t at = 0; at < spans; ++at) {  // every other packet has come
      said.spans[said.span_count++] = {.left = begin_of(2 * at + 1), .right = begin_of(2 * at + 2)};
    }
    hears(said);
    const std::vector<XtpHeader> again = sent();
    const std::size_t behind = spans == XtpControl::spans_max ? 0 : 200 - 2 * spans;
    ASSERT_EQ(again.size(), spans + behind);
    EXPECT_EQ(again[spans - 1].sequence, begin_of(2 * spans - 2));
    hears(said);  // sent again since
    EXPECT_TRUE(sent().empty());
  }
}

// docs/formats/xtp.md: "WTIMER: [...] 250 ms before the first measurement; doubled each time", five seconds at most.
TEST_F(XtpAssociation, QuestionsBecomeRarerAndStopBecomingSo) {
  Association& one = open({.attempts = 9});
  sends(1);
  std::vector<long> waits;
  for (int turn = 0; turn < 20 && one.state() != xtp::State::closed; ++turn) {
    waits.push_back(static_cast<long>((one.next_deadline() - now) / 1ms));
    now = one.next_deadline();
    one.on_timer(now);
  }
  EXPECT_EQ(waits, (std::vector<long>{250, 500, 1000, 2000, 4000, 5000, 5000, 5000, 5000, 5000}));
  EXPECT_EQ(one.statistics().timeouts, 10U);
  EXPECT_EQ(one.take_news().closed, ETIMEDOUT);
  EXPECT_EQ(one.next_deadline(), never);
}

// stack/modules/xtp_association.h: "unanswered in a row".
TEST_F(XtpAssociation, WhateverIsHeardGivesAllAttemptsAgain) {
  Association& one = open({.attempts = 3});
  sends(1);
  const auto expire = [&](int times) {
    for (int turn = 0; turn < times; ++turn) {
      now = one.next_deadline();
      one.on_timer(now);
    }
  };
  expire(3);
  hears(status(first));
  expire(3);
  EXPECT_EQ(one.state(), xtp::State::open);
  expire(1);
  EXPECT_EQ(one.state(), xtp::State::closed);
}

// stack/modules/xtp.h: with fast_nak "the peer says at once what lacks": once for each gap.
TEST_F(XtpAssociation, GoingBackNAGapIsToldOnce) {
  xtp::Options options;
  options.selective = false;
  Association& one = open(options);
  for (const std::uint64_t next : {0U, 1U}) {
    for (const std::uint64_t number : {10U, 11U, 12U}) {
      hears_byte(number, XtpHeader::fast_nak);
    }
    EXPECT_EQ(sent().size(), 1U);
    EXPECT_EQ(told.received, 500 + next);
    hears_byte(next);
    EXPECT_TRUE(sent().empty());
  }
  EXPECT_EQ(one.statistics().behind_gaps, 6U);
}

// stack/modules/xtp_inbox.h: "Pieces are bounded in number". What was allocated stays so.
TEST_F(XtpAssociation, NoMorePiecesAreTakenThanThereIsRoomForAndTheAllocationStays) {
  Association& one = open();
  hears(status(first), XtpHeader::status_now);
  static_cast<void>(sent());
  const std::uint64_t allocated = told.allocated;
  EXPECT_GT(allocated, 500 + xtp::Inbox::ready_pieces_max);
  for (std::uint64_t number = 0; number <= xtp::Inbox::ready_pieces_max; ++number) {
    EXPECT_EQ(one.statistics().beyond, 0U);
    hears_byte(number, XtpHeader::status_now);
  }
  EXPECT_EQ(one.statistics().beyond, 1U);
  static_cast<void>(sent());
  EXPECT_EQ(told.received, 500 + xtp::Inbox::ready_pieces_max);
  EXPECT_EQ(told.allocated, allocated);
}

}  // namespace
}  // namespace sluice::test::associations
