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

template <class To>
class Pass {
 public:
  Pass(std::span<const PlannedStep> steps, Block* chain, const To& to, Touches& touches)
      : steps_(steps), from_(chain), to_(to), touches_(touches) {
    for (std::size_t i = 0; i < steps_.size(); ++i) {
      sums_[i] = steps_[i].initial;
    }
  }

  void run(std::size_t size) {
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
    store_sums();
  }

  /// Whether step `i`, a check, held. REQUIRES: run() has returned.
  [[nodiscard]] bool held(std::size_t i) const { return sum_holds(sums_[i]); }

 private:
  /// What the steps that apply at the cursor come to.
  void choose() {
    unit_ = widest_ = 1;
    sums_wanted_ = tiled_ = false;
    for (const PlannedStep& step : steps_) {
      if (step.from > done_) {
        continue;
      }
      if (step.kind != Kind::swap) {
        sums_wanted_ = true;
      } else {
        tiled_ = tiled_ || (unit_ != 1 && unit_ != step.unit);
        unit_ = unit_ == step.unit ? std::size_t{1} : step.unit;
        widest_ = std::max<std::size_t>(widest_, step.unit);
      }
    }
  }

  /// As much as lies in one piece on both sides, up to `size`; or the one unit that does not.
  void stretch(std::size_t size) {
    const Bytes from = from_.piece();
    const Bytes to = to_.piece();
    SLUICE_REQUIRE(!from.empty() && !to.empty());
    const std::size_t whole = std::min({from.size(), to.size(), size}) & ~(widest_ - 1);  // a power of two
    if (whole == 0) {
      straddling_unit();
    } else {
      const std::size_t part = tiled_ ? std::min(whole, pass_tile_bytes) : whole;
      convert(from.first(part), to.first(part));
      from_.advance(part);
      to_.advance(part);
    }
  }

  void straddling_unit() {
    std::array<std::byte, unit_max> unit;
    const Bytes bytes = Bytes(unit).first(widest_);
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
    if (tiled_) {
      tile(from, to, in_place);
    } else if (sums_wanted_) {
      add(kernel_with_sum(from, to, in_place));
    } else {
      kernel(from, to, in_place);
    }
    const bool writes = !in_place || unit_ > 1 || tiled_;
    touches_.add(writes || sums_wanted_ ? from.size() : 0, writes ? from.size() : 0);
    done_ += from.size();
  }

  [[nodiscard]] std::uint16_t kernel_with_sum(Bytes from, Bytes to, bool in_place) const {
    if (unit_ != 1) {
      return ilp::sum_swap_copy(unit_, from, to);
    }
    return in_place ? ilp::sum(from) : ilp::sum_copy(from, to);
  }

  void kernel(Bytes from, Bytes to, bool in_place) const {
    if (unit_ != 1) {
      in_place ? ilp::swap(unit_, to) : ilp::swap_copy(unit_, from, to);
    } else if (!in_place) {
      ilp::copy(from, to);
    }
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

  /// Step after step over one tile.
  void tile(Bytes from, Bytes to, bool in_place) {
    if (!in_place) {
      ilp::copy(from, to);
    }
    for (std::size_t i = 0; i < steps_.size(); ++i) {
      const PlannedStep& step = steps_[i];
      if (step.from > done_) {
        continue;
      }
      if (step.kind == Kind::swap) {
        ilp::swap(step.unit, to);
      } else {
        add(i, ilp::sum(to), done_);
      }
    }
  }

  /// Puts each sum where it belongs. A later step that covers the field saw zeros there: it gets the sum's share now.
  void store_sums() {
    for (std::size_t i = 0; i < steps_.size(); ++i) {
      const PlannedStep& step = steps_[i];
      if (step.kind != Kind::sum) {
        continue;
      }
      const std::uint16_t checksum = checksum_of(sums_[i], step.zero_is_sent_as_ones);
      if (step.outside != nullptr) {
        store_checksum(step.outside, checksum);
        continue;
      }
      std::array<std::byte, sizeof checksum> bytes;
      store_checksum(bytes.data(), checksum);
      to_.at(step.field) = bytes[0];
      to_.at(step.field + 1) = bytes[1];
      for (std::size_t later = i + 1; later < steps_.size(); ++later) {
        if (steps_[later].kind != Kind::swap && steps_[later].from <= step.field) {
          add(later, checksum, step.field);
        }
      }
    }
  }

  std::span<const PlannedStep> steps_;
  ChainCursor from_;
  To to_;
  Touches& touches_;
  std::array<std::uint16_t, Plan::steps_max> sums_{};
  std::size_t done_ = 0;
  std::size_t unit_ = 1;    // the conversion, when it is one kernel's
  std::size_t widest_ = 1;  // stretches are whole multiples of this
  bool sums_wanted_ = false;
  bool tiled_ = false;
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
    if (step.kind != Kind::check) {
      continue;
    }
    if (pass.held(i)) {
      ++checks;
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

std::byte& data_at(Block* chain, std::size_t offset) {
  while (chain->type != MessageType::data || offset >= chain->size()) {
    offset -= chain->type == MessageType::data ? chain->size() : 0;
    chain = chain->cont;
  }
  return chain->rptr[offset];
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

}  // namespace sluice
