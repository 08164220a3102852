// SPDX-License-Identifier: Apache-2.0
#pragma once

// The file of a capture. The only file that a module opens.

#include <cstdint>
#include <string>

#include "base/result.h"
#include "stack/modules/capture_recording.h"

namespace sluice {

/// What becomes of a file that is there.
enum class CaptureFileStart : std::uint8_t { empty, after_what_is_there };

/// A sink that writes to the file at `path`, which is created, readable by its owner only, if it is not there. EBUSY
/// when another sink writes to it; otherwise what open(2) says. The sink closes the file when it is destroyed.
[[nodiscard]] Result<CaptureSink> open_capture_file(const std::string& path, CaptureFileStart start);

}  // namespace sluice
