// SPDX-License-Identifier: Apache-2.0
// How any transport module gets and gives up its port: what a user of udp, who is bound once at a time, cannot ask for
// (udp_binding_test.cc has the rest).
#include <gtest/gtest.h>

#include <cerrno>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "stack/modules/port_binding.h"
#include "stack/wire/protocol.h"
#include "tests/stack/modules/fake_ip.h"
#include "tests/stack/modules/harness.h"

namespace sluice::test {
namespace {

using namespace wire::tpi;
using std::chrono::seconds;
using wire::IpAddress;
using wire::Ipv4Address;
using wire::NetworkAddress;
using wire::TransportAddress;

const TransportAddress first_port{Ipv4Address{{10, 0, 0, 1}}, 7000};
const TransportAddress second_port{Ipv4Address{{10, 0, 0, 3}}, 7001};
const NetworkAddress every_address{IpAddress{}, wire::protocol_tcp};

NetworkAddress network_of(const TransportAddress& address) { return {address.address, wire::protocol_tcp}; }

/// A module that has a port, and what it is told of it.
class PortOwner : public Module {
 public:
  PortOwner() : Module("port_owner") {}

  Status open() override {
    port_.emplace(
        *this, wire::protocol_tcp,
        PortBinding::Hooks{.down = [this](Message message) { write_queue().put_next(std::move(message)); },
                           .bound = [this] { told("bound"); },
                           .unbound = [this] { told("unbound"); },
                           .refused = [this](std::int32_t tli_error,
                                             std::int32_t unix_error) { told(refusal(tli_error, unix_error)); }});
    return {};
  }
  void rput(Batch&& batch) override {
    while (const Message message = batch.pop()) {
      if (message.type() == MessageType::flush) {
        flushes_for_the_user += port_->releasing() ? 0U : 1U;
      } else if (!(message.type() == MessageType::ctl ? port_->filter_answered(message)
                                                      : port_->acknowledged(message))) {
        ++unexpected;
      }
    }
  }

  [[nodiscard]] static std::string refusal(std::int32_t tli_error, std::int32_t unix_error = 0) {
    return "refused " + std::to_string(tli_error) + " " + std::to_string(unix_error);
  }
  PortBinding& port() { return *port_; }

  std::vector<std::string> outcomes;
  std::function<void()> at_next_outcome;
  unsigned flushes_for_the_user = 0;
  unsigned unexpected = 0;

 private:
  void told(std::string outcome) {
    outcomes.push_back(std::move(outcome));
    if (const auto then = std::exchange(at_next_outcome, nullptr)) {
      then();
    }
  }

  std::optional<PortBinding> port_;
};

class PortBindingTest : public testing::Test {
 protected:
  using Outcomes = std::vector<std::string>;

  void bind(const TransportAddress& address) { port().bind({.address = address}, /*replaces_busy=*/false); }
  /// What has been told since the last time.
  Outcomes outcomes() { return std::exchange(owner_.outcomes, {}); }
  PortBinding& port() { return owner_.port(); }

  // ip's answers, where it does not answer by itself.
  void refuse(std::int32_t primitive, std::int32_t tli_error) {
    stack_.up(proto(stack_, ErrorAck{primitive, tli_error, 0}, MessageType::pcproto));
  }
  void grant_bind(const NetworkAddress& address) {
    ip_.bound = address;
    stack_.up(proto(stack_, BindAck{.address = encoded(address)}, MessageType::pcproto));
  }
  void grant_unbind() { stack_.up(proto(stack_, OkAck{T_UNBIND_REQ}, MessageType::pcproto)); }

  Stack stack_;
  FakeIp& ip_ = stack_.push<FakeIp>();
  PortOwner& owner_ = stack_.push<PortOwner>();
};

// ---- Families ----

/// Nobody names an address: any of either family will do.
TEST(PortBinding, WhatIsWantedSaysWhichFamilies) {
  const auto both = [](const std::optional<PortBinding::Wanted>& wanted) { return wanted && wanted->both_families; };
  const auto wanted = [](const IpAddress& address, bool v6_only) {
    return PortBinding::wanted_by(encoded(TransportAddress{address, 80}), v6_only);
  };
  EXPECT_TRUE(both(PortBinding::wanted_by({}, false)));
  EXPECT_TRUE(both(PortBinding::wanted_by({}, true)));
  EXPECT_TRUE(both(wanted(wire::Ipv6Address{}, false)));
  EXPECT_FALSE(both(wanted(wire::Ipv6Address{}, true)));
  EXPECT_FALSE(both(wanted(Ipv4Address{}, false)));
  EXPECT_FALSE(both(wanted(wire::Ipv6Address{{0xfd}}, false)));
  EXPECT_EQ(wanted(Ipv4Address{}, false)->address, (TransportAddress{Ipv4Address{}, 80}));
  EXPECT_FALSE(PortBinding::wanted_by(std::vector(1, std::byte{}), false)) << "none";
}

// ---- In place of another binding ----

TEST_F(PortBindingTest, AnotherBindingIsReplacedAndNobodyIsToldThatItWent) {
  port().open();
  bind(first_port);
  bind(second_port);
  EXPECT_EQ(outcomes(), (Outcomes{"bound", "bound"}));
  EXPECT_EQ(port().local(), second_port);
  EXPECT_TRUE(port().filtered());
  EXPECT_EQ(ip_.bound, network_of(second_port));
  ASSERT_EQ(ip_.filters_asked.size(), 2U);
  EXPECT_EQ(ip_.filters_asked[1].local_port, second_port.port);
  EXPECT_EQ(ip_.filters_asked[1].protocol, wire::protocol_tcp);
  EXPECT_EQ(owner_.flushes_for_the_user, 0U);
  EXPECT_EQ(owner_.unexpected, 0U);
}

TEST_F(PortBindingTest, TheFilterGoesWithTheBindingThatIsReplaced) {
  port().open();
  bind(first_port);
  ip_.answers_filters = false;
  bind(second_port);
  EXPECT_FALSE(port().filtered());
  stack_.advance(PortBinding::filter_answer_time_max);
  EXPECT_EQ(outcomes(), (Outcomes{"bound", "bound"}));
  EXPECT_FALSE(port().filtered());
}

TEST_F(PortBindingTest, WhenTheOtherAddressIsRefusedTheStreamIsBoundToEveryAddress) {
  port().open();
  bind(first_port);
  ip_.bind_error = TBADADDR;
  bind(second_port);
  EXPECT_EQ(outcomes(), (Outcomes{"bound", PortOwner::refusal(TBADADDR)}));
  EXPECT_EQ(ip_.bound, every_address);
  EXPECT_FALSE(port().filtered());
}

// T_BIND_ACK: "If the transport provider cannot bind the specified address the provider will return [TADDRBUSY]."
TEST_F(PortBindingTest, WhenTheOtherPortIsBusyTheStreamIsBoundToEveryAddress) {
  port().open();
  bind(first_port);
  ip_.ports_busy = 1;
  bind(second_port);
  EXPECT_EQ(outcomes(), (Outcomes{"bound", PortOwner::refusal(TADDRBUSY)}));
  EXPECT_EQ(ip_.bound, every_address);
  EXPECT_FALSE(port().filtered());
  bind(first_port);
  EXPECT_EQ(outcomes(), (Outcomes{"bound"}));
}

TEST_F(PortBindingTest, WhenTheFirstAddressIsNotGivenUpItIsAskedForAgain) {
  port().open();
  bind(first_port);
  ip_.answers = false;
  bind(second_port);
  ip_.answers = true;
  refuse(T_UNBIND_REQ, TOUTSTATE);
  EXPECT_EQ(outcomes(), (Outcomes{"bound", PortOwner::refusal(TOUTSTATE)}));
  EXPECT_EQ(ip_.bound, every_address);
  EXPECT_FALSE(port().filtered());
  EXPECT_EQ(owner_.flushes_for_the_user, 0U);
}

// ---- Refused, and asked for at a bad time ----

TEST_F(PortBindingTest, AnUnbindThatIsRefusedLeavesTheStreamBound) {
  port().open();
  bind(first_port);
  ip_.answers = false;
  port().unbind();
  EXPECT_TRUE(port().releasing());
  refuse(T_UNBIND_REQ, TOUTSTATE);
  EXPECT_FALSE(port().releasing());
  EXPECT_EQ(outcomes(), (Outcomes{"bound", PortOwner::refusal(TOUTSTATE)}));
  EXPECT_EQ(port().local(), first_port);
  EXPECT_TRUE(port().filtered());
  port().unbind();
  stack_.advance(PortBinding::network_answer_time_max);
  EXPECT_EQ(outcomes(), (Outcomes{PortOwner::refusal(TSYSERR, ETIMEDOUT)}));
  ip_.answers = true;
  port().unbind();
  EXPECT_EQ(outcomes(), (Outcomes{"unbound"}));
  EXPECT_EQ(ip_.bound, every_address);
  EXPECT_FALSE(port().filtered());
}

TEST_F(PortBindingTest, AnAddressThatIsWantedMeanwhileComesNext) {
  ip_.answers = false;
  port().open();
  bind(first_port);
  ip_.answers = true;
  grant_bind(every_address);
  EXPECT_EQ(outcomes(), (Outcomes{"bound"}));
  EXPECT_EQ(ip_.bound, network_of(first_port));

  ip_.answers = false;
  bind(second_port);
  refuse(T_UNBIND_REQ, TOUTSTATE);  // and is asked again
  bind(second_port);
  grant_unbind();
  grant_bind(network_of(second_port));
  EXPECT_EQ(outcomes(), (Outcomes{PortOwner::refusal(TOUTSTATE), "bound"}));
}

TEST_F(PortBindingTest, AnAddressIsToBeHadThoughEveryAddressIsRefused) {
  ip_.answers = false;
  port().open();
  bind(first_port);
  ip_.answers = true;
  refuse(T_BIND_REQ, TSYSERR);
  EXPECT_EQ(outcomes(), (Outcomes{"bound"}));
  EXPECT_EQ(ip_.bound, network_of(first_port));
}

TEST_F(PortBindingTest, WhoIsToldAnOutcomeMayBindAtOnce) {
  port().open();
  bind(first_port);
  owner_.at_next_outcome = [this] { bind(second_port); };
  port().unbind();
  EXPECT_EQ(outcomes(), (Outcomes{"bound", "unbound", "bound"}));
  EXPECT_EQ(ip_.bound, network_of(second_port));

  ip_.ports_busy = 1;
  owner_.at_next_outcome = [this] { bind(second_port); };
  bind(first_port);
  EXPECT_EQ(outcomes(), (Outcomes{PortOwner::refusal(TADDRBUSY), "bound"}));
  EXPECT_EQ(ip_.bound, network_of(second_port));
}

// ---- Abandoned ----

/// Nothing is told any more, whatever comes or does not; and nothing is asked.
class AbandonedPortTest : public PortBindingTest {
 protected:
  void abandon() {
    outcomes();
    const std::size_t filters = ip_.filters_asked.size();
    ip_.bound.reset();
    ip_.answers = ip_.answers_filters = true;  // had it been asked
    port().abandon();
    EXPECT_FALSE(port().releasing());
    stack_.advance(PortBinding::network_answer_time_max + seconds(1));
    grant_unbind();
    stack_.up(proto(stack_, BindAck{.address = encoded(every_address)}, MessageType::pcproto));
    refuse(T_BIND_REQ, TOUTSTATE);
    refuse(T_UNBIND_REQ, TOUTSTATE);
    EXPECT_EQ(owner_.unexpected, 4U);
    stack_.up(proto(stack_, wire::dlpi::OkAck{wire::dlpi::DL_FILTER_REQ}, MessageType::ctl));
    EXPECT_EQ(outcomes(), Outcomes{});
    EXPECT_EQ(ip_.bound, std::nullopt);
    EXPECT_EQ(ip_.filters_asked.size(), filters);
  }
};

TEST_F(AbandonedPortTest, WhileARequestWaitsForMemory) {
  port().open();
  std::vector<Message> all;
  for (std::size_t size = BufferPool::capacity_max; size > 0; size /= 2) {
    while (Block* const block = stack_.pool().allocate(size)) {
      all.emplace_back(block);
    }
  }
  bind(first_port);
  EXPECT_EQ(ip_.bound, every_address) << "it has not been asked to give that up";
  port().abandon();
  all.clear();
  stack_.run();
  EXPECT_EQ(ip_.bound, every_address);
  abandon();
}

TEST_F(AbandonedPortTest, WhileNothingIsAwaited) {
  port().open();
  bind(first_port);
  abandon();
}

TEST_F(AbandonedPortTest, WhileAnOutcomeIsTold) {
  port().open();
  bind(first_port);
  owner_.at_next_outcome = [this] { port().abandon(); };
  port().unbind();
  EXPECT_EQ(ip_.bound, std::nullopt) << "every address would come next";
  abandon();
}

TEST_F(AbandonedPortTest, WhileARefusalIsTold) {
  port().open();
  ip_.bind_error = TBADADDR;
  owner_.at_next_outcome = [this] { port().abandon(); };
  bind(first_port);
  EXPECT_EQ(ip_.bound, std::nullopt) << "every address would come next";
  abandon();
}

TEST_F(AbandonedPortTest, WhileEveryAddressIsAwaited) {
  ip_.answers = false;
  port().open();
  abandon();
}

TEST_F(AbandonedPortTest, WhileAnAddressWaitsForEveryAddress) {
  ip_.answers = false;
  port().open();
  bind(first_port);
  abandon();
}

TEST_F(AbandonedPortTest, WhileTheFirstBindingIsGivenUp) {
  port().open();
  ip_.answers = false;
  bind(first_port);
  EXPECT_TRUE(port().releasing());
  abandon();
}

TEST_F(AbandonedPortTest, WhileTheAddressIsAwaited) {
  port().open();
  ip_.answers = false;
  bind(first_port);
  grant_unbind();
  EXPECT_FALSE(port().releasing());
  abandon();
}

TEST_F(AbandonedPortTest, WhileTheFilterIsAwaited) {
  port().open();
  ip_.answers_filters = false;
  bind(first_port);
  EXPECT_EQ(ip_.filters_asked.size(), 1U);
  abandon();
}

TEST_F(AbandonedPortTest, WhileUnbinding) {
  port().open();
  bind(first_port);
  ip_.answers = false;
  port().unbind();
  EXPECT_TRUE(port().releasing());
  abandon();
}

TEST_F(AbandonedPortTest, WhileAFailedBindIsUndone) {
  port().open();
  ip_.answers = false;
  bind(first_port);
  refuse(T_UNBIND_REQ, TOUTSTATE);
  EXPECT_TRUE(port().releasing());
  abandon();
}

}  // namespace
}  // namespace sluice::test
