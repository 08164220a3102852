// SPDX-License-Identifier: Apache-2.0
// Data primitives in native form have the bytes of their specifications.
#include "stack/wire/data_unit.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <span>

#include "base/prng.h"
#include "stack/wire/network.h"
#include "stack/wire/tpi.h"
#include "tests/stack/wire/bytes.h"

namespace sluice::wire {
namespace {

using test::Buffer;
using Kind = DataUnit::Kind;
using Options = DataUnit::Options;
using Malformed = DataUnit::Malformed;

constexpr std::array kinds{Kind::transport_request, Kind::transport_indication, Kind::transport_error,
                           Kind::network_request,   Kind::network_indication,   Kind::network_error,
                           Kind::link_request,      Kind::link_indication};
constexpr std::array all_options{Options::none, Options::sending, Options::received, Options::failure};

bool is_link(Kind kind) { return kind >= Kind::link_request; }
bool is_error(Kind kind) { return kind == Kind::transport_error || kind == Kind::network_error; }
bool is_request(Kind kind) { return kind == Kind::transport_request || kind == Kind::network_request; }
bool is_transport(Kind kind) { return kind <= Kind::transport_error; }

/// The options that a primitive of this kind has, if any.
Options options_of(Kind kind) {
  return is_link(kind)
             ? Options::none
             : (is_error(kind) ? Options::failure : (is_request(kind) ? Options::sending : Options::received));
}

template <class T>
Buffer encoded(const T& value) {
  Buffer bytes(64);
  bytes.resize(value.encode(bytes));
  return bytes;
}

template <class Primitive>
Buffer encoded_tpi(const Primitive& primitive) {
  Buffer bytes(primitive.encoded_size());
  EXPECT_EQ(primitive.encode(bytes), bytes.size());
  return bytes;
}

/// What the codecs of TPI and DLPI make of the same values.
Buffer by_the_structs(const DataUnit& unit) {
  if (unit.kind == Kind::link_request) {
    return encoded(dlpi::UnitdataReq{unit.destination, {}});
  }
  if (unit.kind == Kind::link_indication) {
    return encoded(dlpi::UnitdataInd{unit.destination, unit.source, unit.group});
  }
  const Buffer address = is_transport(unit.kind) ? encoded(TransportAddress{unit.peer, unit.peer_port})
                                                 : encoded(NetworkAddress{unit.peer, unit.protocol});
  const std::optional<IpAddress> local = unit.has_local ? std::optional(unit.local) : std::nullopt;
  Buffer options;
  if (unit.options == Options::sending) {
    options =
        encoded(network::Sending{local, unit.hop_limit, unit.traffic_class, unit.dont_fragment, unit.segment_size});
  } else if (unit.options == Options::received) {
    options = encoded(network::Received{unit.local, unit.hop_limit, unit.traffic_class, unit.group, unit.header_size,
                                        unit.segment_size});
  } else if (unit.options == Options::failure) {
    options = encoded(network::Failure{local, unit.mtu});
  }
  if (is_error(unit.kind)) {
    return encoded_tpi(tpi::UderrorInd{address, options, unit.error});
  }
  return is_request(unit.kind) ? encoded_tpi(tpi::UnitdataReq{address, options})
                               : encoded_tpi(tpi::UnitdataInd{address, options});
}

/// What the codec makes of it, in memory of exactly that size.
Buffer by_the_codec(const DataUnit& unit) {
  const auto* const native = reinterpret_cast<const std::byte*>(&unit);
  Buffer bytes(DataUnit::codec.encoded_size(native));
  EXPECT_EQ(DataUnit::codec.encode(native, bytes), bytes.size());
  return bytes;
}

class Draw {
 public:
  explicit Draw(std::uint64_t seed) : prng_(seed) {}

  /// A unit of this kind whose every field says something if the primitive has it, and nothing otherwise.
  DataUnit unit(Kind kind, Options options, bool v6) {
    DataUnit drawn{.kind = kind, .options = options};
    if (is_link(kind)) {
      drawn.destination = link_address();
      if (kind == Kind::link_indication) {
        drawn.source = link_address();
        drawn.group = flag();
      }
      return drawn;
    }
    drawn.peer = address(v6);
    drawn.peer_port = is_transport(kind) ? number<std::uint16_t>() : std::uint16_t{0};
    drawn.protocol = is_transport(kind) ? std::uint8_t{0} : number<std::uint8_t>();
    drawn.error = is_error(kind) ? number<std::int32_t>() : 0;
    const bool has_fields = options == Options::sending || options == Options::received;
    if (has_fields) {
      drawn.hop_limit = number<std::uint8_t>();
      drawn.traffic_class = number<std::uint8_t>();
    }
    drawn.dont_fragment = options == Options::sending && flag();
    drawn.has_local = (options == Options::sending || options == Options::failure) && flag();
    if (drawn.has_local || options == Options::received) {
      drawn.local = address(flag());
    }
    drawn.group = options == Options::received && flag();
    drawn.header_size = options == Options::received ? number<std::uint16_t>() : std::uint16_t{0};
    drawn.segment_size = has_fields && flag() ? number<std::uint16_t>() : std::uint16_t{0};
    drawn.mtu = options == Options::failure ? number<std::uint32_t>() : 0;
    return drawn;
  }

 private:
  template <class Number>
  Number number() {
    return static_cast<Number>(prng_());
  }
  bool flag() { return prng_.below(2) == 0; }
  MacAddress mac() {
    std::array<std::byte, 8> bytes;
    store_big_endian(bytes.data(), number<std::uint64_t>());
    return MacAddress::load(bytes.data());
  }
  dlpi::LinkAddress link_address() { return {mac(), number<std::uint16_t>()}; }
  IpAddress address(bool v6) {
    std::array<std::byte, 16> bytes;
    store_big_endian(bytes.data(), number<std::uint64_t>());
    store_big_endian(bytes.data() + 8, number<std::uint64_t>());
    return IpAddress::load(v6 ? Family::ipv6 : Family::ipv4, bytes.data());
  }

  Prng prng_;
};

/// Calls `test` with many units of every kind, options and family, named in a failure's text.
template <class Test>
void for_every_unit(Test test) {
  constexpr std::uint64_t draws = 50;
  for (const Kind kind : kinds) {
    for (const Options options : all_options) {
      for (std::uint64_t seed = 0; seed < draws; ++seed) {
        SCOPED_TRACE("kind " + std::to_string(static_cast<int>(kind)) + " options " +
                     std::to_string(static_cast<int>(options)) + " seed " + std::to_string(seed));
        test(Draw(seed).unit(kind, is_link(kind) ? Options::none : options, seed % 2 == 1));
        if (testing::Test::HasFailure()) {
          return;
        }
      }
    }
  }
}

TEST(DataUnitTest, HasTheBytesOfItsPrimitive) {
  std::size_t largest = 0;
  for_every_unit([&](const DataUnit& unit) {
    const Buffer bytes = by_the_codec(unit);
    EXPECT_EQ(bytes, by_the_structs(unit));
    EXPECT_LE(bytes.size(), DataUnit::encoded_size_max);
    largest = std::max(largest, bytes.size());
  });
  EXPECT_EQ(largest, DataUnit::encoded_size_max);
  EXPECT_EQ(DataUnit::codec.native_size, sizeof(DataUnit));
}

TEST(DataUnitTest, DecodingIsTheInverse) {
  for_every_unit([](const DataUnit& unit) {
    const bool complete = unit.options == options_of(unit.kind);
    if (complete || (unit.options == Options::none && !is_error(unit.kind))) {
      EXPECT_EQ(DataUnit::decode(by_the_codec(unit), unit.kind), unit);
    }
  });
}

TEST(DataUnitTest, AddressAndOptionsAreThoseOfThePrimitive) {
  for_every_unit([](const DataUnit& unit) {
    if (is_link(unit.kind)) {
      return;
    }
    Buffer address(unit.address_size());
    Buffer options(unit.options_size());
    EXPECT_EQ(unit.encode_address(address), address.size());
    EXPECT_EQ(unit.encode_options(options), options.size());
    const Buffer whole = by_the_codec(unit);
    const Buffer names = test::operator+(address, options);
    ASSERT_GE(whole.size(), names.size());
    EXPECT_TRUE(std::ranges::equal(std::span(whole).last(names.size()), names));
  });
}

TEST(DataUnitTest, AsksForNothing) {
  const auto asks_for_nothing = [](const network::Sending& sending) {
    DataUnit unit{.kind = Kind::transport_request};
    EXPECT_TRUE(unit.read_options(encoded(sending)));
    return unit.asks_for_nothing();
  };
  EXPECT_TRUE(DataUnit{}.asks_for_nothing());
  EXPECT_TRUE(asks_for_nothing({}));
  EXPECT_FALSE(asks_for_nothing({.source = IpAddress()}));
  EXPECT_FALSE(asks_for_nothing({.hop_limit = 1}));
  EXPECT_FALSE(asks_for_nothing({.traffic_class = 1}));
  EXPECT_FALSE(asks_for_nothing({.dont_fragment = true}));
}

// --- what is malformed ---------------------------------------------------------------------------------------------

TEST(DataUnitTest, AnythingShorterIsNoPrimitive) {
  for_every_unit([](const DataUnit& unit) {
    const Buffer whole = by_the_codec(unit);
    for (std::size_t size = 0; size < whole.size(); ++size) {
      EXPECT_EQ(DataUnit::decode(test::first(whole, size), unit.kind), std::unexpected(Malformed::primitive)) << size;
    }
  });
}

TEST(DataUnitTest, AnotherPrimitiveIsNotTaken) {
  const auto primitive_of = [](Kind kind) { return by_the_codec(Draw(1).unit(kind, options_of(kind), false)); };
  for (const Kind given : kinds) {
    const Buffer bytes = primitive_of(given);
    for (const Kind wanted : kinds) {
      const Buffer other = primitive_of(wanted);
      if (!std::ranges::equal(std::span(bytes).first(4), std::span(other).first(4))) {
        EXPECT_EQ(DataUnit::decode(bytes, wanted), std::unexpected(Malformed::primitive))
            << static_cast<int>(given) << " as " << static_cast<int>(wanted);
      }
    }
  }
}

/// A primitive of this kind with these names.
Buffer named(Kind kind, ConstBytes address, ConstBytes options) {
  if (is_error(kind)) {
    return encoded_tpi(tpi::UderrorInd{address, options, ECONNREFUSED});
  }
  return is_request(kind) ? encoded_tpi(tpi::UnitdataReq{address, options})
                          : encoded_tpi(tpi::UnitdataInd{address, options});
}

TEST(DataUnitTest, NamesThatCannotBeRead) {
  for (const Kind kind : kinds) {
    if (is_link(kind)) {
      continue;
    }
    DataUnit good = Draw(3).unit(kind, options_of(kind), true);
    good.error = is_error(kind) ? ECONNREFUSED : 0;
    Buffer address(good.address_size());
    Buffer options(good.options_size());
    good.encode_address(address);
    good.encode_options(options);
    ASSERT_EQ(DataUnit::decode(named(kind, address, options), kind), good);
    const auto names = std::unexpected(Malformed::names);
    SCOPED_TRACE(static_cast<int>(kind));
    EXPECT_EQ(DataUnit::decode(named(kind, {}, options), kind), names);
    EXPECT_EQ(DataUnit::decode(named(kind, test::first(address, address.size() - 1), options), kind), names);
    EXPECT_EQ(DataUnit::decode(named(kind, test::first(address, 8), options), kind), names) << "of a family, too short";
    EXPECT_EQ(DataUnit::decode(named(kind, address, test::first(options, options.size() - 1)), kind), names);
    EXPECT_EQ(DataUnit::decode(named(kind, address, Buffer(options.size(), std::byte{0xff})), kind), names);
    if (is_error(kind)) {
      EXPECT_EQ(DataUnit::decode(named(kind, address, {}), kind), names) << "an error has options";
    }
  }
}

// A priority has no place in the native form.
TEST(DataUnitTest, ARequestWithAPriorityIsNotTaken) {
  const dlpi::UnitdataReq request{.destination = {}, .priority = {.min = 0, .max = 1}};
  EXPECT_EQ(DataUnit::decode(encoded(request), Kind::link_request), std::unexpected(Malformed::primitive));
}

TEST(DataUnitTest, LinkPrimitivesHaveNoOptions) {
  DataUnit unit{.kind = Kind::link_request};
  EXPECT_FALSE(unit.read_options(Buffer(network::Received::size)));
}

}  // namespace
}  // namespace sluice::wire
