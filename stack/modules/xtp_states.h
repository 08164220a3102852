// SPDX-License-Identifier: Apache-2.0
#pragma once

// The states of an association of `xtp`, a table of state x event. The association decides which event a packet, a
// call or a timer is, looks the row up, and acts; nothing else changes a state.
//
//              connect            answered              finish              all_confirmed
//     closed ─────────► opening ───────────► open ──────────────► closing ─────────────► reading
//       │ accept                              ▲ │ peer_finished      │ peer_finished       │ peer_finished
//       └──────────► accepting ───────────────┘ │                    ▼                     ▼
//                          heard                └─► writing ───────► ending ─────────────► over ───► closed
//                                                          finish           all_confirmed       end, expired
//
// Plain constants; thread-safe as such.

#include <array>
#include <cstddef>
#include <cstdint>

namespace sluice::xtp {

enum class State : std::uint8_t {
  closed,     // there is none, or none any more
  opening,    // FIRST has been sent; the peer's user has not answered
  accepting,  // the user has accepted; the peer has not been heard since
  open,       // data may go both ways
  closing,    // our end has ended (WCLOSE); the peer has not confirmed that it has all of it (RCLOSE)
  reading,    // it has; its data still comes
  writing,    // the peer has ended, and all of it has come; ours still goes
  ending,     // both have ended; the peer has not confirmed ours
  over,       // it has; what it may still ask is answered
  count_,
};

enum class Event : std::uint8_t {
  connect,        // the user calls
  accept,         // the user takes a call
  answered,       // TCNTL, with the peer's key
  heard,          // any packet of the peer's with our key
  finish,         // the user has ended, and all of it has left
  peer_finished,  // WCLOSE, and all before it has come
  all_confirmed,  // RCLOSE, and rseq says that all of ours has come
  end,            // END
  refused,        // DIAG
  abort,          // the user gives it up
  expired,        // nothing has been heard for too long; over: nobody has asked for long enough
  count_,
};

enum class Action : std::uint8_t {
  none,
  call,          // FIRST to the peer
  answer,        // TCNTL to the peer
  establish,     // the user learns that it is open
  finish,        // WCLOSE to the peer
  tell_end,      // the user learns of the peer's end
  confirmed,     // nothing of ours is needed any more
  wait,          // both: the last that both need
  tell_wait,     // the same, and the user learns of the peer's end
  forget,        // closed, and nobody needs to know
  lose,          // the user learns that it is over: reset
  lose_refused,  // refused
  lose_expired,  // timed out; the peer is told by END
  give_up,       // the peer is told by END
};

struct Row {
  State next;
  Action action;
  friend constexpr bool operator==(const Row&, const Row&) = default;
};

namespace detail {

using S = State;
using A = Action;

// One line a state, one column an event, in the order of the enumerations.
inline constexpr std::array<std::array<Row, static_cast<std::size_t>(Event::count_)>,
                            static_cast<std::size_t>(State::count_)>
    table = {{
        // closed
        {{{S::opening, A::call},
          {S::accepting, A::answer},
          {S::closed, A::none},
          {S::closed, A::none},
          {S::closed, A::none},
          {S::closed, A::none},
          {S::closed, A::none},
          {S::closed, A::none},
          {S::closed, A::none},
          {S::closed, A::none},
          {S::closed, A::none}}},
        // opening: END comes from a peer that took the call and has gone
        {{{S::opening, A::none},
          {S::opening, A::none},
          {S::open, A::establish},
          {S::opening, A::none},
          {S::opening, A::none},
          {S::opening, A::none},
          {S::opening, A::none},
          {S::closed, A::lose_refused},
          {S::closed, A::lose_refused},
          {S::closed, A::give_up},
          {S::closed, A::lose_expired}}},
        // accepting: the user sees a connection already, and may even end it
        {{{S::accepting, A::none},
          {S::accepting, A::none},
          {S::accepting, A::none},
          {S::open, A::none},
          {S::accepting, A::none},
          {S::accepting, A::none},
          {S::accepting, A::none},
          {S::closed, A::lose},
          {S::closed, A::lose},
          {S::closed, A::give_up},
          {S::closed, A::lose_expired}}},
        // open
        {{{S::open, A::none},
          {S::open, A::none},
          {S::open, A::none},
          {S::open, A::none},
          {S::closing, A::finish},
          {S::writing, A::tell_end},
          {S::open, A::none},
          {S::closed, A::lose},
          {S::closed, A::lose},
          {S::closed, A::give_up},
          {S::closed, A::lose_expired}}},
        // closing
        {{{S::closing, A::none},
          {S::closing, A::none},
          {S::closing, A::none},
          {S::closing, A::none},
          {S::closing, A::none},
          {S::ending, A::tell_end},
          {S::reading, A::confirmed},
          {S::closed, A::lose},
          {S::closed, A::lose},
          {S::closed, A::give_up},
          {S::closed, A::lose_expired}}},
        // reading
        {{{S::reading, A::none},
          {S::reading, A::none},
          {S::reading, A::none},
          {S::reading, A::none},
          {S::reading, A::none},
          {S::over, A::tell_wait},
          {S::reading, A::none},
          {S::closed, A::lose},
          {S::closed, A::lose},
          {S::closed, A::give_up},
          {S::closed, A::lose_expired}}},
        // writing
        {{{S::writing, A::none},
          {S::writing, A::none},
          {S::writing, A::none},
          {S::writing, A::none},
          {S::ending, A::finish},
          {S::writing, A::none},
          {S::writing, A::none},
          {S::closed, A::lose},
          {S::closed, A::lose},
          {S::closed, A::give_up},
          {S::closed, A::lose_expired}}},
        // ending
        {{{S::ending, A::none},
          {S::ending, A::none},
          {S::ending, A::none},
          {S::ending, A::none},
          {S::ending, A::none},
          {S::ending, A::none},
          {S::over, A::wait},
          {S::closed, A::lose},
          {S::closed, A::lose},
          {S::closed, A::give_up},
          {S::closed, A::lose_expired}}},
        // over: END says that the peer needs nothing any more
        {{{S::over, A::none},
          {S::over, A::none},
          {S::over, A::none},
          {S::over, A::none},
          {S::over, A::none},
          {S::over, A::none},
          {S::over, A::none},
          {S::closed, A::forget},
          {S::closed, A::forget},
          {S::closed, A::forget},
          {S::closed, A::forget}}},
    }};

}  // namespace detail

[[nodiscard]] constexpr Row row(State state, Event event) {
  return detail::table[static_cast<std::size_t>(state)][static_cast<std::size_t>(event)];
}

}  // namespace sluice::xtp
