// SPDX-License-Identifier: Apache-2.0
#include "msg/matching.h"

#include <gtest/gtest.h>

namespace sluice::test::msgs {
namespace {

using msg::Match;
using msg::Peer;

const Peer this_peer{wire::Ipv4Address{{10, 0, 0, 1}}, 7000};
const Peer other_port{wire::Ipv4Address{{10, 0, 0, 1}}, 7001};

TEST(MsgMatching, ComparesTheBitsThatAreNotIgnoredAndTheSender) {
  constexpr std::uint64_t all = ~std::uint64_t{0};
  constexpr std::uint64_t top = std::uint64_t{1} << 63;
  struct Row {
    Match match;
    std::uint64_t bits;
    bool accepted;
  };
  for (const Row& row : {Row{{.bits = 0}, 0, true}, Row{{.bits = 0}, 1, false}, Row{{.bits = 0}, top, false},
                         Row{{.bits = top, .ignore = top}, 0, true}, Row{{.bits = 5, .ignore = all}, 7, true},
                         Row{{.bits = 5, .ignore = 2}, 7, true}, Row{{.bits = 5, .ignore = 2}, 6, false},
                         Row{{.bits = 5, .from = this_peer}, 5, true}, Row{{.bits = 5, .from = other_port}, 5, false},
                         Row{{.bits = 5, .ignore = all, .from = other_port}, 5, false}}) {
    EXPECT_EQ(row.match.accepts(this_peer, row.bits), row.accepted)
        << row.match.bits << " ignoring " << row.match.ignore << " meets " << row.bits;
  }
}

}  // namespace
}  // namespace sluice::test::msgs
