// SPDX-License-Identifier: Apache-2.0
#include "dlpi/xdp.h"

#include <fmt/format.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <utility>

#include "dlpi/device_entry.h"
#include "dlpi/link_stream.h"

namespace sluice::dlpi {
namespace {

/// How many receive queues the device has in use; one where it does not say.
unsigned receive_queues(const Interface& interface) {
  const Descriptor socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ethtool_channels channels{};
  channels.cmd = ETHTOOL_GCHANNELS;
  ifreq request{};
  interface.name.copy(request.ifr_name, IFNAMSIZ - 1);
  request.ifr_data = reinterpret_cast<char*>(&channels);
  const bool told = ::ioctl(socket.get(), SIOCETHTOOL, &request) == 0;
  return told ? std::max(1U, channels.rx_count + channels.combined_count) : 1U;
}

std::unexpected<Error> too_large(const Interface& interface) {
  return fail(EMSGSIZE,
              fmt::format("the MTU of '{0}' is {1}, and an XDP socket takes frames for an MTU of {2} at most: `ip link "
                          "set dev {0} mtu {2}` (and its peers likewise), or the driver packet",
                          interface.name, interface.mtu, XdpLink::mtu_max));
}

Result<std::pair<unsigned, unsigned>> queues_to_serve(const Interface& interface, std::optional<unsigned> wanted) {
  const unsigned count = receive_queues(interface);
  if (wanted && *wanted >= count) {
    return fail(EINVAL,
                fmt::format("'{}' has no receive queue {}; it has {}, counted from 0", interface.name, *wanted, count));
  }
  if (!wanted && count > XdpLink::queues_max) {
    return fail(E2BIG, fmt::format("'{0}' has {1} receive queues, of which this driver serves {2}: let it have fewer, "
                                   "`ethtool -L {0} combined {2}`, or name the `queue` that is to be served",
                                   interface.name, count, XdpLink::queues_max));
  }
  return wanted ? std::pair{*wanted, *wanted + 1} : std::pair{0U, count};
}

}  // namespace

Result<XdpFilter> XdpLink::attach(const Interface& interface, Mode mode, unsigned queues) {
  if (mode == Mode::generic) {
    return XdpFilter::attach(interface, XdpFilter::Mode::generic, queues);
  }
  Result<XdpFilter> native = XdpFilter::attach(interface, XdpFilter::Mode::native, queues);
  if (native || mode != Mode::automatic) {
    return native;
  }
  const int code = native.error().code;
  const bool hopeless = code == EPERM || code == EACCES || code == EBUSY || code == ENODEV;
  return hopeless ? std::move(native) : XdpFilter::attach(interface, XdpFilter::Mode::generic, queues);
}

Result<std::shared_ptr<Link>> XdpLink::open(StreamSet& set, const std::string& device, const Options& options) {
  const Result<Interface> interface = find_interface(device);
  if (!interface) {
    return std::unexpected(interface.error());
  }
  if (interface->mtu > mtu_max) {
    return too_large(*interface);
  }
  const auto queues = queues_to_serve(*interface, options.queue);
  if (!queues) {
    return std::unexpected(queues.error());
  }
  Descriptor membership(::socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0));
  if (!membership) {
    return xdp_failure(errno, "opening a packet socket on", *interface);
  }
  Result<XdpFilter> filter = attach(*interface, options.mode, queues->second);
  if (!filter) {
    return std::unexpected(filter.error());
  }
  std::shared_ptr<XdpLink> link(new XdpLink(set, *interface, std::move(*filter), std::move(membership)));
  if (const Status opened = link->open_queues(options, queues->first, queues->second); !opened) {
    return std::unexpected(opened.error());
  }
  if (const Status started = link->start(options.address); !started) {
    return std::unexpected(started.error());
  }
  return link;
}

XdpLink::XdpLink(StreamSet& set, const Interface& interface, XdpFilter filter, Descriptor membership)
    : InterfaceLink(set, interface),
      filter_(std::move(filter)),
      membership_(std::move(membership)),
      sending_timer_(set.scheduler(), [this] { go_on_sending(); }) {}

XdpLink::~XdpLink() = default;

XdpLink::Source::Source(XdpLink& link, std::unique_ptr<XdpQueue> owned) : queue(std::move(owned)), link_(link) {
  link_.set().add_source(*this);
}

XdpLink::Source::~Source() { link_.set().remove_source(*this); }

Status XdpLink::open_queues(const Options& options, unsigned first, unsigned end) {
  XdpQueue::Options wanted;
  wanted.receive_slots = options.frames;
  receive_slots_ = options.frames;
  wanted.copies = filter_.mode() == XdpFilter::Mode::generic ? XdpQueue::Copies::always
                  : options.mode == Mode::zero_copy          ? XdpQueue::Copies::never
                                                             : XdpQueue::Copies::as_the_kernel_chooses;
  for (wanted.queue = first; wanted.queue < end; ++wanted.queue) {
    Result<std::unique_ptr<XdpQueue>> queue = XdpQueue::open(interface(), wanted);
    if (!queue) {
      return std::unexpected(queue.error());
    }
    sources_.push_back(std::make_unique<Source>(*this, std::move(*queue)));
    if (Status served = filter_.serve(wanted.queue, sources_.back()->descriptor()); !served) {
      return served;
    }
    wanted.send_slots = XdpQueue::send_slots_min;  // only the first queue sends
  }
  return {};
}

void XdpLink::changed(const Interface& interface) {
  Interface served = interface;
  served.mtu = std::min(interface.mtu, mtu_max);
  InterfaceLink::changed(served);
  if (interface.up) {
    go_on_sending();
  }
}

// ---- What is received ----

Status XdpLink::filter_for(const Interests& wanted, const wire::MacAddress& station) {
  return filter_.accept_only({.station = station,
                              .groups = wanted.groups,
                              .types = wanted.saps,
                              .any_station = wanted.promiscuous,
                              .any_group = wanted.all_groups,
                              .any_type = wanted.any_sap});
}

// ---- Down ----

void XdpLink::send(Batch& frames) {
  const XdpQueue::Sent done = sender().send(frames);
  sent(done.frames, done.bytes);
  count(LinkCounter::transmit_error, done.refused);
  if (!frames.empty() || sender().sending()) {
    sending_timer_.arm_after(sending_pause);
  }
}

/// What the device has not sent at once it is asked about until it has. While it is down it sends nothing: the monitor
/// says when that ends.
void XdpLink::go_on_sending() {
  if (sender().sending()) {
    count(LinkCounter::transmit_error, sender().continue_sending());
  }
  if (sender().sending() && up()) {
    sending_timer_.arm_after(sending_pause);
  }
  if (sender().has_send_slot()) {
    transmit_ready();
  }
}

// ---- Up ----

void XdpLink::on_room() {
  for (const std::unique_ptr<Source>& source : sources_) {
    receive_from(*source->queue);
  }
}

bool XdpLink::receive_from(XdpQueue& queue) {
  if (!queue.readable()) {
    static_cast<void>(queue.take_error());  // the monitor tells what it was about
  } else if (!up()) {
    look_at_interface();
  }
  const bool lends = fused();
  for (std::size_t round = 0; round < bursts_per_call_max && queue.readable() && may_receive(); ++round) {
    Batch burst;
    for (std::size_t taken = 0; taken < burst_frames_max; ++taken) {
      const std::optional<Bytes> frame = queue.next();
      if (!frame) {
        break;
      }
      accept(queue, *frame, lends, burst);
    }
    receive(std::move(burst));
  }
  const bool more = queue.readable();
  if (!may_receive()) {
    queue.recall();  // all slots are to take what comes until there is room
  }
  drops_possible();
  return more && may_receive();
}

void XdpLink::accept(XdpQueue& queue, Bytes frame, bool lends, Batch& burst) {
  Message message;
  if (lends && frame.size() >= lent_bytes_min) {
    message = queue.lend(set().pool(), frame);
  }
  if (!message) {
    message = Message::copy_of(set().pool(), frame);
  }
  if (message) {
    burst.push(std::move(message));
  } else {
    refuse(LinkCounter::no_memory, frame.size());
  }
}

std::uint64_t XdpLink::take_drops(bool late) {
  std::uint64_t drops = 0;
  for (const std::unique_ptr<Source>& source : sources_) {
    drops += source->queue->take_drops(late);
  }
  return drops;
}

namespace {

XdpLink::Mode mode_named(const std::string& name) {
  return name == "native"     ? XdpLink::Mode::native
         : name == "zerocopy" ? XdpLink::Mode::zero_copy
         : name == "generic"  ? XdpLink::Mode::generic
                              : XdpLink::Mode::automatic;
}

Result<std::shared_ptr<Link>> open_xdp(StreamSet& set, const std::string& device, const wire::MacAddress& station,
                                       const Parameters& parameters) {
  XdpLink::Options options;
  options.mode = mode_named(parameters.text("mode", "auto"));
  if (parameters.has("queue")) {
    options.queue = static_cast<unsigned>(parameters.integer("queue", 0));
  }
  options.frames = static_cast<std::size_t>(parameters.integer("frames", XdpLink::frames_default));
  options.address = station;
  if (!std::has_single_bit(options.frames)) {
    return fail(EINVAL, fmt::format("frames is {}: the kernel's rings take a power of two, such as {}", options.frames,
                                    std::bit_ceil(options.frames)));
  }
  return XdpLink::open(set, device, options);
}

}  // namespace

Entry xdp_entry() {
  return device_entry({
      .name = "xdp",
      .summary = "a network interface through Linux AF_XDP sockets",
      .effect = "copies frames once on the way up, where a path is fused only small ones; once on the way down",
      .parameters =
          {
              {.name = "mode",
               .meaning = "where the XDP program runs, and who copies; absent: auto",
               .choices = {"auto", "native", "zerocopy", "generic"}},
              {.name = "queue",
               .type = ParameterSpec::Type::integer,
               .meaning = "the receive queue to serve; absent: all",
               .minimum = 0,
               .maximum = 65535},
              {.name = "frames",
               .type = ParameterSpec::Type::integer,
               .meaning = "slots of 4 KiB to receive into, a power of two; absent: 2048",
               .minimum = 64,
               .maximum = 65536},
              {.name = "mac", .meaning = "our Ethernet address; absent: the interface's"},
          },
      .work = {.up = {{.kind = PayloadWork::Kind::copy, .where = "umem slot to message", .fused = false}},
               .uncounted_down = "frames are copied into umem slots",
               .uncounted_up = "the device, or the kernel, writes into the umem"},
      .open = open_xdp,
  });
}

}  // namespace sluice::dlpi
