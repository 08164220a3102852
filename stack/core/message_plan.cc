// SPDX-License-Identifier: Apache-2.0
// What a message owes: its plan, the passes that carry it out, and what is asked of the bytes (stack/core/message.h).

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/contract.h"
#include "base/internet_checksum.h"
#include "ilp/kernels.h"
#include "stack/core/known_sums.h"
#include "stack/core/message.h"
#include "stack/core/pass.h"

namespace sluice {
namespace {

/// So few bytes are summed or swapped faster than a kernel is called.
constexpr std::size_t short_bytes_max = 128;

template <class Word>
Word swapped_at(const std::byte* at) {
  Word word;
  std::memcpy(&word, at, sizeof word);
  return byte_swapped(word);
}

/// Eight bytes, and as many units, at a time.
template <class Unit>
void swap_eight(std::byte* at) {
  std::uint64_t word = swapped_at<std::uint64_t>(at);
  if constexpr (sizeof(Unit) == 4) {  // the two have changed places
    word = std::rotl(word, 32);
  } else if constexpr (sizeof(Unit) == 2) {
    word = std::rotl(word, 32);
    word = (word & 0x0000'ffff'0000'ffffU) << 16 | (word >> 16 & 0x0000'ffff'0000'ffffU);
  }
  std::memcpy(at, &word, sizeof word);
}

template <class Unit>
void swap_units(Bytes bytes) {
  std::byte* at = bytes.data();
  std::size_t left = bytes.size();
  for (; left >= 32; left -= 32, at += 32) {
    swap_eight<Unit>(at);
    swap_eight<Unit>(at + 8);
    swap_eight<Unit>(at + 16);
    swap_eight<Unit>(at + 24);
  }
  for (; left >= 8; left -= 8, at += 8) {
    swap_eight<Unit>(at);
  }
  for (; left > 0; left -= sizeof(Unit), at += sizeof(Unit)) {
    const Unit unit = swapped_at<Unit>(at);
    std::memcpy(at, &unit, sizeof unit);
  }
}

/// REQUIRES: whole units.
void swap_short(std::size_t unit, Bytes bytes) {
  unit == 2   ? swap_units<std::uint16_t>(bytes)
  : unit == 4 ? swap_units<std::uint32_t>(bytes)
              : swap_units<std::uint64_t>(bytes);
}

/// The sum of bytes in one piece.
inline std::uint16_t sum_of(ConstBytes bytes) {
  return bytes.size() <= short_bytes_max ? header_sum(bytes) : ilp::sum(bytes);
}

/// The sum of data bytes [offset, offset + size) of `block`, a first data block, and those behind it. REQUIRES: there
/// are so many.
std::uint16_t sum_of(const Block* block, std::size_t offset, std::size_t size) {
  if (offset + size <= block->size()) [[likely]] {
    return sum_of(ConstBytes(block->rptr + offset, size));
  }
  std::uint16_t total = 0;
  std::size_t summed = 0;
  for (; size > 0; block = block->cont) {
    const std::size_t here = block->size();
    const std::size_t part = std::min(size, here - std::min(here, offset));
    const ConstBytes bytes(block->rptr + std::min(here, offset), part);
    total = add_sums(total, ilp::sum(bytes), summed);
    summed += part;
    offset -= std::min(here, offset);
    size -= part;
  }
  return total;
}

/// The sum of the `size` bytes of data from `from` to the end. `block`: its first, or nullptr.
inline std::uint16_t sum_to_end(const Block* block, std::size_t from, std::size_t size) {
  if (block != nullptr && block->cont == nullptr) [[likely]] {
    return sum_of(block->bytes().subspan(from));
  }
  return block == nullptr ? std::uint16_t{0} : sum_of(block, from, size);
}

/// The same, where it loads next to nothing, and counted: of each block it is known (KnownSums), or the block is as
/// short as a header.
std::optional<std::uint16_t> known_sum(const Block* block, std::size_t from, Touches& touches) {
  std::uint16_t total = 0;
  std::size_t summed = 0;
  std::size_t loaded = 0;
  bool known_at_all = false;
  for (; block != nullptr; block = block->cont) {
    const ConstBytes bytes = block->bytes().subspan(std::min(from, block->size()));
    from -= block->size() - bytes.size();
    const KnownSums* const sums = block->buffer->known_sums();
    std::optional<std::uint16_t> sum = sums == nullptr ? std::nullopt : sums->of(bytes);
    known_at_all = known_at_all || sum;
    if (!sum) {
      if (bytes.size() > short_bytes_max) {
        return std::nullopt;
      }
      sum = header_sum(bytes);
      loaded += bytes.size();
    }
    total = add_sums(total, *sum, summed);
    summed += bytes.size();
  }
  touches.add(known_at_all ? loaded : 0, 0);
  return known_at_all ? std::optional(total) : std::nullopt;
}

/// Has the conversion of `size` bytes join `plan`. REQUIRES: plan.takes_swap(unit).
inline TransformResult plan_swap(Plan& plan, std::size_t unit, std::size_t size) {
  PlannedStep& step = plan.add(PlannedStep::Kind::swap, size);
  step.unit = static_cast<std::uint8_t>(unit);
  step.converts = true;
  return TransformResult::deferred;
}

std::span<const PlannedStep> owed_by(const Plan* plan) {
  return plan == nullptr ? std::span<const PlannedStep>() : plan->owed();
}

bool owes_stage(const Plan* plan, const std::shared_ptr<Stage>& stage) {
  return plan != nullptr && plan->has_stages &&
         std::ranges::find(plan->stages, stage, &PlannedStage::stage) != plan->stages.end();
}

}  // namespace

// ---- What is owed ----

void Plan::let_stages_go() {
  stages = {};
  has_stages = false;
}

void Message::defer() {
  Block* const block = mutable_data_block();
  if (block != nullptr && block->plan == nullptr) {
    block->plan = pool().allocate_plan();
  }
}

void Message::defer_copies(std::span<const ConstBytes> runs, std::byte* place, DeferredCopy*& list) {
  while (!runs.empty() && runs.front().empty()) {
    runs = runs.subspan(1);  // may lie nowhere, which stands for nothing being owed
  }
  if (runs.empty()) {
    return;
  }
  defer_copy(runs.front(), place, list);
  std::size_t more = 0;
  for (const ConstBytes run : runs.subspan(1)) {
    more += run.size();
  }
  plan()->copy.continue_with(runs.subspan(1), more);
}

/// For whatever needs the bytes in their block, converted or not.
void Message::complete_copy() {
  if (Plan* const planned = plan(); planned != nullptr && planned->copy.source != nullptr) {
    pool().complete(planned->copy);
  }
}

/// Where the result of `step` goes: to a field in the data, or outside.
void Message::place_field(PlannedStep& step, std::byte* field) const {
  std::size_t left = data_size();
  for (const Block* block = data_block(); block != nullptr; block = block->cont) {
    // std::less: a field outside is in another array.
    if (!std::less<>{}(field, block->rptr) && std::less<>{}(field, block->wptr)) [[likely]] {
      step.field = static_cast<std::uint32_t>(left - static_cast<std::size_t>(field - block->rptr));
      return;
    }
    left -= block->size();
  }
  step.outside = field;
}

/// A plan that is full is carried out, and is empty then.
inline PlannedStep* Message::plan_step(PlannedStep::Kind kind) {
  Plan* const planned = plan();
  if (planned == nullptr || planned->failed ||
      (planned->step_count == Plan::steps_max && materialize() == TransformResult::failed)) {
    return nullptr;
  }
  return &planned->add(kind, data_size());
}

PlannedChange* Message::plan_change(const ModuleHandle& owner) {
  Plan& planned = *plan();
  if (planned.change_count == Plan::changes_max) {
    return nullptr;
  }
  PlannedChange& change = planned.changes[planned.change_count++];
  change.owner = owner;
  change.checks_before = planned.check_count;
  return &change;
}

/// Before the data loses bytes at the end, or gets some: steps cover what it has now. A failure is remembered by the
/// plan, one for want of memory, too: what it owes cannot be done to other bytes later.
void Message::materialize_before_cut() {
  if (owing() != nullptr && materialize() == TransformResult::failed) {
    plan()->failed = true;
    plan()->clear();
  }
}

/// The plan of data that becomes part of this message: what it still has to say is whether that data is good.
void Message::take_over(Plan& ended) {
  Plan* const planned = plan();
  if (planned == nullptr && ended.failed) {
    mutable_data_block()->plan = &ended;
    return;
  }
  if (ended.failed) {
    planned->failed = true;
    planned->clear();
  }
  pool().release(&ended);
}

/// What a sum loses at the front it takes in now: these bytes are a header, and have been looked at. REQUIRES:
/// something is owed.
void Message::plan_trimmed(std::size_t trimmed) {
  if (plan()->copy.source != nullptr) {
    complete_copy();
  }
  const std::size_t left = data_size() - trimmed;
  const auto survives = [left](const PlannedStep& step) {
    const bool in_sum = step.kind == PlannedStep::Kind::sum || step.kind == PlannedStep::Kind::check;
    return (!step.fills_message() || step.field <= left) && (in_sum || step.covers <= left);
  };
  Plan& planned = *plan();
  if (!std::ranges::all_of(planned.owed(), survives)) {
    materialize_before_cut();
    return;
  }
  for (PlannedStep& step : planned.owed()) {
    if (step.covers > left) {
      const std::size_t covered = step.covers - left;
      const std::uint16_t sum = sum_of(data_block(), trimmed - covered, covered);
      step.initial = add_sums(step.initial, step.odd ? byte_swapped(sum) : sum);
      step.odd = step.odd != (covered % 2 != 0);
      step.covers = static_cast<std::uint32_t>(left);
    }
  }
}

namespace {

/// A pass that cannot be made in place takes up to so many blocks apart; of longer chains every block is copied first.
constexpr std::size_t places_max = 16;

/// Where the bytes of a message's data blocks come to lie: where they are, or in fresh blocks.
class Places {
 public:
  explicit Places(BufferPool& pool) : pool_(pool) {}
  ~Places() {
    for (Block* const block : fresh_) {
      if (block != nullptr) {
        pool_.release(block);
      }
    }
  }
  Places(const Places&) = delete;
  Places& operator=(const Places&) = delete;

  [[nodiscard]] bool full() const { return count_ == places_max; }
  /// False when the pool is exhausted. REQUIRES: !full().
  [[nodiscard]] bool add(const Block& block, bool stays) {
    Block* const fresh = stays ? nullptr : pool_.allocate(block.size());
    fresh_[count_] = fresh;
    bytes_[count_++] = fresh == nullptr ? block.bytes() : Bytes(fresh->rptr, block.size());
    return stays || fresh != nullptr;
  }
  [[nodiscard]] std::span<const Bytes> bytes() const { return std::span(bytes_).first(count_); }
  /// Puts the next fresh block in the place of the block at `at`, if it has one.
  void replace(Block*& at) {
    Block* const fresh = std::exchange(fresh_[next_++], nullptr);
    if (fresh != nullptr) {
      fresh->wptr = fresh->rptr + at->size();
      succeed(*fresh, *at);
      fresh->cont = at->cont;
      pool_.release(std::exchange(at, fresh));
    }
  }
  /// `fresh` takes over what `old` is in its message.
  static void succeed(Block& fresh, Block& old) {
    fresh.next = old.next;
    fresh.plan = std::exchange(old.plan, nullptr);
    fresh.band = old.band;
  }

 private:
  BufferPool& pool_;
  std::array<Bytes, places_max> bytes_;
  std::array<Block*, places_max> fresh_{};
  std::size_t count_ = 0;
  std::size_t next_ = 0;
};

/// Whether a pass can leave the data where it lies.
bool stays(const Block& block, bool converted, bool keep) {
  return block.type != MessageType::data ||
         ((!keep || !block.buffer->borrowed()) && (!converted || block.buffer->writable()));
}

bool all_stay(const Block* block, bool converted, bool keep) {
  while (block != nullptr && stays(*block, converted, keep)) {
    block = block->cont;
  }
  return block == nullptr;
}

/// Bytes to leave free in front of a frame so that the payload, what is borrowed, starts on a cache line: stores that
/// cross lines cost twice.
std::size_t spare_in_front(const Block* block) {
  std::size_t headers = 0;
  for (; block != nullptr && !block->buffer->borrowed(); block = block->cont) {
    headers += block->type == MessageType::data ? block->size() : 0;
  }
  return (cache_line_bytes - headers % cache_line_bytes) % cache_line_bytes;
}

}  // namespace

/// The message is on the layered path from here on. Answers `done`.
inline TransformResult Message::end_plan() {
  if (Plan* const ended = take_plan()) {
    pool().release(ended);
  }
  return TransformResult::done;
}

/// Carries out what is owed, if anything, on the way to `places`. Answers whether every check held.
inline bool Message::pass_to(Plan* plan, std::span<const Bytes> places) {
  if (plan != nullptr) [[likely]] {
    return sluice::pass_to(*plan, first_, data_size(), places, pool().touches());
  }
  copy_to(first_, data_size(), places, pool().touches());
  return true;
}

inline bool Message::lies_in_one_writable_block() const {
  const Block* const block = data_block();
  return block != nullptr && block->cont == nullptr && block->buffer->writable() && !block->buffer->borrowed();
}

TransformResult Message::carry_out(bool keep) {
  Plan* const planned = plan();
  if (planned != nullptr && planned->failed) {
    return TransformResult::failed;
  }
  const bool owes = planned != nullptr && planned->owes();
  if (!owes && !keep) {
    return TransformResult::done;
  }
  if (!lies_in_one_writable_block() && !all_stay(first_, owes && planned->converts(), keep)) {
    const bool converted = owes && planned->converts();
    return carry_out_copying(planned, converted, keep);
  }
  return !owes || pass_in_place(*planned, first_, data_size(), pool().touches()) ? TransformResult::done
                                                                                 : TransformResult::failed;
}

/// The pass where some blocks cannot be written, or not be kept: it ends in fresh ones, which take their places.
TransformResult Message::carry_out_copying(Plan* plan, bool converted, bool keep) {
  Places places(pool());
  for (Block* block = first_; block != nullptr; block = block->cont) {
    if (block->type != MessageType::data) {
      continue;
    }
    if (places.full()) {
      return own_blocks(keep) ? carry_out(keep) : TransformResult::failed;
    }
    if (!places.add(*block, stays(*block, converted, keep))) {
      return TransformResult::failed;
    }
  }
  const bool held = pass_to(plan, places.bytes());
  for (Block** at = &first_; *at != nullptr; at = &(*at)->cont) {
    if ((*at)->type == MessageType::data) {
      places.replace(*at);
    }
  }
  forget_facts();
  return held ? TransformResult::done : TransformResult::failed;
}

TransformResult Message::gather() {
  Plan* const planned = plan();
  if (planned != nullptr && !planned->failed && lies_in_one_writable_block()) [[likely]] {
    return pass_in_place(*planned, first_, data_size(), pool().touches()) ? end_plan() : TransformResult::failed;
  }
  const bool stays =
      lies_in_one_writable_block() || all_stay(first_, planned != nullptr && planned->converts(), /*keep=*/true);
  const TransformResult result = stays ? materialize() : gather_into_frame();
  return result == TransformResult::done ? end_plan() : result;
}

TransformResult Message::gather_into_frame() {
  Plan* const planned = plan();
  const std::size_t size = data_size();
  const std::size_t spare = spare_in_front(first_);
  Block* const frame = planned != nullptr && planned->failed ? nullptr : pool().allocate(spare + size);
  if (frame == nullptr) {
    return TransformResult::failed;
  }
  frame->rptr += spare;
  const Bytes place(frame->rptr, size);
  const bool held = pass_to(planned, std::span(&place, 1));
  Block** at = &first_;
  while ((*at)->type != MessageType::data) {
    at = &(*at)->cont;
  }
  frame->wptr = frame->rptr + size;
  Places::succeed(*frame, **at);
  Message old(std::exchange(*at, frame));
  first_->first_data = frame;
  first_->data_bytes = static_cast<std::uint32_t>(size);
  return held ? TransformResult::done : TransformResult::failed;
}

TransformResult Message::land(std::span<const Bytes> places) {
  Plan* const planned = plan();
  if (planned != nullptr && planned->failed) {
    return TransformResult::failed;
  }
  return pass_to(planned, places) ? end_plan() : TransformResult::failed;
}

TransformResult Message::land_summed(std::span<const Bytes> places, std::span<std::uint16_t> sums) {
  SLUICE_REQUIRE(sums.size() == places.size());
  Plan* const planned = plan();
  if (planned != nullptr && planned->failed) {
    return TransformResult::failed;
  }
  return pass_to_summed(planned, first_, data_size(), places, sums, pool().touches()) ? end_plan()
                                                                                      : TransformResult::failed;
}

/// Whether the data is one block of our own whose bytes are all still in the user's memory.
bool Message::is_all_lent() const {
  const Plan* const planned = owing();
  const Block* const block = data_block();
  return planned != nullptr && !planned->failed && block->cont == nullptr && block->buffer->writable() &&
         block->buffer->pooled() && planned->copy.source != nullptr && planned->copy.place == block->rptr &&
         planned->copy.size == block->size();
}

TransformResult Message::keep(const Stretches& stretches) {
  SLUICE_REQUIRE(0 < stretches.first && stretches.first <= stretches.each);
  if (!is_all_lent()) {
    return keep();
  }
  const Block& block = *data_block();
  std::vector<Bytes> places;
  Bytes rest = block.bytes();
  for (std::size_t size = stretches.first; !rest.empty(); size = stretches.each) {
    places.push_back(rest.first(std::min(size, rest.size())));
    rest = rest.subspan(places.back().size());
  }
  std::vector<std::uint16_t> sums(places.size());
  const TransformResult result = land_summed(places, sums);
  if (result != TransformResult::failed) {
    BufferPool::remember(block, std::make_unique<const KnownSums>(block.bytes(), stretches, std::move(sums)));
  }
  return result;
}

std::optional<std::size_t> Message::runs(std::span<ConstBytes> out) const {
  const Plan* const planned = owing();
  if (planned != nullptr && (planned->failed || planned->step_count > 0)) {
    return std::nullopt;
  }
  return lying_runs(first_, planned == nullptr ? nullptr : &planned->copy, out);
}

// ---- Manipulations ----

TransformResult Message::transform(const Swap& swap) {
  SLUICE_REQUIRE(swap.unit == 2 || swap.unit == 4 || swap.unit == 8);
  const Block* const block = data_block();
  const bool is_whole = block != nullptr && block->cont == nullptr && (block->size() & (swap.unit - 1)) == 0;
  if (is_whole && block->plan != nullptr && block->plan->takes_swap(swap.unit)) {
    return plan_swap(*block->plan, swap.unit, block->size());
  }
  if (!is_whole || block->plan != nullptr || !block->buffer->writable()) [[unlikely]] {
    return swap_any(swap);
  }
  const Bytes bytes = block->bytes();
  pool().touches().add(bytes.size(), bytes.size());
  bytes.size() <= short_bytes_max ? swap_short(swap.unit, bytes) : ilp::swap(swap.unit, bytes);
  return TransformResult::done;
}

/// Joins the plan, which is carried out first where it does not take the conversion.
TransformResult Message::swap_any(const Swap& swap) {
  if ((data_size() & (swap.unit - 1)) != 0) {
    return TransformResult::failed;
  }
  if (Plan* const planned = plan()) {
    if (!planned->takes_swap(swap.unit) && materialize() == TransformResult::failed) {
      return TransformResult::failed;
    }
    return plan_swap(*planned, swap.unit, data_size());
  }
  if (!materialized() || !make_writable()) {
    return TransformResult::failed;
  }
  pool().touches().add(data_size(), data_size());
  // A unit may straddle blocks. `straddling` gathers where its bytes lie until it is whole.
  std::array<std::byte*, 8> straddling{};
  std::size_t gathered = 0;
  for (Block* block = first_; block != nullptr; block = block->cont) {
    if (block->type != MessageType::data) {
      continue;
    }
    std::byte* at = block->rptr;
    while (gathered != 0 && at != block->wptr) {
      straddling[gathered++] = at++;
      if (gathered == swap.unit) {
        for (std::size_t i = 0; i < swap.unit / 2; ++i) {
          std::swap(*straddling[i], *straddling[swap.unit - 1 - i]);
        }
        gathered = 0;
      }
    }
    const auto whole = static_cast<std::size_t>(block->wptr - at) / swap.unit * swap.unit;
    ilp::swap(swap.unit, {at, whole});
    for (at += whole; gathered < swap.unit && at != block->wptr; ++at) {
      straddling[gathered++] = at;
    }
  }
  return TransformResult::done;
}

std::uint16_t Message::data_sum() const {
  if (const auto known = known_sum(data_block(), 0, pool().touches())) {
    return *known;
  }
  const std::size_t size = data_size();
  pool().touches().add(size, 0);
  return sum_to_end(data_block(), 0, size);
}

/// A sum that is known need not wait for a pass.
TransformResult Message::transform(const Sum& sum) {
  const std::size_t covers = data_size() - sum.from;
  const Block* const block = data_block();
  std::optional<std::uint16_t> covered;
  if (block != nullptr && block->cont != nullptr && materialized()) [[unlikely]] {  // a header in front of what is kept
    covered = known_sum(block, sum.from, pool().touches());
  }
  if (PlannedStep* const step = covered || !fused() ? nullptr : plan_step(PlannedStep::Kind::sum)) {
    step->covers = static_cast<std::uint32_t>(covers);
    step->initial = sum.initial;
    step->zero_is_sent_as_ones = sum.zero_is_sent_as_ones;
    step->field_size = sizeof(std::uint16_t);
    place_field(*step, sum.field);
    return TransformResult::deferred;
  }
  if (!materialized()) {
    return TransformResult::failed;
  }
  if (!covered) {
    covered = sum_to_end(block, sum.from, covers);
    pool().touches().add(covers, 0);
  }
  store_checksum(sum.field, checksum_of(add_sums(sum.initial, *covered), sum.zero_is_sent_as_ones));
  return TransformResult::done;
}

TransformResult Message::transform(const Check& check, const ModuleHandle& owner, Counter& refused) {
  if (PlannedStep* const step = !fused() ? nullptr : plan_step(PlannedStep::Kind::check)) {
    step->initial = check.initial;
    step->verifies = true;
    step->owner = owner;
    step->refused = &refused;
    ++plan()->check_count;
    return TransformResult::deferred;
  }
  if (!materialized()) {
    return TransformResult::failed;
  }
  // What is known of a sum (KnownSums) is the sender's knowledge, who may be the one who is to be checked.
  pool().touches().add(data_size(), 0);
  return sum_holds(add_sums(check.initial, sum_to_end(data_block(), 0, data_size()))) ? TransformResult::done
                                                                                      : TransformResult::failed;
}

/// Joins the plan where no field that it covers is still to be filled, where it begins at a unit of every conversion,
/// and where the plan does not owe the same stage, which works on one message at a time.
TransformResult Message::transform(const OwnStage& own, const ModuleHandle& owner, Counter& refused) {
  SLUICE_REQUIRE(own.stage != nullptr && own.from <= data_size());
  SLUICE_REQUIRE(own.argument.size() <= Stage::argument_bytes_max && own.field.size() <= Stage::result_bytes_max);
  const std::size_t covers = data_size() - own.from;
  const bool fits = std::ranges::none_of(owed_by(plan()), [&](const PlannedStep& step) {
    const bool covers_field = step.fills_message() && step.field < covers + step.field_size;
    const bool cuts_unit = covers < step.covers && (step.covers - covers) % step.unit != 0;
    return covers_field || cuts_unit;
  });
  if (!(fits && !owes_stage(plan(), own.stage)) && materialize() == TransformResult::failed) {
    return TransformResult::failed;
  }
  Plan at_once;
  PlannedStep* step = plan_step(PlannedStep::Kind::own);
  Plan& planned = step == nullptr ? at_once : *plan();
  step = step == nullptr ? &at_once.add(PlannedStep::Kind::own, covers) : step;
  step->converts = own.stage->nature().converts;
  step->verifies = own.stage->nature().verifies;
  step->covers = static_cast<std::uint32_t>(covers);
  step->field_size = static_cast<std::uint8_t>(own.field.size());
  place_field(*step, own.field.data());
  planned.has_stages = true;
  PlannedStage& stage = planned.stages[planned.step_count - 1U];
  stage.stage = own.stage;
  stage.argument_size = static_cast<std::uint8_t>(own.argument.size());
  std::ranges::copy(own.argument, stage.argument.begin());
  if (&planned != &at_once) {
    step->owner = owner;
    step->refused = &refused;
    planned.check_count += static_cast<std::uint8_t>(step->verifies);
    return TransformResult::deferred;
  }
  if (!materialized() || (step->converts && !make_writable())) {
    return TransformResult::failed;
  }
  return pass_in_place(at_once, first_, data_size(), pool().touches()) ? TransformResult::done
                                                                       : TransformResult::failed;
}

}  // namespace sluice
