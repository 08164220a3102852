// SPDX-License-Identifier: Apache-2.0
// The same program over the same network, layered and fused, and once more with every primitive made bytes: what it
// sees, and what modules count, is the same.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <list>

#include "base/prng.h"
#include "tests/msg/bed.h"

namespace sluice::test::msgs {
namespace {

class Program {
 public:
  Program(std::uint64_t seed, const std::string& mode, bool encode)
      : prng_(seed),
        bed_({.name = "differential",
              .module = seed % 3 == 0 ? "utopia" : "rmpp",
              .mode = mode,
              .settings = seed % 3 == 1 ? "recovery = \"selective\", dead_ms = 2000" : "dead_ms = 2000",
              .fault = seed % 4 == 0 ? "" : "loss = 3, duplicate = 3, delay_ms = 0.1",
              .seed = seed,
              .encode_primitives = encode},
             2, {.unexpected_bytes_max = 40'000}) {}

  std::vector<std::string> run() {
    for (int step = 0; step < 40; ++step) {
      const std::size_t at = prng_.below(2);
      const std::size_t size = prng_.below(3) == 0 ? prng_.below(20'000) : prng_.below(1500);
      if (prng_.below(2) == 0) {
        memory_.push_back(content(prng_.below(1000), size));
        handles_.emplace_back(at, *bed_[at].send(bed_.peer(1 - at), prng_.below(3), memory_.back()), nullptr);
      } else {
        memory_.emplace_back(size);
        handles_.emplace_back(at, *bed_[at].post(memory_.back(), {.bits = prng_.below(3), .ignore = prng_.below(2)}),
                              &memory_.back());
      }
      bed_.pass(std::chrono::milliseconds(prng_.below(10)));
      look(step);
    }
    bed_.pass(std::chrono::seconds(60));
    look(-1);
    tell_counters();
    return std::move(log_);
  }

 private:
  struct Made {
    std::size_t at;
    Handle handle;
    const std::vector<std::byte>* buffer;  // of a receive
  };
  void look(int step) {
    for (Made& made : handles_) {
      const auto done = bed_[made.at].test(made.handle);
      if (done) {
        const std::uint64_t digest = made.buffer == nullptr ? 0 : digest_of(*made.buffer, done->bytes);
        log_.push_back(fmt::format("step {}: {} of {}: error {} from {} bits {} bytes {} of {} digest {}", step,
                                   made.handle.value, made.at, done->error, done->peer.to_text(), done->bits,
                                   done->bytes, done->total_bytes, digest));
      }
    }
  }
  /// FNV-1a, to tell contents apart.
  static std::uint64_t digest_of(const std::vector<std::byte>& buffer, std::size_t bytes) {
    std::uint64_t digest = 0xcbf2'9ce4'8422'2325;
    for (const std::byte byte : ConstBytes(buffer).first(bytes)) {
      digest = (digest ^ std::to_integer<std::uint64_t>(byte)) * 0x100'0000'01b3;
    }
    return digest;
  }
  void tell_counters() {
    for (std::size_t at = 0; at < 2; ++at) {
      const msg::Statistics& said = bed_[at].statistics();
      log_.push_back(fmt::format("{}: refused {} truncated {} lost {} stray {} held {} {}", at, said.refused,
                                 said.truncated, said.lost, said.stray, said.unexpected_bytes,
                                 said.unexpected_messages));
      for (const auto& module : bed_[at].stream().chain().modules()) {
        for (const Counter* counter : module->counters()) {
          if (!counter->name().starts_with("super_frame")) {
            log_.push_back(fmt::format("{} {}.{} = {}", at, module->name(), counter->name(), counter->value()));
          }
        }
      }
    }
  }

  Prng prng_;
  std::list<std::vector<std::byte>> memory_;
  std::vector<Made> handles_;
  std::vector<std::string> log_;
  Bed bed_;
};

TEST(MsgDifferential, LayeredFusedAndEncodedLookTheSame) {
  over_seeds([](std::uint64_t seed) {
    const std::vector<std::string> layered = Program(seed, "layered", false).run();
    for (const bool encode : {false, true}) {
      const std::vector<std::string> fused = Program(seed, "fused", encode).run();
      const auto differs = std::ranges::mismatch(layered, fused);
      if (differs.in1 != layered.end() || differs.in2 != fused.end()) {
        ADD_FAILURE() << "layered: " << (differs.in1 == layered.end() ? "nothing" : *differs.in1)
                      << "\nfused:   " << (differs.in2 == fused.end() ? "nothing" : *differs.in2)
                      << "\nencoded: " << encode;
      }
    }
  });
}

// The fused path's promise, with this library on top: what is sent lies where the user has it until the frame is
// summed, and lands in the posted buffer in the pass that checks it.
TEST(MsgDifferential, APostedMessageIsLoadedOnceAndStoredOnceOnItsWayUp) {
  constexpr std::size_t size = 1 << 20;
  const std::vector<std::byte> bytes = content(1, size);
  for (const std::string mode : {"layered", "fused"}) {
    Bed bed({.name = "touches", .mode = mode}, 2);
    std::vector<std::byte> buffer(size);
    const Handle receive = *bed[1].post(buffer, {.bits = 1});
    const Handle sending = *bed[0].send(bed.peer(1), 1, bytes);
    bed.set().pool().touches() = {};
    ASSERT_EQ(bed[1].wait(receive, bed.soon())->error, 0);
    ASSERT_EQ(bed[0].wait(sending, bed.soon())->error, 0);
    const Touches& touches = bed.set().pool().touches();
    // A pass each: the sum of what is sent; the check; the copy, which the fused path makes with the check. What is
    // more is headers.
    const double loads = static_cast<double>(touches.loaded_bytes) / size;
    const double stores = static_cast<double>(touches.stored_bytes) / size;
    EXPECT_NEAR(loads, mode == "fused" ? 2 : 3, 0.15) << mode;
    EXPECT_NEAR(stores, 1, 0.05) << mode;
  }
}

}  // namespace
}  // namespace sluice::test::msgs
