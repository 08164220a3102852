// SPDX-License-Identifier: Apache-2.0

// Data units on their way to the program, the errors of those it sent, and events.

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include "stack/wire/data_unit.h"
#include "stack/wire/tpi_connection.h"
#include "tli/buffers.h"
#include "tli/endpoint.h"

namespace sluice::tli {

using wire::DataUnit;
using wire::tpi::TliError;
using enum wire::tpi::TliError;
namespace tpi = wire::tpi;

/// As take_indication(), for calls that act on what kind of indication waits: one whose check does not hold is as if it
/// had never come. What t_lookudata() has shown is being taken by the caller, who will hear of that.
bool Endpoint::good_indication() {
  while (take_indication() && next_.unverified() && !shown_ && next_.materialize() == TransformResult::failed) {
    next_.reset();
  }
  return static_cast<bool>(next_);
}

inline bool Endpoint::is_error() const {
  if (const DataUnit* const unit = next_.native<DataUnit>()) [[likely]] {
    return unit->kind == DataUnit::Kind::transport_error;
  }
  return !names_told_ && is_protocol(next_.type()) && tpi::primitive_of(next_.bytes()) == tpi::T_UDERROR_IND;
}

bool Endpoint::next_is_error() { return good_indication() && is_error(); }

void Endpoint::finish_segment(std::size_t size) {
  if (next_.data_size() > size) {
    next_.trim_data_front(size);
    names_told_ = shown_ = false;
  } else {
    next_.reset();
  }
}

/// Copies the first `size` bytes of the data unit at hand to `parts`, as many as there is room for. False when its
/// bytes turn out not to be good.
bool Endpoint::copy_segment(std::span<const t_iovec> parts, std::size_t size) {
  if (!next_.materialized() && next_.materialize() == TransformResult::failed) {
    next_.reset();
    return false;
  }
  std::size_t done = 0;
  for (const t_iovec& part : parts) {
    const Bytes place(part.iov_base, std::min(part.iov_len, size - done));
    static_cast<void>(next_.copy_data_to(done, place));
    done += place.size();
  }
  stream_->set().pool().touches().add(done, done);
  return true;
}

inline Outcome<> Endpoint::next_indication(bool may_wait) {
  for (;; may_wait = stream_->waiter()->wait(never)) {
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
/// (t_rcvudata) Answers the error, or 0: an Outcome is stored in parts and loaded whole, and waits for that.
inline TliError Endpoint::tell_names(t_unitdata& unitdata) {
  netbuf& addr = unitdata.addr;
  netbuf& opt = unitdata.opt;
  if (DataUnit* const unit = next_.native<DataUnit>()) [[likely]] {
    if (unit->segment_size != 0) [[unlikely]] {
      segment_ = std::exchange(unit->segment_size, std::uint16_t{0});  // each data unit has options of its own
    }
    const bool fit = (addr.maxlen == 0 || unit->address_size() <= addr.maxlen) &&
                     (opt.maxlen == 0 || unit->options_size() <= opt.maxlen);
    addr.len = fit && addr.maxlen > 0 ? unit->encode_address({addr.buf, addr.maxlen}) : 0;
    opt.len = fit && opt.maxlen > 0 ? unit->encode_options({opt.buf, opt.maxlen}) : 0;
    return fit ? TliError{} : TBUFOVFLW;
  }
  const auto indication = tpi::UnitdataInd::decode(next_.bytes());
  if (!indication || !is_protocol(next_.type())) {
    return TPROTO;
  }
  return store_both(indication->address, addr, indication->options, opt) ? TliError{} : TBUFOVFLW;
}

/// After the first of a call, a data unit whose address or options do not fit is left for the next call, which tells of
/// it; here that is TNODATA.
inline Outcome<> Endpoint::next_data_unit(t_unitdata& unitdata, bool first) {
  for (;;) {
    if (Outcome<> ready = next_indication(first && stream_->may_block()); !ready) {
      return ready;
    }
    if (names_told_) {
      unitdata.addr.len = unitdata.opt.len = 0;
      return {};
    }
    const TliError error = tell_names(unitdata);
    if (error == TliError{} || !first) [[likely]] {
      return error == TliError{} ? Outcome<>() : failed(TNODATA);
    }
    const bool came = next_.materialize() == TransformResult::done;  // what never came cannot be too large either
    if (came && segment_ != 0) {
      finish_segment(unit_size());  // those behind it have names of their own to tell
    } else {
      next_.reset();
    }
    if (came) {
      return failed(error);
    }
  }
}

/// Makes the data good: in the pass to `parts` where all of it has room there, which is the answer, else where it lies.
/// Data whose check does not hold is as if it had never come: whose check it was has counted it.
bool Endpoint::land(std::span<const t_iovec> parts) {
  const std::size_t size = next_.data_size();
  bool whole = !parts.empty() && parts.front().iov_len >= size;
  TransformResult result;
  if (whole) [[likely]] {
    const Bytes place(parts.front().iov_base, size);
    result = next_.land(std::span(&place, 1));
  } else {
    std::size_t room = 0;
    std::array<Bytes, T_IOV_MAX> places;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      places[i] = Bytes(parts[i].iov_base, std::min(parts[i].iov_len, size - room));
      room += places[i].size();
    }
    whole = room == size;
    result = whole ? next_.land(std::span(places).first(parts.size())) : next_.materialize();
  }
  if (result == TransformResult::failed) {
    next_.reset();
  }
  return whole;
}

/// Delivers the data at hand to `parts`, as much as there is room for; the rest stays. `landed`: all of it is there
/// already.
inline std::size_t Endpoint::deliver(std::span<const t_iovec> parts, bool landed) {
  const std::size_t size = next_.data_size();
  std::size_t left = landed ? 0 : size;
  for (std::size_t i = 0; i < parts.size() && left > 0; ++i) {
    std::byte* const place = parts[i].iov_base;
    const std::size_t part = std::min(parts[i].iov_len, left);
    const std::byte* const from = next_.front(part, place);
    if (from != place) [[likely]] {
      std::memcpy(place, from, part);
    }
    left -= part;
    if (left > 0) {
      next_.trim_data_front(part);
    }
  }
  if (!landed) {
    stream_->set().pool().touches().add(size - left, size - left);
  }
  if (left > 0) {
    if (!std::exchange(names_told_, true) && is_protocol(next_.type())) {
      next_.pop_block();
    }
  } else {
    next_.reset();
  }
  return size - left;
}

inline Outcome<std::size_t> Endpoint::receive(t_unitdata& unitdata, std::span<const t_iovec> parts, int& flags,
                                              bool first) {
  bool landed = false;
  do {
    if (const Outcome<> ready = next_data_unit(unitdata, first); !ready) {
      return std::unexpected(ready.error());
    }
    if (segment_ != 0) [[unlikely]] {
      if (const auto received = receive_segment(parts, flags)) {
        return *received;
      }
      continue;
    }
    landed = next_.fused() && land(parts);
  } while (!next_);
  const std::size_t size = deliver(parts, landed);
  flags = next_ ? T_MORE : 0;
  return size;
}

/// One data unit of several that came as one message. Nothing when they are not good after all.
std::optional<std::size_t> Endpoint::receive_segment(std::span<const t_iovec> parts, int& flags) {
  const std::size_t size = unit_size();
  std::size_t room = 0;
  for (const t_iovec& part : parts) {
    room += std::min(part.iov_len, size - room);
  }
  if (!copy_segment(parts, room)) {
    return std::nullopt;
  }
  if (room == size) {
    finish_segment(size);
  } else {
    next_.trim_data_front(room);
    names_told_ = true;
    unit_left_ = size - room;
  }
  flags = room < size ? T_MORE : 0;
  return room;
}

Outcome<std::size_t> Endpoint::t_rcvsudata(t_unitdata& unitdata, std::span<const t_iovec> parts, std::size_t& segment,
                                           int& flags) {
  flags = 0;
  std::size_t room = 0;
  for (const t_iovec& part : parts) {
    room += part.iov_len;
  }
  Outcome<> ready = require_connectionless(Call::rcvudata);
  ready = ready && parts.size() > T_IOV_MAX ? failed(TBADDATA) : ready;
  for (;;) {
    ready = ready ? next_data_unit(unitdata, true) : ready;
    if (!ready) {
      return std::unexpected(ready.error());
    }
    if (segment_ == 0 || names_told_ || room < 2 * segment_) {
      const Outcome<std::size_t> one = receive(unitdata, parts, flags, true);
      segment = one.value_or(0);
      return one;
    }
    const std::size_t size = next_.data_size();
    const std::size_t whole = room >= size ? size : room / segment_ * segment_;
    segment = segment_;
    if (copy_segment(parts, whole)) {
      finish_segment(whole);
      return whole;
    }
  }
}

Outcome<> Endpoint::t_rcvudata(t_unitdata& unitdata, int& flags) {
  netbuf& udata = unitdata.udata;
  const t_iovec whole{udata.buf, udata.maxlen};
  flags = 0;
  if (const Outcome<> ready = require_connectionless(Call::rcvudata); !ready) {
    return ready;
  }
  const Outcome<std::size_t> size = receive(unitdata, std::span(&whole, 1), flags, true);
  if (!size) {
    return std::unexpected(size.error());
  }
  udata.len = *size;
  return {};
}

Outcome<std::size_t> Endpoint::t_rcvmudata(std::span<t_unitdata> units, int& flags) {
  flags = 0;
  Outcome<> ready = require_connectionless(Call::rcvudata);
  std::size_t received = 0;
  while (ready && received < units.size() && flags == 0) {
    netbuf& udata = units[received].udata;
    const t_iovec whole{udata.buf, udata.maxlen};
    const Outcome<std::size_t> size = receive(units[received], std::span(&whole, 1), flags, received == 0);
    if (size) {
      udata.len = *size;
      ++received;
    } else {
      ready = std::unexpected(size.error());
    }
  }
  return ready || received > 0 ? Outcome<std::size_t>(received) : std::unexpected(ready.error());
}

Outcome<std::size_t> Endpoint::t_rcvvudata(t_unitdata& unitdata, std::span<const t_iovec> parts, int& flags) {
  flags = 0;
  Outcome<> ready = require_connectionless(Call::rcvudata);
  // "[TBADDATA] iovcount is greater than T_IOV_MAX." (t_rcvvudata(3NSL))
  ready = ready && parts.size() > T_IOV_MAX ? failed(TBADDATA) : ready;
  return ready ? receive(unitdata, parts, flags, true) : std::unexpected(ready.error());
}

Outcome<std::size_t> Endpoint::t_lookudata(t_unitdata& unitdata) {
  Outcome<> ready = require_connectionless(Call::rcvudata);
  ready = ready ? next_data_unit(unitdata, true) : ready;
  ready = ready && names_told_ ? failed(TOUTSTATE) : ready;  // t_rcvudata() has begun to take it
  if (!ready) {
    return std::unexpected(ready.error());
  }
  const std::size_t size = unit_size();
  unitdata.udata.len = std::min(unitdata.udata.maxlen, size);
  static_cast<void>(next_.copy_data_to(0, Bytes(unitdata.udata.buf, unitdata.udata.len)));
  shown_ = true;
  return size;
}

/// The bytes of the data unit that was shown, if there is room for them.
Outcome<std::size_t> Endpoint::may_land(std::span<const t_iovec> parts) const {
  if (!next_ || !shown_) {
    return failed(TOUTSTATE);
  }
  const std::size_t size = unit_size();
  const Outcome<std::size_t> room = size_of(parts);
  return room && *room >= size ? Outcome<std::size_t>(size) : failed(TBADDATA);
}

Outcome<std::size_t> Endpoint::t_landudata(std::span<const t_iovec> parts) {
  const Outcome<std::size_t> size = may_land(parts);
  if (!size) {
    return size;
  }
  if (segment_ != 0) {
    const bool good = copy_segment(parts, *size);
    if (good) {
      finish_segment(*size);
    }
    return good ? size : failed(TNODATA);
  }
  land(parts);
  const bool good = static_cast<bool>(next_);
  next_.reset();
  return good ? size : failed(TNODATA);
}

Outcome<std::size_t> Endpoint::t_landudata(std::span<const t_iovec> parts, const OwnStage& stage) {
  const Outcome<std::size_t> size = may_land(parts);
  if (!size || segment_ != 0) {
    return size ? failed(TNOTSUPPORT) : size;
  }
  bool sound = false;
  if (stream_->head().transform(next_, stage, sound) == TransformResult::failed) {
    next_.reset();
  } else {
    land(parts);
  }
  const bool good = static_cast<bool>(next_);
  next_.reset();
  return good ? size : failed(sound ? TPROTO : TNODATA);
}

Outcome<Bytes> Endpoint::t_showsudata(t_unitdata& unitdata, std::size_t& segment) {
  Outcome<> ready = require_connectionless(Call::rcvudata);
  ready = ready ? next_data_unit(unitdata, true) : ready;
  ready = ready && names_told_ ? failed(TOUTSTATE) : ready;  // t_rcvudata() has begun to take it
  if (!ready) {
    return std::unexpected(ready.error());
  }
  const Block* const block = next_.data_block();
  const std::size_t size = next_.data_size();
  if (segment_ == 0 || size <= segment_ || !next_.materialized() || block->size() != size ||
      !block->buffer->writable()) {
    return Bytes();
  }
  shown_ = true;
  segment = segment_;
  return Bytes(block->rptr, size);
}

void Endpoint::t_endsudata() {
  if (shown_) {
    next_.reset();
  }
}

void Endpoint::t_skipudata() {
  if (next_ && shown_) {
    if (next_.materialize() == TransformResult::done && segment_ != 0) {
      finish_segment(unit_size());
    } else {
      next_.reset();
    }
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

// ---- Connection mode ----

/// "t_snddis() is an abortive disconnection", and so is the peer's: it "may cause [...] data not yet received, to be
/// lost" (t_snddis(3NSL)). The provider has flushed what waited on queues, and what is at hand here goes now.
Outcome<std::int32_t> Endpoint::first_event() {
  const bool connected = state_ >= T_DATAXFER || state_ == T_OUTCON;
  const Block* const waiting = connected && next_ ? stream_->head().read_queue().peek() : nullptr;
  if (waiting != nullptr && is_protocol(waiting->type) && tpi::primitive_of(waiting->bytes()) == tpi::T_DISCON_IND) {
    next_.reset();
  }
  while (good_indication()) {
    if (names_told_) {
      return (rest_flags_ & T_EXPEDITED) != 0 ? tpi::T_EXDATA_IND : tpi::T_DATA_IND;
    }
    const bool bare = next_.type() == MessageType::data;
    const std::int32_t primitive =
        bare ? std::int32_t{tpi::T_DATA_IND} : tpi::primitive_of(next_.bytes()).value_or(nothing_waits);
    if (primitive == tpi::T_DATA_IND && info_.tsdu == 0 && next_.data_size() == 0) {
      next_.reset();  // where there are no TSDUs it is the end of none
      continue;
    }
    switch (primitive) {
      case tpi::T_CONN_IND:
      case tpi::T_CONN_CON:
      case tpi::T_DISCON_IND:
      case tpi::T_DATA_IND:
      case tpi::T_EXDATA_IND:
      case tpi::T_ORDREL_IND:
        return primitive;
      case tpi::T_OK_ACK:
      case tpi::T_ERROR_ACK:
        next_.reset();  // of a request that was given up
        break;
      default:
        next_.reset();
        return failed(TPROTO);
    }
  }
  return nothing_waits;
}

Outcome<std::int32_t> Endpoint::next_event(bool may_wait) {
  for (;; may_wait = stream_->waiter()->wait(never)) {
    const StreamHead& head = stream_->head();
    if (head.read_error() != 0) {
      return failed(TSYSERR, head.read_error());
    }
    if (const auto event = first_event(); !event || *event != nothing_waits) {
      return event;
    }
    if (head.hung_up()) {
      return failed(TSYSERR, ENXIO);
    }
    if (!may_wait) {
      return failed(TNODATA);
    }
  }
}

namespace {

/// MORE_flag of a T_DATA_IND or T_EXDATA_IND.
bool more_of(ConstBytes block) {
  const auto data = tpi::DataInd::decode(block);
  const auto expedited = tpi::ExdataInd::decode(block);
  return (data && data->more != 0) || (expedited && expedited->more != 0);
}

}  // namespace

void Endpoint::open_reader_place(Bytes place) {
  if (!next_ && stream_->head().read_queue().empty()) {
    stream_->reader_place().open(place);
  }
}

void Endpoint::t_rcvplace(Bytes place) {
  stream_->reader_place().close();
  open_reader_place(place);
}

/// What flags tell of the indication at hand.
void Endpoint::note_flags(bool expedited) {
  const bool units = expedited ? info_.etsdu != 0 : info_.tsdu != 0;
  const bool goes_on = is_protocol(next_.type()) && more_of(next_.bytes());
  rest_flags_ = (expedited ? T_EXPEDITED : 0) | (units && goes_on ? T_MORE : 0);
}

/// Whether the data unit, or the stream that has none, goes on in the indication that the head has next.
bool Endpoint::data_follows() const {
  const bool goes_on = !next_ && (info_.tsdu == 0 || (rest_flags_ & T_MORE) != 0);
  const Block* const next = goes_on ? stream_->head().read_queue().peek() : nullptr;
  return next != nullptr &&
         (next->type == MessageType::data || (next->type == MessageType::proto && next->codec == nullptr &&
                                              tpi::primitive_of(next->bytes()) == tpi::T_DATA_IND));
}

/// Delivers what lies at `place` already of the data at hand, because a reader waited there for it.
std::size_t Endpoint::deliver_landed(Bytes place) {
  std::size_t done = 0;
  while (next_ && next_.materialized()) {
    const Block* const block = next_.data_block();
    const std::size_t size = block == nullptr ? 0 : block->size();
    if (size == 0 || size > place.size() - done || block->rptr != place.data() + done) {
      break;
    }
    done += size;
    if (size < next_.data_size()) {
      next_.trim_data_front(size);
    } else {
      next_.reset();
    }
  }
  return done;
}

namespace {

/// Takes `size` bytes off the front of `parts`.
void drop_front(std::span<t_iovec>& parts, std::size_t size) {
  while (!parts.empty() && size >= parts.front().iov_len) {
    size -= parts.front().iov_len;
    parts = parts.subspan(1);
  }
  if (size > 0) {
    parts.front().iov_base += size;
    parts.front().iov_len -= size;
  }
}

}  // namespace

/// Delivers the data at hand to `parts`, which it shortens, as much as there is room for; the rest stays. Nothing: a
/// check does not hold, and the data is gone.
std::optional<std::size_t> Endpoint::deliver_stream(std::span<t_iovec>& parts) {
  std::size_t size = 0;
  if (!parts.empty()) {
    size = deliver_landed({parts.front().iov_base, parts.front().iov_len});
    drop_front(parts, size);
  }
  if (size > 0 && !next_) {
    return size;
  }
  stream_->reader_place().close();  // nothing else lies there, now that other bytes are copied
  const bool landed = next_.fused() && land(parts);
  if (!next_) {
    return std::nullopt;
  }
  const std::size_t copied = deliver(parts, landed);
  drop_front(parts, copied);
  return size + copied;
}

/// Where the caller may have to wait, his first buffer is known below meanwhile (ReaderPlace).
Outcome<std::size_t> Endpoint::receive_stream(std::span<const t_iovec> parts, int& flags) {
  flags = 0;
  Outcome<> ready = require_connections(Call::rcv);
  ready = ready && parts.size() > T_IOV_MAX ? failed(TBADDATA) : ready;
  if (!ready) {
    return std::unexpected(ready.error());
  }
  if (stream_->may_block() && !parts.empty()) {
    open_reader_place({parts.front().iov_base, parts.front().iov_len});
  }
  std::array<t_iovec, T_IOV_MAX> room;
  std::ranges::copy(parts, room.begin());
  const auto received = receive_stream_in(std::span(room).first(parts.size()), flags);
  stream_->reader_place().close();
  return received;
}

/// Of one data unit, or of a stream without units, as many indications as have come. "If nbytes is greater than zero on
/// the call to t_rcv(), t_rcv() will return 0 only if the end of a TSDU is being returned to the user." (t_rcv(3NSL))
Outcome<std::size_t> Endpoint::receive_stream_in(std::span<t_iovec> room, int& flags) {
  std::size_t size = 0;
  for (bool more = true; more;) {
    const auto event = next_event(size == 0 && stream_->may_block());
    const bool expedited = event && *event == tpi::T_EXDATA_IND;
    const bool is_data = event && (*event == tpi::T_DATA_IND || (expedited && size == 0));
    if (!is_data && size > 0) {
      break;  // the next call tells of it
    }
    if (!is_data) {
      return event ? failed(TLOOK) : std::unexpected(event.error());
    }
    if (!names_told_) {
      note_flags(expedited);
    }
    const auto delivered = deliver_stream(room);
    if (delivered) {
      size += *delivered;
      flags = rest_flags_ | (next_ ? T_MORE : 0);
    }
    more = (!delivered && size == 0) || (!expedited && !room.empty() && data_follows());
  }
  return size;
}

Outcome<std::size_t> Endpoint::t_rcv(Bytes place, int& flags) {
  const t_iovec whole{place.data(), place.size()};
  return receive_stream(std::span(&whole, 1), flags);
}

Outcome<std::size_t> Endpoint::t_rcvv(std::span<const t_iovec> parts, int& flags) {
  return receive_stream(parts, flags);
}

namespace {

std::uint16_t event_of(std::int32_t primitive) {
  switch (primitive) {
    case tpi::T_CONN_IND:
      return T_LISTEN;
    case tpi::T_CONN_CON:
      return T_CONNECT;
    case tpi::T_DISCON_IND:
      return T_DISCONNECT;
    case tpi::T_ORDREL_IND:
      return T_ORDREL;
    case tpi::T_EXDATA_IND:
      return T_EXDATA;
    default:
      return T_DATA;
  }
}

}  // namespace

Outcome<std::uint16_t> Endpoint::t_look() {
  if (Outcome<> valid = require(Call::look); !valid) {
    return std::unexpected(valid.error());
  }
  if (info_.servtype != tpi::T_CLTS) {
    if (const auto event = first_event(); !event || *event != nothing_waits) {
      return event ? Outcome<std::uint16_t>(event_of(*event)) : std::unexpected(event.error());
    }
  } else if (good_indication()) {
    return static_cast<std::uint16_t>(is_error() ? T_UDERR : T_DATA);
  }
  // "Flow control restrictions on normal data flow that led to a TFLOW error have been lifted." Such events
  // are the only ones that t_look() clears (XNS, "Events and TLOOK Error Indication").
  if (flow_refused_ && stream_->can_put()) {
    flow_refused_ = false;
    return static_cast<std::uint16_t>(T_GODATA);
  }
  if (expedited_refused_ && stream_->can_put(expedited_band())) {
    expedited_refused_ = false;
    return static_cast<std::uint16_t>(T_GOEXDATA);
  }
  return std::uint16_t{0};
}

}  // namespace sluice::tli
