// SPDX-License-Identifier: Apache-2.0
// RFC 8899. The table: what each event does in each state. The paths: what the search finds, and in how many probes.
#include "apps/ftx/recovery/path_mtu.h"

#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "base/prng.h"

namespace sluice::ftx {
namespace {

using namespace std::chrono_literals;
using State = PathMtu::State;

constexpr TimePoint start{1h};
constexpr std::size_t v4 = 28;
constexpr std::size_t jumbo = 9000 - v4;

Report report_of(std::uint64_t sequence, bool arrived) {
  Report report;
  report.from = 1;
  report.highest = sequence + 1;
  report.to = sequence;
  if (!arrived) {
    report.missing[report.range_count++] = {sequence, 1};
  }
  return report;
}

/// A PathMtu and a path of a size: probes that fit are reported as arrived, the others as lost.
struct Path {
  explicit Path(std::size_t carried, PathMtuOptions options = {.header_bytes = v4, .max_bytes = jumbo})
      : carries(carried), mtu(start, options) {}

  /// One round trip. False: no probe is due.
  bool round() {
    if (now < mtu.probe_at()) {
      return false;
    }
    const std::size_t size = mtu.next_probe(now);
    sizes.push_back(size);
    mtu.on_probe_sent(now, ++sequence, 50ms);
    EXPECT_EQ(mtu.probe_at(), never) << "one probe at a time";
    now += 50ms;
    const bool arrives = size <= carries && !(lose && lose());
    mtu.on_report(now, report_of(sequence, arrives));
    return true;
  }
  void search() {
    for (int i = 0; i < 200 && round(); ++i) {
      EXPECT_LE(mtu.bytes(), carries);
    }
  }

  std::size_t carries;
  PathMtu mtu;
  TimePoint now = start;
  std::uint64_t sequence = 0;
  std::vector<std::size_t> sizes;
  std::function<bool()> lose;
};

// --- States --------------------------------------------------------------------------------------------------------

enum class Happens { arrives, lost, lost_thrice, timer, black_hole, some_losses, too_big, raise };

void happen(Path& path, Happens what) {
  const auto probe = [&] {
    path.now = std::max(path.now, path.mtu.probe_at() == never ? path.now : path.mtu.probe_at());
    static_cast<void>(path.mtu.next_probe(path.now));
    path.mtu.on_probe_sent(path.now, ++path.sequence, 50ms);
  };
  const bool probes = path.mtu.state() != State::search_complete;
  switch (what) {
    case Happens::arrives:
    case Happens::lost:
    case Happens::lost_thrice:
      for (int i = 0; probes && i < (what == Happens::lost_thrice ? 3 : 1); ++i) {
        probe();
        path.mtu.on_report(path.now, report_of(path.sequence, what == Happens::arrives));
      }
      return;
    case Happens::timer:
      for (int i = 0; probes && i < 3; ++i) {
        probe();
        path.now = path.mtu.next_deadline();
        path.mtu.on_timer(path.now);
      }
      return;
    case Happens::black_hole:
      return path.mtu.on_losses(path.now, PathMtu::black_hole_losses, true);
    case Happens::some_losses:
      path.mtu.on_losses(path.now, PathMtu::black_hole_losses - 1, true);
      return path.mtu.on_losses(path.now, 1000, false);  // congestion: large ones still arrive
    case Happens::too_big:
      return path.mtu.on_too_big(path.now);
    case Happens::raise:
      path.now += PathMtu::raise_timer;
      if (path.now >= path.mtu.probe_at()) {
        static_cast<void>(path.mtu.next_probe(path.now));
      }
  }
}

/// A PathMtu in `state`, whose base has been probed once, or whose search has begun.
Path in(State state) {
  Path path(jumbo);
  path.carries = state == State::error ? 1000 : state == State::search_complete ? 4000 : jumbo;
  switch (state) {
    case State::base:
      happen(path, Happens::lost);  // the likely size
      break;
    case State::searching:
      path.round();
      break;
    case State::search_complete:
      path.search();
      break;
    case State::error:
      happen(path, Happens::lost);
      happen(path, Happens::lost_thrice);
  }
  EXPECT_EQ(path.mtu.state(), state);
  return path;
}

TEST(PathMtu, EachEventInEachState) {
  using enum Happens;
  struct Row {
    State from;
    Happens what;
    State to;
    std::size_t bytes;  // 0: as before
  };
  constexpr std::size_t base = PathMtu::base_bytes;
  const std::vector<Row> table{
      {State::base, arrives, State::searching, base},
      {State::base, lost, State::base, base},
      {State::base, lost_thrice, State::error, 548},
      {State::base, timer, State::error, 548},
      {State::base, black_hole, State::base, base},
      {State::base, some_losses, State::base, base},
      {State::base, too_big, State::base, base},
      {State::base, raise, State::base, base},
      {State::searching, arrives, State::search_complete, jumbo},  // "a probe of size MAX_PLPMTU is acknowledged"
      {State::searching, lost, State::searching, 0},
      {State::searching, lost_thrice, State::searching, 0},  // a smaller size is tried
      {State::searching, timer, State::searching, 0},
      {State::searching, black_hole, State::base, base},
      {State::searching, some_losses, State::searching, 0},
      {State::searching, too_big, State::searching, 0},
      {State::searching, raise, State::searching, 0},
      {State::search_complete, arrives, State::search_complete, 0},
      {State::search_complete, lost, State::search_complete, 0},
      {State::search_complete, lost_thrice, State::search_complete, 0},
      {State::search_complete, timer, State::search_complete, 0},
      {State::search_complete, black_hole, State::base, base},
      {State::search_complete, some_losses, State::search_complete, 0},
      {State::search_complete, too_big, State::search_complete, 0},
      {State::search_complete, raise, State::searching, 0},
      {State::error, arrives, State::searching, base},
      {State::error, lost, State::error, 548},
      {State::error, lost_thrice, State::error, 548},
      {State::error, timer, State::error, 548},
      {State::error, black_hole, State::error, 548},
      {State::error, some_losses, State::error, 548},
      {State::error, too_big, State::error, 548},
      {State::error, raise, State::error, 548},
  };
  ASSERT_EQ(table.size(), 4U * 8U);
  for (const Row& row : table) {
    SCOPED_TRACE(testing::Message() << static_cast<int>(row.from) << " " << static_cast<int>(row.what));
    Path path = in(row.from);
    const std::size_t before = path.mtu.bytes();
    happen(path, row.what);
    EXPECT_EQ(path.mtu.state(), row.to);
    EXPECT_EQ(path.mtu.bytes(), row.bytes == 0 ? before : row.bytes);
  }
}

TEST(PathMtu, AnAnsweredHelloConfirmsTheBase) {
  Path path(jumbo);
  path.mtu.on_base_confirmed(path.now);
  EXPECT_EQ(path.mtu.state(), State::searching);
  happen(path, Happens::lost_thrice);
  EXPECT_EQ(path.mtu.state(), State::searching) << "not an error: the base is known";
}

TEST(PathMtu, ReportsOfOtherSequencesDecideNothing) {
  Path path(jumbo);
  static_cast<void>(path.mtu.next_probe(path.now));
  path.mtu.on_probe_sent(path.now, 10, 50ms);
  Report report;
  report.from = 1;
  report.highest = 9;
  report.to = 9;
  path.mtu.on_report(path.now, report);  // of those before
  report.highest = 20;
  path.mtu.on_report(path.now, report);  // 10 may yet come
  EXPECT_EQ(path.mtu.bytes(), PathMtu::base_bytes);
  report.highest = 10;  // it came, whatever else did
  path.mtu.on_report(path.now, report);
  EXPECT_EQ(path.mtu.bytes(), 1472U);
}

// --- What it finds -------------------------------------------------------------------------------------------------

TEST(PathMtu, FindsWhatCommonPathsCarry) {
  struct Row {
    std::size_t mtu, header, max;
    std::size_t found;
    std::size_t rounds_max;
  };
  for (const Row& row : std::vector<Row>{
           {1280, 28, 8972, 1252, 40},
           {1400, 28, 8972, 1372, 40},
           {1420, 28, 8972, 1392, 40},
           {1492, 28, 8972, 1464, 40},
           {1500, 28, 8972, 1472, 20},
           {1500, 28, 1472, 1472, 1},  // the usual path costs one probe
           {4352, 28, 8972, 4324, 20},
           {9000, 28, 8972, 8972, 2},
           {9000, 28, 3000, 3000, 2},
           {1280, 48, 8952, 1232, 40},
           {1492, 48, 8952, 1444, 40},
           {1500, 48, 8952, 1452, 20},
           {9000, 48, 8952, 8952, 2},
           {1500, 28, 1200, 1200, 0},
       }) {
    SCOPED_TRACE(testing::Message() << row.mtu << " " << row.header << " " << row.max);
    Path path(row.mtu - row.header, {.header_bytes = row.header, .max_bytes = row.max});
    path.search();
    EXPECT_EQ(path.mtu.state(), State::search_complete);
    EXPECT_EQ(path.mtu.bytes(), row.found);
    EXPECT_LE(path.sizes.size(), row.rounds_max);
  }
}

TEST(PathMtu, EveryPathFromTheBaseUpIsFoundToAUnitOrAnEighth) {
  for (std::size_t carried = PathMtu::base_bytes; carried <= jumbo; ++carried) {
    Path path(carried);
    path.search();
    ASSERT_EQ(path.mtu.state(), State::search_complete) << carried;
    ASSERT_LE(path.mtu.bytes(), carried);
    const std::size_t gain = carried <= 1472 ? 16 : carried / 8;
    ASSERT_GE(path.mtu.bytes() + gain, carried) << carried;
  }
}

TEST(PathMtu, APathBelowTheBaseIsAnErrorAndRecovers) {
  Path path(1000);
  for (int i = 0; i < 20; ++i) {
    path.now = std::max(path.now, path.mtu.probe_at());
    ASSERT_TRUE(path.round());
  }
  EXPECT_EQ(path.mtu.state(), State::error);
  EXPECT_EQ(path.mtu.bytes(), 548U);
  EXPECT_GE(path.mtu.probe_at() - path.now, 500ms) << "an error is no reason for a flood";
  path.carries = 1372;
  path.now = path.mtu.probe_at();
  path.search();
  EXPECT_EQ(path.mtu.bytes(), 1372U);
}

// "The PL is REQUIRED to be robust in the case where probe packets are lost due to other reasons" (section 3).
TEST(PathMtu, LostProbesMakeItNeverLargerThanThePath) {
  int exact = 0;
  for (std::uint64_t seed = 1; seed <= 500; ++seed) {
    SCOPED_TRACE(seed);
    Prng prng(seed);
    Path path(1472);
    path.lose = [&] { return prng.chance(0.1); };
    path.search();
    EXPECT_LE(path.mtu.bytes(), 1472U);
    EXPECT_GE(path.mtu.bytes(), PathMtu::base_bytes);
    exact += path.mtu.bytes() == 1472 ? 1 : 0;
  }
  EXPECT_GE(exact, 480) << "one loss in ten is not taken for a limit";
}

TEST(PathMtu, ASmallerPathIsABlackHoleAndIsFoundAnew) {
  Path path(jumbo);
  path.search();
  ASSERT_EQ(path.mtu.bytes(), jumbo);
  path.carries = 1372;
  EXPECT_EQ(path.mtu.small_bytes(), PathMtu::base_bytes);
  path.mtu.on_losses(path.now, 3, true);
  EXPECT_EQ(path.mtu.bytes(), jumbo) << "three lost datagrams are no black hole";
  path.mtu.on_losses(path.now, 4, true);
  EXPECT_EQ(path.mtu.bytes(), PathMtu::base_bytes) << "to avoid unnecessary packet loss (4.6.2)";
  path.search();
  EXPECT_EQ(path.mtu.bytes(), 1372U);
}

// --- ICMP ----------------------------------------------------------------------------------------------------------

TEST(PathMtu, ARefusedProbeNeedsNoThreeAttempts) {
  Path path(1472);
  path.mtu.on_base_confirmed(path.now);
  path.round();
  ASSERT_EQ(path.mtu.bytes(), 1472U);
  ASSERT_EQ(path.mtu.next_probe(path.now), jumbo);
  path.mtu.on_probe_sent(path.now, ++path.sequence, 50ms);
  path.mtu.on_too_big(path.now);
  path.now = path.mtu.probe_at();
  EXPECT_LT(path.mtu.next_probe(path.now), jumbo);
}

// Threat: forged ICMP messages, as many as may be.
TEST(PathMtu, TooBigAloneChangesNoSize) {
  Path path(jumbo);
  path.search();
  for (int i = 0; i < 1000; ++i) {
    path.mtu.on_too_big(path.now);
    path.mtu.on_losses(path.now, 0, true);
    EXPECT_EQ(path.mtu.bytes(), jumbo);
  }
  path.mtu.on_too_big(path.now);
  path.mtu.on_losses(path.now, 1, true);
  EXPECT_EQ(path.mtu.bytes(), PathMtu::base_bytes) << "with a loss it is believed";
}

}  // namespace
}  // namespace sluice::ftx
