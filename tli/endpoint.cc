// SPDX-License-Identifier: Apache-2.0

// Opening, closing and local management.

#include <array>
#include <cerrno>
#include <system_error>

#include "stack/wire/timod.h"
#include "stack/wire/tpi.h"
#include "tli/buffers.h"
#include "tli/endpoint.h"
#include "tli/requests.h"

namespace sluice::tli {
namespace {

namespace tpi = wire::tpi;
using enum wire::tpi::TliError;

Failure system_failure(const Error& error) { return {TSYSERR, error.code}; }

t_info info_of(const tpi::InfoAck& ack) {
  return {ack.addr_size,  ack.opt_size,   ack.tsdu_size, ack.etsdu_size,
          ack.cdata_size, ack.ddata_size, ack.serv_type, ack.provider_flag};
}

}  // namespace

Outcome<std::unique_ptr<Endpoint>> Endpoint::t_open(std::unique_ptr<Stream> stream, t_info* info) {
  if (stream->look().value_or("") != "timod") {
    return failed(TBADNAME);
  }
  std::unique_ptr<Endpoint> endpoint(new Endpoint(std::move(stream)));
  endpoint->stream_->accept_segments();
  if (Outcome<> learned = endpoint->learn_info(&endpoint->state_); !learned) {
    return std::unexpected(learned.error());
  }
  if (info != nullptr) {
    *info = endpoint->info_;
  }
  return endpoint;
}

Outcome<> Endpoint::t_close() {
  Outcome<> valid = require(Call::close);
  if (valid) {
    // What still waits to be sent may leave; a program that closes a non-blocking endpoint does not wait for it.
    [[maybe_unused]] const Status drained = stream_->drain();
    next_.reset();
    stream_.reset();
    state_ = T_UNINIT;
  }
  return valid;
}

/// One of timod's atomic requests. "If an error occurs, [...] the lower 8 bits of the return value will be one of the
/// TLI error codes [...] If the TLI error is of type TSYSERR, then the next 8 bits of the return value will contain an
/// error" (timod(4M)).
Outcome<std::vector<std::byte>> Endpoint::ask(std::int32_t command, ConstBytes primitive) {
  Result<Stream::IoctlAnswer> answer = stream_->ioctl(command, primitive);
  if (!answer) {
    return std::unexpected(system_failure(answer.error()));
  }
  if (answer->return_value != 0) {
    return failed(static_cast<tpi::TliError>(answer->return_value & 0xff), (answer->return_value >> 8) & 0xff);
  }
  return std::move(answer->data);
}

Outcome<> Endpoint::learn_info(State* state) {
  const auto answer = request(wire::timod::TI_GETINFO, tpi::InfoReq{}, TPROTO);
  if (!answer) {
    return std::unexpected(answer.error());
  }
  const auto ack = tpi::InfoAck::decode(*answer);
  if (!ack) {
    return failed(TPROTO);
  }
  info_ = info_of(*ack);
  piece_bytes_max_ = ack->tidu_size > 0 ? static_cast<std::size_t>(ack->tidu_size) : piece_bytes_default;
  if (state == nullptr) {
    return {};
  }
  // "[TSTATECHNG] The transport endpoint is undergoing a state change." (t_sync(3NSL))
  const State told = state_of(ack->current_state);
  if (told == T_UNINIT) {
    return failed(TSTATECHNG);
  }
  *state = told;
  outstanding_ = told == T_INCON ? std::max(outstanding_, 1U) : 0;
  return {};
}

/// The user's state where the provider's is that; T_UNINIT: none, it is changing. The user has not moved on while what
/// will move him waits to be received; what he has called is known here, unless the stream was in use before.
State Endpoint::state_of(std::int32_t provider_state) {
  static constexpr std::array<std::pair<std::int32_t, State>, 7> states{{{tpi::TS_UNBND, T_UNBND},
                                                                         {tpi::TS_IDLE, T_IDLE},
                                                                         {tpi::TS_WCON_CREQ, T_OUTCON},
                                                                         {tpi::TS_WRES_CIND, T_INCON},
                                                                         {tpi::TS_DATA_XFER, T_DATAXFER},
                                                                         {tpi::TS_WIND_ORDREL, T_OUTREL},
                                                                         {tpi::TS_WREQ_ORDREL, T_INREL}}};
  const auto* const found = std::ranges::find(states, provider_state, &std::pair<std::int32_t, State>::first);
  const State stable = found == states.end() ? T_UNINIT : found->second;
  if (info_.servtype == tpi::T_CLTS) {
    return stable <= T_IDLE ? stable : T_UNINIT;
  }
  const std::int32_t event = stable == T_UNINIT ? nothing_waits : first_event().value_or(nothing_waits);
  if (event == nothing_waits || state_ != T_UNBND) {
    return event == nothing_waits ? stable : state_;
  }
  switch (event) {
    case tpi::T_CONN_IND:
      return T_IDLE;
    case tpi::T_CONN_CON:
      return T_OUTCON;
    case tpi::T_DISCON_IND:
      return stable == T_INCON ? T_INCON : T_DATAXFER;
    default:
      return stable == T_IDLE || stable == T_OUTREL ? T_OUTREL : T_DATAXFER;
  }
}

Outcome<> Endpoint::t_bind(const tli::t_bind* req, tli::t_bind* ret) {
  if (Outcome<> valid = require(Call::bind); !valid) {
    return valid;
  }
  tpi::BindReq primitive;
  if (req != nullptr) {
    primitive.address = content(req->addr);
    primitive.connect_indications = req->qlen;
  }
  const auto answer = request(wire::timod::TI_BIND, primitive, TBADADDR);
  if (!answer) {
    return std::unexpected(answer.error());
  }
  step(Call::bind);
  const auto ack = tpi::BindAck::decode(*answer);
  if (!ack) {
    return failed(TPROTO);
  }
  qlen_ = ack->connect_indications;
  if (ret != nullptr) {
    ret->qlen = ack->connect_indications;
    // "[TBUFOVFLW] [...] The provider's state will change to T_IDLE and the information to be returned in ret will be
    // discarded." (t_bind)
    return store(ack->address, ret->addr) ? Outcome<>() : failed(TBUFOVFLW);
  }
  return {};
}

Outcome<> Endpoint::t_unbind() {
  if (Outcome<> valid = require(Call::unbind); !valid) {
    return valid;
  }
  // "[TLOOK] An asynchronous event has occurred on this transport endpoint." For t_unbind() XNS 5.2 ("Events and TLOOK
  // Error Indication") names T_LISTEN and, in connectionless mode, T_DATA. T_UDERR is told of, too: afterwards
  // t_rcvuderr() would be out of state.
  if (info_.servtype == tpi::T_CLTS ? good_indication() : first_event() != nothing_waits) {
    return failed(TLOOK);
  }
  if (const auto answer = request(wire::timod::TI_UNBIND, tpi::UnbindReq{}, TPROTO); !answer) {
    return std::unexpected(answer.error());
  }
  step(Call::unbind);
  qlen_ = 0;
  // "no further data or events destined for this transport endpoint will be accepted" (t_unbind).
  next_.reset();
  while (stream_->receive()) {
  }
  return {};
}

Outcome<> Endpoint::t_optmgmt(const tli::t_optmgmt& req, tli::t_optmgmt& ret) {
  if (Outcome<> valid = require(Call::optmgmt); !valid) {
    return valid;
  }
  const auto answer = request(wire::timod::TI_OPTMGMT, tpi::OptmgmtReq{content(req.opt), req.flags}, TBADOPT);
  if (!answer) {
    return std::unexpected(answer.error());
  }
  const auto ack = tpi::OptmgmtAck::decode(*answer);
  if (!ack) {
    return failed(TPROTO);
  }
  ret.flags = ack->flags;
  return store(ack->options, ret.opt) ? Outcome<>() : failed(TBUFOVFLW);
}

Outcome<> Endpoint::t_getinfo(t_info& info) {
  Outcome<> valid = require(Call::getinfo);
  valid = valid ? learn_info(nullptr) : valid;
  if (valid) {
    info = info_;
  }
  return valid;
}

Outcome<State> Endpoint::t_sync() {
  Outcome<> valid = require(Call::sync);
  valid = valid ? learn_info(&state_) : valid;
  return valid ? Outcome<State>(state_) : std::unexpected(valid.error());
}

Outcome<> Endpoint::t_getprotaddr(tli::t_bind* boundaddr, tli::t_bind* peeraddr) {
  if (Outcome<> valid = require(Call::getprotaddr); !valid) {
    return valid;
  }
  for (tli::t_bind* const asked : {boundaddr, peeraddr}) {
    if (asked != nullptr) {
      asked->addr.len = 0;
    }
  }
  const bool connected = state_ >= T_DATAXFER;
  if (state_ == T_UNBND || (boundaddr == nullptr && (peeraddr == nullptr || !connected))) {
    return {};
  }
  const auto answer = request(wire::timod::TI_GETADDRS, tpi::AddrReq{}, TPROTO);
  if (!answer) {
    return std::unexpected(answer.error());
  }
  const auto ack = tpi::AddrAck::decode(*answer);
  if (!ack) {
    return failed(TPROTO);
  }
  const bool bound_fits = boundaddr == nullptr || store(ack->local, boundaddr->addr);
  const bool peer_fits = peeraddr == nullptr || !connected || store(ack->remote, peeraddr->addr);
  return bound_fits && peer_fits ? Outcome<>() : failed(TBUFOVFLW);
}

std::string Endpoint::t_error(std::string_view message, const Failure& failure) {
  std::string text(message);
  text += text.empty() ? "" : ": ";
  text += t_strerror(failure.t_errno);
  if (failure.t_errno == TSYSERR) {
    text += ": " + std::generic_category().message(failure.system_errno);
  }
  return text;
}

}  // namespace sluice::tli
