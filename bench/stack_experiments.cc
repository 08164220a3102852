// SPDX-License-Identifier: Apache-2.0

// What the fused path is worth to a whole stack, from user memory to user memory, and what share of its time a stack
// spends on bytes at all.
//
// Two endpoints in one stream set; datagrams leave by t_sndudata and come by t_rcvudata. Arms are one stack, one pair
// of sockets and one set of buffers, whose path is switched between the turns:
//   layered   every module that asks something of the payload makes its pass at once
//   fused     all of it happens in the pass that copies, at either end; messages below a threshold
//             (StreamSet::Options::defer_bytes_min) have no plan there: the default one over `wire` in cache, 1024
//             bytes, as ftx has it, where bytes come from memory or a device
// and over the wire in memory, where nothing but the stack is at work,
//   planned   fused with a threshold of 0: every message has a plan. Where it loses to layered, the threshold is right
//   kernel    the two kernels that the fused path comes down to, without a stack: ilp::swap_sum_copy from the user to a
//             slot, ilp::sum_swap_copy from there to the user
//
// Time is this thread's CPU time for both ends, with what the kernel does in its context. The share of a path's time
// that is spent on bytes is estimated as what it needs beyond datagrams of 8 bytes, within the same round; the kernel's
// own copies of the payload are part of it. Where it is small, no way of touching bytes can gain much.
//
//   wire, wire_memory   ip, udp (checksum on), xdr, timod over `wire`, one message at a time: always the same two
//                       buffers; buffers in turn out of 128 MiB, sources and destinations together
//   kernel_udp          xdr, timod over `kernel_udp`, loopback, windows of datagrams; "_gso" with segmentation and
//                       coalescing by the kernel, the rest without
//   instructions        ip, udp, timod in batches and ip, udp, xdr, timod one by one, over `wire`: not timed, counted
//   by
//                       bench/instructions.py, which needs valgrind
//   veth                ip, udp, timod over `packet` with its ring by block, one veth pair (bench/veth_lab.h), windows
//                       of 1024 datagrams; "_no_xdr" without xdr, the rest with it
//
//   segments_*          several datagrams in one message: bench/stack_segments.cc
//
// Before anything is timed, each path must bring the bytes whole, and from the threshold on the fused one must touch
// fewer of them; a datagram that is lost fails the test.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "bench/experiment.h"
#include "bench/stack_pair.h"
#include "ilp/kernels.h"

namespace sluice::bench {
namespace {

constexpr std::size_t largest = 65504;  // the most of a UDP datagram that is a multiple of 8
constexpr std::size_t MiB = std::size_t{1} << 20;

/// That both paths do the same work, and the fused one with fewer passes where it has a plan; otherwise comparing them
/// means nothing.
void expect_same_work(Pair& pair, const UserMemory& memory) {
  std::array<std::uint64_t, 2> loaded{};
  for (const ProcessingMode mode : {ProcessingMode::layered, ProcessingMode::fused}) {
    pair.set_mode(mode);
    std::ranges::fill(memory.to(), std::byte{0});
    const std::uint64_t before = pair.loaded_bytes();
    pair.move(1, memory.from(), memory.to());
    loaded[mode == ProcessingMode::fused ? 1 : 0] = pair.loaded_bytes() - before;
    EXPECT_TRUE(std::ranges::equal(memory.from(), memory.to())) << name_of(mode);
  }
  if (memory.from().size() >= pair.threshold()) {
    EXPECT_LT(loaded[1], loaded[0]);
  } else if (pair.may_lend()) {
    EXPECT_LE(loaded[1], loaded[0]);
  } else {
    EXPECT_EQ(loaded[1], loaded[0]);
  }
}

/// The arm that moves windows over `path`; its time is that of one datagram.
Arm stack_arm(const std::string& name, Pair& pair, ProcessingMode mode, std::size_t window, UserMemory& memory) {
  const Arm windows = timed(name, [&pair, &memory, window] {
    memory.advance();
    pair.move(window, memory.from(), memory.to());
  });
  return {name, [&pair, mode, window, windows] {
            pair.set_mode(mode);
            return windows.seconds() / static_cast<double>(window);
          }};
}

/// Both paths, with datagrams of `memory`'s size, and of 8 bytes in "_fixed".
std::vector<Arm> stack_arms(Pair& pair, std::size_t window, UserMemory& memory, UserMemory& small) {
  return {stack_arm("layered", pair, ProcessingMode::layered, window, memory),
          stack_arm("fused", pair, ProcessingMode::fused, window, memory),
          stack_arm("layered_fixed", pair, ProcessingMode::layered, window, small),
          stack_arm("fused_fixed", pair, ProcessingMode::fused, window, small)};
}

// ---- A wire in memory ----

std::string wire_stack(char end, char number) {
  return std::string("driver = { kind = 'wire', name = 'lab', end = '") + end + "', mtu = 65535 }\n" +
         "ip = { address = '10.78.0." + number + "/24' }\npush = ['ip', 'udp', 'xdr', 'timod']\n";
}

void over_the_wire(const std::string& figure, std::size_t total, bool with_planned, std::size_t defer_bytes_min) {
  const Figure time(figure, "ns");
  const Figure ratio(figure + "_ratio", "ratio");
  const Figure share(figure + "_share", "share");
  const End near{wire_stack('a', '1'), {{10, 78, 0, 1}}};
  const End far{wire_stack('b', '2'), {{10, 78, 0, 2}}};
  Pair pair(near, far, nullptr, {.defer_bytes_min = defer_bytes_min});
  Pair planned(near, far, nullptr, {.defer_bytes_min = 0});
  UserMemory small(smallest, 0);
  for (const std::size_t size :
       full_or_tiny<std::size_t>({64, 256, 1024, 1400, 4096, 8192, 16384, 32768, largest}, {64, largest})) {
    UserMemory memory(size, total);
    expect_same_work(pair, memory);
    const UserMemory slots(size, 0);
    std::vector<Arm> arms = stack_arms(pair, 1, memory, small);
    if (with_planned) {
      expect_same_work(planned, memory);
      arms.push_back(stack_arm("planned", planned, ProcessingMode::fused, 1, memory));
    }
    arms.push_back(timed("kernel", [&memory, slot = slots.from()] {
      memory.advance();
      keep(ilp::swap_sum_copy(4, memory.from(), slot));
      keep(ilp::sum_swap_copy(4, slot, memory.to()));
    }));
    const Rounds rounds(std::move(arms));
    ASSERT_TRUE(pair.whole() && planned.whole()) << "datagrams were lost";
    for (const char* arm : {"layered", "fused", "kernel"}) {
      time.add(arm, size, rounds.nanoseconds(arm));
    }
    if (with_planned) {
      time.add("planned", size, rounds.nanoseconds("planned"));
      ratio.add("planned/layered", size, rounds.ratio("planned", "layered"));
    }
    ratio.add("fused/layered", size, rounds.ratio("fused", "layered"));
    ratio.add("fused/kernel", size, rounds.ratio("fused", "kernel"));
    // The bounds of fused/layered: bytes that cost a pass and nothing else, without a stack and with today's.
    ratio.add("kernel/layered", size, rounds.ratio("kernel", "layered"));
    ratio.add("fixed+kernel/layered", size, rounds.ratio_of_sum({"layered_fixed", "kernel"}, "layered"));
    for (const std::string arm : {"layered", "fused"}) {
      share.add(arm, size, rounds.share_beyond(arm, arm + "_fixed"));
    }
  }
}

TEST(stack, wire) { over_the_wire("wire", 0, true, StreamSet::Options().defer_bytes_min); }

TEST(stack, wire_memory) { over_the_wire("wire_memory", tiny() ? 2 * MiB : 128 * MiB, false, afar_defer_bytes_min); }

// ---- Counted ----

/// Instructions of a datagram, of whatever CPU: bench/instructions.py says why.
TEST(stack, instructions) {
  if (std::system("valgrind --version >/dev/null 2>&1") != 0) {
    GTEST_SKIP() << "this figure needs valgrind";
  }
  const Figure figure("instructions", "instructions");
  const std::string program = std::filesystem::read_symlink("/proc/self/exe").parent_path() / "datagram_cost";
  const std::string command = SLUICE_SOURCE_DIR "/bench/instructions.py " + program +
                              (tiny() ? " --datagrams 64 --bytes 64" : " --bytes 64 256 1024 1400");
  std::FILE* counts = ::popen(command.c_str(), "r");
  ASSERT_NE(counts, nullptr);
  std::array<char, 256> text{};
  while (std::fgets(text.data(), static_cast<int>(text.size()), counts) != nullptr) {
    std::istringstream words(text.data());
    std::string arm;
    std::string mode;
    std::size_t size = 0;
    double count = 0;
    ASSERT_TRUE(words >> arm >> mode >> size >> count) << text.data();
    Samples samples;
    samples.add(count);
    figure.add(arm + "_" + mode, size, samples);
  }
  EXPECT_EQ(::pclose(counts), 0);
}

// ---- Through the kernel ----

/// What a path through the kernel gives: how much faster fused is than layered, and the shares of bytes.
void add_gain(const Figure& figure, const std::string& variant, Pair& pair, std::size_t window, std::size_t size) {
  UserMemory small(smallest, 0);
  UserMemory memory(size, 0);
  expect_same_work(pair, memory);
  const Rounds rounds(stack_arms(pair, window, memory, small));
  ASSERT_TRUE(pair.whole()) << "datagrams were lost";
  figure.add("fused/layered" + variant, size, rounds.ratio("fused", "layered"));
  for (const std::string arm : {"layered", "fused"}) {
    figure.add("share_of_bytes_" + arm + variant, size, rounds.share_beyond(arm, arm + "_fixed"));
  }
}

TEST(stack, kernel_udp) {
  const Figure figure("kernel_udp", "ratio");
  for (const bool gso : {false, true}) {
    const std::string offload = gso ? "true" : "false";
    const End end{
        "driver = { kind = 'kernel_udp', gso = " + offload + ", gro = " + offload + " }\npush = ['xdr', 'timod']\n",
        {{127, 0, 0, 1}}};
    Pair pair(end, end, nullptr, {.defer_bytes_min = afar_defer_bytes_min});
    add_gain(figure, gso ? "_gso" : "", pair, 32, 1400);
    if (!gso) {  // two datagrams of that size make no run
      add_gain(figure, "", pair, 4, 60000);
    }
  }
}

/// Last, since it takes the program into namespaces of its own.
TEST(stack, veth) {
  if (const std::string missing = VethLab::missing(); !missing.empty()) {
    GTEST_SKIP() << "this figure needs " << missing;
  }
  const VethLab& lab = veth_lab();
  const Figure figure("veth", "ratio");
  for (const bool xdr : {true, false}) {
    const auto stack = [xdr](const std::string& device, char number) {
      return "driver = { kind = 'packet', device = '" + device + "', ring = 'block', mac = '02:00:00:00:00:0" + number +
             "' }\nip = { address = '10.78.0." + number + "/24' }\npush = ['ip', 'udp', " + (xdr ? "'xdr', " : "") +
             "'timod']\n";
    };
    Pair pair({stack("near", '1'), {{10, 78, 0, 1}}}, {stack("far", '2'), {{10, 78, 0, 2}}}, &lab,
              {.defer_bytes_min = afar_defer_bytes_min});
    for (const std::size_t size : full_or_tiny<std::size_t>({512, 1400}, {1400})) {
      add_gain(figure, xdr ? "" : "_no_xdr", pair, tiny() ? 128 : 1024, size);
    }
  }
}

}  // namespace
}  // namespace sluice::bench
