// SPDX-License-Identifier: Apache-2.0
// Every frame that reaches ip ends under exactly one counter, and every datagram that reaches udp.
#include <functional>
#include <random>
#include <set>

#include "base/prng.h"
#include "stack/modules/udp.h"
#include "tests/stack/modules/frame_maker.h"
#include "tests/stack/modules/ip_bed.h"

namespace sluice::ip_test {
namespace {

class Account : public testing::Test {
 protected:
  void open(bool filtered) {
    auto module = std::make_unique<Udp>(true);
    udp_module = module.get();
    if (!filtered) {
      bed.link.refuses = dlpi::DL_FILTER_REQ;
    }
    ASSERT_TRUE(bed.chain.push(std::move(module)));
    const wire::TransportAddress local{{}, account_port};
    Octets bytes(local.encoded_size());
    local.encode(bytes);
    const tpi::BindReq request{.address = bytes};
    bed.ask(request, request.encoded_size());
    ASSERT_EQ(bed.user.received.size(), 1U);
    ASSERT_TRUE(tpi::BindAck::decode(bed.user.received.back().bytes()));
    bed.user.received.clear();
  }
  void send(std::string_view to) {
    const wire::TransportAddress destination{address(to), 53};
    Octets bytes(destination.encoded_size());
    destination.encode(bytes);
    const tpi::UnitdataReq request{bytes, {}};
    bed.ask(request, request.encoded_size(), MessageType::proto, pattern(1400));
  }
  [[nodiscard]] std::uint64_t udp_count(std::string_view name) const {
    const auto found =
        std::ranges::find(udp_module->counters(), name, [](const Counter* counter) { return counter->name(); });
    EXPECT_NE(found, udp_module->counters().end()) << name;
    return (*found)->value();
  }

  static ip::Config heeding_all() {
    ip::Config config = both_families();
    config.redirects = true;
    config.autoconfigure = true;
    return config;
  }

  Bed bed{heeding_all()};
  Udp* udp_module = nullptr;
};

std::uint64_t sum_of(const std::function<std::uint64_t(std::string_view)>& count,
                     const std::vector<std::string_view>& names) {
  std::uint64_t sum = 0;
  for (const std::string_view name : names) {
    sum += count(name);
  }
  return sum;
}

void flood(Bed& bed, Prng& prng, int frames, const std::function<void()>& check) {
  Maker maker(prng);
  for (int frame = 0; frame < frames; ++frame) {
    Made made = maker.next();
    mutate(made, prng);
    bed.link.inject(made.sap, made.octets, made.group);
    bed.link.sent.clear();
    if (frame % 64 == 63) {
      bed.advance(100ms);
    }
    if (frame % 1000 == 999) {
      check();
    }
  }
}

TEST_F(Account, EveryFrameAndEveryDatagramEndsUnderOneCounter) {
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  Prng prng(seed);
  ASSERT_NO_FATAL_FAILURE(open(/*filtered=*/false));
  std::uint64_t indications = 0;
  std::uint64_t errors = 0;
  constexpr int frames = 100'000;
  flood(bed, prng, frames, [&] {
    send("8.8.8.8");  // flows of ours, which errors may quote
    send("2001:db8::1");
    while (!bed.user.received.empty()) {
      const Message message = bed.next_up();
      indications += tpi::UnitdataInd::decode(message.bytes()) ? 1U : 0U;
      errors += tpi::UderrorInd::decode(message.bytes()) ? 1U : 0U;
    }
  });
  while (!bed.user.received.empty()) {
    const Message message = bed.next_up();
    indications += tpi::UnitdataInd::decode(message.bytes()) ? 1U : 0U;
    errors += tpi::UderrorInd::decode(message.bytes()) ? 1U : 0U;
  }
  EXPECT_EQ(bed.count("packets_in"), static_cast<std::uint64_t>(frames));
  std::uint64_t ended = 0;
  for (const Counter* counter : bed.ip->counts().ends()) {
    ended += counter->value();
  }
  EXPECT_EQ(bed.count("packets_in") + bed.count("reassembled"), ended);
  const auto of_udp = [&](std::string_view name) { return udp_count(name); };
  EXPECT_EQ(bed.count("delivered"),
            sum_of(of_udp, {"received", "short_header", "bad_length", "bad_checksum", "zero_checksum", "not_my_port",
                            "port_unreachable", "malformed", "no_memory"}));
  EXPECT_EQ(udp_count("received"), indications);
  EXPECT_EQ(udp_count("errors") + udp_count("refused"), errors);
  EXPECT_LE(bed.count("icmp_errors_in"), udp_count("errors") + udp_count("foreign_error"));
  // The flood must have met everything that it can, or the sum says little.
  const std::set<std::string_view> unmet{"bad_primitive", "fragment_excess", "no_memory", "ipv6_off"};
  for (const Counter* counter : bed.ip->counts().ends()) {
    EXPECT_EQ(counter->value() > 0, !unmet.contains(counter->name())) << counter->name() << ": " << counter->value();
  }
}

}  // namespace
}  // namespace sluice::ip_test
