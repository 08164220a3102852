// SPDX-License-Identifier: Apache-2.0
#include "dlpi/packet.h"

#include <utility>

#include "dlpi/device_entry.h"
#include "dlpi/packet_membership.h"

namespace sluice::dlpi {

Result<std::shared_ptr<Link>> PacketLink::open(StreamSet& set, const std::string& device, const Options& options) {
  const Result<Interface> interface = find_interface(device);
  if (!interface) {
    return std::unexpected(interface.error());
  }
  Result<std::unique_ptr<PacketRing>> ring = PacketRing::open(*interface, options.ring_bytes);
  if (!ring) {
    return std::unexpected(ring.error());
  }
  std::shared_ptr<PacketLink> link(new PacketLink(set, *interface, std::move(*ring)));
  PacketLink* const self = link.get();
  auto sender = PacketSender::open(set, *interface, options.bypass_qdisc, [self] { self->transmit_ready(); });
  if (!sender) {
    return std::unexpected(sender.error());
  }
  auto monitor = InterfaceMonitor::open(set, *interface, [self](const Interface& now) { self->changed(now); });
  if (!monitor) {
    return std::unexpected(monitor.error());
  }
  link->sender_ = std::move(*sender);
  link->monitor_ = std::move(*monitor);
  return link;
}

PacketLink::PacketLink(StreamSet& set, const Interface& interface, std::unique_ptr<PacketRing> ring)
    : Link(set, interface.name, interface.address, interface.mtu), interface_(interface), ring_(std::move(ring)) {
  set_up(interface.up);
  set.add_source(*this);
}

PacketLink::~PacketLink() { set().remove_source(*this); }

void PacketLink::changed(const Interface& interface) {
  set_mtu(interface.mtu);
  change_address(interface.address);
  set_up(interface.up);
}

// ---- Down ----

void PacketLink::send(Batch& frames) {
  const PacketSender::Sent done = sender_->send(frames);
  sent(done.frames, done.bytes);
  count(Event::transmit_error, done.refused);
  count(Event::no_memory, done.no_memory);
}

// ---- Up ----

Status PacketLink::set_interests(const Interests& wanted, const Interests& before) {
  if (Status told = ring_->accept_only(wanted.saps, wanted.any_sap); !told) {
    return told;
  }
  Status told = change_memberships(ring_->descriptor(), interface_, before, wanted);
  if (!told) {
    static_cast<void>(ring_->accept_only(before.saps, before.any_sap));
  }
  return told;
}

bool PacketLink::wants_readable() const { return may_receive(); }

void PacketLink::on_room() { on_readable(); }

bool PacketLink::on_readable() {
  for (std::size_t round = 0; round < bursts_per_call_max && ring_->readable() && may_receive(); ++round) {
    Batch burst;
    for (std::size_t taken = 0; taken < burst_frames_max; ++taken) {
      const std::optional<PacketRing::Frame> frame = ring_->next();
      if (!frame) {
        break;
      }
      accept(*frame, burst);
    }
    receive(std::move(burst));
  }
  count(Event::kernel_dropped, ring_->take_drops());
  return ring_->readable() && may_receive();
}

void PacketLink::accept(const PacketRing::Frame& frame, Batch& burst) {
  if (frame.tagged) {
    count(Event::vlan_frame);
  } else if (frame.truncated) {
    count(Event::oversize_frame);
  } else if (!frame.offload.is_super_frame()) {
    accept_plain(frame, burst);
  } else if ((frame.offload.segment_type & ~OffloadHeader::segment_ecn_flag) == OffloadHeader::segment_udp &&
             split_udp(frame.bytes, frame.offload.segment_size, set().pool(), burst)) {
    count(Event::super_frame_split);
  } else {
    count(Event::super_frame_dropped);
  }
}

void PacketLink::accept_plain(const PacketRing::Frame& frame, Batch& burst) {
  Message message = Message::copy_of(set().pool(), frame.bytes);
  if (!message) {
    count(Event::no_memory);
    return;
  }
  if ((frame.offload.flags & OffloadHeader::needs_checksum) != 0) {
    if (!complete_checksum(message.bytes(), frame.offload)) {
      count(Event::checksum_unknown);
      return;
    }
    count(Event::checksum_completed);
  }
  burst.push(std::move(message));
}

Entry packet_entry(std::shared_ptr<LinkTable> table) {
  return device_entry({
      .name = "packet",
      .summary = "a network interface through Linux packet sockets",
      .effect = "copies frames once on the way up, none on the way down",
      .parameters =
          {
              {.name = "ring_bytes",
               .type = ParameterSpec::Type::integer,
               .meaning = "size of the receive ring in bytes; absent: 8388608",
               .minimum = 2.0 * PacketRing::block_bytes,
               .maximum = 1 << 30},
              {.name = "qdisc_bypass",
               .type = ParameterSpec::Type::boolean,
               .meaning = "send past traffic control, unseen by captures on this host; absent: false"},
          },
      .table = std::move(table),
      .open =
          [](StreamSet& set, const std::string& device, const Parameters& parameters) {
            const auto ring_bytes = parameters.integer("ring_bytes", PacketLink::ring_bytes_default);
            return PacketLink::open(set, device,
                                    {static_cast<std::size_t>(ring_bytes), parameters.boolean("qdisc_bypass", false)});
          },
  });
}

}  // namespace sluice::dlpi
