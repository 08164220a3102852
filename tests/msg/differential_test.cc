// SPDX-License-Identifier: Apache-2.0
// The same program over the same network, layered and fused, and once more with every primitive made bytes: what it
// sees, and what modules count, is the same.
#include <gtest/gtest.h>

#include <algorithm>
#include <string_view>

#include "tests/msg/program.h"

namespace sluice::test::msgs {
namespace {

TEST(MsgDifferential, LayeredFusedAndEncodedLookTheSame) {
  over_seeds([](std::uint64_t seed) {
    const auto arrangement = [seed](const std::string& mode, bool encode) {
      return Arrangement{.name = "differential",
                         .module = seed % 3 == 0 ? "utopia" : "rmpp",
                         .mode = mode,
                         .settings = seed % 3 == 1 ? "recovery = \"selective\", dead_ms = 2000" : "dead_ms = 2000",
                         .fault = seed % 4 == 0 ? "" : "loss = 3, duplicate = 3, delay_ms = 0.1",
                         .seed = seed,
                         .encode_primitives = encode};
    };
    const std::vector<std::string> layered = Program(seed, arrangement("layered", false)).run();
    for (const bool encode : {false, true}) {
      EXPECT_EQ(first_difference(layered, Program(seed, arrangement("fused", encode)).run()), "")
          << "encoded: " << encode;
    }
  });
}

/// What a connection is made of, and the network, as a seed says.
Arrangement over_xtp(std::uint64_t seed, const std::string& mode, bool encode) {
  Prng prng(seed * 7919);
  const auto either = [&prng](const std::string& one, const std::string& other) {
    return prng.below(2) == 0 ? one : other;
  };
  std::string settings = "recovery = " + either("\"selective\"", "\"go_back_n\"");
  settings += ", fast_nak = " + either("true", "false") + ", checksum = " + either("true", "false");
  settings += ", packet_bytes = " + std::to_string(64 + prng.below(1300));
  settings += ", status_packets = " + std::to_string(1 + prng.below(20));
  settings += ", receive_buffer_bytes = " + either("4096", "65536");
  settings += ", send_buffer_bytes = " + either("4096", "65536") + ", attempts = 100";
  const std::string fault = "loss = " + std::to_string(prng.below(6)) +
                            ", duplicate = " + std::to_string(prng.below(6)) +
                            ", reorder = " + std::to_string(prng.below(6)) + ", reorder_ms = 2, delay_ms = 0.1";
  return {.name = "differential_xtp",
          .module = "xtp",
          .mode = mode,
          .settings = settings,
          .fault = prng.below(5) == 0 ? "" : fault,
          .seed = seed,
          .encode_primitives = encode,
          .watched = true};
}

/// Lines that end in a number above 0 behind `name`.
std::size_t counted_in(const std::vector<std::string>& lines, std::string_view name) {
  return static_cast<std::size_t>(std::ranges::count_if(lines, [name](const std::string& line) {
    return line.find(name) != std::string::npos && !line.ends_with(" = 0");
  }));
}

// What comes, and when, what each handle ends with and what each stream counts is the same, whatever the path. Every
// fourth case is run once more with every primitive made bytes.
TEST(MsgDifferential, OverXtpLayeredAndFusedLookTheSame) {
  std::size_t delivered = 0;
  std::size_t repaired = 0;
  over_seeds(
      [&](std::uint64_t seed) {
        const std::vector<std::string> layered = Program(seed, over_xtp(seed, "layered", false)).run();
        delivered += counted_in(layered, ": error 0 ");
        repaired += counted_in(layered, " xtp.data_again = ");
        EXPECT_EQ(first_difference(layered, Program(seed, over_xtp(seed, "fused", false)).run()), "");
        if (seed % 4 == 0) {
          EXPECT_EQ(first_difference(layered, Program(seed, over_xtp(seed, "fused", true)).run()), "") << "encoded";
        }
      },
      300);
  EXPECT_GT(delivered, 0U);
  EXPECT_TRUE(repaired > 0 || number_from("SLUICE_MSG_SEED", 0) != 0) << "nothing was lost and sent again";
}

}  // namespace
}  // namespace sluice::test::msgs
