// SPDX-License-Identifier: Apache-2.0
#pragma once

// What a stack can be made of, in words: `sluice modules`.

#include <string>
#include <string_view>

#include "stack/core/registry.h"

namespace sluice {

/// "driver" or "module".
[[nodiscard]] std::string_view kind_name(const Entry& entry);

/// One line for each driver and module.
[[nodiscard]] std::string modules_text(const Registry& registry);
[[nodiscard]] std::string modules_json(const Registry& registry);
/// The manual of one entry: its header's comment, then its parameters.
[[nodiscard]] std::string manual_text(const Entry& entry, std::string_view manual);

}  // namespace sluice
