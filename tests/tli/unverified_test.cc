// SPDX-License-Identifier: Apache-2.0
// Data units whose checksums are still owed: one that does not hold is as if it had never come, also to the calls that
// only ask what waits.

#include <algorithm>
#include <array>
#include <memory>

#include "stack/core/module_handle.h"
#include "stack/core/stage.h"
#include "tests/tli/harness.h"

namespace sluice::test {
namespace {

class Unverified : public EndpointTest {
 protected:
  void SetUp() override {
    open_bound();
    endpoint->stream().set_nonblocking(true);
  }
  void arrives(std::string_view text, bool good) { provider->up(watcher.data_unit("peer", text, good)); }

  CheckWatcher watcher{set};
};

TEST_F(Unverified, TLookDoesNotTellOfABadUnit) {
  arrives("bad!", false);
  EXPECT_EQ(look(), 0);
  EXPECT_EQ(watcher.refused.value(), 1U);
  arrives("bad!", false);
  provider->fails("peer", "", 7);
  EXPECT_EQ(look(), tli::T_UDERR);
  ASSERT_TRUE(endpoint->t_rcvuderr(nullptr));
  arrives("good", true);
  EXPECT_EQ(look(), tli::T_DATA);
  EXPECT_EQ(receive(10), "peer/: good");
}

TEST_F(Unverified, AnErrorBehindABadUnitIsDueBeforeTheNextSend) {
  arrives("bad!", false);
  provider->fails("peer", "", 7);
  EXPECT_EQ(error_of(send("hello")), tpi::TLOOK);
}

TEST_F(Unverified, ABadUnitIsNotTooLargeForAnyBuffer) {
  arrives("bad!", false);
  arrives("good", true);
  std::string address(1, '\0');
  tli::t_unitdata unit;
  unit.addr = out(address);
  EXPECT_EQ(error_of(endpoint->t_lookudata(unit)), tpi::TBUFOVFLW) << "of the good one";
  EXPECT_EQ(watcher.refused.value(), 1U);
  EXPECT_EQ(error_of(endpoint->t_lookudata(unit)), tpi::TNODATA);
}

// Who is shown a unit hears what becomes of it, whatever is called in between.
TEST_F(Unverified, WhatIsShownStaysUntilItIsTaken) {
  arrives("bad!", false);
  tli::t_unitdata unit;
  ASSERT_EQ(error_of(endpoint->t_lookudata(unit)), 0);
  EXPECT_TRUE(send("hello"));
  std::string text(4, '\0');
  const tli::t_iovec place{std::as_writable_bytes(std::span(text)).data(), text.size()};
  EXPECT_EQ(error_of(endpoint->t_landudata(std::span(&place, 1))), tpi::TNODATA);
}

/// Inverts bytes, and refuses data whose last byte is then 'x'.
class Inverting final : public Stage {
 public:
  Inverting() : Stage({.name = "invert", .converts = true, .verifies = true}) {}
  void begin(ConstBytes) override { last_ = std::byte{0}; }
  void run(std::size_t, ConstBytes from, Bytes to) override {
    std::ranges::transform(from, to.begin(), [](std::byte byte) { return ~byte; });
    last_ = to.back();
  }
  bool end(Bytes) override { return last_ != static_cast<std::byte>('x'); }

 private:
  std::byte last_{};
};

std::string inverted(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(), [](char letter) { return static_cast<char>(~letter); });
  return out;
}

// Through a stage of the program's: what it refuses is told apart from what the stack below refuses, on either path.
TEST_F(Unverified, LandsThroughAStageOfThePrograms) {
  const auto stage = std::make_shared<Inverting>();
  struct Row {
    std::string text;
    bool good;
    std::int32_t error;
  };
  std::uint64_t refused_below = 0;
  for (const bool fused : {true, false}) {
    for (const Row& row :
         {Row{"head" + inverted("payload"), true, 0}, Row{"head" + inverted("payloax"), true, tpi::TPROTO},
          Row{"head" + inverted("payload"), false, tpi::TNODATA},
          Row{"head" + inverted("payloax"), false, tpi::TNODATA}}) {
      if (!fused && !row.good) {
        continue;  // such data does not come up
      }
      SCOPED_TRACE(testing::Message() << row.text << row.good << fused);
      if (fused) {
        arrives(row.text, row.good);
      } else {
        Message message = message_of(set.pool(), tpi::UnitdataInd{as_bytes("peer"), {}}, MessageType::proto);
        message.link(Message::copy_of(set.pool(), as_bytes(row.text)));
        provider->up(std::move(message));
      }
      tli::t_unitdata unit;
      const OwnStage through{.stage = stage, .from = 4};
      std::string head(4, '-');
      std::string text(7, '-');
      const auto place = [](std::string& out) {
        return tli::t_iovec{std::as_writable_bytes(std::span(out)).data(), out.size()};
      };
      const std::array parts{place(head), place(text)};
      EXPECT_EQ(error_of(endpoint->t_landudata(parts, through)), tpi::TOUTSTATE) << "none has been shown";
      ASSERT_EQ(endpoint->t_lookudata(unit).value_or(0), 11U);
      EXPECT_EQ(error_of(endpoint->t_landudata(std::span(parts).first(1), through)), tpi::TBADDATA);
      EXPECT_EQ(error_of(endpoint->t_landudata(parts, through)), row.error);
      if (row.error == 0) {
        EXPECT_EQ(head + text, "headpayload");
      }
      EXPECT_EQ(watcher.refused.value(), refused_below += row.good ? 0 : 1);
      EXPECT_EQ(error_of(endpoint->t_lookudata(unit)), tpi::TNODATA) << "it is gone";
    }
  }
}

// t_landudata: "TBADDATA: more than T_IOV_MAX parts, or less room than bytes; it still waits." No byte is written
// beyond the room that there is, on either path.
TEST_F(EndpointTest, TooLittleRoomToLandInLeavesTheDataUnit) {
  open_bound();
  for (const bool fused : {false, true}) {
    Message message = message_of(set.pool(), tpi::UnitdataInd{as_bytes("peer"), {}}, MessageType::proto);
    Message data = Message::copy_of(set.pool(), as_bytes("12345678"));
    if (fused) {
      data.defer();
    }
    message.link(std::move(data));
    provider->up(std::move(message));
    tli::t_unitdata unit;
    ASSERT_EQ(endpoint->t_lookudata(unit).value_or(0), 8U);
    std::string text(8, '-');
    const auto part = [&text](std::size_t from, std::size_t size) {
      return tli::t_iovec{std::as_writable_bytes(std::span(text)).data() + from, size};
    };
    const std::vector<tli::t_iovec> too_small[] = {
        {}, {part(0, 7)}, {part(0, 3), part(3, 4)}, {part(0, 0), part(0, 7)}};
    for (const std::vector<tli::t_iovec>& parts : too_small) {
      EXPECT_EQ(error_of(endpoint->t_landudata(parts)), tpi::TBADDATA) << parts.size();
    }
    const std::vector<tli::t_iovec> too_many(tli::T_IOV_MAX + 1, part(0, 8));
    EXPECT_EQ(error_of(endpoint->t_landudata(too_many)), tpi::TBADDATA);
    EXPECT_EQ(text, "--------");
    const std::vector<tli::t_iovec> enough{part(0, 3), part(3, 5)};
    EXPECT_EQ(endpoint->t_landudata(enough).value_or(0), 8U) << "it waited";
    EXPECT_EQ(text, "12345678");
    EXPECT_EQ(error_of(endpoint->t_landudata(enough)), tpi::TOUTSTATE) << "and is gone";
  }
}

}  // namespace
}  // namespace sluice::test
