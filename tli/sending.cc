// SPDX-License-Identifier: Apache-2.0

// Data units on their way from the program.

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstring>
#include <optional>
#include <utility>

#include "base/contract.h"
#include "stack/core/primitive.h"
#include "stack/wire/network.h"
#include "stack/wire/options.h"
#include "stack/wire/tpi_connection.h"
#include "stack/wire/words.h"
#include "tli/buffers.h"
#include "tli/endpoint.h"

namespace sluice::tli {

using wire::DataUnit;
using enum wire::tpi::TliError;
namespace tpi = wire::tpi;

/// "[TBADDATA] Illegal amount of data. A single send was attempted specifying a TSDU greater than that specified in the
/// info argument, or a send of a zero byte TSDU is not supported by the provider." (t_sndudata(3NSL)) "If no other
/// constraint applies, it will be limited by INT_MAX." (t_sndvudata(3NSL))
bool Endpoint::may_send(std::size_t size) const {
  const std::int32_t size_max = info_.tsdu == tpi::T_INFINITE ? INT_MAX : std::max(0, info_.tsdu);
  return size <= static_cast<std::size_t>(size_max) && (size > 0 || (info_.flags & T_SENDZERO) != 0);
}

/// "[TFLOW] O_NONBLOCK was set, but the flow control mechanism prevented the transport provider from accepting any data
/// at this time." "[TLOOK] An asynchronous event has occurred on this transport endpoint": for t_sndudata() that is
/// T_UDERR (XNS, "Events and TLOOK Error Indication").
Outcome<> Endpoint::wait_until_sendable() {
  for (bool may_wait = stream_->may_block();; may_wait = stream_->waiter()->wait(never)) {
    if (const int error = stream_->write_refusal(); error != 0) {
      return failed(TSYSERR, error);
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

namespace {

/// The options of one data unit, as XTI has them: a TTL, and for IPv4 a type of service. False for any other.
bool read_options(ConstBytes options, DataUnit& request) {
  using namespace wire::xti;
  if (!is_well_formed(options)) {
    return false;
  }
  request.options = DataUnit::Options::sending;
  OptionReader reader(options);
  while (const auto option = reader.next()) {
    const std::size_t size = option->value.size();
    if (size != 1 && size != wire::word_size) {
      return false;
    }
    const std::uint32_t value =
        size == 1 ? std::to_integer<std::uint32_t>(option->value[0]) : wire::load_word(option->value.data());
    const std::uint32_t level = request.peer.is_v4() ? T_INET_IP : T_INET_IPV6;
    const std::uint32_t hops = request.peer.is_v4() ? std::uint32_t{T_IP_TTL} : std::uint32_t{T_IPV6_UNICAST_HOPS};
    if (option->level == level && option->name == hops && value >= 1 && value <= 255) {
      request.hop_limit = static_cast<std::uint8_t>(value);
    } else if (option->level == level && level == T_INET_IP && option->name == T_IP_TOS && value <= 255) {
      request.traffic_class = static_cast<std::uint8_t>(value);
    } else {
      return false;
    }
  }
  return true;
}

/// The request of a data unit as bytes; none where its names are too long, or memory is short.
[[gnu::noinline]] Message encoded_request(BufferPool& pool, const t_unitdata& unitdata) {
  const tpi::UnitdataReq primitive{content(unitdata.addr), content(unitdata.opt)};
  return primitive.encoded_size() > primitive_bytes_max ? Message()
                                                        : primitive_message(pool, primitive, MessageType::proto);
}

[[gnu::noinline]] Outcome<> why_no_request(const t_unitdata& unitdata) {
  if (tpi::UnitdataReq{content(unitdata.addr), content(unitdata.opt)}.encoded_size() > primitive_bytes_max) {
    return failed(unitdata.addr.len > primitive_bytes_max / 2 ? TBADADDR : TBADOPT);
  }
  return failed(TSYSERR, ENOSR);
}

}  // namespace

/// Reads where a data unit goes, and how, into request_; most go where the last one went. False when its address or
/// options are of no kind that is known here.
inline bool Endpoint::read_names(const t_unitdata& unitdata) {
  const ConstBytes address = content(unitdata.addr);
  const ConstBytes options = content(unitdata.opt);
  if (options.empty() && !address.empty() && address.size() == peer_size_ &&
      std::memcmp(address.data(), peer_.data(), peer_size_) == 0) [[likely]] {
    return true;
  }
  return read_other_names(address, options);
}

[[gnu::noinline]] bool Endpoint::read_other_names(ConstBytes address, ConstBytes options) {
  peer_size_ = 0;
  const auto decoded = wire::TransportAddress::decode(address);
  if (!decoded) {
    return false;
  }
  request_ = DataUnit{.kind = DataUnit::Kind::transport_request, .peer = decoded->address, .peer_port = decoded->port};
  if (!options.empty()) {
    // The first word of a Sending is below 16 or above 255, that of a t_opthdr is its size.
    const bool sized =
        options.size() == wire::network::Sending::size || options.size() == wire::network::Sending::size_max;
    const bool sending = sized && request_.read_options(options);
    return sending || read_options(options, request_);
  }
  std::ranges::copy(address, peer_.begin());
  peer_size_ = address.size();
  return true;
}

/// Appends the T_UNITDATA_REQ of a data unit to `batch`; waits before the first, where that is allowed. What cannot be
/// read of address and options goes as bytes, and the provider answers it.
inline Outcome<> Endpoint::add_request(const t_unitdata& unitdata, std::size_t size, std::span<const ConstBytes> parts,
                                       Loan& loan, Batch& batch) {
  if (!may_send(size)) {
    return failed(TBADDATA);
  }
  if (batch.empty()) {
    if (const Outcome<> ready = wait_until_sendable(); !ready) {
      return ready;
    }
  }
  BufferPool& pool = stream_->set().pool();
  Message request = read_names(unitdata) ? Message::of_native(pool, request_) : encoded_request(pool, unitdata);
  Message data = stream_->message_of(parts, loan);
  if (!request || !data) {
    return why_no_request(unitdata);
  }
  request.link(std::move(data));
  batch.push(std::move(request));
  return {};
}

/// Whether both go to one place in one way.
static bool have_same_names(const t_unitdata& one, const t_unitdata& other) {
  const auto text_of = [](const netbuf& name) { return as_text(content(name)); };
  return text_of(one.addr) == text_of(other.addr) && text_of(one.opt) == text_of(other.opt);
}

/// How many of `units`, from the first on, cross as one message: as many as t_sndsudata() could send together, where
/// that is worth it.
std::size_t Endpoint::joined(std::span<const t_unitdata> units) {
  const t_unitdata& first = units.front();
  const std::size_t segment = first.udata.len;
  if (!stream_->head().segments() || segment == 0 || segment > segments_bytes_max || !may_send(segment)) {
    return 1;
  }
  std::size_t count = 1;
  std::size_t size = segment;
  for (std::size_t last = segment; last == segment && count < units.size(); ++count) {
    last = units[count].udata.len;
    if (last == 0 || last > segment || last > segments_bytes_max - size || !have_same_names(units[count], first)) {
      break;
    }
    size += last;
  }
  return count >= joined_units_min && read_names(first) ? count : 1;
}

/// Sends `units`, with the data that `data_of(at, end)` gives: of how many units from `at` on, their size, and where
/// their parts lie.
template <class DataOf>
Outcome<std::size_t> Endpoint::send_many(std::span<const t_unitdata> units, DataOf data_of) {
  if (const Outcome<> valid = require_connectionless(Call::sndudata); !valid) {
    return std::unexpected(valid.error());
  }
  std::optional<Failure> stopped;
  std::size_t sent = 0;
  while (!stopped && sent < units.size()) {
    Loan loan = stream_->loan();
    Batch batch;
    const std::size_t end = std::min(units.size(), sent + batch_units_max);
    do {
      const Outcome<Data> data = data_of(sent, end);
      const Outcome<> added =
          !data             ? std::unexpected(data.error())
          : data->units > 1 ? add_segments(units[sent], data->size, data->parts, units[sent].udata.len, loan, batch)
                            : add_request(units[sent], data->size, data->parts, loan, batch);
      if (!added) [[unlikely]] {
        stopped = added.error();
        break;
      }
      sent += data->units;
    } while (sent < end);
    if (!batch.empty()) {
      stream_->head().write_queue().put_next(std::move(batch));
    }
  }
  return stopped && sent == 0 ? std::unexpected(*stopped) : Outcome<std::size_t>(sent);
}

Outcome<> Endpoint::send_one(const t_unitdata& unitdata, std::size_t size, std::span<const ConstBytes> parts) {
  if (const Outcome<> valid = require_connectionless(Call::sndudata); !valid) {
    return valid;
  }
  Loan loan = stream_->loan();
  Batch batch;
  const Outcome<> added = add_request(unitdata, size, parts, loan, batch);
  if (added) [[likely]] {
    stream_->head().write_queue().put_next(std::move(batch));
  }
  return added;
}

Outcome<> Endpoint::t_sndudata(const t_unitdata& unitdata) {
  const ConstBytes whole = content(unitdata.udata);
  return send_one(unitdata, whole.size(), std::span(&whole, 1));
}

Outcome<> Endpoint::t_sndvudata(const t_unitdata& unitdata, std::span<const t_iovec> parts) {
  const Outcome<std::size_t> sent = t_sndmvudata(std::span(&unitdata, 1), std::span(&parts, 1));
  return sent ? Outcome<>() : std::unexpected(sent.error());
}

Outcome<std::size_t> Endpoint::t_sndmudata(std::span<const t_unitdata> units) {
  static_assert(batch_units_max <= segments_max && batch_units_max <= segments_parts_max);
  std::array<ConstBytes, batch_units_max> bytes;  // of a batch, since they are read when it goes
  return send_many(units, [&](std::size_t at, std::size_t end) -> Outcome<Data> {
    const std::size_t count = joined(units.subspan(at, end - at));
    const std::span<ConstBytes> parts = std::span(bytes).subspan(at % batch_units_max, count);
    std::size_t size = 0;
    for (std::size_t one = 0; one < count; ++one) {
      parts[one] = content(units[at + one].udata);
      size += parts[one].size();
    }
    return Data{size, parts, count};
  });
}

Outcome<std::size_t> Endpoint::t_sndmvudata(std::span<const t_unitdata> units,
                                            std::span<const std::span<const t_iovec>> parts) {
  SLUICE_REQUIRE(parts.size() == units.size());
  std::array<ConstBytes, T_IOV_MAX> bytes;
  return send_many(units, [&](std::size_t at, std::size_t) -> Outcome<Data> {
    const Outcome<std::size_t> size = size_of(parts[at]);
    if (!size) {
      return std::unexpected(size.error());
    }
    std::ranges::transform(parts[at], bytes.begin(),
                           [](const t_iovec& part) { return ConstBytes(part.iov_base, part.iov_len); });
    return Data{*size, std::span(bytes).first(parts[at].size()), 1};
  });
}

Outcome<> Endpoint::t_sndsudata(const t_unitdata& unitdata, std::span<const t_iovec> parts, std::size_t segment) {
  if (Outcome<> valid = require_connectionless(Call::sndudata); !valid) {
    return valid;
  }
  std::array<ConstBytes, segments_parts_max> bytes;
  std::size_t size = 0;
  if (parts.size() > bytes.size() || segment == 0 || !may_send(segment)) {
    return failed(TBADDATA);
  }
  for (std::size_t at = 0; at < parts.size(); ++at) {
    if (parts[at].iov_len > segments_bytes_max - size) {
      return failed(TBADDATA);
    }
    bytes[at] = ConstBytes(parts[at].iov_base, parts[at].iov_len);
    size += parts[at].iov_len;
  }
  if (size == 0 || size > segments_max * segment) {
    return failed(TBADDATA);
  }
  const std::span<const ConstBytes> whole = std::span(bytes).first(parts.size());
  Loan loan = stream_->loan();  // ends before the list of parts does
  Batch batch;
  const Outcome<> added = stream_->head().segments() && size > segment
                              ? add_segments(unitdata, size, whole, segment, loan, batch)
                              : add_one_by_one(unitdata, size, whole, segment, loan, batch);
  if (added) {
    stream_->head().write_queue().put_next(std::move(batch));
  }
  return added;
}

/// One request for all of them. What cannot be read of the names goes as bytes, one by one.
Outcome<> Endpoint::add_segments(const t_unitdata& unitdata, std::size_t size, std::span<const ConstBytes> parts,
                                 std::size_t segment, Loan& loan, Batch& batch) {
  if (batch.empty()) {
    if (const Outcome<> ready = wait_until_sendable(); !ready) {
      return ready;
    }
  }
  if (!read_names(unitdata)) {
    return add_one_by_one(unitdata, size, parts, segment, loan, batch);
  }
  Message request = Message::of_native(stream_->set().pool(), request_);
  Message data = stream_->segments_of(parts, loan);
  if (!request || !data) {
    return failed(TSYSERR, ENOSR);
  }
  DataUnit& unit = *request.native<DataUnit>();
  unit.options = DataUnit::Options::sending;
  unit.segment_size = static_cast<std::uint16_t>(segment);
  request.link(std::move(data));
  batch.push(std::move(request));
  return {};
}

/// Where something in the stream is not made for several in one message.
Outcome<> Endpoint::add_one_by_one(const t_unitdata& unitdata, std::size_t size, std::span<const ConstBytes> parts,
                                   std::size_t segment, Loan& loan, Batch& batch) {
  std::array<ConstBytes, segments_parts_max> of_unit;
  std::size_t next = 0;    // part that is not used up,
  std::size_t offset = 0;  // from this byte on
  for (std::size_t sent = 0; sent < size;) {
    const std::size_t unit_size = std::min(segment, size - sent);
    std::size_t count = 0;
    for (std::size_t filled = 0; filled < unit_size;) {
      const ConstBytes left = parts[next].subspan(offset);
      of_unit[count] = left.first(std::min(left.size(), unit_size - filled));
      filled += of_unit[count].size();
      offset += of_unit[count++].size();
      if (offset == parts[next].size()) {
        ++next;
        offset = 0;
      }
    }
    const Outcome<> added = add_request(unitdata, unit_size, std::span(of_unit).first(count), loan, batch);
    if (!added) {
      return added;
    }
    sent += unit_size;
  }
  return {};
}

// ---- Connection mode ----

/// As wait_until_sendable(): "The error TLOOK is returned for asynchronous events. It is required only for an incoming
/// disconnect event" (t_snd(3NSL)); here it is told for no other, so that a program may send what it has left after the
/// peer's release.
Outcome<> Endpoint::wait_until_connection_takes(std::uint8_t band) {
  bool& refused = band == 0 ? flow_refused_ : expedited_refused_;
  for (bool may_wait = stream_->may_block();; may_wait = stream_->waiter()->wait(never)) {
    if (const int error = stream_->write_refusal(); error != 0) {
      return failed(TSYSERR, error);
    }
    if (first_event() == tpi::T_DISCON_IND) {
      return failed(TLOOK);
    }
    refused = !stream_->can_put(band);
    if (!refused) {
      return {};
    }
    if (!may_wait) {
      return failed(TFLOW);
    }
  }
}

/// "[TBADDATA] Illegal amount of data: A single send was attempted specifying a TSDU (ETSDU) or fragment TSDU (ETSDU)
/// greater than that specified [...] A send of a zero byte TSDU (ETSDU) or zero byte fragment of a TSDU (ETSDU) is not
/// supported by the provider." "The sending of a zero-length fragment of a TSDU or ETSDU is only permitted where this
/// is used to indicate the end of a TSDU or ETSDU; that is, when the T_MORE flag is not set." (t_snd(3NSL))
Outcome<> Endpoint::may_send_stream(std::size_t size, int flags) const {
  if ((flags & ~(T_MORE | T_EXPEDITED | T_PUSH)) != 0) {
    return failed(TBADFLAG);
  }
  const std::int32_t size_max = (flags & T_EXPEDITED) != 0 ? info_.etsdu : info_.tsdu;
  if (size_max == tpi::T_INVALID) {
    return failed(TNOTSUPPORT);
  }
  const bool too_large = size_max > 0 && size > static_cast<std::size_t>(size_max);
  const bool empty = size == 0 && ((info_.flags & T_SENDZERO) == 0 || (flags & T_MORE) != 0);
  return too_large || empty ? failed(TBADDATA) : Outcome<>();
}

/// Sends `size` bytes of `parts` from `offset` on. Where the provider knows no data units its primitive would say
/// nothing, and is left away: "The transport provider must also recognize a message of one or more M_DATA message
/// blocks without the leading M_PROTO message block as a T_DATA_REQ primitive" (TPI, T_DATA_REQ).
Outcome<> Endpoint::put_piece(std::span<const ConstBytes> parts, std::size_t offset, std::size_t size, int flags) {
  std::array<ConstBytes, T_IOV_MAX> of_piece;
  std::size_t count = 0;
  for (std::size_t at = 0, left = size; left > 0; ++at) {
    if (offset >= parts[at].size()) {
      offset -= parts[at].size();
      continue;
    }
    const ConstBytes rest = parts[at].subspan(std::exchange(offset, 0));
    of_piece[count] = rest.first(std::min(rest.size(), left));
    left -= of_piece[count++].size();
  }
  BufferPool& pool = stream_->set().pool();
  Loan loan = stream_->loan();
  Message data = stream_->message_of(std::span(of_piece).first(count), loan);
  const bool expedited = (flags & T_EXPEDITED) != 0;
  const std::int32_t more = (flags & T_MORE) != 0 ? 1 : 0;
  Message request = expedited         ? primitive_message(pool, tpi::ExdataReq{more}, MessageType::proto)
                    : info_.tsdu != 0 ? primitive_message(pool, tpi::DataReq{more}, MessageType::proto)
                                      : std::move(data);
  if (!request || ((expedited || info_.tsdu != 0) && !data)) {
    return failed(TSYSERR, ENOSR);
  }
  if (data) {
    request.link(std::move(data));
  }
  request.set_band(expedited ? expedited_band() : std::uint8_t{0});
  stream_->head().write_queue().put_next(std::move(request));
  return {};
}

/// In pieces of what the provider takes at once. "if O_NONBLOCK is set or the function is interrupted by a signal, it
/// is possible that only part of the data has actually been accepted by the communications provider. In this case,
/// t_snd() returns a value that is less than the value of nbytes." (t_snd(3NSL)) So is what else stops it behind the
/// first.
Outcome<std::size_t> Endpoint::send_stream(std::span<const ConstBytes> parts, std::size_t size, int flags) {
  Outcome<> ready = require_connections(Call::snd);
  ready = ready ? may_send_stream(size, flags) : ready;
  const std::uint8_t band = (flags & T_EXPEDITED) != 0 ? expedited_band() : std::uint8_t{0};
  std::size_t sent = 0;
  while (ready) {
    const std::size_t piece = std::min(size - sent, piece_bytes_max_);
    ready = wait_until_connection_takes(band);
    ready = ready ? put_piece(parts, sent, piece, sent + piece < size ? flags | T_MORE : flags) : ready;
    sent += ready ? piece : 0;
    if (ready && sent == size) {
      return sent;
    }
  }
  return sent > 0 ? Outcome<std::size_t>(sent) : std::unexpected(ready.error());
}

Outcome<std::size_t> Endpoint::t_snd(ConstBytes data, int flags) {
  return send_stream(std::span(&data, 1), data.size(), flags);
}

Outcome<std::size_t> Endpoint::t_sndv(std::span<const t_iovec> parts, int flags) {
  if (const Outcome<> valid = require_connections(Call::snd); !valid) {
    return std::unexpected(valid.error());
  }
  const Outcome<std::size_t> size = size_of(parts);
  if (!size) {
    return size;
  }
  std::array<ConstBytes, T_IOV_MAX> bytes;
  std::ranges::transform(parts, bytes.begin(),
                         [](const t_iovec& part) { return ConstBytes(part.iov_base, part.iov_len); });
  return send_stream(std::span(bytes).first(parts.size()), *size, flags);
}

}  // namespace sluice::tli
