// SPDX-License-Identifier: Apache-2.0
// Explanation and reality: what datagrams over the memory wire cost, as the pool counts it, is what is explained.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "apps/common/registry.h"
#include "apps/common/statistics.h"
#include "apps/sluice/explain.h"
#include "base/contract.h"
#include "stack/modules/capture.h"
#include "stack/wire/address.h"
#include "stack/wire/tpi.h"
#include "tests/capture_into.h"
#include "tests/stack/head/timod_binding.h"

namespace sluice::test {
namespace {

using wire::TransportAddress;
using wire::tpi::UnitdataReq;

/// The largest multiple of 8 that UDP over IPv4 carries. (65535 - 20 - 8)
constexpr std::size_t datagram_bytes = 65504;
/// The headers' share, and more than that.
constexpr double tolerance = 0.01;

/// Passes on, and has never heard of plans.
class Opaque : public Module {
 public:
  Opaque() : Module("opaque") {}
};

Entry opaque_entry() {
  return {.name = "opaque",
          .summary = "passes on",
          .transparent = true,
          .make = [](StreamSet&, const Parameters&) -> Result<std::unique_ptr<Module>> {
            return std::make_unique<Opaque>();
          }};
}

std::unique_ptr<Module> capture_to_nowhere() {
  return std::make_unique<Capture>(capture_into([](ConstBytes) { return true; }));
}

class Reality : public testing::Test {
 protected:
  struct Cost {
    double loads;
    double stores;
  };

  Reality() { registry_.add(opaque_entry()); }

  std::unique_ptr<Stream> open(std::string_view mode, const std::string& push, char end) {
    const std::string text = "[stack.s]\nmode = \"" + std::string(mode) +
                             "\"\ndriver = { kind = \"wire\", name = \"lab\", end = \"" + end +
                             "\", mtu = 65535 }\npush = [" + push + "]\nip = { address = \"10.79.0." +
                             (end == 'a' ? "1" : "2") + "/24\" }\n";
    const auto file = StackFile::parse(text, "test.toml", registry_);
    SLUICE_REQUIRE(file.has_value());
    std::unique_ptr<Stream> stream = open_stack(set_, file->stacks().front()).value();
    stream->set_nonblocking(true);
    return stream;
  }

  /// Two hosts with the same modules, whose addresses are resolved.
  void connect(std::string_view mode, const std::string& push) {
    a_.reset();
    b_.reset();
    a_ = open(mode, push, 'a');
    b_ = open(mode, push, 'b');
    EXPECT_EQ(bind_by_timod(*a_, {wire::Ipv6Address{}, 5000}), 0);
    EXPECT_EQ(bind_by_timod(*b_, {wire::Ipv6Address{}, 6000}), 0);
    transfer();
  }

  static std::vector<std::byte> encoded(const TransportAddress& address) {
    std::vector<std::byte> bytes(TransportAddress::encoded_size_max);
    bytes.resize(address.encode(bytes));
    return bytes;
  }

  /// One datagram from a to b: what each payload byte costs down, and up.
  std::pair<Cost, Cost> transfer() {
    const std::vector<std::byte> address = encoded(TransportAddress::from_text("10.79.0.2:6000").value());
    std::array<std::byte, 64> block{};
    const std::size_t size = UnitdataReq{.address = address, .options = {}}.encode(block);
    std::vector<std::byte> sent(datagram_bytes);
    for (std::size_t at = 0; at < sent.size(); ++at) {
      sent[at] = static_cast<std::byte>(at * 7 + at / 251);
    }
    const Touches start = touches();
    EXPECT_TRUE(a_->putmsg(ConstBytes(block).first(size), sent).has_value());
    const Touches middle = touches();
    run();
    std::vector<std::byte> received(datagram_bytes + 8);
    std::array<std::byte, 64> control{};
    const auto got = b_->getmsg(Bytes(control), Bytes(received));
    EXPECT_TRUE(got.has_value());
    EXPECT_EQ(got ? got->data.value_or(0) : 0, datagram_bytes);
    received.resize(datagram_bytes);
    EXPECT_EQ(received, sent);
    return {cost(start, middle), cost(middle, touches())};
  }

  static Cost cost(const Touches& from, const Touches& to) {
    return {static_cast<double>(to.loaded_bytes - from.loaded_bytes) / datagram_bytes,
            static_cast<double>(to.stored_bytes - from.stored_bytes) / datagram_bytes};
  }
  Touches touches() { return set_.pool().touches(); }

  void run() {
    const TimePoint end = set_.now() + std::chrono::seconds(2);
    for (TimePoint next = set_.now(); next <= end; next = set_.scheduler().next_deadline()) {
      set_.scheduler().poll(next);
    }
    set_.scheduler().poll(end);
  }

  static void expect_cost(const Cost& real, const ByteCost& explained) {
    EXPECT_NEAR(real.loads, explained.loads, tolerance);
    EXPECT_NEAR(real.stores, explained.stores, tolerance);
  }

  Registry registry_ = standard_registry();
  StreamSet set_{{.seed = 1}};
  std::unique_ptr<Stream> a_;
  std::unique_ptr<Stream> b_;
};

TEST_F(Reality, EveryStackCostsWhatIsExplainedOnEitherPath) {
  const std::array<std::string, 6> stacks = {
      R"("ip", "udp", "timod")",
      R"("ip", "udp", "xdr", "timod")",
      R"("ip", "opaque", "udp", "xdr", "timod")",
      R"("ip", "udp", "opaque", "xdr", "timod")",
      R"("opaque", "ip", "udp", "xdr", "opaque:high", "timod")",
      R"("ip", "udp", "xdr", "xdr:again", "timod")",
  };
  for (const std::string& stack : stacks) {
    for (const ProcessingMode mode : {ProcessingMode::layered, ProcessingMode::fused}) {
      SCOPED_TRACE(stack + ", " + std::string(name_of(mode)));
      connect(name_of(mode), stack);
      const Explanation sender = explain(*a_);
      const Explanation receiver = explain(*b_);
      const auto [down, up] = transfer();
      expect_cost(down, mode == ProcessingMode::fused ? sender.down.fused : sender.down.layered);
      expect_cost(up, mode == ProcessingMode::fused ? receiver.up.fused : receiver.up.layered);
    }
  }
}

TEST_F(Reality, TheFusedPathTouchesEachByteOnceEachWay) {
  connect("fused", R"("ip", "udp", "xdr", "timod")");
  const auto [down, up] = transfer();
  expect_cost(down, {1, 1});
  expect_cost(up, {1, 1});
}

// A capture that is pushed while data flows: it materializes, the explanation says so, and once it is popped all is as
// before.
TEST_F(Reality, ACaptureDefusesThePathThereAndOnlyWhileItIsThere) {
  connect("fused", R"("ip", "udp", "xdr", "timod")");
  expect_cost(transfer().second, explain(*b_).up.fused);
  EXPECT_EQ(explain(*b_).up.passes(), 1U);

  ASSERT_TRUE(b_->push(capture_to_nowhere()).has_value());
  for (int count = 0; count < 3; ++count) {
    expect_cost(transfer().second, explain(*b_).up.fused);
  }
  const Explanation watched = explain(*b_);
  EXPECT_EQ(watched.up.passes(), 2U);
  EXPECT_EQ(watched.up.fused, (ByteCost{2, 2}));
  const ExplainedModule& capture = *(watched.up.modules.end() - 2);
  EXPECT_EQ(capture.name, "capture");
  EXPECT_EQ(capture.materialized, 3U);
  EXPECT_EQ(capture.items.at(0).why, "every byte goes to its file");
  EXPECT_THAT(payload_text(watched), testing::HasSubstr("every byte goes to its file: sum_swap_copy in place"));
  EXPECT_THAT(payload_text(watched), testing::HasSubstr("(3 messages materialized here so far)"));
  const auto json = payload_json(watched);
  EXPECT_EQ((json["up"]["modules"].end() - 2)->at("materialized"), 3);

  ASSERT_TRUE(b_->pop().has_value());
  EXPECT_EQ(explain(*b_).up.passes(), 1U);
  expect_cost(transfer().second, {1, 1});
}

TEST_F(Reality, StatisticsTellWhatWasTouchedAndSettled) {
  connect("fused", R"("ip", "opaque", "udp", "xdr", "timod")");
  transfer();
  const auto json = statistics_json("s", *b_);
  EXPECT_EQ(json["touches"]["loaded_bytes"], touches().loaded_bytes);
  EXPECT_EQ(json["touches"]["stored_bytes"], touches().stored_bytes);
  EXPECT_GE(json["touches"]["stored_bytes"], 4 * datagram_bytes);
  const auto sender = statistics_json("s", *a_);
  EXPECT_EQ(sender["modules"][4]["name"], "opaque");
  EXPECT_EQ(sender["modules"][4]["write"]["materialized"], 2);
  EXPECT_EQ(sender["modules"][3]["write"]["materialized"], 0);
  EXPECT_THAT(statistics_text("s", *a_), testing::HasSubstr(", 2 materialized here"));
  EXPECT_THAT(statistics_text("s", *a_),
              testing::HasSubstr("loaded " + std::to_string(touches().loaded_bytes) + " and stored"));
}

TEST_F(Reality, WhatAByteCostIsMeasuredAsExplained) {
  connect("fused", R"("ip", "udp", "xdr", "timod")");
  constexpr std::uint64_t datagrams = 4;  // with the first, which waited for the address
  for (std::uint64_t sent = 1; sent < datagrams; ++sent) {
    transfer();
  }
  const Explanation live = explain(*a_, datagrams * datagram_bytes);
  ASSERT_TRUE(live.measured.has_value());
  EXPECT_NEAR(live.measured->loads, live.down.fused.loads + live.up.fused.loads, 0.3);
  EXPECT_GE(live.measured->loads, 2.0);
  EXPECT_THAT(payload_text(live), testing::HasSubstr("measured, both ways together"));
  EXPECT_TRUE(payload_json(live).contains("measured"));
}

}  // namespace
}  // namespace sluice::test
