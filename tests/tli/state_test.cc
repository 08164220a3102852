// SPDX-License-Identifier: Apache-2.0

// The XTI state table (XNS 5.2, "Transport Interface States"): as a table, for both service modes, and as the calls of
// connectionless mode have it, every state x every call. Those of connection mode: connection_state_test.cc.

#include "tli/state.h"

#include "tests/tli/harness.h"

namespace sluice::test {
namespace {

using namespace tli;

struct StateRow {
  std::string_view name;
  Call call;
  // The next state from T_UNINIT, T_UNBND, T_IDLE; -1: not valid there.
  std::array<int, 3> next;
  // Likewise from T_OUTCON, T_INCON, T_DATAXFER, T_OUTREL, T_INREL.
  std::array<int, 5> next_connected{-1, -1, -1, -1, -1};
};

constexpr std::array<int, 5> closed{T_UNINIT, T_UNINIT, T_UNINIT, T_UNINIT, T_UNINIT};
constexpr std::array<int, 5> stays{T_OUTCON, T_INCON, T_DATAXFER, T_OUTREL, T_INREL};

// "VALID STATES" of each manual page. t_bind: T_UNBND. t_unbind, t_sndudata, t_rcvudata, t_rcvuderr: T_IDLE. t_optmgmt,
// t_getinfo, t_getstate, t_sync, t_look, t_getprotaddr, t_close: "ALL - apart from T_UNINIT". t_open: T_UNINIT.
constexpr std::array rows{
    StateRow{"t_open", Call::open, {T_UNBND, -1, -1}},
    StateRow{"t_close", Call::close, {-1, T_UNINIT, T_UNINIT}, closed},
    StateRow{"t_bind", Call::bind, {-1, T_IDLE, -1}},
    StateRow{"t_unbind", Call::unbind, {-1, -1, T_UNBND}},
    StateRow{"t_optmgmt", Call::optmgmt, {-1, T_UNBND, T_IDLE}, stays},
    StateRow{"t_sndudata", Call::sndudata, {-1, -1, T_IDLE}},
    StateRow{"t_rcvudata", Call::rcvudata, {-1, -1, T_IDLE}},
    StateRow{"t_rcvuderr", Call::rcvuderr, {-1, -1, T_IDLE}},
    StateRow{"t_getinfo", Call::getinfo, {-1, T_UNBND, T_IDLE}, stays},
    StateRow{"t_getstate", Call::getstate, {-1, T_UNBND, T_IDLE}, stays},
    StateRow{"t_sync", Call::sync, {-1, T_UNBND, T_IDLE}, stays},
    StateRow{"t_look", Call::look, {-1, T_UNBND, T_IDLE}, stays},
    StateRow{"t_getprotaddr", Call::getprotaddr, {-1, T_UNBND, T_IDLE}, stays},
    // Of connection mode, from Solaris' "Programming Interfaces Guide", "Connection Mode State", part 1 and 2.
    StateRow{"connect2", Call::connect2, {-1, -1, T_OUTCON}},
    StateRow{"rcvconnect", Call::rcvconnect, {-1, -1, -1}, {T_DATAXFER, -1, -1, -1, -1}},
    StateRow{"listen", Call::listen, {-1, -1, T_INCON}, {-1, T_INCON, -1, -1, -1}},
    StateRow{"accept1", Call::accept1, {-1, -1, -1}, {-1, T_DATAXFER, -1, -1, -1}},
    StateRow{"accept2", Call::accept2, {-1, -1, -1}, {-1, T_IDLE, -1, -1, -1}},
    StateRow{"accept3", Call::accept3, {-1, -1, -1}, {-1, T_INCON, -1, -1, -1}},
    StateRow{"pass_conn", Call::pass_conn, {-1, T_DATAXFER, T_DATAXFER}},
    StateRow{"snd", Call::snd, {-1, -1, -1}, {-1, -1, T_DATAXFER, -1, T_INREL}},
    StateRow{"rcv", Call::rcv, {-1, -1, -1}, {-1, -1, T_DATAXFER, T_OUTREL, -1}},
    StateRow{"sndrel", Call::sndrel, {-1, -1, -1}, {-1, -1, T_OUTREL, -1, T_IDLE}},
    StateRow{"rcvrel", Call::rcvrel, {-1, -1, -1}, {-1, -1, T_INREL, T_IDLE, -1}},
    StateRow{"snddis1", Call::snddis1, {-1, -1, -1}, {T_IDLE, T_IDLE, T_IDLE, T_IDLE, T_IDLE}},
    StateRow{"snddis2", Call::snddis2, {-1, -1, -1}, {-1, T_INCON, -1, -1, -1}},
    StateRow{"rcvdis1", Call::rcvdis1, {-1, -1, -1}, {T_IDLE, -1, T_IDLE, T_IDLE, T_IDLE}},
    StateRow{"rcvdis2", Call::rcvdis2, {-1, -1, -1}, {-1, T_IDLE, -1, -1, -1}},
    StateRow{"rcvdis3", Call::rcvdis3, {-1, -1, -1}, {-1, T_INCON, -1, -1, -1}},
};

TEST(StateTable, EveryStateAndCall) {
  ASSERT_EQ(rows.size(), call_count);
  for (const StateRow& row : rows) {
    for (const State state : {T_UNINIT, T_UNBND, T_IDLE}) {
      const auto next = next_state(state, row.call);
      EXPECT_EQ(next ? static_cast<int>(*next) : -1, row.next[state]) << row.name << " in state " << int{state};
    }
    for (const State state : {T_OUTCON, T_INCON, T_DATAXFER, T_OUTREL, T_INREL}) {
      const auto next = next_state(state, row.call);
      EXPECT_EQ(next ? static_cast<int>(*next) : -1, row.next_connected[static_cast<std::size_t>(state - T_OUTCON)])
          << row.name << " in state " << int{state};
    }
  }
}

class StateCalls : public EndpointTest {
 protected:
  /// An endpoint in `state`, with whatever `call` needs to succeed where it is valid.
  void bring_to(State state, Call call) {
    open();
    if (state == T_IDLE) {
      ASSERT_TRUE(endpoint->t_bind(nullptr, nullptr));
      if (call == Call::rcvudata) {
        provider->arrives("peer", "", {"data"});
      } else if (call == Call::rcvuderr) {
        provider->fails("peer", "", ECONNREFUSED);
      }
    }
    if (state == T_UNINIT) {
      ASSERT_TRUE(endpoint->t_close());
    }
    ASSERT_EQ(endpoint->t_getstate(), state);
  }
  /// t_errno of the call, 0 when it succeeds. t_open() makes an endpoint and t_getstate() cannot fail: they are not
  /// here.
  int issue(Call call) {
    std::string buffer(64, '\0');
    tli::t_bind bound{out(buffer), 0};
    tli::t_optmgmt managed{out(buffer), 0};
    t_unitdata unit{{}, {}, out(buffer)};
    int flags = 0;
    switch (call) {
      case Call::close:
        return error_of(endpoint->t_close());
      case Call::bind:
        return error_of(endpoint->t_bind(nullptr, nullptr));
      case Call::unbind:
        return error_of(endpoint->t_unbind());
      case Call::optmgmt:
        return error_of(endpoint->t_optmgmt({in("option"), tpi::T_NEGOTIATE}, managed));
      case Call::sndudata:
        return error_of(send("text"));
      case Call::rcvudata:
        return error_of(endpoint->t_rcvudata(unit, flags));
      case Call::rcvuderr:
        return error_of(endpoint->t_rcvuderr(nullptr));
      case Call::getinfo:
        return error_of(endpoint->t_getinfo(info));
      case Call::sync:
        return error_of(endpoint->t_sync());
      case Call::look:
        return error_of(endpoint->t_look());
      case Call::getprotaddr:
        return error_of(endpoint->t_getprotaddr(&bound, nullptr));
      case Call::open:
      case Call::getstate:
      default:
        break;
    }
    ADD_FAILURE() << "not a call of an endpoint";
    return -1;
  }
};

// "TOUTSTATE The communications endpoint [...] is not in one of the states in which a call to this function is valid."
TEST_F(StateCalls, EveryStateAndCall) {
  for (const StateRow& row : rows) {
    if (row.call == Call::open || row.call == Call::getstate || row.call >= Call::connect2) {
      continue;  // every endpoint here has been opened, and has been asked for its state; none is of connections
    }
    for (const State state : {T_UNINIT, T_UNBND, T_IDLE}) {
      SCOPED_TRACE(testing::Message() << row.name << " in state " << int{state});
      bring_to(state, row.call);
      const int next = row.next[state];
      EXPECT_EQ(issue(row.call), next < 0 ? tpi::TOUTSTATE : 0);
      EXPECT_EQ(endpoint->t_getstate(), next < 0 ? state : next);
    }
  }
}

// "[TNOTSUPPORT] This function is not supported by the underlying transport provider."
TEST_F(StateCalls, ConnectionModeIsNotSupported) {
  open();
  auto other = tli::Endpoint::t_open(stream(), nullptr);
  ASSERT_TRUE(other);
  ASSERT_TRUE(endpoint->t_bind(nullptr, nullptr));
  t_call call;
  int flags = 0;
  EXPECT_EQ(error_of(endpoint->t_connect(call, nullptr)), tpi::TNOTSUPPORT);
  EXPECT_EQ(error_of(endpoint->t_rcvconnect(nullptr)), tpi::TNOTSUPPORT);
  EXPECT_EQ(error_of(endpoint->t_listen(call)), tpi::TNOTSUPPORT);
  EXPECT_EQ(error_of(endpoint->t_accept(**other, call)), tpi::TNOTSUPPORT);
  EXPECT_EQ(error_of(endpoint->t_snd({}, 0)), tpi::TNOTSUPPORT);
  EXPECT_EQ(error_of(endpoint->t_sndv({}, 0)), tpi::TNOTSUPPORT);
  EXPECT_EQ(error_of(endpoint->t_rcv({}, flags)), tpi::TNOTSUPPORT);
  EXPECT_EQ(error_of(endpoint->t_rcvv({}, flags)), tpi::TNOTSUPPORT);
  EXPECT_EQ(error_of(endpoint->t_sndrel()), tpi::TNOTSUPPORT);
  EXPECT_EQ(error_of(endpoint->t_rcvrel()), tpi::TNOTSUPPORT);
  EXPECT_EQ(error_of(endpoint->t_snddis(nullptr)), tpi::TNOTSUPPORT);
  EXPECT_EQ(error_of(endpoint->t_rcvdis(nullptr)), tpi::TNOTSUPPORT);
}

// A call that fails for another reason changes nothing, either.
TEST_F(StateCalls, FailureChangesNoState) {
  open([](Provider& at) { at.info.tsdu_size = 1; });
  t_bind busy{in("busy"), 0};
  EXPECT_EQ(error_of(endpoint->t_bind(&busy, nullptr)), tpi::TADDRBUSY);
  EXPECT_EQ(endpoint->t_getstate(), T_UNBND);
  ASSERT_TRUE(endpoint->t_bind(nullptr, nullptr));
  EXPECT_EQ(error_of(send("too long")), tpi::TBADDATA);
  EXPECT_EQ(error_of(endpoint->t_rcvuderr(nullptr)), tpi::TNOUDERR);
  provider->malformed = true;
  EXPECT_EQ(error_of(endpoint->t_sync()), tpi::TPROTO);
  EXPECT_EQ(endpoint->t_getstate(), T_IDLE);
}

}  // namespace
}  // namespace sluice::test
