// SPDX-License-Identifier: Apache-2.0
// kernel_udp's addresses and sockets, and what it does with bad messages. Data transfer is in kernel_udp_data_test.cc;
// what every provider answers, in tests/stack/provider.
#include "tpi/kernel_udp.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

#include "base/prng.h"
#include "stack/core/ioctl.h"
#include "stack/wire/receive_room.h"
#include "tests/tpi/endpoint.h"

namespace sluice::tpi {
namespace {

using namespace wire::tpi;

TEST_F(KernelUdpTest, InfoTellsSizesServiceAndState) {
  Endpoint endpoint(set);
  endpoint.put(InfoReq{}, {}, false, MessageType::pcproto);
  const InfoAck unbound = endpoint.expect<InfoAck>();
  EXPECT_EQ(unbound.tsdu_size, 65507);
  EXPECT_EQ(unbound.tidu_size, 65507);
  EXPECT_EQ(unbound.etsdu_size, T_INVALID);
  EXPECT_EQ(unbound.cdata_size, T_INVALID);
  EXPECT_EQ(unbound.ddata_size, T_INVALID);
  EXPECT_EQ(unbound.opt_size, 484);
  EXPECT_EQ(unbound.addr_size, 20);
  EXPECT_EQ(unbound.serv_type, T_CLTS);
  EXPECT_EQ(unbound.current_state, TS_UNBND);
  EXPECT_EQ(unbound.provider_flag, SENDZERO | XPG4_1);
  endpoint.bind("[::1]:0");
  endpoint.put(InfoReq{});
  const InfoAck bound = endpoint.expect<InfoAck>();
  EXPECT_EQ(bound.current_state, TS_IDLE);
  EXPECT_EQ(bound.tsdu_size, 65527);
}

TEST_F(KernelUdpTest, TheTsduOfADualStackEndpointFitsBothFamilies) {
  Endpoint endpoint(set);
  endpoint.bind("[::]:0");
  endpoint.put(InfoReq{});
  EXPECT_EQ(endpoint.expect<InfoAck>().tsdu_size, 65507);
}

TEST_F(KernelUdpTest, BindAnswersTheAddressThatItReallyHas) {
  Endpoint endpoint(set);
  const wire::TransportAddress bound = endpoint.bind("127.0.0.1:0");
  EXPECT_EQ(bound.address.to_text(), "127.0.0.1");
  EXPECT_NE(bound.port, 0);
  endpoint.put(AddrReq{});
  const auto addresses = endpoint.expect<AddrAck>();
  EXPECT_EQ(wire::TransportAddress::decode(addresses.local), bound);
  EXPECT_TRUE(addresses.remote.empty());
}

TEST_F(KernelUdpTest, AnUnboundEndpointHasNoAddress) {
  Endpoint endpoint(set);
  endpoint.put(AddrReq{});
  EXPECT_TRUE(endpoint.expect<AddrAck>().local.empty());
}

TEST_F(KernelUdpTest, BindWithoutAddressLetsTheProviderChoose) {
  Endpoint endpoint(set);
  endpoint.put(BindReq{.address = {}, .connect_indications = 7});
  const auto ack = endpoint.expect<BindAck>();
  const auto bound = wire::TransportAddress::decode(ack.address);
  ASSERT_TRUE(bound);
  EXPECT_TRUE(bound->address.is_unspecified());
  EXPECT_NE(bound->port, 0);
  EXPECT_EQ(ack.connect_indications, 0U);
}

/// XTI semantics: TADDRBUSY. TLI semantics: another port.
TEST_F(KernelUdpTest, ABusyPortIsRefusedOrReplaced) {
  Endpoint first(set);
  const wire::TransportAddress taken = first.bind("127.0.0.1:0");
  Endpoint second(set);
  second.put_bind<BindReq>(taken.to_text());
  const ErrorAck refused = second.expect<ErrorAck>();
  EXPECT_EQ(refused.error_primitive, T_BIND_REQ);
  EXPECT_EQ(refused.tli_error, TADDRBUSY);
  second.put_bind<OldBindReq>(taken.to_text());
  const auto other = wire::TransportAddress::decode(second.expect<BindAck>().address);
  ASSERT_TRUE(other);
  EXPECT_EQ(other->address, taken.address);
  EXPECT_NE(other->port, taken.port);
}

TEST_F(KernelUdpTest, AnAddressOfAnotherHostIsABadAddress) {
  Endpoint endpoint(set);
  endpoint.put_bind<BindReq>("192.0.2.1:0");
  EXPECT_EQ(endpoint.expect<ErrorAck>().tli_error, TBADADDR);
}

TEST_F(KernelUdpTest, MalformedBindsAreBadAddresses) {
  Endpoint endpoint(set);
  const std::array<std::byte, 3> nonsense{std::byte{4}, std::byte{0}, std::byte{0}};
  endpoint.put(BindReq{.address = nonsense});
  EXPECT_EQ(endpoint.expect<ErrorAck>().tli_error, TBADADDR);
  // An offset that points outside the block.
  Message message = Message::allocate(set.pool(), 16, 0, MessageType::proto);
  wire::store_words(message.append(16), {T_BIND_REQ, 8, 1000, 0});
  endpoint.down().put_next(std::move(message));
  EXPECT_EQ(endpoint.expect<ErrorAck>().tli_error, TBADADDR);
  endpoint.bind("127.0.0.1:0");
}

TEST_F(KernelUdpTest, UnbindFlushesBeforeItIsAcknowledgedAndFreesThePort) {
  Endpoint endpoint(set);
  const wire::TransportAddress bound = endpoint.bind("127.0.0.1:0");
  // Something unread in the head, which the flush must discard; the acknowledgement must survive it.
  endpoint.send(bound, "unread");
  ASSERT_TRUE(run_until_received(endpoint, 1));
  endpoint.put(UnbindReq{});
  EXPECT_EQ(endpoint.head().flushes, 1);
  EXPECT_EQ(endpoint.expect<OkAck>().correct_primitive, T_UNBIND_REQ);
  EXPECT_FALSE(endpoint.take());
  EXPECT_TRUE(set.sources().empty());
  Endpoint next(set);
  EXPECT_EQ(next.bind(bound.to_text()), bound);
}

TEST_F(KernelUdpTest, AnEndpointCanBeBoundAgainAndWorks) {
  Endpoint endpoint(set);
  endpoint.bind("127.0.0.1:0");
  endpoint.put(UnbindReq{});
  endpoint.expect<OkAck>();
  const wire::TransportAddress bound = endpoint.bind("[::1]:0");
  endpoint.send(bound, "to myself");
  ASSERT_TRUE(run_until_received(endpoint, 1));
  EXPECT_EQ(endpoint.receive().data, "to myself");
}

/// The same address is another one to a socket of another family.
TEST_F(KernelUdpTest, AnEndpointThatIsBoundAgainSendsAsItsNewSocketDoes) {
  Endpoint receiver(set);
  const wire::TransportAddress destination = receiver.bind("127.0.0.1:0");
  Endpoint sender(set);
  for (const char* const local : {"[::]:0", "0.0.0.0:0", "[::]:0"}) {
    SCOPED_TRACE(local);
    sender.bind(local);
    sender.send(destination, "x");
    ASSERT_TRUE(run_until_received(receiver, 1));
    EXPECT_EQ(receiver.receive().data, "x");
    sender.put(UnbindReq{});
    sender.expect<OkAck>();
    EXPECT_EQ(sender.counter("bad_requests") + sender.counter("other_errors"), 0U);
  }
}

TEST_F(KernelUdpTest, WhatWasSentBeforeUnbindStillGoes) {
  Endpoint receiver(set);
  const wire::TransportAddress destination = receiver.bind("127.0.0.1:0");
  Endpoint sender(set);
  sender.bind("127.0.0.1:0");
  sender.send(destination, "last words");
  sender.put(UnbindReq{});
  ASSERT_TRUE(run_until_received(receiver, 1));
  EXPECT_EQ(receiver.receive().data, "last words");
}

TEST_F(KernelUdpTest, SaysHowMuchWaitsInTheSocket) {
  const auto room_of = [this](std::size_t receive_buffer_bytes) {
    Endpoint endpoint(set, {.receive_buffer_bytes = receive_buffer_bytes});
    endpoint.bind("127.0.0.1:0");
    Message request = Message::allocate(set.pool(), sizeof(IoctlBlock), 0, MessageType::ioctl);
    static_cast<void>(request.append(sizeof(IoctlBlock)));
    set_ioctl_block(request, {.command = wire::SLIOCRECEIVEROOM, .id = 7});
    endpoint.down().put_next(std::move(request));
    const Message answer = endpoint.take();
    EXPECT_TRUE(answer && answer.type() == MessageType::iocack);
    return answer ? ioctl_block(answer).return_value : -1;
  };
  const std::int32_t room = room_of(100'000);
  EXPECT_EQ(room, 50'000) << "a quarter of what SO_RCVBUF says, which doubles what it is asked for (socket(7))";
  EXPECT_EQ(room_of(50'000), room / 2);
}

TEST_F(KernelUdpTest, IoctlsAreRefused) {
  Endpoint endpoint(set);
  Message request = Message::allocate(set.pool(), sizeof(IoctlBlock), 0, MessageType::ioctl);
  static_cast<void>(request.append(sizeof(IoctlBlock)));
  set_ioctl_block(request, {.command = 42, .id = 7});
  endpoint.down().put_next(std::move(request));
  const Message answer = endpoint.take();
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer.type(), MessageType::iocnak);
  EXPECT_EQ(ioctl_block(answer).error, EINVAL);
  EXPECT_EQ(ioctl_block(answer).id, 7U);
  // One that is too short to be one.
  endpoint.down().put_next(Message::allocate(set.pool(), 4, 0, MessageType::ioctl));
  EXPECT_FALSE(endpoint.take());
  EXPECT_EQ(endpoint.counter("dropped"), 1U);
}

TEST_F(KernelUdpTest, DataWithoutAPrimitiveIsFatal) {
  Endpoint endpoint(set);
  endpoint.bind("127.0.0.1:0");
  endpoint.down().put_next(Message::copy_of(set.pool(), as_bytes("raw")));
  EXPECT_EQ(endpoint.take().type(), MessageType::error);
  EXPECT_TRUE(set.sources().empty());
}

TEST_F(KernelUdpTest, FlushIsTurnedAround) {
  Endpoint endpoint(set);
  endpoint.bind("127.0.0.1:0");
  Message flush = Message::allocate(set.pool(), 1, 0, MessageType::flush);
  flush.append(1)[0] = std::byte{flush_read | flush_write};
  endpoint.down().put_next(std::move(flush));
  EXPECT_EQ(endpoint.head().flushes, 1);
}

/// Takes everything and sends nothing: random destinations must not be reached.
int swallow(int /*descriptor*/, mmsghdr* /*entries*/, unsigned count, int /*flags*/) { return static_cast<int>(count); }

/// Random blocks, most of them naming a known primitive: anything may come back, nothing may break, and a well-behaved
/// endpoint still works next to it.
TEST_F(KernelUdpTest, RandomPrimitivesBreakNothing) {
  constexpr std::uint64_t seed = 20240607;
  SCOPED_TRACE("seed " + std::to_string(seed));
  Prng prng(seed);
  constexpr std::array known{T_INFO_REQ,     O_T_BIND_REQ, T_UNBIND_REQ, T_UNITDATA_REQ, T_SVR4_OPTMGMT_REQ,
                             T_UNITDATA_IND, T_ADDR_REQ,   T_BIND_REQ,   T_OPTMGMT_REQ,  T_CAPABILITY_REQ};
  auto endpoint = std::make_unique<Endpoint>(set, UdpSocket::Options{}, swallow);
  for (int round = 0; round < 20000; ++round) {
    const std::size_t size = prng.below(64);
    Message message =
        Message::allocate(set.pool(), size, 0, prng.chance(0.8) ? MessageType::proto : MessageType::pcproto);
    const Bytes block = message.append(size);
    // Small numbers, so that offsets and lengths are often nearly right.
    std::generate(block.begin(), block.end(), [&] { return std::byte(prng.chance(0.7) ? 0 : prng.below(32)); });
    if (size >= 4 && prng.chance(0.95)) {
      wire::store_word(block.data(), static_cast<std::uint32_t>(known[prng.below(known.size())]));
    }
    if (prng.chance(0.3)) {
      message.link(Message::copy_of(set.pool(), as_bytes("some data")));
    }
    endpoint->down().put_next(std::move(message));
    set.scheduler().poll(loop->now());
    bool failed = false;
    for (Message answer = endpoint->take(); answer; answer = endpoint->take()) {
      failed |= answer.type() == MessageType::error;
    }
    if (failed || prng.chance(0.01)) {
      endpoint.reset();
      endpoint = std::make_unique<Endpoint>(set, UdpSocket::Options{}, swallow);
    }
  }
  Endpoint sane(set);
  const wire::TransportAddress bound = sane.bind("127.0.0.1:0");
  sane.send(bound, "still here");
  EXPECT_TRUE(run_until_received(sane, 1));
}

TEST_F(KernelUdpTest, WithoutPrivilegesALowPortIsDenied) {
  int first_unprivileged = 0;
  std::ifstream("/proc/sys/net/ipv4/ip_unprivileged_port_start") >> first_unprivileged;
  if (first_unprivileged <= 1) {
    GTEST_SKIP() << "every port is for everybody here (ip_unprivileged_port_start)";
  }
  // The superuser may: be somebody else for a moment.
  if (::getuid() == 0 && ::seteuid(65534) != 0) {
    GTEST_SKIP() << "the superuser cannot drop its rights here";
  }
  Endpoint endpoint(set);
  endpoint.put_bind<BindReq>("127.0.0.1:1");
  const Message answer = endpoint.take();
  if (::getuid() == 0) {
    ASSERT_EQ(::seteuid(0), 0);
  }
  const auto refused = ErrorAck::decode(answer.bytes());
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->tli_error, TACCES);
}

}  // namespace
}  // namespace sluice::tpi
