// SPDX-License-Identifier: Apache-2.0
// What a message knows of itself without a walk (data_size(), data_block(), has_data(), size()) is what a walk finds,
// after any sequence of operations.
#include <gtest/gtest.h>

#include <array>
#include <string>

#include "base/prng.h"
#include "tests/stack/core/notice.h"
#include "tests/stack/core/support.h"

namespace sluice::testing {
namespace {

/// Facts found block by block.
struct Walked {
  std::size_t size = 0;
  std::size_t data_size = 0;
  const Block* data_block = nullptr;

  explicit Walked(const Message& message) {
    for (const Block* block = &message.first(); block != nullptr; block = block->cont) {
      size += block->codec == nullptr ? block->size() : block->codec->encoded_size(block->buffer->base());
      if (block->type == MessageType::data) {
        data_size += block->size();
        data_block = data_block == nullptr ? block : data_block;
      }
    }
  }
};

void expect_facts(const Message& message) {
  const Walked walked(message);
  EXPECT_EQ(message.data_size(), walked.data_size);
  EXPECT_EQ(message.data_block(), walked.data_block);
  EXPECT_EQ(message.has_data(), walked.data_block != nullptr);
  EXPECT_EQ(message.size(), walked.size);
}

/// A message, and another that is cut off it or linked behind it, put through operations drawn at random.
class Walk {
 public:
  explicit Walk(std::uint64_t seed) : prng_(seed), message_(fresh()) {}

  /// The operation's name, for a failure's text.
  std::string step() {
    const auto& [name, operation] = operations_[prng_.below(operations_.size())];
    (this->*operation)();
    if (!message_ || message_.failed() || message_.block_count() > 12 || message_.size() > 4000) {
      message_ = fresh();
    }
    if (other_ && other_.failed()) {
      other_.reset();
    }
    return std::string(name);
  }
  void check() const {
    if (!forgetting_) {
      expect_facts(message_);
      if (other_) {
        expect_facts(other_);
      }
    }
  }

 private:
  struct Operation {
    std::string_view name;
    void (Walk::*run)();
  };

  std::size_t below(std::size_t bound) { return static_cast<std::size_t>(prng_.below(bound)); }
  bool chance() { return prng_.below(2) == 0; }

  Message fresh() {
    Message made;
    if (chance()) {
      made = chance() ? Message::of_native(pool_, Notice::of(1, "note"))
                      : text_message(pool_, "proto", MessageType::proto);
      if (chance()) {
        made.link(text_message(pool_, "more of it", MessageType::proto));
      }
    }
    for (std::size_t blocks = below(4) + (made ? 0 : 1); blocks > 0; --blocks) {
      const std::vector<std::byte> bytes(below(9) * 4);
      Message data = Message::copy_of(pool_, bytes, below(3) * 20);
      if (made) {
        made.link(std::move(data));
      } else {
        made = std::move(data);
      }
    }
    return made;
  }

  void prepend() { static_cast<void>(message_.prepend(below(30))); }
  void prepend_data() {
    if (message_.has_data()) {
      static_cast<void>(message_.prepend_data(below(30)));
    }
  }
  void append() { static_cast<void>(message_.append(below(30))); }
  void link_data() { message_.link(Message::copy_of(pool_, std::vector<std::byte>(below(30)))); }
  void link_other() {
    const bool allowed = other_ && (!message_.has_data() || other_.type() == MessageType::data);
    if (allowed && std::as_const(other_).first().codec == nullptr) {
      message_.link(std::move(other_));
    }
  }
  void unlink() { other_ = message_.unlink(); }
  void pop_block() { message_.pop_block(); }
  void duplicate() { other_ = message_.duplicate(); }
  void copy() { other_ = message_.copy(); }
  void exchange() {
    if (other_) {
      std::swap(message_, other_);
    }
  }
  void pull_up() { static_cast<void>(message_.pull_up(below(message_.size() + 2))); }
  void trim_front() { message_.trim_front(below(message_.size() + 1)); }
  void trim_data_front() {
    if (message_.has_data()) {
      message_.trim_data_front(below(message_.data_size() + 1));
    }
  }
  void trim_back() { message_.trim_back(below(message_.size() + 1)); }
  void trim_data_back() { message_.trim_back(below(message_.data_size() + 1)); }
  void split() { other_ = message_.split(below(message_.size() + 1)); }
  void make_writable() { EXPECT_TRUE(message_.make_writable()); }
  void set_native() {
    if (is_protocol(message_.type())) {
      EXPECT_TRUE(message_.set_native(Notice::of(2, chance() ? "" : "a longer text")));
    }
  }
  void encode() { message_.encode(); }
  void defer() { message_.defer(); }
  void swap() { static_cast<void>(message_.transform(Swap{chance() ? 2U : 4U})); }
  void sum() {
    static_cast<void>(message_.transform(Sum{.initial = 0, .field = field_.data(), .zero_is_sent_as_ones = false}));
  }
  void materialize() { static_cast<void>(message_.materialize()); }
  void keep() { static_cast<void>(message_.keep()); }
  void gather() {
    if (message_.type() == MessageType::data) {
      static_cast<void>(message_.gather());
    }
  }
  void change_by_hand() {
    Block& first = message_.first();  // says that it will be changed
    if (first.codec == nullptr && first.size() > 0 && message_.materialized()) {
      ++first.rptr;
      static_cast<void>(message_.first());
    }
  }
  void forget() { static_cast<void>(message_.first()); }
  /// From here on facts are looked at by the operations alone, or again after each of them.
  void look_or_not() { forgetting_ = !forgetting_; }

  static constexpr std::array operations_{
      Operation{"prepend", &Walk::prepend},
      Operation{"prepend_data", &Walk::prepend_data},
      Operation{"append", &Walk::append},
      Operation{"link data", &Walk::link_data},
      Operation{"link", &Walk::link_other},
      Operation{"unlink", &Walk::unlink},
      Operation{"pop_block", &Walk::pop_block},
      Operation{"duplicate", &Walk::duplicate},
      Operation{"copy", &Walk::copy},
      Operation{"exchange", &Walk::exchange},
      Operation{"pull_up", &Walk::pull_up},
      Operation{"trim_front", &Walk::trim_front},
      Operation{"trim_data_front", &Walk::trim_data_front},
      Operation{"trim_back", &Walk::trim_back},
      Operation{"trim_back of data", &Walk::trim_data_back},
      Operation{"split", &Walk::split},
      Operation{"make_writable", &Walk::make_writable},
      Operation{"set_native", &Walk::set_native},
      Operation{"encode", &Walk::encode},
      Operation{"defer", &Walk::defer},
      Operation{"swap", &Walk::swap},
      Operation{"sum", &Walk::sum},
      Operation{"materialize", &Walk::materialize},
      Operation{"keep", &Walk::keep},
      Operation{"gather", &Walk::gather},
      Operation{"change by hand", &Walk::change_by_hand},
      Operation{"forget", &Walk::forget},
      Operation{"look or not", &Walk::look_or_not},
  };

  Prng prng_;
  BufferPool pool_;
  std::array<std::byte, 2> field_{};
  Message message_;
  Message other_;
  bool forgetting_ = false;
};

TEST(FactsTest, AnySequenceOfOperationsKeepsThem) {
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    Walk walk(seed);
    std::string done;
    for (int step = 0; step < 2000; ++step) {
      done = walk.step();
      walk.check();
      ASSERT_FALSE(HasFailure()) << "seed " << seed << " step " << step << ": " << done;
    }
  }
}

// --- batches -------------------------------------------------------------------------------------------------------

/// Messages of one digit each.
Batch batch_of(BufferPool& pool, std::string_view digits) {
  Batch batch;
  for (const char& digit : digits) {
    batch.push(text_message(pool, {&digit, 1}));
  }
  return batch;
}

/// What is in the batch, which must end and count as it says.
std::string drained(Batch& batch) {
  std::string text;
  const std::size_t size = batch.size();
  while (const Message message = batch.pop()) {
    text += text_of(message);
  }
  EXPECT_EQ(text.size(), size);
  EXPECT_TRUE(batch.empty());
  return text;
}

TEST(BatchTest, RetainKeepsOrderAndCountWhateverLeaves) {
  BufferPool pool;
  // Every subset of five messages leaves: first, last, neighbours, all, none.
  for (unsigned leaving = 0; leaving < 32; ++leaving) {
    Batch batch = batch_of(pool, "01234");
    std::string expected;
    batch.retain([&](Message& message) {
      const auto digit = static_cast<unsigned>(text_of(message)[0] - '0');
      const bool stays = (leaving >> digit & 1U) == 0;
      expected += stays ? text_of(message) : "";
      return stays;
    });
    EXPECT_EQ(batch.size(), expected.size());
    EXPECT_EQ(batch.empty(), expected.empty());
    batch.push(text_message(pool, "n"));  // the end is known
    EXPECT_EQ(drained(batch), expected + "n") << leaving;
  }
  EXPECT_EQ(pool.statistics().buffers_in_use, 0U);
}

TEST(BatchTest, RetainLetsMessagesBeTakenAndReplaced) {
  BufferPool pool;
  Batch batch = batch_of(pool, "0123");
  Batch taken;
  batch.retain([&](Message& message) {
    const std::string text = text_of(message);
    if (text == "1") {
      taken.push(std::move(message));  // taken, and yet `true`
    } else if (text == "3") {
      message = text_message(pool, "x");
    }
    return true;
  });
  EXPECT_EQ(drained(batch), "02x");
  EXPECT_EQ(drained(taken), "1");
  EXPECT_EQ(pool.statistics().buffers_in_use, 0U);
}

TEST(BatchTest, RetainUntilAnswersWhatIsBehindAndCountsBothHalves) {
  BufferPool pool;
  // Every subset of five messages leaves, and the walk ends before each of them, or not at all.
  for (unsigned stop = 0; stop <= 5; ++stop) {
    for (unsigned leaving = 0; leaving < 32; ++leaving) {
      Batch batch = batch_of(pool, "01234");
      std::string expected;
      unsigned shown = 0;
      Batch rest = batch.retain_until([&](Message& message) {
        const auto digit = static_cast<unsigned>(text_of(message)[0] - '0');
        EXPECT_EQ(digit, shown++);
        if (digit == stop) {
          return Batch::Step::stop;
        }
        const bool stays = (leaving >> digit & 1U) == 0;
        expected += stays ? text_of(message) : "";
        return stays ? Batch::Step::keep : Batch::Step::drop;
      });
      const std::string behind = std::string("01234").substr(stop);
      EXPECT_EQ(shown, std::min(stop + 1, 5U));
      EXPECT_EQ(batch.size(), expected.size());
      EXPECT_EQ(rest.size(), behind.size());
      batch.push(text_message(pool, "n"));  // the ends are known
      rest.push(text_message(pool, "n"));
      EXPECT_EQ(drained(batch), expected + "n") << leaving << " " << stop;
      EXPECT_EQ(drained(rest), behind + "n") << leaving << " " << stop;
    }
  }
  EXPECT_EQ(pool.statistics().buffers_in_use, 0U);
}

TEST(BatchTest, RetainUntilOfNothingAsksNothing) {
  Batch batch;
  EXPECT_TRUE(batch
                  .retain_until([](const Message&) {
                    ADD_FAILURE();
                    return Batch::Step::stop;
                  })
                  .empty());
  EXPECT_TRUE(batch.empty());
}

// What is known of a message is known of its blocks: a duplicate has a block of its own, and learns its own facts.
TEST(Facts, ADuplicateDoesNotKnowTheOriginalsBlocks) {
  BufferPool pool;
  Message message = text_message(pool, "abcdef");
  ASSERT_EQ(message.data_size(), 6U);
  Message copy(pool.duplicate(std::as_const(message).first()));
  ASSERT_TRUE(copy);
  EXPECT_EQ(copy.data_block(), &std::as_const(copy).first());
  copy.trim_data_front(2);
  EXPECT_EQ(text_of(copy), "cdef");
  EXPECT_EQ(copy.data_size(), 4U);
  EXPECT_EQ(text_of(message), "abcdef");
  EXPECT_EQ(message.data_size(), 6U);
}

}  // namespace
}  // namespace sluice::testing
