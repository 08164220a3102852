// SPDX-License-Identifier: Apache-2.0
#include "stack/modules/udp.h"

#include <array>
#include <cerrno>
#include <utility>

#include "stack/core/primitive.h"
#include "stack/core/stream_set.h"

namespace sluice {
namespace {

using namespace wire::tpi;
using wire::UdpHeader;
using wire::network::Received;
using wire::network::Sending;

/// Room in front of the header of a datagram without data, for the headers below.
constexpr std::size_t headroom_below = 128;

/// What ip says of a datagram that arrived, checked.
struct Arrival {
  wire::NetworkAddress source;
  Received received;
};

std::optional<Arrival> arrival_of(const Message& message) {
  const auto indication = UnitdataInd::decode(message.bytes());
  if (!indication) {
    return std::nullopt;
  }
  const auto source = wire::NetworkAddress::decode(indication->address);
  const auto received = Received::decode(indication->options);
  if (!source || !received || source->address.family() != received->local.family()) {
    return std::nullopt;
  }
  return Arrival{*source, *received};
}

/// What ip says of a datagram that failed, checked, and the start of its header.
struct Failed {
  wire::TransportAddress destination;
  wire::network::Failure failure;
  std::int32_t error;
  std::uint16_t source_port;
};

std::optional<Failed> failure_of(const Message& message) {
  std::array<std::byte, UdpHeader::size> header{};
  const auto error = UderrorInd::decode(message.bytes());
  if (!error || !message.copy_data_to(0, header)) {
    return std::nullopt;
  }
  const auto destination = wire::NetworkAddress::decode(error->destination);
  const auto failure = wire::network::Failure::decode(error->options);
  if (!destination || !failure) {
    return std::nullopt;
  }
  const auto destination_port = load_big_endian<std::uint16_t>(header.data() + 2);
  return Failed{.destination = {destination->address, destination_port},
                .failure = *failure,
                .error = error->error_type,
                .source_port = load_big_endian<std::uint16_t>(header.data())};
}

bool is_unitdata_req(const Message& message) {
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
  binding_ = std::make_unique<udp::Binding>(
      *this, udp::Binding::Hooks{.down = [this](Message message) { down(std::move(message)); },
                                 .up = [this](Message message) { up(std::move(message)); }});
  binding_->open();
  return {};
}

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

void Udp::wput(Batch batch) {
  Batch out;
  while (Message message = batch.pop()) {
    const bool is_datagram = binding_->state() == udp::State::idle && is_unitdata_req(message);
    if (!is_datagram && !out.empty()) {
      write_queue().put_next(std::move(out));  // what came before a control message goes before it
    }
    if (Message passed = is_datagram ? send(std::move(message)) : from_user(std::move(message))) {
      out.push(std::move(passed));
    }
  }
  if (!out.empty()) {
    write_queue().put_next(std::move(out));
  }
}

/// A message that is no datagram to be sent; returns what passes on.
Message Udp::from_user(Message message) {
  if (message.type() != MessageType::data && !is_protocol(message.type())) {
    return message;
  }
  Message datagram = binding_->accept(std::move(message));
  return datagram ? send(std::move(datagram)) : Message();
}

/// TPI, T_UNITDATA_REQ: "If a non-fatal error occurs, it is the responsibility of the transport provider to report it
/// via the T_UDERROR_IND indication."
Message Udp::refuse(const UnitdataReq& request, int error) {
  ++refused_;
  up(primitive_message(set().pool(),
                       UderrorInd{.destination = request.address, .options = request.options, .error_type = error},
                       MessageType::proto));
  return {};
}

Message Udp::send(Message message) {
  const auto request = UnitdataReq::decode(message.bytes());
  if (!request) {
    ++malformed_;
    return {};
  }
  const auto destination = wire::TransportAddress::decode(request->address);
  auto sending = request->options.empty() ? Sending{} : Sending::decode(request->options);
  if (!destination || !sending) {
    return refuse(*request, EINVAL);
  }
  const Source source = source_for(destination->address, *sending);
  if (source.error != 0) {
    return refuse(*request, source.error);
  }
  sending->source = source.address;
  return send_datagram(std::move(message), *destination, *sending, *request);
}

Message Udp::send_datagram(Message message, const wire::TransportAddress& destination, const Sending& sending,
                           const UnitdataReq& request) {
  const std::size_t size = message.data_size();
  if (size > (destination.address.is_v4() ? tsdu_bytes_max : UdpHeader::payload_length_max)) {
    return refuse(request, EMSGSIZE);
  }
  const UdpHeader header{.source_port = binding_->local().port,
                         .destination_port = destination.port,
                         .payload_length = static_cast<std::uint16_t>(size)};
  if (!put_header(message, header, *sending.source, destination.address)) {
    return refuse(request, ENOBUFS);
  }
  const Encoded address(wire::NetworkAddress{destination.address, wire::protocol_udp});
  const Encoded options(sending);
  if (!replace_primitive(message, UnitdataReq{.address = address.bytes(), .options = options.bytes()})) {
    return refuse(request, ENOBUFS);
  }
  ++sent_;
  return message;
}

/// Puts the header in front of the data. False when there is no memory for it; the primitive is still as it was.
bool Udp::put_header(Message& message, const UdpHeader& header, const wire::IpAddress& source,
                     const wire::IpAddress& destination) {
  Message datagram = message.unlink();
  if (!datagram) {
    datagram = Message::allocate(set().pool(), UdpHeader::size, headroom_below);
  }
  const Bytes space = datagram ? datagram.prepend(UdpHeader::size) : Bytes{};
  if (space.empty()) {
    return false;
  }
  header.emit(space);
  // RFC 8200 section 8.1: "Unlike IPv4, the default behavior when UDP packets are originated by an IPv6 node is that
  // the UDP checksum is not optional."
  if (checksum_ || destination.is_v6()) {
    const auto length = static_cast<std::uint32_t>(header.payload_length + UdpHeader::size);
    const Sum sum{.initial = wire::pseudo_header_sum(source, destination, wire::protocol_udp, length),
                  .field = space.data() + UdpHeader::checksum_offset,
                  .zero_is_sent_as_ones = true};
    if (datagram.transform(sum) == Verdict::failed) {
      return false;
    }
  }
  message.link(std::move(datagram));
  return true;
}

/// The checksum covers the source address, so it must be known here: the one asked for, the one bound to, or what ip
/// would choose.
Udp::Source Udp::source_for(const wire::IpAddress& destination, const Sending& sending) {
  const wire::IpAddress& bound = binding_->local().address;
  const auto of_family = [&](const wire::IpAddress& source) -> Source {
    return {source, source.family() == destination.family() ? 0 : EAFNOSUPPORT};
  };
  if (sending.source) {
    return of_family(*sending.source);
  }
  return bound.is_unspecified() ? route(destination) : of_family(bound);
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

void Udp::rput(Batch batch) {
  Batch out;
  while (Message message = batch.pop()) {
    if (!out.empty() && message.type() != MessageType::proto) {
      read_queue().put_next(std::move(out));
    }
    if (Message passed = from_network(std::move(message))) {
      out.push(std::move(passed));
    }
  }
  if (!out.empty()) {
    read_queue().put_next(std::move(out));
  }
}

Message Udp::from_network(Message message) {
  if (message.type() == MessageType::ctl) {
    control(message);
    return {};
  }
  if (message.type() == MessageType::flush && binding_->releasing()) {
    return {};
  }
  if (!is_protocol(message.type())) {
    return message;
  }
  const auto primitive = primitive_of(message.bytes());
  if (primitive == T_UNITDATA_IND) {
    return receive(std::move(message));
  }
  if (primitive == T_UDERROR_IND) {
    return failed(std::move(message));
  }
  if (!binding_->acknowledged(message)) {
    ++unexpected_;
  }
  return {};
}

Message Udp::receive(Message message) {
  if (settle(message, Side::read) == Verdict::failed) {
    return {};  // whatever is owed by modules below: the header is read here
  }
  const std::optional<Arrival> arrival = arrival_of(message);
  if (!arrival) {
    ++malformed_;
    return {};
  }
  std::array<std::byte, UdpHeader::size> bytes{};
  const std::size_t size = message.data_size();
  if (!message.copy_data_to(0, bytes)) {
    ++short_header_;
    return {};
  }
  const auto header = UdpHeader::parse(bytes, size);
  if (!header) {
    ++bad_length_;
    return {};
  }
  message.trim_back(size - UdpHeader::size - header->payload_length);  // padding
  const wire::IpAddress& source = arrival->source.address;
  if (!verified(message, *header, source, arrival->received.local)) {
    return {};
  }
  if (!is_mine(*header)) {
    unclaimed(std::move(message), source, arrival->received);
    return {};
  }
  return deliver(std::move(message), {source, header->source_port}, arrival->received);
}

bool Udp::verified(Message& message, const UdpHeader& header, const wire::IpAddress& source,
                   const wire::IpAddress& local) {
  if (header.checksum == 0) {
    // RFC 768: "An all zero transmitted checksum value means that the transmitter generated no checksum". RFC 8200
    // section 8.1: "IPv6 receivers must discard UDP packets containing a zero checksum".
    if (source.is_v6()) {
      ++zero_checksum_;
    }
    return source.is_v4();
  }
  const auto length = static_cast<std::uint32_t>(header.payload_length + UdpHeader::size);
  const Check check{.initial = wire::pseudo_header_sum(source, local, wire::protocol_udp, length)};
  if (message.transform(check, owner(), bad_checksum_) == Verdict::failed) {
    bad_checksum_ += message.failed() ? 0U : 1U;  // else it has been counted
    return false;
  }
  return true;
}

bool Udp::is_mine(const UdpHeader& header) const {
  return binding_->state() == udp::State::idle && header.destination_port == binding_->local().port;
}

Message Udp::deliver(Message message, const wire::TransportAddress& source, const Received& received) {
  const Encoded address(source);
  const Encoded options(received);
  if (!replace_primitive(message, UnitdataInd{.address = address.bytes(), .options = options.bytes()})) {
    no_memory_ += settle(message, Side::read) == Verdict::done ? 1U : 0U;
    return {};
  }
  Message datagram = message.unlink();
  datagram.trim_front(UdpHeader::size);
  message.link(std::move(datagram));
  message.when_verified(owner(), [this] { ++received_; });
  return message;
}

/// RFC 1122 section 4.1.3.1: "If a datagram arrives addressed to a UDP port for which there is no pending LISTEN call,
/// UDP SHOULD send an ICMP Port Unreachable message." Only a stream that sees what nobody else claims can know that.
void Udp::unclaimed(Message message, const wire::IpAddress& source, const Received& received) {
  if (settle(message, Side::read) == Verdict::failed) {
    return;  // counted as bad_checksum
  }
  if (binding_->filtered() || received.group || binding_->state() == udp::State::failed) {
    ++not_my_port_;
    return;
  }
  Message request = primitive_message(
      set().pool(),
      wire::network::UnreachableReq{.source = source, .local = received.local, .header_size = received.header_size},
      MessageType::ctl);
  if (request) {
    request.link(message.unlink());
    ++port_unreachable_;
  }
  down(std::move(request));
}

/// RFC 1122 section 4.1.3.3: "UDP MUST pass to the application layer all ICMP error messages that it receives from the
/// IP layer." What they quote begins with our header: the source port tells whose datagram it was.
Message Udp::failed(Message message) {
  const std::optional<Failed> error = failure_of(message);
  if (!error) {
    ++malformed_;
    return {};
  }
  if (binding_->state() != udp::State::idle || error->source_port != binding_->local().port) {
    ++foreign_error_;
    return {};
  }
  const Encoded address(error->destination);
  const Encoded options(error->failure);
  Message quote = message.unlink();
  if (!replace_primitive(
          message,
          UderrorInd{.destination = address.bytes(), .options = options.bytes(), .error_type = error->error})) {
    ++no_memory_;
    return {};
  }
  return message;
}

void Udp::control(const Message& message) {
  if (const auto ack = wire::network::RouteAck::decode(message.bytes())) {
    route_changed(*ack);
  } else if (!binding_->filter_answered(message)) {
    ++unexpected_;
  }
}

void Udp::route_changed(const wire::network::RouteAck& ack) {
  if (ack.destination.is_unspecified()) {
    routes_.clear();
  } else if (const auto known = routes_.find(ack.destination); known != routes_.end()) {
    known->second = {.address = ack.source, .error = static_cast<int>(ack.error)};
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
