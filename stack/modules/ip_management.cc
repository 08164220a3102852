// SPDX-License-Identifier: Apache-2.0
// The ip module's user: TPI management and the requests in M_CTL.

#include <array>
#include <cerrno>
#include <utility>

#include "stack/core/stream_set.h"
#include "stack/modules/ip.h"

namespace sluice {

namespace dlpi = wire::dlpi;
namespace network = wire::network;
namespace tpi = wire::tpi;
using wire::Family;
using wire::IpAddress;
using wire::NetworkAddress;

namespace {

/// A NetworkAddress as the bytes TPI carries.
struct AddressBytes {
  explicit AddressBytes(const NetworkAddress& address) : size(address.encode(octets)) {}
  [[nodiscard]] ConstBytes bytes() const { return ConstBytes(octets).first(size); }

  std::array<std::byte, NetworkAddress::encoded_size_max> octets;
  std::size_t size;
};

/// T_BIND_REQ and O_T_BIND_REQ differ in number only.
Result<tpi::BindReq> decode_bind(ConstBytes block) {
  if (const auto request = tpi::BindReq::decode(block)) {
    return *request;
  }
  if (const auto request = tpi::OldBindReq::decode(block)) {
    return tpi::BindReq{request->address, request->connect_indications};
  }
  return fail(EPROTO);
}

}  // namespace

template <class Primitive>
void Ip::answer(const Primitive& primitive, MessageType type) {
  Message message = Message::allocate(set().pool(), primitive.encoded_size(), 0, type);
  if (!message) {
    ++count_.no_memory;
    return;
  }
  primitive.encode(message.append(primitive.encoded_size()));
  up_.push(std::move(message));
}

void Ip::refuse_primitive(std::int32_t primitive, std::int32_t tli_error, std::int32_t unix_error) {
  ++count_.bad_request;
  answer(tpi::ErrorAck{primitive, tli_error, unix_error});
}

tpi::InfoAck Ip::info() const {
  constexpr std::int32_t payload_max = 65535;
  return {.tsdu_size = payload_max,
          .addr_size = static_cast<std::int32_t>(NetworkAddress::encoded_size_max),
          .opt_size = static_cast<std::int32_t>(network::Received::size),
          .tidu_size = payload_max,
          .serv_type = tpi::T_CLTS,
          .current_state = bound_ ? tpi::TS_IDLE : tpi::TS_UNBND,
          .provider_flag = tpi::SENDZERO | tpi::XPG4_1};
}

void Ip::primitive_from_above(Message message) {
  const ConstBytes block = message.bytes();
  const std::int32_t primitive = tpi::primitive_of(block).value_or(-1);
  switch (primitive) {
    case tpi::T_INFO_REQ:
      return answer(info());
    case tpi::T_CAPABILITY_REQ: {
      const auto request = tpi::CapabilityReq::decode(block);
      const std::uint32_t wanted = request ? request->capabilities & tpi::TC1_INFO : 0;
      return answer(tpi::CapabilityAck{.capabilities = wanted, .info = info()});
    }
    case tpi::T_ADDR_REQ:
      if (bound_) {
        const AddressBytes local(*bound_);
        return answer(tpi::AddrAck{.local = local.bytes(), .remote = {}});
      }
      return answer(tpi::AddrAck{});
    case tpi::T_BIND_REQ:
    case tpi::O_T_BIND_REQ:
      return bind(message);
    case tpi::T_UNBIND_REQ:
      return unbind();
    case tpi::T_OPTMGMT_REQ:
    case tpi::T_SVR4_OPTMGMT_REQ:
      return manage_options(message);
    default:
      return refuse_primitive(primitive, tpi::TNOTSUPPORT);
  }
}

/// TPI 2.0.0, T_BIND_REQ: errors are TOUTSTATE ("the primitive would place the interface out of state"), TBADADDR
/// ("the protocol address was in an incorrect format"), TNOADDR ("the transport provider could not allocate an
/// address"), TSYSERR with an errno for what the specification has no word for.
void Ip::bind(const Message& request) {
  const std::int32_t primitive = *tpi::primitive_of(request.bytes());
  const Result<tpi::BindReq> bind_request = decode_bind(request.bytes());
  if (bound_) {
    return refuse_primitive(primitive, tpi::TOUTSTATE);
  }
  if (!bind_request) {
    return refuse_primitive(primitive, tpi::TSYSERR, bind_request.error().code);
  }
  if (bind_request->address.empty()) {
    return refuse_primitive(primitive, tpi::TNOADDR);
  }
  const auto address = NetworkAddress::decode(bind_request->address);
  if (!address) {
    return refuse_primitive(primitive, tpi::TBADADDR);
  }
  if (!address->address.is_unspecified() && !routes_.is_local(address->address)) {
    return refuse_primitive(primitive, tpi::TSYSERR, EADDRNOTAVAIL);
  }
  bound_ = *address;
  answer(tpi::BindAck{.address = bind_request->address});
}

void Ip::unbind() {
  if (!bound_) {
    return refuse_primitive(tpi::T_UNBIND_REQ, tpi::TOUTSTATE);
  }
  bound_.reset();
  if (filtered_) {
    remove_filters();
  }
  answer(tpi::OkAck{tpi::T_UNBIND_REQ});
}

/// There are no options to manage: asking for none succeeds.
void Ip::manage_options(const Message& request) {
  const std::int32_t primitive = *tpi::primitive_of(request.bytes());
  const auto xti = tpi::OptmgmtReq::decode(request.bytes());
  const auto svr4 = tpi::Svr4OptmgmtReq::decode(request.bytes());
  if (!xti && !svr4) {
    return refuse_primitive(primitive, tpi::TSYSERR, EPROTO);
  }
  if (!(xti ? xti->options : svr4->options).empty()) {
    return refuse_primitive(primitive, tpi::TBADOPT);
  }
  answer(tpi::OptmgmtAck{.options = {}, .flags = tpi::T_SUCCESS});
}

bool Ip::is_bound_to(std::uint8_t protocol, const IpAddress& local) const {
  return bound_ && bound_->protocol == protocol &&
         (bound_->address.is_unspecified() || bound_->address == local || local.is_multicast() ||
          routes_.is_broadcast(local));
}

void Ip::control_from_above(Message message) {
  switch (network::primitive_of(message.bytes()).value_or(0)) {
    case network::route_req:
      if (const auto request = network::RouteReq::decode(message.bytes())) {
        return answer_route(*request);
      }
      ++count_.bad_request;
      return;
    case network::unreachable_req:
      return answer_unreachable(std::move(message));
    case dlpi::DL_FILTER_REQ:
      return complete_filter(message);
    default:
      down_.push(std::move(message));
  }
}

void Ip::answer_route(const network::RouteReq& request) {
  network::RouteAck ack{.destination = request.destination, .source = {}};
  ack.error = static_cast<std::uint32_t>(route_to(request.destination, std::nullopt));
  if (ack.error == 0) {
    ack.source = route_.source;
    ack.mtu = route_.mtu;
  }
  Message message = Message::allocate(set().pool(), network::RouteAck::size, 0, MessageType::ctl);
  if (!message) {
    ++count_.no_memory;
    return;
  }
  ack.encode(message.append(network::RouteAck::size));
  up_.push(std::move(message));
}

/// Tells the user; an unspecified destination stands for all of them.
void Ip::routes_changed(const IpAddress& destination) {
  route_ = {};
  if (!bound_) {
    return;
  }
  if (!destination.is_unspecified()) {
    return answer_route({destination});
  }
  if (Message message = Message::allocate(set().pool(), network::RouteAck::size, 0, MessageType::ctl)) {
    network::RouteAck{.destination = destination, .source = {}}.encode(message.append(network::RouteAck::size));
    up_.push(std::move(message));
  }
}

/// A filter is per SAP: one that is for any address needs one request for each family we have.
void Ip::complete_filter(const Message& request) {
  const auto wanted = dlpi::FilterReq::decode(request.bytes());
  if (!wanted || !bound_) {
    ++count_.bad_request;
    return answer_filter(wanted ? dlpi::DL_OUTSTATE : dlpi::DL_BADPRIM);
  }
  dlpi::FilterReq filter = *wanted;
  filter.protocol = bound_->protocol;
  if (!bound_->address.is_unspecified()) {
    filter.local = bound_->address;
  }
  filter_error_.reset();
  filters_pending_ = 0;
  filtered_ = filter.local_port.has_value();
  for (const Family family : {Family::ipv4, Family::ipv6}) {
    if (routes_.has(family) && (!filter.local || filter.local->family() == family)) {
      filter.sap = family == Family::ipv4 ? wire::ethertype_ipv4 : wire::ethertype_ipv6;
      filters_pending_ += ask_filter(filter) ? 1 : 0;
    }
  }
}

bool Ip::ask_filter(const dlpi::FilterReq& filter) {
  Message message = ip::dlpi_message(set().pool(), filter, MessageType::ctl);
  if (!message) {
    ++count_.no_memory;
    return false;
  }
  down_.push(std::move(message));
  return true;
}

/// Asks for what no other stream claims, again. A filter without any condition removes those of its SAP.
void Ip::remove_filters() {
  filtered_ = false;
  for (const std::uint16_t sap : {wire::ethertype_ipv4, wire::ethertype_ipv6}) {
    ask_filter({.sap = sap, .local = {}, .protocol = {}, .local_port = {}});
  }
}

/// Passes the outcome up, once all have answered. Half a filter is none.
void Ip::filter_answered(const std::optional<std::uint32_t>& error) {
  filter_error_ = filter_error_ ? filter_error_ : error;
  if (--filters_pending_ > 0) {
    return;
  }
  if (filter_error_) {
    remove_filters();
  }
  answer_filter(filter_error_);
}

void Ip::answer_filter(const std::optional<std::uint32_t>& error) {
  BufferPool& pool = set().pool();
  Message message = error ? ip::dlpi_message(pool, dlpi::ErrorAck{dlpi::DL_FILTER_REQ, *error, 0}, MessageType::ctl)
                          : ip::dlpi_message(pool, dlpi::OkAck{dlpi::DL_FILTER_REQ}, MessageType::ctl);
  if (!message) {
    ++count_.no_memory;
    return;
  }
  up_.push(std::move(message));
}

void Ip::report(const IpAddress& destination, std::uint8_t protocol, const network::Failure& failure, int error,
                Message data) {
  const AddressBytes address(NetworkAddress{destination, protocol});
  std::array<std::byte, network::Failure::size> options;
  failure.encode(options);
  const tpi::UderrorInd indication{.destination = address.bytes(), .options = options, .error_type = error};
  Message message = Message::allocate(set().pool(), indication.encoded_size(), 0, MessageType::proto);
  if (!message) {
    ++count_.no_memory;
    return;
  }
  indication.encode(message.append(indication.encoded_size()));
  if (data) {
    message.link(std::move(data));
  }
  up_.push(std::move(message));
}

}  // namespace sluice
