// SPDX-License-Identifier: Apache-2.0
#pragma once

// The chain of modules that is a stream, from the head (top) to the driver (bottom), and the wiring of their queues.

#include <memory>
#include <vector>

#include "base/result.h"
#include "stack/core/module.h"
#include "stack/core/reader_place.h"
#include "stack/core/stream_set.h"

namespace sluice {

class Chain {
 public:
  /// Modules on a stream at most (NSTRPUSH). Generous, since a deep stack is what one may want to measure.
  static constexpr std::size_t modules_max = 72;

  Chain(StreamSet& set, Module& head);
  ~Chain();
  Chain(const Chain&) = delete;
  Chain& operator=(const Chain&) = delete;

  /// Puts `driver` at the bottom and opens it. REQUIRES: the chain has none.
  Status open_driver(std::unique_ptr<Module> driver);
  /// Pushes a module just below the head and opens it. EINVAL when the chain is full.
  Status push(std::unique_ptr<Module> module);
  /// Closes and removes the module just below the head. EINVAL when there is none but the driver.
  Status pop();

  /// From the next message that any module makes. Messages under way stay what they are.
  void set_mode(ProcessingMode mode);
  [[nodiscard]] ProcessingMode mode() const { return head_.mode(); }
  /// Asks everybody anew whether they handle segmented messages. Called when the head has changed its mind.
  void update_segments();

  /// From just below the head to the driver.
  [[nodiscard]] const std::vector<std::unique_ptr<Module>>& modules() const { return modules_; }
  [[nodiscard]] Module& head() const { return head_; }
  [[nodiscard]] Module& driver() const { return *modules_.back(); }
  [[nodiscard]] StreamSet& set() const { return set_; }
  /// The place where the stream's reader waits.
  [[nodiscard]] ReaderPlace& reader_place() { return reader_place_; }

 private:
  Status insert_at_top(std::unique_ptr<Module> module);
  std::unique_ptr<Module> remove_top();
  void attach(Module& module);
  void detach(Module& module);
  void wire();

  StreamSet& set_;
  Module& head_;
  ReaderPlace reader_place_;
  std::vector<std::unique_ptr<Module>> modules_;
};

}  // namespace sluice
