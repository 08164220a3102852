// SPDX-License-Identifier: Apache-2.0

// Connections: asking for one, and accepting one.

#include <cerrno>
#include <utility>

#include "stack/core/primitive.h"
#include "stack/wire/timod.h"
#include "stack/wire/tpi_connection.h"
#include "tli/buffers.h"
#include "tli/endpoint.h"
#include "tli/requests.h"

namespace sluice::tli {

namespace tpi = wire::tpi;
using enum wire::tpi::TliError;

namespace {

/// Stores what a primitive tells of a call: all of it, or nothing. "[TBUFOVFLW] The number of bytes allocated for an
/// incoming argument (maxlen) is greater than 0 but not sufficient to store the value of that argument [...] and the
/// information to be returned in rcvcall is discarded." (t_connect(3NSL))
Outcome<> tell(ConstBytes address, ConstBytes options, const Message& message, t_call& call) {
  const std::size_t size = message.data_size();
  call.udata.len = 0;
  const bool fits = call.udata.maxlen == 0 || size <= call.udata.maxlen;
  if (!store_both(address, call.addr, options, call.opt) || !fits) {
    call.addr.len = call.opt.len = 0;
    return failed(TBUFOVFLW);
  }
  call.udata.len = call.udata.maxlen == 0 ? 0 : size;
  static_cast<void>(message.copy_data_to(0, {call.udata.buf, call.udata.len}));
  return {};
}

}  // namespace

/// "By default, t_connect() executes in synchronous mode, and will wait for the destination user's response before
/// returning control to the local user. [...] if O_NONBLOCK is set [...] the call will not wait for the remote user's
/// response, but will return control immediately to the local user and return -1 with t_errno set to TNODATA"
/// (t_connect(3NSL)).
Outcome<> Endpoint::t_connect(const t_call& sndcall, t_call* rcvcall) {
  if (Outcome<> valid = require_connections(Call::connect2); !valid) {
    return valid;
  }
  if (const auto event = first_event(); event != nothing_waits) {
    return event ? failed(TLOOK) : std::unexpected(event.error());
  }
  if (!within(sndcall.udata.len, info_.connect)) {
    return failed(TBADDATA);
  }
  Outcome<> done = put(tpi::ConnReq{content(sndcall.addr), content(sndcall.opt)}, content(sndcall.udata),
                       sndcall.addr.len > primitive_bytes_max / 2 ? TBADADDR : TBADOPT);
  done = done ? acknowledged(tpi::T_CONN_REQ) : done;
  if (!done) {
    return done;
  }
  step(Call::connect2);
  return stream_->may_block() ? receive_confirmation(rcvcall) : failed(TNODATA);
}

Outcome<> Endpoint::t_rcvconnect(t_call* call) {
  Outcome<> valid = require_connections(Call::rcvconnect);
  return valid ? receive_confirmation(call) : valid;
}

Outcome<> Endpoint::receive_confirmation(t_call* call) {
  const auto event = next_event(stream_->may_block());
  if (!event) {
    return std::unexpected(event.error());
  }
  if (*event != tpi::T_CONN_CON) {
    return failed(TLOOK);
  }
  const Message confirmation = std::move(next_);
  step(Call::rcvconnect);
  const auto primitive = tpi::ConnCon::decode(confirmation.bytes());
  if (!primitive) {
    return failed(TPROTO);
  }
  return call == nullptr ? Outcome<>() : tell(primitive->address, primitive->options, confirmation, *call);
}

/// "[TQFULL] The maximum number of outstanding connection indications has been reached for the endpoint"
/// (t_listen(3NSL)); then no other can come, so nobody waits. "[TBUFOVFLW] The provider's state, as seen by the user,
/// changes to T_INCON
/// [...] The value of sequence returned can be used to do a t_snddis()."
Outcome<> Endpoint::t_listen(t_call& call) {
  if (Outcome<> valid = require_connections(Call::listen); !valid) {
    return valid;
  }
  if (qlen_ == 0) {
    return failed(TBADQLEN);
  }
  const bool full = outstanding_ >= qlen_;
  const auto event = next_event(stream_->may_block() && !full);
  if (full && (event == tpi::T_CONN_IND || event == failed(TNODATA))) {
    return failed(TQFULL);
  }
  if (!event) {
    return std::unexpected(event.error());
  }
  if (*event != tpi::T_CONN_IND) {
    return failed(TLOOK);
  }
  const Message indication = std::move(next_);
  const auto primitive = tpi::ConnInd::decode(indication.bytes());
  if (!primitive) {
    return failed(TPROTO);
  }
  step(Call::listen);
  ++outstanding_;
  call.sequence = primitive->sequence;
  return tell(primitive->source, primitive->options, indication, call);
}

/// "If a different transport endpoint is specified (resfd!=fd), then the user may or may not choose to bind the
/// endpoint before the t_accept() is issued. [...] If the transport user chooses to bind the endpoint it must be bound
/// to a protocol address with a qlen of zero and must be in the T_IDLE state before the t_accept() is issued."
/// "[TINDOUT] The function was called with fd==resfd but there are outstanding connection indications on the endpoint."
/// (t_accept(3NSL)) The threat: an ACCEPTOR_id means a stream of its own stream set; taken to another it might name a
/// stranger there, who would get the connection.
Outcome<> Endpoint::t_accept(Endpoint& resfd, const t_call& call) {
  const bool elsewhere = &resfd != this;
  Outcome<> ready = require_connections(Call::accept2);
  ready = ready && elsewhere && resfd.info_.servtype != info_.servtype ? failed(TPROVMISMATCH) : ready;
  ready = ready && elsewhere ? resfd.require(Call::pass_conn) : ready;
  if (!ready) {
    return ready;
  }
  if (elsewhere && &resfd.stream_->set() != &stream_->set()) {
    return failed(TBADF);
  }
  if (elsewhere && resfd.qlen_ > 0) {
    return failed(TRESQLEN);
  }
  if (!elsewhere && outstanding_ > 1) {
    return failed(TINDOUT);
  }
  const auto event = first_event();
  if (event == tpi::T_DISCON_IND || (event == tpi::T_CONN_IND && !elsewhere)) {
    return failed(TLOOK);
  }
  if (!within(call.udata.len, info_.connect)) {
    return failed(TBADDATA);
  }
  return event ? accept_on(resfd, call) : std::unexpected(event.error());
}

Outcome<> Endpoint::accept_on(Endpoint& acceptor, const t_call& call) {
  const Outcome<std::uint32_t> id = acceptor.acceptor_id();
  if (!id) {
    return std::unexpected(id.error());
  }
  Outcome<> done = put(tpi::ConnRes{*id, content(call.opt), call.sequence}, content(call.udata), TBADOPT);
  done = done ? acknowledged(tpi::T_CONN_RES) : done;
  if (!done) {
    return done;
  }
  if (&acceptor == this) {
    step(Call::accept1);
  } else {
    step(outstanding_ > 1 ? Call::accept3 : Call::accept2);
    acceptor.step(Call::pass_conn);
  }
  --outstanding_;
  return {};
}

/// "suitable for use in the ACCEPTOR_id field of the T_CONN_RES message" (TPI, T_CAPABILITY_ACK). TNOTSUPPORT: the
/// provider has none.
Outcome<std::uint32_t> Endpoint::acceptor_id() {
  const auto answer =
      request(wire::timod::TI_CAPABILITY, tpi::CapabilityReq{.capabilities = tpi::TC1_ACCEPTOR_ID}, TPROTO);
  if (!answer) {
    return std::unexpected(answer.error());
  }
  const auto ack = tpi::CapabilityAck::decode(*answer);
  if (!ack) {
    return failed(TPROTO);
  }
  return (ack->capabilities & tpi::TC1_ACCEPTOR_ID) != 0 ? Outcome<std::uint32_t>(ack->acceptor_id)
                                                         : failed(TNOTSUPPORT);
}

/// The acknowledgement of a request that timod does not make an ioctl of. Waits as an ioctl does, whether or not the
/// stream is non-blocking: the provider answers of itself, no peer has to. TSYSERR with ETIME: it has not.
Outcome<> Endpoint::acknowledged(std::int32_t primitive) {
  StreamHead& head = stream_->head();
  Waiter* const waiter = stream_->waiter();
  const TimePoint deadline = waiter == nullptr ? never : waiter->now() + Stream::ioctl_timeout_default;
  for (;;) {
    while (head.high_priority_waits()) {
      const Message answer = head.take();
      const auto ok = tpi::OkAck::decode(answer.bytes());
      if (ok && ok->correct_primitive == primitive) {
        return {};
      }
      const auto error = tpi::ErrorAck::decode(answer.bytes());
      if (error && error->error_primitive == primitive) {
        const auto t_errno = static_cast<tpi::TliError>(error->tli_error);
        return failed(t_errno, t_errno == TSYSERR ? error->unix_error : 0);
      }
    }
    const int refusal = head.read_error() != 0 ? head.read_error() : stream_->write_refusal();
    if (refusal != 0) {
      return failed(TSYSERR, refusal);
    }
    if (waiter == nullptr || !waiter->wait(deadline)) {
      return failed(TSYSERR, ETIME);
    }
  }
}

}  // namespace sluice::tli
