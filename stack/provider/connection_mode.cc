// SPDX-License-Identifier: Apache-2.0
#include "stack/provider/connection_mode.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/contract.h"
#include "stack/core/stream_set.h"

namespace sluice::provider {

using namespace wire::tpi;  // the primitives and their numbers
using enum ConnectionEvent;

void ConnectionMode::step(ConnectionEvent event) {
  const auto next = next_state(state_, event);
  SLUICE_REQUIRE(next.has_value());
  state_ = *next;
}

/// T_DATA_REQ: "The transport provider must also recognize a message of one or more M_DATA message blocks without the
/// leading M_PROTO message block as a T_DATA_REQ primitive." A block too short to name a primitive is an unknown one;
/// no primitive has a negative number.
Message ConnectionMode::accept(Message request) {
  if (failed_) {
    ++dropped_;
    return {};
  }
  request.encode();
  const std::int32_t primitive =
      request.type() == MessageType::data ? std::int32_t{T_DATA_REQ} : primitive_of(request.bytes()).value_or(-1);
  switch (connection_action(primitive, state_)) {
    case ConnectionAction::info:
      answer(request, info());
      break;
    case ConnectionAction::capability:
      answer_capability(request, TC1_INFO | TC1_ACCEPTOR_ID, acceptor_id());
      break;
    case ConnectionAction::addresses:
      answer(request, AddrAck{.local = local_address(), .remote = remote_address()});
      break;
    case ConnectionAction::options:
      manage_options(primitive, request);
      break;
    case ConnectionAction::step:
      if (primitive == T_DATA_REQ || primitive == T_ORDREL_REQ) {
        step(*event_of(primitive));
        return request;
      }
      if (primitive == T_EXDATA_REQ) {  // T_INFO_ACK said that there is none
        fail_fatally(request);
        break;
      }
      begin(primitive, std::move(request));
      break;
    case ConnectionAction::ignore:
      ++dropped_;
      break;
    case ConnectionAction::out_of_state:
      ++out_of_state_;
      answer_error(request, primitive, TOUTSTATE);
      break;
    case ConnectionAction::unsupported:
      ++unsupported_;
      answer_error(request, primitive, TNOTSUPPORT);
      break;
    case ConnectionAction::fatal:
      fail_fatally(request);
      break;
  }
  return {};
}

void ConnectionMode::begin(std::int32_t primitive, Message request) {
  request_primitive_ = primitive;
  request_ = std::move(request);
  step(*event_of(primitive));
  switch (state_) {
    case TS_WACK_BREQ:
      return start_bind();
    case TS_WACK_UREQ:
      return unbind();
    case TS_WACK_CREQ:
      return start_connect();
    case TS_WACK_CRES:
      return start_response();
    default:
      return start_disconnect();
  }
}

void ConnectionMode::fail_fatally(Message& request) {
  failed_ = true;
  request_.reset();
  outstanding_.clear();
  release();
  tell_fatal_error(request);
}

void ConnectionMode::start_bind() {
  const auto request = either<BindReq, OldBindReq>(request_.bytes());
  if (!request) {
    return refused(TBADADDR);
  }
  bind(request->address, std::min(request->connect_indications, connect_indications_max));
}

/// Options of a connection are negotiated like any others; one that cannot be had refuses the connection, as the text
/// asks for absolute requirements.
bool ConnectionMode::negotiate(ConstBytes wanted) {
  if (wanted.empty()) {
    return true;
  }
  const auto managed = manage(T_NEGOTIATE, wanted, options());
  return managed && (managed->flags == T_SUCCESS || managed->flags == T_PARTSUCCESS);
}

void ConnectionMode::start_connect() {
  const auto request = ConnReq::decode(request_.bytes());
  if (!request || request->address.empty()) {
    return refused(TBADADDR);
  }
  if (!negotiate(request->options)) {
    return refused(TBADOPT);
  }
  connect(request->address);
}

void ConnectionMode::start_response() {
  const ConstBytes block = request_.bytes();
  const auto xti = ConnRes::decode(block);
  const auto tli = OldConnRes::decode(block);
  if (!xti && !tli) {
    return refused(TSYSERR, EINVAL);
  }
  sequence_ = xti ? xti->sequence : tli->sequence;
  if (!is_outstanding(sequence_)) {
    return refused(TBADSEQ);
  }
  if (!(xti ? xti->options : tli->options).empty()) {
    return refused(TBADOPT);  // options of the accepting stream are its own to manage
  }
  respond(xti ? xti->acceptor_id : tli->acceptor_id, sequence_);
}

std::optional<std::int32_t> ConnectionMode::acceptance_error(bool exists, const ConnectionMode* acceptor,
                                                             bool busy) const {
  if (acceptor == nullptr) {
    return exists ? TPROVMISMATCH : TBADF;
  }
  if (acceptor == this) {
    return outstanding() > 1 ? std::optional<std::int32_t>(TINDOUT) : std::nullopt;
  }
  if (busy || !acceptor->may(pass_conn)) {
    return TOUTSTATE;
  }
  return acceptor->connect_indications() > 0 ? std::optional<std::int32_t>(TRESQLEN) : std::nullopt;
}

void ConnectionMode::start_disconnect() {
  const auto request = DisconReq::decode(request_.bytes());
  if (!request) {
    return refused(TSYSERR, EINVAL);
  }
  if (state_ != TS_WACK_DREQ7) {
    return disconnect();
  }
  sequence_ = request->sequence;
  if (!is_outstanding(sequence_)) {
    return refused(TBADSEQ);
  }
  reject(sequence_);
}

bool ConnectionMode::is_outstanding(std::int32_t sequence) const {
  return std::ranges::find(outstanding_, sequence) != outstanding_.end();
}

std::uint32_t ConnectionMode::acceptor_id() const { return module_.set().module_handles().number(module_.handle()); }

std::int32_t ConnectionMode::new_sequence() {
  return std::exchange(next_sequence_, next_sequence_ == INT32_MAX ? 1 : next_sequence_ + 1);
}

void ConnectionMode::forget(std::int32_t sequence) { std::erase(outstanding_, sequence); }

// ---- Outcomes ----

void ConnectionMode::bound(ConstBytes address, std::uint32_t connect_indications) {
  SLUICE_REQUIRE(address.size() <= address_.size());
  step(bind_ack);
  std::ranges::copy(address, address_.begin());
  address_size_ = address.size();
  connect_indications_ = connect_indications;
  answer(request_, BindAck{.address = bound_address(), .connect_indications = connect_indications});
}

/// TPI 2.0.0, "Rules for Flushing Queues": "The transport provider must send up a M_FLUSH message to flush both the
/// read and write queues after receiving a successful T_UNBIND_REQ message and before issuing the T_OK_ACK primitive."
/// So it is here for T_DISCON_REQ.
void ConnectionMode::acknowledged() {
  const bool of_indication = state_ == TS_WACK_CRES || state_ == TS_WACK_DREQ7;
  if (state_ == TS_WACK_UREQ) {
    address_size_ = 0;
    connect_indications_ = 0;
  }
  if (state_ != TS_WACK_CREQ && !of_indication) {
    tell_flush();
  }
  step(!of_indication ? ok_ack1 : outstanding_.size() > 1 ? ok_ack4 : ok_ack2);
  if (of_indication) {
    forget(sequence_);
  }
  answer(request_, OkAck{.correct_primitive = request_primitive_});
}

void ConnectionMode::accepted_elsewhere() {
  step(outstanding_.size() > 1 ? ok_ack4 : ok_ack3);
  forget(sequence_);
  answer(request_, OkAck{.correct_primitive = request_primitive_});
}

void ConnectionMode::refused(std::int32_t tli_error, std::int32_t unix_error) {
  step(error_ack);
  answer_error(request_, request_primitive_, tli_error, unix_error);
}

// ---- Events ----

void ConnectionMode::indicate_connection(ConstBytes source, std::int32_t sequence) {
  step(conn_ind);
  outstanding_.push_back(sequence);
  tell(ConnInd{.source = source, .options = {}, .sequence = sequence}, MessageType::proto);
}

void ConnectionMode::confirm_connection(ConstBytes responder) {
  step(conn_con);
  tell(ConnCon{.address = responder, .options = {}}, MessageType::proto);
}

/// A connection that is being set up has no data to flush, but perhaps a T_OK_ACK that nobody has read yet.
void ConnectionMode::indicate_disconnection(std::int32_t reason) {
  const bool had_data = state_ != TS_WCON_CREQ;
  step(discon_ind1);
  if (had_data) {
    tell_flush();
  }
  tell(DisconInd{.reason = reason}, MessageType::proto);
}

void ConnectionMode::indicate_withdrawal(std::int32_t reason, std::int32_t sequence) {
  step(outstanding_.size() > 1 ? discon_ind3 : discon_ind2);
  forget(sequence);
  tell(DisconInd{.reason = reason, .sequence = sequence}, MessageType::proto);
}

void ConnectionMode::indicate_release() {
  step(ordrel_ind);
  tell(OrdrelInd{}, MessageType::proto);
}

void ConnectionMode::take_connection(ConstBytes address) {
  step(pass_conn);
  if (address_size_ == 0) {
    std::ranges::copy(address, address_.begin());
    address_size_ = address.size();
  }
}

/// Connection and disconnection carry no data, nothing is expedited.
InfoAck ConnectionMode::info() const {
  return {.tsdu_size = tsdu_size(),
          .etsdu_size = T_INVALID,
          .cdata_size = T_INVALID,
          .ddata_size = T_INVALID,
          .addr_size = wire::TransportAddress::encoded_size_max,
          .opt_size = static_cast<std::int32_t>(all_options_size()),
          .tidu_size = tidu_bytes_max(),
          .serv_type = T_COTS_ORD,
          .current_state = failed_ ? TS_UNBND : state_,
          .provider_flag = XPG4_1};
}

}  // namespace sluice::provider
