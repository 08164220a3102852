// SPDX-License-Identifier: Apache-2.0
#include "tli/endpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <system_error>

#include "stack/core/primitive.h"
#include "stack/wire/data_unit.h"
#include "stack/wire/network.h"
#include "stack/wire/timod.h"
#include "stack/wire/tpi.h"

namespace sluice::tli {
namespace {

namespace tpi = wire::tpi;
using wire::DataUnit;
using enum wire::tpi::TliError;

/// The address block of a request: bounded, so that it can be built on the stack.
constexpr std::size_t primitive_bytes_max = 1024;

ConstBytes content(const netbuf& buffer) { return {buffer.buf, buffer.len}; }

/// A buffer without room asks for nothing.
bool fits(ConstBytes bytes, const netbuf& buffer) { return buffer.maxlen == 0 || bytes.size() <= buffer.maxlen; }

/// Stores `bytes` where they are asked for. False when they do not fit, and then nothing is stored: the caller answers
/// TBUFOVFLW.
bool store(ConstBytes bytes, netbuf& buffer) {
  const bool fit = fits(bytes, buffer);
  buffer.len = fit && buffer.maxlen > 0 ? bytes.size() : 0;
  std::copy_n(bytes.begin(), buffer.len, buffer.buf);
  return fit;
}

Failure system_failure(const Error& error) { return {TSYSERR, error.code}; }

/// Both or neither.
bool store_both(ConstBytes address, netbuf& addr, ConstBytes options, netbuf& opt) {
  const bool fit = store(address, addr) && store(options, opt);
  addr.len = fit ? addr.len : 0;
  opt.len = fit ? opt.len : 0;
  return fit;
}

/// The bytes of all parts. TBADDATA where their number or sum is out of bounds: "If the limit on iovcount is exceeded,
/// the function fails with TBADDATA"; "If no other constraint applies, it will be limited by INT_MAX."
/// (t_sndvudata(3NSL))
Outcome<std::size_t> size_of(std::span<const t_iovec> parts) {
  std::size_t size = 0;
  for (const t_iovec& part : parts) {
    if (part.iov_len > INT_MAX - size) {
      return failed(TBADDATA);
    }
    size += part.iov_len;
  }
  return parts.size() <= T_IOV_MAX ? Outcome<std::size_t>(size) : failed(TBADDATA);
}

/// Takes over where a data unit goes, and how, if its address and options are of a kind that is known here.
bool read_names(const t_unitdata& unitdata, DataUnit& unit) {
  const auto address = wire::TransportAddress::decode(content(unitdata.addr));
  if (!address || (unitdata.opt.len != 0 && unitdata.opt.len != wire::network::Sending::size)) {
    return false;
  }
  unit.kind = DataUnit::Kind::transport_request;
  unit.peer = address->address;
  unit.peer_port = address->port;
  return unitdata.opt.len == 0 || unit.read_options(content(unitdata.opt));
}

bool names_fit(const DataUnit& unit, const t_unitdata& unitdata) {
  const auto has_room = [](const netbuf& buffer, std::size_t size) {
    return buffer.maxlen == 0 || size <= buffer.maxlen;
  };
  return has_room(unitdata.addr, unit.address_size()) && has_room(unitdata.opt, unit.options_size());
}

/// Stores address and options where they are asked for. False when they do not fit.
bool store_names(const DataUnit& unit, t_unitdata& unitdata) {
  if (!names_fit(unit, unitdata)) {
    return false;
  }
  unitdata.addr.len = unitdata.addr.maxlen == 0 ? 0 : unit.encode_address({unitdata.addr.buf, unit.address_size()});
  unitdata.opt.len = unitdata.opt.maxlen == 0 ? 0 : unit.encode_options({unitdata.opt.buf, unit.options_size()});
  return true;
}

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

Outcome<> Endpoint::require(Call call) const { return next_state(state_, call) ? Outcome<>() : failed(TOUTSTATE); }

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

Outcome<> Endpoint::t_sndudata(const t_unitdata& unitdata) {
  const t_iovec whole{unitdata.udata.buf, unitdata.udata.len};
  return t_sndvudata(unitdata, std::span(&whole, 1));
}

Outcome<> Endpoint::t_sndvudata(const t_unitdata& unitdata, std::span<const t_iovec> parts) {
  Outcome<> ready = require_connectionless(Call::sndudata);
  ready = ready ? check_size(parts) : ready;
  ready = ready ? wait_until_sendable() : ready;
  return ready ? send(unitdata, parts) : ready;
}

Outcome<> Endpoint::require_connectionless(Call call) const {
  return info_.servtype == tpi::T_CLTS ? require(call) : failed(TNOTSUPPORT);
}

Outcome<std::size_t> Endpoint::t_sndmudata(std::span<const t_unitdata> units) {
  Outcome<> ready = require_connectionless(Call::sndudata);
  std::size_t sent = 0;
  while (ready && sent < units.size()) {
    Loan loan = stream_->loan();
    Batch batch;
    while (ready && batch.size() < batch_units_max && sent + batch.size() < units.size()) {
      const t_unitdata& unit = units[sent + batch.size()];
      const t_iovec whole{unit.udata.buf, unit.udata.len};
      ready = check_size(std::span(&whole, 1));
      ready = ready && batch.empty() ? wait_until_sendable() : ready;
      if (ready) {
        Outcome<Message> request = request_of(unit, std::span(&whole, 1), loan);
        ready = request ? Outcome<>() : std::unexpected(request.error());
        if (request) {
          batch.push(std::move(*request));
        }
      }
    }
    const std::size_t count = batch.size();
    const Status passed = count > 0 ? stream_->send(std::move(batch)) : Status();
    sent += passed ? count : 0;
    ready = passed ? ready : std::unexpected(system_failure(passed.error()));
  }
  return ready || sent > 0 ? Outcome<std::size_t>(sent) : std::unexpected(ready.error());
}

/// "[TBADDATA] Illegal amount of data. A single send was attempted specifying a TSDU greater than that specified in the
/// info argument, or a send of a zero byte TSDU is not supported by the provider." (t_sndudata(3NSL))
Outcome<> Endpoint::check_size(std::span<const t_iovec> parts) const {
  const Outcome<std::size_t> size = size_of(parts);
  if (!size) {
    return std::unexpected(size.error());
  }
  const bool too_small = *size == 0 && (info_.flags & T_SENDZERO) == 0;
  const bool too_large = info_.tsdu != tpi::T_INFINITE && *size > static_cast<std::size_t>(std::max(0, info_.tsdu));
  return too_small || too_large ? failed(TBADDATA) : Outcome<>();
}

/// "[TFLOW] O_NONBLOCK was set, but the flow control mechanism prevented the transport provider from accepting any data
/// at this time." "[TLOOK] An asynchronous event has occurred on this transport endpoint": for t_sndudata() that is
/// T_UDERR (XNS, "Events and TLOOK Error Indication").
Outcome<> Endpoint::wait_until_sendable() {
  for (bool may_wait = !stream_->nonblocking() && stream_->waiter() != nullptr;;
       may_wait = stream_->waiter()->wait(never)) {
    if (Status open = stream_->writable(); !open) {
      return std::unexpected(system_failure(open.error()));
    }
    if (error_waits()) {
      return failed(TLOOK);
    }
    flow_refused_ = !stream_->can_put();
    if (!flow_refused_) {
      return {};
    }
    if (!may_wait) {
      return failed(TFLOW);
    }
  }
}

Outcome<> Endpoint::send(const t_unitdata& unitdata, std::span<const t_iovec> parts) {
  Loan loan = stream_->loan();
  Outcome<Message> request = request_of(unitdata, parts, loan);
  if (!request) {
    return std::unexpected(request.error());
  }
  const Status sent = stream_->send(Batch(std::move(*request)));
  return sent ? Outcome<>() : std::unexpected(system_failure(sent.error()));
}

/// The T_UNITDATA_REQ for a data unit. Its address and options are read here, once; what cannot be read goes as bytes,
/// and the provider answers it.
Outcome<Message> Endpoint::request_of(const t_unitdata& unitdata, std::span<const t_iovec> parts, Loan& loan) {
  BufferPool& pool = stream_->set().pool();
  Message request = Message::of_native(pool, DataUnit{});
  if (request && !read_names(unitdata, *request.native<DataUnit>())) {
    const tpi::UnitdataReq primitive{content(unitdata.addr), content(unitdata.opt)};
    if (primitive.encoded_size() > primitive_bytes_max) {
      return failed(unitdata.addr.len > primitive_bytes_max / 2 ? TBADADDR : TBADOPT);
    }
    request = primitive_message(pool, primitive, MessageType::proto);
  }
  Message data = data_of(parts, loan);
  if (!request || !data) {
    return failed(TSYSERR, ENOSR);
  }
  request.link(std::move(data));
  return request;
}

Message Endpoint::data_of(std::span<const t_iovec> parts, Loan& loan) {
  if (parts.size() == 1) {
    const ConstBytes whole(parts[0].iov_base, parts[0].iov_len);
    return stream_->message_of(std::span(&whole, 1), loan);
  }
  std::array<ConstBytes, T_IOV_MAX> bytes;
  for (std::size_t at = 0; at < parts.size(); ++at) {
    bytes[at] = ConstBytes(parts[at].iov_base, parts[at].iov_len);
  }
  return stream_->message_of(std::span(bytes).first(parts.size()), loan);
}

bool Endpoint::take_indication() {
  if (!next_) {
    next_ = stream_->receive_native();
    names_told_ = shown_ = false;
  }
  return static_cast<bool>(next_);
}

/// As take_indication(), for whoever acts on what kind of indication waits: one whose check does not hold is as if it
/// had never come. What t_lookudata() has shown is being taken by the caller, who will hear of that.
bool Endpoint::good_indication() {
  while (take_indication() && next_.unverified() && !shown_ && next_.materialize() == TransformResult::failed) {
    next_.reset();
  }
  return static_cast<bool>(next_);
}

bool Endpoint::is_error() const {
  if (const DataUnit* const unit = next_.native<DataUnit>()) {
    return unit->kind == DataUnit::Kind::transport_error;
  }
  return !names_told_ && is_protocol(next_.type()) && tpi::primitive_of(next_.bytes()) == tpi::T_UDERROR_IND;
}

bool Endpoint::error_waits() { return good_indication() && is_error(); }

Outcome<> Endpoint::next_indication() {
  for (bool may_wait = !stream_->nonblocking() && stream_->waiter() != nullptr;;
       may_wait = stream_->waiter()->wait(never)) {
    const StreamHead& head = stream_->head();
    if (head.read_error() != 0) {
      return failed(TSYSERR, head.read_error());
    }
    if (take_indication()) {
      return is_error() ? failed(TLOOK) : Outcome<>();
    }
    if (head.hung_up()) {
      return failed(TSYSERR, ENXIO);
    }
    if (!may_wait) {
      return failed(TNODATA);
    }
  }
}

/// "[TBUFOVFLW] The number of bytes allocated for the incoming protocol address or options [...] is greater than 0 but
/// not sufficient to store the information. The unit data information to be returned in unitdata will be discarded."
/// (t_rcvudata)
Outcome<> Endpoint::tell_names(t_unitdata& unitdata) {
  if (const DataUnit* const unit = next_.native<DataUnit>(); unit != nullptr && store_names(*unit, unitdata)) {
    return {};
  }
  next_.encode();
  const auto indication = tpi::UnitdataInd::decode(next_.bytes());
  if (!indication || !is_protocol(next_.type())) {
    next_.reset();
    return failed(TPROTO);
  }
  if (!store_both(indication->address, unitdata.addr, indication->options, unitdata.opt)) {
    next_.reset();
    return failed(TBUFOVFLW);
  }
  return {};
}

/// Whether tell_names() would succeed.
bool Endpoint::next_names_fit(const t_unitdata& unitdata) {
  if (const DataUnit* const unit = next_.native<DataUnit>()) {
    return names_fit(*unit, unitdata);
  }
  const auto indication = tpi::UnitdataInd::decode(next_.bytes());
  return indication && is_protocol(next_.type()) && fits(indication->address, unitdata.addr) &&
         fits(indication->options, unitdata.opt);
}

Outcome<> Endpoint::deliver_names(t_unitdata& unitdata) {
  if (names_told_) {
    unitdata.addr.len = unitdata.opt.len = 0;
    return {};
  }
  if (Outcome<> told = tell_names(unitdata); !told) {
    return told;
  }
  next_.pop_block();
  names_told_ = true;
  return {};
}

/// Makes the data good: in the pass to `parts` where all of it has room there, else where it lies.
Endpoint::Landed Endpoint::land(std::span<const t_iovec> parts) {
  const std::size_t size = next_.data_size();
  std::size_t room = 0;
  std::array<Bytes, T_IOV_MAX> places;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::size_t part = std::min(parts[i].iov_len, size - room);
    places[i] = Bytes(parts[i].iov_base, part);
    room += part;
  }
  const bool whole = room == size;
  const TransformResult result = whole ? next_.land(std::span(places).first(parts.size())) : next_.materialize();
  if (result == TransformResult::failed) {
    next_.reset();  // as if it had never come: whose check it was has counted it
    return Landed::refuted;
  }
  return whole ? Landed::whole : Landed::materialized;
}

std::size_t Endpoint::deliver_data(std::span<const t_iovec> parts) {
  std::size_t delivered = 0;
  for (const t_iovec& part : parts) {
    std::size_t filled = 0;
    while (next_) {
      Block& block = next_.first();
      const std::size_t size = std::min(block.size(), part.iov_len - filled);
      std::copy_n(block.rptr, size, part.iov_base + filled);
      stream_->set().pool().touches().add(size, size);
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

Outcome<> Endpoint::t_rcvudata(t_unitdata& unitdata, int& flags) { return receive_whole(unitdata, flags, true); }

Outcome<> Endpoint::receive_whole(t_unitdata& unitdata, int& flags, bool first) {
  const t_iovec whole{unitdata.udata.buf, unitdata.udata.maxlen};
  Outcome<std::size_t> received = receive(unitdata, std::span(&whole, 1), flags, first);
  if (!received) {
    return std::unexpected(received.error());
  }
  unitdata.udata.len = *received;
  return {};
}

Outcome<std::size_t> Endpoint::t_rcvmudata(std::span<t_unitdata> units, int& flags) {
  flags = 0;
  if (Outcome<> valid = require_connectionless(Call::rcvudata); !valid) {
    return std::unexpected(valid.error());
  }
  const bool waits = !stream_->nonblocking();
  std::size_t received = 0;
  Outcome<> taken;
  while (taken && received < units.size() && flags == 0) {
    taken = receive_whole(units[received], flags, received == 0);
    received += taken ? 1U : 0U;
    stream_->set_nonblocking(true);
  }
  stream_->set_nonblocking(!waits);
  return taken || received > 0 ? Outcome<std::size_t>(received) : std::unexpected(taken.error());
}

Outcome<std::size_t> Endpoint::t_rcvvudata(t_unitdata& unitdata, std::span<const t_iovec> parts, int& flags) {
  return receive(unitdata, parts, flags, true);
}

/// After the `first` of a call, a data unit whose address or options do not fit is left for the next call, which tells
/// of it; here that is TNODATA.
Outcome<std::size_t> Endpoint::receive(t_unitdata& unitdata, std::span<const t_iovec> parts, int& flags, bool first) {
  flags = 0;
  Outcome<> ready = require_connectionless(Call::rcvudata);
  // "[TBADDATA] iovcount is greater than T_IOV_MAX." (t_rcvvudata(3NSL))
  ready = ready && parts.size() > T_IOV_MAX ? failed(TBADDATA) : ready;
  Landed landed = Landed::refuted;
  while (ready && landed == Landed::refuted) {
    ready = next_indication();
    ready = ready && !first && !next_names_fit(unitdata) ? failed(TNODATA) : ready;
    if (ready) {
      landed = next_.fused() ? land(parts) : Landed::materialized;
    }
  }
  ready = ready ? deliver_names(unitdata) : ready;
  if (!ready) {
    return std::unexpected(ready.error());
  }
  if (landed == Landed::whole) {
    const std::size_t size = next_ ? next_.data_size() : 0;
    next_.reset();
    return size;
  }
  const std::size_t received = deliver_data(parts);
  while (next_ && next_.first().size() == 0) {
    next_.pop_block();  // nothing that another call could bring
  }
  flags = next_ ? T_MORE : 0;
  return received;
}

Outcome<std::size_t> Endpoint::t_lookudata(t_unitdata& unitdata) {
  Outcome<> ready = require_connectionless(Call::rcvudata);
  ready = ready ? next_indication() : ready;
  if (ready && names_told_) {
    ready = failed(TOUTSTATE);  // t_rcvudata() has begun to take it
  }
  while (ready && !next_names_fit(unitdata) && next_.materialize() == TransformResult::failed) {
    next_.reset();  // what never came cannot be too large either
    ready = next_indication();
  }
  ready = ready ? tell_names(unitdata) : ready;
  if (!ready) {
    return std::unexpected(ready.error());
  }
  const std::size_t size = next_.data_size();
  unitdata.udata.len = std::min(unitdata.udata.maxlen, size);
  static_cast<void>(next_.copy_data_to(0, Bytes(unitdata.udata.buf, unitdata.udata.len)));
  shown_ = true;
  return size;
}

Outcome<std::size_t> Endpoint::t_landudata(std::span<const t_iovec> parts) {
  if (!next_ || !shown_) {
    return failed(TOUTSTATE);
  }
  const std::size_t size = next_.data_size();
  if (const Outcome<std::size_t> room = size_of(parts); !room || *room < size) {
    return failed(TBADDATA);
  }
  const Landed landed = land(parts);
  next_.reset();
  return landed == Landed::whole ? Outcome<std::size_t>(size) : failed(TNODATA);
}

void Endpoint::t_skipudata() {
  if (next_ && shown_) {
    static_cast<void>(next_.materialize());
    next_.reset();
  }
}

Outcome<> Endpoint::t_rcvuderr(t_uderr* uderr) {
  if (Outcome<> valid = require_connectionless(Call::rcvuderr); !valid) {
    return valid;
  }
  if (!error_waits()) {
    return failed(TNOUDERR);
  }
  Message message = std::move(next_);
  message.encode();
  const auto indication = tpi::UderrorInd::decode(message.bytes());
  if (!indication) {
    return failed(TPROTO);
  }
  // "If uderr is a null pointer, t_rcvuderr() simply clears the error indication" (t_rcvuderr).
  if (uderr == nullptr) {
    return {};
  }
  // "The unit data error information to be returned in uderr will be discarded."
  if (!store_both(indication->destination, uderr->addr, indication->options, uderr->opt)) {
    return failed(TBUFOVFLW);
  }
  uderr->error = indication->error_type;
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
