// SPDX-License-Identifier: Apache-2.0
// Our own TCP, layered and fused, side by side: two hosts on a wire, drawn at random, whose users send to each other,
// read now and then, and release. Both worlds must show the same: what came, every packet that went down to the link
// and when, and every counter. SLUICE_TCP_CASES says how many cases (1000 if absent; 100 under sanitizers),
// SLUICE_TCP_SEED the first seed. And what a byte costs on either path is what `explain` says.

#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "apps/common/registry.h"
#include "base/prng.h"
#include "base/sanitizers.h"
#include "stack/head/explanation.h"
#include "stack/head/stream.h"
#include "stack/wire/address.h"
#include "stack/wire/data_unit.h"
#include "tests/e2e/simulated_waiter.h"
#include "tli/endpoint.h"

namespace sluice {
namespace {

using namespace std::chrono_literals;
using wire::TransportAddress;

/// A packet on its way down to the link.
struct SentPacket {
  TimePoint at;
  std::uint16_t segment_size = 0;
  std::string bytes;

  friend bool operator==(const SentPacket&, const SentPacket&) = default;
};

/// Between `ip` and the link: notes what goes down, and changes nothing.
class Recorder final : public Module {
 public:
  explicit Recorder(std::vector<SentPacket>& sent) : Module("recorder"), sent_(sent) {}
  [[nodiscard]] bool handles_deferred() const override { return true; }
  [[nodiscard]] bool handles_segments() const override { return true; }
  void wput(Batch&& batch) override {
    Batch rest;
    while (Message message = batch.pop()) {
      const auto* const unitdata = message.native<wire::DataUnit>();
      if (unitdata != nullptr && unitdata->kind == wire::DataUnit::Kind::link_request) {
        std::string bytes(message.data_size(), '\0');
        EXPECT_TRUE(message.copy_data_to(0, std::as_writable_bytes(std::span(bytes))));
        sent_.push_back({set().now(), unitdata->segment_size, std::move(bytes)});
      }
      rest.push(std::move(message));
    }
    write_queue().put_next(std::move(rest));
  }

 private:
  std::vector<SentPacket>& sent_;
};

/// What is drawn of both worlds of a case.
struct TcpCase {
  explicit TcpCase(std::uint64_t seed) {
    Prng prng(seed);
    v6 = prng.below(2) == 0;
    offload = prng.below(3) != 0;
    mtu = static_cast<std::int64_t>(prng.below(3) == 0 ? 1500 : 1280 + prng.below(20'000));
    faults = prng.below(3) == 0;
    no_delay = prng.below(2) == 0;
    send_buffer = static_cast<std::int64_t>(4096 + prng.below(300'000));
    receive_buffer = static_cast<std::int64_t>(4096 + prng.below(300'000));
    for (std::size_t end = 0; end < 2; ++end) {
      sizes[end] = prng.below(400'000);
      piece[end] = 1 + prng.below(prng.below(2) == 0 ? 3000 : 100'000);
      read[end] = 1 + prng.below(100'000);
      read_chance[end] = 0.2 + 0.8 * static_cast<double>(prng.below(100)) / 100;
      waits[end] = prng.below(2) == 0;
    }
    seed_of_steps = prng();
  }
  bool v6 = false;
  bool offload = false;
  std::int64_t mtu = 0;
  bool faults = false;
  bool no_delay = false;
  std::int64_t send_buffer = 0;
  std::int64_t receive_buffer = 0;
  std::array<std::size_t, 2> sizes{};  // bytes that each end sends
  std::array<std::size_t, 2> piece{};  // at once
  std::array<std::size_t, 2> read{};
  std::array<double, 2> read_chance{};
  std::array<bool, 2> waits{};  // the reader's place is known while time passes
  std::uint64_t seed_of_steps = 0;
};

Parameters parameters_of(const std::vector<std::pair<std::string, ParameterValue>>& values) {
  Parameters made;
  for (const auto& [name, value] : values) {
    made.set(name, value);
  }
  return made;
}

class TcpWorld {
  const TcpCase& drawn_;
  std::array<std::string, 2> places_{std::string(drawn_.read[0], '\0'), std::string(drawn_.read[1], '\0')};
  ProcessingMode mode_;
  Registry registry_ = standard_registry();
  StreamSet set_{{.seed = 1}};
  SimulatedWaiter clock_{set_};

 public:
  using Made = std::unique_ptr<tli::Endpoint>;

  TcpWorld(const TcpCase& drawn, ProcessingMode mode) : drawn_(drawn), mode_(mode) {
    set_.scheduler().advance(clock_.now());
    Made listener = bound(1, 80, 1);
    ends[0] = bound(0);
    std::array<std::byte, TransportAddress::encoded_size_max> bytes{};
    const std::size_t size = TransportAddress::from_text(drawn.v6 ? "[fd00:77::2]:80" : "10.77.0.2:80")->encode(bytes);
    EXPECT_TRUE(ends[0]->t_connect(
        {.addr = {.maxlen = bytes.size(), .len = size, .buf = bytes.data()}, .opt = {}, .udata = {}, .sequence = 0},
        nullptr));
    tli::t_call call;
    EXPECT_TRUE(listener->t_listen(call));
    ends[1] = open(1);
    EXPECT_TRUE(listener->t_accept(*ends[1], call));
    ends[2] = std::move(listener);
  }

  /// Sends and reads as the case says, until all has come and both ends have released.
  void run() {
    Prng steps(drawn_.seed_of_steps);
    std::array<std::string, 2> texts;
    for (std::size_t end = 0; end < 2; ++end) {
      ends[end]->stream().set_nonblocking(true);
      texts[end].resize(drawn_.sizes[end]);
      for (char& one : texts[end]) {
        one = static_cast<char>(steps());
      }
    }
    std::array<std::size_t, 2> given{};
    std::array<bool, 2> released{};
    const auto done = [&] { return released[0] && released[1] && ended_[0] && ended_[1]; };
    for (const TimePoint end_of_time = clock_.now() + 3600s; clock_.now() < end_of_time && !done();) {
      for (std::size_t end = 0; end < 2; ++end) {
        tli::Endpoint& endpoint = *ends[end];
        if (given[end] < texts[end].size()) {
          const ConstBytes rest = as_bytes(texts[end]).subspan(given[end]);
          given[end] += endpoint.t_snd(rest.first(std::min(rest.size(), drawn_.piece[end])), 0).value_or(0);
        } else if (!released[end]) {
          released[end] = endpoint.t_sndrel().has_value();
        }
        if (steps.chance(drawn_.read_chance[end])) {
          read(end);
        } else if (drawn_.waits[end]) {
          endpoint.t_rcvplace(std::as_writable_bytes(std::span(places_[end])));
        }
      }
      static_cast<void>(clock_.wait(clock_.now() + Duration(1 + steps.below(5'000'000))));
    }
    EXPECT_TRUE(done());
    EXPECT_TRUE(came[0] == texts[1]);
    EXPECT_TRUE(came[1] == texts[0]);
    for (const Made& endpoint : ends) {
      for (const auto& module : endpoint->stream().chain().modules()) {
        for (const Counter* const counter : module->counters()) {
          counts.push_back(std::string(module->name()) + "." + std::string(counter->name()) + " " +
                           std::to_string(counter->value()));
        }
      }
    }
  }

  /// Moves `text` from one end to the other and says what that has loaded and stored of each byte. Where the reader
  /// waits, his place is known while it comes.
  std::pair<double, double> cost_of(const std::string& text, bool waits) {
    ends[0]->stream().set_nonblocking(true);
    ends[1]->stream().set_nonblocking(true);
    const Touches before = set_.pool().touches();
    std::size_t given = 0;
    std::string place(text.size(), '\0');
    std::size_t got = 0;
    for (int turn = 0; turn < 100'000 && got < text.size(); ++turn) {
      const ConstBytes rest = as_bytes(text).subspan(given);
      given += rest.empty() ? 0 : ends[0]->t_snd(rest, 0).value_or(0);
      int flags = 0;
      const Bytes room = std::as_writable_bytes(std::span(place));
      got += ends[1]->t_rcv(room.subspan(got), flags).value_or(0);
      ends[1]->t_rcvplace(waits ? room.subspan(got) : Bytes());
      static_cast<void>(clock_.wait(clock_.now() + 1ms));
    }
    EXPECT_TRUE(place == text);
    const Touches after = set_.pool().touches();
    const auto size = static_cast<double>(text.size());
    return {static_cast<double>(after.loaded_bytes - before.loaded_bytes) / size,
            static_cast<double>(after.stored_bytes - before.stored_bytes) / size};
  }

  std::array<std::string, 2> came;
  std::vector<SentPacket> sent;
  std::vector<std::string> counts;
  std::array<Made, 3> ends;  // the last one listens

 private:
  std::unique_ptr<Module> module(std::string_view name, const Parameters& values = {}) {
    return registry_.find(name)->make(set_, values).value();
  }
  Made open(std::size_t end) {
    auto driver = module("wire", parameters_of({{"name", "tcp"},
                                                {"end", std::string(end == 0 ? "a" : "b")},
                                                {"mtu", drawn_.mtu},
                                                {"offload", drawn_.offload}}));
    auto stream = std::move(Stream::open(set_, std::move(driver))).value();
    EXPECT_TRUE(stream->push(std::make_unique<Recorder>(sent)));
    if (drawn_.faults) {
      EXPECT_TRUE(stream->push(
          module("fault", parameters_of({{"loss", 2.0},
                                         {"duplicate", 1.0},
                                         {"reorder", 3.0},
                                         {"delay_ms", 1.0},
                                         {"bit_errors", drawn_.offload ? 0.0 : 2e-7}}))));  // where somebody sums
    }
    const std::string host = end == 0 ? "1" : "2";
    const std::vector<std::string> addresses{"10.77.0." + host + "/24", "fd00:77::" + host + "/64"};
    EXPECT_TRUE(stream->push(module("ip", parameters_of({{"address", addresses}}))));
    EXPECT_TRUE(stream->push(module("tcp", parameters_of({{"send_buffer_bytes", drawn_.send_buffer},
                                                          {"receive_buffer_bytes", drawn_.receive_buffer}}))));
    EXPECT_TRUE(stream->push(module("timod")));
    stream->set_mode(mode_);
    stream->set_waiter(&clock_);
    return std::move(tli::Endpoint::t_open(std::move(stream), nullptr)).value();
  }
  Made bound(std::size_t end, std::uint16_t port = 0, std::uint32_t qlen = 0) {
    Made made = open(end);
    std::array<std::byte, TransportAddress::encoded_size_max> bytes{};
    const std::size_t size = TransportAddress{wire::Ipv6Address{}, port}.encode(bytes);
    const tli::t_bind request{{.maxlen = bytes.size(), .len = size, .buf = bytes.data()}, qlen};
    EXPECT_TRUE(made->t_bind(&request, nullptr));
    return made;
  }
  void read(std::size_t end) {
    std::string& place = places_[end];
    int flags = 0;
    const auto got = ends[end]->t_rcv(std::as_writable_bytes(std::span(place)), flags);
    came[end] += got ? place.substr(0, *got) : "";
    if (!got && !ended_[end] && ends[end]->t_look().value_or(0) == tli::T_ORDREL) {
      ended_[end] = ends[end]->t_rcvrel().has_value();
    }
  }

  std::array<bool, 2> ended_{};
};

std::uint64_t number_of(const char* name, std::uint64_t otherwise) {
  const char* const text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

TEST(TcpDifferential, ALayeredAndAFusedStackAreTheSame) {
  const std::uint64_t first = number_of("SLUICE_TCP_SEED", 1);
  const std::uint64_t cases = number_of("SLUICE_TCP_CASES", sanitized ? 100 : 1000);
  std::size_t together = 0;
  for (std::uint64_t seed = first; seed < first + cases; ++seed) {
    SCOPED_TRACE("SLUICE_TCP_SEED=" + std::to_string(seed) + " SLUICE_TCP_CASES=1");
    const TcpCase drawn(seed);
    TcpWorld layered(drawn, ProcessingMode::layered);
    TcpWorld fused(drawn, ProcessingMode::fused);
    layered.run();
    fused.run();
    ASSERT_TRUE(layered.came == fused.came);
    ASSERT_TRUE(layered.sent == fused.sent);
    ASSERT_EQ(layered.counts, fused.counts);
    for (const SentPacket& packet : fused.sent) {
      together += packet.segment_size > 0 ? 1U : 0U;
    }
    ASSERT_FALSE(testing::Test::HasFailure());
  }
  EXPECT_TRUE(cases < 10 || together > 100) << "nothing went together";
}

/// Down, the copy that `tcp` keeps until the peer has it is the only one, and on a fused path the sums come out of that
/// pass. Up, what is not summed by the device is loaded before it is acknowledged, and where the reader waits it is in
/// his memory then. The sum of what goes together and nobody splits is nobody's business.
TEST(TcpDifferential, AByteCostsWhatIsExplained) {
  for (const ProcessingMode mode : {ProcessingMode::layered, ProcessingMode::fused}) {
    for (const bool offload : {true, false}) {
      for (const bool waits : {false, true}) {
        SCOPED_TRACE(std::string(name_of(mode)) + (offload ? ", offloaded" : ", summed") + (waits ? ", waits" : ""));
        TcpCase drawn(1);
        drawn.v6 = drawn.faults = false;
        drawn.offload = offload;
        drawn.mtu = 1500;
        drawn.send_buffer = drawn.receive_buffer = 512 * 1024;
        TcpWorld world(drawn, mode);
        const Explanation explained = explain(world.ends[0]->stream());
        EXPECT_EQ(explained.segments_from, "tcp");
        EXPECT_TRUE(explained.not_for_segments.empty());
        const bool fused = mode == ProcessingMode::fused;
        const ByteCost down = fused ? explained.down.fused : explained.down.layered;
        const ByteCost up = !fused ? explained.up.layered : waits ? explained.up.awaited : explained.up.fused;
        EXPECT_EQ(down, fused ? (ByteCost{1, 1}) : (ByteCost{2, 1}));
        EXPECT_EQ(up, fused && waits ? (ByteCost{1, 1}) : (ByteCost{2, 1}));
        const auto [loads, stores] = world.cost_of(std::string(4'000'000, 'x'), waits);
        // "nobody splits or sums them, so that no sum above counts for them"
        EXPECT_NEAR(loads, offload ? 2 : down.loads + up.loads, 0.1);
        EXPECT_NEAR(stores, down.stores + up.stores, 0.1);
      }
    }
  }
}

}  // namespace
}  // namespace sluice
