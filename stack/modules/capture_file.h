// SPDX-License-Identifier: Apache-2.0
#pragma once

// The file of a capture. The only file that a module opens.

#include <string>

#include "base/result.h"
#include "stack/modules/capture.h"

namespace sluice {

/// A sink that writes to the file at `path`, which is created, readable by its owner only, or replaced. EBUSY when
/// another capture writes to it; otherwise what open(2) says. The sink closes the file when it is destroyed.
[[nodiscard]] Result<CaptureSink> open_capture_file(const std::string& path);

}  // namespace sluice
