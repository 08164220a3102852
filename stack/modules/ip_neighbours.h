// SPDX-License-Identifier: Apache-2.0
#pragma once

// The neighbour cache: MAC addresses of hosts on the link, for ARP (RFC 826) and neighbour discovery (RFC 4861) alike.
// Both use one state machine, the one of RFC 4861 section 7.3.2, since its probing is what RFC 1122 section 2.3.2.1
// asks of ARP ("MUST provide a mechanism to flush out-of-date cache entries").
//
//     none ──send──► incomplete ──confirmed──► reachable ──time──► stale ──send──► delay ──time──► probe
//                        │ no answer                ▲                               │               │ no answer
//                        ▼                          └──────────────confirmed────────┴───────────────┤
//                      none                                                                         ▼ none
//
// A flood of ARP or neighbour discovery can neither grow the cache nor push out what is in use: entries are created
// only when we have something to send, or when a neighbour asks for us; stale ones make room, those unused longest
// first (second chance), then ones in delay or probe, whose neighbours are in doubt; when there are none, no entry is
// created.
//
// It keeps messages for neighbours that it still looks for. RFC 1122 section 2.3.2.2: "The link layer SHOULD save
// (rather than discard) at least one (the latest) packet of each set of packets destined to the same unresolved IP
// address".
//
// Our own addresses are the business of ip_addresses.h. Not thread-safe. Sends nothing itself: what is to be done goes
// to a NeighbourUser, which must not call back in.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "base/prng.h"
#include "base/time.h"
#include "stack/core/message.h"
#include "stack/wire/address.h"

namespace sluice::ip {

/// RFC 4861 section 7.3.2; `none` is the absence of an entry.
enum class NeighbourState : std::uint8_t { none, incomplete, reachable, stale, delay, probe };
inline constexpr std::size_t neighbour_states = 6;

enum class NeighbourEvent : std::uint8_t {
  send,          ///< we have a datagram for it
  confirmed,     ///< it answered our question: an ARP reply, a solicited advertisement
  announced,     ///< it told, unasked, an address we did not have for it: a request for us, a gratuitous reply
  contradicted,  ///< an advertisement with another address that is not to override ours
  repeated,      ///< it told, unasked, what we knew already
  timeout,       ///< the state's time is over
  exhausted,     ///< so it is, and all solicitations have been sent
};
inline constexpr std::size_t neighbour_events = 7;

/// What a transition does, a bit each.
enum NeighbourAction : std::uint8_t {
  act_record = 1,    ///< take the address that came with the event
  act_release = 2,   ///< send what waits
  act_ask_all = 4,   ///< solicit by broadcast or multicast
  act_ask_one = 8,   ///< solicit by unicast
  act_give_up = 16,  ///< report what waits as undeliverable
};

struct NeighbourTransition {
  NeighbourState next;
  std::uint8_t actions;
};

/// The event table.
[[nodiscard]] NeighbourTransition neighbour_transition(NeighbourState state, NeighbourEvent event);

class NeighbourUser {
 public:
  /// Ask for `target`: the neighbour at `to`, or everybody.
  virtual void solicit(const wire::IpAddress& target, const std::optional<wire::MacAddress>& to) = 0;
  virtual void transmit(Message packet, const wire::IpAddress& neighbour, const wire::MacAddress& to) = 0;
  /// `neighbour` does not answer, or there is no room to look for it (`asked` is then false).
  virtual void undeliverable(Message packet, const wire::IpAddress& neighbour, bool asked) = 0;
  /// An older packet made room for a newer one.
  virtual void displaced(Message packet) = 0;

 protected:
  ~NeighbourUser() = default;
};

class Neighbours {
 public:
  static constexpr std::size_t waiting_per_neighbour_max = 128;  // messages; a 64 KiB datagram in fragments of 576 fits
  static constexpr std::size_t waiting_max = 1024;               // messages, of all neighbours
  // RFC 4861 section 10.
  static constexpr int solicitations_max = 3;  // MAX_MULTICAST_SOLICIT, MAX_UNICAST_SOLICIT
  static constexpr Duration retransmit_time = std::chrono::seconds(1);
  static constexpr Duration reachable_time = std::chrono::seconds(30);  // on average; times 0.5 .. 1.5
  static constexpr Duration delay_first_probe_time = std::chrono::seconds(5);

  /// Where an entry is; stays valid until the entry is gone, which find() then notices.
  struct Handle {
    std::uint32_t slot = 0xffff'ffff;
    std::uint32_t generation = 0;
  };

  Neighbours(std::size_t entries_max, Prng& prng, NeighbourUser& user)
      : entries_max_(entries_max), prng_(prng), user_(user) {}

  /// The address of a neighbour known to be reachable; nullptr when there is more to it: then send() knows.
  [[nodiscard]] const wire::MacAddress* known(Handle handle, TimePoint now) {
    if (handle.slot >= slots_.size()) {
      return nullptr;
    }
    Entry& entry = slots_[handle.slot];
    if (entry.generation != handle.generation || entry.state != NeighbourState::reachable || now >= entry.deadline) {
      return nullptr;
    }
    entry.used = true;
    return &entry.mac;
  }

  /// Transmits `packet` to `address`, or keeps it until the neighbour has answered.
  Handle send(const wire::IpAddress& address, Message packet, TimePoint now);
  /// A neighbour asked for us: ARP request, neighbour solicitation. Creates an entry if there is room.
  void heard(const wire::IpAddress& address, const wire::MacAddress& mac, TimePoint now);
  /// A neighbour told its address: ARP reply, or a request that was not for us, or a neighbour advertisement. Without
  /// an entry it is ignored. RFC 4861 section 7.2.5: "There is no need to create an entry if none exists".
  void advertised(const wire::IpAddress& address, const wire::MacAddress& mac, bool solicited, bool override_entry,
                  TimePoint now);
  /// The link was away: what is known needs to be probed again.
  void doubt_all();
  /// RFC 4861 section 6.3.4: BaseReachableTime and RetransTimer of IPv6 neighbours, where a router has told.
  void set_reachable_time(Duration time) { reachable_time_v6_ = time; }
  void set_retransmit_time(Duration time) { retransmit_time_v6_ = time; }

  /// Handles what is due.
  void expire(TimePoint now);
  /// When expire() must be called; it may turn out that nothing is due.
  [[nodiscard]] TimePoint next_deadline() const { return next_deadline_; }

  [[nodiscard]] NeighbourState state(const wire::IpAddress& address, TimePoint now) const;
  [[nodiscard]] std::size_t size() const { return index_.size(); }
  [[nodiscard]] std::size_t waiting() const { return waiting_; }

 private:
  struct Entry {
    wire::IpAddress address;
    wire::MacAddress mac;
    NeighbourState state = NeighbourState::none;
    bool used = false;  // since the hand passed
    int solicitations = 0;
    std::uint32_t generation = 0;
    TimePoint deadline = never;
    Batch waiting;
  };

  Entry* find(const wire::IpAddress& address);
  Entry* find_or_create(const wire::IpAddress& address);
  Entry* take_slot();
  Entry* next_entry(bool (*may_go)(Entry&));
  void remove(Entry& entry);
  void on(Entry& entry, NeighbourEvent event, TimePoint now, const wire::MacAddress& mac = {});
  void enter(Entry& entry, NeighbourState state, TimePoint now);
  void act(Entry& entry, std::uint8_t actions, const wire::MacAddress& mac);
  void keep(Entry& entry, Message packet);
  void expire_reachable(Entry& entry, TimePoint now);
  Handle handle_of(const Entry& entry) const;

  std::size_t entries_max_;
  Prng& prng_;
  NeighbourUser& user_;
  Duration reachable_time_v6_ = reachable_time;
  Duration retransmit_time_v6_ = retransmit_time;
  std::vector<Entry> slots_;
  std::vector<std::uint32_t> free_;
  std::unordered_map<wire::IpAddress, std::uint32_t> index_;
  std::size_t hand_ = 0;
  std::size_t waiting_ = 0;
  TimePoint next_deadline_ = never;
};

}  // namespace sluice::ip
