// SPDX-License-Identifier: Apache-2.0

// Data of connections: t_snd, t_sndv, t_rcv, t_rcvv, with data units and without, expedited data, flow control.
// Quotations are of the manual pages (3NSL) of illumos, which are X/Open's.

#include <climits>

#include "tests/tli/connection_harness.h"

namespace sluice::test {
namespace {

using namespace tli;
using enum tpi::TliError;

class ConnectionData : public ConnectionTest {
 protected:
  using Sent = std::vector<std::string>;

  /// Of a provider that knows no data units, as TCP.
  void connect_stream() {
    bring_to(T_DATAXFER, 0, [](ConnectionProvider& at) {
      at.info.tsdu_size = 0;
      at.info.etsdu_size = tpi::T_INVALID;
      at.info.tidu_size = 8;
    });
  }
  int snd(std::string_view text, int flags = 0) {
    const auto sent = endpoint->t_snd(as_bytes(text), flags);
    return sent ? static_cast<int>(*sent) : -sent.error().t_errno;
  }
};

// ---- Sending ----

// "Each t_snd() with the T_MORE flag set indicates that another t_snd() will follow with more data for the current
// TSDU".
TEST_F(ConnectionData, MoreAndPush) {
  bring_to(T_DATAXFER);
  EXPECT_EQ(snd("a part", T_MORE), 6);
  EXPECT_EQ(snd("the rest"), 8);
  EXPECT_EQ(snd("at once", T_PUSH), 7);
  EXPECT_EQ(provider->sent, (Sent{"T_DATA_REQ a part more", "T_DATA_REQ the rest", "T_DATA_REQ at once"}));
}

// "If the transport provider does not support the concept of a TSDU [...] the T_MORE flag is not meaningful and will be
// ignored if set."
TEST_F(ConnectionData, AStreamOfBytesNeedsNoPrimitive) {
  connect_stream();
  EXPECT_EQ(snd("text", T_MORE), 4);
  EXPECT_EQ(snd("longer than a piece"), 19);
  EXPECT_EQ(provider->sent, (Sent{"M_DATA text", "M_DATA longer t", "M_DATA han a pi", "M_DATA ece"}));
}

// A data unit that is larger than what the provider takes at once is still one.
TEST_F(ConnectionData, ADataUnitInPieces) {
  bring_to(T_DATAXFER, 0, [](ConnectionProvider& at) { at.info.tidu_size = 4; });
  EXPECT_EQ(snd("0123456789"), 10);
  EXPECT_EQ(snd("abcdefgh", T_MORE), 8);
  EXPECT_EQ(provider->sent, (Sent{"T_DATA_REQ 0123 more", "T_DATA_REQ 4567 more", "T_DATA_REQ 89",
                                  "T_DATA_REQ abcd more", "T_DATA_REQ efgh more"}));
}

// "If set in flags, the data will be sent as expedited data".
TEST_F(ConnectionData, ExpeditedData) {
  bring_to(T_DATAXFER);
  EXPECT_EQ(snd("now", T_EXPEDITED), 3);
  EXPECT_EQ(snd("now", T_EXPEDITED | T_MORE), 3);
  EXPECT_EQ(provider->sent, (Sent{"T_EXDATA_REQ now in band 1", "T_EXDATA_REQ now more in band 1"}));
  bring_to(T_DATAXFER, 0, [](ConnectionProvider& at) { at.info.provider_flag = tpi::EXPINLINE; });
  EXPECT_EQ(snd("now", T_EXPEDITED), 3);
  EXPECT_EQ(provider->sent, Sent{"T_EXDATA_REQ now"});
}

// "[TBADDATA] Illegal amount of data", "[TBADFLAG] An invalid flag was specified", "[TNOTSUPPORT]".
TEST_F(ConnectionData, WhatMayNotBeSent) {
  bring_to(T_DATAXFER);
  EXPECT_EQ(snd(std::string(101, 'x')), -TBADDATA);
  EXPECT_EQ(snd(std::string(100, 'x')), 100);
  EXPECT_EQ(snd(std::string(11, 'x'), T_EXPEDITED), -TBADDATA);
  EXPECT_EQ(snd("", 0), -TBADDATA);
  EXPECT_EQ(snd("x", 0x8), -TBADFLAG);
  EXPECT_EQ(snd("x", -1), -TBADFLAG);
  bring_to(T_DATAXFER, 0, [](ConnectionProvider& at) { at.info.provider_flag = tpi::SENDZERO; });
  EXPECT_EQ(snd(""), 0);
  EXPECT_EQ(snd("", T_MORE), -TBADDATA) << "only permitted where this is used to indicate the end";
  EXPECT_EQ(provider->sent, Sent{"T_DATA_REQ "});
  bring_to(T_DATAXFER, 0, [](ConnectionProvider& at) {
    at.info.tsdu_size = tpi::T_INFINITE;
    at.info.tidu_size = tpi::T_INFINITE;
  });
  EXPECT_EQ(snd(std::string(1000, 'x')), 1000);
  connect_stream();
  EXPECT_EQ(snd("x", T_EXPEDITED), -TNOTSUPPORT);
  EXPECT_EQ(snd(""), -TBADDATA);
  bring_to(T_DATAXFER, 0, [](ConnectionProvider& at) { at.info.tsdu_size = tpi::T_INVALID; });
  EXPECT_EQ(snd("x"), -TNOTSUPPORT);
}

// "t_sndv() sends data contained in buffers iov0, iov1, through iov [iovcount-1]". "If the limit is exceeded, the
// function fails with TBADDATA."
TEST_F(ConnectionData, GatheredData) {
  bring_to(T_DATAXFER, 0, [](ConnectionProvider& at) { at.info.tidu_size = 5; });
  std::string one = "012";
  std::string two = "3456";
  std::string three = "789";
  const auto part = [](std::string& text) {
    return t_iovec{std::as_writable_bytes(std::span(text)).data(), text.size()};
  };
  const std::array parts{part(one), t_iovec{}, part(two), part(three)};
  EXPECT_EQ(endpoint->t_sndv(parts, T_MORE), 10U);
  EXPECT_EQ(provider->sent, (Sent{"T_DATA_REQ 01234 more", "T_DATA_REQ 56789 more"}));
  const std::array<t_iovec, T_IOV_MAX + 1> many{};
  EXPECT_EQ(error_of(endpoint->t_sndv(many, 0)), TBADDATA);
  const std::array huge{t_iovec{nullptr, INT_MAX}, t_iovec{nullptr, 1}};
  EXPECT_EQ(error_of(endpoint->t_sndv(huge, 0)), TBADDATA);
  EXPECT_EQ(error_of(endpoint->t_sndv({}, 0)), TBADDATA);
}

// "However, if O_NONBLOCK is set [...] it is possible that only part of the data has actually been accepted by the
// communications provider. In this case, t_snd() returns a value that is less than the value of nbytes."
TEST_F(ConnectionData, APartIsTaken) {
  connect_stream();
  provider->stalled = true;
  EXPECT_EQ(snd("0123456789"), 8);
  EXPECT_EQ(snd("x"), -TFLOW);
  EXPECT_EQ(look(), 0);
  provider->resume();
  set.scheduler().poll(TimePoint{});
  EXPECT_EQ(provider->sent, Sent{"M_DATA 01234567"});
  EXPECT_EQ(look(), T_GODATA);
  EXPECT_EQ(look(), 0);
  EXPECT_EQ(snd("89"), 2);
}

// "By default, t_snd() operates in synchronous mode and may wait if flow control restrictions prevent the data from
// being accepted".
TEST_F(ConnectionData, TheSenderWaits) {
  SimulatedWaiter waiter(set);
  connect_stream();
  endpoint->stream().set_waiter(&waiter);
  provider->stalled = true;
  waiter.after(std::chrono::seconds(3), [&] { provider->resume(); });
  EXPECT_EQ(snd("0123456789"), 10);
  EXPECT_EQ(provider->sent, (Sent{"M_DATA 01234567", "M_DATA 89"}));
  // The connection ends while somebody waits: what was taken is told, then the event.
  provider->stalled = true;
  waiter.after(std::chrono::seconds(3), [&] { provider->disconnects(ECONNRESET); });
  EXPECT_EQ(snd("0123456789"), 8);
  EXPECT_EQ(snd("x"), -TLOOK);
}

TEST_F(ConnectionData, ExpeditedDataHasAWayOfItsOwn) {
  bring_to(T_DATAXFER);
  provider->stalled = true;
  EXPECT_EQ(snd("data"), 4);
  EXPECT_EQ(snd("data"), -TFLOW);
  EXPECT_EQ(snd("now", T_EXPEDITED), 3);
  EXPECT_EQ(snd("now", T_EXPEDITED), -TFLOW);
  provider->resume();
  set.scheduler().poll(TimePoint{});
  EXPECT_EQ(provider->sent, (Sent{"T_EXDATA_REQ now in band 1", "T_DATA_REQ data"}));
  EXPECT_EQ(look(), T_GODATA);
  EXPECT_EQ(look(), T_GOEXDATA);
  EXPECT_EQ(look(), 0);
}

// What a call sends is its own when it returns.
TEST_F(ConnectionData, TheCallersMemoryIsFreeAfterwards) {
  for (const ProcessingMode mode : {ProcessingMode::layered, ProcessingMode::fused}) {
    bring_to(T_DATAXFER, 0, [](ConnectionProvider& at) {
      at.info.tsdu_size = 100'000;
      at.info.tidu_size = 5000;
    });
    endpoint->stream().set_mode(mode);
    provider->stalled = true;
    std::string text(4000, 'a');
    EXPECT_EQ(snd(text), 4000);
    text.assign(4000, 'b');
    provider->resume();
    set.scheduler().poll(TimePoint{});
    EXPECT_EQ(provider->sent, Sent{"T_DATA_REQ " + std::string(4000, 'a')});
  }
}

// ---- Receiving ----

// "if T_MORE is set in flags, this indicates that there is more data, and the current transport service data unit
// (TSDU)
// [...] must be received in multiple t_rcv() calls."
TEST_F(ConnectionData, DataUnitsKeepTheirBounds) {
  bring_to(T_DATAXFER);
  provider->sends("0123456789", 1);
  provider->sends("rest");
  provider->sends("next");
  EXPECT_EQ(look(), T_DATA);
  EXPECT_EQ(receive(4), "0123 T_MORE");
  EXPECT_EQ(look(), T_DATA);
  EXPECT_EQ(receive(6), "456789 T_MORE");
  provider->sends("next but one", 1);
  EXPECT_EQ(receive(100), "rest");
  EXPECT_EQ(receive(100), "next");
  provider->sends(", of two", 0);
  EXPECT_EQ(receive(15), "next but one, o T_MORE") << "of as many indications as there is room for";
  EXPECT_EQ(receive(100), "f two");
  EXPECT_EQ(receive(100), error(TNODATA));
  EXPECT_EQ(set.pool().statistics().buffers_in_use, 0U);
}

// "If nbytes is greater than zero on the call to t_rcv(), t_rcv() will return 0 only if the end of a TSDU is being
// returned to the user."
TEST_F(ConnectionData, AnEmptyEnd) {
  bring_to(T_DATAXFER);
  provider->sends("data", 1);
  EXPECT_EQ(receive(10), "data T_MORE");
  provider->sends("");
  EXPECT_EQ(receive(10), "");
  connect_stream();
  provider->sends("");
  provider->sends("data", 1);
  EXPECT_EQ(receive(10), "data") << "there are no units: T_MORE means nothing";
  provider->sends("");
  EXPECT_EQ(look(), 0);
  EXPECT_EQ(receive(10), error(TNODATA));
}

// A provider may send bytes without a primitive, as it may be sent them.
TEST_F(ConnectionData, DataWithoutAPrimitive) {
  connect_stream();
  provider->sends_bare("0123456789");
  provider->sends_bare("next");
  EXPECT_EQ(look(), T_DATA);
  EXPECT_EQ(receive(4), "0123 T_MORE");
  provider->sends_bare("more");
  EXPECT_EQ(receive(8), "456789ne T_MORE");
  EXPECT_EQ(receive(100), "xtmore");
}

// "On return, the data is expedited if T_EXPEDITED is set in flags. If T_MORE is also set, it indicates that the number
// of expedited bytes exceeded nbytes [...] or that an entire ETSDU was not available".
TEST_F(ConnectionData, ExpeditedDataComesFirst) {
  bring_to(T_DATAXFER);
  provider->sends("data");
  provider->expedites("urgent", 1);
  provider->expedites("end");
  EXPECT_EQ(look(), T_EXDATA);
  EXPECT_EQ(receive(3), "urg T_MORE T_EXPEDITED");
  EXPECT_EQ(look(), T_EXDATA);
  EXPECT_EQ(receive(10), "ent T_MORE T_EXPEDITED");
  EXPECT_EQ(receive(10), "end T_EXPEDITED");
  EXPECT_EQ(look(), T_DATA);
  EXPECT_EQ(receive(10), "data");
}

// "always filling one buffer before proceeding to the next". "[TBADDATA] iovcount is greater than T_IOV_MAX."
TEST_F(ConnectionData, ScatteredData) {
  for (const ProcessingMode mode : {ProcessingMode::layered, ProcessingMode::fused}) {
    bring_to(T_DATAXFER);
    endpoint->stream().set_mode(mode);
    std::string one(3, '-');
    std::string two(4, '-');
    const auto part = [](std::string& text) {
      return t_iovec{std::as_writable_bytes(std::span(text)).data(), text.size()};
    };
    const std::array parts{part(one), part(two)};
    provider->sends("0123456789");
    int flags = 0;
    EXPECT_EQ(endpoint->t_rcvv(parts, flags), 7U);
    EXPECT_EQ(one + two, "0123456");
    EXPECT_EQ(flags, T_MORE);
    EXPECT_EQ(endpoint->t_rcvv(parts, flags), 3U);
    EXPECT_EQ(one, "789");
    EXPECT_EQ(flags, 0);
    const std::array<t_iovec, T_IOV_MAX + 1> many{};
    EXPECT_EQ(error_of(endpoint->t_rcvv(many, flags)), TBADDATA);
  }
}

// What a module owes to the bytes is done on their way to the program's memory.
TEST_F(ConnectionData, DeferredDataLands) {
  bring_to(T_DATAXFER);
  for (const std::size_t room : {100U, 8U, 5U}) {
    Message message = message_of(set.pool(), tpi::DataInd{}, MessageType::proto);
    message.link(Message::copy_of(set.pool(), as_bytes("10325476")));
    message.defer();
    ASSERT_EQ(message.transform(Swap{2}), TransformResult::deferred);
    endpoint->stream().head().rput(Batch(std::move(message)));
    std::string all = receive(room);
    if (room < 8) {
      EXPECT_EQ(all, "01234 T_MORE");
      all = "01234" + receive(10);
    }
    EXPECT_EQ(all, "01234567");
  }
}

TEST_F(ConnectionData, TheReceiverWaits) {
  SimulatedWaiter waiter(set);
  bring_to(T_DATAXFER);
  endpoint->stream().set_waiter(&waiter);
  waiter.after(std::chrono::seconds(30), [&] { provider->sends("late"); });
  EXPECT_EQ(receive(10), "late");
  waiter.after(std::chrono::seconds(30), [&] { provider->releases(); });
  EXPECT_EQ(receive(10), error(TLOOK));
  endpoint->stream().set_nonblocking(true);
  ASSERT_TRUE(endpoint->t_rcvrel());
}

// ---- Without memory ----

// "ENOSR": what cannot be sent for want of memory is not sent, and is sent when there is some.
TEST_F(ConnectionData, EachAllocationFails) {
  for (const bool units : {true, false}) {
    units ? bring_to(T_DATAXFER) : connect_stream();
    bool sent = false;
    for (std::uint64_t failing = 1; failing < 20 && !sent; ++failing) {
      std::uint64_t asked = 0;
      set.pool().fail_when([&] { return ++asked == failing; });
      const auto outcome = endpoint->t_snd(as_bytes("data"), 0);
      set.pool().fail_when({});
      sent = outcome.has_value();
      if (!sent) {
        EXPECT_EQ(error_of(outcome), TSYSERR);
        EXPECT_EQ(system_error_of(outcome), ENOSR);
        EXPECT_TRUE(provider->sent.empty());
        EXPECT_EQ(set.pool().statistics().buffers_in_use, 0U);
      }
    }
    EXPECT_TRUE(sent);
    EXPECT_EQ(provider->sent.size(), 1U);
  }
  // A request takes memory for itself, and for its data.
  for (const State state : {T_IDLE, T_DATAXFER}) {
    for (const std::uint64_t failing : {1U, 2U}) {
      bring_to(state);
      std::uint64_t asked = 0;
      set.pool().fail_when([&] { return ++asked == failing; });
      const t_call call{.addr = in("peer"), .opt = {}, .udata = in("data"), .sequence = 0};
      const Outcome<> outcome = state == T_IDLE ? endpoint->t_connect(call, nullptr) : endpoint->t_snddis(&call);
      set.pool().fail_when({});
      EXPECT_EQ(error_of(outcome), TSYSERR);
      EXPECT_EQ(system_error_of(outcome), ENOSR);
      EXPECT_EQ(endpoint->t_getstate(), state);
      EXPECT_TRUE(provider->sent.empty());
    }
  }
  bring_to(T_DATAXFER);
  set.pool().fail_when([] { return true; });
  EXPECT_EQ(system_error_of(endpoint->t_sndrel()), ENOSR);
  set.pool().fail_when({});
  EXPECT_TRUE(endpoint->t_sndrel());
}

}  // namespace
}  // namespace sluice::test
