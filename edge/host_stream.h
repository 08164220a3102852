// SPDX-License-Identifier: Apache-2.0
#pragma once

// The stream that answers for the host beside a program's own, unless the stack file says `host = false` (open_host,
// stack/head/stack_file.h). What reaches its head is thrown away: the modules below have answered for it.
//
// Borrows the loop and the stream set. Not thread-safe.

#include <memory>

#include "base/result.h"
#include "edge/run_loop.h"
#include "stack/core/stream_set.h"
#include "stack/head/stack_file.h"
#include "stack/head/stream.h"

namespace sluice {

/// Lets the loop throw away what arrives at `stream`.
void attend_unread(RunLoop& loop, Stream& stream);

class HostStream {
 public:
  /// nullptr where the stack has none.
  [[nodiscard]] static Result<std::unique_ptr<HostStream>> open(StreamSet& set, RunLoop& loop,
                                                                const StackDeclaration& stack);
  ~HostStream();
  HostStream(const HostStream&) = delete;
  HostStream& operator=(const HostStream&) = delete;

 private:
  HostStream(RunLoop& loop, std::unique_ptr<Stream> stream);

  RunLoop& loop_;
  std::unique_ptr<Stream> stream_;
};

}  // namespace sluice
