// SPDX-License-Identifier: Apache-2.0
// Bursts of ICMP errors at the transport of a program that sends: 1 to 5,000 T_UDERROR_IND come up at once, over either
// provider. All are taken with no further event and in bounded work, and what is sent and received beside them comes.
//
// SLUICE_ERROR_BURSTS: how many are tried (1000); SLUICE_ERROR_BURST_SEED: that one alone.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>
#include <string>
#include <vector>

#include "apps/ftx/transport/transport.h"
#include "base/prng.h"
#include "dlpi/register.h"
#include "stack/modules/register.h"
#include "stack/wire/data_unit.h"
#include "tests/seeds.h"
#include "tests/stack/head/simulated_waiter.h"
#include "tpi/register.h"

namespace sluice::ftx {
namespace {

using wire::DataUnit;
using wire::IpAddress;
using wire::TransportAddress;

constexpr std::size_t errors_max = 5000;

/// Passes everything on, and sends up what the test makes it.
class Storm final : public Module {
 public:
  Storm() : Module("storm") { last = this; }
  [[nodiscard]] bool handles_deferred() const override { return true; }
  [[nodiscard]] bool handles_segments() const override { return true; }

  void errors(std::size_t count, const TransportAddress& about, int error) {
    Batch batch;
    for (std::size_t at = 0; at < count; ++at) {
      DataUnit unit;
      unit.kind = DataUnit::Kind::transport_error;
      unit.peer = about.address;
      unit.peer_port = about.port;
      unit.error = error;
      Message message = Message::of_native(set().pool(), unit);
      ASSERT_TRUE(message);
      batch.push(std::move(message));
    }
    read_queue().put_next(std::move(batch));
  }

  static inline Storm* last = nullptr;  // the test has one
};

Entry storm_entry() {
  return {.name = "storm",
          .summary = "errors",
          .lower = accepts(Service::transport),
          .upper = Service::transport,
          .make = [](StreamSet&, const Parameters&) -> Result<std::unique_ptr<Module>> {
            return std::make_unique<Storm>();
          }};
}

class Heard final : public DatagramHandler {
 public:
  void on_datagram(ConstBytes datagram, const Peer&) override {
    datagrams.emplace_back(datagram.begin(), datagram.end());
  }
  void on_refused(const Peer& peer) override {
    ++refused;
    EXPECT_EQ(peer, wanted);
  }
  void on_too_big() override { ++too_big; }

  Peer wanted;
  std::vector<std::vector<std::byte>> datagrams;
  std::size_t refused = 0;
  std::size_t too_big = 0;
};

constexpr std::array providers{
    R"([stack.main]
driver = { kind = "wire", name = "lab", end = "a" }
push = ["ip", "udp", "storm", "timod"]
ip = { address = ["10.77.0.1/24"] }
)",
    R"([stack.main]
driver = { kind = "kernel_udp" }
push = ["storm", "timod"]
)"};

class ErrorBurst : public testing::TestWithParam<const char*> {
 protected:
  ErrorBurst() {
    add_modules(registry_);
    dlpi::add_drivers(registry_);
    tpi::add_providers(registry_);
    registry_.add(storm_entry());
  }
  [[nodiscard]] bool is_kernel() const { return std::string_view(GetParam()).contains("kernel_udp"); }

  void play(std::uint64_t seed) {
    Prng prng(seed);
    StreamSet set({.seed = seed});
    test::SimulatedWaiter waiter(set);
    const auto file = StackFile::parse(GetParam(), "test", registry_);
    ASSERT_TRUE(file) << file.error().text;
    StackDeclaration stack = *file->find("").value();
    stack.mode = prng.below(2) == 0 ? ProcessingMode::layered : ProcessingMode::fused;
    const IpAddress own = IpAddress::from_text(is_kernel() ? "127.0.0.1" : "10.77.0.1").value();
    auto opened = Transport::open(set, waiter, stack, {own, 0});
    ASSERT_TRUE(opened) << opened.error().text;
    Transport& transport = **opened;

    // As many of one size class as of another.
    const std::size_t count = std::min(1 + prng.below(std::size_t{1} << (1 + prng.below(13))), errors_max);
    const TransportAddress about{own, static_cast<std::uint16_t>(1 + prng.below(65535))};
    const int error = std::array{ECONNREFUSED, EMSGSIZE, EHOSTUNREACH}[prng.below(3)];
    Heard heard;
    heard.wanted = peer_of(about);
    Storm::last->errors(count, about, error);

    // It sends while they wait: what it loses to them is lost as by a network, and no call takes more than its share.
    std::vector<std::byte> payload(1 + prng.below(1400), std::byte{7});
    std::size_t sends = 0;
    while (heard.datagrams.empty()) {
      ASSERT_LE(++sends, count / Transport::burst_max + 2) << "sending never gets through";
      Burst burst;
      burst.room()[0] = std::byte{1};
      burst.add({.to = peer_of(transport.local()), .front = burst.room().first(1), .rest = payload});
      EXPECT_TRUE(transport.send(burst));
      for (EventSource* source : set.sources()) {
        static_cast<void>(source->on_readable());
      }
      set.scheduler().poll(waiter.now());
      static_cast<void>(transport.receive(heard));
    }
    // Nothing else happens from here on: what is left is taken while receive() says that there is more.
    std::size_t turns = 1;
    while (transport.receive(heard)) {
      ASSERT_LE(++turns, count / Transport::burst_max + 1) << "it never says that there is no more";
    }
    EXPECT_TRUE(transport.stream().head().read_queue().empty()) << "some wait for an event that will not come";
    EXPECT_EQ(heard.datagrams.front().size(), payload.size() + 1);
    EXPECT_LE(heard.refused, count);
    EXPECT_EQ(heard.refused > 0, error == ECONNREFUSED);
    EXPECT_EQ(heard.too_big > 0, error == EMSGSIZE);
    opened->reset();
    EXPECT_EQ(set.pool().statistics().buffers_in_use, 0U);
  }

  Registry registry_;
};

TEST_P(ErrorBurst, IsTakenWithNoFurtherEventWhileItSends) {
  if (const std::uint64_t one = number_from("SLUICE_ERROR_BURST_SEED", 0); one != 0) {
    return play(one);
  }
  const std::uint64_t bursts = number_from("SLUICE_ERROR_BURSTS", 1000);
  for (std::uint64_t seed = 1; seed <= bursts && !HasFailure(); ++seed) {
    SCOPED_TRACE("SLUICE_ERROR_BURST_SEED=" + std::to_string(seed));
    play(seed);
  }
}

INSTANTIATE_TEST_SUITE_P(Providers, ErrorBurst, testing::ValuesIn(providers),
                         [](const testing::TestParamInfo<const char*>& chosen) {
                           return std::string_view(chosen.param).contains("kernel_udp") ? "kernel_udp" : "udp";
                         });

}  // namespace
}  // namespace sluice::ftx
