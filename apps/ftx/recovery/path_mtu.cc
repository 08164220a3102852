// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/recovery/path_mtu.h"

#include <algorithm>
#include <array>
#include <span>

#include "base/contract.h"

namespace sluice::ftx {
namespace {

/// RFC 8899 section 5.3.2: "Implementations could optimize the search procedure by selecting step sizes from a table of
/// common PMTU sizes." IPv6's least; WireGuard, GRE and VXLAN tunnels; PPPoE; FDDI; jumbo frames.
constexpr std::array<std::size_t, 13> common_mtus{1280, 1380, 1400, 1420, 1450, 1476, 1480,
                                                  1492, 1500, 2304, 4352, 8192, 9000};
/// Section 5.3.2: "The search algorithm determines a minimum useful gain in PLPMTU." Below an Ethernet frame one unit
/// of payload; above it an eighth.
constexpr std::size_t gain_bytes_min = adu_bytes_unit;
constexpr std::size_t gain_part = 8;

/// What a report says of a sequence; null: nothing.
std::optional<bool> arrival(const Report& report, std::uint64_t sequence) {
  if (sequence == report.highest) {
    return true;
  }
  if (sequence < report.from || sequence > report.to) {
    return std::nullopt;
  }
  const auto missing = std::span(report.missing).first(report.range_count);
  return std::ranges::none_of(missing, [&](const SequenceRange& range) {
    return sequence >= range.first && sequence - range.first < range.count;
  });
}

}  // namespace

PathMtu::PathMtu(TimePoint now, PathMtuOptions options)
    : options_(options), bytes_(base_bytes), failed_(options.max_bytes + 1), probe_at_(now) {
  SLUICE_REQUIRE(options.max_bytes >= base_bytes && options.min_bytes <= base_bytes);
  if (options.max_bytes == base_bytes) {
    complete(now);
  }
}

// --- States --------------------------------------------------------------------------------------------------------

/// A black hole: another path, of which nothing is known.
void PathMtu::enter_base(TimePoint now) {
  state_ = State::base;
  bytes_ = base_bytes;
  failed_ = options_.max_bytes + 1;
  probed_ = 0;
  probe_count_ = 0;
  suspected_ = false;
  awaited_.reset();
  probe_at_ = now;
}

void PathMtu::enter_searching(TimePoint now) {
  state_ = State::searching;
  probe_count_ = 0;
  if (next_size() == 0) {
    complete(now);
  }
}

void PathMtu::complete(TimePoint now) {
  state_ = State::search_complete;
  probe_count_ = 0;
  probe_at_ = bytes_ == options_.max_bytes ? never : now + raise_timer;
}

void PathMtu::on_base_confirmed(TimePoint now) {
  if (state_ == State::base) {
    enter_searching(now);
  }
}

// --- Which size next -----------------------------------------------------------------------------------------------

std::size_t PathMtu::likely_bytes() const { return std::min(options_.max_bytes, ethernet_mtu - options_.header_bytes); }

/// The size to search with; 0: no size is worth it. Section 5.3.2: "Implementations SHOULD select the set of probe
/// packet sizes to maximize the gain in PLPMTU from each search step." So the likely size first, then the largest, then
/// the middle of what is left, or the common size next to it.
std::size_t PathMtu::next_size() const {
  const std::size_t likely = likely_bytes();
  if (bytes_ < likely && likely < failed_) {
    return likely;
  }
  if (bytes_ < options_.max_bytes && options_.max_bytes < failed_) {
    return options_.max_bytes;
  }
  const std::size_t gain = bytes_ < likely ? gain_bytes_min : bytes_ / gain_part;
  if (failed_ <= bytes_ + gain) {
    return 0;
  }
  const std::size_t middle = bytes_ + (failed_ - bytes_) / 2;
  std::size_t best = 0;
  const auto distance = [&](std::size_t size) { return size > middle ? size - middle : middle - size; };
  for (const std::size_t mtu : common_mtus) {
    const std::size_t size = mtu - options_.header_bytes;
    if (size > bytes_ && size < failed_ && (best == 0 || distance(size) < distance(best))) {
      best = size;
    }
  }
  return best == 0 ? middle : best;
}

// --- Probes --------------------------------------------------------------------------------------------------------

std::size_t PathMtu::next_probe(TimePoint now) {
  SLUICE_REQUIRE(now >= probe_at());
  if (state_ == State::search_complete) {
    // "it reenters the Search Phase" (PMTU_RAISE_TIMER, 5.1.1): the path may have got better.
    failed_ = options_.max_bytes + 1;
    state_ = State::searching;
  }
  if (state_ == State::searching) {
    probed_ = std::max(next_size(), base_bytes);
  } else {
    probed_ = state_ == State::base && probed_ == 0 ? likely_bytes() : base_bytes;
  }
  return probed_;
}

void PathMtu::on_probe_sent(TimePoint now, std::uint64_t sequence, Duration round_trip) {
  awaited_ = Awaited{sequence, now + probe_timer};
  interval_ = state_ == State::error || round_trip == Duration{} ? interval_max : std::min(round_trip, interval_max);
  probe_at_ = now + interval_;
}

void PathMtu::on_timer(TimePoint now) {
  if (awaited_ && now >= awaited_->until) {
    awaited_.reset();
    lost(now);
  }
}

void PathMtu::on_report(TimePoint now, const Report& report) {
  const auto known = awaited_ ? arrival(report, awaited_->sequence) : std::nullopt;
  if (!known) {
    return;
  }
  awaited_.reset();
  probe_at_ = now;  // a round trip has passed
  *known ? arrived(now) : lost(now);
  if (state_ == State::error) {
    probe_at_ = now + interval_max;
  }
}

/// "Each time a probe packet is acknowledged, the PROBE_COUNT is set to zero, the PLPMTU is set to the PROBED_SIZE, and
/// then the PROBED_SIZE is increased using the search algorithm" (5.2)
void PathMtu::arrived(TimePoint now) {
  bytes_ = std::max(probed_, bytes_);
  enter_searching(now);
}

/// "When a probe packet is sent and not acknowledged [...], the PROBE_COUNT is incremented, and a new probe packet is
/// transmitted." (5.2)
void PathMtu::lost(TimePoint now) {
  if (state_ == State::base && probed_ > base_bytes) {
    return;  // the likely size: the base is probed from now on
  }
  if (++probe_count_ >= probes_max) {
    give_up(now);
  }
}

void PathMtu::give_up(TimePoint now) {
  probe_count_ = 0;
  if (state_ == State::base || state_ == State::error) {
    state_ = State::error;
    bytes_ = options_.min_bytes;
    return;
  }
  failed_ = std::min(failed_, probed_);
  enter_searching(now);
}

// --- Other signs ---------------------------------------------------------------------------------------------------

void PathMtu::on_losses(TimePoint now, std::uint64_t large_lost, bool small_arrived) {
  if (large_lost == 0) {
    suspected_ = false;
    return;
  }
  const std::uint64_t enough = suspected_ ? 1 : black_hole_losses;
  const bool at_rest = state_ == State::searching || state_ == State::search_complete;
  if (at_rest && small_arrived && large_lost >= enough) {
    enter_base(now);
  }
}

/// "PLPMTU < PL_PTB_SIZE < PROBED_SIZE [...] The PLPMTU continues to be valid, but the size of a packet used to search
/// (PROBED_SIZE) was larger than the actual PMTU." (4.6.2) No size comes with it here, so a probe is what it must mean
/// while one is under way.
void PathMtu::on_too_big(TimePoint now) {
  if (awaited_ && probed_ > bytes_) {
    awaited_.reset();
    if (state_ == State::searching) {
      give_up(now);
    } else {
      lost(now);
    }
    return;
  }
  suspected_ = true;
}

}  // namespace sluice::ftx
