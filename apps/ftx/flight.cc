// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/flight.h"

#include <algorithm>

namespace sluice::ftx {

void Flight::enter(const AduName& adu) {
  sent_bytes_ += adu.length;
  entries_.push({adu, sent_bytes_, false});
}

std::optional<Flight::Settled> Flight::apply(const Report& report) {
  if (report.highest >= next()) return std::nullopt;
  if (report.highest >= oldest_) {
    passed_bytes_ = std::max(passed_bytes_, entries_[report.highest - oldest_].sent_bytes);
  }
  Settled settled;
  std::uint64_t sequence = report.from;
  for (std::size_t i = 0; i < report.range_count; ++i) {
    const SequenceRange& range = report.lacking[i];
    settle(sequence, range.first - 1, true, settled);
    settle(range.first, range.first + range.count - 1, false, settled);
    sequence = range.first + range.count;
  }
  settle(sequence, report.to, true, settled);
  forget_settled();
  return settled;
}

void Flight::settle(std::uint64_t first, std::uint64_t last, bool arrived, Settled& settled) {
  for (std::uint64_t sequence = std::max(first, oldest_); sequence <= last; ++sequence) {
    Entry& entry = entries_[sequence - oldest_];
    if (entry.settled) continue;
    entry.settled = true;
    if (arrived) {
      ++settled.arrived;
    } else if (entry.adu.file != no_file) {
      repairs_.push(entry.adu);
      ++settled.lacking;
    }
  }
}

void Flight::forget_settled() {
  while (!entries_.empty() && entries_.front().settled) {
    entries_.pop();
    ++oldest_;
  }
}

AduName Flight::take_repair() {
  SLUICE_REQUIRE(repair_waiting());
  const AduName adu = repairs_.front();
  repairs_.pop();
  return adu;
}

}  // namespace sluice::ftx
