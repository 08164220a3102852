// SPDX-License-Identifier: Apache-2.0
#pragma once

// What both ends of a start through ssh do with its secret.

#include <expected>

#include "apps/ftx/protocol/exit_code.h"
#include "apps/ftx/session/protection.h"

namespace sluice::ftx {

/// The protection of a session that `secret` keys. The secret is gone afterwards.
[[nodiscard]] inline std::expected<Protection, Failure> protection_of(Secret secret, Cipher cipher, Side side) {
  auto protection = Protection::create(KeySchedule(std::move(secret)), cipher, side);
  if (!protection) {
    return std::unexpected(
        Failure{ExitCode::internal, "the session's keys cannot be made: " + protection.error().text});
  }
  return *std::move(protection);
}

}  // namespace sluice::ftx
