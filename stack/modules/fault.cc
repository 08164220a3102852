// SPDX-License-Identifier: Apache-2.0
#include "stack/modules/fault.h"

#include <fmt/format.h>

#include <cerrno>
#include <optional>
#include <utility>

#include "stack/core/stream_set.h"

namespace sluice {
namespace {

/// Messages that leave in one put_next at most: can_put_next() is asked once for them.
constexpr std::size_t batch_messages_max = 32;

constexpr LaneNames down_names{.in = "down_in",
                               .lost = "down_lost",
                               .duplicated = "down_duplicated",
                               .corrupted = "down_corrupted",
                               .queue_dropped = "down_queue_dropped",
                               .no_memory = "down_no_memory",
                               .flushed = "down_flushed",
                               .reordered = "down_reordered",
                               .out = "down_out"};
constexpr LaneNames up_names{.in = "up_in",
                             .lost = "up_lost",
                             .duplicated = "up_duplicated",
                             .corrupted = "up_corrupted",
                             .queue_dropped = "up_queue_dropped",
                             .no_memory = "up_no_memory",
                             .flushed = "up_flushed",
                             .reordered = "up_reordered",
                             .out = "up_out"};

bool carries_data(Message& message) {
  return message.type() == MessageType::data ||
         (message.type() == MessageType::proto && message.data_block() != nullptr);
}

/// A side that suffers has a queue to wait on; a side that does not is looked through.
Module::Services services_of(const Fault::Options& options) {
  return static_cast<Module::Services>((options.down ? 1U : 0U) | (options.up ? 2U : 0U));
}

}  // namespace

Fault::Fault(const Options& options)
    : Module("fault", services_of(options)),
      down_(*this, options.down, options.settings, options.seed, down_names),
      up_(*this, options.up, options.settings, ~options.seed, up_names) {}

PayloadWork Fault::payload_work(Side side) const {
  const bool active = side == Side::write ? down_.is_active : up_.is_active;
  return {.items = {}, .materializes = active ? "holds messages, and may flip their bits" : "", .keeps = active};
}

Status Fault::open() {
  Scheduler& scheduler = set().scheduler();
  down_.timer = std::make_unique<Timer>(scheduler, [this] { release_due(down_, write_queue()); });
  up_.timer = std::make_unique<Timer>(scheduler, [this] { release_due(up_, read_queue()); });
  return {};
}

void Fault::put(Direction& direction, Queue& queue, Batch batch) {
  bool arrived = false;
  while (Message message = batch.pop()) {
    if (direction.is_active && carries_data(message)) {
      if (keep(message, queue.side()) == TransformResult::failed) {
        continue;  // on a layered path it would have ended below: nothing here may depend on it
      }
      arrived = true;
      direction.lane.arrive(std::move(message), set().now());
      continue;
    }
    if (message.type() == MessageType::flush) {
      flush(message);
    }
    release_due(direction, queue);  // what is due already came before it
    queue.put_next(std::move(message));
  }
  if (arrived) {
    release_due(direction, queue);
  }
}

void Fault::serve(Direction& direction, Queue& queue) {
  forward_waiting(queue);
  release_due(direction, queue);
}

void Fault::release_due(Direction& direction, Queue& queue) {
  while (!queue.full()) {
    Batch out = direction.lane.depart(set().now(), batch_messages_max);
    if (out.empty()) {
      break;
    }
    pass(std::move(out), queue);
  }
  const TimePoint next = direction.lane.next_departure();
  if (queue.full() || next == never) {
    direction.timer->cancel();  // when the queue is low again, its service procedure goes on
  } else if (!direction.timer->armed() || direction.timer->at() != next) {
    direction.timer->arm(next);
  }
}

void Fault::pass(Batch out, Queue& queue) {
  if (queue.empty() && queue.can_put_next(out.front()->band)) {
    queue.put_next(std::move(out));
    return;
  }
  while (Message message = out.pop()) {
    queue.enqueue(std::move(message));
  }
}

void Fault::flush(const Message& message) {
  flush_queues(message);
  const ConstBytes bytes = message.bytes();
  if (bytes.empty()) {
    return;
  }
  const auto flags = std::to_integer<unsigned>(bytes[0]);
  std::optional<std::uint8_t> band;
  if ((flags & flush_band) != 0 && bytes.size() >= 2) {
    band = std::to_integer<std::uint8_t>(bytes[1]);
  }
  if ((flags & flush_write) != 0) {
    down_.lane.flush(band);
  }
  if ((flags & flush_read) != 0) {
    up_.lane.flush(band);
  }
}

namespace {

using enum ParameterSpec::Type;

ParameterSpec percent(std::string_view name, std::string_view meaning) {
  return {.name = name, .type = real, .meaning = meaning, .minimum = 0, .maximum = 100};
}

ParameterSpec milliseconds(std::string_view name, std::string_view meaning) {
  constexpr double minute = 60'000;
  return {.name = name, .type = real, .meaning = meaning, .minimum = 0, .maximum = minute};
}

ParameterSpec bytes(std::string_view name, std::string_view meaning, double minimum, double maximum) {
  return {.name = name, .type = integer, .meaning = meaning, .minimum = minimum, .maximum = maximum};
}

std::vector<ParameterSpec> parameter_specs() {
  constexpr double gib = 1 << 30;
  return {
      {.name = "direction",
       .type = text,
       .meaning = "Which messages suffer: both, up (towards the stream head) or down; both if absent.",
       .choices = {"both", "up", "down"}},
      percent("loss", "Percent of messages lost; 0 if absent."),
      {.name = "burst",
       .type = real,
       .meaning = "Mean number of messages lost in a row; if absent, losses are independent.",
       .minimum = 1,
       .maximum = 1'000'000},
      percent("duplicate", "Percent of messages sent twice; 0 if absent."),
      {.name = "bit_errors",
       .type = real,
       .meaning = "Probability that a bit is flipped; 0 if absent.",
       .minimum = 0,
       .maximum = 1},
      {.name = "error_messages",
       .type = integer,
       .meaning = "How many messages in a row a bit error damages; 1 if absent.",
       .minimum = 1,
       .maximum = 1'000'000},
      percent("reorder", "Percent of messages held back, so that later ones overtake them; 0 if absent."),
      milliseconds("reorder_ms", "How long those are held back, in ms; 1 if absent."),
      milliseconds("delay_ms", "How long a message travels, in ms; 0 if absent."),
      milliseconds("jitter_ms", "Up to how much longer, in ms, without overtaking; 0 if absent."),
      milliseconds("slot_ms", "Messages leave only at multiples of this time, in ms, together; 0 if absent."),
      {.name = "rate_mbit",
       .type = real,
       .meaning = "The link's rate in Mbit/s; unlimited if absent.",
       .minimum = 0.001,
       .maximum = 1'000'000},
      bytes("queue_bytes", "How much may wait for the link, in bytes; 262144 if absent.", 0, gib),
      bytes("overhead_bytes", "What the link adds to each message, in bytes; 0 if absent.", 0, 65536),
      bytes("in_flight_bytes", "Memory of messages on their way in each direction, in bytes; 67108864 if absent.",
            65536, gib),
      {.name = "seed", .type = integer, .meaning = "Of all chance; drawn from the stream set's if absent."},
  };
}

Duration milliseconds_of(const Parameters& parameters, std::string_view name, double otherwise) {
  return std::chrono::round<Duration>(std::chrono::duration<double, std::milli>(parameters.real(name, otherwise)));
}

std::size_t bytes_of(const Parameters& parameters, std::string_view name, std::size_t otherwise) {
  return static_cast<std::size_t>(parameters.integer(name, static_cast<std::int64_t>(otherwise)));
}

FaultSettings settings_of(const Parameters& parameters) {
  const FaultSettings defaults;
  FaultSettings settings;
  settings.loss = parameters.real("loss", 0) / 100;
  if (parameters.has("burst")) {
    settings.burst_messages = parameters.real("burst", 1);
  }
  settings.duplicate = parameters.real("duplicate", 0) / 100;
  settings.bit_errors = parameters.real("bit_errors", 0);
  settings.error_messages = static_cast<std::uint64_t>(parameters.integer("error_messages", 1));
  settings.reorder = parameters.real("reorder", 0) / 100;
  settings.reorder_delay = milliseconds_of(parameters, "reorder_ms", 1);
  settings.delay = milliseconds_of(parameters, "delay_ms", 0);
  settings.jitter = milliseconds_of(parameters, "jitter_ms", 0);
  settings.slot = milliseconds_of(parameters, "slot_ms", 0);
  settings.rate_bits_per_second = static_cast<std::uint64_t>(parameters.real("rate_mbit", 0) * 1e6);
  settings.queue_bytes = bytes_of(parameters, "queue_bytes", defaults.queue_bytes);
  settings.overhead_bytes = bytes_of(parameters, "overhead_bytes", defaults.overhead_bytes);
  settings.in_flight_bytes_max = bytes_of(parameters, "in_flight_bytes", defaults.in_flight_bytes_max);
  return settings;
}

Result<std::unique_ptr<Module>> make_fault(StreamSet& set, const Parameters& parameters) {
  Fault::Options options{.settings = settings_of(parameters)};
  const FaultSettings& settings = options.settings;
  if (settings.burst_messages && settings.loss > *settings.burst_messages * (1 - settings.loss)) {
    return fail(EINVAL,
                fmt::format("fault: a loss of {} percent needs bursts of at least {:.3g} messages, but burst is {}",
                            settings.loss * 100, settings.loss / (1 - settings.loss), *settings.burst_messages));
  }
  const std::string direction = parameters.text("direction", "both");
  options.up = direction != "down";
  options.down = direction != "up";
  const auto drawn = static_cast<std::int64_t>(set.prng()());
  options.seed = static_cast<std::uint64_t>(parameters.integer("seed", drawn));
  return std::make_unique<Fault>(options);
}

}  // namespace

Entry fault_entry() {
  return {.name = "fault",
          .summary = "a bad link: loss, bursts, reordering, duplicates, bit errors, delay, rate",
          .effect = "materializes, then holds, drops and corrupts messages at random",
          .transparent = true,
          .parameters = parameter_specs(),
          .make = make_fault};
}

}  // namespace sluice
