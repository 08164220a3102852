// SPDX-License-Identifier: Apache-2.0
// Every state with every event: the rows that do something are listed, all others must leave the state and do nothing.
#include "stack/modules/message_states.h"

#include <gtest/gtest.h>

#include <map>
#include <utility>

namespace sluice::rmpp {
namespace {

using S = SendState;
using E = SendEvent;
using A = SendAction;
using R = ReceiveState;
using F = ReceiveEvent;
using B = ReceiveAction;

const std::map<std::pair<S, E>, SendRow> send_rows = {
    {{S::idle, E::start_short}, {S::ending, A::request}},
    {{S::idle, E::start_long}, {S::asking, A::request}},
    {{S::idle, E::end}, {S::idle, A::discard}},
    {{S::asking, E::grant}, {S::sending, A::packets}},
    {{S::asking, E::end}, {S::idle, A::finish}},
    {{S::asking, E::refusal}, {S::idle, A::fail_refused}},
    {{S::asking, E::declined}, {S::idle, A::fail_declined}},
    {{S::asking, E::timeout_same}, {S::asking, A::request}},
    {{S::asking, E::timeout_restart}, {S::asking, A::request}},
    {{S::asking, E::exhausted}, {S::idle, A::fail}},
    {{S::sending, E::window_left}, {S::asking, A::wait}},
    {{S::sending, E::all_left}, {S::ending, A::wait}},
    {{S::sending, E::all_left_unacknowledged}, {S::idle, A::finish_quietly}},
    {{S::sending, E::end}, {S::idle, A::finish}},
    {{S::sending, E::refusal}, {S::idle, A::fail_refused}},
    {{S::sending, E::declined}, {S::idle, A::fail_declined}},
    {{S::sending, E::timeout_same}, {S::sending, A::wait}},
    {{S::sending, E::timeout_restart}, {S::sending, A::wait}},
    {{S::sending, E::exhausted}, {S::sending, A::wait}},
    {{S::ending, E::grant}, {S::sending, A::packets}},
    {{S::ending, E::all_left_unacknowledged}, {S::idle, A::finish_quietly}},
    {{S::ending, E::end}, {S::idle, A::finish}},
    {{S::ending, E::refusal}, {S::idle, A::fail_refused}},
    {{S::ending, E::declined}, {S::idle, A::fail_declined}},
    {{S::ending, E::timeout_same}, {S::ending, A::request}},
    {{S::ending, E::timeout_restart}, {S::asking, A::request}},
    {{S::ending, E::exhausted}, {S::idle, A::fail}},
};

const std::map<std::pair<R, F>, ReceiveRow> receive_rows = {
    {{R::none, F::request_new}, {R::gathering, B::open}},
    {{R::none, F::request_again}, {R::none, B::end_again}},
    {{R::none, F::request_restart}, {R::none, B::end_again}},
    {{R::none, F::expired}, {R::none, B::forget}},
    {{R::gathering, F::request_new}, {R::gathering, B::replace}},
    {{R::gathering, F::request_again}, {R::gathering, B::again}},
    {{R::gathering, F::request_restart}, {R::gathering, B::reopen}},
    {{R::gathering, F::data}, {R::gathering, B::take}},
    {{R::gathering, F::window_held}, {R::gathering, B::grant}},
    {{R::gathering, F::window_held_full}, {R::withheld, B::none}},
    {{R::gathering, F::message_held}, {R::ended, B::end}},
    {{R::gathering, F::refused}, {R::refused, B::refuse}},
    {{R::gathering, F::discard}, {R::none, B::lose}},
    {{R::gathering, F::expired}, {R::none, B::lose}},
    {{R::withheld, F::request_new}, {R::gathering, B::replace}},
    {{R::withheld, F::request_restart}, {R::gathering, B::reopen}},
    {{R::withheld, F::room}, {R::gathering, B::grant}},
    {{R::withheld, F::refused}, {R::refused, B::refuse}},
    {{R::withheld, F::discard}, {R::none, B::lose}},
    {{R::withheld, F::expired}, {R::none, B::lose}},
    {{R::ended, F::request_new}, {R::gathering, B::open}},
    {{R::ended, F::request_again}, {R::ended, B::end_again}},
    {{R::ended, F::request_restart}, {R::ended, B::end_again}},
    {{R::ended, F::discard}, {R::none, B::forget}},
    {{R::ended, F::expired}, {R::none, B::forget}},
    {{R::refused, F::request_new}, {R::gathering, B::open}},
    {{R::refused, F::request_again}, {R::refused, B::refuse_again}},
    {{R::refused, F::request_restart}, {R::refused, B::refuse_again}},
    {{R::refused, F::discard}, {R::none, B::forget}},
    {{R::refused, F::expired}, {R::none, B::forget}},
};

TEST(RmppStates, EverySendingStateWithEveryEvent) {
  for (int s = 0; s < static_cast<int>(S::count_); ++s) {
    for (int e = 0; e < static_cast<int>(E::count_); ++e) {
      const auto state = static_cast<S>(s);
      const auto event = static_cast<E>(e);
      const auto listed = send_rows.find({state, event});
      EXPECT_EQ(row(state, event), listed == send_rows.end() ? (SendRow{state, A::ignore}) : listed->second)
          << s << " " << e;
    }
  }
}

TEST(RmppStates, EveryReceivingStateWithEveryEvent) {
  for (int s = 0; s < static_cast<int>(R::count_); ++s) {
    for (int e = 0; e < static_cast<int>(F::count_); ++e) {
      const auto state = static_cast<R>(s);
      const auto event = static_cast<F>(e);
      const ReceiveRow taken = row(state, event);
      const auto listed = receive_rows.find({state, event});
      if (listed != receive_rows.end()) {
        EXPECT_EQ(taken, listed->second) << s << " " << e;
      } else {
        EXPECT_EQ(taken.next, state) << s << " " << e;
        EXPECT_TRUE(taken.action == B::ignore || taken.action == B::none) << s << " " << e;
      }
    }
  }
}

}  // namespace
}  // namespace sluice::rmpp
