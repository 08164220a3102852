// SPDX-License-Identifier: Apache-2.0

// The end of connections: orderly, and at once.

#include <utility>

#include "stack/wire/tpi_connection.h"
#include "tli/buffers.h"
#include "tli/endpoint.h"
#include "tli/requests.h"

namespace sluice::tli {

namespace tpi = wire::tpi;
using enum wire::tpi::TliError;

/// "For transport providers of types other than T_COTS_ORD, this function fails with error TNOTSUPPORT."
/// (t_sndrel(3NSL))
Outcome<> Endpoint::require_release(Call call) const {
  return info_.servtype == tpi::T_COTS_ORD ? require(call) : failed(TNOTSUPPORT);
}

Outcome<> Endpoint::t_sndrel() {
  Outcome<> done = require_release(Call::sndrel);
  done = done ? wait_until_connection_takes(0) : done;
  done = done ? put(tpi::OrdrelReq{}, {}, TPROTO) : done;
  if (done) {
    step(Call::sndrel);
  }
  return done;
}

/// Behind the data that came before: "[TNOREL] No orderly release indication currently exists on the specified
/// transport endpoint." (t_rcvrel(3NSL))
Outcome<> Endpoint::t_rcvrel() {
  if (Outcome<> valid = require_release(Call::rcvrel); !valid) {
    return valid;
  }
  const auto event = next_event(false);
  if (!event && event.error().t_errno != TNODATA) {
    return std::unexpected(event.error());
  }
  if (event == tpi::T_DISCON_IND) {
    return failed(TLOOK);
  }
  if (event != tpi::T_ORDREL_IND) {
    return failed(TNOREL);
  }
  next_.reset();
  step(Call::rcvrel);
  return {};
}

/// "[TBADSEQ] An invalid sequence number was specified, or a null call pointer was specified, when rejecting a
/// connection request." (t_snddis(3NSL))
Outcome<> Endpoint::t_snddis(const t_call* call) {
  if (Outcome<> valid = require_connections(Call::snddis1); !valid) {
    return valid;
  }
  const bool rejects = state_ == T_INCON;
  if (rejects && call == nullptr) {
    return failed(TBADSEQ);
  }
  const ConstBytes data = call == nullptr ? ConstBytes() : content(call->udata);
  if (!within(data.size(), info_.discon)) {
    return failed(TBADDATA);
  }
  if (first_event() == tpi::T_DISCON_IND) {
    return failed(TLOOK);
  }
  Outcome<> done = put(tpi::DisconReq{rejects ? call->sequence : tpi::no_sequence}, data, TPROTO);
  done = done ? acknowledged(tpi::T_DISCON_REQ) : done;
  if (!done) {
    return done;
  }
  if (rejects) {
    step(outstanding_ > 1 ? Call::snddis2 : Call::snddis1);
    --outstanding_;
  } else {
    next_.reset();  // what had come of the connection
    step(Call::snddis1);
  }
  return {};
}

/// "[TBUFOVFLW] The number of bytes allocated for incoming data (maxlen) is greater than 0 but not sufficient to store
/// the data. If fd is a passive endpoint with ocnt > 1, it remains in state T_INCON; otherwise, the endpoint state is
/// set to T_IDLE." (t_rcvdis(3NSL))
Outcome<> Endpoint::t_rcvdis(t_discon* discon) {
  const Call call = state_ != T_INCON ? Call::rcvdis1 : outstanding_ > 1 ? Call::rcvdis3 : Call::rcvdis2;
  if (Outcome<> valid = require_connections(call); !valid) {
    return valid;
  }
  const auto event = first_event();
  if (!event) {
    return std::unexpected(event.error());
  }
  if (*event != tpi::T_DISCON_IND) {
    return failed(TNODIS);
  }
  const Message indication = std::move(next_);
  const auto primitive = tpi::DisconInd::decode(indication.bytes());
  step(call);
  outstanding_ -= call == Call::rcvdis1 ? 0 : 1;
  if (!primitive) {
    return failed(TPROTO);
  }
  if (discon == nullptr) {
    return {};
  }
  discon->reason = primitive->reason;
  discon->sequence = primitive->sequence;
  const std::size_t size = discon->udata.maxlen == 0 ? 0 : indication.data_size();
  discon->udata.len = size <= discon->udata.maxlen ? size : 0;
  static_cast<void>(indication.copy_data_to(0, {discon->udata.buf, discon->udata.len}));
  return discon->udata.len == size ? Outcome<>() : failed(TBUFOVFLW);
}

}  // namespace sluice::tli
