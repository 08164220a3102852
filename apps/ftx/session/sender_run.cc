// SPDX-License-Identifier: Apache-2.0
// What a Sender sends as one piece of work: ADUs that follow each other in a file.
#include <algorithm>
#include <utility>

#include "apps/ftx/session/sender.h"

namespace sluice::ftx {

/// How many ADUs of `payload_bytes` next_adu() would send before window_is_full().
std::uint64_t Sender::window_room(std::uint64_t payload_bytes) const {
  const auto room = [](std::uint64_t window, std::uint64_t used, std::uint64_t each) {
    const std::uint64_t left = window - std::min(used, window);
    return left / each + (left % each > 0 ? 1 : 0);
  };
  return std::min(
      {room(window_adus_, sent_adus_.span(), 1),
       room(congestion_.window_bytes(), sent_adus_.in_flight_datagram_bytes(), payload_bytes + framing_bytes()),
       room(receive_credit_.window_bytes(), sent_adus_.in_flight_bytes(), payload_bytes)});
}

/// What next() would send behind an ADU of a file that it has just sent for the first time: the ADUs behind that, as
/// far as burst, window and pacer allow and the scheduler has them in memory. There is nothing else, since no time
/// passes within a burst and nothing comes in: next() looks at all else before it sends an ADU, and at the repairs
/// before a new one.
void Sender::add_run(TimePoint now, Burst& burst) {
  const AduScheduler::Run run = scheduler_->run(window_room(adu_bytes_now_));
  Data data{.stamp = stamp(), .adu = run.first};
  std::uint64_t count = 0;
  for (ConstBytes left = run.payloads; !left.empty() && !burst.full() && now >= congestion_.next_send(); ++count) {
    const ConstBytes payload = left.first(data.adu.length);
    burst.add(options_.peer, data_front(data, payload, burst.room()), data_rest(payload));
    application_limited_ |= !std::exchange(window_limited_, false) && congestion_.behind(now);
    sent_adus_.on_sent(data.adu, now, std::exchange(application_limited_, false));
    congestion_.on_sent(now, framing_bytes() + payload.size());
    left = left.subspan(data.adu.length);
    data.adu.offset += data.adu.length;
    ++data.stamp.sequence;
    ++data.stamp.behind;
  }
  scheduler_->sent_of_run(count);
  window_limited_since_report_ |= congestion_window_is_full();
}

}  // namespace sluice::ftx
