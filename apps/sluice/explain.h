// SPDX-License-Identifier: Apache-2.0
#pragma once

// `sluice explain`: what a stack is, and what it does to each payload byte, for people and for programs.
//
// What is printed may come from a stack file that somebody else wrote: names are escaped, and lines of the table are
// cut to fit. No device, no file and no socket is opened.

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "stack/head/explanation.h"
#include "stack/head/stack_file.h"

namespace sluice {

/// The chain from top to bottom: what each module does to data, the service it offers, its parameters; then
/// payload_text(). At most text_columns_max columns, but for words that are longer.
[[nodiscard]] std::string explain_text(const StackDeclaration& stack, const Explanation& explanation);
/// {"stack", "mode", "declared_mode", "modules": [{"name", "instance", "kind", "effect", "service", "parameters"},
/// ...], "payload": payload_json()}; modules top first.
[[nodiscard]] std::string explain_json(const StackDeclaration& stack, const Explanation& explanation);

inline constexpr std::size_t text_columns_max = 100;

/// What a program does that seals what it sends and opens what it receives, as ftx does: for explain()
/// (stack/head/explanation.h). It seals from a file's page into a buffer, from where the stack takes it, since several
/// datagrams in one message have a tag each; it opens in the pass that lands a datagram in its page.
[[nodiscard]] std::unique_ptr<Module> sealing_program();

/// A table for each side, module by module in the direction of flow, and the loads and stores of each way to run it.
[[nodiscard]] std::string payload_text(const Explanation& explanation);

/// {"down": side, "up": side}, of a live stream with its byte count also "measured": {"loads", "stores"}.
///
///   side     {"modules": [module, ...], "passes", "cost": {"layered": cost, "cache_blocked": cost with "memory_loads"
///            and "memory_stores", "fused": cost}}; modules in the direction of flow
///   module   {"instance", "shows_lent", "work": [item, ...], "uncounted" (text or null)}, of a live stream
///            "materialized", too
///   item     {"asks": "swap" with "unit" | "sum" | "check" | "copy" | "gather" | "land" | "materialize" | the name of
///            a stage, "why", "outcome": "deferred" | "pass" | "nothing", "pass": {"kernel", "in_place", "loads",
///            "stores"} or null}
///   cost     {"loads", "stores"} for each payload byte
[[nodiscard]] nlohmann::ordered_json payload_json(const Explanation& explanation);

}  // namespace sluice
