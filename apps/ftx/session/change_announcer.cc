// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/session/change_announcer.h"

#include <algorithm>
#include <array>

#include "base/contract.h"

namespace sluice::ftx {

void ChangeAnnouncer::add(const Change& change) {
  SLUICE_REQUIRE(room() > 0);
  std::array<std::byte, change_bytes_max> bytes{};
  Writer writer(bytes);
  put(writer, change);
  records_.emplace_back(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(writer.size()));
}

bool ChangeAnnouncer::on_noted(std::uint64_t to) {
  if (to > noted_ + told_most_) {
    return false;
  }
  if (to <= noted_) {
    return true;
  }
  const auto count = static_cast<std::size_t>(to - noted_);
  records_.erase(records_.begin(), records_.begin() + static_cast<std::ptrdiff_t>(count));
  noted_ = to;
  told_ -= std::min(told_, count);
  told_most_ -= count;
  repeat_.acknowledged(told_ > 0);
  return true;
}

std::size_t ChangeAnnouncer::next(TimePoint now, Duration round_trip, const Envelope& envelope, Bytes out) {
  if (repeat_.take_due(now)) {
    told_ = 0;
  }
  if (!untold()) {
    return 0;
  }
  if (told_ == 0) {
    repeat_.lengthen(round_trip);
  }
  const std::uint64_t from = noted_ + told_;
  std::array<std::byte, changes_bytes_max> bytes{};
  Writer writer(bytes);
  while (untold() && writer.size() + records_[told_].size() <= bytes.size()) {
    writer.bytes(records_[told_++]);
  }
  told_most_ = std::max(told_most_, told_);
  repeat_.start(now);
  return emit_changes(envelope, from, ConstBytes(bytes).first(writer.size()), out);
}

}  // namespace sluice::ftx
