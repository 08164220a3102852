// SPDX-License-Identifier: Apache-2.0
// How large a Sender's datagrams are: it sends the probes that PathMtu asks for, and makes ADUs as long as they may be.
#include <algorithm>

#include "apps/ftx/session/sender.h"

namespace sluice::ftx {

void Sender::begin_path_mtu(TimePoint now) {
  if (!options_.ip_header_bytes) {
    return;
  }
  // The receiver's transport may carry less than ours.
  const std::size_t framing = framing_bytes();
  const bool less = adu_bytes_ < adu_bytes_for(options_.tsdu_bytes, protection_.has_value());
  PathMtuOptions path;
  path.header_bytes = *options_.ip_header_bytes;
  path.max_bytes = std::max(less ? adu_bytes_ + framing : options_.tsdu_bytes, PathMtu::base_bytes);
  path_mtu_.emplace(now, path);
  if (peer_answered_) {
    path_mtu_->on_base_confirmed(now);  // our HELLO had that size
  }
  resize_adus();
}

void Sender::resize_adus() {
  const std::size_t framing = framing_bytes();
  const auto payload = [&](std::size_t datagram) {
    const std::size_t bytes = (datagram - framing) / adu_bytes_unit * adu_bytes_unit;
    return static_cast<std::uint32_t>(std::min<std::size_t>(bytes, adu_bytes_));
  };
  adu_bytes_now_ = payload(path_mtu_->bytes());
  scheduler_->set_adu_bytes(adu_bytes_now_);
  congestion_.on_datagram_bytes(adu_bytes_now_ + framing_bytes());
  sent_adus_.set_large_above(payload(path_mtu_->small_bytes()));
}

/// Until somebody has answered, a probe is one more datagram to an address that has proven nothing.
bool Sender::may_probe_path() const {
  return path_mtu_ && (state_ == State::offering || state_ == State::sending) && may_send_data() &&
         (peer_answered_ || unproven_bytes_ >= PathMtu::ethernet_mtu);
}

/// RFC 8899 section 3: "It is RECOMMENDED to use probe packets that do not carry any user data that would require
/// retransmission if lost." So it is a PROBE with padding. Its loss is not counted: "Loss of a probe packet SHOULD NOT
/// be treated as an indication of congestion and SHOULD NOT trigger a congestion control reaction [RFC4821] because
/// this could result in unnecessary reduction of the sending rate." It goes beside window and pacer: there is one a
/// round trip at most.
std::optional<Outgoing> Sender::next_path_probe(TimePoint now, Bytes room) {
  if (!may_probe_path() || now < path_mtu_->probe_at()) {
    return std::nullopt;
  }
  const std::size_t size = path_mtu_->next_probe(now);
  const std::size_t plain = size - (protection_ ? Protection::overhead_bytes : 0);
  std::size_t made = emit_probe(envelope_, stamp(), room, plain);
  if (protection_) {
    made = protection_->seal_control(room, made);
  }
  path_mtu_->on_probe_sent(now, sent_adus_.next(), rtt_estimator_.known() ? rtt_estimator_.smoothed() : Duration{});
  sent_adus_.on_sent(AduName{}, now);
  if (made == 0) {
    return std::nullopt;  // the key is used up; a report will call it lost
  }
  unproven_bytes_ -= std::min<std::uint64_t>(size, unproven_bytes_);
  return Outgoing{options_.peer, room.first(made), {}};
}

void Sender::follow_path_mtu(TimePoint now, const Report& report) {
  if (!path_mtu_) {
    return;
  }
  const std::size_t before = path_mtu_->bytes();
  path_mtu_->on_report(now, report);
  if (path_mtu_->bytes() == before) {
    path_mtu_->on_losses(now, sent_adus_.large_lost(), sent_adus_.small_arrived());
  }
  if (path_mtu_->bytes() != before) {
    resize_adus();
  }
}

void Sender::too_big(TimePoint now) {
  if (path_mtu_) {
    path_mtu_->on_too_big(now);
  }
}

}  // namespace sluice::ftx
