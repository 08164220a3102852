// SPDX-License-Identifier: Apache-2.0
#include "stack/modules/ip.h"

#include <algorithm>
#include <cerrno>
#include <string>
#include <utility>

#include "stack/core/primitive.h"
#include "stack/core/stream_set.h"
#include "stack/wire/answering.h"
#include "stack/wire/ethernet.h"
#include "stack/wire/loopback.h"

namespace sluice {

using wire::DataUnit;
using wire::Family;

namespace {

bool is_network_request(const Message& message) {
  if (const DataUnit* const unit = message.native<DataUnit>()) {
    return unit->kind == DataUnit::Kind::network_request;
  }
  return wire::tpi::primitive_of(message.bytes()) == wire::tpi::T_UNITDATA_REQ;
}

}  // namespace

Ip::Ip(StreamSet& set, ip::Config config)
    : Module("ip"),
      Connectionless(static_cast<Module&>(*this)),
      config_(std::move(config)),
      routes_(config_),
      owed_down_(
          *this, [this](Message message) { to_link(std::move(message)); }, [this] { finish(); }),
      link_memory_(set.scheduler(), set.pool(),
                   [this] {
                     advance_link();
                     finish();
                   }),
      neighbours_(config_.neighbours_max, set.prng(), *this),
      addresses_(config_.duplicate_address_detection, set.prng(), *this),
      autoconfiguration_(set.prng(), *this),
      mld_(2, set.prng(), *this),
      igmp_(3, set.prng(), *this),
      reassembly_(config_.reassembly_bytes_max),
      timer_(set.scheduler(), [this] { on_timer(); }),
      host_timer_(set.scheduler(), [this] { on_host_timer(); }),
      // RFC 7739 on why it should not start where others can guess it.
      identification_(static_cast<std::uint16_t>(set.prng()())),
      flow_labels_(set.prng()(), set.prng()()),
      hop_limit_v6_(config_.ttl),
      settings_(initial_settings()) {}

Status Ip::open() {
  advance_link();
  finish();
  if (link_.error() != 0) {
    return fail(link_.error(), "ip: the driver refuses what ip needs of a link (SAPs 0x0800, 0x0806, 0x86dd)");
  }
  if (link_.ready() && routes_.has(Family::ipv6) && link_mtu(Family::ipv6) < ip::mtu_min_v6) {
    return fail(EINVAL, "ip: IPv6 requires an MTU of 1280 bytes, the link has " + std::to_string(link_.mtu()));
  }
  return {};
}

void Ip::close() {
  leave_all();
  timer_.cancel();
  host_timer_.cancel();
  leave_groups();
  for (const wire::IpAddress& group : routes_.groups()) {
    ask_link(wire::dlpi::DisabmultiReq{wire::multicast_mac(group)}, MessageType::proto);
  }
  // DLPI 2.0.0, DL_UNBIND_REQ: "the DL_UNBIND_REQ will unbind all the subsequent DLSAPs for that stream along with the
  // DLSAP bound with the previous DL_BIND_REQ."
  ask_link(wire::dlpi::UnbindReq{}, MessageType::proto);
  finish();
}

void Ip::from_above(Message message) {
  switch (message.type()) {
    case MessageType::proto:
      if (bound_ && is_network_request(message)) {
        return send_unitdata(std::move(message));
      }
      [[fallthrough]];
    case MessageType::pcproto:
    case MessageType::data:
      forget_templates();
      if (Message datagram = accept(std::move(message))) {
        send_unitdata(std::move(datagram));
      }
      return;
    case MessageType::ctl:
      forget_templates();
      return control_from_above(std::move(message));
    case MessageType::flush:
      flush_queues(message);
      [[fallthrough]];
    default:
      down_.push(std::move(message));
  }
}

/// What is no datagram may change what datagrams look like: a bind, a filter, a route that is asked for, an answer or a
/// notification of the driver. Their templates are made anew then; that is cheap, and nothing can be overlooked.
void Ip::forget_templates() {
  route_ = {};
  arrivals_.clear();
}

void Ip::from_below(Message message) {
  if (is_protocol(message.type())) {
    if (message.native<DataUnit>() != nullptr ||
        wire::dlpi::primitive_of(message.bytes()) == wire::dlpi::DL_UNITDATA_IND) {
      return receive(std::move(message));
    }
    forget_templates();
    return primitive_from_below(std::move(message));
  }
  if (message.type() == MessageType::ctl && wire::dlpi::primitive_of(message.bytes()) == wire::dlpi::DL_LOOPBACK) {
    return receive_from_self(std::move(message));
  }
  if (const auto told = wire::dlpi::AnswerInd::decode(message.bytes()); told && message.type() == MessageType::ctl) {
    return answering_told(*told);
  }
  if (message.type() == MessageType::flush) {
    flush_queues(message);
  }
  up_.push(std::move(message));
}

void Ip::finish() {
  while (!down_.empty() || !up_.empty()) {
    if (!down_.empty()) {
      write_queue().put_next(Batch(std::move(down_)));
    }
    if (!up_.empty()) {
      read_queue().put_next(Batch(std::move(up_)));
    }
  }
  const TimePoint deadline = std::min(neighbours_.next_deadline(), reassembly_.next_deadline());
  if (deadline != never && (!timer_.armed() || timer_.at() > deadline)) {
    timer_.arm(deadline);
  }
}

void Ip::on_timer() {
  neighbours_.expire(set().now());
  reassembly_.expire(set().now(), [this](ip::Reassembly::Expired expired) { reassembly_expired(std::move(expired)); });
  finish();
}

Entry ip_entry() {
  return {.name = "ip",
          .summary = "IPv4 and IPv6, ARP, neighbour discovery, ICMP, fragmentation and reassembly",
          .effect = "prepends and checks headers; ICMP is summed; fragments share buffers",
          .kind = Entry::Kind::module,
          .lower = accepts(Service::link),
          .upper = Service::network,
          .parameters = ip::parameter_specs(),
          .make = [](StreamSet& set, const Parameters& parameters) -> Result<std::unique_ptr<Module>> {
            Result<ip::Config> config = ip::Config::from(parameters);
            if (!config) {
              return std::unexpected(config.error());
            }
            return std::make_unique<Ip>(set, *std::move(config));
          }};
}

}  // namespace sluice
