// SPDX-License-Identifier: Apache-2.0
#pragma once

// Whose our addresses are: asks whether another host has one (RFC 4862 section 5.4, RFC 5227 section 2.1), announces
// them, and deals with hosts that claim them.
//
//                 detect                                    not detect
//     tentative ──► asks, waits ──silence──► ours ◄──────────── at once; asks, too, and announces
//         │ another host claims it             │ another host claims it
//         ▼                                    ▼
//     duplicate: not used                    kept; defended (RFC 5227 section 2.4 (c)), once in DEFEND_INTERVAL
//
// An address that is ours is never given up. The threat: any host on the link can claim any address, so giving up on a
// claim would let it take a configured host off the link with one frame. RFC 5227 section 2.4 (c) lets a host that is
// "configured such that it should not give up its address under any circumstances" keep it; such a host "should [...]
// inform an administrator of the problem": conflicts(). While it is tentative the RFCs leave no choice, and that one
// frame is enough: so detection is the stack file's to ask for.
//
// Bounded: one entry for each address; a claim of an address that is not here changes nothing. Not thread-safe. Sends
// nothing itself: what is to be done goes to an AddressUser, which must not call back in.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/prng.h"
#include "base/time.h"
#include "stack/wire/address.h"

namespace sluice::ip {

class AddressUser {
 public:
  /// "Has anybody `address`?" An ARP probe, or a neighbour solicitation from the unspecified address.
  virtual void ask_for(const wire::IpAddress& address) = 0;
  /// "`address` is here." An ARP announcement, or an unsolicited neighbour advertisement.
  virtual void announce(const wire::IpAddress& address) = 0;
  /// A tentative address turned out to be ours, or not.
  virtual void address_settled(const wire::IpAddress& address, bool ours) = 0;

 protected:
  ~AddressUser() = default;
};

/// Another host has claimed an address of ours.
struct AddressConflict {
  wire::IpAddress address;
  wire::MacAddress other;
  bool given_up = false;  ///< it was tentative, and is not used

  friend bool operator==(const AddressConflict&, const AddressConflict&) = default;
};

class Addresses {
 public:
  // RFC 5227 section 1.1.
  static constexpr Duration probe_wait = std::chrono::seconds(1);
  static constexpr int probe_num = 3;
  static constexpr Duration probe_min = std::chrono::seconds(1);
  static constexpr Duration probe_max = std::chrono::seconds(2);
  static constexpr Duration announce_wait = std::chrono::seconds(2);
  static constexpr int announce_num = 2;
  static constexpr Duration announce_interval = std::chrono::seconds(2);
  static constexpr Duration defend_interval = std::chrono::seconds(10);
  // RFC 4861 section 10 and RFC 4862 section 5.1.
  static constexpr Duration solicitation_delay_max = std::chrono::seconds(1);  // MAX_RTR_SOLICITATION_DELAY
  static constexpr Duration retransmit_time = std::chrono::seconds(1);
  static constexpr int solicitations = 1;  // DupAddrDetectTransmits
  static constexpr std::size_t conflicts_max = 64;

  Addresses(bool detect, Prng& prng, AddressUser& user) : detect_(detect), prng_(prng), user_(user) {}

  /// All addresses begin, or begin anew: on a link that is up again, or after a change of the MAC address. Others are
  /// forgotten.
  void begin(const std::vector<wire::IpAddress>& addresses, TimePoint now);
  /// One address begins, or begins anew.
  void start(const wire::IpAddress& address, TimePoint now);
  /// It is ours no longer.
  void forget(const wire::IpAddress& address);
  /// RFC 4861 section 6.3.4: how long an answer over IPv6 is waited for, where a router has told.
  void set_retransmit_time(Duration time) { retransmit_time_ = time; }

  /// Another host claims `address`. Whether it is one that begins or holds here.
  bool claimed(const wire::IpAddress& address, const wire::MacAddress& by, TimePoint now);

  /// Handles what is due.
  void expire(TimePoint now);
  [[nodiscard]] TimePoint next_deadline() const;

  [[nodiscard]] bool is_tentative(const wire::IpAddress& address) const;
  /// Whether any address still waits to become ours.
  [[nodiscard]] bool settling() const;
  /// Whether any is not known to be another host's; true before begin().
  [[nodiscard]] bool any_usable() const;
  /// Each kind of conflict once an address, the first conflicts_max: what an administrator should hear of.
  [[nodiscard]] const std::vector<AddressConflict>& conflicts() const { return conflicts_; }
  [[nodiscard]] std::uint64_t defended() const { return defended_; }

 private:
  enum class State : std::uint8_t { tentative, ours, duplicate };
  struct Entry {
    wire::IpAddress address;
    State state = State::tentative;
    int left = 0;           // questions, or announcements
    bool asks_too = false;  // with the first announcement
    TimePoint deadline = never;
    TimePoint claimed_at = never;  // last; never: not yet
  };

  Entry* find(const wire::IpAddress& address);
  void ask(Entry& entry, TimePoint now);
  void announce(Entry& entry, TimePoint now);
  void note(const AddressConflict& conflict);
  /// From `from` on, uniformly for `width`.
  [[nodiscard]] Duration random(Duration from, Duration width);

  bool detect_;
  Prng& prng_;
  AddressUser& user_;
  Duration retransmit_time_ = retransmit_time;
  std::vector<Entry> entries_;
  std::vector<AddressConflict> conflicts_;
  std::uint64_t defended_ = 0;
};

}  // namespace sluice::ip
