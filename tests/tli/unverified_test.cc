// SPDX-License-Identifier: Apache-2.0
// Data units whose checksums are still owed: one that does not hold is as if it had never come, also to the calls that
// only ask what waits.

#include "stack/core/module_handle.h"
#include "tests/tli/harness.h"

namespace sluice::test {
namespace {

struct Watcher : Module {
  Watcher() : Module("watcher") {}
  Counter refused{*this, "refused", "checks that did not hold"};
};

class Unverified : public EndpointTest {
 protected:
  void SetUp() override {
    open_bound();
    endpoint->stream().set_nonblocking(true);
  }
  void arrives(std::string_view text, bool good) {
    Message message = message_of(set.pool(), tpi::UnitdataInd{as_bytes("peer"), {}}, MessageType::proto);
    Message data = Message::copy_of(set.pool(), as_bytes(text));
    data.defer();
    const auto holds = static_cast<std::uint16_t>(~data.data_sum());
    ASSERT_EQ(data.transform(Check{good ? holds : static_cast<std::uint16_t>(holds + 1)}, owner, watcher.refused),
              TransformResult::deferred);
    message.link(std::move(data));
    provider->up(std::move(message));
  }

  Watcher watcher;
  ModuleHandle owner = set.module_handles().add();
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

}  // namespace
}  // namespace sluice::test
