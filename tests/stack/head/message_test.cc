// SPDX-License-Identifier: Apache-2.0

// getmsg(2), putmsg(2) and what streamio(7I) tells about waiting messages. Quotations are of illumos's manual pages
// and, where they say so, of the STREAMS Programming Guide.

#include <algorithm>

#include "tests/stack/head/harness.h"

namespace sluice::test {
namespace {

using std::nullopt;
using Text = std::optional<std::string>;

std::string shown(const Text& text) { return text ? '"' + *text + '"' : "none"; }

/// A message as getmsg() tells it.
struct Told {
  Text control;
  Text data;
  bool more_control = false;
  bool more_data = false;
  bool high_priority = false;
  int band = 0;

  friend bool operator==(const Told&, const Told&) = default;
};

void PrintTo(const Told& told, std::ostream* out) {
  *out << "control " << shown(told.control) << ", data " << shown(told.data) << (told.more_control ? " MORECTL" : "")
       << (told.more_data ? " MOREDATA" : "") << (told.high_priority ? " RS_HIPRI" : "") << " band " << told.band;
}

class MessageTest : public StreamTest {
 protected:
  using Size = std::optional<std::size_t>;  // of a buffer; none: no buffer (maxlen -1)

  template <class Call>
  static Told told_by(Call call, Size control_max, Size data_max) {
    std::string control(control_max.value_or(0), '\0');
    std::string data(data_max.value_or(0), '\0');
    const auto buffer = [](Size size, std::string& text) {
      return size ? std::optional<Bytes>(std::as_writable_bytes(std::span(text))) : nullopt;
    };
    const Received got = call(buffer(control_max, control), buffer(data_max, data));
    const auto part = [](Size size, const std::string& text) { return size ? Text(text.substr(0, *size)) : nullopt; };
    return {
        part(got.control, control), part(got.data, data), got.more_control, got.more_data, got.high_priority, got.band};
  }
  Told getmsg(Size control_max, Size data_max, bool high_priority_only = false) {
    return told_by(
        [&](auto control, auto data) {
          const auto got = stream->getmsg(control, data, high_priority_only);
          EXPECT_TRUE(got) << "errno " << code_of(got);
          return got.value_or(Received{});
        },
        control_max, data_max);
  }
  Told peek(Size control_max, Size data_max) {
    return told_by([&](auto control, auto data) { return stream->peek(control, data).value().value_or(Received{}); },
                   control_max, data_max);
  }
  int getmsg_error(bool high_priority_only = false) {
    return code_of(stream->getmsg(nullopt, nullopt, high_priority_only));
  }
};

// ---- getmsg ----

/// One part of a message, and what one call makes of it.
struct PartRule {
  Text there;
  std::optional<std::size_t> buffer;

  // "0 if there is a zero-length control or data part; or -1 if no data or control information is present". "If the
  // maxlen member is [...] less than [...] the control or data part of the message, maxlen bytes are retrieved."
  [[nodiscard]] Text told() const { return there && buffer ? Text(there->substr(0, *buffer)) : nullopt; }
  // "If ctlptr is NULL or the maxlen member is -1, the control (or data) part of the message is not processed and is
  // left". "If the maxlen member is set to 0 and there is a zero-length control (or data) part, that zero-length part
  // is removed".
  [[nodiscard]] bool more() const { return there && (!buffer || *buffer < there->size()); }
  [[nodiscard]] Text rest() const { return more() ? Text(there->substr(buffer.value_or(0))) : nullopt; }
};

class GetmsgTable : public MessageTest {
 protected:
  void check(const PartRule& control, const PartRule& data, bool high_priority) {
    open({});
    stream->set_nonblocking(true);
    std::vector<Part> parts;
    if (control.there) {
      parts.push_back({high_priority ? MessageType::pcproto : MessageType::proto, *control.there});
    }
    if (data.there) {
      parts.push_back(test::data(*data.there));
    }
    const int band = high_priority ? 0 : 2;
    arrives(parts, static_cast<std::uint8_t>(band));
    const Told expected{control.told(), data.told(), control.more(), data.more(), high_priority, band};
    EXPECT_EQ(peek(control.buffer, data.buffer), expected);
    EXPECT_EQ(getmsg(control.buffer, data.buffer), expected);
    if (control.more() || data.more()) {
      // "Subsequent getmsg() calls retrieve the remainder of the message."
      EXPECT_EQ(getmsg(10, 10),
                (Told{control.rest(), data.rest(), false, false, high_priority && control.more(), band}));
    }
    EXPECT_EQ(getmsg_error(), EAGAIN);
  }
};

TEST_F(GetmsgTable, EveryPartIntoEveryBuffer) {
  const std::vector<Text> parts{nullopt, "", "part"};
  const std::vector<std::optional<std::size_t>> buffers{nullopt, 0, 1, 4, 10};
  for (const Text& control : parts) {
    for (const Text& data : parts) {
      for (const auto& control_buffer : buffers) {
        for (const auto& data_buffer : buffers) {
          for (const bool high_priority : {false, true}) {
            if ((!control && !data) || (high_priority && !control)) {
              continue;  // there is no such message
            }
            SCOPED_TRACE(testing::Message() << "control " << shown(control) << " into " << control_buffer.value_or(999)
                                            << ", data " << shown(data) << " into " << data_buffer.value_or(999)
                                            << ", high priority " << high_priority);
            check({control, control_buffer}, {data, data_buffer}, high_priority);
          }
        }
      }
    }
  }
}

using Getmsg = MessageTest;

// A part may lie in several blocks, and the rest of it begins in the middle of one.
TEST_F(Getmsg, PartsInSeveralBlocks) {
  arrives({urgent("ab"), control("cd"), data("ef"), data("gh")});
  EXPECT_EQ(getmsg(3, 1), (Told{"abc", "e", true, true, true, 0}));
  EXPECT_EQ(getmsg(3, 2), (Told{"d", "fg", false, true, true, 0}));
  EXPECT_EQ(getmsg(3, 2), (Told{nullopt, "h", false, false, false, 0}));
}

// "However, if a message of higher priority has been received by the stream head read queue, the next call to getmsg()
// will retrieve that higher priority message before retrieving the remainder of the previously received partial
// message."
TEST_F(Getmsg, HigherPriorityComesBeforeARest) {
  arrives({control("ct"), data("abcd")}, 1);
  EXPECT_EQ(getmsg(2, 2), (Told{"ct", "ab", false, true, false, 1}));
  arrives({data("band 2")}, 2);
  arrives({data("band 1")}, 1);
  arrives({urgent("high")});
  EXPECT_EQ(getmsg(10, 10), (Told{"high", nullopt, false, false, true, 0}));
  EXPECT_EQ(getmsg(10, 10), (Told{nullopt, "band 2", false, false, false, 2}));
  EXPECT_EQ(getmsg(10, 10), (Told{nullopt, "cd", false, false, false, 1}));
  EXPECT_EQ(getmsg(10, 10), (Told{nullopt, "band 1", false, false, false, 1}));
}

// High priority first, then band after band, in the order of arrival within each.
TEST_F(Getmsg, OrderOfBands) {
  for (const auto& [text, band] : std::vector<std::pair<std::string_view, std::uint8_t>>{
           {"0a", 0}, {"2a", 2}, {"7a", 7}, {"1a", 1}, {"0b", 0}, {"2b", 2}}) {
    arrives({data(text)}, band);
  }
  arrives({urgent("high")});
  std::string order;
  for (int i = 0; i < 7; ++i) {
    const Told told = getmsg(10, 10);
    order += told.control.value_or("") + told.data.value_or("") + ' ';
  }
  EXPECT_EQ(order, "high 7a 2a 2b 1a 0a 0b ");
}

// "The stream head allows only one M_PCPROTO message to be placed in its read queue at a time. If an M_PCPROTO message
// is already in the queue when another arrives, the second message is discarded" (STREAMS Programming Guide,
// M_PCPROTO).
TEST_F(Getmsg, OnlyOneHighPriorityMessageWaits) {
  arrives({urgent("first")});
  arrives({urgent("second")});
  EXPECT_EQ(counter("second_high_priority"), 1U);
  // What is left of the first still is the one.
  EXPECT_EQ(getmsg(2, nullopt), (Told{"fi", nullopt, true, false, true, 0}));
  arrives({urgent("third")});
  EXPECT_EQ(counter("second_high_priority"), 2U);
  EXPECT_EQ(getmsg(10, nullopt), (Told{"rst", nullopt, false, false, true, 0}));
  arrives({urgent("fourth")});
  EXPECT_EQ(getmsg(10, nullopt), (Told{"fourth", nullopt, false, false, true, 0}));
}

// RS_HIPRI: "getmsg() processes the next message only if it is a high priority message."
TEST_F(Getmsg, HighPriorityOnly) {
  arrives({control("ordinary")});
  EXPECT_EQ(getmsg_error(true), EAGAIN);
  arrives({urgent("high")});
  EXPECT_EQ(getmsg(10, 10, true), (Told{"high", nullopt, false, false, true, 0}));
  EXPECT_EQ(getmsg_error(true), EAGAIN);
  EXPECT_EQ(getmsg(10, 10), (Told{"ordinary", nullopt, false, false, false, 0}));
}

// MSG_BAND: "the first message [...] if it is a message in a priority band equal to, or greater than, the integer
// pointed to by bandp, or if it is a high-priority message." (getpmsg(), XSH)
TEST_F(Getmsg, OfABandAndAbove) {
  const auto band_of = [&](Wanted wanted, int band) {
    const auto got = stream->getpmsg(nullopt, Bytes(), wanted, band);
    return got ? static_cast<int>(got->band) : -code_of(got);
  };
  arrives({data("")}, 9);
  EXPECT_EQ(band_of(Wanted::band, 10), -EAGAIN);
  EXPECT_EQ(band_of(Wanted::high_priority, 0), -EAGAIN);
  EXPECT_EQ(band_of(Wanted::band, 9), 9);
  arrives({data("")}, 255);
  EXPECT_EQ(band_of(Wanted::band, 0), 255);
  arrives({urgent("")});
  EXPECT_TRUE(stream->getpmsg(Bytes(), nullopt, Wanted::band, 255));
  // "[EINVAL] An illegal value was specified by flagsp, or [...] the band".
  for (const int band : {-1, 256}) {
    EXPECT_EQ(band_of(Wanted::band, band), -EINVAL);
  }
  EXPECT_EQ(band_of(Wanted::any, 1), -EINVAL);
  EXPECT_EQ(band_of(Wanted::high_priority, 1), -EINVAL);
}

// "getmsg() blocks until a message of the type specified by flagsp is available".
TEST_F(Getmsg, WaitsForHighPriorityPastOrdinaryMessages) {
  SimulatedWaiter waiter(set);
  stream->set_waiter(&waiter);
  waiter.after(std::chrono::seconds(1), [&] { arrives({data("ordinary")}); });
  waiter.after(std::chrono::seconds(2), [&] { arrives({urgent("high")}); });
  EXPECT_EQ(getmsg(10, 10, true), (Told{"high", nullopt, false, false, true, 0}));
  EXPECT_EQ(waiter.now(), TimePoint{} + std::chrono::seconds(2));
  EXPECT_EQ(getmsg(10, 10), (Told{nullopt, "ordinary", false, false, false, 0}));
}

// ---- I_PEEK, I_NREAD ----

// I_PEEK: "analogous to getmsg(2) except that it does not remove the message from the queue." "It does not wait for a
// message to arrive."
TEST_F(MessageTest, PeekNeitherTakesNorWaits) {
  SimulatedWaiter waiter(set);
  stream->set_waiter(&waiter);
  EXPECT_FALSE(stream->peek(nullopt, nullopt).value());
  EXPECT_EQ(waiter.waits, 0);
  arrives({control("c"), control("t"), data("da"), data("ta")});
  const Told told{"ct", "data", false, false, false, 0};
  EXPECT_EQ(peek(10, 10), told);
  EXPECT_EQ(peek(10, 10), told);
  EXPECT_EQ(getmsg(10, 10), told);
}

// "If RS_HIPRI is set, I_PEEK will look for a high priority message on the stream head read queue."
TEST_F(MessageTest, PeekForHighPriorityOnly) {
  arrives({data("ordinary")});
  EXPECT_FALSE(stream->peek(nullopt, nullopt, true).value());
  arrives({urgent("high")});
  EXPECT_TRUE(stream->peek(nullopt, nullopt, true).value());
}

// I_NREAD: "Counts the number of data bytes in data blocks in the first message [...] The return value for the command
// is the number of messages on the stream head read queue."
TEST_F(MessageTest, NreadCountsDataBytesOfTheFirstMessage) {
  const auto waiting = [&] { return std::pair(stream->nread().messages, stream->nread().first_data_bytes); };
  EXPECT_EQ(waiting(), std::pair(std::size_t{0}, std::size_t{0}));
  arrives({control("control"), data("da"), data("ta")});
  arrives({data("longer data")});
  EXPECT_EQ(waiting(), std::pair(std::size_t{2}, std::size_t{4}));
  arrives({urgent("high")});
  // "if zero is returned in arg, but the ioctl() return value is greater than zero, this indicates that a zero-length
  // message is next on the queue."
  EXPECT_EQ(waiting(), std::pair(std::size_t{3}, std::size_t{0}));
}

// ---- putmsg, write ----

class Putmsg : public MessageTest {
 protected:
  static std::optional<ConstBytes> bytes(const Text& text) {
    return text ? std::optional<ConstBytes>(as_bytes(*text)) : nullopt;
  }
};

// "The message may contain either a data part, a control part, or both." "For putmsg(), if a control part is specified,
// and flags is set to RS_HIPRI, a high priority message is sent. If no control part is specified, and flags is set to
// RS_HIPRI, putmsg() fails and sets errno to EINVAL. [...] If no control part and no data part are specified, and flags
// is set to 0, no message is sent, and 0 is returned."
TEST_F(Putmsg, EveryCombinationOfParts) {
  const std::vector<Text> parts{nullopt, "", "part"};
  for (const Text& control : parts) {
    for (const Text& data : parts) {
      for (const bool high_priority : {false, true}) {
        SCOPED_TRACE(testing::Message() << "control " << shown(control) << ", data " << shown(data)
                                        << ", high priority " << high_priority);
        device->sent.clear();
        const Status put = stream->putmsg(bytes(control), bytes(data), high_priority);
        if (high_priority && !control) {
          EXPECT_EQ(code_of(put), EINVAL);
          EXPECT_TRUE(device->sent.empty());
          continue;
        }
        EXPECT_TRUE(put);
        ASSERT_EQ(device->sent.size(), control || data ? 1U : 0U);
        if (!device->sent.empty()) {
          const Message& sent = device->sent[0];
          EXPECT_EQ(sent.type(), !control        ? MessageType::data
                                 : high_priority ? MessageType::pcproto
                                                 : MessageType::proto);
          EXPECT_EQ(text_of(sent, true), control.value_or(""));
          EXPECT_EQ(text_of(sent, false), data.value_or(""));
          EXPECT_EQ(sent.block_count(), (control ? 1U : 0U) + (data ? 1U : 0U));
        }
      }
    }
  }
}

// "If flags is set to MSG_BAND, then a message is sent in the priority band specified by band." "If flags is set to
// MSG_HIPRI and [...] band is set to a non-zero value, putpmsg() fails and sets errno to EINVAL."
TEST_F(Putmsg, Bands) {
  for (int band = 0; band < static_cast<int>(bands_max); ++band) {
    ASSERT_TRUE(stream->putpmsg(as_bytes("ct"), as_bytes("da"), false, band));
    EXPECT_EQ(device->sent.back().band(), band);
  }
  for (const int band : {256, -1, 512}) {
    EXPECT_EQ(code_of(stream->putpmsg(as_bytes("ct"), nullopt, false, band)), EINVAL) << band;
  }
  EXPECT_EQ(code_of(stream->putpmsg(as_bytes("ct"), nullopt, true, 1)), EINVAL);
  EXPECT_EQ(device->sent.size(), bands_max);
}

// "The stream head guarantees that the control part of a message generated by putmsg() is at least 64 bytes in length":
// a module may answer in the same block.
TEST_F(Putmsg, ControlPartHasRoomForAnAnswer) {
  ASSERT_TRUE(stream->putmsg(as_bytes("c"), nullopt));
  EXPECT_GE(device->sent[0].first().buffer->capacity(), 64U);
}

// ERANGE: "the control part of the message is larger than the maximum configured size of the control part of a message,
// or
// [...] the data part of a message is larger than the maximum configured size of the data part".
TEST_F(Putmsg, PartsThatAreTooLarge) {
  open({.packet_bytes_max = 100});
  const std::string largest_control(Stream::control_bytes_max, 'c');
  const std::string largest_data(100, 'd');
  EXPECT_TRUE(stream->putmsg(as_bytes(largest_control), as_bytes(largest_data)));
  EXPECT_EQ(code_of(stream->putmsg(as_bytes(largest_control + 'c'), nullopt)), ERANGE);
  EXPECT_EQ(code_of(stream->putmsg(nullopt, as_bytes(largest_data + 'd'))), ERANGE);
  EXPECT_EQ(device->sent.size(), 1U);
}

// ENOSR: "Buffers could not be allocated for the message that was to be created". "No partial message is sent."
TEST_F(Putmsg, PoolExhausted) {
  StreamSet small({.pool_bytes_max = 128 * 1024, .seed = 0});
  auto made = std::make_unique<Device>();
  Device* taker = made.get();
  const auto poor = std::move(*Stream::open(small, std::move(made)));
  const std::string large(BufferPool::capacity_max, 'x');
  EXPECT_EQ(code_of(poor->putmsg(nullopt, as_bytes(large))), ENOSR);
  EXPECT_EQ(code_of(poor->putmsg(as_bytes("ct"), as_bytes(large))), ENOSR);
  EXPECT_EQ(code_of(poor->write(as_bytes(large))), ENOSR);
  EXPECT_EQ(code_of(poor->ioctl(1, as_bytes(large))), ENOSR);
  EXPECT_TRUE(taker->sent.empty());
  EXPECT_EQ(small.pool().statistics().buffers_in_use, 0U);
}

// "Writing a zero-length buffer (nbyte is zero) to a streams device sends a zero length message with zero returned."
// "When writing to a stream, data messages are created with a priority band of zero." (write(2))
TEST_F(Putmsg, WriteOfNothingSendsAnEmptyMessage) {
  EXPECT_EQ(stream->write({}).value_or(99), 0U);
  ASSERT_EQ(device->sent.size(), 1U);
  EXPECT_EQ(device->sent[0].type(), MessageType::data);
  EXPECT_EQ(device->sent[0].size(), 0U);
  EXPECT_EQ(device->sent[0].band(), 0);
}

// "write() breaks the buffer into maximum packet size segments prior to sending the data downstream (the last segment
// may be smaller than the maximum packet size)." (write(2))
TEST_F(Putmsg, WriteBreaksTheBufferIntoPackets) {
  open({.packet_bytes_max = 4});
  EXPECT_EQ(stream->write(as_bytes("abcdefghij")).value_or(0), 10U);
  std::string packets;
  for (const Message& message : device->sent) {
    packets += text_of(message, false) + '|';
  }
  EXPECT_EQ(packets, "abcd|efgh|ij|");
}

// ---- The blocks of a message that goes down ----

class NeedsRoom : public Module {
 public:
  NeedsRoom() : Module("needs_room") {}
  [[nodiscard]] std::size_t headroom() const override { return 42; }
};

std::size_t headroom_of(const Block& block) { return static_cast<std::size_t>(block.rptr - block.buffer->base()); }
std::size_t tail_of(const Block& block) { return static_cast<std::size_t>(block.buffer->limit() - block.wptr); }

// SO_WROFF, and what the modules on the stream ask for: a header is prepended where the data lies.
TEST_F(Putmsg, HeadroomOfTheWholeStream) {
  open({.write_offset = 8});
  ASSERT_TRUE(stream->putmsg(as_bytes("ct"), as_bytes("da")));
  // At least what is asked for, in whole cache lines.
  EXPECT_EQ(headroom_of(*device->sent.back().data_block()), 64U);
  ASSERT_TRUE(stream->push(std::make_unique<NeedsRoom>()));
  ASSERT_TRUE(stream->push(std::make_unique<NeedsRoom>()));
  ASSERT_TRUE(stream->write(as_bytes("da")));
  EXPECT_EQ(headroom_of(device->sent.back().first()), 128U) << "8 + 42 + 42";
  const Bytes header = device->sent.back().prepend(92);
  EXPECT_EQ(header.size(), 92U);
  EXPECT_EQ(device->sent.back().block_count(), 1U);
  EXPECT_EQ(headroom_of(stream->allocate(100).first()), 128U);
  ASSERT_TRUE(stream->pop());
  ASSERT_TRUE(stream->write(as_bytes("da")));
  EXPECT_EQ(headroom_of(device->sent.back().first()), 64U) << "8 + 42";
}

// SO_TAIL: a trailer is appended where the data lies.
TEST_F(Putmsg, TailRoom) {
  open({.write_tail = 100});
  const std::string whole_class(64, 'x');
  ASSERT_TRUE(stream->write(as_bytes(whole_class)));
  EXPECT_GE(tail_of(device->sent.back().first()), 100U);
  ASSERT_TRUE(stream->putmsg(as_bytes("ct"), as_bytes(whole_class)));
  EXPECT_GE(tail_of(*device->sent.back().data_block()), 100U);
  EXPECT_EQ(device->sent.back().append(100).size(), 100U);
  EXPECT_EQ(device->sent.back().block_count(), 2U);
}

// SO_MAXBLK: a larger user message is one message of several blocks; only the first has the headroom, only the last the
// tail.
TEST_F(Putmsg, LargeMessagesAreChains) {
  open({.write_offset = 16, .write_tail = 32, .block_bytes_max = 1000});
  std::string text(2500, '\0');
  std::ranges::generate(text, [n = 0]() mutable { return static_cast<char>(n++ % 251); });
  EXPECT_EQ(stream->write(as_bytes(text)).value_or(0), 2500U);
  ASSERT_EQ(device->sent.size(), 1U);
  Message& sent = device->sent[0];
  EXPECT_EQ(text_of(sent, false), text);
  std::vector<std::size_t> sizes;
  std::vector<std::size_t> headrooms;
  for (const Block* block = &sent.first(); block != nullptr; block = block->cont) {
    sizes.push_back(block->size());
    headrooms.push_back(headroom_of(*block));
  }
  EXPECT_EQ(sizes, (std::vector<std::size_t>{1000, 1000, 500}));
  EXPECT_EQ(headrooms, (std::vector<std::size_t>{64, 0, 0}));
  EXPECT_EQ(sent.append(32).size(), 32U);
  EXPECT_EQ(sent.block_count(), 3U);
}

// The largest message with the largest blocks still has its headroom and its tail.
TEST_F(Putmsg, LargestMessage) {
  open({.write_offset = 64, .write_tail = 64, .block_bytes_max = BufferPool::capacity_max});
  const std::string text(BufferPool::capacity_max, 'x');
  EXPECT_EQ(stream->write(as_bytes(text)).value_or(0), text.size());
  ASSERT_EQ(device->sent.size(), 1U);
  EXPECT_EQ(device->sent[0].size(), text.size());
  EXPECT_EQ(device->sent[0].block_count(), 2U);
  EXPECT_EQ(headroom_of(device->sent[0].first()), 64U);
}

// ---- Without copies ----

TEST_F(MessageTest, SendAndReceiveMoveMessages) {
  Message message = stream->allocate(10, MessageType::proto);
  const std::byte* const where = message.first().rptr;
  Batch batch(std::move(message));
  batch.push(stream->allocate(10));
  ASSERT_TRUE(stream->send(std::move(batch)));
  ASSERT_EQ(device->sent.size(), 2U);
  EXPECT_EQ(device->sent[0].first().rptr, where);
  device->up(std::move(device->sent[0]));
  EXPECT_EQ(stream->receive().first().rptr, where);
  EXPECT_FALSE(stream->receive());
}

}  // namespace
}  // namespace sluice::test
