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

/// Walks the data blocks of a chain.
class ChainCursor {
 public:
  explicit ChainCursor(Block* chain) : first_(chain), block_(chain), at_(chain == nullptr ? nullptr : chain->rptr) {
    skip_done();
  }

  /// What lies at the cursor in one piece; empty at the end.
  [[nodiscard]] Bytes piece() const { return block_ == nullptr ? Bytes() : Bytes(at_, block_->wptr); }
  void advance(std::size_t size) {
    at_ += size;
    skip_done();
  }
  /// The byte at `offset` of all the data.
  [[nodiscard]] std::byte& at(std::size_t offset) const { return data_at(first_, offset); }

 private:
  void skip_done() {
    while (block_ != nullptr && (block_->type != MessageType::data || at_ == block_->wptr)) {
      block_ = block_->cont;
      at_ = block_ == nullptr ? nullptr : block_->rptr;
    }
  }

  Block* first_;
  Block* block_;
  std::byte* at_;
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
  Pass(std::span<const PlannedStep> steps, Block* chain, const To& to, Touches& touches)
      : steps_(steps), from_(chain), to_(to), touches_(touches) {
    for (std::size_t i = 0; i < steps_.size(); ++i) {
      sums_[i] = steps_[i].initial;
    }
  }

  /// All of the data, and what is then due.
  void run(std::size_t size) {
    run_front(size);
    finish();
  }

  /// The first `size` bytes of the data. REQUIRES: they are whole units.
  void run_front(std::size_t size) {
    for (const PlannedStep& step : steps_) {
      if (step.kind == Kind::own) {
        step.stage->begin(ConstBytes(step.argument).first(step.argument_size));
      }
    }
    while (done_ < size) {
      std::size_t end = size;
      for (const PlannedStep& step : steps_) {
        end = step.from > done_ ? std::min(end, step.from) : end;
      }
      choose();
      while (done_ < end) {
        stretch(end - done_);
      }
    }
  }

  /// Whether the message is good, as far as step `i` can say. REQUIRES: run() has returned.
  [[nodiscard]] bool held(std::size_t i) const {
    return steps_[i].kind == Kind::check ? sum_holds(sums_[i]) : !refused_[i];
  }

 private:
  /// What the steps that apply at the cursor come to.
  void choose() {
    combined_ = {};
    for (const PlannedStep& step : steps_) {
      if (step.from > done_) {
        continue;
      }
      if (step.kind == Kind::own) {
        combined_.add_stage(step.converts());
      } else if (step.kind == Kind::swap) {
        combined_.add_swap(step.unit);
      } else {
        combined_.add_sum();
      }
    }
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
      const bool tiled = combined_.kernel(false) == PassKernel::tiles;
      const std::size_t part = tiled ? std::min(whole, pass_tile_bytes) : whole;
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
    bool swapped = false;
    for (std::size_t i = 0; i < steps_.size(); ++i) {
      const PlannedStep& step = steps_[i];
      if (step.from > done_) {
        continue;
      }
      if (step.kind == Kind::swap) {
        swapped = !swapped;
      } else {
        add(i, swapped ? byte_swapped(sum) : sum, done_);
      }
    }
  }

  /// Adds `sum`, of bytes that start at `offset` of the data.
  void add(std::size_t i, std::uint16_t sum, std::size_t offset) {
    const bool odd = ((offset - steps_[i].from) % 2 != 0) != steps_[i].odd;
    sums_[i] = add_sums(sums_[i], odd ? byte_swapped(sum) : sum);
  }

  /// Step after step over one tile: the first that converts takes it to `to`.
  void tile(ConstBytes at, Bytes to) {
    for (std::size_t i = 0; i < steps_.size(); ++i) {
      const PlannedStep& step = steps_[i];
      if (step.from > done_) {
        continue;
      }
      if (step.kind == Kind::swap) {
        swap(step.unit, at, to);
      } else if (step.kind == Kind::own) {
        step.stage->run(done_ - step.from, at, step.converts() ? to : Bytes());
      } else {
        add(i, ilp::sum(at), done_);
      }
      at = step.converts() ? to : at;
    }
    if (at.data() != to.data()) {
      ilp::copy(at, to);
    }
  }

  /// Asks sums and stages for what they have come to, in order.
  void finish() {
    for (std::size_t i = 0; i < steps_.size(); ++i) {
      const PlannedStep& step = steps_[i];
      std::array<std::byte, Stage::result_bytes_max> result{};
      if (step.kind == Kind::sum) {
        const std::uint16_t checksum = checksum_of(sums_[i], step.zero_is_sent_as_ones);
        store_checksum(result.data(), checksum);
        store(i, ConstBytes(result).first(sizeof checksum));
      } else if (step.kind == Kind::own) {
        const Bytes field = Bytes(result).first(step.field_size);
        refused_[i] = !step.stage->end(field);
        store(i, field);
      }
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
    for (std::size_t at = 0; at < result.size(); ++at) {
      to_.at(step.field + at) = result[at];
    }
    for (std::size_t later = i + 1; later < steps_.size(); ++later) {
      const bool sums = steps_[later].kind == Kind::sum || steps_[later].kind == Kind::check;
      if (sums && steps_[later].from <= step.field) {
        add(later, header_sum(result), step.field);
      }
    }
  }

  std::span<const PlannedStep> steps_;
  ChainCursor from_;
  To to_;
  Touches& touches_;
  std::array<std::uint16_t, Plan::steps_max> sums_{};
  std::array<bool, Plan::steps_max> refused_{};  // by a stage
  std::size_t done_ = 0;
  CombinedSteps combined_;  // those that apply at the cursor
};

/// Acts on how the checks came out, in their order: a change that waited for those before a failed one still happens.
template <class Pass>
bool conclude(Plan& plan, const Pass& pass) {
  std::size_t checks = 0;
  std::size_t change = 0;
  const auto run_changes = [&] {
    for (; change < plan.change_count && plan.changes[change].checks_before <= checks; ++change) {
      PlannedChange& waiting = plan.changes[change];
      if (waiting.owner.alive()) {
        waiting.run(waiting.captured.data());
      }
    }
  };
  for (std::size_t i = 0; i < plan.step_count && !plan.failed; ++i) {
    const PlannedStep& step = plan.steps[i];
    if (pass.held(i)) {
      checks += step.verifies() ? 1 : 0;
      run_changes();
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

}  // namespace

std::string_view name_of(PassKernel kernel) {
  constexpr std::array<std::string_view, 8> names{"none", "copy",      "sum",           "sum_copy",
                                                  "swap", "swap_copy", "sum_swap_copy", "tiles"};
  return names[static_cast<std::size_t>(kernel)];
}

bool pass_in_place(Plan& plan, Block* chain, std::size_t data_size, Touches& touches) {
  Pass pass(plan.owed(), chain, ChainCursor(chain), touches);
  pass.run(data_size);
  return conclude(plan, pass);
}

bool pass_to(Plan* plan, Block* chain, std::size_t data_size, std::span<const Bytes> places, Touches& touches) {
  Pass pass(plan == nullptr ? std::span<PlannedStep>() : plan->owed(), chain, PlaceCursor(places), touches);
  pass.run(data_size);
  return plan == nullptr || conclude(*plan, pass);
}

bool pass_of_step(const PlannedStep& step, Block* chain, std::size_t data_size, Touches& touches) {
  Pass pass(std::span(&step, 1), chain, ChainCursor(chain), touches);
  pass.run(data_size);
  return pass.held(0);
}

void pass_over_front(const Plan& plan, Block* chain, std::size_t offset, Bytes out) {
  std::size_t size = offset + out.size();
  for (const PlannedStep& step : plan.owed()) {
    if (step.kind == Kind::swap && size > step.from) {  // to the end of a unit
      size += (step.from - size) & (step.unit - std::size_t{1});
    }
  }
  std::array<std::byte, pass_tile_bytes> aside;
  Touches uncounted;
  Pass(plan.owed(), chain, WindowCursor(offset, out, aside), uncounted).run_front(size);
}

}  // namespace sluice
