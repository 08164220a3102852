// SPDX-License-Identifier: Apache-2.0

// Local management: t_open, t_close, t_bind, t_unbind, t_optmgmt, t_getinfo, t_getstate, t_sync, t_getprotaddr,
// t_alloc, t_error, t_strerror. Quotations are of the manual pages (3NSL) of illumos, which are X/Open's.

#include <unistd.h>

#include <algorithm>
#include <climits>
#include <set>

#include "tests/tli/harness.h"

namespace sluice::test {
namespace {

using namespace tli;
using enum tpi::TliError;

using Management = EndpointTest;

// ---- t_open, t_close ----

TEST_F(Management, OpenTellsAboutTheProvider) {
  open([](Provider& at) {
    at.info = {.tsdu_size = 1,
               .etsdu_size = 2,
               .cdata_size = 3,
               .ddata_size = 4,
               .addr_size = 5,
               .opt_size = 6,
               .tidu_size = 7,
               .serv_type = tpi::T_CLTS,
               .current_state = tpi::TS_UNBND,
               .provider_flag = tpi::SENDZERO};
  });
  EXPECT_EQ((std::array{info.tsdu, info.etsdu, info.connect, info.discon, info.addr, info.options, info.servtype,
                        info.flags}),
            (std::array{1, 2, 3, 4, 5, 6, static_cast<int>(tpi::T_CLTS), T_SENDZERO}));
  EXPECT_EQ(endpoint->info().tsdu, 1);
  EXPECT_EQ(endpoint->t_getstate(), T_UNBND);
  // "If info is set to the null pointer by the transport user, no protocol information is returned"
  EXPECT_TRUE(Endpoint::t_open(stream(), nullptr));
}

// "TBADNAME Invalid name for transport provider": a stream without timod on top is none.
TEST_F(Management, OpenNeedsTimod) {
  auto bare = std::move(*Stream::open(set, std::make_unique<Provider>()));
  EXPECT_EQ(error_of(Endpoint::t_open(std::move(bare), nullptr)), TBADNAME);
}

TEST_F(Management, OpenOfAProviderThatDoesNotAnswer) {
  auto silent = stream();
  provider->silent = true;
  const auto opened = Endpoint::t_open(std::move(silent), nullptr);
  EXPECT_EQ(error_of(opened), TSYSERR);
  EXPECT_EQ(system_error_of(opened), ETIME);
  auto malformed = stream();
  provider->malformed = true;
  EXPECT_EQ(error_of(Endpoint::t_open(std::move(malformed), nullptr)), TPROTO);
}

// Whoever closes waits for what is still to be sent, as long as a stream's close time allows.
TEST_F(Management, CloseLetsDataLeave) {
  SimulatedWaiter waiter(set);
  open_bound();
  wait_with(waiter);
  provider->stalled = true;
  ASSERT_TRUE(send("last words"));
  bool left = false;
  waiter.after(std::chrono::seconds(2), [&] {
    provider->resume();
    set.scheduler().poll(waiter.now() + std::chrono::seconds(2));
    left = provider->sent.size() == 1;
  });
  EXPECT_TRUE(endpoint->t_close());
  EXPECT_TRUE(left);
  EXPECT_EQ(endpoint->t_getstate(), T_UNINIT);
  EXPECT_EQ(error_of(endpoint->t_close()), TOUTSTATE);
  endpoint.reset();
  EXPECT_EQ(set.pool().statistics().buffers_in_use, 0U);
}

// ---- t_bind, t_unbind ----

// "On return, ret contains an encoding for the address that the transport provider actually bound to the transport
// endpoint; if an address was specified in req, this will be an encoding of the same address."
TEST_F(Management, BindToAnAddress) {
  std::string address(16, '\0');
  tli::t_bind req{in("mine"), 3};
  tli::t_bind ret{out(address), 0};
  ASSERT_TRUE(endpoint->t_bind(&req, &ret));
  EXPECT_EQ(text_of(ret.addr), "mine");
  // "On return, the qlen field in ret will contain the negotiated value."
  EXPECT_EQ(provider->queue_length_asked, 3U);
  EXPECT_EQ(ret.qlen, 7U);
  EXPECT_EQ(endpoint->t_getstate(), T_IDLE);
}

// "If no address is specified in req (the len field of addr in req is zero or req is NULL), the transport provider will
// assign an appropriate address to be bound, and will return that address in the addr field of ret." With a null req
// "the value of qlen is assumed to be zero".
TEST_F(Management, BindToAnyAddress) {
  std::string address(16, '\0');
  tli::t_bind ret{out(address), 0};
  ASSERT_TRUE(endpoint->t_bind(nullptr, &ret));
  EXPECT_EQ(text_of(ret.addr), "chosen");
  EXPECT_EQ(provider->queue_length_asked, 0U);
  open();
  tli::t_bind empty;
  ASSERT_TRUE(endpoint->t_bind(&empty, &ret));
  EXPECT_EQ(text_of(ret.addr), "chosen");
  open();
  // "It is valid to set req and ret to the null pointer for the same call".
  EXPECT_TRUE(endpoint->t_bind(nullptr, nullptr));
}

// TADDRBUSY, TBADADDR, TNOADDR, TACCES, TSYSERR come from the provider, in timod's return value.
TEST_F(Management, BindRefused) {
  for (const auto& [address, expected, system_error] :
       {std::tuple("busy", TADDRBUSY, 0), std::tuple("bad", TBADADDR, 0), std::tuple("none left", TNOADDR, 0),
        std::tuple("root's", TACCES, 0), std::tuple("broken", TSYSERR, EIO)}) {
    tli::t_bind req{in(address), 0};
    const Outcome<> outcome = endpoint->t_bind(&req, nullptr);
    EXPECT_EQ(error_of(outcome), expected) << address;
    EXPECT_EQ(system_error_of(outcome), system_error) << address;
    EXPECT_EQ(endpoint->t_getstate(), T_UNBND);
  }
  const std::string large(2000, 'x');
  tli::t_bind req{in(large), 0};
  EXPECT_EQ(error_of(endpoint->t_bind(&req, nullptr)), TBADADDR);
}

// "TBUFOVFLW The number of bytes allowed for an incoming argument (maxlen) is greater than 0 but not sufficient to
// store the value of that argument. The provider's state will change to T_IDLE and the information to be returned in
// ret will be discarded."
TEST_F(Management, BoundAddressDoesNotFit) {
  std::string address(3, '\0');
  tli::t_bind ret{out(address), 0};
  EXPECT_EQ(error_of(endpoint->t_bind(nullptr, &ret)), TBUFOVFLW);
  EXPECT_EQ(ret.addr.len, 0U);
  EXPECT_EQ(endpoint->t_getstate(), T_IDLE);
  open();
  // "If maxlen equals zero, no address is returned."
  tli::t_bind nothing;
  EXPECT_TRUE(endpoint->t_bind(nullptr, &nothing));
  EXPECT_EQ(nothing.addr.len, 0U);
}

// "On completion of this call, no further data or events destined for this transport endpoint will be accepted by the
// transport provider. An endpoint which is disabled by using t_unbind() can be enabled by a subsequent call to
// t_bind(3NSL)."
TEST_F(Management, Unbind) {
  open_bound();
  provider->arrives("peer", "", {"part of it"});
  EXPECT_EQ(receive(10), "peer/: part of it");
  ASSERT_TRUE(endpoint->t_unbind());
  EXPECT_EQ(endpoint->t_getstate(), T_UNBND);
  EXPECT_EQ(look(), 0);
  ASSERT_TRUE(endpoint->t_bind(nullptr, nullptr));
  provider->arrives("peer", "", {"new"});
  EXPECT_EQ(receive(10), "peer/: new");
}

// "[TLOOK] An asynchronous event has occurred on this transport endpoint": in connectionless mode, data (XNS 5.2,
// "Events and TLOOK Error Indication"). The program receives what waits, the rest of a data unit too, and calls again.
TEST_F(Management, UnbindWhileDataWaits) {
  open_bound();
  provider->arrives("peer", "", {"part of it"});
  provider->arrives("peer", "", {"more"});
  EXPECT_EQ(error_of(endpoint->t_unbind()), TLOOK);
  EXPECT_EQ(look(), T_DATA);
  EXPECT_EQ(receive(8), "peer/: part of  T_MORE");
  EXPECT_EQ(error_of(endpoint->t_unbind()), TLOOK) << "the rest of it waits";
  EXPECT_EQ(receive(8), "/: it");
  EXPECT_EQ(error_of(endpoint->t_unbind()), TLOOK);
  EXPECT_EQ(receive(8), "peer/: more");
  EXPECT_EQ(endpoint->t_getstate(), T_IDLE);
  ASSERT_TRUE(endpoint->t_unbind());
  EXPECT_EQ(endpoint->t_getstate(), T_UNBND);
}

// "no further data or events destined for this transport endpoint will be accepted" (t_unbind()): what comes while the
// provider unbinds is not the next binding's.
TEST_F(Management, WhatComesDuringUnbindIsNotTheNextBindings) {
  open_bound();
  provider->before_unbound = [&] {
    provider->arrives("peer", "", {"late"});
    provider->fails("peer", "", ECONNREFUSED);
  };
  ASSERT_TRUE(endpoint->t_unbind());
  EXPECT_EQ(look(), 0);
  ASSERT_TRUE(endpoint->t_bind(nullptr, nullptr));
  provider->arrives("peer", "", {"new"});
  EXPECT_EQ(receive(10), "peer/: new");
}

// ---- t_sysconf ----

// "If name is valid, t_sysconf() returns the value of the requested limit/option". "[TBADFLAG] name has an invalid
// value." (t_sysconf(), XNS 5.2) It holds in every state: there need be no endpoint. What it tells is what the vector
// calls enforce (SendVector, ReceiveVector).
TEST(Sysconf, KnowsTheLimitOfVectors) {
  EXPECT_EQ(t_sysconf(_SC_T_IOV_MAX).value_or(0), 16);
  EXPECT_EQ(t_sysconf(_SC_T_IOV_MAX).value_or(0), static_cast<long>(T_IOV_MAX));
  for (const int name : {-1, 0, int{_SC_PAGESIZE}, int{_SC_T_IOV_MAX} + 1}) {
    const auto value = t_sysconf(name);
    ASSERT_FALSE(value) << name;
    EXPECT_EQ(value.error(), (Failure{TBADFLAG, 0})) << name;
  }
}

// ---- t_optmgmt ----

TEST_F(Management, Options) {
  std::string options(16, '\0');
  tli::t_optmgmt ret{out(options), 0};
  ASSERT_TRUE(endpoint->t_optmgmt({in("option"), tpi::T_NEGOTIATE}, ret));
  EXPECT_EQ(text_of(ret.opt), "option");
  EXPECT_EQ(ret.flags, tpi::T_SUCCESS);
  EXPECT_EQ(provider->management_flags_asked, tpi::T_NEGOTIATE);
  // "TBADOPT The specified options were in an incorrect format or contained illegal information."
  EXPECT_EQ(error_of(endpoint->t_optmgmt({in("bad"), tpi::T_NEGOTIATE}, ret)), TBADOPT);
  const std::string large(2000, 'x');
  EXPECT_EQ(error_of(endpoint->t_optmgmt({in(large), tpi::T_NEGOTIATE}, ret)), TBADOPT);
  // "TBUFOVFLW [...] The information to be returned in ret will be discarded."
  std::string little(3, '\0');
  tli::t_optmgmt small{out(little), 0};
  EXPECT_EQ(error_of(endpoint->t_optmgmt({in("option"), tpi::T_NEGOTIATE}, small)), TBUFOVFLW);
  EXPECT_EQ(small.opt.len, 0U);
}

// ---- t_getinfo, t_sync ----

// "This function returns the current characteristics of the underlying transport protocol": they may have changed.
TEST_F(Management, InfoIsCurrent) {
  EXPECT_EQ(info.tsdu, 100);
  provider->info.tsdu_size = 50;
  ASSERT_TRUE(endpoint->t_getinfo(info));
  EXPECT_EQ(info.tsdu, 50);
  ASSERT_TRUE(endpoint->t_bind(nullptr, nullptr));
  EXPECT_EQ(error_of(send(std::string(51, 'x'))), TBADDATA);
  EXPECT_TRUE(send(std::string(50, 'x')));
}

// t_sync(): "synchronizes the data structures managed by the transport library with information from the underlying
// transport provider. [...] On successful completion, the state of the transport endpoint is returned." "TSTATECHNG The
// transport endpoint is undergoing a state change."
TEST_F(Management, Sync) {
  EXPECT_EQ(endpoint->t_sync().value_or(T_UNINIT), T_UNBND);
  provider->info.current_state = tpi::TS_IDLE;
  EXPECT_EQ(endpoint->t_getstate(), T_UNBND);
  EXPECT_EQ(endpoint->t_sync().value_or(T_UNINIT), T_IDLE);
  EXPECT_EQ(endpoint->t_getstate(), T_IDLE);
  provider->info.current_state = tpi::TS_WACK_UREQ;
  EXPECT_EQ(error_of(endpoint->t_sync()), TSTATECHNG);
  EXPECT_EQ(endpoint->t_getstate(), T_IDLE);
}

// Every call that asks the provider tells when there is no answer, or none that can be understood.
TEST_F(Management, ProviderThatDoesNotAnswer) {
  std::string buffer(64, '\0');
  tli::t_optmgmt managed{out(buffer), 0};
  const auto calls = [&] {
    return std::array{error_of(endpoint->t_getinfo(info)), error_of(endpoint->t_sync()),
                      error_of(endpoint->t_optmgmt({in("option"), 0}, managed))};
  };
  provider->silent = true;
  EXPECT_EQ(calls(), (std::array<int, 3>{TSYSERR, TSYSERR, TSYSERR}));
  EXPECT_EQ(error_of(endpoint->t_bind(nullptr, nullptr)), TSYSERR);
  provider->silent = false;
  provider->malformed = true;
  EXPECT_EQ(calls(), (std::array<int, 3>{TPROTO, TPROTO, TPROTO}));
}

// A provider that failed to answer once does not keep the endpoint from its next request.
TEST_F(Management, ProviderThatDoesNotAnswerOnce) {
  provider->silent = true;
  const auto sync = endpoint->t_sync();
  EXPECT_EQ(error_of(sync), TSYSERR);
  EXPECT_EQ(system_error_of(sync), ETIME);
  provider->silent = false;
  EXPECT_TRUE(endpoint->t_sync());
  EXPECT_TRUE(endpoint->t_bind(nullptr, nullptr));
}

// ---- t_getprotaddr ----

// "returns local and remote protocol addresses currently associated with the transport endpoint". "If the transport
// endpoint is in the T_UNBND state, zero is returned in the len field of boundaddr. [...] If the transport endpoint is
// not in the T_DATAXFER [...] states, zero is returned in the len field of peeraddr."
TEST_F(Management, ProtocolAddresses) {
  std::string mine(16, '\0');
  std::string others(16, '\0');
  tli::t_bind bound{out(mine), 0};
  tli::t_bind peer{out(others), 0};
  bound.addr.len = peer.addr.len = 5;
  ASSERT_TRUE(endpoint->t_getprotaddr(&bound, &peer));
  EXPECT_EQ(bound.addr.len, 0U);
  EXPECT_EQ(peer.addr.len, 0U);
  tli::t_bind req{in("mine"), 0};
  ASSERT_TRUE(endpoint->t_bind(&req, nullptr));
  peer.addr.len = 5;
  ASSERT_TRUE(endpoint->t_getprotaddr(&bound, &peer));
  EXPECT_EQ(text_of(bound.addr), "mine");
  EXPECT_EQ(peer.addr.len, 0U);
  EXPECT_TRUE(endpoint->t_getprotaddr(nullptr, nullptr));
  // "TBUFOVFLW The number of bytes allocated for an incoming argument (maxlen) is greater than 0 but not sufficient".
  std::string little(3, '\0');
  tli::t_bind small{out(little), 0};
  EXPECT_EQ(error_of(endpoint->t_getprotaddr(&small, nullptr)), TBUFOVFLW);
  // "If the maxlen field of boundaddr or peeraddr is set to zero, no address is returned."
  tli::t_bind nothing;
  EXPECT_TRUE(endpoint->t_getprotaddr(&nothing, nullptr));
  EXPECT_EQ(nothing.addr.len, 0U);
}

// ---- t_alloc ----

t_info sizes(std::int32_t addr, std::int32_t options, std::int32_t tsdu) {
  t_info info;
  info.addr = addr;
  info.options = options;
  info.tsdu = tsdu;
  return info;
}

void expect_buffer(const netbuf& buffer, std::size_t size) {
  EXPECT_EQ(buffer.maxlen, size);
  EXPECT_EQ(buffer.len, 0U);
  // "For any field not specified in fields, buf will be set to the null pointer and len and maxlen will be set to
  // zero."
  EXPECT_EQ(buffer.buf != nullptr, size != 0);
  std::fill_n(buffer.buf, size, std::byte{1});  // a sanitizer tells whether it is all there
}

// "For each relevant field specified in fields, t_alloc() will allocate memory for the buffer associated with the
// field, and initialize the len field to zero and the buf pointer and maxlen field accordingly."
TEST(Alloc, FieldsThatAreAskedFor) {
  const t_info info = sizes(16, 32, 100);
  for (unsigned fields = 0; fields <= (T_ADDR | T_OPT | T_UDATA); ++fields) {
    const auto wanted = [&](unsigned field, std::size_t size) { return (fields & field) != 0 ? size : 0; };
    const auto unit = t_alloc<t_unitdata>(info, fields);
    ASSERT_TRUE(unit);
    expect_buffer((*unit)->value.addr, wanted(T_ADDR, 16));
    expect_buffer((*unit)->value.opt, wanted(T_OPT, 32));
    expect_buffer((*unit)->value.udata, wanted(T_UDATA, 100));
    const auto uderr = t_alloc<t_uderr>(info, fields);
    ASSERT_TRUE(uderr);
    expect_buffer((*uderr)->value.addr, wanted(T_ADDR, 16));
    expect_buffer((*uderr)->value.opt, wanted(T_OPT, 32));
    const auto bind = t_alloc<t_bind>(info, fields);
    ASSERT_TRUE(bind);
    expect_buffer((*bind)->value.addr, wanted(T_ADDR, 16));
    const auto optmgmt = t_alloc<t_optmgmt>(info, fields);
    ASSERT_TRUE(optmgmt);
    expect_buffer((*optmgmt)->value.opt, wanted(T_OPT, 32));
  }
}

// "T_ALL All relevant fields of the given structure. Fields which are not supported by the transport provider [...]
// will not be allocated."
TEST(Alloc, AllFields) {
  const auto whole = t_alloc<t_unitdata>(sizes(16, 32, 100), T_ALL);
  ASSERT_TRUE(whole);
  expect_buffer((*whole)->value.udata, 100);
  const auto unit = t_alloc<t_unitdata>(sizes(16, tpi::T_INVALID, 100), T_ALL);
  ASSERT_TRUE(unit);
  expect_buffer((*unit)->value.addr, 16);
  expect_buffer((*unit)->value.opt, 0);
  expect_buffer((*unit)->value.udata, 100);
}

// "If the size value associated with any specified field is T_INVALID, t_alloc() will be unable to determine the size
// of the buffer to allocate and will fail, setting t_errno to TSYSERR and errno to EINVAL. [...] If the size value
// associated with any specified field is T_INFINITE, then the behavior of t_alloc() is implementation-defined."
TEST(Alloc, SizesThatAreNone) {
  const Failure expected{TSYSERR, EINVAL};
  EXPECT_EQ(t_alloc<t_unitdata>(sizes(16, tpi::T_INVALID, 100), T_OPT).error(), expected);
  EXPECT_EQ(t_alloc<t_unitdata>(sizes(16, 32, tpi::T_INFINITE), T_UDATA).error(), expected);
  EXPECT_EQ(t_alloc<t_unitdata>(sizes(16, 32, tpi::T_INFINITE), T_ALL).error(), expected);
  EXPECT_EQ(t_alloc<t_bind>(sizes(tpi::T_INFINITE, 32, 100), T_ADDR).error(), expected);
  EXPECT_TRUE(t_alloc<t_unitdata>(sizes(16, tpi::T_INVALID, tpi::T_INFINITE), T_ADDR));
}

// What t_alloc() makes is what the calls take.
TEST_F(Management, AllocatedUnitsReceive) {
  open_bound();
  provider->arrives("peer", "option", {"text"});
  const auto unit = t_alloc<t_unitdata>(info, T_ALL);
  ASSERT_TRUE(unit);
  int flags = 0;
  ASSERT_TRUE(endpoint->t_rcvudata((*unit)->value, flags));
  EXPECT_EQ(text_of((*unit)->value.addr), "peer");
  EXPECT_EQ(text_of((*unit)->value.opt), "option");
  EXPECT_EQ(text_of((*unit)->value.udata), "text");
}

// ---- t_strerror, t_error ----

// "The t_strerror() function maps the error number in errnum that corresponds to an XTI error to a language-dependent
// error message string". "If an error code is unknown, and the language is English, t_strerror() returns the string:
// "<error>: error unknown"".
TEST(Errors, Strings) {
  std::set<std::string> texts;
  for (int number = TBADADDR; number <= TPROTO; ++number) {
    const std::string_view text = t_strerror(number);
    EXPECT_EQ(text.find("unknown"), std::string_view::npos) << number;
    EXPECT_FALSE(text.empty() || text.ends_with('\n')) << number;
    EXPECT_TRUE(texts.emplace(text).second) << text;
  }
  EXPECT_EQ(t_strerror(TBADADDR), "incorrect address format");
  EXPECT_EQ(t_strerror(TFLOW), "flow control");
  EXPECT_EQ(t_strerror(TADDRBUSY), "the address is in use");
  EXPECT_EQ(t_strerror(TPROTO), "protocol error");
  EXPECT_EQ(t_strerror(TPROTO + 1), "30: error unknown");
  EXPECT_EQ(t_strerror(-1), "-1: error unknown");
  EXPECT_EQ(t_strerror(INT_MIN), "-2147483648: error unknown");
}

// t_error(): "first (if errmsg is not a null pointer and the character pointed to be errmsg is not the null character)
// the string pointed to by errmsg followed by a colon and a space; then a standard error message string for the current
// error defined in t_errno. [...] If, however, t_errno is equal to TSYSERR, the t_errno string is followed by the
// standard error message string for the current error defined in errno".
TEST(Errors, Messages) {
  EXPECT_EQ(Endpoint::t_error("send", {TFLOW, 0}), "send: flow control");
  EXPECT_EQ(Endpoint::t_error("", {TFLOW, 0}), "flow control");
  EXPECT_EQ(Endpoint::t_error("bind", {TSYSERR, EACCES}), "bind: system error: Permission denied");
}

}  // namespace
}  // namespace sluice::test
