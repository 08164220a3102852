// SPDX-License-Identifier: Apache-2.0
#include "dlpi/pcap.h"

#include <fcntl.h>
#include <libnet.h>
#include <linux/if_packet.h>
#include <pcap/pcap.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <utility>

#include "dlpi/device_entry.h"
#include "dlpi/packet_membership.h"
#include "dlpi/vlan.h"

namespace sluice::dlpi {
namespace {

/// Besides the MTU: Ethernet header and a VLAN tag. libpcap's buffer is slots of this size, so it must not be generous.
constexpr std::size_t snapshot_overhead = 18;

/// libpcap's own codes as errno values.
int errno_of(int pcap_code) {
  switch (pcap_code) {
    case PCAP_ERROR_PERM_DENIED:
    case PCAP_ERROR_PROMISC_PERM_DENIED:
      return EPERM;
    case PCAP_ERROR_NO_SUCH_DEVICE:
      return ENODEV;
    case PCAP_ERROR_IFACE_NOT_UP:
      return ENETDOWN;
    default:
      return EIO;
  }
}

}  // namespace

void PcapLink::CaptureDeleter::operator()(pcap* capture) const { pcap_close(capture); }
void PcapLink::InjectorDeleter::operator()(libnet_context* injector) const { libnet_destroy(injector); }

Result<PcapLink::Capture> PcapLink::open_capture(const Interface& interface, std::size_t buffer_bytes) {
  std::array<char, PCAP_ERRBUF_SIZE> text{};
  Capture capture(pcap_create(interface.name.c_str(), text.data()));
  if (capture == nullptr) {
    return fail(EIO, "libpcap on '" + interface.name + "': " + text.data());
  }
  pcap_set_snaplen(capture.get(), static_cast<int>(interface.mtu + snapshot_overhead));
  pcap_set_promisc(capture.get(), 0);
  pcap_set_immediate_mode(capture.get(), 1);
  pcap_set_buffer_size(capture.get(), static_cast<int>(buffer_bytes));
  if (const int code = pcap_activate(capture.get()); code < 0) {
    return device_failure(errno_of(code), "capturing with libpcap on", interface.name);
  }
  if (pcap_datalink(capture.get()) != DLT_EN10MB) {
    return fail(EPROTONOSUPPORT, "the frames of interface '" + interface.name + "' are not Ethernet");
  }
  if (pcap_setnonblock(capture.get(), 1, text.data()) != 0 || pcap_setdirection(capture.get(), PCAP_D_IN) != 0) {
    return fail(EIO, "libpcap on '" + interface.name + "': " + pcap_geterr(capture.get()));
  }
  // libpcap sorts out our own frames after they have been in its buffer; the kernel can do so before.
  constexpr int ignore = 1;
  static_cast<void>(
      ::setsockopt(pcap_fileno(capture.get()), SOL_PACKET, PACKET_IGNORE_OUTGOING, &ignore, sizeof ignore));
  return capture;
}

Result<PcapLink::Injector> PcapLink::open_injector(const Interface& interface) {
  std::array<char, LIBNET_ERRBUF_SIZE> text{};
  Injector injector(libnet_init(LIBNET_LINK_ADV, interface.name.c_str(), text.data()));
  if (injector == nullptr) {
    return fail(EIO, "libnet on '" + interface.name + "': " + text.data());
  }
  const int descriptor = libnet_getfd(injector.get());
  if (::fcntl(descriptor, F_SETFL, ::fcntl(descriptor, F_GETFL) | O_NONBLOCK) != 0) {
    return device_failure(errno, "injecting with libnet on", interface.name);
  }
  return injector;
}

Result<std::shared_ptr<Link>> PcapLink::open(StreamSet& set, const std::string& device, std::size_t buffer_bytes) {
  const Result<Interface> interface = find_interface(device);
  if (!interface) {
    return std::unexpected(interface.error());
  }
  Result<Capture> capture = open_capture(*interface, buffer_bytes);
  if (!capture) {
    return std::unexpected(capture.error());
  }
  Result<Injector> injector = open_injector(*interface);
  if (!injector) {
    return std::unexpected(injector.error());
  }
  Descriptor membership(::socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0));
  if (!membership) {
    return device_failure(errno, "opening a packet socket on", device);
  }
  std::shared_ptr<PcapLink> link(
      new PcapLink(set, *interface, std::move(*capture), std::move(*injector), std::move(membership)));
  auto monitor = InterfaceMonitor::open(set, *interface, [self = link.get()](const Interface& now) {
    self->set_mtu(now.mtu);
    self->change_address(now.address);
    self->set_up(now.up);
  });
  if (!monitor) {
    return std::unexpected(monitor.error());
  }
  link->monitor_ = std::move(*monitor);
  return link;
}

PcapLink::PcapLink(StreamSet& set, const Interface& interface, Capture capture, Injector injector,
                   Descriptor membership)
    : Link(set, interface.name, interface.address, interface.mtu),
      interface_(interface),
      capture_(std::move(capture)),
      capture_descriptor_(pcap_get_selectable_fd(capture_.get())),
      injector_(std::move(injector)),
      membership_(std::move(membership)),
      room_(*this, libnet_getfd(injector_.get())) {
  set.add_source(*this);
  set.add_source(room_);
}

PcapLink::~PcapLink() {
  set().remove_source(room_);
  set().remove_source(*this);
}

Status PcapLink::set_interests(const Interests& wanted, const Interests& before) {
  return change_memberships(membership_.get(), interface_, before, wanted);
}

// ---- Down ----

void PcapLink::send(Batch& frames) {
  while (!frames.empty() && !room_.full) {
    Message frame = frames.pop();
    if (!write(frame)) {
      room_.full = true;
      frames.push_front(std::move(frame));
    }
  }
}

/// False when there is no room now.
bool PcapLink::write(Message& frame) {
  ConstBytes bytes = frame.bytes();
  if (frame.first().cont != nullptr) {
    contiguous_.resize(frame.size());
    static_cast<void>(frame.copy_data_to(0, contiguous_));
    bytes = contiguous_;
  }
  const int written = libnet_adv_write_link(injector_.get(), reinterpret_cast<const std::uint8_t*>(bytes.data()),
                                            static_cast<std::uint32_t>(bytes.size()));
  if (written < 0 && errno == EAGAIN) {
    return false;
  }
  if (written < 0) {
    count(LinkCounter::transmit_error);
  } else {
    sent(1, bytes.size());
  }
  return true;
}

void PcapLink::Room::on_writable() {
  full = false;
  link_.transmit_ready();
}

// ---- Up ----

void PcapLink::accept(ConstBytes bytes, std::size_t whole_size) {
  if (bytes.size() < whole_size) {
    refuse(has_tag(bytes) ? LinkCounter::vlan_frame : LinkCounter::oversize_frame, whole_size);
  } else if (Message frame = Message::copy_of(set().pool(), bytes)) {
    burst_.push(std::move(frame));
  } else {
    refuse(LinkCounter::no_memory, whole_size);
  }
}

bool PcapLink::on_readable() {
  constexpr int count_max = static_cast<int>(burst_frames_max);
  const pcap_handler on_frame = [](u_char* self, const pcap_pkthdr* header, const u_char* bytes) {
    const ConstBytes captured(reinterpret_cast<const std::byte*>(bytes), header->caplen);
    reinterpret_cast<PcapLink*>(self)->accept(captured, header->len);
  };
  bool more = true;
  for (std::size_t round = 0; round < bursts_per_call_max && more && may_receive(); ++round) {
    more = pcap_dispatch(capture_.get(), count_max, on_frame, reinterpret_cast<u_char*>(this)) == count_max;
    receive(std::exchange(burst_, Batch{}));
  }
  drops_possible();
  return more && may_receive();
}

std::uint64_t PcapLink::take_drops(bool) {
  pcap_stat statistics{};
  if (pcap_stats(capture_.get(), &statistics) != 0) {
    return 0;
  }
  const std::uint64_t total = statistics.ps_drop;
  const std::uint64_t since = total - std::min(total, drops_);
  drops_ = total;
  return since;
}

Entry pcap_entry() {
  return device_entry({
      .name = "pcap",
      .summary = "a network interface through libpcap and libnet",
      .effect = "copies frames once on the way up",
      .parameters =
          {
              {.name = "buffer_bytes",
               .type = ParameterSpec::Type::integer,
               .meaning = "size of libpcap's buffer in bytes; absent: 8388608",
               .minimum = 65536,
               .maximum = 1 << 30},
          },
      .work = {.up = {{.kind = PayloadWork::Kind::copy, .where = "libpcap's buffer to message"}},
               .uncounted_down = "libnet's sendto copies from the frame",
               .uncounted_up = "the kernel copies into libpcap's ring"},
      .open =
          [](StreamSet& set, const std::string& device, const wire::MacAddress&, const Parameters& parameters) {
            const auto bytes = parameters.integer("buffer_bytes", PcapLink::buffer_bytes_default);
            return PcapLink::open(set, device, static_cast<std::size_t>(bytes));
          },
  });
}

}  // namespace sluice::dlpi
