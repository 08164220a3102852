// SPDX-License-Identifier: Apache-2.0
// The ip module's link: the dialogue with the driver, and what it tells.

#include <algorithm>
#include <array>
#include <utility>

#include "stack/core/primitive.h"
#include "stack/core/stream_set.h"
#include "stack/modules/ip.h"
#include "stack/wire/ethernet.h"

namespace sluice {

namespace dlpi = wire::dlpi;

namespace {

constexpr std::uint32_t packet_max_v4 = 65535;
constexpr std::uint32_t packet_max_v6 = 65535 + wire::Ipv6Header::size;

}  // namespace

void Ip::advance_link() {
  if (Message request = link_.next_request(set().pool())) {
    down_.push(std::move(request));
  } else if (link_.asks() && !link_memory_.await(ip::LinkSetup::request_bytes_max)) {
    ++count_.no_memory_out;
  }
}

/// An empty message is one that no memory was left for.
void Ip::to_link(Message message) {
  if (message) {
    down_.push(std::move(message));
  } else {
    ++count_.no_memory_out;
  }
}

std::uint32_t Ip::link_mtu(wire::Family family) const {
  return family == wire::Family::ipv4 ? std::min({config_.mtu_max, link_.mtu(), packet_max_v4})
                                      : std::min({config_.mtu_max, link_.mtu(), advertised_mtu_, packet_max_v6});
}

void Ip::primitive_from_below(Message message) {
  const ConstBytes primitive = message.bytes();
  if (link_answered(primitive)) {
    return advance_link();
  }
  if (const auto notification = dlpi::NotifyInd::decode(primitive)) {
    return link_notified(*notification);
  }
  const auto granted = dlpi::OkAck::decode(primitive);
  const auto refused = dlpi::ErrorAck::decode(primitive);
  if (filters_pending_ > 0 && ((granted && granted->value == dlpi::DL_FILTER_REQ) ||
                               (refused && refused->error_primitive == dlpi::DL_FILTER_REQ))) {
    return filter_answered(granted ? std::nullopt : std::optional(refused->error));
  }
  if (granted) {
    return;  // of a request whose outcome changes nothing: leaving a group, unbinding
  }
  ++(refused || dlpi::UderrorInd::decode(primitive) ? count_.link_errors : count_.bad_primitive);
}

bool Ip::link_answered(ConstBytes primitive) {
  using Answer = ip::LinkSetup::Answer;
  const bool address_was_known = link_.ready();
  const Answer answer = link_.answer(primitive);
  if (answer == Answer::refused || answer == Answer::fatal) {
    ++count_.link_errors;
  }
  if (answer == Answer::fatal && read_queue().next() != nullptr) {
    const std::array code{static_cast<std::byte>(link_.error())};
    tell(ConstBytes(code), MessageType::error);
  }
  if (answer == Answer::accepted && dlpi::InfoAck::decode(primitive)) {
    // Before ip binds, so that the driver's filter need not let everything pass meanwhile.
    for (const wire::IpAddress& address : routes_.addresses()) {
      tell_address(address, true);
    }
  }
  if (link_.ready() && !address_was_known) {
    address_known();
  }
  return answer != Answer::foreign;
}

/// With the MAC address come the link-local address and the groups.
void Ip::address_known() {
  const wire::Ipv6Address link_local = wire::link_local_address(*link_.mac());
  if (config_.autoconfigure) {
    autoconfiguration_.start(link_local, set().now());
  }
  const std::vector<wire::IpAddress> groups_before = routes_.groups();
  const std::vector<wire::IpAddress> addresses_before = routes_.addresses();
  if (config_.has(wire::Family::ipv6)) {
    routes_.set_link_local(link_local);
  }
  for (const wire::IpAddress& address : addresses_before) {
    if (!routes_.owns(address)) {
      tell_address(address, false);
    }
  }
  for (const wire::IpAddress& address : routes_.addresses()) {
    if (std::ranges::find(addresses_before, address) == addresses_before.end()) {
      tell_address(address, true);
    }
  }
  for (const wire::IpAddress& group : groups_before) {
    if (!routes_.is_member(group)) {
      leave_group(group);  // the solicited-node group of a link-local address that is no longer ours
    }
  }
  for (const wire::IpAddress& group : routes_.groups()) {
    link_.join(wire::multicast_mac(group));
  }
  tell_groups();
  start_addresses();
}

/// The driver is told of each address, and of each group that routers are told of, so that of several streams that have
/// it one answers (stack/wire/answering.h).
void Ip::tell_address(const wire::IpAddress& address, bool ours) {
  std::erase_if(answering_, [&](const dlpi::AnswerInd& told) { return !ours && told.address == address; });
  ask_link(dlpi::AddressReq{address, ours}, MessageType::ctl);
}

void Ip::answering_told(const dlpi::AnswerInd& told) {
  std::erase_if(answering_, [&](const dlpi::AnswerInd& known) { return known.address == told.address; });
  const bool ours = routes_.owns(told.address) || routes_.is_member(told.address);
  if (ours && !(told.answers && !told.shared)) {
    answering_.push_back(told);
  }
}

const dlpi::AnswerInd* Ip::told_of(const wire::IpAddress& local) const {
  if (answering_.empty()) {
    return nullptr;
  }
  wire::IpAddress address = local;
  if (!routes_.owns(local)) {
    const std::vector<wire::IpAddress> ours = routes_.addresses();
    const auto first = std::ranges::find(ours, local.family(), &wire::IpAddress::family);
    address = first == ours.end() ? local : *first;
  }
  const auto told = std::ranges::find(answering_, address, &dlpi::AnswerInd::address);
  return told == answering_.end() ? nullptr : &*told;
}

void Ip::link_notified(const dlpi::NotifyInd& notification) {
  switch (notification.notification) {
    case dlpi::DL_NOTE_LINK_DOWN:
      ++count_.link_downs;
      break;
    case dlpi::DL_NOTE_LINK_UP:
      neighbours_.doubt_all();
      if (config_.autoconfigure && link_.ready()) {
        autoconfiguration_.start(wire::link_local_address(*link_.mac()), set().now());
      }
      start_addresses();
      break;
    case dlpi::DL_NOTE_SDU_SIZE:
      // What is too small for IPv6 leaves IPv4 alone (has_ipv6()).
      if (notification.data >= ip::mtu_min_v4) {
        link_.set_mtu(notification.data);
        routes_changed({});
      }
      break;
    case dlpi::DL_NOTE_PHYS_ADDR:
      if (notification.address && link_.ready()) {
        link_.set_mac(notification.address->mac);
        address_known();
        routes_changed({});
        advance_link();
      }
      break;
    default:
      break;
  }
}

}  // namespace sluice
