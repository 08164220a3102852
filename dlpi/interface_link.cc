// SPDX-License-Identifier: Apache-2.0
#include "dlpi/interface_link.h"

#include <utility>

#include "dlpi/packet_membership.h"

namespace sluice::dlpi {

InterfaceLink::InterfaceLink(StreamSet& set, const Interface& interface)
    : Link(set, interface.name, interface.address, interface.mtu), interface_(interface) {}

Status InterfaceLink::start(const wire::MacAddress& station) {
  auto monitor = InterfaceMonitor::open(set(), interface_, [this](const Interface& now) { changed(now); });
  if (!monitor) {
    return std::unexpected(monitor.error());
  }
  monitor_ = std::move(*monitor);
  return station.is_unspecified() ? Status() : set_address(station);
}

void InterfaceLink::changed(const Interface& interface) {
  set_mtu(interface.mtu);
  if (interface.address != interface_.address) {
    interface_.address = interface.address;
    const wire::MacAddress station = own_address_ ? address() : interface.address;
    static_cast<void>(filter_for(interests_told(), station));
    change_address(station);
  }
  set_up(interface.up);
}

Status InterfaceLink::set_address(const wire::MacAddress& wanted) {
  if (wanted == address()) {
    return {};
  }
  const bool will_be_own = wanted != interface_.address;
  if (will_be_own) {
    if (Status added = change_station(membership_socket(), interface_, wanted, true); !added) {
      return added;
    }
  }
  if (Status filtered = filter_for(interests_told(), wanted); !filtered) {
    if (will_be_own) {
      static_cast<void>(change_station(membership_socket(), interface_, wanted, false));
    }
    return filtered;
  }
  if (own_address_) {
    static_cast<void>(change_station(membership_socket(), interface_, address(), false));
  }
  own_address_ = will_be_own;
  change_address(wanted);
  return {};
}

Status InterfaceLink::set_interests(const Interests& wanted, const Interests& before) {
  if (Status told = filter_for(wanted, address()); !told) {
    return told;
  }
  Status told = change_memberships(membership_socket(), interface_, before, wanted);
  if (!told) {
    static_cast<void>(filter_for(before, address()));
  }
  return told;
}

}  // namespace sluice::dlpi
