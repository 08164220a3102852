// SPDX-License-Identifier: Apache-2.0
// Datagrams of a host for itself: to its own addresses, 127.0.0.0/8 and ::1, over the memory link, which must not see
// them. RFC 1122 section 3.2.1.3 (g), {127, <any>}: "Internal host loopback address. Addresses of this form MUST NOT
// appear outside a host." RFC 4291 section 2.5.3, ::1: "It may be used by a node to send an IPv6 packet to itself."
#include <gmock/gmock.h>

#include <cerrno>
#include <utility>

#include "dlpi/link_stream.h"
#include "dlpi/memory_link.h"
#include "dlpi/register.h"
#include "stack/head/stream.h"
#include "stack/modules/register.h"
#include "stack/wire/loopback.h"
#include "tests/stack/modules/frame_maker.h"
#include "tests/stack/modules/ip_bed.h"

namespace sluice::ip_test {
namespace {

using wire::TransportAddress;

constexpr std::uint16_t self_port = 7000;
constexpr std::uint16_t other_port = 7001;
constexpr std::uint16_t closed_port = 9;

/// All that means this host.
const std::vector<std::string> selves{"10.77.0.1", "127.0.0.1", "127.1.2.3", "fd00:77::1", "::1"};

Octets encoded(const TransportAddress& address) {
  Octets bytes(address.encoded_size());
  address.encode(bytes);
  return bytes;
}

/// Sends every datagram back where it came from, from inside the put procedure.
class Echo : public Module {
 public:
  Echo() : Module("echo") {}
  void rput(Batch&& batch) override {
    while (Message message = batch.pop()) {
      message.encode();
      const auto indication = tpi::UnitdataInd::decode(std::as_const(message).bytes());
      if (!indication) {
        read_queue().put_next(std::move(message));
        continue;
      }
      ++echoed;
      depth_max = std::max(depth_max, ++depth_);
      const tpi::UnitdataReq request{indication->address, {}};
      Message answer = Message::allocate(set().pool(), request.encoded_size(), 0, MessageType::proto);
      request.encode(answer.append(request.encoded_size()));
      Message data = message.unlink();
      answer.link(data ? std::move(data) : Message::allocate(set().pool(), 0, 64));
      write_queue().put_next(std::move(answer));
      --depth_;
    }
  }
  std::uint64_t echoed = 0;
  int depth_max = 0;

 private:
  int depth_ = 0;
};

/// Streams of one host, on end a of a wire; the far end counts what comes out.
class Self : public testing::Test, public testing::WithParamInterface<ProcessingMode> {
 protected:
  Self() : set_({.defer_bytes_min = 0, .seed = 1}) {
    add_modules(registry_);
    sluice::dlpi::add_drivers(registry_);
    far_ = open_driver("b");
  }

  std::unique_ptr<Module> make(std::string_view name, const Parameters& parameters = {}) {
    return registry_.find(name)->make(set_, parameters).value();
  }
  std::unique_ptr<Stream> open_driver(const std::string& end) {
    Parameters parameters;
    parameters.set("name", "lab");
    parameters.set("end", end);
    std::unique_ptr<Module> module = make("wire", parameters);
    auto* const driver = dynamic_cast<sluice::dlpi::LinkStream*>(module.get());
    std::unique_ptr<Stream> stream = Stream::open(set_, std::move(module)).value();
    (end == "a" ? link_ : far_link_) = driver->link();
    (end == "a" ? driver_ : far_driver_) = driver;
    stream->set_nonblocking(true);
    stream->set_mode(GetParam());
    return stream;
  }
  /// With ip and, unless `ip_only`, udp.
  std::unique_ptr<Stream> open(bool ip_only = false) {
    std::unique_ptr<Stream> stream = open_driver("a");
    Parameters parameters;
    parameters.set("address", std::vector<std::string>{"10.77.0.1/24", "fd00:77::1/64"});
    auto ip = make("ip", parameters);
    ip_ = dynamic_cast<Ip*>(ip.get());
    EXPECT_TRUE(stream->push(std::move(ip)));
    if (!ip_only) {
      EXPECT_TRUE(stream->push(make("udp")));
    }
    for (int second = 0; second < 5; ++second) {  // its addresses and groups are told of
      set_.scheduler().poll(now_ += 1s);
    }
    said_at_start_ = far_link_ == nullptr ? 0 : far_link_->statistics().frames_received;
    return stream;
  }
  std::unique_ptr<Stream> open_bound(std::uint16_t local_port, const std::string& local = {}) {
    std::unique_ptr<Stream> stream = open();
    bind(*stream, encoded({address(local.empty() ? "::" : local), local_port}));
    return stream;
  }
  void bind(Stream& stream, ConstBytes bytes) {
    Octets block(64);
    block.resize(tpi::BindReq{.address = bytes}.encode(block));
    ASSERT_TRUE(stream.putmsg(ConstBytes(block), std::nullopt));
    const Message answer = stream.receive();
    ASSERT_TRUE(answer && tpi::BindAck::decode(answer.bytes()));
  }
  static Status send(Stream& stream, const TransportAddress& to, ConstBytes data) {
    const Octets bytes = encoded(to);
    Octets block(64);
    block.resize(tpi::UnitdataReq{bytes, {}}.encode(block));
    return stream.putmsg(ConstBytes(block), data);
  }
  void run() { set_.scheduler().poll(now_ += 1ms); }

  /// The next datagram: who sent it, and its data.
  static std::pair<std::string, Octets> received(Stream& stream) {
    Message message = stream.receive();
    if (!message || message.materialize() == TransformResult::failed) {
      return {"nothing", {}};
    }
    const auto indication = tpi::UnitdataInd::decode(std::as_const(message).bytes());
    return indication ? std::pair{TransportAddress::decode(indication->address).value().to_text(), data_of(message)}
                      : std::pair{std::string("no datagram"), Octets{}};
  }
  static int error_of(Stream& stream) {
    const Message message = stream.receive();
    const auto error =
        message ? tpi::UderrorInd::decode(message.bytes()) : std::unexpected(tpi::Malformed::short_block);
    return error ? error->error_type : 0;
  }
  [[nodiscard]] static std::uint64_t count(const Module& module, std::string_view name) {
    const auto found =
        std::ranges::find(module.counters(), name, [](const Counter* counter) { return counter->name(); });
    EXPECT_NE(found, module.counters().end()) << name;
    return (*found)->value();
  }
  /// What the far end has seen since the last stream was opened: nothing is to be.
  void expect_nothing_outside() const { EXPECT_EQ(far_link_->statistics().frames_received, said_at_start_); }

  StreamSet set_;
  Registry registry_;
  TimePoint now_{};
  std::unique_ptr<Stream> far_;
  sluice::dlpi::Link* link_ = nullptr;
  sluice::dlpi::Link* far_link_ = nullptr;
  sluice::dlpi::LinkStream* driver_ = nullptr;
  sluice::dlpi::LinkStream* far_driver_ = nullptr;
  Ip* ip_ = nullptr;
  std::uint64_t said_at_start_ = 0;  // frames
};

TEST_P(Self, ADatagramOfAnySizeComesBackFromTheAddressItWentTo) {
  const auto stream = open_bound(self_port);
  const std::uint64_t packets_at_start = count(*ip_, "packets_out");
  std::uint64_t sent = 0;
  for (const std::string& self : selves) {
    for (const std::size_t size : {0U, 1U, 1472U, 1473U, 9000U, 65'507U}) {
      SCOPED_TRACE(self + " " + std::to_string(size));
      const TransportAddress to{address(self), self_port};
      ASSERT_TRUE(send(*stream, to, pattern(size)));
      ++sent;
      EXPECT_FALSE(stream->poll().readable) << "a service procedure delivers it, not the sender's put";
      run();
      EXPECT_EQ(received(*stream), (std::pair{to.to_text(), pattern(size)}));
    }
  }
  EXPECT_EQ(count(*ip_, "looped"), sent);
  EXPECT_EQ(count(*ip_, "delivered"), sent);
  EXPECT_EQ(count(*driver_, "looped"), sent);
  EXPECT_EQ(count(*ip_, "packets_out"), packets_at_start);
  expect_nothing_outside();
}

/// What loops has no device whose memory would bound it: bytes are counted, not only datagrams, and beyond
/// loop_bytes_max the sender's own queue fills. When what waited has gone everything else comes, in order.
TEST_P(Self, LargeDatagramsThatLoopAreBoundedByTheirBytes) {
  constexpr std::size_t size = 16'384;
  constexpr std::size_t several = 24;
  const auto stream = open_bound(self_port);
  const TransportAddress to{address("10.77.0.1"), self_port};
  for (std::size_t number = 0; number < several; ++number) {
    ASSERT_TRUE(send(*stream, to, Octets(size, static_cast<std::byte>(number))));
  }
  constexpr std::size_t udp_header_size = 8;
  constexpr std::size_t fit = (sluice::dlpi::Link::loop_bytes_max + size + udp_header_size) / (size + udp_header_size);
  static_assert(fit < several);
  EXPECT_EQ(driver_->write_queue().messages(), several - fit);
  for (std::size_t number = 0; number < several; ++number) {
    run();
    ASSERT_EQ(received(*stream).second, Octets(size, static_cast<std::byte>(number))) << number;
  }
  EXPECT_EQ(received(*stream).first, "nothing");
  EXPECT_EQ(count(*driver_, "looped"), several);
  expect_nothing_outside();
}

TEST_P(Self, AnotherStreamOfTheHostIsReachedByItsPort) {
  const auto stream = open_bound(self_port);
  const auto other = open_bound(other_port);
  for (const std::string& self : selves) {
    SCOPED_TRACE(self);
    ASSERT_TRUE(send(*stream, {address(self), other_port}, pattern(100)));
    run();
    EXPECT_EQ(received(*other), (std::pair{TransportAddress{address(self), self_port}.to_text(), pattern(100)}));
    EXPECT_EQ(received(*stream).first, "nothing");
  }
  expect_nothing_outside();
}

TEST_P(Self, ItWorksWhileTheLinkIsDown) {
  const auto stream = open_bound(self_port);
  far_.reset();
  far_link_ = nullptr;
  ASSERT_FALSE(link_->up());
  ASSERT_TRUE(send(*stream, {address("::1"), self_port}, pattern(10)));
  run();
  EXPECT_EQ(received(*stream).second, pattern(10));
}

// A stream that is bound to a loopback address hears this host only, and speaks to nobody else.
TEST_P(Self, ALoopbackAddressCanBeBound) {
  const auto local = open_bound(self_port, "127.0.0.1");
  const auto stream = open_bound(other_port);
  ASSERT_TRUE(send(*stream, {address("127.0.0.1"), self_port}, pattern(10)));
  ASSERT_TRUE(send(*stream, {address("10.77.0.1"), self_port}, pattern(20)));
  run();
  EXPECT_EQ(received(*local).second, pattern(10));
  EXPECT_EQ(received(*local).first, "nothing");
  ASSERT_TRUE(send(*local, {address("10.77.0.2"), self_port}, pattern(10)));
  run();
  EXPECT_EQ(error_of(*local), EADDRNOTAVAIL);
  expect_nothing_outside();
}

// RFC 1122 section 3.2.2: "An ICMP error message MUST NOT be sent as the result of receiving: [...] a datagram whose
// source address does not define a single host -- e.g., a zero address, a loopback address".
TEST_P(Self, AClosedPortIsReportedButNotToALoopbackAddress) {
  const auto stream = open_bound(self_port);
  const auto host = open();  // unbound: the one that answers
  for (const std::string& self : selves) {
    SCOPED_TRACE(self);
    ASSERT_TRUE(send(*stream, {address(self), closed_port}, pattern(100)));
    run();
    run();
    EXPECT_EQ(error_of(*stream), address(self).is_loopback() ? 0 : ECONNREFUSED);
  }
  EXPECT_EQ(count(*ip_, "icmp_errors_out"), 2U);
  expect_nothing_outside();
}

// RFC 1122 section 3.2.2.6: "Every host MUST implement an ICMP Echo server function".
TEST_P(Self, AHostAnswersItsOwnEchoRequests) {
  for (const bool v6_ping : {false, true}) {
    const auto stream = open(/*ip_only=*/true);
    const std::uint8_t protocol = v6_ping ? wire::protocol_icmp6 : wire::protocol_icmp4;
    const wire::NetworkAddress any{{}, protocol};
    Octets bytes(any.encoded_size());
    any.encode(bytes);
    bind(*stream, bytes);
    for (const std::string& self : selves) {
      if (address(self).is_v6() != v6_ping) {
        continue;
      }
      SCOPED_TRACE(self);
      const V6 header{.source = self, .destination = self};
      const wire::IcmpEcho request{false, 7, 1};
      const Octets ping = v6_ping ? icmp(wire::Icmp6Message(request), pattern(56), header)
                                  : icmp(wire::Icmp4Message(request), pattern(56));
      const wire::NetworkAddress to{address(self), protocol};
      Octets destination(to.encoded_size());
      to.encode(destination);
      Octets block(64);
      block.resize(tpi::UnitdataReq{destination, {}}.encode(block));
      ASSERT_TRUE(stream->putmsg(ConstBytes(block), ping));
      run();
      run();
      const Message reply = stream->receive();
      ASSERT_TRUE(reply);
      EXPECT_EQ(unitdata_of(reply).source.address, address(self));
      EXPECT_EQ(part(data_of(reply), 8), pattern(56));
    }
    EXPECT_EQ(count(*ip_, "echo_answered"), v6_ping ? 2U : 3U);
  }
  expect_nothing_outside();
}

// A port that answers itself goes on for ever, but neither recurses nor keeps the rest from running, nor takes memory.
TEST_P(Self, APortThatEchoesToItselfIsBounded) {
  const auto stream = open_bound(self_port);
  auto module = std::make_unique<Echo>();
  Echo& echo = *module;
  ASSERT_TRUE(stream->push(std::move(module)));
  for (const std::string& self : selves) {
    for (int copies = 0; copies < 20; ++copies) {
      ASSERT_TRUE(send(*stream, {address(self), self_port}, pattern(10)));
    }
  }
  constexpr std::size_t services = 50;
  set_.scheduler().poll(now_ += 1ms, services);
  const std::uint64_t first = echo.echoed;
  EXPECT_GT(first, 100U);
  EXPECT_LE(first, services * sluice::dlpi::Link::burst_frames_max);
  EXPECT_EQ(set_.scheduler().next_deadline(), set_.now()) << "there is more to do: others get their turn first";
  for (int round = 0; round < 50; ++round) {
    set_.scheduler().poll(now_ += 1ms, services);
  }
  EXPECT_GT(echo.echoed, 20 * first);
  EXPECT_EQ(echo.depth_max, 1);
  EXPECT_EQ(count(*driver_, "transmit_overrun") + count(*driver_, "flow_dropped"), 0U);
  expect_nothing_outside();
}

// One that does not read is not flooded: its sender, itself, is stopped, and nothing of what was taken is lost.
TEST_P(Self, ASenderWaitsForAReaderThatIsSlow) {
  const auto stream = open_bound(self_port);
  std::size_t accepted = 0;
  constexpr std::size_t tries = 20'000;
  Octets data(1000);
  for (std::size_t at = 0; at < tries; ++at) {
    store_big_endian(data.data(), static_cast<std::uint32_t>(accepted));
    accepted += send(*stream, {address("127.0.0.1"), self_port}, data) ? 1U : 0U;
    run();
  }
  EXPECT_GT(accepted, 100U);
  EXPECT_LT(accepted, tries);
  std::uint32_t got = 0;
  for (std::size_t idle = 0; idle < 10; ++idle) {
    for (Octets next = received(*stream).second; !next.empty(); next = received(*stream).second) {
      EXPECT_EQ(load_big_endian<std::uint32_t>(next.data()), got) << "in order";
      ++got;
      idle = 0;
    }
    run();
  }
  EXPECT_EQ(got, accepted);
  EXPECT_TRUE(send(*stream, {address("127.0.0.1"), self_port}, data)) << "there is room again";
  EXPECT_EQ(count(*driver_, "transmit_overrun") + count(*driver_, "flow_dropped"), 0U);
}

// Threat: what only this host may send does not come from outside, also not right after it has sent such itself, nor
// with its own MAC address as the source. RFC 4291 section 2.5.3: "A packet received on an interface with a destination
// address of loopback must be dropped."
TEST_P(Self, WhatLooksLikeOursIsNotTakenFromTheLink) {
  const auto stream = open_bound(self_port);
  struct Row {
    std::string_view source, destination;
  };
  const std::vector<Row> rows{
      {"10.77.0.1", "10.77.0.1"},   {"127.0.0.1", "10.77.0.1"}, {"10.77.0.2", "127.0.0.1"}, {"127.0.0.1", "127.0.0.1"},
      {"fd00:77::1", "fd00:77::1"}, {"::1", "fd00:77::1"},      {"fd00:77::2", "::1"},      {"::1", "::1"}};
  for (const Row& row : rows) {
    SCOPED_TRACE(testing::Message() << row.source << " to " << row.destination);
    ASSERT_TRUE(send(*stream, {address(row.destination), self_port}, pattern(10)));
    run();
    EXPECT_EQ(received(*stream).second, pattern(10));
    const IpAddress source = address(row.source);
    const IpAddress destination = address(row.destination);
    const Octets datagram = udp_datagram(source, destination, self_port, self_port, 10);
    const bool v4_row = source.is_v4();
    const Octets packet_octets = v4_row ? packet(V4{.source = row.source, .destination = row.destination}, datagram)
                                        : packet(V6{.source = row.source, .destination = row.destination}, datagram);
    for (const MacAddress& from : {peer_mac, link_->address()}) {
      Octets frame(wire::EthernetHeader::size);
      wire::EthernetHeader{link_->address(), from, v4_row ? wire::ethertype_ipv4 : wire::ethertype_ipv6}.emit(frame);
      Batch batch(Message::copy_of(set_.pool(), frame + packet_octets));
      const std::uint64_t dropped = count(*ip_, "bad_source") + count(*ip_, "not_ours") + count(*driver_, "unclaimed");
      far_link_->send(batch);
      run();
      EXPECT_EQ(received(*stream).first, "nothing");
      EXPECT_EQ(count(*ip_, "bad_source") + count(*ip_, "not_ours") + count(*driver_, "unclaimed"), dropped + 1);
    }
  }
}

// A DL_LOOPBACK that nobody can take ends under a counter.
TEST_P(Self, WhatCannotLoopIsCounted) {
  const auto stream = open_driver("a");  // not bound
  const auto put = [&](ConstBytes block, ConstBytes data) {
    Message message = Message::copy_of(set_.pool(), block, 0, MessageType::ctl);
    if (!data.empty()) {
      message.link(Message::copy_of(set_.pool(), data));
    }
    ASSERT_TRUE(stream->send(Batch(std::move(message))));
    run();
  };
  Octets loop(wire::dlpi::Loopback::size);
  wire::dlpi::Loopback{wire::ethertype_ipv4}.encode(loop);
  put(loop, pattern(30));
  EXPECT_EQ(count(*driver_, "unexpected"), 1U);
  put(part(loop, 0, 4), pattern(30));
  EXPECT_EQ(count(*driver_, "unexpected"), 2U);
  const auto host = open_bound(self_port);  // has a filter, so that this is nobody's
  ASSERT_TRUE(send(*host, {address("127.0.0.1"), closed_port}, pattern(10)));
  run();
  EXPECT_EQ(link_->statistics().frames_unclaimed, 1U);
  EXPECT_EQ(received(*host).first, "nothing");
}

INSTANTIATE_TEST_SUITE_P(Modes, Self, testing::Values(ProcessingMode::layered, ProcessingMode::fused),
                         [](const auto& mode) { return std::string(name_of(mode.param)); });

}  // namespace
}  // namespace sluice::ip_test
