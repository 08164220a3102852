// SPDX-License-Identifier: Apache-2.0
#pragma once

// The commands of the program that are no jobs: they print to a person, and move no files.

#include "apps/ftx/cli/console.h"
#include "apps/ftx/jobs/jobs.h"

namespace sluice::ftx {

/// Prints this user's own key.
[[nodiscard]] ExitCode show_key(const TrustOptions& options);

/// Tells what is in the way of transfers to options.destination ([user@]host or ftx://HOST:PORT), and what is worth
/// knowing of this host.
[[nodiscard]] ExitCode doctor(const PushOptions& options, const Console::Options& shown);

}  // namespace sluice::ftx
