// SPDX-License-Identifier: Apache-2.0
// IPv6 flow labels (RFC 6437).
#include "stack/modules/ip_flow_label.h"
#include "stack/modules/siphash.h"

#include <gmock/gmock.h>

#include <array>
#include <random>
#include <set>

#include "tests/stack/modules/ip_bed.h"

namespace sluice::ip_test {
namespace {

/// The example of the paper's appendix A: key 00 01 .. 0f, 15 bytes 00 01 .. 0e.
TEST(IpFlowLabel, SipHashIsThatOfThePaper) {
  Octets bytes;
  for (int value = 0; value < 15; ++value) {
    bytes.push_back(static_cast<std::byte>(value));
  }
  EXPECT_EQ(siphash(0x0706050403020100U, 0x0f0e0d0c0b0a0908U, bytes), 0xa129ca6149be45e5U);
}

/// RFC 6437 section 2: "A Flow Label of zero is used to indicate packets that have not been labeled." "Flow label
/// values should be chosen such that their bits exhibit a high degree of variability, [...] third parties should be
/// unlikely to be able to guess the next value that a source of flow labels will choose."
TEST(IpFlowLabel, LabelsAreSpreadAndTheHostsOwn) {
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  Prng prng(seed);
  const ip::FlowLabels ours(prng(), prng());
  const ip::FlowLabels others(prng(), prng());
  constexpr std::uint32_t flows = 1U << 16;
  std::array<std::uint32_t, 16> front{};
  std::array<std::uint32_t, 16> back{};
  std::set<std::uint32_t> labels;
  std::uint32_t alike = 0;
  for (std::uint32_t port = 0; port < flows; ++port) {
    const std::uint32_t label = ours.of(v6("fd00:77::1"), v6("fd00:77::2"), udp, port);
    ASSERT_GT(label, 0U);
    ASSERT_LT(label, 1U << 20);
    ++front[label >> 16];
    ++back[label & 0xfU];
    labels.insert(label);
    alike += label == others.of(v6("fd00:77::1"), v6("fd00:77::2"), udp, port) ? 1U : 0U;
  }
  for (const auto& bins : {front, back}) {
    for (const std::uint32_t bin : bins) {
      EXPECT_NEAR(bin, flows / 16, flows / 160) << "beyond 6 sigma";
    }
  }
  EXPECT_GT(labels.size(), flows * 9 / 10);
  EXPECT_LT(alike, 16U) << "1 in 2^20";
}

class IpFlowLabelSent : public testing::Test {
 protected:
  IpFlowLabelSent() {
    bed.bind();
    send(1, 8);
    Octets answer(wire::NeighborAdvertisement::size_max);
    answer.resize(wire::NeighborAdvertisement{false, true, true, v6("fd00:77::2"), peer_mac}.emit(answer));
    const V6 header{.next_header = 58, .hop_limit = 255};
    bed.link.inject(wire::ethertype_ipv6, packet(header, icmp_summed(answer, header)));
    bed.link.sent.clear();
  }
  /// A datagram of the flow between `port` and others.
  void send(std::uint8_t port, std::size_t size, std::string_view to = "fd00:77::2") {
    Octets data = pattern(size);
    data[0] = std::byte{port};
    bed.send(to, data);
  }
  std::uint32_t next_label() { return wire::Ipv6View::check(bed.next_frame().octets)->flow_label(); }

  Bed bed;
};

/// RFC 6437 section 3: "source nodes SHOULD assign each unrelated transport connection and application data stream to a
/// new flow."
TEST_F(IpFlowLabelSent, AFlowKeepsItsLabel) {
  std::array<std::uint32_t, 3> labels{};
  for (std::uint8_t port = 0; port < 3; ++port) {
    send(port, 100);
    labels[port] = next_label();
    EXPECT_NE(labels[port], 0U);
  }
  EXPECT_EQ(std::set(labels.begin(), labels.end()).size(), 3U);
  for (int round = 0; round < 3; ++round) {
    for (std::uint8_t port = 0; port < 3; ++port) {
      send(port, 50);
      EXPECT_EQ(next_label(), labels[port]);
    }
  }
  send(0, 4000);
  ASSERT_EQ(bed.link.sent.size(), 3U);
  while (!bed.link.sent.empty()) {
    EXPECT_EQ(next_label(), labels[0]) << "fragments are of the flow";
  }
}

/// RFC 6437 section 2: "There is no way to verify whether a flow label has been modified en route": it decides nothing.
TEST_F(IpFlowLabelSent, LabelsOfWhatArrivesChangeNothing) {
  for (const std::uint32_t label : {0U, 0U, 1U, 0xfffffU, 0x54321U}) {
    Octets octets = packet(V6{}, pattern(100));
    store_big_endian(octets.data(), (6U << 28) | label);
    bed.link.inject(wire::ethertype_ipv6, octets);
    const Unitdata datagram = unitdata_of(bed.next_up());
    EXPECT_EQ(datagram.data, pattern(100));
    EXPECT_EQ(datagram.received.traffic_class, 0);
  }
  EXPECT_EQ(bed.count("delivered"), 5U);
}

}  // namespace
}  // namespace sluice::ip_test
