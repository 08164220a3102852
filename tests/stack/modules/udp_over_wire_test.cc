// SPDX-License-Identifier: Apache-2.0
// timod, udp and ip over the memory wire: datagrams from one program's stream to another's.

#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <string>

#include "dlpi/register.h"
#include "stack/head/stream.h"
#include "stack/modules/register.h"
#include "tests/stack/head/timod_binding.h"
#include "tests/stack/modules/harness.h"

namespace sluice::test {
namespace {

using namespace wire::tpi;
using wire::TransportAddress;

constexpr std::uint16_t port_a = 5000;
constexpr std::uint16_t port_b = 6000;

TransportAddress address_of(char end, bool v6, std::uint16_t port) {
  const std::string text = v6 ? std::string("[fd00:77::") + (end == 'a' ? "1" : "2") + "]:"
                              : std::string("10.77.0.") + (end == 'a' ? "1" : "2") + ":";
  return TransportAddress::from_text(text + std::to_string(port)).value();
}

class TwoHosts : public testing::Test {
 protected:
  TwoHosts() {
    add_modules(registry_);
    dlpi::add_drivers(registry_);
  }

  std::unique_ptr<Module> make_module(std::string_view name,
                                      const std::vector<std::pair<std::string, ParameterValue>>& values) {
    Parameters parameters;
    for (const auto& [parameter, value] : values) {
      parameters.set(parameter, value);
    }
    return registry_.find(name)->make(set_, parameters).value();
  }

  std::unique_ptr<Stream> open(char end) {
    auto driver = make_module("wire", {{"name", "lab"}, {"end", std::string(1, end)}});
    std::unique_ptr<Stream> stream = Stream::open(set_, std::move(driver)).value();
    const std::vector<std::string> addresses = {end == 'a' ? "10.77.0.1/24" : "10.77.0.2/24",
                                                end == 'a' ? "fd00:77::1/64" : "fd00:77::2/64"};
    stream->set_nonblocking(true);
    EXPECT_TRUE(stream->push(make_module("ip", {{"address", addresses}})).has_value());
    EXPECT_TRUE(stream->push(make_module("udp", {})).has_value());
    EXPECT_TRUE(stream->push(make_module("timod", {})).has_value());
    return stream;
  }

  void send(Stream& stream, const TransportAddress& to, const std::string& text) {
    const std::vector<std::byte> address = encoded(to);
    std::vector<std::byte> block(64);
    block.resize(UnitdataReq{.address = address, .options = {}}.encode(block));
    ASSERT_TRUE(stream.putmsg(ConstBytes(block), as_bytes(text)).has_value());
    run();
  }

  /// Lets a second pass.
  void run() {
    const TimePoint end = set_.now() + std::chrono::seconds(1);
    for (TimePoint next = set_.now(); next <= end; next = set_.scheduler().next_deadline()) {
      set_.scheduler().poll(next);
    }
    set_.scheduler().poll(end);
  }

  StreamSet set_{{.seed = 1}};
  Registry registry_;
};

TEST_F(TwoHosts, DatagramsOfEverySizeArriveWholeWithTheirSender) {
  const auto a = open('a');
  const auto b = open('b');
  ASSERT_EQ(bind_by_timod(*a, {wire::Ipv6Address{}, port_a}), 0);
  ASSERT_EQ(bind_by_timod(*b, {wire::Ipv6Address{}, port_b}), 0);
  for (const bool v6 : {false, true}) {
    for (const std::size_t size : {0U, 1U, 1000U, 1472U, 1473U, 9000U, 60000U, 65507U}) {
      std::string sent(size, '\0');
      for (std::size_t i = 0; i < size; ++i) {
        sent[i] = static_cast<char>(i * 7 + size);
      }
      send(*a, address_of('b', v6, port_b), sent);
      const Message message = b->receive();
      ASSERT_TRUE(message) << size;
      EXPECT_EQ(data_text(message), sent);
      const auto arrived = UnitdataInd::decode(message.bytes());
      ASSERT_TRUE(arrived.has_value());
      EXPECT_EQ(TransportAddress::decode(arrived->address), address_of('a', v6, port_a));
    }
  }
}

TEST_F(TwoHosts, APortThatNobodyHasIsReportedAsRefused) {
  const auto a = open('a');
  const auto b = open('b');
  ASSERT_EQ(bind_by_timod(*a, {wire::Ipv6Address{}, port_a}), 0);
  for (const bool v6 : {false, true}) {
    send(*a, address_of('b', v6, 7), "anybody?");
    const Message message = a->receive();
    ASSERT_TRUE(message);
    const auto error = UderrorInd::decode(message.bytes());
    ASSERT_TRUE(error.has_value());
    EXPECT_EQ(error->error_type, ECONNREFUSED);
    EXPECT_EQ(TransportAddress::decode(error->destination), address_of('b', v6, 7));
  }
}

TEST_F(TwoHosts, TwoStreamsOfOneLinkCannotHaveOnePort) {
  const auto a = open('a');
  const auto b = open('b');
  const auto second = open('b');
  ASSERT_EQ(bind_by_timod(*b, {wire::Ipv6Address{}, port_b}), 0);
  EXPECT_EQ(bind_by_timod(*second, {wire::Ipv6Address{}, port_b}), TADDRBUSY);
}

}  // namespace
}  // namespace sluice::test
