// SPDX-License-Identifier: Apache-2.0

// A TCP connection: how large its segments are. The network says what the path takes (RFC 1191, RFC 8201), or drops
// what is larger and says nothing; then segments are small until a larger one is seen to arrive (RFC 4821, RFC 8899).

#include <algorithm>

#include "stack/modules/tcp_connection.h"

namespace sluice::tcp {

void Connection::set_path(std::uint16_t bytes, TimePoint now) {
  const std::uint16_t wanted = std::max(bytes, segment_bytes_min);
  if (black_hole_) {
    black_hole_->path_segment_bytes = std::min(black_hole_->path_segment_bytes, wanted);
  }
  if (wanted >= settings_.segment_bytes) {
    return;
  }
  set_segment_bytes(wanted);
  board_.lost_above(segment_data_max());
  output(now);
}

void Connection::set_segment_bytes(std::uint16_t bytes) {
  settings_.segment_bytes = bytes;
  congestion_.set_segment_bytes(segment_data_max());
}

/// What has timed out again and again may be too large for the path, though nobody has said so. So it is not for what a
/// smaller segment carries whole.
void Connection::avoid_black_hole(TimePoint now) {
  const bool v4 = ends_.remote.address.is_v4();
  const std::uint16_t least = v4 ? segment_bytes_default_v4 : segment_bytes_default_v6;
  const std::uint16_t now_bytes = std::min(settings_.segment_bytes, peer_segment_bytes_);
  const std::uint16_t first = v4 ? black_hole_segment_bytes : segment_bytes_default_v6;
  const std::uint16_t wanted = now_bytes > first ? first : std::max<std::uint16_t>(now_bytes / 2, least);
  if (wanted >= now_bytes || board_.front().range.size() + (now_bytes - segment_data_max()) <= wanted) {
    return;
  }
  const std::uint16_t path = black_hole_ ? black_hole_->path_segment_bytes : settings_.segment_bytes;
  black_hole_ = BlackHole{.path_segment_bytes = path, .probe_at = now};
  set_segment_bytes(wanted);
}

/// The whole first: the path may have been away altogether.
std::uint16_t Connection::path_probe_bytes() const {
  const std::uint16_t usual = ends_.remote.address.is_v4() ? path_probe_bytes_v4 : path_probe_bytes_v6;
  const std::uint16_t path = black_hole_->path_segment_bytes;
  return black_hole_->probes_lost % 2 == 1 && settings_.segment_bytes < usual && usual < path ? usual : path;
}

/// RFC 4821 section 7.4 has a probe sent only where its loss would be found without a timeout: so much must wait behind
/// it, and may leave, as makes three acknowledgements of the same place.
bool Connection::wants_path_probe(TimePoint now) const {
  if (!black_hole_ || now < black_hole_->probe_at || black_hole_->probe_end != 0 || timeouts_in_a_row_ > 0 ||
      recovering_until_ || path_probe_bytes() <= settings_.segment_bytes) {
    return false;
  }
  const std::uint64_t needed = path_probe_bytes() + Scoreboard::duplicates_max * segment_data_max();
  return sent_.end() - next_ >= needed && std::min(congestion_.window(), peer_window_) >= needed;
}

/// New data in one segment of that size.
bool Connection::probe_path(TimePoint now) {
  const Settings settings = settings_;
  const std::uint16_t bytes = path_probe_bytes();
  settings_.segment_bytes = bytes;
  settings_.together_bytes = 0;
  const Position window_end = acknowledged_ + peer_window_;
  const bool sent = next_ + segment_data_max() <= window_end && send_new(peer_window_, false, now);
  settings_ = settings;
  if (sent) {
    black_hole_->probe_end = next_;
    black_hole_->probe_bytes = bytes;
  }
  return sent;
}

/// RFC 4821 section 7.6.1: "If the probe size is larger than the eff_pmtu, raise eff_pmtu to the probe size."
void Connection::path_probe_arrived(TimePoint now) {
  set_segment_bytes(std::min(black_hole_->probe_bytes, black_hole_->path_segment_bytes));
  if (settings_.segment_bytes >= black_hole_->path_segment_bytes) {
    black_hole_.reset();
    return;
  }
  black_hole_->probe_end = 0;
  black_hole_->probes_lost = 0;
  black_hole_->probe_at = now + path_raise_pause;
}

void Connection::path_probe_lost(TimePoint now) {
  black_hole_->probe_end = 0;
  ++black_hole_->probes_lost;
  black_hole_->probe_at = now + (black_hole_->probes_lost % path_probes_max == 0 ? path_raise_pause : path_probe_pause);
}

/// RFC 4821 section 7.6.2: "When only the probe is lost, it is treated as an indication that the Path MTU is smaller
/// than the probe size. In this case alone, the loss SHOULD NOT be interpreted as congestion signal."
bool Connection::is_path_probe_lost_alone() const {
  return black_hole_ && board_.lost_count() == 1 && board_.first_lost()->end == black_hole_->probe_end;
}

}  // namespace sluice::tcp
