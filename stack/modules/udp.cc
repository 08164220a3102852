// SPDX-License-Identifier: Apache-2.0
#include "stack/modules/udp.h"

#include <array>
#include <cerrno>
#include <utility>

#include "stack/core/primitive.h"
#include "stack/core/stream_set.h"
#include "stack/modules/data_unit_primitive.h"
#include "stack/wire/ipv4.h"
#include "stack/wire/ipv6.h"

namespace sluice {
namespace {

using namespace wire::tpi;
using wire::DataUnit;
using wire::UdpHeader;
using Kind = DataUnit::Kind;

/// Room in front of the header of a datagram without data, for the headers below.
constexpr std::size_t headroom_below = 128;

inline bool is_network_indication(const Message& message) {
  return is_data_unit(message, Kind::network_indication, T_UNITDATA_IND);
}

inline bool is_transport_request(const Message& message) {
  if (const DataUnit* const unitdata = message.native<DataUnit>()) {
    return unitdata->kind == Kind::transport_request;
  }
  return message.type() == MessageType::proto && primitive_of(message.bytes()) == T_UNITDATA_REQ;
}

}  // namespace

Udp::Udp(bool checksum) : Module("udp"), checksum_(checksum) {}

PayloadWork Udp::payload_work(Side side) const {
  PayloadWork work;
  if (side == Side::read) {
    work.items = {{.kind = PayloadWork::Kind::check}};
  } else if (checksum_) {
    work.items = {{.kind = PayloadWork::Kind::sum}};
  }
  return work;
}

Status Udp::open() {
  const auto to_network = [this](Message message) { down(std::move(message)); };
  options_ = std::make_unique<udp::Options>(set().pool(), udp::Options::Switches{checksum_, tells_received_, v6_only_},
                                            read_queue(), owed_, to_network, [this] { routes_.clear(); });
  binding_ = std::make_unique<udp::Binding>(
      *this, udp::Binding::Hooks{.down = to_network,
                                 .up = [this](Message message) { up(std::move(message)); },
                                 .options = options_.get(),
                                 .v6_only = [this] { return v6_only_; },
                                 .unbinding = [this] { options_->leave_all(); }});
  binding_->open();
  return {};
}

/// ip may stay, without this user.
void Udp::close() { options_->leave_all(); }

void Udp::up(Message message) {
  if (message) {
    read_queue().put_next(std::move(message));
  } else {
    ++no_memory_;
  }
}

void Udp::down(Message message) {
  if (message) {
    write_queue().put_next(std::move(message));
  } else {
    ++no_memory_;
  }
}

// ---- Down ----

void Udp::wput(Batch&& batch) {
  const auto idle = [this] { return binding_->state() == udp::State::idle; };
  const auto step = [&](Message& message) {
    if (!idle() || !is_transport_request(message)) {
      return Batch::Step::stop;
    }
    DataUnit* const native = message.native<DataUnit>();
    DataUnit* const unitdata = native != nullptr ? native : request_of(message);
    if (unitdata != nullptr && unitdata->segment_size != 0) {
      return Batch::Step::stop;  // what stands for several does not go with others in one step
    }
    return unitdata != nullptr && send_datagram(message, *unitdata) ? Batch::Step::keep : Batch::Step::drop;
  };
  write_queue().pass_on(std::move(batch), step, [&](Message& message) {
    return idle() && is_transport_request(message) ? send(message) : from_user(message);
  });
}

/// A message that is no datagram to be sent. Whether it passes on.
bool Udp::from_user(Message& message) {
  forget_flows();
  if (message.type() != MessageType::data && !is_protocol(message.type())) {
    return true;
  }
  message = binding_->accept(std::move(message));
  return message && send(message);
}

/// TPI, T_UNITDATA_REQ: "If a non-fatal error occurs, it is the responsibility of the transport provider to report it
/// via the T_UDERROR_IND indication." The request becomes the indication; its data goes.
bool Udp::refuse(Message request, int error) {
  ++refused_;
  static_cast<void>(request.unlink());
  if (DataUnit* const unitdata = request.native<DataUnit>()) {
    unitdata->kind = Kind::transport_error;
    unitdata->error = error;
    up(std::move(request));
  } else if (const auto unreadable = UnitdataReq::decode(request.bytes())) {
    up(primitive_message(
        set().pool(),
        UderrorInd{.destination = unreadable->address, .options = unreadable->options, .error_type = error},
        MessageType::proto));
  }
  return false;
}

/// The request in front, or nothing: it was dropped or refused.
inline DataUnit* Udp::request_of(Message& message) {
  const auto unitdata = native_of<DataUnit>(message, Kind::transport_request);
  if (unitdata) [[likely]] {
    return *unitdata;
  }
  const auto malformed = unitdata.error().malformed;
  if (malformed == DataUnit::Malformed::primitive) {
    ++malformed_;
  } else {
    refuse(std::move(message), malformed ? EINVAL : ENOBUFS);
  }
  return nullptr;
}

/// The message becomes a request of ip. False when it was refused, or has been taken apart.
bool Udp::send(Message& message) {
  DataUnit* const unitdata = request_of(message);
  return unitdata != nullptr &&
         (unitdata->segment_size == 0 ? send_datagram(message, *unitdata) : send_segments(message, *unitdata));
}

/// Whether so many bytes, several datagrams, can go down behind one header, and are worth it: ip's short way is for one
/// datagram, so that a few that would fit one packet go faster alone.
bool Udp::goes_whole(const DataUnit& unitdata, std::size_t size) {
  const bool summed = checksum_ || unitdata.peer.is_v6();
  if (!segments() || !summed || size > tsdu_bytes_max || unitdata.segments_in(size) > wire::network::segments_max) {
    return false;
  }
  const Source route = this->route(unitdata.peer);
  const std::size_t headers =
      UdpHeader::size + (unitdata.peer.is_v4() ? wire::Ipv4Header::size : wire::Ipv6Header::size);
  return route.error == 0 && route.segments && headers + unitdata.segment_size <= route.mtu &&
         (headers + size > route.mtu || unitdata.segments_in(size) >= wire::network::joined_min);
}

/// Several datagrams: whole, or one by one. As send().
bool Udp::send_segments(Message& message, DataUnit& unitdata) {
  const std::size_t size = message.data_size();
  if (size <= unitdata.segment_size) {
    unitdata.segment_size = 0;
    return send_datagram(message, unitdata);
  }
  if (!flow_.serves(unitdata)) {
    if (const int error = find_flow(unitdata); error != 0) {
      return refuse(std::move(message), error);
    }
  }
  if (goes_whole(unitdata, size)) {
    const Bytes space = message.prepend_data(UdpHeader::size);
    if (space.empty()) {
      return refuse(std::move(message), ENOBUFS);
    }
    UdpHeader{.source_port = binding_->local().port,
              .destination_port = unitdata.peer_port,
              .payload_length = static_cast<std::uint16_t>(size),
              .checksum = pseudo_header_sum(size)}
        .emit(space);
    sent_ += unitdata.segments_in(size) - 1;
    unitdata.checksum_offloaded = true;
    to_network(unitdata);
    return true;
  }
  take_apart(std::move(message));
  return false;
}

/// Sends several datagrams one by one, in one batch.
void Udp::take_apart(Message message) {
  DataUnit single = *message.native<DataUnit>();
  const std::size_t size = std::exchange(single.segment_size, std::uint16_t{0});
  Message data = message.unlink();
  Batch datagrams;
  while (data) {
    const bool more = data.data_size() > size;
    Message rest = more ? data.split(size) : Message();
    Message request = Message::of_native(set().pool(), single);
    if (!request || (more && !rest)) {
      refuse(std::move(message), ENOBUFS);
      break;
    }
    request.link(std::move(data));
    if (send_datagram(request, *request.native<DataUnit>())) {
      datagrams.push(std::move(request));
    }
    data = std::move(rest);
  }
  if (!datagrams.empty()) {
    write_queue().put_next(std::move(datagrams));
  }
}

/// What ip is told of a datagram whose header is in place.
inline void Udp::to_network(DataUnit& unitdata) {
  unitdata.kind = Kind::network_request;
  unitdata.protocol = wire::protocol_udp;
  unitdata.options = DataUnit::Options::sending;
  unitdata.has_local = true;
  unitdata.local = flow_.source;
  ++sent_;
}

bool Udp::send_datagram(Message& message, DataUnit& unitdata) {
  if (!flow_.serves(unitdata)) {
    if (const int error = find_flow(unitdata); error != 0) {
      return refuse(std::move(message), error);
    }
  }
  const std::size_t size = message.data_size();
  if (size > (unitdata.peer.is_v4() ? tsdu_bytes_max : UdpHeader::payload_length_max)) {
    return refuse(std::move(message), EMSGSIZE);
  }
  if (!put_header(message, unitdata.peer_port, static_cast<std::uint16_t>(size))) {
    return refuse(std::move(message), ENOBUFS);
  }
  to_network(unitdata);
  return true;
}

/// Of flow_, for `size` bytes of data.
inline std::uint16_t Udp::pseudo_header_sum(std::size_t size) const {
  return add_sums(flow_.pseudo_header_sum, number_sum(static_cast<std::uint16_t>(size + UdpHeader::size)));
}

/// Puts the header in front of the data. False when there is no memory for it.
bool Udp::put_header(Message& message, std::uint16_t destination_port, std::uint16_t size) {
  if (!message.has_data()) {
    Message empty = Message::allocate(set().pool(), UdpHeader::size, headroom_below);
    if (!empty) {
      return false;
    }
    message.link(std::move(empty));
  }
  const Bytes space = message.prepend_data(UdpHeader::size);
  if (space.empty()) {
    return false;
  }
  const UdpHeader header{
      .source_port = binding_->local().port, .destination_port = destination_port, .payload_length = size};
  header.emit(space);
  // RFC 8200 section 8.1: "Unlike IPv4, the default behavior when UDP packets are originated by an IPv6 node is that
  // the UDP checksum is not optional."
  if (!checksum_ && flow_.destination.is_v4()) {
    return true;
  }
  const Sum sum{.initial = fold_sum(header.added() + flow_.pseudo_header_sum +
                                    number_sum(static_cast<std::uint16_t>(size + UdpHeader::size))),
                .field = space.data() + UdpHeader::checksum_offset,
                .zero_is_sent_as_ones = true,
                .from = UdpHeader::size};
  return message.transform(sum) != TransformResult::failed;
}

/// Makes flow_ that of datagrams like this one. Returns 0 or an errno.
int Udp::find_flow(const DataUnit& unitdata) {
  flow_ = {};
  const Source source = source_for(unitdata.peer, unitdata.has_local ? std::optional(unitdata.local) : std::nullopt);
  if (source.error != 0) {
    return source.error;
  }
  flow_ = {.known = true,
           .destination = unitdata.peer,
           .has_wanted = unitdata.has_local,
           .wanted = unitdata.local,
           .source = source.address,
           .pseudo_header_sum = wire::pseudo_header_sum(source.address, unitdata.peer, wire::protocol_udp, 0)};
  return 0;
}

/// The checksum covers the source address, so it must be known here: the one asked for, the one bound to, or what ip
/// would choose.
Udp::Source Udp::source_for(const wire::IpAddress& destination, const std::optional<wire::IpAddress>& wanted) {
  const wire::IpAddress& bound = binding_->local().address;
  const auto of_family = [&](const wire::IpAddress& source) -> Source {
    return {source, source.family() == destination.family() ? 0 : EAFNOSUPPORT};
  };
  if (wanted) {
    return of_family(*wanted);
  }
  return bound.is_unspecified() && binding_->takes(destination.family()) ? route(destination) : of_family(bound);
}

Udp::Source Udp::route(const wire::IpAddress& destination) {
  if (const auto known = routes_.find(destination); known != routes_.end()) {
    return known->second;
  }
  if (routes_.size() >= routes_max) {
    routes_.clear();
  }
  routes_.emplace(destination, Source{.address = {}, .error = ENETUNREACH});
  // ip answers before put_next() returns, through control().
  down(primitive_message(set().pool(), wire::network::RouteReq{destination}, MessageType::ctl));
  const auto answered = routes_.find(destination);
  const Source source = answered == routes_.end() ? Source{.address = {}, .error = ENETUNREACH} : answered->second;
  if (source.error != 0) {
    routes_.erase(destination);  // ask again next time
  }
  return source;
}

// ---- Up ----

/// Whether the message, which is no indication of a datagram, passes on.
bool Udp::from_network(Message& message) {
  if (message.native<DataUnit>() != nullptr) {
    return failed(message);
  }
  if (message.type() == MessageType::ctl) {
    forget_flows();
    control(message);
    return false;
  }
  if (message.type() == MessageType::flush && binding_->releasing()) {
    return false;
  }
  if (!is_protocol(message.type())) {
    return true;
  }
  if (primitive_of(message.bytes()) == T_UDERROR_IND) {
    return failed(message);
  }
  forget_flows();
  if (!binding_->acknowledged(message)) {
    ++unexpected_;
  }
  return false;
}

/// Whether the datagram is good, or will be checked. `trimmed`: its header has been taken off.
[[gnu::always_inline]] inline bool Udp::verified(Message& message, const UdpHeader& header, bool trimmed,
                                                 const DataUnit& unitdata) {
  const wire::IpAddress& source = unitdata.peer;
  const wire::IpAddress& local = unitdata.local;
  if (header.checksum == 0) {
    // RFC 768: "An all zero transmitted checksum value means that the transmitter generated no checksum". RFC 8200
    // section 8.1: "IPv6 receivers must discard UDP packets containing a zero checksum".
    if (source.is_v6()) {
      ++zero_checksum_;
    }
    return source.is_v4();
  }
  if (arrivals_.source != source || arrivals_.local != local || !arrivals_.known) {
    arrivals_ = {.known = true,
                 .source = source,
                 .local = local,
                 .pseudo_header_sum = wire::pseudo_header_sum(source, local, wire::protocol_udp, 0)};
  }
  const std::uint16_t length = number_sum(static_cast<std::uint16_t>(header.payload_length + UdpHeader::size));
  const std::uint64_t trimmed_off = trimmed ? header.added() : 0;
  const Check check{.initial = fold_sum(trimmed_off + arrivals_.pseudo_header_sum + length)};
  if (message.transform(check, handle(), bad_checksum_) == TransformResult::failed) {
    bad_checksum_ += message.failed() ? 0U : 1U;  // else it has been counted
    return false;
  }
  return true;
}

inline bool Udp::is_mine(const UdpHeader& header, wire::Family family) const {
  return binding_->state() == udp::State::idle && header.destination_port == binding_->local().port &&
         (binding_->filtered() || binding_->takes(family));
}

/// What is in front as bytes, or nothing: it cannot be read, or there is no memory.
DataUnit* Udp::indication_of(Message& message) {
  const auto unitdata = native_of<DataUnit>(message, Kind::network_indication);
  if (!unitdata) {
    ++(unitdata.error().malformed ? malformed_ : no_memory_);
    return nullptr;
  }
  return *unitdata;
}

/// REQUIRES: is_network_indication(message).
[[gnu::always_inline]] inline bool Udp::receive(Message& message) {
  if (!message.materialized() && materialize(message, Side::read) == TransformResult::failed) {
    return false;  // whatever is owed by modules below: the header is read here
  }
  DataUnit* const native = message.native<DataUnit>();
  DataUnit* const indicated = native != nullptr ? native : indication_of(message);
  if (indicated == nullptr) {
    return false;
  }
  DataUnit& unitdata = *indicated;
  if (unitdata.options != DataUnit::Options::received || unitdata.peer.family() != unitdata.local.family()) {
    ++malformed_;
    return false;
  }
  const bool known_good = unitdata.checksum_offloaded;  // to the link, header and sums
  std::array<std::byte, UdpHeader::size> scratch;
  const std::size_t size = message.data_size();
  const std::byte* const front = message.front(UdpHeader::size, scratch.data());
  if (front == nullptr) {
    ++short_header_;
    return false;
  }
  const auto header = UdpHeader::parse({front, UdpHeader::size}, size);
  if (!header) {
    ++bad_length_;
    return false;
  }
  if (const std::size_t padding = size - UdpHeader::size - header->payload_length; padding > 0) {
    message.trim_back(padding);
  }
  const bool mine = is_mine(*header, unitdata.local.family());
  if (mine) {  // else an error is to quote the header
    message.trim_data_front(UdpHeader::size);
  }
  if (!known_good && !verified(message, *header, /*trimmed=*/mine, unitdata)) {
    return false;
  }
  if (!mine) {
    unclaimed(std::move(message), unitdata);
    return false;
  }
  unitdata.kind = Kind::transport_indication;
  unitdata.peer_port = header->source_port;
  if (!tells_received_) [[unlikely]] {
    unitdata.options = DataUnit::Options::none;
  }
  if (unitdata.segment_size != 0) [[unlikely]] {
    received_ += unitdata.segments_in(message.data_size()) - 1;  // such a message is known to be good
  }
  message.when_verified(handle(), [this] { ++received_; });
  return true;
}

void Udp::rput(Batch&& batch) {
  const auto step = [this](Message& message) {
    return !is_network_indication(message) ? Batch::Step::stop
           : receive(message)              ? Batch::Step::keep
                                           : Batch::Step::drop;
  };
  read_queue().pass_on(std::move(batch), step, [this](Message& message) { return from_network(message); });
}

/// RFC 1122 section 4.1.3.1: "If a datagram arrives addressed to a UDP port for which there is no pending LISTEN call,
/// UDP SHOULD send an ICMP Port Unreachable message." Only a stream that sees what nobody else claims can know that.
void Udp::unclaimed(Message message, const DataUnit& received) {
  if (materialize(message, Side::read) == TransformResult::failed) {
    return;  // counted as bad_checksum
  }
  const std::size_t datagrams = received.segments_in(message.data_size() - UdpHeader::size);
  if (binding_->filtered() || received.group || binding_->state() == udp::State::failed) {
    not_my_port_ += datagrams;
    return;
  }
  Message request =
      primitive_message(set().pool(),
                        wire::network::UnreachableReq{
                            .source = received.peer, .local = received.local, .header_size = received.header_size},
                        MessageType::ctl);
  if (request) {
    request.link(message.unlink());
    port_unreachable_ += datagrams;
  }
  down(std::move(request));
}

/// RFC 1122 section 4.1.3.3: "UDP MUST pass to the application layer all ICMP error messages that it receives from the
/// IP layer." What they quote begins with our header: the source port tells whose datagram it was, and ip has seen to
/// it that one from there to this host and port was sent (ip_flows.h).
bool Udp::failed(Message& message) {
  std::array<std::byte, UdpHeader::size> header;
  const auto unitdata = native_of<DataUnit>(message, Kind::network_error);
  if (!unitdata || !message.copy_data_to(0, header)) {
    ++(unitdata || unitdata.error().malformed ? malformed_ : no_memory_);
    return false;
  }
  const auto source_port = load_big_endian<std::uint16_t>(header.data());
  const auto length = load_big_endian<std::uint16_t>(header.data() + 4);
  if (binding_->state() != udp::State::idle || source_port != binding_->local().port || length < UdpHeader::size) {
    ++foreign_error_;
    return false;
  }
  (*unitdata)->kind = Kind::transport_error;
  (*unitdata)->peer_port = load_big_endian<std::uint16_t>(header.data() + 2);
  static_cast<void>(message.unlink());  // what is quoted
  ++errors_;
  return true;
}

void Udp::control(const Message& message) {
  if (const auto ack = wire::network::RouteAck::decode(message.bytes())) {
    route_changed(*ack);
  } else if (!options_->answered(message.bytes()) && !binding_->filter_answered(message)) {
    ++unexpected_;
  }
}

void Udp::route_changed(const wire::network::RouteAck& ack) {
  if (ack.destination.is_unspecified()) {
    routes_.clear();
  } else if (const auto known = routes_.find(ack.destination); known != routes_.end()) {
    known->second = {
        .address = ack.source, .error = static_cast<int>(ack.error), .mtu = ack.mtu, .segments = ack.segments};
  }
}

Entry udp_entry() {
  return {
      .name = "udp",
      .summary = "the User Datagram Protocol over ip",
      .effect = "puts 8 bytes of header in front and sums the data, in one pass; checks the sum on the way up",
      .lower = accepts(Service::network),
      .upper = Service::transport,
      .parameters = {{.name = "checksum",
                      .type = ParameterSpec::Type::boolean,
                      .meaning = "Whether datagrams over IPv4 carry a checksum; true if absent."}},
      .make = [](StreamSet&, const Parameters& parameters) -> Result<std::unique_ptr<Module>> {
        return std::make_unique<Udp>(parameters.boolean("checksum", true));
      },
  };
}

}  // namespace sluice
