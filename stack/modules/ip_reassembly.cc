// SPDX-License-Identifier: Apache-2.0
#include "stack/modules/ip_reassembly.h"

#include <algorithm>
#include <utility>

namespace sluice::ip {

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
  const Charge charged = charge(fragment.data);
  added.evicted += make_room(datagram);
  const bool has_room = bytes_ <= bytes_max_;
  added.outcome = has_room ? insert(*datagram, std::move(fragment), charged) : Outcome::no_room;
  if (added.outcome != Outcome::held) {
    discharge(charged, fragment.data);  // it was not taken
    if (added.outcome != Outcome::duplicate) {
      give_up(*datagram);
    }
    return added;
  }
  ++fragments_;
  if (datagram->end && datagram->received == *datagram->end) {
    const std::size_t evicted = added.evicted;
    added = finish(datagram);
    added.evicted = evicted;
  }
  return added;
}

/// A buffer that one block alone shows now is never shown by another: its only holder is here. One that is in shared_
/// is shown by a piece, and so by two blocks when the next one comes.
Reassembly::Charge Reassembly::charge(const Message& data) {
  Charge charged;
  for (const Block* block = &data.first(); block != nullptr; block = block->cont) {
    const Buffer& buffer = *block->buffer;
    if (buffer.references() == 1) [[likely]] {
      charged.alone += buffer.capacity();
      continue;
    }
    charged.shares = true;
    const auto [shared, is_new] = shared_.try_emplace(&buffer, SharedBuffer{.bytes = buffer.capacity()});
    ++shared->second.blocks;
    bytes_ += is_new ? shared->second.bytes : 0;
  }
  bytes_ += charged.alone;
  return charged;
}

/// REQUIRES: `data` is as it was when it was charged; its memory may have been reclaimed.
void Reassembly::discharge(const Charge& charged, const Message& data) {
  bytes_ -= charged.alone;
  for (const Block* block = charged.shares ? &data.first() : nullptr; block != nullptr; block = block->cont) {
    if (const auto shared = shared_.find(block->buffer); shared != shared_.end() && --shared->second.blocks == 0) {
      bytes_ -= shared->second.bytes;
      shared_.erase(shared);
    }
  }
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
Reassembly::Outcome Reassembly::insert(Datagram& datagram, Fragment&& fragment, const Charge& charge) {
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
  datagram.pieces.emplace_hint(after, begin, Piece{size, charge, std::move(fragment.data)});
  return Outcome::held;
}

/// Nothing is charged for them any more.
Reassembly::Pieces Reassembly::take_pieces(Datagram& datagram) {
  for (const auto& [offset, piece] : datagram.pieces) {
    discharge(piece.charge, piece.data);
  }
  fragments_ -= datagram.pieces.size();
  return std::exchange(datagram.pieces, {});
}

void Reassembly::give_up(Datagram& datagram) {
  take_pieces(datagram);
  datagram.given_up = true;
}

void Reassembly::remove(Datagrams::iterator datagram) {
  take_pieces(*datagram);
  index_.erase(datagram->key);
  datagrams_.erase(datagram);
}

/// What is charged already may be too much until this is done.
std::size_t Reassembly::make_room(Datagrams::iterator keep) {
  std::size_t evicted = 0;
  const auto full = [&] { return bytes_ > bytes_max_ || fragments_ >= fragments_max; };
  for (auto at = datagrams_.begin(); at != datagrams_.end() && full();) {
    const auto victim = at++;
    if (victim != keep && !victim->pieces.empty()) {
      remove(victim);
      ++evicted;
    }
  }
  return evicted;
}

Reassembly::Added Reassembly::finish(Datagrams::iterator datagram) {
  Pieces pieces = take_pieces(*datagram);
  Added added{.outcome = Outcome::complete,
              .datagram = std::move(pieces.begin()->second.data),
              .protocol = datagram->protocol,
              .header_size = datagram->header_size};
  Block* end = &added.datagram.first();
  for (auto piece = std::next(pieces.begin()); piece != pieces.end(); ++piece) {
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
    Pieces pieces = take_pieces(*datagram);
    const bool has_first = !pieces.empty() && pieces.begin()->first == 0;
    Expired expired{.key = datagram->key,
                    .first_fragment = has_first ? std::move(pieces.begin()->second.data) : Message(),
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
