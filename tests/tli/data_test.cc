// SPDX-License-Identifier: Apache-2.0

// Data units: t_sndudata, t_sndvudata, t_rcvudata, t_rcvvudata, t_rcvuderr, t_look. Quotations are of the manual pages
// (3NSL) of illumos, which are X/Open's, and of XNS's "Events and TLOOK Error Indication".

#include <climits>
#include <limits>

#include "tests/tli/allocations.h"
#include "tests/tli/harness.h"

namespace sluice::test {
namespace {

using namespace tli;
using enum tpi::TliError;
using std::chrono::seconds;

/// A data unit as the provider got it.
std::string sent_as(const Message& message) {
  const auto request = tpi::UnitdataReq::decode(message.bytes());
  EXPECT_TRUE(request);
  std::string text = std::string(as_text(request->address)) + "/" + std::string(as_text(request->options)) + ": ";
  for (const Block* block = message.first().cont; block != nullptr; block = block->cont) {
    text += as_text(block->bytes());
  }
  return text;
}

// ---- t_sndudata ----

class Send : public EndpointTest {
 protected:
  Send() { open_bound(); }
};

// "addr specifies the protocol address of the destination user, opt identifies options that the user wants associated
// with this request, and udata specifies the user data to be sent."
TEST_F(Send, UnitHasAddressOptionsAndData) {
  ASSERT_TRUE(send("text", "peer", "option"));
  ASSERT_TRUE(send("other", "p", ""));
  ASSERT_EQ(provider->sent.size(), 2U);
  EXPECT_EQ(sent_as(provider->sent[0]), "peer/option: text");
  EXPECT_EQ(provider->sent[0].type(), MessageType::proto);
  EXPECT_EQ(sent_as(provider->sent[1]), "p/: other");
}

struct Refusal {
  std::string_view name;
  std::int32_t service;
  std::int32_t tsdu;
  bool bound;
  std::string_view text;
  bool error_waits;
  bool stalled;
  int expected;
};

// Every error of t_sndudata, each where every later one is due as well.
TEST_F(Send, ErrorsInTheirOrder) {
  const std::array refusals{
      // "TNOTSUPPORT This function is not supported by the underlying transport provider."
      Refusal{"not connectionless", tpi::T_COTS, 4, false, "too long", true, true, TNOTSUPPORT},
      Refusal{"not connectionless", tpi::T_COTS_ORD, 4, false, "too long", true, true, TNOTSUPPORT},
      // "TOUTSTATE The communications endpoint [...] is not in one of the states in which a call to this function is
      // valid."
      Refusal{"not bound", tpi::T_CLTS, 4, false, "too long", true, true, TOUTSTATE},
      // "TBADDATA Illegal amount of data. A single send was attempted specifying a TSDU greater than that specified in
      // the info argument, or a send of a zero byte TSDU is not supported by the provider."
      Refusal{"too long", tpi::T_CLTS, 4, true, "12345", true, true, TBADDATA},
      Refusal{"empty", tpi::T_CLTS, 4, true, "", true, true, TBADDATA},
      Refusal{"no data at all", tpi::T_CLTS, tpi::T_INVALID, true, "1", true, true, TBADDATA},
      // "TLOOK An asynchronous event has occurred on this transport endpoint." (t_sndudata(): T_UDERR)
      Refusal{"an error waits", tpi::T_CLTS, 4, true, "1234", true, true, TLOOK},
      // "TFLOW O_NONBLOCK was set, but the flow control mechanism prevented the transport provider from accepting any
      // data".
      Refusal{"flow control", tpi::T_CLTS, 4, true, "1234", false, true, TFLOW},
      Refusal{"nothing", tpi::T_CLTS, 4, true, "1234", false, false, 0},
      Refusal{"nothing", tpi::T_CLTS, tpi::T_INFINITE, true, "1234", false, false, 0},
  };
  for (const Refusal& row : refusals) {
    SCOPED_TRACE(row.name);
    open([&](Provider& at) {
      at.info.serv_type = row.service;
      at.info.tsdu_size = row.tsdu;
      at.stalled = row.stalled;
    });
    endpoint->stream().set_nonblocking(true);
    if (row.bound) {
      ASSERT_TRUE(endpoint->t_bind(nullptr, nullptr));
    }
    if (row.stalled) {
      provider->write_queue().enqueue(Message::copy_of(set.pool(), as_bytes("full")));
    }
    if (row.error_waits) {
      provider->fails("peer", "", ECONNREFUSED);
    }
    const Outcome<> outcome = send(row.text);
    EXPECT_EQ(error_of(outcome), row.expected);
    EXPECT_EQ(provider->sent.size(), row.expected == 0 ? 1U : 0U);
  }
}

// "If the len field of udata is zero, and sending of zero octets is not supported by the underlying transport service,
// the t_sndudata() will return -1 with t_errno set to TBADDATA": with SENDZERO it is supported.
TEST_F(Send, NoOctets) {
  open_bound([](Provider& at) { at.info.provider_flag = tpi::SENDZERO; });
  ASSERT_TRUE(send(""));
  ASSERT_EQ(provider->sent.size(), 1U);
  EXPECT_EQ(sent_as(provider->sent[0]), "peer/: ");
  EXPECT_EQ(provider->sent[0].block_count(), 2U);
}

// "t_sndudata() operates in synchronous mode and may wait if flow control restrictions prevent the data from being
// accepted".
TEST_F(Send, WaitsForFlowControl) {
  SimulatedWaiter waiter(set);
  wait_with(waiter);
  provider->stalled = true;
  ASSERT_TRUE(send("first"));
  waiter.after(seconds(3), [&] { provider->resume(); });
  ASSERT_TRUE(send("second"));
  EXPECT_EQ(waiter.now(), TimePoint{} + seconds(3));
  ASSERT_EQ(provider->sent.size(), 2U);
  EXPECT_EQ(sent_as(provider->sent[1]), "peer/: second");
}

// "Certain events require immediate notification of the user and are indicated by a specific error, TLOOK, on the
// current or next function to be executed." (t_look(3NSL))
TEST_F(Send, ErrorEndsTheWaitForFlowControl) {
  SimulatedWaiter waiter(set);
  wait_with(waiter);
  provider->stalled = true;
  ASSERT_TRUE(send("first"));
  waiter.after(seconds(1), [&] { provider->fails("peer", "", ECONNREFUSED); });
  EXPECT_EQ(error_of(send("second")), TLOOK);
}

// A stream that has failed or hung up ends the wait, too, and every call from then on.
TEST_F(Send, StreamFailure) {
  SimulatedWaiter waiter(set);
  wait_with(waiter);
  provider->stalled = true;
  ASSERT_TRUE(send("first"));
  waiter.after(seconds(1), [&] { provider->up(Message::allocate(set.pool(), 0, 0, MessageType::hangup)); });
  Outcome<> outcome = send("second");
  EXPECT_EQ(error_of(outcome), TSYSERR);
  EXPECT_EQ(system_error_of(outcome), ENXIO);
  open_bound();
  provider->up(Message::copy_of(set.pool(), as_bytes("\x05"), 0, MessageType::error));
  outcome = send("text");
  EXPECT_EQ(error_of(outcome), TSYSERR);
  EXPECT_EQ(system_error_of(outcome), 5);
}

// "TBADADDR The specified protocol address was in an incorrect format or contained illegal information." "TBADOPT".
TEST_F(Send, AddressesAndOptionsAreBounded) {
  const std::string large(2000, 'x');
  EXPECT_EQ(error_of(send("text", large, "")), TBADADDR);
  EXPECT_EQ(error_of(send("text", "peer", large)), TBADOPT);
  EXPECT_TRUE(send("text", large.substr(0, 400), large.substr(0, 400)));
}

TEST_F(Send, PoolExhausted) {
  open_bound([](Provider& at) { at.info.tsdu_size = tpi::T_INFINITE; });
  const std::string huge(BufferPool::capacity_max + 1, 'x');
  const Outcome<> outcome = send(huge);
  EXPECT_EQ(error_of(outcome), TSYSERR);
  EXPECT_EQ(system_error_of(outcome), ENOSR);
}

// ---- t_sndvudata, t_rcvvudata ----

t_iovec part(std::string_view text) { return {const_cast<std::byte*>(as_bytes(text).data()), text.size()}; }
t_iovec part_of(std::string& text) { return {std::as_writable_bytes(std::span(text)).data(), text.size()}; }

TEST_F(Send, GathersParts) {
  const std::array parts{part("gath"), part(""), t_iovec{}, part("ered")};
  ASSERT_TRUE(endpoint->t_sndvudata({in("peer"), in("o"), {}}, parts));
  ASSERT_EQ(provider->sent.size(), 1U);
  EXPECT_EQ(sent_as(provider->sent[0]), "peer/o: gathered");
}

// "iovcount contains the number of non-contiguous udata buffers which is limited to T_IOV_MAX [...] If the limit on
// iovcount is exceeded, the function fails with TBADDATA." The sum of the parts is what is limited by the TSDU, and by
// INT_MAX.
TEST_F(Send, PartsAreBounded) {
  std::vector<t_iovec> parts(T_IOV_MAX, part("x"));
  EXPECT_TRUE(endpoint->t_sndvudata({in("peer"), {}, {}}, parts));
  parts.push_back(part("x"));
  EXPECT_EQ(error_of(endpoint->t_sndvudata({in("peer"), {}, {}}, parts)), TBADDATA);
  const std::string half(51, 'x');
  EXPECT_EQ(error_of(endpoint->t_sndvudata({in("peer"), {}, {}}, std::array{part(half), part(half)})), TBADDATA);
  EXPECT_EQ(error_of(endpoint->t_sndvudata({in("peer"), {}, {}}, {})), TBADDATA);
  // Sizes whose sum overflows are not a small data unit.
  t_iovec overflowing = part("x");
  overflowing.iov_len = std::numeric_limits<std::size_t>::max();
  EXPECT_EQ(error_of(endpoint->t_sndvudata({in("peer"), {}, {}}, std::array{overflowing, part("xx")})), TBADDATA);
  overflowing.iov_len = INT_MAX;
  open_bound([](Provider& at) { at.info.tsdu_size = tpi::T_INFINITE; });
  EXPECT_EQ(error_of(endpoint->t_sndvudata({in("peer"), {}, {}}, std::array{overflowing, part("x")})), TBADDATA);
}

class Receive : public EndpointTest {
 protected:
  Receive() { open_bound(); }
  /// t_rcvvudata() into parts of these sizes: what each holds, and the flag.
  std::string scatter(const std::vector<std::size_t>& sizes) {
    std::vector<std::string> texts;
    std::vector<t_iovec> parts;
    for (const std::size_t size : sizes) {
      texts.emplace_back(size, '.');
    }
    for (std::string& text : texts) {
      parts.push_back(part_of(text));
    }
    t_unitdata unit;
    int flags = 99;
    const auto got = endpoint->t_rcvvudata(unit, parts, flags);
    if (!got) {
      return "error " + std::to_string(got.error().t_errno);
    }
    std::string all = std::to_string(*got) + ":";
    for (const std::string& text : texts) {
      all += " " + text;
    }
    return all + (flags == T_MORE ? " T_MORE" : "");
  }
};

// "On return from this call, iov[0].iov_base through iov[iovcount-1].iov_base contains the user data that was received.
// The return value of t_rcvvudata() is the number of bytes of user data given to the user."
TEST_F(Receive, ScattersOverParts) {
  provider->arrives("peer", "", {"scat", "", "tered"});
  EXPECT_EQ(scatter({3, 0, 4, 5}), "9: sca  tter ed...");
  provider->arrives("peer", "", {"12345"});
  EXPECT_EQ(scatter({2, 1}), "3: 12 3 T_MORE");
  EXPECT_EQ(scatter({1, 5}), "2: 4 5....");
}

// "TBADDATA iovcount is greater than T_IOV_MAX": nothing is taken.
TEST_F(Receive, PartsAreBounded) {
  provider->arrives("peer", "", {"12345678901234567"});
  EXPECT_EQ(scatter(std::vector<std::size_t>(T_IOV_MAX + 1, 1)), error(TBADDATA));
  EXPECT_EQ(scatter(std::vector<std::size_t>(T_IOV_MAX, 1)), "16: 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 T_MORE");
}

// No memory comes from malloc between the program's buffers and the provider, nor on the way back, once the pool is
// warm.
TEST_F(Receive, DataPathDoesNotAllocate) {
  provider->echoes = true;
  const std::array gathered{part("head"), part("body")};
  std::string head(4, '\0');
  std::string body(60, '\0');
  std::string address(16, '\0');
  const std::array scattered{part_of(head), part_of(body)};
  std::uint64_t before = 0;
  for (int round = 0; round < 100; ++round) {
    if (round == 10) {
      before = allocations();
    }
    t_unitdata unit{in("peer"), in("option"), {}};
    const bool sent = endpoint->t_sndvudata(unit, gathered).has_value();
    unit.addr = out(address);
    int flags = 0;
    const auto got = endpoint->t_rcvvudata(unit, scattered, flags);
    if (!sent || got.value_or(0) != 8 || flags != 0) {
      FAIL() << "round " << round;
    }
  }
  EXPECT_EQ(allocations(), before);
  EXPECT_GT(before, 0U);
  EXPECT_EQ(head, "head");
}

// ---- t_rcvudata ----

// "addr specifies the protocol address of the sending user, opt identifies options that were associated with this data
// unit, and udata specifies the user data that was received."
TEST_F(Receive, UnitHasAddressOptionsAndData) {
  provider->arrives("peer", "option", {"te", "xt"});
  provider->arrives("p", "", {""});
  EXPECT_EQ(receive(10), "peer/option: text");
  EXPECT_EQ(receive(10), "p/: ");
}

// "If the buffer defined in the udata field of unitdata is not large enough to hold the current data unit, the buffer
// will be filled and T_MORE will be set in flags on return to indicate that another t_rcvudata() should be called to
// retrieve the rest of the data unit. Subsequent calls to t_rcvudata() will return zero for the length of the address
// and options until the full data unit has been received."
TEST_F(Receive, ShortBuffers) {
  provider->arrives("peer", "option", {"abcde", "fg"});
  provider->arrives("next", "", {"next"});
  EXPECT_EQ(receive(3), "peer/option: abc T_MORE");
  EXPECT_EQ(look(), T_DATA);
  EXPECT_EQ(receive(3), "/: def T_MORE");
  EXPECT_EQ(receive(0), "/:  T_MORE");
  EXPECT_EQ(receive(3), "/: g");
  EXPECT_EQ(receive(4), "next/: next");
  EXPECT_EQ(look(), 0);
}

// A data unit that fits exactly leaves nothing, whatever empty blocks stand behind it.
TEST_F(Receive, ExactBuffer) {
  provider->arrives("peer", "", {"abc", "", ""});
  EXPECT_EQ(receive(3), "peer/: abc");
  provider->arrives("peer", "", {"", "ab", ""});
  EXPECT_EQ(receive(2), "peer/: ab");
  provider->arrives("peer", "", {""});
  EXPECT_EQ(receive(0), "peer/: ");
  provider->arrives("peer", "", {""});
  EXPECT_EQ(scatter({}), "0:");
  provider->arrives("peer", "", {});
  EXPECT_EQ(receive(3), "peer/: ");
  EXPECT_EQ(look(), 0);
}

// "TNODATA O_NONBLOCK was set, but no data units are currently available from the transport provider."
// A data unit of which t_rcvudata() has taken a part can be looked at no more.
TEST_F(Receive, APartThatIsLeftIsNotLookedAt) {
  provider->arrives("peer", "", {"hello"});
  EXPECT_EQ(receive(3), "peer/: hel T_MORE");
  tli::t_unitdata unit;
  EXPECT_EQ(error_of(endpoint->t_lookudata(unit)), TOUTSTATE);
  EXPECT_EQ(receive(3), "/: lo");
}

// t_landudata() takes what t_lookudata() has shown, and nothing else that waits.
TEST_F(Receive, WhatWasNotShownIsNotLanded) {
  provider->arrives("peer", "", {"hello"});
  EXPECT_EQ(look(), T_DATA);
  std::string text(8, '\0');
  const t_iovec place = part_of(text);
  EXPECT_EQ(error_of(endpoint->t_landudata(std::span(&place, 1))), TOUTSTATE);
  EXPECT_EQ(receive(5), "peer/: hello");
}

TEST_F(Receive, NonBlockingWithoutData) {
  SimulatedWaiter waiter(set);
  wait_with(waiter);
  endpoint->stream().set_nonblocking(true);
  waiter.after(seconds(1), [&] { provider->arrives("peer", "", {"late"}); });
  EXPECT_EQ(receive(10), error(TNODATA));
  EXPECT_EQ(waiter.waits, 0);
}

// "By default, t_rcvudata() operates in synchronous mode and will wait for a data unit to arrive if none is currently
// available."
TEST_F(Receive, WaitsForData) {
  SimulatedWaiter waiter(set);
  wait_with(waiter);
  waiter.after(seconds(2), [&] { provider->arrives("peer", "", {"late"}); });
  EXPECT_EQ(receive(10), "peer/: late");
  EXPECT_EQ(waiter.now(), TimePoint{} + seconds(2));
}

TEST_F(Receive, ErrorEndsTheWait) {
  SimulatedWaiter waiter(set);
  wait_with(waiter);
  waiter.after(seconds(2), [&] { provider->fails("peer", "", EHOSTUNREACH); });
  EXPECT_EQ(receive(10), error(TLOOK));
}

// "TBUFOVFLW The number of bytes allocated for the incoming protocol address or options (maxlen) is greater than 0 but
// not sufficient to store the information. The unit data information to be returned in unitdata will be discarded."
TEST_F(Receive, NamesThatDoNotFit) {
  provider->arrives("peer", "option", {"lost"});
  provider->arrives("peer", "option", {"lost, too"});
  provider->arrives("peer", "option", {"kept"});
  EXPECT_EQ(receive(10, 3, 10), error(TBUFOVFLW));
  std::string address(16, '\0');
  std::string options(5, '\0');
  std::string text(16, '\0');
  t_unitdata unit{out(address), out(options), out(text)};
  int flags = 0;
  EXPECT_EQ(error_of(endpoint->t_rcvudata(unit, flags)), TBUFOVFLW);
  EXPECT_EQ(unit.addr.len, 0U);
  EXPECT_EQ(unit.opt.len, 0U);
  EXPECT_EQ(receive(10, 4, 6), "peer/option: kept");
}

// "If the maxlen field of addr or opt is set to zero, no information is returned in the buf field of this parameter."
TEST_F(Receive, NamesThatAreNotAskedFor) {
  provider->arrives("peer", "option", {"text"});
  EXPECT_EQ(receive(10, 0, 0), "/: text");
}

// "TPROTO This error indicates that a communication problem has been detected between XTI and the transport provider":
// what is no indication is taken away, and the next one is delivered.
TEST_F(Receive, WhatIsNoIndication) {
  provider->up(message_of(set.pool(), tpi::OkAck{tpi::T_BIND_REQ}, MessageType::proto));
  provider->up(Message::copy_of(set.pool(), as_bytes("x"), 0, MessageType::proto));
  Message looks_like_one = message_of(set.pool(), tpi::UnitdataInd{as_bytes("peer"), {}}, MessageType::data);
  provider->up(std::move(looks_like_one));
  Message short_block = message_of(set.pool(), tpi::UnitdataInd{as_bytes("peer"), {}}, MessageType::proto);
  short_block.trim_back(4);
  provider->up(std::move(short_block));
  provider->arrives("peer", "", {"text"});
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(receive(10), error(TPROTO));
  }
  EXPECT_EQ(receive(10), "peer/: text");
}

TEST_F(Receive, NotConnectionless) {
  open_bound([](Provider& at) { at.info.serv_type = tpi::T_COTS; });
  EXPECT_EQ(receive(10), error(TNOTSUPPORT));
  EXPECT_EQ(error_of(endpoint->t_rcvuderr(nullptr)), TNOTSUPPORT);
}

TEST_F(Receive, StreamFailure) {
  provider->arrives("peer", "", {"left"});
  provider->up(Message::allocate(set.pool(), 0, 0, MessageType::hangup));
  EXPECT_EQ(receive(10), "peer/: left");
  EXPECT_EQ(receive(10), error(TSYSERR));
  open_bound();
  provider->up(Message::copy_of(set.pool(), as_bytes("\x05"), 0, MessageType::error));
  t_unitdata unit;
  int flags = 0;
  EXPECT_EQ(system_error_of(endpoint->t_rcvudata(unit, flags)), 5);
}

// ---- Errors of data units, and events ----

// "TLOOK An asynchronous event has occurred on this transport endpoint and requires immediate attention." "Once a
// [TLOOK] error has been received [...], subsequent calls to that and other XTI functions, to which the same [TLOOK]
// error applies, will continue to return [TLOOK] until the event is consumed."
TEST_F(Receive, PendingErrorUntilItIsConsumed) {
  provider->fails("peer", "option", ECONNREFUSED);
  provider->arrives("other", "", {"text"});
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(receive(10), error(TLOOK));
    EXPECT_EQ(error_of(send("text")), TLOOK);
    EXPECT_EQ(error_of(endpoint->t_unbind()), TLOOK);
    EXPECT_EQ(look(), T_UDERR);
  }
  EXPECT_TRUE(provider->sent.empty());
  std::string address(16, '\0');
  std::string options(16, '\0');
  t_uderr uderr{out(address), out(options), 0};
  ASSERT_TRUE(endpoint->t_rcvuderr(&uderr));
  // "the addr structure specifies the destination protocol address of the erroneous data unit, the opt structure
  // identifies options that were associated with the data unit, and error specifies a protocol-dependent error code."
  EXPECT_EQ(text_of(uderr.addr), "peer");
  EXPECT_EQ(text_of(uderr.opt), "option");
  EXPECT_EQ(uderr.error, ECONNREFUSED);
  EXPECT_EQ(receive(10), "other/: text");
  EXPECT_TRUE(send("text"));
}

// "If the user does not care to identify the data unit that produced an error, uderr may be set to a null pointer, and
// t_rcvuderr() will simply clear the error indication without reporting any information to the user."
TEST_F(Receive, ErrorIsClearedUnseen) {
  provider->fails("peer", "", ECONNREFUSED);
  EXPECT_TRUE(endpoint->t_rcvuderr(nullptr));
  EXPECT_EQ(look(), 0);
  // "TNOUDERR No unit data error indication currently exists on the specified transport endpoint."
  EXPECT_EQ(error_of(endpoint->t_rcvuderr(nullptr)), TNOUDERR);
  provider->arrives("peer", "", {"text"});
  EXPECT_EQ(error_of(endpoint->t_rcvuderr(nullptr)), TNOUDERR);
  EXPECT_EQ(receive(10), "peer/: text");
}

// t_rcvuderr(): "TBUFOVFLW [...] The unit data error information to be returned in uderr will be discarded." "If this
// field is set to zero for addr or opt, no information is returned in the buf field of this parameter."
TEST_F(Receive, ErrorThatDoesNotFit) {
  for (const auto& [address_size, options_size, expected] :
       {std::tuple(3, 6, int{TBUFOVFLW}), std::tuple(4, 5, int{TBUFOVFLW}), std::tuple(4, 6, 0), std::tuple(0, 0, 0)}) {
    provider->fails("peer", "option", EHOSTUNREACH);
    std::string address(static_cast<std::size_t>(address_size), '\0');
    std::string options(static_cast<std::size_t>(options_size), '\0');
    t_uderr uderr{out(address), out(options), 0};
    EXPECT_EQ(error_of(endpoint->t_rcvuderr(&uderr)), expected);
    EXPECT_EQ(uderr.addr.len, expected == 0 ? address.size() : 0U);
    EXPECT_EQ(uderr.opt.len, expected == 0 ? options.size() : 0U);
    EXPECT_EQ(uderr.error, expected == 0 ? EHOSTUNREACH : 0);
    EXPECT_EQ(look(), 0);
  }
}

TEST_F(Receive, MalformedError) {
  Message message = message_of(set.pool(), tpi::UderrorInd{as_bytes("peer"), {}, EIO}, MessageType::proto);
  message.trim_back(4);
  provider->up(std::move(message));
  EXPECT_EQ(error_of(endpoint->t_rcvuderr(nullptr)), TPROTO);
  EXPECT_EQ(look(), 0);
}

// t_look(): "returns a value that indicates which of the allowable events has occurred, or returns zero if no event
// exists": what came first is told first.
TEST_F(Receive, LookTellsEventsInTheirOrder) {
  EXPECT_EQ(look(), 0);
  // The rest of the data unit will look like an error.
  std::array<std::byte, 2 * tpi::UderrorInd::fixed_size> disguise{};
  const std::size_t size = tpi::UderrorInd{{}, {}, EIO}.encode(disguise);
  const std::string rest(as_text(disguise).substr(0, size));
  provider->arrives("peer", "", {"abc", rest});
  provider->fails("peer", "", ECONNREFUSED);
  EXPECT_EQ(look(), T_DATA);
  EXPECT_EQ(receive(3), "peer/: abc T_MORE");
  EXPECT_EQ(look(), T_DATA);
  EXPECT_EQ(error_of(endpoint->t_rcvuderr(nullptr)), TNOUDERR);
  EXPECT_EQ(receive(size), "/: " + rest);
  EXPECT_EQ(look(), T_UDERR);
  EXPECT_TRUE(endpoint->t_rcvuderr(nullptr));
  EXPECT_EQ(look(), 0);
}

// "T_GODATA Flow control restrictions on normal data flow that led to a TFLOW error have been lifted. Normal data may
// be sent again." It is told once.
TEST_F(Send, LookTellsOfTheEndOfFlowControl) {
  endpoint->stream().set_nonblocking(true);
  provider->stalled = true;
  ASSERT_TRUE(send("first"));
  EXPECT_EQ(look(), 0);
  EXPECT_EQ(error_of(send("second")), TFLOW);
  EXPECT_EQ(look(), 0);
  provider->resume();
  set.scheduler().poll({});
  EXPECT_EQ(look(), T_GODATA);
  EXPECT_EQ(look(), 0);
  ASSERT_TRUE(send("second"));
  EXPECT_EQ(look(), 0);
}

}  // namespace
}  // namespace sluice::test
