// SPDX-License-Identifier: Apache-2.0
#include "dlpi/interface.h"

#include <fmt/format.h>
#include <linux/ethtool.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>

namespace sluice::dlpi {
namespace {

ifreq request_for(const std::string& name) {
  ifreq request{};
  name.copy(request.ifr_name, IFNAMSIZ - 1);
  return request;
}

/// Whether the device has a carrier: what it says itself, where it has an opinion (ETHTOOL_GLINK, "Get link status"),
/// else what the kernel has made of it.
bool has_carrier(const Descriptor& socket, const std::string& name, int flags) {
  ethtool_value link{.cmd = ETHTOOL_GLINK, .data = 0};
  ifreq request = request_for(name);
  request.ifr_data = reinterpret_cast<char*>(&link);
  const bool told = ::ioctl(socket.get(), SIOCETHTOOL, &request) == 0;
  return told ? link.data != 0 : (flags & IFF_RUNNING) != 0;
}

std::unexpected<Error> no_such_device(const std::string& name) {
  return fail(ENODEV, fmt::format("there is no network interface '{}' here; there are: {}", name, interface_names()));
}

std::unexpected<Error> not_found(int code, const std::string& name) {
  return code == ENODEV ? no_such_device(name) : device_failure(code, "looking up", name);
}

}  // namespace

std::string interface_names() {
  std::string names;
  struct if_nameindex* const all = ::if_nameindex();
  for (const struct if_nameindex* at = all; at != nullptr && at->if_index != 0; ++at) {
    names += fmt::format("{}{}", names.empty() ? "" : ", ", at->if_name);
  }
  if_freenameindex(all);
  return names;
}

Result<std::string> interface_name(std::uint32_t index) {
  std::array<char, IF_NAMESIZE> name{};
  if (if_indextoname(index, name.data()) == nullptr) {
    return fail(ENXIO, fmt::format("there is no network interface with index {}", index));
  }
  return std::string(name.data());
}

/// rtnetlink(7), RTM_GETLINK: the answer is one message, whose attributes have IFLA_STATS64.
std::optional<std::uint64_t> transmit_drops(int index) {
  struct Request {
    nlmsghdr header;
    ifinfomsg info;
  } request{};
  request.header.nlmsg_len = sizeof request;
  request.header.nlmsg_type = RTM_GETLINK;
  request.header.nlmsg_flags = NLM_F_REQUEST;
  request.info.ifi_index = index;
  const Descriptor socket(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE));
  alignas(nlmsghdr) std::array<std::byte, 8192> answer;
  if (!socket || ::send(socket.get(), &request, sizeof request, 0) != static_cast<ssize_t>(sizeof request)) {
    return std::nullopt;
  }
  const ssize_t size = ::recv(socket.get(), answer.data(), answer.size(), 0);
  if (size < static_cast<ssize_t>(sizeof request)) {
    return std::nullopt;
  }
  nlmsghdr header;
  std::memcpy(&header, answer.data(), sizeof header);
  if (header.nlmsg_type != RTM_NEWLINK) {
    return std::nullopt;
  }
  ConstBytes attributes =
      ConstBytes(answer).first(std::min<std::size_t>(static_cast<std::size_t>(size), header.nlmsg_len));
  attributes = attributes.subspan(std::min(attributes.size(), sizeof request));
  while (attributes.size() >= sizeof(rtattr)) {
    rtattr attribute;
    std::memcpy(&attribute, attributes.data(), sizeof attribute);
    const std::size_t length = std::max<std::size_t>(attribute.rta_len, sizeof attribute);
    constexpr std::size_t end = offsetof(rtnl_link_stats64, tx_dropped) + sizeof(rtnl_link_stats64::tx_dropped);
    if (attribute.rta_type == IFLA_STATS64 && length >= sizeof attribute + end && attributes.size() >= length) {
      std::uint64_t dropped = 0;
      std::memcpy(&dropped, attributes.data() + sizeof attribute + offsetof(rtnl_link_stats64, tx_dropped),
                  sizeof dropped);
      return dropped;
    }
    attributes = attributes.subspan(std::min(attributes.size(), std::size_t{RTA_ALIGN(length)}));
  }
  return std::nullopt;
}

Result<Interface> find_interface(const std::string& name) {
  const Descriptor socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket) {
    return device_failure(errno, "looking up", name);
  }
  if (name.empty() || name.size() >= IFNAMSIZ) {
    return no_such_device(name);
  }
  Interface found;
  found.name = name;
  ifreq request = request_for(name);
  if (::ioctl(socket.get(), SIOCGIFINDEX, &request) != 0) {
    return not_found(errno, name);
  }
  found.index = request.ifr_ifindex;
  if (::ioctl(socket.get(), SIOCGIFHWADDR, &request) != 0) {
    return not_found(errno, name);
  }
  if (request.ifr_hwaddr.sa_family != ARPHRD_ETHER && request.ifr_hwaddr.sa_family != ARPHRD_LOOPBACK) {
    return fail(EPROTONOSUPPORT, fmt::format("the frames of interface '{}' are not Ethernet", name));
  }
  std::memcpy(found.address.octets.data(), request.ifr_hwaddr.sa_data, wire::MacAddress::size);
  if (::ioctl(socket.get(), SIOCGIFMTU, &request) != 0) {
    return not_found(errno, name);
  }
  found.mtu = static_cast<std::size_t>(std::max(0, request.ifr_mtu));
  if (::ioctl(socket.get(), SIOCGIFFLAGS, &request) != 0) {
    return not_found(errno, name);
  }
  found.enabled = (request.ifr_flags & IFF_UP) != 0;
  found.up = found.enabled && has_carrier(socket, name, request.ifr_flags);
  return found;
}

std::unexpected<Error> device_failure(int code, const std::string& what, const std::string& device) {
  std::string text = fmt::format("{} '{}': {}", what, device, std::strerror(code));
  if (code == EPERM || code == EACCES) {
    text +=
        ". It takes CAP_NET_RAW (tap: CAP_NET_ADMIN): run as root, in a namespace of your own (unshare -Urn), or give "
        "the "
        "program the capability (setcap cap_net_raw+ep PROGRAM)";
  }
  return fail(code, std::move(text));
}

InterfaceMonitor::InterfaceMonitor(StreamSet& set, Descriptor socket, const Interface& interface, Changed changed)
    : set_(set),
      socket_(std::move(socket)),
      interface_(interface),
      changed_(std::move(changed)),
      again_(set.scheduler(), [this] { tell(); }) {
  set_.add_source(*this);
}

InterfaceMonitor::~InterfaceMonitor() { set_.remove_source(*this); }

Result<std::unique_ptr<InterfaceMonitor>> InterfaceMonitor::open(StreamSet& set, const Interface& interface,
                                                                 Changed changed) {
  Descriptor socket(::socket(AF_NETLINK, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, NETLINK_ROUTE));
  sockaddr_nl address{};
  address.nl_family = AF_NETLINK;
  address.nl_groups = RTMGRP_LINK;
  if (!socket || ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return device_failure(errno, "watching", interface.name);
  }
  std::unique_ptr<InterfaceMonitor> monitor(
      new InterfaceMonitor(set, std::move(socket), interface, std::move(changed)));
  monitor->tell();
  return monitor;
}

void InterfaceMonitor::tell() {
  const Result<Interface> found = find_interface(interface_.name);
  if (found && found->index == interface_.index) {
    again_.cancel();
    again_after_ = again_after_min;
    return changed_(*found);
  }
  Interface gone = interface_;
  gone.enabled = gone.up = false;
  again_.arm_after(again_after_);
  again_after_ = std::min(2 * again_after_, again_after_max);
  changed_(gone);
}

bool InterfaceMonitor::concerns_us(ConstBytes messages) const {
  while (messages.size() >= sizeof(nlmsghdr) + sizeof(ifinfomsg)) {
    nlmsghdr header;
    ifinfomsg info;
    std::memcpy(&header, messages.data(), sizeof header);
    std::memcpy(&info, messages.data() + sizeof header, sizeof info);
    if (info.ifi_index == interface_.index) {
      return true;
    }
    const std::size_t step = NLMSG_ALIGN(std::max<std::size_t>(header.nlmsg_len, sizeof header));
    messages = messages.subspan(std::min(step, messages.size()));
  }
  return false;
}

bool InterfaceMonitor::on_readable() {
  std::array<std::byte, 8192> buffer;
  const ssize_t size = ::recv(socket_.get(), buffer.data(), buffer.size(), 0);
  // ENOBUFS: the kernel has more changes than it could tell, so ask as if one were ours.
  const bool overrun = size < 0 && errno == ENOBUFS;
  if (size <= 0 && !overrun) {
    return false;
  }
  if (overrun || concerns_us(ConstBytes(buffer).first(static_cast<std::size_t>(size)))) {
    tell();
  }
  return true;
}

}  // namespace sluice::dlpi
