// SPDX-License-Identifier: Apache-2.0
// Two ip modules back to back, over a link that can lose and reorder.
#include <gmock/gmock.h>

#include <functional>
#include <random>

#include "base/prng.h"
#include "tests/stack/modules/ip_bed.h"

namespace sluice::ip_test {
namespace {

class IpPair : public testing::Test {
 protected:
  IpPair() {
    a.bind();
    b.bind();
  }

  /// Carries frames until both are silent. `lose` decides about each.
  void carry(const std::function<bool()>& lose = [] { return false; }) {
    for (int frames = 0; frames < 10'000 && !(a.link.sent.empty() && b.link.sent.empty()); ++frames) {
      for (auto [from, to] : {std::pair{&a, &b}, std::pair{&b, &a}}) {
        if (from->link.sent.empty()) {
          continue;
        }
        const std::size_t at = reorder ? prng.below(from->link.sent.size()) : 0;
        const Frame frame = from->link.sent[at];
        from->link.sent.erase(from->link.sent.begin() + static_cast<std::ptrdiff_t>(at));
        if ((frame.to == to->link.mac || frame.to.is_multicast()) && !lose()) {
          to->link.inject(frame.sap, frame.octets, frame.to.is_multicast(), from->link.mac);
        }
      }
    }
    EXPECT_TRUE(a.link.sent.empty() && b.link.sent.empty());
  }
  void advance(Duration duration) {
    a.advance(duration);
    b.advance(duration);
  }

  std::uint64_t seed = std::random_device{}();
  Prng prng{seed};
  bool reorder = false;
  Bed a{both_families(), our_mac};
  Bed b{config_of({"10.77.0.2/24", "fd00:77::2/64"}), peer_mac};
};

TEST_F(IpPair, DatagramsOfEverySizeArrive) {
  for (const std::string_view to : {"10.77.0.2", "fd00:77::2"}) {
    for (const std::size_t size : {0U, 1U, 8U, 1459U, 1460U, 1461U, 1480U, 1481U, 2960U, 9000U, 65'507U}) {
      a.send(to, pattern(size));
      carry();
      const Unitdata datagram = unitdata_of(b.next_up());
      EXPECT_EQ(datagram.data, pattern(size));
      EXPECT_EQ(datagram.received.local, address(to));
    }
  }
  EXPECT_TRUE(a.user.received.empty());
}

TEST_F(IpPair, LinkLocalAddressesWork) {
  a.send(wire::link_local_address(peer_mac).to_text(), pattern(100));
  carry();
  EXPECT_EQ(unitdata_of(b.next_up()).source.address, IpAddress(wire::link_local_address(our_mac)));
}

TEST_F(IpPair, FragmentsArriveInAnyOrder) {
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  a.send("10.77.0.2", pattern(1));
  a.send("fd00:77::2", pattern(1));
  carry();
  b.user.received.clear();
  reorder = true;
  for (int round = 0; round < 20; ++round) {
    for (const std::string_view to : {"10.77.0.2", "fd00:77::2"}) {
      const std::size_t size = prng.below(65'508);
      a.send(to, pattern(size));
      carry();
      ASSERT_EQ(unitdata_of(b.next_up()).data, pattern(size)) << size;
    }
  }
}

/// With loss, what arrives is whole; what does not is forgotten in time.
TEST_F(IpPair, LossNeverDeliversHalf) {
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  a.send("10.77.0.2", pattern(1));
  carry();
  b.user.received.clear();
  for (int round = 0; round < 200; ++round) {
    a.send("10.77.0.2", pattern(9000));
    carry([&] { return prng.chance(0.1); });
    advance(100ms);
  }
  EXPECT_GT(b.user.received.size(), 20);
  while (!b.user.received.empty()) {
    ASSERT_EQ(unitdata_of(b.next_up()).data, pattern(9000));
  }
  for (int second = 0; second <= 60; ++second) {  // ip::Reassembly::timeout
    advance(1s);
    carry();
  }
  EXPECT_EQ(b.ip->reassembly().bytes(), 0);
}

TEST_F(IpPair, AnUnboundProtocolIsReportedBack) {
  Bed c(config_of({"10.77.0.2/24"}), peer_mac);
  a.send("10.77.0.2", pattern(100));
  c.link.inject(wire::ethertype_arp, a.next_frame().octets, true, our_mac);
  a.link.inject(wire::ethertype_arp, c.next_frame().octets, false);
  c.link.inject(wire::ethertype_ipv4, a.next_frame().octets, false, our_mac);
  a.link.inject(wire::ethertype_ipv4, c.next_frame().octets, false);
  const Uderror error = uderror_of(a.next_up());
  EXPECT_EQ(error.error, ENOPROTOOPT);
  EXPECT_EQ(error.data, pattern(100));
}

/// A conversation over minutes keeps its neighbours by probing, without losing a datagram.
TEST_F(IpPair, NeighboursStayKnown) {
  for (int second = 0; second < 300; ++second) {
    a.send("10.77.0.2", pattern(10));
    b.send("fd00:77::1", pattern(10));
    carry();
    advance(1s);
    carry();
  }
  EXPECT_EQ(b.user.received.size(), 300);
  EXPECT_EQ(a.user.received.size(), 300);
  EXPECT_EQ(a.count("neighbour_failed") + b.count("neighbour_failed"), 0);
}

}  // namespace
}  // namespace sluice::ip_test
