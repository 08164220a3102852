// SPDX-License-Identifier: Apache-2.0

// Document 002: what the modules between a link and a transport user cost (DLPI against TLI), what large data units do
// to a receiver without flow control, and what larger frames would bring.
//
// Arms are ways to move messages from user memory to user memory:
//   dlpi_*   dlpi_send and dlpi_recv (libdlpi) on a driver: the message is the payload of a frame
//   tli_*    t_sndudata and t_rcvudata on the same kind of driver with ip, udp (checksum on) and timod
// each with a layered and a fused path, over a wire in memory and over `packet` on a veth pair of its own. Both ends
// are in one thread. A window of messages is sent, then received; the CPU time of either part is what that side needs,
// so the throughput of a side is what it could do with a CPU to itself, as the document's two machines had. Nothing is
// lost there: a message that does not come fails the test.
//
//   wire_*, veth_*   the document's Figure 3.8: throughput of either side by message size, DLPI over TLI, and the
//                    messages a second by size, relative to those of 512 bytes (1: throughput is linear in the size)
//   large_*          Figure 3.9: TLI up to the largest data unit, over veth, without loss
//   large_calls      how many messages of 1000 bytes t_sndudata sends in the time of one
//   blocks           a message in blocks of at most 2 and 8 KiB (SO_MAXBLK) instead of one best-fit block: time
//   best_fit         memory that the stream head takes for a message, as a multiple of its size
//   jumbo*           veth with an MTU of 9000 bytes against 1500
//   loss*            a receiver that is slower than its sender, in simulated time: what is lost without flow control,
//                    and what arrives with it: bench/dlpi_tli_loss.cc
//
// Mbit/s are those of this machine's CPU; the document's, of 1999, are shown beside them.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bench/experiment.h"
#include "bench/ways.h"
#include "stack/core/buffer_pool.h"

namespace sluice::bench {
namespace {

constexpr std::size_t tsdu = 65507;
constexpr std::size_t reference_size = 512;

std::string keyed(const std::string& arm, const char* side, std::size_t size) {
  return arm + ' ' + side + ' ' + std::to_string(size);
}

constexpr std::array sides{"sender", "receiver"};
constexpr std::array modes{ProcessingMode::layered, ProcessingMode::fused};

/// Adds an arm for each side of `way` and each size, which is first tried.
void add_arms(std::vector<Arm>& arms, Way& way, const std::string& name, ProcessingMode mode,
              const std::vector<std::size_t>& sizes) {
  way.set_mode(mode);
  way.expect_bytes(sizes.back());
  for (const std::size_t size : sizes) {
    for (const char* const side : sides) {
      arms.push_back({keyed(name, side, size), [&way, mode, size, is_sender = side == sides[0]] {
                        way.set_mode(mode);
                        return way.seconds(is_sender, size);
                      }});
    }
  }
}

/// Figure 3.8 over one link.
void dlpi_against_tli(const std::string& link, Way& dlpi, Way& tli) {
  const std::vector<std::size_t> sizes = full_or_tiny<std::size_t>(
      {8, 64, 256, reference_size, 768, 1024, 1280, 1400, 1472, 1500}, {reference_size, 1500});
  std::vector<Arm> arms;
  for (const ProcessingMode mode : modes) {
    const std::string path = "_" + std::string(name_of(mode));
    add_arms(arms, dlpi, "dlpi" + path, mode, sizes);
    add_arms(arms, tli, "tli" + path, mode, sizes);
  }
  const Rounds rounds(std::move(arms));
  ASSERT_TRUE(dlpi.whole() && tli.whole()) << "messages were lost";
  const Figure gain(link + "_gain", "ratio");
  const Figure linear(link + "_linear", "ratio");
  for (const char* const side : sides) {
    const Figure throughput(link + "_" + side, "Mbit/s");
    for (const std::size_t size : sizes) {
      for (const ProcessingMode mode : modes) {
        const std::string path = "_" + std::string(name_of(mode));
        for (const std::string arm : {"dlpi", "tli"}) {
          const std::string key = keyed(arm + path, side, size);
          throughput.add(arm + path, size, rounds.megabits_per_second(key, size));
          if (mode == ProcessingMode::layered) {
            linear.add(arm + "_" + side, size, rounds.ratio(key, keyed(arm + path, side, reference_size)));
          }
        }
        gain.add(std::string(side) + path, size,
                 rounds.ratio(keyed("dlpi" + path, side, size), keyed("tli" + path, side, size)));
      }
    }
  }
}

TEST(dlpi_tli, wire) {
  DlpiWay dlpi(wire_end("dlpi", 'a'), wire_end("dlpi", 'b'), 1500);
  TliWay tli(wire_end("tli", 'a'), wire_end("tli", 'b'), 1500);
  dlpi_against_tli("wire", dlpi, tli);
}

// ---- The stream head ----

/// dlpi_send puts its data as putmsg does, which keeps to SO_MAXBLK; t_sndudata gathers into one block whatever it
/// says.
TEST(dlpi_tli, blocks) {
  const Figure time("blocks", "ns");
  const Figure ratio("blocks_ratio", "ratio");
  const std::vector<std::size_t> sizes = full_or_tiny<std::size_t>({1000, 3000, 10000, 30000, 60000}, {1000, 60000});
  std::vector<std::unique_ptr<DlpiWay>> ways;
  std::vector<Arm> arms;
  const std::array<std::pair<const char*, std::size_t>, 3> kinds{{{"one_block", 0}, {"of_8k", 8192}, {"of_2k", 2048}}};
  for (const auto& [name, bytes] : kinds) {
    ways.push_back(std::make_unique<DlpiWay>(wire_end(name, 'a', 65535), wire_end(name, 'b', 65535), tsdu));
    if (bytes != 0) {
      ways.back()->sender_stream().head().options().block_bytes_max = bytes;
    }
    add_arms(arms, *ways.back(), name, ProcessingMode::layered, sizes);
  }
  const Rounds rounds(std::move(arms));
  for (const auto& way : ways) {
    ASSERT_TRUE(way->whole());
  }
  for (const std::size_t size : sizes) {
    for (const auto& [name, bytes] : kinds) {
      for (const char* const side : sides) {
        const std::string arm = std::string(name) + "_" + side;
        time.add(arm, size, rounds.nanoseconds(keyed(name, side, size)));
        if (bytes != 0) {
          ratio.add(arm + "/one_block", size, rounds.ratio(keyed(name, side, size), keyed("one_block", side, size)));
        }
      }
    }
  }
}

TEST(dlpi_tli, best_fit) {
  const Figure figure("best_fit", "bytes a byte");
  for (const std::size_t size :
       full_or_tiny<std::size_t>({64, 100, 500, 1000, 1472, 3000, 10000, 30000, 60000, tsdu}, {1000, tsdu})) {
    for (const std::size_t block : {std::size_t{2048}, std::size_t{0}}) {
      std::size_t taken = 0;
      for (std::size_t left = size; left > 0;) {
        const std::size_t part = block == 0 ? left : std::min(block, left);
        taken += BufferPool::class_capacity(part);
        left -= part;
      }
      Samples samples;
      for (std::size_t at = 0; at < repetitions(); ++at) {  // counted, so all are alike
        samples.add(static_cast<double>(taken) / static_cast<double>(size));
      }
      figure.add(block == 0 ? "best_fit" : "blocks_of_2k", size, samples);
    }
  }
}

// ---- Through the kernel. These enter namespaces of their own, so they come last ----

TEST(dlpi_tli, veth) {
  if (const std::string missing = VethLab::missing(); !missing.empty()) {
    GTEST_SKIP() << "this figure needs " << missing;
  }
  veth_lab().add_link("dlpi");
  veth_lab().add_link("tli");
  DlpiWay dlpi(veth_end("dlpi", '0'), veth_end("dlpi", '1'), 1500);
  TliWay tli(veth_end("tli", '0'), veth_end("tli", '1'), 1500);
  dlpi_against_tli("veth", dlpi, tli);
}

TEST(dlpi_tli, large) {
  if (const std::string missing = VethLab::missing(); !missing.empty()) {
    GTEST_SKIP() << "this figure needs " << missing;
  }
  veth_lab().add_link("large");
  TliWay way(veth_end("large", '0'), veth_end("large", '1'), tsdu);
  const std::vector<std::size_t> sizes =
      full_or_tiny<std::size_t>({1000, 1472, 3000, 6000, 10000, 20000, 30000, 40000, 50000, 60000, tsdu}, {1000, tsdu});
  std::vector<Arm> arms;
  for (const ProcessingMode mode : modes) {
    add_arms(arms, way, std::string(name_of(mode)), mode, sizes);
  }
  const Rounds rounds(std::move(arms));
  ASSERT_TRUE(way.whole()) << "messages were lost";
  const Figure figure("large", "Mbit/s");
  const Figure calls("large_calls", "calls of 1000 bytes");
  for (const ProcessingMode mode : modes) {
    for (const char* const side : sides) {
      for (const std::size_t size : sizes) {
        const std::string path(name_of(mode));
        figure.add(path + "_" + side, size, rounds.megabits_per_second(keyed(path, side, size), size));
      }
    }
    const std::string path(name_of(mode));
    for (const std::size_t size : sizes) {
      calls.add(path, size, rounds.ratio(keyed(path, "sender", 1000), keyed(path, "sender", size)));
    }
  }
}

TEST(dlpi_tli, jumbo) {
  if (const std::string missing = VethLab::missing(); !missing.empty()) {
    GTEST_SKIP() << "this figure needs " << missing;
  }
  const std::vector<std::size_t> sizes =
      full_or_tiny<std::size_t>({1400, 3000, 6000, 8900, 20000, 40000, tsdu}, {1400, 8900, tsdu});
  const std::vector<std::size_t> frames = full_or_tiny<std::size_t>({1400, 3000, 6000, 8900}, {1400, 8900});
  for (const char* const name : {"tl15", "tl90", "dl90"}) {
    veth_lab().add_link(name, std::string(name).ends_with("15") ? 1500 : 9000);
  }
  TliWay tli_1500(veth_end("tl15", '0'), veth_end("tl15", '1'), tsdu);
  TliWay tli_9000(veth_end("tl90", '0'), veth_end("tl90", '1'), tsdu);
  DlpiWay dlpi_9000(veth_end("dl90", '0'), veth_end("dl90", '1'), 8900);
  std::vector<Arm> arms;
  add_arms(arms, tli_1500, "tli_1500", ProcessingMode::layered, sizes);
  add_arms(arms, tli_9000, "tli_9000", ProcessingMode::layered, sizes);
  add_arms(arms, dlpi_9000, "dlpi_9000", ProcessingMode::layered, frames);
  const Rounds rounds(std::move(arms));
  ASSERT_TRUE(tli_1500.whole() && tli_9000.whole() && dlpi_9000.whole()) << "messages were lost";
  const Figure figure("jumbo", "Mbit/s");
  const Figure gain("jumbo_gain", "ratio");
  for (const char* const side : sides) {
    for (const std::size_t size : sizes) {
      for (const std::string arm : {"tli_1500", "tli_9000"}) {
        figure.add(arm + "_" + side, size, rounds.megabits_per_second(keyed(arm, side, size), size));
      }
      gain.add(std::string("tli_") + side, size,
               rounds.ratio(keyed("tli_9000", side, size), keyed("tli_1500", side, size)));
    }
    for (const std::size_t size : frames) {
      figure.add(std::string("dlpi_9000_") + side, size,
                 rounds.megabits_per_second(keyed("dlpi_9000", side, size), size));
      // Bytes a second, of messages of either size: DLPI's largest were 1500 bytes.
      const Samples messages = rounds.ratio(keyed("dlpi_9000", side, size), keyed("dlpi_9000", side, 1400));
      gain.add(std::string("dlpi_") + side, size, messages.times(static_cast<double>(size) / 1400));
    }
  }
}

}  // namespace
}  // namespace sluice::bench
