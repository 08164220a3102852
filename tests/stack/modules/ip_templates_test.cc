// SPDX-License-Identifier: Apache-2.0
// The short ways of the ip module, for datagrams that follow one of their flow. Two beds do the same: one is given
// bytes, which take the long way, the other native descriptors. Whatever happens, both send the same frames, tell the
// user the same and count the same.
#include <gmock/gmock.h>

#include "base/prng.h"
#include "stack/wire/data_unit.h"
#include "tests/stack/modules/ip_bed.h"

namespace sluice::ip_test {
namespace {

using testing::IsEmpty;
using testing::SizeIs;
using wire::DataUnit;

/// The bytes of all blocks.
Octets all_of(const Message& message) {
  Octets octets;
  for (const Block* block = &message.first(); block != nullptr; block = block->cont) {
    octets = std::move(octets) + block->bytes();
  }
  return octets;
}

/// A packet arrives as the link module hands it on: behind a native descriptor.
void inject_native(Bed& bed, std::uint16_t sap, ConstBytes octets, bool group = false,
                   std::size_t block_max = BufferPool::capacity_max) {
  Message message =
      Message::of_native(bed.set.pool(), DataUnit{.kind = DataUnit::Kind::link_indication,
                                                  .group = group,
                                                  .destination = {group ? wire::mac_broadcast : bed.link.mac, sap},
                                                  .source = {peer_mac, sap}});
  message.link(Message::copy_of(bed.set.pool(), octets, 14, MessageType::data, block_max));
  bed.link.read_queue().put_next(std::move(message));
}

class IpTemplates : public testing::Test {
 protected:
  IpTemplates() {
    both([](Bed& bed) { bed.bind(); });
    know_v4(peer_mac);
    know_v6(peer_mac);
  }

  /// Does the same in both.
  template <class Action>
  void both(Action action) {
    action(bytes);
    action(native);
    compare();
  }
  void send(std::string_view to, ConstBytes data, const network::Sending& sending = {}, std::uint8_t protocol = udp,
            bool options = true) {
    bytes.send(to, data, sending, protocol);
    Message message = Message::of_native(
        native.set.pool(), DataUnit{.kind = DataUnit::Kind::network_request,
                                    .options = options ? DataUnit::Options::sending : DataUnit::Options::none,
                                    .protocol = protocol,
                                    .hop_limit = sending.hop_limit,
                                    .traffic_class = sending.traffic_class,
                                    .dont_fragment = sending.dont_fragment,
                                    .has_local = sending.source.has_value(),
                                    .peer = address(to),
                                    .local = sending.source.value_or(IpAddress())});
    if (data.data() != nullptr) {
      message.link(Message::copy_of(native.set.pool(), data, 64));
    }
    native.user.write_queue().put_next(std::move(message));
    compare();
  }
  /// A packet arrives.
  void inject(std::uint16_t sap, ConstBytes octets, bool group = false,
              std::size_t block_max = BufferPool::capacity_max) {
    bytes.link.inject(sap, octets, group, peer_mac, block_max);
    inject_native(native, sap, octets, group, block_max);
    compare();
  }
  void inject(const V4& header, ConstBytes payload) { inject(wire::ethertype_ipv4, packet(header, payload)); }
  void inject(const V6& header, ConstBytes payload) { inject(wire::ethertype_ipv6, packet(header, payload)); }

  /// Moves what both have sent and told to `frames` and `up`.
  void compare() {
    ASSERT_EQ(bytes.link.sent.size(), native.link.sent.size());
    for (std::size_t at = 0; at < bytes.link.sent.size(); ++at) {
      const Frame& left = bytes.link.sent[at];
      const Frame& right = native.link.sent[at];
      ASSERT_EQ(left.to, right.to);
      ASSERT_EQ(left.sap, right.sap);
      ASSERT_EQ(left.octets, right.octets);
    }
    std::ranges::move(native.link.sent, std::back_inserter(frames));
    bytes.link.sent.clear();
    native.link.sent.clear();
    ASSERT_EQ(bytes.user.received.size(), native.user.received.size());
    for (std::size_t at = 0; at < bytes.user.received.size(); ++at) {
      ASSERT_EQ(bytes.user.received[at].type(), native.user.received[at].type());
      ASSERT_EQ(all_of(bytes.user.received[at]), all_of(native.user.received[at]));
    }
    std::ranges::move(native.user.received, std::back_inserter(up));
    bytes.user.received.clear();
    native.user.received.clear();
    for (const Counter* counter : bytes.ip->counters()) {
      ASSERT_EQ(counter->value(), native.count(counter->name())) << counter->name();
    }
  }
  void forget() {
    frames.clear();
    up.clear();
  }
  /// Makes the neighbours reachable: the short way is for those.
  void know_v4(const MacAddress& mac) {
    for (const std::string_view host : {"10.77.0.2", "10.77.0.254"}) {
      send(host, pattern(1));
      both([&](Bed& bed) { bed.arp(wire::ArpOperation::reply, host, "10.77.0.1", mac); });
      ASSERT_EQ(native.ip->neighbours().state(address(host), native.now), ip::NeighbourState::reachable);
    }
    forget();
  }
  void know_v6(const MacAddress& mac) {
    send("fd00:77::2", pattern(1));
    const wire::NeighborAdvertisement answer{
        .solicited = true, .override_entry = true, .target = v6("fd00:77::2"), .target_link_layer = mac};
    Octets octets(wire::NeighborAdvertisement::size_max);
    answer.emit(octets);
    const V6 header{.next_header = wire::protocol_icmp6, .hop_limit = 255};
    inject(header, icmp_summed(octets, header));
    forget();
  }
  /// Makes the datagram that comes next to `to` one of a flow.
  void warm(std::string_view to, const network::Sending& sending = {}) {
    send(to, pattern(8), sending);
    send(to, pattern(9), sending);
    ASSERT_THAT(frames, SizeIs(2));
    forget();
  }
  template <class Primitive>
  void notified(const Primitive& notification) {
    both([&](Bed& bed) { bed.link.tell(notification, MessageType::proto); });
    forget();
  }
  void unbind() {
    both([](Bed& bed) { bed.ask(tpi::UnbindReq{}, tpi::UnbindReq::fixed_size); });
    forget();
  }
  void bind(std::uint8_t protocol, const IpAddress& local = {}) {
    both([&](Bed& bed) { bed.bind(protocol, local); });
    forget();
  }
  Frame only_frame() {
    EXPECT_THAT(frames, SizeIs(1));
    EXPECT_THAT(up, IsEmpty());
    Frame frame = frames.empty() ? Frame{} : frames.back();
    forget();
    return frame;
  }
  Message only_up() {
    EXPECT_THAT(up, SizeIs(1));
    EXPECT_THAT(frames, IsEmpty());
    Message message = up.empty() ? Message() : std::move(up.back());
    forget();
    return message;
  }

  Bed bytes;
  Bed native;
  std::vector<Frame> frames;
  std::vector<Message> up;
};

// --- down ----------------------------------------------------------------------------------------------------------

const network::Sending sendings[] = {{},
                                     {.hop_limit = 3},
                                     {.hop_limit = 255, .traffic_class = 0xb8},
                                     {.traffic_class = 1},
                                     {.dont_fragment = true},
                                     {.hop_limit = 64}};

TEST_F(IpTemplates, AFlowsHeadersAreThoseOfTheLongWay) {
  for (const std::string_view to : {"10.77.0.2", "8.8.8.8", "224.0.0.5", "fd00:77::2", "ff02::5"}) {
    for (const network::Sending& sending : sendings) {
      const std::size_t header = address(to).is_v4() ? 20 : 40;
      for (const std::size_t size : {std::size_t{8}, std::size_t{0}, std::size_t{1}, 1500 - header, std::size_t{9}}) {
        SCOPED_TRACE(std::string(to) + " " + std::to_string(size));
        send(to, pattern(size), sending);
        const Frame frame = only_frame();
        ASSERT_EQ(frame.octets.size(), header + size);
        ASSERT_EQ(part(frame.octets, header), pattern(size));
        ASSERT_TRUE(header == 40 || sum_holds(ilp::scalar::sum(part(frame.octets, 0, 20))));
      }
    }
  }
}

/// Ports choose the flow label; the short way puts another flow's label in the copied header.
TEST_F(IpTemplates, AnotherFlowOfTheSameHostsHasAnotherLabel) {
  for (const int port : {1, 1, 2, 1, 3, 3}) {
    Octets data = pattern(40);
    data[0] = static_cast<std::byte>(port);
    send("fd00:77::2", data);
  }
  ASSERT_THAT(frames, SizeIs(6));
  std::vector<std::uint32_t> labels;
  for (const Frame& frame : frames) {
    labels.push_back(wire::Ipv6View::check(frame.octets)->flow_label());
  }
  EXPECT_EQ(labels[0], labels[1]);
  EXPECT_NE(labels[0], labels[2]);
  EXPECT_EQ(labels[0], labels[3]);
  EXPECT_NE(labels[0], labels[4]);
  EXPECT_NE(labels[2], labels[4]);
  EXPECT_EQ(labels[4], labels[5]);
  forget();
  Octets data = pattern(4000);  // leaves in fragments, which make no template
  data[0] = std::byte{2};
  send("fd00:77::2", data);
  send("fd00:77::2", part(data, 0, 40));
  ASSERT_THAT(frames, SizeIs(4));
  for (const Frame& frame : frames) {
    EXPECT_EQ(wire::Ipv6View::check(frame.octets)->flow_label(), labels[2]);
  }
}

TEST_F(IpTemplates, OptionsThatAskForNothingAreNone) {
  send("10.77.0.2", pattern(8));
  send("10.77.0.2", pattern(8), {}, udp, false);
  send("10.77.0.2", pattern(8));
  EXPECT_THAT(frames, SizeIs(3));
}

TEST_F(IpTemplates, AnyOrderOfDatagrams) {
  constexpr std::array<std::string_view, 7> hosts{"10.77.0.2",  "10.77.0.2",  "8.8.8.8",    "fd00:77::2",
                                                  "fd00:77::2", "10.77.0.99", "10.77.0.255"};
  constexpr std::array<std::size_t, 6> sizes{0, 1, 40, 1460, 1480, 3000};
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Prng prng(seed);
    for (int step = 0; step < 100; ++step) {
      network::Sending sending = sendings[prng.below(std::size(sendings))];
      const std::string_view to = hosts[prng.below(hosts.size())];
      if (prng.below(4) == 0) {
        sending.source = address(prng.below(3) == 0 ? "10.77.0.9" : to.contains(':') ? "fd00:77::1" : "10.77.0.1");
      }
      send(to, pattern(sizes[prng.below(sizes.size())]), sending, prng.below(8) == 0 ? std::uint8_t{99} : udp);
      ASSERT_FALSE(HasFatalFailure()) << "seed " << seed << " step " << step;
    }
    forget();
  }
}

/// Datagrams of one batch that go the short and the long way leave in their order, in one batch.
TEST_F(IpTemplates, ABatchKeepsItsOrderWhicheverWayItsDatagramsGo) {
  warm("10.77.0.2");
  Batch batch;
  const std::array<std::string_view, 6> hosts{"10.77.0.2",  "10.77.0.254", "10.77.0.2",
                                              "fd00:77::2", "fd00:77::2",  "10.77.0.2"};
  for (std::size_t at = 0; at < hosts.size(); ++at) {
    Message message = Message::of_native(native.set.pool(), DataUnit{.kind = DataUnit::Kind::network_request,
                                                                     .options = DataUnit::Options::sending,
                                                                     .protocol = udp,
                                                                     .peer = address(hosts[at])});
    message.link(Message::copy_of(native.set.pool(), pattern(8 + at), 64));
    batch.push(std::move(message));
  }
  native.user.write_queue().put_next(std::move(batch));
  ASSERT_THAT(native.link.sent, SizeIs(hosts.size()));
  for (std::size_t at = 0; at < hosts.size(); ++at) {
    const bool v4 = native.link.sent[at].sap == wire::ethertype_ipv4;
    EXPECT_EQ(v4, !hosts[at].contains(':'));
    EXPECT_EQ(native.link.sent[at].octets.size(), (v4 ? 20 : 40) + 8 + at);
  }
}

TEST_F(IpTemplates, AnotherProtocolIsInTheHeader) {
  warm("10.77.0.2");
  send("10.77.0.2", pattern(8), {}, 99);
  EXPECT_EQ(wire::Ipv4Header::parse(only_frame().octets)->protocol, 99);
}

TEST_F(IpTemplates, ASourceThatIsNotOursIsRefusedInAFlow) {
  warm("10.77.0.2", {.source = address("10.77.0.1")});
  send("10.77.0.2", pattern(8), {.source = address("10.77.0.9")});
  EXPECT_EQ(uderror_of(only_up()).error, EADDRNOTAVAIL);
}

TEST_F(IpTemplates, TooLargeForThePathIsFragmentedOrRefused) {
  warm("10.77.0.2");
  send("10.77.0.2", pattern(1481));
  EXPECT_THAT(frames, SizeIs(2));
  forget();
  warm("10.77.0.2", {.dont_fragment = true});
  send("10.77.0.2", pattern(1481), {.dont_fragment = true});
  EXPECT_EQ(uderror_of(only_up()).failure.mtu, 1500U);
}

// RFC 1191 section 3: "the source host SHOULD reduce its estimate of the Path MTU".
TEST_F(IpTemplates, ALowerPathMtuIsHeededAtOnceAndForgottenInTime) {
  const network::Sending whole{.dont_fragment = true};
  warm("8.8.8.8", whole);
  const Octets ours = packet(V4{.source = "10.77.0.1", .destination = "8.8.8.8"}, pattern(1480));
  inject(V4{.source = "10.77.0.254", .protocol = wire::protocol_icmp4},
         icmp(wire::Icmp4Unreachable{wire::Icmp4UnreachableCode::fragmentation_needed, 1400}, part(ours, 0, 28)));
  forget();
  send("8.8.8.8", pattern(1400), whole);
  EXPECT_EQ(uderror_of(only_up()).failure.mtu, 1400U);
  send("8.8.8.8", pattern(1400));
  EXPECT_THAT(frames, SizeIs(2));
  forget();
  warm("8.8.8.8", whole);
  both([](Bed& bed) { bed.advance(ip::PathMtu::lifetime); });
  know_v4(peer_mac);
  send("8.8.8.8", pattern(1400), whole);
  EXPECT_EQ(only_frame().octets.size(), 1420U);
}

// RFC 8899 section 3: "In IPv4, a probe packet MUST be sent with the Don't Fragment (DF) bit set in the IP header and
// without network layer endpoint fragmentation." Threat: a forged report that guessed a flow would stop all datagrams
// of it above 552 bytes for ten minutes, if what was reported bounded them.
TEST_F(IpTemplates, AUserThatSearchesForThePathMtuIsToldOfAReportAndNotBoundByIt) {
  network::Settings settings;
  settings.dont_fragment = settings.dont_fragment_v6 = true;
  both([&](Bed& bed) {
    bed.ask(network::SettingsReq{settings}, network::SettingsReq::size, MessageType::ctl);
    bed.user.received.clear();
  });
  warm("8.8.8.8");
  for (const bool again : {false, true}) {
    SCOPED_TRACE(again);
    send("8.8.8.8", pattern(1480));
    const Octets ours = only_frame().octets;
    EXPECT_EQ(ours.size(), 1500U) << "what was reported stops nothing";
    EXPECT_TRUE(wire::Ipv4Header::parse(ours)->dont_fragment);
    inject(V4{.source = "10.77.0.254", .protocol = wire::protocol_icmp4},
           icmp(wire::Icmp4Unreachable{wire::Icmp4UnreachableCode::fragmentation_needed, 1400}, part(ours, 0, 28)));
    ASSERT_FALSE(up.empty());
    if (!again) {
      EXPECT_EQ(network::RouteAck::decode(up.front().bytes())->mtu, 1500U) << "what may leave";
    }
    EXPECT_EQ(uderror_of(up.back()).error, EMSGSIZE);
    EXPECT_EQ(uderror_of(up.back()).failure.mtu, 1400U) << "what the router said";
    forget();
  }
  EXPECT_EQ(native.count("icmp_errors_in"), 2U);
  send("8.8.8.8", pattern(1481));
  EXPECT_EQ(uderror_of(only_up()).failure.mtu, 1500U) << "larger than the link's";
  warm("fd00:77::2");
  send("fd00:77::2", pattern(1461));
  EXPECT_EQ(uderror_of(only_up()).failure.mtu, 1500U);
  EXPECT_EQ(native.count("fragmented"), 0U);

  // What is reported counts again for one that lets his datagrams be fragmented.
  settings.dont_fragment = false;
  both([&](Bed& bed) {
    bed.ask(network::SettingsReq{settings}, network::SettingsReq::size, MessageType::ctl);
    bed.user.received.clear();
  });
  send("8.8.8.8", pattern(1480));
  EXPECT_THAT(frames, SizeIs(2));
}

TEST_F(IpTemplates, ANeighboursNewAddressIsUsedAtOnce) {
  warm("10.77.0.2");
  both([](Bed& bed) { bed.arp(wire::ArpOperation::request, "10.77.0.2", "10.77.0.1", other_mac); });
  forget();
  send("10.77.0.2", pattern(8));
  EXPECT_EQ(only_frame().to, other_mac);
  warm("fd00:77::2");
  know_v6(other_mac);
  send("fd00:77::2", pattern(8));
  EXPECT_EQ(only_frame().to, other_mac);
}

// RFC 4861 section 7.3.3: "The first time a node sends a packet to a neighbor whose entry is STALE, the sender changes
// the state to DELAY".
TEST_F(IpTemplates, ANeighbourNotHeardOfForLongIsProbed) {
  for (const std::string_view to : {"10.77.0.2", "fd00:77::2"}) {
    know_v4(peer_mac);
    know_v6(peer_mac);
    warm(to);
    both([](Bed& bed) { bed.advance(46s); });  // more than 1.5 times ip::Neighbours::reachable_time
    EXPECT_EQ(native.ip->neighbours().state(address(to), native.now), ip::NeighbourState::stale);
    send(to, pattern(8));
    EXPECT_EQ(native.ip->neighbours().state(address(to), native.now), ip::NeighbourState::delay);
    EXPECT_EQ(only_frame().to, peer_mac);
    both([](Bed& bed) { bed.advance(6s); });
    EXPECT_THAT(frames, SizeIs(1)) << "the probe";
    forget();
  }
}

TEST_F(IpTemplates, NeighboursAreProbedWhenTheLinkCameBack) {
  warm("10.77.0.2");
  notified(dlpi::NotifyInd{.notification = dlpi::DL_NOTE_LINK_DOWN, .address = {}});
  notified(dlpi::NotifyInd{.notification = dlpi::DL_NOTE_LINK_UP, .address = {}});
  send("10.77.0.2", pattern(8));
  EXPECT_EQ(native.ip->neighbours().state(address("10.77.0.2"), native.now), ip::NeighbourState::delay);
}

TEST_F(IpTemplates, ANewLinkMtuIsHeededAtOnce) {
  warm("10.77.0.2");
  notified(dlpi::NotifyInd{.notification = dlpi::DL_NOTE_SDU_SIZE, .data = 1400, .address = {}});
  send("10.77.0.2", pattern(1400));
  EXPECT_THAT(frames, SizeIs(2));
  forget();
  warm("10.77.0.2", {.dont_fragment = true});
  notified(dlpi::NotifyInd{.notification = dlpi::DL_NOTE_SDU_SIZE, .data = 1300, .address = {}});
  send("10.77.0.2", pattern(1300), {.dont_fragment = true});
  EXPECT_EQ(uderror_of(only_up()).failure.mtu, 1300U);
}

TEST_F(IpTemplates, ANewStationAddressChangesTheSource) {
  warm("ff02::5");
  send("ff02::5", pattern(8));
  const wire::Ipv6Address before = wire::Ipv6Header::parse(only_frame().octets)->source;
  notified(dlpi::NotifyInd{.notification = dlpi::DL_NOTE_PHYS_ADDR, .address = dlpi::LinkAddress{other_mac, 0x0800}});
  send("ff02::5", pattern(8));
  const wire::Ipv6Address after = wire::Ipv6Header::parse(only_frame().octets)->source;
  EXPECT_TRUE(before.is_link_local() && after.is_link_local());
  EXPECT_NE(before, after);
}

TEST_F(IpTemplates, WhoIsNotBoundSendsNothing) {
  warm("10.77.0.2");
  unbind();
  send("10.77.0.2", pattern(8));
  EXPECT_THAT(frames, IsEmpty());
}

TEST_F(IpTemplates, FiltersAndRouteRequestsChangeNothing) {
  warm("10.77.0.2");
  both([](Bed& bed) {
    bed.ask(dlpi::FilterReq{.local = {}, .protocol = {}, .local_port = 7000}, dlpi::FilterReq::encoded_size_max,
            MessageType::ctl);
  });
  forget();
  send("10.77.0.2", pattern(8));
  send("10.77.0.2", pattern(8));
  both([](Bed& bed) { bed.ask(network::RouteReq{address("8.8.8.8")}, network::RouteReq::size, MessageType::ctl); });
  send("10.77.0.2", pattern(8));
  EXPECT_THAT(frames, SizeIs(3));
}

// --- up ------------------------------------------------------------------------------------------------------------

struct Arrives {
  std::string_view name;
  std::uint16_t sap;
  Octets octets;
  std::string_view counted;  // which counter grows, besides packets_in
  bool delivered = false;
  bool group = false;  // to the link's broadcast address
  std::size_t block_max = BufferPool::capacity_max;
};

std::vector<Arrives> arrivals() {
  constexpr std::uint16_t ipv4 = wire::ethertype_ipv4;
  constexpr std::uint16_t ipv6 = wire::ethertype_ipv6;
  const Octets data = pattern(100);
  const auto with = [](Octets octets, std::size_t at, unsigned value) {
    octets[at] = static_cast<std::byte>(value);
    return octets;
  };
  const Octets plain = packet(V4{}, data);
  const Octets plain6 = packet(V6{}, data);
  Octets options = plain;
  options.insert(options.begin() + 20, 4, std::byte{1});
  options = with(std::move(options), 0, 0x46);
  options = resummed(with(std::move(options), 3, 124));
  const Octets hop_by_hop{std::byte{udp}, std::byte{0}, std::byte{1}, std::byte{4},
                          std::byte{0},   std::byte{0}, std::byte{0}, std::byte{0}};
  return {
      {"one like it", ipv4, plain, "delivered", true},
      {"of another size", ipv4, packet(V4{}, pattern(7)), "delivered", true},
      {"without data", ipv4, packet(V4{}, {}), "delivered", true},
      {"another identification", ipv4, packet(V4{.identification = 0xffff}, data), "delivered", true},
      {"another time to live", ipv4, packet(V4{.ttl = 1}, data), "delivered", true},
      {"another type of service", ipv4, resummed(with(plain, 1, 0xb8)), "delivered", true},
      {"not to be fragmented", ipv4, resummed(with(plain, 6, 0x40)), "delivered", true},
      {"in many blocks", ipv4, plain, "delivered", true, false, 7},
      {"padded", ipv4, plain + Octets(10), "delivered", true},
      {"with options", ipv4, options, "options_skipped", true},
      {"from another host", ipv4, packet(V4{.source = "8.8.8.8"}, data), "delivered", true},
      {"to a group", ipv4, packet(V4{.destination = "224.0.0.1"}, data), "delivered", true, true},
      {"to everybody", ipv4, packet(V4{.destination = "10.77.0.255"}, data), "delivered", true, true},
      {"damaged header", ipv4, with(plain, 8, 63), "bad_checksum"},
      {"damaged address", ipv4, with(plain, 15, 3), "bad_checksum"},
      {"first fragment", ipv4, packet(V4{.more = true}, pattern(96)), "fragments_in"},
      {"later fragment", ipv4, packet(V4{.offset = 800}, pattern(96)), "fragments_in"},
      {"longer than it is", ipv4, part(plain, 0, plain.size() - 1), "bad_total_length"},
      {"cut short", ipv4, part(plain, 0, 19), "short_packet"},
      {"another version", ipv4, plain6, "bad_version"},
      {"to another host", ipv4, packet(V4{.destination = "10.77.0.3"}, data), "not_ours"},
      {"from us", ipv4, packet(V4{.source = "10.77.0.1"}, data), "bad_source"},
      {"broadcast on the link alone", ipv4, plain, "link_broadcast", false, true},
      {"another protocol", ipv4, packet(V4{.protocol = 99}, data), "unknown_protocol"},
      {"one like it", ipv6, plain6, "delivered", true},
      {"of another size", ipv6, packet(V6{}, pattern(7)), "delivered", true},
      {"another hop limit", ipv6, packet(V6{.hop_limit = 1}, data), "delivered", true},
      {"another class and flow label", ipv6, with(with(plain6, 0, 0x6b), 1, 0x8f), "delivered", true},
      {"in many blocks", ipv6, plain6, "delivered", true, false, 7},
      {"padded", ipv6, plain6 + Octets(10), "delivered", true},
      {"with options", ipv6, packet(V6{.next_header = wire::protocol_hop_by_hop}, hop_by_hop + data), "delivered",
       true},
      {"from another host", ipv6, packet(V6{.source = "fd00:77::3"}, data), "delivered", true},
      {"to a group", ipv6, packet(V6{.destination = "ff02::1"}, data), "delivered", true, true},
      {"fragment", ipv6,
       packet(V6{.next_header = wire::protocol_ipv6_fragment}, fragment_header(udp, 0, true) + pattern(96)),
       "fragments_in"},
      {"longer than it is", ipv6, part(plain6, 0, plain6.size() - 1), "bad_total_length"},
      {"cut short", ipv6, part(plain6, 0, 39), "short_packet"},
      {"another version", ipv6, plain, "bad_version"},
      {"to another host", ipv6, packet(V6{.destination = "fd00:77::3"}, data), "not_ours"},
      {"broadcast on the link alone", ipv6, plain6, "link_broadcast", false, true},
      {"another protocol", ipv6, packet(V6{.next_header = 99}, data), "unknown_protocol"},
  };
}

TEST_F(IpTemplates, WhatDiffersFromTheFlowIsTreatedAsEver) {
  for (const Arrives& row : arrivals()) {
    SCOPED_TRACE(std::string(row.name) + (row.sap == wire::ethertype_ipv4 ? ", IPv4" : ", IPv6"));
    const bool v4 = row.sap == wire::ethertype_ipv4;
    const Octets plain = v4 ? packet(V4{}, pattern(50)) : packet(V6{}, pattern(50));
    inject(row.sap, plain);
    inject(row.sap, plain);
    ASSERT_THAT(up, SizeIs(2));
    forget();
    const std::uint64_t before = native.count(row.counted);
    inject(row.sap, row.octets, row.group, row.block_max);
    EXPECT_EQ(native.count(row.counted), before + 1) << row.counted;
    ASSERT_THAT(up, SizeIs(row.delivered ? 1 : 0));
    if (row.delivered) {
      const Unitdata got = unitdata_of(up[0]);
      EXPECT_EQ(got.received.group, row.group);
      if (v4) {
        const auto header = wire::Ipv4View::check(row.octets, row.octets.size()).value();
        EXPECT_EQ(got.received.hop_limit, header.time_to_live());
        EXPECT_EQ(got.received.traffic_class, header.type_of_service());
        EXPECT_EQ(got.received.local, IpAddress(header.destination()));
        EXPECT_EQ(got.source.address, IpAddress(header.source()));
        EXPECT_EQ(got.data, part(row.octets, header.header_length(), header.payload_length()));
      } else {
        const auto header = wire::Ipv6View::check(row.octets, row.octets.size()).value();
        EXPECT_EQ(got.received.hop_limit, header.hop_limit());
        EXPECT_EQ(got.received.traffic_class, header.traffic_class());
        EXPECT_EQ(got.received.local, IpAddress(header.destination()));
        EXPECT_EQ(got.source.address, IpAddress(header.source()));
      }
    }
    forget();
    inject(row.sap, plain);
    EXPECT_EQ(unitdata_of(only_up()).data, pattern(50)) << "and the flow goes on";
  }
}

TEST_F(IpTemplates, WhoIsNotBoundReceivesNothing) {
  inject(V4{}, pattern(50));
  inject(V4{}, pattern(50));
  EXPECT_THAT(up, SizeIs(2));
  unbind();
  inject(V4{}, pattern(50));
  EXPECT_EQ(native.count("unknown_protocol"), 1U);
  EXPECT_THAT(up, IsEmpty());
  forget();
  bind(99);
  inject(V4{}, pattern(50));
  EXPECT_EQ(native.count("unknown_protocol"), 2U) << "bound to another protocol";
}

TEST_F(IpTemplates, WhoIsBoundToAnotherAddressReceivesNothing) {
  for (int i = 0; i < 2; ++i) {
    inject(V4{}, pattern(50));
  }
  unbind();
  bind(udp, address("fd00:77::1"));
  inject(V4{}, pattern(50));
  EXPECT_THAT(up, IsEmpty());
}

TEST_F(IpTemplates, AnAddressThatIsNoLongerOursReceivesNothing) {
  warm("ff02::5");
  send("ff02::5", pattern(8));
  const std::string ours = IpAddress(wire::Ipv6Header::parse(only_frame().octets)->source).to_text();
  const V6 header{.source = "fe80::2", .destination = ours};
  inject(header, pattern(50));
  inject(header, pattern(50));
  EXPECT_THAT(up, SizeIs(2));
  forget();
  notified(dlpi::NotifyInd{.notification = dlpi::DL_NOTE_PHYS_ADDR, .address = dlpi::LinkAddress{other_mac, 0x0800}});
  inject(header, pattern(50));
  EXPECT_EQ(native.count("not_ours"), 1U);
  EXPECT_THAT(up, IsEmpty());
}

/// While an address is being checked another host may have it, and be heard. Once it is ours, who sends from it lies.
TEST(IpTemplatesWhileDetecting, WhatCameFromAnAddressThatIsOursNowComesNoMore) {
  ip::Config config = both_families();
  config.duplicate_address_detection = true;
  Bed bed(std::move(config));
  bed.bind();
  const auto tentative = [&](std::string_view text) { return bed.ip->addresses().is_tentative(address(text)); };
  std::string_view first = "fd00:77::1";
  std::string_view last = "fe80::ff:fe00:1";
  for (int tenths = 0; tentative(first) && tentative(last) && tenths < 50; ++tenths) {
    bed.advance(100ms);
  }
  if (tentative(first)) {
    std::swap(first, last);
  }
  ASSERT_TRUE(!tentative(first) && tentative(last));
  const Octets octets = packet(V6{.source = last, .destination = first}, pattern(50));
  bed.user.received.clear();
  for (std::size_t times = 1; times <= 2; ++times) {
    inject_native(bed, wire::ethertype_ipv6, octets);
    EXPECT_EQ(bed.count("delivered"), times);
  }
  bed.user.received.clear();
  for (int tenths = 0; tentative(last) && tenths < 50; ++tenths) {
    bed.advance(100ms);
  }
  ASSERT_FALSE(tentative(last));
  inject_native(bed, wire::ethertype_ipv6, octets);
  EXPECT_EQ(bed.count("delivered"), 2U);
  EXPECT_EQ(bed.count("bad_source"), 1U);
}

}  // namespace
}  // namespace sluice::ip_test
