// SPDX-License-Identifier: Apache-2.0
#include "stack/modules/tirdwr.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <functional>
#include <string>

#include "stack/wire/tpi_connection.h"
#include "tests/stack/modules/harness.h"

namespace sluice::test {
namespace {

using namespace wire::tpi;

/// A message as a word: "M_DATA hello", "M_HANGUP", "M_ERROR 71 71", "T_ORDREL_REQ".
std::string word_of(const Message& message) {
  switch (message.type()) {
    case MessageType::data:
      return "M_DATA " + data_text(message);
    case MessageType::hangup:
      return "M_HANGUP";
    case MessageType::error:
      return "M_ERROR " + std::to_string(std::to_integer<int>(message.bytes()[0])) + " of " +
             std::to_string(message.bytes().size());
    case MessageType::flush:
      return "M_FLUSH";
    case MessageType::ioctl:
      return "M_IOCTL";
    case MessageType::setopts:
      return "M_SETOPTS";
    default:
      return OrdrelReq::decode(message.bytes())
                 ? "T_ORDREL_REQ"
                 : "primitive " + std::to_string(primitive_of(message.bytes()).value_or(-1));
  }
}

std::string words_of(Recorder& recorder) {
  std::string words;
  while (recorder.count() > 0) {
    words += (words.empty() ? "" : ", ") + word_of(recorder.take());
  }
  return words;
}

const std::string protocol_error = "M_ERROR " + std::to_string(EPROTO) + " of 1";

using Make = std::function<Message(Stack&)>;

template <class Primitive>
Make alone(const Primitive& primitive, MessageType type = MessageType::proto) {
  return [=](Stack& stack) { return proto(stack, primitive, type); };
}
template <class Primitive>
Make with(const Primitive& primitive, std::string_view text) {
  return [=](Stack& stack) { return with_data(proto(stack, primitive), data(stack, text)); };
}
Make plain(std::string_view text) {
  return [=](Stack& stack) { return data(stack, text); };
}

struct Row {
  const char* name;
  Make message;
  std::string passes;   // on its side
  std::string answers;  // on the other
  std::string counted;  // the counter that is 1; empty: none is
};

void expect_rows(const std::vector<Row>& rows, bool downwards) {
  for (const Row& row : rows) {
    SCOPED_TRACE(row.name);
    Stack stack;
    Tirdwr& tirdwr = stack.push<Tirdwr>();
    downwards ? stack.down(row.message(stack)) : stack.up(row.message(stack));
    EXPECT_EQ(words_of(downwards ? stack.driver() : stack.head()), row.passes);
    EXPECT_EQ(words_of(downwards ? stack.head() : stack.driver()), row.answers);
    for (const Counter* counter : tirdwr.counters()) {
      EXPECT_EQ(counter->value(), counter->name() == row.counted ? 1U : 0U) << counter->name();
    }
  }
}

// tirdwr(7M), "write": "All messages with the exception of messages that contain control portions [...] are
// transparently passed onto the module's downstream neighbor. Any zero length data messages are freed by the module
// [...]. Any messages with control portions generate an error, and any further system calls associated with the stream
// fails with errno set to EPROTO."
TEST(Tirdwr, Down) {
  expect_rows(
      {
          {"data", plain("hello"), "M_DATA hello", "", ""},
          {"data in blocks", [](Stack& stack) { return data_chain(stack, {"hel", "", "lo"}); }, "M_DATA hello", "", ""},
          {"no data", plain(""), "", "", ""},
          {"no data in blocks", [](Stack& stack) { return data_chain(stack, {"", ""}); }, "", "", ""},
          {"T_DATA_REQ", with(DataReq{}, "hello"), "", protocol_error, "refused"},
          {"T_ORDREL_REQ", alone(OrdrelReq{}), "", protocol_error, "refused"},
          {"T_DISCON_REQ", alone(DisconReq{}), "", protocol_error, "refused"},
          {"T_INFO_REQ", alone(InfoReq{}, MessageType::pcproto), "", protocol_error, "refused"},
          {"no primitive", [](Stack& stack) { return Message::allocate(stack.pool(), 1, 0, MessageType::proto); }, "",
           protocol_error, "refused"},
          {"unknown", [](Stack& stack) { return raw_proto(stack, {4711}); }, "", protocol_error, "refused"},
          {"M_FLUSH", [](Stack& stack) { return flush(stack, flush_write); }, "M_FLUSH", "", ""},
          {"M_IOCTL", [](Stack& stack) { return ioctl(stack, 1, 7); }, "M_IOCTL", "", ""},
      },
      true);
}

// tirdwr(7M), "read": "Any data messages with control portions have the control portions removed from the message
// before to passing the message on to the upstream neighbor. Messages that represent an orderly release indication
// [...] generate a zero length data message, indicating the end of file [...]. Messages that represent an abortive
// disconnect indication [...] cause all further write and putmsg system calls to fail with errno set to ENXIO. [...]
// With the exception of the above rules, all other messages with control portions generate an error [...]. Any zero
// length data messages are freed".
TEST(Tirdwr, Up) {
  expect_rows(
      {
          {"data", plain("hello"), "M_DATA hello", "", ""},
          {"no data", plain(""), "", "", ""},
          {"T_DATA_IND", with(DataInd{}, "hello"), "M_DATA hello", "", ""},
          {"T_DATA_IND with more", with(DataInd{1}, "hello"), "M_DATA hello", "", ""},
          {"T_DATA_IND alone", alone(DataInd{}), "", "", ""},
          {"T_DATA_IND of nothing", with(DataInd{}, ""), "", "", ""},
          {"T_ORDREL_IND", alone(OrdrelInd{}), "M_DATA ", "", "released"},
          {"T_DISCON_IND", alone(DisconInd{.reason = ECONNRESET}), "M_HANGUP", "", "disconnected"},
          {"T_DISCON_IND with data", with(DisconInd{.reason = 0}, "bye"), "M_HANGUP", "", "disconnected"},
          {"T_EXDATA_IND", with(ExdataInd{}, "now"), protocol_error, "", "refused"},
          {"T_UNITDATA_IND", with(UnitdataInd{.address = {}, .options = {}}, "a"), protocol_error, "", "refused"},
          {"T_CONN_IND", alone(ConnInd{.source = {}, .options = {}}), protocol_error, "", "refused"},
          {"T_CONN_CON", alone(ConnCon{.address = {}, .options = {}}), protocol_error, "", "refused"},
          {"T_OK_ACK", alone(OkAck{T_CONN_REQ}, MessageType::pcproto), protocol_error, "", "refused"},
          {"T_ERROR_ACK", alone(ErrorAck{T_CONN_REQ, TPROTO, 0}, MessageType::pcproto), protocol_error, "", "refused"},
          {"short T_DISCON_IND", [](Stack& stack) { return raw_proto(stack, {T_DISCON_IND}); }, protocol_error, "",
           "refused"},
          {"unknown", [](Stack& stack) { return raw_proto(stack, {4711}); }, protocol_error, "", "refused"},
          {"M_FLUSH", [](Stack& stack) { return flush(stack, flush_read); }, "M_FLUSH", "", ""},
          {"M_HANGUP", [](Stack& stack) { return test::bare(stack, MessageType::hangup); }, "M_HANGUP", "", ""},
          {"M_SETOPTS", [](Stack& stack) { return test::bare(stack, MessageType::setopts); }, "M_SETOPTS", "", ""},
      },
      false);
}

TEST(Tirdwr, ABatchKeepsItsOrder) {
  Stack stack;
  stack.push<Tirdwr>();
  Batch batch;
  for (const Make& make : {with(DataInd{}, "one"), plain("two"), alone(DataInd{}), with(DataInd{}, "three"),
                           alone(OrdrelInd{}), alone(DisconInd{})}) {
    batch.push(make(stack));
  }
  stack.up(std::move(batch));
  EXPECT_EQ(words_of(stack.head()), "M_DATA one, M_DATA two, M_DATA three, M_DATA , M_HANGUP");
}

TEST(Tirdwr, DataKeepsItsBand) {
  Stack stack;
  stack.push<Tirdwr>();
  Message message = with(DataInd{}, "higher")(stack);
  message.set_band(3);
  stack.up(std::move(message));
  EXPECT_EQ(stack.head().take().band(), 3);
}

// "Once the error is detected, subsequent system calls on the stream return an error": nothing follows M_ERROR.
TEST(Tirdwr, AfterAFailureDataAndPrimitivesAreFreed) {
  Stack stack;
  Tirdwr& tirdwr = stack.push<Tirdwr>();
  stack.up(with(ExdataInd{}, "now")(stack));
  EXPECT_EQ(words_of(stack.head()), protocol_error);
  stack.up(data(stack, "late"));
  stack.up(with(DataInd{}, "late")(stack));
  stack.up(alone(OrdrelInd{})(stack));
  stack.up(with(ExdataInd{}, "again")(stack));
  stack.down(data(stack, "late"));
  stack.down(alone(OrdrelReq{})(stack));
  EXPECT_EQ(words_of(stack.head()) + words_of(stack.driver()), "");
  EXPECT_EQ(count(tirdwr, "discarded"), 6U);
  EXPECT_EQ(count(tirdwr, "refused"), 1U);
  stack.down(flush(stack, flush_write));
  stack.up(test::bare(stack, MessageType::hangup));
  EXPECT_EQ(words_of(stack.driver()), "M_FLUSH");
  EXPECT_EQ(words_of(stack.head()), "M_HANGUP");
}

// "pop: [...] If an orderly release indication has been previously received, then an orderly release request will be
// sent to the remote side of the transport connection."
TEST(Tirdwr, Pop) {
  struct PopRow {
    const char* name;
    std::vector<Make> before;
    std::string sent;
  };
  for (const PopRow& row : {
           PopRow{"connected", {}, ""},
           PopRow{"data", {with(DataInd{}, "hello")}, ""},
           PopRow{"released", {alone(OrdrelInd{})}, "T_ORDREL_REQ"},
           PopRow{"aborted", {alone(DisconInd{})}, ""},
           PopRow{"released, then aborted", {alone(OrdrelInd{}), alone(DisconInd{})}, ""},
           PopRow{"aborted, then released", {alone(DisconInd{}), alone(OrdrelInd{})}, ""},
           PopRow{"released, then failed", {alone(OrdrelInd{}), with(ExdataInd{}, "now")}, ""},
       }) {
    SCOPED_TRACE(row.name);
    Stack stack;
    stack.push<Tirdwr>();
    for (const Make& make : row.before) {
      stack.up(make(stack));
    }
    EXPECT_TRUE(stack.pop());
    EXPECT_EQ(words_of(stack.driver()), row.sent);
  }
}

// What the module says last needs no memory when it is said; without memory for that it is not pushed.
TEST(Tirdwr, NeedsItsMemoryWhenItIsPushedOnly) {
  for (const bool releases : {false, true}) {
    Stack stack(1, std::size_t{1} << 20);
    Tirdwr& tirdwr = stack.push<Tirdwr>();
    Message last = releases ? alone(OrdrelInd{})(stack) : with(ExdataInd{}, "now")(stack);
    std::vector<Message> all;
    while (Message taken = Message::allocate(stack.pool(), 1)) {
      all.push_back(std::move(taken));
    }
    stack.up(std::move(last));
    EXPECT_EQ(words_of(stack.head()), releases ? "M_DATA " : protocol_error);
    EXPECT_EQ(count(tirdwr, "refused"), releases ? 0U : 1U);
    EXPECT_TRUE(stack.pop());
    EXPECT_EQ(words_of(stack.driver()), releases ? "T_ORDREL_REQ" : "");
  }
}

}  // namespace
}  // namespace sluice::test
