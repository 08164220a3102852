// SPDX-License-Identifier: Apache-2.0
#include "stack/wire/network.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <vector>

namespace sluice::wire::network {
namespace {

const IpAddress v4 = Ipv4Address{{10, 77, 0, 1}};
const IpAddress v6 = Ipv6Address{{0xfd, 0, 0, 0x77, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}};

template <class X>
std::vector<std::byte> encoded(const X& value) {
  std::vector<std::byte> block(X::size, std::byte{0xee});
  EXPECT_EQ(value.encode(block), X::size);
  return block;
}

/// What comes back is what was put in; every shorter block is refused, a longer one is not.
template <class X>
void expect_round_trip(const X& value) {
  std::vector<std::byte> block = encoded(value);
  ASSERT_TRUE(X::decode(block));
  EXPECT_EQ(*X::decode(block), value);
  for (std::size_t size = 0; size < X::size; ++size) {
    EXPECT_EQ(X::decode(ConstBytes(block).first(size)).error(), Malformed::short_block) << size;
  }
  block.push_back(std::byte{1});
  EXPECT_EQ(X::decode(block), value);
}

template <class X>
Malformed error_with(const X& value, std::size_t at, std::byte with) {
  std::vector<std::byte> block = encoded(value);
  block[at] = with;
  const auto decoded = X::decode(block);
  EXPECT_FALSE(decoded);
  return decoded ? Malformed{} : decoded.error();
}

TEST(Network, EveryMessageRoundTrips) {
  for (const IpAddress& address : {v4, v6}) {
    expect_round_trip(RouteReq{address});
    expect_round_trip(RouteAck{address, address, 1500, 0});
    expect_round_trip(RouteAck{address, IpAddress{}, 0, 101});
    expect_round_trip(UnreachableReq{address, address, 60});
    expect_round_trip(GroupReq{GroupReq::Action::join, address, address});
    expect_round_trip(GroupReq{GroupReq::Action::leave, address, IpAddress{}});
    expect_round_trip(GroupAck{address, 99});
    expect_round_trip(Sending{address, 1, 0xb8, true});
    expect_round_trip(Received{address, 255, 3, true, 40});
    expect_round_trip(Failure{address, 1280});
  }
  const Settings settings{.ttl = 1,
                          .type_of_service = 2,
                          .broadcast = true,
                          .multicast_ttl = 3,
                          .multicast_loop = false,
                          .hops = 4,
                          .multicast_hops = 5,
                          .multicast_loop_v6 = false,
                          .dont_fragment = true};
  Settings other = settings;
  other.dont_fragment = false;
  other.dont_fragment_v6 = true;
  expect_round_trip(SettingsReq{});
  expect_round_trip(SettingsReq{settings});
  expect_round_trip(SettingsReq{other});
  expect_round_trip(SettingsAck{settings, Settings{}});
  expect_round_trip(Sending{});
  expect_round_trip(Failure{});
}

TEST(Network, SettingsAndGroupsAreChecked) {
  EXPECT_EQ(error_with(SettingsReq{Settings{}}, 4, std::byte{2}), Malformed::bad_value);
  for (const std::size_t flag_at : {10U, 12U, 15U, 16U, 17U}) {
    EXPECT_EQ(error_with(SettingsReq{Settings{}}, flag_at, std::byte{2}), Malformed::bad_value) << flag_at;
  }
  // RFC 1122 section 3.2.1.7: "A host MUST NOT send a datagram with a Time-to-Live (TTL) value of zero."
  EXPECT_EQ(error_with(SettingsReq{Settings{}}, 8, std::byte{0}), Malformed::bad_value);
  EXPECT_EQ(error_with(SettingsReq{Settings{}}, 13, std::byte{0}), Malformed::bad_value);
  EXPECT_EQ(error_with(GroupReq{}, 4, std::byte{0}), Malformed::bad_value);
  EXPECT_EQ(error_with(GroupReq{}, 4, std::byte{4}), Malformed::bad_value);
  EXPECT_EQ(error_with(GroupReq{}, 8, std::byte{5}), Malformed::bad_address);
  EXPECT_EQ(error_with(GroupReq{}, 28, std::byte{5}), Malformed::bad_address);
}

TEST(Network, RequestsNameThemselves) {
  EXPECT_EQ(primitive_of(encoded(RouteReq{v4})), route_req);
  EXPECT_EQ(primitive_of(encoded(RouteAck{})), route_ack);
  EXPECT_EQ(primitive_of(encoded(UnreachableReq{})), unreachable_req);
  EXPECT_EQ(primitive_of({}), std::nullopt);
  EXPECT_EQ(RouteAck::decode(encoded(RouteReq{v4})).error(), Malformed::wrong_primitive);
  EXPECT_EQ(UnreachableReq::decode(encoded(RouteAck{})).error(), Malformed::wrong_primitive);
  EXPECT_EQ(RouteReq::decode(encoded(RouteAck{})).error(), Malformed::wrong_primitive);
}

TEST(Network, RefusesAddressesThatAreNone) {
  EXPECT_EQ(error_with(RouteReq{v4}, 4, std::byte{5}), Malformed::bad_address);
  EXPECT_EQ(error_with(RouteReq{v4}, 4, std::byte{0}), Malformed::bad_address);
  EXPECT_EQ(error_with(RouteReq{v4}, 6, std::byte{1}), Malformed::bad_address);
  EXPECT_EQ(error_with(RouteReq{v4}, 12, std::byte{1}), Malformed::bad_address) << "unused octets";
  EXPECT_EQ(error_with(RouteAck{v4, v4, 0, 0}, 24, std::byte{7}), Malformed::bad_address);
  EXPECT_EQ(error_with(UnreachableReq{v4, v4, 20}, 24, std::byte{7}), Malformed::bad_address);
  EXPECT_EQ(error_with(Sending{v4, 0, 0, false}, 0, std::byte{0}), Malformed::bad_address) << "octets of no address";
  EXPECT_EQ(error_with(Sending{v4, 0, 0, false}, 0, std::byte{1}), Malformed::bad_address);
  EXPECT_EQ(error_with(Received{v4, 0, 0, false, 0}, 0, std::byte{0}), Malformed::bad_address);
  EXPECT_EQ(error_with(Failure{v4, 0}, 19, std::byte{1}), Malformed::bad_address);
}

TEST(Network, RefusesFlagsAndSizesThatMeanNothing) {
  EXPECT_EQ(error_with(Sending{}, 3, std::byte{2}), Malformed::bad_value);
  EXPECT_EQ(error_with(Received{v6, 0, 0, false, 0}, 3, std::byte{0x81}), Malformed::bad_value);
  EXPECT_EQ(error_with(Failure{}, 2, std::byte{1}), Malformed::bad_value);
  std::vector<std::byte> block = encoded(UnreachableReq{v4, v4, 20});
  std::fill(block.begin() + 44, block.end(), std::byte{1});
  EXPECT_EQ(UnreachableReq::decode(block).error(), Malformed::bad_value);
}

}  // namespace
}  // namespace sluice::wire::network
