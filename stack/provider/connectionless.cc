// SPDX-License-Identifier: Apache-2.0
#include "stack/provider/connectionless.h"

#include <algorithm>
#include <utility>

#include "base/contract.h"
#include "stack/core/primitive.h"
#include "stack/core/stream_set.h"

namespace sluice::provider {
using namespace wire::tpi;  // the primitives and their numbers

/// T_DATA_REQ: "The transport provider must also recognize a message of one or more M_DATA message blocks without the
/// leading M_PROTO message block as a T_DATA_REQ primitive." A block too short to name a primitive is an unknown one;
/// no primitive has a negative number.
Message Connectionless::accept(Message request) {
  request.encode();
  const std::int32_t primitive =
      request.type() == MessageType::data ? std::int32_t{T_DATA_REQ} : primitive_of(request.bytes()).value_or(-1);
  switch (action_for(primitive, state_)) {
    case Action::info:
      answer(request, info());
      break;
    case Action::capability:
      answer_capability(request, TC1_INFO);
      break;
    case Action::addresses:
      // T_ADDR_ACK: "If the transport endpoint is not bound to a local address, the LOCADDR_length field is set to 0."
      answer(request, AddrAck{.local = ConstBytes(address_).first(address_size_), .remote = {}});
      break;
    case Action::bind:
      request_ = std::move(request);
      start_bind(primitive);
      break;
    case Action::unbind:
      request_ = std::move(request);
      state_ = State::unbinding;
      unbind();
      break;
    case Action::options:
      manage_options(primitive, request);
      break;
    case Action::send:
      request.first().type = MessageType::proto;  // a datagram never overtakes another
      return request;
    case Action::out_of_state:
      ++out_of_state_;
      answer_error(request, primitive, TOUTSTATE);
      break;
    case Action::unsupported:
      ++unsupported_;
      answer_error(request, primitive, TNOTSUPPORT);
      break;
    case Action::fatal:
      fail_fatally(request);
      break;
    case Action::drop:
      ++dropped_;
      break;
  }
  return {};
}

void Connectionless::fail_fatally(Message& request) {
  state_ = State::failed;
  request_.reset();
  release();
  tell_fatal_error(request);
}

InfoAck Connectionless::info() const {
  const auto current_state = [this] {
    switch (state_) {
      case State::binding:
        return TS_WACK_BREQ;
      case State::unbinding:
        return TS_WACK_UREQ;
      case State::idle:
        return TS_IDLE;
      default:
        return TS_UNBND;
    }
  };
  return {.tsdu_size = tsdu_bytes_max(),
          .addr_size = wire::TransportAddress::encoded_size_max,
          .opt_size = static_cast<std::int32_t>(all_options_size()),
          .tidu_size = tsdu_bytes_max(),
          .serv_type = T_CLTS,
          .current_state = current_state(),
          .provider_flag = SENDZERO | XPG4_1};
}

/// T_BIND_REQ: "Note that the CONIND_number should be ignored by those providing a connectionless transport service."
void Connectionless::start_bind(std::int32_t primitive) {
  bind_primitive_ = primitive;
  state_ = State::binding;
  const auto request = either<BindReq, OldBindReq>(request_.bytes());
  if (!request) {
    return refused(TBADADDR);
  }
  bind(request->address);
}

void Connectionless::bound(ConstBytes address) {
  SLUICE_REQUIRE(state_ == State::binding && address.size() <= address_.size());
  std::ranges::copy(address, address_.begin());
  address_size_ = address.size();
  state_ = State::idle;
  answer(request_, BindAck{.address = ConstBytes(address_).first(address_size_)});
}

/// TPI 2.0.0, "Rules for Flushing Queues": "The transport provider must send up a M_FLUSH message to flush both the
/// read and write queues after receiving a successful T_UNBIND_REQ message and before issuing the T_OK_ACK primitive."
void Connectionless::unbound() {
  SLUICE_REQUIRE(state_ == State::unbinding);
  state_ = State::unbound;
  address_size_ = 0;
  tell_flush();
  answer(request_, OkAck{.correct_primitive = T_UNBIND_REQ});
}

void Connectionless::refused(std::int32_t tli_error, std::int32_t unix_error) {
  SLUICE_REQUIRE(state_ == State::binding || state_ == State::unbinding);
  const bool binding = state_ == State::binding;
  state_ = binding ? State::unbound : State::idle;
  answer_error(request_, binding ? bind_primitive_ : std::int32_t{T_UNBIND_REQ}, tli_error, unix_error);
}

}  // namespace sluice::provider
