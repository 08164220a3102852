// SPDX-License-Identifier: Apache-2.0
#include "stack/modules/udp_options.h"

#include <utility>

#include "stack/core/primitive.h"

namespace sluice::udp {
namespace {

using provider::Membership;
using provider::Setting;
using wire::network::GroupReq;
using wire::network::Settings;
using wire::network::SettingsReq;

std::uint32_t value_of(const Settings& settings, Setting setting) {
  switch (setting) {
    case Setting::ttl:
      return settings.ttl;
    case Setting::type_of_service:
      return settings.type_of_service;
    case Setting::broadcast:
      return settings.broadcast ? 1 : 0;
    case Setting::multicast_ttl:
      return settings.multicast_ttl;
    case Setting::multicast_loop:
      return settings.multicast_loop ? 1 : 0;
    case Setting::hops:
      return settings.hops;
    case Setting::multicast_hops:
      return settings.multicast_hops;
    case Setting::multicast_loop_v6:
      return settings.multicast_loop_v6 ? 1 : 0;
    case Setting::dont_fragment:
      return settings.dont_fragment ? 1 : 0;
    case Setting::dont_fragment_v6:
      return settings.dont_fragment_v6 ? 1 : 0;
    default:  // not ip's
      return 0;
  }
}

void change(Settings& settings, Setting setting, std::uint32_t value) {
  const auto octet = static_cast<std::uint8_t>(value);
  switch (setting) {
    case Setting::ttl:
      settings.ttl = octet;
      return;
    case Setting::type_of_service:
      settings.type_of_service = octet;
      return;
    case Setting::broadcast:
      settings.broadcast = value != 0;
      return;
    case Setting::multicast_ttl:
      settings.multicast_ttl = octet;
      return;
    case Setting::multicast_loop:
      settings.multicast_loop = value != 0;
      return;
    case Setting::hops:
      settings.hops = octet;
      return;
    case Setting::multicast_hops:
      settings.multicast_hops = octet;
      return;
    case Setting::multicast_loop_v6:
      settings.multicast_loop_v6 = value != 0;
      return;
    case Setting::dont_fragment:
      settings.dont_fragment = value != 0;
      return;
    case Setting::dont_fragment_v6:
      settings.dont_fragment_v6 = value != 0;
      return;
    default:
      return;
  }
}

/// IPv6: a stream has one interface, whose index nobody here knows. IPv4 names it by an address, which ip knows.
bool is_here(const Membership& membership) { return membership.interface_index == 0; }

}  // namespace

Queue& Options::head() const {
  Queue* last = &up_;
  while (last->next() != nullptr) {
    last = last->next();
  }
  return *last;
}

std::optional<std::uint32_t> Options::current(Setting setting) {
  switch (setting) {
    case Setting::checksum:
      return switches_.checksum ? 1 : 0;
    case Setting::received:
      return switches_.received ? 1 : 0;
    case Setting::v6_only:
      return switches_.v6_only ? 1 : 0;
    case Setting::receive_buffer:
      return static_cast<std::uint32_t>(head().marks().high_bytes);
    case Setting::send_buffer:
    case Setting::no_delay:
    case Setting::segment_bytes:
    case Setting::keep_alive:
    case Setting::keep_idle:
    case Setting::keep_interval:
    case Setting::keep_count:
    case Setting::segment_limit:
      return std::nullopt;
    default: {
      const auto settings = ask(SettingsReq{});
      return settings ? std::optional(value_of(settings->current, setting)) : std::nullopt;
    }
  }
}

std::optional<std::uint32_t> Options::initial(Setting setting) {
  switch (setting) {
    case Setting::checksum:
      return initial_checksum_ ? 1 : 0;
    case Setting::received:
      return 1;
    case Setting::v6_only:
      return 0;
    case Setting::receive_buffer:
      return static_cast<std::uint32_t>(initial_marks_.value_or(head().marks()).high_bytes);
    case Setting::send_buffer:
    case Setting::no_delay:
    case Setting::segment_bytes:
    case Setting::keep_alive:
    case Setting::keep_idle:
    case Setting::keep_interval:
    case Setting::keep_count:
    case Setting::segment_limit:
      return std::nullopt;
    default: {
      const auto settings = ask(SettingsReq{});
      return settings ? std::optional(value_of(settings->initial, setting)) : std::nullopt;
    }
  }
}

bool Options::set(Setting setting, std::uint32_t value) {
  switch (setting) {
    case Setting::checksum:
      switches_.checksum = value != 0;
      return true;
    case Setting::received:
      switches_.received = value != 0;
      return true;
    case Setting::v6_only:
      switches_.v6_only = value != 0;
      return true;
    case Setting::receive_buffer:
      initial_marks_ = initial_marks_.value_or(head().marks());
      head().set_marks({.high_bytes = value, .low_bytes = value / 4});
      return true;
    case Setting::send_buffer:
    case Setting::no_delay:
    case Setting::segment_bytes:
    case Setting::keep_alive:
    case Setting::keep_idle:
    case Setting::keep_interval:
    case Setting::keep_count:
    case Setting::segment_limit:
      return false;
    default:
      return set_of_ip(setting, value);
  }
}

bool Options::set_of_ip(Setting setting, std::uint32_t value) {
  const auto settings = ask(SettingsReq{});
  if (!settings) {
    return false;
  }
  Settings wanted = settings->current;
  change(wanted, setting, value);
  const auto changed = ask(SettingsReq{wanted});
  changed_();
  return changed && changed->current == wanted;
}

bool Options::join(const Membership& membership, bool check) {
  if (!is_here(membership) || !joined_.may_join(membership.group)) {
    return false;
  }
  const bool joined = check || ask(GroupReq{GroupReq::Action::join, membership.group, membership.interface});
  if (joined && !check) {
    joined_.add(membership);
  }
  return joined;
}

bool Options::leave(const Membership& membership, bool check) {
  if (!is_here(membership) || !joined_.has(membership.group)) {
    return false;
  }
  const bool left = check || ask(GroupReq{GroupReq::Action::leave, membership.group, membership.interface});
  if (left && !check) {
    joined_.remove(membership.group);
  }
  return left;
}

void Options::leave_all() {
  if (!joined_.all().empty()) {
    joined_.clear();
    static_cast<void>(owed_.send(GroupReq{}, MessageType::ctl));
  }
}

bool Options::answered(ConstBytes block) {
  if (const auto settings = wire::network::SettingsAck::decode(block)) {
    settings_ = *settings;
    return true;
  }
  const auto group = wire::network::GroupAck::decode(block);
  group_error_ = group ? std::optional(group->error) : group_error_;
  return group.has_value();
}

std::optional<wire::network::SettingsAck> Options::ask(const SettingsReq& request) {
  settings_.reset();
  down_(primitive_message(pool_, request, MessageType::ctl));
  return std::exchange(settings_, std::nullopt);
}

/// Not before what was asked earlier.
bool Options::ask(const GroupReq& request) {
  if (owed_.waiting()) {
    return false;
  }
  group_error_.reset();
  down_(primitive_message(pool_, request, MessageType::ctl));
  return std::exchange(group_error_, std::nullopt) == 0U;
}

}  // namespace sluice::udp
