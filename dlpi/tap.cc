// SPDX-License-Identifier: Apache-2.0
#include "dlpi/tap.h"

#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "base/prng.h"
#include "base/retried.h"
#include "dlpi/device_entry.h"
#include "stack/wire/ethernet.h"

namespace sluice::dlpi {
namespace {

/// Largest frame above the MTU that the kernel may hand over: one VLAN tag, and a byte that shows that it was cut.
constexpr std::size_t slack = 5;

wire::MacAddress random_address(Prng& prng) {
  wire::MacAddress address;
  for (std::uint8_t& octet : address.octets) {
    octet = static_cast<std::uint8_t>(prng());
  }
  constexpr unsigned group_bit = 1;
  constexpr unsigned local_bit = 2;
  address.octets[0] = static_cast<std::uint8_t>((address.octets[0] & ~group_bit) | local_bit);
  return address;
}

Result<Descriptor> attach_tap(const std::string& device) {
  Descriptor tap(retried([] { return ::open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC); }));
  if (!tap) {
    return device_failure(errno, "opening /dev/net/tun for", device);
  }
  ifreq request{};
  device.copy(request.ifr_name, IFNAMSIZ - 1);
  request.ifr_flags = IFF_TAP | IFF_NO_PI;
  if (device.empty() || device.size() >= IFNAMSIZ || ::ioctl(tap.get(), TUNSETIFF, &request) != 0) {
    return device_failure(device.size() >= IFNAMSIZ || device.empty() ? EINVAL : errno, "attaching to TAP interface",
                          device);
  }
  return tap;
}

Status set_interface_mtu(const std::string& device, std::size_t mtu) {
  const Descriptor socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq request{};
  device.copy(request.ifr_name, IFNAMSIZ - 1);
  request.ifr_mtu = static_cast<int>(mtu);
  if (!socket || ::ioctl(socket.get(), SIOCSIFMTU, &request) != 0) {
    return device_failure(errno, "setting the MTU of", device);
  }
  return {};
}

}  // namespace

Result<std::shared_ptr<Link>> TapLink::open(StreamSet& set, const std::string& device, const Options& options) {
  Result<Descriptor> tap = attach_tap(device);
  if (!tap) {
    return std::unexpected(tap.error());
  }
  if (options.mtu != 0) {
    if (const Status changed = set_interface_mtu(device, options.mtu); !changed) {
      return std::unexpected(changed.error());
    }
  }
  const Result<Interface> interface = find_interface(device);
  if (!interface) {
    return std::unexpected(interface.error());
  }
  const wire::MacAddress address = options.address.is_unspecified() ? random_address(set.prng()) : options.address;
  std::shared_ptr<TapLink> link(new TapLink(set, *interface, address, std::move(*tap)));
  auto monitor = InterfaceMonitor::open(set, *interface,
                                        [self = link.get()](const Interface& now) { self->interface_changed(now); });
  if (!monitor) {
    return std::unexpected(monitor.error());
  }
  link->monitor_ = std::move(*monitor);
  return link;
}

TapLink::TapLink(StreamSet& set, const Interface& interface, const wire::MacAddress& address, Descriptor tap)
    : Link(set, interface.name, address, interface.mtu),
      tap_(std::move(tap)),
      index_(interface.index),
      drops_(transmit_drops(interface.index)) {
  set.add_source(*this);
}

/// The carrier of a TAP interface is our having attached, which the kernel notices in its own time: it does not count.
/// An interface that has gone from this namespace while we still hold its queue was moved into another. Its state
/// cannot be seen from here: it is taken to be up, and one that is not refuses our frames, which is counted.
void TapLink::interface_changed(const Interface& now) {
  ifreq request{};
  const bool moved = !find_interface(now.name) && ::ioctl(tap_.get(), TUNGETIFF, &request) == 0;
  set_mtu(now.mtu);
  set_up(now.enabled || moved);
}

TapLink::~TapLink() { set().remove_source(*this); }

Status TapLink::set_address(const wire::MacAddress& address) {
  change_address(address);
  return {};
}

// ---- Down ----

void TapLink::send(Batch& frames) {
  while (!frames.empty() && !full_) {
    Message frame = frames.pop();
    if (frame.block_count() > blocks_per_frame_max && !frame.pull_up(frame.size())) {
      count(LinkCounter::no_memory);
    } else if (!write(frame)) {
      full_ = true;
      frames.push_front(std::move(frame));
    }
  }
}

bool TapLink::write(Message& frame) {
  std::array<iovec, blocks_per_frame_max> pieces;
  int pieces_used = 0;
  for (const Block* block = &frame.first(); block != nullptr; block = block->cont) {
    pieces[static_cast<std::size_t>(pieces_used++)] = {block->rptr, block->size()};
  }
  const ssize_t written = retried([&] { return ::writev(tap_.get(), pieces.data(), pieces_used); });
  if (written < 0 && errno == EAGAIN) {
    return false;
  }
  if (written < 0) {
    count(LinkCounter::transmit_error);
  } else {
    sent(1, static_cast<std::size_t>(written));
  }
  return true;
}

void TapLink::on_writable() {
  full_ = false;
  transmit_ready();
}

// ---- Up ----

bool TapLink::read_burst(Batch& burst) {
  const std::size_t capacity = mtu() + wire::EthernetHeader::size + slack;
  while (burst.size() < burst_frames_max) {
    Message frame = Message::allocate(set().pool(), capacity);
    if (!frame) {
      count(LinkCounter::no_memory);
      return false;  // frames stay in the device
    }
    const Bytes room = frame.append(capacity);
    const ssize_t size = retried([&] { return ::read(tap_.get(), room.data(), room.size()); });
    if (size <= 0) {
      // Removed from under us (ip link del): EIO while it goes, EBADFD from then on, and ready with an error for good.
      gone_ = gone_ || (size < 0 && errno == EBADFD);
      return false;
    }
    frame.trim_back(room.size() - static_cast<std::size_t>(size));
    burst.push(std::move(frame));
  }
  return true;
}

bool TapLink::on_readable() {
  bool more = true;
  for (std::size_t round = 0; round < bursts_per_call_max && more && may_receive(); ++round) {
    Batch burst;
    more = read_burst(burst);
    receive(std::move(burst));
  }
  drops_possible();
  return more && !gone_ && may_receive();
}

/// Asking costs a netlink request, so this is done late only. One that went into another namespace cannot be asked.
std::uint64_t TapLink::take_drops(bool late) {
  const std::optional<std::uint64_t> now = late ? transmit_drops(index_) : std::nullopt;
  if (!now) {
    return 0;
  }
  const std::uint64_t before = std::exchange(drops_, now).value_or(*now);
  return *now - std::min(*now, before);
}

namespace {

Result<std::shared_ptr<Link>> open_tap(StreamSet& set, const std::string& device, const Parameters& parameters) {
  TapLink::Options options;
  options.mtu = static_cast<std::size_t>(parameters.integer("mtu", 0));
  const Result<wire::MacAddress> address = station_address(parameters);
  if (!address) {
    return std::unexpected(address.error());
  }
  options.address = *address;
  return TapLink::open(set, device, options);
}

}  // namespace

Entry tap_entry(std::shared_ptr<LinkTable> table) {
  return device_entry({
      .name = "tap",
      .summary = "a host at the far end of a TAP interface",
      .effect = "copies frames once each way, in the system call",
      .parameters =
          {
              {.name = "mac", .meaning = "our Ethernet address; absent: random, locally administered"},
              {.name = "mtu",
               .type = ParameterSpec::Type::integer,
               .meaning = "sets the interface's MTU in bytes; absent: as the interface has it",
               .minimum = TapLink::mtu_min,
               .maximum = TapLink::mtu_max},
          },
      .table = std::move(table),
      .work = {.up = {},
               .uncounted_down = "writev copies from the frame",
               .uncounted_up = "read copies into the message"},
      .open = open_tap,
  });
}

}  // namespace sluice::dlpi
