// SPDX-License-Identifier: Apache-2.0
// The ip module on the way down, and its TPI management.
#include <gmock/gmock.h>

#include "tests/stack/modules/ip_bed.h"

namespace sluice::ip_test {
namespace {

class IpSend : public testing::Test {
 protected:
  IpSend() {
    bed.bind();
    bed.know_neighbours();
  }
  /// Makes an IPv6 neighbour known.
  void know_v6() {
    bed.send("fd00:77::2", pattern(1));
    const wire::NeighborAdvertisement answer{
        .solicited = true, .override_entry = true, .target = v6("fd00:77::2"), .target_link_layer = peer_mac};
    Octets octets(wire::NeighborAdvertisement::size_max);
    answer.emit(octets);
    const V6 header{.next_header = wire::protocol_icmp6, .hop_limit = 255};
    bed.link.inject(wire::ethertype_ipv6, packet(header, icmp_summed(octets, header)));
    bed.link.sent.clear();
  }
  int error_of_next() { return uderror_of(bed.next_up()).error; }

  Bed bed;
};

TEST_F(IpSend, Ipv4Header) {
  bed.send("10.77.0.2", pattern(100), {.hop_limit = 3, .traffic_class = 0xb8, .dont_fragment = true});
  const Frame frame = bed.next_frame();
  EXPECT_EQ(frame.to, peer_mac);
  EXPECT_EQ(frame.sap, wire::ethertype_ipv4);
  ASSERT_TRUE(sum_holds(ilp::scalar::sum(ConstBytes(frame.octets).first(20))));
  const wire::Ipv4Header header = wire::Ipv4Header::parse(frame.octets).value();
  EXPECT_EQ(header, (wire::Ipv4Header{.type_of_service = 0xb8,
                                      .payload_length = 100,
                                      .identification = header.identification,
                                      .dont_fragment = true,
                                      .time_to_live = 3,
                                      .protocol = udp,
                                      .source = v4("10.77.0.1"),
                                      .destination = v4("10.77.0.2")}));
  EXPECT_EQ(part(frame.octets, 20), pattern(100));
  EXPECT_EQ(bed.count("packets_out"), bed.said_at_start.size() + 3) << "and two ARP replies";
}

TEST_F(IpSend, Ipv6Header) {
  know_v6();
  bed.send("fd00:77::2", pattern(100), {.traffic_class = 0x28});
  const Frame frame = bed.next_frame();
  const std::uint32_t label = wire::Ipv6View::check(frame.octets)->flow_label();
  EXPECT_EQ(wire::Ipv6Header::parse(frame.octets), (wire::Ipv6Header{.traffic_class = 0x28,
                                                                     .flow_label = label,
                                                                     .payload_length = 100,
                                                                     .next_header = udp,
                                                                     .hop_limit = 64,
                                                                     .source = v6("fd00:77::1"),
                                                                     .destination = v6("fd00:77::2")}));
  EXPECT_EQ(part(frame.octets, 40), pattern(100));
}

/// RFC 791 section 3.2: an identification "unique for that source-destination pair and protocol for the time the
/// datagram will be active".
TEST_F(IpSend, IdentificationsDiffer) {
  bed.send("10.77.0.2", pattern(1));
  bed.send("10.77.0.2", pattern(1));
  const auto first = wire::Ipv4Header::parse(bed.next_frame().octets)->identification;
  EXPECT_NE(wire::Ipv4Header::parse(bed.next_frame().octets)->identification, first);
}

TEST_F(IpSend, SendsThroughTheGatewayAndToGroups) {
  bed.send("8.8.8.8", pattern(8));
  Frame frame = bed.next_frame();
  EXPECT_EQ(frame.to, peer_mac) << "the gateway's";
  EXPECT_EQ(wire::Ipv4Header::parse(frame.octets)->destination, v4("8.8.8.8"));
  bed.send("224.0.0.5", pattern(8));
  EXPECT_EQ(bed.next_frame().to, (MacAddress{{1, 0, 0x5e, 0, 0, 5}}));
  bed.send("ff02::5", pattern(8));
  frame = bed.next_frame();
  EXPECT_EQ(frame.to, (MacAddress{{0x33, 0x33, 0, 0, 0, 5}}));
  EXPECT_TRUE(wire::Ipv6Header::parse(frame.octets)->source.is_link_local());
}

TEST_F(IpSend, SendsNothingToo) {
  bed.send("10.77.0.2", {});
  EXPECT_EQ(bed.next_frame().octets.size(), 20);
}

/// Header and data leave in the memory that the user allocated: nothing is copied, nothing else is taken.
TEST_F(IpSend, UsesHeadroomAndTheRequestsBlock) {
  bed.send("10.77.0.2", pattern(100));
  const auto before = bed.set.pool().statistics().buffers_in_use;
  class Holding : public Module {
   public:
    Holding() : Module("holding") {}
    void wput(Batch&& batch) override { messages.splice(std::move(batch)); }
    Batch messages;
  };
  EXPECT_EQ(before, 0);
  Octets bytes(wire::NetworkAddress{address("10.77.0.2"), udp}.encoded_size());
  wire::NetworkAddress{address("10.77.0.2"), udp}.encode(bytes);
  const tpi::UnitdataReq request{bytes, {}};
  Message message = Message::allocate(bed.set.pool(), request.encoded_size(), 0, MessageType::proto);
  request.encode(message.append(request.encoded_size()));
  message.link(Message::copy_of(bed.set.pool(), pattern(100), 40));
  const std::byte* data = message.data_block()->rptr;
  bed.user.write_queue().put_next(std::move(message));
  EXPECT_EQ(wire::Ipv4View::check_quoted({data - 20, 20})->destination(), v4("10.77.0.2"));
}

TEST_F(IpSend, FragmentsIpv4) {
  const Octets whole = pattern(4000);
  bed.send("10.77.0.2", whole);
  Octets joined;
  std::optional<std::uint16_t> identification;
  for (int fragment = 0; fragment < 3; ++fragment) {
    const Frame frame = bed.next_frame();
    const wire::Ipv4Header header = wire::Ipv4Header::parse(frame.octets).value();
    EXPECT_LE(frame.octets.size(), 1500);
    EXPECT_EQ(header.fragment_offset, joined.size());
    EXPECT_EQ(header.more_fragments, fragment < 2);
    EXPECT_EQ(header.identification, identification.value_or(header.identification));
    identification = header.identification;
    joined = joined + part(frame.octets, 20);
  }
  EXPECT_EQ(joined, whole);
  EXPECT_TRUE(bed.link.sent.empty());
  EXPECT_EQ(bed.count("fragmented"), 1);
}

TEST_F(IpSend, FragmentsIpv6) {
  know_v6();
  const Octets whole = pattern(65'535);
  bed.send("fd00:77::2", whole);
  Octets joined;
  while (!bed.link.sent.empty()) {
    const Frame frame = bed.next_frame();
    const wire::Ipv6Header header = wire::Ipv6Header::parse(frame.octets).value();
    ASSERT_EQ(header.next_header, wire::protocol_ipv6_fragment);
    ASSERT_EQ(header.payload_length + 40U, frame.octets.size());
    ASSERT_LE(frame.octets.size(), 1500);
    const auto fragment = wire::Ipv6FragmentHeader::parse(part(frame.octets, 40, 8)).value();
    ASSERT_EQ(fragment.next_header, udp);
    ASSERT_EQ(fragment.offset, joined.size());
    ASSERT_EQ(fragment.more_fragments, !bed.link.sent.empty());
    joined = joined + part(frame.octets, 48);
  }
  EXPECT_EQ(joined, whole);
}

TEST_F(IpSend, FragmentsChainsOfBlocks) {
  Octets bytes(wire::NetworkAddress{address("10.77.0.2"), udp}.encoded_size());
  wire::NetworkAddress{address("10.77.0.2"), udp}.encode(bytes);
  const tpi::UnitdataReq request{bytes, {}};
  Message message = Message::allocate(bed.set.pool(), request.encoded_size(), 0, MessageType::proto);
  request.encode(message.append(request.encoded_size()));
  message.link(Message::copy_of(bed.set.pool(), pattern(5000), 0, MessageType::data, 333));
  bed.user.write_queue().put_next(std::move(message));
  Octets joined;
  while (!bed.link.sent.empty()) {
    joined = joined + part(bed.next_frame().octets, 20);
  }
  EXPECT_EQ(joined, pattern(5000));
}

/// What the stack file says holds until the user says otherwise; a family each. What this host sends by itself may be
/// fragmented all the same.
TEST(IpSendWhole, IsAParameterAndASetting) {
  ip::Config config = both_families();
  config.fragment = false;
  Bed bed(std::move(config));
  bed.bind();
  bed.know_neighbours();
  const auto sent = [&](std::size_t size) {
    bed.link.sent.clear();
    bed.send("10.77.0.2", pattern(size));
    return bed.link.sent.size();
  };
  EXPECT_EQ(sent(1480), 1U);
  EXPECT_TRUE(wire::Ipv4Header::parse(bed.next_frame().octets)->dont_fragment);
  EXPECT_EQ(sent(1481), 0U);
  EXPECT_EQ(uderror_of(bed.next_up()).error, EMSGSIZE);
  EXPECT_EQ(bed.count("fragmented"), 0U);

  const Octets echo = icmp(wire::Icmp4Message(wire::IcmpEcho{false, 1, 1}), pattern(2000));
  Octets first = packet(V4{.protocol = wire::protocol_icmp4, .more = true}, part(echo, 0, 1480));
  bed.link.inject(wire::ethertype_ipv4, first);
  bed.link.inject(wire::ethertype_ipv4, packet(V4{.protocol = wire::protocol_icmp4, .offset = 1480}, part(echo, 1480)));
  EXPECT_EQ(bed.count("fragmented"), 1U) << "the answer to an echo request";

  bed.ask(network::SettingsReq{}, network::SettingsReq::size, MessageType::ctl);
  const auto settings = network::SettingsAck::decode(bed.next_up().bytes());
  ASSERT_TRUE(settings);
  EXPECT_TRUE(settings->initial.dont_fragment && settings->initial.dont_fragment_v6);
  network::Settings wanted = settings->current;
  EXPECT_EQ(wanted, settings->initial);
  wanted.dont_fragment = false;
  bed.ask(network::SettingsReq{wanted}, network::SettingsReq::size, MessageType::ctl);
  bed.user.received.clear();
  EXPECT_EQ(sent(1481), 2U);
  EXPECT_EQ(bed.count("fragmented"), 2U);
  bed.send("fd00:77::2", pattern(1461));
  EXPECT_EQ(uderror_of(bed.next_up()).error, EMSGSIZE) << "IPv6 is another setting";
}

TEST_F(IpSend, RefusesWithAnErrno) {
  struct Row {
    std::string_view to;
    std::size_t size;
    network::Sending sending;
    int error;
  };
  const Row rows[] = {
      {"10.77.0.2", 1481, {.dont_fragment = true}, EMSGSIZE},
      {"10.77.0.2", 65'516, {}, EMSGSIZE},
      {"fd00:77::2", 65'536, {}, EMSGSIZE},
      {"10.77.0.1", 8, {.source = address("10.77.0.3")}, EADDRNOTAVAIL},
      {"10.77.0.2", 8, {.source = address("127.0.0.1")}, EADDRNOTAVAIL},  // not outside of this host
      {"10.77.0.255", 8, {}, EACCES},
      {"255.255.255.255", 8, {}, EACCES},
      {"10.77.0.2", 8, {.source = address("10.77.0.3")}, EADDRNOTAVAIL},
      {"10.77.0.2", 8, {.source = address("fd00:77::1")}, EADDRNOTAVAIL},
  };
  std::uint64_t refused = 0;
  for (const Row& row : rows) {
    bed.send(row.to, pattern(row.size), row.sending);
    const Uderror error = uderror_of(bed.next_up());
    EXPECT_EQ(error.error, row.error) << row.to;
    EXPECT_EQ(error.destination, (wire::NetworkAddress{address(row.to), udp}));
    EXPECT_EQ(error.data, pattern(row.size)) << "comes back whole";
    EXPECT_EQ(error.failure.mtu, row.error == EMSGSIZE ? 1500 : 0);
    EXPECT_EQ(bed.count("refused"), ++refused);
  }
  EXPECT_TRUE(bed.link.sent.empty());
}

TEST(IpSendAlone, HasNoRouteWithoutAGateway) {
  Bed bed(config_of({"10.77.0.1/24"}));
  bed.bind();
  for (const std::string_view to : {"8.8.8.8", "fd00::1"}) {
    bed.send(to, pattern(8));
    EXPECT_EQ(uderror_of(bed.next_up()).error, ENETUNREACH);
  }
}

TEST_F(IpSend, RefusesMalformedRequests) {
  const Octets odd = pattern(7);
  const tpi::UnitdataReq bad_address{odd, {}};
  bed.ask(bad_address, bad_address.encoded_size(), MessageType::proto, pattern(8));
  EXPECT_EQ(error_of_next(), EPROTO);
  Octets good(wire::NetworkAddress{address("10.77.0.2"), udp}.encoded_size());
  wire::NetworkAddress{address("10.77.0.2"), udp}.encode(good);
  const tpi::UnitdataReq bad_options{good, odd};
  bed.ask(bad_options, bad_options.encoded_size(), MessageType::proto, pattern(8));
  EXPECT_EQ(error_of_next(), EPROTO);
  EXPECT_EQ(bed.count("bad_request"), 2);
}

/// T_UNITDATA_REQ: "EPROTO: This indicates one of the following unrecoverable protocol conditions: The transport
/// service interface was found to be in an incorrect state."
TEST_F(IpSend, ADatagramOnAnUnboundStreamIsAFatalError) {
  bed.ask(tpi::UnbindReq{}, 4);
  bed.user.received.clear();
  bed.send("10.77.0.2", pattern(8));
  EXPECT_EQ(bed.next_up().type(), MessageType::error);
  bed.ask(tpi::InfoReq{}, 4);
  EXPECT_TRUE(bed.user.received.empty());
  EXPECT_EQ(bed.count("protocol_errors"), 1);
  EXPECT_EQ(bed.count("dropped"), 1);
}

TEST_F(IpSend, KeepsTheBandAndBatches) {
  Batch batch;
  for (int sent = 0; sent < 3; ++sent) {
    Octets bytes(8);
    wire::NetworkAddress{address("10.77.0.2"), udp}.encode(bytes);
    const tpi::UnitdataReq request{bytes, {}};
    Message message = Message::allocate(bed.set.pool(), request.encoded_size(), 0, MessageType::proto);
    request.encode(message.append(request.encoded_size()));
    message.first().band = 2;
    message.link(Message::copy_of(bed.set.pool(), pattern(8), 64));
    batch.push(std::move(message));
  }
  const auto before = bed.link.write_queue().statistics();
  bed.user.write_queue().put_next(std::move(batch));
  EXPECT_EQ(bed.link.write_queue().statistics().batches, before.batches + 1);
  EXPECT_EQ(bed.link.write_queue().statistics().messages, before.messages + 3);
}

TEST_F(IpSend, AnswersRouteRequestsAtOnce) {
  bed.ask(network::RouteReq{address("8.8.8.8")}, network::RouteReq::size, MessageType::ctl);
  EXPECT_EQ(network::RouteAck::decode(bed.next_up().bytes()),
            (network::RouteAck{address("8.8.8.8"), address("10.77.0.1"), 1500, 0}));
  bed.ask(network::RouteReq{address("10.77.0.1")}, network::RouteReq::size, MessageType::ctl);
  EXPECT_EQ(network::RouteAck::decode(bed.next_up().bytes()),
            (network::RouteAck{address("10.77.0.1"), address("10.77.0.1"), 65535, 0}));
  bed.ask(network::RouteReq{address("8.8.8.8")}, network::RouteReq::size, MessageType::ctl);
  EXPECT_TRUE(bed.next_up());
}

/// TPI 2.0.0: T_INFO_REQ, T_ADDR_REQ, T_CAPABILITY_REQ, T_OPTMGMT_REQ, T_UNBIND_REQ and what answers them.
TEST_F(IpSend, Management) {
  bed.ask(tpi::InfoReq{}, 4, MessageType::pcproto);
  auto info = tpi::InfoAck::decode(bed.next_up().bytes());
  EXPECT_EQ(info->current_state, tpi::TS_IDLE);
  EXPECT_EQ(info->serv_type, tpi::T_CLTS);
  bed.ask(tpi::AddrReq{}, 4);
  Message answer = bed.next_up();
  EXPECT_EQ(wire::NetworkAddress::decode(tpi::AddrAck::decode(answer.bytes())->local)->protocol, udp);
  bed.ask(tpi::CapabilityReq{tpi::TC1_INFO}, tpi::CapabilityReq::fixed_size);
  EXPECT_EQ(tpi::CapabilityAck::decode(bed.next_up().bytes())->info, *info);
  bed.ask(tpi::OptmgmtReq{.options = {}, .flags = tpi::T_CURRENT}, tpi::OptmgmtReq::fixed_size);
  EXPECT_EQ(tpi::OptmgmtAck::decode(bed.next_up().bytes())->flags, tpi::T_SUCCESS);
  const Octets options = pattern(8);
  bed.ask(tpi::OptmgmtReq{.options = options, .flags = tpi::T_CHECK},
          tpi::OptmgmtReq{.options = options, .flags = tpi::T_CHECK}.encoded_size());
  EXPECT_EQ(tpi::ErrorAck::decode(bed.next_up().bytes())->tli_error, tpi::TBADOPT);
  bed.ask(tpi::UnbindReq{}, 4);
  EXPECT_EQ(bed.next_up().type(), MessageType::flush);
  EXPECT_EQ(tpi::OkAck::decode(bed.next_up().bytes())->correct_primitive, tpi::T_UNBIND_REQ);
  bed.ask(tpi::UnbindReq{}, 4);
  EXPECT_EQ(tpi::ErrorAck::decode(bed.next_up().bytes())->tli_error, tpi::TOUTSTATE);
  bed.ask(tpi::OkAck{5}, tpi::OkAck::fixed_size);
  EXPECT_EQ(tpi::ErrorAck::decode(bed.next_up().bytes())->tli_error, tpi::TNOTSUPPORT);
}

TEST(IpBind, RefusesWhatCannotBeBound) {
  Bed bed;
  const auto refusal = [&](ConstBytes bytes) {
    const tpi::BindReq request{.address = bytes};
    bed.ask(request, request.encoded_size());
    const auto ack = tpi::ErrorAck::decode(bed.next_up().bytes());
    EXPECT_TRUE(ack);
    return ack ? *ack : tpi::ErrorAck{};
  };
  EXPECT_EQ(refusal({}).tli_error, tpi::TNOADDR);
  EXPECT_EQ(refusal(pattern(5)).tli_error, tpi::TBADADDR);
  Octets foreign(8);
  wire::NetworkAddress{address("10.77.0.2"), udp}.encode(foreign);
  EXPECT_EQ(refusal(foreign), (tpi::ErrorAck{tpi::T_BIND_REQ, tpi::TBADADDR, 0}));
  bed.bind();
  EXPECT_EQ(refusal(foreign).tli_error, tpi::TOUTSTATE);
}

TEST(IpBind, PassesOnWhatItDoesNotKnow) {
  class Watch : public Link {
   public:
    void wput(Batch&& batch) override {
      while (Message message = batch.pop()) {
        types.push_back(message.type());
        Link::wput(Batch(std::move(message)));
      }
    }
    std::vector<MessageType> types;
  };
  auto driver = std::make_unique<Watch>();
  Watch& watch = *driver;
  Bed bed(both_families(), std::move(driver));
  watch.types.clear();
  for (const MessageType type : {MessageType::ioctl, MessageType::flush, MessageType::ctl}) {
    bed.user.write_queue().put_next(Message::copy_of(bed.set.pool(), pattern(32), 0, type));
    ASSERT_FALSE(watch.types.empty());
    EXPECT_EQ(watch.types.back(), type);
  }
  for (const MessageType type : {MessageType::data, MessageType::iocack, MessageType::flush, MessageType::hangup}) {
    bed.user.received.clear();
    bed.link.read_queue().put_next(Message::copy_of(bed.set.pool(), pattern(32), 0, type));
    EXPECT_EQ(bed.next_up().type(), type);
  }
  // M_DATA is a T_DATA_REQ (TPI 2.0.0), which ends a connectionless stream; nothing of it goes down.
  watch.types.clear();
  bed.user.received.clear();
  bed.user.write_queue().put_next(Message::copy_of(bed.set.pool(), pattern(32)));
  EXPECT_EQ(bed.next_up().type(), MessageType::error);
  EXPECT_TRUE(watch.types.empty());
}

}  // namespace
}  // namespace sluice::ip_test
