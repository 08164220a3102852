// SPDX-License-Identifier: Apache-2.0
#include "stack/wire/zone.h"

#include <gtest/gtest.h>

namespace sluice::wire {
namespace {

Ipv6Address ip(const char* text) { return Ipv6Address::from_text(text).value(); }

TEST(Zone, ALinkLocalAddressKeepsItAndGivesItBack) {
  for (const std::uint32_t zone : {1U, 255U, 256U, 65535U}) {
    const Ipv6Address zoned = with_zone(ip("fe80::1:2:3:4"), zone);
    EXPECT_EQ(zone_of(zoned), zone);
    EXPECT_EQ(with_zone(zoned, 0), ip("fe80::1:2:3:4"));
    EXPECT_NE(zoned, with_zone(ip("fe80::1:2:3:4"), zone - 1));
  }
}

TEST(Zone, NoOtherAddressHasOne) {
  for (const char* text : {"2001:db8::1", "fec0::1", "ff02::1", "::1", "::ffff:192.0.2.1"}) {
    EXPECT_EQ(with_zone(ip(text), 3), ip(text)) << text;
    EXPECT_EQ(zone_of(ip(text)), 0U) << text;
  }
}

TEST(Zone, OneThatDoesNotFitIsLeftOut) { EXPECT_EQ(with_zone(ip("fe80::1"), 65536), ip("fe80::1")); }

}  // namespace
}  // namespace sluice::wire
