// SPDX-License-Identifier: Apache-2.0
// The ip module's ICMP and ICMPv6: echo, errors out, errors in.
#include "stack/modules/ip_icmp_errors.h"

#include <gmock/gmock.h>

#include <random>

#include "base/prng.h"
#include "stack/core/primitive.h"
#include "stack/modules/ip_flows.h"
#include "stack/modules/ip_options.h"
#include "stack/wire/udp.h"
#include "tests/stack/modules/ip_bed.h"

namespace sluice::ip_test {
namespace {

using wire::Icmp4Message;
using wire::Icmp4UnreachableCode;
using wire::Icmp6Message;
using wire::IcmpEcho;

constexpr V4 icmp4{.protocol = wire::protocol_icmp4};
constexpr V6 icmp6{.next_header = wire::protocol_icmp6};

class IpIcmp : public testing::Test {
 protected:
  IpIcmp() { know(); }

  void know() {
    bed.know_neighbours();
    const V6 header{.destination = "ff02::1:ff00:1", .next_header = 58, .hop_limit = 255};
    Octets octets(wire::NeighborSolicitation::size_max);
    wire::NeighborSolicitation{v6("fd00:77::1"), peer_mac}.emit(octets);
    bed.link.inject(wire::ethertype_ipv6, packet(header, icmp_summed(octets, header)), true);
    bed.link.sent.clear();
  }
  void inject(const V4& header, ConstBytes payload, bool group = false) {
    bed.link.inject(wire::ethertype_ipv4, packet(header, payload), group);
  }
  void inject(const V6& header, ConstBytes payload, bool group = false) {
    bed.link.inject(wire::ethertype_ipv6, packet(header, payload), group);
  }
  /// An ICMP error that came back for what we sent.
  void inject_error(const Icmp4Message& message, ConstBytes quoted) {
    inject(V4{.source = "10.77.0.254", .protocol = wire::protocol_icmp4}, icmp(message, quoted));
  }
  void inject_error(const Icmp6Message& message, ConstBytes quoted) { inject(icmp6, icmp(message, quoted, icmp6)); }

  /// Has the user send a datagram, of which nothing is looked at.
  void sent(std::string_view to, ConstBytes data, const network::Sending& sending = {}) {
    bed.send(to, data, sending);
    bed.link.sent.clear();
  }
  Octets next_icmp4() {
    const Frame frame = bed.next_frame();
    const auto header = wire::Ipv4Header::parse(frame.octets).value();
    EXPECT_EQ(header.protocol, wire::protocol_icmp4);
    EXPECT_EQ(header.destination, v4("10.77.0.2"));
    EXPECT_TRUE(sum_holds(ilp::scalar::sum(part(frame.octets, 20))));
    return part(frame.octets, 20);
  }
  Octets next_icmp6() {
    const Frame frame = bed.next_frame();
    const auto header = wire::Ipv6Header::parse(frame.octets).value();
    EXPECT_EQ(header.destination, v6("fd00:77::2"));
    const auto pseudo = wire::pseudo_header_sum(header.source, header.destination, 58, header.payload_length);
    EXPECT_TRUE(sum_holds(add_sums(pseudo, ilp::scalar::sum(part(frame.octets, 40)))));
    return part(frame.octets, 40);
  }

  Bed bed;
};

/// RFC 1122 section 3.2.2.6: "Data received in an ICMP Echo Request MUST be entirely included in the resulting Echo
/// Reply."
TEST_F(IpIcmp, AnswersEcho) {
  for (const std::size_t size : {0U, 1U, 56U, 57U, 1400U}) {
    inject(icmp4, icmp(Icmp4Message(IcmpEcho{false, 0x1234, 7}), pattern(size)));
    const Octets reply = next_icmp4();
    EXPECT_EQ(wire::parse_icmp4(reply), Icmp4Message(IcmpEcho(true, 0x1234, 7)));
    EXPECT_EQ(part(reply, 8), pattern(size));
    inject(icmp6, icmp(Icmp6Message(IcmpEcho{false, 0x4321, 8}), pattern(size), icmp6));
    const Octets reply6 = next_icmp6();
    EXPECT_EQ(wire::parse_icmp6(reply6), Icmp6Message(IcmpEcho(true, 0x4321, 8)));
    EXPECT_EQ(part(reply6, 8), pattern(size));
  }
  EXPECT_EQ(bed.count("echo_answered"), 10);
}

/// `ping -s 60000`: the request comes in fragments, the reply leaves in fragments.
TEST_F(IpIcmp, AnswersFragmentedEcho) {
  const Octets request4 = icmp(Icmp4Message(IcmpEcho{false, 1, 1}), pattern(60'000));
  for (std::size_t offset = 0; offset < request4.size(); offset += 1480) {
    inject(V4{.protocol = 1, .offset = offset, .more = offset + 1480 < request4.size()}, part(request4, offset, 1480));
  }
  Octets reply;
  while (!bed.link.sent.empty()) {
    const Frame frame = bed.next_frame();
    ASSERT_EQ(wire::Ipv4Header::parse(frame.octets)->fragment_offset, reply.size());
    reply = reply + part(frame.octets, 20);
  }
  EXPECT_TRUE(sum_holds(ilp::scalar::sum(reply)));
  EXPECT_EQ(part(reply, 8), pattern(60'000));

  const Octets request6 = icmp(Icmp6Message(IcmpEcho{false, 1, 1}), pattern(60'000), icmp6);
  for (std::size_t offset = 0; offset < request6.size(); offset += 1448) {
    inject(V6{.next_header = 44},
           fragment_header(58, offset, offset + 1448 < request6.size()) + part(request6, offset, 1448));
  }
  Octets reply6;
  while (!bed.link.sent.empty()) {
    reply6 = reply6 + part(bed.next_frame().octets, 48);
  }
  const auto pseudo = wire::pseudo_header_sum(v6("fd00:77::1"), v6("fd00:77::2"), 58, 60'008);
  EXPECT_TRUE(sum_holds(add_sums(pseudo, ilp::scalar::sum(reply6))));
  EXPECT_EQ(part(reply6, 8), pattern(60'000));
}

TEST_F(IpIcmp, AnswersEchoToAllNodesFromItsOwnAddress) {
  const V6 header{.destination = "ff02::1", .next_header = 58};
  inject(header, icmp(Icmp6Message(IcmpEcho{false, 1, 1}), pattern(8), header), true);
  EXPECT_EQ(wire::Ipv6Header::parse(bed.next_frame().octets)->source, v6("fd00:77::1"));
}

/// RFC 1122 section 3.2.2.6: "If a Record Route and/or Time Stamp option is received in an ICMP Echo Request, this
/// option (these options) SHOULD be updated to include the current host and included in the IP header of the Echo Reply
/// message". "If a Source Route option is received in an ICMP Echo Request, the return route MUST be reversed and used
/// as a Source Route option for the Echo Reply message."
TEST_F(IpIcmp, EchoRepliesCarryTheOptionsOfTheRequest) {
  const auto octets = [](std::initializer_list<int> values) {
    Octets made;
    for (const int value : values) {
      made.push_back(static_cast<std::byte>(value));
    }
    return made;
  };
  struct Row {
    const char* what;
    Octets request;
    std::optional<Octets> reply;  // nothing: unanswered
    std::string_view to = "10.77.0.2";
  };
  const Row rows[] = {
      {"record route", octets({7, 11, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0}), octets({7, 11, 8, 10, 77, 0, 1, 0, 0, 0, 0, 0})},
      {"record route behind padding", octets({1, 7, 7, 4, 0, 0, 0, 0}), octets({7, 7, 8, 10, 77, 0, 1, 0})},
      {"second of a route", octets({7, 11, 8, 9, 9, 9, 9, 0, 0, 0, 0, 0}),
       octets({7, 11, 12, 9, 9, 9, 9, 10, 77, 0, 1, 0})},
      {"full route", octets({7, 7, 8, 9, 9, 9, 9, 0}), octets({7, 7, 8, 9, 9, 9, 9, 0})},
      {"route with a wrong pointer", octets({7, 7, 5, 9, 9, 9, 9, 0}), octets({7, 7, 5, 9, 9, 9, 9, 0})},
      {"route with pointer zero", octets({7, 7, 0, 9, 9, 9, 9, 0}), octets({7, 7, 0, 9, 9, 9, 9, 0})},
      {"timestamp", octets({68, 8, 5, 0, 0, 0, 0, 0}), octets({68, 8, 9, 0, 0x80, 0, 0x0b, 0xb8})},
      {"timestamp with address", octets({68, 12, 5, 1, 0, 0, 0, 0, 0, 0, 0, 0}),
       octets({68, 12, 13, 1, 10, 77, 0, 1, 0x80, 0, 0x0b, 0xb8})},
      {"prespecified, us", octets({68, 12, 5, 3, 10, 77, 0, 1, 0, 0, 0, 0}),
       octets({68, 12, 13, 3, 10, 77, 0, 1, 0x80, 0, 0x0b, 0xb8})},
      {"prespecified, another", octets({68, 12, 5, 3, 10, 77, 0, 9, 0, 0, 0, 0}),
       octets({68, 12, 5, 3, 10, 77, 0, 9, 0, 0, 0, 0})},
      {"full timestamps", octets({68, 8, 9, 0, 1, 2, 3, 4}), octets({68, 8, 9, 0x10, 1, 2, 3, 4})},
      {"overflow is full", octets({68, 8, 9, 0xf0, 1, 2, 3, 4}), octets({68, 8, 9, 0xf0, 1, 2, 3, 4})},
      {"source route that ended here", octets({131, 11, 12, 9, 9, 9, 9, 10, 77, 0, 254, 0}),
       octets({131, 11, 4, 9, 9, 9, 9, 10, 77, 0, 2, 0}), "10.77.0.254"},
      {"strict source route of one", octets({137, 7, 8, 10, 77, 0, 254, 0}), octets({137, 7, 4, 10, 77, 0, 2, 0}),
       "10.77.0.254"},
      {"unfinished source route", octets({131, 7, 4, 10, 77, 0, 9, 0}), std::nullopt},
      {"unfinished strict source route", octets({137, 11, 8, 9, 9, 9, 9, 10, 77, 0, 9, 0}), std::nullopt},
      {"source route with a wrong pointer", octets({131, 7, 255, 10, 77, 0, 9, 0}), std::nullopt},
      {"source route by a broadcast", octets({131, 7, 8, 10, 77, 0, 255, 0}), std::nullopt},
      {"source route by a group", octets({131, 7, 8, 224, 0, 0, 1, 0}), std::nullopt},
      {"source route by ourselves", octets({131, 7, 8, 10, 77, 0, 1, 0}), std::nullopt},
      {"router alert", octets({148, 4, 0, 0}), Octets{}},
      {"length beyond the header", octets({7, 40, 4, 0}), Octets{}},
      {"length of one", octets({7, 1, 4, 0}), Octets{}},
      {"length zero", octets({131, 0, 4, 0}), Octets{}},
      {"a timestamp of nothing", octets({68, 4, 5, 0}), octets({68, 4, 5, 0x10})},
      {"a route of nothing", octets({7, 3, 4, 0}), octets({7, 3, 4, 0})},
      {"nothing but kinds", octets({7, 2, 68, 2, 1, 1, 1, 1}), octets({7, 2, 68, 2})},
  };
  bed.advance(TimePoint(3000ms) - bed.now);
  for (const Row& row : rows) {
    SCOPED_TRACE(row.what);
    know();
    const Octets message = icmp(Icmp4Message(IcmpEcho{false, 1, 1}), pattern(8));
    Octets request = packet(V4{.protocol = 1}, message);
    request.insert(request.begin() + 20, row.request.begin(), row.request.end());
    request[0] = static_cast<std::byte>(0x45U + row.request.size() / 4);
    store_big_endian(request.data() + 2, static_cast<std::uint16_t>(request.size()));
    bed.link.inject(wire::ethertype_ipv4, resummed(request));
    ASSERT_EQ(bed.link.sent.size(), row.reply ? 1U : 0U);
    if (row.reply) {
      const Octets reply = bed.next_frame().octets;
      const auto view = wire::Ipv4View::check(reply);
      ASSERT_TRUE(view) << "checksum and lengths hold";
      EXPECT_EQ(view->destination(), v4(row.to));
      EXPECT_EQ(view->source(), v4("10.77.0.1"));
      EXPECT_EQ(Octets(view->options().begin(), view->options().end()), *row.reply);
      const Octets answer = part(reply, view->header_length());
      EXPECT_TRUE(sum_holds(ilp::scalar::sum(answer)));
      EXPECT_EQ(wire::parse_icmp4(answer), Icmp4Message(IcmpEcho(true, 1, 1)));
      EXPECT_EQ(part(answer, 8), pattern(8));
    }
  }
  EXPECT_EQ(bed.count("source_routed"), 3);
}

/// Threat: options come from outside. Any bytes are answered or not, and nothing is read or written out of bounds.
TEST(IpOptions, TakeAnyBytes) {
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  Prng prng(seed);
  for (int round = 0; round < 200'000; ++round) {
    std::vector<std::byte> options(4 * prng.below(11));
    options.shrink_to_fit();
    for (std::byte& octet : options) {
      static constexpr std::array<int, 12> likely{0, 1, 2, 3, 4, 5, 7, 8, 11, 68, 131, 137};
      octet = static_cast<std::byte>(prng.chance(0.7) ? likely[prng.below(likely.size())]
                                                      : static_cast<int>(prng.below(256)));
    }
    static_cast<void>(ip::has_unfinished_source_route(options));
    const ip::EchoOptions reply = ip::options_of_reply(options, v4("10.77.0.2"), v4("10.77.0.1"), 1000);
    ASSERT_LE(reply.size, options.size());
    ASSERT_EQ(reply.size % 4, 0);
  }
}

TEST_F(IpIcmp, LeavesSomeEchoUnanswered) {
  inject(V4{.destination = "10.77.0.255", .protocol = 1}, icmp(Icmp4Message(IcmpEcho{false, 1, 1}), pattern(8)), true);
  EXPECT_EQ(bed.count("icmp_ignored"), 1) << "a broadcast";
  inject(icmp4, icmp(Icmp4Message(IcmpEcho{true, 1, 1}), pattern(8)));
  EXPECT_EQ(bed.count("icmp_ignored"), 2) << "a reply to nothing we asked";
  bed.bind();
  bed.ask(dlpi::FilterReq{.local = {}, .protocol = {}, .local_port = 7}, dlpi::FilterReq::encoded_size_max,
          MessageType::ctl);
  inject(icmp4, icmp(Icmp4Message(IcmpEcho{false, 1, 1}), pattern(8)));
  inject(icmp6, icmp(Icmp6Message(IcmpEcho{false, 1, 1}), pattern(8), icmp6));
  EXPECT_EQ(bed.count("icmp_ignored"), 4) << "a stream with a filter never answers";
  EXPECT_TRUE(bed.link.sent.empty());
}

TEST(IpIcmpOff, AnswersNoEchoWhenToldSo) {
  ip::Config config = both_families();
  config.answer_echo = false;
  Bed bed(config);
  bed.link.inject(wire::ethertype_ipv4, packet(icmp4, icmp(Icmp4Message(IcmpEcho{}), pattern(8))));
  EXPECT_EQ(bed.count("icmp_ignored"), 1);
  EXPECT_TRUE(bed.link.sent.empty());
}

TEST_F(IpIcmp, DropsBadMessages) {
  Octets request = icmp(Icmp4Message(IcmpEcho{}), pattern(8));
  request[9] ^= std::byte{1};
  inject(icmp4, request);
  Octets request6 = icmp(Icmp6Message(IcmpEcho{}), pattern(8), icmp6);
  request6[9] ^= std::byte{1};
  inject(icmp6, request6);
  EXPECT_EQ(bed.count("icmp_bad_checksum"), 2);
  inject(icmp4, part(icmp(Icmp4Message(IcmpEcho{}), {}), 0, 4));
  Octets coded = icmp(Icmp4Message(IcmpEcho{}), pattern(8));
  coded[1] = std::byte{1};
  store_checksum(coded.data() + 2, 0);
  store_checksum(coded.data() + 2, checksum_of(ilp::scalar::sum(coded)));
  inject(icmp4, coded);
  EXPECT_EQ(bed.count("icmp_malformed") + bed.count("icmp_bad_checksum"), 4);
  EXPECT_TRUE(bed.link.sent.empty());
}

/// A program that pings binds to the ICMP protocol, and gets the replies.
TEST_F(IpIcmp, DeliversRepliesToAUserOfIcmp) {
  bed.bind(wire::protocol_icmp4);
  const Octets reply = icmp(Icmp4Message(IcmpEcho{true, 1, 1}), pattern(8));
  inject(icmp4, reply);
  EXPECT_EQ(unitdata_of(bed.next_up()).data, reply);
  inject(icmp4, icmp(Icmp4Message(IcmpEcho{false, 1, 1}), pattern(8)));
  EXPECT_EQ(bed.count("echo_answered"), 1);
  EXPECT_TRUE(bed.user.received.empty());
}

TEST_F(IpIcmp, ReportsUnknownProtocols) {
  const Octets unknown = packet(V4{.protocol = 99}, pattern(40));
  bed.link.inject(wire::ethertype_ipv4, unknown);
  const Octets error = next_icmp4();
  EXPECT_EQ(wire::parse_icmp4(error), Icmp4Message(wire::Icmp4Unreachable(Icmp4UnreachableCode::protocol)));
  EXPECT_EQ(part(error, 8), unknown) << "the quoted datagram is unchanged";
  const Octets unknown6 = packet(V6{.next_header = 99}, pattern(40));
  bed.link.inject(wire::ethertype_ipv6, unknown6);
  const Octets error6 = next_icmp6();
  EXPECT_EQ(wire::parse_icmp6(error6), Icmp6Message(wire::Icmp6ParameterProblem(1, 6)));
  EXPECT_EQ(part(error6, 8), unknown6);
  EXPECT_EQ(bed.count("icmp_errors_out"), 2);
}

/// RFC 1812 section 4.3.2.3: 576 bytes; RFC 4443 section 2.4 (c): the minimum MTU.
TEST_F(IpIcmp, QuotesNoMoreThanItMay) {
  const Octets large = packet(V4{.protocol = 99}, pattern(1400));
  bed.link.inject(wire::ethertype_ipv4, large);
  EXPECT_EQ(next_icmp4().size() + 20, 576);
  const Octets large6 = packet(V6{.next_header = 99}, pattern(1400));
  bed.link.inject(wire::ethertype_ipv6, large6);
  const Octets error6 = next_icmp6();
  EXPECT_EQ(error6.size() + 40, 1280);
  EXPECT_EQ(part(error6, 8), part(large6, 0, 1232));
}

/// RFC 8200 section 4.2: what the two highest bits of an option's type ask for.
TEST_F(IpIcmp, ReportsExtensionProblems) {
  struct Row {
    std::uint8_t next_header;
    Octets extension;
    bool group;
    std::optional<wire::Icmp6ParameterProblem> answer;
  };
  const auto octets = [](std::array<int, 8> values) {
    Octets made;
    for (const int value : values) {
      made.push_back(static_cast<std::byte>(value));
    }
    return made;
  };
  const Row rows[] = {
      {60, octets({udp, 0, 0x45, 4, 0, 0, 0, 0}), false, std::nullopt},
      {60, octets({udp, 0, 0x85, 4, 0, 0, 0, 0}), false, wire::Icmp6ParameterProblem{2, 42}},
      {60, octets({udp, 0, 0x85, 4, 0, 0, 0, 0}), true, wire::Icmp6ParameterProblem{2, 42}},
      {60, octets({udp, 0, 0xc5, 4, 0, 0, 0, 0}), false, wire::Icmp6ParameterProblem{2, 42}},
      {60, octets({udp, 0, 0xc5, 4, 0, 0, 0, 0}), true, std::nullopt},
      {43, octets({udp, 0, 0, 1, 0, 0, 0, 0}), false, wire::Icmp6ParameterProblem{0, 42}},
      {60, octets({0, 0, 1, 4, 0, 0, 0, 0}), false, wire::Icmp6ParameterProblem{1, 40}},
  };
  for (const Row& row : rows) {
    const V6 header{.destination = row.group ? "ff02::1" : "fd00:77::1", .next_header = row.next_header};
    SCOPED_TRACE(testing::Message() << int{row.next_header} << (row.group ? " to a group" : ""));
    inject(header, row.extension + Octets(16), row.group);
    if (row.answer) {
      EXPECT_EQ(wire::parse_icmp6(next_icmp6()), Icmp6Message(*row.answer));
    }
    EXPECT_TRUE(bed.link.sent.empty());
  }
}

/// RFC 4443 section 2.4 (e): "An ICMPv6 error message MUST NOT be originated as a result of receiving the following:
/// (e.1) An ICMPv6 error message. (e.2) An ICMPv6 redirect message". What stands in front of it changes nothing.
TEST_F(IpIcmp, NeverAnswersAnErrorBehindExtensionHeaders) {
  const auto octets = [](std::initializer_list<int> values) {
    Octets made;
    for (const int value : values) {
      made.push_back(static_cast<std::byte>(value));
    }
    return made;
  };
  const Octets unknown_option = octets({58, 0, 0x85, 4, 0, 0, 0, 0});
  const Octets routing = octets({58, 0, 0, 1, 0, 0, 0, 0});
  const Octets routing_then_option = octets({60, 0, 0, 1, 0, 0, 0, 0}) + unknown_option;
  const Octets bad_fragment = octets({58, 0, 0, 1, 0, 0, 0, 9});  // not a multiple of 8 long
  const Octets hidden = octets({60, 0, 0, 1, 0, 0, 0, 9}) + octets({58, 0, 1, 4, 0, 0, 0, 0});
  struct Row {
    const char* what;
    std::uint8_t next_header;
    Octets headers;
  };
  const Row rows[] = {{"unknown option", 60, unknown_option},
                      {"hop-by-hop option", 0, unknown_option},
                      {"routing header", 43, routing},
                      {"routing header and unknown option", 43, routing_then_option},
                      {"fragment of a bad size", 44, bad_fragment}};
  struct Kind {
    std::uint8_t type;
    bool answered;
  };
  for (const Row& row : rows) {
    for (const Kind kind : {Kind{1, false}, Kind{2, false}, Kind{4, false}, Kind{100, false}, Kind{127, false},
                            Kind{137, false}, Kind{128, true}, Kind{129, true}}) {
      SCOPED_TRACE(testing::Message() << row.what << ", type " << int{kind.type});
      Octets message(49);
      message[0] = std::byte{kind.type};
      const V6 header{.next_header = row.next_header};
      inject(header, row.headers + icmp_summed(message, icmp6));
      EXPECT_EQ(bed.link.sent.size(), kind.answered ? 1U : 0U);
      bed.link.sent.clear();
      bed.advance(20ms);
    }
  }
  inject(V6{.next_header = 44}, hidden);
  EXPECT_TRUE(bed.link.sent.empty()) << "of what may be an error nobody can tell";
  EXPECT_EQ(bed.count("fragment_tiny"), 1);
}

/// RFC 8200 section 4.5: "an ICMP Parameter Problem, Code 3, message should be sent to the source of the fragment, with
/// the Pointer field set to zero."
TEST_F(IpIcmp, ReportsAFirstFragmentWithoutItsHeaders) {
  Octets options(8);
  options[0] = std::byte{udp};
  options[2] = std::byte{1};
  options[3] = std::byte{4};
  const Octets first = packet(V6{.next_header = 44}, fragment_header(60, 0, true) + options);
  bed.link.inject(wire::ethertype_ipv6, first);
  const Octets error = next_icmp6();
  EXPECT_EQ(wire::parse_icmp6(error), Icmp6Message(wire::Icmp6ParameterProblem(3, 0)));
  EXPECT_EQ(part(error, 8), first);
  EXPECT_EQ(bed.ip->reassembly().datagrams(), 0);
  inject(V6{.destination = "ff02::1", .next_header = 44}, fragment_header(60, 0, true) + options, true);
  EXPECT_TRUE(bed.link.sent.empty()) << "it came to a group";
}

/// RFC 1122 section 3.2.2: "An ICMP error message MUST NOT be sent as the result of receiving" any of these.
TEST_F(IpIcmp, NeverAnswersWithAnError) {
  inject(V4{.destination = "10.77.0.255", .protocol = 99}, pattern(40), true);
  inject(V4{.destination = "224.0.0.1", .protocol = 99}, pattern(40), true);
  inject(V6{.destination = "ff02::1", .next_header = 99}, pattern(40), true);
  inject(V4{.protocol = 99, .offset = 64}, pattern(40));
  const Octets ours = packet(V4{.source = "10.77.0.1", .destination = "10.77.0.2"}, pattern(16));
  inject(icmp4, icmp(Icmp4Message(wire::Icmp4Unreachable{}), ours));
  inject(icmp6, icmp(Icmp6Message(wire::Icmp6Unreachable{}), pattern(48), icmp6));
  bed.advance(61s);
  EXPECT_TRUE(bed.link.sent.empty());
  // An ICMP error in fragments that never becomes whole: no "reassembly time exceeded" either.
  inject(V4{.protocol = 1, .more = true}, part(icmp(Icmp4Message(wire::Icmp4Unreachable{}), pattern(200)), 0, 64));
  inject(V6{.next_header = 44},
         fragment_header(58, 0, true) + part(icmp(Icmp6Message(wire::Icmp6Unreachable{}), pattern(200), icmp6), 0, 64));
  bed.advance(61s);
  EXPECT_EQ(bed.count("reassembly_timeout"), 3);
  EXPECT_TRUE(bed.link.sent.empty());
}

TEST_F(IpIcmp, ReportsReassemblyTimeouts) {
  inject(V4{.more = true}, pattern(64));
  inject(V4{.offset = 64, .more = true, .identification = 8}, pattern(64));
  bed.advance(61s);
  std::erase_if(bed.link.sent, [](const Frame& frame) { return frame.sap == wire::ethertype_arp; });
  EXPECT_EQ(wire::parse_icmp4(next_icmp4()), Icmp4Message(wire::Icmp4TimeExceeded(1)));
  EXPECT_TRUE(bed.link.sent.empty()) << "no error about a datagram whose first fragment never came";
  inject(V6{.next_header = 44}, fragment_header(udp, 0, true) + pattern(64));
  bed.advance(61s);
  std::erase_if(bed.link.sent, [](const Frame& frame) { return frame.sap == wire::ethertype_arp; });
  EXPECT_EQ(wire::parse_icmp6(next_icmp6()), Icmp6Message(wire::Icmp6TimeExceeded(1)));
}

TEST_F(IpIcmp, LimitsTheRateOfErrors) {
  for (int sent = 0; sent < 100; ++sent) {
    inject(V4{.protocol = 99}, pattern(40));
  }
  EXPECT_EQ(bed.count("icmp_errors_out"), ip::ErrorBudget::burst);
  EXPECT_EQ(bed.count("icmp_errors_limited"), 100 - ip::ErrorBudget::burst);
  bed.advance(10ms);
  inject(V4{.protocol = 99}, pattern(40));
  inject(V4{.protocol = 99}, pattern(40));
  EXPECT_EQ(bed.count("icmp_errors_out"), ip::ErrorBudget::burst + 1);
}

/// What udp asks for when nobody listens on a port.
TEST_F(IpIcmp, AnswersPortUnreachable) {
  bed.bind();
  for (const bool is_v6 : {false, true}) {
    const Octets datagram = is_v6 ? packet(V6{}, pattern(40)) : packet(V4{}, pattern(40));
    bed.link.inject(is_v6 ? wire::ethertype_ipv6 : wire::ethertype_ipv4, datagram);
    Message message = bed.next_up();
    const Unitdata received = unitdata_of(message);
    Message request = Message::allocate(bed.set.pool(), network::UnreachableReq::size, 0, MessageType::ctl);
    network::UnreachableReq{received.source.address, received.received.local, received.received.header_size}.encode(
        request.append(network::UnreachableReq::size));
    request.link(message.unlink());
    bed.user.write_queue().put_next(std::move(request));
    const Octets error = is_v6 ? next_icmp6() : next_icmp4();
    if (is_v6) {
      EXPECT_EQ(wire::parse_icmp6(error), Icmp6Message(wire::Icmp6Unreachable()));
    } else {
      EXPECT_EQ(wire::parse_icmp4(error), Icmp4Message(wire::Icmp4Unreachable()));
    }
    EXPECT_EQ(part(error, 8), datagram) << "header and data unchanged";
  }
}

TEST_F(IpIcmp, QuotesNothingThatIsNotThere) {
  bed.bind();
  bed.ask(network::UnreachableReq{address("10.77.0.2"), address("10.77.0.1"), 20}, network::UnreachableReq::size,
          MessageType::ctl, pattern(40), 64);
  bed.ask(network::UnreachableReq{address("10.77.0.2"), address("10.77.0.1"), 60}, network::UnreachableReq::size,
          MessageType::ctl, pattern(40), 8);
  EXPECT_EQ(bed.count("icmp_errors_unquotable"), 2);
  bed.ask(network::UnreachableReq{address("10.77.0.2"), address("fd00:77::1"), 20}, network::UnreachableReq::size,
          MessageType::ctl, pattern(40));
  EXPECT_EQ(bed.count("bad_request"), 1);
  EXPECT_TRUE(bed.link.sent.empty());
}

/// Each error becomes a T_UDERROR_IND with its errno, the datagram's destination and its first bytes.
TEST_F(IpIcmp, PassesErrorsUp) {
  bed.bind();
  sent("8.8.8.8", pattern(28));
  const Octets ours = packet(V4{.source = "10.77.0.1", .destination = "8.8.8.8"}, pattern(28));
  const std::pair<Icmp4Message, int> errors4[] = {
      {wire::Icmp4Unreachable{Icmp4UnreachableCode::network}, ENETUNREACH},
      {wire::Icmp4Unreachable{Icmp4UnreachableCode::host}, EHOSTUNREACH},
      {wire::Icmp4Unreachable{Icmp4UnreachableCode::protocol}, ENOPROTOOPT},
      {wire::Icmp4Unreachable{Icmp4UnreachableCode::port}, ECONNREFUSED},
      {wire::Icmp4Unreachable{Icmp4UnreachableCode::communication_prohibited}, EHOSTUNREACH},
      {wire::Icmp4TimeExceeded{0}, EHOSTUNREACH},
      {wire::Icmp4ParameterProblem{0, 1}, EPROTO},
  };
  for (const auto& [message, error] : errors4) {
    inject_error(message, ours);
    const Uderror up = uderror_of(bed.next_up());
    EXPECT_EQ(up.error, error);
    EXPECT_EQ(up.destination, (wire::NetworkAddress{address("8.8.8.8"), udp}));
    EXPECT_EQ(up.failure.source, address("10.77.0.1"));
    EXPECT_EQ(up.data, pattern(28));
  }
  const Octets ours6 = packet(V6{.source = "fd00:77::1", .destination = "2001:db8::1"}, pattern(28));
  sent("2001:db8::1", pattern(28));
  const std::pair<Icmp6Message, int> errors6[] = {
      {wire::Icmp6Unreachable{wire::Icmp6UnreachableCode::no_route}, ENETUNREACH},
      {wire::Icmp6Unreachable{wire::Icmp6UnreachableCode::address}, EHOSTUNREACH},
      {wire::Icmp6Unreachable{wire::Icmp6UnreachableCode::port}, ECONNREFUSED},
      {wire::Icmp6TimeExceeded{0}, EHOSTUNREACH},
      {wire::Icmp6ParameterProblem{1, 6}, ENOPROTOOPT},
      {wire::Icmp6ParameterProblem{0, 6}, EPROTO},
  };
  for (const auto& [message, error] : errors6) {
    inject_error(message, ours6);
    const Uderror up = uderror_of(bed.next_up());
    EXPECT_EQ(up.error, error);
    EXPECT_EQ(up.destination, (wire::NetworkAddress{address("2001:db8::1"), udp}));
    EXPECT_EQ(up.data, pattern(28));
  }
  EXPECT_EQ(bed.count("icmp_errors_in"), 13);
}

TEST_F(IpIcmp, DropsErrorsAboutWhatWeDidNotSend) {
  bed.bind();
  sent("8.8.8.8", pattern(28));
  sent("2001:db8::1", pattern(28));
  const wire::Icmp4Unreachable port{};
  inject_error(port, packet(V4{.source = "10.77.0.9", .destination = "8.8.8.8"}, pattern(28)));
  inject_error(port, packet(V4{.source = "10.77.0.1", .destination = "10.77.0.1"}, pattern(28)));
  inject_error(port, packet(V4{.source = "10.77.0.1", .destination = "8.8.8.8", .protocol = 99}, pattern(28)));
  inject_error(port, packet(V4{.source = "10.77.0.1", .destination = "8.8.8.8", .offset = 64}, pattern(28)));
  inject_error(port, packet(V4{.source = "10.77.0.1", .destination = "8.8.8.8"}, pattern(7)));
  inject_error(port, pattern(10));
  inject_error(wire::Icmp6Unreachable{}, packet(V6{.source = "fd00:77::9", .destination = "2001:db8::1"}, pattern(28)));
  inject_error(wire::Icmp6Unreachable{}, packet(V6{.source = "fd00:77::1", .destination = "2001:db8::1"}, pattern(7)));
  inject_error(wire::Icmp6Unreachable{}, pattern(10));
  EXPECT_EQ(bed.count("icmp_unmatched"), 9);
  EXPECT_TRUE(bed.user.received.empty());
}

TEST_F(IpIcmp, LearnsThePathMtu) {
  bed.bind();
  sent("8.8.8.8", pattern(1480), {.dont_fragment = true});
  Octets ours = packet(V4{.source = "10.77.0.1", .destination = "8.8.8.8"}, pattern(1480));
  inject_error(wire::Icmp4Unreachable{Icmp4UnreachableCode::fragmentation_needed, 1400}, part(ours, 0, 28));
  const auto changed = network::RouteAck::decode(bed.next_up().bytes());
  EXPECT_EQ(changed, (network::RouteAck{address("8.8.8.8"), address("10.77.0.1"), 1400, 0}));
  const Uderror up = uderror_of(bed.next_up());
  EXPECT_EQ(up.error, EMSGSIZE);
  EXPECT_EQ(up.failure.mtu, 1400);
  bed.send("8.8.8.8", pattern(1400), {.dont_fragment = true});
  EXPECT_EQ(uderror_of(bed.next_up()).failure.mtu, 1400);
  bed.send("8.8.8.8", pattern(1400));
  EXPECT_EQ(bed.next_frame().octets.size(), 20 + 1376U) << "in fragments of the path's size";
  bed.link.sent.clear();
  bed.send("10.77.0.2", pattern(1480), {.dont_fragment = true});
  EXPECT_EQ(bed.next_frame().octets.size(), 1500) << "another path";
  bed.advance(ip::PathMtu::lifetime);
  bed.ask(network::RouteReq{address("8.8.8.8")}, network::RouteReq::size, MessageType::ctl);
  while (bed.user.received.size() > 1) {
    bed.user.received.pop_front();
  }
  EXPECT_EQ(network::RouteAck::decode(bed.next_up().bytes())->mtu, 1500) << "tried anew";
}

TEST_F(IpIcmp, LearnsThePathMtuOfIpv6FromAFragment) {
  bed.bind();
  sent("2001:db8::1", pattern(4000));
  sent("2001:db8::1", pattern(4), {.dont_fragment = true});
  const Octets ours = packet(V6{.source = "fd00:77::1", .destination = "2001:db8::1", .next_header = 44},
                             fragment_header(udp, 0, true) + pattern(1448));
  inject_error(wire::Icmp6PacketTooBig{1300}, part(ours, 0, 1232));
  EXPECT_EQ(network::RouteAck::decode(bed.next_up().bytes())->mtu, 1300);
  const Uderror up = uderror_of(bed.next_up());
  EXPECT_EQ(up.error, EMSGSIZE);
  EXPECT_EQ(up.destination.protocol, udp);
  EXPECT_EQ(up.data, part(pattern(1448), 0, 1184)) << "from the transport header on";
}

TEST_F(IpIcmp, BelievesNoImplausiblePathMtu) {
  bed.bind();
  sent("8.8.8.8", pattern(1480), {.dont_fragment = true});
  const auto too_big = [](std::uint16_t mtu) {
    return wire::Icmp4Unreachable{Icmp4UnreachableCode::fragmentation_needed, mtu};
  };
  inject_error(too_big(600), packet(V4{.source = "10.77.0.9", .destination = "8.8.8.8"}, pattern(1480)));
  inject_error(too_big(600),
               packet(V4{.source = "10.77.0.1", .destination = "8.8.8.8", .protocol = 99}, pattern(1400)));
  inject_error(too_big(600), packet(V4{.source = "10.77.0.1", .destination = "8.8.8.8"}, pattern(100)));
  inject_error(too_big(1600), packet(V4{.source = "10.77.0.1", .destination = "8.8.8.8"}, pattern(1400)));
  inject_error(too_big(67), packet(V4{.source = "10.77.0.1", .destination = "8.8.8.8"}, pattern(1400)));
  inject_error(too_big(600), packet(V4{.source = "10.77.0.1", .destination = "8.8.8.8"}, pattern(2000)));
  EXPECT_EQ(bed.count("path_mtu_lowered"), 0);
  EXPECT_EQ(bed.count("icmp_unmatched"), 2);
  EXPECT_EQ(bed.count("icmp_implausible"), 4);
  EXPECT_TRUE(bed.user.received.empty());
}

/// RFC 8201 section 4: "Nodes should appropriately validate the payload of ICMPv6 PTB messages to ensure these are
/// received in response to transmitted traffic (i.e., a reported error condition that corresponds to an IPv6 packet
/// actually sent by the application)". RFC 8085 section 5.2 and RFC 5927 want that of any error: whoever forges one has
/// to know both addresses and both ports.
TEST_F(IpIcmp, BelievesErrorsAboutFlowsOfOursOnly) {
  bed.bind();
  const auto transport = [](std::uint16_t from, std::uint16_t to) {
    Octets datagram(100);
    wire::UdpHeader{.source_port = from, .destination_port = to, .payload_length = 92}.emit(datagram);
    return datagram;
  };
  const network::Sending whole{.dont_fragment = true};
  sent("8.8.8.8", transport(7000, 53), whole);
  sent("8.8.8.8", transport(7000, 54), whole);
  sent("2001:db8::1", transport(7000, 53), whole);
  struct Row {
    const char* what;
    const char* source4;
    const char* destination4;
    const char* source6;
    const char* destination6;
    std::uint16_t from;
    std::uint16_t to;
    bool ours;
  };
  const Row rows[] = {
      {"port we did not send to", "10.77.0.1", "8.8.8.8", "fd00:77::1", "2001:db8::1", 7000, 55, false},
      {"port we did not send from", "10.77.0.1", "8.8.8.8", "fd00:77::1", "2001:db8::1", 7001, 53, false},
      {"ports exchanged", "10.77.0.1", "8.8.8.8", "fd00:77::1", "2001:db8::1", 53, 7000, false},
      {"host we did not send to", "10.77.0.1", "8.8.8.9", "fd00:77::1", "2001:db8::2", 7000, 53, false},
      {"neighbour we did not send to", "10.77.0.1", "10.77.0.2", "fd00:77::1", "fd00:77::2", 7000, 53, false},
      {"address that is not ours", "10.77.0.3", "8.8.8.8", "fd00:77::3", "2001:db8::1", 7000, 53, false},
      {"addresses exchanged", "8.8.8.8", "10.77.0.1", "2001:db8::1", "fd00:77::1", 7000, 53, false},
      {"our flow", "10.77.0.1", "8.8.8.8", "fd00:77::1", "2001:db8::1", 7000, 53, true},
  };
  std::uint64_t dropped = 0;
  for (const Row& row : rows) {
    SCOPED_TRACE(row.what);
    Octets ours4 = packet(V4{.source = row.source4, .destination = row.destination4}, transport(row.from, row.to));
    store_big_endian(ours4.data() + 2, std::uint16_t{1500});
    Octets ours6 = packet(V6{.source = row.source6, .destination = row.destination6}, transport(row.from, row.to));
    store_big_endian(ours6.data() + 4, std::uint16_t{1460});
    for (const Icmp4Message& error :
         {Icmp4Message(wire::Icmp4Unreachable{}),
          Icmp4Message(wire::Icmp4Unreachable{Icmp4UnreachableCode::fragmentation_needed, 576}),
          Icmp4Message(wire::Icmp4TimeExceeded{})}) {
      inject_error(error, ours4);
    }
    for (const Icmp6Message& error :
         {Icmp6Message(wire::Icmp6Unreachable{}), Icmp6Message(wire::Icmp6PacketTooBig{1280}),
          Icmp6Message(wire::Icmp6ParameterProblem{1, 6})}) {
      inject_error(error, ours6);
    }
    dropped += row.ours ? 0 : 6;
    EXPECT_EQ(bed.count("icmp_unmatched"), dropped);
    EXPECT_EQ(bed.count("icmp_errors_in"), row.ours ? 6 : 0);
    EXPECT_EQ(bed.count("path_mtu_lowered"), row.ours ? 2 : 0);
    EXPECT_EQ(bed.user.received.size(), row.ours ? 8U : 0U) << "errors, and what the paths take";
  }
}

/// Threat: who forges an echo request from some host knows what we answer to it, and could quote it.
TEST_F(IpIcmp, AnswersOfOursAreNoFlows) {
  bed.bind();
  inject(icmp4, icmp(Icmp4Message(IcmpEcho{false, 1, 1}), pattern(1000)));
  inject(icmp6, icmp(Icmp6Message(IcmpEcho{false, 1, 1}), pattern(1352), icmp6));
  const Octets reply4 = bed.next_frame().octets;
  const Octets reply6 = bed.next_frame().octets;
  inject_error(wire::Icmp4Unreachable{Icmp4UnreachableCode::fragmentation_needed, 600}, reply4);
  inject_error(wire::Icmp6PacketTooBig{1280}, part(reply6, 0, 1232));
  EXPECT_EQ(bed.count("icmp_unmatched"), 2);
  EXPECT_EQ(bed.count("path_mtu_lowered"), 0);
}

/// A flow ends with its binding.
TEST_F(IpIcmp, ForgetsFlowsOfAnUnboundUser) {
  bed.bind();
  sent("8.8.8.8", pattern(28));
  bed.ask(tpi::UnbindReq{}, tpi::UnbindReq::fixed_size);
  bed.user.received.clear();
  bed.bind();
  inject_error(wire::Icmp4Unreachable{}, packet(V4{.source = "10.77.0.1", .destination = "8.8.8.8"}, pattern(28)));
  EXPECT_EQ(bed.count("icmp_unmatched"), 1);
  EXPECT_TRUE(bed.user.received.empty());
}

/// RFC 1191 section 3: "the source host SHOULD reduce its estimate of the Path MTU for the path". Who lets his
/// datagrams be fragmented has nothing to do about it.
TEST_F(IpIcmp, ASenderThatMayFragmentGoesOnInFragments) {
  bed.bind();
  sent("8.8.8.8", pattern(1480));
  sent("2001:db8::1", pattern(1460));
  inject_error(wire::Icmp4Unreachable{Icmp4UnreachableCode::fragmentation_needed, 1400},
               part(packet(V4{.source = "10.77.0.1", .destination = "8.8.8.8"}, pattern(1480)), 0, 28));
  inject_error(wire::Icmp6PacketTooBig{1300},
               part(packet(V6{.source = "fd00:77::1", .destination = "2001:db8::1"}, pattern(1460)), 0, 1232));
  EXPECT_EQ(network::RouteAck::decode(bed.next_up().bytes())->mtu, 1400);
  EXPECT_EQ(network::RouteAck::decode(bed.next_up().bytes())->mtu, 1300);
  EXPECT_TRUE(bed.user.received.empty()) << "no T_UDERROR_IND";
  EXPECT_EQ(bed.count("icmp_mtu_heeded"), 2);
  bed.send("8.8.8.8", pattern(1480));
  EXPECT_EQ(bed.link.sent.size(), 2);
  EXPECT_EQ(bed.count("fragmented"), 1);
}

TEST(IpFlows, AreBoundedAndForgotten) {
  ip::SentFlows flows;
  const auto flow = [](std::uint32_t number) {
    return ip::Flow{.source = address("10.77.0.1"),
                    .destination = Ipv4Address::from_value(0x08080000 + number),
                    .protocol = udp,
                    .ports = number * 7919};
  };
  constexpr std::uint32_t many = 10'000;
  for (std::uint32_t number = 0; number < many; ++number) {
    flows.note(flow(number));
    ASSERT_NE(flows.find(flow(number)), nullptr) << "the one that was noted last";
  }
  std::size_t known = 0;
  for (std::uint32_t number = 0; number < many; ++number) {
    known += flows.find(flow(number)) != nullptr ? 1 : 0;
  }
  EXPECT_LE(known, ip::SentFlows::flows_max);
  EXPECT_GT(known, ip::SentFlows::flows_max / 2) << "the room is used";
  flows.clear();
  EXPECT_EQ(flows.find(flow(many - 1)), nullptr);
}

TEST(IpFlows, HavePortsWhereTheProtocolHas) {
  EXPECT_EQ(ip::ports_of(udp, 0x1234'5678), 0x1234'5678U);
  EXPECT_EQ(ip::ports_of(wire::protocol_tcp, 0x1234'5678), 0x1234'5678U);
  EXPECT_EQ(ip::ports_of(wire::protocol_icmp4, 0x1234'5678), 0U) << "an echo's checksum differs each time";
}

/// A stream that the driver told that another one answers learns from what arrives, and says nothing.
class IpBesideAnother : public testing::Test {
 protected:
  void tell(std::string_view of, bool answers, bool shared) {
    Message message =
        primitive_message(bed.set.pool(), dlpi::AnswerInd{address(of), answers, shared}, MessageType::ctl);
    bed.link.read_queue().put_next(std::move(message));
  }
  void ask_all() {
    bed.link.sent.clear();
    bed.arp(wire::ArpOperation::request, "10.77.0.2", "10.77.0.1");
    Octets question(wire::NeighborSolicitation::size_max);
    question.resize(wire::NeighborSolicitation{v6("fd00:77::1"), peer_mac}.emit(question));
    const V6 ndp{.next_header = 58, .hop_limit = 255};
    bed.link.inject(wire::ethertype_ipv6, packet(ndp, icmp_summed(question, ndp)));
    const V6 six{.next_header = 58};
    bed.link.inject(wire::ethertype_ipv6, packet(six, icmp(wire::Icmp6Message(wire::IcmpEcho{false, 1, 1}), {}, six)));
    bed.link.inject(wire::ethertype_ipv4, packet(V4{.protocol = 1}, icmp(wire::Icmp4Message(wire::IcmpEcho{}), {})));
    bed.link.inject(wire::ethertype_ipv4, packet(V4{.protocol = 99}, pattern(8)));
  }
  Bed bed;
};

TEST_F(IpBesideAnother, TheOtherOneAnnouncesTheAddress) {
  const auto announcements = [&] {
    bed.link.sent.clear();
    bed.link.tell(dlpi::NotifyInd{.notification = dlpi::DL_NOTE_LINK_UP, .address = {}}, MessageType::proto);
    bed.advance(std::chrono::seconds(0));
    return std::ranges::count_if(bed.link.sent, [](const Frame& frame) {
      const auto arp = wire::ArpPacket::parse(frame.octets);
      return frame.sap == wire::ethertype_arp && arp && arp->sender_address == arp->target_address;
    });
  };
  EXPECT_EQ(announcements(), 1);
  tell("10.77.0.1", false, true);
  EXPECT_EQ(announcements(), 0);
}

TEST_F(IpBesideAnother, TheDriverIsToldOfEachAddressAndGroup) {
  EXPECT_THAT(bed.link.ours, testing::UnorderedElementsAre(address("10.77.0.1"), address("fd00:77::1"),
                                                           address("fe80::ff:fe00:1"), address("ff02::1:ff00:1")));
  const IpAddress group = address("239.1.2.3");
  ASSERT_TRUE(bed.ip->join(group));
  EXPECT_THAT(bed.link.ours, testing::Contains(group));
  bed.ip->leave(group);
  EXPECT_THAT(bed.link.ours, testing::Not(testing::Contains(group)));
}

TEST_F(IpBesideAnother, OneThatDoesNotAnswerLearns) {
  ask_all();
  EXPECT_EQ(bed.link.sent.size(), 5U) << "nobody told it not to";
  tell("10.77.0.1", false, false);
  tell("fd00:77::1", false, false);
  ask_all();
  EXPECT_TRUE(bed.link.sent.empty());
  EXPECT_EQ(bed.ip->neighbours().size(), 2U);
  bed.bind();
  bed.send("10.77.0.2", pattern(8));
  EXPECT_EQ(bed.next_frame().to, peer_mac) << "it need not ask";
  tell("10.77.0.1", true, false);
  ask_all();
  EXPECT_EQ(bed.link.sent.size(), 3U);
  tell("fd00:77::1", true, false);
  ask_all();
  EXPECT_EQ(bed.link.sent.size(), 5U);
}

/// A fragment goes to every stream, since it does not tell its port: what no stream here wants may be another's.
TEST_F(IpBesideAnother, NobodyIsToldThatAnotherStreamsPortIsClosed) {
  tell("10.77.0.1", true, true);
  tell("fd00:77::1", true, true);
  bed.know_neighbours();
  bed.link.inject(wire::ethertype_ipv4, packet(V4{.protocol = 99}, pattern(8)));
  EXPECT_EQ(bed.count("icmp_errors_out"), 1U) << "no filter of another stream claimed it";
  bed.link.inject(wire::ethertype_ipv4, packet(V4{.protocol = 99, .more = true}, pattern(16)));
  bed.link.inject(wire::ethertype_ipv4, packet(V4{.protocol = 99, .offset = 16}, pattern(16)));
  const V6 six{.next_header = 44};
  bed.link.inject(wire::ethertype_ipv6, packet(six, fragment_header(99, 0, true) + pattern(16)));
  bed.link.inject(wire::ethertype_ipv6, packet(six, fragment_header(99, 16, false) + pattern(16)));
  EXPECT_EQ(bed.count("unknown_protocol"), 3U);
  EXPECT_EQ(bed.count("icmp_errors_out"), 1U);
  EXPECT_EQ(bed.count("icmp_errors_unsure"), 2U);
}

}  // namespace
}  // namespace sluice::ip_test
