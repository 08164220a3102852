// SPDX-License-Identifier: Apache-2.0
#include "stack/core/pass.h"

#include <algorithm>
#include <array>
#include <cstdint>

#include "base/contract.h"
#include "base/internet_checksum.h"
#include "ilp/kernels.h"
#include "stack/core/counter.h"

namespace sluice {
namespace {

using Kind = PlannedStep::Kind;

constexpr std::size_t unit_max = 8;

/// The byte at `offset` of the data of a chain. REQUIRES: the data has that many.
std::byte& data_at(Block* chain, std::size_t offset) {
  while (chain->type != MessageType::data || offset >= chain->size()) {
    offset -= chain->type == MessageType::data ? chain->size() : 0;
    chain = chain->cont;
  }
  return chain->rptr[offset];
}

/// Walks the data blocks of a chain: where their bytes belong or, given a plan's `copy`, where they lie now.
class ChainCursor {
 public:
  explicit ChainCursor(Block* chain, const DeferredCopy* copy = nullptr)
      : first_(chain), block_(chain), at_(chain->rptr), copy_(copy) {
    open();
  }

  /// What lies at the cursor in one piece; empty at the end.
  [[nodiscard]] Bytes piece() const { return {lies_, end_}; }
  void advance(std::size_t size) {
    at_ += size;
    lies_ += size;
    if (lies_ == end_) {
      open();
    }
  }
  /// The byte at `offset` of all the data.
  [[nodiscard]] std::byte& at(std::size_t offset) const { return data_at(first_, offset); }

 private:
  void open() {
    while (block_ != nullptr && (block_->type != MessageType::data || at_ == block_->wptr)) {
      block_ = block_->cont;
      at_ = block_ == nullptr ? nullptr : block_->rptr;
    }
    lies_ = at_;
    end_ = block_ == nullptr ? nullptr : block_->wptr;
    if (copy_ != nullptr && copy_->block == block_ && at_ < copy_->place + copy_->size) {
      if (at_ < copy_->place) {
        end_ = copy_->place;
      } else {
        open_run(static_cast<std::size_t>(at_ - copy_->place));
      }
    }
  }

  /// Goes on in the lent run that has byte `done` of what was lent.
  void open_run(std::size_t done) {
    ConstBytes run = next_run_ == 0 ? ConstBytes(copy_->source, copy_->first_size) : copy_->more[next_run_ - 1];
    while (done >= run_start_ + run.size()) {
      run_start_ += run.size();
      run = copy_->more[next_run_++];
    }
    lies_ = const_cast<std::byte*>(run.data()) + (done - run_start_);  // passes only read it
    end_ = const_cast<std::byte*>(run.data()) + run.size();
  }

  Block* first_;
  Block* block_;
  std::byte* at_;
  std::byte* lies_ = nullptr;
  std::byte* end_ = nullptr;
  const DeferredCopy* copy_;   // nullptr: nothing lies elsewhere
  std::size_t next_run_ = 0;   // of the lent ones behind the first: the cursor is in the one before it
  std::size_t run_start_ = 0;  // where that one begins in what was lent
};

/// Walks a list of places.
class PlaceCursor {
 public:
  explicit PlaceCursor(std::span<const Bytes> places) : places_(places) { skip_done(); }

  [[nodiscard]] Bytes piece() const { return next_ == places_.size() ? Bytes() : places_[next_].subspan(offset_); }
  void advance(std::size_t size) {
    offset_ += size;
    skip_done();
  }
  [[nodiscard]] std::byte& at(std::size_t offset) const {
    std::size_t place = 0;
    while (offset >= places_[place].size()) {
      offset -= places_[place++].size();
    }
    return places_[place][offset];
  }

 private:
  void skip_done() {
    while (next_ < places_.size() && offset_ == places_[next_].size()) {
      ++next_;
      offset_ = 0;
    }
  }

  std::span<const Bytes> places_;
  std::size_t next_ = 0;
  std::size_t offset_ = 0;
};

/// Walks `out` from data byte `offset` on; what comes before or after goes `aside`.
class WindowCursor {
 public:
  WindowCursor(std::size_t offset, Bytes out, Bytes aside) : offset_(offset), out_(out), aside_(aside) {}

  [[nodiscard]] Bytes piece() const {
    if (at_ >= offset_ && at_ - offset_ < out_.size()) {
      return out_.subspan(at_ - offset_);
    }
    return aside_.first(at_ < offset_ ? std::min(offset_ - at_, aside_.size()) : aside_.size());
  }
  void advance(std::size_t size) { at_ += size; }

 private:
  std::size_t offset_;
  Bytes out_;
  Bytes aside_;
  std::size_t at_ = 0;
};

template <class To>
class Pass {
 public:
  Pass(const Plan& plan, Block* chain, std::size_t size, const To& to, Touches& touches)
      : plan_(plan),
        steps_(plan.owed()),
        size_(size),
        from_(chain, plan.copy.source == nullptr ? nullptr : &plan.copy),
        to_(to),
        touches_(touches) {
    for (std::size_t i = 0; i < steps_.size(); ++i) {
      sums_[i] = steps_[i].initial;
    }
  }

  /// All of the data, and what is then due.
  void run() {
    run_front(size_);
    for (std::size_t i = 0; i < steps_.size(); ++i) {
      finish(i);
    }
  }

  /// The first `size` bytes of the data. REQUIRES: they are whole units.
  void run_front(std::size_t size) {
    for (std::size_t i = 0; plan_.has_stages && i < steps_.size(); ++i) {
      if (steps_[i].kind == Kind::own) {
        const PlannedStage& own = plan_.stages[i];
        own.stage->begin(ConstBytes(own.argument).first(own.argument_size));
      }
    }
    while (done_ < size) {
      const std::size_t end = choose(size);
      while (done_ < end) {
        stretch(end - done_);
      }
    }
  }

  /// Whether the message is good, as far as step `i` can say. REQUIRES: run() has returned.
  [[nodiscard]] bool held(std::size_t i) const {
    return steps_[i].kind == Kind::check ? sum_holds(sums_[i]) : (refused_ >> i & 1U) == 0;
  }

 private:
  /// Data bytes in front that `step` does not cover.
  [[nodiscard]] std::size_t from(const PlannedStep& step) const { return size_ - step.covers; }

  /// What the steps that apply at the cursor come to, and where the next begins: at most at `end`.
  std::size_t choose(std::size_t end) {
    combined_ = {};
    for (const PlannedStep& step : steps_) {
      if (from(step) > done_) {
        end = std::min(end, from(step));
      } else if (step.kind == Kind::own) {
        combined_.add_stage(step.converts);
      } else if (step.kind == Kind::swap) {
        combined_.add_swap(step.unit);
      } else {
        combined_.add_sum();
      }
    }
    return end;
  }

  /// As much as lies in one piece on both sides, up to `size`; or the one unit that does not.
  void stretch(std::size_t size) {
    const Bytes from = from_.piece();
    const Bytes to = to_.piece();
    SLUICE_REQUIRE(!from.empty() && !to.empty());
    const std::size_t whole = std::min({from.size(), to.size(), size}) & ~(combined_.widest() - 1);
    if (whole == 0) {
      straddling_unit();
    } else {
      const std::size_t part = combined_.tiled() ? std::min(whole, pass_tile_bytes) : whole;
      convert(from.first(part), to.first(part));
      from_.advance(part);
      to_.advance(part);
    }
  }

  void straddling_unit() {
    std::array<std::byte, unit_max> unit;
    const Bytes bytes = Bytes(unit).first(combined_.widest());
    for (std::byte& byte : bytes) {
      byte = from_.piece().front();
      from_.advance(1);
    }
    convert(bytes, bytes);
    for (const std::byte byte : bytes) {
      to_.piece().front() = byte;
      to_.advance(1);
    }
  }

  void convert(Bytes from, Bytes to) {
    const bool in_place = from.data() == to.data();
    switch (combined_.kernel(in_place)) {
      case PassKernel::none:
        break;
      case PassKernel::copy:
        ilp::copy(from, to);
        break;
      case PassKernel::sum:
        add(ilp::sum(from));
        break;
      case PassKernel::sum_copy:
        add(ilp::sum_copy(from, to));
        break;
      case PassKernel::swap:
      case PassKernel::swap_copy:
        swap(combined_.unit(), from, to);
        break;
      case PassKernel::sum_swap_copy:
        add(ilp::sum_swap_copy(combined_.unit(), from, to));
        break;
      case PassKernel::tiles:
        tile(from, to);
        break;
    }
    touches_.add(combined_.loads(in_place) ? from.size() : 0, combined_.stores(in_place) ? from.size() : 0);
    done_ += from.size();
  }

  static void swap(std::size_t unit, ConstBytes from, Bytes to) {
    from.data() == to.data() ? ilp::swap(unit, to) : ilp::swap_copy(unit, from, to);
  }

  /// Adds the sum of a stretch, as its bytes were, to every sum that covers it.
  void add(std::uint16_t sum) {
    for (std::size_t i = 0; i < steps_.size(); ++i) {
      const PlannedStep& step = steps_[i];
      if (from(step) > done_) {
        continue;
      }
      if (step.kind == Kind::swap) {
        sum = byte_swapped(sum);
      } else {
        add(i, sum, done_);
      }
    }
  }

  /// Adds `sum`, of bytes that start at `offset` of the data.
  void add(std::size_t i, std::uint16_t sum, std::size_t offset) {
    const bool odd = ((offset - from(steps_[i])) % 2 != 0) != steps_[i].odd;
    sums_[i] = add_sums(sums_[i], odd ? byte_swapped(sum) : sum);
  }

  /// Step after step over one tile: the first that converts takes it to `to`.
  void tile(ConstBytes at, Bytes to) {
    for (std::size_t i = 0; i < steps_.size(); ++i) {
      const PlannedStep& step = steps_[i];
      if (from(step) > done_) {
        continue;
      }
      if (step.kind == Kind::swap) {
        swap(step.unit, at, to);
      } else if (step.kind == Kind::own) {
        plan_.stages[i].stage->run(done_ - from(step), at, step.converts ? to : Bytes());
      } else {
        add(i, ilp::sum(at), done_);
      }
      at = step.converts ? to : at;
    }
    if (at.data() != to.data()) {
      ilp::copy(at, to);
    }
  }

  /// Asks step `i` for what it has come to. REQUIRES: those before have been asked.
  void finish(std::size_t i) {
    const PlannedStep& step = steps_[i];
    if (step.kind == Kind::sum) {
      std::array<std::byte, sizeof(std::uint16_t)> checksum;
      store_checksum(checksum.data(), checksum_of(sums_[i], step.zero_is_sent_as_ones));
      store(i, checksum);
    } else if (step.kind == Kind::own) {
      std::array<std::byte, Stage::result_bytes_max> result{};
      const Bytes field = Bytes(result).first(step.field_size);
      refused_ |= plan_.stages[i].stage->end(field) ? 0U : 1U << i;
      store(i, field);
    }
  }

  /// Puts the result of step `i` where it belongs. A later sum that covers the field saw zeros there: it gets its share
  /// now.
  void store(std::size_t i, ConstBytes result) {
    const PlannedStep& step = steps_[i];
    if (step.outside != nullptr) {
      std::memcpy(step.outside, result.data(), result.size());
      return;
    }
    const std::size_t field = size_ - step.field;
    for (std::size_t at = 0; at < result.size(); ++at) {
      to_.at(field + at) = result[at];
    }
    for (std::size_t later = i + 1; later < steps_.size(); ++later) {
      const bool sums = steps_[later].kind == Kind::sum || steps_[later].kind == Kind::check;
      if (sums && steps_[later].covers >= step.field) {
        add(later, header_sum(result), field);
      }
    }
  }

  const Plan& plan_;
  std::span<const PlannedStep> steps_;
  std::size_t size_;  // of the data
  ChainCursor from_;
  To to_;
  Touches& touches_;
  std::array<std::uint16_t, Plan::steps_max> sums_;
  unsigned refused_ = 0;  // a bit for each step: by a stage
  std::size_t done_ = 0;
  CombinedSteps combined_;  // those that apply at the cursor
};

/// Runs the changes that waited for the first `checks` checks, from `change` on, and returns the next that still waits.
std::size_t run_changes(const Plan& plan, std::size_t change, std::size_t checks) {
  for (; change < plan.change_count && plan.changes[change].checks_before <= checks; ++change) {
    const PlannedChange& waiting = plan.changes[change];
    if (waiting.owner.alive()) {
      waiting.run(waiting.captured.data());
    }
  }
  return change;
}

/// Acts on how the checks came out, in their order: a change that waited for those before a failed one still happens.
template <class Held>
[[gnu::noinline]] bool conclude(Plan& plan, const Held& held) {
  std::size_t checks = 0;
  std::size_t change = 0;
  for (std::size_t i = 0; i < plan.step_count && !plan.failed; ++i) {
    const PlannedStep& step = plan.steps[i];
    if (held(i)) {
      checks += step.verifies ? 1 : 0;
      change = run_changes(plan, change, checks);
    } else {
      plan.failed = true;
      if (step.refused != nullptr && step.owner.alive()) {
        ++*step.refused;
      }
    }
  }
  plan.clear();
  return !plan.failed;
}

/// What a datagram owes as a rule, without loops: the copy of its payload, one sum and one conversion of just that,
/// over one block, in place or on the way to one place. All else is for Pass.
class StraightPass {
 public:
  /// `place` is where the data goes; nullptr: it stays.
  StraightPass(const Plan& plan, const Block& block, std::byte* place) : sum_(plan.sum), swap_(plan.swap) {
    const std::size_t data_size = block.size();
    bool fits = plan.straight;
    if (plan.copy.source != nullptr) {
      size_ = plan.copy.size;
      from_ = plan.copy.source;
      fits = fits && plan.copy.more.empty() && plan.copy.block == &block && plan.copy.place + size_ == block.wptr;
    } else {
      size_ = swap_ != nullptr ? swap_->covers : sum_ != nullptr ? sum_->covers : data_size;
      from_ = block.wptr - size_;
    }
    to_ = place == nullptr ? block.wptr - size_ : place;
    end_ = to_ + size_;
    fits_ = fits && (swap_ == nullptr || swap_->covers == size_) && (sum_ == nullptr || sum_->covers == size_) &&
            (place == nullptr || size_ == data_size);
  }

  [[nodiscard]] bool fits() const { return fits_; }

  /// Answers whether the sum is as it should be. REQUIRES: fits().
  bool run(Touches& touches) const {
    const ConstBytes from(from_, size_);
    const Bytes to(to_, size_);
    const bool moves = from_ != to_;
    if (sum_ == nullptr) {
      if (swap_ != nullptr) {
        moves ? ilp::swap_copy(swap_->unit, from, to) : ilp::swap(swap_->unit, to);
      } else if (moves) {
        ilp::copy(from, to);
      }
      const std::size_t touched = swap_ != nullptr || moves ? size_ : 0;
      touches.add(touched, touched);
      return true;
    }
    if (swap_ != nullptr) {
      const std::uint16_t sum = ilp::sum_swap_copy(swap_->unit, from, to);
      touches.add(size_, size_);
      return conclude_sum(swap_ < sum_ ? byte_swapped(sum) : sum);  // asked for later, it is over what comes out
    }
    touches.add(size_, moves ? size_ : 0);
    return conclude_sum(moves ? ilp::sum_copy(from, to) : ilp::sum(from));
  }

 private:
  bool conclude_sum(std::uint16_t sum) const {
    sum = add_sums(sum_->initial, sum_->odd ? byte_swapped(sum) : sum);
    if (sum_->kind == Kind::check) {
      return sum_holds(sum);
    }
    std::byte* const field = sum_->outside != nullptr ? sum_->outside : end_ - sum_->field;
    store_checksum(field, checksum_of(sum, sum_->zero_is_sent_as_ones));
    return true;
  }

  std::size_t size_;
  const std::byte* from_;
  std::byte* to_;
  std::byte* end_;
  const PlannedStep* sum_;
  const PlannedStep* swap_;
  bool fits_;
};

template <class To>
[[gnu::noinline]] bool carry_out_by_parts(Plan& plan, Block* chain, std::size_t data_size, const To& to,
                                          Touches& touches) {
  Pass pass(plan, chain, data_size, to, touches);
  pass.run();
  return conclude(plan, [&pass](std::size_t i) { return pass.held(i); });
}

/// StraightPass where it fits, else Pass. `place` is where all of the data goes, nullptr for a pass in place; `to()`
/// walks it.
template <class To>
bool carry_out(Plan& plan, Block* chain, std::size_t data_size, std::byte* place, const To& to, Touches& touches) {
  const Block* data = chain;
  while (data != nullptr && data->type != MessageType::data) {
    data = data->cont;
  }
  if (data != nullptr && data->cont == nullptr) {
    const StraightPass straight(plan, *data, place);
    if (straight.fits()) [[likely]] {
      if (!straight.run(touches)) {
        return conclude(plan, [&plan](std::size_t i) { return plan.steps[i].kind != Kind::check; });
      }
      if (plan.change_count > 0) {
        run_changes(plan, 0, plan.check_count);
      }
      plan.clear();
      return true;
    }
  }
  return carry_out_by_parts(plan, chain, data_size, to(), touches);
}

}  // namespace

std::string_view name_of(PassKernel kernel) {
  constexpr std::array<std::string_view, 8> names{"none", "copy",      "sum",           "sum_copy",
                                                  "swap", "swap_copy", "sum_swap_copy", "tiles"};
  return names[static_cast<std::size_t>(kernel)];
}

bool pass_in_place(Plan& plan, Block* chain, std::size_t data_size, Touches& touches) {
  return carry_out(plan, chain, data_size, nullptr, [chain] { return ChainCursor(chain); }, touches);
}

bool pass_to(Plan& plan, Block* chain, std::size_t data_size, std::span<const Bytes> places, Touches& touches) {
  const auto to = [places] { return PlaceCursor(places); };
  return places.size() == 1 ? carry_out(plan, chain, data_size, places.front().data(), to, touches)
                            : carry_out_by_parts(plan, chain, data_size, to(), touches);
}

namespace {

/// Copies, a conversion of whole units from data byte `converted_from` on, and a sum for each place.
class SummingPass {
 public:
  SummingPass(const Plan* plan, Block* chain, std::size_t data_size)
      : from_(chain, plan == nullptr || plan->copy.source == nullptr ? nullptr : &plan->copy),
        unit_(plan == nullptr || plan->swap == nullptr ? std::size_t{1} : plan->swap->unit),
        converted_from_(unit_ == 1 ? data_size : data_size - plan->swap->covers),
        plain_(plan == nullptr || (plan->straight && plan->sum == nullptr && plan->change_count == 0)) {}

  /// Whether that is all there is to do, and no unit lies in two places.
  [[nodiscard]] bool fits(std::span<const Bytes> places) const {
    std::size_t end = 0;
    return plain_ && (unit_ == 1 || std::ranges::all_of(places, [&](Bytes place) {
                        end += place.size();
                        return end <= converted_from_ || (end - converted_from_) % unit_ == 0;
                      }));
  }

  /// Fills `place` and answers the sum of what it then holds. REQUIRES: fits().
  std::uint16_t fill(Bytes place) {
    std::uint16_t sum = 0;
    for (std::size_t filled = 0; filled < place.size();) {
      const std::size_t unit = done_ < converted_from_ ? 1 : unit_;
      const Bytes rest = place.subspan(filled);
      const Bytes piece = from_.piece();
      const std::size_t limit = done_ < converted_from_ ? converted_from_ - done_ : rest.size();
      const std::size_t whole = std::min({piece.size(), rest.size(), limit}) & ~(unit - 1);
      const std::size_t part = whole == 0 ? unit : whole;
      sum =
          add_sums(sum, whole == 0 ? straddling_unit(rest.first(unit)) : move(unit, piece.first(whole), rest), filled);
      if (whole != 0) {
        from_.advance(whole);
      }
      filled += part;
      done_ += part;
    }
    return sum;
  }

 private:
  static std::uint16_t move(std::size_t unit, ConstBytes from, Bytes to) {
    // The units' bytes come out reversed, and so do those of each 16-bit word.
    return unit == 1 ? ilp::sum_copy(from, to.first(from.size()))
                     : byte_swapped(ilp::sum_swap_copy(unit, from, to.first(from.size())));
  }
  std::uint16_t straddling_unit(Bytes to) {
    std::array<std::byte, unit_max> unit;
    for (std::byte& byte : Bytes(unit).first(to.size())) {
      byte = from_.piece().front();
      from_.advance(1);
    }
    return move(to.size(), ConstBytes(unit).first(to.size()), to);
  }

  ChainCursor from_;
  std::size_t unit_;
  std::size_t converted_from_;
  bool plain_;
  std::size_t done_ = 0;
};

}  // namespace

bool pass_to_summed(Plan* plan, Block* chain, std::size_t data_size, std::span<const Bytes> places,
                    std::span<std::uint16_t> sums, Touches& touches) {
  SummingPass pass(plan, chain, data_size);
  if (pass.fits(places)) {
    std::ranges::transform(places, sums.begin(), [&pass](Bytes place) { return pass.fill(place); });
    touches.add(data_size, data_size);
    if (plan != nullptr) {
      plan->clear();
    }
    return true;
  }
  bool held = true;
  if (plan != nullptr) {
    held = pass_to(*plan, chain, data_size, places, touches);
  } else {
    copy_to(chain, data_size, places, touches);
  }
  std::ranges::transform(places, sums.begin(), [](Bytes place) { return ilp::sum(place); });
  touches.add(data_size, 0);
  return held;
}

void copy_to(Block* chain, std::size_t data_size, std::span<const Bytes> places, Touches& touches) {
  static const Plan nothing_owed{};
  Pass(nothing_owed, chain, data_size, PlaceCursor(places), touches).run();
}

std::optional<std::size_t> lying_runs(Block* chain, const DeferredCopy* copy, std::span<ConstBytes> out) {
  std::size_t count = 0;
  ChainCursor cursor(chain, copy != nullptr && copy->source != nullptr ? copy : nullptr);
  for (Bytes piece = cursor.piece(); !piece.empty(); piece = cursor.piece()) {
    if (count == out.size()) {
      return std::nullopt;
    }
    out[count++] = piece;
    cursor.advance(piece.size());
  }
  return count;
}

void pass_over_front(const Plan& plan, Block* chain, std::size_t data_size, std::size_t offset, Bytes out) {
  std::size_t size = offset + out.size();
  for (const PlannedStep& step : plan.owed()) {
    const std::size_t from = data_size - step.covers;
    if (step.kind == Kind::swap && size > from) {  // to the end of a unit
      size += (from - size) & (step.unit - std::size_t{1});
    }
  }
  std::array<std::byte, pass_tile_bytes> aside;
  Touches uncounted;
  Pass(plan, chain, data_size, WindowCursor(offset, out, aside), uncounted).run_front(size);
}

}  // namespace sluice
