// SPDX-License-Identifier: Apache-2.0
#pragma once

// Which groups routers and switches are told that this host is in, of one family: the host's side of MLD (RFC 3810, and
// RFC 2710 where a router is that old) or IGMP (RFC 3376; RFC 2236 and RFC 1112 likewise). A membership here is for any
// source: EXCLUDE mode without sources.
//
//     join ────► told at once, and once more (state change)      leave ───► likewise; then it is forgotten
//     query ───► told after a random delay of at most what the query says
//
// The threat: any host on the link can send queries. Each makes us send one report at most, and none while the answer
// to an earlier one still waits; those of a router that is not on the link are not heard (Ip::receive_mld,
// Ip::receive_igmp). One of an old version makes us speak it for some minutes, which every router understands.
//
// Bounded: groups_max, which fit in one report. Not thread-safe. Sends nothing itself: reports go to a GroupUser, which
// must not call back in.

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/prng.h"
#include "base/time.h"
#include "stack/wire/address.h"

namespace sluice::ip {

inline constexpr std::uint8_t protocol_igmp = 2;

/// RFC 3810 section 5.2.12 and RFC 3376 section 4.2.12 have the same numbers.
enum class GroupRecordType : std::uint8_t {
  mode_is_exclude = 2,
  change_to_include_mode = 3,  ///< without sources: left
  change_to_exclude_mode = 4,  ///< without sources: joined
};

struct GroupRecord {
  GroupRecordType type;
  wire::IpAddress group;

  friend bool operator==(const GroupRecord&, const GroupRecord&) = default;
};

class GroupUser {
 public:
  /// One report, in the newest version (MLDv2, IGMPv3).
  virtual void report_groups(std::span<const GroupRecord> records) = 0;
  /// One group joined or left, in an older `version`.
  virtual void report_group(const wire::IpAddress& group, bool left, unsigned version) = 0;

 protected:
  ~GroupUser() = default;
};

/// What a query asks, of whichever version.
struct GroupQuery {
  unsigned version = 0;
  wire::IpAddress group;  ///< unspecified: all
  Duration delay_max{};
};

class Groups {
 public:
  static constexpr std::size_t groups_max = 56;
  // RFC 3810 section 9 and RFC 3376 section 8.
  static constexpr int robustness = 2;
  static constexpr Duration unsolicited_report_interval = std::chrono::seconds(1);
  static constexpr Duration unsolicited_report_interval_old = std::chrono::seconds(10);  // RFC 2710 7.10, RFC 2236 8.10
  /// RFC 3810 section 9.12: "([Robustness Variable] times (the [Query Interval] in the last Query received)) plus
  /// ([Query Response Interval])", with their default values.
  static constexpr Duration older_version_querier_present = std::chrono::seconds(2 * 125 + 10);

  /// `newest`: 2 (MLD) or 3 (IGMP), which is spoken where no older router is heard.
  Groups(unsigned newest, Prng& prng, GroupUser& user) : newest_(newest), prng_(prng), user_(user) {}

  /// The host is in these, and tells; what it was in and is not in them, it leaves.
  void begin(const std::vector<wire::IpAddress>& groups, TimePoint now);
  /// False where there is no room.
  [[nodiscard]] bool join(const wire::IpAddress& group, TimePoint now);
  void leave(const wire::IpAddress& group, TimePoint now);
  /// As leave(), but routers are not told: another member of this host is left.
  void forget(const wire::IpAddress& group);

  void query(const GroupQuery& query, TimePoint now);
  /// Another host reported `group` in an old version, which is enough for its routers.
  void heard_report(const wire::IpAddress& group, TimePoint now);

  void expire(TimePoint now);
  [[nodiscard]] TimePoint next_deadline() const;

 private:
  struct Entry {
    wire::IpAddress group;
    bool leaving = false;
    bool reported_last = false;  // by us, in an old version
    int changes_left = 0;
    TimePoint change_at = never;
    TimePoint answer_at = never;
  };

  Entry* find(const wire::IpAddress& group);
  [[nodiscard]] unsigned version(TimePoint now) const;
  void set_version(TimePoint now);
  void tell_changes(TimePoint now);
  void tell_change_old(Entry& entry, TimePoint now);
  void answer(TimePoint now);
  /// Uniform from 0 to `bound`.
  [[nodiscard]] Duration random(Duration bound);

  unsigned newest_;
  Prng& prng_;
  GroupUser& user_;
  std::vector<Entry> entries_;
  TimePoint answer_all_at_ = never;
  std::array<TimePoint, 2> heard_until_{};  // routers of version 1, and of 2 where that is old
  unsigned version_ = newest_;
};

}  // namespace sluice::ip
