// SPDX-License-Identifier: Apache-2.0
#pragma once

// The counters of a stream, module by module and queue by queue, for people and for programs.

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "stack/head/stream.h"

namespace sluice {

/// {"stack": name, "pool": {"bytes_reserved", "bytes_max", "buffers_in_use", "allocations_failed", "reclaimed"},
/// "touches": {"loaded_bytes", "stored_bytes"}, "modules": [{"name", "counters": {name: count}, "write": queue, "read":
/// queue}, ...]}, top first, the head included. A queue: {"batches", "messages", "enqueued", "refused", "materialized",
/// "waiting_messages", "waiting_bytes", "waiting_bytes_max"}.
[[nodiscard]] nlohmann::ordered_json statistics_json(std::string_view stack, Stream& stream);

/// The same as lines of text; counters that are zero are left out.
[[nodiscard]] std::string statistics_text(std::string_view stack, Stream& stream);

}  // namespace sluice
