// SPDX-License-Identifier: Apache-2.0
#include "tli/endpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <numeric>
#include <system_error>

#include "stack/wire/timod.h"
#include "stack/wire/tpi.h"

namespace sluice::tli {
namespace {

namespace tpi = wire::tpi;
using enum wire::tpi::TliError;

/// The address block of a request: bounded, so that it can be built on the stack.
constexpr std::size_t primitive_bytes_max = 1024;

ConstBytes content(const netbuf& buffer) { return {buffer.buf, buffer.len}; }

/// Stores `bytes` where there is a buffer for them. False when it is too small: the caller answers TBUFOVFLW.
bool store(ConstBytes bytes, netbuf& buffer) {
  if (buffer.maxlen == 0) {
    buffer.len = 0;
    return true;
  }
  if (bytes.size() > buffer.maxlen) {
    return false;
  }
  std::copy(bytes.begin(), bytes.end(), buffer.buf);
  buffer.len = bytes.size();
  return true;
}

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

Outcome<> Endpoint::require(Call call) const {
  return next_state(state_, call) ? Outcome<>() : failed(TOUTSTATE);
}

/// One of timod's atomic requests. "If an error occurs, [...] the lower 8 bits of the return value will be one of the TLI
/// error codes [...] If the TLI error is of type TSYSERR, then the next 8 bits of the return value will contain an error"
/// (timod(4M)).
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
  if (state != nullptr) {
    *state = ack->current_state == tpi::TS_IDLE ? T_IDLE : T_UNBND;
  }
  return {};
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
  if (*t_look() == T_UDERR) {
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

Outcome<> Endpoint::t_sndudata(const t_unitdata& unitdata) {
  const t_iovec whole{unitdata.udata.buf, unitdata.udata.len};
  return t_sndvudata(unitdata, std::span(&whole, 1));
}

Outcome<> Endpoint::t_sndvudata(const t_unitdata& unitdata, std::span<const t_iovec> parts) {
  if (info_.servtype != tpi::T_CLTS) {
    return failed(TNOTSUPPORT);
  }
  if (Outcome<> valid = require(Call::sndudata); !valid) {
    return valid;
  }
  const std::size_t size = std::accumulate(parts.begin(), parts.end(), std::size_t{0},
                                           [](std::size_t sum, const t_iovec& part) { return sum + part.iov_len; });
  if ((size == 0 && (info_.flags & T_SENDZERO) == 0) || parts.size() > T_IOV_MAX ||
      (info_.tsdu != tpi::T_INFINITE && size > static_cast<std::size_t>(std::max(0, info_.tsdu)))) {
    return failed(TBADDATA);
  }
  const tpi::UnitdataReq primitive{content(unitdata.addr), content(unitdata.opt)};
  if (primitive.encoded_size() > primitive_bytes_max) {
    return failed(TBADADDR);
  }
  while (!stream_->can_put()) {
    if (stream_->nonblocking() || stream_->waiter() == nullptr || !stream_->waiter()->wait(never)) {
      return failed(TFLOW);
    }
  }
  Message request = Message::allocate(stream_->set().pool(), primitive_bytes_max / 8, 0, MessageType::proto);
  if (primitive.encoded_size() > primitive_bytes_max / 8) {
    request = Message::allocate(stream_->set().pool(), primitive_bytes_max, 0, MessageType::proto);
  }
  Message data = stream_->allocate(size);
  if (!request || !data) {
    return failed(TSYSERR, ENOSR);
  }
  request.first().wptr += primitive.encode({request.first().wptr, primitive.encoded_size()});
  for (const t_iovec& part : parts) {
    std::copy_n(part.iov_base, part.iov_len, data.first().wptr);
    data.first().wptr += part.iov_len;
  }
  request.link(std::move(data));
  if (Status sent = stream_->send(Batch(std::move(request))); !sent) {
    return std::unexpected(system_failure(sent.error()));
  }
  return {};
}

bool Endpoint::take_indication() {
  if (!next_) {
    next_ = stream_->receive();
    names_told_ = false;
  }
  return static_cast<bool>(next_);
}

Outcome<> Endpoint::next_indication() {
  while (!take_indication()) {
    const StreamHead& head = stream_->head();
    if (head.read_error() != 0) {
      return failed(TSYSERR, head.read_error());
    }
    if (head.hung_up()) {
      return failed(TSYSERR, ENXIO);
    }
    if (stream_->nonblocking() || stream_->waiter() == nullptr || !stream_->waiter()->wait(never)) {
      return failed(TNODATA);
    }
  }
  if (names_told_) {
    return {};
  }
  const auto primitive = tpi::primitive_of(next_.bytes());
  if (primitive == tpi::T_UDERROR_IND) {
    return failed(TLOOK);
  }
  if (primitive != tpi::T_UNITDATA_IND) {
    next_.reset();
    return failed(TPROTO);
  }
  return {};
}

/// "[TBUFOVFLW] The number of bytes allocated for the incoming protocol address or options [...] is greater than 0 but not
/// sufficient to store the information. The unit data information to be returned in unitdata will be discarded." (t_rcvudata)
Outcome<> Endpoint::deliver_names(t_unitdata& unitdata) {
  if (names_told_) {
    unitdata.addr.len = unitdata.opt.len = 0;
    return {};
  }
  const auto indication = tpi::UnitdataInd::decode(next_.bytes());
  if (!indication) {
    next_.reset();
    return failed(TPROTO);
  }
  if (!store(indication->address, unitdata.addr) || !store(indication->options, unitdata.opt)) {
    next_.reset();
    return failed(TBUFOVFLW);
  }
  next_.pop_block();
  names_told_ = true;
  return {};
}

std::size_t Endpoint::deliver_data(std::span<const t_iovec> parts) {
  std::size_t delivered = 0;
  for (const t_iovec& part : parts) {
    std::size_t filled = 0;
    while (next_) {
      Block& block = next_.first();
      const std::size_t size = std::min(block.size(), part.iov_len - filled);
      std::copy_n(block.rptr, size, part.iov_base + filled);
      block.rptr += size;
      filled += size;
      if (block.size() > 0) {
        break;
      }
      next_.pop_block();
    }
    delivered += filled;
  }
  return delivered;
}

Outcome<> Endpoint::t_rcvudata(t_unitdata& unitdata, int& flags) {
  const t_iovec whole{unitdata.udata.buf, unitdata.udata.maxlen};
  Outcome<std::size_t> received = t_rcvvudata(unitdata, std::span(&whole, 1), flags);
  if (!received) {
    return std::unexpected(received.error());
  }
  unitdata.udata.len = *received;
  return {};
}

Outcome<std::size_t> Endpoint::t_rcvvudata(t_unitdata& unitdata, std::span<const t_iovec> parts, int& flags) {
  flags = 0;
  if (info_.servtype != tpi::T_CLTS) {
    return failed(TNOTSUPPORT);
  }
  Outcome<> ready = require(Call::rcvudata);
  ready = ready ? next_indication() : ready;
  ready = ready ? deliver_names(unitdata) : ready;
  if (!ready) {
    return std::unexpected(ready.error());
  }
  const std::size_t received = deliver_data(parts);
  flags = next_ ? T_MORE : 0;
  return received;
}

Outcome<> Endpoint::t_rcvuderr(t_uderr* uderr) {
  if (info_.servtype != tpi::T_CLTS) {
    return failed(TNOTSUPPORT);
  }
  if (Outcome<> valid = require(Call::rcvuderr); !valid) {
    return valid;
  }
  if (*t_look() != T_UDERR) {
    return failed(TNOUDERR);
  }
  const Message message = std::move(next_);
  const auto indication = tpi::UderrorInd::decode(message.bytes());
  if (!indication) {
    return failed(TPROTO);
  }
  // "If uderr is a null pointer, t_rcvuderr() simply clears the error indication" (t_rcvuderr).
  if (uderr == nullptr) {
    return {};
  }
  uderr->error = indication->error_type;
  const bool fits = store(indication->destination, uderr->addr) && store(indication->options, uderr->opt);
  return fits ? Outcome<>() : failed(TBUFOVFLW);
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
  if (!take_indication()) {
    return std::uint16_t{0};
  }
  const bool error = !names_told_ && tpi::primitive_of(next_.bytes()) == tpi::T_UDERROR_IND;
  return static_cast<std::uint16_t>(error ? T_UDERR : T_DATA);
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

/// Lays `buffers` out in one storage of the sizes asked for. "[TSYSERR] [...] if the size [...] is -1 or -2 (see t_open())
/// [...] t_alloc() will be unable to determine the size of the buffer to allocate and will fail" (t_alloc), with errno EINVAL.
struct Wanted {
  netbuf* buffer;
  std::int32_t size;
};

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
    want.buffer->buf = at;
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
