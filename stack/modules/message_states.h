// SPDX-License-Identifier: Apache-2.0
#pragma once

// The two state machines of `rmpp` and `utopia`, each a table of state x event: what a message's sender does, and what
// its receiver does. The module decides which event a packet or a timer is, looks the row up, and acts; nothing
// else changes a state. Plain constants; thread-safe as such.

#include <array>
#include <cstddef>
#include <cstdint>

namespace sluice::rmpp {

enum class SendState : std::uint8_t {
  idle,     // no message, or none that has begun
  asking,   // a grant is awaited
  sending,  // granted packets are leaving
  ending,   // all packets have left; the message end is awaited
  count_,
};

enum class SendEvent : std::uint8_t {
  start_short,              // a message of one packet begins
  start_long,               // a message of several begins
  grant,                    // clear to send, for packets that this message has to send
  window_left,              // the last granted packet has left; the message has more
  all_left,                 // the last packet of the message has left
  all_left_unacknowledged,  // likewise, and nobody will say that it came
  end,                      // message end, after every packet has left in some attempt; idle: any
  refusal,                  // the receiver is another process now
  declined,                 // the receiver's user does not take the message
  timeout_same,             // nothing came in time; what the receiver has stays good
  timeout_restart,          // nothing came in time; a long message begins again
  exhausted,                // and that was the last attempt
  count_,
};

enum class SendAction : std::uint8_t {
  ignore,          // count the packet as stray
  request,         // send the request with the first packet
  packets,         // send what is granted
  wait,            // arm the timer
  finish,          // discard-state to the receiver, `sent` to the user
  finish_quietly,  // `sent` to the user
  discard,         // the receiver has not heard that this is over: discard-state again
  fail_refused,    // `failed` to the user
  fail_declined,   // likewise
  fail,            // likewise, and discard-state to the receiver
};

struct SendRow {
  SendState next;
  SendAction action;
  friend constexpr bool operator==(const SendRow&, const SendRow&) = default;
};

enum class ReceiveState : std::uint8_t {
  none,       // no message is on its way in
  gathering,  // granted packets are awaited
  withheld,   // they have come; there is no room to grant more
  ended,      // all has come, and the sender has been told; discard-state is awaited
  refused,    // the user does not take it; the sender has been told
  count_,
};

enum class ReceiveEvent : std::uint8_t {
  request_new,       // a message that is later than all before
  request_again,     // the message at hand, the same attempt
  request_restart,   // the message at hand, a later attempt
  data,              // a packet that is granted and wanted next
  data_other,        // any other packet: one behind a gap, a duplicate, one of an earlier attempt
  window_held,       // all that was granted has been verified, and there is room for more
  window_held_full,  // likewise, and there is none
  message_held,      // all of the message has been verified
  room,              // there is room again
  refused,           // the user does not take the message
  discard,           // discard-state
  expired,           // the peer has been silent for the dead time
  count_,
};

enum class ReceiveAction : std::uint8_t {
  ignore,        // count the packet
  none,          // nothing to do
  open,          // take the message and its first packet
  replace,       // `lost` to the user for the one before, then open
  again,         // selective: grant once more what is lacking; else ignore
  reopen,        // from its first packet
  take,          // payload to the user
  grant,         // clear to send
  end,           // message end to the sender, `received` to the user
  end_again,     // message end to the sender
  refuse,        // refuse to the sender, `lost` to the user
  refuse_again,  // refuse to the sender
  forget,        // nothing of the message is needed any more
  lose,          // `lost` to the user
};

struct ReceiveRow {
  ReceiveState next;
  ReceiveAction action;
  friend constexpr bool operator==(const ReceiveRow&, const ReceiveRow&) = default;
};

namespace detail {

using S = SendState;
using A = SendAction;
using R = ReceiveState;
using B = ReceiveAction;

// One line a state, one column an event, in the order of the enumerations.
inline constexpr std::array<std::array<SendRow, static_cast<std::size_t>(SendEvent::count_)>,
                            static_cast<std::size_t>(SendState::count_)>
    send_table = {{
        // idle
        {{{S::ending, A::request},
          {S::asking, A::request},
          {S::idle, A::ignore},
          {S::idle, A::ignore},
          {S::idle, A::ignore},
          {S::idle, A::ignore},
          {S::idle, A::discard},
          {S::idle, A::ignore},
          {S::idle, A::ignore},
          {S::idle, A::ignore},
          {S::idle, A::ignore},
          {S::idle, A::ignore}}},
        // asking: a message end tells of an earlier attempt
        {{{S::asking, A::ignore},
          {S::asking, A::ignore},
          {S::sending, A::packets},
          {S::asking, A::ignore},
          {S::asking, A::ignore},
          {S::asking, A::ignore},
          {S::idle, A::finish},
          {S::idle, A::fail_refused},
          {S::idle, A::fail_declined},
          {S::asking, A::request},
          {S::asking, A::request},
          {S::idle, A::fail}}},
        // sending: what waits is the device below; the peer is not late
        {{{S::sending, A::ignore},
          {S::sending, A::ignore},
          {S::sending, A::ignore},
          {S::asking, A::wait},
          {S::ending, A::wait},
          {S::idle, A::finish_quietly},
          {S::idle, A::finish},
          {S::idle, A::fail_refused},
          {S::idle, A::fail_declined},
          {S::sending, A::wait},
          {S::sending, A::wait},
          {S::sending, A::wait}}},
        // ending: a grant is one of packets that were lost
        {{{S::ending, A::ignore},
          {S::ending, A::ignore},
          {S::sending, A::packets},
          {S::ending, A::ignore},
          {S::ending, A::ignore},
          {S::idle, A::finish_quietly},
          {S::idle, A::finish},
          {S::idle, A::fail_refused},
          {S::idle, A::fail_declined},
          {S::ending, A::request},
          {S::asking, A::request},
          {S::idle, A::fail}}},
    }};

inline constexpr std::array<std::array<ReceiveRow, static_cast<std::size_t>(ReceiveEvent::count_)>,
                            static_cast<std::size_t>(ReceiveState::count_)>
    receive_table = {{
        // none: a request that is not new is one for the message that came last
        {{{R::gathering, B::open},
          {R::none, B::end_again},
          {R::none, B::end_again},
          {R::none, B::ignore},
          {R::none, B::ignore},
          {R::none, B::none},
          {R::none, B::none},
          {R::none, B::none},
          {R::none, B::none},
          {R::none, B::none},
          {R::none, B::none},
          {R::none, B::forget}}},
        // gathering
        {{{R::gathering, B::replace},
          {R::gathering, B::again},
          {R::gathering, B::reopen},
          {R::gathering, B::take},
          {R::gathering, B::ignore},
          {R::gathering, B::grant},
          {R::withheld, B::none},
          {R::ended, B::end},
          {R::gathering, B::none},
          {R::refused, B::refuse},
          {R::none, B::lose},
          {R::none, B::lose}}},
        // withheld
        {{{R::gathering, B::replace},
          {R::withheld, B::ignore},
          {R::gathering, B::reopen},
          {R::withheld, B::ignore},
          {R::withheld, B::ignore},
          {R::withheld, B::none},
          {R::withheld, B::none},
          {R::withheld, B::none},
          {R::gathering, B::grant},
          {R::refused, B::refuse},
          {R::none, B::lose},
          {R::none, B::lose}}},
        // ended
        {{{R::gathering, B::open},
          {R::ended, B::end_again},
          {R::ended, B::end_again},
          {R::ended, B::ignore},
          {R::ended, B::ignore},
          {R::ended, B::none},
          {R::ended, B::none},
          {R::ended, B::none},
          {R::ended, B::none},
          {R::ended, B::none},
          {R::none, B::forget},
          {R::none, B::forget}}},
        // refused
        {{{R::gathering, B::open},
          {R::refused, B::refuse_again},
          {R::refused, B::refuse_again},
          {R::refused, B::ignore},
          {R::refused, B::ignore},
          {R::refused, B::none},
          {R::refused, B::none},
          {R::refused, B::none},
          {R::refused, B::none},
          {R::refused, B::none},
          {R::none, B::forget},
          {R::none, B::forget}}},
    }};

}  // namespace detail

[[nodiscard]] constexpr SendRow row(SendState state, SendEvent event) {
  return detail::send_table[static_cast<std::size_t>(state)][static_cast<std::size_t>(event)];
}
[[nodiscard]] constexpr ReceiveRow row(ReceiveState state, ReceiveEvent event) {
  return detail::receive_table[static_cast<std::size_t>(state)][static_cast<std::size_t>(event)];
}

}  // namespace sluice::rmpp
