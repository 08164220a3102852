// SPDX-License-Identifier: Apache-2.0
#include "stack/modules/ip_reassembly.h"

#include <algorithm>
#include <utility>

namespace sluice::ip {
namespace {

/// What a fragment really occupies: a few bytes can hold on to a whole frame's buffer.
std::size_t cost_of(const Message& message) {
  std::size_t cost = 0;
  for (const Block* block = &message.first(); block != nullptr; block = block->cont) {
    cost += std::max(block->buffer->capacity(), block->size());
  }
  return cost;
}

}  // namespace

std::size_t FragmentKeyHash::operator()(const FragmentKey& key) const {
  const std::hash<wire::IpAddress> hash;
  return wire::detail::mixed(hash(key.source) + 3 * hash(key.destination) + key.identification + key.protocol);
}

Reassembly::Added Reassembly::add(Fragment fragment, TimePoint now) {
  Added added;
  if (fragment.offset + fragment.data.size() > payload_max) {
    added.outcome = Outcome::out_of_range;
    return added;
  }
  const auto datagram = datagram_of(fragment.key, now, added.evicted);
  if (datagram->given_up) {
    added.outcome = Outcome::refused;
    return added;
  }
  const std::size_t cost = cost_of(fragment.data);
  added.evicted += make_room(cost, datagram);
  if (bytes_ + cost > bytes_max_) {
    give_up(*datagram);
    added.outcome = Outcome::no_room;
    return added;
  }
  added.outcome = insert(*datagram, std::move(fragment));
  if (added.outcome == Outcome::held) {
    datagram->cost += cost;
    bytes_ += cost;
    ++fragments_;
    if (datagram->end && datagram->received == *datagram->end) {
      const std::size_t evicted = added.evicted;
      added = finish(datagram);
      added.evicted = evicted;
    }
  } else if (added.outcome != Outcome::duplicate) {
    give_up(*datagram);
  }
  return added;
}

Reassembly::Datagrams::iterator Reassembly::datagram_of(const FragmentKey& key, TimePoint now, std::size_t& evicted) {
  if (const auto found = index_.find(key); found != index_.end()) {
    return found->second;
  }
  if (datagrams_.size() >= datagrams_max) {
    remove(datagrams_.begin());
    ++evicted;
  }
  Datagram& begun = datagrams_.emplace_back();
  begun.key = key;
  begun.deadline = now + timeout;
  const auto datagram = std::prev(datagrams_.end());
  index_.emplace(key, datagram);
  return datagram;
}

/// RFC 5722 section 4: "When reassembling an IPv6 datagram, if one or more its constituent fragments is determined to
/// be an overlapping fragment, the entire datagram (and any constituent fragments, including those not yet received)
/// MUST be silently discarded." We hold IPv4 to the same.
Reassembly::Outcome Reassembly::insert(Datagram& datagram, Fragment&& fragment) {
  const std::size_t begin = fragment.offset;
  const std::size_t size = fragment.data.size();
  const std::size_t end = begin + size;
  const auto after = datagram.pieces.upper_bound(begin);
  const bool has_before = after != datagram.pieces.begin();
  const std::size_t before_begin = has_before ? std::prev(after)->first : 0;
  const std::size_t before_end = has_before ? before_begin + std::prev(after)->second.size : 0;
  const bool ends_here = !fragment.more;
  const bool same_end = !ends_here || !datagram.end || *datagram.end == end;
  const bool same_range = has_before && before_begin == begin && before_end == end;
  const bool within = has_before && end <= before_end;
  if (same_end && (same_range || (within && fragment.key.source.is_v4()))) {
    return Outcome::duplicate;
  }
  const bool overlaps = before_end > begin || (after != datagram.pieces.end() && end > after->first);
  const bool beyond = datagram.end && end > *datagram.end;
  const bool cuts = ends_here && !datagram.pieces.empty() && datagram.pieces.rbegin()->first > begin;
  if (overlaps || beyond || cuts || !same_end) {
    return Outcome::overlap;
  }
  if (ends_here) {
    datagram.end = end;
  }
  if (begin == 0) {
    datagram.protocol = fragment.protocol;
    datagram.header_size = fragment.header_size;
  }
  datagram.received += size;
  datagram.pieces.emplace_hint(after, begin, Piece{size, std::move(fragment.data)});
  return Outcome::held;
}

void Reassembly::give_up(Datagram& datagram) {
  bytes_ -= std::exchange(datagram.cost, 0);
  fragments_ -= datagram.pieces.size();
  datagram.pieces.clear();
  datagram.given_up = true;
}

void Reassembly::remove(Datagrams::iterator datagram) {
  bytes_ -= datagram->cost;
  fragments_ -= datagram->pieces.size();
  index_.erase(datagram->key);
  datagrams_.erase(datagram);
}

std::size_t Reassembly::make_room(std::size_t cost, Datagrams::iterator keep) {
  std::size_t evicted = 0;
  const auto full = [&] { return bytes_ + cost > bytes_max_ || fragments_ >= fragments_max; };
  for (auto at = datagrams_.begin(); at != datagrams_.end() && full();) {
    const auto victim = at++;
    if (victim != keep && victim->cost > 0) {
      remove(victim);
      ++evicted;
    }
  }
  return evicted;
}

Reassembly::Added Reassembly::finish(Datagrams::iterator datagram) {
  Added added{.outcome = Outcome::complete,
              .datagram = std::move(datagram->pieces.begin()->second.data),
              .protocol = datagram->protocol,
              .header_size = datagram->header_size};
  Block* end = &added.datagram.first();
  for (auto piece = std::next(datagram->pieces.begin()); piece != datagram->pieces.end(); ++piece) {
    while (end->cont != nullptr) {
      end = end->cont;
    }
    end->cont = piece->second.data.release();
  }
  remove(datagram);
  return added;
}

void Reassembly::expire(TimePoint now, const OnExpired& on_expired) {
  for (auto at = datagrams_.begin(); at != datagrams_.end();) {
    const auto datagram = at++;
    if (datagram->deadline > now) {
      continue;
    }
    const bool has_first = !datagram->pieces.empty() && datagram->pieces.begin()->first == 0;
    Expired expired{.key = datagram->key,
                    .first_fragment = has_first ? std::move(datagram->pieces.begin()->second.data) : Message(),
                    .protocol = datagram->protocol,
                    .header_size = datagram->header_size};
    const bool counts = !datagram->given_up;
    remove(datagram);
    if (counts) {
      on_expired(std::move(expired));
    }
  }
}

TimePoint Reassembly::next_deadline() const {
  const auto first = std::ranges::min_element(datagrams_, {}, &Datagram::deadline);
  return first == datagrams_.end() ? never : first->deadline;
}

}  // namespace sluice::ip
