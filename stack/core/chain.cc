// SPDX-License-Identifier: Apache-2.0
#include "stack/core/chain.h"

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <utility>

#include "base/contract.h"

namespace sluice {

Chain::Chain(StreamSet& set, Module& head) : set_(set), head_(head), reader_place_(set.pool()) { attach(head_); }

Chain::~Chain() {
  while (!modules_.empty()) {
    modules_.front()->close();
    remove_top();
  }
  detach(head_);
}

Status Chain::open_driver(std::unique_ptr<Module> driver) {
  SLUICE_REQUIRE(modules_.empty());
  return insert_at_top(std::move(driver));
}

Status Chain::push(std::unique_ptr<Module> module) {
  SLUICE_REQUIRE(!modules_.empty());
  if (modules_.size() >= modules_max) {
    return fail(EINVAL, "cannot push '" + std::string(module->name()) + "': the stream has " +
                            std::to_string(modules_max) + " modules, which is the most it can have");
  }
  return insert_at_top(std::move(module));
}

Status Chain::insert_at_top(std::unique_ptr<Module> module) {
  attach(*module);
  modules_.insert(modules_.begin(), std::move(module));
  wire();
  Status opened = modules_.front()->open();
  if (!opened) {
    remove_top();
  }
  return opened;
}

Status Chain::pop() {
  if (modules_.size() < 2) {
    return fail(EINVAL, "there is no module to pop");
  }
  modules_.front()->close();
  remove_top();
  return {};
}

std::unique_ptr<Module> Chain::remove_top() {
  std::unique_ptr<Module> module = std::move(modules_.front());
  detach(*module);
  modules_.erase(modules_.begin());
  wire();
  return module;
}

void Chain::set_mode(ProcessingMode mode) {
  head_.mode_ = mode;
  for (const auto& module : modules_) {
    module->mode_ = mode;
  }
}

/// With every primitive encoded nothing is left of what one header for several datagrams means.
void Chain::update_segments() {
  const auto end = std::ranges::find_if(modules_.rbegin(), modules_.rend(),
                                        [](const auto& module) { return module->ends_segments(); });
  const auto first = end == modules_.rend() ? modules_.begin() : std::prev(end.base());
  const bool all = !modules_.empty() && !set_.encodes_primitives() &&
                   (end != modules_.rend() || head_.handles_segments()) &&
                   std::all_of(first, modules_.end(), [](const auto& module) { return module->handles_segments(); });
  head_.segments_ = all && end == modules_.rend();
  for (auto module = modules_.begin(); module != modules_.end(); ++module) {
    (*module)->segments_ = all && module >= first;
  }
}

void Chain::attach(Module& module) {
  module.set_ = &set_;
  module.handle_ = set_.module_handles().add(&module);
  module.mode_ = head_.mode_;
  module.read_.scheduler_ = module.write_.scheduler_ = &set_.scheduler();
}

void Chain::detach(Module& module) {
  set_.module_handles().remove(module.handle_);
  module.handle_ = {};
  for (const Side side : {Side::read, Side::write}) {
    Queue& queue = module.queue(side);
    queue.flush(FlushKind::all);
    set_.scheduler().unschedule(queue);
    queue.scheduler_ = nullptr;
    queue.next_ = queue.next_with_service_ = queue.back_with_service_ = nullptr;
  }
}

/// Links all queues anew. A wanted queue with another one behind it than before would back-enable that one; so the
/// queue that was behind it is enabled now and asks again. (A queue that goes away is flushed, which back-enables.)
void Chain::wire() {
  std::vector<Module*> order{&head_};
  for (const auto& module : modules_) {
    order.push_back(module.get());
  }
  const auto wire_side = [this](Side side, auto begin, auto end) {
    Queue* behind = nullptr;
    for (auto at = begin; at != end; ++at) {
      Queue& queue = (*at)->queue(side);
      queue.materializes_ = !(*at)->handles_deferred();
      queue.encodes_ = queue.materializes_ || set_.encodes_primitives();
      queue.next_ = std::next(at) == end ? nullptr : &(*std::next(at))->queue(side);
      Queue* const was_behind = std::exchange(queue.back_with_service_, behind);
      if (was_behind != nullptr && was_behind != behind && queue.wanted()) {
        was_behind->enable();
      }
      behind = (*at)->has_service(side) ? &queue : behind;
    }
    Queue* ahead = nullptr;
    for (auto at = std::make_reverse_iterator(end); at != std::make_reverse_iterator(begin); ++at) {
      Queue& queue = (*at)->queue(side);
      ahead = ahead == nullptr || (*at)->has_service(side) ? &queue : ahead;
      queue.next_with_service_ = ahead;
    }
  };
  wire_side(Side::write, order.begin(), order.end());
  wire_side(Side::read, order.rbegin(), order.rend());
  bool leaves = true;
  for (const auto& module : modules_) {
    module->reader_place_ = leaves ? &reader_place_ : nullptr;
    leaves = leaves && module->leaves_data();
  }
  update_segments();
}

}  // namespace sluice
