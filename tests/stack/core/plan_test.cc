// SPDX-License-Identifier: Apache-2.0
// A message with a plan against the same done at once to flat bytes (ilp/scalar.h): whatever is done to the message in
// between, what comes out in the end is the same, checks come out the same, and changes happen when they may.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <optional>

#include "base/prng.h"
#include "ilp/kernels.h"
#include "ilp/scalar.h"
#include "stack/core/module.h"
#include "stack/core/module_handle.h"
#include "tests/own_stages.h"
#include "tests/stack/core/support.h"

namespace sluice::testing {
namespace {

using namespace own_stages;
using Model = std::vector<std::byte>;

std::uint16_t sum_of(const Model& bytes) { return ilp::scalar::sum(bytes); }

Model random_bytes(Prng& prng, std::size_t size) {
  Model bytes(size);
  prng.fill(bytes);
  return bytes;
}

Model data_of(Message& message) {
  Model bytes;
  for (const Block* block = &message.first(); block != nullptr; block = block->cont) {
    if (block->type == MessageType::data) {
      bytes.insert(bytes.end(), block->rptr, block->wptr);
    }
  }
  return bytes;
}

/// Memory of somebody else's, which nobody may write to unless it is theirs to.
class Lender {
 public:
  Message show(BufferPool& pool, const Model& bytes, bool borrowed) {
    memory_.push_back(std::make_unique<Model>(bytes));
    originals_.push_back(bytes);
    Bytes shown(*memory_.back());
    return Message(borrowed ? pool.borrow(shown, true, nullptr, nullptr)
                            : pool.allocate_external(shown, true, nullptr, nullptr));
  }
  ConstBytes lend(ConstBytes bytes) {
    memory_.push_back(std::make_unique<Model>(bytes.begin(), bytes.end()));
    originals_.push_back(*memory_.back());
    return *memory_.back();
  }
  [[nodiscard]] bool untouched() const {
    return std::ranges::equal(memory_, originals_, [](const auto& one, const Model& other) { return *one == other; });
  }

 private:
  std::vector<std::unique_ptr<Model>> memory_;
  std::vector<Model> originals_;
};

/// One random life of a message, from its making to its pass.
class Life {
 public:
  Life(std::uint64_t seed, std::size_t pool_bytes) : prng_(seed), pool_(pool_bytes), owner_(owners_.add()) {}

  void live() {
    message_ = made(prng_.below(3) == 0 ? 1 + prng_.below(20) : 1 + prng_.below(4));
    if (!message_) {
      return;
    }
    if (prng_.below(8) != 0) {
      message_.defer();
      lend_part();
    }
    if (prng_.below(3) == 0) {
      Message control = Message::copy_of(pool_, as_bytes("control"), 0, MessageType::proto);
      control_ = static_cast<bool>(control);
      if (control_) {
        control.link(std::move(message_));
        message_ = std::move(control);
      }
    }
    for (std::size_t left = 1 + prng_.below(12); left > 0 && message_ && !lost_; --left) {
      step();
      ASSERT_FALSE(::testing::Test::HasFailure());
    }
    if (message_ && !lost_) {
      end();
    }
    EXPECT_TRUE(lender_.untouched());
    expect_changes();
    message_.reset();
    EXPECT_EQ(owed_, nullptr) << "nobody completes the copy of a message that is gone";
    for (const auto& cipher : ciphers_) {
      EXPECT_EQ(cipher.use_count(), 1) << "nothing owes it any more";
    }
  }

 private:
  /// Some bytes of the first block are yet to be copied: what is in their place now is not to be seen.
  void lend_part() {
    const Block& block = message_.first();
    if (!message_.fused() || !block.buffer->writable() || !block.buffer->pooled() || block.size() == 0) {
      return;
    }
    const std::size_t from = prng_.below(block.size());
    const Bytes part = block.bytes().subspan(from, 1 + prng_.below(block.size() - from));
    message_.defer_copy(lender_.lend(part), part.data(), owed_);
    std::ranges::fill(part, std::byte{0xee});
  }
  void end_loan() {
    while (owed_ != nullptr) {
      pool_.complete(*owed_);
    }
  }

  Message piece(const Model& bytes) {
    switch (prng_.below(6)) {
      case 0:
        return lender_.show(pool_, bytes, /*borrowed=*/true);
      case 1:
        return lender_.show(pool_, bytes, /*borrowed=*/false);
      case 2: {
        Message message = Message::copy_of(pool_, bytes, 16);
        shared_.push_back(message ? message.duplicate() : Message());
        return message;
      }
      default:
        return Message::copy_of(pool_, bytes, prng_.below(2) * 32);
    }
  }
  Message made(std::size_t blocks) {
    Message whole;
    for (; blocks > 0; --blocks) {
      const std::size_t large = prng_.below(20) == 0 ? 3000 : 40;
      const std::size_t size = prng_.below(5) == 0 ? 0 : prng_.below(large) / (prng_.below(2) * 7 + 1);
      const Model bytes = random_bytes(prng_, prng_.below(3) == 0 ? size : size / 8 * 8);
      Message next = piece(bytes);
      if (!next) {
        return {};
      }
      model_.insert(model_.end(), bytes.begin(), bytes.end());
      if (whole) {
        whole.link(std::move(next));
      } else {
        whole = std::move(next);
      }
    }
    return whole;
  }

  void step() {
    switch (prng_.below(24)) {
      case 0:
      case 1:
      case 2:
      case 3:
        return swap();
      case 4:
        return with_data([this] { prepend(1 + prng_.below(12)); });
      case 5:
      case 6:
        return with_data([this] { sum(); });
      case 7:
        return sum_outside();
      case 8:
      case 9:
        return check();
      case 10:
        return when_verified();
      case 11:
      case 12:
        return with_data([this] { trim_front(); });
      case 13:
        return with_data([this] { trim_back(); });
      case 14:
        return again();
      case 15:
        return with_data([this] { cut_and_link(); });
      case 16:
        return with_data([this] { pull_up(); });
      case 17:
        return append();
      case 18:
      case 19:
        return cipher();
      case 20:
        return with_data([this] { digest(); });
      case 21:
        return verify();
      case 22:
        return end_loan();
      default:
        return look();
    }
  }

  /// Runs `act` on the data alone.
  void with_data(auto act) {
    Message control;
    if (control_) {
      Message data = message_.unlink();
      control = std::move(message_);
      message_ = std::move(data);
    }
    act();
    if (control_ && message_) {
      control.link(std::move(message_));
      message_ = std::move(control);
    }
  }

  void swap() {
    const std::size_t unit = std::size_t{2} << prng_.below(3);
    const bool whole = model_.size() % unit == 0;
    const TransformResult result = message_.transform(Swap{unit});
    if (!whole) {
      EXPECT_EQ(result, TransformResult::failed);
    } else if (result == TransformResult::failed) {
      lose();
    } else {
      ilp::scalar::swap(unit, model_);
    }
  }
  Bytes prepend(std::size_t size) {
    const Bytes header = message_.prepend(size);
    if (!header.empty()) {
      const Model bytes = random_bytes(prng_, size);
      std::ranges::copy(bytes, header.begin());
      model_.insert(model_.begin(), bytes.begin(), bytes.end());
    }
    return header;
  }
  void sum() {
    const std::size_t size = 2 + prng_.below(9);
    const Bytes header = prepend(size);
    if (header.empty()) {
      return;
    }
    const std::size_t at = prng_.below(size - 1);
    header[at] = header[at + 1] = model_[at] = model_[at + 1] = std::byte{0};
    const Sum sum{.initial = static_cast<std::uint16_t>(prng_()),
                  .field = header.data() + at,
                  .zero_is_sent_as_ones = prng_.below(2) == 0};
    if (message_.transform(sum) == TransformResult::failed) {
      return lose();
    }
    const std::uint16_t stored = stored_sum(sum);
    std::memcpy(model_.data() + at, &stored, sizeof stored);
    sums_inside_ = true;
  }
  [[nodiscard]] std::uint16_t stored_sum(const Sum& sum) const {
    const std::uint16_t value = checksum_of(add_sums(sum.initial, sum_of(model_)));
    return value == 0 && sum.zero_is_sent_as_ones ? std::uint16_t{0xffff} : value;
  }
  void sum_outside() {
    outside_.push_back(std::make_unique<std::array<std::uint16_t, 2>>());
    auto& field = *outside_.back();
    const Sum sum{.initial = static_cast<std::uint16_t>(prng_()),
                  .field = reinterpret_cast<std::byte*>(field.data()),
                  .zero_is_sent_as_ones = false};
    if (message_.transform(sum) == TransformResult::failed) {
      return lose();
    }
    field[1] = stored_sum(sum);
  }
  void check() {
    const bool holds = prng_.below(5) != 0;
    const std::uint16_t good = checksum_of(sum_of(model_));
    const auto initial = static_cast<std::uint16_t>(holds ? good : good + 1 + prng_.below(0xfffe));
    const bool really = sum_holds(add_sums(initial, sum_of(model_)));
    expect_of_check(really, message_.transform(Check{initial}, owner_, watcher_.refused));
  }
  void expect_of_check(bool really, TransformResult result) {
    if (!really) {
      refuted_ = true;
      at_once_ = result == TransformResult::failed && !message_.failed();
    }
    if (result == TransformResult::failed) {
      lose();
    } else {
      EXPECT_TRUE(really || result == TransformResult::deferred);
    }
  }
  /// The module that it belongs to may be popped at once.
  void cipher() {
    auto& stage = ciphers_[prng_.below(ciphers_.size())];
    if (prng_.below(4) == 0) {
      stage = std::make_shared<ChainedCipher>();
    }
    const std::uint64_t key = prng_();
    const auto argument = WatchedStage::argument(key);
    const std::size_t from = prng_.below(3) == 0 ? prng_.below(model_.size() + 1) : 0;
    const OwnStage own{.stage = stage, .from = from, .argument = argument};
    if (message_.transform(own, owner_, watcher_.refused) == TransformResult::failed) {
      return lose();
    }
    ChainedCipher::apply(key, Bytes(model_).subspan(from));
  }
  void digest() {
    const std::size_t size = 1 + prng_.below(Stage::result_bytes_max);
    const Bytes header = prepend(size);
    if (header.empty()) {
      return;
    }
    const std::size_t at = prng_.below(size);
    const std::size_t field_size = prng_.below(size - at + 1);
    std::ranges::fill(header.subspan(at, field_size), std::byte{0});
    std::ranges::fill(Bytes(model_).subspan(at, field_size), std::byte{0});
    const std::uint64_t key = prng_();
    const auto argument = WatchedStage::argument(key);
    const std::size_t from = prng_.below(2) == 0 ? size : 0;
    const OwnStage own{.stage = digest_, .from = from, .argument = argument, .field = header.subspan(at, field_size)};
    if (message_.transform(own, owner_, watcher_.refused) == TransformResult::failed) {
      return lose();
    }
    const std::uint64_t digest = Digest::of(key, Bytes(model_).subspan(from));
    for (std::size_t i = 0; i < field_size; ++i) {
      model_[at + i] = WatchedStage::byte_of(digest, i);
    }
    sums_inside_ = true;
  }
  void verify() {
    const bool holds = prng_.below(5) != 0;
    const std::uint64_t key = prng_();
    const auto argument = WatchedStage::argument(key, Digest::of(key, model_) + (holds ? 0 : 1));
    const OwnStage own{.stage = prng_.below(2) == 0 ? verifier_ : std::make_shared<Digest>(true), .argument = argument};
    expect_of_check(holds, message_.transform(own, owner_, watcher_.refused));
  }
  void when_verified() {
    if (changes_.size() == changes_.capacity()) {
      return;
    }
    changes_.push_back({.ran = 0, .may_run = !refuted_});
    message_.when_verified(owner_, [change = &changes_.back()] { ++change->ran; });
  }
  void trim_front() {
    const std::size_t size =
        prng_.below(2) == 0 ? std::min<std::size_t>(model_.size(), prng_.below(20)) : prng_.below(model_.size() + 1);
    message_.trim_front(size);
    model_.erase(model_.begin(), model_.begin() + static_cast<std::ptrdiff_t>(size));
  }
  void trim_back() {
    const std::size_t size = prng_.below(std::min<std::size_t>(model_.size(), 20) + 1);
    message_.trim_back(size);
    if (message_.failed()) {
      return lose();
    }
    model_.resize(model_.size() - size);
  }
  /// The same message, again: duplicated, copied, materialized, kept, made writable.
  void again() {
    switch (prng_.below(5)) {
      case 0:
      case 1: {
        Message other = prng_.below(2) == 0 ? message_.duplicate() : message_.copy();
        if (!other) {
          return lose();
        }
        shared_.push_back(std::exchange(message_, std::move(other)));
        break;
      }
      case 2:
        return message_.materialize() == TransformResult::done ? expect_real() : lose();
      case 3:
        return message_.keep() == TransformResult::done ? expect_real() : lose();
      default:
        static_cast<void>(message_.make_writable());
        return;
    }
    expect_real();
  }
  void expect_real() {
    EXPECT_TRUE(message_.materialized());
    EXPECT_EQ(data_of(message_), model_);
    sums_inside_ = false;
  }
  void cut_and_link() {
    if (prng_.below(3) == 0) {
      const std::size_t first = message_.first().size();
      if (prng_.below(2) == 0 || message_.block_count() == 1) {
        Message rest = message_.unlink();
        if (message_.failed()) {
          EXPECT_FALSE(rest);
          return lose();
        }
        if (rest) {
          message_.link(std::move(rest));
        }
        return;
      }
      message_.pop_block();
      model_.erase(model_.begin(), model_.begin() + static_cast<std::ptrdiff_t>(first));
      return message_ ? void() : lose();
    }
    const std::size_t at = prng_.below(model_.size() + 1);
    Message rest = message_.split(at);
    if (!rest) {
      return lose();
    }
    const std::size_t unit = std::size_t{2} << prng_.below(3);
    if ((model_.size() - at) % unit == 0 && rest.transform(Swap{unit}) != TransformResult::failed) {
      ilp::scalar::swap(unit, Bytes(model_).subspan(at));
    }
    message_.link(std::move(rest));
    if (message_.failed()) {
      lose();
    }
  }
  void pull_up() {
    const std::size_t size = prng_.below(std::min<std::size_t>(model_.size(), 60) + 1);
    if (message_.pull_up(size)) {
      EXPECT_GE(message_.first().size(), size);
    }
  }
  void append() {
    const std::size_t size = 1 + prng_.below(20);
    const Bytes space = message_.append(size);
    if (space.empty()) {
      return;
    }
    const Model bytes = random_bytes(prng_, size);
    std::ranges::copy(bytes, space.begin());
    model_.insert(model_.end(), bytes.begin(), bytes.end());
  }
  /// At the front, which programs look at before the pass; a field that a sum has not filled yet may differ.
  void look() {
    const std::size_t offset = prng_.below(model_.size() + 3);
    Model seen(1 + prng_.below(20));
    const bool there = offset + seen.size() <= model_.size();
    EXPECT_EQ(message_.copy_data_to(offset, seen), there);
    if (there && !refuted_ && !message_.failed() && (!sums_inside_ || message_.materialized())) {
      EXPECT_TRUE(std::ranges::equal(seen, Bytes(model_).subspan(offset, seen.size()))) << "at " << offset;
    }
  }

  /// A call failed: a check did not hold, or the pool is exhausted.
  void lose() {
    lost_ = true;
    EXPECT_TRUE(refuted_ || pool_.statistics().allocations_failed > 0);
    EXPECT_LE(watcher_.refused.value(), refuted_ && !at_once_ ? 1U : 0U);
  }

  void end() {
    const std::size_t size = message_.data_size();
    EXPECT_TRUE(size == model_.size() || message_.failed());
    std::vector<Model> memory;
    Model out;
    TransformResult result = TransformResult::failed;
    switch (prng_.below(4)) {
      case 0:
        result = message_.materialize();
        out = data_of(message_);
        break;
      case 1:
        result = message_.keep();
        out = data_of(message_);
        break;
      case 2:
        result = message_.gather();
        out = data_of(message_);
        break;
      default: {
        std::size_t left = size;
        for (std::size_t count = 1 + prng_.below(5); count > 0; --count) {
          memory.emplace_back(count == 1 ? left + prng_.below(3) : prng_.below(left + 1));
          left -= std::min(left, memory.back().size());
        }
        std::vector<Bytes> places(memory.begin(), memory.end());
        result = message_.land(places);
        for (const Model& place : memory) {
          out.insert(out.end(), place.begin(), place.end());
        }
        out.resize(size);
      }
    }
    if (result == TransformResult::done) {
      EXPECT_FALSE(refuted_);
      EXPECT_EQ(out, model_);
      for (const auto& field : outside_) {
        EXPECT_EQ((*field)[0], (*field)[1]);
      }
      ended_well_ = true;
    } else {
      EXPECT_TRUE(refuted_ || pool_.statistics().allocations_failed > 0);
    }
    EXPECT_LE(watcher_.refused.value(), refuted_ ? 1U : 0U);
    EXPECT_TRUE(watcher_.refused.value() == 1 || !refuted_ || pool_.statistics().allocations_failed > 0);
  }
  void expect_changes() const {
    for (const Change& change : changes_) {
      EXPECT_LE(change.ran, change.may_run ? 1 : 0);
      EXPECT_TRUE(!ended_well_ || change.ran == 1);
    }
  }

  struct Change {
    int ran = 0;
    bool may_run = false;
  };
  static std::vector<Change> room_for_changes() {
    std::vector<Change> changes;
    changes.reserve(16);
    return changes;
  }

  Prng prng_;
  ModuleHandleTable owners_;
  Lender lender_;
  BufferPool pool_;
  ModuleHandle owner_;
  Watcher watcher_;
  std::vector<Message> shared_;
  std::vector<std::unique_ptr<std::array<std::uint16_t, 2>>> outside_;  // stored, expected
  std::vector<Change> changes_ = room_for_changes();
  std::array<std::shared_ptr<ChainedCipher>, 3> ciphers_{
      std::make_shared<ChainedCipher>(), std::make_shared<ChainedCipher>(), std::make_shared<ChainedCipher>()};
  std::shared_ptr<Digest> digest_ = std::make_shared<Digest>(false);
  std::shared_ptr<Digest> verifier_ = std::make_shared<Digest>(true);
  Message message_;
  DeferredCopy* owed_ = nullptr;
  Model model_;
  bool control_ = false;
  bool sums_inside_ = false;
  bool refuted_ = false;
  bool at_once_ = false;
  bool lost_ = false;
  bool ended_well_ = false;
};

/// A message of `blocks` blocks of 8 bytes with a plan that owes a conversion.
Message converting(BufferPool& pool, std::size_t blocks) {
  Message message = chain_message(pool, counted_bytes(8 * blocks), std::vector<std::size_t>(blocks, 8));
  message.defer();
  EXPECT_EQ(message.transform(Swap{8}), TransformResult::deferred);
  return message;
}

/// Takes all the memory that `pool` has left.
std::vector<Message> exhaust(BufferPool& pool) {
  std::vector<Message> taken;
  for (std::size_t size = BufferPool::capacity_max; size > 0; size /= 2) {
    while (Message message = Message::allocate(pool, size)) {
      taken.push_back(std::move(message));
    }
  }
  return taken;
}

TEST(Plan, AFailureIsNotForgottenWhenDataIsLinkedOrUnlinked) {
  BufferPool pool;
  Watcher watcher;
  const auto bad = [&] {
    Message message = chain_message(pool, counted_bytes(16), {8, 8});
    message.defer();
    EXPECT_EQ(message.transform(Check{0}, ModuleHandle(), watcher.refused), TransformResult::deferred);
    return message;
  };
  for (const bool front_is_fused : {false, true}) {
    Message front = chain_message(pool, counted_bytes(8), {8});
    if (front_is_fused) {
      front.defer();
    }
    front.link(bad());
    EXPECT_TRUE(front.failed());
    EXPECT_EQ(front.materialize(), TransformResult::failed);
  }
  Message whole = text_message(pool, "control", MessageType::proto);
  whole.link(bad());
  whole.trim_back(16);
  EXPECT_TRUE(whole.failed());
  Message message = bad();
  EXPECT_FALSE(message.unlink()) << "what is behind would pass for good";
  Message popped = bad();
  popped.pop_block();
  EXPECT_FALSE(popped);
}

// Steps cover what the data was: after a cut that could not be prepared they must not be tried on what is left.
TEST(Plan, ACutThatCannotBePreparedFailsTheMessage) {
  BufferPool pool(std::size_t{1} << 20);
  Message message = converting(pool, 2);
  const Message shared = message.duplicate();  // materializes; from here on a conversion needs memory
  Message other = message.duplicate();
  ASSERT_EQ(other.transform(Swap{8}), TransformResult::deferred);
  const std::vector<Message> taken = exhaust(pool);
  other.trim_back(3);
  EXPECT_TRUE(other.failed());
  EXPECT_EQ(other.materialize(), TransformResult::failed);
  ASSERT_EQ(message.transform(Swap{8}), TransformResult::deferred);
  message.trim_front(3);
  EXPECT_TRUE(message.failed());
  EXPECT_EQ(message.gather(), TransformResult::failed);
}

TEST(Plan, APrependThatFailsLeavesThePlanWhereItWas) {
  BufferPool pool(std::size_t{1} << 20);
  Message message = converting(pool, 1);
  const std::vector<Message> taken = exhaust(pool);
  EXPECT_TRUE(message.prepend(5).empty());
  EXPECT_EQ(message.materialize(), TransformResult::done);
  Model expected = counted_bytes(8);
  ilp::scalar::swap(8, expected);
  EXPECT_EQ(flat(message), expected);
}

// Reassembly chains fragments by hand; each may have brought a plan that owes nothing.
TEST(Plan, IdlePlansOfChainedDataGoHome) {
  BufferPool pool(std::size_t{1} << 18);
  for (int round = 0; round < 20'000; ++round) {
    Message message = chain_message(pool, counted_bytes(8), {8});
    Message behind = chain_message(pool, counted_bytes(8), {8});
    message.defer();
    behind.defer();
    ASSERT_TRUE(message.fused() && behind.fused()) << round;
    message.first().cont = behind.release();
    message.trim_front(8);
  }
}

// ICMP errors quote headers that have been trimmed off.
TEST(Plan, CopiesKeepWhatIsInFrontOfTheData) {
  BufferPool pool;
  const auto in_front = [](Message& message) {
    return std::string(as_text(ConstBytes(message.first().rptr - 6, std::size_t{6})));
  };
  const auto trimmed = [&pool] {
    Message message = text_message(pool, "headerdata");
    message.trim_front(6);
    message.link(text_message(pool, "more"));
    return message;
  };
  Message message = trimmed();
  Message copy = message.copy();
  EXPECT_EQ(in_front(copy), "header");
  const Message shared = message.duplicate();
  ASSERT_TRUE(message.make_writable());
  EXPECT_EQ(in_front(message), "header");
  Message pulled = trimmed();
  ASSERT_TRUE(pulled.pull_up(8));
  EXPECT_EQ(in_front(pulled), "header");
}

TEST(Plan, ChangesAndCountsOfAnOwnerThatIsGoneDoNotHappen) {
  for (const bool good : {false, true}) {
    ModuleHandleTable owners;
    BufferPool pool;
    Watcher stays;
    Watcher goes;
    const ModuleHandle staying = owners.add();
    const ModuleHandle going = owners.add();
    Message message = chain_message(pool, counted_bytes(16), {16});
    message.defer();
    const auto holds = checksum_of(message.data_sum());
    int of_staying = 0;
    int of_going = 0;
    static_cast<void>(message.transform(Check{holds}, staying, stays.refused));
    message.when_verified(staying, [&of_staying] { ++of_staying; });
    static_cast<void>(message.transform(Check{good ? holds : checksum_of(holds)}, going, goes.refused));
    message.when_verified(going, [&of_going] { ++of_going; });
    owners.remove(going);
    EXPECT_EQ(message.materialize(), good ? TransformResult::done : TransformResult::failed);
    EXPECT_EQ(of_staying, 1) << "its check held, whatever came out later";
    EXPECT_EQ(of_going, 0);
    EXPECT_EQ(stays.refused.value() + goes.refused.value(), 0U);
  }
}

TEST(Plan, WhateverIsDoneToAMessageComesOutAsIfDoneAtOnce) {
  for (std::uint64_t seed = 1; seed <= 100'000; ++seed) {
    Life(seed, BufferPool::bytes_max_default).live();
    ASSERT_FALSE(HasFailure()) << "seed " << seed;
  }
}

TEST(Plan, WithoutMemoryNothingIsWrongAndNothingPassesForGood) {
  for (std::uint64_t seed = 1; seed <= 50'000; ++seed) {
    Life(seed, 64 * 1024 + seed % 7 * 40'000).live();
    ASSERT_FALSE(HasFailure()) << "seed " << seed;
  }
}

}  // namespace
}  // namespace sluice::testing
