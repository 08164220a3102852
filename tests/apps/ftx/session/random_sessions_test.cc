// SPDX-License-Identifier: Apache-2.0
// Sessions over links drawn at random: each ends with the right bytes, in bounded memory. SLUICE_SESSIONS says how many
// (1,000 if absent; 100 under sanitizers), SLUICE_SESSION_SEED the first seed. One that fails prints its seed and its
// link. Ten thousand, and one alone:
//
//     SLUICE_SESSIONS=10000 build/release/tests/apps_ftx_session_test --gtest_filter='*RandomSessions*'
//     SLUICE_SESSIONS=1 SLUICE_SESSION_SEED=4711 build/release/tests/apps_ftx_session_test
//     --gtest_filter='*RandomSessions*'

#include <gtest/gtest.h>

#include <cmath>
#include <ostream>

#include "base/sanitizers.h"
#include "tests/apps/ftx/session/simulation.h"

namespace sluice::ftx::test {
namespace {

constexpr std::uint64_t sessions_default = sluice::sanitized ? 100 : 1'000;
constexpr std::uint64_t shards = 4;
constexpr std::uint64_t reordered_adus_min = 40'000;

/// Between the two, each order of magnitude as likely as another.
double scaled(Prng& prng, double least, double most) { return least * std::pow(most / least, prng.unit()); }

Duration scaled(Prng& prng, Duration least, Duration most) {
  return Duration(
      static_cast<Duration::rep>(scaled(prng, static_cast<double>(least.count()), static_cast<double>(most.count()))));
}

/// What a seed makes of a session.
struct Trial {
  std::uint64_t seed;
  bool reordering_only;  // half of all datagrams overtaken, nothing lost
  WorldOptions options;
  std::vector<std::size_t> file_bytes;
  double partition_after = 2;  // of all writes; 2: none
  Duration partition{};
  bool partition_forward = false, partition_back = false;
  int moves = 0;  // of an end's address

  explicit Trial(std::uint64_t trial_seed);
};

Trial::Trial(std::uint64_t trial_seed) : seed(trial_seed), reordering_only(trial_seed % 5 == 0) {
  Prng prng(seed);
  options.seed = seed;
  options.sealed = prng.chance(0.67);
  options.pull = options.sealed && prng.chance(0.5);
  options.cipher = prng.chance(0.5) ? Cipher::aes_128_gcm : Cipher::chacha20_poly1305;
  options.sender.tsdu_bytes = prng.chance(0.5) ? 1472 : 1200 + prng.below(8000);
  // Without a seal they agree on a size; with one it is agreed beside the secret.
  options.server.tsdu_bytes = options.sealed ? options.sender.tsdu_bytes : 1200 + prng.below(8000);
  // The greeting alone may take longer over these links than a user would wait.
  options.sender.connect_timeout = options.invite_timeout = 60s;
  options.server.receiver.own_memory_bytes = 0;  // so that all of it counts
  for (LinkFaults* link : {&options.forward, &options.back}) {
    link->delay = scaled(prng, 50us, 300ms);
    link->reorder_delay = scaled(prng, 100us, 100ms);
    link->duplicate = prng.chance(0.5) ? prng.unit() * 0.1 : 0;
    if (reordering_only) {
      link->reorder = 0.5;
      continue;
    }
    link->loss = prng.chance(0.7) ? scaled(prng, 0.001, 0.3) : 0;
    link->burst = prng.chance(0.5) ? scaled(prng, 1, 20) : 1;
    link->burst_max = 200ms;
    link->reorder = prng.chance(0.5) ? prng.unit() * 0.5 : 0;
    const double bit_errors = prng.chance(0.3) ? prng.unit() * 0.1 : 0;
    // Without a seal only a checksum notices them: they are losses.
    (options.sealed ? link->corrupt : link->loss) += bit_errors;
    if (prng.chance(0.5)) {
      link->rate = static_cast<std::uint64_t>(scaled(prng, 125e3, 125e6));
      link->queue_bytes = 10'000 + static_cast<std::uint64_t>(scaled(prng, 1e3, 1e6));
    }
  }
  const std::uint64_t files = prng.chance(0.1) ? 1 + prng.below(300) : 1 + prng.below(5);
  for (std::uint64_t i = 0; i < files; ++i) {
    file_bytes.push_back(reordering_only ? 3'000'000 / files : prng.below(400'000 / files + 2000));
  }
  if (reordering_only) {
    return;
  }
  // A key lasts for 2^21 datagrams or more, and 2^17 sequences may be open, so no path loses all of one key's and is
  // then met by the next but one. Keys that change sooner need a path that loses less at once: no window of a startup,
  // as one that goes to where an end is no more.
  if (prng.chance(0.4)) {
    options.limits = AeadLimits{.sealed_max = 400 + prng.below(400), .forged_max = UINT64_MAX};
  } else if (prng.chance(0.4)) {
    partition_after = prng.unit();
    partition = scaled(prng, 10ms, 20s);
    partition_forward = prng.chance(0.75);
    partition_back = !partition_forward || prng.chance(0.5);
  }
  moves = options.sealed && !options.limits && prng.chance(0.4) ? static_cast<int>(1 + prng.below(3)) : 0;
}

std::ostream& operator<<(std::ostream& out, const LinkFaults& link) {
  const auto ms = [](Duration time) { return std::chrono::duration<double, std::milli>(time).count(); };
  return out << "loss " << link.loss << " in runs of " << link.burst << ", reorder " << link.reorder << " by "
             << ms(link.reorder_delay) << " ms, duplicate " << link.duplicate << ", corrupt " << link.corrupt
             << ", delay " << ms(link.delay) << " ms, " << link.rate << " bytes/s, queue " << link.queue_bytes;
}

std::ostream& operator<<(std::ostream& out, const Trial& trial) {
  return out << "SLUICE_SESSION_SEED=" << trial.seed << " SLUICE_SESSIONS=1: "
             << (trial.options.pull     ? "sealed pull"
                 : trial.options.sealed ? "sealed push"
                                        : "insecure push")
             << ", " << trial.file_bytes.size() << " files, TSDU " << trial.options.sender.tsdu_bytes
             << "\n  forward: " << trial.options.forward << "\n  back: " << trial.options.back << "\n  partition of "
             << std::chrono::duration<double>(trial.partition).count() << " s (" << trial.partition_forward
             << trial.partition_back << "), " << trial.moves << " moves";
}

/// What both ends held at most.
struct Peaks {
  std::uint64_t server_bytes = 0;
  std::uint64_t remembered = 0;
};

/// Cuts the path once, and gives ends other addresses.
class Disturbance {
 public:
  Disturbance(World& world, const Trial& trial, std::uint64_t adus)
      : world_(world), trial_(trial), adus_(adus), prng_(trial.seed + 1), moves_left_(trial.moves) {
    world.forward.set_filter([this](TimePoint now, ConstBytes datagram) {
      return passes(now, datagram, trial_.partition_forward, sender_moved_);
    });
    world.back.set_filter([this](TimePoint now, ConstBytes datagram) {
      return passes(now, datagram, trial_.partition_back, !sender_moved_);
    });
  }

  void step() {
    const auto share = static_cast<double>(world_.destination.writes) / static_cast<double>(adus_);
    if (partition_ends_ == never && world_.destination.writes > 0 && share >= trial_.partition_after) {
      partition_ends_ = world_.now + trial_.partition;
    }
    const int moved = trial_.moves - moves_left_;
    if (moves_left_ == 0 || !settled_ || share < (moved + 1) / (trial_.moves + 1.0)) {
      return;
    }
    --moves_left_;
    settled_ = false;
    sender_moved_ = prng_.chance(0.5);
    const std::string address = "moved " + std::to_string(moved);
    (sender_moved_ ? world_.peer : world_.server_peer) = Peer(as_bytes(address));
  }

 private:
  /// Only one end moves at a time: where both do, neither can reach the other, and nobody could help. The other end has
  /// followed when it sends more there than a CHALLENGE.
  bool passes(TimePoint now, ConstBytes datagram, bool cut, bool from_who_moved) {
    const Kind kind = parse_envelope(datagram)->kind;
    settled_ |= !from_who_moved && kind != Kind::challenge && kind != Kind::response;
    return !cut || partition_ends_ == never || now >= partition_ends_;
  }

  World& world_;
  const Trial& trial_;
  std::uint64_t adus_;
  Prng prng_;
  int moves_left_;
  TimePoint partition_ends_ = never;
  bool sender_moved_ = false;
  bool settled_ = true;
};

/// What the server may take for this transfer: 256 KiB to read files back for their digests, a list at most twice as
/// large as what has arrived of it (docs/formats/ftx.md, "Bounds"), 1 KiB a file, and the pages of the slots.
std::uint64_t server_bytes_max(const World& world) {
  const auto& files = world.source.files();
  const std::uint64_t lists = encode_manifest(files).size() + files.size() * digest_bytes;
  std::uint64_t pages = 0;
  for (const FileEntry& file : files) {
    pages += file.size_bytes / (adu_bytes_min * Slots::page_slots) + 1;
  }
  return (256 << 10) + 2 * lists + files.size() * 1024 + pages * Slots::page_bytes;
}

class RandomSessions : public testing::TestWithParam<std::uint64_t> {
 protected:
  void run(const Trial& trial);

  std::uint64_t reordered_adus_ = 0;
  std::uint64_t spurious_ = 0;
  Peaks peaks_;
};

void RandomSessions::run(const Trial& trial) {
  World world(trial.options);
  std::uint64_t adus = 0;
  for (std::size_t i = 0; i < trial.file_bytes.size(); ++i) {
    world.source.add("f" + std::to_string(i), random_content(trial.file_bytes[i], trial.seed + i));
    const std::uint32_t adu =
        adu_bytes_for(std::min(trial.options.sender.tsdu_bytes, trial.options.server.tsdu_bytes), trial.options.sealed);
    adus += (trial.file_bytes[i] + adu - 1) / adu;
  }
  Disturbance disturbance(world, trial, std::max<std::uint64_t>(adus, 1));
  Peaks peaks;
  const std::uint64_t memory = world.server->memory_left();
  world.each_step = [&] {
    disturbance.step();
    peaks.server_bytes = std::max(peaks.server_bytes, memory - world.server->memory_left());
    peaks.remembered = std::max(peaks.remembered, world.sender->remembered());
  };
  world.run();
  ASSERT_TRUE(world.sender->finished());
  ASSERT_EQ(world.sender->exit_code(), ExitCode::ok) << world.sender_event(Event::Kind::error)->text;
  ASSERT_TRUE(world.all_equal());
  ASSERT_NE(world.server_event(Event::Kind::done), nullptr);
  ASSERT_EQ(world.server->sessions(), 0U);
  ASSERT_EQ(world.server->memory_left(), memory);
  ASSERT_EQ(world.server->open_files(), 0U);
  ASSERT_EQ(world.spins, 0U);
  ASSERT_LE(peaks.server_bytes, server_bytes_max(world));
  ASSERT_LE(peaks.remembered, 1U << 17) << "docs/formats/ftx.md: window_adus bounds how many sequences may be open";
  peaks_.server_bytes = std::max(peaks_.server_bytes, peaks.server_bytes);
  peaks_.remembered = std::max(peaks_.remembered, peaks.remembered);
  if (trial.reordering_only) {
    const Event& done = *world.sender_event(Event::Kind::done);
    reordered_adus_ += done.adus;
    spurious_ += done.repaired;
  }
}

TEST_P(RandomSessions, EndWithTheRightBytesInBoundedMemory) {
  const std::uint64_t first = number_from("SLUICE_SESSION_SEED", 1);
  const std::uint64_t sessions = number_from("SLUICE_SESSIONS", sessions_default);
  for (std::uint64_t at = GetParam(); at < sessions; at += shards) {
    const Trial trial(first + at);
    ASSERT_NO_FATAL_FAILURE(run(trial)) << trial;
  }
  // A session learns from its first late arrivals how late they come, so its size decides: ask it of many.
  if (reordered_adus_ >= reordered_adus_min) {
    EXPECT_LE(spurious_ * 200, reordered_adus_) << "repairs without loss, of all ADUs where half overtake others";
  }
  RecordProperty("repairs_without_loss", std::to_string(spurious_) + " of " + std::to_string(reordered_adus_));
  RecordProperty("server_bytes_most", std::to_string(peaks_.server_bytes));
  RecordProperty("remembered_most", std::to_string(peaks_.remembered));
}

INSTANTIATE_TEST_SUITE_P(Shards, RandomSessions, testing::Range<std::uint64_t>(0, shards));

}  // namespace
}  // namespace sluice::ftx::test
