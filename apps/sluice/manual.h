// SPDX-License-Identifier: Apache-2.0
#pragma once

// The manuals of modules and drivers. The build takes them from the comments that open their headers
// (cmake/manuals.cmake), so that there is one text to keep true. Thread-safe.

#include <string_view>

namespace sluice {

/// The manual of the module or driver `name`, in lines; empty when there is none.
[[nodiscard]] std::string_view manual_of(std::string_view name);

}  // namespace sluice
