// SPDX-License-Identifier: Apache-2.0
// Native descriptors: the value of a primitive in front of a message, whose bytes are made when somebody looks at them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "stack/core/primitive.h"
#include "tests/stack/core/notice.h"
#include "tests/stack/core/support.h"

namespace sluice::testing {
namespace {

using ::testing::ElementsAre;
using Texts = std::vector<std::string>;

Message notice_message(BufferPool& pool, std::string_view text, std::string_view data = {}) {
  Message message = Message::of_native(pool, Notice::of(7, text));
  if (!data.empty()) {
    message.link(text_message(pool, data));
  }
  return message;
}

bool is_native(const Message& message) { return message.native<Notice>() != nullptr; }

/// Takes all memory of that pool that blocks of `capacity` bytes and less need.
std::vector<Message> exhaust(BufferPool& pool, std::size_t capacity) {
  std::vector<Message> hogs;
  for (; capacity > 0; capacity /= 2) {
    while (Block* const block = pool.allocate(capacity)) {
      hogs.emplace_back(block);
    }
  }
  return hogs;
}

// --- life ----------------------------------------------------------------------------------------------------------

TEST(NativeTest, IsAProtoBlockWhoseBytesAreNotMade) {
  BufferPool pool;
  Message message = Message::of_native(pool, Notice::of(7, "text"));
  ASSERT_TRUE(message);
  EXPECT_EQ(message.type(), MessageType::proto);
  EXPECT_TRUE(message.bytes().empty());
  EXPECT_EQ(message.size(), 6U) << "of the encoded form";
  EXPECT_EQ(message.data_size(), 0U);
  EXPECT_FALSE(message.has_data());
  ASSERT_TRUE(is_native(message));
  EXPECT_EQ(*message.native<Notice>(), Notice::of(7, "text"));
  EXPECT_EQ(message.native<Stranger>(), nullptr);
  EXPECT_EQ(text_message(pool, "#7text", MessageType::proto).native<Notice>(), nullptr);
}

TEST(NativeTest, EncodingMakesTheBytesInPlaceOnce) {
  BufferPool pool;
  for (const std::string text :
       {"", "text", "a text that is as long as any: 90 letters ...................................."}) {
    Message message = notice_message(pool, text, "data");
    const std::byte* const place = std::as_const(message).first().buffer->base();
    const std::size_t size = message.size();
    message.native<Notice>()->number = 3;
    message.encode();
    EXPECT_EQ(text_of(message), "#3" + text + "data");
    EXPECT_EQ(message.size(), size);
    EXPECT_EQ(message.data_size(), 4U);
    EXPECT_EQ(message.bytes().data(), place);
    EXPECT_FALSE(is_native(message));
    message.encode();
    EXPECT_EQ(text_of(message), "#3" + text + "data");
  }
  EXPECT_EQ(pool.statistics().buffers_in_use, 0U);
}

TEST(NativeTest, NoMemoryNoDescriptor) {
  BufferPool pool(96 * 1024);
  const std::vector<Message> hogs = exhaust(pool, 64 * 1024);
  EXPECT_FALSE(Message::of_native(pool, Notice::of(1, "text")));
}

TEST(NativeTest, SetNativeTakesThePlaceOfTheBytes) {
  BufferPool pool;
  const Notice notice = Notice::of(2, "new");
  Message roomy = Message::allocate(pool, 200, 10, MessageType::pcproto);
  roomy.first().band = 3;
  roomy.link(text_message(pool, "data"));
  const std::byte* const place = std::as_const(roomy).first().buffer->base();
  ASSERT_TRUE(roomy.set_native(notice));
  EXPECT_EQ(reinterpret_cast<const std::byte*>(roomy.native<Notice>()), place) << "in place";
  EXPECT_EQ(roomy.type(), MessageType::pcproto);
  EXPECT_EQ(roomy.band(), 3);
  EXPECT_EQ(roomy.data_size(), 4U);
  EXPECT_EQ(roomy.size(), 9U);
  roomy.encode();
  EXPECT_EQ(text_of(roomy), "#2newdata");
  ASSERT_TRUE(roomy.set_native(Notice::of(4, "")));
  EXPECT_EQ(roomy.size(), 6U) << "again";
}

TEST(NativeTest, SetNativeReplacesABlockThatIsSmallSharedOrReadOnly) {
  BufferPool pool;
  const Notice notice = Notice::of(2, "new");

  Message small = text_message(pool, "old", MessageType::pcproto, 3);
  ASSERT_LT(std::as_const(small).first().buffer->capacity(), sizeof(Notice));
  small.link(text_message(pool, "data"));
  ASSERT_TRUE(small.set_native(notice));
  EXPECT_EQ(*small.native<Notice>(), notice);
  EXPECT_EQ(small.type(), MessageType::pcproto);
  EXPECT_EQ(small.band(), 3);
  EXPECT_EQ(small.data_size(), 4U);
  small.encode();
  EXPECT_EQ(text_of(small), "#2newdata");

  Message shared = Message::allocate(pool, 200, 0, MessageType::proto);
  std::ranges::copy(as_bytes("old"), shared.append(3).begin());
  Message sharer = shared.duplicate();
  ASSERT_TRUE(shared.set_native(notice));
  EXPECT_EQ(text_of(sharer), "old");
  EXPECT_EQ(*shared.native<Notice>(), notice);

  std::array<std::byte, 200> memory{};
  Message external(pool.allocate_external(memory, true, nullptr, nullptr));
  external.first().type = MessageType::proto;
  ASSERT_TRUE(external.set_native(notice));
  EXPECT_EQ(memory, (std::array<std::byte, 200>{}));
  external.reset();
  small.reset();
  shared.reset();
  sharer.reset();
  EXPECT_EQ(pool.statistics().buffers_in_use, 0U);
}

TEST(NativeTest, SetNativeWithoutMemoryLeavesTheMessageAsItWas) {
  BufferPool pool(96 * 1024);
  Message message = text_message(pool, "old", MessageType::proto, 3);
  message.link(text_message(pool, "data"));
  const std::vector<Message> hogs = exhaust(pool, 64 * 1024);
  EXPECT_FALSE(message.set_native(Notice::of(2, "new")));
  EXPECT_FALSE(is_native(message));
  EXPECT_EQ(text_of(message), "olddata");
  EXPECT_EQ(message.band(), 3);
  EXPECT_EQ(message.data_size(), 4U);
}

TEST(NativeTest, AMessageThatIsReplacedInABatchStaysInIt) {
  BufferPool pool;
  Batch batch;
  for (const std::string_view text : {"1", "2", "3"}) {
    batch.push(text_message(pool, text, MessageType::proto));
  }
  batch.retain([](Message& message) {
    const std::uint8_t digit = std::to_integer<std::uint8_t>(message.bytes()[0]);
    return message.set_native(Notice::of(static_cast<std::uint8_t>(digit - '0'), "n"));
  });
  batch.retain([](Message& message) {
    EXPECT_TRUE(is_native(message));
    message.encode();
    return true;
  });
  EXPECT_THAT(texts_of(batch), ElementsAre("#1n", "#2n", "#3n"));
}

// --- what else is done to messages ---------------------------------------------------------------------------------

TEST(NativeTest, CopiesAndDuplicatesHaveAValueOfTheirOwn) {
  BufferPool pool;
  for (const bool duplicate : {false, true}) {
    Message message = notice_message(pool, "text", "data");
    message.set_band(4);
    Message other = duplicate ? message.duplicate() : message.copy();
    ASSERT_TRUE(is_native(message) && is_native(other));
    other.native<Notice>()->number = 1;
    EXPECT_EQ(other.band(), 4);
    EXPECT_EQ(other.size(), 10U);
    EXPECT_EQ(other.data_size(), 4U);
    message.encode();
    EXPECT_EQ(text_of(message), "#7textdata");
    other.encode();
    EXPECT_EQ(text_of(other), "#1textdata");
  }
  EXPECT_EQ(pool.statistics().buffers_in_use, 0U);
}

TEST(NativeTest, LinkAndUnlinkKeepIt) {
  BufferPool pool;
  Message message = notice_message(pool, "text");
  EXPECT_FALSE(message.unlink()) << "there is nothing behind";
  message.link(text_message(pool, "ab"));
  message.link(text_message(pool, "cd"));
  EXPECT_TRUE(is_native(message));
  EXPECT_EQ(message.data_size(), 4U);
  const Message data = message.unlink();
  EXPECT_TRUE(is_native(message));
  EXPECT_EQ(message.size(), 6U);
  EXPECT_EQ(message.data_size(), 0U);
  EXPECT_EQ(message.data_block(), nullptr);
  EXPECT_EQ(text_of(data), "abcd");
  EXPECT_EQ(data.data_size(), 4U);
  message.pop_block();
  EXPECT_FALSE(message);
}

struct NativeChange {
  std::string_view name;
  std::function<void(Message&)> make;
  std::string_view expected;  // encoded
  bool stays_native;
};

// The message is "#7text" and, in two blocks, "abcd".
TEST(NativeTest, WhatChangesItsBytesEncodesItAndWhatChangesTheDataDoesNot) {
  const auto fill = [](Bytes bytes) { std::ranges::fill(bytes, std::byte{'+'}); };
  const std::vector<NativeChange> changes{
      {"prepend to data", [&](Message& m) { fill(m.prepend_data(2)); }, "#7text++abcd", true},
      {"trim data", [](Message& m) { m.trim_data_front(1); }, "#7textbcd", true},
      {"trim a data block", [](Message& m) { m.trim_data_front(2); }, "#7textcd", true},
      {"trim all data", [](Message& m) { m.trim_data_front(4); }, "#7text", true},
      {"trim the back", [](Message& m) { m.trim_back(3); }, "#7texta", true},
      {"trim all data from the back", [](Message& m) { m.trim_back(4); }, "#7text", true},
      {"trim into it from the back", [](Message& m) { m.trim_back(6); }, "#7te", false},
      {"trim the front", [](Message& m) { m.trim_front(1); }, "7textabcd", false},
      {"trim it off", [](Message& m) { m.trim_front(6); }, "abcd", false},
      {"trim beyond it", [](Message& m) { m.trim_front(7); }, "bcd", false},
      {"trim nothing",
       [](Message& m) {
         m.trim_front(0);
         m.trim_back(0);
       },
       "#7textabcd", true},
      {"pull up", [](Message& m) { EXPECT_TRUE(m.pull_up(6)); }, "#7textabcd", false},
      {"pull up too much", [](Message& m) { EXPECT_FALSE(m.pull_up(7)); }, "#7textabcd", false},
      {"split in it", [](Message& m) { EXPECT_EQ(text_of(m.split(3)), "extabcd"); }, "#7t", false},
      {"split behind it", [](Message& m) { EXPECT_EQ(text_of(m.split(6)), "abcd"); }, "#7text", false},
      {"split the data", [](Message& m) { EXPECT_EQ(text_of(m.split(9)), "d"); }, "#7textabc", false},
      {"append", [&](Message& m) { fill(m.append(2)); }, "#7textabcd++", true},
      {"prepend", [&](Message& m) { fill(m.prepend(2)); }, "++#7textabcd", false},
      {"append to it alone",
       [&](Message& m) {
         const Message data = m.unlink();
         fill(m.append(2));
       },
       "#7text++", false},
      {"make writable", [](Message& m) { EXPECT_TRUE(m.make_writable()); }, "#7textabcd", true},
      {"materialize", [](Message& m) { EXPECT_EQ(m.materialize(), TransformResult::done); }, "#7textabcd", true},
  };
  for (const NativeChange& change : changes) {
    SCOPED_TRACE(change.name);
    BufferPool pool;
    Message message = notice_message(pool, "text", "ab");
    message.link(text_message(pool, "cd"));
    message.set_band(2);
    change.make(message);
    EXPECT_EQ(is_native(message), change.stays_native);
    EXPECT_EQ(message.size(), change.expected.size());
    EXPECT_EQ(message.band(), 2);
    message.encode();
    EXPECT_EQ(text_of(message), change.expected);
    EXPECT_EQ(message.size(), change.expected.size());
  }
}

// --- queues --------------------------------------------------------------------------------------------------------

TEST(NativeTest, AQueueCountsItEncodedWhateverBecomesOfIt) {
  Stream stream;
  Queue& queue = stream.head.read_queue();
  const auto put = [&] { queue.enqueue(notice_message(stream.set.pool(), "text", "data")); };
  put();
  EXPECT_EQ(queue.bytes(), 10U);
  Message message = queue.dequeue();
  EXPECT_TRUE(is_native(message));
  EXPECT_EQ(queue.bytes(), 0U);
  message.encode();
  queue.put_back(std::move(message));
  EXPECT_EQ(queue.bytes(), 10U) << "encoded in between";
  put();
  EXPECT_EQ(queue.bytes(), 20U);
  EXPECT_EQ(text_of(queue.dequeue()), "#7textdata");
  queue.flush(FlushKind::all);
  EXPECT_EQ(queue.bytes(), 0U);
  EXPECT_EQ(queue.messages(), 0U);
  EXPECT_EQ(stream.set.pool().statistics().buffers_in_use, 0U);
}

/// A module that reads descriptors.
class Reader : public Scripted {
 public:
  [[nodiscard]] bool handles_deferred() const override { return true; }
};

/// How messages come to a module that reads descriptors or not, and what comes behind it.
Texts seen(bool reads, bool encodes, Side side) {
  StreamSet set({.encode_primitives = encodes});
  Scripted head(Module::Services::both, "head");
  Chain chain(set, head);
  EXPECT_TRUE(chain.open_driver(std::make_unique<Reader>()));
  auto owned = reads ? std::make_unique<Reader>() : std::make_unique<Scripted>();
  Scripted& module = *owned;
  EXPECT_TRUE(chain.push(std::move(owned)));
  Texts texts;
  const auto note = [&texts](Batch batch) {
    while (const Message message = batch.pop()) {
      texts.push_back(is_native(message) ? "native" : text_of(message));
    }
  };
  module.on_wput = module.on_rput = note;
  Batch batch;
  batch.push(notice_message(set.pool(), "1", "data"));
  batch.push(text_message(set.pool(), "2"));
  batch.push(notice_message(set.pool(), "3"));
  if (side == Side::write) {
    head.write_queue().put_next(std::move(batch));
  } else {
    chain.driver().read_queue().put_next(std::move(batch));
  }
  return texts;
}

TEST(NativeTest, AModuleSeesBytesUnlessItReadsDescriptors) {
  for (const Side side : {Side::write, Side::read}) {
    EXPECT_THAT(seen(true, false, side), ElementsAre("native", "2", "native"));
    EXPECT_THAT(seen(false, false, side), ElementsAre("#71data", "2", "#73"));
    EXPECT_THAT(seen(true, true, side), ElementsAre("#71data", "2", "#73")) << "the stream set has it so";
  }
}

}  // namespace
}  // namespace sluice::testing
