// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/recovery/delivery_sampler.h"

#include <algorithm>
#include <utility>

#include "apps/ftx/recovery/receive_credit.h"

namespace sluice::ftx {
namespace {

constexpr double nanoseconds_per_second = 1e9;
constexpr double rate_max = 1e12;  // above any link
constexpr std::uint64_t held_ns_max = 1'000'000'000;
constexpr std::uint64_t negligible_bytes = 4096;  // copies of the list, which go on while it is not accepted
constexpr std::uint64_t first_flight_bytes = ReceiveCredit::initial_bytes / 4 * 5;  // with headers
constexpr std::uint64_t first_sample_bytes = ReceiveCredit::initial_bytes / 4;
constexpr Duration arrivals_min = std::chrono::milliseconds(1);  // in less, a batch makes any rate
constexpr int as_sent_part = 32;                                 // later by this part is as fast

std::optional<std::uint64_t> bytes_a_second(std::uint64_t bytes, Duration span) {
  if (span <= Duration{} || bytes == 0) {
    return std::nullopt;
  }
  const double rate = static_cast<double>(bytes) * nanoseconds_per_second / static_cast<double>(span.count());
  return static_cast<std::uint64_t>(std::min(rate, rate_max));
}

}  // namespace

void DeliverySampler::on_sent(TimePoint now, const SentAdus& sent) {
  // Section 4.1.2.2: "If there is no data in flight yet, then we can start the delivery rate interval at the current
  // time, since we know that any ACKs after now indicate that the network was able to deliver that data completely in
  // the sampling interval between now and the next ACK."
  const std::uint64_t in_flight = sent.in_flight_datagram_bytes();
  if (in_flight == 0) {
    first_sent_at_ = sent.sent_bytes() == 0 ? now : first_sent_at_;
    current_.first_sent_at = now;
    current_.delivered_at = now;
    current_.arrived_ns = 0;
    changed_ = true;
  }
  const Duration pause = now - std::exchange(sent_at_, now);
  const bool paused = pause > std::max(report_interval(round_trip_) / 2, 2 * Pacer::burst);
  const bool behind_first_flight = paused && newest_ > 0 && !std::exchange(paused_before_, true);
  const std::uint64_t little = behind_first_flight ? first_flight_bytes : negligible_bytes;
  if (in_flight == 0 || (paused && in_flight <= little)) {
    since_ = {.sent_at = now, .arrived_ns = 0, .delivered_bytes = current_.delivered_bytes + in_flight};
  }
  if (std::exchange(changed_, false)) {
    current_.first_sequence = sent.next();
    snapshots_.push(current_);
  }
}

const DeliverySampler::Snapshot& DeliverySampler::snapshot_of(std::uint64_t sequence) const {
  std::size_t first = 0;
  std::size_t count = snapshots_.size();
  while (count > 1) {  // the last whose first_sequence is not beyond `sequence`
    const std::size_t half = count / 2;
    if (snapshots_[first + half].first_sequence <= sequence) {
      first += half;
      count -= half;
    } else {
      count = half;
    }
  }
  return snapshots_[first];
}

Delivery::AtSend DeliverySampler::at_send(const SentAdus::Datagram& datagram) const {
  const Snapshot& then = snapshot_of(datagram.sequence);
  // The snapshot is as old as its report was: what was delivered in between has left the network.
  const Duration stale = std::max(datagram.sent_at - then.delivered_at, Duration{});
  const double fresh = round_trip_ == Duration{} ? 1.0
                                                 : static_cast<double>(round_trip_.count()) /
                                                       static_cast<double>((round_trip_ + stale).count());
  const auto in_flight = static_cast<double>(datagram.sent_datagram_bytes - then.passed_bytes);
  return {.delivered_bytes = then.delivered_bytes,
          .in_flight_bytes = static_cast<std::uint64_t>(in_flight * fresh),
          .application_limited = datagram.application_limited,
          .resolved_since_bytes = current_.resolved_bytes - then.resolved_bytes,
          .lost_since_bytes = current_.lost_bytes - then.lost_bytes};
}

Delivery DeliverySampler::on_report(TimePoint now, const Report& report, const SentAdus& sent,
                                    const SentAdus::Resolved& resolved) {
  Delivery delivery;
  const std::uint64_t passed_bytes = sent.passed_datagram_bytes();
  // The part of the payload that arrived is taken for the part of the datagrams that did; never more than was sent.
  const double arrived =
      sent.passed_bytes() == 0
          ? 1.0
          : std::min(1.0, static_cast<double>(report.received_bytes) / static_cast<double>(sent.passed_bytes()));
  const auto delivered = static_cast<std::uint64_t>(arrived * static_cast<double>(passed_bytes));
  const Snapshot before = current_;
  current_.delivered_bytes = std::max(current_.delivered_bytes, delivered);
  current_.passed_bytes = passed_bytes;
  current_.resolved_bytes = sent.resolved_datagram_bytes();
  current_.lost_bytes = sent.lost_datagram_bytes();
  changed_ = true;

  delivery.delivered_bytes = current_.delivered_bytes;
  delivery.newly_delivered_bytes = current_.delivered_bytes - before.delivered_bytes;
  delivery.newly_resolved_bytes = current_.resolved_bytes - before.resolved_bytes;
  delivery.newly_lost_bytes = current_.lost_bytes - before.lost_bytes;
  delivery.newly_lost_runs = sent.lost_runs() - std::exchange(lost_runs_, sent.lost_runs());
  delivery.in_flight_bytes = sent.in_flight_datagram_bytes();
  if (!snapshots_.empty()) {
    if (resolved.newest && resolved.newest->sequence > newest_) {
      sample(now, report, *resolved.newest, delivery);
    }
    if (resolved.newest_lost) {
      delivery.newest_lost = at_send(*resolved.newest_lost);
    }
    while (snapshots_.size() > 1 && snapshots_[1].first_sequence <= sent.oldest()) {
      snapshots_.pop();
    }
  }
  return delivery;
}

void DeliverySampler::sample(TimePoint now, const Report& report, const SentAdus::Datagram& newest,
                             Delivery& delivery) {
  newest_ = newest.sequence;
  const auto held = Duration(static_cast<Duration::rep>(std::min(report.held_ns, held_ns_max)));
  round_trip_ = std::max(now - newest.sent_at - held, Duration{1});
  delivery.newest = at_send(newest);
  const Snapshot& then = snapshot_of(newest.sequence);
  current_.first_sent_at = newest.sent_at;
  current_.delivered_at = now - held;
  current_.arrived_ns = report.clock_ns > report.held_ns ? report.clock_ns - report.held_ns : 0;
  // "delivery_elapsed = max(ack_elapsed, send_elapsed); delivery_rate = data_acked / delivery_elapsed" (4.1.1.2.4)
  const bool receiver_clock = then.arrived_ns > 0 && current_.arrived_ns > then.arrived_ns;
  const Duration ack_elapsed = receiver_clock
                                   ? Duration(static_cast<Duration::rep>(current_.arrived_ns - then.arrived_ns))
                                   : current_.delivered_at - then.delivered_at;
  const Duration send_elapsed = newest.sent_at - then.first_sent_at;
  const std::uint64_t arrived = current_.delivered_bytes - then.delivered_bytes;
  const std::uint64_t passed = current_.passed_bytes - then.passed_bytes;
  delivery.rate = bytes_a_second(arrived, std::max(ack_elapsed, send_elapsed));
  delivery.as_sent =
      ack_elapsed <= send_elapsed + send_elapsed / as_sent_part && arrived + passed / as_sent_part >= passed;
  delivery.arrival_rate = arrival_rate(newest, held);
  if (delivery.newest->delivered_bytes == 0) {
    delivery.arrival_rate = std::max(delivery.arrival_rate, first_arrival_rate(newest));
  }
}

/// Of what was sent before anything was known to have arrived, once, as soon as enough of it has. The receiver's clock
/// began when the first of it came.
std::optional<std::uint64_t> DeliverySampler::first_arrival_rate(const SentAdus::Datagram& newest) {
  if (current_.delivered_bytes < first_sample_bytes || std::exchange(first_sampled_, true)) {
    return std::nullopt;
  }
  const Duration arrivals(static_cast<Duration::rep>(current_.arrived_ns));
  return bytes_a_second(current_.delivered_bytes, std::max(arrivals, newest.sent_at - first_sent_at_));
}

std::optional<std::uint64_t> DeliverySampler::arrival_rate(const SentAdus::Datagram& newest, Duration held) {
  const Duration interval = report_interval(round_trip_);
  const Duration arrivals = since_.arrived_ns == 0
                                ? interval - held
                                : Duration(static_cast<Duration::rep>(current_.arrived_ns - since_.arrived_ns));
  const Duration span = std::max(arrivals, newest.sent_at - since_.sent_at);
  if (span < interval / 2) {
    return std::nullopt;
  }
  const Since before = std::exchange(
      since_,
      {.sent_at = newest.sent_at, .arrived_ns = current_.arrived_ns, .delivered_bytes = current_.delivered_bytes});
  if (span < arrivals_min || current_.delivered_bytes <= before.delivered_bytes) {
    return std::nullopt;
  }
  return bytes_a_second(current_.delivered_bytes - before.delivered_bytes, span);
}

}  // namespace sluice::ftx
