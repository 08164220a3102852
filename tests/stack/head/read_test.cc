// SPDX-License-Identifier: Apache-2.0

// read(2) of a stream: three read modes, three protocol modes, messages of every shape. Quotations are of read(2) and
// streamio(7I) as illumos has them.

#include "tests/stack/head/harness.h"

namespace sluice::test {
namespace {

using enum ReadMode;
using enum ProtocolMode;
using Texts = std::vector<std::string>;

struct Arrival {
  std::vector<Part> parts;
  std::uint8_t band = 0;
};

struct ReadCase {
  std::string_view name;
  std::vector<ReadMode> modes;
  std::vector<ProtocolMode> protocols;
  std::vector<Arrival> arrivals;
  std::size_t size;  // of each read()
  Texts expected;    // of one read() after another; then EAGAIN, unless the last is an error
};

const std::vector<ReadMode> any_mode{byte_stream, message_discard, message_nondiscard};
const std::vector<ProtocolMode> any_protocol{refuse, as_data, discard};

const std::vector<ReadCase>& cases() {
  static const std::vector<ReadCase> table{
      // "Byte-stream mode ignores message boundaries."
      {"whole messages", {byte_stream}, any_protocol, {{{data("abc")}}, {{data("def")}}}, 10, {"abcdef"}},
      {"across a boundary", {byte_stream}, any_protocol, {{{data("abc")}}, {{data("def")}}}, 4, {"abcd", "ef"}},
      {"small reads", {byte_stream}, any_protocol, {{{data("abc")}}, {{data("def")}}}, 2, {"ab", "cd", "ef"}},
      // "In streams message-nondiscard mode, read() retrieves data until as many bytes as were requested are
      // transferred, or until a message boundary is reached. [...] the remaining data is left on the stream"
      {"up to a boundary", {message_nondiscard}, any_protocol, {{{data("abc")}}, {{data("def")}}}, 4, {"abc", "def"}},
      {"the rest stays",
       {message_nondiscard},
       any_protocol,
       {{{data("abc")}}, {{data("def")}}},
       2,
       {"ab", "c", "de", "f"}},
      // "Message-discard mode [...] unread data remaining in a message after the read() returns is discarded"
      {"one message", {message_discard}, any_protocol, {{{data("abc")}}, {{data("def")}}}, 4, {"abc", "def"}},
      {"the rest is lost", {message_discard}, any_protocol, {{{data("abc")}}, {{data("def")}}}, 2, {"ab", "de"}},
      {"exactly one message", any_mode, any_protocol, {{{data("abc")}}, {{data("def")}}}, 3, {"abc", "def"}},
      // A message is its bytes, however many blocks hold them.
      {"blocks", any_mode, any_protocol, {{{data("ab"), data("cd")}}}, 10, {"abcd"}},
      {"empty blocks", any_mode, any_protocol, {{{data(""), data("ab"), data(""), data("c")}}}, 10, {"abc"}},
      {"half the blocks",
       {byte_stream, message_nondiscard},
       any_protocol,
       {{{data("ab"), data("cd")}}},
       3,
       {"abc", "d"}},
      {"half the blocks", {message_discard}, any_protocol, {{{data("ab"), data("cd")}}}, 3, {"abc"}},
      // "In byte-stream mode, read() accepts data until [...] a zero-byte message block is encountered. The read()
      // function then returns the number of bytes read, and places the zero-byte message back". "In message-nondiscard
      // mode or message-discard mode, a zero-byte message returns 0 and the message is removed from the stream."
      {"zero bytes", any_mode, any_protocol, {{{data("ab")}}, {{data("")}}, {{data("cd")}}}, 10, {"ab", "", "cd"}},
      // "When a zero-byte message is read as the first message on a stream, the message is removed [...] and 0 is
      // returned, regardless of the read mode."
      {"zero bytes first", any_mode, any_protocol, {{{data("")}}, {{data("ab")}}}, 10, {"", "ab"}},
      // "A read() from a streams file returns the data in the message at the front of the stream head read queue,
      // regardless of the priority band of the message."
      {"bands", {byte_stream}, any_protocol, {{{data("o")}}, {{data("1")}, 1}, {{data("3")}, 3}}, 10, {"31o"}},
      {"bands", {message_nondiscard}, any_protocol, {{{data("o")}}, {{data("1")}, 1}}, 10, {"1", "o"}},
      {"a rest keeps its band",
       {message_nondiscard},
       any_protocol,
       {{{data("1")}, 1}, {{data("ab"), data("cd")}, 2}},
       3,
       {"abc", "d", "1"}},
      // RPROTNORM: "Reject read(2) with EBADMSG if a control message is at the front of the stream head read queue."
      {"control", any_mode, {refuse}, {{{control("ct")}}}, 10, {"EBADMSG"}},
      {"control and data", any_mode, {refuse}, {{{control("ct"), data("da")}}}, 10, {"EBADMSG"}},
      {"high priority", any_mode, {refuse}, {{{urgent("ct"), data("da")}}}, 10, {"EBADMSG"}},
      {"data before control",
       any_mode,
       {refuse},
       {{{data("ab")}}, {{control("ct"), data("da")}}},
       10,
       {"ab", "EBADMSG"}},
      // RPROTDAT: "Deliver the control portion of a message as data". "read() converts any control part to data and
      // passes it to the application before passing any data part originally present in the same message."
      {"control", any_mode, {as_data}, {{{control("ct")}}}, 10, {"ct"}},
      {"control and data", any_mode, {as_data}, {{{control("ct"), data("da")}}}, 10, {"ctda"}},
      {"high priority first", {byte_stream}, {as_data}, {{{data("ab")}}, {{urgent("ct"), data("da")}}}, 10, {"ctdaab"}},
      {"rest of control",
       {byte_stream},
       {as_data},
       {{{control("ct"), data("da")}}, {{data("x")}}},
       1,
       {"c", "t", "d", "a", "x"}},
      {"rest of control",
       {message_nondiscard},
       {as_data},
       {{{control("ct"), data("da")}}, {{data("x")}}},
       3,
       {"ctd", "a", "x"}},
      {"rest of control", {message_discard}, {as_data}, {{{control("ct"), data("da")}}, {{data("x")}}}, 1, {"c", "x"}},
      {"zero bytes of control", any_mode, {as_data}, {{{control("")}}, {{data("ab")}}}, 10, {"", "ab"}},
      {"a rest keeps its band",
       {message_nondiscard},
       {as_data},
       {{{data("1")}, 1}, {{control("ct"), data("da")}, 2}},
       2,
       {"ct", "da", "1"}},
      // RPROTDIS: "Discard the control portion of a message, delivering any data portion".
      {"control", any_mode, {discard}, {{{control("ct")}}}, 10, {}},
      {"control and data", any_mode, {discard}, {{{control("ct"), data("da")}}}, 10, {"da"}},
      {"high priority", any_mode, {discard}, {{{urgent("ct"), data("da")}}}, 10, {"da"}},
      {"control, then data", any_mode, {discard}, {{{control("ct")}}, {{data("ab")}}}, 10, {"ab"}},
      {"data, then control",
       {byte_stream},
       {discard},
       {{{data("ab")}}, {{control("ct")}}, {{data("cd")}}},
       10,
       {"abcd"}},
      {"control and zero bytes", any_mode, {discard}, {{{control("ct"), data("")}}, {{data("ab")}}}, 10, {"", "ab"}},
      {"zero bytes stay", {byte_stream}, {discard}, {{{data("ab")}}, {{control("ct"), data("")}}}, 10, {"ab", ""}},
      {"a rest keeps its band",
       {message_nondiscard},
       {discard},
       {{{data("1")}, 1}, {{control("c"), data("da")}, 2}},
       1,
       {"d", "a", "1"}},
  };
  return table;
}

class ReadTable : public StreamTest {
 protected:
  void check(const ReadCase& row, ReadMode mode, ProtocolMode protocol) {
    open({});
    stream->set_nonblocking(true);
    stream->set_read_options({mode, protocol});
    for (const Arrival& arrival : row.arrivals) {
      arrives(arrival.parts, arrival.band);
    }
    for (const std::string& expected : row.expected) {
      EXPECT_EQ(read(row.size), expected);
    }
    const bool refused = !row.expected.empty() && row.expected.back() == "EBADMSG";
    EXPECT_EQ(read(row.size), refused ? "EBADMSG" : "EAGAIN");
  }
};

TEST_F(ReadTable, EveryModeAndShape) {
  for (const ReadCase& row : cases()) {
    for (const ReadMode mode : row.modes) {
      for (const ProtocolMode protocol : row.protocols) {
        SCOPED_TRACE(std::string(row.name) + ", read mode " + std::to_string(static_cast<int>(mode)) +
                     ", protocol mode " + std::to_string(static_cast<int>(protocol)));
        check(row, mode, protocol);
      }
    }
  }
}

using Read = StreamTest;

// "The default is byte-stream mode." "By default, streams are in control-normal mode".
TEST_F(Read, DefaultsAreByteStreamAndControlNormal) {
  EXPECT_EQ(stream->read_options().mode, byte_stream);
  EXPECT_EQ(stream->read_options().protocol, refuse);
}

// I_GRDOPT: "Returns the current read mode setting".
TEST_F(Read, OptionsAreReturnedAsSet) {
  stream->set_read_options({message_discard, as_data});
  EXPECT_EQ(stream->read_options().mode, message_discard);
  EXPECT_EQ(stream->read_options().protocol, as_data);
}

// "If nbyte is 0, read() returns 0 and has no other results."
TEST_F(Read, NoBytesAskedForHasNoOtherResults) {
  EXPECT_EQ(read(0), "");
  stream->set_read_options({message_discard, refuse});
  arrives({data("abc")});
  EXPECT_EQ(read(0), "");
  EXPECT_EQ(read(10), "abc");
}

// "EBADMSG Message waiting to be read on a stream is not a data message": it is still there for getmsg().
TEST_F(Read, RefusedMessageStaysForGetmsg) {
  arrives({urgent("ct"), data("da")});
  EXPECT_EQ(read(10), "EBADMSG");
  std::string control(10, '\0');
  const auto got = stream->getmsg(std::as_writable_bytes(std::span(control)), std::nullopt);
  ASSERT_TRUE(got);
  EXPECT_EQ(got->control, 2U);
  EXPECT_TRUE(got->high_priority);
}

// "If O_NDELAY and O_NONBLOCK are clear, read() blocks until data becomes available."
TEST_F(Read, WaitsForAMessage) {
  SimulatedWaiter waiter(set);
  stream->set_waiter(&waiter);
  waiter.after(std::chrono::seconds(1), [&] { arrives({data("late")}); });
  EXPECT_EQ(read(10), "late");
  EXPECT_EQ(waiter.now(), TimePoint{} + std::chrono::seconds(1));
}

// In control-discard mode a message without a data part does not end the wait: there is nothing to return for it.
TEST_F(Read, WaitsPastADiscardedControlPart) {
  SimulatedWaiter waiter(set);
  stream->set_waiter(&waiter);
  stream->set_read_options({message_nondiscard, discard});
  arrives({control("ct")});
  waiter.after(std::chrono::seconds(1), [&] { arrives({data("late")}); });
  EXPECT_EQ(read(10), "late");
}

// "If O_NDELAY or O_NONBLOCK is set, read() returns -1 and sets errno to EAGAIN."
TEST_F(Read, NonBlockingDoesNotWait) {
  SimulatedWaiter waiter(set);
  stream->set_waiter(&waiter);
  stream->set_nonblocking(true);
  waiter.after(std::chrono::seconds(1), [&] { arrives({data("late")}); });
  EXPECT_EQ(read(10), "EAGAIN");
  EXPECT_EQ(waiter.waits, 0);
}

// What has been read is returned at once: "until there is no more data to be retrieved".
TEST_F(Read, DoesNotWaitForMoreThanThereIs) {
  SimulatedWaiter waiter(set);
  stream->set_waiter(&waiter);
  arrives({data("ab")});
  EXPECT_EQ(read(10), "ab");
  EXPECT_EQ(waiter.waits, 0);
}

}  // namespace
}  // namespace sluice::test
