// SPDX-License-Identifier: Apache-2.0
#include "stack/modules/ip_groups.h"

#include <algorithm>

namespace sluice::ip {

using wire::IpAddress;

Duration Groups::random(Duration bound) {
  return Duration(static_cast<Duration::rep>(prng_.below(static_cast<std::uint64_t>(bound.count()) + 1)));
}

Groups::Entry* Groups::find(const IpAddress& group) {
  const auto found = std::ranges::find(entries_, group, &Entry::group);
  return found == entries_.end() ? nullptr : &*found;
}

/// RFC 3810 section 8.2.1: "The Host Compatibility Mode of an interface is set to MLDv1 whenever an MLDv1 Multicast
/// Address Listener Query is received on that interface. At the same time, the Older Version Querier Present timer for
/// the interface is set". RFC 3376 section 7.2.1 likewise, for two older versions.
unsigned Groups::version(TimePoint now) const {
  for (unsigned older = 1; older < newest_; ++older) {
    if (now < heard_until_[older - 1]) {
      return older;
    }
  }
  return newest_;
}

/// RFC 3810 section 8.2.1: "Whenever a host changes its compatibility mode, it cancels all its pending responses and
/// retransmission timers."
void Groups::set_version(TimePoint now) {
  if (version_ == version(now)) {
    return;
  }
  version_ = version(now);
  answer_all_at_ = never;
  std::erase_if(entries_, [](const Entry& entry) { return entry.leaving; });
  for (Entry& entry : entries_) {
    entry.changes_left = 0;
    entry.change_at = entry.answer_at = never;
  }
}

void Groups::begin(const std::vector<IpAddress>& groups, TimePoint now) {
  set_version(now);
  std::vector<IpAddress> left;
  for (const Entry& entry : entries_) {
    if (std::ranges::find(groups, entry.group) == groups.end()) {
      left.push_back(entry.group);
    }
  }
  for (const IpAddress& group : left) {
    leave(group, now);
  }
  for (const IpAddress& group : groups) {
    static_cast<void>(join(group, now));
  }
}

/// RFC 3810 section 6.1: "To cover the possibility of the State Change Report being missed by one or more multicast
/// routers, [Robustness Variable] - 1 retransmissions are scheduled, through a Retransmission Timer, at intervals
/// chosen at random from the range (0, [Unsolicited Report Interval])."
bool Groups::join(const IpAddress& group, TimePoint now) {
  set_version(now);
  Entry* entry = find(group);
  if (entry == nullptr && entries_.size() == groups_max) {
    return false;
  }
  if (entry == nullptr) {
    entry = &entries_.emplace_back();
    entry->group = group;
  }
  entry->leaving = false;
  entry->changes_left = robustness;
  entry->change_at = now;
  return true;
}

/// RFC 2710 section 4: "If the node's most recent Report message was suppressed by hearing another Report message, it
/// MAY send nothing". RFC 2236 section 3 likewise; version 1 of IGMP has no such message.
void Groups::leave(const IpAddress& group, TimePoint now) {
  set_version(now);
  Entry* const entry = find(group);
  if (entry == nullptr || entry->leaving) {
    return;
  }
  if (version_ == newest_) {
    entry->leaving = true;
    entry->answer_at = never;
    entry->changes_left = robustness;
    entry->change_at = now;
    return;
  }
  const bool says = entry->reported_last && !(newest_ == 3 && version_ == 1);
  forget(group);
  if (says) {
    user_.report_group(group, true, version_);
  }
}

void Groups::forget(const IpAddress& group) {
  std::erase_if(entries_, [&](const Entry& entry) { return entry.group == group; });
}

/// RFC 3810 section 6.2: "If there is a pending response to a previous General Query scheduled sooner than the selected
/// delay, no additional response needs to be scheduled." RFC 2710 section 4: each address has its own timer.
void Groups::query(const GroupQuery& query, TimePoint now) {
  if (query.version < newest_) {
    heard_until_[query.version - 1] = now + older_version_querier_present;
  }
  set_version(now);
  if (query.group.is_unspecified() && version_ == newest_) {
    answer_all_at_ = std::min(answer_all_at_, now + random(query.delay_max));
    return;
  }
  for (Entry& entry : entries_) {
    if (!entry.leaving && (query.group.is_unspecified() || entry.group == query.group)) {
      entry.answer_at = std::min(entry.answer_at, now + random(query.delay_max));
    }
  }
}

/// RFC 2710 section 4: "If a node receives another node's Report from an interface for a multicast address while it has
/// a timer running for that same address on that interface, it stops its timer and does not send a Report for that
/// address, thus suppressing duplicate reports on the link."
void Groups::heard_report(const IpAddress& group, TimePoint now) {
  set_version(now);
  Entry* const entry = find(group);
  if (entry == nullptr || version_ == newest_) {
    return;
  }
  entry->answer_at = entry->change_at = never;
  entry->changes_left = 0;
  entry->reported_last = false;
}

void Groups::expire(TimePoint now) {
  set_version(now);
  tell_changes(now);
  answer(now);
}

void Groups::tell_changes(TimePoint now) {
  std::vector<GroupRecord> records;
  for (Entry& entry : entries_) {
    if (entry.change_at > now) {
      continue;
    }
    if (version_ != newest_) {
      tell_change_old(entry, now);
      continue;
    }
    records.push_back(
        {entry.leaving ? GroupRecordType::change_to_include_mode : GroupRecordType::change_to_exclude_mode,
         entry.group});
    --entry.changes_left;
    entry.change_at = entry.changes_left > 0 ? now + random(unsolicited_report_interval) : never;
  }
  std::erase_if(entries_, [](const Entry& entry) { return entry.leaving && entry.changes_left == 0; });
  if (!records.empty()) {
    user_.report_groups(records);
  }
}

/// RFC 2710 section 4: "it is recommended that it be repeated once or twice after short delays [Unsolicited Report
/// Interval]."
void Groups::tell_change_old(Entry& entry, TimePoint now) {
  --entry.changes_left;
  entry.change_at = entry.changes_left > 0 ? now + random(unsolicited_report_interval_old) : never;
  entry.reported_last = true;
  user_.report_group(entry.group, false, version_);
}

void Groups::answer(TimePoint now) {
  const bool all = answer_all_at_ <= now;
  std::vector<GroupRecord> records;
  for (Entry& entry : entries_) {
    if (entry.leaving || (!all && entry.answer_at > now)) {
      continue;
    }
    entry.answer_at = never;
    if (version_ == newest_) {
      records.push_back({GroupRecordType::mode_is_exclude, entry.group});
    } else {
      entry.reported_last = true;
      user_.report_group(entry.group, false, version_);
    }
  }
  answer_all_at_ = all ? never : answer_all_at_;
  if (!records.empty()) {
    user_.report_groups(records);
  }
}

TimePoint Groups::next_deadline() const {
  TimePoint next = answer_all_at_;
  for (const Entry& entry : entries_) {
    next = std::min({next, entry.change_at, entry.answer_at});
  }
  return next;
}

}  // namespace sluice::ip
