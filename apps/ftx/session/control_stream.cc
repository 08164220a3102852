// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/session/control_stream.h"

#include <algorithm>
#include <utility>

namespace sluice::ftx {

bool ControlStream::send(ConstBytes bytes) {
  if (bytes.size() > bytes_max - out_.size()) {
    return false;
  }
  out_.insert(out_.end(), bytes.begin(), bytes.end());
  return true;
}

bool ControlStream::receive(TimePoint now, const Control& control) {
  bool useful = false;
  if (control.acknowledged > acknowledged_ && control.acknowledged <= out_.size()) {
    acknowledged_ = control.acknowledged;
    sent_ = std::max(sent_, acknowledged_);
    interval_ = interval_first_;
    repeat_at_ = all_acknowledged() ? never : now + interval_;
    useful = true;
  }
  if (control.bytes.empty()) {
    return useful;
  }
  acknowledgement_due_ = true;
  const std::size_t end = control.offset + control.bytes.size();
  if (control.offset > received_ || end <= received_ || end > bytes_max) {
    return useful;
  }
  const ConstBytes fresh = control.bytes.subspan(received_ - control.offset);
  in_.insert(in_.end(), fresh.begin(), fresh.end());
  received_ = end;
  return true;
}

std::vector<std::byte> ControlStream::take_received() { return std::exchange(in_, {}); }

std::optional<Control> ControlStream::next(TimePoint now) {
  if (exhausted()) {
    return std::nullopt;
  }
  if (now >= repeat_at_) {
    sent_ = acknowledged_;
    interval_ = std::min(interval_ * 2, interval_max);
    repeat_at_ = never;
  }
  const std::size_t size = std::min(out_.size() - sent_, segment_bytes_max);
  if (size == 0 && !acknowledgement_due_) {
    return std::nullopt;
  }
  Control control;
  control.offset = static_cast<std::uint32_t>(sent_);
  control.acknowledged = static_cast<std::uint32_t>(received_);
  control.bytes = ConstBytes(out_).subspan(sent_, size);
  sent_ += size;
  if (size > 0) {
    repeat_at_ = now + interval_;
  }
  acknowledgement_due_ = false;
  ++datagrams_;
  return control;
}

TimePoint ControlStream::next_deadline() const {
  if (exhausted()) {
    return never;
  }
  return sent_ < out_.size() || acknowledgement_due_ ? TimePoint::min() : repeat_at_;
}

}  // namespace sluice::ftx
