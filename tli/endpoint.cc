// SPDX-License-Identifier: Apache-2.0

// Opening, closing and local management.

#include <array>
#include <cerrno>
#include <system_error>

#include "stack/wire/timod.h"
#include "stack/wire/tpi.h"
#include "tli/buffers.h"
#include "tli/endpoint.h"

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

/// As ask(); `too_large` where the primitive is that.
template <class Primitive>
Outcome<std::vector<std::byte>> Endpoint::request(std::int32_t command, const Primitive& primitive,
                                                  tpi::TliError too_large) {
  std::array<std::byte, primitive_bytes_max> block{};
  if (primitive.encoded_size() > block.size()) {
    return failed(too_large);
  }
  return ask(command, std::span(block).first(primitive.encode(block)));
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
  const bool stable = ack->current_state == tpi::TS_UNBND || ack->current_state == tpi::TS_IDLE;
  if (state != nullptr && stable) {
    *state = ack->current_state == tpi::TS_IDLE ? T_IDLE : T_UNBND;
  }
  // "[TSTATECHNG] The transport endpoint is undergoing a state change." (t_sync(3NSL))
  return state == nullptr || stable ? Outcome<>() : failed(TSTATECHNG);
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
  state_ = *next_state(state_, Call::bind);
  const auto ack = tpi::BindAck::decode(*answer);
  if (!ack) {
    return failed(TPROTO);
  }
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
  if (good_indication()) {
    return failed(TLOOK);
  }
  if (const auto answer = request(wire::timod::TI_UNBIND, tpi::UnbindReq{}, TPROTO); !answer) {
    return std::unexpected(answer.error());
  }
  state_ = *next_state(state_, Call::unbind);
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
  if (peeraddr != nullptr) {
    peeraddr->addr.len = 0;
  }
  if (boundaddr == nullptr) {
    return {};
  }
  boundaddr->addr.len = 0;
  if (state_ != T_IDLE) {
    return {};
  }
  const auto answer = ask(wire::timod::TI_GETMYNAME, {});
  if (!answer) {
    return std::unexpected(answer.error());
  }
  return store(*answer, boundaddr->addr) ? Outcome<>() : failed(TBUFOVFLW);
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
