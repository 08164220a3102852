// SPDX-License-Identifier: Apache-2.0
#pragma once

// Path: a bottleneck in simulated time that flows share: a drop-tail queue, a rate, a delay, random loss, a policer.
// A Flow is one transfer: the real SentAdus, DeliverySampler, ReceiveTracker and a congestion control, without sessions
// and files. It reports as apps/ftx/session/receiver.cc does. The same seed gives the same run.

#include <algorithm>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "apps/ftx/recovery/congestion.h"
#include "apps/ftx/recovery/delivery_sampler.h"
#include "apps/ftx/recovery/receive_tracker.h"
#include "apps/ftx/recovery/rtt_estimator.h"
#include "apps/ftx/recovery/sent_adus.h"
#include "base/prng.h"

namespace sluice::ftx::test {

using namespace std::chrono_literals;

struct PathOptions {
  std::uint64_t rate = 125'000'000;  // bytes a second of payload: 256 MiB take 2.15 s
  Duration round_trip = 50ms;        // half of it each way
  std::uint64_t queue_bytes = 6'250'000;
  double loss = 0;                // behind the queue
  double burst = 1;               // mean length of a run of losses
  std::uint64_t police_rate = 0;  // a token bucket before the queue drops what is above; 0: none
  std::uint64_t police_bytes = 0;
  std::uint64_t seed = 1;
};

class Path;

class Flow {
 public:
  static constexpr std::uint32_t adu_bytes = 1416;
  static constexpr std::size_t datagram_bytes = adu_bytes + data_header_bytes;
  static constexpr std::uint64_t endless = UINT64_MAX / 2;

  Flow(Path& path, std::unique_ptr<CongestionControl> control, std::uint64_t bytes, TimePoint start)
      : path_(path), control_(std::move(control)), bytes_(bytes), start_(start) {
    rtt_.sample(first_round_trip());  // the session begins with a handshake
    control_->on_first_round_trip(first_round_trip());
  }

  [[nodiscard]] CongestionControl& control() { return *control_; }
  [[nodiscard]] const SentAdus& sent() const { return sent_; }
  [[nodiscard]] std::uint64_t delivered_bytes() const { return received_bytes_; }
  [[nodiscard]] bool finished() const { return finished_at_.has_value(); }
  [[nodiscard]] double seconds() const { return std::chrono::duration<double>(finished_at_.value() - start_).count(); }
  [[nodiscard]] std::uint64_t datagrams() const { return sent_.next() - 1; }
  /// What the application has to send by `now`; without it: everything from the start.
  std::function<std::uint64_t(TimePoint)> available;
  /// The sender's program gets no processor for the first `pause` of every `pause_every`.
  Duration pause{};
  Duration pause_every = 1s;
  /// What each report made the control decide.
  std::function<void(TimePoint, const Delivery&)> on_delivery;
  std::uint64_t dropped = 0;  // by the queue or the policer

 private:
  friend class Path;
  struct Travelling {
    TimePoint at{};
    Stamp stamp;
    std::uint32_t length = 0;
  };

  [[nodiscard]] std::uint64_t ready(TimePoint now) const {
    const std::uint64_t offered = available ? std::min(available(now), bytes_) : bytes_;
    return offered - std::min(offered, sent_new_);
  }
  [[nodiscard]] bool blocked() const {
    return sent_.in_flight_datagram_bytes() >= control_->window_bytes() || sent_.span() >= (1U << 17);
  }
  /// When the sender's program does what is due at `due`, once it has started.
  [[nodiscard]] TimePoint runs_at(TimePoint due) const {
    if (due == never) {
      return never;
    }
    const Duration since = (due - start_) % pause_every;
    return since < pause ? due - since + pause : due;
  }
  [[nodiscard]] Duration first_round_trip() const;
  [[nodiscard]] TimePoint next_at(TimePoint now) const;
  void send(TimePoint now);
  void put(TimePoint now, const AduName& adu);
  void arrive(TimePoint now, const Travelling& datagram);
  void report(TimePoint now);
  void on_report(TimePoint now, const Report& report);
  [[nodiscard]] Stamp stamp() const;

  Path& path_;
  std::unique_ptr<CongestionControl> control_;
  std::uint64_t bytes_;
  TimePoint start_;
  // The sender.
  SentAdus sent_;
  DeliverySampler sampler_;
  RttEstimator rtt_;
  std::uint64_t sent_new_ = 0;
  bool application_limited_ = false;
  bool window_limited_ = false;
  bool window_limited_since_report_ = false;
  TimePoint probe_at_ = never;
  std::uint64_t clock_ns_ = 0;
  std::optional<TimePoint> finished_at_;
  // The receiver.
  ReceiveTracker tracker_;
  std::uint64_t received_bytes_ = 0;
  std::uint64_t distinct_bytes_ = 0;
  TimePoint report_at_ = never;
  Duration report_interval_ = 10ms;
  Duration report_backoff_{};
  bool busy_ = false;
  // The network.
  std::deque<Travelling> forward_;
  std::deque<std::pair<TimePoint, Report>> back_;
};

class Path {
 public:
  explicit Path(PathOptions path_options) : options(path_options), prng_(path_options.seed) {}

  Flow& add(std::unique_ptr<CongestionControl> control, std::uint64_t bytes = Flow::endless, Duration after = 0ns) {
    flows_.push_back(std::make_unique<Flow>(*this, std::move(control), bytes, now + after));
    return *flows_.back();
  }

  /// Runs until `span` has passed or every flow has finished.
  void run(Duration span) {
    const TimePoint end = now + span;
    while (true) {
      TimePoint at = end;
      bool all_finished = true;
      for (const auto& flow : flows_) {
        all_finished &= flow->finished();
        at = std::min(at, flow->next_at(now));
      }
      now = std::max(now, at);
      if (all_finished || now >= end) {
        return;
      }
      for (const auto& flow : flows_) {
        while (!flow->forward_.empty() && flow->forward_.front().at <= now) {
          const Flow::Travelling datagram = flow->forward_.front();
          flow->forward_.pop_front();
          flow->arrive(now, datagram);
        }
        if (flow->report_at_ <= now) {
          flow->report(now);
        }
        while (!flow->back_.empty() && flow->runs_at(flow->back_.front().first) <= now) {
          flow->on_report(now, flow->back_.front().second);
          flow->back_.pop_front();
        }
        flow->send(now);
      }
    }
  }

  /// Bytes that wait in the queue.
  [[nodiscard]] std::uint64_t queued() const {
    return free_at_ <= now ? 0
                           : static_cast<std::uint64_t>(static_cast<double>((free_at_ - now).count()) *
                                                        static_cast<double>(options.rate) / 1e9);
  }

  PathOptions options;  // may change while it runs
  TimePoint now{1h};
  std::uint64_t queued_most = 0;

 private:
  friend class Flow;

  void carry(Flow& flow, const Flow::Travelling& datagram) {
    const std::size_t size = datagram.length;
    if (options.police_rate > 0) {
      const auto earned =
          static_cast<double>((now - policed_at_).count()) * static_cast<double>(options.police_rate) / 1e9;
      tokens_ = std::min(tokens_ + earned, static_cast<double>(options.police_bytes));
      policed_at_ = now;
      if (tokens_ < static_cast<double>(size)) {
        ++flow.dropped;
        return;
      }
      tokens_ -= static_cast<double>(size);
    }
    if (queued() + size > options.queue_bytes) {
      ++flow.dropped;
      return;
    }
    free_at_ =
        std::max(free_at_, now) +
        Duration(static_cast<Duration::rep>(static_cast<double>(size) * 1e9 / static_cast<double>(options.rate)));
    queued_most = std::max(queued_most, queued());
    const double leave = 1 / options.burst;
    in_burst_ = prng_.chance(in_burst_ ? 1 - leave : options.loss * leave / (1 - options.loss));
    if (in_burst_) {
      return;
    }
    Flow::Travelling arriving = datagram;
    arriving.at = free_at_ + options.round_trip / 2;
    if (!flow.forward_.empty()) {
      arriving.at = std::max(arriving.at, flow.forward_.back().at);
    }
    flow.forward_.push_back(arriving);
  }

  std::vector<std::unique_ptr<Flow>> flows_;
  Prng prng_;
  TimePoint free_at_{};
  TimePoint policed_at_{1h};
  double tokens_ = 1e18;
  bool in_burst_ = false;
};

inline Duration Flow::first_round_trip() const { return path_.options.round_trip; }

inline TimePoint Flow::next_at(TimePoint now) const {
  if (finished()) {
    return never;
  }
  TimePoint at =
      std::min(forward_.empty() ? never : forward_.front().at, back_.empty() ? never : runs_at(back_.front().first));
  at = std::min({at, report_at_, runs_at(std::max(probe_at_, now + 1us))});
  if (blocked()) {
    return at;
  }
  if (!sent_.retransmit_queue().empty() || ready(now) > 0) {
    return std::min(at, runs_at(std::max({control_->next_send(), start_, now})));
  }
  return available && sent_new_ < bytes_ ? std::min(at, now + 1ms) : at;  // asks the application again
}

inline Stamp Flow::stamp() const {
  const auto us = std::chrono::duration_cast<std::chrono::microseconds>(rtt_.smoothed()).count();
  return {sent_.next(), static_cast<std::uint32_t>(sent_.next() - sent_.oldest()),
          static_cast<std::uint64_t>(std::max<std::int64_t>(us, 1))};
}

inline void Flow::put(TimePoint now, const AduName& adu) {
  const Stamp mark = stamp();
  sampler_.on_sent(now, sent_);
  sent_.on_sent(adu, now, std::exchange(application_limited_, false));
  control_->on_sent(now, adu.length + data_header_bytes);
  window_limited_since_report_ |= blocked();
  probe_at_ = now + rtt_.timeout();
  path_.carry(*this, {{}, mark, adu.length});
}

inline void Flow::send(TimePoint now) {
  if (finished() || now < start_ || runs_at(now) > now) {
    return;
  }
  while (!blocked() && control_->next_send() <= now) {
    const bool repair = !sent_.retransmit_queue().empty();
    if (!repair && ready(now) == 0) {
      application_limited_ = sent_new_ > 0;
      break;
    }
    application_limited_ |= !std::exchange(window_limited_, false) && control_->behind(now) && sent_new_ > 0;
    if (repair) {
      put(now, sent_.retransmit_queue().pop());
      continue;
    }
    const auto length = static_cast<std::uint32_t>(std::min<std::uint64_t>(adu_bytes, ready(now)));
    put(now, {0, length, sent_new_});
    sent_new_ += length;
  }
  window_limited_ |= blocked();
  if (now >= probe_at_ && sent_.span() > 0) {
    const Stamp mark = stamp();
    sent_.on_probe_sent(now);
    probe_at_ = now + rtt_.timeout() + 100ms;
    path_.carry(*this, {{}, mark, 0});
  }
}

inline void Flow::arrive(TimePoint now, const Travelling& datagram) {
  if (tracker_.classify(datagram.stamp.sequence) != ReceiveTracker::Arrival::fresh) {
    return;
  }
  tracker_.record(now, datagram.stamp);
  received_bytes_ += datagram.length;
  distinct_bytes_ += datagram.length;  // nothing is sent again that was not lost
  if (distinct_bytes_ >= bytes_) {
    finished_at_ = now + path_.options.round_trip / 2;  // what the receiver then says at once
  }
  report_interval_ = std::clamp<Duration>(std::chrono::microseconds(datagram.stamp.round_trip_us) / 4, 200us, 20ms);
  busy_ = true;
  report_backoff_ = {};
  report_at_ = datagram.length == 0 ? now : std::min(report_at_, now + report_interval_);
}

inline void Flow::report(TimePoint now) {
  Report report;
  report.highest = tracker_.highest();
  report.received_bytes = received_bytes_;
  report.held_ns = static_cast<std::uint64_t>((now - tracker_.highest_at()).count());
  report.clock_ns = static_cast<std::uint64_t>((now - TimePoint{}).count());
  std::uint64_t from = tracker_.first_known();
  while (true) {
    const bool fits = tracker_.fill_missing(from, tracker_.loss_horizon(now), report);
    back_.emplace_back(now + path_.options.round_trip / 2, report);
    if (fits) {
      break;
    }
    from = report.to + 1;
  }
  report_backoff_ = std::exchange(busy_, false) ? report_interval_
                                                : std::min<Duration>(std::max<Duration>(report_backoff_, 20ms) * 2, 1s);
  report_at_ = now + report_backoff_;
}

inline void Flow::on_report(TimePoint now, const Report& report) {
  const auto resolved = sent_.on_report(report);
  if (!resolved || report.clock_ns < clock_ns_ || finished()) {
    return;
  }
  clock_ns_ = report.clock_ns;
  Delivery delivery = sampler_.on_report(now, report, sent_, *resolved);
  if (delivery.newest) {
    delivery.round_trip = now - sent_.passed_sent_at() - Duration(static_cast<Duration::rep>(report.held_ns));
    rtt_.sample(delivery.round_trip);
  }
  delivery.smoothed_round_trip = rtt_.smoothed();
  delivery.window_limited = std::exchange(window_limited_since_report_, false);
  control_->on_report(now, delivery);
  if (on_delivery) {
    on_delivery(now, delivery);
  }
  if (resolved->arrived + resolved->lost > 0) {
    probe_at_ = now + rtt_.timeout();
  }
}

}  // namespace sluice::ftx::test
