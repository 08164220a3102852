// SPDX-License-Identifier: Apache-2.0
// Stages of a module's own in messages: beside the table's manipulations in every order, over every kind of memory, and
// what becomes of them when modules and messages go.

#include "stack/core/stage.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "ilp/kernels.h"
#include "ilp/scalar.h"
#include "stack/core/module.h"
#include "tests/own_stages.h"
#include "tests/stack/core/heap_counter.h"
#include "tests/stack/core/support.h"

namespace sluice::testing {
namespace {

using namespace own_stages;
using Model = std::vector<std::byte>;

constexpr std::uint64_t key = 0x0123456789abcdef;

class StageTest : public ::testing::Test {
 protected:
  StageTest() : owner_(owners_.add()) {}

  Message fused(ConstBytes bytes) {
    Message message = Message::copy_of(pool_, bytes, 32);
    message.defer();
    return message;
  }
  TransformResult run(Message& message, const std::shared_ptr<Stage>& stage, std::uint64_t expected = 0,
                      Bytes field = {}) {
    const auto argument = WatchedStage::argument(key, expected);
    return message.transform(OwnStage{.stage = stage, .argument = argument, .field = field}, owner_, watcher_.refused);
  }
  static Model enciphered(Model bytes) {
    ChainedCipher::apply(key, bytes);
    return bytes;
  }

  ModuleHandleTable owners_;
  BufferPool pool_;
  ModuleHandle owner_;
  Watcher watcher_;
  std::shared_ptr<ChainedCipher> cipher_ = std::make_shared<ChainedCipher>();
  std::shared_ptr<Digest> verifier_ = std::make_shared<Digest>(true);
  std::shared_ptr<Digest> digest_ = std::make_shared<Digest>(false);
};

enum class Step : std::uint8_t { swap, sum, check, cipher, verify };
enum class End : std::uint8_t { materialize, keep, gather, land };

/// One message with all five manipulations in one order, against the same done to flat bytes.
class EveryOrder : public StageTest {
 protected:
  void expect_as_if_done_at_once(Message message, Model model, const std::array<Step, 5>& order, End end) {
    message.defer();
    verified_ = 0;
    for (const Step step : order) {
      manipulate(message, model, step);
    }
    Model out;
    if (end == End::land) {
      std::vector<Model> memory{Model(3), Model(model.size() / 2), Model(model.size() + 1)};
      const std::vector<Bytes> places(memory.begin(), memory.end());
      ASSERT_EQ(message.land(places), TransformResult::done);
      for (const Model& place : memory) {
        out.insert(out.end(), place.begin(), place.end());
      }
      out.resize(model.size());
    } else {
      ASSERT_EQ(end == End::materialize ? message.materialize()
                : end == End::keep      ? message.keep()
                                        : message.gather(),
                TransformResult::done);
      out = flat(message);
    }
    ASSERT_EQ(out, model);
    ASSERT_EQ(stored_, expected_);
    ASSERT_EQ(verified_, 2);
  }

 private:
  void manipulate(Message& message, Model& model, Step step) {
    switch (step) {
      case Step::swap:
        ASSERT_NE(message.transform(Swap{4}), TransformResult::failed);
        return ilp::scalar::swap(4, model);
      case Step::sum: {
        auto* field = reinterpret_cast<std::byte*>(&stored_);
        ASSERT_NE(message.transform(Sum{.initial = 7, .field = field, .zero_is_sent_as_ones = false}),
                  TransformResult::failed);
        expected_ = static_cast<std::uint16_t>(~add_sums(7, ilp::scalar::sum(model)));
        return;
      }
      case Step::check: {
        const auto initial = static_cast<std::uint16_t>(~ilp::scalar::sum(model));
        ASSERT_NE(message.transform(Check{initial}, owner_, watcher_.refused), TransformResult::failed);
        return message.when_verified(owner_, [this] { ++verified_; });
      }
      case Step::cipher:
        ASSERT_NE(run(message, cipher_), TransformResult::failed);
        return ChainedCipher::apply(key, model);
      case Step::verify:
        ASSERT_NE(run(message, verifier_, Digest::of(key, model)), TransformResult::failed);
        return message.when_verified(owner_, [this] { ++verified_; });
    }
  }

  std::uint16_t stored_ = 0;
  std::uint16_t expected_ = 0;
  int verified_ = 0;
};

/// Calls `test` with each order of the five.
template <class Test>
void for_every_order(Test test) {
  std::array order{Step::swap, Step::sum, Step::check, Step::cipher, Step::verify};
  do {
    test(order);
  } while (!::testing::Test::HasFatalFailure() && std::ranges::next_permutation(order).found);
}

class StageInEveryOrder : public EveryOrder, public ::testing::WithParamInterface<End> {};

TEST_P(StageInEveryOrder, AtTheBordersOfTiles) {
  for (const std::size_t size : {0U, 4U, 64U, 2044U, 2048U, 2052U, 4096U, 6148U}) {
    for_every_order([&](const auto& order) {
      const Model bytes = counted_bytes(size);
      StageInEveryOrder::expect_as_if_done_at_once(Message::copy_of(pool_, bytes, 32), bytes, order, GetParam());
    });
  }
}

TEST_P(StageInEveryOrder, AtEveryAlignment) {
  for (std::size_t offset = 0; offset < 8; ++offset) {
    for_every_order([&](const auto& order) {
      const Model bytes = counted_bytes(2100);
      Message message = Message::copy_of(pool_, bytes, 32);
      message.trim_front(offset * 3);
      message.trim_back((2100 - offset * 3) % 4);
      const Model model = flat(message);
      StageInEveryOrder::expect_as_if_done_at_once(std::move(message), model, order, GetParam());
    });
  }
}

TEST_P(StageInEveryOrder, AcrossBlocksThatAreOddEmptyReadOnlyAndBorrowed) {
  for (const auto& lengths : std::vector<std::vector<std::size_t>>{
           {1, 1, 1, 1, 1, 1, 1, 1}, {0, 5, 0, 2046, 1}, {2047, 2, 2047}, {3, 0, 1}, std::vector<std::size_t>(20, 5)}) {
    for_every_order([&](const auto& order) {
      std::size_t size = 0;
      for (const std::size_t length : lengths) {
        size += length;
      }
      Model memory = counted_bytes(size);
      Message message;
      std::size_t at = 0;
      for (std::size_t i = 0; i < lengths.size(); ++i) {
        const Bytes shown = Bytes(memory).subspan(at, lengths[i]);
        at += lengths[i];
        Message block = i % 3 == 0   ? Message::copy_of(pool_, shown)
                        : i % 3 == 1 ? Message(pool_.borrow(shown, true, nullptr, nullptr))
                                     : Message(pool_.allocate_external(shown, true, nullptr, nullptr));
        if (message) {
          message.link(std::move(block));
        } else {
          message = std::move(block);
        }
      }
      StageInEveryOrder::expect_as_if_done_at_once(std::move(message), counted_bytes(size), order, GetParam());
      ASSERT_EQ(memory, counted_bytes(size)) << "it is somebody else's";
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Ends, StageInEveryOrder,
                         ::testing::Values(End::materialize, End::keep, End::gather, End::land));

TEST_F(StageTest, OnALayeredPathItRunsAtOnce) {
  const Model bytes = counted_bytes(5000);
  Message message = Message::copy_of(pool_, bytes);
  const Touches before = pool_.touches();
  EXPECT_EQ(run(message, cipher_), TransformResult::done);
  EXPECT_EQ(flat(message), enciphered(bytes));
  EXPECT_EQ(run(message, verifier_, Digest::of(key, enciphered(bytes))), TransformResult::done);
  EXPECT_EQ(run(message, verifier_, 1), TransformResult::failed);
  EXPECT_EQ(watcher_.refused.value(), 0U) << "at once, the caller counts";
  EXPECT_EQ(pool_.touches().loaded_bytes - before.loaded_bytes, 15000U);
  EXPECT_EQ(pool_.touches().stored_bytes - before.stored_bytes, 5000U) << "a digest only reads";
}

TEST_F(StageTest, OneTransformOfTheTableAndTwoStagesAreOnePass) {
  const Model bytes = counted_bytes(6000);
  Message message = fused(bytes);
  const Touches before = pool_.touches();
  ASSERT_EQ(message.transform(Swap{4}), TransformResult::deferred);
  ASSERT_EQ(run(message, cipher_), TransformResult::deferred);
  ASSERT_EQ(run(message, digest_), TransformResult::deferred);
  EXPECT_EQ(cipher_->begun, 0);
  Model place(6000);
  const Bytes places(place);
  ASSERT_EQ(message.land(std::span(&places, 1)), TransformResult::done);
  EXPECT_EQ(cipher_->runs, 3) << "2048 bytes at most";
  EXPECT_EQ(digest_->runs, 3);
  EXPECT_EQ(pool_.touches().loaded_bytes - before.loaded_bytes, 6000U);
  EXPECT_EQ(pool_.touches().stored_bytes - before.stored_bytes, 6000U);
}

TEST_F(StageTest, WithoutDataItBeginsAndEnds) {
  for (const bool is_fused : {false, true}) {
    Message message = Message::allocate(pool_, 8);
    if (is_fused) {
      message.defer();
    }
    std::array<std::byte, 8> field{};
    EXPECT_EQ(run(message, digest_, 0, field), is_fused ? TransformResult::deferred : TransformResult::done);
    EXPECT_EQ(message.materialize(), TransformResult::done);
    EXPECT_EQ(digest_->runs, 0);
    EXPECT_EQ(std::memcmp(field.data(), &key, sizeof key), 0);
  }
  EXPECT_EQ(digest_->begun, 2);
  EXPECT_EQ(digest_->ended, 2);
}

TEST_F(StageTest, ALaterSumCoversTheFieldThatADigestFills) {
  for (const std::size_t header : {10U, 11U}) {  // the field at an even and at an odd place
    for (const std::size_t field_size : {1U, 4U, 7U, 8U}) {
      std::array<Model, 2> sent;
      for (const bool is_fused : {false, true}) {
        Message message = Message::copy_of(pool_, counted_bytes(3000), 64);
        if (is_fused) {
          message.defer();
        }
        const Bytes digest_header = message.prepend(header);
        std::ranges::fill(digest_header, std::byte{0});
        ASSERT_NE(run(message, digest_, 0, digest_header.subspan(header - 9, field_size)), TransformResult::failed);
        const Bytes sum_header = message.prepend(3);
        std::ranges::fill(sum_header, std::byte{0});
        const Sum sum{.initial = 0, .field = sum_header.data(), .zero_is_sent_as_ones = false};
        ASSERT_NE(message.transform(sum), TransformResult::failed);
        ASSERT_EQ(message.gather(), TransformResult::done);
        sent[is_fused ? 1 : 0] = flat(message);
      }
      EXPECT_EQ(sent[0], sent[1]);
      EXPECT_EQ(ilp::scalar::sum(sent[1]), 0xffff);
    }
  }
}

TEST_F(StageTest, AFieldIsFilledBeforeAStageCoversIt) {
  Message message = fused(counted_bytes(2000));
  const Bytes header = message.prepend(2);
  std::ranges::fill(header, std::byte{0});
  ASSERT_EQ(message.transform(Sum{.initial = 0, .field = header.data(), .zero_is_sent_as_ones = false}),
            TransformResult::deferred);
  EXPECT_EQ(run(message, cipher_), TransformResult::deferred);
  ASSERT_EQ(message.materialize(), TransformResult::done);
  Model plain = flat(message);
  ChainedCipher::apply(key, plain, /*deciphers=*/true);
  EXPECT_EQ(ilp::scalar::sum(plain), 0xffff);
}

TEST_F(StageTest, AFailureIsCountedOnceAndNobodyActsOnIt) {
  Message message = fused(counted_bytes(2000));
  int before = 0;
  int after = 0;
  ASSERT_EQ(run(message, cipher_), TransformResult::deferred);
  EXPECT_FALSE(message.unverified()) << "a cipher verifies nothing";
  const std::uint64_t digest = Digest::of(key, enciphered(counted_bytes(2000)));
  ASSERT_EQ(run(message, verifier_, digest), TransformResult::deferred);
  EXPECT_TRUE(message.unverified());
  message.when_verified(owner_, [&before] { ++before; });
  ASSERT_EQ(run(message, std::make_shared<Digest>(true), digest + 1), TransformResult::deferred);
  message.when_verified(owner_, [&after] { ++after; });
  ASSERT_EQ(message.transform(Check{0}, owner_, watcher_.refused), TransformResult::deferred);
  EXPECT_EQ(message.materialize(), TransformResult::failed);
  EXPECT_EQ(message.gather(), TransformResult::failed);
  EXPECT_EQ(run(message, cipher_), TransformResult::failed);
  EXPECT_TRUE(message.failed());
  EXPECT_EQ(watcher_.refused.value(), 1U);
  EXPECT_EQ(before, 1);
  EXPECT_EQ(after, 0);
}

TEST_F(StageTest, ItOutlivesAModuleThatIsPopped) {
  const Model bytes = counted_bytes(3000);
  Message good = fused(bytes);
  ASSERT_EQ(run(good, cipher_), TransformResult::deferred);
  Message bad = fused(bytes);
  ASSERT_EQ(run(bad, verifier_, 1), TransformResult::deferred);
  owners_.remove(owner_);
  const std::weak_ptr<Stage> gone = std::exchange(cipher_, nullptr);
  verifier_.reset();
  EXPECT_FALSE(gone.expired());
  EXPECT_EQ(good.materialize(), TransformResult::done);
  EXPECT_EQ(flat(good), enciphered(bytes)) << "as if it had done so at once";
  EXPECT_TRUE(gone.expired());
  EXPECT_EQ(bad.materialize(), TransformResult::failed);
  EXPECT_EQ(watcher_.refused.value(), 0U) << "nobody is left to count";
}

TEST_F(StageTest, AMessageThatIsDroppedLetsGoOfIt) {
  for (int round = 0; round < 2; ++round) {
    Message message = fused(counted_bytes(2000));
    ASSERT_EQ(run(message, cipher_), TransformResult::deferred);
    EXPECT_EQ(cipher_.use_count(), 2);
    message.reset();
    EXPECT_EQ(cipher_.use_count(), 1);
  }
  EXPECT_EQ(cipher_->begun, 0);
}

TEST_F(StageTest, AskedForTwiceItTakesOneMessageAtATime) {
  const Model bytes = counted_bytes(5000);
  Message message = fused(bytes);
  ASSERT_EQ(run(message, cipher_), TransformResult::deferred);
  ASSERT_EQ(run(message, cipher_), TransformResult::deferred);
  ASSERT_EQ(message.materialize(), TransformResult::done);
  EXPECT_EQ(flat(message), enciphered(enciphered(bytes)));
}

TEST_F(StageTest, TheFrontIsShownAndEverythingIsStillOwed) {
  const Model bytes = counted_bytes(5000);
  Message message = fused(bytes);
  ASSERT_EQ(message.transform(Swap{8}), TransformResult::deferred);
  ASSERT_EQ(run(message, cipher_), TransformResult::deferred);
  ASSERT_EQ(run(message, verifier_, 1), TransformResult::deferred);
  Model expected = bytes;
  ilp::scalar::swap(8, expected);
  ChainedCipher::apply(key, expected);
  for (const auto& [offset, size] : std::vector<std::pair<std::size_t, std::size_t>>{
           {0, 1}, {0, 64}, {3, 7}, {8, 8}, {2047, 2}, {4095, 100}, {4999, 1}, {0, 5000}}) {
    Model seen(size);
    ASSERT_TRUE(message.copy_data_to(offset, seen));
    EXPECT_TRUE(std::ranges::equal(seen, Bytes(expected).subspan(offset, size))) << offset << ", " << size;
  }
  Model more(5);
  EXPECT_FALSE(message.copy_data_to(4996, more));
  EXPECT_EQ(cipher_->ended + verifier_->ended, 0);
  EXPECT_FALSE(message.failed());
  EXPECT_EQ(message.materialize(), TransformResult::failed);
}

TEST_F(StageTest, BytesThatItCoversAreCarriedOutBeforeTheyAreTrimmedOff) {
  const Model bytes = counted_bytes(3000);
  Message message = fused(bytes);
  ASSERT_EQ(run(message, cipher_), TransformResult::deferred);
  static_cast<void>(message.prepend(5));
  message.trim_front(5);
  EXPECT_EQ(cipher_->begun, 0) << "a header in front of what it covers";
  message.trim_front(1);
  EXPECT_EQ(cipher_->ended, 1);
  EXPECT_TRUE(message.materialized());
  const Model expected = enciphered(bytes);
  EXPECT_TRUE(std::ranges::equal(flat(message), ConstBytes(expected).subspan(1)));
}

TEST_F(StageTest, AHeaderInFrontIsLeftAloneAndMayGoBeforeThePass) {
  const Model bytes = counted_bytes(3000);
  for (const std::size_t header : {0U, 1U, 8U, 3000U}) {
    Model expected = bytes;
    ilp::scalar::swap(4, expected);
    ChainedCipher::apply(key, Bytes(expected).subspan(header));
    Message message = fused(bytes);
    ASSERT_EQ(message.transform(Swap{4}), TransformResult::deferred);
    const auto argument = WatchedStage::argument(key);
    const OwnStage own{.stage = cipher_, .from = header, .argument = argument};
    ASSERT_EQ(message.transform(own, owner_, watcher_.refused), TransformResult::deferred);
    message.trim_front(header);
    ASSERT_EQ(message.materialize(), TransformResult::done);
    EXPECT_TRUE(std::ranges::equal(flat(message), ConstBytes(expected).subspan(header)));
  }
  EXPECT_EQ(cipher_->begun, cipher_->ended);
}

TEST_F(StageTest, NothingIsAllocatedForAMessage) {
  const Model bytes = counted_bytes(3000);
  fused(bytes).reset();
  const std::size_t before = heap_allocations();
  for (int round = 0; round < 100; ++round) {
    Message message = fused(bytes);
    ASSERT_EQ(run(message, cipher_), TransformResult::deferred);
    ASSERT_EQ(message.materialize(), TransformResult::done);
  }
  EXPECT_EQ(heap_allocations(), before);
}

}  // namespace
}  // namespace sluice::testing
