// SPDX-License-Identifier: Apache-2.0
// The state table of connectionless providers, each state x each primitive, with a provider that binds when it is told.
#include "stack/provider/connectionless.h"

#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <string>

#include "tests/stack/modules/harness.h"

namespace sluice::test {
namespace {

using namespace wire::tpi;

class ConnectionlessProvider final : public Module, public provider::Connectionless {
 public:
  ConnectionlessProvider() : Module("provider"), Connectionless(static_cast<Module&>(*this)) {}

  void wput(Batch&& batch) override {
    while (Message message = batch.pop()) {
      if (Message datagram = accept(std::move(message))) {
        write_queue().put_next(std::move(datagram));
      }
    }
  }
  void finish() {
    static const auto bound_to = encoded(wire::TransportAddress{wire::Ipv4Address{{10, 0, 0, 1}}, 7000});
    state() == provider::State::binding ? bound(bound_to) : unbound();
  }
  void finish_with(std::int32_t tli_error, std::int32_t unix_error) { refused(tli_error, unix_error); }
  [[nodiscard]] bool replaces() const { return replaces_busy(); }

  bool released = false;
  bool told_at_once = true;

 private:
  [[nodiscard]] std::int32_t tsdu_bytes_max() const override { return 1000; }
  void bind(ConstBytes /*address*/) override { at_once(); }
  void unbind() override { at_once(); }
  void at_once() {
    if (told_at_once) {
      finish();
    }
  }
  void release() override { released = true; }
};

class ConnectionlessStack : public Stack {
 public:
  ConnectionlessStack() : provider_(push<ConnectionlessProvider>()) {}
  ConnectionlessProvider& provider() { return provider_; }
  [[nodiscard]] std::uint64_t counted(std::string_view name) const { return count(provider_, name); }

  /// Words of zero behind the number mean no address, no options.
  void request(std::int32_t primitive, std::uint32_t last_field = 0, MessageType type = MessageType::proto) {
    Message message = raw_proto(*this, {static_cast<std::uint32_t>(primitive), 0, 0, last_field, 0});
    message.first().type = type;
    down(std::move(message));
  }
  void enter(provider::State state) {
    provider_.told_at_once = state == provider::State::idle;
    if (state == provider::State::failed) {
      request(T_DATA_REQ);
    } else if (state != provider::State::unbound) {
      provider_.told_at_once = state != provider::State::binding;
      request(T_BIND_REQ);
    }
    if (state == provider::State::unbinding) {
      provider_.told_at_once = false;
      request(T_UNBIND_REQ);
    }
    SLUICE_REQUIRE(provider_.state() == state);
    while (head().count() > 0) {
      head().take().reset();
    }
    provider_.told_at_once = true;
  }

 private:
  ConnectionlessProvider& provider_;
};

/// What the user, or the network, has got; empty: nothing.
std::string outcome(ConnectionlessStack& stack) {
  std::string all;
  while (stack.head().count() > 0) {
    const Message answer = stack.head().take();
    const auto error = ErrorAck::decode(answer.bytes());
    const std::string name = answer.type() == MessageType::error   ? "M_ERROR"
                             : answer.type() == MessageType::flush ? "M_FLUSH "
                             : !error                              ? std::to_string(*primitive_of(answer.bytes()))
                             : error->tli_error == TOUTSTATE       ? "TOUTSTATE"
                             : error->tli_error == TNOTSUPPORT     ? "TNOTSUPPORT"
                                                                   : "another error";
    all += name;
  }
  while (stack.driver().count() > 0) {
    stack.driver().take().reset();
    all += "sent";
  }
  return all;
}

struct Expectation {
  std::int32_t primitive;
  const char* unbound;
  const char* waiting;
  const char* idle;
};

constexpr auto expectations = std::to_array<Expectation>({
    // T_INFO_REQ: "This primitive requests the transport provider to return the sizes of all relevant protocol
    // parameters, plus the current state of the provider." T_CAPABILITY_REQ: "This primitive may be sent at any time."
    {T_INFO_REQ, "16", "16", "16"},
    {T_CAPABILITY_REQ, "31", "31", "31"},
    {T_ADDR_REQ, "25", "25", "25"},
    // "TOUTSTATE: The primitive would place the transport interface out of state."
    {T_BIND_REQ, "17", "TOUTSTATE", "TOUTSTATE"},
    {O_T_BIND_REQ, "17", "TOUTSTATE", "TOUTSTATE"},
    {T_UNBIND_REQ, "TOUTSTATE", "TOUTSTATE", "M_FLUSH 19"},
    {T_OPTMGMT_REQ, "22", "TOUTSTATE", "22"},
    {T_SVR4_OPTMGMT_REQ, "22", "TOUTSTATE", "22"},
    // T_UNITDATA_REQ: "EPROTO: This indicates one of the following unrecoverable protocol conditions: The transport
    // service interface was found to be in an incorrect state."
    {T_UNITDATA_REQ, "M_ERROR", "M_ERROR", "sent"},
    // "This primitive does not require any acknowledgments, although it may generate a fatal error. This is indicated
    // via a M_ERROR message type".
    {T_DATA_REQ, "M_ERROR", "M_ERROR", "M_ERROR"},
    {T_EXDATA_REQ, "M_ERROR", "M_ERROR", "M_ERROR"},
    {T_OPTDATA_REQ, "M_ERROR", "M_ERROR", "M_ERROR"},
    {T_ORDREL_REQ, "M_ERROR", "M_ERROR", "M_ERROR"},
    // "TNOTSUPPORT: This primitive is not supported by the transport provider." What only a provider says, and what
    // nobody does, likewise.
    {T_CONN_REQ, "TNOTSUPPORT", "TNOTSUPPORT", "TNOTSUPPORT"},
    {T_CONN_RES, "TNOTSUPPORT", "TNOTSUPPORT", "TNOTSUPPORT"},
    {T_DISCON_REQ, "TNOTSUPPORT", "TNOTSUPPORT", "TNOTSUPPORT"},
    {T_OK_ACK, "TNOTSUPPORT", "TNOTSUPPORT", "TNOTSUPPORT"},
    {T_UNITDATA_IND, "TNOTSUPPORT", "TNOTSUPPORT", "TNOTSUPPORT"},
    {9999, "TNOTSUPPORT", "TNOTSUPPORT", "TNOTSUPPORT"},
    {-1, "TNOTSUPPORT", "TNOTSUPPORT", "TNOTSUPPORT"},
});

TEST(Connectionless, EveryPrimitiveInEveryState) {
  for (const Expectation& expected : expectations) {
    for (const auto& [state, answer] :
         {std::pair(provider::State::unbound, expected.unbound), std::pair(provider::State::binding, expected.waiting),
          std::pair(provider::State::unbinding, expected.waiting), std::pair(provider::State::idle, expected.idle),
          // "If the transport provider sends a M_ERROR upstream, it should also drop any further messages received on
          // its write side of the stream."
          std::pair(provider::State::failed, "")}) {
      ConnectionlessStack stack;
      stack.enter(state);
      const bool options = expected.primitive == T_OPTMGMT_REQ || expected.primitive == T_SVR4_OPTMGMT_REQ;
      stack.request(expected.primitive, options ? T_CURRENT : 0);
      EXPECT_EQ(outcome(stack), answer) << expected.primitive << " in state " << static_cast<int>(state);
      if (answer == std::string_view("M_ERROR")) {
        EXPECT_EQ(stack.provider().state(), provider::State::failed);
        EXPECT_TRUE(stack.provider().released);
      }
    }
  }
}

TEST(Connectionless, EveryRowOfTheTableIsExpected) {
  for (const provider::Row& row : provider::state_table) {
    EXPECT_NE(std::ranges::find(expectations, row.primitive, &Expectation::primitive), expectations.end());
  }
}

/// CURRENT_state, as T_INFO_ACK tells it.
std::int32_t current_state(ConnectionlessStack& stack) {
  stack.request(T_INFO_REQ);
  return InfoAck::decode(stack.head().take().bytes())->current_state;
}

TEST(Connectionless, InfoTellsTheState) {
  for (const auto& [state, told] :
       {std::pair(provider::State::unbound, TS_UNBND), std::pair(provider::State::binding, TS_WACK_BREQ),
        std::pair(provider::State::unbinding, TS_WACK_UREQ), std::pair(provider::State::idle, TS_IDLE)}) {
    ConnectionlessStack stack;
    stack.enter(state);
    EXPECT_EQ(current_state(stack), told);
  }
}

TEST(Connectionless, BindAndUnbindEndWhenTheProviderSaysSo) {
  ConnectionlessStack stack;
  stack.enter(provider::State::binding);
  EXPECT_EQ(outcome(stack), "");
  stack.provider().finish();
  EXPECT_EQ(outcome(stack), "17");
  EXPECT_EQ(current_state(stack), TS_IDLE);
}

TEST(Connectionless, ARefusalLeavesTheStateAsItWas) {
  for (const std::int32_t primitive : {T_BIND_REQ, O_T_BIND_REQ}) {
    ConnectionlessStack stack;
    stack.provider().told_at_once = false;
    stack.request(primitive);
    EXPECT_EQ(stack.provider().replaces(), primitive == O_T_BIND_REQ);
    stack.provider().finish_with(TADDRBUSY, 0);
    EXPECT_EQ(ErrorAck::decode(stack.head().take().bytes()), (ErrorAck{primitive, TADDRBUSY, 0}));
    EXPECT_EQ(stack.provider().state(), provider::State::unbound);
  }
  ConnectionlessStack stack;
  stack.enter(provider::State::unbinding);
  stack.provider().finish_with(TSYSERR, EIO);
  EXPECT_EQ(ErrorAck::decode(stack.head().take().bytes()), (ErrorAck{T_UNBIND_REQ, TSYSERR, EIO}));
  EXPECT_EQ(stack.provider().state(), provider::State::idle);
}

TEST(Connectionless, WhatIsRefusedOrDroppedIsCounted) {
  ConnectionlessStack stack;
  stack.request(T_UNBIND_REQ);
  stack.request(9999);
  stack.request(T_ORDREL_REQ);
  stack.request(T_INFO_REQ);
  stack.request(T_DATA_REQ);
  EXPECT_EQ(stack.counted("out_of_state"), 1U);
  EXPECT_EQ(stack.counted("unsupported"), 1U);
  EXPECT_EQ(stack.counted("protocol_errors"), 1U);
  EXPECT_EQ(stack.counted("dropped"), 2U);
}

}  // namespace
}  // namespace sluice::test
