// SPDX-License-Identifier: Apache-2.0
#pragma once

// What a stack is, in words: `sluice check`, `sluice explain`, `sluice modules`.

#include <string>
#include <string_view>

#include "stack/core/registry.h"
#include "stack/head/stack_file.h"

namespace sluice {

/// The chain from top to bottom: what each module does to data, the service it offers, its parameters.
[[nodiscard]] std::string explain_text(const StackDeclaration& stack);
/// {"stack", "path", "modules": [{"name", "instance", "kind", "effect", "service", "parameters"}, ...]}, top first.
[[nodiscard]] std::string explain_json(const StackDeclaration& stack);

/// One line for each driver and module.
[[nodiscard]] std::string modules_text(const Registry& registry);
[[nodiscard]] std::string modules_json(const Registry& registry);
/// The manual of one entry: its header's comment, then its parameters.
[[nodiscard]] std::string manual_text(const Entry& entry, std::string_view manual);

}  // namespace sluice
