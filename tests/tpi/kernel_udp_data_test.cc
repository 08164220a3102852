// SPDX-License-Identifier: Apache-2.0
// kernel_udp's data transfer over loopback.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <string>
#include <tuple>
#include <vector>

#include "stack/wire/data_unit.h"
#include "stack/wire/network.h"
#include "stack/wire/options.h"
#include "stack/wire/words.h"
#include "tests/tpi/endpoint.h"

namespace sluice::tpi {
namespace {

using namespace wire::tpi;
using namespace std::chrono_literals;

/// `size` bytes that depend on `number`, which they begin with as far as they can.
std::string payload(std::size_t number, std::size_t size) {
  std::string text(size, 0);
  for (std::size_t i = 0; i < size; ++i) {
    text[i] = static_cast<char>(i < 4 ? number >> (8 * i) : number * 31 + i);
  }
  return text;
}

std::size_t number_of(const std::string& payload) {
  std::size_t number = 0;
  for (std::size_t i = 0; i < 4; ++i) {
    number |= static_cast<std::size_t>(static_cast<unsigned char>(payload.at(i))) << (8 * i);
  }
  return number;
}

UdpSocket::Options offloads(bool gso, bool gro) {
  UdpSocket::Options options;
  options.gso = gso;
  options.gro = gro;
  return options;
}

using Offloads = std::tuple<bool, bool, const char*>;

class KernelUdpData : public KernelUdpTest, public testing::WithParamInterface<Offloads> {
 protected:
  [[nodiscard]] UdpSocket::Options options() const {
    return offloads(std::get<0>(GetParam()), std::get<1>(GetParam()));
  }
  Endpoint a{set, options()};
  Endpoint b{set, options()};
  wire::TransportAddress a_address = a.bind(std::get<2>(GetParam()));
  wire::TransportAddress b_address = b.bind(std::get<2>(GetParam()));
};

TEST_P(KernelUdpData, EchoBothWays) {
  a.send(b_address, "ping");
  ASSERT_TRUE(run_until_received(b, 1));
  const Received at_b = b.receive();
  EXPECT_EQ(at_b.primitive, T_UNITDATA_IND);
  EXPECT_EQ(at_b.address, a_address);
  EXPECT_EQ(at_b.data, "ping");
  b.send(at_b.address, "pong");
  ASSERT_TRUE(run_until_received(a, 1));
  const Received at_a = a.receive();
  EXPECT_EQ(at_a.address, b_address);
  EXPECT_EQ(at_a.data, "pong");
  EXPECT_EQ(a.counter("coalesced"), 0U) << "it came alone";
}

/// Whatever the kernel puts together on the way, the boundaries are those of the sender.
TEST_P(KernelUdpData, BoundariesAndOrderAreKept) {
  std::vector<std::size_t> sizes{0, 1,    4,    1400, 1400,  1400, 600,   1400, 0,
                                 0, 9000, 9000, 100,  65507, 1400, 30000, 30000};
  sizes.insert(sizes.end(), 200, 1400);
  sizes.insert(sizes.end(), 100, 4);
  sizes.insert(sizes.end(), 30, 8000);
  b.head().read_queue().set_marks({.high_bytes = 4 << 20, .low_bytes = 1});  // nobody reads until all is there
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    a.send(b_address, payload(i, sizes[i]));
  }
  ASSERT_TRUE(run_until_received(b, sizes.size()));
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const Received received = b.receive();
    ASSERT_EQ(received.primitive, T_UNITDATA_IND);
    ASSERT_EQ(received.address, a_address);
    ASSERT_EQ(received.data, payload(i, sizes[i])) << "datagram " << i << " of " << sizes[i] << " bytes";
  }
  EXPECT_EQ(a.counter("sent"), sizes.size());
  EXPECT_EQ(b.counter("received"), sizes.size());
  EXPECT_EQ(b.counter("truncated"), 0U);
}

TEST_P(KernelUdpData, APayloadInManyBlocksArrivesWhole) {
  std::array<std::byte, wire::TransportAddress::encoded_size_max> bytes{};
  const UnitdataReq request{.address = ConstBytes(bytes).first(b_address.encode(bytes)), .options = {}};
  const std::string text = payload(7, 5000);
  for (const std::size_t part : {1UL, 3UL, 999UL}) {
    Message message = Message::allocate(set.pool(), request.encoded_size(), 0, MessageType::proto);
    request.encode(message.append(request.encoded_size()));
    message.link(Message::copy_of(set.pool(), as_bytes(text), 0, MessageType::data, part));
    a.down().put_next(std::move(message));
  }
  ASSERT_TRUE(run_until_received(b, 3));
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(b.receive().data, text);
  }
}

TEST_P(KernelUdpData, AHundredThousandDatagramsInOrder) {
  constexpr std::size_t total = 100'000;
  constexpr std::size_t window = 128;  // less than any receive buffer holds, since UDP has no flow control of its own
  std::size_t sent = 0;
  std::size_t received = 0;
  const TimePoint deadline = loop->now() + 60s;
  while (received < total && loop->now() < deadline) {
    while (sent < total && sent - received < window && a.down().can_put_next()) {
      a.send(b_address, payload(sent, 100));
      ++sent;
    }
    static_cast<void>(loop->wait(loop->now() + 100ms));
    for (Message message = b.take(); message; message = b.take()) {
      ASSERT_EQ(number_of(Endpoint::decode(message).data), received);
      ++received;
    }
  }
  EXPECT_EQ(received, total);
  EXPECT_EQ(b.counter("kernel_drops"), 0U);
}

/// Several datagrams in one message, and whatever of that arrives as one: the same datagrams come out.
TEST_P(KernelUdpData, SegmentedMessagesCarryTheSameDatagrams) {
  struct Run {
    std::size_t segment;
    std::size_t size;
  };
  constexpr std::array<Run, 6> runs{
      {{1400, 44 * 1400 + 7}, {1400, 1401}, {512, 64 * 512}, {8000, 8 * 8000}, {9, 20}, {30000, 60001}}};
  Endpoint to(set, options(), ::sendmmsg, /*segments=*/true);
  const wire::TransportAddress address = [&] {
    to.put_bind<BindReq>(std::get<2>(GetParam()));
    Message bound = to.take();
    bound.encode();
    return *wire::TransportAddress::decode(BindAck::decode(bound.bytes())->address);
  }();
  to.head().read_queue().set_marks({.high_bytes = 4 << 20, .low_bytes = 1});
  std::vector<std::string> sent;
  for (const Run& run : runs) {
    const std::string text = payload(run.segment, run.size);
    for (std::size_t at = 0; at < text.size(); at += run.segment) {
      sent.push_back(text.substr(at, run.segment));
    }
    Message request =
        Message::of_native(set.pool(), wire::DataUnit{.kind = wire::DataUnit::Kind::transport_request,
                                                      .peer = address.address,
                                                      .peer_port = address.port,
                                                      .segment_size = static_cast<std::uint16_t>(run.segment)});
    request.link(Message::copy_of(set.pool(), as_bytes(text)));
    a.put(std::move(request));
  }
  run_until_quiet();
  std::vector<std::string> received;
  std::size_t whole = 0;
  for (Message message = to.take(); message; message = to.take()) {
    const auto* const unit = message.native<wire::DataUnit>();
    ASSERT_NE(unit, nullptr);
    EXPECT_EQ((wire::TransportAddress{unit->peer, unit->peer_port}), a_address);
    std::string text(message.data_size(), 0);
    ASSERT_TRUE(message.copy_data_to(0, std::as_writable_bytes(std::span(text))));
    const std::size_t segment = unit->segment_size == 0 ? text.size() : unit->segment_size;
    whole += unit->segment_size == 0 ? 0U : 1U;
    for (std::size_t at = 0; at < text.size(); at += segment) {
      received.push_back(text.substr(at, segment));
    }
  }
  EXPECT_EQ(received, sent);
  EXPECT_EQ(a.counter("sent"), sent.size());
  EXPECT_EQ(to.counter("received"), sent.size());
  const auto probe = UdpSocket::bind({wire::Ipv4Address{{127, 0, 0, 1}}, 0}, options());
  ASSERT_TRUE(probe);
  EXPECT_EQ(whole, probe->segments() && probe->coalesces() ? runs.size() : 0U);
}

INSTANTIATE_TEST_SUITE_P(Loopback, KernelUdpData,
                         testing::Combine(testing::Bool(), testing::Bool(), testing::Values("127.0.0.1:0", "[::1]:0")),
                         [](const auto& instance) {
                           return std::string(std::get<0>(instance.param) ? "Gso" : "Plain") +
                                  (std::get<1>(instance.param) ? "Gro" : "Single") +
                                  (std::get<2>(instance.param)[0] == '[' ? "V6" : "V4");
                         });

TEST_F(KernelUdpTest, RunsAreSegmentedAndCoalescedWhereTheKernelCan) {
  Endpoint a(set);
  Endpoint b(set);
  a.bind("127.0.0.1:0");
  const wire::TransportAddress destination = b.bind("127.0.0.1:0");
  const auto probe = UdpSocket::bind({wire::Ipv4Address{{127, 0, 0, 1}}, 0}, {});
  ASSERT_TRUE(probe);
  for (std::size_t i = 0; i < 100; ++i) {
    a.send(destination, payload(i, 1400));
  }
  ASSERT_TRUE(run_until_received(b, 100));
  // 46 datagrams of 1400 bytes fit a packet of 64 KiB.
  EXPECT_EQ(a.counter("segmented_runs"), probe->segments() ? 3U : 0U);
  EXPECT_EQ(b.counter("coalesced"), probe->segments() && probe->coalesces() ? 100U : 0U);
  EXPECT_EQ(a.counter("send_calls"), 1U);
}

TEST_F(KernelUdpTest, CoalescedDatagramsShareTheBufferTheyArrivedIn) {
  const auto probe = UdpSocket::bind({wire::Ipv4Address{{127, 0, 0, 1}}, 0}, {});
  if (!probe || !probe->segments() || !probe->coalesces()) {
    GTEST_SKIP() << "this kernel does not coalesce";
  }
  Endpoint a(set);
  Endpoint b(set);
  a.bind("127.0.0.1:0");
  const wire::TransportAddress destination = b.bind("127.0.0.1:0");
  for (std::size_t i = 0; i < 40; ++i) {
    a.send(destination, payload(i, 1400));
  }
  ASSERT_TRUE(run_until_received(b, 40));
  Message first = b.take();
  Message second = b.take();
  EXPECT_EQ(first.data_block()->buffer, second.data_block()->buffer);
  EXPECT_EQ(first.data_block()->wptr, second.data_block()->rptr);
}

TEST_F(KernelUdpTest, ADualStackEndpointServesBothFamilies) {
  Endpoint server(set);
  const std::uint16_t port = server.bind("[::]:0").port;
  Endpoint v4(set);
  Endpoint v6(set);
  const wire::TransportAddress v4_address = v4.bind("127.0.0.1:0");
  const wire::TransportAddress v6_address = v6.bind("[::1]:0");
  v4.send({wire::Ipv4Address{{127, 0, 0, 1}}, port}, "four");
  ASSERT_TRUE(run_until_received(server, 1));
  const Received from_v4 = server.receive();
  EXPECT_EQ(from_v4.address, v4_address);
  v6.send({*wire::Ipv6Address::from_text("::1"), port}, "six");
  ASSERT_TRUE(run_until_received(server, 1));
  const Received from_v6 = server.receive();
  EXPECT_EQ(from_v6.address, v6_address);
  server.send(from_v4.address, "to four");
  server.send(from_v6.address, "to six");
  ASSERT_TRUE(run_until_received(v4, 1));
  ASSERT_TRUE(run_until_received(v6, 1));
  EXPECT_EQ(v4.receive().data, "to four");
  EXPECT_EQ(v6.receive().data, "to six");
}

/// T_UDERROR_IND: "This primitive indicates to the transport user that a datagram with the specified destination
/// address and options produced an error."
class KernelUdpRefused : public KernelUdpTest,
                         public testing::WithParamInterface<std::tuple<const char*, const char*>> {};

TEST_P(KernelUdpRefused, PortUnreachableComesBackWithTheDestination) {
  const auto [local, remote] = GetParam();
  Endpoint endpoint(set);
  endpoint.bind(local);
  Endpoint closed(set);
  const wire::TransportAddress nobody = closed.bind(remote);
  closed.put(UnbindReq{});
  endpoint.send(nobody, "anybody there?");
  ASSERT_TRUE(run_until_received(endpoint, 1));
  const Received error = endpoint.receive();
  EXPECT_EQ(error.primitive, T_UDERROR_IND);
  EXPECT_EQ(error.error, ECONNREFUSED);
  EXPECT_EQ(error.address, nobody);
  EXPECT_EQ(endpoint.counter("refused"), 1U);
  run_until_quiet();
  EXPECT_FALSE(endpoint.take()) << "reported once";
}

INSTANTIATE_TEST_SUITE_P(Families, KernelUdpRefused,
                         testing::Values(std::tuple("127.0.0.1:0", "127.0.0.1:0"), std::tuple("[::1]:0", "[::1]:0"),
                                         std::tuple("[::]:0", "127.0.0.1:0"), std::tuple("[::]:0", "[::1]:0")));

/// The kernel tells an ICMP error in whatever call comes next: that datagram must go all the same.
TEST_F(KernelUdpTest, AnErrorOfOneDestinationLosesNothingToAnother) {
  Endpoint endpoint(set);
  Endpoint good(set);
  Endpoint closed(set);
  endpoint.bind("127.0.0.1:0");
  const wire::TransportAddress destination = good.bind("127.0.0.1:0");
  const wire::TransportAddress nobody = closed.bind("127.0.0.1:0");
  closed.put(UnbindReq{});
  constexpr std::size_t rounds = 50;
  for (std::size_t i = 0; i < rounds; ++i) {
    endpoint.send(nobody, "x");
    endpoint.send(destination, payload(i, 8));
  }
  ASSERT_TRUE(run_until_received(good, rounds));
  for (std::size_t i = 0; i < rounds; ++i) {
    EXPECT_EQ(good.receive().data, payload(i, 8));
  }
  run_until_quiet();
  std::size_t errors = 0;
  for (Message message = endpoint.take(); message; message = endpoint.take()) {
    const Received error = Endpoint::decode(message);
    EXPECT_EQ(error.primitive, T_UDERROR_IND);
    EXPECT_EQ(error.address, nobody);
    ++errors;
  }
  EXPECT_GT(errors, 0U);  // the kernel limits how many ICMP messages it sends
  EXPECT_LE(errors, rounds);
}

/// Fatal, says TPI; here, as with `udp`, an error of that datagram alone.
TEST_F(KernelUdpTest, MoreThanATsduIsAnErrorOfTheDatagram) {
  Endpoint endpoint(set);
  const wire::TransportAddress bound = endpoint.bind("127.0.0.1:0");
  endpoint.send(bound, std::string(65508, 'x'));
  set.scheduler().poll(loop->now());
  EXPECT_EQ(endpoint.receive().error, EMSGSIZE);
  EXPECT_EQ(endpoint.counter("too_big"), 1U);
  endpoint.send(bound, "good");
  ASSERT_TRUE(run_until_received(endpoint, 1));
}

TEST_F(KernelUdpTest, TheLargestTsduGoesThrough) {
  Endpoint v4(set);
  const wire::TransportAddress v4_address = v4.bind("127.0.0.1:0");
  v4.send(v4_address, payload(1, 65507));
  ASSERT_TRUE(run_until_received(v4, 1));
  EXPECT_EQ(v4.receive().data, payload(1, 65507));
  Endpoint v6(set);
  const wire::TransportAddress v6_address = v6.bind("[::1]:0");
  v6.send(v6_address, payload(2, 65527));
  ASSERT_TRUE(run_until_received(v6, 1));
  EXPECT_EQ(v6.receive().data, payload(2, 65527));
}

struct BadRequest {
  const char* name;
  const char* local;
  std::vector<std::byte> destination;
  std::vector<std::byte> options;
  int error;
};

class KernelUdpBadRequest : public KernelUdpTest, public testing::WithParamInterface<BadRequest> {};

/// "If a non-fatal error occurs, it is the responsibility of the transport provider to report it via the T_UDERROR_IND
/// indication." With the address and options as they were given.
TEST_P(KernelUdpBadRequest, IsReportedAndHarmsNothing) {
  Endpoint endpoint(set);
  const wire::TransportAddress bound = endpoint.bind(GetParam().local);
  endpoint.put(UnitdataReq{.address = GetParam().destination, .options = GetParam().options}, "data");
  set.scheduler().poll(loop->now());
  Message message = endpoint.take();
  ASSERT_TRUE(message);
  const auto error = UderrorInd::decode(message.bytes());
  ASSERT_TRUE(error);
  EXPECT_EQ(error->error_type, GetParam().error);
  EXPECT_TRUE(std::ranges::equal(error->destination, GetParam().destination));
  EXPECT_TRUE(std::ranges::equal(error->options, GetParam().options));
  EXPECT_EQ(endpoint.counter("bad_requests"), 1U);
  endpoint.send(bound, "good");
  ASSERT_TRUE(run_until_received(endpoint, 1));
  EXPECT_EQ(endpoint.receive().data, "good");
}

std::vector<std::byte> encoded(std::string_view text) {
  const auto address = wire::TransportAddress::from_text(text);
  std::vector<std::byte> bytes(address->encoded_size());
  address->encode(bytes);
  return bytes;
}

std::vector<std::byte> encoded(const wire::network::Sending& options) {
  std::vector<std::byte> bytes(options.encoded_size());
  options.encode(bytes);
  return bytes;
}

INSTANTIATE_TEST_SUITE_P(
    KernelUdp, KernelUdpBadRequest,
    testing::Values(
        BadRequest{"NoAddress", "127.0.0.1:0", {}, {}, EINVAL},
        BadRequest{"ShortAddress", "127.0.0.1:0", {std::byte{4}, std::byte{0}}, {}, EINVAL},
        BadRequest{"PortZero", "127.0.0.1:0", encoded("127.0.0.1:0"), {}, EINVAL},
        BadRequest{"V6FromV4", "127.0.0.1:0", encoded("[::1]:9"), {}, EAFNOSUPPORT},
        BadRequest{"V4FromV6", "[::1]:0", encoded("127.0.0.1:9"), {}, EAFNOSUPPORT},
        BadRequest{"ShortOptions", "127.0.0.1:0", encoded("127.0.0.1:9"), std::vector<std::byte>(8), EINVAL},
        BadRequest{"NotInFragments", "127.0.0.1:0", encoded("127.0.0.1:9"),
                   encoded(wire::network::Sending{.dont_fragment = true}), ENOPROTOOPT},
        BadRequest{"StrangeSource", "127.0.0.1:0", encoded("127.0.0.1:9"),
                   encoded(wire::network::Sending{.source = wire::IpAddress(wire::Ipv4Address{{192, 0, 2, 1}})}),
                   EADDRNOTAVAIL},
        BadRequest{"StrangeSourceV6", "[::1]:0", encoded("[::1]:9"),
                   encoded(wire::network::Sending{.source = wire::IpAddress(wire::Ipv6Address{{0xfd}})}),
                   EADDRNOTAVAIL},
        BadRequest{"SourceOfAnotherFamily", "[::]:0", encoded("127.0.0.1:9"),
                   encoded(wire::network::Sending{.source = wire::IpAddress(wire::Ipv6Address{{0xfd}})}),
                   EAFNOSUPPORT}),
    [](const auto& instance) { return std::string(instance.param.name); });

/// A socket of the kernel's that says how each datagram came.
class Witness {
 public:
  explicit Witness(bool v6) : v6_(v6), descriptor_(::socket(v6 ? AF_INET6 : AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0)) {
    const int level = v6 ? IPPROTO_IPV6 : IPPROTO_IP;
    const int on = 1;
    for (const int option : {v6 ? IPV6_RECVHOPLIMIT : IP_RECVTTL, v6 ? IPV6_RECVTCLASS : IP_RECVTOS}) {
      EXPECT_EQ(::setsockopt(descriptor_, level, option, &on, sizeof on), 0);
    }
    SocketAddress address;
    address.generic.sa_family = v6 ? AF_INET6 : AF_INET;
    (v6 ? reinterpret_cast<std::uint8_t*>(&address.v6.sin6_addr)[15]
        : reinterpret_cast<std::uint8_t*>(&address.v4.sin_addr)[3]) = 1;
    if (!v6) {
      reinterpret_cast<std::uint8_t*>(&address.v4.sin_addr)[0] = 127;
    }
    socklen_t size = v6 ? sizeof address.v6 : sizeof address.v4;
    EXPECT_EQ(::bind(descriptor_, &address.generic, size), 0);
    EXPECT_EQ(::getsockname(descriptor_, &address.generic, &size), 0);
    address.size = size;
    address_ = transport_address(address);
  }
  ~Witness() { ::close(descriptor_); }
  Witness(const Witness&) = delete;
  Witness& operator=(const Witness&) = delete;

  [[nodiscard]] const wire::TransportAddress& address() const { return address_; }
  /// "DATA HOPS CLASS SOURCE" of the next one; nothing: there is none.
  [[nodiscard]] std::string next() {
    std::array<char, 2000> data{};
    iovec place{data.data(), data.size()};
    alignas(cmsghdr) std::array<std::byte, 256> control;
    SocketAddress from;
    msghdr message{};
    message.msg_name = &from.generic;
    message.msg_namelen = sizeof from.v6;
    message.msg_iov = &place;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    const ssize_t size = ::recvmsg(descriptor_, &message, 0);
    if (size < 0) {
      return {};
    }
    int hops = -1;
    int traffic_class = -1;
    for (cmsghdr* part = CMSG_FIRSTHDR(&message); part != nullptr; part = CMSG_NXTHDR(&message, part)) {
      if (part->cmsg_type == (v6_ ? IPV6_HOPLIMIT : IP_TTL)) {
        std::memcpy(&hops, CMSG_DATA(part), sizeof hops);
      } else if (part->cmsg_type == (v6_ ? IPV6_TCLASS : IP_TOS)) {
        traffic_class = std::to_integer<int>(reinterpret_cast<std::byte*>(CMSG_DATA(part))[0]);
      }
    }
    from.size = message.msg_namelen;
    return std::string(data.data(), static_cast<std::size_t>(size)) + " " + std::to_string(hops) + " " +
           std::to_string(traffic_class) + " " + transport_address(from).address.to_text();
  }

 private:
  bool v6_;
  int descriptor_;
  wire::TransportAddress address_;
};

/// What one datagram asks for changes nothing for the next, whatever goes in one call with it.
TEST_F(KernelUdpTest, ADatagramLeavesAsItAsks) {
  struct Row {
    const char* local;
    bool v6;
    const char* source;
  };
  for (const Row& row :
       {Row{"0.0.0.0:0", false, "127.0.0.5"}, Row{"[::]:0", false, "127.0.0.5"}, Row{"[::]:0", true, "::1"}}) {
    SCOPED_TRACE(std::string(row.local) + (row.v6 ? " to IPv6" : " to IPv4"));
    Witness witness(row.v6);
    Endpoint endpoint(set);
    endpoint.bind(row.local);
    const auto send = [&](std::string_view data, const wire::network::Sending& how) {
      std::vector<std::byte> address(witness.address().encoded_size());
      witness.address().encode(address);
      endpoint.put(UnitdataReq{.address = address, .options = encoded(how)}, data);
    };
    const auto source = wire::IpAddress::from_text(row.source);
    send("one", {});
    send("two", {.hop_limit = 9});
    send("six", {.hop_limit = 9, .traffic_class = 0x10});
    send("ten", {.source = *source, .traffic_class = 0x10});
    send("all", {.source = *source, .hop_limit = 1, .traffic_class = 0x20});
    send("end", {});
    run_one_round();
    const std::string usual = row.v6 ? "::1" : "127.0.0.1";
    EXPECT_EQ(witness.next(), "one 64 0 " + usual);
    EXPECT_EQ(witness.next(), "two 9 0 " + usual);
    EXPECT_EQ(witness.next(), "six 9 16 " + usual);
    EXPECT_EQ(witness.next(), "ten 64 16 " + std::string(row.source));
    EXPECT_EQ(witness.next(), "all 1 32 " + std::string(row.source));
    EXPECT_EQ(witness.next(), "end 64 0 " + usual);
    EXPECT_EQ(endpoint.counter("bad_requests"), 0U);
  }
}

/// One call for several datagrams, and where it is taken apart.
TEST_F(KernelUdpTest, SegmentsLeaveAsTheyAsk) {
  for (const bool gso : {true, false}) {
    SCOPED_TRACE(gso ? "run" : "one by one");
    Witness witness(false);
    UdpSocket::Options options;
    options.gso = gso;
    Endpoint endpoint(set, options);
    endpoint.bind("127.0.0.1:0");
    std::vector<std::byte> address(witness.address().encoded_size());
    witness.address().encode(address);
    endpoint.put(
        UnitdataReq{.address = address, .options = encoded(wire::network::Sending{.hop_limit = 9, .segment_size = 3})},
        "onetwoto");
    run_one_round();
    for (const char* const part : {"one", "two", "to"}) {
      EXPECT_EQ(witness.next(), std::string(part) + " 9 0 127.0.0.1");
    }
  }
}

/// T_IPV6_DONTFRAG.
void forbid_fragments(Endpoint& endpoint, bool forbidden) {
  std::array<std::byte, wire::word_size> value{};
  wire::store_word(value.data(), forbidden ? 1 : 0);
  std::vector<std::byte> options;
  wire::xti::append(options, {.level = wire::xti::T_INET_IPV6, .name = wire::xti::T_IPV6_DONTFRAG, .value = value});
  endpoint.put(OptmgmtReq{.options = options, .flags = T_NEGOTIATE});
  EXPECT_EQ(endpoint.expect<OptmgmtAck>().flags, T_SUCCESS);
}

// The stack file says so, or the user, before there is a socket or afterwards.
TEST_F(KernelUdpTest, WithoutFragmentationTooLargeIsReported) {
  enum class By { file, user_before, user_after };
  for (const By by : {By::file, By::user_before, By::user_after}) {
    SCOPED_TRACE(static_cast<int>(by));
    UdpSocket::Options options;
    options.fragment = by != By::file;
    Endpoint endpoint(set, options);
    if (by == By::user_before) {
      forbid_fragments(endpoint, true);
    }
    // IPv6 over the loopback device, whose MTU is 65536: the largest datagram does not fit with its headers.
    const wire::TransportAddress bound = endpoint.bind("[::1]:0");
    if (by == By::user_after) {
      forbid_fragments(endpoint, true);
    }
    endpoint.send(bound, std::string(65527, 'x'));
    endpoint.send(bound, "fits");
    ASSERT_TRUE(run_until_received(endpoint, 2));
    const Received error = endpoint.receive();
    EXPECT_EQ(error.primitive, T_UDERROR_IND);
    EXPECT_EQ(error.error, EMSGSIZE);
    EXPECT_EQ(error.address, bound);
    EXPECT_EQ(endpoint.receive().data, "fits");
    EXPECT_EQ(endpoint.counter("too_big"), 1U);
    const std::vector<std::byte> whole = encoded(wire::network::Sending{.dont_fragment = true});
    endpoint.put(UnitdataReq{.address = encoded(bound.to_text()), .options = whole}, "as all are");
    ASSERT_TRUE(run_until_received(endpoint, 1));
    EXPECT_EQ(endpoint.receive().data, "as all are");

    forbid_fragments(endpoint, false);
    endpoint.send(bound, std::string(65527, 'x'));
    ASSERT_TRUE(run_until_received(endpoint, 1));
    EXPECT_EQ(endpoint.receive().data.size(), 65527U);
  }
}

TEST_F(KernelUdpTest, AFullHeadStopsReadingAndAReadOneResumesIt) {
  Endpoint a(set);
  Endpoint b(set);
  a.bind("127.0.0.1:0");
  const wire::TransportAddress destination = b.bind("127.0.0.1:0");
  b.head().read_queue().set_marks({.high_bytes = 20'000, .low_bytes = 5'000});
  constexpr std::size_t total = 150;
  constexpr std::size_t burst_max = UdpReceiver::slots_max * UdpReceiver::slot_bytes;
  for (std::size_t i = 0; i < total; ++i) {
    a.send(destination, payload(i, 1000));
    run_one_round();
  }
  run_until_quiet();
  EXPECT_EQ(a.counter("sent"), total);
  EXPECT_LT(b.head().read_queue().messages(), total);
  EXPECT_LE(b.head().read_queue().bytes(), 20'000 + burst_max);
  EXPECT_GT(b.counter("read_stops"), 0U);
  // What the head did not take is in the socket: reading on brings all of it, in order.
  std::size_t received = 0;
  const TimePoint deadline = loop->now() + 10s;
  while (received < total && loop->now() < deadline) {
    for (Message message = b.take(); message; message = b.take()) {
      EXPECT_EQ(number_of(Endpoint::decode(message).data), received);
      ++received;
    }
    static_cast<void>(loop->wait(loop->now() + 50ms));
  }
  EXPECT_EQ(received, total);
}

TEST_F(KernelUdpTest, ACallTakesAsManyDatagramsAsTheCacheHolds) {
  Endpoint a(set);
  Endpoint b(set);
  a.bind("127.0.0.1:0");
  const wire::TransportAddress destination = b.bind("127.0.0.1:0");
  b.head().read_queue().set_marks({.high_bytes = 4 << 20, .low_bytes = 1 << 20});
  constexpr std::size_t full = UdpReceiver::slots_max;
  constexpr std::size_t few = UdpReceiver::slots_min;
  constexpr std::size_t large = 60'000;
  const auto calls_for = [&](std::size_t datagrams, std::size_t bytes) {
    const std::uint64_t before = b.counter("receive_calls");
    for (std::size_t i = 0; i < datagrams; ++i) {
      a.send(destination, payload(i, bytes));
    }
    EXPECT_TRUE(run_until_received(b, datagrams));
    for (std::size_t i = 0; i < datagrams; ++i) {
      EXPECT_EQ(number_of(b.receive().data), i);
    }
    return b.counter("receive_calls") - before;
  };
  // One less than fits: a full burst is followed by a call for more.
  EXPECT_EQ(calls_for(full - 1, 1000), 1U) << "what is not known to be large is taken at once";
  EXPECT_EQ(calls_for(full - 1, large), 1U);
  EXPECT_EQ(calls_for(2 * few - 1, large), 2U);
  EXPECT_EQ(calls_for(few - 1, 1000), 1U);
  EXPECT_EQ(calls_for(full - 1, 1000), 1U) << "they are small again";
}

TEST_F(KernelUdpTest, WhatTheKernelDropsIsCounted) {
  UdpSocket::Options small;
  small.receive_buffer_bytes = 4096;
  Endpoint a(set);
  Endpoint b(set, small);
  a.bind("127.0.0.1:0");
  const wire::TransportAddress destination = b.bind("127.0.0.1:0");
  for (std::size_t i = 0; i < 200; ++i) {
    a.send(destination, payload(i, 1000 + i));
  }
  set.scheduler().poll(loop->now());  // all of them, before anybody reads
  run_until_quiet();
  a.send(destination, "after");  // carries the count
  run_until_quiet();
  EXPECT_GT(b.counter("kernel_drops"), 0U);
  EXPECT_EQ(b.counter("kernel_drops") + b.counter("received"), 201U);
}

// SO_RXQ_OVFL: "the number of packets dropped by the socket since its creation" (socket(7)), with each datagram after:
// told twice, the same drops are not counted twice, and later ones are added.
TEST_F(KernelUdpTest, DropsThatAreToldAgainAreNotCountedAgain) {
  UdpSocket::Options small;
  small.receive_buffer_bytes = 4096;
  Endpoint a(set);
  Endpoint b(set, small);
  a.bind("127.0.0.1:0");
  wire::TransportAddress destination = b.bind("127.0.0.1:0");
  std::size_t sent = 0;
  std::uint64_t before = 0;
  for (int burst = 1; burst <= 3; ++burst) {
    for (std::size_t i = 0; i < 100; ++i) {
      a.send(destination, payload(i, 1000 + i));
    }
    set.scheduler().poll(loop->now());  // all of them, before anybody reads
    run_until_quiet();
    for (int at = 0; at < 3; ++at) {
      a.send(destination, "after");  // carries the count
      run_until_quiet();
    }
    sent += 103;
    EXPECT_GT(b.counter("kernel_drops"), before);
    EXPECT_EQ(b.counter("kernel_drops") + b.counter("received"), sent);
    before = b.counter("kernel_drops");
    while (b.take()) {
    }
    if (burst == 2) {  // its next socket counts from nothing
      b.put(UnbindReq{});
      b.expect<OkAck>();
      destination = b.bind("127.0.0.1:0");
    }
  }
}

TEST_F(KernelUdpTest, AnExhaustedPoolDropsCountsAndRecovers) {
  StreamSet::Options small;
  small.pool_bytes_max = 2 << 20;
  StreamSet small_set(small);
  const auto small_loop = std::move(RunLoop::open(small_set)).value();
  Endpoint sender(set, offloads(false, true));
  sender.bind("127.0.0.1:0");
  Endpoint receiver(small_set, offloads(true, false));
  const wire::TransportAddress destination = receiver.bind("127.0.0.1:0");
  receiver.head().read_queue().set_marks({.high_bytes = 64 << 20, .low_bytes = 1});
  for (std::size_t i = 0; i < 40; ++i) {
    sender.send(destination, payload(i, 60'000));
    run_one_round();
  }
  run_until_quiet();
  for (int i = 0; i < 200; ++i) {
    static_cast<void>(small_loop->wait(small_loop->now() + 1ms));
  }
  const std::size_t held = receiver.head().read_queue().messages();
  EXPECT_GT(held, 0U);
  EXPECT_LT(held, 40U);
  const EventSource& source = *small_set.sources().front();
  EXPECT_TRUE(small_loop->run_until([&] { return !source.wants_readable(); }, small_loop->now() + 10s))
      << "without memory it does not read";
  EXPECT_TRUE(small_loop->run_until([&] { return source.wants_readable(); }, small_loop->now() + 10s))
      << "but tries again";
  while (receiver.take()) {
  }
  sender.send(destination, "later");
  run_until_quiet();
  std::string last;
  small_loop->run_until(
      [&] {
        for (Message message = receiver.take(); message; message = receiver.take()) {
          last = Endpoint::decode(message).data;
        }
        return last == "later";
      },
      small_loop->now() + 10s);
  EXPECT_EQ(last, "later");
}

}  // namespace
}  // namespace sluice::tpi
