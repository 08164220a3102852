// SPDX-License-Identifier: Apache-2.0
// Nodes, and what goes to the provider and to the user. message_sending.cc and message_receiving.cc: the two
// directions.
#include "stack/modules/message_protocol.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <limits>
#include <utility>

#include "stack/core/stream_set.h"
#include "stack/wire/tpi.h"

namespace sluice::rmpp {
namespace {

/// Room in front of a packet for the headers below.
constexpr std::size_t headroom_below = 128;

constexpr std::array<std::string_view, static_cast<std::size_t>(wire::RmppMalformed::count_)> malformed_meanings = {
    "packets shorter than a header",
    "packets of another version",
    "packets whose header's checksum is wrong",
    "packets of which a key field and its copy differ",
    "packets of no type there is",
    "packets with unknown flags",
    "packets whose payload is not as long as they say",
    "packets of messages that cannot be cut as they say",
    "packets that lie outside of their message",
    "grants of nothing, or beyond the message"};

}  // namespace

Protocol::Protocol(std::string_view name, const Options& options) : Module(name, Services::both), options_(options) {
  for (std::size_t at = 0; at < malformed_meanings.size(); ++at) {
    malformed_.push_back(
        std::make_unique<Counter>(*this, wire::name_of(static_cast<Malformed>(at)), malformed_meanings[at]));
  }
}

Status Protocol::open() {
  incarnation_ = static_cast<std::uint32_t>(set().prng().below(0xffff'ffff)) + 1;  // never 0
  collector_ = std::make_unique<Timer>(set().scheduler(), [this] { collect(); });
  memory_ = std::make_unique<BufferCall>(set().scheduler(), set().pool(), [this] { indicate_owed(); });
  return {};
}

std::uint8_t flags_of(Recovery recovery) {
  switch (recovery) {
    case Recovery::none:
      return wire::RmppHeader::unacknowledged;
    case Recovery::selective:
      return wire::RmppHeader::selective;
    case Recovery::message:
      break;
  }
  return 0;
}

// ---- Nodes ----

Protocol::Peer* Protocol::find(const wire::TransportAddress& address) {
  const auto found = peers_.find(address);
  return found == peers_.end() ? nullptr : found->second.get();
}

Protocol::Peer* Protocol::find_or_make(const wire::TransportAddress& address) {
  if (Peer* const known = find(address)) {
    return known;
  }
  if (peers_.size() >= options_.peers_max) {
    return nullptr;
  }
  auto made = std::make_unique<Peer>();
  Peer& peer = *made;
  peer.address = address;
  peer.id = next_peer_id_++;
  peer.last_heard = set().now();
  peer.send.number = numbers_used_;
  peer.send.timer = std::make_unique<Timer>(set().scheduler(), [this, &peer] { timed_out(peer); });
  peers_.emplace(address, std::move(made));
  by_id_.emplace(peer.id, &peer);
  if (!collector_->armed()) {
    collector_->arm_after(options_.dead_time / 4);
  }
  return &peer;
}

/// Nodes that have been silent for the dead time, and to which nothing is to be sent, are forgotten.
void Protocol::collect() {
  for (auto at = peers_.begin(); at != peers_.end();) {
    Peer& peer = *at->second;
    const bool silent = set().now() - peer.last_heard >= options_.dead_time;
    if (silent) {
      receive_event(peer, ReceiveEvent::expired);
    }
    if (silent && peer.send.state == SendState::idle && peer.send.waiting.empty()) {
      ++collected_;
      // The node may remember for longer: should it be sent to again, that must not look like what it has had.
      const bool later = static_cast<std::int32_t>(peer.send.number - numbers_used_) > 0;
      numbers_used_ = later ? peer.send.number : numbers_used_;
      by_id_.erase(peer.id);
      at = peers_.erase(at);
    } else {
      ++at;
    }
  }
  attend();
  if (!peers_.empty()) {
    collector_->arm_after(options_.dead_time / 4);
  }
}

// ---- What goes down and up ----

/// Empty without memory.
Message Protocol::packet_of(const Peer& peer, const Header& header, Message payload) {
  Message packet = Message::of_native(
      set().pool(),
      DataUnit{.kind = Kind::transport_request, .peer = peer.address.address, .peer_port = peer.address.port});
  Message data = Message::of_size(set().pool(), Header::size, headroom_below, 0);
  if (!packet || !data) {
    ++no_memory_;
    return {};
  }
  header.emit(data.bytes());
  if (payload) {
    data.link(std::move(payload));
  }
  defer_if_fused(data);
  packet.link(std::move(data));
  ++packets_out_;
  return packet;
}

void Protocol::transmit(const Peer& peer, const Header& header) {
  if (Message packet = packet_of(peer, header, {})) {
    write_queue().put_next(std::move(packet));
  }
}

/// Empty without memory.
Message Protocol::indication_of(const wire::TransportAddress& peer, const Indication& indication) {
  Message message = Message::of_native(
      set().pool(), DataUnit{.kind = Kind::transport_indication, .peer = peer.address, .peer_port = peer.port});
  Message data = Message::of_size(set().pool(), Indication::size, 0, 0);
  if (!message || !data) {
    return {};
  }
  indication.store(data.bytes().data());
  message.link(std::move(data));
  return message;
}

void Protocol::indicate(const Peer& peer, const Indication& indication) {
  Message message = owed_.empty() ? indication_of(peer.address, indication) : Message();
  if (!message) {
    // Each was a message that has given its memory back, or is one of a peer: so they have their bounds.
    owed_.emplace_back(peer.address, indication);
    await_memory();
  } else if (upward_ != nullptr) {
    upward_->push(std::move(message));  // behind the payloads that came before
  } else {
    read_queue().put_next(std::move(message));
  }
}

void Protocol::await_memory() {
  if (!owed_.empty() && !memory_->waiting() && !memory_->await(Indication::size)) {
    no_memory_ += owed_.size();  // the pool will never have any
    owed_.clear();
  }
}

void Protocol::indicate_owed() {
  while (!owed_.empty()) {
    Message message = indication_of(owed_.front().first, owed_.front().second);
    if (!message) {
      break;
    }
    owed_.pop_front();
    read_queue().put_next(std::move(message));
  }
  await_memory();
}

/// A data unit of this service is a whole message, behind what names it. Over a provider that does not take a packet
/// nothing can be sent: T_INVALID.
std::int32_t Protocol::tsdu_size(std::int32_t below) const {
  const std::int32_t packet = static_cast<std::int32_t>(Header::size) + options_.packet_bytes;
  if (below != wire::tpi::T_INFINITE && below < packet) {
    return wire::tpi::T_INVALID;
  }
  constexpr std::uint64_t told_max = std::numeric_limits<std::int32_t>::max() - wire::message::Request::size;
  return static_cast<std::int32_t>(wire::message::Request::size + std::min(options_.message_bytes_max, told_max));
}

/// What the provider says of its data units is changed to what is true above; everything else of it stays.
void Protocol::tell_limits(Message& message) const {
  if (!is_protocol(message.type()) || !message.first().buffer->writable()) {
    return;
  }
  if (auto info = wire::tpi::InfoAck::decode(message.bytes())) {
    info->tsdu_size = tsdu_size(info->tsdu_size);
    info->encode(message.bytes());
  } else if (auto answer = wire::tpi::CapabilityAck::decode(message.bytes());
             answer && (answer->capabilities & wire::tpi::TC1_INFO) != 0) {
    answer->info.tsdu_size = tsdu_size(answer->info.tsdu_size);
    answer->encode(message.bytes());
  }
}

/// An answer about a message, which says again what its packet said of it.
void Protocol::answer(const Peer& peer, const Header& about, Type type) {
  Header header = about;
  header.type = type;
  header.source_incarnation = incarnation_;
  header.destination_incarnation = about.source_incarnation;
  header.index = 0;
  header.length = 0;
  header.grant = 0;
  if (type == Type::clear) {
    const ReceiveSide& side = peer.receive;
    const std::uint32_t lacking = side.granted & ~side.held;
    const int skipped = std::countr_zero(lacking);
    header.index = static_cast<std::uint32_t>(side.base) + static_cast<std::uint32_t>(skipped);
    header.grant = static_cast<std::uint16_t>(lacking >> skipped);
  }
  transmit(peer, header);
}

// ---- Parameters ----

std::vector<ParameterSpec> parameter_specs() {
  using enum ParameterSpec::Type;
  return {
      {.name = "packet_bytes",
       .type = integer,
       .meaning = "Payload of a packet, in bytes; 1400 if absent.",
       .minimum = wire::RmppHeader::packet_bytes_min,
       .maximum = 65000},
      {.name = "grant_packets",
       .type = integer,
       .meaning = "Packets granted at once, at most; 16 if absent.",
       .minimum = 1,
       .maximum = wire::RmppHeader::granted_packets_max},
      {.name = "buffers",
       .type = integer,
       .meaning = "Packets granted to all nodes together, at most; 1024 if absent.",
       .minimum = 1,
       .maximum = 1 << 20},
      {.name = "peers",
       .type = integer,
       .meaning = "Nodes known at once; 1024 if absent.",
       .minimum = 1,
       .maximum = 65536},
      {.name = "messages",
       .type = integer,
       .meaning = "Messages that wait to be sent, to all nodes together; 1024 if absent.",
       .minimum = 1,
       .maximum = 1 << 20},
      {.name = "message_bytes",
       .type = integer,
       .meaning = "Longest message, in bytes; 1073741824 if absent.",
       .minimum = 0,
       .maximum = 2147483647},
      {.name = "dead_ms",
       .type = integer,
       .meaning = "After so many ms of silence a node's state is forgotten; 120000 if absent.",
       .minimum = 100,
       .maximum = 3600000},
  };
}

Options options_of(const Parameters& parameters, Recovery recovery) {
  Options options;
  options.recovery = recovery;
  options.packet_bytes = static_cast<std::uint16_t>(parameters.integer("packet_bytes", options.packet_bytes));
  options.grant_packets_max =
      static_cast<std::uint32_t>(parameters.integer("grant_packets", options.grant_packets_max));
  options.buffers = static_cast<std::uint32_t>(parameters.integer("buffers", options.buffers));
  options.peers_max = static_cast<std::size_t>(parameters.integer("peers", 1024));
  options.messages_max = static_cast<std::size_t>(parameters.integer("messages", 1024));
  options.message_bytes_max = static_cast<std::uint64_t>(parameters.integer("message_bytes", 1 << 30));
  options.timeout = std::chrono::milliseconds(parameters.integer("timeout_ms", 20));
  options.attempts_max = static_cast<std::uint32_t>(parameters.integer("attempts", options.attempts_max));
  options.dead_time = std::chrono::milliseconds(parameters.integer("dead_ms", 120'000));
  return options;
}

}  // namespace sluice::rmpp
