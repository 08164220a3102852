// SPDX-License-Identifier: Apache-2.0

// I_SETSIG and I_GETSIG: which events of the stream call the user's function, and how. Quotations are of streamio(7)
// where nothing else is named.

#include "stack/head/signal_events.h"

#include "tests/stack/head/harness.h"

namespace sluice::test {
namespace {

using Events = SignalEvents;

class Signals : public StreamTest {
 protected:
  Signals() { open_watched(Events::all); }

  void open_watched(std::uint32_t events) {
    open({});
    EXPECT_TRUE(watch(events));
    told.clear();
  }
  Status watch(std::uint32_t events) {
    return stream->set_signal(events, [this](std::uint32_t happened, bool urgent) {
      told.push_back((urgent ? "SIGURG" : "SIGPOLL") + names_of(happened));
    });
  }
  void poll() { set.scheduler().poll(set.now()); }
  /// What the user is told in the next poll.
  std::vector<std::string> next() {
    told.clear();
    poll();
    return told;
  }
  static std::string names_of(std::uint32_t events) {
    static constexpr std::pair<std::uint32_t, const char*> names[] = {
        {Events::S_INPUT, " INPUT"},    {Events::S_HIPRI, " HIPRI"},   {Events::S_OUTPUT, " OUTPUT"},
        {Events::S_MSG, " MSG"},        {Events::S_ERROR, " ERROR"},   {Events::S_HANGUP, " HANGUP"},
        {Events::S_RDNORM, " RDNORM"},  {Events::S_RDBAND, " RDBAND"}, {Events::S_WRBAND, " WRBAND"},
        {Events::S_BANDURG, " BANDURG"}};
    std::string text;
    for (const auto& [event, name] : names) {
      text += (events & event) != 0 ? name : "";
    }
    return text;
  }
  /// The stream below is full for messages of this band, and a writer has been refused.
  void fill(std::uint8_t band) {
    device->stalled = true;
    ASSERT_TRUE(stream->putpmsg(std::nullopt, as_bytes("12345678"), false, band));
    ASSERT_FALSE(stream->can_put(band));
  }

  std::vector<std::string> told;
};

using ToldSignals = std::vector<std::string>;

// Every event that can come up or down a stream, and what is told of it when all is asked for: "S_INPUT Any message
// other than an M_PCPROTO has arrived on a stream head read queue. [...] This is set even if the message is of zero
// length." "S_RDNORM An ordinary (non-priority) message has arrived". "S_RDBAND A priority band message (band > 0) has
// arrived". "S_HIPRI A high priority message is present on the stream head read queue." "S_ERROR An M_ERROR message has
// reached the stream head." "S_HANGUP An M_HANGUP message has reached the stream head."
TEST_F(Signals, EveryEvent) {
  struct Case {
    const char* what;
    std::function<void()> happens;
    ToldSignals told;
    std::uint32_t watched = Events::all & ~std::uint32_t{Events::S_BANDURG};
  };
  const Case cases[] = {
      {"ordinary data", [this] { arrives({data("a")}); }, {"SIGPOLL INPUT RDNORM"}},
      {"an ordinary primitive", [this] { arrives({control("c"), data("a")}); }, {"SIGPOLL INPUT RDNORM"}},
      {"a message of zero length", [this] { arrives({data("")}); }, {"SIGPOLL INPUT RDNORM"}},
      {"data of band 3", [this] { arrives({data("a")}, 3); }, {"SIGPOLL INPUT RDBAND"}},
      {"zero length of band 255", [this] { arrives({data("")}, 255); }, {"SIGPOLL INPUT RDBAND"}},
      {"a high-priority message", [this] { arrives({urgent("u")}); }, {"SIGPOLL HIPRI"}},
      {"a second one, which is discarded",
       [this] {
         arrives({urgent("u")});
         poll();
         told.clear();
         arrives({urgent("v")});
       },
       {}},
      {"an error", [this] { signal(MessageType::error, {EIO}); }, {"SIGPOLL ERROR"}},
      {"an error that ends", [this] { signal(MessageType::error, {0}); }, {"SIGPOLL ERROR"}},
      {"an error without a byte", [this] { signal(MessageType::error); }, {}},
      {"a hangup", [this] { signal(MessageType::hangup); }, {"SIGPOLL HANGUP"}},
      {"a flush", [this] { signal(MessageType::flush, {flush_read}); }, {}},
      {"an ioctl's late answer", [this] { signal(MessageType::iocack); }, {}},
      {"M_CTL", [this] { signal(MessageType::ctl); }, {}},
      {"the way down is full",
       [this] {
         fill(0);
         fill(2);
       },
       {}},
      {"the way down is free again",
       [this] {
         fill(0);
         device->resume();
         poll();
       },
       {"SIGPOLL OUTPUT"}},
      {"a band is free again, nothing else was full",
       [this] {
         fill(2);
         device->resume();
         poll();
       },
       {"SIGPOLL OUTPUT WRBAND"}},
      {"several at once",
       [this] {
         arrives({data("a")});
         arrives({data("b")}, 1);
         arrives({urgent("u")});
         signal(MessageType::hangup);
       },
       {"SIGPOLL INPUT HIPRI HANGUP RDNORM RDBAND"}},
      // "S_BANDURG When used in conjunction with S_RDBAND, SIGURG is generated instead of SIGPOLL when a priority
      // message reaches the front of the stream head read queue."
      {"data of band 3, S_BANDURG", [this] { arrives({data("a")}, 3); }, {"SIGURG INPUT RDBAND"}, Events::all},
      {"ordinary data, S_BANDURG", [this] { arrives({data("a")}); }, {"SIGPOLL INPUT RDNORM"}, Events::all},
      {"both, S_BANDURG",
       [this] {
         arrives({data("a")});
         arrives({data("b")}, 1);
       },
       {"SIGURG INPUT RDBAND", "SIGPOLL INPUT RDNORM"},
       Events::all},
      {"a high-priority message, S_BANDURG", [this] { arrives({urgent("u")}); }, {"SIGPOLL HIPRI"}, Events::all},
  };
  for (const Case& one : cases) {
    open_watched(one.watched);
    one.happens();
    poll();
    poll();
    EXPECT_EQ(told, one.told) << one.what;
  }
}

// Each event by itself: who asks for one is told of no other.
TEST_F(Signals, OnlyWhatWasAskedFor) {
  const std::pair<std::uint32_t, ToldSignals> cases[] = {
      {Events::S_INPUT, {"SIGPOLL INPUT"}},
      {Events::S_RDNORM, {"SIGPOLL RDNORM"}},
      {Events::S_RDBAND, {"SIGPOLL RDBAND"}},
      {Events::S_HIPRI, {"SIGPOLL HIPRI"}},
      {Events::S_ERROR, {"SIGPOLL ERROR"}},
      {Events::S_HANGUP, {"SIGPOLL HANGUP"}},
      {Events::S_OUTPUT, {"SIGPOLL OUTPUT"}},
      {Events::S_WRBAND, {"SIGPOLL WRBAND"}},
      {Events::S_MSG, {}},
      {Events::S_RDBAND | Events::S_BANDURG, {"SIGURG RDBAND"}},
  };
  for (const auto& [events, expected] : cases) {
    open_watched(events);
    fill(0);
    fill(1);
    device->resume();
    poll();
    arrives({data("a")});
    arrives({data("b")}, 1);
    arrives({urgent("u")});
    signal(MessageType::error, {EIO});
    signal(MessageType::hangup);
    poll();
    EXPECT_EQ(told, expected) << names_of(events);
  }
}

// The call comes from the run loop and never out of a put procedure: it may read, write and close what it likes.
TEST_F(Signals, ComeFromTheRunLoopAndOnceForSeveralArrivals) {
  arrives({data("a")});
  arrives({data("b")});
  EXPECT_EQ(told, ToldSignals{});
  EXPECT_EQ(set.scheduler().next_deadline(), set.now()) << "the run loop knows that there is something to do";
  EXPECT_EQ(next(), ToldSignals{"SIGPOLL INPUT RDNORM"});
  EXPECT_EQ(next(), ToldSignals{}) << "what waits still is no arrival";
  EXPECT_EQ(set.scheduler().next_deadline(), never);
  EXPECT_EQ(read(1), "a");
  EXPECT_EQ(next(), ToldSignals{});
  arrives({data("c")});
  EXPECT_EQ(next(), ToldSignals{"SIGPOLL INPUT RDNORM"}) << "though one has not been read yet";
}

TEST_F(Signals, WhatWaitedBeforeIsNotToldOf) {
  open({});
  arrives({data("a")});
  ASSERT_TRUE(watch(Events::S_INPUT));
  EXPECT_EQ(next(), ToldSignals{});
}

// A stream that was full when the user asked tells when it is no longer, though nobody was refused.
TEST_F(Signals, OutputAfterAskingWhileFull) {
  open({});
  device->stalled = true;
  ASSERT_TRUE(stream->putmsg(std::nullopt, as_bytes("12345678")));
  ASSERT_TRUE(stream->putpmsg(std::nullopt, as_bytes("12345678"), false, 4));
  ASSERT_TRUE(watch(Events::S_WRNORM | Events::S_WRBAND));
  EXPECT_EQ(next(), ToldSignals{});
  device->resume();
  poll();
  poll();
  EXPECT_EQ(told, ToldSignals{"SIGPOLL OUTPUT WRBAND"});
}

TEST_F(Signals, OutputAloneAfterAskingWhileFull) {
  open({});
  device->stalled = true;
  ASSERT_TRUE(stream->putmsg(std::nullopt, as_bytes("12345678")));
  ASSERT_TRUE(watch(Events::S_OUTPUT));
  EXPECT_EQ(next(), ToldSignals{});
  device->resume();
  poll();
  poll();
  EXPECT_EQ(told, ToldSignals{"SIGPOLL OUTPUT"});
}

// A band that is free again while band 0 is not: S_WRBAND alone; band 0 follows when its turn has come.
TEST_F(Signals, BandsAreToldApart) {
  open_watched(Events::S_OUTPUT | Events::S_WRBAND);
  fill(0);
  fill(1);
  ASSERT_TRUE(device->write_queue().dequeue());  // of band 1, which comes first
  poll();
  EXPECT_EQ(next(), ToldSignals{"SIGPOLL WRBAND"});
  ASSERT_TRUE(device->write_queue().dequeue());
  poll();
  EXPECT_EQ(next(), ToldSignals{"SIGPOLL OUTPUT WRBAND"});
}

// "[EINVAL] The value of arg is invalid. [EINVAL] The value of arg is 0 and the calling process is not registered to
// receive the SIGPOLL signal." (ioctl(), XSH, I_SETSIG) "[EINVAL] User process is not registered to receive the SIGPOLL
// signal." (I_GETSIG)
TEST_F(Signals, RegisteringAndAskingBack) {
  open({});
  EXPECT_EQ(code_of(stream->signal_events()), EINVAL);
  EXPECT_EQ(code_of(stream->set_signal(0)), EINVAL);
  EXPECT_EQ(code_of(watch(0x0400)), EINVAL);
  EXPECT_EQ(code_of(watch(Events::S_BANDURG)), EINVAL) << "it goes with S_RDBAND";
  EXPECT_EQ(code_of(watch(Events::S_BANDURG | Events::S_RDNORM)), EINVAL);
  EXPECT_EQ(code_of(stream->signal_events()), EINVAL) << "what is refused changes nothing";
  ASSERT_TRUE(watch(Events::S_HIPRI));
  EXPECT_EQ(stream->signal_events().value_or(0), std::uint32_t{Events::S_HIPRI});
  ASSERT_TRUE(watch(Events::S_WRNORM | Events::S_MSG));
  EXPECT_EQ(stream->signal_events().value_or(0), Events::S_OUTPUT | Events::S_MSG)
      << "instead of what was asked before";
  EXPECT_EQ(code_of(watch(0x8000)), EINVAL);
  EXPECT_EQ(stream->signal_events().value_or(0), Events::S_OUTPUT | Events::S_MSG);
  // "If the value of arg is zero, the calling process is unregistered".
  EXPECT_TRUE(stream->set_signal(0));
  EXPECT_EQ(code_of(stream->signal_events()), EINVAL);
  EXPECT_EQ(code_of(stream->set_signal(0)), EINVAL);
}

// What has happened and has not been told yet is told only as far as it is still asked for.
TEST_F(Signals, AskingForLessForgetsTheRest) {
  arrives({data("a")});
  arrives({data("b")}, 1);
  ASSERT_TRUE(watch(Events::S_RDNORM));
  EXPECT_EQ(next(), ToldSignals{"SIGPOLL RDNORM"});
  arrives({data("c")});
  ASSERT_TRUE(stream->set_signal(0));
  EXPECT_EQ(next(), ToldSignals{});
}

TEST_F(Signals, WhatIsForgottenIsNotToldOfWhenItIsAskedForAgain) {
  ASSERT_TRUE(watch(Events::S_RDNORM | Events::S_RDBAND));
  arrives({data("a")});
  ASSERT_TRUE(watch(Events::S_RDBAND));
  ASSERT_TRUE(watch(Events::S_RDNORM | Events::S_RDBAND));
  EXPECT_EQ(next(), ToldSignals{});
}

TEST_F(Signals, WithoutBandUrgentWhatHasHappenedIsSigpoll) {
  arrives({data("b")}, 1);
  ASSERT_TRUE(watch(Events::S_INPUT | Events::S_RDBAND));
  EXPECT_EQ(next(), ToldSignals{"SIGPOLL INPUT RDBAND"});
}

TEST_F(Signals, TheHandlerMayReadAndAskAnew) {
  std::string brought;
  ASSERT_TRUE(
      stream->set_signal(Events::S_RDNORM | Events::S_RDBAND | Events::S_BANDURG, [&](std::uint32_t, bool urgent) {
        brought += urgent ? "urgent " : "";
        brought += read(10);
        EXPECT_TRUE(stream->set_signal(0));
      }));
  arrives({data("ordinary")});
  arrives({data("banded")}, 1);
  poll();
  EXPECT_EQ(brought, "urgent bandedordi") << "nobody asks for SIGPOLL any more";
  poll();
  EXPECT_EQ(brought, "urgent bandedordi");
}

TEST_F(Signals, AClosedStreamCallsNobody) {
  arrives({data("a")});
  stream.reset();
  EXPECT_EQ(next(), ToldSignals{});
  EXPECT_EQ(set.scheduler().next_deadline(), never);
}

}  // namespace
}  // namespace sluice::test
