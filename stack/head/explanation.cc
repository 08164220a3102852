// SPDX-License-Identifier: Apache-2.0
#include "stack/head/explanation.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "stack/core/pass.h"
#include "stack/core/plan.h"
#include "stack/head/stream_head.h"

namespace sluice {
namespace {

using Kind = PayloadWork::Kind;
using Item = PayloadWork::Item;

std::string asked_by(const Item& item) {
  switch (item.kind) {
    case Kind::swap:
      return "swap " + std::to_string(item.unit);
    case Kind::sum:
      return "sum";
    case Kind::check:
      return "check";
    case Kind::own:
      return std::string(item.stage->nature().name);
    case Kind::copy:
      return "copy";
    case Kind::gather:
      return "gather";
    case Kind::land:
      return "land";
  }
  return {};
}

/// Follows a message through the modules of one side, as class Message treats it: what its bytes are owed, and whether
/// they lie in memory that is not its own: the user's, whose copy is owed, or a device's slot.
class Journey {
 public:
  Journey(ProcessingMode mode, Side side) : mode_(mode), side_(side) {}

  /// `reader_waits`: for what this module passes up.
  ExplainedModule through(const std::string& name, const Module& module, Side side, bool reader_waits) {
    const PayloadWork work = module.payload_work(side);
    ExplainedModule explained{.name = name, .items = {}, .uncounted = work.uncounted};
    items_ = &explained.items;
    const bool was_lent = lent_;
    const bool materializes = !work.materializes.empty();
    if (materializes && !work.materializes_last) {
      materialize(work.materializes, work.keeps);
    } else if (!module.handles_deferred()) {
      materialize("does not know plans", false);
    }
    for (const Item& item : work.items) {
      if (mode_ == ProcessingMode::fused ? item.fused : item.layered) {
        take(item);
      } else if (item.kind == Kind::copy) {
        lent_ = true;
      }
    }
    if (materializes && work.materializes_last && work.lands && reader_waits && mode_ == ProcessingMode::fused) {
      add({.kind = Kind::land, .where = "to where the reader waits"}, pass_to_elsewhere());
      landed_ = true;
    } else if (materializes && work.materializes_last) {
      const bool copies = lent_;
      materialize(work.materializes, work.keeps);
      sums_known_ = copies && work.makes_sums_known;
    }
    explained.lent_here = lent_ && !was_lent;
    return explained;
  }

  [[nodiscard]] const ByteCost& cost() const { return cost_; }

 private:
  void take(const Item& item) {
    switch (item.kind) {
      case Kind::swap:
      case Kind::sum:
      case Kind::check:
      case Kind::own:
        return manipulate(item);
      case Kind::copy:
        materialize("bytes are copied as they should be", false, /*only_if_owed=*/true);
        return add(item, pass_to_elsewhere());
      case Kind::gather:
        return add(item, carry_out(/*keeps=*/true));
      case Kind::land:
        return add(item, landed_ ? std::nullopt : pass_to_elsewhere());
    }
  }

  /// Message::transform: a field that a sum or a stage has to fill is not converted or read before, a stage works on
  /// one message at a time, and a plan holds so many steps.
  void manipulate(const Item& item) {
    if (sums_known_ && item.kind == Kind::sum) {
      return items_->push_back({.asks = asked_by(item), .why = "known since the bytes were copied", .pass = {}});
    }
    sums_known_ = false;
    if ((item.kind == Kind::swap || item.kind == Kind::own) && owes_field()) {
      materialize("a field is filled before it is converted or read", false, /*only_if_owed=*/true);
    } else if (item.kind == Kind::own && std::ranges::find(owed_, item.stage, &Item::stage) != owed_.end()) {
      materialize("a stage works on one message at a time", false, /*only_if_owed=*/true);
    }
    if (owed_.size() == Plan::steps_max) {
      materialize("the plan is full", false, /*only_if_owed=*/true);
    }
    owed_.push_back(item);
    if (mode_ == ProcessingMode::fused) {
      items_->push_back({.asks = asked_by(item), .why = {}, .deferred = true, .pass = {}});
    } else {
      add(item, carry_out(/*keeps=*/false));
    }
  }

  void materialize(std::string_view why, bool keeps, bool only_if_owed = false) {
    if (!only_if_owed || !owed_.empty()) {
      items_->push_back({.asks = "materialize", .why = std::string(why), .pass = carry_out(keeps)});
    }
  }

  /// Message::materialize, keep and gather: in place unless the copy is owed or, in a device's slot, bytes are to be
  /// written or, with `keeps`, kept.
  std::optional<ExplainedPass> carry_out(bool keeps) {
    const bool moves = lent_ && (side_ == Side::write || keeps || combined().converts());
    return moves ? pass_to_elsewhere() : pass(/*in_place=*/true);
  }

  std::optional<ExplainedPass> pass_to_elsewhere() {
    lent_ = false;
    return pass(/*in_place=*/false);
  }

  std::optional<ExplainedPass> pass(bool in_place) {
    const CombinedSteps steps = combined();
    owed_.clear();
    const PassKernel kernel = steps.kernel(in_place);
    if (kernel == PassKernel::none) {
      return std::nullopt;
    }
    const ByteCost cost{steps.loads(in_place) ? 1U : 0U, steps.stores(in_place) ? 1U : 0U};
    cost_ += cost;
    return ExplainedPass{.kernel = name_of(kernel), .in_place = in_place, .cost = cost};
  }

  void add(const Item& item, const std::optional<ExplainedPass>& pass) {
    items_->push_back({.asks = asked_by(item), .why = std::string(item.where), .pass = pass});
  }

  [[nodiscard]] bool owes_field() const {
    return std::ranges::any_of(owed_, [](const Item& step) { return step.kind == Kind::sum || step.fills; });
  }
  [[nodiscard]] CombinedSteps combined() const {
    CombinedSteps steps;
    for (const Item& step : owed_) {
      if (step.kind == Kind::own) {
        steps.add_stage(step.stage->nature().converts);
      } else if (step.kind == Kind::swap) {
        steps.add_swap(step.unit);
      } else {
        steps.add_sum();
      }
    }
    return steps;
  }

  ProcessingMode mode_;
  Side side_;
  bool lent_ = false;
  bool landed_ = false;
  bool sums_known_ = false;  // of the bytes as they are
  std::vector<Item> owed_;   // manipulations
  ByteCost cost_;
  std::vector<ExplainedItem>* items_ = nullptr;
};

/// The program works on what it sends before the head gets it, and on what it receives in the head's pass.
ExplainedSide explain_side(std::span<const NamedModule> modules, ProcessingMode mode, Side side,
                           const Module* program) {
  std::vector<NamedModule> order(modules.begin(), modules.end());
  if (side == Side::read) {
    std::ranges::reverse(order);
  }
  if (program != nullptr) {
    order.insert(side == Side::read ? order.end() - 1 : order.begin(), {std::string(program->name()), program});
  }
  // Whether all of what a module passes up reaches the reader as it is.
  const auto reaches_reader = [&](std::vector<NamedModule>::const_iterator from) {
    return side == Side::read && program == nullptr &&
           std::all_of(std::next(from), order.cend() - 1,
                       [](const NamedModule& at) { return at.module->leaves_data(); });
  };
  const auto travel = [&](ProcessingMode arm, bool awaited, ByteCost& cost) {
    Journey journey(arm, side);
    std::vector<ExplainedModule> stations;
    for (auto at = order.cbegin(); at != order.cend(); ++at) {
      stations.push_back(journey.through(at->name, *at->module, side, awaited && reaches_reader(at)));
    }
    cost = journey.cost();
    return stations;
  };
  ExplainedSide explained;
  std::vector<ExplainedModule> layered = travel(ProcessingMode::layered, false, explained.layered);
  std::vector<ExplainedModule> fused = travel(ProcessingMode::fused, false, explained.fused);
  static_cast<void>(travel(ProcessingMode::fused, true, explained.awaited));
  explained.modules = std::move(mode == ProcessingMode::fused ? fused : layered);
  return explained;
}

}  // namespace

std::size_t ExplainedSide::passes() const {
  std::size_t count = 0;
  for (const ExplainedModule& module : modules) {
    count += static_cast<std::size_t>(
        std::ranges::count_if(module.items, [](const ExplainedItem& item) { return item.pass.has_value(); }));
  }
  return count;
}

Explanation explain(std::span<const NamedModule> modules, ProcessingMode mode, const Module* program) {
  Explanation explanation;
  explanation.mode = mode;
  explanation.down = explain_side(modules, mode, Side::write, program);
  explanation.up = explain_side(modules, mode, Side::read, program);
  for (const NamedModule& named : modules.subspan(std::min<std::size_t>(1, modules.size()))) {
    if (named.module->ends_segments()) {
      explanation.segments_from = named.name;
      explanation.not_for_segments.clear();
    }
    if (!named.module->handles_segments()) {
      explanation.not_for_segments.push_back(named.name);
    }
  }
  if (!modules.empty()) {
    explanation.segments_summed_by = modules.back().module->payload_work(Side::write).segments;
  }
  return explanation;
}

Explanation explain(Stream& stream, std::optional<std::uint64_t> payload_bytes) {
  std::vector<Module*> chain{&stream.head()};
  for (const auto& module : stream.chain().modules()) {
    chain.push_back(module.get());
  }
  std::vector<NamedModule> modules;
  for (const Module* module : chain) {
    modules.push_back({std::string(module->name()), module});
  }
  Explanation explanation = explain(modules, stream.mode());
  explanation.live = true;
  for (std::size_t at = 0; at < chain.size(); ++at) {
    explanation.down.modules[at].materialized = chain[at]->write_queue().statistics().materialized;
    explanation.up.modules[chain.size() - 1 - at].materialized = chain[at]->read_queue().statistics().materialized;
  }
  if (payload_bytes && *payload_bytes > 0) {
    const Touches& touches = stream.set().pool().touches();
    const auto bytes = static_cast<double>(*payload_bytes);
    explanation.measured = {.loads = static_cast<double>(touches.loaded_bytes) / bytes,
                            .stores = static_cast<double>(touches.stored_bytes) / bytes};
  }
  return explanation;
}

Result<Explanation> explain(StreamSet& set, const StackDeclaration& stack, ProcessingMode mode, const Module* program) {
  std::vector<const ModuleDeclaration*> declared;
  for (const ModuleDeclaration& module : stack.push) {
    declared.insert(declared.begin(), &module);
  }
  declared.push_back(&stack.driver);

  const StreamHead head({});
  std::vector<std::unique_ptr<Module>> made;
  std::vector<NamedModule> modules{{std::string(head.name()), &head}};
  for (const ModuleDeclaration* declaration : declared) {
    Result<std::unique_ptr<Module>> module = declaration->entry->make(set, declaration->parameters);
    if (!module) {
      return std::unexpected(in_stack(stack, *declaration, module.error()));
    }
    modules.push_back({declaration->instance, module->get()});
    made.push_back(std::move(*module));
  }
  return explain(modules, mode, program);
}

}  // namespace sluice
