// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/jobs/sending.h"

#include <fmt/format.h>

#include <algorithm>

#include "apps/common/entropy.h"
#include "apps/ftx/files/digest.h"
#include "apps/ftx/recovery/bbr.h"
#include "apps/ftx/recovery/cubic.h"
#include "apps/ftx/recovery/fixed_rate.h"
#include "apps/ftx/recovery/ledbat.h"
#include "apps/ftx/recovery/unpaced.h"

namespace sluice::ftx {
namespace {

constexpr std::size_t jumbo_mtu = 9000;

/// Within what a pacer counts with: 1 byte to 1 TB a second.
std::uint64_t bytes_per_second(double rate_mbit) {
  return static_cast<std::uint64_t>(std::clamp(rate_mbit * 1e6 / 8, 1.0, 1e12));
}

}  // namespace

ExitCode Sending::run() {
  bool told = false;
  TimePoint gives_up_at = never;
  while (!sender_.finished()) {
    const TimePoint now = host_.loop().now();
    if (host_.interrupted() && !told) {
      sender_.interrupt(now);
      told = true;
      gives_up_at = now + interrupt_grace;
    }
    // A pipe that takes nothing takes no farewell either.
    if (now >= gives_up_at) {
      return end_lost({ExitCode::interrupted, "interrupted"});
    }
    const TimePoint until = traffic_.send(now);
    show_events();
    if (sender_.finished()) {
      break;
    }
    if (left && left()) {
      return ExitCode::no_answer;
    }
    if (const auto failure = lost_now()) {
      return end_lost(*failure);
    }
    host_.wait(until);
  }
  show_events();
  traffic_.end();
  carrier_->drain(std::chrono::seconds(1));
  return outcome_.value_or(sender_.exit_code());
}

/// lost_now(), or as soon as it is noticed.
std::optional<Failure> Sending::lost_soon() {
  const TimePoint until = host_.loop().now() + (lost ? notice_time_max : Duration{});
  auto failure = lost_now();
  while (!failure && !host_.interrupted() && host_.loop().now() < until) {
    host_.wait(until);
    failure = lost_now();
  }
  return failure;
}

ExitCode Sending::end_lost(const Failure& failure) {
  // The outcome is known; only the peer does not know that we know.
  if (outcome_) {
    return *outcome_;
  }
  // A signal of the terminal is for ssh, too, which may end before we have seen ours.
  host_.wait(host_.loop().now());
  return observer_.fail(host_.interrupted() ? Failure{ExitCode::interrupted, "interrupted"} : failure);
}

void Sending::show_files() {
  while (observer_.wants_files()) {
    const auto file = sender_.next_sent();
    if (!file) {
      return;
    }
    observer_.show(*file);
  }
}

void Sending::show_changes() {
  while (const auto change = sender_.next_change()) {
    observer_.show(*change);
  }
}

void Sending::show_events() {
  show_changes();
  show_files();
  while (auto event = traffic_.next_event()) {
    if (event->code == ExitCode::no_answer && left) {
      continue;
    }
    if (event->code == ExitCode::no_answer && unanswered) {
      event->code = unanswered->code;
      event->text = unanswered->text;
    } else if (event->kind == Event::Kind::error && event->code != ExitCode::interrupted) {
      event->text = fmt::format("{}: {}", destination_, event->text);
    }
    // The far side is interrupted by the end of its pipe, and says so faster than ours may have been noticed.
    if (event->code == ExitCode::interrupted && !host_.interrupted()) {
      if (const auto failure = lost_soon()) {
        event->code = failure->code;
        event->text = failure->text;
      }
    }
    if (event->kind == Event::Kind::done || event->kind == Event::Kind::error) {
      outcome_ = event->code;
    }
    event->path = destination_;
    observer_.show(*event);
  }
}

std::expected<void, Failure> read_digests(Source& source, Host& host) {
  for (;;) {
    const auto all = source.digest_some(digest_turn_bytes);
    if (!all || *all) {
      return all ? std::expected<void, Failure>() : std::unexpected(all.error());
    }
    host.wait(TimePoint::min());
    if (host.interrupted()) {
      return std::unexpected(Failure{ExitCode::interrupted, "interrupted"});
    }
  }
}

std::unique_ptr<CongestionControl> congestion_for(const PushOptions& options, std::size_t datagram_bytes) {
  if (options.rate_mbit) {
    return std::make_unique<FixedRate>(bytes_per_second(*options.rate_mbit));
  }
  if (options.background) {
    return std::make_unique<Ledbat>(datagram_bytes);
  }
  if (options.cubic) {
    return std::make_unique<Cubic>(datagram_bytes);
  }
  return std::make_unique<Bbr>(datagram_bytes, entropy());
}

TimePoint cost_clock() {
  return TimePoint(std::chrono::duration_cast<Duration>(std::chrono::steady_clock::now().time_since_epoch()));
}

std::unique_ptr<CongestionControl> pipe_congestion_for(const PushOptions& options) {
  return options.rate_mbit ? congestion_for(options, PipeTransport::tsdu_bytes) : std::make_unique<Unpaced>();
}

void ask_congestion(const PushOptions& options, AskedCongestion& congestion, std::uint64_t& rate) {
  if (options.rate_mbit) {
    congestion = AskedCongestion::fixed_rate;
    rate = bytes_per_second(*options.rate_mbit);
  } else if (options.background) {
    congestion = AskedCongestion::background;
  } else if (options.cubic) {
    congestion = AskedCongestion::cubic;
  }
}

PushOptions asked_of(AskedCongestion congestion, std::uint64_t rate) {
  PushOptions options;
  options.cubic = congestion == AskedCongestion::cubic;
  options.background = congestion == AskedCongestion::background;
  if (congestion == AskedCongestion::fixed_rate) {
    options.rate_mbit = static_cast<double>(rate) * 8 / 1e6;
  }
  return options;
}

std::expected<DatagramSize, Failure> datagram_size_for(const PushOptions& options, bool v6, const Transport& transport,
                                                       std::size_t peer_bytes_max) {
  const std::size_t usual = ethernet_mtu - header_bytes(v6);
  const std::size_t largest =
      transport.never_fragments() ? std::min(jumbo_mtu - header_bytes(v6), transport.tsdu_bytes()) : usual;
  const std::size_t bytes = std::min(options.datagram_bytes.value_or(largest), peer_bytes_max);
  if (adu_bytes_for(bytes) == 0 || bytes > transport.tsdu_bytes()) {
    return std::unexpected(Failure{ExitCode::usage, fmt::format("--datagram-bytes {}: expected {} .. {}", bytes,
                                                                control_bytes_max, transport.tsdu_bytes())});
  }
  DatagramSize size{.bytes_max = bytes, .usual_bytes = std::min(bytes, usual)};
  if (transport.never_fragments()) {
    size.ip_header_bytes = header_bytes(v6);
  }
  return size;
}

}  // namespace sluice::ftx
