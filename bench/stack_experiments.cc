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
// Before anything is timed, each path must bring the bytes whole, and from the threshold on the fused one must touch
// fewer of them; a datagram that is lost fails the test.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "apps/common/registry.h"
#include "base/contract.h"
#include "bench/arena.h"
#include "bench/experiment.h"
#include "bench/veth_lab.h"
#include "edge/run_loop.h"
#include "ilp/kernels.h"
#include "stack/head/stack_file.h"
#include "stack/wire/address.h"
#include "tli/endpoint.h"

namespace sluice::bench {
namespace {

constexpr std::size_t smallest = 8;     // bytes of the datagram that stands for the cost of any datagram
constexpr std::size_t largest = 65504;  // the most of a UDP datagram that is a multiple of 8
constexpr std::size_t afar_defer_bytes_min = 1024;
constexpr std::size_t MiB = std::size_t{1} << 20;
constexpr std::size_t line = 64;
constexpr Duration silence_max = std::chrono::milliseconds(500);  // what is not there by then is lost

/// Where the user's data lies: as many sources and destinations of `size` bytes as `total` holds, at least one of each.
class UserMemory {
 public:
  UserMemory(std::size_t size, std::size_t total)
      : size_(size),
        stride_((size + line - 1) / line * line),
        count_(std::max<std::size_t>(1, total / 2 / stride_)),
        arena_(2 * count_ * stride_ + half_page) {}

  /// The next pair, of all in turn.
  void advance() { at_ = at_ + 1 == count_ ? 0 : at_ + 1; }
  [[nodiscard]] Bytes from() const { return {arena_.start() + at_ * stride_, size_}; }
  [[nodiscard]] Bytes to() const { return {arena_.start() + (count_ + at_) * stride_ + half_page, size_}; }

 private:
  static constexpr std::size_t half_page = 2048;

  std::size_t size_;
  std::size_t stride_;
  std::size_t count_;
  Arena arena_;
  std::size_t at_ = 0;
};

/// One end of a pair: its stack, as in a stack file, and the address it binds.
struct End {
  std::string stack;
  wire::Ipv4Address address;
};

/// Two endpoints in one stream set. REQUIRES: `lab`, if any, outlives it.
class Pair {
 public:
  Pair(const End& near, const End& far, const VethLab* lab = nullptr, StreamSet::Options options = {})
      : set_(options), loop_(std::move(RunLoop::open(set_)).value()) {
    if (lab != nullptr) {
      lab->enter_far();
    }
    far_ = open(far);
    if (lab != nullptr) {
      lab->enter_near();
    }
    near_ = open(near);
    introduce();
  }

  void set_mode(ProcessingMode mode) {
    near_->stream().set_mode(mode);
    far_->stream().set_mode(mode);
  }

  /// Sends `window` datagrams and receives them. Once one is lost, nothing moves any more.
  void move(std::size_t window, Bytes from, Bytes to) {
    for (std::size_t sent = 0; whole_ && sent < window; ++sent) {
      whole_ = near_->t_sndudata(unit(peer_, peer_size_, from)).has_value();
    }
    set_.scheduler().poll(set_.now());
    for (std::size_t received = 0; whole_ && received < window;) {
      if (take(to)) {
        ++received;
      } else {
        whole_ = loop_->wait(loop_->now() + silence_max);
      }
    }
  }
  /// Whether every datagram has come.
  [[nodiscard]] bool whole() const { return whole_; }
  /// Bytes from which a message of the fused path has a plan.
  [[nodiscard]] std::size_t threshold() const { return set_.defer_bytes_min(); }
  /// Bytes that the stack has loaded so far.
  [[nodiscard]] std::uint64_t loaded_bytes() { return set_.pool().touches().loaded_bytes; }

 private:
  using Address = std::array<std::byte, wire::TransportAddress::encoded_size_max>;

  std::unique_ptr<tli::Endpoint> open(const End& end) {
    static const Registry registry = standard_registry();
    const Result<StackFile> file = StackFile::parse("[stack.end]\n" + end.stack, "stack_experiments", registry);
    SLUICE_REQUIRE(file.has_value());
    Result<std::unique_ptr<Stream>> stream = open_stack(set_, file->stacks().front());
    if (!stream) {
      std::fprintf(stderr, "%s\n", stream.error().text.c_str());
      std::exit(1);
    }
    (*stream)->set_nonblocking(true);
    auto endpoint = tli::Endpoint::t_open(std::move(*stream), nullptr);
    SLUICE_REQUIRE(endpoint.has_value());
    Address any{};
    const std::size_t any_size = wire::TransportAddress{end.address, 0}.encode(any);
    const tli::t_bind request{.addr = {any.size(), any_size, any.data()}};
    // The first that is opened is the far end, whose address is the peer's.
    tli::t_bind bound{.addr = {peer_.size(), 0, peer_.data()}};
    SLUICE_REQUIRE((*endpoint)->t_bind(&request, peer_size_ == 0 ? &bound : nullptr).has_value());
    peer_size_ = std::max(peer_size_, bound.addr.len);
    return std::move(*endpoint);
  }

  static tli::t_unitdata unit(Address& address, std::size_t address_size, Bytes data) {
    return {.addr = {address.size(), address_size, address.data()},
            .opt = {},
            .udata = {data.size(), data.size(), data.data()}};
  }

  /// Whether one has come.
  bool take(Bytes to) {
    Address sender;
    tli::t_unitdata received = unit(sender, 0, to);
    int flags = 0;
    if (const auto taken = far_->t_rcvudata(received, flags); !taken) {
      SLUICE_REQUIRE(taken.error().t_errno == wire::tpi::TNODATA);
      return false;
    }
    whole_ = whole_ && flags == 0 && received.udata.len == to.size();
    return true;
  }

  /// The first datagram finds the neighbour.
  void introduce() {
    std::array<std::byte, smallest> data{};
    whole_ = near_->t_sndudata(unit(peer_, peer_size_, data)).has_value();
    for (int tries = 0; whole_ && !take(data); ++tries) {
      static_cast<void>(loop_->wait(loop_->now() + std::chrono::milliseconds(1)));
      whole_ = tries < 1000;
    }
  }

  StreamSet set_;
  std::unique_ptr<RunLoop> loop_;
  std::unique_ptr<tli::Endpoint> near_;
  std::unique_ptr<tli::Endpoint> far_;
  Address peer_{};
  std::size_t peer_size_ = 0;
  bool whole_ = true;
};

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
  static const VethLab lab;
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
