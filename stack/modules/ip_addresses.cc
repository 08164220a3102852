// SPDX-License-Identifier: Apache-2.0
#include "stack/modules/ip_addresses.h"

#include <algorithm>
#include <utility>

namespace sluice::ip {

using wire::IpAddress;
using wire::MacAddress;

Duration Addresses::random(Duration from, Duration width) {
  return from + Duration(static_cast<Duration::rep>(prng_.below(static_cast<std::uint64_t>(width.count()) + 1)));
}

Addresses::Entry* Addresses::find(const IpAddress& address) {
  const auto found = std::ranges::find(entries_, address, &Entry::address);
  return found == entries_.end() ? nullptr : &*found;
}

/// RFC 5227 section 2.1.1: "the host should then wait for a random time interval selected uniformly in the range zero
/// to PROBE_WAIT seconds, and should then send PROBE_NUM probe packets, each of these probe packets spaced randomly and
/// uniformly, PROBE_MIN to PROBE_MAX seconds apart." RFC 4862 section 5.4.2: "the node SHOULD delay joining the
/// solicited-node multicast address by a random delay between 0 and MAX_RTR_SOLICITATION_DELAY" (here it is the
/// question that waits; what is received meanwhile counts).
void Addresses::start(const IpAddress& address, TimePoint now) {
  Entry* entry = find(address);
  if (entry == nullptr) {
    entry = &entries_.emplace_back();
    entry->address = address;
  }
  entry->state = detect_ ? State::tentative : State::ours;
  entry->deadline = now;
  if (detect_) {
    entry->left = address.is_v4() ? probe_num : solicitations;
    entry->deadline = now + random({}, address.is_v4() ? probe_wait : solicitation_delay_max);
  } else {
    entry->left = announce_num;
    entry->asks_too = true;
  }
}

void Addresses::begin(const std::vector<IpAddress>& addresses, TimePoint now) {
  std::erase_if(entries_,
                [&](const Entry& entry) { return std::ranges::find(addresses, entry.address) == addresses.end(); });
  for (const IpAddress& address : addresses) {
    start(address, now);
  }
}

void Addresses::forget(const IpAddress& address) {
  std::erase_if(entries_, [&](const Entry& entry) { return entry.address == address; });
}

bool Addresses::claimed(const IpAddress& address, const MacAddress& by, TimePoint now) {
  Entry* const entry = find(address);
  if (entry == nullptr) {
    return false;
  }
  switch (entry->state) {
    case State::duplicate:
      return false;
    case State::tentative:
      entry->state = State::duplicate;
      entry->deadline = never;
      note({address, by, true});
      user_.address_settled(address, false);
      return true;
    case State::ours:
      break;
  }
  note({address, by, false});
  // RFC 5227 section 2.4 (c): "if this is not the first conflicting ARP packet the host has seen, and the time recorded
  // for the previous conflicting ARP packet is within DEFEND_INTERVAL seconds, then the host MUST NOT send another
  // defensive ARP Announcement." Neighbour discovery has no such rule; the same one keeps two hosts from a quarrel.
  const bool recent = entry->claimed_at != never && now - entry->claimed_at < defend_interval;
  entry->claimed_at = now;
  if (!recent) {
    ++defended_;
    user_.announce(address);
  }
  return true;
}

void Addresses::expire(TimePoint now) {
  for (Entry& entry : entries_) {
    if (entry.deadline > now) {
      continue;
    }
    if (entry.state == State::tentative) {
      ask(entry, now);
    } else {
      announce(entry, now);
    }
  }
}

void Addresses::ask(Entry& entry, TimePoint now) {
  const bool v4 = entry.address.is_v4();
  if (entry.left > 0) {
    --entry.left;
    // RFC 5227 section 2.1.1: "If, by ANNOUNCE_WAIT seconds after the transmission of the last ARP Probe no conflicting
    // ARP Reply or ARP Probe has been received, then the host has successfully determined that the desired address may
    // be used safely." RFC 4862 section 5.4: "An address is considered unique if none of the tests indicate the
    // presence of a duplicate address within RetransTimer milliseconds after having sent DupAddrDetectTransmits
    // Neighbor Solicitations."
    entry.deadline = now + (!v4               ? retransmit_time_
                            : entry.left == 0 ? announce_wait
                                              : random(probe_min, probe_max - probe_min));
    return user_.ask_for(entry.address);
  }
  entry.state = State::ours;
  entry.deadline = v4 ? now : never;
  entry.left = v4 ? announce_num : 0;
  user_.address_settled(entry.address, true);
  if (v4) {
    announce(entry, now);
  }
}

/// RFC 5227 section 2.3: "by broadcasting ANNOUNCE_NUM ARP Announcements, spaced ANNOUNCE_INTERVAL seconds apart." RFC
/// 4861 section 7.2.6 has the like for neighbour discovery: "a node MAY send up to MAX_NEIGHBOR_ADVERTISEMENT
/// unsolicited Neighbor Advertisement messages". Where nothing was asked before, it is asked now: hosts that say
/// nothing of an announcement of their address do answer the question for it.
void Addresses::announce(Entry& entry, TimePoint now) {
  if (std::exchange(entry.asks_too, false)) {
    user_.ask_for(entry.address);
  }
  --entry.left;
  entry.deadline = entry.left > 0 ? now + announce_interval : never;
  user_.announce(entry.address);
}

TimePoint Addresses::next_deadline() const {
  TimePoint next = never;
  for (const Entry& entry : entries_) {
    next = std::min(next, entry.deadline);
  }
  return next;
}

bool Addresses::is_tentative(const IpAddress& address) const {
  return std::ranges::any_of(
      entries_, [&](const Entry& entry) { return entry.address == address && entry.state == State::tentative; });
}

bool Addresses::settling() const {
  return std::ranges::any_of(entries_, [](const Entry& entry) { return entry.state == State::tentative; });
}

bool Addresses::any_usable() const {
  return entries_.empty() ||
         std::ranges::any_of(entries_, [](const Entry& entry) { return entry.state != State::duplicate; });
}

void Addresses::note(const AddressConflict& conflict) {
  const bool known = std::ranges::any_of(conflicts_, [&](const AddressConflict& at) {
    return at.address == conflict.address && at.given_up == conflict.given_up;
  });
  if (!known && conflicts_.size() < conflicts_max) {
    conflicts_.push_back(conflict);
  }
}

}  // namespace sluice::ip
