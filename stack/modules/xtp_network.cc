// SPDX-License-Identifier: Apache-2.0

// xtp: what it says to the provider below, and what that says.

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "base/internet_checksum.h"
#include "stack/core/primitive.h"
#include "stack/core/reader_place.h"
#include "stack/core/stream_set.h"
#include "stack/modules/data_unit_primitive.h"
#include "stack/modules/xtp.h"

namespace sluice {

using namespace wire::tpi;  // the primitives and their numbers
using wire::DataUnit;
using wire::TransportAddress;
using wire::XtpControl;
using wire::XtpDiagnosis;
using wire::XtpFirst;
using wire::XtpHeader;
using wire::XtpMalformed;
using Kind = DataUnit::Kind;

namespace {

constexpr std::size_t xtp_headroom_below = 128;
constexpr std::size_t xtp_segment_bytes_max = XtpControl::size_max;
static_assert(xtp_segment_bytes_max >= XtpFirst::size_max);

}  // namespace

// ---- Down ----

/// The checksum, made or owed. False: a message is lost for want of memory.
bool Xtp::seal(Message& packet) {
  const Bytes front = packet.bytes();
  std::byte* const field = front.data() + XtpHeader::checksum_offset;
  const bool no_check = (front[8] & std::byte{XtpHeader::no_check >> 16}) != std::byte{0};
  const std::uint16_t sum = header_sum(front.first(wire::xtp_summed_bytes(no_check, front.size())));
  if (no_check || packet.data_size() == front.size()) {
    store_checksum(field, checksum_of(sum));
    return true;
  }
  defer_if_fused(packet);
  const Sum owed{.initial = sum, .field = field, .zero_is_sent_as_ones = false, .from = front.size()};
  return packet.transform(owed) != TransformResult::failed;
}

/// Puts it to what leaves when the outermost procedure ends.
void Xtp::send_packet(const TransportAddress& to, Message packet) {
  Message request = Message::of_native(
      set().pool(), DataUnit{.kind = Kind::transport_request, .peer = to.address, .peer_port = to.port});
  if (!request || !seal(packet)) {
    ++no_memory_;
    return;
  }
  request.link(std::move(packet));
  ++packets_out_;
  packets_.push(std::move(request));
}

void Xtp::flush_packets() {
  while (!packets_.empty()) {
    write_queue().put_next(std::exchange(packets_, Batch()));  // which may come back here
  }
}

void Xtp::diagnose(const TransportAddress& to, std::uint64_t key, const XtpDiagnosis& diagnosis) {
  Message packet = Message::of_size(set().pool(), XtpHeader::size + XtpDiagnosis::size, xtp_headroom_below, 0);
  if (!packet) {
    ++no_memory_;
    return;
  }
  XtpHeader{.key = key, .type = XtpHeader::Type::diag, .length = XtpDiagnosis::size}.emit(packet.bytes());
  diagnosis.emit(packet.bytes().subspan(XtpHeader::size));
  ++diagnoses_sent_;
  send_packet(to, std::move(packet));
}

void Xtp::refuse(const TransportAddress& to, std::uint64_t key, XtpDiagnosis::Value value) {
  diagnose(to, key | XtpHeader::return_key, {.code = XtpDiagnosis::Code::refused, .value = value});
}

/// Tells a caller that his call has come and waits for the user.
void Xtp::consider(const xtp::Call& call) {
  Message packet = Message::of_size(set().pool(), XtpHeader::size + XtpControl::size, xtp_headroom_below, 0);
  if (!packet) {
    ++no_memory_;
    return;
  }
  XtpControl control;
  control.received = control.allocated = call.first;
  XtpHeader{.key = call.key | XtpHeader::return_key, .type = XtpHeader::Type::cntl, .length = XtpControl::size}.emit(
      packet.bytes());
  control.emit(packet.bytes().subspan(XtpHeader::size), XtpHeader::Type::cntl);
  ++controls_sent_;
  send_packet(call.from, std::move(packet));
}

// ---- Up ----

void Xtp::rput(Batch&& batch) {
  const Entered entered(*this);
  while (Message message = batch.pop()) {
    if (is_data_unit(message, Kind::transport_indication, T_UNITDATA_IND)) {
      receive(std::move(message));
    } else if (from_provider(message)) {
      read_queue().put_next(std::move(message));
    }
  }
}

/// A message that is no packet; whether it passes on. The provider flushes as it unbinds, and so does this one.
bool Xtp::from_provider(Message& message) {
  if (is_data_unit(message, Kind::transport_error, T_UDERROR_IND)) {
    report(message);
    return false;
  }
  if (message.type() == MessageType::flush) {
    return asked_ != Asked::unbind;
  }
  if (!is_protocol(message.type())) {
    return true;
  }
  unexpected_ += acknowledged_below(message) ? 0U : 1U;
  return false;
}

bool Xtp::acknowledged_below(const Message& message) {
  const ConstBytes bytes = message.bytes();
  if (asked_ == Asked::nothing) {
    return false;
  }
  if (const auto error = ErrorAck::decode(bytes)) {
    asked_ = Asked::nothing;
    refused(error->tli_error, error->unix_error);
    return true;
  }
  if (asked_ == Asked::unbind && OkAck::decode(bytes)) {
    asked_ = Asked::nothing;
    is_bound_ = false;
    acknowledged();
    return true;
  }
  const auto ack = BindAck::decode(bytes);
  if (asked_ != Asked::bind || !ack) {
    return false;
  }
  asked_ = Asked::nothing;
  is_bound_ = true;
  local_ = TransportAddress::decode(ack->address).value_or(TransportAddress{});
  bound(ack->address, wanted_indications_);
  return true;
}

void Xtp::report(Message& message) {
  const auto read = native_of<DataUnit>(message, Kind::transport_error);
  if (!read) {
    ++(read.error().malformed ? malformed_ : no_memory_);
    return;
  }
  ++errors_;
  const TransportAddress to{(*read)->peer, (*read)->peer_port};
  const int error = (*read)->error;
  if (!mine_ || mine_->connection.remote() != to || error == ENOBUFS || error == 0) {
    return;
  }
  if (mine_->connection.state() == xtp::State::opening || error == EMSGSIZE) {
    mine_->connection.refused(error, set().now());
    attend(*mine_);
  }
}

void Xtp::refuse_malformed(XtpMalformed malformed) { ++*malformed_packets_[static_cast<std::size_t>(malformed)]; }

/// Nothing is acknowledged that is not verified: the bytes are loaded here, and where their reader waits, the pass ends
/// at his `place`; else they stay where they are until he takes them, or an owner who wants the memory back moves them
/// (BufferPool::reclaim). The header, which may lie in `scratch`; nullptr: the checksum does not hold, which is
/// counted, or there is no memory.
const std::byte* Xtp::verified(Message& message, Message& place, Bytes scratch) {
  const std::byte* front = message.front(XtpHeader::size, scratch.data());
  if (front == nullptr) {
    refuse_malformed(XtpMalformed::short_header);
    return nullptr;
  }
  // Should this bit be damaged, neither sum holds.
  const bool no_check = (front[8] & std::byte{XtpHeader::no_check >> 16}) != std::byte{0};
  Counter& bad_checksum = *malformed_packets_[static_cast<std::size_t>(XtpMalformed::bad_checksum)];
  if (place && !message.fused()) {
    message.defer();  // short as it is: it is to be moved
  }
  if (!no_check && message.transform(Check{.initial = 0}, handle(), bad_checksum) == TransformResult::failed) {
    bad_checksum += message.failed() ? 0U : 1U;
    return nullptr;
  }
  if (place) {
    front = message.land(std::array{scratch, place.bytes()}) == TransformResult::failed ? nullptr : scratch.data();
  } else {
    front = materialize(message, Side::read) == TransformResult::failed
                ? nullptr
                : message.front(XtpHeader::size, scratch.data());
  }
  if (front != nullptr && no_check && !sum_holds(header_sum({front, XtpHeader::size}))) {
    ++bad_checksum;
    return nullptr;
  }
  return front;
}

/// What shows the place where the reader waits for the data of just this packet, if it is what its header says, which
/// is not verified yet; else empty.
Message Xtp::place_for(const TransportAddress& from, const Message& message) {
  ReaderPlace* const place = waiting_reader();
  if (place == nullptr || !mine_) {
    return {};
  }
  std::array<std::byte, XtpHeader::size> scratch;
  const std::byte* const front = message.front(XtpHeader::size, scratch.data());
  if (front == nullptr) {
    return {};
  }
  const auto header = XtpHeader::parse({front, XtpHeader::size}, message.data_size());
  if (!header || header->type != XtpHeader::Type::data || addressee(from, *header) != mine_.get() ||
      mine_->connection.waiting_before(header->sequence) != place->waiting()) {
    return {};
  }
  return place->take_room_for(header->length);
}

void Xtp::receive(Message message) {
  const auto read = native_of<DataUnit>(message, Kind::transport_indication);
  if (!read) {
    ++(read.error().malformed ? malformed_ : no_memory_);
    return;
  }
  const TransportAddress from{(*read)->peer, (*read)->peer_port};
  if ((*read)->group || from.port == 0) {
    ++malformed_;
    return;
  }
  Message place = place_for(from, message);
  std::array<std::byte, XtpHeader::size> scratch;
  const std::byte* const front = verified(message, place, scratch);
  if (front == nullptr) {
    return;
  }
  // Read where it has been verified, though place_for() has looked at it before.
  const auto header = XtpHeader::parse({front, XtpHeader::size}, message.data_size());
  if (!header) {
    return refuse_malformed(header.error());
  }
  ++packets_in_;
  Message data = std::move(place);
  if (!data) {
    data = message.unlink();
    data.trim_front(XtpHeader::size);
  }
  dispatch(from, *header, std::move(data));
}

void Xtp::dispatch(const TransportAddress& from, const XtpHeader& header, Message data) {
  std::array<std::byte, xtp_segment_bytes_max> bytes;
  ConstBytes segment;
  if (header.type != XtpHeader::Type::data) {
    // Text behind a diagnosis is not looked at; any other segment that is longer than the longest lies.
    const std::size_t size = header.length;
    if (size > bytes.size() && header.type != XtpHeader::Type::diag) {
      return refuse_malformed(header.type == XtpHeader::Type::ecntl ? XtpMalformed::bad_spans
                                                                    : XtpMalformed::bad_segment);
    }
    const std::size_t read = std::min(size, bytes.size());
    static_cast<void>(read == 0 || data.copy_data_to(0, Bytes(bytes).first(read)));
    segment = ConstBytes(bytes).first(read);
  }
  switch (header.type) {
    case XtpHeader::Type::first:
      return called(from, header, segment);
    case XtpHeader::Type::diag:
      return diagnosed(from, header, segment);
    default:
      return arrived(from, header, segment, header.type == XtpHeader::Type::data ? std::move(data) : Message());
  }
}

Xtp::Held* Xtp::find(std::uint64_t key) {
  if (mine_ && mine_->connection.key() == key) {
    return mine_.get();
  }
  const auto found = std::ranges::find_if(lingering_, [&](const auto& one) { return one->connection.key() == key; });
  return found == lingering_.end() ? nullptr : found->get();
}

Xtp::Held* Xtp::find_by_peer(const TransportAddress& from, std::uint64_t peer_key) {
  const auto is_it = [&](const auto& one) {
    return one && one->connection.peer_key() == peer_key && one->connection.remote() == from;
  };
  if (is_it(mine_)) {
    return mine_.get();
  }
  const auto found = std::ranges::find_if(lingering_, is_it);
  return found == lingering_.end() ? nullptr : found->get();
}

/// Whose packet it is. It bears its sender's key, or ours as it comes back.
Xtp::Held* Xtp::addressee(const TransportAddress& from, const XtpHeader& header) {
  const bool returned = (header.key & XtpHeader::return_key) != 0;
  return returned ? find(header.key & ~XtpHeader::return_key) : find_by_peer(from, header.key);
}

/// FIRST. One that comes again is answered as before; one of an association here is answered by its timer.
void Xtp::called(const TransportAddress& from, const XtpHeader& header, ConstBytes segment) {
  const auto first = XtpFirst::parse(segment);
  if (!first || (header.key & XtpHeader::return_key) != 0) {
    return refuse_malformed(first ? XtpMalformed::bad_key : first.error());
  }
  if (find_by_peer(from, header.key) != nullptr) {
    return;
  }
  const auto before =
      std::ranges::find_if(answered_, [&](const Answered& one) { return one.from == from && one.key == header.key; });
  if (before != answered_.end()) {
    return before->refused ? refuse(from, header.key, XtpDiagnosis::Value::unspecified) : void();
  }
  if (!listens()) {
    return refuse(from, header.key, XtpDiagnosis::Value::no_listener);
  }
  const auto waiting = std::ranges::find_if(
      callers_, [&](const Caller& one) { return one.call.from == from && one.call.key == header.key; });
  if (waiting != callers_.end()) {
    return consider(waiting->call);
  }
  if (callers_.size() >= connect_indications()) {
    ++callers_dropped_;
    return;
  }
  callers_.push_back(
      {{.from = from, .key = header.key, .first = header.sequence, .sync = header.sync, .traffic = first->traffic},
       {}});
  indicate_callers();
}

/// DIAG: of a call with our key, of an association with the peer's.
void Xtp::diagnosed(const TransportAddress& from, const XtpHeader& header, ConstBytes segment) {
  const auto diagnosis = XtpDiagnosis::parse(segment);
  if (!diagnosis) {
    return refuse_malformed(diagnosis.error());
  }
  Held* const held = addressee(from, header);
  if (held == nullptr || held->connection.remote() != from) {
    ++no_association_;
    return;
  }
  held->connection.refused(0, set().now());
  attend(*held);
}

void Xtp::arrived(const TransportAddress& from, const XtpHeader& header, ConstBytes segment, Message data) {
  xtp::Packet packet{.from = from, .header = header, .control = {}, .data = std::move(data)};
  if (header.is_control()) {
    const auto control = XtpControl::parse(segment, header.type);
    if (!control) {
      return refuse_malformed(control.error());
    }
    packet.control = *control;
  } else if (header.length == 0) {
    packet.data.reset();
  }
  Held* const held = addressee(from, header);
  if (held != nullptr) {
    held->connection.arrive(std::move(packet), set().now());
    return attend(*held);
  }
  if (!withdrawn(from, header)) {
    unclaimed(from, header);
  }
}

/// END of a caller that has not been answered.
bool Xtp::withdrawn(const TransportAddress& from, const XtpHeader& header) {
  const auto gone = std::ranges::find_if(
      callers_, [&](const Caller& one) { return one.call.from == from && one.call.key == header.key; });
  if (!header.has(XtpHeader::end) || gone == callers_.end()) {
    return false;
  }
  const auto sequence = gone->sequence;
  callers_.erase(gone);
  ++withdrawn_;
  if (sequence) {
    indicate_withdrawal(ECONNRESET, *sequence);
  }
  indicate_callers();
  return true;
}

/// The peer of an association that is not here any more is told, with the key by which it knows ours. What ends one is
/// not answered, so that two ends do not go on for ever.
void Xtp::unclaimed(const TransportAddress& from, const XtpHeader& header) {
  ++no_association_;
  if ((header.key & XtpHeader::return_key) != 0 && !header.has(XtpHeader::end)) {
    diagnose(from, header.key & ~XtpHeader::return_key, {.code = XtpDiagnosis::Code::invalid});
  }
}

}  // namespace sluice
