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
#include "dlpi/super_frame.h"
#include "stack/wire/ethernet.h"

// Absent from older kernels' headers; one that does not know them refuses them.
#ifndef TUN_F_USO4
#define TUN_F_USO4 0x20
#define TUN_F_USO6 0x40
#endif

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
  request.ifr_flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR;
  if (device.empty() || device.size() >= IFNAMSIZ || ::ioctl(tap.get(), TUNSETIFF, &request) != 0) {
    return device_failure(device.size() >= IFNAMSIZ || device.empty() ? EINVAL : errno, "attaching to TAP interface",
                          device);
  }
  // An interface that was there already may have had a longer one set.
  int header_size = sizeof(OffloadHeader);
  if (::ioctl(tap.get(), TUNSETVNETHDRSZ, &header_size) != 0) {
    return device_failure(errno, "setting the size of offload headers of", device);
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

/// Tells the kernel which work it may leave to us. False when it does not know of such.
bool TapLink::set_offloads(const Descriptor& tap, Offloads offloads) {
  constexpr unsigned tcp = TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6;
  const unsigned flags = offloads == Offloads::none  ? 0
                         : offloads == Offloads::tcp ? tcp
                                                     : tcp | TUN_F_USO4 | TUN_F_USO6;
  return ::ioctl(tap.get(), TUNSETOFFLOAD, flags) == 0;
}

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
  Offloads offloads = options.offload ? Offloads::all : Offloads::none;
  if (!set_offloads(*tap, offloads)) {
    offloads = options.offload && set_offloads(*tap, Offloads::tcp) ? Offloads::tcp : Offloads::none;
  }
  if (offloads == Offloads::none && !set_offloads(*tap, offloads)) {
    return device_failure(errno, "setting the offloads of", device);
  }
  std::shared_ptr<TapLink> link(new TapLink(set, *interface, address, std::move(*tap), offloads));
  auto monitor = InterfaceMonitor::open(set, *interface,
                                        [self = link.get()](const Interface& now) { self->interface_changed(now); });
  if (!monitor) {
    return std::unexpected(monitor.error());
  }
  link->monitor_ = std::move(*monitor);
  return link;
}

TapLink::TapLink(StreamSet& set, const Interface& interface, const wire::MacAddress& address, Descriptor tap,
                 Offloads offloads)
    : Link(set, interface.name, address, interface.mtu),
      tap_(std::move(tap)),
      offloads_(offloads),
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

/// An interface that stays is as it would be for one who knows of no offloads.
TapLink::~TapLink() {
  set().remove_source(*this);
  static_cast<void>(set_offloads(tap_, Offloads::none));
}

Status TapLink::set_address(const wire::MacAddress& address) {
  change_address(address);
  return {};
}

// ---- Down ----

void TapLink::send(Batch& frames) {
  while (!frames.empty() && !full_) {
    Message frame = frames.pop();
    const Written written = write(frame);
    if (written == Written::no_memory) {
      count(LinkCounter::no_memory);
    } else if (written == Written::no_room) {
      full_ = true;
      frames.push_front(std::move(frame));
    }
  }
}

TapLink::Written TapLink::write(Message& frame) {
  static OffloadHeader plain;  // of a frame that nobody splits or sums; never written to
  const bool is_super = is_super_frame(frame);
  std::array<iovec, 1 + blocks_per_frame_max> blocks;
  std::span<iovec> pieces = blocks;
  if (is_super) {
    if (!pieces_.describe(frame)) {
      return Written::no_memory;
    }
    pieces = pieces_.pieces();
  } else {
    if (frame.block_count() > blocks_per_frame_max && !frame.pull_up(frame.size())) {
      return Written::no_memory;
    }
    std::size_t used = 0;
    blocks[used++] = {&plain, sizeof plain};
    for (const Block* block = &frame.first(); block != nullptr; block = block->cont) {
      blocks[used++] = {block->rptr, block->size()};
    }
    pieces = pieces.first(used);
  }
  const ssize_t written = retried([&] { return ::writev(tap_.get(), pieces.data(), static_cast<int>(pieces.size())); });
  if (written < 0 && errno == EAGAIN) {
    return Written::no_room;
  }
  const std::size_t frames = is_super ? segments_in(frame) : 1;
  if (written < 0) {
    count(LinkCounter::transmit_error, frames);
    return Written::yes;
  }
  count(LinkCounter::super_frame_sent, is_super ? 1 : 0);
  sent(frames, frame.data_size() + (is_super ? (frames - 1) * header_bytes_in(frame) : 0));
  return Written::yes;
}

void TapLink::on_writable() {
  full_ = false;
  transmit_ready();
}

// ---- Up ----

/// A super-frame comes where no frame of the MTU would fit: in memory that is kept for one. The first of a run begins
/// in a small buffer, the others lie in one piece.
TapLink::Read TapLink::read_frame(Batch& burst, std::size_t& bytes) {
  const std::size_t small = mtu() + wire::EthernetHeader::size + slack;
  const std::size_t large =
      offloads_ != Offloads::none ? std::max(small, wire::EthernetHeader::size + super_frame_packet_max) : 0;
  if (large > 0 && !large_) {
    large_ = Message::allocate(set().pool(), large);
  }
  const bool large_first = last_was_large_ && large_;
  Message frame = large_first ? std::move(large_) : Message::allocate(set().pool(), small);
  if (!frame || (large > 0 && !large_first && !large_)) {
    return Read::no_memory;  // frames stay in the device
  }
  OffloadHeader offload;
  const Bytes first = frame.append(large_first ? large : small);
  const Bytes rest = large_first || large == 0 ? Bytes() : large_.append(large - small);
  const std::array<iovec, 3> places{
      {{&offload, sizeof offload}, {first.data(), first.size()}, {rest.data(), rest.size()}}};
  const ssize_t taken = retried([&] { return ::readv(tap_.get(), places.data(), places.size()); });
  const std::size_t size =
      taken < static_cast<ssize_t>(sizeof offload) ? 0 : static_cast<std::size_t>(taken) - sizeof offload;
  const std::size_t behind = size - std::min(size, first.size());
  if (!rest.empty()) {
    large_.trim_back(rest.size() - behind);
  }
  frame.trim_back(first.size() - (size - behind));
  if (size == 0) {
    // Removed from under us (ip link del): EIO while it goes, EBADFD from then on, and ready with an error for good.
    gone_ = gone_ || (taken < 0 && errno == EBADFD);
    large_ = large_first ? std::move(frame) : std::move(large_);
    return Read::nothing;
  }
  bytes += size;
  last_was_large_ = size > small;
  if (behind > 0) {
    frame.link(std::move(large_));
  } else if (large_first && !last_was_large_) {
    Message copy = Message::copy_of(set().pool(), std::as_const(frame).bytes());
    frame.trim_back(size);
    large_ = std::exchange(frame, std::move(copy));
  }
  if (!frame) {
    refuse(LinkCounter::no_memory, size);
  } else if (!offload.is_super_frame() && last_was_large_) {
    refuse(LinkCounter::oversize_frame, size);
  } else {
    accept(std::move(frame), offload, burst);
  }
  return Read::frame;
}

bool TapLink::read_burst(Batch& burst) {
  std::size_t bytes = 0;
  for (std::size_t taken = 0; taken < burst_frames_max && bytes < burst_bytes_max; ++taken) {
    const Read read = read_frame(burst, bytes);
    if (read != Read::frame) {
      count(LinkCounter::no_memory, read == Read::no_memory ? 1 : 0);
      return false;
    }
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

Result<std::shared_ptr<Link>> open_tap(StreamSet& set, const std::string& device, const wire::MacAddress& station,
                                       const Parameters& parameters) {
  TapLink::Options options;
  options.mtu = static_cast<std::size_t>(parameters.integer("mtu", 0));
  options.offload = parameters.boolean("offload", true);
  options.address = station;
  return TapLink::open(set, device, options);
}

}  // namespace

Entry tap_entry() {
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
              {.name = "offload",
               .type = ParameterSpec::Type::boolean,
               .meaning = "pass datagrams that are sent together to the kernel and back as one; absent: true"},
          },
      .work = {.up = {},
               .uncounted_down = "writev copies from the frame",
               .uncounted_up = "read copies into the message"},
      .open = open_tap,
      .offloads = true,
  });
}

}  // namespace sluice::dlpi
