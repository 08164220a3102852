// SPDX-License-Identifier: Apache-2.0
// tirdwr on a stream that TLI has connected: what may wait at the stream head when it is pushed, and what read(),
// write() and the calls of TLI say then.

#include "stack/modules/tirdwr.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <functional>
#include <string>

#include "tests/tli/connection_harness.h"

namespace sluice::test {
namespace {

class TirdwrOnTli : public ConnectionTest {
 protected:
  TirdwrOnTli() { bring_to(tli::T_DATAXFER); }

  Status push() { return endpoint->stream().push(std::make_unique<Tirdwr>()); }
  /// What one read() brings, or its errno.
  std::string read(std::size_t size = 100) {
    std::string text(size, '\0');
    const auto got = endpoint->stream().read(std::as_writable_bytes(std::span(text)));
    return got ? text.substr(0, *got) : "errno " + std::to_string(got.error().code);
  }
  /// The errno of write(), or how many bytes it has taken.
  std::string write(std::string_view text) {
    const auto taken = endpoint->stream().write(as_bytes(text));
    return taken ? std::to_string(*taken) : "errno " + std::to_string(taken.error().code);
  }
  static std::string number(int error) { return "errno " + std::to_string(error); }
};

struct PushRow {
  const char* name;
  std::function<void(ConnectionProvider&)> waits;
  int error;
  std::string read;  // afterwards
};

// tirdwr(7M): "When the module is pushed onto a stream, it checks any existing data destined for the user to ensure
// that only regular data messages are present. [...] If any other messages are present, the I_PUSH will return an error
// with errno set to EPROTO."
TEST_F(TirdwrOnTli, Push) {
  const std::vector<PushRow> pushes{
      {"nothing", [](ConnectionProvider&) {}, 0, number(EAGAIN)},
      {"M_DATA", [](ConnectionProvider& p) { p.sends_bare("hello"); }, 0, "hello"},
      {"T_DATA_IND", [](ConnectionProvider& p) { p.sends("hello"); }, 0, "hello"},
      {"both, in order",
       [](ConnectionProvider& p) {
         p.sends("a");
         p.sends_bare("b");
         p.sends("c");
         p.sends("d");
         p.sends_bare("e");
       },
       0, "abcde"},
      {"T_DATA_IND of nothing",
       [](ConnectionProvider& p) {
         p.sends("");
         p.sends("x");
       },
       0, "x"},
      {"in their bands",
       [](ConnectionProvider& p) {
         p.sends("ordinary");
         p.up(tpi::DataInd{}, "higher", 1);
       },
       0, "higherordinary"},
      {"T_EXDATA_IND", [](ConnectionProvider& p) { p.expedites("now"); }, EPROTO, number(EBADMSG)},
      {"T_ORDREL_IND", [](ConnectionProvider& p) { p.releases(); }, EPROTO, number(EBADMSG)},
      {"T_DISCON_IND", [](ConnectionProvider& p) { p.disconnects(ECONNRESET); }, EPROTO, number(EBADMSG)},
      {"data, then T_ORDREL_IND",
       [](ConnectionProvider& p) {
         p.sends_bare("a");
         p.sends("b");
         p.releases();
       },
       EPROTO, "a"},
      {"M_PCPROTO", [](ConnectionProvider& p) { p.up(tpi::OkAck{tpi::T_CONN_REQ}, {}, 0, MessageType::pcproto); },
       EPROTO, number(EBADMSG)},
  };
  for (const PushRow& row : pushes) {
    SCOPED_TRACE(row.name);
    bring_to(tli::T_DATAXFER);
    row.waits(*provider);
    const Status pushed = push();
    EXPECT_EQ(pushed ? 0 : pushed.error().code, row.error);
    EXPECT_EQ(endpoint->stream().look().value(), row.error == 0 ? "tirdwr" : "timod");
    EXPECT_EQ(read(), row.read);
  }
}

TEST_F(TirdwrOnTli, WithoutMemoryItIsNotPushed) {
  std::vector<Message> all;
  for (std::size_t size = BufferPool::capacity_max; size > 0; size /= 2) {
    while (Message taken = Message::allocate(set.pool(), size)) {
      all.push_back(std::move(taken));
    }
  }
  const Status pushed = push();
  ASSERT_FALSE(pushed);
  EXPECT_EQ(pushed.error().code, ENOSR);
}

TEST_F(TirdwrOnTli, ReadsAndWrites) {
  ASSERT_TRUE(push());
  EXPECT_EQ(write("question"), "8");
  EXPECT_EQ(provider->sent, std::vector<std::string>{"M_DATA question"});
  provider->sends("ans");
  provider->sends("wer");
  EXPECT_EQ(read(), "answer");
  EXPECT_EQ(read(), number(EAGAIN));
}

// "Messages that represent an orderly release indication [...] generate a zero length data message, indicating the end
// of file": what came before is read first, and what is to be sent may still be.
TEST_F(TirdwrOnTli, AReleaseOfThePeerIsTheEndOfTheFile) {
  ASSERT_TRUE(push());
  provider->sends("last");
  provider->releases();
  EXPECT_EQ(read(), "last");
  EXPECT_EQ(read(), "");
  EXPECT_EQ(read(), number(EAGAIN));
  EXPECT_EQ(write("reply"), "5");
  EXPECT_TRUE(endpoint->stream().pop());
  EXPECT_EQ(provider->sent, (std::vector<std::string>{"M_DATA reply", "T_ORDREL_REQ"}));
}

TEST_F(TirdwrOnTli, AnAbortIsAHangup) {
  ASSERT_TRUE(push());
  provider->up(tpi::DisconInd{.reason = ECONNRESET}, {});
  EXPECT_EQ(write("late"), number(ENXIO));
  EXPECT_EQ(read(), "");
  EXPECT_EQ(read(), "");
}

// "After the tirdwr module has been pushed onto a stream, none of the TI functions can be used. Subsequent calls to TI
// functions cause an error on the stream. Once the error is detected, subsequent system calls on the stream return an
// error with errno set to EPROTO."
TEST_F(TirdwrOnTli, CallsOfTliFailTheStream) {
  ASSERT_TRUE(push());
  EXPECT_TRUE(endpoint->t_sndrel());  // sends; what comes of it is the stream's affair
  EXPECT_EQ(provider->sent, std::vector<std::string>{});
  EXPECT_EQ(read(), number(EPROTO));
  EXPECT_EQ(write("late"), number(EPROTO));
  EXPECT_EQ(error_of(endpoint->t_sync()), tpi::TSYSERR);
}

TEST_F(TirdwrOnTli, PoppedTliGoesOn) {
  ASSERT_TRUE(push());
  EXPECT_EQ(write("by write"), "8");
  ASSERT_TRUE(endpoint->stream().pop());
  provider->sends("by t_rcv");
  EXPECT_EQ(receive(100), "by t_rcv");
}

// t_open() asks for timod on top: a stack file that ends with tirdwr makes no endpoint.
TEST_F(TirdwrOnTli, AStreamThatBeginsWithItIsNoEndpoint) {
  auto stream = std::move(*Stream::open(set, std::make_unique<ConnectionProvider>()));
  ASSERT_TRUE(stream->push(std::make_unique<Timod>()));
  ASSERT_TRUE(stream->push(std::make_unique<Tirdwr>()));
  EXPECT_EQ(error_of(tli::Endpoint::t_open(std::move(stream), nullptr)), tpi::TBADNAME);
}

}  // namespace
}  // namespace sluice::test
