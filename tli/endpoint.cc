// SPDX-License-Identifier: Apache-2.0
#include "tli/endpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <system_error>

#include "stack/wire/timod.h"
#include "stack/wire/tpi.h"
#include "tli/buffers.h"

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
    // What still waits to be sent may leave; whoever closes a non-blocking endpoint does not wait for it.
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
Outcome<std::vector<std::byte>> Endpoint::request(std::int32_t command, ConstBytes primitive) {
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
  std::array<std::byte, tpi::InfoReq::fixed_size> block{};
  tpi::InfoReq{}.encode(block);
  auto answer = request(wire::timod::TI_GETINFO, block);
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
  if (primitive.encoded_size() > primitive_bytes_max) {
    return failed(TBADADDR);
  }
  std::array<std::byte, primitive_bytes_max> block{};
  auto answer = request(wire::timod::TI_BIND, std::span(block).first(primitive.encode(block)));
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
  if (error_waits()) {
    return failed(TLOOK);
  }
  std::array<std::byte, tpi::UnbindReq::fixed_size> block{};
  tpi::UnbindReq{}.encode(block);
  auto answer = request(wire::timod::TI_UNBIND, block);
  if (!answer) {
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
  const tpi::OptmgmtReq primitive{content(req.opt), req.flags};
  if (primitive.encoded_size() > primitive_bytes_max) {
    return failed(TBADOPT);
  }
  std::array<std::byte, primitive_bytes_max> block{};
  auto answer = request(wire::timod::TI_OPTMGMT, std::span(block).first(primitive.encode(block)));
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

Outcome<std::uint16_t> Endpoint::t_look() {
  if (Outcome<> valid = require(Call::look); !valid) {
    return std::unexpected(valid.error());
  }
  if (good_indication()) {
    return static_cast<std::uint16_t>(is_error() ? T_UDERR : T_DATA);
  }
  // "Flow control restrictions on normal data flow that led to a TFLOW error have been lifted." Of the events that are
  // possible here it is the only one that t_look() clears (XNS, "Events and TLOOK Error Indication").
  if (flow_refused_ && stream_->can_put()) {
    flow_refused_ = false;
    return static_cast<std::uint16_t>(T_GODATA);
  }
  return std::uint16_t{0};
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
  auto answer = request(wire::timod::TI_GETMYNAME, {});
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

namespace {

struct Wanted {
  netbuf* buffer;
  std::int32_t size;
};

/// Lays the buffers out in one storage. "If the size value associated with any specified field is T_INVALID, t_alloc()
/// will be unable to determine the size of the buffer to allocate and will fail, setting t_errno to TSYSERR and errno
/// to EINVAL. [...] If the size value associated with any specified field is T_INFINITE, then the behavior of t_alloc()
/// is implementation-defined" (t_alloc(3NSL)): here it fails likewise.
template <class T>
Outcome<std::unique_ptr<Allocated<T>>> allocate(std::unique_ptr<Allocated<T>> made, std::span<const Wanted> wanted) {
  std::size_t total = 0;
  for (const Wanted& want : wanted) {
    if (want.size < 0) {
      return failed(TSYSERR, EINVAL);
    }
    total += static_cast<std::size_t>(want.size);
  }
  made->storage.resize(total);
  std::byte* at = made->storage.data();
  for (const Wanted& want : wanted) {
    // "For any field not specified in fields, buf will be set to the null pointer and len and maxlen will be set to
    // zero."
    want.buffer->buf = want.size == 0 ? nullptr : at;
    want.buffer->maxlen = static_cast<std::size_t>(want.size);
    at += want.size;
  }
  return made;
}

/// "For each field specified in fields, t_alloc() will allocate a buffer"; T_ALL: "All relevant fields of the given
/// structure", which leaves out what the provider does not have.
std::int32_t wanted_size(unsigned fields, unsigned field, std::int32_t size) {
  const bool relevant = fields != T_ALL || size != wire::tpi::T_INVALID;
  return (fields & field) != 0 && relevant ? size : 0;
}

}  // namespace

Outcome<std::unique_ptr<Allocated<t_bind>>> t_alloc_bind(const t_info& info, unsigned fields) {
  auto made = std::make_unique<Allocated<t_bind>>();
  const std::array wanted{Wanted{&made->value.addr, wanted_size(fields, T_ADDR, info.addr)}};
  return allocate(std::move(made), wanted);
}

Outcome<std::unique_ptr<Allocated<t_unitdata>>> t_alloc_unitdata(const t_info& info, unsigned fields) {
  auto made = std::make_unique<Allocated<t_unitdata>>();
  const std::array wanted{Wanted{&made->value.addr, wanted_size(fields, T_ADDR, info.addr)},
                          Wanted{&made->value.opt, wanted_size(fields, T_OPT, info.options)},
                          Wanted{&made->value.udata, wanted_size(fields, T_UDATA, info.tsdu)}};
  return allocate(std::move(made), wanted);
}

Outcome<std::unique_ptr<Allocated<t_uderr>>> t_alloc_uderr(const t_info& info, unsigned fields) {
  auto made = std::make_unique<Allocated<t_uderr>>();
  const std::array wanted{Wanted{&made->value.addr, wanted_size(fields, T_ADDR, info.addr)},
                          Wanted{&made->value.opt, wanted_size(fields, T_OPT, info.options)}};
  return allocate(std::move(made), wanted);
}

Outcome<std::unique_ptr<Allocated<t_optmgmt>>> t_alloc_optmgmt(const t_info& info, unsigned fields) {
  auto made = std::make_unique<Allocated<t_optmgmt>>();
  const std::array wanted{Wanted{&made->value.opt, wanted_size(fields, T_OPT, info.options)}};
  return allocate(std::move(made), wanted);
}

}  // namespace sluice::tli
