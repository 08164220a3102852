// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>

#include "apps/ftx/jobs/jobs.h"

namespace sluice::ftx {

/// The operand and all flags of `serve`, but those that say how it is shown. `options` must outlive the parse.
void add_serve_options(CLI::App& app, ServeOptions& options);

}  // namespace sluice::ftx
