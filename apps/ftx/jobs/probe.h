// SPDX-License-Identifier: Apache-2.0
#pragma once

// Probe: tries the way to another host as a transfer takes it, and leaves nothing there or here. Through ssh it fetches
// the ftx program that runs there into memory: real data, of a few megabytes.

#include <cstdint>
#include <optional>
#include <string>

#include "apps/ftx/jobs/jobs.h"
#include "apps/ftx/remote/operand.h"
#include "apps/ftx/session/event.h"

namespace sluice::ftx {

inline constexpr std::size_t probe_printed_bytes_max = 64 * 1024;

struct SshProbe {
  std::optional<Failure> start;  // why ssh, or the ftx there, did not come up
  std::string version;           // of the ftx there
  double start_seconds = 0;      // what log-in and start took
  std::optional<Failure> udp;    // why UDP did not carry the data
  Event done;                    // how it did
  std::string printed;           // by `ftx doctor --json` there; at most probe_printed_bytes_max
  double asked_at_s = 0;         // since 1970
  double answered_at_s = 0;
};

/// REQUIRES: `there` is a remote operand.
[[nodiscard]] SshProbe probe_through_ssh(const PushOptions& options, const Operand& there);

}  // namespace sluice::ftx
