// SPDX-License-Identifier: Apache-2.0
// The explanation of a chain: the rules one by one, and random chains whose traffic must cost what was explained.

#include "stack/head/explanation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "base/prng.h"
#include "stack/head/stream.h"

namespace sluice::test {
namespace {

using Kind = PayloadWork::Kind;
using Item = PayloadWork::Item;

constexpr std::size_t payload_bytes = 65536;

/// A stage that changes bytes, or only reads them; zeros stay zeros.
class NullStage final : public Stage {
 public:
  using Stage::Stage;
  void begin(ConstBytes /*argument*/) override {}
  void run(std::size_t /*offset*/, ConstBytes from, Bytes to) override {
    std::ranges::copy(from.first(to.size()), to.begin());
  }
};

const auto cipher_stage = std::make_shared<NullStage>(Stage::Nature{.name = "cipher", .converts = true});
const auto digest_stage = std::make_shared<NullStage>(Stage::Nature{.name = "digest"});

/// What a module of these tests does on both sides.
struct Conduct {
  std::vector<Item> items = {};
  std::string_view materializes = {};
  bool keeps = false;
  bool knows_plans = true;
  bool materializes_last = false;
};

/// Does what it says. Payload is zeros, so that every 16-bit word is 0 or all ones, sums included, and checks hold.
class Worker : public Module {
 public:
  explicit Worker(Conduct conduct) : Module("worker"), conduct_(std::move(conduct)) {}

  [[nodiscard]] bool handles_deferred() const override { return conduct_.knows_plans; }
  [[nodiscard]] PayloadWork payload_work(Side side) const override {
    if (!conduct_.knows_plans) {
      return Module::payload_work(side);
    }
    return {.items = conduct_.items,
            .materializes = conduct_.materializes,
            .keeps = conduct_.keeps,
            .materializes_last = conduct_.materializes_last};
  }
  void wput(Batch&& batch) override { work(std::move(batch), Side::write); }
  void rput(Batch&& batch) override { work(std::move(batch), Side::read); }

 private:
  void work(Batch batch, Side side) {
    while (Message message = batch.pop()) {
      if (!conduct_.materializes_last) {
        make_real(message, side);
      }
      for (const Item& item : conduct_.items) {
        EXPECT_NE(manipulate(message, item), TransformResult::failed);
      }
      if (conduct_.materializes_last) {
        make_real(message, side);
      }
      queue(side).put_next(std::move(message));
    }
  }

  void make_real(Message& message, Side side) {
    if (!conduct_.materializes.empty() && conduct_.knows_plans) {
      EXPECT_EQ(conduct_.keeps ? keep(message, side) : materialize(message, side), TransformResult::done);
    }
  }

  TransformResult manipulate(Message& message, const Item& item) {
    if (item.kind == Kind::swap) {
      return message.transform(Swap{item.unit});
    }
    if (item.kind == Kind::check) {
      return message.transform(Check{.initial = 0xffff}, handle(), refused_);
    }
    if (item.kind == Kind::own && !item.fills) {
      return message.transform(OwnStage{.stage = stage_of(item)}, handle(), refused_);
    }
    const Bytes header = message.prepend(8);
    std::ranges::fill(header, std::byte{0});
    if (item.kind == Kind::own) {
      return message.transform(OwnStage{.stage = stage_of(item), .field = header}, handle(), refused_);
    }
    return message.transform(Sum{.initial = 0, .field = header.data(), .zero_is_sent_as_ones = false});
  }

  static std::shared_ptr<Stage> stage_of(const Item& item) {
    return item.stage == cipher_stage.get() ? cipher_stage : digest_stage;
  }

  Conduct conduct_;
  Counter refused_{*this, "refused", "checks that did not hold"};
};

/// A device that gathers frames; upwards it shows its own memory, as a ring does, where `lends`.
class GatheringDevice : public Module {
 public:
  explicit GatheringDevice(bool lends) : Module("device"), lends_(lends) {}

  [[nodiscard]] bool handles_deferred() const override { return true; }
  [[nodiscard]] std::size_t headroom() const override { return 64; }
  [[nodiscard]] PayloadWork payload_work(Side side) const override {
    if (side == Side::write) {
      return {.items = {{.kind = Kind::gather, .where = "message to frame", .layered = false}}};
    }
    PayloadWork work;
    if (lends_) {
      work.items = {{.kind = Kind::copy, .where = "slot to message", .fused = false}};
    }
    return work;
  }
  void wput(Batch&& batch) override {
    while (Message message = batch.pop()) {
      EXPECT_NE(message.gather(), TransformResult::failed);
      ++frames;
    }
  }
  void receive() {
    BufferPool& pool = set().pool();
    Message message;
    if (lends_ && mode() == ProcessingMode::fused) {
      message = Message(pool.borrow(slot_, true, [](void*, ConstBytes) {}, nullptr));
    } else if (lends_) {
      message = Message::copy_of(pool, slot_, 64);
    } else {  // as if the operating system had put it there
      message = Message::allocate(pool, slot_.size(), 64);
      std::ranges::fill(message.append(slot_.size()), std::byte{0});
    }
    if (mode() == ProcessingMode::fused) {
      message.defer();
    }
    read_queue().put_next(std::move(message));
  }

  int frames = 0;

 private:
  bool lends_;
  std::vector<std::byte> slot_ = std::vector<std::byte>(payload_bytes);
};

class ExplanationTest : public testing::Test {
 protected:
  /// A stream with these modules, top first.
  void open(ProcessingMode mode, const std::vector<Conduct>& conducts, bool lends = false) {
    auto device = std::make_unique<GatheringDevice>(lends);
    device_ = device.get();
    stream_ = Stream::open(set_, std::move(device)).value();
    stream_->set_nonblocking(true);
    stream_->set_mode(mode);
    stream_->set_read_options({.mode = ReadMode::byte_stream});
    for (auto conduct = conducts.rbegin(); conduct != conducts.rend(); ++conduct) {
      ASSERT_TRUE(stream_->push(std::make_unique<Worker>(*conduct)).has_value());
    }
  }

  /// The passes of a side, as "module number: kernel".
  static std::vector<std::string> passes(const ExplainedSide& side) {
    std::vector<std::string> passes;
    for (std::size_t at = 0; at < side.modules.size(); ++at) {
      for (const ExplainedItem& item : side.modules[at].items) {
        if (item.pass) {
          passes.push_back(std::to_string(at) + ": " + std::string(item.pass->kernel) +
                           (item.pass->in_place ? " in place" : ""));
        }
      }
    }
    return passes;
  }
  std::vector<std::string> passes_down(ProcessingMode mode, const std::vector<Conduct>& conducts) {
    open(mode, conducts);
    return passes(explain(*stream_).down);
  }
  std::vector<std::string> passes_up(ProcessingMode mode, const std::vector<Conduct>& conducts, bool lends = false) {
    open(mode, conducts, lends);
    return passes(explain(*stream_).up);
  }

  StreamSet set_;
  std::unique_ptr<Stream> stream_;
  GatheringDevice* device_ = nullptr;
};

using Passes = std::vector<std::string>;

Item swap(std::size_t unit) { return {.kind = Kind::swap, .unit = unit}; }
constexpr Item sum{.kind = Kind::sum};
constexpr Item check{.kind = Kind::check};
const Item cipher{.kind = Kind::own, .stage = cipher_stage.get()};
const Item digest{.kind = Kind::own, .stage = digest_stage.get()};
const Item tag{.kind = Kind::own, .stage = digest_stage.get(), .fills = true};

TEST_F(ExplanationTest, ALayeredPathPassesOnceForEachManipulation) {
  const std::vector<Conduct> conducts = {{.items = {swap(4)}}, {.items = {sum}}};
  EXPECT_EQ(passes_down(ProcessingMode::layered, conducts), (Passes{"0: copy", "1: swap in place", "2: sum in place"}));
  EXPECT_EQ(passes_up(ProcessingMode::layered, {{.items = {swap(8)}}, {.items = {check}}}, /*lends=*/true),
            (Passes{"0: copy", "1: sum in place", "2: swap in place", "3: copy"}));
}

TEST_F(ExplanationTest, AFusedPathPassesOnceInTheKernelThatDoesItAll) {
  EXPECT_EQ(passes_down(ProcessingMode::fused, {}), (Passes{"1: copy"}));
  EXPECT_EQ(passes_down(ProcessingMode::fused, {{.items = {sum}}}), (Passes{"2: sum_copy"}));
  EXPECT_EQ(passes_down(ProcessingMode::fused, {{.items = {swap(2)}}}), (Passes{"2: swap_copy"}));
  EXPECT_EQ(passes_down(ProcessingMode::fused, {{.items = {swap(4)}}, {.items = {sum}}}), (Passes{"3: sum_swap_copy"}));
  EXPECT_EQ(passes_up(ProcessingMode::fused, {{.items = {swap(4)}}, {.items = {check}}}), (Passes{"3: sum_swap_copy"}));
}

TEST_F(ExplanationTest, ConversionsOfOneUnitCancelAndOthersAreTiled) {
  EXPECT_EQ(passes_down(ProcessingMode::fused, {{.items = {swap(4)}}, {.items = {swap(4)}}}), (Passes{"3: copy"}));
  EXPECT_EQ(passes_down(ProcessingMode::fused, {{.items = {swap(4)}}, {.items = {swap(8)}}}), (Passes{"3: tiles"}));
  EXPECT_EQ(passes_down(ProcessingMode::fused,
                        {{.items = {swap(4), swap(8)}, .materializes = "it looks"}, {.materializes = "it, too"}}),
            (Passes{"1: copy", "2: tiles in place"}));
}

TEST_F(ExplanationTest, WhoSettlesEndsThePassAndSaysWhy) {
  const std::vector<Conduct> conducts = {{.items = {swap(4)}}, {.materializes = "it looks"}, {.items = {sum}}};
  EXPECT_EQ(passes_down(ProcessingMode::fused, conducts), (Passes{"2: swap_copy", "4: sum in place"}));
  const Explanation explanation = explain(*stream_);
  EXPECT_EQ(explanation.down.modules[2].items[0].asks, "materialize");
  EXPECT_EQ(explanation.down.modules[2].items[0].why, "it looks");
  EXPECT_EQ(explanation.down.fused, (ByteCost{2, 1}));
  EXPECT_EQ(explanation.down.layered, (ByteCost{3, 2}));
  EXPECT_EQ(explanation.down.cache_blocked_memory(), (ByteCost{1, 1}));
}

TEST_F(ExplanationTest, ASumInLentMemoryIsMadeInPlaceUnlessItIsKept) {
  EXPECT_EQ(passes_up(ProcessingMode::fused, {{.materializes = "it looks"}, {.items = {check}}}, /*lends=*/true),
            (Passes{"2: sum in place", "3: copy"}));
  EXPECT_EQ(passes_up(ProcessingMode::fused, {{.materializes = "it waits", .keeps = true}, {.items = {check}}},
                      /*lends=*/true),
            (Passes{"2: sum_copy", "3: copy"}));
}

TEST_F(ExplanationTest, WhoVerifiesFirstCarriesOutHisOwnCheck) {
  EXPECT_EQ(
      passes_up(ProcessingMode::fused, {{.items = {check}, .materializes = "it tells", .materializes_last = true}},
                /*lends=*/true),
      (Passes{"1: sum in place", "2: copy"}));
  EXPECT_EQ(passes_up(ProcessingMode::fused,
                      {{.items = {check}, .materializes = "it keeps", .keeps = true, .materializes_last = true}},
                      /*lends=*/true),
            (Passes{"1: sum_copy", "2: copy"}));
  EXPECT_EQ(
      passes_up(ProcessingMode::layered, {{.items = {check}, .materializes = "it tells", .materializes_last = true}}),
      (Passes{"1: sum in place", "2: copy"}));
}

TEST_F(ExplanationTest, ALookAtTheUsersMemoryMakesTheCopyThatIsOwed) {
  EXPECT_EQ(passes_down(ProcessingMode::fused, {{.items = {sum}}, {.materializes = "it looks"}}),
            (Passes{"2: sum_copy"}));
  EXPECT_EQ(passes_down(ProcessingMode::fused, {{.materializes = "it looks"}, {.items = {sum}}}),
            (Passes{"1: copy", "3: sum in place"}));
}

TEST_F(ExplanationTest, AModuleThatDoesNotKnowPlansSeesRealBytes) {
  EXPECT_EQ(passes_up(ProcessingMode::fused, {{.items = {}, .knows_plans = false}, {.items = {check}}}),
            (Passes{"2: sum in place", "3: copy"}));
  EXPECT_EQ(explain(*stream_).up.modules[2].items[0].why, "does not know plans");
}

TEST_F(ExplanationTest, AConversionWaitsForTheSumBeforeIt) {
  EXPECT_EQ(passes_down(ProcessingMode::fused, {{.items = {sum}}, {.items = {swap(8)}}}),
            (Passes{"2: sum_copy", "3: swap in place"}));
}

TEST_F(ExplanationTest, AFullPlanIsCarriedOut) {
  EXPECT_EQ(passes_up(ProcessingMode::fused, std::vector<Conduct>(5, {.items = {check}})),
            (Passes{"5: sum in place", "6: sum_copy"}));
}

TEST_F(ExplanationTest, AStageIsCalledByItsNameAndRunsInTiles) {
  EXPECT_EQ(passes_down(ProcessingMode::fused, {{.items = {swap(4)}}, {.items = {cipher}}, {.items = {sum}}}),
            (Passes{"4: tiles"}));
  const ExplainedItem item = explain(*stream_).down.modules[2].items[0];
  EXPECT_EQ(item.asks, "cipher");
  EXPECT_TRUE(item.deferred);
  EXPECT_EQ(passes_down(ProcessingMode::layered, {{.items = {cipher}}, {.items = {digest}}}),
            (Passes{"0: copy", "1: tiles in place", "2: tiles in place"}));
  EXPECT_EQ(explain(*stream_).down.layered, (ByteCost{3, 2})) << "a digest only reads";
}

TEST_F(ExplanationTest, AStageThatConvertsNeedsMemoryOfOurOwn) {
  EXPECT_EQ(passes_up(ProcessingMode::fused, {{.materializes = "it looks"}, {.items = {cipher}}}, /*lends=*/true),
            (Passes{"2: tiles", "3: copy"}));
  EXPECT_EQ(passes_up(ProcessingMode::fused, {{.materializes = "it looks"}, {.items = {digest}}}, /*lends=*/true),
            (Passes{"2: tiles in place", "3: copy"}));
}

TEST_F(ExplanationTest, AStageWaitsForAFieldAndForItself) {
  EXPECT_EQ(passes_down(ProcessingMode::fused, {{.items = {tag}}, {.items = {cipher}}}),
            (Passes{"2: tiles", "3: tiles in place"}));
  EXPECT_EQ(passes_down(ProcessingMode::fused, {{.items = {cipher}}, {.items = {cipher}}}),
            (Passes{"2: tiles", "3: tiles in place"}));
}

TEST_F(ExplanationTest, SaysWhereBytesAreShown) {
  open(ProcessingMode::fused, {{.items = {sum}}}, /*lends=*/true);
  const Explanation explanation = explain(*stream_);
  EXPECT_TRUE(explanation.down.modules.front().lent_here);
  EXPECT_FALSE(explanation.down.modules[1].lent_here);
  EXPECT_TRUE(explanation.up.modules.front().lent_here);
  open(ProcessingMode::layered, {{.items = {sum}}}, /*lends=*/true);
  EXPECT_FALSE(explain(*stream_).down.modules.front().lent_here);
}

// Random chains, both paths, both ways: what the pool counts is what was explained, but for 8 bytes of header a sum.
TEST_F(ExplanationTest, TrafficOfRandomChainsCostsWhatIsExplained) {
  constexpr std::uint64_t seed = 20261121;
  Prng random(seed);
  const auto pick = [&](std::size_t count) { return static_cast<std::size_t>(random()) % count; };
  const std::vector<Item> manipulations = {swap(2), swap(4), swap(8), sum, check, cipher, digest, tag};
  for (int round = 0; round < 300; ++round) {
    std::vector<Conduct> conducts(pick(6));
    std::string told;
    std::vector<Item> left = manipulations;  // each conversion once: two of a unit cancel
    for (Conduct& conduct : conducts) {
      const std::size_t choice = pick(10);
      if (choice < 7) {
        const auto chosen = left.begin() + static_cast<std::ptrdiff_t>(pick(left.size()));
        conduct.items = {*chosen};
        told += " " + std::to_string(static_cast<int>(chosen->kind)) + "/" + std::to_string(chosen->unit);
        if (chosen->kind == Kind::swap) {
          left.erase(chosen);
        }
      } else {
        conduct.materializes = choice < 9 ? "it looks" : "";
        conduct.keeps = choice == 8;
        conduct.knows_plans = choice < 9;
        told += " materializes" + std::to_string(choice);
      }
    }
    const bool lends = pick(2) == 0;
    for (const ProcessingMode mode : {ProcessingMode::layered, ProcessingMode::fused}) {
      open(mode, conducts, lends);
      ASSERT_FALSE(HasFatalFailure());
      SCOPED_TRACE("seed " + std::to_string(seed) + " round " + std::to_string(round) + " " +
                   std::string(name_of(mode)) + (lends ? ", lends:" : ":") + told);
      const Explanation explanation = explain(*stream_);
      const auto costs = [&](const ExplainedSide& side, const auto& traffic) {
        const Touches before = set_.pool().touches();
        traffic();
        const Touches& after = set_.pool().touches();
        const ByteCost& cost = mode == ProcessingMode::fused ? side.fused : side.layered;
        EXPECT_NEAR(static_cast<double>(after.loaded_bytes - before.loaded_bytes) / payload_bytes, cost.loads, 0.01);
        EXPECT_NEAR(static_cast<double>(after.stored_bytes - before.stored_bytes) / payload_bytes, cost.stores, 0.01);
      };
      const std::vector<std::byte> data(payload_bytes);
      costs(explanation.down, [&] { ASSERT_TRUE(stream_->putmsg(std::nullopt, data).has_value()); });
      EXPECT_EQ(device_->frames, 1);
      std::vector<std::byte> place(payload_bytes + 64);
      costs(explanation.up, [&] {
        device_->receive();
        const auto got = stream_->getmsg(std::nullopt, place);
        ASSERT_TRUE(got.has_value());
        EXPECT_GE(got->data, payload_bytes);
      });
    }
  }
}

TEST_F(ExplanationTest, ALiveStreamTellsWhatWasSettledWhereAndWhatAByteCost) {
  open(ProcessingMode::fused, {{.items = {check}}, {.materializes = "it looks"}, {.items = {sum}}});
  const std::vector<std::byte> data(payload_bytes);
  constexpr std::uint64_t messages = 3;
  for (std::uint64_t i = 0; i < messages; ++i) {
    ASSERT_TRUE(stream_->putmsg(std::nullopt, data).has_value());
  }
  const Explanation explanation = explain(*stream_, messages * payload_bytes);
  EXPECT_TRUE(explanation.live);
  EXPECT_EQ(explanation.down.modules[2].materialized, messages);
  EXPECT_EQ(explanation.down.modules[1].materialized, 0U);
  EXPECT_EQ(explanation.up.modules[2].materialized, 0U);
  ASSERT_TRUE(explanation.measured.has_value());
  EXPECT_NEAR(explanation.measured->loads, explanation.down.fused.loads, 0.01);
  EXPECT_NEAR(explanation.measured->stores, explanation.down.fused.stores, 0.01);
  EXPECT_FALSE(explain(*stream_, 0).measured.has_value());
}

}  // namespace
}  // namespace sluice::test
