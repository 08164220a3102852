// SPDX-License-Identifier: Apache-2.0
#include "dlpi/link_stream.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "dlpi/super_frame.h"
#include "stack/core/ioctl.h"
#include "stack/core/stream_set.h"
#include "stack/wire/ethernet.h"
#include "stack/wire/loopback.h"
#include "stack/wire/receive_room.h"

namespace sluice::dlpi {
namespace {

using namespace wire::dlpi;  // NOLINT: the specification's names

/// dl_priority_t: 0 is the highest, 100 the lowest; DL_QOS_DONT_CARE leaves it to us.
bool is_priority(std::int32_t value) { return value == DL_QOS_DONT_CARE || (value >= 0 && value <= 100); }

bool are_priorities(const wire::dlpi::Priority& range) {
  return range == wire::dlpi::Priority{} || (is_priority(range.min) && is_priority(range.max));
}

using wire::DataUnit;

/// One that asks for one frame.
inline bool is_unitdata_request(const Message& message) {
  if (const DataUnit* const unitdata = message.native<DataUnit>()) {
    return unitdata->kind == DataUnit::Kind::link_request && unitdata->segment_size == 0;
  }
  return is_protocol(message.type()) && primitive_of(message.bytes()) == DL_UNITDATA_REQ;
}

/// The request in front of `message`; priorities that are not asked for are 0 (dl_priority_t).
inline Decoded<UnitdataReq> request_of(const Message& message) {
  if (const DataUnit* const unitdata = message.native<DataUnit>()) {
    return UnitdataReq{.destination = unitdata->destination, .priority = {}};
  }
  return UnitdataReq::decode(message.bytes());
}

}  // namespace

LinkStream::LinkStream(std::string_view kind, Style style, LinkOpener opener, LinkWork work)
    : Module(kind, Services::both), style_(style), opener_(std::move(opener)), work_(std::move(work)) {
  for (const LinkCounterText& text : link_counter_texts) {
    counters_.emplace_back(*this, text.name, text.meaning);
  }
}

/// Down, a fused path makes a frame of what the message shows (complete()); a layered one has a frame already.
PayloadWork LinkStream::payload_work(Side side) const {
  if (side == Side::read) {
    return {.items = work_.up, .uncounted = work_.uncounted_up};
  }
  std::vector<PayloadWork::Item> items{
      {.kind = PayloadWork::Kind::gather, .where = "message to frame", .layered = false}};
  items.insert(items.end(), work_.down.begin(), work_.down.end());
  return {.items = std::move(items), .uncounted = work_.uncounted_down, .segments = work_.segments};
}

Status LinkStream::open() { return style_ == Style::one ? attach(0) : Status{}; }

void LinkStream::close() { detach(); }

Status LinkStream::attach(std::uint32_t ppa) {
  Result<std::shared_ptr<Link>> opened = opener_(set(), ppa);
  if (!opened) {
    return std::unexpected(std::move(opened.error()));
  }
  link_ = std::move(*opened);
  link_->attach(*this);
  const std::size_t high = std::max(high_water_bytes_min, 4 * link_->mtu());
  write_queue().set_marks({.high_bytes = high, .low_bytes = high / 4});
  state_ = DL_UNBOUND;
  return {};
}

void LinkStream::detach() {
  raw_ = segments_wanted_ = false;
  notifications_ = 0;
  pending_.clear();
  write_queue().flush(FlushKind::all);
  if (link_ != nullptr) {
    link_->detach(*this);
    link_.reset();
  }
  subscription_ = {};
  state_ = DL_UNATTACHED;
}

// ---- Down ----

inline void LinkStream::send(Batch&& frames) {
  if (frames.empty()) {
    return;
  }
  if (std::exchange(splits_, false)) [[unlikely]] {
    frames = link_->split_super_frames(std::move(frames));
  }
  if (write_queue().empty()) {
    link_->send(frames);
  }
  if (!frames.empty()) {
    hold(std::move(frames));
  }
}

void LinkStream::wput(Batch&& batch) {
  Batch rest = batch.retain_until([this](Message& message) {
    return !is_unitdata_request(message) ? Batch::Step::stop
           : make_frame(message)         ? Batch::Step::keep
                                         : Batch::Step::drop;
  });
  Batch& frames = batch;
  while (Message message = rest.pop()) {
    if (is_super_frame(message)) {
      if (make_super_frame(message)) {
        frames.push(std::move(message));
      }
    } else if (const bool unitdata = is_unitdata_request(message); unitdata || message.type() == MessageType::data) {
      if (unitdata ? make_frame(message) : make_raw_frame(message)) {
        frames.push(std::move(message));
      }
    } else {
      send(std::move(frames));
      control(std::move(message));
    }
  }
  send(std::move(frames));
}

bool LinkStream::make_frame(Message& request) {
  const Decoded<UnitdataReq> decoded = request_of(request);
  const std::size_t size = request.data_size();
  const std::uint32_t error = state_ != DL_IDLE                                            ? DL_OUTSTATE
                              : !decoded || decoded->destination.sap < wire::ethertype_min ? DL_BADADDR
                              : size == 0 || size > link_->mtu()                           ? DL_BADDATA
                              : !are_priorities(decoded->priority)                         ? DL_UNSUPPORTED
                              : !link_->up()                                               ? DL_UNDELIVERABLE
                                                                                           : std::uint32_t{0};
  if (error != 0) [[unlikely]] {
    return unitdata_error(request, error);
  }
  const Bytes header = request.prepend_data(wire::EthernetHeader::size);
  if (header.empty()) {
    count(LinkCounter::no_memory);
    return false;
  }
  wire::EthernetHeader{decoded->destination.mac, link_->address(), decoded->destination.sap}.emit(header);
  while (request.type() != MessageType::data) {
    request.pop_block();
  }
  return complete(request);
}

/// The pass of a fused path: what the link gets is a frame of real bytes that nobody wants back.
bool LinkStream::complete(Message& frame) {
  if (frame.fused() && frame.gather() == TransformResult::failed) {
    count(LinkCounter::no_memory);
    return false;
  }
  return true;
}

/// Of a request for several frames, which keeps its descriptor. Who splits it makes the pass; one to which nothing but
/// the copy is owed is left to the device, which gathers it from the user's memory.
bool LinkStream::make_super_frame(Message& request) {
  const wire::dlpi::LinkAddress to = request.native<DataUnit>()->destination;
  const std::uint8_t protocol = request.native<DataUnit>()->protocol;
  const std::uint32_t error = state_ != DL_IDLE                          ? DL_OUTSTATE
                              : to.sap < wire::ethertype_min             ? DL_BADADDR
                              : !fits_in_segments(request, link_->mtu()) ? DL_BADDATA
                              : !link_->up()                             ? DL_UNDELIVERABLE
                                                                         : std::uint32_t{0};
  if (error != 0) {
    return unitdata_error(request, error);
  }
  const Bytes header = request.prepend_data(wire::EthernetHeader::size);
  const bool splits = !link_->takes_super_frames(protocol);
  const bool is_ready = splits || !request.fused() || (request.owes_copy_only() && link_->reads_lent_memory());
  if (header.empty()) {
    count(LinkCounter::no_memory);
    return false;
  }
  wire::EthernetHeader{to.mac, link_->address(), to.sap}.emit(header);
  splits_ = splits_ || splits;
  return is_ready || complete(request);
}

/// DL_UNITDATA_REQ: "If the request is erroneous, message DL_UDERROR_IND is returned, and the resulting state is
/// unchanged." Returns false.
bool LinkStream::unitdata_error(Message& request, std::uint32_t error) {
  count(LinkCounter::bad_unitdata);
  UderrorInd indication;
  indication.error = error;
  if (const Decoded<UnitdataReq> decoded = request_of(request)) {
    indication.destination = decoded->destination;
  }
  put_up(indication, MessageType::proto, &request);
  return false;
}

bool LinkStream::make_raw_frame(Message& message) {
  const std::size_t size = message.size();
  const bool fits = link_ != nullptr && link_->up() && size > wire::EthernetHeader::size &&
                    size <= link_->mtu() + wire::EthernetHeader::size;
  if (!raw_ || !fits) {
    count(LinkCounter::unexpected);
    return false;
  }
  return complete(message);
}

/// Lets frames wait for the device. Whoever heeds flow control never meets the bound.
void LinkStream::hold(Batch frames) {
  const std::size_t bound = overrun_factor * write_queue().marks().high_bytes;
  while (Message frame = frames.pop()) {
    if (write_queue().bytes() < bound) {
      write_queue().enqueue(std::move(frame));
    } else {
      count(LinkCounter::transmit_overrun);
    }
  }
}

void LinkStream::wsrv() {
  std::array<Message, Link::burst_frames_max> back;
  bool room = true;
  while (room && !write_queue().empty()) {
    Batch frames;
    Message looped;
    // Never an empty dequeue: after one, put_back() would schedule us again while the device is full.
    for (std::size_t count = std::min(back.size(), write_queue().messages()); count > 0 && !looped; --count) {
      Message message = write_queue().dequeue();
      if (message.type() == MessageType::ctl) {
        looped = std::move(message);
      } else {
        frames.push(std::move(message));
      }
    }
    if (!frames.empty()) {
      link_->send(frames);
    }
    room = frames.empty();
    if (looped && (!room || !link_->loop(looped))) {
      room = false;
      write_queue().put_back(std::move(looped));
    }
    std::size_t left = 0;
    while (Message frame = frames.pop()) {
      back[left++] = std::move(frame);
    }
    while (left > 0) {
      write_queue().put_back(std::move(back[--left]));
    }
  }
}

void LinkStream::control(Message message) {
  switch (message.type()) {
    case MessageType::proto:
    case MessageType::pcproto:
      request(std::move(message));
      return;
    case MessageType::ctl:
      if (primitive_of(message.bytes()) == DL_LOOPBACK) {
        return loop(std::move(message));
      }
      if (primitive_of(message.bytes()) == DL_ADDRESS_REQ) {
        return note_address(message);
      }
      request(std::move(message));
      return;
    case MessageType::ioctl:
      ioctl(std::move(message));
      return;
    case MessageType::flush:
      turn_flush(std::move(message));
      return;
    default:
      count(LinkCounter::unexpected);
  }
}

/// What waits goes first, so that datagrams to one place keep their order.
void LinkStream::loop(Message message) {
  const std::optional<Loopback> asked = Loopback::decode(message.bytes());
  if (!asked || state_ != DL_IDLE || !takes_looped(asked->sap) || !message.has_data()) {
    count(LinkCounter::unexpected);
    return;
  }
  if (keep(message, Side::write) == TransformResult::failed) {
    return;  // counted
  }
  if (!write_queue().empty() || !link_->loop(message)) {
    hold(Batch(std::move(message)));
  }
}

void LinkStream::note_address(const Message& message) {
  const std::optional<AddressReq> request = AddressReq::decode(message.bytes());
  if (!request || link_ == nullptr) {
    count(LinkCounter::unexpected);
    return;
  }
  link_->note_address(*this, *request);
}

bool LinkStream::tell(const AnswerInd& answering) { return put_up(answering, MessageType::ctl); }

void LinkStream::ioctl(Message message) {
  if (ioctl_block(message).command == wire::SLIOCRECEIVEROOM && link_ != nullptr) {
    const std::int32_t room = wire::receive_room_value(link_->receive_room());
    return read_queue().put_next(ioctl_acknowledged(std::move(message), room));
  }
  const bool raw = ioctl_block(message).command == DLIOCRAW && state_ != DL_UNATTACHED;
  raw_ = raw_ || raw;
  read_queue().put_next(raw ? ioctl_acknowledged(std::move(message)) : ioctl_refused(std::move(message), EINVAL));
}

// ---- Up ----

bool LinkStream::put_up(const Reply& reply, Message* spent) {
  const bool sent = owed_.send(reply.bytes, reply.type, spent);
  count(LinkCounter::no_memory, sent ? 0 : 1);
  return sent;
}

/// An empty message is one that no memory was left for.
void LinkStream::up(Message message) {
  if (message) {
    read_queue().put_next(std::move(message));
  } else {
    count(LinkCounter::no_memory);
  }
}

namespace {

/// What is said of a frame with the Ethernet header at `header`.
DataUnit indication_of(const std::byte* header) {
  const auto sap = load_big_endian<std::uint16_t>(header + 2 * wire::MacAddress::size);
  const auto to = wire::MacAddress::load(header);
  return {.kind = DataUnit::Kind::link_indication,
          .group = to.is_multicast(),
          .destination = {to, sap},
          .source = {wire::MacAddress::load(header + wire::MacAddress::size), sap}};
}

}  // namespace

void LinkStream::take(Message frame) {
  defer_if_fused(frame);
  if (raw_) {
    return pend(std::move(frame));
  }
  std::array<std::byte, wire::EthernetHeader::size> scratch;
  const std::byte* const header = frame.front(scratch.size(), scratch.data());
  if (std::memcmp(header, last_header_.data(), last_header_.size()) != 0) [[unlikely]] {
    std::memcpy(last_header_.data(), header, last_header_.size());
    last_indication_ = indication_of(header);
  }
  Message message = Message::of_native(set().pool(), last_indication_);
  if (!message) {
    return count(LinkCounter::no_memory);
  }
  frame.trim_data_front(wire::EthernetHeader::size);
  message.link(std::move(frame));
  pend(std::move(message));
}

/// The descriptor that says how it is divided becomes that of the indication.
void LinkStream::take_super_frame(Message frame) {
  defer_if_fused(frame);
  std::array<std::byte, wire::EthernetHeader::size> scratch;
  const std::byte* const header = frame.front(scratch.size(), scratch.data());
  DataUnit& unitdata = *frame.native<DataUnit>();
  const DataUnit sent = std::exchange(unitdata, indication_of(header));
  unitdata.header_size = sent.header_size;
  unitdata.segment_size = sent.segment_size;
  unitdata.checksum_offloaded = sent.checksum_offloaded;
  frame.trim_data_front(wire::EthernetHeader::size);
  pend(std::move(frame));
}

/// A stream that the link waits for never drops here: its frames wait in the device (Link::may_receive).
void LinkStream::deliver_pending() {
  if (pending_.empty()) {
    return;
  }
  Batch burst(std::move(pending_));
  if (!link_->waits_for(*this) && !read_queue().can_put_next()) {
    count(LinkCounter::flow_dropped, burst.size());
    return;
  }
  read_queue().put_next(std::move(burst));
}

void LinkStream::rsrv() {
  if (link_ == nullptr) {
    return;
  }
  if (link_->has_looped()) [[unlikely]] {
    const std::shared_ptr<Link> link = link_;  // a stream above may detach this one
    link->serve_loop();
    return link->on_room();
  }
  link_->on_room();
}

void LinkStream::notify(std::uint32_t notification) {
  if ((notifications_ & notification) == 0) {
    return;
  }
  NotifyInd indication;
  indication.notification = notification;
  if (notification == DL_NOTE_SDU_SIZE) {
    indication.data = static_cast<std::uint32_t>(link_->mtu());
  } else if (notification == DL_NOTE_PHYS_ADDR) {
    const std::uint16_t sap = subscription_.saps.empty() ? std::uint16_t{0} : subscription_.saps.front();
    indication.address = LinkAddress{link_->address(), sap};
  }
  put_up(indication, MessageType::proto);
}

}  // namespace sluice::dlpi
