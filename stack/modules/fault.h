// SPDX-License-Identifier: Apache-2.0
#pragma once

// fault - a bad link: loss, bursts, reordering, duplicates, bit errors, delay, rate
//
// Two tap drivers joined through it are a WAN emulator; pushed above a driver it makes any link worse. What happens is
// a function of seed, traffic and simulated time alone: the same seed gives the same outcome.
//
// Accepts and produces
//   Messages that carry data, at any place of a stack: M_DATA, and M_PROTO with data behind it (unitdata). Each meets,
//   in this order:
//     loss          it vanishes: independently of others, or in bursts (Gilbert's model of two states, good and bad)
//     duplicate     a second copy follows it at once
//     bit errors    bits of its data are flipped, each with the same small probability; after an error one bit of each
//                   of the next error_messages - 1
//     rate          it waits until the link has sent what came before, or is dropped when too much waits already
//     delay         it travels
//     reorder       it travels longer, so that later ones overtake it
//
//   Everything else (primitives without data, ioctls, errors) passes at once and untouched. M_FLUSH discards what is on
//   its way in the directions it names. A transparent module.
//
// Parameters
//   direction = "both" | "up" | "down"   which messages suffer; "both" if absent; up is towards the stream head
//   loss            percent of messages lost; 0 if absent
//   burst           mean number of messages lost in a row; if absent, losses are independent. Needs loss < 100 and
//                   loss / (100 - loss) <= burst
//   duplicate       percent of messages sent twice; 0 if absent
//   bit_errors      probability that a bit is flipped, such as 1e-6; 0 if absent
//   error_messages  how many messages in a row a bit error damages; 1 if absent
//   reorder         percent of messages that are held back; 0 if absent
//   reorder_ms      how much longer those travel, in ms; 1 if absent
//   delay_ms        how long a message travels, in ms; 0 if absent
//   jitter_ms       up to how much longer, in ms, at random for each message, without overtaking; 0 if absent
//   slot_ms         messages leave only at multiples of this time, in ms, all together that are due: an adapter that
//                   moderates its interrupts, or a medium with slots (netem's `slot`). 0 if absent: each at its time,
//                   which costs a timer and a wake of the program for each
//   rate_mbit       the link's rate in Mbit/s; unlimited if absent
//   queue_bytes     how much may wait for the link (with rate_mbit); 262144 if absent. Further messages are dropped
//   overhead_bytes  what the link adds to each message, in bytes: 38 for an IP packet on Ethernet; 0 if absent
//   in_flight_bytes the memory that messages on their way may hold, in each direction; 67108864 if absent. Further
//                   messages are dropped as if the queue were full
//   seed            of all chance; drawn from the stream set's if absent
//
// Counters
//   for each direction, with down_ or up_ in front:
//   in              messages with data that arrived
//   lost            vanished
//   duplicated      second copies made
//   corrupted       messages with at least one bit flipped
//   queue_dropped   dropped, since the link's queue or in_flight_bytes was full
//   no_memory       dropped or not duplicated, since the pool was exhausted
//   flushed         discarded by M_FLUSH
//   reordered       left after a message that had come later
//   out             left
//   So in + duplicated = lost + queue_dropped + flushed + out + those on their way, and those no_memory dropped.
//
// Flow control
//   Service procedures on both sides. Messages that are due wait on its queue while the next one is full, so
//   can_put_next() answers no to the module behind from the high-water mark on, and nothing is lost of what respects
//   that. A rate limit does not push back: a link's queue drops.
//
//   Pacing is by departure times computed from sizes. When poll() runs late, what has become due leaves in one batch,
//   and the rate stays exact.
//
// Example
//   push  = ["fault"]
//   fault = { loss = 1, burst = 3, reorder = 5, delay_ms = 25, rate_mbit = 1000, overhead_bytes = 38, seed = 7 }
//
// Threads: as its stream set's.

#include <cstdint>
#include <memory>

#include "stack/core/registry.h"
#include "stack/modules/fault_lane.h"

namespace sluice {

class Fault : public Module {
 public:
  struct Options {
    FaultSettings settings = {};
    bool up = true;
    bool down = true;
    std::uint64_t seed = 0;
  };

  explicit Fault(const Options& options);

  [[nodiscard]] bool handles_deferred() const override { return true; }
  [[nodiscard]] PayloadWork payload_work(Side side) const override;
  Status open() override;
  void wput(Batch&& batch) override { put(down_, write_queue(), std::move(batch)); }
  void rput(Batch&& batch) override { put(up_, read_queue(), std::move(batch)); }
  void wsrv() override { serve(down_, write_queue()); }
  void rsrv() override { serve(up_, read_queue()); }

 private:
  /// One direction: its chance and counters, and what wakes it.
  struct Direction {
    Direction(Fault& module, bool active, const FaultSettings& settings, std::uint64_t seed, const LaneNames& names)
        : is_active(active), lane(module, settings, seed, names) {}

    bool is_active;
    FaultLane lane;
    std::unique_ptr<Timer> timer;
  };

  void put(Direction& direction, Queue& queue, Batch batch);
  void serve(Direction& direction, Queue& queue);
  void release_due(Direction& direction, Queue& queue);
  void pass(Batch out, Queue& queue);
  void flush(const Message& message);

  Direction down_;
  Direction up_;
};

[[nodiscard]] Entry fault_entry();

}  // namespace sluice
