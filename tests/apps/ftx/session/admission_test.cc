// SPDX-License-Identifier: Apache-2.0
// Who gets room when there is none, by itself; crowd_test.cc and pulls_test.cc have whole sessions of it.
#include "apps/ftx/session/admission.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string_view>
#include <vector>

#include "base/prng.h"
#include "tests/seeds.h"

namespace sluice::ftx::test {
namespace {

constexpr AdmissionLimits admission_limits{
    .sessions_max = 6, .per_host_max = 4, .stalled_after = std::chrono::seconds(3)};
constexpr TimePoint asked_at{std::chrono::hours(1)};

/// Hosts have letters for names.
class HolderList {
 public:
  /// One letter a holder; the first has made progress the longest ago, `age` each before the next.
  HolderList(std::string_view hosts, Duration age) {
    for (std::size_t at = 0; at < hosts.size(); ++at) {
      add(hosts[at], age * static_cast<int>(hosts.size() - at));
    }
  }
  void add(char host, Duration age) { holders.push_back({.host = &peer(host), .last_progress_at = asked_at - age}); }
  static const Peer& peer(char host) {
    static std::map<char, Peer> peers;
    const auto letter = static_cast<std::byte>(host);
    return peers.try_emplace(host, ConstBytes(&letter, 1)).first->second;
  }
  Admission ask(char host) const { return admission(asked_at, peer(host), holders, admission_limits); }
  std::size_t of(char host) const {
    return static_cast<std::size_t>(std::ranges::count(holders, &peer(host), &Holder::host));
  }
  std::vector<Holder> holders;
};

void expect_granted(const Admission& admission, std::optional<std::size_t> gives_way = {}) {
  EXPECT_TRUE(admission.granted);
  EXPECT_EQ(admission.gives_way, gives_way);
}

void expect_refused(const Admission& admission) {
  EXPECT_FALSE(admission.granted);
  EXPECT_FALSE(admission.gives_way);
}

constexpr Duration fresh_age = std::chrono::milliseconds(1);
constexpr Duration stalled_age = admission_limits.stalled_after;

TEST(Admission, WhoFindsRoomDrivesOutNobody) {
  expect_granted(HolderList("", stalled_age).ask('a'));
  expect_granted(HolderList("aaabb", stalled_age).ask('a'));
}

TEST(Admission, AtItsBoundAHostGetsTheRoomOfItsOwn) {
  expect_refused(HolderList("aaaa", fresh_age).ask('a'));
  expect_granted(HolderList("baaaa", stalled_age).ask('a'), 1);
  HolderList beside_spare("aaaab", fresh_age);
  beside_spare.holders[4].dispensable = true;
  expect_refused(beside_spare.ask('a'));
  HolderList with_spare("aaaa", fresh_age);
  with_spare.holders[2].dispensable = true;
  expect_granted(with_spare.ask('a'), 2);
}

TEST(Admission, WhoCanBeDoneWithoutGoesFirstOfAll) {
  HolderList crowd("aaaabb", fresh_age);
  crowd.holders[5].dispensable = true;
  expect_granted(crowd.ask('c'), 5);
}

TEST(Admission, TheGreediestGivesWayThoughAnotherHasStalled) {
  HolderList crowd("", fresh_age);
  crowd.add('a', stalled_age * 2);
  for (const int age : {4, 2, 3}) {
    crowd.add('b', fresh_age * age);
  }
  crowd.add('c', fresh_age);
  crowd.add('d', fresh_age);
  expect_granted(crowd.ask('e'), 1);
}

TEST(Admission, WhoWouldBeAsGreedyGetsOnlyWhatHasStalled) {
  expect_refused(HolderList("aabbcc", fresh_age).ask('a'));
  expect_granted(HolderList("aabbcc", stalled_age).ask('a'), 0);
  expect_refused(HolderList("abcdef", fresh_age).ask('g'));
  HolderList just_short("abcdef", fresh_age);
  just_short.holders[3].last_progress_at = asked_at - stalled_age + Duration(1);
  expect_refused(just_short.ask('g'));
  just_short.holders[3].last_progress_at -= Duration(1);
  expect_granted(just_short.ask('g'), 3);
}

/// Whatever hosts ask for: the bounds hold, and one that asks alone beside three floods has its session at once and
/// keeps it, though they stall it.
TEST(Admission, FloodsLeaveWhoHasOneSession) {
  over_seeds("ADMISSION", 200, [](std::uint64_t seed) {
    Prng prng(seed);
    HolderList crowd("", fresh_age);
    const auto ask = [&](char host) {
      const Admission verdict = crowd.ask(host);
      if (verdict.gives_way) {
        crowd.holders.erase(crowd.holders.begin() + static_cast<std::ptrdiff_t>(*verdict.gives_way));
      }
      if (verdict.granted) {
        crowd.add(host, fresh_age * static_cast<int>(prng() % 10));
      }
      EXPECT_LE(crowd.holders.size(), admission_limits.sessions_max);
      EXPECT_LE(crowd.of(host), admission_limits.per_host_max);
      return verdict.granted;
    };
    for (int i = 0; i < 30; ++i) {
      ask(static_cast<char>('a' + prng() % 3));
    }
    ASSERT_TRUE(ask('z'));
    std::ranges::find(crowd.holders, &HolderList::peer('z'), &Holder::host)->last_progress_at =
        asked_at - stalled_age * 2;
    for (int i = 0; i < 30; ++i) {
      ask(static_cast<char>('a' + prng() % 3));
      ASSERT_EQ(crowd.of('z'), 1U);
    }
  });
}

}  // namespace
}  // namespace sluice::ftx::test
