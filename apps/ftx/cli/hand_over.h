// SPDX-License-Identifier: Apache-2.0
#pragma once

// hand_over: the one place on each side where the secret of a start reaches the session. Sessions have no use for it
// yet: see refused_as_insecure() in main.cc.

#include "apps/ftx/remote/one_time_secret.h"
#include "apps/ftx/session/sender.h"
#include "apps/ftx/session/server.h"

namespace sluice::ftx {

inline void hand_over(const OneTimeSecret& /*secret*/, SenderOptions& /*options*/) {}
inline void hand_over(const OneTimeSecret& /*secret*/, ServerOptions& /*options*/) {}

}  // namespace sluice::ftx
