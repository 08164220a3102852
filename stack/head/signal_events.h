// SPDX-License-Identifier: Apache-2.0
#pragma once

// The events of a stream that its user can be told of: those of I_SETSIG, under the numbers of <stropts.h>. Where
// streamio(7I) sends SIGPOLL or SIGURG to a process, the stream head calls a function of the user's. Quoted is
// streamio(7).
//
//   | event    | happens when                                                                                   |
//   |----------|------------------------------------------------------------------------------------------------|
//   | S_INPUT  | "Any message other than an M_PCPROTO has arrived on a stream head read queue."                 |
//   | S_RDNORM | "An ordinary (non-priority) message has arrived on a stream head read queue."                  |
//   | S_RDBAND | "A priority band message (band > 0) has arrived on a stream head read queue."                  |
//   | S_HIPRI  | "A high-priority message is present on the stream head read queue."                            |
//   | S_OUTPUT | "The write queue just below the stream head is no longer full."                                |
//   | S_WRNORM | "This event is the same as S_OUTPUT."                                                          |
//   | S_WRBAND | "A priority band greater than 0 of a queue downstream exists and is writable."                 |
//   | S_MSG    | never: it is for M_SIG, and a module that has something to tell can send a message             |
//   | S_ERROR  | "An M_ERROR message has reached the stream head."                                              |
//   | S_HANGUP | "An M_HANGUP message has reached the stream head."                                             |
//
// Arrivals are edges, also of messages of zero length: what waited before I_SETSIG is not told of, and of several that
// arrive before the call the user is told once, so that it reads until EAGAIN. The output events happen when a sender
// has been refused and the stream below has room again. On a fused path a message that arrives is not verified yet, as
// with poll().

#include <cstdint>
#include <functional>

namespace sluice {

struct SignalEvents {
  enum Event : std::uint32_t {
    S_INPUT = 0x0001,
    S_HIPRI = 0x0002,
    S_OUTPUT = 0x0004,
    S_WRNORM = S_OUTPUT,
    S_MSG = 0x0008,
    S_ERROR = 0x0010,
    S_HANGUP = 0x0020,
    S_RDNORM = 0x0040,
    S_RDBAND = 0x0080,
    S_WRBAND = 0x0100,
    /// "When used in conjunction with S_RDBAND, SIGURG is generated instead of SIGPOLL when a priority message reaches
    /// the front of the stream head read queue."
    S_BANDURG = 0x0200,
  };
  static constexpr std::uint32_t all = 0x03ff;
};

/// Told of `events`, an OR of those that were asked for; `urgent` where SIGURG would be sent. Runs from the scheduler,
/// never within a call of the stream's; may call anything but must not destroy the stream.
using SignalHandler = std::function<void(std::uint32_t events, bool urgent)>;

}  // namespace sluice
