// SPDX-License-Identifier: Apache-2.0
#include "dlpi/demultiplexer.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/contract.h"
#include "dlpi/link_stream.h"
#include "stack/wire/ethernet.h"
#include "stack/wire/ipv4.h"
#include "stack/wire/ipv6.h"
#include "stack/wire/protocol.h"

namespace sluice::dlpi {
namespace {

using wire::ethernet_size;

/// Most specific first: more members before fewer, then port before address before protocol.
constexpr std::array<unsigned, 8> shapes_by_specificity{15, 7, 6, 5, 3, 4, 2, 1};

constexpr unsigned without_address = 5;

/// What is known of a datagram to `local` whose transport header is at `offset`. Its ports UDP, TCP, SCTP, DCCP and
/// UDP-Lite all have at the same place.
FilterKey flow_of(std::uint16_t sap, const wire::IpAddress& local, const wire::IpAddress& remote, std::uint8_t protocol,
                  ConstBytes packet, std::size_t offset) {
  constexpr std::array<std::uint8_t, 5> with_ports{6, 17, 33, 132, 136};
  wire::dlpi::FilterReq flow{.sap = sap, .local = local, .protocol = protocol, .local_port = {}};
  if (std::ranges::find(with_ports, protocol) != with_ports.end() && packet.size() >= offset + 4) {
    flow.local_port = load_big_endian<std::uint16_t>(packet.data() + offset + 2);
    flow.remote = remote;
    flow.remote_port = load_big_endian<std::uint16_t>(packet.data() + offset);
  }
  return FilterKey::of(flow);
}

void read_ipv4(ConstBytes packet, FrameKey& key) {
  const auto ip = wire::Ipv4View::check_quoted(packet);
  if (!ip) {
    return;
  }
  key.to_all = ip->is_fragment() || ip->protocol() == wire::protocol_icmp4;
  key.flow = flow_of(key.sap, ip->destination(), ip->source(), ip->protocol(), packet, ip->header_length());
}

/// Hop-by-hop, routing, fragment, ESP, AH, destination options, mobility, HIP, shim6 (IANA's list of extension
/// headers).
bool is_extension_header(std::uint8_t next_header) {
  constexpr std::array<std::uint8_t, 9> extensions{0, 43, 44, 50, 51, 60, 135, 139, 140};
  return std::ranges::find(extensions, next_header) != extensions.end();
}

void read_ipv6(ConstBytes packet, FrameKey& key) {
  const auto ip = wire::Ipv6View::check_quoted(packet);
  if (!ip) {
    return;
  }
  key.to_all = is_extension_header(ip->next_header()) || ip->next_header() == wire::protocol_icmp6;
  key.flow = flow_of(key.sap, ip->destination(), ip->source(), ip->next_header(), packet, wire::Ipv6Header::size);
}

}  // namespace

bool Subscription::has_sap(std::uint16_t sap) const { return std::ranges::find(saps, sap) != saps.end(); }

bool Subscription::has_filter(std::uint16_t sap) const {
  return std::ranges::any_of(filters, [&](const auto& filter) { return filter.sap == sap; });
}

bool Subscription::is_beside(const Subscription& other) const {
  return is_plain() && std::ranges::all_of(saps, [&](std::uint16_t sap) { return other.has_sap(sap); });
}

bool Subscription::accepts_group(const wire::MacAddress& group) const {
  return group.is_broadcast() || std::ranges::find(groups, group) != groups.end();
}

FilterKey FilterKey::of(const wire::dlpi::FilterReq& filter) {
  SLUICE_REQUIRE(filter.remote.has_value() == filter.remote_port.has_value());
  FilterKey key;
  key.words[2] = filter.sap;
  if (filter.local_port) {
    key.words[2] |= has_port | std::uint64_t{*filter.local_port} << 16;
  }
  if (filter.protocol) {
    key.words[2] |= has_protocol | std::uint64_t{*filter.protocol} << 32;
  }
  if (filter.local) {
    key.words[2] |= has_address;
    std::memcpy(key.words.data(), filter.local->bytes().data(), filter.local->size());
  }
  if (filter.remote) {
    key.words[2] |= has_remote | std::uint64_t{*filter.remote_port} << 48;
    std::memcpy(key.words.data() + 3, filter.remote->bytes().data(), filter.remote->size());
  }
  return key;
}

FilterKey FilterKey::reduced_to(unsigned shape) const {
  FilterKey key = *this;
  key.words[2] = (words[2] & ~(std::uint64_t{15} << 40)) | std::uint64_t{shape} << 40;
  if ((shape & 8U) == 0) {
    key.words[2] &= ~(std::uint64_t{0xffff} << 48);
    key.words[3] = key.words[4] = 0;
  }
  if ((shape & 4U) == 0) {
    key.words[2] &= ~(std::uint64_t{0xffff} << 16);
  }
  if ((shape & 1U) == 0) {
    key.words[2] &= ~(std::uint64_t{0xff} << 32);
  }
  if ((shape & 2U) == 0) {
    key.words[0] = key.words[1] = 0;
  }
  return key;
}

std::size_t FilterKey::hash() const {
  const std::size_t local =
      wire::detail::mixed(words[0] ^ wire::detail::mixed(words[1] ^ wire::detail::mixed(words[2])));
  return (words[2] & has_remote) == 0 ? local : wire::detail::mixed(words[3] ^ wire::detail::mixed(words[4] ^ local));
}

FrameKey read_frame_key(ConstBytes head) {
  SLUICE_REQUIRE(head.size() >= ethernet_size);
  FrameKey key;
  key.destination = wire::MacAddress::load(head.data());
  key.source = wire::MacAddress::load(head.data() + wire::MacAddress::size);
  key.sap = load_big_endian<std::uint16_t>(head.data() + 2 * wire::MacAddress::size);
  const ConstBytes packet = head.subspan(ethernet_size);
  if (key.sap == wire::ethertype_ipv4) {
    read_ipv4(packet, key);
  } else if (key.sap == wire::ethertype_ipv6) {
    read_ipv6(packet, key);
  } else {
    key.to_all = true;
  }
  return key;
}

void FrameTemplate::take(ConstBytes head, const FrameKey& key, bool remote_decides) {
  using wire::Ipv4View;
  using wire::Ipv6View;
  constexpr std::size_t v4_ports = ethernet_size + Ipv4View::header_size_min;  // the source's and the destination's
  constexpr std::size_t v6_ports = ethernet_size + Ipv6View::header_size;
  constexpr std::size_t v4_size = v4_ports + 4;
  constexpr std::size_t v6_size = v6_ports + 4;
  clear();
  const bool v4 = key.sap == wire::ethertype_ipv4;
  const bool plain = !v4 || (head.size() > ethernet_size && head[ethernet_size] == std::byte{0x45});
  if (key.to_all || !plain || (key.flow.words[2] & FilterKey::has_port) == 0 ||
      head.size() < (v4 ? v4_size : v6_size)) {
    return;
  }
  std::array<std::byte, sizeof(Words)> mask{};
  const auto decides = [&mask](std::size_t from, std::size_t size, std::byte bits = std::byte{0xff}) {
    std::fill_n(mask.begin() + static_cast<std::ptrdiff_t>(from), size, bits);
  };
  decides(0, wire::MacAddress::size);
  decides(2 * wire::MacAddress::size, 2);
  if (v4) {
    constexpr std::size_t fragment = ethernet_size + Ipv4View::fragment_word_offset;
    decides(ethernet_size, 1);  // version and header length
    decides(fragment, 1, std::byte{Ipv4View::fragment_mask >> 8U});
    decides(fragment + 1, 1);
    decides(ethernet_size + Ipv4View::protocol_offset, 1);
    decides(ethernet_size + Ipv4View::destination_offset, wire::Ipv4Address::size);
    decides(v4_ports + 2, 2);
    if (remote_decides) {
      decides(ethernet_size + Ipv4View::source_offset, wire::Ipv4Address::size);
      decides(v4_ports, 2);
    }
  } else {
    decides(ethernet_size, 1, std::byte{0xf0});
    decides(ethernet_size + Ipv6View::next_header_offset, 1);
    decides(ethernet_size + Ipv6View::destination_offset, wire::Ipv6Address::size);
    decides(v6_ports + 2, 2);
    if (remote_decides) {
      decides(ethernet_size + Ipv6View::source_offset, wire::Ipv6Address::size);
      decides(v6_ports, 2);
    }
  }
  std::array<std::byte, sizeof(Words)> value{};
  std::ranges::copy(head.first(std::min(head.size(), value.size())), value.begin());
  std::memcpy(mask_.data(), mask.data(), sizeof(Words));
  std::memcpy(value_.data(), value.data(), sizeof(Words));
  for (std::size_t at = 0; at < value_.size(); ++at) {
    value_[at] &= mask_[at];
  }
  words_used_ = ((v4 ? v4_size : v6_size) + 7) / 8;
}

ConstBytes head_of(const Message& frame, std::array<std::byte, FrameKey::head_size_max>& scratch) {
  const ConstBytes first = frame.bytes();
  if (first.size() >= scratch.size() || frame.first().cont == nullptr) {
    return first.first(std::min(first.size(), scratch.size()));
  }
  const std::size_t size = std::min(frame.size(), scratch.size());
  return frame.copy_data_to(0, Bytes(scratch).first(size)) ? ConstBytes(scratch).first(size) : ConstBytes{};
}

Demultiplexer::SapGroup& Demultiplexer::group_for(std::uint16_t sap) {
  const auto at = std::ranges::find(groups_, sap, &SapGroup::sap);
  return at != groups_.end() ? *at : groups_.emplace_back(SapGroup{sap, {}, {}});
}

const Demultiplexer::SapGroup* Demultiplexer::find_group(std::uint16_t sap) const {
  const auto at = std::ranges::find(groups_, sap, &SapGroup::sap);
  return at == groups_.end() ? nullptr : &*at;
}

void Demultiplexer::add(LinkStream& stream, const Subscription& wanted) {
  for (const std::uint16_t sap : wanted.saps) {
    SapGroup& group = group_for(sap);
    group.all.push_back(&stream);
    if (!wanted.has_filter(sap)) {
      group.unfiltered.push_back(&stream);
    }
  }
  for (const auto& filter : wanted.filters) {
    const FilterKey key = FilterKey::of(filter);
    insert({key, &stream});
    if (const std::optional<Slot> member = member_of(filter, stream)) {
      members_.insert(std::ranges::upper_bound(members_, rank_of(*member), {}, rank_of), *member);
    }
  }
  if (wanted.watches()) {
    watchers_.push_back(&stream);
  }
}

void Demultiplexer::remove(LinkStream& stream, const Subscription& wanted) {
  for (const std::uint16_t sap : wanted.saps) {
    SapGroup& group = group_for(sap);
    std::erase(group.all, &stream);
    std::erase(group.unfiltered, &stream);
    if (group.all.empty()) {
      std::erase_if(groups_, [sap](const SapGroup& one) { return one.sap == sap; });
    }
  }
  for (const auto& filter : wanted.filters) {
    erase(FilterKey::of(filter));
    if (const std::optional<Slot> member = member_of(filter, stream)) {
      const auto same = std::ranges::equal_range(members_, rank_of(*member), {}, rank_of);
      members_.erase(std::ranges::find(same, *member));
    }
  }
  if (wanted.watches()) {
    std::erase(watchers_, &stream);
  }
}

std::optional<Demultiplexer::Slot> Demultiplexer::member_of(const wire::dlpi::FilterReq& filter, LinkStream& stream) {
  if (filter.remote) {
    return std::nullopt;
  }
  const FilterKey key = FilterKey::of(filter);
  return Slot{key.reduced_to(key.shape() & without_address), &stream};
}

void Demultiplexer::insert(const Slot& slot) {
  if (2 * (filters_ + 1) > slots_.size()) {
    const std::vector<Slot> before =
        std::exchange(slots_, std::vector<Slot>(std::max<std::size_t>(2 * slots_.size(), 8)));
    for (const Slot& one : before) {
      if (one.stream != nullptr) {
        slots_[place_of(one.key)] = one;
      }
    }
  }
  slots_[place_of(slot.key)] = slot;
  ++filters_;
  if (filters_of_shape_[slot.key.shape()]++ == 0) {
    shapes_used_ |= 1U << slot.key.shape();
  }
}

/// What stands behind it, up to the first free slot, moves forward where it would not be found any more: Knuth, The Art
/// of Computer Programming 3, section 6.4, algorithm R.
void Demultiplexer::erase(const FilterKey& key) {
  const std::size_t mask = slots_.size() - 1;
  std::size_t free = place_of(key);
  SLUICE_REQUIRE(slots_[free].stream != nullptr);
  for (std::size_t at = (free + 1) & mask; slots_[at].stream != nullptr; at = (at + 1) & mask) {
    const std::size_t home = slots_[at].key.hash() & mask;
    if (((at - home) & mask) >= ((at - free) & mask)) {
      slots_[free] = slots_[at];
      free = at;
    }
  }
  slots_[free] = {};
  --filters_;
  if (--filters_of_shape_[key.shape()] == 0) {
    shapes_used_ &= ~(1U << key.shape());
  }
}

/// Its slot, or the free one where it would be.
std::size_t Demultiplexer::place_of(const FilterKey& key) const {
  const std::size_t mask = slots_.size() - 1;
  std::size_t at = key.hash() & mask;
  while (slots_[at].stream != nullptr && slots_[at].key != key) {
    at = (at + 1) & mask;
  }
  return at;
}

LinkStream* Demultiplexer::find(const FilterKey& key) const { return slots_[place_of(key)].stream; }

bool Demultiplexer::taken(const FilterKey& filter, const LinkStream* asker) const {
  const LinkStream* holder = slots_.empty() ? nullptr : find(filter);
  return holder != nullptr && holder != asker;
}

LinkStream* Demultiplexer::most_specific(const FilterKey& flow) const {
  const unsigned known = flow.shape();
  for (const unsigned shape : shapes_by_specificity) {
    if ((shapes_used_ >> shape & 1U) == 0 || (shape & known) != shape) {
      continue;
    }
    if (LinkStream* stream = find(flow.reduced_to(shape)); stream != nullptr) {
      return stream;
    }
  }
  return nullptr;
}

/// The streams whose filter claims a datagram to a group: those of the most specific filters that any of them accepts.
/// False where there are none.
bool Demultiplexer::choose_members(const FrameKey& key, std::vector<LinkStream*>& chosen) const {
  const unsigned known = key.flow.shape();
  for (const unsigned shape : {5U, 4U, 1U, 0U}) {
    if ((shape & known) != shape) {
      continue;
    }
    const std::uint64_t rank = key.flow.reduced_to(shape).words[2];
    for (const Slot& slot : std::ranges::equal_range(members_, rank, {}, rank_of)) {
      if (slot.stream->subscription().accepts_group(key.destination) &&
          std::ranges::find(chosen, slot.stream) == chosen.end()) {
        chosen.push_back(slot.stream);
      }
    }
    if (!chosen.empty()) {
      return true;
    }
  }
  return false;
}

void Demultiplexer::choose_bound(const FrameKey& key, const SapGroup& group, std::vector<LinkStream*>& chosen) const {
  const auto accepts = [&](const LinkStream* stream) {
    return !key.destination.is_multicast() || stream->subscription().accepts_group(key.destination);
  };
  const bool to_members = key.destination.is_multicast() && !key.to_all && shapes_used_ != 0;
  if (to_members && choose_members(key, chosen)) {
    return;
  }
  if (!key.to_all && shapes_used_ != 0 && !to_members) {
    if (LinkStream* claimant = most_specific(key.flow); claimant != nullptr) {
      chosen.push_back(claimant);
      return;
    }
  }
  for (LinkStream* stream : key.to_all ? group.all : group.unfiltered) {
    if (accepts(stream)) {
      chosen.push_back(stream);
    }
  }
}

void Demultiplexer::choose_watchers(const FrameKey& key, bool to_us, std::vector<LinkStream*>& chosen) const {
  for (LinkStream* stream : watchers_) {
    const Subscription& wanted = stream->subscription();
    const bool watches = wanted.promiscuous_phys || (wanted.promiscuous_sap && to_us) ||
                         (wanted.promiscuous_multi && key.destination.is_multicast());
    if (watches && std::ranges::find(chosen, stream) == chosen.end()) {
      chosen.push_back(stream);
    }
  }
}

Demultiplexer::Fate Demultiplexer::choose(const FrameKey& key, const wire::MacAddress& own,
                                          std::vector<LinkStream*>& chosen) const {
  chosen.clear();
  const bool group_address = key.destination.is_multicast();
  const bool to_station = key.destination == own || key.destination.is_broadcast();
  const SapGroup* group = to_station || group_address ? find_group(key.sap) : nullptr;
  if (group != nullptr) {
    choose_bound(key, *group, chosen);
  }
  if (!watchers_.empty()) {
    choose_watchers(key, to_station || !chosen.empty(), chosen);
  }
  if (!chosen.empty()) {
    return Fate::delivered;
  }
  return to_station ? Fate::unclaimed : Fate::not_ours;
}

}  // namespace sluice::dlpi
