// SPDX-License-Identifier: Apache-2.0
#pragma once

// Flags that several jobs have. docs/man/ftx.1 says what each means.
//
// What they set must outlive the parse.

#include <CLI/CLI.hpp>

#include "apps/ftx/jobs/jobs.h"

namespace sluice::ftx {

/// As CLI::PositiveNumber, which takes "nan", and prints all digits of the largest number when it refuses one.
[[nodiscard]] CLI::Validator positive_number();

/// Of every job: the stack, and how long to wait for a peer.
void add_common_options(CLI::App& app, CommonOptions& options);
/// Of jobs that move files.
void add_file_options(CLI::App& app, CommonOptions& options, bool& insecure);
CLI::Option* add_key_option(CLI::App& app, TrustOptions& options);
void add_secret_option(CLI::App& app, TrustOptions& options);
/// Of a client of ftx://, the two above included.
void add_trust_options(CLI::App& app, TrustOptions& options);
void add_ssh_options(CLI::App& app, SshOptions& options);

}  // namespace sluice::ftx
