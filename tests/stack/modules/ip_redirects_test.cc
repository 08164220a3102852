// SPDX-License-Identifier: Apache-2.0
// ICMP redirects: of whom they are heeded, and for how long.
#include "stack/modules/ip_redirects.h"

#include <gmock/gmock.h>

#include "stack/wire/arp.h"
#include "stack/wire/ndp.h"
#include "tests/stack/modules/ip_bed.h"

namespace sluice::ip_test {
namespace {

using ip::Redirects;

ip::Config heeding(bool redirects = true) {
  ip::Config config = config_of({"10.77.0.1/24", "fd00:77::1/64"}, {"10.77.0.254", "fe80::fe"});
  config.redirects = redirects;
  return config;
}

struct Redirect4 {
  std::string_view gateway = "10.77.0.253";
  std::string_view from = "10.77.0.254";
  std::string_view about = "8.8.8.8";
  std::uint8_t code = 1;
  std::uint8_t first = 0;  // byte of the datagram that is quoted: 0, as it was sent
  std::size_t quoted_size = 28;
};

struct Redirect6 {
  std::string_view target = "fe80::fd";
  std::string_view destination = "2001:db8::1";
  std::string_view from = "fe80::fe";
  std::uint8_t hop_limit = 255;
  std::uint8_t code = 0;
  std::size_t size = 40;
  std::uint8_t option_length = 1;  // of an option, where size has room for one
};

class IpRedirects : public testing::Test {
 protected:
  explicit IpRedirects(bool redirects = true) : bed(heeding(redirects)) {
    bed.bind();
    send("8.8.8.8");
    send("2001:db8::1");
    bed.link.sent.clear();
  }

  void send(std::string_view to) { bed.send(to, pattern(100)); }
  /// Whom the next datagram to `to` asks for, or leaves to: nobody is known here, so each next hop is asked for.
  std::string next_hop(std::string_view to) {
    bed.link.sent.clear();
    send(to);
    if (bed.link.sent.empty()) {
      return "asked before";
    }
    const Frame frame = bed.next_frame();
    if (frame.sap == wire::ethertype_arp) {
      return wire::ArpPacket::parse(frame.octets)->target_address.to_text();
    }
    const auto asked = wire::NeighborSolicitation::parse(ConstBytes(frame.octets).subspan(40));
    return asked ? asked->target.to_text() : "?";
  }
  void tell(const Redirect4& redirect) {
    Octets data = pattern(8);
    data[0] = std::byte{redirect.first};
    const Octets quoted = packet(V4{.source = "10.77.0.1", .destination = redirect.about}, data);
    Octets octets(8);
    octets[0] = std::byte{5};
    octets[1] = std::byte{redirect.code};
    v4(redirect.gateway).store(octets.data() + 4);
    octets = octets + part(quoted, 0, redirect.quoted_size);
    store_checksum(octets.data() + 2, checksum_of(ilp::scalar::sum(octets)));
    bed.link.inject(wire::ethertype_ipv4, packet(V4{.source = redirect.from, .protocol = 1}, octets));
  }
  void tell(const Redirect6& redirect) {
    Octets octets(redirect.size);
    octets[0] = std::byte{137};
    octets[1] = std::byte{redirect.code};
    if (redirect.size >= 40) {
      v6(redirect.target).store(octets.data() + 8);
      v6(redirect.destination).store(octets.data() + 24);
    }
    if (redirect.size > 41) {
      octets[40] = std::byte{2};
      octets[41] = std::byte{redirect.option_length};
    }
    const V6 header{.source = redirect.from, .next_header = 58, .hop_limit = redirect.hop_limit};
    bed.link.inject(wire::ethertype_ipv6, packet(header, icmp_summed(octets, header)));
  }

  /// Each of the rows, a name and a redirect.
  void expect_refused(const auto& rows) {
    for (const auto& [what, redirect] : rows) {
      SCOPED_TRACE(what);
      const std::uint64_t before = bed.count("redirects_refused");
      tell(redirect);
      EXPECT_EQ(bed.count("redirects_refused"), before + 1);
      EXPECT_EQ(bed.count("redirects_heeded"), 0U);
    }
  }

  Bed bed;
};

class IpRedirectsOff : public IpRedirects {
 protected:
  IpRedirectsOff() : IpRedirects(false) {}
};

TEST_F(IpRedirectsOff, NoneIsHeededUnlessTheStackFileSaysSo) {
  tell(Redirect4{});
  tell(Redirect6{});
  EXPECT_EQ(bed.count("icmp_ignored"), 2U);
  EXPECT_EQ(bed.count("redirects_heeded"), 0U);
  EXPECT_EQ(next_hop("8.8.8.8"), "asked before");
  EXPECT_EQ(next_hop("2001:db8::1"), "asked before");
}

/// RFC 1122 section 3.2.2.2: "A host receiving a Redirect message MUST update its routing information accordingly.
/// Every host MUST be prepared to accept both Host and Network Redirects". Section 3.3.1.2: "the cache entry for the
/// destination host (only) would be updated".
TEST_F(IpRedirects, ChangeTheNextHopOfOneDestinationForAWhile) {
  for (std::uint8_t code = 0; code < 4; ++code) {
    Redirect4 redirect{.code = code};
    const std::string gateway = "10.77.0." + std::to_string(10 + code);
    redirect.gateway = gateway;
    const std::string from = code == 0 ? "10.77.0.254" : "10.77.0." + std::to_string(9 + code);
    redirect.from = from;  // the router in use is the one that was named last
    tell(redirect);
    EXPECT_EQ(bed.count("redirects_heeded"), code + 1U);
    EXPECT_EQ(next_hop("8.8.8.8"), gateway);
  }
  EXPECT_EQ(next_hop("8.8.4.4"), "asked before") << "the gateway: no other destination is changed";
}

/// RFC 4861 section 8.3: "A host receiving a valid redirect SHOULD update its Destination Cache accordingly so that
/// subsequent traffic goes to the specified target."
TEST_F(IpRedirects, NameARouterOrTheDestinationItself) {
  tell(Redirect6{});
  EXPECT_EQ(next_hop("2001:db8::1"), "fe80::fd");
  tell(Redirect6{.target = "2001:db8::1", .from = "fe80::fd"});
  EXPECT_EQ(next_hop("2001:db8::1"), "2001:db8::1");
  EXPECT_EQ(bed.count("redirects_heeded"), 2U);
  tell(Redirect6{.from = "fe80::fd"});
  EXPECT_EQ(bed.count("redirects_refused"), 1U) << "no router is used any more";
}

/// RFC 1122 section 3.3.1.4 has hosts notice a dead gateway: one that does not answer is not asked for ever.
TEST_F(IpRedirects, AreForgottenInTimeAndWhenTheNextHopDoesNotAnswer) {
  tell(Redirect4{});
  EXPECT_EQ(next_hop("8.8.8.8"), "10.77.0.253");
  for (int second = 0; second < 4; ++second) {
    bed.advance(1s);
  }
  EXPECT_EQ(next_hop("8.8.8.8"), "10.77.0.254");
  tell(Redirect6{});
  bed.advance(Redirects::lifetime);
  EXPECT_EQ(next_hop("2001:db8::1"), "fe80::fe");
}

/// RFC 1122 section 3.2.2.2: "A Redirect message SHOULD be silently discarded if the new gateway address it specifies
/// is not on the same connected (sub-) net through which the Redirect arrived [...], or if the source of the Redirect
/// is not the current first-hop gateway for the specified destination". The attacks: somebody elsewhere guesses, or a
/// host of the link that is no router of ours tries.
TEST_F(IpRedirects, OfOthersAreRefusedOverIpv4) {
  const std::pair<const char*, Redirect4> rows[] = {
      {"of another router", {.from = "10.77.0.253"}},
      {"from elsewhere", {.from = "9.9.9.9"}},
      {"to a network we are not on", {.gateway = "10.78.0.1"}},
      {"to ourselves", {.gateway = "10.77.0.1"}},
      {"to nobody", {.gateway = "0.0.0.0"}},
      {"to a broadcast", {.gateway = "10.77.0.255"}},
      {"to a group", {.gateway = "224.0.0.9"}},
      {"to itself", {.gateway = "10.77.0.254"}},
      {"about what was not sent", {.about = "8.8.4.4"}},
      {"about another flow", {.first = 1}},
      {"about a neighbour", {.about = "10.77.0.2"}},
      {"of an unknown code", {.code = 4}},
      {"without a quotation", {.quoted_size = 0}},
      {"with half a header", {.quoted_size = 12}},
      {"without ports", {.quoted_size = 20}},
  };
  expect_refused(rows);
}

/// RFC 4861 section 8.1: "A host MUST silently discard any received Redirect message that does not satisfy all of the
/// following validity checks".
TEST_F(IpRedirects, OfOthersAreRefusedOverIpv6) {
  const std::pair<const char*, Redirect6> rows[] = {
      {"of another router", {.from = "fe80::fd"}},
      {"not from a link-local address", {.from = "fd00:77::2"}},
      {"through a router", {.hop_limit = 254}},
      {"of a code", {.code = 1}},
      {"short", {.size = 39}},
      {"shorter", {.size = 8}},
      {"with an option of no length", {.size = 48, .option_length = 0}},
      {"with an option beyond the end", {.size = 48, .option_length = 2}},
      {"with half an option", {.size = 41}},
      {"about a group", {.destination = "ff05::1"}},
      {"to a global address that is not the destination", {.target = "2001:db8::2"}},
      {"to ourselves", {.target = "fe80::ff:fe00:1"}},
      {"to itself", {.target = "fe80::fe"}},
      {"to a group", {.target = "ff02::1"}},
      {"about a neighbour", {.destination = "fd00:77::2"}},
  };
  expect_refused(rows);
}

TEST(IpRedirectTable, IsBounded) {
  Redirects table;
  TimePoint now{};
  for (std::uint32_t host = 0; host < 1000; ++host) {
    now += 1ms;
    table.note(Ipv4Address::from_value(0x0808'0000 + host), address("10.77.0.253"), now);
    EXPECT_LE(table.size(), Redirects::entries_max);
  }
  EXPECT_TRUE(table.lookup(Ipv4Address::from_value(0x0808'0000 + 999), now)) << "the oldest made room";
  EXPECT_FALSE(table.lookup(Ipv4Address::from_value(0x0808'0000 + 999), now + Redirects::lifetime));
  table.forget(address("10.77.0.253"));
  EXPECT_EQ(table.size(), 0U);
}

}  // namespace
}  // namespace sluice::ip_test
