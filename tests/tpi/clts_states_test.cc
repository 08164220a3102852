// SPDX-License-Identifier: Apache-2.0
// Every state x every primitive of kernel_udp, against what TPI version 2 says.
#include "tpi/clts_states.h"

#include <gtest/gtest.h>

#include <array>
#include <string>

#include "tests/tpi/endpoint.h"

namespace sluice::tpi {
namespace {

using namespace wire::tpi;

/// A well-formed block of any primitive: fields of zero mean no address, no options.
Message request(BufferPool& pool, std::int32_t primitive, std::int32_t last_field = 0) {
  Message message = Message::allocate(pool, 20, 0, MessageType::proto);
  const Bytes block = message.append(20);
  std::fill(block.begin(), block.end(), std::byte{0});
  wire::store_word(block.data(), static_cast<std::uint32_t>(primitive));
  wire::store_word(block.data() + 12, static_cast<std::uint32_t>(last_field));
  return message;
}

struct Expectation {
  std::int32_t primitive;
  std::int32_t answer_unbound;  // the primitive that comes up; 0 for M_ERROR
  std::int32_t answer_idle;
  std::int32_t error_unbound = 0;  // TLI_error where the answer is T_ERROR_ACK
  std::int32_t error_idle = 0;
  State after_unbound = State::unbound;
  State after_idle = State::idle;
};

constexpr std::int32_t m_error = 0;
constexpr std::int32_t T_CONN_REQ = 0;
constexpr std::int32_t T_CONN_RES = 1;
constexpr std::int32_t T_DISCON_REQ = 2;

constexpr auto expectations = std::to_array<Expectation>({
    // "This primitive requests the transport provider to return the sizes of all relevant protocol parameters, plus the
    // current state of the provider." In every state.
    {T_INFO_REQ, T_INFO_ACK, T_INFO_ACK},
    {T_CAPABILITY_REQ, T_CAPABILITY_ACK, T_CAPABILITY_ACK},
    {T_ADDR_REQ, T_ADDR_ACK, T_ADDR_ACK},
    // T_BIND_REQ: "TOUTSTATE: The primitive would place the transport interface out of state."
    {T_BIND_REQ, T_BIND_ACK, T_ERROR_ACK, 0, TOUTSTATE, State::idle},
    {O_T_BIND_REQ, T_BIND_ACK, T_ERROR_ACK, 0, TOUTSTATE, State::idle},
    // T_UNBIND_REQ: likewise.
    {T_UNBIND_REQ, T_ERROR_ACK, T_OK_ACK, TOUTSTATE, 0, State::unbound, State::unbound},
    {T_OPTMGMT_REQ, T_OPTMGMT_ACK, T_OPTMGMT_ACK},
    {T_SVR4_OPTMGMT_REQ, T_OPTMGMT_ACK, T_OPTMGMT_ACK},
    // T_UNITDATA_REQ: "EPROTO: This indicates one of the following unrecoverable protocol conditions: The transport
    // service
    // interface was found to be in an incorrect state." In TS_IDLE a datagram without destination: "If a non-fatal
    // error occurs, it is the responsibility of the transport provider to report it via the T_UDERROR_IND indication."
    {T_UNITDATA_REQ, m_error, T_UDERROR_IND, 0, 0, State::failed},
    // Connection mode. T_ERROR_ACK "may only be initiated as an acknowledgment for those primitives that require one",
    // which T_DATA_REQ, T_EXDATA_REQ and T_ORDREL_REQ do not.
    {T_DATA_REQ, m_error, m_error, 0, 0, State::failed, State::failed},
    {T_EXDATA_REQ, m_error, m_error, 0, 0, State::failed, State::failed},
    {T_ORDREL_REQ, m_error, m_error, 0, 0, State::failed, State::failed},
    {T_CONN_REQ, T_ERROR_ACK, T_ERROR_ACK, TNOTSUPPORT, TNOTSUPPORT},
    {T_CONN_RES, T_ERROR_ACK, T_ERROR_ACK, TNOTSUPPORT, TNOTSUPPORT},
    {T_DISCON_REQ, T_ERROR_ACK, T_ERROR_ACK, TNOTSUPPORT, TNOTSUPPORT},
    // What only a provider says, and what nobody does.
    {T_OK_ACK, T_ERROR_ACK, T_ERROR_ACK, TNOTSUPPORT, TNOTSUPPORT},
    {T_UNITDATA_IND, T_ERROR_ACK, T_ERROR_ACK, TNOTSUPPORT, TNOTSUPPORT},
    {9999, T_ERROR_ACK, T_ERROR_ACK, TNOTSUPPORT, TNOTSUPPORT},
    {-1, T_ERROR_ACK, T_ERROR_ACK, TNOTSUPPORT, TNOTSUPPORT},
});

class CltsStates : public KernelUdpTest, public testing::WithParamInterface<Expectation> {
 protected:
  /// The state of the interface, as T_INFO_ACK tells it; failed when no answer comes.
  [[nodiscard]] State state_of(Endpoint& endpoint) {
    endpoint.put(InfoReq{});
    Message answer = endpoint.take();
    if (!answer) {
      return State::failed;
    }
    return InfoAck::decode(answer.bytes())->current_state == TS_IDLE ? State::idle : State::unbound;
  }

  void check(Endpoint& endpoint, std::int32_t primitive, std::int32_t answer, std::int32_t error) {
    const std::int32_t flags =
        primitive == T_OPTMGMT_REQ || primitive == T_SVR4_OPTMGMT_REQ ? std::int32_t{T_DEFAULT} : 0;
    endpoint.down().put_next(request(set.pool(), primitive, flags));
    set.scheduler().poll(loop->now());
    Message message = endpoint.take();
    ASSERT_TRUE(message);
    if (answer == m_error) {
      ASSERT_EQ(message.type(), MessageType::error);
      ASSERT_EQ(message.size(), 2U);
      EXPECT_EQ(message.bytes()[0], std::byte{EPROTO});
      EXPECT_EQ(message.bytes()[1], std::byte{EPROTO});
      return;
    }
    ASSERT_EQ(primitive_of(message.bytes()), answer);
    EXPECT_EQ(message.type(), answer == T_UDERROR_IND ? MessageType::proto : MessageType::pcproto);
    if (answer == T_ERROR_ACK) {
      const auto refused = ErrorAck::decode(message.bytes());
      EXPECT_EQ(refused->error_primitive, primitive);
      EXPECT_EQ(refused->tli_error, error);
      EXPECT_EQ(refused->unix_error, 0);
    }
    EXPECT_FALSE(endpoint.take()) << "one answer only";
  }
};

TEST_P(CltsStates, Unbound) {
  const Expectation& expected = GetParam();
  Endpoint endpoint(set);
  check(endpoint, expected.primitive, expected.answer_unbound, expected.error_unbound);
  EXPECT_EQ(state_of(endpoint), expected.after_unbound);
}

TEST_P(CltsStates, Idle) {
  const Expectation& expected = GetParam();
  Endpoint endpoint(set);
  endpoint.bind("127.0.0.1:0");
  check(endpoint, expected.primitive, expected.answer_idle, expected.error_idle);
  EXPECT_EQ(state_of(endpoint), expected.after_idle);
}

/// "If the transport provider sends a M_ERROR upstream, it should also drop any further messages received on its write
/// side of the stream."
TEST_P(CltsStates, AfterAFatalErrorNothingIsAnswered) {
  Endpoint endpoint(set);
  endpoint.down().put_next(request(set.pool(), T_DATA_REQ));
  ASSERT_EQ(endpoint.take().type(), MessageType::error);
  endpoint.down().put_next(request(set.pool(), GetParam().primitive));
  set.scheduler().poll(loop->now());
  EXPECT_FALSE(endpoint.take());
  EXPECT_EQ(endpoint.counter("dropped"), 1U);
}

INSTANTIATE_TEST_SUITE_P(EveryPrimitive, CltsStates, testing::ValuesIn(expectations), [](const auto& instance) {
  const std::int32_t primitive = instance.param.primitive;
  return primitive < 0 ? std::string("negative") : "primitive" + std::to_string(primitive);
});

TEST(CltsTable, EveryRowIsTested) {
  for (const Row& row : clts_table) {
    EXPECT_TRUE(std::any_of(expectations.begin(), expectations.end(), [&](const Expectation& one) {
      return one.primitive == row.primitive;
    })) << row.primitive;
  }
}

}  // namespace
}  // namespace sluice::tpi
