// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/recovery/sent_adus.h"

#include <algorithm>

namespace sluice::ftx {

void SentAdus::on_sent(const AduName& adu) {
  sent_bytes_ += adu.length;
  entries_.push({adu, sent_bytes_, false});
}

std::optional<SentAdus::Resolved> SentAdus::on_report(const Report& report) {
  if (report.highest >= next()) {
    return std::nullopt;
  }
  if (report.highest >= oldest_) {
    passed_bytes_ = std::max(passed_bytes_, entries_[report.highest - oldest_].sent_bytes);
  }
  Resolved resolved;
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
    if (arrived) {
      ++resolved.arrived;
      resolved.arrived_bytes += entry.adu.length;
    } else if (entry.adu.file != no_file) {
      retransmit_queue_.push(entry.adu);
      ++resolved.lost;
    }
  }
}

void SentAdus::forget_resolved() {
  while (!entries_.empty() && entries_.front().resolved) {
    entries_.pop();
    ++oldest_;
  }
}

}  // namespace sluice::ftx
