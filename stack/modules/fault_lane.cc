// SPDX-License-Identifier: Apache-2.0
#include "stack/modules/fault_lane.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace sluice {
namespace {

constexpr std::size_t ring_size_min = 64;
constexpr std::uint64_t never_an_error = std::numeric_limits<std::uint64_t>::max();

/// What a message holds in the pool while it waits, which may be far more than its bytes. Of a buffer that others hold,
/// too, its share: the fragments of a datagram may all show one.
std::size_t memory_of(const Message& message) {
  std::size_t total = 0;
  for (const Block* block = &message.first(); block != nullptr; block = block->cont) {
    total += sizeof(Buffer) + block->buffer->capacity() / block->buffer->references();
  }
  return total;
}

/// Flips bit `index` of the data. REQUIRES: the data has it and is writable.
void flip_bit(Message& message, std::uint64_t index) {
  std::uint64_t byte = index / 8;
  for (const Block* block = message.data_block(); block != nullptr; block = block->cont) {
    if (byte < block->size()) {
      block->rptr[byte] ^= static_cast<std::byte>(1U << (index % 8));
      return;
    }
    byte -= block->size();
  }
}

}  // namespace

void DepartureLine::push(Entry entry) {
  if (count_ == ring_.size()) {
    std::vector<Entry> grown(std::max(ring_size_min, 2 * ring_.size()));
    for (std::size_t i = 0; i < count_; ++i) {
      grown[i] = std::move(ring_[(first_ + i) & (ring_.size() - 1)]);
    }
    ring_ = std::move(grown);
    first_ = 0;
  }
  ring_[(first_ + count_++) & (ring_.size() - 1)] = std::move(entry);
}

DepartureLine::Entry DepartureLine::pop() {
  Entry entry = std::move(ring_[first_]);
  first_ = (first_ + 1) & (ring_.size() - 1);
  --count_;
  return entry;
}

FaultLane::FaultLane(Module& module, const FaultSettings& settings, std::uint64_t seed, const LaneNames& names)
    : settings_(settings),
      prng_(seed),
      in_(module, names.in, "messages with data that arrived"),
      lost_(module, names.lost, "messages that vanished"),
      duplicated_(module, names.duplicated, "second copies made"),
      corrupted_(module, names.corrupted, "messages with at least one bit flipped"),
      queue_dropped_(module, names.queue_dropped, "messages dropped, since too much waited for the link"),
      no_memory_(module, names.no_memory, "messages dropped or not duplicated, since the pool was exhausted"),
      flushed_(module, names.flushed, "messages discarded by M_FLUSH"),
      reordered_(module, names.reordered, "messages that left after one that had come later"),
      out_(module, names.out, "messages that left") {
  bits_until_error_ = bits_to_next_error();
}

/// Gilbert's model. In the bad state everything is lost; it ends after a message with probability 1 / burst, so it
/// lasts `burst` messages in the mean. It begins with the probability that makes `loss` of all messages fall into it:
/// loss = begin / (begin + end).
bool FaultLane::loses() {
  if (!settings_.burst_messages) {
    return settings_.loss > 0 && prng_.chance(settings_.loss);
  }
  const double end = 1 / *settings_.burst_messages;
  const double begin = end * settings_.loss / (1 - settings_.loss);
  in_burst_ = in_burst_ ? !prng_.chance(end) : prng_.chance(begin);
  return in_burst_;
}

/// How many good bits come before the next bad one: geometrically distributed, so that chance is asked once an error
/// and not once a bit.
std::uint64_t FaultLane::bits_to_next_error() {
  if (settings_.bit_errors <= 0) {
    return never_an_error;
  }
  const double skipped = std::floor(std::log1p(-prng_.unit()) / std::log1p(-settings_.bit_errors));
  constexpr double skipped_max = 0x1.0p62;
  return static_cast<std::uint64_t>(std::clamp(skipped, 0.0, skipped_max));
}

/// Flips the bits whose turn it is, or one anywhere in a message behind an error. False when the bytes could not be had
/// for writing.
bool FaultLane::corrupt(Message& message) {
  const std::uint64_t bits = 8 * std::uint64_t{message.data_size()};
  const bool hit = bits_until_error_ < bits;
  if (!hit) {
    bits_until_error_ -= bits_until_error_ == never_an_error ? 0 : bits;
    if (damaged_left_ == 0 || bits == 0) {
      return true;
    }
  }
  damaged_left_ = (hit ? settings_.error_messages : damaged_left_) - 1;
  if (message.materialize() == TransformResult::failed || !message.make_writable()) {
    return false;
  }
  if (!hit) {
    flip_bit(message, prng_.below(bits));
    ++corrupted_;
    return true;
  }
  std::uint64_t at = bits_until_error_;
  for (; at < bits; at += 1 + bits_to_next_error()) {
    flip_bit(message, at);
  }
  bits_until_error_ = at - bits;
  ++corrupted_;
  return true;
}

void FaultLane::arrive(Message message, TimePoint now) {
  ++in_;
  if (loses()) {
    ++lost_;
    return;
  }
  Message second;
  if (settings_.duplicate > 0 && prng_.chance(settings_.duplicate)) {
    second = message.duplicate();
    ++(second ? duplicated_ : no_memory_);
  }
  send(std::move(message), now);
  if (second) {
    send(std::move(second), now);
  }
}

void FaultLane::send(Message message, TimePoint now) {
  if (!corrupt(message)) {
    ++no_memory_;
    return;
  }
  const std::size_t link_bytes = message.data_size() + settings_.overhead_bytes;
  const std::size_t memory_bytes = memory_of(message);
  if (!link_accepts(link_bytes, now) || in_flight_bytes_ + memory_bytes > settings_.in_flight_bytes_max) {
    ++queue_dropped_;
    return;
  }
  use_link(link_bytes, now);
  travel(std::move(message), now, memory_bytes);
}

/// Tail drop. An idle link takes a message of any size.
bool FaultLane::link_accepts(std::size_t link_bytes, TimePoint now) const {
  if (settings_.rate_bits_per_second == 0 || link_free_at_ <= now) {
    return true;
  }
  const double waiting_seconds = std::chrono::duration<double>(link_free_at_ - now).count();
  const double waiting_bytes = waiting_seconds * static_cast<double>(settings_.rate_bits_per_second) / 8;
  return waiting_bytes + static_cast<double>(link_bytes) <= static_cast<double>(settings_.queue_bytes);
}

/// Moves link_free_at_ on by the time the link needs, exactly: what is left of a nanosecond is kept for the next
/// message.
void FaultLane::use_link(std::size_t link_bytes, TimePoint now) {
  if (link_free_at_ < now || settings_.rate_bits_per_second == 0) {
    link_free_at_ = now;
    link_remainder_ = 0;
  }
  if (settings_.rate_bits_per_second != 0) {
    const std::uint64_t work = 8 * std::uint64_t{link_bytes} * 1'000'000'000U + link_remainder_;
    link_free_at_ += Duration(work / settings_.rate_bits_per_second);
    link_remainder_ = work % settings_.rate_bits_per_second;
  }
}

void FaultLane::travel(Message message, TimePoint now, std::size_t memory_bytes) {
  TimePoint departure = std::max(link_free_at_, now) + settings_.delay;
  if (settings_.jitter > Duration::zero()) {
    departure += Duration(prng_.below(static_cast<std::uint64_t>(settings_.jitter.count())));
  }
  departure = last_on_time_ = std::max(departure, last_on_time_);
  in_flight_bytes_ += memory_bytes;
  const std::uint64_t sequence = ++arrived_;
  if (settings_.reorder > 0 && prng_.chance(settings_.reorder)) {
    late_.push({std::move(message), in_slot(departure + settings_.reorder_delay), sequence, memory_bytes});
  } else {
    on_time_.push({std::move(message), in_slot(departure), sequence, memory_bytes});
  }
}

/// The first slot that is not before `departure`.
TimePoint FaultLane::in_slot(TimePoint departure) const {
  if (settings_.slot == Duration::zero()) {
    return departure;
  }
  const Duration into = departure.time_since_epoch() % settings_.slot;
  return into == Duration::zero() ? departure : departure + (settings_.slot - into);
}

TimePoint FaultLane::next_departure() const {
  const TimePoint on_time = on_time_.empty() ? never : on_time_.front().departure;
  return late_.empty() ? on_time : std::min(on_time, late_.front().departure);
}

DepartureLine& FaultLane::next_line() {
  if (late_.empty() || on_time_.empty()) {
    return late_.empty() ? on_time_ : late_;
  }
  return late_.front().departure < on_time_.front().departure ? late_ : on_time_;
}

Message FaultLane::take_next() {
  DepartureLine::Entry entry = next_line().pop();
  in_flight_bytes_ -= entry.memory_bytes;
  if (entry.sequence < latest_departed_) {
    ++reordered_;
  }
  latest_departed_ = std::max(latest_departed_, entry.sequence);
  ++out_;
  return std::move(entry.message);
}

Batch FaultLane::depart(TimePoint now, std::size_t count_max) {
  Batch out;
  while (out.size() < count_max && !(on_time_.empty() && late_.empty()) && next_departure() <= now) {
    out.push(take_next());
  }
  return out;
}

void FaultLane::flush_line(DepartureLine& line, std::optional<std::uint8_t> band) {
  for (std::size_t left = line.size(); left > 0; --left) {
    DepartureLine::Entry entry = line.pop();
    if (band && entry.message.band() != *band) {
      line.push(std::move(entry));
      continue;
    }
    in_flight_bytes_ -= entry.memory_bytes;
    ++flushed_;
  }
}

void FaultLane::flush(std::optional<std::uint8_t> band) {
  flush_line(on_time_, band);
  flush_line(late_, band);
}

}  // namespace sluice
