// SPDX-License-Identifier: Apache-2.0
// A path that is gone for three minutes, in simulated time: who waits for so long goes on, and who does not says so,
// leaves what had arrived, and the next transfer sends the rest alone.
#include <gtest/gtest.h>

#include "apps/ftx/files/directory.h"
#include "apps/ftx/files/system.h"
#include "tests/apps/ftx/files/hasty_system.h"
#include "tests/apps/ftx/files/served_directory.h"
#include "tests/apps/ftx/files/trees.h"
#include "tests/apps/ftx/session/simulation.h"
#include "tests/file_text.h"

namespace sluice::ftx::test {
namespace {

constexpr Duration outage = 3min;
constexpr std::size_t outage_file_bytes = 8'000'000;
constexpr std::uint64_t link_rate = 2'000'000;  // bytes a second

class Outage : public ServedDirectory, public testing::WithParamInterface<bool> {
 protected:
  WorldOptions options(std::uint64_t seed) {
    WorldOptions options;
    options.seed = seed;
    options.forward.rate = link_rate;
    options.run_max = 20min;
    options.sealed = GetParam();
    return options;
  }
  /// Nothing comes through, either way, from two seconds on.
  static void cut(World& world) {
    const auto gone = [start = world.now](TimePoint now, ConstBytes) {
      return now - start < 2s || now - start > 2s + outage;
    };
    world.forward.set_filter(gone);
    world.back.set_filter(gone);
  }
  std::unique_ptr<DirectoryDestination> serve() {
    return std::move(DirectoryDestination::serve(root_.string(), ++seed_, LandBy::write, {.keep = true}).value());
  }

  const Content content_ = random_content(outage_file_bytes, 1);
  std::uint64_t seed_ = 0;
  Hasty system_;
  ReplaceSystem replaced_{system_};
};
INSTANTIATE_TEST_SUITE_P(Links, Outage, testing::Bool(),
                         [](const auto& link) { return link.param ? "Sealed" : "Insecure"; });

TEST_P(Outage, OfThreeMinutesIsSurvivedByWhoWaitsForSoLong) {
  const auto destination = serve();
  WorldOptions options = this->options(1);
  options.to = destination.get();
  options.sender.idle_timeout = options.server.receiver.idle_timeout = outage + 30s;
  World world(options);
  world.source.add("file", content_);
  cut(world);
  world.run();
  ASSERT_TRUE(world.sender->finished());
  ASSERT_EQ(world.sender->exit_code(), ExitCode::ok) << world.sender_event(Event::Kind::error)->text;
  EXPECT_EQ(file_text(root_ / "file"), as_text(content_));
  // 4 s of data and the outage; a probe and a report find the path again within the longest pause between them.
  EXPECT_LT(world.sender_event(Event::Kind::done)->seconds, 4 + 180 + 4);
  EXPECT_EQ(world.spins, 0U);
}

TEST_P(Outage, OfThreeMinutesEndsATransferAndTheNextSendsTheRest) {
  std::uint64_t arrived = 0;
  {
    const auto destination = serve();
    WorldOptions options = this->options(1);
    options.to = destination.get();
    World world(options);
    world.source.add("file", content_);
    cut(world);
    const TimePoint start = world.now;
    world.run();
    EXPECT_EQ(world.sender->exit_code(), ExitCode::timeout);
    EXPECT_EQ(world.sender_event(Event::Kind::done), nullptr);
    ASSERT_NE(world.server_event(Event::Kind::error), nullptr);
    EXPECT_EQ(world.server_event(Event::Kind::error)->code, ExitCode::timeout);
    EXPECT_LT(world.now - start, 2s + outage) << "neither end waits for the path to come back";
    EXPECT_EQ(world.server->sessions(), 0U);
    for (const Event& event : world.server_events) {
      arrived = event.kind == Event::Kind::progress ? event.bytes : arrived;
    }
  }
  EXPECT_FALSE(fs::exists(root_ / "file"));
  EXPECT_TRUE(fs::exists(root_ / ".file.ftx-part"));
  const auto destination = serve();
  WorldOptions options = this->options(2);
  options.to = destination.get();
  World world(options);
  world.source.add("file", content_);
  world.run();
  ASSERT_EQ(world.sender->exit_code(), ExitCode::ok);
  EXPECT_EQ(file_text(root_ / "file"), as_text(content_));
  // What had arrived but for the blocks that were not whole.
  const std::uint64_t skipped = world.server_event(Event::Kind::done)->skipped_bytes;
  EXPECT_GE(skipped, 2 * digest_block_bytes);
  EXPECT_LE(skipped, outage_file_bytes / 2 + digest_block_bytes);
  EXPECT_GE(skipped + 3 * digest_block_bytes, arrived);
  EXPECT_EQ(std::distance(fs::directory_iterator(root_), {}), 1) << "nothing else is left";
}

}  // namespace
}  // namespace sluice::ftx::test
