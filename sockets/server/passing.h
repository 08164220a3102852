// SPDX-License-Identifier: Apache-2.0
#pragma once

// Messages between processes that bring a descriptor (SCM_RIGHTS, unix(7)).
//
// Plain functions; thread-safe.

#include <cstddef>

#include "base/bytes.h"
#include "base/descriptor.h"

namespace sluice::sockets {

/// Sends one message, with `descriptor` unless that is negative. 0, or an errno: EAGAIN where it would wait.
[[nodiscard]] int send_message(int channel, ConstBytes message, int descriptor);

/// What came: its bytes, 0 at the end of the channel, and the descriptor, if it brought one. An errno where nothing
/// did.
struct Passed {
  std::size_t size = 0;
  Descriptor descriptor;
  int error = 0;
};
/// Receives one message into `place`, which it must fit: EMSGSIZE.
[[nodiscard]] Passed receive_message(int channel, Bytes place);

}  // namespace sluice::sockets
