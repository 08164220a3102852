// SPDX-License-Identifier: Apache-2.0
#include "dlpi/packet_membership.h"

#include <linux/if_packet.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <vector>

namespace sluice::dlpi {
namespace {

using Addresses = std::vector<wire::MacAddress>;

bool change(int socket, int index, bool add, unsigned short type, const wire::MacAddress& address = {}) {
  packet_mreq request{};
  request.mr_ifindex = index;
  request.mr_type = type;
  request.mr_alen = wire::MacAddress::size;
  std::memcpy(request.mr_address, address.octets.data(), address.octets.size());
  const int option = add ? PACKET_ADD_MEMBERSHIP : PACKET_DROP_MEMBERSHIP;
  return ::setsockopt(socket, SOL_PACKET, option, &request, sizeof request) == 0;
}

Addresses only_in(const Addresses& these, const Addresses& those) {
  Addresses result;
  std::ranges::set_difference(these, those, std::back_inserter(result));
  return result;
}

}  // namespace

Status change_memberships(int socket, const Interface& interface, const Link::Interests& before,
                          const Link::Interests& wanted) {
  bool changed = true;
  for (const wire::MacAddress& group : only_in(wanted.groups, before.groups)) {
    changed = changed && change(socket, interface.index, true, PACKET_MR_MULTICAST, group);
  }
  for (const wire::MacAddress& group : only_in(before.groups, wanted.groups)) {
    changed = changed && change(socket, interface.index, false, PACKET_MR_MULTICAST, group);
  }
  if (wanted.all_groups != before.all_groups) {
    changed = changed && change(socket, interface.index, wanted.all_groups, PACKET_MR_ALLMULTI);
  }
  if (wanted.promiscuous != before.promiscuous) {
    changed = changed && change(socket, interface.index, wanted.promiscuous, PACKET_MR_PROMISC);
  }
  if (!changed) {
    return device_failure(errno, "changing what is received on", interface.name);
  }
  return {};
}

Status change_station(int socket, const Interface& interface, const wire::MacAddress& station, bool add) {
  if (!change(socket, interface.index, add, PACKET_MR_UNICAST, station)) {
    return device_failure(errno, "changing the address of", interface.name);
  }
  return {};
}

}  // namespace sluice::dlpi
