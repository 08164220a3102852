// SPDX-License-Identifier: Apache-2.0
#include "dlpi/packet.h"

#include <algorithm>
#include <utility>

#include "dlpi/device_entry.h"
#include "dlpi/link_stream.h"
#include "dlpi/vlan.h"

namespace sluice::dlpi {

Result<std::shared_ptr<Link>> PacketLink::open(StreamSet& set, const std::string& device, const Options& options) {
  const Result<Interface> interface = find_interface(device);
  if (!interface) {
    return std::unexpected(interface.error());
  }
  Result<std::unique_ptr<PacketRing>> ring = PacketRing::open(*interface, options.ring, options.ring_bytes);
  if (!ring) {
    return std::unexpected(ring.error());
  }
  std::shared_ptr<PacketLink> link(new PacketLink(set, *interface, std::move(*ring)));
  link->lent_bytes_min_ = options.lent_bytes_min;
  link->offload_ = options.offload;
  auto sender =
      PacketSender::open(set, *interface, options.bypass_qdisc, [self = link.get()] { self->transmit_ready(); });
  if (!sender) {
    return std::unexpected(sender.error());
  }
  link->sender_ = std::move(*sender);
  if (const Status started = link->start(options.address); !started) {
    return std::unexpected(started.error());
  }
  return link;
}

PacketLink::PacketLink(StreamSet& set, const Interface& interface, std::unique_ptr<PacketRing> ring)
    : InterfaceLink(set, interface), ring_(std::move(ring)) {
  set.add_source(*this);
}

PacketLink::~PacketLink() { set().remove_source(*this); }

// ---- Down ----

void PacketLink::send(Batch& frames) {
  for (bool again = true; again;) {
    PacketSender::Sent done = sender_->send(frames);
    sent(done.frames, done.bytes);
    count(LinkCounter::transmit_error, done.refused);
    count(LinkCounter::no_memory, done.no_memory);
    count(LinkCounter::super_frame_sent, done.super_frames);
    again = !done.to_split.empty();
    if (again) {
      done.to_split.splice(std::move(frames));  // what would go whole is a rare one of the other protocol
      frames = split_super_frames(std::move(done.to_split));
    }
  }
}

// ---- Up ----

/// An interface's own stack takes what is to its station and to none of our hosts; where only we are the station, what
/// is to none of them is ours to count.
Status PacketLink::filter_for(const Interests& wanted, const wire::MacAddress& station) {
  PacketFilterRules rules;
  if (!wanted.promiscuous) {
    rules.station = station;
  }
  if (!wanted.any_sap) {
    rules.types = wanted.saps;
  }
  if (station == interface().address) {
    rules.hosts = wanted.hosts;
  }
  return ring_->accept_only(rules);
}

bool PacketLink::wants_readable() const { return may_receive(); }

void PacketLink::on_room() { on_readable(); }

/// Frames that are held make the socket readable, too, and so does an error that it holds: where that is all there is,
/// they are recalled and it is taken, and the socket is not. The monitor tells what the error was about.
bool PacketLink::on_readable() {
  if (!ring_->readable()) {
    ring_->recall();
    static_cast<void>(ring_->take_error());
  } else if (!up()) {
    look_at_interface();
  }
  lends_ = fused();
  std::size_t bytes = 0;
  for (std::size_t round = 0; round < bursts_per_call_max && ring_->readable() && may_receive(); ++round) {
    Batch burst;
    for (std::size_t taken = 0; taken < burst_frames_max && bytes < bytes_per_call_max; ++taken) {
      const std::optional<PacketRing::Frame> frame = ring_->next();
      if (!frame) {
        break;
      }
      bytes += frame->size;
      accept(*frame, burst);
    }
    receive(std::move(burst));
  }
  if (!may_receive()) {
    ring_->recall();  // the whole ring is to take what comes until there is room
  }
  const bool more = ring_->readable() && may_receive();
  drops_possible();
  return more;
}

void PacketLink::accept(const PacketRing::Frame& frame, Batch& burst) {
  if (frame.tagged || (frame.tag_removed && has_tag(frame.bytes))) {
    refuse(LinkCounter::vlan_frame, frame.size);
  } else if (frame.unwanted()) {
    refuse_unwanted(frame.bytes, frame.offload.is_super_frame() ? frame.bytes.size() : frame.size);
  } else if (frame.truncated()) {
    refuse(frame.offload.is_super_frame() ? LinkCounter::super_frame_dropped : LinkCounter::oversize_frame, frame.size);
  } else if (Message message = message_of(frame)) {
    Link::accept(std::move(message), frame.offload, burst);
  } else {
    refuse(LinkCounter::no_memory, frame.size);
  }
}

Message PacketLink::message_of(const PacketRing::Frame& frame) {
  if (lends_ && frame.bytes.size() >= lent_bytes_min_) {
    if (Message lent = ring_->lend(set().pool(), frame)) {
      return lent;
    }
  }
  return Message::copy_of(set().pool(), frame.bytes);
}

namespace {

Result<std::shared_ptr<Link>> open_packet(StreamSet& set, const std::string& device, const wire::MacAddress& station,
                                          const Parameters& parameters) {
  PacketLink::Options options;
  const bool by_frame = parameters.text("ring", "block") == "frame";
  options.offload = parameters.boolean("offload", true);
  options.ring = by_frame ? PacketRing::Kind::by_frame : PacketRing::Kind::by_block;
  options.ring_bytes = static_cast<std::size_t>(parameters.integer("ring_bytes", PacketLink::ring_bytes_default));
  options.bypass_qdisc = parameters.boolean("qdisc_bypass", false);
  options.address = station;
  return PacketLink::open(set, device, options);
}

}  // namespace

Entry packet_entry() {
  return device_entry({
      .name = "packet",
      .summary = "a network interface through Linux packet sockets",
      .effect = "copies frames once on the way up, where a path is fused only small ones; none on the way down",
      .parameters =
          {
              {.name = "ring",
               .meaning = "the receive ring hands over frames by the block or each at once; absent: block",
               .choices = {"block", "frame"}},
              {.name = "ring_bytes",
               .type = ParameterSpec::Type::integer,
               .meaning = "size of the receive ring in bytes; absent: 16777216",
               .minimum = 2.0 * PacketRing::block_bytes,
               .maximum = 1 << 30},
              {.name = "qdisc_bypass",
               .type = ParameterSpec::Type::boolean,
               .meaning = "send past traffic control, unseen by captures on this host; absent: false"},
              {.name = "offload",
               .type = ParameterSpec::Type::boolean,
               .meaning = "let device or receiver split and sum datagrams that are sent together; absent: true"},
              {.name = "mac", .meaning = "our Ethernet address; absent: the interface's"},
          },
      .open = open_packet,
      .offloads = true,
  });
}

}  // namespace sluice::dlpi
