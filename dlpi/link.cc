// SPDX-License-Identifier: Apache-2.0
#include "dlpi/link.h"

#include <algorithm>
#include <array>
#include <cerrno>

#include "dlpi/link_stream.h"
#include "stack/wire/dlpi.h"
#include "stack/wire/ethernet.h"

namespace sluice::dlpi {
namespace {

constexpr std::uint16_t ethertype_vlan = 0x8100;          // IEEE 802.1Q
constexpr std::uint16_t ethertype_service_vlan = 0x88a8;  // IEEE 802.1ad

template <class Value>
void sort_and_unite(std::vector<Value>& values) {
  std::ranges::sort(values);
  const auto repeated = std::ranges::unique(values);
  values.erase(repeated.begin(), repeated.end());
}

}  // namespace

Link::Link(StreamSet& set, std::string name, const wire::MacAddress& address, std::size_t mtu)
    : set_(set), name_(std::move(name)), address_(address), factory_address_(address), mtu_(mtu) {}

Link::~Link() = default;

void Link::attach(LinkStream& stream) {
  streams_.push_back(&stream);
  stream.read_queue().enable();  // frames may have come while the link had no stream to take them
}

void Link::detach(LinkStream& stream) {
  std::erase(streams_, &stream);
  // The device may go on filtering for a stream that left: it then hands us frames that nobody claims.
  static_cast<void>(subscription_changed());
}

Status Link::subscription_changed() {
  demultiplexer_.rebuild(streams_);
  last_.clear();
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

Link::Interests Link::interests() const {
  Interests all;
  for (const LinkStream* stream : streams_) {
    const Subscription& wanted = stream->subscription();
    all.saps.insert(all.saps.end(), wanted.saps.begin(), wanted.saps.end());
    all.groups.insert(all.groups.end(), wanted.groups.begin(), wanted.groups.end());
    all.any_sap = all.any_sap || wanted.promiscuous_phys || wanted.promiscuous_sap || wanted.promiscuous_multi;
    all.all_groups = all.all_groups || wanted.promiscuous_multi;
    all.promiscuous = all.promiscuous || wanted.promiscuous_phys;
  }
  sort_and_unite(all.saps);
  sort_and_unite(all.groups);
  return all;
}

Status Link::set_address(const wire::MacAddress&) {
  return fail(ENOTSUP, "the address of '" + name_ + "' cannot be changed from here");
}

bool Link::may_receive() const { return streams_.size() != 1 || streams_.front()->read_queue().can_put_next(); }

void Link::transmit_ready() {
  for (LinkStream* stream : streams_) {
    if (!stream->write_queue().empty()) {
      stream->write_queue().enable();
    }
  }
}

void Link::receive(Batch frames) {
  while (Message frame = frames.pop()) {
    receive_one(std::move(frame));
  }
  // By index: what a stream does with its frames may attach or detach others.
  for (std::size_t at = 0; at < streams_.size(); ++at) {
    streams_[at]->deliver_pending();
  }
}

inline void Link::receive_one(Message frame) {
  ++statistics_.frames_received;
  const std::size_t size = frame.data_size();
  statistics_.bytes_received += size;
  const ConstBytes first = std::as_const(frame).bytes();
  if (last_.matches(first) && size <= mtu_ + wire::EthernetHeader::size) {
    return last_stream_->take(std::move(frame));
  }
  std::array<std::byte, FrameKey::head_size_max> scratch;
  const ConstBytes head = head_of(frame, scratch);
  if (acceptable(frame, head)) {
    give(std::move(frame), read_frame_key(head), head);
  }
}

bool Link::acceptable(const Message& frame, ConstBytes head) {
  if (head.size() < wire::EthernetHeader::size) {
    count(LinkCounter::short_frame);
    return false;
  }
  const auto type = load_big_endian<std::uint16_t>(head.data() + 12);
  if (type == ethertype_vlan || type == ethertype_service_vlan) {
    count(LinkCounter::vlan_frame);
    return false;
  }
  if (frame.size() > mtu_ + wire::EthernetHeader::size) {
    count(LinkCounter::oversize_frame);
    return false;
  }
  if (type < wire::ethertype_min) {
    count(LinkCounter::llc_frame);
  }
  return true;
}

void Link::give(Message frame, const FrameKey& key, ConstBytes head) {
  const Demultiplexer::Fate fate = demultiplexer_.choose(key, address_, chosen_);
  if (fate != Demultiplexer::Fate::delivered) {
    const bool unclaimed = fate == Demultiplexer::Fate::unclaimed;
    statistics_.frames_unclaimed += unclaimed ? 1U : 0U;
    count(unclaimed ? LinkCounter::unclaimed : LinkCounter::not_ours);
    return;
  }
  if (chosen_.size() == 1) {
    last_.take(head, key);
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
