// SPDX-License-Identifier: Apache-2.0

// Every call x every state of an endpoint in connection mode, and the states that t_sync() and t_open() find.
// "TOUTSTATE The communications endpoint [...] is not in one of the states in which a call to this function is valid."

#include "tests/tli/connection_harness.h"

namespace sluice::test {
namespace {

using namespace tli;
using enum tpi::TliError;

constexpr int outstate = -1;

struct ConnectionRow {
  std::string_view name;
  /// Lets happen what the call needs to succeed where it is valid.
  std::function<void(ConnectionProvider&)> prepare;
  /// t_errno of the call, 0 where it succeeds.
  std::function<int(Endpoint&, Endpoint& other)> call;
  /// The next state from each state; outstate: not valid there. T_INCON has one indication outstanding.
  std::array<int, state_count> next;
};

std::function<void(ConnectionProvider&)> nothing() {
  return [](ConnectionProvider&) {};
}

const t_call first_call{.addr = in("peer"), .opt = {}, .udata = {}, .sequence = 1};

// "VALID STATES" of each manual page, and the next states of Solaris' "Programming Interfaces Guide", "State Tables".
const std::vector<ConnectionRow>& connection_rows() {
  static const std::vector<ConnectionRow> all{
      {"t_close",
       nothing(),
       [](Endpoint& at, Endpoint&) { return error_of(at.t_close()); },
       {outstate, T_UNINIT, T_UNINIT, T_UNINIT, T_UNINIT, T_UNINIT, T_UNINIT, T_UNINIT}},
      {"t_bind",
       nothing(),
       [](Endpoint& at, Endpoint&) { return error_of(at.t_bind(nullptr, nullptr)); },
       {outstate, T_IDLE, outstate, outstate, outstate, outstate, outstate, outstate}},
      {"t_unbind",
       nothing(),
       [](Endpoint& at, Endpoint&) { return error_of(at.t_unbind()); },
       {outstate, outstate, T_UNBND, outstate, outstate, outstate, outstate, outstate}},
      {"t_optmgmt",
       nothing(),
       [](Endpoint& at, Endpoint&) {
         tli::t_optmgmt managed;
         return error_of(at.t_optmgmt({in("option"), tpi::T_NEGOTIATE}, managed));
       },
       {outstate, T_UNBND, T_IDLE, T_OUTCON, T_INCON, T_DATAXFER, T_OUTREL, T_INREL}},
      {"t_getinfo",
       nothing(),
       [](Endpoint& at, Endpoint&) {
         t_info info;
         return error_of(at.t_getinfo(info));
       },
       {outstate, T_UNBND, T_IDLE, T_OUTCON, T_INCON, T_DATAXFER, T_OUTREL, T_INREL}},
      {"t_look",
       nothing(),
       [](Endpoint& at, Endpoint&) { return error_of(at.t_look()); },
       {outstate, T_UNBND, T_IDLE, T_OUTCON, T_INCON, T_DATAXFER, T_OUTREL, T_INREL}},
      {"t_getprotaddr",
       nothing(),
       [](Endpoint& at, Endpoint&) {
         tli::t_bind bound;
         return error_of(at.t_getprotaddr(&bound, nullptr));
       },
       {outstate, T_UNBND, T_IDLE, T_OUTCON, T_INCON, T_DATAXFER, T_OUTREL, T_INREL}},
      // The request has left: that is TNODATA, since nobody waits here.
      {"t_connect",
       nothing(),
       [](Endpoint& at, Endpoint&) {
         const int error = error_of(at.t_connect(first_call, nullptr));
         return error == TNODATA ? 0 : error;
       },
       {outstate, outstate, T_OUTCON, outstate, outstate, outstate, outstate, outstate}},
      {"t_rcvconnect",
       [](ConnectionProvider& at) { at.confirms(); },
       [](Endpoint& at, Endpoint&) { return error_of(at.t_rcvconnect(nullptr)); },
       {outstate, outstate, outstate, T_DATAXFER, outstate, outstate, outstate, outstate}},
      {"t_listen",
       [](ConnectionProvider& at) { at.indicates(2); },
       [](Endpoint& at, Endpoint&) {
         t_call call;
         return error_of(at.t_listen(call));
       },
       {outstate, outstate, T_INCON, outstate, T_INCON, outstate, outstate, outstate}},
      {"t_accept here",
       nothing(),
       [](Endpoint& at, Endpoint&) { return error_of(at.t_accept(at, first_call)); },
       {outstate, outstate, outstate, outstate, T_DATAXFER, outstate, outstate, outstate}},
      {"t_accept elsewhere",
       nothing(),
       [](Endpoint& at, Endpoint& other) { return error_of(at.t_accept(other, first_call)); },
       {outstate, outstate, outstate, outstate, T_IDLE, outstate, outstate, outstate}},
      {"t_snd",
       nothing(),
       [](Endpoint& at, Endpoint&) { return error_of(at.t_snd(as_bytes("data"), 0)); },
       {outstate, outstate, outstate, outstate, outstate, T_DATAXFER, outstate, T_INREL}},
      {"t_sndv",
       nothing(),
       [](Endpoint& at, Endpoint&) {
         std::array<std::byte, 4> bytes{};
         const t_iovec part{bytes.data(), bytes.size()};
         return error_of(at.t_sndv(std::span(&part, 1), 0));
       },
       {outstate, outstate, outstate, outstate, outstate, T_DATAXFER, outstate, T_INREL}},
      {"t_rcv",
       [](ConnectionProvider& at) { at.sends("data"); },
       [](Endpoint& at, Endpoint&) {
         std::array<std::byte, 4> bytes{};
         int flags = 0;
         return error_of(at.t_rcv(bytes, flags));
       },
       {outstate, outstate, outstate, outstate, outstate, T_DATAXFER, T_OUTREL, outstate}},
      {"t_rcvv",
       [](ConnectionProvider& at) { at.sends("data"); },
       [](Endpoint& at, Endpoint&) {
         std::array<std::byte, 4> bytes{};
         const t_iovec part{bytes.data(), bytes.size()};
         int flags = 0;
         return error_of(at.t_rcvv(std::span(&part, 1), flags));
       },
       {outstate, outstate, outstate, outstate, outstate, T_DATAXFER, T_OUTREL, outstate}},
      {"t_sndrel",
       nothing(),
       [](Endpoint& at, Endpoint&) { return error_of(at.t_sndrel()); },
       {outstate, outstate, outstate, outstate, outstate, T_OUTREL, outstate, T_IDLE}},
      {"t_rcvrel",
       [](ConnectionProvider& at) { at.releases(); },
       [](Endpoint& at, Endpoint&) { return error_of(at.t_rcvrel()); },
       {outstate, outstate, outstate, outstate, outstate, T_INREL, T_IDLE, outstate}},
      {"t_snddis",
       nothing(),
       [](Endpoint& at, Endpoint&) { return error_of(at.t_snddis(&first_call)); },
       {outstate, outstate, outstate, T_IDLE, T_IDLE, T_IDLE, T_IDLE, T_IDLE}},
      {"t_rcvdis",
       [](ConnectionProvider& at) { at.withdraws(1); },
       [](Endpoint& at, Endpoint&) { return error_of(at.t_rcvdis(nullptr)); },
       {outstate, outstate, outstate, T_IDLE, T_IDLE, T_IDLE, T_IDLE, T_IDLE}},
      // "[TNOTSUPPORT] This function is not supported by the underlying transport provider", whatever the state.
      {"t_sndudata",
       nothing(),
       [](Endpoint& at, Endpoint&) { return error_of(at.t_sndudata({})) == TNOTSUPPORT ? TOUTSTATE : 0; },
       {outstate, outstate, outstate, outstate, outstate, outstate, outstate, outstate}},
      {"t_rcvudata",
       nothing(),
       [](Endpoint& at, Endpoint&) {
         t_unitdata unit;
         int flags = 0;
         return error_of(at.t_rcvudata(unit, flags)) == TNOTSUPPORT ? TOUTSTATE : 0;
       },
       {outstate, outstate, outstate, outstate, outstate, outstate, outstate, outstate}},
      {"t_rcvuderr",
       nothing(),
       [](Endpoint& at, Endpoint&) { return error_of(at.t_rcvuderr(nullptr)) == TNOTSUPPORT ? TOUTSTATE : 0; },
       {outstate, outstate, outstate, outstate, outstate, outstate, outstate, outstate}},
  };
  return all;
}

using ConnectionStates = ConnectionTest;

TEST_F(ConnectionStates, EveryStateAndCall) {
  for (const ConnectionRow& row : connection_rows()) {
    for (const State state : all_states) {
      SCOPED_TRACE(testing::Message() << row.name << " in state " << int{state});
      ASSERT_NO_FATAL_FAILURE(bring_to(state));
      ConnectionProvider* beside = nullptr;
      const auto other = make(beside);
      const int next = row.next[state];
      if (next != outstate) {
        row.prepare(*provider);
      }
      EXPECT_EQ(row.call(*endpoint, *other), next == outstate ? TOUTSTATE : 0);
      EXPECT_EQ(endpoint->t_getstate(), next == outstate ? int{state} : next);
      if (next == outstate && state != T_UNINIT) {
        EXPECT_TRUE(provider->sent.empty()) << "the provider has been asked";
      }
    }
  }
}

// The accepting endpoint: "must be in the T_UNBND state" or "in the T_IDLE state before the t_accept() is issued".
TEST_F(ConnectionStates, EveryStateOfTheAcceptingEndpoint) {
  for (const State state : all_states) {
    SCOPED_TRACE(int{state});
    ASSERT_NO_FATAL_FAILURE(bring_to(state, state == T_INCON ? 1 : 0));
    const auto acceptor = std::move(endpoint);
    ASSERT_NO_FATAL_FAILURE(bring_to(T_INCON));
    const bool valid = state == T_UNBND || state == T_IDLE;
    EXPECT_EQ(error_of(endpoint->t_accept(*acceptor, first_call)), valid ? 0 : TOUTSTATE);
    EXPECT_EQ(acceptor->t_getstate(), valid ? T_DATAXFER : state);
    EXPECT_EQ(endpoint->t_getstate(), valid ? T_IDLE : T_INCON);
  }
}

// With more than one outstanding an endpoint stays in T_INCON: accept3, snddis2, rcvdis3 of the table.
TEST_F(ConnectionStates, SeveralOutstanding) {
  ASSERT_NO_FATAL_FAILURE(bring_to(T_INCON, 3));
  ConnectionProvider* beside = nullptr;
  const auto other = make(beside);
  t_call call = first_call;
  EXPECT_EQ(error_of(endpoint->t_accept(*endpoint, call)), TINDOUT);
  ASSERT_TRUE(endpoint->t_accept(*other, call));
  EXPECT_EQ(endpoint->t_getstate(), T_INCON);
  call.sequence = 2;
  ASSERT_TRUE(endpoint->t_snddis(&call));
  EXPECT_EQ(endpoint->t_getstate(), T_INCON);
  provider->withdraws(3);
  t_discon discon;
  ASSERT_TRUE(endpoint->t_rcvdis(&discon));
  EXPECT_EQ(discon.sequence, 3);
  EXPECT_EQ(endpoint->t_getstate(), T_IDLE);

  ASSERT_NO_FATAL_FAILURE(bring_to(T_INCON, 2));
  provider->withdraws(1);
  ASSERT_TRUE(endpoint->t_rcvdis(nullptr));
  EXPECT_EQ(endpoint->t_getstate(), T_INCON);
  call.sequence = 2;
  ASSERT_TRUE(endpoint->t_accept(*endpoint, call));
  EXPECT_EQ(endpoint->t_getstate(), T_DATAXFER);
}

struct Found {
  tpi::State provider;
  std::function<void(ConnectionProvider&)> waiting;
  int state;  // -1: TSTATECHNG
};

// What t_open() makes of a stream that has been in use: the provider's state, and what waits to be received.
TEST_F(ConnectionStates, OfAStreamThatWasInUse) {
  const auto data = [](ConnectionProvider& at) { at.sends("data"); };
  const auto release = [](ConnectionProvider& at) { at.releases(); };
  const auto disconnection = [](ConnectionProvider& at) { at.withdraws(1); };
  const std::vector<Found> cases{
      {tpi::TS_UNBND, nothing(), T_UNBND},
      {tpi::TS_IDLE, nothing(), T_IDLE},
      {tpi::TS_WCON_CREQ, nothing(), T_OUTCON},
      {tpi::TS_WRES_CIND, nothing(), T_INCON},
      {tpi::TS_DATA_XFER, nothing(), T_DATAXFER},
      {tpi::TS_WIND_ORDREL, nothing(), T_OUTREL},
      {tpi::TS_WREQ_ORDREL, nothing(), T_INREL},
      {tpi::TS_WACK_BREQ, nothing(), -1},
      {tpi::TS_WACK_CREQ, nothing(), -1},
      {tpi::TS_WACK_DREQ11, data, -1},
      {tpi::TS_WRES_CIND, [](ConnectionProvider& at) { at.indicates(1); }, T_IDLE},
      {tpi::TS_WRES_CIND, disconnection, T_INCON},
      {tpi::TS_DATA_XFER, [](ConnectionProvider& at) { at.confirms(); }, T_OUTCON},
      {tpi::TS_DATA_XFER, data, T_DATAXFER},
      {tpi::TS_IDLE, disconnection, T_DATAXFER},
      {tpi::TS_WREQ_ORDREL, release, T_DATAXFER},
      {tpi::TS_IDLE, release, T_OUTREL},
      {tpi::TS_IDLE, data, T_OUTREL},
  };
  for (const Found& one : cases) {
    SCOPED_TRACE(testing::Message() << "provider in " << one.provider << ", user in " << one.state);
    auto made = std::make_unique<ConnectionProvider>();
    ConnectionProvider& at = *made;
    auto stream = std::move(*Stream::open(set, std::move(made)));
    ASSERT_TRUE(stream->push(std::make_unique<Timod>()));
    at.info.current_state = one.provider;
    one.waiting(at);
    const auto opened = Endpoint::t_open(std::move(stream), nullptr);
    EXPECT_EQ(error_of(opened), one.state < 0 ? TSTATECHNG : 0);
    if (opened) {
      EXPECT_EQ((*opened)->t_getstate(), one.state);
    }
  }
}

// t_sync() finds the provider's state, but does not run ahead of what the user has received.
TEST_F(ConnectionStates, SyncWaitsForWhatWaits) {
  ASSERT_NO_FATAL_FAILURE(bring_to(T_DATAXFER));
  provider->info.current_state = tpi::TS_WREQ_ORDREL;
  provider->sends("data");
  provider->releases();
  EXPECT_EQ(endpoint->t_sync(), T_DATAXFER);
  EXPECT_EQ(receive(10), "data");
  EXPECT_EQ(endpoint->t_sync(), T_DATAXFER);
  ASSERT_TRUE(endpoint->t_rcvrel());
  EXPECT_EQ(endpoint->t_sync(), T_INREL);
  provider->info.current_state = tpi::TS_WACK_DREQ11;
  EXPECT_EQ(error_of(endpoint->t_sync()), TSTATECHNG);
  // The provider has gone on alone.
  provider->info.current_state = tpi::TS_IDLE;
  EXPECT_EQ(endpoint->t_sync(), T_IDLE);
}

// A connectionless endpoint knows no such states.
TEST(ConnectionlessStates, AreTwo) {
  StreamSet set;
  for (const std::int32_t state : {tpi::TS_WCON_CREQ, tpi::TS_DATA_XFER, tpi::TS_WREQ_ORDREL}) {
    auto made = std::make_unique<Provider>();
    made->info.current_state = state;
    auto stream = std::move(*Stream::open(set, std::move(made)));
    ASSERT_TRUE(stream->push(std::make_unique<Timod>()));
    const auto opened = Endpoint::t_open(std::move(stream), nullptr);
    ASSERT_FALSE(opened);
    EXPECT_EQ(opened.error().t_errno, TSTATECHNG);
  }
}

}  // namespace
}  // namespace sluice::test
