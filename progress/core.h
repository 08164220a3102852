// SPDX-License-Identifier: Apache-2.0
#pragma once

// What messages of one process need, in the order in which it is made. All of it belongs to one thread at a time.

#include <memory>

#include "edge/host_stream.h"
#include "edge/run_loop.h"
#include "msg/endpoint.h"
#include "stack/core/stream_set.h"

namespace sluice::msg {

struct Core {
  explicit Core(const StreamSet::Options& options) : set(options) {}
  ~Core() {
    if (endpoint) {
      loop->unattend(endpoint->stream());
    }
  }
  Core(const Core&) = delete;
  Core& operator=(const Core&) = delete;

  StreamSet set;
  std::unique_ptr<RunLoop> loop;
  std::unique_ptr<HostStream> host;  // or none
  std::unique_ptr<Endpoint> endpoint;
};

}  // namespace sluice::msg
