// SPDX-License-Identifier: Apache-2.0
#pragma once

// A capture whose file is a function of the test.

#include <memory>
#include <utility>

#include "stack/modules/capture.h"

namespace sluice::test {

/// `time`: what the wall clock says when it is read.
inline Capture::Options capture_into(CaptureSink sink, Duration time = {}) {
  return {.open = [sink = std::move(sink), time](StreamSet& set) {
    return std::make_shared<CaptureRecording>(set, sink, [time] { return time; });
  }};
}

}  // namespace sluice::test
