// SPDX-License-Identifier: Apache-2.0
// A message's blocks gathered into another message (msgpullup) and taken out one by one (rmvb).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/stack/core/notice.h"
#include "tests/stack/core/support.h"

namespace sluice::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Texts = std::vector<std::string>;

/// The text of each block.
Texts blocks_of(const Message& message) {
  Texts texts;
  for (const Block* block = message ? &message.first() : nullptr; block != nullptr; block = block->cont) {
    texts.emplace_back(as_text(block->bytes()));
  }
  return texts;
}

const Block& block_at(const Message& message, std::size_t index) {
  const Block* block = &message.first();
  for (; index > 0; --index) {
    block = block->cont;
  }
  return *block;
}

// --- msgpullup -----------------------------------------------------------------------------------------------------

// msgpullup(9F): "concatenates and aligns the first len data bytes of the message pointed to by mp, copying the data
// into a new message. Any remaining bytes in the remaining message blocks will be copied and linked onto the new
// message. The original message is unaltered. If len equals -1, all data are concatenated. If len bytes of the same
// message type cannot be found, msgpullup() fails and returns NULL."
TEST(PulledUp, EveryChainAtEveryLength) {
  BufferPool pool;
  const std::vector<std::byte> bytes = counted_bytes(7);
  for (const auto& lengths : chainings(7, 3)) {
    Message message = chain_message(pool, bytes, lengths, 8);
    message.first().band = 3;
    const Texts before = blocks_of(message);
    for (std::size_t size = 0; size <= 8; ++size) {
      const Message pulled = message.pulled_up(size);
      ASSERT_EQ(static_cast<bool>(pulled), size <= 7) << size;
      ASSERT_EQ(blocks_of(message), before) << "the original is unaltered";
      if (pulled) {
        EXPECT_EQ(std::as_const(pulled).first().size(), size) << "the first block holds just these";
        EXPECT_EQ(flat(pulled), bytes);
        EXPECT_EQ(pulled.data_size(), 7U);
        EXPECT_EQ(pulled.band(), 3);
        EXPECT_EQ(pulled.first().rptr - pulled.first().buffer->base(), 8) << "with the headroom of the first";
        for (const Block* block = &pulled.first(); block != nullptr; block = block->cont) {
          EXPECT_TRUE(block->buffer->writable()) << "a copy shares nothing";
        }
      }
    }
    const Message all = message.pulled_up(std::nullopt);
    EXPECT_EQ(all.block_count(), 1U);
    EXPECT_EQ(flat(all), bytes);
  }
  EXPECT_EQ(pool.statistics().buffers_in_use, 0U);
}

TEST(PulledUp, StopsAtAnotherType) {
  BufferPool pool;
  Message message = text_message(pool, "ab", MessageType::proto, 4);
  message.link(text_message(pool, "cd", MessageType::proto));
  message.link(text_message(pool, "ef"));
  EXPECT_FALSE(message.pulled_up(5));
  EXPECT_EQ(blocks_of(message.pulled_up(4)), (Texts{"abcd", "ef"}));
  EXPECT_EQ(blocks_of(message.pulled_up(3)), (Texts{"abc", "d", "ef"}));
  const Message all = message.pulled_up(std::nullopt);
  EXPECT_EQ(blocks_of(all), (Texts{"abcd", "ef"})) << "all of one type";
  EXPECT_EQ(all.type(), MessageType::proto);
  EXPECT_EQ(all.band(), 4);
  EXPECT_EQ(all.data_size(), 2U);
  EXPECT_EQ(block_at(message.pulled_up(3), 1).type, MessageType::proto);
}

// A zero-length block behind what is gathered is a message block, too: it stays one.
TEST(PulledUp, KeepsEmptyBlocksThatRemain) {
  BufferPool pool;
  Message message = chain_message(pool, as_bytes("abcd"), {2, 0, 2});
  EXPECT_EQ(blocks_of(message.pulled_up(2)), (Texts{"ab", "", "cd"}));
  EXPECT_EQ(blocks_of(message.pulled_up(3)), (Texts{"abc", "d"}));
  EXPECT_EQ(blocks_of(message.pulled_up(0)), (Texts{"", "ab", "", "cd"}));
}

// What is owed is carried out first: the copy has the bytes as they should be, on the same path.
TEST(PulledUp, CarriesOutWhatIsOwed) {
  BufferPool pool;
  Message message = chain_message(pool, as_bytes("abcdefgh"), {4, 4});
  message.defer();
  ASSERT_EQ(message.transform(Swap{4}), TransformResult::deferred);
  const Message pulled = message.pulled_up(std::nullopt);
  EXPECT_EQ(text_of(pulled), "dcbahgfe");
  EXPECT_TRUE(pulled.fused());
  EXPECT_TRUE(pulled.materialized());
  EXPECT_EQ(blocks_of(message), (Texts{"dcba", "hgfe"}));
}

TEST(PulledUp, OfAMessageWhoseCheckFailsThereIsNone) {
  BufferPool pool;
  Watcher watcher;
  Message message = text_message(pool, "abcd");
  message.defer();
  ASSERT_EQ(message.transform(Check{0}, ModuleHandle(), watcher.refused), TransformResult::deferred);
  EXPECT_FALSE(message.pulled_up(2));
  EXPECT_TRUE(message.failed());
}

TEST(PulledUp, ANativeDescriptorIsEncodedInTheCopyOnly) {
  BufferPool pool;
  Message message = Message::of_native(pool, Notice::of(7, "text"));
  message.link(text_message(pool, "data"));
  EXPECT_FALSE(message.pulled_up(7));
  EXPECT_EQ(blocks_of(message.pulled_up(std::nullopt)), (Texts{"#7text", "data"}));
  EXPECT_EQ(blocks_of(message.pulled_up(2)), (Texts{"#7", "text", "data"}));
  ASSERT_NE(message.native<Notice>(), nullptr) << "the original keeps its own";
  EXPECT_EQ(*message.native<Notice>(), Notice::of(7, "text"));
}

// The pool may be exhausted at each block that the copy needs: nothing comes, nothing is lost.
TEST(PulledUp, WithoutMemoryThereIsNone) {
  for (std::size_t left = 0; left <= 4; ++left) {
    BufferPool pool(96 * 1024);
    Message message = Message::of_native(pool, Notice::of(7, "text"));
    message.link(text_message(pool, "data"));
    std::vector<Message> hogs;
    for (std::size_t capacity = 64 * 1024; capacity > 0; capacity /= 2) {
      while (Block* const block = pool.allocate(capacity)) {
        hogs.emplace_back(block);
      }
    }
    const std::size_t wanted[] = {BufferPool::class_capacity(Notice::encoded_size_max), 64, 64, 64};
    for (std::size_t given = 0; given < left; ++given) {
      const auto fitting = std::ranges::find_if(
          hogs, [&](const Message& hog) { return hog && hog.first().buffer->capacity() == wanted[given]; });
      if (fitting != hogs.end()) {
        fitting->reset();
      }
    }
    const std::uint64_t in_use = pool.statistics().buffers_in_use;
    const Message pulled = message.pulled_up(2);
    EXPECT_EQ(text_of(pulled), pulled ? "#7textdata" : "");
    EXPECT_FALSE(left < 3 && pulled) << left;
    EXPECT_TRUE(pulled || pool.statistics().buffers_in_use == in_use) << left;
    EXPECT_NE(message.native<Notice>(), nullptr);
    EXPECT_EQ(message.data_size(), 4U);
  }
}

// --- rmvb ----------------------------------------------------------------------------------------------------------

// rmvb(9F): "The message block is not freed, merely removed from the message. [...] The pointer is NULL if bp was the
// only block of the message before rmvb() was called. If the designated message block (bp) does not exist, -1 is
// returned."
TEST(RemoveBlock, AnyBlockLeavesTheOthersInOrder) {
  BufferPool pool;
  const Texts all{"a", "bc", "", "def"};
  for (std::size_t gone = 0; gone < all.size(); ++gone) {
    Message message = chain_message(pool, as_bytes("abcdef"), {1, 2, 0, 3});
    message.first().band = 6;
    const Block* const block = &block_at(message, gone);
    const Message removed = message.remove_block(*block);
    ASSERT_TRUE(removed);
    EXPECT_EQ(&removed.first(), block);
    EXPECT_EQ(blocks_of(removed), Texts{all[gone]});
    EXPECT_EQ(removed.data_size(), all[gone].size());
    Texts left = all;
    left.erase(left.begin() + static_cast<std::ptrdiff_t>(gone));
    EXPECT_EQ(blocks_of(message), left);
    EXPECT_EQ(message.data_size(), 6 - all[gone].size());
    EXPECT_EQ(message.band(), 6) << "it is the same message still";
  }
  EXPECT_EQ(pool.statistics().buffers_in_use, 0U);
}

TEST(RemoveBlock, TheOnlyBlockLeavesAnEmptyMessage) {
  BufferPool pool;
  Message message = text_message(pool, "only");
  const Message removed = message.remove_block(std::as_const(message).first());
  EXPECT_EQ(text_of(removed), "only");
  EXPECT_FALSE(message);
}

TEST(RemoveBlock, AStrangeBlockIsNotTaken) {
  BufferPool pool;
  Message message = chain_message(pool, as_bytes("abcd"), {2, 2});
  const Message other = text_message(pool, "ab");
  EXPECT_FALSE(message.remove_block(other.first()));
  EXPECT_EQ(blocks_of(message), (Texts{"ab", "cd"}));
}

TEST(RemoveBlock, APrimitiveLeavesItsDataWithThePlan) {
  BufferPool pool;
  Message message = Message::of_native(pool, Notice::of(7, "text"));
  Message data = text_message(pool, "abcdefgh");
  data.defer();
  ASSERT_EQ(data.transform(Swap{4}), TransformResult::deferred);
  message.link(std::move(data));
  message.set_band(2);
  const Message removed = message.remove_block(std::as_const(message).first());
  EXPECT_NE(removed.native<Notice>(), nullptr);
  EXPECT_EQ(message.type(), MessageType::data);
  EXPECT_EQ(message.band(), 2);
  EXPECT_FALSE(message.materialized()) << "nobody has looked at the data";
  EXPECT_EQ(message.materialize(), TransformResult::done);
  EXPECT_EQ(text_of(message), "dcbahgfe");
}

TEST(RemoveBlock, DataThatGoesIsMaterializedFirst) {
  BufferPool pool;
  for (const std::size_t gone : {0U, 1U, 2U}) {
    // The middle block cannot be written, so the pass puts its bytes elsewhere.
    Message message = chain_message(pool, as_bytes("abcdefgh"), {4, 4});
    const Message sibling = message.duplicate();
    message.link(text_message(pool, "ijkl"));
    message.defer();
    ASSERT_EQ(message.transform(Swap{4}), TransformResult::deferred);
    Texts all{"dcba", "hgfe", "lkji"};
    const Message removed = message.remove_block(block_at(message, gone));
    EXPECT_EQ(text_of(removed), all[gone]);
    all.erase(all.begin() + static_cast<std::ptrdiff_t>(gone));
    EXPECT_EQ(blocks_of(message), all);
    EXPECT_TRUE(message.fused()) << "it stays on its path";
    EXPECT_EQ(message.transform(Swap{2}), TransformResult::deferred);
    EXPECT_EQ(text_of(sibling), "abcdefgh");
  }
}

TEST(RemoveBlock, OfDataWhoseCheckFailsNoneIsTaken) {
  BufferPool pool;
  Watcher watcher;
  Message message = chain_message(pool, as_bytes("abcd"), {2, 2});
  message.defer();
  ASSERT_EQ(message.transform(Check{0}, ModuleHandle(), watcher.refused), TransformResult::deferred);
  EXPECT_FALSE(message.remove_block(block_at(message, 0)));
  EXPECT_TRUE(message.failed()) << "what is left knows";
  EXPECT_EQ(message.block_count(), 2U);
}

}  // namespace
}  // namespace sluice::testing
