// SPDX-License-Identifier: Apache-2.0
// Every state with every event: the rows that do something are listed, all others must leave the state and do nothing.
#include "stack/modules/xtp_states.h"

#include <gtest/gtest.h>

#include <map>
#include <utility>

namespace sluice::xtp {
namespace {

const std::map<std::pair<State, Event>, Row> association_rows = {
    {{State::closed, Event::connect}, {State::opening, Action::call}},
    {{State::closed, Event::accept}, {State::accepting, Action::answer}},
    {{State::opening, Event::answered}, {State::open, Action::establish}},
    {{State::opening, Event::end}, {State::closed, Action::lose_refused}},
    {{State::opening, Event::refused}, {State::closed, Action::lose_refused}},
    {{State::opening, Event::abort}, {State::closed, Action::give_up}},
    {{State::opening, Event::expired}, {State::closed, Action::lose_expired}},
    {{State::accepting, Event::heard}, {State::open, Action::none}},
    {{State::accepting, Event::end}, {State::closed, Action::lose}},
    {{State::accepting, Event::refused}, {State::closed, Action::lose}},
    {{State::accepting, Event::abort}, {State::closed, Action::give_up}},
    {{State::accepting, Event::expired}, {State::closed, Action::lose_expired}},
    {{State::open, Event::finish}, {State::closing, Action::finish}},
    {{State::open, Event::peer_finished}, {State::writing, Action::tell_end}},
    {{State::open, Event::end}, {State::closed, Action::lose}},
    {{State::open, Event::refused}, {State::closed, Action::lose}},
    {{State::open, Event::abort}, {State::closed, Action::give_up}},
    {{State::open, Event::expired}, {State::closed, Action::lose_expired}},
    {{State::closing, Event::peer_finished}, {State::ending, Action::tell_end}},
    {{State::closing, Event::all_confirmed}, {State::reading, Action::confirmed}},
    {{State::closing, Event::end}, {State::closed, Action::lose}},
    {{State::closing, Event::refused}, {State::closed, Action::lose}},
    {{State::closing, Event::abort}, {State::closed, Action::give_up}},
    {{State::closing, Event::expired}, {State::closed, Action::lose_expired}},
    {{State::reading, Event::peer_finished}, {State::over, Action::tell_wait}},
    {{State::reading, Event::end}, {State::closed, Action::lose}},
    {{State::reading, Event::refused}, {State::closed, Action::lose}},
    {{State::reading, Event::abort}, {State::closed, Action::give_up}},
    {{State::reading, Event::expired}, {State::closed, Action::lose_expired}},
    {{State::writing, Event::finish}, {State::ending, Action::finish}},
    {{State::writing, Event::end}, {State::closed, Action::lose}},
    {{State::writing, Event::refused}, {State::closed, Action::lose}},
    {{State::writing, Event::abort}, {State::closed, Action::give_up}},
    {{State::writing, Event::expired}, {State::closed, Action::lose_expired}},
    {{State::ending, Event::all_confirmed}, {State::over, Action::wait}},
    {{State::ending, Event::end}, {State::closed, Action::lose}},
    {{State::ending, Event::refused}, {State::closed, Action::lose}},
    {{State::ending, Event::abort}, {State::closed, Action::give_up}},
    {{State::ending, Event::expired}, {State::closed, Action::lose_expired}},
    {{State::over, Event::end}, {State::closed, Action::forget}},
    {{State::over, Event::refused}, {State::closed, Action::forget}},
    {{State::over, Event::abort}, {State::closed, Action::forget}},
    {{State::over, Event::expired}, {State::closed, Action::forget}},
};

TEST(XtpStates, EveryStateWithEveryEvent) {
  for (int s = 0; s < static_cast<int>(State::count_); ++s) {
    for (int e = 0; e < static_cast<int>(Event::count_); ++e) {
      const auto state = static_cast<State>(s);
      const auto event = static_cast<Event>(e);
      const auto listed = association_rows.find({state, event});
      const Row expected = listed == association_rows.end() ? Row{state, Action::none} : listed->second;
      EXPECT_EQ(row(state, event), expected) << s << " " << e;
    }
  }
}

}  // namespace
}  // namespace sluice::xtp
