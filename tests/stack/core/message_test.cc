// SPDX-License-Identifier: Apache-2.0
#include "stack/core/message.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <numeric>

#include "base/prng.h"
#include "tests/stack/core/support.h"

namespace sluice::testing {
namespace {

using ::testing::ElementsAre;
using Model = std::vector<std::byte>;

/// A message with these block lengths, and its bytes.
struct Sample {
  Sample(BufferPool& pool, const std::vector<std::size_t>& lengths)
      : model(counted_bytes(std::accumulate(lengths.begin(), lengths.end(), std::size_t{0}))),
        message(chain_message(pool, model, lengths)) {}
  Model model;
  Message message;
};

/// Calls `test` with every chain of one to four blocks of 0..3 bytes.
template <class Test>
void for_every_chain(Test test) {
  BufferPool pool;
  constexpr std::size_t block_bytes_max = 3;
  for (std::size_t count = 1; count <= 4; ++count) {
    std::vector<std::size_t> lengths(count, 0);
    for (;;) {
      test(pool, lengths);
      ASSERT_FALSE(::testing::Test::HasFatalFailure()) << ::testing::PrintToString(lengths);
      std::size_t at = 0;
      while (at < count && lengths[at] == block_bytes_max) {
        lengths[at++] = 0;
      }
      if (at == count) {
        break;
      }
      ++lengths[at];
    }
  }
}

Model part(const Model& model, std::size_t from, std::size_t to) {
  return {model.begin() + static_cast<std::ptrdiff_t>(from), model.begin() + static_cast<std::ptrdiff_t>(to)};
}

void fill(Bytes bytes, int value) { std::ranges::fill(bytes, static_cast<std::byte>(value)); }

// --- making --------------------------------------------------------------------------------------------------------

TEST(MessageTest, AllocateLeavesHeadroom) {
  BufferPool pool;
  Message message = Message::allocate(pool, 100, 40, MessageType::proto);
  ASSERT_TRUE(message);
  EXPECT_EQ(message.size(), 0U);
  EXPECT_EQ(message.type(), MessageType::proto);
  EXPECT_EQ(message.first().rptr - message.first().buffer->base(), 40);
  EXPECT_GE(message.first().buffer->limit() - message.first().wptr, 100);
  EXPECT_EQ(&message.pool(), &pool);
}

// A user message larger than the largest class becomes a chain.
TEST(MessageTest, CopyOfBecomesAChainBeyondItsBlockSize) {
  BufferPool pool;
  const Model bytes = counted_bytes(10);
  const Message message = Message::copy_of(pool, bytes, 5, MessageType::data, 4);
  EXPECT_EQ(message.block_count(), 3U);
  EXPECT_EQ(flat(message), bytes);
  EXPECT_EQ(message.first().rptr - message.first().buffer->base(), 5);
  EXPECT_EQ(message.first().cont->rptr, message.first().cont->buffer->base())
      << "only the first block has the headroom";
  EXPECT_EQ(Message::copy_of(pool, {}).block_count(), 1U);

  const Model large(BufferPool::capacity_max + 3, std::byte{7});
  const Message chain = Message::copy_of(pool, large, 64);
  EXPECT_EQ(chain.block_count(), 2U);
  EXPECT_EQ(chain.size(), large.size());
  EXPECT_DEATH((void)Message::copy_of(pool, bytes, 0, MessageType::data, 0), "contract broken");
}

TEST(MessageTest, SizesCountBlocksAndDataBlocks) {
  BufferPool pool;
  Message message = text_message(pool, "head", MessageType::proto);
  EXPECT_EQ(message.data_block(), nullptr);
  message.link(text_message(pool, "abc"));
  message.link(text_message(pool, "de"));
  EXPECT_EQ(message.size(), 9U);
  EXPECT_EQ(message.data_size(), 5U) << "msgdsize(9F) counts data blocks";
  EXPECT_EQ(message.block_count(), 3U);
  EXPECT_EQ(message.data_block(), message.first().cont);
}

// --- prepend and append --------------------------------------------------------------------------------------------

TEST(MessageTest, PrependUsesTheHeadroomToTheLastByte) {
  BufferPool pool;
  Message message = Message::copy_of(pool, as_bytes("data"), 8);
  const Bytes header = message.prepend(8);
  ASSERT_EQ(header.size(), 8U);
  fill(header, 'h');
  EXPECT_EQ(message.block_count(), 1U);
  EXPECT_EQ(header.data(), message.first().buffer->base());
  EXPECT_EQ(text_of(message), "hhhhhhhhdata");
}

TEST(MessageTest, PrependWithoutHeadroomMakesABlockWithRoomForMore) {
  BufferPool pool;
  Message message = text_message(pool, "data", MessageType::proto, 3);
  fill(message.prepend(2), 'h');
  EXPECT_EQ(message.block_count(), 2U);
  EXPECT_EQ(message.type(), MessageType::proto);
  EXPECT_EQ(message.band(), 3);
  fill(message.prepend(20), 'i');
  EXPECT_EQ(message.block_count(), 2U);
  EXPECT_EQ(text_of(message), std::string(20, 'i') + "hhdata");
}

// The bytes before rptr may be what somebody else shows.
TEST(MessageTest, PrependNeverWritesToASharedOrReadOnlyBuffer) {
  BufferPool pool;
  Message message = text_message(pool, "headdata");
  Message shared = message.duplicate();
  message.trim_front(4);
  fill(message.prepend(4), 'x');
  EXPECT_EQ(text_of(shared), "headdata");
  EXPECT_EQ(text_of(message), "xxxxdata");

  std::array<std::byte, 8> memory{};
  Message external(pool.allocate_external(memory, true, nullptr, nullptr));
  external.trim_front(4);
  fill(external.prepend(2), 'x');
  EXPECT_EQ(memory, (std::array<std::byte, 8>{}));
  EXPECT_EQ(external.size(), 6U);
}

TEST(MessageTest, AppendUsesTailRoomUnlessSharedOrReadOnly) {
  BufferPool pool;
  Message message = text_message(pool, "ab");
  fill(message.append(62), 'c');
  EXPECT_EQ(message.block_count(), 1U);
  fill(message.append(1), 'd');
  EXPECT_EQ(message.block_count(), 2U);
  Message shared = message.duplicate();
  fill(message.append(1), 'e');
  EXPECT_EQ(message.block_count(), 3U);
  EXPECT_EQ(text_of(shared), "ab" + std::string(62, 'c') + "d");
  EXPECT_EQ(text_of(message), text_of(shared) + "e");
}

// --- chains --------------------------------------------------------------------------------------------------------

TEST(MessageTest, LinkUnlinkAndPopBlock) {
  BufferPool pool;
  Message message = text_message(pool, "a");
  message.link(chain_message(pool, as_bytes("bc"), {1, 1}));
  Message rest = message.unlink();
  EXPECT_EQ(text_of(message), "a");
  EXPECT_EQ(text_of(rest), "bc");
  EXPECT_FALSE(message.unlink());
  rest.pop_block();
  EXPECT_EQ(text_of(rest), "c");
  rest.pop_block();
  EXPECT_FALSE(rest);
}

TEST(MessageTest, MovingLeavesNothingBehind) {
  BufferPool pool;
  Message a = text_message(pool, "a");
  Message b = std::move(a);
  EXPECT_FALSE(a);  // NOLINT: what is left is the point
  Message& same = b;
  b = std::move(same);
  EXPECT_EQ(text_of(b), "a");
  Block* block = b.release();
  EXPECT_FALSE(b);
  b = Message(block);
  b = text_message(pool, "c");
  EXPECT_EQ(pool.statistics().buffers_in_use, 1U);
}

// copymsg(9F): own bytes, the same blocks; dupmsg(9F): the same bytes, other blocks.
TEST(MessageTest, CopyAndDuplicateKeepTheShape) {
  for_every_chain([](BufferPool& pool, const std::vector<std::size_t>& lengths) {
    Sample sample(pool, lengths);
    Message copy = sample.message.copy();
    Message shown = sample.message.duplicate();
    ASSERT_EQ(flat(copy), sample.model);
    ASSERT_EQ(flat(shown), sample.model);
    ASSERT_EQ(copy.block_count(), lengths.size());
    ASSERT_EQ(shown.block_count(), lengths.size());
    ASSERT_TRUE(copy.first().buffer->writable());
    ASSERT_EQ(shown.first().buffer, sample.message.first().buffer);
    for (Block* block = &copy.first(); block != nullptr; block = block->cont) {
      fill(block->bytes(), 0xee);
    }
    ASSERT_EQ(flat(sample.message), sample.model);
  });
}

TEST(MessageTest, CopyKeepsTypeBandAndHeadroom) {
  BufferPool pool;
  Message message = Message::copy_of(pool, as_bytes("x"), 32, MessageType::proto);
  message.first().band = 2;
  const Message copy = message.copy();
  EXPECT_EQ(copy.type(), MessageType::proto);
  EXPECT_EQ(copy.band(), 2);
  EXPECT_EQ(copy.first().rptr - copy.first().buffer->base(), 32);
}

// --- at every offset of every chain --------------------------------------------------------------------------------

// pullupmsg(9F): "concatenates and aligns the first len data bytes of the message"; "If len bytes of the same message
// type cannot be found, pullupmsg() fails".
TEST(MessageTest, PullUpAtEveryOffset) {
  for_every_chain([](BufferPool& pool, const std::vector<std::size_t>& lengths) {
    const std::size_t total = Sample(pool, lengths).model.size();
    for (std::size_t size = 0; size <= total + 1; ++size) {
      Sample sample(pool, lengths);
      ASSERT_EQ(sample.message.pull_up(size), size <= total);
      ASSERT_EQ(flat(sample.message), sample.model) << size;
      ASSERT_TRUE(size > total || sample.message.first().size() >= size);
    }
  });
}

TEST(MessageTest, PullUpStopsAtAnotherTypeAndKeepsTheMessage) {
  BufferPool pool;
  Message message = Message::copy_of(pool, as_bytes("ab"), 16, MessageType::proto);
  message.first().band = 4;
  message.link(text_message(pool, "cd", MessageType::proto));
  message.link(text_message(pool, "ef"));
  EXPECT_FALSE(message.pull_up(5));
  EXPECT_EQ(message.block_count(), 3U);
  EXPECT_TRUE(message.pull_up(4));
  EXPECT_EQ(message.block_count(), 2U);
  EXPECT_EQ(message.band(), 4);
  EXPECT_EQ(message.type(), MessageType::proto);
  EXPECT_EQ(message.first().rptr - message.first().buffer->base(), 16) << "the headroom stays";
  EXPECT_EQ(text_of(message), "abcdef");
}

// adjmsg(9F): "removes bytes from the start of the first message block".
TEST(MessageTest, TrimFrontAtEveryOffset) {
  for_every_chain([](BufferPool& pool, const std::vector<std::size_t>& lengths) {
    const std::size_t total = Sample(pool, lengths).model.size();
    for (std::size_t size = 0; size <= total; ++size) {
      Sample sample(pool, lengths);
      sample.message.first().band = 3;
      sample.message.trim_front(size);
      ASSERT_EQ(flat(sample.message), part(sample.model, size, total)) << size;
      ASSERT_EQ(sample.message.band(), 3);
    }
  });
}

TEST(MessageTest, TrimFrontFreesEmptiedBlocksButTheLast) {
  BufferPool pool;
  Message message = chain_message(pool, as_bytes("abcd"), {2, 2});
  message.trim_front(2);
  EXPECT_EQ(message.block_count(), 1U);
  EXPECT_EQ(text_of(message), "cd");
  message.trim_front(2);
  EXPECT_EQ(message.block_count(), 1U);
  EXPECT_EQ(message.size(), 0U);
  EXPECT_DEATH(message.trim_front(1), "contract broken");
}

TEST(MessageTest, TrimBackAtEveryOffset) {
  for_every_chain([](BufferPool& pool, const std::vector<std::size_t>& lengths) {
    const std::size_t total = Sample(pool, lengths).model.size();
    for (std::size_t size = 0; size <= total; ++size) {
      Sample sample(pool, lengths);
      sample.message.trim_back(size);
      ASSERT_EQ(flat(sample.message), part(sample.model, 0, total - size)) << size;
    }
  });
  BufferPool pool;
  Message message = text_message(pool, "ab");
  EXPECT_DEATH(message.trim_back(3), "contract broken");
}

// adjmsg(9F): "finds the maximal leading sequence of message blocks of the same type as that of mp and starts removing
// bytes either from the head of that sequence or from the tail of that sequence." "fails if |len| is greater than the
// number of bytes in the maximal leading sequence it finds."
TEST(MessageTest, AdjustStaysWithinTheLeadingType) {
  BufferPool pool;
  for (std::ptrdiff_t size = -7; size <= 7; ++size) {
    Message message = Message::copy_of(pool, as_bytes("ctl"), 0, MessageType::proto);
    message.link(Message::copy_of(pool, as_bytes("er"), 0, MessageType::proto));
    message.link(chain_message(pool, as_bytes("abcd"), {2, 2}));
    const bool fits = size >= -5 && size <= 5;
    ASSERT_EQ(message.adjust(size), fits) << size;
    std::string control = "ctler";
    if (fits) {
      control = size > 0 ? control.substr(static_cast<std::size_t>(size))
                         : control.substr(0, control.size() - static_cast<std::size_t>(-size));
    }
    EXPECT_EQ(message.type(), MessageType::proto) << size;
    EXPECT_EQ(text_of(message), control + "abcd") << size;
    EXPECT_EQ(message.data_size(), 4U) << size;
  }
  Message data = chain_message(pool, as_bytes("abcd"), {2, 2});
  EXPECT_FALSE(data.adjust(5));
  EXPECT_TRUE(data.adjust(1));
  EXPECT_TRUE(data.adjust(-2));
  EXPECT_FALSE(data.adjust(-2));
  EXPECT_EQ(text_of(data), "b");
}

TEST(MessageTest, SplitAtEveryOffset) {
  for_every_chain([](BufferPool& pool, const std::vector<std::size_t>& lengths) {
    const std::size_t total = Sample(pool, lengths).model.size();
    for (std::size_t size = 0; size <= total; ++size) {
      Sample sample(pool, lengths);
      sample.message.first().band = 3;
      Message rest = sample.message.split(size);
      ASSERT_TRUE(rest);
      ASSERT_EQ(flat(sample.message), part(sample.model, 0, size)) << size;
      ASSERT_EQ(flat(rest), part(sample.model, size, total)) << size;
      ASSERT_EQ(rest.band(), 3) << "both parts travel in the same band";
      fill(rest.prepend(1), 0xee);  // must not reach into what the first part shows
      fill(sample.message.append(1), 0xdd);
      ASSERT_EQ(flat(sample.message).front(), size > 0 ? sample.model[0] : std::byte{0xdd});
      rest.trim_front(1);
      ASSERT_EQ(flat(rest), part(sample.model, size, total)) << size;
    }
  });
  BufferPool pool;
  Message message = text_message(pool, "ab");
  EXPECT_DEATH((void)message.split(3), "contract broken");
}

TEST(MessageTest, CopyDataToAtEveryOffset) {
  for_every_chain([](BufferPool& pool, const std::vector<std::size_t>& lengths) {
    Sample sample(pool, lengths);
    Message message = text_message(pool, "header", MessageType::proto);
    message.link(std::move(sample.message));
    for (std::size_t from = 0; from <= sample.model.size(); ++from) {
      for (std::size_t to = from; to <= sample.model.size(); ++to) {
        Model out(to - from);
        ASSERT_TRUE(message.copy_data_to(from, out));
        ASSERT_EQ(out, part(sample.model, from, to));
      }
      Model more(sample.model.size() - from + 1);
      ASSERT_FALSE(message.copy_data_to(from, more));
    }
  });
}

// --- making writable -----------------------------------------------------------------------------------------------

TEST(MessageTest, MakeWritableCopiesSharedAndReadOnlyDataOnly) {
  BufferPool pool;
  std::array<std::byte, 4> memory{};
  std::ranges::copy(as_bytes("rdon"), memory.begin());
  Message message = text_message(pool, "head", MessageType::proto);
  message.link(text_message(pool, "mine"));
  message.link(Message(pool.allocate_external(memory, true, nullptr, nullptr)));
  message.link(text_message(pool, "shrd"));
  Message shared = message.unlink();
  Message kept = shared.duplicate();
  kept.pop_block();  // "mine" is no longer shared, the others are
  message.link(std::move(shared));
  const Buffer* mine = message.first().cont->buffer;
  ASSERT_TRUE(message.make_writable());
  EXPECT_EQ(message.first().cont->buffer, mine);
  for (const Block* block = message.data_block(); block != nullptr; block = block->cont) {
    EXPECT_TRUE(block->buffer->writable());
    fill(block->bytes(), 'w');
  }
  EXPECT_EQ(text_of(message), "headwwwwwwwwwwww");
  EXPECT_EQ(text_of(kept), "rdonshrd");
  EXPECT_EQ(as_text(memory), "rdon");
}

// --- exhaustion ----------------------------------------------------------------------------------------------------

/// A message over 200 bytes in a pool that has nothing left.
struct Exhausted {
  Exhausted() : message(Message::copy_of(pool, counted_bytes(200), 0, MessageType::data, 50)) {
    while (Block* block = pool.allocate(64)) {
      hogs.push_back(Message(block));
    }
    while (Block* block = pool.allocate(1024)) {
      hogs.push_back(Message(block));
    }
  }
  BufferPool pool{96 * 1024};
  Message message;
  std::vector<Message> hogs;
};

TEST(MessageTest, ExhaustionLeavesTheMessageAsItWas) {
  Exhausted world;
  const Model before = flat(world.message);
  EXPECT_FALSE(Message::allocate(world.pool, 1));
  EXPECT_FALSE(Message::copy_of(world.pool, before));
  EXPECT_FALSE(world.message.duplicate());
  EXPECT_FALSE(world.message.copy());
  EXPECT_TRUE(world.message.prepend(100).empty());
  EXPECT_TRUE(world.message.append(100).empty());
  EXPECT_FALSE(world.message.pull_up(60));
  EXPECT_FALSE(world.message.split(10));
  EXPECT_TRUE(world.message.split(50)) << "a cut between blocks needs no memory";
  EXPECT_EQ(flat(world.message), part(before, 0, 50));
  EXPECT_EQ(world.message.block_count(), 1U);
}

// --- any sequence of operations ------------------------------------------------------------------------------------

/// Pieces of a message that is cut, joined, trimmed, copied and pulled up at random, each with its bytes.
class RandomWalk {
 public:
  explicit RandomWalk(std::uint64_t seed) : prng_(seed) { add(); }

  void step() {
    Piece& piece = pieces_[prng_.below(pieces_.size())];
    Model& model = piece.model;
    Message& message = piece.message;
    const std::size_t cut = prng_.below(model.size() + 1);
    switch (prng_.below(11)) {
      case 0: {
        const Bytes header = message.prepend(cut);
        prng_.fill(header);
        model.insert(model.begin(), header.begin(), header.end());
        break;
      }
      case 1: {
        const Bytes tail = message.append(cut);
        prng_.fill(tail);
        model.insert(model.end(), tail.begin(), tail.end());
        break;
      }
      case 2:
        message.trim_front(cut);
        model = part(model, cut, model.size());
        break;
      case 3:
        message.trim_back(cut);
        model.resize(model.size() - cut);
        break;
      case 4:
        ASSERT_TRUE(message.pull_up(cut));
        break;
      case 5:
        keep({part(model, cut, model.size()), message.split(cut)});
        model.resize(cut);
        return keep_last();
      case 6:
        keep({model, message.duplicate()});
        return keep_last();
      case 7:
        keep({model, message.copy()});
        return keep_last();
      case 8:
        overwrite(piece);
        break;
      case 9:
        join();
        break;
      default:
        add();
    }
  }

  void check() const {
    for (const Piece& piece : pieces_) {
      ASSERT_EQ(flat(piece.message), piece.model);
      ASSERT_EQ(piece.message.size(), piece.model.size());
    }
  }

 private:
  struct Piece {
    Model model;
    Message message;
  };
  static constexpr std::size_t pieces_max = 8;
  static constexpr std::size_t piece_bytes_max = 4000;

  void add() {
    Model bytes(prng_.below(300));
    prng_.fill(bytes);
    Message message = Message::copy_of(pool_, bytes, prng_.below(40), MessageType::data, 1 + prng_.below(100));
    keep({std::move(bytes), std::move(message)});
    keep_last();
  }
  void keep(Piece piece) { pending_ = std::move(piece); }
  /// Keeps the new piece, in place of another one when there are many.
  void keep_last() {
    ASSERT_TRUE(pending_.message);
    if (pieces_.size() < pieces_max) {
      pieces_.push_back(std::move(pending_));
    } else {
      pieces_[prng_.below(pieces_max)] = std::move(pending_);
    }
  }
  void overwrite(Piece& piece) {
    ASSERT_TRUE(piece.message.make_writable());
    for (Block* block = &piece.message.first(); block != nullptr; block = block->cont) {
      fill(block->bytes(), 0x77);
    }
    std::ranges::fill(piece.model, std::byte{0x77});
  }
  void join() {
    Piece last = std::move(pieces_.back());
    pieces_.pop_back();
    if (pieces_.empty() || pieces_[0].model.size() + last.model.size() > piece_bytes_max) {
      pieces_.push_back(std::move(last));
      return;
    }
    pieces_[0].message.link(std::move(last.message));
    pieces_[0].model.insert(pieces_[0].model.end(), last.model.begin(), last.model.end());
  }

  Prng prng_;
  BufferPool pool_;
  std::vector<Piece> pieces_;
  Piece pending_;
};

TEST(MessageTest, AnySequenceOfOperationsMatchesTheModel) {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    RandomWalk walk(seed);
    for (int step = 0; step < 300; ++step) {
      walk.step();
      walk.check();
      ASSERT_FALSE(HasFatalFailure()) << "seed " << seed << " step " << step;
    }
  }
}

}  // namespace
}  // namespace sluice::testing
