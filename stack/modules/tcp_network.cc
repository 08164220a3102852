// SPDX-License-Identifier: Apache-2.0

// tcp: what it says to ip, and what ip says.

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "stack/core/primitive.h"
#include "stack/core/reader_place.h"
#include "stack/core/stream_set.h"
#include "stack/modules/data_unit_primitive.h"
#include "stack/modules/tcp.h"
#include "stack/wire/checksum.h"
#include "stack/wire/ipv4.h"
#include "stack/wire/ipv6.h"
#include "stack/wire/protocol.h"

namespace sluice {

using namespace wire::tpi;  // the primitives and their numbers
using wire::DataUnit;
using wire::TcpHeader;
using Kind = DataUnit::Kind;

// ---- Down ----

/// Of ip: a segment that is not to be fragmented, or several that go down together. Empty where there is no memory, and
/// while the stream's port changes: ip would not take it then, and what is lost comes again.
Message Tcp::request_of(const tcp::Ends& ends, Message segment) {
  if (purpose_ != Purpose::none) {
    return {};
  }
  DataUnit unitdata{.kind = Kind::network_request,
                    .options = DataUnit::Options::sending,
                    .protocol = wire::protocol_tcp,
                    .dont_fragment = true,
                    .has_local = true,
                    .peer = ends.remote.address,
                    .local = ends.local.address};
  if (DataUnit* const together = segment.native<DataUnit>()) {
    unitdata.segment_size = together->segment_size;
    unitdata.checksum_offloaded = together->checksum_offloaded;
    *together = unitdata;
    return segment;
  }
  Message request = Message::of_native(set().pool(), unitdata);
  if (!request) {
    ++no_memory_;
    return {};
  }
  request.link(std::move(segment));
  return request;
}

/// ip answers before put_next() returns, through control().
std::optional<wire::network::RouteAck> Tcp::route(const wire::IpAddress& destination) {
  answered_route_.reset();
  Message request = primitive_message(set().pool(), wire::network::RouteReq{destination}, MessageType::ctl);
  if (!request) {
    ++no_memory_;
    return wire::network::RouteAck{.destination = destination, .error = ENOBUFS};
  }
  down(std::move(request));
  return std::exchange(answered_route_, std::nullopt);
}

/// What goes down together fits one packet, whatever its options. 0: those below take segments one by one.
std::size_t Tcp::together_bytes_of(const wire::network::RouteAck& route) const {
  constexpr std::size_t packet_max = wire::Ipv4Header::size + wire::Ipv4Header::payload_length_max;
  return segments() && route.error == 0 && route.segments ? packet_max - wire::Ipv6Header::size - TcpHeader::size_max
                                                          : 0;
}

/// RFC 9293 section 3.7.1: the MSS counts neither IP's header nor TCP's, and no options (RFC 6691).
std::uint16_t Tcp::segment_bytes_of(const wire::IpAddress& remote, std::uint32_t mtu) const {
  const std::size_t headers = TcpHeader::size_min + (remote.is_v4() ? wire::Ipv4Header::size : wire::Ipv6Header::size);
  const std::size_t room = std::max<std::size_t>(mtu, headers + tcp::Connection::segment_bytes_min) - headers;
  return static_cast<std::uint16_t>(std::min<std::size_t>({room, segment_limit_, UINT16_MAX}));
}

// ---- Up ----

void Tcp::rput(Batch&& batch) {
  const Entered entered(*this);
  while (Message message = batch.pop()) {
    if (is_data_unit(message, Kind::network_indication, T_UNITDATA_IND)) {
      receive(std::move(message));
    } else if (from_network(message)) {
      read_queue().put_next(std::move(message));
    }
  }
  attend_touched();
}

/// A message that is no segment; whether it passes on.
bool Tcp::from_network(Message& message) {
  if (is_data_unit(message, Kind::network_error, T_UDERROR_IND)) {
    report(message);
    return false;
  }
  if (message.type() == MessageType::ctl) {
    control(message);
    return false;
  }
  if (message.type() == MessageType::flush) {
    return !port_->releasing();
  }
  if (!is_protocol(message.type())) {
    return true;
  }
  unexpected_ += port_->acknowledged(message) ? 0U : 1U;
  return false;
}

/// RFC 9293 section 3.9.2.3: "A TCP implementation MUST silently discard an incoming SYN segment that is addressed to a
/// broadcast or multicast address (MUST-57)"; here every segment.
void Tcp::receive(Message message) {
  const auto read = native_of<DataUnit>(message, Kind::network_indication);
  if (!read) {
    ++(read.error().malformed ? malformed_ : no_memory_);
    return;
  }
  const DataUnit unitdata = **read;
  if (unitdata.options != DataUnit::Options::received || unitdata.peer.family() != unitdata.local.family() ||
      unitdata.group) {
    ++malformed_;
    return;
  }
  const std::size_t size = message.data_size();
  Message place;
  if (!unitdata.checksum_offloaded) {
    const std::uint16_t pseudo_header =
        wire::pseudo_header_sum(unitdata.peer, unitdata.local, wire::protocol_tcp, static_cast<std::uint32_t>(size));
    if (size < TcpHeader::size_min) {
      ++short_header_;
      return;
    }
    place = place_for(message, unitdata);
    if (place && !message.fused()) {
      message.defer();  // short as it is: it is to be moved
    }
    if (message.transform(Check{.initial = pseudo_header}, handle(), bad_checksum_) == TransformResult::failed) {
      bad_checksum_ += message.failed() ? 0U : 1U;
      return;
    }
  }
  if (auto segment = verified(std::move(message), unitdata, std::move(place))) {
    segments_received_ += segment->count;
    const tcp::Ends ends{.local = {unitdata.local, segment->header.destination_port},
                         .remote = {unitdata.peer, segment->header.source_port}};
    if (adopted_from_ != 0 && find(ends) != nullptr) {
      adopted();
    }
    arrived(ends, std::move(*segment));
  }
}

/// Nothing is acknowledged that is not verified: what comes is loaded here, and where its reader waits for it, the pass
/// ends at his `place`. Else it may stay where it is until he takes it: an owner who wants the memory back moves what
/// lies there (BufferPool::reclaim).
std::optional<tcp::Segment> Tcp::verified(Message message, const DataUnit& unitdata, Message place) {
  const std::size_t size = message.data_size();
  std::array<std::byte, TcpHeader::size_max> scratch;
  const bool lands = static_cast<bool>(place);
  if (lands) {
    const std::array places{Bytes(scratch).first(size - place.size()), place.bytes()};
    if (message.land(places) == TransformResult::failed) {
      return std::nullopt;
    }
  } else if (materialize(message, Side::read) == TransformResult::failed) {
    return std::nullopt;
  }
  // Read where it has been verified, though place_for() has looked at it before.
  const std::size_t front_size = lands ? size - place.size() : std::min(size, scratch.size());
  const std::byte* const front = lands ? scratch.data() : message.front(front_size, scratch.data());
  const auto header = front == nullptr ? std::unexpected(wire::TcpMalformed::short_header)
                                       : TcpHeader::parse({front, front_size}, size);
  if (!header) {
    ++short_header_;
    return std::nullopt;
  }
  Message data = std::move(place);
  if (!lands && size > header->header_size) {
    data = message.unlink();
    data.trim_front(header->header_size);
  }
  return tcp::Segment{
      .header = *header,
      .options = wire::TcpOptions::parse({front + TcpHeader::size_min, header->header_size - TcpHeader::size_min}),
      .data = std::move(data),
      .count = unitdata.segments_in(size - header->header_size)};
}

/// What shows the place where the reader waits for the data of just this segment, if it is what its header says, which
/// is not verified yet; else empty.
Message Tcp::place_for(const Message& message, const DataUnit& unitdata) const {
  ReaderPlace* const place = waiting_reader();
  if (place == nullptr || !mine_) {
    return {};
  }
  const std::size_t size = message.data_size();
  std::array<std::byte, TcpHeader::size_max> scratch;
  const std::size_t front_size = std::min(size, scratch.size());
  const std::byte* const front = message.front(front_size, scratch.data());
  const auto header = TcpHeader::parse({front, front_size}, size);
  if (!header || header->has(wire::tcp_syn | wire::tcp_rst) ||
      mine_->connection.ends() != tcp::Ends{.local = {unitdata.local, header->destination_port},
                                            .remote = {unitdata.peer, header->source_port}} ||
      mine_->connection.waiting_before(header->sequence) != place->waiting()) {
    return {};
  }
  return place->take_room_for(size - header->header_size);
}

void Tcp::arrived(const tcp::Ends& ends, tcp::Segment segment) {
  const Entered entered(*this);
  if (Held* const held = find(ends)) {
    // What came before a reset goes up before it, and what comes behind the end is of no connection.
    if (held->touched && (segment.header.has(wire::tcp_rst) || held->connection.state() == tcp::State::closed)) {
      attend_touched();
      return arrived(ends, std::move(segment));
    }
    touch(*held);
    held->connection.arrive(std::move(segment), set().now());
    return;
  }
  const auto handed = std::ranges::find(handed_, ends, &Handed::ends);
  if (handed != handed_.end()) {
    if (auto* const acceptor = dynamic_cast<Tcp*>(set().module_handles().find(handed->acceptor))) {
      acceptor->arrived(ends, std::move(segment));
      return acceptor->attend_touched();
    }
    handed_.erase(handed);
  }
  const std::uint8_t kind = segment.header.flags & (wire::tcp_syn | wire::tcp_ack | wire::tcp_rst | wire::tcp_fin);
  if (listens() && kind == wire::tcp_syn && ends.local.port == port_->local().port &&
      port_->takes(ends.local.address.family())) {
    return called(ends, segment);
  }
  if (!came_back(ends, segment)) {
    unclaimed(ends, segment);
  }
}

std::size_t Tcp::callers_open() const {
  return static_cast<std::size_t>(std::ranges::count(callers_, true, &Caller::opened));
}

/// The threat: SYNs in the names of others would fill what there is for callers. Where it is full of such as have not
/// come back, the others are kept nowhere until they do.
void Tcp::called(const tcp::Ends& ends, const tcp::Segment& syn) {
  if (callers_full()) {
    ++callers_dropped_;
    return;
  }
  const auto answered = route(ends.remote.address);
  if (!answered || answered->error != 0) {
    ++no_connection_;
    return;
  }
  if (callers_.size() - callers_open() >= std::max<std::size_t>(connect_indications(), half_open_min)) {
    return answer_with_cookie(ends, syn, segment_bytes_of(ends.remote.address, answered->mtu));
  }
  callers_.push_back({.held = make_connection(ends, *answered, secrets_of(ends)), .sequence = {}, .opened = false});
  Held& held = *callers_.back().held;
  bound_caller(held);
  held.connection.answer(syn, set().now());
  attend(held);
}

/// Until he is accepted: what many callers send whom nobody accepts is to stay small. His window's scale is that of the
/// buffer that he gets then (set_connection()).
void Tcp::bound_caller(Held& held) { held.connection.bound_receive_buffer(caller_buffer_bytes()); }

void Tcp::answer_with_cookie(const tcp::Ends& ends, const tcp::Segment& syn, std::uint16_t segment_bytes) {
  const unsigned own_scale = tcp::Connection::scale_for(buffers_.receive_buffer_bytes);
  wire::TcpOptions options = tcp::Cookies::answer(
      syn.options, own_scale, tcp::Connection::timestamp_at(set().now(), secrets_of(ends).timestamp_offset));
  options.segment_bytes_max = segment_bytes;
  const TcpHeader header{.sequence = cookies_.sequence(ends, syn, own_scale, set().now()),
                         .acknowledgment = syn.header.sequence + 1,
                         .flags = wire::tcp_syn | wire::tcp_ack,
                         .window = tcp::Connection::syn_window_of(caller_buffer_bytes())};
  Message answer = tcp::make_segment(set().pool(), ends, header, options, {});
  Message request = answer ? request_of(ends, std::move(answer)) : Message();
  if (!request) {
    ++no_connection_;
    return;
  }
  cookies_until_ = set().now() + tcp::Cookies::life_max;
  ++cookies_sent_;
  ++segments_sent_;
  down(std::move(request));
}

/// Whether the segment is of a caller who was answered with a cookie. One for whom there is no place now comes again,
/// as soon as he has something to say.
bool Tcp::came_back(const tcp::Ends& ends, tcp::Segment& segment) {
  const TcpHeader& header = segment.header;
  if (!listens() || set().now() >= cookies_until_ || ends.local.port != port_->local().port ||
      !header.has(wire::tcp_ack) || header.has(wire::tcp_syn) || header.has(wire::tcp_rst)) {
    return false;
  }
  const auto syn =
      cookies_.syn_of(ends, segment, tcp::Connection::scale_for(buffers_.receive_buffer_bytes), set().now());
  if (!syn) {
    return false;
  }
  const auto answered = route(ends.remote.address);
  if (callers_full() || !answered || answered->error != 0) {
    ++callers_dropped_;
    return true;
  }
  ++cookies_taken_;
  callers_.push_back({.held = make_connection(ends, *answered,
                                              {.first_sequence_number = header.acknowledgment - 1,
                                               .timestamp_offset = secrets_of(ends).timestamp_offset}),
                      .sequence = {},
                      .opened = false});
  Held& held = *callers_.back().held;
  bound_caller(held);
  held.connection.answered(*syn, set().now());
  touch(held);
  held.connection.arrive(std::move(segment), set().now());
  return true;
}

void Tcp::unclaimed(const tcp::Ends& ends, const tcp::Segment& segment) {
  const bool answers = !failed() && (!port_->held() || ends.local.port == port_->local().port);
  Message reset = answers ? tcp::make_reset(set().pool(), ends, segment) : Message();
  Message request = reset ? request_of(ends, std::move(reset)) : Message();
  if (!request) {
    ++no_connection_;
    return;
  }
  ++resets_sent_;
  down(std::move(request));
}

/// The threat: an ICMP error in the name of a router. What it quotes must be under way (RFC 5927 section 4.1).
void Tcp::report(Message& message) {
  std::array<std::byte, 8> quoted;
  const auto unitdata = native_of<DataUnit>(message, Kind::network_error);
  if (!unitdata || !(*unitdata)->has_local || !message.copy_data_to(0, quoted)) {
    ++(unitdata || unitdata.error().malformed ? malformed_ : no_memory_);
    return;
  }
  const DataUnit& error = **unitdata;
  const tcp::Ends ends{.local = {error.local, load_big_endian<std::uint16_t>(quoted.data())},
                       .remote = {error.peer, load_big_endian<std::uint16_t>(quoted.data() + 2)}};
  Held* const held = find(ends);
  if (held == nullptr || !held->connection.is_under_way(load_big_endian<std::uint32_t>(quoted.data() + 4))) {
    ++foreign_error_;
    return;
  }
  ++errors_;
  if (error.error == EMSGSIZE) {
    held->connection.set_path(segment_bytes_of(ends.remote.address, error.mtu), set().now());
  } else if (error.error != ENOBUFS) {  // for want of memory a segment is lost, as others are
    held->connection.network_failed(error.error);
  }
  attend(*held);
}

void Tcp::control(const Message& message) {
  if (const auto ack = wire::network::RouteAck::decode(message.bytes())) {
    if (ack->error == 0 && !ack->destination.is_unspecified()) {
      path_changed(*ack);
    }
    answered_route_ = *ack;
  } else if (!port_->filter_answered(message)) {
    ++unexpected_;
  }
}

void Tcp::path_changed(const wire::network::RouteAck& route) {
  std::vector<Held*> concerned;
  const auto take = [&](const std::unique_ptr<Held>& held) {
    if (held && held->connection.ends().remote.address == route.destination) {
      concerned.push_back(held.get());
    }
  };
  take(mine_);
  std::ranges::for_each(callers_, take, &Caller::held);
  std::ranges::for_each(lingering_, take);
  for (Held* const held : concerned) {
    if (has(*held)) {
      held->connection.set_together(together_bytes_of(route));
      held->connection.set_path(segment_bytes_of(route.destination, route.mtu), set().now());
      attend(*held);
    }
  }
}

}  // namespace sluice
