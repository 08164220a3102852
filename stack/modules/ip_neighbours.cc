// SPDX-License-Identifier: Apache-2.0
#include "stack/modules/ip_neighbours.h"

#include <algorithm>
#include <array>
#include <utility>

namespace sluice::ip {
namespace {

using wire::IpAddress;
using wire::MacAddress;

using enum NeighbourState;

constexpr NeighbourTransition to(NeighbourState next, int actions = 0) {
  return {next, static_cast<std::uint8_t>(actions)};
}

/// RFC 4861 appendix C, "State Machine for the Reachability State", with its events named after what they mean. Where
/// an event cannot come about (an entry without an address contradicted), the state stays.
constexpr NeighbourTransition table[neighbour_states][neighbour_events] = {
    // send,                        confirmed,                                announced,
    // contradicted, repeated, timeout, exhausted
    /* none */
    {to(incomplete, act_ask_all), to(none), to(stale, act_record),  //
     to(none), to(none), to(none), to(none)},
    /* incomplete */
    {to(incomplete), to(reachable, act_record | act_release), to(stale, act_record | act_release),  //
     to(incomplete), to(incomplete), to(incomplete, act_ask_all), to(none, act_give_up)},
    /* reachable; "If the state of the entry is REACHABLE, set it to STALE, but do not update the entry" (7.2.5) */
    {to(reachable, act_release), to(reachable, act_record), to(stale, act_record),  //
     to(stale), to(reachable), to(stale), to(stale)},
    /* stale */
    {to(delay, act_release), to(reachable, act_record), to(stale, act_record),  //
     to(stale), to(stale), to(stale), to(stale)},
    /* delay */
    {to(delay, act_release), to(reachable, act_record), to(stale, act_record),  //
     to(delay), to(delay), to(probe, act_ask_one), to(probe, act_ask_one)},
    /* probe */
    {to(probe, act_release), to(reachable, act_record), to(stale, act_record),  //
     to(probe), to(probe), to(probe, act_ask_one), to(none, act_give_up)},
};

}  // namespace

NeighbourTransition neighbour_transition(NeighbourState state, NeighbourEvent event) {
  return table[static_cast<std::size_t>(state)][static_cast<std::size_t>(event)];
}

Neighbours::Handle Neighbours::send(const IpAddress& address, Message packet, TimePoint now) {
  Entry* entry = find_or_create(address);
  if (entry == nullptr) {
    user_.undeliverable(std::move(packet), address, false);
    return {};
  }
  expire_reachable(*entry, now);
  entry->used = true;
  keep(*entry, std::move(packet));
  on(*entry, NeighbourEvent::send, now);
  return handle_of(*entry);
}

void Neighbours::heard(const IpAddress& address, const MacAddress& mac, TimePoint now) {
  Entry* entry = find_or_create(address);
  if (entry != nullptr) {
    expire_reachable(*entry, now);
    const bool known = entry->state != none && entry->state != incomplete && entry->mac == mac;
    on(*entry, known ? NeighbourEvent::repeated : NeighbourEvent::announced, now, mac);
  }
}

void Neighbours::advertised(const IpAddress& address, const MacAddress& mac, bool solicited, bool override_entry,
                            TimePoint now) {
  Entry* entry = find(address);
  if (entry == nullptr) {
    return;
  }
  expire_reachable(*entry, now);
  const bool fits = entry->state == incomplete || entry->mac == mac || override_entry;
  const bool news = entry->state == incomplete || entry->mac != mac;
  on(*entry,
     !fits       ? NeighbourEvent::contradicted
     : solicited ? NeighbourEvent::confirmed
     : news      ? NeighbourEvent::announced
                 : NeighbourEvent::repeated,
     now, mac);
}

void Neighbours::doubt_all() {
  for (Entry& entry : slots_) {
    if (entry.state == reachable) {
      entry.state = stale;
    }
  }
}

void Neighbours::expire(TimePoint now) {
  next_deadline_ = never;
  for (Entry& entry : slots_) {
    const bool timed = entry.state == incomplete || entry.state == delay || entry.state == probe;
    if (!timed) {
      continue;
    }
    if (entry.deadline <= now) {
      const bool exhausted = entry.state != delay && entry.solicitations >= solicitations_max;
      on(entry, exhausted ? NeighbourEvent::exhausted : NeighbourEvent::timeout, now);
    }
    if (entry.state != none) {
      next_deadline_ = std::min(next_deadline_, entry.deadline);
    }
  }
}

NeighbourState Neighbours::state(const IpAddress& address, TimePoint now) const {
  const auto found = index_.find(address);
  if (found == index_.end()) {
    return none;
  }
  const Entry& entry = slots_[found->second];
  return entry.state == reachable && now >= entry.deadline ? stale : entry.state;
}

/// No timer runs for reachable entries: that their time is over is noticed when they are looked at.
void Neighbours::expire_reachable(Entry& entry, TimePoint now) {
  if (entry.state == reachable && now >= entry.deadline) {
    on(entry, NeighbourEvent::timeout, now);
  }
}

void Neighbours::on(Entry& entry, NeighbourEvent event, TimePoint now, const MacAddress& mac) {
  const NeighbourTransition transition = neighbour_transition(entry.state, event);
  const bool restarts = event == NeighbourEvent::timeout || event == NeighbourEvent::confirmed;
  if (transition.next != entry.state || restarts) {
    enter(entry, transition.next, now);
  }
  act(entry, transition.actions, mac);
  if (entry.state == none) {
    remove(entry);
  }
}

/// Starts the time of a state. Reachable: RFC 4861 section 6.3.2, "a uniformly distributed random value between
/// MIN_RANDOM_FACTOR and MAX_RANDOM_FACTOR times BaseReachableTime", so that hosts do not probe in step.
void Neighbours::enter(Entry& entry, NeighbourState state, TimePoint now) {
  if (state != entry.state) {
    entry.solicitations = 0;
  }
  entry.state = state;
  if (state == reachable) {
    const Duration base = entry.address.is_v4() ? reachable_time : reachable_time_v6_;
    const auto half = static_cast<std::uint64_t>(base.count() / 2);
    entry.deadline = now + Duration(static_cast<Duration::rep>(half + prng_.below(2 * half)));
    return;
  }
  if (state == incomplete || state == probe || state == delay) {
    const Duration retransmit = entry.address.is_v4() ? retransmit_time : retransmit_time_v6_;
    entry.deadline = now + (state == delay ? delay_first_probe_time : retransmit);
    next_deadline_ = std::min(next_deadline_, entry.deadline);
  }
}

void Neighbours::act(Entry& entry, std::uint8_t actions, const MacAddress& mac) {
  if ((actions & act_record) != 0) {
    entry.mac = mac;
  }
  if ((actions & (act_release | act_give_up)) != 0) {
    while (Message packet = entry.waiting.pop()) {
      --waiting_;
      if ((actions & act_release) != 0) {
        user_.transmit(std::move(packet), entry.address, entry.mac);
      } else {
        user_.undeliverable(std::move(packet), entry.address, true);
      }
    }
  }
  if ((actions & (act_ask_all | act_ask_one)) != 0) {
    ++entry.solicitations;
    user_.solicit(entry.address, (actions & act_ask_one) != 0 ? std::optional(entry.mac) : std::nullopt);
  }
}

/// RFC 4861 section 7.2.2: "When a queue overflows, the new arrival SHOULD replace the oldest entry."
void Neighbours::keep(Entry& entry, Message packet) {
  const bool full = entry.waiting.size() >= waiting_per_neighbour_max || waiting_ >= waiting_max;
  if (full && entry.waiting.empty()) {
    user_.displaced(std::move(packet));
    return;
  }
  if (full) {
    user_.displaced(entry.waiting.pop());
    --waiting_;
  }
  entry.waiting.push(std::move(packet));
  ++waiting_;
}

Neighbours::Entry* Neighbours::find(const IpAddress& address) {
  const auto found = index_.find(address);
  return found == index_.end() ? nullptr : &slots_[found->second];
}

Neighbours::Entry* Neighbours::find_or_create(const IpAddress& address) {
  if (Entry* entry = find(address)) {
    return entry;
  }
  Entry* entry = take_slot();
  if (entry != nullptr) {
    entry->address = address;
    entry->used = false;
    index_.emplace(address, static_cast<std::uint32_t>(entry - slots_.data()));
  }
  return entry;
}

/// A free slot, a new one, or that of a stale entry: the first one the hand finds that was not used since it last
/// passed. Where nothing is stale, one whose neighbour has yet to confirm itself: hosts that never were there, asking
/// for us, must not keep out one that is.
Neighbours::Entry* Neighbours::take_slot() {
  if (!free_.empty()) {
    Entry& entry = slots_[free_.back()];
    free_.pop_back();
    return &entry;
  }
  if (slots_.size() < entries_max_) {
    return &slots_.emplace_back();
  }
  Entry* entry = next_entry([](Entry& at) { return at.state == stale && !std::exchange(at.used, false); });
  if (entry == nullptr) {
    entry = next_entry([](Entry& at) { return at.state == delay || at.state == probe; });
  }
  if (entry != nullptr) {
    remove(*entry);
    free_.pop_back();
  }
  return entry;
}

/// Moves the hand, twice around at most, to the next entry that `may_go`.
Neighbours::Entry* Neighbours::next_entry(bool (*may_go)(Entry&)) {
  for (std::size_t steps = 0; steps < 2 * slots_.size(); ++steps) {
    Entry& entry = slots_[hand_];
    hand_ = (hand_ + 1) % slots_.size();
    if (may_go(entry)) {
      return &entry;
    }
  }
  return nullptr;
}

void Neighbours::remove(Entry& entry) {
  index_.erase(entry.address);
  entry.state = none;
  entry.deadline = never;
  ++entry.generation;
  free_.push_back(static_cast<std::uint32_t>(&entry - slots_.data()));
}

Neighbours::Handle Neighbours::handle_of(const Entry& entry) const {
  return {static_cast<std::uint32_t>(&entry - slots_.data()), entry.generation};
}

}  // namespace sluice::ip
