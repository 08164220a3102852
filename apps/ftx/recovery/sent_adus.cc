// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/recovery/sent_adus.h"

#include <algorithm>

#include "base/contract.h"

namespace sluice::ftx {

void SentAdus::on_sent(const AduName& adu, TimePoint now, bool application_limited,
                       std::optional<std::uint32_t> payload_bytes) {
  // draft-ietf-ccwg-bbr-06 section 4.1.1.3: "when the algorithm marks a transport flow as application-limited, it marks
  // all bandwidth samples for the next round trip as application-limited (at which point, the bubble, the idle gap, can
  // be said to have exited the data pipeline)."
  if (application_limited) {
    limited_to_ = std::max<std::uint64_t>(next() - 1, 1);
  }
  const std::uint32_t bytes = payload_bytes.value_or(adu.length);
  sent_bytes_ += bytes;
  Entry& entry = entries_.push();
  entry.adu = adu;
  entry.sent_bytes = sent_bytes_;
  entry.sent_at = now;
  entry.payload_bytes = bytes;
  entry.copies = 0;
  entry.resolved = false;
  entry.application_limited = limited_to_ > 0;
}

void SentAdus::on_copy_sent(std::uint64_t sequence, TimePoint now, bool application_limited,
                            std::optional<std::uint32_t> payload_bytes) {
  SLUICE_REQUIRE(unproven(sequence).has_value());
  Entry& first = entries_[sequence - oldest_];
  if (first.copies == 0) {
    copies_.push_back({.open = 1});
    first.copies = static_cast<std::uint32_t>(copies_.size());
  }
  const std::uint32_t copies = first.copies;
  ++copies_[copies - 1].open;
  on_sent(AduName(first.adu), now, application_limited, payload_bytes);
  entries_.back().copies = copies;
}

std::optional<AduName> SentAdus::unproven(std::uint64_t sequence) const {
  if (sequence < oldest_ || sequence >= next()) {
    return std::nullopt;
  }
  const Entry& entry = entries_[sequence - oldest_];
  const bool arrived = entry.copies > 0 && copies_[entry.copies - 1].arrived;
  return entry.resolved || arrived || entry.adu.file == no_file ? std::nullopt : std::optional(entry.adu);
}

SentAdus::Datagram SentAdus::datagram(std::uint64_t sequence) const {
  const Entry& entry = entries_[sequence - oldest_];
  return {sequence, entry.sent_at, entry.sent_bytes + sequence * overhead_bytes_, entry.application_limited};
}

std::optional<SentAdus::Resolved> SentAdus::on_report(const Report& report) {
  if (report.highest >= next()) {
    return std::nullopt;
  }
  Resolved resolved;
  if (report.highest >= oldest_) {
    passed_bytes_ = std::max(passed_bytes_, entries_[report.highest - oldest_].sent_bytes);
    if (report.highest > passed_) {
      passed_ = report.highest;
      passed_sent_at_ = entries_[report.highest - oldest_].sent_at;
      small_arrived_ = entries_[report.highest - oldest_].payload_bytes <= large_above_;
    }
    resolved.newest = datagram(report.highest);
  }
  if (report.highest > limited_to_) {
    limited_to_ = 0;
  }
  std::uint64_t sequence = report.from;
  for (std::size_t i = 0; i < report.range_count; ++i) {
    const SequenceRange& range = report.missing[i];
    resolve(sequence, range.first - 1, true, resolved);
    resolve(range.first, range.first + range.count - 1, false, resolved);
    sequence = range.first + range.count;
  }
  resolve(sequence, report.to, true, resolved);
  forget_resolved();
  return resolved;
}

void SentAdus::resolve(std::uint64_t first, std::uint64_t last, bool arrived, Resolved& resolved) {
  for (std::uint64_t sequence = std::max(first, oldest_); sequence <= last; ++sequence) {
    Entry& entry = entries_[sequence - oldest_];
    if (entry.resolved) {
      continue;
    }
    entry.resolved = true;
    if (entry.copies > 0) {
      --copies_[entry.copies - 1].open;
      copies_[entry.copies - 1].arrived |= arrived;
    }
    resolved_datagram_bytes_ += entry.payload_bytes + overhead_bytes_;
    if (arrived) {
      ++resolved.arrived;
      resolved.arrived_bytes += entry.payload_bytes;
      large_lost_ = entry.payload_bytes > large_above_ ? 0 : large_lost_;
      if (arrived_ && entry.adu.file != no_file) {
        arrived_(entry.adu);
      }
    } else if (entry.adu.file != no_file) {
      if (all_lost(entry)) {
        retransmit_queue_.push(entry.adu);
      }
      ++resolved.lost;
      large_lost_ += entry.payload_bytes > large_above_ && sequence >= large_from_ ? 1 : 0;
      lost_datagram_bytes_ += entry.payload_bytes + overhead_bytes_;
      lost_runs_ += sequence == last_lost_ + 1 ? 0 : 1;
      last_lost_ = sequence;
      resolved.newest_lost = datagram(sequence);
    }
  }
}

bool SentAdus::all_lost(const Entry& entry) const {
  return entry.copies == 0 || (copies_[entry.copies - 1].open == 0 && !copies_[entry.copies - 1].arrived);
}

void SentAdus::forget_resolved() {
  while (!entries_.empty() && entries_.front().resolved) {
    entries_.pop();
    ++oldest_;
  }
}

}  // namespace sluice::ftx
