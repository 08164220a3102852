// SPDX-License-Identifier: Apache-2.0
// How a datagram came: T_UDP_RECEIVED has the socket tell, and T_UNITDATA_IND say so.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "stack/wire/network.h"
#include "stack/wire/options.h"
#include "tests/tpi/endpoint.h"

namespace sluice::tpi {
namespace {

using namespace wire::tpi;
using wire::network::Sending;

void ask_to_tell(Endpoint& endpoint, std::uint32_t wanted) {
  std::array<std::byte, 4> value;
  std::memcpy(value.data(), &wanted, sizeof wanted);
  std::vector<std::byte> options;
  wire::xti::append(options, {wire::xti::T_INET_UDP, wire::xti::T_UDP_RECEIVED, 0, value});
  endpoint.put(OptmgmtReq{.options = options, .flags = T_NEGOTIATE});
  EXPECT_EQ(endpoint.expect<OptmgmtAck>().flags, T_SUCCESS);
}

void send(Endpoint& endpoint, const wire::TransportAddress& to, const Sending& how, std::string_view data) {
  std::vector<std::byte> address(to.encoded_size());
  to.encode(address);
  std::vector<std::byte> options(how.encoded_size());
  how.encode(options);
  endpoint.put(UnitdataReq{.address = address, .options = options}, data, true);
}

/// "DATA to ADDRESS HOPS CLASS" of the next indication.
std::string next(Endpoint& endpoint) {
  Message message = endpoint.take();
  const auto unit = message ? UnitdataInd::decode(message.bytes()) : std::unexpected(Malformed::short_block);
  if (!unit) {
    return "nothing";
  }
  const std::string data = Endpoint::decode(message).data;
  if (unit->options.empty()) {
    return data;
  }
  const auto how = wire::network::Received::decode(unit->options);
  return !how ? "nonsense"
              : data + " to " + how->local.to_text() + (how->group ? " group " : " ") + std::to_string(how->hop_limit) +
                    " " + std::to_string(how->traffic_class);
}

struct ReceivedRow {
  const char* name;
  const char* local;
  const char* destination;
};

class HowItCame : public KernelUdpTest, public testing::WithParamInterface<ReceivedRow> {};

TEST_P(HowItCame, IsToldWhereItWasAskedFor) {
  Endpoint sender(set);
  Endpoint reader(set);
  sender.bind(GetParam().local);
  const std::string to = GetParam().destination;
  const wire::TransportAddress address{wire::IpAddress::from_text(to).value(), reader.bind(GetParam().local).port};
  const auto sends = [&](std::string_view data, const Sending& how) {
    send(sender, address, how, data);
    run_one_round();
    ASSERT_TRUE(run_until_received(reader, 1));
  };
  sends("silent", {.hop_limit = 9});
  EXPECT_EQ(next(reader), "silent") << "nobody has asked";
  ask_to_tell(reader, wire::xti::T_YES);
  sends("usual", {});
  EXPECT_EQ(next(reader), "usual to " + to + " 64 0");
  sends("all", {.hop_limit = 9, .traffic_class = 0x12});
  EXPECT_EQ(next(reader), "all to " + to + " 9 18");
  sends("", {.hop_limit = 255});
  EXPECT_EQ(next(reader), " to " + to + " 255 0") << "an empty datagram, too, and nothing stays of the one before";
  ask_to_tell(reader, wire::xti::T_NO);
  sends("silent again", {.hop_limit = 9});
  EXPECT_EQ(next(reader), "silent again");
}

// RFC 3542 section 6.1: an application asks for what it wants, and gets it with each datagram; what was coalesced came
// alike, and each part says so.
TEST_P(HowItCame, SegmentsTellEachForItself) {
  for (const bool whole : {false, true}) {
    Endpoint sender(set);
    Endpoint reader(set, {}, ::sendmmsg, whole);
    sender.bind(GetParam().local);
    const std::string to = GetParam().destination;
    const wire::TransportAddress address{wire::IpAddress::from_text(to).value(), reader.bind(GetParam().local).port};
    ask_to_tell(reader, wire::xti::T_YES);
    send(sender, address, {.hop_limit = 7, .traffic_class = 8, .segment_size = 1000}, std::string(2500, 'x'));
    run_one_round();
    ASSERT_TRUE(run_until_received(reader, 1));
    run_until_quiet();
    std::size_t bytes = 0;
    while (Message message = reader.take()) {
      message.encode();
      const auto unit = UnitdataInd::decode(message.bytes());
      ASSERT_TRUE(unit);
      const auto how = wire::network::Received::decode(unit->options);
      ASSERT_TRUE(how);
      EXPECT_EQ(how->local.to_text(), to);
      EXPECT_EQ(how->hop_limit, 7);
      EXPECT_EQ(how->traffic_class, 8);
      bytes += message.data_size();
    }
    EXPECT_EQ(bytes, 2500U);
  }
}

// The choice is the endpoint's: made before there is a socket, it is the next one's, too.
TEST_P(HowItCame, IsRememberedForTheNextSocket) {
  Endpoint sender(set);
  Endpoint reader(set);
  ask_to_tell(reader, wire::xti::T_YES);
  sender.bind(GetParam().local);
  for (int binding = 0; binding < 2; ++binding) {
    const std::string to = GetParam().destination;
    const wire::TransportAddress address{wire::IpAddress::from_text(to).value(), reader.bind(GetParam().local).port};
    send(sender, address, {.hop_limit = 5}, "x");
    run_one_round();
    ASSERT_TRUE(run_until_received(reader, 1));
    EXPECT_EQ(next(reader), "x to " + to + " 5 0");
    reader.put(UnbindReq{});
    static_cast<void>(reader.expect<OkAck>());
  }
}

// What was coalesced is lost datagram by datagram.
TEST_F(KernelUdpTest, ARunWithoutMemoryIsCountedByItsDatagrams) {
  StreamSet small_set({.pool_bytes_max = std::size_t{2} << 20});
  const auto small_loop = std::move(RunLoop::open(small_set)).value();
  const auto receives = [&](Endpoint& endpoint, std::string_view counter, std::uint64_t count) {
    return small_loop->run_until([&] { return endpoint.counter(counter) >= count; },
                                 small_loop->now() + std::chrono::seconds(10));
  };
  Endpoint sender(set);
  sender.bind("127.0.0.1:0");
  Endpoint receiver(small_set, {}, ::sendmmsg, true);
  const wire::TransportAddress destination = receiver.bind("127.0.0.1:0");
  send(sender, destination, {}, "x");  // is copied, and leaves the buffers of a burst ready
  run_one_round();
  ASSERT_TRUE(receives(receiver, "received", 1));
  std::vector<Message> hoard;
  for (std::size_t capacity = std::size_t{1} << 20; capacity > 0; capacity /= 2) {
    while (Message message = Message::allocate(small_set.pool(), capacity)) {
      hoard.push_back(std::move(message));
    }
  }
  send(sender, destination, {.segment_size = 1000}, std::string(2500, 'x'));
  run_one_round();
  EXPECT_TRUE(receives(receiver, "no_buffer", 1));
  EXPECT_EQ(receiver.counter("no_buffer"), 3U);
}

INSTANTIATE_TEST_SUITE_P(Families, HowItCame,
                         testing::Values(ReceivedRow{"V4", "0.0.0.0:0", "127.0.0.1"},
                                         ReceivedRow{"V4Other", "0.0.0.0:0", "127.0.0.9"},
                                         ReceivedRow{"V6", "[::1]:0", "::1"}, ReceivedRow{"V6Any", "[::]:0", "::1"},
                                         ReceivedRow{"V4OverV6", "[::]:0", "127.0.0.1"}),
                         [](const auto& instance) { return std::string(instance.param.name); });

}  // namespace
}  // namespace sluice::tpi
