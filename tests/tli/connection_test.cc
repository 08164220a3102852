// SPDX-License-Identifier: Apache-2.0

// Setting connections up and ending them: t_connect, t_rcvconnect, t_listen, t_accept, t_sndrel, t_rcvrel, t_snddis,
// t_rcvdis, and which event stands in the way of which call. Quotations are of the manual pages (3NSL) of illumos,
// which are X/Open's.

#include "tests/tli/connection_harness.h"

namespace sluice::test {
namespace {

using namespace tli;
using enum tpi::TliError;

using Connections = ConnectionTest;

t_call calling(std::string_view address, std::string_view options = {}, std::string_view data = {}) {
  return {.addr = in(address), .opt = in(options), .udata = in(data), .sequence = 0};
}

/// A t_call with buffers of these sizes.
struct Told {
  explicit Told(std::size_t address_size = 16, std::size_t options_size = 32, std::size_t data_size = 8)
      : address(address_size, '\0'), options(options_size, '\0'), data(data_size, '\0') {
    call = {.addr = out(address), .opt = out(options), .udata = out(data), .sequence = 0};
  }
  [[nodiscard]] std::string words() const {
    return std::string(text_of(call.addr)) + "/" + std::string(text_of(call.opt)) + "/" +
           std::string(text_of(call.udata));
  }
  std::string address;
  std::string options;
  std::string data;
  t_call call;
};

// ---- t_connect, t_rcvconnect ----

// "By default, t_connect() executes in synchronous mode, and will wait for the destination user's response before
// returning control to the local user."
TEST_F(Connections, ConnectWaits) {
  SimulatedWaiter waiter(set);
  bring_to(T_IDLE);
  endpoint->stream().set_waiter(&waiter);
  waiter.after(std::chrono::seconds(20), [&] { provider->confirms("responder", "hello"); });
  Told told;
  ASSERT_TRUE(endpoint->t_connect(calling("peer", "wish", "hi"), &told.call));
  EXPECT_EQ(provider->sent, std::vector<std::string>{"T_CONN_REQ to peer wish hi"});
  EXPECT_EQ(told.words(), "responder/option/hello");
  EXPECT_EQ(endpoint->t_getstate(), T_DATAXFER);
}

// "if O_NONBLOCK is set [...] the call will not wait for the remote user's response, but will return control
// immediately to the local user and return -1 with t_errno set to TNODATA". "[TNODATA] O_NONBLOCK was set, but a
// connection confirmation has not yet arrived."
TEST_F(Connections, ConnectInTheBackground) {
  SimulatedWaiter waiter(set);
  bring_to(T_IDLE);
  endpoint->stream().set_waiter(&waiter);
  endpoint->stream().set_nonblocking(true);
  EXPECT_EQ(error_of(endpoint->t_connect(calling("peer"), nullptr)), TNODATA);
  EXPECT_EQ(endpoint->t_getstate(), T_OUTCON);
  EXPECT_EQ(look(), 0);
  EXPECT_EQ(error_of(endpoint->t_rcvconnect(nullptr)), TNODATA);
  provider->confirms();
  EXPECT_EQ(look(), T_CONNECT);
  Told told;
  ASSERT_TRUE(endpoint->t_rcvconnect(&told.call));
  EXPECT_EQ(told.words(), "responder/option/");
  EXPECT_EQ(endpoint->t_getstate(), T_DATAXFER);
  EXPECT_EQ(look(), 0);
}

// Nobody listens: the state stays T_OUTCON, "allowing a further call to either t_rcvconnect(), t_rcvdis() or
// t_snddis()".
TEST_F(Connections, ConnectIsRefusedByThePeer) {
  SimulatedWaiter waiter(set);
  bring_to(T_IDLE);
  endpoint->stream().set_waiter(&waiter);
  waiter.after(std::chrono::seconds(1), [&] { provider->disconnects(ECONNREFUSED, "no"); });
  EXPECT_EQ(error_of(endpoint->t_connect(calling("peer"), nullptr)), TLOOK);
  EXPECT_EQ(endpoint->t_getstate(), T_OUTCON);
  EXPECT_EQ(look(), T_DISCONNECT);
  EXPECT_EQ(error_of(endpoint->t_rcvconnect(nullptr)), TLOOK);
  EXPECT_EQ(error_of(endpoint->t_snddis(nullptr)), TLOOK);
  std::string data(8, '\0');
  t_discon discon{.udata = out(data)};
  ASSERT_TRUE(endpoint->t_rcvdis(&discon));
  EXPECT_EQ(discon.reason, ECONNREFUSED);
  EXPECT_EQ(discon.sequence, -1);
  EXPECT_EQ(text_of(discon.udata), "no");
  EXPECT_EQ(endpoint->t_getstate(), T_IDLE);
  EXPECT_EQ(error_of(endpoint->t_rcvdis(nullptr)), TOUTSTATE);
}

TEST_F(Connections, ConnectIsRefusedByTheProvider) {
  bring_to(T_IDLE);
  for (const tpi::ErrorAck& refusal :
       {tpi::ErrorAck{tpi::T_CONN_REQ, TBADADDR, 0}, tpi::ErrorAck{tpi::T_CONN_REQ, TADDRBUSY, 0},
        tpi::ErrorAck{tpi::T_CONN_REQ, TSYSERR, EOPNOTSUPP}}) {
    provider->refusals[tpi::T_CONN_REQ] = refusal;
    const auto refused = endpoint->t_connect(calling("peer"), nullptr);
    EXPECT_EQ(error_of(refused), refusal.tli_error);
    EXPECT_EQ(system_error_of(refused), refusal.unix_error);
    EXPECT_EQ(endpoint->t_getstate(), T_IDLE);
  }
  provider->refusals.clear();
  EXPECT_EQ(error_of(endpoint->t_connect(calling("peer"), nullptr)), TNODATA);
}

// "[TBUFOVFLW] [...] If executed in synchronous mode, the provider's state, as seen by the user, changes to T_DATAXFER,
// and the information to be returned in rcvcall is discarded." "maxlen can be set to zero, in which case no information
// to this specific argument is given".
TEST_F(Connections, ConfirmationThatDoesNotFit) {
  for (const auto& [address, options, data, expected] :
       {std::tuple{4, 32, 8, int{TBUFOVFLW}}, std::tuple{16, 3, 8, int{TBUFOVFLW}},
        std::tuple{16, 32, 2, int{TBUFOVFLW}}, std::tuple{0, 0, 0, 0}}) {
    bring_to(T_OUTCON);
    provider->confirms("responder", "hello");
    Told told(static_cast<std::size_t>(address), static_cast<std::size_t>(options), static_cast<std::size_t>(data));
    EXPECT_EQ(error_of(endpoint->t_rcvconnect(&told.call)), expected);
    EXPECT_EQ(told.words(), "//");
    EXPECT_EQ(endpoint->t_getstate(), T_DATAXFER);
  }
}

// "[TBADDATA] The amount of user data specified was not within the bounds allowed by the transport provider."
TEST_F(Connections, UserDataHasABound) {
  const std::string much(9, 'x');
  bring_to(T_IDLE);
  EXPECT_EQ(error_of(endpoint->t_connect(calling("peer", "", much), nullptr)), TBADDATA);
  bring_to(T_INCON);
  t_call call = calling("", "", much);
  call.sequence = 1;
  EXPECT_EQ(error_of(endpoint->t_accept(*endpoint, call)), TBADDATA);
  EXPECT_EQ(error_of(endpoint->t_snddis(&call)), TBADDATA);
  EXPECT_TRUE(provider->sent.empty());
  for (const std::int32_t size : {tpi::T_INFINITE, tpi::T_INVALID}) {
    bring_to(T_DATAXFER, 0, [&](ConnectionProvider& at) { at.info.ddata_size = size; });
    EXPECT_EQ(error_of(endpoint->t_snddis(&call)), size == tpi::T_INFINITE ? 0 : TBADDATA);
  }
}

TEST_F(Connections, AddressesAndOptionsBeyondAnyProvider) {
  const std::string huge(2000, 'x');
  bring_to(T_IDLE);
  EXPECT_EQ(error_of(endpoint->t_connect(calling(huge), nullptr)), TBADADDR);
  EXPECT_EQ(error_of(endpoint->t_connect(calling("peer", huge), nullptr)), TBADOPT);
  bring_to(T_INCON);
  t_call call = calling("", huge);
  call.sequence = 1;
  EXPECT_EQ(error_of(endpoint->t_accept(*endpoint, call)), TBADOPT);
}

// A provider that never answers ends in a time-out, and its late answer harms nobody.
TEST_F(Connections, AnAcknowledgementThatDoesNotCome) {
  SimulatedWaiter waiter(set);
  bring_to(T_IDLE);
  endpoint->stream().set_waiter(&waiter);
  provider->silent_to = tpi::T_CONN_REQ;
  const auto given_up = endpoint->t_connect(calling("peer"), nullptr);
  EXPECT_EQ(error_of(given_up), TSYSERR);
  EXPECT_EQ(system_error_of(given_up), ETIME);
  EXPECT_EQ(endpoint->t_getstate(), T_IDLE);
  provider->up(tpi::OkAck{tpi::T_CONN_REQ}, {}, 0, MessageType::pcproto);
  EXPECT_EQ(look(), 0);
  provider->silent_to.reset();
  // Nor does the answer to something else that comes while this one is awaited.
  provider->on_request = [&](std::int32_t primitive) {
    if (primitive == tpi::T_CONN_REQ) {
      provider->up(tpi::ErrorAck{tpi::T_DISCON_REQ, TBADSEQ, 0}, {}, 0, MessageType::pcproto);
    }
  };
  waiter.after(std::chrono::seconds(1),
               [&] { provider->up(tpi::OkAck{tpi::T_CONN_REQ}, {}, 0, MessageType::pcproto); });
  endpoint->stream().set_nonblocking(true);
  EXPECT_EQ(error_of(endpoint->t_connect(calling("peer"), nullptr)), TNODATA);
  EXPECT_EQ(endpoint->t_getstate(), T_OUTCON);
}

TEST_F(Connections, AStreamThatEnds) {
  for (const bool hangup : {true, false}) {
    bring_to(T_OUTCON);
    Message end = Message::allocate(set.pool(), 1, 0, hangup ? MessageType::hangup : MessageType::error);
    if (!hangup) {
      *end.first().wptr++ = std::byte{EPROTO};
    }
    provider->on_request = {};
    endpoint->stream().head().rput(Batch(std::move(end)));
    const int expected = hangup ? ENXIO : EPROTO;
    for (const auto& outcome : {endpoint->t_rcvconnect(nullptr), endpoint->t_snddis(nullptr)}) {
      EXPECT_EQ(error_of(outcome), TSYSERR);
      EXPECT_EQ(system_error_of(outcome), expected);
    }
  }
}

// ---- t_listen, t_accept ----

TEST_F(Connections, ListenWaitsAndTellsOfTheCaller) {
  SimulatedWaiter waiter(set);
  tli::t_bind bind;
  bind.qlen = 2;
  ASSERT_TRUE(endpoint->t_bind(&bind, nullptr));
  Told told;
  EXPECT_EQ(error_of(endpoint->t_listen(told.call)), TNODATA);
  endpoint->stream().set_waiter(&waiter);
  waiter.after(std::chrono::seconds(100), [&] { provider->indicates(4711, "caller", "hello"); });
  ASSERT_TRUE(endpoint->t_listen(told.call));
  EXPECT_EQ(told.words(), "caller/option/hello");
  EXPECT_EQ(told.call.sequence, 4711);
  EXPECT_EQ(endpoint->t_getstate(), T_INCON);
}

// "[TBADQLEN] The argument qlen of the endpoint referenced by fd is zero." "[TQFULL] The maximum number of outstanding
// connection indications has been reached for the endpoint referenced by fd."
TEST_F(Connections, ListenAndTheQueue) {
  bring_to(T_IDLE, 0);
  t_call call;
  EXPECT_EQ(error_of(endpoint->t_listen(call)), TBADQLEN);
  SimulatedWaiter waiter(set);
  bring_to(T_INCON, 5);
  endpoint->stream().set_waiter(&waiter);
  EXPECT_EQ(error_of(endpoint->t_listen(call)), TQFULL) << "and nobody waits for what cannot come";
  EXPECT_EQ(waiter.waits, 0);
  provider->indicates(6);
  EXPECT_EQ(error_of(endpoint->t_listen(call)), TQFULL) << "of a provider that does not count";
  call.sequence = 3;
  ASSERT_TRUE(endpoint->t_snddis(&call));
  ASSERT_TRUE(endpoint->t_listen(call));
  EXPECT_EQ(call.sequence, 6);
  // A full queue hides no disconnection.
  bring_to(T_INCON, 5);
  provider->withdraws(2);
  EXPECT_EQ(error_of(endpoint->t_listen(call)), TLOOK);
}

// "The value of sequence returned can be used to do a t_snddis()."
TEST_F(Connections, IndicationThatDoesNotFit) {
  bring_to(T_INCON);
  provider->indicates(9, "a caller's long address");
  Told told;
  EXPECT_EQ(error_of(endpoint->t_listen(told.call)), TBUFOVFLW);
  EXPECT_EQ(told.words(), "//");
  EXPECT_EQ(told.call.sequence, 9);
  ASSERT_TRUE(endpoint->t_snddis(&told.call));
  EXPECT_EQ(endpoint->t_getstate(), T_INCON);
  EXPECT_EQ(provider->sent, std::vector<std::string>{"T_DISCON_REQ of 9 "});
}

TEST_F(Connections, AcceptNamesTheAcceptor) {
  for (const bool bound : {false, true}) {
    ConnectionProvider* beside = nullptr;
    const auto acceptor = make(beside, [](ConnectionProvider& at) { at.acceptor_id = 0xfeed; });
    bring_to(T_INCON);
    if (bound) {
      ASSERT_TRUE(acceptor->t_bind(nullptr, nullptr));
    }
    t_call call = calling("", "wish", "hi");
    call.sequence = 1;
    ASSERT_TRUE(endpoint->t_accept(*acceptor, call));
    EXPECT_EQ(provider->sent, std::vector<std::string>{"T_CONN_RES of 1 on 65261 wish hi"});
    EXPECT_EQ(acceptor->t_getstate(), T_DATAXFER);
    ASSERT_TRUE(acceptor->t_snd(as_bytes("data"), 0));
    EXPECT_EQ(beside->sent, std::vector<std::string>{"T_DATA_REQ data"});
  }
  bring_to(T_INCON);
  t_call call;
  call.sequence = 1;
  ASSERT_TRUE(endpoint->t_accept(*endpoint, call));
  EXPECT_EQ(provider->sent, std::vector<std::string>{"T_CONN_RES of 1 on 7  "});
}

// "[TRESQLEN] The endpoint referenced by resfd (where resfd != fd) was bound to a protocol address with a qlen that is
// greater than zero." "[TPROVMISMATCH] The file descriptors fd and resfd do not refer to the same transport provider."
TEST_F(Connections, AcceptorsThatAreNone) {
  ConnectionProvider* beside = nullptr;
  t_call call;
  call.sequence = 1;
  bring_to(T_INCON);
  tli::t_bind listening;
  listening.qlen = 1;
  const auto listener = make(beside);
  ASSERT_TRUE(listener->t_bind(&listening, nullptr));
  EXPECT_EQ(error_of(endpoint->t_accept(*listener, call)), TRESQLEN);
  ASSERT_TRUE(listener->t_unbind());

  const auto unordered = make(beside, [](ConnectionProvider& at) { at.info.serv_type = tpi::T_COTS; });
  EXPECT_EQ(error_of(endpoint->t_accept(*unordered, call)), TPROVMISMATCH);
  const auto nameless = make(beside, [](ConnectionProvider& at) { at.capabilities = tpi::TC1_INFO; });
  EXPECT_EQ(error_of(endpoint->t_accept(*nameless, call)), TNOTSUPPORT);

  StreamSet other_set;
  auto stream = std::move(*Stream::open(other_set, std::make_unique<ConnectionProvider>()));
  ASSERT_TRUE(stream->push(std::make_unique<Timod>()));
  const auto stranger = Endpoint::t_open(std::move(stream), nullptr);
  ASSERT_TRUE(stranger);
  EXPECT_EQ(error_of(endpoint->t_accept(**stranger, call)), TBADF);

  EXPECT_TRUE(provider->sent.empty());
  EXPECT_EQ(endpoint->t_getstate(), T_INCON);
  EXPECT_TRUE(endpoint->t_accept(*listener, call)) << "unbound, it accepts";
}

// "[TBADSEQ] Either an invalid sequence number was specified, or a valid sequence number was specified but the
// connection request was aborted by the peer."
TEST_F(Connections, AcceptAndRejectOfWhatIsNotOutstanding) {
  bring_to(T_INCON);
  provider->refusals[tpi::T_CONN_RES] = {tpi::T_CONN_RES, TBADSEQ, 0};
  provider->refusals[tpi::T_DISCON_REQ] = {tpi::T_DISCON_REQ, TBADSEQ, 0};
  ConnectionProvider* beside = nullptr;
  const auto other = make(beside);
  t_call call;
  call.sequence = 99;
  EXPECT_EQ(error_of(endpoint->t_accept(*other, call)), TBADSEQ);
  EXPECT_EQ(other->t_getstate(), T_UNBND);
  EXPECT_EQ(error_of(endpoint->t_snddis(&call)), TBADSEQ);
  EXPECT_EQ(error_of(endpoint->t_snddis(nullptr)), TBADSEQ);
  EXPECT_EQ(endpoint->t_getstate(), T_INCON);
}

// ---- The end ----

TEST_F(Connections, DisconnectDropsWhatHadCome) {
  bring_to(T_DATAXFER);
  provider->sends("0123456789");
  EXPECT_EQ(receive(4), "0123 T_MORE");
  ASSERT_TRUE(endpoint->t_snddis(nullptr));
  EXPECT_EQ(provider->sent, std::vector<std::string>{"T_DISCON_REQ of -1 "});
  EXPECT_EQ(endpoint->t_getstate(), T_IDLE);
  EXPECT_EQ(look(), 0);
  // A rejection is about one of several, and touches nothing else.
  bring_to(T_INCON, 1);
  provider->indicates(2);
  EXPECT_EQ(look(), T_LISTEN);
  t_call call;
  call.sequence = 1;
  ASSERT_TRUE(endpoint->t_snddis(&call));
  EXPECT_EQ(endpoint->t_getstate(), T_IDLE);
  EXPECT_TRUE(endpoint->t_listen(call));
}

// "data not yet received [may] be lost": what this library holds goes with what waited on queues.
TEST_F(Connections, ThePeersDisconnectionOvertakes) {
  bring_to(T_DATAXFER);
  provider->sends("0123456789");
  provider->sends("more");
  EXPECT_EQ(receive(4), "0123 T_MORE");
  provider->disconnects(ECONNRESET);
  EXPECT_EQ(look(), T_DISCONNECT);
  EXPECT_EQ(receive(4), error(TLOOK));
  EXPECT_EQ(error_of(endpoint->t_snd(as_bytes("x"), 0)), TLOOK);
  t_discon discon;
  ASSERT_TRUE(endpoint->t_rcvdis(&discon));
  EXPECT_EQ(discon.reason, ECONNRESET);
  EXPECT_EQ(endpoint->t_getstate(), T_IDLE);
  EXPECT_EQ(look(), 0);
  EXPECT_EQ(set.pool().statistics().buffers_in_use, 0U);
}

// One of an indication that waits stays behind it.
TEST_F(Connections, AWithdrawalKeepsItsPlace) {
  bring_to(T_INCON, 1);
  provider->indicates(2);
  provider->withdraws(2);
  provider->withdraws(1);
  EXPECT_EQ(look(), T_LISTEN);
  t_call call;
  ASSERT_TRUE(endpoint->t_listen(call));
  EXPECT_EQ(look(), T_DISCONNECT);
  t_discon discon;
  ASSERT_TRUE(endpoint->t_rcvdis(&discon));
  EXPECT_EQ(discon.sequence, 2);
  EXPECT_EQ(endpoint->t_getstate(), T_INCON);
  ASSERT_TRUE(endpoint->t_rcvdis(&discon));
  EXPECT_EQ(discon.sequence, 1);
  EXPECT_EQ(endpoint->t_getstate(), T_IDLE);
}

// "[TBUFOVFLW] The number of bytes allocated for incoming data (maxlen) is greater than 0 but not sufficient to store
// the data. If fd is a passive endpoint with ocnt > 1, it remains in state T_INCON; otherwise, the endpoint state is
// set to T_IDLE."
TEST_F(Connections, DisconnectionThatDoesNotFit) {
  bring_to(T_DATAXFER);
  provider->disconnects(ECONNRESET, "farewell");
  std::string little(3, '\0');
  t_discon discon{.udata = out(little)};
  EXPECT_EQ(error_of(endpoint->t_rcvdis(&discon)), TBUFOVFLW);
  EXPECT_EQ(discon.udata.len, 0U);
  EXPECT_EQ(discon.reason, ECONNRESET);
  EXPECT_EQ(endpoint->t_getstate(), T_IDLE);
  bring_to(T_DATAXFER);
  provider->disconnects(ECONNRESET, "farewell");
  t_discon nothing;
  EXPECT_TRUE(endpoint->t_rcvdis(&nothing)) << "the maxlen field may be 0";
}

// "[TNODIS] No disconnection indication currently exists on the specified transport endpoint." "[TNOREL] No orderly
// release indication currently exists on the specified transport endpoint."
TEST_F(Connections, WhatHasNotCome) {
  bring_to(T_DATAXFER);
  EXPECT_EQ(error_of(endpoint->t_rcvdis(nullptr)), TNODIS);
  EXPECT_EQ(error_of(endpoint->t_rcvrel()), TNOREL);
  provider->sends("data");
  provider->releases();
  EXPECT_EQ(error_of(endpoint->t_rcvdis(nullptr)), TNODIS);
  EXPECT_EQ(error_of(endpoint->t_rcvrel()), TNOREL) << "the data comes first";
  EXPECT_EQ(receive(4), "data");
  EXPECT_EQ(error_of(endpoint->t_rcvdis(nullptr)), TNODIS);
  EXPECT_TRUE(endpoint->t_rcvrel());
}

// "After receipt of this indication, the user may not attempt to receive more data [...] However, the user may continue
// to send data over the connection if t_sndrel() has not been called by the user."
TEST_F(Connections, AReleaseOfEachSide) {
  bring_to(T_DATAXFER);
  provider->releases();
  EXPECT_EQ(look(), T_ORDREL);
  EXPECT_EQ(receive(4), error(TLOOK));
  EXPECT_TRUE(endpoint->t_snd(as_bytes("before"), 0)) << "a release hinders nobody from sending";
  ASSERT_TRUE(endpoint->t_rcvrel());
  EXPECT_EQ(receive(4), error(TOUTSTATE));
  EXPECT_TRUE(endpoint->t_snd(as_bytes("after"), 0));
  ASSERT_TRUE(endpoint->t_sndrel());
  EXPECT_EQ(provider->sent, (std::vector<std::string>{"T_DATA_REQ before", "T_DATA_REQ after", "T_ORDREL_REQ"}));
  EXPECT_EQ(endpoint->t_getstate(), T_IDLE);
  EXPECT_EQ(error_of(endpoint->t_snd(as_bytes("x"), 0)), TOUTSTATE);
}

// "For transport providers of types other than T_COTS_ORD, this function fails with error TNOTSUPPORT."
TEST_F(Connections, WithoutOrderlyRelease) {
  bring_to(T_DATAXFER, 0, [](ConnectionProvider& at) { at.info.serv_type = tpi::T_COTS; });
  EXPECT_EQ(error_of(endpoint->t_sndrel()), TNOTSUPPORT);
  EXPECT_EQ(error_of(endpoint->t_rcvrel()), TNOTSUPPORT);
  EXPECT_TRUE(endpoint->t_snddis(nullptr));
}

// "[TFLOW] O_NONBLOCK was set, but the flow control mechanism prevented the transport provider from accepting the
// function at this time."
TEST_F(Connections, AReleaseWaitsForItsTurn) {
  bring_to(T_DATAXFER);
  provider->stalled = true;
  ASSERT_TRUE(endpoint->t_snd(as_bytes("data"), 0));
  EXPECT_EQ(error_of(endpoint->t_sndrel()), TFLOW);
  EXPECT_EQ(endpoint->t_getstate(), T_DATAXFER);
  EXPECT_EQ(look(), 0);
  provider->resume();
  set.scheduler().poll(TimePoint{});
  EXPECT_EQ(look(), T_GODATA);
  EXPECT_EQ(look(), 0);
  EXPECT_TRUE(endpoint->t_sndrel());
}

// ---- Events ----

struct Hindrance {
  std::string_view event;
  State state;
  std::function<void(ConnectionProvider&)> happens;
  std::function<int(Endpoint&, Endpoint& other)> call;
  int expected;
};

// "Events and TLOOK Error Indication" of XPG4.2, as z/OS' t_look() has it: t_accept(): T_DISCONNECT, T_LISTEN.
// t_connect(): T_DISCONNECT, T_LISTEN, "only when a t_connect is done on an endpoint which has been bound with a qlen >
// 0 and for which a connect indication is pending". t_listen(), t_rcvconnect(), t_snd(), t_snddis(): T_DISCONNECT.
// t_rcv(): T_DISCONNECT. t_unbind(): T_LISTEN. Of t_accept() XNS 5.2 says that it "may fail".
TEST_F(Connections, WhichEventHindersWhichCall) {
  const auto gone = [](ConnectionProvider& at) { at.disconnects(ECONNRESET); };
  const auto caller_gone = [](ConnectionProvider& at) { at.withdraws(1); };
  const auto comes = [](ConnectionProvider& at) { at.indicates(2); };
  const auto released = [](ConnectionProvider& at) { at.releases(); };
  const auto data = [](ConnectionProvider& at) { at.sends("data"); };
  const auto connect = [](Endpoint& at, Endpoint&) { return error_of(at.t_connect(calling("peer"), nullptr)); };
  const auto rcvconnect = [](Endpoint& at, Endpoint&) { return error_of(at.t_rcvconnect(nullptr)); };
  const auto listen = [](Endpoint& at, Endpoint&) {
    t_call call;
    return error_of(at.t_listen(call));
  };
  t_call first;
  first.sequence = 1;
  const auto accept_here = [=](Endpoint& at, Endpoint&) { return error_of(at.t_accept(at, first)); };
  const auto accept_there = [=](Endpoint& at, Endpoint& other) { return error_of(at.t_accept(other, first)); };
  const auto reject = [=](Endpoint& at, Endpoint&) { return error_of(at.t_snddis(&first)); };
  const auto snd = [](Endpoint& at, Endpoint&) { return error_of(at.t_snd(as_bytes("x"), 0)); };
  const auto rcv = [](Endpoint& at, Endpoint&) {
    std::array<std::byte, 4> bytes{};
    int flags = 0;
    return error_of(at.t_rcv(bytes, flags));
  };
  const auto sndrel = [](Endpoint& at, Endpoint&) { return error_of(at.t_sndrel()); };
  const auto rcvrel = [](Endpoint& at, Endpoint&) { return error_of(at.t_rcvrel()); };
  const auto snddis = [](Endpoint& at, Endpoint&) { return error_of(at.t_snddis(nullptr)); };
  const auto unbind = [](Endpoint& at, Endpoint&) { return error_of(at.t_unbind()); };
  const std::vector<Hindrance> cases{
      {"T_DISCONNECT, t_rcvconnect", T_OUTCON, gone, rcvconnect, TLOOK},
      {"T_DISCONNECT, t_snddis", T_OUTCON, gone, snddis, TLOOK},
      {"T_DISCONNECT, t_snd", T_DATAXFER, gone, snd, TLOOK},
      {"T_DISCONNECT, t_rcv", T_DATAXFER, gone, rcv, TLOOK},
      {"T_DISCONNECT, t_sndrel", T_DATAXFER, gone, sndrel, TLOOK},
      {"T_DISCONNECT, t_rcvrel", T_DATAXFER, gone, rcvrel, TLOOK},
      {"T_DISCONNECT, t_snddis connected", T_DATAXFER, gone, snddis, TLOOK},
      {"T_DISCONNECT, t_rcv released", T_OUTREL, gone, rcv, TLOOK},
      {"T_DISCONNECT, t_snd released", T_INREL, gone, snd, TLOOK},
      {"T_DISCONNECT, t_listen", T_INCON, caller_gone, listen, TLOOK},
      {"T_DISCONNECT, t_accept", T_INCON, caller_gone, accept_here, TLOOK},
      {"T_DISCONNECT, t_accept elsewhere", T_INCON, caller_gone, accept_there, TLOOK},
      {"T_DISCONNECT, t_snddis of it", T_INCON, caller_gone, reject, TLOOK},
      {"T_LISTEN, t_connect", T_IDLE, comes, connect, TLOOK},
      {"T_LISTEN, t_unbind", T_IDLE, comes, unbind, TLOOK},
      {"T_LISTEN, t_accept", T_INCON, comes, accept_here, TLOOK},
      {"T_LISTEN, t_accept elsewhere", T_INCON, comes, accept_there, 0},
      {"T_LISTEN, t_snddis", T_INCON, comes, reject, 0},
      {"T_ORDREL, t_rcv", T_DATAXFER, released, rcv, TLOOK},
      {"T_ORDREL, t_snd", T_DATAXFER, released, snd, 0},
      {"T_ORDREL, t_sndrel", T_DATAXFER, released, sndrel, 0},
      {"T_ORDREL, t_snddis", T_DATAXFER, released, snddis, 0},
      {"T_DATA, t_snd", T_DATAXFER, data, snd, 0},
      {"T_DATA, t_sndrel", T_DATAXFER, data, sndrel, 0},
      {"T_DATA, t_rcvrel", T_DATAXFER, data, rcvrel, TNOREL},
  };
  for (const Hindrance& one : cases) {
    SCOPED_TRACE(one.event);
    ASSERT_NO_FATAL_FAILURE(bring_to(one.state));
    ConnectionProvider* beside = nullptr;
    const auto other = make(beside);
    one.happens(*provider);
    const std::uint16_t event = look();
    EXPECT_NE(event, 0);
    EXPECT_EQ(one.call(*endpoint, *other), one.expected);
    if (one.expected != 0) {
      // "Once a TLOOK error has been received [...] subsequent calls [...] will continue to return TLOOK until the
      // event is consumed", in the sense of XNS.
      EXPECT_EQ(look(), event);
      EXPECT_EQ(one.call(*endpoint, *other), one.expected);
      EXPECT_EQ(endpoint->t_getstate(), one.state);
    }
  }
}

// What is nothing that TPI knows is told once, and goes.
TEST_F(Connections, AStrangeIndication) {
  bring_to(T_DATAXFER);
  provider->up(tpi::UderrorInd{}, {});
  EXPECT_EQ(error_of(endpoint->t_look()), TPROTO);
  EXPECT_EQ(look(), 0);
  provider->up(tpi::UderrorInd{}, {});
  EXPECT_EQ(receive(4), error(TPROTO));
  EXPECT_EQ(receive(4), error(TNODATA));
  bring_to(T_OUTCON);
  const std::int32_t number = tpi::T_CONN_CON;
  Message cut = Message::copy_of(set.pool(), std::as_bytes(std::span(&number, 1)), 0, MessageType::proto);
  endpoint->stream().head().rput(Batch(std::move(cut)));
  EXPECT_EQ(error_of(endpoint->t_rcvconnect(nullptr)), TPROTO);
}

// ---- Addresses ----

TEST_F(Connections, AddressesOfBothEnds) {
  std::string bound(16, '\0');
  std::string peer(16, '\0');
  const auto ask = [&]() -> std::string {
    tli::t_bind boundaddr{out(bound), 0};
    tli::t_bind peeraddr{out(peer), 0};
    EXPECT_TRUE(endpoint->t_getprotaddr(&boundaddr, &peeraddr));
    return std::string(text_of(boundaddr.addr)) + "/" + std::string(text_of(peeraddr.addr));
  };
  const auto prepare = [](ConnectionProvider& at) { at.peer = "peer"; };
  for (const auto& [state, expected] :
       {std::pair{T_UNBND, "/"}, std::pair{T_IDLE, "bound/"}, std::pair{T_OUTCON, "bound/"},
        std::pair{T_INCON, "bound/"}, std::pair{T_DATAXFER, "bound/peer"}, std::pair{T_OUTREL, "bound/peer"},
        std::pair{T_INREL, "bound/peer"}}) {
    bring_to(state, 1, prepare);
    EXPECT_EQ(ask(), expected) << int{state};
  }
  std::string little(2, '\0');
  tli::t_bind small{out(little), 0};
  EXPECT_EQ(error_of(endpoint->t_getprotaddr(nullptr, &small)), TBUFOVFLW);
  EXPECT_TRUE(endpoint->t_getprotaddr(nullptr, nullptr));
}

// ---- t_alloc ----

// "T_UDATA The udata field of the t_call, t_discon or t_unitdata structures." "[TNOSTRUCTYPE] [...] a structure type
// which is inconsistent with the transport provider type specified, that is, connection-mode or connectionless-mode."
TEST_F(Connections, AllocatedStructures) {
  bring_to(T_OUTCON);
  const auto call = t_alloc<t_call>(info, T_ALL);
  ASSERT_TRUE(call);
  EXPECT_EQ((*call)->value.addr.maxlen, 16U);
  EXPECT_EQ((*call)->value.opt.maxlen, 32U);
  EXPECT_EQ((*call)->value.udata.maxlen, 8U);
  provider->confirms("responder", "hello");
  ASSERT_TRUE(endpoint->t_rcvconnect(&(*call)->value));
  EXPECT_EQ(text_of((*call)->value.addr), "responder");
  EXPECT_EQ(text_of((*call)->value.udata), "hello");
  info.connect = 20;
  EXPECT_EQ((*t_alloc<t_call>(info, T_UDATA))->value.udata.maxlen, 20U);
  EXPECT_EQ((*t_alloc<t_discon>(info, T_UDATA))->value.udata.maxlen, 8U);
  info.discon = tpi::T_INVALID;
  EXPECT_EQ((*t_alloc<t_discon>(info, T_ALL))->value.udata.maxlen, 0U);
  EXPECT_EQ(error_of(t_alloc<t_discon>(info, T_UDATA)), TSYSERR);
  EXPECT_TRUE(t_alloc<t_info>(info, T_ALL));
  EXPECT_TRUE(t_alloc<tli::t_bind>(info, T_ALL));
  EXPECT_EQ(error_of(t_alloc<t_unitdata>(info, T_ADDR)), TNOSTRUCTYPE);
  EXPECT_EQ(error_of(t_alloc<t_uderr>(info, T_ADDR)), TNOSTRUCTYPE);
  info.servtype = tpi::T_CLTS;
  EXPECT_EQ(error_of(t_alloc<t_call>(info, T_ADDR)), TNOSTRUCTYPE);
  EXPECT_EQ(error_of(t_alloc<t_discon>(info, 0)), TNOSTRUCTYPE);
  EXPECT_TRUE(t_alloc<t_uderr>(info, T_ADDR));
}

}  // namespace
}  // namespace sluice::test
