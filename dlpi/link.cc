// SPDX-License-Identifier: Apache-2.0
#include "dlpi/link.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "dlpi/link_stream.h"
#include "dlpi/super_frame.h"
#include "dlpi/vlan.h"
#include "stack/wire/dlpi.h"
#include "stack/wire/ethernet.h"
#include "stack/wire/loopback.h"

namespace sluice::dlpi {
namespace {

using wire::ethernet_size;

std::uint16_t type_of(ConstBytes head) { return load_big_endian<std::uint16_t>(head.data() + ethernet_size - 2); }

/// Whether it loops for the members of a group.
bool looped_group(const Message& message) {
  return wire::dlpi::Loopback::decode(message.bytes()).value_or(wire::dlpi::Loopback{}).group.is_multicast();
}

}  // namespace

Link::Link(StreamSet& set, std::string name, const wire::MacAddress& address, std::size_t mtu)
    : set_(set),
      name_(std::move(name)),
      address_(address),
      factory_address_(address),
      mtu_(mtu),
      drops_timer_(set.scheduler(), [this] { ask_drops(); }) {}

Link::~Link() = default;

void Link::attach(LinkStream& stream) {
  streams_.push_back(&stream);
  answering_.add(stream);
  stream.read_queue().enable();  // frames may have come while the link had no stream to take them
}

void Link::detach(LinkStream& stream) {
  std::erase(streams_, &stream);
  if (receivers_ == &stream) {
    receivers_ = stream.next_receiver();
  }
  for (LinkStream* one = receivers_; one != nullptr; one = one->next_receiver()) {
    one->skip_receiver(stream);
  }
  demultiplexer_.remove(stream, stream.subscription());
  wanted_.remove(stream.subscription());
  answering_.forget(stream);
  // The device may go on filtering for a stream that left: it then hands us frames that nobody claims.
  static_cast<void>(follow());
}

Status Link::subscription_changed(LinkStream& stream, const Subscription& before) {
  demultiplexer_.remove(stream, before);
  demultiplexer_.add(stream, stream.subscription());
  wanted_.remove(before);
  wanted_.add(stream.subscription());
  answering_.renew(stream, stream.subscription());
  return follow();
}

Status Link::follow() {
  choose_reader();
  last_.clear();
  tell_answering();
  return follow_interests();
}

Status Link::follow_interests() {
  Interests wanted = interests();
  if (wanted == interests_) {
    return {};
  }
  Status told = set_interests(wanted, interests_);
  if (told) {
    interests_ = std::move(wanted);
  }
  return told;
}

void Link::note_address(LinkStream& stream, const wire::dlpi::AddressReq& request) {
  if (!answering_.set(stream, request)) {
    stream.count(LinkCounter::unexpected);
  } else {
    tell_answering();
  }
  if (!follow_interests()) {
    stream.count(LinkCounter::no_memory);  // tried again with the next change
  }
}

void Link::tell_answering() {
  std::vector<Answering::Change> untold;
  while (const std::optional<Answering::Change> change = answering_.next()) {
    if (!change->stream->tell(change->told)) {
      untold.push_back(*change);
    }
  }
  for (const Answering::Change& change : untold) {
    answering_.not_told(change);
  }
}

Link::Interests Link::interests() const {
  Interests all = wanted_.together();
  if (!all.any_sap) {
    all.hosts = answering_.hosts();
  }
  if (all.hosts) {
    std::ranges::sort(*all.hosts);
  }
  return all;
}

Status Link::set_address(const wire::MacAddress&) {
  return fail(ENOTSUP, "the address of '" + name_ + "' cannot be changed from here");
}

/// Where two streams want more than to be bound, neither is beside the other.
void Link::choose_reader() {
  const auto is_reader = [this](const LinkStream* reader) {
    const Subscription& wanted = reader->subscription();
    return streams_.size() == 1 ||
           (!wanted.filters.empty() && std::ranges::all_of(streams_, [&](const LinkStream* one) {
             return one == reader || one->subscription().is_beside(wanted);
           }));
  };
  const bool possible = streams_.size() == 1 || wanted_.not_plain() == 1;
  const auto found = possible ? std::ranges::find_if(streams_, is_reader) : streams_.end();
  const LinkStream* const before = std::exchange(reader_, found == streams_.end() ? nullptr : *found);
  if (reader_ != before && !streams_.empty()) {
    streams_.front()->read_queue().enable();  // frames may have waited for another
  }
}

bool Link::may_receive() const { return reader_ == nullptr || reader_->read_queue().can_put_next(); }

void Link::transmit_ready() {
  for (LinkStream* stream : streams_) {
    if (!stream->write_queue().empty()) {
      stream->write_queue().enable();
    }
  }
}

void Link::accept(Message frame, const OffloadHeader& offload, Batch& burst) {
  if (offload.is_super_frame()) {
    return accept_super_frame(std::move(frame), offload, burst);
  }
  if ((offload.flags & OffloadHeader::needs_checksum) != 0) {
    const std::size_t size = frame.data_size();
    if (frame.block_count() > 1 && !frame.pull_up(size)) {
      return refuse(LinkCounter::no_memory, size);
    }
    if (!complete_checksum(frame.bytes(), offload)) {
      return refuse(LinkCounter::checksum_unknown, size);
    }
    count(LinkCounter::checksum_completed);
  }
  burst.push(std::move(frame));
}

void Link::accept_super_frame(Message frame, const OffloadHeader& offload, Batch& burst) {
  const std::size_t size = frame.data_size();
  const auto unitdata = read_super_frame(std::as_const(frame).bytes(), size, offload);
  if (!unitdata) {
    return refuse(unitdata.error() == SuperFrameError::malformed ? LinkCounter::super_frame_malformed
                                                                 : LinkCounter::super_frame_dropped,
                  size);
  }
  Message message = Message::of_native(set_.pool(), *unitdata);
  if (!message) {
    return refuse(LinkCounter::no_memory, size);
  }
  message.link(std::move(frame));
  burst.push(std::move(message));
}

[[gnu::always_inline]] inline void Link::receive_one(Message frame) {
  ++statistics_.frames_received;
  const std::size_t size = frame.data_size();
  statistics_.bytes_received += size;
  const ConstBytes first = std::as_const(frame).bytes();
  if (last_.matches(first) && size <= mtu_ + ethernet_size) {
    return last_stream_->take(std::move(frame));
  }
  if (is_super_frame(frame)) [[unlikely]] {
    return receive_super_frame(std::move(frame));
  }
  std::array<std::byte, FrameKey::head_size_max> scratch;
  const ConstBytes head = head_of(frame, scratch);
  if (head.size() < ethernet_size) {
    count(LinkCounter::short_frame);
  } else if (has_tag(head)) {
    receive_tagged(std::move(frame), head);
  } else {
    receive_untagged(std::move(frame), head);
  }
}

void Link::receive(Batch frames) {
  while (Message frame = frames.pop()) {
    receive_one(std::move(frame));
  }
  deliver();
}

/// What a stream does with its frames may detach others, or have others deliver first.
void Link::deliver() {
  while (receivers_ != nullptr) {
    LinkStream& stream = *receivers_;
    receivers_ = stream.next_receiver();
    stream.deliver_pending();
  }
}

Batch Link::split_super_frames(Batch frames) {
  Batch split;
  while (Message frame = frames.pop()) {
    if (!is_super_frame(frame)) {
      split.push(std::move(frame));
    } else if (Batch segments; split_super_frame(std::move(frame), segments)) {
      count(LinkCounter::super_frame_split);
      split.splice(std::move(segments));
    } else {
      count(LinkCounter::no_memory);
    }
  }
  return split;
}

/// It is counted as the frames that it stands for.
void Link::receive_super_frame(Message frame) {
  const std::size_t size = frame.data_size();
  const std::size_t segments = segments_in(frame);
  std::array<std::byte, FrameKey::head_size_max> scratch;
  const ConstBytes head = ConstBytes(scratch).first(std::min(size, scratch.size()));
  static_cast<void>(frame.copy_data_to(0, Bytes(scratch).first(head.size())));
  const FrameKey key = read_frame_key(head);
  const Demultiplexer::Fate fate = demultiplexer_.choose(key, address_, chosen_);
  // One too large for the MTU counts as such whether it comes alone or with others: those are looked at one by one.
  const std::size_t headers = header_bytes_in(frame);
  const std::size_t largest =
      headers + std::min<std::size_t>(frame.native<wire::DataUnit>()->segment_size, size - headers);
  if (fate == Demultiplexer::Fate::delivered && largest <= mtu_ + ethernet_size && chosen_.size() == 1 &&
      chosen_.front()->takes_super_frames()) {
    statistics_.frames_received += segments - 1;
    statistics_.bytes_received += (segments - 1) * headers;
    count(LinkCounter::super_frame_received);
    return chosen_.front()->take_super_frame(std::move(frame));
  }
  --statistics_.frames_received;
  statistics_.bytes_received -= size;
  Batch frames;
  if (!split_super_frame(std::move(frame), frames)) {
    frames.clear();
    return refuse(LinkCounter::no_memory, size);
  }
  count(LinkCounter::super_frame_split);
  while (Message one = frames.pop()) {
    receive_one(std::move(one));
  }
}

void Link::receive_untagged(Message frame, ConstBytes head) {
  if (frame.size() > mtu_ + ethernet_size) {
    count(LinkCounter::oversize_frame);
  } else {
    give(std::move(frame), read_frame_key(head), head);
  }
}

/// IEEE 802.1Q table 9-2, VID 0: "The null VLAN ID. Indicates that the tag header contains only priority information;
/// no VLAN identifier is present in the frame." The frame may be shared with others, so that the header gets a block of
/// its own instead of moving.
void Link::receive_tagged(Message frame, ConstBytes head) {
  constexpr std::size_t tag_size = 4;
  const bool whole = head.size() >= ethernet_size + tag_size;
  const auto type = whole ? type_of(head.subspan(tag_size)) : std::uint16_t{0};
  if (!whole || type_of(head) != ethertype_vlan || !is_null_vlan(load_big_endian<std::uint16_t>(head.data() + 14)) ||
      is_vlan_type(type)) {
    return count(LinkCounter::vlan_frame);
  }
  Message untagged = Message::copy_of(set_.pool(), head.first(ethernet_size));
  if (!untagged) {
    return count(LinkCounter::no_memory);
  }
  store_big_endian(untagged.bytes().data() + ethernet_size - 2, type);
  frame.trim_front(ethernet_size + tag_size);
  untagged.link(std::move(frame));
  std::array<std::byte, FrameKey::head_size_max> scratch;
  const ConstBytes new_head = head_of(untagged, scratch);
  receive_untagged(std::move(untagged), new_head);
}

void Link::refuse(LinkCounter why, std::size_t size) {
  ++statistics_.frames_received;
  statistics_.bytes_received += size;
  count(why);
}

void Link::refuse_unwanted(ConstBytes head, std::size_t size) {
  if (has_tag(head)) {
    return refuse(LinkCounter::vlan_frame, size);
  }
  if (size > mtu_ + ethernet_size) {
    return refuse(LinkCounter::oversize_frame, size);
  }
  ++statistics_.frames_received;
  statistics_.bytes_received += size;
  const FrameKey key = read_frame_key(head);
  count_unwanted(key, demultiplexer_.choose(key, address_, chosen_));
}

/// A frame that was cut before a stream bound its type is unclaimed, too.
void Link::count_unwanted(const FrameKey& key, Demultiplexer::Fate fate) {
  const bool ours = fate != Demultiplexer::Fate::not_ours;
  if (key.sap < wire::ethertype_min) {
    return count(LinkCounter::llc_frame);
  }
  statistics_.frames_unclaimed += ours ? 1U : 0U;
  count(ours ? LinkCounter::unclaimed : LinkCounter::not_ours);
}

void Link::give(Message frame, const FrameKey& key, ConstBytes head) {
  const Demultiplexer::Fate fate = demultiplexer_.choose(key, address_, chosen_);
  if (fate != Demultiplexer::Fate::delivered) {
    return count_unwanted(key, fate);
  }
  if (chosen_.size() == 1) {
    last_.take(head, key, demultiplexer_.asks_for_remotes());
    last_stream_ = chosen_.front();
  }
  for (std::size_t at = 0; at + 1 < chosen_.size(); ++at) {
    if (Message copy = frame.duplicate()) {
      chosen_[at]->take(std::move(copy));
    } else {
      chosen_[at]->count(LinkCounter::no_memory);
    }
  }
  chosen_.back()->take(std::move(frame));
}

bool Link::fused() const {
  return !streams_.empty() && std::ranges::all_of(streams_, [](const LinkStream* stream) {
    return stream->mode() == ProcessingMode::fused;
  });
}

void Link::drops_possible() {
  count(LinkCounter::kernel_dropped, take_drops(/*late=*/false));
  if (!drops_timer_.armed()) {
    drops_timer_.arm_after(drops_delay);
  }
}

/// Once after the last frame, and on and on while a stream is full, since then frames are dropped and nothing is read.
void Link::ask_drops() {
  count(LinkCounter::kernel_dropped, take_drops(/*late=*/true));
  if (!may_receive()) {
    drops_timer_.arm_after(drops_delay);
  }
}

bool Link::loop(Message& message) {
  if (looped_.size() >= loop_frames_max || looped_bytes_ >= loop_bytes_max) {
    if (looped_group(message)) {
      count(LinkCounter::flow_dropped);
      message.reset();
      return true;
    }
    loop_refused_ = true;
    return false;
  }
  looped_bytes_ += message.data_size();
  looped_.push(std::move(message));
  streams_.front()->read_queue().enable();
  return true;
}

void Link::serve_loop() {
  for (std::size_t left = std::min(looped_.size(), burst_frames_max); left > 0 && may_receive(); --left) {
    Message message = looped_.pop();
    looped_bytes_ -= message.data_size();
    deliver_looped(std::move(message));
  }
  deliver();
  if (loop_refused_ && looped_.size() < loop_frames_max / 2 && looped_bytes_ < loop_bytes_max / 2) {
    loop_refused_ = false;
    transmit_ready();
  }
  if (!looped_.empty() && !streams_.empty() && may_receive()) {
    streams_.front()->read_queue().enable();
  }
}

/// Chosen as for a frame to this station, or to the group; but only streams that have the SAP read what is in M_CTL.
void Link::deliver_looped(Message message) {
  const auto [sap, group] = wire::dlpi::Loopback::decode(message.bytes()).value_or(wire::dlpi::Loopback{});
  const bool to_group = group.is_multicast();
  std::array<std::byte, FrameKey::head_size_max> head{};
  const std::size_t seen = std::min(message.data_size(), head.size() - ethernet_size);
  wire::EthernetHeader{to_group ? group : address_, address_, sap}.emit(head);
  if (!message.copy_data_to(0, Bytes(head).subspan(ethernet_size, seen))) {
    return count(LinkCounter::no_memory);
  }
  const FrameKey key = read_frame_key(ConstBytes(head).first(ethernet_size + seen));
  static_cast<void>(demultiplexer_.choose(key, address_, chosen_));
  std::erase_if(chosen_, [sap](const LinkStream* stream) { return !stream->takes_looped(sap); });
  if (chosen_.empty()) {
    return to_group ? void() : count_unwanted(key, Demultiplexer::Fate::unclaimed);  // a group may have no member here
  }
  count(LinkCounter::looped);
  for (std::size_t at = 0; at + 1 < chosen_.size(); ++at) {
    if (Message copy = message.duplicate()) {
      chosen_[at]->take_looped(std::move(copy));
    } else {
      chosen_[at]->count(LinkCounter::no_memory);
    }
  }
  chosen_.back()->take_looped(std::move(message));
}

void Link::set_up(bool up) {
  if (up_ == up) {
    return;
  }
  up_ = up;
  notify(up ? wire::dlpi::DL_NOTE_LINK_UP : wire::dlpi::DL_NOTE_LINK_DOWN);
  transmit_ready();  // what waits for a link that is down is dropped, what waits for one that is up can go
}

void Link::set_mtu(std::size_t mtu) {
  if (mtu_ != mtu) {
    mtu_ = mtu;
    notify(wire::dlpi::DL_NOTE_SDU_SIZE);
  }
}

void Link::change_address(const wire::MacAddress& address) {
  if (address_ != address) {
    address_ = address;
    last_.clear();
    notify(wire::dlpi::DL_NOTE_PHYS_ADDR);
  }
}

void Link::notify(std::uint32_t notification) {
  for (std::size_t at = 0; at < streams_.size(); ++at) {
    streams_[at]->notify(notification);
  }
}

void Link::count(LinkCounter counter, std::uint64_t occurrences) {
  if (occurrences > 0 && !streams_.empty()) {
    streams_.front()->count(counter, occurrences);
  }
}

}  // namespace sluice::dlpi
