// SPDX-License-Identifier: Apache-2.0
// The ip module's user: what he binds to, his requests in M_CTL, and T_UDERROR_IND.

#include <algorithm>
#include <cerrno>
#include <utility>

#include "stack/core/primitive.h"
#include "stack/core/stream_set.h"
#include "stack/modules/ip.h"

namespace sluice {

namespace dlpi = wire::dlpi;
namespace network = wire::network;
namespace tpi = wire::tpi;
using wire::DataUnit;
using wire::IpAddress;
using wire::NetworkAddress;

void Ip::up(Message message) {
  if (message) {
    up_.push(std::move(message));
  } else {
    ++count_.no_memory_out;
  }
}

/// T_BIND_REQ: TBADADDR, "the protocol address was in an incorrect format or the address contained illegal
/// information", for addresses of other hosts, too, as kernel_udp answers; TNOADDR, "the transport provider could not
/// allocate an address": a protocol is the user's to choose.
void Ip::bind(ConstBytes address) {
  const auto wanted = NetworkAddress::decode(address);
  if (!wanted ||
      !(wanted->address.is_unspecified() || routes_.owns(wanted->address) || routes_.is_self(wanted->address))) {
    return refused(address.empty() ? tpi::TNOADDR : tpi::TBADADDR);
  }
  bound_ = *wanted;
  bound(address);
}

/// The driver has been asked before the user hears: he may bind again at once, with filters of his own.
void Ip::unbind() {
  release();
  finish();
  unbound();
}

void Ip::release() {
  bound_.reset();
  flows_.clear();
  if (filtered_) {
    remove_filters();
  }
}

bool Ip::is_bound_to(std::uint8_t protocol, const IpAddress& local) const {
  const bool to_group =
      bound_ && bound_->address.family() == local.family() && (local.is_multicast() || routes_.is_broadcast(local));
  return bound_ && bound_->protocol == protocol &&
         (bound_->address.is_unspecified() || bound_->address == local || to_group);
}

void Ip::control_from_above(Message message) {
  switch (network::primitive_of(message.bytes()).value_or(0)) {
    case network::route_req:
      if (const auto request = network::RouteReq::decode(message.bytes())) {
        return answer_route(*request, &message);
      }
      ++count_.bad_request;
      return;
    case network::settings_req:
      if (const auto request = network::SettingsReq::decode(message.bytes())) {
        return answer_settings(*request, message);
      }
      ++count_.bad_request;
      return;
    case network::group_req:
      if (const auto request = network::GroupReq::decode(message.bytes())) {
        const auto error = static_cast<std::uint32_t>(change_groups(*request));
        tell(network::GroupAck{request->group, error}, MessageType::ctl, &message);
        return;
      }
      ++count_.bad_request;
      return;
    case network::unreachable_req:
      return answer_unreachable(std::move(message));
    case dlpi::DL_FILTER_REQ:
      return complete_filter(std::move(message));
    default:
      down_.push(std::move(message));
  }
}

void Ip::answer_route(const network::RouteReq& request, Message* spent) {
  network::RouteAck ack{.destination = request.destination, .source = {}};
  ack.error = static_cast<std::uint32_t>(route_to(request.destination, std::nullopt));
  if (ack.error == 0) {
    ack.source = route_.source;
    ack.mtu = never_fragments(request.destination) ? route_.link_mtu : route_.mtu;
    ack.segments = link_.segments_bytes_max() > 0 && !route_.to_self && !request.destination.is_multicast();
  }
  tell(ack, MessageType::ctl, spent);
}

network::Settings Ip::initial_settings() const {
  return {.ttl = config_.ttl,
          .hops = hop_limit_v6_,
          .dont_fragment = !config_.fragment,
          .dont_fragment_v6 = !config_.fragment};
}

void Ip::answer_settings(const network::SettingsReq& request, Message& spent) {
  settings_ = request.wanted.value_or(settings_);
  tell(network::SettingsAck{settings_, initial_settings()}, MessageType::ctl, &spent);
}

/// Answers an errno.
int Ip::change_groups(const network::GroupReq& request) {
  using Action = network::GroupReq::Action;
  if (request.action == Action::leave_all) {
    leave_all();
    return 0;
  }
  const bool is_in = std::ranges::find(joined_, request.group) != joined_.end();
  const bool is_here = request.interface.is_unspecified() || routes_.owns(request.interface);
  if (!is_here || is_in != (request.action == Action::leave)) {
    return is_here && is_in ? EADDRINUSE : EADDRNOTAVAIL;
  }
  if (is_in) {
    std::erase(joined_, request.group);
    leave(request.group);
    return 0;
  }
  if (const Status joined = join(request.group); !joined) {
    return joined.error().code;
  }
  joined_.push_back(request.group);
  return 0;
}

/// Reports leave at once: after close() no timer will send them.
void Ip::leave_all() {
  if (joined_.empty()) {
    return;
  }
  for (const IpAddress& group : std::exchange(joined_, {})) {
    leave(group);
  }
  for (const wire::Family family : {wire::Family::ipv4, wire::Family::ipv6}) {
    groups_of(family).expire(set().now());
  }
  arm_host_timer();
  finish();
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
  tell(network::RouteAck{.destination = destination, .source = {}}, MessageType::ctl);
}

void Ip::report(const IpAddress& destination, std::uint8_t protocol, const network::Failure& failure, int error,
                Message data) {
  Message message = Message::of_native(set().pool(), DataUnit{.kind = DataUnit::Kind::network_error,
                                                              .options = DataUnit::Options::failure,
                                                              .protocol = protocol,
                                                              .has_local = failure.source.has_value(),
                                                              .peer = destination,
                                                              .local = failure.source.value_or(IpAddress()),
                                                              .error = error,
                                                              .mtu = failure.mtu});
  if (message && data) {
    message.link(std::move(data));
  }
  up(std::move(message));
}

}  // namespace sluice
