// SPDX-License-Identifier: Apache-2.0
// Messages over connections: refusals, cancellation, peers that are not there yet or die, and peers, plain sockets of
// the test's, that do not keep to docs/formats/msg.md.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <vector>

#include "tests/msg/callers.h"

namespace sluice::test::msgs {
namespace {

/// A socket that connects to an endpoint, or that an endpoint connects to.
class RawPeer {
 public:
  RawPeer() : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {}
  explicit RawPeer(int socket) : socket_(socket) {}
  ~RawPeer() { ::close(socket_); }
  RawPeer(const RawPeer&) = delete;
  RawPeer& operator=(const RawPeer&) = delete;

  void connect(const Peer& to) const {
    const sockaddr_in address = loopback(to.port);
    ASSERT_EQ(::connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  }
  /// Its port.
  [[nodiscard]] std::uint16_t listen() const {
    sockaddr_in address = loopback(0);
    socklen_t size = sizeof address;
    EXPECT_EQ(::bind(socket_, reinterpret_cast<const sockaddr*>(&address), size), 0);
    EXPECT_EQ(::listen(socket_, 1), 0);
    EXPECT_EQ(::getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &size), 0);
    return ntohs(address.sin_port);
  }
  [[nodiscard]] int accept() const { return ::accept(socket_, nullptr, nullptr); }
  void send(const std::vector<std::byte>& bytes) const {
    ASSERT_EQ(::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
  }
  [[nodiscard]] bool ended() const {
    std::byte one{};
    const auto got = ::recv(socket_, &one, 1, MSG_DONTWAIT);
    return got == 0 || (got < 0 && errno != EAGAIN);
  }

 private:
  static sockaddr_in loopback(std::uint16_t port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
  }
  int socket_;
};

Arrangement over_kernel_tcp() { return {.name = "kernel_tcp", .kernel = true, .module = "tcp"}; }

TEST(MsgConnections, APeerThatLiesIsCutOffAndNothingIsKeptOfIt) {
  auto garbage = frames({hello});
  garbage[0] = std::byte{0};
  const std::vector<std::vector<std::byte>> lies = {
      garbage,
      frames({{.type = FrameKind::message, .number = 1, .length = 0}}),  // without hello
      frames({hello, hello}),                                            // twice
      frames({hello, {.type = FrameKind::message, .number = 2}}),        // not the next number
      frames({hello, {.type = FrameKind::message, .number = 1}, {.type = FrameKind::message, .number = 1}}),
      frames({hello, {.type = FrameKind::done, .number = 1}}),                               // the other side's
      frames({hello, {.type = FrameKind::message, .number = 1, .length = (1U << 20) + 1}}),  // beyond what is taken
      frames({hello, {.type = FrameKind::message, .number = 1, .length = ~0ULL}}),
      frames({hello, {.type = FrameKind::message, .number = 1, .length = 1ULL << 63}}),
  };
  Bed bed(over_kernel_tcp(), 2, {.connection_message_bytes_max = 1 << 20});
  for (std::size_t at = 0; at < lies.size(); ++at) {
    const RawPeer liar;
    liar.connect(bed.peer(1));
    liar.send(lies[at]);
    bed.settle();
    EXPECT_TRUE(liar.ended()) << at;
    EXPECT_EQ(bed[1].statistics().malformed, at + 1);
    EXPECT_EQ(bed[1].statistics().unexpected_bytes, 0U) << at;
  }
  std::vector<std::byte> buffer(10);
  const Handle receive = *bed[1].post(buffer, {.bits = 1});
  const auto bytes = content(1, 10);
  EXPECT_EQ(bed[0].wait(*bed[0].send(bed.peer(1), 1, bytes), bed.soon())->error, 0);
  EXPECT_EQ(bed[1].wait(receive, bed.soon())->error, 0);
  EXPECT_TRUE(buffer == bytes);
}

// A length within the bounds that never comes: its receive ends when the peer goes, and what it held is given back.
TEST(MsgConnections, AMessageThatEndsEarlyIsLost) {
  for (const bool expected : {true, false}) {
    Bed bed(over_kernel_tcp(), 2);
    std::vector<std::byte> buffer(1000);
    Handle receive;
    if (expected) {
      receive = *bed[1].post(buffer, {.bits = 5});
    }
    {
      const RawPeer liar;
      liar.connect(bed.peer(1));
      liar.send(frames({hello, {.type = FrameKind::message, .number = 1, .tag = 5, .length = 1000}}, 999));
      bed.settle();
      EXPECT_EQ(bed[1].statistics().unexpected_bytes, expected ? 0U : 1000U);
      EXPECT_EQ(bed[1].statistics().lost, 0U);
    }
    if (expected) {
      EXPECT_EQ(bed[1].wait(receive, bed.soon())->error, ECONNABORTED);
    }
    bed.settle();
    EXPECT_EQ(bed[1].statistics().lost, 1U);
    EXPECT_EQ(bed[1].statistics().unexpected_bytes, 0U);
    EXPECT_EQ(bed[1].statistics().malformed, 0U);
  }
}

// The called lies: it answers what has not been sent, or has not left.
TEST(MsgConnections, AnAnswerThatIsNotDueEndsTheConnection) {
  const std::vector<std::vector<std::byte>> lies = {
      frames({{.type = FrameKind::done, .number = 2}}), frames({hello}),
      frames({{.type = FrameKind::done, .number = 1}, {.type = FrameKind::done, .number = 1}}),
      frames({{.type = FrameKind::message, .number = 1}})};
  for (std::size_t at = 0; at < lies.size(); ++at) {
    Bed bed(over_kernel_tcp(), 1);
    const RawPeer listener;
    const Peer peer{*wire::IpAddress::from_text("127.0.0.1"), listener.listen()};
    const auto bytes = content(1, 10);
    const Handle sending = *bed[0].send(peer, 1, bytes);
    bed.settle();
    const RawPeer called(listener.accept());
    called.send(lies[at]);
    const auto done = bed[0].wait(sending, bed.soon());
    ASSERT_TRUE(done);
    bed.settle();
    EXPECT_EQ(done->error, at == 2 ? 0 : EPROTO) << at;
    EXPECT_EQ(bed[0].statistics().malformed, 1U) << at;
  }
}

// The called refuses what is still leaving, twice.
TEST(MsgConnections, AMessageIsRefusedOnce) {
  for (const bool twice : {false, true}) {
    Bed bed(over_kernel_tcp(), 1);
    const RawPeer listener;
    const Peer peer{*wire::IpAddress::from_text("127.0.0.1"), listener.listen()};
    const auto bytes = content(1, 40'000'000);  // more than fits between the two
    const Handle sending = *bed[0].send(peer, 1, bytes);
    bed.settle();
    const RawPeer called(listener.accept());
    called.send(frames({{.type = FrameKind::refused, .number = 1}}));
    if (twice) {
      called.send(frames({{.type = FrameKind::refused, .number = 1}}));
    }
    bed.settle();
    EXPECT_EQ(bed[0].statistics().malformed, twice ? 1U : 0U);
    const auto done = bed[0].test(sending);
    ASSERT_EQ(done.has_value(), twice) << "the rest of it still leaves";
    EXPECT_TRUE(!twice || done->error == EPROTO);
  }
}

// docs/formats/msg.md: "So does a caller that says no `hello` within ten seconds."
TEST(MsgConnections, ACallerThatSaysNoHelloInTimeIsCutOff) {
  Bed bed({.name = "hello", .module = "tcp"}, 1, {.connections_max = 3});
  const auto greeting = frames({hello});
  const WireCaller silent(bed);
  const WireCaller slow(bed);
  const WireCaller greeted(bed);
  greeted.say(greeting);
  slow.say(ConstBytes(greeting).first(MsgFrame::size - 1));
  bed.pass(9900ms);
  EXPECT_EQ(bed[0].statistics().malformed, 0U);
  EXPECT_EQ(silent.ended(), 0);
  EXPECT_EQ(slow.ended(), 0);
  bed.pass(200ms);
  EXPECT_EQ(bed[0].statistics().malformed, 2U);
  EXPECT_EQ(silent.ended(), ECONNRESET);
  EXPECT_EQ(slow.ended(), ECONNRESET);
  // Who has said it may be silent then for as long as he likes, and the places of the others are free.
  bed.pass(60s);
  EXPECT_EQ(greeted.ended(), 0);
  const WireCaller later(bed);
  later.say(greeting);
  std::vector<std::byte> buffer(3);
  const Handle receive = *bed[0].post(buffer, {.bits = 5});
  later.say(frames({{.type = FrameKind::message, .number = 1, .tag = 5, .length = 3}}, 3));
  EXPECT_EQ(bed[0].wait(receive, bed.soon())->bytes, 3U);
  EXPECT_EQ(bed[0].statistics().callers_refused, 0U);
}

TEST(MsgConnections, ConnectionsAreBounded) {
  Bed bed(over_kernel_tcp(), 1, {.connections_max = 2});
  const std::array<RawPeer, 3> callers;
  for (const RawPeer& caller : callers) {
    caller.connect(bed.peer(0));
    bed.settle();
  }
  EXPECT_FALSE(callers[0].ended());
  EXPECT_FALSE(callers[1].ended());
  EXPECT_TRUE(callers[2].ended());
  EXPECT_EQ(bed[0].statistics().callers_refused, 1U);
}

struct Provided {
  std::string name;
  bool kernel;
  std::string module;
  friend std::ostream& operator<<(std::ostream& out, const Provided& made) { return out << made.name; }
};

class OverConnections : public testing::TestWithParam<Provided> {
 protected:
  [[nodiscard]] Arrangement arrangement() const {
    return {.name = GetParam().name, .kernel = GetParam().kernel, .module = GetParam().module};
  }
};

INSTANTIATE_TEST_SUITE_P(Providers, OverConnections,
                         testing::Values(Provided{"kernel_tcp", true, "tcp"}, Provided{"tcp", false, "tcp"},
                                         Provided{"xtp_over_kernel_udp", true, "xtp"},
                                         Provided{"xtp_over_udp", false, "xtp"}),
                         [](const auto& tested) { return tested.param.name; });

TEST_P(OverConnections, ARefusalIsToldAndLaterMessagesCome) {
  Bed bed(arrangement(), 2, {.unexpected_bytes_max = 0, .unexpected_messages_max = 0});
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{300'000}}) {
    const auto bytes = content(size, size);
    EXPECT_EQ(bed[0].wait(*bed[0].send(bed.peer(1), size, bytes), bed.soon())->error, EXFULL) << size;
    std::vector<std::byte> buffer(size);
    const Handle receive = *bed[1].post(buffer, {.bits = size});
    EXPECT_EQ(bed[0].wait(*bed[0].send(bed.peer(1), size, bytes), bed.soon())->error, 0) << size;
    EXPECT_EQ(bed[1].wait(receive, bed.soon())->error, 0);
    EXPECT_TRUE(buffer == bytes);
  }
  EXPECT_EQ(bed[1].statistics().refused, 3U);
}

TEST_P(OverConnections, AReceiveInTheMiddleOfItsMessageCanBeCancelled) {
  Bed bed(arrangement(), 2);
  std::vector<std::byte> buffer(40'000'000);
  const auto bytes = content(1, buffer.size());
  const Handle receive = *bed[1].post(buffer, {.bits = 1});
  const Handle sending = *bed[0].send(bed.peer(1), 1, bytes);
  for (int turns = 0; turns < 100'000 && buffer[100] != bytes[100]; ++turns) {
    static_cast<void>(bed.waiter().wait(bed.soon()));
  }
  ASSERT_EQ(bed[1].test(receive).error().code, EAGAIN);
  EXPECT_TRUE(bed[1].cancel(receive));
  EXPECT_EQ(bed[0].wait(sending, bed.soon())->error, EXFULL);
  bed.settle();
  EXPECT_NE(buffer.back(), bytes.back()) << "the rest does not land";
  const Handle next = *bed[1].post(buffer, {.bits = 2});
  EXPECT_EQ(bed[0].wait(*bed[0].send(bed.peer(1), 2, ConstBytes(bytes).first(9)), bed.soon())->error, 0);
  EXPECT_EQ(bed[1].wait(next, bed.soon())->bytes, 9U);
}

TEST(MsgConnections, APeerThatComesLaterIsCalledAgainAndOneThatNeverComesIsGivenUp) {
  Bed bed(over_kernel_tcp(), 1, {.calls_max = 6});
  std::uint16_t port = 0;
  {
    const RawPeer reserved;
    port = reserved.listen();
  }
  const Peer there{*wire::IpAddress::from_text("127.0.0.1"), port};
  const auto bytes = content(1, 10);
  EXPECT_EQ(bed[0].wait(*bed[0].send(there, 1, bytes), bed.soon())->error, ECONNREFUSED);
  const Handle sending = *bed[0].send(there, 1, bytes);
  bed.pass(50ms);
  EXPECT_EQ(bed[0].test(sending).error().code, EAGAIN);
  const auto later = bed.open(1, {.local = there});
  ASSERT_TRUE(later) << later.error().text;
  std::vector<std::byte> buffer(10);
  const Handle receive = *(*later)->post(buffer, {.bits = 1});
  EXPECT_EQ((*later)->wait(receive, bed.soon())->error, 0);
  EXPECT_TRUE(buffer == bytes);
}

TEST_P(OverConnections, WhenAPeerClosesWhatHasNoAnswerFailsAndWhatHasIsDelivered) {
  Bed bed(arrangement(), 2);
  std::vector<std::byte> buffer(10);
  const auto bytes = content(1, 10);
  const Handle receive = *bed[1].post(buffer, {.bits = 1});
  const Handle sending = *bed[0].send(bed.peer(1), 1, bytes);
  EXPECT_EQ(bed[1].wait(receive, bed.soon())->error, 0);
  bed.close(1);  // at once: what it has answered arrives all the same
  EXPECT_EQ(bed[0].wait(sending, bed.soon())->error, 0);
}

}  // namespace
}  // namespace sluice::test::msgs
