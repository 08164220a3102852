// SPDX-License-Identifier: Apache-2.0
#include "stack/modules/udp_options.h"

#include <type_traits>
#include <utility>

#include "stack/core/primitive.h"

namespace sluice::udp {
namespace {

using provider::Membership;
using provider::Setting;
using wire::network::GroupReq;
using wire::network::Settings;
using wire::network::SettingsAck;
using wire::network::SettingsReq;

/// Calls `use` with the member of `settings` that `setting` is. False where ip has no such setting.
template <class Of, class Use>
bool with_member(Of& settings, Setting setting, const Use& use) {
  switch (setting) {
    case Setting::ttl:
      return use(settings.ttl), true;
    case Setting::type_of_service:
      return use(settings.type_of_service), true;
    case Setting::broadcast:
      return use(settings.broadcast), true;
    case Setting::multicast_ttl:
      return use(settings.multicast_ttl), true;
    case Setting::multicast_loop:
      return use(settings.multicast_loop), true;
    case Setting::hops:
      return use(settings.hops), true;
    case Setting::multicast_hops:
      return use(settings.multicast_hops), true;
    case Setting::multicast_loop_v6:
      return use(settings.multicast_loop_v6), true;
    case Setting::dont_fragment:
      return use(settings.dont_fragment), true;
    case Setting::dont_fragment_v6:
      return use(settings.dont_fragment_v6), true;
    default:
      return false;
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
    default:
      return value_of_ip(setting, &SettingsAck::current);
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
    default:
      return value_of_ip(setting, &SettingsAck::initial);
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
    default:
      return set_of_ip(setting, value);
  }
}

std::optional<std::uint32_t> Options::value_of_ip(Setting setting, Settings SettingsAck::* which) {
  std::optional<std::uint32_t> value;
  if (const auto settings = ask(SettingsReq{})) {
    with_member((*settings).*which, setting, [&value](auto member) { value = member; });
  }
  return value;
}

bool Options::set_of_ip(Setting setting, std::uint32_t value) {
  const auto settings = ask(SettingsReq{});
  Settings wanted = settings ? settings->current : Settings{};
  const auto change = [value](auto& member) { member = static_cast<std::decay_t<decltype(member)>>(value); };
  if (!settings || !with_member(wanted, setting, change)) {
    return false;
  }
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
