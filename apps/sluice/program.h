// SPDX-License-Identifier: Apache-2.0
#pragma once

// What the commands that open streams share: a stream set with a run loop, ended by SIGINT and SIGTERM.

#include <cstddef>
#include <memory>

#include "edge/run_loop.h"
#include "stack/core/stream_set.h"
#include "stack/head/stack_file.h"

namespace sluice {

class Program {
 public:
  /// Tells on standard error what went wrong, if it did; nullptr then.
  /// The set's pool has as much memory at least, and as it has by default.
  [[nodiscard]] static std::unique_ptr<Program> start(std::size_t pool_bytes = 0);

  /// Opens a stream with this program's loop as its waiter; tells on standard error what went wrong; nullptr then.
  [[nodiscard]] std::unique_ptr<Stream> open(const StackDeclaration& stack);

  [[nodiscard]] StreamSet& set() { return set_; }
  [[nodiscard]] RunLoop& loop() { return *loop_; }
  [[nodiscard]] bool stopped() const { return stopped_; }

 private:
  explicit Program(std::size_t pool_bytes);

  StreamSet set_;
  std::unique_ptr<RunLoop> loop_;
  bool stopped_ = false;
};

/// To standard output at once, as text or as one line of JSON.
void print_statistics(const StackDeclaration& stack, Stream& stream, bool json);

}  // namespace sluice
