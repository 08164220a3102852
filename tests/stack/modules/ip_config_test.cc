// SPDX-License-Identifier: Apache-2.0
// The ip module's parameters, routes and path MTU table.
#include "stack/modules/ip_config.h"

#include <gmock/gmock.h>

#include "tests/stack/modules/ip_bed.h"

namespace sluice::ip_test {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

Result<ip::Config> config(std::vector<std::string> addresses, std::vector<std::string> gateways = {}, int mtu = 1500) {
  Parameters parameters;
  parameters.set("address", std::move(addresses));
  parameters.set("gateway", std::move(gateways));
  parameters.set("mtu", std::int64_t{mtu});
  return ip::Config::from(parameters);
}

TEST(IpConfig, TakesBothFamilies) {
  const auto made = config({"10.77.0.1/24", "fd00:77::1/64"}, {"10.77.0.254", "fe80::1"});
  ASSERT_TRUE(made) << made.error().text;
  EXPECT_EQ(made->addresses.size(), 2);
  EXPECT_EQ(made->gateway_v4, v4("10.77.0.254"));
  EXPECT_EQ(made->gateway_v6, v6("fe80::1"));
  EXPECT_EQ(made->ttl, 64);
  EXPECT_TRUE(made->answer_echo);
}

TEST(IpConfig, SaysWhatIsWrong) {
  struct Row {
    std::vector<std::string> addresses;
    std::vector<std::string> gateways;
    std::string_view says;
  };
  const Row rows[] = {
      {{}, {}, "address: expected at least one"},
      {{"10.77.0.1"}, {}, "address: "},
      {{"10.77.0.1/33"}, {}, "address: "},
      {{"0.0.0.0/24"}, {}, "address: '0.0.0.0/24' is not a unicast address"},
      {{"224.0.0.1/24"}, {}, "address: '224.0.0.1/24' is not a unicast address"},
      {{"127.0.0.1/8"}, {}, "address: '127.0.0.1/8' is not a unicast address"},
      {{"ff02::1/64"}, {}, "address: 'ff02::1/64' is not a unicast address"},
      {{"10.77.0.255/24"}, {}, "address: '10.77.0.255/24' is the broadcast address"},
      {{"10.77.0.0/24"}, {}, "address: '10.77.0.0/24' names a network"},
      {{"10.77.0.1/24", "10.77.0.1/16"}, {}, "address: '10.77.0.1/16' is given twice"},
      {{"10.77.0.1/24"}, {"10.78.0.1"}, "gateway: '10.78.0.1' is not another host on a network"},
      {{"10.77.0.1/24"}, {"10.77.0.1"}, "gateway: '10.77.0.1' is not another host"},
      {{"10.77.0.1/24"}, {"10.77.0.255"}, "gateway: '10.77.0.255' is not another host"},
      {{"10.77.0.1/24"}, {"fe80::1"}, "gateway: 'fe80::1' is not another host"},
      {{"10.77.0.1/24"}, {"10.77.0.2", "10.77.0.3"}, "gateway: '10.77.0.3' is a second gateway"},
      {{"10.77.0.1/24"}, {"router"}, "gateway: "},
  };
  for (const Row& row : rows) {
    const auto made = config(row.addresses, row.gateways);
    ASSERT_FALSE(made) << row.says;
    EXPECT_EQ(made.error().code, EINVAL);
    EXPECT_THAT(made.error().text, StartsWith(row.says));
  }
  EXPECT_THAT(config({"fd00::1/64"}, {}, 1000).error().text, HasSubstr("1280"));
  EXPECT_THAT(config(std::vector<std::string>(17, "x"), {}).error().text, StartsWith("address: "));
}

TEST(IpConfig, HostsOfPointToPointLinksMayHaveEitherAddress) {
  EXPECT_TRUE(config({"10.77.0.0/31"}));
  EXPECT_TRUE(config({"10.77.0.1/31"}));
}

/// Every parameter that is read has a specification, and the registry makes a module with it.
TEST(IpConfig, TheEntryMakesAModule) {
  const Entry entry = ip_entry();
  Parameters parameters;
  StreamSet set;
  EXPECT_FALSE(entry.make(set, parameters));
  parameters.set("address", std::vector<std::string>{"10.77.0.1/24"});
  const auto module = entry.make(set, parameters);
  ASSERT_TRUE(module) << module.error().text;
  EXPECT_EQ((*module)->name(), "ip");
  EXPECT_EQ((*module)->headroom(), 40);
}

class IpRoutes : public testing::Test {
 protected:
  IpRoutes() { routes.set_link_local(v6("fe80::ff:fe00:1")); }
  ip::Routes routes{
      config_of({"10.77.0.1/24", "192.168.5.1/30", "fd00:77::1/64", "2001:db8::1/48"}, {"10.77.0.254", "fe80::1"})};
};

TEST_F(IpRoutes, NextHopAndSource) {
  struct Row {
    std::string_view destination;
    std::string_view next_hop;  // empty: none
    std::string_view source;
  };
  const Row rows[] = {
      {"10.77.0.2", "10.77.0.2", "10.77.0.1"},
      {"192.168.5.2", "192.168.5.2", "192.168.5.1"},
      {"8.8.8.8", "10.77.0.254", "10.77.0.1"},
      {"224.0.0.5", "224.0.0.5", "10.77.0.1"},
      {"fd00:77::9", "fd00:77::9", "fd00:77::1"},
      {"2001:db8:0:5::9", "2001:db8:0:5::9", "2001:db8::1"},
      {"2001:db9::1", "fe80::1", "2001:db8::1"},  // RFC 6724 section 5, rule 8: "Use longest matching prefix."
      {"fd99::1", "fe80::1", "fd00:77::1"},
      {"fe80::9", "fe80::9", "fe80::ff:fe00:1"},
      {"ff02::9", "ff02::9", "fe80::ff:fe00:1"},
      {"10.77.0.1", "", "10.77.0.1"},
      {"127.0.0.1", "", "10.77.0.1"},
      {"::1", "", "2001:db8::1"},
      {"0.0.0.0", "", "10.77.0.1"},
  };
  for (const Row& row : rows) {
    const auto hop = routes.next_hop(address(row.destination));
    EXPECT_EQ(hop, row.next_hop.empty() ? std::nullopt : std::optional(address(row.next_hop))) << row.destination;
    EXPECT_EQ(routes.source_for(address(row.destination)), address(row.source)) << row.destination;
  }
}

TEST_F(IpRoutes, WithoutGatewayOrFamily) {
  const ip::Routes lone(config_of({"10.77.0.1/24"}));
  EXPECT_EQ(lone.next_hop(address("8.8.8.8")), std::nullopt);
  EXPECT_EQ(lone.next_hop(address("fd00::1")), std::nullopt);
  EXPECT_EQ(lone.source_for(address("fd00::1")), std::nullopt);
}

TEST_F(IpRoutes, Membership) {
  for (const std::string_view ours : {"224.0.0.1", "ff02::1", "ff02::1:ff00:1"}) {
    EXPECT_TRUE(routes.is_member(address(ours))) << ours;
  }
  for (const std::string_view other : {"224.0.0.2", "ff02::2", "ff02::1:ff00:2", "10.77.0.1"}) {
    EXPECT_FALSE(routes.is_member(address(other))) << other;
  }
  EXPECT_TRUE(routes.is_broadcast(address("10.77.0.255")));
  EXPECT_TRUE(routes.is_broadcast(address("255.255.255.255")));
  EXPECT_FALSE(routes.is_broadcast(address("10.78.0.255")));
}

class IpPathMtu : public testing::Test {
 protected:
  std::uint32_t known(std::string_view host) { return table.lookup(address(host), 1500, now).mtu; }
  using Report = ip::PathMtu::Report;
  Report report(std::string_view host, std::uint32_t mtu, std::uint32_t packet = 1500) {
    return table.report(address(host), mtu, packet, 1500, now);
  }
  ip::PathMtu table;
  TimePoint now{};
};

TEST_F(IpPathMtu, GoesDownOnlyAndForgets) {
  EXPECT_EQ(known("8.8.8.8"), 1500);
  EXPECT_EQ(report("8.8.8.8", 1400), Report::lowered);
  EXPECT_EQ(known("8.8.8.8"), 1400);
  EXPECT_EQ(known("8.8.4.4"), 1500);
  EXPECT_EQ(report("8.8.8.8", 1450), Report::known) << "RFC 1191 section 3: never up";
  EXPECT_EQ(report("8.8.8.8", 1400), Report::known) << "no news";
  EXPECT_EQ(report("8.8.8.8", 1300, 1300), Report::implausible) << "a packet of that size would have passed";
  EXPECT_EQ(report("8.8.8.8", 1300, 1501), Report::implausible) << "no packet of that size leaves on this link";
  EXPECT_EQ(report("8.8.8.8", 1300, 1400), Report::lowered);
  now += ip::PathMtu::lifetime;
  EXPECT_EQ(known("8.8.8.8"), 1500);
}

TEST_F(IpPathMtu, HasFloors) {
  EXPECT_EQ(report("2001:db8::1", 1279), Report::implausible) << "RFC 8201 section 4";
  EXPECT_EQ(report("2001:db8::1", 0), Report::implausible);
  EXPECT_EQ(report("2001:db8::1", 1280), Report::lowered);
  EXPECT_EQ(report("8.8.8.8", 67), Report::implausible) << "RFC 1191 section 3";
  EXPECT_EQ(report("8.8.8.8", 1), Report::implausible);
  EXPECT_EQ(report("8.8.8.8", 68), Report::lowered);
  EXPECT_EQ(known("8.8.8.8"), ip::PathMtu::floor_v4);
}

/// RFC 1191 section 7.1: routers that do not tell.
TEST_F(IpPathMtu, GoesDownThePlateaus) {
  std::uint32_t packet = 1500;
  for (const std::uint32_t plateau : {1492U, 1006U, 552U}) {
    EXPECT_EQ(report("8.8.8.8", 0, packet), Report::lowered);
    EXPECT_EQ(known("8.8.8.8"), plateau);
    packet = plateau;
  }
  EXPECT_EQ(report("8.8.8.8", 0, packet), Report::implausible);
}

TEST_F(IpPathMtu, IsBounded) {
  for (std::uint32_t host = 0; host < 1000; ++host) {
    now += 1ms;
    EXPECT_EQ(table.report(Ipv4Address::from_value(0x08080000 + host), 1400, 1500, 1500, now), Report::lowered);
    EXPECT_LE(table.size(), ip::PathMtu::entries_max);
  }
  EXPECT_EQ(table.lookup(Ipv4Address::from_value(0x08080000 + 999), 1500, now).mtu, 1400);
  EXPECT_EQ(table.lookup(Ipv4Address::from_value(0x08080000 + 998), 1500, now).mtu, 1400);
  EXPECT_EQ(table.lookup(Ipv4Address::from_value(0x08080000), 1500, now).mtu, 1500) << "the oldest made room";
}

}  // namespace
}  // namespace sluice::ip_test
